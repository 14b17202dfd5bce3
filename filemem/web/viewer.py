"""What the page asks for and does: rows of all records, one record whole, a search, a past, a branch, a save.

What is not meant for everybody is left out of every answer: a page has no name to give. Texts leave as they are, or as
HTML of `markdown`; the page sets the first as text alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from filemem.dialects import present
from filemem.dialects.public import public
from filemem.dialects.reader import Reader
from filemem.dialects.reader import search as look
from filemem.errors import Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.brief import TOKEN
from filemem.memory.hits import INVERSE
from filemem.record import CHECKPOINT, DECISION
from filemem.web.graph import near as alike
from filemem.web.markdown import html
from filemem.web.route import Answer, Arguments, Told, revisit

if TYPE_CHECKING:
    from filemem.memory.overview import Detail, Row
    from filemem.query import Hit, Snippet

ASSETS = Path(__file__).parent / "assets"
FOUND, NEAR, SIMILAR, LIKE = 100, 6, 5, 0.4  # hits of a search, near decisions, similar ones, and from which value on
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MEDIA = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "txt": "text/plain"}
_FOLDERS = re.compile(r"(?:^|/)(?:decisions|checkpoints|observations|\d{2,4})(?=/|$)")
_ROWS: WeakKeyDictionary[Memory, tuple[str, Answer, bytes]] = WeakKeyDictionary()  # the last overview of each memory


def page(*_: object) -> Told:
    """The page itself: the same bytes for everybody."""
    return asset(None, {"name": "viewer.html"})


def asset(_: object, arguments: Arguments) -> Told:
    """A file of the page."""
    name = arguments["name"]
    if not (found := assets().get(name)):
        raise NotFound(f"there is no file {name[:100]!r} of the page", "the page is at /viewer")
    data, kind = found.read_bytes(), name.rpartition(".")[2]
    headers = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY", **revisit(hashlib.sha256(data).hexdigest())}
    return Told(data, media=f"{_MEDIA.get(kind, 'text/plain')}; charset=utf-8", headers=headers)


def assets() -> dict[str, Path]:
    """The files of the page by name, as it names them."""
    found = (one for one in sorted(ASSETS.rglob("*")) if one.is_file() and one.name != "prelude.js")
    return {one.relative_to(ASSETS).as_posix(): one for one in found}


def data(memory: Memory, arguments: Arguments) -> Told:
    """A row for every record; made anew only where something has changed."""
    state = memory.keeper.state
    if memory not in _ROWS or _ROWS[memory][0] != state:
        head, rows = overview(memory)
        _ROWS[memory] = state, head, json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    _, head, records = _ROWS[memory]
    head = {**head, "version": state, "can_write": arguments["can_write"], "degraded": memory.lacked}
    mark = hashlib.sha256(json.dumps(head).encode()).hexdigest()
    head["now"] = memory.now()
    body = json.dumps(head, ensure_ascii=False).encode()[:-1] + b', "records": ' + records + b"}"
    return Told(body, headers=revisit(mark))


def overview(memory: Memory) -> tuple[Answer, list[Answer]]:
    """What there is to say of the whole memory, and its rows."""
    seen = memory.overview()
    head = {"name": memory.work_tree.name, "branch": seen.branch, "head": seen.head, "branches": list(seen.branches)}
    return head, [row(one) for one in seen.rows]


def row(one: Row) -> Answer:
    """A record in a row; what is empty is left out."""
    node, decision = one.node, one.node.type == DECISION
    edges = {kind: [[to, why] for name, to, why in node.edges if name == kind] for kind in ("builds_on", "debates")}
    edges["synthesizes"] = [[to, why] for name, to, why in node.edges if name == "synthesizes"]
    told = {
        "id": node.id,
        "type": node.type,
        "topic": node.topic if node.stated else "",
        "title": node.title,
        "created": node.created,
        "status": node.status if decision else "",
        "outcome": node.outcome,
        "superseded_by": one.superseded_by,
        "supersedes": one.supersedes,
        **edges,
        "affects": node.affects,
        "tags": node.tags,
        "area": area(node.path, node.tags, node.topic if decision else ""),
        "who": one.who or node.agent,
        "agent": node.agent,
        "path": one.path,
        "kind": node.kind,
        "branch": node.branch,
        "live": one.live,
        "forked": one.forked,
    }
    return {name: value for name, value in told.items() if value}


def area(path: str, tags: Iterable[str], topic: str) -> str:
    """To what a record belongs: the folder that people filed it in, else its first tag, else its topic's first word."""
    folder = _FOLDERS.sub("", path.rpartition("/")[0]).strip("/").partition("/")[0]
    return folder or next(iter(tags), "") or re.split(r"[\W_]+", topic.strip(), maxsplit=1)[0].lower()


