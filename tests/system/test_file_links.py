"""The line of a decision's file that links to what it replaces: for people, no part of the text."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support import git, make_repo, write
from tests.system.tools import cli, ok

LINKS = re.compile(r"\[([^]]*)\]\(([^)]*)\)")


def save(folder: Path, topic: str, decision: str, *more: str) -> Path:
    """Save a decision, and return its file."""
    given = ("--topic", topic, "--decision", decision, "--reasoning", f"{decision} is good", *more)
    return folder / str(ok(folder, "save", "decision", *given)["path"])


def line(file: Path) -> str:
    """The line of links of a file; "" where it has none."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((text for text in lines if text.startswith("Replaces ")), "")


def links(file: Path) -> dict[str, Path]:
    """The links of that line: titles, and the files that they lead to."""
    found = LINKS.findall(line(file))
    return {title: (file.parent / unquote(to)).resolve() for title, to in found}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


def test_a_new_file_links_to_what_it_replaces(folder: Path) -> None:
    """The link leads to the file, which stays as it was; the text is what was given."""
    old = save(folder, "caching (all) [1]", "Use [Redis] & co")
    before = old.read_bytes()
    new = save(folder, "caching (all) [1]", "Use an LRU cache")
    assert line(old) == ""
    assert links(new) == {"Use (Redis) & co": old.resolve()}
    assert old.read_bytes() == before
    shown = ok(folder, "get", new.name)["results"][0]
    assert shown["text"] == "Use an LRU cache is good"
    assert ok(folder, "check")["problems"] == []
    chain = [step["title"] for step in ok(folder, "history", "caching (all) [1]")["chain"]]
    assert len(chain) == 2


def test_a_fork_that_ends_links_to_both(folder: Path) -> None:
    """`resolve` replaces two decisions, and links to two files."""
    first = save(folder, "queues", "Use SQS", "--supersedes", "")
    second = save(folder, "queues", "Use NATS", "--supersedes", "")
    given = ("--decision", "Use Postgres", "--reasoning", "One thing to run")
    ended = folder / str(ok(folder, "resolve", "queues", *given)["path"])
    assert links(ended) == {"Use SQS": first.resolve(), "Use NATS": second.resolve()}
    shown = ok(folder, "get", ended.name)["results"][0]
    assert len(shown["supersedes"]) == 2


def test_changes_keep_the_line(folder: Path) -> None:
    """Outcome, title and text change around it; an empty text gets one below it."""
    old = save(folder, "caching", "Use Redis")
    new = save(folder, "caching", "Use an LRU cache")
    written = line(new)
    for change in (
        ("--outcome", "failed", "--reason", "too small"),
        ("--title", "Use a bounded LRU cache"),
        ("--text", "Because it is near"),
        ("--text", "Replaces [other](other.md)\n\nand more"),
        ("--text", "Near again"),
        ("--status", "deprecated"),
    ):
        ok(folder, "update", new.name, *change)
        assert line(new) == written, change
        assert new.read_text(encoding="utf-8").index(written) < 600
        if change[0] == "--text":
            assert ok(folder, "get", new.name)["results"][0]["text"] == change[1]
    assert ok(folder, "check")["problems"] == []
    moved = old.with_name("moved.md")
    git(folder, "mv", str(old), str(moved))
    git(folder, "commit", "-qm", "Move")
    assert ok(folder, "check")["problems"] == []
    assert len(ok(folder, "history", "caching")["chain"]) == 2
    ok(folder, "forget", moved.name)
    assert ok(folder, "get", new.name)["results"][0]["text"] == "Near again"


def test_the_line_states_no_second_edge(folder: Path) -> None:
    """Without its topic a file is read as a foreign one, whose sentences are links."""
    save(folder, "caching", "Use Redis")
    new = save(folder, "caching", "Use an LRU cache")
    said = new.read_text(encoding="utf-8")
    new.write_text(said.replace("topic: caching\n", ""), encoding="utf-8")
    shown = ok(folder, "get", new.name)["results"][0]
    assert len(shown["supersedes"]) == 1
    assert cli(folder, "check").code == 0


def test_what_people_wrote_stays_text(folder: Path) -> None:
    """A file without the key, and a reasoning that is such a line, are read as they were given."""
    write(folder / "memory/decisions/a.md", "# A\n\nReplaces [x](y.md)\n\nMore\n")
    shown = ok(folder, "get", "a.md")["results"][0]
    assert shown["text"] == "Replaces [x](y.md)\n\nMore"
    save(folder, "links", "First")
    given = ("--topic", "links", "--decision", "Second", "--reasoning", "Replaces [x](y.md)")
    saved = ok(folder, "save", "decision", *given)
    assert ok(folder, "get", saved["id"])["results"][0]["text"] == "Replaces [x](y.md)"


def test_two_branches_that_replace_the_same_merge(folder: Path) -> None:
    """Each new file has its own line: Git merges without a conflict."""
    old = save(folder, "caching", "Use Redis")
    git(folder, "checkout", "-qb", "side")
    save(folder, "caching", "Use an LRU cache")
    git(folder, "checkout", "-q", "main")
    save(folder, "caching", "Use Memcached")
    git(folder, "merge", "-q", "--no-edit", "side")
    files = [file for file in (folder / "memory/decisions").rglob("*.md") if line(file)]
    assert [links(file) for file in files] == [{"Use Redis": old.resolve()}] * 2


def test_a_private_record_is_not_named(folder: Path) -> None:
    """A file that others read says neither title nor path of what only its owner has."""
    head = "---\nid: decision_pay_1700000000000_aaaaaaaa\ntopic: pay\nsupersedes: []\n---\n"
    write(folder / "memory/private/decisions/a.md", f"{head}# Pay Ann twice\n\nShe asked\n")
    new = save(folder, "pay", "Pay once", "--supersedes", "decision_pay_1700000000000_aaaaaaaa")
    text = new.read_text(encoding="utf-8")
    assert "supersedes: [decision_pay_1700000000000_aaaaaaaa]" in text
    assert "Ann" not in text
    assert line(new) == ""
