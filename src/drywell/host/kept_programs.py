"""Programs that were read before, kept in the folder of compiled objects: reading a long text takes five
times as long as taking up what was made of it.

What a text says depends on Drywell's own source, whose digest is in the key; so is the text's name, for
messages.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from drywell.base.object_store import ObjectStore, default_folder
from drywell.base.own_code import is_own_digest, own_digest
from drywell.base.span import Source
from drywell.program.module import Program

LONG = 16_384
"""Characters of a text from which on its program is kept."""


@lru_cache(maxsize=8)
def _store(folder: Path) -> ObjectStore:
    return ObjectStore(folder)


def _place(source: Source) -> tuple[ObjectStore, str] | None:
    """Return where the program of a text is kept and under which key; None when it is not."""
    folder = default_folder()
    if len(source.text) < LONG or folder is None or not own_digest():
        return None
    text = f"program {own_digest()} {source.name}\0{source.text}"
    return _store(folder), sha256(text.encode(errors="surrogatepass")).hexdigest()


def kept_program(source: Source) -> Program | None:
    """Return the program of a text that was read before without remarks."""
    place = _place(source)
    plain = None if place is None else place[0].read(place[1])
    if plain is None:
        return None
    from drywell.program.plain import from_plain

    return from_plain(plain, source)


def keep_program(source: Source, program: Program) -> None:
    """Keep what was read, if nothing was remarked on."""
    place = _place(source)
    if place is not None and not program.diagnostics and is_own_digest():
        from drywell.program.plain import to_plain

        place[0].write(place[1], to_plain(program))
