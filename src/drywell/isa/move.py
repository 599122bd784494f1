"""Moving and addressing: mov, prmt, cvta, isspacep, getctarank, mapa."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drywell.base.dtypes import TYPES
from drywell.isa.declare import Mods, Op, Problem, instruction
from drywell.isa.operand import VECTOR
from drywell.isa.ops import Ops, Value
from drywell.machine.windows import (
    LOCAL_BASE,
    PARAM_BASE,
    RANK_SHIFT,
    SHARED_BASE,
    WINDOW_BYTES,
    to_generic,
)

_REF = "data-movement-and-conversion-instructions-"
_SCALARS = "b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64"
_SHARED = "shared shared::cta shared::cluster"

declare = partial(instruction, unit="alu", order_free=True)

# ---------------------------------------------------------------- mov


def moved_to(i: Mods) -> Op:
    """Return the destination of mov: bit types may go to a brace list, whose parts may be `_`."""
    name = str(i["type"])
    return Op(name, accepts="r{_" if TYPES[name].kind == "bits" else "r")


def moved_from(i: Mods) -> Op:
    """Return the source of mov: integers also take symbols and special registers, bits a brace list."""
    name = str(i["type"])
    accepts = {"bits": "risv{", "unsigned": "risv", "signed": "risv", "pred": "ripv"}
    return Op(name, accepts=accepts.get(TYPES[name].kind, "ri"))


@declare(
    "mov.type d, a;", type=f"{_SCALARS} b128 pred", types={"d": moved_to, "a": moved_from}, ref=_REF + "mov"
)
def mov(o: Ops, a: Value | tuple[Value, ...]) -> Value:
    """Copy a register, constant, special register or the address of a variable or function.

    A brace list on one side joins or splits: its first element is the low part.
    """
    return o.pack(list(a)) if isinstance(a, tuple) else a


def vector_fits_128_bits(i: Mods) -> Problem | None:
    """Require that a moved vector is no wider than 128 bits."""
    bits = TYPES[str(i["type"])].bits * VECTOR[i["vec"]]
    if bits <= 128:
        return None
    return Problem(
        f"'.{i['vec']}.{i['type']}' is {bits} bits", "vec", "the limit is 128 bits", "move it in two halves"
    )


@declare(
    "mov.vec.type d, a;",
    vec="v2 v4",
    type=_SCALARS,
    types={
        "d": lambda i: Op(str(i["type"]), count=VECTOR[i["vec"]], accepts="r_"),
        "a": lambda i: Op(str(i["type"]), count=VECTOR[i["vec"]]),
    },
    checks=[vector_fits_128_bits],
    ref=_REF + "mov",
)
def mov_vector(o: Ops, a: tuple[Value, ...]) -> list[Value]:
    """Copy a vector element by element, all at once: the two lists may share registers."""
    return o.unpack(o.pack(list(a)), len(a))


# ---------------------------------------------------------------- prmt

_PRMT = {"d": "b32", "a": "b32", "b": "b32", "c": "b32"}


def _choose(o: Ops, options: list[Value], selector: list[Value]) -> Value:
    """Return the option whose number the predicates in `selector` spell, low bit first."""
    for bit in selector:
        options = [o.select(bit, high, low) for low, high in zip(options[::2], options[1::2], strict=True)]
    return options[0]


def _bit(o: Ops, c: Value, k: int) -> Value:
    return o.ne(o.and_(c, o.const(1 << k, 32)), o.const(0, 32))


@declare("prmt.b32 d, a, b, c;", types=_PRMT, since=(2, 0), ref=_REF + "prmt")
def prmt(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Pick four of the eight bytes b:a; each nibble of c names one, its bit 3 asks for the sign alone."""
    source, times_8, seven = o.pack([a, b]), o.const(3, 64), o.const(7, 8)
    picked = []
    for k in range(0, 16, 4):
        number = o.zext(o.and_(o.lshr(c, o.const(k, 32)), o.const(7, 32)), 64)
        byte = o.trunc(o.lshr(source, o.shl(number, times_8)), 8)
        picked.append(o.select(_bit(o, c, k + 3), o.ashr(byte, seven), byte))
    return o.pack(picked)


#: For each mode the bytes of b:a that make the result, low byte first, by the value of bits 1:0 of c.
#: Source: PTX ISA, prmt, the table of modes.
_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


@declare("prmt.b32.mode d, a, b, c;", mode=" ".join(_MODES), types=_PRMT, since=(2, 0), ref=_REF + "prmt")
def prmt_mode(o: Ops, a: Value, b: Value, c: Value) -> Value:
    """Pick four of the eight bytes b:a by a fixed pattern that bits 1:0 of c select."""
    source = o.unpack(a, 4) + o.unpack(b, 4)
    selector = [_bit(o, c, 0), _bit(o, c, 1)]
    patterns = _MODES[str(o.i["mode"])]
    return o.pack([_choose(o, [source[row[k]] for row in patterns], selector) for k in range(4)])


