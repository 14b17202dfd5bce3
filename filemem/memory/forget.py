"""Forget, restore, undo: a record is removed with a tombstone in one commit, the last save by a commit that reverts it.

A record with a tombstone stays hidden even if its file comes back; `restore` removes the tombstone. History is never
rewritten here: the command that does it is printed for the user.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from filemem.chain import Node
from filemem.errors import Conflict, NotFound
from filemem.files import is_listed, is_private
from filemem.memory import fields
from filemem.memory.catch_up import show
from filemem.memory.save import Saved, answer, message_of, refuse_secrets, write
from filemem.memory.snapshot import Snapshot, of_commit
from filemem.memory.store import FORGOTTEN, LEAST, Store, called, mark_of
from filemem.record import Record, age, answering, derived_id, parse, short_id, topic_key
from filemem.repo.commit import Edit, Made, message
from filemem.repo.history import IMPORTED, Touch

RECENT = 10 * 60_000  # milliseconds: what was saved longer ago is not what a bare `undo` means
_UNDOES = "Undoes"  # the trailer that names the commit which is undone
UNREACHED = """\
First change the secret: whoever has a copy can read it. Then run this in a fresh clone, and push with --force.
It rewrites all commits that have the file. It cannot reach clones and forks of others, pull requests, what the host
keeps, or commit messages that quote the title: tell the others to clone anew."""


def delete(
    store: Store, reference: str, reason: str, agent: str = "", *, allow_secret: bool = False
) -> Saved:
    """Remove a record by a commit that leaves a tombstone; only `restore` brings it back.

    Raises NotFound; Conflict: the file has edits that are not committed, or the repository is busy; BadInput: reason or
    agent look like a secret, which would stay in the commit message.
    """
    told, agent = _said(store, agent, allow_secret, reason=reason)
    node, note = store.named(reference)
    with store.repo.saving():
        removal = _removal(store, node)
        shown = removal.record
        text = message_of(
            shown, f"delete {short_id(shown.id)}" + (f" ({told})" if told else ""), agent
        )
        made = write(store, node.path, node.type, lambda: (removal.edits, text))
    kept = (
        "Git history keeps it"
        if removal.held
        else "it was never committed, so it cannot be restored"
    )
    undo = f"restore {short_id(node.id)}" if removal.held else ""
    return answer(store, shown, made, f"Deleted {called(node)}; {kept}", note, undo=undo)


def delete_several(store: Store, ids: Iterable[str], reason: str, agent: str = "") -> int:
    """Remove some records by one commit, and those that are not committed after it; return how many.

    Errors as for `delete`; if one record cannot be removed, none is.
    """
    told, agent = _said(store, agent, False, reason=reason)
    with store.repo.saving():
        nodes = [store.find(one) for one in dict.fromkeys(ids)]
        by_reason = defaultdict[str, list[_Removal]](list)
        for node in nodes:
            by_reason[store.left_to_user(node.path, node.type)].append(_removal(store, node))
        for _, removals in sorted(by_reason.items()):  # "", those that are committed, is first
            _remove(store, removals, told, agent)
    return len(nodes)


def _remove(store: Store, removals: Sequence[_Removal], reason: str, agent: str) -> None:
    """Remove records that are all committed, or all not, by one commit."""
    edits = tuple(edit for removal in removals for edit in removal.edits)
    trailers = [("Filemem-Id", removal.record.id) for removal in removals]
    trailers += [("Agent", agent)] if agent else []
    count = f"{len(removals)} record{'s' * (len(removals) > 1)}"
    text = message(f"delete {count}" + (f" ({reason})" if reason else ""), trailers)
    first = removals[0].record
    write(store, first.path, first.type, lambda: (edits, text))


class _Removal(NamedTuple):
    """What removes one record: its file goes, a tombstone comes."""

    record: Record
    held: bool  # whether HEAD has it
    edits: tuple[Edit, ...]


def _removal(store: Store, node: Node) -> _Removal:
    """What removes a record. Raises Conflict: its file has edits that are not committed."""
    record = store.read(node.path).record
    shown = (
        record._replace(id=node.id)
        if record
        else Record(node.id, node.type, path=node.path, title=node.title)
    )
    held = store.repo.item(store.files.named(node.path)) is not None
    private = is_private(node.path)
    if store.left_to_user(node.path, node.type) and not private:
        if not held:
            told = (
                f"{store.display_path(node.path)} was never committed, so it could not be restored"
            )
            raise Conflict(told, "commit it first, or delete the file yourself")
        if store.edited(node.path):
            told = f"{store.display_path(node.path)} has edits that are not committed"
            raise Conflict(told, "commit or undo them first")
    edits = [Edit(node.path, None, store.files.read(node.path))]
    mark = f"{'private/' * private}{FORGOTTEN}/{mark_of(node.id)}"
    # An imported private one leaves a tombstone too, so that the next import leaves it away.
    if (bool(shown.source) if private else held) and not store.files.exists(mark):
        edits.append(Edit(mark, b"", None))
    return _Removal(shown, held, tuple(edits))


def restore(store: Store, reference: str, agent: str = "", *, allow_secret: bool = False) -> Saved:
    """Restore a forgotten or deleted record as it last was, and remove its tombstone.

    Raises NotFound: no deleted record has that name, or Git no longer has it; Conflict: another file is in its place,
    or the repository is busy; BadInput as for `delete`.
    """
    _, agent = _said(store, agent, allow_secret)
    wanted = fields.line("id", reference).strip()
    with store.repo.saving():
        record, data = _gone(store, wanted)
        if store.index.lookup("id", [record.id]):
            raise NotFound(
                f"{wanted!r} exists: {record.title}", "only a deleted record can be restored"
            )
        path, mark = record.path, f"{FORGOTTEN}/{mark_of(record.id)}"
        here = store.files.read(path) if store.files.exists(path) else None
        if here is not None and (found := parse(here, path).record) and found.id != record.id:
            told = f"nothing was restored: there is another record at {store.display_path(path)}"
            raise Conflict(told, "move that away (git mv), then restore again")
        edits = [] if here is not None else [Edit(path, data, None)]
        if store.repo.item(store.files.named(mark)) and store.files.exists(mark):
            edits.append(Edit(mark, None, store.files.read(mark)))
        else:
            store.files.remove(mark)
        text = message_of(record, f"restore {record.title}", agent)
        made = write(store, path, record.type, lambda: (tuple(edits), text)) if edits else Made()
        if here is not None:
            made = made._replace(trouble=made.trouble or show(store, path, here, made))
    return answer(store, record, made, f"Restored {record.title} ({short_id(record.id)})")


def _said(store: Store, agent: str, allowed: bool, *, reason: str = "") -> tuple[str, str]:
    """Check reason and agent: both stay in the commit message."""
    said = {
        "reason": fields.line("reason", reason),
        "agent": fields.line("agent", agent) or store.config.agent,
    }
    refuse_secrets({**said, "allow_secret": fields.flag("allow_secret", allowed)})
    return said["reason"], said["agent"]


def purge_command(store: Store, record_id: str) -> str:
    """Return the command that removes a record, deleted or not, from history, and what it cannot reach. Runs nothing.

    Raises NotFound: no record had that id, short id or path in the history of this clone."""
    wanted = fields.line("id", record_id).strip()
    touch = _removed(store, lambda record: _is_called(store.store_path(wanted), record))
    named = touch.path if touch else store.files.named(store.find(wanted).path)
    rows = store.history.touches([named]).get(named, ())
    paths = {named} | {path for row in rows for path in (row.path, row.before) if path}
    options = " ".join(f"--path {shlex.quote(path)}" for path in sorted(paths))
    return f"git filter-repo --invert-paths {options}\n{UNREACHED}"


def _gone(store: Store, wanted: str) -> tuple[Record, bytes]:
    """Find a deleted or hidden record by any of its names. Raises NotFound."""
    head, hidden = store.repo.head(), store.tombstones
    known = of_commit(store, head) if head else Snapshot(store, {})
    for path, parsed in known.parsed.items():
        record = parsed.record
        if record is None or not _is_called(store.store_path(wanted), record):
            continue
        if mark_of(record.id) in hidden or not store.files.exists(path):  # else it is shown
            return record, known.data[path]
    touch = _removed(store, lambda record: _is_called(store.store_path(wanted), record))
    key = topic_key(wanted)
    touch = touch or _removed(store, lambda record: _is_gone_from(store, key, record))
    if touch is None:
        missing = f" ({why})" if (why := store.repo.incomplete()) else ""
        told = f"no record {wanted!r} was removed{missing}"
        raise NotFound(told, "git log --diff-filter=D --name-only lists what was")
    data, path = store.repo.blob(touch.old) or b"", store.files.inside(touch.path)
    if (last := parse(data, path).record) is None or not data:
        why = store.repo.incomplete() or "its text cannot be read"
        raise NotFound(
            f"{wanted!r} was deleted in {touch.commit.id[:10]}, and its text is not here: {why}"
        )
    return last, data


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
        if (record := parse(main.data or main.before or b"", main.path).record) is None:
            raise Conflict(
                f"{store.display_path(main.path)} cannot be read", "filemem check says why"
            )
        mark = f"{FORGOTTEN}/{mark_of(record.id)}"
        marked = store.files.exists(mark) or mark in {edit.path for edit in edits}
        if main.data is None and not marked:
            edits.append(Edit(mark, b"", None))  # as `forget` leaves it
        text = message(f"undo: {done.subject}", (("Filemem-Id", record.id), (_UNDOES, done.id)))
        made = write(store, main.path, record.type, lambda: (tuple(edits), text))
    back = "" if main.data else f"filemem restore {short_id(record.id)} brings it back"
    return answer(store, record, made, f"Undid {done.id[:10]}, {since} old: {done.subject}", back)


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
    """The change that takes back a change to a file. Raises Conflict: the file was changed since."""
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
