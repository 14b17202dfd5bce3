"""What stands beside the marks of the timeline, and which lanes they stand in."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.browser import memory
from tests.browser.browser import Browser, Page
from tests.browser.test_first_look import filemem, opened
from tests.browser.test_viewer import show
from tests.support import git, make_repo
from tests.web.support import Server, serving

ROOT = Path(__file__).parents[2]
# Every lane is drawn, also those out of sight: title and label of each mark, and the room beside it that is free.
LABELS = """(() => { Timeline.pieces();
  return [...document.querySelectorAll('#lanes .mark')].map(mark => {
    const place = Timeline.place(mark.dataset.id);
    return [place.row.title, mark.querySelector('.title')?.textContent || '', place.left || false, place.x, place.y, place.room] }) })()"""
LANES = "Timeline.lanes.map(lane => [lane.name, lane.rows.map(row => row.title)])"
LABEL = "Lanes.label({title}, Dom.measure({room}))"


def labels(page: Page, server: Server, view: str) -> list[list[str]]:
    """Titles and labels of all marks in a view."""
    show(page, server, view, ".mark")
    return [row[:2] for row in page.js(LABELS)]


def cut(rows: list[list[str]]) -> int:
    """How many labels are not the whole title."""
    return sum(title != label for title, label in rows)


@pytest.mark.parametrize("by", ["code", "area", "topic", "who"])
def test_every_mark_of_210_has_its_name(page: Page, server: Server, by: str) -> None:
    """In each kind of lanes and through all of the time; few of the names are cut."""
    rows = labels(page, server, f"#from=all&by={by}")
    assert len(rows) >= 210
    assert [title for title, label in rows if not label] == []
    assert cut(rows) <= len(rows) / 10


def test_of_5000_at_most_a_third_is_cut(browser: Browser, tmp_path: Path) -> None:
    """Lanes too full for all titles have fewer, and most of them whole; so has what the page opens with."""
    folder = tmp_path / "large"
    memory.write(folder, 5_000, one_commit=True)
    filemem(folder, "index")
    with serving(folder) as server:
        page = opened(browser, server)
        for view in ("", "#from=all", "#from=all&by=area"):
            rows = [row for row in labels(page, server, view) if row[1]]
            assert len(rows) > 50
            assert cut(rows) <= len(rows) / 3, view


def test_of_our_own_memory_at_most_a_third_is_cut(browser: Browser, tmp_path: Path) -> None:
    """Its titles are whole sentences."""
    folder = make_repo(tmp_path / "own")
    shutil.copytree(ROOT / "memory", folder / "memory")
    git(folder, "add", "memory")
    git(folder, "commit", "-qm", "The decisions")
    with serving(folder) as server:
        page = opened(browser, server)
        rows = labels(page, server, "#from=all")
        assert len(rows) > 150
        assert [title for title, label in rows if not label] == []
        assert cut(rows) <= len(rows) / 3


def test_a_label_takes_the_room_to_its_right(page: Page, server: Server) -> None:
    """On a phone a title is cut only where the next mark, or the end of the sheet, is near."""
    page.look(390, 844)
    show(page, server, "#view=time&from=all", ".mark")
    rows = page.js(LABELS)
    wide = page.js("document.getElementById('picture').clientWidth") - 8
    assert cut([row[:2] for row in rows]) > 0
    for title, label, left, x, y, room in rows:
        if title == label or left:
            continue
        beside = [other for other in rows if other[4] == y and other[3] > x]
        starts = [other[3] - (other[5] if other[2] else 0) - 15 for other in beside]
        assert x + room >= min([wide, *starts]) - 17, title  # 17: an arrow to what replaced it


@pytest.mark.parametrize(
    ("title", "room", "label"),
    [
        ("Use the outbox for events", "Use the outbox for events", "Use the outbox for events"),
        ("Use the outbox for events", "Use the outbox for", "Outbox for events"),
        (
            "Move to Kafka, for the log of orders alone",
            "Move to Kafka, for the log",
            "Kafka, for the log of…",
        ),
        ("Drop the outbox for events", "Drop the outbox for", "Drop the outbox…"),
        ("A list of synonyms that the shop edits", "A list of synonyms that", "List of synonyms…"),
    ],
)
def test_first_verbs_and_articles_are_left_out_before_a_title_is_cut(
    page: Page, title: str, room: str, label: str
) -> None:
    """Only where the whole does not fit, and never a verb that turns the meaning."""
    expression = LABEL.format(title=json.dumps(title), room=json.dumps(room))
    assert page.js(expression) == label


def test_lanes_are_never_first_words_of_titles(browser: Browser, tmp_path: Path) -> None:
    """A folder of decision records: by the folder they are in, by a word that three topics share, else by year."""
    folder = make_repo(tmp_path / "adr")
    adr = folder / "docs" / "adr"
    adr.mkdir(parents=True)
    for number, (year, title) in enumerate(
        [(2021, "Use Go"), (2021, "Use NATS"), (2022, "Use Postgres"), (2022, "Record decisions")],
        1,
    ):
        text = f"# {number}. {title}\n\nDate: {year}-03-0{number}\n\n## Status\n\nAccepted\n"
        (adr / f"000{number}-{title.lower().replace(' ', '-')}.md").write_text(text)
    git(folder, "add", "docs")
    git(folder, "commit", "-qm", "Decisions")
    with serving(folder, command=("--store", "docs/adr", "web", "--port", "0")) as server:
        page = opened(browser, server)
        assert [name for name, _ in page.js(LANES)] == ["2022", "2021"]


def test_lanes_are_words_that_three_topics_share(browser: Browser, tmp_path: Path) -> None:
    """Else the year; what names no code is the last lane where lanes are of code, however large it is."""
    folder = make_repo(tmp_path / "words")
    topics = ["orders cache", "cache of prices", "cache-limits", "login", "Use of tokens"]
    for topic in topics:
        filemem(
            folder,
            *("save", "--topic", topic, "--decision", f"Use it: {topic}", "--reasoning", "x"),
        )
    with serving(folder) as server:
        page = opened(browser, server)
        lanes = dict(page.js(LANES))
        year = subprocess.run(["date", "-u", "+%Y"], capture_output=True, text=True, check=True)
        assert sorted(lanes) == sorted(["cache", year.stdout.strip()])
        assert len(lanes["cache"]) == 3
        filemem(
            folder,
            *(
                "save",
                "--topic",
                "x",
                "--decision",
                "Two",
                "--reasoning",
                "x",
                "--affects",
                "src/a.py",
            ),
        )
        page.wait("Data.decisions.length === 6")
        page.js("State.change({by: 'code'})")
        assert [name for name, _ in page.js(LANES)] == ["src", "no code named"]
        page.js("State.change({by: 'topic'})")
        assert [name for name, _ in page.js(LANES)] == ["topics decided once"]
