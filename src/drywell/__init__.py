"""Run unmodified data-center Blackwell kernels (PTX for sm_100a and its kin) on an ordinary CPU.

    module = drywell.load("gemm.ptx")
    result = drywell.launch(module["gemm"], grid=4, block=192, args=[a, b, c, 512])

Everything else is imported when it is first used, so that `import drywell` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from time import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drywell import examples, layout
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
    from drywell.base.span import Source, Span
    from drywell.host.arguments import packed
    from drywell.host.budget import budget
    from drywell.host.launch import launch
    from drywell.host.launch_file import LaunchFile, read_launch_file
    from drywell.host.module import Kernel, Module, load
    from drywell.host.page import page_of
    from drywell.host.prediction import predict_launch
    from drywell.host.result import Result
    from drywell.host.tensor_maps import tensor_map
    from drywell.host.why import why
    from drywell.layout.atoms import (
        accumulator,
        copied,
        fragment,
        scale_factors,
        smem_matrix,
        tmem_operand,
    )
    from drywell.layout.match import check_match
    from drywell.layout.named import parse_layout
    from drywell.observe.provenance import Why
    from drywell.plan.budget import Budget
    from drywell.plan.gemm import Prediction, predict
    from drywell.plan.gemm_config import GemmConfig
    from drywell.plan.hopper import HopperComparison, compare_with_hopper
    from drywell.report.explain import Explanation, explain
    from drywell.report.html_page import page_html
    from drywell.report.pictures import picture

__version__ = "0.1.0"

BEGAN = time()
"""When this process began to import Drywell."""

_HOMES = {
    "load": "host.module",
    "launch": "host.launch",
    "Module": "host.module",
    "Kernel": "host.module",
    "Result": "host.result",
    "tensor_map": "host.tensor_maps",
    "packed": "host.arguments",
    "read_launch_file": "host.launch_file",
    "LaunchFile": "host.launch_file",
    "why": "host.why",
    "Why": "observe.provenance",
    "budget": "host.budget",
    "Budget": "plan.budget",
    "parse_layout": "layout.named",
    "check_match": "layout.match",
    "fragment": "layout.atoms",
    "accumulator": "layout.atoms",
    "tmem_operand": "layout.atoms",
    "scale_factors": "layout.atoms",
    "smem_matrix": "layout.atoms",
    "copied": "layout.atoms",
    "compare_with_hopper": "plan.hopper",
    "HopperComparison": "plan.hopper",
    "predict": "plan.gemm",
    "predict_launch": "host.prediction",
    "Prediction": "plan.gemm",
    "GemmConfig": "plan.gemm_config",
    "explain": "report.explain",
    "picture": "report.pictures",
    "page_of": "host.page",
    "page_html": "report.html_page",
    "Explanation": "report.explain",
    "Diagnostic": "base.diagnostic",
    "Finding": "base.diagnostic",
    "Severity": "base.diagnostic",
    "Source": "base.span",
    "Span": "base.span",
    "DrywellError": "base.errors",
    "PtxError": "base.errors",
    "UnsupportedError": "base.errors",
    "LaunchError": "base.errors",
    "KernelFault": "base.errors",
    "DeadlockError": "base.errors",
    "BudgetError": "base.errors",
}

__all__ = [
    "Budget",
    "BudgetError",
    "DeadlockError",
    "Diagnostic",
    "DrywellError",
    "Explanation",
    "Finding",
    "GemmConfig",
    "HopperComparison",
    "Kernel",
    "KernelFault",
    "LaunchError",
    "LaunchFile",
    "Module",
    "Prediction",
    "PtxError",
    "Result",
    "Severity",
    "Source",
    "Span",
    "UnsupportedError",
    "Why",
    "accumulator",
    "budget",
    "check_match",
    "compare_with_hopper",
    "copied",
    "examples",
    "explain",
    "fragment",
    "launch",
    "layout",
    "load",
    "packed",
    "page_html",
    "page_of",
    "parse_layout",
    "picture",
    "predict",
    "predict_launch",
    "read_launch_file",
    "scale_factors",
    "smem_matrix",
    "tensor_map",
    "tmem_operand",
    "why",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its room at its first use."""
    if name in ("examples", "layout"):
        return import_module(f"drywell.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'drywell' has no attribute '{name}'")
    value = getattr(import_module(f"drywell.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted({*globals(), *__all__})
