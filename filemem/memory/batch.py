"""What a look at the files found, read: every document that must be written, those included that other records change.

Rule: of two files with one id the older keeps it, and a record is live or not by all that the store says of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from filemem import changes
from filemem.documents import Birth, Doc, Node, doc_of, node_of
from filemem.memory import graph, tombstones
from filemem.memory.identities import Claim, landing, owners
from filemem.memory.store import Store
from filemem.record import Record, ReferenceIndex, derived_id, reference_index, resolve_reference

KEEP = 20_000  # records held between reading and writing; above this they are read twice instead


class Batch:
    """Reads the changed files and knows every document that must be written.

    Args:
        store: the parts.
        found: what changed.
        births: first commits by path, for every path in `found`.
        gone: records that were taken out of what is found before this look.
    """

    def __init__(
        self,
        store: Store,
        found: Iterable[changes.Change],
        births: Mapping[str, Birth],
        gone: Iterable[Node] = (),
    ) -> None:
        self.store = store
        self._gone = tuple(gone)
        self.changes = {change.path: change for change in found}
        self.births = births
        self.records: dict[str, Record] = {}
        self.nodes: dict[str, Node] = {}
        self.hidden: set[str] = set()  # forgotten, however their files came back
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
        paths = [path for path, change in self.changes.items() if change.entry is not None]
        references = References(self.store, self.changes, self.births)
        records: Iterable[Record | None] = map(self._record, paths)
        read = [record for record in records if record is not None]
        known = self.store.tombstones
        self.hidden = {one.path for one in read if tombstones.forgotten(one.id, known)}
        read = [one for one in read if one.path not in self.hidden]
        references.add(read)
        ids = self._unique_ids(read)
        for record in read:
            birth = self.births.get(record.path, Birth())
            node = node_of(record._replace(id=ids[record.path]), birth, references.resolve)
            if node.id != record.id:
                node = node._replace(open=(*node.open, "id"))
            self.nodes[record.path] = node
            if len(read) <= KEEP:
                self.records[record.path] = record

    def _record(self, path: str) -> Record | None:
        return self.store.read(path, self.births.get(path, Birth()).path).record

    def _unique_ids(self, read: Collection[Record]) -> dict[str, str]:
        """Of two files with one id the older keeps it; the younger is known by one derived from its path."""
        ids = {record.id for record in read}
        others = [n for n in self.store.lookup("id", list(ids)) if n.path not in self.changes and n.id in ids]
        claims = [Claim(r.id, r.path, self.births.get(r.path, Birth()).commit, r.created or 0) for r in read]
        claims += [Claim(node.id, node.path, node.birth.commit, node.created) for node in others]
        owner = owners(claims, landing(self.store.history))
        for node in others:
            if owner[node.id] != node.path:
                self._again(node._replace(id=derived_id(node.path), open=(*node.open, "id")))
        return {r.path: r.id if owner[r.id] == r.path else derived_id(r.path) for r in read}

    def _settle(self) -> None:
        """Work out liveness around everything that changed, and add the documents whose answer flips."""
        before = self.store.lookup("path", list(self.changes)) if self.changes else []
        start = [*self.nodes.values(), *before, *self._gone]
        around = graph.gather(self._lookup, start, self.nodes).nodes
        current = [n for n in around.values() if n.path not in self.changes or self.nodes.get(n.path) is n]
        resolved = graph.resolve(
            {node.path: node for node in (*current, *self.nodes.values())}.values(),
            unrelated=self.store.unrelated,
        )
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
        mine = [node for node in self.nodes.values() if node.has_any(wanted)]
        return [*mine, *(n for n in self.store.lookup_any(wanted) if n.path not in self.changes)]


class References:
    """Resolves references as people write them, against the whole store."""

    def __init__(self, store: Store, changed: Collection[str], births: Mapping[str, Birth]) -> None:
        self._store = store
        self._births = births
        self._changed = changed
        self._mine: set[str] = set()
        self._read: list[Record] = []
        self._all: ReferenceIndex | None = None

    def add(self, read: Iterable[Record]) -> None:
        """Let references point to these records too."""
        self._read = list(read)
        self._mine = {record.id for record in self._read}

    def resolve(self, reference: str) -> str | None:
        """The id that a reference means, or None where nothing in the store answers to it."""
        if reference in self._mine:
            return reference
        if any(
            node.id == reference and node.path not in self._changed for node in self._store.lookup("id", [reference])
        ):
            return reference
        if self._all is None:
            others = [n for n in self._store.nodes() if n.path not in self._changed]
            known = [Record(id=n.id, type=n.type, path=n.path, title=n.title) for n in others]
            earlier = {n.id: n.birth.path for n in others if n.birth.path not in ("", n.path)}
            earlier |= {r.id: b.path for r in self._read if (b := self._births.get(r.path)) and b.path != r.path}
            before = [Record(id=one, type="", path=path) for one, path in earlier.items()]  # names files had once
            self._all = reference_index([*self._read, *known, *before])
        return resolve_reference(reference, self._all)
