"""Records as documents and the list of all, in a real browser: from the server and from `filemem site`."""

from __future__ import annotations

import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, run

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page, axe
from tests.browser.test_viewer import VIOLATIONS, a_chain
from tests.support import git, write
from tests.system.tools import ok
from tests.web.support import Server, serving

WIDTHS = (320, 390, 640, 820, 1180, 1440, 2560)
DONE = "true"  # when a page without script has loaded
LONG = "decision_reading_1700000000000_longlong"
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"
TEXT = "document.querySelector('main').innerText"
TITLE = "document.querySelector('h1')?.textContent"
PARTS = [
    f"## Part {number}\n\n#### Detail {number}\n\n" + "What there is to say goes on. " * 20
    for number in range(6)
]
TABLE = "| " + " | ".join(f"column-{n}" for n in range(12)) + " |\n" + "|---" * 12 + "|\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The 210 decisions, one of them with an outcome, and a long one."""
    folder = tmp_path_factory.mktemp("read") / "shop"
    memory.write(folder)
    head = f"---\nid: {LONG}\ntopic: reading\nsupersedes: []\ntags: [docs, api]\n---\n"
    code = "```\n" + "a line of code that is too long for a phone " * 4 + "\n```\n"
    text = "\n\n".join([f"{head}# A long decision", *PARTS, TABLE, code])
    write(folder / "memory/decisions/long.md", text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A long one")
    ok(folder, "update", a_chain()[-1], "--outcome", "failed", "--reason", "Too slow by half")
    with serving(folder) as running:
        yield running


@pytest.fixture
def reader(browser: Browser, shop: Server) -> Page:
    """A page that has the cookie."""
    made = browser.page()
    made.open(f"http://127.0.0.1:{shop.port}/viewer/log?token={shop.token}", DONE)
    return made


def show(page: Page, server: Server, record_id: str) -> None:
    """Open a record as a document."""
    page.open(f"http://127.0.0.1:{server.port}/viewer/read?id={record_id}", DONE)


def test_a_decision_reads_as_a_document(reader: Page, shop: Server) -> None:
    """Status, who says so and since when, what it replaced, what came of it, and the way on."""
    made = {one.id: one for one in memory.decisions()}
    _, middle, newest = a_chain()
    show(reader, shop, middle)
    text = reader.js(TEXT)
    heir = made[newest]
    assert f"replaced by {heir.title}, since {heir.when:%Y-%m-%d}, says {heir.who}" in text
    assert f"decided {made[middle].when:%Y-%m-%d}, says {made[middle].who}" in text
    for title in ("Why", "Ruled out", "Replaces", "How it was decided, oldest first", "Commits"):
        assert f"\n{title}\n" in text, title
    reader.key("]")
    reader.wait(f"{TITLE} === {json.dumps(heir.title)}")
    assert "failed since" in reader.js(TEXT)
    assert "Too slow by half" in reader.js(TEXT)
    reader.key("[")
    reader.wait(f"{TITLE} === {json.dumps(made[middle].title)}")
    order = list(made)
    after = made[order[order.index(middle) + 1]]
    reader.key("ArrowRight")
    reader.wait(f"{TITLE} === {json.dumps(after.title)}")
    assert reader.wrong == []


def test_a_long_decision_has_a_table_of_contents(reader: Page, shop: Server) -> None:
    """Each heading is in it and can be reached; a short decision has none, and a short id is enough."""
    show(reader, shop, "longlong")
    entries = reader.js("[...document.querySelectorAll('.contents a')].map(a => a.textContent)")
    assert entries[:3] == ["Why", "Part 0", "Detail 0"]
    assert reader.js(
        "[...document.querySelectorAll('.contents a')].every(a => document.querySelector(a.hash))"
    )
    reader.press(".contents li:nth-child(8) a")
    reader.wait("scrollY > 300")
    show(reader, shop, a_chain()[0])
    assert reader.js("document.querySelector('.contents')") is None


def test_the_log_lists_every_record_without_script(shop: Server, reader: Page) -> None:
    """Title, date, status and author of each, newest first; its links lead to the documents."""
    page = shop.get("/viewer/log").text
    for one in memory.decisions():
        assert f"{one.when:%Y-%m-%d} · " in page
        assert one.title.replace("&", "&amp;").replace("'", "&#x27;") in page
    assert page.count("<li>") == 211
    assert " · holds · failed · " in page
    assert "pending" not in page
    days = reader.js(
        "[...document.querySelectorAll('.log small')].map(each => each.textContent.slice(0, 10))"
    )
    dated = [day for day in days if day[:2] == "20"]
    assert dated == sorted(dated, reverse=True)
    assert len(dated) >= 210
    reader.press(".log li:nth-child(2) a")
    reader.wait("location.pathname === '/viewer/read'")
    assert shop.get("/viewer/read", id="nothing").status == 404


def test_the_viewer_leads_to_the_document(reader: Page, shop: Server) -> None:
    """By the button in the panel and by the key; Back leads to the record in the timeline."""
    newest = a_chain()[-1]
    title = next(one.title for one in memory.decisions() if one.id == newest)
    reader.open(f"http://127.0.0.1:{shop.port}/viewer#view=time&id={newest}")
    reader.there("#panel .actions a")
    reader.press("#panel .actions a")
    reader.wait(f"location.pathname === '/viewer/read' && {TITLE} === {json.dumps(title)}")
    reader.key("t")
    reader.wait(f"location.pathname === '/viewer' && State.now.id === {json.dumps(newest)}")
    reader.key("r")
    reader.wait("location.pathname === '/viewer/read'")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_read_it(reader: Page, shop: Server, dark: bool) -> None:
    """axe finds nothing and nothing is beyond an edge, from a small phone to a wide screen."""
    script = axe()
    if isinstance(script, str):
        pytest.skip(script)
    for width in WIDTHS:
        reader.look(width, 800, dark=dark)
        for path in (f"read?id={LONG}", f"read?id={a_chain()[-1]}", "log"):
            reader.open(f"http://127.0.0.1:{shop.port}/viewer/{path}", DONE)
            assert reader.js(SIDEWAYS) <= 0, (width, path)
            if width in (390, 1440):
                reader.js(script.read_text(encoding="utf-8"))
                assert reader.js(VIOLATIONS) == [], (width, path)
    assert reader.wrong == []


def test_the_site_has_the_same_pages(browser: Browser, shop: Server, tmp_path: Path) -> None:
    """By a double click: the list, the documents, the way to the timeline, with nothing refused."""
    ok(shop.folder, "site", str(tmp_path / "out"))
    page = browser.page()
    page.open((tmp_path / "out/log.html").as_uri(), DONE)
    assert page.js("document.querySelectorAll('.log li').length") == 211
    page.open((tmp_path / f"out/d/{LONG}/index.html").as_uri(), DONE)
    assert page.js("getComputedStyle(document.querySelector('.contents')).position") == "fixed"
    page.press("header a")
    page.wait(f"typeof State === 'object' && State.now.id === {json.dumps(LONG)}")
    assert page.wrong == []


def test_web_opens_the_record_in_the_browser(
    browser: Browser, shop: Server, tmp_path: Path
) -> None:
    """The program is started with a file that only its owner can read, and that is gone afterwards."""
    kept = tmp_path / "kept"
    script = (
        f'#!/bin/sh\nfile="${{1#file://}}"\nstat -c %a "$file" > {kept}.mode\n'
        f'echo "$file" > {kept}.name\ncp "$file" {kept}.html\n'
    )
    program = write(tmp_path / "browser", script)
    program.chmod(0o755)
    command = (
        "import runpy, sys, filemem.cli.browser as b; b.OPENING = 0.5; "
        f"sys.argv = ['filemem', '-C', {str(shop.folder)!r}, 'web', {LONG!r}]; "
        "runpy.run_module('filemem', run_name='__main__')"
    )
    master, slave = pty.openpty()
    done = run(
        [sys.executable, "-c", command],
        env={**os.environ, "DISPLAY": ":9", "BROWSER": f"{program} %s"},
        stdout=PIPE,
        stderr=slave,
        text=True,
        check=True,
        timeout=60,
    )
    os.close(slave)
    os.close(master)
    file = Path(Path(f"{kept}.name").read_text(encoding="utf-8").strip())
    assert Path(f"{kept}.mode").read_text(encoding="utf-8") == "600\n"
    assert file.is_relative_to(shop.folder / ".git")
    assert not file.exists()
    page = browser.page()
    page.call("Page.navigate", url=Path(f"{kept}.html").as_uri())
    page.wait(f"location.pathname === '/viewer/read' && {TITLE} === 'A long decision'")
    assert shop.token in done.stdout
    assert shop.token not in page.js("location.href")
