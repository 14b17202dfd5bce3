"""A record as text: as a hit, whole, or as a step of a history."""

from __future__ import annotations

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from filemem.cli import console
from filemem.cli.text import NOTE, Answer, Field, Look, block, cells, lines, styled
from filemem.query import beyond, prose
from filemem.record import topic_of_heading

Records = Mapping[str, Answer]  # the records of an answer, by id

_SUPERSEDED_BY = Field("superseded_by", "superseded by ", "yellow")
_PROPOSED = Field("proposed", "proposed in its place: ", "yellow")
_DRIFT = Field("drift", look="yellow")
_EVIDENCE = Field("evidence", look="yellow")
_STANDING = (_SUPERSEDED_BY, NOTE, _PROPOSED, _DRIFT, _EVIDENCE)
_BELOW_A_HIT = (Field("because"), _PROPOSED, _DRIFT, _EVIDENCE, Field("also_in", "also in "))
_BELOW_A_STEP = (Field("reasons"), Field("replaces", "replaces: "), Field("rejected", "rejected: "))
_OUTCOMES: Mapping[str, Look] = {"failed": "red", "success": "green", "partial": "yellow"}
_LINE = 100  # characters of a line
_SHORTEST_PATH = 20  # characters that a path keeps when it is cut
_LISTED_FILES = 5  # of those that changed since a decision

# Keys of a whole record that are worded by themselves, or matter only to programs.
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
        "revisions",
        "drift",
        "drifted",
        "gone",
        "evidence",
    )
)
_MADE_BY_US = re.compile(r"(decision|checkpoint|observation)(\(.*?\))?: |Merge ")


def by_id(hits: Iterable[Answer]) -> Records:
    """The records of an answer by their ids."""
    return {hit["id"]: hit for hit in hits}


def as_hit(number: int, hit: Answer, records: Records) -> str:
    """A record in three lines: title and state, text, origin; then what is rare."""
    rejected = lines(hit, (Field("already_rejected", "already rejected: "),))
    text = rejected[0] if rejected else hit.get("snippet") or prose(hit.get("text", ""))
    earlier = hit.get("earlier")
    short = _short_id(hit["id"])
    return block(
        _hit_heading(number, hit, records),
        *_wrapped(text, 1),
        styled(_origin(hit, short), "dim"),
        *(f"    {row}" for row in _standing(hit, records, _BELOW_A_HIT)),
        f"    {earlier} earlier on this topic: filemem history {short}" if earlier else "",
    )


def _hit_heading(number: int, hit: Answer, records: Records) -> str:
    by = hit.get("by", {})
    branch = "" if by.get("merged", True) else _only_on(by)
    about = cells(hit.get("type"), _topic(hit), hit.get("note"), branch, separator=" · ")
    reasons = [entry["reason"] for entry in hit.get("reasons", ())[-1:] if entry["reason"]]
    return cells(
        _title(f"{number:2}. ", hit),
        styled(about, "dim"),
        _outcome(hit, "".join(f": {reason}" for reason in reasons)),
        *_standing(hit, records, (_SUPERSEDED_BY,)),
    )


def _origin(hit: Answer, short: str) -> str:
    """Short id, day, author, commit and path; the path is cut to the width of a terminal."""
    by = hit.get("by", {})
    day = (hit.get("created") or by.get("date", ""))[:10]
    start = cells(f"    {short}", day, _who(by), hit.get("commit", "")[:10]) + "  "
    path = f"{hit['repository']}/{hit['path']}" if "repository" in hit else hit["path"]
    room = max(_SHORTEST_PATH, _width() - len(start))
    if console.out().isatty() and len(path) > room:
        path = f"…{path[1 - room :]}"
    return start + path


def _title(mark: str, hit: Answer) -> str:
    return mark + styled(hit["title"], "dim" if hit.get("superseded_by") else "bold")


def _outcome(hit: Answer, reason: str = "") -> str:
    outcome = hit.get("outcome", "pending")
    return "" if outcome == "pending" else styled(outcome, _OUTCOMES.get(outcome, "")) + reason


