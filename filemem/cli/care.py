"""Commands that set up and look after a store: init, index, watch, serve, status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem.cli import Project, as_json, emit, many, pass_project, teller
from filemem.errors import BadInput

if TYPE_CHECKING:
    from filemem.memory import Memory


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--own-branch",
    metavar="[NAME]",
    is_flag=False,
    flag_value="filemem",
    help="Keep the records on a branch of their own (default name: filemem).",
)
@click.option("--diff-driver", is_flag=True, help="Let git diff show records as what they say.")
@as_json
@pass_project
def init(project: Project, as_json: bool, dry_run: bool, own_branch: str | None, diff_driver: bool) -> None:
    """Set a project up, or show how.

    Writes memory/README.md, memory/private/.gitignore, an entry in .mcp.json and a block in AGENTS.md; .filemem.toml
    where the records stand elsewhere or on a branch of their own. Makes a Git repository where there is none. Merges
    with what is there, never overwrites; may be run again. Nothing is staged or committed on this branch.

    Records travel with the code and its pull requests. With --own-branch they stand on a branch that has nothing else,
    and memory/ is a work tree of it: every branch and every clone sees one memory, and `filemem sync` shares it. In a
    clone of such a project, plain `filemem init` attaches it.

    \b
    Examples:
      filemem init --dry-run
      filemem init --own-branch
    """
    from filemem import config
    from filemem.cli import setup
    from filemem.cli.show import actions

    answer = setup.run(
        project.folder,
        project.store,
        dry_run=dry_run,
        own_branch="" if own_branch is None else config.branch_name(own_branch),
        diff_driver=diff_driver,
        tell=teller(),
    )
    emit(answer, as_json, actions.plan)


@click.command()
@click.option("--rebuild", is_flag=True, help="Build it anew from the files.")
@as_json
@click.pass_context
def index(ctx: click.Context, as_json: bool, rebuild: bool) -> None:
    """Bring the search index in step with the files.

    Where another embedding model is configured than the index was made with, all records are embedded anew. One that
    cannot be had leaves the vectors as they are.

    Exit status: 0 done, 1 not all can be found by meaning; the answer says why.

    \b
    Example:
      filemem index --rebuild
    """
    from filemem.cli.show import actions
    from filemem.dialects import native_calls

    with ctx.obj.memory() as memory:
        answer = native_calls.index(memory, {"rebuild": rebuild})
    emit(answer, as_json, actions.message)
    ctx.exit(1 if answer.get("degraded") else 0)


@click.command()
@pass_project
def watch(project: Project) -> None:
    """Keep the index in step with the files. Until interrupted; `serve` does this by itself.

    \b
    Example:
      filemem watch
    """
    from filemem.watch import Watcher

    def tell(changed: int) -> None:
        click.echo(f"indexed {changed} file{'' if changed == 1 else 's'}", err=True)

    with project.memory() as memory, Watcher(memory, tell) as watcher:
        click.echo(f"watching {memory.folder} (Ctrl-C ends it)", err=True)
        watcher.wait()


@click.command()
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve HTTP as filemem web does, not stdio.",
)
@click.option(
    "--token", help="With --http: what every request must carry as bearer token. Others see it here; set FILEMEM_TOKEN."
)
@many("--name", "names", help="With --http: a further host name by which clients call this machine.")
@click.option("--profile", default="native", show_default=True, help="Whose tools are listed: docs/migrating.md.")
@click.option("--prefix", default="", help="Put this before every tool name, for example mama_.")
@click.option("--config", type=click.Path(path_type=Path), help="A settings file of powermem; its user_id is taken.")
@click.option("--env", type=click.Path(path_type=Path), help="A file of variables; what FILEMEM_... it sets is taken.")
@pass_project
def serve(
    project: Project,
    address: str | None,
    token: str | None,
    names: tuple[str, ...],
    profile: str,
    prefix: str,
    config: Path | None,
    env: Path | None,
) -> None:
    """Serve this project's memory over MCP: stdio by default.

    Over HTTP only programs of this machine may ask. An address that other machines reach needs a token; there is no
    encryption, so put a proxy or a tunnel in front.

    \b
    Examples:
      filemem serve
      filemem serve --http 127.0.0.1:3847
      FILEMEM_TOKEN=$(openssl rand -hex 32) filemem serve --http 0.0.0.0:3847 --name build.lan
    """
    from filemem import VERSION, server
    from filemem.dialects import profiles

    advertised = profiles.profile(profile, prefix)
    user = _named_files(config, env)
    if address is None:
        server.serve_stdio(advertised, Serving(project, user).open, version=VERSION, on_crash=report)
        return
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not host:
        raise BadInput(f"--http takes HOST:PORT, not {address!r}", "for example 127.0.0.1:3847")
    from filemem.cli import web

    web.serve(project, advertised, web.Served(host.strip("[]"), int(port), token or "", names), user)


def _named_files(config: Path | None, env: Path | None) -> str:
    """Read the files that powermem's server takes; return whose memories are meant, and say what is not needed."""
    from filemem.config import others

    told = list(others.environment_file(env)) if env else []
    user = ""
    if config:
        user, further = others.powermem_file(config)
        told += [f"{config.name}: {', '.join(further)} not needed here: docs/migrating.md says why"] if further else []
    elif trouble := others.powermem_user()[1]:
        told.append(trouble)
    click.echo("".join(f"filemem: {line}\n" for line in told), err=True, nl=False)
    return user


