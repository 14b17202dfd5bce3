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
from filemem.memory.catch_up import show
from filemem.memory.save import Saved, answer, message_of, refuse_secrets, write
from filemem.memory.snapshot import of_commit
from filemem.memory.store import FORGOTTEN, LEAST, Store, called, mark_of
from filemem.record import Record, age, answering, derived_id, parse, short_id, topic_key
from filemem.repo.commit import Edit, Made, message
from filemem.repo.history import IMPORTED, Touch

RECENT = 10 * 60_000  # milliseconds: what was saved longer ago is not what a bare `undo` means
_UNDOES = "Undoes"  # the trailer that names the commit which is undone
UNREACHED = (
    "First change the secret: whoever has a copy can read it. "
    "Then run this in a fresh clone, and push with --force.\n"
    "It rewrites all commits that have the file. "
    "It cannot reach clones and forks of others, pull requests, what the host\n"
    "keeps, or commit messages that quote the title: tell the others to clone anew."
)


def delete(
    store: Store, reference: str, reason: str, agent: str = "", *, allow_secret: bool = False
) -> Saved:
    """Remove a record by a commit that leaves a tombstone; only `restore` brings it back.

    Raises NotFound; Conflict: the file has edits that are not committed, or the repository is busy;
    BadInput: reason or agent look like a secret, which would stay in the commit message.
    """
    reason, agent = _checked(store, agent, allow_secret, reason=reason)
    node, note = store.named(reference)
    with store.repo.saving():
        removal = _removal(store, node)
        record = removal.record
        subject = f"delete {short_id(record.id)}{_in_brackets(reason)}"
        text = message_of(record, subject, agent)
        made = write(store, node.path, node.type, lambda: (removal.edits, text))
    if removal.committed:
        message = f"Deleted {called(node)}; Git history keeps it"
        undo = f"restore {short_id(node.id)}"
    else:
        message = f"Deleted {called(node)}; it was never committed, so it cannot be restored"
        undo = ""
    return answer(store, record, made, message, note, undo=undo)


def _in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def delete_several(store: Store, ids: Iterable[str], reason: str, agent: str = "") -> int:
    """Remove some records by one commit, then those that are not committed; return how many.

    Errors as for `delete`; if one record cannot be removed, none is.
    """
    reason, agent = _checked(store, agent, False, reason=reason)
    with store.repo.saving():
        nodes = list(map(store.find, dict.fromkeys(ids)))
        by_policy = defaultdict[str, list[_Removal]](list)
        for node in nodes:
            by_policy[store.left_to_user(node.path, node.type)].append(_removal(store, node))
        for _, removals in sorted(by_policy.items()):  # "", those that are committed, is first
            _remove(store, removals, reason, agent)
    return len(nodes)


def _remove(store: Store, removals: Sequence[_Removal], reason: str, agent: str) -> None:
    """Remove records that are all committed, or all not, by one commit."""
    edits = tuple(edit for removal in removals for edit in removal.edits)
    trailers = [("Filemem-Id", removal.record.id) for removal in removals]
    trailers += [("Agent", agent)] if agent else []
    count = f"{len(removals)} record{'s' * (len(removals) > 1)}"
    text = message(f"delete {count}{_in_brackets(reason)}", trailers)
    first = removals[0].record
    write(store, first.path, first.type, lambda: (edits, text))


class _Removal(NamedTuple):
    """What removes one record: its file goes, a tombstone comes."""

    record: Record
    committed: bool  # HEAD has it
    edits: tuple[Edit, ...]


def _removal(store: Store, node: Node) -> _Removal:
    """What removes a record. Raises Conflict: its file has edits that are not committed."""
    record = store.read(node.path).record
    record = record or Record(node.id, node.type, path=node.path, title=node.title)
    record = record._replace(id=node.id)
    committed = store.repo.item(store.files.named(node.path)) is not None
    private = is_private(node.path)
    if store.left_to_user(node.path, node.type) and not private:
        _refuse_uncommitted(store, node.path, committed=committed)
    edits = [Edit(node.path, None, store.files.read(node.path))]
    mark = f"{'private/' * private}{FORGOTTEN}/{mark_of(node.id)}"
    # An imported private one leaves a tombstone too, so that the next import leaves it away.
    marked = bool(record.source) if private else committed
    if marked and not store.files.exists(mark):
        edits.append(Edit(mark, b"", None))
    return _Removal(record, committed, tuple(edits))


def _refuse_uncommitted(store: Store, path: str, *, committed: bool) -> None:
    """Refuse to remove a file that Git could not bring back as it is."""
    if not committed:
        message = f"{store.display_path(path)} was never committed, so it could not be restored"
        raise Conflict(message, "commit it first, or delete the file yourself")
    if store.edited(path):
        message = f"{store.display_path(path)} has edits that are not committed"
        raise Conflict(message, "commit or undo them first")


