"""The table of commits and of the records that they touched, kept in SQLite.

Rule: a commit never changes, so what one `git log` said of it is kept for good, and the next asks only for what the
table lacks. It is derived: a damaged table, or one of another history, is made anew. Parents have smaller numbers than
their children, and what a commit reaches is a bit for each number.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from filemem.errors import BrokenStore, Locked
from filemem.repo.run import GitError

if TYPE_CHECKING:
    from filemem.repo import Repo

LIMIT = 600.0  # seconds for the first look at a long history
REVERTS = "Reverts"  # the trailer that stands for "This reverts commit X." in a message
Row = tuple[str, str, str, str, str]  # kind (A, M, D or R), path, path before, blob before and after ("" for none)
_RECORD, _SPEAKING = "filemem-id", frozenset(("decision", "outcome"))
_REVERT = re.compile(
    r"(?m)^This reverts commit ([0-9a-f]{7,64})(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{7,64}))?"
)
_TRAILERS = "%(trailers:only,unfold,separator=%x1f,key_value_separator=%x1e)"
_FORMAT = f"--format=%x01%H%x00%P%x00%ct%x00%at%x00%an%x00%ae%x00%s%x00{_TRAILERS}%x00%b%x00"
_ALL = ("--full-history", "--sparse", "--topo-order", "--reverse", "--ignore-missing", "--encoding=UTF-8", "-z")
_QUIET = ("--no-color", "--no-show-signature", "--no-notes", "--no-ext-diff", "--no-textconv")
_ROWS = ("--raw", "--no-abbrev", "--root", "--ignore-submodules=none", "--diff-merges=combined", "--combined-all-paths")
_WAYS = (("-M", "-l1000", *_ROWS), ("-M100%", *_ROWS), ())  # a partial clone may lack old bytes, or old trees too
_VERSION, _USUAL, _KEPT, _MANY = 2, "memory", 16, 48
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
_Answer = TypeVar("_Answer")


class Table:
    """The commits of a repository."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self._repo, self._folder = repo, folder
        name = folder.replace("%", "%25").replace("/", "%2F") if folder != "." else "%"
        self._file: Path = repo.shared / ("commits.db" if folder == _USUAL else f"commits-{name}.db")
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._bits: dict[tuple[int, bool], bytes] = {}  # what `reach` gave

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None
            self._bits.clear()

    def asked(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer from the table; from a new one where it is damaged, or where history has grown at its other end."""
        with self._lock:
            try:
                return question()
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise Locked(f"{self._file} is held by another process", "try again in a moment") from None
                self._forget()
            try:
                return question()
            except sqlite3.DatabaseError as error:
                raise BrokenStore(f"{self._file}: {error}", "check space and permissions there") from None

    @property
    def db(self) -> sqlite3.Connection:
        """The open table, for questions of its owner; a copy of it in memory where its folder cannot be written."""
        if self._open is None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._open = self._prepared(_connected(str(self._file)))
            except (OSError, sqlite3.OperationalError):
                try:
                    self._open = self._prepared(self._copied())
                except sqlite3.Error:
                    self._open = self._prepared(_connected(":memory:"))
        return self._open

    def _copied(self) -> sqlite3.Connection:
        db = _connected(":memory:")
        with suppress(sqlite3.Error):
            there = sqlite3.connect(f"{self._file.absolute().as_uri()}?immutable=1", uri=True)
            there.backup(db)
            there.close()
        return db

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

    def known(self, commit: str) -> int | None:
        """The number of a commit that the table has."""
        row = self.db.execute("select n from commits where id = ?", (commit,)).fetchone()
        return row[0] if row else None

    def number(self, tip: str) -> int | None:
        """The number of a revision; the table is brought up to it first. None where there is no such commit."""
        number = self.known(tip)
        commit = self._repo.head() if tip == "HEAD" else None if number else self._repo.resolve(tip)
        if commit and (number := self.known(commit)) is None:
            tips = [row[0] for row in self.db.execute("select id from commits where n in (select n from tips)")]
            found = list(entries(self._repo, self._folder, commit, tips))
            with self.db as db:
                db.execute("begin immediate")
                self._add(db, found)
            number = self.known(commit)
        return number

    def _add(self, db: sqlite3.Connection, found: Iterable[Entry]) -> None:
        """Add commits, parents before children."""
        last = first = db.execute("select coalesce(max(n), 0) + 1 from commits").fetchone()[0]
        numbers: dict[str, int | None] = {}
        commits, edges, touched, names = list[Any](), list[Any](), list[Any](), list[Any]()

        def number(commit: str) -> int | None:
            if commit not in numbers:
                numbers[commit] = self.known(commit)
            return numbers[commit]  # None: history ends here, in a shallow clone

        for entry in found:
            if number(entry.id) is not None:
                continue  # another process has added it
            numbers[entry.id] = last
            known = (number(parent) for parent in entry.parents)
            edges += [(last, nth, parent) for nth, parent in enumerate(known) if parent is not None]
            commits.append((last, entry.id, *entry[2:9]))
            touched += [(last, *row) for row in entry.rows]
            names += [(record, last) for record in entry.records]
            last += 1
        for table, rows in {"commits": commits, "edges": edges, "touched": touched, "names": names}.items():
            if rows:
                db.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608
        inner = {parent for _, _, parent in edges}
        db.executemany("delete from tips where n = ?", ((n,) for n in inner))
        db.executemany("insert or ignore into tips values (?)", ((n,) for n in range(first, last) if n not in inner))

    # what a tip reaches

    def reach(self, tip: str, *, line: bool = False) -> bytes:
        """The commits that a tip reaches, a bit for each by its number; only along first parents with `line`."""
        start = self.number(tip)
        if start is None:
            return b""
        if (start, line) in self._bits:
            return self._bits[start, line]
        kept = dict(self.db.execute("select tip, bits from reached where line = ?", (line,)))
        kept |= {n: bits for (n, along), bits in self._bits.items() if along == line}
        asked = "select parent from edges where child = ? and nth < ?"
        bits, steps, waiting = bytearray(start // 8 + 1), 0, [start]
        while waiting:
            one = waiting.pop()
            if has(bits, one):
                continue
            if one in kept:
                bits = _union(bits, kept[one])
                continue
            bits[one >> 3] |= 1 << (one & 7)
            steps += 1
            waiting += [row[0] for row in self.db.execute(asked, (one, 1 if line else 99))]
        if len(self._bits) >= 2 * _KEPT:
            self._bits.clear()
        self._bits[start, line] = bytes(bits)
        if steps >= _MANY:
            with suppress(sqlite3.OperationalError), self.db as db:  # another process is writing: then next time
                db.execute("delete from reached where (select count(*) from reached) > ?", (_KEPT,))
                db.execute("insert or replace into reached values (?, ?, ?)", (start, line, bytes(bits)))
        return self._bits[start, line]

    def landing(self, commit: str, tip: str) -> int:
        """The number of the first commit on a tip's line of first parents that contains a commit which it reaches."""
        line, reach, start = self.reach(tip, line=True), self.reach(tip), self.known(commit) or 0
        waiting, seen, best = [start], {start}, 0
        while waiting:
            one = waiting.pop()
            if has(line, one):
                best = min(best or one, one)
                continue
            above = (row[0] for row in self.db.execute("select child from edges where parent = ?", (one,)))
            more = [child for child in above if child not in seen and has(reach, child)]
            seen.update(more)
            waiting += more
        return best


def has(bits: bytes | bytearray, n: int) -> bool:
    """Whether a number is among those that `reach` gave."""
    place = n >> 3
    return place < len(bits) and bool(bits[place] >> (n & 7) & 1)


def _union(one: bytearray, other: bytes) -> bytearray:
    size = max(len(one), len(other))
    return bytearray((int.from_bytes(one, "little") | int.from_bytes(other, "little")).to_bytes(size, "little"))


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=10.0, check_same_thread=False, isolation_level=None)


