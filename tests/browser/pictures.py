"""The pictures of the page in docs/: `python -m tests.browser.pictures [FOLDER]` takes them anew.

They show the invented memory of 210 decisions, with some edges, and one that is empty.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.browser import memory
from tests.browser.browser import Browser, Page, find
from tests.web.support import Server, serving

DOCS = Path(__file__).parents[2] / "docs"


class View(NamedTuple):
    """One picture: its name, the address, what is done then, and how the page is looked at."""

    name: str
    hash: str
    does: str = ""
    width: int = 1440
    height: int = 900
    dark: bool = False


OPEN = "App.open(Data.decisions.find(row => row.title.startsWith('{}')).id)"
VIEWS = (
    View("timeline", "#view=time&from=all"),
    View("record", "#view=time&from=all", OPEN.format("Kafka, for the log")),
    View("edges", "#view=time&from=2024-01-01T00:00Z&edges=all"),
    View("dark", "#view=time&by=topic&asof=2025-02-28&from=all", dark=True),
    View("form", "#view=time&from=all", "Forms.save()"),
    View("phone", "#view=list", OPEN.format("Kafka, for the log"), 390, 844),
)


def save(folder: Path, topic: str, decision: str, reasoning: str, *more: str) -> None:
    """Save a decision as an agent does."""
    line = [sys.executable, "-m", "filemem", "-C", str(folder), "save", "--topic", topic]
    line += ["--decision", decision, "--reasoning", reasoning, *more]
    subprocess.run(line, check=True, capture_output=True)


def link(folder: Path) -> None:
    """Let some decisions build on, debate and unite others, by what their files say."""
    made = {decision.title: decision for decision in memory.decisions()}
    stated = (
        ("Kafka, for the log of orders alone", "builds_on", "One log, read by many", "Orders are read by five teams."),
        ("A table in Postgres with SKIP LOCKED", "debates", "Kafka, for the log of orders alone", "One more thing to run."),
        ("After five attempts a message goes to a second queue, with the reason", "builds_on", "A table in Postgres with SKIP LOCKED", "The same table holds both."),
        ("Two providers; the second takes over when the first fails", "builds_on", "Refunds are records of their own that name the payment", "A refund says who paid."),
        ("Expand and contract: no migration breaks the running version", "debates", "Run migrations as a job before the release", "A job cannot be taken back."),
    )  # fmt: skip
    for title, kind, other, reason in stated:
        if title in made and other in made:
            path = folder / memory.path(made[title])
            line = f"{kind}: {made[other].id}. {reason}"
            text = path.read_text().replace("This settles", f"{line}\n\nThis settles", 1)
            path.write_text(text)
    subprocess.run(["git", "-C", str(folder), "commit", "-qam", "Say why"], check=True)


def take(page: Page, server: Server, view: View, folder: Path) -> None:
    """Show a view and write it."""
    page.look(view.width, view.height, dark=view.dark)
    page.open(f"http://127.0.0.1:{server.port}/viewer{view.hash}")
    if view.does:
        page.js(f"void {view.does}")
    if view.name == "form":
        page.js("document.querySelector('[name=topic]').focus()")
        page.write("rate limits")
        page.js("document.querySelector('[name=decision]').focus()")
        page.write("Limit by shop, in the database")
        page.there(".near li")
    shoot(page, folder / f"viewer-{view.name}.png")


def shoot(page: Page, file: Path) -> None:
    """Write what the page shows once it is quiet."""
    page.js("new Promise(done => setTimeout(done, 900))")
    file.write_bytes(base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"]))


def live(browser: Browser, shop: Path, folder: Path) -> None:
    """What an agent saves while the page is open."""
    with serving(shop) as server:
        page = browser.page()
        page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
        save(
            shop,
            "parcels",
            "Ship by weight, not by volume",
            "Asked of the carrier",
            "--agent",
            "claude-code",
        )
        page.there("#fresh .button")
        page.js("Timeline.reveal(Data.decisions.at(-1).id)")
        shoot(page, folder / "viewer-live.png")


def main(folder: Path) -> None:
    """Take them all."""
    scratch = Path(tempfile.mkdtemp())
    shop = scratch / "shop"
    memory.write(shop)
    link(shop)
    browser = Browser(find(), scratch / "profile")
    with serving(shop) as server:
        server.get("/viewer/search", q="sessions")
        page = browser.page()
        page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
        for view in VIEWS:
            take(page, server, view, folder)
    live(browser, shop, folder)
    empty = scratch / "depot"
    subprocess.run(["git", "init", "-qb", "main", str(empty)], check=True)
    with serving(empty) as server:
        page = browser.page()
        page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
        page.wait("!document.querySelector('#welcome .plain').textContent.includes('…')")
        shoot(page, folder / "viewer-welcome.png")
    browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
