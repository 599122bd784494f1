"""Loads, stores and moves: widths, extensions, vectors, state spaces, addresses, and faults.

Cache operators, orders, scopes and hints change no value: their forms are proved to be just that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oracle.hardware.experiment import Argument, Experiment, In, Scalar, zeros
from oracle.hardware.families.listing import cells, named, program
from oracle.hardware.families.operands import filled, stream, words

_TYPES = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
_PREFIX = {16: "h", 32: "r", 64: "d", 128: "q"}
_STRIDE = 16
_CONSTANTS = words(stream(3000), 128)


def _bits(kind: str) -> int:
    return int(kind[1:])


def _destinations(kind: str) -> tuple[int, ...]:
    """Return the register widths that a load of a type may fill."""
    if kind[0] == "f":
        return (_bits(kind),)
    return tuple(w for w in (16, 32, 64) if w >= _bits(kind))


# ---------------------------------------------------------------- one element

_PLACES = {
    "global": ("", ""),
    "": ("", ""),
    "shared": (f".shared .align 16 .b8 room[{32 * _STRIDE}];", "mov.u32 %r90, room;"),
    "shared::cta": (f".shared .align 16 .b8 room[{32 * _STRIDE}];", "mov.u32 %r90, room;"),
    "shared::cluster": (f".shared .align 16 .b8 room[{32 * _STRIDE}];", "mov.u32 %r90, room;"),
    "local": (f".local .align 16 .b8 room[{_STRIDE}];", "mov.u32 %r90, room;"),
}


def _address(space: str) -> str:
    """Return the code that puts the address of the thread's place in a space into `%d91` or `%r91`."""
    if space in ("global", ""):
        return f"mad.wide.u32 %d91, %t, {_STRIDE}, %a0;\n"
    step = "mov.u32 %r91, %r90;" if space == "local" else f"mad.lo.u32 %r91, %t, {_STRIDE}, %r90;"
    return f"{_PLACES[space][1]}\n{step}\n"


def _where(space: str) -> str:
    return "%d91" if space in ("global", "") else "%r91"


def _fill(space: str) -> str:
    """Return the code that copies the thread's 16 bytes of parameter 0 into its place."""
    if space in ("global", ""):
        return ""
    return (
        f"mad.wide.u32 %d92, %t, {_STRIDE}, %a0;\nld.global.v2.b64 {{%d93, %d94}}, [%d92];\n"
        f"st.{space}.v2.b64 [%r91], {{%d93, %d94}};\n"
    )


