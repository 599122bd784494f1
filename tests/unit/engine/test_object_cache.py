"""Compiled objects are kept for the next run: whole, of this user alone, whatever happens to the folder."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from drywell.base.last_used import LastUsed
from drywell.base.object_store import ObjectStore, default_folder
from drywell.engine import object_cache
from drywell.engine.object_cache import Target, emit, load_or_compile

KEY = "k" * 64
CONTENT = bytes(range(256)) * 8

TRIPLES = "define i32 @f(i32 %a) {\n  %b = mul i32 %a, 3\n  ret i32 %b\n}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this test's own, and a process that has loaded nothing yet."""
    monkeypatch.setenv("DRYWELL_CACHE", str(tmp_path))
    monkeypatch.setattr(object_cache, "_loaded", LastUsed(object_cache.NUM_KEPT))
    return tmp_path / "objects"


def call(code, name="f", value=14):
    return code.function(name, ctypes.c_int32)(value)


def forget():
    object_cache._loaded.clear()


# ---------------------------------------------------------------- code
def test_what_was_compiled_is_loaded_the_next_time(folder):
    first = load_or_compile(TRIPLES, ("f",))
    forget()
    second = load_or_compile(TRIPLES, ("f",))
    assert (call(first), call(second)) == (42, 42)
    assert (first.is_from_store, second.is_from_store) == (False, True)
    assert len(list(folder.iterdir())) == 1


def test_a_module_is_placed_in_memory_once(folder):
    assert load_or_compile(TRIPLES, ("f",)) is load_or_compile(TRIPLES, ("f",))


def test_every_way_to_compile_has_its_own_object(folder):
    ways = ({}, {"optimise": 2}, {"optimise": 2, "vectorise": True}, {"cpu": "x86-64-v2"}, {"features": ""})
    assert [42] * len(ways) == [call(load_or_compile(TRIPLES, ("f",), **way)) for way in ways]
    assert len(list(folder.iterdir())) == len(ways)


def test_another_version_finds_nothing_of_this_one(folder, monkeypatch):
    load_or_compile(TRIPLES, ("f",))
    forget()
    monkeypatch.setattr(object_cache, "_OWN_VERSION", "0")
    assert not load_or_compile(TRIPLES, ("f",)).is_from_store


@pytest.mark.parametrize("name", ["drywell_test_ten", "drywell.test-10.$", '"drywell test, 10"'])
def test_a_declared_function_is_found_by_its_name_in_each_process(folder, name):
    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    def ten_times(value):
        return 10 * value

    llvm.add_symbol(name.strip('"'), ctypes.cast(ten_times, ctypes.c_void_p).value)
    text = (
        f"declare i32 @{name}(i32)\n"
        f"define i32 @f(i32 %a) {{\n  %b = call i32 @{name}(i32 %a)\n  ret i32 %b\n}}\n"
    )
    assert call(load_or_compile(text, ("f",))) == 140
    forget()
    code = load_or_compile(text, ("f",))
    assert code.is_from_store
    assert call(code) == 140


def test_a_text_that_is_no_ir_is_refused_and_not_kept(folder):
    with pytest.raises(RuntimeError, match="expected"):
        load_or_compile("define i33 f", ("f",))
    assert not folder.exists()


def test_many_modules_one_after_the_other_leave_no_memory_behind(folder, monkeypatch):
    monkeypatch.setattr(object_cache, "_loaded", LastUsed(4))
    image = emit(TRIPLES, Target("", "", 0, False))
    monkeypatch.setattr(object_cache, "emit", lambda text, target: image)

    def load(numbers):
        for number in numbers:
            load_or_compile(f"{TRIPLES}; {number}\n", ("f",))

    load(range(300))
    before = resident_bytes()
    load(range(300, 1000))
    assert resident_bytes() - before < 4 << 20  # 700 modules that stayed would take 25 MB


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---------------------------------------------------------------- damage
def damage_truncated(raw):
    return raw[: len(raw) // 2]


def damage_empty(raw):
    return b""


def damage_bit(raw):
    return raw[:-100] + bytes([raw[-100] ^ 4]) + raw[-99:]


def damage_header(raw):
    return b"X" + raw[1:]


def damage_longer(raw):
    return raw + b"\0"


DAMAGES = [damage_truncated, damage_empty, damage_bit, damage_header, damage_longer]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_compiled_anew_and_replaced(folder, damage):
    load_or_compile(TRIPLES, ("f",))
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    forget()
    code = load_or_compile(TRIPLES, ("f",))
    assert not code.is_from_store
    assert call(code) == 42
    assert entry.read_bytes() == whole


def test_an_entry_under_another_key_is_damaged(tmp_path):
    store = ObjectStore(tmp_path / "objects")
    assert store.write(KEY, CONTENT)
    (store.folder / KEY).rename(store.folder / ("x" * 64))
    assert store.read("x" * 64) is None


# ---------------------------------------------------------------- whose it is
def test_the_folder_and_its_entries_are_closed_to_others(tmp_path):
    before = os.umask(0)
    try:
        store = ObjectStore(tmp_path / "deep" / "objects")
        assert store.write(KEY, CONTENT)
    finally:
        os.umask(before)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert (store.folder / KEY).stat().st_mode & 0o777 == 0o600
    assert store.read(KEY) == CONTENT


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    store = ObjectStore(tmp_path / "objects")
    store.write(KEY, CONTENT)
    store.folder.chmod(0o750)
    assert (store.read(KEY), store.write(KEY, CONTENT)) == (None, False)
    assert "chmod 700" in store.refusal
    store.folder.chmod(0o700)
    assert store.read(KEY) == CONTENT
    assert store.refusal == ""


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    store = ObjectStore(tmp_path / "objects")
    store.write(KEY, CONTENT)
    someone_else = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: someone_else)
    assert (store.read(KEY), store.write("o" * 64, CONTENT)) == (None, False)
    assert "must belong to you" in store.refusal
    assert [entry.name for entry in store.folder.iterdir()] == [KEY]


