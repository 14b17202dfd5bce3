"""Change a record in place: every byte of the file stays but those of the lines that change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from filemem.errors import BadInput, Conflict, FilememError, NotFound
from filemem.files import is_private
from filemem.hints import suggest_choice
from filemem.index import Node
from filemem.memory import fields
from filemem.memory.save import (
    WriteResult,
    build_result,
    format_commit_message,
    refuse_secrets,
    resolve_ids,
    resolve_said_edges,
    write_edits,
)
from filemem.memory.store import Store
from filemem.record import (
    DECISION,
    OBSERVATION,
    Outcome,
    Record,
    amend_record,
    build_id,
    derive_id,
    parse_record,
)
from filemem.record.keys import SECRETS_ALLOWED
from filemem.repo.commit import Edit, SaveResult

# Links that a record takes; what a decision supersedes is stated when it is saved.
_LINKS = {"builds_on", "debates", "synthesizes"}
_DECISION_FIELDS = ("outcome", "reason", "status", "affects", "guards", *_LINKS)
_ACCEPTED_FIELDS = (
    *("outcome", "reason", "status", "title", "text", "tags", "affects", "guards", "metadata"),
    *("agent", "allow_secret"),
)


def update(store: Store, reference: str, values: Mapping[str, object]) -> WriteResult:
    """Append an outcome, or change status, heading or fields of one record, or link it.

    Raises NotFound; BadInput: nothing to change, or a field that this type does not take; Conflict:
    the file has edits that are not committed, or cannot be amended as it is, or the repository is
    busy.
    """
    valid_fields = _validate_fields(values)
    agent = valid_fields.pop("agent", "") or store.config.agent
    node, note = store.resolve_name(reference)
    notes = [note, *_complete_fields(store, node, valid_fields)]
    phrase = _format_phrase(node.type, valid_fields)
    changes = _build_changes(node.type, valid_fields, store.clock())
    if refuse_secrets(valid_fields):
        changes["keys"] = {**changes.get("keys", {}), "secrets": SECRETS_ALLOWED}
    result = _write_change(
        store, node, agent, phrase, lambda before: _amend_data(store, before, node.path, **changes)
    )
    lacks_reason = valid_fields.get("outcome") == "failed" and not valid_fields.get("reason")
    return result._replace(
        note="; ".join(filter(None, (result.note, *notes))),
        warning="say why, too: the reason is what others learn from" if lacks_reason else "",
    )


def _complete_fields(store: Store, node: Node, valid_fields: dict[str, Any]) -> list[str]:
    """Turn the paths and links of an update into what the record will hold; return notes."""
    notes = []
    if "affects" in valid_fields:
        valid_fields["affects"] = tuple(
            dict.fromkeys(map(store.to_top_path, valid_fields["affects"]))
        )
        notes += store.check_affects(valid_fields["affects"])
    if node.type == DECISION and "text" in valid_fields:
        edges, unknown_notes = resolve_said_edges(store, valid_fields["text"])
        notes += unknown_notes
        for name, ids in edges.items():
            valid_fields[name] = (*valid_fields.get(name, ()), *ids)
    for name in _LINKS & valid_fields.keys():
        old_ids = getattr(store.read(node.path).record, name, ())
        valid_fields[name] = tuple(
            dict.fromkeys((*old_ids, *resolve_ids(store, name, valid_fields[name])))
        )
    return notes


def _validate_fields(values: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields before the record is looked for, on every surface. Raises BadInput."""
    validators = {**fields.FIELDS[OBSERVATION], **fields.FIELDS[DECISION], **fields.COMMON}
    for name, value in values.items():
        if name not in (*_ACCEPTED_FIELDS, *_LINKS) and (
            value is not None or name not in fields.NAMES
        ):
            raise BadInput(
                f"update has no field {name!r}", suggest_choice(name, _ACCEPTED_FIELDS), field=name
            )
    return {
        name: validators[name](name, value) for name, value in values.items() if value is not None
    }


def edit(store: Store, reference: str, data: bytes, before: bytes) -> WriteResult:
    """Replace a record's file, which held `before`, by an edited version, and commit it.

    Raises NotFound; BadInput: it is not readable as this record, or has a secret; Conflict as for
    `update`.
    """
    node, note = store.resolve_name(reference)
    record = _require_edited_record(store, node, data)
    refuse_secrets({"text": data.decode(), "allow_secret": record.secrets_allowed})

    def replace_data(current: bytes) -> bytes:
        if current != before:
            path = store.to_display_path(node.path)
            raise Conflict(f"{path} was changed while you edited it", "edit it again")
        return data

    result = _write_change(store, node, store.config.agent, "edited", replace_data)
    return result._replace(note="; ".join(filter(None, (result.note, note))))


def _require_edited_record(store: Store, node: Node, data: bytes) -> Record:
    """The record as edited. Raises BadInput: it cannot be read, or is another one, or private."""
    path = store.to_display_path(node.path)
    record, problems = parse_record(data, node.path)
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


def _write_change(
    store: Store, node: Node, agent: str, phrase: str, change: Callable[[bytes], bytes]
) -> WriteResult:
    """Write and commit the new bytes of a record's file; `phrase`: the change in a few words."""
    with store.repo.save_lock():
        before, old_record = _read_current(store, node.path)
        data = change(before)
        if data == before and not store.is_edited(node.path):
            message = f"{old_record.id} already says that ({phrase}); nothing was written"
            return build_result(store, old_record, SaveResult(), message)
        edits = (Edit(node.path, data, before),)
        subject = format_commit_message(old_record, phrase, agent)
        save_result = write_edits(store, node.path, old_record.type, lambda: (edits, subject))
    return build_result(store, old_record, save_result, f"Updated {old_record.id}: {phrase}")


