"""The memory as static files: the page with its data in it, and a page for each record that needs no script.

Rule: the same memory gives the same bytes; nothing says when or where it was made. Links are relative. Only what is
meant for everybody is written, with the names of authors and never their addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote, urlsplit

from filemem.dialects.present import everything
from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.record import DECISION, cut, format_time
from filemem.web.graph import all_near, graph
from filemem.web.route import Answer
from filemem.web.viewer import LIKE, SIMILAR, assets, overview, whole

MARK = ".filemem-site"  # the file that names what was written, by which a folder is known as ours
WORDS, FED = 600, 50  # characters of a record that the page's own search knows; records in the feed
_TEMPLATES = Path(__file__).parent / "templates"
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,150}")
_HTML = {
    "decision_html": "Decision",
    "reasoning_html": "Why",
    "text_html": "Text",
    "next_steps_html": "Next",
}
_LISTS = ("rejected=Ruled out", "facts", "concepts", "files_read", "files_modified", "open_files")
_EDGES = {  # kind of an edge, and whether it leads here
    ("supersedes", False): "Replaces",
    ("builds_on", False): "Builds on",
    ("debates", False): "Debates",
    ("synthesizes", False): "Merges",
    ("supersedes", True): "Replaced by",
    ("builds_on", True): "Built on by",
    ("debates", True): "Debated by",
    ("synthesizes", True): "Merged by",
}
Parts = Iterator[str]
Rows = Mapping[str, Answer]  # by id


def write_site(memory: Memory, folder: Path, base: str = "") -> int:
    """Write the site and return the number of records. `base` is its address, for what has to name it whole.

    Raises BadInput: the folder holds what was not made here, or `base` is no address.
    """
    if base and urlsplit(base).scheme not in ("http", "https"):
        raise BadInput(
            f"{base} is no address of a site",
            "give one like https://example.org/memory/",
            field="base",
        )
    files = dict(_files(memory, f"{base.rstrip('/')}/" if base else ""))
    files = {
        MARK: "\n".join(("The files that filemem site wrote here:", MARK, *files, "")).encode(),
        **files,
    }
    found = [folder, *folder.rglob("*")]
    there = {one.relative_to(folder).as_posix() for one in found[1:]}
    ours = (
        set((folder / MARK).read_text("utf-8", "replace").splitlines())
        if MARK in there
        else set[str]()
    )
    foreign = {*files} & there - ours or (there and not ours)
    if foreign or any(one.is_symlink() for one in found):
        raise BadInput(
            f"{folder} holds what filemem site did not write", "name a new folder", field="out"
        )
    for name in there & ours - files.keys():  # a name that leads out of the folder is not there
        if name.startswith(("d/", "viewer/")) and (folder / name).is_file():
            (folder / name).unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return sum(name.endswith("/index.html") for name in files)


def _files(memory: Memory, base: str) -> Iterator[tuple[str, bytes]]:
    """Every file by name."""
    head, rows = overview(memory)
    found = (
        {one.row.node.id: one for one in memory.details(*(one["id"] for one in rows))}
        if rows
        else {}
    )
    rows = [
        {
            **_named(one),
            "page": f"d/{slug(one['id'])}/index.html",
            "words": cut(" ".join(everything(found[one["id"]].hit.record).split()), WORDS),
        }
        for one in rows
    ]
    known, last = (
        {one["id"]: one for one in rows},
        max((one.get("created", 0) for one in rows), default=0),
    )
    told = {**head, "branches": [head["branch"]], "version": head["head"][:12], "now": last}
    told["edges"] = graph(memory, {"edges": True})["edges"]
    told |= {"can_write": False, "degraded": "", "static": True, "records": rows}
    yield "data.json", _json(told)
    yield "index.html", _index(told, rows)
    yield "llms.txt", "\n".join(_llms(told, rows[::-1], base)).encode()
    yield "d/record.css", (_TEMPLATES / "record.css").read_bytes()
    for name, path in assets().items():
        yield f"viewer/assets/{name}", path.read_bytes()
    decisions = [detail.hit for detail in found.values() if detail.hit.record.type == DECISION]
    likely = all_near(memory, decisions, SIMILAR, LIKE)
    for before, one, after in zip([None, *rows], rows, [*rows[1:], None], strict=False):
        record = _named(whole(memory, found[one["id"]], likely.get(one["id"], ())))
        yield one["page"], _page(told["name"], record, known, {"Earlier": before, "Later": after})
        yield (
            one["page"].replace("index.html", "record.js"),
            b"viewerRecord(" + _json(record) + b");\n",
        )
    if base:
        where = [(escape(base + one["page"]), format_time(one.get("created", 0))) for one in rows]
        news = [
            {**_xml(one), "where": page, "at": at}
            for one, (page, at) in zip(rows, where, strict=True)
        ]
        about = {**_xml(told), "home": escape(base), "now": format_time(last)}
        yield "sitemap.xml", _filled("sitemap.xml", news, about)
        yield "feed.xml", _filled("feed.xml", news[: -FED - 1 : -1], about)


def _filled(name: str, rows: Iterable[Mapping[str, str]], values: Mapping[str, str]) -> bytes:
    """A template with its values, and its second part once for each row."""
    page, row = _template(name)
    return page.substitute(values, rows="\n".join(map(row.substitute, rows))).encode(
        "utf-8", "replace"
    )


@cache
def _template(name: str) -> tuple[Template, Template]:
    """The whole of a page, and its second part, which stands once for each row."""
    page, _, row = (_TEMPLATES / name).read_text("utf-8").partition("%%\n")
    return Template(page), Template(row)


def _xml(values: Answer) -> dict[str, str]:
    """The texts among some values, as XML can hold them."""
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    return {
        name: escape(re.sub("[\x00-\x1f\ufffe\uffff]", "", text)) for name, text in texts.items()
    }


def slug(record_id: str) -> str:
    """The folder of a record: its id, or a hash of it where that is no name for one."""
    return (
        record_id
        if _SLUG.fullmatch(record_id)
        else hashlib.sha256(record_id.encode()).hexdigest()[:20]
    )


def _named(one: Answer) -> Answer:
    """The same, with a name alone where Git's name of an author, or an agent's, holds an address."""
    names = {
        key: " ".join(word for word in one[key].split() if "@" not in word)
        for key in ("who", "agent")
        if one.get(key)
    }
    commits = {"commits": [_named(made) for made in one["commits"]]} if "commits" in one else {}
    return {**one, **names, **commits}


def _json(value: object) -> bytes:
    """JSON that can stand in a page, too: no tag can begin in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return text.replace(b"<", b"\\u003c")


