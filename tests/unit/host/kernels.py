"""Small kernels that the tests of `host` launch."""

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"

ADD_ONE = (
    HEADER
    + """\
.visible .entry add_one(.param .u64 x)
{
  .reg .b32 %i, %v;
  .reg .b64 %p;
  mov.u32 %i, %tid.x;
  ld.param.u64 %p, [x];
  mad.wide.u32 %p, %i, 4, %p;
  ld.global.u32 %v, [%p];
  add.u32 %v, %v, 1;
  st.global.u32 [%p], %v;
  ret;
}
"""
)

SPIN = ADD_ONE.replace("  ret;\n", "again:\n  add.u32 %v, %v, 1;\n  bra again;\n")

TRAP = ADD_ONE.replace("  ret;\n", "  trap;\n  ret;\n")

WAITS_FOREVER = (
    HEADER
    + """\
.visible .entry wait()
{
  .shared .align 8 .b64 bar;
  .reg .pred %done;
  mbarrier.init.shared.b64 [bar], 1;
again:
  mbarrier.try_wait.parity.shared.b64 %done, [bar], 0;
  @!%done bra again;
  ret;
}
"""
)


def copies(kind: str, nbytes: int) -> str:
    """Return a kernel that copies its by-value parameter of `nbytes` bytes, byte by byte, to `out`."""
    declared = f".param .align 8 .b8 value[{nbytes}]" if kind == "struct" else f".param .{kind} value"
    return (
        HEADER
        + f"""\
.visible .entry copy(.param .u64 out, {declared})
{{
  .reg .b16 %v;
  .reg .b64 %p;
  ld.param.u64 %p, [out];
"""
        + "".join(f"  ld.param.u8 %v, [value+{k}];\n  st.global.u8 [%p+{k}], %v;\n" for k in range(nbytes))
        + "  ret;\n}\n"
    )
