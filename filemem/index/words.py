"""The words of the index: the only module that uses Tantivy. Text of users is never parsed.

Exceptions of Tantivy, panics included, leave this module as `IndexDamaged`.
"""

from __future__ import annotations

import contextlib
import errno
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from tantivy import Occur, Query

from filemem.index.document import Doc
from filemem.index.storage import IndexDamaged, build_system_error
from filemem.query.terms import Alternative, Synonyms, build_synonyms, list_alternatives
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
_MAX_CACHED_COUNTS = 8_000  # terms; a search needs each count several times
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
MAX_WIDENED_WORDS = 8  # a query with more content words is precise without synonyms
_SYNONYMS_PATH = Path(__file__).parents[1] / "query/synonyms.txt"
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
    """Turn exceptions of Tantivy into `IndexDamaged`, or `BrokenStore` if the system refuses.

    A panic in Rust is an exception that is no `Exception`; its class cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        # Rust ends the messages of system errors in this way.
        code = re.search(r"\(os error (\d{1,5})\)", str(error))
        # A missing file is damage; a full disk is not.
        if code and int(code[1]) != errno.ENOENT:
            raise build_system_error(int(code[1])) from error
        raise IndexDamaged("its words cannot be read or written") from error


# texts


@cache
def _compile_unspaced() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]+")  # takes 5 ms; plain English does not need it


def normalize_text(text: str) -> str:
    """Return the form in which all text is read.

    That is NFKC, so that wide and half-width letters are one, without surrogates.
    """
    return unicodedata.normalize("NFKC", replace_surrogates(text))


def prepare_text(way: str, text: str) -> str:
    """Return a normal text as the analyser of a way takes it.

    Characters of unspaced scripts stand alone (EXACT) or are left out (STEM).
    """
    if text.isascii():
        return text
    if way == STEM:
        return _compile_unspaced().sub(" ", text)
    return _compile_unspaced().sub(_split_characters, text)


def _split_characters(run: re.Match[str]) -> str:
    return f" {' '.join(run[0])} "


def list_runs(text: str) -> list[str]:
    """Return the runs of unspaced scripts in a normal text."""
    if text.isascii():
        return []
    return _compile_unspaced().findall(text)


def analyze_text(way: str, text: str) -> list[str]:
    """Return the tokens of a normal text, read in one of the two ways."""
    return _build_analyzer(way).analyze(prepare_text(way, text))


def stem_phrase(text: str) -> tuple[str, ...]:
    """Return the stems of the words of a phrase, which all of its forms share.

    A word without a stem, such as a stop word, stays as it is.
    """
    parts: list[str] = []
    for word in analyze_text(EXACT, normalize_text(text)):
        parts += analyze_text(STEM, word) or [word]
    return tuple(parts)


def tokenize_document(doc: Doc) -> dict[str, list[str]]:
    """Return the tokens of each text field of a document."""
    return parse_exact_tokens(format_exact_tokens(doc))


def format_exact_tokens(doc: Doc) -> str:
    """Return the exact tokens of a document, from which `parse_exact_tokens` makes all tokens."""
    parts = []
    for text in (doc.title, doc.topic, doc.body):
        tokens = analyze_text(EXACT, normalize_text(text))
        parts.append(" ".join(tokens))
    return _PART_SEPARATOR.join(parts)


def parse_exact_tokens(exact_tokens: str) -> dict[str, list[str]]:
    """Return the tokens of each text field of a document from its exact ones."""
    texts = _split_parts(exact_tokens)
    tokens = {}
    for field, (part, way, _) in FIELDS.items():
        if way == EXACT:
            tokens[field] = texts[part].split()
        else:
            tokens[field] = analyze_text(STEM, texts[part])
    return tokens


def _split_parts(exact_tokens: str) -> dict[str, str]:
    """Return the exact tokens of each part of a document."""
    parts = exact_tokens.split(_PART_SEPARATOR)
    return dict(zip(_PARTS, parts, strict=True))


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
        option = "freq" if way == STEM else "position"
        builder.add_text_field(name, tokenizer_name=way, index_option=option)
    builder.add_integer_field(NUMBER, indexed=True, fast=True)
    return builder.build()


# synonyms


@cache
def _read_synonyms() -> str:
    return _SYNONYMS_PATH.read_text(encoding="utf-8")


def find_synonyms(words: Sequence[str], own_list: str = "") -> tuple[Alternative, ...]:
    """Return the synonyms of the words of a short query.

    Args:
        words: of the query.
        own_list: the list of synonyms of the project, as a text.
    """
    content_words = [
        word for word in words if analyze_text(STEM, normalize_text(word)) or list_runs(word)
    ]
    if len(content_words) > MAX_WIDENED_WORDS:
        return ()
    prefixes = set()
    for word in words:
        for part in stem_phrase(word):
            prefixes.add(part[:2])  # a stemmer does not change these
    tables = []
    for text in (own_list, _read_synonyms()):
        tables += [_build_synonym_table(text, prefix) for prefix in sorted(prefixes)]
    return list_alternatives(words, tables, stem_phrase)


@lru_cache(maxsize=1024)
def _build_synonym_table(text: str, prefix: str) -> Synonyms:
    """Return the synonyms in a list for words with a prefix; a server reads the same ones often."""
    return build_synonyms(text, stem_phrase, (prefix,))


def match_synonyms(text: str, alike_words: Iterable[Alternative]) -> dict[str, tuple[str, ...]]:
    """Return the words of a query that a text lacks, each with the synonyms that it has."""
    normal_text = normalize_text(text)
    tokens = set(analyze_text(STEM, normal_text))
    tokens.update(analyze_text(EXACT, normal_text))
    matches: dict[str, tuple[str, ...]] = {}
    for row in alike_words:
        typed = " ".join(row.words)
        if tokens.issuperset(stem_phrase(typed)):
            continue
        phrases = [
            phrase for phrase, _ in row.substitutes if tokens.issuperset(stem_phrase(phrase))
        ]
        if phrases:
            matches[typed] = tuple(phrases)
    return matches


# questions


class Clause(NamedTuple):
    """One term of a text field, or several in a row, with the weight of a match."""

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
        self._document_counts: dict[tuple[str, str], int] = {}  # of the latest terms
        self._average_lengths: dict[str, float] = {}  # by field

    def get_document_count(self, field: str, term: str) -> int:
        """Return how many documents have a term, including removed ones that are not merged yet."""
        key = (field, term)
        if key not in self._document_counts:
            if len(self._document_counts) > _MAX_CACHED_COUNTS:
                self._document_counts.clear()
            with error_boundary():
                self._document_counts[key] = self._searcher.doc_freq(field, term)
        return self._document_counts[key]

    def get_average_length(self, field: str, terms: Iterable[str]) -> float:
        """Return the average number of tokens of a text field.

        It is 0 if no document has any of the terms, as Tantivy says it only when it explains a
        score.
        """
        if field not in self._average_lengths:
            for term in terms:
                if self.get_document_count(field, term):
                    self._average_lengths[field] = self._read_average_length(field, term)
                    break
        return self._average_lengths.get(field, 0.0)

    def _read_average_length(self, field: str, term: str) -> float:
        """Return the average number of tokens of a field, from the explanation of a score."""
        query = Query.term_query(self._schema, field, term, "freq")
        with error_boundary():
            hits = self._searcher.search(query, 1, count=False).hits
            if not hits:
                return 0.0
            _, address = hits[0]
            explanation = query.explain(self._searcher, address).to_json()
        match = re.search(r'"value": ([\d.e+-]+),\s*"description": "avgdl', explanation)
        if match is None:
            return 0.0
        return float(match[1])

    def build_number_query(self, numbers: Iterable[int]) -> Query:
        """Return a query for documents with any of some numbers, which adds no score."""
        number_list = list(numbers)
        if not number_list:
            return Query.empty_query()
        if len(number_list) > 200:  # from then on one automaton is cheaper than many terms
            return build_unscored_query(Query.term_set_query(self._schema, NUMBER, number_list))
        terms = [Query.term_query(self._schema, NUMBER, number, "basic") for number in number_list]
        return build_unscored_query(Query.boolean_query([(SHOULD, term) for term in terms]))

    def search(self, query: Query, limit: int) -> dict[int, float]:
        """Return the numbers of the best matches with their scores, best first."""
        with error_boundary():
            hits = self._searcher.search(query, max(1, limit), count=False).hits
            addresses = [address for _, address in hits]
            numbers = self._searcher.fast_field_values(NUMBER, addresses)
        scores: dict[int, float] = {}
        for number, (score, _) in zip(numbers, hits, strict=True):
            scores[int(number or 0)] = score
        return scores

    def build_any_query(self, clauses: Iterable[Clause]) -> Query | None:
        """Return the scoring query for any of some clauses; None if no document can match."""
        queries = []
        for field, terms, boost in clauses:
            if not boost or not all(self.get_document_count(field, term) for term in terms):
                continue
            if len(terms) == 1:
                query = Query.term_query(self._schema, field, terms[0], "freq")
            else:
                query = Query.phrase_query(self._schema, field, list(terms))
            queries.append(Query.boost_query(query, boost))
        return build_sum_query(queries)

    def build_best_query(
        self, clauses: Iterable[Clause], alternatives: Iterable[Iterable[Iterable[Clause]]]
    ) -> Query | None:
        """Return the query that scores by the best side: clauses or one of their alternatives.

        Any of the clauses may match; of an alternative, one clause of each group must. None if no
        document can match.
        """
        queries = []
        for groups in ([clauses], *alternatives):
            query = self._build_group_query(groups)
            if query:
                queries.append(query)
        if len(queries) > 1:
            return Query.disjunction_max_query(queries)
        return queries[0] if queries else None

    def _build_group_query(self, groups: Iterable[Iterable[Clause]]) -> Query | None:
        """Return the query for one clause of each group; None if no document can match."""
        queries = []
        for group in groups:
            query = self.build_any_query(group)
            if query is None:
                return None
            queries.append((MUST, query))
        return Query.boolean_query(queries)


class TermCounts(NamedTuple):
    """Counts of the terms of one query, where `WordIndex` has those of all terms.

    They decide the weight of each word. Candidates of several indexes have comparable scores if
    each index uses the counts of all indexes together.
    """

    total: int = 0  # documents
    # (field, term) -> documents that have it
    document_counts: Mapping[tuple[str, str], int] = {}
    # Field -> documents and the tokens of all of them; only fields whose lengths are known
    field_sizes: Mapping[str, tuple[int, float]] = {}

    def get_document_count(self, field: str, term: str) -> int:
        """Return how many documents have a term in a field; 0 for a term that was not counted."""
        return self.document_counts.get((field, term), 0)

    def get_average_length(self, field: str, _terms: Iterable[str]) -> float:
        """Return the average number of tokens of a field; 0 if not known."""
        documents, tokens = self.field_sizes.get(field, (0, 0.0))
        return tokens / documents if documents else 0.0


def merge_counts(parts: Iterable[TermCounts]) -> TermCounts:
    """Return the sum of the counts of several indexes."""
    total = 0
    document_counts: Counter[tuple[str, str]] = Counter()
    field_sizes: dict[str, tuple[int, float]] = {}
    for part in parts:
        total += part.total
        document_counts.update(part.document_counts)
        for field, (documents, tokens) in part.field_sizes.items():
            old_documents, old_tokens = field_sizes.get(field, (0, 0.0))
            field_sizes[field] = old_documents + documents, old_tokens + tokens
    return TermCounts(total, document_counts, field_sizes)


def build_sum_query(queries: Iterable[Query | None]) -> Query | None:
    """Return the query whose score is the sum of those of others; None if none can match."""
    parts = [(SHOULD, query) for query in queries if query]
    return Query.boolean_query(parts) if parts else None


@cache
def build_empty_index() -> WordIndex:
    """Return a word index without documents."""
    return WordIndex(tantivy.Index(build_schema()))


def build_match_all_query() -> Query:
    """Return the query that all documents match and that adds no score."""
    return build_unscored_query(Query.all_query())


def restrict_query(query: Query, restriction: Restriction) -> Query:
    """Return `query` under a restriction."""
    if not restriction:
        return query
    return Query.boolean_query([(MUST, query), *restriction])


def build_unscored_query(query: Query) -> Query:
    """Return a query that adds nothing to the score."""
    return Query.const_score_query(query, 0.0)


# writing


def add_documents(folder: Path, documents: Iterable[tuple[int, str]]) -> None:
    """Add documents, given as number and exact tokens, to the word index in a folder."""
    with error_boundary():
        index = tantivy.Index(build_schema(), str(folder))
        for way in (EXACT, STEM):
            index.register_tokenizer(way, _build_analyzer(way))
        writer = index.writer(_HEAP_SIZE, 1)
        for number, exact_tokens in documents:
            parts = _split_parts(exact_tokens)
            values: dict[str, Any] = {NUMBER: number}
            for field, (part, way, _) in FIELDS.items():
                values[field] = prepare_text(way, parts[part])
            writer.add_document(tantivy.Document.from_dict(values, build_schema()))
        writer.commit()
        writer.wait_merging_threads()
