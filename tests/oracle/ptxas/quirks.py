"""Rows that are not asked: where `ptxas` 13.0 is careless, its verdict says nothing about the language."""

from __future__ import annotations

import re

TOLERATED_TWICE = frozenset(["sat", "cc", "sync", "shiftamt", "uni", "approx", "relu", "satfinite", "NaN"])
"""Words that `ptxas` takes as often as they are written."""

QUIRKS = (
    (r"^tcgen05\.mma.* !?%p\d, !?%p\d", "a predicate where four masks should stand"),
    (r"^mbarrier\.arrive(_drop)?\b.*\], \{", "a brace list for a count"),
    (
        r"^clusterlaunchcontrol\.query_cancel.*, (\{|-?1;)",
        "a brace list or a constant for a 128-bit register",
    ),
    (r"^cvt\..*ue8m0x2\.bf16x2 .*, (\{|!?%p)", "a brace list or a predicate for a packed register"),
    (r"^movmatrix\..*, (0f|!?%p)", "a constant or a predicate for a register"),
    (r"^mov\.[bus]16 %\w+, (%tid|%clock|[gs]var)", "a special register or an address cut to 16 bits"),
    (r"^mov\.v[24]\..*, [^{]*;", "one value for several"),
    (r"^mov\.b32 \{%\w+\}, ", "a brace list of one"),
    (r"^isspacep\..*, %[us]?r", "a 32-bit register for a generic address"),
    (r"^getctarank\.u32 .*, [gs]var", "a generic address cut to 32 bits"),
    (r"bf16x2\S* .*\{%r201", "a brace list for a packed register"),
    (r"^multimem\..*x4 (%sr|%f|\{%r201\})", "any register for packed floats"),
    (r"^st\.bulk\..*, %[us]r", "a 32-bit register for a 64-bit size"),
    (r"^st\.async\..*mbarrier::complete_tx::bytes.*\], [^,{]*;", "no mbarrier where one is named"),
    (r"^st\.async\..*\.v[24]\..*\], [^{]*, \[", "one value for several"),
    (r"^st\.async(?!.*mbarrier::complete_tx).*\], .*, \[", "an mbarrier without its words"),
    (r"^st\.async(?!.*\.v[24]).*\], \{", "several values for one"),
    (r"^st\.async\.v?\S*\.f32 .*\{.*, 1\}", "an integer constant for a float"),
    (r"^st\.async\.(cta|cluster|gpu|sys)\.", "a scope without semantics"),
    (r"^red\.async\..*mbarrier::complete_tx::bytes.*\], [^,]*;", "no mbarrier where one is named"),
    (r"^(atom|red)\..* _,", "a sink for what cannot be dropped"),
    (r"^multimem\..*x[24] .*, 1\}", "an integer constant for packed floats"),
    (r"^tensormap\.replace\..*, (0[fd]|%f)", "a float for a field"),
    (r"^mma\.sync\..*\.f64\.r[nz] ", "a rounding that has no form"),
    (r"^mma\.sp\S*\.v2 ", "a vector that there is none of"),
    (r"^mma\.sp\S* .*, (0f\w+|\{[^}]*\}), \d;", "a float or a brace list for the metadata"),
    (r"^mma\.sp\S*\.m16n8k32\.row\.col\.f32\.f16\S* .*, [23];", "a sparsity selector beyond 1"),
    (r"^cvt\..*, %(tid\.x|clock64);", "a special register of another width"),
    (r"^cvt\..*\.(tf32\.f32|bf16x2) .*, 0[fd]", "a float constant"),
    (r"^cvt\.rs\..*, (%[us]r|%f)\d;", "random bits in a .u32, .s32 or .f32 register, which it refuses"),
    (r"^call(\.uni)? %", "a call through a register"),
    (r"^fence\.proxy\..*\.(shared|global) ?;", "a state space that says nothing"),
    (r"^setmaxnreg\..*\.s32 ", "another type than .u32"),
    (r"^testp\.f(32|64) ", "no test at all"),
)
"""Rows that are not asked, with what `ptxas` 13.0 takes there though it can mean nothing.

The last is no carelessness of `ptxas`: Drywell only knows such a call as unsupported, legal or not.
"""

_QUIRKS = tuple(re.compile(pattern) for pattern, _ in QUIRKS)


def is_quirk(text: str) -> bool:
    """Say whether a row is one that `ptxas` takes by carelessness, so that its verdict says nothing."""
    words = text.partition(" ")[0].rstrip(";").split(".")
    return any(words.count(w) > 1 for w in TOLERATED_TWICE) or any(q.search(text) for q in _QUIRKS)
