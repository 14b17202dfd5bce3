"""The answers of tools as text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from filemem.cli.hit import get_short_name, index_by_id, render_hit, render_record, render_step
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
_WHY_LABELS = {"governs": "governs", "touched": "came with", "near": "may be about"}


# -- what a command did


def render_message(answer: Answer) -> str:
    """A message and its commit."""
    return join_lines(
        answer["message"] + _format_commit(answer), *format_fields(answer, (*_NOTES, HINT), 2)
    )


def render_save(answer: Answer) -> str:
    """What was saved, where, and what it replaced, or would replace."""
    undo_hint = f"  undo: filemem forget {get_short_name(answer)}" if answer.get("undo") else ""
    return join_lines(
        answer["message"],
        f"  {answer['path']}",
        f"  {answer['id']}{_format_commit(answer)}",
        *format_fields(answer, (Field("replaced", "replaced: "),), 2),
        undo_hint,
        *format_fields(answer, (Field("would_supersede", "would supersede "), *_NOTES), 2),
        *(_format_similar(record) for record in answer.get("similar") or ()),
    )


def _format_similar(record: Answer) -> str:
    return f"  similar: {record['title']} ({record['id']}): {record['hint']}"


def render_forget(answer: Answer) -> str:
    """What was removed and how to restore it; or the command that removes it from Git's history."""
    if "purge" in answer:
        return str(answer["purge"])
    restore_hint = (
        f"  restore: filemem restore {get_short_name(answer)}" if answer.get("commit") else ""
    )
    return join_lines(render_message(answer), restore_hint)


def render_adopt(answer: Answer) -> str:
    """Which files have ids now."""
    return join_lines(
        *(f"{row['path']}  {row['id']}{_format_commit(row)}" for row in answer["adopted"])
    )


def _format_commit(answer: Answer) -> str:
    return f"  commit {answer['commit'][:10]}" if answer.get("commit") else ""


# -- records that answer a question


def render_search(
    answer: Answer,
    *,
    min_share: float = 0.0,
    explain_hit: Callable[[Answer], Iterable[str]] = lambda _: (),
) -> str:
    """Search results, best first; those below a share of the best score are only counted."""
    hits = answer["results"]
    min_score = min_share * hits[0].get("score", 0.0) if hits else 0.0
    shown_hits = [hit for hit in hits if hit.get("score", 0.0) >= min_score]
    records = index_by_id(shown_hits)
    rows: list[str] = []
    for number, hit in enumerate(shown_hits, 1):
        rows.append(render_hit(number, hit, records))
        rows += [style_text(f"      {row}", "dim") for row in explain_hit(hit)]
    hidden_count = len(hits) - len(shown_hits)
    if hidden_count:
        rows.append(
            style_text(
                f"{format_count(hidden_count, 'weaker hit')}: -n {len(hits)} shows all", "dim"
            )
        )
    return join_lines(*format_head(answer), *(rows or ["nothing found"]))


def render_why(answer: Answer) -> str:
    """The decisions behind some code, in groups, the surest first."""
    span = "-".join(str(answer[name]) for name in ("line", "last_line") if name in answer)
    location = f"{answer['path']}:{span}" if span else answer["path"]
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
    return join_lines(*rows, "" if records else f"no decision mentions {location}")


def render_records(answer: Answer) -> str:
    """Whole records."""
    records = index_by_id(answer["results"])
    record_texts = (render_record(hit, records) for hit in answer["results"])
    return join_cells(*format_head(answer), *record_texts, separator="\n\n")


def render_checkpoint(answer: Answer) -> str:
    """The checkpoint to resume from, and whose it is if it is another author's."""
    checkpoint = answer["checkpoint"]
    return join_lines(
        *format_head(answer), render_record(checkpoint, {}) if checkpoint else answer["message"]
    )


def render_topics(answer: Answer) -> str:
    """One line a topic."""
    rows = [_format_topic(topic) for topic in answer["topics"]]
    return join_lines(*format_head(answer), *(rows or ["no topics found"]), *format_omitted(answer))


def _format_topic(topic: Answer) -> str:
    number = f"ADR-{topic['number']}" if "number" in topic else ""
    title = parse_topic(topic["title"]) if number else topic["title"]
    name = topic["topic"]
    place = title
    if not topic["stated"]:
        name = title or name
        place = topic.get("path", "")
    return join_cells(
        number,
        style_text(name, "bold"),
        place,
        f"({format_count(topic['decisions'], 'decision')})",
        style_text(f"forked ({topic['heads']} heads)", "red") if topic["forked"] else "",
        *format_fields(topic, (NOTE,)),
    )


def format_omitted(answer: Answer) -> list[str]:
    """How many topics were left out, and how to list them."""
    omitted_count = answer.get("more")
    return (
        [f"{omitted_count:,} more topics: -n {omitted_count + answer['count']} lists all"]
        if omitted_count
        else []
    )


def format_head(answer: Answer) -> list[str]:
    """The commit that an answer is as of, if not the present, and why it may be incomplete."""
    notes = format_fields(answer, _NOTES, 2)
    moment = answer.get("at")
    if not moment:
        return notes
    commit = moment["commit"]
    name = "" if commit.startswith(moment["name"]) else f"{moment['name']}: "
    as_of = f"as of {name}commit {commit[:10]} of {moment['date'][:10]}"
    return [style_text(as_of, "yellow"), *notes]


def render_oneline(answer: Answer) -> str:
    """A line for each record, decision or topic: short id, date, title, topic."""
    records = answer.get("results") or answer.get("chain") or answer.get("topics") or ()
    rows = [*format_head(answer), *map(_format_record_line, records), *format_omitted(answer)]
    return "\n".join(rows) or "nothing found"


def _format_record_line(record: Answer) -> str:
    name = record.get("id") or next(iter(record.get("ids", ())), "")
    dates = (record.get(key) for key in ("created", "date", "latest"))
    texts = (
        name.rpartition("_")[2],
        str(next(filter(None, dates), ""))[:10],
        record["title"],
        record.get("topic"),
        "superseded" if record.get("superseded_by") else "",
        record.get("repository"),
    )
    return join_cells(*texts)


# -- how records came to be what they are


def render_history(answer: Answer) -> str:
    """A chain, oldest first."""
    rows = [*format_head({**answer, "note": ""}), style_text(answer["topic"], "bold")]
    titles = {step["id"]: step["title"] for step in answer["chain"]}
    previous_id = ""
    for step in answer["chain"]:
        rows.append(render_step(step, previous_id, titles))
        previous_id = step["id"]
    rows += format_fields(answer, (NOTE, Field("notes", "note: ", "yellow")))
    if answer["forked"]:
        count = len(answer["heads"])
        fork_note = f"forked: {count} decisions hold at once; {format_fork_hint(answer['topic'])}"
        rows.append(style_text(fork_note, "red"))
    return join_lines(*rows)


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
"""How the answer of each tool is shown."""
