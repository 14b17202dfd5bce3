"""Every record in one row, with its place in its chain; and all that is known of one record.

Building the rows opens no record file: they come from the index, and authors from the commit table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
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
    author: str  # the author of the commit that added it; "" if it is not committed
    live: bool = True  # False for a decision that is not live
    forked: bool = False  # other decisions are live on its topic, too
    superseded_by: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()


class Overview(NamedTuple):
    """The current memory."""

    branch: str
    head: str
    branches: tuple[str, ...]
    rows: tuple[Row, ...]  # oldest first


class GovernedPath(NamedTuple):
    """A path or glob that a decision governs, and its drift."""

    path: str
    state: str  # fresh, changed, missing or unknown
    commits: int = 0  # commits that touched it since the decision, if it has drifted


class Relation(NamedTuple):
    """An edge between a record and another one."""

    kind: str
    node: Node  # the other record
    reason: str
    is_incoming: bool  # the other one states it


class _Edge(NamedTuple):
    """An edge between a record and another one, by id."""

    kind: str
    target: str  # the other record
    reason: str
    is_incoming: bool


class Detail(NamedTuple):
    """All that is known of one record."""

    hit: Hit
    row: Row
    blob_id: str  # blob id of its file at that moment
    chain: tuple[Node, ...]  # the decisions of its chain, oldest first
    governed_paths: tuple[GovernedPath, ...]
    commits: tuple[Commit, ...]  # those that touched it, newest first
    relations: tuple[Relation, ...]
    committed_blob_id: str = ""  # blob id of its file in the newest commit that touched it


def build_overview(store: Store) -> Overview:
    """Return a row for each public record."""
    nodes = [node for node in store.index.read_nodes() if not node.audience]
    nodes.sort(key=attrgetter("sort_key"))
    graph = chain.build_graph([node for node in nodes if node.type == DECISION])
    head = store.repo.read_head() or ""
    authors = store.history.read_authors(store.tip_id) if head else {}
    refs = store.code.git.run("for-each-ref", "--format=%(refname:short)", "refs/heads")
    branches = refs.decode(errors="replace").split()
    rows: list[Row] = []
    for node in nodes:
        full_path = store.files.to_work_tree_path(node.path)
        rows.append(_build_row(store, graph, node, authors.get(full_path, "")))
    return Overview(store.branch, head, tuple(branches), tuple(rows))


def list_details(store: Store, hits: Collection[Hit]) -> tuple[Detail, ...]:
    """Return all that is known of some records.

    Raises:
        NotFound: a record is missing, or not public.
    """
    ids = [hit.id for hit in hits]
    nodes = {node.id: node for node in store.list_visible(ids) if not node.audience}
    for id_ in ids:
        if id_ not in nodes:
            raise NotFound(f"no record {id_!r}", "search lists what there is")
    paths = [store.files.to_work_tree_path(node.path) for node in nodes.values()]
    touches = store.history.read_touches(paths, store.tip_id) if store.repo.read_head() else {}
    shared_chains = store.index.read_chains(nodes.values())
    is_all_public = _filter_public(shared_chains) is shared_chains
    details: list[Detail] = []
    for hit in hits:
        node = nodes[hit.id]
        chain_set = shared_chains
        public_hit = hit
        if not is_all_public:
            own_chains = store.index.read_chains([node])
            chain_set = _filter_public(own_chains)
            if chain_set is not own_chains:  # the hit may name private decisions
                public_hit = hit._replace(vacancy="", heads=())
        node_touches = touches.get(store.files.to_work_tree_path(node.path), ())
        details.append(_build_detail(store, public_hit, node, node_touches, chain_set))
    return tuple(details)


def _filter_public(chain_set: ChainSet) -> ChainSet:
    """Remove decisions that are not public; a set without any is returned as it is."""
    nodes = {id_: node for id_, node in chain_set.nodes.items() if not node.audience}
    if len(nodes) == len(chain_set.nodes):
        return chain_set
    graph = chain.build_graph(nodes.values())
    return chain_set._replace(graph=graph, nodes=graph.nodes)


def _build_detail(
    store: Store, hit: Hit, node: Node, touches: Sequence[Touch], chain_set: ChainSet
) -> Detail:
    graph = chain_set.graph
    author = ""
    committed_blob_id = ""
    if touches:
        author = touches[-1].commit.author
        committed_blob_id = touches[0].new_blob
    row = _build_row(store, graph, node, author)
    family: Sequence[str] = ()
    if node.type == DECISION:
        family = graph.list_linked(graph.list_family(node.id))
    governed_paths: list[GovernedPath] = []
    for path in hit.record.affects:
        should_count = len(governed_paths) < MAX_COUNTED_PATHS
        governed_paths.append(_build_governed_path(store, path, hit.drift, should_count))
    commits = dict.fromkeys(touch.commit for touch in touches)
    return Detail(
        hit=hit,
        row=row,
        blob_id=_read_blob_id(store, node.path),
        chain=tuple(chain_set.nodes[id_] for id_ in family),
        governed_paths=tuple(governed_paths),
        commits=tuple(commits),
        relations=tuple(_list_relations(store, row, hit)),
        committed_blob_id=committed_blob_id,
    )


def _list_relations(store: Store, row: Row, hit: Hit) -> list[Relation]:
    """List the edges between a record and public ones."""
    edges = _list_edges(row, hit)
    targets = store.list_visible([edge.target for edge in edges])
    other_nodes = {node.id: node for node in targets if not node.audience}
    relations: list[Relation] = []
    for edge in edges:
        node = other_nodes.get(edge.target)
        if node:
            relations.append(Relation(edge.kind, node, edge.reason, edge.is_incoming))
    return relations


def _list_edges(row: Row, hit: Hit) -> list[_Edge]:
    """List the edges of a record, each by the kind that one of the two states."""
    edges = [_Edge("supersedes", id_, "", is_incoming=False) for id_ in row.supersedes]
    edges += [_Edge("supersedes", id_, "", is_incoming=True) for id_ in row.superseded_by]
    for edge in hit.related:
        is_incoming = edge.kind in _STATED_KINDS
        kind = _STATED_KINDS.get(edge.kind, edge.kind)
        if kind in _STATED_KINDS.values():
            edges.append(_Edge(kind, edge.target, edge.reason, is_incoming))
    return edges


def _read_blob_id(store: Store, path: str) -> str:
    if isinstance(store, PastStore):
        return store.listing[path]
    return store.repo.compute_blob_id(store.files.read(path))


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
    if drift is None:
        return GovernedPath(stated_path, FRESH)
    if not drift.since:
        return GovernedPath(stated_path, drift.verdict)
    missing_paths = [path for path in drift.missing if is_covered(stated_path, path)]
    changed_paths = [path for path in drift.changed if is_covered(stated_path, path)]
    if not missing_paths and not changed_paths:
        return GovernedPath(stated_path, FRESH)
    state = CHANGED if changed_paths else MISSING
    if not should_count:
        return GovernedPath(stated_path, state)
    paths = (missing_paths + changed_paths)[:MAX_FILES]
    span = f"{drift.since}..HEAD"
    commit_count = int(store.code.git.run("rev-list", "--count", span, "--", *paths))
    return GovernedPath(stated_path, state, commit_count)
