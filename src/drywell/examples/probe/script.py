#!/usr/bin/env python3
"""Ask a Blackwell GPU what no public document says about it. Written by `drywell probe`.

    python3 probe.py                 asks everything (a few minutes) and writes probe.json
    python3 probe.py --list          names the questions
    python3 probe.py --only T3 M1    asks some of them
    python3 probe.py --selftest      tries the script itself, and what an older GPU (sm_90) can be asked

Each question is a PTX program of one small launch, which stands in full below. The script needs Python 3.8
and the NVIDIA driver (libcuda), nothing else. It runs each question in a process of its own, with a time
limit: some programs are meant to find out whether the GPU stops them, and a stopped program takes its
process along, nothing more. It changes no setting of the GPU, writes no file but its output, and sends
nothing anywhere.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import os
import subprocess
import sys
import time
import zlib
from typing import Any

FORMAT = 1
MADE_BY = "drywell"
QUESTIONS: list[Any] = []
SELFTEST: list[Any] = []
# the questions are put here

TARGETS = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a"}
START_SECONDS = 90  # for starting the driver and compiling, beside a question's own limit
NOT_READY = 600  # what cuStreamQuery says of a kernel that still runs

ELEMENT_TYPES = {
    "u8": (0, 8),
    "u16": (1, 16),
    "u32": (2, 32),
    "s32": (3, 32),
    "u64": (4, 64),
    "s64": (5, 64),
    "f16": (6, 16),
    "f32": (7, 32),
    "f64": (8, 64),
    "bf16": (9, 16),
    "f32.ftz": (10, 32),
    "tf32": (11, 32),
    "tf32.ftz": (12, 32),
    "b4x16": (13, 4),
    "b4x16_p64": (14, 4),
    "b6x16_p32": (15, 6),
}
"""Name to the number of CUtensorMapDataType and the bits of an element."""
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
SWIZZLES = {
    "none": 0,
    "32B": 1,
    "64B": 2,
    "128B": 3,
    "128B_ATOM_32B": 4,
    "128B_ATOM_32B_FLIP_8B": 5,
    "128B_ATOM_64B": 6,
}
L2_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS = {"zero": 0, "nan": 1}
ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_SMS = 75, 76, 16
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6
FUNCTION_DYNAMIC_SMEM = 8
MAP_ADDRESS = 0x7F0012345600  # stands in a tensor map that is only looked at


class CudaError(Exception):
    """A call of the driver that failed: its name, the error's name and number."""

    def __init__(self, call: str, name: str, code: int, log: str = "") -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.call, self.name, self.code, self.log = call, name, code, log


