"""Commands that move memories between systems: import, which shows what it would write before it writes, and export."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Answer, Project, bar, emit
from filemem.cli.show import counted, rows_of, styled
from filemem.errors import BadInput
from filemem.importers import FORMATS

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.ingest import Ingested, Item

RULES = "rules"  # the format that is only listed
_SHOWN = 5  # of what is left to the user


@click.command("import")
@click.argument("form", type=click.Choice([*FORMATS, RULES]), metavar="FORMAT")
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Write without a question; needed where there is no terminal.")
@click.option("--since", metavar="DATE", help="Only what was made since this date, or within this age, such as 30d.")
@click.option("--project", "name", help="Only what belongs to the project of this name.  [default: this repository]")
@click.option("--all-projects", "every", is_flag=True, help="Also what belongs to other projects, or names none.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only so many, the newest.")
@as_json
@pass_project
def import_(project: Project, /, form: str, as_json: bool, **given: Any) -> None:
    """Bring in what another system remembers, by one commit.

    FORMAT is one of mama, claude-mem, mem-claude, powermem, claude-code, basic-memory, server-memory, adr, filemem;
    SOURCE its database, file or folder, by default where that system keeps it. The source is only read. docs/import.md
    has what becomes of each. `filemem import rules --dry-run` lists lines of CLAUDE.md, AGENTS.md and .cursor/rules
    that read like decisions, for you to pick from.

    Only what belongs to this repository is taken. What is about a person comes in as private, which is never committed.
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
    from filemem import importers

    with project.memory() as memory:
        source = _source(project, form, given["source"])
        found, others = importers.chosen(importers.read(form, source), *_restricted(memory, form, source, given))
        first = given["dry_run"] or not given["yes"]
        done = memory.ingest(found, form, dry_run=first, progress=bar("reading"))
        answer = _answer(form, source, done, others, written=not first)
        if first and not given["dry_run"] and any(done.records.values()):
            _confirm(answer)
            done = memory.ingest(found, form, progress=bar("writing"))
            answer = _answer(form, source, done, others, written=True)
        emit(answer, as_json, _shown)
    click.get_current_context().exit(1 if done.edited or done.refused else 0)


def _source(project: Project, form: str, given: Path | None) -> Path:
    """What to read. Raises BadInput: nothing is named, and nothing is where it usually is."""
    from filemem import config

    if given is not None:
        return Path(os.path.normpath(project.here / given.expanduser()))
    if (usual := config.usual_source(form, project.here)) is None:
        raise BadInput(f"no memory of {form} was found", f"name it: filemem import {form} SOURCE", field="source")
    return usual


def _restricted(
    memory: Memory,
    form: str,
    source: Path,
    given: Mapping[str, Any],
) -> tuple[frozenset[str] | None, int | None, int | None]:
    """The arguments of `importers.chosen`. What lies in this work tree belongs to it. Raises BadInput."""
    from filemem.query import parse_moment

    since = parse_moment(given["since"], memory.now()) if given["since"] else None
    if given["since"] and since is None:
        raise BadInput(f"--since {given['since']} is no date or age", "for example 2025-11-20 or 30d", field="since")
    if given["name"]:
        return frozenset({given["name"].casefold()}), since, given["limit"]
    own = not FORMATS[form].shared or source.resolve().is_relative_to(memory.work_tree.resolve())
    return None if given["every"] or own else memory.project_names(), since, given["limit"]


def _confirm(answer: Answer) -> None:
    """Show on a terminal what would be written, and ask. Raises BadInput where there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            "nothing was written: there is no terminal to ask at", "--dry-run shows it, --yes writes it", "yes"
        )
    click.echo(_shown(answer), err=True)
    if not click.confirm("Write this?", err=True):
        raise click.exceptions.Exit(1)


def _answer(form: str, source: Path, done: Ingested, others: list[Item], *, written: bool) -> dict[str, Any]:
    """What a run did, or would do, as plain values."""
    from filemem.record import format_time

    projects = Counter(item.project or "(none)" for item in others)
    answer = done._asdict() | {
        "records": {kind: count for kind, count in done.records.items() if count},
        "refused": [{"id": one, "reason": why} for one, why in done.refused],
        "samples": [
            {"type": one.type, "title": one.title, "path": one.path}
            | ({"created": format_time(one.created)} if one.created is not None else {})
            for one in done.samples
        ],
        "other_projects": dict(projects.most_common(_SHOWN)) | ({"left": len(others)} if others else {}),
    }
    kept = {name: value for name, value in answer.items() if value or name in ("new", "updated", "same")}
    return {"format": form, "source": str(source), "written": written, **kept}


def _shown(answer: Answer) -> str:
    """What a run did, or would do, for people."""
    counts = ", ".join(counted(count, kind) for kind, count in answer.get("records", {}).items())
    done = [f"{answer['new']} new", f"{answer['updated']} updated", f"{answer['same']} as they were"]
    done += [f"{answer['forgotten']} forgotten here"] if "forgotten" in answer else []
    private = f", {answer['private']} of them private and never committed" if "private" in answer else ""
    commit = f"  commit {answer['commit'][:10]}" if "commit" in answer else ""
    left, others = list[str](), dict(answer.get("other_projects", {}))
    if count := others.pop("left", 0):
        named = ", ".join(f"{name} ({each})" for name, each in others.items())
        left.append(
            f"{count} of other projects, or of none, are left: {named}; --project NAME or --all-projects takes them"
        )
    for name, told in (("edited", "edited here, so it stays"), ("refused", "refused")):
        found = [f"{one['id']}: {one['reason']}" if isinstance(one, dict) else one for one in answer.get(name, ())]
        left += [f"{told}: {one}" for one in found[:_SHOWN]]
        left += [f"{told}: and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)
    left += [f"topic {one} is forked: filemem resolve ends that" for one in answer.get("forked", ())[:_SHOWN]]
    left += [answer["note"]] if "note" in answer else []
    samples = [
        f"    {one.get('created', '')[:10]:10}  {one['type']}  {one['title']}" for one in answer.get("samples", ())
    ]
    return rows_of(
        f"{answer['format']}: {answer['source']}",
        f"  {', '.join(done)}{commit}",
        f"  {counts}{private}; {answer['size']:,} bytes" if counts else "",
        *(styled(f"  {one}", "yellow") for one in left),
        *(["  for example:", *samples] if samples and not answer["written"] else []),
        "" if answer["written"] or not counts else "  nothing is written yet",
    )


def _rules(project: Project, *, as_json: bool, dry_run: bool) -> None:
    """List the lines that read like decisions. Raises BadInput without --dry-run."""
    from filemem.importers.rules import read
    from filemem.repo import Repo

    if not dry_run:
        raise BadInput("rules are only listed", "--dry-run lists them; save those you pick: filemem save decision")
    repo = Repo.discover(project.folder)
    found = [{"path": one.path, "line": one.line, "text": one.text} for one in read(repo.work_tree)]
    repo.close()
    told = "\n".join(f"{one['path']}:{one['line']}: {one['text']}" for one in found)
    emit({"count": len(found), "rules": found}, as_json, lambda _: told or "no line reads like a decision")


@click.command()
@click.option("--format", "form", type=click.Choice(["jsonl", "markdown", "csv"]), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write this file.  [default: standard output]")
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
        raise BadInput(f"{output} cannot be written: {error.strerror}", "name another file", "output") from None
    click.echo(f"{output}: {counted(text.count(chr(10)), 'record')}" if form == "jsonl" else str(output), err=True)


globals()["import"] = import_
