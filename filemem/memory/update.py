"""Change a record in place: every byte of the file stays but those of the lines that change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from filemem.errors import BadInput, Conflict, FilememError, NotFound
from filemem.files import is_listed, is_private
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

    Raises:
        NotFound: there is no such record.
        BadInput: there is nothing to change, or the type does not have a field.
        Conflict: the file has uncommitted edits, or the repository is busy.
    """
    valid_fields = _validate_fields(values)
    agent = valid_fields.pop("agent", "") or store.config.agent
    node, name_note = store.resolve_name(reference)
    notes = _complete_fields(store, node, valid_fields)
    phrase = _format_phrase(node.type, valid_fields)
    changes = _build_changes(node.type, valid_fields, store.clock())
    if refuse_secrets(valid_fields):
        changes.setdefault("keys", {})["secrets"] = SECRETS_ALLOWED

    def build_data(before: bytes) -> bytes:
        return _amend_data(store, before, node.path, **changes)

    result = _write_change(store, node, agent, phrase, build_data)
    all_notes = [result.note, name_note, *notes]
    result = result._replace(note="; ".join(note for note in all_notes if note))
    if valid_fields.get("outcome") == "failed" and not valid_fields.get("reason"):
        warning = "say why, too: the reason is what others learn from"
        result = result._replace(warning=warning)
    return result


def _complete_fields(store: Store, node: Node, valid_fields: dict[str, Any]) -> list[str]:
    """Resolve the paths and links of an update as the record states them; return notes."""
    notes: list[str] = []
    if "affects" in valid_fields:
        paths = dict.fromkeys(store.to_top_path(path) for path in valid_fields["affects"])
        valid_fields["affects"] = tuple(paths)
        notes += store.check_affects(paths)
    if node.type == DECISION and "text" in valid_fields:
        edges, unknown_notes = resolve_said_edges(store, valid_fields["text"])
        notes += unknown_notes
        for name, ids in edges.items():
            stated_ids = valid_fields.get(name, ())
            valid_fields[name] = (*stated_ids, *ids)
    _add_old_links(store, node, valid_fields)
    return notes


def _add_old_links(store: Store, node: Node, valid_fields: dict[str, Any]) -> None:
    """Resolve the links of an update and put those of the record before them."""
    for name in _LINKS & valid_fields.keys():
        record = store.read(node.path).record
        old_ids = getattr(record, name, ())
        new_ids = resolve_ids(store, name, valid_fields[name])
        ids = dict.fromkeys((*old_ids, *new_ids))
        valid_fields[name] = tuple(ids)


