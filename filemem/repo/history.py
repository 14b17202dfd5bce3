"""What Git's log says of commits and of the files that they touched, kept in an SQLite table.

A commit never changes, so what one `git log` said of it is kept, and the next one reads only what
the table lacks. A table that is damaged, or of another history, is built anew. Parents have smaller
numbers than their children. The rows of a file that came from outside the folder include those
from there; only `read_touches` and `read_authors` use them.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from filemem.errors import BrokenStore
from filemem.repo import log
from filemem.repo.commits import (
    IMPORTED,
    MAX_NAME_SIZE,
    REVERTS,
    Commit,
    Touch,
    add_reverts,
    build_provenance,
    collect_values,
    has_decision,
    parse_trailers,
)
from filemem.repo.run import read_git_file

if TYPE_CHECKING:
    from filemem.repo import Repo
    from filemem.repo.journal import JournalEntry

__all__ = ["IMPORTED", "Commit", "History", "Touch", "build_provenance"]

_VERSION = 6  # of the table's schema
_DEFAULT_FOLDER = "memory"
_MAX_LANDINGS = 4  # tips whose landings are remembered
_MAX_SECONDS = 253_402_300_799  # the last second of the calendar
_END = 1 << 62  # larger than the number of any commit
_INSERT = "insert or replace into touched values (?, ?, ?, ?, ?, ?)"
_SCHEMA = """
create table if not exists commits(
  n integer primary key, id text unique, author text, at integer, subject text, trailers text,
  spoken integer);
create table if not exists edges(
  child integer, nth integer, parent integer, primary key(child, nth)) without rowid;
create table if not exists touched(
  n integer, kind text, path text, before text, old text, new text);
