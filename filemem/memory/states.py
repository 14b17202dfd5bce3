"""The memory at the commits that a comparison is about, as far as it needs them.

Rule: the index only says which records belong together. Files in which a commit differs from what is indexed are read
from Git's objects, all at once; for all others the index speaks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from filemem import record
from filemem.chain import Graph
from filemem.documents import Birth, Node, node_of
from filemem.files import MAX_SIZE
from filemem.memory import graph
from filemem.memory.batch import References
from filemem.memory.differing import rows_of
from filemem.memory.store import Store
from filemem.memory.values import Named
from filemem.record import DECISION, Record
from filemem.repo.log import Row
from filemem.repo.revisions import Moment

Wanted = Mapping[str, Collection[str]]  # field of exact terms -> values


class _File(NamedTuple):
    """A file that a commit has and the index has otherwise: its blob, and its path in the index, if it has one."""

    blob: str
    here: str


class States:
    """The memory at the commit where a branch parted, at its end, and as it would be merged.

    Args:
        store: the parts.
        parted, head: the two commits.
        base: what the branch is compared with, for forks that appear only with the merge.
        rows: how `head` differs from `parted`.
    """

    def __init__(self, store: Store, parted: str, head: Moment, base: Moment, rows: Sequence[Row]) -> None:
        here = store.repo.head() or ""
        onwards = {row.path: _File(row.new, row.path) for row in rows if row.status != "D"}
        old = {
            row.before: _File(row.old, row.path if row.status == "R" else row.before)
            for row in rows
            if row.status != "A"
        }
        self.theirs = rows_of(store, parted, base.commit) if base.commit != parted else ()
        if head.commit == here:
            ends, starts = onwards, old
            not_now = {row.path for row in rows if row.status != "D"}
            not_then = set(not_now)
        else:
            ends, not_now = _from(rows_of(store, here, head.commit))
            starts, not_then = _from(rows_of(store, here, parted))
            ends, starts = {**onwards, **ends}, {**old, **starts}
            not_now |= onwards.keys()
            not_then |= old.keys()
        touched = {path for row in rows for path in (row.before, row.path)}
        theirs = {r.path: _File(r.new, r.before) for r in self.theirs if r.status != "D" and r.before not in touched}
        wanted = {file.blob for files in (ends, starts, theirs) for file in files.values()}
        self._present = _Present(store)
        self._store, self._blobs = store, store.repo.revisions.blobs(wanted) if wanted else {}
        paths = {file.here for files in (ends, starts, theirs) for file in files.values()}
        self._births = {node.path: node.birth for node in store.lookup("path", list(paths)) if node.birth.commit}
        start = Moment("", parted, store.repo.revisions.time_of(parted))
        self.before = self._state(starts, not_then, start)
        self.after = self._state(ends, not_now, head)
        gone = {row.before for row in self.theirs if row.before not in touched}
        self.merged = self._state(theirs, gone, base, self.after) if self.theirs else None
        changed = [*self.before.files.values(), *self.after.files.values()]
        self.before.around(changed, store.unrelated)
        self.after.around(changed, store.unrelated)
        if self.merged:
            self.merged.around([*changed, *self.merged.files.values()], store.unrelated)

    def _state(self, files: Mapping[str, _File], hidden: set[str], at: Moment, on: State | None = None) -> State:
        read: dict[str, Record] = {}
        births: dict[str, Birth] = {}
        for path, file in files.items():
            data = self._blobs.get(file.blob)
            births[path] = self._births.get(file.here) or Birth(at.commit, at=at.at, path=path)
            found = (
                record.parse(data, path, births[path].path).record
                if data is not None and len(data) <= MAX_SIZE
                else None
            )
            if found is not None:
                read[path] = found
        hidden = {*hidden, *(on.hidden if on else ())}
        known = {**(on.records if on else {}), **read}
        references = References(self._store, {*hidden, *files}, births)
        references.add(known.values())
        stated = {to for one in read.values() for to in (*one.superseded_by, *(edge.target for edge in one.edges))}
        there = {node.id for node in self._present.lookup({"id": stated}) if node.path not in hidden}

        def resolve(reference: str) -> str | None:
            return reference if reference in there else references.resolve(reference)

        nodes = {path: node_of(one, births[path], resolve) for path, one in read.items()}
        return State(self._present, {**(on.files if on else {}), **nodes}, known, hidden | files.keys())


def _from(rows: Iterable[Row]) -> tuple[dict[str, _File], set[str]]:
    """What a commit has otherwise than the one that is checked out, and what of that one it hides."""
    listed = list(rows)
    files = {row.path: _File(row.new, row.before if row.status != "A" else "") for row in listed if row.status != "D"}
    return files, {row.before for row in listed if row.status != "A"}


class _Present:
    """What the index says, each thing asked of it once for all states that are compared."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, set[str]] = defaultdict(set)
        self._nodes: dict[str, Node] = {}

    def lookup(self, wanted: Wanted) -> list[Node]:
        """The committed nodes with one of the exact terms."""
        new = {field: set(values) - self._asked[field] for field, values in wanted.items()}
        for field, values in new.items():
            self._asked[field] |= values
        found = self._store.lookup_any(new) if any(new.values()) else []
        self._nodes |= {node.path: node for node in found if node.birth.commit}
        return [node for node in self._nodes.values() if node.has_any(wanted)]


class State:
    """The memory at one commit, as far as a comparison needs it.

    Args:
        present: what the index says.
        files: the nodes of files in which the commit differs from the index, by path.
        records: the same files, read.
        hidden: paths for which the index is not to be asked.
    """

    def __init__(
        self, present: _Present, files: Mapping[str, Node], records: Mapping[str, Record], hidden: Iterable[str]
    ) -> None:
        self.files, self.records, self.hidden = files, records, frozenset(hidden)
        self._present = present
        self.nodes: dict[str, Node] = {}
        self.graph: Graph = graph.resolve(())

    def lookup(self, wanted: Wanted) -> list[Node]:
        """The nodes that the commit has with one of the exact terms."""
        kept = [node for node in self._present.lookup(wanted) if node.path not in self.hidden]
        return [*kept, *(node for node in self.files.values() if node.has_any(wanted))]

    def around(self, changed: Iterable[Node], unrelated: graph.Unrelated) -> None:
        """Work out the chains that some records, of this commit or of another, belong to."""
        nodes = [node for node in changed if node.type == DECISION]
        ids = {node.id for node in nodes}
        linked = {target for node in nodes for target in graph.supersession(node)}
        start = self.lookup({"topic": {n.key for n in nodes if n.key}, "id": ids | linked, "ref": ids})
        self.nodes = {node.id: node for node in self.files.values()}
        self.nodes |= graph.gather(self.lookup, start).nodes
        found = [node for node in self.nodes.values() if node.type == DECISION]
        self.graph = graph.resolve(found, unrelated=unrelated)

    def named(self, ids: Iterable[str], earlier: State | None = None) -> tuple[Named, ...]:
        """Titles of records by id, as they are here or were earlier; one that is nowhere is named by its id."""
        nodes = {**earlier.nodes, **self.nodes} if earlier else self.nodes
        return tuple(Named(one, nodes[one].title if one in nodes else one) for one in ids)
