"""What a pull request is held for: what is wrong with the memory as it would be merged, and was not before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import TIME, git, write
from tests.system.tools import cli, ok


def decide(repo: Path, topic: str, decision: str, *more: str) -> dict[str, Any]:
    arguments = ("--topic", topic, "--decision", decision, "--reasoning", "One process")
    return ok(repo, "save", "decision", *arguments, *more)  # type: ignore[no-any-return]


def commit(repo: Path, subject: str = "Tidy", date: str = TIME) -> None:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", subject, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)


def found(repo: Path, *arguments: str) -> list[tuple[str, str]]:
    """Path and code of each problem that counts or is advice, of what the branch brings."""
    told = cli(repo, "check", "--base", "main", *arguments, "--json").json["problems"]
    return [(one["path"], one["code"]) for one in told if one["level"] != "hint"]


def codes(repo: Path, *arguments: str) -> set[str]:
    return {code for _, code in found(repo, *arguments)}


def reword(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture
def feature(repo: Path) -> Path:
    """Two topics on main, one of them decided twice, and a branch `feature` checked out."""
    decide(repo, "caching", "Use Redis")
    decide(repo, "caching", "Use an LRU cache")
    decide(repo, "queues", "Use NATS")
    git(repo, "switch", "-q", "-c", "feature")
    return repo


def holding(repo: Path, topic: str) -> dict[str, Any]:
    return ok(repo, "search", "--topic", topic, "--live")["results"][0]  # type: ignore[no-any-return]


def title(repo: Path, record: str) -> str:
    return ok(repo, "get", record)["results"][0]["title"]  # type: ignore[no-any-return]


def test_no_date_of_a_commit_takes_an_id_away(feature: Path) -> None:
    """Whose an id is follows from which file was there first, never from what a commit says of its time."""
    victim = holding(feature, "caching")
    write(feature / "memory/decisions/aaa/x.md", f"---\nid: {victim['id']}\ntopic: other\n---\n# Mine\n\nText.\n")
    commit(feature, date="1000000000 +0000")
    assert found(feature) == [("memory/decisions/aaa/x.md", "duplicate-id")]
    assert title(feature, victim["id"]) == "Use an LRU cache"
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "--no-ff", "--no-edit", "feature")
    assert title(feature, victim["id"]) == "Use an LRU cache"
    assert ok(feature, "history", "caching")["heads"] == [victim["id"]]
    ok(feature, "index", "--rebuild")
    assert title(feature, victim["id"]) == "Use an LRU cache"
    told = cli(feature, "check", "--json").json["problems"]
    assert [one["path"] for one in told if one["code"] == "duplicate-id"] == ["memory/decisions/aaa/x.md"]


@pytest.mark.parametrize("name", ["aaa", "zzz"])
@pytest.mark.parametrize("renames", ["main", "feature"])
def test_a_record_renamed_beside_its_squash_is_who_was_there_first(
    feature: Path, tmp_path: Path, renames: str, name: str
) -> None:
    """Both files were begun by the branch's commit: what is on main keeps the id, whichever name sorts first."""
    saved = decide(feature, "db", "Use MySQL")
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "--squash", "feature")
    commit(feature)
    git(feature, "switch", "-q", renames)
    git(feature, "mv", saved["path"], new := f"memory/decisions/{name}.md")
    commit(feature)
    git(feature, "switch", "-q", "feature")
    stays, other = (new, saved["path"]) if renames == "main" else (saved["path"], new)
    assert (other, "duplicate-id") in found(feature)
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "--no-ff", "--no-edit", "feature")
    for _ in ("followed", "rebuilt"):
        assert ok(feature, "get", saved["id"])["results"][0]["path"] == stays
        told = cli(feature, "check", "--json").json["problems"]
        assert [one["path"] for one in told if one["code"] == "duplicate-id"] == [other]
        ok(feature, "index", "--rebuild")
    git(feature, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{feature}", str(partial := tmp_path / "partial"))
    assert ok(partial, "get", saved["id"])["results"][0]["path"] == stays
    git(feature, "mv", stays, "memory/decisions/moved.md")
    git(feature, "commit", "-q", "-m", "Moved")
    assert ok(feature, "get", saved["id"])["results"][0]["path"] == "memory/decisions/moved.md"
    told = ok(feature, "diff", "main~1^1..main~1")["effects"]
    assert [(one["kind"], one.get("path")) for one in told] == [("forked", None), ("new", other)]


Edit = Callable[[Path, Path], None]


def _remove(repo: Path, path: Path) -> None:
    git(repo, "rm", "-q", str(path))


def _status(status: str) -> Edit:
    return lambda _, path: reword(path, "type: decision\n", f"type: decision\nstatus: {status}\n")


def _retype(_: Path, path: Path) -> None:
    reword(path, "type: decision", "type: observation")


def _move_topic(_: Path, path: Path) -> None:
    reword(path, "topic: ", "topic: other-")


def _move_out(repo: Path, path: Path) -> None:
    (repo / "docs").mkdir()
    git(repo, "mv", str(path), "docs/")


WAYS: list[tuple[Edit, str]] = [
    (_remove, "its file is removed"),
    (_move_out, "its file is removed"),
    (_retype, "it is an observation now"),
    (_status("rejected"), "status accepted -> rejected"),
    (_status("proposed"), "status accepted -> proposed"),
    (_move_topic, "it is on topic other-"),
]


@pytest.mark.parametrize(("edit", "why"), WAYS)
def test_what_holds_no_longer_is_told(feature: Path, edit: Edit, why: str) -> None:
    for topic, rest in (
        ("queues", "nothing holds on queues any more"),
        ("caching", "what holds on caching: Use Redis"),
    ):
        git(feature, "switch", "-q", "-C", "feature", "main")
        edit(feature, feature / holding(feature, topic)["path"])
        commit(feature)
        done = cli(feature, "check", "--base", "main")
        (row,) = [row for row in done.out.splitlines() if " no-longer-holds " in row]
        assert why in row
        assert rest in row or edit is _move_topic
        assert cli(feature, "check", "--base", "main", "--strict").code == 1
        git(feature, "rm", "-rqf", "--ignore-unmatch", "docs")
        commit(feature, "Clean up") if git(feature, "status", "--porcelain") else None


@pytest.mark.parametrize("word", ["Deprecated", "Superseded", "Superseded by [3. Kafka](0003-kafka.md)", "Rejected"])
def test_the_gate_and_the_diff_tell_a_change_of_status_in_the_same_words(feature: Path, word: str) -> None:
    git(feature, "switch", "-q", "main")
    text = "# {}\n\n## Status\n\n{}\n\n## Context\n\nText.\n"
    path = write(feature / "memory/decisions/0001-nats.md", text.format("1. NATS", "Accepted"))
    write(feature / "memory/decisions/0003-kafka.md", text.format("3. Kafka", "Proposed"))
    commit(feature)
    git(feature, "switch", "-q", "-C", "feature")
    reword(path, "Accepted", word)
    commit(feature)
    [effect] = ok(feature, "diff")["effects"]
    [problem] = cli(feature, "check", "--base", "main", "--json").json["problems"]
    assert effect["details"][0].startswith("status accepted -> ")
    told = f"1. NATS held, and nothing replaces it: {effect['details'][0]}"
    assert problem["message"].partition("; 3. Kafka (")[0] == told
    assert ("is only proposed" in problem["message"]) == ("Kafka" in word)


def test_moving_the_store_away_is_told(feature: Path) -> None:
    git(feature, "mv", "memory", "notes")
    commit(feature)
    assert [code for _, code in found(feature)].count("no-longer-holds") == 2


def test_what_a_branch_breaks_in_files_that_it_leaves_alone(feature: Path) -> None:
    """A resolving record that goes, and a decision that others build on: the harm is told where it shows."""
    nats = holding(feature, "queues")
    git(feature, "switch", "-q", "main")
    decide(feature, "sessions", "Keep sessions in queues", "--builds-on", nats["id"])
    one = decide(feature, "logs", "Text")
    write(
        feature / "memory/decisions/logs/other.md",
        "---\nid: decision_logs_1763650000123_k3f9w2ma\n"
        "topic: logs\nsupersedes: []\n---\n# JSON\n\nMachines read them.\n",
    )
    commit(feature, "Fork")
    end = ok(feature, "resolve", "logs", "--decision", "Both", "--reasoning", "Each is right")
    git(feature, "switch", "-q", "-C", "feature", "main")
    assert found(feature) == []
    _remove(feature, feature / nats["path"])
    commit(feature)
    assert codes(feature) == {"dangling-edge", "no-longer-holds"}
    for edit in (_remove, _status("rejected"), _retype):
        git(feature, "switch", "-q", "-C", "feature", "main")
        edit(feature, feature / end["path"])
        commit(feature)
        assert "forked-topic" in codes(feature), edit
        assert cli(feature, "check", "--base", "main").code == 1
    assert one["id"]


def test_what_was_wrong_before_is_not_the_branchs_fault(feature: Path) -> None:
    """Also in a file that it edits, moves, or stands beside."""
    git(feature, "switch", "-q", "main")
    text = "---\ntopic: logs\nconfidence: high\nbuilds_on: [decision_x_1763650000123_k3f9w2ma]\n---\n# JSON\n\nText.\n"
    write(feature / "memory/decisions/logs/old.md", text)
    commit(feature, "Old")
    git(feature, "switch", "-q", "-C", "feature", "main")
    path = feature / "memory/decisions/logs/old.md"
    reword(path, "Text.", "More text.")
    commit(feature)
    assert found(feature) == []
    assert {"bad-confidence", "dangling-edge"} <= {
        one["code"] for one in cli(feature, "check", "--json").json["problems"]
    }
    reword(path, "confidence: high", "confidence: low")
    commit(feature)
    assert codes(feature) == {"bad-confidence"}


def test_a_fork_that_only_the_merge_makes_stops_it(feature: Path) -> None:
    """The head of a pull request is checked out, not what merging it would come to."""
    ours = decide(feature, "queues", "Use Kafka")
    git(feature, "switch", "-q", "main")
    decide(feature, "queues", "Use RabbitMQ")
    lru = holding(feature, "caching")
    git(feature, "switch", "-q", "feature")
    assert found(feature) == [(ours["path"], "forked-topic")]
    assert "is forked once this is merged" in cli(feature, "check", "--base", "main").out
    git(feature, "merge", "-q", "--no-edit", "main")
    assert "is forked: " in cli(feature, "check", "--base", "main").out
    ok(feature, "resolve", "queues", "--decision", "Both", "--reasoning", "Each is right")
    assert found(feature) == []
    git(feature, "switch", "-q", "-C", "feature", "main~1")
    decide(feature, "sessions", "Keep them in the cache", "--builds-on", lru["id"])
    git(feature, "switch", "-q", "main")
    _remove(feature, feature / lru["path"])
    commit(feature)
    git(feature, "switch", "-q", "feature")
    assert codes(feature) == {"dangling-edge"}, "what main took away meanwhile"


def test_what_main_brought_meanwhile_is_not_the_branchs_fault(feature: Path) -> None:
    decide(feature, "queues", "Use Kafka")
    git(feature, "switch", "-q", "main")
    write(feature / "memory/decisions/bad.md", "---\ntopic: bad\nconfidence: high\n---\n# Bad\n\nText.\n")
    lru = feature / holding(feature, "caching")["path"]
    _status("rejected")(feature, lru)
    commit(feature, "Main")
    git(feature, "switch", "-q", "feature")
    assert found(feature) == []


@pytest.mark.parametrize("way", ["move", "retype", "edit"])
def test_a_superseded_decision_is_compared_by_its_id(feature: Path, way: str) -> None:
    redis = next(one for one in ok(feature, "search", "--topic", "caching")["results"] if not one["holds"])
    path = feature / redis["path"]
    if way == "move":
        (feature / "memory/decisions/elsewhere").mkdir()
        git(feature, "mv", redis["path"], "memory/decisions/elsewhere/y.md")
        path = feature / "memory/decisions/elsewhere/y.md"
    elif way == "retype":
        reword(path, "type: decision", "type: observation")
    header, _, _ = path.read_text().partition("\n# ")
    path.write_text(header + "\n# It was never Redis\n\n" + "".join(f"Word {n} of another story.\n" for n in range(40)))
    commit(feature)
    assert "edited-superseded" in codes(feature)


NYGARD = "# {0}. {1}\n\n## Status\n\n{2}\n\n## Context\n\n{3}\n"


@pytest.mark.parametrize("parts", [1, 2], ids=["one commit", "two commits"])
@pytest.mark.parametrize("status", ["Superseded by [2. Use SQLite](0002-s.md)", "Superseded by ADR-2", "Superseded"])
def test_a_status_that_says_what_the_successor_says_is_no_edit_of_the_past(repo: Path, status: str, parts: int) -> None:
    """Nygard's way, and that of adr-tools: both files state it, in the text."""
    old, new = (repo / "doc/adr" / name for name in ("0001-p.md", "0002-s.md"))
    write(old, NYGARD.format(1, "Use Postgres", "Accepted", "We need a db."))
    commit(repo)
    git(repo, "switch", "-q", "-c", "pr")
    write(new, NYGARD.format(2, "Use SQLite", "Accepted\n\nSupersedes [1. Use Postgres](0001-p.md)", "Small."))
    if parts == 2:
        commit(repo)
    reword(old, "Accepted", status)
    plain = cli(repo, "--store", "doc/adr", "check")
    assert "edited-superseded" not in plain.out
    git(repo, "add", "-A")
    assert "edited-superseded" not in cli(repo, "--store", "doc/adr", "check").out, "staged"
    commit(repo)
    done = cli(repo, "--store", "doc/adr", "check", "--base", "main")
    assert (done.code, "edited-superseded" in done.out) == (0, False), done.out
    revision = ok(repo, "--store", "doc/adr", "history", "1")["chain"][0]["revisions"][0]
    assert [one.partition(" -> ")[0] for one in revision["changes"]] == ["status accepted"]
    reword(old, "We need a db.", "We never needed one.")
    assert "edited-superseded" in cli(repo, "--store", "doc/adr", "check", "--base", "main").out, "not committed"
    commit(repo)
    assert "reasoning reworded (Context)" in cli(repo, "--store", "doc/adr", "check", "--base", "main").out


@pytest.mark.parametrize("own", [False, True], ids=["clean merge", "edited in the merge"])
@pytest.mark.parametrize("onto", ["main", "pr"])
def test_a_merge_edits_a_superseded_decision_only_in_what_it_says_by_itself(repo: Path, onto: str, own: bool) -> None:
    """CI checks out the merge of a pull request and its base, which reworded what the pull request supersedes."""
    old, new = (repo / "doc/adr" / name for name in ("0001-p.md", "0002-s.md"))
    more = "\n\n## Consequences\n\nWe run it.\n\nWe back it up.\n"
    write(old, NYGARD.format(1, "Use Postgres", "Accepted", "We need a db.") + more)
    commit(repo)
    git(repo, "switch", "-q", "-c", "pr")
    write(new, NYGARD.format(2, "Use SQLite", "Accepted\n\nSupersedes [1. Use Postgres](0001-p.md)", "Small."))
    reword(old, "Accepted", "Superseded by [2. Use SQLite](0002-s.md)")
    reword(old, "We back it up.", "We back it up daily.")
    commit(repo)
    git(repo, "switch", "-q", "main")
    reword(old, "need a db", "need a good db")
    commit(repo, "Reword")
    git(repo, "switch", "-q", "--detach", onto)
    git(repo, "merge", "-q", "--no-ff", "--no-commit", "pr" if onto == "main" else "main")
    if own:
        reword(old, "We run it.", "We never ran it.")
    commit(repo, "Merge")
    done = cli(repo, "--store", "doc/adr", "check", "--base", "main")
    assert (done.code, "edited-superseded" in done.out) == (int(own), own), done.out
    assert not own or "status accepted" not in done.out, "a parent's own edit is told as the merge's"


SECRET = "ghp_a1B2c3D4e5a1B2c3D4e5a1B2c3D4e5f6G7h8"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("memory/README.md", f"# Memory\n\ntoken: {SECRET}\n"),
        ("memory/notes.txt", f"{SECRET}\n"),
        ("memory/.forgotten/" + "0" * 64, f"{SECRET}\n"),
        (f"memory/decisions/{SECRET}.md", "---\ntopic: t\n---\n# T\n\nText.\n"),
    ],
)
def test_a_secret_anywhere_below_the_store_is_seen(feature: Path, path: str, text: str) -> None:
    write(feature / path, text)
    commit(feature)
    done = cli(feature, "check", "--base", "main")
    assert (done.code, " secret " in done.out) == (1, True), done.out
    assert SECRET not in done.out + done.err
    assert " secret " in cli(feature, "check").out
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "feature")
    git(feature, "switch", "-q", "-c", "later")
    write(feature / "memory/README.md", (text if "README" in path else "") + "\nMore.\n")
    commit(feature)
    assert codes(feature) == set(), "it was there before"


