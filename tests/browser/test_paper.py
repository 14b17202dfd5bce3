"""What is printed or saved as a picture says whose it is, of which day, and what its marks mean."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

from tests.browser.browser import Page
from tests.browser.test_viewer import SAVED, a_chain, show
from tests.web.support import Server

# What paper shows, as text.
PRINTED = "document.getElementById('paper').innerText"
RULES = "[...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).map(rule => rule.cssText).join(' ')"
SHOWN = "['paper', 'board', 'panel'].filter(id => document.getElementById(id).checkVisibility())"
LEGEND = ("holds", "proposed", "partly worked", "failed or rejected", "replaced", "topics forked")


def pages(page: Page) -> int:
    """Print, and count the sheets."""
    printed = base64.b64decode(page.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    return len(re.findall(rb"/Type\s*/Page\b", printed))


def onto_paper(page: Page) -> str:
    """Show the page as paper shows it; the text of its heading and picture."""
    page.js("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print")
    return str(page.js(PRINTED))


def off_paper(page: Page) -> None:
    """Show it on the screen again."""
    page.call("Emulation.setEmulatedMedia", media="")
    page.js("dispatchEvent(new Event('afterprint'))")


def test_a_printed_timeline_says_what_it_is(page: Page, server: Server) -> None:
    """Name, day, legend and every lane are on paper, the pages are numbered, and the screen is as it was."""
    show(page, server, "#from=all", ".mark")
    before = page.js("document.querySelectorAll('#lanes .mark').length")
    day = page.js("State.day(Data.facts.now)")
    text = onto_paper(page)
    assert text.startswith("shop · main")
    count = page.js("Data.decisions.length")
    assert f"{day} · {count} decisions" in text
    assert [word for word in LEGEND if word not in text] == []
    lanes = page.js("Timeline.lanes.map(lane => lane.name)")
    assert page.js("document.querySelectorAll('#paper tbody tr').length") == len(lanes)
    assert page.js("document.querySelector('#paper tbody .mark') !== null")
    assert "counter(page)" in page.js(RULES)
    assert pages(page) > 1
    off_paper(page)
    assert page.js("document.getElementById('paper').childElementCount") == 0
    assert page.js("document.querySelectorAll('#lanes .mark').length") == before
    assert page.wrong == []


def test_a_printed_record_is_the_record_alone(page: Page, server: Server) -> None:
    """With a record open paper has its text without the sheet behind it; a list has every row."""
    show(page, server, f"#from=all&id={a_chain()[-1]}", "#panel .commits")
    onto_paper(page)
    assert page.js(SHOWN) == ["paper", "panel"]
    off_paper(page)
    show(page, server, "#view=list", ".row")
    assert onto_paper(page).startswith("shop · main")
    assert page.js(SHOWN) == ["paper", "board"]
    assert page.js("document.querySelectorAll('#rows .row').length >= 210")


def test_a_saved_picture_says_what_it_is(page: Page, server: Server) -> None:
    """The SVG begins with name, day, legend and filter."""
    show(page, server, "#only=dead", ".mark")
    picture = ET.fromstring(page.js(SAVED))
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    day = page.js("State.day(Data.facts.now)")
    assert texts[0] == "shop · main"
    assert texts[1].startswith(day)
    assert "only failed or rejected" in texts[1]
    assert [word for word in LEGEND if not any(word in text for text in texts[2:8])] == []
