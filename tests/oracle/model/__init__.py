"""A scalar model of the tensor core's arithmetic, written apart from Drywell: it imports nothing of it."""

from oracle.model.dot import FORMATS, dot
from oracle.model.matmul import matmul

__all__ = ["FORMATS", "dot", "matmul"]
