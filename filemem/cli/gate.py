"""The gate: `diff` and `check`, for people, for a commit hook and for a pull request.

A hook checks only the files it is given, so `--lint` uses neither the index nor Git.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Project, emit
from filemem.cli.text import Answer, Look, block, styled
from filemem.config import load, store_path
from filemem.dialects.tool import counted
from filemem.errors import BadInput
from filemem.files import Files, is_record
from filemem.record import Problem
from filemem.record.lint import lint as lint_record
from filemem.record.lint import lint_other
from filemem.repo.run import find


class _Effect(NamedTuple):
    """How an effect on a record is shown: its mark and colour, and the word before others."""

    mark: str
    look: Look
    word: str = ""


_EFFECTS = {
    "forked": _Effect("!", "red", "hold at once:"),
    "new": _Effect("+", "green", "supersedes"),
    "accepted": _Effect("+", "green"),
    "superseded": _Effect("×", "yellow", "by"),
    "outcome": _Effect("=", "cyan"),
    "revised": _Effect("~", "cyan"),
    "removed": _Effect("-", "red"),
    "orphaned": _Effect("?", "red", "held:"),
}
_LEVELS: Mapping[str, Look] = {"error": "red", "warning": "yellow", "hint": "grey"}
"""Levels of a problem, the worst first, with their colours."""
# No reason to stop a merge: code may be right, a message cannot be mended.
_ADVISORY = frozenset(("drift", "evidence", "settings", "unknown-status"))
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

    Without a range: the current branch since it left the default branch or, if the memory has its
    own branch, what sync has not pushed yet. BASE alone means BASE...HEAD. BASE..HEAD compares two
    states as they are; each side is a commit, tag, branch or date. Uncommitted changes are not
    compared.

    \b
    Examples:
      filemem diff
      filemem diff v1.2...HEAD
      filemem diff --format markdown > comment.md
    """
    from filemem.cli.call import perform

    perform("diff", project, as_json, {"range": range}, _effects if form == "text" else _comment)


def _effects(answer: Answer) -> str:
    """The changes of a branch: one line a record, with details below."""
    base = answer["base"]
    parted = f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    head = styled(answer["head"]["name"], "bold")
    heading = f"{head} against {base['name']}{parted}: {counts or 'no record is touched'}"
    return block(heading, *(row for effect in answer["effects"] for row in _effect_rows(effect)))


def _effect_rows(effect: Answer) -> Iterator[str]:
    form = _EFFECTS[effect["kind"]]
    title = effect["title"]
    kind = "" if effect["type"] == "decision" else effect["type"]
    about = (effect["kind"], kind, effect.get("topic", ""))
    text = styled(" · ".join(word for word in about if word not in ("", title)), "dim")
    yield f"{styled(form.mark, 'bold', form.look)} {title}  {text}"
    others = "; ".join(other["title"] for other in effect.get("others", ()))
    details = (f"{form.word} {others}".strip() if others else "", *effect.get("details", ()))
    yield from (f"    {detail}" for detail in details if detail)
    if effect.get("path"):
        yield styled(f"    {effect['path']}", "dim")


