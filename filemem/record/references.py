"""Which record a reference means: ids, short ids, paths, file names, numbers, titles, `[[wikilinks]]`.

Other makers refer by number or file name; numbers are used twice in real stores, so only what names exactly
one record resolves.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from unicodedata import normalize
from urllib.parse import unquote

from filemem.record.identity import SUFFIXES, short_id, stem_of
from filemem.record.model import Record

ReferenceIndex = Mapping[
    str, str | None
]  # how a record may be named -> its id, None where several answer

# `FIP-OO35` is a real one, and so is `ADR043`.
_NUMBERED = re.compile(
    r"(?:([a-z]{2,8})[-_ .]{1,2}|(adr|madr))?#?(?=o{0,4}[0-9])([0-9o]{1,5})(?![0-9o])"
)
_DATE_IN_FRONT = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}[-_ ]+")
_ANY_SERIES = frozenset(
    ("adr", "madr", "no", "nr", "number", "decision")
)  # in front of a number of any series
_IN_TEXT = re.compile(r"\b([A-Za-z]{2,8})[- ]#?\d{1,5}\b")
# The name of a record that is the page of its folder is the folder's.
_OF_A_FOLDER = ("readme", "index")
_UPWARDS = re.compile(r"\A(?:\.{1,2}/)+")


def reference_index(records: Iterable[Record]) -> ReferenceIndex:
    """Return the names of `records`; a stronger kind of name (id over path over file name ...) hides a weaker."""
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
    if record.title:
        yield 2, record.title.casefold()
    if isinstance(slug := record.extra.get("slug"), str) and slug.strip("/ "):
        yield 2, slug.strip("/ ").casefold()
    if record.path:
        yield from _names_of_file(record)
    yield 7, short_id(record.id)
    yield 9, record.id


def _names_of_file(record: Record) -> Iterator[tuple[int, str]]:
    path = normalize("NFC", record.path).casefold()  # as it is typed; some systems part the marks
    yield 8, path
    name = path.rpartition("/")[2]
    if "/" in path and stem_of(name) in _OF_A_FOLDER:
        path = path.rpartition("/")[0]
        name = path.rpartition("/")[2]
    stem = stem_of(name)
    yield 5, stem
    yield 6, name
    yield 8, stem_of(path)
    if stem.endswith(short_id(record.id)):
        return  # the files that we name have no numbers, whatever they are called
    numbered = _NUMBERED.match(_DATE_IN_FRONT.sub("", stem, count=1))
    if not numbered:
        return
    prefix, number = _number(numbered)
    yield (3 if prefix else 4), number
    if prefix:
        yield 4, f"{prefix}{number}"
    heading = _NUMBERED.match(record.title.casefold())
    if heading and _number(heading)[1] == number:
        yield 4, "".join(_number(heading))


def _number(match: re.Match[str]) -> tuple[str, str]:
    return match[1] or match[2] or "", f"#{int(match[3].replace('o', '0'))}"


def numbers_in(text: str) -> tuple[str, ...]:
    """The numbers that a text names with their series, such as `ADR-0012` or `FIP 3`; `no 2` are words of any text."""
    series = _ANY_SERIES - {"adr", "madr"}
    return tuple(one[0] for one in _IN_TEXT.finditer(text) if one[1].casefold() not in series)


def resolve_reference(
    reference: str, records_index: ReferenceIndex, folder: str = ""
) -> str | None:
    """Return the id of the one record that a reference means, or None; a relative link starts in `folder`."""
    return next(
        (found for name in readings(reference, folder) if (found := records_index.get(name))), None
    )


def answering(reference: str, records: Iterable[Record]) -> tuple[str, ...]:
    """The ids of the records that a reference may mean: one where it is clear, else all."""
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


def readings(reference: str, folder: str = "") -> Iterator[str]:
    """Yield the names that a reference may mean, the surest first; see `resolve_reference`."""
    reference = normalize("NFC", reference.strip())
    yield reference
    if reference.startswith("[[") and reference.endswith("]]"):
        reference = reference[2:-2].partition("|")[0]
    elif match := re.fullmatch(r"\[[^\]]*\]\(([^)]*)\)", reference):
        reference = match[1]
    reference = reference.strip(" \t<>()\"'")
    reference = reference.partition("#")[0] or reference
    reference = unquote(reference)
    yield reference
    folded = reference.casefold().rstrip("/")
    if folder and folded.endswith(SUFFIXES) and "://" not in folded and not folded.startswith("/"):
        yield posixpath.normpath(posixpath.join(folder.casefold(), folded))
    shorter = _UPWARDS.sub("", folded).lstrip("/")
    last = shorter.rpartition("/")[2]
    while shorter:  # a path may begin above the store
        yield shorter
        shorter = shorter.partition("/")[2]
    if match := _NUMBERED.fullmatch(stem_of(last)):
        prefix, number = _number(match)
        yield f"{prefix}{number}"
        if prefix in _ANY_SERIES:
            yield number
