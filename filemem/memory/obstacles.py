"""Why records cannot be read although there may be some: each with what brings them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore
from filemem.files import is_record
from filemem.memory import tombstones
from filemem.record import parse
from filemem.repo import REMOVE

if TYPE_CHECKING:
    from filemem.memory.store import Store
    from filemem.repo import Repo


def gone(store: Store) -> str:
    """What brings the store back where it was removed from the work tree, or ""."""
    if store.folder.exists() or store.repo.item(store.files.store) is None:
        return ""
    brings = _restore(store, lost(store), store.files.store)
    return f"{store.name} is gone from the work tree, though HEAD has it: {brings}"


def emptied(store: Store) -> str:
    """How many records HEAD has where none stands in the work tree, and what brings them back, or ""."""
    if not store.index.sound or not store.index.empty or not (found := lost(store)):
        return ""
    told = "1 record is" if len(found) == 1 else f"{len(found)} records are"
    return f"{told} in HEAD and gone from the work tree: {_restore(store, found, store.files.store)}"


def lost(store: Store, standing: Collection[str] = ()) -> list[str]:
    """The records that HEAD has and the work tree has not, by path, where no command of ours took them away.

    Args:
        store: the parts.
        standing: paths at which something is known to stand.
    """
    inside, journal = store.files.inside, store.repo.journal
    away = {inside(path) for path in store.repo.left_out(store.files.store)}
    ours = (one.operation for one in journal.entries() if one.operation.worktree == journal.worktree)
    away |= {inside(one.path) for one in ours if one.kind == REMOVE}
    held, marks = store.committed(), store.tombstones
    found = [path for path in held if path not in away and path not in standing and not store.files.exists(path)]
    blobs = store.repo.revisions.blobs(held[path] for path in found) if found and marks else {}
    read = {path: parse(blobs[held[path]], path).record for path in found if held[path] in blobs}
    return [path for path in found if not ((one := read.get(path)) and tombstones.forgotten(one.id, marks))]


def restoring(store: Store, path: str, staged: Collection[str] | None = None) -> str:
    """The command that brings a record back as HEAD has it.

    Args:
        store: the parts.
        path: of the record.
        staged: what Git's index has, by path from the top, where it was asked already.
    """
    return _restore(store, [path], store.files.named(path), staged)


def _restore(store: Store, found: Sequence[str], where: str, staged: Collection[str] | None = None) -> str:
    """The command that brings records back as HEAD has them, all below one path from the top of their repository."""
    known = store.repo.index.entries([where]) if staged is None else staged
    flags = "" if all(store.files.named(path) in known for path in found) else " --staged --worktree"
    return f"{store.repo.places.by_hand} restore{flags} {shlex.quote(where)}"


def unfilled(store: Store) -> str:
    """What fills the store where it is a submodule that is not checked out, or ""."""
    return unfilled_in(store.repo, store.files.store, store.name)


def unfilled_in(repo: Repo, folder: str, shown: str) -> str:
    """What fills a folder of the work tree where it is a submodule that is not checked out, or ""."""
    try:
        if any((repo.work_tree / folder).iterdir()):
            return ""
    except OSError:  # no folder, or one that a checkout takes away
        return ""
    item = repo.item(folder)
    submodule = item is not None and item.mode == b"160000"
    fills = f"{repo.places.by_hand} submodule update --init {shlex.quote(folder)}"
    return f"{shown} is a submodule: {fills}" if submodule else ""


def refuse_unfilled(why: str, so: str = "") -> None:
    """Refuse what needs a submodule that is not checked out.

    Args:
        why: what fills it, as `unfilled` says it; "" where it is here.
        so: what came of that, for the beginning of the sentence.

    Raises:
        BrokenStore: says what fills it.
    """
    if why:
        missing, _, brings = why.partition(": ")
        raise BrokenStore(f"{so}{missing} that is not here", brings)


def unseen(store: Store) -> str:
    """How many records a sparse checkout keeps from being read, and what brings them, or ""."""
    count = sum(is_record(path.rpartition("/")[2]) for path in store.repo.left_out(store.files.store))
    if not count:
        return ""
    told = "1 record is" if count == 1 else f"{count} records are"
    return f"{told} in HEAD but outside the sparse checkout: {widening(store)}"


def widening(store: Store) -> str:
    """The command that brings a store which a sparse checkout leaves out."""
    return f"{store.repo.places.by_hand} sparse-checkout add {shlex.quote(store.files.store)}"


def ignored(repo: Repo, folder: str) -> str:
    """That records which are saved in a folder of the work tree stay uncommitted, and by which rule, or ""."""
    rule = repo.ignored(posixpath.normpath(f"{folder}/decisions/a.md"))
    return f"{folder} is ignored by {rule}; what is saved there stays uncommitted until that is gone" if rule else ""
