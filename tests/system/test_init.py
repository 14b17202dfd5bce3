"""`filemem init` beside what is there already: nothing of the user's is lost or changed, whatever goes wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from filemem.cli import EXIT_CODES
from filemem.errors import BrokenStore
from tests.support import git, write
from tests.system.tools import FILEMEM, cli, ok, snapshot

SERVER = {"command": "filemem", "args": ["serve"]}


@pytest.mark.parametrize("name", [".mcp.json", "AGENTS.md"])
def test_a_disk_that_takes_no_more_leaves_the_file_what_it_was(repo: Path, name: str) -> None:
    long = {"mcpServers": {}, "more": "x" * 10_000}
    old = write(
        repo / name,
        json.dumps(long, indent=2) if name == ".mcp.json" else f"# Rules\n\n{'x' * 10_000}\n",
    )
    old.chmod(0o640)
    before = old.read_bytes()
    # Bytecode that Python writes under the limit would be cut too, and break whatever imports it later.
    limit = f"export PYTHONDONTWRITEBYTECODE=1; ulimit -f 4; exec {shlex.join((FILEMEM, '-C', str(repo), 'init'))}"
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_CODES[BrokenStore], done
    assert f"{name}: File too large" in done.stderr
    assert old.read_bytes() == before
    assert not [path for path in snapshot(repo, skip=()) if ".filemem-" in path], (
        "nothing is left beside"
    )
    assert cli(repo, "init").code == 0
    assert "filemem" in old.read_text()
    assert old.stat().st_mode & 0o777 == 0o640, "who may read a file is not ours to change"


def test_init_changes_only_the_lines_that_it_must(repo: Path) -> None:
    old = '{\n  "mcpServers": {\n    "x": {\n      "timeout": 1.5\n    }\n  }\n}\n'
    write(repo / ".mcp.json", old)
    write(repo / "AGENTS.md", "# Rules\n\nBe kind.  \n")
    assert cli(repo, "init").code == 0
    new = (repo / ".mcp.json").read_text()
    assert json.loads(new)["mcpServers"]["filemem"] == SERVER
    rows = iter(new.splitlines())
    assert all(row in rows for row in old.splitlines()), (
        "every line of the old one stands there still, in order"
    )
    assert (
        (repo / "AGENTS.md")
        .read_bytes()
        .startswith(b"# Rules\n\nBe kind.  \n\n<!-- filemem:begin -->\n")
    )
    before = snapshot(repo)
    assert cli(repo, "init").code == 0
    assert snapshot(repo) == before


@pytest.mark.parametrize("there", [b"{}\n", b'{\n  "a": 1\n}\n'])
def test_a_dry_run_shows_each_line_of_what_it_would_write(repo: Path, there: bytes) -> None:
    write(repo / ".mcp.json", there)
    shown = cli(repo, "init", "--dry-run").out.splitlines()
    assert cli(repo, "init").code == 0
    for name in (".mcp.json", "AGENTS.md", "memory/README.md"):
        for row in (repo / name).read_text().splitlines():
            assert f"+{row}" in shown or f" {row}" in shown, row


def test_a_link_to_a_file_of_the_project_is_followed_and_no_other(
    repo: Path, tmp_path: Path
) -> None:
    write(repo / "CLAUDE.md", "# Rules\n")
    (repo / "AGENTS.md").symlink_to("CLAUDE.md")
    done = cli(repo, "init")
    assert done.code == 0, done
    assert "change AGENTS.md  (a block is added at the end)" in done.out
    assert (repo / "AGENTS.md").is_symlink()
    assert (repo / "CLAUDE.md").read_text().startswith("# Rules\n\n<!-- filemem:begin -->\n")
    outside = write(tmp_path / "outside.md", "# Mine\n")
    for target in (str(outside), "../outside.md", ".git/description", "AGENTS.md"):
        (repo / "AGENTS.md").unlink()
        (repo / "AGENTS.md").symlink_to(target)
        refused = cli(repo, "init")
        assert refused.code == 2, target
        assert "AGENTS.md is a symbolic link" in refused.err
    assert outside.read_text() == "# Mine\n"


def test_private_records_are_ignored_before_there_are_any(repo: Path) -> None:
    planned = {step["path"]: step["action"] for step in ok(repo, "init", "--dry-run")["steps"]}
    assert planned["memory/private/.gitignore"] == "create"
    ok(repo, "init")
    write(repo / "memory/private/observations/mine.md", "# Mine\n\nText.\n")
    assert "private" not in git(repo, "status", "--porcelain", "-uall")
    git(repo, "add", "-A")
    assert "private" not in git(repo, "diff", "--cached", "--name-only")


def test_beside_decision_records_init_asks_which_of_the_two_is_wanted(repo: Path) -> None:
    write(repo / "docs/adr/0001-use-puppet.md", "# 1. Use Puppet\n\n## Status\n\nAccepted\n")
    write(repo / "CLAUDE.md", "# Rules\n")
    before = snapshot(repo)
    for options in ((), ("--dry-run",)):
        refused = cli(repo, "init", *options)
        assert (refused.code, snapshot(repo)) == (2, before)
        for way in (
            "docs/adr/ holds decision records (1):",
            "`filemem --store docs/adr init`",
            "--store memory init`",
        ):
            assert way in refused.err
    assert ok(repo, "--store", "memory", "init", "--dry-run")["success"]
    ok(repo, "--store", "docs/adr", "init")
    assert (repo / "CLAUDE.md").read_text() == "# Rules\n\n@AGENTS.md <!-- filemem -->\n"
    assert sorted(path.name for path in (repo / "docs/adr").iterdir()) == ["0001-use-puppet.md"]
    found = ok(repo / "docs", "topics")["topics"]  # every command finds it
    assert [one["title"] for one in found] == ["1. Use Puppet"]
    before = snapshot(repo)
    ok(repo, "init")
    assert snapshot(repo) == before


def test_init_begins_no_second_memory_where_a_remote_branch_holds_one(
    repo: Path, tmp_path: Path
) -> None:
    ok(repo, "save", "observation", "--title", "t", "--text", "x")
    git(repo, "branch", "-m", "trunk")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "bare.git")
    git(repo, "push", "-q", str(tmp_path / "bare.git"), "trunk", "HEAD~:refs/heads/old")
    git(tmp_path, "clone", "-q", "bare.git", "clone")
    clone = tmp_path / "clone"
    refused = cli(clone, "init")
    assert (refused.code, "origin/trunk holds memory/" in refused.err) == (5, True), refused
    assert "`git switch trunk`" in refused.err
    git(clone, "switch", "-q", "old")
    assert "`git merge origin/trunk`" in cli(clone, "init").err
    git(clone, "switch", "-q", "trunk")
    ok(clone, "init", "--dry-run")


def test_init_says_that_git_knows_no_name_before_the_first_save_does(repo: Path) -> None:
    assert "hint" not in ok(repo, "init", "--dry-run")
    for key in ("user.name", "user.email"):
        git(repo, "config", "--unset", key)
    for options in (("--dry-run",), ()):
        assert "git config --global user.name" in ok(repo, "init", *options)["hint"]


@pytest.mark.parametrize(
    ("files", "options", "told"),
    [
        ({"docs/adr/0001-use-x.md": "# 1. Use X\n"}, (), "docs/adr/ holds decision records (1)"),
        ({".filemem.toml": 'store = "notes"\n'}, ("--store", "memory"), "names the store notes"),
        ({".filemem.toml": "store = 1\n"}, (), "store"),
        ({"memory/x.md": "# X\n"}, ("--own-branch",), "memory/ already exists and is not empty"),
    ],
)
def test_what_init_refuses_in_no_repository_its_dry_run_refuses_and_neither_leaves_one(
    files: dict[str, str], options: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    for path, text in files.items():
        write(folder / path, text)
    before = snapshot(folder)
    store = options if "--store" in options else ()
    for dry in ((), ("--dry-run",)):
        refused = cli(folder, *store, "init", *(() if store else options), *dry)
        assert (refused.code != 0, told in refused.err) == (True, True), refused
        assert snapshot(folder) == before


def test_init_in_no_repository_says_that_it_makes_one(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    planned = [step["path"] for step in ok(folder, "init", "--dry-run")["steps"]]
    assert planned[0] == ".git"
    assert "memory/README.md" in planned
    assert list(folder.iterdir()) == []
    assert [step["path"] for step in ok(folder, "init")["steps"]] == planned
    assert (folder / ".git").is_dir()
