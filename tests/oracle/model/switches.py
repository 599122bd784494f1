"""The switches of the scalar model: for each kind what the other way of each is.

The model's defaults are the recommended form; what a switch means is said at `dot` and at
`block.Corners`. Both FP4 kinds have all of theirs, also mxf4 those that only ue4m3 scales give a
meaning: they must change nothing there. Sources: those of `dot` and `block`.
"""

from __future__ import annotations

ZEROS: dict[str, int] = {"zero_products_in_window": True}
FP4: dict[str, int] = {
    **ZEROS,
    "zero_blocks_in_window": False,
    "zero_scales_in_window": True,
    "d_widens_below_products": False,
    "ue4m3_group": 4,
    "drop_subnormal_groups": True,
    "no_products_keep_d": False,
    "no_products_keep_minus_zero": True,
}
SWITCHES: dict[str, dict[str, int]] = {
    **dict.fromkeys(("f16", "tf32", "f8f6f4", "mxf8f6f4"), ZEROS),
    "i8": {},
    **dict.fromkeys(("mxf4", "mxf4nvf4"), FP4),
}
# Switches whose other way neither public model takes (the second: sf-tensor no longer does).
UNTAKEN = ("zero_scales_in_window", "no_products_keep_minus_zero")

# The FP4 kinds as each public model of the hardware has them, over the defaults.
SF_TENSOR: dict[str, int] = {
    "zero_blocks_in_window": False,
    "d_widens_below_products": False,
    "ue4m3_group": 4,
    "drop_subnormal_groups": True,
}
MMA_SIM: dict[str, int] = {"zero_products_in_window": True, "no_products_keep_d": False}
