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
    """All commands, each imported from its module at first use.

    Args:
        modules: command -> its module.
        help_text: the help of the group.
    """

    def __init__(self, modules: Mapping[str, str], help_text: str) -> None:
        super().__init__(
            "filemem",
            params=[
                click.Option(["-C", "folder"], default=""),
                click.Option(["--store"]),
                click.Option(["--personal"], is_flag=True),
            ],
            callback=_create_project,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
        self.modules = modules
        self.help_text = help_text
        # click suggests these names for a mistyped command.
        names = [*modules, *ALIASES, "help", "version"]
        self.commands = dict.fromkeys(names, click.Command(None))

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_help(self, _ctx: click.Context) -> str:
        return self.help_text.rstrip()

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        if name not in self.modules:
            return None
        attribute = f"{name}_" if iskeyword(name) else name
        module = import_module(self.modules[name])
        command: click.Command = getattr(module, attribute)
        if COMPLETE in os.environ:
            _enable_completion(command)
        return command


def _enable_completion(command: click.Command) -> None:
    from filemem.cli import complete

    complete.enable_completion(command)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete.enable_completion(subcommand)


@click.pass_context
def _create_project(ctx: click.Context, folder: str, store: str | None, personal: bool) -> None:
    ctx.obj = Project(folder, store, personal=personal)


def run(words: Sequence[str], modules: Mapping[str, str], help_text: str) -> int:
    """Parse the command line with click and run the command; return the exit status."""
    group = CommandGroup(modules, help_text)
    try:
        code = group.main(list(words), prog_name="filemem", standalone_mode=False)
    except click.Abort:  # click raises it for Ctrl-C
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        console.get_error_output().write(f"{error.format_message()}\n")
        return error.exit_code
    except click.ClickException as error:
        commands = [word for word in words if word in modules]
        command_line = " ".join(["filemem", *commands[:1]])
        hint = f"{command_line} --help lists its options"
        message = error.format_message()
        raise BadInput(message, hint, field=_get_field_name(error)) from None
    return code if isinstance(code, int) else 0


def _get_field_name(error: click.ClickException) -> str:
    """Return the option or argument that an error is about; "" if there is none."""
    if isinstance(error, click.BadParameter) and error.param:
        return error.param.name or ""
    return ""
