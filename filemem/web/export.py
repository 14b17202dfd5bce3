"""Write a memory as a static site: the page with its data, and a page without script per record.

Rule: the same memory gives the same bytes, so no time or place of writing appears in them. Links
are relative. Only public records are written, with the names of authors but never their addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from filemem.dialects.present import render_record
from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.record import DECISION, format_time, shorten_line
from filemem.web import document
from filemem.web.graph import answer_graph, group_nearest
from filemem.web.route import Answer
from filemem.web.viewer import (
    MAX_SIMILAR,
    SIMILAR_THRESHOLD,
    build_overview,
    build_record,
    find_assets,
)

if TYPE_CHECKING:
    from filemem.memory.overview import Detail

MANIFEST = ".filemem-site"  # the file that lists the files of a site; only a site of ours has it
MAX_WORDS = 600  # characters of a record that the page can search
MAX_FEED = 50  # records in the feed
LOG = "log.html"
ROOT = "../../"  # the way from the page of a record to the top folder
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "img-src 'self' file:; style-src 'self' file:; base-uri 'none'; form-action 'none'\">"
)
_NO_SCRIPT = re.compile(rb"<noscript>.*?</noscript>\n?", re.DOTALL)
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,150}")
_NOT_IN_XML = re.compile("[\x00-\x1f\ufffe\uffff]")


def write_site(memory: Memory, folder: Path, base: str = "") -> int:
    """Write the site and return the number of records.

    `base` is the address of the site; with it, a site map and a feed are written too. Raises
    BadInput if the folder holds other files, or if `base` is not a web address.
    """
    if base:
        base = _validate_base(base)
    pages = dict(_iter_files(memory, base))
    manifest = ["The files that filemem site wrote here:", MANIFEST, *pages, ""]
    files = {MANIFEST: "\n".join(manifest).encode()} | pages
    for name in _list_old_files(folder, files):
        is_page = name.startswith(("d/", "viewer/"))
        if is_page and name not in files and (folder / name).is_file():
            (folder / name).unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len([name for name in files if name.endswith("/index.html")])


def _validate_base(base: str) -> str:
    """Return the address of a site with one slash at its end. Raises BadInput."""
    if urlsplit(base).scheme not in ("http", "https"):
        raise BadInput(
            f"{base} is not the address of a site",
            "give one like https://example.org/memory/",
            field="base",
        )
    return base.rstrip("/") + "/"


def _list_old_files(folder: Path, files: Mapping[str, bytes]) -> set[str]:
    """Return the names of the files that an earlier site wrote in the folder.

    Raises BadInput if the folder has links, or files that are not of a site.
    """
    paths = list(folder.rglob("*"))
    existing_names = {path.relative_to(folder).as_posix() for path in paths}
    manifest_names: set[str] = set()
    if MANIFEST in existing_names:
        manifest = (folder / MANIFEST).read_text("utf-8", "replace")
        manifest_names.update(manifest.splitlines())
    is_foreign = bool(existing_names) and not manifest_names
    unknown_names = existing_names - manifest_names
    overwrites_unknown = not unknown_names.isdisjoint(files)
    has_links = folder.is_symlink() or any(path.is_symlink() for path in paths)
    if is_foreign or overwrites_unknown or has_links:
        raise BadInput(
            f"{folder} holds what filemem site did not write", "name a new folder", field="out"
        )
    return existing_names & manifest_names  # without any name that leads out of the folder


def _iter_files(memory: Memory, base: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every file but the manifest."""
    head, overview_rows = build_overview(memory)
    details = _read_details(memory, overview_rows)
    rows: list[Answer] = []
    for row in overview_rows:
        detail = details[row["id"]]
        rows.append(_build_row(row, detail))
    facts = _build_facts(head, rows)
    graph = answer_graph(memory, {"edges": True})
    facts["edges"] = graph["edges"]
    book = document.build_book(facts["name"], rows, home="index.html", log=LOG, head=_POLICY)
    yield "data.json", _to_json(facts)
    yield "index.html", _render_index(facts)
    yield LOG, document.render_log_page(book, "")
    yield "llms.txt", _render_llms_text(facts, base)
    for name, path in find_assets().items():
        yield f"viewer/assets/{name}", path.read_bytes()
    yield from _iter_record_files(memory, book, details)
    if base:
        yield from _iter_crawler_files(facts, rows, base)


def _read_details(memory: Memory, rows: Iterable[Answer]) -> dict[str, Detail]:
    """Read the records of all rows, by their ids."""
    ids = [row["id"] for row in rows]
    if not ids:
        return {}
    return {detail.row.node.id: detail for detail in memory.read_details(*ids)}


def _build_row(row: Answer, detail: Detail) -> Answer:
    """Build the row of a record for the site: without addresses, with its page and its words."""
    words = render_record(detail.hit.record).split()
    site_row = _strip_addresses(row)
    site_row["page"] = f"d/{build_slug(row['id'])}/index.html"
    site_row["words"] = shorten_line(" ".join(words), MAX_WORDS)
    return site_row


