"""Answers as text for people: nothing stored can control a terminal or look like a line of ours.

A table says which fields get their own row, their wording and colour; a list gives a row for each entry.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from filemem.cli import console
from filemem.dialects.present import counted

Answer = Mapping[str, Any]
_COLOURS = {
    "failed": "red",
    "success": "green",
    "partial": "yellow",
    "rejected": "red",
    "proposed": "cyan",
}
_WHY = {"governs": "governs", "touched": "came with", "near": "may be about"}
_FORMS = {
    "would_supersede": "would supersede {}",
    "pending": "because: {}",
    "degraded": "degraded: {}",
    "note": "note: {}",
    "notes": "note: {}",
    "hint": "hint: {}",
    "warning": "warning: {}",
    "similar": "similar: {0[title]} ({0[id]}): {0[hint]}",
    "already_rejected": "already rejected: {}",
    "superseded_by": "superseded by {}",
    "proposed": "proposed in its place: {}",
    "replaces": "replaces: {}",
    "replaced": "replaced: {}",
    "rejected": "rejected: {}",
    "also_in": "also in {}",
}
"""Fields that have a row of their own: how it is said; of the others the value alone."""
_NOTES = "pending degraded warning note"
_LINE, _LEAST = 100, 20  # characters: of a line, and of a path that is cut
_YELLOW = "pending degraded note notes hint warning evidence superseded_by proposed drift"
_APART = (
    "id path title text decision score scores by snippet related reasons success superseded_by proposed successors "
    "highlight holds note revisions drift drifted gone evidence"
)  # keys of a record that are worded by themselves, or matter only to programs

# Sets apart: one set that reaches from control characters to surrogates is compiled into a table of 64 KB.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u2028\u2029\ufeff]|[\ud800-\udfff]"
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\ufe0e\ufe0f")  # hidden, and letters or marks to Python
_TEXTS = "text reasoning decision summary next_steps limitation facts snippet message hint note content purge".split()  # noqa: SIM905
_LOOKS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36, "grey": 90}


def plain(value: Any, name: str = "") -> Any:
    """A value with control and hidden characters escaped; line breaks too if the field `name` is one line."""
    if isinstance(value, str):
        free = name in _TEXTS
        text = value.replace("\r\n", "\n") if free else value
        if (text.replace("\n", "") if free else text).isprintable() and _BLANK.isdisjoint(text):
            return text  # nearly every text: the patterns, slow to compile, are not even needed
        from filemem.record.lines import HIDDEN

        unseen = f"{_CONTROL}|{HIDDEN}" + ("" if free else r"|[\t\n]")
        return re.sub(unseen, lambda found: found[0].encode("unicode_escape").decode(), text)
    if isinstance(value, Mapping):
        return {key: plain(item, key) for key, item in value.items()}
    return [plain(item, name) for item in value] if isinstance(value, (list, tuple)) else value


def styled(text: str, looks: str, stream: TextIO | None = None) -> str:
    """A text with colours, if it goes to a terminal: the given stream or standard output."""
    if not (text and looks and (stream or console.out()).isatty()):
        return text
    return f"\x1b[{';'.join(str(_LOOKS[look]) for look in looks.split())}m{text}\x1b[0m"


def rows(answer: Answer, names: str, indent: int = 0) -> list[str]:
    """Rows for the fields that have a value, one for each entry of a list."""
    shown = []
    for name in names.split():
        value, form = answer.get(name) or (), " " * indent + _FORMS.get(name, "{}")
        said = [
            form.format(one) for one in (value if isinstance(value, (list, tuple)) else (value,))
        ]
        shown += [styled(one, "yellow") for one in said] if name in _YELLOW.split() else said
    return shown


def rows_of(*rows: str) -> str:
    """The rows that are not empty."""
    return "\n".join(row for row in rows if row)


# -- what a command did


def message(answer: Answer) -> str:
    """A message and its commit."""
    return rows_of(answer["message"] + _commit(answer), *rows(answer, f"{_NOTES} hint", 2))


def save(answer: Answer) -> str:
    """What was saved, where, and what it replaced, or would replace."""
    where = (answer["message"], f"  {answer['path']}", f"  {answer['id']}{_commit(answer)}")
    undo = f"  undo: filemem forget {_short(answer)}" if answer.get("undo") else ""
    return rows_of(
        *where,
        *rows(answer, "replaced", 2),
        undo,
        *rows(answer, f"would_supersede {_NOTES} similar", 2),
    )


update, edit, restore, undo, index, sync, resolve = *(message,) * 6, save
renumber = message


def forget(answer: Answer) -> str:
    """What was removed and how to restore it; or the command that removes it from Git's history."""
    if "purge" in answer:
        return str(answer["purge"])
    back = f"  restore: filemem restore {_short(answer)}" if answer.get("commit") else ""
    return rows_of(message(answer), back)


