"""The switches of the arithmetic: where the public models part, and the way that is not the default."""

FLOAT: dict[str, int] = {"zero_products_in_window": True}
FP4: dict[str, int] = {
    "zero_blocks_in_window": False,
    "d_widens_below_products": False,
    "ue4m3_group": 4,
    "drop_subnormal_groups": True,
    "zero_scales_in_window": True,
    "zero_products_in_window": True,
    "no_products_keep_d": False,
    "no_products_keep_minus_zero": True,
}
SWITCHES: dict[str, dict[str, int]] = {
    **dict.fromkeys(("f16", "tf32", "f8f6f4", "mxf8f6f4"), FLOAT),
    "i8": {},
    **dict.fromkeys(("mxf4", "mxf4nvf4"), FP4),
}
UNTAKEN = ("zero_scales_in_window", "no_products_keep_minus_zero")
"""Switches whose other way neither public model takes today: what they change is not in dispute."""

SF_TENSOR: dict[str, int] = {  # what makes `block_dot` the model of sf-tensor/tcgen05
    "zero_blocks_in_window": False,
    "d_widens_below_products": False,
    "ue4m3_group": 4,
    "drop_subnormal_groups": True,
}
MMA_SIM: dict[str, int] = {  # and that of microsoft/MMA-Sim
    "zero_products_in_window": True,
    "no_products_keep_d": False,
}
