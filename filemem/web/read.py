"""Pages to read: one record as a document, and the list of all records."""

from __future__ import annotations

from urllib.parse import urlencode

from filemem.memory import Memory
from filemem.web import document, viewer
from filemem.web.route import Arguments, Reply

ROOT = "../"  # from /viewer/read and /viewer/log
_HEAD = '<script src="../viewer/assets/read.js"></script>'


def record(memory: Memory, arguments: Arguments) -> Reply:
    """One record as a document. Raises NotFound, Conflict: what its name means."""
    (detail,) = memory.details(memory.id_of(arguments["id"]))
    whole = viewer.whole(memory, detail, ())
    return _page(document.record_page(_book(memory, arguments), whole, ROOT))


def log(memory: Memory, arguments: Arguments) -> Reply:
    """The list of all records, newest first."""
    return _page(document.log_page(_book(memory, arguments), ROOT))


def _book(memory: Memory, arguments: Arguments) -> document.Book:
    head, rows = viewer.rows(memory)
    where = {name: arguments[name] for name in ("repository",) if arguments.get(name)}
    pages = (
        {**row, "page": f"viewer/read?{urlencode({'id': row['id'], **where})}"} for row in rows
    )
    log_at = f"viewer/log?{urlencode(where)}".rstrip("?")
    return document.bound(head["name"], pages, "viewer", log_at, _HEAD, urlencode(where))


def _page(data: bytes) -> Reply:
    return Reply(data, media="text/html; charset=utf-8", headers=viewer.GUARDED)
