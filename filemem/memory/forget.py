"""Forget, restore, undo: a record is removed with a tombstone in one commit, the last save by a commit that reverts it.

A record with a tombstone stays hidden even if its file comes back; `restore` removes the tombstone. History is never
rewritten here: the command that does it is printed for the user.
"""

from __future__ import annotations

import shlex
from itertools import groupby

from filemem.errors import Conflict, NotFound
from filemem.files import is_listed, is_private
from filemem.memory import fields
from filemem.memory.catch_up import show
from filemem.memory.save import Saved, answer, message_of, refuse_secrets, write
from filemem.memory.snapshot import Snapshot, of_commit
from filemem.memory.store import FORGOTTEN, LEAST, Store, called, mark_of
from filemem.record import Record, answering, derived_id, parse, short_id
from filemem.repo.commit import Edit, Made, message
from filemem.repo.history import IMPORTED, Touch

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
    node = store.find(reference)
    record = store.read(node.path).record
    shown = (
        record._replace(id=node.id)
        if record
        else Record(node.id, node.type, path=node.path, title=node.title)
    )
    with store.repo.saving():
        held = store.repo.item(store.files.named(node.path)) is not None
        if store.left_to_user(node.path, node.type) and not is_private(node.path):
            if not held:
                told = f"{store.shown(node.path)} was never committed, so it could not be restored"
                raise Conflict(told, "commit it first, or delete the file yourself")
            if store.edited(node.path):
                told = f"{store.shown(node.path)} has edits that are not committed"
                raise Conflict(told, "commit or undo them first")
        edits = [Edit(node.path, None, store.files.read(node.path))]
        private = is_private(
            node.path
        )  # of one that was imported, so that the next import leaves it away
        mark = f"{'private/' * private}{FORGOTTEN}/{mark_of(node.id)}"
        if (bool(shown.source) if private else held) and not store.files.exists(mark):
            edits.append(Edit(mark, b"", None))
        text = message_of(
            shown, f"delete {short_id(shown.id)}" + (f" ({told})" if told else ""), agent
        )
        made = write(store, node.path, node.type, lambda: (tuple(edits), text))
    kept = "Git history keeps it" if held else "it was never committed, so it cannot be restored"
    undo = f"restore {short_id(node.id)}" if held else ""
    return answer(store, shown, made, f"Deleted {called(node)}; {kept}", undo=undo)


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
            told = f"nothing was restored: there is another record at {store.shown(path)}"
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
    touch = _removed(store, wanted)
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
        if record is None or not _is_called(store.asked(wanted), record):
            continue
        if mark_of(record.id) in hidden or not store.files.exists(path):  # else it is shown
            return record, known.data[path]
    touch = _removed(store, wanted)
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


def _removed(store: Store, wanted: str) -> Touch | None:
    """The last deletion of a record, by any of its names; None if there was none."""
    for touch in store.history.removals(store.tip):
        path = store.files.inside(touch.path)
        last = parse(store.repo.blob(touch.old) or b"", path).record or Record(
            derived_id(path), "", path=path
        )
        if is_listed(path) and _is_called(store.asked(wanted), last):
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

    Called again, it undoes the save before that. Raises NotFound: there is none; Conflict: its files changed since,
    or as for `update`.
    """
    with store.repo.saving():
        touches = _last(store)
        done, edits = touches[0].commit, list[Edit]()
        if IMPORTED in dict(done.trailers):
            raise Conflict(
                f"the last save is an import: {done.subject}",
                f"git revert {done.id[:10]} undoes it",
            )
        if (
            sum(
                touch.kind != "D" and is_listed(store.files.inside(touch.path)) for touch in touches
            )
            > 1
        ):
            told = f"{done.id[:10]} holds several records: {done.subject}"
            raise Conflict(told, f"git revert {done.id[:10]} undoes it")
        for touch in touches:
            held, path = store.repo.item(touch.path), store.files.inside(touch.path)
            if (held.oid if held else "") != touch.new or touch.kind == "R":
                told = f"{store.shown(path)} was changed after the last save, {done.id[:10]}: {done.subject}"
                raise Conflict(told, f"git show {done.id[:10]} shows what that did")
            before = store.files.read(path) if touch.new and store.files.exists(path) else None
            edits.append(Edit(path, store.repo.blob(touch.old) if touch.old else None, before))
        main = next((one for one in edits if is_listed(one.path)), edits[0])
        if (record := parse(main.data or main.before or b"", main.path).record) is None:
            raise Conflict(f"{store.shown(main.path)} cannot be read", "filemem check says why")
        mark = f"{FORGOTTEN}/{mark_of(record.id)}"
        if (
            main.data is None
            and not store.files.exists(mark)
            and mark not in {one.path for one in edits}
        ):
            edits.append(Edit(mark, b"", None))  # as `forget` leaves it
        text = message(f"undo: {done.subject}", (("Filemem-Id", record.id), (_UNDOES, done.id)))
        made = write(store, main.path, record.type, lambda: (tuple(edits), text))
    back = "" if main.data else f"filemem restore {short_id(record.id)} brings it back"
    return answer(store, record, made, f"Undid {done.id[:10]}: {done.subject}", back)


def _last(store: Store) -> list[Touch]:
    """The last save that is not undone, and its changes to files. Raises NotFound."""
    undone = set[str]()
    touches = store.history.saves(store.repo.identity()[0][0], store.seen_from)
    for commit, found in groupby(touches, key=lambda touch: touch.commit):
        named, changes = {value for key, value in commit.trailers if key == _UNDOES}, list(found)
        held = ((store.repo.item(one.path), one.new) for one in changes)
        reverted = IMPORTED in dict(commit.trailers) and not any(
            item and item.oid == new for item, new in held
        )
        if not (named or reverted or commit.id in undone):
            return changes
        undone |= named
    raise NotFound(
        "nothing to undo: no save of yours is on this branch", "filemem forget ID removes a record"
    )
