"""Answers worded for the eye. Each function takes the object that `--json` prints and returns lines of text."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

Answer = Mapping[str, Any]
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSEEN_OR_BREAK = re.compile(rf"{_UNSEEN.pattern[:-1]}\t\n]")
_TEXTS = frozenset(
    (
        "text",
        "reasoning",
        "decision",
        "summary",
        "next_steps",
        "limitation",
        "facts",
        "snippet",
        "message",
        "hint",
        "note",
    )
)
_COLOURS = {"failed": "red", "success": "green", "partial": "yellow", "rejected": "red", "proposed": "cyan"}


def plain(value: Any, name: str = "") -> Any:
    """The same value with control characters shown as escapes: what is stored must not steer a terminal.

    Line breaks count as such wherever one line is meant: in a topic or a path they could pass for a line of ours.
    """
    if isinstance(value, str):
        steering = _UNSEEN if name in _TEXTS else _UNSEEN_OR_BREAK
        return steering.sub(lambda found: found[0].encode("unicode_escape").decode(), value)
    if isinstance(value, Mapping):
        return {key: plain(item, key) for key, item in value.items()}
    return [plain(item, name) for item in value] if isinstance(value, (list, tuple)) else value


def message(answer: Answer) -> str:
    """One sentence, and the commit that it led to."""
    commit = f"  commit {answer['commit'][:10]}" if answer.get("commit") else ""
    rows = (("because", answer.get("pending")), ("note", answer.get("note")))
    return _lines([answer["message"] + commit, *(_hint(*row) for row in rows)])


def forgotten(answer: Answer) -> str:
    """What was removed, and what it takes to remove it from history too."""
    steps = answer.get("purge", ())
    rows = []
    if steps:
        rows.append("  these do not touch commit messages and files of others that quote it: git log --all --grep=WORD")
        rows.append("  to take it out of history too, for everybody (if it was a secret, revoke it first):")
    return _lines([message(answer), *rows, *(f"    {step}" for step in steps)])


def synced(answer: Answer) -> str:
    """What a sync did, and what it leaves to the user."""
    return _lines([answer["message"], _hint("hint", answer.get("hint"))])


def saved(answer: Answer) -> str:
    """What was saved, where, and what it replaced."""
    commit = answer.get("commit")
    return _lines(
        [
            f"{answer['message']}",
            f"  {answer['path']}",
            f"  {answer['id']}" + (f"  commit {commit[:10]}" if commit else ""),
            *(f"  supersedes {old}" for old in answer.get("superseded", ())),
            _hint("because", answer.get("pending")),
            _hint("note", answer.get("note")),
            *(f"  similar: {near['title']} ({near['id']}): {near['hint']}" for near in answer.get("similar", ())),
        ]
    )


def hits(answer: Answer) -> str:
    """Search results, best first; what is dead is dimmed and says what replaced it."""
    head = [_then(answer), _hint("degraded", answer.get("degraded")), _hint("note", answer.get("note"))]
    if not answer["results"]:
        return _lines([*head, "nothing found"])
    shown = {hit["id"]: hit for hit in answer["results"]}
    return _lines([*head, *(_hit(number, hit, shown) for number, hit in enumerate(answer["results"], 1))])


def why(answer: Answer) -> str:
    """The decisions that code rests on, in groups: the surest first."""
    place = answer["path"] + (f":{answer['line']}" if "line" in answer else "")
    rows = [_hint("note", answer.get("note"))]
    if not answer["results"]:
        return _lines([*rows, f"no decision speaks of {place}"])
    shown = {hit["id"]: hit for hit in answer["results"]}
    heads = {"governs": "governs", "touched": "came with", "near": "speaks of what is in"}
    last = ""
    for number, hit in enumerate(answer["results"], 1):
        if hit["kind"] != last:
            rows.append(click.style(f"{heads[hit['kind']]} {place}:", dim=True))
            last = hit["kind"]
        rows.append(_hit(number, hit, shown))
    return _lines(rows)


def _hit(number: int, hit: Answer, shown: Mapping[str, Answer]) -> str:
    dead = bool(hit.get("superseded_by"))
    topic = "" if hit["title"].endswith(hit.get("topic", "")) else hit["topic"]  # a heading that serves as topic
    labels = [hit["type"], topic, hit.get("status", "") if hit.get("status") != "accepted" else ""]
    outcome = hit.get("outcome", "") if hit.get("outcome") != "pending" else ""
    parts = " · ".join(label for label in labels if label)
    title = click.style(hit["title"], bold=not dead, dim=dead)
    rows = [f"{number:2}. {title}  {click.style(parts, dim=True)}" + (f"  {_word(outcome)}" if outcome else "")]
    found = hit.get("snippet", "")
    if hit.get("already_rejected"):  # said below
        found = found.partition("Rejected: ")[0]
    rows += [f"    {row}" for row in _wrapped(found or _prose(hit.get("text", "")), 3)]
    rows += [f"    {_outcome(entry)}" for entry in hit.get("reasons", ())]
    rows += [f"    already rejected: {one}" for one in hit.get("already_rejected", ())]
    if dead:
        rows.append(click.style(f"    superseded by {_successors(hit, shown)}", fg="yellow"))
    rows += [f"    {hit['note']}"] if hit.get("note") else []
    rows += [f"    {hit['because']}"] if hit.get("because") else []
    rows += [click.style(f"    {one}", fg="yellow") for one in _doubts(hit)]
    rows += [f"    chain: {hit['chain']}"] if hit.get("chain") else []
    edges = hit.get("related", ())
    rows += [f"    {edge['kind']}: {_title(edge, shown)}" for edge in edges]
    score = f"  score {hit['score']:.2f}" if hit.get("score") else ""
    rows.append(click.style(f"    {_short(hit['id'])}  {_by(hit)}  {hit['path']}{score}", dim=True))
    return "\n".join(rows)


def _doubts(hit: Answer) -> list[str]:
    """What speaks against following a decision as it stands: its code changed, history says that it failed."""
    files = f": {', '.join(hit['drifted'][:5])}" if hit.get("drifted") and " gone" not in hit["drift"] else ""
    return [*([f"its code is {hit['drift']}{files}"] if hit.get("drift") else []), *hit.get("evidence", ())]


def _title(edge: Answer, shown: Mapping[str, Answer]) -> str:
    title: str = edge.get("title") or shown.get(edge["id"], {}).get("title") or edge["id"]
    return title


def _successors(hit: Answer, shown: Mapping[str, Answer]) -> str:
    """What replaced a record, by title, and what to call it by: the path where the id is only made from that."""
    known = {**shown, **{one["id"]: one for one in hit.get("successors", ())}}
    told = []
    for one in hit["superseded_by"]:
        name = known[one]["path"] if one in known and one.startswith("file_") else one
        told.append(f"{known[one]['title']} ({name})" if one in known else one)
    return "; ".join(told)


def records(answer: Answer) -> str:
    """Whole records."""
    shown = {hit["id"]: hit for hit in answer["results"]}
    return "\n\n".join(filter(None, (_then(answer), *(_record(hit, shown) for hit in answer["results"]))))


def checkpoint(answer: Answer) -> str:
    """The checkpoint to go on from, and whose it is where it is another's."""
    if answer["checkpoint"] is None:
        return _lines([_then(answer), answer["message"]])
    return _lines([_then(answer), _hint("note", answer.get("note")), _record(answer["checkpoint"], {})])


