"""The page of `filemem web` in a real browser: what a reader sees, reaches and changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page, axe
from tests.support import git
from tests.web.support import Server, serving

VIEWS = {  # address, and what is there when it has drawn
    "timeline": ("#view=time", ".mark"),
    "record": ("#view=time&id={id}", "#panel .commits"),
    "list": ("#view=list", ".row"),
    "form": ("#view=list", "dialog[open] .save"),
}
MORE_VIEWS = {  # those that are looked at with axe besides
    "by area": ("#view=time&from=all&by=area", ".mark"),
    "by topic, as of a day": ("#view=time&by=topic&asof=2024-05-01", ".asof"),
    "found": ("#view=list&q=queue", ".row-text"),
    "filtered": ("#view=time&only=dead,gone", ".mark"),
    "edges": ("#view=time&from=all&edges=all", ".edge"),
    "no such record": ("#view=time&id=nothing", "#panel h2"),
}

# Titles in sight: how much is shown of each, whether that is the whole, and its box.
TITLES = """[...document.querySelectorAll('.mark')].map(mark => {
  const text = mark.querySelector('.title'), box = (text || mark).getBoundingClientRect();
  const board = document.getElementById('board').getBoundingClientRect();
  if (box.bottom > board.bottom || box.top < board.top + 34) return null;
  const shown = text?.textContent || '';
  return {shown: [...shown.replace('…', '')].length, whole: Boolean(shown) && !shown.endsWith('…'),
          box: text && [box.left, box.top, box.right, box.bottom]}}).filter(Boolean)"""
VIOLATIONS = """axe.run(document, {resultTypes: ['violations']}).then(result =>
  result.violations.map(each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 120))]))"""
SAVED = """new Promise(done => { const make = URL.createObjectURL;
  URL.createObjectURL = blob => { blob.text().then(done); return make(blob) }; Timeline.save() })"""
SMALL = """[...document.querySelectorAll('button, a, select, input:not([type=radio])')]
  .filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 43.5)
  .map(each => each.outerHTML.slice(0, 90))"""
MADE_OF_MARKUP = "#panel img, #panel script, #panel iframe, #panel b b, #lanes img, #rows img"
BEYOND = "[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]"
CLOSED = "!document.querySelector('dialog[open]')"


def run(folder: Path, *arguments: str) -> str:
    """The answer of the real command."""
    line = [sys.executable, "-m", "filemem", "-C", str(folder), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def show(page: Page, server: Server, view: str = "", ready: str = "") -> None:
    """Open the page at a view, and wait for what a selector names."""
    page.open(f"http://127.0.0.1:{server.port}/viewer{view}")
    if ready:
        page.there(ready)


def show_named(page: Page, server: Server, view: str) -> None:
    """Open one of the views."""
    hash_, ready = {**VIEWS, **MORE_VIEWS}[view]
    show(page, server, hash_.format(id=a_chain()[-1]))
    if view == "form":
        page.press("#new")
    page.there(ready)


def a_chain() -> list[str]:
    """The ids of a chain of three, oldest first."""
    made = {one.id: one for one in memory.decisions()}
    newest = next(
        one for one in made.values() if one.old and made[one.old].old and one.status == "accepted"
    )
    return [made[newest.old].old, newest.old, newest.id]


@pytest.fixture
def linked(page: Page, server: Server) -> Server:
    """The served memory, in which one decision builds on another."""
    id_, old = (one.id for one in memory.decisions()[1:3])
    if not server.get("/graph", edges="true").text.count('"builds_on"'):
        run(
            server.folder,
            *("save", "--topic", "edges", "--decision", "Build on it"),
            *("--reasoning", "x"),
            *("--builds-on", id_, "--builds-on", old),
        )
    return server


def test_titles_are_readable_and_nothing_leaves_the_host(page: Page, server: Server) -> None:
    """At 1440x900 four of five titles in sight can be read, none lies on another, and every request stays here."""
    show(page, server, "#from=all", ".mark")
    titles = page.js(TITLES)
    assert len(titles) > 40
    readable = [each for each in titles if each["shown"] >= 12 or each["whole"]]
    assert len(readable) >= 0.8 * len(titles)
    boxes = [each["box"] for each in titles if each["box"]]
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert not [
            b for b in boxes[:i] if left < b[2] and b[0] < right and top < b[3] and b[1] < bottom
        ]
    saved = page.js(SAVED)
    assert saved.count("<text") > 200
    assert "var(" not in saved
    for view in VIEWS:
        show_named(page, server, view)
    assert {url.split("/")[2] for url in page.asked if url.startswith("http")} == {
        f"127.0.0.1:{server.port}"
    }
    assert not [
        url for url in page.asked if not url.startswith(("http", "about:", "blob:", "data:"))
    ]
    assert page.wrong == []
    assert server.token not in page.js("location.href + document.documentElement.outerHTML")


def check_with_axe(page: Page, server: Server, width: int, *, dark: bool) -> None:
    """No violation of WCAG 2.2 A and AA or of good practice in any view, at one width and in one colour."""
    script = axe()
    if isinstance(script, str):
        pytest.skip(script)
    page.look(width, 844 if width < 600 else 900, dark=dark)
    for view in (*VIEWS, *MORE_VIEWS):
        show_named(page, server, view)
        if view == "timeline":  # with what has just been saved above it
            page.js(
                "Data.get(Data.decisions.at(-1).id).status += ' '; Live.take(); App.refresh('fresh')"
            )
            page.there("#fresh .button")
        page.js(script.read_text(encoding="utf-8"))
        assert page.js(VIOLATIONS) == [], view
    for key, ready in (("b", ".brief"), ("?", ".keys")):
        page.key(key)
        page.there(f"dialog[open] {ready}")
        assert page.js(VIOLATIONS) == [], ready
        page.key("Escape")
        page.wait(CLOSED)


def test_everybody_can_use_it(page: Page, linked: Server) -> None:
    """axe finds nothing, light and wide."""
    check_with_axe(page, linked, 1440, dark=False)


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 390, 640, 768, 820, 960, 1030, 1180, 1440, 2560])
def test_everybody_can_use_it_elsewhere(page: Page, linked: Server, width: int, dark: bool) -> None:
    """axe finds nothing at any width in either colour; on a phone every target has 44 pixels."""
    check_with_axe(page, linked, width, dark=dark)
    if width < 600:
        for view in ("list", "record"):
            show_named(page, linked, view)
            assert page.js(SMALL) == []


def test_every_view_by_keyboard(page: Page, server: Server) -> None:
    """Search, record, chain, lanes, as-of, list, form, help and brief without a pointer; Back goes back."""
    show(page, server)
    oldest, middle, newest = a_chain()
    title = next(one.title for one in memory.decisions() if one.id == newest)
    page.key("/")
    page.write(title)
    page.wait(f"document.querySelector('#hits .hit-title')?.textContent === {json.dumps(title)}")
    page.key("Enter")
    page.there("#panel .chain")
    assert page.js("State.now.id") == newest
    page.key("[", "[")
    assert page.js("State.now.id") == oldest
    page.key("]")
    assert page.js("[State.now.id, document.activeElement.dataset.id]") == [middle, middle]
    page.js("history.back()")
    page.wait(f"State.now.id === {json.dumps(oldest)}")
    page.key("Escape", "g")
    assert page.js("[State.now.id, State.now.by]") == ["", "area"]
    page.key("a")
    before = page.js("State.now.asof")
    page.key("ArrowLeft")
    assert page.js("State.now.asof") == before - 86_400_000
    page.key("Escape", "l")
    page.there("#rows .row")
    for key, ready in (("n", ".save"), ("?", ".keys"), ("b", ".brief")):
        page.key(key)
        page.there(f"dialog[open] {ready}")
        page.key("Escape")
        page.wait(CLOSED)
    page.key("ArrowDown", "ArrowDown", "Enter")
    page.there("#panel .commits")


def test_an_outcome_is_one_commit(page: Page, server: Server) -> None:
    """An outcome set in the page is one commit; a page that is out of date says so, and keeps what was typed."""
    held = next(
        one for one in memory.decisions() if one.status == "accepted" and one.outcome == "pending"
    )
    show(page, server, f"#id={held.id}", "form.outcome")
    before = int(git(server.folder, "rev-list", "--count", "HEAD"))
    page.js("document.querySelector('.outcome [value=partial]').click()")
    page.js("document.querySelector('.outcome [name=reason]').focus()")
    page.write("seen in two shops")
    page.key("Enter")
    page.wait("document.querySelector('.outcomes')?.textContent.includes('seen in two shops')")
    assert int(git(server.folder, "rev-list", "--count", "HEAD")) == before + 1
    assert len(git(server.folder, "show", "--format=", "--name-only", "HEAD").split()) == 1
    # While something is typed, the page does not draw the record anew: it is out of date once another changes the file.
    page.js("document.querySelector('.outcome [value=failed]').click()")
    version = server.get("/viewer/record", id=held.id).body["version"]
    assert (
        server.post("/viewer/update", id=held.id, version=version, outcome="success").status == 200
    )
    page.js("document.querySelector('form.outcome').requestSubmit()")
    page.wait("document.querySelector('.told.trouble')?.textContent.length > 20")
    assert page.js("document.querySelector('.outcome [value=failed]').checked")
    assert (
        server.post("/viewer/update", id=held.id, version=version, outcome="failed").status == 409
    )
    assert (
        server.ask(
            "POST", "/viewer/update", {"id": held.id}, {"Content-Type": "application/json"}
        ).status
        == 401
    )


def test_what_another_saves_appears_by_itself(page: Page, server: Server) -> None:
    """A decision saved beside the page stands in it without a reload, and in the search."""
    show(page, server, "#view=list", ".row")
    run(
        server.folder,
        "save",
        "decision",
        "--topic",
        "queues",
        "--decision",
        "Count them twice",
        "--reasoning",
        "A test",
    )
    page.wait(
        "[...document.querySelectorAll('.row-title')].some(each => each.textContent === 'Count them twice')"
    )
    assert page.wrong == []


@pytest.mark.long
def test_the_past_is_what_topics_shows(page: Page, server: Server) -> None:
    """At twenty dates the page marks the decisions that `filemem topics --at` names."""
    whens = [one.when for one in memory.decisions()]
    held = "row => Data.there(row) && Data.past.live.has(row.id) && /holds|part|fork/.test(Data.kind(row))"
    for place in range(20):
        day = f"{whens[5 + place * 10]:%Y-%m-%d}"
        then = f"Data.goTo(State.endOf('{day}')).then(() => Data.decisions.filter({held}).map(row => row.id))"
        told = json.loads(run(server.folder, "topics", "--at", day, "--limit", "200", "--json"))
        assert sorted(page.js(then)) == sorted(
            id_ for topic in told["topics"] for id_ in topic["ids"]
        ), day


@pytest.mark.long
def test_a_branch_is_what_diff_shows(page: Page, server: Server, tmp_path: Path) -> None:
    """The marks of a compared branch are the effects that `filemem diff` lists."""
    made = [one for one in memory.decisions() if one.status == "accepted"]
    live = [
        one
        for one in made
        if one.id not in {other.old for other in made} and one.outcome == "pending"
    ]
    other = tmp_path / "other"
    git(server.folder, "worktree", "add", "-q", "-b", "other", str(other))
    for topic in (live[0].topic, "a new topic"):
        run(
            other,
            "save",
            "decision",
            "--topic",
            topic,
            "--decision",
            f"New: {topic}",
            "--reasoning",
            "A test",
        )
    run(other, "update", live[1].id, "--outcome", "failed", "--reason", "A test")
    run(other, "forget", live[2].id)
    told = json.loads(run(server.folder, "diff", "main...other", "--json"))
    show(page, server, "#branch=other", ".marked")
    marks = page.js("Object.fromEntries(Data.marks)")
    words = {"new": "new", "superseded": "replaced", "outcome": "edited", "removed": "removed"}
    assert marks == {effect["id"]: words[effect["kind"]] for effect in told["effects"]}
    assert page.js("document.querySelectorAll('.mark.marked').length") == len(marks) == 5
    states = page.js("Object.fromEntries(Data.decisions.map(row => [row.id, Data.kind(row)]))")
    assert {states[one] for one, word in marks.items() if word == "replaced"} == {"gone"}
    added = next(effect["id"] for effect in told["effects"] if effect["kind"] == "new")
    page.js(f"App.open('{added}')")
    page.there("#panel .commits")
    assert page.wrong == []
    git(server.folder, "worktree", "remove", "--force", str(other))
    git(server.folder, "branch", "-q", "-D", "other")


@pytest.mark.long
def test_hostile_records_change_nothing_but_their_own_text(
    browser: Browser, tmp_path: Path
) -> None:
    """Markup, turned text, long titles and long bodies stay text; the rest of the page is as it was."""
    titles = (
        "<img src=x onerror=alert(1)><script>alert(2)</script>",
        "plain \u202etxet denrut\u202c and \u2067more\u2069",
        "long " * 120,
        "[a](javascript:alert(3)) ![b](https://example.org/c.png)",
    )
    folder = tmp_path / "bad"
    made = memory.write(folder, 20)[: len(titles)]
    lines = "<b>x</b> <iframe src=//example.org></iframe>\n\n" * 5_000
    for one, title in zip(made, titles, strict=True):
        text = (
            memory.text(one)
            .replace(f"# {one.title}", f"# {title}")
            .replace("\n## Rejected", f"\n{lines}\n## Rejected")
        )
        text = text.replace(f"topic: {one.topic}", f"topic: {json.dumps(title[:60])}")
        (folder / memory.path(one)).write_text(text, encoding="utf-8")
    git(folder, "commit", "-qam", "bad")
    with serving(folder) as server:
        page = browser.page()
        page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
        page.js("void (window.alert = () => { throw new Error('ran') })")
        for one in made:
            for view in ("time", "list"):
                page.js(f"State.change({{view: '{view}', id: ''}})")
                page.js(f"State.change({{id: {json.dumps(one.id)}}})")
                page.there("#panel .commits")
                assert page.js(f"document.querySelectorAll('{MADE_OF_MARKUP}').length") == 0
                links = page.js(
                    "[...document.querySelectorAll('#panel a')].map(each => each.getAttribute('href'))"
                )
                assert all(
                    link is None or link.startswith(("http", "#", "viewer/read?id="))
                    for link in links
                )
        assert page.js(BEYOND) == [0, 0]
        assert page.js("document.querySelector('#legend').getBoundingClientRect().height") < 60
        assert page.wrong == []
        assert {url.split("/")[2] for url in page.asked if url.startswith("http")} == {
            f"127.0.0.1:{server.port}"
        }


@pytest.mark.long
def test_the_site_opens_by_a_double_click(browser: Browser, server: Server, tmp_path: Path) -> None:
    """From file:// the written site searches, opens a record whole, and asks for nothing elsewhere."""
    run(server.folder, "site", str(tmp_path / "site"))
    page = browser.page()
    page.open((tmp_path / "site" / "index.html").as_uri())
    page.key("/")
    page.write("sessions in cookies")
    page.wait("document.querySelector('#hits .hit-title')?.textContent.includes('signed cookies')")
    page.key("Enter")
    page.there("#panel .commits")
    page.there("#panel .command .copy")
    assert page.wrong == []
    assert not [url for url in page.asked if not url.startswith(("file:", "about:", "data:"))]
