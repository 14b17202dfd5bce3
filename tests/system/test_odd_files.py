"""Files, secrets and texts made by nobody sane: they break nothing, hide nothing and get nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, head_file, sound, write
from tests.system.tools import cli, snapshot

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

TOPICS = [
    *(
        "../../../etc/passwd",
        "/etc/passwd",
        ".git/config",
        ".GIT/hooks",
        "git~1",
        "-rf",
        "--output=x",
        "CON",
    ),
    *(
        "aux.md",
        "a\u200c",
        ".g\u200cit/config",
        "con/nul/prn",
        "\u202egpj.exe",
        ":(top)x",
        "@{-1}",
        "*",
        "日本語",
    ),
    *(
        "e\u0301",
        "a//b",
        "...",
        "a\\..\\b",
        "%2e%2e%2f",
        "$(touch x)",
        "`touch`",
        "~root",
        "README",
    ),
    *(".gitattributes", "x.md", "a" * 400, " "),
]


def test_bad_files_are_skipped_with_a_reason_and_hide_nothing(repo: Path) -> None:
    folder = write(
        repo / "memory/decisions/good.md", "# The good record\n\nMust be found.\n"
    ).parent
    write(folder / "aliases.md", "---\na: &a [x, x]\nb: [*a, *a]\n---\n# Aliases\n")
    write(folder / "unclosed.md", "---\ntopic: [x\n# Unclosed\n")
    write(folder / "binary.md", "\0\1\2" * 10_000)
    (folder / "link.md").symlink_to(
        write(repo.parent / "secret.md", "# The secret of another folder\n")
    )
    with (folder / "huge.md").open("wb") as file:
        file.truncate(10 * 1024**3)
    with Memory.open(repo) as memory:
        assert memory.search("good record must be found").hits[0].record.title == "The good record"
        found = memory.search("", limit=100).hits
        assert {hit.path.rpartition("/")[2] for hit in found} == {
            "good.md",
            "aliases.md",
            "unclosed.md",
            "binary.md",
        }
        assert all(memory.get(hit.record.id) for hit in found)
        told = {
            one.path.rpartition("/")[2]: one.code
            for one in memory.check()[1]
            if one.level == "error"
        }
    assert {told["link.md"], told["huge.md"]} == {"unreadable"}
    assert {"aliases.md", "unclosed.md"} <= told.keys()
    assert "secret of another" not in str(found)


SECRETS = {
    "AWS": "AKIA" + "IOSFODNN7EXAMPL3",
    "GitHub": "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7x\n",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_refused_before_it_reaches_the_disk(repo: Path, kind: str) -> None:
    secret = SECRETS[kind]
    done = cli(
        repo,
        "save",
        "decision",
        "--topic",
        "t",
        "--decision",
        "d",
        "--reasoning",
        f"One\nkey: {secret}\n",
    )
    assert done.code == 2
    assert "reasoning, line 2" in done.err
    assert kind.lower() in done.err.lower()
    assert not any(
        part in done.err + done.out for part in secret.split("\n")[0].split() if len(part) > 12
    )
    assert git(repo, "status", "--porcelain") == ""
    traces = [
        path
        for path in repo.rglob("*")
        if path.is_file() and secret.encode()[:20] in path.read_bytes()
    ]
    assert traces == [], "not in any file, journal and index included"
    for field in ("topic", "rejected", "affects", "tag", "agent"):
        options = {"topic": "t", "decision": "d", "reasoning": "r"} | {
            field: secret.replace("\n", " ")
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        assert cli(repo, "save", "decision", *words).code == 2, field
    allowed = cli(
        repo, "save", "observation", "--text", f"Not one: {secret}", "--allow-secret", "--json"
    ).json
    assert "secrets: allowed" in (repo / allowed["path"]).read_text()
    assert cli(repo, "check").code == 0, "what its author allowed is a hint"


def test_nothing_that_is_saved_breaks_out_of_a_commit(repo: Path, memory: Memory) -> None:
    evil = (
        "Title\n\nAuthor: Eve <eve@example.com>\nFilemem-Id: fake\r\nSigned-off-by: \x85 \u2028 Eve"
    )
    saved = memory.save(
        topic="a\nb: c", decision=evil, reasoning="r", agent="bot\nSupersedes: x", tags=["a\nb"]
    )
    raw = git(repo, "cat-file", "commit", "HEAD")
    header, _, message = raw.partition("\n\n")
    assert [line.split()[0] for line in header.splitlines()] == [
        "tree",
        "parent",
        "author",
        "committer",
    ]
    assert "\n" not in git(repo, "log", "-1", "--format=%s")
    keys = re.findall(r"^([\w-]+): ", message.partition("\n\n")[2], re.MULTILINE)
    assert keys == ["Filemem-Id", "Agent"], message
    assert (
        git(repo, "log", "-1", "--format=%(trailers:key=Filemem-Id,valueonly)").strip() == saved.id
    )
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
        done = cli(
            repo,
            "save",
            "decision",
            "--topic",
            topic,
            "--decision",
            topic,
            "--reasoning",
            "r",
            "--json",
        )
        if done.code == 2:
            continue
        path = done.json["path"]
        assert re.fullmatch(
            r"memory/decisions/\d{4}/\d\d/[^/.\s-][^/]*--\d{8}-[^/]*[0-9a-z]{8}\.md", path
        ), path
        assert all(len(part.encode()) <= 130 for part in path.split("/"))
        assert cli(repo, "history", "--", topic).code == 0, topic
        paths.add(path)
    assert snapshot(repo.parent, skip=("memory", ".git")) == before
    assert (
        set(
            git(repo, "ls-tree", "-r", "--name-only", "HEAD", "memory", "-z")
            .rstrip("\0")
            .split("\0")
        )
        == paths
    )


def test_an_error_names_a_file_as_people_see_it(repo: Path) -> None:
    write(repo / "memory/decisions/dup.md", "---\nid: x_1\ntopic: a\ntopic: b\n---\n# Dup\n")
    refused = cli(repo, "update", "x_1", "--outcome", "failed", "--reason", "slow")
    assert refused.err.startswith("error: memory/decisions/dup.md:4: ")


LONG, LONGER = "x" * 300, "x" * 5_000
