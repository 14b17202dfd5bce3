"""The words of the index: the only module that knows Tantivy. User text is looked up, never parsed.

What Tantivy throws, panics included, leaves here as `IndexDamaged`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import tantivy
from tantivy import Occur, Query

from filemem.index.document import TERM_FIELDS, Doc, key
from filemem.index.fresh import IndexDamaged, refused
from filemem.index.plan import EXACT, FIELDS, STEM, UNSPACED_SCRIPTS, Clause, Plan, normal, prepared

PATH, ROW, KEY, CREATED = "path", "row", "key", "created"
_CARD = "card"
_LONGEST_TOKEN = 100  # bytes
_MANY = 1000  # documents for which a larger buffer pays
_SMALL_HEAP, _LARGE_HEAP = 15_000_000, 60_000_000  # bytes; the first is the least Tantivy takes
_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can could did do does doing"
    " for from had has have having he her here him his how i if in into is it its itself just me more most my no nor"
    " not of off on once only or other our out over own same she should so some such than that the their them then"
    " there these they this those through to too until up very was we were what when where which while who whom why"
    " will with would you your s t ll re ve"
)
_VERSION = 7  # of what is read and kept: raised where documents have other texts
READING = (_VERSION, UNSPACED_SCRIPTS, _LONGEST_TOKEN, _STOP_WORDS, [(name, *of[:2]) for name, of in FIELDS.items()])

MUST, MUST_NOT, SHOULD = Occur.Must, Occur.MustNot, Occur.Should
Restriction = list[tuple[Occur, Query]]
Match = tuple[float, tantivy.DocAddress]  # what one document that was found scores, and where it is


class Border:
    """Turns what Tantivy throws into `IndexDamaged`, and what the system refused it into `BrokenStore`.

    A panic in Rust arrives as an exception that is no `Exception` and whose class can not be imported; a context
    manager sees it by name without catching everything.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or not (issubclass(kind, ValueError | OSError) or kind.__name__ == "PanicException"):
            return
        said = re.search(r"\(os error (\d{1,5})\)", str(error))  # as Rust ends its words for what the system said
        if said and int(said[1]) != errno.ENOENT:  # a file that is gone is damage, a full disk is none
            raise refused(int(said[1])) from error
        raise IndexDamaged("its words cannot be read or written") from error


# layout


def analyze(way: str, text: str) -> list[str]:
    """Return the tokens of a normal text, read in one of the ways of `plan`."""
    return _analyzer(way).analyze(prepared(way, text))


def tokens_of(doc: Doc) -> dict[str, list[str]]:
    """Return the tokens of each text field of a document."""
    texts = _texts(doc)
    return {name: analyze(way, texts[part]) for name, (part, way, _) in FIELDS.items()}


def term_field(name: str) -> str:
    """Return the name in the index of a field of exact terms."""
    return f"is_{name}"


def _texts(doc: Doc) -> dict[str, str]:
    return {"title": normal(doc.title), "topic": normal(doc.topic), "body": normal(doc.body)}


def _exact(value: str | int) -> str | int:
    """Return a value in a form that UTF-8 can hold: names of files may be any bytes."""
    return value if isinstance(value, int) else value.encode("utf-8", "backslashreplace").decode()