def adopt(store: Store, files: Collection[str], was: str = "") -> tuple[WriteResult, ...]:
    """Write ids into files that have none, so that they stay the same records when renamed.

    All come in one commit. `was`: the id or path that the one file had before a rename; references
    to it work again. Raises NotFound; BadInput: a file states an id, or `was` is given for several
    files; Conflict as for `update`.
    """
    if was and len(files) != 1:
        message = "was names the former id or path of one file"
        raise BadInput(message, "adopt the files one by one", field="was")
    former_id = derive_id(store.to_store_path(was)) if was and not was.startswith("file_") else was
    with store.repo.save_lock():
        edits = []
        records = []
        for path in dict.fromkeys(map(store.to_store_path, files)):
            edit, record = _build_id_edit(store, path, former_id)
            edits.append(edit)
            records.append(record)
        count = len(edits)
        phrase = "state its id" if count == 1 else f"state the ids of {count} records"
        message = format_commit_message(records[0], phrase, store.config.agent)
        save_result = write_edits(
            store, records[0].path, records[0].type, lambda: (tuple(edits), message)
        )
    results = []
    for record in records:
        path = store.to_display_path(record.path)
        results.append(
            build_result(store, record, save_result, f"{path} states its id now: {record.id}")
        )
    return tuple(results)


def _build_id_edit(store: Store, path: str, former_id: str) -> tuple[Edit, Record]:
    """The edit that writes an id into a file, the former one if it had one, and its record."""
    before, old_record = _read_current(store, path)
    if old_record.id_stated:
        message = f"{store.to_display_path(path)} already states its id: {old_record.id}"
        raise BadInput(message, field="files")
    created = old_record.created or store.read_dates([path]).get(path) or store.clock()
    id_ = former_id or build_id(old_record.type, created, store.entropy(), old_record.topic)
    data = _amend_data(store, before, path, keys={"id": id_})
    return Edit(path, data, before), parse_record(data, path).record or old_record


def _amend_data(store: Store, before: bytes, path: str, **changes: Any) -> bytes:
    """The bytes of a file with some values changed; errors name the file as shown to people."""
    try:
        after = amend_record(before, path, **changes)
        return (
            before
            if parse_record(after, path).record == parse_record(before, path).record
            else after
        )
    except FilememError as error:
        error.message = error.message.replace(path, store.to_display_path(path), 1)
        raise


def _read_current(store: Store, path: str) -> tuple[bytes, Record]:
    """A file's present bytes and its record. Raises NotFound."""
    data = store.files.read(path)
    record = parse_record(data, path).record
    if record is None:
        message = f"{store.to_display_path(path)} cannot be read as a record"
        raise NotFound(message, "filemem check says why")
    return data, record


def _build_changes(kind: str, valid_fields: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The arguments of `amend`."""
    changes: dict[str, Any] = {name: valid_fields[name] for name in _list_texts(valid_fields)}
    keys = {name: valid_fields[name] for name in _list_keys(kind, valid_fields)}
    if "affects" in valid_fields:
        keys["affects"] = valid_fields["affects"] or None
    if "guards" in valid_fields:
        keys["guards"] = [guard.mapping for guard in valid_fields["guards"]] or None
    if keys:
        changes["keys"] = keys
    if "outcome" in valid_fields:
        changes["outcome"] = Outcome(now, valid_fields["outcome"], valid_fields.get("reason", ""))
    return changes


def _list_texts(valid_fields: Mapping[str, Any]) -> list[str]:
    return [name for name in ("title", "text") if name in valid_fields]


def _list_keys(kind: str, valid_fields: Mapping[str, Any]) -> list[str]:
    """The keys of a header that are stated and that this type has."""
    names = ("status", *(("metadata",) if kind == OBSERVATION else ()), "tags", *_LINKS)
    return [name for name in names if name in valid_fields]


def _format_phrase(kind: str, valid_fields: Mapping[str, Any]) -> str:
    """The change in a few words. Raises BadInput: there is none, or not for this type."""
    outcome = valid_fields.get("outcome")
    reason = valid_fields.get("reason", "")
    _refuse_fields(kind, valid_fields)
    phrases = []
    if outcome is not None:
        phrases.append(f"{outcome}: {reason}" if reason else outcome)
    phrases += [
        valid_fields[name] if name == "status" else name for name in _list_keys(kind, valid_fields)
    ]
    if "affects" in valid_fields:
        phrases.append(f"affects {', '.join(valid_fields['affects']) or 'nothing'}")
    if "guards" in valid_fields:
        phrases.append("guards")
    phrases += [f"{name} revised" for name in _list_texts(valid_fields)]
    if not phrases:
        raise BadInput(
            "nothing to update",
            "give outcome, status, title, text, tags, affects or guards",
            field="outcome",
        )
    return ", ".join(phrases)


def _refuse_fields(kind: str, valid_fields: Mapping[str, Any]) -> None:
    """Refuse what only decisions have, and a reason of nothing."""
    wrong_names = [name for name in _DECISION_FIELDS if name in valid_fields and kind != DECISION]
    if wrong_names:
        message = f"{fields.add_article(kind)} has no {wrong_names[0]}; only decisions do"
        raise BadInput(message, field=wrong_names[0])
    if valid_fields.get("reason") and "outcome" not in valid_fields:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")
