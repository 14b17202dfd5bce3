"""Which record a reference means: ids, paths, file names, numbers, titles, `[[wikilinks]]`.

Other makers refer by number or file name; numbers are used twice in real stores, so only what names
exactly one record resolves.
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

# How a record may be named -> its id, None if several answer.
ReferenceIndex = Mapping[str, str | None]

# `FIP-OO35` is a real one, and so is `ADR043`.
_NUMBERED = re.compile(
    r"(?:([a-z]{2,8})[-_ .]{1,2}|(adr|madr))?#?(?=o{0,4}[0-9])([0-9o]{1,5})(?![0-9o])"
)
_LEADING_DATE = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}[-_ ]+")
# What stands in front of a number of any series.
_ANY_SERIES = frozenset(("adr", "madr", "no", "nr", "number", "decision"))
_NUMBER_IN_TEXT = re.compile(r"\b([A-Za-z]{2,8})[- ]#?\d{1,5}\b")
# The name of a record that is the page of its folder is the folder's.
_FOLDER_PAGES = ("readme", "index")
_STRENGTH_COUNT = 10  # of names
_PARENT_PREFIX = re.compile(r"\A(?:\.{1,2}/)+")


def build_reference_index(records: Iterable[Record]) -> ReferenceIndex:
    """Return the names of `records`.

    A stronger kind of name hides a weaker one: an id a path, a path the name of a file.
    """
    layers: list[dict[str, str | None]] = [{} for _ in range(_STRENGTH_COUNT)]
    for record in records:
        for strength, name in iter_names(record):
            layer = layers[strength]
            layer[name] = record.id if layer.get(name, record.id) == record.id else None
    index: dict[str, str | None] = {}
    for layer in layers:
        index.update(layer)
    return index


class RecordName(NamedTuple):
    """What a record may be called, and the strength of that kind: see `reference_index`."""

    strength: int
    text: str


def iter_names(record: Record) -> Iterator[RecordName]:
    """Yield what a record may be called."""
    if record.title:
        yield RecordName(2, record.title.casefold())
    slug = record.extra.get("slug")
    if isinstance(slug, str) and slug.strip("/ "):
        yield RecordName(2, slug.strip("/ ").casefold())
    if record.path:
        yield from _iter_file_names(record)
    yield RecordName(7, shorten_id(record.id))
    yield RecordName(9, record.id)


def _iter_file_names(record: Record) -> Iterator[RecordName]:
    path = normalize("NFC", record.path).casefold()  # as it is typed; some systems part the marks
    yield RecordName(8, path)
    name = path.rpartition("/")[2]
    if "/" in path and strip_suffix(name) in _FOLDER_PAGES:
        path = path.rpartition("/")[0]
        name = path.rpartition("/")[2]
    stem = strip_suffix(name)
    yield RecordName(5, stem)
    yield RecordName(6, name)
    yield RecordName(8, strip_suffix(path))
    if stem.endswith(shorten_id(record.id)):
        return  # the files that we name have no numbers, whatever they are called
    number_match = _NUMBERED.match(_LEADING_DATE.sub("", stem, count=1))
    if not number_match:
        return
    prefix, number = _parse_number(number_match)
    yield RecordName(3 if prefix else 4, number)
    if prefix:
        yield RecordName(4, f"{prefix}{number}")
    heading = _NUMBERED.match(record.title.casefold())
    if heading and _parse_number(heading)[1] == number:
        yield RecordName(4, "".join(_parse_number(heading)))


def _parse_number(match: re.Match[str]) -> tuple[str, str]:
    return match[1] or match[2] or "", f"#{int(match[3].replace('o', '0'))}"


def list_numbers(text: str) -> tuple[str, ...]:
    """The numbers that a text names with their series, such as `ADR-0012` or `FIP 3`.

    `no 2` are words of any text.
    """
    words = _ANY_SERIES - {"adr", "madr"}
    numbers = _NUMBER_IN_TEXT.finditer(text)
    return tuple(number[0] for number in numbers if number[1].casefold() not in words)


def resolve_reference(reference: str, index: ReferenceIndex, folder: str = "") -> str | None:
    """Return the id of the one record that a reference means, or None.

    A relative link starts in `folder`.
    """
    ids = map(index.get, iter_readings(reference, folder))
    return next(filter(None, ids), None)


def list_matching_ids(reference: str, records: Iterable[Record]) -> tuple[str, ...]:
    """The ids of the records that a reference may mean: one where it is clear, else all."""
    ranks = {name: place for place, name in reversed([*enumerate(iter_readings(reference))])}
    ids_by_rank: dict[int, dict[int, dict[str, None]]] = {}  # by place, then by strength
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
        ambiguous_ids = ambiguous_ids or strongest_ids
    return ambiguous_ids


def iter_readings(reference: str, folder: str = "") -> Iterator[str]:
    """Yield the names that a reference may mean, the surest first; see `resolve_reference`."""
    reference = normalize("NFC", reference.strip())
    yield reference
    reference = _parse_target(reference)
    yield reference
    folded_reference = reference.casefold().rstrip("/")
    is_relative = "://" not in folded_reference and not folded_reference.startswith("/")
    if folder and is_relative and folded_reference.endswith(SUFFIXES):
        yield posixpath.normpath(posixpath.join(folder.casefold(), folded_reference))
    path = _PARENT_PREFIX.sub("", folded_reference).lstrip("/")
    number_match = _NUMBERED.fullmatch(strip_suffix(path.rpartition("/")[2]))
    while path:  # it may begin above the store
        yield path
        path = path.partition("/")[2]
    if number_match:
        prefix, number = _parse_number(number_match)
        yield f"{prefix}{number}"
        if prefix in _ANY_SERIES:
            yield number


def _parse_target(reference: str) -> str:
    """Return what a link leads to, without its brackets, quotes and heading."""
    link = re.fullmatch(r"\[[^\]]*\]\(([^)]*)\)", reference)
    if reference.startswith("[[") and reference.endswith("]]"):
        reference = reference[2:-2].partition("|")[0]
    elif link:
        reference = link[1]
    reference = reference.strip(" \t<>()\"'")
    return unquote(reference.partition("#")[0] or reference)