@cache
def _analyzer(way: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    filters = [
        tantivy.Filter.remove_long(_LONGEST_TOKEN),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
    ]
    if way == STEM:
        filters += [tantivy.Filter.custom_stopword(_STOP_WORDS.split()), tantivy.Filter.stemmer("english")]
    for each in filters:
        builder = builder.filter(each)
    return builder.build()


@cache
def schema() -> tantivy.Schema:
    """Return the fields of the index."""
    builder = tantivy.SchemaBuilder()
    for name in (PATH, *map(term_field, TERM_FIELDS)):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name, (_, way, _) in FIELDS.items():
        builder.add_text_field(name, tokenizer_name=way, index_option="freq" if way == STEM else "position")
    builder.add_bytes_field(_CARD, stored=True)
    for name in (ROW, KEY, CREATED):
        builder.add_integer_field(name, indexed=True, fast=True)
    return builder.build()


# questions


class Words:
    """The words of one state, open for questions.

    Args:
        index: a folder that was compared with its checksums, or what `WordsWriter` filled.

    Raises:
        IndexDamaged: Tantivy refuses them.
    """

    def __init__(self, index: Path | tantivy.Index) -> None:
        with Border():
            opened = tantivy.Index.open(str(index)) if isinstance(index, Path) else index
            opened.config_reader("manual", 0)  # the default policy polls, and its reload blocks for 100 ms
            opened.reload()
            self._searcher, self._schema = opened.searcher(), opened.schema
        self.total: int = self._searcher.num_docs
        self._having: dict[tuple[str, str], int] = {}

    def having(self, field: str, term: str) -> int:
        """Return how many documents hold a term, removed ones that are not merged away included."""
        found = self._having.get((field, term))
        if found is None:
            with Border():
                found = self._having[field, term] = self._searcher.doc_freq(field, term)
        return found

    def word_query(self, plan: Plan) -> Query | None:
        """Return the scoring query of a plan; None where no document can match."""
        required = [self._any(group) for group in plan.required]
        demanded = {clause for group in plan.required for clause in group}
        wanted = self._any(tuple(clause for clause in plan.scored if clause not in demanded))
        if any(query is None for query in required) or not (required or wanted):
            return None
        clauses = [(Occur.Must, query) for query in required if query]
        if wanted:
            clauses.append((Occur.Should if required else Occur.Must, wanted))
        return Query.boolean_query(clauses)

    def restriction(self, plan: Plan) -> Restriction:
        """Return what a plan demands of every hit, the ones found by meaning too, without any score."""
        demands = [(Occur.Must, _silent(self._any(group) or Query.empty_query())) for group in plan.required]
        excluded = [self._any(group) for group in plan.excluded]
        return demands + [(Occur.MustNot, query) for query in excluded if query]

    def one_of(self, field: str, values: Iterable[str | int]) -> Query:
        """Return a query for documents with any of the exact values, without any score."""
        wanted = list(dict.fromkeys(map(_exact, values)))
        if not wanted:
            return Query.empty_query()
        if len(wanted) > 200:  # beyond that one automaton is cheaper than many terms
            return _silent(Query.term_set_query(self._schema, field, wanted))
        terms = [(Occur.Should, Query.term_query(self._schema, field, value, "basic")) for value in wanted]
        return _silent(Query.boolean_query(terms))

    def between(self, since: int | None, until: int | None) -> Query:
        """Return a query for documents created in a span (epoch ms, both ends inclusive)."""
        low, high = (None if at is None else max(-(2**63), min(at, 2**63 - 1)) for at in (since, until))
        return _silent(Query.range_query(self._schema, CREATED, tantivy.FieldType.Integer, low, high))

    def search(self, query: Query, limit: int) -> list[Match]:
        """Return the best matches."""
        with Border():
            return list(self._searcher.search(query, max(1, limit), count=False).hits)

    def newest(self, query: Query, limit: int) -> list[Match]:
        """Return the matches that were created last, newest first."""
        with Border():
            hits = self._searcher.search(query, max(1, limit), count=False, order_by_field=CREATED).hits
        return [(0.0, at) for _, at in hits]

    def count(self, query: Query) -> int:
        """Return the number of matches."""
        with Border():
            found: int = self._searcher.search(query, 1, count=True).count  # type: ignore[attr-defined]  # not in the stubs
        return found

    def numbers(self, field: str, matches: Sequence[Match]) -> list[int]:
        """Return the ROW or the KEY of each match."""
        with Border():
            values = self._searcher.fast_field_values(field, [at for _, at in matches])
        return [int(value or 0) for value in values]

    def cards(self, rows: Iterable[int]) -> dict[int, str]:
        """Return the stored cards of documents by their row numbers."""
        wanted = list(rows)
        found = self.search(self.one_of(ROW, wanted), len(wanted)) if wanted else []
        with Border():
            cards = [bytes(self._searcher.doc(at).get_first(_CARD) or b"").decode() for _, at in found]
        return dict(zip(self.numbers(ROW, found), cards, strict=True))

    def terms(self, name: str, prefix: str, query: Query) -> list[tuple[str, int]]:
        """Return (term, number of documents that match) of a field of exact terms, in order."""
        with Border():
            return self._searcher.terms_with_prefix(term_field(name), str(_exact(prefix)), query)

    def _any(self, clauses: Sequence[Clause]) -> Query | None:
        queries = [
            (Occur.Should, Query.boost_query(self._clause(clause), clause.boost))
            for clause in clauses
            if clause.boost and all(self.having(clause.field, term) for term in clause.terms)
        ]
        return Query.boolean_query(queries) if queries else None

    def _clause(self, clause: Clause) -> Query:
        if len(clause.terms) == 1:
            return Query.term_query(self._schema, clause.field, clause.terms[0], "freq")
        return Query.phrase_query(self._schema, clause.field, list(clause.terms))


@cache
def nothing() -> Words:
    """Return the words of no document."""
    return Words(tantivy.Index(schema()))


def everything() -> Query:
    """Return the query that all documents match, without any score."""
    return _silent(Query.all_query())


def both(query: Query, restriction: Restriction) -> Query:
    """Return `query` under a restriction."""
    return Query.boolean_query([(Occur.Must, query), *restriction]) if restriction else query


def _silent(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


# writing


class WordsWriter:
    """Adds to and removes from words that nobody reads yet.

    Args:
        folder: private to this writer; empty, or links to the words of the last generation; None for memory.
        count: how many documents are to come.
    """

    def __init__(self, folder: Path | None, count: int) -> None:
        self._empty = folder is None or not any(folder.iterdir())
        with Border():
            self._index = tantivy.Index(schema(), str(folder)) if folder else tantivy.Index(schema())
            for way in (EXACT, STEM):
                self._index.register_tokenizer(way, _analyzer(way))
            self._writer = self._index.writer(_LARGE_HEAP if count > _MANY else _SMALL_HEAP, 1)

    def remove(self, path: str) -> None:
        """Forget the document of a path, if there is one."""
        if not self._empty:
            with Border():
                self._writer.delete_documents_by_term(PATH, _exact(path))

    def add(self, doc: Doc, row: int, created: int) -> None:
        """Add a document; that of the same path must have been removed before."""
        texts = _texts(doc)
        terms = {term_field(name): [_exact(term) for term in of if term] for name, of in doc.terms.items()}
        values: dict[str, Any] = {
            **{name: prepared(way, texts[part]) for name, (part, way, _) in FIELDS.items()},
            **terms,
            _CARD: doc.card.encode("utf-8", "replace"),
            PATH: _exact(doc.path),
            ROW: row,
            KEY: key(doc.blob),
            CREATED: max(-(2**63), min(created, 2**63 - 1)),
        }
        with Border():
            self._writer.add_document(tantivy.Document.from_dict(values, schema()))

    def close(self) -> tantivy.Index:
        """Commit and finish all merges; return what was written, open for `Words`."""
        with Border():
            self._writer.commit()
            self._writer.wait_merging_threads()
            del self._writer
        return self._index
