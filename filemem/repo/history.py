"""What Git says of commits and of the records that they touched, kept in SQLite.

Rule: a commit never changes, so what one `git log` said of it is kept, and the next asks for what the table lacks. A
damaged table, or one of another history, is made anew. Parents have smaller numbers than their children. A file that
came from outside the folder has its rows from there too, which `touches` and `authors` see, and no other question.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from filemem.errors import BrokenStore
from filemem.repo import log
from filemem.repo.run import read_git_file

if TYPE_CHECKING:
    from filemem.repo import Repo
    from filemem.repo.journal import JournalEntry

IMPORTED = "Imported-From"  # the trailer that `memory.ingest` writes: the system
REVERTS = "Reverts"  # the trailer that stands for "This reverts commit X." in a message
MAX_NAME_SIZE, MAX_NAMES = (
    200,
    20,
)  # characters of a name, and names of one kind, that are read: a commit can state any number
_SELECT_TOUCHES = "select n, kind, path, before, old, new from touched where"
_VERSION, _DEFAULT_FOLDER, _MAX_LANDINGS = (
    6,
    "memory",
    4,
)  # the usual folder; how many tips are remembered
_INSERT = "insert or replace into touched values (?, ?, ?, ?, ?, ?)"
_SCHEMA = """
create table if not exists commits(n integer primary key, id text unique, author text, at integer, subject text,
  trailers text, spoken integer);
