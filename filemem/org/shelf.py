"""One repository while its worker changes it: records go in and out, and are counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from filemem.chain import NO_FACTS
from filemem.index import ChainIndex, Doc, Model, Row, build_rows, list_links
from filemem.index.vectors import embed_documents
from filemem.index.words import FIELDS, tokenize_document
from filemem.org.engine import Repository
from filemem.org.pack import pack_texts, pack_vectors, unpack_tokens
from filemem.org.rows import LINKS, SEEN, clean_text, digest, read_rows
from filemem.query import TERM_BY_FIELD as TERMS
from filemem.query import Provenance

if TYPE_CHECKING:
    from filemem.org.connection import Connection

_ADD = """insert into df as f(term, repo, n)
  select w.term, %(repo)s, w.n::int[] from unnest(%(terms)s::text[], %(counts)s::text[]) w(term, n)
  on conflict (term, repo) do update set n = array(select a + b
    from unnest(f.n, excluded.n) with ordinality u(a, b, at) order by at)"""
_BODIES = """select b.stems, b.texts from doc d join body b on b.doc = d.id
  where d.repo = %s and d.path = any(%s)"""
_NONE = "delete from df where repo = %s and term = any(%s) and n = %s::int[]"
_STATE = """insert into state(repo, head, store, words, left_out, tokens, records, passages)
  select %s, %s, %s, %s, %s, %s, count(*), coalesce(sum(passages), 0) from doc where repo = %s"""
Tokens = Mapping[str, Sequence[str]]  # of each text field of a record


class RowOverlay(ChainIndex):
    """The records of one repository, with changes over them until all that follows is known."""

    def __init__(self, con: Connection, number: int) -> None:
        self._con = con
        self._number = number
        self.changed_rows = dict[str, Row | None]()
        self.old_rows = dict[str, Row]()

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `ChainIndex`; the rows of the database are remembered as old."""
        texts = {str(value) for value in values}
        pairs = [(self._number, text) for text in texts]
        rows = []
        for _, row in read_rows(self._con, field, pairs):
            path = row.raw_node.path
            self.old_rows[path] = row
            if path not in self.changed_rows:
                rows.append(row)
        new_rows = [row for row in self.changed_rows.values() if row]
        rows += [row for row in new_rows if not texts.isdisjoint(row.get_values(field))]
        return rows

    def write_rows(self, rows: Iterable[Row]) -> None:
        """See `ChainIndex`."""
        for row in rows:
            self.changed_rows[row.raw_node.path] = row

    def put(self, changes: Mapping[str, Row | None]) -> None:
        """Put records at their paths; None removes what is there."""
        replaced_rows = self.read_rows("path", changes)
        self.changed_rows.update(changes)
        new_rows = [row for row in changes.values() if row]
        self.update_facts(replaced_rows, new_rows)


