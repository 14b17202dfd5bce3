"""Call a tool: check its arguments, once for every transport; failures are its dialect's.

A tool gets only arguments that satisfy its schema; nulls are dropped, since programs send them for
absent arguments. Answers of tools that search or list are cut to the dialect's budget. Any
exception but FilememError is a defect and is not caught.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.dialects import consent, shapes
from filemem.dialects.present import around
from filemem.dialects.tool import Answer, Dialect, Payload, Tool, tool_of
from filemem.errors import BadInput, FilememError
from filemem.hints import suggest
from filemem.record import cut, schema
from filemem.record.visibility import EVERYBODY

if TYPE_CHECKING:
    from filemem.memory import Memory

MAX_DEPTH = 32  # nesting of arguments; what walks them later may recurse
_EXACT = 2**53  # below it a float is exactly its whole number
_LARGEST = 2**63  # where integers of other languages end


class Reply(NamedTuple):
    """The answer of a tool."""

    payload: Payload  # an object, or text
    is_error: bool
    text: str = ""  # the object as readable text
    question: consent.Question | None = None  # to a person, so that the call is not refused


def call(
    dialect: Dialect,
    memory: Memory,
    name: str,
    arguments: Mapping[str, object],
    *,
    asks: bool = False,
) -> Reply:
    """Call one tool of a dialect; `asks`: whether a person can be asked."""
    owner = dialect
    tool = None
    try:
        owner, tool = tool_of(dialect, name)
        if owner is not dialect:  # a tool of another profile sees what everybody does
            memory = memory.seen_by(EVERYBODY)
        values, note = checked(tool, arguments)
        question = consent.before(memory, tool, values) if asks else None
        if question:
            return Reply(owner.failure(consent.REFUSED), is_error=True, question=question)
        answer = noted(tool.call(memory, values), note)
        if isinstance(answer, str):
            return Reply(answer, is_error=False)
        if tool.cut:
            answer = within(answer, _budget(owner, tool, values), owner.whole)
        return Reply(answer, is_error=False, text=readable(answer) if owner.readable else "")
    except FilememError as error:
        question = consent.after(tool, error) if asks and tool else None
        return Reply(owner.failure(error), is_error=True, question=question)


def _budget(dialect: Dialect, tool: Tool, values: Mapping[str, Any]) -> int:
    """The characters of an answer: more for more results than the default, or for detail."""
    usual = tool.input_schema["properties"].get("limit", {}).get("default", 0)
    wanted = max(values.get("limit", usual), usual) / usual if usual else 1
    return int(dialect.budget * wanted * (2 if values.get("detail") else 1))


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
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    stated = {name: value for name, value in arguments.items() if value is not None}
    values = shapes.fitted(properties, stated)
    _check_values(values)
    _check_names(tool, values, properties)
    values, note = shapes.limited(properties, values)
    _check_schema(tool, values, properties)
    return Checked({name: _integral(value) for name, value in values.items()}, note)


def _check_names(
    tool: Tool, values: Mapping[str, object], properties: Mapping[str, object]
) -> None:
    """Refuse a name that the tool does not know: the likely one is worth more than its value."""
    strange = [name for name in values if name not in properties]
    if strange and tool.input_schema.get("additionalProperties") is False:
        name = strange[0]
        message = f"{tool.name} has no argument {name[:64]!r}"
        raise BadInput(message, suggest(name, properties), field=name[:64])


def _check_schema(tool: Tool, values: Mapping[str, object], properties: Mapping[str, Any]) -> None:
    complaints = schema.errors(tool.input_schema, values)
    if not complaints:
        return
    sentences = [
        complaint if complaint.startswith(field) else f"{field}: {complaint}"
        for field, complaint in complaints[:3]
    ]
    field = complaints[0][0]
    name = re.split(r"[.\[]", field)[0]
    example = shapes.example(name, properties.get(name, {})) if name in values else ""
    hint = f"{example}correct it and call {tool.name} again"
    raise BadInput("; ".join(sentences), hint, field=field)


def _integral(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def noted(answer: Payload, note: str) -> Payload:
    """An answer that says what was changed in the arguments too."""
    if not note:
        return answer
    if isinstance(answer, str):
        return f"{answer}\n\nNote: {note}"
    return answer | {"note": "; ".join(filter(None, (str(answer.get("note", "")), note)))}


def _check_values(arguments: Mapping[str, object]) -> None:
    """Refuse what no file can hold. Raises BadInput.

    That is NUL, lone surrogates, huge numbers and deep nesting.
    """
    waiting: list[tuple[str, object, int]] = [("", arguments, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            field = path.split(".")[0].split("[")[0]
            message = f"{field}: nested deeper than {MAX_DEPTH} levels"
            raise BadInput(message, "send it flat, or as text", field)
        if isinstance(value, Mapping | list):
            waiting += [(inner, item, depth + 1) for inner, item in _items(path, value)]
        else:
            _check_value(path, value)


def _items(path: str, value: Mapping[str, object] | list[object]) -> Iterator[tuple[str, object]]:
    """The items of an object or a list, with their paths."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield f"{path}[{at}]", item
        return
    for key, item in value.items():
        _check_characters(path or "arguments", key)
        yield f"{path}.{key}" if path else key, item


