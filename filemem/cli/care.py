"""Commands that set up and look after a store: init, index, watch, sync, status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from filemem.cli import Project, as_json, emit, pass_project, perform, progress

if TYPE_CHECKING:
    pass


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
    """Set a project up, or show how.

    Writes memory/README.md, memory/private/.gitignore, an entry in .mcp.json and a block in AGENTS.md; .filemem.toml
    where the records stand elsewhere or on a branch of their own. Makes a Git repository where there is none. Merges
    with what is there, never overwrites; may be run again. Nothing is staged or committed on this branch.

    Records travel with the code and its pull requests. With --own-branch they stand on a branch that has nothing else,
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
        report=progress,
    )
    emit(answer, as_json, setup.shown)


@click.command()
@click.option("--rebuild", is_flag=True, help="Build it anew from the files.")
@as_json
@click.pass_context
def index(ctx: click.Context, as_json: bool, rebuild: bool) -> None:
    """Bring the search index in step with the files.

    Where another embedding model is configured than the index was made with, all records are embedded anew. One that
    cannot be had leaves the vectors as they are.

    Exit status: 0 done, 1 not all can be found by meaning; the answer says why.

    \b
    Example:
      filemem index --rebuild
    """
    answer = perform("index", ctx.obj, as_json, {"rebuild": rebuild})
    ctx.exit(1 if answer.get("degraded") else 0)


@click.command()
@pass_project
def watch(project: Project) -> None:
    """Keep the index in step with the files. Until interrupted; `serve` does this by itself.

    \b
    Example:
      filemem watch
    """
    from filemem.cli.show import counted
    from filemem.watch import Watcher

    tell = lambda changed: click.echo(f"indexed {counted(changed, 'file')}", err=True)  # noqa: E731
    with project.memory() as memory, Watcher(memory, tell) as watcher:
        click.echo(f"watching {memory.folder} (Ctrl-C ends it)", err=True)
        watcher.wait()


@click.command()
@as_json
@click.pass_context
def sync(ctx: click.Context, as_json: bool) -> None:
    """Share the memory: fetch, merge record by record, push.

    Pushes only if all that is to be pushed touches nothing but the store; otherwise names the commit that does not,
    and leaves the pushing to you. Never rewrites a commit, never stashes, never forces: what stands in the way is
    reported, with the command that helps.

    Exit status: 0 shared, 1 something is left to you, 5 both sides changed the same lines.

    \b
    Example:
      filemem sync
    """
    answer = perform("sync", ctx.obj, as_json, {}, tell=progress)
    ctx.exit(1 if answer["left"] else 0)


@click.command()
@as_json
@pass_project
def status(project: Project, as_json: bool) -> None:
    """Show how the memory stands. Counts, index, what waits to be committed.

    \b
    Example:
      filemem status
    """
    perform("status", project, as_json, {}, _standing)


_STATUS = ("note", "trouble", "incomplete", "left", "stray", "settings", "degraded")  # what is said of a memory besides


def _standing(answer: Mapping[str, Any]) -> str:
    """How the memory stands, in words."""
    from filemem.cli.show import counted, rows_of

    counts, index, waiting = answer["records"], answer["index"], answer["pending"]
    rows = [
        f"{answer['store']}: " + ", ".join(counted(counts[kind], kind) for kind in counts),
        f"topics: {answer['topics']}" + (f", {answer['forked']} forked" if answer["forked"] else ""),
        f"index: {counted(index['records'], 'record')}, model {index['model'] or 'none yet'}: {index['state']}",
        f"  {index['folder']}",
    ]
    rows += [f"gone, and no commit says so: {one['path']} ({one['restore']})" for one in answer.get("gone", ())]
    rows += [f"not committed yet: {one['path']}, {one['age']} ago: {one['reason']}" for one in waiting]
    rows += ["  what waits is committed by the first command, or by a server, once that is over"] if waiting else []
    rows += [f"not committed: {counted(answer['uncommitted'], 'record')}"] if answer.get("uncommitted") else []
    rows += (
        [f"not shared yet: {counted(answer['unshared'], 'commit')} (filemem sync)"] if answer.get("unshared") else []
    )
    return rows_of(
        *rows, *(click.style(f"  {name}: {answer[name]}", fg="yellow") for name in _STATUS if answer.get(name))
    )
