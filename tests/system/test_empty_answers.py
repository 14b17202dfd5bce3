"""An empty answer says why it is empty."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects import native_calls
from filemem.errors import NotFound
from filemem.memory import Memory
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, talking

DECISION = ("save", "decision", "--reasoning", "r", "--topic")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory of two decisions, one superseded, and an observation."""
    with Memory.open(make_repo(tmp_path_factory.mktemp("empty") / "repo")) as memory:
        for decision in ("Use Redis for the cache", "Use an LRU cache"):
            memory.save(topic="caching", decision=decision, reasoning="Speed", affects=["src/cache.py"])
        memory.save(title="Tests are slow", text="On two cores", tags=["performance"], agent="claude")
        memory.refresh(full=True)
        yield memory


@pytest.mark.parametrize("query", ["topic:", "is:", "tag:", "OR", "'; drop table'", "zzzqqq", '"zzz qqq"'])
def test_words_that_nothing_holds(memory: Memory, query: str) -> None:
    found = memory.search(query)
    assert found.hits or "no record" in found.note
    assert found.note


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"tag": "performnce"}, "no record has tag 'performnce': did you mean performance?"),
        ({"agent": "bob"}, "no record has agent 'bob'"),
        ({"type": "checkpoint"}, "no record has type 'checkpoint'"),
        ({"since": "2099-01-01"}, "no record is from 2099-01-01T00:00:00.000Z or later"),
        ({"until": "1999-12-31"}, "no record is from 1999-12-31T23:59:59.999Z or earlier"),
        ({"path": "docs/none.md"}, "no decision governs 'docs/none.md'"),
        ({"outcome": "failed"}, "no record has outcome 'failed'"),
        ({"branch": "elsewhere"}, "no record has branch 'elsewhere'"),
        ({"topic": "cachng"}, "no topic 'cachng': did you mean caching?"),
        ({"metadata": {"k": "v"}}, "no record has this metadata"),
        ({"tag": "performance", "topic": "caching"}, "no record passes all these restrictions at once"),
        ({"offset": 50}, "only 3 records match, and offset 50 passes over them all"),
        ({"tag": "performance", "offset": 1}, "only 1 record matches, and offset 1 passes over it"),
    ],
)
@pytest.mark.parametrize("query", ["", "cache"])
def test_restrictions_that_nothing_passes(memory: Memory, query: str, asked: dict[str, Any], told: str) -> None:
    found = memory.search(query, **asked)
    assert not found.hits
    if query and "offset" in asked:
        assert "match" in found.note or "no record" in found.note
    else:
        assert told in found.note


@pytest.mark.parametrize("query", ["zzzqqq", '"zzz qqq"'])
def test_an_empty_answer_claims_no_more_than_was_looked_for(memory: Memory, query: str) -> None:
    assert memory.search(query, mode="keyword").note == "no record shares a word with the query"


def test_a_filled_answer_says_nothing_of_the_kind(memory: Memory) -> None:
    assert memory.search("cache").note == ""
    assert memory.search("", topic="caching").note == ""


def test_where_nothing_is_saved(tmp_path: Path) -> None:
    with Memory.open(make_repo(tmp_path / "repo")) as memory:
        assert "just save" in memory.unbegun
        assert memory.search("cache").note == ""
        assert "just save" in native_calls.timeline(memory, {})["note"]


@pytest.mark.parametrize("way", ["delete", "revert", "remove"])
def test_where_nothing_is_left(tmp_path: Path, way: str) -> None:
    """Something was saved, and history knows it: nobody is told that nothing ever was."""
    repo = make_repo(tmp_path / "repo")
    saved = ok(repo, "save", "decision", "--topic", "t", "--decision", "D", "--reasoning", "r")
    if way == "delete":
        ok(repo, "delete", saved["id"], "--reason", "x")
    elif way == "revert":
        git(repo, "revert", "--no-edit", "HEAD")
    else:
        git(repo, "rm", "-qr", "memory")
        git(repo, "commit", "-q", "-m", "Away")
    for command in (("search", "cache"), ("search",), ("topics",), ("status",)):
        told = ok(repo, *command)["note"]
        lists = f"git -C {repo} log --diff-filter=D --name-only -- memory"
        assert told.startswith(f"nothing is left of what was saved: {lists} lists it"), command
    ok(repo, "restore", saved["path"])
    assert ok(repo, "get", saved["id"])["count"] == 1
    assert "note" not in ok(repo, "topics")


@pytest.fixture
def fresh_clone(tmp_path: Path) -> Path:
    """A clone of a memory with a decision and a checkpoint, which nobody has asked yet."""
    repo = make_repo(tmp_path / "repo")
    ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use Redis", "--reasoning", "r")
    ok(repo, "save", "checkpoint", "--summary", "Half of it is done")
    git(tmp_path, "clone", "-q", "repo", "clone")
    return tmp_path / "clone"


