"""What is told of the files that commits touched: which commit brought each, what changed it, what is gone.

Rule: values alone. What is whose is worked out by `walking`; which versions are one and the same, whoever asks tells.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from filemem.repo.log import Commit


class Birth(NamedTuple):
    """How a file came to be.

    Args:
        path: where it is now (for a removed one: where it last was).
        first_path: where it was first committed; the same unless renamed.
        commit: the one that added it.
        order: its place in history, counted from the oldest commit of the walk.
        nth: which of the files without an id that began at `first_path` it is, counted as they landed.
    """

    path: str
    first_path: str
    commit: Commit
    order: int
    nth: int = 1


class Revision(NamedTuple):
    """One commit's version of a file: where it stood then, and its blob ("" where the commit removed it).

    `before` and `old` are path and blob of the version that the commit changed, of a merge its first parent's; both are
    empty where the commit added the file. `sides` are the versions that a merge joined.
    """

    commit: Commit
    path: str
    blob: str
    before: str = ""
    old: str = ""
    sides: tuple[str, ...] = ()


class Removed(NamedTuple):
    """The last version of a file that a commit removed: its blob, where it stood, where it was first committed by which
    commit, "" where that is not known, and its number as `Birth` has it.
    """

    commit: Commit
    path: str
    blob: str
    first_path: str
    first: str
    nth: int = 1


class Edit(NamedTuple):
    """A commit that changed what a file says, with its blob before and after; of a merge, with all that it joined."""

    commit: Commit
    before: str
    after: str
    sides: tuple[str, ...] = ()


Counted = TypeVar("Counted", "Removed", "Taking")


class Taking(NamedTuple):
    """That a file took a name, in which commit: the id that it states there, and its birth as `Removed` has it."""

    commit: str
    stated: str
    first_path: str
    first: str
    nth: int = 1


class Walk(NamedTuple):
    """What a walk through history found.

    Args:
        births: of the files that stand at its end, by path.
        removed: the last version of each file that does not, by path.
        replaced: what was removed from paths at which another file was added later, oldest first.
        edits: of the files that stand at its end and were changed after their birth, by path, oldest first.
        touched: every path that a commit brought or changed.
        ended: every path that a commit removed or renamed, whether it came back or not.
        head: the commit it ended with; "" in an empty repository.
        ids: those that the files of `births` state, by path.
        left: every id that was taken from where it stood, whether it came back or not.
        began: the commits that brought a file without an id where none was, by path, in the order of the walk.
        taken: who had the names that commits removed or renamed, by path, in the order of the walk.
        given_up: the paths at which a merge left one side's edits for the version of another.
    """

    births: dict[str, Birth]
    removed: dict[str, Removed]
    replaced: Sequence[Removed]
    edits: dict[str, list[Edit]]
    touched: frozenset[str]
    ended: frozenset[str]
    head: str
    ids: Mapping[str, str]
    left: frozenset[str]
    began: Mapping[str, Sequence[str]]
    taken: Mapping[str, Sequence[Taking]]
    given_up: frozenset[str] = frozenset()

    def without_joins(self, same: "Same") -> "Walk":
        """The same without the edits of merges that say nothing by themselves."""
        edits = {
            path: [edit for edit in found if not (edit.sides and same.joins(path, edit.sides, edit.after))]
            for path, found in self.edits.items()
        }
        return self._replace(edits=edits)

    def numbered(self, landing: "Landing") -> "Walk":
        """The same where each file without an id has its number among those that began at its path."""
        of: dict[str, dict[str, None]] = {path: dict.fromkeys(commits) for path, commits in self.began.items()}
        for path, birth in self.births.items():
            if path not in self.ids:
                of.setdefault(birth.first_path, {})[birth.commit.id] = None
        several = {path: commits for path, commits in of.items() if len(commits) > 1}
        if not several:
            return self
        landed = {commit: at for at, commit in enumerate(landing({one for all_ in several.values() for one in all_}))}
        nth = {
            (path, commit): number
            for path, commits in several.items()
            for number, commit in enumerate(sorted(commits, key=lambda one: landed.get(one, len(landed))), start=1)
        }
        births = {p: b._replace(nth=nth.get((b.first_path, b.commit.id), 1)) for p, b in self.births.items()}

        def counted(one: Counted) -> Counted:
            return one._replace(nth=nth.get((one.first_path, one.first), 1))

        removed = {path: counted(one) for path, one in self.removed.items()}
        taken = {path: [counted(one) for one in takings] for path, takings in self.taken.items()}
        return self._replace(births=births, removed=removed, replaced=[*map(counted, self.replaced)], taken=taken)


class Same(Protocol):
    """Tells of versions of a file whether they are one and the same, as whoever asks sees it."""

    def know(self, blobs: Iterable[str]) -> None:
        """Be told which versions will be asked about."""

    def stated(self, path: str, blob: str) -> str:
        """The id that a version at a path states; "" for none, or where that cannot be known."""

    def __call__(self, first_path: str, before: str, after: str) -> bool:
        """Whether two versions of the file that was first at a path are one; also where that cannot be known."""

    def returns(self, first_path: str, before: str, after: str) -> bool:
        """The same of a file that was removed, and of one that comes to its name later."""

    def joins(self, path: str, sides: Sequence[str], merged: str) -> bool:
        """Whether a merge says nothing by itself in its version of a file, beside those that it joined."""

    def includes(self, path: str, version: str, before: str, after: str) -> bool:
        """Whether a version of a file says already what changed from one to another of them."""


class ByPath:
    """Nothing states an id: what comes back under its name is what it was."""

    def know(self, blobs: Iterable[str]) -> None:
        """Nothing is looked at."""

    def stated(self, path: str, blob: str) -> str:  # noqa: ARG002
        """No id."""
        return ""

    def __call__(self, first_path: str, before: str, after: str) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def returns(self, first_path: str, before: str, after: str) -> bool:
        """As its versions are."""
        return self(first_path, before, after)

    def joins(self, path: str, sides: Sequence[str], merged: str) -> bool:  # noqa: ARG002
        """Only with the very version that one side had: what others say is not looked at."""
        return merged in sides

    def includes(self, path: str, version: str, before: str, after: str) -> bool:  # noqa: ARG002
        """Only where it is the version that was changed to."""
        return version == after


BY_PATH = ByPath()
Landing = Callable[[Collection[str]], Sequence[str]]  # commits -> the same in the order in which they landed
