"""The gate: a commit hook, a pull request, other programs.

Promises: the hook judges the files it is given, from inside Git's own hooks too, and imports no more than the record
format; what is wrong comes worst first in every form; the action runs what its pin names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import git, make_repo, write
from tests.system.handmade import commit, decision
from tests.system.tools import FILEMEM, cli, ok, process

ROOT = Path(__file__).parents[2]
PRE_COMMIT = str(Path(sys.executable).with_name("pre-commit"))
GOOD = "---\ntopic: caching\n---\n# Use an LRU cache\n\nOne process.\n"
SECRET = "# Log in\n\ntoken: ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8\n"


def test_check_of_the_folder_itself_checks_every_record(repo: Path) -> None:
    write(repo / "memory/decisions/bad.md", SECRET)
    every = cli(repo, "check").out
    assert "memory/decisions/bad.md:3: secret " in every
    for name in ("memory", "memory/", "memory/decisions"):
        assert cli(repo, "check", name).out == every


def test_lint_reads_the_files_it_is_given_and_nothing_else(repo: Path) -> None:
    write(repo / "memory/decisions/good.md", GOOD)
    write(repo / "memory/decisions/bad.md", SECRET)
    write(repo / "memory/README.md", "# Not a record\n")
    write(repo / "docs/page.md", "# Not a record\n")
    done = process(repo, "check", "--lint", "memory/decisions/good.md", "memory/README.md")
    assert (done.code, done.err.splitlines()[-1]) == (0, "1 record checked: 2 hints")
    done = process(repo / "memory", "check", "--lint", "decisions/good.md", "decisions/bad.md")
    assert done.code == 1
    assert "memory/decisions/bad.md:3: secret " in done.out
    assert "ghp_" not in done.out + done.err
    assert not (repo / ".git/filemem").exists(), "nothing was opened but the files"
    for name in ("README.md", "decisions/AGENTS.md"):
        other = write(repo / "memory" / name, SECRET)
        assert f"memory/{name}:3: secret " in cli(repo, "check", "--lint", f"memory/{name}").out
        git(repo, "add", "-f", str(other))
        assert f"memory/{name}:3: secret " in cli(repo, "check", f"memory/{name}").out
        shutil.rmtree(repo / ".git/filemem")
    other = write(repo / "memory/decisions/agents.md", "---\nid: decision_q_1\n---\n# Use A\n")
    git(repo, "add", "-f", str(other))
    for how in (["--lint", "memory/decisions/agents.md"], []):
        assert (
            "memory/decisions/agents.md:1: hidden-record states the id"
            in cli(repo, "check", *how).out
        )
    shutil.rmtree(repo / ".git/filemem")
    for arguments, code, words in (
        (("docs/page.md",), 2, "below memory/"),
        (("memory/decisions/none.md",), 2, "below memory/"),
        (("memory/decisions",), 1, "1 error"),
        (("--base", "main"), 2, "leave out --base"),
    ):
        refused = cli(repo, "check", "--lint", *arguments)
        assert (refused.code, words in refused.err) == (code, True), refused
    assert cli(repo, "check", "../outside.md").code == 4


def test_lint_imports_no_more_than_the_record_format(repo: Path) -> None:
    write(repo / "memory/decisions/good.md", GOOD)
    probe = (
        "import sys; from filemem.cli import COMMANDS, HELP; from filemem.cli.group import run; "
        "run(sys.argv[1:], COMMANDS, HELP); "
        "print(sorted({'filemem.memory', 'filemem.index', 'filemem.query', 'tantivy'} & sys.modules.keys()))"
    )
    line = [sys.executable, "-c", probe, "check", "--lint", "memory/decisions/good.md"]
    assert (
        subprocess.run(
            line, cwd=repo, capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        == "[]"
    )


def test_the_worst_comes_first_in_every_form(repo: Path) -> None:
    for name, text in (
        ("a", GOOD),
        ("b", GOOD.replace("caching", "caching\nconfidence: much")),
        ("c", SECRET),
    ):
        write(repo / f"memory/decisions/{name}.md", text)
    ranks = ["error", "warning", "note", "notice", "hint"]
    for words in ([], ["--lint", *(f"memory/decisions/{name}.md" for name in "abc")]):
        asked = ["check", *words]
        told = cli(repo, *asked, "--json").json["problems"]
        assert [ranks.index(one["level"]) for one in told] == sorted(
            ranks.index(one["level"]) for one in told
        )
        assert len({one["level"] for one in told}) == 3
        assert [one["path"][-4:] for one in told][:2] == ["c.md", "b.md"]
        levels = [one["level"].replace("hint", "note") for one in told]
        rows = cli(repo, *asked, "--format", "github").out.splitlines()
        assert [row.split()[0][2:].replace("notice", "note") for row in rows] == levels
        rows = cli(repo, *asked, "-v").out.splitlines()
        assert [row.split()[1] for row in rows] == [one["code"] for one in told]


def test_check_builds_no_index(repo: Path) -> None:
    write(repo / "memory/decisions/good.md", GOOD)
    assert cli(repo, "check").code == 0
    assert not list((repo / ".git").rglob("vectors*"))


def test_the_manifest_of_hooks_is_one() -> None:
    command = [PRE_COMMIT, "validate-manifest", ".pre-commit-hooks.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """A repository whose commits run the hook through pre-commit, as a user's do."""
    repo = make_repo(tmp_path / "hooked")
    hook = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]
    entry = hook["entry"].replace("filemem", FILEMEM, 1)
    configuration = {
        "repos": [{"repo": "local", "hooks": [{**hook, "entry": entry, "language": "system"}]}]
    }
    write(repo / ".pre-commit-config.yaml", yaml.safe_dump(configuration))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Configure")
    subprocess.run([PRE_COMMIT, "install"], cwd=repo, capture_output=True, check=True)
    return repo


