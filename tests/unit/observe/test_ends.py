"""A finding's note says how the end of the other operation could have been seen, and how far that had got."""

from __future__ import annotations

from drywell.base.events import Agent, BarrierChanged, Issued, Order, Passed, Retired, Role, Sync, Work
from drywell.base.span import Span
from drywell.observe.hazards.ends import Ends
from drywell.observe.hazards.record import Record

MMA_WARP, OTHER, BARRIER = 5, 3, 0x408
WEAK = Order()


def at(line: int) -> Span:
    return Span("k.ptx", line, 1)


def ends() -> Ends:
    return Ends(lambda space, cta, address: f"{space}[{cta}]+0x{address:x}")


def issue(seen: Ends, number: int, role: Role, line: int, lane: int = 0, group: int = 1) -> Record:
    """Tell of an operation, and return the record of an access of its."""
    agent, work = Agent(0, MMA_WARP, number), Work(role, cta_group=group)
    seen.on(Issued(agent, "tensor", role, at(line), (lane,), work))
    is_write = role != "store"
    return Record(number, agent, at(line), "tmem", is_write, "tensor", 1, number, 1, 1, (lane,), work=work)


def signal(seen: Ends, number: int, round_: int, what: str = "arrive") -> None:
    agent = Agent(0, MMA_WARP, number)
    seen.on(BarrierChanged(agent, 0, BARRIER, what, 1, 0, 0, 1, round_ + 1, round_, at(0)))


def passed(seen: Ends, round_: int) -> None:
    seen.on(Passed(Agent(0, OTHER), (0,), Sync("mbarrier", 0, BARRIER), round_, WEAK, at(0)))


def answer(seen: Ends, record: Record) -> str:
    return seen.answer(seen.ask(record, 0, OTHER))


def test_an_mma_ends_with_the_first_commit_behind_it() -> None:
    seen = ends()
    record = issue(seen, 1, "mma", 40)
    assert answer(seen, record) == "no tcgen05.commit follows line 40 in its thread"
    issue(seen, 2, "commit", 44)
    assert answer(seen, record) == "line 40 ends with the commit of line 44, which has not arrived"
    issue(seen, 3, "commit", 50)
    signal(seen, 3, 9)
    signal(seen, 2, 4)
    place = "line 40 ends with the commit of line 44, in phase 4 of shared[0]+0x408"
    assert answer(seen, record) == f"{place}, on which warp 3 of CTA 0 had not waited"
    passed(seen, 3)
    assert answer(seen, record) == f"{place}, of which warp 3 of CTA 0 had seen the end of phase 3"
    passed(seen, 4)
    assert answer(seen, record) == place


def test_a_commit_covers_only_its_own_thread_and_cta_group() -> None:
    seen = ends()
    record = issue(seen, 1, "mma", 40)
    issue(seen, 2, "commit", 44, lane=7)
    issue(seen, 3, "commit", 45, group=2)
    assert answer(seen, record) == "no tcgen05.commit follows line 40 in its thread"


def test_what_had_been_seen_is_that_of_the_moment_of_the_conflict() -> None:
    seen = ends()
    record = issue(seen, 1, "load", 10)
    question = seen.ask(record, 0, OTHER)
    signal(seen, 1, 0, "complete")
    passed(seen, 0)
    said = "line 10 completes phase 0 of shared[0]+0x408, on which warp 3 of CTA 0 had not waited"
    assert seen.answer(question) == said


def test_a_store_ends_with_the_wait_of_its_thread_and_its_source_with_a_wait_for_reading() -> None:
    seen = ends()
    source = issue(seen, 1, "store", 10)
    written = Record(1, source.agent, at(10), "global", True, "async", 1, 1, 1, 1, (0,), work=source.work)
    assert answer(seen, source) == "the thread of line 10 waits nowhere for it"
    seen.on(Retired(Agent(0, MMA_WARP), (0,), (1,), at(12), is_read=True))
    assert answer(seen, source) == "the thread of line 10 waits for it at line 12"
    assert answer(seen, written) == "the thread of line 10 waits nowhere for it"
    seen.on(Retired(Agent(0, MMA_WARP), (0,), (1,), at(15)))
    assert answer(seen, written) == "the thread of line 10 waits for it at line 15"


def test_a_register_read_is_no_wait() -> None:
    seen = ends()
    record = issue(seen, 1, "ld", 10)
    seen.on(Retired(Agent(0, MMA_WARP), (0,), (1,), at(12), is_register=True))
    assert answer(seen, record) == "the thread of line 10 waits nowhere for it"
