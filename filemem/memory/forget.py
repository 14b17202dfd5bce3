"""Delete and restore records.

Each makes one commit. Deleting leaves a tombstone, which hides the record even if its file comes
back; `restore` removes the tombstone. History is never rewritten here: the command for it is only
printed.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
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
)
from filemem.record import (
    Record,
    build_topic_key,
    derive_id,
    list_matching_ids,
    parse_record,
    shorten_id,
)
from filemem.repo.commit import Edit, SaveResult, render_message
from filemem.repo.history import Touch

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
    """Delete a record by a commit that leaves a tombstone; only `restore` brings it back.

    Raises:
        NotFound: No such record.
        Conflict: The file has edits that are not committed, or the repository is busy.
        BadInput: Reason or agent look like a secret, which would stay in the commit message.
    """
    reason, agent = _validate_attribution(store, agent, allow_secret, reason=reason)
    node, note = store.resolve_name(reference)
    with store.repo.save_lock():
        removal = _build_removal(store, node)
        record = removal.record
        subject = f"delete {shorten_id(record.id)}{_format_in_brackets(reason)}"
        text = format_commit_message(record, subject, agent)
        made = write_planned_edits(store, node.path, node.type, removal.edits, text)
    if removal.is_committed:
        message = f"Deleted {node.label}; Git history keeps it"
        undo = f"restore {shorten_id(node.id)}"
    else:
        message = f"Deleted {node.label}; it was never committed, so it cannot be restored"
        undo = ""
    return build_result(store, record, made, message, note, undo=undo)


def write_planned_edits(
    store: Store, path: str, kind: str, edits: Iterable[Edit], message: str
) -> SaveResult:
    """Write edits as `write_edits`, if they do not depend on the state of the branch."""

    def plan() -> tuple[tuple[Edit, ...], str]:
        return tuple(edits), message

    return write_edits(store, path, kind, plan)


def _format_in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def delete_several(store: Store, ids: Iterable[str], reason: str, agent: str = "") -> int:
    """Delete the committed records by one commit, then the others; return how many.

    Raises as `delete`; if one record cannot be deleted, none is.
    """
    reason, agent = _validate_attribution(store, agent, False, reason=reason)
    with store.repo.save_lock():
        nodes = [store.require_node(record_id) for record_id in dict.fromkeys(ids)]
        # By the reason why a record is not committed; "" if it is.
        removals_by_reason: dict[str, list[_Removal]] = defaultdict(list)
        for node in nodes:
            leave_reason = store.get_leave_reason(node.path, node.type)
            removals_by_reason[leave_reason].append(_build_removal(store, node))
        for leave_reason in sorted(removals_by_reason):
            _remove_records(store, removals_by_reason[leave_reason], reason, agent)
    return len(nodes)


def _remove_records(store: Store, removals: Sequence[_Removal], reason: str, agent: str) -> None:
    """Remove records that are all committed, or all not, by one commit."""
    edits: list[Edit] = []
    trailers = []
    for removal in removals:
        edits += removal.edits
        trailers.append(("Filemem-Id", removal.record.id))
    if agent:
        trailers.append(("Agent", agent))
    count = "1 record" if len(removals) == 1 else f"{len(removals)} records"
    text = render_message(f"delete {count}{_format_in_brackets(reason)}", trailers)
    first = removals[0].record
    write_planned_edits(store, first.path, first.type, edits, text)


class _Removal(NamedTuple):
    """The edits that remove a record: its file is deleted, a tombstone is added."""

    record: Record
    is_committed: bool  # whether HEAD has it
    edits: tuple[Edit, ...]


def _build_removal(store: Store, node: Node) -> _Removal:
    """Build the edits that remove a record.

    Raises:
        Conflict: Its file has edits that are not committed.
    """
    record = store.read(node.path).record
    if record is None:
        record = Record(node.id, node.type, path=node.path, title=node.title)
    is_committed = store.repo.find_item(store.files.to_work_tree_path(node.path)) is not None
    is_private_file = is_private(node.path)
    if store.get_leave_reason(node.path, node.type) and not is_private_file:
        _refuse_uncommitted(store, node.path, is_committed=is_committed)
    edits = [Edit(node.path, None, store.files.read(node.path))]
    tombstone = get_tombstone_path(node.id)
    needs_tombstone = is_committed
    if is_private_file:
        tombstone = f"private/{tombstone}"
        # The next import must not bring an imported record back.
        needs_tombstone = bool(record.source)
    if needs_tombstone and not store.files.exists(tombstone):
        edits.append(Edit(tombstone, b"", None))
    return _Removal(record._replace(id=node.id), is_committed, tuple(edits))


def get_tombstone_path(record_id: str) -> str:
    return f"{FORGOTTEN}/{compute_tombstone(record_id)}"


def _refuse_uncommitted(store: Store, path: str, *, is_committed: bool) -> None:
    """Raise Conflict if Git could not restore a file as it is."""
    if not is_committed:
        message = f"{store.to_display_path(path)} was never committed, so it could not be restored"
        raise Conflict(message, "commit it first, or delete the file yourself")
    if store.is_edited(path):
        message = f"{store.to_display_path(path)} has edits that are not committed"
        raise Conflict(message, "commit or undo them first")


def restore(
    store: Store, reference: str, agent: str = "", *, allow_secret: bool = False
) -> WriteResult:
    """Restore a deleted record in its last version, and remove its tombstone.

    Raises:
        NotFound: No deleted record has that name, or Git no longer has it.
        Conflict: Another file is in its place, or the repository is busy.
        BadInput: As for `delete`.
    """
    _, agent = _validate_attribution(store, agent, allow_secret)
    name = fields.validate_line("id", reference).strip()
    with store.repo.save_lock():
        record, data = _require_deleted(store, name)
        path = record.path
        if store.index.read_nodes_by_field("id", [record.id]):
            message = f"{name!r} exists: {record.title}"
            raise NotFound(message, "only a deleted record can be restored")
        present_data = _read_hidden_file(store, record)
        edits: list[Edit] = []
        if present_data is None:
            edits.append(Edit(path, data, None))
        edits += _remove_tombstone(store, get_tombstone_path(record.id))
        made = SaveResult()
        if edits:
            text = format_commit_message(record, f"restore {record.title}", agent)
            made = write_planned_edits(store, path, record.type, edits, text)
        if present_data is not None:
            trouble = made.trouble or index_record(store, path, present_data, made)
            made = made._replace(trouble=trouble)
    return build_result(store, record, made, f"Restored {record.title} ({shorten_id(record.id)})")


def _read_hidden_file(store: Store, record: Record) -> bytes | None:
    """Read the file of a record that is only hidden; return None if the file is missing.

    Raises:
        Conflict: The file has another record.
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


