"""What people who are new here try first: paths, errors for scripts, records of other makers, odd names."""

from __future__ import annotations

import http.client
import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.support import git, write
from tests.system.tools import FILEMEM, cli, ok, process, serving_http, talking, until

DECISION = ("save", "decision", "--topic", "caching", "--decision", "Use an LRU cache", "--reasoning", "One process")


def test_paths_are_relative_to_the_current_folder(repo: Path, tmp_path: Path) -> None:
    ok(repo, *DECISION, "--affects", "src/cache/*.py")
    inside = write(repo / "src/cache/lru.py", "").parent
    write(repo / "memory/decisions/bad.md", "---\nconfidence: high\n---\n# Bad\n")
    for folder, path, count in (
        (repo, "src/cache/lru.py", 1),
        (repo, "lru.py", 0),
        (inside, "lru.py", 1),
        (inside, "../cache/lru.py", 1),
        (inside, str(inside / "lru.py"), 1),
        (inside, "src/cache/lru.py", 0),
    ):
        assert ok(folder, "search", "--path", path)["count"] == count, (folder, path)
    outside = cli(inside, "search", "--path", "../../../x.py")
    assert (outside.code, "outside the work tree" in outside.err) == (2, True)
    assert process(inside, "search", "--path", "lru.py").out.startswith(" 1. Use an LRU cache")
    for folder, path in ((repo, "memory/decisions/bad.md"), (repo / "memory", "decisions/bad.md")):
        assert cli(folder, "check", path).code == 1
        assert ok(folder, "get", path)["results"][0]["title"] == "Bad"
        assert ok(folder, "history", path)["chain"][0]["title"] == "Bad"
    assert cli(inside, "check", "memory/decisions/caching").code == 0, "names from the top work everywhere"


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "field"),
    [
        (("get", "nothing"), 4, "not_found", None),
        (("search", "x", "--since", "yesterday"), 2, "bad_input", "since"),
        (("search", "--no-such-option"), 2, "bad_input", None),
        (("save", "decision", "--topic", "x"), 2, "bad_input", "decision"),
        (("no-such-command",), 2, "bad_input", None),
        (("--store", "../x", "search", "x"), 2, "bad_input", "store"),
    ],
)
def test_errors_are_json_where_json_was_asked_for(
    repo: Path, arguments: tuple[str, ...], code: int, kind: str, field: str | None
) -> None:
    done = process(repo, *arguments, "--json")
    assert done.code == code
    answer = json.loads(done.out)
    assert answer["success"] is False
    assert (answer["error"]["kind"], answer["error"].get("field")) == (kind, field)
    assert answer["error"]["message"]
    assert answer["error"]["message"].splitlines()[0] in done.err, "the eye reads it too"
    plain = process(repo, *arguments)
    assert (plain.code, plain.out) == (code, "")


