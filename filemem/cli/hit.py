"""Render a record as text: as a search result, as a whole record, or as a step of a history."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from filemem.cli import console
from filemem.cli.text import (
    NOTE,
    Answer,
    Field,
    Style,
    format_fields,
    join_cells,
    join_lines,
    style_text,
)
from filemem.query import extract_prose, strip_title
from filemem.record import parse_topic

Records = Mapping[str, Answer]  # the records of an answer, by id

_SUPERSEDED_BY = Field("superseded_by", "superseded by ", "yellow")
_PROPOSED = Field("proposed", "proposed in its place: ", "yellow")
_DRIFT = Field("drift", style="yellow")
_EVIDENCE = Field("evidence", style="yellow")
_STANDING = (_SUPERSEDED_BY, NOTE, _PROPOSED, _DRIFT, _EVIDENCE)
_STANDING_IN_CHAIN = (NOTE, _DRIFT, _EVIDENCE)  # the chain itself shows what replaced a step
_BELOW_A_HIT = (Field("because"), _PROPOSED, _DRIFT, _EVIDENCE, Field("also_in", "also in "))
_BELOW_A_STEP = (Field("reasons"), Field("replaces", "replaces: "), Field("rejected", "rejected: "))
_OUTCOMES: Mapping[str, Style] = {"failed": "red", "success": "green", "partial": "yellow"}
_LINE_WIDTH = 100  # characters per line if the output is not a terminal
_MIN_PATH_LENGTH = 20  # characters of a path that are shown even on a narrow terminal
_MAX_LISTED_FILES = 5  # changed files listed for a decision

# Keys of a whole record that have their own wording, or that only programs need.
_HANDLED_KEYS = frozenset(
    (
        "id",
        "path",
        "title",
        "text",
        "decision",
        "score",
        "scores",
        "by",
        "snippet",
        "related",
        "reasons",
        "success",
        "superseded_by",
        "proposed",
        "successors",
        "highlight",
        "holds",
        "note",
        "revisions",
        "drift",
        "drifted",
        "gone",
        "evidence",
    )
)
_ALREADY_REJECTED = Field("already_rejected", "already rejected: ")
_OWN_SUBJECT = re.compile(r"(decision|checkpoint|observation)(\(.*?\))?: |Merge ")


def index_by_id(hits: Iterable[Answer]) -> Records:
    """Map the records of an answer by their ids."""
    return {hit["id"]: hit for hit in hits}


def render_hit(number: int, hit: Answer, records: Records) -> str:
    """Render a search result: title and state, an excerpt, the origin, then any warnings."""
    short_id = _get_short_id(hit["id"])
    rows = [_format_hit_heading(number, hit, records)]
    rows += _wrap_text(_choose_excerpt(hit), max_rows=1)
    rows.append(style_text(_format_origin(hit, short_id), "dim"))
    rows += _format_indented(_format_standing(hit, records, _BELOW_A_HIT))
    earlier_count = hit.get("earlier")
    if earlier_count:
        rows.append(f"    {earlier_count} earlier on this topic: filemem history {short_id}")
    return join_lines(rows)


def _choose_excerpt(hit: Answer) -> str:
    """Return the text to show below a title.

    An alternative that was already rejected comes before the passage that matched.
    """
    rejected = format_fields(hit, [_ALREADY_REJECTED])
    if rejected:
        return rejected[0]
    snippet: str = hit.get("snippet", "")
    if snippet:
        return snippet
    return extract_prose(hit.get("text", ""))


def _format_hit_heading(number: int, hit: Answer, records: Records) -> str:
    """Format the first line of a search result: number, title, labels, outcome and successors."""
    provenance = hit.get("by", {})
    branch = ""
    if not provenance.get("merged", True):
        branch = _format_only_branch(provenance)
    labels = join_cells(hit.get("type"), _get_topic(hit), hit.get("note"), branch, separator=" · ")
    outcome = _format_outcome(hit)
    outcome_log = hit.get("reasons", ())
    if outcome and outcome_log:
        reason = outcome_log[-1]["reason"]
        outcome += f": {reason}" if reason else ""
    successors = _format_standing(hit, records, [_SUPERSEDED_BY])
    title = _format_title(f"{number:2}. ", hit)
    return join_cells(title, style_text(labels, "dim"), outcome, *successors)


def _format_origin(hit: Answer, short_id: str) -> str:
    """Format the short id, day, author, commit and path of a search result."""
    provenance = hit.get("by", {})
    moment = hit.get("created")
    if not moment:
        moment = provenance.get("date", "")
    commit = hit.get("commit", "")
    author = _format_author(provenance)
    start = join_cells(f"    {short_id}", moment[:10], author, commit[:10]) + "  "
    path = hit["path"]
    if "repository" in hit:
        path = f"{hit['repository']}/{path}"
    return start + _fit_path(path, _measure_width() - len(start))


def _fit_path(path: str, max_length: int) -> str:
    """Cut the beginning of a path that is too long for a terminal."""
    max_length = max(_MIN_PATH_LENGTH, max_length)
    if len(path) <= max_length or not console.get_output().isatty():
        return path
    kept_length = max_length - 1
    return f"…{path[-kept_length:]}"


def _format_title(mark: str, hit: Answer) -> str:
    if hit.get("superseded_by"):
        return mark + style_text(hit["title"], "dim")
    return mark + style_text(hit["title"], "bold")


def _format_outcome(hit: Answer) -> str:
    outcome = hit.get("outcome", "pending")
    if outcome == "pending":
        return ""
    return style_text(outcome, _OUTCOMES.get(outcome, ""))


def get_short_name(hit: Answer) -> str:
    """Return the short id of a record, or its path if it has no id."""
    record_id = hit.get("id", "")
    if record_id.startswith("file_"):
        return str(hit.get("path", record_id))
    return _get_short_id(record_id)


def _get_short_id(record_id: str) -> str:
    return record_id.rpartition("_")[2]


def _wrap_text(text: str, max_rows: int) -> list[str]:
    width = min(_LINE_WIDTH, _measure_width()) - 4
    words = " ".join(text.split())
    return _format_indented(textwrap.wrap(words, width, max_lines=max_rows, placeholder=" …"))


def _format_indented(rows: Iterable[str]) -> list[str]:
    return [f"    {row}" for row in rows]


def _measure_width() -> int:
    """Return the width of the terminal; a fixed width if the output is not a terminal."""
    if not console.get_output().isatty():
        return _LINE_WIDTH
    return console.get_columns() or _LINE_WIDTH


def render_record(hit: Answer, records: Records) -> str:
    """Render a whole record: fields and links first, then text, outcomes and edits."""
    rows = [
        style_text(hit["title"], "bold"),
        f"{hit['id']}  {hit['path']}",
        _format_provenance(hit),
    ]
    rows += _format_standing(hit, records, _STANDING)
    rows += _iter_other_fields(hit)
    rows += [_format_edge(edge) for edge in hit.get("related", ())]
    decision = hit.get("decision", "")
    if decision == hit["title"]:
        decision = ""
    edits = hit.get("revisions", ())
    edit_rows = [_format_edit(edit, edit["changes"], hit["title"]) for edit in edits]
    return join_cells(
        "\n".join(rows),
        decision,
        hit.get("text", ""),
        join_lines(_list_outcomes(hit)),
        join_lines(edit_rows),
        separator="\n\n",
    )


def _iter_other_fields(hit: Answer) -> Iterator[str]:
    """Yield `key: value` for each field that has no wording of its own."""
    handled_keys = set(_HANDLED_KEYS)
    if hit.get("heads") == hit.get("superseded_by"):
        handled_keys.add("heads")
    for key, value in hit.items():
        if key in handled_keys or value in ("", [], {}, None):
            continue
        row = f"{key}: {_format_value(value)}"
        yield row.replace("\n", "\n    ")  # indented, so stored text cannot imitate our lines


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return ", ".join([str(entry) for entry in value])
    return str(value)


def _format_edge(edge: Answer) -> str:
    """Format a link to another record: its kind, the record and the reason."""
    kind = edge["kind"].replace("_", " ")
    name = edge["id"]
    if edge.get("title"):
        name = f"{edge['title']} ({name})"
    if edge["reason"] in ("", "front matter"):
        return f"{kind}: {name}"
    return f"{kind}: {name}: {edge['reason']}"


def _format_standing(hit: Answer, records: Records, fields: Sequence[Field]) -> list[str]:
    """Format what replaced a decision, and other reasons not to follow it."""
    known_records = dict(records)
    known_records.update(index_by_id(hit.get("successors", ())))
    field_texts = dict(
        hit,
        drift=_format_drift(hit),
        superseded_by=_format_names(hit.get("superseded_by", ()), known_records),
        proposed=_format_names(hit.get("proposed", ()), known_records),
    )
    return format_fields(field_texts, fields)


def _format_drift(hit: Answer) -> str:
    """Format how the code has drifted from a decision, and the files that changed."""
    drift = hit.get("drift")
    if not drift:
        return ""
    deleted_paths = hit.get("gone", ())
    changed_paths = [path for path in hit.get("drifted", ()) if path not in deleted_paths]
    if not changed_paths:
        return f"its code is {drift}"
    listed_paths = ", ".join(changed_paths[:_MAX_LISTED_FILES])
    if deleted_paths:
        return f"its code is {drift}; changed: {listed_paths}"
    return f"its code is {drift}: {listed_paths}"


def _format_names(ids: Iterable[str], records: Records) -> str:
    """Format titles with short ids; only the id of a record that is not among `records`."""
    names: list[str] = []
    for record_id in ids:
        record = records.get(record_id)
        if record is None:
            names.append(record_id)
        else:
            names.append(f"{record['title']} ({get_short_name(record)})")
    return "; ".join(names)


def render_step(step: Answer, previous_id: str, titles: Mapping[str, str]) -> str:
    """Render a decision of a chain; `previous_id` is the one that is shown above it."""
    title = strip_title(step["title"], step.get("decision", ""))
    text = f"{title}\n\n{step.get('reasoning', '')}"
    details = {
        "reasons": _list_outcomes(step),
        "replaces": _format_replaced(step, previous_id, titles),
        "rejected": step.get("rejected"),
    }
    rows = [_format_step_heading(step)]
    rows += _wrap_text(extract_prose(text), max_rows=3)
    rows += format_fields(details, _BELOW_A_STEP, indent=4)
    rows += _format_indented(_format_standing(step, {}, _STANDING_IN_CHAIN))
    rows += _format_indented(_iter_edits(step))
    short_id = _get_short_id(step["id"])
    origin = _format_step_origin(step)
    rows.append(style_text(f"    {short_id}  {origin}  {step['path']}", "dim"))
    return join_lines(rows)


def _format_replaced(step: Answer, previous_id: str, titles: Mapping[str, str]) -> str:
    """Format the titles that a step replaced, unless it replaced just the one above it."""
    replaced_ids = step.get("supersedes", [])
    if replaced_ids == [previous_id]:
        return ""
    return " and ".join([titles[name] for name in replaced_ids if name in titles])


def _format_step_origin(step: Answer) -> str:
    """Format author, date and commit of a step, which states them beside its other fields."""
    provenance = dict(step, date=step.get("committed", ""))
    record = dict(step, by=provenance, created=step.get("date", ""))
    return _format_provenance(record)


def _format_step_heading(step: Answer) -> str:
    mark = "○"
    if step.get("holds"):
        mark = style_text("●", "green")
    day = step.get("date", "")[:10]
    if day:
        mark += f"  {day}"
    topic = _get_topic(step) if step.get("foreign") else ""
    status = step.get("status", "")
    if status == "accepted":
        status = ""
    labels = join_cells(topic, status, separator=" · ")
    title = _format_title(f"{mark}  ", step)
    return join_cells(title, style_text(labels, "dim"), _format_outcome(step))


def _iter_edits(step: Answer) -> Iterator[str]:
    """Yield the edits of a step, without its outcomes: they are listed above."""
    for edit in step.get("revisions", ()):
        all_changes = edit["changes"]
        changes = [change for change in all_changes if not change.startswith("outcome ")]
        if changes or not all_changes:
            yield _format_edit(edit, changes, step["title"])


def _format_edit(edit: Answer, changes: Sequence[str], record_title: str) -> str:
    """Format an edit: date, author, commit, changes, and the commit's subject if it says more."""
    summary = "; ".join(changes)
    if not edit["commit"]:
        return style_text(f"not committed: {summary}", "yellow") if changes else ""
    origin = f"{edit['date'][:10]} {_format_author(edit)} {edit['commit'][:10]}"
    subject = edit["subject"]
    if not summary:
        return f"{origin}: {subject}"
    if subject == record_title or _OWN_SUBJECT.match(subject):
        return f"{origin}: {summary}"
    subject_note = style_text(f"  ({subject})", "dim")
    return f"{origin}: {summary}{subject_note}"


