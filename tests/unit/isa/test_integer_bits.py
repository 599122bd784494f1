from __future__ import annotations

import pytest

from unit.isa.alu import agree, execute, lanes, numbers, refusal, signed

# Formulas are the manual's pseudo-code, bit by bit.


@pytest.mark.parametrize("width", [32, 64])
def test_counts_and_reversal(width: int) -> None:
    agree(f"popc.b{width}", (width,), 32, lambda a: a.bit_count())
    agree(f"clz.b{width}", (width,), 32, lambda a: width - a.bit_length())
    agree(f"brev.b{width}", (width,), width, lambda a: int(f"{a:0{width}b}"[::-1], 2))


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_bfind_finds_the_highest_bit_that_differs_from_the_sign(name: str) -> None:
    width = int(name[1:])

    def place(a: int) -> int:
        a = ~a & ((1 << width) - 1) if name[0] == "s" and a >> (width - 1) else a
        return a.bit_length() - 1

    agree(f"bfind.{name}", (width,), 32, place)
    agree(f"bfind.shiftamt.{name}", (width,), 32, lambda a: -1 if place(a) < 0 else width - 1 - place(a))


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_bfe_takes_the_field_and_repeats_its_sign(name: str) -> None:
    width = int(name[1:])
    msb = width - 1

    def field(a: int, b: int, c: int) -> int:
        pos, length = (b & 0xFF, c & 0xFF) if width == 32 else (b, c)
        sbit = 0 if name[0] == "u" or length == 0 else a >> min(pos + length - 1, msb) & 1
        bits = [a >> (pos + i) & 1 if i < length and pos + i <= msb else sbit for i in range(width)]
        return sum(bit << i for i, bit in enumerate(bits))

    agree(f"bfe.{name}", (width, 32, 32), width, field, most=1500)


@pytest.mark.parametrize("width", [32, 64])
def test_bfi_replaces_the_field(width: int) -> None:
    def inserted(a: int, b: int, c: int, d: int) -> int:
        pos, length = (c & 0xFF, d & 0xFF) if width == 32 else (c, d)
        for i in range(min(length, width)):
            if pos + i < width:
                b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return b

    agree(f"bfi.b{width}", (width, width, 32, 32), width, inserted, most=1500)


def test_fns_walks_from_the_base_to_the_nth_set_bit() -> None:
    def nth(mask: int, base: int, offset: int) -> int:
        step = signed(offset, 32)
        if offset == 1 << 31:
            return 0  # an H200 gives that, whatever the mask and the base
        if base > 31:
            return -1
        if step == 0:
            return base if mask >> base & 1 else -1
        position, count = base, abs(step) - 1
        while 0 <= position < 32:
            if mask >> position & 1:
                if count == 0:
                    return position
                count -= 1
            position += 1 if step > 0 else -1
        return -1

    agree("fns.b32", (32, 32, 32), 32, nth)
    rows = [(0b10110100, base, offset & 0xFFFFFFFF) for base in range(9) for offset in range(-5, 6)]
    got = numbers(execute("fns.b32", *[lanes(column, 32) for column in zip(*rows, strict=True)]))
    assert [nth(*row) & 0xFFFFFFFF for row in rows] == got


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_szext_extends_and_bmsk_makes_masks_as_the_manual_computes_them(mode: str) -> None:
    full = 0xFFFFFFFF

    def szext(is_signed: bool, a: int, b: int) -> int:
        b1 = b & 0x1F
        too_large = b >= 32 and mode == "clamp"
        mask = 0 if too_large else (full << b1) & full
        sign_pos = (b1 - 1) & 0x1F
        sign = not (b1 == 0 or too_large or not is_signed) and a >> sign_pos & 1
        return a & ~mask | (mask if sign else 0)

    def bmsk(a: int, b: int) -> int:
        a1, b1 = a & 0x1F, b & 0x1F
        mask0, mask1 = (full << a1) & full, (full << (a1 + b1)) & full
        overflow = a1 + b1 >= 32
        if mode == "clamp":
            mask0 = 0 if a >= 32 else mask0
            overflow = overflow or a >= 32 or b >= 32
        mask1 = 0 if overflow else full if b1 == 0 else mask1
        return mask0 & ~mask1

    agree(f"szext.{mode}.u32", (32, 32), 32, lambda a, b: szext(False, a, b))
    agree(f"szext.{mode}.s32", (32, 32), 32, lambda a, b: szext(True, a, b))
    agree(f"bmsk.{mode}.b32", (32, 32), 32, bmsk)


def test_other_types_are_refused() -> None:
    for spelling in (
        "popc.u32",
        "clz.b16",
        "bfind.b32",
        "bfe.b32",
        "bfi.u32",
        "brev.b16",
        "fns.b64",
        "szext.s32",
        "bmsk.clamp.u32",
    ):
        assert refusal(spelling), spelling
