"""What became of files, from the commits that touched them, the oldest first.

Rule: this is the one place that says which commit brought a file. What states an id has the first commit that brought
this id, as commits landed, whatever path or bytes it had then; where another id stands in a file than before, that is
another. What states none is known by its file: it keeps its first commit through renames, and where it was away and
came back. Several files may have begun under one name, one after the other was renamed or was removed for good: each
has its number among them, in the order in which they landed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from filemem.repo.lives import Birth, Edit, Landing, Removed, Same, Taking, Walk
from filemem.repo.log import Commit, Row


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
        self.beside: set[str] = set()  # paths whose file two branches changed, each its own version of it
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
        self._joined: dict[str, list[str]] = {}  # of this merge: the versions of its parents, by path
        self._kept: set[str] = set()  # of this commit: paths at which a parent has another version of the same
        self._sides: list[tuple[Row, int]] = []  # of this merge: other versions that its parents have, of how many
        self._given_up: set[tuple[str, str]] = set()  # path and blob: what merges left for a version that a side had
        self._brought: dict[tuple[str, str], str] = {}  # path and commit -> the blob of a claim
        self._removals: dict[str, dict[str, Removed]] = {}  # of a path that several branches removed: by commit

    def add(self, commit: Commit, rows: Iterable[Row], order: int) -> None:
        """Take a commit in; of a merge, what it shows against one parent."""
        if self._commit != commit.id:
            self._give_up()
            self._commit, self._differs, self._joined, self._kept = commit.id, Counter[str](), {}, set()
        for row in rows:
            self._differs[row.path] += 1
            alone = self._differs[row.path] >= len(commit.parents)  # no parent has this very version
            for part in self._parts(row, alone=alone):
                self._take(commit, part, order, alone=alone)

    def walk(self, head: str) -> Walk:
        """What was found; `head` is the last commit."""
        self._give_up()
        self._remove_once()
        ids = {path: stated for path in self.births if (stated := self._same.stated(path, self._last[path]))}
        self._settle(ids)
        touched, ended, left = map(frozenset, (self.touched, self.ended, self._past.keys() - {""}))
        taken = {path: self._taken[path] for path in sorted(self.ended & self._taken.keys())}
        found = (self.births, self.removed, self.replaced, self.edits, touched, ended, head, ids, left)
        return Walk(*found, self._began, taken, frozenset(path for path, _ in self._given_up))

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
            self._sides += [(row, len(commit.parents))] if row.status == "M" else []
            if row.status in "MR":
                self._joined.setdefault(row.path, []).append(row.old)
        elif row.status in "AR":
            self._contest(commit, row, order)
        if row.before in self.beside or (not merge and self._last.get(row.before, row.old) != row.old):
            self.beside.add(row.path)
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
            self._brought[row.path, commit.id] = row.new
        sides = tuple(self._joined.get(row.path, ()))
        if row.old != row.new and (row.status in "MR" or (row.status == "A" and sides)):
            before = sides[-1] if sides else row.old
            self.edits.setdefault(row.path, []).append(Edit(commit, before, row.new, sides))

    def _give_up(self) -> None:
        """Forget the edits that led only to versions which the last merge left for the version of another side."""
        for row, parents in self._sides:
            edits = self.edits.get(row.path, [])
            if self._differs[row.path] < parents:  # else the merge made a version of its own, of all of them
                lost = _led(edits, row.old) - _led(edits, row.new)
                self.edits[row.path] = [edit for edit in edits if edit.after not in lost]
                self._given_up |= {(row.path, blob) for blob in lost}
        self._sides.clear()

    def _unknown(self, commit: Commit, path: str) -> bool:
        """Whether no commit before this one has a file at a path; against another parent it may have seemed new."""
        return path not in self.births or self.births[path].commit.id == commit.id

    def _contest(self, commit: Commit, row: Row, order: int) -> None:
        """Note a file that a branch beside others brings under a name that is taken there."""
        if row.before in self.contested:
            self.contested.add(row.path)
        if row.path in self.births and (row.status == "R" or self._last[row.path] != row.new):
            moved = self.births.get(row.before) if row.status == "R" else None
            self.contested.add(row.path)
            self._rivals[row.path] = self.births[row.path] if moved else Birth(row.path, row.path, commit, order), moved
            self._begin_at(commit, row)

    def _join(self, row: Row) -> None:
        """Where a merge makes one of two such files, the first commit that landed earlier counts.

        What a side changed that has a file under the name that it had before another side renamed it goes on with it.
        """
        here, there = self.births.get(row.path), self.births.get(row.before)
        other = row.status == "R" and here is not None and (there is None or there.commit.id == here.commit.id)
        if other:
            self.births.pop(row.before, None)  # the merge has it under the other name alone
            self.ended.add(row.before)
            if moved := self.edits.pop(row.before, []):
                self.edits.setdefault(row.path, []).extend(moved)
                self.beside.add(row.path)
        if row.status == "M" and (rivals := self._rivals.pop(row.path, None)) and row.path in self.births:
            known = {birth.commit.id: birth for birth in (*filter(None, rivals), self.births[row.path])}
            first = next(iter(self._landing(known.keys())), self.births[row.path].commit.id)
            self.births[row.path] = known[first]._replace(path=row.path)
            self.contested.discard(row.path)

    def _remove(self, commit: Commit, row: Row) -> None:
        merge, known = len(commit.parents) > 1, row.path in self.births
        self.ended.add(row.path)
        if merge and not known and row.path not in self._away and row.path in self._gone_on:
            return  # a side had it still under the name that another gave up: what became of it is told there
        stated, gone = self._same.stated(row.path, row.old), self.removed.get(row.path)
        past, by, last = self._past.setdefault(stated, []), commit, row.old
        if known:
            self._away[row.path] = self.births.pop(row.path), self.edits.pop(row.path, [])
            past += self._away[row.path][1]
        elif merge and row.path in self._away:  # a side had it still, and may have changed it
            self.beside.add(row.path)
            (born, edits), changed = self._away[row.path], self.edits.pop(row.path, [])
            self._away[row.path] = born, [*edits, *changed]
            past += changed
            if gone:  # it was gone before the merge
                by, last = gone.commit, gone.blob
                if row.old not in _led(edits, last):
                    last, several = row.old, self._removals.get(row.path, {})
                    several.update({one: each._replace(blob=last) for one, each in several.items()})
        away = self._away[row.path][0] if row.path in self._away else None
        first = (away.first_path, away.commit.id) if away else (row.path, "")
        if gone:
            self._removals.setdefault(row.path, {}).setdefault(gone.commit.id, gone)
        self.removed[row.path] = Removed(by, row.path, last, *first)
        if row.path in self._removals:
            self._removals[row.path][by.id] = self.removed[row.path]
        self._rivals.pop(row.path, None)

    def _remove_once(self) -> None:
        """Let what several branches removed be gone since the removal that landed first."""
        several = {path: found for path, found in self._removals.items() if path in self.removed and len(found) > 1}
        landed = self._landing({commit for found in several.values() for commit in found})
        for path, found in several.items():
            self.removed[path] = next((found[commit] for commit in landed if commit in found), self.removed[path])

    def _replace(self, path: str) -> None:
        """Let another file stand where one was removed, if one was."""
        found = self._removals.pop(path, {})
        if gone := self.removed.pop(path, None):
            landed = self._landing(found.keys()) if len(found) > 1 else ()
            self.replaced.append(next((found[one] for one in landed), gone))

    def _bring(self, commit: Commit, row: Row, order: int) -> None:
        gone, merge = self.removed.get(row.path), len(commit.parents) > 1
        same = self._same if merge else self._same.returns  # what a merge brings was on a branch all the while
        if gone and row.path in self._away and same(gone.first_path, gone.blob, row.new):
            self.births[row.path], edits = self._away.pop(row.path)
            self.edits[row.path] = edits if merge else [*edits, Edit(commit, row.old, row.new)]
            self.removed.pop(row.path)
            self._removals.pop(row.path, None)
        else:
            self._replace(row.path)
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
        self._replace(row.path)
        self._rivals.pop(row.before, None)
        self.ended.add(row.before)  # whatever comes there later is another file
        here = self.births.get(row.path)
        if here is not None and self._same(here.first_path, self._last[row.path], row.new):
            edits = [*self.edits.get(row.path, []), *edits]
            self.beside.add(row.path)
        self.births[row.path] = born._replace(path=row.path)
        self.edits[row.path] = [*edits]

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
        return next((claim for claim in claims if claim.path in (path, found.first_path)), found)

    def _begin(self, path: str, stated: str, birth: Birth, claims: Sequence[Birth]) -> None:
        """Let a file have a first commit that may be another than its own: what brought it here counts as an edit.

        Where it never was away the two are of branches beside one another: what led to the very version that landed
        first is no edit of that.
        """
        own, edits, away = self.births[path], self.edits.get(path, []), stated in self._past
        first = self._version(birth)
        if own.commit.id != birth.commit.id:
            version = self._version(own)
            if version and (away or version != first) and (path, version) not in self._given_up:
                edits = [Edit(own.commit, "", version), *edits]
            edits = [*self._past.get(stated, ()), *edits]
            self.births[path] = birth._replace(path=path)
        if not away:
            older = _led(edits, first)
            beside = {self._version(claim) for claim in claims} - {first}
            edits = edits if beside.isdisjoint(older) else [edit for edit in edits if edit.after not in older]
        if edits:
            self.edits[path] = edits
        else:
            self.edits.pop(path, None)

    def _version(self, claim: Birth) -> str:
        """The blob with which a commit brought an id, under whatever name it had there; "" where that is not known."""
        return self._brought.get((claim.first_path, claim.commit.id), "")


def _led(edits: Sequence[Edit], blob: str) -> set[str]:
    """The versions that led to one by some edits, itself among them."""
    found = {blob} - {""}
    for edit in reversed(edits):
        if edit.after in found:
            found.update(edit.sides or (edit.before,))
    return found - {""}
