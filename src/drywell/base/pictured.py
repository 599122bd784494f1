"""What a notebook shows of a value."""

from __future__ import annotations

from importlib import import_module


class Pictured:
    """A value that notebooks show as a picture. `drywell.report.notebook`, which no room below it knows, has
    one for each kind of them; it is imported when something is shown.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the value as HTML that needs nothing else."""
        html: str = import_module("drywell.report.notebook").html_of(self)
        return html
