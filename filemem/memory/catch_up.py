"""Update the index from the files: scan, compare, apply, whatever program changed them.

Only its file or a tombstone can make a document stale. If another program moved HEAD to other
records, every file may have changed, and a full scan follows. `IndexKeeper` decides when to scan
and answers questions: one call runs at a time, but none waits for an index that is being built.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from filemem import changes
from filemem.changes import Change, Entry, compute_blob_id
from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.files import is_listed
from filemem.index import Doc, IndexDamaged, build_document
from filemem.memory.store import FORGOTTEN, TOP, Progress, Store, compute_tombstone

if TYPE_CHECKING:
    from filemem.repo.commit import SaveResult

MIN_SCAN_INTERVAL = 2 * 10**9  # nanoseconds between two full scans
SCAN_COST_FACTOR = 50  # full scans take at most one part in so many of the time of one core
# Seconds that a question, or a save, waits for the index after a checkout.
READ_TIMEOUT = 1.0
WRITE_TIMEOUT = 10.0
# From this number of records that the caches of the index lack, they are updated: each record
# costs a question a little, and an update costs as much as some hundred of them.
SERVING_FOLD_THRESHOLD = 16
FOLD_THRESHOLD = 64
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")


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

    Args:
        full: Scan every file, not only the folders whose time changed or that are hinted at.
        hints: Absolute paths from a watcher.
        rebuild: Build a new index; the old one answers until the switch.
        with_vectors: Whether to make vectors, which takes the model.
    """
    index = store.index
    folders = {} if rebuild else index.folder_times
    tombstone_state = _read_tombstone_state(store)
    notes: dict[str, Any] = {"head": _read_head(store), "forgotten": tombstone_state}
    tombstones_changed = not rebuild and index.notes.forgotten != tombstone_state
    due_folders = _find_due_folders(store, folders, hints, full=full or tombstones_changed)
    if due_folders == set():
        _complete_vectors(store, with_vectors=with_vectors)
        return 0
    store.history.update_to_head()  # so that no question waits for it
    before = {} if rebuild else index.read_manifest(due_folders or ("",))
    start_time = time.time_ns()
    after, times, _ = store.scan(before, due_folders)
    if due_folders is None:
        notes["looked"] = start_time
        notes["cost"] = time.time_ns() - start_time
    tombstones = store.tombstones
    is_hidden = _build_hidden_check(tombstones)
    found_changes = list(changes.iter_changes(before, after))
    if tombstones_changed:
        found_changes += changes.list_visibility_changes(
            index.read_ids(), after, found_changes, is_hidden
        )
    if not folders:
        _sort_newest_first(found_changes)
    index.apply_changes(
        found_changes,
        _build_loader(store, tombstones),
        progress,
        before=before,
        scan_manifest=after,
        is_hidden=is_hidden,
        with_vectors=with_vectors,
        rebuild=rebuild,
    )
    folder_times = _filter_unvisited(folders, due_folders) | times
    index.write_notes(folder_times=folder_times, **notes)
    return len(found_changes)


