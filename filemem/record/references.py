"""Resolve references to records: ids, paths, file names, numbers, titles, `[[wikilinks]]`.

Real stores use numbers twice, so a reference resolves only if it names exactly one record.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

from filemem.record.identity import SUFFIXES, shorten_id, strip_suffix
from filemem.record.model import Record

# A name of a record -> its id; None if several records have the name.
ReferenceIndex = Mapping[str, str | None]

# `FIP-OO35` is a real one, and so is `ADR043`.
_NUMBERED = re.compile(
    r"(?:([a-z]{2,8})[-_ .]{1,2}|(adr|madr))?#?(?=o{0,4}[0-9])([0-9o]{1,5})(?![0-9o])"
)
_LEADING_DATE = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}[-_ ]+")
# Words in front of a number of any series.
_ANY_SERIES = frozenset(("adr", "madr", "no", "nr", "number", "decision"))
_NON_SERIES = _ANY_SERIES - {"adr", "madr"}  # `no 2` may be words of any text
_NUMBER_IN_TEXT = re.compile(r"\b([A-Za-z]{2,8})[- ]#?\d{1,5}\b")
# A record with such a name is the page of its folder, and has the folder's name.
_FOLDER_PAGES = ("readme", "index")
_STRENGTH_COUNT = 10
_PARENT_PREFIX = re.compile(r"\A(?:\.{1,2}/)+")


def build_reference_index(records: Iterable[Record]) -> ReferenceIndex:
    """Return an index of the names of records.

    A stronger kind of name hides a weaker one: an id a path, a path a file name.
    """
    layers: list[dict[str, str | None]] = [{} for _ in range(_STRENGTH_COUNT)]
    for record in records:
        for strength, name in iter_names(record):
            layer = layers[strength]
            if layer.get(name, record.id) == record.id:
                layer[name] = record.id
            else:
                layer[name] = None
    index: dict[str, str | None] = {}
    for layer in layers:
        index.update(layer)
    return index


class RecordName(NamedTuple):
    """A name of a record, and the strength of its kind: see `build_reference_index`."""

    strength: int
    text: str


def iter_names(record: Record) -> Iterator[RecordName]:
    """Yield the names of a record."""
    if record.title:
        yield RecordName(2, record.title.casefold())
    stated_slug = record.extra.get("slug")
    if isinstance(stated_slug, str):
        slug = stated_slug.strip("/ ")
        if slug:
            yield RecordName(2, slug.casefold())
    if record.path:
        yield from _iter_file_names(record)
    yield RecordName(7, shorten_id(record.id))
    yield RecordName(9, record.id)


def _iter_file_names(record: Record) -> Iterator[RecordName]:
    # As it is typed: some file systems decompose letters.
    path = normalize("NFC", record.path).casefold()
    yield RecordName(8, path)
    folder, slash, name = path.rpartition("/")
    if slash and strip_suffix(name) in _FOLDER_PAGES:
        path = folder
        name = path.rpartition("/")[2]
    stem = strip_suffix(name)
    yield RecordName(5, stem)
    yield RecordName(6, name)
    yield RecordName(8, strip_suffix(path))
    if not stem.endswith(shorten_id(record.id)):  # such files of ours have no numbers
        yield from _iter_numbers(stem, record.title)


def _iter_numbers(stem: str, title: str) -> Iterator[RecordName]:
    """Yield the number of a file name, alone and with its series."""
    undated_stem = _LEADING_DATE.sub("", stem, count=1)
    match = _NUMBERED.match(undated_stem)
    if match is None:
        return
    series, number = _parse_number(match)
    yield RecordName(3 if series else 4, number)
    if series:
        yield RecordName(4, series + number)
    heading = _NUMBERED.match(title.casefold())
    if heading:
        heading_series, heading_number = _parse_number(heading)
        if heading_number == number:
            yield RecordName(4, heading_series + number)


class _Number(NamedTuple):
    """A number such as `#12`, and its series such as `adr`, or ""."""

    series: str
    number: str


def _parse_number(match: re.Match[str]) -> _Number:
    series = match[1] or match[2] or ""
    number = int(match[3].replace("o", "0"))
    return _Number(series, f"#{number}")


def list_numbers(text: str) -> tuple[str, ...]:
    """Return the numbers with their series in a text, such as `ADR-0012` or `FIP 3`."""
    matches = _NUMBER_IN_TEXT.finditer(text)
    return tuple(match[0] for match in matches if match[1].casefold() not in _NON_SERIES)


def resolve_reference(reference: str, index: ReferenceIndex, folder: str = "") -> str | None:
    """Return the id of the one record that a reference means, or None.

    A relative link starts in `folder`.
    """
    for name in iter_readings(reference, folder):
        record_id = index.get(name)
        if record_id:
            return record_id
    return None


def list_matching_ids(reference: str, records: Iterable[Record]) -> tuple[str, ...]:
    """Return the id of the record that a reference means, or of all that it may mean."""
    ranks: dict[str, int] = {}
    for rank, name in enumerate(iter_readings(reference)):
        ranks.setdefault(name, rank)
    # Rank of the reading -> strength of the name -> ids.
    ids_by_rank: dict[int, dict[int, dict[str, None]]] = {}
    for record in records:
        for strength, name in iter_names(record):
            if name in ranks:
                by_strength = ids_by_rank.setdefault(ranks[name], {})
                by_strength.setdefault(strength, {})[record.id] = None
    ambiguous_ids: tuple[str, ...] = ()
    for _, by_strength in sorted(ids_by_rank.items()):
        strongest_ids = tuple(by_strength[max(by_strength)])
        if len(strongest_ids) == 1:
            return strongest_ids
        if not ambiguous_ids:
            ambiguous_ids = strongest_ids
    return ambiguous_ids


def iter_readings(reference: str, folder: str = "") -> Iterator[str]:
    """Yield the names that a reference may mean, the surest first; see `resolve_reference`."""
    written_reference = normalize("NFC", reference.strip())
    yield written_reference
    target = _parse_target(written_reference)
    yield target
    name = target.casefold().rstrip("/")
    is_relative = "://" not in name and not name.startswith("/")
    if folder and is_relative and name.endswith(SUFFIXES):
        path = posixpath.join(folder.casefold(), name)
        yield posixpath.normpath(path)
    path = _PARENT_PREFIX.sub("", name).lstrip("/")
    stem = strip_suffix(path.rpartition("/")[2])
    while path:  # it may begin above the store
        yield path
        path = path.partition("/")[2]
    number_match = _NUMBERED.fullmatch(stem)
    if number_match:
        series, number = _parse_number(number_match)
        yield series + number
        if series in _ANY_SERIES:
            yield number


def _parse_target(reference: str) -> str:
    """Return the target of a link, without its brackets, quotes and heading."""
    link = re.fullmatch(r"\[[^\]]*\]\(([^)]*)\)", reference)
    target = reference
    if reference.startswith("[[") and reference.endswith("]]"):
        target = reference[2:-2].partition("|")[0]
    elif link:
        target = link[1]
    target = target.strip(" \t<>()\"'")
    path = target.partition("#")[0]
    return unquote(path or target)
