"""The memory diff as Markdown for a pull request's comment.

Rule: titles and phrases come from files that anybody may have written. Nothing of them may become markup, a link, a
mention or a reference: every mark is escaped, and what hosts turn into links by themselves is broken by a space of no
width.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from filemem.record import cut

Answer = Mapping[str, Any]

MOST = 30  # effects of one kind that are listed; the rest is counted
LONG = 200  # characters of a title or phrase
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&$:])")
_LINKED = re.compile(r"@|:(?=//)|#(?=\d)|\bGH(?=-\d)|\bw(?=ww\.)", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./-]+")
_BREAK, _HERE = "&#8203;", "\0"
HEADINGS = {
    "forked": "Forked: more than one decision holds",
    "new": "New",
    "accepted": "Accepted",
    "superseded": "Superseded",
    "outcome": "Outcomes",
    "revised": "Revised",
    "removed": "Removed",
    "revived": "Holds again",
    "narrowed": "Less forked: fewer decisions hold",
    "joined": "Fork ended",
    "orphaned": "Left hanging",
}


def comparison(answer: Answer) -> str:
    """The object of `filemem diff --json` as a comment."""
    base, head = answer["base"], answer["head"]
    title = f"### Memory: what {escaped(head['name'])} changes against {escaped(base['name'])}"
    if not answer["effects"]:
        return f"{title}\n\nNo record is touched."
    parts = [title]
    for kind, found in groupby(answer["effects"], key=lambda effect: effect["kind"]):
        effects = list(found)
        rows = [row for effect in effects[:MOST] for row in _rows(effect)]
        rows += [f"- and {len(effects) - MOST} more"] if len(effects) > MOST else []
        parts.append(f"**{HEADINGS[kind]}** ({len(effects)})\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _rows(effect: Answer) -> Iterator[str]:
    labels = [effect["type"]] * (effect["type"] != "decision") + list(filter(None, [effect.get("topic")]))
    shown = [escaped(label) for label in labels if label != effect["title"]]
    others = "; ".join(escaped(other["title"]) for other in effect.get("others", ()))
    word = {"new": "supersedes", "superseded": "by", "forked": "", "joined": "by", "orphaned": "held:"}.get(
        effect["kind"], ""
    )
    told = [f"{word} {others}".strip()] if others else []
    told += [escaped(phrase) for phrase in effect.get("details", ())]
    head = f"- **{escaped(effect['title'])}**" + (f" ({', '.join(shown)})" if shown else "")
    where = f" – {_named(effect['path'])}" if effect.get("path") else ""
    yield head + (f": {'; '.join(told)}" if told else "") + where


def _named(path: str) -> str:
    """A path as code, where nothing in it could end that."""
    return f"`{path}`" if _PLAIN.fullmatch(path) else escaped(path)


def escaped(text: str) -> str:
    """Text that reads the same in Markdown and is nothing else: no markup, link, mention, reference or further line."""
    line = cut(" ".join(text.replace(_HERE, " ").split()), LONG)
    broken = _LINKED.sub(lambda found: found[0] + _HERE, line)
    return _MARKS.sub(r"\\\1", broken).replace(_HERE, _BREAK)
