"""Forgetting: a record goes by one commit with a tombstone, nothing but `restore` brings it back, history keeps it.

Law 2 too: what is not committed is never removed, and history is the user's to rewrite.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import Memory
from filemem.memory.save import WriteResult
from tests.support import git, write


def tombstone(repo: Path, record_id: str) -> Path:
    return repo / "memory/.forgotten" / hashlib.sha256(record_id.encode()).hexdigest()


def decide(memory: Memory, decision: str, topic: str = "caching", **more: object) -> WriteResult:
    return memory.save(topic=topic, decision=decision, reasoning="r", **more)


def titles(memory: Memory) -> list[str]:
    return sorted(hit.title for hit in memory.search().hits)


def test_forget_and_restore(repo: Path, memory: Memory) -> None:
    old, new = decide(memory, "Use Redis"), decide(memory, "Use an LRU cache")
    before = (repo / new.path).read_bytes()
    done = memory.delete(new.id, reason="a test")
    mark = tombstone(repo, new.id)
    assert mark.read_bytes() == b""
    assert "Git history keeps it" in done.message
    assert git(repo, "show", "--format=", "--name-status", "HEAD").splitlines() == [
        f"A\t{mark.relative_to(repo)}",
        f"D\t{new.path}",
    ]
    assert git(repo, "status", "--porcelain") == ""
    assert [(hit.id, hit.superseded_by) for hit in memory.search().hits] == [(old.id, ())]
    assert not [one for one in memory.check()[1] if one.level != "hint"]
    with pytest.raises(NotFound, match="no record") as gone:
        memory.get(new.id)
    assert "filemem restore" in gone.value.hint

    back = memory.restore(new.id.rpartition("_")[2])
    assert (back.id, back.path) == (new.id, new.path)
    assert (repo / new.path).read_bytes() == before
    assert not mark.exists()
    assert git(repo, "status", "--porcelain") == ""
    assert memory.search("", live=True).hits[0].id == new.id
    for name in (new.id, "nothing"):
        with pytest.raises(NotFound):
            memory.restore(name)


def test_a_record_is_forgotten_by_any_of_its_names(repo: Path, memory: Memory) -> None:
    saved = decide(memory, "Use Redis")
    for name in (saved.id, saved.id[-8:-4], saved.path, Path(saved.path).name, "Use Redis"):
        assert memory.delete(name).id == saved.id, name
        assert not (repo / saved.path).exists()
        assert memory.restore(name).id == saved.id, name
    for short in ("7", saved.id[-8:-5]):
        with pytest.raises(NotFound):
            memory.delete(short)


def test_a_secret_in_a_reason_or_an_agent_stays_in_no_commit_message(memory: Memory) -> None:
    saved, token = decide(memory, "Use Redis"), "ghp_" + "aZ3kQ9xW7vB1nM5cR8tY2uJ4hG6fD0sLpE7i"
    with pytest.raises(BadInput, match="reason, line 1: this looks like a secret"):
        memory.delete(saved.id, reason=f"it held {token}")
    with pytest.raises(BadInput, match="agent, line 1"):
        memory.delete(saved.id, agent=token)
    memory.delete(saved.id, reason=f"it held {token}", allow_secret=True)
    with pytest.raises(BadInput, match="agent, line 1"):
        memory.restore(saved.id, agent=token)


def test_an_edited_record_is_not_forgotten(repo: Path, memory: Memory) -> None:
    path = repo / decide(memory, "Use Redis").path
    path.write_text(f"{path.read_text()}More.\n")
    with pytest.raises(Conflict, match="has edits that are not committed"):
        memory.delete("Use Redis")
    assert path.read_text().endswith("More.\n")


@pytest.mark.parametrize("policy", ["commit", "leave"])
def test_what_was_never_committed_is_not_forgotten_as_nothing_would_keep_it(
    repo: Path, policy: str
) -> None:
    write(repo / ".filemem.toml", f'[commit]\ndecision = "{policy}"\n')
    path = write(repo / "memory/decisions/hours.md", "# Hours of work\n\nOf a person.\n")
    with (
        Memory.open(repo) as memory,
        pytest.raises(Conflict, match="was never committed, so it could not be restored"),
    ):
        memory.delete("hours.md")
    assert path.exists()
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Write")
    with Memory.open(repo) as memory:
        memory.delete("hours.md")
        assert titles(memory) == []
        assert not path.exists()
        memory.restore("memory/decisions/hours.md")
        assert titles(memory) == ["Hours of work"]
    assert git(repo, "status", "--porcelain") == ""


def test_a_private_record_is_forgotten_without_a_trace(repo: Path, memory: Memory) -> None:
    saved = memory.save(title="Mine", text="Only mine.", visibility="private")
    head = git(repo, "rev-parse", "HEAD")
    assert "cannot be restored" in memory.delete(saved.id).message
    assert (titles(memory), git(repo, "rev-parse", "HEAD")) == ([], head)
    assert not tombstone(repo, saved.id).exists()


def test_on_a_detached_head_the_file_goes_and_the_commit_is_the_users(
    repo: Path, memory: Memory
) -> None:
    saved = decide(memory, "Use Redis")
    git(repo, "checkout", "-q", "--detach")
    done = memory.delete(saved.id)
    assert (done.commit, "detached" in done.note) == ("", True)
    assert titles(memory) == []
    assert git(repo, "status", "--porcelain", "--", saved.path) == f" D {saved.path}"
    memory.restore(saved.id)
    assert (repo / saved.path).exists()


def test_a_merge_that_brings_the_file_back_does_not_bring_the_record_back(
    repo: Path, memory: Memory
) -> None:
    saved = decide(memory, "Use Redis")
    git(repo, "switch", "-q", "-c", "side")
    memory.update(saved.id, outcome="failed", reason="slow")
    git(repo, "switch", "-q", "main")
    memory.delete(saved.id)
    git(repo, "merge", "-q", "--no-edit", "side", ok=False)
    git(repo, "add", saved.path)
    git(repo, "commit", "-q", "-m", "Merge and keep the file")
    assert (repo / saved.path).exists()
    assert titles(memory) == []
    memory.restore(saved.id)
    assert titles(memory) == ["Use Redis"]
    assert not tombstone(repo, saved.id).exists()
    assert git(repo, "status", "--porcelain") == ""


def test_a_tombstone_that_comes_alone_hides_and_shows_again_when_it_goes(
    repo: Path, memory: Memory
) -> None:
    saved = decide(memory, "Use Redis")
    mark = write(tombstone(repo, saved.id), "")
    memory.refresh(full=True)
    assert titles(memory) == []
    mark.unlink()
    memory.refresh(full=True)
    assert titles(memory) == ["Use Redis"]


def test_what_the_user_removed_comes_back_by_its_name(repo: Path, memory: Memory) -> None:
    saved = decide(memory, "Use Redis")
    for name, committed in ((saved.id, True), (saved.id[-8:], False), (saved.path, True)):
        (repo / saved.path).unlink()
        if committed:
            git(repo, "commit", "-q", "-a", "-m", "Away")
        memory.refresh(full=True)
        assert titles(memory) == []
        memory.restore(name)
        assert titles(memory) == ["Use Redis"]
        assert git(repo, "status", "--porcelain") == ""


def test_nothing_is_restored_over_another_record(repo: Path, memory: Memory) -> None:
    saved = decide(memory, "Use Redis")
    memory.delete(saved.id)
    write(repo / saved.path, "# Something else\n")
    with pytest.raises(Conflict, match="there is another record"):
        memory.restore(saved.id)
    assert (repo / saved.path).read_text() == "# Something else\n"


def test_a_secret_is_taken_out_of_history_by_one_command_of_the_users(
    repo: Path, memory: Memory
) -> None:
    saved = memory.save(title="Where it is", text="In the drawer.")
    git(repo, "mv", saved.path, "memory/observations/moved.md")
    git(repo, "commit", "-q", "-m", "Move")
    memory.refresh(full=True)
    memory.delete(saved.id)
    head = git(repo, "rev-parse", "HEAD")
    command, _, told = memory.purge_command(saved.id).partition("\n")
    assert command.startswith("git filter-repo --invert-paths ")
    assert {"memory/observations/moved.md", saved.path} <= set(command.split())
    assert all(
        word in told for word in ("clones", "forks", "host", "messages", "change the secret")
    )
    assert git(repo, "rev-parse", "HEAD") == head, "nothing was run"
    with pytest.raises(NotFound):
        memory.purge_command("never was")


def test_undo_refuses_a_removal_of_several(repo: Path, memory: Memory) -> None:
    ids = [memory.save(title=title, text="Text").id for title in ("Tea", "Dark mode")]
    assert memory.delete_several(ids, reason="cleaned up") == 2
    with Memory.open(repo) as later, pytest.raises(Conflict, match="several records"):
        later.undo()


def test_undo_does_not_pass_over_a_private_save(repo: Path, memory: Memory) -> None:
    now = memory.save(text="Tea is at four").created
    memory._store.clock = lambda: now + 2_000
    note = memory.save(text="Ann is ill", visibility="private")
    with pytest.raises(Conflict, match=r"private and has no commit to undo: Ann is ill"):
        memory.undo()
    memory.delete(note.id, reason="typed in error")
    assert "Tea is at four" in memory.undo().message


@pytest.mark.parametrize("serving", [False, True])
def test_undo_after_undo_in_one_open_memory(repo: Path, serving: bool) -> None:
    with Memory.open(repo, serving=serving) as memory:
        first = memory.save(topic="cache", decision="Use Redis", reasoning="It is shared")
        second = memory.save(topic="cache", decision="Use LRU", reasoning="One process")
        assert [memory.undo().id, memory.undo().id] == [second.id, first.id]
        assert not (repo / first.path).exists()
