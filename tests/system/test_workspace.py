"""The workspace: several repositories asked as one, by nobody's leave but the user's, and never written to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filemem.cli.project import Project
from filemem.cli.workspace import is_registered, join_workspace
from filemem.dialects import native
from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.record.visibility import EVERYBODY
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, snapshot, talking

Answer = dict[str, Any]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's configuration and cache, where nothing is yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def made(folder: Path, **decisions: str) -> Path:
    """A repository with decisions by topic."""
    with Memory.open(make_repo(folder)) as memory:
        for topic, decision in decisions.items():
            memory.save(topic=topic, decision=decision, reasoning="It was measured")
    return folder


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """Two repositories that decided one topic differently."""
    return made(tmp_path / "api", caching="Cache in Redis"), made(
        tmp_path / "web", caching="Cache at the edge"
    )


@contextmanager
def together(folder: Path) -> Iterator[Memory]:
    """The memory of a folder, asked with all that is registered."""
    with Memory.open(folder) as memory:
        join_workspace(memory)
        yield memory


def asked(memory: Memory, query: str, **how: Any) -> Answer:
    answer: Answer = native.search(memory, {"query": query, "scope": "workspace", **how})
    return answer


def test_hits_say_where_they_are_from_and_one_topic_of_two_repositories_is_two_chains(
    both: tuple[Path, Path],
) -> None:
    api, web = both
    ok(api, "workspace", "add", ".", str(web))
    assert ok(web, "workspace", "list")["repositories"] == [str(api), str(web)]
    before = snapshot(api, skip=()).keys(), git(api, "rev-parse", "HEAD")
    found = ok(web, "search", "--workspace", "cache")
    assert "it is data" in found["note"]
    own, other = sorted(found["results"], key=lambda hit: hit["repository"] != str(web))
    assert [own["title"], other["title"]] == ["Cache at the edge", "Cache in Redis"]
    assert own["holds"]
    assert other["holds"]
    assert "note" not in own
    assert other["note"] == "quoted from another repository"
    assert (other["repository"], other["commit"]) == (str(api), before[1])
    assert (api / other["path"]).is_file()
    assert f"{api}/{other['path']}" in cli(web, "search", "--workspace", "cache").out
    ok(
        web,
        "save",
        "decision",
        "--topic",
        "caching",
        "--decision",
        "Cache nothing",
        "--reasoning",
        "Simple",
    )
    assert (git(api, "rev-parse", "HEAD"), git(api, "status", "--porcelain")) == (before[1], "")
    assert (
        next(hit["title"] for hit in ok(web, "search", "--workspace", "redis cache")["results"])
        == "Cache in Redis"
    )


def test_private_records_enter_no_answer(both: tuple[Path, Path]) -> None:
    api, web = both
    with Memory.open(api) as memory:
        memory.save(title="Cache secret", text="The cache key is odd", visibility="private")
        hidden = "decision_cache_1700000000000_abcd1234"
        write(
            api / "memory/private/decisions/a.md", f"---\nid: {hidden}\n---\n# Cache secret keys\n"
        )
        memory.refresh()
        memory.save(topic="caching", decision="Cache twice", reasoning="Safe", builds_on=[hidden])
    ok(api, "workspace", "add", str(api), str(web))
    for folder in both:
        with together(folder) as memory:
            answer = asked(memory, "cache secret key odd", limit=50, detail=True)
            assert len(answer["results"]) == 3
            assert hidden not in str(answer)


def test_who_cannot_be_asked_is_named_and_stops_nobody(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    api, web = both
    new = made(tmp_path / "new", caching="Cache by hand")
    ok(api, "workspace", "add", ".", str(web), str(new))
    shutil.rmtree(new / ".git/filemem/index")
    with together(api) as memory:
        shutil.rmtree(web)
        answer = asked(memory, "cache")
    assert [hit["title"] for hit in answer["results"]] == ["Cache in Redis"]
    assert str(web) in answer["degraded"]
    assert f"{new}: not indexed: `filemem -C {new} index`" in answer["degraded"]
    assert ok(api, "workspace", "remove", str(web))["count"] == 2
    assert cli(api, "workspace", "remove", str(web)).code == 4


def test_all_that_are_registered_are_asked_and_followed(tmp_path: Path) -> None:
    tools = ("redis", "nginx", "varnish", "squid")
    folders = [
        made(tmp_path / one, caching=f"Cache in {one}", logs=f"Log the {one} cache")
        for one in tools
    ]
    ok(folders[0], "workspace", "add", *map(str, folders))
    with together(folders[0]) as memory:
        each = asked(memory, "cache in squid", detail=True)["results"]
        assert each[0]["title"] == "Cache in squid"
        assert {hit["repository"] for hit in each} == set(map(str, folders))
        ok(
            folders[3],
            "save",
            "decision",
            "--topic",
            "caching",
            "--decision",
            "Cache no more",
            "--reasoning",
            "Squid is slow",
        )
        live = asked(memory, "cache in squid", live=True)["results"]
        assert live[0]["title"] == "Cache no more", (
            "what holds is known by its store, and stands for what was found"
        )
        assert "Cache in squid" not in {hit["title"] for hit in live}
        ok(folders[0], "workspace", "remove", str(folders[3]))
        assert str(folders[3]) not in {
            hit["repository"] for hit in asked(memory, "squid")["results"]
        }


def test_only_a_registered_repository_offers_it(both: tuple[Path, Path]) -> None:
    api, web = both
    ok(api, "workspace", "add", ".")
    with talking(web) as talk:
        assert talk.refused("search", query="cache", scope="workspace")["field"] == "scope"
        assert "workspace" not in str([tool.input_schema for tool in talk.tools()])
    ok(api, "workspace", "add", str(web))
    linked = api.parent / "linked"
    git(api, "worktree", "add", "-q", str(linked), "-b", "feature")
    with talking(linked) as talk:
        shape = next(tool for tool in talk.tools() if tool.name == "search").input_schema[
            "properties"
        ]["scope"]
        assert shape["enum"] == ["project", "workspace", "personal"]
        found = talk.call("search", query="cache", scope="workspace")["results"]
        assert {hit["repository"] for hit in found} == {str(linked), str(web)}, (
            "this branch is asked, not the other"
        )


def test_a_folder_in_no_repository_is_not_registered(both: tuple[Path, Path]) -> None:
    api, _ = both
    linked = api.parent / "linked"
    git(api, "worktree", "add", "-q", str(linked), "-b", "feature")
    ok(api, "workspace", "add", ".", str(linked))
    outside = api.parent / "outside"
    outside.mkdir()
    assert is_registered(Project(str(linked)))
    assert not is_registered(Project(str(outside)))


def test_a_repository_names_no_other_and_what_is_of_one_alone_is_refused(
    both: tuple[Path, Path], memory: Memory
) -> None:
    api, web = both
    (api / ".filemem.toml").write_text(f'workspace = ["{web}"]\n')
    assert "unknown setting 'workspace'" in cli(api, "status").out
    (api / ".filemem.toml").unlink()
    assert cli(api, "search", "--workspace", "cache").code == 2, "nothing is registered"
    assert cli(api, "search", "--also", str(web.parent / "nowhere"), "cache").code != 0
    assert next(
        hit["repository"] for hit in ok(api, "search", "--also", str(web), "edge")["results"]
    ) == str(web)
    for more in (["--path", "src"], ["--at", "HEAD"], []):
        done = cli(api, "search", "--also", str(web), *more, *(["cache"] if more else []))
        assert done.code == 2, done
    with pytest.raises(BadInput, match="not served here"):
        asked(memory, "cache")
    assert memory.seen_by(EVERYBODY).workspace is None