def _validate_fields(values: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields of an update, before the record is searched for. Raises BadInput."""
    validators = fields.FIELDS[OBSERVATION] | fields.FIELDS[DECISION] | fields.COMMON
    valid_fields: dict[str, Any] = {}
    for name, value in values.items():
        is_unset = value is None and name in fields.NAMES
        if name not in _ACCEPTED_FIELDS and name not in _LINKS and not is_unset:
            hint = suggest_choice(name, _ACCEPTED_FIELDS)
            raise BadInput(f"update has no field {name!r}", hint, field=name)
    for name, value in values.items():
        if value is not None:
            valid_fields[name] = validators[name](name, value)
    return valid_fields


def edit(store: Store, reference: str, data: bytes, before: bytes) -> WriteResult:
    """Replace a record's file, which held `before`, by an edited version, and commit it.

    Raises NotFound; BadInput: it is not readable as this record, or has a secret; Conflict as for
    `update`.
    """
    node, name_note = store.resolve_name(reference)
    record = _require_edited_record(store, node, data)
    refuse_secrets({"text": data.decode(), "allow_secret": record.secrets_allowed})

    def replace_data(current: bytes) -> bytes:
        if current != before:
            path = store.to_display_path(node.path)
            raise Conflict(f"{path} was changed while you edited it", "edit it again")
        return data

    result = _write_change(store, node, store.config.agent, "edited", replace_data)
    notes = (result.note, name_note)
    return result._replace(note="; ".join(note for note in notes if note))


def _require_edited_record(store: Store, node: Node, data: bytes) -> Record:
    """Read a record as edited. Raises BadInput: it is invalid, another one, or private now."""
    path = store.to_display_path(node.path)
    record, problems = parse_record(data, node.path)
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        message = f"{path}:{errors[0].line}: {errors[0].message}"
        raise BadInput(message, "nothing was saved", field="data")
    if record is None or record.id != node.id or record.type != node.type:
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

        def plan_edits() -> tuple[tuple[Edit, ...], str]:
            return edits, subject

        save_result = write_edits(store, node.path, old_record.type, plan_edits)
    return build_result(store, old_record, save_result, f"Updated {old_record.id}: {phrase}")


def adopt(store: Store, files: Collection[str], was: str = "") -> tuple[WriteResult, ...]:
    """Write ids into files without one, so that they can be renamed; all in one commit.

    Args:
        store: the memory.
        files: paths of records.
        was: the id or path of the one file before a rename; references to it work again.

    Raises:
        NotFound: a file is not a record.
        BadInput: a file states an id, or `was` is given for several files.
        Conflict: as for `update`.
    """
    if was and len(files) != 1:
        message = "was names the former id or path of one file"
        raise BadInput(message, "adopt the files one by one", field="was")
    former_id = was
    if was and not was.startswith("file_"):
        former_id = derive_id(store.to_store_path(was))
    edits: list[Edit] = []
    records: list[Record] = []
    with store.repo.save_lock():
        for path in dict.fromkeys(store.to_store_path(file) for file in files):
            edit, record = _build_id_edit(store, path, former_id)
            edits.append(edit)
            records.append(record)
        first = records[0]
        count = len(edits)
        phrase = "state its id" if count == 1 else f"state the ids of {count} records"
        subject = format_commit_message(first, phrase, store.config.agent)

        def plan_edits() -> tuple[tuple[Edit, ...], str]:
            return tuple(edits), subject

        save_result = write_edits(store, first.path, first.type, plan_edits)
    results: list[WriteResult] = []
    for record in records:
        path = store.to_display_path(record.path)
        message = f"{path} states its id now: {record.id}"
        results.append(build_result(store, record, save_result, message))
    return tuple(results)


def _build_id_edit(store: Store, path: str, former_id: str) -> tuple[Edit, Record]:
    """Build the edit that writes an id into a file, the former one if given, and its record."""
    if not is_listed(path):
        message = f"{store.to_display_path(path)} is not read as a record"
        raise NotFound(message, "name the file of a record; `filemem check` lists what is wrong")
    before, old_record = _read_current(store, path)
    if old_record.id_stated:
        message = f"{store.to_display_path(path)} already states its id: {old_record.id}"
        raise BadInput(message, field="files")
    created = old_record.created
    if not created:
        created = store.read_dates([path]).get(path) or store.clock()
    new_id = former_id or build_id(old_record.type, created, store.entropy(), old_record.topic)
    data = _amend_data(store, before, path, keys={"id": new_id})
    record = parse_record(data, path).record or old_record
    return Edit(path, data, before), record


def _amend_data(store: Store, before: bytes, path: str, **changes: Any) -> bytes:
    """Return the bytes of a file with some values changed; errors name the file as users see it."""
    try:
        after = amend_record(before, path, **changes)
        is_same = parse_record(after, path).record == parse_record(before, path).record
    except FilememError as error:
        error.message = error.message.replace(path, store.to_display_path(path), 1)
        raise
    return before if is_same else after


def _read_current(store: Store, path: str) -> tuple[bytes, Record]:
    """Read the current bytes of a file and its record. Raises NotFound."""
    data = store.files.read(path)
    record = parse_record(data, path).record
    if record is None:
        message = f"{store.to_display_path(path)} cannot be read as a record"
        raise NotFound(message, "filemem check says why")
    return data, record


def _build_changes(kind: str, valid_fields: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Build the arguments of `amend_record`."""
    changes: dict[str, Any] = {}
    for name in _list_texts(valid_fields):
        changes[name] = valid_fields[name]
    keys = _build_keys(kind, valid_fields)
    if keys:
        changes["keys"] = keys
    outcome = valid_fields.get("outcome")
    if outcome is not None:
        reason = valid_fields.get("reason", "")
        changes["outcome"] = Outcome(now, outcome, reason)
    return changes


def _build_keys(kind: str, valid_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Build the changed keys of the header; None removes a key."""
    keys: dict[str, Any] = {}
    for name in _list_keys(kind, valid_fields):
        keys[name] = valid_fields[name]
    if "affects" in valid_fields:
        keys["affects"] = valid_fields["affects"] or None
    if "guards" in valid_fields:
        mappings = [guard.mapping for guard in valid_fields["guards"]]
        keys["guards"] = mappings or None
    return keys


def _list_texts(valid_fields: Mapping[str, Any]) -> list[str]:
    return [name for name in ("title", "text") if name in valid_fields]


def _list_keys(kind: str, valid_fields: Mapping[str, Any]) -> list[str]:
    """List the stated keys of a header that this type has."""
    names = ["status"]
    if kind == OBSERVATION:
        names.append("metadata")
    names += ["tags", *_LINKS]
    return [name for name in names if name in valid_fields]


def _format_phrase(kind: str, valid_fields: Mapping[str, Any]) -> str:
    """Describe the change in a few words.

    Raises BadInput: there is none, or the type does not have a field.
    """
    _refuse_fields(kind, valid_fields)
    outcome = valid_fields.get("outcome")
    reason = valid_fields.get("reason", "")
    phrases: list[str] = []
    if outcome is not None:
        phrases.append(f"{outcome}: {reason}" if reason else outcome)
    for name in _list_keys(kind, valid_fields):
        phrase = valid_fields[name] if name == "status" else name
        phrases.append(phrase)
    if "affects" in valid_fields:
        paths = ", ".join(valid_fields["affects"])
        phrases.append(f"affects {paths or 'nothing'}")
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
    """Refuse decision fields of other types, and a reason without an outcome."""
    if kind != DECISION:
        for name in _DECISION_FIELDS:
            if name in valid_fields:
                article = fields.add_article(kind)
                raise BadInput(f"{article} has no {name}; only decisions do", field=name)
    if valid_fields.get("reason") and "outcome" not in valid_fields:
        message = "a reason needs the outcome it explains"
        raise BadInput(message, "give outcome as well", field="outcome")
