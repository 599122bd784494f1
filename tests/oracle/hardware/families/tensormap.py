"""The 128 bytes of tensor maps: how the driver encodes them, what it refuses, how tensormap.replace edits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from oracle.hardware.experiment import HEADER, Argument, Experiment, In, Map, Out, words
from oracle.hardware.families.box_programs import UNTOUCHED, polling
from oracle.hardware.families.tensor import SIZES, numbered

MAP_WORDS = 32
_PER_LAUNCH = 24
_MOST_BYTES = 200_000
_SWIZZLES = {"none": 4096, "32B": 32, "64B": 64, "128B": 128}
_BASE = In(numbered(64, 4))
"""What all maps of an experiment lie over: nobody reads it."""


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of tensor maps."""
    yield from _sweeps()
    yield from _limits()
    yield from _replaced_words()
    yield from _replaced_loads()


def _encoding(name: str, maps: Sequence[dict[str, Any]]) -> Experiment:
    """Return the experiment that shows the bytes of some maps, their addresses counted from the array's."""
    params = ", ".join(f".param .align 64 .b8 m{k}[128]" for k in range(len(maps)))
    body = "".join(
        f"    mov.b64 %m, m{k};\n    cvta.param.u64 %m, %m;\n    add.u64 %m, %m, %t8;\n    ld.u64 %x, [%m];\n"
        f"    @%first sub.u64 %x, %x, %base;\n    st.global.u64 [%out+{128 * k}], %x;\n"
        for k in range(len(maps))
    )
    program = (
        f"{HEADER}.visible .entry k(.param .u64 base, .param .u64 out, {params})\n{{\n"
        "    .reg .u32 %t;\n    .reg .u64 %base, %out, %m, %x, %t8;\n    .reg .pred %first;\n"
        "    ld.param.u64 %base, [base];\n    ld.param.u64 %out, [out];\n    mov.u32 %t, %tid.x;\n"
        "    setp.eq.u32 %first, %t, 0;\n    mul.wide.u32 %t8, %t, 8;\n    add.u64 %out, %out, %t8;\n"
        f"{body}    ret;\n}}\n"
    )
    out = Out(np.zeros(MAP_WORDS * len(maps), np.uint32))
    args: tuple[Argument, ...] = (_BASE, out, *(Map(how, over=0) for how in maps))
    forms = ("ld.u64",) if len(maps) < _PER_LAUNCH else ("ld.u64", "cvta.param.u64")
    return Experiment(f"tensormap/{name}", forms, program, args, block=(16, 1, 1))


class _Draw:
    """Numbers from a seed, one after the other."""

    def __init__(self, seed: str) -> None:
        self._words = iter(words(seed, 256))

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return int(next(self._words)) % limit

    def of(self, values: Sequence[Any]) -> Any:
        """Return one of some values."""
        return values[self.below(len(values))]


