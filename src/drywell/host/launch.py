"""Load a module and launch a kernel: the two calls everything else is built on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from drywell import arch
from drywell.base.activity import WarpActivity
from drywell.base.diagnostic import Diagnostic, Finding, Severity
from drywell.base.errors import (
    BudgetError,
    DeadlockError,
    DrywellError,
    KernelFault,
    LaunchError,
    PtxError,
    UnsupportedError,
)
from drywell.base.events import Observer
from drywell.base.options import Options
from drywell.base.span import NOWHERE, Source, Span
from drywell.engine.run import Launch, Outcome, place_globals, run, smem_symbols
from drywell.engine.trace import Trace
from drywell.host.arguments import arrays_of, build_params
from drywell.host.checking import level_of, make_checker, make_roles
from drywell.host.numerics_findings import numerics_findings
from drywell.host.placement import Placement
from drywell.machine.gmem import GlobalMemory
from drywell.observe.handovers import Handover
from drywell.observe.hazards.checker import Checker
from drywell.observe.hazards.declared import Declared
from drywell.observe.roles import Roles, WarpRole
from drywell.observe.tensor_memory import TmemMap, TmemSnapshot
from drywell.program.link import Executable, link
from drywell.program.module import Program, check_module

Verdict = Literal[
    "clean", "unchecked", "findings", "mismatch", "fault", "deadlock", "unsupported", "budget", "bad_input"
]


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


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch did. The verdict of a run that ended is `unchecked` with check="off".

    `executed` counts the warp instructions that some lane executed, `printed` is what the kernel printed,
    `activity` what each warp did. `is_approximate` says that `numerics="fast"` was asked for. `roles` and
    `handovers`, what each warp is for and what each mbarrier hands over, need `observe=("roles",)`.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    executed: int
    printed: str
    activity: tuple[WarpActivity, ...]
    tmem_map: TmemMap | None = None
    is_approximate: bool = False
    roles: tuple[WarpRole, ...] = ()
    handovers: tuple[Handover, ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether the run ended without an error-level finding."""
        return self.verdict in ("clean", "unchecked")

    def tmem(self, cta: int = 0) -> TmemSnapshot:
        """Return what the Tensor Memory of a CTA's SM held, who owned it and what wrote it.

        Needs `observe=("tmem",)` at the launch; LaunchError without it.
        """
        if self.tmem_map is None:
            raise LaunchError('the launch did not record Tensor Memory: pass observe=("tmem",)')
        return self.tmem_map.snapshot(cta)


def _read(source: str | Path) -> Source:
    if isinstance(source, str) and ("\n" in source or ".version" in source):
        return Source("<string>", source)
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


def check(source: str | Path) -> tuple[Program | None, tuple[Diagnostic, ...], Source]:
    """Read and resolve a PTX file or text and return the program (None when it cannot be parsed), all
    diagnostics, and the source.
    """
    from drywell.ptx import parse

    text = _read(source)
    tree, problems = parse(text)
    if any(p.severity is Severity.ERROR for p in problems):
        return None, problems, text
    program = check_module(tree, _declared(text))
    return program, (*problems, *_target_diagnostics(program), *program.diagnostics), text


def _declared(text: Source) -> Source:
    import drywell.isa.registry  # noqa: F401  (declares every instruction)

    return text


def load(source: str | Path) -> Module:
    """Load a PTX module from a file (or from its text).

    Raises PtxError with `.diagnostics` (all of them) when it cannot be read or is not legal, LaunchError
    when there is no such file.

    >>> load(".version 9.0\\n.target sm_100a\\n.address_size 64\\n.visible .entry k() { ret; }").entries
    ('k',)
    """
    program, diagnostics, text = check(source)
    if program is None or any(d.severity is Severity.ERROR for d in diagnostics):
        raise PtxError(diagnostics, text)
    return Module(program)


