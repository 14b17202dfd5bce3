"""Render the answers of tools as text for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from filemem.cli.hit import get_short_name, index_by_id, render_hit, render_record, render_step
from filemem.cli.score import iter_score_lines
from filemem.cli.text import (
    HINT,
    NOTE,
    WARNING,
    Answer,
    Field,
    format_fields,
    join_cells,
    join_lines,
    style_text,
)
from filemem.dialects.native import format_fork_hint
from filemem.dialects.tool import format_count
from filemem.record import parse_topic

_PENDING = Field("pending", "because: ", "yellow")
_DEGRADED = Field("degraded", "degraded: ", "yellow")
_NOTES = (_PENDING, _DEGRADED, WARNING, NOTE)
_REPLACED = Field("replaced", "replaced: ")
_WOULD_SUPERSEDE = Field("would_supersede", "would supersede ")
_HISTORY_NOTES = (NOTE, Field("notes", "note: ", "yellow"))
_WHY_LABELS = {"governs": "governs", "touched": "came with", "near": "may be about"}


# -- the result of a command that writes


def render_message(answer: Answer) -> str:
    """Render a message and its commit, then notes."""
    rows = [answer["message"] + _format_commit(answer)]
    rows += format_fields(answer, _NOTES, indent=2)
    rows += format_fields(answer, [HINT], indent=2)
    return join_lines(rows)


def render_save(answer: Answer) -> str:
    """Render what was saved, where, and what it replaced or would replace."""
    rows = [
        answer["message"],
        f"  {answer['path']}",
        f"  {answer['id']}{_format_commit(answer)}",
    ]
    rows += format_fields(answer, [_REPLACED], indent=2)
    if answer.get("undo"):
        rows.append(f"  undo: filemem forget {get_short_name(answer)}")
    rows += format_fields(answer, [_WOULD_SUPERSEDE], indent=2)
    rows += format_fields(answer, _NOTES, indent=2)
    for record in answer.get("similar") or ():
        rows.append(f"  similar: {record['title']} ({record['id']}): {record['hint']}")
    return join_lines(rows)


def render_forget(answer: Answer) -> str:
    """Render what was removed and how to restore it.

    With `--purge` it is the command that removes the record from Git's history.
    """
    if "purge" in answer:
        return str(answer["purge"])
    rows = [render_message(answer)]
    if answer.get("commit"):
        rows.append(f"  restore: filemem restore {get_short_name(answer)}")
    return join_lines(rows)


def render_adopt(answer: Answer) -> str:
    """Render which files have got ids."""
    adopted = answer["adopted"]
    return join_lines([f"{file['path']}  {file['id']}{_format_commit(file)}" for file in adopted])


def _format_commit(answer: Answer) -> str:
    commit = answer.get("commit")
    if not commit:
        return ""
    return f"  commit {commit[:10]}"


# -- records that answer a question


def render_search(
    answer: Answer,
    *,
    min_share: float = 0.0,
    explained_mode: str = "",
) -> str:
    """Render search results, best first.

    Results below `min_share` of the best score are only counted. With `explained_mode`, the mode of
    the search, lines below each result explain its score.
    """
    hits = answer["results"]
    shown_hits = _drop_weak_hits(hits, min_share)
    records = index_by_id(shown_hits)
    rows = format_head(answer)
    if not hits:
        rows.append("nothing found")
    for number, hit in enumerate(shown_hits, 1):
        rows.append(render_hit(number, hit, records))
        if explained_mode:
            score_lines = iter_score_lines(hit, explained_mode)
            rows += [style_text(f"      {line}", "dim") for line in score_lines]
    hidden_count = len(hits) - len(shown_hits)
    if hidden_count:
        weaker_hits = format_count(hidden_count, "weaker hit")
        rows.append(style_text(f"{weaker_hits}: -n {len(hits)} shows all", "dim"))
    return join_lines(rows)


def _drop_weak_hits(hits: Sequence[Answer], min_share: float) -> list[Answer]:
    """Return the hits that have at least `min_share` of the best score, which comes first."""
    if not hits:
        return []
    min_score = min_share * hits[0].get("score", 0.0)
    return [hit for hit in hits if hit.get("score", 0.0) >= min_score]


def render_why(answer: Answer) -> str:
    """Render the decisions behind some code, in groups, the surest first."""
    location = _format_location(answer)
    records = index_by_id(answer["results"])
    rows = format_head(answer)
    kind = ""
    for number, hit in enumerate(answer["results"], 1):
        if hit["kind"] != kind:
            kind = hit["kind"]
            rows.append(style_text(f"{_WHY_LABELS[kind]} {location}:", "dim"))
        rows.append(render_hit(number, hit, records))
    count = answer["count"]
    total = answer["total"]
    if total > count:
        rows.append(f"{count} of {total} are shown: -n {total} shows all")
    if not records:
        rows.append(f"no decision mentions {location}")
    return join_lines(rows)


def _format_location(answer: Answer) -> str:
    """Format a place in the code: `path`, `path:line` or `path:line-last_line`."""
    location = str(answer["path"])
    if "line" in answer:
        location += f":{answer['line']}"
    if "last_line" in answer:
        location += f"-{answer['last_line']}"
    return location


def render_records(answer: Answer) -> str:
    """Render whole records, with an empty line between two."""
    records = index_by_id(answer["results"])
    texts = format_head(answer)
    texts += [render_record(hit, records) for hit in answer["results"]]
    return join_cells(*texts, separator="\n\n")


def render_checkpoint(answer: Answer) -> str:
    """Render the checkpoint to resume from; a note names its author if that is not the user."""
    rows = format_head(answer)
    checkpoint = answer["checkpoint"]
    if checkpoint:
        rows.append(render_record(checkpoint, {}))
    else:
        rows.append(answer["message"])
    return join_lines(rows)


def render_topics(answer: Answer) -> str:
    """Render one line for each topic."""
    rows = format_head(answer)
    rows += [_format_topic(topic) for topic in answer["topics"]]
    if not answer["topics"]:
        rows.append("no topics found")
    rows.append(format_omitted(answer))
    return join_lines(rows)


def _format_topic(topic: Answer) -> str:
    number = ""
    title = topic["title"]
    if "number" in topic:
        number = f"ADR-{topic['number']}"
        title = parse_topic(title)
    name = topic["topic"]
    place = title
    if not topic["stated"]:
        name = title or name
        place = topic.get("path", "")
    fork_note = ""
    if topic["forked"]:
        fork_note = style_text(f"forked ({topic['heads']} heads)", "red")
    return join_cells(
        number,
        style_text(name, "bold"),
        place,
        f"({format_count(topic['decisions'], 'decision')})",
        fork_note,
        *format_fields(topic, [NOTE]),
    )


def format_omitted(answer: Answer) -> str:
    """Format how many topics were left out and how to list them; "" if all are shown."""
    omitted_count = answer.get("more")
    if not omitted_count:
        return ""
    total = omitted_count + answer["count"]
    return f"{omitted_count:,} more topics: -n {total} lists all"


def format_head(answer: Answer) -> list[str]:
    """Format the commit of an answer about the past, and why an answer may be incomplete."""
    notes = format_fields(answer, _NOTES, indent=2)
    moment = answer.get("at")
    if not moment:
        return notes
    commit = moment["commit"]
    name = moment["name"]
    name_prefix = "" if commit.startswith(name) else f"{name}: "
    as_of = f"as of {name_prefix}commit {commit[:10]} of {moment['date'][:10]}"
    return [style_text(as_of, "yellow"), *notes]


def render_oneline(answer: Answer) -> str:
    """Render a line for each record, decision or topic: short id, date, title, topic."""
    rows = format_head(answer)
    for field in ("results", "chain", "topics"):
        rows += [_format_record_line(record) for record in answer.get(field, ())]
    rows.append(format_omitted(answer))
    return join_lines(rows) or "nothing found"


def _format_record_line(record: Answer) -> str:
    record_id = record.get("id", "")
    if not record_id and record.get("ids"):
        record_id = record["ids"][-1]  # a topic: the newest decision that holds on it
    state = "superseded" if record.get("superseded_by") else ""
    if record.get("forked"):
        state = "forked"
    day = ""
    for field in ("created", "date", "latest"):
        if not day:
            day = record.get(field, "")[:10]
    return join_cells(
        record_id.rpartition("_")[2],
        day,
        record["title"],
        record.get("topic"),
        state,
        record.get("repository"),
    )


# -- history


def render_history(answer: Answer) -> str:
    """Render the chain of a topic, oldest decision first."""
    rows = format_head(dict(answer, note=""))  # the note is about the topic, and comes last
    rows.append(style_text(answer["topic"], "bold"))
    titles = {step["id"]: step["title"] for step in answer["chain"]}
    previous_id = ""
    for step in answer["chain"]:
        rows.append(render_step(step, previous_id, titles))
        previous_id = step["id"]
    rows += format_fields(answer, _HISTORY_NOTES)
    if answer["forked"]:
        count = len(answer["heads"])
        fork_note = f"forked: {count} decisions hold at once; {format_fork_hint(answer['topic'])}"
        rows.append(style_text(fork_note, "red"))
    return join_lines(rows)


RENDERERS: Mapping[str, Callable[[Answer], str]] = {
    "save": render_save,
    "update": render_message,
    "edit": render_message,
    "forget": render_forget,
    "restore": render_message,
    "undo": render_message,
    "adopt": render_adopt,
    "renumber": render_message,
    "resolve": render_save,
    "search": render_search,
    "why": render_why,
    "get": render_records,
    "load_checkpoint": render_checkpoint,
    "topics": render_topics,
    "history": render_history,
    "index": render_message,
    "sync": render_message,
}
"""Tool -> the function that renders its answer."""
