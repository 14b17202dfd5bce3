"""How an index changes: one transaction a save or a batch, with all that follows from it.

Rule: texts are read, split and embedded before the transaction, so that it is short; what another
process wrote since the caller looked is not written over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from filemem.changes import Entry
from filemem.errors import NotFound
from filemem.index.chains import ChainIndex, Dates, Row
from filemem.index.database import Content, Database
from filemem.index.document import Doc, build_document, parse_card
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.words import format_exact_tokens

CHUNK = 256  # documents in one transaction

# path -> its document; None where there is none; NotFound: no such file any more
Loader = Callable[[str], Doc | None]
Progress = Callable[[int, int], object]  # documents done, documents in all
HiddenCheck = Callable[[str], bool]  # whether the record with an id is not to be found


class IndexWriter(ChainIndex):
    """Changes one database."""

    def __init__(self, database: Database, model: Model | None, dates: Dates) -> None:
        self._database = database
        self._model = model
        self._dates = dates
        self._stamp = 0

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        return self._database.read_rows(field, values)

    def write_rows(self, rows: Iterable[Row]) -> None:
        """See `Chains`."""
        self._database.write_rows(rows, self._stamp)

    def apply_changes(
        self,
        changes: Mapping[str, Entry | None],
        load: Loader,
        *,
        is_hidden: HiddenCheck,
        expected: Mapping[str, Entry] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Let files stand as they do now, None for one that is gone.

        `expected`: what the database said when the caller looked at the files; a path of which it
        says something else by now is left to who wrote that. Raises Locked, BrokenStore.
        """
        entries = {path: entry for path, entry in changes.items() if entry}
        known_numbers = self._database.read_document_numbers(entries)
        unknown_paths = [path for path in entries if path not in known_numbers]
        batch = {
            path: entry for path, entry in changes.items() if path in known_numbers or not entry
        }
        for start in range(0, max(1, len(unknown_paths)), CHUNK):
            chunk = {path: entries[path] for path in unknown_paths[start : start + CHUNK]}
            docs = dict(_iter_documents(chunk, load))
            batch |= {path: _build_entry(entry, path, docs) for path, entry in chunk.items()}
            self._commit(batch, self._build_contents(docs.values()), is_hidden, expected)
            batch = {}
            if progress and chunk:
                progress(start + len(chunk), len(unknown_paths))

    def _build_contents(self, loaded_docs: Iterable[Doc | None]) -> list[Content]:
        docs = [doc for doc in loaded_docs if doc]
        packs = self._build_packs(docs)
        return [
            Content(doc, format_exact_tokens(doc), packs.get(index))
            for index, doc in enumerate(docs)
        ]

    def _build_packs(self, docs: Iterable[Doc]) -> dict[int, bytes]:
        """The packed vectors of documents, in their order; none where there is no model."""
        numbered = dict(enumerate(docs))
        if not self._model or not numbered:
            return {}
        try:
            table = self._model.table
        except ModelUnavailable:  # the answers say so; the words are indexed all the same
            return {}
        from filemem.index import vectors

        return vectors.pack_documents(vectors.embed_documents(numbered, table))

    def _commit(
        self,
        entries: Mapping[str, Entry | None],
        contents: Iterable[Content],
        is_hidden: HiddenCheck,
        expected: Mapping[str, Entry] | None,
    ) -> None:
        database = self._database
        if not entries:
            return
        with database.transaction():
            self._stamp = database.advance_stamp()
            if expected is not None:
                entries = _filter_untouched(entries, expected, database.read_manifest(entries))
            new_numbers = self._ensure_documents(entries, contents)
            ids = database.read_ids(new_numbers.values())
            new_numbers = {
                path: number for path, number in new_numbers.items() if not is_hidden(ids[number])
            }
            old_numbers = database.read_standing_numbers(entries)
            removed = [
                number for path, number in old_numbers.items() if new_numbers.get(path) != number
            ]
            added = [
                number for path, number in new_numbers.items() if old_numbers.get(path) != number
            ]
            new_rows = self._fill_dates(database.read_initial_rows(added))
            is_bulk = 2 * max(len(removed), len(added)) > database.count_documents()
            old_rows = [] if is_bulk else database.read_rows("number", removed)
            database.update_standing(removed, new_rows, self._stamp)
            database.write_files(entries, new_numbers)
            if is_bulk:  # to ask for what each touches would cost more than all rows
                self.update_all_facts(
                    [*new_rows, *database.read_present_rows(excluded_numbers=added)]
                )
            else:
                self.update_facts(old_rows, new_rows)

    def _ensure_documents(
        self, entries: Mapping[str, Entry | None], contents: Iterable[Content]
    ) -> dict[str, int]:
        """The numbers of the documents of some files; those of new ones are made now."""
        files = {path: entry for path, entry in entries.items() if entry}
        numbers = self._database.read_document_numbers(files)
        paths = files.keys() - numbers.keys()
        new_contents = [content for content in contents if content.doc.path in paths]
        return numbers | self._database.insert_documents(new_contents)

    def _fill_dates(self, rows: Iterable[Row]) -> list[Row]:
        """Rows with the dates of first commits where their files state none."""
        rows = list(rows)
        undated_paths = [row.raw_node.path for row in rows if not row.raw_node.created]
        dates = self._dates(undated_paths) if undated_paths else {}
        return [
            row._replace(
                raw_node=row.raw_node._replace(
                    created=row.raw_node.created or dates.get(row.raw_node.path, 0)
                )
            )
            for row in rows
        ]

    def date_records(self) -> None:
        """Date the records that a commit has dated since they were indexed."""
        old_rows = self._database.read_undated_rows()
        if not any(row.raw_node.created for row in self._fill_dates(old_rows)):
            return
        with self._database.transaction():
            self._stamp = self._database.advance_stamp()
            old_rows = self._database.read_undated_rows()
            initial_rows = self._database.read_initial_rows(row.number for row in old_rows)
            new_rows = [row for row in self._fill_dates(initial_rows) if row.raw_node.created]
            self._database.update_standing((), new_rows, self._stamp)
            numbers = {row.number for row in new_rows}
            self.update_facts([row for row in old_rows if row.number in numbers], new_rows)

    def add_missing_vectors(self) -> None:
        """Make the vectors of records that were indexed without a model."""
        while rows := self._database.read_cards_without_vectors(CHUNK):
            docs = [build_document(parse_card(card), blob) for _, blob, card in rows]
            packs = self._build_packs(docs)
            if not packs:
                return
            with self._database.transaction():
                self._database.add_packs(
                    {number: packs[index] for index, (number, _, _) in enumerate(rows)}
                )
                self._database.advance_stamp()


def _iter_documents(paths: Iterable[str], load: Loader) -> Iterator[tuple[str, Doc | None]]:
    """The documents of files, without those that are gone: should one come back, it is new."""
    for path in paths:
        try:
            yield path, load(path)
        except NotFound:
            continue


def _build_entry(entry: Entry, path: str, docs: Mapping[str, Doc | None]) -> Entry | None:
    """What stands under a path: what was read, where it changed since it was listed."""
    if path not in docs:
        return None
    doc = docs[path]
    return Entry(doc.blob) if doc and doc.blob != entry.blob else entry


def _filter_untouched(
    entries: Mapping[str, Entry | None],
    expected: Mapping[str, Entry],
    current: Mapping[str, Entry],
) -> dict[str, Entry | None]:
    """The entries of paths of which the database still says what it said."""

    def get_blob(manifest: Mapping[str, Entry], path: str) -> str:
        return manifest[path].blob if path in manifest else ""

    return {
        path: entry
        for path, entry in entries.items()
        if get_blob(current, path) == get_blob(expected, path)
    }
