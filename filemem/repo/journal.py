"""What is being saved, on disk before anything else is touched, so that a crash at any moment can be finished.

It lives in the Git directory that all work trees share: a linked work tree's own may be removed under us. One file per
operation: a header line, the record's full bytes, then marks appended as the save goes on. When the commit is made the
file moves from `journal/` to `recent/` with copies of the commit's objects: for an hour they can be put back if a
`gc` that had started earlier removes them.
"""

import base64
import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.disk import Aside, sync_folder, write_all

PUT, AMEND, REMOVE = "put", "amend", "remove"
_NAME = re.compile(r"\d{15,}-")
_OBJECT = b'["object", "'
KEEP = 3600.0  # seconds that a finished operation is kept
SETTLES = 60.0  # seconds after which a finished operation need be looked at once more, and no more after that


class Operation(NamedTuple):
    """What was asked for.

    Args:
        kind: `put` (write the file), `amend` (change lines of it) or `remove`.
        path: from the top of the work tree, with `/`.
        worktree: which work tree: its Git directory relative to the common one.
        subject: of the commit message.
        trailers: of the commit message.
        at: epoch milliseconds.
        old: blob id that HEAD had for the path when the operation began; empty for none.
        seen: blob id of the file on disk then; empty for none.
        edit: what `amend` changes, in plain JSON values.
        pid: the process.
        started: when that process was started, so that another one with its number is not mistaken for it.
        tombstone: a file that says that the record is forgotten, from the top of the work tree: a removal writes it,
            a `put` takes it away.
    """

    kind: str
    path: str
    worktree: str
    subject: str
    trailers: tuple[tuple[str, str], ...]
    at: int
    old: str = ""
    seen: str = ""
    edit: Mapping[str, object] | None = None
    pid: int = 0
    started: str = ""
    tombstone: str = ""


@dataclass(eq=False, repr=False, slots=True)
class Entry(Aside):
    """An operation in the journal. `data` is the full new content of the file, None for a removal.

    `marks` holds what was noted last: `pending` (the reason), `commit` and `parent` (the one being made, and the one
    before it), `index` and `ref` (when those steps began, epoch milliseconds). `noted` holds every value, oldest first:
    a retry notes again, and what the first try left behind is still to be told from its time.
    """

    operation: Operation
    data: bytes | None
    file: Path
    marks: dict[str, str] = field(default_factory=dict)
    noted: dict[str, list[str]] = field(default_factory=dict)
    oids: list[str] = field(default_factory=list)  # of the commit's objects, once that is made

    def objects(self) -> dict[str, bytes]:
        """The objects of a finished entry in their packed form, by id: read from its file when they are needed."""
        behind_the_header = self.file.read_bytes().partition(b"\n")[2]
        rows = behind_the_header[len(self.data or b"") + 1 :].splitlines()
        found = (json.loads(row) for row in rows if row.startswith(_OBJECT))
        return {oid: base64.b64decode(packed) for _, oid, packed in found}

    def publish(self) -> None:
        """Make the entry visible."""
        if self.source is not None:
            self.source.rename(self.file)
            self.source = None

    def mark(self, name: str, value: str) -> None:
        """Note something; it survives a crash of the process at once, a power cut only after `sync`."""
        self.remember(name, value)
        if self.fd < 0:
            self.fd = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(self.fd, json.dumps([name, value]).encode() + b"\n")

    def remember(self, name: str, value: str) -> None:
        """Take a mark in, without writing it."""
        self.marks[name] = value
        self.noted.setdefault(name, []).append(value)


