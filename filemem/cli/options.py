"""Options that several commands take, and functions that build options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from filemem.cli.project import Project
from filemem.config import HITS
from filemem.errors import BadInput

Fields = Mapping[str, Any]
Option = Callable[[Any], Any]

pass_project = click.make_pass_decorator(Project)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)
as_of_option = click.option(
    "--at", metavar="REV|DATE", help="As it was at this commit, tag, branch or date."
)
limit_option = click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    help=f"Maximum number of results (default: {HITS}).",
)
oneline_option = click.option(
    "--oneline", is_flag=True, help="One line each: short id, date, title, topic."
)


def _set_service(context: click.Context, _option: click.Parameter, is_stated: bool) -> None:
    """Let the command ask the organisation's service too. Raises BadInput if none is set."""
    if not is_stated:
        return
    from filemem.org.together import require_service

    project = context.obj
    project.service = require_service(project.working_folder)


org_option = click.option(
    "--org",
    is_flag=True,
    expose_value=False,
    callback=_set_service,
    help="Ask your organisation's index too: docs/organisation.md.",
)
agent_option = click.option("--agent", help="Name of the agent that acts, if it is not you.")
profile_option = click.option(
    "--profile",
    default="native",
    show_default=True,
    help="Whose tools are listed: docs/migrating.md.",
)
prefix_option = click.option(
    "--prefix", default="", help="Put this before every tool name, for example mama_."
)


def repeatable_option(*names: str, help: str, **settings: Any) -> Option:  # noqa: A002
    """Build an option that may be repeated; its help says so."""
    return click.option(*names, multiple=True, help=f"{help} May be repeated.", **settings)


def word_list_option(*names: str, help: str) -> Option:  # noqa: A002
    """Build an option of words, which commas separate; it may be repeated."""
    return click.option(
        *names,
        multiple=True,
        callback=_join_words,
        help=f"{help} Commas separate. May be repeated.",
    )


def _join_words(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> str | None:
    return ",".join(values) or None


def _read_content(context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """Read a file, or standard input for "-"; None without the option. Raises BadInput."""
    if name is None:
        return None
    try:
        if name == "-":
            data = sys.stdin.buffer.read()
        else:
            data = (context.obj.working_folder / name).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "it is not UTF-8")
        raise BadInput(f"{name} cannot be read: {reason}") from None


def text_option(*names: str, help: str) -> Option:  # noqa: A002
    """Build an option for a long text; "-" reads it from standard input."""
    return click.option(*names, callback=_read_text, help=f'{help} "-" reads standard input.')


def _read_text(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    return _read_content(context, option, value) if value == "-" else value


file_option = click.option(
    "-F",
    "file",
    metavar="FILE",
    callback=_read_content,
    help='Take the text from a file; "-" is standard input.',
)