def test_a_defect_is_json_too(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filemem.dialects.native_calls.status", lambda *_: 1 / 0)
    done = cli(repo, "status", "--json")
    assert (done.code, done.json["error"]["kind"]) == (3, "internal")
    report = Path(done.json["error"]["hint"].rpartition(" ")[2])
    assert "ZeroDivisionError" in report.read_text()
    report.unlink()


def test_every_missing_field_is_named_at_once(repo: Path) -> None:
    with talking(repo) as client:
        assert client.refused("save", type="decision")["message"] == "a decision needs topic, decision and reasoning"
        assert client.refused("save", topic="x", decision=" ")["message"] == "a decision needs decision and reasoning"
        assert client.refused("save", type="checkpoint")["message"] == "a checkpoint needs summary"


def test_instructions_name_the_tools_that_are_listed(repo: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    asked = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    for prefix in ("", "mama_"):
        done = _serve(repo, asked, *(("--prefix", prefix) if prefix else ()))
        told = json.loads(done.splitlines()[0])["result"]["instructions"]
        for name in ("save", "search", "update", "load_checkpoint"):
            assert f"`{prefix}{name}`" in told
            assert not prefix or f"`{name}`" not in told


def _serve(repo: Path, line: str, *options: str) -> str:
    command = [FILEMEM, "-C", str(repo), "serve", *options]
    return subprocess.run(command, input=line + "\n", capture_output=True, text=True, timeout=60, check=True).stdout


def test_help_says_which_options_repeat(repo: Path) -> None:
    text = " ".join(cli(repo, "save", "decision", "--help").out.split())
    for option in ("--rejected", "--affects", "--supersedes", "--builds-on", "--debates", "--synthesizes", "--tag"):
        assert "May be repeated." in text.partition(f"{option} TEXT")[2].partition(" --")[0], option


def test_what_waits_says_so_in_plain_words(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    saved = cli(repo, *DECISION)
    assert "Decision saved on caching; written, but not committed yet\n" in saved.out
    assert "because: HEAD is detached" in saved.out
    told = cli(repo, "status").out
    assert "not committed yet: save of memory/decisions/caching/" in told
    assert "is committed by the first command, or by a server, once that is over" in told
    git(repo, "checkout", "-q", "main")
    assert "not committed yet" not in cli(repo, "status").out


def test_a_forked_topic_is_told_by_paths_from_the_top(repo: Path) -> None:
    for name in ("a", "b"):
        write(repo / f"memory/decisions/x/{name}.md", f"---\ntopic: x\nsupersedes: []\n---\n# {name}\n")
    out = cli(repo, "check").out
    assert "memory/decisions/x/b.md:1: forked-topic" in out
    assert "is forked: memory/decisions/x/a.md also hold" in out


def test_names_and_texts_cannot_steer_a_terminal(repo: Path) -> None:
    evil = "\x1b[31mred\x07\u202e"
    write(repo / f"memory/decisions/new\nline {evil}.md", "# T\n")
    write(repo / "memory/decisions/shown.md", f"---\ntopic: t\n---\n# Title {evil}\n\nText {evil}\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", f"Add {evil}")
    for command in (("check",), ("search",), ("search", "title"), ("history", "t"), ("topics",), ("status",)):
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
        ("3. Ansible instead", False, 2),
        ("1. Record architecture decisions", False, 1),
    ]
    assert "3. Ansible instead  (no topic stated, 2 decisions)" in cli(foreign, *adr, "topics").out
    assert ok(foreign, *adr, "topics", "ansible")["count"] == 1
    for name in (
        "Puppet architecture",
        "2. puppet architecture",
        "2",
        "0002-use-puppet",
        "0003-use-ansible.md",
        "ADR-3",
    ):
        chain = ok(foreign, *adr, "history", name)["chain"]
        assert [step["title"] for step in chain] == ["2. Puppet architecture", "3. Ansible instead"], name
    out = cli(foreign, *adr, "history", "puppet architecture").out
    assert "docs/adr/0002-use-puppet.md" in out
    assert "file_" not in out
    assert "Status" not in out
    assert "Puppet" in cli(foreign, *adr, "history", "pupet architecture").err


def test_what_replaced_a_record_is_named_for_people(foreign: Path) -> None:
    adr = ("--store", "docs/adr")
    alone = cli(foreign, *adr, "search", "--status", "deprecated", "puppet provisioned")
    assert "superseded by 3. Ansible instead (docs/adr/0003-use-ansible.md)" in alone.out
    assert (
        "superseded by 3. Ansible instead (docs/adr/0003-use-ansible.md)"
        in cli(foreign, *adr, "get", "docs/adr/0002-use-puppet.md").out
    )
    hit = ok(foreign, *adr, "search", "--status", "deprecated", "puppet provisioned")["results"][0]
    (successor,) = hit["successors"]
    assert successor == {
        "id": hit["superseded_by"][0],
        "title": "3. Ansible instead",
        "path": "docs/adr/0003-use-ansible.md",
    }
    assert "file_" not in cli(foreign, *adr, "search").out


def test_http_off_loopback_needs_a_token(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all = process(repo, "serve", "--http", "0.0.0.0:0")
    assert (open_to_all.code, "FILEMEM_TOKEN" in open_to_all.err) == (2, True)
    assert process(repo, "serve", "--http", "0.0.0.0:0", "--token", "short").code == 2
    write(repo / ".filemem.toml", f'token = "{"t" * 20}"\n')
    assert "only the user's own configuration" in process(repo, "serve", "--http", "127.0.0.1:0").err
    (repo / ".filemem.toml").unlink()
    token = "0123456789abcdef0123"
    monkeypatch.setenv("FILEMEM_TOKEN", token)
    with serving_http(repo, "0.0.0.0", "--name", "box.lan") as address:
        port = int(address.rpartition(":")[2].partition("/")[0])
        for headers, status in (
            ({"Host": f"box.lan:{port}", "Authorization": f"Bearer {token}"}, 200),
            ({"Host": f"box.lan:{port}"}, 401),
            ({"Host": f"box.lan:{port}", "Authorization": "Bearer wrong"}, 401),
            ({"Host": f"other.lan:{port}", "Authorization": f"Bearer {token}"}, 421),
        ):
            assert until(partial(_status, port, headers)) == status, headers


def _status(port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/health", headers=headers)
        return connection.getresponse().status
    except ConnectionError:
        return 0
    finally:
        connection.close()
