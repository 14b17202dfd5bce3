"""Commands that move memories between systems: import, which shows what it would write before it writes, and export."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Answer, Project, bar, emit
from filemem.cli.show import plain, rows_of, styled
from filemem.dialects.present import counted
from filemem.errors import BadInput
from filemem.importers import FORMATS

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.ingest import Ingested, Item

RULES = "rules"  # the format that is only listed
_SHOWN = 5  # of what is left to the user
_COUNTS = {
    "new": "new",
    "updated": "updated",
    "same": "as they were",
    "forgotten": "forgotten here",
}


@click.command("import")
@click.argument("form", type=click.Choice([*FORMATS, RULES]), metavar="FORMAT")
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--yes", is_flag=True, help="Write without a question; needed where there is no terminal."
)
@click.option(
    "--since",
    metavar="DATE",
    help="Only what was made since this date, or within this age, such as 30d.",
)
@click.option(
    "--project",
    "name",
    help="Only what belongs to the project of this name.  [default: this repository]",
)
@click.option(
    "--all-projects",
    "every",
    is_flag=True,
    help="Also what belongs to other projects, or names none where others do.",
)
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only so many, the newest.")
@as_json
@pass_project
def import_(project: Project, /, form: str, as_json: bool, **given: Any) -> None:
    """Import memories from another system, by one commit.

    FORMAT is one of mama, claude-mem, mem-claude, powermem, claude-code, basic-memory,
    server-memory, decision-log, memory-bank, serena, beads, adr, filemem. SOURCE is its
    database, file or folder, by default where that system keeps it. The source is only read.
    docs/import.md says what becomes of each. `filemem import rules --dry-run` lists lines of
    CLAUDE.md, AGENTS.md and .cursor/rules that read like decisions, for you to pick from.

    Only what belongs to this repository is taken; of a SOURCE that names no projects, everything. What is about a
    person comes in as private, which is never committed.
    Run again, it brings what is new, updates what has changed there and not here, and names what was edited here.

    Exit status: 0 done, 1 something was edited here or refused, and is left to you.

    \b
    Examples:
      filemem import mama --dry-run
      filemem import claude-mem ~/.claude-mem/claude-mem.db --since 30d --yes
      filemem import rules --dry-run
    """
    if form == RULES:
        _rules(project, as_json=as_json, dry_run=given["dry_run"])
        return
    from filemem import config, importers

    stated: Path | None = given["source"]
    source = (
        project.here / stated.expanduser() if stated else config.usual_source(form, project.here)
    )
    if source is None:
        raise BadInput(
            f"import {form} needs a source: nothing of it is in a usual place",
            f"name its folder, file or database: filemem import {form} SOURCE",
            field="source",
        )
    source = Path(os.path.normpath(source))
    with project.memory() as memory:
        every = importers.read(form, source)
        items, others = importers.chosen(
            every,
            _projects(memory, form, source, every, given),
            _since(memory, given),
            given["limit"],
        )
        ask = not (given["dry_run"] or given["yes"])
        done = memory.ingest(items, form, dry_run=ask or given["dry_run"], progress=bar("reading"))
        answer = _answer(form, source, done, others, written=given["yes"] and not given["dry_run"])
        if ask and done.records:
            _confirm(answer)
            done = memory.ingest(items, form, progress=bar("reading"))
            answer = _answer(form, source, done, others, written=True)
        emit(answer, as_json, _shown)
    click.get_current_context().exit(1 if done.edited or done.refused else 0)


def _since(memory: Memory, given: Mapping[str, Any]) -> int | None:
    """The moment that `--since` names, in epoch milliseconds. Raises BadInput."""
    from filemem.query import parse_moment

    since = parse_moment(given["since"], memory.now()) if given["since"] else None
    if given["since"] and since is None:
        raise BadInput(
            f"--since {given['since']} is no date or age",
            "for example 2025-11-20 or 30d",
            field="since",
        )
    return since


def _projects(
    memory: Memory, form: str, source: Path, items: Iterable[Item], given: Mapping[str, Any]
) -> frozenset[str] | None:
    """The names of the project whose items are taken; None for all.

    All are taken of what lies in this work tree, and of a source that the user names and that names no project.
    """
    if given["every"]:
        return None
    if given["name"]:
        return frozenset({given["name"].casefold()})
    inside = source.resolve().is_relative_to(memory.work_tree.resolve())
    named = given["source"] is not None and not any(item.project for item in items)
    own = inside or named or not FORMATS[form].shared
    return None if own else memory.project_names()


def _confirm(answer: Answer) -> None:
    """Show on a terminal what would be written, and ask. Raises BadInput where there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        told = "nothing was written: there is no terminal to ask at"
        raise BadInput(told, "--dry-run shows what would be, --yes writes it", field="yes")
    click.echo(_shown(plain(answer)), err=True)
    if not click.confirm("Write this?", err=True):
        raise click.exceptions.Exit(1)


