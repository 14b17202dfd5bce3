"""`index.db`: what can be asked of the search index, complete at every moment.

Tantivy and usearch are caches of it. A document *stands* if its file is in the work tree now, and
is *shown* unless an older record has its id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.changes import Entry
from filemem.index.chains import LINK_KINDS, Row
from filemem.index.document import build_node
from filemem.index.storage import (
    Connection,
    decode_text,
    decompress_text,
    encode_text,
    strip_checksum,
)
from filemem.query import Filter, has_overlap
from filemem.record.visibility import Reader

_IN_VALUES = "IN (SELECT CAST(value AS BLOB) FROM json_each(?))"
_IN_NUMBERS = "IN (SELECT value FROM json_each(?))"
_HAS_LINK = f"s.number IN (SELECT number FROM links WHERE kind = ? AND value {_IN_VALUES})"
_HAS_FIELD = f"s.number IN (SELECT number FROM fields WHERE name = ? AND value {_IN_VALUES})"
_HAS_TARGET = f"s.number IN (SELECT number FROM targets WHERE value {_IN_VALUES})"
_JOIN = "FROM standing s JOIN docs d ON d.number = s.number"
_FROM = f"{_JOIN} WHERE s.present = 1"
_FROM_FIELDS = f"{_JOIN} JOIN fields f ON f.number = s.number WHERE s.present = 1"
_SELECT_ROWS = f"""SELECT d.number, d.blob, d.node, s.created, s.live, s.shown, s.meant, s.place,
    s.names, s.facts, s.stamp {_FROM}"""
_SELECT_FILES = "SELECT path, blob, size, mtime FROM files WHERE"
COUNT_MISSING_VECTORS = """SELECT count(*) FROM meaning m JOIN standing s ON s.number = m.number
    WHERE m.pack IS NULL AND s.present = 1"""
_MAX_CACHED_ROWS = 8_192  # a search reads most rows of the search before it


class StandingChange(NamedTuple):
    """One document that came, went or changed."""

    number: int
    is_visible: bool
    is_cached: bool


class Database(Connection):
    """`index.db`, open in one process."""

    def __init__(self, path: Path | None, *, create: bool = False, is_past: bool = False) -> None:
        """Open the database; see `Connection`."""
        super().__init__(path, create=create, is_past=is_past)
        self._row_cache: dict[int, tuple[int, Row]] = {}  # number -> (stamp, row)

    # files

    def read_folder_times(self) -> dict[str, int]:
        """Return the times of folders, in nanoseconds."""
        rows = self.query_cached("SELECT path, mtime FROM folders")
        return {decode_text(path): mtime for path, mtime in rows}

    def write_folder_times(self, times: Mapping[str, int]) -> None:
        """Replace the times of folders."""
        old_times = self.read_folder_times()
        removed = [path for path in old_times if path not in times]
        removed_rows = [(encode_text(path),) for path in removed]
        self.execute_many("DELETE FROM folders WHERE path = ?", removed_rows)
        changed_rows = []
        for path, mtime in times.items():
            if old_times.get(path) != mtime:
                changed_rows.append((encode_text(path), mtime))
        self.execute_many("REPLACE INTO folders VALUES (?, ?)", changed_rows)

    def read_entries(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Return the files that the index was built from, of some paths."""
        rows = self.query(f"{_SELECT_FILES} path {_IN_VALUES}", _format_json(paths))
        return _parse_entries(rows)

    def read_manifest(self, folders: Iterable[str]) -> dict[str, Entry]:
        """Return the files that the index was built from, below some folders ("" for all)."""
        entries: dict[str, Entry] = {}
        for folder in folders:
            begin = b""
            end = b"\xff"
            if folder:
                begin = encode_text(f"{folder}/")
                end = encode_text(f"{folder}0")  # "0" comes after "/"
            rows = self.query(f"{_SELECT_FILES} path >= ? AND path < ?", begin, end)
            entries.update(_parse_entries(rows))
        return entries

    def write_files(self, entries: Mapping[str, Entry | None], numbers: Mapping[str, int]) -> None:
        """Note the files under some paths, and their documents; None for a file that is gone."""
        removed_rows = []
        present_rows = []
        for path, entry in entries.items():
            key = encode_text(path)
            if entry:
                present_rows.append((key, *entry, numbers.get(path)))
            else:
                removed_rows.append((key,))
        self.execute_many("DELETE FROM files WHERE path = ?", removed_rows)
        self.execute_many("REPLACE INTO files VALUES (?, ?, ?, ?, ?)", present_rows)

    def update_file_stats(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Note size and time of files that have the same content as before."""
        sql = "UPDATE files SET size = ?, mtime = ? WHERE path = ? AND blob = ?"
        rows = [(entry.size, entry.mtime, encode_text(path), entry.blob) for path, entry in entries]
        self.execute_many(sql, rows)

    def read_files(self, paths: Iterable[str]) -> list[tuple[str, Entry, int]]:
        """Return path, file and number of the documents that stand under some paths."""
        sql = f"""SELECT path, blob, size, mtime, number FROM files
            WHERE number IS NOT NULL AND path {_IN_VALUES}"""
        files = []
        for path, blob, size, mtime, number in self.query(sql, _format_json(paths)):
            entry = Entry(blob, size=size, mtime=mtime)
            files.append((decode_text(path), entry, number))
        return files

    def read_standing_numbers(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the numbers of the documents that stand under some paths."""
        sql = f"SELECT path, number FROM files WHERE number IS NOT NULL AND path {_IN_VALUES}"
        rows = self.query(sql, _format_json(paths))
        return {decode_text(path): number for path, number in rows}

    def read_document_numbers(self, entries: Mapping[str, Entry]) -> dict[str, int]:
        """Return by path the numbers of documents that were ever made of some files."""
        sql = f"SELECT path, blob, number FROM docs WHERE path {_IN_VALUES}"
        numbers = {}
        for encoded_path, blob, number in self.query(sql, _format_json(entries)):
            path = decode_text(encoded_path)
            if entries[path].blob == blob:
                numbers[path] = number
        return numbers

    # records

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field.

        Args:
            field: number, path, id, key, target (the id of a record it refers to), or one of
                `LINK_KINDS`.
            values: of the field.
        """
        if field == "number" and not self._is_writing:
            return self._load_rows(values)
        encoded_values = _format_json(dict.fromkeys(values))
        if field in LINK_KINDS:
            return self._select_rows(_HAS_LINK, field, encoded_values)
        if field == "target":
            return self._select_rows(_HAS_TARGET, encoded_values)
        if field == "number":
            return self._select_rows(f"d.number {_IN_NUMBERS}", encoded_values)
        return self._select_rows(f"d.{field} {_IN_VALUES}", encoded_values)

    def _load_rows(self, numbers: Iterable[str | int]) -> list[Row]:
        """Return rows in order of their numbers, from memory if the last search read them."""
        cache = self._answer_cache
        if len(cache) > _MAX_CACHED_ROWS or not self.is_reading:
            cache.clear()
        sorted_numbers = sorted(set(numbers))
        missing_numbers = [number for number in sorted_numbers if number not in cache]
        if missing_numbers:
            for row in self._select_rows(f"d.number {_IN_NUMBERS}", json.dumps(missing_numbers)):
                cache[row.number] = row
        return [cache[number] for number in sorted_numbers if number in cache]

    def _select_rows(self, condition: str, *values: Any) -> list[Row]:
        rows = self.query(f"{_SELECT_ROWS} AND {condition}", *values)
        return [self._load_row(columns) for columns in rows]

    def _load_row(self, columns: tuple[Any, ...]) -> Row:
        """Return a parsed row, from memory unless it has changed or is being changed."""
        if self._is_writing:
            return _parse_row(columns)
        number = columns[0]
        stamp = columns[-1]
        cached = self._row_cache.get(number)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        if len(self._row_cache) >= _MAX_CACHED_ROWS:
            self._row_cache.clear()
        row = _parse_row(columns)
        self._row_cache[number] = stamp, row
        return row

    def read_rows_with_term(self, name: str, values: Iterable[str]) -> list[Row]:
        """Return the records that have one of some values in an exact field."""
        return self._select_rows(_HAS_FIELD, name, _format_json(values))

    def read_present_rows(self, excluded_numbers: Collection[int]) -> list[Row]:
        """Return all records that stand, shown or not, except some numbers."""
        return self._select_rows(f"NOT s.number {_IN_NUMBERS}", _format_json(excluded_numbers))

    def read_visible_rows(self, limit: int = -1) -> list[Row]:
        """Return the records that are shown, newest first; all without a limit."""
        return self._select_rows("s.shown = 1 ORDER BY s.created DESC, d.path LIMIT ?", limit)

    def read_newest_rows(
        self, record_filter: Filter, limit: int, offset: int, excluded_numbers: Collection[int] = ()
    ) -> list[Row]:
        """Return the newest records that satisfy a filter, newest first, except some numbers."""
        condition, values = self._build_where(record_filter)
        if excluded_numbers:
            condition += f" AND NOT s.number {_IN_NUMBERS}"
            values.append(_format_json(excluded_numbers))
        page = "ORDER BY s.created DESC, d.path LIMIT ? OFFSET ?"
        return self._select_rows(f"{condition} {page}", *values, limit, offset)

    def read_allowed_numbers(self, record_filter: Filter) -> set[int] | None:
        """Return the numbers of what satisfies a filter for any reader; None if all records do."""
        readerless_filter = record_filter._replace(reader=None)
        if readerless_filter == Filter():
            return None
        condition, values = self._build_where(readerless_filter)
        return self._query_numbers(f"SELECT s.number {_FROM} AND {condition}", *values)

    def count_records(self, record_filter: Filter) -> int:
        """Return how many records satisfy a filter."""
        condition, values = self._build_where(record_filter)
        return self._query_count(f"SELECT count(*) {_FROM} AND {condition}", *values)

    def count_terms(self, name: str, prefix: str, record_filter: Filter) -> list[tuple[str, int]]:
        """Return the values of an exact field, each with how many records of a filter have it."""
        condition, values = self._build_where(record_filter)
        begin = encode_text(prefix)
        end = begin + b"\xff"  # a byte that UTF-8 does not use
        term_condition = f"f.name = ? AND f.value BETWEEN ? AND ? AND {condition}"
        sql = f"SELECT f.value, count(*) {_FROM_FIELDS} AND {term_condition} GROUP BY 1"
        rows = self.query(sql, name, begin, end, *values)
        return [(decode_text(value), count) for value, count in rows]

    def read_topic_rows(self, words: str, limit: int, offset: int) -> tuple[list[Row], int]:
        """Return a page of the last decisions of topics with some words, and how many there are."""
        condition = "s.place IS NOT NULL AND instr(s.names, CAST(? AS BLOB))"
        page = f"{condition} ORDER BY s.place LIMIT ? OFFSET ?"
        rows = self._select_rows(page, words, limit, offset)
        count = self._query_count(f"SELECT count(*) {_FROM} AND {condition}", words)
        return rows, count

    def read_link_values(self, kind: str) -> list[str]:
        """Return all values of a kind of links, such as the paths that decisions govern."""
        rows = self.query_cached("SELECT DISTINCT value FROM links WHERE kind = ?", kind)
        return [decode_text(value) for (value,) in rows]

    def read_barred_rows(self, reader: Reader | None) -> list[Row]:
        """Return the records that a reader may not see; None sees all."""
        audiences = self._list_closed_audiences(reader)
        if not audiences:
            return []
        return self.read_rows("audience", audiences)

    def _list_closed_audiences(self, reader: Reader | None) -> list[str]:
        """Return the audiences that do not include a reader; None is in all of them."""
        if reader is None:
            return []
        return [name for name in self.read_link_values("audience") if not reader.can_see(name)]

    def _build_where(self, record_filter: Filter) -> tuple[str, list[Any]]:
        """Return a filter as an SQL condition, and its values.

        `query.is_match` applies the same filter in Python.
        """
        conditions = ["s.shown = 1"]
        values: list[Any] = []
        for name, chosen in record_filter.exact_terms.items():
            conditions.append(_HAS_FIELD)
            values += [name, json.dumps(chosen)]
        if record_filter.path:
            conditions.append(_HAS_LINK)
            values += ["affects", json.dumps(self._list_overlapping_paths(record_filter.path))]
        if record_filter.live:
            conditions.append("s.live = 1")
        if record_filter.since is not None:
            conditions.append("s.created >= ?")
            values.append(record_filter.since)
        if record_filter.until is not None:
            conditions.append("s.created <= ?")
            values.append(record_filter.until)
        closed_audiences = self._list_closed_audiences(record_filter.reader)
        if closed_audiences:
            conditions.append(f"NOT {_HAS_LINK}")
            values += ["audience", json.dumps(closed_audiences)]
        return " AND ".join(conditions), values

    def _list_overlapping_paths(self, path: str) -> list[str]:
        """Return the governed paths that contain a path or lie in it."""
        governed_paths = self.read_link_values("affects")
        return [governed for governed in governed_paths if has_overlap(governed, path)]

    def read_undated_rows(self) -> list[Row]:
        """Return the records without a known date."""
        return self._select_rows("s.created = 0")

    # documents

    def read_initial_rows(self, numbers: Iterable[int]) -> list[Row]:
        """Return documents as rows, before other records say anything about them."""
        sql = f"SELECT number, blob, node FROM docs WHERE number {_IN_NUMBERS}"
        rows = self.query(sql, _format_json(numbers))
        return [Row(number, blob, _parse_node(node)) for number, blob, node in rows]

    def read_ids(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of documents, whether they stand or not."""
        sql = f"SELECT number, id FROM docs WHERE number {_IN_NUMBERS}"
        rows = self.query(sql, _format_json(numbers))
        return {number: decode_text(id_) for number, id_ in rows}

    def read_cards(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the cards of documents."""
        sql = f"SELECT number, card FROM texts WHERE number {_IN_NUMBERS}"
        rows = self.query(sql, _format_json(numbers))
        return {number: decompress_text(card) for number, card in rows}

    def read_tokens(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the exact tokens of documents, as `format_exact_tokens` writes them."""
        sql = f"SELECT number, tokens FROM texts WHERE number {_IN_NUMBERS}"
        rows = self.query(sql, _format_json(numbers))
        return {number: decompress_text(tokens) for number, tokens in rows}

    def read_packs(self, numbers: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return the packed vectors of documents, in order of numbers."""
        condition = f"pack IS NOT NULL AND number {_IN_NUMBERS}"
        sql = f"SELECT number, pack FROM meaning WHERE {condition} ORDER BY number"
        rows = self.query(sql, _format_json(numbers))
        return [(number, strip_checksum(pack)) for number, pack in rows]

    def count_missing_vectors(self) -> int:
        """Return how many records have no vectors."""
        return self._query_count(COUNT_MISSING_VECTORS)

    def read_cards_without_vectors(self, limit: int) -> list[tuple[int, str, str]]:
        """Return number, blob and card of records without vectors."""
        sql = """SELECT d.number, d.blob, t.card FROM meaning m JOIN docs d ON d.number = m.number
            JOIN texts t ON t.number = m.number WHERE m.pack IS NULL LIMIT ?"""
        rows = self.query(sql, limit)
        return [(number, blob, decompress_text(card)) for number, blob, card in rows]

    def delete_unused(self, max_kept: int) -> None:
        """Delete documents that neither stand nor are cached, except the newest `max_kept`."""
        used = "SELECT number FROM standing WHERE present OR cached"
        unused = f"SELECT number FROM docs WHERE NOT number IN ({used})"
        unused_rows = self.query(f"{unused} ORDER BY number DESC LIMIT -1 OFFSET ?", max_kept)
        for table in ("docs", "texts", "meaning", "standing", "links", "fields"):
            self.execute_many(f"DELETE FROM {table} WHERE number = ?", unused_rows)
        unknown = "length(name) >= 40 AND NOT name IN (SELECT blob FROM docs)"
        self.query(f"DELETE FROM checked WHERE {unknown}")

    # caches

    def read_standing_changes(self, since: int) -> list[StandingChange]:
        """Return the documents that came, went or changed after a stamp."""
        sql = "SELECT number, present AND shown, cached FROM standing WHERE stamp > ?"
        return [StandingChange(*row) for row in self.query(sql, since)]

    def read_masked_numbers(self) -> set[int]:
        """Return the documents that the caches have although a search must not find them."""
        where = "cached = 1 AND NOT (present AND shown)"
        return self._query_numbers(f"SELECT number FROM standing WHERE {where}")

    def read_uncached_numbers(self) -> set[int]:
        """Return the documents that a search must find although the caches lack them."""
        where = "cached = 0 AND present = 1 AND shown = 1"
        return self._query_numbers(f"SELECT number FROM standing WHERE {where}")

    def read_visible_numbers(self) -> set[int]:
        """Return the documents that a search must find."""
        return self._query_numbers("SELECT number FROM standing WHERE present = 1 AND shown = 1")

    def count_documents(self) -> int:
        """Return how many documents stand."""
        return self._query_count("SELECT count(*) FROM standing WHERE present = 1")

    def has_cached(self, numbers: Iterable[int]) -> bool:
        """Whether the caches have one of some documents."""
        sql = f"SELECT 1 FROM standing WHERE cached = 1 AND number {_IN_NUMBERS}"
        return bool(self.query(sql, _format_json(numbers)))

    def mark_cached(self, numbers: Iterable[int], *, replace_all: bool) -> None:
        """Note that the caches have some documents; with `replace_all`, and no others."""
        if replace_all:
            self.execute_many("UPDATE standing SET cached = 0 WHERE cached = ?", [(1,)])
        rows = [(number,) for number in numbers]
        self.execute_many("UPDATE standing SET cached = 1 WHERE number = ?", rows)

    # checks

    def read_check_results(self, state: str) -> dict[str, str]:
        """Return by name what `check` found in a state of the code or of the memory."""
        return dict(self.query("SELECT name, problems FROM checked WHERE state = ?", state))

    def write_check_results(self, state: str, problems: Mapping[str, str]) -> None:
        """Replace what `check` found under some names."""
        rows = [(name, state, text) for name, text in problems.items()]
        self.execute_many("REPLACE INTO checked VALUES (?, ?, ?)", rows)

    def _query_numbers(self, sql: str, *values: Any) -> set[int]:
        return {number for (number,) in self.query(sql, *values)}

    def _query_count(self, sql: str, *values: Any) -> int:
        ((count,),) = self.query(sql, *values)
        return int(count)


@lru_cache(maxsize=4096)  # one question reads the same records several times
def _parse_node(text: str) -> Node:
    return build_node(json.loads(text))


def _parse_row(columns: tuple[Any, ...]) -> Row:
    number, blob, text, created, is_live, is_visible, meanings, place, names, facts, _ = columns
    node = _parse_node(text)
    if node.created != created:
        node = node._replace(created=created)
    return Row(
        number=number,
        blob=blob,
        raw_node=node,
        is_live=bool(is_live),
        is_visible=bool(is_visible),
        meanings=json.loads(meanings) if meanings else {},
        topic_sort_key=decode_text(place or b""),
        topic_search_text=decode_text(names or b""),
        facts=Facts.from_lists(json.loads(facts)) if facts else NO_FACTS,
    )


def _parse_entries(rows: Iterable[tuple[Any, ...]]) -> dict[str, Entry]:
    return {
        decode_text(path): Entry(blob, size=size, mtime=mtime) for path, blob, size, mtime in rows
    }


def _format_json(values: Iterable[str | int]) -> str:
    """Return values as the JSON list that a statement expands."""
    return json.dumps(list(values))
