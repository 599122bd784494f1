"""Loads and stores as LLVM IR: one function per state space, width and count, called with all lanes'
addresses.

A *window* of the context maps the addresses of a memory to host memory (`context_words`).

An access whose active lanes do not all lie in the windows, aligned, takes no effect and says so: what it
means then (a fault, the memory of another CTA) is the interpreter's to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from drywell.engine.context_words import WINDOW_FIELDS, word
from drywell.engine.llvm_text import LANES, Lanes, Module, Writer, vector
from drywell.machine.gmem import PLACE_ALIGN
from drywell.machine.windows import CALL_PARAMS, LOCAL_BASE, PARAM_BASE, SHARED_BASE

_WINDOW_OF = {
    "global": "global",
    "const": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "param": "param",
    "local": "local",
    "": "readable",
}
_PARAMETERS = "ptr %context, <32 x i64> %address, i32 %mask"


def is_reachable(space: str) -> bool:
    """Say whether compiled code can access a state space."""
    return space in _WINDOW_OF


def load(w: Writer, space: str, address: Lanes, mask: str, width: int, count: int) -> tuple[str, list[Lanes]]:
    """Load `count` elements of `width` bits per lane of `mask` (an i32), 0 in other lanes; return also the
    i1 that says whether it could be done.
    """
    window = _window(w.module, space)
    name = f"drywell.load.{window}.{width}x{count}"
    kind = "{ i1, " + ", ".join([vector(width)] * count) + " }"
    if name not in w.module.functions:
        w.module.functions[name] = _load_function(name, window, kind, width, count)
    found = w.let(f"call {kind} @{name}({_arguments(address, mask)})")
    values = [Lanes(w.let(f"extractvalue {kind} {found}, {k + 1}"), width) for k in range(count)]
    return w.let(f"extractvalue {kind} {found}, 0"), values


def store(w: Writer, space: str, address: Lanes, mask: str, values: list[Lanes]) -> str:
    """Store the elements of `values` one after the other per lane of `mask` (an i32); of lanes at one address
    the highest wins. Return the i1 that says whether it could be done.
    """
    window, width, count = _window(w.module, space, is_write=True), values[0].width, len(values)
    name = f"drywell.store.{window}.{width}x{count}"
    if name not in w.module.functions:
        w.module.functions[name] = _store_function(name, window, width, count)
    rows = "".join(f", {vector(v.width)} {v.text}" for v in values)
    return w.let(f"call i1 @{name}({_arguments(address, mask)}{rows})")


def _arguments(address: Lanes, mask: str) -> str:
    return f"ptr %context, <32 x i64> {address.text}, i32 {mask}"


def _window(module: Module, space: str, is_write: bool = False) -> str:
    """Return the name of what finds the addresses of a space; its functions are in `module` then."""
    window = _WINDOW_OF[space]
    if is_write:
        window = {"param": "call_params", "readable": "writable"}.get(window, window)
    module.declare("usub.sat.i64", "declare i64 @llvm.usub.sat.i64(i64, i64)")
    module.declare("cttz.i32", "declare i32 @llvm.cttz.i32(i32, i1)")
    module.declare("ctlz.i32", "declare i32 @llvm.ctlz.i32(i32, i1)")
    _add_find(module, window)
    module.functions.setdefault(f"drywell.locate.{window}", _locate_function(window))
    return window


def _add_find(module: Module, window: str) -> None:
    choice = _CHOICES.get(window)
    for inner in (*choice.cases.values(), choice.otherwise) if choice else ():
        _add_find(module, inner)
    text = _choice_function(window, choice) if choice else _find_function(window)
    module.functions.setdefault(f"drywell.find.{window}", text)


# -------------------------------------------------------------------- from an address to host memory

#: From an address and a lane to the host address and the bytes from there to the end of the live range
#: (0: it lies in none).
_FIND = Template("""\
define internal { i64, i64 } @drywell.find.$window(ptr %context, i64 %address, i64 %lane) {
entry:
$fields
  %offset = sub i64 %address, %base
  %above = sub i64 %offset, %low
  %span = sub i64 %high, %low
  %is_inside = icmp ult i64 %above, %span
  br i1 %is_inside, label %inside, label %outside
outside:
  ret { i64, i64 } zeroinitializer
inside:
  %row = mul i64 %pitch, %lane
  %in_lane = add i64 %offset, %row
  %host = add i64 %data, %in_lane
  %is_one_range = icmp eq i64 %ends, 0
  br i1 %is_one_range, label %give, label %table
table:
  %granule = lshr i64 %offset, $shift
  %table_host = inttoptr i64 %ends to ptr
  %entry_host = getelementptr i64, ptr %table_host, i64 %granule
  %entry_end = load i64, ptr %entry_host
  br label %give
give:
  %end = phi i64 [ %high, %inside ], [ %entry_end, %table ]
  %left = call i64 @llvm.usub.sat.i64(i64 %end, i64 %offset)
  %first = insertvalue { i64, i64 } poison, i64 %host, 0
  %both = insertvalue { i64, i64 } %first, i64 %left, 1
  ret { i64, i64 } %both
}""")


@dataclass(frozen=True, slots=True)
class _Choice:
    """How an address picks its window: `cases` by its bits from `shift` on, with the bits below as the
    address there; else `otherwise`.
    """

    shift: int
    cases: dict[int, str]
    otherwise: str


#: A kernel's parameters are not written: in `writable` generic addresses and in stores the param window
#: is that of calls.
_CHOICES = {
    "param": _Choice(CALL_PARAMS.bit_length() - 1, {0: "kernel_params"}, "call_params"),
    "readable": _Choice(
        32, {SHARED_BASE >> 32: "shared", LOCAL_BASE >> 32: "local", PARAM_BASE >> 32: "param"}, "global"
    ),
    "writable": _Choice(
        32,
        {SHARED_BASE >> 32: "shared", LOCAL_BASE >> 32: "local", PARAM_BASE >> 32: "call_params"},
        "global",
    ),
}


def _choice_function(name: str, choice: _Choice) -> str:
    cases = " ".join(f"i64 {upper}, label %in_{window}" for upper, window in choice.cases.items())
    lines = [
        f"define internal {{ i64, i64 }} @drywell.find.{name}(ptr %context, i64 %address, i64 %lane) {{",
        "entry:",
        f"  %upper = lshr i64 %address, {choice.shift}",
        f"  %lower = and i64 %address, {(1 << choice.shift) - 1}",
        f"  switch i64 %upper, label %in_{choice.otherwise} [ {cases} ]",
    ]
    for window in (choice.otherwise, *choice.cases.values()):
        address = "%address" if window == choice.otherwise else "%lower"
        call = f"call {{ i64, i64 }} @drywell.find.{window}(ptr %context, i64 {address}, i64 %lane)"
        lines += [f"in_{window}:", f"  %{window} = {call}", f"  ret {{ i64, i64 }} %{window}"]
    return "\n".join([*lines, "}"])


def _find_function(window: str) -> str:
    fields = "\n".join(
        f"  %{field}_place = {word(f'{window}_{field}')}\n  %{field} = load i64, ptr %{field}_place"
        for field in WINDOW_FIELDS
    )
    return _FIND.substitute(window=window, fields=fields, shift=PLACE_ALIGN.bit_length() - 1)


# -------------------------------------------------------------------- from all lanes' addresses to host
# memory

#: Gives 0 when a lane's access cannot be made, 2 when the lanes' elements lie in a row from `hosts[0]` on,
#: 3 when all lanes mean the element at `hosts[0]`, else 1 and `hosts`, 0 for idle lanes.
_LOCATE = Template("""\
define internal i32 @drywell.locate.$window($parameters, i64 %size, ptr %hosts) alwaysinline {
entry:
  %addresses = alloca <32 x i64>
  store <32 x i64> %address, ptr %addresses
  %below_size = sub i64 %size, 1
  %lowest = call i32 @llvm.cttz.i32(i32 %mask, i1 true)
  %lane = zext i32 %lowest to i64
  %one_place = getelementptr i64, ptr %addresses, i64 %lane
  %one = load i64, ptr %one_place
  %one_once = insertelement <32 x i64> poison, i64 %one, i64 0
  %one_all = shufflevector <32 x i64> %one_once, <32 x i64> poison, <32 x i32> zeroinitializer
  %idle = xor i32 %mask, -1
  %equal = icmp eq <32 x i64> %address, %one_all
  %equal_bits = bitcast <32 x i1> %equal to i32
  %same_bits = or i32 %equal_bits, %idle
  %is_same = icmp eq i32 %same_bits, -1
  br i1 %is_same, label %check, label %look
look:
  %size_once = insertelement <32 x i64> poison, i64 %size, i64 0
  %size_all = shufflevector <32 x i64> %size_once, <32 x i64> poison, <32 x i32> zeroinitializer
  %steps = mul <32 x i64> %size_all, <$lane_numbers>
  %wanted = add <32 x i64> %one_all, %steps
  %in_row = icmp eq <32 x i64> %address, %wanted
  %row_bits = bitcast <32 x i1> %in_row to i32
  %all_bits = and i32 %row_bits, %mask
  %is_row = icmp eq i32 %all_bits, -1
  br i1 %is_row, label %check, label %slow
check:
  %lanes_wide = phi i64 [ 1, %entry ], [ 32, %look ]
  %how = phi i32 [ 3, %entry ], [ 2, %look ]
  %needed = mul i64 %size, %lanes_wide
  %found_here = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %one, i64 0)
  %found_there = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %one, i64 31)
  %host_here = extractvalue { i64, i64 } %found_here, 0
  %host_there = extractvalue { i64, i64 } %found_there, 0
  store i64 %host_here, ptr %hosts
  %room = extractvalue { i64, i64 } %found_here, 1
  %fits = icmp uge i64 %room, %needed
  %is_shared = icmp eq i64 %host_here, %host_there
  %odd_bits = and i64 %one, %below_size
  %is_aligned = icmp eq i64 %odd_bits, 0
  %fits_shared = and i1 %fits, %is_shared
  %is_good = and i1 %fits_shared, %is_aligned
  br i1 %is_good, label %together, label %slow
