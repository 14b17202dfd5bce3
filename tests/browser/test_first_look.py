"""What somebody sees who opens the page for the first time: an empty memory, a small one, a large one."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page, axe
from tests.browser.test_viewer import VIOLATIONS
from tests.support import make_repo
from tests.web.support import Server, serving

SPOTS = "[...document.querySelectorAll('.mark')].map(each => each.getScreenCTM().e)"
SEEN = """(id => { const mark = document.querySelector(`.mark[data-id="${id}"]`).getBoundingClientRect();
  const board = document.getElementById('board').getBoundingClientRect();
  return mark.top > board.top + 34 && mark.bottom < board.bottom && mark.right < innerWidth })"""
IN_SIGHT = "Timeline.lanes.reduce((sum, lane) => sum + lane.packed.count, 0)"
TICKS = """Math.min(...[...document.querySelectorAll('#axis .tick')]
  .map(each => each.getBoundingClientRect().left))"""
CHIPS = """Object.fromEntries([...document.querySelectorAll('#legend [data-kind]')]
  .map(each => [each.dataset.kind, Number(each.querySelector('b').textContent)]))"""


def filemem(folder: Path, *arguments: str) -> str:
    """What the real command prints, whatever its exit status is."""
    line = [sys.executable, "-m", "filemem", "-C", str(folder), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout


def opened(browser: Browser, server: Server, width: int = 1440, *, dark: bool = False) -> Page:
    """The page, opened by the address that the server printed."""
    page = browser.page(width, 844 if width < 600 else 900, dark=dark)
    page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
    return page


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    """`filemem web` right after `filemem init`."""
    folder = make_repo(tmp_path / "new")
    filemem(folder, "init")
    with serving(folder) as running:
        yield running


def test_an_empty_memory_says_how_to_begin(browser: Browser, empty: Server) -> None:
    """It says what the page is, what `doctor` misses, and a command that saves: then the sheet is there."""
    page = opened(browser, empty)
    assert "what was decided in new" in page.js("document.querySelector('#welcome').textContent")
    commands = page.js(
        "[...document.querySelectorAll('#welcome .command code')].map(each => each.textContent)"
    )
    assert commands[1:] == ["filemem import claude-mem --dry-run", "filemem --store docs/adr web"]
    page.wait("!document.querySelector('#welcome .plain').textContent.includes('…')")
    shown = page.js(
        "[...document.querySelectorAll('#welcome .plain li')].map(each => each.textContent)"
    )
    missing = json.loads(filemem(empty.folder, "doctor", "--json"))["todo"]
    assert shown == [line.replace("`", "") for line in missing] or not missing
    page.press("#welcome .button.main")
    page.there("dialog[open] .save")
    page.key("Escape")
    program, *words = shlex.split(commands[0])
    assert program == "filemem"
    filemem(empty.folder, *words)
    page.there(".mark .title")
    assert page.js("document.querySelector('#welcome').hidden")
    assert page.wrong == []


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False)])
def test_everybody_can_use_the_empty_page(
    browser: Browser, empty: Server, width: int, dark: bool
) -> None:
    """axe finds nothing on the page of an empty memory."""
    script = axe()
    if isinstance(script, str):
        pytest.skip(script)
    page = opened(browser, empty, width, dark=dark)
    page.wait("!document.querySelector('#welcome .plain').textContent.includes('…')")
    page.js(script.read_text(encoding="utf-8"))
    assert page.js(VIOLATIONS) == []


def test_few_decisions_stand_in_order_not_in_one_column(browser: Browser, tmp_path: Path) -> None:
    """A dozen decisions of very different dates stand one equal step apart."""
    folder = tmp_path / "few"
    memory.write(folder, 12)
    with serving(folder) as server:
        page = opened(browser, server)
        spots = sorted(page.js(SPOTS))
        steps = [after - before for before, after in itertools.pairwise(spots)]
        assert len(spots) == 12
        assert max(steps) - min(steps) < 1
        assert spots[-1] - spots[0] > 700
        page.look(390, 844)
        page.wait("document.getElementById('picture').clientWidth <= 390")
        assert page.js(TICKS) >= 0
        page.js("Timeline.zoom(0.5)")
        assert 0 < len(page.js(SPOTS)) < 12
        assert page.wrong == []


def test_the_sheet_opens_at_now(page: Page, server: Server) -> None:
    """A large memory opens with its newest decisions; a filter and *All* look through all of it."""
    newest = page.js("Data.decisions.at(-1).id")
    assert page.js(f"{SEEN}({json.dumps(newest)})")
    assert 60 <= page.js(IN_SIGHT) < 80
    assert page.js("location.hash") == ""
    page.press("#spans [data-days='0']")
    assert page.js(IN_SIGHT) >= 210
    assert page.js("location.hash").endswith("from=all")
    page.open(f"http://127.0.0.1:{server.port}/viewer")
    page.press("#legend [data-kind=dead]")
    assert page.js("State.now.from") == 0
    assert "from" not in page.js("location.hash")


def test_the_counts_of_the_page_are_those_of_status(page: Page, server: Server) -> None:
    """Decisions, what holds, topics forked and every type: one number for one word."""
    status = json.loads(filemem(server.folder, "status", "--json"))
    chips = page.js(CHIPS)
    assert chips["holds"] == status["holding"]
    assert chips.get("fork", 0) == status["forked"]
    decisions = status["records"]["decision"]
    assert page.js("document.querySelector('#legend .sum').textContent") == f"{decisions} decisions"
    page.press("#legend [data-kind=holds]")
    shown = page.js("Data.decisions.filter(App.shown).length")
    assert shown == status["holding"]
    page.key("l")
    types = page.js("[...document.querySelectorAll('#types b')].map(each => +each.textContent)")
    counted = status["records"]
    assert types == [
        counted["decision"],
        counted["observation"],
        counted["checkpoint"],
        sum(counted.values()),
    ]
