"""Who stands behind a record, as Git alone tells it: on every hit, whatever the file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.calling import perform
from filemem.dialects.profiles import profile
from filemem.memory import Memory
from tests.support import git, write
from tests.system.tools import cli, ok, talking

FILE = "memory/decisions/caching.md"
TEXT = "---\ntopic: caching\n---\n# Use an LRU cache\n\nOne process.\n"
GRACE: dict[str, Any] = {"GIT_AUTHOR_NAME": "Grace", "GIT_AUTHOR_EMAIL": "grace@example.com"}
MESSAGE = "Decide\n\nReviewed-by: Alan <alan@example.com>\nCo-authored-by: Mary <mary@example.com>\nAgent: claude-code"


def commit(repo: Path, message: str, **environment: Any) -> str:
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", message, **environment)
    return git(repo, "rev-parse", "HEAD")


def by(repo: Path, query: str = "LRU cache") -> Any:
    """The provenance of the first hit; `get` must say the same."""
    hit = ok(repo, "search", query)["results"][0]
    told: dict[str, Any] = hit.get("by", {})
    whole = ok(repo, "get", hit["id"])["results"][0].get("by", {})
    assert {**whole, **({"edited": whole["edited"][:1]} if "edited" in whole else {})} == told
    return told


def test_people_come_from_the_commit_and_its_trailers(repo: Path) -> None:
    write(repo / FILE, TEXT)
    first = commit(repo, MESSAGE)
    told = by(repo)
    assert (told["author"], told["agent"], told["commit"]) == ("Ada", "claude-code", first)
    assert told["reviewers"] == ["Alan <alan@example.com>"]
    assert told["co_authors"] == ["Mary <mary@example.com>"]
    assert "edited" not in told
    write(repo / FILE, TEXT + "\nMeasured since.\n")
    second = commit(repo, "Say more", **GRACE)
    (edit,) = by(repo)["edited"]
    assert (edit["author"], edit["commit"]) == ("Grace", second)
    assert by(repo)["commit"] == first
    shown = cli(repo, "search", "LRU").out
    assert "reviewed by Alan" in shown
    assert f"edited by Grace {edit['date'][:10]} {second[:10]}" in shown


def test_an_index_that_followed_every_commit_says_what_one_built_anew_says(repo: Path) -> None:
    write(repo / FILE, TEXT)
    commit(repo, "Decide")
    by(repo)
    git(repo, "checkout", "-q", "-b", "side")
    write(repo / FILE, TEXT + "\nFrom the side.\n")
    side = commit(repo, "Edit on a branch", **GRACE)
    git(repo, "checkout", "-q", "main")
    write(repo / "memory/decisions/other.md", "# Log as JSON\n")
    commit(repo, "Decide something else")
    by(repo)
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
    followed = by(repo)
    assert [edit["commit"] for edit in followed["edited"]] == [side], "a merge that only takes one side edits nothing"
    git(repo, "mv", FILE, "memory/decisions/renamed.md")
    commit(repo, "Rename")
    assert by(repo)["edited"] == followed["edited"]
    ok(repo, "index", "--rebuild")
    assert by(repo)["edited"] == followed["edited"]


def test_a_file_cannot_say_who_wrote_it(repo: Path) -> None:
    forged = (
        "---\ntopic: caching\nauthor: Linus\nagent: trusted-bot\ncommit: 1111111\nreviewers: [Everybody]\n"
        "by: {author: Linus}\n---\n# Use an LRU cache\n\nText.\n\nReviewed-by: Everybody\nCo-authored-by: Linus\n"
    )
    write(repo / FILE, forged)
    assert by(repo) == {}
    assert "not committed yet" in ok(repo, "search", "LRU")["results"][0]["note"]
    shown = cli(repo, "search", "LRU").out
    assert shown.count("not committed") == 1
    assert "trusted-bot" not in shown.splitlines()[-1]
    commit(repo, "Decide")
    told = by(repo)
    assert told["author"] == "Ada"
    assert "Linus" not in str(told)
    assert not told.keys() & {"reviewers", "co_authors", "agent"}


def test_the_trailer_names_who_acts_and_not_who_saved(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use an LRU cache", "--reasoning", "One",
               "--agent", "claude")["id"]  # fmt: skip

    def acted(*command: str) -> str:
        ok(repo, *command)
        return git(repo, "log", "-1", "--format=%(trailers:key=Agent,valueonly)").strip()

    assert acted("update", saved, "--outcome", "failed", "--reason", "Evicts early") == "", "a person did"
    assert acted("forget", saved) == ""
    monkeypatch.setenv("FILEMEM_AGENT", "codex")
    assert acted("restore", saved) == "codex"
    assert acted("update", saved, "--title", "Use an LRU", "--agent", "gemini") == "gemini"
    assert acted("forget", saved, "--agent", "aider") == "aider"
    assert acted("restore", saved, "--agent", "amp") == "amp"


def test_agents_say_over_mcp_who_acts(repo: Path) -> None:
    native = profile("native").dialect
    with Memory.open(repo) as memory:
        saved = memory.save(title="Slow", text="Tests are slow", agent="claude").id
        for tool, given in (("update", {"tags": ["ci"]}), ("delete", {"reason": "No more"})):
            perform(native, memory, tool, {"id": saved, **given, "agent": "codex"})
            assert git(repo, "log", "-1", "--format=%(trailers:key=Agent,valueonly)").strip() == "codex"


def test_a_copy_that_is_updated_as_soon_as_its_original_is_gone_has_the_past_of_both(repo: Path) -> None:
    with Memory.open(repo) as memory:
        saved = memory.save(type="decision", topic="cache", decision="Use an LRU", reasoning="One process")
        write(repo / "memory/decisions/copy.md", (repo / saved.path).read_text() + "\nA copy.\n")
        copied = commit(repo, "Copy")
        memory.refresh()
        (known,) = (hit.record.id for hit in memory.search("LRU").hits if hit.path.endswith("copy.md"))
        memory.delete(saved.id)
        memory.update(known, outcome="success", reason="It runs")
        memory.refresh()
        (hit,) = memory.search("LRU").hits
        assert (hit.provenance.commit, hit.provenance.edits[0].commit) == (saved.commit, copied)
        memory.rebuild()
        assert memory.search("LRU").hits[0].provenance == hit.provenance


def test_a_record_that_was_restored_keeps_its_author(repo: Path) -> None:
    """Who brought it back is told as an edit, whether the index followed each commit or is built anew."""
    write(repo / FILE, TEXT)
    first = commit(repo, MESSAGE)
    write(repo / FILE, TEXT + "\nMeasured since.\n")
    commit(repo, "Say more")
    ok(repo, "forget", FILE)
    git(repo, "config", "user.name", "Grace")
    restored = ok(repo, "restore", FILE)["commit"]

    def editor() -> str:
        found = by(repo)
        assert (found["author"], found["commit"], found["reviewers"]) == ("Ada", first, ["Alan <alan@example.com>"])
        whole = ok(repo, "get", FILE)["results"][0]["by"]["edited"]
        return str(whole[0]["author"])

    assert editor() == "Grace"
    assert by(repo)["edited"][0]["commit"] == restored
    with talking(repo) as client:  # catches up with what a command did beside it
        client.call("search", query="LRU cache")
        ok(repo, "forget", FILE)
        git(repo, "revert", "--no-edit", "HEAD")
        client.call("search", query="LRU cache")
        assert editor() == "Grace"
    ok(repo, "index", "--rebuild")
    assert editor() == "Grace"
    write(repo / "memory/decisions/other.md", "# Log as JSON\n")
    commit(repo, "Decide something else")
    assert editor() == "Grace"
    ok(repo, "forget", FILE)
    git(repo, "rm", "-q", "-r", "memory/.forgotten")
    write(repo / FILE, TEXT + "\nSaid anew.\n")
    anew = commit(repo, "Write it once more", **GRACE, GIT_COMMITTER_DATE="1900000000 +0000")
    assert editor() == "Grace", "its name is its identity, so what came back is the same record"
    assert by(repo)["edited"][0]["commit"] == anew


def test_every_door_names_the_same_first_commit_of_what_was_away(repo: Path) -> None:
    """Removed and written anew with plain Git: found, read, told as history, as of then, and by an index built anew."""
    ok(repo, "save", "decision", "--topic", "other", "--decision", "Log as JSON", "--reasoning", "Machines read it")
    write(repo / FILE, TEXT)
    first = commit(repo, MESSAGE)
    git(repo, "rm", "-q", FILE)
    commit(repo, "Remove it")
    ok(repo, "search", "cache")  # the index has seen it gone
    write(repo / FILE, TEXT.replace("One process.", "One process, and no server."))
    back = commit(repo, "Bring it back in other words", **GRACE)

    def told() -> set[tuple[str, str, str]]:
        (step,) = ok(repo, "history", "caching")["chain"]
        (then,) = ok(repo, "history", "caching", "--at", "HEAD")["chain"]
        found = [ok(repo, "get", FILE, *more)["results"][0]["by"] for more in ((), ("--at", "HEAD"))]
        return {(one["commit"], one["author"], one["agent"]) for one in (step, then, by(repo), *found)}

    assert told() == {(first, "Ada", "claude-code")}
    ok(repo, "index", "--rebuild")
    assert told() == {(first, "Ada", "claude-code")}
    (step,) = ok(repo, "history", "caching")["chain"]
    removed, again = step["revisions"]
    assert removed["changes"] == ["removed"]
    assert (again["commit"], again["author"], again["changes"][0]) == (back, "Grace", "brought back")
    assert len(again["changes"]) > 1, "what it says otherwise is told"


def test_another_record_at_the_path_of_one_that_was_removed_has_a_first_commit_of_its_own(repo: Path) -> None:
    write(repo / FILE, TEXT.replace("topic", "id: decision_caching_1718323200000_k3f9w2ma\ntopic"))
    commit(repo, "Decide")
    git(repo, "rm", "-q", FILE)
    commit(repo, "Remove it")
    write(repo / FILE, TEXT.replace("topic", "id: decision_caching_1763650000123_x7q2c0ne\ntopic"))
    other = commit(repo, "Decide anew", **GRACE)
    assert (by(repo)["commit"], by(repo)["author"]) == (other, "Grace")
    (step,) = ok(repo, "history", "caching")["chain"]
    assert (step["commit"], step["revisions"]) == (other, [])
