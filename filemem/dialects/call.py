"""Call a tool of a dialect: check its arguments, run it, and cut its answer.

All transports use this module. A tool gets only arguments that satisfy its schema; nulls are
dropped, as programs send them for absent arguments. Only FilememError is turned into an answer; any
other exception is a defect.
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
    """Call one tool of a dialect; `can_ask`: whether a person can be asked."""
    owner = dialect
    tool = None
    try:
        owner, tool = resolve_tool(dialect, name)
        if owner is not dialect:  # a tool of another profile sees only what everybody may see
            memory = memory.seen_by(EVERYBODY)
        values, note = validate_arguments(tool, arguments)
        question = consent.find_removal_question(memory, tool, values) if can_ask else None
        if question:
            return Reply(owner.failure(consent.REMOVAL_REFUSAL), is_error=True, question=question)
        answer = add_note(tool.call(memory, values), note)
    except FilememError as error:
        question = consent.find_refusal_question(tool, error) if can_ask and tool else None
        return Reply(owner.failure(error), is_error=True, question=question)
    return _build_reply(owner, tool, values, answer)


def _build_reply(dialect: Dialect, tool: Tool, values: Mapping[str, Any], answer: Payload) -> Reply:
    """Return the answer of a tool, cut to the budget and as text if the dialect wants that."""
    if isinstance(answer, str):
        return Reply(answer, is_error=False)
    if tool.is_cut:
        budget = _compute_budget(dialect, tool, values)
        answer = cut_to_budget(answer, budget, dialect.full_text_hint)
    text = render_answer(answer) if dialect.has_readable_text else ""
    return Reply(answer, is_error=False, text=text)


def _compute_budget(dialect: Dialect, tool: Tool, values: Mapping[str, Any]) -> int:
    """Return the characters that an answer may have: more if more results or details are wanted."""
    factor = 1.0
    default_limit = tool.input_schema["properties"].get("limit", {}).get("default", 0)
    if default_limit:
        limit = values.get("limit", default_limit)
        factor = max(limit, default_limit) / default_limit
    if values.get("detail"):
        factor *= 2
    return int(dialect.budget * factor)


def perform(
    dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]
) -> Payload:
    """Call one tool as `call` does, but raise FilememError."""
    _, tool = resolve_tool(dialect, name)
    valid = validate_arguments(tool, arguments)
    return tool.call(memory, valid.arguments)


class ToolArguments(NamedTuple):
    """Arguments that satisfy a tool's schema."""

    arguments: dict[str, Any]
    note: str  # tells the caller what was changed in them


def validate_arguments(tool: Tool, arguments: Mapping[str, object]) -> ToolArguments:
    """Return arguments in the shapes that a tool takes, without nulls and with 55.0 as 55.

    Raises:
        BadInput: they do not satisfy the tool's schema even so.
    """
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    given_values = {name: value for name, value in arguments.items() if value is not None}
    fitted_values = shapes.fit_arguments(properties, given_values)
    _refuse_bad_values(fitted_values)
    _refuse_unknown_names(tool, fitted_values, properties)
    values, note = shapes.limit_counts(properties, fitted_values)
    _refuse_schema_errors(tool, values, properties)
    integer_values = {name: _to_integer(value) for name, value in values.items()}
    return ToolArguments(integer_values, note)


def _refuse_unknown_names(
    tool: Tool, values: Mapping[str, object], properties: Mapping[str, object]
) -> None:
    """Refuse arguments that the tool does not have. Raises BadInput, with a likely name."""
    if tool.input_schema.get("additionalProperties") is not False:
        return
    for name in values:
        if name not in properties:
            short_name = name[:64]
            message = f"{tool.name} has no argument {short_name!r}"
            raise BadInput(message, suggest_choice(name, properties), field=short_name)


def _refuse_schema_errors(
    tool: Tool, values: Mapping[str, object], properties: Mapping[str, Any]
) -> None:
    problems = schema.check_value(tool.input_schema, values)
    if not problems:
        return
    sentences = []
    for field, complaint in problems[:3]:
        if complaint.startswith(field):
            sentences.append(complaint)
        else:
            sentences.append(f"{field}: {complaint}")
    first_field, _ = problems[0]
    name = re.split(r"[.\[]", first_field)[0]
    example = ""
    if name in values:
        example = shapes.format_example(name, properties.get(name, {}))
    hint = f"{example}correct it and call {tool.name} again"
    raise BadInput("; ".join(sentences), hint, field=first_field)


