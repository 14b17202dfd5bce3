"""The group of all commands: click parses the command line and imports the command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword

import click

from filemem.cli import console
from filemem.cli.project import Project
from filemem.errors import BadInput

COMPLETE = "_FILEMEM_COMPLETE"  # how a shell asks for completions
ALIASES = {"show": "get", "log": "history", "list": "topics", "delete": "forget"}


class CommandGroup(click.Group):
    """All commands, each imported from its module in `modules` at first use; `page` is their
    help."""

    def __init__(self, modules: Mapping[str, str], help_text: str) -> None:
        personal = click.Option(["--personal"], is_flag=True)
        options = [click.Option(["-C", "folder"], default=""), click.Option(["--store"]), personal]
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__(
            "filemem", params=options, callback=_create_project, context_settings=settings
        )
        self.modules = modules
        self.help_text = help_text
        # The names that click suggests.
        self.commands = dict.fromkeys((*modules, *ALIASES, "help", "version"), click.Command(None))

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_help(self, _ctx: click.Context) -> str:
        return self.help_text.rstrip()

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        if name not in self.modules:
            return None
        attribute = f"{name}_" if iskeyword(name) else name
        command: click.Command = getattr(import_module(self.modules[name]), attribute)
        if COMPLETE in os.environ:
            from filemem.cli import complete

            for part in (command, *getattr(command, "commands", {}).values()):
                complete.enable_completion(part)
        return command


@click.pass_context
def _create_project(ctx: click.Context, folder: str, store: str | None, personal: bool) -> None:
    ctx.obj = Project(folder, store, personal=personal)


def run(words: Sequence[str], modules: Mapping[str, str], help_text: str) -> int:
    """Parse the command line with click and run the command; return the exit status."""
    try:
        code = CommandGroup(modules, help_text).main(
            list(words), prog_name="filemem", standalone_mode=False
        )
    except click.Abort:  # what click makes of Ctrl-C
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        console.get_error_output().write(f"{error.format_message()}\n")
        return error.exit_code
    except click.ClickException as error:
        command = next((word for word in words if word in modules), "")  # click may not name it
        raise BadInput(
            error.format_message(),
            f"{f'filemem {command}'.rstrip()} --help lists its options",
            field=_get_field_name(error),
        ) from None
    return code if isinstance(code, int) else 0


def _get_field_name(error: click.ClickException) -> str:
    """The option or argument that an error blames."""
    parameter = error.param if isinstance(error, click.BadParameter) else None
    return (parameter and parameter.name) or ""