def _dims(name: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    parts = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if not 1 <= len(parts) <= 3:
        raise LaunchError(f"{name} {value!r}: give one to three numbers")
    if any(p < 1 for p in parts):
        raise LaunchError(f"{name} {tuple(parts)}: every dimension must be at least 1")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def _directive(executable: Executable, name: str) -> tuple[int, ...] | None:
    found = executable.entry.directives.get(name)
    return None if found is None else tuple(int(v) for v in found)


def _volume(dims: Sequence[int]) -> int:
    out = 1
    for d in dims:
        out *= d
    return out


def _block(executable: Executable, block: int | Sequence[int] | None, gpu: arch.Gpu) -> tuple[int, int, int]:
    required, most = _directive(executable, "reqntid"), _directive(executable, "maxntid")
    if block is None:
        if required is None:
            raise LaunchError(
                f"'{executable.entry.name}' does not say its block size (.reqntid): pass block="
            )
        block = required
    dims = _dims("block", block)
    threads = _volume(dims)
    if threads > gpu.max_threads_per_cta:
        raise LaunchError(
            f"block {dims} has {threads} threads, {gpu.max_threads_per_cta} are the limit of {gpu.title}"
        )
    if required is not None and (*required, 1, 1)[:3] != dims:
        raise LaunchError(
            f"block {dims}, but the kernel says .reqntid {', '.join(map(str, required))}\n  hint: "
            f"pass block={required}"
        )
    if most is not None and threads > _volume(most):
        raise LaunchError(
            f"block {dims} has {threads} threads, but the kernel says .maxntid {', '.join(map(str, most))}"
        )
    return dims


def _cluster(
    executable: Executable, cluster: int | Sequence[int] | None, grid: tuple[int, int, int], gpu: arch.Gpu
) -> tuple[int, int, int]:
    required, directives = _directive(executable, "reqnctapercluster"), executable.entry.directives
    if "blocksareclusters" in directives:
        raise UnsupportedError(
            "a grid counted in clusters ('.blocksareclusters') is not executed yet", executable.entry.span
        )
    if cluster is None:
        if required is None and "explicitcluster" in directives:
            raise LaunchError(f"'{executable.entry.name}' says .explicitcluster: pass cluster=")
        cluster = required or 1
    dims = _dims("cluster", cluster)
    if required is not None and (*required, 1, 1)[:3] != dims:
        raise LaunchError(
            f"cluster {dims}, but the kernel says .reqnctapercluster {', '.join(map(str, required))}"
        )
    if _volume(dims) > gpu.max_cluster_ctas:
        raise LaunchError(
            f"cluster {dims} has {_volume(dims)} CTAs, {gpu.max_cluster_ctas} are the limit of {gpu.title}"
        )
    for axis, (g, c) in enumerate(zip(grid, dims, strict=True)):
        if g % c:
            raise LaunchError(
                f"cluster {dims} does not divide grid {grid} along {'xyz'[axis]}\n  hint: make the "
                "grid a multiple of the cluster"
            )
    most = _directive(executable, "maxclusterrank")
    if most is not None and _volume(dims) > most[0]:
        raise LaunchError(
            f"cluster {dims} has {_volume(dims)} CTAs, but the kernel says .maxclusterrank {most[0]}"
        )
    return dims


def _max_registers(executable: Executable, block: tuple[int, int, int], gpu: arch.Gpu) -> int | None:
    declared = _directive(executable, "maxnreg")
    return declared[0] if declared else None


def _check_smem(executable: Executable, dynamic: int, gpu: arch.Gpu) -> None:
    start = executable.dynamic_shared_base if dynamic else executable.static_shared_end
    static = start - gpu.smem_reserved_bytes_per_cta
    if dynamic < 0:
        raise LaunchError(f"dynamic_smem {dynamic}: it cannot be negative")
    if static + dynamic > gpu.smem_bytes_per_cta:
        raise LaunchError(
            f"the CTA needs {static} bytes of static and {dynamic} of dynamic shared memory, "
            f"{static + dynamic} in all; "
            f"{gpu.smem_bytes_per_cta} (227 KiB) are the limit of {gpu.title}\n  hint: fewer stages "
            "or a smaller tile"
        )


_SCHEDULES = ("eager", "lazy", "seeded")
_OBSERVABLE = ("tmem", "roles")


def _options(
    gpu: str,
    numerics: str,
    engine: str,
    schedule: str,
    seed: int | None,
    sms: int | None,
    max_instructions: int,
    switches: Mapping[str, Any],
) -> Options:
    if numerics not in ("exact", "fast"):
        raise LaunchError(f"numerics='{numerics}': choose 'exact' or 'fast'")
    if engine not in ("auto", "interpreter"):
        raise UnsupportedError(f"engine='{engine}': only the interpreter exists yet")
    if schedule == "timed":
        raise UnsupportedError("schedule='timed': the clock does not exist yet; use eager, lazy or a seed")
    if schedule not in _SCHEDULES:
        raise LaunchError(f"schedule='{schedule}': choose one of {', '.join(_SCHEDULES)}")
    if seed is not None and schedule == "eager":
        schedule = "seeded"
    if sms is not None and sms < 1:
        raise LaunchError(f"sms={sms}: at least one SM is needed")
    if max_instructions < 1:
        raise LaunchError(f"max_instructions={max_instructions}: at least one is needed")
    chosen: Any = schedule
    arithmetic: Any = numerics
    return Options(
        gpu=gpu,
        schedule=chosen,
        seed=seed or 0,
        sms=sms,
        numerics=arithmetic,
        max_instructions=max_instructions,
        **known_switches(switches),
    )


_NOT_SWITCHES = ("gpu", "schedule", "seed", "sms", "numerics", "max_instructions")


def known_switches(switches: Mapping[str, Any]) -> dict[str, Any]:
    """Return the switches; LaunchError for a name or a value that Options does not have."""
    kinds = {name: kind for name, kind in get_type_hints(Options).items() if name not in _NOT_SWITCHES}
    for name, value in switches.items():
        if name not in kinds:
            raise LaunchError(f"there is no switch '{name}'\n  hint: the switches are {', '.join(kinds)}")
        values = get_args(kinds[name]) or (False, True)
        if value not in values:
            raise LaunchError(f"switch {name}={value!r}\n  hint: choose one of {', '.join(map(str, values))}")
    return dict(switches)


def launch(
    kernel: Kernel,
    *,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] | None = None,
    dynamic_smem: int = 0,
    args: Sequence[Any] = (),
    gpu: str = "b200",
    check: str = "off",
    numerics: str = "exact",
    engine: str = "auto",
    schedule: str = "eager",
    observe: Sequence[str] = (),
    max_instructions: int = 10**9,
    seed: int | None = None,
    sms: int | None = None,
    executor: Any = None,
    switches: Mapping[str, Any] | None = None,
    names: Mapping[int, str] | None = None,
    trace: Trace | None = None,
    declared: Sequence[Declared] = (),
) -> Result:
    """Run a kernel on the modelled GPU; arrays in `args` are read and written in place.

    `args` holds one value per parameter: NumPy arrays, CPU torch tensors or DLPack objects for pointers,
    numbers, `tensor_map(...)`, `packed(...)`, None for a null pointer. `seed` asks for the seeded schedule.
    `switches` sets the hardware questions of DEVIATIONS.md by name. `names` gives arrays (by `id`) their
    names in messages. A `trace` logs the run step by step, for `why`; `declared` is what the
    checker holds Tensor Memory against.

    Raises LaunchError (bad arguments), UnsupportedError, KernelFault, DeadlockError, BudgetError; what had
    happened is in `error.result`, and the caller's arrays hold what the kernel had written.
    """
    if executor is not None:
        raise UnsupportedError("executors do not exist yet")
    for what in observe:
        if what not in _OBSERVABLE:
            raise UnsupportedError(f"observe='{what}': only {', '.join(_OBSERVABLE)} can be observed yet")
    options = _options(
        gpu, numerics, engine, schedule, seed, sms, max_instructions, dict(switches or {})
    )
    machine = arch.load(gpu)
    executable = link(kernel.module.program, kernel.name)
    grid_dims = _dims("grid", grid)
    for value, most, axis in zip(
        grid_dims, (machine.max_grid_x, machine.max_grid_y, machine.max_grid_z), "xyz", strict=True
    ):
        if value > most:
            raise LaunchError(f"grid {grid_dims}: {value} along {axis}, {most} is the limit")
    block_dims = _block(executable, block, machine)
    cluster_dims = _cluster(executable, cluster, grid_dims, machine)
    _check_smem(executable, dynamic_smem, machine)
    gmem = GlobalMemory()
    placement = Placement(gmem, _volume(grid_dims), dict(names or {}), arrays_of(args))
    try:
        params = build_params(executable.params, args, placement, executable.param_bytes)
        addresses = place_globals(executable, gmem)
    except MemoryError as error:
        raise _too_large(error) from None
    tmem_map = TmemMap() if "tmem" in observe else None
    checker = make_checker(level_of(check), gmem, smem_symbols(executable), grid_dims, declared)
    roles = make_roles(smem_symbols(executable), grid_dims) if "roles" in observe else None
    observers: tuple[Observer, ...] = tuple(o for o in (tmem_map, checker, roles) if o is not None)
    explicit = cluster is not None or "reqnctapercluster" in executable.entry.directives
    shape = Launch(
        grid_dims,
        block_dims,
        cluster_dims,
        params,
        dynamic_smem,
        _max_registers(executable, block_dims, machine),
        explicit,
    )
    try:
        outcome = run(executable, shape, gmem, addresses, machine, options, observers, trace)
    except MemoryError as error:
        raise _too_large(error) from None
    finally:
        gmem.write_back()
    result = _conclude(outcome, tmem_map, checker, roles)
    placement.refuse_lost_writes()
    return result


