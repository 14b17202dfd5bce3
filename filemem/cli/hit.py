"""A record as text: as a hit, whole, or as a step of a history."""

from __future__ import annotations

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
_BELOW_A_HIT = (Field("because"), _PROPOSED, _DRIFT, _EVIDENCE, Field("also_in", "also in "))
_BELOW_A_STEP = (Field("reasons"), Field("replaces", "replaces: "), Field("rejected", "rejected: "))
_OUTCOMES: Mapping[str, Style] = {"failed": "red", "success": "green", "partial": "yellow"}
_LINE_WIDTH = 100  # characters of a line
_MIN_PATH_LENGTH = 20  # characters that a path keeps when it is cut
_MAX_LISTED_FILES = 5  # of those that changed since a decision

# Keys of a whole record that are worded by themselves, or matter only to programs.
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
_OWN_SUBJECT = re.compile(r"(decision|checkpoint|observation)(\(.*?\))?: |Merge ")


def index_by_id(hits: Iterable[Answer]) -> Records:
    """The records of an answer by their ids."""
    return {hit["id"]: hit for hit in hits}


def render_hit(number: int, hit: Answer, records: Records) -> str:
    """A record in three lines: title and state, text, origin; then what is rare."""
    rejected = format_fields(hit, (Field("already_rejected", "already rejected: "),))
    text = rejected[0] if rejected else hit.get("snippet") or extract_prose(hit.get("text", ""))
    earlier_count = hit.get("earlier")
    short_id = _get_short_id(hit["id"])
    return join_lines(
        _format_hit_heading(number, hit, records),
        *_wrap_text(text, 1),
        style_text(_format_origin(hit, short_id), "dim"),
        *(f"    {row}" for row in _format_standing(hit, records, _BELOW_A_HIT)),
        f"    {earlier_count} earlier on this topic: filemem history {short_id}"
        if earlier_count
        else "",
    )


def _format_hit_heading(number: int, hit: Answer, records: Records) -> str:
    provenance = hit.get("by", {})
    branch = "" if provenance.get("merged", True) else _format_only_branch(provenance)
    labels = join_cells(hit.get("type"), _get_topic(hit), hit.get("note"), branch, separator=" · ")
    reasons = [entry["reason"] for entry in hit.get("reasons", ())[-1:] if entry["reason"]]
    return join_cells(
        _format_title(f"{number:2}. ", hit),
        style_text(labels, "dim"),
        _format_outcome(hit, "".join(f": {reason}" for reason in reasons)),
        *_format_standing(hit, records, (_SUPERSEDED_BY,)),
    )


def _format_origin(hit: Answer, short_id: str) -> str:
    """Short id, day, author, commit and path; the path is cut to the width of a terminal."""
    provenance = hit.get("by", {})
    day = (hit.get("created") or provenance.get("date", ""))[:10]
    start = (
        join_cells(f"    {short_id}", day, _format_author(provenance), hit.get("commit", "")[:10])
        + "  "
    )
    path = f"{hit['repository']}/{hit['path']}" if "repository" in hit else hit["path"]
    max_path_length = max(_MIN_PATH_LENGTH, _measure_width() - len(start))
    if console.get_output().isatty() and len(path) > max_path_length:
        path = f"…{path[1 - max_path_length :]}"
    return start + path


def _format_title(mark: str, hit: Answer) -> str:
    return mark + style_text(hit["title"], "dim" if hit.get("superseded_by") else "bold")


def _format_outcome(hit: Answer, reason: str = "") -> str:
    outcome = hit.get("outcome", "pending")
    return "" if outcome == "pending" else style_text(outcome, _OUTCOMES.get(outcome, "")) + reason


def get_short_name(hit: Answer, name: str = "") -> str:
    """The short id of a record, or its path if it has no id."""
    name = hit.get("id", name)
    return str(hit.get("path", name)) if name.startswith("file_") else _get_short_id(name)


def _get_short_id(name: str) -> str:
    return name.rpartition("_")[2]


def _wrap_text(text: str, max_rows: int) -> list[str]:
    width = min(_LINE_WIDTH, _measure_width()) - 4
    rows = textwrap.wrap(" ".join(text.split()), width, max_lines=max_rows, placeholder=" …")
    return [f"    {row}" for row in rows]