create table if not exists tips(n integer primary key);
create unique index if not exists touched_path on touched(path, n);
create index if not exists touched_before on touched(before, n) where before != '';
create index if not exists commits_spoken on commits(n) where spoken;
"""
_Method = TypeVar("_Method", bound=Callable[..., Any])


class _TouchRow(NamedTuple):
    """One row of the table `touched`; `n` is the number of the commit."""

    n: int
    kind: str
    path: str
    old_path: str
    old_blob: str
    new_blob: str


def _retry_on_damage(method: _Method) -> _Method:
    """Make a method run again on a new table if the table is damaged or of another history."""

    @wraps(method)
    def call_with_retry(self: History, *values: Any, **keywords: Any) -> Any:
        with self._lock:
            try:
                return method(self, *values, **keywords)
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise self._build_error(error) from None
            self._remove_table()
            try:
                return method(self, *values, **keywords)
            except sqlite3.DatabaseError as error:
                raise self._build_error(error) from None

    return cast("_Method", call_with_retry)


class History:
    """The past of a store's folder ("." for all), up to any commit.

    Methods that read may raise GitError, BrokenStore.
    """

    def __init__(self, repo: Repo, folder: str) -> None:
        self._repo = repo
        self._folder = folder
        name = "commits.db"
        if folder == ".":
            name = "commits-%.db"
        elif folder != _DEFAULT_FOLDER:
            escaped_folder = folder.replace("%", "%25").replace("/", "%2F")
            name = f"commits-{escaped_folder}.db"
        self._file: Path = repo.shared_folder / name
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._landings: dict[int, dict[int, int]] = {}  # by the number of a tip

    def close(self) -> None:
        """Close the table."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._landings.clear()

    def _remove_table(self) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._file.with_name(f"{self._file.name}{suffix}").unlink()

    def _build_error(self, error: sqlite3.DatabaseError) -> BrokenStore:
        hint = "try again in a moment; if it stays so, check space and permissions there"
        return BrokenStore(f"{self._file}: {error}", hint)

    @_retry_on_damage
    def update_to_head(self) -> None:
        """Bring the table up to HEAD."""
        self._resolve_number("HEAD")

    @_retry_on_damage
    def append_save(self, entry: JournalEntry, parent: str, author: str) -> None:
        """Add the commit that a save has just made, without starting a process.

        The save removes no file. Nothing is added if the table lacks `parent`.
        """
        if self._find_number(parent) is None:
            return
        subject, _, trailer_text = entry.message.partition("\n\n")
        trailer_lines = [line.replace(": ", "\x1e", 1) for line in trailer_text.splitlines()]
        header = log.CommitHeader(
            id=entry.commit,
            parents=parent,
            seconds=str(entry.timestamp // 1000),
            author=author,
            subject=subject.strip(),
            trailers="\x1f".join(trailer_lines),
            body="",
        )
        rows = []
        for edit in entry.edits:
            if edit.old_blob != edit.blob:
                kind = "M" if edit.old_blob else "A"
                rows.append(log.FileRow(kind, edit.path, "", edit.old_blob, edit.blob))
        with self._db as db:
            db.execute("begin immediate")
            self._add_commit(db, header, rows)

    @_retry_on_damage
    def read_touches(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, tuple[Touch, ...]]:
        """Read what commits that `tip` reaches did to files, newest first, through renames."""
        reachable = self._read_reachable(tip)
        touches = {}
        for path in paths:
            rows = self._iter_touch_rows(path, reachable)
            touches[path] = self._build_touches(rows, reachable)
        return touches

    @_retry_on_damage
    def read_last_commits(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, str]:
        """Read the id of the last commit that touched each file under its present name."""
        path_list = list(paths)
        reachable = self._read_reachable(tip)
        placeholders = ",".join("?" * len(path_list))
        query = (
            "select path, n, id from touched join commits using (n)"  # noqa: S608
            f" where path in ({placeholders}) order by n"
        )
        rows = self._db.execute(query, path_list)
        return {path: commit_id for path, n, commit_id in rows if n in reachable}

    def read_dates(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, int]:
        """Read when each file was first committed, under any name, in epoch milliseconds."""
        touches_by_path = self.read_touches(paths, tip)
        return {path: rows[-1].commit.at for path, rows in touches_by_path.items() if rows}

    @_retry_on_damage
    def read_authors(self, tip: str = "HEAD") -> dict[str, str]:
        """Read who first committed each file that ever existed, under any name."""
        reachable = self._read_reachable(tip)
        author_by_path: dict[str, str] = {}
        query = (
            "select n, kind, path, before, author from touched join commits using (n) order by n"
        )
        for n, kind, path, old_path, author in self._db.execute(query):
            if n not in reachable:
                continue
            if kind == "A":
                author_by_path[path] = author
            elif kind == "R":
                author_by_path[path] = author_by_path.get(old_path, author)
        return author_by_path

    @_retry_on_damage
    def read_landings(self, paths: Iterable[str], tip: str) -> dict[str, Commit]:
        """Read which commit brought each file to a branch.

        That is the first commit of the file, or the merge that brought this to the branch.
        """
        touches_by_path = self.read_touches(paths, tip)
        if not any(touches_by_path.values()):
            return {}
        landings = self._compute_landings(self._resolve_number(tip) or 0)
        commits = {}
        for path, touches in touches_by_path.items():
            if touches:
                first_number = self._find_number(touches[-1].commit.id) or 0
                commits[path] = self._read_commit(landings[first_number])
        return commits

    @_retry_on_damage
    def read_added_files(self, commits: Iterable[str]) -> dict[str, list[str]]:
        """Read the files that each of some commits, given by full ids, added."""
        files = {}
        for commit in commits:
            rows = self._select_inside("kind = 'A' and n = ?", self._find_number(commit))
            files[commit] = [row.path for row in rows]
        return files

    @_retry_on_damage
    def read_decision_commits(self, tip: str = "HEAD") -> tuple[Commit, ...]:
        """Read the commits that name decisions or revert something, ancestors first."""
        reachable = self._read_reachable(tip)
        rows = self._db.execute("select n from commits where spoken order by n").fetchall()
        return tuple(self._read_commit(n) for (n,) in rows if n in reachable)

    @_retry_on_damage
    def read_reverted_ids(self, commit: Commit) -> frozenset[str]:
        """Read the full ids of the commits that one says it reverts.

        To revert a merge means to revert all that it brought.
        """
        reverted_ids: set[str] = set()
        for key, value in commit.trailers:
            if key != REVERTS:
                continue
            reverted_id, _, side = value.partition(" ")
            if side:
                reverted_ids |= self.read_ancestors(reverted_id) - self.read_ancestors(side)
            else:
                reverted_ids.add(reverted_id)
        return frozenset(reverted_ids)

    @_retry_on_damage
    def read_removals(self, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Read every removal of a file, newest first."""
        reachable = self._read_reachable(tip)
        rows = self._select_inside("kind = 'D' order by n desc")
        return self._build_touches(rows, reachable)

    @_retry_on_damage
    def read_saves(self, author: str, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Read what the last saves and imports of an author did, newest first."""
        reachable = self._read_reachable(tip)  # first: it brings the table up to that
        save_condition = f"(trailers like '%Filemem-Id%' or trailers like '%{IMPORTED}%')"
        commit_query = (
            f"select n from commits where author = ? and {save_condition}"  # noqa: S608
            " order by n desc limit 100"
        )
        rows = self._select_inside(f"n in ({commit_query}) order by n desc", author)
        touches = self._build_touches(rows, reachable)
        return tuple(sorted(touches, key=_get_time, reverse=True))

    @_retry_on_damage
    def read_ancestors(self, tip: str) -> frozenset[str]:
        """Read the ids of the commits that one reaches, itself included."""
        reachable = self._read_reachable(tip)
        rows = self._db.execute("select n, id from commits")
        return frozenset(commit_id for n, commit_id in rows if n in reachable)

    @_retry_on_damage
    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether `descendant` reaches `ancestor`; False if one of them is unknown."""
        return self._resolve_number(ancestor) in self._read_reachable(descendant)

    # queries

    def _select_rows(self, condition: str, *values: Any) -> Iterator[_TouchRow]:
        """Read rows of the table `touched`."""
        columns = "n, kind, path, before, old, new"
        query = f"select {columns} from touched where {condition}"  # noqa: S608
        for row in self._db.execute(query, values):
            yield _TouchRow(*row)

    def _select_inside(self, condition: str, *values: Any) -> Iterator[_TouchRow]:
        """Read rows of files in the folder; see `_select_rows`."""
        prefix = "" if self._folder == "." else f"{self._folder}/"
        for row in self._select_rows(condition, *values):
            if row.path.startswith(prefix):
                yield row

    def _iter_touch_rows(self, path: str, reachable: Collection[int]) -> Iterator[_TouchRow]:
        """Yield the rows of a file under all its names, newest first."""
        name = path
        end = _END
        while name:
            start = self._find_rename(name, end, reachable)  # before it, the name was another file
            condition = "path = ? and n > ? and n < ? order by n desc"
            rows = self._select_rows(condition, name, start, end)
            name = ""
            for row in rows:
                yield row
                if row.kind == "R" and row.n in reachable:
                    end = row.n
                    name = row.old_path
                    break

    def _find_rename(self, old_path: str, end: int, reachable: Collection[int]) -> int:
        """Find the last commit before `end` that renamed a file of this name; 0 for none."""
        query = "select n from touched where before = ? and before != '' and n < ? order by n desc"
        for (n,) in self._db.execute(query, (old_path, end)):
            if n in reachable:
                return int(n)
        return 0

    def _build_touches(
        self, rows: Iterable[_TouchRow], reachable: Collection[int]
    ) -> tuple[Touch, ...]:
        """Build touches of the rows that a tip reaches."""
        touches = []
        for row in rows:
            if row.n in reachable:
                commit = self._read_commit(row.n)
                touches.append(
                    Touch(commit, row.kind, row.path, row.old_path, row.old_blob, row.new_blob)
                )
        return tuple(touches)

    def _read_commit(self, n: int) -> Commit:
        query = "select id, author, at, subject, trailers from commits where n = ?"
        row = self._db.execute(query, (n,)).fetchone()
        commit_id, author, timestamp, subject, trailer_text = row
        query = "select id from edges join commits on n = parent where child = ? order by nth"
        parents = [parent for (parent,) in self._db.execute(query, (n,))]
        trailers = parse_trailers(trailer_text)
        agents = collect_values(trailers, "agent")
        return Commit(
            id=commit_id,
            parents=tuple(parents),
            author=author[:MAX_NAME_SIZE],
            at=timestamp,
            subject=subject,
            agent=" ".join(agents)[:MAX_NAME_SIZE],
            reviewers=collect_values(trailers, "reviewed-by"),
            co_authors=collect_values(trailers, "co-authored-by"),
            trailers=trailers,
        )

    def _read_reachable(self, tip: str) -> Collection[int]:
        """Read the numbers of the commits that a tip reaches."""
        start = self._resolve_number(tip)
        if start is None:
            return ()
        tips = self._db.execute("select n from tips").fetchall()
        if tips == [(start,)]:  # all commits lead to it
            return range(1, start + 1)
        return self._compute_landings(start)

    def _compute_landings(self, start: int) -> Mapping[int, int]:
        """Compute where the commits that one reaches joined its line of first parents.

        Maps each number to that of the first commit on the line that contains it.
        """
        if start in self._landings:
            return self._landings[start]
        landings = {start: start}
        query = "select child, nth, parent from edges where child <= ? order by child desc"
        for child, nth, parent in self._db.execute(query, (start,)):
            landing = landings.get(child)
            if landing is None:
                continue
            if landing == child and nth == 0:
                landings[parent] = parent
            else:
                landings[parent] = min(landing, landings.get(parent, landing))
        if len(self._landings) >= _MAX_LANDINGS:
            self._landings.clear()
        self._landings[start] = landings
        return landings

    # the table

    @property
    def _db(self) -> sqlite3.Connection:
        """The open table; in memory if its folder cannot be written."""
        if self._connection is None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._open_database(str(self._file))
            except (OSError, sqlite3.OperationalError):
                self._connection = self._open_database(":memory:")
        return self._connection

    def _open_database(self, file: str) -> sqlite3.Connection:
        """Open the table, or create it. Raises DatabaseError if it is of another history."""
        db = sqlite3.connect(file, timeout=10.0, check_same_thread=False, isolation_level=None)
        boundary = read_git_file(self._repo.common_dir / "shallow")
        name = f"{_VERSION}\n{self._folder}\n{boundary}"
        version = zlib.crc32(name.encode("utf-8", "surrogateescape")) >> 1 | 1
        try:
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = off")  # what a power cut damages is built anew
            (stored_version,) = db.execute("pragma user_version").fetchone()
            if not stored_version:
                with db:
                    db.executescript(f"begin immediate; {_SCHEMA} pragma user_version = {version};")
            elif stored_version != version:
                raise sqlite3.DatabaseError("made of another history")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _find_number(self, commit: str) -> int | None:
        """Find the number of a commit by its id; None if the table lacks it."""
        row = self._db.execute("select n from commits where id = ?", (commit,)).fetchone()
        return row[0] if row else None

    def _resolve_number(self, tip: str) -> int | None:
        """Find the number of a revision, and bring the table up to it if need be.

        None if there is no such commit.
        """
        if tip == "HEAD":
            commit = self._repo.read_head()
        else:
            number = self._find_number(tip)
            if number is not None:
                return number
            commit = self._repo.resolve_revision(tip)
        if not commit:
            return None
        if self._find_number(commit) is None:
            self._add_commits(commit)
        return self._find_number(commit)

    def _add_commits(self, tip: str) -> None:
        """Add the commits that one reaches and the table lacks. Raises GitError."""
        revisions = [tip]
        for (known_tip,) in self._db.execute("select id from commits join tips using (n)"):
            revisions.append(f"^{known_tip}")
        folders = [] if self._folder == "." else [self._folder]
        logged = log.read_commits(self._repo, revisions, folders, log.ALL_COMMITS)
        earlier_rows = {}
        if folders:
            earlier_rows = log.read_earlier_rows(self._repo, tip, logged)
        with self._db as db:
            db.execute("begin immediate")
            for header, rows in logged:
                self._add_commit(db, header, rows)
            for (commit, _), row in earlier_rows.items():
                db.execute(_INSERT, (self._find_number(commit), *row))

    def _add_commit(
        self, db: sqlite3.Connection, header: log.CommitHeader, rows: Iterable[log.FileRow]
    ) -> None:
        """Add a commit after its parents, unless another process has added it."""
        if self._find_number(header.id) is not None:
            return
        trailers = add_reverts(header)
        seconds = int(header.seconds) if header.seconds.isdigit() else 0
        values = (
            header.id,
            header.author or "unknown",
            min(seconds, _MAX_SECONDS) * 1000,
            header.subject,
            trailers,
            has_decision(trailers),
        )
        n = db.execute("insert into commits values (null, ?, ?, ?, ?, ?, ?)", values).lastrowid
        for nth, parent_id in enumerate(header.parents.split()):
            parent = self._find_number(parent_id)
            if parent is not None:  # None: history ends here, in a shallow clone
                db.execute("insert into edges values (?, ?, ?)", (n, nth, parent))
                db.execute("delete from tips where n = ?", (parent,))
        db.execute("insert into tips values (?)", (n,))
        db.executemany(_INSERT, [(n, *row) for row in rows])


def _get_time(touch: Touch) -> int:
    return touch.commit.at
