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
from filemem.repo.run import read

if TYPE_CHECKING:
    from filemem.repo import Repo
    from filemem.repo.journal import Entry

IMPORTED = "Imported-From"  # the trailer that `memory.ingest` writes: the system
REVERTS = "Reverts"  # the trailer that stands for "This reverts commit X." in a message
NAME, NAMES = (
    200,
    20,
)  # characters of a name, and names of one kind, that are read: a commit can state any number
_TOUCHES = "select n, kind, path, before, old, new from touched where"
_VERSION, _USUAL, _KEPT = 6, "memory", 4  # the usual folder; how many tips are remembered
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


EDITS_SHOWN = 5  # of a file, the newest


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
    before: str
    old: str
    new: str


def written(
    rows: Sequence[Touch],  # what touched a file, newest first
    boundary: Container[str],  # the commits that a shallow clone begins with
    here: str,
    default: str,
    landed: Commit | None,  # what brought the file to the default branch
) -> dict[str, Any]:
    """Return who wrote a file, seen from the branch `here`, as the fields of a `Provenance`."""
    first = rows[-1].commit
    if first.id in boundary:  # who brought it stands in a commit that the clone lacks
        return {"commit": rows[0].commit.id}
    edits = [row.commit for row in rows if row.commit.id != first.id and row.old != row.new]
    return {
        "author": first.author,
        "agent": first.agent,
        "commit": first.id,
        "date": first.at,
        "branch": here,
        "default": default,
        "merged": (landed is not None or default == here) if default else None,
        "landed": landed.at if landed else None,
        "reviewers": first.reviewers,
        "co_authors": first.co_authors,
        "edits": tuple(reversed(edits[:EDITS_SHOWN])),
    }


def _answering(method: _Method) -> _Method:
    """A question to the table; it is asked once more of a new one where that is damaged, or of another history."""

    @wraps(method)
    def asked(self: History, *values: Any, **named: Any) -> Any:
        with self._lock:
            anew = False
            while True:
                try:
                    return method(self, *values, **named)
                except sqlite3.DatabaseError as error:
                    if anew or "locked" in str(error):
                        hint = "try again in a moment; if it stays so, check space and permissions there"
                        raise BrokenStore(f"{self._file}: {error}", hint) from None
                    anew = True
                    self.close()
                    for end in ("", "-wal", "-shm"):
                        with suppress(OSError):
                            self._file.with_name(f"{self._file.name}{end}").unlink()

    return cast("_Method", asked)


