"""Records that answer a question: found, whole, as topics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

import click

from filemem.cli.show.words import (
    Answer,
    as_of,
    aside,
    coloured,
    counted,
    joined,
    labelled,
    logged,
    prose,
    provenance,
    revision,
    wrapped,
)

_APART = frozenset(
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
        "metadata",
        "revisions",
        "other_keys",
        "drift",
        "drifted",
        "gone",
        "evidence",
    )
)  # keys of a record that are worded by themselves, or matter only to programs


def hits(answer: Answer) -> str:
    """Search results, best first; what is dead is dimmed and says what replaced it."""
    head = [as_of(answer), aside("degraded", answer.get("degraded")), aside("note", answer.get("note"))]
    if not answer["results"]:
        return joined([*head, "nothing found"])
    shown = {hit["id"]: hit for hit in answer["results"]}
    return joined([*head, *(_hit(number, hit, shown) for number, hit in enumerate(answer["results"], 1))])


def why(answer: Answer) -> str:
    """The decisions that code rests on, in groups: the surest first."""
    lines = [str(answer[name]) for name in ("line", "last_line") if name in answer]
    place = answer["path"] + (f":{'-'.join(lines)}" if lines else "")
    rows = [aside("degraded", answer.get("degraded")), aside("note", answer.get("note"))]
    if not answer["results"]:
        return joined([*rows, f"no decision speaks of {place}"])
    if answer["total"] > answer["count"]:
        rows.append(aside("note", f"{answer['count']} of {answer['total']} are shown: -n {answer['total']} shows all"))
    shown = {hit["id"]: hit for hit in answer["results"]}
    heads = {
        "governs": "governs",
        "touched": "came with",
        "governed": "governed, until it was replaced,",
        "near": "speaks of what is in",
    }
    last = ""
    for number, hit in enumerate(answer["results"], 1):
        if hit["kind"] != last:
            rows.append(click.style(f"{heads[hit['kind']]} {place}:", dim=True))
            last = hit["kind"]
        rows.append(_hit(number, hit, shown))
    return joined(rows)


def records(answer: Answer) -> str:
    """Whole records."""
    shown = {hit["id"]: hit for hit in answer["results"]}
    head = (as_of(answer), aside("degraded", answer.get("degraded")))
    return "\n\n".join(filter(None, (*head, *(_record(hit, shown) for hit in answer["results"]))))


def checkpoint(answer: Answer) -> str:
    """The checkpoint to go on from, and whose it is where it is another's."""
    head = [as_of(answer), aside("degraded", answer.get("degraded"))]
    if answer["checkpoint"] is None:
        return joined([*head, answer["message"]])
    return joined([*head, aside("note", answer.get("note")), _record(answer["checkpoint"], {})])


def topics(answer: Answer, word: str = "") -> str:
    """One line a topic; `word` is what was asked for in their names."""
    rows = [as_of(answer), aside("degraded", answer.get("degraded")), aside("note", answer.get("note"))]
    if not answer["topics"]:
        return joined([*rows, f"no topic has {word!r} in it" if word else "no decision is here"])
    told = False
    headings = Counter(topic["title"] or topic["topic"] for topic in answer["topics"] if not topic["stated"])
    for topic in answer["topics"]:
        if not topic["stated"] and not told:
            rows.append(click.style("no topic stated:", dim=True))
            told = True
        forked = click.style(f"  forked ({topic['heads']} heads)", fg="red") if topic["forked"] else ""
        note = click.style(f"  {topic['note']}", fg="yellow") if topic.get("note") else ""
        count = counted(topic["decisions"], "decision")
        if topic["stated"]:
            name = "  ".join(filter(None, (click.style(topic["topic"], bold=True), topic["title"], f"({count})")))
        else:
            heading = topic["title"] or topic["topic"]
            where = f"  {topic['path']}" if headings[heading] > 1 else ""
            name = f"  {click.style(heading, bold=True)}  ({count}){click.style(where, dim=True)}"
        rows.append(f"{name}{forked}{note}")
    return joined(rows)


