"""Files without ids that began under one name, one after another: each keeps its id, and links mean who was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.record import derived_id, namesake
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, talking

FOLDER = "memory/decisions"
NAME, MOVED = "decisions/a.md", "decisions/b.md"
FIRST, SECOND, THIRD = (derived_id(namesake(NAME, nth)) for nth in (1, 2, 3))
WHY = "It was weighed for long, and the reasons are written down here at some length.\n"


def commit(repo: Path, message: str) -> str:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", message)
    return git(repo, "rev-parse", "HEAD")


def decide(repo: Path, title: str, topic: str, path: str = NAME, more: str = "") -> None:
    write(repo / "memory" / path, f"---\ntopic: {topic}\n{more}---\n# {title}\n\n{title}. {WHY}")


def ids(repo: Path, *more: str) -> dict[str, str]:
    return {one["title"]: one["id"] for one in ok(repo, "search", *more)["results"]}


def holding(repo: Path, *more: str) -> dict[str, list[str]]:
    """What holds, by topic: as topics tell it, which must be what search, get and history say."""
    told = {}
    for topic in ok(repo, "topics", *more)["topics"]:
        chain = ok(repo, "history", topic["topic"], *more)
        titles = {step["id"]: step["title"] for step in chain["chain"]}
        told[topic["topic"]] = sorted(titles[head] for head in chain["heads"])
        assert topic["heads"] == len(chain["heads"])
        for one in ok(repo, "search", "--topic", topic["topic"], *more)["results"]:
            assert one["holds"] == (one["id"] in chain["heads"])
            assert ok(repo, "get", one["id"], *more)["results"][0]["holds"] == one["holds"]
    return told


def everywhere(repo: Path, *more: str) -> dict[str, str]:
    """Ids as the index that followed has them, which one built anew and one of a clone must have too."""
    told = ids(repo, *more)
    ok(repo, "index", "--rebuild")
    assert ids(repo, *more) == told
    clone = repo.parent / f"clone-{git(repo, 'rev-parse', 'HEAD')[:8]}"
    if not clone.exists():
        git(repo.parent, "clone", "-q", str(repo), str(clone))
    assert ids(clone, *more) == told
    return told


@pytest.fixture
def reused(repo: Path) -> Path:
    """Alpha began as a.md, was replaced by Gamma, and is b.md; Stranger began as a.md after that."""
    decide(repo, "Use Alpha", "caches")
    commit(repo, "Decide Alpha")
    ok(repo, "save", "decision", "--topic", "caches", "--decision", "Use Gamma", "--reasoning", "x")
    git(repo, "mv", f"memory/{NAME}", f"memory/{MOVED}")
    commit(repo, "Move Alpha")
    decide(repo, "Use Stranger", "queues")
    commit(repo, "Decide Stranger")
    return repo


def test_a_save_writes_the_id_of_a_file_without_one_and_no_later_file_is_taken_for_it(reused: Path) -> None:
    (gamma,) = (reused / FOLDER / "caches").glob("*.md")
    assert f"supersedes: [{FIRST}]" in gamma.read_text()
    assert f"Supersedes: {FIRST}" in git(reused, "log", "--format=%b", "-1", "--", str(gamma))
    assert holding(reused) == {"caches": ["Use Gamma"], "queues": ["Use Stranger"]}
    told = everywhere(reused)
    assert (told["Use Alpha"], told["Use Stranger"]) == (FIRST, SECOND)
    git(reused, "rm", "-q", f"memory/{MOVED}")
    commit(reused, "Remove Alpha")
    assert everywhere(reused)["Use Stranger"] == SECOND
    assert holding(reused) == {"caches": ["Use Gamma"], "queues": ["Use Stranger"]}
    assert everywhere(reused, "--at", "HEAD~1") == told
    assert {one["level"] for one in cli(reused, "check", "--json").json["problems"]} == {"hint"}


def test_a_file_is_known_before_its_first_commit_as_after_it(reused: Path) -> None:
    git(reused, "mv", f"memory/{NAME}", f"{FOLDER}/c.md")
    git(reused, "rm", "-q", f"memory/{MOVED}")
    commit(reused, "Move Stranger, remove Alpha")
    decide(reused, "Use Newcomer", "logs")
    before = ids(reused)
    assert (before["Use Newcomer"], before["Use Stranger"]) == (THIRD, SECOND)
    ok(reused, "index", "--rebuild")
    assert ids(reused) == before
    commit(reused, "Decide Newcomer")
    assert everywhere(reused) == before


def test_what_comes_to_the_name_of_a_removed_file_is_that_one_by_its_heading_alone(repo: Path) -> None:
    decide(repo, "Use Alpha", "caches")
    commit(repo, "Decide Alpha")
    decide(repo, "Use Gamma", "caches", MOVED, "supersedes: [a.md]\n")
    first = commit(repo, "Decide Gamma")
    git(repo, "rm", "-q", f"memory/{NAME}")
    commit(repo, "Remove Alpha")
    decide(repo, "Use Stranger", "queues")
    assert ids(repo)["Use Stranger"] == SECOND
    commit(repo, "Decide Stranger")
    assert everywhere(repo)["Use Stranger"] == SECOND
    assert holding(repo) == {"caches": ["Use Gamma"], "queues": ["Use Stranger"]}
    assert len(ok(repo, "history", "queues")["chain"]) == 1
    git(repo, "checkout", "-q", "-b", "back", first)
    git(repo, "rm", "-q", f"memory/{NAME}")
    commit(repo, "Remove Alpha")
    decide(repo, "Use Alpha", "caches", more="status: accepted\n")
    assert ids(repo)["Use Alpha"] == FIRST
    commit(repo, "Bring Alpha back")
    assert everywhere(repo)["Use Alpha"] == FIRST
    assert holding(repo) == {"caches": ["Use Gamma"]}


@pytest.mark.parametrize(
    ("heading", "same"), [("use alpha!", True), ("Use  (Alpha)", True), ("UseAlpha", True), ("Use Alpha 2", False)]
)
def test_a_heading_that_is_mended_on_the_way_is_the_same(repo: Path, heading: str, same: bool) -> None:
    decide(repo, "Use Alpha", "caches")
    commit(repo, "Decide Alpha")
    git(repo, "rm", "-q", f"memory/{NAME}")
    commit(repo, "Remove Alpha")
    decide(repo, heading, "caches")
    commit(repo, "Bring it back")
    assert list(everywhere(repo).values()) == [FIRST if same else SECOND]


@pytest.mark.parametrize("name", ["decisions/a.md", "a.md", "[a](a.md)"])
def test_a_path_that_a_person_wrote_means_the_file_that_had_it_then(repo: Path, name: str) -> None:
    with Memory.open(repo) as memory:
        decide(repo, "Use Alpha", "caches")
        commit(repo, "Decide Alpha")
        decide(repo, "Use Gamma", "caches", "decisions/gamma.md", f'supersedes: ["{name}"]\n')
        commit(repo, "Decide Gamma")
        memory.refresh()
        git(repo, "mv", f"memory/{NAME}", f"memory/{MOVED}")
        commit(repo, "Move Alpha")
        memory.refresh()
        decide(repo, "Use Stranger", "queues")
        decide(repo, "Use Delta", "queues", "decisions/delta.md", f'supersedes: ["{name}"]\n')
        memory.refresh()
        commit(repo, "Decide Stranger, then Delta")
        memory.refresh()
    expected = {"caches": ["Use Gamma"], "queues": ["Use Delta"]}
    assert holding(repo) == expected
    ok(repo, "index", "--rebuild")
    assert holding(repo) == expected
    assert holding(repo, "--at", "HEAD~1") == {"caches": ["Use Gamma"]}
    assert cli(repo, "check").code == 0
    decide(repo, "Use Delta", "queues", "decisions/delta.md", f'supersedes: ["{name}"]\ntags: [later]\n')
    decide(repo, "Use Gamma", "caches", "decisions/gamma.md", f'supersedes: ["{name}"]\ntags: [later]\n')
    commit(repo, "Edit both")
    assert holding(repo) == expected, "an edit elsewhere in the record is no new reference"


def test_two_branches_that_begin_one_name_make_one_file(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    for branch in ("one", "two"):
        git(repo, "checkout", "-q", "-b", branch, "main")
        decide(repo, "Use Alpha", branch)
        commit(repo, f"Decide on {branch}")
        assert ids(repo) == {"Use Alpha": FIRST}
    git(repo, "merge", "-q", "--no-edit", "-X", "ours", "one")
    assert everywhere(repo) == {"Use Alpha": FIRST}


def test_two_branches_rename_one_file_apart(repo: Path) -> None:
    """One of them goes on in the merge: it is who it was on its own branch."""
    decide(repo, "Use Alpha", "caches")
    commit(repo, "Decide Alpha")
    for branch, name in (("one", "b"), ("two", "c")):
        git(repo, "checkout", "-q", "-b", branch, "main")
        git(repo, "mv", f"memory/{NAME}", f"{FOLDER}/{name}.md")
        commit(repo, f"To {name}")
        assert ids(repo) == {"Use Alpha": FIRST}
    git(repo, "merge", "-q", "one", ok=False)
    git(repo, "rm", "-q", "--cached", "--ignore-unmatch", f"memory/{NAME}", f"{FOLDER}/b.md")
    (repo / FOLDER / "b.md").unlink(missing_ok=True)
    commit(repo, "Merge one")
    assert everywhere(repo) == {"Use Alpha": FIRST}


def test_a_header_that_states_the_id_a_file_is_known_by_changes_nothing(reused: Path) -> None:
    text = (reused / "memory" / NAME).read_text()
    write(reused / "memory" / NAME, text.replace("---\n", f"---\nid: {SECOND}\n", 1))
    commit(reused, "State it")
    told = ok(reused, "history", "queues")["chain"][0]
    assert (told["id"], len(told["revisions"])) == (SECOND, 1)
    assert everywhere(reused)["Use Alpha"] == FIRST


@pytest.mark.parametrize("header", ["", "id: decision_caches_1700000000000_k3f9w2ma\n"])
def test_an_old_name_leads_to_the_file_under_its_name_of_today(repo: Path, header: str) -> None:
    decide(repo, "Use Alpha", "caches", more=header)
    commit(repo, "Decide Alpha")
    git(repo, "mv", f"memory/{NAME}", f"memory/{MOVED}")

    def answers(*names: str) -> None:
        with talking(repo) as talk, Memory.open(repo) as memory:
            for name in names:
                assert ok(repo, "get", name)["results"][0]["title"] == "Use Alpha"
                assert ok(repo, "history", name)["chain"][0]["title"] == "Use Alpha"
                assert talk.call("get", ids=[name])["results"][0]["title"] == "Use Alpha"
                assert memory.get(name)[0].record.title == "Use Alpha"

    answers(f"memory/{NAME}", "a.md")
    commit(repo, "Move it")
    text = (repo / "memory" / MOVED).read_text()
    git(repo, "rm", "-q", f"memory/{MOVED}")
    write(repo / FOLDER / "c.md", text if not header else text.replace(WHY, "All of it was written anew.\n" * 9))
    commit(repo, "Move it on, perhaps rewritten")
    answers(f"memory/{NAME}", "a.md", f"memory/{MOVED}", "b.md")
    git(repo, "rm", "-q", f"{FOLDER}/c.md")
    commit(repo, "Remove it")
    for name in (f"memory/{NAME}", "a.md", "c.md"):
        assert f"deleted in {git(repo, 'rev-parse', '--short=10', 'HEAD')}" in cli(repo, "get", name).err


def test_an_old_name_is_whose_it_was_last(reused: Path) -> None:
    git(reused, "mv", f"memory/{NAME}", f"{FOLDER}/c.md")
    commit(reused, "Move Stranger")
    assert ok(reused, "get", "a.md")["results"][0]["title"] == "Use Stranger"
    git(reused, "rm", "-q", f"{FOLDER}/c.md")
    commit(reused, "Remove Stranger")
    assert "deleted in" in cli(reused, "get", "a.md").err, "not Alpha, which had it before"


@pytest.mark.parametrize("moved", [False, True])
def test_two_records_that_take_each_others_names_keep_their_pasts(repo: Path, moved: bool) -> None:
    """Git calls both files edited, or says nothing of renames: the ids tell."""
    records = {"Use Alpha": ("k3f9w2ma", NAME, "caches"), "Use Beta": ("x7q2c0ne", MOVED, "queues")}
    for title, (short, path, topic) in records.items():
        decide(repo, title, topic, path, f"id: decision_{topic}_1700000000000_{short}\n")
        commit(repo, title)
    if moved:
        git(repo, "mv", f"memory/{NAME}", f"{FOLDER}/c.md")
        commit(repo, "Alpha is c")
    one, other = repo / (f"{FOLDER}/c.md" if moved else f"memory/{NAME}"), repo / "memory" / MOVED
    before, after = one.read_text(), other.read_text()
    write(one, after)
    write(other, before + "\nAnd more.\n")
    commit(repo, "Exchange")
    away = ["renamed from decisions/a.md"] if moved else []
    last = "c" if moved else "a"
    expected = {
        "Use Alpha": [*away, f"renamed from decisions/{last}.md"],
        "Use Beta": ["renamed from decisions/b.md"],
    }
    for title, (_, path, topic) in records.items():
        (step,) = ok(repo, "history", topic)["chain"]
        assert step["title"] == title
        assert [revision["changes"][0] for revision in step["revisions"]] == expected[title]
        assert not any(change in ("removed", "brought back") for one in step["revisions"] for change in one["changes"])
        assert (
            git(repo, "log", "--format=%H", "--diff-filter=A", "--", f"memory/{path}").splitlines()[-1]
            == step["commit"]
        )


def test_what_was_deleted_under_the_name_of_another_is_told_by_its_id(repo: Path) -> None:
    alpha, beta = repo / "memory" / NAME, repo / "memory" / MOVED
    for title, path, one in (("Use Alpha", NAME, "d_alpha"), ("Grow Beta", MOVED, "decision_b_1700000000000_x7q2c0ne")):
        decide(repo, title, title, path, f"id: {one}\n")
    commit(repo, "Decide")
    before, after = alpha.read_text(), beta.read_text()
    write(alpha, after)
    write(beta, before)
    commit(repo, "Exchange")
    beta.unlink()
    assert "and no commit says so" in cli(repo, "get", "d_alpha").err
    git(repo, "checkout", "-q", "--", ".")
    git(repo, "rm", "-q", f"memory/{NAME}")
    gone = commit(repo, "Remove Beta")
    for name in ("x7q2c0ne", "decision_b_1700000000000_x7q2c0ne"):
        assert f"deleted in {gone[:10]}" in cli(repo, "get", name).err
    git(repo, "mv", f"memory/{MOVED}", f"memory/{NAME}")
    git(repo, "checkout", "-q", "HEAD~1", "--", f"memory/{NAME}")
    gone = commit(repo, "Bring Beta back over Alpha")
    told = cli(repo, "get", "d_alpha").err
    assert f"deleted in {gone[:10]}" in told
    assert "`filemem restore d_alpha`" in told
    git(repo, "mv", f"memory/{NAME}", f"{FOLDER}/c.md")
    commit(repo, "Make room")
    assert ok(repo, "restore", "d_alpha")["id"] == "d_alpha"
    for name, title in (("d_alpha", "Use Alpha"), ("x7q2c0ne", "Grow Beta")):
        assert ok(repo, "get", name)["results"][0]["title"] == title


def test_a_path_that_others_had_is_no_file_name_of_today(repo: Path) -> None:
    decide(repo, "Old", "x", "decisions/e/a.md")
    decide(repo, "New", "x", "decisions/c.md", "supersedes: [decisions/e/a.md]\n")
    commit(repo, "Decide")
    git(repo, "mv", f"{FOLDER}/e/a.md", f"{FOLDER}/e/b.md")
    commit(repo, "Move")
    decide(repo, "Second", "w", "decisions/e/a.md")
    commit(repo, "Another at that name")
    git(repo, "mv", f"{FOLDER}/e/a.md", f"{FOLDER}/f.md")
    commit(repo, "Move that too")
    decide(repo, "Unrelated", "z", NAME)
    commit(repo, "A file name alone")
    assert holding(repo) == {"x": ["New"], "w": ["Second"], "z": ["Unrelated"]}
    everywhere(repo)
    assert holding(repo) == {"x": ["New"], "w": ["Second"], "z": ["Unrelated"]}


def test_a_reference_by_a_name_of_several_says_whose_it_is(repo: Path) -> None:
    folder = repo / "memory/decisions"
    for name in ("a", "b"):
        known = f"id: decision_{name}_1763650000123_{name * 8}"
        write(folder / f"0007-{name}.md", f"---\n{known}\ntopic: {name}\n---\n# Go\n")
    edges = "supersedes: ['7']\nbuilds_on: [ADR-7, nothing, 0007-a.md]\nsynthesizes: [nowhere, go]"
    write(folder / "c.md", f"---\nid: decision_c_1763650000123_cccccccc\ntopic: c\n{edges}\n---\n# C\n")
    problems = cli(repo, "check", "--json").json["problems"]
    several = "Go (aaaaaaaa); Go (bbbbbbbb)"
    assert {one["message"] for one in problems if one["code"] in ("dangling-edge", "supersedes-missing")} == {
        f"builds_on ADR-7: several have it: {several}",
        "builds_on nothing: there is no such record",
        "synthesizes nowhere: there is no such record",
        f"synthesizes go: several have it: {several}",
        f"supersedes 7, which several have: {several}",
    }
