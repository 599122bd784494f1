"""Forms are imported by the family of the instruction: each is declared where its family says."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import drywell.engine.native as native
from drywell.engine.native import table
from drywell.isa.registry import declarations


def test_every_form_is_declared_where_its_family_says() -> None:
    for path in sorted(Path(native.__path__[0]).glob("*.py")):
        import_module(f"drywell.engine.native.{path.stem}")
    of_forms = [d for d in declarations() if d.name in table._FORMS]
    assert len(of_forms) > 60
    for declaration in of_forms:
        home = table._FORMS[declaration.name].__module__.rpartition(".")[2]
        assert home in table._HOMES[declaration.family], declaration.syntax
