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

ENOUGH = 5  # what shared words must weigh together
NAME = 3  # what a name weighs: `pg_isready`, `ECONNREFUSED`, `E0502`; a plain word weighs 1
LONG = 5  # what a name of three parts weighs: `test_retry_backoff`
_END = 4_000  # characters of an error that are read, from its end
_MOST = 48  # words that are searched
_DEPTH = 8  # records that are compared, of each type
_WORD = re.compile(r"[^\W_][\w\-]*\w")
_NAME = re.compile(r"\d|_|-|[a-z][A-Z]|^[A-Z]{4,}$|^[A-Z][a-z]+(?:Error|Exception)$")
_PART = re.compile(r"[^\W_][a-z0-9]+|[^\W_a-z]+")
_NUMBER = re.compile(r"[\d\-.:x]*|0x[0-9a-fA-F]+|[0-9a-f]{7,40}")
# What any failure says; a name of no thing.
_USUAL = (
    "error errors exception failed failure failing fail fails failures fatal panic warning"
    " traceback recent call last file files line lines code exit exited status command test"
    " tests testing passed assert assertion assertionerror expected actual received got"
    " value values typeerror valueerror keyerror runtimeerror oserror attributeerror"
    " importerror nameerror modulenotfounderror indexerror filenotfounderror true false none"
    " null undefined object string int str list dict function method class module import"
    " return raise def self cls main python python3 node npm build run running process src"
    " lib app usr bin home var tmp project at in on of to is was be been has have had not no"
    " and or the an it its this that with from for by as if but can could cannot does did do"
    " you your we all any more than then when while after before see use used using new old"
    " first second set get make time times cause caused stack trace output input missing"
    " found invalid unexpected unknown unable try again please short summary info session"
    " starts collected items wall tool result index name type version"
)


def about(store: Store, error: str) -> list[str]:
    """Return the ids of the records about a failure, the nearest first; mostly there are none."""
    words = distinctive(error)
    if not words or not store.index.sound:
        return []
    text = " ".join(sorted(words, key=lambda word: not words[word][0])[:_MOST])
    terms, _ = query.parse(text, store.clock())
    observations = Filter(types=(OBSERVATION,), reader=store.reader)
    failed = Filter(types=(DECISION,), outcomes=("failed", "partial"), reader=store.reader)
    paths = []
    for wanted in (failed, observations):
        candidates = store.index.candidates(terms, wanted, _DEPTH, mode="keyword").candidates
        paths += [candidate.path for candidate in candidates]
    records = store.records(paths).values()
    weights = {record.id: weight(words, record) for record in records}
    near = [name for name, shared in weights.items() if shared >= ENOUGH]
    return sorted(near, key=lambda name: -weights[name])


def distinctive(error: str) -> dict[str, tuple[bool, str]]:
    """Return the words that make a failure this one, folded: if each is a name, and as typed."""
    usual = frozenset(_USUAL.split())
    words: dict[str, tuple[bool, str]] = {}
    for word in _WORD.findall(error[-_END:]):
        folded = word.casefold()
        if folded not in usual and len(word) > 2 and not _NUMBER.fullmatch(word):
            words.setdefault(folded, (bool(_NAME.search(word)), word))
    return words


def weight(words: dict[str, tuple[bool, str]], record: Record) -> int:
    """Return what the words that a record shares with a failure weigh together."""
    shared = words.keys() & _words(_texts(record))
    return sum(_weight_of(*words[word]) for word in shared)


def _weight_of(name: bool, word: str) -> int:
    if not name:
        return 1
    return LONG if len(_PART.findall(word)) > 2 else NAME


def _texts(record: Record) -> Iterable[str]:
    reasons = (outcome.reason for outcome in record.outcomes)
    return (record.title, record.decision, record.text, record.limitation, *record.facts, *reasons)


def _words(texts: Iterable[str]) -> set[str]:
    return {word.casefold() for text in texts for word in _WORD.findall(text)}
