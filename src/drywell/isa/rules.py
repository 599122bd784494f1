"""Legality as data: which modifiers may stand together, and what a message says when they do not."""

from __future__ import annotations

from drywell.isa.declare import Check, Mods, Problem

_ABSENT = "-"


def _written(word: str | None) -> str:
    return _ABSENT if word is None else word


def _spell(words: tuple[str, ...]) -> str:
    said = ["nothing" if w == _ABSENT else f"'.{w}'" for w in words]
    return said[0] if len(said) == 1 else ", ".join(said[:-1]) + " or " + said[-1]


def _broken(slot: str, found: str, other: str, given: str, allowed: tuple[str, ...]) -> Problem:
    owner = f"'.{found}'" if found != _ABSENT else f"a form without a '{slot}' modifier"
    if given == _ABSENT:
        return Problem(
            f"{owner} needs {_spell(allowed)}", slot, f"needs {_spell(allowed)}", "add it to the opcode"
        )
    hint = f"with {owner}, allowed here: {_spell(allowed)}"
    return Problem(f"'.{given}' is not allowed with {owner}", other, f"{owner} excludes it", hint)


def when(slot: str, words: str, **allowed: str) -> Check:
    """Return the check: where `slot` is one of `words`, each slot named in `allowed` is one of its words.

    '-' stands for an absent modifier and '*' for any that is present: `when("sem", "weak -", scope="-")`
    reads "with .weak or no semantics there is no scope".
    """
    conditions = frozenset(words.split())
    tables = {other: tuple(options.split()) for other, options in allowed.items()}

    def check(mods: Mods) -> Problem | None:
        found = _written(mods[slot])
        if found not in conditions and not ("*" in conditions and found != _ABSENT):
            return None
        for other, options in tables.items():
            given = _written(mods[other])
            if given not in options and not ("*" in options and given != _ABSENT):
                return _broken(slot, found, other, given, options)
        return None

    check.__doc__ = f"{slot} of {words!r} allows only {allowed!r}."
    return check


def only(slot: str, words: str, reason: str, hint: str = "") -> Check:
    """Return the check: `slot` may only be one of `words` (as `when` writes them) on this target, for
    `reason`."""
    options = tuple(words.split())

    def check(mods: Mods) -> Problem | None:
        given = _written(mods[slot])
        if given in options or ("*" in options and given != _ABSENT):
            return None
        word = f"'.{given}'" if given != _ABSENT else f"a form without a '{slot}' modifier"
        return Problem(f"{word} is not allowed: {reason}", slot, reason, hint or f"write {_spell(options)}")

    check.__doc__ = f"{slot} is one of {words!r}: {reason}."
    return check


def rule(*conditions: str, reason: str, hint: str = "", at: str = "") -> Check:
    """Return the check: not all `conditions` hold at once. A condition is "slot: words", as `when` writes
    words."""
    parsed = [(c.split(":", 1)[0].strip(), tuple(c.split(":", 1)[1].split())) for c in conditions]

    def check(mods: Mods) -> Problem | None:
        for slot, words in parsed:
            given = _written(mods[slot])
            if given not in words and not ("*" in words and given != _ABSENT):
                return None
        return Problem(reason, at or parsed[-1][0], "", hint)

    check.__doc__ = reason
    return check
