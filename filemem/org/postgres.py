"""The engine on PostgreSQL with pgvector: the only module that knows psycopg.

Rule: rows of a repository and the commit that they are of change in one transaction. Who asks is set for one
transaction, with a role that owns nothing, so that no connection and no defect of ours shows what row security hides.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from filemem.chain import Node
from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.index import Chains, Counts, Doc, Model, Row, links_of, rows_of
from filemem.index.document import key, node_from
from filemem.index.vectors import Rows, embed
from filemem.index.words import EXACT, FIELDS, STEM, tokens_of
from filemem.org.engine import Asked, Kept, Nominated, Nominee, Repository, Shown
from filemem.query import FIELDS as TERMS
from filemem.query import Filter, Provenance

VERSION = 1  # of schema.sql and of what is packed
EXACT_BELOW = 50_000  # passages that may be seen: up to so many are compared one by one, more by the graph
COUNTED = 20_000  # records that the statistics are taken from at most: a part of them says nearly the same
DEGRADED = "words by rarity alone: the database has no BM25 index"
HEAD, OFTEN = "^", {"+": 2, "++": 4}  # marks behind a stem in the title or topic, or so often in the text
_DERIVED = "doc, link, body, passage, df, total, meta"
_KINDS = ("name", "refers", "target")  # of links that questions follow
_COLUMNS = {"id": "rid", "path": "path", "key": "key"}
_FACTS = "d.id, d.repo, d.blob, d.node, d.live, d.shown, d.meant, d.place, d.names"
_BY_BM25 = "select x.doc from body x {those} order by x.stems <@> to_bm25query(%(text)s, 'body_bm25') limit %(most)s"
_BY_RARITY = "select x.doc from holding(%(words)s, %(worth)s::real[]) x {those} order by x.worth desc, x.doc desc limit %(most)s"
_NEAREST = """select x.doc from passage x {those} where x.repo = any(%(repos)s)
  group by x.doc order by min(x.vec <=> %(vector)s::halfvec) limit %(most)s"""
_BY_GRAPH = "select x.doc from passage x {those} order by x.vec <=> %(vector)s::halfvec limit 3 * %(most)s"
_WAYS = {way: [name for name, (_, how, _) in FIELDS.items() if how == way] for way in (STEM, EXACT)}
_HEAD = struct.Struct("<BBHI")  # format, bytes of a token, passages, tokens
_FORMAT = 1


class Addressed(Node):
    """A node among those of several repositories: its id, path and references are addresses."""

    @property
    def key(self) -> str:
        """The address of the topic; empty where none is stated."""
        own = super().key
        return own and f"{self.id.partition(' ')[0]} {own}"


# what is packed


def packed(rows: Rows, at: int) -> bytes:
    """Return the vectors of one document of some as bytes: little endian, its passages as they are compared."""
    first, last = rows.starts[at], rows.starts[at + 1]
    counts = np.diff(rows.token_starts[first : last + 1]).astype("<u4")
    tokens = rows.tokens[rows.token_starts[first] : rows.token_starts[last]]
    head = _HEAD.pack(_FORMAT, tokens.itemsize, last - first, len(tokens))
    floats = np.append(rows.scales[first:last], rows.title_scales[at]).astype("<f4")
    parts = (counts, floats, tokens.astype(f"<u{tokens.itemsize}"), rows.rows[first:last], rows.titles[at])
    return head + b"".join(part.tobytes() for part in parts)


def unpacked(data: bytes, number: int) -> Rows:
    """Return what `packed` made, filed under a number. Raises BrokenStore: another format."""
    form, width, size, many = _HEAD.unpack_from(data)
    if form != _FORMAT:
        raise BrokenStore(f"the database holds vectors of an unknown format {form}", "update filemem")
    at = _HEAD.size
    counts = np.frombuffer(data, "<u4", size, at)
    floats = np.frombuffer(data, "<f4", size + 1, at + 4 * size)
    tokens = np.frombuffer(data, f"<u{width}", many, at + 8 * size + 4)
    rest = np.frombuffer(data, np.int8, offset=at + 8 * size + 4 + width * many).reshape(size + 1, -1)
    starts = np.array([0, size], dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    number_ = np.array([number], dtype=np.int64)
    return Rows(number_, starts, ends, floats[:-1], floats[-1:], tokens, rest[:-1], rest[-1:])


def _texts(tokens: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The tokens of all fields as two texts, stemmed and exact.

    Behind the stems stands what else nominates: what no stem is kept of, what stands often, and what in title or topic.
    """
    stems, exact = ([" ".join(tokens[name]) for name in _WAYS[way]] for way in (STEM, EXACT))
    odd = {one for name in _WAYS[EXACT] for one in tokens[name] if not one.isascii()}
    often = Counter(tokens["body_stem"])
    odd |= {one + mark for mark, times in OFTEN.items() for one, n in often.items() if n >= times}
    odd |= {one + HEAD for one in (*tokens["title_stem"], *tokens["topic_stem"])}
    return " \n ".join((*stems, " ".join(odd))), " \n ".join(exact)


