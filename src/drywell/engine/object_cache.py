"""Machine code from LLVM IR: compiled once per user and machine, and loaded from then on.

An object is kept under the digest of all it follows from: the text, how and for which processor it was
compiled, the versions of LLVM, llvmlite and Drywell. So a text must not hold an address of this process; what
it calls it declares, and `llvmlite.binding.add_symbol` has said where that lies.

To find an object its text must be written. Where that follows from something shorter (the *identity*: a name,
the digest of a program) and Drywell's own source, a *note* under the identity says which object it is, and
what that calls: `keep` and `kept`.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from time import process_time
from typing import Any

import llvmlite
from llvmlite import binding as llvm

from drywell.base.last_used import LastUsed
from drywell.base.object_store import ObjectStore, default_folder
from drywell.base.own_code import is_own_digest, own_digest

NUM_KEPT = 512
"""How many modules stay loaded, those used last, so that a kernel launched again finds its code in memory."""

_PER_LINKER = 128
"""Modules after which a new linker is begun: one keeps some kilobytes of each, until all of them are gone."""

_OWN_VERSION: str = sys.modules["drywell"].__version__  # the package imports its rooms, no room the package

_DECLARED = re.compile(r'^declare\b[^@\n]*@"?(?!llvm\.)([^"(\n]+)"?\(', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Target:
    """How to compile: `optimise` 0 runs no IR passes, 1 to 3 LLVM's pipeline of that level, which
    vectorises only when asked to. `cpu` and `features` are as LLVM names them.
    """

    cpu: str
    features: str
    optimise: int
    vectorise: bool


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A loaded module: where its functions lie, as long as this object lives. `seconds` are the CPU seconds
    it took by phase (`load`; `compile` when it was not found). `key` is that of its object, `calls` are the
    functions that it declares.
    """

    addresses: Mapping[str, int]
    is_from_store: bool
    seconds: Mapping[str, float]
    tracker: Any
    key: str = ""
    calls: tuple[str, ...] = ()

    def function(self, name: str, *arguments: Any, result: Any = ctypes.c_int32) -> Any:
        """Return a function as ctypes calls it, of arguments of these ctypes."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.addresses[name])


def load_or_compile(
    text: str,
    names: Sequence[str],
    optimise: int = 0,
    *,
    vectorise: bool = False,
    cpu: str | None = None,
    features: str | None = None,
) -> Code:
    """Return the code of a module of LLVM IR with its functions `names`, for this processor or for `cpu` with
    `features` (none unless given).

    RuntimeError from LLVM for a text that is not IR, and for a name that it does not define.
    """
    host_cpu, host_features = _host()
    if cpu is None:
        cpu, features = host_cpu, host_features if features is None else features
    target = Target(cpu, features or "", optimise, vectorise)
    key = _key(text, names, target)
    return _loaded.get(key) or _loaded.put(key, _load(key, text, names, target))


def keep(identity: str, code: Code, more: Sequence[Any] = ()) -> None:
    """Note that an identity leads to this code. `more` is plain data for whoever asks for it."""
    folder = default_folder()
    if folder is not None and is_own_digest():
        note = {"object": code.key, "calls": code.calls, "more": list(more)}
        _store(folder).write(_note_key(identity), json.dumps(note).encode())


def kept(identity: str, names: Sequence[str], find: Callable[[str, Sequence[Any]], int]) -> Code | None:
    """Return the code, with its functions `names`, that an identity leads to; None where that is not known.

    `find` gives the address of a function that it calls (0: there is none), from its name and `more`.
    """
    key, folder = _note_key(identity), default_folder()
    code = _loaded.get(key)
    if code is not None or folder is None or not own_digest():
        return code
    store, begun = _store(folder), process_time()
    note = store.read(key)
    if note is None:
        return None
    told = json.loads(note)
    image = store.read(told["object"])
    imports = {name: find(name, told["more"]) for name in told["calls"]}
    if image is None or not all(imports.values()):
        return None
    tracker = _linker.link(key, image, names, imports)
    addresses = {name: int(tracker[name]) for name in names}
    seconds = {"load": process_time() - begun}
    return _loaded.put(key, Code(addresses, True, seconds, tracker, told["object"], tuple(told["calls"])))


def declared_in(text: str) -> tuple[str, ...]:
    """Return the names of the functions that a module declares, intrinsics left out."""
    return tuple(_DECLARED.findall(text))


def emit(text: str, target: Target) -> bytes:
    """Compile a module of LLVM IR to an object file. RuntimeError from LLVM for a text that is not IR."""
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine(target)
    if target.optimise:
        tuning = llvm.create_pipeline_tuning_options(speed_level=target.optimise)
        tuning.loop_vectorization = tuning.slp_vectorization = target.vectorise
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


# -------------------------------------------------------------------- what is kept in this process
_loaded: LastUsed[str, Code] = LastUsed(NUM_KEPT)


class _Linker:
    """Places objects in memory; an LLJIT is replaced after `_PER_LINKER` of them."""

    def __init__(self) -> None:
        self._jit: Any = None
        self._count = 0

    def link(self, key: str, image: bytes, names: Sequence[str], imports: Mapping[str, int]) -> Any:
        """Return what keeps the object's functions in memory and says where they are."""
        if self._count % _PER_LINKER == 0:
            self._jit = llvm.create_lljit_compiler(_machine(Target(*_host(), 0, False)))
        self._count += 1
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, address in imports.items():
            library.import_symbol(name, address)
        for name in names:
            library.export_symbol(name)
        return library.link(self._jit, f"{key}.{self._count}")


_linker = _Linker()


@lru_cache(maxsize=8)
def _store(folder: Any) -> ObjectStore:
    return ObjectStore(folder)


def _load(key: str, text: str, names: Sequence[str], target: Target) -> Code:
    """Place the object of a key in memory, from the store or compiled."""
    begun = process_time()
    seconds = {}
    folder = default_folder()
    image = None if folder is None else _store(folder).read(key)
    is_from_store = image is not None
    if image is None:
        image = emit(text, target)
        seconds["compile"] = process_time() - begun
        if folder is not None:
            _store(folder).write(key, image)
    calls = declared_in(text)
    known = {name: llvm.address_of_symbol(name) for name in calls}
    imports = {name: address for name, address in known.items() if address}
    tracker = _linker.link(key, image, names, imports)
    seconds["load"] = process_time() - begun - seconds.get("compile", 0.0)
    addresses = {name: int(tracker[name]) for name in names}
    return Code(addresses, is_from_store, seconds, tracker, key, calls)


# -------------------------------------------------------------------- LLVM's side
@lru_cache(maxsize=1)
def _host() -> tuple[str, str]:
    """Return this processor and its features, as LLVM names them."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _key(text: str, names: Sequence[str], target: Target) -> str:
    versions = _OWN_VERSION, llvmlite.__version__, llvm.llvm_version_info, llvm.get_process_triple()
    digest = sha256(repr((versions, target, tuple(names))).encode())
    digest.update(text.encode())
    return digest.hexdigest()


def _note_key(identity: str) -> str:
    """Return the key of the note of an identity, for this processor and this source of Drywell."""
    return _key(f"{own_digest()} {identity}", (), Target(*_host(), 0, False))


@lru_cache(maxsize=1)
def _triple() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def _machine(target: Target) -> Any:
    return _triple().create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=target.optimise,
        jit=True,
        codemodel="jitdefault",
    )
