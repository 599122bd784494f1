"""A record is what the standard library's frozen dataclass with slots is, seen from outside."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import msgspec
import pytest

from drywell.base.record import record


@record
class Place:
    """A record to look at; pickle needs it at the top of the module."""

    line: int
    col: int = 1
    marks: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)

    @property
    def is_first(self) -> bool:
        return self.line == 1


@dataclass(frozen=True, slots=True)
class Standard:
    """The same from the standard library."""

    line: int
    col: int = 1
    marks: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


BOTH = pytest.mark.parametrize("kind", [Place, Standard])


@BOTH
def test_fields_are_given_by_position_or_name_and_have_defaults(kind: Any) -> None:
    one = kind(3, marks=[1])
    assert (one.line, one.col, one.marks, one.note) == (3, 1, [1], "")
    assert kind(1).marks == [] and kind(1).marks is not kind(1).marks
    for wrong in ((), (1, 2, [], "", 5)):
        with pytest.raises(TypeError, match="__init__"):
            kind(*wrong)


@BOTH
def test_what_is_compared_decides_equality_and_hash(kind: Any) -> None:
    assert kind(1, note="a") == kind(1, note="b") != kind(2)
    assert kind(1) != (1, 1, [])
    nothing = kind(1, 2, ())
    assert hash(nothing) == hash((1, 2, ()))


@BOTH
def test_it_reads_as_its_call(kind: Any) -> None:
    assert f"{kind.__name__}(line=1, col=2, marks=[])" == repr(kind(1, 2))


@BOTH
def test_nothing_of_it_changes(kind: Any) -> None:
    one = kind(1)
    with pytest.raises(FrozenInstanceError, match="'line'"):
        one.line = 2
    with pytest.raises(FrozenInstanceError, match="'line'"):
        del one.line
    assert not hasattr(one, "__dict__")


@BOTH
def test_it_is_copied_replaced_pickled_matched_and_written_as_a_dataclass_is(kind: Any) -> None:
    one = kind(1, 2, [3], "n")
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (other, other.note) == (one, "n")
    assert dataclasses.replace(one, col=7) == kind(1, 7, [3])
    assert [f.name for f in dataclasses.fields(one)] == ["line", "col", "marks", "note"]
    assert msgspec.json.encode(one) == b'{"line":1,"col":2,"marks":[3],"note":"n"}'
    match one:
        case kind(line, col):
            assert (line, col) == (1, 2)


def test_methods_of_its_own_stay() -> None:
    @record
    class Odd:
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Odd) and self.value % 2 == other.value % 2

        def __repr__(self) -> str:
            return "odd"

    assert Odd(1) == Odd(3) and repr(Odd(1)) == "odd" and hash(Odd(5)) == hash((5,))
    assert Place(1).is_first


def test_a_record_may_extend_another_and_begin_with_a_check() -> None:
    @record
    class Base:
        name: str

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

    @record
    class More(Base):
        size: int = 0

    assert repr(More("a", 2)).endswith("More(name='a', size=2)")
    with pytest.raises(ValueError, match="no name"):
        More("")
    assert Base("a") != More("a")


def test_without_eq_it_equals_itself_only() -> None:
    @record(eq=False)
    class Thing:
        value: int

    one = Thing(1)
    assert one == one and one != Thing(1) and len({one, Thing(1)}) == 2