def _measure_width() -> int:
    return (console.get_output().isatty() and console.get_columns()) or _LINE_WIDTH


def render_record(hit: Answer, records: Records) -> str:
    """A whole record: what it is, its other fields, its links; then text, outcomes and edits."""
    rows = [
        style_text(hit["title"], "bold"),
        f"{hit['id']}  {hit['path']}",
        _format_provenance(hit),
        *_format_standing(hit, records),
        *_iter_other_fields(hit),
        *(_format_edge(edge) for edge in hit.get("related", ())),
    ]
    decision = hit["decision"] if hit.get("decision", hit["title"]) != hit["title"] else ""
    edits = [_format_edit(hit, edit["changes"], edit) for edit in hit.get("revisions", ())]
    for part in ([decision], [hit.get("text", "")], _list_outcomes(hit), edits):
        texts = [text for text in part if text]
        if texts:
            rows += ["", *texts]
    return "\n".join(rows)


def _iter_other_fields(hit: Answer) -> Iterable[str]:
    """`key: value` for each field that has no wording of its own."""
    handled_keys = set(_HANDLED_KEYS)
    if hit.get("heads") == hit.get("superseded_by"):
        handled_keys.add("heads")
    for key, value in hit.items():
        if key not in handled_keys and value not in ("", [], {}, None):
            row = f"{key}: {_format_value(value)}"
            yield row.replace("\n", "\n    ")  # indented, so stored text cannot imitate our lines


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _format_edge(edge: Answer) -> str:
    name = f"{edge['title']} ({edge['id']})" if edge.get("title") else edge["id"]
    reason = f": {edge['reason']}" if edge["reason"] not in ("", "front matter") else ""
    return f"{edge['kind'].replace('_', ' ')}: {name}{reason}"


def _format_standing(
    hit: Answer, records: Records, fields: Sequence[Field] = _STANDING
) -> list[str]:
    """What replaced a decision, and other reasons not to follow it."""
    known_records = {**records, **index_by_id(hit.get("successors", ()))}
    field_texts = {
        **hit,
        "drift": _format_drift(hit),
        "superseded_by": _format_names(hit.get("superseded_by", ()), known_records),
        "proposed": _format_names(hit.get("proposed", ()), known_records),
    }
    return format_fields(field_texts, fields)


def _format_drift(hit: Answer) -> str:
    """How the code of a decision moved on, and the files that changed."""
    if not hit.get("drift"):
        return ""
    deleted_paths = hit.get("gone", ())
    changed_paths = [path for path in hit.get("drifted", ()) if path not in deleted_paths]
    if not changed_paths:
        return f"its code is {hit['drift']}"
    separator = "; changed" if deleted_paths else ""
    return f"its code is {hit['drift']}{separator}: {', '.join(changed_paths[:_MAX_LISTED_FILES])}"


def _format_names(ids: Iterable[str], records: Records) -> str:
    """The titles of records with their short ids; the id alone of a record that is elsewhere."""
    names = (
        f"{records[name]['title']} ({get_short_name(records[name], name)})"
        if name in records
        else name
        for name in ids
    )
    return "; ".join(names)


def render_step(step: Answer, previous_id: str, titles: Mapping[str, str]) -> str:
    """A decision of a chain; `above` is the one that is shown before it."""
    step = defaultdict(str, step)
    text = f"{strip_title(step['title'], step.get('decision', ''))}\n\n{step.get('reasoning', '')}"
    replaced_titles = [titles[name] for name in step["supersedes"] if name in titles]
    rows = {
        "reasons": _list_outcomes(step),
        "replaces": " and ".join(replaced_titles) if step["supersedes"] != [previous_id] else "",
        "rejected": step.get("rejected"),
    }
    # The chain itself shows what replaced the step.
    standing = _format_standing({**step, "superseded_by": (), "proposed": ()}, {})
    provenance = {**step, "date": step["committed"]}
    origin = _format_provenance({**step, "by": provenance, "created": step["date"]})
    return join_lines(
        _format_step_heading(step),
        *_wrap_text(extract_prose(text), 3),
        *format_fields(rows, _BELOW_A_STEP, 4),
        *(f"    {row}" for row in (*standing, *_iter_edits(step))),
        style_text(f"    {_get_short_id(step['id'])}  {origin}  {step['path']}", "dim"),
    )


