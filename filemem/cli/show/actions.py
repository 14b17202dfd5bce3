"""What a command did, or found out about the memory itself."""

from __future__ import annotations

import click

from filemem.cli.show.words import Answer, aside, counted, joined

_LEVELS = {"error": "red", "warning": "yellow", "hint": "bright_black"}  # of a problem, the worst first -> its colour


def message(answer: Answer) -> str:
    """One sentence, and the commit that it led to."""
    commit = f"  commit {answer['commit'][:10]}" if answer.get("commit") else ""
    rows = [
        (name, answer.get(key)) for name, key in (("because", "pending"), ("note", "note"), ("degraded", "degraded"))
    ]
    return joined([answer["message"] + commit, *(aside(*row) for row in rows)])


def saved(answer: Answer) -> str:
    """What was saved, where, and what it replaced, or would if it held."""
    commit = answer.get("commit")
    return joined(
        [
            f"{answer['message']}",
            f"  {answer['path']}",
            f"  {answer['id']}" + (f"  commit {commit[:10]}" if commit else ""),
            *(f"  supersedes {old}" for old in answer.get("superseded", ())),
            *(f"  would supersede {old}" for old in answer.get("would_supersede", ())),
            aside("because", answer.get("pending")),
            aside("note", answer.get("note")),
            *(f"  similar: {near['title']} ({near['id']}): {near['hint']}" for near in answer.get("similar", ())),
        ]
    )


def forgotten(answer: Answer) -> str:
    """What was removed, and what it takes to remove it from history too."""
    rows = [message(answer)]
    if answer.get("purge"):
        rows.append("  to take it out of history too (if it was a secret, revoke it first); before you do:")
        rows += [click.style(f"  - {warning}", fg="yellow") for warning in answer["purge_warnings"]]
        rows += [f"    {step}" for step in answer["purge"]]
    else:
        rows += [aside("to take it out of history too", warning) for warning in answer.get("purge_warnings", ())]
    return joined(rows)


def synced(answer: Answer) -> str:
    """What a sync did, and what it leaves to the user."""
    return joined([answer["message"], aside("hint", answer.get("hint"))])


def plan(answer: Answer) -> str:
    """What init did, or would do."""
    would = "would " if answer["dry_run"] else ""
    verbs = {"create": f"{would}create", "change": f"{would}change", "keep": "keep"}
    rows = []
    for step in answer["steps"]:
        rows.append(f"{verbs[step['action']]} {step['path']}" + (f"  ({step['note']})" if step["note"] else ""))
        if answer["dry_run"] and step["content"]:
            rows += [click.style(f"    {row}", dim=True) for row in step["content"].splitlines()]
    if not answer["dry_run"] and answer["to_commit"]:
        here = " on this branch" if answer.get("branch") else ""
        rows.append(f"nothing was staged or committed{here}: look at the files, then commit them yourself")
    return joined([*rows, *_stray(answer), aside("warning", answer.get("warning"))])


def _stray(answer: Answer) -> list[str]:
    """Which records nobody reads, and what each command is for, in a row of its own."""
    if not (found := answer.get("stray")):
        return []
    from filemem.memory.strays import Stray

    rows = (f"    {what}: {command}" for what, command in Stray(**found).commands)
    return [aside("stray", found["told"]), *rows]


def status(answer: Answer) -> str:
    """How the memory stands."""
    counts, index = answer["records"], answer["index"]
    rows = [
        f"{answer['store']}: " + ", ".join(counted(counts[kind], kind) for kind in counts),
        f"topics: {answer['topics']}" + (f", {answer['forked']} forked" if answer["forked"] else ""),
        f"index: {counted(index['records'], 'record')}, model {index['model'] or 'none yet'}: {index['state']}",
        f"  {index['folder']}",
    ]
    if left := answer.get("unresolved"):
        rows.append(f"unresolved: {', '.join(left['paths'])}" + (f" ({left['reason']})" if left["reason"] else ""))
    rows += [f"gone, and no commit says so: {one['path']} ({one['restore']})" for one in answer.get("gone", ())]
    waiting = answer["pending"]
    rows += [f"not committed yet: {op['kind']} of {op['path']}, {op['age']} ago: {op['reason']}" for op in waiting]
    busy = any("hook refused" not in op["reason"] for op in waiting)
    rows += ["  what waits is committed by the first command, or by a server, once that is over"] if busy else []
    if answer.get("unshared"):
        rows.append(f"not shared yet: {counted(answer['unshared'], 'commit')} (filemem sync)")
    rows += [aside(name, answer.get(name)) for name in ("note", "settings", "ignored", "degraded")]
    return joined([*rows, *_stray(answer)])


def problems(answer: Answer) -> str:
    """One line a problem, path:line: code message: coloured by how bad it is."""
    rows = (
        f"{one['path']}:{one['line']}: {click.style(one['code'], fg=_LEVELS[one['level']])} {one['message']}"
        for one in answer["problems"]
    )
    return "\n".join(row.replace("\n", "\\n").replace("\t", "\\t") for row in rows)


def verdict(answer: Answer) -> str:
    """How many records were checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    found = [counted(levels.count(level), level) for level in _LEVELS if level in levels]
    return f"{counted(answer['checked'], 'record')} checked: {', '.join(found) or 'clean'}"
