"""How the files of a store came to be, as Git tells it: their first commits, what changed them since, what is gone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from filemem.documents import Birth, Edited
from filemem.files import is_listed, is_record
from filemem.memory.store import Store
from filemem.memory.versions import Versions, alike
from filemem.record import Record, derived_id, namesake, parse, short_id
from filemem.repo import lives

if TYPE_CHECKING:
    from filemem.repo.history import History

Takings = Mapping[str, Sequence[Sequence[str]]]
_MOVED = 200  # files that are away, whose ids are looked at
_ENDED = "ended-4"  # the memo: see `_Remembered`


class Origins(NamedTuple):
    """What Git says of the files of a store; all paths are relative to it.

    Args:
        births: first commits, by path.
        removed: paths of files that are gone.
        touched: paths of all that commits brought or changed.
        edits: what changed files after their first commit, by path, oldest first.
        ended: paths of all that commits removed, whether they came back or not.
        left: ids of all that commits removed, likewise.
        ids: those that the files of `births` state, by path.
        lost: the last versions of the files that are gone, the ones in whose place others stand first.
        began: how many files without an id began at a path.
    """

    births: dict[str, Birth]
    removed: frozenset[str]
    touched: frozenset[str] = frozenset()
    edits: Mapping[str, tuple[lives.Edit, ...]] = MappingProxyType({})
    ended: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    ids: Mapping[str, str] = MappingProxyType({})
    lost: Sequence[lives.Removed] = ()
    began: Mapping[str, int] = MappingProxyType({})

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
    seen = store.repo.history_at(tip) if tip else store.history
    if not (commit := _commit(store, seen)):
        return Origins({}, frozenset())
    walk = seen.walk(store.files.store, since, versions := Versions(store))
    edits = {inside(path): tuple(found) for path, found in walk.edits.items()}
    births = {inside(path): born(b, inside(b.first_path))._replace(nth=b.nth) for path, b in walk.births.items()}
    births = {path: birth.edited(map(edit_of, edits.get(path, ()))) for path, birth in births.items()}
    ids = {inside(path): one for path, one in walk.ids.items()}
    if versions.unknown:
        unknown = frozenset(map(inside, versions.unknown))
        births = {p: b._replace(unsure=_doubtful(unknown, {p, b.path}, ids.get(p, ""))) for p, b in births.items()}
    removed, touched, ended = (frozenset(map(inside, paths)) for paths in (walk.removed, walk.touched, walk.ended))
    takings = {} if since else {inside(path): _known(store, all_) for path, all_ in walk.taken.items()}
    if not since:
        store.takings = commit, takings
    if seen.tip == "HEAD":
        _keep(store, _Remembered(ended, walk.left, takings, "" if since else commit))
    lost = (*walk.replaced, *walk.removed.values())
    began = {inside(path): len(commits) for path, commits in walk.began.items()}
    return Origins(births, removed, touched, edits, ended, walk.left, ids, lost, began)


def _commit(store: Store, seen: History) -> str:
    """The commit from which history is seen; "" where there is none yet."""
    return store.repo.head() or "" if seen.tip == "HEAD" else seen.tip


def _doubtful(unknown: Collection[str], paths: Collection[str], stated: str) -> bool:
    """Whether versions that are not here may be of a record, and older than what is known of it.

    Args:
        unknown: where they stood.
        paths: where the record stands, and where it stood first as far as that is known.
        stated: the id that it states.
    """
    if not stated:
        return not set(unknown).isdisjoint(paths)
    named = {path: posixpath.basename(path).removesuffix(".md").rpartition("-")[2] for path in unknown}
    # The names that filemem gives tell whose version it is; of any other it may have been any record's.
    return any(
        path not in paths if short == short_id(stated) else len(short) != len(short_id(stated))
        for path, short in named.items()
    )


def carried(
    store: Store, new: Mapping[str, str], there: Collection[str], known: Origins | None = None
) -> dict[str, Birth]:
    """First commits of what no commit has: of files that were moved here from where HEAD has them.

    Such a file has the bytes, or states the id, of one that HEAD has and that stands nowhere now. Of a file without an
    id under a name that another had, what it will be known by.

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
    ended = _remembered(store).ended if sources else None
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


