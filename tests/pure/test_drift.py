"""Drift and evidence as values: what arrivals and claims say of a decision."""

from __future__ import annotations

import pytest

from filemem.query.drift import CHANGED, FRESH, MISSING, UNKNOWN, Arrival, Drift, Row, drift, fixed, rewritten
from filemem.query.evidence import Claim, evidence, reverted, said
from filemem.query.filter import within


def arrivals(*each: str, decisions: tuple[str, ...] = ()) -> list[Arrival]:
    """Arrivals written as `path:before:after ...`, one text each."""
    rows = [tuple(Row(*row.split(":")) for row in text.split()) for text in each]
    return [Arrival(f"c{number}", number, decisions, found) for number, found in enumerate(rows)]


def look(*patterns: str, later: list[Arrival], now: str, **more: object) -> Drift:
    return drift(patterns, later, now.split(), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("patterns", "later", "now", "told"),
    [
        ("a.py", (), "a.py", "fresh"),
        ("a.py", ("b.py:1:2",), "a.py b.py", "fresh"),
        ("a.py", ("a.py:1:2",), "a.py", "changed (1 of 1 file, 1 commit)"),
        (
            "src",
            ("src/a:1:2 src/b:1:2", "src/a:2:3", "x:1:2"),
            "src/a src/b src/c x",
            "changed (2 of 3 files, 2 commits)",
        ),
        ("src/*.py", ("src/a.py:1:2 src/a.ts:1:2",), "src/a.py src/b.py src/a.ts", "changed (1 of 2 files, 1 commit)"),
        ("a.py", ("a.py:1:2", "a.py:2:1"), "a.py", "fresh"),  # taken back
        ("a.py", ("a.py:1:",), "", "missing (1 of 1 file, 1 commit): a.py is gone"),
        ("a.py b.py", ("a.py:1:",), "b.py", "missing (1 of 2 files, 1 commit): a.py is gone"),
        ("src", ("src/a:1:",), "src/b", "changed (1 of 2 files, 1 commit): src/a is gone"),
        ("a.py", ("a.py:1:", "a.py::1"), "a.py", "fresh"),  # removed and brought back
        ("a.py", ("a.py::1",), "a.py", "fresh"),  # came after the decision
        ("a.py", ("a.py::1", "a.py:1:2"), "a.py", "changed (1 of 1 file, 1 commit)"),
        ("web/**", ("web/a::1", "web/a:1:"), "", "fresh"),  # came and was taken back
        ("web/**", ("web/a::1", "web/a:1:2", "web/a:2:"), "", "missing (1 of 1 file, 2 commits): web/a is gone"),
        ("web/**", ("web/a::1", "web/a:1:", "web/a::2", "web/a:2:3"), "web/a", "changed (1 of 1 file, 1 commit)"),
        ("web/a", ("web/a::1", "web/a:1:"), "", "missing (1 of 1 file, 1 commit): web/a is gone"),  # a stated path
        ("web/a", ("web/a::1", "web/a:1:", "web/a::2"), "web/a", "fresh"),
        ("nowhere.py", (), "a.py", "unknown: nowhere.py is not in Git"),
        ("../other/x.py", (), "a.py", "unknown: it names no path of this repository"),
        ("../other/x.py a.py", ("a.py:1:2",), "a.py", "changed (1 of 1 file, 1 commit)"),
    ],
)
def test_verdicts(patterns: str, later: tuple[str, ...], now: str, told: str) -> None:
    assert str(look(*patterns.split(), later=arrivals(*later), now=now)) == told


def test_a_renamed_file_is_compared_with_what_it_was() -> None:
    moved = {"a.py": "b.py"}
    same = look("a.py", later=arrivals("a.py:1: b.py::1"), now="b.py", renamed=moved)
    assert str(same) == "fresh"
    edited = look("a.py", later=arrivals("a.py:1: b.py::1", "b.py:1:2"), now="b.py", renamed=moved)
    assert (str(edited), edited.changed) == ("changed (1 of 1 file, 1 commit)", ("b.py",))


