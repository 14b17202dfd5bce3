"""What of other branches is an edit of a file as it is here, and what is none.

Rule: what a merged side changed is an edit, also where it had the file under another name. A squash or a cherry-pick
brings a text at once; the commits in which another branch came to that text are no edits of it, whenever that branch is
merged. What they say tells them apart, not when they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from filemem.repo import shallow
from filemem.repo.git import LONG, Git
from filemem.repo.lives import Revision, Same
from filemem.repo.log import Commit, Row

if TYPE_CHECKING:
    from filemem.repo.history import History


def side_by_side(told: Sequence[Revision]) -> bool:
    """Whether several branches added the file of these versions, newest first."""
    return any(not one.old and one.blob and below.blob for one, below in pairwise(told))


def of_all_sides(history: History, told: Sequence[Revision], first: str, same: Same) -> Sequence[Revision]:
    """The versions of a file with those of merged sides that had it under another name, whoever gave it this one.

    And with those of sides that had it still where it was removed, if what came back is what they said.

    Args:
        history: where they are told from.
        told: newest first.
        first: the first commit; "" where it is not known.
        same: which versions are one and the same.
    """
    found = {one.commit.id: one for one in told}
    for merge, parent, back in _removed_sides(history, told, first):
        side = history._replace(tip=parent).logs({back.path: first}, same)[back.path]
        removal = Revision(merge, back.path, "", back.path, back.blob, ("", back.blob))
        found |= {one.commit.id: one for one in (removal, *side) if one.commit.id not in found}
    for commit, parent, row in _renamed_sides(history, told, first, same):
        known = found[commit]
        joined = known._replace(sides=(*known.sides, row.old))
        found[commit] = joined if known.sides else known._replace(before=row.before, old=row.old)
        if not any(one.path == row.before and one.blob == row.old for one in found.values()):
            side = history._replace(tip=parent).logs({row.before: first}, same)[row.before]
            found |= {one.commit.id: one for one in side if one.commit.id not in found}
    if len(found) == len(told):
        return list(found.values())
    return [found[commit] for commit in reversed(history.landed(found.keys()))]


def _renamed_sides(
    history: History, told: Iterable[Revision], first: str, same: Same
) -> Iterator[tuple[str, str, Row]]:
    """The commits of some versions, each with a parent that has the file under another name, and how they differ.

    They are merges, and those that seem to add it although another branch has it: each may have renamed it by itself.
    """
    for one in told:
        added = one.blob and not one.old and one.commit.author and one.commit.id != first
        if added or (one.sides and len(one.sides) < len(one.commit.parents)):
            for parent in one.commit.parents:
                for row in history.between(parent, one.commit.id):
                    known = (row.before, row.old) == (one.before, one.old)
                    renamed = row.status == "R" and row.path == one.path and not known
                    if renamed and same(row.before, row.old, row.new):
                        yield one.commit.id, parent, row


def _removed_sides(history: History, told: Iterable[Revision], first: str) -> Iterator[tuple[Commit, str, Revision]]:
    """The merges that removed a version which was brought back later, each with a parent that has it."""
    for one in told:
        if one.blob and not one.old and one.commit.author and one.commit.id != first:
            how = ("--full-history", "--merges", "-m", "--no-renames", "--diff-filter=D", f"{one.commit.id}^@")
            for merge, rows in history.rows(*how, "--", one.path):
                if any(row.old == one.blob for row in rows):
                    for parent in merge.parents:
                        if history.entries([one.path], parent).get(one.path) == one.blob:
                            yield merge, parent, one


def since_it_came(history: History, told: Sequence[Revision], first: str, same: Same) -> Sequence[Revision]:
    """The versions of a file without those that led to what its first commit brought.

    Args:
        history: where they are told from.
        told: newest first; the first commit may be missing, where they came by another branch.
        first: the first commit.
        same: knows what versions say.
    """
    there = history.entries({one.path for one in told}, first)
    version = next((there[one.path] for one in reversed(told) if one.path in there), "")
    after = listed(history.git, "--ancestry-path", history.tip, f"^{first}")
    edits = [one for one in told if one.old and one.blob and one.commit.id not in after]
    brought = [one.commit.id for one in edits if version and same.includes(one.path, version, one.old, one.blob)]
    led = listed(history.git, *brought, f"^{first}") if brought else frozenset()
    passed_over = {one.commit.id for one in edits} & led
    return [one for one in told if one.commit.id not in passed_over]


def added_too(history: History, births: Mapping[str, str], same: Same) -> dict[str, list[Revision]]:
    """The versions with which merged branches beside the first commits of some files added them too, newest first.

    The log of a file passes over a branch that changed nothing of it since a squash had brought it.

    Args:
        history: where they are told from; where older versions are lacking nothing is told.
        births: paths from the top of the work tree as they were at the first commits, each with this.
        same: which versions are one and the same.
    """
    found: dict[str, list[Revision]] = {}
    if not births or shallow.partial(history.git.places.common_dir) or not history.has_merges():
        return found
    how = ("--full-history", "--topo-order", "--no-merges", "--no-renames", "--diff-filter=A")
    adding: dict[str, list[str]] = {}
    for commit, rows in history.rows(*how, history.tip, "--", *sorted(births)):
        for row in rows:
            if commit.id not in (births.get(row.path, commit.id), *history.boundary()):
                adding.setdefault(row.path, []).append(commit.id)
    for path, commits in adding.items():
        first = births[path]
        after = listed(history.git, "--ancestry-path", history.tip, f"^{first}")
        apart = [one for one in commits if one not in after and not history.is_ancestor(one, first)]
        begun = [one for one in apart if not any(o != one and history.is_ancestor(o, one) for o in apart)]
        version = history.entries([path], first).get(path)
        sides = (history._replace(tip=one).logs({path: ""}, same)[path] for one in begun) if version else ()
        told = (side[-1] for side in sides if side)  # under whatever name the branch began it
        began = (one for one in told if one.commit.id not in after and not history.is_ancestor(one.commit.id, first))
        found[path] = [one for one in began if not one.old and same(path, version or "", one.blob)]
    return found


def listed(git: Git, *asked: str) -> frozenset[str]:
    """The commits that `git rev-list` names."""
    return frozenset(git.run("rev-list", *asked, "--", limit=LONG).decode().split())
