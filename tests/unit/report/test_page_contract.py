"""The page's types of the record, in explorer/src/lib/record.ts, are those of report/page_data.py."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from drywell.report import page_data

RECORD = (Path(__file__).parents[3] / "explorer" / "src" / "lib" / "record.ts").read_text(encoding="utf-8")
INTERFACES = {
    name: re.findall(r"^  (\w+)\??:", body, re.MULTILINE)
    for name, body in re.findall(r"export interface (\w+) \{\n(.*?)\n\}", RECORD, re.DOTALL)
}
CLASSES = {
    name: kind for name, kind in vars(page_data).items() if name.startswith("Page") and isinstance(kind, type)
}


def fields_of(kind: type) -> list[str]:
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    return [field.name for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("name", CLASSES)
def test_a_record_has_the_same_fields_on_both_sides(name: str) -> None:
    assert INTERFACES[name] == fields_of(CLASSES[name])


def test_both_sides_read_the_same_version() -> None:
    assert f"export const VERSION = {page_data.VERSION};" in RECORD
    assert set(INTERFACES) == set(CLASSES)
