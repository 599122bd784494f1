"""Execute mma."""
from typing import Any
from drywell.isa.tcgen05 import refuse
def multiply(*a: Any, **k: Any) -> Any:
    refuse("x")
