"""Forget, restore, undo: a record is removed with a tombstone, the last save is reverted.

Each is one commit. A record with a tombstone stays hidden even if its file comes back; `restore`
removes the tombstone. History is never rewritten here: the command that does it is printed for the
user.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from filemem.chain import Node
from filemem.errors import Conflict, NotFound
from filemem.files import is_listed, is_private
from filemem.memory import fields
from filemem.memory.catch_up import index_record
from filemem.memory.save import (
    WriteResult,
    build_result,
    format_commit_message,
    refuse_secrets,
    write_edits,
)
from filemem.memory.snapshot import read_commit
from filemem.memory.store import (
    FORGOTTEN,
    MIN_SHORT_ID_LENGTH,
    Store,
    compute_tombstone,
    format_node,
)
from filemem.record import (
    Record,
    build_topic_key,
    derive_id,
    format_age,
    list_matching_ids,
    parse_record,
    shorten_id,
)
from filemem.repo.commit import Edit, SaveResult, render_message
from filemem.repo.history import IMPORTED, Touch

UNDO_WINDOW = 10 * 60_000  # milliseconds: what was saved longer ago is not what a bare `undo` means
_UNDO_TRAILER = "Undoes"  # the trailer that names the commit which is undone
PURGE_WARNING = (
    "First change the secret: whoever has a copy can read it. "
    "Then run this in a fresh clone, and push with --force.\n"
    "It rewrites all commits that have the file. "
    "It cannot reach clones and forks of others, pull requests, what the host\n"
    "keeps, or commit messages that quote the title: tell the others to clone anew."
)


def delete(
    store: Store, reference: str, reason: str, agent: str = "", *, allow_secret: bool = False
) -> WriteResult:
    """Remove a record by a commit that leaves a tombstone; only `restore` brings it back.

    Raises NotFound; Conflict: the file has edits that are not committed, or the repository is busy;
    BadInput: reason or agent look like a secret, which would stay in the commit message.
    """
    reason, agent = _validate_attribution(store, agent, allow_secret, reason=reason)
    node, note = store.resolve_name(reference)
    with store.repo.save_lock():
        removal = _build_removal(store, node)
        record = removal.record
        subject = f"delete {shorten_id(record.id)}{_format_in_brackets(reason)}"
        text = format_commit_message(record, subject, agent)
        made = write_edits(store, node.path, node.type, lambda: (removal.edits, text))
    if removal.is_committed:
        message = f"Deleted {format_node(node)}; Git history keeps it"
        undo = f"restore {shorten_id(node.id)}"
    else:
        message = f"Deleted {format_node(node)}; it was never committed, so it cannot be restored"
        undo = ""
    return build_result(store, record, made, message, note, undo=undo)


def _format_in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def delete_several(store: Store, ids: Iterable[str], reason: str, agent: str = "") -> int:
    """Remove some records by one commit, then those that are not committed; return how many.

    Errors as for `delete`; if one record cannot be removed, none is.
    """
    reason, agent = _validate_attribution(store, agent, False, reason=reason)
    with store.repo.save_lock():
        nodes = list(map(store.require_node, dict.fromkeys(ids)))
        by_policy = defaultdict[str, list[_Removal]](list)
        for node in nodes:
            by_policy[store.get_leave_reason(node.path, node.type)].append(
                _build_removal(store, node)
            )
        for _, removals in sorted(by_policy.items()):  # "", those that are committed, is first
            _remove_records(store, removals, reason, agent)
    return len(nodes)


def _remove_records(store: Store, removals: Sequence[_Removal], reason: str, agent: str) -> None:
    """Remove records that are all committed, or all not, by one commit."""
    edits = tuple(edit for removal in removals for edit in removal.edits)
    trailers = [("Filemem-Id", removal.record.id) for removal in removals]
    trailers += [("Agent", agent)] if agent else []
    count = f"{len(removals)} record{'s' * (len(removals) > 1)}"
    text = render_message(f"delete {count}{_format_in_brackets(reason)}", trailers)
    first = removals[0].record
    write_edits(store, first.path, first.type, lambda: (edits, text))


class _Removal(NamedTuple):
    """What removes one record: its file goes, a tombstone comes."""

    record: Record
    is_committed: bool  # HEAD has it
    edits: tuple[Edit, ...]


def _build_removal(store: Store, node: Node) -> _Removal:
    """What removes a record. Raises Conflict: its file has edits that are not committed."""
    record = store.read(node.path).record
    record = record or Record(node.id, node.type, path=node.path, title=node.title)
    record = record._replace(id=node.id)
    is_committed = store.repo.find_item(store.files.to_work_tree_path(node.path)) is not None
    is_private_file = is_private(node.path)
    if store.get_leave_reason(node.path, node.type) and not is_private_file:
        _refuse_uncommitted(store, node.path, is_committed=is_committed)
    edits = [Edit(node.path, None, store.files.read(node.path))]
    mark = f"{'private/' * is_private_file}{FORGOTTEN}/{compute_tombstone(node.id)}"
    # An imported private one leaves a tombstone too, so that the next import leaves it away.
    needs_tombstone = bool(record.source) if is_private_file else is_committed
    if needs_tombstone and not store.files.exists(mark):
        edits.append(Edit(mark, b"", None))
    return _Removal(record, is_committed, tuple(edits))


def _refuse_uncommitted(store: Store, path: str, *, is_committed: bool) -> None:
    """Refuse to remove a file that Git could not bring back as it is."""
    if not is_committed:
        message = f"{store.to_display_path(path)} was never committed, so it could not be restored"
        raise Conflict(message, "commit it first, or delete the file yourself")
    if store.is_edited(path):
        message = f"{store.to_display_path(path)} has edits that are not committed"
        raise Conflict(message, "commit or undo them first")


def restore(
    store: Store, reference: str, agent: str = "", *, allow_secret: bool = False
) -> WriteResult:
    """Restore a forgotten or deleted record as it last was, and remove its tombstone.

    Raises NotFound: no deleted record has that name, or Git no longer has it; Conflict: another
    file is in its place, or the repository is busy; BadInput as for `delete`.
    """
    _, agent = _validate_attribution(store, agent, allow_secret)
    checked_name = fields.validate_line("id", reference).strip()
    with store.repo.save_lock():
        record, data = _require_deleted(store, checked_name)
        path = record.path
        if store.index.read_nodes_by_field("id", [record.id]):
            message = f"{checked_name!r} exists: {record.title}"
            raise NotFound(message, "only a deleted record can be restored")
        present_data = _read_hidden_file(store, record)
        edits = [] if present_data is not None else [Edit(path, data, None)]
        edits += _remove_tombstone(store, f"{FORGOTTEN}/{compute_tombstone(record.id)}")
        text = format_commit_message(record, f"restore {record.title}", agent)
        made = (
            write_edits(store, path, record.type, lambda: (tuple(edits), text))
            if edits
            else SaveResult()
        )
        if present_data is not None:
            made = made._replace(
                trouble=made.trouble or index_record(store, path, present_data, made)
            )
    return build_result(store, record, made, f"Restored {record.title} ({shorten_id(record.id)})")


def _read_hidden_file(store: Store, record: Record) -> bytes | None:
    """The bytes of a record that is only hidden; None if its file is gone.

    Raises Conflict: the file is another record.
    """
    path = record.path
    if not store.files.exists(path):
        return None
    data = store.files.read(path)
    present_record = parse_record(data, path).record
    if present_record and present_record.id != record.id:
        other = store.to_display_path(path)
        message = f"nothing was restored: there is another record at {other}"
        raise Conflict(message, "move that away (git mv), then restore again")
    return data


def _remove_tombstone(store: Store, mark: str) -> list[Edit]:
    """Remove a tombstone, or return the edit that does if Git has it."""
    if store.repo.find_item(store.files.to_work_tree_path(mark)) and store.files.exists(mark):
        return [Edit(mark, None, store.files.read(mark))]
    store.files.remove(mark)
    return []


def _validate_attribution(
    store: Store, agent: str, allow_secret: bool, *, reason: str = ""
) -> tuple[str, str]:
    """Check reason and agent: both stay in the commit message."""
    reason = fields.validate_line("reason", reason)
    agent = fields.validate_line("agent", agent) or store.config.agent
    allow_secret = fields.validate_flag("allow_secret", allow_secret)
    refuse_secrets({"reason": reason, "agent": agent, "allow_secret": allow_secret})
    return reason, agent


def build_purge_command(store: Store, record_id: str) -> str:
    """Return the command that removes a record, deleted or not, from history. Runs nothing.

    With it comes what that cannot reach. Raises NotFound: no record had that id, short id or path
    in the history of this clone.
    """
    checked_id = fields.validate_line("id", record_id).strip()
    touch = _find_last_removal(store, partial(_is_called, store.to_store_path(checked_id)))
    named_path = (
        touch.path if touch else store.files.to_work_tree_path(store.require_node(checked_id).path)
    )
    rows = store.history.read_touches([named_path]).get(named_path, ())
    paths = {named_path} | {path for row in rows for path in (row.path, row.old_path) if path}
    options = " ".join(f"--path {shlex.quote(path)}" for path in sorted(paths))
    return f"git filter-repo --invert-paths {options}\n{PURGE_WARNING}"


def _require_deleted(store: Store, name: str) -> tuple[Record, bytes]:
    """Find a deleted or hidden record by any of its names. Raises NotFound."""
    is_called = partial(_is_called, store.to_store_path(name))
    hidden_record = _find_hidden(store, is_called)
    if hidden_record:
        return hidden_record
    touch = _find_last_removal(store, is_called)
    touch = touch or _find_last_removal(
        store, partial(_is_removed_from, store, build_topic_key(name))
    )
    if touch is None:
        reason = store.repo.describe_missing_history()
        message = f"no record {name!r} was removed{_format_in_brackets(reason)}"
        raise NotFound(message, "git log --diff-filter=D --name-only lists what was")
    data = store.repo.read_blob(touch.old_blob) or b""
    record = parse_record(data, store.files.to_store_path(touch.path)).record
    if record is None or not data:
        reason = store.repo.describe_missing_history() or "its text cannot be read"
        commit = touch.commit.id[:10]
        raise NotFound(f"{name!r} was deleted in {commit}, and its text is not here: {reason}")
    return record, data


def _find_hidden(store: Store, is_called: Callable[[Record], bool]) -> tuple[Record, bytes] | None:
    """A record of HEAD that has a tombstone, or no file in the work tree."""
    head = store.repo.read_head()
    if not head:
        return None
    snapshot = read_commit(store, head)
    marks = store.tombstones
    for path, parsed in snapshot.parsed_files.items():
        record = parsed.record
        if record is None or not is_called(record):
            continue
        if compute_tombstone(record.id) in marks or not store.files.exists(
            path
        ):  # else it is shown
            return record, snapshot.data[path]
    return None


def _is_removed_from(store: Store, key: str, record: Record) -> bool:
    """Whether a record was removed from a topic, and is nowhere else now."""
    on_topic = bool(key) and record.topic_stated and build_topic_key(record.topic) == key
    return on_topic and not store.index.read_nodes_by_field("id", [record.id])


def _find_last_removal(store: Store, is_wanted: Callable[[Record], bool]) -> Touch | None:
    """The last deletion of a record that is wanted; None if there was none."""
    for touch in store.history.read_removals(store.tip):
        path = store.files.to_store_path(touch.path)
        last_record = parse_record(
            store.repo.read_blob(touch.old_blob) or b"", path
        ).record or Record(derive_id(path), "", path=path)
        if is_listed(path) and is_wanted(last_record):
            return touch
    return None


def _is_called(name: str, record: Record) -> bool:
    """Whether a record has this name, as `Store.find` reads names."""
    is_prefix = (
        len(name) >= MIN_SHORT_ID_LENGTH
        and not name.isdigit()
        and shorten_id(record.id).startswith(name.casefold())
    )
    return is_prefix or bool(list_matching_ids(name, [record]))


def undo(store: Store) -> WriteResult:
    """Undo the last save of the present user: a new record is forgotten, a changed one reverted.

    Called again, it undoes the save before that. Raises NotFound: there is none; Conflict: it is
    older than ten minutes, or of several records, or its files changed since, or as for `update`.
    """
    with store.repo.save_lock():
        touches = _find_last_save(store)
        commit = touches[0].commit
        since = format_age(store.clock() - commit.at)
        _refuse_undo(store, touches, since)
        edits = [_build_revert(store, touch) for touch in touches]
        main_edit = next((edit for edit in edits if is_listed(edit.path)), edits[0])
        record = parse_record(main_edit.data or main_edit.before or b"", main_edit.path).record
        if record is None:
            path = store.to_display_path(main_edit.path)
            raise Conflict(f"{path} cannot be read", "filemem check says why")
        if main_edit.data is None:
            edits += _build_tombstone_edits(store, record, edits)
        text = render_message(
            f"undo: {commit.subject}", (("Filemem-Id", record.id), (_UNDO_TRAILER, commit.id))
        )
        made = write_edits(store, main_edit.path, record.type, lambda: (tuple(edits), text))
    note = "" if main_edit.data else f"filemem restore {shorten_id(record.id)} brings it back"
    return build_result(
        store, record, made, f"Undid {commit.id[:10]}, {since} old: {commit.subject}", note
    )


def _build_tombstone_edits(store: Store, record: Record, edits: Iterable[Edit]) -> list[Edit]:
    """The tombstone of a record, as `delete` leaves it; none if there is one."""
    mark = f"{FORGOTTEN}/{compute_tombstone(record.id)}"
    is_marked = store.files.exists(mark) or any(edit.path == mark for edit in edits)
    return [] if is_marked else [Edit(mark, b"", None)]


def _refuse_undo(store: Store, touches: Sequence[Touch], since: str) -> None:
    """Refuse an import, several records, what is old, and what a private save followed.

    Raises Conflict.
    """
    commit = touches[0].commit
    hint = f"git revert {commit.id[:10]} undoes it"
    if IMPORTED in dict(commit.trailers):
        raise Conflict(f"the last save is an import: {commit.subject}", hint)
    record_touches = [
        touch for touch in touches if is_listed(store.files.to_store_path(touch.path))
    ]
    if len(record_touches) > 1:
        raise Conflict(f"{commit.id[:10]} holds several records: {commit.subject}", hint)
    if store.clock() - commit.at > UNDO_WINDOW:
        raise Conflict(
            f"nothing was undone: the last save that is left is {since} old: {commit.subject}",
            hint,
        )
    private_nodes = store.index.read_nodes_by_field("path", store.index.read_manifest(("private",)))
    later_nodes = [node for node in private_nodes if node.created // 1000 > commit.at // 1000]
    if later_nodes:
        newest = max(later_nodes, key=lambda node: node.created)
        raise Conflict(
            f"the last save is private and has no commit to undo: {format_node(newest)}",
            f"filemem forget {shorten_id(newest.id)}; or {hint}",
        )


def _build_revert(store: Store, touch: Touch) -> Edit:
    """The change that takes back a change to a file.

    Raises Conflict: the file was changed since.
    """
    item = store.repo.find_item(touch.path)
    path = store.files.to_store_path(touch.path)
    if (item.oid if item else "") != touch.new_blob or touch.kind == "R":
        commit = touch.commit.id[:10]
        raise Conflict(
            f"{store.to_display_path(path)} was changed after the last save: {touch.commit.subject}",
            f"git show {commit} shows what that did",
        )
    before = store.files.read(path) if touch.new_blob and store.files.exists(path) else None
    return Edit(path, store.repo.read_blob(touch.old_blob) if touch.old_blob else None, before)


def _find_last_save(store: Store) -> list[Touch]:
    """The last save that is not undone, and its changes to files. Raises NotFound."""
    touches = store.history.read_saves(store.repo.require_identity()[0][0], store.tip_id)
    undone_ids = _find_undone(touches)
    for commit, group in groupby(touches, key=lambda touch: touch.commit):
        changes = list(group)
        items = ((store.repo.find_item(touch.path), touch.new_blob) for touch in changes)
        is_reverted = IMPORTED in dict(commit.trailers) and not any(
            item and item.oid == new for item, new in items
        )
        if not (is_reverted or commit.id in undone_ids):
            return changes
    raise NotFound(
        "nothing to undo: no save of yours is on this branch", "filemem forget ID removes a record"
    )


def _find_undone(touches: Iterable[Touch]) -> set[str]:
    """The ids of the commits that undo another, and of those that they undo."""
    undone_ids = set[str]()
    for commit in {touch.commit for touch in touches}:
        if _UNDO_TRAILER in dict(commit.trailers):
            undone_ids.update((commit.id, dict(commit.trailers)[_UNDO_TRAILER]))
    return undone_ids
