"""Parts of texts that are shown: the fragment of a hit that says why it was found, and what is worth quoting.

Rule: every function reads its text once. Likeness of words is a rough stem (`cached` shows for `caching`), good
enough to point at, never used to decide what is found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from filemem.query.terms import UNSPACED, Terms
from filemem.record.adr_read import field_named, states_field
from filemem.record.adr_write import SECTIONS

Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+")
_HEADING = r"#{1,6}[ \t]+(.*?)[ \t#:]*$"
_USUAL = frozenset(
    SECTIONS
) | {  # headings of every record of a kind: they tell nothing of this one
    "context and problem statement",
    "problem statement",
    "summary",
    "simple summary",
    "abstract",
    "motivation",
    "table of contents",
}
_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_RULE = re.compile(
    r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*"
)  # between a table's head and its rows
_STATED = ("status", "date", "created")  # shown beside a record anyway
_STEM = 4  # letters that two forms of a word share at least
_ENDING = 3  # letters that each may have beyond what they share
_ELLIPSIS = "…"
_STAYING = frozenset(("keep", "stay", "leave"))  # `Keep Redis` is about Redis
COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be but by can do does for from had has have how if in into is it its not of on or our "
        "should so such that the their then there these they this to use was we were what when where which who why "
        "will with you"
    )
)


def snippet(text: str, terms: Terms, width: int = 240) -> tuple[str, Ranges]:
    """The most telling fragment of a text, at most `width` characters, and where the query's words stand in it."""
    flat = " ".join(text.split())
    found = _wanted(terms).spans(flat)
    start = max(0, min(_best_window(found, width), len(flat) - width))
    end = min(len(flat), start + width)
    # Both cuts move inwards to the next gap, unless that costs more than a long word.
    if start > 0 and not flat[start - 1].isspace():
        start = flat.find(" ", start, start + 40) + 1 or start
    if end < len(flat) and not flat[end].isspace():
        gap = flat.rfind(" ", max(start, end - 40), end)
        end = gap if gap > start else end
    lead = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(flat) else ""
    shift = len(lead) - start
    ranges = tuple((a + shift, b + shift) for a, b, _ in found if a >= start and b <= end)
    return f"{lead}{flat[start:end]}{tail}", ranges


def beyond(title: str, text: str) -> str:
    """Return what a text says beyond a title that is its first line, or the beginning of it, cut; else all of it."""
    start = title.removesuffix(_ELLIPSIS)
    rest = text[len(start) :]
    if not text.startswith(start) or (start == title and rest[:1] not in ("", "\n")):
        return text
    word = (
        ""
        if start == title or start[-1:].isspace() or rest[:1].isspace()
        else start.rpartition(" ")[2]
    )
    return f"{_ELLIPSIS}{word}{rest.lstrip()}" if start != title else rest.lstrip()


def prose(text: str) -> str:
    """What of a text is worth quoting: no comments, status, date or usual headings, unless that is all."""
    readable = _without_comments(text)
    kept: list[str] = []
    in_field = False
    for line in readable.split("\n"):
        if heading := re.match(_HEADING, line):
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
    """Return the rejected alternatives of which a query has half of the telling words, one of them not in `chosen`."""
    wanted = _wanted(terms)
    found = []
    for item in rejected:
        alternative = item.partition(":")[0]
        met = wanted.names(alternative)
        if not met:
            continue
        words = {_plain(word) for word in _WORD.findall(alternative)} - COMMON
        if 2 * len(met) >= len(words) and met - wanted.names(chosen) - _STAYING:
            found.append(item)
    return tuple(found)


class _Wanted(NamedTuple):
    """The words to point at: by their first letters, and parts of scripts without spaces."""

    by_stem: Mapping[str, tuple[str, ...]]
    alike: re.Pattern[str]  # a word that may begin with the letters of one of them
    unspaced: tuple[str, ...]

    def names(self, text: str) -> set[str]:
        """Return the wanted words that a text has."""
        return {name for _, _, name in self.spans(text)}

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and the wanted word, in order, not overlapping."""
        lower = text.replace("İ", "I").lower()  # it alone would become two letters
        found = [
            (at.start(), -at.end(), one)
            for one in self.unspaced
            for at in re.finditer(re.escape(one), text)
        ]
        for at in self.alike.finditer(lower):
            word = _plain(at.group())
            names = self.by_stem.get(word[:_STEM], ())
            found += [(at.start(), -at.end(), name) for name in names if _alike(name, word)]
        spans: list[tuple[int, int, str]] = []
        for start, minus_end, name in sorted(
            found
        ):  # of those that begin together the longest first
            if not spans or start >= spans[-1][1]:
                spans.append((start, -minus_end, name))
        return spans


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


def _best_window(found: list[tuple[int, int, str]], width: int) -> int:
    """Return where the window with the most different words begins; of equal ones the first."""
    inside: dict[str, int] = defaultdict(int)
    best, best_at, first = 0, 0, 0
    for at, (_, end, name) in enumerate(found):
        inside[name] += 1
        while found[first][0] < end - width and first < at:
            left = found[first][2]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        if len(inside) > best:
            best, best_at = len(inside), (found[first][0] + end - width) // 2
    return max(0, best_at)
