"""Importing: each item of another system becomes one record, once, by one commit; what was edited here stays."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import BrokenStore
from filemem.importers import read
from filemem.memory import Memory
from filemem.record import Record, format_time, parse_record
from tests.support import environment, git, make_repo, write
from tests.system import sources
from tests.system.sources import START, changed, database, decided, observed, remembered
from tests.system.tools import FILEMEM, cli, ok, process, snapshot

TOKEN = "ghp_" + "aZ3kQ9xW7vB1nM5cR8tY2uJ4hG6fD0sLpE7i"


def records(repo: Path) -> dict[str, Record]:
    """The records of a memory by title."""
    found = (
        parse_record(path.read_bytes(), str(path.relative_to(repo / "memory")))
        for path in repo.glob("memory/**/*.md")
    )
    return {one.record.title: one.record for one in found if one.record}


def mama(folder: Path) -> Path:
    new = [
        decided(1),
        decided(2, outcome="FAILED", failure_reason="too slow"),
        ("checkpoints", CHECKPOINT),
    ]
    return database(folder / "mama.db", sources.MAMA, new)


CHECKPOINT = {
    "timestamp": START,
    "summary": "Half done",
    "open_files": '["a.py"]',
    "next_steps": "The rest",
}


def claude_mem(folder: Path) -> Path:
    summary = {
        "memory_session_id": "s1",
        "project": "repo",
        "request": "Cache",
        "next_steps": "Measure",
    }
    times = {"created_at": "", "created_at_epoch": START}
    rows = [
        observed(1),
        observed(2, type="decision", title="Use LRU", files_modified='["src/lru.py"]'),
    ]
    prompt = ("user_prompts", {"prompt_text": "my secret wish", "created_at_epoch": START})
    return database(
        folder / "c.db",
        sources.CLAUDE_MEM,
        [*rows, ("session_summaries", {**summary, **times}), prompt],
    )


def mem_claude(folder: Path) -> Path:
    rows = [observed(1, agent="ada", department="core"), observed(2, visibility="private")]
    return database(folder / "c.db", sources.CLAUDE_MEM + sources.MEM_CLAUDE, rows)


def powermem(folder: Path) -> Path:
    rows = [
        remembered(1),
        remembered(2, user_id="ada", metadata={"team": "core", "intelligence": {"x": 1}}),
    ]
    return database(folder / "p.db", sources.POWERMEM, rows)


def claude_code(folder: Path) -> Path:
    top = folder / "projects"
    sources.note(top / "other" / "memory" / "theirs.md", "# Theirs\n\nOf another project.\n")
    sources.note(top / "other" / "memory" / "MEMORY.md", "- [theirs](theirs.md)\n")
    text = "---\nname: Tabs\ndescription: How I indent\ntype: user\n---\nI use tabs.\n"
    sources.note(top / "mine" / "memory" / "tabs.md", text)
    return top


def basic_memory(folder: Path) -> Path:
    text = "---\ntitle: {0}\ntype: {1}\npermalink: notes/{0}\ntags: [a, b]\n---\n\n- [fact] text #tag\n- about [[X]]\n"
    for name, kind in (("note", "note"), ("Choice", "decision")):
        sources.note(folder / "notes" / f"{name}.md", text.format(name, kind))
    return folder / "notes"


def server_memory(folder: Path) -> Path:
    rows: list[Mapping[str, Any]] = [
        {
            "type": "entity",
            "name": "Parser",
            "entityType": "module",
            "observations": ["Reads YAML", "Never raises"],
        },
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Likes tabs"]},
        {"type": "relation", "from": "Ada", "to": "Parser", "relationType": "wrote"},
    ]
    return sources.entities(folder / "memory.jsonl", *rows)


DECISION_LOG = """# Decisions

