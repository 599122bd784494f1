"""Words of a real GPU (H200_WORDS.md beside this file) against drywell.numerics."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from drywell import numerics as n

DATA = json.loads((Path(__file__).parent / "h200_words.json").read_text())
CONTAINERS = {4: np.uint16, 8: np.uint32, 16: np.uint64}
WIDTHS = {"16": 4, "32": 8, "64": 16}
INTEGERS = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}
INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
NUM_OPERANDS = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "fma": 3,
    "min": 2,
    "max": 2,
    "setp": 2,
    "copysign": 2,
}
APPROXIMATE = {"ex2": "ex2", "lg2": "lg2", "rcp": "rcp_approx", "rsqrt": "rsqrt", "sqrt": "sqrt_approx"}
APPROXIMATE |= {"sin": "sin", "cos": "cos"}


def unpack(text: str, digits: int) -> np.ndarray:
    return np.array([int(text[i : i + digits], 16) for i in range(0, len(text), digits)], CONTAINERS[digits])


def digits_of(ptx_type: str) -> int:
    packed = {"f16x2": 8, "e4m3x2": 4, "e5m2x2": 4, "bf16": 4, "tf32": 8}
    return packed.get(ptx_type) or WIDTHS[ptx_type[1:]]


def operands_of(instruction: str) -> list[np.ndarray]:
    parts = instruction.split(".")
    count = NUM_OPERANDS.get(parts[0], 1)
    if parts[0] == "cvt" and parts[-2] in ("e4m3x2", "e5m2x2") and parts[-1] == "f32":
        count = 2
    kind, digits = parts[-1], digits_of(parts[-1])
    return [unpack(DATA["operands"][f"{kind}.{slot}"], digits) for slot in range(count)]


def compute(instruction: str, operands: list[np.ndarray]) -> np.ndarray:
    """Do with drywell.numerics what the instruction's name says."""
    opcode, *options, kind = instruction.split(".")
    rounding = next((x for x in options if x in n.ROUNDINGS), "rn")
    ftz, sat, relu = "ftz" in options, "sat" in options, "relu" in options
    if opcode == "cvt":
        return convert(options, kind, rounding, operands)
    if opcode in ("min", "max"):
        function = n.minimum if opcode == "min" else n.maximum
        return function(kind, *operands, ftz=ftz, nan="NaN" in options, xorsign_abs="xorsign" in options)
    if opcode == "fma":
        return n.fma(kind, *operands, rounding, ftz, sat, relu)
    if opcode in ("neg", "abs"):
        return (n.negate if opcode == "neg" else n.absolute)(kind, *operands, ftz=ftz)
    if opcode in ("setp", "testp"):
        if opcode == "testp":
            return n.has_property(kind, options[0], *operands).astype(np.uint32)
        return n.compare(kind, options[0], *operands, ftz=ftz).astype(np.uint32)
    if opcode == "copysign":
        return n.copy_sign(kind, *operands)
    if opcode in ("rcp", "sqrt"):
        return getattr(n, opcode)(kind, *operands, rounding, ftz)
    return getattr(n, opcode)(kind, *operands, rounding, ftz, sat)


def convert(options: list[str], src: str, rounding: str, operands: list[np.ndarray]) -> np.ndarray:
    dst = options[-1]
    flags = {name: name in options for name in ("satfinite", "relu", "sat", "ftz")}
    first = operands[0]
    if options[0] in INTEGRAL:
        if dst == src:
            return n.round_to_integral(src, first, INTEGRAL[options[0]], ftz=flags["ftz"])
        bits, signed = int(dst[1:]), dst[0] == "s"
        whole = n.to_integer(first, src, bits, signed, INTEGRAL[options[0]], ftz=flags["ftz"])
        if bits > 8:
            return whole
        return whole.view(np.int8).astype(np.int32).view(np.uint32) if signed else whole.astype(np.uint32)
    if src in INTEGERS:
        return n.from_integer(dst, first.view(INTEGERS[src]), rounding)
    if dst == "f16x2":
        low, high = (n.convert((first >> s).astype(np.uint8), src[:-2], "f16", **flags) for s in (0, 8))
        return (high.astype(np.uint32) << 16) | low
    if dst.endswith("x2"):
        if src == "f16x2":
            halves = [(first >> s).astype(np.uint16) for s in (16, 0)]
        else:
            halves = operands
        high, low = (n.convert(x, src.removesuffix("x2"), dst[:-2], rounding, **flags) for x in halves)
        return (high.astype(np.uint16) << 8) | low
    return n.convert(first, src, dst, rounding, **flags)


