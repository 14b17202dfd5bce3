"""How the files of a store came to be, as Git tells it: their first commits, what changed them since, what is gone."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from filemem.documents import Birth, Edited
from filemem.files import is_record
from filemem.memory.store import Store
from filemem.record import derived_id, namesake, short_id
from filemem.repo import lives

if TYPE_CHECKING:
    from filemem.repo.history import History

Takings = Mapping[str, Sequence[Sequence[str]]]
_ENDED = "ended-4"  # the memo: see `Remembered`


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
        given_up: paths at which a merge left one side's edits for the version of another.
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
    given_up: frozenset[str] = frozenset()

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
    # Not HEAD, which may be moved meanwhile: what is remembered of this commit must be of this one.
    walk = seen._replace(tip=commit).walk(store.files.store, since, versions := store.versions())
    edits = {inside(path): tuple(found) for path, found in walk.edits.items()}
    births = {inside(path): born(b, inside(b.first_path)) for path, b in walk.births.items()}
    births = {path: birth.edited(map(edit_of, edits.get(path, ()))) for path, birth in births.items()}
    ids = {inside(path): one for path, one in walk.ids.items()}
    if versions.unknown:
        unknown = frozenset(map(inside, versions.unknown))
        births = {p: b._replace(unsure=_doubtful(unknown, {p, b.path}, ids.get(p, ""))) for p, b in births.items()}
    cut = seen.boundary()
    births |= {p: b._replace(unsure=True) for p, b in births.items() if not b.author and b.commit not in cut}
    removed, touched, ended = (frozenset(map(inside, paths)) for paths in (walk.removed, walk.touched, walk.ended))
    takings = {} if since else {inside(path): _known(store, all_) for path, all_ in walk.taken.items()}
    if not since:
        store.takings = commit, takings
    if seen.tip == "HEAD":
        _keep(store, Remembered(ended, walk.left, takings, "" if since else commit))
    lost = (*walk.replaced, *walk.removed.values())
    began = {inside(path): len(commits) for path, commits in walk.began.items()}
    given_up = frozenset(map(inside, walk.given_up))
    return Origins(births, removed, touched, edits, ended, walk.left, ids, lost, began, given_up)


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


def were_there(store: Store, news: Origins, paths: Collection[str]) -> bool:
    """Whether one of these files may have been there before, so that only all of history tells its first commit.

    Args:
        store: the parts.
        news: what a stretch of history shows.
        paths: files that it brought, by its own account.
    """
    if not paths:
        return False
    known, ids = remembered(store), {news.ids[path] for path in paths if path in news.ids}
    if known.ended is None or not (known.ended | news.ended).isdisjoint(paths):
        return True
    if not (known.left | news.left).isdisjoint(ids):
        return True
    return any(node.path not in paths for node in store.lookup("id", ids))


def any_ended(store: Store) -> bool:
    """Whether any file or id was ever removed from where it stood, as far as that is known."""
    known = remembered(store)
    return known.ended is None or bool(known.ended or known.left)


def taken(store: Store) -> Takings:
    """Who had the names that files were renamed or removed from: by path, commits and the ids that took it with them.

    The last one may have the name still.
    """
    commit = _commit(store, store.history)
    if commit and store.takings[0] != commit:
        known = remembered(store)
        if known.commit == commit or _same_still(store, known):
            store.takings = commit, known.takings
        else:
            origins(store)
    return store.takings[1] if commit else {}


def _same_still(store: Store, known: Remembered) -> bool:
    """Whether no name was given on since, up to the commit from which the store is seen; if so, it is remembered."""
    commit = _commit(store, store.history)
    if not known.commit or not store.history.on_line(known.commit):
        return False
    news = origins(store, known.commit)
    same = not news.ended and news.touched.isdisjoint(known.takings)
    if same and store.tip == "HEAD" and commit == store.repo.head():
        _keep(store, known._replace(left=known.left | news.left, commit=commit))
    return same


def all_ended(store: Store) -> Remembered | None:
    """What was ever removed up to the commit from which the store is seen, or None where all of history must tell."""
    commit, known = _commit(store, store.history), remembered(store)
    here = commit and commit == known.commit and known.ended is not None
    return known if here and not store.repo.partial() else None


def passed_on(store: Store, news: Origins | None = None) -> Collection[str]:
    """The paths of which it may be told otherwise who had them, now that the tip is another commit.

    Args:
        store: the parts.
        news: the stretch of history by which the tip went onward; None where it went elsewhere.
    """
    ended = remembered(store).ended or frozenset()
    return ended | taken(store).keys() if news is None else news.ended | (news.touched & ended)


def shared(store: Store) -> frozenset[str]:
    """The names that were several files', one after another."""
    return frozenset(path for path, takings in taken(store).items() if len({owner for _, owner in takings}) > 1)


class Remembered(NamedTuple):
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


def remembered(store: Store) -> Remembered:
    """What earlier walks found to have ended; nothing where that cannot be read."""
    try:
        ended, left, takings, commit = json.loads(store.memo(_ENDED).read() or b"null")
        return Remembered(frozenset(ended), frozenset(left), takings, commit)
    except (ValueError, TypeError):
        return Remembered()


def _known(store: Store, takings: Iterable[lives.Taking]) -> list[list[str]]:
    inside = store.files.inside
    return [[t.commit, t.stated or derived_id(namesake(inside(t.first_path), t.nth))] for t in takings]


def _keep(store: Store, found: Remembered) -> None:
    """Add what a walk found to what is remembered; without a commit it was not one through all of history."""
    if not (found.commit or found.ended or found.left):
        return
    known = remembered(store)
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


def born(first: lives.Birth, path: str) -> Birth:
    """A first commit as documents tell it; `path` is where the file was then, in the store."""
    made = first.commit
    return Birth(made.id, made.author, made.agent, made.at, path, made.reviewers, made.co_authors, nth=first.nth)


def edit_of(edit: lives.Edit) -> Edited:
    """A later commit as documents tell it."""
    return Edited(edit.commit.id, edit.commit.author, edit.commit.agent, edit.commit.at)
