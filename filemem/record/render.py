"""From a Record to the bytes of a new file. Existing files are never rendered again: they are amended."""

from __future__ import annotations

from filemem.errors import BadInput
from filemem.record import body as md
from filemem.record.body import tidy_outcomes, write_outcome
from filemem.record.keys import FLAG, GUARDS, KEYS, SECRETS_ALLOWED, SHARE, TIME, WORDS, word
from filemem.record.lines import escape, heading, one_line, tidy
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse, split_header
from filemem.record.times import format_time
from filemem.record.yaml import chunks, flow, scalar

_DEFAULTS = {"status": "accepted", "outcome": "pending"}
_STATED_EMPTY = "supersedes"  # `[]` says "a first decision"; all other empty lists say nothing


def render(record: Record) -> bytes:
    """Return the bytes of a new file for a record: UTF-8, LF line ends, a final newline.

    A record without a title gets the first line of its decision, else of its text, as heading; what is the whole of a
    text or decision is not written again below it.
    """
    text, decision = tidy(record.text), tidy(record.decision) if record.type == DECISION else ""
    title = one_line(record.title) or heading(decision) or heading(text)
    outcomes = tidy_outcomes(record.outcomes)
    if outcomes:
        record = record._replace(outcome=outcomes[-1].outcome)
    lines = ["---"]
    written = {"title"}  # the heading is the title
    for key in KEYS:
        if value := value_of(record, key.field, key.shape):
            lines.append(f"{key.name}: {value}")
            written.add(key.name)
    lines += [
        f"{scalar(name)}: {flow(value)}"
        for name, value in record.extra.items()
        if name not in written
    ]
    lines.append("---")
    blocks = [f"# {title}"] if title else []
    if text and (record.title or text != title):
        blocks.append(escape(text, md.SECTIONS[record.type]))
    sections = {
        md.DECISION_SECTION: escape(decision) if decision.strip() != title else "",
        md.REJECTED: md.write_items(record.rejected),
        md.OUTCOMES: "\n".join(write_outcome(entry) for entry in outcomes),
        md.NEXT_STEPS: escape(tidy(record.next_steps)),
        md.FACTS: md.write_items(record.facts),
    }
    known = md.SECTIONS[record.type]
    blocks += [
        f"## {name}\n{content}"
        for name, content in sections.items()
        if content and name.casefold() in known
    ]
    return ("\n".join(lines) + "\n" + "\n\n".join(blocks) + ("\n" if blocks else "")).encode()


def value_of(record: Record, field: str, shape: str) -> str:
    """Return the value of a key as a header says it; "" where that says nothing."""
    value = getattr(record, field)
    if (
        value is None
        or value == _DEFAULTS.get(field)
        or (field == "topic" and not record.topic_stated)
    ):
        return ""
    if shape == TIME:
        return scalar(format_time(value))
    if shape == SHARE:
        return repr(float(value))
    if shape == FLAG:
        return SECRETS_ALLOWED if value else ""
    if shape == GUARDS:
        value = [guard.plain for guard in value]
    if isinstance(value, tuple):
        value = [word(item) if shape == WORDS else item for item in value if item]
    return flow(value) if value or field == _STATED_EMPTY else ""


def refuse_unreadable(data: bytes, path: str, before: bytes = b"") -> None:
    """Raise BadInput where a record as it would be written cannot be read again; errors of `before` do not count."""
    known = {problem.code for problem in parse(before, path).problems} if before else ()
    errors = (problem for problem in parse(data, path).problems if problem.level == "error")
    wrong = next((problem for problem in errors if problem.code not in known), None)
    if wrong is None:
        return
    text = data.decode(errors="replace").replace("\r\n", "\n")
    split = split_header(text)
    sizes = {chunk.partition(":")[0]: len(chunk) for _, chunk in chunks(split.header)}
    if wrong.code == "file-size" or not sizes:
        sizes["text"] = len(text) - split.body
    field = max(sizes, key=lambda name: sizes[name])
    why = f"{wrong.message.partition(';')[0]}; the largest field is {field}, with {sizes[field]:,} characters"
    hint = f"shorten {field}, or split this into several records"
    raise BadInput(f"this could not be read again: {why}", hint, field=field)
