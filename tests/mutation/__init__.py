"""Kernels broken on purpose, and what tells of it."""
