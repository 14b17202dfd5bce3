"""The library beside an editor, with no server: what is on disk is what is found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import filemem
from filemem.memory import Memory, syncing
from tests.support import write
from tests.system.tools import FILEMEM


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    with filemem.open(repo) as opened:
        yield opened


def titles(memory: Memory, query: str) -> list[str]:
    return [hit.title for hit in memory.search(query, mode="keyword").hits]


def test_what_an_editor_did_is_found_at_once(repo: Path, memory: Memory) -> None:
    saved = memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
    path = repo / saved.path
    write(path.with_suffix(".tmp"), path.read_text() + "\nZebra line.\n").replace(path)
    assert titles(memory, "zebra") == ["Use Redis"]
    write(repo / "memory/decisions/new/deep/er/hand.md", "# Hand written wombat\n")
    assert titles(memory, "wombat") == ["Hand written wombat"]
    moved = repo / "memory/elsewhere/moved.md"
    moved.parent.mkdir()
    path.rename(moved)
    assert memory.update(saved.id, outcome="success", reason="fast").path == "memory/elsewhere/moved.md"
    moved.unlink()
    assert titles(memory, "zebra") == []


def test_a_write_in_place_is_found_when_a_look_is_due(repo: Path, memory: Memory) -> None:
    path = repo / memory.save(topic="caching", decision="Use Redis", reasoning="Several processes").path
    memory.refresh(full=True)
    with path.open("a") as file:
        file.write("\nSharded by tenant quokka.\n")
    memory._store.index.note(head=memory._store.index.notes.head, looked=(1, 1))  # the last look was long ago
    assert titles(memory, "quokka") == ["Use Redis"]


def test_a_decision_written_by_hand_is_superseded_by_the_next_save(repo: Path, memory: Memory) -> None:
    memory.save(topic="other", decision="Do else", reasoning="r")
    write(repo / "memory/decisions/caching/hand.md", "---\ntopic: caching\n---\n# Use an LRU cache\n")
    assert memory.save(topic="caching", decision="Use Redis", reasoning="Several").superseded


def test_our_own_saves_call_for_no_look(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.save(topic="first", decision="Decide first", reasoning="r")
    memory.refresh(full=True)
    looks: list[bool] = []
    catch_up: Callable[..., Any] = syncing.catch_up

    def noted(*arguments: Any, **options: Any) -> Any:
        looks.append(options["full"])
        return catch_up(*arguments, **options)

    monkeypatch.setattr(syncing, "catch_up", noted)
    for number in range(3):
        memory.save(topic=f"t{number}", decision=f"Decide {number}", reasoning="r")
        assert titles(memory, f"{number}") == [f"Decide {number}"]
    assert all(looks)  # what comes every two seconds, whatever was saved


WRONG: dict[str, Callable[[Memory], object]] = {
    "topic": lambda memory: memory.history(3),  # type: ignore[arg-type]
    "prefix": lambda memory: memory.topics(3),  # type: ignore[arg-type]
    "part": lambda memory: memory.topic_keys(3),  # type: ignore[arg-type]
    "part of an id": lambda memory: memory.decision_ids(3),  # type: ignore[arg-type]
    "anchor": lambda memory: memory.timeline(anchor=[1]),  # type: ignore[arg-type]
    "query": lambda memory: memory.timeline(query=3),  # type: ignore[arg-type]
    "depth_before": lambda memory: memory.timeline(depth_before="a"),  # type: ignore[arg-type]
    "depth_after": lambda memory: memory.timeline(depth_after=-1),
    "branch": lambda memory: memory.latest_checkpoint(branch=["x"]),  # type: ignore[arg-type]
    "paths": lambda memory: memory.check(None),  # type: ignore[arg-type]
    "path": lambda _: filemem.open(3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("field", WRONG)
def test_a_value_of_the_wrong_type_is_bad_input(field: str, memory: Memory) -> None:
    memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
    with pytest.raises(filemem.BadInput) as refused:
        WRONG[field](memory)
    assert refused.value.field == field.split()[0]


def test_an_update_says_at_once_what_is_wrong_with_its_values(memory: Memory) -> None:
    memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
    for name in ("Use Redis", "no such record"):
        with pytest.raises(filemem.BadInput) as refused:
            memory.update(name, outcome="worked great", status="nope", reason="r" * 501)
        assert refused.value.field == "outcome"
        for told in ("outcome must be one of", "status must be one of", "reason has 501 characters"):
            assert told in refused.value.message
    with pytest.raises(filemem.NotFound):
        memory.update("no such record", outcome="failed", reason="r")


def test_what_a_limit_is_of(memory: Memory) -> None:
    for fields, told, hint in (
        ({"facts": ["x" * 501]}, "facts[0] has 501 characters; at most 500 are kept in one line", "several entries"),
        ({"project": "x" * 501}, "project has 501 characters; at most 500 are kept in one line", "shorten it"),
        ({"text": "x" * 100_001}, "text has 100,001 characters; at most 100,000 are kept in one text", "records"),
    ):
        with pytest.raises(filemem.BadInput) as refused:
            memory.save(**{"title": "t", "text": "x", **fields})
        assert refused.value.message == told
        assert refused.value.hint.endswith(hint)


def test_bytes_that_are_no_utf_8_are_called_so(repo: Path) -> None:
    line = [os.fsencode(FILEMEM), b"save", b"checkpoint", b"--summary", b"caf\xe9"]
    done = subprocess.run(line, cwd=repo, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"summary is not UTF-8: it holds the byte 0xe9" in done.stderr
    assert b"send it as UTF-8" in done.stderr
