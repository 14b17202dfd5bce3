"""Every record in one row, with what holds and what replaced what; and all that is known of one.

Rule: the rows open no file of a record. They come from the index, chains from one resolution of all
of them, and who saved a record from the commit table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from filemem import chain
from filemem.errors import NotFound
from filemem.index import ChainSet, Node
from filemem.memory.snapshot import PastStore
from filemem.memory.store import Store
from filemem.query import Drift, Hit, is_covered
from filemem.query.hit import CHANGED, FRESH, MISSING
from filemem.record import DECISION
from filemem.repo.history import Commit, Touch

MAX_COUNTED_PATHS = 10  # governed paths whose commits are counted
MAX_FILES = 200  # files of each, at most
_STATED_KINDS = {
    "built_on_by": "builds_on",
    "debated_by": "debates",
    "synthesized_by": "synthesizes",
}


class Row(NamedTuple):
    """One record."""

    node: Node  # its references as ids
    path: str  # from the top of the work tree
    author: str  # the author of the commit that brought it; empty while there is none
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


class GovernedPath(NamedTuple):
    """A path or glob that a decision governs, and how it stands."""

    path: str
    state: str  # fresh, changed, missing or unknown
    commits: int = 0  # that touched it since the decision landed, where it is not what it was


class Relation(NamedTuple):
    """An edge between a record and another one."""

    kind: str
    node: Node  # the other record
    reason: str
    is_incoming: bool  # the other one states it


class Detail(NamedTuple):
    """All that is known of one record."""

    hit: Hit
    row: Row
    blob_id: str  # blob id of its file as it is, or was then
    chain: tuple[Node, ...]  # the decisions of its chain, oldest first
    governed_paths: tuple[GovernedPath, ...]
    commits: tuple[Commit, ...]  # those that touched it, newest first
    relations: tuple[Relation, ...]
    committed_blob_id: str = ""  # blob id of its file in the newest commit that touched it


def build_overview(store: Store) -> Overview:
    """Return a row for each record that is meant for all who have the repository."""
    nodes = [node for node in store.index.read_nodes() if not node.audience]
    graph = chain.build_graph(node for node in nodes if node.type == DECISION)
    head = store.repo.read_head() or ""
    authors = store.history.read_authors(store.tip_id) if head else {}
    refs = store.code.git.run("for-each-ref", "--format=%(refname:short)", "refs/heads")
    branches = tuple(refs.decode(errors="replace").split())
    oldest_first = sorted(nodes, key=lambda node: node.sort_key)
    rows = [
        _build_row(store, graph, node, authors.get(store.files.to_work_tree_path(node.path), ""))
        for node in oldest_first
    ]
    return Overview(store.branch, head, branches, tuple(rows))


def list_details(store: Store, hits: Collection[Hit]) -> tuple[Detail, ...]:
    """Return all that is known of records that were read whole.

    Raises NotFound: one is gone, or not meant for everybody.
    """
    ids = [hit.id for hit in hits]
    nodes = {node.id: node for node in store.list_visible(ids) if not node.audience}
    for hit in hits:
        if hit.id not in nodes:
            raise NotFound(f"no record {hit.id!r}", "search lists what there is")
    paths = [store.files.to_work_tree_path(node.path) for node in nodes.values()]
    touches = store.history.read_touches(paths, store.tip_id) if store.repo.read_head() else {}
    chain_set = store.index.read_chains(nodes.values())
    public_around = _filter_public(chain_set)
    details = list[Detail]()
    for hit in hits:
        node = nodes[hit.id]
        node_touches = touches.get(store.files.to_work_tree_path(node.path), ())
        if public_around is chain_set:  # one answer is good for all
            details.append(_build_detail(store, hit, node, node_touches, chain_set))
            continue
        own_around = store.index.read_chains([node])
        public_own = _filter_public(own_around)
        # What a hit says of its chain may name what is private.
        public_hit = hit if public_own is own_around else hit._replace(vacancy="", heads=())
        details.append(_build_detail(store, public_hit, node, node_touches, public_own))
    return tuple(details)


def _filter_public(chain_set: ChainSet) -> ChainSet:
    """The same without what is not meant for everybody."""
    nodes = {id_: node for id_, node in chain_set.nodes.items() if not node.audience}
    if len(nodes) == len(chain_set.nodes):
        return chain_set
    graph = chain.build_graph(nodes.values())
    return chain_set._replace(graph=graph, nodes=graph.nodes)


def _build_detail(
    store: Store, hit: Hit, node: Node, touches: Sequence[Touch], chain_set: ChainSet
) -> Detail:
    graph = chain_set.graph
    row = _build_row(store, graph, node, touches[-1].commit.author if touches else "")
    family = graph.list_linked(graph.list_family(node.id)) if node.type == DECISION else ()
    governed_paths = [
        _build_governed_path(store, path, hit.drift, number < MAX_COUNTED_PATHS)
        for number, path in enumerate(hit.record.affects)
    ]
    return Detail(
        hit,
        row,
        blob_id=_read_blob_id(store, node.path),
        chain=tuple(chain_set.nodes[name] for name in family),
        governed_paths=tuple(governed_paths),
        commits=tuple(dict.fromkeys(touch.commit for touch in touches)),
        relations=tuple(_iter_relations(store, row, hit)),
        committed_blob_id=touches[0].new_blob if touches else "",
    )


def _read_blob_id(store: Store, path: str) -> str:
    if isinstance(store, PastStore):
        return store.listing[path]
    return store.repo.compute_blob_id(store.files.read(path))


def _iter_relations(store: Store, row: Row, hit: Hit) -> Iterable[Relation]:
    """The edges of a record to what is meant for everybody."""
    edges = list(_iter_edges(row, hit))
    targets = store.list_visible([target for _, target, _, _ in edges])
    other_nodes = {node.id: node for node in targets if not node.audience}
    for kind, target, reason, is_incoming in edges:
        if target in other_nodes:
            yield Relation(kind, other_nodes[target], reason, is_incoming)


def _iter_edges(row: Row, hit: Hit) -> Iterable[tuple[str, str, str, bool]]:
    """Every edge of a record, in the words of the one that states it."""
    yield from (("supersedes", old, "", False) for old in row.supersedes)
    yield from (("supersedes", new, "", True) for new in row.superseded_by)
    for kind, target, reason in hit.related:
        stated_kind = _STATED_KINDS.get(kind, kind)
        if stated_kind in _STATED_KINDS.values():
            yield stated_kind, target, reason, kind in _STATED_KINDS


def _build_row(store: Store, graph: chain.Graph, node: Node, author: str) -> Row:
    row = Row(node, store.to_display_path(node.path), author)
    if node.type != DECISION:
        return row
    is_live = graph.is_head(node.id)
    return row._replace(
        live=is_live,
        forked=is_live and bool(node.key) and graph.get_chain(node.key).is_forked,
        superseded_by=graph.list_successors(node.id),
        supersedes=graph.list_predecessors(node.id),
    )


def _build_governed_path(
    store: Store, stated_path: str, drift: Drift | None, should_count: bool
) -> GovernedPath:
    if drift is None or not drift.since:
        return GovernedPath(stated_path, drift.verdict if drift else FRESH)
    missing_paths = [path for path in drift.missing if is_covered(stated_path, path)]
    changed_paths = [path for path in drift.changed if is_covered(stated_path, path)]
    if not (missing_paths or changed_paths):
        return GovernedPath(stated_path, FRESH)
    governed_path = GovernedPath(stated_path, CHANGED if changed_paths else MISSING)
    if not should_count:
        return governed_path
    paths = (missing_paths + changed_paths)[:MAX_FILES]
    span = f"{drift.since}..HEAD"
    return governed_path._replace(
        commits=int(store.code.git.run("rev-list", "--count", span, "--", *paths))
    )
