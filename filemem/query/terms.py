"""What a person or agent typed, taken apart: words, phrases, exclusions, restrictions.

Rule: one pass over capped text, no recursion, no rejection. Whatever is not understood is plain text, because
the user meant something by it.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from filemem.query.filter import NAMED, READ, Filter, fold
from filemem.record import parse_span

MAX_BYTES = 2048
MAX_TERMS = 64
PROSE = 12  # words; a longer query is a sentence, and a single word in quotes is set off in it, not asked for
DAY = 86_400_000  # milliseconds
UNSPACED = (
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without spaces
)
LONG_RUN = 5  # characters of such a script that are more than one word

_CURLY = str.maketrans("“”„‟«»", '""' * 3)
_EDGE = ",;!?"  # never part of a word at its ends; brackets, dots and plus signs can be (`.env`, `C++`, `f()`)


class Alike(NamedTuple):
    """Some words of a query, as typed, and what developers say instead: phrases, each with its weight, best first."""

    words: tuple[str, ...]
    instead: tuple[tuple[str, float], ...]


class Terms(NamedTuple):
    """The words of a query, as typed (not stemmed, not split)."""

    words: tuple[str, ...] = ()  # each once, in order; any of them may match
    phrases: tuple[
        str, ...
    ] = ()  # quoted, a single word too unless it stands in PROSE; every one must occur
    excluded: tuple[str, ...] = ()  # words or phrases behind a minus; none may occur
    text: str = ""  # the query without exclusions and restrictions, for the embedder
    odd: tuple[
        str, ...
    ] = ()  # restrictions that cannot be made, as `outcome:broken`: they are read as words
    cut: bool = False  # whether there was more than counts
    alike: tuple[Alike, ...] = ()  # what may be said instead of its words; `parse` knows of none

    @property
    def is_word(self) -> bool:
        """Whether all that is asked for is one word; a long run of a script without spaces is a sentence."""
        run = re.search(f"{UNSPACED}{{{LONG_RUN},}}", self.text)
        return len(self.words) + len(self.phrases) == 1 and " " not in self.text and not run


def parse(text: str, now: int | None = None) -> tuple[Terms, Filter]:
    """Return the terms and the restrictions of a query string; at most 2 KB and 64 words of it count.

    A restriction given twice (`tag:a tag:b`, `tag:a,b`) means either; one with a value that its field cannot have
    (`type:string`) is plain text, and so are ages (`since:2w`) without `now`.
    """
    found: dict[str, dict[str, None]] = {"words": {}, "phrases": {}, "excluded": {}, "odd": {}}
    said: list[str] = []
    wanted = Filter()
    prose = len(text.split()) > PROSE
    left, cut = MAX_TERMS, len(text.encode("utf-8", "replace")) > MAX_BYTES
    for token in _TOKEN.finditer(clean(text).translate(_CURLY)):
        minus, key, quoted, bare = token.group("minus", "key", "quoted", "bare")
        if (
            restriction := {}
            if minus or not key
            else _restriction(key, quoted if bare is None else bare, now)
        ):
            wanted = _widen(wanted, restriction)
            continue
        if key or token.group() in _EMPTY:
            found["odd"][token.group()] = None
        parts = _words(token.group().lstrip("-") if minus else token.group())
        cut |= len(parts) > left
        parts = parts[:left]
        left -= len(parts)
        if not parts:
            continue
        whole = " ".join(parts)
        if minus:
            found["excluded"][whole] = None
            continue
        said.append(whole)
        phrase = bare is None and not key and (len(parts) > 1 or not prose)
        found["phrases" if phrase else "words"].update(dict.fromkeys([whole] if phrase else parts))
    words, phrases, excluded, odd = map(tuple, found.values())
    return Terms(words, phrases, excluded, " ".join(said), odd, cut), wanted


def loosened(terms: Terms) -> Terms:
    """Return the same query with its phrases as plain words, for when nothing holds them."""
    words = (*terms.words, *(word for phrase in terms.phrases for word in phrase.split()))
    return terms._replace(words=tuple(dict.fromkeys(words)), phrases=())


def clean(text: str, limit: int = MAX_BYTES) -> str:
    """Return at most `limit` bytes of `text`, NFC, line breaks as spaces, other control characters dropped."""
    short = text[:limit].encode("utf-8", "ignore")[:limit].decode("utf-8", "ignore")
    spaced = "".join(" " if char.isspace() else char for char in short)
    return unicodedata.normalize(
        "NFC", "".join(c for c in spaced if unicodedata.category(c) != "Cc")
    )


def parse_moment(text: str, now: int | None, *, end: bool = False) -> int | None:
    """Return the moment that a restriction names, its first or, with `end`, its last, in epoch milliseconds, or None.

    It is a date in any form, a week, a month, a year, a time; given `now`, also an age (`12h`, `3d`, `2w`, `6m` of 30
    days each, `1y`) or `now`, `today`, `yesterday` (UTC).
    """
    word = text.strip().casefold()
    if age := re.fullmatch(_AGE, word):
        return None if now is None else now - int(age["count"]) * _UNITS[age["unit"]]
    if word in _DAYS:
        if now is None or word == "now":
            return now
        first = now - now % DAY - _DAYS[word]
        return first + DAY - 1 if end else first
    if re.fullmatch("[0-9]{4}", word):
        text = f"{word}-12-31" if end else f"{word}-01-01"
    span = parse_span(text)
    return (span[1] if end else span[0]) if span else None


def _words(text: str) -> list[str]:
    """Cut at white space, strip sentence marks, and drop what no letter or digit stands in."""
    words = (word.strip(_EDGE).rstrip(".:") for word in text.replace('"', " ").split())
    return [word for word in words if any(char.isalnum() for char in word)]


def _restriction(key: str, value: str, now: int | None) -> dict[str, object]:
    """Return the field of Filter that `key:value` sets, or nothing where the value makes no sense for the key."""
    if key in ("since", "until"):
        moment = parse_moment(value, now, end=key == "until")
        return {} if moment is None else {key: moment}
    value = value.strip()
    if key == "path":
        return {"path": value} if value else {}
    if key == "is":
        return {"live": True} if fold(value) == "live" else {}
    read, allowed = READ.get(key, (fold, ()))
    whole = {"topic": [value], "branch": [value]}.get(key, [])  # which may have a comma in it
    parts = value.split(",") if key != "branch" else []
    values = tuple(dict.fromkeys(filter(None, map(read, (*whole, *parts)))))
    return {NAMED[key]: values} if values and (not allowed or set(values) <= set(allowed)) else {}


def _widen(wanted: Filter, more: Mapping[str, object]) -> Filter:
    """Add one restriction: values of one field are alternatives, of single values the last counts."""
    changed = dict(more)
    for field, value in more.items():
        if isinstance(value, tuple):
            changed[field] = tuple(dict.fromkeys((*getattr(wanted, field), *value)))
    return wanted._replace(**changed)  # type: ignore[arg-type]  # `_restriction` gives each field its type


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


# -- what is said instead of a word: lists with a group on each line, `auth | sign in > oauth, saml`

MOST_LINES, MOST_TEXT = 500, 65_536  # of a list: lines, bytes; what is beyond them is not read
MOST_NAMED, MOST_ALIKE = 16, 12  # phrases of a line, and those that stand for one
KIND = 0.5  # weight of a kind of the thing, and of the thing for a kind of it
_LOOKED_UP = 3  # words of a phrase of a query, at most
_PHRASE = re.compile(r"(?=.{0,59}\w)[^|>,\s]+( [^|>,\s]+){0,3}")

Key = Callable[[str], tuple[str, ...]]  # a phrase -> what its forms share
Synonyms = Mapping[tuple[str, ...], tuple[tuple[str, float], ...]]


def groups(
    text: str, begins: Sequence[str] = ()
) -> tuple[list[tuple[list[str], list[str]]], list[int]]:
    """Read a list: what means the same and what is a kind of it, for each group; and the numbers of malformed lines.

    `begins`: read only lines with a word that begins in one of these ways; a query needs few, and at once.
    """
    near = re.compile(rf"\b(?:{'|'.join(map(re.escape, begins))})")
    found, wrong = list[tuple[list[str], list[str]]](), list[int]()
    for number, line in enumerate(text[:MOST_TEXT].casefold().splitlines()[:MOST_LINES], 1):
        if not line.strip() or line.lstrip().startswith("#") or (begins and not near.search(line)):
            continue
        head, mark, tail = line.partition(">")
        same, kinds = (
            [one.strip() for one in part.split(by)] for part, by in ((head, "|"), (tail, ","))
        )
        kinds = kinds if mark else []
        if 1 < len(same + kinds) <= MOST_NAMED and all(map(_PHRASE.fullmatch, same + kinds)):
            found.append((same, kinds))
        else:
            wrong.append(number)
    return found, wrong


def synonyms(text: str, key: Key, begins: Sequence[str] = ()) -> Synonyms:
    """Return what a list says may stand for its phrases, by `key`: what means the same first, then kinds."""
    table: dict[tuple[str, ...], dict[tuple[str, ...], tuple[str, float]]] = defaultdict(dict)
    for same, kinds in groups(text, begins)[0]:
        keys = {one: key(one) for one in (*same, *kinds)}
        pairs = [(one, other, 1.0) for one in same for other in same]
        pairs += [
            pair
            for one in same
            for kind in kinds
            for pair in ((one, kind, KIND), (kind, one, KIND))
        ]
        for one, other, weight in pairs:
            if (
                keys[one] != keys[other]
                and weight > table[keys[one]].get(keys[other], ("", 0.0))[1]
            ):
                table[keys[one]][keys[other]] = other, weight
    return {
        known: tuple(sorted(of.values(), key=lambda one: -one[1])[:MOST_ALIKE])
        for known, of in table.items()
    }


def alike(words: Sequence[str], lists: Sequence[Synonyms], key: Key) -> tuple[Alike, ...]:
    """Return what may be said instead of the words of a query, the longest phrases of it looked up first."""
    read = [(part, word) for word in words for part in key(word)]
    found, at = list[Alike](), 0
    while at < len(read):
        for size in range(min(_LOOKED_UP, len(read) - at), 0, -1):
            phrase = tuple(part for part, _ in read[at : at + size])
            if instead := {other: weight for one in lists for other, weight in one.get(phrase, ())}:
                typed = dict.fromkeys(word for _, word in read[at : at + size])
                found.append(Alike(tuple(typed), tuple(instead.items())[:MOST_ALIKE]))
                at += size
                break
        else:
            at += 1
    return tuple(found)


# -- names of code, taken apart, so that any spelling of a name finds any other -------------------
# What is returned is added beside the text, never put in its place; both the index and a query add it.

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

    `getUserById`, `get_user_by_id` and `get-user-by-id` all give `get user by id getuserbyid`; `HTTPServer2` gives
    `http server 2 httpserver2`; paths and versions give their parts. Plain words give nothing.
    """
    found: dict[str, None] = {}
    for run in dict.fromkeys(unicodedata.normalize("NFC", text).split()):
        word = run.strip(_AROUND)
        if not (word.isalpha() and word[1:].islower()):  # most words of prose leave here
            found.update(dict.fromkeys(_parts_of_all(word)))
    return " ".join(found)


@lru_cache(maxsize=4096)  # a project speaks of the same names again and again
def _parts_of_all(run: str) -> tuple[str, ...]:
    return tuple(part for name in _NAME.findall(run) for part in _parts(name))


def _parts(name: str) -> tuple[str, ...]:
    runs = [run for run in _BREAK.split(name) if run]
    words: list[str] = []
    for run in runs:
        pieces = [run] if len(run) > _MAX_RUN or _HASH.fullmatch(run) else _pieces(run)
        words += pieces if len(pieces) <= _MAX_PARTS else [run]
        if 1 < len(pieces) <= _MAX_PARTS and len(runs) > 1:
            words.append(run)
    if len(words) < 2:
        return ()
    if len(name) <= _MAX_RUN and _IN_PATHS.isdisjoint(name):
        words.append("".join(runs))
    return tuple(word.lower() for word in words)


def _pieces(run: str) -> list[str]:
    """Cut where lower case meets upper case, letters meet digits, and before the last capital of `HTTPServer`."""
    if run.isascii():
        return _PIECE.findall(run)
    shape = "".join("0" if char.isdigit() else "A" if char.isupper() else "a" for char in run)
    return [run[piece.start() : piece.end()] for piece in _PIECE.finditer(shape)]
