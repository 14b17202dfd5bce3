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

from filemem.query.filter import NAMED, READ, Filter, Reading, fold
from filemem.record import parse_span

MAX_BYTES = 2048
MAX_TERMS = 64
# Words; a longer query is a sentence, and a single word in quotes is set off in it, not asked for.
PROSE = 12
DAY = 86_400_000  # milliseconds
# Letters of scripts without spaces.
UNSPACED = "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
LONG_RUN = 5  # characters of such a script that are more than one word

_CURLY = str.maketrans("“”„‟«»", '""' * 3)
# Never part of a word at its ends; brackets, dots and plus signs can be (`.env`, `C++`, `f()`).
_EDGE = ",;!?"


class Substitute(NamedTuple):
    """A phrase that may stand for another, and what it counts."""

    phrase: str
    weight: float


class Alike(NamedTuple):
    """Some words of a query, as typed, and what developers say instead, best first."""

    words: tuple[str, ...]
    instead: tuple[Substitute, ...]


class Terms(NamedTuple):
    """The words of a query, as typed (not stemmed, not split)."""

    words: tuple[str, ...] = ()  # each once, in order; any of them may match
    phrases: tuple[str, ...] = ()  # quoted, in PROSE of several words; every one must occur
    excluded: tuple[str, ...] = ()  # words or phrases behind a minus; none may occur
    text: str = ""  # the query without exclusions and restrictions, for the embedder
    odd: tuple[str, ...] = ()  # `outcome:broken` is no restriction: it is read as words
    cut: bool = False  # whether there was more than counts
    alike: tuple[Alike, ...] = ()  # what may be said instead of its words; `parse` knows of none

    @property
    def is_word(self) -> bool:
        """Whether all of it is one word; a long run of a script without spaces is a sentence."""
        run = re.search(f"{UNSPACED}{{{LONG_RUN},}}", self.text)
        return len(self.words) + len(self.phrases) == 1 and " " not in self.text and not run


class Query(NamedTuple):
    """What a query string asks for, and what it is restricted to."""

    terms: Terms
    wanted: Filter


def parse(text: str, now: int | None = None) -> Query:
    """Read a query string; at most 2 KB and 64 words of it count.

    A restriction given twice (`tag:a tag:b`, `tag:a,b`) means either; one with a value that its
    field cannot have (`type:string`) is plain text, and so are ages (`since:2w`) without `now`.
    """
    reading = _Reading(text, now)
    for match in _TOKEN.finditer(clean(text).translate(_CURLY)):
        reading.add(match)
    return reading.query()


class _Reading:
    """A query half read."""

    def __init__(self, text: str, now: int | None) -> None:
        self.now = now
        self.is_prose = len(text.split()) > PROSE
        self.is_cut = len(text.encode("utf-8", "replace")) > MAX_BYTES
        self.left = MAX_TERMS
        self.words: dict[str, None] = {}
        self.phrases: dict[str, None] = {}
        self.excluded: dict[str, None] = {}
        self.odd: dict[str, None] = {}
        self.plain: list[str] = []
        self.wanted = Filter()

    def add(self, token: re.Match[str]) -> None:
        """Take a word or a phrase in quotes, with what stands in front of it."""
        if self._restrict(token):
            return
        text = token[0]
        minus, key, bare = token.group("minus", "key", "bare")
        if key or text in _EMPTY:
            self.odd[text] = None
        words = self._allowed(_words(text.lstrip("-") if minus else text))
        if words and minus:
            self.excluded[" ".join(words)] = None
        elif words:
            self.plain += words
            self._add(words, in_quotes=bare is None and not key)

    def _restrict(self, token: re.Match[str]) -> bool:
        """Take a restriction such as `tag:a`; False if it is none."""
        minus, key, quoted, bare = token.group("minus", "key", "quoted", "bare")
        if minus or not key:
            return False
        restriction = _restriction(key, quoted if bare is None else bare, self.now)
        self.wanted = _widen(self.wanted, restriction)
        return bool(restriction)

    def _allowed(self, words: list[str]) -> list[str]:
        """Return as many words as are left."""
        self.is_cut |= len(words) > self.left
        words = words[: self.left]
        self.left -= len(words)
        return words

    def _add(self, words: list[str], *, in_quotes: bool) -> None:
        if in_quotes and (len(words) > 1 or not self.is_prose):
            self.phrases[" ".join(words)] = None
        else:
            self.words.update(dict.fromkeys(words))

    def query(self) -> Query:
        """Return what was read."""
        terms = Terms(
            words=tuple(self.words),
            phrases=tuple(self.phrases),
            excluded=tuple(self.excluded),
            text=" ".join(self.plain),
            odd=tuple(self.odd),
            cut=self.is_cut,
        )
        return Query(terms, self.wanted)


