"""A decision guards itself: `check --code` names what breaks it, for as long as it holds.

Promises: only tracked text files are read, through no link, and nothing is run; what a branch does not
bring is not its break; what is private is told to nobody else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, index_folder, write
from tests.system.tools import cli, ok, process

GUARDS = [{"forbid": "import redis", "in": ["src/**", "!src/old/**"]}, {"dependency": "redis"}]


def add(repo: Path, path: str, text: str) -> None:
    write(repo / path, text)
    git(repo, "add", "-f", path)


def decided(repo: Path, **more: object) -> str:
    fields: dict[str, object] = {
        "topic": "caching",
        "decision": "Use an LRU cache",
        "reasoning": "One process, no Redis to run",
        "guards": GUARDS,
    }
    with Memory.open(repo) as memory:
        return memory.save(**{**fields, **more}).id


def broken(repo: Path, *arguments: str) -> list[str]:
    """Where the code breaks a guard, as FILE:LINE."""
    done = cli(repo, "check", "--code", *arguments)
    assert done.code == (0 if "checked: clean" in done.out else 1), done
    return [":".join(row.split(":")[:2]) for row in done.out.splitlines() if ": guard " in row]


def test_a_break_is_named_until_it_is_mended(repo: Path) -> None:
    add(repo, "src/a.py", "import os\nimport redis\n")
    add(repo, "src/old/b.py", "import redis\n")
    add(repo, "docs/a.md", "import redis\n")
    write(repo / "src/untracked.py", "import redis\n")
    add(repo, "package.json", '{"dependencies": {\n  "redis": "1"\n}}\n')
    name = decided(repo)
    shutil.rmtree(index_folder(repo))
    done = process(repo, "check", "--code")
    assert done.code == 1
    row = next(row for row in done.out.splitlines() if row.startswith("src/a.py:2: guard "))
    for part in (
        "Use an LRU cache",
        name[-8:],
        'forbids "import redis"',
        "One process",
        "since 20",
    ):
        assert part in row
    assert broken(repo) == ["package.json:2", "src/a.py:2"]
    found = json.loads(cli(repo, "check", "--code", "--json").out)["problems"]
    assert (found[0]["id"], found[0]["line"], found[0]["text"]) == (name, 2, "redis")
    github = cli(repo, "check", "--code", "--format", "github").out
    assert "::error file=src/a.py,line=2,title=filemem%3A guard::" in github
    write(repo / "src/a.py", "import os\n")
    write(repo / "package.json", "{}\n")
    assert broken(repo) == []
    write(repo / "src/a.py", "import redis\n")
    (repo / "package.json").unlink()
    assert broken(repo) == ["src/a.py:1"]
    git(repo, "mv", "src/a.py", "src/old/c.py")
    assert broken(repo) == []


@pytest.mark.parametrize("status", ["proposed", "rejected", "deprecated"])
def test_what_does_not_hold_guards_nothing(repo: Path, status: str) -> None:
    add(repo, "src/a.py", "import redis\n")
    decided(repo, status=status)
    assert broken(repo) == []


def test_a_superseded_decision_guards_nothing_and_the_save_says_so(repo: Path) -> None:
    add(repo, "src/a.py", "import redis\n")
    decided(repo)
    assert broken(repo) == ["src/a.py:1"]
    with Memory.open(repo) as memory:
        saved = memory.save(topic="caching", decision="Use Redis", reasoning="Two processes")
        assert "the guards of what it replaces end" in saved.note
    assert broken(repo) == []
    ok(repo, "forget", saved.id)
    assert broken(repo) == ["src/a.py:1"]


def test_a_base_leaves_out_what_was_there(repo: Path) -> None:
    add(repo, "src/a.py", "import redis\n")
    add(repo, "src/moved.py", "import redis\nx = 1\n")
    add(repo, "src/c.py", "x = 1\n")
    decided(repo, guards=[*GUARDS, {"require": "x = 1", "in": "src/*.py"}])
    git(repo, "commit", "-q", "-m", "Base")
    git(repo, "switch", "-q", "-c", "feature")
    assert broken(repo) == ["src/a.py:1", "src/a.py:1", "src/moved.py:1"]
    assert broken(repo, "--base", "main") == []
    add(repo, "src/b.py", "import redis\nx = 1\nother = True\n")
    write(repo / "src/a.py", "# above\nimport redis\n")
    write(repo / "src/c.py", "y = 1\n")
    git(repo, "mv", "src/moved.py", "src/here.py")
    assert broken(repo, "--base", "main") == ["src/b.py:1", "src/c.py:1"]
    assert cli(repo, "check", "--code", "--base", "none").code != 0
    assert cli(repo, "check", "--code", "--lint", "src/a.py").code == 2


def test_the_command_line_saves_guards_and_says_what_they_match(repo: Path) -> None:
    add(repo, "src/a.py", "import redis\n")
    about = ("save", "--topic", "caching", "--decision", "Use LRU", "--reasoning", "One process")
    done = ok(
        repo, *about, "--forbid", "import redis", "--in", "src/**", "--forbid-dependency", "redis"
    )
    assert done["note"] == "the code already breaks its guards: src/a.py:1"
    file = next((repo / "memory/decisions").rglob("*.md"))
    assert "guards: [{forbid: import redis, in: [src/**]}, {dependency: redis}]" in file.read_text()
    assert 'forbids "import redis" in src/**' in cli(repo, "get", "caching").out
    assert 'forbids "import redis"' in cli(repo, "why", "src/a.py").out
    ok(repo, "update", "caching", "--require", "import redis", "--in", "src/*.py")
    assert broken(repo) == []
    assert "guards: [{require: import redis, in: [src/*.py]}]" in file.read_text()
    for wrong, words in (
        (("--forbid", "x"), "--forbid and --require need --in"),
        (("--forbid", "x", "--in", "../x/**"), "../x/** leads out of the repository"),
        (("--forbid-dependency", "npm:react@18"), "no package is named npm:react@18"),
        (("--in", "src/**"), "--in names files for --forbid or --require"),
    ):
        refused = cli(repo, *about, *wrong)
        assert (refused.code, words in refused.err) == (2, True), refused


def test_why_shows_the_guards_of_a_manifest(repo: Path) -> None:
    add(repo, "web/package.json", "{}\n")
    decided(repo)
    add(repo, "web/other.json", "{}\n")
    assert "forbids the dependency redis" in cli(repo, "why", "web/package.json").out
    assert "forbids the dependency" not in cli(repo, "why", "web/other.json").out


def test_a_guard_that_cannot_be_read_is_no_silence(repo: Path) -> None:
    header = "---\ntopic: a\nguards: [{forbidden: x, in: src/**}]\n---\n# Use A\n"
    write(repo / "memory/decisions/a.md", header)
    done = cli(repo, "check", "--code")
    assert done.code == 1
    assert "memory/decisions/a.md:3: bad-guards" in done.out
    assert "bad-guards" in cli(repo, "check", "--lint", "memory/decisions/a.md").out


@pytest.mark.parametrize("value", ["[src/**, !src/legacy/**]", "*.py", "!src/legacy/**"])
def test_guards_in_a_header_that_is_no_yaml_are_no_silence(repo: Path, value: str) -> None:
    header = f"---\ntopic: a\nguards:\n  - forbid: x\n    in: {value}\n---\n# Use A\n"
    write(repo / "memory/decisions/a.md", header)
    done = cli(repo, "check", "--code")
    assert done.code == 1
    assert "memory/decisions/a.md:5: bad-guards guards cannot be read" in done.out
    if value[0] in "!*":
        assert f"quote a value that begins with `{value[0]}`" in done.out
    write(repo / "memory/decisions/a.md", header.replace("guards:", "others:") + "\nguards: x\n")
    assert cli(repo, "check", "--code").code == 0


def test_commas_part_globs_and_packages_and_what_no_file_matches_is_said(repo: Path) -> None:
    add(repo, "src/a.py", "x = 1\n")
    about = ("save", "--topic", "a", "--decision", "Use A", "--reasoning", "B")
    given = ("--forbid", "y", "--in", "src/**,lib/**", "--forbid-dependency", "left-pad, is-odd")
    assert ok(repo, *about, *given)["note"] == "no file matches lib/** today"
    file = next((repo / "memory/decisions").rglob("*.md"))
    assert (
        "in: [src/**, lib/**]}, {dependency: left-pad}, {dependency: is-odd}]" in file.read_text()
    )
    told = cli(repo, "update", "--help").out
    assert "replaces its other guards" in " ".join(told.split())


def test_hostile_files_and_guards_do_no_harm(repo: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "outside/secret.py", "import redis\n")
    (repo / "src").mkdir()
    (repo / "src/link.py").symlink_to(secret)
    (repo / "src/folder").symlink_to(secret.parent)
    add(repo, "src/was/secret.py", "x = 1\n")
    add(repo, "src/binary.py", "import redis\n\0")
    add(repo, "src/large.py", "import redis\n" * 100_000)
    add(repo, "src/lines.py", "\n" * 1_000_000 + "import redis\n")
    git(repo, "add", "-f", "src/link.py", "src/folder")
    shutil.rmtree(repo / "src/was")
    (repo / "src/was").symlink_to(secret.parent)
    program = write(repo / "filter.sh", f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    git(repo, "config", "filter.x.smudge", str(program))
    git(repo, "config", "filter.x.clean", str(program))
    git(repo, "config", "core.fsmonitor", str(program))
    write(repo / ".gitattributes", "*.py filter=x\n")
    deep = "/".join(["**"] * 60) + "/redis.txt"
    decided(repo, guards=[*GUARDS, {"forbid": "x", "in": [deep, "**/*?*?*?*?*?*?*?*?z"]}])
    (tmp_path / "ran").unlink(missing_ok=True)
    assert broken(repo) == ["src/lines.py:1000001"]
    assert broken(repo, "--base", "main") == ["src/lines.py:1000001"]
    assert not (tmp_path / "ran").exists()


def test_a_guard_of_a_private_record_is_told_to_nobody_else(repo: Path, tmp_path: Path) -> None:
    add(repo, "src/a.py", "import redis\n")
    git(repo, "commit", "-q", "-m", "Code")
    header = '---\ntopic: a\nguards: [{forbid: import redis, in: "src/**"}]\n---\n# Use A\n'
    write(repo / "memory/private/decisions/a.md", header)
    write(repo / "memory/private/.gitignore", "*\n")
    assert broken(repo) == ["src/a.py:1"], "its owner is told"
    with Memory.open(repo) as memory:
        assert memory.why("src/a.py").reasons
        from filemem.record.visibility import EVERYBODY

        other = memory.seen_by(EVERYBODY)
        assert not other.why("src/a.py").reasons
        assert other.check_code() == (0, [])
    git(tmp_path, "clone", "-q", str(repo), "clone")
    assert broken(tmp_path / "clone") == []


def test_our_own_code_keeps_to_our_decisions() -> None:
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    with Memory.open(root, should_update=False) as memory:
        count, places = memory.check_code()
    assert count > 100
    assert places == []
