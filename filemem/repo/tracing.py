"""The versions of files, newest first: through renames, over gaps, and beside branches that had the same file.

Rule: Git tells of names, filemem of records. A file is followed as long as it is the same record, under whatever name;
what another branch had under its name is another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from filemem.repo import treeless
from filemem.repo.beside import listed, of_all_sides, side_by_side, since_it_came
from filemem.repo.git import GitError
from filemem.repo.lives import Revision, Same
from filemem.repo.log import Commit, Row

if TYPE_CHECKING:
    from filemem.repo.history import History

_RENAMES = 50  # names of one file that are followed back, each by a `git log` of its own


def logs(history: History, births: Mapping[str, str], same: Same) -> dict[str, tuple[Revision, ...]]:
    """The versions of some files, each newest first, through renames and where they were away and came back.

    One `git log` tells of all of them. What had another name before costs another, from the commit that renamed it
    and for that name alone: on other branches it may have meant another file.

    Args:
        history: where they are told from.
        births: paths from the top of the work tree, each with its first commit; "" where that is not known.
        same: which versions are one and the same.

    Returns:
        By path; nothing for one that has no commit. What the first commit brought as well is left out: `beside`.
    """
    found = {
        path: _to_birth([*of_all_sides(history, told, births[path], same)], births[path])
        for path, told in _through_renames(history, births, same).items()
    }
    if len(births) > 1:  # together they show branches beside the one that each of them came by
        ways = {path: told for path, told in found.items() if told and births[path]}
        astray = [path for path, told in ways.items() if told[-1].commit.id != births[path] or side_by_side(told)]
        found |= {path: list(logs(history, {path: births[path]}, same)[path]) for path in astray}
    for path, told in found.items():
        if told and births[path] and (told[-1].commit.id != births[path] or side_by_side(told)):
            found[path] = list(since_it_came(history, told, births[path], same))
    cut = history.boundary()
    return {path: tuple(_known(one, cut) for one in told) for path, told in found.items()}


def _through_renames(history: History, births: Mapping[str, str], same: Same) -> dict[str, list[Revision]]:
    """The versions of some files under all the names that they had; arguments as for `logs`."""
    found: dict[str, list[Revision]] = {path: [] for path in births}
    asked = {history.tip: {path: path for path in births}} if births else {}  # where from -> name then -> name now
    for _ in range(_RENAMES):
        for tip, names in asked.items():
            rows = [(commit, row) for commit, rows in _versions(history, tip, names) for row in rows]
            for before, path in names.items():
                found[path] = _to_birth([*found[path], *_traced(before, rows, same)], births[path])
        reached = [path for names in asked.values() for path in names.values() if found[path]]
        begun = [one for path in reached for one in _begun(found[path], births[path])]
        sources, asked = _sources(history, begun, same) if begun else {}, {}
        for path in reached:
            found[path] = _to_source(history, found[path], sources)
            end = found[path][-1]
            if end.before and end.before != end.path and end.commit.id != births[path]:
                asked.setdefault(f"{end.commit.id}^@", {})[end.before] = path
        if not asked:
            break
    return found


def _versions(history: History, tip: str, names: Iterable[str]) -> Iterator[tuple[Commit, list[Row]]]:
    # A merge counts where its version of a file is none of its parents': somebody decided it there.
    how = ("--topo-order", "--diff-merges=combined", "-M", tip)
    try:
        yield from history.rows(*how, "--", *sorted(names))
    except GitError as error:
        first, rows = treeless.beginning(history.git, history.tip, list(names), error)
        yield from history.rows(*how, f"^{first.id}", "--", *sorted(names))
        yield first, rows


def _sources(history: History, ends: Iterable[Revision], same: Same) -> dict[tuple[str, str], Row]:
    """Where files came from that seem to begin in these commits, by commit and path.

    Git does not call it a rename where two files took each other's names: then the id in them tells.
    """
    wanted = {(end.commit.id, end.path): end.blob for end in ends}
    commits = sorted({commit for commit, _ in wanted})
    found: dict[tuple[str, str], Row] = {}
    for commit, rows in history.rows("--no-walk=unsorted", "-m", "-M", *commits, "--"):
        here = {path: blob for (one, path), blob in wanted.items() if one == commit.id}
        moved = (row for row in rows if row.status == "R" and row.path in here)
        found |= {(commit.id, row.path): row for row in moved if same(row.before, row.old, row.new)}
        stated = {same.stated(path, blob): path for path, blob in here.items() if (commit.id, path) not in found}
        left = [row for row in rows if row.status in "MDR"] if stated.keys() - {""} else []
        same.know(row.old for row in left)
        for row in left:
            if path := stated.get(same.stated(row.before, row.old) or "-", ""):
                found[commit.id, path] = row
    return found


def _begun(told: Sequence[Revision], birth: str) -> Iterator[Revision]:
    """The versions of a file that seem to begin it, of those newest first: the oldest, and those over a removal."""
    for at, one in enumerate(told):
        seems = one.blob and not one.before and one.commit.author and one.commit.id != birth
        if seems and (at == len(told) - 1 or any(not below.blob for below in told[at:])):
            yield one


def _to_source(history: History, told: list[Revision], sources: Mapping[tuple[str, str], Row]) -> list[Revision]:
    """The versions of a file, newest first, back to where a rename gave it its name.

    What is older bore the name before that, and comes by the other one if it is of this file; other branches go on.
    """
    at = next((at for at, one in enumerate(told) if (one.commit.id, one.path) in sources), -1)
    if at < 0:
        return told
    source = sources[told[at].commit.id, told[at].path]
    named, older = told[at]._replace(before=source.before, old=source.old), told[at + 1 :]
    if len(named.commit.parents) > 1:  # the other sides may have had it under names of their own
        named = named._replace(sides=(source.old,))
    apart = listed(history.git, *(one.commit.id for one in older), f"^{named.commit.id}") if older else ()
    return [*told[:at], *(one for one in older if one.commit.id in apart), named]


def _traced(path: str, rows: Iterable[tuple[Commit, Row]], same: Same) -> list[Revision]:
    """The versions of the file that is at `path` after the newest of some rows, back to where it got this name.

    Where a commit added it and the row below does not remove it, that row is of another branch that added it too.
    """
    found: list[Revision] = []
    back = ""  # the blob that a commit brought back, as long as it is not known whether the file was there before
    for commit, (status, before, after, old, new, sides) in rows:
        if after != path or (back and status != "D" and not same(path, new, back)):
            continue
        if back and status == "D" and not same.returns(path, old, back):
            break
        other = status in "MR" and not same(path, old, new)
        added = status == "A" or other
        back = new if status == "A" else ""
        found.append(Revision(commit, after, "" if status == "D" else new, *(() if added else (before, old, sides))))
        if other or before != path:
            break
    return found


def _to_birth(told: list[Revision], birth: str) -> list[Revision]:
    """The same with the first commit last, also where versions of another branch that added the file follow it."""
    at = next((at for at, one in enumerate(told[:-1]) if one.commit.id == birth), -1)
    if at < 0 or told[at].old or not told[at + 1].blob:
        return told
    return [*told[:at], *told[at + 1 :], told[at]]


def _known(revision: Revision, cut: frozenset[str]) -> Revision:
    """The revision without an author where a shallow clone ends."""
    if revision.commit.id not in cut:
        return revision
    return revision._replace(commit=revision.commit.anonymous())