class Driver:
    """The few calls of the CUDA driver API that the questions need."""

    def __init__(self) -> None:
        for name in ("libcuda.so.1", "libcuda.so", "nvcuda.dll"):
            try:
                self.library = ctypes.CDLL(name)
                return
            except OSError:
                continue
        raise SystemExit("no NVIDIA driver found (libcuda.so.1): run this on the machine with the GPU")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; CudaError when it does not return 0."""
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(name, (text.value or b"unknown error").decode(), code)

    def start(self, index: int) -> Any:
        """Initialise the driver and return the handle of a device."""
        device = ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), index)
        return device

    def attribute(self, device: Any, which: int) -> int:
        """Return an attribute of a device."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def describe(self, device: Any) -> dict[str, Any]:
        """Return what identifies the kind of GPU and driver; no serial number is among it."""
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "gpu": name.value.decode(errors="replace"),
            "capability": [self.attribute(device, a) for a in (ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR)],
            "sms": self.attribute(device, ATTRIBUTE_SMS),
            "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "driver": kernel_driver(),
        }

    def use(self, device: Any) -> None:
        """Make the device's primary context current."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def load(self, text: str) -> Any:
        """Compile PTX; CudaError carries the compiler's own words."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
        keys = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        image = ctypes.c_char_p(text.encode())
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), image, 2, keys, values)
        except CudaError as error:
            error.log = log.value.decode(errors="replace")[:2000]
            raise
        return module

    def upload(self, data: bytes) -> Any:
        """Return the device address of a copy of some bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(len(data), 4)))
        self.call("cuMemcpyHtoD_v2", address, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        return address

    def download(self, address: Any, size: int) -> bytes:
        """Return bytes of device memory."""
        data = ctypes.create_string_buffer(max(size, 1))
        self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
        return data.raw[:size]

    def encode(self, fields: dict[str, Any], address: int) -> bytes:
        """Return the 128 bytes of a tensor map."""
        # the driver wants a place aligned to 64 bytes
        room = ctypes.create_string_buffer(128 + 64)
        place = (ctypes.addressof(room) + 63) // 64 * 64
        rank = len(fields["global_dim"])

        def numbers(kind: Any, name: str) -> Any:
            values = fields[name]
            return (kind * max(len(values), 1))(*values)

        kind = ctypes.c_int(ELEMENT_TYPES[fields["elemtype"]][0])
        head: list[Any] = [ctypes.c_void_p(place), kind, ctypes.c_uint32(rank), ctypes.c_void_p(address)]
        head += [numbers(ctypes.c_uint64, "global_dim"), numbers(ctypes.c_uint64, "global_stride")]
        steps = numbers(ctypes.c_uint32, "element_stride")
        tail = [ctypes.c_int(INTERLEAVES[fields.get("interleave_layout", "none")])]
        mode: str = fields.get("mode", "tile")
        middle: list[Any]
        corners: list[Any]
        box = fields["box_dim"]
        if mode == "tile":
            middle = [numbers(ctypes.c_uint32, "box_dim"), steps]
            name = "cuTensorMapEncodeTiled"
        else:
            corners = [numbers(ctypes.c_int, "lower_corner"), numbers(ctypes.c_int, "upper_corner")]
            name = "cuTensorMapEncodeIm2col"
            if mode == "im2col::w":
                corners = [ctypes.c_int(fields[w][0]) for w in ("lower_corner", "upper_corner")]
                name = "cuTensorMapEncodeIm2colWide"
            middle = [*corners, ctypes.c_uint32(box[0]), ctypes.c_uint32(box[1]), steps]
            if mode == "im2col::w":
                tail.append(ctypes.c_int(0))
        tail += [
            ctypes.c_int(SWIZZLES[fields.get("swizzle", "none")]),
            ctypes.c_int(L2_PROMOTIONS[fields.get("l2_promotion", "none")]),
            ctypes.c_int(FILLS[fields.get("fill_mode", "zero")]),
        ]
        if not hasattr(self.library, name):
            raise CudaError(name, "not in this driver", -1)
        self.call(name, *(head + middle + tail))
        return ctypes.string_at(place, 128)

    def launch(self, module: Any, question: dict[str, Any], values: list[Any]) -> None:
        """Run the kernel `k` and wait for it."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        if question["smem_bytes"] > 48 * 1024:
            self.call("cuFuncSetAttribute", function, FUNCTION_DYNAMIC_SMEM, question["smem_bytes"])
        pointers = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(v) for v in values])
        shape = [ctypes.c_uint(n) for n in question["grid"] + question["block"]]
        smem = ctypes.c_uint(question["smem_bytes"])
        self.call("cuLaunchKernel", function, *shape, smem, None, pointers, None)
        self.wait(question["seconds"])

    def wait(self, seconds: float) -> None:
        """Wait for the kernel; TimeoutError when it takes longer."""
        end = time.time() + seconds
        while True:
            try:
                self.call("cuStreamQuery", None)
                self.call("cuCtxSynchronize")
                return
            except CudaError as error:
                if error.code != NOT_READY:
                    raise
            if time.time() > end:
                raise TimeoutError(f"still running after {seconds} s")
            time.sleep(0.001)


def kernel_driver() -> str:
    """Return the version of the kernel driver, '' where it cannot be read."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.readline().split()
        return next((w for w in words if w[:1].isdigit() and w.count(".") >= 1), "")
    except OSError:
        return ""


def pack(data: bytes) -> str:
    """Return bytes as text: zlib, then base64."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def unpack(text: str) -> bytes:
    """Return the bytes that `pack` made text of."""
    return zlib.decompress(base64.b64decode(text))