def test_private_records_are_not_for_git(feature: Path) -> None:
    write(feature / "memory/private/observations/a.md", "# Mine\n\nText.\n")
    write(
        feature / "memory/observations/b.md", "---\ntype: observation\nvisibility: private\n---\n# Mine too\n\nText.\n"
    )
    commit(feature)
    told = [path for path, code in found(feature) if code == "private-committed"]
    assert told == ["memory/observations/b.md", "memory/private/observations/a.md"]
    assert cli(feature, "check").code == 1


def test_a_decision_of_the_future_is_told(feature: Path) -> None:
    write(
        feature / "memory/decisions/queues/f.md",
        "---\ntopic: queues\ncreated: 2099-01-01\n---\n# Future pick\n\nText.\n",
    )
    commit(feature)
    assert "future-created" in codes(feature)


def test_an_undated_decision_from_a_commit_of_the_future_is_told(feature: Path) -> None:
    write(feature / "memory/decisions/queues/f.md", "---\ntopic: queues\n---\n# Future pick\n\nText.\n")
    assert "future-created" not in codes(feature)
    commit(feature, date="2090-01-01T00:00:00+00:00")
    assert "future-created" in codes(feature)
    (told,) = [row for row in cli(feature, "check").out.splitlines() if "future-created" in row]
    assert "committed on 2090-01-01" in told


