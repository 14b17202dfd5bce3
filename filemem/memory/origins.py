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
from filemem.record import Record, parse
from filemem.repo import lives

_MOVED = 200  # files that are away, whose ids are looked at
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
    store: Store, new: Mapping[str, str], there: Collection[str], known: Mapping[str, Birth] | None = None
) -> dict[str, Birth]:
    """First commits of files that no commit has: of those that were moved here from where HEAD has them.

    Such a file has the bytes, or states the id, of one that HEAD has and that stands nowhere now.

    Args:
        store: the parts.
        new: files that may have been moved, path -> blob.
        there: all files that stand in the work tree.
        known: the first commits of all that HEAD has, where they were asked for already.

    Returns:
        An empty birth for a file that is new; nothing for one that HEAD has.
    """
    sources = _sources(store, new, there)
    if known is None:
        known = origins(store).births if any(sources.values()) else {}
    return {path: known.get(source, Birth()) for path, source in sources.items()}


def _sources(store: Store, new: Mapping[str, str], there: Collection[str]) -> dict[str, str]:
    """Where HEAD has each of the files that it does not have here, "" for nowhere; no file is the source of two."""
    listed = store.history.listing(store.files.store) if new and store.repo.head() else {}
    held = {store.files.inside(name): blob for name, blob in listed.items()}
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
    return any(_sources(store, {path: store.blob(path) or ""}, store.index.manifest()).values())


def born(first: lives.Birth, path: str) -> Birth:
    """A first commit as documents tell it; `path` is where the file was then, in the store."""
    made = first.commit
    return Birth(made.id, made.author, made.agent, made.at, path, made.reviewers, made.co_authors)


def edit_of(edit: lives.Edit) -> Edited:
    """A later commit as documents tell it."""
    return Edited(edit.commit.id, edit.commit.author, edit.commit.agent, edit.commit.at)
