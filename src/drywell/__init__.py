"""Run unmodified data-center Blackwell kernels (PTX for sm_100a and its kin) on an ordinary CPU."""

__version__ = "0.1.0"
