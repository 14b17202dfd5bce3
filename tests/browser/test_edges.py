"""What decisions say of each other, in the picture: builds on, debates, synthesizes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page
from tests.browser.test_paper import off_paper, onto_paper
from tests.browser.test_viewer import SAVED, run, show
from tests.web.support import Server, serving

# Every edge that is drawn: its ends, its kind and its dashes.
DRAWN = """[...document.querySelectorAll('#lanes [data-edge]')].map(node =>
  [node.getAttribute('class').split(' ')[1], getComputedStyle(node.firstChild).strokeDasharray])"""
LEGEND = "[...document.querySelectorAll('[data-kind-of-edge]')].map(each => each.textContent)"
MIDDLE = """(node => { const path = node.querySelector('.reach');
  const point = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
  return [point.x, point.y] })"""
OVER = "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
WHY = "[...document.querySelectorAll('#panel .prose')].map(each => each.textContent).join(' ')"
REASONS = "[...document.querySelectorAll('#panel .links-list small')].map(each => each.textContent)"


def save(folder: Path, topic: str, decision: str, reasoning: str) -> str:
    """Save a decision as an agent does; its id."""
    line = [sys.executable, "-m", "filemem", "-C", str(folder), "save", "decision", "--json"]
    line += ["--topic", topic, "--decision", decision, "--reasoning", reasoning]
    saved = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return str(json.loads(saved)["id"])


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A memory of a hundred decisions with edges of three kinds, and what they are between."""
    folder = tmp_path_factory.mktemp("edges") / "shop"
    memory.write(folder, 100)
    old = memory.decisions(100)[0].id
    plain = save(folder, "outbox", "Write events to an outbox", "One transaction")
    built = save(folder, "relay", "Relay the outbox with one worker", f"builds_on: {plain}")
    against = f"debates: {built}. One worker is too slow at noon."
    other = save(folder, "partitions", "A worker for each partition", against)
    both = f"synthesizes: [{built}, {other}]. One worker, three at noon."
    united = save(folder, "workers", "Start workers by the length of the outbox", both)
    far = save(folder, "audit", "Keep the audit in the outbox too", f"builds_on: {old}")
    return {
        "folder": folder,
        "plain": plain,
        "built": built,
        "other": other,
        "united": united,
        "far": far,
        "old": old,
    }


@pytest.fixture(scope="module")
def edged(ids: dict[str, Any]) -> Iterator[Server]:
    """`filemem web` on it."""
    with serving(ids["folder"]) as running:
        yield running


@pytest.fixture
def picture(browser: Browser, edged: Server) -> Page:
    """A page that has opened the address with the token once."""
    page = browser.page()
    page.open(f"http://127.0.0.1:{edged.port}/viewer?token={edged.token}")
    return page


def hover(page: Page, selector: str) -> str:
    """Put the pointer on the middle of an edge; what is said there."""
    x, y = page.js(f"{MIDDLE}(document.querySelector({json.dumps(selector)}))")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, pointerType="mouse")
    return str(page.js(OVER))


def test_the_open_decision_shows_its_edges(
    picture: Page, edged: Server, ids: dict[str, str]
) -> None:
    """Edges to and from it are dashed by kind, as the legend and `/graph` have them; the pointer is told why."""
    show(picture, edged, f"#from=all&id={ids['built']}", "#lanes [data-edge]")
    drawn = dict(picture.js(DRAWN))
    assert set(drawn) == {"e-builds_on", "e-debates", "e-synthesizes"}
    assert len(set(drawn.values())) == 3
    assert "none" not in drawn.values()
    assert picture.js(LEGEND) == ["builds on 2", "debates 1", "synthesizes 2"]
    told = edged.get("/graph", edges="true").body
    kinds = [edge["relationship"] for edge in told["edges"] if edge["relationship"] != "supersedes"]
    assert sorted(kinds) == ["builds_on"] * 2 + ["debates"] + ["synthesizes"] * 2
    assert any(url.endswith("/graph?edges=true") for url in picture.asked)
    said = hover(picture, "#lanes .e-debates")
    assert "A worker for each partition" in said
    assert "debates" in said
    assert "Relay the outbox with one worker" in said
    assert said.endswith("One worker is too slow at noon.")
    assert "debates: decision_" not in said
    picture.js(
        "document.querySelector('#lanes .e-debates .reach').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert picture.js("State.now.id") == ids["other"]
    assert picture.wrong == []


def test_a_switch_shows_the_edges_of_all(picture: Page, edged: Server, ids: dict[str, str]) -> None:
    """All of them by the switch, by a key and by the address; a saved picture and paper have them and their legend."""
    show(picture, edged, "#from=all", "[data-kind-of-edge]")
    assert picture.js(DRAWN) == []
    picture.press("#legend .edges button")
    assert len(picture.js(DRAWN)) > 0
    picture.js("Timeline.reveal('" + ids["built"] + "')")
    assert len(picture.js(DRAWN)) == 5
    assert "edges=all" in picture.js("location.hash")
    saved = picture.js(SAVED)
    assert "debates 1" in saved
    assert saved.count("stroke-dasharray") > 5
    assert "debates 1" in onto_paper(picture)
    off_paper(picture)
    picture.key("e")
    assert picture.js(DRAWN) == []
    # An end that is out of the time shown leaves a short one, which leads there.
    show(picture, edged, f"#id={ids['far']}", "#lanes [data-edge]")
    day = 86_400_000
    picture.js(f"State.change({{from: Data.get('{ids['far']}').t - {day}}})")
    assert len(picture.js(DRAWN)) == 1
    picture.js(
        "document.querySelector('#lanes .reach').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    picture.wait(
        f"State.now.id === {json.dumps(ids['old'])} && Timeline.place({json.dumps(ids['old'])})"
    )
    assert picture.wrong == []


def test_a_reason_is_not_the_id_again(picture: Page, edged: Server, ids: dict[str, str]) -> None:
    """The panel shows what is said beside an id, and nothing where that is all."""
    show(picture, edged, f"#id={ids['built']}", "#panel .commits")
    reasons = picture.js(REASONS)
    assert "One worker is too slow at noon." in reasons
    assert "decision_" not in picture.js(WHY)
    assert not [reason for reason in reasons if "decision_" in reason or "front matter" in reason]


def test_a_written_site_has_the_edges(
    browser: Browser, ids: dict[str, Any], tmp_path: Path
) -> None:
    """From file:// too."""
    run(ids["folder"], "site", str(tmp_path / "site"))
    page = browser.page()
    page.open((tmp_path / "site" / "index.html").as_uri() + f"#from=all&id={ids['built']}")
    page.there("#lanes [data-edge]")
    assert len(page.js(DRAWN)) == 3
    assert page.wrong == []
