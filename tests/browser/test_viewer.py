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

VIEWS = {
    "timeline": ("#view=time", "document.querySelector('.mark')"),
    "record": ("#view=time&id={id}", "document.querySelector('#panel .commits')"),
    "list": ("#view=list", "document.querySelector('.row')"),
    "form": ("#view=list", "document.querySelector('dialog[open] .save')"),
}
# Titles in sight: what is shown of each, whether that is the whole, and its box.
TITLES = """[...document.querySelectorAll('.mark')].map(mark => {
  const text = mark.querySelector('.title'), box = (text || mark).getBoundingClientRect(), board = document.getElementById('board').getBoundingClientRect();
  if (box.bottom > board.bottom || box.top < board.top + 34) return null;
  const shown = text?.textContent || '';
  return {shown: [...shown.replace('…', '')].length, whole: Boolean(shown) && !shown.endsWith('…'), box: text && [box.left, box.top, box.right, box.bottom]} }).filter(Boolean)"""


def run(folder: Path, *arguments: str) -> str:
    """The answer of the real command."""
    line = [sys.executable, "-m", "filemem", "-C", str(folder), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def address(server: Server, view: str = "") -> str:
    """The page's address at a view."""
    return f"http://127.0.0.1:{server.port}/viewer{view}"


def a_chain(server: Server) -> list[str]:
    """The ids of a chain of three, oldest first."""
    made = {one.id: one for one in memory.decisions()}
    newest = next(one for one in made.values() if one.old and made[one.old].old and one.status == "accepted")
    return [made[newest.old].old, newest.old, newest.id]


def test_titles_are_readable_and_nothing_leaves_the_host(page: Page, server: Server) -> None:
    """At 1440x900 four of five titles in sight can be read, none lies on another, and every request stays here."""
    titles = page.js(TITLES)
    assert len(titles) > 40
    readable = [each for each in titles if each["shown"] >= 12 or each["whole"]]
    assert len(readable) >= 0.8 * len(titles)
    boxes = [each["box"] for each in titles if each["box"]]
    overlapping = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]]
    assert not overlapping
    for view, (hash_, ready) in VIEWS.items():
        page.open(address(server, hash_.format(id=a_chain(server)[-1])))
        if view == "form":
            page.press("#new")
        page.wait(ready)
    assert {url.split("/")[2] for url in page.asked if url.startswith("http")} == {f"127.0.0.1:{server.port}"}
    assert not [url for url in page.asked if not url.startswith(("http", "about:", "blob:", "data:"))]
    assert page.wrong == []
    assert server.token not in page.js("location.href + document.documentElement.outerHTML")


def check_with_axe(page: Page, view: str) -> None:
    """No violation of WCAG 2.2 A and AA or of good practice."""
    script = axe()
    if isinstance(script, str):
        pytest.skip(script)
    page.js(script.read_text(encoding="utf-8"))
    found = page.js("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)]))")
    assert found == [], view


def all_views(page: Page, server: Server, width: int, height: int, *, dark: bool) -> None:
    """axe in each view of one size and colour."""
    page.look(width, height, dark=dark)
    for view, (hash_, ready) in VIEWS.items():
        page.open(address(server, hash_.format(id=a_chain(server)[-1])))
        if view == "form":
            page.press("#new")
        page.wait(ready)
        check_with_axe(page, f"{view}, {width} px, {'dark' if dark else 'light'}")


def test_everybody_can_use_it(page: Page, server: Server) -> None:
    """axe finds nothing in the four views, light and wide."""
    all_views(page, server, 1440, 900, dark=False)


@pytest.mark.long
@pytest.mark.parametrize(("width", "height", "dark"), [(1440, 900, True), (390, 844, False), (390, 844, True)])
def test_everybody_can_use_it_dark_and_on_a_phone(page: Page, server: Server, width: int, height: int, dark: bool) -> None:
    """axe finds nothing in the dark and on a phone either, where every target has 44 pixels."""
    all_views(page, server, width, height, dark=dark)
    if width < 600:
        small = "[...document.querySelectorAll('button, a, select, input:not([type=radio])')].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 43.5).map(e => e.outerHTML.slice(0, 90))"
        for hash_, ready in (VIEWS["list"], VIEWS["record"]):
            page.open(address(server, hash_.format(id=a_chain(server)[-1])))
            page.wait(ready)
            assert page.js(small) == []


