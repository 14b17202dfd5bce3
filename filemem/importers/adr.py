"""Import a folder of decision records (ADRs).

Their dates come from Git, and their chains from the links that they state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from posixpath import basename

from filemem.chain import Node
from filemem.errors import BadInput
from filemem.importers.notes import build_item
from filemem.memory.ingest import Item
from filemem.memory.snapshot import read_work_tree
from filemem.memory.store import Store
from filemem.record import EDGE_KINDS, Record, build_record_path
from filemem.repo import Repo


def read(source: Path) -> Iterator[Item]:
    """Read the decisions of a folder in a Git repository; their folders below it become tags.

    Raises BadInput.
    """
    if not source.is_dir():
        hint = "name the folder of decision records"
        raise BadInput(f"{source} is not a folder", hint, field="source")
    with closing(Repo.discover(source)) as repo:
        work_tree = repo.work_tree.resolve()
        folder = source.resolve().relative_to(work_tree).as_posix()
        project = repo.work_tree.name
    with closing(Store(source, folder)) as store:
        snapshot = read_work_tree(store)
        for path, record in snapshot.records.items():
            _refuse_filemem_file(source, path, record)
        edges = _map_edges(snapshot.nodes)
        for node in snapshot.nodes.values():
            record = snapshot.records_by_id[node.id]
            folders = node.path.split("/")[:-1]
            tags = tuple(dict.fromkeys([*record.tags, *folders]))
            dated_record = record._replace(created=node.created or None, tags=tags)
            links = {}
            for kind in EDGE_KINDS:
                links[kind] = tuple(dict.fromkeys(edges[node.id][kind]))
            item = build_item(dated_record, node.path, extra_fields=links)
            yield item._replace(project=project)


def _refuse_filemem_file(source: Path, path: str, record: Record) -> None:
    """Raise BadInput if a file has the name that filemem gives to this record."""
    if basename(build_record_path(record)) == basename(path):
        hint = "filemem export -o FILE there, filemem import filemem FILE here"
        raise BadInput(f"{source} holds a memory of filemem", hint, field="source")


def _map_edges(nodes: Mapping[str, Node]) -> Mapping[str, Mapping[str, list[str]]]:
    """Map decisions to the paths of their edges by kind; either end may state an edge."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add_edge(start: str, kind: str, target: str) -> None:
        if target in nodes:
            edges[start][kind].append(nodes[target].path)

    for node in nodes.values():
        for old in node.supersedes or ():
            add_edge(node.id, "supersedes", old)
        for edge in node.edges:
            add_edge(node.id, edge.kind, edge.target)
        for new in node.superseded_by:
            add_edge(new, "supersedes", node.id)
        for edge in node.edges:
            if edge.kind == "built_on_by":
                add_edge(edge.target, "builds_on", node.id)
    return edges