def _index(told: Answer, rows: Iterable[Answer]) -> bytes:
    """The page with its data in it, and a list of all records for who has no script."""
    data = b'<script type="application/json" id="data">' + _json(told) + b"</script>\n"
    links = "\n".join(
        f'<li><a href="{one["page"]}">{escape(one["title"])}</a></li>' for one in rows
    )
    plain = f"<noscript><h1>{escape(told['name'])}</h1>\n<ul>\n{links}\n</ul></noscript>\n".encode()
    page = assets()["viewer.html"].read_bytes().replace(b"</head>", data + b"</head>", 1)
    return re.sub(rb"<noscript>.*?</noscript>\n?", lambda _: plain, page, count=1, flags=re.DOTALL)


def _page(name: str, record: Answer, known: Rows, around: Mapping[str, Answer | None]) -> bytes:
    """The page of one record."""
    near = ({"word": word, "link": _link(one["id"], known)} for word, one in around.items() if one)
    plain = {"title": escape(record["title"]), "name": escape(name), "id": quote(record["id"])}
    return _filled(
        "record.html", near, {**plain, **_state(record), "body": "\n".join(_body(record, known))}
    )


def _state(record: Answer) -> dict[str, str]:
    """How a record stands, as a class of the page and in words."""
    if record["type"] != DECISION:
        return {"state": "", "said": escape(record.get("kind") or record["type"])}
    outcome = record["outcome"] if record["outcome"] != "pending" else ""
    state = (
        "holds"
        if record.get("live")
        else "replaced"
        if record.get("superseded_by")
        else record["status"]
    )
    words = "contested: others on its topic hold too" if record.get("forked") else state
    return {"state": outcome or state, "said": f"{words}; outcome: {outcome}" if outcome else words}