def loosened(terms: Terms) -> Terms:
    """Return the same query with its phrases as plain words, for when nothing holds them."""
    words = (*terms.words, *(word for phrase in terms.phrases for word in phrase.split()))
    return terms._replace(words=tuple(dict.fromkeys(words)), phrases=())


def clean(text: str, limit: int = MAX_BYTES) -> str:
    """Return at most `limit` bytes of text, NFC, line breaks as spaces, no control characters."""
    short = text[:limit].encode("utf-8", "ignore")[:limit].decode("utf-8", "ignore")
    spaced = "".join(" " if char.isspace() else char for char in short)
    return unicodedata.normalize(
        "NFC", "".join(c for c in spaced if unicodedata.category(c) != "Cc")
    )


def parse_moment(text: str, now: int | None, *, end: bool = False) -> int | None:
    """Return the moment that a restriction names, in epoch milliseconds, or None.

    Its first one, or its last with `end`. It is a date in any form, a week, a month, a year, a
    time; given `now`, also an age (`12h`, `3d`, `2w`, `6m` of 30 days each, `1y`) or `now`,
    `today`, `yesterday` (UTC).
    """
    word = text.strip().casefold()
    if word in _DAYS:
        return _day(word, now, end=end)
    age = re.fullmatch(_AGE, word)
    if age:
        return None if now is None else now - int(age["count"]) * _UNITS[age["unit"]]
    if re.fullmatch("[0-9]{4}", word):
        text = f"{word}-12-31" if end else f"{word}-01-01"
    span = parse_span(text)
    if span is None:
        return None
    return span.last if end else span.first


def _day(word: str, now: int | None, *, end: bool) -> int | None:
    if now is None or word == "now":
        return now
    first = now - now % DAY - _DAYS[word]
    return first + DAY - 1 if end else first


def _words(text: str) -> list[str]:
    """Cut at white space, strip sentence marks, and drop what has no letter or digit."""
    words = (word.strip(_EDGE).rstrip(".:") for word in text.replace('"', " ").split())
    return [word for word in words if _LETTER.search(word)]


def _restriction(key: str, value: str, now: int | None) -> dict[str, object]:
    """Return the field of Filter that `key:value` sets; none if the value is invalid for it."""
    if key in ("since", "until"):
        moment = parse_moment(value, now, end=key == "until")
        return {} if moment is None else {key: moment}
    value = value.strip()
    if key == "path":
        return {"path": value} if value else {}
    if key == "is":
        return {"live": True} if fold(value) == "live" else {}
    values = _values(key, value)
    return {NAMED[key]: values} if values else {}


def _values(key: str, value: str) -> tuple[str, ...]:
    read, allowed = READ.get(key, Reading())
    whole = [value] if key in ("topic", "branch") else []  # it may have a comma in it
    parts = [] if key == "branch" else value.split(",")
    values = tuple(dict.fromkeys(filter(None, map(read, (*whole, *parts)))))
    return values if not allowed or set(values) <= set(allowed) else ()


def _widen(wanted: Filter, more: Mapping[str, object]) -> Filter:
    """Add a restriction: values of one field are alternatives, of single values the last counts."""
    changed: dict[str, Any] = dict(more)
    for field, value in more.items():
        if isinstance(value, tuple):
            changed[field] = tuple(dict.fromkeys((*getattr(wanted, field), *value)))
    return wanted._replace(**changed)


