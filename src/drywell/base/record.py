"""`@record` makes the class that `@dataclass(frozen=True, slots=True)` makes, several times as fast.

Some two hundred such classes are made before the first line of a text is read, and the standard library
compiles six functions for each, about a millisecond in all: more than reading 4,000 lines takes. Here
`__init__` is compiled, comparisons when the first instance is compared, and the rest is shared. Instances are
made in half the time too, for each field is set through its slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(*, eq: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T] | None = None, *, eq: bool = True) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a frozen dataclass with slots; its fields are all parameters, by position or name. With
    `eq=False` an instance equals only itself.

    >>> @record
    ... class Place:
    ...     line: int
    ...     col: int = 1
    >>> Place(3), Place(3) == Place(3, 1)
    (Place(line=3, col=1), True)
    """
    if cls is None:
        return lambda late: _made(late, eq)
    return _made(cls, eq)


def _made(cls: type[T], eq: bool) -> type[T]:
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__init__ = _initialiser(made)
    for name, function in (*_SHARED.items(), *(_COMPARISONS.items() if eq else ())):
        if made.__dict__.get(name) is None:  # a class with its own __eq__ has None for __hash__
            setattr(made, name, function)
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    return made


def _initialiser(made: Any) -> Any:
    """Return the `__init__` that sets the fields of a class."""
    names: dict[str, Any] = {"missing": MISSING}
    params, body = ["self"], []
    for k, one in enumerate(fields(made)):
        names[f"set{k}"] = getattr(made, one.name).__set__
        value = one.name
        if one.default_factory is not MISSING:
            names[f"make{k}"] = one.default_factory
            value = f"make{k}() if {one.name} is missing else {one.name}"
        params.append(one.name + _default(k, one, names))
        body.append(f"  set{k}(self, {value})")
    if hasattr(made, "__post_init__"):
        body.append("  self.__post_init__()")
    function = _compiled([f"def __init__({', '.join(params)}):", *(body or ["  pass"])], names)["__init__"]
    function.__qualname__ = f"{made.__qualname__}.__init__"
    return function


def _compiled(lines: list[str], names: dict[str, Any]) -> dict[str, Any]:
    exec("\n".join(lines), names)
    return names


def _default(k: int, one: Field[Any], names: dict[str, Any]) -> str:
    """Return how a field's parameter goes on behind its name."""
    if one.default_factory is not MISSING:
        return "=missing"
    if one.default is MISSING:
        return ""
    names[f"default{k}"] = one.default
    return f"=default{k}"


def _first_eq(self: Any, other: object) -> bool:
    _write_comparisons(type(self))
    return bool(self == other)


def _first_hash(self: Any) -> int:
    _write_comparisons(type(self))
    return hash(self)


def _write_comparisons(cls: Any) -> None:
    """Write out how instances are compared, for a class of which two are for the first time."""
    compared = [one.name for one in fields(cls) if one.compare]
    mine, theirs = ("".join(f"{who}.{name}, " for name in compared) for who in ("self", "other"))
    text = [
        "def __eq__(self, other):",
        f"  return ({mine}) == ({theirs}) if other.__class__ is self.__class__ else NotImplemented",
        "def __hash__(self):",
        f"  return hash(({mine}))",
    ]
    functions = _compiled(text, {})
    for name, first in _COMPARISONS.items():
        if getattr(cls, name) is first:
            setattr(cls, name, functions[name])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_SHARED: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {"__eq__": _first_eq, "__hash__": _first_hash}