def test_before_there_is_an_index_nothing_is_said_to_be_missing(fresh_clone: Path) -> None:
    with Memory.open(fresh_clone, serving=True) as memory:
        told = {"degraded": "the search index is not built yet"}
        empty = {"success": True, "count": 0, "results": [], **told}
        assert native_calls.search(memory, {}) == empty
        assert native_calls.search(memory, {"query": "redis", "topic": "caching"}) == empty
        assert native_calls.timeline(memory, {}) == empty | {"anchor": ""}
        assert native_calls.topics(memory, {}) == {"success": True, "count": 0, "topics": [], **told}
        checkpoint = native_calls.load_checkpoint(memory, {})
        assert checkpoint == {"success": True, "checkpoint": None, "message": "no checkpoint found", **told}
        with pytest.raises(NotFound, match="not built yet"):
            memory.get("Use Redis")


def test_the_first_question_in_a_fresh_clone_is_answered(fresh_clone: Path) -> None:
    with talking(fresh_clone) as client:
        told = client.call("load_checkpoint")
    assert (told["checkpoint"]["title"], told.get("degraded")) == ("Half of it is done", None)


def test_a_command_that_is_printed_works_wherever_it_is_pasted(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "Ada's project")
    ok(repo, *DECISION, "caching", "--decision", "Use Redis")
    shutil.rmtree(repo / "memory")
    command = shlex.split(ok(repo, "search")["degraded"].rpartition(": ")[2])
    subprocess.run(command, cwd="/", check=True)
    assert ok(repo, "search")["count"] == 1


@pytest.mark.parametrize("query", ["((((", "?!", "...", "-", '""', "\N{SNOWMAN}"])
def test_a_query_without_a_word_says_so(memory: Memory, query: str) -> None:
    found = memory.search(query)
    assert found.note == "the query has no word in it: these are the newest"
    assert [hit.id for hit in found.hits] == [hit.id for hit in memory.search("").hits]
    assert memory.search(" ").note == memory.search("topic:caching").note == memory.search("-redis").note == ""


@pytest.fixture(params=["in-branch", "own branch"])
def two(request: pytest.FixtureRequest, repo: Path) -> Path:
    """Two records in the work tree and in HEAD."""
    if request.param == "own branch":
        ok(repo, "init", "--own-branch")
    ok(repo, *DECISION, "caching", "--decision", "Use Redis")
    ok(repo, *DECISION, "queues", "--decision", "Use NATS")
    write(repo / "memory/README.md", "# Not a record\n")
    return repo


def test_records_that_the_work_tree_lost_are_no_empty_memory(two: Path) -> None:
    own = (two / "memory/.git").exists()
    caching, queues = (one["path"] for one in reversed(ok(two, "search")["results"]))
    holding, inside = (two / "memory", caching.removeprefix("memory/")) if own else (two, caching)
    command = f"git -C {holding} restore"
    back = f"{command} {inside}"
    (two / caching).unlink()
    told = cli(two, "check", "--json").json["problems"]
    found = [(one["path"], one["code"], one["level"]) for one in told if one["level"] != "hint"]
    assert found == [(caching, "record-missing", "warning")]
    assert back in cli(two, "check").out
    status = ok(two, "status")
    assert (status["gone"], status["degraded"]) == ([{"path": caching, "restore": back}], "")
    assert f"gone, and no commit says so: {caching} ({back})" in cli(two, "status").out
    for asked in (("get", Path(caching).name), ("get", "Use Redis"), ("history", "use redis"), ("history", "caching")):
        told = cli(two, *asked)
        assert (told.code, "is gone, and no commit says so" in told.err, back in told.err) == (4, True, True), asked
    if not own:
        git(two, "rm", "-q", "--cached", caching)
        assert f"{command} --staged --worktree {inside}" in cli(two, "get", "Use Redis").err
        git(two, "reset", "-q", "--", caching)
    why = f"1 record is in HEAD and gone from the work tree: {back}"
    assert ok(two, "search", "Redis", "--mode", "keyword")["note"].endswith(f"; {why}")
    assert ok(two, "search", "--topic", "caching")["note"] == f"no topic 'caching'; {why}"
    assert "note" not in ok(two, "search", "NATS"), "it is told where the answer may miss it"
    assert why not in ok(two, "search", "nowhere", "--mode", "keyword", "--at", "filemem" if own else "HEAD")["note"]
    shutil.rmtree(two / "memory/decisions")
    everything = f"2 records are in HEAD and gone from the work tree: {command} {'.' if own else 'memory'}"
    assert ok(two, "search", "redis") == {"success": True, "count": 0, "results": [], "degraded": everything}
    assert ok(two, "status")["degraded"] == everything
    assert everything in cli(two, "get", "Use Redis").err
    assert [one["path"] for one in ok(two, "status")["gone"]] == sorted([caching, queues])
    subprocess.run(shlex.split(everything.rpartition(": ")[2]), cwd=two.parent, check=True)
    assert ok(two, "search")["count"] == 2
    assert "gone" not in ok(two, "status")
    git(holding, "rm", "-rq", "decisions" if own else "memory/decisions")
    assert cli(two, "check").code == 0, "what is staged is being removed"
    staged = ok(two, "search")["degraded"]
    assert "restore --staged --worktree" in staged
    subprocess.run(shlex.split(staged.rpartition(": ")[2]), cwd=two.parent, check=True)
    git(holding, "mv", inside, inside.replace("/caching/", "/queues/"))
    assert cli(two, "check").code == 0, "moved is not lost"
    git(holding, "reset", "-q", "--hard")
    ok(two, "delete", ok(two, "search", "redis")["results"][0]["id"])
    assert cli(two, "check").code == 0, "removed by a commit"