def _drawn_map(draw: _Draw, is_im2col: bool) -> dict[str, Any]:
    """Return the keywords of some map that the driver takes."""
    rank = draw.of((3, 4, 5)) if is_im2col else draw.of((1, 2, 3, 4, 5))
    element = draw.of(tuple(SIZES))
    size = SIZES[element]
    swizzle = draw.of(tuple(_SWIZZLES))
    inner = 16 * (1 + draw.below(min(_SWIZZLES[swizzle], 256 * size) // 16)) // size
    dims = [1 + draw.below(1 << draw.of((4, 8, 12)))]
    steps = [size, -(-dims[0] * size // 16) * 16]
    while len(dims) < rank:
        dims.append(1 + draw.below(1 << draw.of((3, 6, 9))))
        steps.append(steps[-1] * dims[-1])
    how: dict[str, Any] = {
        "dtype": element,
        "shape": tuple(dims[::-1]),
        "strides": tuple(steps[:rank][::-1]),
        "swizzle": swizzle,
        "oob_fill": draw.of(("zero", "nan")) if "f" in element else "zero",
        "l2_promotion": draw.of(("none", "64B", "128B", "256B")),
        "element_strides": tuple(draw.of((1, 1, 1, 2, 3, 8)) for _ in range(rank)),
    }
    if not is_im2col:
        box = [inner]
        for most in (256, 64, 8, 4)[: rank - 1][::-1]:
            box.append(1 + draw.below(min(most, max(1, _MOST_BYTES // (math.prod(box) * size)))))
        return how | {"box": tuple(box[rank - 1 :: -1])}
    limit, spatial = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}[rank], how["shape"][1:-1]
    lower = tuple(draw.below(2 * limit) - limit for _ in range(rank - 2))
    upper = tuple(_upper(draw, limit, low, dim) for low, dim in zip(lower, spatial, strict=True))
    how |= {"mode": "im2col", "lower_corner": lower, "upper_corner": upper}
    return how | {
        "channels_per_pixel": inner,
        "pixels_per_column": 1 + draw.below(min(1024, _MOST_BYTES // (inner * size))),
    }


def _upper(draw: _Draw, limit: int, low: int, dim: int) -> int:
    """Return an upper corner that leaves the box of an image some pixels."""
    least = max(-limit, low - dim + 1)
    return min(limit - 1, least + draw.below(max(1, limit - least)))


def _sweeps() -> Iterator[Experiment]:
    for k in range(24):
        maps = [_drawn_map(_Draw(f"map {k} {i}"), False) for i in range(_PER_LAUNCH)]
        yield _encoding(f"tile maps {k}", maps)
    for k in range(12):
        maps = [_drawn_map(_Draw(f"im2col map {k} {i}"), True) for i in range(_PER_LAUNCH)]
        yield _encoding(f"im2col maps {k}", maps)


_PLAIN: dict[int, dict[str, Any]] = {
    rank: {
        "dtype": "u16",
        "shape": (*(8,) * (rank - 1), 64),
        "strides": (*(128 * 8**i for i in range(rank - 1)[::-1]), 2),
        "box": (*(2,) * (rank - 1), 16),
    }
    for rank in (1, 2, 3, 4, 5)
}

_COLUMNS: dict[int, dict[str, Any]] = {
    rank: {k: v for k, v in _PLAIN[rank].items() if k != "box"}
    | {
        "mode": "im2col",
        "lower_corner": (0,) * (rank - 2),
        "upper_corner": (0,) * (rank - 2),
        "channels_per_pixel": 16,
        "pixels_per_column": 8,
    }
    for rank in (3, 4, 5)
}


def _limits() -> Iterator[Experiment]:
    """Maps on both sides of each limit: the driver takes them or refuses them."""
    for name, how in (*_tile_limits(), *_interleave_limits(), *_im2col_limits()):
        ends: Literal["done", "refused"] = "refused" if _is_refused(how) else "done"
        yield replace(_encoding(f"limit {name}", [how]), ends=ends)


def _is_refused(how: dict[str, Any]) -> bool:
    """Say whether the driver of an H200 refuses a map: each line is a limit that was found by trying."""
    size, shape, rank = SIZES[how["dtype"]], how["shape"], len(how["shape"])
    steps, interleave = how.get("element_strides", (1,) * rank), how.get("interleave", "none")
    box = how.get("box") or (how["pixels_per_column"], how["channels_per_pixel"])
    pitches, inner = how["strides"][:-1], box[-1] * size
    most = (256,) * rank if "box" in how else (1024, 256)
    floors = (b // max(1, s) for b, s in zip(box, steps if "box" in how else (1, 1), strict=True))
    corners = tuple(zip(how.get("lower_corner", ()), how.get("upper_corner", ()), shape[1:-1], strict=False))
    limit = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}.get(rank - 2, 0)
    return (
        not all(1 <= n <= 1 << 32 for n in shape)
        or not all(1 <= n <= top for n, top in zip(box, most, strict=True))
        or not all(1 <= n <= 8 for n in steps)
        or not all(p % (32 if interleave == "32B" else 16) == 0 and p < 1 << 40 for p in pitches)
        or (interleave != "none" and rank < 3)
        or inner % 16 != 0
        or (interleave == "none" and inner > _SWIZZLES[how.get("swizzle", "none")])
        or (how.get("oob_fill") == "nan" and "f" not in how["dtype"])
        or math.prod(floors) * size > 228 << 10
        or not all(-limit <= c < limit for low, high, _ in corners for c in (low, high))
        or not all(low <= dim - 1 + high for low, high, dim in corners)
    )


def _tile_limits() -> Iterator[tuple[str, dict[str, Any]]]:
    two, three = _PLAIN[2], _PLAIN[3]
    for stride in (0, 8, 16, 24, 48, 112, 1 << 36, (1 << 40) - 16, 1 << 40, (1 << 40) + 16):
        yield f"stride {stride}", two | {"strides": (stride, 2)}
    for pair in ((16, 1024), (1024, 128), (272, 128), (48, 32)):
        yield f"strides {pair}", three | {"strides": (*pair, 2)}
    for dim in (0, 1, 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 1):
        yield f"inner size {dim}", two | {"shape": (8, dim)}
        yield f"outer size {dim}", two | {"shape": (dim, 64)}
    boxes = [(height, 16) for height in (0, 1, 256, 257)] + [(256, 256)]
    boxes += [(2, width) for width in (0, 4, 8, 12, 248, 256, 264)]
    for box in boxes:
        yield f"box {box}", two | {"box": box}
    for rank in (3, 4, 5):
        yield f"box of 256 in {rank}d", _PLAIN[rank] | {"box": (256,) * rank}
    bytes_of = _PLAIN[3] | {"dtype": "u8", "strides": (4096, 256, 1), "shape": (8, 8, 256)}
    large = [(4, 227, 256), (4, 227, 240), (7, 130, 256), (4, 228, 256), (229, 64, 16), (227, 64, 16)]
    for cube in (*large, (3, 251, 256), (9, 101, 256), (8, 114, 256), (227, 256, 4)):
        yield f"bytes {cube}", bytes_of | {"box": cube}
    for steps in ((2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 1, 8)):
        for cube in ((9, 200, 256), (10, 226, 256), (256, 7, 256)):
            yield f"bytes {cube} steps {steps}", bytes_of | {"box": cube, "element_strides": steps}
    for swizzle, width in (("32B", 16), ("64B", 32), ("128B", 64), ("128B", 128)):
        for height in (200, 256):
            case = bytes_of | {"box": (9, height, width), "swizzle": swizzle}
            yield f"bytes of {height} rows of {width} in {swizzle}", case
    yield "box above the tensor", two | {"shape": (1, 8), "box": (4, 64)}
    for step in (0, 1, 2, 3, 8, 9):
        yield f"outer step {step}", two | {"element_strides": (step, 1)}
        yield f"inner step {step}", two | {"element_strides": (1, step)}
    for swizzle, span in tuple(_SWIZZLES.items())[1:]:
        for width in dict.fromkeys((16, span - 16, span, span + 16)):
            yield f"{swizzle} box of {width}", two | {"swizzle": swizzle, "box": (2, width // 2)}
        yield f"swizzle {swizzle} in 1d", _PLAIN[1] | {"swizzle": swizzle}
    for element, size in SIZES.items():
        words_of = {
            "dtype": element,
            "strides": (128, size),
            "box": (2, 16 // size),
            "shape": (4, 64 // size),
        }
        yield f"nan of {element}", two | words_of | {"oob_fill": "nan"}
        yield f"{element}", two | words_of
        if size > 1:
            yield f"{element} box of half a chunk", two | words_of | {"box": (2, 8 // size)}


def _interleave_limits() -> Iterator[tuple[str, dict[str, Any]]]:
    for interleave in ("16B", "32B"):
        for rank in (1, 2, 3, 4, 5):
            swizzle = "32B" if interleave == "32B" else "none"
            yield f"{interleave} in {rank}d", _PLAIN[rank] | {"interleave": interleave, "swizzle": swizzle}
        for swizzle in _SWIZZLES:
            yield f"{interleave} with {swizzle}", _PLAIN[3] | {"interleave": interleave, "swizzle": swizzle}
        both = _PLAIN[3] | {"interleave": interleave, "swizzle": "32B"}
        for channels in (0, 1, 4, 8, 9, 16, 17, 256, 257):
            yield f"{interleave} box of channels {channels}", both | {"box": (2, channels, 16)}
        for step in (2, 8, 9):
            yield f"{interleave} channel step {step}", both | {"element_strides": (1, step, 1)}
        for inner in (0, 1, 4, 7, 8, 12, 16, 24, 32, 64, 72, 256):
            yield f"{interleave} inner box {inner}", both | {"box": (2, 2, inner)}
        for step in (1, 2, 8, 9):
            yield f"{interleave} inner step {step}", both | {"element_strides": (1, 1, step)}
        for stride in (16, 48, 64, 128):
            yield f"{interleave} stride {stride}", both | {"strides": (1024, stride, 2)}
        for dim in (1, 7, 8, 12, 16, 100):
            yield f"{interleave} inner size {dim}", both | {"shape": (8, 8, dim)}
        for element in SIZES:
            strides = {"strides": (1024, 128, SIZES[element]), "box": (2, 2, 16 // SIZES[element])}
            yield f"{interleave} of {element}", both | strides | {"dtype": element}


def _im2col_limits() -> Iterator[tuple[str, dict[str, Any]]]:
    for rank, limit in ((3, 1 << 15), (4, 1 << 7), (5, 1 << 4)):
        plain, count = _COLUMNS[rank], rank - 2
        for value in (-limit - 1, -limit, limit - 1, limit):
            for i in range(count):
                corner = tuple(value if j == i else 0 for j in range(count))
                yield f"{rank}d lower {corner}", plain | {"lower_corner": corner}
                yield f"{rank}d upper {corner}", plain | {"upper_corner": corner}
        yield f"{rank}d empty", plain | {"lower_corner": (4,) * count, "upper_corner": (-5,) * count}
        yield f"{rank}d of none", plain | {"lower_corner": (4,) * count, "upper_corner": (-4,) * count}
        crossed = (4, *(0,) * (count - 1))
        yield (
            f"{rank}d none in one",
            plain | {"lower_corner": crossed, "upper_corner": (-4, *(0,) * (count - 1))},
        )
        yield f"{rank}d of one", plain | {"lower_corner": (4,) * count, "upper_corner": (-3,) * count}
        for i in range(rank):
            for step in (2, 8, 9):
                steps = tuple(step if j == i else 1 for j in range(rank))
                yield f"{rank}d step {steps}", plain | {"element_strides": steps}
    plain = _COLUMNS[4]
    for channels in (0, 1, 4, 8, 12, 248, 256, 264):
        yield f"channels {channels}", plain | {"channels_per_pixel": channels}
    for pixels in (0, 1, 255, 256, 257, 512, 1023, 1024, 1025):
        yield f"pixels {pixels}", plain | {"pixels_per_column": pixels}
    for pixels in (907, 908, 909, 912, 913):
        yield f"{pixels} pixels of 256", plain | {"pixels_per_column": pixels, "channels_per_pixel": 128}
    for pixels in (512, 1024):
        narrow = {"pixels_per_column": pixels, "channels_per_pixel": 8}
        yield f"{pixels} pixels of 16 in 128B", plain | narrow | {"swizzle": "128B"}
    yield "columns of 256 KiB", plain | {"pixels_per_column": 1024, "channels_per_pixel": 128}
    for swizzle, span in tuple(_SWIZZLES.items())[1:]:
        for width in (16, span, span + 16):
            yield (
                f"{swizzle} channels {width // 2}",
                plain | {"swizzle": swizzle, "channels_per_pixel": width // 2},
            )
    for interleave in ("16B", "32B"):
        for swizzle in _SWIZZLES:
            yield f"im2col {interleave} {swizzle}", plain | {"interleave": interleave, "swizzle": swizzle}


_INDEXED = {
    "box_dim": ("b32", 5, (1, 2, 255, 256, 0, 257, 0x1_0001)),
    "global_dim": ("b32", 5, (1, 2, 1000, 0xFFFF_FFFF, 0, 0x8000_0000)),
    "element_stride": ("b32", 5, (1, 2, 7, 8, 0, 9, 16)),
    "global_stride": ("b64", 4, (16, 32, 4096, 1 << 36, (1 << 40) - 16, 0, 8, 24, 1 << 40, 0xAB_CDEF_0120)),
}
_CODES = {
    "elemtype": range(13),
    "interleave_layout": range(3),
    "swizzle_mode": range(4),
    "fill_mode": range(2),
}
_PLAIN_FIELDS = {"global_address": ("b64", (0, 16, 4096, 8, 1)), "rank": ("b32", (0, 1, 2, 3, 4, 5, 7, 8))}
SPACES = {"global": ".global", "shared::cta": ".shared::cta", "": ""}


def replace_opcode(field: str, space: str, type_name: str) -> str:
    """Return a spelling of tensormap.replace."""
    return f"tensormap.replace.tile.{field}{SPACES[space]}.b1024.{type_name}"


def _edits(field: str, space: str) -> Iterator[tuple[str, str]]:
    """Yield every edit of a field: its spelling, and the line that does it at `%a`."""
    if field in _CODES:
        for code in _CODES[field]:
            opcode = replace_opcode(field, space, "b32")
            yield opcode, f"    @%first {opcode} [%a], {code};\n"
        return
    type_name, ordinals, values = (
        _INDEXED[field] if field in _INDEXED else (_PLAIN_FIELDS[field][0], 0, _PLAIN_FIELDS[field][1])
    )
    opcode = replace_opcode(field, space, type_name)
    for i in range(max(1, ordinals)):
        for value in values:
            put = f"    mov.{type_name} %{'x' if type_name == 'b64' else 'v'}, {value};\n"
            if field == "global_address":
                put += "    add.u64 %x, %x, %base;\n"
            which = f"{i}, " if ordinals else ""
            yield opcode, f"{put}    @%first {opcode} [%a], {which}%{'x' if type_name == 'b64' else 'v'};\n"


_REPLACE_HEAD = """    .shared .align 1024 .b8 tile[2048];
    .shared .align 128 .b8 edited[128];
    .shared .align 8 .b64 bar;
    .reg .u32 %t, %v, %s, %j;
    .reg .u64 %base, %scratch, %out, %m, %x, %y, %t8, %ld, %dump;
    .reg .pred %p, %q, %first;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    mul.wide.u32 %t8, %t, 4;
    ld.param.u64 %base, [base];
    ld.param.u64 %out, [out];
    ld.param.u64 %scratch, [scratch];
    mov.b64 %m, m;
    cvta.param.u64 %m, %m;
    add.u64 %m, %m, %t8;
    ld.u32 %v, [%m];
"""


def _place(space: str) -> str:
    """Return how the map comes to where it is edited: `%a` points there, `%ld` to the lane's word of it."""
    if space == "global":
        at = "    mov.u64 %a, %scratch;\n    add.u64 %ld, %a, %t8;\n    st.global.u32 [%ld], %v;\n"
    elif space:
        at = "    mov.u32 %a, edited;\n    mad.lo.u32 %ld, %t, 4, %a;\n    st.shared.u32 [%ld], %v;\n"
    else:
        at = "    mov.u32 %s, edited;\n    cvt.u64.u32 %a, %s;\n    cvta.shared.u64 %a, %a;\n"
        at += "    add.u64 %ld, %a, %t8;\n    st.u32 [%ld], %v;\n"
    return f"{at}    bar.warp.sync -1;\n"


def _program(space: str, body: str) -> str:
    head = _REPLACE_HEAD
    if space == "shared::cta":
        head = head.replace("%t8, %ld, %dump;", "%t8, %dump;").replace("%s, %j;", "%s, %j, %a, %ld;")
    else:
        head = head.replace("%ld, %dump;", "%ld, %dump, %a;")
    return (
        f"{HEADER}.visible .entry k(.param .align 64 .b8 m[128], .param .u64 base, .param .u64 scratch,"
        f" .param .u64 out)\n{{\n{head}{_place(space)}{body}    ret;\n}}\n"
    )


def _replaced_words() -> Iterator[Experiment]:
    """What a field's new value does to the 128 bytes."""
    load = {"global": "ld.global.u64", "shared::cta": "ld.shared.u64", "": "ld.u64"}
    for space in SPACES:
        for field in (*_PLAIN_FIELDS, *_INDEXED, *_CODES):
            body = (
                "    add.u64 %dump, %out, %t8;\n    add.u64 %dump, %dump, %t8;\n    setp.lt.u32 %p, %t, 16;\n"
            )
            one = "u32" if space == "shared::cta" else "u64"
            body += f"    cvt.{one}.u32 %ld, %t;\n    mad.lo.{one} %ld, %ld, 8, %a;\n"
            edits = tuple(_edits(field, space))
            for k, (_, line) in enumerate(edits):
                body += (
                    f"{line}    bar.warp.sync -1;\n    @%p {load[space]} %x, [%ld];\n"
                    f"    @%first sub.u64 %x, %x, %base;\n    @%p st.global.u64 [%dump+{128 * k}], %x;\n"
                    "    bar.warp.sync -1;\n"
                )
            out = Out(np.zeros(MAP_WORDS * len(edits), np.uint32))
            how = _PLAIN[5] | {"swizzle": "32B", "element_strides": (2, 1, 3, 1, 1), "dtype": "f16"}
            args = (Map(how, over=1), _BASE, In(np.zeros(32, np.uint32)), out)
            yield Experiment(
                f"tensormap/replace {field}{SPACES[space]}", (edits[0][0],), _program(space, body), args
            )


_CHANGES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "nothing": (),
    "address": (("global_address", "b64", "base+256"),),
    "sizes": (("global_dim", "b32", "0, 20"), ("global_dim", "b32", "1, 3")),
    "stride": (("global_stride", "b64", "0, 96"),),
    "step": (("element_stride", "b32", "1, 2"), ("box_dim", "b32", "1, 8")),
    "box": (("box_dim", "b32", "0, 8"), ("box_dim", "b32", "1, 8")),
    "type": (("elemtype", "b32", "2"), ("box_dim", "b32", "0, 8"), ("global_dim", "b32", "0, 16")),
    "swizzle": (("swizzle_mode", "b32", "1"),),
    "fill": (("elemtype", "b32", "6"), ("fill_mode", "b32", "1"), ("global_dim", "b32", "0, 21")),
    "all": (
        ("global_address", "b64", "base+128"),
        ("rank", "b32", "1"),
        ("box_dim", "b32", "0, 16"),
        ("box_dim", "b32", "1, 4"),
        ("global_dim", "b32", "0, 24"),
        ("global_dim", "b32", "1, 9"),
        ("global_stride", "b64", "0, 64"),
        ("element_stride", "b32", "0, 1"),
        ("element_stride", "b32", "1, 1"),
        ("elemtype", "b32", "1"),
        ("interleave_layout", "b32", "0"),
        ("swizzle_mode", "b32", "0"),
        ("fill_mode", "b32", "0"),
    ),
}


def _replaced_loads() -> Iterator[Experiment]:
    """Maps edited in shared or global memory, published, and then used: each copies 128 bytes."""
    scopes = ("cta", "cluster", "gpu", "sys")
    for space in ("shared::cta", "global"):
        for k, (name, changes) in enumerate(_CHANGES.items()):
            yield _replaced_load(name, space, changes, scopes[k % 4])


def _replaced_load(name: str, space: str, changes: Any, scope: str) -> Experiment:
    forms, body = [], ""
    for field, type_name, value in changes:
        opcode = replace_opcode(field, space, type_name)
        forms.append(opcode)
        if value.startswith("base"):
            body += f"    add.u64 %x, %base, {value[5:]};\n"
            value = "%x"
        body += f"    @%first {opcode} [%a], {value};\n"
    acquire = f"fence.proxy.tensormap::generic.acquire.{scope}"
    if space == "global":
        publish = f"fence.proxy.tensormap::generic.release.{scope}"
        body += f"    {publish};\n    bar.warp.sync -1;\n"
    else:
        publish = (
            f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned"
        )
        body += f"    bar.warp.sync -1;\n    {publish} [%scratch], [%a], 128;\n"
    load = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
    body += (
        f"    {acquire} [%scratch], 128;\n    mov.u32 %s, tile;\n    mad.lo.u32 %s, %t, 16, %s;\n"
        f"    mov.u32 %v, {UNTOUCHED:#x};\n    st.shared.v4.u32 [%s], {{%v, %v, %v, %v}};\n"
        "    fence.proxy.async;\n    bar.warp.sync -1;\n    @!%first bra ISSUED;\n    mov.u32 %s, tile;\n"
        "    mbarrier.init.shared::cta.b64 [bar], 1;\n"
        "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n"
        f"    {load} [%s], [%scratch, {{8, 1}}], [bar];\nISSUED:\n    bar.warp.sync -1;\n{polling()}"
        "    mov.u32 %s, tile;\n    mad.lo.u32 %s, %t, 4, %s;\n    add.u64 %dump, %out, %t8;\n"
        "    @%first st.global.u32 [%out], %v;\n"
    )
    body += "".join(
        f"    ld.shared.u32 %v, [%s+{128 * k}];\n    st.global.u32 [%dump+{16 + 128 * k}], %v;\n"
        for k in range(4)
    )
    how = {"dtype": "u16", "shape": (8, 32), "strides": (64, 2), "box": (4, 16)}
    spelt = tuple(dict.fromkeys((*forms, publish, acquire, load)))
    args = (
        Map(how, over=1),
        In(numbered(1024, 2)),
        In(np.zeros(32, np.uint32)),
        Out(np.full(4 + 128, 0x7777_7777, np.uint32)),
    )
    return Experiment(f"tensormap/load with another {name}, {space}", spelt, _program(space, body), args)
