"""Files that stand where no commit has them: where they were moved from, and what those are known by that are new.

Rule: such a file has the bytes, or states the id, of one that HEAD has and that stands nowhere now. One without an id
under a name that another had is another, unless it says the same.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping

from filemem.documents import Birth
from filemem.files import is_listed
from filemem.memory.origins import Origins, origins, remembered
from filemem.memory.store import Store
from filemem.memory.versions import alike
from filemem.record import Record, parse

_MOVED = 200  # files that are away, whose ids are looked at


def carried(
    store: Store, new: Mapping[str, str], there: Collection[str], known: Origins | None = None
) -> dict[str, Birth]:
    """First commits of what no commit has: of files that were moved here from where HEAD has them.

    Of a file without an id under a name that another had, what it will be known by.

    Args:
        store: the parts.
        new: files that may have been moved, or hold another record than in HEAD, path -> blob.
        there: all files that stand in the work tree.
        known: what Git says of all that HEAD has, where it was asked already.

    Returns:
        A birth without a commit for a record that is new; nothing for one that HEAD has there.
    """
    held = store.listing(store.history) if new and store.repo.head() else {}
    sources = _sources(store, new, there, held) | dict.fromkeys(_overwritten(store, new, held), "")
    ended = remembered(store).ended if sources else None
    used = {path for path, source in sources.items() if not source and (ended is None or path in ended)}
    if known is None:
        known = origins(store) if used or any(sources.values()) else Origins({}, frozenset())
    births = {path: known.births.get(source, Birth()) for path, source in sources.items()}
    return births | {path: _beginning(store, path, known) for path in used}


def _beginning(store: Store, path: str, known: Origins) -> Birth:
    """What a file will be known by that is not committed yet, at a path where another may have begun."""
    record = store.read(path).record
    if record is None or record.id_stated:
        return Birth()
    named, count = store.files.named(path), known.began.get(path, 0)
    gone = next((one for one in reversed(known.lost) if one.path == named), None)
    if gone and path not in known.births:
        before = store.repo.blob(gone.blob)
        if before is None or alike(path, before, store.bytes_of(path)):
            return Birth(path=store.files.inside(gone.first_path), nth=gone.nth)
    return Birth(path=path, nth=count + 1) if count else Birth()


def _overwritten(store: Store, new: Mapping[str, str], held: Mapping[str, str]) -> Iterator[str]:
    """The files in which HEAD has another record."""
    for path in new.keys() & held.keys():
        if new[path] != held[path] and is_listed(path) and (data := store.repo.blob(held[path])) is not None:
            was, now = parse(data, path).record, store.read(path).record
            if was and now and was.id != now.id:
                yield path


def _sources(store: Store, new: Mapping[str, str], there: Collection[str], held: Mapping[str, str]) -> dict[str, str]:
    """Where HEAD has each of the files that it does not have here, "" for nowhere; no file is the source of two."""
    left = {path: blob for path, blob in held.items() if path not in there}
    gone: dict[str, list[str]] = {}
    for path in sorted(left):
        gone.setdefault(left[path], []).append(path)
    found = {}
    for path in sorted(new.keys() - held.keys()):
        alike = gone.get(new[path], [])
        # Of several with the same bytes, the one that keeps its name.
        found[path] = max(alike, key=lambda one: posixpath.basename(one) == posixpath.basename(path), default="")
        if alike:
            alike.remove(found[path])
    lost = [path for several in gone.values() for path in several][:_MOVED]
    edited = [path for path, source in found.items() if not source] if lost else []
    ids = {_id(parse(store.repo.blob(left[path]) or b"", path).record, path): path for path in lost} if edited else {}
    return found | {path: ids.pop(_id(store.read(path).record, path), "") for path in edited}


def _id(record: Record | None, path: str) -> str:
    """The id of a record: the path's own where it states none, or cannot be read."""
    return record.id if record else path


def sources(store: Store, there: Collection[str]) -> frozenset[str]:
    """The paths at which HEAD has files that were moved, and that is not committed yet.

    Args:
        store: the parts.
        there: the paths of all files that stand in the work tree.
    """
    held = store.committed()
    new = {path: store.blob(path) or "" for path in there if path not in held}
    return frozenset(_sources(store, new, there, held).values())


def source(store: Store, path: str) -> str:
    """Where HEAD has the file that was moved to this path, and that is not committed yet; "" where none was."""
    if store.repo.head() is None or store.repo.item(store.files.named(path)) is not None:
        return ""
    new, there = {path: store.blob(path) or ""}, store.index.manifest()
    return _sources(store, new, there, store.committed()).get(path, "")
