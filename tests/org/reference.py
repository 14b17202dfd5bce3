"""The engine in memory, made of `Index`: what PostgreSQL must answer like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filemem.changes import ADDED, Change, Entry
from filemem.errors import NotFound
from filemem.index import Counts, Doc, Index, Row, addressed
from filemem.index.vectors import embed
from filemem.index.words import tokens_of
from filemem.org.engine import EVERYBODY, Details, Nominee, Repository
from filemem.query import Filter, Provenance, Terms
from tests.org.conftest import MODEL


class Reference:
    """Repositories, each with the documents in it and who wrote them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.access = folder, dict[str, set[str]]()
        self.shelves: dict[int, ReferenceShelf] = {}

    def add(self, sources: Mapping[str, str]) -> int:
        known = {one.repository.name for one in self.shelves.values()}
        for name in sources.keys() - known:
            number = len(self.shelves) + 1
            self.shelves[number] = ReferenceShelf(Repository(number, name, sources[name]))
        return len(sources.keys() - known)

    def repositories(self) -> list[Repository]:
        return sorted((one.repository for one in self.shelves.values()), key=lambda one: one.name)

    @contextmanager
    def taking(self, number: int) -> Iterator[ReferenceShelf | None]:
        yield self.shelves.get(number)

    def fail(self, number: int, reason: str) -> None:
        shelf = self.shelves[number]
        shelf.repository = shelf.repository._replace(failed=reason)

    def drop(self, name: str) -> None:
        number = next((one.number for one in self.repositories() if one.name == name), None)
        if number is None:
            raise NotFound(f"no repository {name!r}")
        del self.shelves[number]

    def purge(self, record_id: str) -> int:
        gone = [
            (shelf, path)
            for shelf in self.shelves.values()
            for path, doc in shelf.docs.items()
            if doc.node.id == record_id
        ]
        for shelf, path in gone:
            del shelf.docs[path]
        return len(gone)

    @contextmanager
    def reading(self, principal: str) -> Iterator[ReferenceReader]:
        names = (
            self.access.get(principal, set()) | self.access.get(EVERYBODY, set())
            if principal
            else set()
        )
        yield ReferenceReader(
            [one for one in self.shelves.values() if one.repository.name in names], self.folder
        )


class ReferenceShelf:
    """One repository."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.docs: dict[str, Doc] = {}
        self.who: dict[str, Provenance] = {}

    def kept(self) -> dict[str, tuple[str, str]]:
        return {path: (doc.blob, doc.node.id) for path, doc in self.docs.items()}

    def put(self, changes: Mapping[str, Doc | None], first: Mapping[str, Provenance]) -> None:
        for path, doc in changes.items():
            self.docs.pop(path, None)
            if doc:
                self.docs[path] = doc
                self.who.setdefault(doc.node.id, first.get(path, Provenance()))

    def done(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        passages = sum(max(1, len(doc.passages)) for doc in self.docs.values())
        self.repository = self.repository._replace(
            head=head,
            store=store,
            words=words,
            seen_at=1,
            failed="",
            records=len(self.docs),
            passages=passages,
        )

    def rows(self) -> list[Row]:
        index = Index(
            None, None, lambda paths: {p: self.who[self.docs[p].node.id].date or 0 for p in paths}
        )
        changes = [Change(ADDED, path, Entry(doc.blob)) for path, doc in self.docs.items()]
        index.apply(changes, self.docs.get)
        rows = index.rows("path", list(self.docs))
        index.close()
        return rows


class ReferenceReader:
    """Everything that may be seen, by one index."""

    def __init__(self, shelves: Collection[ReferenceShelf], folder: Path) -> None:
        self._shelves = {one.repository.number: one for one in shelves}
        self._rows = [
            (n, row, addressed(n, row)) for n, one in self._shelves.items() for row in one.rows()
        ]
        self._docs = {
            row.written.path: self._shelves[n].docs[plain.written.path]
            for n, plain, row in self._rows
        }
        self._index = Index(folder / f"{len(list(folder.iterdir()))}", MODEL)
        docs = {
            path: doc._replace(path=path, node=doc.node._replace(path=path))
            for path, doc in self._docs.items()
        }
        entries = {path: Entry(doc.blob) for path, doc in docs.items()}
        self._index.apply([Change(ADDED, *each) for each in entries.items()], docs.get, anew=True)

    def repositories(self) -> list[Repository]:
        return sorted((one.repository for one in self._shelves.values()), key=lambda one: one.name)

    def statistics(self, terms: Collection[tuple[str, str]]) -> Counts:
        raise NotImplementedError("the index counts for itself here")

    def nominate(
        self, words: Mapping[str, float], vector: Sequence[float] | None, wanted: Filter, depth: int
    ) -> list[Nominee]:
        text = " ".join(word for word in words if word.isalnum())
        terms = Terms(words=tuple(text.split()), text=text)
        plain = wanted._replace(live=False)
        found = self._index.candidates(
            terms, plain, depth, mode="hybrid" if vector else "keyword"
        ).candidates
        rows = {
            row.written.path: row
            for _, _, row in self._rows
            if row.visible and (row.live or not wanted.live)
        }
        first: dict[str, Nominee] = {}
        for one in sorted(found, key=lambda one: one.path):
            doc = self._docs[one.path]
            if one.path in rows:
                row = rows[one.path]
                vectors = embed({row.number: doc}, MODEL.table)
                first.setdefault(doc.blob, Nominee(row, tokens_of(doc), vectors))
        return list(first.values())

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        wanted = {*values}
        return [
            row
            for n, plain, row in self._rows
            if wanted & {f"{n} {one}" for one in plain.values(field)}
        ]

    def named(self, names: Collection[str]) -> list[Row]:
        return [
            row
            for _, plain, row in self._rows
            if row.visible and {*names} & {*plain.values("name")}
        ]

    def details(self, paths: Collection[str]) -> dict[str, Details]:
        found = {}
        for number, plain, row in self._rows:
            if row.written.path in paths:
                shelf, doc = self._shelves[number], self._docs[row.written.path]
                others = {
                    self._shelves[n].repository.name
                    for n, _, r in self._rows
                    if r.blob == row.blob and n != number
                }
                who = shelf.who[plain.written.id]
                found[row.written.path] = Details(
                    doc.card, who, shelf.repository, tuple(sorted(others))
                )
        return found
