"""The gate: `diff` and `check`, for people, for a commit hook and for a pull request.

A hook judges the files it is given and nothing else, so with `--lint` neither the index nor Git is asked. Titles and
phrases come from files that anybody may have written: in Markdown nothing of them may become markup, a link, a mention
or a reference, so every mark is escaped, and what hosts turn into links is broken by a space of no width.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Answer, Project, ask, emit, perform
from filemem.cli.show import counted, rows_of, styled
from filemem.errors import BadInput, NotFound

if TYPE_CHECKING:
    from filemem.files import Files
    from filemem.record import Problem

_LEVELS = {"error": "red", "warning": "yellow", "hint": "grey"}  # of a problem, the worst first -> its colour
_GITHUB = {"error": "error", "warning": "warning", "hint": "notice"}
# No reason to stop a merge: code may be right, a message cannot be mended.
_ADVISORY = frozenset(("drift", "evidence", "unclear-outcome", "unknown-decision"))
_EFFECTS = {
    "forked": ("Forked: more than one decision holds", "!", "red", "hold at once:"),
    "new": ("New", "+", "green", "supersedes"),
    "accepted": ("Accepted", "+", "green", ""),
    "superseded": ("Superseded", "×", "yellow", "by"),
    "outcome": ("Outcomes", "=", "cyan", ""),
    "revised": ("Revised", "~", "cyan", ""),
    "removed": ("Removed", "-", "red", ""),
    "revived": ("Holds again", "^", "green", ""),
    "joined": ("Fork ended", "v", "green", "holds:"),
    "orphaned": ("Left hanging", "?", "red", "held:"),
}  # kind -> its heading, its mark and colour in a terminal, and the word before others
_MOST = 30  # effects of one kind that a comment lists; the rest is counted
_LONG = 200  # characters of a title or phrase in a comment
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&$:])")
_LINKED = re.compile(r"@|:(?=//)|#(?=\d)|\bGH(?=-\d)|\bw(?=ww\.)", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./-]+")


@click.command()
@click.argument("range", default="", metavar="[BASE...HEAD]")
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
@as_json
@pass_project
def diff(project: Project, /, as_json: bool, range: str, form: str) -> None:  # noqa: A002
    """Show what a branch changes in the memory: new, superseded, edited, removed, forked, orphaned.

    Without a range: what is checked out, since it left the default branch; if the memory has a branch of its own, what
    sync has not pushed yet. BASE alone means BASE...HEAD. BASE..HEAD compares two states as they are; each side is a
    commit, tag, branch or date. What is not committed is not compared.

    \b
    Examples:
      filemem diff
      filemem diff v1.2...HEAD
      filemem diff --format markdown > comment.md
    """
    perform("diff", project, as_json, {"range": range}, comparison if form == "markdown" else _effects)


def _effects(answer: Answer) -> str:
    """What a branch changes: one line a record, and what there is to say of it below."""
    base, head = answer["base"], answer["head"]
    counts = ", ".join(f"{count} {kind}" for kind, count in answer["counts"].items())
    parted = f" (parted at {answer['parted'][:10]})" if answer["parted"] != base["commit"] else ""
    rows = [f"{styled(head['name'], 'bold')} against {base['name']}{parted}: {counts or 'no record is touched'}"]
    for effect in answer["effects"]:
        _, mark, colour, _ = _EFFECTS[effect["kind"]]
        about = styled(" · ".join([effect["kind"], *_labels(effect)]), "dim")
        path = styled(f"    {effect['path']}", "dim") if effect.get("path") else ""
        told = (f"    {phrase}" for phrase in _phrases(effect))
        rows += [f"{styled(mark, f'bold {colour}')} {effect['title']}  {about}", *told, path]
    return rows_of(*rows)


def _labels(effect: Answer) -> list[str]:
    labels = ["" if effect["type"] == "decision" else effect["type"], effect.get("topic", "")]
    return [label for label in labels if label and label != effect["title"]]


def _phrases(effect: Answer) -> list[str]:
    others = "; ".join(other["title"] for other in effect.get("others", ()))
    return [f"{_EFFECTS[effect['kind']][3]} {others}".strip()] * bool(others) + list(effect.get("details", ()))


def comparison(answer: Answer) -> str:
    """The object of `filemem diff --json` as a comment in Markdown."""
    parts = [f"### Memory: what {escaped(answer['head']['name'])} changes against {escaped(answer['base']['name'])}"]
    for kind, found in groupby(answer["effects"], key=lambda effect: effect["kind"]):
        effects = list(found)
        rows = [_item(effect) for effect in effects[:_MOST]]
        rows += [f"- and {len(effects) - _MOST} more"] if len(effects) > _MOST else []
        parts.append("\n".join((f"**{_EFFECTS[kind][0]}** ({len(effects)})", *rows)))
    return "\n\n".join(parts if answer["effects"] else (*parts, "No record is touched."))


def _item(effect: Answer) -> str:
    labels, phrases, path = map(escaped, _labels(effect)), map(escaped, _phrases(effect)), effect.get("path", "")
    about, told = ", ".join(labels), "; ".join(phrases)
    where = f"`{path}`" if _PLAIN.fullmatch(path) else escaped(path)
    head = f"- **{escaped(effect['title'])}**" + (f" ({about})" if about else "")
    return head + (f": {told}" if told else "") + (f" – {where}" if path else "")


def escaped(text: str) -> str:
    """Text that reads the same in Markdown and is nothing else: no markup, link, mention, reference or further line."""
    from filemem.record import cut

    line = cut(" ".join(text.replace("\0", " ").split()), _LONG)
    broken = _LINKED.sub(lambda found: found[0] + "\0", line)
    return _MARKS.sub(r"\\\1", broken).replace("\0", "&#8203;")


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--base",
    metavar="REV|DATE",
    help="Only what merging this branch into that would add: a branch, tag or commit, or a date or age as in 2w.",
)
@click.option("--lint", is_flag=True, help="Check each of PATHS by itself, for a commit hook: no Git, no other record.")
@click.option("--drift", is_flag=True, help="Also list governed code that changed but was not rewritten.")
@click.option("--strict", is_flag=True, help="Fail for advice too: rewritten code, what commits say.")
@click.option("--format", "form", type=click.Choice(["text", "github"]), default="text", help="github: annotations.")
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
    """Report problems with the records, one line each: path:line: code message, the worst first.

    With PATHS, only of these files or folders. They are relative to the current folder or, without --lint, to the
    store.

    Exit status: 0 clean (hints do not count, nor does advice without --strict), 1 problems found, more for errors of
    the request as with every command.

    \b
    Examples:
      filemem check
      filemem check --base main --format github
      filemem check --base 1w
      filemem check --lint memory/decisions/2025/11/*.md
    """
    if base is not None and not base.strip():
        raise BadInput("--base is empty", "name the branch that this one left, for example main", field="base")
    if lint and (base is not None or drift):
        option = "--drift" if base is None else "--base"
        raise BadInput(f"--lint checks files by themselves, {option} by what Git knows", "leave one of them out")
    answer = _linted(ctx.obj, paths) if lint else _checked(ctx.obj, paths, base or "", drift)
    problems = answer["problems"]
    if as_json or problems:
        emit(answer, as_json, workflow_commands if form == "github" else _lines)
    levels = [problem["level"] for problem in problems]
    found = [counted(levels.count(level), level) for level in _LEVELS if level in levels]
    verdict = f"{counted(answer['checked'], 'record')} checked: {', '.join(found) or 'clean'}"
    click.echo(verdict, err=bool(problems) or as_json or form != "text")
    stops = any(one["level"] != "hint" and (strict or one["code"] not in _ADVISORY) for one in problems)
    ctx.exit(1 if stops else 0)


def _lines(answer: Answer) -> str:
    """One line a problem, path:line: code message: coloured by how bad it is."""
    rows = (
        f"{one['path']}:{one['line']}: {styled(one['code'], _LEVELS[one['level']])} {one['message']}"
        for one in answer["problems"]
    )
    return "\n".join(row.replace("\n", "\\n").replace("\t", "\\t") for row in rows)


def workflow_commands(answer: Answer) -> str:
    """Problems as workflow commands, which GitHub shows beside the lines they are about."""
    return "\n".join(
        f"::{_GITHUB[one['level']]} file={_property(one['path'])},line={one['line']},"
        f"title={_property('filemem: ' + one['code'])}::{_data(one['message'])}"
        for one in answer["problems"]
    )


def _data(text: str) -> str:
    """Escape what would end the command or begin another: github.com/actions/toolkit, core/src/command.ts."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _checked(project: Project, paths: Sequence[str], base: str, drift: bool) -> Answer:
    """The answer of `check` for a whole store."""
    with project.memory(look=False) as memory:
        return ask("check", project, memory, {"paths": paths, "base": base, "drift": drift})


def _linted(project: Project, paths: Sequence[str]) -> Answer:
    """The same for a few files, each by itself."""
    from filemem.config import load, store_path
    from filemem.files import Files, is_record
    from filemem.repo.paths import find

    top = find(project.folder).work_tree
    files = Files(top, store_path(project.store) if project.store else load(top).store)
    found: list[Problem] = []
    named = [file for path in paths for file in _files_of(project, path, top)]
    for path in named:
        if not files.holds(path):
            hint = "name records only; or set `store` in .filemem.toml, or --store, to the folder they are in"
            raise BadInput(f"{path} is not below {files.store}/", hint, field="paths")
        found += [one._replace(path=path) for one in _problems(files, files.inside(path))]
    found.sort(key=lambda one: one.order)
    count = sum(is_record(os.path.basename(path)) for path in named)
    return {"success": True, "checked": count, "problems": [one._asdict() for one in found]}


def _problems(files: Files, path: str) -> Iterator[Problem]:
    """What is wrong with one file of the store, whether or not it is a record."""
    from filemem.files import is_record, unportable
    from filemem.record import Problem
    from filemem.record.lint import lint, lint_other

    name = os.path.basename(path)
    if skipped := files.skipped(path):
        yield from [skipped] if is_record(name) else []
    else:
        data = files.read(path)
        yield from lint(path, data).problems if is_record(name) else lint_other(path, data)
    if unportable(name):
        yield Problem(path, 1, "file-name", "warning", f"Windows cannot have the name {name}: rename it")


def _files_of(project: Project, path: str, top: Path) -> Iterable[str]:
    """The files that are meant by a path, from the top of the work tree; a folder means all in it."""
    named = project.named(path, top)
    if not os.path.lexists(top / named):
        raise NotFound(f"{path}: no such file", "name files that are there; a hook is given those of the commit")
    if not (top / named).is_dir():
        return (named,)
    return sorted(one.relative_to(top).as_posix() for one in (top / named).rglob("*.md"))