def _format_author(provenance: Answer) -> str:
    return join_cells(provenance.get("author"), provenance.get("agent"), separator=", ")


def _format_only_branch(provenance: Answer) -> str:
    branch = provenance.get("branch") or "this commit"
    return f"only on {branch}"


def _format_provenance(hit: Answer) -> str:
    """Format author, date and commit of a record, its branch, and who else worked on it."""
    provenance = hit.get("by", {})
    stated_day = hit.get("created", "")[:10]
    commit_day = provenance.get("date", "")[:10]
    stated_day_note = ""
    if commit_day and stated_day and stated_day != commit_day:
        stated_day_note = f"dated {stated_day}"  # what the file says, beside what Git says
    return join_cells(
        _format_author(provenance),
        commit_day or stated_day,
        _format_commit(hit, provenance),
        stated_day_note,
        _format_branch(provenance),
        *_iter_contributors(provenance),
    )


def _format_commit(hit: Answer, provenance: Answer) -> str:
    commit = provenance.get("commit")
    if commit:
        return str(commit[:10])
    return "" if hit.get("note") else "not committed"


def _format_branch(provenance: Answer) -> str:
    """Format the branch of a record, if the branch checked out is not the default one."""
    default_branch = provenance.get("default")
    if not default_branch:
        return ""
    if provenance["merged"]:
        return f"on {default_branch}"
    return _format_only_branch(provenance)


