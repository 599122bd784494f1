"""The instruction set as a document: everything a declaration says, in words, and whether it can be
executed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice, product

from drywell.base.record import record
from drywell.isa.declare import Declaration, Mods, Op, Slot
from drywell.isa.decode import Mismatch, decode, problems
from drywell.isa.registry import declarations
from drywell.program.fit import describe
from drywell.report.text import Line, Lines, Piece, columns, counted

MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#"
MOST_SPELLINGS = 3000
"""Spellings of a declaration that are looked at to say whether it runs; beyond it each option is tried by
itself.
"""


@record
class Entry:
    """What there is to say about a declared instruction.

    `operands` says what each must be in the spelling `example`. `runs` is all, some or none (of its
    spellings); `refusals` are (why, spelt with these words: none = always) where one cannot be executed.
    """

    name: str
    family: str
    syntax: str
    doc: str
    options: dict[str, tuple[str, ...]]
    example: str
    operands: dict[str, str]
    unit: str
    targets: tuple[str, ...]
    since: str
    converged: str
    completes_by: str
    manual: str
    runs: str
    refusals: tuple[tuple[str, tuple[str, ...]], ...]


def _choices(slot: Slot) -> tuple[str | None, ...]:
    return (None, *slot.options) if slot.is_optional else slot.options


def _one_at_a_time(slots: Sequence[Slot], start: dict[str, str | None]) -> Iterator[dict[str, str | None]]:
    for slot in slots:
        for choice in _choices(slot):
            yield {**start, slot.name: choice}


def legal_spellings(declaration: Declaration) -> tuple[Mods, ...]:
    """Return the modifiers of its spellings that pass its checks: all of them, or a sample when they are
    more than MOST_SPELLINGS.
    """
    names = [slot.name for slot in declaration.slots]
    choices = [_choices(slot) for slot in declaration.slots]
    total = 1
    for choice in choices:
        total *= len(choice)
    found = [
        dict(zip(names, combination, strict=True))
        for combination in islice(product(*choices), MOST_SPELLINGS)
    ]
    if total > MOST_SPELLINGS:
        start = next((f for f in found if not problems(declaration, Mods(f))), found[0])
        found += list(_one_at_a_time(declaration.slots, start))
    return tuple(m for m in map(Mods, found) if not problems(declaration, m))


Refusals = tuple[tuple[str, tuple[str, ...]], ...]


def _refusals(declaration: Declaration, spellings: Sequence[Mods]) -> tuple[str, Refusals]:
    """Return (all, some or none of them run; why not and with which words)."""
    if declaration.unsupported is None:
        return "all", ()
    reasons: dict[str, list[Mods]] = {}
    running: list[Mods] = []
    for mods in spellings:
        why = declaration.unsupported(mods)
        (running if why is None else reasons.setdefault(why, [])).append(mods)
    runs = "all" if not reasons else "some" if running else "none"
    return runs, tuple((why, _words(declaration, where, running)) for why, where in reasons.items())


def _words(declaration: Declaration, refused: Sequence[Mods], running: Sequence[Mods]) -> tuple[str, ...]:
    """Return the words that every refused spelling has one of and no running one has: what to avoid."""
    out: list[str] = []
    for slot in declaration.slots if running else ():
        bad = dict.fromkeys(m[slot.name] for m in refused)
        if not bad.keys() & {m[slot.name] for m in running}:
            out += [word for word in bad if word is not None]
    return tuple(out)


def _operand_types(declaration: Declaration, mods: Mods) -> dict[str, str]:
    found: dict[str, Op | None] = {
        part: declaration.operand_type(part, mods)
        for operand in declaration.operands
        for part in operand.parts
    }
    return {name: describe(op) for name, op in found.items() if op is not None}


def entry(declaration: Declaration) -> Entry:
    """Return the document of one declaration; operand types are those of its first legal spelling."""
    spellings = legal_spellings(declaration)
    runs, refusals = _refusals(declaration, spellings)
    options = {s.name: s.options for s in declaration.slots if len(s.options) > 1}
    example = ".".join(w for w in spellings[0].values() if w) if spellings else ""
    operands = _operand_types(declaration, spellings[0]) if spellings else {}
    return Entry(
        declaration.name,
        declaration.family,
        declaration.syntax,
        declaration.doc,
        options,
        example,
        operands,
        declaration.unit,
        declaration.targets,
        ".".join(map(str, declaration.since)),
        declaration.converged,
        declaration.completes_by,
        MANUAL + declaration.ref if declaration.ref else "",
        runs,
        refusals,
    )


def select(name: str = "", family: str = "", unsupported: bool = False) -> tuple[Declaration, ...]:
    """Return the declarations asked for, all of them by default.

    `name` is a first word ("add"), the start of a spelling ("tcgen05.ld"), a whole spelling, or a
    declaration's own name ("tcgen05_ld").
    """
    found = declarations()
    if name:
        found = _named(name, found)
    if family:
        found = tuple(d for d in found if d.family == family)
    if unsupported:
        found = tuple(d for d in found if d.unsupported is not None and entry(d).runs != "all")
    return found


def _named(name: str, all_of_them: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
    words = tuple(name.rstrip(";").split("."))
    spelt = decode(words)
    if not isinstance(spelt, Mismatch) and len(words) > 1:
        return (spelt[0],)
    starts = tuple(d for d in all_of_them if _starts(d, words))
    return starts or tuple(d for d in all_of_them if d.name == name)


def _starts(declaration: Declaration, words: tuple[str, ...]) -> bool:
    """Tell whether the words begin a spelling of the declaration; optional slots may be left out."""
    k = 0
    for slot in declaration.slots:
        if k == len(words):
            return True
        if words[k] in slot.options:
            k += 1
        elif not slot.is_optional:
            return False
    return k == len(words)


def close_names(name: str) -> tuple[str, ...]:
    """Return known names near to one that is not known."""
    known = {d.root for d in declarations()} | {d.name for d in declarations()}
    return tuple(difflib.get_close_matches(name, sorted(known), 3))


def families() -> tuple[str, ...]:
    """Return the names of the families, sorted."""
    return tuple(sorted({d.family for d in declarations()}))


_RUNS = {"all": ("runs", "green"), "some": ("runs in part", "yellow"), "none": ("does not run", "red")}


def overview_lines() -> Lines:
    """Return a table of the families: how many declarations, how many of them run, and which instructions."""
    rows: list[list[Piece]] = [
        [("family", "bold"), ("forms", "bold"), ("run", "bold"), ("instructions", "bold")]
    ]
    total = 0
    for family in families():
        members = select(family=family)
        whole = sum(d.unsupported is None or entry(d).runs == "all" for d in members)
        roots = list(dict.fromkeys(_spoken(d) for d in members))
        shown = " ".join(roots[:8]) + (f" and {len(roots) - 8} more" if len(roots) > 8 else "")
        rows.append([family, str(len(members)), str(whole), shown])
        total += len(members)
    tail: Line = (
        f"{counted(total, 'form')}. drywell isa NAME says everything about one, --family NAME lists a family,"
        " --unsupported what cannot run.",
    )
    return (*columns(rows, right=[1, 2], indent=0), (), tail)


def _spoken(declaration: Declaration) -> str:
    """Return the leading literal words: "tcgen05.ld", "add"."""
    words = []
    for slot in declaration.slots:
        if not slot.is_literal or slot.is_optional or slot.name in ("sync", "aligned"):
            break
        words.append(slot.name)
    return ".".join(words) or declaration.root


def list_lines(found: Sequence[Declaration]) -> Lines:
    """Return one line for each declaration: its syntax and whether it runs; why not below it."""
    out: list[Line] = []
    for one in map(entry, found):
        words, style = _RUNS[one.runs]
        out.append((one.syntax, "  ", (words, style)))
        out += _refusal_lines(one)
    return tuple(out)


def _refusal_lines(one: Entry) -> Lines:
    return tuple(
        (f"    not {', '.join('.' + w for w in words)}: {why}" if words else f"    {why}",)
        for why, words in one.refusals
    )


def entry_lines(one: Entry) -> Lines:
    """Return everything about one declaration."""
    out: list[Line] = [((one.syntax, "bold"),)]
    out += [("  " + text.strip(),) for text in one.doc.split("\n")]
    rows: list[list[Piece]] = [
        [f".{name}", " ".join("." + o for o in options)] for name, options in one.options.items()
    ]
    out += columns(rows, indent=4)
    if one.operands:
        out.append((f"  in {one.example}",))
        out += columns([[name, kind] for name, kind in one.operands.items()], indent=4)
    needs = f"PTX {one.since}" + (f", {' '.join(one.targets)}" if one.targets else "")
    facts = [f"unit {one.unit}"]
    facts += [f"executed by a whole {one.converged} together"] if one.converged else []
    facts += [f"completes by {one.completes_by}"] if one.completes_by else []
    words, style = _RUNS[one.runs]
    out += [(f"  needs {needs}",), ("  " + "; ".join(facts),), ("  ", (words, style)), *_refusal_lines(one)]
    if one.manual:
        out.append((("  " + one.manual, "dim"),))
    return (*out, ())