- [ADR-001](#adr-001)

## ADR-001: Use PostgreSQL

**Date:** 2025-03-02
**Status:** Accepted

One store for everything.

### Consequences
Backups.

## ADR-002: Use Redis for sessions (2025-04-01)

Status: Rejected

```
## not a heading
```

## Notes

Kept by hand.
"""


def decision_log(folder: Path) -> Path:
    write(folder / "DECISIONS.md", DECISION_LOG)
    return folder / "DECISIONS.md"


def memory_bank(folder: Path) -> Path:
    log = "# Decision Log\n\n## Decision\n\n* [2025-10-27 15:19:27] - Use a queue\n\n## Rationale\n\n* Load\n"
    write(folder / "decisionLog.md", log)
    write(folder / "activeContext.md", "# Active context\n\nThe queue is half done.\n")
    write(folder / "progress.md", "# Progress\n\n- queue started\n")
    return folder


def serena(folder: Path) -> Path:
    write(folder / "project_overview.md", "# Overview\n\nA shop.\n")
    return folder


def beads(folder: Path) -> Path:
    rows: list[Mapping[str, Any]] = [
        {"id": "bd-1", "title": "Cart forgets items", "issue_type": "bug", "status": "closed",
         "description": "After a reload", "created_at": "2025-11-01T10:00:00Z", "labels": ["cart"]},
        {"id": "bd-2", "title": "Gone", "status": "tombstone", "created_at": "2025-11-02T10:00:00Z"},
    ]  # fmt: skip
    return sources.entities(folder / "issues.jsonl", *rows)


def adr(folder: Path) -> Path:
    other = make_repo(folder / "adrs")
    text = "# {0}\n\nDate: {1}\n\n## Status\n\n{2}\n\n## Decision\n\nWe do.\n"
    old = text.format("1. Use Redis", "2020-01-02", "Superseded by [ADR-2](../0002-use-lru.md)")
    write(other / "docs/adr/db/0001-use-redis.md", old)
    write(other / "docs/adr/0002-use-lru.md", text.format("2. Use LRU", "2021-03-04", "Accepted"))
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "Decide")
    return other / "docs/adr"


MAKERS: Mapping[
    str, tuple[Callable[[Path], Path], dict[str, int], int]
] = {  # records by type, and how many are private
    "mama": (mama, {"decision": 2, "checkpoint": 1}, 0),
    "claude-mem": (claude_mem, {"decision": 1, "checkpoint": 1, "observation": 1}, 0),
    "mem-claude": (mem_claude, {"observation": 2}, 1),
    "powermem": (powermem, {"observation": 2}, 1),
    "claude-code": (claude_code, {"observation": 2}, 2),
    "basic-memory": (basic_memory, {"decision": 1, "observation": 1}, 0),
    "server-memory": (server_memory, {"observation": 2}, 1),
    "decision-log": (decision_log, {"decision": 2}, 0),
    "memory-bank": (memory_bank, {"decision": 1, "checkpoint": 1, "observation": 1}, 0),
    "serena": (serena, {"observation": 1}, 0),
    "beads": (beads, {"observation": 1}, 0),
    "adr": (adr, {"decision": 2}, 0),
}


@pytest.mark.parametrize("form", MAKERS)
def test_each_format_comes_in_once_and_its_source_stays_as_it_was(
    repo: Path, tmp_path: Path, form: str
) -> None:
    make, expected, private = MAKERS[form]
    source = make(tmp_path / "source")
    before, tip = snapshot(tmp_path / "source", skip=(".git",)), git(repo, "rev-parse", "HEAD")
    shown = ok(repo, "import", form, str(source), "--all-projects", "--dry-run")
    assert (shown["written"], shown["records"], len(shown["samples"])) == (
        False,
        expected,
        sum(expected.values()),
    )
    assert not (repo / "memory").exists()
    done = ok(repo, "import", form, str(source), "--all-projects", "--yes")
    assert (done["records"], done.get("private", 0)) == (expected, private)
    assert git(repo, "rev-list", "--count", f"{tip}..HEAD") == (
        "1" if private < sum(expected.values()) else "0"
    )
    assert git(repo, "status", "--porcelain") == ""
    assert len(list((repo / "memory").glob("private/**/*.md"))) == private
    again = ok(repo, "import", form, str(source), "--all-projects", "--yes")
    assert (again["new"], again["updated"], again["same"]) == (0, 0, sum(expected.values()))
    assert snapshot(tmp_path / "source", skip=(".git",)) == before
    for record in records(repo).values():
        assert isinstance(record.source, Mapping)
        assert record.source["system"] == form
    with Memory.open(repo) as memory:
        assert [one for one in memory.check()[1] if one.level != "hint"] == []
        assert len(memory.search().hits) == sum(expected.values())


def test_a_database_of_mama_with_its_chains_outcomes_and_oddities(
    repo: Path, tmp_path: Path
) -> None:
    first, second = (
        decided(1, topic="caching"),
        decided(2, topic="caching", user_involvement="requested"),
    )
    old, new = first[1]["id"], second[1]["id"]
    more = {
        "evidence": '["benchmark"]',
        "risks": "Memory",
        "alternatives": '["Keep Redis"]',
        "supersedes": old,
    }
    failed = {
        "outcome": "FAILED",
        "failure_reason": "evicts\ntoo early",
        "updated_at": START + 86_400_000,
    }
    rows = [
        first,
        (second[0], {**second[1], **more, **failed}),
        decided(3, reasoning=None, confidence=None, created_at=START // 1000),
        decided(4, superseded_by=decided(5)[1]["id"]),
        decided(5, kind="constraint"),
        decided(6, kind="preference", decision="Likes tabs"),
        decided(7, decision="Bell\x07 and tab\t"),
        decided(8, status="stale", user_involvement="rejected"),
        decided(9, decision="", reasoning="", topic=""),
    ]
    edges = [("refines", "a", 1), ("contradicts", "b", 0)]
    for kind, reason, approved in edges:
        edge = {
            "from_id": new,
            "to_id": decided(3)[1]["id"],
            "relationship": kind,
            "reason": reason,
        }
        rows.append(("decision_edges", {**edge, "approved_by_user": approved}))
    source = database(tmp_path / "m.db", sources.MAMA + sources.MAMA_NEW, rows)
    changed(
        source,
        "UPDATE decisions SET decision = CAST(x'c328207573c3a9' AS TEXT) WHERE topic = 'topic_4'",
    )
    done = cli(repo, "import", "mama", str(source), "--all-projects", "--yes", "--json")
    assert done.code == 1
    assert done.json["refused"] == [{"id": decided(9)[1]["id"], "reason": "it has no text"}]
    found = {one.id: one for one in records(repo).values()}
    two, three = found[new], found[decided(3)[1]["id"]]
    assert (two.supersedes, two.builds_on, two.debates, two.rejected) == (
        (old,),
        (three.id,),
        (),
        ("Keep Redis",),
    )
    assert (
        two.text == "It is simple, measured 2 times\n\n## Evidence\n- benchmark\n\n## Risks\nMemory"
    )
    assert (two.outcome, two.outcomes[0][1:], two.decided_by) == (
        "failed",
        ("failed", "evicts too early"),
        "user",
    )
    assert (three.created, three.text, three.confidence) == (START, "", None)
    assert (found[old].created, found[old].supersedes) == (START + 1000, ())
    kinds = {number: found[decided(number)[1]["id"]] for number in (4, 5, 6, 7, 8)}
    assert [one.type for one in kinds.values()] == [
        "decision",
        "observation",
        "observation",
        "decision",
        "decision",
    ]
    assert kinds[4].title == "\ufffd( usé"
    assert (kinds[6].visibility, kinds[7].decision, kinds[8].status) == (
        "private",
        "Bell and tab",
        "rejected",
    )
    with Memory.open(repo) as memory:
        assert [one for one in memory.check()[1] if one.level != "hint"] == []
        assert [hit.id for hit in memory.search("", topic="caching", live=True).hits] == [new]


def test_columns_that_a_version_lacks_are_empty(repo: Path, tmp_path: Path) -> None:
    schema = "CREATE TABLE decisions(id TEXT PRIMARY KEY, topic TEXT, decision TEXT, reasoning TEXT, created_at INTEGER);"
    source = database(tmp_path / "m.db", schema, [decided(1), decided(2)])
    changed(source, f"DELETE FROM decisions WHERE id = '{decided(2)[1]['id']}'")
    assert ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["records"] == {
        "decision": 1
    }
    told = cli(repo, "import", "claude-mem", str(source), "--yes")
    assert (told.code, "has no table observations or session_summaries" in told.err) == (2, True)
    told = cli(repo, "import", "mama", str(write(tmp_path / "x.db", "no database at all")), "--yes")
    assert (told.code, "cannot be read: file is not a database" in told.err) == (2, True)


def test_what_a_model_wrote_is_proposed_and_prompts_stay_away(repo: Path, tmp_path: Path) -> None:
    ok(repo, "import", "claude-mem", str(claude_mem(tmp_path)), "--yes")
    found = records(repo)
    assert (found["Use LRU"].status, found["Use LRU"].affects) == ("proposed", ("src/lru.py",))
    assert (found["Cache"].type, found["Cache"].next_steps) == ("checkpoint", "Measure")
    assert "secret wish" not in git(repo, "log", "-p")


def test_only_what_belongs_to_this_repository_is_taken(repo: Path, tmp_path: Path) -> None:
    git(repo, "remote", "add", "origin", "https://user:word@example.com/acme/shop.git")
    named = ("repo", "github.com/x/y", "acme/shop", str(repo), "old", None)
    rows = [observed(number, project=name or "") for number, name in enumerate(named)]
    renamed = ("project_aliases", {"old_project": "old", "new_project": "SHOP"})
    source = database(tmp_path / "c.db", sources.CLAUDE_MEM + sources.MEM_CLAUDE, [*rows, renamed])
    shown = ok(repo, "import", "mem-claude", str(source), "--dry-run")
    assert (shown["new"], shown["other_projects"]) == (4, {"github.com/x/y": 1, "(none)": 1})
    assert "2 of other projects" in cli(repo, "import", "mem-claude", str(source), "--dry-run").out
    assert (
        ok(repo, "import", "mem-claude", str(source), "--dry-run", "--project", "github.com/x/y")[
            "new"
        ]
        == 1
    )
    assert ok(repo, "import", "mem-claude", str(source), "--dry-run", "--all-projects")["new"] == 6
    assert (
        ok(
            repo,
            "import",
            "mem-claude",
            str(source),
            "--dry-run",
            "--since",
            "2025-11-20T14:46:43Z",
        )["new"]
        == 2
    )
    assert ok(repo, "import", "mem-claude", str(source), "--yes", "--limit", "1")["new"] == 1
    assert list(records(repo)) == ["Finding 4"]
    shutil.copy(
        mama(tmp_path / "m"), inside := repo / "mama.db"
    )  # what lies in the work tree belongs to it
    assert ok(repo, "import", "mama", str(inside), "--dry-run")["new"] == 3


def test_auto_memory_is_private_and_of_this_project_alone(
    repo: Path, tmp_path: Path, guarded_home: Path
) -> None:
    top = guarded_home / ".claude/projects"
    claude_code(top.parent)
    own = re.sub(r"[^A-Za-z0-9]", "-", str(repo))
    try:
        sources.note(
            top / own / "memory/tabs.md",
            "---\nname: Tabs\ndescription: How I indent\n---\nI use tabs.\n",
        )
        done = ok(repo, "import", "claude-code", "--yes")
        assert (done["new"], done["private"], done["other_projects"]) == (
            1,
            1,
            {"other": 1, "mine": 1},
        )
        note = records(repo)["Tabs"]
        assert (note.text, note.created, note.visibility) == (
            "How I indent\n\nI use tabs.",
            START,
            "private",
        )
        assert git(repo, "log", "--all", "--oneline", "--", "memory") == ""
        sources.note(
            top / own / "memory/tabs.md", "---\nname: Tabs\n---\nNow spaces.\n", START + 1000
        )
        assert ok(repo, "import", "claude-code", "--yes")["updated"] == 1
        assert cli(repo, "forget", note.id).code == 0
        assert ok(repo, "import", "claude-code", "--yes")["forgotten"] == 1
        assert records(repo) == {}
    finally:
        shutil.rmtree(top.parent)


def test_users_of_powermem_and_people_are_private_and_metadata_is_kept(
    repo: Path, tmp_path: Path
) -> None:
    ok(repo, "import", "powermem", str(powermem(tmp_path)), "--all-projects", "--yes")
    found = records(repo)
    mine = found["The build takes 2 minutes"]
    assert (mine.user_id, mine.metadata, mine.visibility) == ("ada", {"team": "core"}, "private")
    assert found["The build takes 1 minutes"].visibility == ""
    ok(repo, "import", "server-memory", str(server_memory(tmp_path)), "--all-projects", "--yes")
    assert records(repo)["Ada"].text == "person\n\n- Likes tabs\n\n## Related\n- wrote [[Parser]]"
    assert records(repo)["Ada"].created is None
    shown = git(repo, "ls-files", "memory")
    assert ("Ada" in shown or "ada" in shown.lower(), "parser" in shown) == (False, True)


def test_decision_records_keep_their_dates_and_chains(repo: Path, tmp_path: Path) -> None:
    source = str(adr(tmp_path))
    assert ok(repo, "import", "adr", source, "--yes")["other_projects"] == {"adrs": 2}
    ok(repo, "import", "adr", source, "--yes", "--project", "adrs")
    redis, lru = records(repo)["1. Use Redis"], records(repo)["2. Use LRU"]
    assert (redis.topic, redis.tags, lru.supersedes) == ("Use Redis", ("db",), (redis.id,))
    assert [one.path.partition("/20")[2][:7] for one in (redis, lru)] == ["20/01/u", "21/03/u"]
    with Memory.open(repo) as memory:
        assert [hit.title for hit in memory.search("", live=True).hits] == ["2. Use LRU"]
    for folder in (".", "memory", "memory/decisions"):
        told = cli(repo, "import", "adr", folder, "--dry-run")
        assert (told.code, "holds a memory of filemem" in told.err) == (2, True)


def test_an_edit_here_wins_a_change_there_comes_and_what_is_forgotten_stays_away(
    repo: Path, tmp_path: Path
) -> None:
    source = database(tmp_path / "m.db", sources.MAMA, [decided(number) for number in range(5)])
    again = ("import", "mama", str(source), "--all-projects", "--yes")
    ok(repo, *again)
    ids = [decided(number)[1]["id"] for number in range(5)]
    ok(repo, "update", ids[0], "--outcome", "failed", "--reason", "too slow")
    ok(repo, "update", ids[1], "--outcome", "success")
    ok(repo, "forget", ids[2])
    moved = next((repo / "memory").glob("**/*approach-3*"))
    git(repo, "mv", str(moved), "memory/three.md")
    git(repo, "commit", "-q", "-m", "Move")
    for one in (ids[0], ids[2], ids[3]):
        changed(source, f"UPDATE decisions SET reasoning = 'Thought again' WHERE id = '{one}'")
    done = cli(repo, *again, "--json")
    assert (done.code, done.json["new"], done.json["updated"], done.json["same"]) == (1, 0, 1, 2)
    assert (done.json["forgotten"], len(done.json["edited"])) == (1, 1)
    assert "approach-0" in done.json["edited"][0]
    assert "Thought again" in (repo / "memory/three.md").read_text()
    assert git(repo, "show", "--format=%s", "--name-only", "HEAD").split("\n") == [
        "import(mama): 1 decision",
        "",
        "memory/three.md",
    ]
    assert sum("Thought again" in path.read_text() for path in repo.glob("memory/**/*.md")) == 1
    assert "approach-0" in cli(repo, *again).out


def test_what_cannot_be_brought_is_named_and_the_rest_comes(repo: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for name in "ab":
        sources.note(
            notes / f"{name}.md", f"---\ntitle: {name}\npermalink: one\n---\nText of {name}.\n"
        )
    done = cli(repo, "import", "basic-memory", str(notes), "--all-projects", "--yes", "--json")
    assert (done.code, done.json["new"], len(done.json["refused"]), [*records(repo)]) == (
        1,
        1,
        1,
        ["a"],
    )
    source = database(
        tmp_path / "c.db", sources.CLAUDE_MEM + sources.MEM_CLAUDE, [observed(1), observed(2)]
    )
    ok(repo, "import", "mem-claude", str(source), "--yes")
    changed(source, "UPDATE observations SET visibility = 'private', narrative = 'My wish'")
    done = cli(repo, "import", "mem-claude", str(source), "--yes")
    assert (done.code, done.out.count("it is private there now, and committed here")) == (1, 2)
    assert not any("My wish" in path.read_text() for path in repo.glob("memory/**/*.md"))


@pytest.mark.parametrize("stated", ["private", '"Private "', "[private]"])
def test_what_becomes_private_at_its_source_is_not_committed(
    repo: Path, tmp_path: Path, stated: str
) -> None:
    text = "---\ntitle: {0}\npermalink: {0}\nvisibility: {1}\n---\n{2}\n"
    for name, seen, told in (
        ("a", "public", "Open"),
        ("a", stated, "My wish"),
        ("b", stated, "My wish"),
    ):
        sources.note(tmp_path / f"notes/{name}.md", text.format(name, seen, told))
        done = cli(
            repo, "import", "basic-memory", str(tmp_path / "notes"), "--all-projects", "--yes"
        )
    assert (done.code, "it is private there now, and committed here" in done.out) == (1, True)
    assert (records(repo)["a"].text, records(repo)["b"].visibility) == ("Open", "private")
    rows = [
        {"id": f"{kind}_1_aaaaaaaa", "type": kind, "title": kind}
        for kind in ("decision", "observation")
    ]
    lines = [json.dumps({**row, "text": "My wish", "visibility": "Private "}) for row in rows]
    ok(repo, "import", "filemem", str(write(tmp_path / "x.jsonl", "\n".join(lines))), "--yes")
    source = database(
        tmp_path / "c.db",
        sources.CLAUDE_MEM + sources.MEM_CLAUDE,
        [observed(1, visibility="PRIVATE")],
    )
    assert ok(repo, "import", "mem-claude", str(source), "--yes")["private"] == 1
    assert "My wish" not in git(repo, "log", "-p", "--all")


def test_undo_leaves_an_import_to_git(repo: Path, tmp_path: Path, memory: Memory) -> None:
    saved = memory.save(topic="queues", decision="Use NATS", reasoning="Small")
    ok(repo, "import", "mama", str(mama(tmp_path)), "--all-projects", "--yes")
    told, tip = cli(repo, "undo"), git(repo, "rev-parse", "HEAD")
    assert (told.code, f"git revert {tip[:10]}" in told.err) == (5, True)
    git(repo, "revert", "--no-edit", tip)
    assert ok(repo, "undo")["id"] == saved.id


def test_links_in_a_folder_are_passed_over(repo: Path, tmp_path: Path) -> None:
    sources.note(tmp_path / "elsewhere/memory/x.md", "# Elsewhere\n\nText.\n")
    top = tmp_path / "top"
    sources.note(top / "one/memory/own.md", "# Own\n\nText.\n")
    (top / "one/memory/link.md").symlink_to(tmp_path / "elsewhere/memory/x.md")
    (top / "two").symlink_to(tmp_path / "elsewhere")
    for form in ("claude-code", "basic-memory"):
        assert ok(repo, "import", form, str(top), "--all-projects", "--dry-run")["new"] == 1


def test_the_same_source_is_left_to_the_user_where_commits_are(repo: Path, tmp_path: Path) -> None:
    write(repo / ".filemem.toml", '[commit]\ndecision = "leave"\n')
    source, tip = mama(tmp_path), git(repo, "rev-parse", "HEAD")
    assert ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["new"] == 3
    assert git(repo, "show", "--format=", "--name-only", "HEAD").startswith("memory/checkpoints/")
    assert git(repo, "rev-list", "--count", f"{tip}..HEAD") == "1"
    assert len(git(repo, "ls-files", "--others", "memory").splitlines()) == 2
    git(repo, "switch", "-q", "--detach")
    other = database(
        tmp_path / "n.db",
        sources.MAMA,
        [("checkpoints", {"timestamp": START, "summary": "Detached"})],
    )
    assert (
        "HEAD is detached"
        in ok(repo, "import", "mama", str(other), "--all-projects", "--yes")["note"]
    )
    assert "Detached" in records(repo)


def test_two_clones_that_import_one_source_agree(tmp_path: Path) -> None:
    source = claude_mem(tmp_path / "source")
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(make_repo(tmp_path / "first")), str(origin))
    clones = [tmp_path / "one" / "repo", tmp_path / "two" / "repo"]
    for clone in clones:
        git(tmp_path, "clone", "-q", str(origin), str(clone))
        git(clone, "config", "user.name", clone.parent.name)
        git(clone, "config", "user.email", "a@example.com")
        ok(clone, "import", "claude-mem", str(source), "--yes")
    assert snapshot(clones[0] / "memory") == snapshot(clones[1] / "memory")
    git(clones[0], "push", "-q")
    git(clones[1], "pull", "-q", "--no-rebase", "--no-edit")
    assert git(clones[1], "status", "--porcelain") == ""
    assert ok(clones[1], "import", "claude-mem", str(source), "--yes")["same"] == 3


def test_two_databases_that_both_have_row_1_give_two_records(repo: Path, tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        source = database(
            tmp_path / f"{name}.db", sources.CLAUDE_MEM, [observed(number, title="Same title")]
        )
        assert ok(repo, "import", "claude-mem", str(source), "--yes")["new"] == 1
    assert len(list(repo.glob("memory/observations/**/*.md"))) == 2


def test_secrets_are_listed_and_not_written(repo: Path, tmp_path: Path) -> None:
    rows = [decided(1), decided(2, reasoning=f"the token is {TOKEN}")]
    source = database(tmp_path / "m.db", sources.MAMA, rows)
    done = cli(repo, "import", "mama", str(source), "--all-projects", "--yes")
    assert (done.code, "1 new" in done.out, decided(2)[1]["id"] in done.out) == (1, True, True)
    assert "looks like a secret (github-token" in done.out
    line = {
        "id": "decision_1_aaaaaaaa",
        "type": "decision",
        "title": TOKEN,
        "secrets_allowed": True,
    }
    assert (
        cli(
            repo, "import", "filemem", str(write(tmp_path / "x.jsonl", json.dumps(line))), "--yes"
        ).code
        == 1
    )
    assert TOKEN not in done.out + git(repo, "log", "-p", "--all")
    assert [*records(repo)] == ["Use approach 1"]


def test_a_log_that_is_not_checkpointed_is_read_while_its_program_runs(
    repo: Path, tmp_path: Path
) -> None:
    source = mama(tmp_path)
    with closing(sqlite3.connect(source)) as running:
        running.execute("PRAGMA wal_autocheckpoint = 0")
        sources.insert(running, [decided(3)])
        assert (tmp_path / "mama.db-wal").stat().st_size > 0
        assert (
            ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["records"][
                "decision"
            ]
            == 3
        )


def test_nothing_is_written_without_a_word(repo: Path, tmp_path: Path) -> None:
    call = ("import", "mama", str(mama(tmp_path)), "--all-projects")
    silent = cli(repo, *call)
    assert (silent.code, "--yes writes it" in silent.err, (repo / "memory").exists()) == (
        2,
        True,
        False,
    )
    for word, new in (("n", 0), ("y", 3)):
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [FILEMEM, *call],
            cwd=repo,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(),
        )
        os.close(theirs)
        os.write(ours, f"{word}\n".encode())
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert child.wait(60) == (0 if new else 1), shown
        assert b"Use approach 1" in shown
        assert len(records(repo)) == new


def test_a_busy_repository_and_a_folder_of_adrs_are_refused(repo: Path, tmp_path: Path) -> None:
    call = ("import", "mama", str(mama(tmp_path)), "--all-projects", "--yes")
    write(repo / "docs/adr/0001-use-x.md", "# 1. Use X\n\nBecause.\n")
    told = cli(repo, "--store", "docs/adr", *call)
    assert (told.code, "numbered decision records" in told.err) == (5, True)
    assert [one.name for one in (repo / "docs/adr").iterdir()] == ["0001-use-x.md"]
    git(repo, "bisect", "start")
    told = cli(repo, "--store", "memory", *call)
    assert (told.code, "nothing was imported" in told.err, (repo / "memory").exists()) == (
        5,
        True,
        False,
    )


KILL = """
import os, sys
from filemem.files import write
whole, left = write.StagedFile.publish, [int(sys.argv.pop(1))]
def publish(*given, **more):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
    whole(*given, **more)
write.StagedFile.publish = publish
from filemem.cli import main
main()
"""


def test_stopped_in_the_middle_all_or_nothing_is_there(repo: Path, tmp_path: Path) -> None:
    source = database(tmp_path / "m.db", sources.MAMA, [decided(number) for number in range(40)])
    tip = git(repo, "rev-parse", "HEAD")
    call = [
        sys.executable,
        "-c",
        KILL,
        "17",
        "import",
        "mama",
        str(source),
        "--all-projects",
        "--yes",
    ]
    done = subprocess.run(call, cwd=repo, capture_output=True, env=environment(), check=False)
    assert done.returncode == 9, done.stderr
    process(repo, "status")
    there = len(records(repo))
    assert there in (0, 40)
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-list", "--count", f"{tip}..HEAD") == ("1" if there else "0")
    assert ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["new"] == 40 - there
    assert len(records(repo)) == 40


def test_many_items_with_rules_of_git_in_their_way_are_one_commit(
    repo: Path, tmp_path: Path
) -> None:
    write(repo / ".gitignore", "*.py[cod]\n")
    write(repo / ".gitattributes", "*.psd filter=lfs\n")
    source = database(tmp_path / "m.db", sources.MAMA, [decided(number) for number in range(100)])
    assert ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["new"] == 100
    changed(source, "UPDATE decisions SET reasoning = 'Thought again'")
    assert ok(repo, "import", "mama", str(source), "--all-projects", "--yes")["updated"] == 100
    assert git(repo, "rev-list", "--count", "HEAD") == "3"
    assert git(repo, "status", "--porcelain", "memory") == ""


@pytest.mark.long
def test_ten_thousand_items(repo: Path, tmp_path: Path) -> None:
    source = database(
        tmp_path / "c.db", sources.CLAUDE_MEM, [observed(number) for number in range(10_000)]
    )
    assert ok(repo, "import", "claude-mem", str(source), "--yes")["new"] == 10_000
    assert ok(repo, "import", "claude-mem", str(source), "--yes")["same"] == 10_000


# export


def test_an_export_comes_back_as_it_was(repo: Path, tmp_path: Path, memory: Memory) -> None:
    one = memory.save(
        topic="caching", decision="Use Redis", reasoning="## Decision\nShared", rejected=["Files"]
    )
    two = memory.save(
        topic="caching",
        decision="Use LRU\nIn the process",
        reasoning="Fast",
        confidence=0.5,
        tags=["a"],
    )
    memory.update(one.id, outcome="failed", reason="slow")
    memory.save(summary="Half done", next_steps="Rest", open_files=["a.py"])
    memory.save(title="Limit", text="100 a minute", metadata={"n": 3, "s": "3"}, facts=["x"])
    memory.save(title="Mine", text="Of a person", visibility="private")
    write(
        repo / "memory/decisions/by-hand.md",
        "---\nstatus: Final\ndate: 2024-05-06\nteam: core\n---\n# By hand\n\nWithout an id.\n",
    )
    assert cli(repo, "export", "-o", str(tmp_path / "all.jsonl"), "--private").code == 0
    public = cli(repo, "export").out.splitlines()
    assert (len(public), len((tmp_path / "all.jsonl").read_text().splitlines())) == (5, 6)
    assert {json.loads(line)["id"] for line in public} >= {one.id, two.id}

    other = make_repo(tmp_path / "other")
    ok(other, "import", "filemem", str(tmp_path / "all.jsonl"), "--yes")
    assert ok(other, "import", "filemem", str(tmp_path / "all.jsonl"), "--yes")["same"] == 6
    assert ok(repo, "import", "filemem", str(tmp_path / "all.jsonl"), "--yes")["new"] == 0
    before, after = ({one.id: one for one in records(folder).values()} for folder in (repo, other))
    assert before.keys() == after.keys()
    for name, record in before.items():
        same: dict[str, Any] = {"source": "", "path": "", "id_stated": True}
        assert after[name]._replace(**same) == record._replace(**same)
    back = cli(other, "export", "--private").out.splitlines()
    first = (tmp_path / "all.jsonl").read_text().splitlines()
    assert sorted(map(without, back)) == sorted(map(without, first))


def without(line: str) -> str:
    """A line of an export without what an import adds."""
    return json.dumps(
        {name: value for name, value in json.loads(line).items() if name not in ("source", "path")}
    )


def test_an_export_as_text_and_as_a_table(repo: Path, memory: Memory) -> None:
    memory.save(topic="sums", decision="=1+1", reasoning="a, b")
    text = cli(repo, "export", "--format", "markdown").out
    assert "## sums" in text
    assert "=1+1\n\na, b" in text
    assert "'=1+1" in cli(repo, "export", "--format", "csv").out
    assert cli(repo, "export", "-o", "no/such/folder").code == 2


def test_a_line_that_no_export_has_is_refused_by_its_number(repo: Path, tmp_path: Path) -> None:
    good = '{"id": "observation_1_aaaaaaaa", "type": "observation", "title": "T"}\n'
    for bad in (
        "[1]",
        '{"id": 5, "type": "decision"}',
        '{"id": "a", "type": "observation", "title": ["x"]}',
        "{",
    ):
        told = cli(repo, "import", "filemem", str(write(tmp_path / "x.jsonl", good + bad)), "--yes")
        assert told.code == 2
        assert re.search("record 2 is not|:2: this line is not a JSON object", told.err), told.err
    assert not (repo / "memory").exists()


# rules, and the word of the server


def test_rules_that_read_like_decisions_are_listed(repo: Path) -> None:
    write(
        repo / "CLAUDE.md",
        "# Rules\n\n- Use pnpm, not npm.\n- The tests are in tests/.\n```\nuse x, not y\n```\n",
    )
    write(
        repo / "AGENTS.md",
        "<!-- filemem:begin -->\n- Always use filemem\n<!-- filemem:end -->\n* Never commit secrets.\n",
    )
    write(repo / ".cursor/rules/style.mdc", "Prefer composition over inheritance\n")
    rules = ok(repo, "import", "rules", "--dry-run")["rules"]
    assert [(one["path"], one["line"], one["text"]) for one in rules] == [
        ("CLAUDE.md", 3, "Use pnpm, not npm."),
        ("AGENTS.md", 4, "Never commit secrets."),
        (".cursor/rules/style.mdc", 1, "Prefer composition over inheritance"),
    ]
    assert cli(repo, "import", "rules").code == 2
    write(repo / "CLAUDE.md", "- Use \x1b[31mpnpm, not npm.\n")
    assert "\x1b" not in cli(repo, "import", "rules", "--dry-run").out


def test_a_server_of_mama_s_tools_names_the_old_database_once(repo: Path, tmp_path: Path) -> None:
    serve = ("serve", "--profile", "mama")
    assert process(repo, *serve).err == ""
    found = {"MAMA_DB_PATH": str(mama(tmp_path))}
    first, second = process(repo, *serve, **found).err, process(repo, *serve, **found).err
    assert "filemem import mama" in first
    assert "import" not in second
    other = make_repo(tmp_path / "other")
    ok(other, "import", "mama", found["MAMA_DB_PATH"], "--all-projects", "--yes")
    assert "import" not in process(other, *serve, **found).err


def test_the_page_of_imports_shows_commands_that_work(repo: Path, guarded_home: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/import.md").read_text()
    write(repo / "AGENTS.md", "Use pnpm, not npm.\n")
    old = mama(guarded_home / ".mama").rename(guarded_home / ".mama/memories.db")
    try:
        calls = re.findall(r"^\$ filemem (.*)$", page, re.MULTILINE)
        assert len(calls) == 6
        for call in calls:
            agreed = ["--yes"] if call == "import mama" else []
            assert cli(repo, *call.split(), *agreed).code == 0, call
    finally:
        old.unlink()


def test_each_heading_of_a_decision_log_is_a_decision_with_its_own_date_and_status(
    repo: Path, tmp_path: Path
) -> None:
    source = decision_log(tmp_path)
    ok(repo, "import", "decision-log", str(source), "--all-projects", "--yes")
    decisions = {record.title: record for record in records(repo).values()}
    assert sorted(decisions) == ["Use PostgreSQL", "Use Redis for sessions (2025-04-01)"]
    first, second = decisions["Use PostgreSQL"], decisions["Use Redis for sessions (2025-04-01)"]
    days = [format_time(record.created or 0)[:10] for record in (first, second)]
    assert days == ["2025-03-02", "2025-04-01"]
    assert (first.status, second.status) == ("accepted", "rejected")
    assert "Backups." in first.text
    assert "## not a heading" in second.text


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("ADR-001: Use PostgreSQL", "Use PostgreSQL"),
        ("[2025-03-02] - Use PostgreSQL", "Use PostgreSQL"),
        ("2025-07-27 10:00: Use PostgreSQL", "Use PostgreSQL"),
        ("Decision: Use PostgreSQL", "Use PostgreSQL"),
        ("Decision 4 - Use PostgreSQL", "Use PostgreSQL"),
        ("3. Use PostgreSQL", "Use PostgreSQL"),
        ("Decision making", "Decision making"),
        ("3 nodes for the cluster", "3 nodes for the cluster"),
    ],
)
def test_the_heading_of_a_log_is_a_title_without_number_and_date(
    tmp_path: Path, heading: str, title: str
) -> None:
    write(tmp_path / "DECISIONS.md", f"# Log\n\n## {heading}\n\nBecause.\n")
    assert [
        item.extra_fields["title"] for item in read("decision-log", tmp_path / "DECISIONS.md")
    ] == [title]


# what the programs themselves made


MADE = Path(sources.__file__).parent / "made"
REAL = {
    "server-memory": ("server-memory.jsonl", {"Parser", "../Cache", "Ada"}, {"Ada"}),
    "powermem": (
        "powermem.db",
        {"The build takes 4 minutes", "Likes tabs", "Deploy on Fridays only"},
        {"Likes tabs"},
    ),
    "basic-memory": ("basic-memory", {"Parser", "Use LRU"}, set[str]()),
    "mama": (
        "mama.db",
        {"Use Redis", "Use an LRU cache", "Sign in with JWT", "The cache works"},
        set[str](),
    ),
    "claude-mem": (
        "claude-mem.db",
        {
            "Slow build",
            "Retries hide the time-outs",
            "Deploy on Fridays only",
            "Use an LRU cache",
            "Make the prices fast",
        },
        set[str](),
    ),
}


@pytest.mark.parametrize("form", REAL)
def test_what_the_program_made_comes_in_whole_and_once(
    repo: Path, tmp_path: Path, form: str
) -> None:
    name, titles, private = REAL[form]
    source = tmp_path / name  # its own folder, so that reading could leave something beside it
    if (MADE / name).is_dir():
        shutil.copytree(MADE / name, source)
    else:
        shutil.copy(MADE / name, source)
    before = snapshot(tmp_path, skip=("repo",))
    call = ("import", form, str(source), "--yes", "--all-projects")
    done = ok(repo, *call)
    assert (done["new"], done.get("private", 0), done.get("refused")) == (
        len(titles),
        len(private),
        None,
    )
    found = records(repo)
    assert found.keys() == titles
    assert {title for title, one in found.items() if one.visibility == "private"} == private
    again = ok(repo, *call)
    assert (again["new"], again["updated"], again["same"]) == (0, 0, len(titles))
    assert snapshot(tmp_path, skip=("repo",)) == before


def test_metadata_and_owners_of_a_real_powermem_are_kept(repo: Path) -> None:
    ok(repo, "import", "powermem", str(MADE / "powermem.db"), "--yes")
    found = records(repo)
    build = found["The build takes 4 minutes"]
    assert (build.metadata, build.memory_type) == ({"team": "core"}, "")
    assert (found["Likes tabs"].user_id, found["Likes tabs"].created is None) == ("ada", False)
    owned = found["Deploy on Fridays only"]
    assert (owned.agent_id, owned.run_id) == ("coder", "r1")


def test_the_chain_and_the_outcome_of_a_real_mama_are_kept(repo: Path) -> None:
    assert ok(repo, "import", "mama", str(MADE / "mama.db"), "--yes")["new"] == 4
    found = records(repo)
    redis = found["Use Redis"]
    cache = found["Use an LRU cache"]
    assert cache.supersedes == (redis.id,)
    assert [(made.outcome, made.reason) for made in redis.outcomes] == [("failed", "It ran full")]
    assert (cache.topic, cache.text) == ("caching", "Redis was one more service to run.")
    assert (cache.confidence, redis.id.startswith("decision_caching_")) == (0.8, True)
    checkpoint = found["The cache works"]
    assert (checkpoint.next_steps, checkpoint.open_files) == ("Measure it", ("src/cache.py",))


def test_a_real_claude_mem_keeps_projects_times_and_metadata(repo: Path) -> None:
    source = str(MADE / "claude-mem.db")
    done = ok(repo, "import", "claude-mem", source, "--yes", "--project", "shop")
    assert (done["new"], done["other_projects"]) == (4, {"bank": 1})
    found = records(repo)
    assert found["Retries hide the time-outs"].metadata == {"ticket": 7}
    assert found["Slow build"].text.endswith("The build takes 4 minutes")
    cache = found["Use an LRU cache"]
    assert (cache.status, cache.affects, cache.tags) == (
        "proposed",
        ("src/cache.py",),
        ("trade-off",),
    )
    summary = found["Make the prices fast"]
    assert (summary.next_steps, summary.open_files) == ("Measure it", ("src/cache.py",))
    assert cache.created == summary.created == 1_763_650_000_123


def test_a_database_without_memories_is_no_powermem(repo: Path, tmp_path: Path) -> None:
    told = cli(repo, "import", "powermem", str(mama(tmp_path)), "--dry-run")
    assert (told.code, "has no memories of powermem" in told.err) == (2, True)


def test_a_source_that_names_no_project_is_taken_where_the_user_names_it(
    repo: Path, tmp_path: Path, guarded_home: Path
) -> None:
    source = server_memory(tmp_path)
    assert ok(repo, "import", "server-memory", str(source), "--dry-run")["new"] == 2
    usual = mama(guarded_home / ".mama").rename(guarded_home / ".mama/memories.db")
    try:
        shown = ok(repo, "import", "mama", "--dry-run")
        assert (shown["new"], shown["other_projects"]) == (0, {"(none)": 3})
        assert ok(repo, "import", "mama", str(usual), "--dry-run")["new"] == 3
        named = ok(repo, "import", "mama", str(usual), "--dry-run", "--project", "shop")
        assert named["new"] == 0
    finally:
        usual.unlink()


def test_the_memory_folder_of_one_project_is_read(repo: Path, tmp_path: Path) -> None:
    top = claude_code(tmp_path)
    folder = str(top / "mine/memory")
    done = ok(repo, "import", "claude-code", folder, "--yes")
    assert (done["new"], done["private"], [*records(repo)]) == (1, 1, ["Tabs"])
    again = ok(repo, "import", "claude-code", str(top), "--all-projects", "--yes")
    assert (again["new"], again["same"]) == (1, 1)


def test_notes_keep_the_order_of_their_commits_else_of_their_files(
    repo: Path, tmp_path: Path
) -> None:
    folder = make_repo(tmp_path / "vault") / "notes"
    for number, name in enumerate(("first", "second")):
        sources.note(folder / f"{name}.md", f"# {name.title()}\n\nText.\n")
        git(folder.parent, "add", ".")
        when = f"{START // 1000 - 1_000_000 + number} +0000"
        git(folder.parent, "commit", "-q", "-m", name, GIT_COMMITTER_DATE=when)
    git(folder.parent, "mv", "notes/first.md", "notes/zero.md")
    git(folder.parent, "commit", "-q", "-m", "Rename")
    sources.note(folder / "third.md", "# Third\n\nText.\n")
    ok(repo, "import", "basic-memory", str(folder), "--yes")
    dates = {title: one.created for title, one in records(repo).items()}
    first = START - 1_000_000_000
    assert dates == {"First": first, "Second": first + 1000, "Third": START}
    outside = sources.note(tmp_path / "plain/one.md", "# One\n\nText.\n").parent
    ok(repo, "import", "basic-memory", str(outside), "--yes")
    assert records(repo)["One"].created == START


def test_an_import_that_is_committed_is_no_failure_where_the_index_cannot_be_written(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise BrokenStore("the search index cannot be written or read: No space left on device")

    items = read("mama", mama(tmp_path))
    with Memory.open(repo) as memory:
        monkeypatch.setattr(memory.keeper, "update_index", full)
        done = memory.ingest(items, "mama")
    assert done.commit
    assert done.note.startswith("3 records are imported, but not searchable yet; ")
    assert "No space left" in done.note
    assert len(records(repo)) == 3
