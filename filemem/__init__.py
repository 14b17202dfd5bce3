"""filemem: Git-backed plain-file memory for coding agents and the people who work with them.

import filemem

memory = filemem.open(".")
memory.save(topic="caching", decision="Use an LRU cache", reasoning="One process, no Redis to run")
memory.search("where do we keep cached values?").hits[0].title
"""

from __future__ import annotations

from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound

TYPE_CHECKING = False  # as of `typing`, which takes half as long as the interpreter
if TYPE_CHECKING:
    from os import PathLike

    from filemem.memory import Memory

__all__ = [
    "VERSION",
    "BadInput",
    "BrokenStore",
    "Conflict",
    "FilememError",
    "Locked",
    "NotFound",
    "open",
]

VERSION = "0.1.0"


def open(  # noqa: A001  the word users expect
    path: str | PathLike[str] = ".", *, store: str | None = None
) -> Memory:
    """Open the memory of the Git work tree that holds a folder.

    Args:
        path: any folder of the work tree.
        store: folder of records inside the work tree; None for the configured one, `memory` by
            default.

    Raises:
        NotFound: there is no repository.
        BadInput: settings or store that cannot be used.
    """
    from pathlib import Path  # noqa: PLC0415

    if not isinstance(path, (str, Path)) and not hasattr(path, "__fspath__"):
        raise BadInput(f"path must name a folder, not {path!r}", field="path")
    # Heavy, and most importers of filemem want one small part of it.
    from filemem.memory import Memory  # noqa: PLC0415

    return Memory.open(Path(path), store=store, is_long_running=True)
