"""A folder of decision records, copied: with the dates that Git knows, and the chains that their links state."""

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
from filemem.record import EDGE_KINDS, record_path
from filemem.repo import Repo


def read(source: Path) -> Iterator[Item]:
    """The decisions of a folder in a Git repository. The folders they are in, below it, become tags."""
    if not source.is_dir():
        raise BadInput(
            f"{source} is not a folder", "name the folder of decision records", field="source"
        )
    with closing(Repo.discover(source)) as repo:
        inside, project = (
            source.resolve().relative_to(repo.work_tree.resolve()).as_posix(),
            repo.work_tree.name,
        )
    with closing(Store(source, inside)) as store:
        found = of_work_tree(store)
        if any(
            basename(record_path(record)) == basename(path)
            for path, record in found.records.items()
        ):
            hint = "filemem export -o FILE there, filemem import filemem FILE here"
            raise BadInput(f"{source} holds a memory of filemem", hint, field="source")
        edges = _edges(found.nodes)
        for one, node in found.nodes.items():
            record = found.by_id[one]
            tags = tuple(dict.fromkeys((*record.tags, *node.path.split("/")[:-1])))
            dated = record._replace(created=node.created or None, tags=tags)
            links = {kind: tuple(dict.fromkeys(edges[one][kind])) for kind in EDGE_KINDS}
            yield item_of(dated, node.path, more=links)._replace(project=project)


def _edges(nodes: Mapping[str, Node]) -> Mapping[str, Mapping[str, list[str]]]:
    """The paths that the edges of each decision lead to, by kind; those that its other end states are among them."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one, node in nodes.items():
        stated = [("supersedes", old) for old in node.supersedes or ()] + [
            edge[:2] for edge in node.edges
        ]
        both = [(one, kind, target) for kind, target in stated]
        both += [(new, "supersedes", one) for new in node.superseded_by]
        both += [(target, "builds_on", one) for kind, target in stated if kind == "built_on_by"]
        for start, kind, target in both:
            if target in nodes:
                edges[start][kind].append(nodes[target].path)
    return edges
