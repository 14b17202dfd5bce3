"""From the fields a caller gives to the record that will be written. Strict: what is wrong is named and refused.

One table says which fields each type takes and how each is checked; the type itself is told apart by the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filemem.errors import BadInput
from filemem.memory.arguments import (
    Check,
    flag,
    fraction,
    line,
    lines,
    mapping,
    one_of,
    outcome,
    shown,
    takes,
    text,
    words,
)
from filemem.record import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
    Outcome,
    Record,
    cut,
    new_id,
)

HEADING = 100  # characters of a heading made from a longer text (docs/format.md)

_COMMON: dict[str, Check] = {"tags": words, "agent": line, "session": line, "source": line}
FIELDS: dict[str, dict[str, Check]] = {
    DECISION: {
        "topic": line,
        "decision": text,
        "reasoning": text,
        "confidence": fraction,
        "status": one_of(STATUSES),
        "outcome": outcome,
        "reason": line,  # of the outcome
        "limitation": line,
        "decided_by": one_of(DECIDERS),
        "supersedes": lines,
        "builds_on": lines,
        "debates": lines,
        "synthesizes": lines,
        "affects": lines,
        "rejected": lines,
    },
    CHECKPOINT: {"summary": text, "next_steps": text, "open_files": lines, "branch": line},
    OBSERVATION: {
        "title": line,
        "text": text,
        "kind": one_of(KINDS),
        "project": line,
        "facts": lines,
        "concepts": words,
        "files_read": lines,
        "files_modified": lines,
        "department": line,
        "visibility": one_of(VISIBILITIES),
        "user_id": line,
        "agent_id": line,
        "run_id": line,
        "scope": line,
        "memory_type": line,
        "metadata": mapping,
    },
}
_NAMES = {"type", "allow_secret", *_COMMON}.union(*FIELDS.values())
_REQUIRED = {DECISION: ("topic", "decision", "reasoning"), CHECKPOINT: ("summary",), OBSERVATION: ("text",)}
_SIGNS = (  # the field that tells a type, asked in this order
    ("summary", CHECKPOINT),
    ("text", OBSERVATION),
    ("title", OBSERVATION),
    ("decision", DECISION),
    ("topic", DECISION),
)
_ALIASES = {"memory_session_id": "session"}


def type_of(fields: Mapping[str, object]) -> str:
    """Tell decision, checkpoint and observation apart by `type` or by the fields that are there.

    Raises:
        BadInput: nothing tells.
    """
    stated = fields.get("type")
    told = next((kind for sign, kind in _SIGNS if fields.get(sign) is not None), None)
    if stated is None and told:
        return told
    if stated in TYPES and (stated != DECISION or told != OBSERVATION):
        return str(stated)
    if stated in KINDS and told in (OBSERVATION, None):
        return OBSERVATION
    raise BadInput(
        f"type must be one of {', '.join(TYPES)}, not {shown(stated)}" if stated is not None else "nothing to save",
        "a decision has topic, decision and reasoning; a checkpoint has summary; an observation has title and text",
        field="type",
    )


def check(fields: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Check every field of a save and say which type it is.

    Returns:
        The record type and the checked fields; absent and null ones are left out.

    Raises:
        BadInput: the first thing that is wrong, with its field.
    """
    named = {_ALIASES.get(name, name): value for name, value in fields.items()}
    given = {name: value for name, value in named.items() if value is not None}
    kind = type_of(given)
    if (stated := given.pop("type", None)) not in (None, *TYPES) or (stated == DECISION and kind == OBSERVATION):
        given.setdefault("kind", stated)
    known = {**FIELDS[kind], **_COMMON, "allow_secret": flag}
    for name in named:
        if name not in known and (name in given or name not in _NAMES):
            raise BadInput(f"{article(kind)} has no field {name!r}", _other(name, kind, given, known), field=name)
    checked = {name: known[name](name, value) for name, value in given.items()}
    if lacking := missing(kind, checked):
        told = " and ".join((", ".join(lacking[:-1]), lacking[-1])) if len(lacking) > 1 else lacking[0]
        raise BadInput(f"{article(kind)} needs {told}", f"give {', '.join(_REQUIRED[kind])}", field=lacking[0])
    if "reason" in checked and "outcome" not in checked:
        raise BadInput("a reason needs the outcome it explains", "give outcome as well", field="outcome")
    return kind, checked


_REVISED = ("outcome", "reason", "status", "title", "text", "tags", "metadata", "agent", "allow_secret")


