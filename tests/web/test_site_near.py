"""The near records of each page of a site, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import filemem
from filemem.dialects.present import compute_similarity
from filemem.memory import Memory, search
from filemem.repo.history import History
from filemem.web.export import write_site
from filemem.web.graph import group_nearest, list_nearest
from filemem.web.viewer import MAX_SIMILAR, SIMILAR_THRESHOLD
from tests.support import make_repo, write
from tests.system.tools import ok

SAID = {
    "cache size": "Keep the cache of query results in memory",
    "cache store": "Keep the cache of query results in Redis",
    "cache age": "Drop query results from the cache after an hour",
    "letters": "Print letters to customers on blue paper",
    "parcels": "Send parcels to customers by train",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    folder = make_repo(tmp_path / "project")
    for topic, decision in SAID.items():
        given = ("--topic", topic, "--decision", decision, "--reasoning", "Why not")
        ok(folder, "save", "decision", *given)
    for number in range(30):
        text = f"Keep the cache of query results: seen {number} times"
        path = folder / f"memory/observations/{number}.md"
        write(path, f"---\ntype: observation\n---\n# {text}\n")
    ok(folder, "index")
    opened = filemem.open(folder)
    yield opened
    opened.close()


def _pages(out: Path) -> dict[str, list[str]]:
    """The ids of the near records, by the id of the page's record."""
    found: dict[str, list[str]] = {}
    for path in out.glob("d/*/record.js"):
        text = path.read_text(encoding="utf-8").removeprefix("viewerRecord(").rstrip(");\n")
        record = json.loads(text)
        if record["type"] == "decision":
            found[record["id"]] = [one["id"] for one in record.get("similar", [])]
    return found


def test_near_records_are_those_that_a_vector_search_names(memory: Memory, tmp_path: Path) -> None:
    write_site(memory, tmp_path / "out")
    pages = _pages(tmp_path / "out")
    assert len(pages) == len(SAID)
    assert sum(map(len, pages.values())) >= 6
    for hit in memory.get(*pages):
        words = f"{hit.record.topic} {hit.record.decision}"
        hits = memory.search(words, type="decision", mode="vector", recency=False, limit=21).hits
        likeness = {one.id: compute_similarity(one) for one in hits if one.id != hit.id}
        likest = sorted(likeness, key=lambda one: (-likeness[one], one))
        assert (
            pages[hit.id]
            == [one for one in likest if likeness[one] >= SIMILAR_THRESHOLD][:MAX_SIMILAR]
        )


def test_a_site_makes_no_whole_search_for_a_record(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a whole search")

    monkeypatch.setattr(search, "search", refuse)
    write_site(memory, tmp_path / "out")
    assert any(_pages(tmp_path / "out").values())


AREAS = {
    "cache": [
        "results",
        "queries",
        "memory",
        "Redis",
        "keys",
        "age",
        "eviction",
        "size",
        "warm",
        "shared",
    ],
    "queue": [
        "jobs",
        "workers",
        "retries",
        "order",
        "broker",
        "batch",
        "delay",
        "failed",
        "priority",
        "lease",
    ],
    "login": [
        "tokens",
        "session",
        "cookie",
        "password",
        "expiry",
        "device",
        "mail",
        "code",
        "lock",
        "reset",
    ],
    "billing": [
        "invoices",
        "tax",
        "currency",
        "refund",
        "card",
        "receipt",
        "month",
        "plan",
        "discount",
        "address",
    ],
}


def test_nearly_all_near_records_are_those_that_a_question_for_each_names(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "project")
    for area, words in AREAS.items():
        for first, word in enumerate(words):
            other = words[(3 * first + 1) % len(words)]
            name = f"{area} {word}"
            text = f"Keep the {word} of the {area} apart from its {other}"
            path = folder / f"memory/decisions/{area}-{word}.md"
            write(path, f"---\ntype: decision\ntopic: {name}\n---\n# {text}\n")
    ok(folder, "index")
    with filemem.open(folder) as memory:
        hits = memory.get(*(row.node.id for row in memory.build_overview().rows))
        together = group_nearest(memory, hits, MAX_SIMILAR, SIMILAR_THRESHOLD)
        pairs = [
            (list_nearest(memory, hit, MAX_SIMILAR, SIMILAR_THRESHOLD), together[hit.id])
            for hit in hits
        ]
    wanted = [{node.id for node, _ in alone} for alone, _ in pairs]
    answers = [{node.id for node, _ in all_} for _, all_ in pairs]
    total = sum(map(len, wanted))
    assert total > 100
    assert sum(len(a & b) for a, b in zip(wanted, answers, strict=True)) >= 0.9 * total
    assert sum(map(len, answers)) <= 1.1 * total


def test_a_site_compares_all_records_at_once(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a question for one record")

    monkeypatch.setattr(search, "find_similar", refuse)
    write_site(memory, tmp_path / "out")
    assert any(_pages(tmp_path / "out").values())


def test_a_site_without_a_model_names_what_words_find(tmp_path: Path) -> None:
    folder = make_repo(tmp_path / "project")
    for topic in ("cache size", "cache age"):
        given = ("--topic", topic, "--decision", SAID[topic], "--reasoning", "Why not")
        ok(folder, "save", "decision", *given)
    with filemem.open(folder) as memory:
        memory.keeper.store.index.model = None
        hits = memory.get(*(row.node.id for row in memory.build_overview().rows))
        alone = {hit.id: list_nearest(memory, hit, MAX_SIMILAR, 0.0) for hit in hits}
        assert group_nearest(memory, hits, MAX_SIMILAR, 0.0) == alone
        assert any(alone.values())


def test_the_history_is_asked_for_all_pages_at_once(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[int] = []
    touches = History.read_touches

    def counted(self: History, paths: Iterable[str], tip: str = "HEAD") -> Any:
        wanted = list(paths)
        questions.append(len(wanted))
        return touches(self, wanted, tip)

    monkeypatch.setattr(History, "read_touches", counted)
    for path in (memory.work_tree / "memory/observations").iterdir():
        path.unlink()  # these were never committed
    assert write_site(memory, tmp_path / "out") == len(SAID)
    assert len(questions) < len(SAID)
    assert len(SAID) in questions
