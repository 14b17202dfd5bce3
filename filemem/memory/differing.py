"""How the records of two commits differ, as a reader of each would see them.

Rule: a record is there where a scan would read its file: a regular one, named as records are, in no hidden folder, and
not forgotten. Whatever takes that away removes the record, also where its file still stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from filemem.files import is_listed
from filemem.memory import tombstones
from filemem.memory.origins import origins
from filemem.memory.store import Store
from filemem.record import parse
from filemem.repo.log import Row


def rows_of(store: Store, one: str, other: str) -> tuple[Row, ...]:
    """How the records of two commits differ, by store path."""
    inside = store.files.inside
    if one == other:
        return ()
    found = store.repo.history.between(one, other, store.files.store)
    named = (row._replace(before=inside(row.before), path=inside(row.path)) for row in found)
    rows = [row for each in named if (row := each.seen(is_listed(each.before), is_listed(each.path)))]
    marks = tombstones.at(store, one), tombstones.at(store, other)
    return tuple(_less_forgotten(store, rows, (one, other), marks) if any(marks) else rows)


def _less_forgotten(
    store: Store, rows: Sequence[Row], commits: tuple[str, str], marks: tuple[frozenset[str], frozenset[str]]
) -> Iterator[Row]:
    """The rows without what each side has forgotten, and rows for what only a tombstone hides, or shows again."""
    blobs = store.repo.revisions.blobs({blob for row in rows for blob in (row.old, row.new)})
    olds, news = set(), set()
    for row in rows:
        before, after = _mark(blobs, row.old, row.before), _mark(blobs, row.new, row.path)
        olds.add(before)
        news.add(after)
        seen = row.seen(before not in marks[0], after not in marks[1])
        if seen is not None:
            yield seen
    hidden, shown = marks[1] - marks[0] - olds, marks[0] - marks[1] - news
    if hidden or shown:  # a tombstone that came or went alone: whose it is, only the files themselves say
        touched = {path for row in rows for path in (row.before, row.path)}
        yield from _untouched(store, commits[0], touched, hidden, shown)


def _untouched(
    store: Store, commit: str, touched: Collection[str], hidden: frozenset[str], shown: frozenset[str]
) -> Iterator[Row]:
    listing = store.listing(store.repo.history_at(commit))
    blobs = store.repo.revisions.blobs(listing.values())
    births = origins(store).births
    for path, blob in listing.items():
        if not is_listed(path) or path in touched:
            continue
        mark, whole = (
            _mark(blobs, blob, path, births[path].name if path in births else path),
            Row("M", path, path, blob, blob),
        )
        row = whole.seen(mark not in shown, mark not in hidden) if mark in hidden | shown else None
        if row is not None:
            yield row


def _mark(blobs: Mapping[str, bytes], blob: str, path: str, first_path: str = "") -> str:
    """What the tombstone of a version of a record would be called; "" where it is none."""
    data = blobs.get(blob)
    record = parse(data, path, first_path).record if data is not None else None
    return tombstones.mark(record.id) if record is not None else ""
