"""Decisions and code: `why` names what governs a file and what made its lines, the surest first; drift is worked out
from Git and stored nowhere; evidence comes from commit messages and is answered by an outcome; nothing that a
repository configures runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import BadInput, NotFound
from filemem.memory import Memory
from tests.support import git, write
from tests.system.tools import snapshot

LINES = "".join(f"line {number}\n" for number in range(1, 11))
LATER: dict[str, Any] = {
    "GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z",
    "GIT_AUTHOR_DATE": "2099-01-01T00:00:00Z",
}


def commit(memory: Memory, message: str, /, *, gone: str = "", **files: str) -> str:
    """Write files (`__` for `/`, `_py` for `.py`) and commit them, after all that was saved before."""
    repo = memory.work_tree
    for name, text in files.items():
        write(repo / name.replace("__", "/").replace("_py", ".py"), text)
    if gone:
        git(repo, "rm", "-q", "-r", gone)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", message, **LATER)
    memory.refresh()
    return git(repo, "rev-parse", "HEAD")


def decide(
    memory: Memory, topic: str, decision: str, *affects: str, reasoning: str = "For one reason."
) -> str:
    return memory.save(
        topic=topic, decision=decision, reasoning=reasoning, affects=list(affects)
    ).id


def drift(memory: Memory, one: str) -> str:
    told = memory.get(one)[0].drift
    return "" if told is None or not (told.has_drifted or told.reason) else str(told)


def evidence(memory: Memory, one: str) -> list[str]:
    return [str(told) for told in memory.get(one)[0].evidence]


def why(memory: Memory, place: str) -> list[tuple[str, str]]:
    return [(reason.kind, reason.hit.title) for reason in memory.why(place).reasons]


def advice(memory: Memory, **how: Any) -> list[tuple[str, str]]:
    """What check says of code and commits."""
    return [
        (one.code, one.level) for one in memory.check(**how)[1] if one.code in ("drift", "evidence")
    ]


def revert(memory: Memory, what: str = "HEAD") -> str:
    git(
        memory.work_tree,
        "revert",
        "--no-edit",
        *(["-m", "1"] if what.endswith("^0") else []),
        what,
        **LATER,
    )
    memory.refresh()
    return git(memory.work_tree, "rev-parse", "HEAD")


def test_the_surest_come_first(memory: Memory) -> None:
    commit(memory, "Code", src__cache__lru_py=LINES)
    decide(memory, "code style", "All code is formatted by a tool", "src/**")
    decide(memory, "caching", "Use Redis", "src/cache/lru.py")
    decide(memory, "caching", "Use an LRU cache", "src/cache/lru.py", "src/cache/keys.py")
    near = "The src cache lru py evicts line 1, line 2 and line 3 first."
    decide(memory, "eviction", "The lru cache evicts by time", reasoning=near)
    decide(memory, "logging", "Log as JSON", "src/log.py")
    assert why(memory, "src/cache/lru.py") == [
        ("governs", "Use an LRU cache"),
        ("governs", "All code is formatted by a tool"),
        ("near", "The lru cache evicts by time"),
    ]
    assert memory.why("src/cache/lru.py").reasons[1].because == "affects src/**"
    answer = memory.why("src/cache/lru.py", limit=1)
    assert (len(answer.reasons), answer.total) == (1, 2)
    assert {hit.title for hit in memory.search(path="src/cache/lru.py", live=True)} == {
        "Use an LRU cache",
        "All code is formatted by a tool",
    }


def test_a_line_leads_to_the_decisions_of_its_commit(memory: Memory) -> None:
    commit(memory, "Code", code_py=LINES)
    write(
        memory.work_tree / "memory/decisions/seven.md",
        "---\ntopic: seven\n---\n# Seven is special\n",
    )
    changed = commit(memory, "Make it so", code_py=LINES.replace("line 7", "LINE 7"))
    one = decide(memory, "nine", "Nine is odd")
    text = (memory.work_tree / "code.py").read_text()
    commit(memory, f"Nine\n\nDecision: {one}", code_py=text.replace("line 9", "LINE 9"))
    assert ("touched", "Seven is special") in why(memory, "code.py:7")
    assert ("touched", "Nine is odd") in why(memory, "code.py:9")
    assert "touched" not in dict(why(memory, "code.py:3"))
    assert {title for kind, title in why(memory, "code.py") if kind == "touched"} == {
        "Seven is special",
        "Nine is odd",
    }
    assert {title for kind, title in why(memory, "code.py#L6-L9") if kind == "touched"} == {
        "Seven is special",
        "Nine is odd",
    }
    write(memory.work_tree / "code.py", "# new\n" + (memory.work_tree / "code.py").read_text())
    answer = memory.why("code.py:8")
    assert (
        f"came with {changed[:10]}, which changed line 8: Make it so" in answer.reasons[0].because
    )
    assert memory.why("code.py:1").note == "not committed yet: line 1"
    git(memory.work_tree, "checkout", "-q", "code.py")
    git(memory.work_tree, "mv", "code.py", "renamed.py")
    commit(memory, "Rename")
    assert ("touched", "Seven is special") in why(memory, "renamed.py:7")


def test_a_file_is_governed_under_the_name_it_had(memory: Memory) -> None:
    commit(memory, "Code", src__old_py=LINES)
    one = decide(memory, "naming", "Keep it small", "src/old.py")
    git(memory.work_tree, "mv", "src/old.py", "src/new.py")
    commit(memory, "Rename")
    assert why(memory, "src/new.py") == [("governs", "Keep it small")]
    assert drift(memory, one) == "", "a rename is no drift"
    commit(memory, "Change", src__new_py=LINES + "more\n")
    assert drift(memory, one).startswith("missing (1 of 1 file"), "it is not that file any more"


NO_PLACES: list[tuple[str, type[Exception], str]] = [
    ("../x.py", BadInput, "outside the work tree"),
    ("/etc/passwd", BadInput, "outside the work tree"),
    ("code.py:99", BadInput, "has 1 line"),
    ("cod.py", NotFound, "did you mean code.py?"),
    ("out.py", BadInput, "leads out of the work tree"),
    ("x" * 300, BadInput, "too long"),
]


def test_places_that_are_none(memory: Memory, tmp_path: Path) -> None:
    (memory.work_tree / "out.py").symlink_to(write(tmp_path / "secret", "password\n"))
    for place, error, words in NO_PLACES:
        with pytest.raises(error) as refused:
            memory.why(place)
        assert words in f"{refused.value} {getattr(refused.value, 'hint', '')}", place


def test_drift_is_worked_out_from_git_and_looking_refreshes_nothing(memory: Memory) -> None:
    commit(memory, "Code", src__a_py="a\n", src__b_py="b\n", src__c_py="c\n", other_py="x\n")
    one = decide(memory, "src", "Keep src simple", "src/*.py")
    commit(memory, "Elsewhere", other_py="y\n", src__new_py="came later\n")
    assert drift(memory, one) == "", "silent where nothing that it governed changed"
    commit(memory, "Change", src__a_py="A\n", src__b_py="B\n")
    commit(memory, "Change more", src__a_py="AA\n")
    told = "changed (2 of 4 files)"
    before = snapshot(memory.work_tree)
    for _ in range(2):
        assert drift(memory, one) == told
        assert str(memory.why("src/c.py").reasons[0].hit.drift) == told
        assert str(memory.search(path="src/a.py").hits[0].drift) == told
        assert advice(memory) == []
    assert snapshot(memory.work_tree) == before
    commit(memory, "Take it back", src__a_py="a\n", src__b_py="b\n")
    assert drift(memory, one) == ""
    commit(memory, "Remove", gone="src")
    assert drift(memory, one).startswith("missing (3 of 3 files")
    assert advice(memory) == [("drift", "warning")]


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_a_decision_lands_with_its_branch_however_it_is_merged(memory: Memory, how: str) -> None:
    repo = memory.work_tree
    commit(memory, "Code", code_py="1\n")
    git(repo, "checkout", "-q", "-b", "feature")
    one = decide(memory, "code", "Rewrite it", "code.py")
    commit(memory, "Rewrite", code_py="2\n")
    git(repo, "checkout", "-q", "main")
    git(
        repo, "merge", "-q", how, *(["-m", "Merge"] if how == "--no-ff" else []), "feature", **LATER
    )
    if how == "--squash":
        git(repo, "commit", "-q", "-m", "Feature", **LATER)
    memory.refresh()
    assert drift(memory, one) == ""
    commit(memory, "Change", code_py="3\n")
    assert drift(memory, one) == "changed (1 of 1 file)"


def test_what_is_not_known_is_not_called_stale(repo: Path, memory: Memory, tmp_path: Path) -> None:
    commit(memory, "Code", code_py="1\n")
    abroad = decide(memory, "abroad", "Follow the other project", "../other/x.py")
    planned = decide(memory, "plan", "There will be a file", "src/planned.py")
    known = decide(memory, "code", "Keep it", "code.py")
    assert drift(memory, abroad) == "unknown: it names no path of this repository"
    assert drift(memory, planned) == "unknown: src/planned.py: not in Git"
    commit(memory, "Change", code_py="2\n")
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    with Memory.open(tmp_path / "shallow") as shallow:
        assert drift(shallow, known).startswith("unknown: history is incomplete here")
    write(repo / "memory/decisions/new.md", "---\ntopic: t\naffects: code.py\n---\n# New\n")
    memory.refresh()
    assert drift(memory, "memory/decisions/new.md") == "unknown: the decision is not committed yet"


def test_a_commit_that_carries_a_decision_out_is_no_drift(memory: Memory) -> None:
    commit(memory, "Code", code_py="1\n")
    one = decide(memory, "code", "Rewrite it", "code.py")
    commit(memory, f"Rewrite\n\nDecision: {one.rpartition('_')[2]}", code_py="2\n")
    assert drift(memory, one) == ""
    git(memory.work_tree, "checkout", "-q", "-b", "feature")
    commit(memory, f"Rewrite more\n\nDecision: {one}\nOutcome: success", code_py="3\n")
    git(memory.work_tree, "checkout", "-q", "main")
    git(memory.work_tree, "merge", "-q", "--no-ff", "--no-edit", "feature", **LATER)
    memory.refresh()
    assert drift(memory, one) == "", "nor is the merge that brought such a commit"
    commit(memory, f"Give up\n\nDecision: {one}\nOutcome: failed", code_py="4\n")
    assert drift(memory, one).startswith("changed"), (
        "what says that it failed does not carry it out"
    )


def test_an_outcome_that_is_newer_silences_the_warning(memory: Memory) -> None:
    repo = memory.work_tree
    write(repo / "code.py", "1\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Code")
    one = decide(memory, "code", "Keep it", "code.py")
    git(repo, "rm", "-q", "code.py")
    git(repo, "commit", "-q", "-m", "Remove", GIT_COMMITTER_DATE=datetime.now(UTC).isoformat())
    assert advice(memory) == [("drift", "warning")]
    memory.update(one, outcome="success", reason="It did its work")
    assert advice(memory) == []


def test_a_revert_speaks_against_a_decision_until_an_outcome_answers(memory: Memory) -> None:
    commit(memory, "Code", code_py="1\n")
    one = decide(memory, "code", "Rewrite it")
    done = commit(memory, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    assert evidence(memory, one) == []
    before = snapshot(memory.work_tree / "memory")
    git(memory.work_tree, "revert", "--no-edit", done)
    memory.refresh()
    told = [f"possibly failed: reverted in {git(memory.work_tree, 'rev-parse', 'HEAD')[:10]}"]
    assert evidence(memory, one) == told
    assert [str(each) for each in memory.history("code").chain[0].hit.evidence] == told
    assert advice(memory) == [("evidence", "warning")]
    assert snapshot(memory.work_tree / "memory") == before, "nothing is changed silently"
    memory.update(one, outcome="partial", reason="Half of it came back")
    assert (evidence(memory, one), advice(memory)) == ([], [])


def test_a_revert_that_was_reverted_counts_for_nothing(memory: Memory) -> None:
    commit(memory, "Code", code_py="1\n")
    one = decide(memory, "code", "Rewrite it")
    done = commit(memory, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    undone = revert(memory, done)
    revert(memory, undone)
    assert evidence(memory, one) == []


def test_trailers_say_what_came_of_each_decision(memory: Memory) -> None:
    commit(memory, "Code", code_py="1\n", more_py="1\n")
    one, other = (
        decide(memory, "code", "Keep it", "code.py"),
        decide(memory, "more", "Keep that", "more.py"),
    )
    told = (
        f"Try\n\nDecision: Keep it\nOutcome: success\ndecision: {other}\nOUTCOME: failed: too slow"
    )
    made = commit(memory, told, code_py="2\n", more_py="2\n")
    assert evidence(memory, one) == [f"possibly success: {made[:10]} says so: Try"]
    assert evidence(memory, other) == [f"possibly failed: {made[:10]} says so: too slow"]
    assert (drift(memory, one), drift(memory, other)) == ("", "changed (1 of 1 file)")
    memory.update(other, outcome="failed", reason="too slow")
    assert evidence(memory, other) == [], "the record says so itself"


def test_a_file_can_neither_make_evidence_nor_hide_it(memory: Memory) -> None:
    one = decide(
        memory,
        "code",
        "Keep it",
        reasoning="Decision: Keep it\nOutcome: failed\nThis reverts commit HEAD.",
    )
    assert evidence(memory, one) == []