def _format_step_heading(step: Answer) -> str:
    mark = style_text("●", "green") if step["holds"] else "○"
    day = f"{step['date'][:10]}  ".lstrip()
    topic = _get_topic(step) if step["foreign"] else ""
    status = "" if step["status"] == "accepted" else step["status"]
    labels = style_text(join_cells(topic, status, separator=" · "), "dim")
    return join_cells(_format_title(f"{mark}  {day}", step), labels, _format_outcome(step))


def _iter_edits(step: Answer) -> Iterable[str]:
    """The edits of a step; an outcome is no edit, as the log shows it."""
    for edit in step["revisions"]:
        changes = [change for change in edit["changes"] if not change.startswith("outcome ")]
        if changes or not edit["changes"]:
            yield _format_edit(step, changes, edit)


def _format_edit(step: Answer, changes: Sequence[str], edit: Answer) -> str:
    """An edit: date, author, commit, changes, and the commit's subject if it says more."""
    summary = "; ".join(changes)
    if not edit["commit"]:
        return style_text(f"not committed: {summary}", "yellow") if changes else ""
    subject = edit["subject"]
    is_own_subject = subject == step["title"] or _OWN_SUBJECT.match(subject)
    subject_note = style_text(f"  ({subject})", "dim") if summary and not is_own_subject else ""
    return f"{edit['date'][:10]} {_format_author(edit)} {edit['commit'][:10]}: {summary or subject}{subject_note}"


def _format_author(provenance: Answer) -> str:
    return join_cells(provenance.get("author"), provenance.get("agent"), separator=", ")


def _format_only_branch(provenance: Answer) -> str:
    return f"only on {provenance.get('branch') or 'this commit'}"


def _format_provenance(hit: Answer) -> str:
    """Author, date and commit of a record, and what else Git shows."""
    provenance = hit.get("by", {})
    stated_day = hit.get("created", "")[:10]
    commit_day = provenance.get("date", "")[:10]
    has_other_day = commit_day and stated_day not in ("", commit_day)
    return join_cells(
        _format_author(provenance),
        commit_day or stated_day,
        _format_commit(hit, provenance),
        f"dated {stated_day}" if has_other_day else "",  # the file's word stands apart from Git's
        _format_branch(provenance),
        *_iter_contributors(provenance),
    )


def _format_commit(hit: Answer, provenance: Answer) -> str:
    if provenance.get("commit"):
        return str(provenance["commit"][:10])
    return "" if hit.get("note") else "not committed"


def _format_branch(provenance: Answer) -> str:
    """Where a record is, if a branch is checked out that is not the default one."""
    if not provenance.get("default"):
        return ""
    return (
        f"on {provenance['default']}" if provenance["merged"] else _format_only_branch(provenance)
    )


def _iter_contributors(provenance: Answer) -> Iterable[str]:
    """Who else worked on a record: co-authors, reviewers, the last editor."""
    if provenance.get("co_authors"):
        yield f"with {', '.join(provenance['co_authors'])}"
    if provenance.get("reviewers"):
        yield f"reviewed by {', '.join(provenance['reviewers'])}"
    for edit in provenance.get("edited", ())[:1]:
        yield f"edited by {edit['author']} {edit['date'][:10]} {edit['commit'][:10]}"


def _list_outcomes(hit: Answer) -> list[str]:
    """The log of outcomes."""
    return [_format_outcome_entry(entry) for entry in hit.get("reasons", ())]


def _format_outcome_entry(entry: Answer) -> str:
    outcome = style_text(entry["outcome"], _OUTCOMES.get(entry["outcome"], ""))
    reason = f": {entry['reason']}" if entry["reason"] else ""
    return f"{outcome} {entry['at'][:10]}{reason}"


def _get_topic(hit: Answer) -> str:
    """The topic of a decision, unless it is just the heading."""
    topic: str = hit.get("topic", "")
    return topic if topic not in (hit["title"], parse_topic(hit["title"])) else ""
