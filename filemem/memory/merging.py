"""What merging this branch into another would make of the memory: both as they are, and the merge of the two.

Rule: Git merges them (`filemem.repo.merging`), and the outcome is read as any commit is. What is not committed yet
counts as if it were, except for what no commit is to have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from filemem.errors import Conflict
from filemem.files import MAX_SIZE, is_listed, is_private
from filemem.memory import tombstones
from filemem.memory.identities import landing
from filemem.memory.origins import origins
from filemem.memory.store import Store
from filemem.memory.surveying import State
from filemem.record import Problem
from filemem.repo.merging import Clash
from filemem.repo.revisions import Moment

HEAD = "HEAD"
_WHY = {
    "contents": "changed on both sides",
    "binary": "changed on both sides",
    "modify/delete": "changed on one side and removed on the other",
    "rename/delete": "renamed on one side and removed on the other",
    "rename/rename": "renamed on both sides",
    "rename involved in collision": "renamed to where the other side has a file",
    "directory rename suggested": "in a folder that the other side has renamed",
    "file/directory": "a file on one side and a folder on the other",
    "distinct modes": "a file on one side and something else on the other",
}  # what Git calls a conflict -> what it is


class Merge(NamedTuple):
    """What merging this branch into another makes.

    Args:
        store: this memory in a repository of its own, whose HEAD is the merge.
        base: the commit that is merged into, in the history of the records.
        code: the same in the history of the code; "" where that has no commit yet.
        records: store paths of the files in which the merge differs from it.
        files: the files of the code in which it does.
        clashes: what Git cannot merge, and is gone on with as this branch has it.
    """

    store: Store
    base: str
    code: str
    records: frozenset[str]
    files: frozenset[str]
    clashes: tuple[Problem, ...]


@contextlib.contextmanager
def merging(store: Store, base: Moment, now: State) -> Iterator[Merge]:
    """Merge this branch into another, where nobody sees it.

    Args:
        store: the parts.
        base: the other one.
        now: this one, as it stands in the work tree.

    Raises:
        Conflict: the two have no history in common.
        BrokenStore: Git is older than 2.39.
    """
    code, own = _in_code(store, base), store.code is not store.repo
    with contextlib.ExitStack() as stack:
        try:
            repo, found = stack.enter_context(store.repo.merging(base.commit, _uncommitted(store, now)))
            coded = stack.enter_context(store.code.merging(code))[0] if own and code else repo
        except Conflict:
            shallow = "history is shallow: git fetch --unshallow; else " if store.code.history.boundary() else ""
            hint = f"{shallow}Git would not merge the two either: name another branch, or check without --base"
            raise Conflict(f"base: {base.name} and HEAD have no history in common", hint) from None
        merged = replace(store, repo=repo, code=store.code if own else repo)
        records = frozenset(map(store.files.inside, repo.history.differing(base.commit, [store.files.store])))
        files = coded.history.differing(code) if code else frozenset[str]()
        clashes = tuple(_clashes(store, found, now.data.keys() | now.tracked.keys()))
        yield Merge(merged, base.commit, code, records, files, clashes)


def states(merge: Merge, now: State) -> tuple[State, State]:
    """Return the base as it is, and the merge.

    Args:
        merge: of the two.
        now: this branch; what only the work tree has of it is no file of Git's.
    """
    store = merge.store
    base, merged = _state(store, merge.base), _state(store, store.repo.head() or HEAD)
    untracked = now.data.keys() - now.tracked.keys() - base.tracked.keys()
    return base, merged._replace(tracked={p: blob for p, blob in merged.tracked.items() if p not in untracked})


def _state(store: Store, commit: str) -> State:
    """The memory as a commit has it, one given by its id: of HEAD it is remembered what came of which name."""
    history = store.repo.history_at(commit)
    tracked = store.listing(history)
    records = {path: blob for path, blob in tracked.items() if is_listed(path)}
    store.repo.revisions.refuse_absent(tracked.values())
    blobs, past = store.repo.revisions.blobs(records.values()), origins(store, tip=commit)
    data = {path: blobs[blob] for path, blob in records.items() if len(blobs[blob]) <= MAX_SIZE}
    births = {path: birth for path, birth in past.births.items() if path in data}
    known = past._replace(births=births, removed=past.removed - data.keys())
    return State(data, tracked, known, tombstones.at(store, commit), landing(store, history))


def _clashes(store: Store, found: Iterable[Clash], here: Collection[str]) -> Iterator[Problem]:
    """What Git cannot merge of the memory, each at a file that this branch has, if there is one."""
    for clash in found:
        paths = [store.files.inside(path) for path in clash.paths if store.files.holds(path)]
        if paths:
            why = _WHY.get(clash.kind, clash.kind)
            text = f"{why}, and Git cannot merge the two: merge the base into this branch, and settle it there"
            yield Problem(next((p for p in paths if p in here), paths[0]), 1, "merge-conflict", "warning", text)


def _in_code(store: Store, moment: Moment) -> str:
    """What the base is in the code; "" where code beside the memory has no commit yet.

    What is no commit of the code, but a date or one of the memory's own branch, means what the code was then.
    """
    if store.code is store.repo:
        return moment.commit
    head = store.code.head()
    if head is None:
        return ""
    named = store.code.revisions.named(moment.name)
    if named is not None and named.commit != moment.commit:
        return named.commit
    line = store.code.revisions.line(head)
    return (line.by(moment.at) or Moment("", line.commits[0], line.at[0])).commit


def _uncommitted(store: Store, now: State) -> dict[str, bytes | None]:
    """What HEAD has otherwise: records as they stand in the work tree, and all else, what is private too, as staged.

    Returns:
        Bytes as Git would commit them, by path from the top; None for what is gone.
    """
    head = store.listing(store.repo.history)
    return {store.files.named(path): data for path, data in (*_written(store, now, head), *_staged(store, now, head))}


def _written(store: Store, now: State, head: Mapping[str, str]) -> Iterator[tuple[str, bytes | None]]:
    repo, named = store.repo, store.files.named
    for path, data in now.data.items():
        changed = not is_private(path) and repo.blob_id(data) != head.get(path)
        if changed and (path not in head or repo.edited(named(path), data)):
            old = repo.blob(head[path]) if path in head else None
            yield path, repo.conversion(named(path)).committed(data, old) if b"\r\n" in data else data
    left_out = {store.files.inside(path) for path in repo.left_out(store.files.store)}
    for path in head.keys() - now.data.keys() - left_out:
        # What is too large to be read in HEAD too is no other for being here.
        if _is_read(path) and (store.files.seen(path) is None or repo.blob(head[path], MAX_SIZE) is not None):
            yield path, None


def _staged(store: Store, now: State, head: Mapping[str, str]) -> Iterator[tuple[str, bytes | None]]:
    for path in head.keys() | now.tracked.keys():
        blob = now.tracked.get(path, "")
        if not _is_read(path) and blob != head.get(path, ""):
            item = store.repo.item(store.files.named(path))
            if not item or item.oid != blob:  # a link is in no listing of files
                yield path, store.repo.blob(blob, MAX_SIZE)
    marks = {f"{tombstones.FOLDER}/{mark}" for mark in now.marks}
    before = {path for path in head if path.startswith(f"{tombstones.FOLDER}/")}
    yield from dict.fromkeys(before - marks).items()
    yield from dict.fromkeys(marks - before - now.tracked.keys(), b"").items()


def _is_read(path: str) -> bool:
    """Whether the work tree says what a file holds that a commit may have."""
    return is_listed(path) and not is_private(path)
