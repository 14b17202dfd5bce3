"""Update the index from the files: scan, diff, apply. There is one way, whatever changed them.

Only its file or a tombstone can make a document stale. If another program moved HEAD to other records, every file may
have changed: that means a full look, and no more. `Keeper` decides when to look and answers questions: one call runs at
a time, but none waits for an index that is being built.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
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
SHORT, LONG = (
    1.0,
    10.0,
)  # seconds that a question, and a save, waits until the index has heard of a checkout
# Records that the caches of the index do not hold, from which on they are moved forward: each
# costs a question a little, and moving costs as much as some hundred of them.
BEHIND_SERVING, BEHIND = 16, 64
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

    `full` looks at every file, not only at folders whose time changed and at `hints`, absolute paths
    from a watcher. `anew` rebuilds the index; the old one answers until the switch. `meaning`:
    whether to make vectors, which takes the model.
    """
    index = store.index
    listed = {} if anew else index.folders
    written = store.files.changed_folders(listed)
    notes: dict[str, Any] = {"head": store.repo.head() or "", "forgotten": _forgotten(store)}
    moved = not anew and not knows_head(store)
    hidden = not anew and index.notes.forgotten != notes["forgotten"]
    everything = full or moved or hidden or not listed
    if not (everything or hints or written):
        if meaning:  # a brief was asked before, which loads no model
            index.complete()
        return 0
    store.history.extend()  # so that no question waits for it
    inside = {path for path in _inside(store, hints) if not path.startswith("..")}
    folders = written | set(map(posixpath.dirname, inside))
    before = {} if anew else index.manifest(("",) if everything else folders)
    began = time.time_ns()
    after, times, _ = store.scan(before, None if everything else folders)
    if everything:
        notes |= {"looked": began, "cost": time.time_ns() - began}
    else:
        times = {folder: at for folder, at in listed.items() if folder not in folders} | times
    news = list(changes.diff(before, after))
    forgotten = store.tombstones

    def hides(name: str) -> bool:
        return bool(forgotten) and mark_of(name) in forgotten

    news += changes.turned(index.ids(), after, news, hides) if hidden else []
    index.apply(
        news if listed else sorted(news, key=_newest_first),
        partial(store.document, forgotten=forgotten),
        progress,
        before=before,
        seen=after,
        hidden=hides,
        meaning=meaning,
        anew=anew,
    )
    index.note(folders=times, **notes)
    return len(news)


def _inside(store: Store, hints: Iterable[str]) -> Iterator[str]:
    return (posixpath.relpath(hint, store.folder) for hint in hints)


def _newest_first(change: Change) -> tuple[str, str]:
    """What orders a first build, which is asked as it grows: by the dates in names, backwards."""
    date = max(re.findall(r"\d{8}(?=-)", change.path), default="0")
    return f"{99999999 - int(date):08}", change.path


def _forgotten(store: Store) -> str:
    """The state of the folder of tombstones; "" if there is none."""
    try:
        found = (store.folder / FORGOTTEN).stat()
    except OSError:
        return ""
    return f"{found.st_ino}-{found.st_mtime_ns}"


def knows_head(store: Store) -> bool:
    """Whether the index knows the records of HEAD; notes a HEAD that moved without touching them."""
    head = store.repo.head() or ""
    known = knows(store, head)
    if known and store.index.notes.head != head:
        with suppress(BrokenStore):
            store.index.note(head=head)
    return known


def knows(store: Store, commit: str) -> bool:
    """Whether the index knows the records of a commit; "" means before the first commit."""
    noted = store.index.notes.head
    return noted == commit or bool(
        noted and commit and _records_of(store, noted) == _records_of(store, commit)
    )


def _records_of(store: Store, commit: str) -> str | None:
    """The tree of the store in a commit; None if it has none."""
    if store.files.store == TOP:
        return store.repo.objects.root(commit) or None
    item = store.repo.item(store.files.store, commit)
    return item.oid if item else None


def show(store: Store, path: str, data: bytes | None, made: Made) -> str:
    """Make a written or removed (None) record visible to searches at once; return what went wrong, if anything."""
    if not is_listed(path):
        return ""
    try:
        if data is not None and (record := store.parse(data, path).record):
            doc = document(record, blob_id(data, store.repo.hash_name))
            store.index.push(doc, Entry(doc.blob, *(store.files.seen(path) or ())))
        else:
            store.index.push_removed(path)
        if made.commit and knows(store, made.onto):
            store.index.note(
                head=made.commit
            )  # so that nobody takes our own commit for a move of HEAD
            if made.entry:
                store.history.append(made.entry, made.onto, store.repo.identity()[0][0])
    except BrokenStore as error:
        return f"saved, but not searchable yet: {error.told}"
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
        self.asked = 0.0  # when the last call ended, as `time.monotonic` has it; 0: none was made
        self.listeners: list[Callable[[str], None]] = []  # called by `announce`
        self._progress = progress
        self._state = ""  # what was announced last
        self._behind = (
            False  # whether the index had not heard of HEAD when the last question was asked
        )

    @property
    def degraded(self) -> str:
        """Why answers may be incomplete, or ""."""
        unbuilt = ""
        if not (self.store.index.sound or self.store.absent):
            unbuilt = "the search index is not built yet; until then only a part of the records is searched"
        behind = "HEAD was moved a moment ago, and the index is catching up" if self._behind else ""
        reasons = (self.store.config.unread, self.trouble, unbuilt, behind, self.store.obstacle())
        return "; ".join(filter(None, reasons))

    @property
    def state(self) -> str:
        """A word that is another one as soon as answers may be: after a save, an edit, a checkout. It takes no lock."""
        told = f"{self.store.index.stamp} {self.store.repo.head()} {self.store.branch}"
        return f"{zlib.crc32(told.encode()):08x}"

    def announce(self) -> None:
        """Call the listeners with the state if it is another one than at the last call. A watcher calls this often."""
        if self.listeners and (state := self.state) != self._state:
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
        """Look at the files if that is due or HEAD was moved; return whether the index is up to date.

        Waits `patience` seconds for a look under way, here or in another process. `looks`: there is no watcher.
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
            self.trouble = error.told
            return False
        return True

    def _is_due(self, looks: bool) -> bool:
        """Whether to look before a question: if HEAD was moved, or if no watcher looks."""
        index = self.store.index
        if self.store.tip != "HEAD" or not (
            looks or index.notes.looked
        ):  # a past does not move; a watcher builds
            return False
        if not knows_head(self.store) or index.incomplete:
            return True
        known = index.folders
        if not looks or (
            index.notes.looked and not known and self.store.absent
        ):  # there is nothing to look at
            return False
        hidden = index.notes.forgotten != _forgotten(self.store)
        return (
            not known
            or hidden
            or bool(self.store.files.changed_folders(known))
            or overdue(self.store)
        )

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
            raise BadInput(
                "a past state of the memory cannot be changed", "leave `at` out", field="at"
            )

    def ask(self, question: Callable[[Store], _Answer]) -> _Answer:
        """Answer a question; if the index is damaged, rebuild it first, or answer from the files."""
        try:
            with self.lock:
                return question(self.store)
        except NotFound as error:
            raise NotFound(
                error.message, "; ".join(filter(None, (self.degraded, error.hint)))
            ) from None
        except IndexDamaged:
            store = self.store
            try:
                self.look(anew=True)
            except (BrokenStore, Locked) as error:
                self.trouble = error.told
                store = self.store.from_files()
            with self.lock:
                return question(store)
        finally:
            self.asked = time.monotonic()


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
