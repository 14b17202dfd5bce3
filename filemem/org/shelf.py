"""One repository while its worker changes it: records go in and out, and are counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from filemem.chain import NO_FACTS
from filemem.index import Chains, Doc, Model, Row, links_of, rows_of
from filemem.index.vectors import embed
from filemem.index.words import FIELDS, tokens_of
from filemem.org.engine import Repository
from filemem.org.pack import packed, texts, tokens_in
from filemem.org.rows import LINKS, SEEN, digest, plain, rows_with
from filemem.query import FIELDS as TERMS
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


class Laid(Chains):
    """The records of one repository, with changes over them until all that follows is known."""

    def __init__(self, con: Connection, number: int) -> None:
        self._con = con
        self._number = number
        self.over = dict[str, Row | None]()
        self.before = dict[str, Row]()

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        wanted = set(map(str, values))
        pairs = [(self._number, value) for value in wanted]
        kept = [row for _, row in rows_with(self._con, field, pairs)]
        self.before |= {row.written.path: row for row in kept}
        over = [row for row in self.over.values() if row]
        changed = [row for row in over if not wanted.isdisjoint(row.values(field))]
        return [*(row for row in kept if row.written.path not in self.over), *changed]

    def store(self, rows: Iterable[Row]) -> None:
        """See `Chains`."""
        self.over.update({row.written.path: row for row in rows})

    def put(self, changes: Mapping[str, Row | None]) -> None:
        """Put records in place of those of their paths, None for those that are gone."""
        old = self.rows("path", changes)
        self.over.update(changes)
        self.settle(old, [row for row in changes.values() if row])


class PostgresShelf:
    """See `engine.Shelf`."""

    def __init__(self, con: Connection, repository: Repository, model: Model) -> None:
        self.repository = repository
        self.con = con
        self._model = model
        self._sizes = Counter[str]()  # field -> tokens that came, less those that went

    def kept(self) -> dict[str, tuple[str, str]]:
        """See `engine.Shelf`."""
        query = "select path, blob, rid from doc where repo = %s"
        rows = self.con.execute(query, (self.repository.number,))
        return {path: (blob, rid) for path, blob, rid in rows}

    def put(self, changes: Mapping[str, Doc | None], first: Mapping[str, Provenance]) -> None:
        """See `engine.Shelf`."""
        mine = self.repository.number
        docs = {path: doc for path, doc in changes.items() if doc}
        authors = self._authors(changes, docs, first)
        dates = {path: json.loads(author)["date"] or 0 for path, author in authors.items()}
        numbered = dict(zip(self._numbers(len(docs)), docs.values(), strict=True))
        new = {row.written.path: row for row in rows_of(numbered, lambda _: dates)}
        laid = Laid(self.con, mine)
        laid.put({path: new.get(path) for path in changes})
        self._count(self._take_out(changes), list(map(tokens_of, docs.values())))
        now = {path: row for path, row in laid.over.items() if row}
        self._insert([(now[path], doc, authors[path]) for path, doc in docs.items()])
        others = [row for path, row in now.items() if path not in changes]
        self._update([row for row in others if _facts(row) != _facts(laid.before[row.node.path])])

    def _authors(
        self,
        changes: Mapping[str, Doc | None],
        docs: Mapping[str, Doc],
        first: Mapping[str, Provenance],
    ) -> dict[str, str]:
        """Who wrote each record first, as JSON; what is there by its id stays."""
        ids = {path: plain(doc.node.id) for path, doc in docs.items()}
        query = "select rid, who from doc where repo = %s and (path = any(%s) or rid = any(%s))"
        values = (self.repository.number, list(changes), list(ids.values()))
        kept = dict(self.con.execute(query, values).fetchall())
        return {
            path: kept.get(id_) or _author(first.get(path, Provenance()))
            for path, id_ in ids.items()
        }

    def _numbers(self, count: int) -> list[int]:
        """Numbers for new rows."""
        series = "select nextval(pg_get_serial_sequence('doc', 'id')) from generate_series(1, %s)"
        return [number for (number,) in self.con.execute(series, (count,))]

    def _take_out(self, paths: Iterable[str]) -> Sequence[Tokens]:
        """Delete the records with some paths; return their tokens."""
        where = (self.repository.number, list(paths))
        old: list[Tokens] = [tokens_in(*row) for row in self.con.execute(_BODIES, where)]
        self.con.execute("delete from doc where repo = %s and path = any(%s)", where)
        return old

    def _count(self, old: Sequence[Tokens], new: Sequence[Tokens]) -> None:
        """Count the words of what comes, and count off those of what goes."""
        mine = self.repository.number
        counts = Counter[tuple[str, str]]()  # (term, field) -> records
        for tokens in new:
            counts.update(_terms(tokens))
            self._sizes.update(_lengths(tokens))
        for tokens in old:
            counts.subtract(_terms(tokens))
            self._sizes.subtract(_lengths(tokens))
        changed = sorted({term for (term, _), count in counts.items() if count})
        arrays = [_array(counts, term) for term in changed]
        self.con.execute(_ADD, {"repo": mine, "terms": changed, "counts": arrays})
        if old:
            self.con.execute(_NONE, (mine, changed, [0] * len(FIELDS)))

    def _insert(self, new: Sequence[tuple[Row, Doc, str]]) -> None:
        mine = self.repository.number
        vectors = embed({row.number: doc for row, doc, _ in new}, self._model.table)
        places = {number: at for at, number in enumerate(vectors.keys.tolist())}
        docs = list[Any]()
        bodies = list[Any]()
        passages = list[Any]()
        for row, doc, author in new:
            at = places[row.number]
            first = vectors.starts[at]
            last = vectors.starts[at + 1]
            docs.append((row.number, mine, *_columns(row, doc, int(last - first)), author))
            stems, whole = texts(doc.card, tokens_of(doc))
            bodies.append((row.number, mine, plain(stems, None), whole, packed(vectors, at)))
            for n, vector in enumerate(vectors.rows[first:last].tolist()):
                if any(vector):
                    passages.append((row.number, mine, n, str(vector)))
        copy(self.con, "doc", docs)
        copy(self.con, "body", bodies)
        copy(self.con, "passage", passages)
        self._link([row for row, _, _ in new])

    def _update(self, rows: Sequence[Row]) -> None:
        """Write what changes have turned of other records: what holds, and to whom they refer."""
        if not rows:
            return
        update = "update doc set live = %s, shown = %s, meant = %s, facts = %s where id = %s"
        with self.con.cursor() as cursor:
            cursor.executemany(update, [(*_facts(row), row.number) for row in rows])
        self.con.execute("delete from link where doc = any(%s)", ([row.number for row in rows],))
        self._link(rows)

    def _link(self, rows: Sequence[Row]) -> None:
        mine = self.repository.number
        links = {(row.number, mine, digest(*pair)) for row in rows for pair in _linked(row)}
        copy(self.con, "link", list(links))

    def purge(self, paths: Iterable[str]) -> None:
        """Take records out, whatever the repository holds."""
        here = self.repository
        self.put(dict.fromkeys(paths), {})
        self._note(here.head, here.store, here.words, here.left_out)

    def done(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        """See `engine.Shelf`."""
        self._note(head, store, words, left_out)
        self.con.execute(SEEN, (self.repository.number,))

    def _note(self, head: str, store: str, words: str, left_out: str) -> None:
        mine = self.repository.number
        query = "delete from state where repo = %s returning tokens"
        row = self.con.execute(query, (mine,)).fetchone()
        before = row[0] if row else [0] * len(FIELDS)
        tokens = [old + self._sizes[field] for old, field in zip(before, FIELDS, strict=True)]
        self._sizes.clear()
        self.con.execute(_STATE, (mine, head, plain(store), words, plain(left_out), tokens, mine))


def copy(con: Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Put rows in a table by way of a temporary one: COPY cannot write under row security."""
    if rows:
        how = f"(like {table}) on commit delete rows"
        con.execute(f"create temp table if not exists new_{table} {how}")
        with con.cursor() as cursor, cursor.copy(f"copy new_{table} from stdin") as into:
            for row in rows:
                into.write_row(row)
        con.execute(f"insert into {table} select * from new_{table}")
        con.execute(f"delete from new_{table}")