# ---------------------------------------------------------------- addresses

_SPACES = f"const global local param param::entry {_SHARED}"


def address_in_space(i: Mods) -> Op:
    """Return an address of the state space in slot `space`: a value, or a variable of that space."""
    return Op("u64", accepts="ris", spaces=(str(i["space"]).partition("::")[0],))


@declare(
    "cvta.space.u64 p, a;",
    space=_SPACES,
    types={"p": Op("u64", accepts="r"), "a": address_in_space},
    writes="p",
    since=(2, 0),
    ref=_REF + "cvta",
)
def cvta(o: Ops, a: Value) -> Value:
    """Turn an address of a state space, or a variable's, into a generic one.

    Addresses outside the space's window give an address outside it.
    """
    return o.add(a, o.const(to_generic(str(o.i["space"]), 0), 64))


@declare(
    "cvta.to.space.u64 p, a;",
    space=_SPACES,
    types={"p": Op("u64", accepts="r"), "a": "u64"},
    writes="p",
    since=(2, 0),
    ref=_REF + "cvta",
)
def cvta_to(o: Ops, a: Value) -> Value:
    """Turn a generic address into one of a state space; undefined when it does not lie in that space.

    Here such an address wraps around within 4 GiB and the access faults.
    """
    base = to_generic(str(o.i["space"]), 0)
    return a if base == 0 else o.and_(o.sub(a, o.const(base, 64)), o.const(WINDOW_BYTES - 1, 64))


_WINDOW_OF = {"shared": SHARED_BASE, "local": LOCAL_BASE, "param": PARAM_BASE}


def _in_window(addresses: NDArray[np.uint64], base: int) -> NDArray[np.bool_]:
    return np.asarray((addresses >> np.uint64(32)) == np.uint64(base >> 32))


@declare(
    "isspacep.space p, a;",
    space=_SPACES,
    types={"p": Op("pred", accepts="r"), "a": "u64"},
    writes="p",
    lane=False,
    since=(2, 0),
    ref=_REF + "isspacep",
)
def isspacep(m: Any, i: Mods, a: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say whether a generic address lies in a state space; `.shared` is the CTA's own memory.

    SPEC: the window of kernel parameters lies in that of global memory, that of constants does not.
    Source: PTX ISA, "Generic Addressing". MEASURED: so on an H200.
    """
    head, _, part = str(i["space"]).partition("::")
    if head == "shared":
        inside = _in_window(a, SHARED_BASE)
        rank = (a >> np.uint64(RANK_SHIFT)) & np.uint64(0xFF)
        return inside if part == "cluster" else inside & (rank == np.uint64(m.cta.rank))
    if head in _WINDOW_OF:
        return _in_window(a, _WINDOW_OF[head])
    is_constant = _are_constants(m, a)
    if head == "const":
        return is_constant
    return ~(is_constant | _in_window(a, SHARED_BASE) | _in_window(a, LOCAL_BASE))


def _are_constants(m: Any, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say per lane whether an address lies in a variable of the const space."""
    arrays = [m.grid.gmem.find(address) for address in addresses.tolist()]
    return np.array([array is not None and array.is_constant for array in arrays])


_ADDRESSES = "u32 u64 s32 s64"


def shared_or_generic(i: Mods) -> Op:
    """Return an address of slot `type`: with `.shared::cluster` also a variable's."""
    return Op(str(i["type"]), accepts="ris" if i["space"] else "ri", spaces=("shared",))


@declare(
    "getctarank{.space}.type d, a;",
    space="shared::cluster",
    type=_ADDRESSES,
    types={"d": Op("u32", accepts="r"), "a": shared_or_generic},
    since=(7, 8),
    ref=_REF + "getctarank",
)
def getctarank(o: Ops, a: Value) -> Value:
    """Return the rank in its cluster of the CTA whose shared memory an address lies in, as u32.

    Without `.shared::cluster` the address is generic.
    """
    rank = o.and_(o.lshr(a, o.const(RANK_SHIFT, o.width)), o.const(0xFF, o.width))
    return rank if o.width == 32 else o.trunc(rank, 32)


@declare(
    "mapa{.space}.type d, a, b;",
    space="shared::cluster",
    type=_ADDRESSES,
    types={"a": shared_or_generic, "b": "u32"},
    since=(7, 8),
    ref=_REF + "mapa",
)
def mapa(o: Ops, a: Value, b: Value) -> Value:
    """Return the address in CTA b of the cluster that corresponds to a.

    Both are shared::cluster addresses or, without `.shared::cluster`, generic ones.

    MEASURED: it replaces the rank in bits 31:24 (H200, four-CTA cluster).
    """
    rank = b if o.width == 32 else o.zext(b, o.width)
    kept = o.and_(a, o.const(~(0xFF << RANK_SHIFT), o.width))
    return o.or_(kept, o.shl(rank, o.const(RANK_SHIFT, o.width)))
