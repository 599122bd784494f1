"""Values out of the tables of a TOML text, each of the kind that is asked for."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drywell.base.errors import LaunchError

LARGEST_BYTES = 1 << 33
"""What one buffer may take: 8 GiB."""


def read_document(path: Path) -> dict[str, Any]:
    """Return the TOML text at `path` as tables; LaunchError when there is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LaunchError(
            f"{path}: {error.strerror or error}\n  hint: give the path of a launch file (.toml)"
        ) from None
    except RecursionError:
        raise LaunchError(f"{path}: nested too deeply\n  hint: a launch file needs four levels") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = 'a launch file begins with: module = "kernel.ptx"'
        raise LaunchError(f"{path}: not a TOML text: {error}\n  hint: {hint}") from None


@dataclass(slots=True)
class Tables:
    """Reads values out of the tables of the file at `path`; what is of another kind is refused (LaunchError)
    with the words `where` for its place.
    """

    path: Path

    def fail(self, where: str, what: str, hint: str = "") -> LaunchError:
        """Return the error that something in the file is wrong, with its place."""
        return LaunchError(f"{self.path}: {where}: {what}" + (f"\n  hint: {hint}" if hint else ""))

    def only(self, table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        """Refuse keys that are not `known`."""
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"the keys are {', '.join(known)}"
                raise self.fail(where, f"there is no key '{key}'", hint)

    def integer(self, table: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
        """Return a whole number; `default` None asks for one to be there."""
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(where, f"'{key}' must be a whole number, not {value!r}")
        return value

    def size(self, table: Mapping[str, Any], key: str, where: str) -> int:
        """Return a number of bytes, 0 to LARGEST_BYTES."""
        value = self.integer(table, key, where)
        if not 0 <= value <= LARGEST_BYTES:
            raise self.fail(where, f"'{key}' is {value}; it must be 0 to {LARGEST_BYTES} bytes")
        return value

    def number(self, table: Mapping[str, Any], key: str, where: str, default: float = 0.0) -> Any:
        """Return a whole or a decimal number."""
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(where, f"'{key}' must be a number, not {value!r}")
        return value

    def text(self, table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str | None:
        """Return a text, or the default."""
        value = table.get(key, default)
        if value is not None and not isinstance(value, str):
            raise self.fail(where, f"'{key}' must be a text in quotes, not {value!r}")
        return value

    def integers(
        self, table: Mapping[str, Any], key: str, where: str, default: Any = None
    ) -> tuple[int, ...] | None:
        """Return whole numbers from a list of them, or from one alone."""
        value = table.get(key, default)
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        if not values or any(isinstance(v, bool) or not isinstance(v, int) for v in values):
            raise self.fail(where, f"'{key}' must be a whole number or a list of them, not {value!r}")
        return tuple(values)

    def table(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return a table of tables, empty when it is not there."""
        value = table.get(key, {})
        if not isinstance(value, dict):
            raise self.fail("the file", f"'{key}' must be a table")
        for name, entry in value.items():
            if not isinstance(entry, dict):
                raise self.fail("the file", f"'{key}.{name}' must be a table")
        return value

    def rows(self, table: Mapping[str, Any], key: str) -> list[Any]:
        """Return a list of tables, empty when it is not there."""
        value = table.get(key, [])
        if not isinstance(value, list):
            raise self.fail("the file", f"'{key}' must be a list of tables", "write [[args]] above each")
        return value