def restore(store: Store, reference: str, agent: str = "", *, allow_secret: bool = False) -> Saved:
    """Restore a forgotten or deleted record as it last was, and remove its tombstone.

    Raises NotFound: no deleted record has that name, or Git no longer has it; Conflict: another
    file is in its place, or the repository is busy; BadInput as for `delete`.
    """
    _, agent = _checked(store, agent, allow_secret)
    wanted = fields.line("id", reference).strip()
    with store.repo.saving():
        record, data = _deleted(store, wanted)
        path = record.path
        if store.index.lookup("id", [record.id]):
            message = f"{wanted!r} exists: {record.title}"
            raise NotFound(message, "only a deleted record can be restored")
        present = _present(store, record)
        edits = [] if present is not None else [Edit(path, data, None)]
        edits += _unmark(store, f"{FORGOTTEN}/{mark_of(record.id)}")
        text = message_of(record, f"restore {record.title}", agent)
        made = write(store, path, record.type, lambda: (tuple(edits), text)) if edits else Made()
        if present is not None:
            made = made._replace(trouble=made.trouble or show(store, path, present, made))
    return answer(store, record, made, f"Restored {record.title} ({short_id(record.id)})")


def _present(store: Store, record: Record) -> bytes | None:
    """The bytes of a record that is only hidden; None if its file is gone.

    Raises Conflict: the file is another record.
    """
    path = record.path
    if not store.files.exists(path):
        return None
    data = store.files.read(path)
    present = parse(data, path).record
    if present and present.id != record.id:
        other = store.display_path(path)
        message = f"nothing was restored: there is another record at {other}"
        raise Conflict(message, "move that away (git mv), then restore again")
    return data


def _unmark(store: Store, mark: str) -> list[Edit]:
    """Remove a tombstone, or return the edit that does if Git has it."""
    if store.repo.item(store.files.named(mark)) and store.files.exists(mark):
        return [Edit(mark, None, store.files.read(mark))]
    store.files.remove(mark)
    return []


def _checked(store: Store, agent: str, allowed: bool, *, reason: str = "") -> tuple[str, str]:
    """Check reason and agent: both stay in the commit message."""
    reason = fields.line("reason", reason)
    agent = fields.line("agent", agent) or store.config.agent
    allowed = fields.flag("allow_secret", allowed)
    refuse_secrets({"reason": reason, "agent": agent, "allow_secret": allowed})
    return reason, agent


def purge_command(store: Store, record_id: str) -> str:
    """Return the command that removes a record, deleted or not, from history. Runs nothing.

    With it comes what that cannot reach. Raises NotFound: no record had that id, short id or path
    in the history of this clone.
    """
    wanted = fields.line("id", record_id).strip()
    touch = _removed(store, partial(_is_called, store.store_path(wanted)))
    named = touch.path if touch else store.files.named(store.find(wanted).path)
    rows = store.history.touches([named]).get(named, ())
    paths = {named} | {path for row in rows for path in (row.path, row.before) if path}
    options = " ".join(f"--path {shlex.quote(path)}" for path in sorted(paths))
    return f"git filter-repo --invert-paths {options}\n{UNREACHED}"


def _deleted(store: Store, wanted: str) -> tuple[Record, bytes]:
    """Find a deleted or hidden record by any of its names. Raises NotFound."""
    is_called = partial(_is_called, store.store_path(wanted))
    hidden = _hidden(store, is_called)
    if hidden:
        return hidden
    touch = _removed(store, is_called)
    touch = touch or _removed(store, partial(_is_gone_from, store, topic_key(wanted)))
    if touch is None:
        reason = store.repo.incomplete()
        message = f"no record {wanted!r} was removed{_in_brackets(reason)}"
        raise NotFound(message, "git log --diff-filter=D --name-only lists what was")
    data = store.repo.blob(touch.old) or b""
    record = parse(data, store.files.inside(touch.path)).record
    if record is None or not data:
        reason = store.repo.incomplete() or "its text cannot be read"
        commit = touch.commit.id[:10]
        raise NotFound(f"{wanted!r} was deleted in {commit}, and its text is not here: {reason}")
    return record, data


def _hidden(store: Store, is_called: Callable[[Record], bool]) -> tuple[Record, bytes] | None:
    """A record of HEAD that has a tombstone, or no file in the work tree."""
    head = store.repo.head()
    if not head:
        return None
    snapshot = of_commit(store, head)
    marks = store.tombstones
    for path, parsed in snapshot.parsed.items():
        record = parsed.record
        if record is None or not is_called(record):
            continue
        if mark_of(record.id) in marks or not store.files.exists(path):  # else it is shown
            return record, snapshot.data[path]
    return None


def _is_gone_from(store: Store, key: str, record: Record) -> bool:
    """Whether a record was removed from a topic, and is nowhere else now."""
    on_topic = bool(key) and record.topic_stated and topic_key(record.topic) == key
    return on_topic and not store.index.lookup("id", [record.id])


