"""Load a module: PTX text becomes kernels that can be launched. Nothing that executes them is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drywell import arch
from drywell.base.diagnostic import Diagnostic, Severity
from drywell.base.errors import LaunchError, PtxError
from drywell.base.span import Source, Span
from drywell.program.module import Program, check_module


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry of a loaded module."""

    module: Module
    name: str

    def __repr__(self) -> str:
        return f"<kernel {self.name} of {self.module.name}>"


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded PTX module: `module["name"]` is a kernel, `module.diagnostics` the warnings found."""

    program: Program

    @property
    def name(self) -> str:
        """Return the name of the text it was loaded from."""
        return self.program.source.name

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the names of its kernels."""
        return self.program.entries

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return what was found that does not stop it from loading."""
        return self.program.diagnostics

    def __getitem__(self, name: str) -> Kernel:
        if name not in self.entries:
            raise LaunchError(
                f"{self.name} has no entry '{name}'; it has {', '.join(self.entries) or 'none'}"
            )
        return Kernel(self, name)


def _read(source: str | Path, name: str) -> Source:
    if isinstance(source, str) and ("\n" in source or ".version" in source):
        return Source(name, source)
    path = Path(source)
    try:
        return Source(path.name, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        message = f"{path}: not a text file (byte {error.start} is not UTF-8)"
        raise PtxError((Diagnostic("E0100", message, hint="PTX is text: was a cubin given?"),)) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        what = getattr(error, "strerror", None) or error
        raise LaunchError(
            f"{path}: {what}\n  hint: give the path of a .ptx file, or the text itself"
        ) from None


def _target_diagnostics(program: Program) -> tuple[Diagnostic, ...]:
    rule = arch.target(program.target) if program.target else None
    if rule is None or rule.runs:
        return ()
    line = next(
        (
            k
            for k, text in enumerate(program.source.text.split("\n"), 1)
            if text.strip().startswith(".target")
        ),
        0,
    )
    message = f"'.target {program.target}' is refused: {rule.reason}"
    return (Diagnostic("E0315", message, Span(program.source.name, line, 1, 7), hint="compile for sm_100a"),)


def check(
    source: str | Path, name: str = "<string>"
) -> tuple[Program | None, tuple[Diagnostic, ...], Source]:
    """Read and resolve a PTX file or text, called `name`, and return the program (None when it cannot be
    parsed), all diagnostics, and the source.
    """
    return _checked(_read(source, name))


def _checked(text: Source) -> tuple[Program | None, tuple[Diagnostic, ...], Source]:
    from drywell.ptx import parse

    tree, problems = parse(text)
    if any(p.severity is Severity.ERROR for p in problems):
        return None, problems, text
    program = check_module(tree, _declared(text), is_as_written=True)
    return program, (*problems, *_target_diagnostics(program), *program.diagnostics), text


def _declared(text: Source) -> Source:
    import drywell.isa.registry  # noqa: F401  (declares every instruction)

    return text


def load(source: str | Path, name: str = "<string>") -> Module:
    """Load a PTX module from a file (or from its text, which messages call `name`).

    Raises PtxError with `.diagnostics` (all of them) when it cannot be read or is not legal, LaunchError
    when there is no such file.

    >>> load(".version 9.0\\n.target sm_100a\\n.address_size 64\\n.visible .entry k() { ret; }").entries
    ('k',)
    """
    from drywell.host.kept_programs import keep_program, kept_program

    text = _read(source, name)
    known = kept_program(text)
    if known is not None:
        return Module(known)
    program, diagnostics, _ = _checked(text)
    if program is None or any(d.severity is Severity.ERROR for d in diagnostics):
        raise PtxError(diagnostics, text)
    if not diagnostics:
        keep_program(text, program)
    return Module(program)
