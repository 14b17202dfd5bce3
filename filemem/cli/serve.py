"""Commands that serve the memory: MCP over stdio, HTTP with a page for people, and the page as static files."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import click

from filemem.cli import roots
from filemem.cli.options import as_json, many, pass_project
from filemem.cli.project import Project, emit
from filemem.config import personal_folder
from filemem.errors import BadInput, BrokenStore, FilememError, NotFound, crash_report
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.store import Store

PATIENCE = (
    1.0  # seconds that the first call waits for the first look at the files, which goes on beside
)
PORT = 3847
NO_TOKEN = "none"  # noqa: S105  the word that a user sets in place of a token
OPEN = (
    "no token is asked for: every program and every user of this machine may read and save here, "
    "private records apart"
)
NO_ENCRYPTION = (
    "there is no encryption: who is in this network can read along, and then do what the phone may do. "
    "Use it at home or at work, not in a café; Ctrl-C ends it"
)

_profile = click.option(
    "--profile",
    default="native",
    show_default=True,
    help="Whose tools are listed: docs/migrating.md.",
)
_prefix = click.option(
    "--prefix", default="", help="Put this before every tool name, for example mama_."
)


@click.command()
@_profile
@_prefix
@click.option(
    "--web",
    "page",
    is_flag=True,
    help="Serve the page for people too, on port 3847 or the next free one.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A settings file of powermem; its user_id is taken.",
)
@click.option(
    "--env",
    type=click.Path(path_type=Path),
    help="A file of variables; what FILEMEM_... it sets is taken.",
)
@pass_project
def serve(
    project: Project, profile: str, prefix: str, page: bool, config: Path | None, env: Path | None
) -> None:
    """Serve this project's memory over MCP on standard input and output. `filemem web` serves it over HTTP.

    With --web it also serves a page for people; `filemem status` shows the address.

    Outside a Git repository it serves your personal memory, a repository in your data folder made at the first save.
    `filemem --personal serve` serves that one anywhere; `filemem -C DIR serve` serves the memory of DIR or none.
    A client whose root lies in another work tree of the same repository is served that one.

    \b
    Examples:
      filemem serve
      filemem serve --web
      filemem serve --profile powermem
    """
    from filemem import VERSION, server
    from filemem import config as settings
    from filemem.cli import organisation
    from filemem.cli.find import with_workspace
    from filemem.dialects.tool import profile as offered

    if profile == "powermem":
        settings.powermem_begin()
    told = [settings.environment_file(env)] if env else []
    user, further = settings.powermem_file(config) if config else ("", "")
    told += (
        [f"{config.name}: {further} not needed here: docs/migrating.md says why"]
        if config and further
        else []
    )
    for line in filter(None, (*told, settings.web().unneeded)):
        click.echo(f"filemem: {line}", err=True)
    if profile.startswith("mama") and (line := _old_database(project)):
        click.echo(f"filemem: {line}", err=True)
    if sys.stdin.isatty():
        waits = "waiting for an MCP client on standard input; docs/mcp.md says how to connect one; Ctrl-C ends"
        click.echo(f"filemem: {waits}", err=True)
    opener = _with_personal(project, user)
    offer = with_workspace(project, offered(profile, prefix))
    if not page:  # which other users of this machine may reach: they do not ask in this one's name
        offer = organisation.offered(project, offer)
    beside = partial(_beside, offer, VERSION, settings.web(), project) if page else None
    follow = None if page or project.personal else roots.follow(project)  # a page shows one place
    server.serve_stdio(
        offer, opener, version=VERSION, on_crash=report, beside=beside, follow=follow
    )


def _old_database(project: Project) -> str:
    """How to import an old database of MAMA that lies here; "" if there is none, or if this was said or done before."""
    from filemem import config
    from filemem.repo import Repo

    if project.personal or (found := config.usual_source("mama", project.here)) is None:
        return ""
    with suppress(FilememError), closing(Repo.discover(project.here)) as repo:
        if repo.first("mama"):
            return f"{found} holds memories of MAMA; `filemem import mama --dry-run` shows what of them belongs here"
    return ""


def _beside(offer: Any, version: str, stated: Any, project: Project, calls: Any) -> None:
    """Serve the page beside MCP, and say where; MCP goes on where that cannot be done."""
    from filemem.server import http

    site = _site(project, stated)
    address, shown = _address(project, stated)
    try:
        http.serve_beside(
            offer, calls, version, address, site, partial(_tell, site, address, shown)
        )
    except FilememError as error:
        click.echo(f"filemem: no page is served: {error.told}", err=True)


def _site(project: Project, stated: Any) -> Any:
    """The site of a project; the page of an empty memory says what is still to be set up."""
    from filemem.agents import doctor
    from filemem.web.site import Site

    def todo() -> list[str]:
        return doctor.todo(doctor.checks(project.folder, project.store))

    return Site(stated, todo=todo)


def _address(
    project: Project, stated: Any, token: str = "", port: int | None = None, **where: Any
) -> tuple[Any, bool]:
    """Where to listen, and whether the token was made here, so that it must be shown: one that was given is known."""
    from filemem import config
    from filemem.server import http

    settings = config.load(project.folder)
    settings.refuse_unread()  # the token may stand in what cannot be read
    chosen = token or settings.token or stated.token
    secret = "" if chosen == NO_TOKEN else chosen or secrets.token_urlsafe(24)
    ports = (port, stated.port, PORT)
    number = next(one for one in ports if one is not None)
    address = http.Address(port=number, remote=bool(chosen), token=secret, **where)
    return address, not chosen


def _tell(site: Any, address: Any, shown: bool, port: int, ask: Any, record: str = "") -> None:
    """Say where the page is, here and for `status`; here at a record."""
    from filemem.repo import served

    host = f"[{address.host}]" if ":" in address.host else address.host
    page = f"http://{host}:{port}/viewer" + (f"?token={address.token}" if shown else "")
    click.echo(f"filemem: a page for people: {page}{record}", err=True)
    if not address.token:
        click.echo(f"filemem: {OPEN}", err=True)
    site.note(f"started on port {port}")
    ask(
        lambda memory: memory.closing.append(
            served.publish(memory.keeper.store.repo.private, page).close
        )
    )


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; off loopback a token is needed.",
)
@click.option(
    "--port", type=int, help="TCP port; 0 takes a free one.  [default: MAMA_SERVER_PORT, or 3847]"
)
@click.option(
    "--token",
    default="",
    help="What every request must carry, or none; other users see it here: see FILEMEM_TOKEN.",
)
@many("--name", "names", help="A further host name by which clients call this machine.")
@click.option(
    "--phone",
    is_flag=True,
    help="For a phone in this network: shows a QR code to open the page by.",
)
@_profile
@_prefix
@click.argument("id", default="")
@pass_project
def web(
    project: Project,
    /,
    id: str,  # noqa: A002  the tools' word
    host: str,
    port: int | None,
    token: str,
    names: tuple[str, ...],
    phone: bool,
    **tools: str,
) -> None:
    """Serve this project's memory over HTTP: a page for people, the routes of MAMA and mem-claude, and MCP at /mcp.

    Only programs on this machine may connect, and every request needs the token in the address
    printed at the start; the page takes it out of the address and keeps a cookie. `--token none`
    serves every program and user of this machine without one, private records apart. To listen on
    an address that other machines can reach, set a token of your own. There is no encryption, so
    put a proxy or a tunnel in front.

    With --phone the page is served to the local network, by this machine's address there and with a token of its own,
    without encryption.

    With an ID the page opens at this record. A page that is served already is used.

    \b
    Examples:
      filemem web
      filemem web k3f9w2ma
      filemem web --port 8080
      filemem web --phone
      FILEMEM_TOKEN=$(openssl rand -hex 32) filemem web --host 0.0.0.0 --name build.lan
    """
    from filemem import VERSION, config
    from filemem.cli.find import with_workspace
    from filemem.dialects.tool import profile as offered
    from filemem.repo import Repo
    from filemem.server import http

    Repo.discover(project.folder).close()  # without one it does not start
    record, pages = project.page_of(id) if id else ("", [])
    if pages:
        click.echo(pages[0] + record)
        return
    offer = with_workspace(project, offered(tools["profile"], tools["prefix"]))
    stated = config.web()
    site = _site(project, stated)
    if phone:
        _refuse_named(token, names)
        token = secrets.token_urlsafe(24)
        host = local_address() if host == "127.0.0.1" else host
    address, shown = _address(project, stated, token, port, host=host, names=names, alone=phone)

    def tell(port: int, ask: Any) -> None:
        _tell(site, address, shown or phone, port, ask, record)
        for line in filter(None, (stated.unneeded, NO_ENCRYPTION if phone else "")):
            click.echo(f"filemem: {line}", err=True)
        if phone:
            _draw(f"http://{address.host}:{port}/viewer?token={address.token}")

    http.serve(offer, _opener(project), VERSION, address, site, tell, report)


def _refuse_named(token: str, names: Sequence[str]) -> None:
    """Raise BadInput where a page for a phone is given what it makes itself."""
    if token or names:
        raise BadInput(
            "--phone has an address and a token of its own",
            "leave out --token and --name",
            field="phone",
        )


def _draw(page: str) -> None:
    """Show an address as a QR code."""
    import segno

    segno.make(page, error="l", micro=False).terminal(out=sys.stderr, border=2, compact=True)
    sys.stderr.flush()


def local_address() -> str:
    """This machine's address in the local network. Raises BadInput: it has none, or the Internet reaches it."""
    import ipaddress
    import socket

    found = "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # says by which address it would go there; nothing is sent
        found = probe.getsockname()[0]
    if ipaddress.ip_address(found).is_loopback or ipaddress.ip_address(found).is_global:
        told = f"this machine has no address of a local network, only {found}"
        raise BadInput(
            told, "join the network that the phone is in, or name an address: --host", field="phone"
        )
    return found


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--base", default="", metavar="URL", help="Its address: adds sitemap.xml and feed.xml."
)
@as_json
@pass_project
def site(project: Project, /, as_json: bool, out: Path, base: str) -> None:
    """Write the memory as a web site of static files: the page, and one for each record that needs no script.

    It opens by a double click, and any host of static files can serve it. Only public records are written, and the
    same memory gives the same files. OUT must be empty, or a site that was written here before.

    \b
    Examples:
      filemem site public
      filemem site public --base https://example.org/decisions/
    """
    from filemem.web.export import write_site

    with project.memory() as memory:
        folder = project.here / out
        count = write_site(memory, folder, base)
        told = {"success": True, "folder": str(folder), "records": count}
        emit(
            told,
            as_json,
            lambda answer: f"{answer['records']} records: {answer['folder']}/index.html",
        )