def _removed(store: Store, wanted: Callable[[Record], bool]) -> Touch | None:
    """The last deletion of a record that is wanted; None if there was none."""
    for touch in store.history.removals(store.tip):
        path = store.files.inside(touch.path)
        last = parse(store.repo.blob(touch.old) or b"", path).record or Record(
            derived_id(path), "", path=path
        )
        if is_listed(path) and wanted(last):
            return touch
    return None


def _is_called(name: str, record: Record) -> bool:
    """Whether a record has this name, as `Store.find` reads names."""
    begins = (
        len(name) >= LEAST
        and not name.isdigit()
        and short_id(record.id).startswith(name.casefold())
    )
    return begins or bool(answering(name, [record]))


def undo(store: Store) -> Saved:
    """Undo the last save of the present user: a new record is forgotten, a changed one reverted.

    Called again, it undoes the save before that. Raises NotFound: there is none; Conflict: it is
    older than ten minutes, or of several records, or its files changed since, or as for `update`.
    """
    with store.repo.saving():
        touches = _last(store)
        done = touches[0].commit
        since = age(store.clock() - done.at)
        _refuse_undo(store, touches, since)
        edits = [_reverted(store, touch) for touch in touches]
        main = next((edit for edit in edits if is_listed(edit.path)), edits[0])
        record = parse(main.data or main.before or b"", main.path).record
        if record is None:
            path = store.display_path(main.path)
            raise Conflict(f"{path} cannot be read", "filemem check says why")
        if main.data is None:
            edits += _mark(store, record, edits)
        text = message(f"undo: {done.subject}", (("Filemem-Id", record.id), (_UNDOES, done.id)))
        made = write(store, main.path, record.type, lambda: (tuple(edits), text))
    back = "" if main.data else f"filemem restore {short_id(record.id)} brings it back"
    return answer(store, record, made, f"Undid {done.id[:10]}, {since} old: {done.subject}", back)


def _mark(store: Store, record: Record, edits: Iterable[Edit]) -> list[Edit]:
    """The tombstone of a record, as `delete` leaves it; none if there is one."""
    mark = f"{FORGOTTEN}/{mark_of(record.id)}"
    marked = store.files.exists(mark) or any(edit.path == mark for edit in edits)
    return [] if marked else [Edit(mark, b"", None)]


def _refuse_undo(store: Store, touches: Sequence[Touch], since: str) -> None:
    """Refuse an import, several records, what is old, and what a private save followed.

    Raises Conflict.
    """
    done = touches[0].commit
    by_hand = f"git revert {done.id[:10]} undoes it"
    if IMPORTED in dict(done.trailers):
        raise Conflict(f"the last save is an import: {done.subject}", by_hand)
    listed = [touch for touch in touches if is_listed(store.files.inside(touch.path))]
    if len(listed) > 1:
        raise Conflict(f"{done.id[:10]} holds several records: {done.subject}", by_hand)
    if store.clock() - done.at > RECENT:
        raise Conflict(
            f"nothing was undone: the last save that is left is {since} old: {done.subject}",
            by_hand,
        )
    private = store.index.lookup("path", store.index.manifest(("private",)))
    later = [node for node in private if node.created // 1000 > done.at // 1000]
    if later:
        newest = max(later, key=lambda node: node.created)
        raise Conflict(
            f"the last save is private and has no commit to undo: {called(newest)}",
            f"filemem forget {short_id(newest.id)}; or {by_hand}",
        )


def _reverted(store: Store, touch: Touch) -> Edit:
    """The change that takes back a change to a file.

    Raises Conflict: the file was changed since.
    """
    item = store.repo.item(touch.path)
    path = store.files.inside(touch.path)
    if (item.oid if item else "") != touch.new or touch.kind == "R":
        commit = touch.commit.id[:10]
        raise Conflict(
            f"{store.display_path(path)} was changed after the last save: {touch.commit.subject}",
            f"git show {commit} shows what that did",
        )
    before = store.files.read(path) if touch.new and store.files.exists(path) else None
    return Edit(path, store.repo.blob(touch.old) if touch.old else None, before)


def _last(store: Store) -> list[Touch]:
    """The last save that is not undone, and its changes to files. Raises NotFound."""
    touches = store.history.saves(store.repo.identity()[0][0], store.seen_from)
    undone = _undone(touches)
    for commit, group in groupby(touches, key=lambda touch: touch.commit):
        changes = list(group)
        items = ((store.repo.item(touch.path), touch.new) for touch in changes)
        reverted = IMPORTED in dict(commit.trailers) and not any(
            item and item.oid == new for item, new in items
        )
        if not (reverted or commit.id in undone):
            return changes
    raise NotFound(
        "nothing to undo: no save of yours is on this branch", "filemem forget ID removes a record"
    )


def _undone(touches: Iterable[Touch]) -> set[str]:
    """The ids of the commits that undo another, and of those that they undo."""
    undone = set[str]()
    for commit in {touch.commit for touch in touches}:
        if _UNDOES in dict(commit.trailers):
            undone.update((commit.id, dict(commit.trailers)[_UNDOES]))
    return undone