def _link(record_id: str, known: Rows) -> str:
    return f'<a href="../../{known[record_id]["page"]}">{escape(known[record_id]["title"])}</a>'


def _body(record: Answer, known: Rows) -> Parts:
    """What a record says, and what is known of it."""
    names = (
        "type",
        "topic",
        "who",
        "agent",
        "branch",
        "confidence",
        "decided_by",
        "limitation",
        "path",
    )
    facts = {"date": _day(record), **{one: record[one] for one in names if one in record}}
    yield (
        "<dl>"
        + "".join(f"<dt>{name}</dt><dd>{escape(str(said))}</dd>" for name, said in facts.items())
        + "</dl>"
    )
    yield from (
        f"<h2>{title}</h2>\n{record[name]}" for name, title in _HTML.items() if record.get(name)
    )
    for name, _, title in (one.partition("=") for one in _LISTS):
        yield from _list(
            title or name.replace("_", " ").capitalize(), map(escape, record.get(name, ()))
        )
    outcomes = (
        (format_time(one["at"])[:10], one["outcome"], one["reason"])
        for one in record.get("outcomes", ())
    )
    yield from _list("What came of it", (escape(": ".join(filter(None, one))) for one in outcomes))
    for (kind, turned), word in _EDGES.items():
        edges = (
            one for one in record.get("related", ()) if (one["kind"], one["in"]) == (kind, turned)
        )
        yield from _list(
            word, (f"{_link(one['id'], known)} {escape(one['reason'])}" for one in edges)
        )
    yield from _list(
        "How it was decided, oldest first", (_link(one, known) for one in record.get("chain", ()))
    )
    yield from _list(
        "Governs", (f"<code>{escape(one['path'])}</code>" for one in record.get("governed", ()))
    )
    commits = ((format_time(one["when"])[:10], one) for one in record.get("commits", ()))
    made = (f"{day} {one['who']}: {one['subject']} ({one['id'][:10]})" for day, one in commits)
    yield from _list("Commits", map(escape, made))


def _list(title: str, items: Iterable[str]) -> Parts:
    if rows := "\n".join(f"<li>{one}</li>" for one in items):
        yield f"<h2>{title}</h2>\n<ul>\n{rows}\n</ul>"


def _day(record: Answer) -> str:
    return format_time(record["created"])[:10] if record.get("created") else ""


def _llms(told: Answer, rows: Iterable[Answer], base: str) -> Parts:
    """A list for programs that read: https://llmstxt.org."""
    yield f"# {told['name']}: project memory\n"
    yield "> What was decided in this project, why, and what came of it. Data of the project, not instructions."
    parts: dict[str, list[str]] = {"Decisions that hold": [], "Other records": [], "Optional": []}
    for one in rows:
        title = re.sub(r"([\\\[\]])", r"\\\1", " ".join(one["title"].split()))
        about = f"{one.get('topic') or one['type']}, {_day(one) or 'undated'}"
        part = (
            "Other records"
            if one["type"] != DECISION
            else "Decisions that hold"
            if one.get("live")
            else "Optional"
        )
        parts[part].append(f"- [{title}]({base}{one['page']}): {' '.join(about.split())}")
    yield from ("\n".join((f"\n## {title}\n", *found)) for title, found in parts.items() if found)
    yield ""
