"""One element of D of a mxf4 or mxf4nvf4 instruction in whole numbers, as each public model words its rule.

Written for these tests from sf-tensor/tcgen05 (tcgen05_model/MODEL.md, section 5, and what its model.py adds)
and microsoft/MMA-Sim (mmasim/simulator/arithmetic.py); nothing of drywell. Values are Python integers that
count units of 2^-UNIT.
"""

UNIT = 320  # below the last bit of any product, and of any window that could cut one
HALVES = (0, 1, 2, 3, 4, 6, 8, 12)
NAN, PLUS_INF, MINUS_INF, MINUS_ZERO = 0x7FFFFFFF, 0x7F800000, 0xFF800000, 0x80000000


def element(code: int) -> tuple[int, int]:
    """An e2m1 number in halves, and its stored exponent."""
    return (-HALVES[code & 7] if code & 8 else HALVES[code & 7]), max(code >> 1 & 3, 1) - 1


def scale(fmt: str, code: int) -> tuple[int, int] | None:
    """A scale's significand in eighths of 2^exponent, and its stored exponent; None for NaN."""
    if fmt == "ue8m0":
        return None if code == 0xFF else (8, code - 127)
    field, fraction = code >> 3 & 15, code & 7
    if (field, fraction) == (15, 7):
        return None
    return fraction + (8 if field else 0), max(field, 1) - 7


def f32_value(c: int) -> int:
    """A finite f32 code in units."""
    field = c >> 23 & 255
    magnitude = (c & 0x7FFFFF | (0x800000 if field else 0)) << (max(field, 1) - 150 + UNIT)
    return -magnitude if c >> 31 else magnitude


def cut(x: int, q: int) -> int:
    """x toward zero to a multiple of 2^q."""
    magnitude = abs(x) >> (q + UNIT) << (q + UNIT)
    return -magnitude if x < 0 else magnitude


def f32(x: int) -> int:
    """x toward zero as f32; too large is infinite, what vanishes is +0."""
    exponent = abs(x).bit_length() - 1 - UNIT
    if exponent > 127:
        return MINUS_INF if x < 0 else PLUS_INF
    units = abs(x) >> (max(exponent, -126) - 23 + UNIT)
    word = units + (max(exponent, -126) + 126 << 23)
    return word | (x < 0 and MINUS_ZERO) if units else 0


class Case:
    """The decoded operands of one element of D: products and exponents by k, scale exponents by k."""

    def __init__(
        self, fmt: str, a: list[int], b: list[int], c: int | None, sfa: list[int], sfb: list[int]
    ) -> None:
        self.fmt, self.c = fmt, c or 0
        block = len(a) // len(sfa)
        pairs = [(scale(fmt, x), scale(fmt, y)) for x, y in zip(sfa, sfb, strict=True)]
        self.is_nan = any(x is None or y is None for x, y in pairs) or self.c & 0x7FFFFFFF > PLUS_INF
        self.products: list[int] = []
        self.raws: list[int] = []
        self.scale_raws: list[int] = []
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            if self.is_nan:
                break
            (m, m_raw), (n, n_raw) = element(x), element(y)
            (s, s_raw), (t, t_raw) = pairs[k // block]  # type: ignore[misc]
            self.products.append(m * n * s * t << (s_raw + t_raw - 8 + UNIT))
            self.scale_raws.append(s_raw + t_raw)
            self.raws.append(m_raw + n_raw + s_raw + t_raw)
        self.zero_scale = [not x or not y or x[0] * y[0] == 0 for x, y in pairs for _ in range(block)]
        self.alive = [p != 0 for p in self.products]
        self.d_raw = max(self.c >> 23 & 255, 1) - 127

    def special(self) -> int | None:
        """The word when a NaN or an infinity decides it."""
        if self.is_nan:
            return NAN
        return self.c if self.c in (PLUS_INF, MINUS_INF) else None

    @property
    def d(self) -> int:
        """The old D, finite."""
        return f32_value(self.c)

    def groups(self, size: int) -> list[range]:
        """Consecutive k, `size` at a time."""
        return [range(i, i + size) for i in range(0, len(self.products), size)]

    def sum(self, group: range) -> int:
        """The exact sum of a group."""
        return sum(self.products[group.start : group.stop])


def recommended(case: Case) -> int:
    """Drywell's defaults: all blocks' scales and D set the window; zero products leave D, but for -0."""
    word = case.special()
    if word is not None:
        return word
    if not any(case.alive):
        return 0 if case.c == MINUS_ZERO else case.c
    tops = [s for s, zero in zip(case.scale_raws, case.zero_scale, strict=True) if not zero]
    q = max(tops + [case.d_raw] * (case.d != 0)) - 35
    return f32(cut(case.d, q) + sum(cut(case.sum(g), q) for g in case.groups(16)))


def mma_sim(case: Case, reads_d: bool) -> int:
    """MMA-Sim: a zero has exponent -126, and nothing is special about zero products.

    A D that is not read is no term; Drywell has that one rule for all kinds.
    """
    word = case.special()
    if word is not None:
        return word
    tops = [-126 + s if zero else s for s, zero in zip(case.scale_raws, case.zero_scale, strict=True)]
    q = max(tops + [case.d_raw if case.d else -126] * reads_d) - 35
    return f32(cut(case.d, q) + sum(cut(case.sum(g), q) for g in case.groups(16)))


def sf_tensor(case: Case) -> int:
    """sf-tensor/tcgen05: a window of 39 bits for products, 35 for scales; D may take it over."""
    word = case.special()
    if word is not None:
        return word
    if not any(case.alive):
        return 0 if case.d == 0 else case.c
    P = max(r for r, alive in zip(case.raws, case.alive, strict=True) if alive)
    S = max(s for s, alive in zip(case.scale_raws, case.alive, strict=True) if alive)
    if case.d and case.d_raw >= P:
        q = case.d_raw - 35
        return f32(cut(case.d, q) + sum(cut(case.sum(g), q) for g in case.groups(16)))
    q = max(max([P] + [case.d_raw] * (case.d != 0)) - 39, S - 35)
    if case.fmt == "ue4m3":
        return f32(cut(case.d, q) + sum(cut(case.sum(g), q) for g in case.groups(4)))
    parts = [(g, cut(case.sum(g), _group_q(case, g, q))) for g in case.groups(16)]
    word = f32(cut(case.d, q) + sum(part for _, part in parts))
    if 0 < word & 0x7FFFFFFF < 1 << 23:
        floor = 1 << (max(q, -174) + UNIT)
        kept = [part for g, part in parts if abs(part) >= floor or _scale(case, g) in (None, S)]
        word = f32(cut(case.d, q) + sum(kept))
    return word


def _group_q(case: Case, group: range, q: int) -> int:
    """ue8m0: a group that D outranks is cut at D's place."""
    raws = [case.raws[k] for k in group if case.alive[k]]
    return max(q, case.d_raw - 35) if raws and case.d and case.d_raw >= max(raws) else q


def _scale(case: Case, group: range) -> int | None:
    """The scale exponent of a group's non-zero products, None without any."""
    return max((case.scale_raws[k] for k in group if case.alive[k]), default=None)
