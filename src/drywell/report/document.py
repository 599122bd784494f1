"""The JSON form of a result: one object with `verdict`, `findings` and `stats`, whatever happened.

`message` says in words what was refused, `diagnostics` lists what is wrong with a text, `roles` and
`handovers` what each warp is for and each mbarrier hands over; they are there only when there is
something to say. A finding has both parties (`span`, `cta`, `warp`, `lanes`; `other`, `other_party`), the
`place` they have in common, a `note` with what would have ordered them, a `hint`, `edits` of the text, each
of which may repair it by itself (`drywell.base.diagnostic.Edit`), and a `count`; one that follows from
another, as one repair does for both, names that as its `cause`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drywell.base.diagnostic import Diagnostic, Finding
    from drywell.observe.handovers import Handover
    from drywell.observe.roles import WarpRole

EXIT_CODES = {
    "clean": 0,
    "unchecked": 0,
    "findings": 1,
    "mismatch": 1,
    "fault": 1,
    "deadlock": 1,
    "bad_input": 2,
    "unsupported": 3,
    "budget": 3,
}
"""What the command line exits with, by verdict."""


def document(
    verdict: str,
    findings: Sequence[Finding] = (),
    stats: Mapping[str, Any] | None = None,
    message: str = "",
    diagnostics: Sequence[Diagnostic] = (),
    roles: Sequence[WarpRole] = (),
    handovers: Sequence[Handover] = (),
) -> dict[str, Any]:
    """Return the object of a result; `verdict` is a key of EXIT_CODES."""
    if verdict not in EXIT_CODES:
        raise ValueError(f"'{verdict}' is not a verdict; use one of {', '.join(EXIT_CODES)}")
    out: dict[str, Any] = {"verdict": verdict, "findings": tuple(findings), "stats": dict(stats or {})}
    if message:
        out["message"] = message
    if diagnostics:
        out["diagnostics"] = tuple(diagnostics)
    if roles:
        out |= {"roles": tuple(roles), "handovers": tuple(handovers)}
    return out


def encode(value: Any) -> str:
    """Return a value of dataclasses, mappings and sequences as one line of JSON; NaN and infinities become
    null.
    """
    import msgspec  # costs more than a short text takes to verify

    return msgspec.json.encode(value).decode()
