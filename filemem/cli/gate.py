"""The commands `diff` and `check`, for people, for a commit hook and for a pull request.

A commit hook checks only the files it gets, so `--lint` uses neither the index nor Git.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
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
from filemem.record.lint import lint_other_file, lint_record
from filemem.repo.run import find_repository


class _EffectFormat(NamedTuple):
    """How to print a change of a record: a mark, its colour, the words before other titles."""

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
"""Level of a problem -> its colour; the worst level first."""
# Advice never stops a merge: the code may be right, and a commit message cannot be changed.
_ADVISORY = frozenset(("drift", "evidence", "settings", "unknown-status"))
_MAX_COMMENT_ROWS = 300  # longer comments are refused by GitHub and other hosts


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

    renderer = _render_effects
    if form == "markdown":
        renderer = _render_comment
    run_tool("diff", project, as_json, {"range": range}, renderer)


def _render_effects(answer: Answer) -> str:
    """Render the changes of a branch: a line for each record, with details below."""
    base = answer["base"]
    head_name = style_text(answer["head"]["name"], "bold")
    heading = f"{head_name} against {base['name']}"
    fork_commit = answer["parted"]
    if fork_commit != base["commit"]:
        heading += f" (parted at {fork_commit[:10]})"
    counts = [f"{count} {kind}" for kind, count in answer["counts"].items()]
    if not counts:
        counts = ["no record is touched"]
    rows = [f"{heading}: {', '.join(counts)}"]
    for effect in answer["effects"]:
        rows.append(_format_effect(effect))
        rows += _iter_effect_details(effect)
    return join_lines(rows)


def _format_effect(effect: Answer) -> str:
    """Format the first line of a change: mark, title, and labels that add something to it."""
    effect_format = _EFFECT_FORMATS[effect["kind"]]
    title = effect["title"]
    labels = [effect["kind"]]
    if effect["type"] != "decision":
        labels.append(effect["type"])
    labels.append(effect.get("topic", ""))
    labels = [label for label in labels if label not in ("", title)]
    mark = style_text(effect_format.mark, "bold", effect_format.style)
    label_text = style_text(" · ".join(labels), "dim")
    return f"{mark} {title}  {label_text}"


def _iter_effect_details(effect: Answer) -> Iterator[str]:
    """Yield the indented lines below a change: other records, details, path."""
    other_titles = "; ".join([other["title"] for other in effect.get("others", ())])
    if other_titles:
        label = _EFFECT_FORMATS[effect["kind"]].others_label
        row = f"{label} {other_titles}".strip()
        yield f"    {row}"
    for detail in effect.get("details", ()):
        if detail:
            yield f"    {detail}"
    path = effect.get("path")
    if path:
        yield style_text(f"    {path}", "dim")


def _render_comment(answer: Answer) -> str:
    """Render the changes as a Markdown code block for a comment on a pull request.

    Nothing in it acts as markup, a link or a mention, and no row can end the block.
    """
    effect_rows = _render_effects(answer).splitlines()
    rows = ["```diff"]
    rows += effect_rows[:_MAX_COMMENT_ROWS]
    rows.append("```")
    return "\n".join(rows)


def _choose_renderer(form: str, *, verbose: bool) -> Callable[[Answer], str]:
    """Return what prints the problems: as GitHub annotations, or as text."""
    if form == "github":
        return render_workflow_commands
    if verbose:
        return _render_all_problems
    return _render_folded_problems


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
        renderer = _choose_renderer(form, verbose=verbose)
        print_answer(answer, as_json, renderer)
    noun = "file" if request["code"] else "record"
    verdict = _format_verdict(answer, noun)
    is_for_programs = as_json or form != "text"
    click.echo(verdict, err=is_for_programs or bool(problems))
    for problem in problems:
        if _is_failure(problem, strict=strict):
            ctx.exit(1)


def _refuse_mixed_options(request: Mapping[str, Any], *, lint: bool) -> None:
    """Raise BadInput for options that exclude each other."""
    if request["code"] and (lint or request["paths"]):
        raise BadInput("--code checks all tracked files", "leave out --lint and paths")
    if lint and request["base"]:
        raise BadInput("--lint checks files by themselves", "leave out --base, which asks Git")


def _check_memory(project: Project, request: Mapping[str, Any]) -> Answer:
    """Return the answer of the tool `check`."""
    from filemem.cli.call import call_tool

    with project.memory(look=False) as memory:
        return call_tool("check", project, memory, request)


def _format_verdict(answer: Answer, noun: str) -> str:
    """Format how much was checked, and how many problems of each level there are."""
    levels = [problem["level"] for problem in answer["problems"]]
    counts: list[str] = []
    for level in _LEVELS:
        count = levels.count(level)
        if count:
            counts.append(format_count(count, level))
    if not counts:
        counts = ["clean"]
    checked = format_count(answer["checked"], noun)
    return f"{checked} checked: {', '.join(counts)}"


def _is_failure(problem: Answer, *, strict: bool) -> bool:
    """Return whether a problem makes `check` fail."""
    if problem["level"] == "hint":
        return False
    return strict or problem["code"] not in _ADVISORY


def _render_all_problems(answer: Answer) -> str:
    """Render one line for each problem: `path:line: code message`, coloured by level."""
    return "\n".join([_format_problem(problem, 1) for problem in answer["problems"]])


def _render_folded_problems(answer: Answer) -> str:
    """Render one line for each problem, but only one for a hint that several files share."""
    groups: dict[object, list[Answer]] = {}
    for number, problem in enumerate(answer["problems"]):
        key: object = number
        if problem["level"] == "hint":
            key = (problem["code"], problem["message"])
        groups.setdefault(key, []).append(problem)
    rows = [_format_problem(group[0], len(group)) for group in groups.values()]
    return "\n".join(rows)


def _format_problem(problem: Answer, file_count: int) -> str:
    location = f"{problem['path']}:{problem['line']}"
    code = style_text(problem["code"], _LEVELS[problem["level"]])
    row = f"{location}: {code} {problem['message']}"
    if file_count > 1:
        row += f" ({file_count} files: -v lists them)"
    return row.replace("\n", "\\n").replace("\t", "\\t")


def render_workflow_commands(answer: Answer) -> str:
    """Render problems as workflow commands: GitHub shows each beside the line it is about."""
    return "\n".join([_format_workflow_command(problem) for problem in answer["problems"]])


def _format_workflow_command(problem: Answer) -> str:
    level = problem["level"].replace("hint", "notice")
    path = _escape_text(problem["path"], extra_chars=":,")
    title = f"filemem%3A {problem['code']}"
    message = _escape_text(problem["message"])
    return f"::{level} file={path},line={problem['line']},title={title}::{message}"


def _escape_text(text: str, extra_chars: str = "") -> str:
    """Escape the characters that end or separate the parts of a workflow command.

    GitHub's own rules: github.com/actions/toolkit, core/src/command.ts.
    """
    special_chars = f"%\r\n{extra_chars}"
    escaped = ""
    for char in text:
        escaped += f"%{ord(char):02X}" if char in special_chars else char
    return escaped


def _lint_files(project: Project, names: Sequence[str]) -> Answer:
    """Return the answer of `check --lint`: a few files, each checked without the others."""
    work_tree = find_repository(project.folder).work_tree
    store = validate_store_path(project.store) if project.store else load(work_tree).store
    files = Files(work_tree, store)
    paths = [project.resolve_path(name, work_tree) for name in names]
    record_count = 0
    problems: list[Problem] = []
    for path in paths:
        problems += _check_file(files, path)
        if is_record(files.to_store_path(path)):
            record_count += 1
    problems.sort(key=attrgetter("sort_key"))
    return {
        "success": True,
        "checked": record_count,
        "problems": [problem._asdict() for problem in problems],
    }


def _check_file(files: Files, path: str) -> Iterable[Problem]:
    """Return the problems of a file; `path` is its path in the work tree. Raises BadInput."""
    if not (files.is_in_store(path) and files.exists(files.to_store_path(path))):
        raise BadInput(
            f"there is no file {path} below {files.store}/",
            "name records only; or set `store` in .filemem.toml, or --store, to their folder",
            field="paths",
        )
    store_path = files.to_store_path(path)
    try:
        problems = _lint_file(files.read(store_path), store_path)
    except BadInput as error:
        message = f"{error.message}; skipped"
        problems = [Problem(store_path, 1, code="unreadable", level="error", message=message)]
    return [problem._replace(path=path) for problem in problems]


def _lint_file(data: bytes, path: str) -> Sequence[Problem]:
    if is_record(path):
        return lint_record(data, path).problems
    return lint_other_file(data, path)