# git log: read by count, so that no message, name or path can pass for the next commit


class Entry(NamedTuple):
    """A commit: times in epoch milliseconds, its trailers as the table keeps them, what it did below the folder.

    `records` are the ids that `Filemem-Id` names; `spoken` says that it speaks of decisions, or reverts something.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: int
    written: int
    subject: str
    trailers: str
    spoken: bool
    records: tuple[str, ...]
    rows: tuple[Row, ...]


def entries(repo: Repo, folder: str, commit: str, without: Sequence[str]) -> Iterator[Entry]:
    """The commits that one reaches and others do not, parents before children. Raises GitError."""
    spans = "".join(f"^{tip}\n" for tip in without).encode()
    for way in _WAYS:
        paths = ("--", folder) if folder != "." and way else ()
        asked = (*_ALL, *_QUIET, *way, _FORMAT, commit, "--stdin", *paths)
        try:
            printed = repo.git.run("log", *asked, input=spans, limit=LIMIT)
            break
        except GitError:
            if not way or not repo.incomplete():
                raise
    yield from _read(printed.decode("utf-8", "replace"))


def pairs_of(trailers: str) -> list[tuple[str, str]]:
    """Keys and values of the trailers of an entry."""
    parts = (part.partition("\x1e") for part in trailers.split("\x1f"))
    return [(key.strip(), " ".join(value.split())) for key, _, value in parts if value.strip()]


def _read(printed: str) -> Iterator[Entry]:
    fields = iter(printed.split("\0"))
    header: list[str] = []
    rows: list[Row] = []
    for field in fields:
        text = field.lstrip("\n")
        if text.startswith("\x01"):
            if header:
                yield _entry(header, rows)
            header, rows = [text[1:], *(next(fields, "") for _ in range(8))], []
        elif text.startswith(":") and (row := _row(text, fields)):
            rows.append(row)
    if header:
        yield _entry(header, rows)


def _entry(header: Sequence[str], rows: Sequence[Row]) -> Entry:
    commit, parents, at, written, author, email, subject, trailers, body = header
    reverts = _REVERT.findall(body) if "This reverts commit" in body else ()
    for one, side in reverts:
        trailers = f"{trailers}\x1f{REVERTS}\x1e{one} {side}".strip("\x1f ")
    pairs = pairs_of(trailers) if trailers else []
    speaks = any(key.lower() in _SPEAKING for key, _ in pairs)
    return Entry(
        commit,
        tuple(parents.split()),
        author or email or "unknown",
        email,
        _millis(at),
        _millis(written) or _millis(at),
        subject,
        trailers,
        speaks or bool(reverts) or subject.startswith(('Revert "', 'Reapply "')),
        tuple(value for key, value in pairs if key.lower() == _RECORD),
        tuple(rows),
    )


def _millis(seconds: str) -> int:
    """Epoch milliseconds of what Git prints; no commit can name a time that no calendar has."""
    return min(int(seconds), 253_402_300_799) * 1000 if seconds.isdigit() else 0


def _row(text: str, fields: Iterator[str]) -> Row | None:
    """One file of a commit; None where a merge took over what it found.

    Of a merge each parent has a blob and a path: with the path that it has now in none of them, it was renamed there.
    """
    sides = len(text) - len(text.lstrip(":"))
    words = text.lstrip(":").split(" ")
    olds, new, status = words[sides + 1 : 2 * sides + 1], words[2 * sides + 1], words[-1]
    many = sides > 1 or status[0] == "R"
    names = [next(fields, "") for _ in range(sides + 1 if many else 1)]
    path = names[-1]
    there = [name for name, old in zip(names, olds, strict=False) if old.strip("0")]
    before = next((name for name in there if name != path), "") if path not in there else ""
    old = next((one for one in olds if one.strip("0")), "")
    if sides > 1 and not before and new in olds:
        return None
    kind = "R" if before else "D" if not new.strip("0") else "M" if old else "A"
    return kind, path, before, old, new if new.strip("0") else ""
