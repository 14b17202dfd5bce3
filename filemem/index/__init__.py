"""The search index of one work tree: derived, disposable, shared by processes. `Index` is all that others need.

Rule: it knows documents and nothing of records, files or Git; and it never answers "nothing" where the truth is
"broken": what it can not use raises `IndexDamaged`, what it lacks is told as `degraded`.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from filemem.changes import ADDED, Change, Entry, Manifest
from filemem.documents import TERM_FIELDS, Birth, Doc, Node
from filemem.errors import Locked
from filemem.index import generation, manifest, pending
from filemem.index.embed import BundledModel, ConfiguredModel, Embedder, ModelUnavailable
from filemem.index.fresh import Fresh, latest
from filemem.index.generation import WORDS, Generation, IndexDamaged
from filemem.index.keyword import READING, Words, analyze
from filemem.index.lock import WriterLock
from filemem.index.meaning import Meaning
from filemem.index.notes import Notebook, Notes
from filemem.index.values import Candidate, Found, Scope
from filemem.index.view import View
from filemem.query import Filter, Terms

if TYPE_CHECKING:
    from filemem.index.work import Load
    from filemem.index.writer import Progress

__all__ = ["Candidate", "Embedder", "Found", "Index", "IndexDamaged", "ModelUnavailable", "embedder"]

_LAYOUT = 2  # of the files, and what they say of chains; the rest of the format follows from how texts are read
_SHAPES = (Doc._fields, Node._fields, Birth._fields, TERM_FIELDS)
FORMAT = f"{_LAYOUT}.{zlib.crc32(repr((READING, _SHAPES)).encode()):08x}"
MANY_WAITING = 16  # saves that wait to be folded in; each costs a query a little
LONG_WAITING = 2 * 10**9  # nanoseconds; the same
_DAY = 86_400 * 10**9  # nanoseconds


def embedder(spec: str = "", download: bool = False) -> Embedder:
    """Return the embedder for a setting: the bundled model, or the named one.

    Args:
        spec: a folder or hub name of a model2vec model; empty for the bundled one.
        download: whether the network may be asked for a hub name.
    """
    return ConfiguredModel(spec, download) if spec else BundledModel()


class Index:
    """An index folder, open for questions and, where this process is the writer, for changes.

    Every question first looks for what other processes saved or built; that costs two `stat` calls.

    Args:
        root: the index folder; made when first written to.
        model: turns texts into vectors; None for keyword search only.
        clock: nanoseconds since 1970.
    """

    def __init__(self, root: Path, model: Embedder | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        self.root = root
        self._clock = clock
        self._meaning = Meaning(model)
        self._fresh = Fresh(root, partial(pending.read, analyze=analyze), FORMAT, clock)
        self._lock = WriterLock(root)
        self._notes = Notebook(root)
        self._reading, self._changing = RLock(), RLock()  # a search does not wait for a rebuild
        self._known: set[tuple[str, int, int]] = set()
        self._view: View | None = None
        self._state: tuple[bool, tuple[int, int] | None] = (False, None)
        self._entries: tuple[Path, dict[str, Entry]] | None = None
        self._blank = False  # after `reset`: nothing on disk counts

    # state

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
    def exists(self) -> bool:
        """Whether anything was ever built."""
        return self._now().generation is not None

    @property
    def stale(self) -> str:
        """Why the index should be rebuilt although it answers, or "": another model, records without vectors."""
        current, model = self._now().generation, self._meaning.model
        if current is None or model is None or not current.seal.docs:
            return ""
        if current.seal.model and current.seal.model != model.name:
            return f"its vectors come from the model {current.seal.model}, not {model.name}"
        if not current.seal.model or current.seal.missing:
            return "records have no vectors yet"
        return ""

    @property
    def outdated(self) -> bool:
        """Whether building anew would give vectors that are missing, or of another model; that model can be had."""
        return bool(self.stale) and self._meaning.works()

    @property
    def model(self) -> str:
        """Name of the model that the vectors in use come from, or ""."""
        current = self._now().generation
        return current.seal.model if current else ""

    @property
    def head(self) -> str:
        """Where HEAD was by the last `apply` or `note`."""
        return self._notes.read().head

    @property
    def folders(self) -> Mapping[str, int]:
        """The folders' times by the last `note`."""
        return self._notes.read().folders

    @property
    def notes(self) -> Notes:
        """All that was remembered by the last `note`."""
        return self._notes.read()

    def manifest(self) -> dict[str, Entry]:
        """Return what the index was built from, what is pending included: path -> entry.

        Take it before scanning the store, or a record saved in between looks removed.
        """
        view = self._now()
        entries = dict(self._sealed(view.generation))
        for path, item in latest(view.items).items():
            if item.pending is not None:
                entries[path] = item.entry or Entry(item.pending.doc.blob)
            else:
                entries.pop(path, None)
        return entries

    def pending(self) -> int:
        """Return how many saves wait to be folded in."""
        return len(self._now().items)

    @property
    def unreadable(self) -> bool:
        """Whether a save waits whose entry cannot be read: only a look at all files finds what it said."""
        return any(not item.path for item in self._now().items)

    def waiting(self) -> dict[str, str | None]:
        """Return what waits to be folded in: path -> blob id, None for what was removed."""
        last = latest(self._now().items)
        return {path: item.pending.doc.blob if item.pending else None for path, item in last.items()}

    @property
    def crowded(self) -> bool:
        """Whether what waits should be folded in now: it is much, or the first of it has waited for long."""
        items = self._now().items
        return len(items) >= MANY_WAITING or any(self._clock() - item.saved > LONG_WAITING for item in items[:1])

    def verify(self) -> list[str]:
        """Compare every file in use with its checksum; return what is wrong."""
        try:
            current = generation.load(self.root, _checked)
        except IndexDamaged as error:
            return [error.message]
        if current is not None and current.seal.format != FORMAT:
            return ["it was made by another version"]
        return []

    # changes

    def push(self, doc: Doc, entry: Entry | None = None) -> None:
        """Make a saved record findable at once by every process; needs no lock.

        Args:
            doc: the document.
            entry: its file as it stands, so that the next scan need not hash it.

        Raises:
            BrokenStore: the folder can not be written.
        """
        with self._reading:
            self._fresh.push(doc.path, doc, entry)

    def push_removed(self, path: str) -> None:
        """Take a record out of what every process finds, at once; needs no lock."""
        with self._reading:
            self._fresh.push(path, None, None)

    def apply(
        self,
        changes: Iterable[Change],
        load: Load,
        head: str = "",
        progress: Progress | None = None,
        *,
        seen: Manifest | None = None,
    ) -> None:
        """Bring the index up to date: what is pending and the given changes, all at once or not at all.

        Args:
            changes: what a look at the store found; wins over what is pending.
            load: makes the document of a path; None where there is none (unreadable, gone).
            head: where HEAD is, for `head`.
            progress: called with documents done and in all.
            seen: the whole scan; renews size and time of files whose content is the same.

        Raises:
            Locked: another process is the writer.
            BrokenStore: the folder can not be written.
            IndexDamaged: there is nothing to build upon; see `reset`.
        """
        with self._writing():
            self._make(list(changes), load, progress, seen or {}, anew=False)
            self._remember(self.notes._replace(head=head or self.head))

    def fold(self) -> int:
        """Put what is pending into the disk index; return how many entries that were.

        Raises:
            Locked: another process is the writer.
        """
        with self._writing():
            return self._make([], _nothing, None, {}, anew=False)

    def rebuild(self, entries: Manifest, load: Load, head: str = "", progress: Progress | None = None) -> None:
        """Build the index anew from all files; until it is done the old one answers. Vectors of known content stay.

        Args:
            entries: all files of the store.
            load, head, progress: as for `apply`.
        """
        changes = [Change(ADDED, path, entry) for path, entry in entries.items()]
        with self._writing():
            self._make(changes, load, progress, {}, anew=True)
            self._remember(self.notes._replace(head=head or self.head))

    def keeps(self, head: str) -> bool:
        """Whether a generation is kept for a commit."""
        from filemem.index import kept

        return bool(head) and kept.place(self.root, head).is_dir()

    def forget_kept(self) -> None:
        """Forget what is kept for other commits: what is known of their past has changed."""
        from filemem.index import kept

        kept.forget(self.root)

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
            current, left = self._now().generation, self.head
            if self._blank or current is None or not left or not head:
                return False
            kept.keep(self.root, current, left)
            found = kept.take_up(self.root, current, head, FORMAT)
            if found:
                self._remember(Notes(head))
            return found

    def then(self, tree: str, make: Callable[[Index], None]) -> Index:
        """Return the index of the store as it was in another state; made where there is none.

        Args:
            tree: what names the state: equal names mean equal files.
            make: brings an index that may hold the present state to that one.

        Raises:
            BrokenStore: the folder can not be written.
        """
        from filemem.index import past

        there = past.place(self.root, tree)
        if there.is_dir():
            past.used(self.root, tree)
            found = self._beside(there)
            if found.sound and found.model == self.model:
                return found
            past.forget(self.root, tree)
        head, aside = self.head, past.begin(self.root, FORMAT)
        try:
            making = self._beside(aside)
            if making.exists:
                making.note(head=head)
            make(making)
            making.close()
            past.finish(self.root, aside, tree)
        finally:
            past.discard(aside)
        return self._beside(there)

    def _beside(self, folder: Path) -> Index:
        return Index(folder, self._meaning.model, self._clock)

    def forget_then(self, tree: str) -> None:
        """Remove the index of another state: it is damaged."""
        from filemem.index import past

        past.forget(self.root, tree)

    @property
    def sound(self) -> bool:
        """Whether something was built that can be read."""
        try:
            return self.exists
        except IndexDamaged:
            return False

    def reset(self) -> None:
        """Answer as if nothing was built, and build anew at the next `apply`: for an index that is damaged."""
        with self._reading:
            self._blank = True

    def note(
        self,
        *,
        head: str,
        folders: Mapping[str, int] | None = None,
        seen: Manifest | None = None,
        looked: tuple[int, int] | None = None,
        past: str | None = None,
    ) -> None:
        """Remember where HEAD was and what the folders' times were when a look at the store found the index right.

        Args:
            seen: as for `apply`; where it renews anything this process must be the writer.
            looked: when every file was looked at, and how long that took; None where only some were.
            past: as in `Notes`; None for what it was.
        """
        if seen is not None:
            known = self._sealed(self._now().generation)
            if any(known.get(path) != entry for path, entry in seen.items()):
                self.apply((), _nothing, head, seen=seen)
        before = self.notes
        at, cost = looked or (before.looked, before.cost)
        past = before.past if past is None else past
        self._remember(Notes(head, dict(before.folders if folders is None else folders), at, cost, past))

    def rest(self) -> None:
        """Let go of memory that the next question can read again from the files."""
        self._meaning.rest()
        self._entries = None

    def stand_back(self) -> None:
        """Let others write."""
        with self._changing:
            self._lock.release()

    def close(self) -> None:
        """Let others write; forget what is open."""
        with self._changing, self._reading:
            self._lock.release()
            self._view = None

    # questions

    def candidates(
        self,
        terms: Terms,
        wanted: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        dead: Collection[str] = (),
        alive: Collection[str] = (),
        exclude_paths: Collection[str] = (),
        most: int | None = None,
    ) -> Found:
        """Return the best documents for a query, in no order: the best by words and the best by meaning.

        Args:
            terms: a parsed query.
            wanted: what every candidate must satisfy.
            depth: how many of each kind.
            mode: hybrid, keyword or vector.
            dead, alive: ids whose liveness the caller knows better; they count where `wanted.live`.
            exclude_paths: documents to leave out.
            most: return only this many, the best by words and meaning together.

        Raises:
            IndexDamaged: see `reset`.
        """
        scope = Scope(wanted or Filter(), frozenset(exclude_paths), frozenset(dead), frozenset(alive))
        return self._now().candidates(terms, scope, depth, mode, most)

    def newest(
        self,
        wanted: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
        *,
        dead: Collection[str] = (),
        alive: Collection[str] = (),
        exclude_paths: Collection[str] = (),
    ) -> list[str]:
        """Return the nodes of the documents created last, newest first; arguments as for `candidates`."""
        scope = Scope(wanted or Filter(), frozenset(exclude_paths), frozenset(dead), frozenset(alive))
        return self._now().newest(scope, limit, offset)

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of documents that satisfy a filter."""
        return self._now().count(Scope(wanted or Filter()))

    def by_terms(self, wanted: Mapping[str, Collection[str]]) -> list[str]:
        """Return the nodes of all documents with one of the values in any of the fields (TERM_FIELDS, or "path")."""
        return self._now().by_terms(wanted)

    def by_prefix(self, field: str, prefix: str, limit: int = 20) -> list[str]:
        """Return the nodes of documents with a value that begins with `prefix`; at most `limit` values of them."""
        return self._now().by_prefix(field, prefix, limit)

    def terms(self, field: str, prefix: str = "") -> list[tuple[str, int]]:
        """Return (value, number of documents) of a field, in order."""
        return self._now().terms(field, prefix)

    def nodes(self) -> list[str]:
        """Return the nodes of all documents, newest first."""
        return self._now().nodes()

    def pending_nodes(self) -> list[str]:
        """Return the nodes of what is saved and not yet folded in."""
        return [one.doc.node for one in self._now().pending]

    def removed_nodes(self) -> list[str]:
        """Return the nodes of records that were removed and are not yet taken out of the disk index."""
        return self._now().removed_nodes()

    # inside

    def _now(self) -> View:
        """Return the present state. The fresh folder is listed first and the generation looked at second: an entry
        that is gone when we list is in the generation that we then find."""
        with self._reading:
            moved = self._fresh.refresh()
            state = (self._blank, None if self._blank else generation.stamp(self.root))
            if self._view is None or state != self._state:
                self._view = self._open()
                self._state = state
            elif moved:
                self._view = self._view.beside(self._fresh.items())
            return self._view

    def _now_at_least_pending(self) -> View:
        try:
            return self._now()
        except IndexDamaged:
            return View(None, None, self._fresh.items(), self._meaning)

    def _open(self) -> View:
        opened = None if self._blank else generation.load(self.root, self._opened)
        current, words = opened or (None, None)
        return View(current, words, self._fresh.items(), self._meaning)

    def _opened(self, current: Generation) -> tuple[Generation, Words]:
        if current.seal.format != FORMAT:
            raise IndexDamaged("it was made by another version of filemem")
        current.check(WORDS, self._known)
        return current, Words(current.folder / WORDS, current.seal.total, current.seal.average)

    def _sealed(self, current: Generation | None) -> dict[str, Entry]:
        if current is None:
            return {}
        if self._entries is None or self._entries[0] != current.folder:
            self._entries = (current.folder, manifest.read(current))
        return self._entries[1]

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

    def _make(self, changes: list[Change], load: Load, progress: Progress | None, seen: Manifest, *, anew: bool) -> int:
        """Make the next generation, and then forget what was pending; return how many entries that were."""
        from filemem.index import work, writer  # a search does without

        view = self._now() if not anew else self._now_at_least_pending()
        anew = anew or self._blank or view.generation is None
        base = generation.load_seal(self.root) if anew else view.generation
        before = {} if anew else self._sealed(base)
        planned = work.plan(
            view.items, before, changes, load, seen, anew=anew, made_by=FORMAT, day=self._clock() // _DAY
        )
        if not anew and not planned.count and not planned.touched:
            self._fresh.forget(view.items)
            return len(view.items)
        made = writer.make(self.root, base, planned, self._meaning.model, progress)
        with self._reading:
            self._entries = (made.folder, dict(planned.entries))
            self._blank = False
            self._fresh.forget(view.items)
        return len(view.items)

    def _remember(self, new: Notes) -> None:
        if new != self._notes.read():
            self._notes.write(new)


def _nothing(_path: str) -> None:
    return None


def _checked(current: Generation) -> Generation:
    current.check("")
    return current
