"""How an index changes: one transaction a save or a batch, with all that follows from it.

Rule: texts are read, split and embedded before the transaction, so that it is short; what another
process wrote since the caller looked is not written over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from filemem.changes import Entry
from filemem.errors import NotFound
from filemem.index.chains import Chains, Dates, Row
from filemem.index.database import Content, Database
from filemem.index.document import Doc, document, record_from
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.words import exact_tokens

CHUNK = 256  # documents in one transaction

# path -> its document; None where there is none; NotFound: no such file any more
Load = Callable[[str], Doc | None]
Progress = Callable[[int, int], object]  # documents done, documents in all
Hidden = Callable[[str], bool]  # whether the record with an id is not to be found


class Writer(Chains):
    """Changes one database."""

    def __init__(self, database: Database, model: Model | None, dates: Dates) -> None:
        self._database = database
        self._model = model
        self._dates = dates
        self._stamp = 0

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        return self._database.rows(field, values)

    def store(self, rows: Iterable[Row]) -> None:
        """See `Chains`."""
        self._database.store(rows, self._stamp)

    def apply(
        self,
        changes: Mapping[str, Entry | None],
        load: Load,
        *,
        hidden: Hidden,
        expected: Mapping[str, Entry] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Let files stand as they do now, None for one that is gone.

        `expected`: what the database said when the caller looked at the files; a path of which it
        says something else by now is left to who wrote that. Raises Locked, BrokenStore.
        """
        entries = {path: entry for path, entry in changes.items() if entry}
        ready = self._database.made(entries)
        unknown = [path for path in entries if path not in ready]
        batch = {path: entry for path, entry in changes.items() if path in ready or not entry}
        for done in range(0, max(1, len(unknown)), CHUNK):
            chunk = {path: entries[path] for path in unknown[done : done + CHUNK]}
            docs = dict(_loaded(chunk, load))
            batch |= {path: _entry(entry, path, docs) for path, entry in chunk.items()}
            self._commit(batch, self._contents(docs.values()), hidden, expected)
            batch = {}
            if progress and chunk:
                progress(done + len(chunk), len(unknown))

    def _contents(self, loaded: Iterable[Doc | None]) -> list[Content]:
        docs = [doc for doc in loaded if doc]
        packs = self._packs(docs)
        return [Content(doc, exact_tokens(doc), packs.get(at)) for at, doc in enumerate(docs)]

    def _packs(self, docs: Iterable[Doc]) -> dict[int, bytes]:
        """The packed vectors of documents, in their order; none where there is no model."""
        numbered = dict(enumerate(docs))
        if not self._model or not numbered:
            return {}
        try:
            table = self._model.table
        except ModelUnavailable:  # the answers say so; the words are indexed all the same
            return {}
        from filemem.index import vectors

        return vectors.packs(vectors.embed(numbered, table))

    def _commit(
        self,
        entries: Mapping[str, Entry | None],
        contents: Iterable[Content],
        hidden: Hidden,
        expected: Mapping[str, Entry] | None,
    ) -> None:
        database = self._database
        if not entries:
            return
        with database.writing():
            self._stamp = database.next_stamp()
            if expected is not None:
                entries = _untouched(entries, expected, database.manifest(entries))
            there = self._kept(entries, contents)
            ids = database.ids(there.values())
            there = {path: number for path, number in there.items() if not hidden(ids[number])}
            stood = database.standing(entries)
            gone = [number for path, number in stood.items() if there.get(path) != number]
            came = [number for path, number in there.items() if stood.get(path) != number]
            new = self._dated(database.by_number(came))
            most = 2 * max(len(gone), len(came)) > database.size()
            old = [] if most else database.rows("number", gone)
            database.turn(gone, new, self._stamp)
            database.note_files(entries, there)
            if most:  # to ask for what each touches would cost more than all rows
                self.settle_all([*new, *database.present(without=came)])
            else:
                self.settle(old, new)

    def _kept(
        self, entries: Mapping[str, Entry | None], contents: Iterable[Content]
    ) -> dict[str, int]:
        """The numbers of the documents of some files; those of new ones are made now."""
        files = {path: entry for path, entry in entries.items() if entry}
        numbers = self._database.made(files)
        paths = files.keys() - numbers.keys()
        new = [content for content in contents if content.doc.path in paths]
        return numbers | self._database.insert(new)

    def _dated(self, rows: Iterable[Row]) -> list[Row]:
        """Rows with the dates of first commits where their files state none."""
        rows = list(rows)
        undated = [row.written.path for row in rows if not row.written.created]
        dates = self._dates(undated) if undated else {}
        return [
            row._replace(
                written=row.written._replace(
                    created=row.written.created or dates.get(row.written.path, 0)
                )
            )
            for row in rows
        ]

    def date(self) -> None:
        """Date the records that a commit has dated since they were indexed."""
        old = self._database.undated()
        if not any(row.written.created for row in self._dated(old)):
            return
        with self._database.writing():
            self._stamp = self._database.next_stamp()
            old = self._database.undated()
            anew = self._database.by_number(row.number for row in old)
            new = [row for row in self._dated(anew) if row.written.created]
            self._database.turn((), new, self._stamp)
            numbers = {row.number for row in new}
            self.settle([row for row in old if row.number in numbers], new)

    def complete(self) -> None:
        """Make the vectors of records that were indexed without a model."""
        while rows := self._database.without_vectors(CHUNK):
            docs = [document(record_from(card), blob) for _, blob, card in rows]
            packs = self._packs(docs)
            if not packs:
                return
            with self._database.writing():
                self._database.add_packs(
                    {number: packs[at] for at, (number, _, _) in enumerate(rows)}
                )
                self._database.next_stamp()


def _loaded(paths: Iterable[str], load: Load) -> Iterator[tuple[str, Doc | None]]:
    """The documents of files, without those that are gone: should one come back, it is new."""
    for path in paths:
        try:
            yield path, load(path)
        except NotFound:
            continue


def _entry(entry: Entry, path: str, docs: Mapping[str, Doc | None]) -> Entry | None:
    """What stands under a path: what was read, where it changed since it was listed."""
    if path not in docs:
        return None
    doc = docs[path]
    return Entry(doc.blob) if doc and doc.blob != entry.blob else entry


def _untouched(
    entries: Mapping[str, Entry | None],
    expected: Mapping[str, Entry],
    now: Mapping[str, Entry],
) -> dict[str, Entry | None]:
    """The entries of paths of which the database still says what it said."""

    def blob(of: Mapping[str, Entry], path: str) -> str:
        return of[path].blob if path in of else ""

    return {
        path: entry for path, entry in entries.items() if blob(now, path) == blob(expected, path)
    }
