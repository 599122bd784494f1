"""PTX text to syntax tree and back. Knows the grammar, no opcode.

`parse` reads a text as far as it can be read and reports everything that is wrong with it,
`parse_module` raises PtxError instead, `print_module` writes a tree as text. The nodes are in
`drywell.ptx.tree`.
"""

from drywell.ptx.codes import CODES
from drywell.ptx.parser import parse, parse_module
from drywell.ptx.printer import print_module, print_operand, print_statement

__all__ = ["CODES", "parse", "parse_module", "print_module", "print_operand", "print_statement"]
