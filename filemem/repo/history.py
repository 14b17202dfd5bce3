"""What Git says of commits and of the records that they touched, kept in SQLite.

Rule: a commit never changes, so what one `git log` said of it is kept for good, and the next asks only for what the
table lacks. It is derived: a damaged table, or one of another history, is made anew. Parents have smaller numbers than
their children; what a commit reaches is a number with a bit for each. An answer counts what its tip reaches, so
switching branches costs nothing. A file is known by its path and followed through the renames that Git sees.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from filemem.errors import BrokenStore, Locked
from filemem.repo.log import REVERTS, Commit, Logged, commit_of, logged

if TYPE_CHECKING:
    from filemem.repo import Repo

__all__ = ["Commit", "History", "Touch"]

_TOUCHES = "select n, kind, path, before, old, new from touched where"
_VERSION, _USUAL, _KEPT, _MANY = 3, "memory", 16, 48
_SCHEMA = """
create table if not exists commits(n integer primary key, id text unique, author text, email text, at integer,
  written integer, subject text, trailers text, spoken integer);
create table if not exists edges(child integer, nth integer, parent integer, primary key(child, nth)) without rowid;
create table if not exists touched(n integer, kind text, path text, before text, old text, new text);
create table if not exists names(id text, n integer);
create table if not exists tips(n integer primary key);
create table if not exists reached(tip integer, line integer, bits blob, primary key(tip, line)) without rowid;
create table if not exists facts(key text primary key, value text);
create index if not exists edges_parent on edges(parent);
create index if not exists touched_path on touched(path, n);
create index if not exists touched_before on touched(before, n) where before != '';
create index if not exists names_id on names(id);
create index if not exists commits_spoken on commits(n) where spoken;
"""
_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")


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


def _answering(method: Callable[Concatenate[History, _P], _Answer]) -> Callable[Concatenate[History, _P], _Answer]:
    """A question to the table; it is asked once more of a new one where that is damaged, or of another history."""

    def asked(self: History, /, *values: _P.args, **named: _P.kwargs) -> _Answer:
        with self._lock:
            try:
                return method(self, *values, **named)
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise Locked(f"{self._file} is held by another process", "try again in a moment") from None
                self._forget()
            try:
                return method(self, *values, **named)
            except sqlite3.DatabaseError as error:
                raise BrokenStore(f"{self._file}: {error}", "check space and permissions there") from None

    asked.__doc__ = method.__doc__
    return asked


class History:
    """The past of a repository, seen from any of its commits; `folder` is the store, "." for all."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self._repo, self._folder = repo, folder
        name = folder.replace("%", "%25").replace("/", "%2F") if folder != "." else "%"
        self._file: Path = repo.shared / ("commits.db" if folder == _USUAL else f"commits-{name}.db")
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._bits: dict[tuple[int, bool], int] = {}  # what `_reach` gave

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None
            self._bits.clear()

    @_answering
    def extend(self) -> None:
        """Bring the table up to HEAD. Does nothing where it is; called by whatever answers. Raises GitError."""
        self._number("HEAD")

    @_answering
    def touches(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, tuple[Touch, ...]]:
        """What happened to files, newest first, followed through renames. A merge counts only where it changed one.

        Args:
            paths: from the top of the work tree; one that nobody ever committed has no touches.
            tip: a revision; only what it reaches counts.
        """
        bits = self._reach(tip)
        followed = {path: sorted(self._followed(path, bits), reverse=True) for path in paths}
        commits = self._commits({row[0] for rows in followed.values() for row in rows})
        return {path: tuple(Touch(commits[n], *rest) for n, *rest in rows) for path, rows in followed.items()}

    @_answering
    def committed(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, str]:
        """The id of the last commit that touched each file by this name; one question, and no rename is followed."""
        wanted, bits = list(paths), self._reach(tip)
        which = ",".join("?" * len(wanted))
        asked = f"select path, n, id from touched join commits using (n) where path in ({which}) order by n"  # noqa: S608
        return {path: one for path, n, one in self._db.execute(asked, wanted) if bits >> n & 1}

    def firsts(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, Commit]:
        """The commit that first brought each file, also under a former name."""
        return {path: found[-1].commit for path, found in self.touches(list(paths), tip).items() if found}

    def dates(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, int]:
        """When each file was first committed, in epoch milliseconds."""
        return {path: commit.at for path, commit in self.firsts(paths, tip).items()}

    @_answering
    def landed(self, paths: Iterable[str], tip: str) -> dict[str, Commit]:
        """The commit that brought each file to a branch: its own first commit, or the merge that took that in."""
        at = {path: self._landing(first.id, tip) for path, first in self.firsts(paths, tip).items()}
        commits = self._commits(set(at.values()))
        return {path: commits[n] for path, n in at.items() if n in commits}

    @_answering
    def commits(self, ids: Iterable[str]) -> dict[str, Commit]:
        """Commits by their whole ids, as far as the table has them."""
        numbers = {self._known(one) for one in ids}
        return {one.id: one for one in self._commits(n for n in numbers if n is not None).values()}

    @_answering
    def spoken(self, tip: str = "HEAD") -> tuple[Commit, ...]:
        """The commits that speak of decisions or revert something, each after all that it descends from."""
        bits = self._reach(tip)
        rows = self._db.execute("select n from commits where spoken order by n")
        return tuple(self._commits([n for (n,) in rows if bits >> n & 1]).values())

    @_answering
    def reverted(self, commit: Commit) -> frozenset[str]:
        """The whole ids of the commits that one says it reverts; of a merge, of all that this had brought."""
        found: set[str] = set()
        for key, value in commit.trailers:
            named, _, side = value.partition(" ")
            if key != REVERTS or not (whole := self._whole(named)):
                continue
            found.add(whole)
            if side and (other := self._whole(side)):
                found |= self._ids(self._reach(whole) & ~self._reach(other))
        return frozenset(found)

    @_answering
    def record_ids(self, record_id: str, tip: str = "HEAD") -> tuple[Touch, ...]:
        """What the commits did whose trailer `Filemem-Id` names a record, newest first: also of one that is gone."""
        return self._touched("n in (select n from names where id = ?)", (record_id,), tip)

    @_answering
    def removals(self, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Every removal of a file, newest first."""
        return self._touched("kind = 'D'", (), tip)

    @_answering
    def ancestors(self, tip: str) -> frozenset[str]:
        """The ids of the commits that one reaches, itself included."""
        return self._ids(self._reach(tip))

    @_answering
    def is_ancestor(self, one: str, other: str) -> bool:
        """Whether a commit is another one or among what that descends from; False where one is unknown."""
        number = self._number(one)
        return number is not None and bool(self._reach(other) >> number & 1)

    # what is asked of the table

    def _followed(self, path: str, bits: int) -> list[tuple[Any, ...]]:
        """The rows of one file under all names that it had."""
        found: list[tuple[Any, ...]] = []
        name, before, names = path, 1 << 62, {path}
        while name:
            gone = "select n from touched where before = ? and before != '' and n < ? order by n desc"
            away = self._db.execute(gone, (name, before))
            since = next((n for (n,) in away if bits >> n & 1), 0)  # older rows are of what had the name then
            asked = f"{_TOUCHES} path = ? and n > ? order by n desc"
            former, late = "", []
            for row in self._db.execute(asked, (name, since)):
                if not bits >> row[0] & 1:
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

    def _touched(self, where: str, values: tuple[str, ...], tip: str) -> tuple[Touch, ...]:
        bits, asked = self._reach(tip), f"{_TOUCHES} {where} order by n desc"
        rows = [row for row in self._db.execute(asked, values) if bits >> row[0] & 1]
        commits = self._commits({row[0] for row in rows})
        return tuple(Touch(commits[row[0]], *row[1:]) for row in rows)

    def _commits(self, numbers: Iterable[int]) -> dict[int, Commit]:
        """Commits by their numbers, in the order that is given."""
        asked = "select id, author, email, at, written, subject, trailers from commits where n = ?"
        ids = "select id from edges join commits on n = parent where child = ? order by nth"
        found: dict[int, Commit] = {}
        for n in numbers:
            for row in self._db.execute(asked, (n,)):
                found[n] = commit_of(row, tuple(one for (one,) in self._db.execute(ids, (n,))))
        return found

    def _ids(self, bits: int) -> frozenset[str]:
        return frozenset(one for n, one in self._db.execute("select n, id from commits") if bits >> n & 1)

    def _whole(self, start: str) -> str:
        """The one commit whose id begins so, or ""."""
        end = start[:-1] + chr(ord(start[-1]) + 1)
        rows = self._db.execute("select id from commits where id >= ? and id < ? limit 2", (start, end))
        found = [one for (one,) in rows]
        return found[0] if len(found) == 1 else ""

    def _reach(self, tip: str, *, line: bool = False) -> int:
        """The commits that a tip reaches, a bit for each by its number; only along first parents with `line`."""
        start = self._number(tip)
        if start is None:
            return 0
        if (start, line) not in self._bits:
            rows = self._db.execute("select tip, bits from reached where line = ?", (line,))
            known = {n: int.from_bytes(kept, "little") for n, kept in rows}
            known |= {n: bits for (n, along), bits in self._bits.items() if along == line}
            asked, bits, steps, waiting = "select parent from edges where child = ? and nth < ?", 0, 0, [start]
            while waiting:
                one = waiting.pop()
                if bits >> one & 1:
                    continue
                if one not in known:
                    waiting += [row[0] for row in self._db.execute(asked, (one, 1 if line else 99))]
                    steps += 1
                bits |= known.get(one, 1 << one)
            if len(self._bits) >= 2 * _KEPT:
                self._bits.clear()
            self._bits[start, line] = bits
            if steps >= _MANY:
                with suppress(sqlite3.OperationalError), self._db as db:  # another process is writing: then next time
                    db.execute("delete from reached where (select count(*) from reached) > ?", (_KEPT,))
                    kept = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
                    db.execute("insert or replace into reached values (?, ?, ?)", (start, line, kept))
        return self._bits[start, line]

    def _landing(self, commit: str, tip: str) -> int:
        """The number of the first commit on a tip's line of first parents that contains a commit which it reaches."""
        line, reach, start = self._reach(tip, line=True), self._reach(tip), self._known(commit) or 0
        waiting, seen, best = [start], {start}, 0
        while waiting:
            one = waiting.pop()
            if line >> one & 1:
                best = min(best or one, one)
                continue
            above = (row[0] for row in self._db.execute("select child from edges where parent = ?", (one,)))
            more = [child for child in above if child not in seen and reach >> child & 1]
            seen.update(more)
            waiting += more
        return best

    # the table

    @property
    def _db(self) -> sqlite3.Connection:
        """The open table; one in memory where its folder cannot be written."""
        if self._open is None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._open = self._prepared(_connected(str(self._file)))
            except (OSError, sqlite3.OperationalError):
                self._open = self._prepared(_connected(":memory:"))
        return self._open

    def _prepared(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """A table that is of this history; a new one is begun. Raises DatabaseError for another's."""
        shallow = self._repo.common_dir / "shallow"
        facts = {"folder": self._folder, "shallow": shallow.read_text() if shallow.is_file() else ""}
        try:
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = off")  # what a power cut damages is made anew
            if db.execute("pragma user_version").fetchone() == (0,):
                with db:
                    db.executescript(f"begin immediate; {_SCHEMA} pragma user_version = {_VERSION};")
                    db.executemany("insert or replace into facts values (?, ?)", facts.items())
            known = dict(db.execute("select key, value from facts"))
            if db.execute("pragma user_version").fetchone() != (_VERSION,) or known != facts:
                raise sqlite3.DatabaseError("made of another history")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _forget(self) -> None:
        self.close()
        for end in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._file.with_name(f"{self._file.name}{end}").unlink()

    def _known(self, commit: str) -> int | None:
        """The number of a commit that the table has."""
        row = self._db.execute("select n from commits where id = ?", (commit,)).fetchone()
        return row[0] if row else None

    def _number(self, tip: str) -> int | None:
        """The number of a revision; the table is brought up to it first. None where there is no such commit."""
        number = self._known(tip)
        commit = self._repo.head() if tip == "HEAD" else None if number else self._repo.resolve(tip)
        if commit and (number := self._known(commit)) is None:
            tips = [row[0] for row in self._db.execute("select id from commits where n in (select n from tips)")]
            found = list(logged(self._repo, self._folder, commit, tips))
            with self._db as db:
                db.execute("begin immediate")
                self._add(db, found)
            number = self._known(commit)
        return number

    def _add(self, db: sqlite3.Connection, found: Iterable[Logged]) -> None:
        """Add commits, parents before children."""
        last = first = db.execute("select coalesce(max(n), 0) + 1 from commits").fetchone()[0]
        numbers: dict[str, int | None] = {}
        commits, edges, touched, names = list[Any](), list[Any](), list[Any](), list[Any]()

        def numbered(commit: str) -> int | None:
            if commit not in numbers:
                numbers[commit] = self._known(commit)
            return numbers[commit]  # None: history ends here, in a shallow clone

        for entry in found:
            one, parents = entry.row[0], entry.parents
            if numbered(one) is not None:
                continue  # another process has added it
            numbers[one] = last
            known = (numbered(parent) for parent in parents)
            edges += [(last, nth, parent) for nth, parent in enumerate(known) if parent is not None]
            commits.append((last, *entry.row))
            touched += [(last, *row) for row in entry.touched]
            names += [(record, last) for record in entry.records]
            last += 1
        for table, rows in {"commits": commits, "edges": edges, "touched": touched, "names": names}.items():
            if rows:
                db.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608
        inner = {parent for _, _, parent in edges}
        db.executemany("delete from tips where n = ?", ((n,) for n in inner))
        db.executemany("insert or ignore into tips values (?)", ((n,) for n in range(first, last) if n not in inner))


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=10.0, check_same_thread=False, isolation_level=None)
