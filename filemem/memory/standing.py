"""Whether a record is on the default branch too, and since when; or only on this one.

Rule: a record counts as being there where that branch has its file, or its id in another, whatever commits brought it:
a squash merge or a rebase lands records as a merge does. Where nothing differs between two branches nothing is asked of
each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.documents import Node
from filemem.memory import home
from filemem.memory.store import Store
from filemem.repo import GitError
from filemem.repo.branches import Branch, defaults, tip_of

if TYPE_CHECKING:
    from filemem.repo.log import Row


class Standing(NamedTuple):
    """How a committed record stands to the default branch.

    Args:
        default: the name of that branch; "" where none can be told.
        merged: whether it has the record; None where no branch can be told.
        differs: it has another version.
        landed: since when it has it, epoch milliseconds; None where that is not known.
        copied: its commit is not there, though its file is: a squash, a rebase or a copy brought it.
    """

    default: str = ""
    merged: bool | None = None
    differs: bool = False
    landed: int | None = None
    copied: bool = False


UNKNOWN = Standing()


class Standings:
    """How the records of a store stand, as its branches are now.

    Args:
        store: the parts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._landed = store.repo.landed(store.memo("landed"))
        self._chosen: tuple[tuple[Branch, ...], Branch] | None = None
        self._apart: tuple[tuple[str, str], Mapping[str, str]] = (("", ""), {})

    def of(self, nodes: Iterable[Node]) -> dict[str, Standing]:
        """How records stand, by path; nothing is said of those that are not committed."""
        committed = [node for node in nodes if node.birth.commit]
        here = self._store.repo.here() if committed else Branch("", "")
        default = self._default(here) if here.tip else None
        apart = self._difference(default.tip, here.tip) if default else None
        if default is None or apart is None:
            return {}
        return {node.path: self._one(node, default, apart.get(node.path, "")) for node in committed}

    def _one(self, node: Node, default: Branch, status: str) -> Standing:
        if status == "A":
            return Standing(default.name, merged=False)
        landed = self._landed.at(node.birth.commit, default.tip)
        copied = landed is None and self._landed.current(default.tip)
        return Standing(default.name, merged=True, differs=status == "M", landed=landed, copied=copied)

    def default(self) -> Branch | None:
        """The default branch of what holds the records; None where none can be told."""
        return self._default(self._store.repo.here())

    def _default(self, here: Branch) -> Branch | None:
        repo, store = self._store.repo, self._store
        if repo is not store.code and here.name:  # records that have a branch of their own are all on it
            return here
        if repo is not store.code and repo.common_dir == store.code.common_dir:  # somebody rebases it
            name = home.branch_of(store.code, store.config)
            return Branch(name, tip) if (tip := tip_of(repo.common_dir, f"refs/heads/{name}")) else None
        found = defaults(repo.common_dir, here)
        if not found or found[0] == here:
            return next(iter(found), None)
        if self._chosen is None or self._chosen[0] != found:
            self._chosen = found, self._further(found)
        return self._chosen[1]

    def look(self) -> None:
        """Find out when everything landed, however long history is; later looks cost what is new."""
        default = self.default()
        if default is not None:
            self._landed.look(default.tip)

    def _further(self, found: tuple[Branch, ...]) -> Branch:
        """Of the branch here and on the remote, the one that is ahead; the remote's where they diverged."""
        here, there = found[0], found[-1]
        ahead = here.tip != there.tip and self._store.repo.history.is_ancestor(there.tip, here.tip)
        return here if ahead else there

    def _difference(self, base: str, tip: str) -> Mapping[str, str] | None:
        """By path, what this branch added or has in another version; None where the two cannot be compared."""
        if base == tip:
            return {}
        if self._apart[0] != (base, tip):
            try:
                rows = self._store.repo.history.between(base, tip, self._store.files.store)
            except GitError:
                return None
            self._apart = (base, tip), self._told(rows)
        return self._apart[1]

    def _told(self, rows: Sequence[Row]) -> dict[str, str]:
        """Of files that differ, by path: "A" for a record that is not there, "M" for one in another version."""
        rows = [row for row in rows if row.old != row.new]
        versions = self._store.versions()
        versions.know(blob for row in rows for blob in (row.old, row.new))
        there = {versions.stated(row.before, row.old) for row in rows if row.status != "A"} - {""}
        told: dict[str, str] = {}
        for row in rows:
            known = versions.stated(row.path, row.new) in there
            same = known or (row.status != "A" and versions(row.before, row.old, row.new))
            told |= {self._store.files.inside(row.path): "M" if same else "A"} if row.status != "D" else {}
        return told