def _tokens(stems: str, exact: str) -> dict[str, list[str]]:
    """What `_texts` was given."""
    return {
        name: part.split()
        for way, text in ((STEM, stems), (EXACT, exact))
        for name, part in zip(_WAYS[way], text.split("\n"), strict=False)
    }


def _plain(value: str) -> str:
    """A text as the database can have it: names of files may be any bytes, and values hold NUL."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


@lru_cache(maxsize=8192)
def _node(text: str) -> Node:
    return node_from(json.loads(text))


def _row(columns: Sequence[Any]) -> Row:
    number, _, blob, node, live, shown, meant, place, names = columns
    return Row(number, blob, _node(node), live, shown, json.loads(meant) if meant else {}, place, names)


def _addressed(columns: Sequence[Any]) -> Row:
    """A row among those of several repositories."""
    row, repo = _row(columns), columns[1]
    node = row.written.meaning({one: f"{repo} {row.meant.get(one, one)}" for one in row.written.references})
    return row._replace(written=Addressed(*node._replace(id=f"{repo} {node.id}", path=f"{repo} {node.path}")), meant={})


def _asked_rows(field_: str, repos: list[int], values: list[str]) -> tuple[sql.Composed, list[Any]]:
    """The question for records of some repositories that have one of some values in a field."""
    pairs: list[Any] = [repos, list(map(_plain, values))]
    wanted = sql.SQL(f"select {_FACTS} from doc d where ")
    if field_ in _COLUMNS:
        column = sql.Identifier(_COLUMNS[field_])
        return wanted + sql.SQL("(d.{}, d.repo) in (select * from unnest(%s::text[], %s::int[]))").format(
            column
        ), pairs[::-1]
    links = sql.SQL(
        "d.id in (select l.doc from link l join unnest(%s::int[], %s::text[]) w(repo, value)"
        " on l.repo = w.repo and l.value = w.value and l.kind = %s)"
    )
    return wanted + links, [*pairs, field_]


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """Turn what the database says into what our callers can act on."""
    try:
        yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedObject) as error:
        raise BrokenStore("the database is not made ready for filemem", "run `filemem org init`") from error
    except psycopg.Error as error:
        told = " ".join(str(error).split())[:300] or type(error).__name__
        raise BrokenStore(
            f"the database of the organisation cannot be used: {told}",
            "check FILEMEM_ORG_DSN, and that PostgreSQL runs",
        ) from error


class Postgres:
    """The database at `dsn`; `model` makes the vectors."""

    def __init__(self, dsn: str, model: Model) -> None:
        if not dsn:
            raise BadInput("no database is named", "set FILEMEM_ORG_DSN, or org_dsn in your own config.toml")
        with _ours():
            stated: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(dsn)
        host = str(stated.get("host") or "")
        if host and not host.startswith(("/", "@", "127.", "::1", "localhost")):
            stated.setdefault("sslmode", "require")
        self._dsn, self.model = psycopg.conninfo.make_conninfo(**stated), model
        self._idle: dict[bool, SimpleQueue[psycopg.Connection[Any]]] = {False: SimpleQueue(), True: SimpleQueue()}

    def close(self) -> None:
        """Let go of all connections that nobody uses."""
        for idle in self._idle.values():
            with contextlib.suppress(Empty):
                while True:
                    idle.get_nowait().close()

    @contextlib.contextmanager
    def transaction(self, *, reading: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction on a connection of its own: all of it is kept at the end, or nothing."""
        with self._connection(reading=reading) as con, con.transaction():
            yield con

    @contextlib.contextmanager
    def _connection(self, *, reading: bool = False) -> Iterator[psycopg.Connection[Any]]:
        with _ours():
            try:
                con = self._idle[reading].get_nowait()
            except Empty:
                con = psycopg.connect(self._dsn, autocommit=True, connect_timeout=10, application_name="filemem")
                if reading:
                    con.read_only, con.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
            try:
                yield con
            finally:
                con.close() if con.broken else self._idle[reading].put(con)

    def init(self) -> str:
        """Make the database ready, or renew what another version of filemem made; return what was done, in words."""
        dimensions = self.model.encode([""]).shape[1]
        with self.transaction() as con:
            con.execute("select pg_advisory_xact_lock(4242)")
            if con.info.server_version < 160000:
                raise BrokenStore("the database is older than PostgreSQL 16", "filemem needs 16 or newer")
            found = con.execute("select to_regclass('meta')").fetchone()
            known = con.execute("select version, model from meta").fetchone() if found and found[0] else None
            if known == (VERSION, self.model.name):
                return "the database is ready"
            if known:
                con.execute(f"drop table if exists {_DERIVED} cascade")
                con.execute("drop function if exists visible, holding cascade")
                con.execute("update repo set head = ''")
            con.execute("create extension if not exists vector")
            if not con.execute("select 1 from pg_roles where rolname = 'filemem_reader'").fetchone():
                con.execute("create role filemem_reader nologin")
            con.execute("grant filemem_reader to current_user")
            (schema,) = con.execute("select quote_ident(current_schema())").fetchone() or ("public",)
            text = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
            con.execute(text.replace("SCHEMA", schema).replace("DIMENSIONS", str(dimensions)))
            for table, column in {
                "repo": "id",
                "doc": "repo",
                "link": "repo",
                "body": "repo",
                "passage": "repo",
            }.items():
                con.execute(f"alter table {table} enable row level security")
                con.execute(f"drop policy if exists seen on {table}")
                con.execute(
                    f"create policy seen on {table} for select to filemem_reader using ({column} in (select visible()))"
                )
            con.execute("insert into meta values (%s, %s)", (VERSION, self.model.name))
        return f"the database is made ready; {self._words()}"

    def _words(self) -> str:
        """Make the index of words: BM25 if the server can, else one that says who has a word."""
        try:
            with self.transaction() as con:
                con.execute("create extension if not exists pg_textsearch")
                con.execute(
                    "create index body_bm25 on body using bm25(stems) with (text_config='simple', k1=1.2, b=0.75)"
                )
            return "words by BM25"
        except BrokenStore:
            with self.transaction() as con:
                con.execute("create index body_gin on body using gin (string_to_array(stems, ' '))")
            return DEGRADED

    @contextlib.contextmanager
    def reading(self, principal: str) -> Iterator[PostgresReader]:
        """Open what a principal may see."""
        settings = {"role": "filemem_reader", "filemem.principal": principal, "hnsw.iterative_scan": "strict_order"}
        with self.transaction(reading=True) as con:
            con.execute(
                f"select {', '.join(['set_config(%s, %s, true)'] * len(settings))}",
                [one for pair in settings.items() for one in pair],
            )
            yield PostgresReader(con)

    def add(self, sources: Mapping[str, str]) -> int:
        """Add repositories, name -> source."""
        with self.transaction() as con, con.cursor() as cursor:
            cursor.executemany(
                "insert into repo(name, source) values (%s, %s) on conflict do nothing", list(sources.items())
            )
            return cursor.rowcount

    def repositories(self) -> list[Repository]:
        """Return all repositories, by name."""
        with self.transaction() as con:
            return _repositories(con)

    @contextlib.contextmanager
    def taking(self, number: int) -> Iterator[PostgresShelf | None]:
        """Open a repository for change, one worker at a time."""
        with self.transaction() as con:
            locked = con.execute("select from repo where id = %s for update skip locked", (number,)).fetchone()
            yield PostgresShelf(con, _repositories(con, number)[0], self.model) if locked is not None else None

    def fail(self, number: int, reason: str) -> None:
        """Note why a repository could not be read."""
        with self.transaction() as con:
            con.execute("update repo set failed = %s where id = %s", (_plain(reason)[:500], number))

    def drop(self, name: str) -> None:
        """Forget a repository."""
        with self.transaction() as con:
            if not con.execute("delete from repo where name = %s", (name,)).rowcount:
                raise NotFound(f"no repository {name!r}", "`filemem org status` lists them")

    def purge(self, record_id: str) -> int:
        """Delete the records with an id everywhere, and what is left of them in the files of the database."""
        with self.transaction() as con:
            gone = con.execute("delete from doc where rid = %s", (_plain(record_id),)).rowcount
        with self._connection() as con:
            con.execute("vacuum doc, link, body, passage")
        return gone

    def recount(self) -> bool:
        """Renew the statistics if a tenth of the records is new since the last time."""
        with self.transaction() as con:
            if not _one(con, "select pg_try_advisory_xact_lock(4243)"):
                return False
            there = int(_one(con, "select coalesce(sum(records), 0) from repo"))
            if abs(there - int(_one(con, "select coalesce(max(docs), 0) from total"))) <= there / 10:
                return False
            con.execute("delete from df")
            con.execute("delete from total")
            having, sizes, read = Counter[tuple[str, str]](), Counter[str](), 0
            part = f" tablesample system ({100 * COUNTED / there})" if there > COUNTED else ""
            with con.cursor(name="bodies") as bodies:
                for stems, exact in bodies.execute(f"select stems, exact from body{part}"):
                    read += 1
                    for name, tokens in _tokens(stems, exact).items():
                        sizes[name] += len(tokens)
                        having.update((term, name) for term in set(tokens))
            scale = there / max(read, 1)
            _copy(con, "df(field, term, n)", ((name, term, round(n * scale)) for (term, name), n in having.items()))
            _copy(con, "total", ((name, there, round(sizes[name] * scale)) for name in FIELDS))
            return True


