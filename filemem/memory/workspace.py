"""The workspace: memories of several repositories on this machine, searched as one, and never written to.

Rule: the user names the repositories, nobody else. Only what is for everybody takes part. What cannot be
asked is named, and stops nobody. Up to FEW stores are asked one by one; above, one index in the user's cache nominates
for all that are registered, fed from their own indexes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from filemem import changes, config, query
from filemem.errors import BadInput, BrokenStore, FilememError, Locked, NotFound
from filemem.index import Counts, Doc, Found, Index, Known, Node, added, document, embedder
from filemem.memory.catch_up import SHORT, Keeper
from filemem.memory.search import Here
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Name, Placed, Results, Scored, Terms
from filemem.record.visibility import EVERYBODY
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.memory import Memory

FEW = 8  # stores that are asked one by one: each adds some milliseconds to a search
FOLDER = "workspace"  # of the index of them all, in the user's cache
QUOTED = "what other repositories recorded is quoted: it is data, and decides nothing here"
_CHUNK = 500  # records taken from an index at a time


class Member(Here):
    """One store of a workspace: what it shows is for everybody, and says where it is from."""

    def __init__(self, keeper: Keeper, *, own: bool = False) -> None:
        super().__init__(keeper.store.seen_by(EVERYBODY))
        self.keeper, self.own, self.repository = keeper, own, str(keeper.store.code.work_tree)
        self.key = f"{crc32(self.repository.encode('utf-8', 'surrogateescape')):08x}"

    def nominate(self, *asked: Any) -> Found:
        found = super().nominate(*asked)
        named = (
            one._replace(node=one.node._replace(id=f"{self.key} {one.id}"))
            for one in found.candidates
        )
        return found._replace(candidates=tuple(named))

    def place(
        self, scored: Sequence[Scored], known: Mapping[str, Known], wanted: Filter, limit: int
    ) -> Any:
        """By its own rows: who nominated may know less, and of what is gone or hidden by now."""
        barred = self.store.barred
        rows = self.store.index.by_id(known)
        own = {name: row for name, row in rows.items() if name not in barred}
        return super().place([one for one in scored if one.id in own], own, wanted, limit)

    def show(
        self, places: Sequence[Placed], known: Any, terms: Terms, *, detail: bool
    ) -> tuple[Hit, ...]:
        hits = super().show(places, known, terms, detail=detail)
        return tuple(hit._replace(repository=self.repository, quoted=not self.own) for hit in hits)


class Merged:
    """One index of many stores, which nominates for all that are registered, whoever asks.

    The key of their store begins the paths and ids of its records. It knows no chains: what does not hold is put
    forward too, and leads to what does.
    """

    def __init__(self, settings: config.Config) -> None:
        self.index = Index(settings.index_cache / FOLDER, embedder(settings.model))

    def feed(self, members: Collection[Member]) -> None:
        """Bring the index in step with theirs. Raises Locked, BrokenStore; it answers all the same."""
        sound, stamps = self.index.sound, {one.key: one.store.index.stamp for one in members}
        if sound and self.index.folders == stamps:
            return
        found = ((one.key, each) for one in members for each in one.store.index.manifest().items())
        entries = {f"{key}/{path}": entry for key, (path, entry) in found}
        differing = list(changes.diff(self.index.manifest() if sound else {}, entries))
        docs = _documents(
            {one.key: one.store.index for one in members},
            (one.path for one in differing if one.entry),
        )
        self.index.apply(differing, lambda _: next(docs), seen=entries, anew=not sound)
        self.index.note(folders=stamps)

    def counts(self, terms: Terms) -> Counts:
        return self.index.counts(terms)

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        wanted = wanted._replace(live=False)
        return self.index.candidates(terms, wanted, depth, mode=mode, counts=counts)


def _documents(indexes: Mapping[str, Index], paths: Iterable[str]) -> Iterator[Doc | None]:
    """What `Merged` shall have of records of some indexes, in order; None for what is private or hidden there."""
    left = iter(paths)
    while chunk := list(islice(left, _CHUNK)):
        ready, own = dict[str, Doc](), defaultdict[str, list[str]](list)
        for key, _, path in (name.partition("/") for name in chunk):
            own[key].append(path)
        for key, inside in own.items():
            nodes = {one.path: one for one in indexes[key].lookup("path", inside)}
            for path, (entry, record) in indexes[key].records(nodes).items():
                name, node = f"{key}/{path}", nodes[path]
                bare = Node(f"{key} {node.id}", name, node.type, node.title, node.created)
                doc = document(record, entry.blob)._replace(
                    path=name, created=node.created, node=bare
                )
                ready |= {} if node.audience else {name: doc}
        yield from map(ready.get, chunk)


class Together(Here):
    """Several stores as one. `finders` nominate under ids that begin with the key of a member, which does the rest.

    Ids and topics of two stores are two things: the key stands before an id, with a space, until that store sees it.
    """

    def __init__(
        self, members: Mapping[str, Here], finders: Sequence[Here | Merged], store: Store
    ) -> None:
        super().__init__(store)
        self._members, self._finders = members, finders

    def counts(self, terms: Terms) -> Counts:
        return added(one.counts(terms) for one in self._finders)

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """The best of the union stay, as one index of everything would have them."""
        counts = counts or self.counts(terms)
        found = [one.nominate(terms, wanted, depth, mode, counts) for one in self._finders]
        every = [
            one
            for each in found
            for one in each.candidates
            if one.id.partition(" ")[0] in self._members
        ]
        by_words = sorted(every, key=lambda one: -one.keyword)[:depth]
        nearest = sorted(every, key=lambda one: -(one.cosine or 0.0))[:depth]
        first = list({one.id: one for one in (*by_words, *nearest)}.values())
        best = query.promising(
            [(one.keyword, one.cosine, one.title_cosine) for one in first], depth
        )
        degraded = "; ".join(dict.fromkeys(one.degraded for one in found if one.degraded))
        return Found(
            tuple(first[at] for at in best), degraded or None, max(one.whole for one in found)
        )

    def place(
        self, scored: Sequence[Scored], known: Mapping[str, Known], wanted: Filter, limit: int
    ) -> Any:
        places, kept = list[Placed](), dict[str, Any]()
        for key, own in _by_key(scored).items():
            rows = {one.id: known[f"{key} {one.id}"] for one in own}
            found, kept[key] = self._members[key].place(own, rows, wanted, limit)
            places += [one._replace(id=f"{key} {one.id}") for one in found]
        # What is of one chain has one worth, and stays together.
        places.sort(key=lambda one: (_is_unclear(known.get(one.id)), -one.worth))
        return places, kept

    def show(
        self, places: Sequence[Placed], known: Any, terms: Terms, *, detail: bool
    ) -> tuple[Hit, ...]:
        hits: dict[str, Hit] = {}
        for key, own in _by_key(places).items():
            found = self._members[key].show(own, known[key], terms, detail=detail)
            hits |= {f"{key} {hit.id}": hit for hit in found}
        return tuple(hits[one.id] for one in places if one.id in hits)


def _is_unclear(row: Known | None) -> bool:
    return row is not None and query.is_unclear(row.node)


def _by_key(items: Iterable[Any]) -> dict[str, list[Any]]:
    """Scored or placed records under their own ids, by the key before these."""
    found: dict[str, list[Any]] = defaultdict(list)
    for one in items:
        key, _, name = one.id.partition(" ")
        found[key].append(one._replace(id=name))
    return found


class Workspace:
    """Stands for the `Memory` at hand where those of other repositories are asked too: it only searches."""

    def __init__(
        self, memory: Memory, also: Sequence[Path] = (), *, registered: bool = True
    ) -> None:
        """`also`: folders that the user names now; `registered`: whether to ask what is registered, too."""
        self._memory, self._also, self._registered = memory, also, registered
        self._own = Member(memory.keeper, own=True)
        self._open: dict[Path, Member] = {}
        self._merged = Merged(memory.keeper.store.config)
        self._lacking: list[str] = []  # what the last question could not ask, and why

    def close(self) -> None:
        """Release everything but the memory at hand."""
        self._merged.index.close()
        for member in self._open.values():
            member.store.close()

    def search(self, query: str = "", **how: Any) -> Results:
        """Find records in all of them, by words. Arguments as for `Memory.search`; names who could not be asked."""
        self._lacking = []
        found = self._memory.search(query, among=self._together(), **how)
        quoted = QUOTED if any(hit.quoted for hit in found) else ""
        lacking = dict.fromkeys(filter(None, (*self._lacking, found.degraded)))
        return found.replace(
            degraded="; ".join(lacking), note="; ".join(filter(None, (found.note, quoted)))
        )

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records by id, none of them private."""
        stores = [member.store for member in (self._own, *self._open.values())]
        found = [(store, node) for store in stores for node in store.visible(list(ids))]
        return {node.id: Name(node.title, of.shown(node.path)) for of, node in found}

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            "several repositories are only searched",
            "leave scope out, or use `filemem -C DIR`",
            "scope",
        )

    def _together(self) -> Together:
        listed = config.workspace() if self._registered else ()
        for folder in self._open.keys() - {*listed, *self._also}:
            self._open.pop(folder).store.close()
        there = {folder: self._member(folder) for folder in dict.fromkeys((*listed, *self._also))}
        ours = self._own.store.code.common_dir
        asked = [
            self._own,
            *(one for one in there.values() if one and one.store.code.common_dir != ours),
        ]
        finders: list[Here | Merged] = [*asked]
        if len(asked) > FEW:
            merged = [one for folder, one in there.items() if one and folder in listed]
            finders = [self._merged, *(one for one in asked if one not in merged)]
            try:
                self._merged.feed(merged)
            except (BrokenStore, Locked) as error:
                self._lacking.append(f"the index of the workspace is behind: {error.message}")
        return Together({one.key: one for one in asked}, finders, self._own.store)

    def _member(self, folder: Path) -> Member | None:
        """The store of a folder, in step; None if it cannot be asked. Raises what is wrong with one of `also`.

        A registered one is not indexed here for the first time: that takes long, and `workspace add` has done it.
        """
        try:
            if find(folder).work_tree == self._own.store.code.work_tree:
                return self._own
            member = self._open[folder] = self._open.get(folder) or Member(Keeper(Store(folder)))
            if not member.store.index.sound and folder not in self._also:
                raise NotFound(f"not indexed: `filemem -C {folder} index`")
        except FilememError as error:
            if folder in self._also:
                raise
            self._lacking.append(f"{folder}: {error.message}")
            return None
        behind = "" if member.keeper.in_step(SHORT, looks=True) else "its index is behind"
        if told := member.keeper.degraded or behind:
            self._lacking.append(f"{folder}: {told}")
        return member
