"""Keeping an index in step with the files, and answering from it: what every question and every save rests on.

Rule: one call at a time is at work, but none waits for an index that is being built, unless what it would say depends
on where HEAD is now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from filemem.errors import BrokenStore, Locked, NotFound
from filemem.index import NOT_BUILT, IndexDamaged
from filemem.memory import arguments, following
from filemem.memory.store import Progress, Store

if TYPE_CHECKING:
    from filemem.memory.syncing import Look

_Answer = TypeVar("_Answer")
SHORT = 1.0  # seconds that a question waits until the index has heard of a checkout
IDLE = 30.0  # seconds in which nobody waits again for a look that did not come in time
REPAIR = 5.0  # seconds that a question waits for another process to notice that the index is damaged
PAUSE = 0.05  # seconds between two looks at what another process does


class Kept:
    """A store whose index is kept in step."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self._store = store
        self._progress = progress
        self._lock = threading.RLock()  # one call at a time
        self._syncing = threading.RLock()  # of its own: a search does not wait for an index that is being built
        self._watching: list[Callable[[], None]] = []
        self._patient_from = 0.0  # when it is worth again to wait for another's look, as `time.monotonic` tells it
        self._behind = False  # whether the index had not heard of HEAD when the last question was asked
        self._looks = False  # whether to look at the files before each question, where no watcher does
        self._gaps = ""  # why answers might have lacked something when the last question was asked
        self.trouble: str | None = None  # why the last look at the files failed, if it did

    def on_change(self, action: Callable[[], None]) -> None:
        """Run something whenever records may have changed, from the thread that changed them or saw it."""
        self._watching.append(arguments.action("action", action))

    def _changed(self) -> None:
        for action in self._watching:
            action()

    @property
    def degraded(self) -> str:
        """Why answers may lack something, or ""."""
        behind = "HEAD was moved a moment ago, and the index is catching up" if self._behind else ""
        unbuilt = "" if self._store.index.exists or self._store.absent else NOT_BUILT
        return "; ".join(part for part in (self.trouble or "", unbuilt, behind, self._store.obstacle()) if part)

    @property
    def lacked(self) -> str:
        """Why the last answer may lack something, or "": as it was before, since what is missed may come meanwhile."""
        return self._gaps or self.trouble or ""

    @property
    def lacks_meaning(self) -> str:
        """Why nothing, or not everything, is found by meaning and what to do, or "": the model is asked."""
        return self._store.index.lacks_meaning

    @property
    def indexed(self) -> bool:
        """Whether there is an index that can be asked."""
        return self._store.index.sound

    # looking at the files

    def refresh(self, *, full: bool = False, hints: Iterable[str] = ()) -> Look:
        """Finish what waits for the repository, and bring the index in step with the files.

        Args:
            full: look at every file, not only where a folder's time changed.
            hints: absolute paths that may have changed.

        Raises:
            BrokenStore: the index folder cannot be written.
        """
        from filemem.memory import syncing

        arguments.flag("full", full)
        named = arguments.each("hints", hints, arguments.path)
        if named:
            with self._lock:  # what a save under way has written is found once that save is done
                pass
        with self._syncing:
            saver = self._store.saver
            if saver.due() == 0:
                saver.flush()
            if named and not full and syncing.nothing_new(self._store, named):
                self._changed()  # another process may have made them
                return syncing.Look()
            saver.replay(thorough=full)
            if full and self._store.serving and not saver.pending():
                self._store.repo.objects.maintain()
            look = self._catch_up(full=full, hints=named, verify=full)
            if full and not look.busy and self._store.index.outdated:
                look = self.rebuild()._replace(changed=look.changed)
            if named or look.changed or look.embedded:
                self._changed()
            return look

    def rest(self) -> None:
        """Let go of memory that is quickly had again; for a server that nobody asks anything."""
        self._store.index.rest()

    def _look(self) -> None:
        """Look at the files before a question, as a command does at its start, where a look is due."""
        if not self._looks:
            return
        try:
            if (overdue := following.overdue(self._store)) or following.strayed(self._store):
                with self._syncing, self._helping():
                    self._catch_up(full=overdue, hints=())
                self.trouble = None
        except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
            self.trouble = error.told
        except IndexDamaged:  # the question finds that too, and repairs it
            pass

    def _catch_up(self, *, full: bool, hints: Iterable[str], verify: bool = False) -> Look:
        from filemem.memory import syncing

        past = following.past_stamp(self._store)
        deepened = following.deepened(self._store) and self._store.index.writable
        if deepened:
            self._store.index.note(head="")  # so that first commits are asked for anew
            self._store.index.forget_kept()
        try:
            if not (verify and self._store.index.verify()):
                look = syncing.catch_up(self._store, full=full, hints=hints, progress=self._progress)
                if deepened and not look.busy:
                    self._store.index.note(head=self._store.index.notes.head, past=past)
                return look
        except IndexDamaged:
            pass
        return syncing.rebuild(self._store, progress=self._progress)

    def rebuild(self) -> Look:
        """Build the index anew from the files; the old one serves until the switch.

        Vectors of another model than the configured one go only where that can be had: see `lacks_meaning`.
        """
        from filemem.memory import syncing

        index = self._store.index
        with self._syncing, self._helping():
            try:
                before = index.unembedded
                look = syncing.renew(self._store, progress=self._progress)
            except IndexDamaged:
                return syncing.rebuild(self._store, progress=self._progress)
            embedded = before - index.unembedded
            return look._replace(embedded=embedded, model=index.model) if embedded > 0 else look

    @contextmanager
    def _helping(self) -> Iterator[None]:
        """Change the index, and be its writer no longer than that, unless we are it already: a watcher needs to be."""
        writer = self._store.index.is_writer
        try:
            yield
        finally:
            if not writer:
                self._store.index.stand_back()

    # answering

    def _read(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer what makes sense only where there is a store."""
        self._store.refuse_missing()
        self._look()
        try:
            # The first index is made beside the first questions; one that was removed meanwhile is made anew at once.
            built = self._store.index.exists or self._store.followed is not None
            self._behind = built and not self._follow(SHORT)
            self._gaps = self.degraded
        except IndexDamaged:  # the question finds that too, and repairs it
            self._behind, self._gaps = False, ""
        return self._ask(question)

    def _follow(self, patience: float) -> bool:
        """Let the index hear of a HEAD that others have moved; say whether it has.

        Args:
            patience: seconds to wait for a look that is under way, here or in another process.
        """
        began = time.monotonic()
        stop = began + (patience if began > self._patient_from else 0)
        busy = False
        while not following.knows(self._store, place := following.here(self._store)):
            left = stop - time.monotonic()
            if (busy and left <= 0) or not self._syncing.acquire(timeout=max(0.0, left)):
                self._patient_from = time.monotonic() + IDLE  # who should have looked is not at work
                return False
            try:
                with self._helping():
                    busy = self._catch_up(full=self._store.index.unreadable, hints=()).busy
            except (BrokenStore, Locked):  # told by `trouble` and `status`; the last look still answers
                return False
            finally:
                self._syncing.release()
            if busy:
                time.sleep(min(PAUSE, max(0.0, stop - time.monotonic())))
            else:
                self._store.followed = place._replace(waiting=self._store.index.waiting())
        return True

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer from the index; where that is damaged, build it anew and answer then."""
        with self._lock:
            try:
                return question()
            except NotFound as error:
                if why := self.degraded:
                    raise NotFound(error.message, "; ".join(filter(None, (why, error.hint)))) from None
                raise
            except IndexDamaged:
                return self._ask_anew(question)

    def _ask_anew(self, question: Callable[[], _Answer]) -> _Answer:
        """Build a damaged index anew, or wait for the thread or process that may, and answer then."""
        with self._syncing, suppress(IndexDamaged):  # a look under way may have built it
            return question()
        stop = time.monotonic() + REPAIR
        while True:
            try:
                busy = self.rebuild().busy
            except BrokenStore as error:
                self.trouble = error.told
                with self._store.without_index():
                    return question()
            if not busy:
                self._gaps = self.degraded
            try:
                return question()
            except IndexDamaged:
                if not busy or time.monotonic() > stop:
                    with self._store.without_index():
                        return question()
            time.sleep(PAUSE)