def _one(con: psycopg.Connection[Any], asked: str, values: Sequence[Any] = ()) -> Any:
    """The one value that a question is answered with."""
    found = con.execute(asked, values).fetchone()  # type: ignore[call-overload]
    return found[0] if found else None


def _copy(con: psycopg.Connection[Any], table: str, rows: Iterable[Sequence[Any]]) -> None:
    with con.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as into:  # type: ignore[arg-type]
        for row in rows:
            into.write_row(row)


def _repositories(con: psycopg.Connection[Any], number: int | None = None) -> list[Repository]:
    asked = "select id, name, source, store, head, (extract(epoch from seen) * 1000)::bigint, failed, records, passages"
    return [
        Repository(*row) for row in con.execute(f"{asked} from repo where %s in (id, 0) order by name", (number or 0,))
    ]


class PostgresShelf(Chains):
    """One repository in a transaction. What changes lies over the table until all that follows from it is known."""

    def __init__(self, con: psycopg.Connection[Any], repository: Repository, model: Model) -> None:
        self.repository, self.con, self._model = repository, con, model
        self._over: dict[str, Row | None] = {}

    def kept(self) -> dict[str, Kept]:
        """See `engine.Shelf`."""
        asked = "select path, blob, rid, who from doc where repo = %s"
        found = self.con.execute(asked, (self.repository.number,))
        return {path: Kept(blob, rid, Provenance(**json.loads(who))) for path, blob, rid, who in found}

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        wanted = list(dict.fromkeys(map(str, values)))
        asked = _asked_rows(field, [self.repository.number] * len(wanted), wanted)
        known = map(_row, self.con.execute(*asked)) if wanted else ()
        over = (row for row in self._over.values() if row and not set(wanted).isdisjoint(row.values(field)))
        return [*(row for row in known if row.written.path not in self._over), *over]

    def store(self, changes: Mapping[str, Row | None]) -> None:
        """See `Chains`."""
        self._over.update(changes)

    def put(self, changes: Mapping[str, Any], who: Mapping[str, Provenance] | None = None) -> None:
        """See `engine.Shelf`."""
        said, docs = who or {}, {path: doc for path, doc in changes.items() if doc}
        asked = "select nextval(pg_get_serial_sequence('doc', 'id')) from generate_series(1, %s)"
        numbers = [number for (number,) in self.con.execute(asked, (len(docs),))]
        dates = {path: one.date or 0 for path, one in said.items()}
        made = rows_of(dict(zip(numbers, docs.values(), strict=True)), lambda _: dates)
        new = {row.written.path: row for row in made}
        super().put({path: new.get(path) for path in changes})
        mine, over = self.repository.number, self._over
        self.con.execute("delete from doc where repo = %s and path = any(%s)", (mine, list(changes)))
        kept = {path: row for path, row in over.items() if row}
        self._insert({path: (kept[path], docs[path], said.get(path, Provenance())) for path in docs})
        self._update([row for path, row in kept.items() if path not in docs])
        self._over = {}

    def _insert(self, new: Mapping[str, tuple[Row, Doc, Provenance]]) -> None:
        mine, made = self.repository.number, embed((doc for _, doc, _ in new.values()), self._model.table)
        at = {number: place for place, number in enumerate(made.keys.tolist())}
        docs, bodies, links, passages = [], [], [], []
        for row, doc, who in new.values():
            place, node = at[key(doc.blob)], row.written
            first, last = made.starts[place], made.starts[place + 1]
            terms = [
                _plain(f"{name}={value}") for name, of in doc.terms.items() if name in TERMS.values() for value in of
            ]
            names = (node.path, *map(_plain, (node.id, node.key)), row.blob, node.created, *_facts(row))
            said = json.dumps({"author": who.author, "agent": who.agent, "commit": who.commit, "date": who.date})
            docs.append((row.number, mine, *names, json.dumps(node), terms, int(last - first), said))
            bodies.append((row.number, mine, doc.card, *map(_plain, _texts(tokens_of(doc))), packed(made, place)))
            links += [(row.number, mine, kind, value) for kind, value in _links(row)]
            vectors = made.rows[first:last].tolist()
            passages += [(row.number, mine, n, str(vector)) for n, vector in enumerate(vectors) if any(vector)]
        _copy(self.con, "doc", docs)
        _copy(self.con, "body", bodies)
        _copy(self.con, "link", links)
        _copy(self.con, "passage", passages)

    def _update(self, rows: Sequence[Row]) -> None:
        """Write what changes have turned of records that are there, and to whom they refer."""
        facts = "live = %s, shown = %s, meant = %s, place = %s, names = %s"
        with self.con.cursor() as cursor:
            cursor.executemany(f"update doc set {facts} where id = %s", [(*_facts(row), row.number) for row in rows])
            numbers = [row.number for row in rows]
            cursor.execute("delete from link where kind = 'target' and doc = any(%s)", (numbers,))
        targets = (row for row in rows)
        mine = self.repository.number
        _copy(
            self.con,
            "link",
            [(row.number, mine, kind, value) for row in targets for kind, value in _links(row) if kind == "target"],
        )

    def done(self, head: str, store: str) -> None:
        """Note which commit the rows are of now."""
        counted = "records = (select count(*) from doc where repo = r.id)"
        counted += ", passages = (select coalesce(sum(passages), 0) from doc where repo = r.id)"
        asked = f"update repo r set head = %s, store = %s, seen = now(), failed = '', {counted} where id = %s"
        self.con.execute(asked, (head, _plain(store), self.repository.number))