def _answer(
    form: str, source: Path, done: Ingested, others: list[Item], *, written: bool
) -> dict[str, Any]:
    """What a run did, or would do, as plain values."""
    from filemem.record import format_time

    answer = done._asdict() | {
        "refused": [{"id": one, "reason": why} for one, why in done.refused],
        "samples": [
            {
                "type": one.type,
                "title": one.title,
                "created": format_time(one.created) if one.created else "",
            }
            for one in done.samples
        ],
        "other_projects": Counter(item.project or "(none)" for item in others),
    }
    counts: Mapping[str, int] = answer.pop("counts")
    said = {name: value for name, value in answer.items() if value}
    return {"format": form, "source": str(source), "written": written, **counts, **said}


def _shown(answer: Answer) -> str:
    """What a run did, or would do, for people."""
    written, others = answer["written"], Counter[str](answer.get("other_projects", {}))
    done = [f"{answer[name]} {word}" for name, word in _COUNTS.items() if name in answer]
    kinds = [counted(count, kind) for kind, count in answer.get("records", {}).items()]
    kinds += (
        [f"{answer['private']} of them private and never committed"]
        if answer.get("private")
        else []
    )
    kinds += [f"{answer['bytes']:,} bytes"] if kinds else []
    left = [f"{one['id']}: {one['reason']}" for one in answer.get("refused", ())]
    left += [f"edited here, so it stays: {path}" for path in answer.get("edited", ())]
    left += [f"forked, filemem resolve ends that: {topic}" for topic in answer.get("forked", ())]
    more = [f"and {len(left) - _SHOWN} more: --json lists them"] * (len(left) > _SHOWN)
    named = ", ".join(f"{name} ({count})" for name, count in others.most_common(_SHOWN))
    more += (
        [f"{others.total()} of other projects: {named}; --project or --all-projects takes them"]
        if others
        else []
    )
    samples = [
        f"    {one['created'][:10]:10}  {one['type']}  {one['title']}"
        for one in answer.get("samples", ())
    ]
    return rows_of(
        f"{answer['format']}: {answer['source']}",
        f"  {', '.join(done)}"
        + (f"  commit {answer['commit'][:10]}" if "commit" in answer else ""),
        f"  {', '.join(kinds)}" if kinds else "",
        *(
            styled(f"  {one}", "yellow")
            for one in (*left[:_SHOWN], *more, *filter(None, [answer.get("note")]))
        ),
        *([] if written else samples),
        "" if written or not kinds else "  nothing is written yet",
    )


def _rules(project: Project, *, as_json: bool, dry_run: bool) -> None:
    """List the lines that read like decisions. Raises BadInput without --dry-run."""
    from filemem.importers.rules import read

    if not dry_run:
        raise BadInput(
            "rules are only listed",
            "--dry-run lists them; save those you pick: filemem save decision",
        )
    with project.memory(look=False) as memory:
        found = [
            {"path": path, "line": line, "text": text}
            for path, line, text in read(memory.work_tree)
        ]
    emit({"count": len(found), "rules": found}, as_json, _listed)


def _listed(answer: Answer) -> str:
    """Lines of files for people, each with its place."""
    told = [
        f"{one['path']}:{one['line']}: {' '.join(one['text'].split())}" for one in answer["rules"]
    ]
    return rows_of(*told) or "no line reads like a decision"


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown", "csv"]),
    default="jsonl",
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write this file.  [default: standard output]",
)
@click.option("--private", is_flag=True, help="Private records too, which are never committed.")
@pass_project
def export(project: Project, form: str, output: Path | None, *, private: bool) -> None:
    """Write every record: JSON Lines with all fields, one Markdown text, or a CSV table.

    filemem import filemem FILE reads the JSON Lines again.

    \b
    Examples:
      filemem export -o memory.jsonl
      filemem export --format csv -o memory.csv
    """
    from filemem.dialects.export import exported

    with project.memory(look=False) as memory:
        text = exported(memory.records(private=private), form, memory.now())
    if output is None:
        sys.stdout.write(text)
        return
    try:
        (project.here / output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{output} cannot be written: {error.strerror}", "name another file", "output"
        ) from None
    click.echo(
        f"{output}: {counted(text.count(chr(10)), 'record')}" if form == "jsonl" else str(output),
        err=True,
    )


globals()["import"] = import_