def _hit(number: int, hit: Answer, shown: Mapping[str, Answer]) -> str:
    dead = bool(hit.get("superseded_by"))
    topic = labelled(hit["title"], hit.get("topic", ""))
    labels = [hit["type"], topic, hit.get("status", "") if hit.get("status") != "accepted" else ""]
    outcome = hit.get("outcome", "") if hit.get("outcome") != "pending" else ""
    parts = " · ".join(label for label in labels if label)
    title = click.style(hit["title"], bold=not dead, dim=dead)
    rows = [f"{number:2}. {title}  {click.style(parts, dim=True)}" + (f"  {coloured(outcome)}" if outcome else "")]
    found = hit.get("snippet", "")
    if hit.get("already_rejected"):  # said below
        found = found.partition("Rejected: ")[0]
    rows += [f"    {row}" for row in wrapped(found or prose(hit.get("text", "")), 3)]
    rows += [f"    {logged(entry)}" for entry in hit.get("reasons", ())]
    rows += [f"    already rejected: {one}" for one in hit.get("already_rejected", ())]
    if dead:
        rows.append(click.style(f"    superseded by {_successors(hit, 'superseded_by', shown)}", fg="yellow"))
    rows += [f"    {hit['note']}"] if hit.get("note") else []
    if hit.get("proposed"):
        rows.append(f"    proposed in its place: {_successors(hit, 'proposed', shown)}")
    rows += [f"    {hit['because']}"] if hit.get("because") else []
    rows += [click.style(f"    {one}", fg="yellow") for one in _doubts(hit)]
    rows += [f"    chain: {hit['chain']}"] if hit.get("chain") else []
    edges = hit.get("related", ())
    rows += [f"    {edge['kind']}: {_title(edge, shown)}" for edge in edges]
    score = f"  score {hit['score']:.2f}" if hit.get("score") else ""
    rows.append(click.style(f"    {_short(hit['id'])}  {provenance(hit)}  {hit['path']}{score}", dim=True))
    return "\n".join(rows)


def _record(hit: Answer, shown: Mapping[str, Answer]) -> str:
    rows = [click.style(hit["title"], bold=True), f"{hit['id']}  {hit['path']}", provenance(hit)]
    if hit.get("superseded_by"):
        rows.append(click.style(f"superseded by {_successors(hit, 'superseded_by', shown)}", fg="yellow"))
    rows += [click.style(hit["note"], fg="yellow")] if hit.get("note") else []
    rows += [f"proposed in its place: {_successors(hit, 'proposed', shown)}"] if hit.get("proposed") else []
    rows += [click.style(one, fg="yellow") for one in _doubts(hit)]
    skip = _APART | {"heads"} if hit.get("heads") == hit.get("superseded_by") else _APART
    rows += [f"{key}: {_value(value)}" for key, value in hit.items() if key not in skip and value not in ("", [], None)]
    told = {"metadata": hit.get("metadata"), "other keys": hit.get("other_keys")}
    rows += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in told.items() if value]
    rows += [_edge(edge) for edge in hit.get("related", ())]
    rows += ["", hit["decision"]] if hit.get("decision", hit["title"]) != hit["title"] else []
    rows += ["", hit["text"]] if hit.get("text") else []
    if hit.get("reasons"):
        rows += ["", *(logged(entry) for entry in hit["reasons"])]
    if hit.get("revisions"):
        rows += ["", *filter(None, (revision(hit, edit["changes"], edit) for edit in hit["revisions"]))]
    return "\n".join(rows)


def _edge(edge: Answer) -> str:
    title = f"{edge['title']} ({edge['id']})" if edge.get("title") else edge["id"]
    return f"{edge['kind']}: {title}" + (f": {edge['reason']}" if edge["reason"] not in ("", "front matter") else "")


def _doubts(hit: Answer) -> list[str]:
    """What speaks against following a decision as it stands: its code changed, history says that it failed."""
    gone = hit.get("gone", ())
    changed = [one for one in hit.get("drifted", ()) if one not in gone]
    files = f"{'; changed' if gone else ''}: {', '.join(changed[:5])}" if changed else ""
    return [*([f"its code is {hit['drift']}{files}"] if hit.get("drift") else []), *hit.get("evidence", ())]


def _title(edge: Answer, shown: Mapping[str, Answer]) -> str:
    title: str = edge.get("title") or shown.get(edge["id"], {}).get("title") or edge["id"]
    return title


def _successors(hit: Answer, kind: str, shown: Mapping[str, Answer]) -> str:
    """Successors by title, and what to call each by: the path where the id is only made from that."""
    known = {**shown, **{one["id"]: one for one in hit.get("successors", ())}}
    told = []
    for one in hit[kind]:
        name = known[one]["path"] if one in known and one.startswith("file_") else one
        told.append(f"{known[one]['title']} ({name})" if one in known else one)
    return "; ".join(told)


def _short(record_id: str) -> str:
    """The end of an id that is enough to name it."""
    return record_id.rpartition("_")[2]


def _value(value: object) -> str:
    """A value beside its name; further lines stand in from the margin, where no name of ours stands."""
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return text.replace("\n", "\n    ")
