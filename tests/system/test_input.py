"""What hands type: text from files, standard input and an editor; edit, link, undo; other names of commands."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from tests.support import git, write
from tests.system.tools import FILEMEM, Done, cli, ok, process

DECISION = ("save", "decision", "--topic", "caching")


def record(repo: Path, saved: Any) -> Any:
    return ok(repo, "get", saved["id"])["results"][0]


def terminal(repo: Path, editor: str, *arguments: str) -> Done:
    """Run a command on a terminal, with a program in place of an editor."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(repo)
        os.execve(FILEMEM, ["filemem", *arguments], {**os.environ, "GIT_EDITOR": editor})
    told = b""
    while True:
        try:
            told += os.read(screen, 65536)
        except OSError:  # Linux says so where the other end is closed
            break
    os.close(screen)
    return Done(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.decode(), "")


def editor(folder: Path, script: str) -> str:
    """A program that does this to the file "$1"."""
    file = write(folder / "editor", f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_a_file_gives_the_decision_and_why(repo: Path) -> None:
    write(repo / "note.md", "# Use Redis\n\nShared between workers.\n\nOne more reason.\n")
    found = record(repo, ok(repo, *DECISION, "-F", "note.md"))
    assert (found["title"], found["text"]) == (
        "Use Redis",
        "Shared between workers.\n\nOne more reason.",
    )
    found = record(repo, ok(repo, *DECISION, "--decision", "Use NATS", "-F", "note.md"))
    assert (found["title"], found["text"].split("\n")[0]) == ("Use NATS", "Use Redis")
    found = record(repo, ok(repo, "save", "observation", "-F", "note.md"))
    assert (found["title"], found["text"]) == (
        "Use Redis",
        "Shared between workers.\n\nOne more reason.",
    )
    found = record(repo, ok(repo, "save", "checkpoint", "-F", "note.md"))
    assert found["title"] == "Use Redis"
    assert cli(repo, *DECISION, "-F", "none.md").code == 2
    assert (
        "both give the reasoning" in cli(repo, *DECISION, "-F", "note.md", "--reasoning", "r").err
    )


def test_standard_input_gives_a_text(repo: Path) -> None:
    for words in (
        (*DECISION, "--decision", "Use Redis", "--reasoning", "-"),
        ("save", "observation", "-F", "-"),
    ):
        subprocess.run(
            [FILEMEM, *words], cwd=repo, input="Two services need it.\n", text=True, check=True
        )
    assert record(repo, {"id": "Use Redis"})["text"] == "Two services need it."
    assert record(repo, {"id": "Two services need it."})["type"] == "observation"


def test_the_editor_opens_where_nothing_is_given(repo: Path, tmp_path: Path) -> None:
    draft = 'printf "Topic: queues\\nUse NATS\\n\\nIt is small.\\n" | cat - "$1" >"$1.new"; mv "$1.new" "$1"'
    assert terminal(repo, editor(tmp_path, draft), "save", "decision").code == 0
    found = record(repo, {"id": "Use NATS"})
    assert (found["topic"], found["text"].split("\n")[0]) == ("queues", "It is small.")
    for program in ("true", editor(tmp_path, ': >"$1"')):
        done = terminal(repo, program, *DECISION)
        assert done.code == 1
        assert "nothing was saved" in done.out
    assert git(repo, "rev-list", "--count", "HEAD") == "2"
    assert "no terminal" in cli(repo, *DECISION).err


def test_what_is_refused_stays_in_the_draft(repo: Path, tmp_path: Path) -> None:
    done = terminal(repo, editor(tmp_path, 'printf "Use NATS" >"$1"'), *DECISION)
    assert done.code == 2
    (draft,) = (repo / ".git/filemem").glob("draft-*")
    assert draft.name in done.out
    assert draft.read_text() == "Use NATS"


def test_edit_commits_the_record_alone(repo: Path, tmp_path: Path) -> None:
    saved = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    write(repo / "other.txt", "mine")
    git(repo, "add", "other.txt")
    assert terminal(repo, "sed -i s/Shared/Fast/", "edit", saved["id"]).code == 0
    assert record(repo, saved)["text"] == "Fast"
    assert git(repo, "show", "--format=", "--name-only").split() == [saved["path"]]
    head = git(repo, "rev-parse", "HEAD")
    assert terminal(repo, "true", "edit", saved["id"]).code == 1
    assert "nothing was saved" in terminal(repo, "sed -i s/^topic:/---/", "edit", saved["id"]).out
    meanwhile = editor(tmp_path, f'echo more >>"$1"; echo >>{repo / saved["path"]}')
    assert "was changed while you edited it" in terminal(repo, meanwhile, "edit", saved["id"]).out
    assert git(repo, "rev-parse", "HEAD") == head


def test_undo_takes_back_saves_one_by_one(repo: Path) -> None:
    first = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    second = ok(repo, *DECISION, "--decision", "Use NATS", "--reasoning", "Small")
    ok(repo, "update", second["id"], "--outcome", "failed")
    assert "failed" in ok(repo, "undo")["message"]
    assert record(repo, second)["outcome"] == "pending"
    assert second["id"][-8:] in ok(repo, "undo")["note"], "how it comes back"
    assert ok(repo, "topics")["topics"][0]["ids"] == [first["id"]]
    ok(repo, "restore", second["id"])
    ok(repo, "forget", second["id"])
    ok(repo, "undo")
    assert ok(repo, "topics")["topics"][0]["ids"] == [second["id"]]
    ok(repo, "undo")
    ok(repo, "undo")
    assert ok(repo, "topics")["topics"] == []
    assert cli(repo, "undo").code == 4


def test_edit_takes_a_topic(repo: Path) -> None:
    saved = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    assert terminal(repo, "sed -i s/Shared/Fast/", "edit", record(repo, saved)["topic"]).code == 0
    assert record(repo, saved)["text"] == "Fast"


def test_undo_says_how_old_a_save_is_and_leaves_what_is_not_of_the_last_minutes(
    repo: Path,
) -> None:
    with Memory.open(repo) as memory:
        now = memory._store.clock()
        memory._store.clock = lambda: now - 11 * 60_000
        old = memory.save(topic="a", decision="Use Redis", reasoning="r")
        memory._store.clock = lambda: now - 9 * 60_000
        memory.save(topic="b", decision="Use NATS", reasoning="r")
    assert ", 9 minutes old: decision(b): Use NATS" in ok(repo, "undo")["message"]
    refused = cli(repo, "undo")
    assert refused.code == 5
    assert "nothing was undone" in refused.err
    assert "11 minutes old: decision(a): Use Redis" in refused.err
    assert f"git revert {old.commit[:10]}" in refused.err


def test_help_of_save_lists_the_options_of_a_decision(repo: Path) -> None:
    for words in (("save", "--help"), ("help", "save")):
        page = process(repo, *words).out
        for option in ("--topic", "--affects", "--supersedes", "-F FILE", "checkpoint  "):
            assert option in page


def test_undo_leaves_what_was_changed_since_and_what_others_saved(repo: Path) -> None:
    saved = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    (repo / saved["path"]).write_text((repo / saved["path"]).read_text() + "\nMore.\n")
    assert cli(repo, "undo").code == 5, "edited, not committed"
    git(repo, "commit", "-qam", "Say more")
    assert cli(repo, "undo").code == 5
    git(repo, "config", "user.name", "Somebody else")
    assert cli(repo, "undo").code == 4


def test_link_adds_an_edge_in_place(repo: Path) -> None:
    one = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    two = ok(
        repo,
        "save",
        "decision",
        "--topic",
        "queues",
        "--decision",
        "Use its lists",
        "--reasoning",
        "There",
    )
    for _ in range(2):
        ok(repo, "link", two["id"], one["id"], "--as", "builds_on")
    assert record(repo, two)["related"][0]["title"] == "Use Redis"
    assert git(repo, "rev-list", "--count", "HEAD") == "4"
    assert cli(repo, "link", two["id"], one["id"], "--as", "supersedes").code == 2


@pytest.mark.parametrize(
    ("name", "same"), [("show", "get"), ("log", "history"), ("list", "topics")]
)
def test_commands_have_their_usual_names(repo: Path, name: str, same: str) -> None:
    ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    words = ["Use Redis"] if name != "list" else []
    assert cli(repo, name, *words).out == cli(repo, same, *words).out != ""
    assert process(repo, "help", same).out == cli(repo, same, "--help").out


def test_a_command_that_is_not_there_names_the_near_one(repo: Path) -> None:
    assert "history" in cli(repo, "histroy").err


@pytest.mark.parametrize("words", [("search", "redis"), ("history", "caching"), ("topics",)])
def test_one_line_each(repo: Path, words: tuple[str, ...]) -> None:
    saved = ok(repo, *DECISION, "--decision", "Use Redis", "--reasoning", "Shared")
    (line,) = cli(repo, *words, "--oneline").out.splitlines()
    short, day, title, topic = line.split("  ")
    assert (short, title, topic) == (saved["id"][-8:], "Use Redis", "caching")
    assert len(day) == 10
