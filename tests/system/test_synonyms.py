"""A project's own synonyms: read from its memory, checked, never more than a wider search; and what explains a hit."""

from __future__ import annotations

from pathlib import Path

from filemem.memory import Memory
from tests.support import git
from tests.system.tools import cli


def test_a_project_has_words_of_its_own(repo: Path) -> None:
    own = repo / "memory" / "synonyms.txt"
    with Memory.open(repo) as memory:
        saved = memory.save(
            topic="store",
            decision="Keep parcels in Hippo",
            reasoning="It is near.",
            affects=["a.py"],
        )
        memory.save(topic="paint", decision="Paint the shed green", reasoning="It suits the trees.")
        assert not memory.search("zebrastore", mode="keyword").hits
        own.write_text("zebrastore | hippo\n", encoding="utf-8")
        (hit,) = memory.search("zebrastore", mode="keyword").hits
        assert (hit.id, dict(hit.instead)) == (saved.id, {"zebrastore": ("hippo",)})
        assert not memory.search("zebrastore", mode="vector").hits[0].instead
        own.unlink()
        (repo / "elsewhere").write_text("zebrastore | hippo\n", encoding="utf-8")
        own.symlink_to(repo / "elsewhere")
        assert not memory.search("zebrastore", mode="keyword").hits
        own.unlink()
        own.write_bytes(b"\xff\x00 | \n" * 400 + b"zebrastore | hippo\n")
        assert memory.search("zebrastore", mode="keyword").hits


def test_check_names_malformed_lines(repo: Path) -> None:
    with Memory.open(repo) as memory:
        memory.save(topic="store", decision="Keep parcels in Hippo", reasoning="It is near.")
        (repo / "memory" / "synonyms.txt").write_text(
            "# ours\na | b\nalone\nc | d > e\nf |\n", encoding="utf-8"
        )
        found = [
            (one.path, one.line, one.level) for one in memory.check()[1] if one.code == "synonyms"
        ]
        assert found == [
            ("memory/synonyms.txt", 3, "warning"),
            ("memory/synonyms.txt", 5, "warning"),
        ]
        (repo / "memory" / "synonyms.txt").write_text("a | b\n" * 501, encoding="utf-8")
        (one,) = [one for one in memory.check()[1] if one.code == "synonyms"]
        assert (one.line, "500 lines" in one.message) == (500, True)
        (repo / "memory" / "synonyms.txt").write_text("a | b\nalone\n", encoding="utf-8")
        for command in (["switch", "-qc", "words"], ["add", "-A"], ["commit", "-qm", "Words"]):
            git(repo, *command)
        (one,) = memory.check(base="main")[1]
        assert (one.path, one.line, one.code) == ("memory/synonyms.txt", 2, "synonyms")


def test_explain_says_in_words_how_a_score_came_about(repo: Path) -> None:
    with Memory.open(repo) as memory:
        memory.save(
            topic="answers", decision="Keep them in Redis", reasoning="All processes share them."
        )
        memory.save(type="checkpoint", summary="Moved the answers to another machine")
    told = cli(repo, "search", "redis", "answers", "--explain", "-n", "2").out
    for line in (
        " x 0.35: its words, compared with the best match for them",
        "vector ",
        "recency 1.00 x 0.05: its age",
        ": the mean of these by weight is ",
        ", halved: a checkpoint\n",
    ):
        assert line in told
    assert (
        'instead of "cache" it says: redis'
        in cli(repo, "search", "cache", "answers", "--explain").out
    )
    told = cli(repo, "search", "answers", "--mode", "keyword", "--explain").out
    assert " x 1.00: its words" in told
    assert "vector" not in told
