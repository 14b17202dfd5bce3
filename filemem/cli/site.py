"""The command site: write the page as static files."""

from __future__ import annotations

from pathlib import Path

import click

from filemem.cli.options import json_option, pass_project
from filemem.cli.project import Project, print_text
from filemem.web.export import write_site


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--base", default="", metavar="URL", help="Its address: adds sitemap.xml and feed.xml."
)
@json_option
@pass_project
def site(project: Project, /, as_json: bool, out: Path, base: str) -> None:
    """Write the memory as a web site of static files: the page, and one for each record that needs
    no script.

    It opens by a double click, and any host of static files can serve it. Only public records are
    written, and the same memory gives the same files. OUT must be empty, or a site that was written
    here before.

    \b
    Examples:
      filemem site public
      filemem site public --base https://example.org/decisions/
    """
    with project.memory() as memory:
        folder = project.working_folder / out
        count = write_site(memory, folder, base)
    answer = {"success": True, "folder": str(folder), "records": count}
    print_text(answer, as_json, f"{count} records: {folder}/index.html")
