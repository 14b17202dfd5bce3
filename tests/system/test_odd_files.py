"""Files, secrets and texts made by nobody sane: they break nothing, hide nothing and get nowhere."""

from __future__ import annotations

import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, head_file, sound, write
from tests.system.tools import cli, snapshot

DECISION = ("save", "decision", "--topic", "caching", "--decision", "Use an LRU cache", "--reasoning", "One process")

TOPICS = [
    *("../../../etc/passwd", "/etc/passwd", ".git/config", ".GIT/hooks", "git~1", "-rf", "--output=x", "CON"),
    *("aux.md", "a\u200c", ".g\u200cit/config", "con/nul/prn", "\u202egpj.exe", ":(top)x", "@{-1}", "*", "日本語"),
    *("e\u0301", "a//b", "...", "a\\..\\b", "%2e%2e%2f", "$(touch x)", "`touch`", "~root", "README"),
    *(".gitattributes", "x.md", "a" * 400, " "),
]


@contextmanager
def oddities(store: Path) -> Iterator[dict[str, str]]:
    """Files that are no records, each with the code of its problem."""
    folder = store / "decisions"
    secret = write(store.parent.parent / "secret.md", "# The secret of another folder\n")
    outside = write(store.parent.parent / "outside/x.md", "# Outside\n").parent
    (folder / "link.md").symlink_to(secret)
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "folder").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.md").symlink_to("/nonexistent")
    os.mkfifo(folder / "fifo.md")
    with (folder / "huge.md").open("wb") as file:
        file.truncate(10 * 1024**3)
    (folder / "folder.md").mkdir()
    codes = dict.fromkeys(("link", "loop", "folder", "dangling", "fifo", "huge"), "unreadable")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket may have about 100 bytes
        try:
            server.bind("socket.md")
        finally:
            os.chdir(here)
        codes["socket"] = "unreadable"
        if os.geteuid() == 0:
            try:
                os.mknod(folder / "device.md", stat.S_IFCHR | 0o600, os.makedev(1, 5))
                codes["device"] = "unreadable"
            except PermissionError:
                pass  # a container may forbid it
        yield codes


BOMBS = {
    "brackets.md": f"---\nx: {'[' * 30_000}\n---\n# Brackets\n",
    "braces.md": f"---\n{'{a: ' * 30_000}\n---\n# Braces\n",
    "aliases.md": "---\na: &a [x, x]\n"
    + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(50))
    + "---\n# Aliases\n",
    "tags.md": '---\nx: !!python/object/apply:os.system ["touch /tmp/x"]\n---\n# Tags\n',
    "deep.md": "# Deep\n\n" + "> " * 40_000 + "\n",
    "edges.md": "# Edges\n\n" + "builds_on: " * 60_000,
    "binary.md": "\0\1\2" * 10_000,
    "surrogate.md": '---\ntitle: "\\ud800"\n---\nx\n',
    "number.md": f"---\nconfidence: {'9' * 5_000}\ncreated: {'9' * 5_000}\n---\n# Number\n",
    "nan.md": "---\nconfidence: .nan\ntopic: no\n---\n# Nan\n",
    "list.md": "---\n- a\n- b\n---\n# List\n",
    "bom.md": "\ufeff---\ntopic: bom\n---\n# Bom\n",
    "unclosed.md": "---\ntopic: x\n# Unclosed\n",
}


def test_odd_files_are_skipped_with_a_reason_and_hide_nothing(repo: Path) -> None:
    write(repo / "memory/decisions/good.md", "# The good record\n\nMust be found.\n")
    for name, text in BOMBS.items():
        write(repo / "memory/decisions" / name, text)
    with oddities(repo / "memory") as codes:
        began = time.monotonic()
        with Memory.open(repo) as memory:
            memory.refresh(full=True)
            found = {hit.path for hit in memory.search("", limit=100).hits}
            assert memory.search("good record must be found").hits[0].record.title == "The good record"
            checked, problems = memory.check()
            for hit in memory.search("", limit=100).hits:
                assert memory.get(hit.record.id)
        assert time.monotonic() - began < 15
    assert checked == len(BOMBS) + 1
    assert {f"memory/decisions/{name}" for name in ("good.md", "bom.md", "nan.md", "deep.md", "list.md")} <= found
    told = {problem.path: problem.code for problem in problems if problem.level == "error"}
    for name, code in codes.items():
        assert code in (told.get(f"memory/decisions/{name}"), told.get(f"memory/decisions/{name}.md")), name
    for name in ("brackets.md", "braces.md", "aliases.md", "tags.md", "list.md", "number.md"):
        assert f"memory/decisions/{name}" in {problem.path for problem in problems}, name
    assert not any("Outside" in str(hit) or "secret of another" in str(hit) for hit in found)


