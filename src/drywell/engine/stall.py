"""Explain why nobody can go on: every waiting warp, the barrier it waits on with its ledger, and the lines
that should have arrived.
"""

from __future__ import annotations

from typing import Any

from drywell.base.errors import DeadlockError, DrywellError, KernelFault
from drywell.base.events import Agent, Stuck, Sync
from drywell.engine.splits import Split, WarpState
from drywell.engine.threaded import Threaded
from drywell.machine.lanes import lane_list, named_lanes
from drywell.machine.mbarrier import decode
from drywell.program.arrivals import Arrival

MAX_SITES = 6
_BARRIERS_OF_LANES = ("named_barrier", "warp_barrier", "cluster_barrier")


def _lanes(split: Split) -> str:
    lanes = lane_list(split.mask)
    return "" if len(lanes) == len(split.mask) else f" {named_lanes(lanes)}"


def parked_fault(threaded: Threaded, states: list[WarpState]) -> KernelFault | None:
    """Return the fault of a warp-collective instruction that only part of its warp reached, if that is what
    holds a warp up.

    It is not when the other lanes wait for something that is not the lanes of a warp or CTA: then that
    something is missing.
    """
    for state in states:
        if any(_waits_for_more_than_lanes(split) for split in state.splits):
            continue
        parked = next((split for split in state.splits if split.is_parked), None)
        if parked is not None:
            return _divergent(threaded, state, parked)
    return None


def _waits_for_more_than_lanes(split: Split) -> bool:
    return split.held is not None and split.held.outcome.reason.kind not in _BARRIERS_OF_LANES


def _divergent(threaded: Threaded, state: WarpState, parked: Split) -> KernelFault:
    where = "; ".join(
        f"{named_lanes(lanes)} {'are' if len(lanes) > 1 else 'is'} at line {threaded.spans[pc].line}"
        for lanes, pc in ((lane_list(s.mask), s.pc) for s in state.splits if s is not parked)
    )
    fault = KernelFault(
        "ALIGNED-DIVERGENT",
        f"a warp-collective instruction is reached by {len(lane_list(parked.mask))} lanes only: {where}",
        "let all lanes of the warp reach it together",
    )
    fault.span, fault.cta, fault.warp = threaded.spans[parked.pc], state.warp.cta.index, state.warp.index
    fault.lanes = lane_list(parked.mask)
    return fault


def stalled(
    threaded: Threaded, sites: tuple[Arrival, ...], states: list[WarpState], finished: list[WarpState]
) -> DrywellError:
    """Return the error for a run in which nobody can go on: a divergent collective, else a deadlock (or a
    livelock when somebody still spins).
    """
    fault = parked_fault(threaded, states)
    if fault is not None:
        return fault
    _tell(threaded, states)
    spinning = any(s.is_runnable for state in states for s in state.splits)
    head = (
        "the warps that still run only repeat themselves"
        if spinning
        else "every warp waits and nothing is in flight"
    )
    lines = [f"error[{'LIVELOCK-SPIN' if spinning else 'DEADLOCK'}]: {head}"]
    lines += _waiting(threaded, states)
    lines += _suspects(threaded, sites, states, finished)
    lines += _not_started(states)
    lines += _first_round(threaded, sites, states)
    return DeadlockError("\n".join(lines))


def _tell(threaded: Threaded, states: list[WarpState]) -> None:
    """Tell the observers who waits for which phase of which mbarrier, or for columns of Tensor Memory."""
    for state in states:
        warp = state.warp
        for split in state.splits if warp.grid.observers else ():
            sync = _sync_of(warp, split)
            if sync is None:
                continue
            agent = Agent(warp.cta.linear, warp.index)
            span, phase = threaded.spans[split.pc], -1
            if split.held is not None:
                phase = split.held.outcome.reason.wanted_phase
            warp.grid.emit(Stuck(agent, lane_list(split.mask), sync, phase, span))