def _then(answer: Answer) -> str:
    """The commit that an answer is as of, where it is not the present."""
    at = answer.get("at")
    if not at:
        return ""
    named = "" if at["commit"].startswith(at["name"]) else f"{at['name']}: "
    return click.style(f"as of {named}commit {at['commit'][:10]} of {at['date'][:10]}", fg="yellow")


def _record(hit: Answer, shown: Mapping[str, Answer]) -> str:
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
        "superseded_by",
        "successors",
        "highlight",
        "holds",
        "note",
        "metadata",
        "revisions",
        "other_keys",
        "drift",
        "drifted",
        "evidence",
    }
    if hit.get("superseded_by"):
        rows.append(click.style(f"superseded by {_successors(hit, shown)}", fg="yellow"))
    rows += [click.style(hit["note"], fg="yellow")] if hit.get("note") else []
    rows += [click.style(one, fg="yellow") for one in _doubts(hit)]
    if hit.get("heads") == hit.get("superseded_by"):
        skip.add("heads")
    rows += [f"{key}: {_value(value)}" for key, value in hit.items() if key not in skip and value not in ("", [], None)]
    told = {"metadata": hit.get("metadata"), "other keys": hit.get("other_keys")}
    rows += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in told.items() if value]
    rows += [_edge(edge) for edge in hit.get("related", ())]
    rows += ["", hit["decision"]] if hit.get("decision", hit["title"]) != hit["title"] else []
    rows += ["", hit["text"]] if hit.get("text") else []
    if hit.get("reasons"):
        rows += ["", *(_outcome(entry) for entry in hit["reasons"])]
    if hit.get("revisions"):
        rows += ["", *filter(None, (_revision(hit, edit["changes"], edit) for edit in hit["revisions"]))]
    return "\n".join(rows)