def _iter_contributors(provenance: Answer) -> Iterator[str]:
    """Yield who else worked on a record: co-authors, reviewers, the last editor."""
    co_authors = ", ".join(provenance.get("co_authors", ()))
    if co_authors:
        yield f"with {co_authors}"
    reviewers = ", ".join(provenance.get("reviewers", ()))
    if reviewers:
        yield f"reviewed by {reviewers}"
    edits = provenance.get("edited")
    if edits:
        edit = edits[0]
        yield f"edited by {edit['author']} {edit['date'][:10]} {edit['commit'][:10]}"


def _list_outcomes(hit: Answer) -> list[str]:
    """Format the log of outcomes, one entry a line."""
    return [_format_outcome_entry(entry) for entry in hit.get("reasons", ())]


def _format_outcome_entry(entry: Answer) -> str:
    outcome = style_text(entry["outcome"], _OUTCOMES.get(entry["outcome"], ""))
    row = f"{outcome} {entry['at'][:10]}"
    if entry["reason"]:
        row += f": {entry['reason']}"
    return row


def _get_topic(hit: Answer) -> str:
    """Return the topic of a decision; "" if its title says nothing else."""
    topic: str = hit.get("topic", "")
    title = hit["title"]
    if topic in (title, parse_topic(title)):
        return ""
    return topic
