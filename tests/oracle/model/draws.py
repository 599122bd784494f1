"""Codes drawn by class, because plain random codes reach few of the corners of the arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable

from oracle.model.numbers import FINITE, IEEE, Format

Draw = Callable[[random.Random, Format], int]
DrawRow = Callable[[random.Random, Format, int], list[int]]
RUN = 8  # of K: in a sparse row of any kind, what is left of a run stands together


def make(form: Format, negative: int, stored: int, fraction: int) -> int:
    """Put a code together; the ignored low bits are left 0."""
    limit = (1 << form.exponent_bits) - 1
    kept = max(0, min(stored, limit))
    return (((negative << form.exponent_bits | kept) << form.fraction_bits) | fraction) << form.ignored_bits


def sign(rng: random.Random) -> int:
    return rng.getrandbits(1)


def fraction(rng: random.Random, form: Format) -> int:
    return rng.getrandbits(form.fraction_bits)


def anything(rng: random.Random, form: Format) -> int:
    """Any code at all, dropped bits included."""
    return rng.getrandbits(form.bits)


def finite(rng: random.Random, form: Format) -> int:
    """Any number, at most the largest."""
    stored = rng.randint(0, form.top)
    code = make(form, sign(rng), stored, fraction(rng, form))
    return code if form.specials == IEEE or stored < form.top else without_nan(code, form)


def without_nan(code: int, form: Format) -> int:
    """Step down from a code whose fraction is all ones, where that is the NaN."""
    ones = (1 << form.fraction_bits) - 1
    return code if form.specials == FINITE or code & ones != ones else code - 1


def near_one(rng: random.Random, form: Format) -> int:
    """A few binades around one: terms that cancel and carry."""
    stored = max(0, min(form.bias + rng.randint(-4, 4), form.top))
    return without_nan(make(form, sign(rng), stored, fraction(rng, form)), form)


def powers(rng: random.Random, form: Format) -> int:
    """Signed powers of two far apart: the last place of the window is hit exactly."""
    stored = form.bias + rng.randint(-14, 14)
    return make(form, sign(rng), min(stored, form.top), 0)


def subnormal(rng: random.Random, form: Format) -> int:
    """Zeros, subnormals and the smallest normals of both signs."""
    return make(form, sign(rng), rng.choice((0, 0, 1)), fraction(rng, form))


def extreme(rng: random.Random, form: Format) -> int:
    """The largest numbers and their neighbours."""
    code = make(form, sign(rng), form.top - rng.randint(0, 1), fraction(rng, form))
    return without_nan(code, form)


def tiny(rng: random.Random, form: Format) -> int:
    """Zeros, and numbers whose products lie about the smallest normal f32, where zeros may set the window."""
    if not rng.randrange(6):
        return make(form, sign(rng), 0, 0)
    return make(form, sign(rng), form.bias - rng.randint(55, 72), fraction(rng, form))


def mostly_zero(rng: random.Random, form: Format) -> int:
    """Zeros of both signs with a number among them now and then."""
    return make(form, sign(rng), 0, 0) if rng.randrange(5) else finite(rng, form)


def special(rng: random.Random, form: Format) -> int:
    """Infinities, NaNs of several payloads and zeros, as far as the format has them."""
    top = (1 << form.exponent_bits) - 1
    ones = (1 << form.fraction_bits) - 1
    if form.specials == FINITE:
        return make(form, sign(rng), 0, 0)
    if form.specials != IEEE:
        return make(form, sign(rng), *rng.choice(((top, ones), (0, 0))))
    payload = rng.choice((0, 0, 0, 1, ones, fraction(rng, form)))
    stored = rng.choice((top, top, top, 0))
    return make(form, sign(rng), stored, payload if stored else 0)


def rarely_special(rng: random.Random, form: Format) -> int:
    """Numbers near one with, one time in sixteen, an infinity, a zero or a NaN among them."""
    return near_one(rng, form) if rng.randrange(16) else special(rng, form)


def seldom_special(rng: random.Random, form: Format) -> int:
    """The same, one time in fifty: about one special per instruction."""
    return near_one(rng, form) if rng.randrange(50) else special(rng, form)


def each(draw: Draw) -> DrawRow:
    """Draw every code of a row by itself."""
    return lambda rng, form, K: [draw(rng, form) for _ in range(K)]


def opposites(rng: random.Random, form: Format, K: int) -> list[int]:
    """Pairs of opposite numbers: against `runs` they cancel, or all but cancel where a last bit differs."""
    draw = rng.choice((finite, near_one, powers, extreme))
    row: list[int] = []
    while len(row) < K:
        code = draw(rng, form)
        last = 1 << form.ignored_bits if not rng.randrange(6) else 0
        other = code ^ 1 << (form.bits - 1) ^ last
        row += [code, without_nan(other, form) if form.specials != IEEE else other]
    return row[:K]


def runs(rng: random.Random, form: Format, K: int) -> list[int]:
    """One number for each run of K."""
    draw = rng.choice((finite, near_one, powers))
    row: list[int] = []
    while len(row) < K:
        row += [draw(rng, form)] * RUN
    return row[:K]


def overshadowed(rng: random.Random, form: Format, K: int) -> list[int]:
    """Small numbers with one pair of large opposite ones: what they push out of the window stays lost."""
    row = [subnormal(rng, form) if rng.randrange(2) else powers(rng, form) for _ in range(K)]
    at = 2 * rng.randrange(K // 2)
    row[at] = extreme(rng, form)
    row[at + 1] = row[at] ^ 1 << (form.bits - 1)
    return row


def zero_or_tiny(rng: random.Random, form: Format, K: int) -> list[int]:
    """Zeros and tiny numbers by turns; against `huge_or_tiny` a zero meets the largest exponents."""
    return [tiny(rng, form) if k % 2 else make(form, sign(rng), 0, 0) for k in range(K)]


def huge_or_tiny(rng: random.Random, form: Format, K: int) -> list[int]:
    """Large and tiny numbers by turns."""
    stored = form.bias + rng.randint(-8, 8)
    return [tiny(rng, form) if k % 2 else make(form, sign(rng), min(stored, form.top), 0) for k in range(K)]


THEMES: dict[str, tuple[DrawRow, DrawRow]] = {
    "any number": (each(finite), each(finite)),
    "near one": (each(near_one), each(near_one)),
    "powers of two": (each(powers), each(powers)),
    "subnormal": (each(subnormal), each(finite)),
    "both subnormal": (each(subnormal), each(subnormal)),
    "extreme": (each(extreme), each(extreme)),
    "tiny": (each(tiny), each(tiny)),
    "zero and tiny": (zero_or_tiny, huge_or_tiny),
    "mostly zero": (each(mostly_zero), each(finite)),
    "special in A": (each(seldom_special), each(near_one)),
    "special in both": (each(seldom_special), each(seldom_special)),
    "any code": (each(anything), each(near_one)),
    "cancelling": (opposites, runs),
    "cancelling twice": (opposites, runs),
    "overshadowed": (overshadowed, runs),
}
