"""What Git says of commits and records: the commit table equals `git log`, on every branch, however often it grew.

Also: it is derived, so damage costs nothing; it follows renames; and a hostile message is only a message.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.repo import GitError, Repo
from filemem.repo.history import History
from filemem.repo.run import Git
from tests.support import git, make_repo, write

Open = Callable[..., History]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens histories, and closes them in the end."""
    parts: list[tuple[Repo, History]] = []

    def open_(path: Path, folder: str = "memory") -> History:
        repo = Repo.discover(path)
        parts.append((repo, History(repo, folder)))
        return parts[-1][1]

    yield open_
    for repo, history in parts:
        history.close()
        repo.close()


def commit(path: Path, message: str = "Change", at: int = 1_763_650_000, **who: Any) -> str:
    """Commit everything; returns the commit."""
    git(path, "add", "-A")
    dates: dict[str, Any] = {"GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": f"{at} +0000"}
    git(path, "commit", "-q", "--allow-empty", "-F", "-", input=message.encode(), **dates, **who)
    return git(path, "rev-parse", "HEAD")


def text(name: str) -> str:
    return "".join(f"{number} words of {name} that stand nowhere else\n" for number in range(9))


def kinds(history: History, path: str, tip: str = "HEAD") -> list[tuple[str, str]]:
    """What happened to a file, newest first: kind and subject."""
    return [(touch.kind, touch.commit.subject) for touch in history.read_touches([path], tip)[path]]