def test_a_trailer_that_names_no_decision_is_told(feature: Path) -> None:
    nats = holding(feature, "queues")
    git(feature, "commit", "-q", "--allow-empty", "-m", f"Do it\n\nDecision: {nats['id'][-8:]}\nOutcome: pending")
    assert codes(feature) == set()
    git(feature, "commit", "-q", "--allow-empty", "-m", "Do that\n\nDecision: vue\nOutcome: failed")
    assert codes(feature) == {"unknown-decision"}
    assert cli(feature, "check", "--base", "main").code == 0, "nobody can take a commit's message back"


@pytest.mark.parametrize("name", ["ADR-1", "ADR-0001", "1", "0001-p", "doc/adr/0001-p.md"])
def test_a_trailer_names_a_decision_as_everything_else_does(repo: Path, name: str) -> None:
    write(repo / "doc/adr/0001-p.md", NYGARD.format(1, "Postgres", "Accepted", "We need a db."))
    write(repo / "doc/adr/0002-s.md", NYGARD.format(2, "SQLite", "Accepted", "Small."))
    commit(repo)
    git(repo, "switch", "-q", "-c", "pr")
    git(repo, "commit", "-q", "--allow-empty", "-m", f"Take it out\n\nDecision: {name}\nOutcome: failed")
    told = cli(repo, "--store", "doc/adr", "check", "--base", "main").out
    assert ("unknown-decision" in told, "doc/adr/0001-p.md:1: evidence" in told) == (False, True), told
    for door in (("get", "1"), ("search", "Postgres"), ("history", "1")):
        found = ok(repo, "--store", "doc/adr", *door)
        said = [one.get("evidence", []) for one in found.get("chain") or found["results"]]
        assert "Take it out" in str(said[0]), door
        assert "Take it out" not in str(said[1:]), door


