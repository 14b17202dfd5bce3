"""The parts of a query as typed: words, phrases, exclusions, restrictions.

One pass over a capped text, without errors: whatever is not understood is plain text.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
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
    """A phrase that may stand for another, and its weight."""

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
    is_cut: bool = False  # whether the query was too long
    alternatives: tuple[Alternative, ...] = ()  # synonyms of its words, added after parsing

    @property
    def is_word(self) -> bool:
        """Whether the query is one word; a long run of a script without spaces is a sentence."""
        if len(self.words) + len(self.phrases) != 1 or " " in self.text:
            return False
        return re.search(f"{UNSPACED}{{{LONG_RUN_LENGTH},}}", self.text) is None


class Query(NamedTuple):
    """The words and the restrictions of a query string."""

    terms: Terms
    restriction: Filter


def parse_query(text: str, now: int | None = None) -> Query:
    """Read a query string; at most 2 KB and 64 words of it count.

    A restriction given twice (`tag:a tag:b`, `tag:a,b`) means either; one with a value that its
    field cannot have (`type:string`) is plain text, and so are ages (`since:2w`) without `now`.
    """
    reader = _QueryReader(text, now)
    plain_text = clean_text(text).translate(_CURLY_QUOTES)
    for match in _TOKEN.finditer(plain_text):
        reader.add_token(match)
    return reader.build_query()


class _QueryReader:
    """The state of reading a query."""

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
        """Read a restriction, a word, or a phrase in quotes."""
        if self._add_restriction(token):
            return
        text = token[0]
        minus = token["minus"]
        key = token["key"]
        if key or text in _EMPTY_KEYS:
            self.unread_tokens[text] = None
        if minus:
            text = text.lstrip("-")
        words = self._take_words(_split_words(text))
        if not words:
            return
        if minus:
            self.excluded[" ".join(words)] = None
        else:
            self.text_words += words
            is_quoted = token["bare"] is None and not key
            self._add_words(words, is_quoted=is_quoted)

    def _add_restriction(self, token: re.Match[str]) -> bool:
        """Add a restriction such as `tag:a`; return False if the token is none."""
        key = token["key"]
        if token["minus"] or not key:
            return False
        value = token["quoted"] if token["bare"] is None else token["bare"]
        changes = _parse_restriction(key, value, self.now)
        self.restriction = _widen_filter(self.restriction, changes)
        return bool(changes)

    def _take_words(self, words: list[str]) -> list[str]:
        """Return as many words as still count."""
        if len(words) > self.words_left:
            self.is_cut = True
        taken_words = words[: self.words_left]
        self.words_left -= len(taken_words)
        return taken_words

    def _add_words(self, words: list[str], *, is_quoted: bool) -> None:
        if is_quoted and (len(words) > 1 or not self.is_prose):
            self.phrases[" ".join(words)] = None
        else:
            self.words.update(dict.fromkeys(words))

    def build_query(self) -> Query:
        """Return the query."""
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
    """Return a query with its phrases as plain words, for when no record holds them."""
    words = dict.fromkeys(terms.words)
    for phrase in terms.phrases:
        words.update(dict.fromkeys(phrase.split()))
    return terms._replace(words=tuple(words), phrases=())


def clean_text(text: str, limit: int = MAX_BYTES) -> str:
    """Return at most `limit` bytes of text, NFC, line breaks as spaces, no control characters."""
    data = text[:limit].encode("utf-8", "ignore")
    shortened = data[:limit].decode("utf-8", "ignore")
    characters: list[str] = []
    for char in shortened:
        if char.isspace():
            characters.append(" ")
        elif unicodedata.category(char) != "Cc":
            characters.append(char)
    return unicodedata.normalize("NFC", "".join(characters))


def parse_moment(text: str, now: int | None, *, end: bool = False) -> int | None:
    """Return the first moment that a restriction names, or with `end` its last one.

    The moment is in epoch milliseconds; None if the text is not a time. It is a date in any form, a
    week, a month, a year, a time; given `now`, also an age (`12h`, `3d`, `2w`, `6m` of 30 days
    each, `1y`) or `now`, `today`, `yesterday` (UTC).
    """
    word = text.strip().casefold()
    if word in _DAYS:
        return _compute_day(word, now, end=end)
    age = re.fullmatch(_AGE, word)
    if age:
        milliseconds = int(age["count"]) * _UNITS[age["unit"]]
        return None if now is None else now - milliseconds
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
    """Split at white space, strip sentence marks, and drop words without a letter or digit."""
    words: list[str] = []
    for part in text.replace('"', " ").split():
        word = part.strip(_SENTENCE_MARKS).rstrip(".:")
        if _LETTER.search(word):
            words.append(word)
    return words


def _parse_restriction(key: str, value: str, now: int | None) -> dict[str, object]:
    """Return the field of Filter that `key:value` sets; nothing if the value is invalid for it."""
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
    """Read the values of a term; none if one is invalid."""
    texts: list[str] = []
    if key in ("topic", "branch"):  # whose names may have a comma
        texts.append(value)
    if key != "branch":
        texts += value.split(",")
    term_format = TERM_FORMATS.get(key, TermFormat())
    values: dict[str, None] = {}
    for text in texts:
        parsed_value = term_format.parser(text)
        if not parsed_value:
            continue
        if term_format.choices and parsed_value not in term_format.choices:
            return ()
        values[parsed_value] = None
    return tuple(values)


def _widen_filter(restriction: Filter, additions: Mapping[str, object]) -> Filter:
    """Add a restriction: values of one field are alternatives, of single values the last counts."""
    changes: dict[str, Any] = {}
    for field, value in additions.items():
        if isinstance(value, tuple):
            old_values = getattr(restriction, field)
            changes[field] = tuple(dict.fromkeys(old_values + value))
        else:
            changes[field] = value
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


# -- synonyms --------------------------------------------------------------------------------
# In lists with a group on each line: `auth | sign in > oauth, saml`.

MAX_LINES = 500  # lines of a list that are read
MAX_LIST_SIZE = 65_536  # bytes of a list
MAX_PHRASES = 16  # phrases of a line
MAX_SUBSTITUTES = 12  # substitutes of a phrase
KIND_WEIGHT = 0.5  # weight of a kind for its group, and of the group for its kind
_MAX_PHRASE_WORDS = 3  # words of a phrase of a query, at most
_PHRASE = re.compile(r"(?=.{0,59}\w)[^|>,\s]+( [^|>,\s]+){0,3}")

Key = Callable[[str], tuple[str, ...]]  # from a phrase to the common key of its forms
Synonyms = Mapping[tuple[str, ...], tuple[Substitute, ...]]


class Group(NamedTuple):
    """Phrases with one meaning, and kinds of it."""

    synonyms: list[str]
    kinds: list[str]

    @property
    def is_valid(self) -> bool:
        """Whether it has several phrases, not too many, and all are well-formed."""
        phrases = self.synonyms + self.kinds
        if not 1 < len(phrases) <= MAX_PHRASES:
            return False
        return all(_PHRASE.fullmatch(phrase) for phrase in phrases)


class GroupList(NamedTuple):
    """The groups of a list, and the numbers of malformed lines."""

    groups: list[Group]
    malformed_lines: list[int]


def parse_groups(text: str, prefixes: Sequence[str] = ()) -> GroupList:
    """Read a list of synonyms.

    With `prefixes`, only lines with a word that begins with one of them are read: a query needs
    few lines, and quickly.
    """
    alternatives = "|".join(re.escape(prefix) for prefix in prefixes)
    prefix_pattern = re.compile(rf"\b(?:{alternatives})")
    result = GroupList([], [])
    lines = text[:MAX_LIST_SIZE].casefold().splitlines()
    for number, line in enumerate(lines[:MAX_LINES], 1):
        is_comment = line.lstrip().startswith("#")
        if is_comment or not line.strip():
            continue
        if prefixes and not prefix_pattern.search(line):
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
    kinds = [phrase.strip() for phrase in tail.split(",")] if mark else []
    return Group(synonyms, kinds)


def build_synonyms(text: str, key: Key, prefixes: Sequence[str] = ()) -> Synonyms:
    """Return what may stand for the phrases of a list, by `key`.

    Synonyms come first, then kinds.
    """
    table: dict[tuple[str, ...], dict[tuple[str, ...], Substitute]] = defaultdict(dict)
    for group in parse_groups(text, prefixes).groups:
        keys = {phrase: key(phrase) for phrase in group.synonyms + group.kinds}
        for phrase, substitute in _iter_pairs(group):
            phrase_key = keys[phrase]
            other_key = keys[substitute.phrase]
            if other_key == phrase_key:
                continue
            substitutes = table[phrase_key]
            old_substitute = substitutes.get(other_key)
            if old_substitute is None or substitute.weight > old_substitute.weight:
                substitutes[other_key] = substitute
    synonyms: dict[tuple[str, ...], tuple[Substitute, ...]] = {}
    for phrase_key, substitutes in table.items():
        ranked = sorted(substitutes.values(), key=attrgetter("weight"), reverse=True)
        synonyms[phrase_key] = tuple(ranked[:MAX_SUBSTITUTES])
    return synonyms


def _iter_pairs(group: Group) -> Iterator[tuple[str, Substitute]]:
    """Yield the phrases of a group, each with a substitute."""
    for phrase in group.synonyms:
        for other in group.synonyms:
            yield phrase, Substitute(other, 1.0)
    for phrase in group.synonyms:
        for kind in group.kinds:
            yield phrase, Substitute(kind, KIND_WEIGHT)
            yield kind, Substitute(phrase, KIND_WEIGHT)


def list_alternatives(
    words: Sequence[str], synonym_lists: Sequence[Synonyms], key: Key
) -> tuple[Alternative, ...]:
    """Return what may be said instead of the words of a query.

    The longest phrases of it are looked up first.
    """
    typed_words: list[str] = []  # the word of each part
    parts: list[str] = []
    for word in words:
        for part in key(word):
            typed_words.append(word)
            parts.append(part)
    rows: list[Alternative] = []
    start = 0
    while start < len(parts):
        longest_end = min(start + _MAX_PHRASE_WORDS, len(parts))
        for end in range(longest_end, start, -1):
            substitutes = _list_substitutes(tuple(parts[start:end]), synonym_lists)
            if substitutes:
                phrase_words = dict.fromkeys(typed_words[start:end])
                rows.append(Alternative(tuple(phrase_words), substitutes))
                start = end
                break
        else:
            start += 1
    return tuple(rows)


def _list_substitutes(
    phrase: tuple[str, ...], synonym_lists: Sequence[Synonyms]
) -> tuple[Substitute, ...]:
    """Return what the lists say for a phrase; of two weights of one substitute the last counts."""
    substitutes: dict[str, Substitute] = {}
    for synonyms in synonym_lists:
        for substitute in synonyms.get(phrase, ()):
            substitutes[substitute.phrase] = substitute
    return tuple(substitutes.values())[:MAX_SUBSTITUTES]


# -- names of code, taken apart, so that any spelling of a name finds any other -----------------
# The words are added to the text, in the index and in queries.

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
        is_plain = word.isalpha() and word[1:].islower()
        if not is_plain:
            parts.update(dict.fromkeys(_split_run(word)))
    return " ".join(parts)


@lru_cache(maxsize=4096)  # the same names occur again and again
def _split_run(run: str) -> tuple[str, ...]:
    parts: list[str] = []
    for name in _NAME.findall(run):
        parts += _split_name(name)
    return tuple(parts)


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
    shape = "".join(_get_ascii_shape(char) for char in run)
    return [run[piece.start() : piece.end()] for piece in _PIECE.finditer(shape)]


def _get_ascii_shape(char: str) -> str:
    """Return an ASCII character of the same kind: digit, capital or other."""
    if char.isdigit():
        return "0"
    return "A" if char.isupper() else "a"
