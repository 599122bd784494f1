"""Kinds of operands that many families share: addresses by state space, cache policies, vectors."""

from __future__ import annotations

from drywell.isa.declare import Mods, Op, TypeRule

#: Registers in one brace list, by the vector modifier.
VECTOR = {None: 1, "v2": 2, "v4": 4, "v8": 8}

#: Addresses in one state space: a register of 32 or 64 bits, or a symbol that lies there.
GLOBAL = Op("addr", spaces=("global",))
SHARED = Op("addr", spaces=("shared",))


def _spaces(word: str | None) -> tuple[str, ...]:
    return (word.partition("::")[0],) if word else ()


def address(slot: str = "space") -> TypeRule:
    """Return the type rule of a load's, store's or atomic's address in the state space of `slot` (none:
    generic).

    Global and generic addresses take 64 bits: sm_90 and later have no 32-bit addressing. A constant is an
    address in local memory only.
    """

    def rule(i: Mods) -> Op:
        space = i[slot]
        kind = "addr64" if space in (None, "global") else "addri" if space == "local" else "addr"
        return Op(kind, spaces=_spaces(space))

    return rule


def place(slot: str = "space") -> TypeRule:
    """Return the type rule of an address in the state space of `slot` where 32 bits will do."""
    return lambda i: Op("addr", spaces=_spaces(i[slot]))


def mbarrier(i: Mods) -> Op:
    """Return the address of an mbarrier: in shared memory, of 64 bits when no state space is named."""
    return SHARED if i["space"] else Op("addr64", spaces=("shared",))


def policy(i: Mods) -> Op | None:
    """Return the type of the cache-policy operand: there exactly when `.L2::cache_hint` is (slot `hint`)."""
    return Op("u64") if i["hint"] else None


def loaded(i: Mods) -> Op:
    """Return a destination of slot `type`, a brace list when slot `vec` asks for one (`_` drops an
    element)."""
    count = VECTOR[i.get("vec")] if i.get("vec") else None
    return Op(str(i["type"]), count=count, accepts="r_" if count else "r", is_relaxed=True)


def stored(i: Mods) -> Op:
    """Return a source of slot `type`, a brace list when slot `vec` asks for one; a wider register is cut
    off."""
    count = VECTOR[i.get("vec")] if i.get("vec") else None
    return Op(str(i["type"]), count=count, is_relaxed=True)
