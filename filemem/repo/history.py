"""What Git says of commits and of the records they touched. Rule: all is asked of the table, which only grows.

An answer counts the commits that its tip reaches, so switching branches costs nothing. A file is known by its path and
followed through the renames that Git sees; who has which id is for others to say. Replacement refs are passed over; in
a shallow or partial clone the table holds what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from filemem.repo.commits import REVERTS, Table, has, pairs_of

if TYPE_CHECKING:
    from filemem.repo import Repo

NAME, NAMES = 200, 20  # characters of a name, and names of one kind, that are read: a commit can state any number
_TOUCHED = "select n, kind, path, before, old, new from touched where"
_Commits = dict[int, "Commit"]
_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")


class Commit(NamedTuple):
    """A commit: `at` is when it was made, `written` when its author wrote it, in epoch milliseconds.

    `agent`, `reviewers` and `co_authors` come from its trailers; `trailers` holds all of them, and a pair
    (`REVERTS`, id) for each commit that it says it reverts.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: int
    written: int
    subject: str
    agent: str = ""
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()


class Touch(NamedTuple):
    """What a commit did to a file: `kind` is A, M, D or R; blob ids `old` and `new`, "" for none.

    `before` is the path before a rename, else "".
    """

    commit: Commit
    kind: str
    path: str
    before: str
    old: str
    new: str


class Ancestors:
    """The commits that one commit reaches, itself included: `id in ancestors`."""

    def __init__(self, bits: bytes, number: Callable[[str], int | None]) -> None:
        self._bits, self._number = bits, number

    def __contains__(self, commit: object) -> bool:
        number = self._number(commit) if isinstance(commit, str) else None
        return number is not None and has(self._bits, number)


def _of_table(method: Callable[Concatenate[History, _P], _Answer]) -> Callable[Concatenate[History, _P], _Answer]:
    """A question to the table; it is asked once more of a new one where that is damaged."""

    def asked(self: History, /, *values: _P.args, **named: _P.kwargs) -> _Answer:
        return self.table.asked(lambda: method(self, *values, **named))

    asked.__doc__ = method.__doc__
    return asked


