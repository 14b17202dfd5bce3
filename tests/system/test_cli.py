"""The command line as people and scripts meet it."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from filemem.cli import COMMANDS, EXIT_CODES, HELP, project
from filemem.cli.group import CommandGroup
from filemem.errors import BadInput, BrokenStore, Conflict, Locked, NotFound
from tests.support import git, make_repo, write
from tests.system.tools import FILEMEM, cli, ok, process

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


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The names of all commands and groups."""
    found = [path]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):  # each is imported when it is asked for
            inner = command.get_command(ctx, name)
            assert inner is not None, name
            found += commands(inner, (*path, name))
    return found


def test_every_help_has_an_example_that_can_be_parsed(repo: Path) -> None:
    every = commands(CommandGroup(COMMANDS, HELP))
    assert len(every) > 15
    for path in every:
        done = cli(repo, *path, "--help")
        examples = re.findall(r"^ +filemem (.*)$", done.out.partition("Example")[2], re.MULTILINE)
        assert examples, f"filemem {' '.join(path)} --help has no example"
        for example in examples:
            words = shlex.split(example)
            if words[0] not in ("serve", "web"):
                assert "Usage:" not in cli(repo, *words).err, example


def test_a_plain_search_asks_what_click_would_ask(repo: Path) -> None:
    ok(repo, *DECISION)
    for words in (["cache"], ["lru", "cache", "--json"]):
        plain = cli(repo, "search", *words)
        assert plain.out == cli(repo, "search", "--type", "decision", *words).out != ""
        assert "degraded" not in plain.out, "the first save is in the index"


def test_help_and_a_plain_search_import_no_click(repo: Path) -> None:
    probe = (
        "import sys, filemem.cli\ntry: filemem.cli.main()\nfinally: print('click' in sys.modules)"
    )
    for words in (["--help"], ["search", "--json", "cache"], ["topics"]):
        command = [sys.executable, "-c", probe, *words]
        done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines()[-1] == "False", done
    listed = cli(repo, "--help").out
    assert all(re.search(rf"^  {name} +[A-Z]", listed, re.MULTILINE) for name in COMMANDS)


