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
from filemem.changes import Change, Entry, compute_blob_id
from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.files import is_listed
from filemem.index import IndexDamaged, build_document
from filemem.memory.store import FORGOTTEN, TOP, Progress, Store, compute_tombstone
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    from filemem.repo.commit import SaveResult

MIN_SCAN_INTERVAL = 2 * 10**9  # nanoseconds between two looks at every file, at least
SCAN_COST_FACTOR = 50  # a look at every file costs at most one part in so many of one core
# Seconds that a question, and a save, waits until the index has heard of a checkout.
READ_TIMEOUT = 1.0
WRITE_TIMEOUT = 10.0
# Records that the caches of the index do not hold, from which on they are moved forward: each
# costs a question a little, and moving costs as much as some hundred of them.
SERVING_FOLD_THRESHOLD = 16
FOLD_THRESHOLD = 64
_Answer = TypeVar("_Answer")


def update_index(
    store: Store,
    *,
    full: bool = False,
    hints: Iterable[str] = (),
    rebuild: bool = False,
    with_vectors: bool = True,
    progress: Progress | None = None,
) -> int:
    """Update the index from the files; return how many changed.

    `full` looks at every file, not only at folders whose time changed and at `hints`, absolute
    paths from a watcher. `anew` rebuilds the index; the old one answers until the switch.
    `meaning`: whether to make vectors, which takes the model.
    """
    index = store.index
    folders = {} if rebuild else index.folder_times
    tombstone_state = _read_tombstone_state(store)
    notes: dict[str, Any] = {"head": store.repo.read_head() or "", "forgotten": tombstone_state}
    tombstones_changed = not rebuild and index.notes.forgotten != tombstone_state
    due_folders = _find_due_folders(
        store, folders, hints, full=full, tombstones_changed=tombstones_changed
    )
    if due_folders == set():
        _complete_vectors(store, with_vectors=with_vectors)
        return 0
    store.history.update_to_head()  # so that no question waits for it
    before = {} if rebuild else index.read_manifest(due_folders or ("",))
    start_time = time.time_ns()
    after, times, _ = store.scan(before, due_folders)
    if due_folders is None:
        notes |= {"looked": start_time, "cost": time.time_ns() - start_time}
    tombstones = store.tombstones
    is_hidden = partial(_is_forgotten, tombstones)
    found_changes = list(changes.iter_changes(before, after))
    if tombstones_changed:
        found_changes += changes.list_visibility_changes(
            index.read_ids(), after, found_changes, is_hidden
        )
    index.apply_changes(
        found_changes if folders else _sort_newest_first(found_changes),
        partial(store.read_document, forgotten=tombstones),
        progress,
        before=before,
        scan_manifest=after,
        is_hidden=is_hidden,
        with_vectors=with_vectors,
        rebuild=rebuild,
    )
    index.write_notes(folder_times={**_filter_unvisited(folders, due_folders), **times}, **notes)
    return len(found_changes)


def _filter_unvisited(
    folders: Mapping[str, int], visited_folders: Collection[str] | None
) -> dict[str, int]:
    """The times of the folders that were not looked at."""
    return {
        folder: at
        for folder, at in folders.items()
        if visited_folders and folder not in visited_folders
    }


def _complete_vectors(store: Store, *, with_vectors: bool) -> None:
    """Make the vectors that a brief left out: it loads no model."""
    if with_vectors:
        store.index.add_missing_vectors()


def _is_forgotten(tombstones: Collection[str], name: str) -> bool:
    """True if one of these tombstones is that of a record."""
    return bool(tombstones) and compute_tombstone(name) in tombstones


def _find_due_folders(
    store: Store,
    folders: Mapping[str, int],
    hints: Iterable[str],
    *,
    full: bool,
    tombstones_changed: bool,
) -> set[str] | None:
    """The folders to look at; None for all of them.

    `turned`: what is forgotten has changed.
    """
    if full or tombstones_changed or not folders or not note_known_head(store):
        return None
    return store.files.list_changed_folders(folders) | _find_hinted_folders(store, hints)


def _find_hinted_folders(store: Store, hints: Iterable[str]) -> set[str]:
    """The folders of the store that hints lead to."""
    paths = (posixpath.relpath(hint, store.folder) for hint in hints)
    return {posixpath.dirname(path) for path in paths if not path.startswith("..")}


def _sort_newest_first(found_changes: Iterable[Change]) -> list[Change]:
    """In the order of a first build, which is asked as it grows: by the dates in names."""

    def compute_rank(change: Change) -> tuple[str, str]:
        date = max(re.findall(r"\d{8}(?=-)", change.path), default="0")
        return f"{99999999 - int(date):08}", change.path

    return sorted(found_changes, key=compute_rank)


