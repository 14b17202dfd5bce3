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
from filemem.memory.brief import TOKEN_CHARACTERS
from filemem.record import DECISION, strip_edges
from filemem.record.visibility import EVERYBODY
from filemem.web.graph import RatedNode, cache_edges
from filemem.web.graph import list_nearest as alike
from filemem.web.markdown import render_html
from filemem.web.route import Answer, Arguments, Reply, build_cache_headers

if TYPE_CHECKING:
    from filemem.memory.overview import Detail, Row
    from filemem.query import Hit, Snippet
    from filemem.record import Record

ASSETS = Path(__file__).parent / "assets"
MAX_HITS = 100  # hits of a search
MAX_NEARBY = 6  # decisions near to a text
MAX_SIMILAR = 5  # decisions that are like one
SIMILAR_THRESHOLD = 0.4  # from which value on
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_NODE_FIELDS = "id type title created outcome affects tags agent kind branch".split()  # noqa: SIM905
_ROW_FIELDS = "path superseded_by supersedes live forked".split()  # noqa: SIM905
_EFFECT_GROUPS = {  # what the page calls it -> kinds of effects
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
SECURITY_HEADERS = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY"}


class _CachedOverview(NamedTuple):
    """The overview of a memory: its state then, what there is to say of it all, and its rows."""

    state: str
    head: Answer
    rows: list[Answer]
    text: bytes  # the rows as JSON


_OVERVIEW_CACHE: WeakKeyDictionary[Memory, _CachedOverview] = (
    WeakKeyDictionary()
)  # the last of each memory


def read_asset(name: str) -> Reply:
    """A file of the page, which is the same for everybody."""
    path = find_assets().get(name)
    if path is None:
        raise NotFound(f"there is no file {name[:100]!r} of the page", "the page is at /viewer")
    data = path.read_bytes()
    kind = _MEDIA.get(name.rpartition(".")[2], "text/plain")
    headers = SECURITY_HEADERS | build_cache_headers(hashlib.sha256(data).hexdigest())
    return Reply(data, media_type=f"{kind}; charset=utf-8", headers=headers)


def find_assets() -> dict[str, Path]:
    """The files of the page by name, as it names them."""
    paths = [path for path in sorted(ASSETS.rglob("*")) if path.is_file()]
    return {
        path.relative_to(ASSETS).as_posix(): path for path in paths if path.name != "prelude.js"
    }


def answer_projects(memory: Memory, _: Arguments) -> Answer:
    """The repositories among which a page may switch; none where this one is not registered."""
    trees = memory.workspace().list_repositories() if memory.workspace else {}
    own_tree = memory.work_tree
    rows = [
        {"key": key, "name": tree.name, "folder": str(tree), "own": tree == own_tree}
        for key, tree in trees.items()
    ]
    return {"projects": rows}


def get_rows(memory: Memory) -> tuple[Answer, list[Answer]]:
    """What there is to say of the whole memory, and its rows; made anew only after a change."""
    cached = _load_overview(memory)
    return cached.head, cached.rows


def _load_overview(memory: Memory) -> _CachedOverview:
    state = memory.keeper.state
    cached = _OVERVIEW_CACHE.get(memory)
    if cached is None or cached.state != state:
        head, rows = build_overview(memory)
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
        cached = _OVERVIEW_CACHE[memory] = _CachedOverview(state, head, rows, text)
    return cached


def answer_data(memory: Memory, arguments: Arguments) -> Reply:
    """A row for every record; made anew only where something has changed."""
    state, head, _, records = _load_overview(memory)
    head = {
        **head,
        "version": state,
        "can_write": "repository" not in arguments,  # the door has let in who may
        "degraded": memory.degraded_reason,
    }
    tag = hashlib.sha256(json.dumps(head).encode()).hexdigest()
    head["now"] = memory.get_time()
    body = json.dumps(head, ensure_ascii=False).encode()[:-1] + b', "records": ' + records + b"}"
    return Reply(body, headers=build_cache_headers(tag))


def build_overview(memory: Memory) -> tuple[Answer, list[Answer]]:
    """What there is to say of the whole memory, and its rows."""
    state = memory.keeper.state
    records = memory.build_overview()
    cache_edges(memory, state, records.rows)  # the page asks for them next
    answer = {
        "name": memory.work_tree.name,
        "branch": records.branch,
        "head": records.head,
        "branches": list(records.branches),
    }
    return answer, [build_row(record) for record in records.rows]


def build_row(record: Row) -> Answer:
    """A record in a row; what is empty is left out."""
    node = record.node
    values: Answer = {name: getattr(node, name) for name in _NODE_FIELDS}
    values |= {name: getattr(record, name) for name in _ROW_FIELDS}
    values["area"] = find_area(node.path, node.tags)
    values["topic"] = node.topic if node.stated else ""
    values["status"] = node.status if node.type == DECISION else ""
    values["who"] = record.author or node.agent
    return {name: value for name, value in values.items() if value}


def find_area(path: str, tags: Iterable[str]) -> str:
    """To what a record belongs: the folder that people filed it in, else its first tag, else ""."""
    folder = _FOLDERS.sub("", path.rpartition("/")[0]).strip("/").partition("/")[0]
    return folder or next(iter(tags), "")


def answer_record(memory: Memory, arguments: Arguments) -> Answer:
    """One record whole, as it is or as it was at a commit."""
    viewed_memory: Any = memory.at(arguments["at"]) if arguments.get("at") else memory
    (detail,) = viewed_memory.read_details(arguments["id"])
    hit = detail.hit
    nearest = (
        alike(viewed_memory, hit, MAX_SIMILAR, SIMILAR_THRESHOLD)
        if hit.record.type == DECISION
        else ()
    )
    return build_record(viewed_memory, detail, nearest)


def build_record(memory: Memory, detail: Detail, nearest: Iterable[RatedNode]) -> Answer:
    """All that the page shows of a record; `likely`: decisions near to it, the likest first."""
    hit = detail.hit
    is_edited = detail.blob_id != detail.committed_blob_id and memory.is_edited(hit)
    notes = answers.build_hit(hit, is_full=True, is_edited=is_edited)
    values = {
        "version": detail.blob_id,
        "note": notes.get("note"),
        "evidence": notes.get("evidence"),
        **_build_fields(hit.record),
        **_render_texts(hit.record),
        "outcomes": [outcome._asdict() for outcome in hit.record.outcomes],
        "chain": [node.id for node in detail.chain[:-1] and detail.chain],
        "related": [
            {
                "kind": kind,
                "id": other.id,
                "title": other.title,
                "reason": strip_edges(reason),
                "in": is_inward,
            }
            for kind, other, reason, is_inward in detail.relations
        ],
        "similar": [
            {"id": other.id, "title": other.title, "score": score}
            for other, score in nearest
            if not other.audience
        ],
        "governed": [path._asdict() for path in detail.governed_paths],
        "commits": [_build_commit(commit) for commit in detail.commits],
    }
    return {**build_row(detail.row), **{name: value for name, value in values.items() if value}}


def _build_fields(record: Record) -> Answer:
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


def _build_commit(commit: Any) -> Answer:
    return {
        "id": commit.id,
        "who": commit.author,
        **present.strip_empty({"agent": commit.agent}),
        "when": commit.at,
        "subject": commit.subject,
    }


def _render_texts(record: Record) -> dict[str, str]:
    """The texts of a record as HTML; edges that a line begins with are shown as links."""
    texts = {"text_html": record.text, "next_steps_html": record.next_steps}
    if record.type == DECISION:
        texts = {"decision_html": record.decision, "reasoning_html": strip_edges(record.text)}
    return {name: render_html(text) for name, text in texts.items() if text}


def answer_search(memory: Memory, arguments: Arguments) -> Answer:
    """Find records by words and meaning, best first."""
    kind = {"type": arguments["type"]} if arguments.get("type") else {}
    limit = min(arguments.get("limit", MAX_HITS), MAX_HITS)
    results = memory.seen_by(EVERYBODY).search(arguments["q"], limit=limit, detail=False, **kind)
    hits = [
        {"id": hit.id, "score": round(hit.score, 3), "snippet": _mark_snippet(hit.snippet)}
        for hit in results.hits
    ]
    return {"hits": hits, **present.build_notes(results)}


def _mark_snippet(snippet: Snippet) -> str:
    """A fragment with what was found between two characters that no text has: the page marks it."""
    parts: list[str] = []
    last = 0
    for start, end in snippet.ranges:
        parts += [snippet.text[last:start], "\ue000", snippet.text[start:end], "\ue001"]
        last = end
    return "".join((*parts, snippet.text[last:]))


def answer_moment(memory: Memory, arguments: Arguments) -> Answer:
    """What held at a date or commit, as `filemem topics --at` lists it."""
    past_memory = memory.at(arguments["when"])
    rows = past_memory.build_overview().rows
    live = sorted(row.node.id for row in rows if row.live and row.node.type == DECISION)
    return {"when": past_memory.moment.committed_at, "commit": past_memory.moment.id, "live": live}


def answer_comparison(memory: Memory, arguments: Arguments) -> Answer:
    """What a branch does to the memory since it left the default one, as `filemem diff` says it."""
    branch = arguments.get("branch", "")
    diff = memory.seen_by(EVERYBODY).diff(f"...{branch}" if branch else "")
    comparison = answers.build_comparison(diff)
    ids = {part: _list_ids(comparison["effects"], kinds) for part, kinds in _EFFECT_GROUPS.items()}
    missing_ids = {*ids["added"]} - {record.node.id for record in memory.build_overview().rows}
    branch_rows = memory.at(diff.head.id).build_overview().rows
    records = [build_row(record) for record in branch_rows if record.node.id in missing_ids]
    return {**comparison, **ids, "records": records}


def _list_ids(effects: Iterable[Answer], kinds: Iterable[str]) -> list[str]:
    """What effects of some kinds are on: records, or topics."""
    return [effect.get("id") or effect["topic"] for effect in effects if effect["kind"] in kinds]


def answer_brief(memory: Memory, arguments: Arguments) -> Answer:
    """What a session on this branch, or on these files, would be told at its start."""
    paths = [path.strip() for path in arguments.get("paths", "").split(",")]
    text = memory.brief(paths=[path for path in paths if path]).text
    return {"text": text, "tokens": -(-len(text) // TOKEN_CHARACTERS)}


def answer_nearby(memory: Memory, arguments: Arguments) -> Answer:
    """What holds near a text that is being written, what is on its topic first."""
    topic = arguments.get("topic", "")
    decision = arguments.get("decision", "")
    words = re.sub(r"[^\w]+", " ", f"{topic} {decision}").strip()  # no word of it restricts
    find_live = partial(
        memory.seen_by(EVERYBODY).search, limit=MAX_NEARBY, type=DECISION, live=True
    )
    topic_hits = find_live("", topic=topic).hits if topic else ()
    hits = {hit.id: hit for hit in (*topic_hits, *(find_live(words).hits if words else ()))}
    topic_ids = {hit.id for hit in topic_hits}
    rows = [{**_build_nearby(hit), "same_topic": hit.id in topic_ids} for hit in hits.values()]
    return {"near": sorted(rows, key=lambda row: (not row["same_topic"], -row["score"]))}


def _build_nearby(hit: Hit) -> Answer:
    return {
        "id": hit.id,
        "topic": hit.record.topic,
        "title": hit.title,
        "outcome": hit.record.outcome,
        "score": round(hit.score, 4),
        **present.strip_empty({"ruled_out": hit.already_rejected}),
    }


def save_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision."""
    return answers.build_write_answer(memory.save(type=DECISION, **arguments))


def update_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision, or change its status."""
    return answers.build_write_answer(memory.update(**_require_unchanged(memory, arguments)))


def forget_record(memory: Memory, arguments: Arguments) -> Answer:
    """Remove a record by a commit."""
    return answers.build_write_answer(memory.delete(**_require_unchanged(memory, arguments)))


def _require_unchanged(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    """The arguments without the version that the page showed.

    Raises Conflict: the record is another one by now.
    """
    values = dict(arguments)
    (detail,) = memory.read_details(values["id"])
    if detail.blob_id != values.pop("version"):
        raise Conflict(
            "this record was changed since the page showed it", "look at it again, and then decide"
        )
    return values
