"""Change a record in place: every byte of the file stays but those of the lines that change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from filemem.errors import BadInput, Conflict, FilememError, NotFound
from filemem.files import is_private
from filemem.hints import suggest
from filemem.index import Node
from filemem.memory import fields
from filemem.memory.save import (
    Saved,
    answer,
    edges_said,
    ids_of,
    message_of,
    refuse_secrets,
    write,
)
from filemem.memory.store import Store
from filemem.record import DECISION, OBSERVATION, Outcome, Record, amend, derived_id, new_id, parse
from filemem.record.keys import SECRETS_ALLOWED
from filemem.repo.commit import Edit, Made

# Links that a record takes; what a decision supersedes is stated when it is saved.
_LINKS = {"builds_on", "debates", "synthesizes"}
_OF_DECISIONS = ("outcome", "reason", "status", "affects", "guards", *_LINKS)
_TAKEN = (
    *("outcome", "reason", "status", "title", "text", "tags", "affects", "guards", "metadata"),
    *("agent", "allow_secret"),
)


def update(store: Store, reference: str, values: Mapping[str, object]) -> Saved:
    """Append an outcome, or change status, heading or fields of one record, or link it.

    Raises NotFound; BadInput: nothing to change, or a field that this type does not take; Conflict:
    the file has edits that are not committed, or cannot be amended as it is, or the repository is
    busy.
    """
    checked = _checked(values)
    agent = checked.pop("agent", "") or store.config.agent
    node, note = store.named(reference)
    notes = [note, *_completed(store, node, checked)]
    phrase = _phrase(node.type, checked)
    changes = _changes(node.type, checked, store.clock())
    if refuse_secrets(checked):
        changes["keys"] = {**changes.get("keys", {}), "secrets": SECRETS_ALLOWED}
    done = _put(
        store, node, agent, phrase, lambda before: _amended(store, before, node.path, **changes)
    )
    silent = checked.get("outcome") == "failed" and not checked.get("reason")
    return done._replace(
        note="; ".join(filter(None, (done.note, *notes))),
        warning="say why, too: the reason is what others learn from" if silent else "",
    )


def _completed(store: Store, node: Node, checked: dict[str, Any]) -> list[str]:
    """Turn the paths and links of an update into what the record will hold; return notes."""
    notes = []
    if "affects" in checked:
        checked["affects"] = tuple(dict.fromkeys(map(store.from_top, checked["affects"])))
        notes += store.unmet(checked["affects"])
    if node.type == DECISION and "text" in checked:
        edges, unknown = edges_said(store, checked["text"])
        notes += unknown
        for name, ids in edges.items():
            checked[name] = (*checked.get(name, ()), *ids)
    for name in _LINKS & checked.keys():
        old = getattr(store.read(node.path).record, name, ())
        checked[name] = tuple(dict.fromkeys((*old, *ids_of(store, name, checked[name]))))
    return notes


def _checked(values: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields before the record is looked for, on every surface. Raises BadInput."""
    checks = {**fields.FIELDS[OBSERVATION], **fields.FIELDS[DECISION], **fields.COMMON}
    for name, value in values.items():
        if name not in (*_TAKEN, *_LINKS) and (value is not None or name not in fields.NAMES):
            raise BadInput(f"update has no field {name!r}", suggest(name, _TAKEN), field=name)
    return {name: checks[name](name, value) for name, value in values.items() if value is not None}


def edit(store: Store, reference: str, data: bytes, before: bytes) -> Saved:
    """Replace a record's file, which held `before`, by an edited version, and commit it.

    Raises NotFound; BadInput: it is not readable as this record, or has a secret; Conflict as for
    `update`.
    """
    node, note = store.named(reference)
    record = _edited(store, node, data)
    refuse_secrets({"text": data.decode(), "allow_secret": record.secrets_allowed})

    def replaced(current: bytes) -> bytes:
        if current != before:
            path = store.display_path(node.path)
            raise Conflict(f"{path} was changed while you edited it", "edit it again")
        return data

    done = _put(store, node, store.config.agent, "edited", replaced)
    return done._replace(note="; ".join(filter(None, (done.note, note))))


def _edited(store: Store, node: Node, data: bytes) -> Record:
    """The record as edited. Raises BadInput: it cannot be read, or is another one, or private."""
    path = store.display_path(node.path)
    record, problems = parse(data, node.path)
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        message = f"{path}:{errors[0].line}: {errors[0].message}"
        raise BadInput(message, "nothing was saved", field="data")
    if record is None or (record.id, record.type) != (node.id, node.type):
        message = f"{path} has another id or type"
        raise BadInput(message, "nothing was saved: keep these two", "data")
    if record.visibility == "private" and not is_private(node.path):
        message = "a committed record cannot become private"
        raise BadInput(message, "save it again as private; forget this one", "data")
    return record


