"""Parts of texts that are shown: the fragment that says why a hit was found, what is worth quoting.

Rule: every function reads its text once. Likeness of words is a rough stem (`cached` shows for
`caching`), good enough to point at, never used to decide what is found.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from filemem.query.terms import UNSPACED, Terms
from filemem.record.adr_read import field_named, states_field
from filemem.record.adr_write import SECTIONS

Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+")
_HEADING = r"#{1,6}[ \t]+(.*?)[ \t#:]*$"
# Headings of every record of a kind: they say nothing of this one.
_USUAL = frozenset(SECTIONS) | {
    "context and problem statement",
    "problem statement",
    "summary",
    "simple summary",
    "abstract",
    "motivation",
    "table of contents",
}
_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
# Between a table's head and its rows.
_RULE = re.compile(r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*")
_STATED = ("status", "date", "created")  # shown beside a record anyway
_STEM = 4  # letters that two forms of a word share at least
_ENDING = 3  # letters that each may have beyond what they share
_ELLIPSIS = "…"
_STAYING = frozenset(("keep", "stay", "leave"))  # `Keep Redis` is about Redis
COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be but by can do does for from had has have how if in into is it its "
        "not of on or our should so such that the their then there these they this to use was we "
        "were what when where which who why will with you"
    )
)


class _Span(NamedTuple):
    """Where a wanted word stands in a text, and the word as it is wanted."""

    start: int
    end: int
    name: str


def snippet(text: str, terms: Terms, width: int = 240) -> tuple[str, Ranges]:
    """The most telling fragment of a text, and where the query's words stand in it.

    It has at most `width` characters, and an ellipsis where it is cut.
    """
    flat = " ".join(text.split())
    spans = _wanted(terms).spans(flat)
    start = max(0, min(_best_window(spans, width), len(flat) - width))
    start, end = _at_gaps(flat, start, min(len(flat), start + width))
    lead = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(flat) else ""
    shift = len(lead) - start
    inside = (span for span in spans if start <= span.start and span.end <= end)
    ranges = tuple((span.start + shift, span.end + shift) for span in inside)
    return f"{lead}{flat[start:end]}{tail}", ranges


def _at_gaps(flat: str, start: int, end: int) -> tuple[int, int]:
    """Move both cuts inwards to the next gap, unless that costs more than a long word."""
    if start > 0 and not flat[start - 1].isspace():
        start = flat.find(" ", start, start + 40) + 1 or start
    if end < len(flat) and not flat[end].isspace():
        gap = flat.rfind(" ", max(start, end - 40), end)
        end = gap if gap > start else end
    return start, end


def beyond(title: str, text: str) -> str:
    """Return what a text says beyond a title that is its first line, or the beginning of it, cut.

    Else all of it.
    """
    start = title.removesuffix(_ELLIPSIS)
    rest = text[len(start) :]
    if not text.startswith(start) or (start == title and rest[:1] not in ("", "\n")):
        return text
    if start == title:
        return rest.lstrip()
    is_at_gap = start[-1:].isspace() or rest[:1].isspace()
    word = "" if is_at_gap else start.rpartition(" ")[2]
    return f"{_ELLIPSIS}{word}{rest.lstrip()}"


def prose(text: str) -> str:
    """What of a text is worth quoting: no comments, status, date or usual headings.

    All of it, if it has nothing else.
    """
    readable = _without_comments(text)
    kept: list[str] = []
    in_field = False
    for line in readable.split("\n"):
        heading = re.match(_HEADING, line)
        if heading:
            name = re.sub(_NUMBER, "", heading[1].casefold())
            in_field = field_named(name.partition(":")[0]) in _STATED
            if not in_field and name not in _USUAL:
                kept.append(heading[1])
        elif not in_field and not _states(line):
            kept.append(line)
    return "\n".join(kept).strip() or readable.strip() or text


def _without_comments(text: str) -> str:
    # Split: a regular expression would look for each end again and again.
    first, *parts = text.split("<!--")
    return first + "".join(part.partition("-->" if "-->" in part else "\n")[2] for part in parts)


def _states(line: str) -> bool:
    """Whether a line of a text is a field: an item, or a row of a table."""
    cells = [cell.strip() for cell in line.strip(" \t|").split("|")]
    row = line.lstrip().startswith("|") and field_named(cells[0]) in _STATED
    return row or states_field(line) or bool(_RULE.fullmatch(line))


def rejected_before(terms: Terms, rejected: Iterable[str], chosen: str = "") -> tuple[str, ...]:
    """Return the rejected alternatives that a query names.

    It has half of their telling words, one of them not in `chosen`.
    """
    wanted = _wanted(terms)
    named = []
    for item in rejected:
        alternative = item.partition(":")[0]
        met = wanted.names(alternative)
        if not met:
            continue
        words = {_plain(word) for word in _WORD.findall(alternative)} - COMMON
        if 2 * len(met) >= len(words) and met - wanted.names(chosen) - _STAYING:
            named.append(item)
    return tuple(named)


class _Wanted(NamedTuple):
    """The words to point at: by their first letters, and parts of scripts without spaces."""

    by_stem: Mapping[str, tuple[str, ...]]
    alike: re.Pattern[str]  # a word that may begin with the letters of one of them
    unspaced: tuple[str, ...]

    def names(self, text: str) -> set[str]:
        """Return the wanted words that a text has."""
        return {span.name for span in self.spans(text)}

    def spans(self, text: str) -> list[_Span]:
        """Return where wanted words stand, in order, not overlapping."""
        spans: list[_Span] = []
        end = 0
        # Of those that begin together the longest counts.
        for span in sorted(
            self._all_spans(text), key=lambda span: (span.start, -span.end, span.name)
        ):
            if span.start >= end:
                spans.append(span)
                end = span.end
        return spans

    def _all_spans(self, text: str) -> Iterator[_Span]:
        for part in self.unspaced:
            for match in re.finditer(re.escape(part), text):
                yield _Span(match.start(), match.end(), part)
        lower = text.replace("İ", "I").lower()  # it alone would become two letters
        for match in self.alike.finditer(lower):
            word = _plain(match.group())
            for name in self.by_stem.get(word[:_STEM], ()):
                if _alike(name, word):
                    yield _Span(match.start(), match.end(), name)


@lru_cache(maxsize=2)  # one query is asked of every text that is shown
def _wanted(terms: Terms) -> _Wanted:
    parts = [part for word in (*terms.words, *terms.phrases) for part in _WORD.findall(word)]
    telling = [part for part in parts if _plain(part) not in COMMON] or parts
    by_stem: dict[str, list[str]] = defaultdict(list)
    for part in filter(_plain, telling):
        by_stem[_plain(part)[:_STEM]].append(_plain(part))
    unspaced = (part for part in parts if not part.isascii() and re.search(UNSPACED, part))
    begins = "|".join(map(_beginning, by_stem))
    alike = re.compile(rf"(?<!\w)_*(?:{begins})\w*" if begins else "(?!)")
    return _Wanted(
        {stem: tuple(dict.fromkeys(names)) for stem, names in by_stem.items()},
        alike,
        tuple(unspaced),
    )


def _beginning(stem: str) -> str:
    """Return a pattern for words whose plain form begins with a stem.

    A letter beyond ASCII may stand for several: what follows it is not compared here.
    """
    rest = ""
    for letter in reversed(stem[1:]):
        rest = rf"_*(?:{re.escape(letter)}{rest}|[^\W\x00-\x7f])"
    return re.escape(stem[0]) + rest


def _plain(word: str) -> str:
    """Return what all spellings of one name share: `get_user` and `getUser` are `getuser`."""
    return word.replace("_", "").casefold()


def _alike(a: str, b: str) -> bool:
    """Return whether two words with the same first letters are forms of one word."""
    if a == b:
        return True
    shorter, longer = sorted((a, b), key=len)
    if len(shorter) < _STEM or len(longer) - len(shorter) > _ENDING:
        return False
    shared = next((at for at, char in enumerate(shorter) if char != longer[at]), len(shorter))
    return shared >= max(_STEM, len(shorter) - 1) and len(longer) - shared <= _ENDING


def _best_window(spans: Sequence[_Span], width: int) -> int:
    """Return where the window with the most different words begins; of equal ones the first."""
    inside: Counter[str] = Counter()
    best = 0
    best_start = 0
    first = 0
    for at, span in enumerate(spans):
        inside[span.name] += 1
        while spans[first].start < span.end - width and first < at:
            name = spans[first].name
            inside[name] -= 1
            if not inside[name]:
                del inside[name]
            first += 1
        if len(inside) > best:
            best = len(inside)
            best_start = (spans[first].start + span.end - width) // 2
    return max(0, best_start)
