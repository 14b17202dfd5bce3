"""The gate: `diff` and `check`, for people, for a commit hook and for a pull request.

A hook judges the files it is given and nothing else, so with `--lint` neither the index nor Git is asked: this module
then imports no more than the record format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli import Project, as_json, emit, pass_project, perform
from filemem.errors import BadInput, NotFound

if TYPE_CHECKING:
    from filemem.record import Problem

_LEVELS = {"error": "red", "warning": "yellow", "hint": "bright_black"}  # of a problem, the worst first -> its colour
FORMATS = ("text", "json", "sarif", "github")
# No reason to stop a merge: code may be right, a message cannot be mended.
_ADVISORY = frozenset(("drift", "evidence", "unclear-outcome", "unknown-decision"))


@click.command()
@click.argument("range", default="", metavar="[BASE...HEAD]")
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
@as_json
@pass_project
def diff(project: Project, /, as_json: bool, range: str, form: str) -> None:  # noqa: A002
    """Show what a branch does to the memory. New, accepted, superseded, outcomes, revised, removed, forked, orphaned.

    Without a range: what is checked out, since it parted from the default branch; where the memory has a branch of its
    own, what sync has not shared yet. BASE alone means BASE...HEAD. BASE..HEAD compares two states as they are; each
    side is a commit, tag, branch or date. What is not committed is not compared.

    \b
    Examples:
      filemem diff
      filemem diff v1.2...HEAD
      filemem diff --format markdown > comment.md
    """
    from filemem.cli import formats

    perform("diff", project, as_json, {"range": range}, formats.comparison if form == "markdown" else _effects)


def _effects(answer: Mapping[str, Any]) -> str:
    """What a branch does to the memory: one line a record, and what there is to say of it below."""
    from filemem.cli.formats import EFFECTS

    base, head = answer["base"], answer["head"]
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    parted = f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    name = click.style(head["name"], bold=True)
    rows = [f"{name} against {base['name']}{parted}: {counts or 'no record is touched'}"]
    for effect in answer["effects"]:
        _, mark, colour, word = EFFECTS[effect["kind"]]
        about = [effect["kind"], *([effect["type"]] if effect["type"] != "decision" else [])]
        about += [effect["topic"]] if effect.get("topic") and effect["topic"] != effect["title"] else []
        kind = click.style(" · ".join(about), dim=True)
        rows.append(f"{click.style(mark, fg=colour, bold=True)} {effect['title']}  {kind}")
        others = "; ".join(other["title"] for other in effect.get("others", ()))
        rows += [f"    {f'{word} {others}'.strip()}"] if others else []
        rows += [f"    {phrase}" for phrase in effect.get("details", ())]
        rows += [click.style(f"    {effect['path']}", dim=True)] if effect.get("path") else []
    return "\n".join(rows)


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--base",
    metavar="REV|DATE",
    help="Only what merging this branch into that would bring: a branch, tag or commit, or a date or age as in 2w.",
)
@click.option(
    "--lint", is_flag=True, help="Judge each of PATHS by itself, for a commit hook: no Git, no other records."
)
@click.option("--drift", is_flag=True, help="Report all governed code that changed, not only what was rewritten.")
@click.option("--strict", is_flag=True, help="Fail for advice too: rewritten code, what commits say.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="sarif for code scanning, github for annotations in GitHub Actions.",
)
@as_json
@click.pass_context
def check(
    ctx: click.Context,
    as_json: bool,
    form: str,
    strict: bool,
    drift: bool,
    lint: bool,
    base: str | None,
    paths: tuple[str, ...],
) -> None:
    """Report what is wrong with the records. One line each: path:line: code message, the worst first.

    Of PATHS alone if there are any: files or folders, relative to the current folder or, but for --lint, to the store.

    Exit status: 0 clean (hints do not count, nor does advice without --strict), 1 problems found, more for errors of
    the request as with every command.

    \b
    Examples:
      filemem check
      filemem check --base main --format github
      filemem check --base v1.2
      filemem check --base 1w
      filemem check --lint memory/decisions/2025/11/*.md
    """
    from filemem.cli import formats, show

    if base is not None and not base.strip():
        raise BadInput("--base is empty", "name the branch that this one left, for example main", field="base")
    if lint and (base is not None or drift):
        option = "--drift" if base is None else "--base"
        raise BadInput(f"--lint judges files by themselves, {option} by what Git knows", "leave one of them out")
    answer = _linted(ctx.obj, paths) if lint else _checked(ctx.obj, paths, base or "", drift)
    problems, form = answer["problems"], "json" if as_json else form
    if form == "sarif":
        from filemem import VERSION

        click.echo(formats.sarif(problems, VERSION))
    elif form == "github" and problems:
        click.echo(formats.github(show.plain(problems)))
    elif form == "json" or (form == "text" and problems):
        emit(answer, form == "json", _problems)
    levels = [problem["level"] for problem in problems]
    found = [show.counted(levels.count(level), level) for level in _LEVELS if level in levels]
    verdict = f"{show.counted(answer['checked'], 'record')} checked: {', '.join(found) or 'clean'}"
    click.echo(verdict, err=bool(problems) or form != "text")
    stops = any(one["level"] != "hint" and (strict or one["code"] not in _ADVISORY) for one in problems)
    ctx.exit(1 if stops else 0)


def _problems(answer: Mapping[str, Any]) -> str:
    """One line a problem, path:line: code message: coloured by how bad it is."""
    rows = (
        f"{one['path']}:{one['line']}: {click.style(one['code'], fg=_LEVELS[one['level']])} {one['message']}"
        for one in answer["problems"]
    )
    return "\n".join(row.replace("\n", "\\n").replace("\t", "\\t") for row in rows)


def _checked(project: Project, paths: Iterable[str], base: str, drift: bool) -> dict[str, Any]:
    """The answer of `check` for a whole store."""
    from filemem.dialects import native

    with project.memory(look=False) as memory:
        named = [_named(project, path, memory.work_tree) for path in paths]
        return native.check(memory, {"paths": named, "base": base, "drift": drift})


def _named(project: Project, path: str, work_tree: Path) -> str:
    """What is there from the current folder is named from the top; else the path may be one of the store."""
    here = os.path.lexists(project.folder / path) or os.path.isabs(path) or ".." in Path(path).parts  # noqa: PTH117
    return project.from_top(path, work_tree) if here else path


def _linted(project: Project, paths: Iterable[str]) -> dict[str, Any]:
    """The same for a few files, each by itself."""
    from filemem.config import load, store_path
    from filemem.files import Files, is_record, unportable
    from filemem.record import Problem
    from filemem.record.lint import lint, lint_other
    from filemem.repo.paths import find

    top = find(project.folder).work_tree
    files = Files(top, store_path(project.store) if project.store else load(top).store)
    found: list[Problem] = []
    count = 0
    for path in _files(project, paths, top):
        if not files.holds(path):
            hint = "name records only; or set `store` in .filemem.toml, or --store, to the folder they are in"
            raise BadInput(f"{path} is not below {files.store}/", hint, field="paths")
        inside = files.inside(path)
        a_record, skipped = is_record(os.path.basename(path)), files.skipped(inside)
        if skipped is not None:
            problems = [skipped] if a_record else []
        else:
            data = files.read(inside)
            problems = [*(lint(inside, data).problems if a_record else lint_other(inside, data))]
        if unportable(name := os.path.basename(path)):
            problems.append(Problem(path, 1, "file-name", "warning", f"Windows cannot have the name {name}: rename it"))
        found += [one._replace(path=path) for one in problems]
        count += a_record
    found.sort(key=lambda one: one.order)
    return {"success": True, "checked": count, "problems": [one._asdict() for one in found]}


def _files(project: Project, paths: Iterable[str], top: Path) -> Iterable[str]:
    """The files that are meant, from the top of the work tree; a folder means all in it."""
    for path in paths:
        named = project.from_top(path, top)
        if not os.path.lexists(top / named):
            raise NotFound(f"{path}: no such file", "name files that are there; a hook is given those of the commit")
        if (top / named).is_dir():
            yield from sorted(one.relative_to(top).as_posix() for one in (top / named).rglob("*.md"))
        else:
            yield named
