"""What the gate says of a merge before it is made, against what is true once Git has made it."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.support import git, make_repo, write
from tests.system.tools import FILEMEM, cli, until

DATE = '"2026-01-01T00:00:00.000Z"'
TOLD = {"merge-conflict", "forked-topic", "dangling-edge", "supersedes-missing", "supersedes-cycle", "bad-confidence"}


def record(repo: Path, path: str, topic: str, *supersedes: str) -> Path:
    """A decision in a file of its own: keys that lie apart, so that Git merges changes of several; words that no other
    has, so that Git takes none for a renamed one."""
    name = path.rpartition("/")[2]
    lines = "".join(f"Line {number} of {name}: words that stand in {name} and nowhere else.\n" for number in range(12))
    replaced = f"supersedes: [{', '.join(supersedes)}]\n"
    header = f"---\nid: decision_{name}\ntype: decision\ncreated: {DATE}\ntags:\n  - one\n  - two\n  - three\n"
    text = f"{header}topic: {topic}\nconfidence: 0.5\nagent: hand\nsession: s\nsource: none\n{replaced}---\n"
    return write(repo / f"memory/decisions/{path}.md", f"{text}# Use {name}\n\n{lines}")


def commit(repo: Path, subject: str) -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", subject)


def parted(repo: Path, here: str = "br") -> None:
    commit(repo, "Base")
    git(repo, "branch", "-f", here)


def on(repo: Path, branch: str) -> None:
    git(repo, "switch", "-q", branch)


def reword(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def found(repo: Path, *arguments: str) -> list[tuple[str, str]]:
    problems = cli(repo, "check", *arguments, "--json").json["problems"]
    return [(Path(one["path"]).name, one["code"]) for one in problems if one["code"] in TOLD]


def gate(repo: Path) -> list[tuple[str, str]]:
    return found(repo, "--base", "main")


def test_a_file_that_both_sides_changed_is_merged_as_git_merges_it(repo: Path) -> None:
    """The topic is moved on main; what the branch appends to the same file does not move it back."""
    path = record(repo, "x", "billing")
    parted(repo)
    reword(path, "topic: billing", "topic: payments")
    commit(repo, "Move the topic")
    on(repo, "br")
    path.write_text(path.read_text() + "More.\n")
    record(repo, "z", "payments")
    commit(repo, "Add")
    assert gate(repo) == [("z.md", "forked-topic")]
    assert "it is on topic billing now" not in cli(repo, "check", "--base", "main").out
    (repo / "memory/decisions/z.md").unlink()
    record(repo, "w", "billing")
    commit(repo, "Another topic")
    assert gate(repo) == [], "nothing is left on billing"


@pytest.mark.parametrize("mover", ["main", "br"])
def test_a_file_that_one_side_moved_and_the_other_changed_is_one_file(repo: Path, mover: str) -> None:
    path = record(repo, "x", "billing")
    parted(repo)
    for branch in ("main", "br"):
        on(repo, branch)
        if branch == mover:
            git(repo, "mv", str(path), "memory/decisions/moved.md")
        else:
            reword(path, "topic: billing", "topic: payments")
        commit(repo, "Change")
    record(repo, "w", "billing")
    commit(repo, "More")
    assert gate(repo) == []


def test_what_git_cannot_merge_is_told(repo: Path) -> None:
    changed, removed, kept = (record(repo, name, name) for name in ("changed", "removed", "kept"))
    parted(repo)
    for branch in ("main", "br"):
        on(repo, branch)
        reword(changed, "Line 5", f"Words of {branch}")
        reword(kept, "Line 5", "The same words on either side, line 5")
        record(repo, "added", f"added_{branch}")
        if branch == "main":
            removed.unlink()
        else:
            reword(removed, "Line 5", "Other words")
        commit(repo, "Change")
    clashes = [("added.md", "merge-conflict"), ("changed.md", "merge-conflict"), ("removed.md", "merge-conflict")]
    assert gate(repo) == clashes
    out = cli(repo, "check", "--base", "main").out
    assert "changed on one side and removed on the other, and Git cannot merge the two: merge the base into" in out
    git(repo, "merge", "-q", "main", ok=False)
    assert len(git(repo, "diff", "--name-only", "--diff-filter=U").splitlines()) == 3


def test_what_the_base_moves_into_the_store_is_followed(repo: Path) -> None:
    record(repo, "a", "billing")
    path = record(repo, "x", "payments")
    (repo / "docs").mkdir()
    path = path.rename(repo / "docs/x.md")
    parted(repo)
    git(repo, "mv", str(path), "memory/decisions/x.md")
    commit(repo, "Move")
    on(repo, "br")
    reword(path, "topic: payments", "topic: billing")
    commit(repo, "Another topic")
    assert gate(repo) == [("x.md", "forked-topic")]
    assert "Use x held, and nothing replaces it: it is on topic billing now" in cli(repo, "check", "--base", "main").out


def test_what_a_folder_that_was_renamed_makes_unclear_is_told(repo: Path) -> None:
    held = [record(repo, f"old/{name}", name) for name in ("a", "b", "c")]
    parted(repo)
    git(repo, "mv", str(held[0].parent), "memory/decisions/new")
    record(repo, "q.md/inner", "q")
    commit(repo, "Rename the folder")
    on(repo, "br")
    record(repo, "old/d", "d")
    record(repo, "q", "other")
    commit(repo, "Add")
    assert gate(repo) == [("d.md", "merge-conflict"), ("q.md", "merge-conflict")]
    out = cli(repo, "check", "--base", "main").out
    assert "memory/decisions/old/d.md:1: merge-conflict in a folder that the other side has renamed" in out
    assert "memory/decisions/q.md:1: merge-conflict a file on one side and a folder on the other" in out


@pytest.mark.parametrize(
    ("where", "filled", "told"),
    [
        ("memory", True, "memory was no repository of its own, and 1 of its records is not in memory"),
        ("memory", False, "memory is a submodule: git -C {} submodule update --init memory"),
        ("memory/decisions/k", True, "memory/decisions/k:1: repository is a repository of its own"),
        ("memory/decisions/k", False, "memory/decisions/k:1: repository is a repository of its own"),
    ],
)
def test_a_submodule_in_the_place_of_records_is_told(
    repo: Path, tmp_path: Path, where: str, filled: bool, told: str
) -> None:
    write(make_repo(tmp_path / "other") / ".filemem.toml", 'store = "."\n')
    commit(tmp_path / "other", "A memory")
    record(repo, "k/a", "a")
    parted(repo)
    on(repo, "br")
    git(repo, "rm", "-rq", where)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), where)
    commit(repo, "Elsewhere")
    if not filled:
        git(repo, "submodule", "--quiet", "deinit", "-f", where)
    done = cli(repo, "check", "--base", "main")
    assert (done.code, done.out.count(told.format(repo))) == (1, 1), done


def test_a_repository_of_code_in_the_place_of_records_is_refused(repo: Path, tmp_path: Path) -> None:
    make_repo(tmp_path / "other")
    record(repo, "k/a", "a")
    parted(repo)
    on(repo, "br")
    git(repo, "rm", "-rq", "memory")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), "memory")
    commit(repo, "Elsewhere")
    done = cli(repo, "check", "--base", "main")
    assert (done.code, "nothing says where in it records stand" in done.err) == (2, True), done


@pytest.mark.parametrize("edited", [True, False])
def test_records_that_moved_to_a_repository_of_their_own_are_not_lost(repo: Path, tmp_path: Path, edited: bool) -> None:
    """In which they may be edited before the branch lands."""
    text = record(repo, "k/a", "a").read_text()
    other = make_repo(tmp_path / "other")
    write(other / ".filemem.toml", 'store = "."\n')
    write(other / "decisions/k/a.md", f"{text}More.\n" if edited else text)
    commit(other, "The records")
    parted(repo)
    on(repo, "br")
    git(repo, "rm", "-rq", "memory")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "memory")
    commit(repo, "Elsewhere")
    assert cli(repo, "check", "--base", "main").code == 0
    git(repo / "memory", "rm", "-q", "decisions/k/a.md")
    git(repo / "memory", "commit", "-q", "-m", "Gone")
    assert "1 of its records is not in memory" in cli(repo, "check", "--base", "main").out


@pytest.mark.parametrize("uncommitted", [False, True])
def test_a_name_that_is_handed_on_is_not_taken_for_the_file_that_had_it(repo: Path, uncommitted: bool) -> None:
    """Records without an id, which are known by their files."""
    store = repo / "memory/decisions"
    words = "".join(f"Line {number}, which stands in {{0}} and nowhere else.\n" for number in range(9))
    for name, topic, more in (("c", "tc", ""), ("d", "td", ""), ("n", "tc", "supersedes: [c.md]\n")):
        header = f"---\ntype: decision\ntopic: {topic}\ncreated: {DATE}\n{more}---\n"
        write(store / f"{name}.md", f"{header}# Use {name}\n\n{words.format(name)}")
        commit(repo, f"Add {name}")
    git(repo, "switch", "-q", "-c", "br")
    for before, after in (("c", "e"), ("d", "c")):
        git(repo, "mv", str(store / f"{before}.md"), str(store / f"{after}.md"))
        if not uncommitted or before == "c":
            commit(repo, f"Call {before} {after}")
    before = cli(repo, "check", "--base", "main", "--json").json["problems"]
    assert [one["code"] for one in before if one["level"] != "hint"] == []
    commit(repo, "All of it")
    on(repo, "main")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "br")
    after = cli(repo, "check", "--json").json["problems"]
    assert [one["code"] for one in after if one["level"] != "hint"] == []


def test_a_file_where_the_other_side_has_a_folder_is_told_as_this_branch_has_it(repo: Path) -> None:
    edited, foldered = record(repo, "v", "v"), record(repo, "w", "w")
    link = repo / "memory/decisions/k.md"
    parted(repo)
    edited.unlink()
    record(repo, "v.md/inner", "inner")
    reword(foldered, "Line 5", "Words of main")
    link.symlink_to("n.md")
    write(repo / "memory/decisions/sub", "No record\n")
    commit(repo, "Folders and files")
    on(repo, "br")
    reword(edited, "topic: v", "topic: u")
    foldered.unlink()
    record(repo, "w.md/other", "other")
    record(repo, "k", "u")
    record(repo, "sub/y", "y")
    commit(repo, "The same names")
    assert gate(repo) == [
        ("k.md", "merge-conflict"),
        ("sub", "merge-conflict"),
        *[("v.md", "forked-topic"), ("v.md", "merge-conflict"), ("v.md", "merge-conflict")],
        *[("w.md", "merge-conflict"), ("w.md", "merge-conflict")],
    ]
    out = cli(repo, "check", "--base", "main").out
    assert "~" not in out, "names that Git makes up stand nowhere"
    assert "memory/decisions/v.md/inner.md:1: no-longer-holds Use inner held" in out
    assert "memory/decisions/w.md:1: no-longer-holds Use w held" in out


def test_a_branch_that_has_nothing_in_common_with_the_base_is_told_what_to_do(repo: Path) -> None:
    git(repo, "switch", "-q", "--orphan", "other")
    record(repo, "a", "a")
    commit(repo, "Begin anew")
    done = cli(repo, "check", "--base", "main")
    assert (done.code, "main and HEAD have no history in common" in done.err) == (5, True)
    assert "hint: Git would not merge the two either: name another branch, or check without --base" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_ended_leaves_nothing_behind(repo: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Neither does what was killed, once a day has gone by."""
    record(repo, "a", "a")
    parted(repo)
    on(repo, "br")
    record(repo, "b", "b")  # not committed: the scratch repository holds its text
    temp, real = tmp_path / "temp", shutil.which("git")
    wrapped = f"""case "$*" in *merge-tree*) touch {temp}/begun; exec sleep 60;; esac\nexec {real} "$@"\n"""
    write(tmp_path / "bin/git", f"#!/bin/sh\n{wrapped}").chmod(0o755)
    write(temp / "filemem-merge-dead/HEAD", "ref: refs/heads/merge\n")
    write(temp / "filemem-merge-begun/packed-refs", "")  # what is left of one whose removal was cut off
    write(temp / "filemem-merge-notes/HEAD", "Of somebody who likes the name.\n")
    write(temp / "filemem-merge-words/objects.txt", "Of the same.\n")
    for folder in temp.iterdir():
        os.utime(folder, (0, 0))
    environment = {**os.environ, "TMPDIR": str(temp), "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    heard = partial(signal.signal, number, signal.SIG_DFL)  # whoever runs the tests may ignore it
    line = [FILEMEM, "check", "--base", "main"]
    with subprocess.Popen(line, cwd=repo, env=environment, preexec_fn=heard) as checking:  # noqa: PLW1509 - no threads
        until((temp / "begun").exists)
        assert len(list(temp.iterdir())) == 4, "one scratch repository, and none that is dead"
        checking.send_signal(number)
        checking.send_signal(number)  # as `timeout` does
        assert checking.wait(30) == 128 + number
    assert sorted(path.name for path in temp.iterdir()) == ["begun", "filemem-merge-notes", "filemem-merge-words"]


def test_what_is_not_committed_counts_as_if_it_were(repo: Path) -> None:
    """But for what is private, which no merge brings."""
    path, gone = record(repo, "x", "billing"), record(repo, "gone", "logs")
    parted(repo)
    on(repo, "br")
    reword(path, "topic: billing", "topic: payments")
    record(repo, "y", "payments")
    gone.unlink()
    write(repo / "memory/private/decisions/z.md", (repo / "memory/decisions/y.md").read_text().replace("_y", "_z"))
    write(repo / "memory/private/.gitignore", "*\n")
    found = cli(repo, "check", "--base", "main").out
    assert [row.split(" ")[1] for row in found.splitlines()] == [
        "no-longer-holds",
        "no-longer-holds",
        "forked-topic",
    ]
    commit(repo, "All of it")
    assert cli(repo, "check", "--base", "main").out == found


def _wander(repo: Path, dice: random.Random, branch: str) -> None:
    """Some random changes to the records of one side."""
    store = repo / "memory/decisions"
    for number in range(dice.randint(1, 4)):
        paths = sorted(store.rglob("*.md"))
        names, path = [path.stem for path in paths], dice.choice(paths)
        way = dice.choice(("add", "topic", "text", "edges", "remove", "wrong", "move", "folder"))
        edits = {
            "topic": (r"topic: .", f"topic: {dice.choice('pqr')}"),
            "text": (rf"Line {dice.randrange(12)} .*", f"Words {branch} {number}."),
            "edges": (r"supersedes: .*", f"supersedes: [decision_{dice.choice(names)}]"),
            "wrong": (r"confidence: .*", "confidence: high"),
        }
        if way in edits:
            path.write_text(re.sub(*edits[way], path.read_text(), count=1))
        elif way == "remove" and len(paths) > 2:
            path.unlink()
        elif way == "move":
            write(store / dice.choice(("k", branch)) / path.name, path.read_text())
            path.unlink()
        elif way == "folder" and path.parent != store and not (there := store / f"{branch}{number}").exists():
            path.parent.rename(there)
        else:
            replaced = [f"decision_{dice.choice(names)}"] if dice.random() < 0.5 else []
            record(repo, f"{path.parent.relative_to(store)}/{branch}{number}", dice.choice("pqr"), *replaced)


def _seen(repo: Path, *arguments: str) -> Counter[tuple[str, ...]]:
    """What is wrong, in a form that is the same before and after a merge."""
    seen: Counter[tuple[str, ...]] = Counter()
    for one in cli(repo, "check", *arguments, "--json").json["problems"]:
        if one["code"] not in TOLD:
            continue
        forked = re.match(r"topic (\S+) is forked", one["message"])
        seen[(one["code"], forked[1]) if forked else (one["code"], Path(one["path"]).name, one["message"])] += 1
    return seen


def _compare(folder: Path, seed: int) -> str:
    """Make two random sides, ask the gate, merge, and compare; says what came of it."""
    dice = random.Random(seed)
    repo = make_repo(folder)
    for number in range(8):
        replaced = [f"decision_b{number - 1}"] if number % 2 else []
        record(repo, f"{'k/' * (number > 4)}b{number}", dice.choice("pqr"), *replaced)
    parted(repo)
    for branch in ("main", "br"):
        on(repo, branch)
        _wander(repo, dice, branch)
        commit(repo, branch)
    told = _seen(repo, "--base", "main")
    clashes = {key for key in told if key[0] == "merge-conflict"}
    on(repo, "main")
    before = _seen(repo)
    git(repo, "merge", "-q", "--no-edit", "br", ok=False)
    stopped = git(repo, "diff", "--name-only", "--diff-filter=U")
    assert bool(clashes) == bool(stopped), seed
    if stopped:
        return "conflict"
    missing, extra = (_seen(repo) - before) - told, told - (_seen(repo) - before)
    forks = {key for key in extra if key[0] == "forked-topic" and key in before}  # one that this branch makes wider
    assert (missing, set(extra) - forks) == (Counter(), set()), seed
    return "worse" if told else "clean"


@pytest.mark.parametrize("seed", range(4))
def test_the_gate_says_what_the_merge_will_show(tmp_path: Path, seed: int) -> None:
    assert _compare(tmp_path / "repo", seed)


@pytest.mark.long
def test_the_gate_says_what_many_merges_will_show(tmp_path: Path) -> None:
    kinds = Counter(_compare(tmp_path / str(seed), seed) for seed in range(100, 250))
    assert all(kinds[kind] > 10 for kind in ("conflict", "worse", "clean")), kinds


@pytest.mark.parametrize(
    ("way", "told", "kind"),
    [
        ("forgets one", [], "narrowed"),
        ("supersedes two", [], "narrowed"),
        ("supersedes one", [], "forked"),
        ("replaces one by two", ["forked-topic"], "forked"),
        ("removes one and adds another", ["forked-topic"], "forked"),
    ],
)
def test_a_fork_that_was_there_is_not_the_fault_of_a_branch_that_makes_it_smaller(
    repo: Path, way: str, told: list[str], kind: str
) -> None:
    held = [record(repo, name, "caching") for name in ("a", "b", "c")]
    parted(repo)
    on(repo, "br")
    if "forgets" in way or "removes" in way:
        held[0].unlink()
    if way.startswith("supersedes"):
        record(repo, "d", "caching", "decision_a", *(["decision_b"] if "two" in way else []))
    elif "two" in way:
        record(repo, "d", "caching", "decision_a")
        record(repo, "e", "caching", "decision_a")
    elif "adds" in way:
        record(repo, "d", "caching")
    commit(repo, "Change")
    assert [code for _, code in gate(repo)] == told
    effects = cli(repo, "diff", "main", "--json").json["effects"]
    assert [one["kind"] for one in effects if one["kind"] in ("forked", "narrowed", "joined")] == [kind]
    if kind == "narrowed":
        assert "still hold at once" in cli(repo, "diff", "main").out
        assert "Less forked" in cli(repo, "diff", "main", "--format", "markdown").out
