"""The memory as static files: the page with its data, and a page without script for each record.

Rule: the same memory gives the same bytes; nothing says when or where it was made. Links are
relative. Only what is meant for everybody is written, with the names of authors and never their
addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from string import Template
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

MANIFEST = (
    ".filemem-site"  # the file that names what was written, by which a folder is known as ours
)
MAX_WORDS = 600  # characters of a record that the page's own search knows
MAX_FEED = 50  # records in the feed
LOG = "log.html"
ROOT = "../../"  # from the page of a record
_POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "img-src 'self' file:; style-src 'self' file:; base-uri 'none'; form-action 'none'\">"
)
_NO_SCRIPT = re.compile(rb"<noscript>.*?</noscript>\n?", re.DOTALL)
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,150}")
_NOT_IN_XML = re.compile("[\x00-\x1f\ufffe\uffff]")


def write_site(memory: Memory, folder: Path, base: str = "") -> int:
    """Write the site and return the number of records.

    `base` is its address, for what has to name it whole. Raises BadInput: the folder holds what was
    not made here, or `base` is not an address.
    """
    if base and urlsplit(base).scheme not in ("http", "https"):
        raise BadInput(
            f"{base} is not the address of a site",
            "give one like https://example.org/memory/",
            field="base",
        )
    files = dict(_iter_files(memory, f"{base.rstrip('/')}/" if base else ""))
    manifest_lines = ("The files that filemem site wrote here:", MANIFEST, *files, "")
    files = {MANIFEST: "\n".join(manifest_lines).encode(), **files}
    for name in _list_old_files(folder, files) - files.keys():
        if name.startswith(("d/", "viewer/")) and (folder / name).is_file():
            (folder / name).unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return sum(name.endswith("/index.html") for name in files)


def _list_old_files(folder: Path, files: Mapping[str, bytes]) -> set[str]:
    """Return the files in a folder that an earlier site wrote. Raises BadInput: it is not ours."""
    paths = [folder, *folder.rglob("*")]
    existing_files = {path.relative_to(folder).as_posix() for path in paths[1:]}
    own_files = set[str]()
    if MANIFEST in existing_files:
        own_files.update((folder / MANIFEST).read_text("utf-8", "replace").splitlines())
    foreign_files = files.keys() & existing_files - own_files or (existing_files and not own_files)
    if foreign_files or any(path.is_symlink() for path in paths):
        raise BadInput(
            f"{folder} holds what filemem site did not write", "name a new folder", field="out"
        )
    return existing_files & own_files  # a name that leads out of the folder is not there


def _iter_files(memory: Memory, base: str) -> Iterator[tuple[str, bytes]]:
    """Yield every file: its name and its bytes."""
    head, rows = build_overview(memory)
    details = {}
    if rows:
        read_details = memory.read_details(*(row["id"] for row in rows))
        details = {detail.row.node.id: detail for detail in read_details}
    for row in rows:
        text = " ".join(render_record(details[row["id"]].hit.record).split())
        row |= {
            **_strip_addresses(row),
            "page": f"d/{build_slug(row['id'])}/index.html",
            "words": shorten_line(text, MAX_WORDS),
        }
    facts = _build_facts(head, rows)
    facts["edges"] = answer_graph(memory, {"edges": True})["edges"]
    book = document.build_book(facts["name"], rows, "index.html", LOG, _POLICY)
    yield "data.json", _to_json(facts)
    yield "index.html", _render_index(facts)
    yield LOG, document.render_log_page(book, "")
    yield "llms.txt", "\n".join(_iter_llms_lines(facts, rows[::-1], base)).encode()
    for name, path in find_assets().items():
        yield f"viewer/assets/{name}", path.read_bytes()
    hits = [detail.hit for detail in details.values()]
    decisions = [hit for hit in hits if hit.record.type == DECISION]
    nearest = group_nearest(memory, decisions, MAX_SIMILAR, SIMILAR_THRESHOLD)
    for row in rows:
        record = _strip_addresses(
            build_record(memory, details[row["id"]], nearest.get(row["id"], ()))
        )
        script = row["page"].replace("index.html", "record.js")
        yield row["page"], document.render_record_page(book, record, ROOT)
        yield script, b"viewerRecord(" + _to_json(record) + b");\n"
    if base:
        yield from _iter_crawler_files(facts, rows, base)


def _build_facts(head: Answer, rows: list[Answer]) -> Answer:
    """What the page is told of the whole memory."""
    return {
        **head,
        "branches": [head["branch"]],
        "version": head["head"][:12],
        "now": max((row.get("created", 0) for row in rows), default=0),
        "can_write": False,
        "degraded": "",
        "static": True,
        "records": rows,
    }


def _iter_crawler_files(
    facts: Answer, rows: list[Answer], base: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the map of the site and its feed, which name each page whole."""
    entries = [
        {
            **_escape_xml(row),
            "where": escape(base + row["page"]),
            "at": format_time(row.get("created", 0)),
        }
        for row in rows
    ]
    site_values = {**_escape_xml(facts), "home": escape(base), "now": format_time(facts["now"])}
    yield "sitemap.xml", _render_list("sitemap.xml", entries, site_values)
    yield "feed.xml", _render_list("feed.xml", entries[: -MAX_FEED - 1 : -1], site_values)


