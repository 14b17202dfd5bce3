"""What the work tree has otherwise than HEAD: records that are edited, moved, gone, or left out by a sparse checkout.

Rule: the index speaks of the work tree. What is asked of commits is read from Git wherever the two differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from filemem.documents import Birth
from filemem.memory import moves, obstacles, tombstones
from filemem.memory.names import bare
from filemem.memory.origins import origins
from filemem.memory.store import Store
from filemem.record import names_of, parse


class Unlike(NamedTuple):
    """The records of HEAD for which the index does not speak.

    Args:
        held: blob ids that HEAD has, by path.
        new: paths at which only the work tree has a record.
        births: first commits of `held`, by path.
    """

    held: Mapping[str, str]
    new: frozenset[str]
    births: Mapping[str, Birth]


def unlike(store: Store) -> Unlike:
    """Compare what HEAD has in the store with what is indexed."""
    known, here = store.committed(), store.index.manifest()
    differing = {path: blob for path, blob in known.items() if path not in here or here[path].blob != blob}
    new = frozenset(here.keys() - known.keys())
    if not differing and not new:
        return Unlike({}, new, {})
    nodes = {node.path: node for node in store.lookup("path", [*differing, *new])}
    births = {path: nodes[path].birth for path in differing if path in nodes and nodes[path].birth.commit}
    if births.keys() != differing.keys() or (differing and new):
        births = origins(store).births
    blobs = store.repo.revisions.blobs(differing.values())
    read = (parse(blobs.get(blob, b""), path, births.get(path, Birth()).name) for path, blob in differing.items())
    records = {one.record.path: one.record for one in read if one.record is not None}
    marks = tombstones.at(store, store.repo.head() or "")
    held = {p: b for p, b in differing.items() if p not in records or not tombstones.forgotten(records[p].id, marks)}
    others = known.keys() - differing.keys()
    names = {name for one in (*records.values(), *map(bare, nodes.values())) for _, name in names_of(one)}
    found = store.lookup("refers", names) if others else ()
    referring = {node.path: node for node in found if node.path in others}  # what they mean may be another in HEAD
    births = {**{path: node.birth for path, node in referring.items()}, **births}
    return Unlike({**{path: known[path] for path in referring}, **held}, new, births)


def missed(store: Store) -> str:
    """That records of HEAD are gone from the work tree and what brings them back, or "": they may be what was asked."""
    found = gone(store, store.index.manifest())
    if len(found) == 1:
        return f"1 record is in HEAD and gone from the work tree: {next(iter(found.values()))}"
    return f"{len(found)} records are in HEAD and gone from the work tree: filemem status names them" if found else ""


def gone(store: Store, standing: Collection[str]) -> dict[str, str]:
    """The command that brings each record back that HEAD has and the work tree lost, by path.

    Not what was moved, nor what is staged as removed.

    Args:
        store: the parts.
        standing: the paths at which records stand.
    """
    found = obstacles.lost(store, standing)
    staged = store.repo.index.entries([store.files.store]) if found else {}
    moved = moves.sources(store, standing) if found else ()
    lost = [path for path in found if store.files.named(path) in staged and path not in moved]
    return {path: obstacles.restoring(store, path, staged) for path in lost}
