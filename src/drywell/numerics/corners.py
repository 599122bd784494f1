"""The corners of the tensor core's arithmetic that no public material settles, each a switch with a default.

The two public models of the B200, sf-tensor/tcgen05 (tcgen05_model/model.py) and microsoft/MMA-Sim
(mmasim/simulator/arithmetic.py), agree everywhere but in these corners. A multiplication that is handed an
`Unsettled` counter adds to it, under the switch's name, the number of words of D that the other position of
that switch would have changed; nothing is added where the question makes no difference.
"""

from __future__ import annotations

from collections import Counter

from drywell.base.record import record

Unsettled = Counter[str]
"""How many words hang on each open question: names of `Corners`' fields, and `k96_window`."""

K96_WINDOW = "k96_window"
"""Words of K = 96 in which the window dropped bits: no public model covers that form at all."""


@record
class Corners:
    """One position for each open question.

    `zero_products_in_window`: a zero operand or D has exponent -126 and holds the window up (MMA-Sim); else
    zeros stay out (sf-tensor). All floating kinds.
    `scaled_d_flushes`: with scale-input-d, a D * 2^-s below the smallest normal number of D's format is
    taken as zero. No model has scale-input-d. Kinds f16 and tf32.

    The others are for mxf4 and mxf4nvf4:
    `zero_blocks_in_window`: the scales of a block whose products are all zero count in S (MMA-Sim), else
    only those of blocks with a non-zero product (sf-tensor).
    `d_sets_window_above_scales`: D's exponent c sets the window as soon as it is above S (MMA-Sim); else,
    for ue4m3, only once it reaches the largest exponent of a product (sf-tensor).
    `nvf4_group`: 16 (MMA-Sim) or 4 (sf-tensor) consecutive products are added exactly before the cut, for
    ue4m3 scales and while D is below the products.
    `drops_tiny_groups`: for ue8m0 and a subnormal result, groups below 2^-174 whose scales are not the
    largest are dropped (sf-tensor); MMA-Sim has no such rule.
    `zero_products_keep_d`: when all products are zero the old D stays as it is (sf-tensor); else it goes
    through the window and may lose bits to the scales of zero blocks (MMA-Sim).
    `zero_products_keep_minus_zero`: a D of -0 stays then, too. MEASURED: it becomes +0, in every
    block-scaled kind; B200, by sf-tensor/tcgen05 (tcgen05_model/validation.py of commit 8fce64d; the first
    release had it stay). So this one is not counted.
    `zero_scales_in_window`: a ue4m3 scale of zero counts in S with the exponent -6 that its code stores. Both
    models leave it out, so this one is not counted either.
    """

    zero_products_in_window: bool = False
    scaled_d_flushes: bool = False
    zero_blocks_in_window: bool = True
    d_sets_window_above_scales: bool = True
    nvf4_group: int = 16
    drops_tiny_groups: bool = False
    zero_products_keep_d: bool = True
    zero_products_keep_minus_zero: bool = False
    zero_scales_in_window: bool = False


DEFAULT_CORNERS = Corners()

SF_TENSOR = Corners(
    zero_blocks_in_window=False,
    d_sets_window_above_scales=False,
    nvf4_group=4,
    drops_tiny_groups=True,
)
"""The corners as sf-tensor/tcgen05 has them, commit 8fce64d."""

MMA_SIM = Corners(zero_products_in_window=True, zero_products_keep_d=False)
"""The corners as microsoft/MMA-Sim has them, commit c785138."""
