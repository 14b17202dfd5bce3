"""How records came to be what they are: the chain of a topic, and what a branch does to the memory."""

from __future__ import annotations

import click

from filemem.cli.show.words import Answer, as_of, aside, coloured, company, labelled, logged, prose, revision, wrapped


def history(answer: Answer) -> str:
    """A chain, oldest first."""
    from filemem.memory.phrases import ending

    head = [as_of(answer), aside("degraded", answer.get("degraded"))]
    rows = [*filter(None, head), click.style(answer["topic"], bold=True)]
    titles = {step["id"]: step["title"] for step in answer["chain"]}
    above = ""
    for step in answer["chain"]:
        mark = click.style("●", fg="green") if step["holds"] else "○"
        outcome = f"  {coloured(step['outcome'])}" if step.get("outcome") not in (None, "", "pending") else ""
        status = f"  [{step['status']}]" if step.get("status") not in (None, "accepted") else ""
        unknown = not step.get("commit") and bool(step.get("note"))  # a shallow clone does not have it
        commit = step["commit"][:10] if step.get("commit") else "" if unknown else "not committed"
        who = ", ".join(filter(None, (step.get("author"), step.get("agent")))) or ("" if unknown else "somebody")
        name = step["path"] if step["id"].startswith("file_") else step["id"]
        topic = labelled(step["title"], step["topic"]) if step["foreign"] else ""
        other = click.style(f"  on {topic}", dim=True) if topic else ""
        rows.append("  ".join(filter(None, (mark, step["date"][:10], f"{step['title']}{status}{outcome}{other}"))))
        made = step.get("committed", "")[:10]  # the file's word on the day stands apart from Git's
        made = f"committed {made}" if made not in ("", step["date"][:10]) else ""
        rows.append(click.style("    " + "  ".join(filter(None, (who, commit, made, *company(step), name))), dim=True))
        rows += [click.style(f"    {step['note']}", fg="yellow")] if step.get("note") else []
        replaced = [titles[one] for one in step["supersedes"] if one in titles]
        rows += [f"    replaces: {' and '.join(replaced)}"] if replaced and step["supersedes"] != [above] else []
        above = step["id"]
        rows += [f"    {row}" for row in _said(step)]
        rows += [f"    rejected: {one}" for one in step.get("rejected", ())]
        rows += [f"    {row}" for row in _came_of(step)]
        rows += [click.style(f"    {one}", fg="yellow") for one in step.get("evidence", ())]
    rows += [click.style(answer["note"], fg="yellow")] if answer.get("note") else []
    rows += [click.style(f"note: {note}", fg="yellow") for note in answer["notes"]]
    if answer["forked"]:
        rows.append(
            click.style(
                f"forked: {len(answer['heads'])} decisions hold at once; {ending(answer['topic'])}",
                fg="red",
            )
        )
    return "\n".join(rows)


def _said(step: Answer) -> list[str]:
    """What a decision says beyond its title, and why; in one where the title was cut and lacks no more than a row."""
    from filemem.query import beyond

    more, why = prose(beyond(step["title"], step.get("decision", ""))).strip(), prose(step.get("reasoning", ""))
    rows = wrapped(more, 2)
    if len(rows) != 1 or not why:
        return [*rows, *wrapped(why, 2)]
    ended = "" if more.endswith((".", "!", "?", ":")) else "."
    return wrapped(f"{more}{ended} {why}", 3)


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
        rows.append(logged(entry) + by)
    told = [(changes, edit) for changes, edit in edits if changes or not edit["changes"]]
    return rows + [row for changes, edit in told if (row := revision(step, changes, edit))]


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
    "accepted": ("+", "green", ""),
    "superseded": ("×", "yellow", "by"),
    "outcome": ("=", "cyan", ""),
    "revised": ("~", "cyan", ""),
    "removed": ("-", "red", ""),
    "revived": ("^", "green", ""),
    "narrowed": ("<", "yellow", "still hold at once:"),
    "joined": ("v", "green", "holds:"),
    "orphaned": ("?", "red", "held:"),
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