def short_name(hit: Answer, name: str = "") -> str:
    """The short id of a record, or its path if it has no id."""
    name = hit.get("id", name)
    return str(hit.get("path", name)) if name.startswith("file_") else _short_id(name)


def _short_id(name: str) -> str:
    return name.rpartition("_")[2]


def _wrapped(text: str, most: int) -> list[str]:
    width = min(_LINE, _width()) - 4
    rows = textwrap.wrap(" ".join(text.split()), width, max_lines=most, placeholder=" …")
    return [f"    {row}" for row in rows]


def _width() -> int:
    return (console.out().isatty() and console.columns()) or _LINE


def as_whole(hit: Answer, records: Records) -> str:
    """A whole record: what it is, its other fields, its links; then text, outcomes and edits."""
    rows = [
        styled(hit["title"], "bold"),
        f"{hit['id']}  {hit['path']}",
        _provenance(hit),
        *_standing(hit, records),
        *_other_fields(hit),
        *(_edge(edge) for edge in hit.get("related", ())),
    ]
    decision = hit["decision"] if hit.get("decision", hit["title"]) != hit["title"] else ""
    edits = [_revision(hit, edit["changes"], edit) for edit in hit.get("revisions", ())]
    for part in ([decision], [hit.get("text", "")], _logged(hit), edits):
        texts = [text for text in part if text]
        if texts:
            rows += ["", *texts]
    return "\n".join(rows)


def _other_fields(hit: Answer) -> Iterable[str]:
    """`key: value` for each field that has no wording of its own."""
    apart = set(_APART)
    if hit.get("heads") == hit.get("superseded_by"):
        apart.add("heads")
    for key, value in hit.items():
        if key not in apart and value not in ("", [], {}, None):
            row = f"{key}: {_as_text(value)}"
            yield row.replace("\n", "\n    ")  # indented, so stored text cannot imitate our lines


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _edge(edge: Answer) -> str:
    name = f"{edge['title']} ({edge['id']})" if edge.get("title") else edge["id"]
    reason = f": {edge['reason']}" if edge["reason"] not in ("", "front matter") else ""
    return f"{edge['kind'].replace('_', ' ')}: {name}{reason}"


def _standing(hit: Answer, records: Records, fields: Sequence[Field] = _STANDING) -> list[str]:
    """What replaced a decision, and other reasons not to follow it."""
    named = {**records, **by_id(hit.get("successors", ()))}
    worded = {
        **hit,
        "drift": _drift(hit),
        "superseded_by": _names(hit.get("superseded_by", ()), named),
        "proposed": _names(hit.get("proposed", ()), named),
    }
    return lines(worded, fields)


def _drift(hit: Answer) -> str:
    """How the code of a decision moved on, and the files that changed."""
    if not hit.get("drift"):
        return ""
    gone = hit.get("gone", ())
    changed = [path for path in hit.get("drifted", ()) if path not in gone]
    if not changed:
        return f"its code is {hit['drift']}"
    word = "; changed" if gone else ""
    return f"its code is {hit['drift']}{word}: {', '.join(changed[:_LISTED_FILES])}"


def _names(ids: Iterable[str], records: Records) -> str:
    """The titles of records with their short ids; the id alone of a record that is elsewhere."""
    names = (
        f"{records[name]['title']} ({short_name(records[name], name)})" if name in records else name
        for name in ids
    )
    return "; ".join(names)


def as_step(step: Answer, above: str, titles: Mapping[str, str]) -> str:
    """A decision of a chain; `above` is the one that is shown before it."""
    step = defaultdict(str, step)
    text = f"{beyond(step['title'], step.get('decision', ''))}\n\n{step.get('reasoning', '')}"
    replaced = [titles[name] for name in step["supersedes"] if name in titles]
    rows = {
        "reasons": _logged(step),
        "replaces": " and ".join(replaced) if step["supersedes"] != [above] else "",
        "rejected": step.get("rejected"),
    }
    # The chain itself shows what replaced the step.
    standing = _standing({**step, "superseded_by": (), "proposed": ()}, {})
    committed = {**step, "date": step["committed"]}
    origin = _provenance({**step, "by": committed, "created": step["date"]})
    return block(
        _step_heading(step),
        *_wrapped(prose(text), 3),
        *lines(rows, _BELOW_A_STEP, 4),
        *(f"    {row}" for row in (*standing, *_edits(step))),
        styled(f"    {_short_id(step['id'])}  {origin}  {step['path']}", "dim"),
    )


