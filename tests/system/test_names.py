"""A decision is named by short id, topic, number or path: in reasoning, and to every command that changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from filemem.errors import Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.save import WriteResult
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    """A memory with a decision on the topic `order storage`."""
    with Memory.open(repo) as opened:
        opened.save(topic="order storage", decision="Use Postgres", reasoning="We know it")
        yield opened


def first(memory: Memory) -> str:
    return memory.history("order storage").heads[0]


def edges(memory: Memory, saved: WriteResult) -> set[tuple[str, str]]:
    return {(edge.kind, edge.target) for edge in memory.get(saved.id)[0].record.edges}


def test_reasoning_names_what_it_rests_on_by_any_name(memory: Memory) -> None:
    id = first(memory)  # noqa: A001
    path = memory.get(id)[0].path
    names = (id, id[-8:], id[-8:][:4], "order storage", "Order-Storage", path, f"`{id[-8:]}`")
    for number, name in enumerate(names):
        reasoning = f"Fast enough.\nbuilds_on: {name}. As it was."
        saved = memory.save(topic=f"t{number}", decision=f"Decide {number}", reasoning=reasoning)
        assert ("builds_on", id) in edges(memory, saved), name
        assert "no edge" not in saved.note


def test_several_names_of_several_kinds_are_read_to_the_end_of_the_sentence(memory: Memory) -> None:
    id = first(memory)  # noqa: A001
    other = memory.save(topic="queue", decision="Use NATS", reasoning="r")
    reasoning = f"Both. **synthesizes:** [{id[-8:]}, queue]. Or (debates: queue) if slow; fine."
    saved = memory.save(topic="storage", decision="One for both", reasoning=reasoning)
    wanted = {("synthesizes", id), ("synthesizes", other.id), ("debates", other.id)}
    assert edges(memory, saved) == wanted


def test_a_number_in_reasoning_means_the_record_of_an_adr_folder(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "adr")
    write(repo / "docs/adr/0012-use-postgres.md", "# 12. Use Postgres\n\n## Status\n\nAccepted\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "adr")
    with Memory.open(repo, store="docs/adr") as memory:
        saved = memory.save(topic="Pools", decision="Pool", reasoning="builds_on: ADR-12")
        target = memory.get("12")[0].id
        assert ("builds_on", target) in edges(memory, saved)


@pytest.mark.parametrize(
    "name", ["order storrage", "zzzz9999", "decision_gone_1763650000123_zzzzzzzz"]
)
def test_what_names_no_decision_is_noted_with_the_nearest(memory: Memory, name: str) -> None:
    memory.save(title="Order storage notes", text="An observation")
    saved = memory.save(topic="t", decision="Do it", reasoning=f"builds_on: {name}.")
    assert f"no edge: builds_on: no record '{name}'" in saved.note
    if name == "order storrage":
        assert "did you mean the topic order storage" in saved.note
        assert "or Order storage notes" in saved.note


def test_a_text_that_is_revised_names_what_it_rests_on_too(memory: Memory) -> None:
    saved = memory.save(topic="t", decision="Do it", reasoning="r")
    done = memory.update(saved.id, text="builds_on: order storage; debates: nothing at all")
    assert edges(memory, saved) == {("builds_on", first(memory))}
    assert "no edge: debates: no record 'nothing at all'" in done.note


def test_a_topic_names_what_holds_on_it_and_the_answer_says_which(memory: Memory) -> None:
    id = first(memory)  # noqa: A001
    named = f"means Use Postgres ({id[-8:]})"
    done = memory.update("order storage", outcome="success", reason="fast")
    assert (done.id, done.note) == (id, f"topic order storage {named}")
    done = memory.delete("order_storage")
    assert (done.id, done.note) == (id, f"topic order_storage {named}")
    done = memory.restore("Order Storage")
    assert (done.id, done.message) == (id, f"Restored Use Postgres ({id[-8:]})")
    other = memory.save(topic="queue", decision="Use NATS", reasoning="r")
    assert memory.update("queue", builds_on=["order storage"]).id == other.id
    assert edges(memory, other) == {("builds_on", id)}
    with pytest.raises(NotFound, match="no record 'order'"):
        memory.delete("order")


def test_a_forked_topic_names_none_and_its_heads_are_listed(memory: Memory) -> None:
    memory.save(topic="order storage", decision="Use SQLite", reasoning="r", supersedes=[])
    changes: tuple[Callable[[], WriteResult], ...] = (
        lambda: memory.update("order storage", outcome="success"),
        lambda: memory.delete("order storage"),
    )
    for change in changes:
        with pytest.raises(Conflict, match="2 decisions hold on topic order storage") as forked:
            change()
        assert "Use Postgres" in forked.value.message
        assert "Use SQLite" in forked.value.message
        assert "short id" in forked.value.hint


def test_a_topic_on_which_nothing_holds_names_none(memory: Memory) -> None:
    memory.update("order storage", status="deprecated")
    with pytest.raises(NotFound) as unknown:
        memory.delete("order storage")
    assert (
        "nothing holds on the topic order storage; its last decision was Use Postgres"
        in unknown.value.hint
    )


def test_a_misspelt_topic_is_answered_with_the_topic(memory: Memory) -> None:
    memory.save(topic="css", decision="Plain stylesheets", reasoning="r")
    for wrong, topic in [("oder storge", "order storage"), ("ccs", "css")]:
        with pytest.raises(NotFound) as unknown:
            memory.history(wrong)
        assert f"did you mean the topic {topic}" in unknown.value.hint


def test_a_reverted_save_is_restored_by_its_topic(repo: Path, memory: Memory) -> None:
    saved = memory.save(topic="css", decision="Plain CSS", reasoning="r")
    git(repo, "revert", "--no-edit", saved.commit)
    memory.refresh(full=True)
    assert memory.restore("css").id == saved.id


def test_commands_take_a_topic(repo: Path, memory: Memory) -> None:
    other = memory.save(topic="queue", decision="Use NATS", reasoning="r")
    assert ok(repo, "link", "queue", "order storage")["id"] == other.id
    shown = cli(repo, "forget", "queue")
    assert "note: topic queue means Use NATS" in shown.out
    assert ok(repo, "restore", "queue")["id"] == other.id


def test_a_path_that_no_file_has_is_noted(memory: Memory) -> None:
    paths = ["code.py", "src/nope.py", "*.py", "lib/**/*.py", "../out.py"]
    saved = memory.save(topic="t", decision="Do it", reasoning="r", affects=paths)
    note = "affects src/nope.py, lib/**/*.py, ../out.py: no such file yet"
    assert saved.note == note
    assert memory.update(saved.id, affects=["src/nope.py"]).note.endswith(
        "affects src/nope.py: no such file yet"
    )
    again = memory.save(topic="t", decision="Do it again", reasoning="r")
    assert again.note == "still governs src/nope.py, as what it replaces did"
