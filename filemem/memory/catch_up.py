"""Update the index from the files: scan, diff, apply. There is one way, whatever changed them.

Only its file or a tombstone can make a document stale. If another program moved HEAD to other
records, every file may have changed: that means a full look, and no more. `Keeper` decides when to
look and answers questions: one call runs at a time, but none waits for an index that is being
built.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from filemem import changes
from filemem.changes import Change, Entry, blob_id
from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.files import is_listed
from filemem.index import IndexDamaged, document
from filemem.memory.store import FORGOTTEN, TOP, Progress, Store, mark_of
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    from filemem.repo.commit import Made

TICK = 2 * 10**9  # nanoseconds between two looks at every file, at least
PACE = 50  # a look at every file costs at most one part in so many of one core
# Seconds that a question, and a save, waits until the index has heard of a checkout.
SHORT = 1.0
LONG = 10.0
# Records that the caches of the index do not hold, from which on they are moved forward: each
# costs a question a little, and moving costs as much as some hundred of them.
BEHIND_SERVING = 16
BEHIND = 64
_Answer = TypeVar("_Answer")


def catch_up(
    store: Store,
    *,
    full: bool = False,
    hints: Iterable[str] = (),
    anew: bool = False,
    meaning: bool = True,
    progress: Progress | None = None,
) -> int:
    """Update the index from the files; return how many changed.

    `full` looks at every file, not only at folders whose time changed and at `hints`, absolute
    paths from a watcher. `anew` rebuilds the index; the old one answers until the switch.
    `meaning`: whether to make vectors, which takes the model.
    """
    index = store.index
    folders = {} if anew else index.folders
    forgotten = _forgotten(store)
    notes: dict[str, Any] = {"head": store.repo.head() or "", "forgotten": forgotten}
    turned = not anew and index.notes.forgotten != forgotten
    where = _due(store, folders, hints, full=full, turned=turned)
    if where == set():
        _complete(store, meaning=meaning)
        return 0
    store.history.extend()  # so that no question waits for it
    before = {} if anew else index.manifest(where or ("",))
    began = time.time_ns()
    after, times, _ = store.scan(before, where)
    if where is None:
        notes |= {"looked": began, "cost": time.time_ns() - began}
    marks = store.tombstones
    hides = partial(_hides, marks)
    news = list(changes.diff(before, after))
    if turned:
        news += changes.turned(index.ids(), after, news, hides)
    index.apply(
        news if folders else _newest_first(news),
        partial(store.document, forgotten=marks),
        progress,
        before=before,
        seen=after,
        hidden=hides,
        meaning=meaning,
        anew=anew,
    )
    index.note(folders={**_others(folders, where), **times}, **notes)
    return len(news)


def _others(folders: Mapping[str, int], where: Collection[str] | None) -> dict[str, int]:
    """The times of the folders that were not looked at."""
    return {folder: at for folder, at in folders.items() if where and folder not in where}


def _complete(store: Store, *, meaning: bool) -> None:
    """Make the vectors that a brief left out: it loads no model."""
    if meaning:
        store.index.complete()


def _hides(marks: Collection[str], name: str) -> bool:
    """True if one of these tombstones is that of a record."""
    return bool(marks) and mark_of(name) in marks


def _due(
    store: Store, folders: Mapping[str, int], hints: Iterable[str], *, full: bool, turned: bool
) -> set[str] | None:
    """The folders to look at; None for all of them.

    `turned`: what is forgotten has changed.
    """
    if full or turned or not folders or not knows_head(store):
        return None
    return store.files.changed_folders(folders) | _folders_of(store, hints)


def _folders_of(store: Store, hints: Iterable[str]) -> set[str]:
    """The folders of the store that hints lead to."""
    paths = (posixpath.relpath(hint, store.folder) for hint in hints)
    return {posixpath.dirname(path) for path in paths if not path.startswith("..")}


def _newest_first(news: Iterable[Change]) -> list[Change]:
    """In the order of a first build, which is asked as it grows: by the dates in names."""

    def rank(change: Change) -> tuple[str, str]:
        date = max(re.findall(r"\d{8}(?=-)", change.path), default="0")
        return f"{99999999 - int(date):08}", change.path

    return sorted(news, key=rank)


def _forgotten(store: Store) -> str:
    """The state of the folder of tombstones; "" if there is none."""
    try:
        folder = (store.folder / FORGOTTEN).stat()
    except OSError:
        return ""
    return f"{folder.st_ino}-{folder.st_mtime_ns}"


def knows_head(store: Store) -> bool:
    """True if the index knows the records of HEAD; notes a HEAD that moved past none of them."""
    head = store.repo.head() or ""
    if not knows(store, head):
        return False
    if store.index.notes.head != head:
        with suppress(BrokenStore):
            store.index.note(head=head)
    return True


def knows(store: Store, commit: str) -> bool:
    """True if the index knows the records of a commit; "" means before the first commit."""
    noted = store.index.notes.head
    if not (noted and commit):
        return noted == commit
    return noted == commit or _records_of(store, noted) == _records_of(store, commit)


def _records_of(store: Store, commit: str) -> str | None:
    """The tree of the store in a commit; None if it has none."""
    if store.files.store == TOP:
        return store.repo.objects.root(commit) or None
    item = store.repo.item(store.files.store, commit)
    return item.oid if item else None


def show(store: Store, path: str, data: bytes | None, made: Made) -> str:
    """Make a written or removed (None) record visible to searches at once.

    Returns what went wrong, or "".
    """
    if not is_listed(path):
        return ""
    try:
        record = store.parse(data, path).record if data is not None else None
        if record and data is not None:
            doc = document(record, blob_id(data, store.repo.hash_name))
            store.index.push(doc, Entry(doc.blob, *(store.files.seen(path) or ())))
        else:
            store.index.push_removed(path)
        if made.commit and knows(store, made.onto):
            store.index.note(head=made.commit)  # our own commit is not a move of HEAD
            if made.entry:
                store.history.append(made.entry, made.onto, store.repo.identity()[0][0])
    except BrokenStore as error:
        return f"saved, but not searchable yet: {error.one_line}"
    return ""


def overdue(store: Store) -> bool:
    """Whether a full look is due: a file written in place does not change its folder's time."""
    notes = store.index.notes
    return not 0 <= time.time_ns() - notes.looked <= max(TICK, PACE * notes.cost)


