"""An organisation's index on the command line: the database, the repositories in it, and the worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

import click

from filemem import config
from filemem.cli.options import as_json, many, pass_project
from filemem.cli.project import Project, emit
from filemem.cli.serve import report
from filemem.dialects.tool import counted
from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.index import embedder
from filemem.org import access as rights
from filemem.org.queue import LATE, Queue, Standing
from filemem.record import format_time

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres
    from filemem.org.workers import Workers


@contextmanager
def engine(project: Project) -> Iterator[Postgres]:
    """Open the database that the environment or the user's own settings name. Raises BrokenStore, BadInput."""
    settings = config.load(project.here)
    try:
        from filemem.org.postgres import Postgres
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "psycopg_binary", "psycopg_pool"):
            raise
        raise BrokenStore("psycopg is not installed", "pip install 'filemem[org]'") from None
    model = embedder(settings.model)
    with closing(Postgres(settings.org_dsn, model, settings.org_read_dsn)) as database:
        yield database


@click.group()
def org() -> None:
    """Keep one index of an organisation's repositories, in PostgreSQL.

    FILEMEM_ORG_DSN, or org_dsn in your own config.toml, says how the database is reached; no repository can.

    \b
    Examples:
      filemem org init
      filemem org add https://git.example.org/team/api ../web
      filemem org work --once
      filemem org status
      filemem org serve
    """


@org.command()
@as_json
@pass_project
def init(project: Project, as_json: bool) -> None:
    """Make the database ready; again after an update, which may read the repositories anew.

    \b
    Example:
      filemem org init
    """
    with engine(project) as database:
        emit(
            {"success": True, "message": database.init()},
            as_json,
            lambda answer: str(answer["message"]),
        )


@org.command()
@click.argument("repositories", nargs=-1, metavar="[REPO]...")
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One a line.",
)
@as_json
@pass_project
def add(project: Project, repositories: Sequence[str], file: Path | None, as_json: bool) -> None:
    """Add repositories: https or ssh addresses, or paths on this machine; nobody may see them before `org access`.

    The worker reads the branch that HEAD names there, with the keys and credential helpers of its own user.

    \b
    Example:
      filemem org add https://git.example.org/team/api.git ../web
    """
    from filemem.repo.mirror import named

    lines = file.read_text(encoding="utf-8").splitlines() if file else ()
    given = (
        *repositories,
        *(line.strip() for line in lines if line.strip() and not line.startswith("#")),
    )
    if not given:
        raise BadInput(
            "no repository is named", "filemem org add REPO..., or --from FILE with one a line"
        )
    sources = dict(named(one, project.here) for one in given)
    with engine(project) as database:
        new = database.add(sources)
    told = f"{new} added; {len(sources) - new} there before"
    emit({"success": True, "added": new, "repositories": sorted(sources)}, as_json, lambda _: told)


@org.command()
@click.argument("name")
@pass_project
def remove(project: Project, name: str) -> None:
    """Take a repository out, with its records and who may see it; by its name in `org status`.

    \b
    Example:
      filemem org remove git.example.org/team/api
    """
    with engine(project) as database:
        click.echo(
            f"{counted(database.drop(name), 'record')} taken out, and the rights to see {name}"
        )


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
    from filemem.org.workers import Workers

    cache = config.load(project.here).index_cache / "mirrors"
    with engine(project) as database:
        workers = Workers(database, cache, os.environ, every)
        if not (once or names):
            database.repositories()  # before it begins: whether the database can be used at all
            return _lasting(workers, at_once)
        looks = workers.once(names)
        failed = counted(looks.failed, "failure") if looks.failed else ""
        advice = f", {failed}: `filemem org status` says why" if failed else ""
        click.echo(f"{counted(looks.changed, 'record')} changed{advice}")
    return None


