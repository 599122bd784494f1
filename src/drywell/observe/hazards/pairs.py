"""What a conflict is called: the rule, the words and the hint for two accesses that are not ordered."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from drywell.base.diagnostic import Edit, Severity
from drywell.observe.hazards import repairs
from drywell.observe.hazards.agents import Conflict, is_same_accumulator
from drywell.observe.hazards.record import Record


class Name(NamedTuple):
    """A rule with what would have ordered the pair and how to repair it, in words and, where it can be done
    by itself, as `edits`; `severity` replaces the rule's own.
    """

    rule: str
    note: str
    hint: str
    severity: Severity | None = None
    is_silent_at_hw: bool = False
    edits: tuple[Edit, ...] = ()


def name(conflict: Conflict) -> Name:
    """Return what a conflict is called."""
    if conflict.why == "proxy":
        return _proxy(conflict)
    if conflict.why in ("fence_after", "fence_before"):
        return _fence(conflict)
    if conflict.later.space == "tmem":
        return _tmem(conflict)
    return _memory(conflict)


def _fence(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    if conflict.why == "fence_after":
        after = repairs.before(later.span, repairs.FENCE_AFTER)
        return Name(
            "FENCE-AFTER-MISSING",
            "tcgen05.fence::after_thread_sync belongs between the wait and the operation",
            f"{after}, behind the wait",
            edits=(after,),
        )
    fence = repairs.behind(earlier.wait or earlier.span, repairs.FENCE_BEFORE)
    return Name(
        "FENCE-BEFORE-MISSING",
        "tcgen05.fence::before_thread_sync belongs between the operation and the arrive",
        f"{fence}, before the thread arrives",
        edits=(fence,),
    )


def is_same_thread(a: Record, b: Record) -> bool:
    """Say whether one thread (or one warp as a whole) issued both."""
    return a.warp == b.warp and (not a.lanes or not b.lanes or bool(set(a.lanes) & set(b.lanes)))


def _proxy(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    if later.proxy == "tensormap":
        return _map_is_stale(conflict)
    if _is_answer_read(earlier, later):
        return _answer_reused(conflict)
    at_access = repairs.proxy_fence(later.space, earlier.span)
    at_issue = repairs.before(later.span, at_access.text)
    if earlier.unit == "cp_async":
        at_wait = repairs.proxy_fence(later.space, earlier.wait or earlier.span)
        return Name(
            "CPASYNC-TO-MMA",
            "cp.async writes through the generic proxy; its wait carries nothing over to the async proxy",
            f"{at_wait}, the wait for the copies (or in the issuing thread right before line"
            f" {later.span.line})",
            edits=(at_wait, at_issue),
        )
    who = "the thread that wrote" if earlier.is_write else "the thread that read"
    return Name(
        "PROXY-FENCE-MISSING",
        "the accesses are ordered, but nothing carries the generic one over to the async proxy",
        f"{at_access}, in {who}, before it arrives or meets others (or in the issuing thread right before"
        f" line {later.span.line})",
        edits=(at_access, at_issue),
    )


def _map_is_stale(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    return Name(
        "TENSORMAP-STALE",
        "a tensor map written by threads reaches the TMA unit by a release and an acquire of the tensormap"
        " proxy",
        f"fence.proxy.tensormap::generic.release.gpu behind line {earlier.span.line}, and"
        f" fence.proxy.tensormap::generic.acquire.gpu [map], 128 before line {later.span.line}",
    )


def _map_in_use(conflict: Conflict) -> Name:
    return Name(
        "TENSORMAP-INFLIGHT",
        "the TMA unit reads the map at some moment until the copy is over",
        f"wait for the end of line {conflict.earlier.span.line} (its mbarrier, or wait_group.read) before"
        f" line {conflict.later.span.line} changes the map",
    )


# Tensor Memory


def _tmem(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    found = _TMEM.get((earlier.role, later.role))
    if found is not None:
        return found(conflict)
    return Name("TMEM-RACE", "nothing orders the two", _order_hint(earlier, later))


def _order_hint(earlier: Record, later: Record) -> str:
    waits = {
        "mma": "tcgen05.commit behind it and wait on that mbarrier",
        "cp": "tcgen05.commit behind it and wait on that mbarrier",
        "shift": "tcgen05.commit behind it and wait on that mbarrier",
        "ld": "tcgen05.wait::ld.sync.aligned behind it, then arrive; wait for that",
        "st": "tcgen05.wait::st.sync.aligned behind it, then arrive; wait for that",
    }
    return f"put {waits.get(earlier.role, 'a barrier behind it and wait')} before line {later.span.line}"


def _read_before_mma(conflict: Conflict) -> Name:
    return Name(
        "TMEM-READ-BEFORE-MMA",
        "order is made by tcgen05.commit -> mbarrier -> wait",
        f"let line {conflict.later.span.line} wait on the mbarrier of a tcgen05.commit that follows line"
        f" {conflict.earlier.span.line}",
    )


def _overwrite_before_read(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    wait = repairs.behind(earlier.span, repairs.WAIT_LD)
    arrive = f"the arrive that lets line {later.span.line} go on"
    if not earlier.is_issued_for(conflict.clock.control):  # nobody has told the other party
        hint = (
            f"let line {later.span.line} wait for an arrive that the warp makes behind its tcgen05.wait::ld"
        )
    elif earlier.wait:
        hint = f"{wait}, or move {arrive} behind line {earlier.wait.line}"
    else:
        hint = f"{wait}, before {arrive}"
    return Name(
        "TMEM-OVERWRITE-BEFORE-READ",
        "order is made by tcgen05.wait::ld, then an arrive, then a wait on that barrier",
        hint,
        edits=(wait,),
    )


def _operand_overwritten(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    is_tolerated = (
        later.role == "cp"
        and is_same_thread(earlier, later)
        and earlier.work.cta_group == later.work.cta_group
    )
    return Name(
        "TMEM-WAR-MMA-OPERAND",
        "PTX does not promise that a cp waits for an earlier mma (or cp) of its thread; CUTLASS relies on it"
        if is_tolerated
        else "the mma may still be reading its operands; its end is seen through tcgen05.commit",
        f"wait on the mbarrier of a tcgen05.commit behind line {earlier.span.line} before line"
        f" {later.span.line}, or use another buffer",
        Severity.NOTE if is_tolerated else None,
        is_tolerated,
    )


def _mma_after_mma(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    if not earlier.is_write:
        return _operand_overwritten(conflict)
    if is_same_thread(earlier, later):
        differs = "shape or kind" if not is_same_accumulator(earlier, later) else "cta_group"
        return Name(
            "MMA-NOT-PIPELINED",
            "two mma of one thread keep their order only with one accumulator, shape and kind; here the"
            f" {differs} differs",
            f"tcgen05.commit behind line {earlier.span.line} and wait on its mbarrier before line"
            f" {later.span.line}",
        )
    if earlier.agent.cta != later.agent.cta and earlier.work.cta_group == 2:
        return Name(
            "PAIR-BOTH-ISSUE",
            "an mma of cta_group::2 acts on both CTAs of the pair; threads of both issue it",
            "let only the CTA of even rank issue it",
        )
    if earlier.span == later.span:
        return Name(
            "MMA-MULTI-ISSUE",
            "several threads execute one mma where one is meant",
            f"let one elected thread of one warp execute line {later.span.line}",
            Severity.ERROR if earlier.warp != later.warp else None,
        )
    return Name(
        "TMEM-RACE", "two threads issue the mma, and nothing orders them", _order_hint(earlier, later)
    )


def _not_waited(conflict: Conflict) -> Name:
    wait = repairs.behind(conflict.earlier.span, repairs.WAIT_ST)
    return Name(
        "ST-NOT-WAITED",
        "a tcgen05.st is over only after tcgen05.wait::st of its warp",
        f"{wait}, before it is handed on",
        edits=(wait,),
    )


_TMEM: dict[tuple[str, str], Callable[[Conflict], Name]] = {
    ("mma", "ld"): _read_before_mma,
    ("mma", "st"): lambda c: _read_before_mma(c) if c.earlier.is_write else _operand_overwritten(c),
    ("ld", "mma"): _overwrite_before_read,
    ("ld", "cp"): _overwrite_before_read,
    ("ld", "st"): _overwrite_before_read,
    ("ld", "shift"): _overwrite_before_read,
    ("mma", "cp"): lambda c: (
        _read_before_mma(c)
        if c.earlier.is_write and not is_same_thread(c.earlier, c.later)
        else _operand_overwritten(c)
    ),
    ("cp", "cp"): lambda c: (
        _operand_overwritten(c)
        if is_same_thread(c.earlier, c.later)
        else Name("TMEM-RACE", "two threads copy to the same cells", _order_hint(c.earlier, c.later))
    ),
    ("mma", "mma"): _mma_after_mma,
    ("st", "mma"): _not_waited,
    ("st", "ld"): _not_waited,
    ("st", "cp"): _not_waited,
    ("st", "shift"): _not_waited,
}


# shared and global memory


def _memory(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    pair = ((earlier, later), (later, earlier))
    lost = [one.replaced for one, other in pair if not other.is_operation]  # a thread may come for an address
    if any(record is not None and record.is_slot for record in (earlier, later, *lost)):
        return Name(
            "TMEM-ADDR-RACE",
            "tcgen05.alloc stores the address as a weak write of its warp",
            f"put a barrier between line {earlier.span.line} and line {later.span.line}",
            edits=(repairs.meeting(later.span),),
        )
    if earlier.is_over_for(conflict.clock.control, conflict.earlier_lane):
        return Name(
            "MBAR-SCOPE",
            "an arrive reaches the other party, but relaxed or at .cta scope: it orders no data across CTAs",
            "write the arrive as .release.cluster",
        )
    for matches, named in _MEMORY:
        if matches(earlier, later):
            return named(conflict)
    return _race(conflict)


def _race(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    if _is_load(earlier) and _is_load(later):
        return Name(
            "MEM-RACE",
            "nothing orders the two copies",
            f"before line {later.span.line} wait until line {earlier.span.line} has landed"
            f" ({_end_of(earlier)}) and its readers are done",
        )
    is_guess = (earlier.is_atomic and not later.is_write) or (later.is_atomic and not earlier.is_write)
    is_guess = is_guess and not (earlier.is_operation or later.is_operation)
    is_in_step = earlier.warp == later.warp and not later.is_operation
    is_one_cta = earlier.agent.cta == later.agent.cta and not earlier.is_operation
    barrier = "bar.warp.sync" if is_in_step else "a barrier that both threads pass"
    meeting = repairs.before(later.span, repairs.WARP_BARRIER) if is_in_step else repairs.meeting(later.span)
    return Name(
        "MEM-RACE",
        "a weak read beside an atomic: formally a race, though the word comes whole"
        if is_guess
        else "nothing orders the two accesses",
        f"put {barrier} between line {earlier.span.line} and line {later.span.line}"
        if earlier.span != later.span
        else "let one thread do it, or put a barrier between the two",
        Severity.NOTE if is_guess else None,
        is_guess or is_in_step,  # hardware carries out a warp's accesses in the order of its instructions
        (meeting,) if is_one_cta and earlier.span != later.span else (),
    )


def _is_answer_read(earlier: Record, later: Record) -> bool:
    return later.role == "try_cancel" and later.is_write and not (earlier.is_write or earlier.is_operation)


def _answer_reused(conflict: Conflict) -> Name:
    fence = repairs.proxy_fence("shared", conflict.earlier.span)
    return Name(
        "CLC-REUSE",
        "the next request writes its answer through the async proxy, so each reader of the last one needs a"
        " proxy fence and then a barrier before that request",
        f"{fence} and a barrier before line {conflict.later.span.line}",
        edits=(fence,),
    )


def _is_load(record: Record) -> bool:
    is_waited_for = record.unit == "cp_async" and record.retired_at > 0
    is_load = record.is_write and record.role in ("load", "copy", "try_cancel")
    return is_load and record.is_operation and not is_waited_for


def _is_tensor_read(record: Record) -> bool:
    return not record.is_write and record.role in ("mma", "cp")


def _is_store_source(record: Record) -> bool:
    return not record.is_write and record.role in ("store", "reduce", "copy") and record.space == "shared"


def _is_bulk_write(record: Record) -> bool:
    return record.is_write and record.role in ("store", "reduce") and record.space == "global"


def _read_early(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    verb = "put" if earlier.unit == "cp_async" else "wait on"
    then = ", in the threads that copy, and a barrier behind it," if earlier.unit == "cp_async" else ""
    return Name(
        "TMA-READ-EARLY",
        f"the end of the copy is seen through {_end_of(earlier)}",
        f"{verb} {_end_of(earlier)}{then} before line {later.span.line}",
    )


def _end_of(copy: Record) -> str:
    """Name what tells that a copy into shared memory has landed."""
    return "cp.async.wait_group" if copy.unit == "cp_async" else "the mbarrier that its bytes complete on"


def _is_far_load(record: Record) -> bool:
    return _is_load(record) and record.role == "load" and record.agent.cta != record.home


def _peer_busy(conflict: Conflict) -> Name:
    return Name(
        "MULTICAST-PEER-BUSY",
        "the CTA that reads the stage has not released it to the CTA that issues the multicast",
        "let the consumers of every destination CTA arrive on the issuer's empty barrier",
    )


def _stage_overwrite(conflict: Conflict) -> Name:
    earlier, later = conflict.earlier, conflict.later
    return Name(
        "STAGE-OVERWRITE",
        "the reads of an mma or cp are over when a tcgen05.commit behind it has arrived and was waited for",
        f"wait on the mbarrier of a tcgen05.commit behind line {earlier.span.line} before line"
        f" {later.span.line}",
    )


def _source_overwrite(conflict: Conflict) -> Name:
    store = conflict.earlier.span
    wait = repairs.behind(store, repairs.READ_WAIT, is_guarded=True)
    return Name(
        "TMA-SRC-OVERWRITE",
        "the source of a bulk store is free after cp.async.bulk.wait_group.read of the thread that issued it",
        f"let the thread of line {store.line} commit_group and wait_group.read 0, then meet the writers at a"
        f" barrier before line {conflict.later.span.line}",
        edits=(wait,) if conflict.earlier.role != "copy" else (),
    )


def _signal_early(conflict: Conflict) -> Name:
    if not conflict.earlier.is_issued_for(conflict.clock.control):
        return _race(conflict)  # nobody has told the other party
    wait = repairs.behind(conflict.earlier.span, repairs.WRITE_WAIT, is_guarded=True)
    return Name(
        "BULK-SIGNAL-EARLY",
        "a bulk store's global write is over after cp.async.bulk.wait_group without .read",
        f"wait_group 0 (without .read) behind line {conflict.earlier.span.line} before telling others",
        edits=(wait,),
    )


_MEMORY: tuple[tuple[Callable[[Record, Record], bool], Callable[[Conflict], Name]], ...] = (
    (lambda x, y: y.proxy == "tensormap", _map_is_stale),
    (lambda x, y: x.proxy == "tensormap", _map_in_use),
    (_is_answer_read, _answer_reused),
    (lambda x, y: _is_load(x) and not _is_load(y), _read_early),
    (lambda x, y: (_is_load(x) or not x.is_write) and _is_far_load(y), _peer_busy),
    (lambda x, y: _is_tensor_read(x), _stage_overwrite),
    (lambda x, y: _is_store_source(x), _source_overwrite),
    (lambda x, y: _is_bulk_write(x), _signal_early),
)
