"""Pages to read: one record as a document, and the list of all records."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from filemem.memory import Memory
from filemem.web import document, viewer
from filemem.web.route import Answer, Arguments, Told

ROOT = "../"  # from /viewer/read and /viewer/log
_HEAD = '<script src="../viewer/assets/read.js"></script>'


def record(memory: Memory, arguments: Arguments) -> Told:
    """One record as a document. Raises NotFound, Conflict: what its name means."""
    record_id = memory.id_of(arguments["id"])
    seen = viewer.record(memory, {"id": record_id})
    return _page(memory, lambda book: document.record_page(book, seen, ROOT))


def log(memory: Memory, _: Arguments) -> Told:
    """The list of all records, newest first."""
    return _page(memory, lambda book: document.log_page(book, ROOT))


def _page(memory: Memory, write: Callable[[document.Book], bytes]) -> Told:
    head, rows = viewer.rows(memory)
    pages = ({**row, "page": _address(row)} for row in rows)
    book = document.bound(head["name"], pages, home="viewer", log="viewer/log", head=_HEAD)
    return Told(write(book), media="text/html; charset=utf-8", headers=viewer.GUARDED)


def _address(row: Answer) -> str:
    return f"viewer/read?id={quote(row['id'], safe='')}"