def _too_large(error: MemoryError) -> LaunchError:
    hint = "shrink the variables of the module, the arrays or the grid"
    return LaunchError(f"the launch does not fit into the memory of this machine: {error}\n  hint: {hint}")


_VERDICTS: dict[type[DrywellError], Verdict] = {
    KernelFault: "fault",
    DeadlockError: "deadlock",
    BudgetError: "budget",
    UnsupportedError: "unsupported",
    LaunchError: "bad_input",
}


def _finding(error: DrywellError) -> tuple[Finding, ...]:
    if isinstance(error, KernelFault):
        return (
            Finding(
                error.rule,
                Severity.ERROR,
                error.detail,
                error.span,
                error.cta,
                error.warp,
                error.lanes,
                hint=error.hint,
            ),
        )
    if isinstance(error, DeadlockError):
        rule = error.report.partition("[")[2].partition("]")[0]  # the report begins with error[RULE]
        return (Finding(rule, Severity.ERROR, error.report, NOWHERE),)
    return ()


def _remarks(outcome: Outcome) -> tuple[Finding, ...]:
    """Return what a run that came to its end has to say."""
    grid = outcome.grid
    said = tuple(replace(finding, count=count) for finding, count in grid.remarks.items())
    return (*said, *numerics_findings(grid.unsettled, grid.options))


def _conclude(
    outcome: Outcome, tmem_map: TmemMap | None, checker: Checker | None, roles: Roles | None
) -> Result:
    error = outcome.error
    hazards = () if checker is None else checker.finish()
    verdict: Verdict = "unchecked" if checker is None else "clean"
    if any(finding.severity is Severity.ERROR for finding in hazards):
        verdict = "findings"
    if error is not None:
        verdict = next((v for kind, v in _VERDICTS.items() if isinstance(error, kind)), "fault")
    executed = sum(sum(warp.units.values()) for warp in outcome.activity)
    printed = "".join(outcome.grid.printed)
    options = outcome.grid.options
    findings = (*hazards, *(_remarks(outcome) if error is None else _finding(error)))
    is_approximate = options.numerics == "fast"
    seen = () if roles is None else roles.roles(), () if roles is None else roles.handovers()
    result = Result(verdict, findings, executed, printed, outcome.activity, tmem_map, is_approximate, *seen)
    if error is not None:
        error.result = result
        raise error
    return result
