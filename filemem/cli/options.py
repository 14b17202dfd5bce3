"""What commands are made of: click's groups and options, and `tool`, for a command that is a native tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from filemem.cli.project import Answer, Project, perform
from filemem.errors import BadInput

Fields = Mapping[str, Any]
Option = Callable[[Any], Any]

pass_project = click.make_pass_decorator(Project)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
as_of = click.option("--at", metavar="REV|DATE", help="As it was at this commit, tag, branch or date.")
limit = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Maximum number of results."
)
agent = click.option("--agent", help="Who acts, if it is not you: the agent's name.")


def many(*names: str, help: str) -> Option:  # noqa: A002  click's word
    """An option that may be given several times, and says so."""
    return click.option(*names, multiple=True, help=f"{help} May be repeated.")


def words(*names: str, help: str) -> Option:  # noqa: A002  click's word
    """An option of words: several may stand in one, between commas."""
    joined = lambda _context, _option, given: ",".join(given) or None  # noqa: E731
    return click.option(*names, multiple=True, callback=joined, help=f"{help} Commas separate. May be repeated.")


def tool(
    *options: Option, verb: str = "", left: Callable[[Answer], object] | None = None
) -> Callable[[Callable[..., Fields]], click.Command]:
    """Make a command of a function that turns options into the arguments of the native tool of its name.

    `verb` is the tool, if it is not called as the function; `left` whether an answer leaves something to the user: the
    exit status is 1 then.
    """

    def command(arguments: Callable[..., Fields]) -> click.Command:
        @click.pass_context
        def run(context: click.Context, /, as_json: bool, **given: Any) -> None:
            answer = perform(verb or arguments.__name__, context.obj, as_json, arguments(**given))
            context.exit(1 if left and left(answer) else 0)

        made: Any = run
        for option in reversed((*options, as_json)):
            made = option(made)
        return click.command(arguments.__name__, help=arguments.__doc__)(made)

    return command


class Commands(click.Group):
    """All commands, each imported from the module that `modules` names when it is asked for; `page` is their help."""

    def __init__(self, modules: Mapping[str, str], page: str) -> None:
        options = [click.Option(["-C", "folder"], default=""), click.Option(["--store"])]
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__("filemem", params=options, callback=_begin, context_settings=settings)
        self.modules, self.page = modules, page

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_help(self, _ctx: click.Context) -> str:
        return self.page.rstrip()

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        name = "forget" if name == "delete" else name  # the tools' name for the same
        found: click.Command | None = getattr(import_module(self.modules[name]), name) if name in self.modules else None
        return found


@click.pass_context
def _begin(ctx: click.Context, folder: str, store: str | None) -> None:
    ctx.obj = Project.at(folder, store)


def run(words: Sequence[str], modules: Mapping[str, str], page: str) -> int:
    """Let click understand the command line, and run the command; return the exit status."""
    try:
        code = Commands(modules, page).main(list(words), prog_name="filemem", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(f"{error.format_message()}\n")
        return error.exit_code
    except click.ClickException as error:
        named = " ".join(("filemem", *[word for word in words if word in modules][:1]))  # click names it not always
        field = (error.param.name or "") if isinstance(error, click.BadParameter) and error.param else ""
        raise BadInput(error.format_message(), f"{named} --help shows what it takes", field=field) from None
    return code if isinstance(code, int) else 0
