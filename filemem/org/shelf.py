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
        """See `Chains`."""
        value_texts = set(map(str, values))
        pairs = [(self._number, value) for value in value_texts]
        kept_rows = [row for _, row in read_rows(self._con, field, pairs)]
        self.old_rows |= {row.raw_node.path: row for row in kept_rows}
        present_rows = [row for row in self.changed_rows.values() if row]
        matching_rows = [
            row for row in present_rows if not value_texts.isdisjoint(row.get_values(field))
        ]
        return [
            *(row for row in kept_rows if row.raw_node.path not in self.changed_rows),
            *matching_rows,
        ]

    def write_rows(self, rows: Iterable[Row]) -> None:
        """See `Chains`."""
        self.changed_rows.update({row.raw_node.path: row for row in rows})

    def put(self, changes: Mapping[str, Row | None]) -> None:
        """Put records in place of those of their paths, None for those that are gone."""
        replaced_rows = self.read_rows("path", changes)
        self.changed_rows.update(changes)
        self.update_facts(replaced_rows, [row for row in changes.values() if row])


class PostgresShelf:
    """See `engine.Shelf`."""

    def __init__(self, con: Connection, repository: Repository, model: Model) -> None:
        self.repository = repository
        self.con = con
        self._model = model
        self._sizes = Counter[str]()  # field -> tokens that came, less those that went

    def read_manifest(self) -> dict[str, tuple[str, str]]:
        """See `engine.Shelf`."""
        query = "select path, blob, rid from doc where repo = %s"
        rows = self.con.execute(query, (self.repository.number,))
        return {path: (blob, rid) for path, blob, rid in rows}

    def put(
        self, changes: Mapping[str, Doc | None], first_authors: Mapping[str, Provenance]
    ) -> None:
        """See `engine.Shelf`."""
        repository_number = self.repository.number
        docs = {path: doc for path, doc in changes.items() if doc}
        authors = self._find_authors(changes, docs, first_authors)
        dates = {path: json.loads(author)["date"] or 0 for path, author in authors.items()}
        docs_by_number = dict(zip(self._allocate_numbers(len(docs)), docs.values(), strict=True))
        new_rows = {row.raw_node.path: row for row in build_rows(docs_by_number, lambda _: dates)}
        overlay = RowOverlay(self.con, repository_number)
        overlay.put({path: new_rows.get(path) for path in changes})
        self._update_word_counts(
            self._delete_records(changes), list(map(tokenize_document, docs.values()))
        )
        rows_by_path = {path: row for path, row in overlay.changed_rows.items() if row}
        self._insert_records(
            [(rows_by_path[path], doc, authors[path]) for path, doc in docs.items()]
        )
        other_rows = [row for path, row in rows_by_path.items() if path not in changes]
        self._update_records(
            [
                row
                for row in other_rows
                if _build_facts(row) != _build_facts(overlay.old_rows[row.node.path])
            ]
        )

    def _find_authors(
        self,
        changes: Mapping[str, Doc | None],
        docs: Mapping[str, Doc],
        first_authors: Mapping[str, Provenance],
    ) -> dict[str, str]:
        """Who wrote each record first, as JSON; what is there by its id stays."""
        ids = {path: clean_text(doc.node.id) for path, doc in docs.items()}
        query = "select rid, who from doc where repo = %s and (path = any(%s) or rid = any(%s))"
        values = (self.repository.number, list(changes), list(ids.values()))
        kept_authors = dict(self.con.execute(query, values).fetchall())
        return {
            path: kept_authors.get(id_) or _format_author(first_authors.get(path, Provenance()))
            for path, id_ in ids.items()
        }

    def _allocate_numbers(self, count: int) -> list[int]:
        """Numbers for new rows."""
        series = "select nextval(pg_get_serial_sequence('doc', 'id')) from generate_series(1, %s)"
        return [number for (number,) in self.con.execute(series, (count,))]

    def _delete_records(self, paths: Iterable[str]) -> Sequence[Tokens]:
        """Delete the records with some paths; return their tokens."""
        values = (self.repository.number, list(paths))
        old_tokens: list[Tokens] = [
            unpack_tokens(*row) for row in self.con.execute(_BODIES, values)
        ]
        self.con.execute("delete from doc where repo = %s and path = any(%s)", values)
        return old_tokens

    def _update_word_counts(self, old: Sequence[Tokens], new: Sequence[Tokens]) -> None:
        """Count the words of what comes, and count off those of what goes."""
        repository_number = self.repository.number
        counts = Counter[tuple[str, str]]()  # (term, field) -> records
        for tokens in new:
            counts.update(_iter_terms(tokens))
            self._sizes.update(_count_tokens(tokens))
        for tokens in old:
            counts.subtract(_iter_terms(tokens))
            self._sizes.subtract(_count_tokens(tokens))
        changed_terms = sorted({term for (term, _), count in counts.items() if count})
        arrays = [_format_counts(counts, term) for term in changed_terms]
        self.con.execute(
            _ADD, {"repo": repository_number, "terms": changed_terms, "counts": arrays}
        )
        if old:
            self.con.execute(_NONE, (repository_number, changed_terms, [0] * len(FIELDS)))

    def _insert_records(self, new_records: Sequence[tuple[Row, Doc, str]]) -> None:
        repository_number = self.repository.number
        vectors = embed_documents(
            {row.number: doc for row, doc, _ in new_records}, self._model.table
        )
        positions = {number: position for position, number in enumerate(vectors.keys.tolist())}
        docs = list[Any]()
        bodies = list[Any]()
        passages = list[Any]()
        for row, doc, author in new_records:
            at = positions[row.number]
            first = vectors.starts[at]
            last = vectors.starts[at + 1]
            docs.append(
                (
                    row.number,
                    repository_number,
                    *_build_columns(row, doc, int(last - first)),
                    author,
                )
            )
            stems, packed_texts = pack_texts(doc.card, tokenize_document(doc))
            bodies.append(
                (
                    row.number,
                    repository_number,
                    clean_text(stems, None),
                    packed_texts,
                    pack_vectors(vectors, at),
                )
            )
            for n, vector in enumerate(vectors.rows[first:last].tolist()):
                if any(vector):
                    passages.append((row.number, repository_number, n, str(vector)))
        copy_rows(self.con, "doc", docs)
        copy_rows(self.con, "body", bodies)
        copy_rows(self.con, "passage", passages)
        self._insert_links([row for row, _, _ in new_records])

    def _update_records(self, rows: Sequence[Row]) -> None:
        """Write what changes have turned of other records: what holds, and to whom they refer."""
        if not rows:
            return
        update = "update doc set live = %s, shown = %s, meant = %s, facts = %s where id = %s"
        with self.con.cursor() as cursor:
            cursor.executemany(update, [(*_build_facts(row), row.number) for row in rows])
        self.con.execute("delete from link where doc = any(%s)", ([row.number for row in rows],))
        self._insert_links(rows)

    def _insert_links(self, rows: Sequence[Row]) -> None:
        repository_number = self.repository.number
        links = {
            (row.number, repository_number, digest(*pair))
            for row in rows
            for pair in _iter_links(row)
        }
        copy_rows(self.con, "link", list(links))

    def purge(self, paths: Iterable[str]) -> None:
        """Take records out, whatever the repository holds."""
        repository = self.repository
        self.put(dict.fromkeys(paths), {})
        self._write_state(repository.head, repository.store, repository.words, repository.left_out)

    def note_state(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        """See `engine.Shelf`."""
        self._write_state(head, store, words, left_out)
        self.con.execute(SEEN, (self.repository.number,))

    def _write_state(self, head: str, store: str, words: str, left_out: str) -> None:
        repository_number = self.repository.number
        query = "delete from state where repo = %s returning tokens"
        row = self.con.execute(query, (repository_number,)).fetchone()
        old_tokens = row[0] if row else [0] * len(FIELDS)
        tokens = [old + self._sizes[field] for old, field in zip(old_tokens, FIELDS, strict=True)]
        self._sizes.clear()
        self.con.execute(
            _STATE,
            (
                repository_number,
                head,
                clean_text(store),
                words,
                clean_text(left_out),
                tokens,
                repository_number,
            ),
        )


def copy_rows(con: Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Put rows in a table by way of a temporary one: COPY cannot write under row security."""
    if rows:
        options = f"(like {table}) on commit delete rows"
        con.execute(f"create temp table if not exists new_{table} {options}")
        with con.cursor() as cursor, cursor.copy(f"copy new_{table} from stdin") as writer:
            for row in rows:
                writer.write_row(row)
        con.execute(f"insert into {table} select * from new_{table}")
        con.execute(f"delete from new_{table}")


def _build_columns(row: Row, doc: Doc, passages: int) -> tuple[Any, ...]:
    """What the table `doc` has of a record, from its path on, but for who wrote it."""
    node = row.raw_node
    terms = [f"{name}={value}" for name in TERMS.values() for value in doc.terms.get(name, ())]
    names = (node.path, clean_text(node.id), clean_text(node.key), row.blob, node.created)
    return (*names, *_build_facts(row), json.dumps(node), list(map(clean_text, terms)), passages)


def _iter_terms(tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Each term of a record with its field, once."""
    for field, words in tokens.items():
        for word in set(words):
            yield clean_text(word), field


def _count_tokens(tokens: Tokens) -> dict[str, int]:
    return {field: len(words) for field, words in tokens.items()}


def _format_counts(counts: Mapping[tuple[str, str], int], term: str) -> str:
    """The counts of a term in all fields, as an array is written in SQL."""
    return f"{{{','.join(str(counts[term, field]) for field in FIELDS)}}}"


def _format_author(provenance: Provenance) -> str:
    return json.dumps(
        {name: getattr(provenance, name) for name in ("author", "agent", "commit", "date")}
    )


def _build_facts(row: Row) -> tuple[Any, ...]:
    """What chains say of a record."""
    meanings = json.dumps(row.meanings) if row.meanings else ""
    facts = json.dumps(row.facts) if row.facts != NO_FACTS else ""
    return row.is_live, row.is_visible, meanings, facts


def _iter_links(row: Row) -> Iterator[tuple[str, str]]:
    """The names of a record, what it refers to as written, and the ids that this means."""
    yield from ((kind, value) for kind, value in list_links(row.raw_node) if kind in LINKS)
    yield from (("target", target) for target in row.targets)
