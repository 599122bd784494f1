"""One entry with all it needs: places of its memory, and what cannot run refused before anything does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drywell.base.errors import LaunchError, UnsupportedError
from drywell.program.link import SHARED_BASE, link, plain_name
from unit.program.program_texts import check, errors, linked


def refused(text: str, entry: str = "k") -> UnsupportedError:
    """Return why an entry of a legal module is not launched."""
    program = check(text)
    assert not errors(program)
    with pytest.raises(UnsupportedError) as caught:
        link(program, entry)
    return caught.value


shared = st.tuples(st.sampled_from([1, 2, 4, 8, 16, 128, 1024]), st.integers(1, 2000))


def test_shared_variables_that_nobody_names_are_kept_in_functions_and_dropped_from_modules() -> None:
    text = """
.shared .b8 module_unused[3000]; .shared .b8 module_used[100];
.visible .entry k() {
  .reg .b32 %v; .shared .b8 own_unused[5000]; .shared .b8 own_used[16];
  ld.shared.u32 %v, [own_used]; st.shared.u32 [module_used], %v; ret;
}"""
    executable = linked(text)
    # ptxas 13.0.88 -v: 5116 bytes smem
    assert sum(size for _, _, size in executable.shared_symbols) == 100 + 5000 + 16


@given(st.lists(shared, min_size=1, max_size=6), st.sampled_from([0, 1, 16, 128, 1024]))
def test_static_shared_variables_are_aligned_and_apart_and_dynamic_ones_come_behind(
    variables: list[tuple[int, int]], dynamic: int
) -> None:
    text = "".join(f".shared .align {align} .b8 s{k}[{size}];\n" for k, (align, size) in enumerate(variables))
    if dynamic:
        text += f".extern .shared .align {dynamic} .b8 dyn[];\n"
    names = [f"s{k}" for k in range(len(variables))] + ["dyn"] * bool(dynamic)
    uses = " ".join(f"mov.u32 %r, {name};" for name in names)
    executable = linked(f"{text} .visible .entry k() {{ .reg .b32 %r; {uses} }}")
    end = SHARED_BASE
    for (align, size), name in zip(variables, names, strict=False):
        place = executable.places["shared", name]
        assert (0, True) == (place % align, end <= place < end + align)
        end = place + size
    assert end == executable.static_shared_end
    assert 0 == executable.dynamic_shared_base % max(dynamic, 1)
    assert end <= executable.dynamic_shared_base < end + max(dynamic, 1)
    assert not dynamic or executable.places["shared", "dyn"] == executable.dynamic_shared_base


def test_what_an_entry_does_not_use_takes_no_room() -> None:
    text = """
        .shared .b8 unused[50000]; .shared .b8 used[16]; .global .b8 g[99]; .global .b8 h[8];
        .func f() { .shared .b8 of_f[64]; .reg .b32 %r; mov.u32 %r, of_f; ret; }
        .visible .entry k() { .reg .b32 %r; .reg .b64 %d; mov.u32 %r, used; mov.u64 %d, h; ret; }
        .visible .entry other() { call f; ret; }
    """
    k, other = linked(text), linked(text, "other")
    assert ((("used", SHARED_BASE, 16),), ["h"]) == (k.shared_symbols, [v.name for v in k.globals])
    assert ((("of_f", SHARED_BASE, 64),), []) == (other.shared_symbols, [v.name for v in other.globals])


def test_variables_of_one_name_in_functions_and_blocks_lie_apart() -> None:
    text = """
        .shared .align 4 .b8 buf[16];
        .func f() { .reg .b32 %r; .shared .align 4 .b8 buf[32]; mov.u32 %r, buf; ret; }
        .func g() { .reg .b32 %r; mov.u32 %r, buf; ret; }
        .visible .entry k() {
            .reg .b32 %r; { .shared .align 4 .b8 buf[4]; mov.u32 %r, buf; } { .shared .align 4 .b8 buf[8];
            mov.u32 %r, buf; } { .local .b32 t; mov.u32 %r, t; } { .local .b64 t; mov.u32 %r, t; }
            call f; call g; ret; }
    """
    executable = linked(text)
    sizes = {name: size for name, _, size in executable.shared_symbols}
    assert {"buf": 16, "f.buf": 32, "k.buf": 4, "k.buf#2": 8} == sizes
    assert SHARED_BASE + sum(sizes.values()) == executable.static_shared_end
    assert 16 == executable.local_bytes


def test_results_of_one_name_in_two_functions_have_their_own_room() -> None:
    functions = """
        .func (.param .b64 func_retval0) f(.param .b32 p) { ret; }
        .func (.param .b32 func_retval0) g(.param .b64 p) { ret; }
    """
    calls = ".param .b32 w; .param .b64 d; call (d), f, (w); call (w), g, (d); ret;"
    executable = linked(f"{functions} .visible .entry k() {{ {calls} }}")
    spans = sorted(
        (executable.places["frame", s.name], s.size) for f in executable.functions for s in f.function.frame
    )
    assert 6 == len(spans)
    assert all(at + size <= behind for (at, size), (behind, _) in pairwise(spans))
    assert executable.frame_bytes == sum(spans[-1])


def test_a_variable_whose_address_another_holds_is_there_too() -> None:
    text = ".global .b32 a; .global .u64 b = a; .global .u64 c[2] = {0, generic(b)}; .global .u64 d = a;"
    executable = linked(text + ".visible .entry k() { .reg .b64 %d; mov.u64 %d, c; ret; }")
    assert ["a", "b", "c"] == [v.name for v in executable.globals]


def test_parameters_lie_one_behind_the_other_as_their_types_want() -> None:
    params = ".param .b8 a, .param .b64 b, .param .align 64 .b8 m[128], .param .b16 c"
    executable = linked(f".visible .entry k({params}) {{ ret; }}")
    assert [0, 8, 64, 192] == [p.offset for p in executable.params]
    assert 194 == executable.param_bytes


def test_an_entry_with_an_unknown_instruction_is_refused_and_the_others_are_not() -> None:
    text = """
        .func f() { frobnicate.b32 1; ret; }
        .visible .entry good() { ret; }
        .visible .entry bad() { call f; ret; }
        .visible .entry worse() { .reg .b32 %r;
            frobnicate.u32 %r; ret; }
    """
    assert ("worse", "good") == (linked(text, "good").program.entries[2], linked(text, "good").entry.name)
    assert ("frobnicate.b32", 5) == (str(refused(text, "bad")).split("'")[1], refused(text, "bad").span.line)
    assert ("frobnicate.u32", 9) == (
        str(refused(text, "worse")).split("'")[1],
        refused(text, "worse").span.line,
    )


def test_an_unknown_instruction_that_no_lane_gets_to_refuses_nothing() -> None:
    assert linked(".visible .entry k() { bra END; frobnicate; END: ret; frobnicate; }").param_bytes == 0
    refused(".visible .entry k() { .reg .pred %p; @%p bra END; frobnicate; END: ret; }")


@pytest.mark.parametrize(("text", "words"), [
    (".func f() { call f; ret; } .visible .entry k() { call f; ret; }", "f -> f"),
    (".func g(); .func f() { call g; ret; } .func g() { call f; ret; } .visible .entry k() { call f; ret; }",
     "f -> g -> f"),
    (".func f(); .func g() { call f; ret; } .alias f, g; .visible .entry k() { call g; ret; }",
     "f -> f"),
    (".func f(); .visible .entry k() { call f; ret; }", "'f' is external"),
    (".extern .func f(); .visible .entry k() { call f; ret; }", "'f' is external"),
    (".func f() { ret; } .visible .entry k() { .reg .b64 %d; mov.u64 %d, f; ret; }",
     "address of function 'f'"),
    (".func f() { ret; } .global .u64 t = f; .visible .entry k() { .reg .b64 %d; mov.u64 %d, t; ret; }",
     "address of function 'f'"),
    (".func f(.reg .b32 a) { ret; } .visible .entry k() { .reg .b32 %r; call f, (%r); ret; }", "register"),
    (".func f(.param .b8 a[]) { ret; } .visible .entry k() { .param .b8 x[4]; call f, (x); ret; }",
     "any number"),
    (".extern .global .b32 x[]; .visible .entry k() { .reg .b64 %d; mov.u64 %d, x; ret; }",
     "'x' is external"),
    (".visible .entry k() { .reg .b32 %r<2>; mov.u32 %r0, %r1+4; ret; }", "offset"),
])  # fmt: skip
def test_what_cannot_run_is_refused_before_anything_does(text: str, words: str) -> None:
    assert words in str(refused(text))


def test_what_the_runtime_provides_may_be_called() -> None:
    text = """
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
        .visible .entry k() { .param .b64 x, y; .param .b32 n; call (n), vprintf, (x, y); ret; }
    """
    assert ["k"] == [f.function.name for f in linked(text).functions]


def test_calls_that_meet_again_are_walked_once_each() -> None:
    levels = 40  # every path would be 2^40 of them
    text = ".func f0() { ret; }" + "".join(
        f".func f{k}() {{ call f{k - 1}; call f{k - 1}; ret; }}" for k in range(1, levels)
    )
    executable = linked(text + f".visible .entry k() {{ call f{levels - 1}; ret; }}")
    assert levels + 1 == len(executable.functions)


def test_a_long_chain_of_calls_is_linked() -> None:
    length = 1200
    text = ".func f0() { ret; }" + "".join(
        f".func f{k}() {{ call f{k - 1}; ret; }}" for k in range(1, length)
    )
    assert length + 1 == len(linked(text + f".visible .entry k() {{ call f{length - 1}; ret; }}").functions)


def test_an_entry_that_is_not_there_or_has_no_body_is_named() -> None:
    program = check(".visible .entry e(); .func f() { ret; } .visible .entry k() { ret; }")
    for name in ("e", "f", "zz"):
        with pytest.raises(LaunchError, match=f"no entry '{name}'; it has k"):
            link(program, name)


def test_an_alias_runs_the_body_it_stands_for() -> None:
    text = ".func g(.param .b32 a); .func f(.param .b32 a) { ret; } .alias g, f;"
    executable = linked(text + ".visible .entry k() { .param .b32 x; call g, (x); ret; }")
    assert ["k", "g"] == [f.function.name for f in executable.functions]
    assert executable.functions[1].function.code == executable.program.functions["f"].code


def test_a_function_and_its_alias_share_their_variables() -> None:
    text = ".func g(); .func f() { .shared .b32 s; .reg .b32 %r; mov.u32 %r, s; ret; } .alias g, f;"
    executable = linked(text + ".visible .entry k() { call g; call f; ret; }")
    assert (3, (("s", SHARED_BASE, 4),)) == (len(executable.functions), executable.shared_symbols)


def test_mangled_names_are_shown_as_their_author_wrote_them() -> None:
    mangled = ("_ZZ4gemmE4full", "_ZZ1kPKfE3buf", "dyn", "_Z3foo", "_ZZ4gemmE99x")
    assert ["full", "buf", "dyn", "_Z3foo", "x"] == [plain_name(name) for name in mangled]
