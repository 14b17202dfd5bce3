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
from filemem.record.adr_read import is_field_line, resolve_field
from filemem.record.adr_write import SECTION_KINDS

Ranges = tuple[tuple[int, int], ...]

_WORD = re.compile(r"\w+")
_HEADING = r"#{1,6}[ \t]+(.*?)[ \t#:]*$"
# Headings of every record of a kind: they say nothing of this one.
_USUAL_HEADINGS = frozenset(SECTION_KINDS) | {
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
_TABLE_RULE = re.compile(r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*")
_SHOWN_FIELDS = ("status", "date", "created")  # shown beside a record anyway
_STEM_LENGTH = 4  # letters that two forms of a word share at least
_MAX_ENDING = 3  # letters that each may have beyond what they share
_ELLIPSIS = "…"
_KEEPING_VERBS = frozenset(("keep", "stay", "leave"))  # `Keep Redis` is about Redis
COMMON_WORDS = frozenset(
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


def build_snippet(text: str, terms: Terms, width: int = 240) -> tuple[str, Ranges]:
    """The most telling fragment of a text, and where the query's words stand in it.

    It has at most `width` characters, and an ellipsis where it is cut.
    """
    flat_text = " ".join(text.split())
    spans = _build_query_words(terms).list_spans(flat_text)
    start = max(0, min(_find_best_window(spans, width), len(flat_text) - width))
    start, end = _move_to_gaps(flat_text, start, min(len(flat_text), start + width))
    lead = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(flat_text) else ""
    shift = len(lead) - start
    shown_spans = (span for span in spans if start <= span.start and span.end <= end)
    ranges = tuple((span.start + shift, span.end + shift) for span in shown_spans)
    return f"{lead}{flat_text[start:end]}{tail}", ranges


def _move_to_gaps(flat_text: str, start: int, end: int) -> tuple[int, int]:
    """Move both cuts inwards to the next gap, unless that costs more than a long word."""
    if start > 0 and not flat_text[start - 1].isspace():
        start = flat_text.find(" ", start, start + 40) + 1 or start
    if end < len(flat_text) and not flat_text[end].isspace():
        gap = flat_text.rfind(" ", max(start, end - 40), end)
        end = gap if gap > start else end
    return start, end


def strip_title(title: str, text: str) -> str:
    """Return what a text says beyond a title that is its first line, or the beginning of it, cut.

    Else all of it.
    """
    start = title.removesuffix(_ELLIPSIS)
    remainder = text[len(start) :]
    if not text.startswith(start) or (start == title and remainder[:1] not in ("", "\n")):
        return text
    if start == title:
        return remainder.lstrip()
    is_at_gap = start[-1:].isspace() or remainder[:1].isspace()
    word = "" if is_at_gap else start.rpartition(" ")[2]
    return f"{_ELLIPSIS}{word}{remainder.lstrip()}"


def extract_prose(text: str) -> str:
    """What of a text is worth quoting: no comments, status, date or usual headings.

    All of it, if it has nothing else.
    """
    readable = _strip_comments(text)
    kept_lines: list[str] = []
    in_field = False
    for line in readable.split("\n"):
        heading = re.match(_HEADING, line)
        if heading:
            name = re.sub(_NUMBER, "", heading[1].casefold())
            in_field = resolve_field(name.partition(":")[0]) in _SHOWN_FIELDS
            if not in_field and name not in _USUAL_HEADINGS:
                kept_lines.append(heading[1])
        elif not in_field and not _is_stated_line(line):
            kept_lines.append(line)
    return "\n".join(kept_lines).strip() or readable.strip() or text


def _strip_comments(text: str) -> str:
    # Split: a regular expression would look for each end again and again.
    first, *parts = text.split("<!--")
    return first + "".join(part.partition("-->" if "-->" in part else "\n")[2] for part in parts)


def _is_stated_line(line: str) -> bool:
    """Whether a line of a text is a field: an item, or a row of a table."""
    cells = [cell.strip() for cell in line.strip(" \t|").split("|")]
    is_row = line.lstrip().startswith("|") and resolve_field(cells[0]) in _SHOWN_FIELDS
    return is_row or is_field_line(line) or bool(_TABLE_RULE.fullmatch(line))


def list_named_rejections(
    terms: Terms, rejected: Iterable[str], chosen: str = ""
) -> tuple[str, ...]:
    """Return the rejected alternatives that a query names.

    It has half of their telling words, one of them not in `chosen`.
    """
    query_words = _build_query_words(terms)
    named_items = []
    for item in rejected:
        alternative = item.partition(":")[0]
        matched_words = query_words.find_words(alternative)
        if not matched_words:
            continue
        words = {_normalize_word(word) for word in _WORD.findall(alternative)} - COMMON_WORDS
        if (
            2 * len(matched_words) >= len(words)
            and matched_words - query_words.find_words(chosen) - _KEEPING_VERBS
        ):
            named_items.append(item)
    return tuple(named_items)


class _QueryWords(NamedTuple):
    """The words to point at: by their first letters, and parts of scripts without spaces."""

    by_stem: Mapping[str, tuple[str, ...]]
    stem_pattern: re.Pattern[str]  # a word that may begin with the letters of one of them
    unspaced: tuple[str, ...]

    def find_words(self, text: str) -> set[str]:
        """Return the wanted words that a text has."""
        return {span.name for span in self.list_spans(text)}

    def list_spans(self, text: str) -> list[_Span]:
        """Return where wanted words stand, in order, not overlapping."""
        spans: list[_Span] = []
        end = 0
        # Of those that begin together the longest counts.
        for span in sorted(
            self._iter_spans(text), key=lambda span: (span.start, -span.end, span.name)
        ):
            if span.start >= end:
                spans.append(span)
                end = span.end
        return spans

    def _iter_spans(self, text: str) -> Iterator[_Span]:
        for part in self.unspaced:
            for match in re.finditer(re.escape(part), text):
                yield _Span(match.start(), match.end(), part)
        lower = text.replace("İ", "I").lower()  # it alone would become two letters
        for match in self.stem_pattern.finditer(lower):
            word = _normalize_word(match.group())
            for name in self.by_stem.get(word[:_STEM_LENGTH], ()):
                if _is_same_stem(name, word):
                    yield _Span(match.start(), match.end(), name)


@lru_cache(maxsize=2)  # one query is asked of every text that is shown
def _build_query_words(terms: Terms) -> _QueryWords:
    parts = [part for word in (*terms.words, *terms.phrases) for part in _WORD.findall(word)]
    telling_parts = [part for part in parts if _normalize_word(part) not in COMMON_WORDS] or parts
    by_stem: dict[str, list[str]] = defaultdict(list)
    for part in filter(_normalize_word, telling_parts):
        by_stem[_normalize_word(part)[:_STEM_LENGTH]].append(_normalize_word(part))
    unspaced = (part for part in parts if not part.isascii() and re.search(UNSPACED, part))
    prefix_pattern = "|".join(map(_build_stem_pattern, by_stem))
    stem_pattern = re.compile(rf"(?<!\w)_*(?:{prefix_pattern})\w*" if prefix_pattern else "(?!)")
    return _QueryWords(
        {stem: tuple(dict.fromkeys(names)) for stem, names in by_stem.items()},
        stem_pattern,
        tuple(unspaced),
    )


def _build_stem_pattern(stem: str) -> str:
    """Return a pattern for words whose plain form begins with a stem.

    A letter beyond ASCII may stand for several: what follows it is not compared here.
    """
    suffix_pattern = ""
    for letter in reversed(stem[1:]):
        suffix_pattern = rf"_*(?:{re.escape(letter)}{suffix_pattern}|[^\W\x00-\x7f])"
    return re.escape(stem[0]) + suffix_pattern


def _normalize_word(word: str) -> str:
    """Return what all spellings of one name share: `get_user` and `getUser` are `getuser`."""
    return word.replace("_", "").casefold()


def _is_same_stem(word: str, other: str) -> bool:
    """Return whether two words with the same first letters are forms of one word."""
    if word == other:
        return True
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) < _STEM_LENGTH or len(longer) - len(shorter) > _MAX_ENDING:
        return False
    shared_length = next(
        (at for at, char in enumerate(shorter) if char != longer[at]), len(shorter)
    )
    return (
        shared_length >= max(_STEM_LENGTH, len(shorter) - 1)
        and len(longer) - shared_length <= _MAX_ENDING
    )


def _find_best_window(spans: Sequence[_Span], width: int) -> int:
    """Return where the window with the most different words begins; of equal ones the first."""
    word_counts: Counter[str] = Counter()
    best_count = 0
    best_start = 0
    first_index = 0
    for index, span in enumerate(spans):
        word_counts[span.name] += 1
        while spans[first_index].start < span.end - width and first_index < index:
            name = spans[first_index].name
            word_counts[name] -= 1
            if not word_counts[name]:
                del word_counts[name]
            first_index += 1
        if len(word_counts) > best_count:
            best_count = len(word_counts)
            best_start = (spans[first_index].start + span.end - width) // 2
    return max(0, best_start)
