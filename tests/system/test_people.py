"""What people who are new here try first: paths, errors for scripts, records of other makers, odd names."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import shlex
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from filemem.dialects import native_calls
from filemem.memory import Memory
from filemem.query import Hit
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
        (("search", "x", "--since", "lately"), 2, "bad_input", "since"),
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
    assert "is forked: memory/decisions/x/a.md also holds; save one that" in out


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
        ("1. Record architecture decisions", False, 1),
        ("3. Ansible instead", False, 2),
    ]
    rows = cli(foreign, *adr, "topics").out.splitlines()
    assert rows[0] == "no topic stated:"
    assert rows[2] == "  3. Ansible instead  (2 decisions)"
    for word in ("ansible", "ible inst", "3."):
        assert [one["title"] for one in ok(foreign, *adr, "topics", word)["topics"]] == ["3. Ansible instead"], word
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


def test_a_store_that_is_misspelt_is_not_an_empty_memory(foreign: Path) -> None:
    reads = (("search", "x"), ("get", "4"), ("history", "x"), ("topics",), ("status",), ("check",))
    for command in reads:
        done = cli(foreign, "--store", "docs/ard", *command)
        assert (done.code, done.out) == (4, ""), command
        assert "there is no folder docs/ard at the top of the work tree" in done.err, command
        assert "did you mean docs/adr?" in done.err, command
    assert "did you mean docs/adr?" in cli(foreign / "docs", "--store", "adr", "search").err
    assert "did you mean" not in cli(foreign, "--store", "elsewhere", "search").err
    other = "; docs/adr has Markdown files: filemem --store docs/adr reads them as decisions\n"
    named: tuple[tuple[str, ...], ...] = (*reads[1:3], ("update", "4", "--tag", "x"), ("delete", "4"))
    for begun in ("no memory here yet: filemem init, or just save", "nothing is saved yet"):
        for command in (reads[0], reads[3], reads[4]):
            assert f"note: {begun}{other}" in cli(foreign, *command).out, command
        for one in named:
            done = cli(foreign, *one)
            assert (done.code, f"hint: {begun}{other}" in done.err) == (4, True), done
        assert cli(foreign, "init").code == 0
    ok(foreign, "save", "observation", "--text", "Now there is something")
    assert "docs/adr" not in cli(foreign, "get", "4").err + cli(foreign, "search", "zzz").out
    write(foreign / ".filemem.toml", 'store = "notes"\n')
    assert cli(foreign, "search", "x").code == 4
    with talking(foreign) as client:
        assert "there is no folder notes" in client.refused("search", query="x")["message"]
        client.call("save", text="The first note makes the folder")
        assert client.call("search", query="note")["count"] == 1
    assert (foreign / "notes").is_dir()


def test_a_record_answers_to_every_name_it_has(foreign: Path) -> None:
    adr = ("--store", "docs/adr")
    listed = {hit["title"]: hit for hit in ok(foreign, *adr, "search")["results"]}
    ansible = listed["3. Ansible instead"]
    tail = ansible["id"].partition("_")[2]
    assert tail in cli(foreign, *adr, "search", "ansible").out, "what search prints is what get takes"
    names = ("3", "#3", "ADR-3", "adr-0003", "0003-use-ansible.md", "0003-use-ansible", "3. Ansible instead")
    for name in (
        *names,
        "ansible INSTEAD",
        ansible["path"],
        ansible["id"],
        tail,
        tail[:4],
        f"file_{tail[:5]}",
        tail[-8:],
    ):
        assert ok(foreign, *adr, "get", name)["results"][0]["id"] == ansible["id"], name
        assert ok(foreign, *adr, "history", name)["chain"][-1]["id"] == ansible["id"], name
    new = ok(foreign, *adr, *DECISION, "--supersedes", "3", "--builds-on", "Record architecture decisions")
    header = (foreign / new["path"]).read_text().partition("\n# ")[0]
    assert f"supersedes: [{ansible['id']}]" in header
    assert f"builds_on: [{listed['1. Record architecture decisions']['id']}]" in header
    assert (
        ok(foreign, *adr, "update", "ADR-1", "--outcome", "success")["id"]
        == listed["1. Record architecture decisions"]["id"]
    )
    write(foreign / "docs/adr/0003-another.md", "# 3. Ansible instead\n\n## Status\n\nAccepted\n")
    for name in ("3", "3. Ansible instead"):
        done = cli(foreign, *adr, "get", name)
        assert done.code == 4, name
        assert f"2 records answer to '{name}'" in done.err
        assert done.err.index(tail) > done.err.index("; "), "by path"
    (foreign / "docs/adr/0003-another.md").unlink()
    assert cli(foreign, *adr, "get", "Ansible").code == 4
    assert "it is a topic; its last decision is Use an LRU cache (decision_" in cli(foreign, *adr, "get", "Caching").err
    assert "did you mean 3. Ansible instead" in cli(foreign, *adr, "get", "Ansible insted").err


def test_a_record_answers_to_the_number_in_its_header(foreign: Path) -> None:
    adr = ("--store", "docs/adr")
    header = "---\nfip: '0007'\ntitle: {}\nauthor: Ada\nstatus: {}\n---\n\n## Summary\n\nWhy.\n"
    path = write(foreign / "docs/adr/liquidity.md", header.format("Burn the rest", "Final"))
    write(foreign / "docs/adr/sequel.md", header.format("Keep it", "Supersedes FIP-0007").replace("'0007'", "8"))
    git(foreign, "add", ".")
    git(foreign, "commit", "-q", "-m", "FIPs")
    old, new = (ok(foreign, *adr, "get", name)["results"][0] for name in ("FIP-7", "8"))
    assert (old["title"], new["title"], old["superseded_by"]) == ("Burn the rest", "Keep it", [new["id"]])
    assert ok(foreign, *adr, "update", "7", "--outcome", "failed", "--reason", "x")["id"] == old["id"]
    path.write_text(path.read_text().replace("'0007'", "9"))
    assert "superseded_by" not in ok(foreign, *adr, "get", "FIP-9")["results"][0], "what named it is read again"
    assert cli(foreign, *adr, "get", "FIP-7").code == 4


def test_a_record_answers_to_the_number_of_its_heading_alone(repo: Path) -> None:
    adr, folder = ("--store", "docs/adr"), repo / "docs/adr"
    old = write(folder / "use-redis.md", "# ADR-0007: Use Redis\n\n## Status\n\nAccepted\n")
    write(folder / "use-lru.md", "# 8. Use an LRU cache\n\n## Status\n\nSupersedes ADR-7\n")

    def told(name: str) -> str:
        return str(ok(repo, *adr, "get", name)["results"][0]["title"])

    with Memory.open(repo, store="docs/adr") as memory:

        def look() -> dict[str, tuple[str, ...]]:
            memory.refresh(full=True)
            followed = {node.path: node for node in memory._store.nodes()}
            memory.rebuild()
            assert {node.path: node for node in memory._store.nodes()} == followed
            return {path: node.supersedes or () for path, node in followed.items()}

        redis = ok(repo, *adr, "get", "use-redis.md")["results"][0]["id"]
        assert look()["use-lru.md"] == (redis,)
        assert {told(name) for name in ("7", "ADR-7", "#7")} == {"ADR-0007: Use Redis"}
        assert {told(name) for name in ("8", "adr-0008")} == {"8. Use an LRU cache"}
        write(folder / "0007-use-disk.md", "# Use the disk\n\n## Status\n\nAccepted\n")
        assert redis not in look()["use-lru.md"], "a file of that name has it"
        assert told("ADR-7") == "Use the disk"
        (folder / "0007-use-disk.md").unlink()
        assert look()["use-lru.md"] == (redis,)
        write(old, "# Use Redis\n\n## Status\n\nAccepted\n")
        assert redis not in look()["use-lru.md"]
        assert cli(repo, *adr, "get", "7").code == 4


def test_what_was_deleted_says_when_and_how_to_read_it(repo: Path) -> None:
    saved = ok(repo, *DECISION)
    done = cli(repo, "delete", saved["id"], "--reason", "saved twice")
    commit = git(repo, "rev-parse", "HEAD")[:10]
    assert f"commit {commit}" in done.out
    for name in (saved["id"], saved["id"][-8:], saved["path"]):
        for command in (("get", name), ("update", name, "--outcome", "failed"), ("history", name)):
            error = cli(repo, *command).err
            assert f"deleted in {commit} (20" in error, command
            assert f"delete {saved['id'][-8:]} (saved twice))" in error
            assert f"`git -C {repo} show '{commit}^:{saved['path']}'` reads it" in error
            assert "`filemem restore " in error
    assert "# Use an LRU cache" in git(repo, "show", f"{commit}^:{saved['path']}")
    other = ok(repo, *DECISION)
    (repo / other["path"]).unlink()
    assert f"`git -C {repo} restore {other['path']}`" in cli(repo, "get", other["id"]).err
    assert "deleted in" not in cli(repo, "get", "abcdefgh").err


def test_a_fork_names_its_ends_and_the_command_that_joins_them(repo: Path) -> None:
    for name in ("a", "b"):
        write(repo / f"memory/decisions/x y/{name}.md", f"---\ntopic: x y\nsupersedes: []\n---\n# Way {name}\n")
    heads = ok(repo, "topics")["topics"][0]["ids"]
    command = "filemem resolve 'x y' --decision ... --reasoning ..."
    save = ("save", "decision", "--topic", "x y", "--decision", "Both", "--reasoning", "r")
    refused = cli(repo, *save)
    assert refused.code == 5
    assert "Way a (" in refused.err
    assert "Way b (" in refused.err
    assert command in refused.err
    told = cli(repo, "check").out
    assert command in told
    assert "a.md also holds;" in told or "b.md also holds;" in told
    with talking(repo) as client:
        error = client.refused("save", topic="x y", decision="Both", reasoning="r")
        assert (error["kind"], set(error["heads"])) == ("conflict", set(heads))
        assert "Way a (" in error["message"]
        assert "Way b (" in error["message"]
    joined = cli(repo, *save, *(part for one in heads for part in ("--synthesizes", one[5:])))
    assert joined.code == 0
    assert "forked" not in cli(repo, "check").out


def test_fields_of_two_types_and_missing_ones(repo: Path) -> None:
    with talking(repo) as client:
        mixed = client.refused("save", topic="x", decision="d", reasoning="r", summary="s")
        assert mixed["field"] in ("topic", "decision", "reasoning")
        assert mixed["hint"] == "summary makes this a checkpoint; leave it out for a decision, or save twice"
        titled = client.refused("save", topic="x", decision="d", reasoning="r", title="t")
        assert titled["message"] == "an observation has no field 'topic'"
        assert titled["hint"] == "title makes this an observation; leave it out for a decision, or save twice"
        assert client.refused("save", title="t")["message"] == "an observation needs text"
        wrong = client.refused("save", topic="x", decision="d", reasoning="r", confidence=2)["message"]
        assert wrong.count("confidence") == 1
    error = cli(repo, "save", "decision", "--topic", "x", "--decision", "d", "--summary", "s").err
    assert "filemem save decision has no --summary; filemem save checkpoint has" in error
    assert "leave it out, or save twice" in error
    assert "missing: --decision, --reasoning" in cli(repo, "save", "decision", "--topic", "x").err
    assert "missing: --text" in cli(repo, "save", "observation", "--title", "x").err


def test_what_a_decision_governs_may_be_named_from_here(repo: Path) -> None:
    inside = write(repo / "src/cache/lru.py", "").parent
    write(repo / "docs/x.md", "")
    named = ("lru.py", "../cache/*.py", "docs/x.md", "nowhere/*.c", "**/*.py")
    saved = ok(inside, *DECISION, *(part for one in named for part in ("--affects", one)))
    stored = ok(repo, "get", saved["id"])["results"][0]["affects"]
    assert stored == ["src/cache/lru.py", "src/cache/*.py", "docs/x.md", "nowhere/*.c", "**/*.py"]
    assert ok(inside, "search", "--path", "lru.py")["count"] == 1


def test_init_says_where_the_command_is_missing(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(FILEMEM).parent
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    assert "warning: no command filemem on the PATH outside" in cli(repo, "init", "--dry-run").out
    elsewhere = write(tmp_path / "bin/filemem", "#!/bin/sh\n")
    elsewhere.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{elsewhere.parent}:/usr/bin:/bin")
    assert "warning" not in cli(repo, "init", "--dry-run").out
    assert "warning" not in ok(repo, "init", "--dry-run")


def test_a_decision_by_hand_is_told_what_topic_its_folder_has(repo: Path) -> None:
    ok(repo, "save", "decision", "--topic", "Log format", "--decision", "JSON lines", "--reasoning", "r")
    write(repo / "memory/decisions/log/format/plain.md", "# Plain text\n")
    write(repo / "memory/decisions/auth/tokens/short.md", "# Short tokens\n")
    out = cli(repo, "check").out
    assert "plain.md:1: no-topic states no topic; add `topic: Log format` to join the topic of its folder" in out
    assert "short.md:1: no-topic states no topic; add `topic: auth_tokens` to join the topic of its folder" in out


def test_a_folder_of_several_topics_names_none(repo: Path) -> None:
    for topic in "abc":
        write(repo / f"memory/decisions/notes/{topic}.md", f"---\ntopic: {topic}\n---\n# Decide {topic}\n")
    write(repo / "memory/decisions/notes/loose.md", "# Loose\n")
    [told] = [line for line in cli(repo, "check").out.splitlines() if "no-topic" in line]
    assert "loose.md:1: no-topic" in told
    assert "to join" not in told


def test_history_tells_each_thing_once(repo: Path) -> None:
    saved = ok(repo, *DECISION, "--rejected", "Redis: one more service to run")
    path = repo / saved["path"]
    done = cli(repo, "update", "Use an LRU cache", "--outcome", "failed", "--reason", "evicts too early")
    commit = git(repo, "rev-parse", "HEAD")[:10]
    assert f"commit {commit}" in done.out
    for subject, more in (
        ("Use an LRU cache", "One.\n"),
        ("Merge branch 'x'", "Two.\n"),
        ("Say how large it is", "Three.\n"),
    ):
        path.write_text(path.read_text().replace("## Rejected", f"{more}\n## Rejected"))
        git(repo, "commit", "-q", "-a", "-m", subject)
    out = cli(repo, "history", "caching").out
    assert out.count("evicts too early") == out.count(commit) == 1, out
    assert re.search(rf"failed \d{{4}}-\d\d-\d\d: evicts too early  \(Ada {commit}\)", out)
    assert out.count("Redis: one more service to run") == 1
    assert "rejected: Redis: one more service to run" in out
    assert out.count("Use an LRU cache") == 1
    assert "Merge branch" not in out
    assert re.search(r"Ada \w{10}: reasoning extended  \(Say how large it is\)", out)


def test_what_is_quoted_is_prose(repo: Path) -> None:
    badge = "[![build](https://x.y/b.svg)](https://x.y) ![logo](logo.png) [![ci][ci]][run] <img src='x'>"
    text = f"# Plan\n\n<!-- a template\nspeaks --> {badge}\n\nWe publish wheels <!-- really --> on every tag.\n"
    write(repo / "memory/decisions/plan.md", text)
    for query in ("wheels", ""):
        out = cli(repo, "search", *filter(None, [query])).out
        assert "We publish wheels on every tag." in out
        assert not any(part in out for part in ("template", "svg", "logo", "[ci]", "<img", "really")), out
    ok(repo, *DECISION, "--rejected", "Redis: one more service to run")
    out = cli(repo, "search", "redis").out
    assert out.count("Redis: one more service to run") == 1
    assert "already rejected: Redis" in out
    assert "Rejected: Redis" not in out


def test_what_says_nothing_is_left_out_of_json(repo: Path) -> None:
    first, second = ok(repo, *DECISION), ok(repo, *DECISION, "--tag", "speed")
    found = {hit["id"]: hit for hit in ok(repo, "search", "LRU")["results"]}
    assert (found[first["id"]]["holds"], found[second["id"]]["holds"]) == (False, True)
    assert found[second["id"]]["superseded_by"] == []
    old, new = ok(repo, "get", first["id"], second["id"])["results"]
    assert old["superseded_by"] == [second["id"]]
    assert "score" not in old
    assert not {"score", "superseded_by"} & new.keys()
    with talking(repo) as client:
        client.call("save", summary="Half done")
        checkpoint = client.call("load_checkpoint")["checkpoint"]
        assert not {"score", "superseded_by", "holds"} & checkpoint.keys()
        assert all("score" not in hit for hit in client.call("timeline")["results"])


def test_watching_tells_what_it_indexes(repo: Path) -> None:
    with subprocess.Popen([FILEMEM, "-C", str(repo), "watch"], stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        assert "watching" in watching.stderr.readline()
        write(repo / "memory/decisions/new.md", "# New\n")
        assert watching.stderr.readline() == "indexed 1 file\n"
        watching.send_signal(signal.SIGTERM)  # not SIGINT, which what runs in the background ignores


def test_a_merge_of_two_texts_says_how_it_ends_without_losing_an_outcome(repo: Path) -> None:
    saved = ok(repo, *DECISION)
    path = repo / saved["path"]
    before = path.read_text()
    last = before.splitlines()[-1]
    git(repo, "switch", "-q", "-c", "side")
    path.write_text(before.replace(last, "Reworded there."))
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "evicts too early")
    git(repo, "commit", "-q", "-a", "-m", "Reword there")
    git(repo, "switch", "-q", "main")
    path.write_text(before.replace(last, "Reworded here."))
    git(repo, "commit", "-q", "-a", "-m", "Reword here")
    git(repo, "merge", "-q", "side", ok=False)
    merged = path.read_text()
    assert "Reworded here.\n=======\nReworded there.\n" in merged
    told = cli(repo, "check").out
    assert "keep one side of the text, and every line under Outcomes" in told
    assert "one `outcome:`" not in told
    path.write_text(merged.replace("Reworded there.\n", "").replace("Reworded here.\n", ""))
    assert "keep the outcome" in cli(repo, "check").out
    path.write_text(before.replace(last, "<<<<<<< HEAD\nHere.\n=======\nThere.\n>>>>>>> side\n"))
    assert cli(repo, "check").out.rstrip().endswith("keep one side")


def test_a_merge_of_two_outcomes_says_how_it_ends(repo: Path) -> None:
    saved = ok(repo, *DECISION)
    git(repo, "switch", "-q", "-c", "side")
    ok(repo, "update", saved["id"], "--outcome", "failed", "--reason", "evicts too early")
    git(repo, "switch", "-q", "main")
    ok(repo, "update", saved["id"], "--outcome", "success", "--reason", "fast enough")
    git(repo, "merge", "-q", "side", ok=False)
    path = repo / saved["path"]
    assert "<<<<<<<" in path.read_text()
    how = "keep both lines under Outcomes and one `outcome:`"
    assert how in cli(repo, "check").out
    assert how in cli(repo, "update", saved["id"], "--outcome", "partial").err
    kept = [line for line in path.read_text().splitlines() if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    path.write_text("\n".join(kept) + "\n")
    assert "duplicate-key" in cli(repo, "check").out
    git(repo, "commit", "-q", "-a", "-m", "Merge side")
    ok(repo, "update", saved["id"], "--outcome", "partial", "--reason", "good for small keys")
    text = path.read_text()
    assert re.findall(r"^outcome: \w+$", text, re.MULTILINE) == ["outcome: partial"]
    assert all(reason in text for reason in ("evicts too early", "fast enough", "good for small keys"))
    assert cli(repo, "check").code == 0


def test_the_page_on_the_library_is_true(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(repo)
    told = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(told):
        for block in blocks:
            exec(block, names)
    assert "no record 'Use an LRU cash'; " in told.getvalue()
    for field in re.findall(
        r"`(\w+)`", "".join(row.split("|")[1] for row in page.splitlines() if row.startswith("| `"))
    ):
        assert hasattr(Hit, field), field


def test_a_topic_is_named_unless_the_heading_serves_as_one(repo: Path) -> None:
    ok(repo, "save", "decision", "--topic", "cache", "--decision", "Ann cache", "--reasoning", "r")
    write(repo / "memory/decisions/0012-use-redis.md", "# 12. Use Redis\n\nIt is enough.\n")
    told = cli(repo, "search").out
    assert "Ann cache  decision · cache\n" in told
    assert "12. Use Redis  decision\n" in told


def test_a_decision_is_not_saved_past_what_was_removed_from_the_work_tree_by_hand(repo: Path) -> None:
    first = ok(repo, *DECISION)
    shutil.rmtree(repo / "memory")
    newer = (*DECISION[:-4], "--decision", "Use SQLite", "--reasoning", "r")
    refused = cli(repo, *newer)
    assert refused.code == 7
    assert f"git -C {repo} restore memory" in refused.err
    git(repo, "restore", "memory")
    (repo / first["path"]).unlink()
    beside = ok(repo, *newer)
    assert beside["superseded"] == []
    gone = "1 record is gone from memory/decisions/caching, though not from HEAD, and so not replaced"
    assert beside["note"] == f"{gone}: git -C {repo} restore memory/decisions/caching"


def test_words_between_commas_are_several_on_every_way_in(repo: Path) -> None:
    with talking(repo) as client:
        note = client.call("save", title="n", text="x", tags="perf, infra", concepts="caching, limits,")["id"]
        listed = client.call("save", topic="t", decision="d", reasoning="r", tags=["one, whole", "two"])["id"]
        [kept] = client.call("get", id=listed)["results"]
        assert kept["tags"] == ["one, whole", "two"]
        for tag in ("perf", "infra", "nothing, infra", ["infra"]):
            assert [hit["id"] for hit in client.call("search", tag=tag)["results"]] == [note], tag
        [found] = client.call("get", id=note)["results"]
        assert (found["tags"], found["concepts"]) == (["perf", "infra"], ["caching", "limits"])
        client.call("update", id=note, tags="a,b")
        assert client.call("get", id=note)["results"][0]["tags"] == ["a", "b"]
    noted = ("save", "observation", "--title", "m", "--text", "y", "--tag", "c, d", "--tag", "e", "--concept", "f,g")
    [found] = ok(repo, "get", ok(repo, *noted)["id"])["results"]
    assert (found["tags"], found["concepts"]) == (["c", "d", "e"], ["f", "g"])
    assert ok(repo, "search", "--tag", "d,nothing")["count"] == 1
    ok(repo, "update", "m", "--tag", "h, i")
    assert ok(repo, "search", "--tag", "i")["count"] == 1
    ok(repo, "update", "m", "--tag", "")
    assert "tags" not in ok(repo, "get", "m")["results"][0]


def test_one_file_is_not_told_as_several(repo: Path) -> None:
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        write(repo / "memory/hand.md", "# By hand\n")
        assert native_calls.index(memory, {})["message"] == "index in step: 1 file changed"
        assert native_calls.index(memory, {})["message"] == "index in step: 0 files changed"


def test_a_purge_removes_no_folder_twice(repo: Path) -> None:
    saved = ok(repo, *DECISION)
    [step] = [one for one in ok(repo, "forget", saved["id"])["purge"] if one.startswith("rm -rf") and "recent" in one]
    folders = [Path(one) for one in shlex.split(step.removesuffix("&&"))[2:]]
    assert repo / ".git/filemem/index" in folders
    assert not [one for one in folders if set(one.parents) & set(folders)]
