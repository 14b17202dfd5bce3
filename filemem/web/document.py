"""Records as documents: pages of HTML for the server and for the static site, which need no script.

What a record says is text here, apart from the HTML that `markdown` made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote

from filemem.record import DECISION, format_time
from filemem.web.route import Answer

TEMPLATES = Path(__file__).parent / "templates"
MIN_CONTENTS_LENGTH = 3_000  # characters of a page from which it has a table of contents
_TEXTS = {
    "decision_html": "Decision",
    "reasoning_html": "Why",
    "text_html": "Text",
    "next_steps_html": "Next steps",
}
_LISTS = {
    "rejected": "Ruled out",
    "facts": "Facts",
    "concepts": "Concepts",
    "files_read": "Files read",
    "files_modified": "Files modified",
    "open_files": "Open files",
}
_EDGES = {  # kind of an edge, and whether it leads here
    ("supersedes", False): "Replaces",
    ("builds_on", False): "Builds on",
    ("debates", False): "Debates",
    ("synthesizes", False): "Merges",
    ("builds_on", True): "Built on by",
    ("debates", True): "Debated by",
    ("synthesizes", True): "Merged by",
}
_FACTS = ("topic", "tags", "branch", "confidence", "decided_by", "limitation", "path")
_HEADING_TAG = re.compile(r"(</?h)[1-6]>")
_WIDE_TAG = re.compile("<(pre|table)>")  # scrolled by keyboard too
_HEADING = re.compile(r"<h([23])>(.*?)</h\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


class Book(NamedTuple):
    """What the pages of a memory share: its name, its records, and where its pages are."""

    name: str
    rows: Mapping[str, Answer]  # by id, oldest first, each with its `page`
    before: Mapping[str, str]  # id -> id of the record before it in time
    after: Mapping[str, str]
    home: str  # the page with the timeline
    log: str  # the page with the list of all records
    head: str  # further tags of the head of each page
    query: str  # what the timeline is told besides: of which repository

    def format_link(self, record_id: str, root: str) -> str:
        """A link to a record, from a page whose way to the first folder is `root`."""
        row = self.rows.get(record_id)
        if row is None:  # saved after the rows were read
            return escape(record_id)
        return f'<a href="{escape(root + row["page"])}" dir="auto">{escape(row["title"])}</a>'


def build_book(
    name: str, rows: Iterable[Answer], home: str, log: str, head: str, query: str = ""
) -> Book:
    """Return a book of these rows, which are in the order of time."""
    known_rows = {row["id"]: row for row in rows}
    ids = list(known_rows)
    before = dict(pairwise(ids[::-1]))
    return Book(name, known_rows, before, dict(pairwise(ids)), home, log, head, query)


@cache
def _load_template() -> Template:
    return Template((TEMPLATES / "page.html").read_text("utf-8"))


def render_record_page(book: Book, record: Answer, root: str) -> bytes:
    """Return the page of a record; `root` leads from it to the first folder."""
    body, contents = _add_contents("\n".join(_iter_body(book, record, root)))
    parts = [f'<h1 dir="auto">{escape(record["title"])}</h1>', *_iter_standing(book, record, root)]
    near = f'<nav aria-label="Neighbours">{"".join(_iter_neighbours(book, record, root))}</nav>'
    return _render_page(
        book, record["title"], root, "\n".join((*parts, contents, body)), near, record
    )


def render_log_page(book: Book, root: str) -> bytes:
    """Return the list of all records, newest first, with date, state, author and topic."""
    title = f"{book.name}: all records"
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{len(book.rows):,} records, newest first</p>"]
    newest_first = list(book.rows.values())[::-1]
    for year, rows in groupby(newest_first, lambda row: format_day(row)[:4] or "Without a date"):
        items = "\n".join(f"<li>{_format_row(book, row, root)}</li>" for row in rows)
        parts.append(f'<h2>{year}</h2>\n<ul class="log">\n{items}\n</ul>')
    return _render_page(book, "All records", root, "\n".join(parts))


def format_day(record: Answer) -> str:
    """Return the day of a record; "" where it has none."""
    return format_time(record["created"])[:10] if record.get("created") else ""


def _format_row(book: Book, row: Answer, root: str) -> str:
    outcome = row.get("outcome", "").removeprefix("pending")
    facts = filter(
        None, (format_day(row), _get_state(row), outcome, row.get("who"), row.get("topic"))
    )
    return f"{book.format_link(row['id'], root)} <small>{escape(' · '.join(facts))}</small>"


def _render_page(
    book: Book, title: str, root: str, main: str, near: str = "", record: Answer | None = None
) -> bytes:
    record_id = quote(record["id"], safe="") if record else ""
    fragment = escape(f"#id={record_id}&{book.query}".rstrip("&"))
    page = _load_template().substitute(
        title=escape(title),
        name=escape(book.name),
        root=root,
        home=book.home + fragment,
        log=book.log,
        head=book.head,
        main=main,
        near=near,
    )
    return page.encode("utf-8", "replace")


def _get_state(record: Answer) -> str:
    """How a record stands, in one word or two."""
    if record["type"] != DECISION:
        return str(record.get("kind") or record["type"])
    if record.get("forked"):
        return "contested"
    if record.get("live"):
        return "holds"
    return "replaced" if record.get("superseded_by") else str(record["status"])


def _iter_standing(book: Book, record: Answer, root: str) -> Iterator[str]:
    """How a record stands, who says so, and since when."""
    state = _get_state(record)
    is_decision = record["type"] == DECISION
    since = "since " if is_decision else ""
    successors = [book.rows[heir] for heir in record.get("superseded_by", ()) if heir in book.rows]
    if state == "replaced" and successors:
        for heir in successors:
            by = f" by {book.format_link(heir['id'], root)}"
            yield _format_badge(state, f"{by}, since {_format_author_and_day(heir)}")
        yield f'<p class="soft">decided {_format_author_and_day(record)}</p>'
    else:
        fork_note = ": others on its topic hold too" if state == "contested" else ""
        yield _format_badge(state, f"{fork_note}, {since}{_format_author_and_day(record)}")
    for last_outcome in record.get("outcomes", ())[-1:]:
        reason = f": {escape(last_outcome['reason'])}" if last_outcome["reason"] else ""
        yield _format_badge(
            last_outcome["outcome"], f"since {format_time(last_outcome['at'])[:10]}{reason}"
        )


def _format_badge(state: str, details: str) -> str:
    space = "" if details.startswith((",", ":", " ")) else " "
    name = escape(state)
    return f'<p class="state {name}"><strong>{name}</strong>{space}{details}</p>'


def _format_author_and_day(record: Answer) -> str:
    who = record.get("who", "")
    agent = record.get("agent", "")
    with_agent = f" with {agent}" if agent and agent != who else ""
    author = f", says {who}{with_agent}" if who else ""
    return escape(f"{format_day(record) or 'a day that is not stated'}{author}")


def _iter_body(book: Book, record: Answer, root: str) -> Iterator[str]:
    """What a record says, and what is known of it."""
    facts = (_format_fact(name, record[name]) for name in _FACTS if name in record)
    yield f"<dl>{''.join(facts)}</dl>"
    for name, title in _TEXTS.items():
        text = _HEADING_TAG.sub(r"\g<1>3>", record.get(name, ""))
        text = _WIDE_TAG.sub(r'<\1 tabindex="0">', text)
        if text and text.strip() != f"<p>{escape(record['title'])}</p>":
            yield f"<h2>{title}</h2>\n{text}"
    for name, title in _LISTS.items():
        yield from _iter_section(title, map(escape, record.get(name, ())))
    yield from _iter_section("What came of it", map(_format_outcome, record.get("outcomes", ())))
    yield from _iter_relations(book, record, root)
    chain = [book.rows[member] for member in record.get("chain", ()) if member in book.rows]
    lines = (_format_row(book, row, root) for row in chain)
    yield from _iter_section("How it was decided, oldest first", lines)
    governed = (f"<code>{escape(place['path'])}</code>" for place in record.get("governed", ()))
    yield from _iter_section("Governs", governed)
    yield from _iter_section(
        "Commits", (_format_commit(commit) for commit in record.get("commits", ()))
    )


def _format_fact(name: str, value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return f"<dt>{name.replace('_', ' ')}</dt><dd>{escape(text)}</dd>"


def _format_outcome(entry: Answer) -> str:
    parts = (format_time(entry["at"])[:10], entry["outcome"], entry["reason"])
    return escape(": ".join(filter(None, parts)))


def _format_commit(commit: Answer) -> str:
    day = format_time(commit["when"])[:10]
    return escape(f"{day} {commit['who']}: {commit['subject']} ({commit['id'][:10]})")


def _iter_relations(book: Book, record: Answer, root: str) -> Iterator[str]:
    edges = record.get("related", ())
    for (kind, is_inward), title in _EDGES.items():
        items = (
            f"{book.format_link(edge['id'], root)} {escape(edge['reason'])}"
            for edge in edges
            if (edge["kind"], edge["in"]) == (kind, is_inward)
        )
        yield from _iter_section(title, items)


def _iter_section(title: str, items: Iterable[str]) -> Iterator[str]:
    rows = "\n".join(f"<li>{item}</li>" for item in items)
    if rows:
        yield f"<h2>{title}</h2>\n<ul>\n{rows}\n</ul>"


def _add_contents(body: str) -> tuple[str, str]:
    """Return a body whose headings can be linked to, and the table of contents of a long one."""
    if len(body) < MIN_CONTENTS_LENGTH:
        return body, ""
    entries: list[str] = []

    def add_anchor(match: re.Match[str]) -> str:
        entries.append(
            f'<li class="level{match[1]}"><a href="#s{len(entries) + 1}">'
            f"{_TAG.sub('', match[2])}</a></li>"
        )
        return f'<h{match[1]} id="s{len(entries)}">{match[2]}</h{match[1]}>'

    body = _HEADING.sub(add_anchor, body)
    rows = "\n".join(entries)
    return body, f'<nav class="contents" aria-label="Contents"><ul>\n{rows}\n</ul></nav>'


def _iter_neighbours(book: Book, record: Answer, root: str) -> Iterator[str]:
    """Links to the records before and after this one, in its chain and in time."""
    chain = record.get("chain") or [""]
    own = record["id"]
    in_chain = dict(pairwise(chain))
    chained_back = dict(pairwise(chain[::-1]))
    places = {
        "Before it in the chain": chained_back.get(own),
        "After it in the chain": in_chain.get(own),
        "Earlier": book.before.get(own),
        "Later": book.after.get(own),
    }
    for word, other in places.items():
        if other:
            name = word.partition(" ")[0].lower()
            yield f'<p class="{name}">{word}: {book.format_link(other, root)}</p>'