def record(memory: Memory, arguments: Arguments) -> Answer:
    """One record whole."""
    return whole(memory, _open(memory, arguments["id"]))


def _open(memory: Memory, reference: str) -> Detail:
    """A record that everybody may see. Raises NotFound."""
    found = memory.detail(reference)
    if not (public(found.hit.record) and Reader("").may_see(found.hit.record)):
        raise NotFound(f"no record {reference[:100]!r}", "search lists what there is")
    return found


def whole(memory: Memory, found: Detail) -> Answer:
    """All that the page shows of a record."""
    hit, one = found.hit, found.hit.record
    shown = present.hit(hit, whole=True, edited=memory.edited(hit))
    likely = alike(memory, hit, SIMILAR, LIKE) if one.type == DECISION else []
    told = {
        "version": found.version,
        "note": shown.get("note"),
        "evidence": shown.get("evidence"),
        "decision": one.decision,
        "decision_html": html(one.decision) if one.type == DECISION else "",
        "reasoning_html": html(one.text) if one.type == DECISION else "",
        "text_html": html(one.text) if one.type != DECISION else "",
        "next_steps_html": html(one.next_steps) if one.type == CHECKPOINT else "",
        **present.fields(one, "rejected limitation confidence decided_by open_files facts concepts files_read"),
        **present.fields(one, "files_modified"),
        "outcomes": [made._asdict() for made in one.outcomes],
        "chain": [made.id for made in found.chain] if len(found.chain) > 1 else [],
        "related": list(_related(found)),
        "similar": [
            {"id": other.id, "title": other.title, "score": round(score, 2)}
            for other, score in likely
            if public(other.record)
        ],
        "governed": [made._asdict() for made in found.governed],
        "commits": [
            {"id": made.id, "who": made.author, "agent": made.agent, "when": made.at, "subject": made.subject}
            for made in found.commits
        ],
    }
    return {**row(found.row), **{name: value for name, value in told.items() if value not in ("", None, [], ())}}


def _related(found: Detail) -> Iterable[Answer]:
    """Every edge, from this record and `in` to it, with the reason that is stated."""
    edges = [("supersedes", one, "", False) for one in found.row.supersedes]
    edges += [("supersedes", one, "", True) for one in found.row.superseded_by]
    edges += [(edge.kind, edge.target, edge.reason, False) for edge in found.hit.related if edge.kind in _STATED]
    turned = {word: kind for kind, word in INVERSE.items() if kind in _STATED}
    edges += [(turned[edge.kind], edge.target, edge.reason, True) for edge in found.hit.related if edge.kind in turned]
    for kind, target, reason, inwards in edges:
        if target in found.titles:
            yield {"kind": kind, "id": target, "title": found.titles[target], "reason": reason, "in": inwards}


_STATED = ("builds_on", "debates", "synthesizes")


def _everybody(one: Any) -> bool:
    return public(one) and Reader("").may_see(one)


def search(memory: Memory, arguments: Arguments) -> Answer:
    """Find records by words and meaning, best first."""
    kind = {"type": arguments["type"]} if arguments.get("type") else {}
    found = look(memory, arguments["q"], _everybody, min(arguments.get("limit", FOUND), FOUND), detail=False, **kind)
    hits = [{"id": hit.id, "score": round(hit.score, 3), "snippet": _marked(hit.snippet)} for hit in found.hits]
    return {"hits": hits, **present.asides(found)}


def _marked(snippet: Snippet) -> str:
    """A fragment with what was found between two characters that no text has, which the page makes marks of."""
    text, last = [], 0
    for start, end in snippet.ranges:
        text += [snippet.text[last:start], "\ue000", snippet.text[start:end], "\ue001"]
        last = end
    return "".join((*text, snippet.text[last:]))