def _read_tombstone_state(store: Store) -> str:
    """The state of the folder of tombstones; "" if there is none."""
    try:
        folder = (store.folder / FORGOTTEN).stat()
    except OSError:
        return ""
    return f"{folder.st_ino}-{folder.st_mtime_ns}"


def note_known_head(store: Store) -> bool:
    """True if the index knows the records of HEAD; notes a HEAD that moved past none of them."""
    head = store.repo.read_head() or ""
    if not is_commit_known(store, head):
        return False
    if store.index.notes.head != head:
        with suppress(BrokenStore):
            store.index.write_notes(head=head)
    return True


def is_commit_known(store: Store, commit: str) -> bool:
    """True if the index knows the records of a commit; "" means before the first commit."""
    noted_head = store.index.notes.head
    if not (noted_head and commit):
        return noted_head == commit
    return noted_head == commit or _read_records_tree(store, noted_head) == _read_records_tree(
        store, commit
    )


def _read_records_tree(store: Store, commit: str) -> str | None:
    """The tree of the store in a commit; None if it has none."""
    if store.files.store == TOP:
        return store.repo.objects.read_root(commit) or None
    item = store.repo.find_item(store.files.store, commit)
    return item.oid if item else None


def index_record(store: Store, path: str, data: bytes | None, made: SaveResult) -> str:
    """Make a written or removed (None) record visible to searches at once.

    Returns what went wrong, or "".
    """
    if not is_listed(path):
        return ""
    try:
        record = store.parse(data, path).record if data is not None else None
        if record and data is not None:
            doc = build_document(record, compute_blob_id(data, store.repo.hash_name))
            store.index.add_document(doc, Entry(doc.blob, *(store.files.read_state(path) or ())))
        else:
            store.index.remove_document(path)
        if made.commit and is_commit_known(store, made.parent):
            store.index.write_notes(head=made.commit)  # our own commit is not a move of HEAD
            if made.entry:
                store.history.append_save(
                    made.entry, made.parent, store.repo.require_identity()[0][0]
                )
    except BrokenStore as error:
        return f"saved, but not searchable yet: {error.one_line}"
    return ""


def is_full_scan_due(store: Store) -> bool:
    """Whether a full look is due: a file written in place does not change its folder's time."""
    notes = store.index.notes
    return (
        not 0
        <= time.time_ns() - notes.looked
        <= max(MIN_SCAN_INTERVAL, SCAN_COST_FACTOR * notes.cost)
    )


