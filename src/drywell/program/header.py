"""What stands between an entry's parameters and its body: launch bounds that contradict themselves."""

from __future__ import annotations

from drywell.program.context import Context
from drywell.ptx import tree

_POSITIVE = ("maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg")
_CONFLICTS = (("maxntid", "reqntid"), ("maxclusterrank", "reqnctapercluster"))
_NEEDS = {"blocksareclusters": ("reqntid", "reqnctapercluster")}
_OF_ENTRIES = (*_POSITIVE, "reqnctapercluster", "explicitcluster", "maxclusterrank", "blocksareclusters")


def check_header(function: tree.Function, context: Context) -> None:
    """Report directives that are not positive, exclude each other, lack another one, or belong elsewhere.

    Source: PTX ISA, "Performance-Tuning Directives" and "Cluster Dimension Directives"; tried with ptxas
    13.0.88.
    """
    spans = {d.name: d.span for d in function.directives}
    for directive in function.directives:
        name, span = directive.name, directive.span
        if name in _POSITIVE and 0 in directive.arguments:
            context.report("E0329", f"'.{name}' takes numbers above 0, 0 stands here", span)
        if not function.is_entry and name in _OF_ENTRIES:
            context.report("E0329", f"'.{name}' is for an .entry, '{function.name}' is a .func", span)
    for first, second in _CONFLICTS:
        if first in spans and second in spans:
            message = f"'.{first}' and '.{second}' exclude each other"
            context.report("E0329", message, spans[second], hint="delete one of them")
    for name, needed in _NEEDS.items():
        missing = [f".{n}" for n in needed if n not in spans]
        if name in spans and missing:
            context.report("E0329", f"'.{name}' needs {' and '.join(missing)} too", spans[name])
    if "noreturn" in spans and (function.is_entry or function.returns):
        what = "an .entry" if function.is_entry else "a function with results"
        context.report("E0329", f"{what} cannot be '.noreturn'", spans["noreturn"])
