"""What mem-claude's tools do. Ids are numbers made from record ids; every read asks first who may see a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filemem.dialects import present
from filemem.dialects.mem_claude import KINDS
from filemem.dialects.reading import (
    NOBODY,
    NOWHERE,
    Answer,
    Arguments,
    Reader,
    asides,
    content,
    find,
    in_words,
    page,
    similarity,
)
from filemem.dialects.reading import search as look
from filemem.errors import BadInput, NotFound
from filemem.memory.arguments import lines
from filemem.query import Results, affects_match, fold
from filemem.record import CHECKPOINT, DECISION, OBSERVATION, Record, format_time, number, parse_time

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

PROJECT = "manual"
_ALL = 1_000_000  # more than a store has
_TYPES = {"sessions": (CHECKPOINT,), "observations": (OBSERVATION, DECISION)}
_PROMPTS = "prompts are never kept: what was typed is the user's own; observations and sessions are what is kept"
_TABLE = (
    "Read: tokens of the whole text, which get_observations returns. Without format: table, scores and record ids too."
)
_SAVED = ("title", "text", "facts", "concepts", "files_read", "files_modified")
_READABLE = {
    "private": "agent {agent}, and whoever uses this clone; the file is never committed",
    "department": "agents of department {department}; whoever has the repository can open the file",
    "project": "agents on project {project} or on none in particular; whoever has the repository can open the file",
    "public": "every agent; whoever has the repository can open the file",
}


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save an observation; the answer says who can read it."""
    given = {name: value for name, value in arguments.items() if value not in ("", None, [])}
    fields: dict[str, Any] = {name: given[name] for name in _SAVED if name in given}
    fields |= {
        "kind": given.get("type", "discovery"),
        "project": given.get("project", PROJECT),
        "session": given.get("memory_session_id") or memory.new_session("mcp"),
        "agent": given.get("agent") or memory.agent or NOBODY,
        "department": given.get("department", NOWHERE),
        "visibility": given.get("visibility", "project"),
    }
    with in_words(session="memory_session_id"):
        saved = memory.save(type=OBSERVATION, allow_secret=given.get("allow_secret"), **fields)
    waits = {name: value for name in ("pending", "degraded") if (value := getattr(saved, name))}
    return {
        "success": True,
        "id": number(saved.id),
        "memory_session_id": fields["session"],
        "created_at_epoch": saved.created,
        "readable_by": _READABLE[fields["visibility"]].format(**fields),
        "record": saved.id,
        **waits,
    }


def search(memory: Memory, arguments: Arguments) -> Answer | str:
    """Find what was observed: short rows, to be followed by `timeline` or `get_observations`."""
    reader, wanted = _reader(memory, arguments), _wanted(arguments)
    query, limit, offset = arguments.get("query", ""), arguments.get("limit", 20), arguments.get("offset", 0)
    kind, order = arguments.get("type", ""), arguments.get("orderBy", "")
    how: dict[str, Any] = {"since": arguments.get("dateStart") or None, "until": arguments.get("dateEnd") or None}
    only = _TYPES["observations"] if kind in KINDS else _TYPES.get(kind)
    how |= {"type": only} if only else {}

    enough = _ALL if order == "date_asc" and not query else limit + offset  # a listing begins with the newest
    if kind == "prompts":
        found = Results((), note=_PROMPTS)
    else:
        with in_words(since="dateStart", until="dateEnd"):
            found = look(memory, query, reader.may_see, enough, passes=lambda hit: _passes(hit.record, wanted), **how)
        found = page(replace(found, hits=tuple(_ordered(found.hits, order))), offset, limit)
    if arguments.get("format") == "table":
        return _table(found, query)
    return {
        "observations": [_row(hit, query) for hit in found if not _session(hit)],
        "sessions": [_row(hit, query) for hit in found if _session(hit)],
        "prompts": [],
        "totalResults": len(found),
        "query": query,
        **asides(found),
    }


def timeline(memory: Memory, arguments: Arguments) -> Answer:
    """Tell what was observed before and after an id, a time, or the best hit of a query; oldest first."""
    reader, query, anchor = _reader(memory, arguments), arguments.get("query", ""), arguments.get("anchor", "")
    if bool(query) == (anchor != ""):
        raise BadInput("give either anchor or query", "an id or a time; or words", field="anchor")
    middle: Hit | None = None
    aside: Answer = {}
    if query:
        found = look(memory, query, reader.may_see, 1)
        middle, aside = next(iter(found), None), asides(found)
        if middle is None:
            return {"anchor": None, "count": 0, "observations": [], "note": "nothing found", **aside}
    elif not _moment(anchor):
        middle = _seen(memory, anchor, reader, "anchor")
    before, after = arguments.get("depth_before", 10), arguments.get("depth_after", 10)
    around = memory.timeline(anchor=middle.id if middle else str(anchor), depth_before=100, depth_after=100)
    aside |= present.lacking(memory)
    at = middle.created if middle else parse_time(str(anchor)) or 0
    hits = [hit for hit in around if reader.may_see(hit.record)]
    place = next((n for n, hit in enumerate(hits) if middle and hit.id == middle.id), None)
    cut = place if place is not None else sum(hit.created < at for hit in hits)
    hits = hits[max(0, cut - before) : cut + after + (place is not None)]
    named = number(middle.id) if middle else anchor
    return {"anchor": named, "count": len(hits), "observations": [_row(hit) for hit in hits], **aside}


