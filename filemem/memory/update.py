"""Change a record in place: only the lines that must change do; every other byte of the file stays."""

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

_TAKEN = (
    "outcome",
    "reason",
    "status",
    "title",
    "text",
    "tags",
    "affects",
    "guards",
    "metadata",
    "agent",
    "allow_secret",
)
_LINKS = {
    "builds_on",
    "debates",
    "synthesizes",
}  # what a decision supersedes is said when it is saved


def update(store: Store, reference: str, given: Mapping[str, object]) -> Saved:
    """Append an outcome, or change status, heading or fields of one record, or link it.

    Raises NotFound; BadInput: nothing to change, or a field that this type does not take; Conflict: the file has edits
    that are not committed, or cannot be amended as it is, or the repository is busy.
    """
    checked = _checked(given)
    agent = checked.pop("agent", "") or store.config.agent
    node, note = store.named(reference)
    notes = [note] if note else []
    if "affects" in checked:
        checked["affects"] = tuple(dict.fromkeys(map(store.from_top, checked["affects"])))
        notes += store.unmet(checked["affects"])
    if node.type == DECISION and "text" in checked:
        edges, unknown = edges_said(store, checked["text"])
        notes += unknown
        for name, ids in edges.items():
            checked[name] = (*checked.get(name, ()), *ids)
    for name in _LINKS & checked.keys():
        stated = getattr(store.read(node.path).record, name, ())
        checked[name] = tuple(dict.fromkeys((*stated, *ids_of(store, name, checked[name]))))
    changes, change = _changes(node.type, checked, store.clock())
    if refuse_secrets(checked):
        changes["keys"] = {**changes.get("keys", {}), "secrets": SECRETS_ALLOWED}
    done = _put(
        store, node, agent, change, lambda before: _amended(store, before, node.path, **changes)
    )
    unsaid = checked.get("outcome") == "failed" and not checked.get("reason")
    return done._replace(
        note="; ".join((*filter(None, [done.note]), *notes)),
        warning="say why, too: the reason is what others learn from" if unsaid else "",
    )


def _checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields before the record is looked for, on every surface. Raises BadInput."""
    known = {**fields.FIELDS[OBSERVATION], **fields.FIELDS[DECISION], **fields.COMMON}
    for name, value in given.items():
        if name not in (*_TAKEN, *_LINKS) and (value is not None or name not in fields.NAMES):
            raise BadInput(f"update has no field {name!r}", suggest(name, _TAKEN), field=name)
    return {name: known[name](name, value) for name, value in given.items() if value is not None}


def edit(store: Store, reference: str, data: bytes, before: bytes) -> Saved:
    """Replace a record's file, which held `before`, by an edited version, and commit it.

    Raises NotFound; BadInput: it is not readable as this record, or has a secret; Conflict as for `update`.
    """
    node, note = store.named(reference)
    record, problems = parse(data, node.path)
    if wrong := next((one for one in problems if one.level == "error"), None):
        raise BadInput(
            f"{store.display_path(node.path)}:{wrong.line}: {wrong.message}",
            "nothing was saved",
            field="data",
        )
    if record is None or (record.id, record.type) != (node.id, node.type):
        raise BadInput(
            f"{store.display_path(node.path)} has another id or type",
            "nothing was saved: keep these two",
            "data",
        )
    if record.visibility == "private" and not is_private(node.path):
        raise BadInput(
            "a committed record cannot become private",
            "save it again as private; forget this one",
            "data",
        )
    refuse_secrets(
        {"text": data.decode(), "allow_secret": record is not None and record.secrets_allowed}
    )

    def edited(now: bytes) -> bytes:
        if now != before:
            raise Conflict(
                f"{store.display_path(node.path)} was changed while you edited it", "edit it again"
            )
        return data

    done = _put(store, node, store.config.agent, "edited", edited)
    return done._replace(note="; ".join(filter(None, (done.note, note))))


def _put(
    store: Store, node: Node, agent: str, told: str, changed: Callable[[bytes], bytes]
) -> Saved:
    """Write and commit the new bytes of a record's file; `told`: the change in a few words."""
    with store.repo.saving():
        before, old = _as_it_is(store, node.path)
        data = changed(before)
        if data == before and not store.edited(node.path):
            return answer(
                store, old, Made(), f"{old.id} already says that ({told}); nothing was written"
            )
        message = message_of(old, told, agent)
        made = write(
            store, node.path, old.type, lambda: ((Edit(node.path, data, before),), message)
        )
    return answer(store, old, made, f"Updated {old.id}: {told}")


