"""What the page asks for and does: rows of all records, one whole, a search, a past, a save.

What is not meant for everybody is left out of every answer: a page has no name to give. Texts leave
as they are, or as HTML of `markdown`; the page sets the first as text alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from filemem.dialects import answers, present
from filemem.errors import Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.brief import TOKEN
from filemem.record import DECISION, without_edges
from filemem.record.visibility import EVERYBODY
from filemem.web.graph import Rated, keep_edges
from filemem.web.graph import near as alike
from filemem.web.markdown import html
from filemem.web.route import Answer, Arguments, Reply, revisit

if TYPE_CHECKING:
    from filemem.memory.overview import Detail, Row
    from filemem.query import Hit, Snippet
    from filemem.record import Record

ASSETS = Path(__file__).parent / "assets"
FOUND = 100  # hits of a search
NEAR = 6  # decisions near to a text
SIMILAR = 5  # decisions that are like one
LIKE = 0.4  # from which value on
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_OF_NODE = "id type title created outcome affects tags agent kind branch".split()  # noqa: SIM905
_OF_ROW = "path superseded_by supersedes live forked".split()  # noqa: SIM905
_PARTS = {  # what the page calls it -> kinds of effects
    "added": ("new",),
    "replaced": ("superseded",),
    "changed": ("accepted", "outcome", "revised"),
    "forked": ("forked",),
    "gone": ("removed",),
}
_MEDIA = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_FOLDERS = re.compile(r"(?:^|/)(?:decisions|checkpoints|observations|\d{2,4})(?=/|$)")
GUARDED = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY"}


class _Seen(NamedTuple):
    """The overview of a memory: its state then, what there is to say of it all, and its rows."""

    state: str
    head: Answer
    rows: list[Answer]
    text: bytes  # the rows as JSON


_SEEN: WeakKeyDictionary[Memory, _Seen] = WeakKeyDictionary()  # the last of each memory


def asset(name: str) -> Reply:
    """A file of the page, which is the same for everybody."""
    path = assets().get(name)
    if path is None:
        raise NotFound(f"there is no file {name[:100]!r} of the page", "the page is at /viewer")
    data = path.read_bytes()
    kind = _MEDIA.get(name.rpartition(".")[2], "text/plain")
    headers = GUARDED | revisit(hashlib.sha256(data).hexdigest())
    return Reply(data, media=f"{kind}; charset=utf-8", headers=headers)


def assets() -> dict[str, Path]:
    """The files of the page by name, as it names them."""
    paths = [path for path in sorted(ASSETS.rglob("*")) if path.is_file()]
    return {
        path.relative_to(ASSETS).as_posix(): path for path in paths if path.name != "prelude.js"
    }


def projects(memory: Memory, _: Arguments) -> Answer:
    """The repositories among which a page may switch; none where this one is not registered."""
    trees = memory.workspace().repositories() if memory.workspace else {}
    own = memory.work_tree
    rows = [
        {"key": key, "name": tree.name, "folder": str(tree), "own": tree == own}
        for key, tree in trees.items()
    ]
    return {"projects": rows}


def rows(memory: Memory) -> tuple[Answer, list[Answer]]:
    """What there is to say of the whole memory, and its rows; made anew only after a change."""
    seen = _seen(memory)
    return seen.head, seen.rows


def _seen(memory: Memory) -> _Seen:
    state = memory.keeper.state
    seen = _SEEN.get(memory)
    if seen is None or seen.state != state:
        head, rows = overview(memory)
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
        seen = _SEEN[memory] = _Seen(state, head, rows, text)
    return seen


def data(memory: Memory, arguments: Arguments) -> Reply:
    """A row for every record; made anew only where something has changed."""
    state, head, _, records = _seen(memory)
    head = {
        **head,
        "version": state,
        "can_write": "repository" not in arguments,  # the door has let in who may
        "degraded": memory.lacked,
    }
    mark = hashlib.sha256(json.dumps(head).encode()).hexdigest()
    head["now"] = memory.now()
    body = json.dumps(head, ensure_ascii=False).encode()[:-1] + b', "records": ' + records + b"}"
    return Reply(body, headers=revisit(mark))


def overview(memory: Memory) -> tuple[Answer, list[Answer]]:
    """What there is to say of the whole memory, and its rows."""
    state = memory.keeper.state
    seen = memory.overview()
    keep_edges(memory, state, seen.rows)  # the page asks for them next
    answer = {
        "name": memory.work_tree.name,
        "branch": seen.branch,
        "head": seen.head,
        "branches": list(seen.branches),
    }
    return answer, [row(record) for record in seen.rows]


def row(record: Row) -> Answer:
    """A record in a row; what is empty is left out."""
    node = record.node
    values: Answer = {name: getattr(node, name) for name in _OF_NODE}
    values |= {name: getattr(record, name) for name in _OF_ROW}
    values["area"] = area(node.path, node.tags)
    values["topic"] = node.topic if node.stated else ""
    values["status"] = node.status if node.type == DECISION else ""
    values["who"] = record.who or node.agent
    return {name: value for name, value in values.items() if value}


def area(path: str, tags: Iterable[str]) -> str:
    """To what a record belongs: the folder that people filed it in, else its first tag, else ""."""
    folder = _FOLDERS.sub("", path.rpartition("/")[0]).strip("/").partition("/")[0]
    return folder or next(iter(tags), "")


def record(memory: Memory, arguments: Arguments) -> Answer:
    """One record whole, as it is or as it was at a commit."""
    seen: Any = memory.at(arguments["at"]) if arguments.get("at") else memory
    (detail,) = seen.details(arguments["id"])
    hit = detail.hit
    near = alike(seen, hit, SIMILAR, LIKE) if hit.record.type == DECISION else ()
    return whole(seen, detail, near)


def whole(memory: Memory, detail: Detail, likely: Iterable[Rated]) -> Answer:
    """All that the page shows of a record; `likely`: decisions near to it, the likest first."""
    hit = detail.hit
    edited = detail.version != detail.committed and memory.edited(hit)
    notes = answers.hit(hit, whole=True, edited=edited)
    values = {
        "version": detail.version,
        "note": notes.get("note"),
        "evidence": notes.get("evidence"),
        **_fields(hit.record),
        **_texts(hit.record),
        "outcomes": [outcome._asdict() for outcome in hit.record.outcomes],
        "chain": [node.id for node in detail.chain[:-1] and detail.chain],
        "related": [
            {
                "kind": kind,
                "id": other.id,
                "title": other.title,
                "reason": without_edges(reason),
                "in": inwards,
            }
            for kind, other, reason, inwards in detail.related
        ],
        "similar": [
            {"id": other.id, "title": other.title, "score": score}
            for other, score in likely
            if not other.audience
        ],
        "governed": [path._asdict() for path in detail.governed],
        "commits": [_commit(commit) for commit in detail.commits],
    }
    return {**row(detail.row), **{name: value for name, value in values.items() if value}}


def _fields(record: Record) -> Answer:
    """What a record states besides its texts."""
    return {
        "rejected": list(record.rejected),
        "limitation": record.limitation,
        "confidence": record.confidence,
        "decided_by": record.decided_by,
        "open_files": list(record.open_files),
        "facts": list(record.facts),
        "concepts": list(record.concepts),
        "files_read": list(record.files_read),
        "files_modified": list(record.files_modified),
    }


def _commit(commit: Any) -> Answer:
    return {
        "id": commit.id,
        "who": commit.author,
        **present.filled({"agent": commit.agent}),
        "when": commit.at,
        "subject": commit.subject,
    }


def _texts(record: Record) -> dict[str, str]:
    """The texts of a record as HTML; edges that a line begins with are shown as links."""
    texts = {"text_html": record.text, "next_steps_html": record.next_steps}
    if record.type == DECISION:
        texts = {"decision_html": record.decision, "reasoning_html": without_edges(record.text)}
    return {name: html(text) for name, text in texts.items() if text}


def search(memory: Memory, arguments: Arguments) -> Answer:
    """Find records by words and meaning, best first."""
    kind = {"type": arguments["type"]} if arguments.get("type") else {}
    most = min(arguments.get("limit", FOUND), FOUND)
    results = memory.seen_by(EVERYBODY).search(arguments["q"], limit=most, detail=False, **kind)
    hits = [
        {"id": hit.id, "score": round(hit.score, 3), "snippet": _marked(hit.snippet)}
        for hit in results.hits
    ]
    return {"hits": hits, **present.asides(results)}


def _marked(snippet: Snippet) -> str:
    """A fragment with what was found between two characters that no text has: the page marks it."""
    parts: list[str] = []
    last = 0
    for start, end in snippet.ranges:
        parts += [snippet.text[last:start], "\ue000", snippet.text[start:end], "\ue001"]
        last = end
    return "".join((*parts, snippet.text[last:]))


def at(memory: Memory, arguments: Arguments) -> Answer:
    """What held at a date or commit, as `filemem topics --at` lists it."""
    past = memory.at(arguments["when"])
    rows = past.overview().rows
    live = sorted(row.node.id for row in rows if row.live and row.node.type == DECISION)
    return {"when": past.moment.at, "commit": past.moment.id, "live": live}


def compare(memory: Memory, arguments: Arguments) -> Answer:
    """What a branch does to the memory since it left the default one, as `filemem diff` says it."""
    branch = arguments.get("branch", "")
    diff = memory.seen_by(EVERYBODY).diff(f"...{branch}" if branch else "")
    comparison = answers.comparison(diff)
    ids = {part: _ids(comparison["effects"], kinds) for part, kinds in _PARTS.items()}
    lacking = {*ids["added"]} - {record.node.id for record in memory.overview().rows}
    there = memory.at(diff.head.id).overview().rows
    records = [row(record) for record in there if record.node.id in lacking]
    return {**comparison, **ids, "records": records}


def _ids(effects: Iterable[Answer], kinds: Iterable[str]) -> list[str]:
    """What effects of some kinds are on: records, or topics."""
    return [effect.get("id") or effect["topic"] for effect in effects if effect["kind"] in kinds]


def brief(memory: Memory, arguments: Arguments) -> Answer:
    """What a session on this branch, or on these files, would be told at its start."""
    paths = [path.strip() for path in arguments.get("paths", "").split(",")]
    text = memory.brief(paths=[path for path in paths if path]).text
    return {"text": text, "tokens": -(-len(text) // TOKEN)}


def near(memory: Memory, arguments: Arguments) -> Answer:
    """What holds near a text that is being written, what is on its topic first."""
    topic = arguments.get("topic", "")
    decision = arguments.get("decision", "")
    words = re.sub(r"[^\w]+", " ", f"{topic} {decision}").strip()  # no word of it restricts
    ask = partial(memory.seen_by(EVERYBODY).search, limit=NEAR, type=DECISION, live=True)
    own = ask("", topic=topic).hits if topic else ()
    hits = {hit.id: hit for hit in (*own, *(ask(words).hits if words else ()))}
    same = {hit.id for hit in own}
    rows = [{**_near(hit), "same_topic": hit.id in same} for hit in hits.values()]
    return {"near": sorted(rows, key=lambda row: (not row["same_topic"], -row["score"]))}


def _near(hit: Hit) -> Answer:
    return {
        "id": hit.id,
        "topic": hit.record.topic,
        "title": hit.title,
        "outcome": hit.record.outcome,
        "score": round(hit.score, 4),
        **present.filled({"ruled_out": hit.already_rejected}),
    }


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision."""
    return answers.saved(memory.save(type=DECISION, **arguments))


def update(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision, or change its status."""
    return answers.saved(memory.update(**_fresh(memory, arguments)))


def forget(memory: Memory, arguments: Arguments) -> Answer:
    """Remove a record by a commit."""
    return answers.saved(memory.delete(**_fresh(memory, arguments)))


def _fresh(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    """The arguments without the version that the page showed.

    Raises Conflict: the record is another one by now.
    """
    values = dict(arguments)
    (detail,) = memory.details(values["id"])
    if detail.version != values.pop("version"):
        raise Conflict(
            "this record was changed since the page showed it", "look at it again, and then decide"
        )
    return values