def test_an_id_that_is_changed_in_place_is_told(feature: Path) -> None:
    nats = holding(feature, "queues")
    reword(feature / nats["path"], nats["id"], "decision_queues_1763650000123_k3f9w2ma")
    commit(feature)
    out = cli(feature, "check", "--base", "main").out
    assert "its file is known as decision_queues_1763650000123_k3f9w2ma now; what holds on queues: Use NATS" in out


def test_a_file_too_large_to_read_is_the_fault_of_who_made_it_so(feature: Path) -> None:
    git(feature, "switch", "-q", "main")
    large = write(feature / "memory/decisions/large.md", "# Large\n\n" + "word " * 250_000)
    commit(feature)
    git(feature, "switch", "-q", "-C", "feature", "main")
    write(feature / "code.py", "print()\n")
    commit(feature)
    assert found(feature) == []
    large.write_text(large.read_text() + "more\n")
    commit(feature)
    assert found(feature) == [("memory/decisions/large.md", "too-large")]
    git(feature, "switch", "-q", "-C", "feature", "main")
    nats = feature / holding(feature, "queues")["path"]
    nats.write_text(nats.read_text() + "word " * 250_000)
    assert (nats.relative_to(feature).as_posix(), "too-large") in found(feature), "also before it is committed"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("decisions/zz\u202egnp.md", "hidden-character"),
        ("decisions/queues\u200b/a.md", "hidden-character"),
        ("decisions/X.md", "name-clash"),
        ("decisions/e\u0301.md", "name-clash"),
        ("decisions/CACHING/a.md", "name-clash"),
        ("README.MD", "name-clash"),
        ("decisions/con.md", "file-name"),
        ("decisions/a:b.md", "file-name"),
        ("decisions/what?.md", "file-name"),
        ("decisions/end./a.md", "file-name"),
        ("decisions/plain.md", "mixed-script"),
    ],
)
def test_names_that_deceive_or_that_other_systems_cannot_have(feature: Path, path: str, code: str) -> None:
    git(feature, "switch", "-q", "main")
    for name in ("decisions/x.md", "decisions/\u00e9.md", "README.md"):
        write(feature / "memory" / name, "# T\n\nText.\n")
    commit(feature, "Names")
    git(feature, "switch", "-q", "-C", "feature", "main")
    topic = "c\u0430ching" if code == "mixed-script" else "t"
    write(feature / "memory" / path, f"---\ntopic: {topic}\nsupersedes: []\n---\n# T\n\nText.\n")
    commit(feature)
    assert [one for _, one in found(feature)] == [code]
    done = cli(feature, "check", "--base", "main")
    assert (done.code, "\u202e" in done.out) == (1, False)
    alone = {one["code"] for one in cli(feature, "check", "--lint", f"memory/{path}", "--json").json["problems"]}
    assert (code in alone) == (code != "name-clash")
    git(feature, "switch", "-q", "main")
    git(feature, "merge", "-q", "feature")
    git(feature, "switch", "-q", "-c", "later")
    assert found(feature) == [], "it was there before"


