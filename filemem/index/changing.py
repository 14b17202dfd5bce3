"""Bringing an index up to date: what is saved is folded in, what a look at the store found is applied.

Rule: one process writes, in one thread at a time; all of a change comes into use at once, or nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from filemem.changes import ADDED, Change, Entry, Manifest
from filemem.documents import Doc
from filemem.errors import Locked
from filemem.index import generation
from filemem.index.current import Current
from filemem.index.embed import Embedder
from filemem.index.fresh import latest
from filemem.index.lock import WriterLock
from filemem.index.meaning import Meaning
from filemem.index.notes import Notebook, Notes

if TYPE_CHECKING:
    from filemem.index.work import Load
    from filemem.index.writer import Progress

_DAY = 86_400 * 10**9  # nanoseconds


class Changing:
    """An index folder, open for changes where this process is the writer.

    Args:
        root: the index folder; made when first written to.
        model: turns texts into vectors; None for keyword search only.
        clock: nanoseconds since 1970.
    """

    def __init__(self, root: Path, model: Embedder | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        self.root = root
        self._clock = clock
        self._meaning = Meaning(model)
        self._current = Current(root, self._meaning, clock)
        self._now = self._current.view
        self._lock = WriterLock(root)
        self._changing = RLock()
        self._notes = Notebook(root)

    @property
    def writable(self) -> bool:
        """Whether this process is the writer; becomes it, until `close`, if no other process is.

        Raises:
            BrokenStore: the folder can not be written.
        """
        return self._lock.acquire()

    @property
    def is_writer(self) -> bool:
        """Whether this process is the writer now."""
        return self._lock.held

    @property
    def notes(self) -> Notes:
        """All that was remembered by the last `note`."""
        return self._notes.read()

    def manifest(self) -> dict[str, Entry]:
        """Return what the index was built from, what is pending included: path -> entry.

        Take it before scanning the store, or a record saved in between looks removed.
        """
        view = self._now()
        entries = dict(self._current.sealed(view.generation))
        for path, item in latest(view.items).items():
            if item.pending is not None:
                entries[path] = item.entry or Entry(item.pending.doc.blob)
            else:
                entries.pop(path, None)
        return entries

    def push(self, doc: Doc, entry: Entry | None = None) -> None:
        """Make a saved record findable at once by every process; needs no lock.

        Args:
            doc: the document.
            entry: its file as it stands, so that the next scan need not hash it.

        Raises:
            BrokenStore: the folder can not be written.
        """
        self._current.push(doc.path, doc, entry)

    def push_removed(self, path: str) -> None:
        """Take a record out of what every process finds, at once; needs no lock."""
        self._current.push(path, None, None)

    def apply(
        self,
        changes: Iterable[Change],
        load: Load,
        head: str = "",
        progress: Progress | None = None,
        *,
        seen: Manifest | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        """Bring the index up to date: what is pending and the given changes, all at once or not at all.

        Args:
            changes: what a look at the store found; wins over what is pending.
            load: makes the document of a path; None where there is none (unreadable, gone).
            head: where HEAD is, for `head`.
            progress: called with documents done and in all.
            seen: the whole scan; renews size and time of files whose content is the same.
            known: what was pending when the look began, from `saves`: what was saved since stays pending, and wins;
                None for all.

        Raises:
            Locked: another process is the writer.
            BrokenStore: the folder can not be written.
            IndexDamaged: there is nothing to build upon; see `reset`.
        """
        with self._writing():
            self._make(list(changes), load, progress, seen or {}, known, anew=False)
            self._remember(self.notes._replace(head=head or self.notes.head))

    def fold(self, known: Collection[str] | None = None) -> int:
        """Put what is pending into the disk index; return how many entries that were.

        Args:
            known: as for `apply`.

        Raises:
            Locked: another process is the writer.
        """
        with self._writing():
            return self._make([], _nothing, None, {}, known, anew=False)

    def rebuild(
        self,
        entries: Manifest,
        load: Load,
        head: str | None = None,
        progress: Progress | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        """Build the index anew from all files; until it is done the old one answers. Vectors of known content stay.

        Args:
            entries: all files of the store.
            head: the commit that HEAD named all the while; "" where it was moved, nothing for the one before.
            load, progress, known: as for `apply`.
        """
        changes = [Change(ADDED, path, entry) for path, entry in entries.items()]
        with self._writing():
            self._make(changes, load, progress, {}, known, anew=True)
            self._remember(self.notes if head is None else self.notes._replace(head=head))

    def keeps(self, head: str) -> bool:
        """Whether a generation is kept for a commit."""
        from filemem.index import kept

        return bool(head) and kept.place(self.root, head).is_dir()

    def forget_kept(self) -> None:
        """Forget what is kept for other commits, and of other states: what is known of their past has changed."""
        from filemem.index import kept, past

        kept.forget(self.root)
        past.forget_all(self.root)

    def turn_to(self, head: str) -> bool:
        """Keep the generation in use for the HEAD it was right for, and go on from the one that is kept for another.

        Args:
            head: where HEAD is now.

        Returns:
            Whether one was kept. It is right for that commit; a look at the files must tell what else has changed.

        Raises:
            Locked: another process is the writer.
            BrokenStore: the folder can not be written.
        """
        from filemem.index import kept

        with self._writing():
            current, left = self._now().generation, self.notes.head
            if self._current.blank or current is None or not left or not head:
                return False
            kept.keep(self.root, current, left)
            found = kept.take_up(self.root, current, head)
            if found:
                self._remember(Notes(head))
            return found

    def reset(self) -> None:
        """Answer as if nothing was built, and build anew at the next `apply`: for an index that is damaged."""
        self._current.reset()

    def note(
        self,
        *,
        head: str,
        folders: Mapping[str, int] | None = None,
        seen: Manifest | None = None,
        looked: tuple[int, int] | None = None,
        past: str | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        """Remember where HEAD was and what the folders' times were when a look at the store found the index right.

        Args:
            seen, known: as for `apply`; where `seen` renews anything this process must be the writer.
            looked: when every file was looked at, and how long that took; None where only some were.
            past: as in `Notes`; None for what it was.
        """
        if seen is not None:
            before_it = self._current.sealed(self._now().generation)
            if any(before_it.get(path) != entry for path, entry in seen.items()):
                self.apply((), _nothing, head, seen=seen, known=known)
        before = self.notes
        at, cost = looked or (before.looked, before.cost)
        past = before.past if past is None else past
        self._remember(Notes(head, dict(before.folders if folders is None else folders), at, cost, past))

    def stand_back(self) -> None:
        """Let others write."""
        with self._changing:
            self._lock.release()

    def close(self) -> None:
        """Let others write; forget what is open."""
        with self._changing:
            self._lock.release()
            self._current.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Be the writer: for good if we are it already, else for this one change."""
        with self._changing:
            held = self._lock.held
            if not self._lock.acquire():
                raise Locked("another process is writing the search index", "try again in a moment")
            try:
                yield
            finally:
                if not held:
                    self._lock.release()

    def _make(
        self,
        changes: list[Change],
        load: Load,
        progress: Progress | None,
        seen: Manifest,
        known: Collection[str] | None,
        *,
        anew: bool,
    ) -> int:
        """Make the next generation, and then forget what was pending; return how many entries that were."""
        from filemem.index import work, writer  # a search does without

        view = self._now() if not anew else self._current.at_least_pending()
        items = view.items if known is None else tuple(item for item in view.items if item.name in known)
        anew = anew or self._current.blank or view.generation is None
        base = generation.load_seal(self.root) if anew else view.generation
        before = {} if anew else self._current.sealed(base)
        planned = work.plan(items, before, changes, load, seen, anew=anew, day=self._clock() // _DAY)
        if not anew and not planned.count and not planned.touched:
            self._current.forget(items)
            return len(items)
        made = writer.make(self.root, base, planned, self._meaning.model, progress)
        self._current.take(made, planned.entries, items)
        return len(items)

    def _remember(self, new: Notes) -> None:
        if new != self._notes.read():
            self._notes.write(new)


def _nothing(_path: str) -> None:
    return None