def adopt(answer: Answer) -> str:
    """Which files have ids now."""
    return rows_of(*(f"{one['path']}  {one['id']}{_commit(one)}" for one in answer["adopted"]))


def _commit(answer: Answer) -> str:
    return f"  commit {answer['commit'][:10]}" if answer.get("commit") else ""


# -- records that answer a question


def search(
    answer: Answer, *, share: float = 0.0, explain: Callable[[Answer], Iterable[str]] = lambda _: ()
) -> str:
    """Search results, best first; those below a share of the best score are counted alone."""
    hits = answer["results"]
    least = share * hits[0].get("score", 0.0) if hits else 0.0
    near = [hit for hit in hits if hit.get("score", 0.0) >= least]
    shown = {hit["id"]: hit for hit in near}
    found = list[str]()
    for number, hit in enumerate(near, 1):
        found += [
            _hit(number, hit, shown),
            *(styled(f"      {row}", "dim") for row in explain(hit)),
        ]
    if weaker := len(hits) - len(near):
        found.append(styled(f"{counted(weaker, 'weaker hit')}: -n {len(hits)} shows all", "dim"))
    return rows_of(*head(answer), *(found or ["nothing found"]))


def why(answer: Answer) -> str:
    """The decisions behind some code, in groups, the surest first."""
    lines = "-".join(str(answer[name]) for name in ("line", "last_line") if name in answer)
    place = f"{answer['path']}:{lines}" if lines else answer["path"]
    said, kind = head(answer), ""
    shown = {hit["id"]: hit for hit in answer["results"]}
    for number, hit in enumerate(answer["results"], 1):
        said += [styled(f"{_WHY[hit['kind']]} {place}:", "dim")] if hit["kind"] != kind else []
        said.append(_hit(number, hit, shown))
        kind = hit["kind"]
    if answer["total"] > answer["count"]:
        said.append(
            f"{answer['count']} of {answer['total']} are shown: -n {answer['total']} shows all"
        )
    return rows_of(*said, "" if shown else f"no decision mentions {place}")


def get(answer: Answer) -> str:
    """Whole records."""
    shown = {hit["id"]: hit for hit in answer["results"]}
    return "\n\n".join(
        filter(None, (*head(answer), *(_whole(hit, shown) for hit in answer["results"])))
    )


def load_checkpoint(answer: Answer) -> str:
    """The checkpoint to resume from, and whose it is if it is another author's."""
    return rows_of(
        *head(answer),
        _whole(answer["checkpoint"], {}) if answer["checkpoint"] else answer["message"],
    )


def topics(answer: Answer) -> str:
    """One line a topic."""
    said = head(answer)
    for topic in answer["topics"]:
        number = f"ADR-{topic['number']}" if "number" in topic else ""
        title = _unnumbered(topic["title"]) if number else topic["title"]
        name, place = (
            (topic["topic"], title)
            if topic["stated"]
            else (title or topic["topic"], topic.get("path", ""))
        )
        forked = styled(f"forked ({topic['heads']} heads)", "red") if topic["forked"] else ""
        about = (
            number,
            styled(name, "bold"),
            place,
            f"({counted(topic['decisions'], 'decision')})",
            forked,
        )
        said.append("  ".join(filter(None, (*about, *rows(topic, "note")))))
    return rows_of(*said, *more(answer), "" if answer["topics"] else "no topics found")


def more(answer: Answer) -> list[str]:
    """How many topics were left out, and how to list them."""
    return (
        [f"{left:,} more topics: -n {left + answer['count']} lists all"]
        if (left := answer.get("more"))
        else []
    )


def head(answer: Answer) -> list[str]:
    """The commit that an answer is as of, if not the present, and why it may be incomplete."""
    said = rows(answer, _NOTES, 2)
    if at := answer.get("at"):
        named = "" if at["commit"].startswith(at["name"]) else f"{at['name']}: "
        said.insert(
            0, styled(f"as of {named}commit {at['commit'][:10]} of {at['date'][:10]}", "yellow")
        )
    return said


