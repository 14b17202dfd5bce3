"""The words, marks and colours that answers share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

Answer = Mapping[str, Any]
_COLOURS = {"failed": "red", "success": "green", "partial": "yellow", "rejected": "red", "proposed": "cyan"}


def as_of(answer: Answer) -> str:
    """The commit that an answer is as of, where it is not the present."""
    at = answer.get("at")
    if not at:
        return ""
    named = "" if at["commit"].startswith(at["name"]) else f"{at['name']}: "
    return click.style(f"as of {named}commit {at['commit'][:10]} of {at['date'][:10]}", fg="yellow")


def provenance(hit: Answer) -> str:
    """Who wrote a record, when, in which commit, and what else Git says of it."""
    by = hit.get("by", {})
    who = ", ".join(filter(None, (by.get("author"), by.get("agent"))))
    commit = (
        by["commit"][:10]
        if by.get("commit")
        else "shallow"
        if by.get("shallow")
        else ""
        if hit.get("note")
        else "not committed"
    )
    more = [_standing(by)] if by.get("default") else []
    more += company(by)
    more += [f"edited by {one['author']} {one['date'][:10]} {one['commit'][:10]}" for one in by.get("edited", ())[:1]]
    stated, made = hit.get("created", "")[:10], by.get("date", "")[:10]
    dated = f"dated {stated}" if made and stated not in ("", made) else ""  # the file's word stands apart from Git's
    return "  ".join(filter(None, (who, made or stated, commit, dated, *more)))


def company(by: Answer) -> list[str]:
    """Who wrote a record together with its author, and who reviewed it."""
    told = (("with", by.get("co_authors")), ("reviewed by", by.get("reviewers")))
    return [f"{how} {', '.join(names)}" for how, names in told if names]


def _standing(by: Answer) -> str:
    """How a record stands to the default branch, where another one is checked out."""
    if not by["merged"]:
        return f"only on {by.get('branch') or 'this commit'}"
    landed = by.get("landed", "")
    since = f" since {landed[:10]}" if landed[:1].isdigit() else f", since when is {landed}" if landed else ""
    return f"on {by['default']}{since}" + (", in another version" if by.get("differs") else "")


def logged(entry: Answer) -> str:
    """An entry of the log of outcomes."""
    return f"{coloured(entry['outcome'])} {entry['at'][:10]}" + (f": {entry['reason']}" if entry["reason"] else "")


def coloured(word: str) -> str:
    """A word that has a colour of its own."""
    return click.style(word, fg=_COLOURS.get(word))


def labelled(title: str, topic: str) -> str:
    """The topic of a decision, where it says more than the heading, which serves as topic where none is stated."""
    from filemem import record  # `--help` pays for none

    return topic if topic not in (title, record.topic_of_heading(title)) else ""


def prose(text: str) -> str:
    """A text without its marks."""
    from filemem import record  # `--help` pays for none

    return record.prose(text)


def wrapped(text: str, rows: int) -> list[str]:
    """The first rows of a text."""
    return textwrap.wrap(" ".join(text.split()), width=96, max_lines=rows, placeholder=" …")


def aside(word: str, text: str | None) -> str:
    """What is said besides, if anything."""
    return click.style(f"  {word}: {text}", fg="yellow") if text else ""


def counted(count: int, word: str) -> str:
    """A number of things."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def joined(rows: Sequence[str]) -> str:
    """The rows that say something."""
    return "\n".join(row for row in rows if row)


def revision(step: Answer, changes: Sequence[str], edit: Answer) -> str:
    """An edit: when, who, which commit, what it changed, and what its message says besides the obvious."""
    if not edit["commit"]:
        return click.style(f"not committed: {'; '.join(changes)}", fg="yellow") if changes else ""
    subject = re.sub(r"^(?:decision|checkpoint|observation)(?:\(.*?\))?: ", "", edit["subject"])
    obvious = subject == step["title"] or edit["subject"] != subject or subject.startswith("Merge ")
    reason = re.fullmatch(r"delete \w+ \((.*)\)", subject) if obvious else None
    said = [*(["; ".join(changes)] if changes else []), *([] if obvious and changes else [subject])]
    said += [reason[1]] if reason and changes else []
    who = ", ".join(filter(None, (edit["author"], edit["agent"])))
    return f"{edit['date'][:10]} {who} {edit['commit'][:10]}: {'  '.join(said[:1])}" + "".join(
        click.style(f"  ({one})", dim=True) for one in said[1:]
    )