def _loads(space: str) -> Experiment:
    """Every type into every register that is wide enough, at two offsets."""
    body, forms, count = _address(space) + _fill(space), [], 0
    body += "mad.wide.u32 %d90, %t, 8, %a1;\n"
    for kind in _TYPES:
        form = f"ld{named(space)}.{kind}"
        forms.append(form)
        for width in _destinations(kind):
            for offset in (0, 8 - _bits(kind) // 8 if kind[1:] != "64" else 8):
                register = f"%{_PREFIX[width]}1"
                body += f"{form} {register}, [{_where(space)}+{offset}];\n"
                body += f"st.global.b{width} [%d90+{count * 256}], {register};\n"
                count += 1
    text = program(body, 2, shared=_PLACES[space][0])
    data = words(stream(3001), 32 * _STRIDE, bits=8)
    name = (space or "generic").replace("::", "_")
    return Experiment(f"memory/loads_{name}", tuple(forms), text, (In(data), filled(count * 256, "uint64")))


def _stores(space: str) -> Experiment:
    """Every type from every register that is wide enough: the low bits go to memory, the rest stays."""
    body, forms, block = "", [], 0
    body += "mad.wide.u32 %d80, %t, 8, %a1;\nld.global.b64 %d1, [%d80];\ncvt.u32.u64 %r1, %d1;\n"
    body += "cvt.u16.u32 %h1, %r1;\n"
    body += (
        _address(space)
        if space in ("global", "")
        else f"{_address(space)}mad.wide.u32 %d91, %t, {_STRIDE}, %a0;\n"
    )
    for kind in _TYPES:
        form = f"st{named(space)}.{kind}"
        forms.append(form)
        for width in _destinations(kind):
            offset = (block * 5) % 16 // (_bits(kind) // 8) * (_bits(kind) // 8)
            if space in ("global", ""):
                body += f"{form} [%d91+{block * 32 * _STRIDE + offset}], %{_PREFIX[width]}1;\n"
            else:
                body += f"mov.u64 %d92, -1;\nst.{space}.v2.b64 [%r91], {{%d92, %d92}};\n"
                body += f"{form} [%r91+{offset}], %{_PREFIX[width]}1;\n"
                body += f"ld.{space}.v2.b64 {{%d93, %d94}}, [%r91];\n"
                body += f"st.global.v2.b64 [%d91+{block * 32 * _STRIDE}], {{%d93, %d94}};\n"
            block += 1
    text = program(body, 2, shared=_PLACES[space][0])
    data = words(stream(3002), 32, bits=64)
    name = (space or "generic").replace("::", "_")
    return Experiment(f"memory/stores_{name}", tuple(forms), text, (filled(block * 32 * _STRIDE), In(data)))


# ---------------------------------------------------------------- vectors


def _vectors(space: str) -> Experiment:
    """Loads and stores of v2 and v4 of every type up to 16 bytes, and of one b128."""
    body, forms, block = _address(space) + _fill(space), [], 0
    body += f"mad.wide.u32 %d80, %t, {_STRIDE}, %a1;\n"
    for vec in (2, 4):
        for kind in _TYPES:
            if vec * _bits(kind) > 128:
                continue
            prefix = _PREFIX[max(_bits(kind), 16)]
            tail = f"{named(space)}.v{vec}.{kind}"
            forms += [f"ld{tail}", f"st{tail}"]
            listed = cells(prefix, 1, vec)
            back = (
                cells(prefix, 1, vec)
                if vec == 2
                else "{" + ", ".join(f"%{prefix}{k}" for k in (3, 4, 1, 2)) + "}"
            )
            body += f"ld{tail} {listed}, [{_where(space)}];\n"
            at = f"[%d80+{block * 32 * _STRIDE}]"
            if space in ("global", ""):
                body += f"st{tail} {at}, {back};\n"
            else:  # into the place's other half of the file: through the space, then out
                body += f"st{tail} [{_where(space)}], {back};\n"
                body += f"ld.{space}.v2.b64 {{%d93, %d94}}, [{_where(space)}];\n"
                body += f"st.global.v2.b64 {at}, {{%d93, %d94}};\n"
            block += 1
    if space in ("global", "", "shared"):
        forms += [f"ld{named(space)}.b128", f"st{named(space)}.b128"]
        body += f"ld{named(space)}.b128 %q1, [{_where(space)}];\nmov.b128 {{%d1, %d2}}, %q1;\n"
        body += "mov.b128 %q2, {%d2, %d1};\n"
        at = _where(space) if space == "shared" else f"%d80+{block * 32 * _STRIDE}"
        body += f"st{named(space)}.b128 [{at}], %q2;\n"
        if space == "shared":
            body += f"ld.shared.v2.b64 {{%d93, %d94}}, [{_where(space)}];\n"
            body += f"st.global.v2.b64 [%d80+{block * 32 * _STRIDE}], {{%d93, %d94}};\n"
        block += 1
    text = program(body, 2, shared=_PLACES[space][0])
    data = words(stream(3003), 32 * _STRIDE, bits=8)
    args = (In(data), filled(block * 32 * _STRIDE))
    return Experiment(f"memory/vectors_{space or 'generic'}".replace("::", "_"), tuple(forms), text, args)


# ---------------------------------------------------------------- operators and orders

_LOAD_TAILS = (
    ".global.ca",
    ".global.cg",
    ".global.cs",
    ".global.lu",
    ".global.cv",
    ".global.nc",
    ".global.ca.nc",
    ".global.cg.nc",
    ".global.L1::evict_normal",
    ".global.L1::evict_unchanged",
    ".global.L1::evict_first",
    ".global.L1::evict_last",
    ".global.L1::no_allocate",
    ".global.nc.L1::no_allocate",
    ".global.L2::64B",
    ".global.L2::128B",
    ".global.L2::256B",
    ".global.nc.L2::128B",
    ".weak.global",
    ".volatile.global",
    *(
        f".{sem}.{scope}.global"
        for sem in ("relaxed", "acquire")
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    ".volatile",
    ".relaxed.gpu",
    ".acquire.cta",
    ".mmio.relaxed.sys.global",
)
_STORE_TAILS = (
    ".global.wb",
    ".global.cg",
    ".global.cs",
    ".global.wt",
    ".global.L1::evict_normal",
    ".global.L1::evict_first",
    ".global.L1::evict_last",
    ".global.L1::no_allocate",
    ".weak.global",
    ".volatile.global",
    *(
        f".{sem}.{scope}.global"
        for sem in ("relaxed", "release")
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    ".volatile",
    ".release.gpu",
    ".mmio.relaxed.sys.global",
)


def _fixed(tail: str) -> str:
    """Put `.mmio` where it is written: after the order."""
    return tail.replace(".mmio.relaxed", ".relaxed") if tail.startswith(".mmio") else tail


def _operators() -> Experiment:
    """Every cache operator, order, scope and hint on global memory."""
    body, forms, count = "mad.wide.u32 %d0, %t, 4, %a0;\nmad.wide.u32 %d1, %t, 4, %a1;\n", [], 0
    for tail in _LOAD_TAILS:
        form = f"ld.mmio{_fixed(tail)}.b32" if tail.startswith(".mmio") else f"ld{tail}.b32"
        forms.append(form)
        body += f"{form} %r1, [%d0+{count * 128}];\nst.global.b32 [%d1+{count * 128}], %r1;\n"
        count += 1
    for tail in _STORE_TAILS:
        form = f"st.mmio{_fixed(tail)}.b32" if tail.startswith(".mmio") else f"st{tail}.b32"
        forms.append(form)
        body += f"ld.global.b32 %r1, [%d0+{count * 128}];\n{form} [%d1+{count * 128}], %r1;\n"
        count += 1
    body += """
        createpolicy.fractional.L2::evict_last.b64 %d2, 0.5;
        createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d3;
    """
    for policy in ("%d2", "%d3"):
        body += f"ld.global.L2::cache_hint.b32 %r1, [%d0+{count * 128}], {policy};\n"
        body += f"st.global.L2::cache_hint.b32 [%d1+{count * 128}], %r1, {policy};\n"
        count += 1
    forms += ["ld.global.L2::cache_hint.b32", "st.global.L2::cache_hint.b32"]
    data = words(stream(3004), count * 32)
    return Experiment("memory/operators", tuple(forms), program(body, 2), (In(data), zeros(count * 32)))


def _shared_operators() -> Experiment:
    """Orders and scopes on shared memory, prefetches of every kind, ldu."""
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mad.wide.u32 %d1, %t, 4, %a1;
        ld.global.b32 %r1, [%d0];
        mov.u32 %r2, room;
        mad.lo.u32 %r2, %t, 4, %r2;
    """
    forms = []
    for k, (store, load) in enumerate(
        (
            ("st.volatile.shared", "ld.volatile.shared"),
            ("st.relaxed.cta.shared", "ld.relaxed.cta.shared"),
            ("st.release.cta.shared", "ld.acquire.cta.shared"),
            ("st.relaxed.gpu.shared::cta", "ld.acquire.gpu.shared::cta"),
            ("st.weak.shared::cluster", "ld.weak.shared::cluster"),
            ("st.release.cluster.shared::cluster", "ld.relaxed.cluster.shared::cluster"),
        )
    ):
        forms += [f"{store}.b32", f"{load}.b32"]
        body += f"add.u32 %r1, %r1, 0x9E3779B9;\n{store}.b32 [%r2], %r1;\n{load}.b32 %r3, [%r2];\n"
        body += f"st.global.b32 [%d1+{k * 128}], %r3;\n"
    for form in (
        "prefetch.global.L1",
        "prefetch.global.L2",
        "prefetch.L1",
        "prefetch.L2",
        "prefetchu.L1",
        "prefetch.global.L2::evict_last",
        "prefetch.global.L2::evict_normal",
    ):
        forms.append(form)
        body += f"{form} [%d0];\n"
    body += "applypriority.global.L2::evict_normal [%a0], 128;\n"
    forms.append("applypriority.global.L2::evict_normal")
    at = 6 * 128
    for form, registers in (
        ("ldu.global.b32", "%r4"),
        ("ldu.b32", "%r4"),
        ("ldu.global.v2.u32", "{%r4, %r5}"),
        ("ldu.global.v4.s32", "{%r4, %r5, %r6, %r7}"),
        ("ldu.global.u8", "%r4"),
        ("ldu.global.s16", "%r4"),
    ):
        forms.append(form)
        body += f"mov.u32 %r5, 0;\n{form} {registers}, [%a0+16];\nadd.u32 %r4, %r4, %r5;\n"
        body += f"st.global.b32 [%d1+{at}], %r4;\n"
        at += 128
    args = (In(words(stream(3005), 64)), zeros(at // 4))
    shared = ".shared .align 4 .b8 room[128];"
    return Experiment("memory/shared_operators", tuple(forms), program(body, 2, shared=shared), args)


# ---------------------------------------------------------------- constants, parameters, variables


def _listed_bytes(data: np.ndarray) -> str:
    return "{" + ", ".join(str(int(x)) for x in data) + "}"


def _constants() -> Experiment:
    """Constant and global variables with initial values, read in every type; one that is filled in part."""
    module = (
        f".const .align 16 .u32 fixed[128] = {_listed_bytes(_CONSTANTS)};\n"
        f".global .align 16 .u32 kept[128] = {_listed_bytes(_CONSTANTS[::-1])};\n"
        ".global .align 8 .f64 halves[6] = {0.5, 0d3FF0000000000001, -2.0};\n"
        ".global .align 4 .f32 thirds[4] = {0f3EAAAAAB, 1.5, -0.0};\n"
        ".global .align 2 .s16 small[5] = {-1, 2, -32768};\n"
        ".global .align 1 .b8 text[8] = {72, 105, 0x7F, 255};\n"
        ".global .align 8 .u64 place[2] = {kept, generic(kept)+8};\n"
    )
    body = "shl.b32 %r1, %t, 4;\nmov.u64 %d1, fixed;\nmov.u64 %d2, kept;\ncvt.u64.u32 %d3, %r1;\n"
    body += "add.u64 %d1, %d1, %d3;\nadd.u64 %d2, %d2, %d3;\nmad.wide.u32 %d90, %t, 8, %a0;\n"
    forms, count = [], 0
    for space, base in (("const", "%d1"), ("global", "%d2")):
        for kind in _TYPES:
            width = _destinations(kind)[-1]
            form = f"ld.{space}.{kind}"
            forms.append(form)
            body += f"{form} %{_PREFIX[width]}9, [{base}+8];\n"
            body += f"st.global.b{width} [%d90+{count * 256}], %{_PREFIX[width]}9;\n"
            count += 1
    for vector, registers in (
        ("v2.u32", "{%r9, %r10}"),
        ("v4.u32", "{%r9, %r10, %r11, %r12}"),
        ("v2.b64", "{%d9, %d10}"),
    ):
        forms.append(f"ld.const.{vector}")
        stored = "b64" if "64" in vector else "b32"
        last = "%d10" if "64" in vector else "%r10"
        body += f"ld.const.{vector} {registers}, [%d1];\n"
        body += f"st.global.{stored} [%d90+{count * 256}], {last};\n"
        count += 1
    for name, kind, n in (("halves", "f64", 6), ("thirds", "f32", 4), ("small", "s16", 5), ("text", "u8", 8)):
        size, width = _bits(kind) // 8, _destinations(kind)[-1]
        body += f"min.u32 %r2, %t, {n - 1};\nmov.u64 %d4, {name};\n"
        body += f"mad.wide.u32 %d4, %r2, {size}, %d4;\n"
        body += f"ld.global.{kind} %{_PREFIX[width]}9, [%d4];\n"
        body += f"st.global.b{width} [%d90+{count * 256}], %{_PREFIX[width]}9;\n"
        count += 1
    for offset in (0, 8):
        body += f"ld.global.u64 %d4, [place+{offset}];\nld.global.u32 %r9, [%d4+4];\n"
        body += f"st.global.b32 [%d90+{count * 256}], %r9;\n"
        count += 1
    text = program(body, 1, module=module)
    return Experiment("memory/constants", tuple(forms), text, (filled(count * 256, "uint64"),))


_SCALARS = (
    (0x9C, "u8"),
    (-100, "s8"),
    (0xFEDC, "u16"),
    (-12345, "s16"),
    (0xDEADBEEF, "u32"),
    (-123456789, "s32"),
    (0xFEDCBA9876543210, "u64"),
    (-(1 << 62) + 7, "s64"),
    (1.5, "f32"),
    (-0.1, "f64"),
)


def _parameters() -> Experiment:
    """Parameters of every type, read in their own and in other types."""
    body, forms, count = "mad.wide.u32 %d90, %t, 8, %a0;\n", [], 0
    for k, (_, kind) in enumerate(_SCALARS):
        for as_kind in dict.fromkeys((kind, f"b{_bits(kind)}", *(("u8", "s8") if kind[0] != "f" else ()))):
            width = _destinations(as_kind)[-1]
            form = f"ld.param.{as_kind}"
            forms.append(form)
            body += f"{form} %{_PREFIX[width]}9, [s{k}];\n"
            body += f"st.global.b{width} [%d90+{count * 256}], %{_PREFIX[width]}9;\n"
            count += 1
    text = program(body, 1, scalars=[f"{kind} s{k}" for k, (_, kind) in enumerate(_SCALARS)])
    args: tuple[Argument, ...] = (filled(count * 256, "uint64"), *(Scalar(v, kind) for v, kind in _SCALARS))
    return Experiment("memory/parameters", tuple(dict.fromkeys(forms)), text, args)


# ---------------------------------------------------------------- addresses


_WINDOWS = ("shared", "shared::cta", "shared::cluster", "local", "global", "const", "param::entry")


def _generic() -> Experiment:
    """Generic addresses of every space: which space they lie in, there and back, and what they reach."""
    module = ".const .align 4 .u32 fixed[32] = " + _listed_bytes(_CONSTANTS[:32]) + ";\n"
    body = """
        mad.wide.u32 %d0, %t, 4, %a0;
        mad.wide.u32 %d20, %t, 4, %a1;
        ld.global.b32 %r1, [%d0];
        mov.u32 %r2, room;
        mad.lo.u32 %r2, %t, 4, %r2;
        st.shared.b32 [%r2], %r1;
        not.b32 %r3, %r1;
        st.local.b32 [own], %r3;
        cvt.u64.u32 %d1, %r2;
        cvta.shared.u64 %d2, %d1;
        cvta.local.u64 %d3, own;
        cvta.global.u64 %d4, %d0;
        mov.u64 %d5, fixed;
        mad.wide.u32 %d5, %t, 4, %d5;
        cvta.const.u64 %d6, %d5;
        cvta.shared.u64 %d9, room;
        cvta.param::entry.u64 %d10, p0;
    """
    forms = [f"cvta.{s}.u64" for s in ("shared", "local", "global", "const")]
    count = 0
    for register in ("%d2", "%d3", "%d4", "%d6", "%d10"):
        body += f"ld.b32 %r4, [{register}];\n"
        body += "cvt.u32.u64 %r6, %a0;\nsub.u32 %r4, %r4, %r6;\n" if register == "%d10" else ""
        body += f"st.global.b32 [%d20+{count * 128}], %r4;\n"
        body += "mov.u32 %r5, 0;\n"
        count += 1
        for k, space in enumerate(_WINDOWS):
            body += (
                f"isspacep.{space} %p0, {register};\nselp.u32 %r6, {1 << k}, 0, %p0;\nor.b32 %r5, %r5, %r6;\n"
            )
        body += f"st.global.b32 [%d20+{count * 128}], %r5;\n"
        count += 1
    forms += [f"isspacep.{s}" for s in _WINDOWS]
    for space, generic, own in (("shared", "%d2", "%d1"), ("global", "%d4", "%d0"), ("const", "%d6", "%d5")):
        body += f"cvta.to.{space}.u64 %d7, {generic};\nxor.b64 %d7, %d7, {own};\n"
        body += f"cvt.u32.u64 %r6, %d7;\nst.global.b32 [%d20+{count * 128}], %r6;\n"
        forms.append(f"cvta.to.{space}.u64")
        count += 1
    body += f"""
        cvta.to.local.u64 %d7, %d3;
        ld.local.b32 %r6, [%d7];
        st.global.b32 [%d20+{count * 128}], %r6;
        mad.wide.u32 %d8, %t, 4, %d9;
        st.b32 [%d8], %r6;
        ld.shared.b32 %r6, [%r2];
        st.global.b32 [%d20+{count * 128 + 128}], %r6;
        st.global.b32 [%d20+{count * 128 + 256}], %r2;
    """
    forms += ["cvta.to.local.u64", "ld.b32", "st.b32"]
    shared = ".shared .align 16 .b8 room[128];\n.local .align 4 .b8 own[16];"
    args = (In(words(stream(3006), 32)), zeros((count + 3) * 32))
    return Experiment(
        "memory/generic_addresses", tuple(forms), program(body, 2, shared=shared, module=module), args
    )


def _packing() -> Experiment:
    """mov between a register and the registers that make it up."""
    body = """
        mad.wide.u32 %d0, %t, 16, %a0;
        mad.wide.u32 %d20, %t, 16, %a1;
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d0];
        mov.b32 {%h1, %h2}, %r1;
        mov.b32 %r5, {%h2, %h1};
        mov.b64 %d1, {%r2, %r3};
        mov.b64 {%h3, %h4, %h5, %h6}, %d1;
        mov.b64 %d2, {%h6, %h3, %h5, %h4};
        st.global.b32 [%d20], %r5;
        st.global.b64 [%d20+8], %d2;
        mov.b64 {%r6, %r7}, %d2;
        mov.b32 {_, %h7}, %r4;
        mov.b32 %r8, {%h7, %h1};
        st.global.v4.b32 [%d20+512], {%r6, %r7, %r8, %r1};
        mov.b64 %d3, {%r4, %r1};
        mov.b128 %q1, {%d1, %d3};
        mov.b128 {%d4, %d5}, %q1;
        st.global.v2.b64 [%d20+1024], {%d5, %d4};
        mov.b16 %h8, 0x1234;
        mov.b32 %r9, {%h8, %h2};
        mov.u32 %r10, 0xFFFFFFFF;
        mov.f32 %r11, 0f7F812345;
        mov.s64 %d6, -3;
        cvt.u32.u64 %r12, %d6;
        st.global.v4.b32 [%d20+1536], {%r9, %r10, %r11, %r12};
        mov.pred %p0, %loop;
    """.replace("mov.pred %p0, %loop;", "")
    forms = ("mov.b32", "mov.b64", "mov.b128", "mov.b16", "mov.u32", "mov.f32", "mov.s64")
    args = (In(words(stream(3007), 128)), zeros(512))
    return Experiment("memory/packing", forms, program(body, 2), args)


# ---------------------------------------------------------------- faults

_FAULTS = {
    "ld_global_misaligned": ("", "ld.global.b32 %r1, [%d1+2];", "ld.global.b32"),
    "ld_global_v4_misaligned": (
        "",
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d1+8];\nst.global.v4.b32 [%a0+128], {%r4, %r3, %r2, %r1};",
        "ld.global.v4.b32",
    ),
    "st_global_misaligned": ("", "st.global.b64 [%d1+4], %d1;", "st.global.b64"),
    "ld_shared_misaligned": (
        ".shared .align 16 .b8 room[64];",
        "ld.shared.b64 %d2, [%r5+4];",
        "ld.shared.b64",
    ),
    "ld_shared_beyond": (
        ".shared .align 16 .b8 room[64];",
        "ld.shared.b32 %r1, [%r5+0x80000];",
        "ld.shared.b32",
    ),
    "ld_null": ("", "ld.global.b32 %r1, [%d0];", "ld.global.b32"),
    "st_null": ("", "st.b32 [%d0], %r1;", "st.b32"),
    "atom_misaligned": ("", "atom.global.add.u32 %r1, [%d1+2], 1;", "atom.global.add.u32"),
    "atom_shared_misaligned": (
        ".shared .align 16 .b8 room[64];",
        "atom.shared.add.u32 %r1, [%r5+1], 1;",
        "atom.shared.add.u32",
    ),
    "ldmatrix_misaligned": (
        ".shared .align 16 .b8 room[64];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r5+8];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
    ),
    "cp_async_misaligned": (
        ".shared .align 16 .b8 room[64];",
        "cp.async.cg.shared.global [%r5+8], [%d1], 16;\ncp.async.wait_all;",
        "cp.async.cg.shared.global",
    ),
    "trap": ("", "trap;", "trap"),
}


def _faults() -> Iterator[Experiment]:
    for name, (shared, line, form) in _FAULTS.items():
        body = "ld.param.u64 %d0, [nothing];\nmov.u32 %r1, %t;\nadd.u64 %d1, %a0, %d0;\n"
        if shared:
            body += "cvt.u32.u64 %r5, %d0;\nmov.u32 %r6, room;\nadd.u32 %r5, %r5, %r6;\n"
        if "ld.shared.b64" in line or "ldmatrix" in line:
            body += "mov.u64 %d3, 0;\nst.shared.v2.b64 [room], {%d3, %d3};\n"
        body += f"{line}\nst.global.b32 [%a0+64], %r1;\n"
        if "%d2" in line:
            body += "st.global.b64 [%a0+72], %d2;\n"
        text = program(body, 1, shared=shared, scalars=["u64 nothing"])
        yield Experiment(f"memory/fault_{name}", (form,), text, (zeros(64), Scalar(0, "u64")), ends="fault")


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    for space in _PLACES:
        yield _loads(space)
        yield _stores(space)
        yield _vectors(space)
    yield _operators()
    yield _shared_operators()
    yield _constants()
    yield _parameters()
    yield _generic()
    yield _packing()
    yield from _faults()
