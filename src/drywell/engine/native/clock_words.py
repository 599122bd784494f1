"""What the native part of the clock knows, as words of 64 bits with names (`clock`).

Times and durations are SM cycles: the bits of doubles that are not negative, which stand in the same order as
the numbers do.
"""

from __future__ import annotations

from drywell.engine.native.turn_words import numbered

CLOCK = numbered(
    "now end planned heap size tracks places registers num_lines drive executed budget quiet look_after"
    " pending has_changed work who latency after memory"
)
"""Of a clock: the time, and when to come back; how many things have been `planned`; the `heap` of `size` that
are due (`DUE`); tables of the addresses of warps (`TRACK`), of places (`PLACE`) and of the numbers of the
registers that these name; how many lines L1 has; what runs compiled code of a warp; the instructions
executed, and how many may be; how many went by without any change of shared state, and after how many Python
looks; how many operations are in flight; whether shared state has changed; how much may be done before
control is given back. `who` is due when Python must go on, of an instruction that it is to execute `latency`
is that of its results; behind a chunk that is over the next instruction issues `after` then. `memory` is
where `MEMORY` lies.
"""

DUE = numbered("at number who")
"""Of something that is due: when, as the how manieth it was planned, and what: the number of a warp, or
`OPERATIONS` plus that of an operation."""

OPERATIONS = 1 << 32

TRACK = numbered(
    "pc runs lanes left next ports sub registers readable num_registers begun settled read landed drained"
    " lines count context result"
)
"""Of a warp: the place of the instruction that it issues next, how that is executed (`runs`), its lanes;
how many instructions compiled code has executed that are still to be issued, and the place behind them; when
the ports of its SM are free (`PORTS`), its sub-partition; its registers, when each can be read, how many
there are; when its block began, all it has issued had its operands, its stores had read theirs, its loads
were back, its stores in L2; the `LINE`s of L1 of its SM; how much it has issued; its context, and what
compiled code gave that could not go on."""

BY_HAND, COMPILED, ONE_CHUNK, NOBODY = range(4)
"""How the instruction of a warp is executed: by Python; in compiled code; so too, but behind the chunk Python
says who goes on; not before Python has looked.
"""

PLACE = numbered(
    "pipe cycles latency blocks hit reads leaps lead yields is_global caches stores lands ends moves block"
    " rewrites guard negated address is_wide offset size"
    " sources num_sources results num_results touched num_touched"
)
"""Of a place: its `timed_costs.Cost`, `pipe` as the first of four ports (-1: none) or `SMEM`, `guard` as
where its predicate lies in the registers of a warp (-1: none) and whether that is `negated`, `address` as
where the register of the address lies there (-1: one address for all lanes), whether that has 64 bits; and
where in the table of registers those begin that it reads, writes, and either of both, and how many.
"""

LINE = numbered("number since sectors")
"""Of a place in L1: the line of global memory that it holds (0: none), since when, and which of its sectors,
one bit each. A line has one place, its number modulo theirs.
"""

MEMORY = numbered(
    "line store_sector store_queue l2 l2_used l2_sector dram dram_used dram_sector far touched num_bytes miss"
    " owed loaded fetched"
)
"""Of global memory: what a line takes of L1, what a sector takes of an SM's way out for stores, how far ahead
of that way these may be issued; when the ports of L2 and of DRAM are free, how long they have been used, what
a sector takes of each; how much later comes what DRAM has; whether each `GRAIN_BYTES` of the `num_bytes` are
`LOADED` or `STORED`; which share of what threads load comes from DRAM (negative: what nobody has touched
before), and the sectors that should have come from there and have not; the bytes loaded, and those of them
that came from DRAM.
"""

SECTOR_BYTES = 32
"""SPEC: L1 and L2 move sectors of 32 bytes. Source: CUDA C++ Best Practices Guide, coalesced access."""

GRAIN_BYTES = 64
"""What DRAM moves at least. MEASURED: an H200 that reads 4 bytes of every 64 moves as many lines a second as
one that reads them whole, half as many sectors as of every 32; of every 128 bytes it moves 64.
"""

LOADED, STORED = 1, 2
"""What has been done to a grain since the launch began; what was stored is to be written to DRAM."""

LINE_BYTES = 128
"""SPEC: the cache line of L1 and L2. Source: CUDA C++ Programming Guide, global memory."""

PIPES = ("fma", "alu", "mufu", "warp", "matrix", "lsu")
"""The pipes of a sub-partition, in the order of their ports behind those of the instruction issue."""

SUB_PARTITIONS = 4
"""SPEC: an SM has four sub-partitions, warp w belongs to w mod 4. Source: CUDA C++ Programming Guide."""

NUM_BANKS, BANK_BYTES = 32, 4
"""SPEC: shared memory has 32 banks of 4 bytes. Source: CUDA C++ Programming Guide, shared memory."""

SMEM = SUB_PARTITIONS * (1 + len(PIPES))
L1 = SMEM + 1
STORES = L1 + 1
PORTS = STORES + 1
"""The ports of shared memory, of L1 and of what is stored from there, and how many an SM has."""

IDLE, PAUSED, ENDED, PERFORM, EXECUTE, CHOOSE, LOOK = range(7)
"""Why the clock returns: nothing is due; to let others have the processor; `end` is reached; an operation is
due; the instruction of a warp has its ports and is to be executed; a chunk is over behind which Python says
who goes on; too much went by without any change.
"""
