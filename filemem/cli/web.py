"""The command web: HTTP with a page for people, for this machine or for a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from filemem.cli import browser
from filemem.cli.offer import build_dialect
from filemem.cli.options import pass_project, prefix_option, profile_option, repeatable_option
from filemem.cli.project import Project
from filemem.cli.serve import report_crash
from filemem.repo import Repo

if TYPE_CHECKING:
    from filemem.memory import Memory


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
@repeatable_option(
    "--name", "names", help="A further host name by which clients call this machine."
)
@click.option(
    "--phone",
    is_flag=True,
    help="For a phone in this network: shows a QR code to open the page by.",
)
@profile_option
@prefix_option
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
    **profile: str,
) -> None:
    """Serve this project's memory over HTTP: a page for people, MCP at /mcp, and other routes.

    The other routes are those of MAMA and mem-claude.

    Only programs on this machine may connect, and every request needs the token in the address
    printed at the start; the page takes it out of the address and keeps a cookie. `--token none`
    serves every program and user of this machine without one, private records apart. To listen on
    an address that other machines can reach, set a token of your own. There is no encryption, so
    put a proxy or a tunnel in front.

    With --phone the page is served to the local network, by this machine's address there and with a
    token of its own, without encryption.

    With an ID your browser opens this record. A page that is served already is used.

    \b
    Examples:
      filemem web
      filemem web k3f9w2ma
      filemem web --port 8080
      filemem web --phone
      FILEMEM_TOKEN=$(openssl rand -hex 32) filemem web --host 0.0.0.0 --name build.lan
    """
    from filemem.cli import page

    repo = Repo.discover(project.folder)  # raises outside a repository
    repo.close()

    def open_browser(url: str) -> None:
        browser.open_page(repo.private_folder, url)

    record_id = ""
    if id:
        record_id, pages = project.find_pages(id)
        if pages:
            click.echo(pages[0])
            open_browser(pages[0])
            return
    tools = build_dialect(project, profile["profile"], profile["prefix"])
    request = page.Request(
        host=host, port=port, token=token, names=names, phone=phone, record=record_id
    )

    def open_memory() -> Memory:
        from filemem.cli import opener

        return opener.open_memory(project)

    page.serve_page(project, tools, request, open_browser, open_memory, report_crash)