def revised(fields: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields of an update; null ones are left out.

    Raises:
        BadInput: all that is wrong with them; also one that an update does not take.
    """
    known = {**FIELDS[OBSERVATION], **FIELDS[DECISION], **_COMMON, "allow_secret": flag}
    given = {name: value for name, value in fields.items() if value is not None}
    wrong: list[BadInput] = []
    for name in fields:
        try:
            if name not in _REVISED and (name in given or name not in _NAMES):
                raise BadInput(f"update has no field {name!r}", takes(name, _REVISED), field=name)
            if name in given:
                given[name] = known[name](name, given[name])
        except BadInput as error:
            wrong.append(error)
    if len(wrong) > 1:
        raise BadInput("; ".join(error.message for error in wrong), wrong[0].hint, field=wrong[0].field)
    if wrong:
        raise wrong[0]
    return given


def amendments(kind: str, given: Mapping[str, Any], now: int) -> tuple[dict[str, Any], str]:
    """The arguments of `amend`, and what they do in a few words.

    Args:
        kind: record type.
        given: what `revised` returned.
        now: epoch milliseconds.

    Raises:
        BadInput: nothing to change, or a field that this type does not take.
    """
    outcome, reason = given.get("outcome"), given.get("reason", "")
    changes: dict[str, Any] = {}
    told: list[str] = []
    keys: dict[str, object] = {}
    if kind != DECISION and (wrong := next((name for name in ("outcome", "reason", "status") if name in given), None)):
        raise BadInput(f"{article(kind)} has no {wrong}; only decisions do", field=wrong)
    if outcome is not None:
        changes["outcome"] = Outcome(now, outcome, reason)
        told.append(f"{outcome}: {reason}" if reason else outcome)
    elif reason:
        raise BadInput("a reason needs the outcome it explains", "give outcome as well", field="outcome")
    if "status" in given:
        keys["status"] = given["status"]
        told.append(given["status"])
    if "tags" in given:
        keys["tags"] = list(given["tags"])
        told.append("tags")
    if "metadata" in given and kind == OBSERVATION:
        keys["metadata"] = given["metadata"]
        told.append("metadata")
    if keys:
        changes["keys"] = keys
    for name in ("title", "text"):
        if name in given:
            changes[name] = given[name]
            told.append(f"{name} revised")
    if not changes:
        raise BadInput("nothing to update", "give outcome and reason, status, title, text or tags", field="outcome")
    return changes, ", ".join(told)


def missing(kind: str, fields: Mapping[str, object]) -> list[str]:
    """The fields that a record of a type must have and that are not given, or blank."""
    return [name for name in _REQUIRED[kind] if not str(fields.get(name) or "").strip()]


def article(kind: str) -> str:
    """A record type with its article."""
    return f"an {kind}" if kind == OBSERVATION else f"a {kind}"


def _other(name: str, kind: str, given: Mapping[str, object], known: Iterable[str]) -> str:
    """What to do about a field that a type does not have: it is another type's, or a misspelling."""
    owner = next((other for other, fields in FIELDS.items() if name in fields), None)
    sign = next((sign for sign, told in _SIGNS if told == kind and sign in given), "type")
    if owner:
        return f"{sign} makes this {article(kind)}; leave it out for {article(owner)}, or save twice"
    return takes(name, known)


def heading(whole: str) -> str:
    """The heading for a text: its first line that is not blank, cut to HEADING characters."""
    first = next((stripped for row in whole.splitlines() if (stripped := " ".join(row.split()))), "")
    return cut(first, HEADING)


def compose(kind: str, fields: Mapping[str, Any], now: int, entropy: bytes) -> Record:
    """Build the record for checked fields.

    Args:
        kind: record type.
        fields: what `check` returned, references already resolved to ids.
        now: epoch milliseconds.
        entropy: at least five random bytes for the id.
    """
    aside = ("allow_secret", "reasoning", "summary", "reason")
    values = {name: value for name, value in fields.items() if name not in aside}
    if kind == DECISION:
        values["title"] = heading(fields["decision"])
        values["text"] = fields["reasoning"]
        values["topic_stated"] = True
        values.setdefault("supersedes", ())
        if values.get("outcome", OUTCOMES[0]) != OUTCOMES[0]:
            values["outcomes"] = (Outcome(now, values["outcome"], fields.get("reason", "")),)
    elif kind == CHECKPOINT:
        values["title"] = heading(fields["summary"])
        values["text"] = "" if fields["summary"] == values["title"] else fields["summary"]
    else:
        values.setdefault("kind", "discovery")
        title = values.get("title") or heading(fields["text"])
        values["text"] = "" if fields["text"] == title and not values.get("title") else fields["text"]
        values["title"] = title
    record_id = new_id(kind, now, entropy, str(values.get("topic", "")))
    return Record(id=record_id, type=kind, created=now, **values)
