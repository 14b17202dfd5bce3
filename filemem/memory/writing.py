"""From the fields a caller gives to the record that will be written. Strict: what is wrong is named and refused.

One table says which fields each type takes and how each is checked; the type itself is told apart by the fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from filemem.errors import BadInput
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
    new_id,
)

LINE, TEXT = 500, 100_000  # characters of a one-line field and of a free text
ITEMS = 200  # entries of a list
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"
HEADING = 100  # characters of a heading made from a longer text (docs/format.md)

_OUTCOME_WORDS = {"failure": "failed", "fail": "failed", "succeeded": "success", **{word: word for word in OUTCOMES}}

Check = Callable[[str, object], object]


def outcome_word(value: object, field: str = "outcome") -> str:
    """Read an outcome in any case, `failure` for `failed` included.

    Raises:
        BadInput: another word.
    """
    word = _OUTCOME_WORDS.get(str(value).strip().casefold())
    if word is None or not isinstance(value, str):
        raise BadInput(f"{field} must be one of {', '.join(OUTCOMES)}, not {_shown(value)}", field=field)
    return word


def text(field: str, value: object, limit: int = TEXT) -> str:
    """Check a free text.

    Raises:
        BadInput: not text, longer than `limit` characters, or holding NUL or other control characters.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be text, not {_shown(value)}", field=field)
    clean = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if len(clean) > limit:
        kept, instead = ("line", "") if limit == LINE else ("text", ", or split it into several records")
        instead = ", or split it into several entries" if field.endswith("]") else instead
        told = f"{field} has {len(clean):,} characters; at most {limit:,} are kept in one {kept}"
        raise BadInput(told, f"shorten it{instead}", field=field)
    if not clean.isprintable() and (bad := re.search(_CONTROL, clean)):
        if "\udc80" <= bad[0] <= "\udcff":  # how Python keeps a byte that is not UTF-8
            told = f"{field} is not UTF-8: it holds the byte {ord(bad[0]) - 0xDC00:#04x}"
            raise BadInput(told, "send it as UTF-8", field=field)
        raise BadInput(f"{field} holds the control character U+{ord(bad[0]):04X}", "remove it", field=field)
    return clean


def line(field: str, value: object) -> str:
    """Check a text of one line: runs of white space, newlines included, become one space.

    Raises:
        BadInput: as for `text`, at most LINE characters.
    """
    return " ".join(text(field, value, LINE).split())


def lines(field: str, value: object) -> tuple[str, ...]:
    """Check a list of one-line texts; a single text counts as a list of one.

    Raises:
        BadInput: as for `line`, or more than ITEMS entries.
    """
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {_shown(value)}", field=field)
    if len(values) > ITEMS:
        raise BadInput(f"{field} has {len(values):,} entries; at most {ITEMS} are kept", field=field)
    return tuple(item for item in (line(f"{field}[{i}]", entry) for i, entry in enumerate(values)) if item)


def words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as it is in a file (docs/format.md).

    Raises:
        BadInput: as for `lines`.
    """
    return lines(field, value.split(",") if isinstance(value, str) else value)


def _one_of(words: tuple[str, ...]) -> Check:
    def check(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in words:
            raise BadInput(f"{field} must be one of {', '.join(words)}, not {_shown(value)}", field=field)
        return word

    return check


def _fraction(field: str, value: object) -> float:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        raise BadInput(f"{field} must be a number between 0 and 1, not {_shown(value)}", field=field)
    return float(number)


def _outcome(field: str, value: object) -> str:
    return outcome_word(value, field)


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {_shown(value)}", field=field)
    return value


def _mapping(field: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"{field} must be a mapping with text keys, not {_shown(value)}", field=field)
    if len(str(value)) > TEXT:
        raise BadInput(f"{field} is larger than {TEXT:,} characters", field=field)
    return value


_COMMON: dict[str, Check] = {"tags": words, "agent": line, "session": line, "source": line}
FIELDS: dict[str, dict[str, Check]] = {
    DECISION: {
        "topic": line,
        "decision": text,
        "reasoning": text,
        "confidence": _fraction,
        "status": _one_of(STATUSES),
        "outcome": _outcome,
        "reason": line,  # of the outcome
        "limitation": line,
        "decided_by": _one_of(DECIDERS),
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
        "kind": _one_of(KINDS),
        "project": line,
        "facts": lines,
        "concepts": words,
        "files_read": lines,
        "files_modified": lines,
        "department": line,
        "visibility": _one_of(VISIBILITIES),
        "user_id": line,
        "agent_id": line,
        "run_id": line,
        "scope": line,
        "memory_type": line,
        "metadata": _mapping,
    },
}
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
        f"type must be one of {', '.join(TYPES)}, not {_shown(stated)}" if stated else "nothing to save",
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
    given = {_ALIASES.get(name, name): value for name, value in fields.items() if value is not None}
    kind = type_of(given)
    if (stated := given.pop("type", None)) not in (None, *TYPES) or (stated == DECISION and kind == OBSERVATION):
        given.setdefault("kind", stated)
    known = {**FIELDS[kind], **_COMMON, "allow_secret": _flag}
    for name in given:
        if name not in known:
            raise BadInput(f"{article(kind)} has no field {name!r}", _other(name, kind, given, known), field=name)
    checked = {name: known[name](name, value) for name, value in given.items()}
    if lacking := missing(kind, checked):
        told = " and ".join((", ".join(lacking[:-1]), lacking[-1])) if len(lacking) > 1 else lacking[0]
        raise BadInput(f"{article(kind)} needs {told}", f"give {', '.join(_REQUIRED[kind])}", field=lacking[0])
    if "reason" in checked and "outcome" not in checked:
        raise BadInput("a reason needs the outcome it explains", "give outcome as well", field="outcome")
    return kind, checked


_REVISED = ("outcome", "reason", "status", "title", "text", "tags", "metadata", "agent")


def revised(fields: Mapping[str, object]) -> dict[str, Any]:
    """Check the fields of an update; null ones are left out, and those that it does not take stay as they are.

    Raises:
        BadInput: all that is wrong with them.
    """
    known = {**FIELDS[OBSERVATION], **FIELDS[DECISION], **_COMMON}
    given = {name: value for name, value in fields.items() if value is not None}
    wrong: list[BadInput] = []
    for name in _REVISED:
        if name in given:
            try:
                given[name] = known[name](name, given[name])
            except BadInput as error:
                wrong.append(error)
    if len(wrong) > 1:
        raise BadInput("; ".join(error.message for error in wrong), wrong[0].hint, field=wrong[0].field)
    if wrong:
        raise wrong[0]
    return given


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
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"


def heading(whole: str) -> str:
    """The heading for a text: its first line that is not blank, cut to HEADING characters."""
    first = next((stripped for row in whole.splitlines() if (stripped := " ".join(row.split()))), "")
    return first if len(first) <= HEADING else first[: HEADING - 1].rstrip() + "…"


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


def _shown(value: object) -> str:
    """A short picture of a wrong value for a message."""
    if value is None:
        return "nothing"
    picture = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return picture if len(picture) <= 60 else picture[:59] + "…"
