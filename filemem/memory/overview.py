"""Every record in one row, with what holds and what replaced what; and all that is known of one.

Rule: the rows open no file of a record. They come from the index, chains from one resolution of all
of them, and who saved a record from the commit table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from filemem import chain
from filemem.errors import NotFound
from filemem.index import Around, Node
from filemem.memory.snapshot import PastStore
from filemem.memory.store import Store
from filemem.query import Drift, Hit, affects_match
from filemem.query.hit import CHANGED, FRESH, MISSING
from filemem.record import DECISION
from filemem.repo.history import Commit, Touch

COUNTED = 10  # governed paths whose commits are counted
NAMED = 200  # files of each, at most
_STATED = {"built_on_by": "builds_on", "debated_by": "debates", "synthesized_by": "synthesizes"}


class Row(NamedTuple):
    """One record."""

    node: Node  # its references as ids
    path: str  # from the top of the work tree
    who: str  # the author of the commit that brought it; empty while there is none
    live: bool = True  # for a decision: it holds today
    forked: bool = False  # it holds, and so do others on its topic
    superseded_by: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()


class Overview(NamedTuple):
    """The whole memory as it stands."""

    branch: str
    head: str
    branches: tuple[str, ...]
    rows: tuple[Row, ...]  # oldest first


class Governed(NamedTuple):
    """A path or glob that a decision governs, and how it stands."""

    path: str
    state: str  # fresh, changed, missing or unknown
    commits: int = 0  # that touched it since the decision landed, where it is not what it was


class Relation(NamedTuple):
    """An edge between a record and another one."""

    kind: str
    node: Node  # the other record
    reason: str
    inwards: bool  # the other one states it


class Detail(NamedTuple):
    """All that is known of one record."""

    hit: Hit
    row: Row
    version: str  # blob id of its file as it is, or was then
    chain: tuple[Node, ...]  # the decisions of its chain, oldest first
    governed: tuple[Governed, ...]
    commits: tuple[Commit, ...]  # those that touched it, newest first
    related: tuple[Relation, ...]
    committed: str = ""  # blob id of its file in the newest commit that touched it


def overview(store: Store) -> Overview:
    """Return a row for each record that is meant for all who have the repository."""
    nodes = [node for node in store.index.nodes() if not node.audience]
    graph = chain.resolve(node for node in nodes if node.type == DECISION)
    head = store.repo.head() or ""
    authors = store.history.authors(store.seen_from) if head else {}
    refs = store.code.git.run("for-each-ref", "--format=%(refname:short)", "refs/heads")
    branches = tuple(refs.decode(errors="replace").split())
    oldest_first = sorted(nodes, key=lambda node: node.age)
    rows = [
        _row(store, graph, node, authors.get(store.files.named(node.path), ""))
        for node in oldest_first
    ]
    return Overview(store.branch, head, branches, tuple(rows))


def details(store: Store, hits: Collection[Hit]) -> tuple[Detail, ...]:
    """Return all that is known of records that were read whole.

    Raises NotFound: one is gone, or not meant for everybody.
    """
    ids = [hit.id for hit in hits]
    nodes = {node.id: node for node in store.visible(ids) if not node.audience}
    for hit in hits:
        if hit.id not in nodes:
            raise NotFound(f"no record {hit.id!r}", "search lists what there is")
    paths = [store.files.named(node.path) for node in nodes.values()]
    touches = store.history.touches(paths, store.seen_from) if store.repo.head() else {}
    around = store.index.around(nodes.values())
    public = _public(around)
    details = list[Detail]()
    for hit in hits:
        node = nodes[hit.id]
        touched = touches.get(store.files.named(node.path), ())
        if public is around:  # one answer is good for all
            details.append(_detail(store, hit, node, touched, around))
            continue
        own = store.index.around([node])
        chains = _public(own)
        # What a hit says of its chain may name what is private.
        public_hit = hit if chains is own else hit._replace(vacancy="", heads=())
        details.append(_detail(store, public_hit, node, touched, chains))
    return tuple(details)


def _public(around: Around) -> Around:
    """The same without what is not meant for everybody."""
    nodes = {id_: node for id_, node in around.nodes.items() if not node.audience}
    if len(nodes) == len(around.nodes):
        return around
    graph = chain.resolve(nodes.values())
    return around._replace(graph=graph, nodes=graph.nodes)


def _detail(store: Store, hit: Hit, node: Node, touches: Sequence[Touch], around: Around) -> Detail:
    graph = around.graph
    row = _row(store, graph, node, touches[-1].commit.author if touches else "")
    family = graph.linked(graph.family(node.id)) if node.type == DECISION else ()
    governed = [
        _governed(store, path, hit.drift, number < COUNTED)
        for number, path in enumerate(hit.record.affects)
    ]
    return Detail(
        hit,
        row,
        version=_version(store, node.path),
        chain=tuple(around.nodes[name] for name in family),
        governed=tuple(governed),
        commits=tuple(dict.fromkeys(touch.commit for touch in touches)),
        related=tuple(_relations(store, row, hit)),
        committed=touches[0].new if touches else "",
    )


def _version(store: Store, path: str) -> str:
    if isinstance(store, PastStore):
        return store.listing[path]
    return store.repo.blob_id(store.files.read(path))


def _relations(store: Store, row: Row, hit: Hit) -> Iterable[Relation]:
    """The edges of a record to what is meant for everybody."""
    edges = list(_edges(row, hit))
    targets = store.visible([target for _, target, _, _ in edges])
    others = {node.id: node for node in targets if not node.audience}
    for kind, target, reason, inwards in edges:
        if target in others:
            yield Relation(kind, others[target], reason, inwards)


def _edges(row: Row, hit: Hit) -> Iterable[tuple[str, str, str, bool]]:
    """Every edge of a record, in the words of the one that states it."""
    yield from (("supersedes", old, "", False) for old in row.supersedes)
    yield from (("supersedes", new, "", True) for new in row.superseded_by)
    for kind, target, reason in hit.related:
        turned = _STATED.get(kind, kind)
        if turned in _STATED.values():
            yield turned, target, reason, kind in _STATED


def _row(store: Store, graph: chain.Graph, node: Node, who: str) -> Row:
    row = Row(node, store.display_path(node.path), who)
    if node.type != DECISION:
        return row
    live = graph.is_head(node.id)
    return row._replace(
        live=live,
        forked=live and bool(node.key) and graph.chain(node.key).is_forked,
        superseded_by=graph.superseded_by(node.id),
        supersedes=graph.predecessors(node.id),
    )


def _governed(store: Store, stated: str, drift: Drift | None, counts: bool) -> Governed:
    if drift is None or not drift.since:
        return Governed(stated, drift.verdict if drift else FRESH)
    missing = [path for path in drift.missing if affects_match(stated, path)]
    changed = [path for path in drift.changed if affects_match(stated, path)]
    if not (missing or changed):
        return Governed(stated, FRESH)
    governed = Governed(stated, CHANGED if changed else MISSING)
    if not counts:
        return governed
    paths = (missing + changed)[:NAMED]
    span = f"{drift.since}..HEAD"
    return governed._replace(
        commits=int(store.code.git.run("rev-list", "--count", span, "--", *paths))
    )
