"""What the history of a topic is, when people and Git make it: branches, merges, renames, files of other makers."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.errors import BadInput, Conflict
from filemem.memory import Memory
from filemem.memory.values import Saved
from filemem.record import derived_id
from tests.support import TIME, git, make_repo, sound, write
from tests.system.tools import cli, ok


def decide(memory: Memory, decision: str, topic: str = "caching", **more: object) -> Saved:
    return memory.save(topic=topic, decision=decision, reasoning="Because of what we know", **more)


def heads(memory: Memory, topic: str = "caching") -> set[str]:
    return set(memory.history(topic).heads)


def chain(memory: Memory, topic: str = "caching") -> list[str]:
    return [step.record.title for step in memory.history(topic).chain]


def by_hand(repo: Path, name: str, title: str, header: str = "topic: caching") -> Path:
    return write(repo / f"memory/decisions/{name}.md", f"---\n{header}\n---\n# {title}\n\nWritten by hand.\n")


def commit(repo: Path, text: str, author: str = "Ada", date: str = TIME) -> str:
    git(repo, "add", "-A")
    told = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git(repo, "commit", "-q", "-m", text, input=b"", ok=True, **told)
    return git(repo, "rev-parse", "HEAD")


def fork(repo: Path, memory: Memory) -> tuple[Saved, Saved, Saved]:
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
    assert sorted(chain(memory)[1:]) == ["Use Memcached as cache", "Use an LRU cache in the process"]
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
    end = decide(memory, "Use an LRU cache, Memcached where shared", supersedes=[theirs.id, ours.id])
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


def test_what_each_branch_sees_before_the_merge(repo: Path, memory: Memory) -> None:
    _, theirs, ours = fork(repo, memory)
    git(repo, "switch", "-q", "feature")
    memory.refresh()
    assert heads(memory) == {theirs.id}
    git(repo, "switch", "-q", "main")
    memory.refresh()
    assert heads(memory) == {theirs.id, ours.id}


def test_hand_written_files_follow_each_other_by_time(repo: Path, memory: Memory) -> None:
    by_hand(repo, "b", "Then NATS", 'topic: caching\ncreated: "2025-02-01"')
    by_hand(repo, "a", "Last Kafka", "topic: Caching\ncreated: 2025-03-01")
    by_hand(repo, "c", "First Redis", "topic: caching\ncreated: 2025-01-01")
    by_hand(repo, "d", "Not a matter of caching", "topic: other")
    memory.refresh()
    told = memory.history("caching")
    assert [(step.record.title, step.implied) for step in told.chain] == [
        ("First Redis", False),
        ("Then NATS", True),
        ("Last Kafka", True),
    ]
    assert told.heads == (told.chain[2].record.id,)
    assert [hit.record.title for hit in memory.search("", topic="caching", live=True).hits] == ["Last Kafka"]


def test_without_a_date_the_first_commit_counts(repo: Path, memory: Memory) -> None:
    for number, name in enumerate(("z", "m", "a")):
        by_hand(repo, name, f"Decision {number}")
        date = f"2025-0{number + 1}-01T00:00:00Z"
        commit(repo, name, date=date)
    memory.refresh()
    assert chain(memory) == ["Decision 0", "Decision 1", "Decision 2"]


def test_nothing_is_implied_across_branches(repo: Path, memory: Memory) -> None:
    by_hand(repo, "base", "Base", "topic: caching\ncreated: 2025-01-01")
    commit(repo, "base")
    git(repo, "switch", "-q", "-c", "feature")
    by_hand(repo, "theirs", "Theirs", "topic: caching\ncreated: 2025-02-01")
    commit(repo, "theirs")
    git(repo, "switch", "-q", "main")
    by_hand(repo, "ours", "Ours", "topic: caching\ncreated: 2025-03-01")
    commit(repo, "ours")
    git(repo, "merge", "-q", "--no-edit", "feature")
    memory.refresh()
    assert {hit.record.title for hit in memory.search("", topic="caching", live=True).hits} == {"Theirs", "Ours"}


def test_a_removed_link_is_bridged(repo: Path, memory: Memory) -> None:
    saved = [decide(memory, f"Decision {number}") for number in range(3)]
    memory.delete(saved[1].id)
    memory.refresh()
    assert chain(memory) == ["Decision 0", "Decision 2"]
    assert heads(memory) == {saved[2].id}
    assert [hit.record.id for hit in memory.search("Decision 0", live=True).hits] == [saved[2].id]
    assert {problem.level for problem in memory.check()[1]} <= {"hint"}, "removed on purpose, as history shows"


@pytest.mark.parametrize("status", ["proposed", "rejected"])
def test_what_is_not_accepted_never_demotes(memory: Memory, status: str) -> None:
    first = decide(memory, "Use Redis")
    second = decide(memory, "Use NATS", status=status)
    assert heads(memory) == {first.id}
    assert {hit.record.id for hit in memory.search("use", topic="caching", live=True).hits} == {first.id}
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
    assert [(step.record.id, step.foreign) for step in told.chain] == [(old.id, False), (new.id, True)]


MADR = """\
---
status: {status}
date: 2024-0{month}-10
decision-makers: [Grace]
---
# {title}

