"""The routes of the page: rows of all records, a whole record, search, past states, saves.

A page has no user, so every answer leaves out what is not meant for everybody. Texts are sent as
they are, and the page never parses them as HTML; or as HTML that `markdown` has rendered.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from filemem.dialects import answers, present
from filemem.errors import Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.brief import TOKEN_CHARACTERS
from filemem.record import DECISION, strip_edges
from filemem.record.visibility import EVERYBODY
from filemem.web.graph import RatedNode, cache_edges, list_nearest
from filemem.web.markdown import render_html
from filemem.web.route import Answer, Arguments, Reply, build_cache_headers

if TYPE_CHECKING:
    from filemem.memory.overview import Detail, Relation, Row
    from filemem.query import Hit, Snippet
    from filemem.record import Record

ASSETS = Path(__file__).parent / "assets"
MAX_HITS = 100  # hits of a search
MAX_NEARBY = 6  # decisions near a text that is being written
_NEARBY_OPTIONS: Mapping[str, Any] = {"limit": MAX_NEARBY, "type": DECISION, "live": True}
MAX_SIMILAR = 5  # similar decisions that are shown beside a decision
SIMILAR_THRESHOLD = 0.4  # least likeness of these
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MATCH_START = "\ue000"  # private characters, which no text has; the page marks what is between
_MATCH_END = "\ue001"
_EFFECT_GROUPS = {  # group on the page -> kinds of effects
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
    """The rows of a memory and facts on the whole, with the state in which they were read."""

    state: str
    head: Answer
    rows: list[Answer]
    text: bytes  # the rows as JSON


_OVERVIEW_CACHE: WeakKeyDictionary[Memory, _CachedOverview] = WeakKeyDictionary()


def read_asset(name: str) -> Reply:
    """Return a file of the page. Raises NotFound."""
    path = find_assets().get(name)
    if path is None:
        raise NotFound(f"there is no file {name[:100]!r} of the page", "the page is at /viewer")
    data = path.read_bytes()
    extension = name.rpartition(".")[2]
    media_type = _MEDIA.get(extension, "text/plain")
    headers = SECURITY_HEADERS | build_cache_headers(hashlib.sha256(data).hexdigest())
    return Reply(data, media_type=f"{media_type}; charset=utf-8", headers=headers)


def find_assets() -> dict[str, Path]:
    """Find the files of the page, by the names that the page uses."""
    assets: dict[str, Path] = {}
    for path in sorted(ASSETS.rglob("*")):
        if path.is_file() and path.name != "prelude.js":
            name = path.relative_to(ASSETS).as_posix()
            assets[name] = path
    return assets


def answer_projects(memory: Memory, _: Arguments) -> Answer:
    """List the repositories that the page can switch to; none if this one is not registered."""
    if memory.workspace is None:
        return {"projects": []}
    rows: list[Answer] = []
    for key, tree in memory.workspace().list_repositories().items():
        is_own = tree == memory.work_tree
        rows.append({"key": key, "name": tree.name, "folder": str(tree), "own": is_own})
    return {"projects": rows}


def get_rows(memory: Memory) -> tuple[Answer, list[Answer]]:
    """Return facts on the whole memory, and its rows; cached until it changes."""
    cached = _load_overview(memory)
    return cached.head, cached.rows


def _load_overview(memory: Memory) -> _CachedOverview:
    """Return the cached overview of a memory, or read it again if the memory has changed."""
    state = memory.keeper.state
    cached = _OVERVIEW_CACHE.get(memory)
    if cached is not None and cached.state == state:
        return cached
    head, rows = build_overview(memory)
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    overview = _CachedOverview(state, head, rows, text)
    _OVERVIEW_CACHE[memory] = overview
    return overview


def answer_data(memory: Memory, arguments: Arguments) -> Reply:
    """Return a row for every record, as JSON that is cached until the memory changes."""
    overview = _load_overview(memory)
    head = dict(overview.head)
    head["version"] = overview.state
    head["can_write"] = "repository" not in arguments  # only who may write gets to this route
    head["degraded"] = memory.degraded_reason
    tag = hashlib.sha256(json.dumps(head).encode()).hexdigest()
    head["now"] = memory.get_time()
    head_text = json.dumps(head, ensure_ascii=False).encode()
    body = head_text.removesuffix(b"}") + b', "records": ' + overview.text + b"}"
    return Reply(body, headers=build_cache_headers(tag))


def build_overview(memory: Memory) -> tuple[Answer, list[Answer]]:
    """Read facts on the whole memory, and its rows; the edges of the graph are cached too."""
    state = memory.keeper.state
    overview = memory.build_overview()
    cache_edges(memory, state, overview.rows)  # the page asks for them next
    head = {
        "name": memory.work_tree.name,
        "branch": overview.branch,
        "head": overview.head,
        "branches": list(overview.branches),
    }
    return head, [build_row(row) for row in overview.rows]


def build_row(row: Row) -> Answer:
    """Build the row of a record for the page; empty values are left out."""
    node = row.node
    values = {
        "id": node.id,
        "type": node.type,
        "title": node.title,
        "created": node.created,
        "outcome": node.outcome,
        "affects": node.affects,
        "tags": node.tags,
        "agent": node.agent,
        "kind": node.kind,
        "branch": node.branch,
        "path": row.path,
        "superseded_by": row.superseded_by,
        "supersedes": row.supersedes,
        "live": row.live,
        "forked": row.forked,
        "area": find_area(node.path, node.tags),
        "topic": node.topic if node.stated else "",
        "status": node.status if node.type == DECISION else "",
        "who": row.author or node.agent,
    }
    return _drop_empty(values)


def find_area(path: str, tags: Sequence[str]) -> str:
    """Find the area of a record: the folder that people filed it in, else its first tag, or ""."""
    folder = _FOLDERS.sub("", path.rpartition("/")[0])
    area = folder.strip("/").partition("/")[0]
    if not area and tags:
        return tags[0]
    return area


def answer_record(memory: Memory, arguments: Arguments) -> Answer:
    """Return a whole record, as it is now or as it was at a commit."""
    viewed_memory: Any = memory
    if arguments.get("at"):
        viewed_memory = memory.at(arguments["at"])
    (detail,) = viewed_memory.read_details(arguments["id"])
    nearest: list[RatedNode] = []
    if detail.hit.record.type == DECISION:
        nearest = list_nearest(viewed_memory, detail.hit, MAX_SIMILAR, SIMILAR_THRESHOLD)
    return build_record(viewed_memory, detail, nearest)


def build_record(memory: Memory, detail: Detail, nearest: Iterable[RatedNode]) -> Answer:
    """Build all that the page shows of a record; `nearest` are similar decisions, best first."""
    hit = detail.hit
    is_edited = detail.blob_id != detail.committed_blob_id and memory.is_edited(hit)
    notes = answers.build_hit(hit, is_full=True, is_edited=is_edited)
    chain = [node.id for node in detail.chain]
    values: Answer = {
        "version": detail.blob_id,
        "note": notes.get("note"),
        "evidence": notes.get("evidence"),
    }
    values |= _build_fields(hit.record)
    values |= _render_texts(hit.record)
    values |= {
        "outcomes": [outcome._asdict() for outcome in hit.record.outcomes],
        "chain": chain if len(chain) > 1 else [],
        "related": [_build_relation(relation) for relation in detail.relations],
        "similar": _build_similar(nearest),
        "governed": [path._asdict() for path in detail.governed_paths],
        "commits": [_build_commit(commit) for commit in detail.commits],
    }
    return build_row(detail.row) | _drop_empty(values)


def _drop_empty(values: Answer) -> Answer:
    return {name: value for name, value in values.items() if value}


def _build_relation(relation: Relation) -> Answer:
    return {
        "kind": relation.kind,
        "id": relation.node.id,
        "title": relation.node.title,
        "reason": strip_edges(relation.reason),
        "in": relation.is_incoming,
    }


def _build_similar(nearest: Iterable[RatedNode]) -> list[Answer]:
    """Build the list of similar decisions, without those that only some people may see."""
    rows: list[Answer] = []
    for node, likeness in nearest:
        if not node.audience:
            rows.append({"id": node.id, "title": node.title, "score": likeness})
    return rows


def _build_fields(record: Record) -> Answer:
    """Build what a record states besides its texts."""
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
    answer = {"id": commit.id, "who": commit.author}
    if commit.agent:
        answer["agent"] = commit.agent
    answer["when"] = commit.at
    answer["subject"] = commit.subject
    return answer


def _render_texts(record: Record) -> dict[str, str]:
    """Render the texts of a record as HTML; edges at the start of lines are shown as links."""
    texts = {"text_html": record.text, "next_steps_html": record.next_steps}
    if record.type == DECISION:
        texts = {"decision_html": record.decision, "reasoning_html": strip_edges(record.text)}
    return {name: render_html(text) for name, text in texts.items() if text}


def answer_search(memory: Memory, arguments: Arguments) -> Answer:
    """Find records by words and meaning, best first."""
    limit = min(arguments.get("limit", MAX_HITS), MAX_HITS)
    filters = {"type": arguments["type"]} if arguments.get("type") else {}
    public_memory = memory.seen_by(EVERYBODY)
    results = public_memory.search(arguments["q"], limit=limit, detail=False, **filters)
    hits: list[Answer] = []
    for hit in results.hits:
        snippet = _mark_snippet(hit.snippet)
        hits.append({"id": hit.id, "score": round(hit.score, 3), "snippet": snippet})
    return {"hits": hits} | present.build_notes(results)


def _mark_snippet(snippet: Snippet) -> str:
    """Return the passage that was found, with its matches between marks."""
    marked = ""
    last_end = 0
    for start, end in snippet.ranges:
        marked += snippet.text[last_end:start]
        marked += _MATCH_START + snippet.text[start:end] + _MATCH_END
        last_end = end
    return marked + snippet.text[last_end:]


def answer_moment(memory: Memory, arguments: Arguments) -> Answer:
    """List the decisions that were live at a date or commit, as `filemem topics --at` does."""
    past_memory = memory.at(arguments["when"])
    nodes = [row.node for row in past_memory.build_overview().rows if row.live]
    live_ids = [node.id for node in nodes if node.type == DECISION]
    moment = past_memory.moment
    return {"when": moment.committed_at, "commit": moment.id, "live": sorted(live_ids)}


def answer_comparison(memory: Memory, arguments: Arguments) -> Answer:
    """Show what a branch changes in the memory, as `filemem diff` does.

    `records` are the rows of new records that the branch checked out does not have.
    """
    branch = arguments.get("branch", "")
    revisions = f"...{branch}" if branch else ""
    diff = memory.seen_by(EVERYBODY).diff(revisions)
    answer = answers.build_comparison(diff)
    for group, kinds in _EFFECT_GROUPS.items():
        answer[group] = _list_subjects(answer["effects"], kinds)
    own_rows = memory.build_overview().rows
    own_ids = {row.node.id for row in own_rows}
    missing_ids = set(answer["added"]) - own_ids
    branch_memory = memory.at(diff.head.id)
    branch_rows = branch_memory.build_overview().rows
    answer["records"] = [build_row(row) for row in branch_rows if row.node.id in missing_ids]
    return answer


def _list_subjects(effects: Iterable[Answer], kinds: Iterable[str]) -> list[str]:
    """List the ids of the records that have effects of some kinds; topics for forks."""
    return [effect.get("id") or effect["topic"] for effect in effects if effect["kind"] in kinds]


def answer_brief(memory: Memory, arguments: Arguments) -> Answer:
    """Show what a session on this branch, or on some files, is told at its start."""
    parts = arguments.get("paths", "").split(",")
    paths = [part.strip() for part in parts if part.strip()]
    text = memory.brief(paths=paths).text
    return {"text": text, "tokens": math.ceil(len(text) / TOKEN_CHARACTERS)}


def answer_nearby(memory: Memory, arguments: Arguments) -> Answer:
    """Find the live decisions near a text that is being written, first those on its topic."""
    topic = arguments.get("topic", "")
    text = f"{topic} {arguments.get('decision', '')}"
    words = re.sub(r"[^\w]+", " ", text).strip()  # without operators, which would restrict
    public_memory = memory.seen_by(EVERYBODY)
    rows: dict[str, Answer] = {}
    if topic:
        for hit in public_memory.search("", topic=topic, **_NEARBY_OPTIONS).hits:
            rows[hit.id] = _build_nearby(hit, same_topic=True)
    if words:
        for hit in public_memory.search(words, **_NEARBY_OPTIONS).hits:
            is_on_topic = hit.id in rows
            rows[hit.id] = _build_nearby(hit, same_topic=is_on_topic)
    return {"near": sorted(rows.values(), key=_rank_nearby)}


def _build_nearby(hit: Hit, *, same_topic: bool) -> Answer:
    row = {
        "id": hit.id,
        "topic": hit.record.topic,
        "title": hit.title,
        "outcome": hit.record.outcome,
        "score": round(hit.score, 4),
    }
    row |= present.strip_empty({"ruled_out": hit.already_rejected})
    return row | {"same_topic": same_topic}


def _rank_nearby(row: Answer) -> tuple[bool, float]:
    return not row["same_topic"], -row["score"]


def save_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision."""
    return answers.build_write_answer(memory.save(type=DECISION, **arguments))


def update_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Record the outcome of a decision, or change its status."""
    return answers.build_write_answer(memory.update(**_require_unchanged(memory, arguments)))


def forget_record(memory: Memory, arguments: Arguments) -> Answer:
    """Remove a record by a commit."""
    return answers.build_write_answer(memory.delete(**_require_unchanged(memory, arguments)))


def _require_unchanged(memory: Memory, arguments: Arguments) -> dict[str, Any]:
    """Return the arguments without `version`, which is that of the record on the page.

    Raises Conflict if the record has changed since.
    """
    values = dict(arguments)
    shown_version = values.pop("version")
    (detail,) = memory.read_details(values["id"])
    if detail.blob_id != shown_version:
        raise Conflict(
            "this record was changed since the page showed it", "look at it again, and then decide"
        )
    return values
