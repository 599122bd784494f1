"""Loads and stores as LLVM IR: one function of the module per state space, width and count, called with
all lanes' addresses.

The context, which every compiled function gets beside the registers, is an array of 64-bit words
(`CONTEXT`): what stopped the code, where the special registers are, and a *window* per memory. A window
maps addresses to host memory: `data` is the host address of offset 0, `base` the address of offset 0,
`[low, high)` the offsets that may be touched, `ends` a table with the end of the live range that each
512-byte granule belongs to (0 = the window is one range), `pitch` the host bytes from one lane's memory
to the next (0 = all lanes see the same memory).

An access that is out of bounds or misaligned takes no effect: it records its kind, its place, the lanes
and all addresses in the context, and from then on every access does nothing, so that memory is left as
the interpreter's fault leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from drywell.engine.llvm_text import LANES, Lanes, Module, Writer, vector
from drywell.machine.gmem import PLACE_ALIGN
from drywell.machine.windows import CALL_PARAMS, LOCAL_BASE, PARAM_BASE, SHARED_BASE

WINDOWS = ("global", "shared", "kernel_params", "call_params", "local")
WINDOW_FIELDS = ("data", "base", "low", "high", "ends", "pitch")
OUT_OF_BOUNDS, MISALIGNED = 1, 2

_WORDS = (
    "fuel",
    "fault",
    "fault_place",
    "fault_lanes",
    "specials",
    *(f"{w}_{f}" for w in WINDOWS for f in WINDOW_FIELDS),
)
CONTEXT = {name: k for k, name in enumerate((*_WORDS, "fault_addresses"))}
"""The index of each word; `fault_addresses` is the first of 32."""
CONTEXT_WORDS = len(CONTEXT) + LANES - 1

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
_PARAMETERS = "ptr %context, <32 x i64> %address, <32 x i1> %mask, i64 %place"


class UnsupportedSpaceError(ValueError):
    """A state space that compiled code cannot reach."""


def load(
    w: Writer, space: str, address: Lanes, mask: Lanes, place: int, width: int, count: int
) -> list[Lanes]:
    """Load `count` elements of `width` bits per active lane; 0 in other lanes."""
    window = _window(w.module, space)
    name = f"drywell.load.{window}.{width}x{count}"
    kind = "{ " + ", ".join([vector(width)] * count) + " }"
    if name not in w.module.functions:
        w.module.functions[name] = _load_function(name, window, kind, width, count)
    found = w.let(f"call {kind} @{name}({_arguments(address, mask, place)})")
    return [Lanes(w.let(f"extractvalue {kind} {found}, {k}"), width) for k in range(count)]


def store(w: Writer, space: str, address: Lanes, mask: Lanes, place: int, values: list[Lanes]) -> None:
    """Store the elements of `values` one after the other per active lane; of lanes at one address the
    highest wins.
    """
    window, width, count = _window(w.module, space, is_write=True), values[0].width, len(values)
    name = f"drywell.store.{window}.{width}x{count}"
    if name not in w.module.functions:
        w.module.functions[name] = _store_function(name, window, width, count)
    rows = "".join(f", {vector(v.width)} {v.text}" for v in values)
    w.do(f"call void @{name}({_arguments(address, mask, place)}{rows})")


def word(name: str) -> str:
    """Return the instruction that gives the address of a word of the context."""
    return f"getelementptr i64, ptr %context, i64 {CONTEXT[name]}"


def _arguments(address: Lanes, mask: Lanes, place: int) -> str:
    return f"ptr %context, <32 x i64> {address.text}, <32 x i1> {mask.text}, i64 {place}"


def _window(module: Module, space: str, is_write: bool = False) -> str:
    """Return the name of what finds the addresses of a space; its functions are in `module` then."""
    if space not in _WINDOW_OF:
        known = ", ".join(s or "generic" for s in _WINDOW_OF)
        raise UnsupportedSpaceError(f"compiled code cannot reach '{space}': the spaces it knows are {known}")
    window = _WINDOW_OF[space]
    if is_write:
        window = {"param": "call_params", "readable": "writable"}.get(window, window)
    module.declare("usub.sat.i64", "declare i64 @llvm.usub.sat.i64(i64, i64)")
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

#: Gives 0 when nothing is to be done, 2 when the lanes' elements lie in a row from `hosts[0]` on, else
#: 1 and `hosts`, 0 for idle lanes.
_LOCATE = Template("""\
define internal i32 @drywell.locate.$window($parameters, i64 %size, i1 %may_be_row, ptr %hosts) noinline {
entry:
  %addresses = alloca <32 x i64>
  %lanes = alloca <32 x i8>
  %below_size = sub i64 %size, 1
  %fault_place = $fault
  %fault = load i64, ptr %fault_place
  %is_stopped = icmp ne i64 %fault, 0
  br i1 %is_stopped, label %nothing, label %begin
nothing:
  ret i32 0
begin:
  br i1 %may_be_row, label %look, label %slow
look:
  %first = extractelement <32 x i64> %address, i64 0
  %last = extractelement <32 x i64> %address, i64 31
  %first_once = insertelement <32 x i64> poison, i64 %first, i64 0
  %first_all = shufflevector <32 x i64> %first_once, <32 x i64> poison, <32 x i32> zeroinitializer
  %size_once = insertelement <32 x i64> poison, i64 %size, i64 0
  %size_all = shufflevector <32 x i64> %size_once, <32 x i64> poison, <32 x i32> zeroinitializer
  %steps = mul <32 x i64> %size_all, <$lane_numbers>
  %wanted = add <32 x i64> %first_all, %steps
  %as_wanted = icmp eq <32 x i64> %address, %wanted
  %in_row = and <32 x i1> %as_wanted, %mask
  %row_bits = bitcast <32 x i1> %in_row to i32
  %is_row = icmp eq i32 %row_bits, -1
  br i1 %is_row, label %check, label %slow
check:
  %found_first = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %first, i64 0)
  %found_last = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %last, i64 31)
  %host_first = extractvalue { i64, i64 } %found_first, 0
  %host_last = extractvalue { i64, i64 } %found_last, 0
  store i64 %host_first, ptr %hosts
  %room = extractvalue { i64, i64 } %found_first, 1
  %needed = mul i64 %size, 32
  %fits = icmp uge i64 %room, %needed
  %reach = sub i64 %host_last, %host_first
  %last_step = mul i64 %size, 31
  %is_shared = icmp eq i64 %reach, %last_step
  %odd_bits = and i64 %first, %below_size
  %is_aligned = icmp eq i64 %odd_bits, 0
  %fits_shared = and i1 %fits, %is_shared
  %is_good = and i1 %fits_shared, %is_aligned
  br i1 %is_good, label %row, label %slow