create table if not exists edges(child integer, nth integer, parent integer, primary key(child, nth)) without rowid;
create table if not exists touched(n integer, kind text, path text, before text, old text, new text);
create table if not exists tips(n integer primary key);
create unique index if not exists touched_path on touched(path, n);
create index if not exists touched_before on touched(before, n) where before != '';
create index if not exists commits_spoken on commits(n) where spoken;
"""
_REVERT = re.compile(
    r"(?m)^This reverts commit (\w{40,64})(?:,\s+reversing\s+changes\s+made\s+to\s+(\w{40,64}))?"
)
_Method = TypeVar("_Method", bound=Callable[..., Any])


MAX_EDITS = 5  # of a file, the newest


class Commit(NamedTuple):
    """A commit: when it was made (epoch ms), and what its trailers say; (`REVERTS`, id) for each one it reverts."""

    id: str
    parents: tuple[str, ...]
    author: str
    at: int
    subject: str
    agent: str = ""
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()


class Touch(NamedTuple):
    """What a commit did to a file: kind A, M, D or R, its path before a rename, blob ids `old` and `new`; or ""."""

    commit: Commit
    kind: str
    path: str
    old_path: str
    old_blob: str
    new_blob: str


def build_provenance(
    rows: Sequence[Touch],  # what touched a file, newest first
    boundary: Container[str],  # the commits that a shallow clone begins with
    branch: str,
    default: str,
    landing: Commit | None,  # what brought the file to the default branch
) -> dict[str, Any]:
    """Return who wrote a file, seen from the branch `here`, as the fields of a `Provenance`."""
    first_commit = rows[-1].commit
    if first_commit.id in boundary:  # who brought it stands in a commit that the clone lacks
        return {"commit": rows[0].commit.id}
    edits = [
        row.commit
        for row in rows
        if row.commit.id != first_commit.id and row.old_blob != row.new_blob
    ]
    return {
        "author": first_commit.author,
        "agent": first_commit.agent,
        "commit": first_commit.id,
        "date": first_commit.at,
        "branch": branch,
        "default": default,
        "merged": (landing is not None or default == branch) if default else None,
        "landed": landing.at if landing else None,
        "reviewers": first_commit.reviewers,
        "co_authors": first_commit.co_authors,
        "edits": tuple(reversed(edits[:MAX_EDITS])),
    }


def _retry_on_damage(method: _Method) -> _Method:
    """A question to the table; it is asked once more of a new one where that is damaged, or of another history."""

    @wraps(method)
    def call_with_retry(self: History, *values: Any, **keywords: Any) -> Any:
        with self._lock:
            is_retry = False
            while True:
                try:
                    return method(self, *values, **keywords)
                except sqlite3.DatabaseError as error:
                    if is_retry or "locked" in str(error):
                        hint = "try again in a moment; if it stays so, check space and permissions there"
                        raise BrokenStore(f"{self._file}: {error}", hint) from None
                    is_retry = True
                    self.close()
                    for suffix in ("", "-wal", "-shm"):
                        with suppress(OSError):
                            self._file.with_name(f"{self._file.name}{suffix}").unlink()

    return cast("_Method", call_with_retry)


class History:
    """The past of a store's folder ("." for all), as any commit has it. A question may raise GitError, BrokenStore."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self._repo, self._folder = repo, folder
        name = folder.replace("%", "%25").replace("/", "%2F") if folder != "." else "%"
        self._file: Path = repo.shared_folder / (
            "commits.db" if folder == _DEFAULT_FOLDER else f"commits-{name}.db"
        )
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._landings: dict[int, dict[int, int]] = {}

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._landings.clear()

    @_retry_on_damage
    def update_to_head(self) -> None:
        """Bring the table up to HEAD."""
        self._resolve_number("HEAD")

    @_retry_on_damage
    def append_save(self, entry: JournalEntry, parent: str, author: str) -> None:
        """Add what a save, which removes no file, has just committed onto a known commit: that starts no process."""
        if self._find_number(parent) is None:
            return
        subject, _, trailer_text = entry.message.partition("\n\n")
        trailers = "\x1f".join(line.replace(": ", "\x1e", 1) for line in trailer_text.splitlines())
        header = (
            entry.commit,
            parent,
            str(entry.timestamp // 1000),
            author,
            subject.strip(),
            trailers,
            "",
        )
        changed_edits = (edit for edit in entry.edits if edit.old_blob != edit.blob)
        rows = [
            ("M" if one.old_blob else "A", one.path, "", one.old_blob, one.blob)
            for one in changed_edits
        ]
        with self._db as db:
            db.execute("begin immediate")
            self._add_commit(db, header, rows)

    @_retry_on_damage
    def read_touches(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, tuple[Touch, ...]]:
        """What happened to files, newest first, followed through renames; only what `tip` reaches counts."""
        reachable = self._read_reachable(tip)
        return {
            path: self._build_touches(self._iter_touch_rows(path, reachable), reachable)
            for path in paths
        }

    @_retry_on_damage
    def read_last_commits(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, str]:
        """The id of the last commit that touched each file by this name; one question, and no rename is followed."""
        path_list, reachable = list(paths), self._read_reachable(tip)
        placeholders = ",".join("?" * len(path_list))
        query = f"select path, n, id from touched join commits using (n) where path in ({placeholders}) order by n"  # noqa: S608
        return {
            path: commit_id
            for path, n, commit_id in self._db.execute(query, path_list)
            if n in reachable
        }

    def read_dates(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, int]:
        """When each file was first committed, also under a former name, in epoch milliseconds."""
        return {
            path: touches[-1].commit.at
            for path, touches in self.read_touches(paths, tip).items()
            if touches
        }

    @_retry_on_damage
    def read_authors(self, tip: str = "HEAD") -> dict[str, str]:
        """Who first committed each file that was ever there, also under a former name; one question for all."""
        reachable, author_by_path = self._read_reachable(tip), dict[str, str]()
        query = (
            "select n, kind, path, before, author from touched join commits using (n) order by n"
        )
        for n, kind, path, before, author in self._db.execute(query):
            if n in reachable and kind in "AR":
                author_by_path[path] = author_by_path.get(before, author) if kind == "R" else author
        return author_by_path

    @_retry_on_damage
    def read_landings(self, paths: Iterable[str], tip: str) -> dict[str, Commit]:
        """The commit that brought each file to a branch: its own first commit, or the merge that took that in."""
        firsts = {
            path: touches[-1].commit.id
            for path, touches in self.read_touches(paths, tip).items()
            if touches
        }
        landings = self._compute_landings(self._resolve_number(tip) or 0) if firsts else {}
        return {
            path: self._read_commit(landings[self._find_number(first_commit) or 0])
            for path, first_commit in firsts.items()
        }

    @_retry_on_damage
    def read_added_files(self, commits: Iterable[str]) -> dict[str, list[str]]:
        """The files that each of some commits added, by its whole id."""
        query = f"{_SELECT_TOUCHES} kind = 'A' and n = ?"
        return {
            commit: [
                row[2]
                for row in self._filter_inside(
                    self._db.execute(query, (self._find_number(commit),))
                )
            ]
            for commit in commits
        }

    @_retry_on_damage
    def read_decision_commits(self, tip: str = "HEAD") -> tuple[Commit, ...]:
        """The commits that speak of decisions or revert something, each after all that it descends from."""
        reachable = self._read_reachable(tip)
        rows = self._db.execute("select n from commits where spoken order by n")
        return tuple(self._read_commit(n) for (n,) in rows.fetchall() if n in reachable)

    @_retry_on_damage
    def read_reverted_ids(self, commit: Commit) -> frozenset[str]:
        """The whole ids of the commits that one says it reverts; of a merge, of all that this had brought."""
        reverted_ids: set[str] = set()
        for value in (value for key, value in commit.trailers if key == REVERTS):
            reverted_id, _, side = value.partition(" ")
            reverted_ids |= (
                self.read_ancestors(reverted_id) - self.read_ancestors(side)
                if side
                else {reverted_id}
            )
        return frozenset(reverted_ids)

    @_retry_on_damage
    def read_removals(self, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Every removal of a file, newest first."""
        reachable = self._read_reachable(tip)
        rows = self._db.execute(f"{_SELECT_TOUCHES} kind = 'D' order by n desc")
        return self._build_touches(self._filter_inside(rows), reachable)

    @_retry_on_damage
    def read_saves(self, author: str, tip: str = "HEAD") -> tuple[Touch, ...]:
        """What the last commits of this author that name a record, or an import, did, newest first."""
        save_condition = f"(trailers like '%Filemem-Id%' or trailers like '%{IMPORTED}%')"
        commit_query = (
            f"select n from commits where author = ? and {save_condition} order by n desc limit 100"  # noqa: S608
        )
        reachable = self._read_reachable(tip)  # first: it brings the table up to that
        rows = self._db.execute(
            f"{_SELECT_TOUCHES} n in ({commit_query}) order by n desc", (author,)
        )
        touches = self._build_touches(self._filter_inside(rows), reachable)
        return tuple(sorted(touches, key=lambda touch: touch.commit.at, reverse=True))

    @_retry_on_damage
    def read_ancestors(self, tip: str) -> frozenset[str]:
        """The ids of the commits that one reaches, itself included."""
        reachable = self._read_reachable(tip)
        return frozenset(
            commit_id
            for n, commit_id in self._db.execute("select n, id from commits")
            if n in reachable
        )

    @_retry_on_damage
    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether a commit is another one or among what that descends from; False where one is unknown."""
        return self._resolve_number(ancestor) in self._read_reachable(descendant)

    # what is asked of the table

    def _iter_touch_rows(self, path: str, reachable: Collection[int]) -> Iterator[Sequence[Any]]:
        """The rows of one file under all names that it had, newest first."""
        name, end = path, 1 << 62
        while name:
            rename_query = (
                "select n from touched where before = ? and before != '' and n < ? order by n desc"
            )
            since = next(
                (n for (n,) in self._db.execute(rename_query, (name, end)) if n in reachable), 0
            )  # then it was another
            rows = self._db.execute(
                f"{_SELECT_TOUCHES} path = ? and n > ? and n < ? order by n desc",
                (name, since, end),
            )
            name = ""
            for row in rows:
                yield row
                if row[1] == "R" and row[0] in reachable:
                    end, name = row[0], row[3]
                    break

    def _build_touches(
        self, rows: Iterable[Sequence[Any]], reachable: Collection[int]
    ) -> tuple[Touch, ...]:
        """Those of some rows whose commits are reached."""
        return tuple(
            Touch(self._read_commit(row[0]), *row[1:]) for row in rows if row[0] in reachable
        )

    def _filter_inside(self, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Those of some rows that are of files in the folder."""
        start = "" if self._folder == "." else f"{self._folder}/"
        return (row for row in rows if row[2].startswith(start))

    def _read_commit(self, n: int) -> Commit:
        query = "select id, author, at, subject, trailers from commits where n = ?"
        commit_id, author, timestamp, subject, raw = self._db.execute(query, (n,)).fetchone()
        query = "select id from edges join commits on n = parent where child = ? order by nth"
        parents = tuple(parent for (parent,) in self._db.execute(query, (n,)))
        trailers = log.parse_trailers(raw)
        agents, reviewers, co_authors = (
            tuple(value[:MAX_NAME_SIZE] for key, value in trailers if key.lower() == trailer_key)[
                :MAX_NAMES
            ]
            for trailer_key in ("agent", "reviewed-by", "co-authored-by")
        )
        return Commit(
            commit_id,
            parents,
            author[:MAX_NAME_SIZE],
            timestamp,
            subject,
            " ".join(agents)[:MAX_NAME_SIZE],
            reviewers,
            co_authors,
            trailers,
        )

    def _read_reachable(self, tip: str) -> Collection[int]:
        """The numbers of the commits that a tip reaches."""
        if (start := self._resolve_number(tip)) is None:
            return ()
        is_only_tip = self._db.execute("select n from tips").fetchall() == [(start,)]
        return range(1, start + 1) if is_only_tip else self._compute_landings(start)

    def _compute_landings(self, start: int) -> Mapping[int, int]:
        """Of each commit that one reaches, the first on its line of first parents that contains it."""
        if start not in self._landings:
            landings = {start: start}
            query = "select child, nth, parent from edges where child <= ? order by child desc"
            for child, nth, parent in self._db.execute(query, (start,)):
                if (landing := landings.get(child)) is not None:
                    landings[parent] = (
                        parent
                        if landing == child and not nth
                        else min(landing, landings.get(parent, landing))
                    )
            if len(self._landings) >= _MAX_LANDINGS:
                self._landings.clear()
            self._landings[start] = landings
        return self._landings[start]

    # the table

    @property
    def _db(self) -> sqlite3.Connection:
        """The open table; one in memory where its folder cannot be written."""
        if self._connection is None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._open_database(str(self._file))
            except (OSError, sqlite3.OperationalError):
                self._connection = self._open_database(":memory:")
        return self._connection

    def _open_database(self, file: str) -> sqlite3.Connection:
        """A table that is of this history; a new one is begun. Raises DatabaseError for another's."""
        db = sqlite3.connect(file, timeout=10.0, check_same_thread=False, isolation_level=None)
        name = f"{_VERSION}\n{self._folder}\n{read_git_file(self._repo.common_dir / 'shallow')}"
        version = zlib.crc32(name.encode("utf-8", "surrogateescape")) >> 1 | 1
        try:
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = off")  # what a power cut damages is made anew
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
        """The number of a commit that the table has."""
        return next(
            (n for (n,) in self._db.execute("select n from commits where id = ?", (commit,))), None
        )

    def _resolve_number(self, tip: str) -> int | None:
        """The number of a revision; the table is brought up to it first. None where there is no such commit."""
        number = self._find_number(tip)
        commit = (
            self._repo.read_head()
            if tip == "HEAD"
            else None
            if number
            else self._repo.resolve_revision(tip)
        )
        if commit and (number := self._find_number(commit)) is None:
            self._add_commits(commit)
            number = self._find_number(commit)
        return number

    def _add_commits(self, tip: str) -> None:
        """Add what a commit reaches and the table lacks. Raises GitError."""
        tips = [row[0] for row in self._db.execute("select id from commits join tips using (n)")]
        folders = () if self._folder == "." else (self._folder,)
        logged = log.read_commits(
            self._repo, (tip, *(f"^{known_tip}" for known_tip in tips)), folders, log.ALL_COMMITS
        )
        earlier_rows = log.read_earlier_rows(self._repo, tip, logged) if folders else {}
        with self._db as db:
            db.execute("begin immediate")
            for header, rows in logged:
                self._add_commit(db, header, rows)
            values = (
                (self._find_number(commit), *row) for (commit, _), row in earlier_rows.items()
            )
            db.executemany(_INSERT, values)

    def _add_commit(
        self, db: sqlite3.Connection, header: Sequence[str], rows: Iterable[log.FileRow]
    ) -> None:
        """Add a commit whose parents are there, as Git prints it; one that another process has added is passed over."""
        commit_id, parents, seconds, author, subject, trailers, body = header
        if self._find_number(commit_id) is not None:
            return
        for reverted_id, side in _REVERT.findall(body):
            trailers = f"{trailers}\x1f{REVERTS}\x1e{reverted_id} {side}".strip("\x1f ")
        has_decision = any(
            key == REVERTS or key.lower() in ("decision", "outcome")
            for key, _ in log.parse_trailers(trailers)
        )
        timestamp = (
            min(int(seconds), 253_402_300_799) * 1000 if seconds.isdigit() else 0
        )  # no calendar has a later second
        row = commit_id, author or "unknown", timestamp, subject, trailers, has_decision
        n = db.execute("insert into commits values (null, ?, ?, ?, ?, ?, ?)", row).lastrowid
        for nth, parent in enumerate(map(self._find_number, parents.split())):
            if parent is not None:  # else history ends here, in a shallow clone
                db.execute("insert into edges values (?, ?, ?)", (n, nth, parent))
                db.execute("delete from tips where n = ?", (parent,))
        db.execute("insert into tips values (?)", (n,))
        db.executemany(_INSERT, ((n, *row) for row in rows))
