"""powermem's seven tools, beyond what a conversation can say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from filemem.dialects.powermem import memory_summary as summary
from filemem.dialects.tool import load_profile
from filemem.errors import Conflict
from filemem.memory import Memory
from tests.dialects.support import good, refused
from tests.support import git, write
from tests.system.tools import cli


def add(memory: Memory, text: Any, **more: Any) -> Any:
    return good(memory, "powermem", "add_memory", messages=text, **more)["results"][0]


def texts(answer: Any) -> list[str]:
    return [one["memory"] for one in answer["results"]]


@pytest.mark.requirement("pm-tools")
def test_the_seven_tools_are_what_is_listed() -> None:
    names = [tool.name for tool in load_profile("powermem").listed_tools]
    assert names == [
        "add_memory",
        "search_memories",
        "get_memory",
        "update_memory",
        "delete_memory",
        "delete_all_memories",
        "list_memories",
    ]


@pytest.mark.requirement("pm-user-id-default", "pm-user-id-config")
def test_the_user_is_the_argument_else_the_configured_one_else_mcp_user(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERMEM_DIR", str(tmp_path / "nothing"))
    assert add(memory, "No configuration")["user_id"] == "mcp_user"
    (tmp_path / "config.json").write_text('{"user_id": "0b1f"}')
    monkeypatch.setenv("POWERMEM_DIR", str(tmp_path))
    assert add(memory, "Configured")["user_id"] == "0b1f"
    assert add(memory, "Stated", user_id="bob")["user_id"] == "bob"
    (tmp_path / "config.json").write_text("no json")
    with pytest.raises(AssertionError, match=r"config.json is not a JSON object"):
        add(memory, "Broken configuration")


@pytest.mark.requirement("pm-user-id-default")
def test_the_configuration_in_the_home_folder_counts(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POWERMEM_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".powermem").mkdir()
    (tmp_path / ".powermem" / "config.json").write_text('{"user_id": "home"}')
    assert add(memory, "At home")["user_id"] == "home"


@pytest.mark.requirement("pm-dotenv", "pm-user-id-default")
def test_a_file_of_variables_that_git_does_not_track_names_user_agent_and_run_alone(
    memory: Memory, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERMEM_DIR", str(repo.parent / "nothing"))
    before = dict(os.environ)
    names = 'export POWERMEM_USER_ID="ann"\nPOWERMEM_AGENT_ID=coder\nPOWERMEM_RUN_ID=run-1\n'
    others = "POWERMEM_DIR=/nowhere\nFILEMEM_MODEL=/nowhere\nFILEMEM_TOKEN=t\nLLM_API_KEY=k\nMAMA_SERVER_PORT=1\n"
    file = write(repo / ".env", names + others)
    saved = add(memory, "Taken from the file")
    assert (saved["user_id"], saved["agent_id"], saved["run_id"]) == ("ann", "coder", "run-1")
    assert add(memory, "Stated", user_id="bob", agent_id="tester")["agent_id"] == "tester"
    assert memory.status()["owners"] == "user_id ann, agent_id coder, run_id run-1"
    assert "powermem's tools add are of user_id ann, agent_id coder" in cli(repo, "status").out
    assert dict(os.environ) == before, "nothing else is taken"
    git(repo, "add", "-f", ".env")
    assert add(memory, "Of a stranger")["user_id"] == "mcp_user"
    assert "owners" not in memory.status()
    git(repo, "rm", "-q", "--cached", ".env")
    write(repo.parent / "elsewhere", names)
    file.unlink()
    file.symlink_to(repo.parent / "elsewhere")
    assert add(memory, "By a link")["user_id"] == "mcp_user"


@pytest.mark.requirement("pm-user-id-default")
def test_where_others_share_the_memory_nobody_is_everybody(
    memory: Memory, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERMEM_DIR", str(repo.parent / "nothing"))
    add(memory, "Prefers tabs over spaces")
    git(repo, "remote", "add", "origin", "https://example.org/x.git")
    assert add(memory, "Prefers coffee")["user_id"] == git(repo, "config", "user.email")
    found = good(memory, "powermem", "list_memories")["results"]
    assert {one["memory"] for one in found} == {"Prefers tabs over spaces", "Prefers coffee"}, (
        "former ones are found"
    )


ROWS: dict[str, dict[str, Any]] = {
    "plain": {
        "category": "a",
        "score": 1,
        "done": False,
        "tags": ["x", "y"],
        "nested": {"deep": {"er": "v"}},
    },
    "other": {"category": "b", "score": 5, "done": True, "label": "3"},
    "bare": {},
}


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"category": "a"}, "plain"),
    ({"metadata.category": "a"}, "plain"),
    ({"nested.deep.er": "v"}, "plain"),
    ({"metadata.nested.deep.er": "v"}, "plain"),
    ({"score": 5}, "other"),
    ({"score": "5"}, ""),
    ({"score": {"gt": 1}}, "other"),
    ({"score": {"$gte": 1}}, "plain other"),
    ({"score": {"gte": 1, "lt": 5}}, "plain"),
    ({"category": {"gt": "a"}}, "other"),
    ({"category": {"gt": 3}}, ""),
    ({"done": True}, "other"),
    ({"done": 1}, ""),
    ({"label": "3"}, "other"),
    ({"label": 3}, ""),
    ({"tags": "x"}, "plain"),
    ({"category": {"ne": "a"}}, "other bare"),
    ({"category": {"in": ["a", "b"]}}, "plain other"),
    ({"category": {"nin": ["a"]}}, "other bare"),
    ({"category": "a", "score": 5}, ""),
    ({"memory_type": "kind-bare"}, "bare"),
    ({"run_id": "r-plain"}, "plain"),
    ({"created_at": {"gt": "2020-01-01"}}, "plain other bare"),
    ({"absent": "x"}, ""),
]


@pytest.mark.requirement(
    "pm-filters-equality", "pm-filters-dotted", "pm-filters-compare", "pm-add-metadata"
)
def test_filters(memory: Memory) -> None:
    for name, metadata in ROWS.items():
        add(
            memory,
            f"memory {name}",
            metadata=metadata,
            memory_type=f"kind-{name}",
            run_id=f"r-{name}",
        )
    for filters, found in FILTERS:
        wanted = [f"memory {name}" for name in reversed(ROWS) if name in found.split()]
        assert texts(good(memory, "powermem", "list_memories", filters=filters)) == wanted, filters
        searched = good(memory, "powermem", "search_memories", query="memory", filters=filters)
        assert sorted(texts(searched)) == sorted(wanted), filters


@pytest.mark.requirement("pm-filters-compare")
@pytest.mark.parametrize("filters", [{"score": {"gtt": 3}}, {"score": {"in": "a"}}])
def test_a_test_that_there_is_not_is_refused(memory: Memory, filters: dict[str, Any]) -> None:
    assert "filters.score" in refused(memory, "powermem", "list_memories", filters=filters)["error"]


@pytest.mark.requirement("pm-add-filters")
def test_filters_of_an_added_memory_find_it_again(memory: Memory) -> None:
    added = add(memory, "Filed", filters={"ticket": 7, "run_id": "r1"}, metadata={"colour": "red"})
    assert added["metadata"] == {"ticket": 7, "colour": "red"}
    assert added["run_id"] == "r1"
    assert texts(good(memory, "powermem", "list_memories", filters={"ticket": 7})) == ["Filed"]


@pytest.mark.requirement("pm-list-pages", "pm-search-limit")
def test_pages(memory: Memory) -> None:
    for n in range(7):
        add(memory, f"Fact number {n}", user_id="even" if n % 2 == 0 else "mcp_user")
    assert texts(good(memory, "powermem", "list_memories", limit=2, offset=1)) == [
        "Fact number 3",
        "Fact number 1",
    ]
    even = good(memory, "powermem", "list_memories", user_id="even", limit=2, offset=2)
    assert texts(even) == ["Fact number 2", "Fact number 0"]
    assert (
        len(texts(good(memory, "powermem", "search_memories", query="fact number", limit=3))) == 3
    )
    assert texts(good(memory, "powermem", "list_memories", offset=99)) == []


@pytest.mark.requirement("pm-threshold")
def test_the_threshold_is_on_the_score_that_is_shown(memory: Memory) -> None:
    add(memory, "User prefers coffee in the morning")
    add(memory, "The build runs on a server in the cellar")
    found = good(memory, "powermem", "search_memories", query="Does the user like coffee?")[
        "results"
    ]
    assert all(0 <= one["score"] <= 1 for one in found)
    assert found[0]["score"] > found[1]["score"]
    between = (found[0]["score"] + found[1]["score"]) / 2
    kept = good(
        memory, "powermem", "search_memories", query="Does the user like coffee?", threshold=between
    )
    assert texts(kept) == ["User prefers coffee in the morning"]
    assert len(texts(good(memory, "powermem", "search_memories", query="coffee", threshold=0))) >= 1


@pytest.mark.requirement("pm-ids")
def test_ids_are_numbers_that_json_can_hold_and_come_back_as_text_too(memory: Memory) -> None:
    added = add(memory, "Numbered")
    assert 0 < added["id"] < 2**53
    for form in (added["id"], str(added["id"]), float(added["id"]), added["record"]):
        assert good(memory, "powermem", "get_memory", memory_id=form)["id"] == added["id"]
    again = json.loads(json.dumps(added["id"]))
    assert good(memory, "powermem", "delete_memory", memory_id=again)["success"] is True


@pytest.mark.requirement("pm-update", "pm-update-keeps")
def test_an_update_keeps_what_it_does_not_name(memory: Memory) -> None:
    added = add(
        memory, "First line\n\nand a body", memory_type="note", metadata={"a": 1}, scope="user"
    )
    good(
        memory,
        "powermem",
        "update_memory",
        memory_id=added["id"],
        content="A new first line\n\nand another body",
    )
    good(
        memory,
        "powermem",
        "update_memory",
        memory_id=added["id"],
        content="Short",
        metadata={"b": "2"},
    )
    now = good(memory, "powermem", "get_memory", memory_id=added["id"])
    assert (now["memory"], now["memory_type"], now["scope"]) == ("Short", "note", "user")
    assert now["metadata"] == {"a": 1, "b": "2"}


@pytest.mark.requirement("pm-delete-all")
def test_delete_all_takes_memories_alone(memory: Memory) -> None:
    decision = memory.save(topic="t", decision="D", reasoning="R").id
    noted = memory.save(title="Noted", text="By another tool", agent="legacy").id
    for n in range(3):
        add(memory, f"Memory {n}", agent_id="a" if n else "b", run_id=f"r{n}")
    assert (
        good(memory, "powermem", "delete_all_memories", agent_id="a", run_id="r1")["deleted_count"]
        == 1
    )
    assert good(memory, "powermem", "delete_all_memories", agent_id="nobody")["deleted_count"] == 0
    refused(memory, "powermem", "delete_all_memories", confirm=False)
    assert good(memory, "powermem", "delete_all_memories", confirm=True)["deleted_count"] == 2
    assert {hit.id for hit in memory.search("")} == {decision, noted}


@pytest.mark.requirement("pm-delete-all")
def test_delete_all_is_one_commit_and_private_ones_are_in_none(memory: Memory) -> None:
    for n in range(3):
        add(memory, f"Memory {n}")
    other = add(memory, "Ann's", user_id="ann")["record"]
    hidden = memory.save(kind="memory", text="Secret wish", visibility="private").id
    work_tree = memory.work_tree
    before = git(work_tree, "rev-list", "--count", "HEAD")
    assert good(memory, "powermem", "delete_all_memories", confirm=True)["deleted_count"] == 3
    assert int(git(work_tree, "rev-list", "--count", "HEAD")) == int(before) + 1
    assert git(work_tree, "log", "-1", "--format=%s") == "delete 3 records (delete_all_memories)"
    assert memory.delete_several([other, hidden], reason="both") == 2
    assert hidden not in git(work_tree, "log", "--all", "--format=%B")
    assert len(memory.search("")) == 0
    assert git(work_tree, "status", "--porcelain") == ""


@pytest.mark.requirement("pm-delete-all")
def test_delete_all_removes_nothing_where_one_cannot_be_removed(memory: Memory) -> None:
    for n in range(3):
        add(memory, f"Memory {n}")
    path = next((memory.work_tree / "memory/observations").glob("**/*memory-1*"))
    path.write_text(path.read_text() + "By hand\n")
    with pytest.raises(Conflict):
        memory.delete_several([hit.id for hit in memory.search("")])
    assert len(memory.search("")) == 3


@pytest.mark.requirement("pm-list")
def test_a_list_says_how_many_there_are(memory: Memory) -> None:
    for n in range(5):
        add(memory, f"Memory {n}", agent_id="a" if n else "b")
    told = good(memory, "powermem", "list_memories", limit=2, offset=1, agent_id="a")
    assert (told["count"], told["total"]) == (2, 4)


@pytest.mark.requirement("pm-summary")
def test_the_summary_counts(memory: Memory) -> None:
    add(memory, "One", user_id="ann", memory_type="note")
    add(memory, "Two", user_id="bob", agent_id="coder")
    memory.save(topic="t", decision="D", reasoning="R")
    told = summary(memory, {})
    assert told["total"] == 3
    assert told["types"] == {"decision": 1, "observation": 2}
    assert told["user_id"] == {"ann": 1, "bob": 1}
    assert told["memory_type"] == {"note": 1}
    json.dumps(told)


@pytest.mark.requirement("pm-add-dict", "pm-add-list", "pm-add-text")
@pytest.mark.parametrize(
    "text",
    [
        "one line",
        "two\nlines",
        "x" * 300,
        "# heading\n\n## Outcomes\n- no outcome",
        "  indented\nhere",
    ],
)
def test_a_text_comes_back_as_it_was_given(memory: Memory, text: str) -> None:
    for messages in (
        text,
        {"role": "user", "content": text},
        [{"role": "user", "content": text}],
        [text],
    ):
        added = add(memory, messages)
        assert added["memory"] == text
        assert good(memory, "powermem", "get_memory", memory_id=added["id"])["content"] == text


@pytest.mark.requirement("pm-permission")
def test_without_a_user_the_default_one_is_meant_but_an_id_says_it_all(memory: Memory) -> None:
    added = add(memory, "Ann's", user_id="ann")
    add(memory, "Nobody's in particular")
    assert good(memory, "powermem", "get_memory", memory_id=added["id"])["user_id"] == "ann"
    assert texts(good(memory, "powermem", "list_memories")) == ["Nobody's in particular"]
    assert texts(good(memory, "powermem", "search_memories", query="Ann's")) == [
        "Nobody's in particular"
    ]
    assert good(memory, "powermem", "delete_all_memories", confirm=True)["deleted_count"] == 1
    hidden = refused(memory, "powermem", "get_memory", memory_id=added["id"], user_id="eve")
    missing = refused(memory, "powermem", "get_memory", memory_id=7, user_id="eve")
    assert hidden["error"].replace(str(added["id"]), "7") == missing["error"]


@pytest.mark.requirement("pm-threshold")
def test_a_similarity_says_how_likely_a_memory_is_meant(memory: Memory) -> None:
    for text in (
        "User prefers coffee in the morning",
        "The API allows 100 requests a minute",
        "We deploy on Fridays",
    ):
        good(memory, "powermem", "add_memory", messages=text)

    def scores(query: str, **more: Any) -> list[float]:
        found = good(memory, "powermem", "search_memories", query=query, **more)["results"]
        return [one["score"] for one in found]

    same = scores("User prefers coffee in the morning")
    assert same[0] > 0.99
    assert same == sorted(same, reverse=True)
    assert scores("user preferences")[0] > 0.7
    assert len(scores("user preferences", threshold=0.7)) == 1
    assert max(scores("how do penguins swim"), default=0.0) < 0.2
    assert scores("how do penguins swim", threshold=0.5) == []


@pytest.mark.requirement("pm-add")
def test_a_memory_that_is_added_again_for_the_same_user_is_the_same(memory: Memory) -> None:
    more = {"user_id": "ada", "metadata": {"a": 1}}
    first = add(memory, "Likes tea", **more)
    head = git(memory.work_tree, "rev-parse", "HEAD")
    again = add(memory, "Likes tea", **more)
    assert (first["event"], again["event"]) == ("ADD", "NONE")
    assert (again["id"], again["record"]) == (first["id"], first["record"])
    assert git(memory.work_tree, "rev-parse", "HEAD") == head
    changes: tuple[dict[str, Any], ...] = (
        {"user_id": "bob"},
        {"run_id": "r"},
        {"agent_id": "x"},
        {"metadata": {}},
    )
    others = [add(memory, "Likes tea", **{**more, **change}) for change in changes]
    others.append(add(memory, "Likes tea, no coffee", **more))
    assert {one["event"] for one in others} == {"ADD"}
    good(memory, "powermem", "delete_memory", memory_id=first["id"], user_id="ada")
    assert add(memory, "Likes tea", **more)["event"] == "ADD", "what was deleted is not remembered"