def at(memory: Memory, arguments: Arguments) -> Answer:
    """What held at a date or commit, as `filemem topics --at` lists it."""
    past = memory.at(arguments["when"])
    live = sorted({head for topic in past.topics() for head in topic.heads})
    return {"when": past.moment.at, "commit": past.moment.id, "live": live}


def compare(memory: Memory, arguments: Arguments) -> Answer:
    """What a branch does to the memory since it left the default one, as `filemem diff` says it."""
    branch = arguments.get("branch", "")
    found = memory.diff(f"...{branch}" if branch else "")
    kinds: dict[str, list[str]] = {}
    for effect in found.effects:
        kinds.setdefault(effect.kind, []).append(effect.id or effect.topic)
    told = present.comparison(found)
    here = {one.node.id for one in memory.overview().rows}
    lacking = [one for one in kinds.get("new", ()) if one not in here]
    hits = memory.at(found.head.id).get(*lacking) if lacking else ()
    return {
        "base": told["base"],
        "head": told["head"],
        "added": kinds.get("new", []),
        "replaced": kinds.get("superseded", []),
        "changed": [one for kind in ("accepted", "outcome", "revised") for one in kinds.get(kind, ())],
        "forked": kinds.get("forked", []),
        "gone": kinds.get("removed", []),
        "effects": told["effects"],
        "records": [_row_of(hit) for hit in hits if _everybody(hit.record)],
    }


def _row_of(hit: Hit) -> Answer:
    """A row for a record that the work tree does not have."""
    told = {
        **present.fields(hit.record, "id type title affects? tags? agent?"),
        "topic": hit.record.topic if hit.record.topic_stated else "",
        "created": hit.created,
        "superseded_by": list(hit.superseded_by),
        "supersedes": list(hit.record.supersedes or ()),
        "area": area(hit.record.path, hit.record.tags, hit.record.topic),
        "who": hit.provenance.author,
        "path": hit.path,
    }
    if hit.record.type == DECISION:
        told |= {"status": hit.record.status, "outcome": hit.record.outcome, "forked": len(hit.heads) > 1}
    return {name: value for name, value in told.items() if value} | {"live": hit.id in hit.heads or not hit.heads}


def brief(memory: Memory, arguments: Arguments) -> Answer:
    """What a session on this branch, or on these files, would be told at its start."""
    paths = [one.strip() for one in arguments.get("paths", "").split(",") if one.strip()]
    text = memory.brief(paths=paths).text
    return {"text": text, "tokens": -(-len(text) // TOKEN)}


def near(memory: Memory, arguments: Arguments) -> Answer:
    """What holds near a text that is being written: on its topic first, then by words and meaning."""
    topic, text = arguments.get("topic", ""), arguments.get("decision", "")
    words = re.sub(r"[^\w]+", " ", f"{topic} {text}").strip()
    if not words:
        return {"near": []}
    found = look(memory, words, _everybody, NEAR, type=DECISION, live=True, detail=False).hits
    own = look(memory, "", _everybody, NEAR, type=DECISION, live=True, topic=topic).hits if topic else ()
    hits = {hit.id: hit for hit in (*own, *found)}
    same = {hit.id for hit in own}
    shown = [
        {**present.fields(hit.record, "id topic title outcome"), "score": round(hit.score, 3), "same_topic": hit.id in same}
        | ({"ruled_out": list(hit.already_rejected)} if hit.already_rejected else {})
        for hit in hits.values()
    ]
    return {"near": shown[: NEAR + len(same)]}


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision."""
    return present.saved(memory.save(type=DECISION, **arguments))


def update(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision, or change its status."""
    given = _fresh(memory, arguments)
    return present.saved(memory.update(**given))


def forget(memory: Memory, arguments: Arguments) -> Answer:
    """Remove a record by a commit."""
    given = _fresh(memory, arguments)
    return present.saved(memory.delete(**given))


def _fresh(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    """The arguments without the version that the page showed. Raises Conflict: the record is another one by now."""
    given = dict(arguments)
    if _open(memory, given["id"]).version != given.pop("version"):
        raise Conflict("this record was changed since the page showed it", "look at it again, and then decide")
    return given