def _put(
    store: Store, node: Node, agent: str, phrase: str, change: Callable[[bytes], bytes]
) -> Saved:
    """Write and commit the new bytes of a record's file; `phrase`: the change in a few words."""
    with store.repo.saving():
        before, old = _current(store, node.path)
        data = change(before)
        if data == before and not store.edited(node.path):
            message = f"{old.id} already says that ({phrase}); nothing was written"
            return answer(store, old, Made(), message)
        edits = (Edit(node.path, data, before),)
        subject = message_of(old, phrase, agent)
        made = write(store, node.path, old.type, lambda: (edits, subject))
    return answer(store, old, made, f"Updated {old.id}: {phrase}")


def adopt(store: Store, files: Collection[str], was: str = "") -> tuple[Saved, ...]:
    """Write ids into files that have none, so that they stay the same records when renamed.

    All come in one commit. `was`: the id or path that the one file had before a rename; references
    to it work again. Raises NotFound; BadInput: a file states an id, or `was` is given for several
    files; Conflict as for `update`.
    """
    if was and len(files) != 1:
        message = "was names the former id or path of one file"
        raise BadInput(message, "adopt the files one by one", field="was")
    former = derived_id(store.store_path(was)) if was and not was.startswith("file_") else was
    with store.repo.saving():
        edits = []
        records = []
        for path in dict.fromkeys(map(store.store_path, files)):
            edit, record = _with_id(store, path, former)
            edits.append(edit)
            records.append(record)
        count = len(edits)
        phrase = "state its id" if count == 1 else f"state the ids of {count} records"
        message = message_of(records[0], phrase, store.config.agent)
        made = write(store, records[0].path, records[0].type, lambda: (tuple(edits), message))
    done = []
    for record in records:
        path = store.display_path(record.path)
        done.append(answer(store, record, made, f"{path} states its id now: {record.id}"))
    return tuple(done)


def _with_id(store: Store, path: str, former: str) -> tuple[Edit, Record]:
    """The edit that writes an id into a file, the former one if it had one, and its record."""
    before, old = _current(store, path)
    if old.id_stated:
        message = f"{store.display_path(path)} already states its id: {old.id}"
        raise BadInput(message, field="files")
    created = old.created or store.dates([path]).get(path) or store.clock()
    id_ = former or new_id(old.type, created, store.entropy(), old.topic)
    data = _amended(store, before, path, keys={"id": id_})
    return Edit(path, data, before), parse(data, path).record or old


def _amended(store: Store, before: bytes, path: str, **changes: Any) -> bytes:
    """The bytes of a file with some values changed; errors name the file as shown to people."""
    try:
        after = amend(before, path, **changes)
        return before if parse(after, path).record == parse(before, path).record else after
    except FilememError as error:
        error.message = error.message.replace(path, store.display_path(path), 1)
        raise


def _current(store: Store, path: str) -> tuple[bytes, Record]:
    """A file's present bytes and its record. Raises NotFound."""
    data = store.files.read(path)
    record = parse(data, path).record
    if record is None:
        message = f"{store.display_path(path)} cannot be read as a record"
        raise NotFound(message, "filemem check says why")
    return data, record


def _changes(kind: str, checked: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The arguments of `amend`."""
    changes: dict[str, Any] = {name: checked[name] for name in _texts(checked)}
    keys = {name: checked[name] for name in _keys(kind, checked)}
    if "affects" in checked:
        keys["affects"] = checked["affects"] or None
    if "guards" in checked:
        keys["guards"] = [guard.plain for guard in checked["guards"]] or None
    if keys:
        changes["keys"] = keys
    if "outcome" in checked:
        changes["outcome"] = Outcome(now, checked["outcome"], checked.get("reason", ""))
    return changes


def _texts(checked: Mapping[str, Any]) -> list[str]:
    return [name for name in ("title", "text") if name in checked]


def _keys(kind: str, checked: Mapping[str, Any]) -> list[str]:
    """The keys of a header that are stated and that this type has."""
    names = ("status", *(("metadata",) if kind == OBSERVATION else ()), "tags", *_LINKS)
    return [name for name in names if name in checked]


def _phrase(kind: str, checked: Mapping[str, Any]) -> str:
    """The change in a few words. Raises BadInput: there is none, or not for this type."""
    outcome = checked.get("outcome")
    reason = checked.get("reason", "")
    _refuse_fields(kind, checked)
    phrases = []
    if outcome is not None:
        phrases.append(f"{outcome}: {reason}" if reason else outcome)
    phrases += [checked[name] if name == "status" else name for name in _keys(kind, checked)]
    if "affects" in checked:
        phrases.append(f"affects {', '.join(checked['affects']) or 'nothing'}")
    if "guards" in checked:
        phrases.append("guards")
    phrases += [f"{name} revised" for name in _texts(checked)]
    if not phrases:
        raise BadInput(
            "nothing to update",
            "give outcome, status, title, text, tags, affects or guards",
            field="outcome",
        )
    return ", ".join(phrases)


def _refuse_fields(kind: str, checked: Mapping[str, Any]) -> None:
    """Refuse what only decisions have, and a reason of nothing."""
    wrong = [name for name in _OF_DECISIONS if name in checked and kind != DECISION]
    if wrong:
        message = f"{fields.article(kind)} has no {wrong[0]}; only decisions do"
        raise BadInput(message, field=wrong[0])
    if checked.get("reason") and "outcome" not in checked:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")
