"""Answers worded for the eye. Each function takes the object that `--json` prints and returns lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

Answer = Mapping[str, Any]
_COLOURS = {"failed": "red", "success": "green", "partial": "yellow", "rejected": "red", "proposed": "cyan"}


def message(answer: Answer) -> str:
    """One sentence."""
    return _lines([answer["message"], _hint("pending", answer.get("pending"))])


def saved(answer: Answer) -> str:
    """What was saved, where, and what it replaced."""
    commit = answer.get("commit")
    return _lines(
        [
            f"{answer['message']}",
            f"  {answer['path']}",
            f"  {answer['id']}" + (f"  commit {commit[:10]}" if commit else ""),
            *(f"  supersedes {old}" for old in answer.get("superseded", ())),
            _hint("not committed yet", answer.get("pending")),
            *(f"  similar: {near['title']} ({near['id']}): {near['hint']}" for near in answer.get("similar", ())),
        ]
    )


def hits(answer: Answer) -> str:
    """Search results, best first; what is dead is dimmed and says what replaced it."""
    head = [_hint("degraded", answer.get("degraded")), _hint("note", answer.get("note"))]
    if not answer["results"]:
        return _lines([*head, "nothing found"])
    return _lines([*head, *(_hit(number, hit) for number, hit in enumerate(answer["results"], 1))])


def _hit(number: int, hit: Answer) -> str:
    dead = bool(hit.get("superseded_by"))
    labels = [hit["type"], hit.get("topic", ""), hit.get("status", "") if hit.get("status") != "accepted" else ""]
    outcome = hit.get("outcome", "") if hit.get("outcome") != "pending" else ""
    parts = " · ".join(label for label in labels if label)
    title = click.style(hit["title"], bold=not dead, dim=dead)
    rows = [f"{number:2}. {title}  {click.style(parts, dim=True)}" + (f"  {_word(outcome)}" if outcome else "")]
    rows += [f"    {row}" for row in _wrapped(hit.get("snippet") or hit.get("text", ""), 3)]
    rows += [f"    {_outcome(entry)}" for entry in hit.get("reasons", ())]
    rows += [f"    already rejected: {one}" for one in hit.get("already_rejected", ())]
    if dead:
        rows.append(click.style(f"    superseded by {', '.join(hit['superseded_by'])}", fg="yellow"))
    rows += [f"    {hit['note']}"] if hit.get("note") else []
    rows += [f"    chain: {hit['chain']}"] if hit.get("chain") else []
    rows += [f"    {edge['kind']}: {edge.get('title') or edge['id']}" for edge in hit.get("related", ())]
    score = f"  score {hit['score']:.2f}" if hit["score"] else ""
    rows.append(click.style(f"    {_short(hit['id'])}  {_by(hit)}  {hit['path']}{score}", dim=True))
    return "\n".join(rows)


def records(answer: Answer) -> str:
    """Whole records."""
    return "\n\n".join(_record(hit) for hit in answer["results"])


def _record(hit: Answer) -> str:
    rows = [click.style(hit["title"], bold=True), f"{hit['id']}  {hit['path']}", _by(hit)]
    skip = {
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
    }
    rows += [f"{key}: {_value(value)}" for key, value in hit.items() if key not in skip and value not in ("", [], None)]
    rows += [f"{edge['kind']}: {edge['id']} ({edge['reason']})" for edge in hit.get("related", ())]
    rows += ["", hit["decision"]] if hit.get("decision", hit["title"]) != hit["title"] else []
    rows += ["", hit["text"]] if hit.get("text") else []
    if hit.get("reasons"):
        rows += ["", *(_outcome(entry) for entry in hit["reasons"])]
    return "\n".join(rows)


def history(answer: Answer) -> str:
    """A chain, oldest first."""
    rows = [click.style(answer["topic"] or answer["heads"][0], bold=True)]
    for step in answer["chain"]:
        mark = click.style("●", fg="green") if step["id"] in answer["heads"] else "○"
        outcome = f"  {_word(step['outcome'])}" if step.get("outcome") not in (None, "", "pending") else ""
        status = f"  [{step['status']}]" if step.get("status") not in (None, "accepted") else ""
        commit = step["commit"][:10] if step.get("commit") else "not committed"
        who = ", ".join(filter(None, (step.get("author"), step.get("agent"))))
        rows.append(f"{mark} {step['date'][:10]}  {step['title']}{status}{outcome}")
        rows.append(click.style(f"    {who or 'somebody'}  {commit}  {step['id']}", dim=True))
        rows += [f"    {row}" for row in _wrapped(step.get("reasoning", ""), 2)]
        rows += [f"    {_outcome(entry)}" for entry in step.get("reasons", ())]
        rows += [
            f"    {edit['date'][:10]} {edit['author']} {edit['commit'][:10]}: {edit['subject']}"
            for edit in step["revisions"]
        ]
    if len(answer["heads"]) > 1:
        rows.append(
            click.style(
                f"forked: {len(answer['heads'])} decisions hold at once; save one that supersedes them", fg="red"
            )
        )
    return "\n".join(rows)


def topics(answer: Answer) -> str:
    """One line a topic."""
    if not answer["topics"]:
        return "no such topics"
    rows = []
    for topic in answer["topics"]:
        forked = click.style(f"  forked ({topic['heads']} heads)", fg="red") if topic["heads"] > 1 else ""
        count = f"{topic['decisions']} decision{'s' if topic['decisions'] != 1 else ''}"
        rows.append(
            f"{click.style(topic['topic'], bold=True)}  {topic.get('title') or 'nothing holds'}  ({count}){forked}"
        )
    return "\n".join(rows)


def problems(answer: Answer) -> str:
    """One line a problem: path:line: code message."""
    found = answer["problems"]
    rows = [f"{problem['path']}:{problem['line']}: {problem['code']} {problem['message']}" for problem in found]
    return "\n".join(rows)


def verdict(answer: Answer) -> str:
    """How many records were checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    found = [f"{levels.count(level)} {level}s" for level in ("error", "warning", "hint") if level in levels]
    return f"{answer['checked']} records checked: {', '.join(found) or 'clean'}"