def were_there(store: Store, news: Origins, paths: Collection[str]) -> bool:
    """Whether one of these files may have been there before, so that only all of history tells its first commit.

    Args:
        store: the parts.
        news: what a stretch of history shows.
        paths: files that it brought, by its own account.
    """
    if not paths:
        return False
    known, ids = _remembered(store), {news.ids[path] for path in paths if path in news.ids}
    if known.ended is None or not (known.ended | news.ended).isdisjoint(paths):
        return True
    if not (known.left | news.left).isdisjoint(ids):
        return True
    return any(node.path not in paths for node in store.lookup("id", ids))


def any_ended(store: Store) -> bool:
    """Whether any file or id was ever removed from where it stood, as far as that is known."""
    known = _remembered(store)
    return known.ended is None or bool(known.ended or known.left)


def taken(store: Store) -> Takings:
    """Who had the names that files were renamed or removed from: by path, commits and the ids that took it with them.

    The last one may have the name still.
    """
    commit = _commit(store, store.history)
    if commit and store.takings[0] != commit:
        known = _remembered(store)
        if known.commit == commit or _same_still(store, known):
            store.takings = commit, known.takings
        else:
            origins(store)
    return store.takings[1] if commit else {}


def _same_still(store: Store, known: _Remembered) -> bool:
    """Whether no name was given on since, up to the commit from which the store is seen."""
    if not known.commit or not store.history.is_ancestor(known.commit):
        return False
    news = origins(store, known.commit)
    return not news.ended and news.touched.isdisjoint(known.takings)


def passed_on(store: Store, news: Origins | None = None) -> Collection[str]:
    """The paths of which it may be told otherwise who had them, now that the tip is another commit.

    Args:
        store: the parts.
        news: the stretch of history by which the tip went onward; None where it went elsewhere.
    """
    ended = _remembered(store).ended or frozenset()
    return ended | taken(store).keys() if news is None else news.ended | (news.touched & ended)


def shared(store: Store) -> frozenset[str]:
    """The names that were several files', one after another."""
    return frozenset(path for path, takings in taken(store).items() if len({owner for _, owner in takings}) > 1)


class _Remembered(NamedTuple):
    """What the memo tells.

    Args:
        ended: every path that was ever found to have been removed, on whatever branch; None where that is not known.
        left: every id, likewise.
        takings: who had the names that were given on, as of a commit.
        commit: which one; "" where that is not known.
    """

    ended: frozenset[str] | None = None
    left: frozenset[str] = frozenset()
    takings: Takings = MappingProxyType({})
    commit: str = ""


def _remembered(store: Store) -> _Remembered:
    try:
        ended, left, takings, commit = json.loads(store.memo(_ENDED).read() or b"null")
        return _Remembered(frozenset(ended), frozenset(left), takings, commit)
    except (ValueError, TypeError):
        return _Remembered()


def _known(store: Store, takings: Iterable[lives.Taking]) -> list[list[str]]:
    inside = store.files.inside
    return [[t.commit, t.stated or derived_id(namesake(inside(t.first_path), t.nth))] for t in takings]


def _keep(store: Store, found: _Remembered) -> None:
    """Add what a walk found to what is remembered; without a commit it was not one through all of history."""
    if not (found.commit or found.ended or found.left):
        return
    known = _remembered(store)
    if known.ended is None and not found.commit:
        return
    ended, left = (found.ended or frozenset()) | (known.ended or frozenset()), found.left | known.left
    news = (found if found.commit else known)._replace(ended=ended, left=left)
    if news != known:
        store.memo(_ENDED).write(json.dumps([sorted(ended), sorted(left), news.takings, news.commit]).encode())


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
    new, there = {path: store.blob(path) or ""}, store.index.manifest()
    return any(_sources(store, new, there, store.listing(store.history)).values())


def born(first: lives.Birth, path: str) -> Birth:
    """A first commit as documents tell it; `path` is where the file was then, in the store."""
    made = first.commit
    return Birth(made.id, made.author, made.agent, made.at, path, made.reviewers, made.co_authors)


def edit_of(edit: lives.Edit) -> Edited:
    """A later commit as documents tell it."""
    return Edited(edit.commit.id, edit.commit.author, edit.commit.agent, edit.commit.at)