def test_a_commit_that_names_the_decision_carries_it_out() -> None:
    done = arrivals("a.py:1:2", decisions=("d1",))
    assert look("a.py", later=done, now="a.py", names=("d1",)).verdict == "fresh"
    assert look("a.py", later=done, now="a.py", names=("d2",)).verdict == "changed"
    came = [*arrivals("b.py:1:2"), Arrival("done", 1, ("d1",), (Row("b.py", "2", "3"),))]
    older = look("b.py", later=came, now="b.py", names=("d1",))
    assert str(older) == "changed (1 of 1 file, 1 commit)", "what had drifted before is no part of it"
    gone = [*arrivals("c.py::1", decisions=("d1",)), Arrival("undone", 1, (), (Row("c.py", "1", ""),))]
    assert look("c.py", later=gone, now="", names=("d1",)).verdict == "missing"
    after = [*done, Arrival("late", 9, (), (Row("a.py", "2", "3"),))]
    assert str(look("a.py", later=after, now="a.py", names=("d1",))) == "changed (1 of 1 file, 1 commit)"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a b c d", "a b c d e f g h i j", False),  # grew
        ("a b c d", "d c b a", False),  # moved about
        ("a b c d", "a b x y", False),  # half is left
        ("a b c d", "a x y z", True),
        ("a a a a", "a", True),  # a line counts as often as it stands
        ("a b", "", True),
        ("", "a", False),
    ],
)
def test_a_file_is_rewritten_when_less_than_half_is_left(before: str, after: str, told: bool) -> None:
    old, new = (text.replace(" ", "\n").encode() for text in (before, after))
    assert rewritten(old, new) == told
    indented = b"\r\n\n".join(b"\t" + line for line in new.split(b"\n"))
    assert rewritten(old, indented) == told


@pytest.mark.parametrize(
    ("found", "count", "told"),
    [
        (Drift(FRESH, files=1), 0, False),
        (Drift(UNKNOWN), 0, False),
        (Drift(CHANGED, ("a",), files=1), 0, False),
        (Drift(CHANGED, ("a",), files=1), 1, True),
        (Drift(CHANGED, ("a",), files=3), 1, False),
        (Drift(CHANGED, ("a",), ("b",), files=4), 1, True),  # what is gone counts as rewritten
        (Drift(MISSING, (), ("a",), files=9), 0, True),  # whatever else is there
    ],
)
def test_a_decision_is_outgrown_with_half_of_its_files(found: Drift, count: int, told: bool) -> None:
    assert found.outgrown(count) == told


@pytest.mark.parametrize(
    ("pattern", "inside", "start"),
    [
        ("src/*.py", True, "src"),
        ("src/**/x.py", True, "src"),
        ("**/x.py", True, ""),
        ("./src/a.py", True, "src/a.py"),
        ("src\\a.py", True, "src/a.py"),
        ("../a.py", False, "../a.py"),
        ("src/../a.py", True, "a.py"),
        ("src/x/../../lib/*.py", True, "lib"),
        ("src/../../a.py", False, "../a.py"),
        ("src/*/../a.py", False, "src"),
        ("/etc/passwd", False, "etc/passwd"),
        ("C:\\x", False, "C:/x"),
        ("https://example.org/x", False, "https:/example.org/x"),
        ("~/x", False, "~/x"),
    ],
)
def test_paths_that_can_be_of_this_repository(pattern: str, inside: bool, start: str) -> None:
    assert within(pattern) == inside
    assert fixed(pattern) == start


OLD, NEW = "a" * 40, "b" * 40


def told(*claims: Claim) -> tuple[str, ...]:
    return tuple(map(str, evidence({"d1"}, {OLD: "Use LRU (#7)"}, claims)))


