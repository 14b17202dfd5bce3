"""What shows that a command of the user's took no account of a commit of ours: it had read HEAD or the index before.

Git says so nowhere outright, but leaves traces: the reflogs; ORIG_HEAD, where merge and reset note the HEAD that they
began from; and the index, which remembers the trees that it was read from until an entry is changed by itself.
What the user takes away on purpose leaves other traces, and stays away.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from filemem.repo.git import Git
from filemem.repo.head import BRANCHES, branch
from filemem.repo.history import History

_TREES = re.compile(rb"TREE(....)(?=\0)", re.DOTALL)  # before the index's notes of trees, their length
_FOLDER = re.compile(rb"([^\0]*)\0(-?\d+) (\d+)\n")


class Drop(NamedTuple):
    """The last commit that changed a path: when it was begun, in seconds since the epoch, and whether it is a merge."""

    began: int
    merge: bool


class Races(NamedTuple):
    """The traces in one repository.

    Args:
        git: runs Git.
        history: of HEAD.
        hash_size: bytes of an object id.
    """

    git: Git
    history: History
    hash_size: int

    def undone(self, commit: str) -> bool:
        """Whether the reflogs show that a command put HEAD back to what it had read before this commit was made.

        A reset "to HEAD" and the end of an aborted rebase never mean to drop a commit; both move without comparing.
        """
        if not commit or self.history.is_ancestor(commit):
            return False
        places = self.git.places
        logs = (places.git_dir / "logs" / "HEAD", places.common_dir / "logs" / BRANCHES / branch(places.git_dir))
        for log in logs:
            text = log.read_text(errors="replace") if log.is_file() else ""
            _, arrived, after = text.rpartition(f" {commit} ")  # where HEAD came to it last
            told = [line.partition("\t") for line in after.splitlines()[1:] if arrived]
            moves = {
                tuple(ids.split(" ", 2)[:2])
                for ids, _, what in told
                if what == "reset: moving to HEAD" or what.startswith("rebase (abort)")
            }
            if any(old != new and self.history.is_ancestor(commit, old) for old, new in moves):
                return True
        return False

    def dropped(self, path: str, since: str) -> Drop | None:
        """The last commit after another that changed a path: also a merge that took neither side's word for it."""
        span = f"{since}..{self.history.tip}"
        answer = self.git.run("log", "-1", "--full-history", "--pretty=format:%ct %P", span, "--", path)
        began, *parents = answer.decode().split() or [""]
        return Drop(int(began), len(parents) > 1) if began else None

    def began_from(self, commits: Collection[str]) -> float:
        """When the last merge or reset began, in seconds since the epoch; 0.0 where from none of these commits."""
        try:
            noted = self.git.places.git_dir / "ORIG_HEAD"
            return noted.stat().st_mtime if noted.read_text().strip() in commits else 0.0
        except (OSError, UnicodeDecodeError):
            return 0.0

    def read_from_a_tree(self, path: str) -> bool:
        """Whether the index around a path is as it was read from a tree: no entry there was changed by itself since.

        `git rm`, `git restore` and our own saves change entries. Merge, reset and checkout read trees.
        """
        try:
            data = (self.git.places.git_dir / "index").read_bytes()
        except OSError:
            return False
        wanted = path.encode("utf-8", "surrogateescape").split(b"/")[:-1]
        for found in _TREES.finditer(data):
            try:
                holds, end = self._note(data, found.end(), wanted)
            except ValueError:
                continue  # these bytes mean something else
            if end == found.end() + int.from_bytes(found[1], "big"):
                return holds
        return False

    def _note(self, data: bytes, at: int, wanted: Sequence[bytes]) -> tuple[bool, int]:
        """Read the note on one folder: whether that on the nearest folder of those wanted below it holds; and its end.

        It is the folder's name, the number of its entries (-1: it does not hold), the number of folders below that have
        notes, which follow, and before them the tree's id if it holds.
        """
        note = _FOLDER.match(data, at)
        if note is None:
            raise ValueError(at)
        holds = int(note[2]) >= 0
        end = note.end() + self.hash_size * holds
        for _ in range(int(note[3])):
            on_way = bool(wanted) and data.startswith(wanted[0] + b"\0", end)
            below, end = self._note(data, end, wanted[1:] if on_way else ())
            holds = below if on_way else holds
        return holds, end
