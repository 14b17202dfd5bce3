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

from filemem.record.identity import SUFFIXES, short_id, stem_of
from filemem.record.model import Record

# How a record may be named -> its id, None if several answer.
ReferenceIndex = Mapping[str, str | None]

# `FIP-OO35` is a real one, and so is `ADR043`.
_NUMBERED = re.compile(
    r"(?:([a-z]{2,8})[-_ .]{1,2}|(adr|madr))?#?(?=o{0,4}[0-9])([0-9o]{1,5})(?![0-9o])"
)
_DATE_IN_FRONT = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}[-_ ]+")
# What stands in front of a number of any series.
_ANY_SERIES = frozenset(("adr", "madr", "no", "nr", "number", "decision"))
_IN_TEXT = re.compile(r"\b([A-Za-z]{2,8})[- ]#?\d{1,5}\b")
# The name of a record that is the page of its folder is the folder's.
_OF_A_FOLDER = ("readme", "index")
_STRENGTHS = 10  # of names
_UPWARDS = re.compile(r"\A(?:\.{1,2}/)+")


def reference_index(records: Iterable[Record]) -> ReferenceIndex:
    """Return the names of `records`.

    A stronger kind of name hides a weaker one: an id a path, a path the name of a file.
    """
    layers: list[dict[str, str | None]] = [{} for _ in range(_STRENGTHS)]
    for record in records:
        for strength, name in names_of(record):
            layer = layers[strength]
            layer[name] = record.id if layer.get(name, record.id) == record.id else None
    index: dict[str, str | None] = {}
    for layer in layers:
        index.update(layer)
    return index


class Name(NamedTuple):
    """What a record may be called, and the strength of that kind: see `reference_index`."""

    strength: int
    text: str


def names_of(record: Record) -> Iterator[Name]:
    """Yield what a record may be called."""
    if record.title:
        yield Name(2, record.title.casefold())
    slug = record.extra.get("slug")
    if isinstance(slug, str) and slug.strip("/ "):
        yield Name(2, slug.strip("/ ").casefold())
    if record.path:
        yield from _names_of_file(record)
    yield Name(7, short_id(record.id))
    yield Name(9, record.id)


def _names_of_file(record: Record) -> Iterator[Name]:
    path = normalize("NFC", record.path).casefold()  # as it is typed; some systems part the marks
    yield Name(8, path)
    name = path.rpartition("/")[2]
    if "/" in path and stem_of(name) in _OF_A_FOLDER:
        path = path.rpartition("/")[0]
        name = path.rpartition("/")[2]
    stem = stem_of(name)
    yield Name(5, stem)
    yield Name(6, name)
    yield Name(8, stem_of(path))
    if stem.endswith(short_id(record.id)):
        return  # the files that we name have no numbers, whatever they are called
    numbered = _NUMBERED.match(_DATE_IN_FRONT.sub("", stem, count=1))
    if not numbered:
        return
    prefix, number = _number(numbered)
    yield Name(3 if prefix else 4, number)
    if prefix:
        yield Name(4, f"{prefix}{number}")
    heading = _NUMBERED.match(record.title.casefold())
    if heading and _number(heading)[1] == number:
        yield Name(4, "".join(_number(heading)))


def _number(match: re.Match[str]) -> tuple[str, str]:
    return match[1] or match[2] or "", f"#{int(match[3].replace('o', '0'))}"


def numbers_in(text: str) -> tuple[str, ...]:
    """The numbers that a text names with their series, such as `ADR-0012` or `FIP 3`.

    `no 2` are words of any text.
    """
    words = _ANY_SERIES - {"adr", "madr"}
    numbers = _IN_TEXT.finditer(text)
    return tuple(number[0] for number in numbers if number[1].casefold() not in words)


def resolve_reference(
    reference: str, records_index: ReferenceIndex, folder: str = ""
) -> str | None:
    """Return the id of the one record that a reference means, or None.

    A relative link starts in `folder`.
    """
    ids = map(records_index.get, readings(reference, folder))
    return next(filter(None, ids), None)


def answering(reference: str, records: Iterable[Record]) -> tuple[str, ...]:
    """The ids of the records that a reference may mean: one where it is clear, else all."""
    places = {name: place for place, name in reversed([*enumerate(readings(reference))])}
    ids: dict[int, dict[int, dict[str, None]]] = {}  # by place, then by strength
    for record in records:
        for strength, name in names_of(record):
            if name in places:
                by_strength = ids.setdefault(places[name], {})
                by_strength.setdefault(strength, {})[record.id] = None
    several: tuple[str, ...] = ()
    for _, by_strength in sorted(ids.items()):
        strongest = tuple(by_strength[max(by_strength)])
        if len(strongest) == 1:
            return strongest
        several = several or strongest
    return several


def readings(reference: str, folder: str = "") -> Iterator[str]:
    """Yield the names that a reference may mean, the surest first; see `resolve_reference`."""
    reference = normalize("NFC", reference.strip())
    yield reference
    reference = _target(reference)
    yield reference
    folded = reference.casefold().rstrip("/")
    is_relative = "://" not in folded and not folded.startswith("/")
    if folder and is_relative and folded.endswith(SUFFIXES):
        yield posixpath.normpath(posixpath.join(folder.casefold(), folded))
    path = _UPWARDS.sub("", folded).lstrip("/")
    numbered = _NUMBERED.fullmatch(stem_of(path.rpartition("/")[2]))
    while path:  # it may begin above the store
        yield path
        path = path.partition("/")[2]
    if numbered:
        prefix, number = _number(numbered)
        yield f"{prefix}{number}"
        if prefix in _ANY_SERIES:
            yield number


def _target(reference: str) -> str:
    """Return what a link leads to, without its brackets, quotes and heading."""
    link = re.fullmatch(r"\[[^\]]*\]\(([^)]*)\)", reference)
    if reference.startswith("[[") and reference.endswith("]]"):
        reference = reference[2:-2].partition("|")[0]
    elif link:
        reference = link[1]
    reference = reference.strip(" \t<>()\"'")
    return unquote(reference.partition("#")[0] or reference)
