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
from filemem.cli.text import Answer, escape_value, style_text
from filemem.dialects.tool import build_failure
from filemem.errors import BadInput, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.org.client import Service

_MIN_BAR_RECORDS = 200  # records whose indexing shows a bar


class Project:
    """What a command works on: the folder of `-C` and the store of `--store`.

    Or, with `--personal`, the user's own memory.
    """

    def __init__(self, folder: str, store: str | None = None, *, personal: bool = False) -> None:
        """Raises BadInput if there is no such folder; "" is the current one."""
        try:
            # Now, as a server must not look elsewhere once the folder is gone.
            self.working_folder = console.get_working_folder() / folder
        except FileNotFoundError:
            raise BadInput("the current folder was deleted", "go to a folder that exists") from None
        if not self.working_folder.is_dir():
            raise BadInput(f"-C {folder}: no such folder")
        self.has_stated_folder = bool(folder)
        self.store = store
        self.personal = personal
        self.on_open: Callable[[Memory], object] | None = None
        """What is done with the memory as soon as it is open."""
        self.service: Service | None = None
        """An organisation's service that is asked too."""

    @property
    def folder(self) -> Path:
        """The folder of the memory. Raises NotFound for a personal memory that does not exist
        yet."""
        folder = config.get_personal_folder() if self.personal else self.working_folder
        if self.personal and not (folder / ".git").exists():
            raise NotFound(
                f"nothing is saved yet in your personal memory, {folder}",
                "`filemem --personal save decision ...` begins it",
            )
        return folder

    def resolve_path(self, name: str, work_tree: Path) -> str:
        """An existing file, glob or PATH:LINE as a path from the top of the tree; else the name."""
        fixed_part = re.sub(r"/[^/]*[*?\[].*|[:#].*", "", name, flags=re.DOTALL)
        if not (
            fixed_part and any(os.path.lexists(self.folder / path) for path in (name, fixed_part))
        ):
            return name
        parent, base_name = os.path.split(os.path.normpath(self.folder.resolve() / name))
        path = Path(
            os.path.relpath(Path(os.path.realpath(parent), base_name), work_tree)
        ).as_posix()
        is_outside = path.startswith("../")
        return name if is_outside and os.path.isabs(name) else path  # noqa: PTH117

    def find_pages(self, name: str) -> tuple[str, list[str]]:
        """The id of a record, and where pages show it as a document now."""
        with self.memory() as memory:
            record_id = memory.resolve_id(name)
            pages = memory.status().get("pages", [])
            return record_id, [build_document_url(page, record_id) for page in pages]

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

        progress = build_progress_bar("indexing")
        with Memory.open(
            self.folder, store=self.store, progress=progress, should_update=look
        ) as memory:
            if self.on_open:
                self.on_open(memory)
            yield memory


def build_document_url(page_url: str, record_id: str) -> str:
    """Where a page shows a record as a document; `page` is the address of its timeline."""
    address, _, token = page_url.partition("?")
    return f"{address}/read?id={quote(record_id, safe='')}{'&' if token else ''}{token}"


def build_progress_bar(label: str) -> Callable[[int, int], None]:
    """Return a function that shows the progress of some work on many records on a terminal."""
    start = time.monotonic()

    def show_progress(count: int, total: int) -> None:
        if total >= _MIN_BAR_RECORDS and sys.stderr.isatty():
            rate = max(count, 1) / max(time.monotonic() - start, 0.001)
            progress_note = f"{rate:,.0f} a second, {(total - count) / rate:,.0f} s left"
            end = "\n" if count >= total else ""
            sys.stderr.write(
                f"\r{label} {count:,} of {total:,} records, {progress_note}\x1b[K{end}"
            )

    return show_progress


def print_answer(answer: Answer, as_json: bool, renderer: Callable[[Answer], str] = str) -> None:
    """Print an answer as JSON, or as text by `shape`."""
    text = (
        json.dumps(answer, ensure_ascii=False, indent=2)
        if as_json
        else renderer(escape_value(answer))
    )
    console.get_output().write(f"{text}\n")
    console.get_output().flush()


def report_error(error: FilememError, *, as_json: bool) -> None:
    """Report an error on stderr; with `as_json` also as MCP's object on stdout."""
    if as_json:
        print_answer(build_failure(error), as_json=True)
    error_output = console.get_error_output()
    label = style_text("error: ", "bold", "red", stream=error_output)
    error_output.write(f"{label}{escape_value(error.message, 'message')}\n")
    if error.hint:
        label = style_text("hint: ", "yellow", stream=error_output)
        error_output.write(f"{label}{escape_value(error.hint, 'hint')}\n")
