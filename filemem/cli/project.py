"""The project that a command works on; functions that print answers and errors."""

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
    """The memory that a command works on, as `-C`, `--store` or `--personal` name it."""

    def __init__(self, folder: str, store: str | None = None, *, personal: bool = False) -> None:
        """Raises BadInput if `folder` does not exist; "" is the current folder."""
        try:
            # Resolved once: a server must not work elsewhere after its folder was deleted.
            self.working_folder = console.get_working_folder() / folder
        except FileNotFoundError:
            raise BadInput("the current folder was deleted", "go to a folder that exists") from None
        if not self.working_folder.is_dir():
            raise BadInput(f"-C {folder}: no such folder")
        self.has_stated_folder = bool(folder)
        self.store = store
        self.personal = personal
        self.on_open: Callable[[Memory], object] | None = None
        """Called with the memory as soon as it is open."""
        self.service: Service | None = None
        """The organisation's service to ask too."""

    @property
    def folder(self) -> Path:
        """The folder of the memory. Raises NotFound if there is no personal memory yet."""
        if not self.personal:
            return self.working_folder
        folder = config.get_personal_folder()
        if not (folder / ".git").exists():
            raise NotFound(
                f"nothing is saved yet in your personal memory, {folder}",
                "`filemem --personal save decision ...` begins it",
            )
        return folder

    def resolve_path(self, name: str, work_tree: Path) -> str:
        """Return an existing file, glob or PATH:LINE as a path from the top of the work tree.

        A name that matches no file is returned as it is, and so is an absolute path outside.
        """
        if not self._is_existing_path(name):
            return name
        parent, base_name = os.path.split(os.path.normpath(self.folder.resolve() / name))
        real_path = Path(os.path.realpath(parent), base_name)
        path = Path(os.path.relpath(real_path, work_tree)).as_posix()
        is_outside = path.startswith("../")
        if is_outside and os.path.isabs(name):  # noqa: PTH117
            return name
        return path

    def _is_existing_path(self, name: str) -> bool:
        """Return whether a name, or what comes before its glob or line number, is a file."""
        fixed_part = re.sub(r"/[^/]*[*?\[].*|[:#].*", "", name, flags=re.DOTALL)
        if not fixed_part:
            return False
        if os.path.lexists(self.folder / name):
            return True
        return os.path.lexists(self.folder / fixed_part)

    def find_pages(self, name: str) -> tuple[str, list[str]]:
        """Return the id of a record, and its addresses on the pages that are served now."""
        with self.memory() as memory:
            record_id = memory.resolve_id(name)
            pages = memory.status().get("pages", [])
        return record_id, [build_document_url(page, record_id) for page in pages]

    @contextmanager
    def memory(self, *, look: bool = True) -> Iterator[Memory]:
        """Open the memory of this project, and close it at the end.

        Without `look` the index is not updated first. A command that a server runs for a client
        gets the memory that the server has open.
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
    """Build the address of a record as a document, from the address of the page."""
    address, _, token = page_url.partition("?")
    url = f"{address}/read?id={quote(record_id, safe='')}"
    if token:
        url += f"&{token}"
    return url


def build_progress_bar(label: str) -> Callable[[int, int], None]:
    """Return a function that shows on a terminal how far some work on many records is."""
    start = time.monotonic()

    def show_progress(count: int, total: int) -> None:
        if total < _MIN_BAR_RECORDS or not sys.stderr.isatty():
            return
        seconds = max(time.monotonic() - start, 0.001)
        rate = max(count, 1) / seconds
        seconds_left = (total - count) / rate
        progress = f"{count:,} of {total:,} records"
        pace = f"{rate:,.0f} a second, {seconds_left:,.0f} s left"
        end = "\n" if count >= total else ""
        sys.stderr.write(f"\r{label} {progress}, {pace}\x1b[K{end}")

    return show_progress


def print_answer(answer: Answer, as_json: bool, renderer: Callable[[Answer], str] = str) -> None:
    """Print an answer as JSON, or as the text that `renderer` returns."""
    if as_json:
        text = json.dumps(answer, ensure_ascii=False, indent=2)
    else:
        text = renderer(escape_value(answer))
    output = console.get_output()
    output.write(f"{text}\n")
    output.flush()


def print_text(answer: Answer, as_json: bool, text: str) -> None:
    """Print an answer as JSON, or a text that says the same."""
    print_answer(answer, as_json, lambda _: text)


def report_error(error: FilememError, *, as_json: bool) -> None:
    """Report an error on stderr; with `as_json` also as MCP's object on stdout."""
    if as_json:
        print_answer(build_failure(error), as_json=True)
    error_output = console.get_error_output()
    label = style_text("error: ", "bold", "red", stream=error_output)
    message = escape_value(error.message, "message")
    error_output.write(f"{label}{message}\n")
    if error.hint:
        label = style_text("hint: ", "yellow", stream=error_output)
        hint = escape_value(error.hint, "hint")
        error_output.write(f"{label}{hint}\n")
