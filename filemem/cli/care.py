"""Commands that set up and look after a store: init, index, sync, status."""

from __future__ import annotations

from typing import Any

import click

from filemem.cli.options import Fields, as_json, pass_project, tool
from filemem.cli.project import Project, emit


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--own-branch",
    metavar="[NAME]",
    is_flag=False,
    flag_value="filemem",
    help="Keep the records on a branch of their own (default name: filemem).",
)
@as_json
@pass_project
def init(project: Project, as_json: bool, dry_run: bool, own_branch: str | None) -> None:
    """Set up a project.

    Writes memory/README.md, memory/private/.gitignore, an entry in .mcp.json and a block in AGENTS.md; .filemem.toml if
    the records are in another folder or on a branch of their own. Creates a Git repository if needed. Merges with what
    is there, never overwrites; may be run again. Nothing is staged or committed on this branch.

    Records travel with the code and its pull requests. With --own-branch they are on a branch that has nothing else,
    and memory/ is a work tree of it: every branch and every clone sees one memory, and `filemem sync` shares it. In a
    clone of such a project, plain `filemem init` attaches it.

    \b
    Examples:
      filemem init --dry-run
      filemem init --own-branch
    """
    from filemem import config
    from filemem.cli import setup

    answer = setup.run(
        project.folder,
        project.store,
        dry_run=dry_run,
        branch="" if own_branch is None else config.branch_name(own_branch),
    )
    emit(answer, as_json, setup.shown)


@tool(
    click.option("--rebuild", is_flag=True, help="Build it anew from the files."),
    left=lambda answer: answer.get("degraded"),
)
def index(**options: Any) -> Fields:
    """Update the search index, or rebuild it.

    Exit status: 0 done, 1 not all records can be found by meaning; the answer says why.

    \b
    Example:
      filemem index --rebuild
    """
    return options


@tool(left=lambda answer: answer["left"])
def sync() -> Fields:
    """Sync the memory with its remote: fetch, merge record by record, push.

    Pushes only if every commit to push changes the store alone; otherwise names the first other commit and leaves the
    push to you. Never rewrites a commit, never stashes, never forces: what stands in the way is reported, with the
    command that helps.

    Exit status: 0 shared, 1 something is left to you, 5 both sides changed the same lines.

    \b
    Example:
      filemem sync
    """
    return {}


@tool()
def status() -> Fields:
    """Show counts, the index, and what is not committed.

    \b
    Example:
      filemem status
    """
    return {}