def _lasting(workers: Workers, threads: int) -> None:
    """Run workers until a signal comes; a second one ends the process at once."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        workers.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    workers.run(threads)


@org.command()
@as_json
@pass_project
def status(project: Project, as_json: bool) -> None:
    """Show the repositories: records, when they were last looked at, what failed and what is late.

    \b
    Example:
      filemem org status
    """
    with engine(project) as database:
        standing = Queue(database).standing()
    rows = [
        {
            "repository": row.name,
            "records": row.records,
            "seen_at": format_time(row.seen) if row.seen else "",
            "failed": row.failed,
            "late": round(row.late),
            "left_out": row.left_out,
        }
        for row in standing
    ]
    lines = [
        f"{row['records']:>7,}  {row['seen_at'] or 'never':24}  {row['repository']}" for row in rows
    ]
    lines += [line for row in standing for line in _wrong(row)]
    text = "\n".join(lines) or "no repository yet: filemem org add"
    emit({"success": True, "count": len(rows), "repositories": rows}, as_json, lambda _: text)


def _wrong(row: Standing) -> Iterator[str]:
    """What is wrong with a repository."""
    if row.failed:
        yield f"failed: {row.name}: {row.failed}"
    if row.left_out:
        yield f"{row.name}: {row.left_out}"
    if row.late > LATE:
        what = "a push has waited" if row.pushed else "it has been due"
        yield f"late: {row.name}: {what} for {row.late / 60:,.0f} min; does a worker run?"


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
    with engine(project) as database:
        gone = database.purge(record_id)
    if not gone:
        raise NotFound(
            f"no record has the id {record_id[:80]!r}",
            "purge takes whole ids, as `filemem get` shows them",
        )
    click.echo(f"{gone} deleted; backups of the database still have it")


@org.command()
@click.argument("action", type=click.Choice(["add", "revoke", "list"]))
@click.argument("name", default="")
@click.option("--days", type=click.IntRange(1), help="Days after which a new token ends.")
@as_json
@pass_project
def token(project: Project, action: str, name: str, days: int | None, as_json: bool) -> None:
    """Make a token for NAME, a person or a program; delete all of its tokens; or list who has one.

    A token is shown once. `filemem org access` says what NAME may see. `revoke` takes the id of one token too, as
    `list` shows it.

    \b
    Examples:
      filemem org token add ada --days 90
      filemem org token revoke ada
    """
    with engine(project) as index, index.transaction() as database:
        if action == "add":
            answer: Any = {"name": name, "token": rights.add_token(database, name, days)}
            told = answer["token"]
        elif action == "revoke":
            answer = {"name": name, "revoked": rights.revoke(database, name)}
            told = f"{counted(answer['revoked'], 'token')} revoked"
        else:
            answer = {"tokens": rights.tokens(database)}
            told = (
                "\n".join("  ".join(row.values()).rstrip() for row in answer["tokens"])
                or "nobody has a token"
            )
    emit({"success": True, **answer}, as_json, lambda _: told)


@org.command()
@click.argument("file", type=click.Path(path_type=Path))
@as_json
@pass_project
def access(project: Project, file: Path, as_json: bool) -> None:
    """Say who may see which repositories. FILE replaces all that was said before: who is not in it sees nothing.

    It is TOML, or JSON if its name ends in .json, with a line `ada = ["host/team/api"]` for each name that has a token;
    `*` is everybody who has one. `filemem org status` shows the names of repositories.

    \b
    Example:
      filemem org access access.toml
    """
    given = rights.read(project.here / file)
    with engine(project) as index, index.transaction() as database:
        count, unknown = rights.give(database, given)
    told = "".join(f"\nnot in the index, so nobody sees it: {one}" for one in unknown)
    emit(
        {"success": True, "rights": count, "unknown": unknown},
        as_json,
        lambda _: f"rights: {count}{told}",
    )


@org.command()
@click.argument("name", default="")
@as_json
@pass_project
def audit(project: Project, name: str, as_json: bool) -> None:
    """List what was asked lately, by NAME or by all, if `org serve --audit-days` notes it.

    \b
    Example:
      filemem org audit ada
    """
    from filemem.org.audit import lines

    with engine(project) as index, index.transaction() as database:
        rows = lines(database, name)
    text = "\n".join(
        f"{row['at']}  {row['name']}  {row['verb']}  {row['query']}  {len(row['shown'])} shown"
        for row in rows
    )
    emit({"success": True, "audit": rows}, as_json, lambda _: text or "nothing is noted")


@org.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3848, show_default=True, help="TCP port; 0 takes a free one.")
@many("--name", "names", help="A further host name by which clients call this service.")
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
def serve(project: Project, /, workers: int, *, behind_proxy: bool, **how: Any) -> None:
    """Answer questions over all repositories, over HTTP: docs/organisation.md lists the routes. It only reads.

    There is no encryption, so it listens on this machine alone, and a proxy with TLS stands in front.

    \b
    Example:
      filemem org serve --behind-proxy --name memories.example.org
    """
    with engine(project) as index:
        from filemem.org import service

        service.protected(how["host"], behind_proxy=behind_proxy)
        index.repositories()  # before anything listens: whether the database can be used
    settings = config.load(project.here)
    provider = service.provider(
        settings.org_oidc_issuer,
        settings.org_oidc_audience,
        settings.org_oidc_name,
        settings.org_oidc_groups,
    )
    serving = service.Serving(**how, hook_secret=settings.org_hook_secret, provider=provider)
    service.run(partial(_answer, str(project.here), service.serve), serving, workers)


def _answer(here: str, serve: Any, how: Any, listening: socket | None) -> None:
    """Answer in this process: the only one, or one of several."""
    with engine(Project(here)) as index:
        serve(index, how, report, listening)