def is_approximate(instruction: str) -> bool:
    return ".approx" in instruction or ".full" in instruction


@pytest.mark.parametrize("instruction", [name for name in DATA["results"] if not is_approximate(name)])
def test_an_instruction_gives_the_words_of_the_gpu(instruction: str) -> None:
    operands = operands_of(instruction)
    actual = compute(instruction, operands)
    expected = unpack(DATA["results"][instruction], 2 * actual.dtype.itemsize)
    wrong = np.flatnonzero(expected != actual)
    assert not wrong.size, [
        (*(hex(x[i]) for x in operands), hex(expected[i]), hex(actual[i])) for i in wrong[:5]
    ]


@pytest.mark.parametrize("instruction", DATA["flushing"])
def test_ftz_flushes_the_results_that_the_gpu_flushes(instruction: str) -> None:
    case = DATA["flushing"][instruction]
    operands = [unpack(text, digits_of(instruction.split(".")[-1])) for text in case["operands"]]
    actual = compute(instruction, operands)
    assert unpack(case["result"], 2 * actual.dtype.itemsize).tolist() == actual.tolist()


def approximate(instruction: str) -> tuple[str, Callable[..., np.ndarray]]:
    opcode, *options, kind = instruction.split(".")
    if opcode == "div":
        return kind, lambda a, b: (n.div_approx if "approx" in options else n.div_full)(
            a, b, "ftz" in options
        )
    if opcode == "tanh":
        return kind, lambda a: n.tanh(kind, a)
    return kind, lambda a: getattr(n, APPROXIMATE[opcode])(kind, a, "ftz" in options)


# The error is absolute (PTX ISA: "sin" and "cos" 2^-20.5, "lg2" 2^-22), relative (tanh 2^-11), or two units
# in the last place.
ABSOLUTE = {"sin": 2.0**-20.5, "cos": 2.0**-20.5, "lg2": 2.0**-22}
RELATIVE = {"f32": 2.0**-21, "f16": 2.0**-10, "bf16": 2.0**-7, "f64": 2.0**-19}


@pytest.mark.parametrize("instruction", [name for name in DATA["results"] if is_approximate(name)])
def test_an_approximate_instruction_is_close_to_the_gpu_and_equal_on_specials(instruction: str) -> None:
    kind, function = approximate(instruction)
    operands = operands_of(instruction)
    actual = function(*operands)
    expected = unpack(DATA["results"][instruction], 2 * actual.dtype.itemsize)
    values = [n.to_float64(kind, x) for x in operands]
    special = np.any([(v == 0) | ~np.isfinite(v) for v in values], axis=0)
    assert special.sum() > 5
    assert np.array_equal(expected[special], actual[special])
    p, q = n.to_float64(kind, expected), n.to_float64(kind, actual)
    assert np.array_equal(np.isnan(p), np.isnan(q))
    assert np.array_equal(np.isinf(p), np.isinf(q))
    opcode = instruction.split(".")[0]
    relative = 2.0**-11 if opcode == "tanh" and kind == "f32" else RELATIVE[kind]
    with np.errstate(invalid="ignore"):
        allowed = relative * np.abs(p) + ABSOLUTE.get(opcode, 2.0**-148)
        assert np.all((np.abs(p - q) <= allowed) | ~np.isfinite(p))
