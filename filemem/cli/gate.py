"""The gate: `diff` and `check`, for people, for a commit hook and for a pull request.

A hook checks only the files it is given, so `--lint` uses neither the index nor Git.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from filemem.cli.options import json_option, pass_project
from filemem.cli.project import Project, print_answer
from filemem.cli.text import Answer, Style, join_lines, style_text
from filemem.config import load, validate_store_path
from filemem.dialects.tool import format_count
from filemem.errors import BadInput
from filemem.files import Files, is_record
from filemem.record import Problem
from filemem.record.lint import lint_other_file
from filemem.record.lint import lint_record as lint_record
from filemem.repo.run import find_repository


class _EffectFormat(NamedTuple):
    """How an effect on a record is shown: its mark and colour, and the word before others."""

    mark: str
    style: Style
    others_label: str = ""


_EFFECT_FORMATS = {
    "forked": _EffectFormat("!", "red", "hold at once:"),
    "new": _EffectFormat("+", "green", "supersedes"),
    "accepted": _EffectFormat("+", "green"),
    "superseded": _EffectFormat("×", "yellow", "by"),
    "outcome": _EffectFormat("=", "cyan"),
    "revised": _EffectFormat("~", "cyan"),
    "removed": _EffectFormat("-", "red"),
    "orphaned": _EffectFormat("?", "red", "held:"),
}
_LEVELS: Mapping[str, Style] = {"error": "red", "warning": "yellow", "hint": "grey"}
"""Levels of a problem, the worst first, with their colours."""
# No reason to stop a merge: code may be right, a message cannot be mended.
_ADVISORY = frozenset(("drift", "evidence", "settings", "unknown-status"))
_MAX_COMMENT_ROWS = 300  # rows of a comment: hosts refuse longer ones


@click.command()
@click.argument("range", default="", metavar="[BASE...HEAD]")
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True
)
@json_option
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
    from filemem.cli.call import run_tool

    run_tool(
        "diff",
        project,
        as_json,
        {"range": range},
        _render_effects if form == "text" else _render_comment,
    )


def _render_effects(answer: Answer) -> str:
    """The changes of a branch: one line a record, with details below."""
    base = answer["base"]
    fork_note = (
        f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    )
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    head = style_text(answer["head"]["name"], "bold")
    heading = f"{head} against {base['name']}{fork_note}: {counts or 'no record is touched'}"
    return join_lines(
        heading, *(row for effect in answer["effects"] for row in _iter_effect_rows(effect))
    )


def _iter_effect_rows(effect: Answer) -> Iterator[str]:
    effect_format = _EFFECT_FORMATS[effect["kind"]]
    title = effect["title"]
    kind = "" if effect["type"] == "decision" else effect["type"]
    labels = (effect["kind"], kind, effect.get("topic", ""))
    text = style_text(" · ".join(word for word in labels if word not in ("", title)), "dim")
    yield f"{style_text(effect_format.mark, 'bold', effect_format.style)} {title}  {text}"
    others = "; ".join(other["title"] for other in effect.get("others", ()))
    details = (
        f"{effect_format.others_label} {others}".strip() if others else "",
        *effect.get("details", ()),
    )
    yield from (f"    {detail}" for detail in details if detail)
    if effect.get("path"):
        yield style_text(f"    {effect['path']}", "dim")


def _render_comment(answer: Answer) -> str:
    """The same in a code block, where nothing is markup, a link or a mention; no row can end the
    block."""
    return "\n".join(("```diff", *_render_effects(answer).splitlines()[:_MAX_COMMENT_ROWS], "```"))


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
@json_option
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
    _refuse_mixed_options(request, lint=lint)
    answer = _lint_files(ctx.obj, request["paths"]) if lint else _check_memory(ctx.obj, request)
    problems = answer["problems"]
    if as_json or problems:
        renderer = (
            render_workflow_commands
            if form == "github"
            else partial(_render_problems, folds_hints=not verbose)
        )
        print_answer(answer, as_json, renderer)
    verdict = _format_verdict(answer, "file" if request["code"] else "record")
    click.echo(verdict, err=bool(problems) or as_json or form != "text")
    ctx.exit(1 if any(_is_failure(problem, strict=strict) for problem in problems) else 0)


def _refuse_mixed_options(request: Mapping[str, Any], *, lint: bool) -> None:
    """Raise BadInput for options that exclude each other."""
    if request["code"] and (lint or request["paths"]):
        raise BadInput("--code checks all tracked files", "leave out --lint and paths")
    if lint and request["base"]:
        raise BadInput("--lint checks files by themselves", "leave out --base, which asks Git")


def _check_memory(project: Project, request: Mapping[str, Any]) -> Answer:
    """The answer of the tool `check`."""
    from filemem.cli.call import call_tool

    with project.memory(look=False) as memory:
        return call_tool("check", project, memory, request)


def _format_verdict(answer: Answer, noun: str) -> str:
    """How much was checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    counts = [format_count(levels.count(level), level) for level in _LEVELS if level in levels]
    return f"{format_count(answer['checked'], noun)} checked: {', '.join(counts) or 'clean'}"