def program(question: dict[str, Any], target: str) -> str:
    """Return the PTX of a question for the GPU at hand."""
    text = question["ptx"].replace("{target}", target)
    for old in ("8.6", "8.7"):
        if target == "sm_103a":
            text = text.replace(f".version {old}\n", ".version 8.8\n", 1)
    return text


def ask(driver: Any, question: dict[str, Any], target: str) -> dict[str, Any]:
    """Run one question in this process and return its result."""
    values: list[Any] = []
    outputs: list[Any] = []
    words: dict[str, str] = {}
    buffers: dict[int, int] = {}
    refused: dict[str, Any] = {"ended": "refused", "words": {}}
    value: Any
    module = None
    if question["ptx"]:
        try:
            module = driver.load(program(question, target))
        except CudaError as error:
            return dict(refused, why=str(error), log=error.log)
    for position, argument in enumerate(question["args"]):
        try:
            if "buffer" in argument:
                data = unpack(argument["words"])
                value = driver.upload(data)
                buffers[position] = value.value
                if argument["keep"]:
                    outputs.append((argument["buffer"], value, len(data)))
            elif "map_over" in argument:
                data = driver.encode(argument["fields"], buffers[argument["map_over"]])
                value = (ctypes.c_uint64 * 16).from_buffer_copy(data)
            elif "encode" in argument:
                words[argument["encode"]] = pack(driver.encode(argument["fields"], MAP_ADDRESS))
                continue
            else:
                value = ctypes.c_uint32(argument["u32"])
        except CudaError as error:
            return dict(refused, why=str(error))
        values.append(value)
    if module is not None:
        try:
            driver.launch(module, question, values)
        except CudaError as error:
            ended = "refused" if error.call == "cuLaunchKernel" else "fault"
            return {"ended": ended, "why": str(error), "words": {}}
        except TimeoutError as error:
            return {"ended": "hang", "why": str(error), "words": {}}
    for name, address, size in outputs:
        words[name] = pack(driver.download(address, size))
    return {"ended": "done", "why": "", "words": words}


def child(index: int, name: str) -> None:
    """Answer one question on stdout, as JSON."""
    driver = Driver()
    try:
        device = driver.start(index)
        target = target_of(driver.describe(device)) or ""
        driver.use(device)
        question = next(q for q in QUESTIONS + SELFTEST if q["name"] == name)
        result = ask(driver, question, target)
    except CudaError as error:
        result = {"ended": "error", "why": str(error), "words": {}}
    print(json.dumps(result), flush=True)
    os._exit(0)  # a stopped kernel may leave nothing that could be taken down in order


def ask_apart(question: dict[str, Any], index: int) -> dict[str, Any]:
    """Run one question in a process of its own and return its result."""
    command = [sys.executable, os.path.abspath(__file__), "--child", question["name"], "--device", str(index)]
    began = time.time()
    limit = question["seconds"] + START_SECONDS
    quiet = dict(os.environ, CUDA_CACHE_DISABLE="1")  # the driver is to keep nothing of it either
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=quiet)
    try:
        output, errors = process.communicate(timeout=limit)
        result = json.loads(output.decode())
    except subprocess.TimeoutExpired:
        process.kill()
        try:
            process.communicate(timeout=30)
            why = f"stopped after {limit} s"
        except subprocess.TimeoutExpired:
            why = f"could not be stopped after {limit} s"
        result = {"ended": "hang", "why": why, "words": {}}
    except ValueError:
        last = errors.decode(errors="replace").strip().split("\n")[-1][:300]
        result = {
            "ended": "error",
            "why": f"the process ended with {process.returncode}: {last}",
            "words": {},
        }
    result["name"], result["seconds"] = question["name"], round(time.time() - began, 2)
    return result


def target_of(machine: dict[str, Any]) -> str | None:
    """Return the .target of a GPU, None for one that these questions are not about."""
    return TARGETS.get(tuple(machine["capability"]))


