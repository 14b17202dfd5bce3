"""Which record a reference means: ids, short ids, paths, file names, numbers, titles, `[[wikilinks]]`.

Other makers refer by number or file name; numbers are used twice in real stores, so only what names exactly
one record resolves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from filemem.record.identity import number_of_heading, short_id
from filemem.record.model import DECISION, Record

ReferenceIndex = Mapping[str, str | None]  # how a record may be named -> its id, None where several answer

# `FIP-OO35` is a real one.
_NUMBERED = re.compile(r"(?:([a-z]{2,8})[-_ .]{1,2})?#?(?=o{0,4}[0-9])([0-9o]{1,5})(?![0-9o])")
NUMBER_WORDS = frozenset(("adr", "madr", "no", "nr", "number", "decision"))  # in front of a number of any series
_ANY = NUMBER_WORDS - {"adr", "madr"}
_IN_TEXT = re.compile(r"\b([A-Za-z]{2,8})[- ]#?\d{1,5}\b")
_UPWARDS = re.compile(r"\A(?:\.{1,2}/)+")
_ESCAPED_BYTE = re.compile(r"((?:%[0-9A-Fa-f]{2})+)")


def reference_index(records: Iterable[Record], earlier: Iterable[Record] = ()) -> ReferenceIndex:
    """Return the names of `records`; a stronger kind of name (id over path over file name ...) hides a weaker.

    Args:
        records: what there is, by the names of today.
        earlier: the same under names that files had once, which count where nothing has that name today.
    """
    return _index(earlier) | _index(records)


def _index(records: Iterable[Record]) -> dict[str, str | None]:
    layers: list[dict[str, str | None]] = []
    for record in records:
        for strength, name in names_of(record):
            while len(layers) <= strength:
                layers.append({})
            layer = layers[strength]
            layer[name] = record.id if layer.get(name, record.id) == record.id else None
    index: dict[str, str | None] = {}
    for layer in layers:
        index.update(layer)
    return index


def names_of(record: Record) -> Iterator[tuple[int, str]]:
    """Yield what a record may be called, each with the strength of its kind: see `reference_index`."""
    path = record.path.casefold()
    name = path.rpartition("/")[2]
    stem = name.removesuffix(".md")
    if record.title:
        yield 2, record.title.casefold()
    if match := _NUMBERED.match(stem):
        prefix, number = _number(match)
        yield (3 if prefix else 4), number
        if prefix:
            yield 4, f"{prefix}{number}"
    elif match := _NUMBERED.fullmatch(record.number):
        prefix, number = _number(match)
        yield 2, number
        yield 3, f"{prefix}{number}"
    elif match := _NUMBERED.fullmatch(_number_in_front(record)):
        prefix, number = _number(match)
        series = bool(prefix) and prefix not in NUMBER_WORDS
        yield (0 if series else 1), number  # `ADR-7` means no RFC of that number where there is another
        if series:
            yield 0, f"{prefix}{number}"
    if path:
        yield 5, stem
        yield 6, name
    yield 7, short_id(record.id)
    if path:
        yield 8, path.removesuffix(".md")
        yield 8, path
    yield 9, record.id


def _number_in_front(record: Record) -> str:
    """The number in front of the heading of another maker's decision; our own have none, whatever they are headed."""
    foreign = record.type == DECISION and record.id.startswith("file_")
    return number_of_heading(record.title).casefold() if foreign else ""


def _number(match: re.Match[str]) -> tuple[str, str]:
    return match[1] or "", f"#{int(match[2].replace('o', '0'))}"


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the numbers that a text names with their series, such as `ADR-0012` or `FIP 3`, for `resolve_reference`.

    `no 2` and `number 3` are words of any text.
    """
    return tuple(one[0] for one in _IN_TEXT.finditer(text) if one[1].casefold() not in _ANY)


def resolve_reference(reference: str, records_index: ReferenceIndex) -> str | None:
    """Return the id of the one record that `reference` means, or None.

    Args:
        reference: an id, a path or file name (also in a link or a web address), a number such as `12`, `#12` or
            `ADR-0012`, a title, or any of these as `[[wikilink]]`.
        records_index: from `reference_index`.
    """
    return placed_reference(reference, records_index)[1]


def placed_reference(reference: str, records_index: ReferenceIndex) -> tuple[int, str | None]:
    """Return what `resolve_reference` does, and at which of the ways to read the reference: the lower, the surer."""
    place = 0
    for place, name in enumerate(readings(reference)):
        if found := records_index.get(name):
            return place, found
    return place + 1, None


def answering(reference: str, records: Iterable[Record]) -> tuple[str, ...]:
    """Return the ids of the records that `reference` may mean: one where it is clear, else all.

    Args:
        reference: as `resolve_reference` takes it.
        records: all that have names.
    """
    wanted = {name: place for place, name in reversed([*enumerate(readings(reference))])}
    found: dict[tuple[int, int], dict[str, None]] = {}
    for record in records:
        for strength, name in names_of(record):
            if name in wanted:
                found.setdefault((wanted[name], -strength), {})[record.id] = None
    several: tuple[str, ...] = ()
    for place in sorted({place for place, _ in found}):
        ids = tuple(found[min(key for key in found if key[0] == place)])
        if len(ids) == 1:
            return ids
        several = several or ids
    return several


def ambiguous(references: Iterable[str], records: Iterable[Record]) -> Mapping[str, tuple[str, ...]]:
    """Return, for those references that several records answer to, their ids; in one walk of the records."""
    wanted = {reference: frozenset(readings(reference)) for reference in references}
    names = frozenset().union(*wanted.values())
    having: dict[str, list[Record]] = {}
    for record in records if names else ():
        for name in {name for _, name in names_of(record)} & names:
            having.setdefault(name, []).append(record)
    found = {
        reference: answering(reference, (one for name in among for one in having.get(name, ())))
        for reference, among in wanted.items()
    }
    return {reference: ids for reference, ids in found.items() if len(ids) > 1}


def _unquote(match: re.Match[str]) -> str:
    return bytes.fromhex(match[1].replace("%", "")).decode(errors="replace")


def readings(reference: str) -> Iterator[str]:
    """Yield the names that a reference may mean, the surest first; see `resolve_reference`."""
    reference = reference.strip()
    yield reference
    if reference.startswith("[[") and reference.endswith("]]"):
        reference = reference[2:-2].partition("|")[0]
    elif match := re.fullmatch(r"\[[^\]]*\]\(([^)]*)\)", reference):
        reference = match[1]
    reference = reference.strip(" \t<>()\"'")
    reference = _ESCAPED_BYTE.sub(_unquote, reference.partition("#")[0] or reference)
    yield reference
    folded = reference.casefold()
    folded = _UPWARDS.sub("", folded)
    yield folded
    yield folded.removeprefix("memory/")
    if "/" in folded:
        yield folded.rpartition("/")[2]
    if match := _NUMBERED.fullmatch(folded.removesuffix(".md")):
        prefix, number = _number(match)
        yield f"{prefix}{number}"
        if prefix in NUMBER_WORDS:
            yield number
