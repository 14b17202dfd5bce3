"""Project-Memory's two tools, beyond what a conversation can say."""

from __future__ import annotations

from pathlib import Path

import pytest

import filemem
from filemem.dialects.project_memory import SUMMARY_SIZE, build_summary
from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from tests.dialects.support import good

LONG = " ".join(
    [
        "The scheduler assigns jobs to workers by weight.",
        "It was a rainy day when we looked at it.",
        "Each worker asks the scheduler for jobs when it is idle.",
        "Weights of jobs come from the table of tenants, and tenants may change them.",
        "Lunch was late.",
        "A job that fails three times goes back to the scheduler with half its weight.",
        "The scheduler writes each job it assigns to a journal, from which workers recover their jobs.",
        "Nobody remembers why the journal is called Ferdinand.",
        "A tenant whose jobs starve sees it in the journal of the scheduler.",
    ]
)


@pytest.mark.requirement("prj-summary")
def test_a_long_text_is_kept_whole_with_a_summary_of_its_own_sentences(memory: Memory) -> None:
    saved = good(memory, "project-memory", "save_context", context_text=LONG)
    record = memory.get(saved["id"])[0].record
    short = str(record.metadata["summary"])
    assert record.text == LONG
    assert len(short) <= SUMMARY_SIZE
    assert all(sentence.strip(". ") in LONG for sentence in short.split(". "))
    assert "scheduler" in short
    assert "Lunch" not in short
    assert good(memory, "project-memory", "retrieve_context", query="how are jobs assigned?")[
        "results"
    ] == [LONG]


@pytest.mark.requirement("prj-summary")
def test_summaries_of_odd_texts() -> None:
    assert build_summary("Short text.") == ""
    assert len(build_summary("スケジューラは仕事を割り当てる。" * 60)) <= SUMMARY_SIZE
    assert build_summary("x" * 5_000) == ""
    assert len(build_summary("word. " * 20_000)) <= SUMMARY_SIZE


@pytest.mark.requirement("prj-embedding")
def test_a_text_is_found_by_what_it_means(memory: Memory) -> None:
    for text in (
        "The automobile would not start this morning",
        "We bake bread on Sundays",
        "Rain fell all week",
    ):
        good(memory, "project-memory", "save_context", context_text=text)
    [found] = good(memory, "project-memory", "retrieve_context", query="car trouble", limit=1)[
        "results"
    ]
    assert found == "The automobile would not start this morning"


@pytest.mark.requirement("prj-retrieve-limit", "prj-retrieve")
def test_five_results_unless_more_are_asked_for(memory: Memory) -> None:
    empty = good(memory, "project-memory", "retrieve_context", query="anything")
    assert "filemem init" in empty.pop("note"), "why nothing is found"
    assert empty == {"status": "success", "results": [], "ids": []}
    for n in range(7):
        good(
            memory,
            "project-memory",
            "save_context",
            context_text=f"The fact about pumps number {n}",
        )
    assert len(good(memory, "project-memory", "retrieve_context", query="pumps")["results"]) == 5
    assert (
        len(good(memory, "project-memory", "retrieve_context", query="pumps", limit=7)["results"])
        == 7
    )


@pytest.mark.requirement("prj-library")
def test_the_same_as_a_library(repo: Path) -> None:
    with filemem.open(repo) as memory:
        saved = memory.save(kind="context", text="This is important information to remember.")
        found = memory.search("What important information do we have?", limit=3)
        assert [hit.id for hit in found] == [saved.id]
        assert found.hits[0].title == "This is important information to remember."


@pytest.mark.requirement("prj-tools")
def test_the_two_tools_are_what_is_listed() -> None:
    assert [tool.name for tool in load_profile("project-memory").listed_tools] == [
        "save_context",
        "retrieve_context",
    ]