def _remove_tombstone(store: Store, path: str) -> list[Edit]:
    """Remove a tombstone, or if Git has it, return the edit that removes it."""
    is_committed = store.repo.find_item(store.files.to_work_tree_path(path)) is not None
    if is_committed and store.files.exists(path):
        return [Edit(path, None, store.files.read(path))]
    store.files.remove(path)
    return []


def _validate_attribution(
    store: Store, agent: str, allow_secret: bool, *, reason: str = ""
) -> tuple[str, str]:
    """Check and return reason and agent, which stay in the commit message."""
    reason = fields.validate_line("reason", reason)
    agent = fields.validate_line("agent", agent) or store.config.agent
    allow_secret = fields.validate_flag("allow_secret", allow_secret)
    refuse_secrets({"reason": reason, "agent": agent, "allow_secret": allow_secret})
    return reason, agent


def build_purge_command(store: Store, record_id: str) -> str:
    """Build the command that removes a record, deleted or not, from history, with a warning.

    Raises:
        NotFound: No record in the history of this clone has that id, short id or path.
    """
    checked_id = fields.validate_line("id", record_id).strip()
    touch = _find_removal_by_name(store, checked_id)
    if touch:
        named_path = touch.path
    else:
        node = store.require_node(checked_id)
        named_path = store.files.to_work_tree_path(node.path)
    paths = {named_path}
    for earlier_touch in store.history.read_touches([named_path]).get(named_path, ()):
        paths.update((earlier_touch.path, earlier_touch.old_path))
    paths.discard("")
    options = " ".join(f"--path {shlex.quote(path)}" for path in sorted(paths))
    return f"git filter-repo --invert-paths {options}\n{PURGE_WARNING}"


def _require_deleted(store: Store, name: str) -> tuple[Record, bytes]:
    """Find a deleted or hidden record, and its text, by any of its names or its topic.

    Raises:
        NotFound: No deleted record has that name, or Git no longer has its text.
    """
    hidden_record = _find_hidden(store, name)
    if hidden_record:
        return hidden_record
    touch = _find_removal_by_name(store, name) or _find_removal_by_topic(store, name)
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


def _find_hidden(store: Store, name: str) -> tuple[Record, bytes] | None:
    """Find a record of HEAD that has a tombstone, or no file in the work tree, by its name.

    None if there is none.
    """
    head = store.repo.read_head()
    if not head:
        return None
    path_or_id = store.to_store_path(name)
    snapshot = read_commit(store, head)
    tombstones = store.tombstones
    for path, parsed in snapshot.parsed_files.items():
        record = parsed.record
        if record is None or not _is_called(path_or_id, record):
            continue
        if compute_tombstone(record.id) in tombstones or not store.files.exists(path):
            return record, snapshot.data[path]
    return None


def _find_removal_by_name(store: Store, name: str) -> Touch | None:
    """Find the last deletion of a record with this name; None if there is none."""
    path_or_id = store.to_store_path(name)

    def is_called(record: Record) -> bool:
        return _is_called(path_or_id, record)

    return _find_last_removal(store, is_called)


def _find_removal_by_topic(store: Store, topic: str) -> Touch | None:
    """Find the last deletion of a record of this topic, if it no longer exists; else None."""
    key = build_topic_key(topic)

    def is_removed(record: Record) -> bool:
        if not key or not record.topic_stated or build_topic_key(record.topic) != key:
            return False
        return not store.index.read_nodes_by_field("id", [record.id])

    return _find_last_removal(store, is_removed)


def _find_last_removal(store: Store, is_wanted: Callable[[Record], bool]) -> Touch | None:
    """Find the last deletion of a record that is wanted; None if there is none."""
    for touch in store.history.read_removals(store.tip):
        path = store.files.to_store_path(touch.path)
        if not is_listed(path):
            continue
        data = store.repo.read_blob(touch.old_blob) or b""
        last_record = parse_record(data, path).record
        if last_record is None:
            last_record = Record(derive_id(path), "", path=path)
        if is_wanted(last_record):
            return touch
    return None


def _is_called(name: str, record: Record) -> bool:
    """Return whether a record has this name, as `Store.resolve_name` reads names."""
    if list_matching_ids(name, [record]):
        return True
    if len(name) < MIN_SHORT_ID_LENGTH or name.isdigit():
        return False
    return shorten_id(record.id).startswith(name.casefold())
