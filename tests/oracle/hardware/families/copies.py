"""cp.async: copies of a thread from global to shared memory, cut at any size, and their groups."""

from __future__ import annotations

from collections.abc import Iterator

from oracle.hardware.experiment import Experiment, In
from oracle.hardware.families.listing import program
from oracle.hardware.families.operands import filled, stream, words

_STRIDE = 16


def _cp_async() -> Experiment:
    """Copies of 4, 8 and 16 bytes, whole, cut at every source size, and not read at all."""
    body = f"""
        mov.u32 %r1, room;
        mad.lo.u32 %r1, %t, {_STRIDE}, %r1;
        mad.wide.u32 %d0, %t, {_STRIDE}, %a0;
        mad.wide.u32 %d1, %t, {_STRIDE}, %a1;
        and.b32 %r3, %t, 1;
        setp.ne.u32 %p0, %r3, 0;
    """
    forms, count = [], 0
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        for extra in ("", "size", "!size", "p", "!p"):
            for hint in ("", ".L2::128B") if not extra else ("",):
                form = f"cp.async.{cache}.shared{'::cta' if extra == 'size' else ''}.global{hint}"
                forms.append(form)
                last = {"": "", "size": ", %r4", "!size": f", {size // 2 + 1}", "p": ", %p0", "!p": ", !%p0"}[
                    extra
                ]
                body += "mov.u64 %d2, 0xCCCCCCCCCCCCCCCC;\nst.shared.v2.b64 [%r1], {%d2, %d2};\n"
                body += f"rem.u32 %r4, %t, {size + 1};\n"
                body += (
                    f"{form} [%r1], [%d0], {size}{last};\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
                )
                body += "ld.shared.v2.b64 {%d3, %d4}, [%r1];\n"
                body += f"st.global.v2.b64 [%d1+{count * 512}], {{%d3, %d4}};\n"
                count += 1
    forms += ["cp.async.commit_group", "cp.async.wait_group"]
    shared = f".shared .align 16 .b8 room[{32 * _STRIDE}];"
    args = (In(words(stream(3008), 32 * _STRIDE, bits=8)), filled(count * 512))
    return Experiment("copies/cp_async", tuple(dict.fromkeys(forms)), program(body, 2, shared=shared), args)


def _cp_async_groups() -> Experiment:
    """Three groups in flight, awaited one by one, and one that ends with wait_all."""
    body = """
        mov.u32 %r1, room;
        mad.lo.u32 %r1, %t, 16, %r1;
        mad.wide.u32 %d0, %t, 16, %a0;
        mad.wide.u32 %d1, %t, 16, %a1;
    """
    for k in range(4):
        body += f"cp.async.cg.shared.global [%r1+{k * 512}], [%d0+{k * 512}], 16;\n"
        if k < 3:
            body += "cp.async.commit_group;\n"
    for k, wait in enumerate(("wait_group 2", "wait_group 1", "wait_group 0", "wait_all")):
        body += f"cp.async.{wait};\nld.shared.v2.b64 {{%d3, %d4}}, [%r1+{k * 512}];\n"
        body += f"st.global.v2.b64 [%d1+{k * 512}], {{%d3, %d4}};\n"
    body += """
        bar.sync 0;
        mov.u32 %r2, room;
        sub.u32 %r3, 31, %t;
        mad.lo.u32 %r2, %r3, 16, %r2;
        ld.shared.v2.b64 {%d3, %d4}, [%r2+1536];
        st.global.v2.b64 [%d1+2048], {%d3, %d4};
    """
    forms = ("cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
    args = (In(words(stream(3009), 2048, bits=8)), filled(2560))
    text = program(body, 2, shared=".shared .align 16 .b8 room[2048];")
    return Experiment("copies/cp_async_groups", forms, text, args)


def experiments() -> Iterator[Experiment]:
    """Yield the experiments of the family."""
    yield _cp_async()
    yield _cp_async_groups()