def _build_hidden_check(tombstones: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tells whether the record with an id was forgotten."""

    def is_hidden(record_id: str) -> bool:
        return bool(tombstones) and compute_tombstone(record_id) in tombstones

    return is_hidden


def _build_loader(store: Store, tombstones: frozenset[str]) -> Callable[[str], Doc | None]:
    """Return a function that reads the document of a file."""

    def read_document(path: str) -> Doc | None:
        return store.read_document(path, forgotten=tombstones)

    return read_document


def _filter_unvisited(
    folders: Mapping[str, int], visited_folders: Collection[str] | None
) -> dict[str, int]:
    """Return the times of the folders that were not scanned; None means that all were."""
    if visited_folders is None:
        return {}
    return {folder: at for folder, at in folders.items() if folder not in visited_folders}


def _complete_vectors(store: Store, *, with_vectors: bool) -> None:
    """Make the vectors that a brief, which loads no model, left out."""
    if with_vectors:
        store.index.add_missing_vectors()


def _find_due_folders(
    store: Store, folders: Mapping[str, int], hints: Iterable[str], *, full: bool
) -> set[str] | None:
    """Find the folders that changed or are hinted at; None if all must be scanned."""
    if full or not folders or not note_known_head(store):
        return None
    return store.files.list_changed_folders(folders) | _find_hinted_folders(store, hints)


def _find_hinted_folders(store: Store, hints: Iterable[str]) -> set[str]:
    """Find the folders of the store that have the hinted files."""
    folders = set()
    for hint in hints:
        path = posixpath.relpath(hint, store.folder)
        if not path.startswith(".."):
            folders.add(posixpath.dirname(path))
    return folders


def _sort_newest_first(found_changes: list[Change]) -> None:
    """Sort the changes of a first build, which answers as it grows: by the dates in names."""

    def compute_rank(change: Change) -> tuple[int, str]:
        dates = re.findall(r"\d{8}(?=-)", change.path)
        newest = max(dates, default="0")
        return -int(newest), change.path

    found_changes.sort(key=compute_rank)


def _read_tombstone_state(store: Store) -> str:
    """Return a token for the state of the folder of tombstones; "" if there is none."""
    try:
        folder = (store.folder / FORGOTTEN).stat()
    except OSError:
        return ""
    return f"{folder.st_ino}-{folder.st_mtime_ns}"


def _read_head(store: Store) -> str:
    """Return the commit of HEAD; "" before the first commit."""
    return store.repo.read_head() or ""


def note_known_head(store: Store) -> bool:
    """Return whether the index has the records of HEAD; if so, note HEAD in the index."""
    head = _read_head(store)
    if not is_commit_known(store, head):
        return False
    if store.index.notes.head != head:
        with suppress(BrokenStore):
            store.index.write_notes(head=head)
    return True


def is_commit_known(store: Store, commit: str) -> bool:
    """Return whether the index has the records of a commit; "" is before the first commit."""
    noted_head = store.index.notes.head
    if noted_head == commit:
        return True
    if not noted_head or not commit:
        return False
    return _read_records_tree(store, noted_head) == _read_records_tree(store, commit)


def _read_records_tree(store: Store, commit: str) -> str | None:
    """Return the tree of the store in a commit; None if the commit has no store."""
    if store.files.store == TOP:
        return store.repo.objects.read_root(commit) or None
    item = store.repo.find_item(store.files.store, commit)
    return item.oid if item else None


def index_record(store: Store, path: str, data: bytes | None, made: SaveResult) -> str:
    """Update the index at once for a written or removed record; return an error message or "".

    `data` is None if the record was removed.
    """
    if not is_listed(path):
        return ""
    try:
        _index_file(store, path, data)
        if made.commit and is_commit_known(store, made.parent):
            # Otherwise this commit would look like a checkout.
            store.index.write_notes(head=made.commit)
            if made.entry:
                author = store.repo.require_identity()[0]
                store.history.append_save(made.entry, made.parent, author[0])
    except BrokenStore as error:
        return f"saved, but not searchable yet: {error.one_line}"
    return ""


def _index_file(store: Store, path: str, data: bytes | None) -> None:
    record = None
    if data is not None:
        record = store.parse(data, path).record
    if record is None or data is None:
        store.index.remove_document(path)
        return
    document = build_document(record, compute_blob_id(data, store.repo.hash_name))
    file_state = store.files.read_state(path) or ()
    store.index.add_document(document, Entry(document.blob, *file_state))


def is_full_scan_due(store: Store) -> bool:
    """Return whether a full scan is due.

    Only that finds a file written in place, which does not change the time of its folder.
    """
    notes = store.index.notes
    age = time.time_ns() - notes.looked
    interval = max(MIN_SCAN_INTERVAL, SCAN_COST_FACTOR * notes.cost)
    return age < 0 or age > interval


class IndexKeeper:
    """Keeps the index of an open store up to date, and answers from it."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self.store = store
        self.lock = threading.RLock()  # one call at a time
        self.scan_lock = threading.RLock()  # one scan at a time
        self.should_scan = False  # whether to scan before each question, as there is no watcher
        self.trouble: str | None = None  # why the last scan failed; None if it did not
        self.last_call_time = 0.0  # end of the last call by `time.monotonic`; 0 if there was none
        self.listeners: list[Callable[[str], None]] = []  # called by `announce`
        self._progress = progress
        self._announced_state = ""
        self._is_behind = False  # whether the index was older than HEAD at the last question

    @property
    def degraded_reason(self) -> str:
        """Why answers may be incomplete, or ""."""
        reasons = [self.store.config.read_error, self.trouble]
        if not self.store.index.is_readable and not self.store.is_absent:
            reasons.append(
                "the search index is not built yet; "
                "until then only a part of the records is searched"
            )
        if self._is_behind:
            reasons.append("HEAD was moved a moment ago, and the index is catching up")
        reasons.append(self.store.find_obstacle())
        return "; ".join(reason for reason in reasons if reason)

    @property
    def state(self) -> str:
        """A token that changes whenever answers may: after a save, an edit, a checkout.

        It takes no lock.
        """
        stamp = self.store.index.stamp
        head = self.store.repo.read_head()
        checksum = zlib.crc32(f"{stamp} {head} {self.store.branch}".encode())
        return f"{checksum:08x}"

    def announce(self) -> None:
        """Call the listeners with the state if it has changed since the last call.

        A watcher calls this often, so the state is computed only if there are listeners.
        """
        if not self.listeners:
            return
        state = self.state
        if state == self._announced_state:
            return
        self._announced_state = state
        for listener in tuple(self.listeners):
            listener(state)

    def finish_saves(self) -> None:
        """Finish the saves in the journal."""
        if not self.store.repo.has_unfinished_saves:
            return
        from filemem.repo import commit  # noqa: PLC0415 - 5 ms; seldom needed

        for result in commit.finish_saves(self.store.repo, self.store.files):
            self.trouble = result.trouble or self.trouble

    def refresh(self, *, full: bool, hints: Collection[str]) -> int:
        """Finish pending saves, then scan every file, or changed and hinted folders.

        Return how many files changed.
        """
        self.refuse_past()
        with self.lock:  # wait for a save under way, so that the scan finds its files
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
        """Update the index from the files; rebuild a damaged one. Return how many changed."""
        with self.scan_lock:
            try:
                changed_count = self._update_and_fold(hints=hints, rebuild=rebuild, full=full)
            except IndexDamaged:
                changed_count = self._update_and_fold(rebuild=True)
            self.store.repo.share_folders()
            return changed_count

    def _update_and_fold(
        self, *, hints: Iterable[str] = (), rebuild: bool = False, full: bool = False
    ) -> int:
        """Update the index, then its caches; return how many files changed.

        Raises:
            IndexDamaged: Also if a cache is damaged, which no scan reads.
        """
        changed_count = update_index(
            self.store, full=full, hints=hints, rebuild=rebuild, progress=self._progress
        )
        if rebuild:
            # Find what was saved in the meantime.
            update_index(self.store, full=True, progress=self._progress)
            self._fold_caches(1)
        elif self.store.serving:
            self._fold_caches(SERVING_FOLD_THRESHOLD)
        else:
            self._fold_caches(FOLD_THRESHOLD)
        return changed_count

    def _fold_caches(self, threshold: int) -> None:
        """Update the caches of the index if they lack at least this number of records."""
        index = self.store.index
        if index.uncached_count >= threshold:
            index.update_caches(with_usearch=self.store.serving)

    def ensure_current(self, timeout: float, *, should_scan: bool = False) -> bool:
        """Update the index if that is due or HEAD was moved; return whether it is up to date.

        Args:
            timeout: Seconds to wait for a scan under way, here or in another process.
            should_scan: Whether to scan because there is no watcher.
        """
        should_scan = should_scan or self.should_scan
        deadline = time.monotonic() + timeout
        try:
            while self._needs_update(should_scan):
                if self._try_update(deadline, should_scan):
                    return True
                if time.monotonic() > deadline:
                    return False
        except (BrokenStore, Locked) as error:  # the index still answers as it is
            self.trouble = error.one_line
            return False
        return True

    def _try_update(self, deadline: float, should_scan: bool) -> bool:
        """Update the index; return False if another scan runs until the deadline."""
        timeout = max(0.0, deadline - time.monotonic())
        if not self.scan_lock.acquire(timeout=timeout):
            return False
        try:
            self.update_index(full=should_scan and is_full_scan_due(self.store))
        finally:
            self.scan_lock.release()
        self.trouble = None
        return True

    def _needs_update(self, should_scan: bool) -> bool:
        """Return whether the index must be updated before a question is answered."""
        index = self.store.index
        if self.store.tip != "HEAD":  # a past state does not change
            return False
        if not should_scan and not index.notes.looked:  # a watcher builds the index
            return False
        if not note_known_head(self.store) or index.has_missing_vectors:
            return True
        return should_scan and self._has_changed()

    def _has_changed(self) -> bool:
        """Return whether files have changed since the last scan, or may have."""
        index = self.store.index
        folders = index.folder_times
        if not folders:
            is_empty = index.notes.looked and self.store.is_absent
            return not is_empty
        if index.notes.forgotten != _read_tombstone_state(self.store):
            return True
        if self.store.files.list_changed_folders(folders):
            return True
        return is_full_scan_due(self.store)

    def read(
        self,
        question: Callable[Concatenate[Store, _Arguments], _Answer],
        /,
        *args: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Answer:
        """Answer a question that needs a store, after an update of the index if one is due.

        `question` is called with the store and the arguments.
        """
        self.store.refuse_missing()
        is_current = self.ensure_current(READ_TIMEOUT)
        self._is_behind = not is_current and not self.trouble

        def run_question(store: Store) -> _Answer:
            with store.index.snapshot():
                return question(store, *args, **options)

        return self.ask(run_question)

    def write(
        self,
        change: Callable[Concatenate[Store, _Arguments], _Answer],
        /,
        *args: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Answer:
        """Change something, after an update of the index if one is due."""
        self.refuse_past()
        self.store.config.refuse_unread()
        self.ensure_current(WRITE_TIMEOUT)
        return self.ask(change, *args, **options)

    def refuse_past(self) -> None:
        """Raise BadInput if the store shows a past state."""
        if self.store.tip != "HEAD":
            message = "a past state of the memory cannot be changed"
            raise BadInput(message, "leave `at` out", field="at")

    def ask(
        self,
        question: Callable[Concatenate[Store, _Arguments], _Answer],
        /,
        *args: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Answer:
        """Answer a question; if the index is damaged, rebuild it first, or read the files."""
        try:
            with self.lock:
                return question(self.store, *args, **options)
        except NotFound as error:
            hints = [hint for hint in (self.degraded_reason, error.hint) if hint]
            raise NotFound(error.message, "; ".join(hints)) from None
        except IndexDamaged:
            store = self._rebuild_index()
            with self.lock:
                return question(store, *args, **options)
        finally:
            self.last_call_time = time.monotonic()

    def _rebuild_index(self) -> Store:
        """Rebuild the index and return the store; if that fails, return one read from the files."""
        try:
            self.update_index(rebuild=True)
        except (BrokenStore, Locked) as error:
            self.trouble = error.one_line
            return self.store.from_files()
        return self.store