def _facts(row: Row) -> tuple[Any, ...]:
    """What chains say of a record."""
    return row.live, row.shown, json.dumps(row.meant) if row.meant else "", *map(_plain, (row.place, row.names))


def _links(row: Row) -> set[tuple[str, str]]:
    return {(kind, _plain(value)) for kind, value in links_of(row) if kind in _KINDS}


class PostgresReader:
    """What one principal may see, in one transaction: row security decides."""

    def __init__(self, con: psycopg.Connection[Any]) -> None:
        self.con = con

    def repositories(self) -> list[Repository]:
        """See `engine.Reader`."""
        return _repositories(self.con)

    def statistics(self, terms: Collection[tuple[str, str]]) -> Counts:
        """See `engine.Reader`."""
        sizes = {name: (docs, float(tokens)) for name, docs, tokens in self.con.execute("select * from total")}
        asked = "select field, term, n from df where (term, field) in (select * from unnest(%s::text[], %s::text[]))"
        fields, words = [name for name, _ in terms], [_plain(term) for _, term in terms]
        held = {(name, term): n for name, term, n in self.con.execute(asked, (words, fields))}
        return Counts(max((docs for docs, _ in sizes.values()), default=0), held, sizes)

    def nominate(self, asked: Asked, wanted: Filter, depth: int) -> Nominated:
        """See `engine.Reader`."""
        those, values = _limits(wanted)
        values |= {"most": depth, "words": list(map(_plain, asked.words)), "worth": list(asked.words.values())}
        values |= {"text": " ".join(values["words"]), "vector": str(list(asked.vector or ()))}
        found, degraded = set[int](), ""
        if asked.words:
            bm25 = _one(self.con, "select to_regclass('body_bm25') is not null")
            found.update(self._numbers(_BY_BM25 if bm25 else _BY_RARITY, those, values))
            degraded = "" if bm25 else DEGRADED
        if asked.vector is not None:
            repos = dict(self.con.execute("select id, passages from repo").fetchall())
            values["repos"] = list(repos)
            found.update(self._numbers(_NEAREST if sum(repos.values()) <= EXACT_BELOW else _BY_GRAPH, those, values))
        asked_rows = f"select {_FACTS}, b.stems, b.exact, b.vectors from doc d join body b on b.doc = d.id"
        rows = self.con.execute(f"{asked_rows} where d.id = any(%s) and d.shown", (list(found),), binary=True)
        first: dict[str, Nominee] = {}
        for row in sorted(rows, key=lambda one: (not one[4], one[0])):  # of the same bytes what holds, then the oldest
            if row[2] not in first:
                first[row[2]] = Nominee(_addressed(row[:9]), _tokens(row[9], row[10]), unpacked(row[11], key(row[2])))
        return Nominated(tuple(first.values()), degraded)

    def _numbers(self, asked: str, those: str, values: Mapping[str, Any]) -> list[int]:
        return [row[0] for row in self.con.execute(asked.format(those=those), values)]

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `engine.Reader`."""
        pairs = [str(one).partition(" ") for one in dict.fromkeys(values)]
        repos, own = [int(repo) for repo, _, _ in pairs], [value for _, _, value in pairs]
        return [_addressed(row) for row in self.con.execute(*_asked_rows(field, repos, own))] if pairs else []

    def named(self, names: Collection[str]) -> list[Row]:
        """See `engine.Reader`."""
        which = "select doc from link where kind = 'name' and value = any(%s)"
        asked = f"select {_FACTS} from doc d where d.shown and (d.rid = any(%s) or d.id in ({which}))"
        values = list(map(_plain, names))
        return [_addressed(row) for row in self.con.execute(asked, (values, values))]

    def shown(self, paths: Collection[str]) -> dict[str, Shown]:
        """See `engine.Reader`."""
        pairs = [one.partition(" ") for one in paths]
        asked = """select d.repo, d.path, b.card, d.who, (select coalesce(array_agg(distinct r.name order by r.name), '{}')
            from doc o join repo r on r.id = o.repo where o.blob = d.blob and o.repo <> d.repo)
          from doc d join body b on b.doc = d.id where (d.repo, d.path) in (select * from unnest(%s::int[], %s::text[]))"""
        values = [int(repo) for repo, _, _ in pairs], [path for _, _, path in pairs]
        known = {one.number: one for one in self.repositories()}
        return {
            f"{repo} {path}": Shown(card, Provenance(**json.loads(who)), known[repo], tuple(others))
            for repo, path, card, who, others in self.con.execute(asked, values)
        }

    def topics(self, words: str, most: int, offset: int) -> tuple[list[Row], int]:
        """See `engine.Reader`."""
        those = "from doc d where d.place <> '' and strpos(d.names, %s) > 0"
        rows = self.con.execute(
            f"select {_FACTS} {those} order by d.place, d.repo limit %s offset %s", (words, most, offset)
        )
        return list(map(_addressed, rows)), int(_one(self.con, f"select count(*) {those}", (words,)))


def _limits(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """A filter as what joins records that satisfy it, and the values in that; nothing if all do."""
    groups = {name: [_plain(f"{name}={one}") for one in getattr(wanted, field)] for field, name in TERMS.items()}
    said = [f"d.terms && %({name})s" for name, of in groups.items() if of] + ["d.live"] * wanted.live
    said += ["d.created >= %(since)s"] * (wanted.since is not None) + ["d.created <= %(until)s"] * (wanted.until is not None)
    join = " and ".join(["join doc d on d.id = x.doc and d.shown", *said]) if said else ""
    return join, {**groups, "since": wanted.since, "until": wanted.until}