def test_a_commit_is_stopped_from_inside_a_hook(hooked: Path) -> None:
    write(hooked / "memory/decisions/good.md", GOOD)
    git(hooked, "add", ".")
    git(hooked, "commit", "-q", "-m", "Decide")
    before = git(hooked, "rev-parse", "HEAD")
    write(hooked / "memory/decisions/bad.md", SECRET)
    git(hooked, "add", ".")
    git(hooked, "commit", "-q", "-m", "Leak", ok=False)
    assert git(hooked, "rev-parse", "HEAD") == before
    assert git(hooked, "diff", "--cached", "--name-only") == "memory/decisions/bad.md"


def test_the_whole_check_works_in_a_hook_of_git(repo: Path) -> None:
    """Git exports GIT_DIR, GIT_INDEX_FILE and more to its hooks; none of it may lead us astray."""
    write(
        repo / "memory/decisions/one.md",
        "---\nid: decision_a_1763650000123_k3f9w2ma\ntopic: a\n---\n# One\n",
    )
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "One")
    hook = write(
        repo / ".git/hooks/pre-commit", f'#!/bin/sh\nexec "{FILEMEM}" check >"$PWD/told" 2>&1\n'
    )
    hook.chmod(0o755)
    write(
        repo / "memory/decisions/two.md",
        "---\nid: decision_a_1763650000123_k3f9w2ma\ntopic: b\n---\n# Two\n",
    )
    git(repo, "add", "memory")
    git(repo, "commit", "-q", "-m", "Two", ok=False, GIT_INDEX_FILE=str(repo / ".git/index"))
    assert "duplicate-id" in (repo / "told").read_text()
    assert git(repo, "log", "--format=%s", "-1") == "One"


def test_the_action_says_what_the_command_line_takes() -> None:
    """Each step of the action is a script that a shell can read, and its commands and options are ours."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    scripts = [step["run"] for step in action["runs"]["steps"]]
    for script in scripts:
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    told = "\n".join(scripts) + (ROOT / "docs/ci.md").read_text()
    for command, option in (
        ("diff", "--format"),
        ("check", "--format"),
        ("check", "--base"),
        ("check", "--lint"),
    ):
        assert option in cli(ROOT, command, "--help").out
        assert f"{command} " in told
        assert option in told
    used = {
        name
        for step in action["runs"]["steps"]
        for name in re.findall(r"inputs\.([\w-]+)", str(step))
    }
    assert used == set(action["inputs"])


@pytest.mark.parametrize("stated", ["", "filemem==0.1.0"])
def test_the_action_installs_what_its_pin_names(tmp_path: Path, stated: str) -> None:
    """Not what somebody else has called filemem on a package index. The programs only write down what they are told."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install = action["runs"]["steps"][0]
    pip = '#!/bin/sh\nprintf "%s\\n" "$@" >"$RUNNER_TEMP/told"\n'
    python = f'#!/bin/sh\nmkdir -p "$3/bin" && cp \'{tmp_path}/pip\' "$3/bin/pip"\n'
    for name, text in (("pip", pip), ("python3", python)):
        write(tmp_path / name, text).chmod(0o755)
    version = install["env"]["VERSION"].replace(
        "${{ inputs.version }}", stated or action["inputs"]["version"]["default"]
    )
    here = {
        "RUNNER_TEMP": str(tmp_path / "a temp"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "VERSION": version,
    }
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", install["run"]], env={**os.environ, **here, "PATH": path}, check=True
    )
    assert (tmp_path / "a temp/told").read_text().splitlines()[-1] == (stated or str(ROOT))


