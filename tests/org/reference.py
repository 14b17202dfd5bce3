"""The engine in memory, made of `Index`: what PostgreSQL must answer like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filemem.changes import ADDED, Change, Entry
from filemem.errors import NotFound
from filemem.index import Doc, Index, Row, TermCounts, add_store_prefix
from filemem.index.vectors import embed_documents
from filemem.index.words import tokenize_document
from filemem.org.engine import EVERYBODY, Details, Nominee, Repository
from filemem.query import Filter, Provenance, Terms
from tests.org.conftest import MODEL


class Reference:
    """Repositories, each with the documents in it and who wrote them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.access = folder, dict[str, set[str]]()
        self.shelves: dict[int, ReferenceShelf] = {}

    def add_repositories(self, sources: Mapping[str, str]) -> int:
        known = {one.repository.name for one in self.shelves.values()}
        for name in sources.keys() - known:
            number = len(self.shelves) + 1
            self.shelves[number] = ReferenceShelf(Repository(number, name, sources[name]))
        return len(sources.keys() - known)

    def list_repositories(self) -> list[Repository]:
        return sorted((one.repository for one in self.shelves.values()), key=lambda one: one.name)

    @contextmanager
    def lock_shelf(self, number: int) -> Iterator[ReferenceShelf | None]:
        yield self.shelves.get(number)

    def note_failure(self, number: int, reason: str) -> None:
        shelf = self.shelves[number]
        shelf.repository = shelf.repository._replace(failure=reason)

    def drop_repository(self, name: str) -> None:
        number = next((one.number for one in self.list_repositories() if one.name == name), None)
        if number is None:
            raise NotFound(f"no repository {name!r}")
        del self.shelves[number]

    def purge_record(self, record_id: str) -> int:
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
    def open_reader(self, principal: str) -> Iterator[ReferenceReader]:
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

    def read_manifest(self) -> dict[str, tuple[str, str]]:
        return {path: (doc.blob, doc.node.id) for path, doc in self.docs.items()}

    def put(
        self, changes: Mapping[str, Doc | None], first_authors: Mapping[str, Provenance]
    ) -> None:
        for path, doc in changes.items():
            self.docs.pop(path, None)
            if doc:
                self.docs[path] = doc
                self.who.setdefault(doc.node.id, first_authors.get(path, Provenance()))

    def note_state(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        passages = sum(max(1, len(doc.passages)) for doc in self.docs.values())
        self.repository = self.repository._replace(
            head=head,
            store=store,
            words=words,
            seen_at=1,
            failure="",
            records=len(self.docs),
            passages=passages,
        )

    def rows(self) -> list[Row]:
        index = Index(
            None, None, lambda paths: {p: self.who[self.docs[p].node.id].date or 0 for p in paths}
        )
        changes = [Change(ADDED, path, Entry(doc.blob)) for path, doc in self.docs.items()]
        index.apply_changes(changes, self.docs.get)
        rows = index.read_rows("path", list(self.docs))
        index.close()
        return rows


class ReferenceReader:
    """Everything that may be seen, by one index."""

    def __init__(self, shelves: Collection[ReferenceShelf], folder: Path) -> None:
        self._shelves = {one.repository.number: one for one in shelves}
        self._rows = [
            (n, row, add_store_prefix(n, row))
            for n, one in self._shelves.items()
            for row in one.rows()
        ]
        self._docs = {
            row.raw_node.path: self._shelves[n].docs[plain.raw_node.path]
            for n, plain, row in self._rows
        }
        self._index = Index(folder / f"{len(list(folder.iterdir()))}", MODEL)
        docs = {
            path: doc._replace(path=path, node=doc.node._replace(path=path))
            for path, doc in self._docs.items()
        }
        entries = {path: Entry(doc.blob) for path, doc in docs.items()}
        self._index.apply_changes(
            [Change(ADDED, *each) for each in entries.items()], docs.get, rebuild=True
        )

    def list_repositories(self) -> list[Repository]:
        return sorted((one.repository for one in self._shelves.values()), key=lambda one: one.name)

    def count_terms(self, terms: Collection[tuple[str, str]]) -> TermCounts:
        raise NotImplementedError("the index counts for itself here")

    def nominate(
        self, words: Mapping[str, float], vector: Sequence[float] | None, wanted: Filter, depth: int
    ) -> list[Nominee]:
        text = " ".join(word for word in words if word.isalnum())
        terms = Terms(words=tuple(text.split()), text=text)
        plain = wanted._replace(live=False)
        found = self._index.search_candidates(
            terms, plain, depth, mode="hybrid" if vector else "keyword"
        ).candidates
        rows = {
            row.raw_node.path: row
            for _, _, row in self._rows
            if row.is_visible and (row.is_live or not wanted.live)
        }
        first: dict[str, Nominee] = {}
        for one in sorted(found, key=lambda one: one.path):
            doc = self._docs[one.path]
            if one.path in rows:
                row = rows[one.path]
                vectors = embed_documents({row.number: doc}, MODEL.table)
                first.setdefault(doc.blob, Nominee(row, tokenize_document(doc), vectors))
        return list(first.values())

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        wanted = {*values}
        return [
            row
            for n, plain, row in self._rows
            if wanted & {f"{n} {one}" for one in plain.get_values(field)}
        ]

    def read_rows_by_name(self, names: Collection[str]) -> list[Row]:
        return [
            row
            for _, plain, row in self._rows
            if row.is_visible and {*names} & {*plain.get_values("name")}
        ]

    def read_details(self, paths: Collection[str]) -> dict[str, Details]:
        found = {}
        for number, plain, row in self._rows:
            if row.raw_node.path in paths:
                shelf, doc = self._shelves[number], self._docs[row.raw_node.path]
                others = {
                    self._shelves[n].repository.name
                    for n, _, r in self._rows
                    if r.blob == row.blob and n != number
                }
                who = shelf.who[plain.raw_node.id]
                found[row.raw_node.path] = Details(
                    doc.card, who, shelf.repository, tuple(sorted(others))
                )
        return found
