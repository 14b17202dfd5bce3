"""`tool`: makes a command of a native tool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from filemem import config
from filemem.cli import draft, show
from filemem.cli.call import run_tool
from filemem.cli.options import Fields, Option, json_option
from filemem.cli.text import Answer


def tool_command(
    *options: Option, verb: str = "", is_unfinished: Callable[[Answer], object] | None = None
) -> Callable[[Callable[..., Fields]], click.Command]:
    """Make a command of a function that turns options into the arguments of a native tool.

    `verb` is the tool's name, if it is not the function's. `unfinished` tells whether an answer
    leaves something to the user; then the exit status is 1.
    """

    def decorate_command(build_arguments: Callable[..., Fields]) -> click.Command:
        tool_name = verb or build_arguments.__name__

        @click.pass_context
        def run_command(context: click.Context, /, as_json: bool, **fields: Any) -> None:
            renderer = show.render_oneline if fields.pop("oneline", False) else None
            if tool_name == "save" and context.obj.personal:
                _create_personal_memory()
            answer = run_tool(tool_name, context.obj, as_json, build_arguments(**fields), renderer)
            draft.delete_draft(context)
            context.exit(1 if is_unfinished and is_unfinished(answer) else 0)

        decorated: Any = run_command
        for option in reversed((*options, json_option)):
            decorated = option(decorated)
        return click.command(build_arguments.__name__, help=build_arguments.__doc__)(decorated)

    return decorate_command


def _create_personal_memory() -> None:
    """Create the personal memory at its first save."""
    from filemem.agents.init import create_repository

    folder = config.get_personal_folder()
    if create_repository(folder):
        sys.stderr.write(f"filemem: your personal memory is {folder}, a Git repository\n")
