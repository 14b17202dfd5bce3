"""The answers of tools as text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from filemem.cli.hit import as_hit, as_step, as_whole, by_id, short_name
from filemem.cli.text import HINT, NOTE, WARNING, Answer, Field, block, cells, lines, styled
from filemem.dialects.native import ending
from filemem.dialects.tool import counted
from filemem.record import topic_of_heading

_PENDING = Field("pending", "because: ", "yellow")
_DEGRADED = Field("degraded", "degraded: ", "yellow")
_NOTES = (_PENDING, _DEGRADED, WARNING, NOTE)
_WHY = {"governs": "governs", "touched": "came with", "near": "may be about"}


# -- what a command did


def message(answer: Answer) -> str:
    """A message and its commit."""
    return block(answer["message"] + _commit(answer), *lines(answer, (*_NOTES, HINT), 2))


def save(answer: Answer) -> str:
    """What was saved, where, and what it replaced, or would replace."""
    undo = f"  undo: filemem forget {short_name(answer)}" if answer.get("undo") else ""
    return block(
        answer["message"],
        f"  {answer['path']}",
        f"  {answer['id']}{_commit(answer)}",
        *lines(answer, (Field("replaced", "replaced: "),), 2),
        undo,
        *lines(answer, (Field("would_supersede", "would supersede "), *_NOTES), 2),
        *(_similar(record) for record in answer.get("similar") or ()),
    )


def _similar(record: Answer) -> str:
    return f"  similar: {record['title']} ({record['id']}): {record['hint']}"


def forget(answer: Answer) -> str:
    """What was removed and how to restore it; or the command that removes it from Git's history."""
    if "purge" in answer:
        return str(answer["purge"])
    back = f"  restore: filemem restore {short_name(answer)}" if answer.get("commit") else ""
    return block(message(answer), back)


def adopt(answer: Answer) -> str:
    """Which files have ids now."""
    return block(*(f"{row['path']}  {row['id']}{_commit(row)}" for row in answer["adopted"]))


def _commit(answer: Answer) -> str:
    return f"  commit {answer['commit'][:10]}" if answer.get("commit") else ""


# -- records that answer a question


def search(
    answer: Answer, *, share: float = 0.0, explain: Callable[[Answer], Iterable[str]] = lambda _: ()
) -> str:
    """Search results, best first; those below a share of the best score are only counted."""
    hits = answer["results"]
    least = share * hits[0].get("score", 0.0) if hits else 0.0
    strong = [hit for hit in hits if hit.get("score", 0.0) >= least]
    records = by_id(strong)
    rows: list[str] = []
    for number, hit in enumerate(strong, 1):
        rows.append(as_hit(number, hit, records))
        rows += [styled(f"      {row}", "dim") for row in explain(hit)]
    weak = len(hits) - len(strong)
    if weak:
        rows.append(styled(f"{counted(weak, 'weaker hit')}: -n {len(hits)} shows all", "dim"))
    return block(*head(answer), *(rows or ["nothing found"]))


def why(answer: Answer) -> str:
    """The decisions behind some code, in groups, the surest first."""
    span = "-".join(str(answer[name]) for name in ("line", "last_line") if name in answer)
    place = f"{answer['path']}:{span}" if span else answer["path"]
    records = by_id(answer["results"])
    rows = head(answer)
    kind = ""
    for number, hit in enumerate(answer["results"], 1):
        if hit["kind"] != kind:
            kind = hit["kind"]
            rows.append(styled(f"{_WHY[kind]} {place}:", "dim"))
        rows.append(as_hit(number, hit, records))
    count = answer["count"]
    total = answer["total"]
    if total > count:
        rows.append(f"{count} of {total} are shown: -n {total} shows all")
    return block(*rows, "" if records else f"no decision mentions {place}")


def get(answer: Answer) -> str:
    """Whole records."""
    records = by_id(answer["results"])
    wholes = (as_whole(hit, records) for hit in answer["results"])
    return cells(*head(answer), *wholes, separator="\n\n")


def load_checkpoint(answer: Answer) -> str:
    """The checkpoint to resume from, and whose it is if it is another author's."""
    checkpoint = answer["checkpoint"]
    return block(*head(answer), as_whole(checkpoint, {}) if checkpoint else answer["message"])


def topics(answer: Answer) -> str:
    """One line a topic."""
    rows = [_topic_line(topic) for topic in answer["topics"]]
    return block(*head(answer), *(rows or ["no topics found"]), *more(answer))


def _topic_line(topic: Answer) -> str:
    number = f"ADR-{topic['number']}" if "number" in topic else ""
    title = topic_of_heading(topic["title"]) if number else topic["title"]
    name = topic["topic"]
    place = title
    if not topic["stated"]:
        name = title or name
        place = topic.get("path", "")
    return cells(
        number,
        styled(name, "bold"),
        place,
        f"({counted(topic['decisions'], 'decision')})",
        styled(f"forked ({topic['heads']} heads)", "red") if topic["forked"] else "",
        *lines(topic, (NOTE,)),
    )


def more(answer: Answer) -> list[str]:
    """How many topics were left out, and how to list them."""
    left = answer.get("more")
    return [f"{left:,} more topics: -n {left + answer['count']} lists all"] if left else []


def head(answer: Answer) -> list[str]:
    """The commit that an answer is as of, if not the present, and why it may be incomplete."""
    notes = lines(answer, _NOTES, 2)
    moment = answer.get("at")
    if not moment:
        return notes
    commit = moment["commit"]
    name = "" if commit.startswith(moment["name"]) else f"{moment['name']}: "
    as_of = f"as of {name}commit {commit[:10]} of {moment['date'][:10]}"
    return [styled(as_of, "yellow"), *notes]


def one_line(answer: Answer) -> str:
    """A line for each record, decision or topic: short id, date, title, topic."""
    records = answer.get("results") or answer.get("chain") or answer.get("topics") or ()
    rows = [*head(answer), *map(_short_line, records), *more(answer)]
    return "\n".join(rows) or "nothing found"


def _short_line(record: Answer) -> str:
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
    return cells(*texts)


# -- how records came to be what they are


def history(answer: Answer) -> str:
    """A chain, oldest first."""
    rows = [*head({**answer, "note": ""}), styled(answer["topic"], "bold")]
    titles = {step["id"]: step["title"] for step in answer["chain"]}
    above = ""
    for step in answer["chain"]:
        rows.append(as_step(step, above, titles))
        above = step["id"]
    rows += lines(answer, (NOTE, Field("notes", "note: ", "yellow")))
    if answer["forked"]:
        count = len(answer["heads"])
        forked = f"forked: {count} decisions hold at once; {ending(answer['topic'])}"
        rows.append(styled(forked, "red"))
    return block(*rows)


RENDERERS: Mapping[str, Callable[[Answer], str]] = {
    "save": save,
    "update": message,
    "edit": message,
    "forget": forget,
    "restore": message,
    "undo": message,
    "adopt": adopt,
    "renumber": message,
    "resolve": save,
    "search": search,
    "why": why,
    "get": get,
    "load_checkpoint": load_checkpoint,
    "topics": topics,
    "history": history,
    "index": message,
    "sync": message,
}
"""How the answer of each tool is shown."""
