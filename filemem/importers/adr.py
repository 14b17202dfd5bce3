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
from filemem.importers.notes import item_of
from filemem.memory.ingest import Item
from filemem.memory.snapshot import of_work_tree
from filemem.memory.store import Store
from filemem.record import EDGE_KINDS, Record, record_path
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
        snapshot = of_work_tree(store)
        if any(map(_is_ours, snapshot.records.items())):
            hint = "filemem export -o FILE there, filemem import filemem FILE here"
            raise BadInput(f"{source} holds a memory of filemem", hint, field="source")
        edges = _edges(snapshot.nodes)
        for id_, node in snapshot.nodes.items():
            record = snapshot.by_id[id_]
            tags = tuple(dict.fromkeys((*record.tags, *node.path.split("/")[:-1])))
            dated = record._replace(created=node.created or None, tags=tags)
            links = {kind: tuple(dict.fromkeys(edges[id_][kind])) for kind in EDGE_KINDS}
            yield item_of(dated, node.path, more=links)._replace(project=project)


def _is_ours(file: tuple[str, Record]) -> bool:
    """Whether a file (path and record) has the name that filemem gives to this record."""
    path, record = file
    return basename(record_path(record)) == basename(path)


def _edges(nodes: Mapping[str, Node]) -> Mapping[str, Mapping[str, list[str]]]:
    """The paths that the edges of each decision lead to, by kind.

    An edge that its other end states is among them.
    """
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id_, node in nodes.items():
        stated = [("supersedes", old) for old in node.supersedes or ()]
        stated += [edge[:2] for edge in node.edges]
        both = [(id_, kind, target) for kind, target in stated]
        both += [(new, "supersedes", id_) for new in node.superseded_by]
        both += [(target, "builds_on", id_) for kind, target in stated if kind == "built_on_by"]
        for start, kind, target in both:
            if target in nodes:
                edges[start][kind].append(nodes[target].path)
    return edges