class Keeper:
    """Keeps the index of an open store up to date, and answers from it."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self.store = store
        self.lock = threading.RLock()  # one call at a time
        self.looking = threading.RLock()  # one look at the files at a time
        self.looks = False  # whether to look before each question, where no watcher does
        self.trouble: str | None = None  # why the last look failed, if it did
        self.last_call = 0.0  # when it ended, as `time.monotonic` has it; 0: there was none
        self.listeners: list[Callable[[str], None]] = []  # called by `announce`
        self._progress = progress
        self._state = ""  # what was announced last
        self._behind = False  # the index had not heard of HEAD at the last question

    @property
    def degraded(self) -> str:
        """Why answers may be incomplete, or ""."""
        unbuilt = ""
        if not (self.store.index.sound or self.store.absent):
            unbuilt = (
                "the search index is not built yet; "
                "until then only a part of the records is searched"
            )
        behind = "HEAD was moved a moment ago, and the index is catching up" if self._behind else ""
        reasons = (self.store.config.unread, self.trouble, unbuilt, behind, self.store.obstacle())
        return "; ".join(filter(None, reasons))

    @property
    def state(self) -> str:
        """A token that changes whenever answers may: after a save, an edit, a checkout.

        It takes no lock.
        """
        parts = f"{self.store.index.stamp} {self.store.repo.head()} {self.store.branch}"
        return f"{zlib.crc32(parts.encode()):08x}"

    def announce(self) -> None:
        """Call the listeners with the state if it has changed since the last call.

        A watcher calls this often.
        """
        state = self.state if self.listeners else self._state
        if state != self._state:
            self._state = state
            for listener in tuple(self.listeners):
                listener(state)

    def finish(self) -> None:
        """Finish the saves in the journal."""
        if self.store.repo.unfinished:
            from filemem.repo import commit  # noqa: PLC0415 - 5 ms; seldom needed

            for made in commit.finish(self.store.repo, self.store.files):
                self.trouble = made.trouble or self.trouble

    def refresh(self, *, full: bool, hints: Collection[str]) -> int:
        """Finish pending saves, then look: at every file, or where hints and folder times point."""
        self.refuse_past()
        with self.lock:  # what a save under way has written is found once that save is done
            pass
        with self.looking:
            self.finish()
            damaged = full and bool(self.store.index.verify())
            changed = self.look(full=full, hints=hints, anew=damaged)
            if full:
                self.store.index.fold(every=True, link=self.store.serving)
            return changed

    def look(self, *, hints: Iterable[str] = (), anew: bool = False, full: bool = False) -> int:
        """Look at the files; rebuild a damaged index. Return how many files changed."""
        with self.looking:
            ask = partial(catch_up, self.store, progress=self._progress)
            try:
                changed = self._looked(ask, anew, hints=hints, full=full)
            except IndexDamaged:
                changed = self._looked(ask, anew=True)
            self.store.repo.share()
            return changed

    def _looked(self, ask: Callable[..., int], anew: bool, **where: Any) -> int:
        """Look, and move the caches. Raises IndexDamaged, even of what no look reads."""
        changed = ask(anew=anew, **where)
        if anew:  # what was saved while it was built
            ask(full=True)
        self._fold(1 if anew else BEHIND_SERVING if self.store.serving else BEHIND)
        return changed

    def _fold(self, least: int) -> None:
        """Move the caches of the index forward if they are behind by so many records."""
        index = self.store.index
        if index.behind >= least:
            index.fold(link=self.store.serving)

    def in_step(self, patience: float, *, looks: bool = False) -> bool:
        """Look at the files if that is due or HEAD was moved; return if the index is up to date.

        Waits `patience` seconds for a look under way, here or in another process. `looks`: there is
        no watcher.
        """
        stop = time.monotonic() + patience
        try:
            while self._is_due(looks or self.looks):
                if self.looking.acquire(timeout=max(0.0, stop - time.monotonic())):
                    try:
                        self.look(full=(looks or self.looks) and overdue(self.store))
                    finally:
                        self.looking.release()
                    self.trouble = None
                    return True
                if time.monotonic() > stop:
                    return False
        except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
            self.trouble = error.one_line
            return False
        return True

    def _is_due(self, looks: bool) -> bool:
        """True if a question needs a look first: HEAD was moved, or no watcher looks."""
        index = self.store.index
        if self.store.tip != "HEAD":  # a past does not move
            return False
        if not (looks or index.notes.looked):  # a watcher builds
            return False
        if not knows_head(self.store) or index.incomplete:
            return True
        return looks and self._has_changed()

    def _has_changed(self) -> bool:
        """True if files have changed since the last look, or may have."""
        index = self.store.index
        folders = index.folders
        if index.notes.looked and not folders and self.store.absent:  # there is nothing to look at
            return False
        if not folders or index.notes.forgotten != _forgotten(self.store):
            return True
        return bool(self.store.files.changed_folders(folders)) or overdue(self.store)

    def read(self, question: Callable[[Store], _Answer]) -> _Answer:
        """Answer a question that needs a store, after a look if one is due."""
        self.store.refuse_missing()
        self._behind = not self.in_step(SHORT) and not self.trouble

        def steady(store: Store) -> _Answer:
            with store.index.facts():
                return question(store)

        return self.ask(steady)

    def write(self, change: Callable[[Store], _Answer]) -> _Answer:
        """Change something, after a look if one is due."""
        self.refuse_past()
        self.store.config.refuse_unread()
        self.in_step(LONG)
        return self.ask(change)

    def refuse_past(self) -> None:
        """Refuse to change what was. Raises BadInput."""
        if self.store.tip != "HEAD":
            message = "a past state of the memory cannot be changed"
            raise BadInput(message, "leave `at` out", field="at")

    def ask(self, question: Callable[[Store], _Answer]) -> _Answer:
        """Answer a question; a damaged index is rebuilt first, or the files answer."""
        try:
            with self.lock:
                return question(self.store)
        except NotFound as error:
            hints = filter(None, (self.degraded, error.hint))
            raise NotFound(error.message, "; ".join(hints)) from None
        except IndexDamaged:
            store = self.store
            try:
                self.look(anew=True)
            except (BrokenStore, Locked) as error:
                self.trouble = error.one_line
                store = self.store.from_files()
            with self.lock:
                return question(store)
        finally:
            self.last_call = time.monotonic()


class Answering:
    """A keeper that answers one reader: every question is put to the store as this one sees it."""

    def __init__(self, keeper: Keeper, reader: Reader) -> None:
        self._keeper = keeper
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keeper, name)

    def read(self, question: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.read(lambda store: question(store.seen_by(self._reader)))

    def ask(self, question: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.ask(lambda store: question(store.seen_by(self._reader)))

    def write(self, change: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.write(lambda store: change(store.seen_by(self._reader)))
