"""The page for people and the routes beside it, served over HTTP: alone, or beside MCP."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

import click
import segno

from filemem import VERSION, config
from filemem.agents import doctor
from filemem.cli.project import Project, build_document_url
from filemem.dialects.tool import Dialect
from filemem.errors import BadInput, FilememError
from filemem.repo import served
from filemem.server import http
from filemem.server.http import Address
from filemem.web.site import Site

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.server.calls import CallQueue, OnCrash, OpenMemory
    from filemem.server.door import Ask

PORT = 3847
NO_TOKEN = "none"  # noqa: S105  the word that a user sets in place of a token
OPEN_NOTICE = (
    "no token is needed: every program and every user of this machine may read and save here, "
    "private records apart"
)
ENCRYPTION_NOTICE = (
    "there is no encryption: anyone in this network can read along, and then do what the phone may "
    "do. Use it at home or at work, not in a café; Ctrl-C ends it"
)


class Request(NamedTuple):
    """What the command line says about a page; `record` is the id of one to open."""

    host: str = "127.0.0.1"
    port: int | None = None
    token: str = ""
    names: tuple[str, ...] = ()
    phone: bool = False
    record: str = ""


class Page(NamedTuple):
    """A page that is served, and whether its token must be shown since it was made here."""

    site: Site
    address: Address
    has_new_token: bool

    def build_url(self, port: int, *, with_token: bool, record: str = "") -> str:
        """Its address, or that of a record on it."""
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        token = f"?token={self.address.token}" if with_token else ""
        address = f"http://{host}:{port}/viewer{token}"
        return build_document_url(address, record) if record else address


def serve_page(
    project: Project,
    dialect: Dialect,
    request: Request,
    open_browser: Callable[[str], None],
    opener: OpenMemory,
    on_crash: OnCrash,
) -> None:
    """Serve the page and MCP until a signal comes; `show` opens an address in the browser."""
    if request.phone:
        request = _prepare_phone_request(request)
    page = _build_page(project, request)

    def announce_page(port: int, ask: Ask) -> None:
        shows_token = page.has_new_token or request.phone
        _announce_page(page, port, ask, with_token=shows_token, record=request.record)
        if request.record:
            address = page.build_url(
                port, with_token=bool(page.address.token), record=request.record
            )
            Thread(target=open_browser, args=(address,)).start()
        unneeded_settings = config.read_web_settings().unneeded_note
        if unneeded_settings:
            click.echo(f"filemem: {unneeded_settings}", err=True)
        if request.phone:
            click.echo(f"filemem: {ENCRYPTION_NOTICE}", err=True)
            _draw_qr_code(page.build_url(port, with_token=True))

    http.serve(dialect, opener, VERSION, page.address, page.site, announce_page, on_crash)


def serve_beside_stdio(project: Project, dialect: Dialect, calls: CallQueue) -> None:
    """Serve the page beside MCP; if that cannot be done, say so: MCP goes on."""
    page = _build_page(project, Request())

    def announce_page(port: int, ask: Ask) -> None:
        _announce_page(page, port, ask, with_token=page.has_new_token)

    try:
        http.serve_beside(dialect, calls, VERSION, page.address, page.site, announce_page)
    except FilememError as error:
        click.echo(f"filemem: no page is served: {error.one_line}", err=True)


def _build_page(project: Project, request: Request) -> Page:
    """The site, and where it is served, by the command line, the settings and the environment."""
    environment = config.read_web_settings()
    settings = config.load(project.folder)
    settings.refuse_unread()  # the token may stand in what cannot be read
    token = request.token or settings.token or environment.token
    ports = (request.port, environment.port, PORT)
    address = Address(
        host=request.host,
        port=next(port for port in ports if port is not None),
        is_remote_allowed=bool(token),
        token="" if token == NO_TOKEN else token or secrets.token_urlsafe(24),
        extra_names=request.names,
        is_loopback_refused=request.phone,
    )
    return Page(
        Site(environment, todo=_build_todo_lister(project)), address, has_new_token=not token
    )


def _build_todo_lister(project: Project) -> Callable[[], list[str]]:
    """What is still to be set up; the page of an empty memory shows it."""
    return lambda: doctor.list_todos(doctor.run_checks(project.folder, project.store))


def _announce_page(page: Page, port: int, ask: Ask, *, with_token: bool, record: str = "") -> None:
    """Say where the page is, here and for `status`; here at a record."""
    address = page.build_url(port, with_token=with_token)
    shown_address = page.build_url(port, with_token=with_token, record=record)
    click.echo(f"filemem: a page for people: {shown_address}", err=True)
    if not page.address.token:
        click.echo(f"filemem: {OPEN_NOTICE}", err=True)
    page.site.add_log_line(f"started on port {port}")

    def publish_address(memory: Memory) -> None:
        file = served.publish_address(memory.keeper.store.repo.private_folder, address)
        memory.close_callbacks.append(file.close)

    ask(publish_address)


def _prepare_phone_request(request: Request) -> Request:
    """With a new token, on an address in the local network. Raises BadInput if one is stated."""
    if request.token or request.names:
        raise BadInput(
            "--phone has an address and a token of its own",
            "leave out --token and --name",
            field="phone",
        )
    host = find_local_address() if request.host == "127.0.0.1" else request.host
    return request._replace(host=host, token=secrets.token_urlsafe(24))


def find_local_address() -> str:
    """This machine's address in the local network.

    Raises BadInput if it has none, or if the Internet reaches it.
    """
    host = "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # shows its own address on the way; nothing is sent
        host = probe.getsockname()[0]
    address = ipaddress.ip_address(host)
    if address.is_loopback or address.is_global:
        raise BadInput(
            f"this machine has no address of a local network, only {host}",
            "join the network that the phone is in, or name an address: --host",
            field="phone",
        )
    return host


def _draw_qr_code(address: str) -> None:
    """Show an address as a QR code."""
    segno.make(address, error="l", micro=False).terminal(out=sys.stderr, border=2, compact=True)
    sys.stderr.flush()