def _opener(project: Project) -> Callable[[], Memory]:
    """Return the function that opens the memory and its watcher at the first call."""

    def opened() -> Memory:
        from filemem.cli import asked
        from filemem.cli.find import join, takes_part
        from filemem.memory import Memory
        from filemem.watch import Watcher

        memory = Memory.open(project.folder, store=project.store, serving=True)
        watcher = Watcher(memory)
        watcher.start()
        watcher.looked.wait(PATIENCE)  # a first index that takes longer is asked as it grows
        memory.closing.append(watcher.stop)
        asked.listen(project, memory)
        if takes_part(project):
            join(memory)
        return memory

    return opened


def _with_personal(project: Project, user: str) -> Callable[[], Memory]:
    """Return the function that opens the project's memory with the user's personal one beside it, or that one alone.

    Alone: if it is asked for, or there is no repository. `user`: the user of calls that name none.
    """
    own = cache(Personal)

    def opened() -> Memory:
        why = "."
        with suppress(BrokenStore):  # which the first call tells
            try:
                find(project.here)
            except NotFound:
                why = f": {project.here} is in no Git repository."
        if project.personal or (why != "." and not project.stated):
            memory: Any = own()
            memory.notice = f"This is the user's personal memory, {personal_folder()}{why}"
        else:
            memory = _opener(project)()
            memory.notice = memory.keeper.ask(_which_work_tree)
            memory.closing.append(lambda: own().close() if own.cache_info().currsize else None)
        memory.stated_user, memory.personal = user, own
        return cast("Memory", memory)

    return opened


