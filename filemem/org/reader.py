"""What one principal may see, in one transaction: row security decides."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from filemem.index import Row, TermCounts, add_store_prefix
from filemem.index.words import FIELDS
from filemem.org.engine import Details, Nominee, Repository
from filemem.org.pack import unpack_card, unpack_tokens, unpack_vectors
from filemem.org.rows import (
    BY_FIELD,
    ROWS,
    build_row,
    build_values,
    clean_text,
    digest,
    list_repositories,
    read_rows,
)
from filemem.query import Filter, Provenance

if TYPE_CHECKING:
    from filemem.org.connection import Connection

EXACT_LIMIT = 100_000  # visible passages: so many are compared one by one, more by the graph
MAX_HOLDING = 20_000  # records that are put forward by their words, before the best are chosen
_NOMINEES = f"""{ROWS}, b.stems, b.texts, b.vectors from doc d join body b on b.doc = d.id
  where d.id = any(%s) and d.shown"""
_BY_BM25 = """select x.doc from body x {those}
  order by x.stems <@> to_bm25query(%(text)s, 'body_bm25') limit %(most)s"""
_BY_RARITY = """select x.doc from holding(%(words)s, %(worth)s::real[], %(bound)s) x {those}
  order by x.worth desc, x.doc desc limit %(most)s"""
_NEAREST = """select x.doc from passage x {those} where x.repo = any(%(repos)s)
  group by x.doc order by min(x.vec <=> %(vector)s::halfvec) limit %(most)s"""
# The graph leaves out what may not be seen, or is of the same record, only after it has found it:
# so it is asked for many more, in about the right order, and these are sorted.
_BY_GRAPH = """select doc from (select x.doc, x.vec <=> %(vector)s::halfvec as far
  from passage x {those} order by far limit 16 * %(most)s) near
  group by doc order by min(far) limit %(most)s"""
GRAPH = {
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "1000",
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "4",
}
_DETAILS = f"""select d.repo, d.path, b.texts, d.who, array(select distinct r.name
  from doc o join repo r on r.id = o.repo where o.blob = d.blob and o.repo <> d.repo order by 1)
  from doc d join body b on b.doc = d.id where {BY_FIELD["path"]}"""
_SUMS = ", ".join(f"sum(n[{at}])::bigint" for at in range(1, len(FIELDS) + 1))
_TERM_COUNTS = f"select term, array[{_SUMS}] from df where term = any(%s) group by term"
_SIZES = """select sum(u.size)::bigint from state, unnest(tokens) with ordinality u(size, at)
  group by u.at order by u.at"""


class PostgresReader:
    """See `engine.IndexReader`; `bm25`: whether the database ranks by words itself."""

    def __init__(self, con: Connection, *, bm25: bool) -> None:
        self.con = con
        self._by_words = _BY_BM25 if bm25 else _BY_RARITY

    def list_repositories(self) -> list[Repository]:
        """See `engine.IndexReader`."""
        return list_repositories(self.con)

    def count_terms(self, terms: Collection[tuple[str, str]]) -> TermCounts:
        """See `engine.IndexReader`."""
        row = self.con.execute("select sum(records)::bigint from state").fetchone()
        total = int(row[0] or 0) if row else 0
        field_sizes = dict.fromkeys(FIELDS, (total, 0.0))
        rows = self.con.execute(_SIZES).fetchall()
        if rows:
            for field, (size,) in zip(FIELDS, rows, strict=True):
                field_sizes[field] = (total, float(size))
        texts = [clean_text(term) for _, term in terms]
        term_counts = {}
        for term, counts in self.con.execute(_TERM_COUNTS, (texts,)):
            for field, count in zip(FIELDS, counts, strict=True):
                term_counts[field, term] = count
        return TermCounts(total, term_counts, field_sizes)

    def nominate(
        self, words: Mapping[str, float], vector: Sequence[float] | None, wanted: Filter, depth: int
    ) -> list[Nominee]:
        """See `engine.IndexReader`."""
        filter_join, values = _build_filter(wanted)
        stems = [clean_text(word) for word in words]
        values |= {"most": depth, "bound": MAX_HOLDING, "text": " ".join(stems)}
        values |= {"words": stems, "worth": list(words.values())}
        queries = []
        if words:
            queries.append(self._by_words)
        if vector is not None:
            passages = dict(self.con.execute("select repo, passages from state").fetchall())
            values |= {"vector": str(list(vector)), "repos": list(passages)}
            is_small = sum(passages.values()) <= EXACT_LIMIT
            queries.append(_NEAREST if is_small else _BY_GRAPH)
        numbers: set[int] = set()
        for query in queries:
            for (number,) in self.con.execute(query.format(those=filter_join), values):
                numbers.add(number)
        return self._read_nominees(numbers)

    def _read_nominees(self, numbers: Collection[int]) -> list[Nominee]:
        """Read records by number; of several with equal bytes the live one, or else the oldest."""
        rows = self.con.execute(_NOMINEES, (list(numbers),), binary=True).fetchall()
        rows.sort(key=_get_preference)
        nominees: dict[str, Nominee] = {}  # by blob; the last one stays
        for row in rows:
            *columns, stems, texts, vectors = row
            number, repository, blob = row[:3]
            address = add_store_prefix(repository, build_row(columns))
            tokens = unpack_tokens(stems, texts)
            nominees[blob] = Nominee(address, tokens, unpack_vectors(vectors, number))
        return list(nominees.values())

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """See `engine.IndexReader`."""
        rows = read_rows(self.con, field, _split_addresses(values))
        return [add_store_prefix(repository, row) for repository, row in rows]

    def read_rows_by_name(self, names: Collection[str]) -> list[Row]:
        """See `engine.IndexReader`."""
        condition = "d.shown and d.id in (select doc from link where value = any(%s))"
        digests = [digest("name", name) for name in names]
        rows = self.con.execute(f"{ROWS} from doc d where {condition}", (digests,))
        return [add_store_prefix(row[1], build_row(row)) for row in rows]

    def read_details(self, paths: Collection[str]) -> dict[str, Details]:
        """See `engine.IndexReader`."""
        visible = {repository.number: repository for repository in self.list_repositories()}
        values = build_values("path", _split_addresses(paths))
        details = {}
        for repo, path, data, author, others in self.con.execute(_DETAILS, values):
            provenance = Provenance(**json.loads(author))
            details[f"{repo} {path}"] = Details(
                unpack_card(data), provenance, visible[repo], tuple(others)
            )
        return details


def _get_preference(row: Sequence[Any]) -> tuple[bool, int]:
    """The key that sorts rows of ROWS: live ones last, the oldest of them at the end."""
    number = row[0]
    is_live = row[4]
    return is_live, -number


def _split_addresses(addresses: Iterable[str | int]) -> list[tuple[int, str]]:
    """Split addresses into the numbers of repositories and the values in them."""
    pairs = []
    for address in dict.fromkeys(addresses):
        repository, _, value = str(address).partition(" ")
        pairs.append((int(repository), value))
    return pairs


def _build_filter(criteria: Filter) -> tuple[str, dict[str, Any]]:
    """Build the join that keeps the records of a filter ("" if all), and the values in it."""
    values: dict[str, Any] = {}
    for name, texts in criteria.exact_terms.items():
        values[name] = [clean_text(f"{name}={text}") for text in texts]
    conditions = list(_iter_conditions(criteria, values))
    values |= {"since": criteria.since, "until": criteria.until}
    if not conditions:
        return "", values
    join = " and ".join(["join doc d on d.id = x.doc and d.shown", *conditions])
    return join, values


def _iter_conditions(criteria: Filter, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"d.terms && %({name})s"
    if criteria.live:
        yield "d.live"
    if criteria.since is not None:
        yield "d.created >= %(since)s"
    if criteria.until is not None:
        yield "d.created <= %(until)s"