def test_an_entry_that_leads_elsewhere_is_not_followed(tmp_path):
    store = ObjectStore(tmp_path / "objects")
    store.write(KEY, CONTENT)
    (store.folder / KEY).rename(tmp_path / "elsewhere")
    (store.folder / KEY).symlink_to(tmp_path / "elsewhere")
    assert store.read(KEY) is None


def test_a_read_only_folder_is_read_and_nothing_else(tmp_path, monkeypatch):
    store = ObjectStore(tmp_path / "objects")
    store.write(KEY, CONTENT)
    store.folder.chmod(0o500)
    real = os.open

    def read_only(path, flags, *rest, **named):  # to root as well, whom the mode of a folder does not stop
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", read_only)
    assert store.read(KEY) == CONTENT
    assert not store.write("o" * 64, CONTENT)
    assert [entry.name for entry in store.folder.iterdir()] == [KEY]


def test_a_folder_that_cannot_be_costs_only_time(folder):
    folder.write_text("a file where the folder should be")
    assert call(load_or_compile(TRIPLES, ("f",))) == 42
    assert folder.is_file()


def test_a_full_disk_leaves_no_half_entry(tmp_path, monkeypatch):
    def refuses(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    store = ObjectStore(tmp_path / "objects")
    monkeypatch.setattr(os, "replace", refuses)
    assert not store.write(KEY, CONTENT)
    assert list(store.folder.iterdir()) == []


# ---------------------------------------------------------------- where, and how much
def test_the_environment_says_where_or_not_at_all(folder, monkeypatch):
    monkeypatch.setenv("DRYWELL_CACHE", "off")
    assert default_folder() is None
    assert call(load_or_compile(TRIPLES, ("f",))) == 42
    assert not folder.exists()
    monkeypatch.setenv("DRYWELL_CACHE", "/somewhere")
    assert default_folder() == Path("/somewhere/objects")
    monkeypatch.delenv("DRYWELL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/drywell/objects")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder() == Path("/home/me/.cache/drywell/objects")


def test_what_was_unused_for_longest_goes_first(tmp_path):
    store = ObjectStore(tmp_path / "objects", limit_bytes=40_000)
    for number in range(4):
        store.write(f"{number}", bytes(9_000))
        when = time.time() - 10_000 + number
        os.utime(store.folder / f"{number}", (when, when))
    assert store.read("0") is not None  # used just now
    store.write("4", bytes(9_000))
    assert sorted(entry.name for entry in store.folder.iterdir()) == ["0", "3", "4"]


def test_what_a_killed_process_left_is_swept_after_an_hour(tmp_path):
    store = ObjectStore(tmp_path / "objects")
    store.write(KEY, CONTENT)
    for name, age in ((".old.1", 4_000), (".young.2", 60)):
        (store.folder / name).write_bytes(b"half")
        os.utime(store.folder / name, (time.time() - age,) * 2)
    ObjectStore(store.folder).write(KEY, CONTENT)
    assert sorted(entry.name for entry in store.folder.iterdir()) == [".young.2", KEY]


def test_an_object_larger_than_the_whole_store_is_not_kept(tmp_path):
    assert not ObjectStore(tmp_path / "objects", limit_bytes=100).write(KEY, CONTENT)


# ---------------------------------------------------------------- several processes
WRITER = """
import sys
from pathlib import Path
from drywell.base.object_store import ObjectStore
folder, letter = sys.argv[1:]
store = ObjectStore(Path(folder), limit_bytes=400_000)
for turn in range(300):
    key = f"{turn % 7}"
    found = store.read(key)
    assert found is None or found in (b"a" * 50_000 + key.encode(), b"b" * 50_000 + key.encode())
    assert store.write(key, letter.encode() * 50_000 + key.encode())
"""


def test_two_processes_that_write_the_same_keys_read_whole_entries(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "objects")]
    writers = [subprocess.Popen([*command, letter], stderr=subprocess.PIPE) for letter in "ab"]
    for writer in writers:
        _, said = writer.communicate(timeout=60)
        assert (writer.returncode, said) == (0, b"")
    assert all(not entry.name.startswith(".") for entry in (tmp_path / "objects").iterdir())