def act(repo: Path, tmp_path: Path, name: str, **environment: str) -> tuple[str, dict[str, str]]:
    """Run a step of the action in a checkout; what it printed, and what it told the steps after it."""
    (step,) = (
        one
        for one in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
        if one["name"] == name
    )
    told = write(tmp_path / "told", "")
    if not (tmp_path / "filemem").exists():
        (tmp_path / "filemem").symlink_to(sys.prefix)
    given = dict.fromkeys(step["env"], "") | {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(told),
    }
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=repo,
        env={**os.environ, **path, **given, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout, dict(row.split("=", 1) for row in told.read_text().splitlines())


def test_the_action_leaves_a_memory_of_its_own_branch_to_another_job(
    repo: Path, tmp_path: Path
) -> None:
    ok(repo, "init", "--own-branch")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "init")
    write(repo / "memory/decisions/bad.md", "---\nconfidence: low\n---\n# Bad\n")
    git(repo / "memory", "add", ".")
    git(repo / "memory", "commit", "-q", "-m", "Bad")
    checkout = tmp_path / "checkout"
    git(tmp_path, "clone", "-q", str(repo), str(checkout))
    assert cli(checkout, "check").code == 7, "it must not look like an empty memory"
    assert act(checkout, tmp_path, "Look where the memory is", STORE="docs")[1] == {"branch": ""}
    _, memory = act(checkout, tmp_path, "Look where the memory is")
    assert memory == {"branch": "filemem"}
    out, _ = act(checkout, tmp_path, "Check", BRANCH="filemem", GITHUB_BASE_REF="main")
    assert out.startswith("::notice title=filemem::The memory is the branch filemem")
    assert not (checkout / "memory").exists()
    git(repo / "memory", "revert", "--no-edit", "HEAD")
    git(checkout, "fetch", "-q")
    act(checkout, tmp_path, "Check", BRANCH="filemem")
    assert (checkout / "memory/README.md").exists(), "attached and clean"
    assert act(repo / "memory", tmp_path, "Look where the memory is")[1] == {"branch": ""}, (
        "a checkout of that branch"
    )


def test_the_action_comments_where_there_is_something_to_say(repo: Path, tmp_path: Path) -> None:
    """The program that would talk to the hosting service only writes down what it is told."""
    gh = '#!/bin/sh\ncase "$*" in *--paginate*) printf %s "$COMMENT" ;; *) echo "$3" >>"$RUNNER_TEMP/asked" ;; esac\n'
    write(tmp_path / "gh", gh).chmod(0o755)
    ok(repo, "save", "decision", "--topic", "a", "--decision", "One", "--reasoning", "r")
    git(repo, "switch", "-q", "-c", "feature")
    given = {"BASE": "main", "GITHUB_REPOSITORY": "o/r", "NUMBER": "7"}
    asked = write(tmp_path / "asked", "")
    act(repo, tmp_path, "Memory diff", **given)
    assert asked.read_text() == "", "no record is touched"
    act(repo, tmp_path, "Memory diff", COMMENT="12", **given)
    ok(repo, "save", "decision", "--topic", "a", "--decision", "Two", "--reasoning", "r")
    act(repo, tmp_path, "Memory diff", **given)
    act(repo, tmp_path, "Memory diff", COMMENT="12", **given)
    assert asked.read_text().split() == ["PATCH", "POST", "PATCH"]


def test_no_annotation_steers_a_terminal(repo: Path) -> None:
    decision(repo, "one", "a")
    commit(repo)
    commit(repo, "\x1b]0;pwn\x07Take it out\n\nDecision: decision_one\nOutcome: failed")
    done = cli(repo, "check", "--format", "github")
    assert "Take it out" in done.out
    assert not {"\x1b", "\x07"} & set(done.out)


def test_a_store_that_is_not_here_is_not_clean(repo: Path) -> None:
    decision(repo, "one", "a")
    commit(repo)
    shutil.rmtree(repo / "memory")
    done = cli(repo, "check")
    assert (done.code, " store-missing " in done.out, "git restore memory" in done.out) == (
        1,
        True,
        True,
    ), done
    git(repo, "restore", "memory")
    assert cli(repo, "check").code == 0
    decision(repo, "two", "b")
    commit(repo)
    (repo / "memory/decisions/two.md").unlink()
    assert "memory/decisions/two.md:1: record-missing " in cli(repo, "check").out


def test_a_rule_that_keeps_what_is_saved_out_of_commits_is_a_hint(repo: Path) -> None:
    decision(repo, "one", "a")
    write(repo / ".gitignore", "memory/observations/\n")
    done = cli(repo, "check")
    assert (
        done.code,
        "memory/:1: ignored " in done.out,
        ".gitignore:1: memory/observations/" in done.out,
    ) == (0, 1, 1)
