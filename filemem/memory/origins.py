"""How the files of a store came to be, as Git tells it: their first commits, what changed them since, what is gone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from filemem.documents import Birth, Edited
from filemem.files import is_record
from filemem.memory.store import Store
from filemem.record import parse
from filemem.repo import lives

_ENDED = "ended"  # the memo of paths that commits removed, on whatever branch


class Origins(NamedTuple):
    """What Git says of the files of a store; all paths are relative to it.

    Args:
        births: first commits, by path.
        removed: paths of files that are gone.
        touched: paths of all that commits brought or changed.
        edits: what changed files after their first commit, by path, oldest first.
        ended: paths of all that commits removed, whether they came back or not.
    """

    births: dict[str, Birth]
    removed: frozenset[str]
    touched: frozenset[str] = frozenset()
    edits: Mapping[str, tuple[lives.Edit, ...]] = MappingProxyType({})
    ended: frozenset[str] = frozenset()

    def known(self, births: Mapping[str, Birth]) -> dict[str, Birth]:
        """Births of records that were there before, with what changed them in this stretch of history."""
        return {
            path: births[path].edited(map(edit_of, found))
            for path, found in self.edits.items()
            if path in births and path not in self.births
        }


def origins(store: Store, since: str = "", *, tip: str = "") -> Origins:
    """Ask Git of all files of a store.

    Args:
        store: the parts.
        since: only what happened after this commit.
        tip: the commit from which it is seen; what is checked out where none is given.
    """
    inside = store.files.inside
    if store.repo.head() is None:
        return Origins({}, frozenset())
    seen = store.repo.history_at(tip) if tip else store.history
    walk = seen.walk(store.files.store, since, same(store))
    edits = {inside(path): tuple(found) for path, found in walk.edits.items()}
    births = {inside(path): born(b, inside(b.first_path)) for path, b in walk.births.items()}
    births = {path: birth.edited(map(edit_of, edits.get(path, ()))) for path, birth in births.items()}
    removed, touched, ended = (frozenset(map(inside, paths)) for paths in (walk.removed, walk.touched, walk.ended))
    if seen.tip == "HEAD":
        _keep(store, ended, whole=not since)
    return Origins(births, removed, touched, edits, ended)


def carried(
    store: Store,
    new: Mapping[str, str],
    there: Collection[str],
    *,
    before: Mapping[str, str] = MappingProxyType({}),
    known: Mapping[str, Birth] | None = None,
) -> dict[str, Birth]:
    """First commits of files that were moved, and not committed since: HEAD has their bytes where nothing stands now.

    Args:
        store: the parts.
        new: files that no commit has, path -> blob.
        there: all files that stand in the work tree.
        before: path -> blob, as files stood before.
        known: the first commits of all that HEAD has, where they were asked for already.
    """
    listed = store.history.listing(store.files.store) if new and store.repo.head() else {}
    left = {path: blob for name, blob in listed.items() if (path := store.files.inside(name)) not in there}
    gone: dict[str, list[str]] = {}
    for path in sorted(left):
        gone.setdefault(before.get(path, left[path]), []).append(path)
    if known is None:
        known = origins(store).births if any(blob in gone for blob in new.values()) else {}
    found = {}
    for path in sorted(new):
        alike = gone.get(new[path], [])
        if alike:  # of several with the same bytes, the one that keeps its name
            alike.remove(source := max(alike, key=lambda one: posixpath.basename(one) == posixpath.basename(path)))
            found[path] = known.get(source, Birth())
    return found


def were_there(store: Store, news: Origins, paths: Collection[str]) -> bool:
    """Whether one of these paths may have had a file before, so that only all of history tells its first commit.

    Args:
        store: the parts.
        news: what a stretch of history shows.
        paths: files that it brought, by its own account.
    """
    known = _ended(store) if paths else frozenset[str]()
    return known is None or not (known | news.ended).isdisjoint(paths)


def _ended(store: Store) -> frozenset[str] | None:
    """Every path that was ever found to have been removed; None where that is not known."""
    try:
        return frozenset(json.loads(store.memo(_ENDED).read() or b"null"))
    except (ValueError, TypeError):
        return None


def _keep(store: Store, ended: frozenset[str], *, whole: bool) -> None:
    known = _ended(store) if whole or ended else None
    if (whole and known is None) or (known is not None and not known.issuperset(ended)):
        store.memo(_ENDED).write(json.dumps(sorted(ended | (known or frozenset()))).encode())


def brought(store: Store, commits: Collection[str]) -> dict[str, int]:
    """How many records some commits brought: one that brought several is a squash or an import, and decided none."""
    if not commits:
        return {}
    how = ("--no-walk=unsorted", "-m", "-M", "--diff-filter=A")
    told = store.history.rows(*how, *sorted(commits), "--", store.files.store)
    return {commit.id: sum(is_record(posixpath.basename(row.path)) for row in rows) for commit, rows in told}


def same(store: Store) -> lives.Same:
    """Whether a file that stands at a path again is the record that was removed there: by its id, which is the path's
    own where it states none; also where either cannot be read.
    """

    def asked(path: str, before: str, after: str) -> bool:
        if before == after or not path.endswith(".md"):
            return True
        texts = [store.repo.blob(one) for one in (before, after)]
        records = [parse(text, store.files.inside(path)).record for text in texts if text is not None]
        return len({one.id for one in records if one}) < 2

    return asked


def is_moved(store: Store, path: str) -> bool:
    """Whether a file was moved to this path, and that is not committed yet."""
    if store.repo.head() is None or store.repo.item(store.files.named(path)) is not None:
        return False
    return bool(carried(store, {path: store.blob(path) or ""}, store.index.manifest(), known={}))


def born(first: lives.Birth, path: str) -> Birth:
    """A first commit as documents tell it; `path` is where the file was then, in the store."""
    made = first.commit
    return Birth(made.id, made.author, made.agent, made.at, path, made.reviewers, made.co_authors)


def edit_of(edit: lives.Edit) -> Edited:
    """A later commit as documents tell it."""
    return Edited(edit.commit.id, edit.commit.author, edit.commit.agent, edit.commit.at)
