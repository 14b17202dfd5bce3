"""Make a command from a native tool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from filemem import config
from filemem.cli import draft, show
from filemem.cli.call import run_tool
from filemem.cli.options import Fields, Option, json_option


def tool_command(
    *options: Option, verb: str = "", unfinished_field: str = ""
) -> Callable[[Callable[..., Fields]], click.Command]:
    """Make a command from a function that turns options into the arguments of a native tool.

    `verb` is the tool's name, if the function has another one. If the answer has the field
    `unfinished_field`, something is left to the user and the exit status is 1.
    """

    def decorate_command(build_arguments: Callable[..., Fields]) -> click.Command:
        tool_name = verb or build_arguments.__name__

        @click.pass_context
        def run_command(context: click.Context, /, as_json: bool, **fields: Any) -> None:
            project = context.obj
            renderer = show.render_oneline if fields.pop("oneline", False) else None
            if tool_name == "save" and project.personal:
                _create_personal_memory()
            arguments = build_arguments(**fields)
            answer = run_tool(tool_name, project, as_json, arguments, renderer)
            draft.delete_draft(context)
            if answer.get(unfinished_field):
                context.exit(1)

        decorated: Any = json_option(run_command)
        for option in reversed(options):  # as decorators: the last one is applied first
            decorated = option(decorated)
        make_command = click.command(build_arguments.__name__, help=build_arguments.__doc__)
        return make_command(decorated)

    return decorate_command


def _create_personal_memory() -> None:
    """Create the personal memory at its first save."""
    from filemem.agents.init import create_repository

    folder = config.get_personal_folder()
    if create_repository(folder):
        sys.stderr.write(f"filemem: your personal memory is {folder}, a Git repository\n")
