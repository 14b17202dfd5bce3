"""A folder of decision records, copied.

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
    """The decisions of a folder in a Git repository.

    The folders that they are in, below the source, become tags. Raises BadInput.
    """
    if not source.is_dir():
        raise BadInput(
            f"{source} is not a folder", "name the folder of decision records", field="source"
        )
    with closing(Repo.discover(source)) as repo:
        folder = source.resolve().relative_to(repo.work_tree.resolve()).as_posix()
        project = repo.work_tree.name
    with closing(Store(source, folder)) as store:
        snapshot = read_work_tree(store)
        if any(map(_is_filemem_file, snapshot.records.items())):
            hint = "filemem export -o FILE there, filemem import filemem FILE here"
            raise BadInput(f"{source} holds a memory of filemem", hint, field="source")
        edges = _map_edges(snapshot.nodes)
        for id_, node in snapshot.nodes.items():
            record = snapshot.records_by_id[id_]
            tags = tuple(dict.fromkeys((*record.tags, *node.path.split("/")[:-1])))
            dated_record = record._replace(created=node.created or None, tags=tags)
            links = {kind: tuple(dict.fromkeys(edges[id_][kind])) for kind in EDGE_KINDS}
            yield build_item(dated_record, node.path, extra_fields=links)._replace(project=project)


def _is_filemem_file(file: tuple[str, Record]) -> bool:
    """Whether a file (path and record) has the name that filemem gives to this record."""
    path, record = file
    return basename(build_record_path(record)) == basename(path)


def _map_edges(nodes: Mapping[str, Node]) -> Mapping[str, Mapping[str, list[str]]]:
    """The paths that the edges of each decision lead to, by kind.

    An edge that its other end states is among them.
    """
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id_, node in nodes.items():
        stated_edges = [("supersedes", old) for old in node.supersedes or ()]
        stated_edges += [edge[:2] for edge in node.edges]
        all_edges = [(id_, kind, target) for kind, target in stated_edges]
        all_edges += [(new, "supersedes", id_) for new in node.superseded_by]
        all_edges += [
            (target, "builds_on", id_) for kind, target in stated_edges if kind == "built_on_by"
        ]
        for start, kind, target in all_edges:
            if target in nodes:
                edges[start][kind].append(nodes[target].path)
    return edges
