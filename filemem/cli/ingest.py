"""The command import: what another system remembers; it shows what it would write first."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem import config, importers
from filemem.cli.options import json_option, pass_project
from filemem.cli.project import Project, build_progress_bar, print_answer
from filemem.cli.text import Answer, escape_value, join_lines, style_text
from filemem.dialects.tool import format_count
from filemem.errors import BadInput
from filemem.importers import FORMATS, rules
from filemem.query import parse_moment
from filemem.record import format_time

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.ingest import ImportResult, Item

RULES = "rules"  # the format that is only listed
_MAX_SHOWN = 5  # of what is left to the user
_COUNT_LABELS = {
    "new": "new",
    "updated": "updated",
    "same": "as they were",
    "forgotten": "forgotten here",
}


@click.command("import")
@click.argument("form", type=click.Choice([*FORMATS, RULES]), metavar="FORMAT")
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Write without asking; needed without a terminal.")
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
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Maximum number of records, the newest first."
)
@json_option
@pass_project
def import_(project: Project, /, form: str, as_json: bool, **options: Any) -> None:
    """Import memories from another system, with one commit.

    FORMAT is one of mama, claude-mem, mem-claude, powermem, claude-code, basic-memory,
    server-memory, decision-log, memory-bank, serena, beads, adr, filemem. SOURCE is its
    database, file or folder, by default where that system keeps it. The source is only read.
    docs/import.md says what becomes of each. `filemem import rules --dry-run` lists lines of
    CLAUDE.md, AGENTS.md and .cursor/rules that read like decisions, for you to pick from.

    Only what belongs to this repository is taken; of a SOURCE that names no projects, everything.
    What is about a person comes in as private, which is never committed. Run again, it brings what
    is new, updates what has changed there and not here, and names what was edited here.

    Exit status: 0 done, 1 something was edited here or refused, and is left to you.

    \b
    Examples:
      filemem import mama --dry-run
      filemem import claude-mem ~/.claude-mem/claude-mem.db --since 30d --yes
      filemem import rules --dry-run
    """
    if form == RULES:
        _print_rules(project, as_json=as_json, dry_run=options["dry_run"])
        return
    source = _resolve_source(project, form, options["source"])
    should_write = options["yes"] and not options["dry_run"]
    should_confirm = not (options["yes"] or options["dry_run"])
    with project.memory() as memory:
        all_items = importers.read(form, source)
        projects = _select_projects(memory, form, source, all_items, options)
        since = _parse_since(memory, options["since"])
        items, others = importers.select_items(all_items, projects, since, options["limit"])
        ingested = memory.ingest(
            items, form, dry_run=not should_write, progress=build_progress_bar("reading")
        )
        answer = _build_answer(form, source, ingested, others, is_written=should_write)
        if should_confirm and ingested.records:
            _confirm_import(answer)
            ingested = memory.ingest(items, form, progress=build_progress_bar("reading"))
            answer = _build_answer(form, source, ingested, others, is_written=True)
        print_answer(answer, as_json, _render_report)
    click.get_current_context().exit(1 if ingested.edited or ingested.refused else 0)


def _resolve_source(project: Project, form: str, stated_path: Path | None) -> Path:
    """What is read: the stated source, or that in the usual place. Raises BadInput."""
    usual_path = config.find_usual_source(form, project.working_folder)
    source = project.working_folder / stated_path.expanduser() if stated_path else usual_path
    if source is None:
        raise BadInput(
            f"import {form} needs a source: nothing was found in the usual places",
            f"name its folder, file or database: filemem import {form} SOURCE",
            field="source",
        )
    return Path(os.path.normpath(source))


def _parse_since(memory: Memory, date: str | None) -> int | None:
    """The moment that `--since` names, in epoch milliseconds. Raises BadInput."""
    if not date:
        return None
    moment = parse_moment(date, memory.get_time())
    if moment is None:
        message = f"--since {date} is not a date or an age"
        raise BadInput(message, "for example 2025-11-20 or 30d", field="since")
    return moment


def _select_projects(
    memory: Memory, form: str, source: Path, items: Iterable[Item], options: Mapping[str, Any]
) -> frozenset[str] | None:
    """The names of the project whose items are taken; None for all.

    All are taken of a source in this work tree, and of one that the user names if it names no
    project.
    """
    if options["every"]:
        return None
    if options["name"]:
        return frozenset({options["name"].casefold()})
    is_inside = source.resolve().is_relative_to(memory.work_tree.resolve())
    lacks_projects = options["source"] is not None and not any(item.project for item in items)
    takes_all = is_inside or lacks_projects or not FORMATS[form].is_shared
    return None if takes_all else memory.list_project_names()


def _confirm_import(answer: Answer) -> None:
    """Show on a terminal what would be written, and ask. Raises BadInput if there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            "nothing was written: there is no terminal to ask at",
            "--dry-run shows what would be, --yes writes it",
            field="yes",
        )
    click.echo(_render_report(escape_value(answer)), err=True)
    if not click.confirm("Write this?", err=True):
        raise click.exceptions.Exit(1)