class History:
    """The past of a store's folder ("." for all), as any commit has it. A question may raise GitError, BrokenStore."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self._repo, self._folder = repo, folder
        name = folder.replace("%", "%25").replace("/", "%2F") if folder != "." else "%"
        self._file: Path = repo.shared / (
            "commits.db" if folder == _USUAL else f"commits-{name}.db"
        )
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._landings: dict[int, dict[int, int]] = {}

    def close(self) -> None:
        """Let go of the table."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None
            self._landings.clear()

    @_answering
    def extend(self) -> None:
        """Bring the table up to HEAD."""
        self._number("HEAD")

    @_answering
    def append(self, entry: Entry, onto: str, author: str) -> None:
        """Add what a save, which removes no file, has just committed onto a known commit: that starts no process."""
        if self._known(onto) is None:
            return
        subject, _, rest = entry.message.partition("\n\n")
        trailers = "\x1f".join(line.replace(": ", "\x1e", 1) for line in rest.splitlines())
        header = entry.commit, onto, str(entry.at // 1000), author, subject.strip(), trailers, ""
        changed = (one for one in entry.edits if one.old != one.blob)
        rows = [("M" if one.old else "A", one.path, "", one.old, one.blob) for one in changed]
        with self._db as db:
            db.execute("begin immediate")
            self._add(db, header, rows)

    @_answering
    def touches(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, tuple[Touch, ...]]:
        """What happened to files, newest first, followed through renames; only what `tip` reaches counts."""
        reached = self._reach(tip)
        return {path: self._told(self._followed(path, reached), reached) for path in paths}

    @_answering
    def committed(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, str]:
        """The id of the last commit that touched each file by this name; one question, and no rename is followed."""
        wanted, reached = list(paths), self._reach(tip)
        which = ",".join("?" * len(wanted))
        asked = f"select path, n, id from touched join commits using (n) where path in ({which}) order by n"  # noqa: S608
        return {path: one for path, n, one in self._db.execute(asked, wanted) if n in reached}

    def dates(self, paths: Iterable[str], tip: str = "HEAD") -> dict[str, int]:
        """When each file was first committed, also under a former name, in epoch milliseconds."""
        return {
            path: found[-1].commit.at for path, found in self.touches(paths, tip).items() if found
        }

    @_answering
    def authors(self, tip: str = "HEAD") -> dict[str, str]:
        """Who first committed each file that was ever there, also under a former name; one question for all."""
        reached, found = self._reach(tip), dict[str, str]()
        asked = (
            "select n, kind, path, before, author from touched join commits using (n) order by n"
        )
        for n, kind, path, before, author in self._db.execute(asked):
            if n in reached and kind in "AR":
                found[path] = found.get(before, author) if kind == "R" else author
        return found

    @_answering
    def landed(self, paths: Iterable[str], tip: str) -> dict[str, Commit]:
        """The commit that brought each file to a branch: its own first commit, or the merge that took that in."""
        firsts = {
            path: found[-1].commit.id for path, found in self.touches(paths, tip).items() if found
        }
        landings = self._landings_of(self._number(tip) or 0) if firsts else {}
        return {
            path: self._commit(landings[self._known(first) or 0]) for path, first in firsts.items()
        }

    @_answering
    def brought(self, commits: Iterable[str]) -> dict[str, list[str]]:
        """The files that each of some commits added, by its whole id."""
        question = f"{_TOUCHES} kind = 'A' and n = ?"
        return {
            commit: [
                row[2] for row in self._inside(self._db.execute(question, (self._known(commit),)))
            ]
            for commit in commits
        }

    @_answering
    def spoken(self, tip: str = "HEAD") -> tuple[Commit, ...]:
        """The commits that speak of decisions or revert something, each after all that it descends from."""
        reached = self._reach(tip)
        rows = self._db.execute("select n from commits where spoken order by n")
        return tuple(self._commit(n) for (n,) in rows.fetchall() if n in reached)

    @_answering
    def reverted(self, commit: Commit) -> frozenset[str]:
        """The whole ids of the commits that one says it reverts; of a merge, of all that this had brought."""
        found: set[str] = set()
        for value in (value for key, value in commit.trailers if key == REVERTS):
            named, _, side = value.partition(" ")
            found |= self.ancestors(named) - self.ancestors(side) if side else {named}
        return frozenset(found)

    @_answering
    def removals(self, tip: str = "HEAD") -> tuple[Touch, ...]:
        """Every removal of a file, newest first."""
        reached = self._reach(tip)
        rows = self._db.execute(f"{_TOUCHES} kind = 'D' order by n desc")
        return self._told(self._inside(rows), reached)

    @_answering
    def saves(self, author: str, tip: str = "HEAD") -> tuple[Touch, ...]:
        """What the last commits of this author that name a record, or an import, did, newest first."""
        ours = f"(trailers like '%Filemem-Id%' or trailers like '%{IMPORTED}%')"
        named = f"select n from commits where author = ? and {ours} order by n desc limit 100"  # noqa: S608
        reached = self._reach(tip)  # first: it brings the table up to that
        rows = self._db.execute(f"{_TOUCHES} n in ({named}) order by n desc", (author,))
        touches = self._told(self._inside(rows), reached)
        return tuple(sorted(touches, key=lambda touch: touch.commit.at, reverse=True))

    @_answering
    def ancestors(self, tip: str) -> frozenset[str]:
        """The ids of the commits that one reaches, itself included."""
        reached = self._reach(tip)
        return frozenset(
            one for n, one in self._db.execute("select n, id from commits") if n in reached
        )

    @_answering
    def is_ancestor(self, one: str, other: str) -> bool:
        """Whether a commit is another one or among what that descends from; False where one is unknown."""
        return self._number(one) in self._reach(other)

    # what is asked of the table

    def _followed(self, path: str, reached: Collection[int]) -> Iterator[Sequence[Any]]:
        """The rows of one file under all names that it had, newest first."""
        name, end = path, 1 << 62
        while name:
            gone = (
                "select n from touched where before = ? and before != '' and n < ? order by n desc"
            )
            since = next(
                (n for (n,) in self._db.execute(gone, (name, end)) if n in reached), 0
            )  # then it was another
            rows = self._db.execute(
                f"{_TOUCHES} path = ? and n > ? and n < ? order by n desc", (name, since, end)
            )
            name = ""
            for row in rows:
                yield row
                if row[1] == "R" and row[0] in reached:
                    end, name = row[0], row[3]
                    break

    def _told(self, rows: Iterable[Sequence[Any]], reached: Collection[int]) -> tuple[Touch, ...]:
        """Those of some rows whose commits are reached."""
        return tuple(Touch(self._commit(row[0]), *row[1:]) for row in rows if row[0] in reached)

    def _inside(self, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Those of some rows that are of files in the folder."""
        start = "" if self._folder == "." else f"{self._folder}/"
        return (row for row in rows if row[2].startswith(start))

    def _commit(self, n: int) -> Commit:
        asked = "select id, author, at, subject, trailers from commits where n = ?"
        one, author, at, subject, raw = self._db.execute(asked, (n,)).fetchone()
        asked = "select id from edges join commits on n = parent where child = ? order by nth"
        parents = tuple(parent for (parent,) in self._db.execute(asked, (n,)))
        trailers = log.pairs(raw)
        agents, reviewers, helpers = (
            tuple(value[:NAME] for key, value in trailers if key.lower() == wanted)[:NAMES]
            for wanted in ("agent", "reviewed-by", "co-authored-by")
        )
        return Commit(
            one,
            parents,
            author[:NAME],
            at,
            subject,
            " ".join(agents)[:NAME],
            reviewers,
            helpers,
            trailers,
        )

    def _reach(self, tip: str) -> Collection[int]:
        """The numbers of the commits that a tip reaches."""
        if (start := self._number(tip)) is None:
            return ()
        whole = self._db.execute("select n from tips").fetchall() == [(start,)]
        return range(1, start + 1) if whole else self._landings_of(start)

    def _landings_of(self, start: int) -> Mapping[int, int]:
        """Of each commit that one reaches, the first on its line of first parents that contains it."""
        if start not in self._landings:
            found = {start: start}
            asked = "select child, nth, parent from edges where child <= ? order by child desc"
            for child, nth, parent in self._db.execute(asked, (start,)):
                if (landing := found.get(child)) is not None:
                    found[parent] = (
                        parent
                        if landing == child and not nth
                        else min(landing, found.get(parent, landing))
                    )
            if len(self._landings) >= _KEPT:
                self._landings.clear()
            self._landings[start] = found
        return self._landings[start]

    # the table

    @property
    def _db(self) -> sqlite3.Connection:
        """The open table; one in memory where its folder cannot be written."""
        if self._open is None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._open = self._prepared(str(self._file))
            except (OSError, sqlite3.OperationalError):
                self._open = self._prepared(":memory:")
        return self._open

    def _prepared(self, file: str) -> sqlite3.Connection:
        """A table that is of this history; a new one is begun. Raises DatabaseError for another's."""
        db = sqlite3.connect(file, timeout=10.0, check_same_thread=False, isolation_level=None)
        name = f"{_VERSION}\n{self._folder}\n{read(self._repo.common_dir / 'shallow')}"
        version = zlib.crc32(name.encode("utf-8", "surrogateescape")) >> 1 | 1
        try:
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = off")  # what a power cut damages is made anew
            (known,) = db.execute("pragma user_version").fetchone()
            if not known:
                with db:
                    db.executescript(f"begin immediate; {_SCHEMA} pragma user_version = {version};")
            elif known != version:
                raise sqlite3.DatabaseError("made of another history")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _known(self, commit: str) -> int | None:
        """The number of a commit that the table has."""
        return next(
            (n for (n,) in self._db.execute("select n from commits where id = ?", (commit,))), None
        )

    def _number(self, tip: str) -> int | None:
        """The number of a revision; the table is brought up to it first. None where there is no such commit."""
        number = self._known(tip)
        commit = self._repo.head() if tip == "HEAD" else None if number else self._repo.resolve(tip)
        if commit and (number := self._known(commit)) is None:
            self._extend(commit)
            number = self._known(commit)
        return number

    def _extend(self, tip: str) -> None:
        """Add what a commit reaches and the table lacks. Raises GitError."""
        tips = [row[0] for row in self._db.execute("select id from commits join tips using (n)")]
        folders = () if self._folder == "." else (self._folder,)
        logged = log.commits(self._repo, (tip, *(f"^{one}" for one in tips)), folders, log.EVERY)
        earlier = log.earlier(self._repo, tip, logged) if folders else {}
        with self._db as db:
            db.execute("begin immediate")
            for header, rows in logged:
                self._add(db, header, rows)
            moved = ((self._known(commit), *row) for (commit, _), row in earlier.items())
            db.executemany(_INSERT, moved)

    def _add(self, db: sqlite3.Connection, header: Sequence[str], rows: Iterable[log.Row]) -> None:
        """Add a commit whose parents are there, as Git prints it; one that another process has added is passed over."""
        one, parents, at, author, subject, trailers, body = header
        if self._known(one) is not None:
            return
        for reverted, side in _REVERT.findall(body):
            trailers = f"{trailers}\x1f{REVERTS}\x1e{reverted} {side}".strip("\x1f ")
        speaks = any(
            key == REVERTS or key.lower() in ("decision", "outcome")
            for key, _ in log.pairs(trailers)
        )
        made = (
            min(int(at), 253_402_300_799) * 1000 if at.isdigit() else 0
        )  # no calendar has a later second
        row = one, author or "unknown", made, subject, trailers, speaks
        n = db.execute("insert into commits values (null, ?, ?, ?, ?, ?, ?)", row).lastrowid
        for nth, parent in enumerate(map(self._known, parents.split())):
            if parent is not None:  # else history ends here, in a shallow clone
                db.execute("insert into edges values (?, ?, ?)", (n, nth, parent))
                db.execute("delete from tips where n = ?", (parent,))
        db.execute("insert into tips values (?)", (n,))
        db.executemany(_INSERT, ((n, *row) for row in rows))
