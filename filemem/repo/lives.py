"""What became of files, from the commits that touched them: which one brought each, what changed it, what is gone.

Rule: this is the one place that says so; whoever tells of a first commit asks it. A file keeps its first commit through
renames, and where it was away and came back: what stands at a path again is what stood there before, unless whoever
asks knows that it is another.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from filemem.repo.log import Commit, Row


class Birth(NamedTuple):
    """How a file came to be.

    Args:
        path: where it is now (for a removed one: where it last was).
        first_path: where it was first committed; the same unless renamed.
        commit: the one that added it.
        order: its place in history, counted from the oldest commit of the walk.
    """

    path: str
    first_path: str
    commit: Commit
    order: int


class Revision(NamedTuple):
    """One commit's version of a file: where it stood then, and its blob ("" where the commit removed it).

    `before` and `old` are path and blob of the version that the commit changed, of a merge its first parent's; both are
    empty where the commit added the file.
    """

    commit: Commit
    path: str
    blob: str
    before: str = ""
    old: str = ""


class Removed(NamedTuple):
    """The last version of a file that a commit removed: its blob, where it stood, and where it was first committed by
    which commit, "" where that is not known.
    """

    commit: Commit
    path: str
    blob: str
    first_path: str
    first: str


class Edit(NamedTuple):
    """A commit that changed what a file says, with its blob before and after."""

    commit: Commit
    before: str
    after: str


class Walk(NamedTuple):
    """What a walk through history found.

    Args:
        births: of the files that stand at its end, by path.
        removed: the last version of each file that does not, by path.
        replaced: what was removed from paths at which another file was added later, oldest first.
        edits: of the files that stand at its end and were changed after their birth, by path, oldest first.
        touched: every path that a commit brought or changed.
        ended: every path that a commit removed, whether it came back or not.
        head: the commit it ended with; "" in an empty repository.
    """

    births: dict[str, Birth]
    removed: dict[str, Removed]
    replaced: Sequence[Removed]
    edits: dict[str, list[Edit]]
    touched: frozenset[str]
    ended: frozenset[str]
    head: str


Same = Callable[[str, str, str], bool]  # of a path: the blob that was removed there, and the one that is there again


def always(path: str, before: str, after: str) -> bool:  # noqa: ARG001
    """What comes back under its name is what it was."""
    return True


class Found:
    """What a walk has found so far, commits oldest first. A merge is told against each of its parents, so that most of
    what it shows was there before: what it brings is what no side had.
    """

    def __init__(self, same: Same) -> None:
        self.births: dict[str, Birth] = {}
        self.removed: dict[str, Removed] = {}
        self.replaced: list[Removed] = []
        self.touched: set[str] = set()
        self.edits: dict[str, list[Edit]] = {}
        self.ended: set[str] = set()
        self.contested: set[str] = set()  # paths that branches beside one another gave to files of their own
        self._same = same
        self._away: dict[str, tuple[Birth, list[Edit]]] = {}  # the past of what was removed
        self._last: dict[str, str] = {}  # the blob at a path
        self._rivals: dict[str, tuple[Birth, Birth | None]] = {}
        self._commit = ""
        self._differs = Counter[str]()  # of this commit: parents that have something else at a path

    def add(self, commit: Commit, rows: Iterable[Row], order: int) -> None:
        """Take a commit in; of a merge, what it shows against one parent."""
        if self._commit != commit.id:
            self._commit, self._differs = commit.id, Counter[str]()
        for row in rows:
            self.touched.add(row.path)
            self._differs[row.path] += 1
            if len(commit.parents) > 1:
                self._join(row)
            elif row.status in "AR":
                self._contest(commit, row, order)
            if row.status == "D":
                self._remove(commit, row)
            elif row.status == "A" and row.path not in self.births:
                self._bring(commit, row, order)
            elif row.status == "R" and (len(commit.parents) < 2 or row.path not in self.births):
                self._move(commit, row, order)
            self._last[row.path] = row.new
            if row.status in "MR" and row.old != row.new and self._differs[row.path] >= len(commit.parents):
                self.edits.setdefault(row.path, []).append(Edit(commit, row.old, row.new))

    def walk(self, head: str) -> Walk:
        """What was found; `head` is the last commit."""
        return Walk(
            self.births, self.removed, self.replaced, self.edits, frozenset(self.touched), frozenset(self.ended), head
        )

    def _contest(self, commit: Commit, row: Row, order: int) -> None:
        """Note a file that a branch beside others brings under a name that is taken there."""
        if row.before in self.contested:
            self.contested.add(row.path)
        if row.path in self.births and self._last[row.path] != row.new:
            moved = self.births.get(row.before) if row.status == "R" else None
            self.contested.add(row.path)
            self._rivals[row.path] = self.births[row.path] if moved else Birth(row.path, row.path, commit, order), moved

    def _join(self, row: Row) -> None:
        """Where a merge makes one of two such files, the older first commit counts."""
        if row.status == "M" and (rivals := self._rivals.pop(row.path, None)) and row.path in self.births:
            known = (self.births[row.path], *filter(None, rivals))
            self.births[row.path] = min(known, key=lambda birth: birth.commit.at)._replace(path=row.path)
            self.contested.discard(row.path)

    def _remove(self, commit: Commit, row: Row) -> None:
        if row.path in self.births:
            self._away[row.path] = self.births.pop(row.path), self.edits.pop(row.path, [])
        born = self._away[row.path][0] if row.path in self._away else None
        first = (born.first_path, born.commit.id) if born else (row.path, "")
        self.removed[row.path] = Removed(commit, row.path, row.old, *first)
        self._rivals.pop(row.path, None)
        self.ended.add(row.path)

    def _bring(self, commit: Commit, row: Row, order: int) -> None:
        gone = self.removed.pop(row.path, None)
        if gone and row.path in self._away and self._same(row.path, gone.blob, row.new):
            self.births[row.path], edits = self._away.pop(row.path)
            self.edits[row.path] = edits if len(commit.parents) > 1 else [*edits, Edit(commit, row.old, row.new)]
        else:
            self.replaced += [gone] if gone else []
            self.births[row.path] = Birth(row.path, row.path, commit, order)

    def _move(self, commit: Commit, row: Row, order: int) -> None:
        unknown = Birth(row.path, row.before, commit, order), self.edits.pop(row.before, [])
        known = (self.births.pop(row.before), unknown[1]) if row.before in self.births else None
        born, edits = known or self._away.get(row.before) or unknown
        self._rivals.pop(row.before, None)
        self.births[row.path] = born._replace(path=row.path)
        self.edits[row.path] = edits


def traced(path: str, rows: Iterable[tuple[Commit, Row]], same: Same) -> list[Revision]:
    """The versions of the file that is at `path` after the newest of some rows, back to where it got this name."""
    found: list[Revision] = []
    back = ""  # the blob that a commit brought back, as long as it is not known whether the file was there before
    for commit, (status, before, after, old, new) in rows:
        if after != path or (back and status != "D"):
            continue
        if back and not same(path, old, back):
            break
        back = new if status == "A" else ""
        found.append(Revision(commit, after, "" if status == "D" else new, *(() if status == "A" else (before, old))))
        if before != path:
            break
    return found
