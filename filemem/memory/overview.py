"""Every record in one row, with what holds and what replaced what; and all that is known of one, for a page about it.

Rule: the rows open no file of a record. They come from the index, chains from one resolution of all of them, and who
saved a record from the commit table.
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

COUNTED, NAMED = 10, 200  # governed paths whose commits are counted, and files of each at most
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


class Detail(NamedTuple):
    """All that is known of one record."""

    hit: Hit
    row: Row
    version: str  # blob id of its file as it is, or was then
    chain: tuple[Node, ...]  # the decisions of its chain, oldest first
    governed: tuple[Governed, ...]
    commits: tuple[Commit, ...]  # those that touched it, newest first
    related: tuple[
        tuple[str, Node, str, bool], ...
    ]  # edges: kind, the other record, the reason, whether from that one
    committed: str = ""  # blob id of its file in the newest commit that touched it


def overview(store: Store) -> Overview:
    """Return a row for each record that is meant for all who have the repository."""
    nodes = [one for one in store.index.nodes() if not one.audience]
    graph = chain.resolve(one for one in nodes if one.type == DECISION)
    head = store.repo.head() or ""
    who = store.history.authors(store.seen_from) if head else {}
    told = store.code.git.run("for-each-ref", "--format=%(refname:short)", "refs/heads").decode(
        errors="replace"
    )
    rows = (_row(store, graph, one, who.get(store.files.named(one.path), "")) for one in nodes)
    return Overview(
        store.branch,
        head,
        tuple(told.split()),
        tuple(sorted(rows, key=lambda row: row.node.age)),
    )


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
    seen = around.nodes
    graph = around.graph
    row = _row(store, graph, node, touches[-1].commit.author if touches else "")
    family = graph.linked(graph.family(node.id)) if node.type == DECISION else ()
    edges = list(_edges(row, hit))
    others = {one.id: one for one in store.visible([edge[1] for edge in edges]) if not one.audience}
    return Detail(
        hit,
        row,
        store.listing[node.path]
        if isinstance(store, PastStore)
        else store.repo.blob_id(store.files.read(node.path)),
        tuple(seen[one] for one in family),
        tuple(
            _governed(store, one, hit.drift, at < COUNTED)
            for at, one in enumerate(hit.record.affects)
        ),
        tuple(dict.fromkeys(one.commit for one in touches)),
        tuple(
            (kind, others[to], reason, inwards)
            for kind, to, reason, inwards in edges
            if to in others
        ),
        touches[0].new if touches else "",
    )


def _edges(row: Row, hit: Hit) -> Iterable[tuple[str, str, str, bool]]:
    """Every edge of a record, in the words of the one that states it."""
    yield from (("supersedes", one, "", False) for one in row.supersedes)
    yield from (("supersedes", one, "", True) for one in row.superseded_by)
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
    gone, changed = (
        [one for one in files if affects_match(stated, one)]
        for files in (drift.missing, drift.changed)
    )
    if not (gone or changed):
        return Governed(stated, FRESH)
    asked = ("rev-list", "--count", f"{drift.since}..HEAD", "--", *(gone + changed)[:NAMED])
    return Governed(
        stated, CHANGED if changed else MISSING, int(store.code.git.run(*asked)) if counts else 0
    )
