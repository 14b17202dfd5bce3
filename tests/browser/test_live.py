"""What happens while the page is open: records that are saved beside it, and other projects of the workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page
from tests.browser.test_first_look import filemem, opened
from tests.browser.test_viewer import show
from tests.browser.test_widths import check
from tests.support import git, make_repo
from tests.web.support import Server, serving

TOP = "[...document.querySelectorAll('#fresh [data-fresh] span')].map(each => each.textContent)"
MARKED = "[...document.querySelectorAll('.mark.fresh, .row.fresh')].map(each => each.dataset.id)"
NAMES = "[...document.querySelectorAll('#project option')].map(each => each.textContent)"
ABOVE = """document.getElementById('fresh').getBoundingClientRect().bottom
  <= document.getElementById('board').getBoundingClientRect().top"""


def save(folder: Path, decision: str, *more: str) -> str:
    """Save a decision as an agent does; its id."""
    line = ("save", "--json", "--topic", decision, "--decision", decision, "--reasoning", "A test")
    return str(json.loads(filemem(folder, *line, *more))["id"])


def choose(page: Page, key: str) -> None:
    """Choose a project, as a reader does."""
    page.js(f"document.getElementById('project').value = {json.dumps(key)}")
    page.js("document.getElementById('project').dispatchEvent(new Event('change'))")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Server]:
    """`filemem web` on a memory of its own."""
    folder = tmp_path / "shop"
    memory.write(folder, 60)
    with serving(folder) as running:
        yield running


def test_what_an_agent_saves_is_at_the_top_for_a_minute(browser: Browser, live: Server) -> None:
    """Without a reload, with its topic and who saved it, marked in the timeline and in the list; then it is as the others."""
    page = opened(browser, live)
    page.js("window.stays = true")
    assert page.js(TOP) == []
    saved = save(live.folder, "Count them twice", "--agent", "claude-code")
    page.there("#fresh [data-fresh]")
    assert page.js(TOP) == ["Count them twice"]
    assert "claude-code" in page.js("document.querySelector('#fresh').textContent")
    assert page.js(ABOVE)
    assert page.js("window.stays")
    page.js(f"Timeline.reveal({json.dumps(saved)})")
    page.wait(f"{MARKED}.includes({json.dumps(saved)})")
    page.key("l")
    page.wait(f"{MARKED}.length === 1")
    assert page.js("document.querySelector('#rows .row').dataset.id") == saved
    old = next(one for one in memory.decisions(60) if one.outcome == "pending")
    filemem(live.folder, "update", old.id, "--outcome", "failed", "--reason", "A test")
    page.wait(f"{TOP}.length === 2")
    page.press("#fresh [data-fresh]")
    assert page.js("State.now.id") == saved
    page.js("Live.tick(Date.now() + 60_001); App.refresh('fresh')")
    assert page.js(TOP) == []
    assert page.js(MARKED) == []
    assert page.js("document.getElementById('fresh').hidden")
    assert page.wrong == []


def test_a_switch_shows_another_project(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered repositories are one choice away: to look at and to search, never to write; what is saved there appears too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    shop = tmp_path / "shop"
    memory.write(shop, 60)
    depot = make_repo(tmp_path / "depot")
    first = save(depot, "Pick by shelf")
    built = save(depot, "Pick by robot", "--builds-on", first)
    filemem(shop, "workspace", "add", ".", str(depot))
    before = git(depot, "rev-parse", "HEAD")
    with serving(shop) as server:
        page = opened(browser, server)
        page.wait(f"{NAMES}.length === 2")
        assert page.js(NAMES) == ["shop", "depot"]
        key = page.js("document.querySelector('#project option:last-child').value")
        choose(page, key)
        page.wait("Data.decisions.length === 2 && 'ready' in document.body.dataset")
        page.wait(
            f"{NAMES}.length === 2 && document.getElementById('project').value === {json.dumps(key)}"
        )
        assert page.js("document.title").startswith("depot")
        assert page.js("document.getElementById('new').hidden")
        page.js(f"App.open({json.dumps(built)})")
        page.there("#panel .commits")
        page.there("#lanes .e-builds_on")
        assert page.js("document.querySelector('#panel form')") is None
        page.key("/")
        page.write("robot")
        page.wait("document.querySelector('#hits .hit-title')?.textContent === 'Pick by robot'")
        page.key("Escape")
        later = save(depot, "Pick by drone")
        page.wait(f"Data.get({json.dumps(later)})")
        assert page.js(TOP) == ["Pick by drone"]
        for width in (320, 390, 768, 1440):
            page.look(width, 800)
            page.wait(f"document.getElementById('picture').clientWidth <= {width}")
            check(page, f"{width} px")
        assert git(depot, "rev-parse", "HEAD~1").strip() == before.strip()
        page.js(f"App.open({json.dumps(first)})")
        page.there("#panel .actions a")
        page.press("#panel .actions a")
        page.wait("document.querySelector('h1')?.textContent === 'Pick by shelf'")
        page.press("footer .later a")
        page.wait("document.querySelector('h1')?.textContent === 'Pick by robot'")
        page.press("header a")
        page.wait("typeof Data === 'object' && Data.decisions.length === 3")
        page.wait(f"'ready' in document.body.dataset && {NAMES}.length === 2")
        choose(page, "")
        page.wait("Data.decisions.length === 60 && !document.getElementById('new').hidden")
        told = server.get("/viewer/data", repository="0badc0de")
        assert (told.status, "no such repository" in told.body["error"]) == (404, True)
        assert (
            server.post(
                "/viewer/save", topic="x", decision="x", reasoning="x", repository=key
            ).status
            == 400
        )
        assert page.wrong == []


def test_without_a_workspace_there_is_no_switch(page: Page, server: Server) -> None:
    """A repository that is not registered shows itself alone, and answers for no other."""
    show(page, server, "", ".mark")
    assert page.js("document.getElementById('project').hidden")
    assert server.get("/viewer/projects").body == {"projects": []}
    assert server.get("/viewer/data", repository="0badc0de").status == 404