def _hit(number: int, hit: Answer, shown: Mapping[str, Answer]) -> str:
    """A record in three lines: title and state, text, origin; then what is rare."""
    from filemem.query import prose  # `--help` pays for none

    by = hit.get("by", {})
    alone = "" if by.get("merged", True) else f"only on {by.get('branch') or 'this commit'}"
    about = styled(
        " · ".join(filter(None, (hit.get("type"), _topic(hit), hit.get("note"), alone))), "dim"
    )
    reason = "".join(f": {one['reason']}" for one in hit.get("reasons", ())[-1:] if one["reason"])
    text = rows(hit, "already_rejected") or [hit.get("snippet") or prose(hit.get("text", ""))]
    day, short = (hit.get("created") or by.get("date", ""))[:10], hit["id"].rpartition("_")[2]
    foot = (
        "  ".join(filter(None, (f"    {short}", day, _who(by), hit.get("commit", "")[:10]))) + "  "
    )
    path = f"{hit['repository']}/{hit['path']}" if "repository" in hit else hit["path"]
    if console.out().isatty() and len(path) > (room := max(_LEAST, _width() - len(foot))):
        path = f"…{path[1 - room :]}"
    more = [
        f"    {row}" for row in _standing(hit, shown, "because proposed drift evidence also_in")
    ]
    if earlier := hit.get("earlier"):
        more.append(f"    {earlier} earlier on this topic: filemem history {short}")
    head = [
        _title(f"{number:2}. ", hit),
        about,
        _outcome(hit, reason),
        *_standing(hit, shown, "superseded_by"),
    ]
    return rows_of(
        "  ".join(filter(None, head)), *_wrapped(text[0], 1), styled(foot + path, "dim"), *more
    )


def _title(mark: str, hit: Answer) -> str:
    return mark + styled(hit["title"], "dim" if hit.get("superseded_by") else "bold")


def _outcome(hit: Answer, reason: str = "") -> str:
    outcome = hit.get("outcome", "pending")
    return "" if outcome == "pending" else styled(outcome, _COLOURS.get(outcome, "")) + reason


def _short(hit: Answer, name: str = "") -> str:
    """The short id of a record, or its path if it has no id."""
    name = hit.get("id", name)
    return str(hit.get("path", name)) if name.startswith("file_") else name.rpartition("_")[2]


def _wrapped(text: str, most: int) -> list[str]:
    width = min(_LINE, _width()) - 4
    return [
        f"    {row}"
        for row in textwrap.wrap(" ".join(text.split()), width, max_lines=most, placeholder=" …")
    ]


def _width() -> int:
    return (console.out().isatty() and console.columns()) or _LINE


def _whole(hit: Answer, shown: Mapping[str, Answer]) -> str:
    said = [
        styled(hit["title"], "bold"),
        f"{hit['id']}  {hit['path']}",
        _provenance(hit),
        *_standing(hit, shown),
    ]
    skip = [*_APART.split(), *(["heads"] if hit.get("heads") == hit.get("superseded_by") else [])]
    for key, value in hit.items():
        if key not in skip and value not in ("", [], {}, None):
            text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            text = json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else text
            said.append(f"{key}: {text}".replace("\n", "\n    "))  # no row in it begins as ours do
    for edge in hit.get("related", ()):
        title = f"{edge['title']} ({edge['id']})" if edge.get("title") else edge["id"]
        reason = f": {edge['reason']}" if edge["reason"] not in ("", "front matter") else ""
        said.append(f"{edge['kind'].replace('_', ' ')}: {title}{reason}")
    decision = hit["decision"] if hit.get("decision", hit["title"]) != hit["title"] else ""
    edits = [_revision(hit, edit["changes"], edit) for edit in hit.get("revisions", ())]
    for part in ([decision], [hit.get("text", "")], _logged(hit), edits):
        said += ["", *filter(None, part)] if any(part) else []
    return "\n".join(said)


_STANDING = "superseded_by note proposed drift evidence"


def _standing(hit: Answer, shown: Mapping[str, Answer], fields: str = _STANDING) -> list[str]:
    """What replaced a decision, and other reasons not to follow it."""
    gone = hit.get("gone", ())
    changed = [one for one in hit.get("drifted", ()) if one not in gone]
    files = f"{'; changed' if gone else ''}: {', '.join(changed[:5])}" if changed else ""
    known = {**shown, **{one["id"]: one for one in hit.get("successors", ())}}
    told = {**hit, "drift": f"its code is {hit['drift']}{files}" if hit.get("drift") else ""}
    for kind in ("superseded_by", "proposed"):
        named = (
            f"{known[one]['title']} ({_short(known[one], one)})" if one in known else one
            for one in hit.get(kind, ())
        )
        told[kind] = "; ".join(named)
    return rows(told, fields)


# -- how records came to be what they are


