"""From a Record to the bytes of a new file. Existing files are never rendered again: they are amended."""

from __future__ import annotations

from collections.abc import Mapping

from filemem.errors import BadInput
from filemem.record import body as md
from filemem.record.body import edges_in, tidy_outcomes, write_outcome
from filemem.record.identity import topic_of_heading
from filemem.record.keys import EDGES, FLAG, KEYS, LIST, SECRETS_ALLOWED, SHARE, TIME, WORDS
from filemem.record.lines import escape, heading, one_line, tidy
from filemem.record.model import DECISION, Problem, Record
from filemem.record.parse import parse, split_header
from filemem.record.times import format_time
from filemem.record.yaml import chunks, flow, scalar

_DEFAULTS = {"status": "accepted", "outcome": "pending"}
_STATED_EMPTY = "supersedes"  # `[]` says "a first decision"; all other empty lists say nothing


def normal(record: Record) -> Record:
    """Return the record as a file of it reads: title and decision filled in, text tidied, the log in order.

    `parse(render(record))` gives `normal(record)`, apart from the path.
    """
    text = tidy(record.text)
    outcomes = tidy_outcomes(record.outcomes)
    changes: dict[str, object] = {"text": text, "outcomes": outcomes}
    if outcomes:
        changes["outcome"] = outcomes[-1].outcome
    decision = tidy(record.decision) if record.type == DECISION else ""
    title = one_line(record.title) or heading(decision) or heading(text)
    if not record.title and text == title:
        changes["text"] = text = ""
    if record.type == DECISION:
        changes["decision"] = decision = title if decision.strip() in ("", title) else decision
        mentions = (*edges_in(text), *(edges_in(decision) if decision != title else ()))
        changes["mentions"] = tuple(dict.fromkeys(mentions))
        if not record.topic:
            changes["topic"] = topic_of_heading(title)
    changes["title"] = title
    for name in ("rejected", "facts"):
        changes[name] = md.tidy_items(getattr(record, name))
    for name in ("metadata", "extra"):
        changes[name] = _deep_clean(getattr(record, name))
    changes["next_steps"] = tidy(record.next_steps)
    for key in KEYS:
        value = getattr(record, key.field)
        if isinstance(value, tuple):
            changes[key.field] = tuple(clean for item in value if (clean := _clean(item)))
        elif isinstance(value, str) and key.field not in changes:
            changes[key.field] = _clean(value)
    return record._replace(**changes)  # type: ignore[arg-type]


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def render(record: Record) -> bytes:
    """Return the bytes of a new file for `record`: UTF-8, LF line ends, a final newline."""
    record = normal(record)
    lines = ["---"]
    written = {"title"}  # the heading is the title
    for key in KEYS:
        if value := _value(record, key.field, key.shape):
            lines.append(f"{key.name}: {value}")
            written.add(key.name)
    lines += [f"{scalar(name)}: {flow(value)}" for name, value in record.extra.items() if name not in written]
    lines.append("---")
    return ("\n".join(lines) + "\n" + _body(record)).encode()


def _deep_clean(value: object) -> object:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(key)): _deep_clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_deep_clean(item) for item in value]
    return value


def _value(record: Record, field: str, shape: str) -> str:
    value = getattr(record, field)
    if field == "topic" and not record.topic_stated:
        return ""
    if value is None or value == _DEFAULTS.get(field):
        return ""
    if shape in (LIST, WORDS, EDGES):
        return flow(value) if value or field == _STATED_EMPTY else ""
    if shape == TIME:
        return scalar(format_time(value))
    if shape == SHARE:
        return repr(float(value))
    if shape == FLAG:
        return SECRETS_ALLOWED if value else ""
    return flow(value) if value else ""


def _body(record: Record) -> str:
    blocks = []
    if record.title:
        blocks.append(f"# {record.title}")
    if record.text:
        blocks.append(escape(record.text, md.SECTIONS[record.type]))
    for name, content in _sections(record):
        if content:
            blocks.append(f"## {name}\n{content}")
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _sections(record: Record) -> list[tuple[str, str]]:
    if record.type == DECISION:
        whole = record.decision if record.decision != record.title else ""
        return [
            (md.DECISION_SECTION, escape(whole)),
            (md.REJECTED, md.write_items(record.rejected)),
            (md.OUTCOMES, "\n".join(write_outcome(entry) for entry in record.outcomes)),
        ]
    return [(md.NEXT_STEPS, escape(record.next_steps)), (md.FACTS, md.write_items(record.facts))]


# -- what is written can be read -----------------------------------------------------------------------------

_TEXT = "text"  # what the body is called beside the keys


def refuse_unreadable(data: bytes, path: str, before: bytes = b"") -> None:
    """Raise where the bytes of a record, as they would be written, cannot be read again without loss.

    Args:
        data: the bytes of the file.
        path: store-relative, for the type where the header does not say it.
        before: what the file holds now: errors that it has already are not of our making.

    Raises:
        BadInput: says why, and names the field that is largest.
    """
    known = {problem.code for problem in parse(before, path).problems}
    errors = (problem for problem in parse(data, path).problems if problem.level == "error")
    if wrong := next((problem for problem in errors if problem.code not in known), None):
        raise _refusal(wrong, data)


def _refusal(wrong: Problem, data: bytes) -> BadInput:
    text = data.decode(errors="replace").replace("\r\n", "\n")
    split = split_header(text)
    sizes = {chunk.partition(":")[0]: len(chunk) for _, chunk in chunks(text[split.start : split.end])}
    if wrong.code == "file-size" or not sizes:
        sizes[_TEXT] = len(text) - split.body
    field = max(sizes, key=lambda name: sizes[name])
    why = f"{wrong.message.partition(';')[0]}; the largest field is {field}, with {sizes[field]:,} characters"
    return BadInput(
        f"this could not be read again: {why}", f"shorten {field}, or split this into several records", field=field
    )
