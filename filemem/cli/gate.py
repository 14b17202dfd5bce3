"""The gate: `diff` and `check`, for people, for a commit hook and for a pull request.

A hook checks only the files it is given, so `--lint` uses neither the index nor Git.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Answer, Project, ask, emit, perform
from filemem.cli.show import rows_of, styled
from filemem.dialects.present import counted
from filemem.errors import BadInput

_LEVELS = {
    "error": "red",
    "warning": "yellow",
    "hint": "grey",
}  # of a problem, the worst first -> its colour
# No reason to stop a merge: code may be right, a message cannot be mended.
_ADVISORY = ("drift", "evidence", "settings", "unknown-status")
_EFFECTS = {
    "forked": ("!", "red", "hold at once:"),
    "new": ("+", "green", "supersedes"),
    "accepted": ("+", "green", ""),
    "superseded": ("×", "yellow", "by"),
    "outcome": ("=", "cyan", ""),
    "revised": ("~", "cyan", ""),
    "removed": ("-", "red", ""),
    "orphaned": ("?", "red", "held:"),
}  # kind -> its mark and colour, and the word before others
_LONGEST = 300  # rows of a comment: hosts refuse longer ones


@click.command()
@click.argument("range", default="", metavar="[BASE...HEAD]")
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True
)
@as_json
@pass_project
def diff(project: Project, /, as_json: bool, range: str, form: str) -> None:  # noqa: A002
    """Show what a branch changes in the memory: new, superseded, edited, removed, forked, orphaned.

    Without a range: the current branch since it left the default branch or, if the memory has its own branch, what sync
    has not pushed yet. BASE alone means BASE...HEAD. BASE..HEAD compares two states as they are; each side is a commit,
    tag, branch or date. Uncommitted changes are not compared.

    \b
    Examples:
      filemem diff
      filemem diff v1.2...HEAD
      filemem diff --format markdown > comment.md
    """
    perform("diff", project, as_json, {"range": range}, _effects if form == "text" else _comment)


def _effects(answer: Answer) -> str:
    """The changes of a branch: one line a record, with details below."""
    base, head = answer["base"], answer["head"]
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    parted = f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    rows = [
        f"{styled(head['name'], 'bold')} against {base['name']}{parted}: {counts or 'no record is touched'}"
    ]
    for effect in answer["effects"]:
        mark, colour, word = _EFFECTS[effect["kind"]]
        title, others = (
            effect["title"],
            "; ".join(other["title"] for other in effect.get("others", ())),
        )
        about = [
            effect["kind"],
            "" if effect["type"] == "decision" else effect["type"],
            effect.get("topic", ""),
        ]
        shown = styled(" · ".join(one for one in about if one not in ("", title)), "dim")
        told = (f"{word} {others}".strip() if others else "", *effect.get("details", ()))
        path = styled(f"    {effect['path']}", "dim") if effect.get("path") else ""
        rows += [
            f"{styled(mark, f'bold {colour}')} {title}  {shown}",
            *(f"    {one}" for one in told if one),
            path,
        ]
    return rows_of(*rows)


def _comment(answer: Answer) -> str:
    """The same in a code block, where nothing is markup, a link or a mention; no row can end the block."""
    return "\n".join(("```diff", *_effects(answer).splitlines()[:_LONGEST], "```"))


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--base",
    default="",
    metavar="REV|DATE",
    help="Only what merging this branch into that would add: a branch, tag or commit, or a date or age as in 2w.",
)
@click.option(
    "--lint",
    is_flag=True,
    help="Check each of PATHS by itself, for a commit hook: no Git, no other record.",
)
@click.option(
    "--code", is_flag=True, help="Match the guards of live decisions against all tracked files."
)
@click.option(
    "--strict", is_flag=True, help="Fail for advice too: rewritten code, what commits say."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="github: annotations.",
)
@click.option("-v", "--verbose", is_flag=True, help="List each file of a hint.")
@as_json
@click.pass_context
def check(
    ctx: click.Context,
    /,
    as_json: bool,
    form: str,
    strict: bool,
    lint: bool,
    verbose: bool,
    **request: Any,
) -> None:
    """Report problems with the records, one line each: path:line: code message, the worst first.

    A hint about several files is one line with their count; -v lists them.

    With PATHS, only problems of these files or, without --lint, folders. They are relative to the current folder or,
    without --lint, to the store.

    With --code, the tracked files are matched against the guards of live decisions instead; each
    line that breaks one is reported. With --base, only breaks that this branch brings.

    Exit status: 0 clean (hints do not count, nor does advice without --strict), 1 problems found; higher for invalid
    requests, as with every command.

    \b
    Examples:
      filemem check
      filemem check --base main --format github
      filemem check --base 1w
      filemem check --code --base main
      filemem check --lint memory/decisions/2025/11/*.md
    """
    if request["code"] and (lint or request["paths"]):
        raise BadInput("--code checks all tracked files", "leave out --lint and paths")
    if lint and request["base"]:
        raise BadInput("--lint checks files by themselves", "leave out --base, which asks Git")
    if lint:
        answer = _linted(ctx.obj, request["paths"])
    else:
        with ctx.obj.memory(look=False) as memory:
            answer = ask("check", ctx.obj, memory, request)
    problems = answer["problems"]
    if as_json or problems:
        emit(
            answer,
            as_json,
            workflow_commands if form == "github" else partial(_lines, short=not verbose),
        )
    levels = [problem["level"] for problem in problems]
    found = [counted(levels.count(level), level) for level in _LEVELS if level in levels]
    checked = counted(answer["checked"], "file" if request["code"] else "record")
    verdict = f"{checked} checked: {', '.join(found) or 'clean'}"
    click.echo(verdict, err=bool(problems) or as_json or form != "text")
    stops = any(
        one["level"] != "hint" and (strict or one["code"] not in _ADVISORY) for one in problems
    )
    ctx.exit(1 if stops else 0)


def _lines(answer: Answer, *, short: bool = False) -> str:
    """One line a problem, `path:line: code message`, coloured by severity; `short`: equal hints are one line."""
    hints = Counter(
        (one["code"], one["message"])
        for one in answer["problems"]
        if short and one["level"] == "hint"
    )
    rows = []
    for one in answer["problems"]:
        count = (
            hints.pop((one["code"], one["message"]), 0) if short and one["level"] == "hint" else 1
        )
        more = f" ({count} files: -v lists them)" if count > 1 else ""
        row = f"{one['path']}:{one['line']}: {styled(one['code'], _LEVELS[one['level']])} {one['message']}{more}"
        rows += [row] if count else []
    return "\n".join(row.replace("\n", "\\n").replace("\t", "\\t") for row in rows)


def workflow_commands(answer: Answer) -> str:
    """Problems as workflow commands, which GitHub shows beside the lines they are about."""
    return "\n".join(
        f"::{one['level'].replace('hint', 'notice')} file={_escaped(one['path'], ':,')},line={one['line']},"
        f"title=filemem%3A {one['code']}::{_escaped(one['message'])}"
        for one in answer["problems"]
    )


def _escaped(text: str, more: str = "") -> str:
    """Escape what would end the command or begin another: github.com/actions/toolkit, core/src/command.ts."""
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)


def _linted(project: Project, paths: Sequence[str]) -> Answer:
    """The answer of `check` for a few files, each by itself."""
    from filemem.config import load, store_path
    from filemem.files import Files, is_record
    from filemem.record import Problem
    from filemem.record.lint import lint, lint_other
    from filemem.repo.run import find

    top = find(project.folder).work_tree
    files = Files(top, store_path(project.store) if project.store else load(top).store)
    named = [project.named(path, top) for path in paths]
    found = []
    for path in named:
        if not (files.holds(path) and files.exists(files.inside(path))):
            hint = "name records only; or set `store` in .filemem.toml, or --store, to the folder they are in"
            raise BadInput(f"there is no file {path} below {files.store}/", hint, field="paths")
        inside, record = files.inside(path), is_record(files.inside(path))
        try:
            data = files.read(inside)
            problems = lint(data, inside).problems if record else lint_other(data, inside)
        except BadInput as error:
            problems = (Problem(inside, 1, "unreadable", "error", f"{error.message}; skipped"),)
        found += [one._replace(path=path) for one in problems]
    found.sort(key=lambda one: one.order)
    count = sum(is_record(files.inside(path)) for path in named)
    return {"success": True, "checked": count, "problems": [one._asdict() for one in found]}