def history(answer: Answer) -> str:
    """A chain, oldest first."""
    said = [*head({**answer, "note": ""}), styled(answer["topic"], "bold")]
    titles = {step["id"]: step["title"] for step in answer["chain"]}
    above = ""
    for step in answer["chain"]:
        said.append(_step(step, above, titles))
        above = step["id"]
    said += rows(answer, "note notes")
    if answer["forked"]:
        from filemem.dialects.native import ending

        told = f"forked: {len(answer['heads'])} decisions hold at once; {ending(answer['topic'])}"
        said.append(styled(told, "red"))
    return rows_of(*said)


def _step(step: Answer, above: str, titles: Mapping[str, str]) -> str:
    from filemem.query import beyond, prose

    step = defaultdict(str, step)
    replaced = [titles[one] for one in step["supersedes"] if one in titles]
    edits = [
        ([one for one in edit["changes"] if not one.startswith("outcome ")], edit)
        for edit in step["revisions"]
    ]
    stands = {**step, "superseded_by": (), "proposed": ()}  # the chain itself tells
    told = {
        **stands,
        "reasons": _logged(step),
        "standing": _standing(stands, {}),
        "replaces": " and ".join(replaced) if step["supersedes"] != [above] else "",
        "edits": [
            _revision(step, changes, edit)
            for changes, edit in edits
            if changes or not edit["changes"]
        ],
    }
    mark = styled("●", "green") if step["holds"] else "○"
    day = f"{step['date'][:10]}  ".lstrip()
    about = (
        _topic(step) if step["foreign"] else "",
        "" if step["status"] == "accepted" else step["status"],
    )
    head = (
        _title(f"{mark}  {day}", step),
        styled(" · ".join(filter(None, about)), "dim"),
        _outcome(step),
    )
    text = f"{beyond(step['title'], step.get('decision', ''))}\n\n{step.get('reasoning', '')}"
    origin = _provenance(
        {**step, "by": {**step, "date": step["committed"]}, "created": step["date"]}
    )
    return rows_of(
        "  ".join(filter(None, head)),
        *_wrapped(prose(text), 3),
        *rows(told, "reasons replaces rejected standing edits", 4),
        styled(f"    {step['id'].rpartition('_')[2]}  {origin}  {step['path']}", "dim"),
    )


def _revision(step: Answer, changes: Sequence[str], edit: Answer) -> str:
    """An edit: date, author, commit, changes, and the commit's subject if it says more."""
    if not edit["commit"]:
        return styled(f"not committed: {'; '.join(changes)}", "yellow") if changes else ""
    subject, said = edit["subject"], "; ".join(changes)
    ours = subject == step["title"] or re.match(
        r"(decision|checkpoint|observation)(\(.*?\))?: |Merge ", subject
    )
    more = styled(f"  ({subject})", "dim") if said and not ours else ""
    return f"{edit['date'][:10]} {_who(edit)} {edit['commit'][:10]}: {said or subject}{more}"


# -- words that answers share


def _who(by: Answer) -> str:
    return ", ".join(filter(None, (by.get("author"), by.get("agent"))))


def _provenance(hit: Answer) -> str:
    """Author, date and commit of a record, and what else Git shows."""
    by = hit.get("by", {})
    commit = by["commit"][:10] if by.get("commit") else "" if hit.get("note") else "not committed"
    stated, made = hit.get("created", "")[:10], by.get("date", "")[:10]
    more = (
        [f"dated {stated}"] if made and stated not in ("", made) else []
    )  # the file's word stands apart from Git's
    if by.get("default"):  # another branch is checked out
        more.append(
            f"on {by['default']}"
            if by["merged"]
            else f"only on {by.get('branch') or 'this commit'}"
        )
    for how, names in (("with", by.get("co_authors")), ("reviewed by", by.get("reviewers"))):
        more += [f"{how} {', '.join(names)}"] if names else []
    more += [
        f"edited by {one['author']} {one['date'][:10]} {one['commit'][:10]}"
        for one in by.get("edited", ())[:1]
    ]
    return "  ".join(filter(None, (_who(by), made or stated, commit, *more)))


def _logged(hit: Answer) -> list[str]:
    """The log of outcomes."""
    shown = []
    for one in hit.get("reasons", ()):
        came = styled(one["outcome"], _COLOURS.get(one["outcome"], ""))
        shown.append(f"{came} {one['at'][:10]}" + (f": {one['reason']}" if one["reason"] else ""))
    return shown


def _topic(hit: Answer) -> str:
    """The topic of a decision, unless it is just the heading."""
    topic: str = hit.get("topic", "")
    return topic if topic not in (hit["title"], _unnumbered(hit["title"])) else ""


def _unnumbered(title: str) -> str:
    from filemem.record import topic_of_heading

    return topic_of_heading(title)