class IndexKeeper:
    """Keeps the index of an open store up to date, and answers from it."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self.store = store
        self.lock = threading.RLock()  # one call at a time
        self.scan_lock = threading.RLock()  # one look at the files at a time
        self.should_scan = False  # whether to look before each question, where no watcher does
        self.trouble: str | None = None  # why the last look failed, if it did
        self.last_call_time = 0.0  # when it ended, as `time.monotonic` has it; 0: there was none
        self.listeners: list[Callable[[str], None]] = []  # called by `announce`
        self._progress = progress
        self._announced_state = ""  # what was announced last
        self._is_behind = False  # the index had not heard of HEAD at the last question

    @property
    def degraded_reason(self) -> str:
        """Why answers may be incomplete, or ""."""
        unbuilt = ""
        if not (self.store.index.is_readable or self.store.is_absent):
            unbuilt = (
                "the search index is not built yet; "
                "until then only a part of the records is searched"
            )
        behind = (
            "HEAD was moved a moment ago, and the index is catching up" if self._is_behind else ""
        )
        reasons = (
            self.store.config.read_error,
            self.trouble,
            unbuilt,
            behind,
            self.store.find_obstacle(),
        )
        return "; ".join(filter(None, reasons))

    @property
    def state(self) -> str:
        """A token that changes whenever answers may: after a save, an edit, a checkout.

        It takes no lock.
        """
        parts = f"{self.store.index.stamp} {self.store.repo.read_head()} {self.store.branch}"
        return f"{zlib.crc32(parts.encode()):08x}"

    def announce(self) -> None:
        """Call the listeners with the state if it has changed since the last call.

        A watcher calls this often.
        """
        state = self.state if self.listeners else self._announced_state
        if state != self._announced_state:
            self._announced_state = state
            for listener in tuple(self.listeners):
                listener(state)

    def finish_saves(self) -> None:
        """Finish the saves in the journal."""
        if self.store.repo.has_unfinished_saves:
            from filemem.repo import commit  # noqa: PLC0415 - 5 ms; seldom needed

            for made in commit.finish_saves(self.store.repo, self.store.files):
                self.trouble = made.trouble or self.trouble

    def refresh(self, *, full: bool, hints: Collection[str]) -> int:
        """Finish pending saves, then look: at every file, or where hints and folder times point."""
        self.refuse_past()
        with self.lock:  # what a save under way has written is found once that save is done
            pass
        with self.scan_lock:
            self.finish_saves()
            is_damaged = full and bool(self.store.index.check_database())
            changed_count = self.update_index(full=full, hints=hints, rebuild=is_damaged)
            if full:
                self.store.index.update_caches(check_all=True, with_usearch=self.store.serving)
            return changed_count

    def update_index(
        self, *, hints: Iterable[str] = (), rebuild: bool = False, full: bool = False
    ) -> int:
        """Look at the files; rebuild a damaged index. Return how many files changed."""
        with self.scan_lock:
            update = partial(update_index, self.store, progress=self._progress)
            try:
                changed_count = self._update_and_fold(update, rebuild, hints=hints, full=full)
            except IndexDamaged:
                changed_count = self._update_and_fold(update, rebuild=True)
            self.store.repo.share_folders()
            return changed_count

    def _update_and_fold(self, update: Callable[..., int], rebuild: bool, **options: Any) -> int:
        """Look, and move the caches. Raises IndexDamaged, even of what no look reads."""
        changed_count = update(rebuild=rebuild, **options)
        if rebuild:  # what was saved while it was built
            update(full=True)
        self._fold_caches(
            1 if rebuild else SERVING_FOLD_THRESHOLD if self.store.serving else FOLD_THRESHOLD
        )
        return changed_count

    def _fold_caches(self, threshold: int) -> None:
        """Move the caches of the index forward if they are behind by so many records."""
        index = self.store.index
        if index.uncached_count >= threshold:
            index.update_caches(with_usearch=self.store.serving)

    def ensure_current(self, timeout: float, *, should_scan: bool = False) -> bool:
        """Look at the files if that is due or HEAD was moved; return if the index is up to date.

        Waits `patience` seconds for a look under way, here or in another process. `looks`: there is
        no watcher.
        """
        deadline = time.monotonic() + timeout
        try:
            while self._needs_update(should_scan or self.should_scan):
                if self.scan_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                    try:
                        self.update_index(
                            full=(should_scan or self.should_scan) and is_full_scan_due(self.store)
                        )
                    finally:
                        self.scan_lock.release()
                    self.trouble = None
                    return True
                if time.monotonic() > deadline:
                    return False
        except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
            self.trouble = error.one_line
            return False
        return True

    def _needs_update(self, should_scan: bool) -> bool:
        """True if a question needs a look first: HEAD was moved, or no watcher looks."""
        index = self.store.index
        if self.store.tip != "HEAD":  # a past does not move
            return False
        if not (should_scan or index.notes.looked):  # a watcher builds
            return False
        if not note_known_head(self.store) or index.has_missing_vectors:
            return True
        return should_scan and self._has_changed()

    def _has_changed(self) -> bool:
        """True if files have changed since the last look, or may have."""
        index = self.store.index
        folders = index.folder_times
        if (
            index.notes.looked and not folders and self.store.is_absent
        ):  # there is nothing to look at
            return False
        if not folders or index.notes.forgotten != _read_tombstone_state(self.store):
            return True
        return bool(self.store.files.list_changed_folders(folders)) or is_full_scan_due(self.store)

    def read(self, question: Callable[[Store], _Answer]) -> _Answer:
        """Answer a question that needs a store, after a look if one is due."""
        self.store.refuse_missing()
        self._is_behind = not self.ensure_current(READ_TIMEOUT) and not self.trouble

        def run_question(store: Store) -> _Answer:
            with store.index.snapshot():
                return question(store)

        return self.ask(run_question)

    def write(self, change: Callable[[Store], _Answer]) -> _Answer:
        """Change something, after a look if one is due."""
        self.refuse_past()
        self.store.config.refuse_unread()
        self.ensure_current(WRITE_TIMEOUT)
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
            hints = filter(None, (self.degraded_reason, error.hint))
            raise NotFound(error.message, "; ".join(hints)) from None
        except IndexDamaged:
            store = self.store
            try:
                self.update_index(rebuild=True)
            except (BrokenStore, Locked) as error:
                self.trouble = error.one_line
                store = self.store.from_files()
            with self.lock:
                return question(store)
        finally:
            self.last_call_time = time.monotonic()


class ReaderKeeper:
    """A keeper that answers one reader: every question is put to the store as this one sees it."""

    def __init__(self, keeper: IndexKeeper, reader: Reader) -> None:
        self._keeper = keeper
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keeper, name)

    def read(self, question: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.read(lambda store: question(store.copy_for_reader(self._reader)))

    def ask(self, question: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.ask(lambda store: question(store.copy_for_reader(self._reader)))

    def write(self, change: Callable[[Store], _Answer]) -> _Answer:
        return self._keeper.write(lambda store: change(store.copy_for_reader(self._reader)))