together:
  ret i32 %how
slow:
  br label %next
next:
  %k = phi i64 [ 0, %slow ], [ %following, %step ]
  %host_place = getelementptr i64, ptr %hosts, i64 %k
  store i64 0, ptr %host_place
  %k_short = trunc i64 %k to i32
  %shifted = lshr i32 %mask, %k_short
  %active = and i32 %shifted, 1
  %is_idle = icmp eq i32 %active, 0
  br i1 %is_idle, label %step, label %find
find:
  %own_place = getelementptr i64, ptr %addresses, i64 %k
  %own = load i64, ptr %own_place
  %found = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %own, i64 %k)
  %host = extractvalue { i64, i64 } %found, 0
  %left = extractvalue { i64, i64 } %found, 1
  store i64 %host, ptr %host_place
  %misses = icmp ult i64 %left, %size
  %own_odd = and i64 %own, %below_size
  %is_odd = icmp ne i64 %own_odd, 0
  %is_bad = or i1 %misses, %is_odd
  br i1 %is_bad, label %miss, label %step
miss:
  ret i32 0
step:
  %following = add i64 %k, 1
  %is_last = icmp eq i64 %following, 32
  br i1 %is_last, label %each, label %next
each:
  ret i32 1
}""")


def _locate_function(window: str) -> str:
    numbers = ", ".join(f"i64 {k}" for k in range(LANES))
    return _LOCATE.substitute(window=window, parameters=_PARAMETERS, lane_numbers=numbers)


# -------------------------------------------------------------------- the accesses

_ACCESS = Template("""\
define internal $kind @$name($parameters) noinline {
entry:
  %hosts = alloca [32 x i64]
$rows
  %is_some = icmp ne i32 %mask, 0
  br i1 %is_some, label %some, label %nothing
nothing:
$nothing
some:
  %way = call i32 @drywell.locate.$window($given, i64 $size, ptr %hosts)
  switch i32 %way, label %miss [ i32 1, label %apart i32 2, label %row i32 3, label %same ]
miss:
$miss
row:
$begin
  %row_first = load i64, ptr %hosts
  %host_row = inttoptr i64 %row_first to ptr
$row
same:
  %same_first = load i64, ptr %hosts
  %host_same = inttoptr i64 %same_first to ptr
$same
apart:
$begin_apart
  br label %lane
lane:
  %k = phi i64 [ 0, %apart ], [ %next, %step ]
  %host_place = getelementptr i64, ptr %hosts, i64 %k
  %host = load i64, ptr %host_place
  %is_idle = icmp eq i64 %host, 0
  br i1 %is_idle, label %step, label %work
work:
  %from = inttoptr i64 %host to ptr
$work
  br label %step
step:
  %next = add i64 %k, 1
  %is_last = icmp eq i64 %next, 32
  br i1 %is_last, label %after, label %lane
after:
$after
}""")

_LOAD_WORK = Template("""\
  %source$k = getelementptr i$width, ptr %from, i64 $k
  %element$k = load i$width, ptr %source$k, align $bytes
  %target$k = getelementptr i$width, ptr %row$k, i64 %k
  store i$width %element$k, ptr %target$k""")

_STORE_WORK = Template("""\
  %source$k = getelementptr i$width, ptr %row$k, i64 %k
  %element$k = load i$width, ptr %source$k
  %target$k = getelementptr i$width, ptr %from, i64 $k
  store i$width %element$k, ptr %target$k, align $bytes""")


def _access(parts: dict[str, str], work: Template, width: int, count: int) -> str:
    each = "\n".join(work.substitute(k=k, width=width, bytes=min(width // 8, 8)) for k in range(count))
    return _ACCESS.substitute(parts, given=_PARAMETERS, work=each, size=width * count // 8)


def _lane_numbers(numbers: range) -> str:
    return f"<{len(numbers)} x i32> <" + ", ".join(f"i32 {n}" for n in numbers) + ">"


def _load_function(name: str, window: str, kind: str, width: int, count: int) -> str:
    row, align, number = vector(width), min(width // 8, 8), range(count)
    whole = f"<{LANES * count} x i{width}>"
    rows = [f"  %row{k} = alloca {row}\n  store {row} zeroinitializer, ptr %row{k}" for k in number]
    in_row = [f"  %whole = load {whole}, ptr %host_row, align {align}"]
    for k in number:
        order = _lane_numbers(range(k, LANES * count, count))
        in_row.append(f"  %part{k} = shufflevector {whole} %whole, {whole} poison, {order}")
    same = ["  %active = bitcast i32 %mask to <32 x i1>"]
    for k in number:
        same += [
            f"  %only_place{k} = getelementptr i{width}, ptr %host_same, i64 {k}",
            f"  %only{k} = load i{width}, ptr %only_place{k}, align {align}",
            f"  %once{k} = insertelement {row} poison, i{width} %only{k}, i64 0",
            f"  %every{k} = shufflevector {row} %once{k}, {row} poison, <32 x i32> zeroinitializer",
            f"  %own{k} = select <32 x i1> %active, {row} %every{k}, {row} zeroinitializer",
        ]
    parts = {
        "name": name,
        "window": window,
        "kind": kind,
        "parameters": _PARAMETERS,
        "rows": "\n".join(rows),
        "miss": f"  ret {kind} zeroinitializer",
        "nothing": f"  ret {kind} {{ i1 true" + f", {row} zeroinitializer" * count + " }",
        "begin": "",
        "begin_apart": "",
        "row": "\n".join([*in_row, *_given(kind, row, "part", count)]),
        "same": "\n".join([*same, *_given(kind, row, "own", count)]),
        "after": "\n".join(
            [*(f"  %all{k} = load {row}, ptr %row{k}" for k in number), *_given(kind, row, "all", count)]
        ),
    }
    return _access(parts, _LOAD_WORK, width, count)


def _given(kind: str, row: str, names: str, count: int) -> list[str]:
    """Return the lines that give the values %names0, ... back, with the word that all went well."""
    lines = [f"  %{names}_done = insertvalue {kind} zeroinitializer, i1 true, 0"]
    last = f"%{names}_done"
    for k in range(count):
        lines.append(f"  %{names}_with{k} = insertvalue {kind} {last}, {row} %{names}{k}, {k + 1}")
        last = f"%{names}_with{k}"
    return [*lines, f"  ret {kind} {last}"]


#: Notes that the state that warps share has changed: always, or when a generic address is in shared or
#: global memory.
_CHANGES = f"  %changed_$at = {word('changed')}\n  store i64 1, ptr %changed_$at"
_MAY_CHANGE = f"""\
  %upper_$at = lshr <32 x i64> %address, splat (i64 32)
  %no_local_$at = icmp ne <32 x i64> %upper_$at, splat (i64 {LOCAL_BASE >> 32})
  %no_param_$at = icmp ne <32 x i64> %upper_$at, splat (i64 {PARAM_BASE >> 32})
  %common_$at = and <32 x i1> %no_local_$at, %no_param_$at
  %common_bits_$at = bitcast <32 x i1> %common_$at to i32
  %common_active_$at = and i32 %common_bits_$at, %mask
  %is_common_$at = icmp ne i32 %common_active_$at, 0
  %changed_$at = {word("changed")}
  %before_$at = load i64, ptr %changed_$at
  %after_$at = select i1 %is_common_$at, i64 1, i64 %before_$at
  store i64 %after_$at, ptr %changed_$at"""
_CHANGE_OF = {"global": _CHANGES, "shared": _CHANGES, "writable": _MAY_CHANGE}


def _store_function(name: str, window: str, width: int, count: int) -> str:
    row, align = vector(width), min(width // 8, 8)
    rows = [f"  %row{k} = alloca {row}\n  store {row} %value{k}, ptr %row{k}" for k in range(count)]
    change = Template(_CHANGE_OF.get(window, ""))
    same = [
        "  %idle_before = call i32 @llvm.ctlz.i32(i32 %mask, i1 true)",
        "  %highest = sub i32 31, %idle_before",
        "  %highest_lane = zext i32 %highest to i64",
    ]
    for k in range(count):
        same += [
            f"  %last_place{k} = getelementptr i{width}, ptr %row{k}, i64 %highest_lane",
            f"  %last{k} = load i{width}, ptr %last_place{k}",
            f"  %only_place{k} = getelementptr i{width}, ptr %host_same, i64 {k}",
            f"  store i{width} %last{k}, ptr %only_place{k}, align {align}",
        ]
    parts = {
        "name": name,
        "window": window,
        "kind": "i1",
        "parameters": _PARAMETERS + "".join(f", {row} %value{k}" for k in range(count)),
        "rows": "\n".join(rows),
        "miss": "  ret i1 false",
        "nothing": "  ret i1 true",
        "begin": change.substitute(at="row"),
        "begin_apart": change.substitute(at="apart"),
        "row": "\n".join([*_woven(width, count), "  ret i1 true"]),
        "same": "\n".join([change.substitute(at="same"), *same, "  ret i1 true"]),
        "after": "  ret i1 true",
    }
    return _access(parts, _STORE_WORK, width, count)


def _woven(width: int, count: int) -> list[str]:
    """Return the lines that store the values of a row of lanes, lane by lane."""
    names, lanes, lines = [f"%value{k}" for k in range(count)], LANES, []
    while len(names) > 1:  # first the values as they are side by side, in the end lane after lane
        half = f"<{lanes} x i{width}>"
        joined = []
        for k in range(0, len(names), 2):
            lines.append(
                f"  %wide{lanes}_{k} = shufflevector {half} {names[k]}, {half} {names[k + 1]}, "
                f"{_lane_numbers(range(2 * lanes))}"
            )
            joined.append(f"%wide{lanes}_{k}")
        names, lanes = joined, lanes * 2
    whole = f"<{lanes} x i{width}>"
    if count > 1:
        order = ", ".join(f"i32 {k * LANES + lane}" for lane in range(LANES) for k in range(count))
        lines.append(
            f"  %woven = shufflevector {whole} {names[0]}, {whole} poison, <{lanes} x i32> <{order}>"
        )
        names = ["%woven"]
    lines.append(f"  store {whole} {names[0]}, ptr %host_row, align {min(width // 8, 8)}")
    return lines