## Context and Problem Statement

How should we store events?

## Decision Outcome

Chosen option: "{title}".
"""
NYGARD = """\
# {number}. {title}

Date: 2024-0{number}-10

## Status

{status}

## Context

Teams need a way.

## Decision

We will {title}.
"""


def test_records_of_other_makers_supersede_from_the_old_side(repo: Path, memory: Memory) -> None:
    folder = repo / "memory/decisions"
    text = MADR.format(status="superseded by [0002](0002-use-eventstore.md)", month=1, title="Use Kafka for events")
    write(folder / "0001-use-kafka.md", text)
    write(folder / "0002-use-eventstore.md", MADR.format(status="accepted", month=2, title="Use EventStore for events"))
    status = "Superseded by [4. use Go](0004-use-go.md)"
    write(folder / "0003-use-perl.md", NYGARD.format(number=3, title="use Perl", status=status))
    write(folder / "0004-use-go.md", NYGARD.format(number=4, title="use Go", status="Accepted"))
    memory.refresh()
    live = {hit.path.rpartition("/")[2] for hit in memory.search("", live=True).hits}
    assert live == {"0002-use-eventstore.md", "0004-use-go.md"}
    hits = {hit.path.rpartition("/")[2]: hit for hit in memory.search("Kafka events", mode="keyword").hits}
    assert hits["0001-use-kafka.md"].superseded_by == (hits["0002-use-eventstore.md"].record.id,)
    told = memory.history("memory/decisions/0001-use-kafka.md")
    assert [step.record.title for step in told.chain] == ["Use Kafka for events", "Use EventStore for events"]
    new = decide(memory, "Use Postgres for events", supersedes=["memory/decisions/0002-use-eventstore.md"])
    assert {hit.record.id for hit in memory.search("events", live=True, mode="keyword").hits} == {new.id}
    replaced = derived_id("decisions/0002-use-eventstore.md")
    assert f"supersedes: [{replaced}]" in (repo / new.path).read_text(), "its id outlives its name"


def test_renames_keep_ids_history_and_authors(repo: Path, memory: Memory) -> None:
    saved = decide(memory, "Use Redis")
    old = by_hand(repo, "plain", "Plain file", "tags: [x]")
    commit(repo, "by Grace", author="Grace")
    memory.refresh()
    plain = memory.get("memory/decisions/plain.md")[0].record.id
    second = decide(memory, "Use NATS instead", supersedes=[saved.id, plain])
    (repo / "memory/decisions/elsewhere").mkdir()
    git(repo, "mv", saved.path, "memory/decisions/elsewhere/renamed.md")
    git(repo, "mv", str(old.relative_to(repo)), "memory/decisions/elsewhere/plain too.md")
    commit(repo, "rename")
    memory.refresh()
    hit = memory.get(saved.id)[0]
    assert (hit.path, hit.provenance.commit) == ("memory/decisions/elsewhere/renamed.md", saved.commit)
    assert heads(memory) == {second.id}
    hit = memory.get("memory/decisions/elsewhere/plain too.md")[0]
    assert (hit.record.id, hit.provenance.author) == (plain, "Grace")
    assert hit.superseded_by == (second.id,)
    memory.rebuild()
    assert memory.get(plain)[0].provenance.author == "Grace"
    assert (saved.id, "Ada") in {(step.record.id, step.author) for step in memory.history("caching").chain}


def test_an_edit_in_place_is_a_revision(repo: Path, memory: Memory) -> None:
    saved = decide(memory, "Use Redis")
    path = repo / saved.path
    path.write_text(path.read_text().replace("Because", "Because, as Grace says,"))
    edit = commit(repo, "Say why", author="Grace")
    memory.refresh()
    step = memory.history("caching").chain[0]
    assert step.author == "Ada"
    assert [(revision.commit, revision.author) for revision in step.revisions] == [(edit, "Grace")]


@pytest.mark.parametrize("into", ["main", "feature"])
@pytest.mark.parametrize("back", [True, False], ids=["main merged back", "cherry-picked alone"])
def test_the_edits_of_both_branches_that_added_a_record_are_told(
    repo: Path, memory: Memory, into: str, back: bool
) -> None:
    def rewritten(old: str, new: str, author: str) -> str:
        path.write_text(path.read_text().replace(old, new))
        return commit(repo, author, author)

    git(repo, "switch", "-q", "-c", "feature")
    path = by_hand(repo, "redis", "Use Redis", "topic: caching\nid: decision_redis")
    path.write_text(path.read_text() + "\none\n\ntwo\n\nthree\n\nEnd.\n")
    firsts = {"feature": commit(repo, "Added", "Ada")}
    git(repo, "switch", "-q", "main")
    git(repo, "checkout", "-q", "feature", "--", "memory")
    firsts["main"] = commit(repo, "Picked", "Grace")
    git(repo, "switch", "-q", "feature")
    if back:
        git(repo, "merge", "-q", "-m", "Up", "main")
    edits = {"feature": rewritten("End", "END", "Barbara")}
    git(repo, "switch", "-q", "main")
    edits["main"] = rewritten("Written", "WRITTEN", "Margaret")
    git(repo, "switch", "-q", into)
    other = ({"main", "feature"} - {into}).pop()
    git(repo, "merge", "-q", "--no-ff", "-m", "Both", other, ok=back)
    if not back:
        git(repo, "checkout", "-q", edits[into], "--", "memory")
        rewritten(*(("End", "END") if into == "main" else ("Written", "WRITTEN")), "Merger")
    memory.refresh()
    step = memory.history("caching").chain[0]
    told = {revision.commit: revision.changes for revision in step.revisions}
    assert step.commit == firsts[into]
    assert {*edits.values(), firsts[other]} <= told.keys()
    assert firsts[into] not in told
    assert told[firsts[other]] == ("added on another branch too",)


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
    assert [step.record.id for step in told.chain] == [one.id for one in saved]
    assert told.heads == (saved[2].id,)
    assert {step.commit for step in told.chain} == {squashed}
    assert sound(repo)


def test_a_squash_is_named_also_where_it_brought_one_decision_of_each_topic(repo: Path, memory: Memory) -> None:
    git(repo, "switch", "-q", "-c", "feature")
    for topic in ("caching", "queues"):
        memory.save(topic=topic, decision=f"Decide on {topic}", reasoning="It was asked for")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--squash", "feature")
    squashed = commit(repo, "Squashed")
    alone = memory.save(topic="logging", decision="Log as JSON", reasoning="Machines read it")
    for topic in ("caching", "queues"):
        (note,) = memory.history(topic).notes
        assert note.startswith(f"{squashed[:10]} brought 2 records at once (a squash merge or an import)")
    assert memory.history(alone.id).notes == ()


def test_a_linked_work_tree_has_its_own_index(repo: Path, memory: Memory) -> None:
    first = decide(memory, "Use Redis")
    git(repo, "worktree", "add", "-q", "-b", "side", "../side")
    with Memory.open(repo.parent / "side") as side:
        assert heads(side) == {first.id}
        second = decide(side, "Use NATS on the side")
        assert heads(side) == {second.id}
        assert git(repo, "log", "-1", "--format=%s", "side") == "decision(caching): Use NATS on the side"
    memory.refresh()
    assert heads(memory) == {first.id}
    git(repo, "merge", "-q", "side")
    memory.refresh()
    assert heads(memory) == {second.id}


def test_the_first_commit_of_a_repository_is_a_record(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    with Memory.open(repo) as memory:
        saved = decide(memory, "Begin with a decision")
        assert git(repo, "rev-list", "HEAD") == saved.commit
        assert chain(memory) == ["Begin with a decision"]


def test_the_day_that_a_file_states_stands_apart_from_that_of_its_commit(repo: Path) -> None:
    by_hand(repo, "a", "Use Redis", "topic: caching\ncreated: 1999-01-01")
    commit(repo, "one", date="2025-11-20T12:00:00Z")
    (step,) = ok(repo, "history", "caching")["chain"]
    assert (step["date"][:10], step["committed"][:10]) == ("1999-01-01", "2025-11-20")
    told = cli(repo, "history", "caching").out
    assert "●  1999-01-01  Use Redis" in told
    assert "committed 2025-11-20" in told


def test_only_decisions_have_a_history(memory: Memory) -> None:
    note = memory.save(text="Just a note")
    with pytest.raises(BadInput, match="only decisions"):
        memory.history(note.id)


def test_an_unresolved_merge_is_told_at_every_door(repo: Path, memory: Memory) -> None:
    path = by_hand(repo, "a", "Use NATS")
    commit(repo, "One")
    text = path.read_text()
    sides = "<<<<<<< HEAD\nWritten by hand.\n=======\nWritten on a branch.\n>>>>>>> x\n"
    path.write_text(text.replace("Written by hand.\n", sides))
    for text in ("", "Merge"):
        if text:
            commit(repo, text)
        memory.refresh()
        [edit] = memory.history("caching").chain[0].revisions
        [told] = edit.changes
        assert told.startswith("conflict: an unresolved merge conflict")
        assert bool(edit.commit) == bool(text)
        [again] = memory.revisions("a.md").values()
        assert again == (edit,)
        assert [hit.conflict for hit in (*memory.get("a.md"), *memory.search("NATS"))] == [6, 6]
        for words in (["get", "a.md"], ["search", "nats"]):
            assert "conflict markers at line 6: the first side is shown" in cli(repo, *words).out
    assert memory.diff("HEAD~1..HEAD").effects[0].details == edit.changes
    path.write_text(path.read_text().replace(sides, "Written by hand.\n"))
    for text in ("", "Resolve"):
        if text:
            commit(repo, text)
        assert memory.history("caching").chain[0].revisions[-1].changes == ("conflict resolved",)
    assert memory.diff("HEAD~1..HEAD").effects[0].details == ("conflict resolved",)
    commit_of = memory.history("caching").chain[0].revisions
    path.write_text(path.read_text().replace("---\n", "---\ntopic: [a\n", 1))
    commit(repo, "Break")
    git(repo, "revert", "--no-edit", "HEAD")
    *earlier, _, mended = memory.history("caching").chain[0].revisions
    assert (tuple(earlier), mended.changes[-1]) == (commit_of, "yaml-syntax mended")


def test_a_merge_that_waits_for_the_user_is_told_by_status(repo: Path, memory: Memory) -> None:
    texts = {"a": "Use NATS", "b": "Use Redis"}
    paths = [by_hand(repo, name, title) for name, title in texts.items()]
    commit(repo, "One")
    for branch in ("side", "main"):
        git(repo, "switch", "-q", *(["-c"] if branch == "side" else []), branch)
        for path in paths:
            path.write_text(path.read_text().replace("Written by hand.", f"Written on {branch}."))
        write(repo / "code.py", branch)
        commit(repo, branch)
    assert "unresolved" not in ok(repo, "status")
    git(repo, "merge", "-q", "side", ok=False)
    named = [str(path.relative_to(repo)) for path in paths]
    assert ok(repo, "status")["unresolved"] == {"reason": "a merge is in progress", "paths": named}
    assert f"unresolved: {', '.join(named)} (a merge is in progress)" in cli(repo, "status").out
    git(repo, "checkout", "-q", "--ours", named[0])
    git(repo, "add", named[0])
    assert memory.status()["unresolved"]["paths"] == named[1:]
    git(repo, "merge", "--abort")
    assert "unresolved" not in cli(repo, "status").out


def test_a_copy_that_outlives_its_original_is_told_as_one(repo: Path) -> None:
    saved = ok(repo, "save", "decision", "--topic", "q", "--decision", "Use A", "--reasoning", "r")
    write(repo / "memory/b.md", (repo / saved["path"]).read_text() + "\nMore.\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Copy")
    git(repo, "rm", "-q", saved["path"])
    git(repo, "commit", "-q", "-m", "Away")
    for _ in range(2):
        (step,) = ok(repo, "history", "q")["chain"]
        assert [one["changes"] for one in step["revisions"]] == [["copied to memory/b.md"]]
        ok(repo, "index", "--rebuild")


def test_what_was_removed_from_a_topic_is_named_beside_its_history(repo: Path) -> None:
    saved = [
        ok(repo, "save", "decision", "--topic", "q", "--decision", f"Use {name}", "--reasoning", "r")
        for name in ("A", "B", "C", "D")
    ]
    short = [one["id"].rpartition("_")[2] for one in saved]
    assert ok(repo, "history", "q")["notes"] == []
    git(repo, "mv", saved[2]["path"], saved[2]["path"].replace("use-c", "c"))
    git(repo, "commit", "-q", "-m", "Renamed")
    ok(repo, "forget", saved[0]["id"])
    git(repo, "rm", "-q", saved[1]["path"])
    git(repo, "commit", "-q", "-m", "Oops")
    for _ in range(2):
        (note,) = ok(repo, "history", "q")["notes"]
        assert note.startswith(f"removed since: {short[0]}, Use B ({short[1]}) "), "no title of what was forgotten"
        assert f"filemem restore {short[1]}" in cli(repo, *note.partition("(filemem ")[2].split()[:2]).err
        ok(repo, "index", "--rebuild")
    assert ok(repo, "history", "q", "--at", "HEAD~2")["notes"] == []
    git(repo, "revert", "--no-edit", "HEAD")
    ok(repo, "restore", saved[0]["id"])
    assert ok(repo, "history", "q")["notes"] == []
