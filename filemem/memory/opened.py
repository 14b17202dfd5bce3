"""Open, refresh and close a memory; `filemem.memory.Memory` adds its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from filemem.errors import FilememError
from filemem.memory import fields
from filemem.memory.catch_up import WRITE_TIMEOUT, IndexKeeper
from filemem.memory.store import Progress, Store
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    from filemem.memory.snapshot import Moment

_Answer = TypeVar("_Answer")


class ReaderKeeper:
    """A keeper that answers one reader: each question sees the store as this reader may."""

    def __init__(self, keeper: IndexKeeper, reader: Reader) -> None:
        self._keeper = keeper
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keeper, name)

    def read(self, question: Callable[..., _Answer], /, *args: Any, **options: Any) -> _Answer:
        return self._keeper.read(self._restrict(question), *args, **options)

    def ask(self, question: Callable[..., _Answer], /, *args: Any, **options: Any) -> _Answer:
        return self._keeper.ask(self._restrict(question), *args, **options)

    def write(self, change: Callable[..., _Answer], /, *args: Any, **options: Any) -> _Answer:
        return self._keeper.write(self._restrict(change), *args, **options)

    def _restrict(self, question: Callable[..., _Answer]) -> Callable[..., _Answer]:
        """Return the question, put to a copy of the store for the reader."""

        def ask_as_reader(store: Store, *args: Any, **options: Any) -> _Answer:
            return question(store.copy_for_reader(self._reader), *args, **options)

        return ask_as_reader


class OpenMemory:
    """An open store with its index."""

    moment: Moment  # of a past state, which `at` returns: its commit

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self.work_tree = store.code.work_tree  # to which the paths of hits are relative
        self.folder = store.folder  # of the records
        self.agent = store.config.agent  # default agent for saves; may be empty
        self.reader = store.reader
        self.keeper = IndexKeeper(store, progress)
        self._store = store
        self.close_callbacks: list[Callable[[], None]] = []  # called before the parts are closed
        self._past_cache: list[Self] = []  # the past state opened last, if any
        self.stated_user = ""  # default user id for saves; "" as configured

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        store: str | None = None,
        serving: bool = False,
        progress: Progress | None = None,
        should_update: bool = True,
        is_long_running: bool = False,
    ) -> Self:
        """Open the memory that a folder belongs to; finish saves that a crash interrupted.

        Args:
            folder: As for `Store`, as is `store`; errors too.
            serving: Whether a watcher will keep the index up to date.
            progress: Called with the numbers of records done and of all records.
            should_update: Update the index first; else only methods that read files may be called.
            is_long_running: Scan the files before later calls, for a program without a watcher.
        """
        memory = cls(Store(folder, store, serving=serving), progress)
        keeper = memory.keeper
        try:
            keeper.finish_saves()
        except FilememError as error:  # a memory that cannot be written can still be read
            keeper.trouble = error.one_line
        if should_update and not serving:
            try:
                keeper.ensure_current(WRITE_TIMEOUT, should_scan=True)
            except FilememError as error:
                keeper.trouble = error.one_line
        keeper.should_scan = is_long_running
        return memory

    def seen_by(self, reader: Reader) -> Self:
        """Return this memory for another reader; only its owner's view can be changed."""
        if not self.reader.owner or reader == self.reader:
            return self
        other = copy(self)
        other.reader = reader
        other._store = self._store.copy_for_reader(reader)
        other.keeper = cast("IndexKeeper", ReaderKeeper(self.keeper, reader))
        return other

    def close(self) -> None:
        """Close everything."""
        for callback in self.close_callbacks:
            callback()
        with self.keeper.lock:
            for past in self._past_cache:
                past.close()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lacks_meaning(self) -> str:
        """Why search by meaning is incomplete, and what to do about it, or ""."""
        return self._store.index.lacks_meaning

    def refresh(self, *, full: bool = False, hints: Iterable[str] = ()) -> int:
        """Finish pending saves and update the index; return how many files changed.

        Arguments as for `IndexKeeper.refresh`.
        """
        fields.validate_flag("full", full)
        checked_hints = fields.validate_entries("hints", hints, fields.validate_path)
        changed_count = self.keeper.refresh(full=full, hints=checked_hints)
        if full and self._store.serving and not self._store.repo.has_unfinished_saves:
            self._store.repo.objects.pack_loose_objects()
        return changed_count

    def free_caches(self) -> None:
        """Free memory until the next question."""
        self._store.index.release_memory()

    def rebuild(self) -> int:
        """Rebuild the index and return the number of files; the old index answers until then."""
        self.keeper.refuse_past()
        return self.keeper.update_index(rebuild=True)
