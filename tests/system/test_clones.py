"""What a clone does not hold, and what a work tree holds beyond its commits: said, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.memory import Memory
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, talking

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "r", "--decision")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository whose first decision and hand-written note are older than its last two commits."""
    repo = make_repo(tmp_path / "origin")
    ok(repo, *DECISION, "Use Redis", "--agent", "trusted-bot")
    write(repo / "memory/decisions/hand.md", "# Written by hand\n\nWithout a date.\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "note", GIT_AUTHOR_NAME="Bob")
    write(repo / "code.py", "print('bye')\n")
    unrelated = "Unrelated\n\nCo-authored-by: Zed <zed@example.com>"
    git(repo, "commit", "-q", "-a", "-m", unrelated, GIT_AUTHOR_NAME="Mallory", GIT_AUTHOR_EMAIL="mallory@example.com")
    ok(repo, *DECISION, "Use an LRU cache")
    return repo


def clone(origin: Path, *options: str, name: str = "clone") -> Path:
    target = origin.parent / name
    git(origin.parent, "clone", "-q", *options, f"file://{origin}", str(target))
    git(target, "config", "user.name", "Ada")
    git(target, "config", "user.email", "ada@example.com")
    return target


def test_a_shallow_clone_names_nobody_for_what_came_before_it(origin: Path) -> None:
    shallow = clone(origin, "--depth", "2")
    told = ok(shallow, "history", "caching")
    old, new = told["chain"]
    assert (old["author"], old["agent"], old["commit"], old["co_authors"]) == ("", "", "", [])
    assert "history is shallow" in old["note"]
    assert (new["author"], new["note"]) == ("Ada", "")
    hits = {hit["title"]: hit for hit in ok(shallow, "search")["results"]}
    assert hits["Use Redis"]["by"] == {"shallow": True, "branch": "main"}
    assert "history is shallow" in hits["Use Redis"]["note"]
    assert hits["Use an LRU cache"]["by"]["author"] == "Ada"
    assert "created" not in hits["Written by hand"], "the date of an unrelated commit is none"
    for command in (
        ("history", "caching"),
        ("search", "redis"),
        ("get", old["id"]),
        ("get", "memory/decisions/hand.md"),
    ):
        out = cli(shallow, *command).out
        assert "history is shallow" in out
        assert "Mallory" not in out + cli(shallow, *command, "--json").out
        assert "trusted-bot" not in out or "agent: trusted-bot" in out, "what a file says of itself stands apart"
        assert "not committed" not in out


def test_a_commit_at_which_a_shallow_clone_ends_carries_no_decision(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "origin")
    saved = ok(repo, *DECISION, "Use Redis")
    write(repo / "code.py", "print('changed')\n")
    git(repo, "commit", "-q", "-a", "-m", "Change the code")
    git(repo, "revert", "--no-edit", "HEAD")
    shallow = clone(repo, "--depth", "2")
    assert "possibly" not in cli(shallow, "history", "caching").out
    assert "possibly" not in cli(shallow, "search").out + cli(shallow, "check").out
    later = ok(shallow, *DECISION, "Use an LRU cache")
    git(shallow, "commit", "-q", "--allow-empty", "-m", f"Go back\n\nThis reverts commit {later['commit']}.")
    chain = {step["id"]: step for step in ok(shallow, "history", "caching")["chain"]}
    assert not chain[saved["id"]].get("evidence")
    assert chain[later["id"]]["evidence"], "what came after the clone's beginning is told as everywhere"


def test_where_history_is_cut_dates_tell_what_replaced_what(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "origin")
    fruit = "---\nid: {}\ntype: decision\ntopic: fruit\ncreated: {}\n---\n# Eat {}\n"
    write(repo / "memory/decisions/a.md", fruit.format("d_1", "2024-01-01", "apples"))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Eat apples")
    git(repo, "checkout", "-q", "-b", "feat")
    write(repo / "memory/decisions/b.md", fruit.format("d_2", "2024-02-01", "pears"))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Eat pears")
    git(repo, "checkout", "-q", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Beside")
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge", "feat")
    shallow = clone(repo, "--depth", "2")
    for where in (repo, shallow):
        assert ok(where, "topics")["topics"][0]["heads"] == 1
        assert ok(where, "history", "fruit")["heads"] == ["d_2"]
        assert "fork" not in cli(where, "check").out
        assert ok(where, "diff", "HEAD~1..HEAD")["success"]
    saved = ok(shallow, "save", "decision", "--topic", "fruit", "--decision", "Eat figs", "--reasoning", "r")
    assert saved["superseded"] == ["d_2"]


def test_history_that_is_fetched_later_is_told(origin: Path) -> None:
    shallow = clone(origin, "--depth", "2")
    with Memory.open(shallow, serving=True) as server:
        server.refresh(full=True)
        assert {hit.title: hit.provenance.author for hit in server.search()}["Written by hand"] == ""
        git(shallow, "fetch", "-q", "--unshallow")
        told = {hit.title: hit.provenance.author for hit in server.search()}
        assert told["Written by hand"] == "Bob", "with the next answer, whether or not a watcher has looked"
    out = cli(shallow, "history", "caching").out + cli(shallow, "search").out
    assert "shallow" not in out
    assert "Bob" in out


def test_what_history_says_of_outcomes_and_landing_follows_what_is_fetched(tmp_path: Path) -> None:
    """What is remembered of a shallow history is not taken for what the whole one says: not after a rebuild either."""
    repo = make_repo(tmp_path / "origin")
    day = "1700000000 +0000"
    write(repo / "memory/decisions/redis.md", "# Use Redis\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Use Redis", GIT_AUTHOR_DATE=day, GIT_COMMITTER_DATE=day)
    git(
        repo, "commit", "-q", "--allow-empty", "-m", f"Go back\n\nThis reverts commit {git(repo, 'rev-parse', 'HEAD')}."
    )
    git(repo, "commit", "-q", "--allow-empty", "-m", "Later")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Last")
    shallow = clone(repo, "--depth", "2")
    git(shallow, "checkout", "-q", "-b", "beside")
    whole = clone(repo, name="whole")
    git(whole, "checkout", "-q", "-b", "beside")

    def told(where: Path) -> tuple[object, ...]:
        (hit,) = ok(where, "search")["results"]
        (then,) = ok(where, "search", "--at", "HEAD")["results"]
        return hit.get("evidence"), hit["by"].get("landed"), hit["by"].get("at"), then.get("evidence"), then["by"]

    assert told(shallow) != told(whole)
    with Memory.open(shallow, serving=True) as server:
        server.refresh(full=True)
        assert server.search().hits[0].provenance.author == ""
        before = server.search().hits[0]
        git(shallow, "fetch", "-q", "--unshallow")
        server.refresh()
        after = server.search().hits[0]
        assert (before.evidence, bool(after.evidence)) == ((), True)
    assert told(shallow) == told(whole)
    assert ok(shallow, "index", "--rebuild")["success"]
    assert told(shallow) == told(whole)


def test_a_commit_at_which_a_shallow_clone_ends_made_no_file(origin: Path) -> None:
    write(origin / "late.py", "print('late')\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "Come late")
    shallow = clone(origin, "--depth", "2")
    for place in ("code.py", "code.py:1"):
        told = ok(shallow, "why", place)
        assert "history is shallow: what made this before is not known here" in told["note"]
        assert "came with" not in cli(shallow, "why", place).out
    assert not ok(shallow, "why", "late.py").get("note")


def test_whose_an_id_is_that_was_copied_before_a_shallow_clone_begins_is_not_known(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "origin")
    text = "---\nid: d_2\ntype: decision\ntopic: fruit\n---\n# Eat {}\n"
    for name, fruit in (("m", "pears"), ("a", "plums")):
        write(repo / f"memory/decisions/{name}.md", text.format(fruit))
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", f"Eat {fruit}")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Later")
    told = "claims the id d_2 too"
    for command in (("get", "d_2"), ("search",), ("check",), ("history", "fruit")):
        assert told not in cli(repo, *command).out
    assert ok(repo, "get", "d_2")["results"][0]["title"] == "Eat pears"
    shallow = clone(repo, "--depth", "1")
    for command, rows in ((("get", "d_2"), 1), (("search",), 2), (("check",), 1), (("history", "fruit"), 2)):
        out = cli(shallow, *command).out
        assert out.count(told) == rows
        assert out.count("which file had it first is not known here") == rows
    doubtful = (
        ["update", "d_2", "--outcome", "failed"],
        [*DECISION, "Eat figs", "--supersedes", "d_2"],
        ["forget", "d_2"],
    )
    for words in doubtful:
        done = cli(shallow, *words)
        assert (done.code, told in done.err, "git fetch --unshallow" in done.err) == (5, True, True), words
    assert git(shallow, "status", "--porcelain") == ""
    git(shallow, "fetch", "-q", "--unshallow")
    assert ok(shallow, "get", "d_2")["results"][0]["title"] == "Eat pears"
    assert told not in cli(shallow, "get", "d_2").out + cli(shallow, "check").out


@pytest.fixture
def treeless(origin: Path) -> Path:
    """A clone that holds every commit, and the files of the last one alone."""
    git(origin, "config", "uploadpack.allowFilter", "true")
    return clone(origin, "--filter=tree:0")


def test_a_clone_without_older_trees_tells_what_is_here(treeless: Path) -> None:
    lacks = "this partial clone lacks older versions"
    assert ok(treeless, "topics")["topics"][0]["decisions"] == 2
    hits = {hit["title"]: hit for hit in ok(treeless, "search")["results"]}
    assert hits.keys() == {"Use Redis", "Use an LRU cache", "Written by hand"}
    assert all(lacks in hit["note"] for hit in hits.values())
    assert not any("author" in hit["by"] for hit in hits.values()), "the last commit brought one of them at most"
    assert not ok(treeless, "status")["degraded"]
    chain = ok(treeless, "history", "caching")["chain"]
    assert [(step["title"], step["author"], lacks in step["note"]) for step in chain] == [
        ("Use Redis", "", True),
        ("Use an LRU cache", "", True),
    ]
    assert cli(treeless, "check").code == 0
    assert lacks in ok(treeless, "why", "code.py")["note"]
    assert ok(treeless, "search", "--path", "code.py")["success"]
    saved = ok(treeless, *DECISION, "Use memcached")
    assert [chain[1]["id"]] == saved["superseded"]
    for _ in range(2):
        assert {hit["by"].get("author") for hit in ok(treeless, "search")["results"]} == {None, "Ada"}
        assert ok(treeless, "index", "--rebuild")["success"]
    git(treeless, "fetch", "-q", "--refetch", "--no-filter")
    assert ok(treeless, "history", "caching")["chain"][0]["agent"] == "trusted-bot"
    assert {hit["by"]["author"] for hit in ok(treeless, "search")["results"]} == {"Ada", "Bob"}


def test_the_past_that_a_clone_lacks_the_trees_of_is_no_empty_memory(treeless: Path) -> None:
    for command in ("search", "topics", "status"):
        refused = cli(treeless, command, "--at", "HEAD~1")
        assert (refused.code, "this is a partial clone" in refused.err) == (7, True) or command == "status"
    assert ok(treeless, "search", "--at", "HEAD")["count"] == 3
    git(treeless, "fetch", "-q", "--refetch", "--no-filter")
    assert ok(treeless, "search", "--at", "HEAD~1")["count"] == 2
    assert ok(treeless, "search", "--at", "HEAD~3")["count"] == 1


def test_records_outside_a_sparse_checkout_are_missed_aloud(origin: Path) -> None:
    sparse = clone(origin, "--sparse")
    why = f"3 records are in HEAD but outside the sparse checkout: git -C {sparse} sparse-checkout add memory"
    assert ok(sparse, "search", "redis") == {"success": True, "count": 0, "results": [], "degraded": why}
    assert ok(sparse, "search") == {"success": True, "count": 0, "results": [], "degraded": why}
    assert ok(sparse, "status")["degraded"] == why
    assert ok(sparse, "topics")["degraded"] == why
    assert f"sparse-checkout {why}" in cli(sparse, "check").out
    assert cli(sparse, "check").code == 1, "nothing was checked"
    record = git(sparse, "ls-tree", "-r", "--name-only", "HEAD", "memory").splitlines()[-1]
    missed = cli(sparse, "get", record).err
    assert "outside the sparse checkout" in missed
    assert f"git -C {sparse} sparse-checkout add memory" in missed
    assert "no commit says so" not in missed
    lost = cli(sparse, "history", "caching")
    assert (lost.code, why in lost.err) == (4, True)
    before = git(sparse, "rev-parse", "HEAD")
    refused = cli(sparse, *DECISION, "Fork it unseen")
    assert (refused.code, f"git -C {sparse} sparse-checkout add memory" in refused.err) == (7, True)
    with talking(sparse) as client:
        assert "sparse checkout" in client.call("search", query="redis")["degraded"]
        error = client.refused("save", topic="caching", decision="Fork it unseen", reasoning="r")
        assert "what this decision replaces cannot be told" in error["message"]
        assert client.call("save", summary="Where the work stands")["commit"], "this depends on no other record"
    assert git(sparse, "rev-parse", "HEAD~1") == before
    git(sparse, "sparse-checkout", "add", "memory")
    saved = ok(sparse, *DECISION, "Use memcached")
    assert len(saved["superseded"]) == 1
    assert "degraded" not in ok(sparse, "search", "redis")
    assert ok(sparse, "topics")["topics"][0]["heads"] == 1


def test_uncommitted_edits_are_told(repo: Path) -> None:
    saved = ok(repo, *DECISION, "Use Redis")
    file = repo / saved["path"]
    assert "note" not in ok(repo, "get", saved["id"])["results"][0]
    original = file.read_bytes()
    file.write_bytes(original.replace(b"r\n", b"rewritten\n", 1))
    assert ok(repo, "get", saved["id"])["results"][0]["note"] == "has uncommitted changes"
    assert ok(repo, "history", "caching")["chain"][0]["note"] == "has uncommitted changes"
    assert "has uncommitted changes" in cli(repo, "get", saved["id"]).out
    assert "has uncommitted changes" in cli(repo, "history", "caching").out
    with talking(repo) as client:
        assert client.call("get", id=saved["id"])["results"][0]["note"] == "has uncommitted changes"
        assert client.call("timeline", topic="caching")["chain"][0]["note"] == "has uncommitted changes"
    file.write_bytes(original)
    assert ok(repo, "history", "caching")["chain"][0]["note"] == ""
    write(repo / ".gitattributes", "*.md text eol=crlf\n")
    file.write_bytes(original.replace(b"\n", b"\r\n"))
    assert ok(repo, "history", "caching")["chain"][0]["note"] == "", "line ends that Git would convert are no edit"


def test_a_clone_of_one_branch_says_how_to_fetch_another(origin: Path) -> None:
    git(origin, "switch", "-q", "-c", "mine")
    single = clone(origin, "--single-branch", "--branch", "mine")
    done = cli(single, "diff", "origin/main...HEAD")
    command = f"git -C {single} fetch origin main:refs/remotes/origin/main"
    assert (done.code, done.err.rstrip().endswith(f"follows other branches alone: {command}")) == (4, True), done
    git(single, *command.split()[1:])
    assert ok(single, "diff", "origin/main...HEAD")["effects"] == []
    assert "git fetch" not in cli(single, "diff", "main").err


def test_what_states_no_id_is_forgotten_and_replaced_only_where_its_past_is_known(origin: Path) -> None:
    write(origin / "memory/decisions/drinks.md", "---\ntopic: drinks\n---\n# Drink tea\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "Drink tea")
    git(origin, "mv", "memory/decisions/hand.md", "memory/decisions/moved.md")
    git(origin, "mv", "memory/decisions/drinks.md", "memory/decisions/tea.md")
    git(origin, "commit", "-q", "-m", "Move")
    shallow = clone(origin, "--depth", "1")
    done = cli(shallow, "forget", "memory/decisions/moved.md")
    assert (done.code, "under which name it came first is not known here" in done.err) == (5, True), done
    done = cli(shallow, *DECISION, "By another name", "--supersedes", "memory/decisions/moved.md")
    assert (done.code, "under which name it came first is not known here" in done.err) == (5, True), done
    done = cli(shallow, "save", "decision", "--topic", "drinks", "--decision", "Drink water", "--reasoning", "r")
    assert (done.code, "memory/decisions/tea.md states no id" in done.err) == (5, True), "nor by the topic alone"
    assert git(shallow, "status", "--porcelain") == ""
    git(shallow, "fetch", "-q", "--unshallow")
    ok(shallow, "forget", "memory/decisions/moved.md")
