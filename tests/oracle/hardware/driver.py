"""Run experiments on a real GPU: one after another in a process, many processes side by side.

A fault ends a CUDA context for good, and a kernel that hangs can only be ended from outside. So every
experiment runs in a child process, which is replaced after a fault, and killed when a kernel takes longer
than `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import multiprocessing
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from drywell.base.errors import DrywellError
from oracle.hardware import cuda, maps
from oracle.hardware.experiment import MAP_AT, Experiment, Map, Measured, Out, Scalar

PATIENCE_SECONDS = 10
START_SECONDS = 180  # a context, or a program of many instructions through the driver's compiler

_FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "s8": "b", "s16": "h", "s32": "i", "s64": "q"}
_FORMATS |= {"b8": "B", "b16": "H", "b32": "I", "b64": "Q", "f32": "f", "f64": "d"}


def measure(experiment: Experiment, device: cuda.Device, target: str, launched: Any = None) -> Measured:
    """Run one experiment on a device; `launched()` is called when its program is compiled.

    After a fault the device's context is dead. Raises CudaError when the machine, not the experiment, fails.
    """
    try:
        module = device.load(experiment.text(target))
    except cuda.CudaError as error:
        return _refused(error)
    if launched is not None:
        launched()
    addresses: dict[int, int] = {}
    extra: dict[str, bytes] = {}
    try:
        params = _params(experiment, device, addresses, extra)
    except (cuda.CudaError, DrywellError) as error:
        return _refused(error)
    dims = (experiment.grid, experiment.block, experiment.cluster)
    try:
        device.launch(module, experiment.entry, dims, experiment.dynamic_smem, params)
    except cuda.CudaError as error:
        if error.code in cuda.NOT_OURS or "INVALID_VALUE" in error.code:
            raise
        return Measured("fault", (), error.code, extra)
    outs = tuple(
        _words(device.get(addresses[k], a.before.nbytes), a)
        for k, a in enumerate(experiment.args)
        if isinstance(a, Out)
    )
    for address in addresses.values():
        device.free(address)
    device.unload(module)
    return Measured("done", outs, "", extra)


def _refused(error: Exception) -> Measured:
    if isinstance(error, cuda.CudaError) and error.code in cuda.NOT_OURS:
        raise error
    return Measured("refused", (), str(error))


def _words(data: bytes, out: Out) -> Any:
    return np.frombuffer(data, out.before.dtype).reshape(out.before.shape)


def _params(
    experiment: Experiment, device: cuda.Device, addresses: dict[int, int], extra: dict[str, bytes]
) -> list[bytes]:
    """Place the arrays and return the bytes of each parameter; `extra` gets the maps' bytes for MAP_AT."""
    for k, a in enumerate(experiment.args):
        if _array(a) is not None:
            addresses[k] = device.put(_array(a).tobytes())
    out = []
    for k, a in enumerate(experiment.args):
        if isinstance(a, Scalar):
            out.append(struct.pack("<" + _FORMATS[a.type], a.value))
        elif isinstance(a, Map):
            over = k if a.over is None else a.over
            tensor = maps.described_map(_array(experiment.args[over]), a.how)
            out.append(maps.encoded(device, tensor, addresses[over]))
            extra[f"map{k}"] = maps.encoded(device, tensor, MAP_AT)
        else:
            out.append(struct.pack("<Q", addresses[k]))
    return out


def _array(argument: Any) -> Any:
    """Return what an argument puts into memory, None for one that puts nothing there."""
    held = argument.before if isinstance(argument, Out) else getattr(argument, "words", None)
    return None if held is None else np.ascontiguousarray(held)


# ---------------------------------------------------------------- child processes


def _child(pipe: Connection) -> None:
    """Measure what comes through a pipe; end after a fault."""
    device = cuda.Device()
    gpu = device.gpu()
    pipe.send(gpu)
    while True:
        experiment = pipe.recv()
        if experiment is None:
            return
        try:
            found = measure(experiment, device, gpu.target, lambda: pipe.send("launched"))
        except Exception as error:
            pipe.send(error)
            return
        pipe.send(found)
        if found.ended == "fault":
            return


class _Runner:
    """One child at a time, started when it is needed."""

    def __init__(self) -> None:
        self.child: Any = None
        self.pipe: Any = None
        self.gpu: cuda.Gpu | None = None

    def start(self) -> None:
        """Start a child when there is none."""
        if self.child is not None:
            return
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.child = context.Process(target=_child, args=(other,), daemon=True)
        self.child.start()
        other.close()
        self.gpu = self._receive(START_SECONDS)
        if self.gpu is None:
            self.stop()
            raise cuda.CudaError("cuInit", "the GPU could not be opened in a process of its own")

    def stop(self) -> None:
        """End the child, whatever it does."""
        if self.child is not None:
            self.child.kill()
            self.child.join()
            self.pipe.close()
            self.child = None

    def _receive(self, seconds: float) -> Any:
        """Return the next message, None when none comes in time or the child is gone."""
        try:
            return self.pipe.recv() if self.pipe.poll(seconds) else None
        except EOFError:
            return None

    def measure(self, experiment: Experiment) -> Measured:
        """Measure one experiment in the child."""
        self.start()
        self.pipe.send(experiment)
        found = self._receive(START_SECONDS)
        if isinstance(found, str):
            found = self._receive(PATIENCE_SECONDS)
            if found is None and self.child.is_alive():
                self.stop()
                return Measured("hang", (), f"killed after {PATIENCE_SECONDS} s")
        if not isinstance(found, Measured):
            self.stop()
            raise RuntimeError(f"{experiment.name}: {found or 'its process ended without a word'}")
        if found.ended == "fault":
            self.stop()
        return found


def measure_all(
    experiments: Sequence[Experiment], processes: int, report: Callable[[str], None]
) -> tuple[cuda.Gpu, dict[str, Measured]]:
    """Measure many experiments in so many processes; `report` gets a line about each that is not done."""
    found: dict[str, Measured] = {}
    runners = [_Runner() for _ in range(min(processes, len(experiments)))]

    def work(k: int) -> None:
        for experiment in experiments[k :: len(runners)]:
            try:
                found[experiment.name] = got = runners[k].measure(experiment)
            except (RuntimeError, OSError) as error:
                report(f"LOST {experiment.name}: {error}")
                continue
            if got.ended != experiment.ends:
                report(f"{got.ended.upper()} {experiment.name}: {got.why}")

    with ThreadPoolExecutor(len(runners)) as pool:
        list(pool.map(work, range(len(runners))))
    gpu = next((r.gpu for r in runners if r.gpu is not None), None)
    for runner in runners:
        runner.stop()
    if gpu is None:
        raise cuda.CudaError("measure_all", "no GPU could be opened")
    return gpu, {e.name: found[e.name] for e in experiments if e.name in found}
