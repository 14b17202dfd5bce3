"""One browser and one served memory of 210 decisions for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page, find
from tests.web.support import Server, serving


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium; skipped with the reason where there is none."""
    found = find()
    if found.missing:
        pytest.skip(found.missing)
    running = Browser(found, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`filemem web` on the 210 decisions."""
    folder: Path = tmp_path_factory.mktemp("viewer") / "shop"
    memory.write(folder)
    with serving(folder) as running:
        assert running.get("/viewer/search", q="sessions").status == 200  # the index is built
        yield running


@pytest.fixture
def page(browser: Browser, server: Server) -> Page:
    """A page that has opened the address with the token once."""
    made = browser.page()
    made.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
    return made
