"""Call a tool: check its arguments, once for every transport, and word failures as the dialect does.

A tool gets only arguments that satisfy its schema; nulls are dropped, since programs send them for absent arguments.
Answers of tools that search or list are cut to the dialect's budget. Any exception but FilememError is a defect and is
not caught.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.dialects import shapes
from filemem.dialects.present import around
from filemem.dialects.tool import Answer, Dialect, Payload, Tool, tool_of
from filemem.errors import BadInput, FilememError
from filemem.hints import suggest
from filemem.record import cut, schema
from filemem.record.visibility import EVERYBODY

if TYPE_CHECKING:
    from filemem.memory import Memory

MAX_DEPTH = 32  # nesting of arguments; what walks them later may recurse


class Reply(NamedTuple):
    """The answer of a tool: an object or text, whether it is a failure, and the object as readable text."""

    payload: Payload
    is_error: bool
    text: str = ""


def call(dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]) -> Reply:
    """Call one tool of a dialect."""
    try:
        listed, (dialect, tool) = dialect, tool_of(dialect, name)
        if dialect is not listed:  # a tool of another profile sees what everybody does
            memory = memory.seen_by(EVERYBODY)
        values, note = checked(tool, arguments)
        answer = noted(tool.call(memory, values), note)
        if tool.cut and not isinstance(answer, str):
            # More for more results than the default, and twice as much where detail is asked for.
            usual = tool.input_schema["properties"].get("limit", {}).get("default", 0)
            wanted = max(values.get("limit", usual), usual) / usual if usual else 1
            budget = int(dialect.budget * wanted * (2 if values.get("detail") else 1))
            answer = within(answer, budget, dialect.whole)
        words = readable(answer) if dialect.readable and not isinstance(answer, str) else ""
        return Reply(answer, is_error=False, text=words)
    except FilememError as error:
        return Reply(dialect.failure(error), is_error=True)


def perform(
    dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]
) -> Payload:
    """Call one tool as `call` does, but raise FilememError."""
    tool = tool_of(dialect, name)[1]
    return tool.call(memory, checked(tool, arguments).arguments)


class Checked(NamedTuple):
    """Arguments that satisfy a tool's schema, and a note for the caller of what was changed."""

    arguments: dict[str, Any]
    note: str


def checked(tool: Tool, arguments: Mapping[str, object]) -> Checked:
    """The arguments without nulls, with 55.0 as 55, and in the shapes that the tool takes.

    Raises BadInput if they do not satisfy the tool's schema all the same.
    """
    known: Mapping[str, Any] = tool.input_schema.get("properties", {})
    stated = {name: value for name, value in arguments.items() if value is not None}
    given = shapes.fitted(known, stated)
    _check_values(given)
    strange = [name for name in given if name not in known]
    if (
        strange and tool.input_schema.get("additionalProperties") is False
    ):  # the likely name is worth more than this
        name = strange[0]
        raise BadInput(
            f"{tool.name} has no argument {name[:64]!r}", suggest(name, known), field=name[:64]
        )
    given, note = shapes.limited(known, given)
    if complaints := schema.errors(tool.input_schema, given):
        named = (
            said if said.startswith(field) else f"{field}: {said}" for field, said in complaints[:3]
        )
        field = complaints[0][0]
        name = re.split(r"[.\[]", field)[0]
        example = shapes.example(name, known.get(name, {})) if name in given else ""
        raise BadInput(
            "; ".join(named), f"{example}correct it and call {tool.name} again", field=field
        )
    integral = {
        k: int(v)
        for k, v in given.items()
        if isinstance(v, float) and v.is_integer() and abs(v) < 2**53
    }
    return Checked({**given, **integral}, note)


def noted(answer: Payload, note: str) -> Payload:
    """An answer that says what was changed in the arguments too."""
    if not note:
        return answer
    if isinstance(answer, str):
        return f"{answer}\n\nNote: {note}"
    return answer | {"note": "; ".join(filter(None, (str(answer.get("note", "")), note)))}