def _sync_of(warp: Any, split: Split) -> Sync | None:
    """Return what a split waits for as events call it; None when they have no name for it."""
    if split.held is None:
        return Sync("poll", warp.cta.linear, warp.index) if split.is_runnable else None
    reason = split.held.outcome.reason
    if reason.kind == "registers":
        return Sync("registers", warp.cta.linear, warp.index)
    if reason.kind == "tmem_alloc":
        return Sync("tmem", warp.cta.linear, 0)
    if reason.address < 0:
        return None
    memory, offset = warp.shared_target(reason.address, cluster=True)
    return Sync("mbarrier", memory.cta.linear, offset)


def _waiting(threaded: Threaded, states: list[WarpState]) -> list[str]:
    """Return who waits for what, CTA by CTA; of CTAs that stand alike the first is told of."""
    said: dict[int, list[str]] = {}
    ctas: dict[int, Any] = {}
    for key, members in _grouped(threaded, states).items():
        cta = members[0][0].warp.cta
        ctas[cta.linear] = cta
        said.setdefault(cta.linear, []).extend(_party(threaded, key, members))
    alike: dict[str, list[int]] = {}
    for number, lines in said.items():
        alike.setdefault(_without_names("\n".join(lines), ctas[number]), []).append(number)
    out: list[str] = []
    for first, *others in alike.values():
        out += said[first]
        if others:
            out.append(f"  the same in {_cta_ranges(others, ctas)}")
    return out


def _without_names(text: str, cta: Any) -> str:
    """Return a text in which a CTA does not name itself: by its index, its number, the rank in addresses."""
    named = text.replace(f"CTA {_index(cta)}", "CTA").replace(f"CTA {cta.linear} ", "CTA ")
    return named.replace(f"0x{cta.rank:02x}", "0x")


def _index(cta: Any) -> str:
    return ",".join(map(str, cta.index))


