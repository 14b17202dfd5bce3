"""What a branch does to the memory, and how the forks that it brings are ended."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from filemem.cli.markdown import comparison, escaped
from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.memory.values import Effect
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok

WHY = "why: One process"  # of every decision that is saved here
DECISION = ("save", "decision", "--reasoning", "One process", "--topic")


def decide(repo: Path, topic: str, decision: str, *more: str) -> dict[str, Any]:
    return ok(repo, *DECISION, topic, "--decision", decision, *more)  # type: ignore[no-any-return]


def effects(repo: Path, *arguments: str) -> list[tuple[str, str, list[str], list[str]]]:
    """Kind, title, details and titles of others, of each effect."""
    return [
        (one["kind"], one["title"], one.get("details", []), [other["title"] for other in one.get("others", ())])
        for one in ok(repo, "diff", *arguments)["effects"]
    ]


@pytest.fixture
def feature(repo: Path) -> Path:
    """Two topics on main, and a branch `feature` checked out."""
    decide(repo, "caching", "Use Redis")
    decide(repo, "queues", "Use NATS")
    git(repo, "switch", "-q", "-c", "feature")
    return repo


def test_nothing_is_touched(feature: Path) -> None:
    write(feature / "code.py", "print('changed')\n")
    write(feature / "memory/README.md", "# Not a record\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Code")
    assert effects(feature) == []
    assert "no record is touched" in cli(feature, "diff").out
    assert "No record is touched." in cli(feature, "diff", "--format", "markdown").out


def test_a_branch_without_a_commit_of_its_own_is_not_the_default_branch(feature: Path) -> None:
    told = "feature against main: no record is touched"
    assert told in cli(feature, "diff").out
    answer = ok(feature, "diff", "...HEAD")
    assert (answer["base"]["name"], answer["head"]["name"], answer["effects"]) == ("main", "feature", [])
    git(feature, "switch", "-q", "--detach")
    assert "HEAD against main: no record is touched" in cli(feature, "diff").out
    git(feature, "switch", "-q", "feature")
    decide(feature, "caching", "Use an LRU cache")
    git(feature, "branch", "-f", "main")
    assert told in cli(feature, "diff").out, "after a fast-forward"
    git(feature, "switch", "-q", "main")
    assert cli(feature, "diff", "...HEAD").code == 2
    assert cli(feature, "diff", "...main").code == 2


def test_new_superseded_outcomes_revised_removed(feature: Path) -> None:
    new = decide(feature, "caching", "Use an LRU cache")
    nats = ok(feature, "search", "--topic", "queues")["results"][0]
    ok(feature, "update", nats["id"], "--outcome", "failed", "--reason", "loses messages")
    path = feature / nats["path"]
    path.write_text(path.read_text().replace("One process", "Several processes"))
    git(feature, "commit", "-q", "-a", "-m", "Reword")
    ok(feature, "save", "observation", "--text", "NATS loses messages when it restarts")
    told = [
        ("new", "Use an LRU cache", [WHY], ["Use Redis"]),
        ("new", "NATS loses messages when it restarts", [], []),
        ("superseded", "Use Redis", [], ["Use an LRU cache"]),
        ("outcome", "Use NATS", ["outcome failed: loses messages"], []),
        ("revised", "Use NATS", ["reasoning reworded"], []),
    ]
    assert effects(feature) == told
    answer = ok(feature, "diff")
    assert answer["counts"] == {"new": 2, "superseded": 1, "outcome": 1, "revised": 1}
    assert (answer["base"]["name"], answer["head"]["name"]) == ("main", "feature")
    assert answer["parted"] == git(feature, "rev-parse", "main")
    assert answer["effects"][0]["id"] == new["id"]
    out = cli(feature, "diff").out
    assert out.startswith("feature against main: 2 new, 1 superseded, 1 outcome, 1 revised\n")
    assert "    supersedes Use Redis\n" in out
    write(feature / "memory/decisions/more.md", "# Not committed\n")
    assert effects(feature) == told, "only commits are compared"
    git(feature, "switch", "-q", "main")
    assert effects(feature, "main...feature") == told, "whatever is checked out"
    assert effects(feature, "...feature") == told
    back = effects(feature, "feature..main")
    assert [(kind, title) for kind, title, *_ in back] == [
        ("outcome", "Use NATS"),
        ("revised", "Use NATS"),
        ("removed", "Use an LRU cache"),
        ("removed", "NATS loses messages when it restarts"),
        ("revived", "Use Redis"),
    ]


def test_renames_and_rebases_are_no_changes_of_what_is_said(feature: Path) -> None:
    decide(feature, "caching", "Use an LRU cache")
    before = effects(feature)
    git(feature, "switch", "-q", "main")
    write(feature / "code.py", "print('main went on')\n")
    git(feature, "commit", "-q", "-a", "-m", "Code")
    git(feature, "switch", "-q", "feature")
    git(feature, "rebase", "-q", "main")
    assert effects(feature) == before
    git(feature, "mv", "memory/decisions/queues", "memory/decisions/lines")
    git(feature, "commit", "-q", "-m", "Move")
    (moved,) = [one for one in effects(feature) if one[0] == "revised"]
    assert moved[1] == "Use NATS"
    assert moved[2][0].startswith("renamed from decisions/queues/")
    assert not [one for one in effects(feature) if one[0] == "removed"]


def test_what_a_removal_leaves_behind(feature: Path) -> None:
    redis = ok(feature, "search", "--topic", "caching")["results"][0]
    decide(feature, "sessions", "Keep sessions in the cache", "--builds-on", redis["id"])
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "feature")
    git(feature, "switch", "-q", "feature")
    ok(feature, "delete", redis["id"])
    assert effects(feature) == [
        ("removed", "Use Redis", [], []),
        ("orphaned", "caching", ["nothing holds on this topic any more"], ["Use Redis"]),
        ("orphaned", "Keep sessions in the cache", ["builds_on Use Redis, which is removed"], []),
    ]
    lru = decide(feature, "caching", "Use an LRU cache")
    ok(feature, "update", lru["id"], "--status", "deprecated")
    nats = ok(feature, "search", "--topic", "queues")["results"][0]
    ok(feature, "update", nats["id"], "--status", "deprecated")
    told = effects(feature)
    assert ("orphaned", "Use NATS", ["nothing holds on this topic any more"], []) in told
    assert ("revised", "Use NATS", ["status accepted -> deprecated"], []) in told


def test_a_topic_whose_only_decision_is_removed_is_left_without_one(feature: Path) -> None:
    nats = ok(feature, "search", "--topic", "queues")["results"][0]
    write(feature / "memory/decisions/plain.md", "# Use tabs\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "A decision that states no topic")
    ok(feature, "delete", nats["id"])
    left = ("orphaned", "queues", ["nothing holds on this topic any more"], ["Use NATS"])
    assert [one for one in effects(feature) if one[0] != "new"] == [("removed", "Use NATS", [], []), left]
    (told,) = [one for one in ok(feature, "diff")["effects"] if one["kind"] == "orphaned"]
    assert (told["topic"], told["others"]) == ("queues", [{"id": nats["id"], "title": "Use NATS"}])
    assert "? queues  orphaned\n    held: Use NATS\n    nothing holds on this" in cli(feature, "diff").out
    comment = cli(feature, "diff", "--format", "markdown").out
    assert "**Left hanging** (1)\n- **queues**: held: Use NATS; nothing holds on this topic any more" in comment
    git(feature, "rm", "-q", "memory/decisions/plain.md")
    git(feature, "commit", "-q", "-m", "Tabs are gone")
    assert effects(feature, "HEAD~1...HEAD") == [("removed", "Use tabs", [], [])], "it was on no topic that others join"
    decide(feature, "queues", "Use Kafka")
    assert not [one for one in effects(feature) if one[0] == "orphaned"]


def test_what_is_left_without_a_decision_names_what_held_and_what_is_proposed(feature: Path) -> None:
    nats = ok(feature, "search", "--topic", "queues")["results"][0]
    ok(feature, "update", nats["id"], "--status", "deprecated")
    kafka = decide(feature, "queues", "Use Kafka", "--status", "proposed")
    only = f"Use Kafka ({kafka['id'][-8:]}) is only proposed"
    [orphaned] = [one for one in effects(feature) if one[0] == "orphaned"]
    assert orphaned == ("orphaned", "Use NATS", ["nothing holds on this topic any more", only], [])
    assert only in cli(feature, "check", "--base", "main").out
    ok(feature, "delete", nats["id"])
    [orphaned] = [one for one in effects(feature) if one[0] == "orphaned" and one[1] != "Use Kafka"]
    assert orphaned == ("orphaned", "queues", ["nothing holds on this topic any more"], ["Use NATS"])


def test_a_fork_that_only_the_merge_will_show(feature: Path) -> None:
    """Both sides decide one topic; Git sees no conflict, the memory diff does, before and after the merge."""
    decide(feature, "caching", "Use an LRU cache")
    git(feature, "switch", "-q", "main")
    decide(feature, "caching", "Use Memcached")
    decide(feature, "queues", "Use Kafka")
    git(feature, "switch", "-q", "feature")
    forked = [one for one in effects(feature) if one[0] == "forked"]
    both = ["Use an LRU cache", "Use Memcached"]
    assert forked == [("forked", "caching", ["when merged: the other side has decided it too"], both)]
    assert cli(feature, "diff").out.splitlines()[1].startswith("! caching")
    git(feature, "merge", "-q", "--no-edit", "main")
    forked = [one for one in effects(feature) if one[0] == "forked"]
    assert [(kind, title, sorted(others)) for kind, title, _, others in forked] == [("forked", "caching", sorted(both))]
    ok(feature, "resolve", "caching", "--decision", "Both, in two levels", "--reasoning", "Each was right")
    told = effects(feature)
    assert not [one for one in told if one[0] in ("forked", "joined")]
    assert ("superseded", "Use Memcached", [], ["Both, in two levels"]) in told
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "--no-edit", "HEAD@{0}", ok=False)
    assert ("joined", "caching", [], ["Both, in two levels"]) in effects(feature, "feature~1..feature")


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_a_fork_after_a_real_merge_is_contested_until_it_is_resolved(feature: Path, how: str) -> None:
    ours = decide(feature, "caching", "Use an LRU cache")
    git(feature, "switch", "-q", "main")
    theirs = decide(feature, "caching", "Use Memcached")
    if how == "merge":
        git(feature, "merge", "-q", "--no-edit", "feature")
    elif how == "squash":
        git(feature, "merge", "-q", "--squash", "feature")
        git(feature, "commit", "-q", "-m", "Caching (#2)")
    else:
        git(feature, "switch", "-q", "feature")
        git(feature, "rebase", "-q", "main")
        git(feature, "switch", "-q", "main")
        git(feature, "merge", "-q", "--ff-only", "feature")
    heads = {ours["id"], theirs["id"]}
    hits = ok(feature, "search", "cache", "--topic", "caching")["results"]
    contested = [hit for hit in hits if "contested: 2 decisions" in hit.get("note", "")]
    assert {hit["id"] for hit in contested if hit["holds"]} == heads
    assert set(ok(feature, "history", "caching")["heads"]) == heads
    checked = cli(feature, "check")
    assert (checked.code, "forked-topic" in checked.out) == (1, True)
    assert "filemem resolve caching" in checked.out
    assert cli(feature, *DECISION, "caching", "--decision", "A third").code == 5
    ended = ok(feature, "resolve", "Caching", "--decision", "Both, in two levels", "--reasoning", "Each was right")
    assert set(ended["superseded"]) == heads
    assert ok(feature, "history", "caching")["heads"] == [ended["id"]]
    assert cli(feature, "check").code == 0
    header = (feature / ended["path"]).read_text()
    assert "topic: caching\n" in header, "as it was written before"
    assert "synthesizes:" in header


def test_save_ends_a_fork_too_and_what_is_no_fork_is_not_resolved(feature: Path) -> None:
    fields = ("--decision", "x", "--reasoning", "r")
    done = cli(feature, "resolve", "caching", *fields)
    assert (done.code, "topic caching is not forked: Use Redis (" in done.err) == (2, True)
    done = cli(feature, "resolve", "cachin", *fields)
    assert (done.code, "did you mean caching?" in done.err) == (4, True)
    ours = decide(feature, "caching", "Use an LRU cache")
    git(feature, "switch", "-q", "main")
    theirs = decide(feature, "caching", "Use Memcached")
    git(feature, "merge", "-q", "--no-edit", "feature")
    end = decide(feature, "caching", "LRU", "--supersedes", ours["id"], "--supersedes", theirs["id"])
    assert ok(feature, "history", "caching")["heads"] == [end["id"]]


def test_ranges_that_cannot_be_compared(feature: Path) -> None:
    git(feature, "switch", "-q", "main")
    done = cli(feature, "diff")
    assert (done.code, "main is the default branch itself" in done.err) == (2, True)
    done = cli(feature, "diff", "mian...HEAD")
    assert (done.code, "did you mean main?" in done.err) == (4, True)
    git(feature, "switch", "-q", "--orphan", "apart")
    write(feature / "memory/decisions/apart.md", "# Another beginning\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Apart")
    done = cli(feature, "diff")
    assert (done.code, "main and apart have no history in common" in done.err) == (5, True)
    assert "filemem diff main..apart" in done.err
    kinds = [kind for kind, *_ in effects(feature, "main..apart")]
    assert sorted(kinds) == ["new", "orphaned", "orphaned", "removed", "removed"]
    git(feature, "branch", "-D", "-q", "main")
    git(feature, "branch", "-m", "somewhere")
    done = cli(feature, "diff")
    assert (done.code, "no default branch to compare with" in done.err) == (2, True)


def test_on_the_default_branch_it_is_compared_with_the_remotes(tmp_path: Path) -> None:
    origin = make_repo(tmp_path / "origin")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
        git(clone, "config", name, value)
    decide(clone, "caching", "Use Redis")
    answer = ok(clone, "diff")
    assert (answer["base"]["name"], answer["head"]["name"], answer["counts"]) == ("origin/main", "main", {"new": 1})
    assert len(effects(clone, "2031-01-01..HEAD")) == 0
    with Memory.open(clone) as memory:
        assert [one.kind for one in memory.diff().effects] == ["new"]
        with pytest.raises(BadInput):
            memory.resolve("caching", decision="x", reasoning="y")


HOSTILE = (
    "**bold** <img src=x onerror=alert(1)> [a](javascript:1) @everyone #12 GH-7 https://evil.example www.evil.example "
    "`code` | table ~~gone~~ &lt; $x$ a_b_c"
)


def test_hostile_titles_are_only_titles_in_a_comment(feature: Path) -> None:
    write(feature / "memory/decisions/bad.md", f"---\ntopic: '1. @here'\n---\n# {HOSTILE}\n\nText.\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Bad")
    out = cli(feature, "diff", "--format", "markdown").out
    (row,) = [line for line in out.splitlines() if line.startswith("- ")]
    assert row == f"- **{escaped(HOSTILE)}** ({escaped('1. @here')}): why\\: Text\\. – `memory/decisions/bad.md`"
    row = row.replace("`memory/decisions/bad.md`", "")
    for raw in (
        "**bold**",
        "](",
        "@everyone",
        "@here",
        "#12",
        "GH-7",
        "://",
        "www.",
        "`code`",
        "~~",
    ):
        assert raw not in row, raw
    assert not re.search(r"(?<!\\)[<>`|$]", row)
    assert escaped("# heading\n- item") == r"\# heading \- item"
    assert escaped("1. one") == r"1\. one"
    assert escaped("plain words, 日本語") == "plain words, 日本語"
    assert len(escaped("x" * 500)) == 200


def test_a_comment_has_a_heading_for_each_kind_and_counts_what_is_too_much(feature: Path) -> None:
    path = decide(feature, "caching", "Use an LRU cache", "--status", "proposed")["path"]
    out = cli(feature, "diff", "--format", "markdown").out
    assert out == (
        "### Memory: what feature changes against main\n\n"
        "**New** (1)\n- **Use an LRU cache** (caching): proposed; would supersede Use Redis; why\\: One process"
        f" – `{path}`\n"
    )
    effect = {"kind": "new", "type": "observation", "title": "T"}
    answer = {"base": {"name": "main"}, "head": {"name": "x"}, "effects": [effect] * 32}
    assert comparison(answer).endswith("- **T** (observation)\n- and 2 more")
    answer["effects"] = [effect | {"path": "a/`@x`.md"}]
    assert comparison(answer).endswith(r"- **T** (observation) – a/\`@&#8203;x\`\.md")


@pytest.mark.parametrize("way", ["tombstone", "suffix", "folder", "link", "padded", "linked tombstones"])
def test_a_branch_cannot_hide_a_decision_unseen(feature: Path, way: str) -> None:
    """Whatever takes a record out of the answers is told as its removal, and stops the gate."""
    redis = ok(feature, "search", "--topic", "caching")["results"][0]
    path = feature / redis["path"]
    mark = feature / "memory/.forgotten" / hashlib.sha256(redis["id"].encode()).hexdigest()
    match way:
        case "tombstone":
            write(mark, "")
        case "suffix":
            path.rename(path.with_suffix(".txt"))
        case "folder":
            (feature / "memory/.hidden").mkdir()
            path.rename(feature / "memory/.hidden" / path.name)
        case "link":
            path.unlink()
            path.symlink_to("/etc/hostname")
        case "padded":
            path.write_text(path.read_text() + "x" * 2**20)
        case _:
            write(feature / "src" / mark.name, "")
            mark.parent.symlink_to("../src")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Tidy")
    checked = cli(feature, "check", "--base", "main")
    if way == "linked tombstones":
        assert (effects(feature), checked.code, ok(feature, "search", "--topic", "caching")["count"]) == ([], 0, 1)
        return
    left = ("orphaned", "caching", ["nothing holds on this topic any more"], ["Use Redis"])
    told: list[tuple[str, str, list[str], list[str]]] = [("removed", "Use Redis", [], []), left]
    assert effects(feature) == told
    assert checked.code == 1, checked.out
    assert ok(feature, "search", "--topic", "caching")["count"] == 0
    git(feature, "switch", "-q", "main")
    assert effects(feature, "main...feature") == told, "whatever is checked out"
    assert ok(feature, "search", "--topic", "caching", "--at", "feature")["count"] == 0
    assert effects(feature, "feature..main") == [("new", "Use Redis", [WHY], [])]


def test_what_a_range_says_wrong_and_what_new_decisions_replace(feature: Path) -> None:
    decide(feature, "logging", "Log text")
    decide(feature, "logging", "Log JSON")
    told = sorted(effects(feature))
    assert told == [("new", "Log JSON", [WHY], ["Log text"]), ("new", "Log text", [WHY], [])]
    for arguments in (("diff", "nope...HEAD"), ("diff", "@{u}...HEAD"), ("check", "--base", "@{u}")):
        done = cli(feature, *arguments)
        field = "base" if arguments[0] == "check" else "range"
        assert (done.code, f"{field}: no commit, tag, branch or date" in done.err) == (4, True), done
        assert "fsck" not in done.err
    assert cli(feature, "search", "--at", "@{u}").code == 4


def test_a_file_name_with_control_characters_is_no_record_anywhere(feature: Path) -> None:
    write(feature / "memory/decisions/a\x1bb.md", "# Odd\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Odd")
    assert effects(feature) == []
    checked = cli(feature, "check", "--base", "main")
    assert (checked.code, "file-name" in checked.out, "\x1b" in checked.out) == (1, True, False)


def test_paths_outside_the_work_tree_are_told(feature: Path) -> None:
    saved = decide(
        feature, "paths", "Look elsewhere", "--affects", "../x", "--affects", "/etc/passwd", "--affects", "a"
    )
    assert saved["note"].startswith("affects ../x, /etc/passwd: outside the work tree")


def test_an_id_that_stands_twice(feature: Path) -> None:
    """A record copied as a template keeps the id of its model: the index gives it another, and so does the diff."""
    redis = ok(feature, "search", "--topic", "caching")["results"][0]
    copied = (feature / redis["path"]).read_text().replace("# Use Redis", "# Use Memcached")
    write(feature / "memory/decisions/caching/aaa.md", copied)
    fresh = "---\nid: decision_logs_1763650000123_k3f9w2ma\ntopic: {0}\n---\n# {0}\n\nText.\n"
    for name in ("one", "two"):
        write(feature / f"memory/decisions/{name}.md", fresh.format(name))
    nats = ok(feature, "search", "--topic", "queues")["results"][0]
    write(feature / "memory/decisions/three.md", f"---\nid: {nats['id']}\ntopic: three\n---\n# three\n\nText.\n")
    git(feature, "add", "-A")
    git(feature, "commit", "-q", "-m", "Copy")
    told = effects(feature)
    assert ("forked", "caching", [], ["Use Redis", "Use Memcached"]) in [
        (k, t, d, sorted(o, reverse=True)) for k, t, d, o in told
    ]
    assert ("new", "Use Memcached", [WHY, "states the id of Use Redis, which keeps it"], []) in told
    assert ("new", "three", ["why: Text.", "states the id of Use NATS, which keeps it"], []) in told
    assert [title for kind, title, *_ in told if kind == "new"] == ["Use Memcached", "one", "three", "two"]
    git(feature, "switch", "-q", "main")
    assert effects(feature, "main...feature") == told, "whatever is checked out"
    git(feature, "merge", "-q", "--no-edit", "feature")
    assert effects(feature, "feature..main") == [], "and merged"


def test_a_proposal_that_is_accepted_did_not_hold_before(feature: Path) -> None:
    git(feature, "switch", "-q", "main")
    new = decide(feature, "caching", "Use an LRU cache", "--status", "proposed")
    git(feature, "switch", "-q", "-C", "feature", "main")
    ok(feature, "update", new["id"], "--status", "accepted")
    assert effects(feature) == [
        ("accepted", "Use an LRU cache", ["status proposed -> accepted"], []),
        ("superseded", "Use Redis", [], ["Use an LRU cache"]),
    ]
    assert "Accepted" in cli(feature, "diff", "--format", "markdown").out


@pytest.mark.parametrize(
    ("old", "new", "phrase"),
    [
        ("topic: queues", "topic: messages", "topic queues -> messages"),
        ("type: decision", "type: observation", "type decision -> observation"),
    ],
)
def test_nothing_holds_where_a_decision_was_taken_from(feature: Path, old: str, new: str, phrase: str) -> None:
    path = feature / ok(feature, "search", "--topic", "queues")["results"][0]["path"]
    path.write_text(path.read_text().replace(old, new))
    git(feature, "commit", "-q", "-a", "-m", "Move")
    assert effects(feature) == [
        ("revised", "Use NATS", [phrase], []),
        ("orphaned", "queues", ["nothing holds on this topic any more"], ["Use NATS"]),
    ]


def test_what_cannot_be_read_any_more_is_told(feature: Path) -> None:
    path = feature / ok(feature, "search", "--topic", "queues")["results"][0]["path"]
    text = path.read_text()
    path.write_text(text + "\n<<<<<<< HEAD\n=======\nother\n>>>>>>> other\n")
    git(feature, "commit", "-q", "-a", "-m", "Append")
    ((kind, _, (phrase,), _),) = effects(feature)
    assert (kind, phrase.startswith("conflict: an unresolved merge conflict")) == ("revised", True)
    path.write_text(text.replace("topic: queues", "topic: [queues"))
    git(feature, "commit", "-q", "-a", "-m", "Break")
    out = cli(feature, "diff").out
    assert "yaml-syntax: " in out
    assert "[]" not in out


def test_a_range_that_begins_before_the_memory_is_all_of_it(feature: Path) -> None:
    path = feature / ok(feature, "search", "--topic", "queues")["results"][0]["path"]
    path.write_text(path.read_text().replace("topic: queues", "topic: queues\nconfidence: 7"))
    git(feature, "commit", "-q", "-a", "-m", "Doubt")
    for early in ("2001-01-01", "900w"):
        assert sorted(one[:2] for one in effects(feature, early)) == [("new", "Use NATS"), ("new", "Use Redis")]
        assert cli(feature, "diff", early).out.startswith("feature against nothing (the first commit is of ")
        told = cli(feature, "check", "--base", early, "--json").json["problems"]
        assert [one["code"] for one in told] == ["bad-confidence"]
        assert told == cli(feature, "check", "--json").json["problems"]
    done = cli(feature, "diff", "HEAD...2001-01-01")
    assert done.code == 4
    assert "range 2001-01-01: nothing was committed by 2001-01-01" in done.err
    (first,) = re.findall(r"for that commit: ([0-9a-f]{10})", done.err)
    assert [one[0] for one in effects(feature, first)] == ["new", "new"]


def test_what_is_not_committed_changes_no_answer(repo: Path) -> None:
    first = "# 1. Use SQLite\n\n## Status\n\n{}\n\n## Decision\n\nUse SQLite.\n"
    write(repo / "memory/0001-use-sqlite.md", first.format("Accepted"))
    write(repo / "memory/0002-keep-it.md", "# 2. Keep it\n\n## Status\n\nAccepted\n\nAmends [1](0001-use-sqlite.md)\n")
    decide(repo, "caching", "Use Redis")
    decide(repo, "queues", "Use NATS")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Import")
    git(repo, "switch", "-q", "-c", "feature")
    lru = decide(repo, "caching", "Use an LRU cache")
    write(repo / "memory/0001-use-sqlite.md", first.format("Superseded by [3](0003-use-mysql.md)"))
    write(repo / "memory/0003-use-mysql.md", "# 3. Use MySQL\n\n## Status\n\nAccepted\n\n## Decision\n\nUse MySQL.\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Use MySQL")
    git(repo, "switch", "-q", "main")
    decide(repo, "caching", "Use memcached")
    git(repo, "rm", "-q", *[str(one.relative_to(repo)) for one in (repo / "memory/decisions/queues").iterdir()])
    git(repo, "commit", "-q", "-m", "Drop queues")

    def answers() -> list[tuple[Effect, ...]]:
        with Memory.open(repo) as memory:
            return [memory.diff(each).effects for each in ("main...feature", "feature..main")]

    told = answers()
    assert [one.kind for one in told[0]] == ["forked", "new", "new", "superseded", "superseded", "revised"]
    edits: dict[str, list[str]] = {
        "deleted": ["rm", "-rq", "memory/decisions/caching"],
        "all deleted": ["rm", "-rq", "memory"],
        "moved": ["mv", "memory/0001-use-sqlite.md", "memory/9-elsewhere.md"],
        "sparse": ["sparse-checkout", "set", "src"],
    }
    for branch in ("feature", "main"):
        git(repo, "switch", "-q", branch)
        for what, command in edits.items():
            git(repo, *command)
            assert answers() == told, (branch, what)
            git(repo, "sparse-checkout", "disable")
            git(repo, "reset", "-q", "--hard")
        for path in (repo / "memory").rglob("*.md"):
            path.write_text(path.read_text().replace("topic: caching", "topic: queues\nstatus: deprecated"))
        write(repo / "memory/0001-use-sqlite.md", first.format("Deprecated").replace("SQLite", "Oracle"))
        assert answers() == told, (branch, "edited")
        git(repo, "reset", "-q", "--hard")
    git(repo, "switch", "-q", "feature")
    ok(repo, "forget", lru["id"])
    told = answers()
    git(repo, "rm", "-rq", "memory")
    assert answers() == told, "a forgotten record stays so"


def test_a_version_that_the_repository_lost_is_an_error_and_no_removal(repo: Path) -> None:
    path = ok(repo, *DECISION, "caching", "--decision", "Use Redis")["path"]
    for text in ("More.\n", "And more.\n"):
        write(repo / path, (repo / path).read_text() + text)
        git(repo, "commit", "-qam", text)
    blob = git(repo, "rev-parse", f"HEAD~1:{path}")
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for between in ("HEAD~2...HEAD~1", "HEAD~1...HEAD"):
        done = cli(repo, "diff", between)
        assert (done.code, f"{blob} missing" in done.err, done.out) == (7, True, "")
