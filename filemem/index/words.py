"""The words of the index: the only module that knows Tantivy. User text is looked up, never parsed.

What Tantivy throws, panics included, leaves here as `IndexDamaged`.
"""

from __future__ import annotations

import contextlib
import errno
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from tantivy import Occur, Query

from filemem.index.document import Doc
from filemem.index.storage import IndexDamaged, build_system_error
from filemem.record.lines import replace_surrogates

# The two ways of reading a text; unspaced scripts are in the exact one only.
EXACT = "exact"
STEM = "stem"

# text field -> (part of the document, way it is read, weight of a match in it). Titles are short,
# so BM25 favours them already: heavier weights than these cost up to 3 points of nDCG@10 on three
# retrieval sets.
FIELDS: dict[str, tuple[str, str, float]] = {
    "title_exact": ("title", EXACT, 0.3),
    "title_stem": ("title", STEM, 0.7),
    "topic_exact": ("topic", EXACT, 0.3),
    "topic_stem": ("topic", STEM, 0.7),
    "body_exact": ("body", EXACT, 0.6),
    "body_stem": ("body", STEM, 1.0),
}
NUMBER = "number"
_PARTS = ("title", "topic", "body")
_PART_SEPARATOR = "\x1f"  # two parts of a document
_MAX_TOKEN_SIZE = 100  # bytes
_MAX_CACHED_COUNTS = 8_000  # terms; a query asks for each of its own several times
_HEAP_SIZE = 50_000_000  # bytes that are written at a time
# Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Hangul, Han with their extensions
UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3031-\u3035\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can"
    " could did do does doing for from had has have having he her here him his how i if in"
    " into is it its itself just me more most my no nor not of off on once only or other our"
    " out over own same she should so some such than that the their them then there these they"
    " this those through to too until up very was we were what when where which while who whom"
    " why will with would you your s t ll re ve"
)
_VERSION = 12  # of what is read and kept: raised where documents have other texts
READING_FORMAT = (
    _VERSION,
    UNSPACED_SCRIPTS,
    _MAX_TOKEN_SIZE,
    _STOP_WORDS,
    [(name, part, way) for name, (part, way, _) in FIELDS.items()],
)

MUST = Occur.Must
MUST_NOT = Occur.MustNot
SHOULD = Occur.Should
WordQuery = Query
Restriction = list[tuple[Occur, Query]]