def test_writing_in_another_script_is_no_problem(feature: Path) -> None:
    for name in (
        "\u043a\u044d\u0448",
        "api_\u043a\u043b\u044e\u0447",
        "\u7f13\u5b58",
        "caf\u00e9",
        "\u0641\u0627\u0631\u0633\u06cc",
    ):
        text = f"---\ntopic: {name}\nsupersedes: []\n---\n# T\n\nText.\n"
        write(feature / f"memory/decisions/{name}.md", text)
    commit(feature)
    assert found(feature) == []


def test_a_header_that_was_broken_before_is_not_the_branchs_fault(feature: Path) -> None:
    git(feature, "switch", "-q", "main")
    path = write(feature / "memory/decisions/broken.md", "---\ntopic: [a\ntags: b\n---\n# Broken\n\nText.\n")
    commit(feature)
    git(feature, "switch", "-q", "-C", "feature", "main")
    reword(path, "tags: b", "tags: c")
    commit(feature)
    assert "yaml-syntax" in {one["code"] for one in cli(feature, "check", "--json").json["problems"]}
    assert found(feature) == []
    reword(path, "tags: c", "tags: [c")
    commit(feature)
    assert found(feature) == [("memory/decisions/broken.md", "yaml-syntax")], "one more"


def test_a_branch_that_parted_at_several_commits_is_judged_by_the_merge(repo: Path) -> None:
    """`diff` tells what came since the two parted, and there is no one point at which they did."""
    decide(repo, "caching", "Use Redis")
    git(repo, "switch", "-q", "-c", "feature")
    decide(repo, "queues", "Use NATS")
    git(repo, "switch", "-q", "main")
    decide(repo, "logs", "Text")
    mains = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge feature", "feature")
    git(repo, "switch", "-q", "feature")
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge main", mains)
    assert found(repo) == []
    one = decide(repo, "queues", "Use Kafka")
    git(repo, "switch", "-q", "main")
    decide(repo, "queues", "Use RabbitMQ")
    git(repo, "switch", "-q", "feature")
    assert found(repo) == [(one["path"], "forked-topic")]
    refused = cli(repo, "diff", "main...HEAD")
    assert (refused.code, "parted at 2 commits" in refused.err) == (5, True)
    git(repo, "merge", "-q", "-m", "Merge all of main", "main")
    assert found(repo) == [(one["path"], "forked-topic")]


