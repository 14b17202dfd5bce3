"""Ways in which an index once differed from a rebuild: each is a short run of the state machine, ending in a look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import git, write
from tests.system.test_sync_machine import Synced

Case = Callable[[Synced], None]


@pytest.fixture
def state() -> Iterator[Synced]:
    """Two decisions, saved and looked at."""
    machine = Synced()
    machine.begin()
    machine.look()
    try:
        yield machine
    finally:
        machine.close()


def removed_and_checked_out_again(state: Synced) -> None:
    path = state._pick(0)
    assert path is not None
    path.unlink()
    state.look()
    git(state.repo, "checkout", "--", ".")


def target_of_a_link_removed_and_back(state: Synced) -> None:
    target = state._pick(0)
    assert target is not None
    link = f"---\ntopic: auth\nsupersedes: [{target.relative_to(state.store)}]\n---\n# Linked\n"
    write(state.store / "decisions/link.md", link)
    state.look()
    target.unlink()
    state.look()
    git(state.repo, "checkout", "--", ".")


def committed_with_a_link_to_nothing(state: Synced) -> None:
    write(state.store / "decisions/link.md", "---\ntopic: auth\nsupersedes: [nothing]\n---\n# Linked\n")
    state.commit()
    state.look()
    write(state.store / "decisions/other.md", "# Something else\n")


def copied_and_not_committed(state: Synced) -> None:
    path = state._pick(0)
    assert path is not None
    write(state.store / "decisions/a-copy.md", path.read_text())
    state.look()
    original = str(path.relative_to(state.store))
    owners = {node.path for node in state.memory._store.nodes() if node.id == state.ids[1]}
    assert owners == {original}, "what is committed keeps its id"


def copied_and_the_original_removed(state: Synced) -> None:
    path = state._pick(0)
    assert path is not None
    write(state.store / "decisions/copy.md", path.read_text())
    state.look()
    path.unlink()
    state.look()
    git(state.repo, "checkout", "--", ".")


def renamed_then_committed(state: Synced) -> None:
    state.rename_folder(0)
    state.rename_folder(1)
    state.look()
    state.commit()


def saved_then_reset(state: Synced) -> None:
    state.save("caching", "redis", False)
    state.reset("--mixed")
    state.look()
    state.commit()


def saved_then_reset_hard(state: Synced) -> None:
    state.save("caching", "redis", False)
    there = {path.name for path in state.store.rglob("*.md")}
    git(state.repo, "reset", "-q", "--hard", "HEAD~1")
    state.look()
    assert {path.name for path in state.store.rglob("*.md")} < there, "the user took it back"


def saved_on_a_branch_and_squashed(state: Synced) -> None:
    state.checkout("other")
    for word in ("redis", "tokens"):
        state.save("caching", word, False)
    state.checkout("main")
    state.glance()
    git(state.repo, "merge", "-q", "--squash", "other")
    state.commit()
    state.glance()


def proposed_and_not_yet_looked_at(state: Synced) -> None:
    state.memory.save(topic="caching", decision="Perhaps tokens", reasoning="r", status="proposed")
    assert "Perhaps tokens" not in {hit.record.title for hit in state.memory.search("", live=True).hits}


def superseded_and_the_newer_one_deleted(state: Synced) -> None:
    state.save("caching", "lru", False)
    state.glance()
    for one in tuple(state.ids):
        hit = state.memory.get(one)[0]
        if hit.record.supersedes:
            state.memory.delete(one)
    live = {hit.record.topic for hit in state.memory.search("", live=True).hits}
    assert live == {"caching", "auth"}, "what was replaced holds again, at once"


def by_hand(state: Synced, name: str, title: str, refers: str = "") -> Path:
    edge = f"supersedes: [{refers}]\n" if refers else ""
    return write(state.store / f"decisions/{name}.md", f"---\ntopic: {title}\n{edge}---\n# {title}\n")


def title_taken_by_another(state: Synced) -> None:
    by_hand(state, "link", "Linked", "Use nothing")
    other = by_hand(state, "other", "Use something")
    state.look()
    other.write_text(other.read_text().replace("something", "nothing"))


def title_taken_by_a_save(state: Synced) -> None:
    by_hand(state, "link", "Linked", "Use lru number 3")
    state.look()
    state.save("auth", "lru", False)


def title_given_up_by_an_update(state: Synced) -> None:
    by_hand(state, "link", "Linked", "Note 3")
    state.observe("lru", False)
    state.look()
    state.memory.update(state.ids[-1], title="Something else")
    assert state.memory._store.index.pending(), "it waits to be folded in"


def name_taken_by_a_second_file(state: Synced) -> None:
    by_hand(state, "one/name", "One")
    by_hand(state, "link", "Linked", "name.md")
    state.look()
    second = by_hand(state, "two/name", "Two")
    state.look()
    second.unlink()


def removed_then_committed_then_taken_back(state: Synced) -> None:
    target = by_hand(state, "target", "Target")
    by_hand(state, "link", "Linked", "target.md")
    state.commit()
    state.look()
    target.unlink()
    state.look()
    state.commit()
    state.look()
    git(state.repo, "reset", "-q", "--soft", "HEAD~1")


def names_exchanged(state: Synced) -> None:
    one = by_hand(state, "one", "One")
    by_hand(state, "link", "Linked", "one.md")
    state.commit()
    state.look()
    other = by_hand(state, "other", "Other", "one.md")
    texts = one.read_text(), other.read_text()
    for path, text in zip((other, one), texts, strict=True):
        path.write_text(text)
    state.commit()
    state.look()
    by_hand(state, "two/one", "Another")
    state.commit()


CASES: tuple[Case, ...] = (
    removed_and_checked_out_again,
    target_of_a_link_removed_and_back,
    committed_with_a_link_to_nothing,
    copied_and_not_committed,
    copied_and_the_original_removed,
    renamed_then_committed,
    saved_then_reset,
    saved_then_reset_hard,
    saved_on_a_branch_and_squashed,
    proposed_and_not_yet_looked_at,
    superseded_and_the_newer_one_deleted,
    title_taken_by_another,
    title_taken_by_a_save,
    title_given_up_by_an_update,
    name_taken_by_a_second_file,
    removed_then_committed_then_taken_back,
    names_exchanged,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_index_is_that_of_a_rebuild(state: Synced, case: Case) -> None:
    case(state)
    state.look()
    state.glance()
    state.look()
