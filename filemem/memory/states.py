"""The memory at the commits that a comparison is about, as far as it needs them.

Rule: the index only says which records belong together. Files in which a commit differs from what is indexed are read
from Git's objects, all at once, also where only the work tree differs; for all others the index speaks.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from filemem import record
from filemem.chain import Graph
from filemem.documents import Birth, Node, having, node_of
from filemem.files import MAX_SIZE
from filemem.memory import graph
from filemem.memory.batch import References
from filemem.memory.differing import rows_of
from filemem.memory.identities import Claim, Landing, known_as, landing
from filemem.memory.origins import origins, shared
from filemem.memory.store import Store
from filemem.memory.uncommitted import unlike
from filemem.memory.values import Named
from filemem.record import DECISION, Problem, Record
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
        apart = unlike(store)
        at_here = {path: _File(blob, path) for path, blob in apart.held.items()}
        ends = {**{path: file for path, file in at_here.items() if path not in not_now}, **ends}
        starts = {**{path: file for path, file in at_here.items() if path not in not_then}, **starts}
        not_now |= apart.new
        not_then |= apart.new
        touched = {path for row in rows for path in (row.before, row.path)}
        theirs = {r.path: _File(r.new, r.before) for r in self.theirs if r.status != "D" and r.before not in touched}
        wanted = {file.blob for files in (ends, starts, theirs) for file in files.values()}
        self._present, self._taken = _Present(store), shared(store)
        self._store, self._blobs = store, store.repo.revisions.blobs(wanted) if wanted else {}
        if absent := wanted - self._blobs.keys():
            store.repo.revisions.refuse_absent(absent)
        paths = {file.here for files in (ends, starts, theirs) for file in files.values()}
        self._births = {node.path: node.birth for node in store.lookup("path", list(paths)) if node.birth.commit}
        self._births |= {path: birth for path, birth in apart.births.items() if path in paths}
        start = Moment("", parted, store.repo.revisions.time_of(parted))
        self._walked: dict[str, Mapping[str, Birth]] = {}
        at = store.repo.history_at
        self.before = self._state(starts, not_then, start, landing(store, at(parted)))
        self.after = self._state(ends, not_now, head, landing(store, at(parted), at(head.commit)))
        gone = {row.before for row in self.theirs if row.before not in touched}
        order = landing(store, at(base.commit), at(head.commit))
        self.merged = self._state(theirs, gone, base, order, self.after) if self.theirs else None
        changed = [*self.before.files.values(), *self.after.files.values()]
        self.before.around(changed, store.unrelated)
        self.after.around(changed, store.unrelated)
        if self.merged:
            self.merged.around([*changed, *self.merged.files.values()], store.unrelated)

    def _state(
        self, files: Mapping[str, _File], hidden: set[str], at: Moment, order: Landing, on: State | None = None
    ) -> State:
        read: dict[str, Record] = {}
        births = dict(on.births) if on else {}
        problems: dict[str, Sequence[Problem]] = {}
        for path, file in files.items():
            data = self._blobs.get(file.blob)
            births[path] = self._birth(file, path, at)
            if data is None or len(data) > MAX_SIZE:
                continue
            found = record.parse(data, path, births[path].name)
            problems[path] = found.problems
            if found.record is not None:
                read[path] = found.record
        kept = {path: one for path, one in on.stated.items() if path not in hidden} if on else {}
        stated = {**kept, **read}
        hidden = {*hidden, *files, *(on.hidden if on else ())}
        ids = self._ids(stated, births, hidden, order)
        known = {path: one._replace(id=ids[path]) for path, one in stated.items()}
        references = References(self._store, hidden, births)
        references.add(known.values())
        named = {to for one in read.values() for to in (*one.superseded_by, *(edge.target for edge in one.edges))}
        there = {node.id for node in self._present.lookup({"id": named}) if node.path not in hidden}

        def resolve(reference: str, path: str) -> str | None:
            return reference if reference in there else references.resolve(reference, path)

        nodes = {path: node_of(known[path], births[path], partial(resolve, path=path)) for path in read}
        earlier = {path: on.files[path]._replace(id=known[path].id) for path in kept} if on else {}
        return State(self._present, {**earlier, **nodes}, known, hidden, ids, stated, births, problems)

    def _birth(self, file: _File, path: str, at: Moment) -> Birth:
        """The first commit of a file as a commit has it: not that of another which has its name now."""
        if path in self._taken and file.here == path:
            if at.commit not in self._walked:
                self._walked[at.commit] = origins(self._store, tip=at.commit).births
            if path in self._walked[at.commit]:
                return self._walked[at.commit][path]
        return self._births.get(file.here) or Birth(at.commit, at=at.at, path=path)

    def _ids(
        self, stated: Mapping[str, Record], births: Mapping[str, Birth], hidden: Collection[str], order: Landing
    ) -> dict[str, str]:
        """The ids of files that may claim the same, by path; as the index would have it at that commit."""
        claims = [Claim.of(one, births[path]) for path, one in stated.items()]
        present = self._present.lookup({"id": {claim.id for claim in claims} | self._present.contested})
        return known_as([*claims, *(Claim.by(node) for node in present if node.path not in hidden)], order)


def _from(rows: Iterable[Row]) -> tuple[dict[str, _File], set[str]]:
    """What a commit has otherwise than the one that is checked out, and what of that one it hides."""
    listed = list(rows)
    files = {row.path: _File(row.new, row.before if row.status != "A" else "") for row in listed if row.status != "D"}
    return files, {row.before for row in listed if row.status != "A"}


class _Present:
    """What the index says, each thing asked of it once for all states that are compared.

    Files whose id belongs to another have the one that they state: whose it is differs from state to state.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[str, set[str]] = defaultdict(set)
        read = {node: store.read(node.path, node.birth.name).record for node in store.lookup("open", ["id"])}
        self._stated = {node.path: node._replace(id=one.id) for node, one in read.items() if one is not None}
        self._nodes = {path: node for path, node in self._stated.items() if node.birth.commit}
        self.contested = {node.id for node in self._stated.values()}

    def lookup(self, wanted: Wanted) -> list[Node]:
        """The committed nodes with one of the exact terms."""
        new = {field: set(values) - self._asked[field] for field, values in wanted.items()}
        for field, values in new.items():
            self._asked[field] |= values
        found = self._store.lookup_any(new) if any(new.values()) else []
        self._nodes |= {node.path: self._stated.get(node.path, node) for node in found if node.birth.commit}
        return having(self._nodes.values(), wanted)


