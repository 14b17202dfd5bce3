"""Change some values of an existing file and leave every other byte as it is.

The result is proved before it is returned: it is read again, and what was asked for must be the only
difference. Where that cannot be had, the answer is an error that says why, never a rewritten file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from filemem.errors import BadInput, Conflict
from filemem.record.amend_body import append_outcome, set_status, set_text, set_title
from filemem.record.amend_header import holds, set_key
from filemem.record.decoding import MAX_FILE, is_wide
from filemem.record.document import Document
from filemem.record.foreign import parted
from filemem.record.header import read_header
from filemem.record.keys import ALIASES, KEY_BY_NAME, TITLE_KEY
from filemem.record.lines import conflicts, one_line, tidy, way_out
from filemem.record.model import DECISION, Outcome, Record
from filemem.record.outcomes import tidy_outcomes
from filemem.record.parse import parse, stated_title
from filemem.record.proof import refuse_unreadable

_ALSO_CHANGES: Mapping[str, frozenset[str]] = {
    "topic": frozenset(("topic_stated",)),
    "id": frozenset(("id_stated",)),
    "status": frozenset(("superseded_by", "supersedes")),
    TITLE_KEY: frozenset(("title", "topic", "decision", "mentions", "text")),
}
_IN_TEXT = frozenset(("status",))  # what a file without an id may state in its text as well as in its header
_NO_KEYS: Mapping[str, object] = {}


def amend(
    data: bytes,
    path: str,
    *,
    keys: Mapping[str, object] = _NO_KEYS,
    outcome: Outcome | None = None,
    title: str | None = None,
    text: str | None = None,
) -> bytes:
    """Return the bytes of a file with some values changed.

    Args:
        data: the file as it is.
        path: store-relative, for messages and for the type where the header does not say it.
        keys: front matter key -> its new value (text, number, list of text, mapping); None removes the key.
        outcome: an entry to add to the log; the `outcome` key follows the newest entry.
        title: the new heading.
        text: the new text below the heading, without the known sections.

    Raises:
        BadInput: the file is broken (file:line in the message) or would be; the request is empty or of the wrong type.
        Conflict: it cannot be done without touching other lines.
    """
    document = Document.of(data)
    if outcome is not None:
        document = _with_one_outcome_key(document, path)
    _refuse_broken(document, data, path)
    before = parse(data, path).record
    if before is None:
        raise BadInput(f"{path} cannot be read", "correct the file, then try again")
    restated = set_status(document, path, str(keys["status"])) if keys.get("status") and text is None else None
    said = _IN_TEXT if restated else frozenset[str]()
    document = restated or document
    stated = read_header(document.text()).values
    for name, value in keys.items():
        if (name not in said or name in stated) and not (name == "outcome" and outcome):
            document = set_key(document, path, name, value)
    if outcome is not None:
        document = _with_outcome(document, path, before, outcome)
    if title is not None:
        document = _with_title(document, path, before, title)
    if text is not None:
        document = set_text(document, path, before.type, text)
    changed = document.data()
    if changed != data:
        refuse_unreadable(changed, path, data)
        wrong = _unwanted(before, changed, path, keys, outcome, title, text, said)
        if wrong:
            raise Conflict(f"{path}: {wrong}", "edit the file by hand")
    return changed


def _refuse_broken(document: Document, data: bytes, path: str) -> None:
    if len(data) > MAX_FILE:
        raise BadInput(f"{path}: the file is larger than 1 MiB", "split it")
    if is_wide(data):
        raise BadInput(
            f"{path}:1: UTF-16, and only UTF-8 is changed in place", "write the file as UTF-8, then try again"
        )
    text = document.text()
    lines = text.split("\n") if "<<<<<<<" in text else []
    if found := conflicts(lines):
        raise BadInput(
            f"{path}:{found[0][0] + 1}: an unresolved merge conflict",
            f"{way_out(lines, found[0])}, remove the markers, then try again",
        )
    header = read_header(text)
    if not header.sound:
        note = next((note for note in header.notes if note.level == "error"), header.notes[0])
        raise BadInput(f"{path}:{note.line}: {note.message}", "correct the file, then try again")


def _with_one_outcome_key(document: Document, path: str) -> Document:
    """Take out the upper of two `outcome` keys, which a merge that keeps both sides leaves: where there is a log, it
    decides."""
    header = read_header(document.text())
    lines = [number for number, (line, _) in enumerate(document.lines, 1) if line.startswith("outcome:")]
    if [note.code for note in header.notes] != ["duplicate-key"] or header.lines.get("outcome") not in lines[1:2]:
        return document
    record = parse(document.data(), path).record
    return document.splice(lines[0] - 1, lines[0], ()) if record and record.outcomes else document


def _with_outcome(document: Document, path: str, before: Record, outcome: Outcome) -> Document:
    if before.type != DECISION:
        raise BadInput(f"{path} is of type {before.type}; only decisions have outcomes", field="outcome")
    document = append_outcome(document, outcome)
    after = parse(document.data(), path).record
    newest = after.outcome if after else outcome.outcome
    stated = read_header(document.text()).values.get("outcome")
    if stated is not None and before.outcome == newest and "outcome" not in before.extra:
        return document  # the key says it already, perhaps in another spelling
    return set_key(document, path, "outcome", newest)


def _with_title(document: Document, path: str, before: Record, title: str) -> Document:
    title = one_line(title)
    if not title:
        raise BadInput("title must not be empty", field="title")
    if stated_title(read_header(document.text())):
        return set_key(document, path, TITLE_KEY, title)
    return set_title(document, before.type, title)


# -- the proof ----------------------------------------------------------------------------------------------


def _unwanted(
    before: Record,
    changed: bytes,
    path: str,
    keys: Mapping[str, object],
    outcome: Outcome | None,
    title: str | None,
    text: str | None,
    said: frozenset[str],
) -> str:
    """Return what is wrong with the result, or ""; `said` are keys that the text states."""
    after = parse(changed, path).record
    header = read_header(Document.of(changed).text())
    if after is None or not header.sound:
        return "the change would break the file"
    for name, value in keys.items():
        if name in said and name not in header.values:
            continue
        if not (name == "outcome" and outcome) and not holds(header.values.get(name), value):
            return f"`{name}` cannot be changed in the way it is written"
    if said and (after.status != keys["status"] or parted(after.text).argument != parted(before.text).argument):
        return "the status cannot be changed in the way the text states it"
    if outcome is not None and set(after.outcomes) != {*before.outcomes, *tidy_outcomes([outcome])}:
        return "the outcome cannot be added to `## Outcomes` as it is written"
    if title is not None and after.title != one_line(title):
        return "the heading cannot be changed in the way it is written"
    if text is not None and after.text != tidy(text):
        return "the text cannot be changed in the way it is written"
    allowed = frozenset(_allowed(keys, outcome, title, text)) | ({"text"} if said else set())
    for name in Record._fields:
        if name not in allowed and getattr(before, name) != getattr(after, name):
            return f"the change would alter `{name}` as well"
    touched = {*keys, *ALIASES, "outcome"}
    if {k: v for k, v in before.extra.items() if k not in touched} != {
        k: v for k, v in after.extra.items() if k not in touched
    }:
        return "the change would alter other keys as well"
    return ""


def _allowed(keys: Mapping[str, object], outcome: Outcome | None, title: str | None, text: str | None) -> Iterator[str]:
    yield "extra"
    for name in keys:
        yield KEY_BY_NAME[name].field if name in KEY_BY_NAME else ALIASES.get(name, "extra")
        yield from _ALSO_CHANGES.get(name, ())
    if outcome is not None:
        yield from ("outcome", "outcomes")
    if title is not None:
        yield from ("title", "decision", "topic", "mentions", "text")
    if text is not None:
        yield from ("text", "mentions", "title", "decision", "topic")
