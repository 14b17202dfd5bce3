"""Records as rows of PostgreSQL: one repository while its worker changes it, and what one principal may see.

Rule: a connection comes with its transaction, and with the role of whoever asks; nothing here opens or ends one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from filemem.chain import NO_FACTS, Facts, Node
from filemem.index import Chains, Counts, Doc, Model, Row, addressed, links_of, rows_of
from filemem.index.document import node_from
from filemem.index.vectors import embed
from filemem.index.words import FIELDS, tokens_of
from filemem.org.engine import Nominee, Repository, Shown
from filemem.org.pack import card_in, packed, texts, tokens_in, unpacked
from filemem.query import FIELDS as TERMS
from filemem.query import Filter, Provenance

if TYPE_CHECKING:
    from filemem.org.connection import Connection

EXACT_BELOW = (
    50_000  # passages that may be seen: so many are compared one by one, more by the graph
)
REPOSITORIES = """select r.id, r.name, r.source, coalesce(s.store, ''), coalesce(s.head, ''),
  (extract(epoch from r.seen) * 1000)::bigint, r.failed, coalesce(s.records, 0),
  coalesce(s.passages, 0), coalesce(s.words, '') from repo r left join state s on s.repo = r.id"""
_ROWS = "select d.id, d.repo, d.blob, d.node, d.live, d.shown, d.meant, d.facts"
_OWN = "(d.{}, d.repo) in (select * from unnest(%(values)s::text[], %(repos)s::int[]))"
_BY_FIELD = {"id": _OWN.format("rid"), "path": _OWN.format("path"), "key": _OWN.format("key")}
_BY_LINK = """d.id in (select l.doc from link l join unnest(%(repos)s::int[], %(values)s::bigint[]) w(repo, value)
  on l.repo = w.repo and l.value = w.value)"""
_LINKS = ("name", "refers", "target")
_WHOLE = f"{_ROWS}, b.stems, b.texts, b.vectors from doc d join body b on b.doc = d.id where d.id = any(%s) and d.shown"
_BY_BM25 = "select x.doc from body x {those} order by x.stems <@> to_bm25query(%(text)s, 'body_bm25') limit %(most)s"
_BY_RARITY = """select x.doc from holding(%(words)s, %(worth)s::real[]) x {those}
  order by x.worth desc, x.doc desc limit %(most)s"""
_NEAREST = """select x.doc from passage x {those} where x.repo = any(%(repos)s)
  group by x.doc order by min(x.vec <=> %(vector)s::halfvec) limit %(most)s"""
_BY_GRAPH = (
    "select x.doc from passage x {those} order by x.vec <=> %(vector)s::halfvec limit 3 * %(most)s"
)
_SHOWN = """select d.repo, d.path, b.texts, d.who, array(select distinct r.name from doc o join repo r on r.id = o.repo
  where o.blob = d.blob and o.repo <> d.repo order by 1) from doc d join body b on b.doc = d.id where """


class Laid(Chains):
    """The records of one repository, with changes over them until all that follows from these is known."""

    def __init__(self, con: Connection, number: int) -> None:
        self._con, self._number = con, number
        self.over, self.known = dict[str, Row | None](), dict[str, Row]()

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `Chains`."""
        wanted = set(map(str, values))
        found = _rows(self._con, field, [(self._number, one) for one in wanted])
        self.known |= {row.written.path: row for _, row in found}
        over = (
            row for row in self.over.values() if row and not wanted.isdisjoint(row.values(field))
        )
        return [*(row for _, row in found if row.written.path not in self.over), *over]

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
        self.repository, self.con, self._model = repository, con, model

    def kept(self) -> dict[str, tuple[str, str]]:
        """See `engine.Shelf`."""
        asked = "select path, blob, rid from doc where repo = %s"
        return {
            path: (blob, rid)
            for path, blob, rid in self.con.execute(asked, (self.repository.number,))
        }

    def put(self, changes: Mapping[str, Doc | None], first: Mapping[str, Provenance]) -> None:
        """See `engine.Shelf`."""
        mine, docs = self.repository.number, {path: doc for path, doc in changes.items() if doc}
        ids = {path: plain(doc.node.id) for path, doc in docs.items()}
        asked = "select rid, who from doc where repo = %s and (path = any(%s) or rid = any(%s))"
        known = dict(self.con.execute(asked, (mine, list(changes), list(ids.values()))).fetchall())
        who = {
            path: known.get(id_) or _said(first.get(path, Provenance()))
            for path, id_ in ids.items()
        }
        series = "select nextval(pg_get_serial_sequence('doc', 'id')) from generate_series(1, %s)"
        numbers = [number for (number,) in self.con.execute(series, (len(docs),))]
        dates = {path: json.loads(said)["date"] or 0 for path, said in who.items()}
        made = rows_of(dict(zip(numbers, docs.values(), strict=True)), lambda _: dates)
        new = {row.written.path: row for row in made}
        laid = Laid(self.con, mine)
        laid.put({path: new.get(path) for path in changes})
        self.con.execute(
            "delete from doc where repo = %s and path = any(%s)", (mine, list(changes))
        )
        now = {path: row for path, row in laid.over.items() if row}
        self._insert([(now[path], doc, who[path]) for path, doc in docs.items()])
        others = [row for path, row in now.items() if path not in changes]
        if turned := [row for row in others if _facts(row) != _facts(laid.known[row.written.path])]:
            self._update(turned)

    def _insert(self, new: Sequence[tuple[Row, Doc, str]]) -> None:
        mine, made = (
            self.repository.number,
            embed({row.number: doc for row, doc, _ in new}, self._model.table),
        )
        places = {number: at for at, number in enumerate(made.keys.tolist())}
        docs, bodies, passages = list[Any](), list[Any](), list[Any]()
        for row, doc, who in new:
            at, node = places[row.number], row.written
            first, last = made.starts[at], made.starts[at + 1]
            terms = [f"{name}={one}" for name in TERMS.values() for one in doc.terms.get(name, ())]
            names = node.path, plain(node.id), plain(node.key), row.blob, node.created
            rest = json.dumps(node), list(map(plain, terms)), int(last - first), who
            docs.append((row.number, mine, *names, *_facts(row), *rest))
            stems, whole = texts(doc.card, tokens_of(doc))
            bodies.append((row.number, mine, plain(stems, None), whole, packed(made, at)))
            vectors = enumerate(made.rows[first:last].tolist())
            passages += [(row.number, mine, n, str(vector)) for n, vector in vectors if any(vector)]
        links = [(row.number, mine, link) for row, _, _ in new for link in _links(row)]
        for table, rows in {
            "doc": docs,
            "body": bodies,
            "passage": passages,
            "link": links,
        }.items():
            copy(self.con, table, rows)

    def _update(self, rows: Sequence[Row]) -> None:
        """Write what changes have turned of other records: what holds, and to whom they refer."""
        asked = "update doc set live = %s, shown = %s, meant = %s, facts = %s where id = %s"
        with self.con.cursor() as cursor:
            cursor.executemany(asked, [(*_facts(row), row.number) for row in rows])
        self.con.execute("delete from link where doc = any(%s)", ([row.number for row in rows],))
        mine = self.repository.number
        copy(self.con, "link", [(row.number, mine, link) for row in rows for link in _links(row)])

    def done(self, head: str, store: str, words: str = "") -> None:
        """See `engine.Shelf`."""
        mine = self.repository.number
        self.con.execute("delete from state where repo = %s", (mine,))
        insert = """insert into state(repo, head, store, words, records, passages)
          select %s, %s, %s, %s, count(*), coalesce(sum(passages), 0) from doc where repo = %s"""
        self.con.execute(insert, (mine, head, plain(store), words, mine))
        self.con.execute("update repo set seen = now(), failed = '' where id = %s", (mine,))