def _step_heading(step: Answer) -> str:
    mark = styled("●", "green") if step["holds"] else "○"
    day = f"{step['date'][:10]}  ".lstrip()
    topic = _topic(step) if step["foreign"] else ""
    status = "" if step["status"] == "accepted" else step["status"]
    about = styled(cells(topic, status, separator=" · "), "dim")
    return cells(_title(f"{mark}  {day}", step), about, _outcome(step))


def _edits(step: Answer) -> Iterable[str]:
    """The edits of a step; an outcome is no edit, as the log shows it."""
    for edit in step["revisions"]:
        changes = [change for change in edit["changes"] if not change.startswith("outcome ")]
        if changes or not edit["changes"]:
            yield _revision(step, changes, edit)


def _revision(step: Answer, changes: Sequence[str], edit: Answer) -> str:
    """An edit: date, author, commit, changes, and the commit's subject if it says more."""
    summary = "; ".join(changes)
    if not edit["commit"]:
        return styled(f"not committed: {summary}", "yellow") if changes else ""
    subject = edit["subject"]
    ours = subject == step["title"] or _MADE_BY_US.match(subject)
    more = styled(f"  ({subject})", "dim") if summary and not ours else ""
    return f"{edit['date'][:10]} {_who(edit)} {edit['commit'][:10]}: {summary or subject}{more}"


def _who(by: Answer) -> str:
    return cells(by.get("author"), by.get("agent"), separator=", ")


def _only_on(by: Answer) -> str:
    return f"only on {by.get('branch') or 'this commit'}"


def _provenance(hit: Answer) -> str:
    """Author, date and commit of a record, and what else Git shows."""
    by = hit.get("by", {})
    stated = hit.get("created", "")[:10]
    made = by.get("date", "")[:10]
    differs = made and stated not in ("", made)
    return cells(
        _who(by),
        made or stated,
        _commit_of(hit, by),
        f"dated {stated}" if differs else "",  # the file's word stands apart from Git's
        _branch_of(by),
        *_hands(by),
    )


def _commit_of(hit: Answer, by: Answer) -> str:
    if by.get("commit"):
        return str(by["commit"][:10])
    return "" if hit.get("note") else "not committed"


def _branch_of(by: Answer) -> str:
    """Where a record is, if a branch is checked out that is not the default one."""
    if not by.get("default"):
        return ""
    return f"on {by['default']}" if by["merged"] else _only_on(by)


def _hands(by: Answer) -> Iterable[str]:
    """Who else worked on a record: co-authors, reviewers, the last editor."""
    if by.get("co_authors"):
        yield f"with {', '.join(by['co_authors'])}"
    if by.get("reviewers"):
        yield f"reviewed by {', '.join(by['reviewers'])}"
    for edit in by.get("edited", ())[:1]:
        yield f"edited by {edit['author']} {edit['date'][:10]} {edit['commit'][:10]}"


def _logged(hit: Answer) -> list[str]:
    """The log of outcomes."""
    return [_log_line(entry) for entry in hit.get("reasons", ())]


def _log_line(entry: Answer) -> str:
    outcome = styled(entry["outcome"], _OUTCOMES.get(entry["outcome"], ""))
    reason = f": {entry['reason']}" if entry["reason"] else ""
    return f"{outcome} {entry['at'][:10]}{reason}"


def _topic(hit: Answer) -> str:
    """The topic of a decision, unless it is just the heading."""
    topic: str = hit.get("topic", "")
    return topic if topic not in (hit["title"], topic_of_heading(hit["title"])) else ""
