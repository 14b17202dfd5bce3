"""Answers in the formats of other programs: SARIF 2.1.0, workflow commands for GitHub Actions, Markdown comments. Pure.

Titles and phrases come from files that anybody may have written. In Markdown nothing of them may become markup, a link,
a mention or a reference: every mark is escaped, and what hosts turn into links is broken by a space of no width.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from filemem.record import cut

Found = Mapping[str, Any]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SARIF = {"error": "error", "warning": "warning", "hint": "note"}
_GITHUB = {"error": "error", "warning": "warning", "hint": "notice"}

# One problem of a file, whatever its message counts.
_COUNTING = frozenset(("drift",))


def sarif(problems: Sequence[Found], version: str) -> str:
    """Write problems as one SARIF log; locations are relative to the top of the work tree."""
    codes = sorted({problem["code"] for problem in problems})
    driver = {
        "name": "filemem",
        "version": version,
        "rules": [{"id": code, "shortDescription": {"text": code.replace("-", " ").capitalize()}} for code in codes],
    }
    results = [_result(problem, codes.index(problem["code"])) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


def github(problems: Iterable[Found]) -> str:
    """Write problems as workflow commands, one line each, which GitHub shows beside the lines they are about."""
    return "\n".join(
        f"::{_GITHUB[one['level']]} file={_property(one['path'])},line={one['line']},"
        f"title={_property('filemem: ' + one['code'])}::{_data(one['message'])}"
        for one in problems
    )


def _result(problem: Found, rule: int) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(problem["path"]), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": problem["line"]},
    }
    told = "" if problem["code"] in _COUNTING else problem["message"]
    same = "\0".join((problem["code"], problem["path"], told))  # not the line: text above may grow
    return {
        "ruleId": problem["code"],
        "ruleIndex": rule,
        "level": _SARIF[problem["level"]],
        "message": {"text": problem["message"]},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"filemem/v1": hashlib.sha256(same.encode("utf-8", "surrogateescape")).hexdigest()[:32]},
    }


def _data(text: str) -> str:
    """Escape what would end the command or begin another: github.com/actions/toolkit, core/src/command.ts."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# -- Markdown

MOST = 30  # effects of one kind that are listed; the rest is counted
LONG = 200  # characters of a title or phrase
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&$:])")
_LINKED = re.compile(r"@|:(?=//)|#(?=\d)|\bGH(?=-\d)|\bw(?=ww\.)", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./-]+")
_BREAK, _HERE = "&#8203;", "\0"
EFFECTS = {
    "forked": ("Forked: more than one decision holds", "!", "red", "hold at once:"),
    "new": ("New", "+", "green", "supersedes"),
    "accepted": ("Accepted", "+", "green", ""),
    "superseded": ("Superseded", "×", "yellow", "by"),
    "outcome": ("Outcomes", "=", "cyan", ""),
    "revised": ("Revised", "~", "cyan", ""),
    "removed": ("Removed", "-", "red", ""),
    "revived": ("Holds again", "^", "green", ""),
    "joined": ("Fork ended", "v", "green", "holds:"),
    "orphaned": ("Left hanging", "?", "red", "held:"),
}
"""Kind of an effect -> its heading, its mark and colour in a terminal, and the word before others."""


def comparison(answer: Found) -> str:
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
        parts.append(f"**{EFFECTS[kind][0]}** ({len(effects)})\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _rows(effect: Found) -> Iterator[str]:
    labels = [effect["type"]] * (effect["type"] != "decision") + list(filter(None, [effect.get("topic")]))
    shown = [escaped(label) for label in labels if label != effect["title"]]
    others = "; ".join(escaped(other["title"]) for other in effect.get("others", ()))
    word = EFFECTS[effect["kind"]][-1]
    told = [f"{word} {others}".strip()] if others else []
    told += [escaped(phrase) for phrase in effect.get("details", ())]
    head = f"- **{escaped(effect['title'])}**" + (f" ({', '.join(shown)})" if shown else "")
    where = f" – {_named(effect['path'])}" if effect.get("path") else ""
    yield head + (f": {'; '.join(told)}" if told else "") + where


def _named(path: str) -> str:
    return f"`{path}`" if _PLAIN.fullmatch(path) else escaped(path)


def escaped(text: str) -> str:
    """Text that reads the same in Markdown and is nothing else: no markup, link, mention, reference or further line."""
    line = cut(" ".join(text.replace(_HERE, " ").split()), LONG)
    broken = _LINKED.sub(lambda found: found[0] + _HERE, line)
    return _MARKS.sub(r"\\\1", broken).replace(_HERE, _BREAK)