class PostgresReader:
    """See `engine.Reader`: row security decides, in one transaction."""

    def __init__(self, con: Connection, degraded: str) -> None:
        self.con, self.degraded = con, degraded

    def repositories(self) -> list[Repository]:
        """See `engine.Reader`."""
        return repositories(self.con)

    def statistics(self, terms: Collection[tuple[str, str]]) -> Counts:
        """See `engine.Reader`."""
        docs, tokens = self.con.execute("select docs, tokens from total").fetchone() or (
            0,
            [0] * len(FIELDS),
        )
        found = self.con.execute(
            "select term, n from df where term = any(%s)", ([plain(term) for _, term in terms],)
        )
        held = {
            (name, term): n
            for term, counts in found
            for name, n in zip(FIELDS, counts, strict=True)
        }
        return Counts(
            docs, held, {name: (docs, float(of)) for name, of in zip(FIELDS, tokens, strict=True)}
        )

    def nominate(
        self, words: Mapping[str, float], vector: Sequence[float] | None, wanted: Filter, depth: int
    ) -> list[Nominee]:
        """See `engine.Reader`."""
        those, values = _limits(wanted)
        stems = list(map(plain, words))
        values |= {
            "most": depth,
            "words": stems,
            "worth": list(words.values()),
            "text": " ".join(stems),
        }
        ways = [_BY_RARITY if self.degraded else _BY_BM25] if words else []
        if vector is not None:
            repos = dict(self.con.execute("select repo, passages from state").fetchall())
            values |= {"vector": str(list(vector)), "repos": list(repos)}
            ways.append(_NEAREST if sum(repos.values()) <= EXACT_BELOW else _BY_GRAPH)
        found = list(
            {row[0] for way in ways for row in self.con.execute(way.format(those=those), values)}
        )
        rows = self.con.execute(_WHOLE, (found,), binary=True).fetchall()
        first: dict[str, Nominee] = {}
        for row in sorted(
            rows, key=lambda one: (one[4], -one[0])
        ):  # of the same bytes what holds, then the oldest
            vectors = unpacked(row[10], row[0])
            first[row[2]] = Nominee(
                addressed(row[1], _row(row[:8])), tokens_in(row[8], row[9]), vectors
            )
        return list(first.values())

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `engine.Reader`."""
        return [addressed(repo, row) for repo, row in _rows(self.con, field, _split(values))]

    def named(self, names: Collection[str]) -> list[Row]:
        """See `engine.Reader`."""
        which = "d.shown and d.id in (select doc from link where value = any(%s))"
        found = self.con.execute(
            f"{_ROWS} from doc d where {which}", ([_digest("name", one) for one in names],)
        )
        return [addressed(row[1], _row(row)) for row in found]

    def shown(self, paths: Collection[str]) -> dict[str, Shown]:
        """See `engine.Reader`."""
        known = {one.number: one for one in self.repositories()}
        found = self.con.execute(_SHOWN + _BY_FIELD["path"], _asked("path", _split(paths)))
        return {
            f"{repo} {path}": Shown(
                card_in(data), Provenance(**json.loads(who)), known[repo], tuple(others)
            )
            for repo, path, data, who, others in found
        }


def copy(con: Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Put rows in a table, by way of one of this connection's: COPY is not for tables with row security."""
    if rows := list(rows):
        how = f"(like {table}) on commit delete rows"
        con.execute(f"create temp table if not exists new_{table} {how}")
        with con.cursor() as cursor, cursor.copy(f"copy new_{table} from stdin") as into:
            for row in rows:
                into.write_row(row)
        con.execute(f"insert into {table} select * from new_{table}")
        con.execute(f"delete from new_{table}")


