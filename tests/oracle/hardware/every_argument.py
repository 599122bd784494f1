"""The approximate functions over every argument they can have: digests of what a GPU gave, block by block.

A block is the 2^23 arguments of one sign and exponent of f32, or all 2^16 of f16 and bf16; of f64 the upper
words are counted through, the lower are 0. `every_argument.json` has 8 bytes of BLAKE2b per block of results.

    python -m oracle.hardware.every_argument              compare Drywell's compiled code, no GPU, minutes
    python -m oracle.hardware.every_argument --numpy      compare what its interpreter computes, an hour
    python -m oracle.hardware.every_argument --record     measure on this machine's GPU and compare, minutes
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import datetime
import functools
import hashlib
import json
import multiprocessing
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drywell.base.dtypes import TYPES
from drywell.engine import jit
from drywell.engine.llvm_ops import LlvmOps
from drywell.engine.llvm_text import Lanes, Module, Writer, vector
from drywell.isa.decode import Mismatch, decode
from oracle.hardware import cuda
from unit.isa.alu import execute

STORE = Path(__file__).with_suffix(".json")

Run = Callable[[str, Any], Any]

FORMS = (
    *(f"{f}.approx{ftz}.f32" for f in ("ex2", "lg2", "rcp", "rsqrt", "sqrt") for ftz in ("", ".ftz")),
    *("sin.approx.f32", "cos.approx.f32", "tanh.approx.f32"),
    *("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"),
    *("ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"),
)
"""What is swept; sin and cos with .ftz are the same machine code as without."""

_THREADS = 256
_CHUNK = 1 << 15  # arguments that Drywell is given at once
_DIGEST_BYTES = 8

_BODIES = {
    "f32": "mov.b32 %f, %code;\n    FORM %f, %f;\n    mov.b32 %code, %f;",
    "f64": "mov.b64 %d, {%zero, %code};\n    FORM %d, %d;\n    mov.b64 {%zero, %code}, %d;",
    "f16": "cvt.u16.u32 %h, %code;\n    FORM %h, %h;\n    cvt.u32.u16 %code, %h;",
}

_PROGRAM = """.version 8.6
.target {target}
.address_size 64
.visible .entry sweep(.param .u64 out, .param .u32 first)
{{
    .reg .b32 %code, %zero, %k, %cta; .reg .b64 %at; .reg .f32 %f; .reg .f64 %d; .reg .b16 %h;
    mov.u32 %k, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mad.lo.u32 %k, %cta, {threads}, %k;
    ld.param.u32 %code, [first];
    add.u32 %code, %code, %k;
    mov.u32 %zero, 0;
    {body}
    ld.param.u64 %at, [out];
    cvta.to.global.u64 %at, %at;
    mad.wide.u32 %at, %k, 4, %at;
    st.global.u32 [%at], %code;
    ret;
}}
"""


def blocks(form: str) -> tuple[int, int]:
    """Return how many blocks a form has, and how many arguments each."""
    return (1, 1 << 16) if form.endswith("f16") else (512, 1 << 23)


def program(form: str, target: str) -> str:
    """Return the PTX that stores the results of consecutive arguments."""
    kind = "f16" if form.endswith("f16") else form[-3:]
    return _PROGRAM.format(target=target, threads=_THREADS, body=_BODIES[kind].replace("FORM", form))


def digest(words: Any) -> bytes:
    """Return the digest of result words, 32 bits each."""
    return hashlib.blake2b(words.astype("<u4").tobytes(), digest_size=_DIGEST_BYTES).digest()


def computed(form: str, block: int, run: Run = execute) -> Any:
    """Return Drywell's results of one block as 32-bit words; `run` gives results of a form's codes."""
    size = blocks(form)[1]
    starts = range(block * size, (block + 1) * size, _CHUNK)
    return np.concatenate([_results(form, start, _CHUNK, run) for start in starts])


def _results(form: str, first: int, count: int, run: Run) -> Any:
    codes = np.arange(first, first + count, dtype=np.uint64)
    if form.endswith("f64"):
        return (run(form, codes << np.uint64(32)) >> np.uint64(32)).astype(np.uint32)
    return run(form, codes.astype(np.uint16 if form.endswith("f16") else np.uint32)).astype(np.uint32)


# ---------------------------------------------------------------- compiled

_LOOP = """define i32 @sweep(ptr %in, ptr %out, i64 %rows) {{
entry:
{entry}
  br label %loop
loop:
  %row = phi i64 [ 0, %entry ], [ %next, %loop ]
  %offset = mul i64 %row, {row_bytes}
  %operand = getelementptr i8, ptr %in, i64 %offset
  %result = getelementptr i8, ptr %out, i64 %offset
{body}
  %next = add i64 %row, 1
  %more = icmp ult i64 %next, %rows
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}"""


@functools.cache
def _code(form: str) -> Any:
    """Compile a form's declaration as a loop over rows of 32 lanes."""
    found = decode(tuple(form.split(".")))
    assert not isinstance(found, Mismatch), found
    declaration, mods = found
    kind = TYPES[form.rsplit(".", 1)[1]]
    module = Module()
    w = Writer(module)
    code = Lanes(w.let(f"load {vector(kind.bits)}, ptr %operand, align 2"), kind.bits)
    result = declaration.semantics(LlvmOps(mods, kind, w), code)
    w.do(f"store {vector(kind.bits)} {result.text}, ptr %result, align 2")
    entry, body = "\n".join(w.entry), "\n".join(w.lines)
    module.functions["sweep"] = _LOOP.format(entry=entry, body=body, row_bytes=4 * kind.bits)
    return jit.compile_module(module, ["sweep"], 3)


def compiled(form: str, codes: Any) -> Any:
    """Return what compiled code gives for codes, a multiple of 32."""
    out = np.empty_like(codes)
    sweep = _code(form).function("sweep", *[ctypes.c_void_p] * 3)
    sweep(codes.ctypes.data, out.ctypes.data, codes.size // 32)
    return out


# ---------------------------------------------------------------- what is stored


@functools.cache
def stored() -> dict[str, Any]:
    """Return what is stored: the GPU, driver, date, and `digests` of each form."""
    found: dict[str, Any] = json.loads(STORE.read_text())
    found["digests"] = {form: _split(base64.b85decode(text)) for form, text in found["digests"].items()}
    return found


def _split(data: bytes) -> list[bytes]:
    return [data[k : k + _DIGEST_BYTES] for k in range(0, len(data), _DIGEST_BYTES)]


# ---------------------------------------------------------------- on a GPU


@functools.cache
def _device() -> cuda.Device:
    return cuda.Device()


@functools.cache
def _loaded(form: str) -> tuple[Any, int]:
    device = _device()
    return device.load(program(form, device.gpu().target)), device.put(bytes(4 * blocks(form)[1]))


def measured(form: str, block: int) -> Any:
    """Return the GPU's results of one block as 32-bit words."""
    size = blocks(form)[1]
    module, out = _loaded(form)
    dims = ((size // _THREADS, 1, 1), (_THREADS, 1, 1), (1, 1, 1))
    params = [struct.pack("<Q", out), struct.pack("<I", block * size)]
    _device().launch(module, "sweep", dims, 0, params)
    return np.frombuffer(_device().get(out, 4 * size), np.uint32)


def _recorded(task: tuple[str, int]) -> tuple[str, int, bytes, int, str]:
    """Measure a block; return its digest, how many of Drywell's words differ, and the first that does."""
    form, block = task
    expected, actual = measured(form, block), computed(form, block)
    wrong = np.flatnonzero(expected != actual)
    first = "" if not wrong.size else f"{form} at {block * blocks(form)[1] + int(wrong[0]):#x}: "
    first = first and f"{first}GPU {int(expected[wrong[0]]):#x}, Drywell {int(actual[wrong[0]]):#x}"
    return form, block, digest(expected), int(wrong.size), first


def tasks() -> Iterator[tuple[str, int]]:
    """Go through the blocks of every form."""
    return ((form, block) for form in FORMS for block in range(blocks(form)[0]))


def record(processes: int, to: Path) -> int:
    """Measure and compare everything, store the digests; return how many words differ."""
    digests: dict[str, dict[int, bytes]] = {form: {} for form in FORMS}
    differing = dict.fromkeys(FORMS, 0)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for form, block, found, wrong, first in pool.imap_unordered(_recorded, tasks(), chunksize=4):
            digests[form][block] = found
            differing[form] += wrong
            if first:
                print(f"{wrong} differ: {first}", flush=True)
    gpu = _device().gpu()
    document = {"gpu": gpu.name, "driver": gpu.driver, "cuda": gpu.cuda, "target": gpu.target}
    document["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    packed = {form: b"".join(digests[form][k] for k in sorted(digests[form])) for form in FORMS}
    texts = {form: base64.b85encode(data).decode() for form, data in packed.items()}
    to.write_text(json.dumps(document | {"digests": texts}, indent=1) + "\n")
    for form in FORMS:
        print(f"{form}: {blocks(form)[0] * blocks(form)[1]} arguments, {differing[form]} differ", flush=True)
    return sum(differing.values())


# ---------------------------------------------------------------- without one


def agrees(form: str, block: int, run: Run) -> bool:
    """Say whether a block of Drywell's results has the stored digest."""
    return bool(digest(computed(form, block, run)) == stored()["digests"][form][block])


def _checked(run: Run, task: tuple[str, int]) -> tuple[str, int, bool]:
    return *task, agrees(*task, run)


def check(processes: int, run: Run) -> int:
    """Compare Drywell with every stored digest; return how many blocks differ."""
    num_wrong = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for form, block, is_equal in pool.imap(functools.partial(_checked, run), tasks(), chunksize=4):
            if block == blocks(form)[0] - 1:
                print(f"{form} compared", flush=True)
            if not is_equal:
                print(f"{form}: block {block} differs", flush=True)
                num_wrong += 1
    return num_wrong


def main(argv: Sequence[str]) -> int:
    """Read the command line; return 1 when something differs."""
    parser = argparse.ArgumentParser(prog="python -m oracle.hardware.every_argument", description=__doc__)
    parser.add_argument("--record", action="store_true", help="measure on this machine's GPU")
    parser.add_argument("--numpy", action="store_true", help="what the interpreter computes")
    parser.add_argument("--processes", type=int, default=2, help="side by side")
    parser.add_argument("--to", type=Path, default=STORE, help="where the digests go")
    options = parser.parse_args(argv)
    run = execute if options.numpy else compiled
    wrong = record(options.processes, options.to) if options.record else check(options.processes, run)
    print(f"{wrong} {'words' if options.record else 'blocks'} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
