"""Commands that maintain a memory: index, sync, status; and the completion script."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from filemem.cli import call
from filemem.cli.command import tool_command
from filemem.cli.group import COMPLETE
from filemem.cli.options import Fields, json_option, pass_project
from filemem.cli.project import Project


@tool_command(
    click.option("--rebuild", is_flag=True, help="Build it again from the files."),
    unfinished_field="degraded",
)
def index(**options: Any) -> Fields:
    """Update the search index, or rebuild it.

    Exit status: 0 done, 1 not all records can be found by meaning; the output says why.

    \b
    Example:
      filemem index --rebuild
    """
    return options


@tool_command(unfinished_field="left")
def sync() -> Fields:
    """Sync the memory with its remote: fetch, merge record by record, push.

    Made for a memory on a branch of its own. On a branch that has code too it fetches and merges,
    but pushes only if every commit to push changes the store alone; otherwise it names the first
    other commit and leaves the push to you. Never rewrites a commit, never stashes, never forces:
    what stands in the way is reported, with the command that helps.

    Exit status: 0 shared, 1 something is left to you, 5 both sides changed the same lines.

    \b
    Example:
      filemem sync
    """
    return {}


@click.command()
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show also the index, its model, and each record that is only counted.",
)
@json_option
@pass_project
def status(project: Project, as_json: bool, verbose: bool) -> None:
    """Show the state of the memory and what to do: forks, broken headers, uncommitted or unpushed
    records.

    \b
    Example:
      filemem status
    """
    call.run_status(project, as_json, verbose=verbose)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the shell completion script, for commands, options, topics, ids and files.

    \b
    Examples:
      filemem completion bash > ~/.local/share/bash-completion/completions/filemem
      filemem completion zsh > ~/.zfunc/_filemem
      filemem completion fish > ~/.config/fish/completions/filemem.fish
    """
    shell_class = get_completion_class(shell)
    if shell_class is not None:
        command = context.find_root().command
        completer = shell_class(command, ctx_args={}, prog_name="filemem", complete_var=COMPLETE)
        click.echo(completer.source(), nl=False)
