"""The gate: `check`, for people, for a commit hook and for a pull request.

A hook judges the files it is given and nothing else, so with `--lint` neither the index nor Git is asked: this module
then imports no more than the record format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli import Project, as_json, emit
from filemem.errors import BadInput, NotFound

if TYPE_CHECKING:
    from filemem.record import Problem

FORMATS = ("text", "json", "sarif", "github")
# Told, and no reason to stop a merge: code may be right, a decision may be meant to end, a message cannot be mended.
ADVISORY = frozenset(("drift", "evidence", "no-longer-holds", "unclear-outcome", "unknown-decision"))


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
@click.option("--drift", is_flag=True, help="Tell of all governed code that changed, not only of what was rewritten.")
@click.option("--strict", is_flag=True, help="Fail for advice too: rewritten code, what commits say, what lapsed.")
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

    Tells only of PATHS where there are any: files or folders, relative to the current folder or, but for --lint, to the
    store.

    Exit status: 0 clean (hints do not count, nor does advice without --strict), 1 problems found, more for errors of
    the request as with every command.

    \b
    Examples:
      filemem check
      filemem check --base main --format github
      filemem check --base v1.2
      filemem check --base 1w
      filemem check --lint memory/decisions/caching/*.md
    """
    from filemem.cli import formats
    from filemem.cli.plain import plain
    from filemem.cli.show import actions

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
        click.echo(formats.github(plain(problems)))
    elif form == "json" or (form == "text" and problems):
        emit(answer, form == "json", actions.problems)
    click.echo(actions.verdict(answer), err=bool(problems) or form != "text")
    ctx.exit(1 if any(_stops(problem, strict) for problem in problems) else 0)


def _stops(problem: dict[str, Any], strict: bool) -> bool:
    return problem["level"] != "hint" and (strict or problem["code"] not in ADVISORY)


def _checked(project: Project, paths: Iterable[str], base: str, drift: bool) -> dict[str, Any]:
    """The answer of `check` for a whole store."""
    from filemem.dialects import native_calls

    with project.memory(look=False) as memory:
        named = [_named(project, path, memory.work_tree) for path in paths]
        return native_calls.check(memory, {"paths": named, "base": base, "drift": drift})


def _named(project: Project, path: str, work_tree: Path) -> str:
    """What is there from the current folder is named from the top; else the path may be one of the store."""
    here = os.path.lexists(project.folder / path) or os.path.isabs(path) or ".." in Path(path).parts  # noqa: PTH117
    return project.from_top(path, work_tree) if here else path


def _linted(project: Project, paths: Iterable[str]) -> dict[str, Any]:
    """The same for a few files, each by itself."""
    from filemem.config import load, store_path
    from filemem.files import Files, is_record, names
    from filemem.lint import lint, lint_other
    from filemem.repo.discovery import find

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
        problems += filter(None, map(names.of, names.entries([inside])))
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