def _comment(answer: Answer) -> str:
    """The same in a code block, where nothing is markup, a link or a mention; no row can end the
    block."""
    return "\n".join(("```diff", *_effects(answer).splitlines()[:_LONGEST], "```"))


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--base",
    default="",
    metavar="REV|DATE",
    help="Only problems that a merge into it would add: a branch, tag, commit, date or age (2w).",
)
@click.option(
    "--lint",
    is_flag=True,
    help="Check each of PATHS by itself, for a commit hook: without Git and other records.",
)
@click.option(
    "--code", is_flag=True, help="Match the guards of live decisions against all tracked files."
)
@click.option(
    "--strict", is_flag=True, help="Fail on advice too: rewritten code, outcomes that commits name."
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

    With PATHS, only problems of these files or, without --lint, folders. They are relative to the
    current folder or, without --lint, to the store.

    With --code, the tracked files are matched against the guards of live decisions instead; each
    line that breaks one is reported. With --base, only breaks that this branch brings.

    Exit status: 0 clean (hints do not count, nor does advice without --strict), 1 problems found;
    higher for invalid requests, as with every command.

    \b
    Examples:
      filemem check
      filemem check --base main --format github
      filemem check --base 1w
      filemem check --code --base main
      filemem check --lint memory/decisions/2025/11/*.md
    """
    _refuse_mixed(request, lint=lint)
    answer = _linted(ctx.obj, request["paths"]) if lint else _checked(ctx.obj, request)
    problems = answer["problems"]
    if as_json or problems:
        shape = workflow_commands if form == "github" else partial(_lines, short=not verbose)
        emit(answer, as_json, shape)
    verdict = _verdict(answer, "file" if request["code"] else "record")
    click.echo(verdict, err=bool(problems) or as_json or form != "text")
    ctx.exit(1 if any(_stops(problem, strict=strict) for problem in problems) else 0)


def _refuse_mixed(request: Mapping[str, Any], *, lint: bool) -> None:
    """Raise BadInput for options that exclude each other."""
    if request["code"] and (lint or request["paths"]):
        raise BadInput("--code checks all tracked files", "leave out --lint and paths")
    if lint and request["base"]:
        raise BadInput("--lint checks files by themselves", "leave out --base, which asks Git")


def _checked(project: Project, request: Mapping[str, Any]) -> Answer:
    """The answer of the tool `check`."""
    from filemem.cli.call import ask

    with project.memory(look=False) as memory:
        return ask("check", project, memory, request)


def _verdict(answer: Answer, noun: str) -> str:
    """How much was checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    counts = [counted(levels.count(level), level) for level in _LEVELS if level in levels]
    return f"{counted(answer['checked'], noun)} checked: {', '.join(counts) or 'clean'}"


def _stops(problem: Answer, *, strict: bool) -> bool:
    """Whether a problem makes `check` fail."""
    return problem["level"] != "hint" and (strict or problem["code"] not in _ADVISORY)


def _lines(answer: Answer, *, short: bool = False) -> str:
    """One line a problem, `path:line: code message`, coloured by level.

    `short`: hints that say the same of several files are one line.
    """
    groups: dict[object, list[Answer]] = {}
    for number, problem in enumerate(answer["problems"]):
        folds = short and problem["level"] == "hint"
        key = (problem["code"], problem["message"]) if folds else number
        groups.setdefault(key, []).append(problem)
    return "\n".join(_line(group[0], len(group)) for group in groups.values())


def _line(problem: Answer, count: int) -> str:
    place = f"{problem['path']}:{problem['line']}"
    code = styled(problem["code"], _LEVELS[problem["level"]])
    more = f" ({count} files: -v lists them)" if count > 1 else ""
    row = f"{place}: {code} {problem['message']}{more}"
    return row.replace("\n", "\\n").replace("\t", "\\t")


def workflow_commands(answer: Answer) -> str:
    """Problems as workflow commands, which GitHub shows beside the lines they are about."""
    return "\n".join(_workflow_command(problem) for problem in answer["problems"])


def _workflow_command(problem: Answer) -> str:
    level = problem["level"].replace("hint", "notice")
    place = f"file={_escaped(problem['path'], ':,')},line={problem['line']}"
    return f"::{level} {place},title=filemem%3A {problem['code']}::{_escaped(problem['message'])}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what would end or begin a command: github.com/actions/toolkit, core/src/command.ts."""
    special = f"%\r\n{more}"
    return "".join(f"%{ord(char):02X}" if char in special else char for char in text)


def _linted(project: Project, names: Sequence[str]) -> Answer:
    """The answer of `check` for a few files, each by itself."""
    top = find(project.folder).work_tree
    files = Files(top, store_path(project.store) if project.store else load(top).store)
    paths = [project.named(name, top) for name in names]
    problems = [problem for path in paths for problem in _problems_in(files, path)]
    problems.sort(key=lambda problem: problem.order)
    return {
        "success": True,
        "checked": sum(is_record(files.inside(path)) for path in paths),
        "problems": [problem._asdict() for problem in problems],
    }


def _problems_in(files: Files, path: str) -> Iterable[Problem]:
    """The problems of one file, under its path in the work tree. Raises BadInput."""
    if not (files.holds(path) and files.exists(files.inside(path))):
        raise BadInput(
            f"there is no file {path} below {files.store}/",
            "name records only; or set `store` in .filemem.toml, or --store, to their folder",
            field="paths",
        )
    inside = files.inside(path)
    check_file = _lint if is_record(inside) else lint_other
    try:
        problems = check_file(files.read(inside), inside)
    except BadInput as error:
        problems = (Problem(inside, 1, "unreadable", "error", f"{error.message}; skipped"),)
    return [problem._replace(path=path) for problem in problems]


def _lint(data: bytes, path: str) -> Sequence[Problem]:
    return lint_record(data, path).problems