def chosen(questions: list[Any], only: list[str] | None) -> list[Any]:
    """Return the questions that --only names: by row (T3) or by name (T17-cp)."""
    if not only:
        return questions
    wanted = {word.strip().lower() for words in only for word in words.split(",")}
    named = [q for q in questions if {q["name"].lower(), q["name"].split("-")[0].lower()} & wanted]
    known = {n for q in named for n in (q["name"].lower(), q["name"].split("-")[0].lower())}
    if wanted - known:
        raise SystemExit(f"no question is called {', '.join(sorted(wanted - known))}: see --list")
    return named


def refusal(machine: dict[str, Any], is_selftest: bool) -> str:
    """Return why a GPU cannot be asked, '' when it can."""
    target = target_of(machine)
    is_blackwell = target in ("sm_100a", "sm_103a")
    if is_blackwell or (is_selftest and target):
        return ""
    what = "{} has compute capability {}.{}".format(machine["gpu"], *machine["capability"])
    need = (
        "--selftest needs 9.0, 10.0 or 10.3"
        if is_selftest
        else "these questions are for 10.0 and 10.3 (B200, B300)"
    )
    return f"{what}; {need}.\nNothing was run. Thank you all the same."


def told(result: dict[str, Any]) -> str:
    """Return how a question ended, in a few words."""
    if result["ended"] == "done":
        num_words = sum(len(unpack(text)) for text in result["words"].values()) // 4
        return f"{num_words} words"
    return "{}: {}".format(result["ended"], result["why"])


def report(results: list[dict[str, Any]]) -> str:
    """Return the summary of a run."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result["ended"]] = counts.get(result["ended"], 0) + 1
    return ", ".join(f"{count} {ended}" for ended, count in sorted(counts.items()))


def save(path: str, document: dict[str, Any]) -> None:
    """Write the document, so that what is there is whole at any time."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def run(questions: list[Any], asking: Any, path: str, machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask the questions one after the other, keeping what is known so far in the file."""
    results: list[Any] = []
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document: dict[str, Any] = {"format": FORMAT, "made_by": MADE_BY, "date": when, "machine": machine}
    document.update(target=target_of(machine), questions=[], results=results)
    print("{gpu}, driver {driver}, CUDA {cuda}".format(**machine), flush=True)
    asked = [question for question in questions if document["target"] in question["targets"]]
    for number, question in enumerate(asked, 1):
        line = f"[{number:3}/{len(asked)}] {question['name']:<14} {question['title'][:60]:<60}"
        print(line, end=" ", flush=True)
        result = asking(question)
        document["questions"].append(question)
        results.append(result)
        print(told(result), flush=True)
        save(path, document)
    return results


def main() -> int:
    """Read the command line and ask."""
    parser = argparse.ArgumentParser(description="Ask a Blackwell GPU what no public document says about it.")
    parser.add_argument("--out", default="probe.json", help="the file to write (default: probe.json)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="ask only these rows or questions")
    parser.add_argument("--device", type=int, default=0, help="which GPU (default: 0)")
    parser.add_argument("--list", action="store_true", help="name the questions and stop")
    parser.add_argument("--selftest", action="store_true", help="try the script; an sm_90 GPU will do")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.device, options.child)
    older = [question for question in QUESTIONS if "sm_90a" in question["targets"]]
    questions = chosen(SELFTEST + older if options.selftest else QUESTIONS, options.only)
    if options.list:
        for question in questions:
            print("{:<14} {}".format(question["name"], question["title"]))
        return 0
    driver = Driver()
    try:
        machine = driver.describe(driver.start(options.device))
    except CudaError as error:
        raise SystemExit(f"the GPU cannot be used: {error}") from None
    why = refusal(machine, options.selftest)
    if why:
        print(why)
        return 2
    results = run(questions, lambda q: ask_apart(q, options.device), options.out, machine)
    print(f"\n{report(results)}. Everything is in {options.out}.")
    print(f"What it means:  drywell probe --read {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