def test_every_view_by_keyboard(page: Page, server: Server) -> None:
    """Search, record, chain, lanes, as-of, list, form and help without a pointer; Back goes back."""
    page.open(address(server))
    oldest, middle, newest = a_chain(server)
    title = {one.id: one.title for one in memory.decisions()}
    page.key("/")
    page.write(title[newest])
    page.wait(f"document.querySelector('#hits [role=option] .hit-title')?.textContent === {json.dumps(title[newest])}")
    page.key("Enter")
    page.wait("document.querySelector('#panel .chain')")
    assert page.js("State.now.id") == newest
    page.key("[")
    page.key("[")
    assert page.js("State.now.id") == oldest
    page.key("]")
    assert page.js("State.now.id") == middle
    assert page.js("document.activeElement.dataset.id") == middle
    page.js("history.back()")
    page.wait(f"State.now.id === {json.dumps(oldest)}")
    page.key("Escape", "g")
    assert page.js("[State.now.id, State.now.by]") == ["", "area"]
    page.key("a")
    before = page.js("State.now.asof")
    page.key("ArrowLeft")
    assert page.js("State.now.asof") == before - 86_400_000
    page.key("Escape")
    for key, there in (("l", "document.querySelector('#rows .row')"), ("n", "document.querySelector('dialog[open] .save')"), ("Escape", "!document.querySelector('dialog[open]')"), ("?", "document.querySelector('dialog[open] .keys')"), ("Escape", "!document.querySelector('dialog[open]')"), ("b", "document.querySelector('dialog[open] .brief')"), ("Escape", "!document.querySelector('dialog[open]')")):
        page.key(key)
        page.wait(there)
    page.key("ArrowDown", "ArrowDown", "Enter")
    page.wait("document.querySelector('#panel .commits')")


def test_an_outcome_is_one_commit(page: Page, server: Server) -> None:
    """What the page changes is one commit; another's change shows by itself; a page out of date is refused, and says so."""
    held = next(one for one in memory.decisions() if one.status == "accepted" and one.outcome == "pending")
    page.open(address(server, f"#id={held.id}"))
    page.wait("document.querySelector('form.outcome')")
    before = git(server.folder, "rev-list", "--count", "HEAD")
    page.js("document.querySelector('.outcome [value=partial]').click(), document.querySelector('.outcome [name=reason]').focus()")
    page.write("seen in two shops")
    page.key("Enter")
    page.wait("document.querySelector('.outcomes')?.textContent.includes('seen in two shops')")
    assert int(git(server.folder, "rev-list", "--count", "HEAD")) == int(before) + 1
    assert git(server.folder, "show", "--format=", "--name-only", "HEAD").count("\n") <= 1
    assert page.js("document.querySelector('#panel .badge').className").split()[-1] in ("k-part", "k-gone")
    # While something is typed, the page does not draw the record anew: it is out of date once another has changed the file.
    page.js("document.querySelector('.outcome [value=failed]').click()")
    version = server.get("/viewer/record", id=held.id).body["version"]
    assert server.post("/viewer/update", id=held.id, version=version, outcome="success").status == 200
    page.js("document.querySelector('form.outcome').requestSubmit()")
    page.wait("document.querySelector('.told.trouble')?.textContent.length > 20")
    assert page.js("document.querySelector('.outcome [value=failed]').checked")
    assert server.post("/viewer/update", id=held.id, version=version, outcome="failed").status == 409
    assert server.ask("POST", "/viewer/update", {"id": held.id}, {"Content-Type": "application/json"}).status == 401


@pytest.mark.long
def test_the_past_is_what_topics_shows(page: Page, server: Server) -> None:
    """At twenty dates the page marks the decisions that `filemem topics --at` names."""
    whens = [one.when for one in memory.decisions()]
    for place in range(20):
        day = f"{whens[5 + place * 10]:%Y-%m-%d}"
        shown = page.js(
            f"(async () => {{ await Data.goTo(State.endOf('{day}')); "
            "return Data.decisions.filter(row => Data.there(row) && Data.past.live.has(row.id) && /holds|part|fork/.test(Data.kind(row))).map(row => row.id) })()"
        )
        told = json.loads(run(server.folder, "topics", "--at", day, "--json"))
        assert sorted(shown) == sorted(id_ for topic in told["topics"] for id_ in topic["ids"]), day