class Journal:
    """The operations of all work trees of one repository.

    Args:
        folder: our folder in the common Git directory.
        worktree: which work tree is ours.
    """

    def __init__(self, folder: Path, worktree: str) -> None:
        self.folder, self.worktree = folder / "journal", worktree
        self.recent_folder = folder / "recent"
        self._looked = folder / f"looked-{worktree.replace('/', '-')}"
        self._last = 0
        self._seen: dict[str, int] = {}
        self._entries: tuple[Entry, ...] = ()
        self._finished: dict[Path, Entry | None] = {}  # these files do not change any more

    def open(self, operation: Operation, data: bytes | None) -> Entry:
        """Write an entry aside, to be synced and published with the files of the save.

        Raises:
            BrokenStore: the disk refuses.
        """
        # Names sort in the order of the saves, also where the clock stands still or jumps back.
        last = max((int(file.name.split("-")[0]) for file in _files(self.folder)), default=0)
        self._last = max(operation.at, last + 1, self._last + 1)
        name = f"{self._last:015d}-{os.getpid()}-{os.urandom(4).hex()}"
        entry = Entry(operation, data, self.folder / name)
        header = json.dumps({**operation._asdict(), "size": -1 if data is None else len(data)}).encode() + b"\n"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
                self.recent_folder.mkdir(exist_ok=True)
            entry.source = self.folder / f".{name}"
            entry.fd = os.open(entry.source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            write_all(entry.fd, header + (data or b"") + b"\n")
        except OSError as error:
            entry.discard()
            raise BrokenStore(f"{self.folder}: {error.strerror}", "check space and permissions there") from None
        return entry

    def entries(self) -> tuple[Entry, ...]:
        """Everything unfinished, of all work trees, oldest first."""
        try:
            with os.scandir(self.folder) as listing:
                seen = {item.name: item.stat().st_size for item in listing if _NAME.match(item.name)}
        except OSError:
            seen = {}
        if seen != self._seen:
            found = (_read(self.folder / name) for name in sorted(seen))
            self._seen, self._entries = seen, tuple(entry for entry in found if entry is not None)
        return self._entries

    def recent(self, now: float, within: float) -> Iterator[tuple[float, Entry]]:
        """Finished operations of this work tree with their age, both in seconds; those older than an hour are dropped.

        Args:
            now: seconds since the epoch.
            within: greatest age wanted.
        """
        times = {file: _time_of(file) for file in _files(self.recent_folder)}
        for file in sorted(times, key=times.__getitem__):
            age = now - times[file]
            if age > KEEP:
                file.unlink(missing_ok=True)
            elif age <= within and (entry := self._ended(file)):
                yield age, entry
        self._finished = {file: entry for file, entry in self._finished.items() if file in times}

    def making(self, commit: str, now: float, within: float) -> Entry | None:
        """The operation of this work tree, finished within the last seconds, that made a commit; None for none.

        The last one is looked at first: there may be hundreds, and it is the likeliest.
        """
        files = (self.recent_folder / name for name in reversed(_names(self.recent_folder)))
        found = (entry for file in files if now - _time_of(file) <= within and (entry := self._ended(file)))
        return next((entry for entry in found if entry.marks.get("commit") == commit), None)

    def _ended(self, file: Path) -> Entry | None:
        """A finished operation; None where it is another work tree's, or cannot be read."""
        if file not in self._finished:
            self._finished[file] = _read(file)
        entry = self._finished[file]
        return entry if entry is not None and entry.operation.worktree == self.worktree else None

    def has_recent(self, now: float, within: float) -> bool:
        """Whether an operation was finished within the last seconds, in any work tree."""
        return any(now - _time_of(file) <= within for file in _files(self.recent_folder))

    def unsettled(self, now: float) -> float:
        """Greatest age, in seconds, of what may still be dropped by a command that raced with it; -1 where nothing may.

        What was looked at once when it was a minute old is out of danger; what never was stays in it for an hour.
        """
        ages = (now - _time_of(file) for file in _files(self.recent_folder))
        limit = min(KEEP, now - _time_of(self._looked) + SETTLES)
        return max((age for age in ages if age <= limit), default=-1.0)

    def looked(self, now: float) -> None:
        """Note that all finished operations of this work tree were looked at; `now` in seconds since the epoch."""
        with contextlib.suppress(OSError):
            self._looked.touch()
            os.utime(self._looked, (now, now))

    def sync_folder(self) -> None:
        """Wait until the names of the entries are on disk."""
        sync_folder(self.folder)

    def finish(self, entry: Entry, objects: Sequence[tuple[str, bytes]]) -> None:
        """Hand an entry on: its commit is made. `objects` are (id, packed bytes) of what the commit added."""
        rows = [json.dumps(["object", oid, base64.b64encode(packed).decode()]) for oid, packed in objects]
        if entry.fd < 0:
            entry.fd = os.open(entry.file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(entry.fd, "".join(f"{row}\n" for row in rows).encode())
        if not self.recent_folder.is_dir():
            self.recent_folder.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            entry.file.rename(self.recent_folder / entry.file.name)
        entry.discard()

    def drop(self, entry: Entry) -> None:
        """Forget an entry."""
        entry.discard()
        entry.file.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder)]


def _names(folder: Path) -> list[str]:
    """The names of the entries in a folder, oldest first."""
    try:
        return sorted(filter(_NAME.match, os.listdir(folder)))
    except OSError:
        return []


def _read(file: Path) -> Entry | None:
    """Read an entry; None where it is gone, or was torn by a power cut before its save went on."""
    try:
        text = file.read_bytes()
        line, _, rest = text.partition(b"\n")
        header = json.loads(line)
        size = header.pop("size")
        operation = Operation(**{**header, "trailers": tuple((k, v) for k, v in header["trailers"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if len(rest) < max(size, 0) + 1:
        return None
    entry = Entry(operation, None if size < 0 else rest[:size], file)
    for row in rest[max(size, 0) + 1 :].splitlines():
        if row.startswith(_OBJECT) and row.endswith(b'"]'):  # long, and of most entries only the ids are asked for
            entry.oids.append(row.removeprefix(_OBJECT).partition(b'"')[0].decode())
            continue
        try:
            name, *values = json.loads(row)
        except ValueError:
            break  # the end of a mark that was being written
        entry.remember(name, values[0])
    return entry


def _time_of(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
