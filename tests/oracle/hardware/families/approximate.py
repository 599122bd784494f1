"""The approximate functions on many operands: thousands of f32 and f64, every single f16 and bf16."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.hardware.experiment import HEADER, Experiment, In, Out, words
from oracle.hardware.families.alu import Spelling, of_room

THREADS = 128
STEPS = 32
"""So many operands each thread takes, one after another."""

Array = NDArray[Any]


def _anything(name: str, bits: int) -> Array:
    return words(f"approximate {name}", THREADS * STEPS, f"uint{bits}")


def _near_one(name: str) -> Array:
    """Return floats from 1 to 4, where the tables of reciprocals, roots and logarithms are looked up."""
    return 0x3F800000 + (_anything(name, 32) & 0xFFFFFF)


def _moderate(name: str) -> Array:
    """Return floats of both signs from 2^-12 to 2^8, where ex2, sin, cos and tanh do something."""
    bits = _anything(name, 32)
    exponent = 127 - 12 + (bits >> 23 & 0xFF) % 20
    return (bits & 0x807FFFFF) | exponent << 23


def _columns() -> dict[tuple[str, int], tuple[tuple[str, tuple[Array, ...]], ...]]:
    """Return the operand sets by operand type and count: a name and a column for each operand."""
    every = np.arange(1 << 16, dtype=np.uint16)
    f64 = _anything("f64", 64)
    some = (f64 & np.uint64(0x800FFFFFFFFFFFFF)) | (
        np.uint64(1000) + (f64 >> np.uint64(52)) % 46
    ) << np.uint64(52)
    return {
        ("f32", 1): (
            ("near-one", (_near_one("a"),)),
            ("moderate", (_moderate("a"),)),
            ("anything", (_anything("a", 32),)),
        ),
        ("f32", 2): (
            ("near-one", (_near_one("a"), _near_one("b"))),
            ("moderate", (_moderate("a"), _moderate("b"))),
            ("anything", (_anything("a", 32), _anything("b", 32))),
        ),
        ("f64", 1): (("anything", (f64,)), ("moderate", (some,))),
        ("f16", 1): (("every", (every,)),),
        ("bf16", 1): (("every", (every,)),),
    }


def _program(forms: tuple[str, ...], bits: int, count: int) -> str:
    """Return a program of one Out per form; a thread takes `STEPS` operands `THREADS` apart."""
    size, prefix = bits // 8, {16: "%h", 32: "%r", 64: "%d"}[bits]
    params = ", ".join(f".param .u64 p{n}" for n in range(count + len(forms)))
    lines = [
        f".reg .b{bits} {prefix}<{count + 2}>; .reg .b32 %t, %c; .reg .b64 %p<{count + len(forms) + 1}>;",
        f"mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, {THREADS * STEPS}, %t;",
    ]
    for n in range(count + len(forms)):
        lines.append(f"ld.param.u64 %p{n}, [p{n}]; mad.wide.u32 %p{n}, %t, {size}, %p{n};")
    sources = ", ".join(f"{prefix}{n}" for n in range(count))
    for step in range(STEPS):
        at = step * THREADS * size
        lines += [f"ld.global.b{bits} {prefix}{n}, [%p{n}+{at}];" for n in range(count)]
        for n, form in enumerate(forms):
            lines.append(f"{form} {prefix}{count}, {sources};")
            lines.append(f"st.global.b{bits} [%p{count + n}+{at}], {prefix}{count};")
    return f"{HEADER}.visible .entry k({params}) {{\n" + "\n".join(lines) + "\nret;\n}\n"


def _groups() -> dict[tuple[str, int], list[str]]:
    """Return the forms by operand type and count."""
    out: dict[tuple[str, int], list[str]] = defaultdict(list)
    for spelling in of_room("approximate"):
        if ".approx" in spelling.form or ".full" in spelling.form:
            out[_operand_type(spelling), len(spelling.sources)].append(spelling.form)
    return out


def _operand_type(spelling: Spelling) -> str:
    return spelling.form.rsplit(".", 1)[-1]


def experiments() -> Iterator[Experiment]:
    """Yield each operand set of each operand type, all functions of that type side by side."""
    columns = _columns()
    for key, forms in _groups().items():
        for name, operands in columns.get(key, ()):
            bits, total = operands[0].itemsize * 8, operands[0].size
            outs = [Out(np.zeros(total, operands[0].dtype), (form,)) for form in forms]
            yield Experiment(
                f"approximate/{key[0]}-{key[1]}-{name}",
                tuple(forms),
                _program(tuple(forms), bits, len(operands)),
                (*map(In, operands), *outs),
                grid=(total // (THREADS * STEPS), 1, 1),
                block=(THREADS, 1, 1),
            )
