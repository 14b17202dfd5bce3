"""Shell completion: commands, options, topics, ids and files, in the shells that are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import IDENTITY, write
from tests.system.tools import FILEMEM, cli, ok, process

LONG = "what the retry policy of the payment gateway is in the second region"  # cut in the name of a file
SCRIPTS = {  # each prints what its shell offers for a command line, whose words are $@
    "bash": """
        eval "$(filemem completion bash)"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _filemem_completion filemem 2>/dev/null
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { }
        compadd() { print -l -- $completions }
        _describe() { print -l -- ${completions_with_descriptions%%:*} }
        eval "$(filemem completion zsh)"
        words=("$@"); CURRENT=$#; _filemem_completion
    """,
    "fish": """
        filemem completion fish | source
        complete -C (string join ' ' -- $argv) | string replace -r '\\t.*' ''
    """,
}


def words(folder: Path, line: str) -> list[str]:
    """What completes the last word of a command line, which may be empty."""
    asked = {"_FILEMEM_COMPLETE": "bash_complete", "COMP_WORDS": f"filemem {line}"}
    done = process(folder, **asked, COMP_CWORD=str(len(line.split(" "))))
    assert (done.code, done.err) == (0, "")
    return done.out.split()


def saved(folder: Path, topic: str, decision: str = "Use an LRU cache") -> str:
    """Save a decision; its short id."""
    told = (
        "save",
        "decision",
        "--topic",
        topic,
        "--decision",
        decision,
        "--reasoning",
        "One process",
    )
    return str(ok(folder, *told)["id"])[-8:]


def test_commands_and_options(repo: Path) -> None:
    assert words(repo, "che") == ["plain,checkpoint", "plain,check"]
    assert words(repo, "search --expl") == ["plain,--explain"]
    assert words(repo, "init --own-b") == ["plain,--own-branch"]


def test_topics_are_completed_as_words_that_mean_the_same(repo: Path) -> None:
    for topic in ("caching", "Order storage", "order.events", LONG):
        saved(repo, topic)
    assert set(words(repo, "history ord")) == {"plain,order-storage", "plain,order-events"}
    (whole,) = words(repo, "save decision --topic wh")
    assert cli(repo, "history", whole.removeprefix("plain,")).code == 0
    for topic in words(repo, "resolve "):
        assert cli(repo, "history", topic.removeprefix("plain,")).code == 0
    assert words(repo, "history zz") == []


def test_ids_are_completed_where_records_are_named(repo: Path) -> None:
    first, second = saved(repo, "caching"), saved(repo, "queues", "Use a table")
    assert set(words(repo, "get ")) == {f"plain,{first}", f"plain,{second}"}
    assert words(repo, f"save decision --builds-on {first[:6]}") == [f"plain,{first}"]
    assert words(repo, "why src/ca") == ["file,src/ca"], "the shell knows files"


def test_records_of_others_are_completed_by_the_names_of_their_files(repo: Path) -> None:
    write(repo / "docs/adr/0004-use-postgres.md", "# 4. Use Postgres\n")
    (repo / "memory").mkdir()
    assert words(repo, "--store docs/adr get 00") == ["plain,0004-use-postgres.md"]
    assert words(repo, "get 00") == [], "another store"


def test_names_that_a_shell_would_run_are_not_offered(repo: Path) -> None:
    for name in (
        "zz$(touch pwned)x",
        "zz;x",
        "zz`x`",
        "zz\nx",
        "zz\x1bx",
        "zz\u2028x",
        "-zz",
        "zz-ü-नी_1@x",
    ):
        write(repo / f"memory/decisions/{name}.md", "# Plain\n")
    write(
        repo / "memory/decisions/zz;x--20250101-back-k3f9w2ma.md", "---\ntopic: zz;x\n---\n# Back\n"
    )
    write(
        repo / "memory/decisions/zy--20250101-back\nplain\nx;-zzf9w2ma.md",
        "---\ntopic: zy\n---\n# Back\n",
    )
    assert words(repo, "get zz") == ["plain,zz-ü-नी_1@x.md"]
    assert words(repo, "get -- -z") == []
    assert words(repo, "history z") == []


def test_outside_a_project_only_the_program_is_completed(tmp_path: Path) -> None:
    assert words(tmp_path, "get ") == []
    assert words(tmp_path, "--personal history ") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_real_shell_offers_them(repo: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    short = saved(repo, "Order storage")
    environment = {
        **os.environ,
        **IDENTITY,
        "PATH": f"{Path(FILEMEM).parent}{os.pathsep}{os.environ['PATH']}",
    }
    name = ["fish", "--no-config"] if shell == "fish" else [shell]
    for line, expected in (
        ("search --li", "--live"),
        ("history o", "order-storage"),
        ("get ", short),
    ):
        command = [
            *name,
            "-c",
            SCRIPTS[shell],
            *([shell] if shell != "fish" else []),
            "filemem",
            *line.split(" "),
        ]
        done = subprocess.run(
            command, cwd=repo, env=environment, capture_output=True, text=True, check=False
        )
        assert expected in done.stdout.split(), done


def test_a_shell_that_is_not_known_is_refused(repo: Path) -> None:
    done = cli(repo, "completion", "pish")
    assert (done.code, "'bash', 'zsh', 'fish'" in done.err) == (2, True)
