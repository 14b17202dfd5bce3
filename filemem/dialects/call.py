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
from filemem.dialects.present import cut_snippet
from filemem.dialects.tool import Answer, Dialect, Payload, Tool, resolve_tool
from filemem.errors import BadInput, FilememError
from filemem.hints import suggest_choice
from filemem.record import schema, shorten_line
from filemem.record.visibility import EVERYBODY

if TYPE_CHECKING:
    from filemem.memory import Memory

MAX_DEPTH = 32  # nesting of arguments; what walks them later may recurse
_EXACT_INTEGER_LIMIT = 2**53  # below it a float is exactly its whole number
_INTEGER_LIMIT = 2**63  # where integers of other languages end


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
    can_ask: bool = False,
) -> Reply:
    """Call one tool of a dialect; `asks`: whether a person can be asked."""
    owner = dialect
    tool = None
    try:
        owner, tool = resolve_tool(dialect, name)
        if owner is not dialect:  # a tool of another profile sees what everybody does
            memory = memory.seen_by(EVERYBODY)
        values, note = validate_arguments(tool, arguments)
        question = consent.find_removal_question(memory, tool, values) if can_ask else None
        if question:
            return Reply(owner.failure(consent.REMOVAL_REFUSAL), is_error=True, question=question)
        answer = add_note(tool.call(memory, values), note)
        if isinstance(answer, str):
            return Reply(answer, is_error=False)
        if tool.is_cut:
            answer = cut_to_budget(
                answer, _compute_budget(owner, tool, values), owner.full_text_hint
            )
        return Reply(
            answer, is_error=False, text=render_answer(answer) if owner.has_readable_text else ""
        )
    except FilememError as error:
        question = consent.find_refusal_question(tool, error) if can_ask and tool else None
        return Reply(owner.failure(error), is_error=True, question=question)


def _compute_budget(dialect: Dialect, tool: Tool, values: Mapping[str, Any]) -> int:
    """The characters of an answer: more for more results than the default, or for detail."""
    default_limit = tool.input_schema["properties"].get("limit", {}).get("default", 0)
    factor = (
        max(values.get("limit", default_limit), default_limit) / default_limit
        if default_limit
        else 1
    )
    return int(dialect.budget * factor * (2 if values.get("detail") else 1))


def perform(
    dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]
) -> Payload:
    """Call one tool as `call` does, but raise FilememError."""
    tool = resolve_tool(dialect, name)[1]
    return tool.call(memory, validate_arguments(tool, arguments).arguments)


class ToolArguments(NamedTuple):
    """Arguments that satisfy a tool's schema, and a note for the caller of what was changed."""

    arguments: dict[str, Any]
    note: str


def validate_arguments(tool: Tool, arguments: Mapping[str, object]) -> ToolArguments:
    """The arguments without nulls, with 55.0 as 55, and in the shapes that the tool takes.

    Raises BadInput if they do not satisfy the tool's schema all the same.
    """
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    given_values = {name: value for name, value in arguments.items() if value is not None}
    values = shapes.fit_arguments(properties, given_values)
    _refuse_bad_values(values)
    _refuse_unknown_names(tool, values, properties)
    values, note = shapes.limit_counts(properties, values)
    _refuse_schema_errors(tool, values, properties)
    return ToolArguments({name: _to_integer(value) for name, value in values.items()}, note)


def _refuse_unknown_names(
    tool: Tool, values: Mapping[str, object], properties: Mapping[str, object]
) -> None:
    """Refuse a name that the tool does not know: the likely one is worth more than its value."""
    unknown_names = [name for name in values if name not in properties]
    if unknown_names and tool.input_schema.get("additionalProperties") is False:
        name = unknown_names[0]
        message = f"{tool.name} has no argument {name[:64]!r}"
        raise BadInput(message, suggest_choice(name, properties), field=name[:64])


def _refuse_schema_errors(
    tool: Tool, values: Mapping[str, object], properties: Mapping[str, Any]
) -> None:
    problems = schema.check_value(tool.input_schema, values)
    if not problems:
        return
    sentences = [
        complaint if complaint.startswith(field) else f"{field}: {complaint}"
        for field, complaint in problems[:3]
    ]
    field = problems[0][0]
    name = re.split(r"[.\[]", field)[0]
    example = shapes.format_example(name, properties.get(name, {})) if name in values else ""
    hint = f"{example}correct it and call {tool.name} again"
    raise BadInput("; ".join(sentences), hint, field=field)