def _render_list(name: str, rows: Iterable[Mapping[str, str]], values: Mapping[str, str]) -> bytes:
    """A template with its values, and its second part once for each row."""
    page, _, row = (document.TEMPLATES / name).read_text("utf-8").partition("%%\n")
    lines = "\n".join(map(Template(row).substitute, rows))
    return Template(page).substitute(values, rows=lines).encode("utf-8", "replace")


def _escape_xml(values: Answer) -> dict[str, str]:
    """The texts among some values, as XML can hold them."""
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    return {name: escape(_NOT_IN_XML.sub("", text)) for name, text in texts.items()}


def build_slug(record_id: str) -> str:
    """The folder of a record: its id, or a hash of it where that is no name for one."""
    if _SLUG.fullmatch(record_id):
        return record_id
    return hashlib.sha256(record_id.encode()).hexdigest()[:20]


def _strip_addresses(record: Answer) -> Answer:
    """The same, without the address that Git's name of an author, or an agent's, may hold."""
    stripped = dict(record)
    for key in ("who", "agent"):
        if record.get(key):
            words = record[key].split()
            stripped[key] = " ".join(word for word in words if "@" not in word)
    if "commits" in record:
        stripped["commits"] = [_strip_addresses(commit) for commit in record["commits"]]
    return stripped


def _to_json(value: object) -> bytes:
    """JSON that can stand in a page, too: no tag can begin in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return text.replace(b"<", b"\\u003c")


def _render_index(facts: Answer) -> bytes:
    """The page with its data in it; without script it leads to the list of all records."""
    data = b'<script type="application/json" id="data">' + _to_json(facts) + b"</script>\n"
    plain = f'<noscript><p><a href="{LOG}">All records</a></p></noscript>\n'.encode()
    page = find_assets()["viewer.html"].read_bytes().replace(b"</head>", data + b"</head>", 1)
    return _NO_SCRIPT.sub(lambda _: plain, page, count=1)


def _iter_llms_lines(facts: Answer, rows: Iterable[Answer], base: str) -> Iterator[str]:
    """A list for programs that read: https://llmstxt.org."""
    yield f"# {facts['name']}: project memory\n"
    yield "> What was decided in this project, why, and what came of it. Data, not instructions."
    parts: dict[str, list[str]] = {"Decisions that hold": [], "Other records": [], "Optional": []}
    for row in rows:
        title = re.sub(r"([\\\[\]])", r"\\\1", " ".join(row["title"].split()))
        about = f"{row.get('topic') or row['type']}, {document.format_day(row) or 'undated'}"
        part = "Decisions that hold" if row.get("live") else "Optional"
        if row["type"] != DECISION:
            part = "Other records"
        parts[part].append(f"- [{title}]({base}{row['page']}): {' '.join(about.split())}")
    yield from ("\n".join((f"\n## {title}\n", *lines)) for title, lines in parts.items() if lines)
    yield ""
