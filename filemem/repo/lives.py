"""What became of files, from the commits that touched them: which one brought each, what changed it, what is gone.

Rule: this is the one place that says so; whoever tells of a first commit asks it. What states an id has the first
commit that brought this id, as commits landed, whatever path or bytes it had then; where another id stands in a file
than before, that is another. What states none is known by its file: it keeps its first commit through renames, and
where it was away and came back. Several files may have begun under one name, one after the other was renamed or was
removed for good: each has its number among them, in the order in which they landed.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from filemem.repo.log import Commit, Row


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
    empty where the commit added the file.
    """

    commit: Commit
    path: str
    blob: str
    before: str = ""
    old: str = ""


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
    """A commit that changed what a file says, with its blob before and after."""

    commit: Commit
    before: str
    after: str


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


BY_PATH = ByPath()
Landing = Callable[[Collection[str]], Sequence[str]]  # commits -> the same in the order in which they landed


class Found:
    """What a walk has found so far, commits oldest first. A merge is told against each of its parents, so that most of
    what it shows was there before: what it brings is what no side had.
    """

    def __init__(self, same: Same, landing: Landing) -> None:
        self.births: dict[str, Birth] = {}
        self.removed: dict[str, Removed] = {}
        self.replaced: list[Removed] = []
        self.touched: set[str] = set()
        self.edits: dict[str, list[Edit]] = {}
        self.ended: set[str] = set()
        self.contested: set[str] = set()  # paths that branches beside one another gave to files of their own
        self._same, self._landing = same, landing
        self._away: dict[str, tuple[Birth, list[Edit]]] = {}  # the past of what was removed
        self._last: dict[str, str] = {}  # the blob at a path
        self._rivals: dict[str, tuple[Birth, Birth | None]] = {}
        self._claims: dict[str, list[Birth]] = {}  # of an id: every commit that brought it where it was not before
        self._past: dict[str, list[Edit]] = {}  # of an id: what changed it where it stands no more
        self._began: dict[str, list[str]] = {}  # of a path: the commits that brought a file without an id
        self._taken: dict[str, list[Taking]] = {}
        self._gone_on: dict[str, Birth] = {}  # the file that was renamed last from a path
        self._commit = ""
        self._differs = Counter[str]()  # of this commit: parents that have something else at a path
        self._kept: set[str] = set()  # of this commit: paths at which a parent has another version of the same

    def add(self, commit: Commit, rows: Iterable[Row], order: int) -> None:
        """Take a commit in; of a merge, what it shows against one parent."""
        if self._commit != commit.id:
            self._commit, self._differs, self._kept = commit.id, Counter[str](), set()
        for row in rows:
            self._differs[row.path] += 1
            alone = self._differs[row.path] >= len(commit.parents)  # no parent has this very version
            for part in self._parts(row, alone=alone):
                self._take(commit, part, order, alone=alone)

    def walk(self, head: str) -> Walk:
        """What was found; `head` is the last commit."""
        ids = {path: stated for path in self.births if (stated := self._same.stated(path, self._last[path]))}
        self._settle(ids)
        touched, ended, left = map(frozenset, (self.touched, self.ended, self._past.keys() - {""}))
        taken = {path: self._taken[path] for path in sorted(self.ended & self._taken.keys())}
        found = (self.births, self.removed, self.replaced, self.edits, touched, ended, head, ids, left)
        return Walk(*found, self._began, taken)

    def _parts(self, row: Row, *, alone: bool) -> Iterable[Row]:
        """A row; where another id stands in the file than before, that it is gone, and that another came."""
        known = self.births.get(row.before)
        if row.status not in "MR":
            return (row,)
        if self._same(known.first_path if known else row.before, row.old, row.new):
            self._kept.add(row.path)
            return (row,)
        if row.status == "M" and (not alone or row.path in self._kept):
            return (row,)
        return filter(None, (row.seen(before=True, after=False), row.seen(before=False, after=True)))

    def _take(self, commit: Commit, row: Row, order: int, *, alone: bool) -> None:
        self.touched.add(row.path)
        merge = len(commit.parents) > 1
        if merge:
            self._join(row)
        elif row.status in "AR":
            self._contest(commit, row, order)
        if row.status == "D":
            self._remove(commit, row)
        elif row.status == "A" and row.path not in self.births:
            self._bring(commit, row, order)
        elif row.status == "R" and (not merge or self._unknown(commit, row.path)):
            self._move(commit, row, order)
        self._last[row.path] = row.new
        if not alone:
            return
        if row.status in "AR" and row.path in self.births:
            born = self.births[row.path]
            taking = Taking(commit.id, self._same.stated(row.path, row.new), born.first_path, born.commit.id)
            self._taken.setdefault(row.path, []).append(taking)
        if row.status == "A" and row.path not in self._kept and (stated := self._same.stated(row.path, row.new)):
            self._claims.setdefault(stated, []).append(Birth(row.path, row.path, commit, order))
        if row.status in "MR" and row.old != row.new:
            self.edits.setdefault(row.path, []).append(Edit(commit, row.old, row.new))

    def _unknown(self, commit: Commit, path: str) -> bool:
        """Whether no commit before this one has a file at a path; against another parent it may have seemed new."""
        return path not in self.births or self.births[path].commit.id == commit.id

    def _contest(self, commit: Commit, row: Row, order: int) -> None:
        """Note a file that a branch beside others brings under a name that is taken there."""
        if row.before in self.contested:
            self.contested.add(row.path)
        if row.path in self.births and self._last[row.path] != row.new:
            moved = self.births.get(row.before) if row.status == "R" else None
            self.contested.add(row.path)
            self._rivals[row.path] = self.births[row.path] if moved else Birth(row.path, row.path, commit, order), moved
            self._begin_at(commit, row)

    def _join(self, row: Row) -> None:
        """Where a merge makes one of two such files, the first commit that landed earlier counts."""
        if row.status == "M" and (rivals := self._rivals.pop(row.path, None)) and row.path in self.births:
            known = {birth.commit.id: birth for birth in (*filter(None, rivals), self.births[row.path])}
            first = next(iter(self._landing(known.keys())), self.births[row.path].commit.id)
            self.births[row.path] = known[first]._replace(path=row.path)
            self.contested.discard(row.path)

    def _remove(self, commit: Commit, row: Row) -> None:
        stated = self._same.stated(row.path, row.old)
        past = self._past.setdefault(stated, [])
        if row.path in self.births:
            self._away[row.path] = self.births.pop(row.path), self.edits.pop(row.path, [])
            past += self._away[row.path][1]
        born = self._away[row.path][0] if row.path in self._away else None
        first = (born.first_path, born.commit.id) if born else (row.path, "")
        self.removed[row.path] = Removed(commit, row.path, row.old, *first)
        self._rivals.pop(row.path, None)
        self.ended.add(row.path)

    def _bring(self, commit: Commit, row: Row, order: int) -> None:
        gone, merge = self.removed.pop(row.path, None), len(commit.parents) > 1
        same = self._same if merge else self._same.returns  # what a merge brings was on a branch all the while
        if gone and row.path in self._away and same(gone.first_path, gone.blob, row.new):
            self.births[row.path], edits = self._away.pop(row.path)
            self.edits[row.path] = edits if merge else [*edits, Edit(commit, row.old, row.new)]
        else:
            self.replaced += [gone] if gone else []
            self.births[row.path] = Birth(row.path, row.path, commit, order)
            self._begin_at(commit, row)

    def _begin_at(self, commit: Commit, row: Row) -> None:
        """Note a commit that brings a file without an id where none was, or where other branches have another."""
        if row.status == "A" and len(commit.parents) < 2 and not self._same.stated(row.path, row.new):
            self._began.setdefault(row.path, []).append(commit.id)

    def _move(self, commit: Commit, row: Row, order: int) -> None:
        first = self._gone_on.get(row.before, Birth(row.path, row.before, commit, order))  # of another branch's rename
        unknown = first, self.edits.pop(row.before, [])
        known = (self.births.pop(row.before), unknown[1]) if row.before in self.births else None
        born, edits = known or self._away.get(row.before) or unknown
        self._gone_on[row.before] = born
        if gone := self.removed.pop(row.path, None):
            self.replaced.append(gone)
        self._rivals.pop(row.before, None)
        self.ended.add(row.before)  # whatever comes there later is another file
        self.births[row.path] = born._replace(path=row.path)
        self.edits[row.path] = edits

    def _settle(self, ids: Mapping[str, str]) -> None:
        """Let each id have the first commit that brought it; of files that state the same, the one that came first."""
        holders: dict[str, list[str]] = {}
        for path, stated in ids.items():
            holders.setdefault(stated, []).append(path)
        several = {one for one, paths in holders.items() if len(paths) > 1 or len(self._claims.get(one, ())) > 1}
        landed = self._landing({claim.commit.id for one in several for claim in self._claims.get(one, ())})
        places = {commit: place for place, commit in enumerate(landed)}

        def place(claim: Birth) -> tuple[int, str]:
            return places.get(claim.commit.id, len(places)), claim.path

        for stated, paths in holders.items():
            claims = sorted(self._claims.get(stated, ()), key=place)
            own = {path: self._own(path, claims) for path in paths}
            first = min(own.values(), key=place).path
            for path, birth in own.items():
                self._begin(path, stated, claims[0] if claims and path == first else birth, claims)

    def _own(self, path: str, claims: Sequence[Birth]) -> Birth:
        """The first commit of a file by itself, among all that brought its id."""
        found = self.births[path]
        if any(claim.commit.id == found.commit.id for claim in claims):
            return found
        return next((claim for claim in claims if claim.path == path), found)

    def _begin(self, path: str, stated: str, birth: Birth, claims: Sequence[Birth]) -> None:
        """Let a file have another first commit than its own: what brought it here counts as an edit."""
        own = self.births[path].commit
        if own.id == birth.commit.id:
            return
        brought = [Edit(own, "", self._last[path])] if any(claim.commit.id == own.id for claim in claims) else []
        self.edits[path] = [*self._past.get(stated, ()), *brought, *self.edits.get(path, ())]
        self.births[path] = birth._replace(path=path)


def traced(path: str, rows: Iterable[tuple[Commit, Row]], same: Same) -> list[Revision]:
    """The versions of the file that is at `path` after the newest of some rows, back to where it got this name."""
    found: list[Revision] = []
    back = ""  # the blob that a commit brought back, as long as it is not known whether the file was there before
    for commit, (status, before, after, old, new) in rows:
        if after != path or (back and status != "D"):
            continue
        if back and not same.returns(path, old, back):
            break
        other = status in "MR" and not same(path, old, new)
        added = status == "A" or other
        back = new if status == "A" else ""
        found.append(Revision(commit, after, "" if status == "D" else new, *(() if added else (before, old))))
        if other or before != path:
            break
    return found
