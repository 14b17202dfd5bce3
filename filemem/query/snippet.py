"""Fragments of texts to show: why a hit was found, and what is worth quoting.

Every function reads its text once. Words are compared by a rough stem (`cached` matches `caching`),
good enough for highlights, never used to decide what is found.
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
# Headings that every record of a kind has.
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
_MAX_ENDING = 3  # letters that each may have beyond the shared ones
_MAX_MOVE = 40  # characters by which a cut moves to a gap
_NO_MATCH = "(?!)"  # a pattern that nothing matches
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
    """The place of a wanted word in a text, and the word as the query has it."""

    start: int
    end: int
    name: str


def build_snippet(text: str, terms: Terms, width: int = 240) -> tuple[str, Ranges]:
    """Return the most telling fragment of a text, and the ranges in it of the query's words.

    It has at most `width` characters, and an ellipsis at each cut.
    """
    flat_text = " ".join(text.split())
    length = len(flat_text)
    spans = _build_query_words(terms).list_spans(flat_text)
    last_start = max(0, length - width)
    start = min(_find_best_window(spans, width), last_start)
    end = min(length, start + width)
    start, end = _move_to_gaps(flat_text, start, end)
    shown_spans = [span for span in spans if start <= span.start and span.end <= end]
    fragment = flat_text[start:end]
    shift = -start
    if start > 0:
        fragment = _ELLIPSIS + fragment
        shift += len(_ELLIPSIS)
    if end < length:
        fragment += _ELLIPSIS
    ranges = [(span.start + shift, span.end + shift) for span in shown_spans]
    return fragment, tuple(ranges)


def _move_to_gaps(flat_text: str, start: int, end: int) -> tuple[int, int]:
    """Move both cuts inwards to the next gap, unless that costs more than a long word."""
    if start > 0 and not flat_text[start - 1].isspace():
        gap = flat_text.find(" ", start, start + _MAX_MOVE)
        if gap >= 0:
            start = gap + 1
    if end < len(flat_text) and not flat_text[end].isspace():
        gap = flat_text.rfind(" ", max(start, end - _MAX_MOVE), end)
        if gap > start:
            end = gap
    return start, end


def strip_title(title: str, text: str) -> str:
    """Return what a text says beyond its title.

    The title is its first line, or the beginning of that and an ellipsis; any other text is
    returned as it is.
    """
    start = title.removesuffix(_ELLIPSIS)
    if not text.startswith(start):
        return text
    remainder = text[len(start) :]
    is_whole_title = start == title
    if is_whole_title:
        is_first_line = not remainder or remainder.startswith("\n")
        return remainder.lstrip() if is_first_line else text
    is_cut_at_gap = start[-1:].isspace() or remainder[:1].isspace()
    word = "" if is_cut_at_gap else start.rpartition(" ")[2]
    return f"{_ELLIPSIS}{word}{remainder.lstrip()}"


def extract_prose(text: str) -> str:
    """Return what is worth quoting: without comments, status, date and usual headings.

    A text without anything else is returned whole.
    """
    readable = _strip_comments(text)
    kept_lines: list[str] = []
    in_field = False
    for line in readable.split("\n"):
        match = re.match(_HEADING, line)
        if match is None:
            if not in_field and not _is_field(line):
                kept_lines.append(line)
            continue
        heading = match[1]
        name = re.sub(_NUMBER, "", heading.casefold())
        field = resolve_field(name.partition(":")[0])
        in_field = field in _SHOWN_FIELDS
        if not in_field and name not in _USUAL_HEADINGS:
            kept_lines.append(heading)
    prose = "\n".join(kept_lines).strip()
    return prose or readable.strip() or text


def _strip_comments(text: str) -> str:
    """Remove HTML comments; one without an end goes to the end of its line."""
    # Split: a regular expression would look for each end again and again.
    parts = text.split("<!--")
    kept_parts = [parts[0]]
    for part in parts[1:]:
        end = "-->" if "-->" in part else "\n"
        kept_parts.append(part.partition(end)[2])
    return "".join(kept_parts)


def _is_field(line: str) -> bool:
    """Return whether a line states a field, as a list item or a row of a table."""
    if line.lstrip().startswith("|"):
        first_cell = line.strip(" \t|").partition("|")[0]
        if resolve_field(first_cell.strip()) in _SHOWN_FIELDS:
            return True
    return is_field_line(line) or _TABLE_RULE.fullmatch(line) is not None


def list_named_rejections(
    terms: Terms, rejected: Iterable[str], chosen: str = ""
) -> tuple[str, ...]:
    """Return the rejected alternatives that a query names.

    The query has half of their telling words, at least one of them not in `chosen`.
    """
    query_words = _build_query_words(terms)
    named_items: list[str] = []
    for item in rejected:
        alternative = item.partition(":")[0]
        matched_words = query_words.find_words(alternative)
        if not matched_words or 2 * len(matched_words) < _count_telling_words(alternative):
            continue
        matched_words -= query_words.find_words(chosen)
        matched_words -= _KEEPING_VERBS
        if matched_words:
            named_items.append(item)
    return tuple(named_items)


def _count_telling_words(text: str) -> int:
    words = {_normalize_word(word) for word in _WORD.findall(text)}
    return len(words - COMMON_WORDS)


class _QueryWords(NamedTuple):
    """The words to highlight: by their first letters, and parts of scripts without spaces."""

    by_stem: Mapping[str, tuple[str, ...]]
    stem_pattern: re.Pattern[str]  # a word that may begin with the letters of one of them
    unspaced: tuple[str, ...]

    def find_words(self, text: str) -> set[str]:
        """Return the wanted words that a text has."""
        return {span.name for span in self.list_spans(text)}

    def list_spans(self, text: str) -> list[_Span]:
        """Return where wanted words stand, in order, without overlaps; longer ones win."""
        spans: list[_Span] = []
        end = 0
        for span in sorted(self._iter_spans(text), key=_get_sort_key):
            if span.start >= end:
                spans.append(span)
                end = span.end
        return spans

    def _iter_spans(self, text: str) -> Iterator[_Span]:
        for part in self.unspaced:
            for match in re.finditer(re.escape(part), text):
                yield _Span(match.start(), match.end(), part)
        lower = text.replace("İ", "I").lower()  # the only letter that lower() would split in two
        for match in self.stem_pattern.finditer(lower):
            word = _normalize_word(match.group())
            for name in self.by_stem.get(word[:_STEM_LENGTH], ()):
                if _is_same_stem(name, word):
                    yield _Span(match.start(), match.end(), name)


def _get_sort_key(span: _Span) -> tuple[int, int, str]:
    return span.start, -span.end, span.name


@lru_cache(maxsize=2)  # one query is compared with every text that is shown
def _build_query_words(terms: Terms) -> _QueryWords:
    parts: list[str] = []
    for word in terms.words + terms.phrases:
        parts += _WORD.findall(word)
    by_stem = _group_by_stem(parts)
    unspaced = [part for part in parts if re.search(UNSPACED, part)]
    stem_patterns = "|".join(_build_stem_pattern(stem) for stem in by_stem)
    pattern = rf"(?<!\w)_*(?:{stem_patterns})\w*" if by_stem else _NO_MATCH
    return _QueryWords(by_stem, re.compile(pattern), tuple(unspaced))


def _group_by_stem(parts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Group the telling words of a query by their first letters; all, if none is telling."""
    words = [_normalize_word(part) for part in parts]
    telling_words = [word for word in words if word not in COMMON_WORDS]
    names_by_stem: dict[str, dict[str, None]] = defaultdict(dict)
    for word in telling_words or words:
        if not word:
            continue
        stem = word[:_STEM_LENGTH]
        names_by_stem[stem][word] = None
    return {stem: tuple(names) for stem, names in names_by_stem.items()}


def _build_stem_pattern(stem: str) -> str:
    """Return a pattern for words that begin with a stem, underscores aside.

    A letter beyond ASCII may stand for several, so nothing after it is compared.
    """
    suffix_pattern = ""
    for letter in reversed(stem[1:]):
        suffix_pattern = rf"_*(?:{re.escape(letter)}{suffix_pattern}|[^\W\x00-\x7f])"
    return re.escape(stem[0]) + suffix_pattern


def _normalize_word(word: str) -> str:
    """Return the common form of all spellings of a name: `getuser` for `get_user` and `getUser`."""
    return word.replace("_", "").casefold()


def _is_same_stem(word: str, other: str) -> bool:
    """Return whether two words with the same first letters are forms of one word."""
    if word == other:
        return True
    shorter_length = min(len(word), len(other))
    longer_length = max(len(word), len(other))
    shared_length = 0
    while shared_length < shorter_length and word[shared_length] == other[shared_length]:
        shared_length += 1
    if shared_length < max(_STEM_LENGTH, shorter_length - 1):
        return False
    return longer_length - shared_length <= _MAX_ENDING


def _find_best_window(spans: Sequence[_Span], width: int) -> int:
    """Return where the window with the most different words begins; the first of equal ones."""
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
