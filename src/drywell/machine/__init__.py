"""The state of the machine: memories, registers, barriers, CTAs, clusters, SMs, and what is still in
flight.

Plain classes over flat NumPy buffers. This room knows no instruction and no schedule: the semantics in
`isa` act on it, the engine decides when. The contract is docs/design/machine.md.
"""