def _edge(edge: Answer) -> str:
    title = f"{edge['title']} ({edge['id']})" if edge.get("title") else edge["id"]
    return f"{edge['kind']}: {title}" + (f": {edge['reason']}" if edge["reason"] not in ("", "front matter") else "")


def history(answer: Answer) -> str:
    """A chain, oldest first."""
    from filemem.memory.meant import ending

    rows = [*filter(None, [_then(answer)]), click.style(answer["topic"], bold=True)]
    for step in answer["chain"]:
        mark = click.style("●", fg="green") if step["id"] in answer["heads"] else "○"
        outcome = f"  {_word(step['outcome'])}" if step.get("outcome") not in (None, "", "pending") else ""
        status = f"  [{step['status']}]" if step.get("status") not in (None, "accepted") else ""
        unknown = not step.get("commit") and bool(step.get("note"))  # a shallow clone does not have it
        commit = step["commit"][:10] if step.get("commit") else "" if unknown else "not committed"
        who = ", ".join(filter(None, (step.get("author"), step.get("agent")))) or ("" if unknown else "somebody")
        name = step["path"] if step["id"].startswith("file_") else step["id"]
        rows.append("  ".join(filter(None, (mark, step["date"][:10], f"{step['title']}{status}{outcome}"))))
        rows.append(click.style("    " + "  ".join(filter(None, (who, commit, name))), dim=True))
        rows += [click.style(f"    {step['note']}", fg="yellow")] if step.get("note") else []
        rows += [f"    {row}" for row in _wrapped(_prose(step.get("reasoning", "")), 2)]
        rows += [f"    rejected: {one}" for one in step.get("rejected", ())]
        rows += [f"    {row}" for row in _came_of(step)]
    rows += [click.style(f"note: {note}", fg="yellow") for note in answer["notes"]]
    if len(answer["heads"]) > 1:
        rows.append(
            click.style(
                f"forked: {len(answer['heads'])} decisions hold at once; {ending(answer['topic'])}",
                fg="red",
            )
        )
    return "\n".join(rows)