def _check_values(arguments: Mapping[str, object]) -> None:
    """Refuse what no file can hold: NUL, lone surrogates, huge numbers, deep nesting. Raises BadInput."""
    waiting: list[tuple[str, object, int]] = [("", arguments, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            field = path.split(".")[0].split("[")[0]
            raise BadInput(
                f"{field}: nested deeper than {MAX_DEPTH} levels", "send it flat, or as text", field
            )
        if isinstance(value, str):
            _check_characters(path, value)
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                _check_characters(path or "arguments", key)
                waiting.append((f"{path}.{key}" if path else key, inner, depth + 1))
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", inner, depth + 1) for at, inner in enumerate(value)]
        elif (
            isinstance(value, int | float) and not -(2**63) < value < 2**63
        ):  # where integers of other languages end
            raise BadInput(
                f"{path}: the number is too large", "send it as text if every digit matters", path
            )


def _check_characters(path: str, text: str) -> None:
    if "\0" in text:
        raise BadInput(
            f"{path}: holds a NUL character", "remove it; text is meant, not bytes", path
        )
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise BadInput(
            f"{path}: holds half of a surrogate pair", "send whole Unicode characters", path
        )


# -- the budget of an answer: its texts are cut until it fits, and no result is ever left out. The best result is shown
# more fully than the others: what answers the question should not need a second call.

LISTS = (
    "results",
    "observations",
    "sessions",
    "suggestions",
    "decisions",
)  # keys of an answer that hold results
# What a reader follows or judges by: shown whatever the budget is.
_NAMES = frozenset(
    """
    id decision_id record type _type kind topic title holds superseded_by outcome status score similarity
    final_score
    """.split()  # noqa: SIM905
)
# What else is shown whole, unless these alone are too much.
_FACTS = _NAMES | frozenset(
    """
    path created created_at created_at_epoch timestamp recency_days proposed successors heads
    earlier because line drift evidence note hidden confidence read_tokens project number related_to by user_id
    agent_id run_id scope memory_type repository author commit link seen_at also_in
    """.split()  # noqa: SIM905
)
_LEADS = (
    "snippet",
    "decision",
    "memory",
    "summary",
    "text",
)  # the first of these that a result has is cut last
_TITLE = 160  # characters
_ITEM = 40  # characters of a text per item of a list
# How much of a result is shown at each step: which keys; characters of its lead and reasons, and of its other texts.
_STEPS = (
    *((_FACTS, limit, limit) for limit in (2_400, 1_200, 600, 300, 160)),
    *((_FACTS, 90, 0), (_FACTS, 30, 0), (_NAMES, 30, 0), (_NAMES, 0, 0)),
)
_BEST = 2  # steps by which the best result is shown more fully
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def within(answer: Answer, budget: int, whole: str = "") -> Answer:
    """Cut the results of an answer until it has at most `budget` characters as JSON.

    One result alone is never cut. `whole`: how to read what was cut, for the note that says so.
    """
    lists = [name for name in LISTS if isinstance(answer.get(name), list)]
    if len(_encoded(answer)) <= budget or sum(len(answer[name]) for name in lists) <= 1:
        return answer
    note = "; ".join(filter(None, (str(answer.get("note", "")), f"texts are cut: {whole}")))
    answer = {"note": note} | answer | {"note": note}
    room = budget - len(_encoded(answer.get("ids", [])))
    fitted = _fitted(answer, lists, room)
    return fitted | _truncated(answer, fitted)


def _fitted(answer: Answer, lists: Sequence[str], room: int) -> Answer:
    """The answer at the first step at which it has at most `room` characters, else at the last."""
    first = next(name for name in lists if answer[name])
    last = len(_STEPS) - 1
    fitted = answer
    for step in range(len(_STEPS) + _BEST):
        best = max(0, step - _BEST)
        fitted = answer | {
            name: [
                _shown(result, best if name == first and at == 0 else min(step, last))
                for at, result in enumerate(answer[name])
            ]
            for name in lists
        }
        if len(_encoded(fitted)) <= room:
            break
    return fitted


def _truncated(answer: Answer, fitted: Answer) -> Answer:
    """The ids of the results that were cut, where these are texts and cannot say so themselves."""
    if "ids" not in answer:
        return {}
    pairs = zip(answer["ids"], answer["results"], fitted["results"], strict=True)
    return {"truncated": [name for name, text, part in pairs if text != part]}


def _shown(result: Any, step: int) -> Any:
    """A result as shown at a step, its keys in order; `truncated` is added if something was cut."""
    facts, lead, rest = _STEPS[step]
    if isinstance(result, str):
        return cut(result, lead) if lead else "…"
    first = next((name for name in _LEADS if name in result), "")
    limits = dict.fromkeys((first, "reasons", "already_rejected"), lead)
    shown: Answer = {}
    for name, value in result.items():
        limit = limits.get(name, rest)
        if name in facts and name != first:
            shown[name] = cut(value, _TITLE) if name == "title" else value
        elif limit:
            whole = around(result, limit) if name == "snippet" else value
            if name == "reasons":  # the newest tell most
                whole = value[-max(1, limit // _ITEM) :]
            shown[name] = _shorter(whole, limit)
    return shown if shown == result else shown | {"truncated": True}


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: max(1, limit // _ITEM)]]
    return (
        {key: _shorter(item, limit) for key, item in value.items()}
        if isinstance(value, Mapping)
        else value
    )


# -- an answer as text

_ENTRIES = ("results", "chain", "checkpoint")  # of an answer: records, each with a head of its own
_HEAD = ("title", "holds", "type", "topic", "created", "date", "outcome")
_TEXTS = ("decision", "reasoning", "text")
_UNSAID = frozenset(("success", "truncated"))
_NOTHING: tuple[object, ...] = ("", [], {}, False, None)
_DIGITS = 10  # of a commit


def readable(answer: Answer) -> str:
    """An answer as text, for a model: notes first, nothing that is empty or false."""
    entries = {name: answer[name] for name in _ENTRIES if answer.get(name)}
    unsaid = {*_UNSAID, *_ENTRIES, *(["count"] if entries else [])}
    rows = _rows(answer, unsaid)
    for name, entry in entries.items():
        listed = [entry] if name == "checkpoint" else entry
        # What lists several is read to choose; `get` has the path.
        hidden = {*_HEAD, *_TEXTS, *_UNSAID, *(["path"] if len(listed) > 1 else [])}
        rows += [_entry(f"{at}. ", record, hidden) for at, record in enumerate(listed, 1)]
    return "\n".join(rows) or "nothing found"


def _rows(values: Answer, unsaid: Collection[str]) -> list[str]:
    """A row for each value that says something."""
    return [
        f"{name}: {_said(value, name)}"
        for name, value in values.items()
        if name not in unsaid and value not in _NOTHING
    ]


def _entry(mark: str, record: Answer, hidden: Collection[str]) -> str:
    state = ("holds" if record["holds"] else "does not hold") if "holds" in record else ""
    day = str(record.get("created", record.get("date", "")))[:10]
    names = (state, record.get("type"), record.get("topic"), day, record.get("outcome"))
    about = [_line(part) for part in (record["title"], *names) if part]
    texts = [record[name] for name in _TEXTS if record.get(name)]
    # No line of a record begins as ours do.
    quotes = [f"> {_line(row)}" for text in texts for row in text.splitlines()]
    return "\n   ".join((mark + " · ".join(about), *_rows(record, hidden), *quotes))


def _line(text: str) -> str:
    """A text as one line without control characters."""
    shown = (
        text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
    )
    return " ".join(shown.split())


def _said(value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        if value.keys() == {"id", "title"}:
            return f"{_line(value['title'])} ({value['id']})"
        return ", ".join(
            f"{key} {_said(part, key)}" for key, part in value.items() if part not in _NOTHING
        )
    if isinstance(value, list):
        return "; ".join(map(_said, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _line(str(value))[: _DIGITS if name == "commit" else None]