row:
  ret i32 2
slow:
  store <32 x i64> %address, ptr %addresses
  %mask_bytes = zext <32 x i1> %mask to <32 x i8>
  store <32 x i8> %mask_bytes, ptr %lanes
  br label %lane
lane:
  %k = phi i64 [ 0, %slow ], [ %next, %step ]
  %beyond = phi i64 [ 0, %slow ], [ %beyond_now, %step ]
  %odd = phi i64 [ 0, %slow ], [ %odd_now, %step ]
  %host_place = getelementptr i64, ptr %hosts, i64 %k
  store i64 0, ptr %host_place
  %active_place = getelementptr i8, ptr %lanes, i64 %k
  %active = load i8, ptr %active_place
  %is_idle = icmp eq i8 %active, 0
  br i1 %is_idle, label %step, label %find
find:
  %own_place = getelementptr i64, ptr %addresses, i64 %k
  %own = load i64, ptr %own_place
  %found = call { i64, i64 } @drywell.find.$window(ptr %context, i64 %own, i64 %k)
  %host = extractvalue { i64, i64 } %found, 0
  %left = extractvalue { i64, i64 } %found, 1
  store i64 %host, ptr %host_place
  %bit = shl i64 1, %k
  %misses = icmp ult i64 %left, %size
  %own_odd = and i64 %own, %below_size
  %is_odd = icmp ne i64 %own_odd, 0
  %new_beyond = select i1 %misses, i64 %bit, i64 0
  %new_odd = select i1 %is_odd, i64 %bit, i64 0
  %all_beyond = or i64 %beyond, %new_beyond
  %all_odd = or i64 %odd, %new_odd
  br label %step