def get_observations(memory: Memory, arguments: Arguments) -> Answer:
    """Return whole observations; ids that nobody has, or that are not meant for the reader, are named as missing."""
    reader = _reader(memory, arguments)
    hits, missing = [], []
    given = arguments["ids"]
    for one in given if isinstance(given, list) else [given]:
        try:
            hits.append(_seen(memory, one, reader, "ids"))
        except NotFound:
            missing.append(one)
    hits = _ordered(hits, arguments.get("orderBy", ""))[: arguments.get("limit")]
    told = {**({"missing": missing} if missing else {}), **present.lacking(memory)}
    return {"count": len(hits), "observations": [whole(hit) for hit in hits], **told}


def whole(hit: Hit) -> Answer:
    """A whole record in mem-claude's keys."""
    record = hit.record
    decided = record.type == DECISION
    answer: Answer = {
        **_row(hit),
        "subtitle": None,
        "narrative": record.text if decided else content(record).removeprefix(f"{record.title}\n\n"),
        "facts": list(record.facts or record.rejected),
        "concepts": list(record.concepts or record.tags),
        "files_read": list(record.files_read),
        "files_modified": list(record.files_modified or record.affects or record.open_files),
        "memory_session_id": record.session,
        "agent": record.agent,
        "department": record.department or NOWHERE,
        "visibility": record.visibility or "project",
        "path": hit.path,
    }
    more = {
        "topic": record.topic if decided else "",
        "decision": record.decision if decided and record.decision != record.title else "",
        "outcome": record.outcome if decided else "",
        "superseded_by": [number(one) for one in hit.superseded_by],
        "next_steps": record.next_steps,
    }
    return answer | {name: value for name, value in more.items() if value}


def _row(hit: Hit, asked: str = "") -> Answer:
    record = hit.record
    row: Answer = {
        "id": number(record.id),
        "type": {DECISION: "decision", CHECKPOINT: "session"}.get(record.type, record.kind),
        "title": record.title,
        "project": record.project,
        "created_at": format_time(hit.created) if hit.created else "",
        "created_at_epoch": hit.created,
        "read_tokens": (len(content(record)) + len(record.text)) // 4 + 1,  # the usual guess: four letters each
        "record": record.id,
    }
    if hit.score:
        row["score"] = similarity(hit, asked)
    if hit.superseded_by:
        row["superseded_by"] = [number(one) for one in hit.superseded_by]
    return row


def _table(found: Results, query: str) -> str:
    """The index as Markdown; below it what a reader should know of it, and what the table leaves out."""
    rows = [_row(hit) for hit in found]
    head = f'Found {len(rows)} result(s) matching "{query}"' if query else f"The newest {len(rows)} result(s)"
    lines_ = [
        f"| #{row['id']} | {row['created_at'][:16].replace('T', ' ')} | {row['type']} | {_cell(_told(row))} "
        f"| ~{row['read_tokens']} |"
        for row in rows
    ]
    table = [head, "", "| ID | Time | T | Title | Read |", "|---|---|---|---|---|", *lines_] if rows else [head]
    told = [*asides(found).values(), *([_TABLE] if rows else [])]
    return "\n".join([*table, *(f"\n{one}" for one in told)])


def _told(row: Answer) -> str:
    """A title, and what replaced it: what holds no longer must not read as if it did."""
    by = ", ".join(f"#{one}" for one in row.get("superseded_by", ()))
    return f"{row['title']} (superseded by {by})" if by else str(row["title"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _session(hit: Hit) -> bool:
    return hit.record.type == CHECKPOINT


def _reader(memory: Memory, arguments: Arguments) -> Reader:
    return Reader.of(memory, arguments.get("agent", ""), arguments.get("department", ""), arguments.get("project", ""))


def _seen(memory: Memory, reference: Any, reader: Reader, field: str) -> Hit:
    """A record that this reader may see; one that is not for it looks as if it were not there."""
    text = str(reference).strip().lstrip("#")
    named = (
        text[1:] if text[:1] in ("S", "P") and text[1:].isdigit() else text if isinstance(reference, str) else reference
    )
    try:
        hit = find(memory, named, field)
    except NotFound:
        hit = None
    if hit is None or not reader.may_see(hit.record):
        raise NotFound(f"{field}: no observation {reference}", "search shows ids")
    return hit


def _moment(anchor: Any) -> bool:
    """Whether an anchor is a time: a bare number is an id."""
    return isinstance(anchor, str) and not anchor.isdigit() and parse_time(anchor) is not None


def _wanted(arguments: Arguments) -> dict[str, tuple[str, ...]]:
    kinds = arguments.get("obs_type", ()) or (arguments["type"] if arguments.get("type") in KINDS else ())
    files = arguments.get("files") or arguments.get("filePath") or ()
    given = {"kinds": kinds, "concepts": arguments.get("concepts", ()), "files": files}
    return {
        name: tuple(
            fold(part) if name != "files" else part.strip() for one in lines(name, value) for part in one.split(",")
        )
        for name, value in given.items()
    }


def _passes(record: Record, wanted: dict[str, tuple[str, ...]]) -> bool:
    kind = record.kind if record.type == OBSERVATION else record.type
    words = {fold(word) for word in (*record.concepts, *record.tags)}
    touched = (*record.files_read, *record.files_modified, *record.affects, *record.open_files)
    files = wanted["files"]
    return (
        (not wanted["kinds"] or kind in wanted["kinds"])
        and (not wanted["concepts"] or not words.isdisjoint(wanted["concepts"]))
        and (not files or any(affects_match(one, path) for one in files for path in touched))
    )


def _ordered(hits: Iterable[Hit], order: str) -> list[Hit]:
    if order not in ("date_desc", "date_asc"):
        return list(hits)
    return sorted(hits, key=lambda hit: hit.created, reverse=order == "date_desc")
