"""The CUDA driver API through ctypes: what a measurement needs of it and no more.

Source: CUDA driver API reference 13.0 (cuda.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LIBRARIES = ("libcuda.so.1", "libcuda.so")
_LOG_BYTES = 1 << 14

_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES = 5, 6
_MAX_DYNAMIC_SHARED_BYTES, _NON_PORTABLE_CLUSTERS = 8, 14
_SHARED_BYTES = 1
_CLUSTER_DIMENSION = 4
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76

NOT_OURS = frozenset({"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_NOT_INITIALIZED"})
"""Errors that say something about the machine, not about an experiment."""


class CudaError(RuntimeError):
    """A call that failed; `code` is the driver's name for it, `log` what its compiler said."""

    def __init__(self, call: str, code: str, log: str = "") -> None:
        super().__init__(f"{call}: {code}{': ' + log if log else ''}")
        self.code = code
        self.log = log


class _AttributeValue(ctypes.Union):
    _fields_ = (("cluster", ctypes.c_uint * 3), ("pad", ctypes.c_char * 64))


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _AttributeValue))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("num_attributes", ctypes.c_uint),
    )


def library() -> ctypes.CDLL | None:
    """Return the driver's library, or None where there is none."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@dataclass(frozen=True, slots=True)
class Gpu:
    """Which GPU and driver measured: `target` is what its programs are compiled for."""

    name: str
    driver: str
    cuda: str
    target: str


@dataclass(slots=True)
class Device:
    """The first GPU with a context of its own; every method raises CudaError when the driver refuses."""

    lib: Any = field(init=False)
    handle: ctypes.c_int = field(init=False)

    def __post_init__(self) -> None:
        found = library()
        if found is None:
            raise CudaError("dlopen", f"no {LIBRARIES[0]} on this machine")
        self.lib = found
        self.call("cuInit", 0)
        self.handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.handle), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        """Call one function of the driver."""
        status = getattr(self.lib, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(name, (text.value or str(status).encode()).decode())

    def _attribute(self, which: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, self.handle)
        return value.value

    def gpu(self) -> Gpu:
        """Return what it is."""
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, self.handle)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        major, minor = (self._attribute(a) for a in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR))
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
        return Gpu(name.value.decode(), _driver_release(), cuda, f"sm_{major}{minor}a")

    # ------------------------------------------------------------ programs

    def load(self, ptx: str) -> ctypes.c_void_p:
        """Compile a program and load it; a CudaError carries the compiler's log."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), _LOG_BYTES)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
        except CudaError as error:
            said = " ".join(log.value.decode(errors="replace").split())
            raise CudaError("cuModuleLoadDataEx", error.code, said) from None
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        """Give a program back."""
        self.call("cuModuleUnload", module)

    def launch(
        self,
        module: ctypes.c_void_p,
        entry: str,
        dims: Sequence[tuple[int, int, int]],
        dynamic_smem: int,
        params: Sequence[bytes],
    ) -> None:
        """Run a kernel to its end; `dims` are grid, block, cluster, `params` the bytes of each parameter."""
        grid, block, cluster = dims
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_BYTES, dynamic_smem)
        attributes = (_Attribute * 1)()
        attributes[0].id = _CLUSTER_DIMENSION
        attributes[0].value.cluster = (ctypes.c_uint * 3)(*cluster)
        is_cluster = cluster != (1, 1, 1)
        if cluster[0] * cluster[1] * cluster[2] > 8:
            self.call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTERS, 1)
        config = _Config(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            dynamic_smem,
            None,
            attributes,
            is_cluster,
        )
        held = [_aligned(p) for p in params]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(address for _, address in held))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        self.call("cuCtxSynchronize")

    # ------------------------------------------------------------ memory

    def put(self, data: bytes) -> int:
        """Copy bytes into memory of their own and return the address, aligned to 256 bytes at least."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 16)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def get(self, address: int, num_bytes: int) -> bytes:
        """Copy memory back."""
        out = ctypes.create_string_buffer(max(num_bytes, 1))
        self.call("cuMemcpyDtoH_v2", out, ctypes.c_uint64(address), ctypes.c_size_t(num_bytes))
        return out.raw[:num_bytes]

    def free(self, address: int) -> None:
        """Give memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))


def _aligned(data: bytes, align: int = 64) -> tuple[Any, int]:
    """Return a buffer that holds the bytes and an aligned address inside it where they lie."""
    buffer = ctypes.create_string_buffer(len(data) + align)
    start = ctypes.addressof(buffer)
    address = -(-start // align) * align
    ctypes.memmove(address, data, len(data))
    return buffer, address


def _driver_release() -> str:
    """Return the driver's release from its management library, '' without one."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(96)
    if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, 96):
        return ""
    return text.value.decode()