def repositories(con: Connection) -> list[Repository]:
    """Return all repositories that are visible, by name."""
    return [Repository(*row) for row in con.execute(f"{REPOSITORIES} order by r.name")]


def plain(value: str, most: int | None = 500) -> str:
    """Return a text as the database can have it: without NUL, and no longer than an index takes."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:most]


@lru_cache(maxsize=8192)
def _node(text: str) -> Node:
    return node_from(json.loads(text))


def _row(columns: Sequence[Any]) -> Row:
    number, _, blob, node, live, shown, meant, facts = columns
    return Row(
        number,
        blob,
        _node(node),
        live,
        shown,
        json.loads(meant) if meant else {},
        facts=Facts.of(json.loads(facts)) if facts else NO_FACTS,
    )


def _split(addresses: Iterable[str | int]) -> list[tuple[int, str]]:
    return [
        (int(repo), value)
        for repo, _, value in (str(one).partition(" ") for one in dict.fromkeys(addresses))
    ]


def _asked(field: str, pairs: Sequence[tuple[int, str]]) -> dict[str, Any]:
    values = [_digest(field, value) if field in _LINKS else plain(value) for _, value in pairs]
    return {"repos": [repo for repo, _ in pairs], "values": values}


def _rows(con: Connection, field: str, pairs: Sequence[tuple[int, str]]) -> list[tuple[int, Row]]:
    """The records of some repositories that have a value in a field, each with the number of its repository."""
    asked = f"{_ROWS} from doc d where {_BY_FIELD.get(field, _BY_LINK)}"
    found = con.execute(asked, _asked(field, pairs)) if pairs else ()
    return [(row[1], _row(row)) for row in found]


def _said(who: Provenance) -> str:
    return json.dumps({name: getattr(who, name) for name in ("author", "agent", "commit", "date")})


def _facts(row: Row) -> tuple[Any, ...]:
    """What chains say of a record."""
    meanings = json.dumps(row.meanings) if row.meanings else ""
    facts = json.dumps(row.facts) if row.facts != NO_FACTS else ""
    return row.live, row.visible, meanings, facts


def _links(row: Row) -> set[int]:
    return {_digest(kind, value) for kind, value in _linked(row)}


def _linked(row: Row) -> Iterator[tuple[str, str]]:
    """The names of a record, what it refers to as written, and the ids that this means."""
    yield from ((kind, value) for kind, value in links_of(row.written) if kind in _LINKS)
    yield from (("target", target) for target in row.targets)


def _digest(kind: str, value: str) -> int:
    data = f"{kind} {value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def _limits(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """A filter as what joins the records that satisfy it, and the values in that; nothing if all do."""
    values: dict[str, Any] = {
        name: [plain(f"{name}={one}") for one in those] for name, those in wanted.exact.items()
    }
    said = [f"d.terms && %({name})s" for name in values] + ["d.live"] * wanted.live
    for name, sign in {"since": ">=", "until": "<="}.items():
        values[name] = getattr(wanted, name)
        said += [f"d.created {sign} %({name})s"] * (values[name] is not None)
    return " and ".join(["join doc d on d.id = x.doc and d.shown", *said]) if said else "", values
