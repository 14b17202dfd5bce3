"""What people who are new here try first works from any folder, with any name a record has, and says each thing once;
records of other makers are listed, found and shown by their titles and paths; no name steers a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import git, write
from tests.system.tools import FILEMEM, cli, ok, process, talking

DECISION = (
    "save",
    "decision",
    "--topic",
    "caching",
    "--decision",
    "Use an LRU cache",
    "--reasoning",
    "One process",
)


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "field"),
    [
        (("get", "nothing"), 4, "not_found", None),
        (("search", "x", "--since", "lately"), 2, "bad_input", "since"),
        (("search", "--no-such-option"), 2, "bad_input", None),
        (("save", "decision", "--topic", "x"), 2, "bad_input", "decision"),
        (("save", "--topic", "x"), 2, "bad_input", "decision"),  # without a word it is a decision
    ],
)
def test_errors_are_json_where_json_was_asked_for(
    repo: Path, arguments: tuple[str, ...], code: int, kind: str, field: str | None
) -> None:
    done = cli(repo, *arguments, "--json")
    assert done.code == code
    error = done.json["error"]
    assert (error["kind"], error.get("field")) == (kind, field)
    assert error["message"].splitlines()[0] in done.err, "the eye reads it too"
    plain = cli(repo, *arguments)
    assert (plain.code, plain.out) == (code, "")


def test_paths_are_relative_to_the_current_folder(repo: Path) -> None:
    ok(repo, *DECISION, "--affects", "src/cache/*.py")
    inside = write(repo / "src/cache/lru.py", "").parent
    write(repo / "memory/decisions/bad.md", "---\nconfidence: high\n---\n# Bad\n")
    for folder, path, count in (
        (repo, "src/cache/lru.py", 1),
        (repo, "lru.py", 0),
        (inside, "lru.py", 1),
        (inside, str(inside / "lru.py"), 1),
    ):
        assert ok(folder, "search", "--path", path)["count"] == count, (folder, path)
    outside = cli(inside, "search", "--path", "../../../x.py")
    assert (outside.code, "outside the work tree" in outside.err) == (2, True)
    for folder, path in ((repo, "memory/decisions/bad.md"), (repo / "memory", "decisions/bad.md")):
        assert cli(folder, "check", path).code == 1
        assert ok(folder, "get", path)["results"][0]["title"] == "Bad"
    ok(
        inside,
        "save",
        "decision",
        "--topic",
        "t",
        "--decision",
        "D",
        "--reasoning",
        "r",
        "--affects",
        "lru.py",
    )
    assert ok(repo, "search", "--topic", "t")["results"][0]["affects"] == ["src/cache/lru.py"]


def test_names_and_texts_cannot_steer_a_terminal(repo: Path) -> None:
    evil = "\x1b[31mred\x07\u202e"
    write(repo / f"memory/decisions/new\nline {evil}.md", "# T\n")
    write(
        repo / "memory/decisions/shown.md", f"---\ntopic: t\n---\n# Title {evil}\n\nText {evil}\n"
    )
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", f"Add {evil}")
    for command in (
        ("check",),
        ("search",),
        ("search", "title"),
        ("history", "t"),
        ("topics",),
        ("status",),
    ):
        done = process(repo, *command)
        assert not {"\x1b", "\x07", "\u202e"} & {*done.out, *done.err}, command
    rows = cli(repo, "check").out.splitlines()
    assert rows
    assert all(row.startswith("memory/") for row in rows), rows


FOREIGN = {
    "0001-record-decisions.md": "# 1. Record architecture decisions\n\nDate: 2017-06-01\n\n## Status\n\nAccepted\n\n"
    "## Context\n\nWe forget why.\n",
    "0002-use-puppet.md": "# 2. Puppet architecture\n\nDate: 2017-07-04\n\n## Status\n\n"
    "Superseded by [3](0003-use-ansible.md)\n\n## Context\n\nServers must be provisioned.\n",
    "0003-use-ansible.md": "# 3. Ansible instead\n\nDate: 2019-01-01\n\n## Status\n\nAccepted\n\n## Context\n\n"
    "Puppet masters are gone.\n",
}


@pytest.fixture
def foreign(repo: Path) -> Path:
    """Records as adr-tools writes them: numbers, no topics, no ids."""
    for name, text in FOREIGN.items():
        write(repo / "docs/adr" / name, text)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "ADRs")
    return repo


def test_records_of_other_makers_are_listed_and_found_by_title(foreign: Path) -> None:
    adr = ("--store", "docs/adr")
    told = ok(foreign, *adr, "topics")["topics"]
    assert [(one["title"], one["stated"], one["decisions"]) for one in told] == [
        ("1. Record architecture decisions", False, 1),
        ("3. Ansible instead", False, 2),
    ]
    for name in ("Puppet architecture", "2", "0003-use-ansible.md", "ADR-3"):
        chain = ok(foreign, *adr, "history", name)["chain"]
        assert [step["title"] for step in chain] == [
            "2. Puppet architecture",
            "3. Ansible instead",
        ], name
    out = cli(foreign, *adr, "history", "puppet architecture").out
    assert "docs/adr/0002-use-puppet.md" in out
    assert "file_" not in out
    alone = cli(foreign, *adr, "search", "--status", "deprecated", "puppet provisioned")
    assert "superseded by 3. Ansible instead (docs/adr/0003-use-ansible.md)" in alone.out


def test_a_store_that_is_misspelt_is_not_an_empty_memory(foreign: Path) -> None:
    for command in (("search", "x"), ("get", "4"), ("history", "x"), ("topics",), ("check",)):
        done = cli(foreign, "--store", "docs/ard", *command)
        assert (done.code, done.out) == (4, ""), command
        assert "there is no folder docs/ard at the top of the work tree" in done.err, command


def test_a_record_answers_to_every_name_it_has(foreign: Path) -> None:
    adr = ("--store", "docs/adr")
    (ansible,) = [
        hit
        for hit in ok(foreign, *adr, "search")["results"]
        if hit["title"] == "3. Ansible instead"
    ]
    tail = ansible["id"].partition("_")[2]
    names = (
        "3",
        "#3",
        "ADR-3",
        "adr-0003",
        "0003-use-ansible.md",
        "0003-use-ansible",
        "ansible INSTEAD",
        tail[-8:],
    )
    for name in (*names, "3. Ansible instead", ansible["path"], ansible["id"], tail[-8:-3]):
        assert ok(foreign, *adr, "get", name)["results"][0]["id"] == ansible["id"], name
    new = ok(foreign, *adr, *DECISION, "--supersedes", "3")
    assert new["superseded"] == [ansible["id"]]
    assert ok(foreign, *adr, "get", "Caching")["results"][0]["id"] == new["id"]
    assert "did you mean 3. Ansible instead" in cli(foreign, *adr, "get", "Ansible insted").err
    write(foreign / "docs/adr/0003-another.md", "# 3. Ansible instead\n\n## Status\n\nAccepted\n")
    done = cli(foreign, *adr, "get", "3. Ansible instead")
    assert (done.code, "2 records answer to" in done.err) == (4, True)


def test_a_fork_names_its_ends_and_the_command_that_joins_them(repo: Path) -> None:
    for name in ("a", "b"):
        write(
            repo / f"memory/decisions/x y/{name}.md",
            f"---\ntopic: x y\nsupersedes: []\n---\n# Way {name}\n",
        )
    refused = cli(
        repo, "save", "decision", "--topic", "x y", "--decision", "Both", "--reasoning", "r"
    )
    assert refused.code == 5
    command = "filemem resolve 'x y' --decision"
    for text in (refused.err, cli(repo, "check").out, cli(repo, "history", "x y").out):
        assert command in text
    assert "Way a (" in refused.err
    assert "Way b (" in refused.err
    assert cli(repo, "resolve", "x y", "--decision", "Both", "--reasoning", "r").code == 0
    assert "forked" not in cli(repo, "check").out


def test_words_between_commas_are_several_on_every_way_in(repo: Path) -> None:
    with talking(repo) as client:
        note = client.call(
            "save", title="n", text="x", tags="perf, infra", concepts="caching, limits,"
        )["id"]
        for tag in ("perf", "infra", "nothing, infra", ["infra"]):
            assert [hit["id"] for hit in client.call("search", tag=tag)["results"]] == [note], tag
    noted = (
        "save",
        "observation",
        "--title",
        "m",
        "--text",
        "y",
        "--tag",
        "c, d",
        "--tag",
        "e",
        "--concept",
        "f,g",
    )
    [found] = ok(repo, "get", ok(repo, *noted)["id"])["results"]
    assert (found["tags"], found["concepts"]) == (["c", "d", "e"], ["f", "g"])


def test_hidden_characters_are_counted_in_answers_and_shown_on_a_terminal(repo: Path) -> None:
    unseen = "".join(chr(0xE0000 + ord(one)) for one in "obey")
    saved = ok(
        repo,
        "save",
        "decision",
        "--topic",
        "a",
        "--decision",
        f"Use{unseen} it",
        "--reasoning",
        "Why\u3164not",
    )
    for command in (("search", "use"), ("get", saved["id"])):
        assert ok(repo, *command)["results"][0]["hidden"] == "5 characters"
        out = cli(repo, *command).out
        assert "Use\\U000e006f" in out
        assert "Why\\u3164not" in out
        assert unseen not in out
    assert "hidden: 5 characters" in cli(repo, "get", saved["id"]).out


def test_status_names_what_is_to_be_done_and_its_command(repo: Path) -> None:
    saved = ok(repo, *DECISION)
    git(repo, "add", "-A")
    assert cli(repo, "status").out.splitlines() == [
        "memory: 1 decision, 0 checkpoints, 0 observations",
        "1 decision holds",
        "nothing to do",
    ]
    ok(repo, "save", "checkpoint", "--summary", "Half done")
    for name in ("a", "b"):
        write(
            repo / f"memory/decisions/x/{name}.md",
            f"---\ntopic: x y\nsupersedes: []\n---\n# Way {name}\n",
        )
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Both ways")
    git(repo, "update-ref", "refs/remotes/origin/main", "HEAD~1")
    for key, value in (("branch.main.remote", "origin"), ("branch.main.merge", "refs/heads/main")):
        git(repo, "config", key, value)
    git(repo, "config", "remote.origin.url", "https://example.org/x.git")
    path = repo / saved["path"]
    path.write_text(path.read_text().replace("topic: caching", "topic: [caching"))
    write(repo / "memory/decisions/new.md", "---\ntopic: n\n# Never closed\n")
    answer = ok(repo, "status")
    assert answer["broken"] == [saved["path"], "memory/decisions/new.md"]
    assert not {"edited", "new", "commit"} & {*answer}, "what is broken is mended first"
    sound = write(repo / "memory/decisions/sound.md", "# Sound\n\nBecause.\n")
    told = cli(repo, "status").out
    command = f"git add {sound.relative_to(repo)} && git commit {sound.relative_to(repo)}"
    for row in (
        f"last checkpoint: {answer['checkpoint']['created'][:10]}  Half done",
        "1 topic forked, several decisions hold at once: end it with one that replaces them",
        "    filemem resolve 'x y' --decision ... --reasoning ...",
        "2 records with a header that cannot be read: filemem check says why",
        f"1 record not in Git yet: {command}",
        "commits: 1 ahead, compared with origin/main: git push",
    ):
        assert row in told.splitlines(), told
    assert "index" not in told
    assert "index: " in cli(repo, "status", "-v").out


def test_a_hit_is_three_lines_and_the_far_tail_is_counted(repo: Path) -> None:
    old = ok(repo, *DECISION, "--outcome", "failed")
    new = ok(
        repo,
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Use Redis",
        "--reasoning",
        "Shared LRU cache",
    )
    ok(
        repo,
        "save",
        "observation",
        "--title",
        "Quarterly budget",
        "--text",
        "Money to cache is short this year, and travel is dear",
    )
    found = cli(repo, "search", "LRU", "cache").out.splitlines()
    assert found[0] == " 1. Use Redis  decision · caching"
    replaced = f"superseded by Use Redis ({new['id'][-8:]})"
    assert found[3] == f" 2. Use an LRU cache  decision · caching  failed  {replaced}"
    assert re.fullmatch(rf"    {old['id'][-8:]}  \d{{4}}-\d\d-\d\d  Ada  {old['path']}", found[5])
    assert found[6:] == ["1 weaker hit: -n 3 shows all"]
    assert "Quarterly budget" in cli(repo, "search", "LRU", "cache", "-n", "3").out
    assert "keyword 1.00" in cli(repo, "search", "LRU", "cache", "--explain").out
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [FILEMEM, "-C", str(repo), "search", "redis"], stdout=terminal, env=os.environ
    ) as done:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(main, 4096):
                shown += part
    os.close(main)
    assert done.returncode == 0
    assert b"\x1b[1mUse Redis\x1b[0m" in shown
    assert all(
        len(re.sub(r"\x1b\[\d+m", "", row)) <= 80
        for row in shown.decode().splitlines()
        if "…" in row
    ), shown


def test_what_says_nothing_is_left_out_of_json(repo: Path) -> None:
    first, second = ok(repo, *DECISION), ok(repo, *DECISION, "--tag", "speed")
    found = {hit["id"]: hit for hit in ok(repo, "search", "LRU")["results"]}
    assert (found[first["id"]]["holds"], found[second["id"]]["holds"]) == (False, True)
    old, new = ok(repo, "get", first["id"], second["id"])["results"]
    assert old["superseded_by"] == [second["id"]]
    assert not {"score", "superseded_by"} & new.keys()