def _which_work_tree(store: Store) -> str:
    """Say which work tree a server is for; "" where the repository has no other."""
    code = store.code
    if not (code.common_dir / "worktrees").is_dir():
        return ""
    own = (
        code.work_tree,
        store.repo.work_tree,
    )  # the second: a memory on its own branch
    if not any(top not in own and top.is_dir() for top in code.work_trees()):
        return ""
    branch = code.branch()
    place = f"{code.work_tree}, on branch {branch}" if branch else str(code.work_tree)
    return f"This server reads and saves in the work tree {place}; for another, start one there"


class Personal:
    """Stands for the `Memory` that answers: the user's, or until the first save an empty one in a temporary folder.

    So reading creates nothing.
    """

    def __init__(self) -> None:
        self.opened, self.saved, self._memory = ExitStack(), False, cast("Memory", None)

    def __getattr__(self, name: str) -> Any:
        from filemem.agents.init import begin
        from filemem.memory import Memory

        folder = personal_folder()
        saved = name == "save" or (folder / ".git").exists()
        if self._memory is None or saved != self.saved:
            self.close()
            self.saved = saved
            if not saved:
                folder = Path(self.opened.enter_context(TemporaryDirectory(prefix="filemem-")))
            begin(folder)  # without a watcher: what other servers save is looked for
            self._memory = self.opened.enter_context(closing(Memory.open(folder, stays=True)))
        return getattr(self._memory, name)

    def close(self) -> None:
        """Close everything; what is asked next is opened anew."""
        self.opened.close()
        self._memory = cast("Memory", None)


def report(tool: str, error: BaseException) -> None:
    """Write a report of a defect; the server goes on."""
    import traceback

    trace = "".join(traceback.format_exception(error))
    click.echo(
        f"filemem: defect in {tool}, report in {crash_report(trace, ['filemem', 'serve', tool])}",
        err=True,
    )
