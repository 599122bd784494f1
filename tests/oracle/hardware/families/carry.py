"""Chains of extended-precision arithmetic: what the hidden carry bit hands from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oracle.hardware.columns import ROWS, column
from oracle.hardware.experiment import HEADER, Experiment, In, Out

CHAINS = {
    "sums": ("add.cc.T d0, a, b", "addc.cc.T d1, b, c", "addc.T d2, a, c", "addc.T d3, c, c"),
    "differences": ("sub.cc.T d0, a, b", "subc.cc.T d1, b, c", "subc.T d2, a, c", "subc.T d3, c, c"),
    "mixed": ("sub.cc.T d0, a, b", "addc.cc.T d1, b, c", "subc.cc.T d2, a, c", "addc.T d3, c, c"),
    "low-products": ("mad.lo.cc.T d0, a, b, c", "madc.lo.cc.T d1, b, c, a", "madc.lo.T d2, a, c, b"),
    "high-products": ("mad.hi.cc.T d0, a, b, c", "madc.hi.cc.T d1, b, c, a", "madc.hi.T d2, a, c, b"),
    "borrowed-products": (
        "sub.cc.T d0, a, b",
        "madc.lo.cc.T d1, a, b, c",
        "madc.hi.cc.T d2, a, c, b",
        "addc.T d3, c, b",
    ),
}
"""Each on registers a, b, c and destinations d0..; T is the type."""

NARROW = {
    "narrow-sums": ("add.cc.u32 w0, x, y", "addc.T d0, a, b", "subc.T d1, a, b"),
    "narrow-products": ("sub.cc.u32 w0, x, y", "madc.lo.T d0, a, b, c", "madc.hi.T d1, c, b, a"),
}
"""16-bit types cannot leave a carry; here they take one from 32-bit words x and y."""


def _load(position: int, register: str, bits: int) -> str:
    """Return what reads this thread's word of an argument."""
    return (
        f"ld.param.u64 %b, [p{position}];\nmad.wide.u32 %b, %t, {bits // 8}, %b;\n"
        f"ld.global.b{bits} {register}, [%b];"
    )


def _stores(position: int, bits: int, dests: list[str]) -> list[str]:
    """Return what writes this thread's words of an argument, a part for each destination."""
    size = bits // 8
    head = f"ld.param.u64 %b, [p{position}];\nmad.wide.u32 %b, %t, {size}, %b;"
    return [head, *(f"st.global.b{bits} [%b+{ROWS * size * n}], {d};" for n, d in enumerate(dests))]


def _experiment(name: str, chain: tuple[str, ...], kind: str) -> Experiment:
    bits = int(kind[1:])
    steps = {step.split()[1].rstrip(","): step.replace("T", kind) for step in chain}
    sources = [("abc", 3, bits)] + [("xy", 2, 32)] * ("w0" in steps)
    loads, inputs, stores, results = [], [], [], []
    for names, count, width in sources:
        for n, register in enumerate(names):
            loads.append(_load(len(inputs), register, width))
            inputs.append(In(column("int", width, count, n, width)))
    for letter, width in (("d", bits), ("w", 32)):
        mine = sorted(d for d in steps if d[0] == letter)
        if mine:
            stores += _stores(len(inputs) + len(results), width, mine)
            results.append(Out(np.zeros(ROWS * len(mine), f"u{width // 8}"), tuple(steps[d] for d in mine)))
    params = ", ".join(f".param .u64 p{n}" for n in range(len(inputs) + len(results)))
    registers = f".reg .b32 %t, x, y, w0;\n.reg .b64 %b;\n.reg .b{bits} a, b, c, d0, d1, d2, d3;"
    body = [registers, "mov.u32 %t, %tid.x;", *loads, *(f"{s};" for s in steps.values()), *stores, "ret;"]
    ptx = f"{HEADER}.visible .entry k({params}) {{\n" + "\n".join(body) + "\n}\n"
    forms = tuple(dict.fromkeys(step.split()[0] for step in steps.values()))
    return Experiment(f"carry/{name}-{kind}", forms, ptx, (*inputs, *results), block=(ROWS, 1, 1))


def experiments() -> Iterator[Experiment]:
    """Yield the chains for every type."""
    for kind in ("u32", "s32", "u64", "s64"):
        for name, chain in CHAINS.items():
            yield _experiment(name, chain, kind)
    for kind in ("u16", "s16"):
        for name, chain in NARROW.items():
            yield _experiment(name, chain, kind)
