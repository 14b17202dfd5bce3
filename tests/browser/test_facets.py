"""The list narrowed and sorted in a real browser: counts, links, the keyboard, and the table that it saves."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page, axe
from tests.browser.test_viewer import VIOLATIONS
from tests.browser.test_widths import OUTSIDE, SIDEWAYS
from tests.support import git, write
from tests.system.tools import ok
from tests.web.support import Server, serving

ADA = "Ada"  # who commits in tests
FORMULA = '=HYPERLINK("http://evil.example","open")'
OPTIONS = """key => [...document.querySelectorAll(`[data-facet=${key}] option`)]
  .map(each => each.textContent)"""
TITLES = "[...document.querySelectorAll('#rows .row-title')].map(each => each.textContent)"
CHOOSE = """(key, value) => { const select = document.querySelector(`[data-facet=${key}]`);
  select.focus(); select.value = value; select.dispatchEvent(new Event('change')) }"""
SAVED = """new Promise(done => { const make = URL.createObjectURL;
  URL.createObjectURL = blob => { blob.text().then(done); return make(blob) };
  [...document.querySelectorAll('#facets button')].at(-1).click() })"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The 210 decisions and one with tags whose title is a formula."""
    folder = tmp_path_factory.mktemp("facets") / "shop"
    memory.write(folder)
    head = "---\ntopic: sheets\nsupersedes: []\ntags: [api, docs]\naffects: ['-a/b/**', 'src/x.py']\n---\n"
    write(folder / "memory/decisions/sheet.md", f"{head}# {FORMULA}\n\nWhy not\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A formula")
    with serving(folder) as running:
        yield running


@pytest.fixture
def lists(browser: Browser, shop: Server) -> Page:
    """The list, with the cookie."""
    made = browser.page()
    made.open(f"http://127.0.0.1:{shop.port}/viewer?token={shop.token}")
    made.open(f"http://127.0.0.1:{shop.port}/viewer#view=list")
    made.there("[data-facet=who] option")
    return made


def test_each_facet_counts_what_it_would_show(lists: Page) -> None:
    """Authors, topics, paths and tags with their counts; a choice changes those of the other parts."""
    made = memory.decisions()
    authors = Counter([*(one.who for one in made), ADA])
    shown = lists.js(f"({OPTIONS})('who')")
    assert shown[0] == "Author: all"
    assert {*shown[1:]} == {f"{name} ({count})" for name, count in authors.items()}
    assert lists.js(f"({OPTIONS})('tag')") == ["Tag: all", "api (1)", "docs (1)"]
    lists.js(f"({CHOOSE})('who', {json.dumps(made[0].who)})")
    topics = Counter(one.topic for one in made if one.who == made[0].who)
    assert {*lists.js(f"({OPTIONS})('topic')")[1:]} >= {
        f"{name} ({count})" for name, count in topics.items()
    }
    assert len(lists.js(f"({OPTIONS})('who')")) == len(authors) + 1
    assert lists.js("document.activeElement.dataset.facet") == "who"
    folder = "/".join(made[0].governed.split("/")[:2])
    lists.js(f"({CHOOSE})('path', {json.dumps(folder)})")
    both = [one for one in made if one.who == made[0].who and one.governed.startswith(folder)]
    assert len(lists.js(TITLES)) == len(both)
    holds = lists.js("Number(document.querySelector('#legend [data-kind=holds] b').textContent)")
    lists.press("#legend [data-kind=holds]")
    assert len(lists.js(TITLES)) == holds < len(both) + 1


def test_what_is_chosen_is_a_link(lists: Page, shop: Server) -> None:
    """The address says facets and order; the timeline keeps them, and a chip takes them away."""
    address = f"http://127.0.0.1:{shop.port}/viewer#view=list&topic=languages&sort=oldest"
    lists.open(address)
    made = [one.title for one in memory.decisions() if one.topic == "languages"]
    assert lists.js(TITLES) == made
    assert lists.js("document.querySelector('[data-facet=sort]').value") == "oldest"
    lists.js(f"({CHOOSE})('sort', 'title')")
    assert lists.js(TITLES) == sorted(made, key=str.lower)
    assert "sort=title" in lists.js("location.hash")
    lists.key("Tab")
    lists.js("State.change({view: 'time'})")
    assert lists.js("Data.decisions.filter(row => App.shown(row)).length") == len(made)
    lists.press("#legend .off")
    assert lists.js("Data.decisions.filter(row => App.shown(row)).length") == 211
    assert lists.wrong == []


def test_the_saved_table_holds_what_is_shown_and_no_formula(lists: Page) -> None:
    """One row for each record of the list, also those not drawn yet, and no cell begins a formula."""
    rows = list(csv.DictReader(io.StringIO(lists.js(SAVED).removeprefix("\ufeff"))))
    assert len(rows) == 211
    (formula,) = (row for row in rows if "HYPERLINK" in row["title"])
    assert formula["title"] == f"'{FORMULA}"
    assert formula["affects"] == "'-a/b/**, src/x.py"
    assert (formula["tags"], formula["who"], formula["type"]) == ("api, docs", ADA, "decision")
    assert not [value for row in rows for value in row.values() if value[:1] in tuple("=+-@\t\r")]
    made = {one.id: one for one in memory.decisions()}
    for row in rows:
        if one := made.get(row["id"]):
            assert (row["topic"], row["supersedes"]) == (one.topic, one.old)
            assert row["created"] == f"{one.when:%Y-%m-%dT%H:%M:%S}.000Z"
    lists.js(f"({CHOOSE})('topic', 'languages')")
    rows = list(csv.DictReader(io.StringIO(lists.js(SAVED).removeprefix("\ufeff"))))
    assert {row["topic"] for row in rows} == {"languages"}


@pytest.mark.parametrize(("width", "dark"), [(320, True), (820, False), (1440, True)])
def test_everybody_can_narrow_the_list(lists: Page, width: int, dark: bool) -> None:
    """axe finds nothing, and nothing is beyond an edge."""
    script = axe()
    if isinstance(script, str):
        pytest.skip(script)
    lists.look(width, 800, dark=dark)
    lists.js(f"({CHOOSE})('topic', 'languages')")
    assert lists.js(OUTSIDE) == []
    assert lists.js(SIDEWAYS) <= 0
    lists.js(script.read_text(encoding="utf-8"))
    assert lists.js(VIOLATIONS) == []


def test_a_static_site_narrows_too(browser: Browser, shop: Server, tmp_path: Path) -> None:
    """The same list in the files of `filemem site`."""
    ok(shop.folder, "site", str(tmp_path / "out"))
    page = browser.page()
    page.open(f"{(tmp_path / 'out/index.html').as_uri()}#view=list&tag=api")
    assert page.js(TITLES) == [FORMULA]
    assert page.wrong == []