def _to_integer(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGER_LIMIT:
        return int(value)
    return value


def add_note(answer: Payload, note: str) -> Payload:
    """An answer that says what was changed in the arguments too."""
    if not note:
        return answer
    if isinstance(answer, str):
        return f"{answer}\n\nNote: {note}"
    return answer | {"note": "; ".join(filter(None, (str(answer.get("note", "")), note)))}


def _refuse_bad_values(arguments: Mapping[str, object]) -> None:
    """Refuse what no file can hold. Raises BadInput.

    That is NUL, lone surrogates, huge numbers and deep nesting.
    """
    stack: list[tuple[str, object, int]] = [("", arguments, 0)]
    while stack:
        path, value, depth = stack.pop()
        if depth > MAX_DEPTH:
            field = path.split(".")[0].split("[")[0]
            message = f"{field}: nested deeper than {MAX_DEPTH} levels"
            raise BadInput(message, "send it flat, or as text", field)
        if isinstance(value, Mapping | list):
            stack += [(inner, item, depth + 1) for inner, item in _iter_items(path, value)]
        else:
            _refuse_bad_value(path, value)


def _iter_items(
    path: str, value: Mapping[str, object] | list[object]
) -> Iterator[tuple[str, object]]:
    """The items of an object or a list, with their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
        return
    for key, item in value.items():
        _refuse_bad_characters(path or "arguments", key)
        yield f"{path}.{key}" if path else key, item


def _refuse_bad_value(path: str, value: object) -> None:
    if isinstance(value, str):
        _refuse_bad_characters(path, value)
    elif isinstance(value, int | float) and not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
        hint = "send it as text if every digit matters"
        raise BadInput(f"{path}: the number is too large", hint, path)


def _refuse_bad_characters(path: str, text: str) -> None:
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
_TITLE_SIZE = 160  # characters
_ITEM_SIZE = 40  # characters of a text per item of a list


class _CutStep(NamedTuple):
    """How much of a result is shown."""

    full_keys: Collection[str]  # the keys that are shown whole
    lead_size: int  # characters of its lead and of its reasons
    other_size: int = 0  # characters of its other texts


_STEPS = (
    *(_CutStep(_FACTS, most, most) for most in (2_400, 1_200, 600, 300, 160)),
    *(_CutStep(_FACTS, 90), _CutStep(_FACTS, 30), _CutStep(_NAMES, 30), _CutStep(_NAMES, 0)),
)
_BEST_STEPS = 2  # steps by which the best result is shown more fully
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def cut_to_budget(answer: Answer, budget: int, full_text_hint: str = "") -> Answer:
    """Cut the results of an answer until it has at most `budget` characters as JSON.

    One result alone is never cut. `whole`: how to read what was cut, for the note that says so.
    """
    lists = [name for name in LISTS if isinstance(answer.get(name), list)]
    if len(_encode_json(answer)) <= budget or sum(len(answer[name]) for name in lists) <= 1:
        return answer
    note = "; ".join(
        filter(None, (str(answer.get("note", "")), f"texts are cut: {full_text_hint}"))
    )
    answer = {"note": note} | answer | {"note": note}
    max_size = budget - len(_encode_json(answer.get("ids", [])))
    short_answer = _fit_answer(answer, lists, max_size)
    return short_answer | _build_truncated(answer, short_answer)


def _fit_answer(answer: Answer, lists: Sequence[str], max_size: int) -> Answer:
    """The answer at the first step at which it has at most `room` characters, else at the last."""
    first_list = next(name for name in lists if answer[name])
    short_answer = answer
    for step in range(len(_STEPS) + _BEST_STEPS):
        short_answer = dict(answer)
        for name in lists:
            short_answer[name] = [_shorten_result(result, step) for result in answer[name]]
        short_answer[first_list][0] = _shorten_result(answer[first_list][0], step - _BEST_STEPS)
        if len(_encode_json(short_answer)) <= max_size:
            break
    return short_answer


def _build_truncated(answer: Answer, short_answer: Answer) -> Answer:
    """The ids of the results that were cut, where these are texts and cannot say so themselves."""
    if "ids" not in answer:
        return {}
    pairs = zip(answer["ids"], answer["results"], short_answer["results"], strict=True)
    return {"truncated": [name for name, text, part in pairs if text != part]}


def _shorten_result(result: Any, step_index: int) -> Any:
    """A result as shown at a step, its keys in order; `truncated` says that something was cut."""
    step = _STEPS[min(max(0, step_index), len(_STEPS) - 1)]
    if isinstance(result, str):
        return _shorten_value(result, step.lead_size)
    lead = next((name for name in _LEADS if name in result), "")
    limits = dict.fromkeys((lead, "reasons", "already_rejected"), step.lead_size)
    row: Answer = {}
    for name, value in result.items():
        limit = limits.get(name, step.other_size)
        if name in step.full_keys and name != lead:
            row[name] = shorten_line(value, _TITLE_SIZE) if name == "title" else value
        elif limit:
            row[name] = _shorten_value(_select_part(result, name, limit), limit)
    return row if row == result else row | {"truncated": True}


def _select_part(result: Answer, name: str, max_size: int) -> Any:
    """The part of a value that tells most."""
    if name == "snippet":
        return cut_snippet(result, max_size)
    value = result[name]
    return value[-max(1, max_size // _ITEM_SIZE) :] if name == "reasons" else value


def _shorten_value(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return shorten_line(value, limit) if limit else "…"
    if isinstance(value, list):
        return [_shorten_value(item, limit) for item in value[: max(1, limit // _ITEM_SIZE)]]
    if isinstance(value, Mapping):
        return {key: _shorten_value(item, limit) for key, item in value.items()}
    return value


# -- an answer as text

_ENTRIES = ("results", "chain", "checkpoint")  # of an answer: records, each with a head of its own
_HEAD = ("title", "holds", "type", "topic", "created", "date", "outcome")
_TEXTS = ("decision", "reasoning", "text")
_SKIPPED_KEYS = frozenset(("success", "truncated"))
_EMPTY_VALUES: tuple[object, ...] = ("", [], {}, False, None)
_COMMIT_DIGITS = 10  # of a commit


def render_answer(answer: Answer) -> str:
    """An answer as text, for a model: notes first, nothing that is empty or false."""
    entries = {name: answer[name] for name in _ENTRIES if answer.get(name)}
    skipped_keys = {*_SKIPPED_KEYS, *_ENTRIES, *(["count"] if entries else [])}
    rows = _format_rows(answer, skipped_keys)
    for name, entry in entries.items():
        records = [entry] if name == "checkpoint" else entry
        # What lists several is read to choose; `get` has the path.
        hidden_keys = {*_HEAD, *_TEXTS, *_SKIPPED_KEYS, *(["path"] if len(records) > 1 else [])}
        rows += [
            _format_entry(f"{number}. ", record, hidden_keys)
            for number, record in enumerate(records, 1)
        ]
    return "\n".join(rows) or "nothing found"


def _format_rows(values: Answer, skipped_keys: Collection[str]) -> list[str]:
    """A row for each value that says something."""
    return [
        f"{name}: {_format_value(value, name)}"
        for name, value in values.items()
        if name not in skipped_keys and value not in _EMPTY_VALUES
    ]


def _format_entry(prefix: str, record: Answer, hidden_keys: Collection[str]) -> str:
    state = ("holds" if record["holds"] else "does not hold") if "holds" in record else ""
    day = str(record.get("created", record.get("date", "")))[:10]
    names = (state, record.get("type"), record.get("topic"), day, record.get("outcome"))
    head_parts = [_format_line(part) for part in (record["title"], *names) if part]
    texts = [record[name] for name in _TEXTS if record.get(name)]
    # No line of a record begins as ours do.
    quotes = [f"> {_format_line(row)}" for text in texts for row in text.splitlines()]
    return "\n   ".join(
        (prefix + " · ".join(head_parts), *_format_rows(record, hidden_keys), *quotes)
    )


def _format_line(text: str) -> str:
    """A text as one line without control characters."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def _format_value(value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        if value.keys() == {"id", "title"}:
            return f"{_format_line(value['title'])} ({value['id']})"
        parts = ((key, part) for key, part in value.items() if part not in _EMPTY_VALUES)
        return ", ".join(f"{key} {_format_value(part, key)}" for key, part in parts)
    if isinstance(value, list):
        return "; ".join(map(_format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _format_line(str(value))[: _COMMIT_DIGITS if name == "commit" else None]