class History:
    """The past of a repository, seen from any of its commits."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self.table = Table(repo, folder)

    def close(self) -> None:
        """Let go of the table."""
        self.table.close()

    @_of_table
    def extend(self) -> None:
        """Bring the table up to HEAD. Does nothing where it is; called by whatever answers. Raises GitError."""
        self.table.number("HEAD")

    def touches(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, tuple[Touch, ...]]:
        """What happened to files, newest first, followed through renames. A merge counts only where it changed one.

        Args:
            paths: from the top of the work tree; one that nobody ever committed has no touches.
            tip: a revision; only what it reaches counts.
        """
        return self._touches(list(paths), tip)

    def firsts(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, Commit]:
        """The commit that first brought each file, also under a former name."""
        return {path: found[-1].commit for path, found in self.touches(paths, tip).items() if found}

    def dates(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, int]:
        """When each file was first committed, in epoch milliseconds."""
        return {path: commit.at for path, commit in self.firsts(paths, tip).items()}

    def landed(self, paths: Iterable[str], branch_tip: str) -> dict[str, Commit]:
        """The commit that brought each file to a branch: its own first commit, or the merge that took that in."""
        return self._landed(self.firsts(paths, branch_tip), branch_tip)

    def commits(self, ids: Iterable[str]) -> dict[str, Commit]:
        """Commits by their whole ids, as far as the table has them."""
        return self._known(list(ids))

    @_of_table
    def spoken(self, tip: str = "HEAD") -> tuple[Commit, ...]:
        """The commits that speak of decisions or revert something, each after all that it descends from."""
        bits = self.table.reach(tip)
        rows = self.table.db.execute("select n from commits where spoken order by n")
        return tuple(self._commits([n for (n,) in rows if has(bits, n)]).values())

    @_of_table
    def reverted(self, commit: Commit) -> frozenset[str]:
        """The whole ids of the commits that one says it reverts; of a merge, of all that this had brought."""
        found: set[str] = set()
        for key, value in commit.trailers:
            named, _, side = value.partition(" ")
            if key != REVERTS or not (whole := self._whole(named)):
                continue
            found.add(whole)
            if side and (other := self._whole(side)):
                bits, without = self.table.reach(whole), self.table.reach(other)
                brought = [n for n in range(len(bits) * 8) if has(bits, n) and not has(without, n)]
                found.update(each.id for each in self._commits(brought).values())
        return frozenset(found)

    @_of_table
    def record_ids(self, record_id: str, tip: str = "HEAD") -> tuple[Touch, ...]:
        """What the commits did whose trailer `Filemem-Id` names a record, newest first: also of one that is gone."""
        return self._rows("n in (select n from names where id = ?)", (record_id,), self.table.reach(tip))

    @_of_table
    def removals(self, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Every removal of a file, newest first."""
        return self._rows("kind = 'D'", (), self.table.reach(tip))

    @_of_table
    def ancestors(self, tip: str) -> Ancestors:
        """The commits that one reaches, itself included."""
        return Ancestors(self.table.reach(tip), self.table.known)

    @_of_table
    def is_ancestor(self, one: str, other: str) -> bool:
        """Whether a commit is another one or among what that descends from; False where one is unknown."""
        number = self.table.number(one)
        return number is not None and has(self.table.reach(other), number)

    # what is answered

    @_of_table
    def _landed(self, firsts: Mapping[str, Commit], tip: str) -> dict[str, Commit]:
        at = {path: self.table.landing(first.id, tip) for path, first in firsts.items()}
        commits = self._commits(set(at.values()))
        return {path: commits[n] for path, n in at.items() if n in commits}

    @_of_table
    def _known(self, ids: Sequence[str]) -> dict[str, Commit]:
        numbers = (self.table.known(one) for one in ids)
        return {one.id: one for one in self._commits({n for n in numbers if n is not None}).values()}

    @_of_table
    def _touches(self, paths: Sequence[str], tip: str) -> dict[str, tuple[Touch, ...]]:
        bits = self.table.reach(tip)
        followed = {path: self._followed(path, bits) for path in paths}
        commits = self._commits({row[0] for rows in followed.values() for row in rows})
        ordered = {path: sorted(rows, reverse=True) for path, rows in followed.items()}
        return {path: tuple(Touch(commits[n], *rest) for n, *rest in rows) for path, rows in ordered.items()}

    def _followed(self, path: str, bits: bytes) -> list[tuple[Any, ...]]:
        """The rows of one file under all names that it had."""
        found: list[tuple[Any, ...]] = []
        name, before, names = path, 1 << 62, {path}
        while name:
            gone = "select n from touched where before = ? and before != '' and n < ? order by n desc"
            away = self.table.db.execute(gone, (name, before))
            since = next((n for (n,) in away if has(bits, n)), 0)  # older rows are of what had the name then
            asked = f"{_TOUCHED} path = ? and n > ? order by n desc"
            former, late = "", []
            for row in self.table.db.execute(asked, (name, since)):
                if not has(bits, row[0]):
                    continue
                if row[0] >= before:  # on a branch that knew it by this name still; what was begun anew is another
                    late.append(row)
                    late = [] if row[1] in "ADR" else late
                    continue
                found.append(row)
                if row[1] == "R":
                    former, before = row[3], row[0]
                    break
            found += late
            name = former if former not in names else ""
            names.add(name)
        return found

    def _rows(self, where: str, values: tuple[str, ...], bits: bytes) -> tuple[Touch, ...]:
        asked = f"{_TOUCHED} {where} order by n desc"
        rows = [row for row in self.table.db.execute(asked, values) if has(bits, row[0])]
        commits = self._commits({row[0] for row in rows})
        return tuple(Touch(commits[row[0]], *row[1:]) for row in rows)

    def _commits(self, numbers: Iterable[int]) -> _Commits:
        """Commits by their numbers, in the order that is given."""
        asked = "select id, author, email, at, written, subject, trailers from commits where n = ?"
        ids = "select id from edges join commits on n = parent where child = ? order by nth"
        found: _Commits = {}
        for n in numbers:
            for row in self.table.db.execute(asked, (n,)):
                found[n] = _commit(row, tuple(one for (one,) in self.table.db.execute(ids, (n,))))
        return found

    def _whole(self, start: str) -> str:
        """The one commit whose id begins so, or ""."""
        end = start[:-1] + chr(ord(start[-1]) + 1)
        rows = self.table.db.execute("select id from commits where id >= ? and id < ? limit 2", (start, end))
        found = [one for (one,) in rows]
        return found[0] if len(found) == 1 else ""


def _commit(row: Sequence[Any], parents: tuple[str, ...]) -> Commit:
    one, author, email, at, written, subject, raw = row
    trailers = tuple(pairs_of(raw)) if raw else ()
    agents, reviewers, helpers = (
        tuple(_cut(value) for key, value in trailers if key.lower() == wanted)[:NAMES]
        for wanted in ("agent", "reviewed-by", "co-authored-by")
    )
    agent = _cut(" ".join(agents))
    return Commit(one, parents, _cut(author), email, at, written, subject, agent, reviewers, helpers, trailers)


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"
