"""Kinds of operands that many families share: addresses by state space, cache policies, vectors."""

from __future__ import annotations

from drywell.isa.declare import Mods, Op, TypeRule

#: Registers in one brace list, by the vector modifier.
VECTOR = {None: 1, "v2": 2, "v4": 4, "v8": 8}


def address(slot: str = "space") -> TypeRule:
    """Return the type rule of an address whose state space is named by `slot`; absent means generic.

    Global and generic addresses take 64 bits: sm_90 and later have no 32-bit addressing.
    """

    def rule(i: Mods) -> Op:
        return Op("addr64" if i[slot] in (None, "global") else "addr")

    return rule


def policy(i: Mods) -> Op | None:
    """Return the type of the cache-policy operand: there exactly when `.L2::cache_hint` is (slot `hint`)."""
    return Op("b64") if i["hint"] else None


def loaded(i: Mods) -> Op:
    """Return a destination of slot `type`, a brace list when slot `vec` asks for one (`_` drops an
    element)."""
    count = VECTOR[i.get("vec")] if i.get("vec") else None
    return Op(str(i["type"]), count=count, accepts="r_" if count else "r", is_relaxed=True)


def stored(i: Mods) -> Op:
    """Return a source of slot `type`, a brace list when slot `vec` asks for one; a wider register is cut
    off."""
    return Op(str(i["type"]), count=VECTOR[i.get("vec")] if i.get("vec") else None, is_relaxed=True)
