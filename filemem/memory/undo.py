"""Undo the last save of the current user by one more commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from filemem.errors import Conflict, NotFound
from filemem.files import is_listed
from filemem.index import Node
from filemem.memory.forget import get_tombstone_path, write_planned_edits
from filemem.memory.save import WriteResult, build_result
from filemem.memory.store import Store
from filemem.record import Record, format_age, parse_record, shorten_id
from filemem.repo.commit import Edit, render_message
from filemem.repo.history import IMPORTED, Commit, Touch

UNDO_WINDOW = 10 * 60_000  # milliseconds: `undo` does not undo an older save
_UNDO_TRAILER = "Undoes"  # the trailer that names the commit which is undone


def undo(store: Store) -> WriteResult:
    """Undo the last save of the current user: delete a new record, revert a changed one.

    Called again, it undoes the save before that.

    Raises:
        NotFound: There is no save to undo.
        Conflict: It is older than ten minutes, or of several records, or its files changed since,
            or as for `update`.
    """
    with store.repo.save_lock():
        touches = _find_last_save(store)
        commit = touches[0].commit
        age = format_age(store.clock() - commit.at)
        _refuse_undo(store, touches, age)
        edits = [_build_revert(store, touch) for touch in touches]
        main_edit = _find_main_edit(edits)
        record = _parse_edited_record(store, main_edit)
        if main_edit.data is None:
            edits += _build_tombstone_edits(store, record, edits)
        trailers = [("Filemem-Id", record.id), (_UNDO_TRAILER, commit.id)]
        text = render_message(f"undo: {commit.subject}", trailers)
        made = write_planned_edits(store, main_edit.path, record.type, edits, text)
    message = f"Undid {commit.id[:10]}, {age} old: {commit.subject}"
    note = ""
    if not main_edit.data:
        note = f"filemem restore {shorten_id(record.id)} brings it back"
    return build_result(store, record, made, message, note)


def _parse_edited_record(store: Store, edit: Edit) -> Record:
    """Parse a record as an edit leaves it, or if the edit removes it, as it was."""
    data = edit.data or edit.before or b""
    record = parse_record(data, edit.path).record
    if record is None:
        path = store.to_display_path(edit.path)
        raise Conflict(f"{path} cannot be read", "filemem check says why")
    return record


def _find_main_edit(edits: Sequence[Edit]) -> Edit:
    """Find the edit of the record, else the first one."""
    for edit in edits:
        if is_listed(edit.path):
            return edit
    return edits[0]


def _build_tombstone_edits(store: Store, record: Record, edits: Iterable[Edit]) -> list[Edit]:
    """Build the edit that adds a tombstone as `delete` does; none if there is a tombstone."""
    tombstone = get_tombstone_path(record.id)
    edited_paths = [edit.path for edit in edits]
    if tombstone in edited_paths or store.files.exists(tombstone):
        return []
    return [Edit(tombstone, b"", None)]


def _refuse_undo(store: Store, touches: Sequence[Touch], age: str) -> None:
    """Raise Conflict for an import, several records, an old save, or a later private save."""
    commit = touches[0].commit
    hint = f"git revert {commit.id[:10]} undoes it"
    if _is_import(commit):
        raise Conflict(f"the last save is an import: {commit.subject}", hint)
    paths = [store.files.to_store_path(touch.path) for touch in touches]
    record_paths = [path for path in paths if is_listed(path)]
    if len(record_paths) > 1:
        raise Conflict(f"{commit.id[:10]} holds several records: {commit.subject}", hint)
    if store.clock() - commit.at > UNDO_WINDOW:
        message = f"nothing was undone: the last save that is left is {age} old: {commit.subject}"
        raise Conflict(message, hint)
    newest = _find_later_private(store, commit.at)
    if newest is not None:
        message = f"the last save is private and has no commit to undo: {newest.label}"
        raise Conflict(message, f"filemem forget {shorten_id(newest.id)}; or {hint}")


def _find_later_private(store: Store, time: int) -> Node | None:
    """Find the newest private record that was saved later; None if there is none."""
    private_paths = store.index.read_manifest(("private",))
    nodes = store.index.read_nodes_by_field("path", private_paths)
    # Commits have whole seconds.
    later_nodes = [node for node in nodes if node.created // 1000 > time // 1000]
    return max(later_nodes, key=attrgetter("created"), default=None)


def _is_import(commit: Commit) -> bool:
    return IMPORTED in dict(commit.trailers)


def _build_revert(store: Store, touch: Touch) -> Edit:
    """Build the edit that reverts a change to a file.

    Raises:
        Conflict: The file was changed since.
    """
    path = store.files.to_store_path(touch.path)
    if touch.kind == "R" or _get_blob(store, touch.path) != touch.new_blob:
        shown_path = store.to_display_path(path)
        raise Conflict(
            f"{shown_path} was changed after the last save: {touch.commit.subject}",
            f"git show {touch.commit.id[:10]} shows what that did",
        )
    before = None
    if touch.new_blob and store.files.exists(path):
        before = store.files.read(path)
    data = None
    if touch.old_blob:
        data = store.repo.read_blob(touch.old_blob)
    return Edit(path, data, before)


def _get_blob(store: Store, path: str) -> str:
    """Return the blob of a file in HEAD, or ""."""
    item = store.repo.find_item(path)
    return item.oid if item else ""


def _find_last_save(store: Store) -> list[Touch]:
    """Find the changes of the last save that is not undone.

    Raises:
        NotFound: There is none.
    """
    author = store.repo.require_identity()[0]
    touches = store.history.read_saves(author[0], store.tip_id)
    undone_ids = _find_undone(touches)
    for commit, group in groupby(touches, attrgetter("commit")):
        save_touches = list(group)
        if commit.id in undone_ids:
            continue
        if _is_import(commit) and _is_reverted(store, save_touches):
            continue
        return save_touches
    raise NotFound(
        "nothing to undo: no save of yours is on this branch", "filemem forget ID removes a record"
    )


def _is_reverted(store: Store, touches: Iterable[Touch]) -> bool:
    """Return whether HEAD has none of the files as a save left them."""
    for touch in touches:
        item = store.repo.find_item(touch.path)
        if item and item.oid == touch.new_blob:
            return False
    return True


def _find_undone(touches: Iterable[Touch]) -> set[str]:
    """Find the commits that undo another, and those that they undo."""
    undone_ids: set[str] = set()
    for commit in {touch.commit for touch in touches}:
        trailers = dict(commit.trailers)
        if _UNDO_TRAILER in trailers:
            undone_ids.add(commit.id)
            undone_ids.add(trailers[_UNDO_TRAILER])
    return undone_ids
