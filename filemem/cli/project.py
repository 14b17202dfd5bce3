"""The project that a command works on, and how it prints."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from filemem import config
from filemem.cli import console
from filemem.cli.text import Answer, plain, styled
from filemem.dialects.tool import envelope
from filemem.errors import BadInput, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.org.client import Service

_MANY = 200  # records whose indexing shows a bar


class Project:
    """What a command works on: the folder of `-C` and the store of `--store`.

    Or, with `--personal`, the user's own memory.
    """

    def __init__(self, folder: str, store: str | None = None, *, personal: bool = False) -> None:
        """Raises BadInput if there is no such folder; "" is the current one."""
        try:
            # Now, as a server must not look elsewhere once the folder is gone.
            self.here = console.here() / folder
        except FileNotFoundError:
            raise BadInput("the current folder was deleted", "go to a folder that exists") from None
        if not self.here.is_dir():
            raise BadInput(f"-C {folder}: no such folder")
        self.stated = bool(folder)
        self.store = store
        self.personal = personal
        self.prepare: Callable[[Memory], object] | None = None
        """What is done with the memory as soon as it is open."""
        self.service: Service | None = None
        """An organisation's service that is asked too."""

    @property
    def folder(self) -> Path:
        """The folder of the memory. Raises NotFound for a personal memory that does not exist
        yet."""
        folder = config.personal_folder() if self.personal else self.here
        if self.personal and not (folder / ".git").exists():
            raise NotFound(
                f"nothing is saved yet in your personal memory, {folder}",
                "`filemem --personal save decision ...` begins it",
            )
        return folder

    def named(self, name: str, work_tree: Path) -> str:
        """An existing file, glob or PATH:LINE as a path from the top of the tree; else the name."""
        fixed = re.sub(r"/[^/]*[*?\[].*|[:#].*", "", name, flags=re.DOTALL)
        if not (fixed and any(os.path.lexists(self.folder / path) for path in (name, fixed))):
            return name
        parent, last = os.path.split(os.path.normpath(self.folder.resolve() / name))
        path = Path(os.path.relpath(Path(os.path.realpath(parent), last), work_tree)).as_posix()
        outside = path.startswith("../")
        return name if outside and os.path.isabs(name) else path  # noqa: PTH117

    def page_of(self, name: str) -> tuple[str, list[str]]:
        """The id of a record, and where pages show it as a document now."""
        with self.memory() as memory:
            record_id = memory.id_of(name)
            pages = memory.status().get("pages", [])
            return record_id, [document_at(page, record_id) for page in pages]

    @contextmanager
    def memory(self, *, look: bool = True) -> Iterator[Memory]:
        """Open the memory of this project, and close it at the end; `look` is that of
        `Memory.open`.

        A server does the commands of its clients on the memory that it has open.
        """
        client = console.CLIENT.get()
        if client:
            yield client.memory
            return
        from filemem.memory import Memory

        progress = bar("indexing")
        with Memory.open(self.folder, store=self.store, progress=progress, look=look) as memory:
            if self.prepare:
                self.prepare(memory)
            yield memory


def document_at(page: str, record_id: str) -> str:
    """Where a page shows a record as a document; `page` is the address of its timeline."""
    address, _, token = page.partition("?")
    return f"{address}/read?id={quote(record_id, safe='')}{'&' if token else ''}{token}"


def bar(work: str) -> Callable[[int, int], None]:
    """Return a function that shows the progress of some work on many records on a terminal."""
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if total >= _MANY and sys.stderr.isatty():
            rate = max(done, 1) / max(time.monotonic() - began, 0.001)
            left = f"{rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
            end = "\n" if done >= total else ""
            sys.stderr.write(f"\r{work} {done:,} of {total:,} records, {left}\x1b[K{end}")

    return show


def emit(answer: Answer, as_json: bool, shape: Callable[[Answer], str] = str) -> None:
    """Print an answer as JSON, or as text by `shape`."""
    text = json.dumps(answer, ensure_ascii=False, indent=2) if as_json else shape(plain(answer))
    console.out().write(f"{text}\n")
    console.out().flush()


def fail(error: FilememError, *, as_json: bool) -> None:
    """Report an error on stderr; with `as_json` also as MCP's object on stdout."""
    if as_json:
        emit(envelope(error), as_json=True)
    err = console.err()
    label = styled("error: ", "bold", "red", stream=err)
    err.write(f"{label}{plain(error.message, 'message')}\n")
    if error.hint:
        label = styled("hint: ", "yellow", stream=err)
        err.write(f"{label}{plain(error.hint, 'hint')}\n")
