"""What a branch took back by rewriting its history: records that were shared, and that nobody there has removed.

Rule: a version that was shared is accounted for where the branch has it, or a newer one, where a commit there replaced
or removed just that version, and where a tombstone there says that the record is forgotten. All else was taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.files import is_record
from filemem.memory import tombstones
from filemem.record import Record, parse

if TYPE_CHECKING:
    from filemem.memory.store import Store
    from filemem.repo.replaying import Local

_SHOWN = 10  # records that are named


class _Version(NamedTuple):
    """What commits made of a file: the blob it ends with ("" where they removed it), and the one before that."""

    blob: str
    old: str


def told(store: Store, withdrawn: Sequence[Local], local: Sequence[Local], theirs: Sequence[Local], tip: str) -> str:
    """Name the records that a branch took back, or "".

    Args:
        store: the parts.
        withdrawn: commits that were there once and are not any more.
        local: commits that are only here.
        theirs: commits that are only there.
        tip: the last commit there.
    """
    names = list(_taken_back(store, withdrawn, local, theirs, tip))
    if not names:
        return ""
    count = "1 record that was" if len(names) == 1 else f"{len(names)} records that were"
    more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{count} shared: {'; '.join(names[:_SHOWN])}{more}"


def _taken_back(
    store: Store, withdrawn: Sequence[Local], local: Sequence[Local], theirs: Sequence[Local], tip: str
) -> Iterator[str]:
    ours, there = _versions(store, withdrawn), _versions(store, theirs)
    older = {row.old for commit in withdrawn for row in commit.touched if row.old}
    settled = {row.old for commit in theirs for row in commit.touched if row.old}
    settled |= {row.old for commit in local for row in commit.touched if not row.new}
    wanted = {one.blob or one.old for one in (*ours.values(), *there.values())} - {""}
    blobs = store.repo.revisions.blobs(wanted) if ours else {}

    def read(path: str, oid: str) -> Record | None:
        data = blobs.get(oid)
        return parse(data, store.files.inside(path)).record if data is not None else None

    by_id = {one.id: version.blob for path, version in there.items() if (one := read(path, version.blob))}
    for path, version in ours.items():
        record = read(path, version.blob or version.old)
        if record is None or version.blob in settled:
            continue
        now = store.repo.sharing.blob_at(tip, path) or by_id.get(record.id, "")
        if now == version.blob or (now and now not in older) or tombstones.held(store, record.id, tip):
            continue
        what = "" if not now else ", which is back as it was before" if version.blob else ", which was removed"
        yield f"{record.title or path} ({record.id}){what}"


def _versions(store: Store, commits: Sequence[Local]) -> dict[str, _Version]:
    """What commits, oldest first, made of the record files that they touch."""
    found: dict[str, _Version] = {}
    for commit in commits:
        for row in commit.touched:
            if row.before != row.path and row.old:
                found.pop(row.before, None)
            if store.files.holds(row.path) and is_record(row.path.rpartition("/")[2]):
                found[row.path] = _Version(row.new, row.old)
    return found