def adopt(store: Store, files: Collection[str], was: str = "") -> tuple[Saved, ...]:
    """Write ids into files that have none, so that they stay the same records when renamed; one commit for all.

    `was`: the id or path that the one file had before a rename; references to it work again. Raises NotFound;
    BadInput: a file states an id, or `was` is given for several files; Conflict as for `update`.
    """
    if was and len(files) != 1:
        raise BadInput(
            "was names the former id or path of one file", "adopt the files one by one", field="was"
        )
    edits, adopted = [], []
    with store.repo.saving():
        for path in dict.fromkeys(map(store.store_path, files)):
            before, old = _as_it_is(store, path)
            if old.id_stated:
                raise BadInput(
                    f"{store.display_path(path)} already states its id: {old.id}", field="files"
                )
            created = old.created or store.dates([path]).get(path) or store.clock()
            fresh = new_id(old.type, created, store.entropy(), old.topic)
            former = (
                was if was.startswith("file_") else derived_id(store.store_path(was)) if was else ""
            )
            data = _amended(store, before, path, keys={"id": former or fresh})
            edits.append(Edit(path, data, before))
            adopted.append(parse(data, path).record or old)
        told = "state its id" if len(edits) == 1 else f"state the ids of {len(edits)} records"
        message = message_of(adopted[0], told, store.config.agent)
        made = write(store, adopted[0].path, adopted[0].type, lambda: (tuple(edits), message))
    return tuple(
        answer(store, one, made, f"{store.display_path(one.path)} states its id now: {one.id}")
        for one in adopted
    )


def _amended(store: Store, before: bytes, path: str, **changes: Any) -> bytes:
    """The bytes of a file with some values changed; errors name the file as shown to people."""
    try:
        after = amend(before, path, **changes)
        return before if parse(after, path).record == parse(before, path).record else after
    except FilememError as error:
        error.message = error.message.replace(path, store.display_path(path), 1)
        raise


def _as_it_is(store: Store, path: str) -> tuple[bytes, Record]:
    """A file's present bytes and its record. Raises NotFound."""
    data = store.files.read(path)
    if (found := parse(data, path).record) is None:
        raise NotFound(
            f"{store.display_path(path)} cannot be read as a record", "filemem check says why"
        )
    return data, found


def _changes(kind: str, given: Mapping[str, Any], now: int) -> tuple[dict[str, Any], str]:
    """The arguments of `amend`, and the change in a few words. Raises BadInput: no change, or not for this type."""
    result, reason = given.get("outcome"), given.get("reason", "")
    only = ("outcome", "reason", "status", "affects", "guards", *_LINKS)
    if kind != DECISION and (wrong := next((name for name in only if name in given), None)):
        raise BadInput(f"{fields.article(kind)} has no {wrong}; only decisions do", field=wrong)
    if reason and result is None:
        raise BadInput(
            "a reason needs the outcome it explains", "give outcome as well", field="outcome"
        )
    changes: dict[str, Any] = {name: given[name] for name in ("title", "text") if name in given}
    keys = {name: given[name] for name in ("status", "metadata", "tags", *_LINKS) if name in given}
    if kind != OBSERVATION:
        keys.pop("metadata", None)
    told = [str(value) if name == "status" else name for name, value in keys.items()]
    if "affects" in given:
        keys["affects"] = given["affects"] or None
        told.append(f"affects {', '.join(given['affects']) or 'nothing'}")
    if "guards" in given:
        keys["guards"] = [guard.plain for guard in given["guards"]] or None
        told.append("guards")
    told += [f"{name} revised" for name in changes]
    if keys:
        changes["keys"] = keys
    if result is not None:
        changes["outcome"] = Outcome(now, result, reason)
        told.insert(0, f"{result}: {reason}" if reason else result)
    if not changes:
        raise BadInput(
            "nothing to update",
            "give outcome, status, title, text, tags, affects or guards",
            field="outcome",
        )
    return changes, ", ".join(told)
