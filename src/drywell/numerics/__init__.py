"""Number formats, conversions, IEEE arithmetic on bit patterns, and the tensor core's accumulation window.

Pure functions over NumPy arrays of codes; no state. May import `base` and `arch` only.
"""

from drywell.numerics.block_scale import mma_mxf4
from drywell.numerics.comparison import (
    COMPARISONS,
    absolute,
    compare,
    copy_sign,
    has_property,
    maximum,
    minimum,
    negate,
)
from drywell.numerics.conversion import (
    clamp_unit,
    clear_negative,
    convert,
    flush_subnormals,
    from_float32,
    from_float64,
    from_integer,
    round_to_integral,
    to_integer,
)
from drywell.numerics.corners import DEFAULT_CORNERS, K96_WINDOW, MMA_SIM, SF_TENSOR, Corners, Unsettled
from drywell.numerics.dot import MULTIPLICAND_FORMATS, WINDOW_BITS, mma_f16, mma_f32
from drywell.numerics.fast_dot import float32_of, mma_fast
from drywell.numerics.formats import (
    CONSTANTS,
    FORMATS,
    Decoded,
    Format,
    as_codes,
    decode,
    is_nan,
    to_float64,
)
from drywell.numerics.integer_dot import mma_i8
from drywell.numerics.rounding import ROUNDINGS, Rounding
from drywell.numerics.softfloat import ARITHMETIC_FORMATS, add, div, fma, mul, rcp, sqrt, sub
from drywell.numerics.sparsity import SPARSE_RULES, IllegalCode, Selection, SparseRule, expand, select

__all__ = [
    "ARITHMETIC_FORMATS",
    "COMPARISONS",
    "CONSTANTS",
    "DEFAULT_CORNERS",
    "FORMATS",
    "K96_WINDOW",
    "MMA_SIM",
    "MULTIPLICAND_FORMATS",
    "ROUNDINGS",
    "SF_TENSOR",
    "SPARSE_RULES",
    "WINDOW_BITS",
    "Corners",
    "Decoded",
    "Format",
    "IllegalCode",
    "Rounding",
    "Selection",
    "SparseRule",
    "Unsettled",
    "absolute",
    "add",
    "as_codes",
    "clamp_unit",
    "clear_negative",
    "compare",
    "convert",
    "copy_sign",
    "decode",
    "div",
    "expand",
    "float32_of",
    "flush_subnormals",
    "fma",
    "from_float32",
    "from_float64",
    "from_integer",
    "has_property",
    "is_nan",
    "maximum",
    "minimum",
    "mma_f16",
    "mma_f32",
    "mma_fast",
    "mma_i8",
    "mma_mxf4",
    "mul",
    "negate",
    "rcp",
    "round_to_integral",
    "select",
    "sqrt",
    "sub",
    "to_float64",
    "to_integer",
]
