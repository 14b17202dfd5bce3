"""The command export: write every record as JSON Lines, Markdown or CSV."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from filemem.cli.options import pass_project
from filemem.cli.project import Project
from filemem.dialects.export import render_records
from filemem.dialects.tool import format_count
from filemem.errors import BadInput


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
    with project.memory(look=False) as memory:
        text = render_records(memory.records(private=private), form, memory.get_time())
    if output is None:
        sys.stdout.write(text)
        return
    try:
        (project.working_folder / output).write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{output} cannot be written: {error.strerror}"
        raise BadInput(message, "name another file", "output") from None
    message = str(output)
    if form == "jsonl":
        record_count = text.count("\n")
        message += f": {format_count(record_count, 'record')}"
    click.echo(message, err=True)