def report(tool: str, error: BaseException) -> None:
    """Leave a report of a defect behind; the server goes on."""
    import traceback

    from filemem.report import crash_report

    trace = "".join(traceback.format_exception(error))
    click.echo(f"filemem: defect in {tool}, report in {crash_report(trace, ['filemem', 'serve', tool])}", err=True)


UNBUILT = 10.0  # seconds that the first call waits where there is no index yet: before that, nothing would be found


class Serving:
    """Opens the memory at the first call, with a watcher beside it that keeps its index in step.

    Args:
        project: where.
        user: whose memories are meant where a call does not say; empty for who is configured.
    """

    def __init__(self, project: Project, user: str) -> None:
        self.project = project
        self.user = user

    def open(self, tell: Callable[[int, int], object], patience: float) -> Memory:
        """Open the memory and start watching; closing the memory ends both.

        Args:
            tell: told how far long work is.
            patience: seconds to wait for the first look at the files, which may build the index; it goes on beside.
        """
        from filemem.memory import Memory
        from filemem.watch import Watcher

        memory = Memory.open(self.project.folder, store=self.project.store, serving=True, progress=tell)
        memory.stated_user = self.user
        watcher = Watcher(memory)
        watcher.start()
        watcher.looked.wait(patience if memory.indexed else max(patience, UNBUILT))
        memory.on_close(watcher.stop)
        return memory


@click.command()
@as_json
@click.pass_context
def sync(ctx: click.Context, as_json: bool) -> None:
    """Share the memory: fetch, put what was saved here on top, push.

    Pushes only where all that is to be pushed touches nothing but the store; otherwise says which commit does not,
    and leaves the pushing to you. Where something is staged or edited, or an operation is in progress, it only fetches
    and says so. Never stashes, never forces.

    Exit status: 0 shared, 1 something is left to you, 5 both sides changed the same lines.

    \b
    Example:
      filemem sync
    """
    from filemem.cli.show import actions
    from filemem.dialects import native_calls

    with ctx.obj.memory() as memory:
        answer = native_calls.sync(memory, {}, teller())
    emit(answer, as_json, actions.synced)
    ctx.exit(1 if answer["left"] else 0)


@click.command()
@as_json
@pass_project
def status(project: Project, as_json: bool) -> None:
    """Say how the memory stands. Counts, index, what waits to be committed.

    \b
    Example:
      filemem status
    """
    from filemem.cli.show import actions
    from filemem.dialects import native_calls

    with project.memory() as memory:
        emit(native_calls.status(memory, {}), as_json, actions.status)


@click.command(hidden=True)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def textconv(file: Path) -> None:
    """Print a version of a record in words, for git diff: see filemem init --diff-driver.

    \b
    Example:
      filemem textconv memory/decisions/caching/20251120-use-an-lru-cache-k3f9w2ma.md
    """
    from filemem.cli import driving
    from filemem.cli.plain import plain

    click.echo(plain(driving.shown(file, Path.cwd()), "text"), nl=False)