_LETTER = re.compile(r"[^\W_]")
_AGE = r"(?P<count>[0-9]{1,5})(?P<unit>[hdwmy])"
_UNITS = {"h": DAY // 24, "d": DAY, "w": 7 * DAY, "m": 30 * DAY, "y": 365 * DAY}
_DAYS = {"now": 0, "today": 0, "yesterday": DAY}  # milliseconds before the beginning of this day
_KEYS = (*(key for key in NAMED if key not in ("user", "run")), "path", "is", "since", "until")
_EMPTY = frozenset(f"{key}:" for key in _KEYS)
_TOKEN = re.compile(
    r'(?P<minus>-(?=[^\W\d]|"|[#.]\w))?'
    rf"(?:(?P<key>{'|'.join(_KEYS)}):)?"
    r'(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))'
)


# -- what is said instead of a word ------------------------------------------------------------
# In lists with a group on each line: `auth | sign in > oauth, saml`.

MOST_LINES = 500  # of a list; what is beyond is not read
MOST_TEXT = 65_536  # bytes of a list
MOST_NAMED = 16  # phrases of a line
MOST_ALIKE = 12  # phrases that stand for one
KIND = 0.5  # weight of a kind of the thing, and of the thing for a kind of it
_LOOKED_UP = 3  # words of a phrase of a query, at most
_PHRASE = re.compile(r"(?=.{0,59}\w)[^|>,\s]+( [^|>,\s]+){0,3}")

Key = Callable[[str], tuple[str, ...]]  # a phrase -> what its forms share
Synonyms = Mapping[tuple[str, ...], tuple[Substitute, ...]]


class Group(NamedTuple):
    """Phrases that mean the same, and kinds of it."""

    same: list[str]
    kinds: list[str]

    @property
    def is_sound(self) -> bool:
        """Whether it has phrases of a list, several, and not too many."""
        phrases = self.same + self.kinds
        return 1 < len(phrases) <= MOST_NAMED and all(map(_PHRASE.fullmatch, phrases))


class Groups(NamedTuple):
    """The groups of a list, and the numbers of malformed lines."""

    groups: list[Group]
    malformed: list[int]


def groups(text: str, begins: Sequence[str] = ()) -> Groups:
    """Read a list.

    `begins`: read only lines with a word that begins in one of these ways; a query needs few, and
    at once.
    """
    near = re.compile(rf"\b(?:{'|'.join(map(re.escape, begins))})")
    read = Groups([], [])
    for number, line in enumerate(text[:MOST_TEXT].casefold().splitlines()[:MOST_LINES], 1):
        is_comment = not line.strip() or line.lstrip().startswith("#")
        if is_comment or (begins and not near.search(line)):
            continue
        group = _group(line)
        if group.is_sound:
            read.groups.append(group)
        else:
            read.malformed.append(number)
    return read


def _group(line: str) -> Group:
    head, mark, tail = line.partition(">")
    same = [phrase.strip() for phrase in head.split("|")]
    return Group(same, [phrase.strip() for phrase in tail.split(",")] if mark else [])


def synonyms(text: str, key: Key, begins: Sequence[str] = ()) -> Synonyms:
    """Return what a list says may stand for its phrases, by `key`.

    What means the same comes first, then kinds.
    """
    table: dict[tuple[str, ...], dict[tuple[str, ...], Substitute]] = defaultdict(dict)
    for group in groups(text, begins).groups:
        keys = {phrase: key(phrase) for phrase in (*group.same, *group.kinds)}
        for phrase, substitute in _pairs(group):
            other = keys[substitute.phrase]
            if other == keys[phrase]:
                continue
            substitutes = table[keys[phrase]]
            if other not in substitutes or substitute.weight > substitutes[other].weight:
                substitutes[other] = substitute
    return {
        phrase: tuple(sorted(substitutes.values(), key=lambda row: -row.weight)[:MOST_ALIKE])
        for phrase, substitutes in table.items()
    }


def _pairs(group: Group) -> Iterator[tuple[str, Substitute]]:
    """Yield the phrases of a group with what may stand for them."""
    for phrase, other in product(group.same, group.same):
        yield phrase, Substitute(other, 1.0)
    for phrase, kind in product(group.same, group.kinds):
        yield phrase, Substitute(kind, KIND)
        yield kind, Substitute(phrase, KIND)


def alike(words: Sequence[str], lists: Sequence[Synonyms], key: Key) -> tuple[Alike, ...]:
    """Return what may be said instead of the words of a query.

    The longest phrases of it are looked up first.
    """
    typed = [word for word in words for _ in key(word)]
    parts = [part for word in words for part in key(word)]
    rows: list[Alike] = []
    at = 0
    while at < len(parts):
        for end in range(min(at + _LOOKED_UP, len(parts)), at, -1):
            instead = _instead(tuple(parts[at:end]), lists)
            if instead:
                rows.append(Alike(tuple(dict.fromkeys(typed[at:end])), instead))
                at = end
                break
        else:
            at += 1
    return tuple(rows)


def _instead(phrase: tuple[str, ...], lists: Sequence[Synonyms]) -> tuple[Substitute, ...]:
    """Return what the lists say for a phrase; of two weights of one substitute the last counts."""
    rows = chain(*(synonyms.get(phrase, ()) for synonyms in lists))
    return tuple({row.phrase: row for row in rows}.values())[:MOST_ALIKE]


# -- names of code, taken apart, so that any spelling of a name finds any other -----------------
# What is returned is added beside the text, never put in its place; index and query both add it.

_NAME = re.compile(r"\w+(?:[-./:]+\w+)*")
_BREAK = re.compile(r"[\W_]+")
_HASH = re.compile(r"[0-9a-f]{7,}")
_PIECE = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_AROUND = ".,:;!?()[]{}<>*`'\""  # what stands beside a name in prose
_IN_PATHS = frozenset("./:")
_MAX_PARTS = 12  # of one run without separators; longer ones are hashes or noise, not names
_MAX_RUN = 64  # characters; the same


def split_identifiers(text: str) -> str:
    """Return the words inside compound names of `text`, lower case, each once, separated by spaces.

    `getUserById`, `get_user_by_id` and `get-user-by-id` all give `get user by id getuserbyid`;
    `HTTPServer2` gives `http server 2 httpserver2`; paths and versions give their parts. Plain
    words give nothing.
    """
    parts: dict[str, None] = {}
    for run in dict.fromkeys(unicodedata.normalize("NFC", text).split()):
        word = run.strip(_AROUND)
        if not (word.isalpha() and word[1:].islower()):  # most words of prose leave here
            parts.update(dict.fromkeys(_parts_of_all(word)))
    return " ".join(parts)


@lru_cache(maxsize=4096)  # a project speaks of the same names again and again
def _parts_of_all(run: str) -> tuple[str, ...]:
    return tuple(part for name in _NAME.findall(run) for part in _parts(name))


def _parts(name: str) -> tuple[str, ...]:
    runs = [run for run in _BREAK.split(name) if run]
    words: list[str] = []
    for run in runs:
        pieces = _pieces(run)
        words += pieces
        if len(pieces) > 1 and len(runs) > 1:
            words.append(run)
    if len(words) < 2:
        return ()
    if len(name) <= _MAX_RUN and _IN_PATHS.isdisjoint(name):
        words.append("".join(runs))
    return tuple(word.lower() for word in words)


def _pieces(run: str) -> list[str]:
    """Cut a name into words; what is too long for a name stays whole."""
    if len(run) > _MAX_RUN or _HASH.fullmatch(run):
        return [run]
    pieces = _cut(run)
    return pieces if len(pieces) <= _MAX_PARTS else [run]


def _cut(run: str) -> list[str]:
    """Cut where case changes, at digits, and before the last capital of `HTTPServer`."""
    if run.isascii():
        return _PIECE.findall(run)
    shape = "".join("0" if char.isdigit() else "A" if char.isupper() else "a" for char in run)
    return [run[piece.start() : piece.end()] for piece in _PIECE.finditer(shape)]
