"""The routes of pages without script: a record as a document, and the list of all records."""

from __future__ import annotations

from urllib.parse import urlencode

from filemem.memory import Memory
from filemem.web import document, viewer
from filemem.web.route import Answer, Arguments, Reply

ROOT = "../"  # the way from /viewer/read and /viewer/log to the top folder
_HEAD = '<script src="../viewer/assets/read.js"></script>'


def answer_record_page(memory: Memory, arguments: Arguments) -> Reply:
    """Show a record as a document. Raises NotFound, or Conflict if the name is ambiguous."""
    record_id = memory.resolve_id(arguments["id"])
    (detail,) = memory.read_details(record_id)
    record = viewer.build_record(memory, detail, nearest=())
    book = _build_book(memory, arguments)
    return _build_page_reply(document.render_record_page(book, record, ROOT))


def answer_log_page(memory: Memory, arguments: Arguments) -> Reply:
    """Show the list of all records, newest first."""
    book = _build_book(memory, arguments)
    return _build_page_reply(document.render_log_page(book, ROOT))


def _build_book(memory: Memory, arguments: Arguments) -> document.Book:
    head, rows = viewer.get_rows(memory)
    repository = arguments.get("repository")
    query = {"repository": repository} if repository else {}
    pages: list[Answer] = []
    for row in rows:
        page = dict(row)
        parameters = {"id": row["id"]} | query
        page["page"] = f"viewer/read?{urlencode(parameters)}"
        pages.append(page)
    query_text = urlencode(query)
    return document.build_book(
        head["name"],
        pages,
        home="viewer",
        log=f"viewer/log?{query_text}".rstrip("?"),
        head=_HEAD,
        query=query_text,
    )


def _build_page_reply(data: bytes) -> Reply:
    return Reply(data, media_type="text/html; charset=utf-8", headers=viewer.SECURITY_HEADERS)