def _to_integer(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGER_LIMIT:
        return int(value)
    return value


def add_note(answer: Payload, note: str) -> Payload:
    """Return an answer with a note added to its own."""
    if not note:
        return answer
    if isinstance(answer, str):
        return f"{answer}\n\nNote: {note}"
    return answer | {"note": _join_notes(answer, note)}


def _join_notes(answer: Answer, note: str) -> str:
    """Return the note of an answer, if it has one, and another."""
    own_note = str(answer.get("note", ""))
    if own_note and note:
        return f"{own_note}; {note}"
    return own_note or note


def _refuse_bad_values(arguments: Mapping[str, object]) -> None:
    """Refuse NUL, lone surrogates, huge numbers and deep nesting. Raises BadInput."""
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
    """Yield the items of an object or a list, each with its path."""
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


# -- the budget of an answer: texts are cut until it fits, but no result is left out. The best
# result is cut less, so that a caller need not read it again.

# Keys of an answer that hold results.
LISTS = ("results", "observations", "sessions", "suggestions", "decisions")
# Keys that a reader needs to judge a result: always shown.
_NAMES = frozenset(
    (
        *("id", "decision_id", "record", "type", "_type", "kind", "topic", "title", "holds"),
        *("superseded_by", "outcome", "status", "score", "similarity", "final_score"),
    )
)
# Keys that are shown whole, unless these alone exceed the budget.
_FACTS = _NAMES | {
    *("path", "created", "created_at", "created_at_epoch", "timestamp", "recency_days"),
    *("proposed", "successors", "heads", "earlier", "because", "line", "drift", "evidence", "note"),
    *("hidden", "confidence", "read_tokens", "project", "number", "related_to", "by", "user_id"),
    *("agent_id", "run_id", "scope", "memory_type", "repository", "author", "commit", "link"),
    *("seen_at", "also_in"),
}
# The first of these keys that a result has is its lead, which is cut last.
_LEADS = ("snippet", "decision", "memory", "summary", "text")
_TITLE_SIZE = 160  # characters
_ITEM_SIZE = 40  # characters of a text per item of a list


class _CutStep(NamedTuple):
    """How much of a result is shown."""

    full_keys: Collection[str]  # keys that are shown whole
    lead_size: int  # characters of its lead and of its reasons
    other_size: int = 0  # characters of its other texts


_STEPS = (
    _CutStep(_FACTS, 2_400, 2_400),
    _CutStep(_FACTS, 1_200, 1_200),
    _CutStep(_FACTS, 600, 600),
    _CutStep(_FACTS, 300, 300),
    _CutStep(_FACTS, 160, 160),
    _CutStep(_FACTS, 90),
    _CutStep(_FACTS, 30),
    _CutStep(_NAMES, 30),
    _CutStep(_NAMES, 0),
)
_BEST_STEPS = 2  # steps by which the best result is cut less
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def cut_to_budget(answer: Answer, budget: int, full_text_hint: str = "") -> Answer:
    """Cut the results of an answer until it has at most `budget` characters as JSON.

    A single result is never cut. `full_text_hint`: how to read a whole result, for the note.
    """
    lists = [name for name in LISTS if isinstance(answer.get(name), list)]
    result_count = sum(len(answer[name]) for name in lists)
    if len(_encode_json(answer)) <= budget or result_count <= 1:
        return answer
    note = _join_notes(answer, f"texts are cut: {full_text_hint}")
    noted_answer = {"note": note} | answer | {"note": note}  # the note comes first
    ids_size = len(_encode_json(answer.get("ids", [])))
    short_answer = _fit_answer(noted_answer, lists, budget - ids_size)
    if "ids" in answer:
        short_answer["truncated"] = _list_truncated(noted_answer, short_answer)
    return short_answer


def _fit_answer(answer: Answer, lists: Sequence[str], max_size: int) -> Answer:
    """Return the answer at the first step with at most `max_size` characters, or at the last."""
    filled_lists = [name for name in lists if answer[name]]
    first_list = filled_lists[0]
    short_answer = answer
    for step in range(len(_STEPS) + _BEST_STEPS):
        short_answer = dict(answer)
        for name in lists:
            short_answer[name] = [_shorten_result(result, step) for result in answer[name]]
        best_result = answer[first_list][0]
        short_answer[first_list][0] = _shorten_result(best_result, step - _BEST_STEPS)
        if len(_encode_json(short_answer)) <= max_size:
            break
    return short_answer


def _list_truncated(answer: Answer, short_answer: Answer) -> list[str]:
    """Return the ids of results that were cut; these are texts and cannot say so themselves."""
    truncated = []
    for index, id_ in enumerate(answer["ids"]):
        if answer["results"][index] != short_answer["results"][index]:
            truncated.append(id_)
    return truncated


def _shorten_result(result: Any, step_index: int) -> Any:
    """Return a result as shown at a step, with `truncated` if something was cut."""
    last_index = len(_STEPS) - 1
    step = _STEPS[min(max(0, step_index), last_index)]
    if isinstance(result, str):
        return _shorten_value(result, step.lead_size)
    lead = _find_lead(result)
    row: Answer = {}
    for name, value in result.items():
        is_long = name in (lead, "reasons", "already_rejected")
        limit = step.lead_size if is_long else step.other_size
        if name in step.full_keys and name != lead:
            row[name] = shorten_line(value, _TITLE_SIZE) if name == "title" else value
        elif limit:
            row[name] = _shorten_value(_select_part(result, name, limit), limit)
    if row != result:
        row["truncated"] = True
    return row


def _find_lead(result: Answer) -> str:
    """Return the key of the text that is cut last, or ""."""
    for name in _LEADS:
        if name in result:
            return name
    return ""


def _select_part(result: Answer, name: str, max_size: int) -> Any:
    """Return the part of a value that says most."""
    if name == "snippet":
        return cut_snippet(result, max_size)
    value = result[name]
    if name == "reasons":
        return value[-_count_items(max_size) :]  # the newest
    return value


def _count_items(max_size: int) -> int:
    """Return how many items of a list are shown in a number of characters."""
    return max(1, max_size // _ITEM_SIZE)


def _shorten_value(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return shorten_line(value, limit) if limit else "…"
    if isinstance(value, list):
        items = value[: _count_items(limit)]
        return [_shorten_value(item, limit) for item in items]
    if isinstance(value, Mapping):
        return {key: _shorten_value(item, limit) for key, item in value.items()}
    return value


# -- an answer as text

_ENTRIES = ("results", "chain", "checkpoint")  # keys of an answer that hold records
_HEAD = ("title", "holds", "type", "topic", "created", "date", "outcome")  # in the first line
_TEXTS = ("decision", "reasoning", "text")  # quoted below the other keys
_SKIPPED_KEYS = frozenset(("success", "truncated"))
_EMPTY_VALUES: tuple[object, ...] = ("", [], {}, False, None)
_COMMIT_DIGITS = 10  # of a commit, as shown


def render_answer(answer: Answer) -> str:
    """Return an answer as text for a model: notes first, without empty or false values."""
    entries = {name: answer[name] for name in _ENTRIES if answer.get(name)}
    skipped_keys = _SKIPPED_KEYS.union(_ENTRIES)
    if entries:
        skipped_keys |= {"count"}
    rows = _format_rows(answer, skipped_keys)
    for name, entry in entries.items():
        records = [entry] if name == "checkpoint" else entry
        hidden_keys = _SKIPPED_KEYS.union(_HEAD, _TEXTS)
        if len(records) > 1:  # the path is of use only in a single record
            hidden_keys |= {"path"}
        for number, record in enumerate(records, 1):
            rows.append(_format_entry(number, record, hidden_keys))
    return "\n".join(rows) or "nothing found"


def _format_rows(values: Answer, skipped_keys: Collection[str]) -> list[str]:
    """Return a row for each value that is not empty or false."""
    rows = []
    for name, value in values.items():
        if name not in skipped_keys and value not in _EMPTY_VALUES:
            rows.append(f"{name}: {_format_value(value, name)}")
    return rows


def _format_entry(number: int, record: Answer, hidden_keys: Collection[str]) -> str:
    rows = [f"{number}. {_format_head(record)}"]
    rows += _format_rows(record, hidden_keys)
    for name in _TEXTS:
        text = record.get(name) or ""
        # With "> " in front, no line of a record looks like one of the answer.
        rows += [f"> {_format_line(line)}" for line in text.splitlines()]
    return "\n   ".join(rows)


def _format_head(record: Answer) -> str:
    """Return the first line of a record."""
    state = ""
    if "holds" in record:
        state = "holds" if record["holds"] else "does not hold"
    date = str(record.get("created", record.get("date", "")))
    parts = [
        record["title"],
        state,
        record.get("type"),
        record.get("topic"),
        date[:10],
        record.get("outcome"),
    ]
    return " · ".join(_format_line(part) for part in parts if part)


def _format_line(text: str) -> str:
    """Return a text as one line without control characters."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def _format_value(value: Any, name: str = "") -> str:
    if isinstance(value, Mapping):
        return _format_mapping(value)
    if isinstance(value, list):
        return "; ".join(_format_value(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    line = _format_line(str(value))
    return line[:_COMMIT_DIGITS] if name == "commit" else line


def _format_mapping(value: Mapping[str, Any]) -> str:
    if value.keys() == {"id", "title"}:
        return f"{_format_line(value['title'])} ({value['id']})"
    parts = []
    for key, part in value.items():
        if part not in _EMPTY_VALUES:
            parts.append(f"{key} {_format_value(part, key)}")
    return ", ".join(parts)