def test_a_server_and_a_commit_hook_begin_without_the_memory() -> None:
    probe = (
        "import sys, filemem.cli.serve, filemem.cli.web, filemem.cli.gate; "
        "print(sorted({'filemem.memory', 'filemem.index', 'tantivy', 'starlette'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_exit_codes(repo: Path, tmp_path: Path) -> None:
    assert {BadInput: 2, NotFound: 4, Conflict: 5, Locked: 6, BrokenStore: 7} == EXIT_CODES
    assert cli(repo, *DECISION).code == 0
    for arguments, code in {
        ("search", "x", "--since", "lately"): 2,
        ("search", "--no-such-option"): 2,
        ("no-such-command",): 2,
        ("get", "nothing"): 4,
        ("history", "nothing"): 4,
        ("check", "memory/nothing"): 4,
        ("check",): 0,
    }.items():
        done = cli(repo, *arguments)
        assert done.code == code, arguments
        assert code == 0 or (done.out == "" and done.err), arguments
    assert cli(repo, *DECISION, "--supersedes", "nothing").code == 4
    fork = (
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Other",
        "--reasoning",
        "r",
        "--supersedes",
    )
    other = cli(
        repo,
        "save",
        "decision",
        "--topic",
        "other",
        "--decision",
        "x",
        "--reasoning",
        "y",
        "--json",
    ).json
    assert cli(repo, *fork, other["id"]).code == 0
    assert cli(repo, *DECISION).code == 5
    plain = tmp_path / "plain"
    plain.mkdir()
    done = cli(plain, "search", "x")
    assert (done.code, done.out) == (4, "")
    assert "filemem init" in done.err
    assert cli(tmp_path / "missing", "search", "x").code == 2


def test_json_answers(repo: Path) -> None:
    first, second = ok(repo, *DECISION), ok(repo, *DECISION, "--tag", "speed")
    assert {"success", "id", "type", "message", "path", "commit", "superseded"} <= second.keys()
    assert second["superseded"] == [first["id"]]
    found = ok(repo, "search", "LRU")
    assert found["count"] == len(found["results"]) == 2
    assert {"id", "type", "topic", "title", "path", "score", "superseded_by"} <= found["results"][
        1
    ].keys()
    assert [hit.get("superseded_by") for hit in found["results"]] == [None, [second["id"]]]
    assert all(
        (repo / hit["path"]).is_file() and 0 <= hit["score"] <= 1 for hit in found["results"]
    )
    told = ok(repo, "history", "caching")
    assert (told["topic"], told["heads"]) == ("caching", [second["id"]])
    assert [step["id"] for step in told["chain"]] == [first["id"], second["id"]]
    for step, saved in zip(told["chain"], (first, second), strict=True):
        assert (step["title"], step["author"], step["commit"]) == (
            "Use an LRU cache",
            "Ada",
            saved["commit"],
        )
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", step["date"])
        assert step["path"] == saved["path"]
    assert ok(repo, "get", first["id"][-8:])["results"][0]["text"] == "One process"
    assert ok(repo, "topics", "cach")["topics"][0]["topic"] == "caching"
    assert ok(repo, "history") == ok(repo, "topics"), "what may be asked"
    assert (
        cli(repo, "history", "--at", "HEAD~1").out
        == cli(repo, "topics", "--at", "HEAD~1").out
        != ""
    )
    assert cli(repo, "history", "").code == 4
    assert ok(repo, "status")["records"] == {"decision": 2, "checkpoint": 0, "observation": 0}
    assert ok(repo, "index", "--rebuild")["success"] is True
    assert ok(repo, "delete", second["id"])["id"] == second["id"]
    assert ok(repo, "check")["checked"] == 1
    assert ok(repo, "init", "--dry-run")["dry_run"] is True


def test_init_makes_a_repository_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    assert cli(folder, "init", "--dry-run").code == 0
    assert list(folder.iterdir()) == []
    assert cli(folder, "init").code == 0
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.com")
    assert cli(folder, *DECISION).code == 0
    assert git(folder, "rev-list", "--count", "HEAD") == "1"


def test_options_that_say_where(repo: Path) -> None:
    inside = write(repo / "src/deep/x.py", "").parent
    saved = ok(inside, "--store", "docs/decisions log", *DECISION)
    assert re.match(r"docs/decisions log/decisions/\d{4}/\d\d/caching--", saved["path"])
    assert ok(repo, "search", "LRU")["count"] == 0
    for same in ("docs/decisions log", "./docs/decisions log/"):
        assert ok(repo, "--store", same, "search", "LRU")["count"] == 1
    assert cli(repo, "--store", "docs/decisions log", "init").code == 0
    assert ok(inside, "search", "LRU")["count"] == 1, "init writes the store down for everybody"
    for bad in ("../x", "/tmp/x", ".git/x", "a/../../x", ".//x", "x/./y"):
        assert cli(repo, "--store", bad, "search", "x").code == 2, bad


def test_no_identity(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    git(repo, "config", "--unset", "user.name")
    git(repo, "config", "--unset", "user.email")
    done = cli(repo, *DECISION)
    assert done.code == 2
    assert "git config --global user.name" in done.err
    assert cli(repo, "search", "x").code == 0
    assert not list((repo / "memory").rglob("*.md")), "nothing is left of the save"


def test_a_git_directory_that_cannot_be_written(repo: Path) -> None:
    write(repo / "memory/decisions/a.md", "# Readable all the same\n")
    powerless = (
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    )  # or root may write
    if powerless and not shutil.which("setpriv"):
        pytest.skip("root may write everywhere, and setpriv is not installed")
    folders = [Path(at) for at, _, _ in os.walk(repo / ".git")]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*powerless, FILEMEM, "-C", str(repo), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for folder in folders:
        folder.chmod(0o555)
    try:
        found = run("search", "readable", "--json")
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["count"] == 1
        done = run(*DECISION)
        assert done.returncode == EXIT_CODES[BrokenStore], done
        assert ".git" in done.stderr
        assert git(repo, "status", "--porcelain", "-uall") == "?? memory/decisions/a.md", (
            "nothing is left of the save"
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_full_standard_output_is_no_defect_and_the_save_stands(repo: Path) -> None:
    save = (FILEMEM, "save", "observation", "--text", "One okapi", "--json")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(save, cwd=repo, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 7
    assert b"standard output: No space left on device: the work is done" in done.stderr
    assert b"defect" not in done.stderr
    assert "okapi" in git(repo, "log", "-1", "--format=%s")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.ENOTEMPTY])
def test_what_the_system_refuses_is_no_defect(
    repo: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code), "/some/file")

    monkeypatch.setattr("filemem.cli._run", refuse)
    done = cli(repo, "status")
    assert done.code == 7
    assert f"error: /some/file: {os.strerror(code)}" in done.err
    assert "git log -1` show what stands" in done.err
    assert "defect" not in done.err


def test_a_wrong_option_is_told_with_its_command_and_field(repo: Path) -> None:
    error = cli(repo, "search", "--limit", "0", "--json").json["error"]
    assert (error["kind"], error["field"]) == ("bad_input", "limit")
    assert "filemem update --help" in cli(repo, "update", "x", "--outcome").err


def test_adopt_writes_ids_into_files_that_have_none(repo: Path) -> None:
    path = write(repo / "memory/decisions/0001-use-postgres.md", "# Use Postgres\n\nIt is there.\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "By hand")
    before = ok(repo, "get", "Use Postgres")["results"][0]["id"]
    assert before.startswith("file_")
    adopted = ok(repo, "adopt", str(path.relative_to(repo)))
    assert (adopted["count"], adopted["adopted"][0]["path"]) == (
        1,
        "memory/decisions/0001-use-postgres.md",
    )
    assert f"id: {adopted['adopted'][0]['id']}" in path.read_text()
    assert git(repo, "status", "--porcelain") == ""
    git(repo, "mv", "memory/decisions/0001-use-postgres.md", "memory/decisions/0001-postgres.md")
    git(repo, "commit", "-q", "-m", "Rename")
    assert ok(repo, "get", "Use Postgres")["results"][0]["id"] == adopted["adopted"][0]["id"]
    again = process(repo, "adopt", "memory/decisions/0001-postgres.md")
    assert (again.code, "already states its id" in again.err) == (2, True)


def test_adopt_writes_into_no_file_that_is_not_read_as_a_record(repo: Path) -> None:
    """README.md at the top is no record, and neither is the one of the store that `init` writes."""
    ok(repo, "init", "--hooks=none")
    write(repo / "README.md", "# My project\n")
    before = (repo / "memory/README.md").read_bytes()
    assert cli(repo, "adopt", "README.md").code == 4
    assert (repo / "memory/README.md").read_bytes() == before


def test_a_line_of_a_forked_topic_names_the_decision_of_its_title(repo: Path) -> None:
    ok(repo, "save", "decision", "--topic", "events", "--decision", "One", "--reasoning", "x")
    git(repo, "checkout", "-qb", "other")
    ok(repo, "save", "decision", "--topic", "events", "--decision", "Two", "--reasoning", "x")
    git(repo, "checkout", "-q", "main")
    last = ok(repo, "save", "decision", "--topic", "events", "--decision", "Three", "--reasoning=x")
    git(repo, "merge", "-q", "--no-edit", "other")
    (line,) = cli(repo, "topics", "--oneline").out.splitlines()
    assert line.split()[0] == last["id"].rpartition("_")[2]
    assert "Three" in line
    assert line.endswith("forked")


def test_exclusions_that_leave_nothing_are_no_empty_memory(repo: Path) -> None:
    ok(repo, "save", "decision", "--topic", "events", "--decision", "One", "--reasoning", "x")
    assert "no record passes these filters" in cli(repo, "search", "--", "-one").out


def test_the_demo_shows_what_it_promises() -> None:
    demo = Path(__file__).parents[2] / "bench" / "demo.py"
    wide = {**os.environ, "COLUMNS": "110"}
    done = subprocess.run(
        [sys.executable, str(demo)], capture_output=True, text=True, env=wide, check=False
    )
    assert done.returncode == 0, done.stderr
    for promise in (
        r"1\. 4\. Keep orders in PostgreSQL .*\n(.*\n)*.*superseded by 4\. Keep orders in PostgreSQL",
        r"Ada: decision\(mail retries\): Try a mail three times",
        r"delivers 97 of 100.*\n(.*\n)*  1 record edited, not committed",
        r"1 topic forked(.*\n)*.*replacing 6\. Try a mail five times .* and 6\. Try a mail for two days",
        r"governs filemem/repo/commit\.py:40:\n +1\. ",
        r"govern what this branch touches \(files: 1\)",
    ):
        assert re.search(promise, done.stdout), promise
    assert len(done.stdout.splitlines()) < 130
    assert "\x1b[" not in done.stdout, "colours are for terminals"


def test_a_long_indexing_says_how_fast_it_is_and_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((0.0, 2.0, 4.0))
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(project, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(sys, "stderr", terminal)
    show = project.build_progress_bar("indexing")
    show(1_000, 4_000)
    show(4_000, 4_000)
    first, last = (
        row.strip().removesuffix("\x1b[K") for row in terminal.getvalue().split("\r")[-2:]
    )
    assert first == "indexing 1,000 of 4,000 records, 500 a second, 6 s left"
    assert last == "indexing 4,000 of 4,000 records, 1,000 a second, 0 s left"