def _came_of(step: Answer) -> list[str]:
    """The outcomes of a decision and the edits of its file; the commit that brought an outcome stands behind it."""
    edits = [(list(edit["changes"]), edit) for edit in step["revisions"]]
    rows = []
    for entry in step.get("reasons", ()):
        brought = None
        for changes, edit in edits:
            phrase = next((one for one in changes if _same(one, entry)), None)
            if phrase:
                changes.remove(phrase)
                brought = edit
                break
        by = f"  ({brought['author']} {brought['commit'][:10]})" if brought and brought["commit"] else ""
        rows.append(_outcome(entry) + by)
    told = [(changes, edit) for changes, edit in edits if changes or not edit["changes"]]
    return rows + [row for changes, edit in told if (row := _revision(step, changes, edit))]


def _revision(step: Answer, changes: Sequence[str], edit: Answer) -> str:
    """An edit: when, who, which commit, what it changed, and what its message says besides the obvious."""
    if not edit["commit"]:
        return click.style(f"not committed: {'; '.join(changes)}", fg="yellow") if changes else ""
    subject = re.sub(r"^(?:decision|checkpoint|observation)(?:\(.*?\))?: ", "", edit["subject"])
    obvious = subject == step["title"] or edit["subject"] != subject or subject.startswith("Merge ")
    said = [*(["; ".join(changes)] if changes else []), *([] if obvious and changes else [subject])]
    who = ", ".join(filter(None, (edit["author"], edit["agent"])))
    return f"{edit['date'][:10]} {who} {edit['commit'][:10]}: {'  '.join(said[:1])}" + "".join(
        click.style(f"  ({one})", dim=True) for one in said[1:]
    )


def _same(phrase: str, entry: Answer) -> bool:
    """Whether a phrase of an edit says what an entry of the outcome log says; a long one is cut."""
    log = f"outcome {entry['outcome']}" + (f": {entry['reason']}" if entry["reason"] else "")
    return " ".join(log.split()).startswith(phrase.removesuffix("…"))


def diff(answer: Answer) -> str:
    """What a branch does to the memory: one line a record, and what there is to say of it below."""
    base, head = answer["base"], answer["head"]
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    parted = f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    rows = [
        f"{click.style(head['name'], bold=True)} against {base['name']}{parted}: {counts or 'no record is touched'}"
    ]
    return "\n".join([*rows, *(row for effect in answer["effects"] for row in _effect(effect))])


_EFFECTS = {
    "forked": ("!", "red", "hold at once:"),
    "new": ("+", "green", "supersedes"),
    "superseded": ("×", "yellow", "by"),
    "outcome": ("=", "cyan", ""),
    "revised": ("~", "cyan", ""),
    "removed": ("-", "red", ""),
    "revived": ("^", "green", ""),
    "joined": ("v", "green", "holds:"),
    "orphaned": ("?", "red", ""),
}  # kind -> its mark, colour, and the word before others


def _effect(effect: Answer) -> list[str]:
    mark, colour, word = _EFFECTS[effect["kind"]]
    about = [effect["kind"], *([effect["type"]] if effect["type"] != "decision" else [])]
    about += [effect["topic"]] if effect.get("topic") and effect["topic"] != effect["title"] else []
    others = "; ".join(other["title"] for other in effect.get("others", ()))
    said = [*([f"{word} {others}".strip()] if others else []), *effect.get("details", ())]
    title = f"{click.style(mark, fg=colour, bold=True)} {effect['title']}  {click.style(' · '.join(about), dim=True)}"
    path = [click.style(f"    {effect['path']}", dim=True)] if effect.get("path") else []
    return [title, *(f"    {phrase}" for phrase in said), *path]


def topics(answer: Answer) -> str:
    """One line a topic."""
    rows = [_then(answer), _hint("degraded", answer.get("degraded"))]
    if not answer["topics"]:
        return _lines([*rows, "no such topics"])
    told = False
    for topic in answer["topics"]:
        if not topic["stated"] and not told:
            rows.append(click.style("no topic stated:", dim=True))
            told = True
        forked = click.style(f"  forked ({topic['heads']} heads)", fg="red") if topic["heads"] > 1 else ""
        count = _count(topic["decisions"], "decision")
        if topic["stated"]:
            name = f"{click.style(topic['topic'], bold=True)}  {topic['title'] or 'nothing holds'}  ({count})"
        else:
            name = f"  {click.style(topic['title'] or topic['topic'], bold=True)}  ({count})"
        rows.append(f"{name}{forked}")
    return _lines(rows)


