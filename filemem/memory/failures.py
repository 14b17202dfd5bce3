"""Find records about a failure: failed decisions and observations that share its words.

Rule: one record or none. A record counts if it shares enough of the words that distinguish this
failure from others: names of things weigh more than plain words, and words of any failure weigh
nothing. Measured on tests/hooks/failures.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from filemem import query
from filemem.memory.store import Store
from filemem.query import Filter
from filemem.record import DECISION, OBSERVATION, Record

MIN_WEIGHT = 5  # of all shared words together
NAME_WEIGHT = 3  # of a name: `pg_isready`, `ECONNREFUSED`, `E0502`; a plain word weighs 1
MAX_PLAIN_WEIGHT = 2  # of all plain words: any record shares some words of a long output
LONG_NAME_WEIGHT = 5  # of a name with three parts: `test_retry_backoff`
_MAX_ERROR = 4_000  # characters of an error that are read, from its end
_MAX_WORDS = 48  # words that are searched
_DEPTH = 8  # records that are compared, of each type
_WORD = re.compile(r"[^\W_][\w\-]*\w")
_NAME = re.compile(r"\d|_|-|[a-z][A-Z]|^[A-Z]{4,}$")
_PART = re.compile(r"[^\W_][a-z0-9]+|[^\W_a-z]+")
_NUMBER = re.compile(r"[\d\-.:x]*|0x[0-9a-fA-F]+|[0-9a-f]{7,40}")
# Words that occur in any failure.
_COMMON_WORDS = (
    " error errors failed test tests file line code exit command python node npm assert with from"
    " assertionerror typeerror valueerror true false none the and not for this that "
)


class _Word(NamedTuple):
    """A word of a failure, as typed."""

    text: str
    is_name: bool


def find_record_ids(store: Store, error: str) -> list[str]:
    """Find the records about a failure, the nearest first; mostly there are none."""
    words = find_distinctive_words(error)
    if not words or not store.index.is_readable:
        return []
    records = _search_records(store, words)
    weights = {record.id: compute_weight(words, record) for record in records}
    near_ids = [record_id for record_id, weight in weights.items() if weight >= MIN_WEIGHT]
    near_ids.sort(key=weights.__getitem__, reverse=True)
    return near_ids


def _search_records(store: Store, words: Mapping[str, _Word]) -> Iterable[Record]:
    """Search failed decisions, then observations, for the words."""
    searched_words = [word for word in words if words[word].is_name]
    searched_words += [word for word in words if not words[word].is_name]
    text = " ".join(searched_words[:_MAX_WORDS])
    terms, _ = query.parse_query(text, store.clock())
    failed = Filter(
        types=(DECISION,),
        outcomes=("failed", "partial"),
        reader=store.reader,
    )
    observations = Filter(types=(OBSERVATION,), reader=store.reader)
    paths: list[str] = []
    for wanted in (failed, observations):
        candidate_set = store.index.search_candidates(terms, wanted, _DEPTH, mode="keyword")
        paths += [candidate.path for candidate in candidate_set.candidates]
    return store.read_records(paths).values()


def find_distinctive_words(error: str) -> dict[str, _Word]:
    """Find the words that distinguish a failure from others, by the word in lower case."""
    words: dict[str, _Word] = {}
    for text in _WORD.findall(error[-_MAX_ERROR:]):
        key = text.casefold()
        is_common = f" {key} " in _COMMON_WORDS
        if is_common or len(text) <= 2 or _NUMBER.fullmatch(text):
            continue
        is_name = _NAME.search(text) is not None
        words.setdefault(key, _Word(text, is_name))
    return words


def compute_weight(words: Mapping[str, _Word], record: Record) -> int:
    """Compute the weight of the words that a record shares with a failure; 0 without a name."""
    record_words = _split_words(_list_texts(record))
    name_weight = 0
    plain_weight = 0
    for key, word in words.items():
        if key not in record_words:
            continue
        if not word.is_name:
            plain_weight += 1
        elif len(_PART.findall(word.text)) > 2:
            name_weight += LONG_NAME_WEIGHT
        else:
            name_weight += NAME_WEIGHT
    if name_weight == 0:
        return 0
    return name_weight + min(MAX_PLAIN_WEIGHT, plain_weight)


def _list_texts(record: Record) -> list[str]:
    texts = [record.title, record.decision, record.text, record.limitation]
    texts += record.facts
    texts += [outcome.reason for outcome in record.outcomes]
    return texts


def _split_words(texts: Iterable[str]) -> set[str]:
    words: set[str] = set()
    for text in texts:
        words.update(word.casefold() for word in _WORD.findall(text))
    return words