def test_who_brought_a_record_when_and_what_its_trailers_say(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    message = "decision(t): Use it\n\nFilemem-Id: d_1\nAgent: claude\nReviewed-by: Bob <b@x>\nCo-authored-by: Eve\n"
    first = commit(path, message, 1_700_000_000, GIT_AUTHOR_NAME="Zoe", GIT_AUTHOR_EMAIL="z@x")
    write(path / "memory/a.md", text("a") + "more\n")
    second = commit(path, "Edit", 1_700_000_100)
    history = opened(path)
    found = history.read_touches(["memory/a.md", "memory/none.md"])
    made = found["memory/a.md"][-1].commit
    assert not found["memory/none.md"]
    assert (made.id, made.author, made.at) == (first, "Zoe", 1_700_000_000_000)
    assert (made.subject, made.agent) == ("decision(t): Use it", "claude")
    assert (made.reviewers, made.co_authors) == (("Bob <b@x>",), ("Eve",))
    assert ("Filemem-Id", "d_1") in made.trailers
    assert history.read_dates(["memory/a.md"]) == {"memory/a.md": 1_700_000_000_000}
    touches = history.read_touches(["memory/a.md"])["memory/a.md"]
    blobs = [git(path, "rev-parse", f"{one}:memory/a.md") for one in (second, first)]
    assert [(one.kind, one.commit.id, one.new_blob) for one in touches] == [
        ("M", second, blobs[0]),
        ("A", first, blobs[1]),
    ]
    assert (touches[0].old_blob, touches[1].old_blob) == (blobs[1], "")
    assert touches[0].commit.parents == (first,)


def test_a_record_is_followed_through_renames_and_a_name_that_was_given_on_is_anothers(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    commit(path, "Begin a")
    git(path, "mv", "memory/a.md", "memory/b.md")
    commit(path, "Rename")
    write(path / "memory/a.md", text("another"))
    commit(path, "Begin another")
    write(path / "memory/b.md", text("a") + "more\n")
    commit(path, "Edit b")
    history = opened(path)
    assert kinds(history, "memory/b.md") == [("M", "Edit b"), ("R", "Rename"), ("A", "Begin a")]
    assert kinds(history, "memory/a.md") == [("A", "Begin another")]
    assert history.read_touches(["memory/b.md"])["memory/b.md"][1].old_path == "memory/a.md"
    git(path, "rm", "-q", "memory/b.md")
    commit(path, "Remove b")
    assert [(one.path, one.commit.subject) for one in history.read_removals()] == [
        ("memory/b.md", "Remove b")
    ]
    write(path / "memory/b.md", text("a"))
    commit(path, "Bring b back")
    assert history.read_touches(["memory/b.md"])["memory/b.md"][-1].commit.subject == "Begin a"


# files that came from outside the folder


def assert_followed(history: History, path: Path, tip: str = "HEAD") -> None:
    """Of each record of a tip: its commits and its first author are those of `git log --follow`."""
    names = git(path, "ls-tree", "-r", "--name-only", tip, "memory").splitlines()
    authors = history.read_authors(tip)
    for name in names:
        log = git(path, "log", "--follow", "-M", "--format=%H %an", tip, "--", name).splitlines()
        touches = history.read_touches([name], tip)[name]
        assert [f"{touch.commit.id} {touch.commit.author}" for touch in touches] == log, name
        assert authors[name] == touches[-1].commit.author, name


def began(path: Path, *names: str) -> None:
    """Records of one author, each in a commit of its own, in some place."""
    for number, name in enumerate(names):
        write(path / name, text(name))
        commit(path, f"Begin {name}", 1_500_000_000 + number, GIT_AUTHOR_NAME=f"Author {number}")


def moved(path: Path, old: str, new: str) -> None:
    (path / new).parent.mkdir(parents=True, exist_ok=True)
    git(path, "mv", old, new)


def test_a_record_is_followed_through_a_move_of_the_whole_folder(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    began(path, "docs/adr/1.md", "docs/adr/deep/2.md", "docs/adr/3.md", "docs/adr/gone.md")
    git(path, "rm", "-q", "docs/adr/gone.md")
    write(path / "docs/adr/1.md", text("docs/adr/1.md") + "edited\n")
    commit(path, "Edit 1, remove one")
    moved(path, "docs/adr", "memory")
    commit(path, "Move the folder", GIT_AUTHOR_NAME="Mover")
    write(path / "memory/2.md", text("a new one"))
    commit(path, "Begin 2")
    history = opened(path)
    assert_followed(history, path)
    assert kinds(history, "memory/1.md")[0] == (
        "R",
        "Move the folder",
    )
    assert history.read_dates(["memory/deep/2.md"]) == {"memory/deep/2.md": 1_500_000_001_000}
    landed = history.read_landings(["memory/1.md"], "main")["memory/1.md"]
    assert landed.subject == "Begin docs/adr/1.md"
    assert not history.read_removals(), "what was removed elsewhere was no record of this folder"
    assert (
        history.read_added_files(history.read_ancestors("HEAD")).items()
        >= {
            git(path, "rev-parse", "HEAD"): ["memory/2.md"],
            git(path, "rev-parse", "HEAD~1"): [],
            git(path, "rev-parse", "HEAD~3"): [],
        }.items()
    )


def test_a_record_is_followed_through_a_move_inside_a_merge(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    began(path, "docs/adr/1.md", "docs/adr/2.md", "memory/3.md")
    git(path, "checkout", "-q", "-b", "side")
    write(path / "docs/adr/2.md", text("docs/adr/2.md") + "an edit on the side\n")
    commit(path, "Edit on the side", 1_500_000_100, GIT_AUTHOR_NAME="Side")
    git(path, "checkout", "-q", "main")
    write(path / "other.txt", "x")
    commit(path, "Go on", 1_500_000_200)
    git(path, "merge", "-q", "--no-commit", "--no-ff", "side")
    for number in (1, 2):
        moved(path, f"docs/adr/{number}.md", f"memory/{number}.md")
    moved(path, "memory/3.md", "memory/4.md")
    commit(path, "Merge and move", 1_500_000_300, GIT_AUTHOR_NAME="Merger")
    write(path / "memory/1.md", text("docs/adr/1.md") + "later\n")
    commit(path, "Edit 1", 1_500_000_400)
    history = opened(path)
    authors = history.read_authors("HEAD")
    for name in ("memory/1.md", "memory/2.md", "memory/4.md"):
        log = git(path, "log", "--follow", "-m", "-M", "--format=%H", "--", name).splitlines()
        touches = history.read_touches([name])[name]
        assert [touch.commit.id for touch in touches] == list(dict.fromkeys(log)), name
    names = ("memory/1.md", "memory/2.md", "memory/4.md")
    assert [authors[name] for name in names] == ["Author 0", "Author 1", "Author 2"]
    assert kinds(history, "memory/4.md") == [("R", "Merge and move"), ("A", "Begin memory/3.md")]
    assert history.read_dates(["memory/2.md"]) == {"memory/2.md": 1_500_000_001_000}
    assert not history.read_removals()


def test_a_record_is_followed_through_single_moves_edits_and_several_places(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    began(path, "notes.md", "old/a.md", "old/b.md", "old/c.md", "memory/stays.md")
    moved(path, "notes.md", "memory/from-the-top.md")
    commit(path, "Move from the top", GIT_AUTHOR_NAME="Mover")
    moved(path, "old/a.md", "memory/a.md")
    write(path / "memory/a.md", text("old/a.md") + "an edit with the move\n")
    commit(path, "Move and edit", GIT_AUTHOR_NAME="Mover")
    moved(path, "old/b.md", "old/renamed.md")
    commit(path, "Rename where it was")
    moved(path, "old/renamed.md", "new/b.md")
    commit(path, "Move elsewhere")
    moved(path, "new/b.md", "memory/deep/b.md")
    commit(path, "Move in", GIT_AUTHOR_NAME="Mover")
    moved(path, "memory/stays.md", "archive/stays.md")
    commit(path, "Move out")
    moved(path, "archive/stays.md", "memory/stays.md")
    commit(path, "Move back", GIT_AUTHOR_NAME="Mover")
    history = opened(path)
    assert_followed(history, path)
    assert [kind for kind, _ in kinds(history, "memory/deep/b.md")] == ["R", "R", "R", "A"]
    assert [touch.path for touch in history.read_removals()] == ["memory/stays.md"]


def test_a_copy_is_not_followed_and_a_name_outside_that_was_given_on_is_anothers(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    began(path, "old/template.md", "old/a.md")
    write(path / "memory/copy.md", text("old/template.md"))
    commit(path, "Copy the template")
    moved(path, "old/a.md", "old/first.md")
    commit(path, "Give the name on")
    write(path / "old/a.md", text("another"))
    commit(path, "Begin another")
    moved(path, "old/a.md", "memory/a.md")
    commit(path, "Move the other in")
    history = opened(path)
    assert kinds(history, "memory/copy.md") == [("A", "Copy the template")]
    assert kinds(history, "memory/a.md") == [("R", "Move the other in"), ("A", "Begin another")]


def test_moves_are_followed_however_the_table_grew_and_on_every_branch(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    history = opened(path)
    began(path, "old/a.md", "old/b.md")
    history.update_to_head()
    git(path, "switch", "-q", "-c", "side")
    moved(path, "old/b.md", "memory/b.md")
    commit(path, "Move b on a branch", GIT_AUTHOR_NAME="Mover")
    assert_followed(history, path)
    git(path, "switch", "-q", "main")
    write(path / "old/a.md", text("old/a.md") + "edited\n")
    commit(path, "Edit outside")
    assert_followed(history, path)
    moved(path, "old/a.md", "memory/a.md")
    commit(path, "Move a", GIT_AUTHOR_NAME="Mover")
    assert_followed(history, path)
    assert_followed(history, path, "side")
    git(path, "merge", "-q", "--no-edit", "side")
    write(path / "memory/b.md", text("old/b.md") + "edited\n")
    commit(path, "Edit b")
    names = ["memory/a.md", "memory/b.md"]
    grown = history.read_touches(names)
    history.close()
    (path / ".git/filemem/commits.db").rename(tmp_path / "commits.db")
    assert opened(path).read_touches(names) == grown
    assert [touch.commit.subject for touch in grown["memory/b.md"]] == [
        "Edit b",
        "Move b on a branch",
        "Begin old/b.md",
    ]


def test_saves_of_our_own_cost_no_look_at_their_whole_commits(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_repo(tmp_path / "repo")
    for number in range(3):
        write(path / f"memory/{number}.md", text(str(number)))
        commit(path, f"decision: {number}\n\nFilemem-Id: d_{number}\n")
    calls = list[tuple[str, ...]]()
    run = Git.run

    def counted(git_: Git, *words: str, **options: Any) -> bytes:
        calls.append(words)
        return run(git_, *words, **options)

    monkeypatch.setattr(Git, "run", counted)
    assert kinds(opened(path), "memory/0.md") == [("A", "decision: 0")]
    assert len([words for words in calls if words[0] == "log"]) == 1


def test_a_merge_counts_only_where_it_changed_a_record(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    base = commit(path, "Begin")
    git(path, "switch", "-q", "-c", "side")
    write(path / "memory/b.md", text("b"))
    born = commit(path, "Bring b")
    write(path / "memory/a.md", text("a") + "side\n")
    commit(path, "Side")
    git(path, "switch", "-q", "main")
    write(path / "memory/a.md", text("a") + "main\n")
    commit(path, "Main")
    git(path, "merge", "-q", "--no-commit", "side", ok=False)
    write(path / "memory/a.md", text("a") + "both\n")
    merge = commit(path, "Merge")
    history = opened(path)
    assert kinds(history, "memory/b.md") == [("A", "Bring b")], "a clean merge is no touch"
    assert kinds(history, "memory/a.md")[0] == ("M", "Merge")
    assert history.read_touches(["memory/b.md"])["memory/b.md"][-1].commit.id == born
    landed = history.read_landings(["memory/a.md", "memory/b.md"], "main")
    assert {name: one.id for name, one in landed.items()} == {
        "memory/a.md": base,
        "memory/b.md": merge,
    }
    assert history.read_landings(["memory/b.md"], "side")["memory/b.md"].id == born
    assert (history.is_ancestor(born, merge), history.is_ancestor(merge, born)) == (True, False)
    assert (base in history.read_ancestors("side"), merge in history.read_ancestors("side")) == (
        True,
        False,
    )
    assert not history.is_ancestor("0" * 40, merge)


def test_an_answer_counts_only_what_its_tip_reaches(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    history = opened(path)
    git(path, "switch", "-q", "-c", "side")
    write(path / "memory/a.md", text("a"))
    commit(path, "On side")
    assert kinds(history, "memory/a.md") == [("A", "On side")]
    git(path, "switch", "-q", "main")
    assert kinds(history, "memory/a.md") == []
    assert kinds(history, "memory/a.md", "side") == [("A", "On side")]
    git(path, "merge", "-q", "--ff-only", "side")
    assert kinds(history, "memory/a.md") == [("A", "On side")]


def test_reverts_and_trailers_are_what_commits_say_of_decisions(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    said = commit(path, "Try it\n\nDecision: d_1\nOutcome: failed: slow\n")
    commit(path, "Nothing to say")
    back = commit(path, f'Revert "Try it"\n\nThis reverts commit {said}.\n')
    history = opened(path)
    found = history.read_decision_commits()
    assert [one.id for one in found] == [said, back]
    assert found[0].trailers == (("Decision", "d_1"), ("Outcome", "failed: slow"))
    assert history.read_reverted_ids(found[1]) == {said}
    git(path, "switch", "-q", "-c", "side", said)
    inner = [commit(path, "One"), commit(path, "Two")]
    git(path, "switch", "-q", "main")
    git(path, "merge", "-q", "--no-ff", "-m", "Merge", "side")
    merge, before = git(path, "rev-parse", "HEAD"), git(path, "rev-parse", "HEAD^1")
    commit(
        path, f"Revert it\n\nThis reverts commit {merge}, reversing\nchanges made to {before}.\n"
    )
    assert history.read_reverted_ids(history.read_decision_commits()[-1]) == {merge, *inner}


def test_a_hostile_message_is_only_a_message(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    made = commit(
        path, "\x01" + "a" * 40 + "\n\n:100644 100644 x y A\nAgent: me\x02\nFilemem-Id: x\x1fy\x1ez"
    )
    history = opened(path)
    assert history.read_touches(["memory/a.md"])["memory/a.md"][-1].commit.id == made
    assert history.read_ancestors("HEAD") == {made, git(path, "rev-parse", "HEAD~1")}


def test_before_the_first_commit_there_is_no_history(tmp_path: Path, opened: Open) -> None:
    history = opened(make_repo(tmp_path / "repo", commit=False))
    history.update_to_head()
    assert history.read_touches(["memory/a.md"]) == {"memory/a.md": ()}
    assert history.read_dates(["memory/a.md"]) == {}
    assert not history.read_decision_commits()
    assert not history.read_removals()


# the table


def wander(path: Path, dice: random.Random, number: int) -> None:
    """A random step of a repository: edit, add, rename, remove, branch, switch, merge, amend."""
    files = (
        sorted(each for each in (path / "memory").rglob("*.md"))
        if (path / "memory").is_dir()
        else []
    )
    way = dice.choice(
        (
            "add",
            "add",
            "edit",
            "edit",
            "rename",
            "remove",
            "branch",
            "switch",
            "merge",
            "amend",
            "code",
        )
    )
    branches = git(path, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    if way == "branch":
        git(path, "switch", "-q", "-c", f"b{number}")
    elif way == "switch":
        git(path, "switch", "-q", dice.choice(branches))
    elif way == "merge":
        git(path, "merge", "-q", "--no-edit", dice.choice(branches), ok=False)
        git(path, "merge", "--abort", ok=False)
    elif way == "amend":
        git(path, "commit", "-q", "--amend", "--allow-empty", "-m", f"Amended {number}")
    else:
        if way == "add" or (not files and way != "code"):
            write(path / f"memory/{number}.md", text(str(number)))
        elif way == "edit":
            dice.choice(files).write_text(f"{text(str(number))}edited\n")
        elif way == "rename":
            dice.choice(files).rename(path / f"memory/{number}-renamed.md")
        elif way == "remove":
            dice.choice(files).unlink()
        else:
            write(path / "code.py", f"{number}\n")
        said = dice.choice(
            (
                "",
                "\n\nAgent: me\nFilemem-Id: x\n",
                "\n\nA body.\n\nAgent: me\n",
                "\n\nDecision: x y\n",
            )
        )
        commit(path, f"Step {number}{said}", 1_700_000_000 + dice.randint(-500, 500))


def test_the_table_equals_git_log_however_it_grew(tmp_path: Path, opened: Open) -> None:
    path, dice = make_repo(tmp_path / "repo"), random.Random(1)
    history = opened(path)
    for number in range(40):
        wander(path, dice, number)
        if dice.random() < 0.4:
            history.update_to_head()
        if number % 13 == 12:
            history = opened(path)
    everything = git(path, "rev-list", "--branches", "--reflog").split()
    for one in everything:
        assert history.is_ancestor(one, one)
    history.close()
    (path / ".git/filemem/commits.db").rename(tmp_path / "commits.db")
    fresh = opened(path)
    for one in everything:
        assert fresh.is_ancestor(one, one)
    for tip in git(path, "for-each-ref", "--format=%(objectname)", "refs/heads").split():
        reached = history.read_ancestors(tip)
        ours = set(git(path, "rev-list", tip).split())
        assert {one for one in everything if one in reached} == ours
        for name in git(path, "ls-tree", "-r", "--name-only", tip, "memory").splitlines():
            how = (
                "log",
                "--full-history",
                "--format=%H",
                "--no-merges",
                "-M",
                "--name-status",
                tip,
                "--",
                name,
            )
            told = {row for row in git(path, *how).split() if len(row) == 40}
            touches = [
                one
                for one in history.read_touches([name], tip)[name]
                if len(one.commit.parents) < 2
            ]
            assert set(fresh.read_touches([name], tip)[name]) == set(
                history.read_touches([name], tip)[name]
            )
            assert told <= {one.commit.id for one in touches} | _of_others(path, name, tip), name
            assert history.read_touches([name], tip)[name][-1].kind in "AM"


def _of_others(path: Path, name: str, tip: str) -> set[str]:
    """The commits on a name that it had before it was given on, or that removed it."""
    how = (
        "log",
        "--full-history",
        "--format=%H",
        "--no-merges",
        "--no-renames",
        "--diff-filter=D",
        tip,
        "--",
        name,
    )
    gone = git(path, *how).split()
    return {
        one
        for each in gone
        for one in git(path, "rev-list", "--full-history", each, "--", name).split()
    }


def test_a_damaged_table_is_made_anew(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    commit(path, "Begin")
    history = opened(path)
    history.update_to_head()
    file = path / ".git/filemem/commits.db"
    whole = file.read_bytes()
    for damage in (b"no database", b"", whole[:3000]):
        history.close()
        file.write_bytes(damage)
        for end in ("-wal", "-shm"):
            file.with_name(f"commits.db{end}").unlink(missing_ok=True)
        assert kinds(history, "memory/a.md") == [("A", "Begin")]
    with sqlite3.connect(file) as other:
        other.execute("drop table touched")
    assert kinds(history, "memory/a.md") == [("A", "Begin")]


def test_a_shallow_clone_shows_what_is_there_and_all_of_it_once_it_is_deepened(
    tmp_path: Path, opened: Open
) -> None:
    path = make_repo(tmp_path / "repo")
    for number in range(4):
        write(path / "memory/a.md", text(str(number)))
        commit(path, f"Step {number}")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{path}", "clone")
    clone = tmp_path / "clone"
    assert kinds(opened(clone), "memory/a.md") == [("M", "Step 3"), ("A", "Step 2")]
    git(clone, "fetch", "-q", "--unshallow")
    assert [subject for _, subject in kinds(opened(clone), "memory/a.md")] == [
        f"Step {n}" for n in (3, 2, 1, 0)
    ]


@pytest.mark.parametrize("what", ["blob:none", "tree:0"])
def test_a_partial_clone_fetches_nothing_and_shows_what_is_there(
    tmp_path: Path, opened: Open, what: str
) -> None:
    path = make_repo(tmp_path / "repo")
    write(path / "memory/a.md", text("a"))
    commit(path, "Begin")
    git(path, "mv", "memory/a.md", "memory/b.md")
    commit(path, "Rename")
    write(path / "memory/b.md", text("b"))
    last = commit(path, "Edit")
    git(path, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", f"--filter={what}", f"file://{path}", "clone")
    shutil.move(path, tmp_path / "away")
    if what == "tree:0":
        with pytest.raises(GitError, match="--no-filter"):
            kinds(opened(tmp_path / "clone"), "memory/b.md")
        return
    found = kinds(opened(tmp_path / "clone"), "memory/b.md")
    assert found == [("M", "Edit"), ("R", "Rename"), ("A", "Begin")]
    assert last in opened(tmp_path / "clone").read_ancestors("HEAD")


def test_threads_and_processes_extend_one_table_at_once(tmp_path: Path, opened: Open) -> None:
    path = make_repo(tmp_path / "repo")
    for number in range(30):
        write(path / f"memory/{number}.md", text(str(number)))
        commit(path, f"Step {number}")
    script = (
        "import sys; from filemem.repo import Repo; from filemem.repo.history import History\n"
        "print(len(History(Repo.discover(sys.argv[1]), 'memory').read_dates([f'memory/{n}.md' for n in range(30)])))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    history, found = opened(path), []
    names = [f"memory/{number}.md" for number in range(30)]
    threads = [
        threading.Thread(target=lambda: found.append(len(history.read_dates(names))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [30] * 4
    assert [process.communicate()[0].strip() for process in processes] == ["30"] * 3
    assert all(len(touches) == 1 for touches in history.read_touches(names).values())
