"""What is known about a failure: the failed decision or the observation that its words lead to.

Rule: one record or none. A record is near where it has enough of the words that make this failure
another than all others: names of things count for more than plain words, and the words that any
failure has count for nothing. Measured on tests/hooks/failures.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from filemem import query
from filemem.memory.store import Store
from filemem.query import Filter
from filemem.record import DECISION, OBSERVATION, Record

MIN_WEIGHT = 5  # what shared words must weigh together
NAME_WEIGHT = 3  # what a name weighs: `pg_isready`, `ECONNREFUSED`, `E0502`; a plain word weighs 1
MAX_PLAIN_WEIGHT = 2  # what all plain words weigh at most: in a long output some are in any record
LONG_NAME_WEIGHT = 5  # what a name of three parts weighs: `test_retry_backoff`
_MAX_ERROR = 4_000  # characters of an error that are read, from its end
_MAX_WORDS = 48  # words that are searched
_DEPTH = 8  # records that are compared, of each type
_WORD = re.compile(r"[^\W_][\w\-]*\w")
_NAME = re.compile(r"\d|_|-|[a-z][A-Z]|^[A-Z]{4,}$")
_PART = re.compile(r"[^\W_][a-z0-9]+|[^\W_a-z]+")
_NUMBER = re.compile(r"[\d\-.:x]*|0x[0-9a-fA-F]+|[0-9a-f]{7,40}")
# What any failure says.
_COMMON_WORDS = (
    " error errors failed test tests file line code exit command python node npm assert with from"
    " assertionerror typeerror valueerror true false none the and not for this that "
)


def find_record_ids(store: Store, error: str) -> list[str]:
    """Return the ids of the records about a failure, the nearest first; mostly there are none."""
    words = find_distinctive_words(error)
    if not words or not store.index.is_readable:
        return []
    text = " ".join(sorted(words, key=lambda word: not words[word][0])[:_MAX_WORDS])
    terms, _ = query.parse_query(text, store.clock())
    observations = Filter(types=(OBSERVATION,), reader=store.reader)
    failed = Filter(types=(DECISION,), outcomes=("failed", "partial"), reader=store.reader)
    paths = []
    for criteria in (failed, observations):
        candidates = store.index.search_candidates(
            terms, criteria, _DEPTH, mode="keyword"
        ).candidates
        paths += [candidate.path for candidate in candidates]
    records = store.read_records(paths).values()
    weights = {record.id: compute_weight(words, record) for record in records}
    near_ids = [name for name, shared in weights.items() if shared >= MIN_WEIGHT]
    return sorted(near_ids, key=lambda name: -weights[name])


def find_distinctive_words(error: str) -> dict[str, tuple[bool, str]]:
    """Return the words that make a failure this one, folded: if each is a name, and as typed."""
    words: dict[str, tuple[bool, str]] = {}
    for word in _WORD.findall(error[-_MAX_ERROR:]):
        folded_word = word.casefold()
        if (
            f" {folded_word} " not in _COMMON_WORDS
            and len(word) > 2
            and not _NUMBER.fullmatch(word)
        ):
            words.setdefault(folded_word, (bool(_NAME.search(word)), word))
    return words


def compute_weight(words: dict[str, tuple[bool, str]], record: Record) -> int:
    """Return what the words that a record shares with a failure weigh; 0 without a name."""
    shared_words = words.keys() & _split_words(_list_texts(record))
    names = [words[word][1] for word in shared_words if words[word][0]]
    name_weight = sum(
        LONG_NAME_WEIGHT if len(_PART.findall(name)) > 2 else NAME_WEIGHT for name in names
    )
    return name_weight + min(MAX_PLAIN_WEIGHT, len(shared_words) - len(names)) if names else 0


def _list_texts(record: Record) -> Iterable[str]:
    reasons = (outcome.reason for outcome in record.outcomes)
    return (record.title, record.decision, record.text, record.limitation, *record.facts, *reasons)


def _split_words(texts: Iterable[str]) -> set[str]:
    return {word.casefold() for text in texts for word in _WORD.findall(text)}