def plan(answer: Answer) -> str:
    """What init did, or would do."""
    would = "would " if answer["dry_run"] else ""
    verbs = {"create": f"{would}create", "change": f"{would}change", "keep": "keep"}
    rows = []
    for step in answer["steps"]:
        rows.append(f"{verbs[step['action']]} {step['path']}" + (f"  ({step['note']})" if step["note"] else ""))
        if answer["dry_run"] and step["content"]:
            rows += [click.style(f"    {row}", dim=True) for row in step["content"].splitlines()]
    if not answer["dry_run"] and any(step["action"] != "keep" for step in answer["steps"]):
        rows.append("nothing was staged or committed: look at the files, then commit them yourself")
    return "\n".join(rows)


def status(answer: Answer) -> str:
    """How the memory stands."""
    counts, index = answer["records"], answer["index"]
    rows = [
        f"{answer['store']}: "
        + ", ".join(f"{counts[kind]} {kind}{'s' if counts[kind] != 1 else ''}" for kind in counts),
        f"topics: {answer['topics']}" + (f", {answer['forked']} forked" if answer["forked"] else ""),
        f"index: {index['state']}, {index['records']} records, model {index['model'] or 'none yet'}",
        f"  {index['folder']}",
    ]
    rows += [f"pending: {op['kind']} {op['path']} for {op['age']}: {op['reason']}" for op in answer["pending"]]
    rows += [_hint("degraded", answer.get("degraded"))]
    return _lines(rows)


def _by(hit: Answer) -> str:
    by = hit.get("by", {})
    who = ", ".join(filter(None, (by.get("author"), by.get("agent") or hit.get("agent"))))
    commit = by["commit"][:10] if by.get("commit") else "not committed"
    return "  ".join(filter(None, (who, (hit.get("created") or by.get("date") or "")[:10], commit)))


def _short(record_id: str) -> str:
    """The end of an id that is enough to name it."""
    return record_id.rpartition("_")[2]


def _outcome(entry: Answer) -> str:
    return f"{_word(entry['outcome'])} {entry['at'][:10]}" + (f": {entry['reason']}" if entry["reason"] else "")


def _word(word: str) -> str:
    return click.style(word, fg=_COLOURS.get(word))


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _wrapped(text: str, rows: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width=96, max_lines=rows, placeholder=" …")


def _hint(word: str, text: str | None) -> str:
    return click.style(f"  {word}: {text}", fg="yellow") if text else ""


def _lines(rows: Sequence[str]) -> str:
    return "\n".join(row for row in rows if row)
