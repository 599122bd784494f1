"""A scalar model of the tensor core's arithmetic, written apart from Drywell: it imports nothing of it.

`dot`, `block_dot` and `integer_dot` make one word of D from codes, `matmul` chains instructions along K,
`cases` draws tiles of operands and `words` runs one.
"""

from oracle.model.block import block_dot
from oracle.model.cases import VARIANTS, cases
from oracle.model.dot import dot
from oracle.model.integer import integer_dot
from oracle.model.matmul import matmul
from oracle.model.numbers import FORMATS
from oracle.model.tile import Tile, word, words

__all__ = [
    "FORMATS",
    "VARIANTS",
    "Tile",
    "block_dot",
    "cases",
    "dot",
    "integer_dot",
    "matmul",
    "word",
    "words",
]