def _check_value(path: str, value: object) -> None:
    if isinstance(value, str):
        _check_characters(path, value)
    elif isinstance(value, int | float) and not -_LARGEST < value < _LARGEST:
        hint = "send it as text if every digit matters"
        raise BadInput(f"{path}: the number is too large", hint, path)


def _check_characters(path: str, text: str) -> None:
    if "\0" in text:
        raise BadInput(
            f"{path}: holds a NUL character", "remove it; text is meant, not bytes", path
        )
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise BadInput(
            f"{path}: holds half of a surrogate pair", "send whole Unicode characters", path
        )


# -- the budget of an answer: its texts are cut until it fits, and no result is ever left out. The
# best result is shown more fully than the others: what answers the question should not need a
# second call.

# Keys of an answer that hold results.
LISTS = ("results", "observations", "sessions", "suggestions", "decisions")
# What a reader follows or judges by: shown whatever the budget is.
_NAMES = frozenset(
    (
        *("id", "decision_id", "record", "type", "_type", "kind", "topic", "title", "holds"),
        *("superseded_by", "outcome", "status", "score", "similarity", "final_score"),
    )
)
# What else is shown whole, unless these alone are too much.
_FACTS = _NAMES | {
    *("path", "created", "created_at", "created_at_epoch", "timestamp", "recency_days"),
    *("proposed", "successors", "heads", "earlier", "because", "line", "drift", "evidence", "note"),
    *("hidden", "confidence", "read_tokens", "project", "number", "related_to", "by", "user_id"),
    *("agent_id", "run_id", "scope", "memory_type", "repository", "author", "commit", "link"),
    *("seen_at", "also_in"),
}
# The first of these that a result has is cut last.
_LEADS = ("snippet", "decision", "memory", "summary", "text")
_TITLE = 160  # characters
_ITEM = 40  # characters of a text per item of a list


class _Step(NamedTuple):
    """How much of a result is shown."""

    whole: Collection[str]  # the keys that are shown whole
    lead: int  # characters of its lead and of its reasons
    rest: int = 0  # characters of its other texts


_STEPS = (
    *(_Step(_FACTS, most, most) for most in (2_400, 1_200, 600, 300, 160)),
    *(_Step(_FACTS, 90), _Step(_FACTS, 30), _Step(_NAMES, 30), _Step(_NAMES, 0)),
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
    fitted = answer
    for step in range(len(_STEPS) + _BEST):
        fitted = dict(answer)
        for name in lists:
            fitted[name] = [_shown(result, step) for result in answer[name]]
        fitted[first][0] = _shown(answer[first][0], step - _BEST)
        if len(_encoded(fitted)) <= room:
            break
    return fitted


def _truncated(answer: Answer, fitted: Answer) -> Answer:
    """The ids of the results that were cut, where these are texts and cannot say so themselves."""
    if "ids" not in answer:
        return {}
    pairs = zip(answer["ids"], answer["results"], fitted["results"], strict=True)
    return {"truncated": [name for name, text, part in pairs if text != part]}


def _shown(result: Any, number: int) -> Any:
    """A result as shown at a step, its keys in order; `truncated` says that something was cut."""
    step = _STEPS[min(max(0, number), len(_STEPS) - 1)]
    if isinstance(result, str):
        return _shorter(result, step.lead)
    lead = next((name for name in _LEADS if name in result), "")
    limits = dict.fromkeys((lead, "reasons", "already_rejected"), step.lead)
    row: Answer = {}
    for name, value in result.items():
        limit = limits.get(name, step.rest)
        if name in step.whole and name != lead:
            row[name] = cut(value, _TITLE) if name == "title" else value
        elif limit:
            row[name] = _shorter(_part(result, name, limit), limit)
    return row if row == result else row | {"truncated": True}


def _part(result: Answer, name: str, most: int) -> Any:
    """The part of a value that tells most."""
    if name == "snippet":
        return around(result, most)
    value = result[name]
    return value[-max(1, most // _ITEM) :] if name == "reasons" else value


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit) if limit else "…"
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: max(1, limit // _ITEM)]]
    if isinstance(value, Mapping):
        return {key: _shorter(item, limit) for key, item in value.items()}
    return value


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
        f"{name}: {_in_words(value, name)}"
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
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def _in_words(value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        if value.keys() == {"id", "title"}:
            return f"{_line(value['title'])} ({value['id']})"
        parts = ((key, part) for key, part in value.items() if part not in _NOTHING)
        return ", ".join(f"{key} {_in_words(part, key)}" for key, part in parts)
    if isinstance(value, list):
        return "; ".join(map(_in_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _line(str(value))[: _DIGITS if name == "commit" else None]