def _cta_ranges(numbers: list[int], ctas: dict[int, Any]) -> str:
    """Name CTAs by their indices: `CTA 1,0,0 to 7,0,0`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ends = [(_index(ctas[run[0]]), _index(ctas[run[-1]])) for run in runs]
    return "; ".join(f"CTA {first}" if first == last else f"CTA {first} to {last}" for first, last in ends)


def _grouped(
    threaded: Threaded, states: list[WarpState]
) -> dict[tuple[Any, ...], list[tuple[WarpState, Split]]]:
    groups: dict[tuple[Any, ...], list[tuple[WarpState, Split]]] = {}
    for state in states:
        for split in state.splits:
            text = _awaits(threaded, state, split)
            groups.setdefault((state.warp.cta.index, split.pc, text), []).append((state, split))
    return groups


def _awaits(threaded: Threaded, state: WarpState, split: Split) -> str:
    """Say what a split waits for."""
    if split.held is not None:
        return split.held.outcome.reason.describe()
    if split.is_parked:
        others = [s for s in state.splits if s is not split]
        return f"the other lanes of its warp, which are at {_lines(threaded, others)}"
    return "something in memory to change (it spins)"


def _not_started(states: list[WarpState]) -> list[str]:
    """Say how many CTAs wait for room on an SM."""
    if not states:
        return []
    grid = states[0].warp.grid
    count = grid.num_waiting
    sms = "the SM" if len(grid.sms) == 1 else f"the {len(grid.sms)} SMs"
    return [f"  {count} CTAs have not started: no room on {sms} until others exit"] if count else []


def _party(threaded: Threaded, key: tuple[Any, ...], members: list[tuple[WarpState, Split]]) -> list[str]:
    cta, pc, text = key
    span = threaded.spans[pc]
    who = ", ".join(f"warp {state.warp.index}{_lanes(split)}" for state, split in members)
    loc = f" ({span.loc})" if span.loc else ""
    first, *rest = text.split("\n")
    return [
        f"  CTA {','.join(map(str, cta))} {who} at {span}{loc} waits for {first}",
        *("    " + line for line in rest),
    ]


def _suspects(
    threaded: Threaded, sites: tuple[Arrival, ...], states: list[WarpState], finished: list[WarpState]
) -> list[str]:
    """Name, for each mbarrier waited on, the lines that arrive on it and where the warps are that should."""
    out: dict[str, None] = {}  # CTAs that stand alike say the same: it is said once
    for memory, offset, cta in _awaited(states):
        ours = [s for s in (*states, *finished) if s.warp.cluster is cta.cluster]
        missing = _missing(memory, offset, sites)
        name = memory.name_of(offset)
        if not missing:
            out[f"  {name}: no instruction of this kernel arrives on it"] = None
            continue
        said = [f"  {name}: what should have arrived:"]
        said += [f"    {_site(threaded, site, ours)}" for site in missing[:MAX_SITES]]
        if len(missing) > MAX_SITES:
            said.append(f"    and {len(missing) - MAX_SITES} more lines")
        out["\n".join(said)] = None
    return list(out)


def _first_round(threaded: Threaded, sites: tuple[Arrival, ...], states: list[WarpState]) -> list[str]:
    """Give the hint for a run in which all wait for the first phase of mbarriers that nothing has come to."""
    awaited = _awaited(states)
    for memory, offset, _ in awaited:
        ledger = memory.ledgers.get(offset)
        if ledger is None or ledger.phase or ledger.current or not _missing(memory, offset, sites):
            return []
    splits = [split for state in states for split in state.splits if split.held is not None]
    held = {threaded.spans[s.pc].line for s in splits if s.held and s.held.outcome.reason.address >= 0}
    if len(held) < 2:
        return []
    *lines, last = map(str, sorted(held))
    return [
        f"  hint: nothing has come to any of these mbarriers: if line {', '.join(lines)} or {last} is the"
        " first wait of a producer for room, let it wait for parity 1, which passes at once"
    ]


def _missing(memory: Any, offset: int, sites: tuple[Arrival, ...]) -> list[Arrival]:
    """Return the sites that could end the open phase of the mbarrier at `offset`.

    These are the lines that arrived on it in earlier phases and those whose address comes from its variable;
    of them the ones that bring what is still missing (arrivals or bytes), first those not seen in this phase.
    """
    ledger = memory.ledgers.get(offset)
    symbol = memory.name_of(offset).split("+")[0]
    known = {e.span.line for _, entries in ledger.ended for e in entries} if ledger is not None else set()
    candidates = [s for s in sites if s.span.line in known or symbol in s.symbols]
    if ledger is None:
        return candidates
    word = decode(int(memory.words[offset >> 3]))
    wanted = [s for s in candidates if (word.tx > 0 if s.is_completion else word.pending or word.tx < 0)]
    seen = {e.span.line for e in ledger.current}
    return [s for s in wanted if s.span.line not in seen] or wanted


def _site(threaded: Threaded, site: Arrival, states: list[WarpState]) -> str:
    loc = f" ({site.span.loc})" if site.span.loc else ""
    where = f"line {site.span.line}{loc}, {site.name}: "
    executed = [s for s in states if s.counts[site.pc]]
    if not executed:
        return where + "no warp has executed it"
    return where + "; ".join(
        f"{_name(s)} executed it {_times(s.counts[site.pc])} and {_whereabouts(threaded, s)}"
        for s in executed[:6]
    )


def _name(state: WarpState) -> str:
    """Name a warp, with its CTA's rank where the cluster has several."""
    rank = f"CTA rank {state.warp.cta.rank} " if len(state.warp.cluster.ctas) > 1 else ""
    return f"{rank}warp {state.warp.index}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _whereabouts(threaded: Threaded, state: WarpState) -> str:
    if not state.splits:
        return "has exited"
    return f"is at {_lines(threaded, state.splits)}"


def _lines(threaded: Threaded, splits: list[Split]) -> str:
    """Name the lines that splits are at: `line 12`, `lines 12, 14`."""
    lines = sorted({threaded.spans[split.pc].line for split in splits})
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


def _awaited(states: list[WarpState]) -> list[tuple[Any, int, Any]]:
    seen: dict[tuple[int, int], tuple[Any, int, Any]] = {}
    for state in states:
        for split in state.splits:
            if split.held is not None and split.held.outcome.reason.address >= 0:
                memory, offset = state.warp.shared_target(split.held.outcome.reason.address, cluster=True)
                seen.setdefault((state.warp.cta.linear, offset), (memory, offset, state.warp.cta))
    return list(seen.values())