@pytest.mark.long
def test_a_branch_is_what_diff_shows(page: Page, server: Server, tmp_path: Path) -> None:
    """The marks of a compared branch are the effects that `filemem diff` lists."""
    made = [one for one in memory.decisions() if one.status == "accepted"]
    live = [one for one in made if one.id not in {other.old for other in made} and one.outcome == "pending"]
    git(server.folder, "branch", "-q", "other")
    git(server.folder, "worktree", "add", "-q", str(tmp_path / "other"), "other")
    run(tmp_path / "other", "save", "decision", "--topic", live[0].topic, "--decision", "Rotate them by hand", "--reasoning", "A test")
    run(tmp_path / "other", "save", "decision", "--topic", "a new topic", "--decision", "Something new", "--reasoning", "A test")
    run(tmp_path / "other", "update", live[1].id, "--outcome", "failed", "--reason", "A test")
    run(tmp_path / "other", "forget", live[2].id)
    told = json.loads(run(server.folder, "diff", "main...other", "--json"))
    page.open(address(server, "#branch=other"))
    page.wait("document.querySelector('.marked')")
    marks = page.js("Object.fromEntries(Data.marks)")
    words = {"new": "new", "superseded": "replaced", "outcome": "edited", "accepted": "edited", "revised": "edited", "removed": "removed"}
    assert {(id_, word) for id_, word in marks.items()} == {(effect["id"], words[effect["kind"]]) for effect in told["effects"]}
    assert page.js("[...document.querySelectorAll('.mark.marked')].length") == len(marks)
    git(server.folder, "worktree", "remove", "--force", str(tmp_path / "other"))
    git(server.folder, "branch", "-q", "-D", "other")


@pytest.mark.long
def test_hostile_records_change_nothing_but_their_own_text(browser: Browser, tmp_path: Path) -> None:
    """Markup, turned text, long titles and long bodies stay text; the rest of the page is as it was."""
    titles = ["<img src=x onerror=alert(1)><script>alert(2)</script>", "plain \u202etxet denrut\u202c and \u2067more\u2069", "long " * 120, "[a](javascript:alert(3)) ![b](https://example.org/c.png)"]
    made = memory.decisions(20)
    bad = [one._replace(title=title, topic=title[:60].replace("\n", " ")) for one, title in zip(made, titles, strict=False)]
    folder = tmp_path / "bad"
    memory.write(folder, 20)
    for one, old in zip(bad, made, strict=False):
        path = folder / f"memory/decisions/{old.when:%Y/%m}/{old.topic.replace(' ', '-')}-{old.id[-8:]}.md"
        text = memory.text(old).replace(f"# {old.title}", f"# {one.title}").replace(f"topic: {old.topic}", f"topic: {json.dumps(one.topic)}")
        path.write_text(text.replace("\n## Rejected", "\n" + "<b>x</b> <iframe src=//example.org></iframe>\n" * 2_500 + "\n## Rejected"), encoding="utf-8")
    git(folder, "commit", "-qam", "bad")
    with serving(folder) as server:
        page = browser.page()
        page.open(f"http://127.0.0.1:{server.port}/viewer?token={server.token}")
        page.js("window.alert = () => { throw new Error('ran') }")
        for one in bad:
            for view in ("time", "list"):
                page.js(f"State.change({{view: '{view}', id: ''}})")
                page.js(f"State.change({{id: {json.dumps(one.id)}}})")
                page.wait("document.querySelector('#panel .commits')")
                assert page.js("document.querySelectorAll('#panel img, #panel script, #panel iframe, #panel b b, #lanes img, #rows img').length") == 0
                assert page.js("[...document.querySelectorAll('#panel a[href]')].every(a => /^(https?:|#)/.test(a.getAttribute('href')))")
        assert page.js("[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]") == [0, 0]
        assert page.js("document.querySelector('#legend').getBoundingClientRect().height < 60")
        assert page.wrong == []
        assert {url.split("/")[2] for url in page.asked if url.startswith("http")} == {f"127.0.0.1:{server.port}"}
