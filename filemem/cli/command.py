"""`tool`: makes a command of a native tool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from filemem import config
from filemem.cli import draft, show
from filemem.cli.call import perform
from filemem.cli.options import Fields, Option, as_json
from filemem.cli.text import Answer


def tool(
    *options: Option, verb: str = "", unfinished: Callable[[Answer], object] | None = None
) -> Callable[[Callable[..., Fields]], click.Command]:
    """Make a command of a function that turns options into the arguments of a native tool.

    `verb` is the tool's name, if it is not the function's. `unfinished` tells whether an answer
    leaves something to the user; then the exit status is 1.
    """

    def command(arguments: Callable[..., Fields]) -> click.Command:
        tool_name = verb or arguments.__name__

        @click.pass_context
        def run(context: click.Context, /, as_json: bool, **fields: Any) -> None:
            shape = show.one_line if fields.pop("oneline", False) else None
            if tool_name == "save" and context.obj.personal:
                _begin_personal()
            answer = perform(tool_name, context.obj, as_json, arguments(**fields), shape)
            draft.discard(context)
            context.exit(1 if unfinished and unfinished(answer) else 0)

        decorated: Any = run
        for option in reversed((*options, as_json)):
            decorated = option(decorated)
        return click.command(arguments.__name__, help=arguments.__doc__)(decorated)

    return command


def _begin_personal() -> None:
    """Create the personal memory at its first save."""
    from filemem.agents.init import begin

    folder = config.personal_folder()
    if begin(folder):
        sys.stderr.write(f"filemem: your personal memory is {folder}, a Git repository\n")
