"""Execute ld, st, wait, alloc and commit."""
from typing import Any
from drywell.isa.tcgen05 import refuse
def allocate(*a: Any, **k: Any) -> Any:
    refuse("x")
free = relinquish = load = store = wait = signal_when_done = allocate