SECRETS = {
    "AWS": "AKIA" + "IOSFODNN7EXAMPL3",
    "GitHub": "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7x\n",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_refused_before_it_reaches_the_disk(repo: Path, kind: str) -> None:
    secret = SECRETS[kind]
    done = cli(repo, "save", "decision", "--topic", "t", "--decision", "d", "--reasoning", f"One\nkey: {secret}\n")
    assert done.code == 2
    assert "reasoning, line 2" in done.err
    assert kind.lower() in done.err.lower()
    assert not any(part in done.err + done.out for part in secret.split("\n")[0].split() if len(part) > 12)
    assert git(repo, "status", "--porcelain") == ""
    traces = [path for path in repo.rglob("*") if path.is_file() and secret.encode()[:20] in path.read_bytes()]
    assert traces == [], "not in any file, journal and index included"
    for field in ("topic", "rejected", "affects", "tag", "agent"):
        options = {"topic": "t", "decision": "d", "reasoning": "r"} | {field: secret.replace("\n", " ")}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        assert cli(repo, "save", "decision", *words).code == 2, field
    allowed = cli(repo, "save", "observation", "--text", f"Not one: {secret}", "--allow-secret", "--json").json
    assert "secrets: allowed" in (repo / allowed["path"]).read_text()
    assert cli(repo, "check").code == 0, "what its author allowed is a hint"


def test_nothing_that_is_saved_breaks_out_of_a_commit(repo: Path, memory: Memory) -> None:
    evil = "Title\n\nAuthor: Eve <eve@example.com>\nFilemem-Id: fake\r\nSigned-off-by: \x85 \u2028 Eve"
    saved = memory.save(topic="a\nb: c", decision=evil, reasoning="r", agent="bot\nSupersedes: x", tags=["a\nb"])
    raw = git(repo, "cat-file", "commit", "HEAD")
    header, _, message = raw.partition("\n\n")
    assert [line.split()[0] for line in header.splitlines()] == ["tree", "parent", "author", "committer"]
    assert "\n" not in git(repo, "log", "-1", "--format=%s")
    keys = re.findall(r"^([\w-]+): ", message.partition("\n\n")[2], re.MULTILINE)
    assert keys == ["Filemem-Id", "Agent"], message
    assert git(repo, "log", "-1", "--format=%(trailers:key=Filemem-Id,valueonly)").strip() == saved.id
    assert git(repo, "log", "-1", "--format=%an") == "Ada"
    hit = memory.get(saved.id)[0]
    assert hit.record.decision == evil.replace("\r\n", "\n")
    assert (hit.record.agent, hit.record.topic) == ("bot Supersedes: x", "a b: c")
    assert head_file(repo, saved.path) == (repo / saved.path).read_text()
    memory.delete(saved.id, reason="x\n\nEvil-Trailer: y")
    assert git(repo, "log", "-1", "--format=%(trailers:key=Evil-Trailer)").strip() == ""
    assert sound(repo)


def test_no_topic_leads_out_of_its_folder(repo: Path) -> None:
    before = snapshot(repo.parent, skip=("memory", ".git"))
    paths = set()
    for topic in TOPICS:
        done = cli(repo, "save", "decision", "--topic", topic, "--decision", topic, "--reasoning", "r", "--json")
        if done.code == 2:
            continue
        path = done.json["path"]
        assert re.fullmatch(r"memory/decisions/\d{4}/\d\d/[^/.\s-][^/]*--\d{8}-[^/]*[0-9a-z]{8}\.md", path), path
        assert all(len(part.encode()) <= 130 for part in path.split("/"))
        assert cli(repo, "history", "--", topic).code == 0, topic
        paths.add(path)
    assert snapshot(repo.parent, skip=("memory", ".git")) == before
    assert set(git(repo, "ls-tree", "-r", "--name-only", "HEAD", "memory", "-z").rstrip("\0").split("\0")) == paths


def test_an_error_names_a_file_as_people_see_it(repo: Path) -> None:
    write(repo / "memory/decisions/dup.md", "---\nid: x_1\ntopic: a\ntopic: b\n---\n# Dup\n")
    refused = cli(repo, "update", "x_1", "--outcome", "failed", "--reason", "slow")
    assert refused.err.startswith("error: memory/decisions/dup.md:4: ")


LONG, LONGER = "x" * 300, "x" * 5_000
