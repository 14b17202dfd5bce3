"""The library beside an editor, with no server: what is on disk is what is found."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemem
from filemem.memory import Memory
from tests.support import git, write


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
    assert (
        memory.update(saved.id, outcome="success", reason="fast").path
        == "memory/elsewhere/moved.md"
    )
    moved.unlink()
    assert titles(memory, "zebra") == []


def test_a_write_in_place_is_found_when_a_look_is_due(repo: Path, memory: Memory) -> None:
    path = (
        repo
        / memory.save(topic="caching", decision="Use Redis", reasoning="Several processes").path
    )
    memory.refresh(full=True)
    with path.open("a") as file:
        file.write("\nSharded by tenant quokka.\n")
    memory._store.index.write_notes(looked=1, cost=1)  # the last look was long ago
    assert titles(memory, "quokka") == ["Use Redis"]


def test_a_decision_written_by_hand_is_superseded_by_the_next_save(
    repo: Path, memory: Memory
) -> None:
    memory.save(topic="other", decision="Do else", reasoning="r")
    write(
        repo / "memory/decisions/caching/hand.md", "---\ntopic: caching\n---\n# Use an LRU cache\n"
    )
    assert memory.save(topic="caching", decision="Use Redis", reasoning="Several").superseded


NOT_TEXT: tuple[object, ...] = (None, True, 3, float("nan"), b"x", [], ["x"], {}, object())
NOT_NUMBERS: tuple[object, ...] = (None, True, -1, 10**30, 1.5, float("nan"), "3", [], {}, object())
NOT_FLAGS: tuple[object, ...] = (None, 0, 1, float("nan"), "x", "", [], {}, object())
# What no value of a kind may pass for, by how the parameter is annotated.
WRONG: dict[str, tuple[object, ...]] = {
    "str": NOT_TEXT,
    "int": NOT_NUMBERS,
    "bool": NOT_FLAGS,
    "Any": ("x",),  # of a field that nobody knows
    "Collection[str]": (None, 3, "x", b"x", [None], [3], {"a": 1}, object()),
    "Iterable[str]": (None, 3, "x", b"x", [None], [3], ["\0"], object()),
    **dict.fromkeys(
        ("bytes", "Hit", "Collection[Item]", "Progress | None", "SearchSource | None", "Reader"),
        (),
    ),  # only Python code passes these
}
RIGHT: dict[str, object] = {
    "ids": ["x"],
    "text": "Text",
    "kind": "decision",
    "count": 1,
    "path": "README.md",
    "files": ["README.md"],
    "texts": ["x"],
    "topic": "caching",
    "id": "Use Redis",
    "items": [],
    "system": "mama",
}
NAMES = {
    "topic_or_id": "topic",
    "between": "range",
    "when": "at",
    "wanted": "number",
    "nobody_knows": "topic",
    "ids": "id",
}
PUBLIC = [
    (name, parameter)
    for name, method in inspect.getmembers(Memory, inspect.isfunction)
    if not name.startswith("_")
    for parameter in list(inspect.signature(method).parameters.values())[1:]
]


def test_a_value_of_the_wrong_kind_is_bad_input(memory: Memory) -> None:
    """Each parameter of each public method; nothing is dropped in silence, and no error is that of an inner part."""
    memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
    for name, parameter in PUBLIC:
        method = getattr(memory, name)
        others = [
            one for one in inspect.signature(method).parameters.values() if one.default is one.empty
        ]
        right = {
            one.name: RIGHT.get(one.name) for one in others if one.kind is one.POSITIONAL_OR_KEYWORD
        }
        for value in WRONG[parameter.annotation]:
            positional = (value,) if parameter.kind is parameter.VAR_POSITIONAL else ()
            named = "nobody_knows" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
            with pytest.raises(filemem.BadInput) as refused:
                method(*positional, **({} if positional else {**right, named: value}))
            assert refused.value.field.split("[")[0] in (named, NAMES.get(named), "type"), (
                name,
                parameter,
            )
            assert " object at 0x" not in refused.value.message


def test_an_unknown_name_is_told_with_the_one_that_was_meant(memory: Memory) -> None:
    saved = memory.save(topic="caching", decision="Use Redis", reasoning="Several processes")
    for call, hint in (
        (
            lambda: memory.update(saved.id, outcome="failed", resaon="slow"),
            "did you mean 'reason'?",
        ),
        (
            lambda: memory.save(topic="a", decision="b", reasoning="c", afects=["x"]),
            "did you mean 'affects'?",
        ),
        (lambda: memory.search("x", topics="caching"), "did you mean 'topic'?"),
        (lambda: memory.update(saved.id, outcome="failed", resaon=None), "did you mean 'reason'?"),
        (
            lambda: memory.save(topic="a", decision="b", reasoning="c", afects=None),
            "did you mean 'affects'?",
        ),
        (lambda: memory.search("x", topics=None), "did you mean 'topic'?"),
    ):
        with pytest.raises(filemem.BadInput) as refused:
            call()
        assert refused.value.hint == hint
    assert not memory.get(saved.id)[0].record.outcomes


def test_what_looks_like_a_secret_may_be_allowed_in_an_update_too(memory: Memory) -> None:
    saved = memory.save(title="Where the key was", text="It leaked, and is revoked.")
    text = "It was AKIA" + "Z7QK4MPLR2XWVT5N"
    with pytest.raises(filemem.BadInput, match="allow_secret"):
        memory.update(saved.id, text=text)
    memory.update(saved.id, text=text, allow_secret=True)
    assert memory.get(saved.id)[0].record.secrets_allowed
    assert not [problem for problem in memory.check()[1] if problem.level == "error"]


def test_an_update_to_what_a_record_says_already_changes_nothing(
    repo: Path, memory: Memory
) -> None:
    saved = memory.save(
        topic="caching", decision="Use Redis", reasoning="Several processes", tags=["a"]
    )
    head, path = git(repo, "rev-parse", "HEAD"), repo / saved.path
    before = path.read_bytes()
    for fields in (
        {"status": "accepted"},
        {"tags": ["a"]},
        {"title": "Use Redis"},
        {"text": "Several processes"},
    ):
        done = memory.update(saved.id, **fields)
        assert done.message.endswith("; nothing was written"), done
        assert (path.read_bytes(), git(repo, "rev-parse", "HEAD")) == (before, head)
    path.write_bytes(before.replace(b"type: decision\n", b"type: decision\nstatus: deprecated\n"))
    with pytest.raises(filemem.Conflict, match="edits that are not committed"):
        memory.update(saved.id, status="deprecated")