step:
  %beyond_now = phi i64 [ %beyond, %lane ], [ %all_beyond, %find ]
  %odd_now = phi i64 [ %odd, %lane ], [ %all_odd, %find ]
  %next = add i64 %k, 1
  %is_last = icmp eq i64 %next, 32
  br i1 %is_last, label %after, label %lane
after:
  %bad = or i64 %beyond_now, %odd_now
  %is_bad = icmp ne i64 %bad, 0
  br i1 %is_bad, label %record, label %each
each:
  ret i32 1
record:
  %is_beyond = icmp ne i64 %beyond_now, 0
  %kind = select i1 %is_beyond, i64 $out_of_bounds, i64 $misaligned
  %who = select i1 %is_beyond, i64 %beyond_now, i64 %odd_now
  %who_place = $fault_lanes
  %where_place = $fault_place
  %what_place = $fault_addresses
  store i64 %kind, ptr %fault_place
  store i64 %who, ptr %who_place
  store i64 %place, ptr %where_place
  store <32 x i64> %address, ptr %what_place, align 8
  ret i32 0
}""")


def _locate_function(window: str) -> str:
    return _LOCATE.substitute(
        window=window,
        parameters=_PARAMETERS,
        lane_numbers=", ".join(f"i64 {k}" for k in range(LANES)),
        out_of_bounds=OUT_OF_BOUNDS,
        misaligned=MISALIGNED,
        **{name: word(name) for name in ("fault", "fault_lanes", "fault_place", "fault_addresses")},
    )


# -------------------------------------------------------------------- the accesses

_ACCESS = Template("""\
define internal $kind @$name($parameters) noinline {
entry:
  %hosts = alloca [32 x i64]
$rows
  %how = call i32 @drywell.locate.$window($given, i64 $size, i1 $may_be_row, ptr %hosts)
  switch i32 %how, label %nothing [ i32 1, label %lane i32 2, label %row ]
nothing:
$nothing
row:
  %first = load i64, ptr %hosts
  %host_row = inttoptr i64 %first to ptr
$row
lane:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
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
    size = width * count // 8
    return _ACCESS.substitute(parts, given=_PARAMETERS, work=each, size=size, may_be_row=int(count == 1))


def _load_function(name: str, window: str, kind: str, width: int, count: int) -> str:
    row = vector(width)
    rows = [f"  %row{k} = alloca {row}\n  store {row} zeroinitializer, ptr %row{k}" for k in range(count)]
    loads, result = [], "zeroinitializer"
    for k in range(count):
        loads.append(f"  %all{k} = load {row}, ptr %row{k}")
        loads.append(f"  %result{k} = insertvalue {kind} {result}, {row} %all{k}, {k}")
        result = f"%result{k}"
    whole = [
        f"  %whole = load {row}, ptr %host_row, align {min(width // 8, 8)}",
        f"  %alone = insertvalue {kind} zeroinitializer, {row} %whole, 0",
        f"  ret {kind} %alone",
    ]
    parts = {
        "name": name,
        "window": window,
        "kind": kind,
        "parameters": _PARAMETERS,
        "rows": "\n".join(rows),
        "nothing": f"  ret {kind} zeroinitializer",
        "row": "\n".join(whole),
        "after": "\n".join([*loads, f"  ret {kind} {result}"]),
    }
    return _access(parts, _LOAD_WORK, width, count)


def _store_function(name: str, window: str, width: int, count: int) -> str:
    row = vector(width)
    rows = [f"  %row{k} = alloca {row}\n  store {row} %value{k}, ptr %row{k}" for k in range(count)]
    parts = {
        "name": name,
        "window": window,
        "kind": "void",
        "parameters": _PARAMETERS + "".join(f", {row} %value{k}" for k in range(count)),
        "rows": "\n".join(rows),
        "nothing": "  ret void",
        "row": f"  store {row} %value0, ptr %host_row, align {min(width // 8, 8)}\n  ret void",
        "after": "  ret void",
    }
    return _access(parts, _STORE_WORK, width, count)