@contextlib.contextmanager
def error_boundary() -> Iterator[None]:
    """Turn what Tantivy throws into `IndexDamaged`, and what the system refused into `BrokenStore`.

    A panic in Rust arrives as an exception that is no `Exception`; its class cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        # So Rust ends its words for what the system refused.
        code = re.search(r"\(os error (\d{1,5})\)", str(error))
        # A file that is gone is damage, a full disk is none.
        if code and int(code[1]) != errno.ENOENT:
            raise build_system_error(int(code[1])) from error
        raise IndexDamaged("its words cannot be read or written") from error


# texts


@cache
def _compile_unspaced() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]+")  # 5 ms, which plain English need not pay


def normalize_text(text: str) -> str:
    """Return the form in which all text is read.

    That is NFKC, so that wide and half-width letters are one, without surrogates.
    """
    return unicodedata.normalize("NFKC", replace_surrogates(text))


def prepare_text(way: str, text: str) -> str:
    """Return a normal text as the analyser of a way takes it.

    Unspaced characters stand alone, or are left out.
    """
    if text.isascii():
        return text
    return _compile_unspaced().sub(
        lambda run: f" {' '.join(run[0])} " if way == EXACT else " ", text
    )


def list_runs(text: str) -> list[str]:
    """Return the runs of scripts without spaces in a normal text."""
    return [] if text.isascii() else _compile_unspaced().findall(text)


def analyze_text(way: str, text: str) -> list[str]:
    """Return the tokens of a normal text, read in one of the two ways."""
    return _build_analyzer(way).analyze(prepare_text(way, text))


def stem_phrase(text: str) -> tuple[str, ...]:
    """Return what all forms of a phrase share: its words stemmed, in order.

    A word of which no stem is kept stays as it is.
    """
    return tuple(
        part
        for word in analyze_text(EXACT, normalize_text(text))
        for part in (analyze_text(STEM, word) or (word,))
    )


def tokenize_document(doc: Doc) -> dict[str, list[str]]:
    """Return the tokens of each text field of a document."""
    return parse_exact_tokens(format_exact_tokens(doc))


def format_exact_tokens(doc: Doc) -> str:
    """Return the exact tokens of a document, from which `read_tokens` makes those of all fields."""
    texts = (normalize_text(doc.title), normalize_text(doc.topic), normalize_text(doc.body))
    return _PART_SEPARATOR.join(" ".join(analyze_text(EXACT, text)) for text in texts)


def parse_exact_tokens(exact_tokens: str) -> dict[str, list[str]]:
    """Return the tokens of each text field of a document from its exact ones."""
    texts = dict(zip(_PARTS, exact_tokens.split(_PART_SEPARATOR), strict=True))
    return {
        name: texts[part].split() if way == EXACT else analyze_text(STEM, texts[part])
        for name, (part, way, _) in FIELDS.items()
    }


@cache
def _build_analyzer(way: str) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    filters = [
        tantivy.Filter.remove_long(_MAX_TOKEN_SIZE),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
    ]
    if way == STEM:
        filters += [
            tantivy.Filter.custom_stopword(_STOP_WORDS.split()),
            tantivy.Filter.stemmer("english"),
        ]
    for token_filter in filters:
        builder = builder.filter(token_filter)
    return builder.build()


@cache
def build_schema() -> tantivy.Schema:
    """Return the fields of the index."""
    builder = tantivy.SchemaBuilder()
    for name, (_, way, _) in FIELDS.items():
        builder.add_text_field(
            name, tokenizer_name=way, index_option="freq" if way == STEM else "position"
        )
    builder.add_integer_field(NUMBER, indexed=True, fast=True)
    return builder.build()


# questions


class Clause(NamedTuple):
    """One term of one text field, or several in a row, and the weight of finding them."""

    field: str
    terms: tuple[str, ...]
    boost: float = 1.0


class WordIndex:
    """The words of one state, in a folder or in memory, open for questions. Raises IndexDamaged."""

    def __init__(self, index: Path | tantivy.Index) -> None:
        with error_boundary():
            tantivy_index = tantivy.Index.open(str(index)) if isinstance(index, Path) else index
            # The default policy polls, and its reload blocks for 100 ms.
            tantivy_index.config_reader("manual", 0)
            tantivy_index.reload()
            self._searcher = tantivy_index.searcher()
            self._schema = tantivy_index.schema
        self.total: int = self._searcher.num_docs
        self._document_counts: dict[tuple[str, str], int] = {}  # of the terms asked for lately
        self._average_lengths: dict[str, float] = {}  # by field

    def get_document_count(self, field: str, term: str) -> int:
        """Return how many documents hold a term, removed ones that are not merged away included."""
        count = self._document_counts.get((field, term))
        if count is None:
            if len(self._document_counts) > _MAX_CACHED_COUNTS:
                self._document_counts.clear()
            with error_boundary():
                count = self._searcher.doc_freq(field, term)
            self._document_counts[field, term] = count
        return count

    def get_average_length(self, field: str, terms: Iterable[str]) -> float:
        """Return how many tokens a document has in a text field, on average.

        It is 0 if no document has one of the terms: the library says it only where it explains a
        score.
        """
        term = next((term for term in terms if self.get_document_count(field, term)), None)
        if field not in self._average_lengths and term is not None:
            self._average_lengths[field] = self._read_average_length(field, term)
        return self._average_lengths.get(field, 0.0)

    def _read_average_length(self, field: str, term: str) -> float:
        """How many tokens a field has on average, from the explanation of a score."""
        query = Query.term_query(self._schema, field, term, "freq")
        with error_boundary():
            hits = self._searcher.search(query, 1, count=False).hits
            text = query.explain(self._searcher, hits[0][1]).to_json() if hits else ""
        match = re.search(r'"value": ([\d.e+-]+),\s*"description": "avgdl', text)
        return float(match[1]) if match else 0.0

    def build_number_query(self, numbers: Iterable[int]) -> Query:
        """Return a query for documents with any of some numbers, without any score."""
        number_list = list(numbers)
        if not number_list:
            return Query.empty_query()
        if len(number_list) > 200:  # beyond that one automaton is cheaper than many terms
            return build_unscored_query(Query.term_set_query(self._schema, NUMBER, number_list))
        terms = [Query.term_query(self._schema, NUMBER, number, "basic") for number in number_list]
        return build_unscored_query(Query.boolean_query([(Occur.Should, term) for term in terms]))

    def search(self, query: Query, limit: int) -> dict[int, float]:
        """Return the best matches, best first: number -> score."""
        with error_boundary():
            hits = self._searcher.search(query, max(1, limit), count=False).hits
            addresses = [address for _, address in hits]
            numbers = self._searcher.fast_field_values(NUMBER, addresses)
        return {int(number or 0): hit[0] for number, hit in zip(numbers, hits, strict=True)}

    def build_any_query(self, clauses: Iterable[Clause]) -> Query | None:
        """Return the scoring query for any of some clauses; None where no document can match."""
        queries = []
        for field, terms, boost in clauses:
            if boost and all(self.get_document_count(field, term) for term in terms):
                if len(terms) == 1:
                    query = Query.term_query(self._schema, field, terms[0], "freq")
                else:
                    query = Query.phrase_query(self._schema, field, list(terms))
                queries.append(Query.boost_query(query, boost))
        return build_sum_query(queries)

    def build_best_query(
        self, clauses: Iterable[Clause], alternatives: Iterable[Iterable[Iterable[Clause]]]
    ) -> Query | None:
        """Return the query of which one side counts, the best.

        A side is any of the clauses, or one of each group of another.
        """
        sides = [self._build_group_query([clauses]), *map(self._build_group_query, alternatives)]
        queries = [query for query in sides if query]
        if len(queries) > 1:
            return Query.disjunction_max_query(queries)
        return queries[0] if queries else None

    def _build_group_query(self, groups: Iterable[Iterable[Clause]]) -> Query | None:
        """The query for one clause of each group; None where no document can match."""
        queries = [self.build_any_query(group) for group in groups]
        if not all(queries):
            return None
        return Query.boolean_query([(MUST, query) for query in queries if query])


def build_sum_query(queries: Iterable[Query | None]) -> Query | None:
    """Return the query to whose score each of some queries adds; None where none can match."""
    parts = [(Occur.Should, query) for query in queries if query]
    return Query.boolean_query(parts) if parts else None


@cache
def build_empty_index() -> WordIndex:
    """Return the words of no document."""
    return WordIndex(tantivy.Index(build_schema()))


def build_match_all_query() -> Query:
    """Return the query that all documents match, without any score."""
    return build_unscored_query(Query.all_query())


def restrict_query(query: Query, restriction: Restriction) -> Query:
    """Return `query` under a restriction."""
    return Query.boolean_query([(Occur.Must, query), *restriction]) if restriction else query


def build_unscored_query(query: Query) -> Query:
    """Return a query that adds nothing to the score."""
    return Query.const_score_query(query, 0.0)


# writing


def add_documents(folder: Path, documents: Iterable[tuple[int, str]]) -> None:
    """Add documents, each by its number and its exact tokens, to the words in a folder."""
    with error_boundary():
        index = tantivy.Index(build_schema(), str(folder))
        for way in (EXACT, STEM):
            index.register_tokenizer(way, _build_analyzer(way))
        writer = index.writer(_HEAP_SIZE, 1)
        for number, exact_tokens in documents:
            parts = dict(zip(_PARTS, exact_tokens.split(_PART_SEPARATOR), strict=True))
            values: dict[str, Any] = {
                name: prepare_text(way, parts[part]) for name, (part, way, _) in FIELDS.items()
            }
            values[NUMBER] = number
            writer.add_document(tantivy.Document.from_dict(values, build_schema()))
        writer.commit()
        writer.wait_merging_threads()