class PostgresShelf:
    """See `engine.Shelf`."""

    def __init__(self, con: Connection, repository: Repository, model: Model) -> None:
        self.repository = repository
        self.con = con
        self._model = model
        self._sizes = Counter[str]()  # field -> tokens added, less those removed

    def read_manifest(self) -> dict[str, tuple[str, str]]:
        """See `engine.Shelf`."""
        query = "select path, blob, rid from doc where repo = %s"
        rows = self.con.execute(query, (self.repository.number,))
        return {path: (blob, rid) for path, blob, rid in rows}

    def put(
        self, changes: Mapping[str, Doc | None], first_authors: Mapping[str, Provenance]
    ) -> None:
        """See `engine.Shelf`."""
        docs = {path: doc for path, doc in changes.items() if doc}
        authors = self._find_authors(changes, docs, first_authors)
        new_rows = self._build_rows(docs, authors)
        overlay = RowOverlay(self.con, self.repository.number)
        overlay.put({path: new_rows.get(path) for path in changes})
        old_tokens = self._delete_records(changes)
        new_tokens = [tokenize_document(doc) for doc in docs.values()]
        self._update_word_counts(old_tokens, new_tokens)
        new_records = []
        turned_rows = []
        for path, row in overlay.changed_rows.items():
            if row is None:
                continue
            if path in docs:
                new_records.append((row, docs[path], authors[path]))
            elif _build_facts(row) != _build_facts(overlay.old_rows[path]):
                turned_rows.append(row)
        self._insert_records(new_records)
        self._update_records(turned_rows)

    def _find_authors(
        self,
        changes: Mapping[str, Doc | None],
        docs: Mapping[str, Doc],
        first_authors: Mapping[str, Provenance],
    ) -> dict[str, str]:
        """Find who first wrote each record, as JSON; known records keep their authors."""
        ids = {path: clean_text(doc.node.id) for path, doc in docs.items()}
        query = "select rid, who from doc where repo = %s and (path = any(%s) or rid = any(%s))"
        values = (self.repository.number, list(changes), list(ids.values()))
        kept_authors = dict(self.con.execute(query, values).fetchall())
        authors = {}
        for path, record_id in ids.items():
            author = kept_authors.get(record_id)
            if not author:
                author = _format_author(first_authors.get(path, Provenance()))
            authors[path] = author
        return authors

    def _build_rows(self, docs: Mapping[str, Doc], authors: Mapping[str, str]) -> dict[str, Row]:
        """Build rows with new numbers, by path; `authors` state the dates."""
        dates = {path: json.loads(author)["date"] or 0 for path, author in authors.items()}

        def get_dates(_paths: object) -> Mapping[str, int]:
            return dates

        numbers = self._allocate_numbers(len(docs))
        docs_by_number = dict(zip(numbers, docs.values(), strict=True))
        rows = build_rows(docs_by_number, get_dates)
        return {row.raw_node.path: row for row in rows}

    def _allocate_numbers(self, count: int) -> list[int]:
        """Take numbers for new rows."""
        series = "select nextval(pg_get_serial_sequence('doc', 'id')) from generate_series(1, %s)"
        return [number for (number,) in self.con.execute(series, (count,))]

    def _delete_records(self, paths: Iterable[str]) -> Sequence[Tokens]:
        """Delete the records with some paths; return their tokens."""
        values = (self.repository.number, list(paths))
        rows = self.con.execute(_BODIES, values)
        old_tokens = [unpack_tokens(stems, texts) for stems, texts in rows]
        self.con.execute("delete from doc where repo = %s and path = any(%s)", values)
        return old_tokens

    def _update_word_counts(self, old: Sequence[Tokens], new: Sequence[Tokens]) -> None:
        """Add the words of new records to the counts, and subtract those of old ones."""
        number = self.repository.number
        counts = Counter[tuple[str, str]]()  # (term, field) -> records
        for tokens in new:
            counts.update(_iter_terms(tokens))
            self._sizes.update(_count_tokens(tokens))
        for tokens in old:
            counts.subtract(_iter_terms(tokens))
            self._sizes.subtract(_count_tokens(tokens))
        changed_terms = sorted({term for (term, _), count in counts.items() if count})
        arrays = [_format_counts(counts, term) for term in changed_terms]
        self.con.execute(_ADD, {"repo": number, "terms": changed_terms, "counts": arrays})
        if old:
            self.con.execute(_NONE, (number, changed_terms, [0] * len(FIELDS)))

    def _insert_records(self, new_records: Sequence[tuple[Row, Doc, str]]) -> None:
        """Insert records, each with its document and its author as JSON."""
        repository_number = self.repository.number
        docs_by_number = {row.number: doc for row, doc, _ in new_records}
        vectors = embed_documents(docs_by_number, self._model.table)
        positions = {number: position for position, number in enumerate(vectors.keys.tolist())}
        docs: list[Any] = []
        bodies: list[Any] = []
        passages: list[Any] = []
        for row, doc, author in new_records:
            key = (row.number, repository_number)
            position = positions[row.number]
            first, last = vectors.starts[position : position + 2].tolist()
            columns = _build_columns(row, doc, last - first)
            docs.append((*key, *columns, author))
            stems, texts = pack_texts(doc.card, tokenize_document(doc))
            packed_vectors = pack_vectors(vectors, position)
            bodies.append((*key, clean_text(stems, None), texts, packed_vectors))
            for n, vector in enumerate(vectors.rows[first:last].tolist()):
                if any(vector):
                    passages.append((*key, n, str(vector)))
        copy_rows(self.con, "doc", docs)
        copy_rows(self.con, "body", bodies)
        copy_rows(self.con, "passage", passages)
        self._insert_links([row for row, _, _ in new_records])

    def _update_records(self, rows: Sequence[Row]) -> None:
        """Write the facts and links of records that changes of other records have changed."""
        if not rows:
            return
        update = "update doc set live = %s, shown = %s, meant = %s, facts = %s where id = %s"
        values = [(*_build_facts(row), row.number) for row in rows]
        with self.con.cursor() as cursor:
            cursor.executemany(update, values)
        numbers = [row.number for row in rows]
        self.con.execute("delete from link where doc = any(%s)", (numbers,))
        self._insert_links(rows)

    def _insert_links(self, rows: Sequence[Row]) -> None:
        links = set()
        for row in rows:
            for kind, value in _iter_links(row):
                links.add((row.number, self.repository.number, digest(kind, value)))
        copy_rows(self.con, "link", list(links))

    def purge(self, paths: Iterable[str]) -> None:
        """Remove records, even if the repository still holds them."""
        repository = self.repository
        self.put(dict.fromkeys(paths), {})
        self._write_state(repository.head, repository.store, repository.words, repository.left_out)

    def note_state(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        """See `engine.Shelf`."""
        self._write_state(head, store, words, left_out)
        self.con.execute(SEEN, (self.repository.number,))

    def _write_state(self, head: str, store: str, words: str, left_out: str) -> None:
        number = self.repository.number
        query = "delete from state where repo = %s returning tokens"
        row = self.con.execute(query, (number,)).fetchone()
        tokens = row[0] if row else [0] * len(FIELDS)
        for i, field in enumerate(FIELDS):
            tokens[i] += self._sizes[field]
        self._sizes.clear()
        texts = (head, clean_text(store), words, clean_text(left_out))
        self.con.execute(_STATE, (number, *texts, tokens, number))


def copy_rows(con: Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Copy rows into a table through a temporary one: COPY cannot write under row security."""
    if not rows:
        return
    options = f"(like {table}) on commit delete rows"
    con.execute(f"create temp table if not exists new_{table} {options}")
    with con.cursor() as cursor, cursor.copy(f"copy new_{table} from stdin") as writer:
        for row in rows:
            writer.write_row(row)
    con.execute(f"insert into {table} select * from new_{table}")
    con.execute(f"delete from new_{table}")


def _build_columns(row: Row, doc: Doc, passages: int) -> tuple[Any, ...]:
    """Build the columns of the table `doc` from `path` up to, but without, the author."""
    node = row.raw_node
    terms = []
    for name in TERMS.values():
        terms += [clean_text(f"{name}={value}") for value in doc.terms.get(name, ())]
    names = (node.path, clean_text(node.id), clean_text(node.key))
    facts = _build_facts(row)
    return (*names, row.blob, node.created, *facts, json.dumps(node), terms, passages)


def _iter_terms(tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Yield each term of a record once, with its field."""
    for field, words in tokens.items():
        for word in set(words):
            yield clean_text(word), field


def _count_tokens(tokens: Tokens) -> dict[str, int]:
    return {field: len(words) for field, words in tokens.items()}


def _format_counts(counts: Mapping[tuple[str, str], int], term: str) -> str:
    """Write the counts of a term in all fields as an array of SQL."""
    numbers = [str(counts[term, field]) for field in FIELDS]
    return "{" + ",".join(numbers) + "}"


def _format_author(provenance: Provenance) -> str:
    fields = provenance._asdict()
    return json.dumps({name: fields[name] for name in ("author", "agent", "commit", "date")})


def _build_facts(row: Row) -> tuple[Any, ...]:
    """Build the columns that depend on other records of the chain."""
    meanings = ""
    if row.meanings:
        meanings = json.dumps(row.meanings)
    facts = ""
    if row.facts != NO_FACTS:
        facts = json.dumps(row.facts)
    return row.is_live, row.is_visible, meanings, facts


def _iter_links(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the names of a record, its references as written, and the ids that these mean."""
    for kind, value in list_links(row.raw_node):
        if kind in LINKS:
            yield kind, value
    for target in row.targets:
        yield "target", target
