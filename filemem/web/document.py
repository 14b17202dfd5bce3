"""Render records as HTML pages without script, for the server and for the static site.

The fields of a record are escaped as text, except those that `markdown` has rendered to HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
MIN_CONTENTS_LENGTH = 3_000  # shorter pages, in characters, have no table of contents
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

_FACTS = ("topic", "tags", "branch", "confidence", "decided_by", "limitation", "path")
_HEADING_TAG = re.compile(r"(</?h)[1-6]>")
_WIDE_TAG = re.compile("<(pre|table)>")  # made focusable, so that the keyboard can scroll it
_HEADING = re.compile(r"<h([23])>(.*?)</h\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


# Kind of a relation, and whether the other record states it -> title of the list.
_RELATION_TITLES = {
    ("supersedes", False): "Replaces",
    ("builds_on", False): "Builds on",
    ("debates", False): "Debates",
    ("synthesizes", False): "Merges",
    ("builds_on", True): "Built on by",
    ("debates", True): "Debated by",
    ("synthesizes", True): "Merged by",
}


class Book(NamedTuple):
    """What all pages of a memory share: its name, its records, and the addresses of its pages."""

    name: str
    rows: Mapping[str, Answer]  # by id, oldest first, each with its `page`
    before: Mapping[str, str]  # id -> id of the record before it in time
    after: Mapping[str, str]  # id -> id of the record after it in time
    home: str  # the page with the timeline
    log: str  # the page with the list of all records
    head: str  # more tags for the head of each page
    query: str  # parameters of the timeline: which repository it shows

    def format_link(self, record_id: str, root: str) -> str:
        """Format a link to a record; `root` is the way from the page to the top folder."""
        row = self.rows.get(record_id)
        if row is None:  # it was saved after the rows were read
            return escape(record_id)
        address = escape(root + row["page"])
        return f'<a href="{address}" dir="auto">{escape(row["title"])}</a>'


def build_book(
    name: str, rows: Iterable[Answer], home: str, log: str, head: str, query: str = ""
) -> Book:
    """Build a book from rows in the order of time; the other arguments are fields of `Book`."""
    rows_by_id = {row["id"]: row for row in rows}
    ids = list(rows_by_id)
    return Book(
        name=name,
        rows=rows_by_id,
        before=dict(pairwise(reversed(ids))),
        after=dict(pairwise(ids)),
        home=home,
        log=log,
        head=head,
        query=query,
    )


@cache
def _load_template() -> Template:
    return Template((TEMPLATES / "page.html").read_text("utf-8"))


def render_record_page(book: Book, record: Answer, root: str) -> bytes:
    """Render the page of a record; `root` is the way from it to the top folder."""
    title = record["title"]
    sections = [section for section in _list_sections(book, record, root) if section]
    body, contents = _add_contents("\n".join(sections))
    parts = [f'<h1 dir="auto">{escape(title)}</h1>']
    parts += _iter_standing(book, record, root)
    parts += [contents, body]
    neighbours = "".join(_iter_neighbours(book, record, root))
    near = f'<nav aria-label="Neighbours">{neighbours}</nav>'
    return _render_page(book, title, root, main="\n".join(parts), near=near, record_id=record["id"])


def render_log_page(book: Book, root: str) -> bytes:
    """Render the list of all records, newest first, with date, state, author and topic."""
    title = f"{book.name}: all records"
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{len(book.rows):,} records, newest first</p>"]
    newest_first = reversed(list(book.rows.values()))
    for year, rows in groupby(newest_first, _get_year):
        items = [f"<li>{_format_row(book, row, root)}</li>" for row in rows]
        item_lines = "\n".join(items)
        parts.append(f'<h2>{year}</h2>\n<ul class="log">\n{item_lines}\n</ul>')
    return _render_page(book, "All records", root, main="\n".join(parts))


def _get_year(row: Answer) -> str:
    return format_day(row)[:4] or "Without a date"


def format_day(record: Answer) -> str:
    """Format the day of a record; "" if it has none."""
    created = record.get("created")
    if not created:
        return ""
    return format_time(created)[:10]


def _format_row(book: Book, row: Answer, root: str) -> str:
    """Format a line of a list of records: a link, then day, state, outcome, author and topic."""
    outcome = row.get("outcome", "").removeprefix("pending")
    facts = [
        format_day(row),
        _get_state(row),
        outcome,
        row.get("who"),
        row.get("topic"),
    ]
    fact_text = " · ".join([fact for fact in facts if fact])
    link = book.format_link(row["id"], root)
    return f"{link} <small>{escape(fact_text)}</small>"


def _render_page(
    book: Book, title: str, root: str, *, main: str, near: str = "", record_id: str = ""
) -> bytes:
    """Fill the template; the link to the timeline leads to `record_id` there."""
    fragment = f"#id={quote(record_id, safe='')}&{book.query}".rstrip("&")
    page = _load_template().substitute(
        title=escape(title),
        name=escape(book.name),
        root=root,
        home=book.home + escape(fragment),
        log=book.log,
        head=book.head,
        main=main,
        near=near,
    )
    return page.encode("utf-8", "replace")


def _get_state(record: Answer) -> str:
    """Return the state of a decision, or the kind of another record."""
    if record["type"] != DECISION:
        return str(record.get("kind") or record["type"])
    if record.get("forked"):
        return "contested"
    if record.get("live"):
        return "holds"
    if record.get("superseded_by"):
        return "replaced"
    return str(record["status"])


def _iter_standing(book: Book, record: Answer, root: str) -> Iterator[str]:
    """Yield the state of a record, its author and day, and its last outcome."""
    state = _get_state(record)
    successor_ids = record.get("superseded_by", ())
    successors = [book.rows[heir_id] for heir_id in successor_ids if heir_id in book.rows]
    author_and_day = _format_author_and_day(record)
    if state == "replaced" and successors:
        for successor in successors:
            link = book.format_link(successor["id"], root)
            since = _format_author_and_day(successor)
            yield _format_badge(state, f" by {link}, since {since}")
        yield f'<p class="soft">decided {author_and_day}</p>'
    elif state == "contested":
        yield _format_badge(state, f": others on its topic hold too, since {author_and_day}")
    elif record["type"] == DECISION:
        yield _format_badge(state, f", since {author_and_day}")
    else:
        yield _format_badge(state, f", {author_and_day}")
    outcomes = record.get("outcomes")
    if outcomes:
        yield _format_last_outcome(outcomes[-1])


def _format_last_outcome(entry: Answer) -> str:
    details = f" since {format_time(entry['at'])[:10]}"
    if entry["reason"]:
        details += f": {escape(entry['reason'])}"
    return _format_badge(entry["outcome"], details)


def _format_badge(state: str, details: str) -> str:
    name = escape(state)
    return f'<p class="state {name}"><strong>{name}</strong>{details}</p>'


def _format_author_and_day(record: Answer) -> str:
    text = format_day(record) or "a day that is not stated"
    author = record.get("who", "")
    if author:
        text += f", says {author}"
        agent = record.get("agent", "")
        if agent and agent != author:
            text += f" with {agent}"
    return escape(text)


def _list_sections(book: Book, record: Answer, root: str) -> list[str]:
    """List the sections of a page; "" stands for an empty one."""
    sections = _list_own_sections(record)
    outcome_log = record.get("outcomes", ())
    outcomes = [_format_outcome(entry) for entry in outcome_log]
    sections.append(_render_list("What came of it", outcomes))
    sections += _iter_relations(book, record, root)
    chain_ids = record.get("chain", ())
    chain = [book.rows[name] for name in chain_ids if name in book.rows]
    chain_rows = [_format_row(book, row, root) for row in chain]
    sections.append(_render_list("How it was decided, oldest first", chain_rows))
    return sections + _list_code_sections(record)


def _list_code_sections(record: Answer) -> list[str]:
    """List the sections for the code of a record: the paths that it governs, and its commits."""
    governed_paths = record.get("governed", ())
    paths = [escape(governed["path"]) for governed in governed_paths]
    path_items = [f"<code>{path}</code>" for path in paths]
    commits = [_format_commit(commit) for commit in record.get("commits", ())]
    return [
        _render_list("Governs", path_items),
        _render_list("Commits", commits),
    ]


def _list_own_sections(record: Answer) -> list[str]:
    """List the sections for what a record itself states: facts, texts and lists."""
    facts = [_format_fact(name, record[name]) for name in _FACTS if name in record]
    sections = [f"<dl>{''.join(facts)}</dl>"]
    for name, title in _TEXTS.items():
        sections.append(_render_text(record, name, title))
    for name, title in _LISTS.items():
        texts = [escape(text) for text in record.get(name, ())]
        sections.append(_render_list(title, texts))
    return sections


def _render_text(record: Answer, name: str, title: str) -> str:
    """Render a text below a heading; "" if it is empty or only repeats the title of the record."""
    text: str = record.get(name, "")
    text = _HEADING_TAG.sub(r"\g<1>3>", text)
    text = _WIDE_TAG.sub(r'<\1 tabindex="0">', text)
    if not text or text.strip() == f"<p>{escape(record['title'])}</p>":
        return ""
    return f"<h2>{title}</h2>\n{text}"


def _format_fact(name: str, value: object) -> str:
    label = name.replace("_", " ")
    text = str(value)
    if isinstance(value, tuple | list):
        text = ", ".join([str(entry) for entry in value])
    return f"<dt>{label}</dt><dd>{escape(text)}</dd>"


def _format_outcome(entry: Answer) -> str:
    text = f"{format_time(entry['at'])[:10]}: {entry['outcome']}"
    if entry["reason"]:
        text += f": {entry['reason']}"
    return escape(text)


def _format_commit(commit: Answer) -> str:
    day = format_time(commit["when"])[:10]
    return escape(f"{day} {commit['who']}: {commit['subject']} ({commit['id'][:10]})")


def _iter_relations(book: Book, record: Answer, root: str) -> Iterator[str]:
    """Yield a list for each kind of relation to other records."""
    items: dict[str, list[str]] = {title: [] for title in _RELATION_TITLES.values()}
    for edge in record.get("related", ()):
        key = (edge["kind"], edge["in"])
        title = _RELATION_TITLES.get(key)
        if title:
            link = book.format_link(edge["id"], root)
            reason = escape(edge["reason"])
            items[title].append(f"{link} {reason}")
    for title, links in items.items():
        yield _render_list(title, links)


def _render_list(title: str, items: Sequence[str]) -> str:
    """Render a list below a heading; "" if it is empty."""
    if not items:
        return ""
    rows = "\n".join([f"<li>{item}</li>" for item in items])
    return f"<h2>{title}</h2>\n<ul>\n{rows}\n</ul>"


def _add_contents(body: str) -> tuple[str, str]:
    """Add anchors to the headings of a long body; return it, and its table of contents."""
    if len(body) < MIN_CONTENTS_LENGTH:
        return body, ""
    entries: list[str] = []

    def add_anchor(match: re.Match[str]) -> str:
        level = match[1]
        heading = match[2]
        anchor = f"s{len(entries) + 1}"
        link = f'<a href="#{anchor}">{_TAG.sub("", heading)}</a>'
        entries.append(f'<li class="level{level}">{link}</li>')
        return f'<h{level} id="{anchor}">{heading}</h{level}>'

    body = _HEADING.sub(add_anchor, body)
    rows = "\n".join(entries)
    return body, f'<nav class="contents" aria-label="Contents"><ul>\n{rows}\n</ul></nav>'


def _iter_neighbours(book: Book, record: Answer, root: str) -> Iterator[str]:
    """Yield links to the records before and after this one, in its chain and in time."""
    chain = record.get("chain", ())
    before_in_chain = dict(pairwise(reversed(chain)))
    after_in_chain = dict(pairwise(chain))
    record_id = record["id"]
    neighbours = {
        "Before it in the chain": before_in_chain.get(record_id),
        "After it in the chain": after_in_chain.get(record_id),
        "Earlier": book.before.get(record_id),
        "Later": book.after.get(record_id),
    }
    for label, other_id in neighbours.items():
        if other_id:
            css_class = label.partition(" ")[0].lower()
            link = book.format_link(other_id, root)
            yield f'<p class="{css_class}">{label}: {link}</p>'
