"""What a change of the index amounts to, worked out before anything is written. Pure but for the caller's `load`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from filemem.changes import Change, Entry, Manifest
from filemem.documents import Doc
from filemem.index.fresh import Item, latest

Load = Callable[[str], Doc | None]  # path -> its document; None where there is none


@dataclass(frozen=True, slots=True)
class Work:
    """What the next generation shall hold.

    Args:
        before, entries: all files as the base has them, and afterwards.
        touched: the paths on which these may differ.
        docs: documents to put in.
        count: how many at most; 0 where only `entries` changed.
        gone: paths whose documents are to be taken out first.
        anew: take nothing over but vectors.
        day: today, in days since 1970.
    """

    before: Mapping[str, Entry]
    entries: Mapping[str, Entry]
    touched: Collection[str]
    docs: Iterable[Doc]
    count: int
    gone: Collection[str]
    anew: bool
    day: int


def plan(
    items: Iterable[Item],
    before: Mapping[str, Entry],
    changes: Iterable[Change],
    load: Load,
    seen: Manifest,
    *,
    anew: bool,
    day: int,
) -> Work:
    """Say what the next generation shall hold: what there was, what is pending, then the changes, the later winning.

    Args:
        items: the fresh folder.
        before: all files as the base has them.
        changes: what a look at the store found.
        load: makes the document of a path, or None.
        seen: the whole scan, or nothing; renews size and time where the content is the same.
        anew, day: see `Work`.
    """
    entries = dict(before)
    changed = {change.path: change.entry for change in changes}
    waiting = {path: item for path, item in latest(items).items() if path not in changed}
    for path, item in waiting.items():
        if item.pending is not None:
            entries[path] = item.entry or Entry(item.pending.doc.blob)
        else:
            entries.pop(path, None)
    for path, entry in changed.items():
        if entry is not None:
            entries[path] = entry
        else:
            entries.pop(path, None)
    renewed = [p for p, e in seen.items() if p in entries and entries[p] != e and entries[p].blob == e.blob]
    entries.update((path, seen[path]) for path in renewed)
    pending_docs = [item.pending.doc for item in waiting.values() if item.pending is not None]
    to_load = [path for path, entry in changed.items() if entry is not None]

    def docs() -> Iterator[Doc]:
        yield from pending_docs
        for path in to_load:
            doc = load(path)
            if doc is not None:
                if doc.blob != entries[path].blob:  # it changed since it was listed
                    entries[path] = Entry(doc.blob)
                yield doc

    count = len(pending_docs) + len(to_load)
    gone = () if anew else (*waiting, *changed)
    touched = {*waiting, *changed, *renewed}
    return Work(before, entries, touched, docs(), count, gone, anew, day)