def _build_answer(
    form: str, source: Path, ingested: ImportResult, other_items: list[Item], *, is_written: bool
) -> dict[str, Any]:
    """What a run did, or would do, as plain values; empty ones are left out."""
    fields = ingested._asdict() | {
        "refused": [{"id": name, "reason": reason} for name, reason in ingested.refused],
        "samples": [
            {
                "type": item.type,
                "title": item.title,
                "created": format_time(item.created) if item.created else "",
            }
            for item in ingested.samples
        ],
        "other_projects": Counter(item.project or "(none)" for item in other_items),
    }
    counts: Mapping[str, int] = fields.pop("counts")
    details = {name: value for name, value in fields.items() if value}
    return {"format": form, "source": str(source), "written": is_written, **counts, **details}


def _render_report(answer: Answer) -> str:
    """What a run did, or would do, for people."""
    counts = ", ".join(
        f"{answer[name]} {word}" for name, word in _COUNT_LABELS.items() if name in answer
    )
    commit = f"  commit {answer['commit'][:10]}" if "commit" in answer else ""
    records = ", ".join(_iter_record_counts(answer))
    return join_lines(
        f"{answer['format']}: {answer['source']}",
        f"  {counts}{commit}",
        f"  {records}" if records else "",
        *(style_text(f"  {row}", "yellow") for row in _iter_remarks(answer)),
        *([] if answer["written"] else _format_samples(answer)),
        "" if answer["written"] or not records else "  nothing is written yet",
    )


def _iter_record_counts(answer: Answer) -> Iterator[str]:
    """How many records there are of each type, how many are private, and how large they are."""
    records = answer.get("records", {})
    yield from (format_count(count, kind) for kind, count in records.items())
    if answer.get("private"):
        yield f"{answer['private']} of them private and never committed"
    if records or answer.get("private"):
        yield f"{answer['bytes']:,} bytes"


def _iter_remarks(answer: Answer) -> Iterator[str]:
    """What is left to the user, and what was not taken."""
    leftovers = [f"{item['id']}: {item['reason']}" for item in answer.get("refused", ())]
    leftovers += [f"edited here, so it is kept: {path}" for path in answer.get("edited", ())]
    leftovers += [
        f"forked (filemem resolve ends that): {topic}" for topic in answer.get("forked", ())
    ]
    yield from leftovers[:_MAX_SHOWN]
    if len(leftovers) > _MAX_SHOWN:
        yield f"and {len(leftovers) - _MAX_SHOWN} more: --json lists them"
    project_counts = Counter[str](answer.get("other_projects", {}))
    if project_counts:
        names = ", ".join(
            f"{name} ({count})" for name, count in project_counts.most_common(_MAX_SHOWN)
        )
        yield (
            f"{project_counts.total()} of other projects: {names}; --project or --all-projects takes them"
        )
    if answer.get("note"):
        yield answer["note"]


def _format_samples(answer: Answer) -> list[str]:
    return [
        f"    {item['created'][:10]:10}  {item['type']}  {item['title']}"
        for item in answer.get("samples", ())
    ]


def _print_rules(project: Project, *, as_json: bool, dry_run: bool) -> None:
    """List the lines that read like decisions. Raises BadInput without --dry-run."""
    if not dry_run:
        raise BadInput(
            "rules are only listed",
            "--dry-run lists them; save those you pick: filemem save decision",
        )
    with project.memory(look=False) as memory:
        rows = [
            {"path": path, "line": line, "text": text}
            for path, line, text in rules.read(memory.work_tree)
        ]
    print_answer({"count": len(rows), "rules": rows}, as_json, _render_rules)


def _render_rules(answer: Answer) -> str:
    """Lines of files for people, each with its place."""
    rows = (
        f"{row['path']}:{row['line']}: {' '.join(row['text'].split())}" for row in answer["rules"]
    )
    return join_lines(*rows) or "no line reads like a decision"
