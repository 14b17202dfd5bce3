"""Pages to read: one record as a document, and the list of all records."""

from __future__ import annotations

from urllib.parse import urlencode

from filemem.memory import Memory
from filemem.web import document, viewer
from filemem.web.route import Arguments, Reply

ROOT = "../"  # from /viewer/read and /viewer/log
_HEAD = '<script src="../viewer/assets/read.js"></script>'


def answer_record_page(memory: Memory, arguments: Arguments) -> Reply:
    """One record as a document. Raises NotFound, Conflict: what its name means."""
    (detail,) = memory.read_details(memory.resolve_id(arguments["id"]))
    full_record = viewer.build_record(memory, detail, ())
    return _build_page_reply(
        document.render_record_page(_build_book(memory, arguments), full_record, ROOT)
    )


def answer_log_page(memory: Memory, arguments: Arguments) -> Reply:
    """The list of all records, newest first."""
    return _build_page_reply(document.render_log_page(_build_book(memory, arguments), ROOT))


def _build_book(memory: Memory, arguments: Arguments) -> document.Book:
    head, rows = viewer.get_rows(memory)
    query = {name: arguments[name] for name in ("repository",) if arguments.get(name)}
    pages = (
        {**row, "page": f"viewer/read?{urlencode({'id': row['id'], **query})}"} for row in rows
    )
    log_path = f"viewer/log?{urlencode(query)}".rstrip("?")
    return document.build_book(head["name"], pages, "viewer", log_path, _HEAD, urlencode(query))


def _build_page_reply(data: bytes) -> Reply:
    return Reply(data, media_type="text/html; charset=utf-8", headers=viewer.SECURITY_HEADERS)
