"""What a person or agent typed, taken apart: words, phrases, exclusions, restrictions.

Rule: one pass over capped text, no recursion, no rejection. Whatever is not understood is plain
text, because the user meant something by it.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

from filemem.query.filter import FIELD_BY_TERM, TERM_FORMATS, Filter, TermFormat, fold_value
from filemem.record import parse_span

MAX_BYTES = 2048
MAX_TERMS = 64
# Words; a longer query is a sentence, and a single word in quotes is set off in it, not asked for.
MAX_QUERY_WORDS = 12
DAY = 86_400_000  # milliseconds
# Letters of scripts without spaces.
UNSPACED = "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
LONG_RUN_LENGTH = 5  # characters of such a script that are more than one word

_CURLY_QUOTES = str.maketrans("“”„‟«»", '""' * 3)
# Never part of a word at its ends; brackets, dots and plus signs can be (`.env`, `C++`, `f()`).
_SENTENCE_MARKS = ",;!?"


class Substitute(NamedTuple):
    """A phrase that may stand for another, and what it counts."""

    phrase: str
    weight: float


class Alternative(NamedTuple):
    """Some words of a query, as typed, and what developers say instead, best first."""

    words: tuple[str, ...]
    substitutes: tuple[Substitute, ...]


class Terms(NamedTuple):
    """The words of a query, as typed (not stemmed, not split)."""

    words: tuple[str, ...] = ()  # each once, in order; any of them may match
    phrases: tuple[str, ...] = ()  # quoted, in PROSE of several words; every one must occur
    excluded: tuple[str, ...] = ()  # words or phrases behind a minus; none may occur
    text: str = ""  # the query without exclusions and restrictions, for the embedder
    unread_tokens: tuple[str, ...] = ()  # `outcome:broken` is no restriction: it is read as words
    is_cut: bool = False  # whether there was more than counts
    alternatives: tuple[
        Alternative, ...
    ] = ()  # what may be said instead of its words; `parse` knows of none

    @property
    def is_word(self) -> bool:
        """Whether all of it is one word; a long run of a script without spaces is a sentence."""
        run = re.search(f"{UNSPACED}{{{LONG_RUN_LENGTH},}}", self.text)
        return len(self.words) + len(self.phrases) == 1 and " " not in self.text and not run


class Query(NamedTuple):
    """What a query string asks for, and what it is restricted to."""

    terms: Terms
    restriction: Filter


def parse_query(text: str, now: int | None = None) -> Query:
    """Read a query string; at most 2 KB and 64 words of it count.

    A restriction given twice (`tag:a tag:b`, `tag:a,b`) means either; one with a value that its
    field cannot have (`type:string`) is plain text, and so are ages (`since:2w`) without `now`.
    """
    reader = _QueryReader(text, now)
    for match in _TOKEN.finditer(clean_text(text).translate(_CURLY_QUOTES)):
        reader.add_token(match)
    return reader.build_query()


class _QueryReader:
    """A query half read."""

    def __init__(self, text: str, now: int | None) -> None:
        self.now = now
        self.is_prose = len(text.split()) > MAX_QUERY_WORDS
        self.is_cut = len(text.encode("utf-8", "replace")) > MAX_BYTES
        self.words_left = MAX_TERMS
        self.words: dict[str, None] = {}
        self.phrases: dict[str, None] = {}
        self.excluded: dict[str, None] = {}
        self.unread_tokens: dict[str, None] = {}
        self.text_words: list[str] = []
        self.restriction = Filter()

    def add_token(self, token: re.Match[str]) -> None:
        """Take a word or a phrase in quotes, with what stands in front of it."""
        if self._add_restriction(token):
            return
        text = token[0]
        minus, key, bare = token.group("minus", "key", "bare")
        if key or text in _EMPTY_KEYS:
            self.unread_tokens[text] = None
        words = self._take_words(_split_words(text.lstrip("-") if minus else text))
        if words and minus:
            self.excluded[" ".join(words)] = None
        elif words:
            self.text_words += words
            self._add_words(words, in_quotes=bare is None and not key)

    def _add_restriction(self, token: re.Match[str]) -> bool:
        """Take a restriction such as `tag:a`; False if it is none."""
        minus, key, quoted, bare = token.group("minus", "key", "quoted", "bare")
        if minus or not key:
            return False
        restriction = _parse_restriction(key, quoted if bare is None else bare, self.now)
        self.restriction = _widen_filter(self.restriction, restriction)
        return bool(restriction)

    def _take_words(self, words: list[str]) -> list[str]:
        """Return as many words as are left."""
        self.is_cut |= len(words) > self.words_left
        words = words[: self.words_left]
        self.words_left -= len(words)
        return words

    def _add_words(self, words: list[str], *, in_quotes: bool) -> None:
        if in_quotes and (len(words) > 1 or not self.is_prose):
            self.phrases[" ".join(words)] = None
        else:
            self.words.update(dict.fromkeys(words))

    def build_query(self) -> Query:
        """Return what was read."""
        terms = Terms(
            words=tuple(self.words),
            phrases=tuple(self.phrases),
            excluded=tuple(self.excluded),
            text=" ".join(self.text_words),
            unread_tokens=tuple(self.unread_tokens),
            is_cut=self.is_cut,
        )
        return Query(terms, self.restriction)


def loosen_phrases(terms: Terms) -> Terms:
    """Return the same query with its phrases as plain words, for when nothing holds them."""
    words = (*terms.words, *(word for phrase in terms.phrases for word in phrase.split()))
    return terms._replace(words=tuple(dict.fromkeys(words)), phrases=())


def clean_text(text: str, limit: int = MAX_BYTES) -> str:
    """Return at most `limit` bytes of text, NFC, line breaks as spaces, no control characters."""
    shortened = text[:limit].encode("utf-8", "ignore")[:limit].decode("utf-8", "ignore")
    spaced_text = "".join(" " if char.isspace() else char for char in shortened)
    return unicodedata.normalize(
        "NFC", "".join(c for c in spaced_text if unicodedata.category(c) != "Cc")
    )


def parse_moment(text: str, now: int | None, *, end: bool = False) -> int | None:
    """Return the moment that a restriction names, in epoch milliseconds, or None.

    Its first one, or its last with `end`. It is a date in any form, a week, a month, a year, a
    time; given `now`, also an age (`12h`, `3d`, `2w`, `6m` of 30 days each, `1y`) or `now`,
    `today`, `yesterday` (UTC).
    """
    word = text.strip().casefold()
    if word in _DAYS:
        return _compute_day(word, now, end=end)
    age = re.fullmatch(_AGE, word)
    if age:
        return None if now is None else now - int(age["count"]) * _UNITS[age["unit"]]
    if re.fullmatch("[0-9]{4}", word):
        text = f"{word}-12-31" if end else f"{word}-01-01"
    span = parse_span(text)
    if span is None:
        return None
    return span.last if end else span.first


def _compute_day(word: str, now: int | None, *, end: bool) -> int | None:
    if now is None or word == "now":
        return now
    first = now - now % DAY - _DAYS[word]
    return first + DAY - 1 if end else first


def _split_words(text: str) -> list[str]:
    """Cut at white space, strip sentence marks, and drop what has no letter or digit."""
    words = (word.strip(_SENTENCE_MARKS).rstrip(".:") for word in text.replace('"', " ").split())
    return [word for word in words if _LETTER.search(word)]


def _parse_restriction(key: str, value: str, now: int | None) -> dict[str, object]:
    """Return the field of Filter that `key:value` sets; none if the value is invalid for it."""
    if key in ("since", "until"):
        moment = parse_moment(value, now, end=key == "until")
        return {} if moment is None else {key: moment}
    value = value.strip()
    if key == "path":
        return {"path": value} if value else {}
    if key == "is":
        return {"live": True} if fold_value(value) == "live" else {}
    values = _parse_values(key, value)
    return {FIELD_BY_TERM[key]: values} if values else {}


def _parse_values(key: str, value: str) -> tuple[str, ...]:
    parser, choices = TERM_FORMATS.get(key, TermFormat())
    full_values = [value] if key in ("topic", "branch") else []  # it may have a comma in it
    parts = [] if key == "branch" else value.split(",")
    values = tuple(dict.fromkeys(filter(None, map(parser, (*full_values, *parts)))))
    return values if not choices or set(values) <= set(choices) else ()


def _widen_filter(restriction: Filter, additions: Mapping[str, object]) -> Filter:
    """Add a restriction: values of one field are alternatives, of single values the last counts."""
    changes: dict[str, Any] = dict(additions)
    for field, value in additions.items():
        if isinstance(value, tuple):
            changes[field] = tuple(dict.fromkeys((*getattr(restriction, field), *value)))
    return restriction._replace(**changes)


_LETTER = re.compile(r"[^\W_]")
_AGE = r"(?P<count>[0-9]{1,5})(?P<unit>[hdwmy])"
_UNITS = {"h": DAY // 24, "d": DAY, "w": 7 * DAY, "m": 30 * DAY, "y": 365 * DAY}
_DAYS = {"now": 0, "today": 0, "yesterday": DAY}  # milliseconds before the beginning of this day
_KEYS = (
    *(key for key in FIELD_BY_TERM if key not in ("user", "run")),
    "path",
    "is",
    "since",
    "until",
)
_EMPTY_KEYS = frozenset(f"{key}:" for key in _KEYS)
_TOKEN = re.compile(
    r'(?P<minus>-(?=[^\W\d]|"|[#.]\w))?'
    rf"(?:(?P<key>{'|'.join(_KEYS)}):)?"
    r'(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))'
)


# -- what is said instead of a word ------------------------------------------------------------
# In lists with a group on each line: `auth | sign in > oauth, saml`.

MAX_LINES = 500  # of a list; what is beyond is not read
MAX_LIST_SIZE = 65_536  # bytes of a list
MAX_PHRASES = 16  # phrases of a line
MAX_SUBSTITUTES = 12  # phrases that stand for one
KIND_WEIGHT = 0.5  # weight of a kind of the thing, and of the thing for a kind of it
_MAX_PHRASE_WORDS = 3  # words of a phrase of a query, at most
_PHRASE = re.compile(r"(?=.{0,59}\w)[^|>,\s]+( [^|>,\s]+){0,3}")

Key = Callable[[str], tuple[str, ...]]  # a phrase -> what its forms share
Synonyms = Mapping[tuple[str, ...], tuple[Substitute, ...]]


class Group(NamedTuple):
    """Phrases that mean the same, and kinds of it."""

    synonyms: list[str]
    kinds: list[str]

    @property
    def is_valid(self) -> bool:
        """Whether it has phrases of a list, several, and not too many."""
        phrases = self.synonyms + self.kinds
        return 1 < len(phrases) <= MAX_PHRASES and all(map(_PHRASE.fullmatch, phrases))


class GroupList(NamedTuple):
    """The groups of a list, and the numbers of malformed lines."""

    groups: list[Group]
    malformed_lines: list[int]


def parse_groups(text: str, prefixes: Sequence[str] = ()) -> GroupList:
    """Read a list.

    `begins`: read only lines with a word that begins in one of these ways; a query needs few, and
    at once.
    """
    prefix_pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, prefixes))})")
    result = GroupList([], [])
    for number, line in enumerate(text[:MAX_LIST_SIZE].casefold().splitlines()[:MAX_LINES], 1):
        is_comment = not line.strip() or line.lstrip().startswith("#")
        if is_comment or (prefixes and not prefix_pattern.search(line)):
            continue
        group = _parse_group(line)
        if group.is_valid:
            result.groups.append(group)
        else:
            result.malformed_lines.append(number)
    return result


def _parse_group(line: str) -> Group:
    head, mark, tail = line.partition(">")
    synonyms = [phrase.strip() for phrase in head.split("|")]
    return Group(synonyms, [phrase.strip() for phrase in tail.split(",")] if mark else [])


def build_synonyms(text: str, key: Key, prefixes: Sequence[str] = ()) -> Synonyms:
    """Return what a list says may stand for its phrases, by `key`.

    What means the same comes first, then kinds.
    """
    table: dict[tuple[str, ...], dict[tuple[str, ...], Substitute]] = defaultdict(dict)
    for group in parse_groups(text, prefixes).groups:
        keys = {phrase: key(phrase) for phrase in (*group.synonyms, *group.kinds)}
        for phrase, substitute in _iter_pairs(group):
            other = keys[substitute.phrase]
            if other == keys[phrase]:
                continue
            substitutes = table[keys[phrase]]
            if other not in substitutes or substitute.weight > substitutes[other].weight:
                substitutes[other] = substitute
    return {
        phrase: tuple(sorted(substitutes.values(), key=lambda row: -row.weight)[:MAX_SUBSTITUTES])
        for phrase, substitutes in table.items()
    }


def _iter_pairs(group: Group) -> Iterator[tuple[str, Substitute]]:
    """Yield the phrases of a group with what may stand for them."""
    for phrase, other in product(group.synonyms, group.synonyms):
        yield phrase, Substitute(other, 1.0)
    for phrase, kind in product(group.synonyms, group.kinds):
        yield phrase, Substitute(kind, KIND_WEIGHT)
        yield kind, Substitute(phrase, KIND_WEIGHT)


def list_alternatives(
    words: Sequence[str], synonym_lists: Sequence[Synonyms], key: Key
) -> tuple[Alternative, ...]:
    """Return what may be said instead of the words of a query.

    The longest phrases of it are looked up first.
    """
    typed_words = [word for word in words for _ in key(word)]
    parts = [part for word in words for part in key(word)]
    rows: list[Alternative] = []
    start = 0
    while start < len(parts):
        for end in range(min(start + _MAX_PHRASE_WORDS, len(parts)), start, -1):
            substitutes = _list_substitutes(tuple(parts[start:end]), synonym_lists)
            if substitutes:
                rows.append(Alternative(tuple(dict.fromkeys(typed_words[start:end])), substitutes))
                start = end
                break
        else:
            start += 1
    return tuple(rows)


def _list_substitutes(
    phrase: tuple[str, ...], synonym_lists: Sequence[Synonyms]
) -> tuple[Substitute, ...]:
    """Return what the lists say for a phrase; of two weights of one substitute the last counts."""
    rows = chain(*(synonyms.get(phrase, ()) for synonyms in synonym_lists))
    return tuple({row.phrase: row for row in rows}.values())[:MAX_SUBSTITUTES]


# -- names of code, taken apart, so that any spelling of a name finds any other -----------------
# What is returned is added beside the text, never put in its place; index and query both add it.

_NAME = re.compile(r"\w+(?:[-./:]+\w+)*")
_BREAK = re.compile(r"[\W_]+")
_HASH = re.compile(r"[0-9a-f]{7,}")
_PIECE = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PROSE_MARKS = ".,:;!?()[]{}<>*`'\""  # what stands beside a name in prose
_PATH_SIGNS = frozenset("./:")
_MAX_PARTS = 12  # of one run without separators; longer ones are hashes or noise, not names
_MAX_RUN_LENGTH = 64  # characters; the same


def split_identifiers(text: str) -> str:
    """Return the words inside compound names of `text`, lower case, each once, separated by spaces.

    `getUserById`, `get_user_by_id` and `get-user-by-id` all give `get user by id getuserbyid`;
    `HTTPServer2` gives `http server 2 httpserver2`; paths and versions give their parts. Plain
    words give nothing.
    """
    parts: dict[str, None] = {}
    for run in dict.fromkeys(unicodedata.normalize("NFC", text).split()):
        word = run.strip(_PROSE_MARKS)
        if not (word.isalpha() and word[1:].islower()):  # most words of prose leave here
            parts.update(dict.fromkeys(_split_run(word)))
    return " ".join(parts)


@lru_cache(maxsize=4096)  # a project speaks of the same names again and again
def _split_run(run: str) -> tuple[str, ...]:
    return tuple(part for name in _NAME.findall(run) for part in _split_name(name))


def _split_name(name: str) -> tuple[str, ...]:
    runs = [run for run in _BREAK.split(name) if run]
    words: list[str] = []
    for run in runs:
        pieces = _split_pieces(run)
        words += pieces
        if len(pieces) > 1 and len(runs) > 1:
            words.append(run)
    if len(words) < 2:
        return ()
    if len(name) <= _MAX_RUN_LENGTH and _PATH_SIGNS.isdisjoint(name):
        words.append("".join(runs))
    return tuple(word.lower() for word in words)


def _split_pieces(run: str) -> list[str]:
    """Cut a name into words; what is too long for a name stays whole."""
    if len(run) > _MAX_RUN_LENGTH or _HASH.fullmatch(run):
        return [run]
    pieces = _split_case(run)
    return pieces if len(pieces) <= _MAX_PARTS else [run]


def _split_case(run: str) -> list[str]:
    """Cut where case changes, at digits, and before the last capital of `HTTPServer`."""
    if run.isascii():
        return _PIECE.findall(run)
    shape = "".join("0" if char.isdigit() else "A" if char.isupper() else "a" for char in run)
    return [run[piece.start() : piece.end()] for piece in _PIECE.finditer(shape)]
