"""What the files of a memory come to where a branch is merged into its base: as Git merges them, file by file.

Rule: what one side alone touched is as that side has it; what both touched is merged line by line, under the name that
either gave it. Where Git would stop for a conflict that is said, and the branch's own version is gone on with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from filemem.files import is_listed
from filemem.memory.reviewing import Since
from filemem.memory.store import Store
from filemem.record import Problem

_SETTLE = "merge the base into this branch, and settle it there"


class Sides(NamedTuple):
    """A file that both sides touched: its path here and there, "" where it is gone, and its bytes, None where no record
    can be read there."""

    path: str
    ours: str
    theirs: str
    old: bytes
    here: bytes | None
    there: bytes | None


class Woven(NamedTuple):
    """The records of both.

    Args:
        data: their bytes by path.
        gone: paths that either side has and the merge has not.
        clashes: what Git cannot merge.
    """

    data: Mapping[str, bytes]
    gone: frozenset[str]
    clashes: tuple[Problem, ...]


def weave(store: Store, left: Since, here: Mapping[str, bytes], there: Mapping[str, bytes]) -> Woven:
    """Merge the records of a branch with those of its base.

    Args:
        store: the parts.
        left: where the branch left its base, and what it touched.
        here, there: bytes by path, of the branch and of the base as it is by now.
    """
    data = {path: held for path, held in there.items() if path not in left.records}
    data |= {path: held for path, held in here.items() if path in left.records}
    both = tuple(_both(store, left, here, there))
    for one in both:
        data.pop(one.ours, None)
        data.pop(one.theirs, None)
    clashes = []
    for one in both:
        path, held, why = _merged(store, one)
        if held is not None:
            data[path] = held
        if why:
            clashes.append(_clash(path, why))
    clashes += [_clash(path, "added on both sides") for path in _added(store, left, here, there, both)]
    gone = frozenset(path for one in both for path in (one.path, one.ours, one.theirs)) - data.keys()
    return Woven(data, gone, tuple(clashes))


def _both(store: Store, left: Since, here: Mapping[str, bytes], there: Mapping[str, bytes]) -> Iterator[Sides]:
    """The files that both sides touched since they parted."""
    history, inside = store.repo.history, store.files.inside
    rows = history.between(left.commit, left.tip, store.files.store)
    theirs = {inside(row.before): row for row in rows if row.status != "A" and inside(row.before) in left.records}
    if not theirs:
        return
    moved_here = _moves(store, left.commit, "HEAD", theirs)
    moved_there = _moves(store, left.commit, left.tip, theirs)
    blobs = store.repo.revisions.blobs({row.old for row in theirs.values()})
    for path, row in sorted(theirs.items()):
        ours, other = moved_here.get(path, path), moved_there.get(path, path)
        if is_listed(path) and row.old in blobs:
            yield Sides(path, ours, other, blobs[row.old], here.get(ours), there.get(other))


def _moves(store: Store, one: str, other: str, wanted: Collection[str]) -> dict[str, str]:
    """Where files of one commit stand in another: path -> path, "" where they are gone; those unmoved are left out."""
    history, inside = store.repo.history, store.files.inside
    rows = history.between(one, other, store.files.store)
    if any(row.status == "D" and inside(row.before) in wanted for row in rows):
        rows = history.between(one, other)  # it may have been moved out of the store
    moves = {inside(row.before): inside(row.path) if row.status == "R" else "" for row in rows if row.status in "RD"}
    return {path: moves[path] for path in wanted if path in moves}


def _merged(store: Store, one: Sides) -> tuple[str, bytes | None, str]:
    """Path and bytes of the merged file, None where it is no record, and why Git would stop."""
    path = one.theirs if one.ours == one.path else one.ours
    if one.here is None and one.there is None:
        return path, None, ""
    if not one.ours or not one.theirs:
        gone, changed = ("here", "there") if not one.ours else ("there", "here")
        kept = one.there if one.here is None else one.here
        return one.theirs or one.ours, kept, f"removed {gone} and changed {changed}"
    if one.here is None or one.there is None:
        return path, None, ""  # one side made something of it that is no record, and the merge follows
    why = "" if one.path in (one.ours, one.theirs) or one.ours == one.theirs else "renamed on both sides"
    if one.old in (one.here, one.there) or one.here == one.there:
        return path, one.there if one.here == one.old else one.here, why
    held = store.repo.merged(one.old, one.here, one.there)
    return path, one.here if held is None else held, why or ("changed on both sides" if held is None else "")


def _added(
    store: Store, left: Since, here: Mapping[str, bytes], there: Mapping[str, bytes], both: Collection[Sides]
) -> list[str]:
    """The paths at which each side has made a file of its own."""
    known = {one.ours for one in both if one.ours == one.theirs}
    held = {path for path in left.records & here.keys() & there.keys() - known if here[path] != there[path]}
    if not held:
        return []
    before = {store.files.inside(path) for path in store.repo.history.listing(store.files.store, left.commit)}
    return sorted(held - before)


def _clash(path: str, why: str) -> Problem:
    return Problem(path, 1, "merge-conflict", "warning", f"{why}, and Git cannot merge the two: {_SETTLE}")