class State:
    """The memory at one commit, as far as a comparison needs it.

    Args:
        present: what the index says.
        files: the nodes of files in which the commit differs from the index, by path.
        records: the same files, read.
        hidden: paths for which the index is not to be asked.
        ids: of these files, and of others that claim one of theirs, by path.
        stated: the records with the ids that they state.
        births: their first commits.
        problems: what is wrong with these files, by path.
    """

    def __init__(
        self,
        present: _Present,
        files: Mapping[str, Node],
        records: Mapping[str, Record],
        hidden: Iterable[str],
        ids: Mapping[str, str],
        stated: Mapping[str, Record],
        births: Mapping[str, Birth],
        problems: Mapping[str, Sequence[Problem]],
    ) -> None:
        self.files, self.records, self.hidden = files, records, frozenset(hidden)
        self.stated, self.births, self.problems = stated, births, problems
        self._present, self._ids = present, ids
        self.nodes: dict[str, Node] = {}
        self.graph: Graph = graph.resolve(())

    def lookup(self, wanted: Wanted) -> list[Node]:
        """The nodes that the commit has with one of the exact terms."""
        kept = [node for node in self._present.lookup(wanted) if node.path not in self.hidden]
        named = (node._replace(id=self._ids.get(node.path, node.id)) for node in kept)
        return having((*named, *self.files.values()), wanted)

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
        nodes = ChainMap(self.nodes, earlier.nodes) if earlier else self.nodes
        return tuple(Named(one, nodes[one].title if one in nodes else one) for one in ids)