def _iter_record_files(
    memory: Memory, book: document.Book, details: Mapping[str, Detail]
) -> Iterator[tuple[str, bytes]]:
    """Yield for each record its page, and its data as a script for the main page."""
    hits = [detail.hit for detail in details.values()]
    decisions = [hit for hit in hits if hit.record.type == DECISION]
    nearest = group_nearest(memory, decisions, MAX_SIMILAR, SIMILAR_THRESHOLD)
    for record_id, row in book.rows.items():
        similar = nearest.get(record_id, ())
        record = build_record(memory, details[record_id], similar)
        public_record = _strip_addresses(record)
        page_name = row["page"]
        script_name = page_name.replace("index.html", "record.js")
        yield page_name, document.render_record_page(book, public_record, ROOT)
        yield script_name, b"viewerRecord(" + _to_json(public_record) + b");\n"


def _build_facts(head: Answer, rows: list[Answer]) -> Answer:
    """Build the data of the main page: all rows, and facts on the whole memory."""
    dates = [row.get("created", 0) for row in rows]
    return head | {
        "branches": [head["branch"]],
        "version": head["head"][:12],
        "now": max(dates, default=0),
        "can_write": False,
        "degraded": "",
        "static": True,
        "records": rows,
    }


def _iter_crawler_files(
    facts: Answer, rows: list[Answer], base: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the site map and the feed, which give the full address of each page."""
    entries: list[dict[str, str]] = []
    for row in rows:
        entry = _escape_xml(row)
        entry["where"] = escape(base + row["page"])
        entry["at"] = format_time(row.get("created", 0))
        entries.append(entry)
    site_values = _escape_xml(facts)
    site_values["home"] = escape(base)
    site_values["now"] = format_time(facts["now"])
    yield "sitemap.xml", _fill_template("sitemap.xml", entries, site_values)
    newest_first = list(reversed(entries))
    yield "feed.xml", _fill_template("feed.xml", newest_first[:MAX_FEED], site_values)


def _fill_template(
    name: str, rows: Iterable[Mapping[str, str]], values: Mapping[str, str]
) -> bytes:
    """Fill a template with values, and its second part once for each row."""
    template = (document.TEMPLATES / name).read_text("utf-8")
    page_part, _, row_part = template.partition("%%\n")
    row_template = Template(row_part)
    lines = "\n".join([row_template.substitute(row) for row in rows])
    page = Template(page_part).substitute(values, rows=lines)
    return page.encode("utf-8", "replace")


def _escape_xml(values: Answer) -> dict[str, str]:
    """Return the texts among some values, escaped for XML and without forbidden characters."""
    escaped: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            text = _NOT_IN_XML.sub("", value)
            escaped[name] = escape(text)
    return escaped


def build_slug(record_id: str) -> str:
    """Build the name of a record's folder: its id, or a hash if the id cannot be a file name."""
    if _SLUG.fullmatch(record_id):
        return record_id
    return hashlib.sha256(record_id.encode()).hexdigest()[:20]


def _strip_addresses(record: Answer) -> Answer:
    """Copy a record without mail addresses, which Git's name of an author may contain."""
    stripped = dict(record)
    for key in ("who", "agent"):
        if record.get(key):
            words = record[key].split()
            stripped[key] = " ".join([word for word in words if "@" not in word])
    if "commits" in record:
        stripped["commits"] = [_strip_addresses(commit) for commit in record["commits"]]
    return stripped


def _to_json(value: object) -> bytes:
    """Return JSON that can stand in a page: it has no "<", so no tag can begin in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").replace(b"<", b"\\u003c")


def _render_index(facts: Answer) -> bytes:
    """Render the main page with its data; without script it leads to the list of all records."""
    data = b'<script type="application/json" id="data">' + _to_json(facts) + b"</script>\n"
    log_link = f'<noscript><p><a href="{LOG}">All records</a></p></noscript>\n'.encode()
    page = find_assets()["viewer.html"].read_bytes()
    page = page.replace(b"</head>", data + b"</head>", 1)
    return _NO_SCRIPT.sub(lambda _: log_link, page, count=1)


def _render_llms_text(facts: Answer, base: str) -> bytes:
    """Render a list of all pages for programs that read: https://llmstxt.org."""
    sections: dict[str, list[str]] = {
        "Decisions that hold": [],
        "Other records": [],
        "Optional": [],
    }
    for row in reversed(facts["records"]):
        section = "Decisions that hold" if row.get("live") else "Optional"
        if row["type"] != DECISION:
            section = "Other records"
        sections[section].append(_format_llms_item(row, base))
    lines = [
        f"# {facts['name']}: project memory\n",
        "> What was decided in this project, why, and what came of it. Data, not instructions.",
    ]
    for title, items in sections.items():
        if items:
            lines.append(f"\n## {title}\n")
            lines += items
    lines.append("")
    return "\n".join(lines).encode()


def _format_llms_item(row: Answer, base: str) -> str:
    title = " ".join(row["title"].split())
    title = re.sub(r"([\\\[\]])", r"\\\1", title)
    subject = row.get("topic") or row["type"]
    day = document.format_day(row) or "undated"
    about = " ".join(f"{subject}, {day}".split())
    return f"- [{title}]({base}{row['page']}): {about}"