def test_a_revert_of_the_commit_that_brought_it() -> None:
    assert reverted(f"Because\n\nThis reverts commit {OLD}.\n") == ((OLD, ""),)
    assert reverted(f"This reverts commit {OLD}, reversing\nchanges made to {NEW}.\n") == ((OLD, NEW),)
    assert reverted(f"we say `This reverts commit {OLD}`") == ()
    by_id = Claim(NEW, 5, "Ada", 'Revert "Use LRU"', (OLD,))
    assert told(by_id) == (f"possibly failed: reverted in {NEW[:10]}",)
    assert told(by_id._replace(reverts=("c" * 40,))) == (), "the id counts, not the subject"
    by_title = Claim(NEW, 5, "Ada", 'Revert "Use LRU (#7)" (#8)')
    assert told(by_title) == told(by_id)
    assert told(by_title._replace(subject='Revert "Use Redis"')) == ()


def test_a_revert_that_was_reverted_is_none() -> None:
    first = Claim(NEW, 5, "Ada", 'Revert "Use LRU"', (OLD,))
    again = Claim("c" * 40, 6, "Ada", 'Reapply "Use LRU"', (NEW,))
    assert told(first, again) == ()
    assert told(first, again._replace(at=1)) == (), "clocks run backwards, history does not"
    assert told(first, again._replace(reverts=())) == (), "the subject counts where no id is known"
    out = Claim("d" * 40, 7, "Ada", "Out again", (again.commit,))
    assert told(first, again, out) == ("possibly failed: reverted in dddddddddd",), "it is so since then"


def test_trailers_name_decisions() -> None:
    failed = Claim(NEW, 5, "Ada", "Take it out", (), said([("Decision", "d1"), ("Outcome", "failed")]))
    assert told(failed) == (f"possibly failed: {NEW[:10]} says so: Take it out",)
    assert told(failed._replace(said=said([("Decision", "d2"), ("Outcome", "failed")]))) == ()
    done = Claim("c" * 40, 4, "Ada", "Build the cache", (), said([("Decision", "d1")]))
    assert told(done) == (), "carrying a decision out says nothing of its outcome"
    assert told(done, Claim(NEW, 5, "Ada", "Undo", ("c" * 40,))) == (f"possibly failed: reverted in {NEW[:10]}",)


@pytest.mark.parametrize(
    ("message", "outcomes", "unclear"),
    [
        ("D a", {"a": ""}, {}),
        ("D a, b / O failed", {"a, b": "failed"}, {}),  # one name or two: who knows the decisions tells
        ("D a / O success / D b / O failed", {"a": "success", "b": "failed"}, {}),
        ("D a / O success / D b", {"a": "success", "b": ""}, {}),
        ("D a / D b / O failed", {"a": "failed", "b": "failed"}, {}),
        ("O failed / D a", {"a": "failed"}, {}),
        ("O failed / D a / D b", {"a": "failed", "b": "failed"}, {}),
        ("O success / D a / O failed / D b", {}, {"a": "before every Decision", "b": "before every Decision"}),
        ("D a / O success / O failed", {}, {"a": "it says success and failed"}),
        ("D a / O fail / O failed: slow", {"a": "failed"}, {}),
        ("D a / O success / D a / O failed / D b", {"b": ""}, {"a": "it says success and failed"}),
        ("D a / O failed: too slow", {"a": "failed"}, {}),
        ("D a / O disaster / D b", {"b": ""}, {"a": "'disaster' is none of pending, success, partial, failed"}),
        ("D a / O failed and success", {}, {"a": "'failed and success' is none of"}),
        ("O failed", {}, {}),
    ],
)
def test_an_outcome_is_of_the_decision_before_it(
    message: str, outcomes: dict[str, str], unclear: dict[str, str]
) -> None:
    keys = {"D": "Decision", "O": "outcome"}
    found = said((keys[line[0]], line[2:]) for line in message.split(" / "))
    assert {name: outcome for name, outcome, _ in found.outcomes} == outcomes
    assert found.names == tuple(sorted({**outcomes, **unclear}))
    assert {name: unclear[name] in why for name, why in found.unclear} == dict.fromkeys(unclear, True)
