"""Serve the page for people over HTTP: by `filemem web`, or beside MCP by `filemem serve`."""

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
NO_TOKEN = "none"  # noqa: S105  a user sets this in place of a token
OPEN_NOTICE = (
    "no token is needed: every program and every user of this machine may read and save here, "
    "private records apart"
)
ENCRYPTION_NOTICE = (
    "there is no encryption: anyone in this network can read along, and then do what the phone may "
    "do. Use it at home or at work, not in a café; Ctrl-C ends it"
)


class Request(NamedTuple):
    """What the command line asks for; `record` is the id of a record to open in the browser."""

    host: str = "127.0.0.1"
    port: int | None = None
    token: str = ""
    names: tuple[str, ...] = ()
    phone: bool = False
    record: str = ""


class Page(NamedTuple):
    """A page to serve, and whether its token was made for it, so that it must be shown."""

    site: Site
    address: Address
    has_new_token: bool

    def build_url(self, port: int, *, with_token: bool, record: str = "") -> str:
        """Build the address of the page, or that of a record on it."""
        host = self.address.host
        if ":" in host:  # IPv6
            host = f"[{host}]"
        url = f"http://{host}:{port}/viewer"
        if with_token:
            url += f"?token={self.address.token}"
        if record:
            return build_document_url(url, record)
        return url


def serve_page(
    project: Project,
    dialect: Dialect,
    request: Request,
    open_browser: Callable[[str], None],
    opener: OpenMemory,
    on_crash: OnCrash,
) -> None:
    """Serve the page and MCP until a signal comes."""
    if request.phone:
        request = _prepare_phone_request(request)
    page = _build_page(project, request)

    def announce_page(port: int, ask: Ask) -> None:
        shows_token = page.has_new_token or request.phone
        _announce_page(page, port, ask, with_token=shows_token, record=request.record)
        if request.record:
            has_token = bool(page.address.token)
            url = page.build_url(port, with_token=has_token, record=request.record)
            Thread(target=open_browser, args=(url,)).start()
        unneeded_settings = config.read_web_settings().unneeded_note
        if unneeded_settings:
            click.echo(f"filemem: {unneeded_settings}", err=True)
        if request.phone:
            click.echo(f"filemem: {ENCRYPTION_NOTICE}", err=True)
            _draw_qr_code(page.build_url(port, with_token=True))

    http.serve(dialect, opener, VERSION, page.address, page.site, announce_page, on_crash)


def serve_beside_stdio(project: Project, dialect: Dialect, calls: CallQueue) -> None:
    """Serve the page beside MCP; if that fails, report it and let MCP go on."""
    page = _build_page(project, Request())

    def announce_page(port: int, ask: Ask) -> None:
        _announce_page(page, port, ask, with_token=page.has_new_token)

    try:
        http.serve_beside(dialect, calls, VERSION, page.address, page.site, announce_page)
    except FilememError as error:
        click.echo(f"filemem: no page is served: {error.one_line}", err=True)


def _build_page(project: Project, request: Request) -> Page:
    """Build the site and its address; the command line wins over settings and environment."""
    web_settings = config.read_web_settings()
    settings = config.load(project.folder)
    settings.refuse_unread()  # a setting that cannot be read may be the token
    stated_token = request.token or settings.token or web_settings.token
    token = stated_token
    if stated_token == NO_TOKEN:
        token = ""
    elif not stated_token:
        token = secrets.token_urlsafe(24)
    address = Address(
        host=request.host,
        port=_choose_port(request, web_settings),
        is_remote_allowed=bool(stated_token),
        token=token,
        extra_names=request.names,
        is_loopback_refused=request.phone,
    )

    def list_todos() -> list[str]:
        return doctor.list_todos(doctor.run_checks(project.folder, project.store))

    site = Site(web_settings, todo=list_todos)
    return Page(site, address, has_new_token=not stated_token)


def _choose_port(request: Request, web_settings: config.WebSettings) -> int:
    if request.port is not None:
        return request.port
    if web_settings.port is not None:
        return web_settings.port
    return PORT


def _announce_page(page: Page, port: int, ask: Ask, *, with_token: bool, record: str = "") -> None:
    """Print the address of the page, or that of a record on it, and publish it for `status`."""
    url = page.build_url(port, with_token=with_token)
    shown_url = page.build_url(port, with_token=with_token, record=record)
    click.echo(f"filemem: a page for people: {shown_url}", err=True)
    if not page.address.token:
        click.echo(f"filemem: {OPEN_NOTICE}", err=True)
    page.site.add_log_line(f"started on port {port}")

    def publish_address(memory: Memory) -> None:
        file = served.publish_address(memory.keeper.store.repo.private_folder, url)
        memory.close_callbacks.append(file.close)

    ask(publish_address)


def _prepare_phone_request(request: Request) -> Request:
    """Set a new token and an address in the local network. Raises BadInput if they are stated."""
    if request.token or request.names:
        raise BadInput(
            "--phone has an address and a token of its own",
            "leave out --token and --name",
            field="phone",
        )
    host = request.host
    if host == "127.0.0.1":
        host = find_local_address()
    return request._replace(host=host, token=secrets.token_urlsafe(24))


def find_local_address() -> str:
    """Return the address of this machine in the local network.

    Raises BadInput if it has none, or if it can be reached from the Internet.
    """
    host = "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # picks our address for this route; sends nothing
        host = probe.getsockname()[0]
    address = ipaddress.ip_address(host)
    if address.is_loopback or address.is_global:
        raise BadInput(
            f"this machine has no address of a local network, only {host}",
            "join the network that the phone is in, or name an address: --host",
            field="phone",
        )
    return host


def _draw_qr_code(url: str) -> None:
    code = segno.make(url, error="l", micro=False)
    code.terminal(out=sys.stderr, border=2, compact=True)
    sys.stderr.flush()
