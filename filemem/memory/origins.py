"""How the files of a store came to be, as Git tells it: their first commits, what changed them since, what is gone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from filemem.documents import Birth, Edited
from filemem.files import is_listed, is_record
from filemem.memory.store import Store
from filemem.memory.versions import Versions
from filemem.record import Record, parse
from filemem.repo import lives

_MOVED = 200  # files that are away, whose ids are looked at
_ENDED = "ended-2"  # the memo of paths and ids that commits removed, on whatever branch


class Origins(NamedTuple):
    """What Git says of the files of a store; all paths are relative to it.

    Args:
        births: first commits, by path.
        removed: paths of files that are gone.
        touched: paths of all that commits brought or changed.
        edits: what changed files after their first commit, by path, oldest first.
        ended: paths of all that commits removed, whether they came back or not, and the ids that stood there.
        ids: those that the files of `births` state, by path.
    """

    births: dict[str, Birth]
    removed: frozenset[str]
    touched: frozenset[str] = frozenset()
    edits: Mapping[str, tuple[lives.Edit, ...]] = MappingProxyType({})
    ended: frozenset[str] = frozenset()
    ids: Mapping[str, str] = MappingProxyType({})

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
    walk = seen.walk(store.files.store, since, Versions(store))
    edits = {inside(path): tuple(found) for path, found in walk.edits.items()}
    births = {inside(path): born(b, inside(b.first_path)) for path, b in walk.births.items()}
    births = {path: birth.edited(map(edit_of, edits.get(path, ()))) for path, birth in births.items()}
    removed, touched, ended = (frozenset(map(inside, paths)) for paths in (walk.removed, walk.touched, walk.ended))
    ended |= walk.left
    if seen.tip == "HEAD":
        _keep(store, ended, whole=not since)
    return Origins(births, removed, touched, edits, ended, {inside(path): one for path, one in walk.ids.items()})


def carried(
    store: Store, new: Mapping[str, str], there: Collection[str], known: Mapping[str, Birth] | None = None
) -> dict[str, Birth]:
    """First commits of what no commit has: of files that were moved here from where HEAD has them.

    Such a file has the bytes, or states the id, of one that HEAD has and that stands nowhere now.

    Args:
        store: the parts.
        new: files that may have been moved, or hold another record than in HEAD, path -> blob.
        there: all files that stand in the work tree.
        known: the first commits of all that HEAD has, where they were asked for already.

    Returns:
        An empty birth for a record that is new; nothing for one that HEAD has there.
    """
    held = _held(store) if new and store.repo.head() else {}
    sources = _sources(store, new, there, held) | dict.fromkeys(_overwritten(store, new, held), "")
    if known is None:
        known = origins(store).births if any(sources.values()) else {}
    return {path: known.get(source, Birth()) for path, source in sources.items()}


def _held(store: Store) -> dict[str, str]:
    """What HEAD has, path -> blob."""
    return {store.files.inside(name): blob for name, blob in store.history.listing(store.files.store).items()}


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


def were_there(store: Store, news: Origins, paths: Collection[str]) -> bool:
    """Whether one of these files may have been there before, so that only all of history tells its first commit.

    Args:
        store: the parts.
        news: what a stretch of history shows.
        paths: files that it brought, by its own account.
    """
    if not paths:
        return False
    known, ids = _ended(store), {news.ids[path] for path in paths if path in news.ids}
    if known is None or not (known | news.ended).isdisjoint({*paths, *ids}):
        return True
    return any(node.path not in paths for node in store.lookup("id", ids))


def any_ended(store: Store) -> bool:
    """Whether any file or id was ever removed from where it stood, as far as that is known."""
    return _ended(store) != frozenset()


def _ended(store: Store) -> frozenset[str] | None:
    """Every path and id that was ever found to have been removed; None where that is not known."""
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


def is_moved(store: Store, path: str) -> bool:
    """Whether a file was moved to this path, and that is not committed yet."""
    if store.repo.head() is None or store.repo.item(store.files.named(path)) is not None:
        return False
    return any(_sources(store, {path: store.blob(path) or ""}, store.index.manifest(), _held(store)).values())


def born(first: lives.Birth, path: str) -> Birth:
    """A first commit as documents tell it; `path` is where the file was then, in the store."""
    made = first.commit
    return Birth(made.id, made.author, made.agent, made.at, path, made.reviewers, made.co_authors)


def edit_of(edit: lives.Edit) -> Edited:
    """A later commit as documents tell it."""
    return Edited(edit.commit.id, edit.commit.author, edit.commit.agent, edit.commit.at)
