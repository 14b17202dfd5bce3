"""How an index changes: one transaction for a save or a batch of files, with all that follows.

Texts are read, split and embedded before the transaction, so that it is short. What another process
wrote after the caller looked at the files is not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from filemem.chain import NO_FACTS
from filemem.changes import Entry
from filemem.errors import NotFound
from filemem.index.chains import ChainIndex, Dates, Row, list_links
from filemem.index.database import Database
from filemem.index.document import Doc, build_document, parse_card
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.storage import add_checksum, compress_text, encode_text
from filemem.index.words import format_exact_tokens

CHUNK = 256  # documents in one transaction

# Path -> its document, or None if the file is not a record. Raises NotFound if the file is gone.
Loader = Callable[[str], Doc | None]
Progress = Callable[[int, int], object]  # documents done, documents in all
HiddenCheck = Callable[[str], bool]  # whether a search must not find the record with an id


class _Content(NamedTuple):
    """What the database keeps of a document."""

    doc: Doc
    tokens: str  # exact tokens, part by part
    pack: bytes | None  # packed vectors; None without a model


class IndexWriter(ChainIndex):
    """Changes one database."""

    def __init__(self, database: Database, model: Model | None, dates: Dates) -> None:
        self._database = database
        self._model = model
        self._dates = dates
        self._stamp = 0

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field."""
        return self._database.read_rows(field, values)

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Write what follows for some records from all records together."""
        row_list = list(rows)
        sql = """UPDATE standing SET live = ?, shown = ?, meant = ?, place = ?, names = ?,
            facts = ?, stamp = ? WHERE number = ?"""
        values = [_build_standing_values(row, self._stamp) for row in row_list]
        self._database.execute_many(sql, values)
        _write_targets(self._database, row_list)

    def apply_changes(
        self,
        changes: Mapping[str, Entry | None],
        load: Loader,
        *,
        is_hidden: HiddenCheck,
        expected: Mapping[str, Entry] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index files as they are now.

        Args:
            changes: the file under each path; None for one that is gone.
            load: reads a document.
            is_hidden: whether a search must not find the record with an id.
            expected: what the index said when the caller looked at the files; where it says
                something else by now, another process was faster and the path is skipped.
            progress: is called after each batch.

        Raises:
            Locked, BrokenStore.
        """
        entries = _list_present(changes)
        known_numbers = self._database.read_document_numbers(entries)
        unknown_paths = [path for path in entries if path not in known_numbers]
        # Files without a document to read go into the first batch.
        unread_paths = set(changes) - set(unknown_paths)
        batch = {path: entry for path, entry in changes.items() if path in unread_paths}
        total = len(unknown_paths)
        for start in range(0, max(1, total), CHUNK):
            chunk = unknown_paths[start : start + CHUNK]
            docs = _load_documents(chunk, load)
            for path in chunk:
                batch[path] = _build_entry(entries[path], path, docs)
            loaded_docs = [doc for doc in docs.values() if doc]
            contents = self._build_contents(loaded_docs)
            self._commit(batch, contents, is_hidden, expected)
            batch.clear()
            if progress and chunk:
                progress(start + len(chunk), total)

    def _build_contents(self, docs: Sequence[Doc]) -> list[_Content]:
        packs = self._build_packs(docs)
        contents = []
        for index, doc in enumerate(docs):
            contents.append(_Content(doc, format_exact_tokens(doc), packs.get(index)))
        return contents

    def _build_packs(self, docs: Sequence[Doc]) -> dict[int, bytes]:
        """Return the packed vectors of documents by position; none without a model."""
        if not self._model or not docs:
            return {}
        try:
            table = self._model.table
        except ModelUnavailable:  # search results report this; words are indexed all the same
            return {}
        from filemem.index import vectors

        numbered = dict(enumerate(docs))
        return vectors.pack_documents(vectors.embed_documents(numbered, table))

    def _commit(
        self,
        entries: Mapping[str, Entry | None],
        contents: Iterable[_Content],
        is_hidden: HiddenCheck,
        expected: Mapping[str, Entry] | None,
    ) -> None:
        database = self._database
        if not entries:
            return
        with database.transaction():
            self._stamp = database.advance_stamp()
            if expected is not None:
                current = database.read_entries(entries)
                entries = _filter_untouched(entries, expected, current)
            numbers = self._ensure_documents(entries, contents)
            ids = database.read_ids(numbers.values())
            for path, number in list(numbers.items()):
                if is_hidden(ids[number]):
                    del numbers[path]
            self._replace_standing(entries, numbers)

    def _ensure_documents(
        self, entries: Mapping[str, Entry | None], contents: Iterable[_Content]
    ) -> dict[str, int]:
        """Return the numbers of the documents of some files, after inserting new ones."""
        files = _list_present(entries)
        numbers = self._database.read_document_numbers(files)
        new_contents = []
        for content in contents:
            path = content.doc.path
            if path in files and path not in numbers:
                new_contents.append(content)
        new_numbers = _insert_documents(self._database, new_contents)
        return numbers | new_numbers

    def _replace_standing(
        self, entries: Mapping[str, Entry | None], new_numbers: Mapping[str, int]
    ) -> None:
        """Let the documents of some files stand instead of those that stood under their paths."""
        database = self._database
        old_numbers = database.read_standing_numbers(entries)
        removed = []
        for path, number in old_numbers.items():
            if new_numbers.get(path) != number:
                removed.append(number)
        added = []
        for path, number in new_numbers.items():
            if old_numbers.get(path) != number:
                added.append(number)
        new_rows = self._fill_dates(database.read_initial_rows(added))
        change_count = max(len(removed), len(added))
        is_bulk = 2 * change_count > database.count_documents()
        old_rows = [] if is_bulk else database.read_rows("number", removed)
        self._write_standing(removed, new_rows)
        database.write_files(entries, new_numbers)
        if is_bulk:  # reading all rows is cheaper than asking what each change touches
            other_rows = database.read_present_rows(excluded_numbers=added)
            self.update_all_facts([*new_rows, *other_rows])
        else:
            self.update_facts(old_rows, new_rows)

    def _write_standing(self, removed: Iterable[int], added: Sequence[Row]) -> None:
        """Write which documents stand no longer, and which do, with the links of these."""
        database = self._database
        removed_numbers = list(removed)
        database.execute_many(
            "UPDATE standing SET present = 0, stamp = ? WHERE number = ?",
            [(self._stamp, number) for number in removed_numbers],
        )
        database.execute_many(
            "DELETE FROM targets WHERE number = ?", [(number,) for number in removed_numbers]
        )
        sql = """INSERT INTO standing VALUES (?, 1, 0, ?, 1, 1, '', NULL, NULL, '', ?)
            ON CONFLICT (number) DO UPDATE SET present = 1, created = excluded.created,
            live = 1, shown = 1, meant = '', place = NULL, names = NULL, facts = '',
            stamp = excluded.stamp"""
        added_rows = [(row.number, row.raw_node.created, self._stamp) for row in added]
        database.execute_many(sql, added_rows)
        _write_targets(database, added)

    def _fill_dates(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows, those without a date with the date of the first commit of their file."""
        row_list = list(rows)
        undated_paths = [row.raw_node.path for row in row_list if not row.raw_node.created]
        if not undated_paths:
            return row_list
        dates = self._dates(undated_paths)
        dated_rows = []
        for row in row_list:
            node = row.raw_node
            if not node.created:
                node = node._replace(created=dates.get(node.path, 0))
            dated_rows.append(row._replace(raw_node=node))
        return dated_rows

    def date_records(self) -> None:
        """Date the records whose files were committed after they were indexed."""
        database = self._database
        datable_rows = self._fill_dates(database.read_undated_rows())
        if not any(row.raw_node.created for row in datable_rows):
            return
        with database.transaction():
            self._stamp = database.advance_stamp()
            undated_rows = database.read_undated_rows()
            initial_rows = database.read_initial_rows([row.number for row in undated_rows])
            filled_rows = self._fill_dates(initial_rows)
            new_rows = [row for row in filled_rows if row.raw_node.created]
            dated_numbers = {row.number for row in new_rows}
            self._write_standing((), new_rows)
            old_rows = [row for row in undated_rows if row.number in dated_numbers]
            self.update_facts(old_rows, new_rows)

    def add_missing_vectors(self) -> None:
        """Make the vectors of records that were indexed without a model."""
        while rows := self._database.read_cards_without_vectors(CHUNK):
            docs = [build_document(parse_card(card), blob) for _, blob, card in rows]
            packs = self._build_packs(docs)
            if not packs:
                return
            packs_by_number = {}
            for index, (number, _, _) in enumerate(rows):
                packs_by_number[number] = packs[index]
            with self._database.transaction():
                _add_packs(self._database, packs_by_number)
                self._database.advance_stamp()


def _list_present(entries: Mapping[str, Entry | None]) -> dict[str, Entry]:
    """Return the entries of files that are not gone."""
    return {path: entry for path, entry in entries.items() if entry}


def _load_documents(paths: Iterable[str], load: Loader) -> dict[str, Doc | None]:
    """Return the documents of files, without files that are gone."""
    docs = {}
    for path in paths:
        try:
            docs[path] = load(path)
        except NotFound:
            continue
    return docs


def _build_entry(entry: Entry, path: str, docs: Mapping[str, Doc | None]) -> Entry | None:
    """Return the entry of a file after reading it; None if it is gone."""
    if path not in docs:
        return None
    doc = docs[path]
    if doc and doc.blob != entry.blob:  # it has changed since it was listed
        return Entry(doc.blob)
    return entry


def _filter_untouched(
    entries: Mapping[str, Entry | None],
    expected: Mapping[str, Entry],
    current: Mapping[str, Entry],
) -> dict[str, Entry | None]:
    """Return the entries of paths about which the index still says what was expected."""

    def is_untouched(path: str) -> bool:
        return _get_blob(current, path) == _get_blob(expected, path)

    return {path: entry for path, entry in entries.items() if is_untouched(path)}


def _get_blob(manifest: Mapping[str, Entry], path: str) -> str:
    """Return the blob under a path, or ""."""
    return manifest[path].blob if path in manifest else ""


# tables


def _insert_documents(database: Database, contents: Iterable[_Content]) -> dict[str, int]:
    """Write new documents; return their numbers by path."""
    last_number = database.last_number
    numbers: dict[str, int] = {}
    docs = []
    texts = []
    packs = []
    links = set()
    terms = set()
    for number, content in enumerate(contents, last_number + 1):
        doc = content.doc
        last_number = number
        numbers[doc.path] = number
        docs.append(_build_document_values(number, doc))
        texts.append((number, compress_text(doc.card), compress_text(content.tokens)))
        packs.append((number, add_checksum(content.pack) if content.pack else None))
        for kind, value in list_links(doc.node):
            links.add((kind, encode_text(value), number))
        for name, values in doc.terms.items():
            for value in values:
                terms.add((name, encode_text(value), number))
    database.execute_many("REPLACE INTO main.state VALUES ('last', ?)", [(last_number,)])
    database.execute_many("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", docs)
    database.execute_many("INSERT INTO texts VALUES (?, ?, ?)", texts)
    database.execute_many("INSERT INTO meaning VALUES (?, ?)", packs)
    database.execute_many("INSERT INTO links VALUES (?, ?, ?)", sorted(links))
    database.execute_many("INSERT INTO fields VALUES (?, ?, ?)", sorted(terms))
    return numbers


def _build_document_values(number: int, doc: Doc) -> tuple[Any, ...]:
    """Return the columns of table `docs`."""
    node = doc.node
    node_text = json.dumps(node, separators=(",", ":"))
    return (
        number,
        encode_text(doc.path),
        doc.blob,
        encode_text(node.id),
        encode_text(node.key),
        node_text,
    )


def _build_standing_values(row: Row, stamp: int) -> tuple[Any, ...]:
    meanings = json.dumps(row.meanings) if row.meanings else ""
    sort_key = None
    search_text = None
    if row.topic_sort_key:
        sort_key = encode_text(row.topic_sort_key)
        search_text = encode_text(row.topic_search_text)
    facts = ""
    if row.facts != NO_FACTS:
        facts = json.dumps(row.facts, separators=(",", ":"))
    flags = (row.is_live, row.is_visible)
    return (*flags, meanings, sort_key, search_text, facts, stamp, row.number)


def _write_targets(database: Database, rows: Iterable[Row]) -> None:
    """Replace the ids that some records refer to."""
    referring_numbers = []
    targets = set()
    for row in rows:
        if row.raw_node.references:
            referring_numbers.append((row.number,))
            for target in row.targets:
                targets.add((encode_text(target), row.number))
    database.execute_many("DELETE FROM targets WHERE number = ?", referring_numbers)
    database.execute_many("INSERT INTO targets VALUES (?, ?)", sorted(targets))


def _add_packs(database: Database, packs: Mapping[int, bytes]) -> None:
    """Write the packed vectors of documents; caches that have these without them are outdated."""
    rows = [(number, add_checksum(pack)) for number, pack in packs.items()]
    database.execute_many("REPLACE INTO meaning VALUES (?, ?)", rows)
    if database.has_cached(packs):
        database.mark_cached((), replace_all=True)
        database.write_state(caches="")
