"""What a look at the files found, read: every document that must be written, those included that other records change.

Rule: of two files with one id the older keeps it, and a record is live or not by all that the store says of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from filemem import changes
from filemem.documents import Birth, Doc, Node, doc_of, having, node_of
from filemem.memory import graph, names, tombstones
from filemem.memory.identities import Claim, known_as, landing
from filemem.memory.store import Store
from filemem.record import DECISION, Record

KEEP = 20_000  # records held between reading and writing; above this they are read twice instead


class Batch:
    """Reads the changed files and knows every document that must be written.

    Args:
        store: the parts.
        found: what changed.
        births: first commits by path, for every path in `found`.
    """

    def __init__(self, store: Store, found: Iterable[changes.Change], births: Mapping[str, Birth]) -> None:
        self.store = store
        self._replaced = tuple(map(Node.loads, store.index.replaced_nodes()))  # as they were before saves that wait
        self.changes = {change.path: change for change in found}
        self.births = dict(births)
        self.records: dict[str, Record] = {}
        self.nodes: dict[str, Node] = {}
        self.hidden: set[str] = set()  # forgotten, however their files came back
        self._before = {node.path: node for node in store.lookup("path", list(self.changes))} if self.changes else {}
        self._read()
        for path in self.changes.keys() - self.nodes.keys():
            # Gone since it was listed, if only for a moment: the next look must find it new.
            self.changes[path] = changes.Change(changes.REMOVED, path, None)
        self._settle()

    def load(self, path: str) -> Doc | None:
        """Make the document for a path; None where the file cannot be read or is gone."""
        node = self.nodes.get(path)
        record = self.records.get(path) or (self._record(path) if node else None)
        entry = self.changes[path].entry
        if node is None or record is None or entry is None:
            return None
        return doc_of(record._replace(id=node.id), entry.blob, node)

    def _read(self) -> None:
        known = self.store.tombstones
        read = self._found(self.changes)
        self.hidden = {one.path for one in read if tombstones.forgotten(one.id, known)}
        read = [one for one in read if one.path not in self.hidden]
        ids = self._settled_ids(read)
        self.hidden |= {one.path for one in read if tombstones.forgotten(ids[one.path], known)}
        read = [one for one in read if one.path not in self.hidden]
        if referring := self._taken_in(self._referring([one._replace(id=ids[one.path]) for one in read])):
            read += referring
            ids = self._ids(read)
        references = References(self.store, self.changes, self.births)
        references.add(one._replace(id=ids[one.path]) for one in read)
        for record in read:
            birth = self.births.get(record.path, Birth())
            node = node_of(record._replace(id=ids[record.path]), birth, partial(references.resolve, path=record.path))
            if node.id != record.id:
                node = node._replace(open=(*node.open, "id"))
            self.nodes[record.path] = node
            if len(read) <= KEEP:
                self.records[record.path] = record

    def _found(self, paths: Iterable[str]) -> list[Record]:
        """The records that stand at some of the paths that are looked at."""
        standing = [path for path in paths if self.changes[path].entry is not None]
        return [record for path in standing if (record := self._record(path)) is not None]

    def _record(self, path: str) -> Record | None:
        return self.store.read(path, self.births.get(path, Birth()).name).record

    def _settled_ids(self, read: list[Record]) -> dict[str, str]:
        """The ids of what was read, by path. Read too is what loses its id to that."""
        ids = self._ids(read)
        lost = {record.id for record in read if ids[record.path] != record.id}
        lost |= {node.id for path, node in self._before.items() if ids.get(path, node.id) != node.id}
        losers = self._taken_in(self.store.lookup("id", lost))
        read += losers
        return self._ids(read) if losers else ids

    def _referring(self, read: Collection[Record]) -> list[Node]:
        """What refers to a name that records took or gave up since it was read: the name may mean another by now.

        Args:
            read: the records that are looked at, under the ids that are their own.
        """
        if self.changes.keys() >= self.store.index.manifest().keys():
            return []
        told = {path: node for path, node in self._before.items() if path in self.changes}
        for path in self.store.index.waiting():
            told.pop(path, None)
        told |= {node.path: node for node in self._replaced if node.path in self.changes}
        return self.store.lookup("refers", names.changed(told.values(), read, self.births))

    def _taken_in(self, nodes: Iterable[Node]) -> list[Record]:
        """Look at these files too, whose bytes are the same, and read them."""
        nodes = [node for node in nodes if node.path not in self.changes]
        listed = self.store.index.manifest() if nodes else {}
        more = {node.path: node for node in nodes if node.path in listed}
        self.changes |= {path: changes.Change(changes.MODIFIED, path, listed[path]) for path in more}
        self.births |= {path: node.birth for path, node in more.items()}
        self._before |= more
        return self._found(more)

    def _ids(self, read: Iterable[Record]) -> dict[str, str]:
        claims = [Claim.of(record, self.births.get(record.path, Birth())) for record in read]
        ids = {claim.id for claim in claims}
        others = [n for n in self.store.lookup("id", list(ids)) if n.path not in self.changes and n.id in ids]
        self._before |= {node.path: node for node in others}
        return known_as([*claims, *map(Claim.by, others)], landing(self.store, self.store.history))

    def _settle(self) -> None:
        """Work out liveness around everything that changed, and add the documents whose answer flips."""
        start = [*self.nodes.values(), *self._before.values(), *self._replaced]
        around = graph.gather(self._lookup, start, self.nodes).nodes
        current = [n for n in around.values() if n.path not in self.changes or self.nodes.get(n.path) is n]
        # Decisions alone, as questions gather them: one that names an observation is told alike by both.
        decisions = {node.path: node for node in (*current, *self.nodes.values()) if node.type == DECISION}
        resolved = graph.resolve(decisions.values(), unrelated=self.store.unrelated)
        for path, node in self.nodes.items():
            self.nodes[path] = node._replace(live=graph.is_live(resolved, node))
        for node in current:
            if node.path not in self.changes and node.live != graph.is_live(resolved, node):
                self._again(node._replace(live=not node.live))

    def _again(self, node: Node) -> None:
        entry = self.store.index.manifest().get(node.path)
        if entry is not None:
            self.changes[node.path] = changes.Change(changes.MODIFIED, node.path, entry)
            self.nodes[node.path] = node

    def _lookup(self, wanted: Mapping[str, Collection[str]]) -> list[Node]:
        """What the index knows, and what this batch knows better."""
        mine = having(self.nodes.values(), wanted)
        return [*mine, *(n for n in self.store.lookup_any(wanted) if n.path not in self.changes)]


class References:
    """Resolves references as people write them, against the whole store."""

    def __init__(self, store: Store, changed: Collection[str], births: Mapping[str, Birth]) -> None:
        self._store = store
        self._births = births
        self._changed = changed
        self._mine: set[str] = set()
        self._read: list[Record] = []
        self._names: names.Names | None = None

    def add(self, read: Iterable[Record]) -> None:
        """Let references point to these records too."""
        self._read = list(read)
        self._mine = {record.id for record in self._read}

    def resolve(self, reference: str, path: str) -> str | None:
        """The id that a reference of the record at `path` means, or None where nothing in the store answers to it."""
        if reference in self._mine:
            return reference
        if any(
            node.id == reference and node.path not in self._changed for node in self._store.lookup("id", [reference])
        ):
            return reference
        if self._names is None:
            others = [n for n in self._store.nodes() if n.path not in self._changed]
            known = map(names.bare, others)
            births = {**self._births, **{n.path: n.birth for n in others}}
            self._names = names.Names(self._store, [*self._read, *known], births)
        return self._names.resolve(reference, path)