def problems(answer: Answer) -> str:
    """One line a problem: path:line: code message."""
    found = answer["problems"]
    rows = [f"{problem['path']}:{problem['line']}: {problem['code']} {problem['message']}" for problem in found]
    return "\n".join(row.replace("\n", "\\n").replace("\t", "\\t") for row in rows)


def verdict(answer: Answer) -> str:
    """How many records were checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    found = [_count(levels.count(level), level) for level in ("error", "warning", "hint") if level in levels]
    return f"{_count(answer['checked'], 'record')} checked: {', '.join(found) or 'clean'}"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


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
        here = " on this branch" if answer.get("branch") else ""
        rows.append(f"nothing was staged or committed{here}: look at the files, then commit them yourself")
    return _lines([*rows, _hint("warning", answer.get("warning"))])


def status(answer: Answer) -> str:
    """How the memory stands."""
    counts, index = answer["records"], answer["index"]
    rows = [
        f"{answer['store']}: " + ", ".join(_count(counts[kind], kind) for kind in counts),
        f"topics: {answer['topics']}" + (f", {answer['forked']} forked" if answer["forked"] else ""),
        f"index: {index['state']}, {index['records']} records, model {index['model'] or 'none yet'}",
        f"  {index['folder']}",
    ]
    waiting = answer["pending"]
    rows += [f"not committed yet: {op['kind']} of {op['path']}, {op['age']} ago: {op['reason']}" for op in waiting]
    rows += ["  what waits is committed by the first command, or by a server, once that is over"] if waiting else []
    if answer.get("unshared"):
        rows.append(f"not shared yet: {_count(answer['unshared'], 'commit')} (filemem sync)")
    rows += [_hint(name, answer.get(name)) for name in ("note", "settings", "degraded")]
    return _lines(rows)


def _by(hit: Answer) -> str:
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
    more += [f"with {', '.join(by['co_authors'])}"] if by.get("co_authors") else []
    more += [f"reviewed by {', '.join(by['reviewers'])}"] if by.get("reviewers") else []
    more += [f"edited by {one['author']} {one['date'][:10]} {one['commit'][:10]}" for one in by.get("edited", ())[:1]]
    stated, made = hit.get("created", "")[:10], by.get("date", "")[:10]
    dated = f"dated {stated}" if made and stated not in ("", made) else ""  # the file's word stands apart from Git's
    return "  ".join(filter(None, (who, made or stated, commit, dated, *more)))


def _standing(by: Answer) -> str:
    """How a record stands to the default branch, where another one is checked out."""
    if not by["merged"]:
        return f"only on {by.get('branch') or 'this commit'}"
    since = f" since {by['landed'][:10]}" if by.get("landed") else ""
    return f"on {by['default']}{since}" + (", in another version" if by.get("differs") else "")


def _short(record_id: str) -> str:
    """The end of an id that is enough to name it."""
    return record_id.rpartition("_")[2]


def _outcome(entry: Answer) -> str:
    return f"{_word(entry['outcome'])} {entry['at'][:10]}" + (f": {entry['reason']}" if entry["reason"] else "")


def _word(word: str) -> str:
    return click.style(word, fg=_COLOURS.get(word))


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _prose(text: str) -> str:
    from filemem.record import prose  # `--help` pays for no record

    return prose(text)


def _wrapped(text: str, rows: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width=96, max_lines=rows, placeholder=" …")


def _hint(word: str, text: str | None) -> str:
    return click.style(f"  {word}: {text}", fg="yellow") if text else ""


def _lines(rows: Sequence[str]) -> str:
    return "\n".join(row for row in rows if row)
