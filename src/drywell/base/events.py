"""What happens in a run, as observers see it. Events name places and agents, never opcodes.

The machine builds an event only when somebody listens; with no observer a run pays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from drywell.base.span import Span

Space = Literal["global", "shared", "local", "param", "const", "tmem"]
Proxy = Literal["generic", "async", "tensormap", "tensor"]


@dataclass(frozen=True, slots=True)
class Agent:
    """Who acts: a warp of a CTA, and, for an asynchronous operation, that operation's number (0 for the
    warp itself).
    """

    cta: int
    warp: int
    operation: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of memory. `addresses` are first bytes (or taddr words), each of `size` bytes
    (cells for tmem); `lanes` are who. `peer` is the CTA, by its number in the grid, whose Tensor Memory it
    is when that is not the agent's own (cta_group::2).
    """

    agent: Agent
    space: Space
    addresses: tuple[int, ...]
    size: int
    is_write: bool
    proxy: Proxy
    lanes: tuple[int, ...]
    span: Span
    peer: int | None = None


@dataclass(frozen=True, slots=True)
class TmemAllocated:
    """Columns [column, column + num_cols) of an SM's TMEM were given to (or, when `is_free`, back by) a
    CTA.
    """

    agent: Agent
    sm: int
    column: int
    num_cols: int
    is_free: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Issued:
    """An asynchronous operation was issued; `unit` is tma, tensor, tmem_ld, tmem_st, bulk or cp_async."""

    agent: Agent
    unit: str
    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class Performed:
    """An asynchronous operation took effect (its last stage ran)."""

    agent: Agent
    unit: str
    what: str
    span: Span


@dataclass(frozen=True, slots=True)
class BarrierChanged:
    """An mbarrier moved: `address` is the shared-window address; pending and tx are after the change;
    `phase` counts completed phases.
    """

    agent: Agent
    address: int
    what: str
    amount: int
    pending: int
    tx_bytes: int
    phase: int
    span: Span


Event = Access | TmemAllocated | Issued | Performed | BarrierChanged


class Observer(Protocol):
    """Anything that wants to be told."""

    def on(self, event: Event) -> None:
        """Take note of one event."""
