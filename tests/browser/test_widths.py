"""The page at every width from a small phone to a wide screen, in both colours: nothing is cut off or out of reach."""

from __future__ import annotations

import json

import pytest

from tests.browser import memory
from tests.browser.browser import Page
from tests.support import git
from tests.web.support import Server

WIDTHS = (320, 360, 390, 640, 768, 820, 960, 1030, 1180, 1281, 1440, 2560)
VIEWS = {"new": "#view=time", "all": "#view=time&from=all", "list": "#view=list"}
# What stands beyond the left or right edge; what lies in a box that scrolls sideways can be reached.
OUTSIDE = """(() => {
  const reached = node => { for (let box = node.parentElement; box; box = box.parentElement)
    if (/auto|scroll/.test(getComputedStyle(box).overflowX) && !['board', 'panel'].includes(box.id)) return true;
    return false };
  return [...document.querySelectorAll('header *, #legend *, #fresh, #board :not(svg *), .title, footer :not(svg *), ' +
      '#panel *, dialog[open], dialog[open] *')]
    .filter(node => node.checkVisibility() && !node.closest('.unseen') && !reached(node))
    .filter(node => { const box = node.getBoundingClientRect();
      return box.width && (box.left < -0.5 || box.right > innerWidth + 0.5) })
    .map(node => node.outerHTML.slice(0, 90)) })()"""
# Titles that were cut to fewer than twelve characters.
SHORT = """[...document.querySelectorAll('.mark .title')].map(each => each.textContent)
  .filter(text => text.endsWith('…') && [...text].length < 13)"""
SEARCH = "document.getElementById('q').getBoundingClientRect().width"
ROWS = "document.querySelector('header').offsetHeight / 60"
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture
def wide(page: Page, server: Server) -> Page:
    """A page of a repository with a second branch, so that the header is as full as it gets."""
    git(server.folder, "branch", "-f", "a-branch-with-a-rather-long-name")
    return page


def check(page: Page, place: str) -> None:
    """Nothing in the page is beyond an edge or cut to a stump."""
    assert page.js(OUTSIDE) == [], place
    assert page.js(SHORT) == [], place
    assert page.js(SIDEWAYS) <= 0, place
    assert page.js(SEARCH) >= 200, place
    assert page.js(ROWS) < 2, place


@pytest.mark.parametrize(
    "dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"]
)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_outside_the_window(wide: Page, server: Server, width: int, dark: bool) -> None:
    """Header, legend, timeline, list, record and form stay inside, and no title has under 12 characters."""
    wide.look(width, 800, dark=dark)
    newest = memory.decisions()[-1].id
    for name, view in VIEWS.items():
        wide.open(f"http://127.0.0.1:{server.port}/viewer{view}")
        check(wide, name)
        wide.js(f"App.open({json.dumps(newest)})")
        wide.there("#panel .commits")
        check(wide, f"{name} with a record")
    wide.js("Forms.save()")
    wide.there("dialog[open] .save")
    check(wide, "form")