@pytest.mark.parametrize("edit", ["removed", "rejected", "deprecated", "renamed", "given a topic", "superseded"])
def test_a_decision_without_a_topic_that_holds_no_longer_is_told(repo: Path, edit: str) -> None:
    """Records of other makers state none."""
    one = write(repo / "memory/decisions/0001-alpha.md", "# 1. Alpha\n\n## Status\n\nAccepted\n\nText.\n")
    commit(repo)
    git(repo, "switch", "-q", "-c", "feature")
    if edit == "removed":
        one.unlink()
    elif edit == "renamed":
        one.rename(one.with_name("0001-first.md"))
    elif edit == "given a topic":
        one.write_text(f"---\ntopic: alpha\n---\n{one.read_text()}")
    elif edit == "superseded":
        text = "# 2. Beta\n\n## Status\n\nAccepted\n\nSupersedes [1. Alpha](0001-alpha.md)\n\nText.\n"
        write(repo / "memory/decisions/0002-beta.md", text)
    else:
        reword(one, "Accepted", edit.capitalize())
    commit(repo)
    expected = {"removed": "its file is removed", "rejected": "accepted -> rejected", "deprecated": "-> deprecated"}
    told = cli(repo, "check", "--base", "main", "--json").json["problems"]
    lapsed = [one["message"] for one in told if one["code"] == "no-longer-holds"]
    assert len(lapsed) == (edit in expected)
    assert all(expected[edit] in text and "Alpha" in text and "holds on" not in text for text in lapsed)