def _columns(row: Row, doc: Doc, passages: int) -> tuple[Any, ...]:
    """What the table `doc` has of a record, from its path on, but for who wrote it."""
    node = row.written
    terms = [f"{name}={value}" for name in TERMS.values() for value in doc.terms.get(name, ())]
    names = (node.path, plain(node.id), plain(node.key), row.blob, node.created)
    return (*names, *_facts(row), json.dumps(node), list(map(plain, terms)), passages)


def _terms(tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Each term of a record with its field, once."""
    for field, words in tokens.items():
        for word in set(words):
            yield plain(word), field


def _lengths(tokens: Tokens) -> dict[str, int]:
    return {field: len(words) for field, words in tokens.items()}


def _array(counts: Mapping[tuple[str, str], int], term: str) -> str:
    """The counts of a term in all fields, as an array is written in SQL."""
    return f"{{{','.join(str(counts[term, field]) for field in FIELDS)}}}"


def _author(who: Provenance) -> str:
    return json.dumps({name: getattr(who, name) for name in ("author", "agent", "commit", "date")})


def _facts(row: Row) -> tuple[Any, ...]:
    """What chains say of a record."""
    meanings = json.dumps(row.meanings) if row.meanings else ""
    facts = json.dumps(row.facts) if row.facts != NO_FACTS else ""
    return row.live, row.visible, meanings, facts


def _linked(row: Row) -> Iterator[tuple[str, str]]:
    """The names of a record, what it refers to as written, and the ids that this means."""
    yield from ((kind, value) for kind, value in links_of(row.written) if kind in LINKS)
    yield from (("target", target) for target in row.targets)
