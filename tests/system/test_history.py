"""The chain of a topic follows from what the files say, whatever Git did to them: branches, merges, squashes, renames,
files of other makers. What Git adds (who, when, which edit) stands beside it, and a clean merge is no edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.errors import Conflict
from filemem.memory import Memory
from filemem.memory.save import WriteResult
from tests.support import TIME, git, sound, write


def decide(memory: Memory, decision: str, topic: str = "caching", **more: object) -> WriteResult:
    return memory.save(topic=topic, decision=decision, reasoning="Because of what we know", **more)


def heads(memory: Memory, topic: str = "caching") -> set[str]:
    return set(memory.history(topic).heads)


def chain(memory: Memory, topic: str = "caching") -> list[str]:
    return [step.hit.title for step in memory.history(topic).chain]


def by_hand(repo: Path, name: str, title: str, header: str = "topic: caching") -> Path:
    return write(
        repo / f"memory/decisions/{name}.md", f"---\n{header}\n---\n# {title}\n\nWritten by hand.\n"
    )


def commit(repo: Path, text: str, author: str = "Ada", date: str = TIME) -> str:
    git(repo, "add", "-A")
    told = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git(repo, "commit", "-q", "-m", text, input=b"", ok=True, **told)
    return git(repo, "rev-parse", "HEAD")


def fork(repo: Path, memory: Memory) -> tuple[WriteResult, WriteResult, WriteResult]:
    """One decision, then another on each of two branches, merged."""
    base = decide(memory, "Use Redis as cache")
    git(repo, "switch", "-q", "-c", "feature")
    memory.refresh()
    theirs = decide(memory, "Use Memcached as cache")
    git(repo, "switch", "-q", "main")
    memory.refresh()
    ours = decide(memory, "Use an LRU cache in the process")
    git(repo, "merge", "-q", "--no-edit", "feature")
    memory.refresh()
    return base, theirs, ours


def test_two_branches_decide_one_topic(repo: Path, memory: Memory) -> None:
    base, theirs, ours = fork(repo, memory)
    assert theirs.superseded == ours.superseded == (base.id,)
    assert heads(memory) == {theirs.id, ours.id}
    assert sorted(chain(memory)[1:]) == [
        "Use Memcached as cache",
        "Use an LRU cache in the process",
    ]
    hits = memory.search("Redis cache", topic="caching").hits
    assert {hit.record.id for hit in hits[:2]} == {theirs.id, ours.id}
    assert (hits[2].record.id, set(hits[2].superseded_by)) == (base.id, {theirs.id, ours.id})
    for hit in hits:
        assert set(hit.heads) == {theirs.id, ours.id}
    assert {hit.record.id for hit in memory.search("cache", live=True).hits} == {theirs.id, ours.id}
    assert any(problem.code == "forked-topic" for problem in memory.check()[1])
    with pytest.raises(Conflict) as refused:
        decide(memory, "Use both")
    assert set(refused.value.heads) == {theirs.id, ours.id}
    end = decide(
        memory, "Use an LRU cache, Memcached where shared", supersedes=[theirs.id, ours.id]
    )
    assert heads(memory) == {end.id}
    assert [hit.record.id for hit in memory.search("cache", live=True).hits] == [end.id]
    assert memory.check()[1] == ()


def test_a_synthesis_on_a_branch_ends_the_fork_for_both(repo: Path, memory: Memory) -> None:
    _, theirs, ours = fork(repo, memory)
    both = decide(memory, "Two levels of cache", synthesizes=[theirs.id, ours.id])
    assert set(both.superseded) == {theirs.id, ours.id}
    assert heads(memory) == {both.id}
    kinds = {edge.kind for hit in memory.get(ours.id) for edge in hit.related}
    assert "synthesized_by" in kinds


def test_hand_written_files_follow_each_other_by_time(repo: Path, memory: Memory) -> None:
    by_hand(repo, "b", "Then NATS", 'topic: caching\ncreated: "2025-02-01"')
    by_hand(repo, "a", "Last Kafka", "topic: Caching\ncreated: 2025-03-01")
    by_hand(repo, "c", "First Redis", "topic: caching\ncreated: 2025-01-01")
    by_hand(repo, "d", "Not a matter of caching", "topic: other")
    memory.refresh()
    told = memory.history("caching")
    assert [(step.hit.title, step.implied) for step in told.chain] == [
        ("First Redis", False),
        ("Then NATS", True),
        ("Last Kafka", True),
    ]
    assert told.heads == (told.chain[2].hit.id,)
    assert [hit.record.title for hit in memory.search("", topic="caching", live=True).hits] == [
        "Last Kafka"
    ]


def test_without_a_date_the_first_commit_counts(repo: Path, memory: Memory) -> None:
    for number, name in enumerate(("z", "m", "a")):
        by_hand(repo, name, f"Decision {number}")
        date = f"2025-0{number + 1}-01T00:00:00Z"
        commit(repo, name, date=date)
    memory.refresh()
    assert chain(memory) == ["Decision 0", "Decision 1", "Decision 2"]


def test_a_removed_link_is_bridged(repo: Path, memory: Memory) -> None:
    saved = [decide(memory, f"Decision {number}") for number in range(3)]
    memory.delete(saved[1].id)
    memory.refresh()
    assert chain(memory) == ["Decision 0", "Decision 2"]
    assert heads(memory) == {saved[2].id}
    assert [hit.record.id for hit in memory.search("Decision 0", live=True).hits] == [saved[2].id]
    assert {problem.level for problem in memory.check()[1]} <= {"hint"}, (
        "removed on purpose, as a tombstone shows"
    )


@pytest.mark.parametrize("status", ["proposed", "rejected"])
def test_what_is_not_accepted_never_demotes(memory: Memory, status: str) -> None:
    first = decide(memory, "Use Redis")
    second = decide(memory, "Use NATS", status=status)
    assert heads(memory) == {first.id}
    assert {hit.record.id for hit in memory.search("use", topic="caching", live=True).hits} == {
        first.id
    }
    memory.update(second.id, status="accepted")
    assert heads(memory) == {second.id}


def test_after_a_deprecated_end_the_chain_goes_on(memory: Memory) -> None:
    first = decide(memory, "Use Redis")
    memory.update(first.id, status="deprecated")
    assert heads(memory) == set()
    second = decide(memory, "Use NATS")
    assert second.superseded == (first.id,)


def test_an_edge_across_topics_is_followed(memory: Memory) -> None:
    old = decide(memory, "Sessions in Redis", topic="sessions")
    new = decide(memory, "Everything in Postgres", topic="storage", supersedes=[old.id])
    told = memory.history("sessions")
    assert told.heads == (new.id,)
    assert [(step.hit.id, step.foreign) for step in told.chain] == [(old.id, False), (new.id, True)]


def test_an_edit_in_place_is_a_revision_and_a_rename_keeps_who_decided(
    repo: Path, memory: Memory
) -> None:
    saved = decide(memory, "Use Redis")
    path = repo / saved.path
    path.write_text(path.read_text().replace("Because", "Because, as Grace says,"))
    edit = commit(repo, "Say why", author="Grace")
    git(repo, "mv", saved.path, "memory/decisions/renamed.md")
    moved = commit(repo, "Rename", author="Linus")
    memory.refresh()
    (step,) = memory.history("caching").chain
    assert step.hit.path == "memory/decisions/renamed.md"
    assert (step.hit.provenance.author, step.hit.provenance.commit) == ("Ada", saved.commit)
    assert [(one.commit, one.author, one.changes) for one in step.revisions] == [
        (edit, "Grace", ("reasoning changed",)),
        (moved, "Linus", (f"renamed from {saved.path.removeprefix('memory/')}",)),
    ]
    assert memory.revisions(saved.id) == {saved.id: step.revisions}
    assert all(one.commit for one in step.revisions)
    path = repo / "memory/decisions/renamed.md"
    path.write_text(path.read_text().replace("topic: caching", "topic: caching\nconfidence: 0.5"))
    memory.refresh()
    (step,) = memory.history("caching").chain
    assert (step.revisions[-1].commit, step.revisions[-1].changes) == (
        "",
        ("confidence none -> 0.5",),
    )


def test_a_clean_merge_is_no_edit(repo: Path, memory: Memory) -> None:
    by_hand(repo, "a", "Use Redis")
    commit(repo, "Decide")
    git(repo, "switch", "-q", "-c", "side")
    path = repo / "memory/decisions/a.md"
    path.write_text(path.read_text().replace("Written", "Typed"))
    edit = commit(repo, "Reword")
    git(repo, "switch", "-q", "main")
    by_hand(repo, "b", "Another", "topic: other")
    commit(repo, "Other")
    git(repo, "merge", "-q", "--no-ff", "--no-edit", "side")
    memory.refresh()
    (step,) = memory.history("caching").chain
    assert [one.commit for one in step.revisions] == [edit]


def test_what_was_removed_and_brought_back_keeps_who_decided(repo: Path, memory: Memory) -> None:
    by_hand(repo, "a", "Use Redis")
    first = commit(repo, "Decide", author="Grace")
    git(repo, "rm", "-q", "memory/decisions/a.md")
    commit(repo, "Remove it")
    by_hand(repo, "a", "Use Redis or Valkey")
    commit(repo, "Bring it back in other words", author="Linus")
    memory.refresh()
    (step,) = memory.history("caching").chain
    assert (step.hit.provenance.commit, step.hit.provenance.author) == (first, "Grace")
    removed, back = step.revisions
    assert removed.changes == ("removed",)
    assert (back.author, back.changes) == ("Linus", ("brought back",))


def test_a_squash_merge_keeps_the_chain(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "feature")
    saved = [decide(memory, f"Decision {number}") for number in range(3)]
    git(repo, "switch", "-q", "main")
    memory.refresh()
    assert memory.search("").hits == ()
    git(repo, "merge", "-q", "--squash", "feature")
    squashed = commit(repo, "Squashed")
    git(repo, "branch", "-q", "-D", "feature")
    memory.refresh()
    told = memory.history("caching")
    assert [step.hit.id for step in told.chain] == [one.id for one in saved]
    assert told.heads == (saved[2].id,)
    assert {step.hit.provenance.commit for step in told.chain} == {squashed}
    assert sound(repo)


def test_the_timeline_shows_what_was_saved_around_a_record(memory: Memory) -> None:
    saved = [decide(memory, f"Decision {number}", topic=f"t{number}").id for number in range(5)]
    told = memory.timeline(anchor=saved[2], depth_before=1, depth_after=1)
    assert ([hit.id for hit in told], told.anchor) == (saved[1:4], saved[2])
    assert [hit.id for hit in memory.timeline(depth_before=1)] == saved[3:]
    assert memory.timeline(query="Decision 4", depth_before=0, depth_after=0).hits[0].id == saved[4]


def test_topics_are_listed_with_what_holds(memory: Memory) -> None:
    decide(memory, "Use Redis")
    head = decide(memory, "Use an LRU cache")
    decide(memory, "Log as JSON", topic="logging", status="deprecated")
    caching, logging = memory.topics().topics
    assert (caching.topic, caching.decisions, caching.heads, caching.title) == (
        "caching",
        2,
        (head.id,),
        "Use an LRU cache",
    )
    assert (logging.heads, logging.vacancy) == ((), "nothing holds")
    assert [one.topic for one in memory.topics("lru").topics] == ["caching"]


def test_topics_come_in_pages_whether_they_are_folded_in_or_wait(memory: Memory) -> None:
    for topic in ("logs", "caching", "auth", "api"):
        decide(memory, f"Decide on {topic}", topic=topic)
    memory.refresh(full=True)
    decide(memory, "Use OAuth", topic="auth")
    decide(memory, "Use blue", topic="colours")
    pages = [memory.topics(limit=3), memory.topics(limit=3, offset=3)]
    assert [[one.topic for one in page.topics] for page in pages] == [
        ["api", "auth", "caching"],
        ["colours", "logs"],
    ]
    assert [page.total for page in pages] == [5, 5]
    found = memory.topics("oauth")
    assert ([(one.title, one.decisions) for one in found.topics], found.total) == (
        [("Use OAuth", 2)],
        1,
    )


def test_a_checkpoint_is_of_this_branch_and_author_or_says_whose_it_is(
    repo: Path, memory: Memory
) -> None:
    assert memory.latest_checkpoint() is None
    mine = memory.save(summary="Half done", branch="main")
    text = (repo / mine.path).read_text().replace(mine.id, "checkpoint_9999999999999_aaaaaaaa")
    write(repo / "memory/checkpoints/hers.md", text.replace('created: "2', 'created: "3'))
    commit(repo, "By Grace", author="Grace")
    memory.refresh()
    found = memory.latest_checkpoint()
    assert found is not None
    assert (found[0].id, found[1]) == (mine.id, "Grace saved a newer one: Half done (aaaaaaaa)")
    memory.delete(mine.id)
    found = memory.latest_checkpoint("side")
    assert found is not None
    assert found[1] == "from branch main: there is none on side; saved by Grace"


def test_a_chain_in_both_layouts_is_listed_by_plain_git(repo: Path, memory: Memory) -> None:
    by_hand(
        repo, "auth/strategy/20240101-use-sessions-aaaaaaaa", "Use sessions", "topic: auth strategy"
    )
    commit(repo, "decision(auth strategy): Use sessions")
    saved = decide(memory, "Switch to JWT", "auth strategy")
    decide(memory, "Log in by mail", "oauth strategy")
    memory.update(saved.id, outcome="failed", reason="they cannot be revoked")
    name = saved.path.removeprefix("memory/decisions/")
    assert (name[4], name[7:], name.count("/")) == (
        "/",
        f"/auth-strategy--{saved.path.rpartition('--')[2]}",
        2,
    )
    assert chain(memory, "auth/strategy") == ["Use sessions", "Switch to JWT"]
    assert (repo / "memory/decisions/auth/strategy/20240101-use-sessions-aaaaaaaa.md").exists(), (
        "it stays"
    )
    subjects = git(repo, "log", "--format=%s", "--grep", "decision(auth strategy)").splitlines()
    assert [subject.partition(": ")[2] for subject in subjects] == [
        "failed: they cannot be revoked",
        "Switch to JWT",
        "Use sessions",
    ]
    pattern = "memory/decisions/*/auth-strategy--*"
    assert set(git(repo, "log", "--format=", "--name-only", "--", pattern).split()) == {saved.path}


def test_a_link_by_path_still_replaces_once_its_file_is_committed(
    repo: Path, memory: Memory
) -> None:
    """Indexed before it has a date, and dated by its commit."""
    old = write(repo / "memory/decisions/lru.md", "---\ntopic: caching\n---\n# Use an LRU cache\n")
    new = write(
        repo / "memory/decisions/redis.md",
        f"---\ntopic: shared cache\nsupersedes: [decisions/{old.name}]\n---\n# Use Redis\n",
    )
    memory.refresh()
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", f"Record {new.name}")
    write(repo / "memory/note.md", "---\ntype: observation\n---\n# Any change\n")
    memory.refresh()
    saved = memory.save(topic="shared cache", decision="Use Valkey", reasoning="Its licence")
    assert memory.get(f"decisions/{old.name}")[0].heads == (saved.id,)
