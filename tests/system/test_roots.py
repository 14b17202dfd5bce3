"""A client's roots choose among the work trees of one repository, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import FileUrl

from filemem.server.calls import ANSWER_KEY
from tests.support import git, make_repo

pytestmark = pytest.mark.filterwarnings("ignore:The roots capability is deprecated")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a second work tree beside it, `task tree`, on the branch `task`."""
    repo = make_repo(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", "task", str(tmp_path / "task tree"))
    return repo


def parameters(folder: Path) -> StdioServerParameters:
    words = ["-m", "filemem", "serve"]
    return StdioServerParameters(
        command=sys.executable, args=words, env=dict(os.environ), cwd=folder
    )


@asynccontextmanager
async def rooted(folder: Path, roots: list[Path], counted: list[int]) -> AsyncIterator[Client]:
    """A client of a server that is started in a folder, with these roots; counts when it is asked for them."""

    async def listed(context: Any) -> types.ListRootsResult:
        counted.append(len(roots))
        shown = [types.Root(uri=FileUrl(root.as_uri())) for root in roots]
        return types.ListRootsResult(roots=shown)

    with (folder.parent / "stderr").open("w") as errors:
        stream = stdio_client(parameters(folder), errlog=errors)
        async with Client(stream, mode="legacy", list_roots_callback=listed) as client:
            yield client


async def save(client: Client, text: str) -> dict[str, Any]:
    reply = await client.call_tool("save", {"title": text, "text": text})
    assert not reply.is_error, reply
    return (reply.meta or {})[ANSWER_KEY]  # type: ignore[no-any-return]


def served(folder: Path, roots: list[Path], place: Path) -> int:
    """See that a server saves in a place; how often it asked for the roots."""
    counted: list[int] = []

    async def talk() -> None:
        async with rooted(folder, roots, counted) as client:
            answer = await save(client, "Seen")
            assert (place / answer["path"]).is_file()
            if (place / ".git").is_file() or git(place, "worktree", "list").count("\n"):
                assert answer["notice"].startswith(
                    f"This server reads and saves in the work tree {place}, "
                )
            assert "notice" not in await save(client, "Seen again")

    asyncio.run(talk())
    return len(counted)


def test_a_root_in_another_work_tree_is_served(repo: Path) -> None:
    other = repo.parent / "task tree"
    (other / "src").mkdir()
    assert served(repo, [other / "src"], other) == 1
    assert git(repo, "log", "-1", "--format=%s", "main") != git(
        repo, "log", "-1", "--format=%s", "task"
    )


def test_of_several_roots_the_first_in_this_repository_counts(repo: Path) -> None:
    other = repo.parent / "task tree"
    stranger = make_repo(repo.parent / "stranger")
    assert served(repo, [repo.parent / "nowhere", stranger, other, repo], other) == 1
    assert served(other, [stranger, repo, other], repo) == 1


def test_roots_elsewhere_change_nothing(repo: Path) -> None:
    stranger = make_repo(repo.parent / "stranger")
    git(stranger, "worktree", "add", "-q", "-b", "task", str(repo.parent / "strange tree"))
    assert served(repo, [stranger, repo.parent / "strange tree"], repo) == 1
    assert served(repo, [], repo) == 1
    assert served(repo, [repo], repo) == 1


def test_a_repository_with_one_work_tree_asks_for_no_roots(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    assert served(repo, [repo], repo) == 0


def test_changed_roots_are_asked_for_again(repo: Path) -> None:
    other = repo.parent / "task tree"
    roots = [repo]
    counted: list[int] = []

    async def talk() -> None:
        async with rooted(repo, roots, counted) as client:
            for place in (repo, other, repo):
                roots[:] = [place]
                await client.send_roots_list_changed()
                answer = await save(client, f"In {place}")
                assert (place / answer["path"]).is_file()
                assert f" {place}, " in answer["notice"]
            found = await client.call_tool("search", {"query": "In the repo"})
            titles = {hit["title"] for hit in (found.meta or {})[ANSWER_KEY]["results"]}
            assert titles == {f"In {repo}"}
            personal = {"query": "x", "scope": "personal"}
            assert not (await client.call_tool("search", personal)).is_error
            roots[:] = [other]
            await client.send_roots_list_changed()
            assert not (await client.call_tool("search", personal)).is_error

    asyncio.run(talk())


REPLIES: list[dict[str, Any]] = [
    {"error": {"code": -32603, "message": "no"}},
    {"result": {}},
    {"result": {"roots": [5, {"uri": 5}, {"uri": "file:"}, {"uri": "https://x/y"}]}},
    {"result": {"roots": [{"uri": "file://elsewhere/tmp"}, {"uri": "file://[/"}]}},
    {"result": {"roots": [{"uri": "file:///%00"}, {"uri": "file:relative"}]}},
]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("reply", [*REPLIES, None])
def test_a_reply_that_says_nothing_changes_nothing(repo: Path, reply: Any, ends: bool) -> None:
    """Also none at all, or the end of the input; a late one, or to no question, is dropped."""
    process = subprocess.Popen(
        [sys.executable, "-m", "filemem", "serve"],
        cwd=repo,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    save = {"name": "save", "arguments": {"text": "Here"}}
    with process as server:
        timer = threading.Timer(60, server.kill)
        timer.start()
        assert server.stdin is not None
        assert server.stdout is not None

        def send(**message: Any) -> None:
            assert server.stdin is not None
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()

        send(id=0, method="initialize", params=hello)
        send(method="notifications/initialized")
        send(id=99, result={"roots": [{"uri": (repo.parent / "task tree").as_uri()}]})
        send(id=1, method="tools/call", params=save)
        assert json.loads(server.stdout.readline())["id"] == 0
        question = json.loads(server.stdout.readline())
        assert question["method"] == "roots/list"
        send(id=True, result={})
        if reply:
            send(id=question["id"], **reply)
        if ends:
            server.stdin.close()
        answer = json.loads(server.stdout.readline())
        if not ends:
            send(id=question["id"], result={"roots": []})
            send(id=2, method="ping")
            assert json.loads(server.stdout.readline())["id"] == 2
            server.stdin.close()
        assert server.wait() == 0
        timer.cancel()
    assert answer["id"] == 1
    assert (repo / answer["result"]["_meta"][ANSWER_KEY]["path"]).is_file()