def _is_failure(problem: Answer, *, strict: bool) -> bool:
    """Whether a problem makes `check` fail."""
    return problem["level"] != "hint" and (strict or problem["code"] not in _ADVISORY)


def _render_problems(answer: Answer, *, folds_hints: bool = False) -> str:
    """One line a problem, `path:line: code message`, coloured by level.

    `short`: hints that say the same of several files are one line.
    """
    groups: dict[object, list[Answer]] = {}
    for number, problem in enumerate(answer["problems"]):
        is_foldable = folds_hints and problem["level"] == "hint"
        key = (problem["code"], problem["message"]) if is_foldable else number
        groups.setdefault(key, []).append(problem)
    return "\n".join(_format_problem(group[0], len(group)) for group in groups.values())


def _format_problem(problem: Answer, count: int) -> str:
    location = f"{problem['path']}:{problem['line']}"
    code = style_text(problem["code"], _LEVELS[problem["level"]])
    count_note = f" ({count} files: -v lists them)" if count > 1 else ""
    row = f"{location}: {code} {problem['message']}{count_note}"
    return row.replace("\n", "\\n").replace("\t", "\\t")


def render_workflow_commands(answer: Answer) -> str:
    """Problems as workflow commands, which GitHub shows beside the lines they are about."""
    return "\n".join(_format_workflow_command(problem) for problem in answer["problems"])


def _format_workflow_command(problem: Answer) -> str:
    level = problem["level"].replace("hint", "notice")
    location = f"file={_escape_text(problem['path'], ':,')},line={problem['line']}"
    return f"::{level} {location},title=filemem%3A {problem['code']}::{_escape_text(problem['message'])}"


def _escape_text(text: str, extra_chars: str = "") -> str:
    """Escape what would end or begin a command: github.com/actions/toolkit, core/src/command.ts."""
    special = f"%\r\n{extra_chars}"
    return "".join(f"%{ord(char):02X}" if char in special else char for char in text)


def _lint_files(project: Project, names: Sequence[str]) -> Answer:
    """The answer of `check` for a few files, each by itself."""
    work_tree = find_repository(project.folder).work_tree
    files = Files(
        work_tree, validate_store_path(project.store) if project.store else load(work_tree).store
    )
    paths = [project.resolve_path(name, work_tree) for name in names]
    problems = [problem for path in paths for problem in _check_file(files, path)]
    problems.sort(key=lambda problem: problem.sort_key)
    return {
        "success": True,
        "checked": sum(is_record(files.to_store_path(path)) for path in paths),
        "problems": [problem._asdict() for problem in problems],
    }


def _check_file(files: Files, path: str) -> Iterable[Problem]:
    """The problems of one file, under its path in the work tree. Raises BadInput."""
    if not (files.is_in_store(path) and files.exists(files.to_store_path(path))):
        raise BadInput(
            f"there is no file {path} below {files.store}/",
            "name records only; or set `store` in .filemem.toml, or --store, to their folder",
            field="paths",
        )
    record_path = files.to_store_path(path)
    lint_file = _list_record_problems if is_record(record_path) else lint_other_file
    try:
        problems = lint_file(files.read(record_path), record_path)
    except BadInput as error:
        problems = (Problem(record_path, 1, "unreadable", "error", f"{error.message}; skipped"),)
    return [problem._replace(path=path) for problem in problems]


def _list_record_problems(data: bytes, path: str) -> Sequence[Problem]:
    return lint_record(data, path).problems
