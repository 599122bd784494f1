"""A driver for probe.py whose GPU is Drywell, with switches as one likes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from drywell.base.errors import BudgetError, DeadlockError, DrywellError
from drywell.examples.probe import script
from drywell.host.arrays import host_array
from drywell.host.launch import launch, load
from drywell.host.question import tensor_map_of
from drywell.host.tensor_maps import TensorMapArgument
from drywell.machine.tensor_map import decode, encode


class DryDriver:
    """What `script.ask` needs of `script.Driver`; memory is arrays by their address."""

    def __init__(self, switches: dict[str, Any] | None = None) -> None:
        self.switches = switches or {}
        self.arrays: dict[int, Any] = {}

    def load(self, text: str) -> Any:
        try:
            return load(text)
        except DrywellError as error:
            name = "CUDA_ERROR_INVALID_PTX"
            raise script.CudaError("cuModuleLoadDataEx", name, 218, str(error)) from None

    def upload(self, data: bytes) -> Any:
        address = 0x7000_0000_0000 + 0x100_0000 * len(self.arrays)
        self.arrays[address] = np.frombuffer(bytearray(data), np.uint32)
        return ctypes.c_uint64(address)

    def download(self, address: Any, size: int) -> bytes:
        return self.arrays[address.value].tobytes()[:size]

    def encode(self, fields: dict[str, Any], address: int) -> bytes:
        try:
            return encode(tensor_map_of(fields, address))
        except DrywellError:
            raise script.CudaError("cuTensorMapEncodeTiled", "CUDA_ERROR_INVALID_VALUE", 1) from None

    def launch(self, module: Any, question: dict[str, Any], values: list[Any]) -> None:
        cluster = tuple(question["cluster"])
        try:
            launch(
                module["k"],
                grid=question["grid"],
                block=question["block"],
                cluster=cluster if cluster != (1, 1, 1) else None,
                dynamic_smem=question["smem_bytes"],
                args=[self.argument(value) for value in values],
                check="off",
                max_instructions=300_000,
                switches=self.switches,
            )
        except (DeadlockError, BudgetError):
            raise TimeoutError("still running") from None
        except DrywellError:
            raise script.CudaError("cuStreamQuery", "CUDA_ERROR_LAUNCH_FAILED", 719) from None

    def argument(self, value: Any) -> Any:
        if isinstance(value, ctypes.c_uint32):
            return value.value
        if isinstance(value, ctypes.c_uint64):
            return self.arrays[value.value]
        tensor = decode(bytes(value))
        return TensorMapArgument(host_array(self.arrays[tensor.global_address]), tensor)
