"""The commands of `filemem org`: an organisation's index. `org/commands` does the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem.cli.options import json_option, pass_project, repeatable_option
from filemem.cli.project import Project, print_text
from filemem.cli.serve import report_crash
from filemem.errors import BrokenStore

if TYPE_CHECKING:
    from filemem.org import commands
    from filemem.org.postgres import Postgres

_EXTRA_MODULES = ("jwt", "prometheus_client", "psycopg", "psycopg_binary", "psycopg_pool")


@contextmanager
def _explain_missing_extra() -> Iterator[None]:
    """Turn a missing optional package into BrokenStore, with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_MODULES:
            raise
        raise BrokenStore(f"{error.name} is not installed", "pip install 'filemem[org]'") from None


@contextmanager
def _open_index(project: Project) -> Iterator[tuple[Any, Postgres]]:
    """Open the database; yield the module `org.commands` and the database.

    Raises BrokenStore, BadInput.
    """
    with _explain_missing_extra():
        from filemem.org import commands
    with commands.open_index(project.working_folder) as index:
        yield commands, index


def _print_result(result: commands.CommandResult, *, as_json: bool = False) -> None:
    answer = {"success": True, **result.answer}
    print_text(answer, as_json, result.text)


@click.group()
def org() -> None:
    """Keep one index of an organisation's repositories, in PostgreSQL.

    FILEMEM_ORG_DSN, or org_dsn in your own config.toml, says how the database is reached; no
    repository can.

    \b
    Examples:
      filemem org init
      filemem org add https://git.example.org/team/api ../web
      filemem org work --once
      filemem org status
      filemem org serve
    """


@org.command()
@json_option
@pass_project
def init(project: Project, as_json: bool) -> None:
    """Make the database ready; again after an update, which may read the repositories anew.

    \b
    Example:
      filemem org init
    """
    with _open_index(project) as (commands, index):
        _print_result(commands.init(index), as_json=as_json)


@org.command()
@click.argument("repositories", nargs=-1, metavar="[REPO]...")
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One a line.",
)
@json_option
@pass_project
def add(project: Project, repositories: Sequence[str], file: Path | None, as_json: bool) -> None:
    """Add repositories: https or ssh addresses, or paths on this machine.

    Nobody may see them before `org access`. The worker reads the branch that HEAD names there, with
    the keys and credential helpers of its own user.

    \b
    Example:
      filemem org add https://git.example.org/team/api.git ../web
    """
    with _open_index(project) as (commands, index):
        result = commands.add(index, project.working_folder, repositories, file)
        _print_result(result, as_json=as_json)


@org.command()
@click.argument("name")
@pass_project
def remove(project: Project, name: str) -> None:
    """Take a repository out, with its records and who may see it; by its name in `org status`.

    \b
    Example:
      filemem org remove git.example.org/team/api
    """
    with _open_index(project) as (commands, index):
        _print_result(commands.remove(index, name))


@org.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option(
    "--every",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Seconds between two looks at a repository.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Repositories that are read at the same time.",
)
@pass_project
def work(project: Project, names: Sequence[str], once: bool, every: int, at_once: int) -> None:
    """Bring what is new in the repositories into the database. Any number of workers may run.

    With NAMES, as `org status` shows them, it looks once at these repositories alone.

    Without --once it goes on until a signal ends it. A push that is reported to `org serve` comes
    in at once; repositories that report pushes are looked at once an hour besides.

    \b
    Example:
      filemem org work --once
      filemem org work git.example.org/team/api
    """
    with _open_index(project) as (commands, index):
        if once or names:
            _print_result(commands.work_once(index, project.working_folder, names))
        else:
            commands.work(index, project.working_folder, every, at_once)


@org.command()
@json_option
@pass_project
def status(project: Project, as_json: bool) -> None:
    """Show the repositories: records, when they were last looked at, what failed and what is late.

    \b
    Example:
      filemem org status
    """
    with _open_index(project) as (commands, index):
        _print_result(commands.show_status(index), as_json=as_json)


@org.command()
@click.argument("record_id", metavar="ID")
@pass_project
def purge(project: Project, record_id: str) -> None:
    """Delete the records with an id from the database now, and from its files.

    For what was taken out of Git's history: a repository that still has the record brings it back.

    \b
    Example:
      filemem org purge decision_caching_1763650000123_k3f9w2ma
    """
    with _open_index(project) as (commands, index):
        _print_result(commands.purge(index, record_id))


@org.command()
@click.argument("action", type=click.Choice(["add", "revoke", "list"]))
@click.argument("name", default="")
@click.option("--days", type=click.IntRange(1), help="Days after which a new token ends.")
@json_option
@pass_project
def token(project: Project, action: str, name: str, days: int | None, as_json: bool) -> None:
    """Make a token for NAME, a person or a program; delete its tokens; or list who has one.

    A token is shown once. `filemem org access` says what NAME may see. `revoke` takes the id of one
    token too, as `list` shows it.

    \b
    Examples:
      filemem org token add ada --days 90
      filemem org token revoke ada
    """
    with _open_index(project) as (commands, index):
        result = commands.manage_tokens(index, action, name, days)
        _print_result(result, as_json=as_json)


@org.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@pass_project
def access(project: Project, file: Path, as_json: bool) -> None:
    """Say who may see which repositories. FILE replaces all rights: who is not in it sees nothing.

    It is TOML, or JSON if its name ends in .json, with a line `ada = ["host/team/api"]` for each
    name; `*` is everybody, `@web` the members of the group `web`, whom [groups] lists or your
    identity provider names. `filemem org status` shows the names of repositories.

    \b
    Example:
      filemem org access access.toml
    """
    with _open_index(project) as (commands, index):
        result = commands.replace_rights(index, project.working_folder / file)
        _print_result(result, as_json=as_json)


@org.command()
@click.argument("name", default="")
@json_option
@pass_project
def audit(project: Project, name: str, as_json: bool) -> None:
    """List what was asked lately, by NAME or by all, if `org serve --audit-days` notes it.

    \b
    Example:
      filemem org audit ada
    """
    with _open_index(project) as (commands, index):
        _print_result(commands.list_questions(index, name), as_json=as_json)


@org.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3848, show_default=True, help="TCP port; 0 takes a free one.")
@repeatable_option(
    "--name", "names", help="A further host name by which clients call this service."
)
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="A proxy with TLS is in front, so other machines may connect.",
)
@click.option(
    "--rate",
    type=click.IntRange(1),
    default=120,
    show_default=True,
    help="Requests a minute of one token.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes; one answers 8 to 16 questions a second, and needs a core.",
)
@click.option(
    "--audit-days",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Note who was shown what, and keep it for so many days.",
)
@pass_project
def serve(project: Project, /, workers: int, *, behind_proxy: bool, **options: Any) -> None:
    """Answer questions over all repositories, over HTTP: docs/organisation.md lists the routes.

    It only reads. There is no encryption, so it listens on this machine alone, and a proxy with TLS
    stands in front.

    \b
    Example:
      filemem org serve --behind-proxy --name memories.example.org
    """
    with _explain_missing_extra():
        from filemem.org.start import start_service
    start_service(project.working_folder, options, workers, report_crash, behind_proxy=behind_proxy)
