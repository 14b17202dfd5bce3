"""The command import: it takes the memories of another system, and shows them before it writes."""

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
    from filemem.record import Record

RULES = "rules"  # the one format that can only be listed
_MAX_SHOWN = 5  # records or projects that the report names
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
    is_confirmed = options["yes"] and not options["dry_run"]
    may_ask = not (options["yes"] or options["dry_run"])
    with project.memory() as memory:
        items, other_items = _read_items(memory, form, source, options)
        progress = build_progress_bar("reading")
        result = memory.ingest(items, form, dry_run=not is_confirmed, progress=progress)
        answer = _build_answer(form, source, result, other_items, is_written=is_confirmed)
        if may_ask and result.records:
            _confirm_import(answer)
            result = memory.ingest(items, form, progress=build_progress_bar("reading"))
            answer = _build_answer(form, source, result, other_items, is_written=True)
        print_answer(answer, as_json, _render_report)
    if result.edited or result.refused:
        click.get_current_context().exit(1)


def _read_items(
    memory: Memory, form: str, source: Path, options: Mapping[str, Any]
) -> tuple[list[Item], list[Item]]:
    """Read the items to import, and those of other projects. Raises BadInput."""
    items = importers.read(form, source)
    projects = _select_projects(memory, form, source, items, options)
    since = _parse_since(memory, options["since"])
    return importers.select_items(items, projects, since, options["limit"])


def _resolve_source(project: Project, form: str, stated_path: Path | None) -> Path:
    """Return the source that the user named, or the one in the usual place. Raises BadInput."""
    source = config.find_usual_source(form, project.working_folder)
    if stated_path:
        source = project.working_folder / stated_path.expanduser()
    if source is None:
        raise BadInput(
            f"import {form} needs a source: nothing was found in the usual places",
            f"name its folder, file or database: filemem import {form} SOURCE",
            field="source",
        )
    return Path(os.path.normpath(source))


def _parse_since(memory: Memory, date: str | None) -> int | None:
    """Return the moment that `--since` names, in epoch milliseconds; None without the option.

    Raises BadInput.
    """
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
    """Return the names of the project to import; None imports every project of the source.

    A source within this work tree is imported whole, and so is one that the user names if its
    items name no project.
    """
    if options["every"]:
        return None
    if options["name"]:
        return frozenset({options["name"].casefold()})
    if source.resolve().is_relative_to(memory.work_tree.resolve()):
        return None
    if options["source"] is not None and not any(item.project for item in items):
        return None
    if not FORMATS[form].is_shared:
        return None
    return memory.list_project_names()


def _confirm_import(answer: Answer) -> None:
    """Show what would be written, and ask. Raises BadInput without a terminal, Exit on "no"."""
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
    form: str, source: Path, result: ImportResult, other_items: Iterable[Item], *, is_written: bool
) -> dict[str, Any]:
    """Return what an import did, or would do, as plain values; empty ones are left out."""
    details = result._asdict()
    counts = details.pop("counts")
    refused = result.refused
    details["refused"] = [{"id": name, "reason": reason} for name, reason in refused]
    details["samples"] = [_build_sample(record) for record in result.samples]
    projects = [item.project or "(none)" for item in other_items]
    details["other_projects"] = Counter(projects)  # project -> number of items
    answer: dict[str, Any] = {
        "format": form,
        "source": str(source),
        "written": is_written,
    }
    answer |= counts
    answer |= {name: value for name, value in details.items() if value}
    return answer


def _build_sample(record: Record) -> dict[str, str]:
    created = ""
    if record.created:
        created = format_time(record.created)
    return {"type": record.type, "title": record.title, "created": created}


def _render_report(answer: Answer) -> str:
    """Render what an import did, or would do."""
    rows = [f"{answer['format']}: {answer['source']}", _format_counts(answer)]
    record_counts = ", ".join(_iter_record_counts(answer))
    if record_counts:
        rows.append(f"  {record_counts}")
    rows += [style_text(f"  {remark}", "yellow") for remark in _iter_remarks(answer)]
    if not answer["written"]:
        for sample in answer.get("samples", ()):
            rows.append(f"    {sample['created'][:10]:10}  {sample['type']}  {sample['title']}")
        if record_counts:
            rows.append("  nothing is written yet")
    return join_lines(rows)


def _format_counts(answer: Answer) -> str:
    counts: list[str] = []
    for name, label in _COUNT_LABELS.items():
        if name in answer:
            counts.append(f"{answer[name]} {label}")
    row = f"  {', '.join(counts)}"
    if "commit" in answer:
        row += f"  commit {answer['commit'][:10]}"
    return row


def _iter_record_counts(answer: Answer) -> Iterator[str]:
    """Yield how many records there are of each type, how many are private, and their size."""
    records = answer.get("records", {})
    for kind, count in records.items():
        yield format_count(count, kind)
    private_count = answer.get("private")
    if private_count:
        yield f"{private_count} of them private and never committed"
    if records or private_count:
        yield f"{answer['bytes']:,} bytes"


def _iter_remarks(answer: Answer) -> Iterator[str]:
    """Yield what the user must decide, and what was not taken."""
    refused = answer.get("refused", ())
    edited_paths = answer.get("edited", ())
    forked_topics = answer.get("forked", ())
    leftovers = [f"{item['id']}: {item['reason']}" for item in refused]
    leftovers += [f"edited here, so it is kept: {path}" for path in edited_paths]
    leftovers += [f"forked (filemem resolve ends that): {topic}" for topic in forked_topics]
    yield from leftovers[:_MAX_SHOWN]
    hidden_count = len(leftovers) - _MAX_SHOWN
    if hidden_count > 0:
        yield f"and {hidden_count} more: --json lists them"
    project_counts = answer.get("other_projects")
    if project_counts:
        yield _format_other_projects(Counter(project_counts))
    note = answer.get("note")
    if note:
        yield note


def _format_other_projects(counts: Counter[str]) -> str:
    """Format how many items belong to other projects, and the largest of these projects."""
    largest = [f"{name} ({count})" for name, count in counts.most_common(_MAX_SHOWN)]
    names = ", ".join(largest)
    takes_them = "--project or --all-projects takes them"
    return f"{counts.total()} of other projects: {names}; {takes_them}"


def _print_rules(project: Project, *, as_json: bool, dry_run: bool) -> None:
    """List the lines that read like decisions. Raises BadInput without --dry-run."""
    if not dry_run:
        raise BadInput(
            "rules are only listed",
            "--dry-run lists them; save those you pick: filemem save decision",
        )
    rows: list[Answer] = []
    with project.memory(look=False) as memory:
        for path, line, text in rules.read(memory.work_tree):
            rows.append({"path": path, "line": line, "text": text})
    print_answer({"count": len(rows), "rules": rows}, as_json, _render_rules)


def _render_rules(answer: Answer) -> str:
    """Render lines of files, each with its place."""
    rows: list[str] = []
    for rule in answer["rules"]:
        text = " ".join(rule["text"].split())
        rows.append(f"{rule['path']}:{rule['line']}: {text}")
    return join_lines(rows) or "no line reads like a decision"
