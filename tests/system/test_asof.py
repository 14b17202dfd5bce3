"""As of then: the memory as it was at a commit, tag or date, from Git's objects alone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import BadInput, NotFound
from filemem.index.past import MOST
from filemem.memory import Memory
from tests.support import git, index_folder, make_repo, write
from tests.system.tools import SEED, cli, ok, snapshot, talking

DECISION = ("save", "decision", "--topic", "caching", "--reasoning", "One process", "--decision")


def day(number: int) -> dict[str, Any]:
    at = f"2025-01-{number:02d}T12:00:00Z"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def put(repo: Path, name: str, text: str, number: int) -> str:
    """Commit a hand-written decision on a day of January 2025."""
    write(repo / f"memory/decisions/{name}.md", text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", f"day {number}", **day(number))
    return git(repo, "rev-parse", "HEAD")


def by_hand(title: str, created: str, **keys: str) -> str:
    header = "".join(f"{key}: {value}\n" for key, value in {"topic": "caching", "created": created, **keys}.items())
    return f"---\n{header}---\n# {title}\n\nBecause of the cache.\n"


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Redis on day 1, tagged v1 on day 2; an LRU cache on day 3; Redis is renamed, and a checkpoint saved, later."""
    repo = make_repo(tmp_path / "repo", commit=False)
    put(repo, "redis", by_hand("Use Redis", "2025-01-01"), 1)
    git(repo, "tag", "-a", "-m", "Ship", "v1")
    put(repo, "lru", by_hand("Use an LRU cache", "2025-01-03", confidence="0.9"), 3)
    git(repo, "mv", "memory/decisions/redis.md", "memory/decisions/old.md")
    git(repo, "commit", "-q", "-m", "rename", **day(4))
    return repo


def titles(answer: dict[str, object]) -> list[str]:
    results = answer["results"]
    assert isinstance(results, list)
    return [hit["title"] for hit in results]


@pytest.mark.parametrize(
    "then", ["v1", "2025-01-02", "20250102", "2025-W01-4", "HEAD~3", "v1^0", ":/day 1", "2025-01-02T23:00:00Z"]
)
def test_everything_that_reads_answers_as_it_was(shipped: Path, then: str) -> None:
    ok(shipped, "save", "checkpoint", "--summary", "Half done")
    commit = git(shipped, "rev-parse", "v1^{commit}")
    found = ok(shipped, "search", "cache", "--at", then)
    assert titles(found) == ["Use Redis"]
    assert (found["results"][0]["holds"], found["results"][0]["path"]) == (True, "memory/decisions/redis.md")
    assert (found["at"]["name"], found["at"]["commit"]) == (then, commit)
    told = ok(shipped, "history", "caching", "--at", then)
    assert [step["title"] for step in told["chain"]] == ["Use Redis"]
    assert told["chain"][0]["revisions"] == []
    assert ok(shipped, "get", "memory/decisions/redis.md", "--at", then)["results"][0]["title"] == "Use Redis"
    assert ok(shipped, "topics", "--at", then)["topics"][0]["decisions"] == 1
    assert ok(shipped, "checkpoint", "--at", then)["checkpoint"] is None
    assert ok(shipped, "checkpoint")["checkpoint"]["title"] == "Half done"
    now = ok(shipped, "search", "cache", "--type", "decision")
    assert titles(now) == ["Use an LRU cache", "Use Redis"]
    assert "at" not in now
    out = cli(shipped, "search", "cache", "--at", then).out
    assert f"commit {commit[:10]} of 2025-01-01" in out.splitlines()[0]


def test_over_mcp_and_in_python(shipped: Path) -> None:
    with talking(shipped) as client:
        client.call("save", summary="Half done")
        assert titles(client.call("search", query="cache", at="v1")) == ["Use Redis"]
        assert titles(client.call("timeline", at="v1")) == ["Use Redis"]
        assert len(client.call("timeline", topic="caching", at="v1")["chain"]) == 1
        assert client.call("load_checkpoint", at="v1")["checkpoint"] is None
        assert titles(client.call("get", id="redis", at="v1")) == ["Use Redis"]
        gone = client.refused("get", id="lru", at="v1")
        assert (gone["kind"], gone["message"][:6]) == ("not_found", "at v1:")
        assert len(client.call("search", query="cache", type="decision")["results"]) == 2
    with Memory.open(shipped) as memory:
        then = memory.at("v1")
        assert [hit.title for hit in then.search("cache")] == ["Use Redis"]
        assert then.moment.name == "v1"
        attempts: tuple[Callable[[], object], ...] = (
            lambda: then.save(text="x"),
            lambda: then.update("redis", outcome="failed"),
            lambda: then.delete("redis"),
        )
        for attempt in attempts:
            with pytest.raises(BadInput, match="cannot be changed"):
                attempt()


def test_nothing_of_the_users_is_touched(shipped: Path) -> None:
    write(shipped / "memory/decisions/lru.md", "# Rewritten, staged\n")
    git(shipped, "add", "-A")
    write(shipped / "memory/decisions/lru.md", "# Rewritten again\n")
    write(shipped / "memory/decisions/new.md", by_hand("Not committed", "2025-02-01"))
    ok(shipped, "search")
    before = snapshot(shipped), (shipped / ".git/index").read_bytes(), git(shipped, "for-each-ref")
    assert titles(ok(shipped, "search", "cache", "--at", "v1")) == ["Use Redis"]
    assert titles(ok(shipped, "search", "cache", "--at", "HEAD")) == ["Use an LRU cache", "Use Redis"]
    assert (snapshot(shipped), (shipped / ".git/index").read_bytes(), git(shipped, "for-each-ref")) == before


def test_what_is_found_at_a_commit_is_what_a_checkout_of_it_finds(tmp_path: Path) -> None:
    """The index brought to each commit of a messy history holds, node for node, what one built there holds."""
    repo = make_repo(tmp_path / "repo")
    dice = random.Random(SEED)
    names: list[str] = []
    for number in range(1, 25):
        if number == 12:
            git(repo, "switch", "-q", "-c", "side", "HEAD~4")
            names = [p.stem for p in (repo / "memory/decisions").glob("*.md")]
        deed = dice.choice(["add", "add", "edit", "rename", "remove", "revert"]) if names else "add"
        name = dice.choice(names) if names else ""
        path = repo / f"memory/decisions/{name}.md"
        if deed == "add":
            name = f"n{number}"
            names.append(name)
            status = dice.choice(["accepted", "accepted", "proposed"])
            topic = f"topic {dice.randrange(3)}"
            text = by_hand(f"Way {number}", f"2025-01-{number:02d}", topic=topic, status=status)
            write(repo / f"memory/decisions/{name}.md", text + f"\nReason {number}. builds_on: {dice.choice(names)}\n")
        elif deed == "edit":
            path.write_text(path.read_text() + f"\nMore on day {number}.\n")
        elif deed == "revert":
            path.write_text(path.read_text().partition("\nMore on")[0] + f"\nDay {number}.\n")
        elif deed == "rename":
            git(repo, "mv", str(path.relative_to(repo)), f"memory/decisions/r{number}.md")
            names[names.index(name)] = f"r{number}"
        else:
            path.unlink()
            names.remove(name)
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", f"{deed} {name}", GIT_AUTHOR_NAME=dice.choice(["Ada", "Grace"]), **day(number))
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "-X", "ours", "--no-edit", "side", ok=False)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--no-edit", ok=False)
    commits = git(repo, "rev-list", "--all").split()
    assert len(commits) > 20
    git(repo, "worktree", "add", "-q", "--detach", "../there")
    with Memory.open(repo) as memory:
        memory.refresh(full=True)
        for commit in commits:
            git(repo.parent / "there", "checkout", "-q", commit)
            with Memory.open(repo.parent / "there") as there:
                there.rebuild()
                wanted = sorted(there._store.index.nodes())
            past = memory.at(commit)
            assert sorted(past._store.index.nodes()) == wanted, git(repo, "log", "-1", "--format=%s", commit)


def test_equal_files_of_other_commits_have_another_past(repo: Path) -> None:
    deeds = ("Way A", "Way B", "", "something else", "Way A")
    for number, heading in enumerate(deeds, 1):
        path = repo / ("memory/decisions/b.md" if heading == "Way B" else "memory/decisions/a.md")
        if heading:
            write(path, f"---\ntopic: db\n---\n# {heading}\n")
        else:
            path.unlink()
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", heading or "none", GIT_AUTHOR_NAME=f"Author {number}", **day(number))
    for order in (("HEAD", "HEAD~3"), ("HEAD~3", "HEAD")):
        shutil.rmtree(repo / ".git/filemem", ignore_errors=True)
        with Memory.open(repo) as memory:
            held = {at: [topic.title for topic in memory.at(at).topics()] for at in order}
            assert held == {"HEAD~3": ["Way B"], "HEAD": ["Way A"]}, order
            first = memory.at("HEAD~3").get("a.md")[0].provenance
            assert (first.author, first.edits) == ("Author 1", ())


def test_only_the_last_few_states_are_kept_and_damage_is_mended(shipped: Path) -> None:
    for number in range(5, 5 + MOST + 2):
        put(shipped, f"n{number}", by_hand(f"Way {number}", f"2025-01-{number:02d}", topic=f"t{number}"), number)
    folder = index_folder(shipped) / "past"
    for back in range(MOST + 2):
        assert ok(shipped, "search", "--at", f"HEAD~{back}")["count"] == 8 - back
        assert len(list(folder.iterdir())) <= MOST
    tree = git(shipped, "rev-parse", "v1:memory")
    assert titles(ok(shipped, "search", "--at", "v1")) == ["Use Redis"]
    for file in (folder / tree).rglob("*"):
        if file.is_file() and not file.name.startswith("."):
            data = file.read_bytes()
            file.unlink()  # the present has a link to it
            file.write_bytes(bytes(byte ^ 0x55 for byte in data))
    assert titles(ok(shipped, "search", "--at", "v1")) == ["Use Redis"]
    assert titles(ok(shipped, "search", "LRU cache"))[0] == "Use an LRU cache"


def test_a_past_that_is_held_outlives_its_index(shipped: Path) -> None:
    for number in range(5, 5 + MOST + 2):
        put(shipped, f"n{number}", by_hand(f"Way {number}", f"2025-01-{number:02d}", topic=f"t{number}"), number)
    with Memory.open(shipped) as memory:
        then = memory.at("v1")
        for back in range(MOST + 2):
            memory.at(f"HEAD~{back}")
        assert git(shipped, "rev-parse", "v1:memory") not in listed(shipped)
        found = then.search("cache")
        assert ([hit.title for hit in found], found.degraded) == (["Use Redis"], "")


def listed(repo: Path) -> set[str]:
    """The states that an index is kept of."""
    return {folder.name for folder in (index_folder(repo) / "past").iterdir()}


def test_two_histories_with_the_same_files_each_keep_their_authors(shipped: Path) -> None:
    assert ok(shipped, "search", "LRU", "--at", "HEAD")["results"][0]["by"]["author"] == "Ada"
    tree = git(shipped, "rev-parse", "HEAD^{tree}")
    git(shipped, "branch", "squashed", git(shipped, "commit-tree", "-m", "all", tree, GIT_AUTHOR_NAME="Grace"))
    assert ok(shipped, "search", "LRU", "--at", "squashed")["results"][0]["by"]["author"] == "Grace"
    assert ok(shipped, "search", "LRU", "--at", "HEAD")["results"][0]["by"]["author"] == "Ada"


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ("v2", 4, "did you mean v1?"),
        ("mian", 4, "did you mean main?"),
        ("zzzzzzzzzz", 4, "give a commit, tag or branch, a date such as 2025-11-20"),
        ("2024-12-31", 4, "the first commit is of 2025-01-01"),
        ("", 2, "at is empty"),
        ("main..HEAD", 4, "no commit, tag, branch or date"),
        ("--all", 4, "no commit, tag, branch or date"),
        ("HEAD:memory", 4, "no commit, tag, branch or date 'HEAD:memory': that is a tree"),
        ("v1^{tree}", 4, "that is a tree"),
        ("v1:memory/decisions/redis.md", 4, "that is a blob"),
        ("v1:nothing", 4, "no commit, tag, branch or date 'v1:nothing'\n"),
        ("HEAD~99", 4, "no commit, tag, branch or date 'HEAD~99': HEAD has only 1 commit before it"),
        ("v1^^^", 4, "v1 has only 1 commit before it"),
        ("nothing~1", 4, "no commit, tag, branch or date 'nothing~1'\n"),
        ("2025-13-45", 4, "no commit, tag, branch or date '2025-13-45': there is no month 13"),
        (":/nothing like it", 4, "no commit, tag, branch or date"),
        ("2024-12", 4, "the first commit is of 2025-01-01"),
        ("0" * 40, 4, "no commit, tag, branch or date"),
        ("x" * 400, 4, "no commit, tag, branch or date"),
    ],
)
def test_bad_revisions_and_dates(tmp_path: Path, asked: str, code: int, told: str) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    put(repo, "redis", by_hand("Use Redis", "2025-01-01"), 1)
    put(repo, "lru", by_hand("Use an LRU cache", "2025-01-03"), 3)
    git(repo, "tag", "v1")
    done = cli(repo, "search", f"--at={asked}")
    assert (done.code, told in done.err) == (code, True), done.err


def test_a_beginning_of_several_ids_is_refused(repo: Path) -> None:
    commits = [git(repo, "rev-parse", "HEAD")]
    while len({one[:4] for one in commits}) == len(commits):
        made = git(repo, "commit-tree", "-m", str(len(commits)), "HEAD^{tree}")
        commits.append(made)
    twice = next(one[:4] for one in commits if sum(other[:4] == one[:4] for other in commits) > 1)
    with Memory.open(repo) as memory, pytest.raises(BadInput, match=f"several commits begin with {twice}"):
        memory.at(twice)


def test_before_the_first_commit_and_before_the_store(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    done = cli(repo, "search", "--at", "HEAD")
    assert (done.code, "nothing is committed yet" in done.err) == (4, True)
    write(repo / "code.py", "")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Begin", **day(1))
    put(repo, "redis", by_hand("Use Redis", "2025-01-02"), 2)
    assert "there were no records at HEAD~1" in cli(repo, "search", "redis", "--at", "HEAD~1").out
    assert "there were no records at HEAD~1" in cli(repo, "get", "redis", "--at", "HEAD~1").err
    assert cli(repo, "--store", "memroy", "search", "--at", "HEAD").code == 4


def test_clocks_that_run_backwards(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    first = put(repo, "a", by_hand("First", "2025-01-05"), 5)
    put(repo, "b", by_hand("Second, its clock three days behind", "2025-01-06", topic="b"), 2)
    third = put(repo, "c", by_hand("Third", "2025-01-07", topic="c"), 7)
    with Memory.open(repo) as memory:
        with pytest.raises(NotFound, match="the first commit is of 2025-01-05"):
            memory.at("2025-01-03")
        assert len(memory.at("2025-01-05").search()) == 2
        assert memory.at(first).search().hits[0].title == "First"
        assert memory.at("2025-01-06").moment.commit == git(repo, "rev-parse", "HEAD~1")
        assert memory.at("2031-01-01").moment.commit == third


def test_a_branch_is_what_it_went_through_and_not_what_it_merged(shipped: Path) -> None:
    git(shipped, "switch", "-q", "-c", "side", "v1")
    put(shipped, "side", by_hand("On the side", "2025-01-02", topic="side"), 2)
    git(shipped, "switch", "-q", "main")
    git(shipped, "merge", "-q", "--no-edit", "side", **day(9))
    assert titles(ok(shipped, "search", "--at", "2025-01-02")) == ["Use Redis"], "merged only on day 9"
    assert "On the side" in titles(ok(shipped, "search", "--at", "2025-01-09"))
    assert "On the side" in titles(ok(shipped, "search", "--at", "side"))


def test_a_shallow_clone_says_that_there_may_be_more(shipped: Path) -> None:
    git(shipped.parent, "clone", "-q", "--depth", "1", f"file://{shipped}", "clone")
    for asked in ("v1", "2025-01-01"):
        done = cli(shipped.parent / "clone", "search", "--at", asked)
        assert (done.code, "history is shallow" in done.err) == (4, True), done.err
    assert len(ok(shipped.parent / "clone", "search", "--at", "HEAD")["results"]) == 2


def test_a_memory_with_a_branch_of_its_own_is_as_it_was_when_the_code_was_committed(tmp_path: Path) -> None:
    project = make_repo(tmp_path / "project", commit=False)
    notes = make_repo(project / "memory", commit=False)
    write(notes / ".filemem.toml", 'store = "."\n')
    for number in (1, 3, 5):
        write(notes / f"decisions/n{number}.md", by_hand(f"Way {number}", f"2025-01-{number:02d}"))
        git(notes, "add", "-A")
        git(notes, "commit", "-q", "-m", f"note {number}", **day(number))
        write(project / "code.py", f"print({number})\n")
        git(project, "add", "code.py")
        git(project, "commit", "-q", "-m", f"code {number}", **day(number + 1))
    git(project, "tag", "v1", "HEAD~1")
    found = ok(project, "search", "--at", "v1")
    assert titles(found) == ["Way 3", "Way 1"]
    assert found["at"]["commit"] == git(notes, "rev-parse", "HEAD~1")
    assert len(ok(project, "search", "--at", "2025-01-01")["results"]) == 1
    assert len(ok(project, "search", "--at", "HEAD")["results"]) == 3


def test_a_reflog_that_does_not_reach_so_far_answers_nothing(repo: Path) -> None:
    """Git answers with the oldest entry, and only warns."""
    ok(repo, *DECISION, "Use Redis")
    asked = cli(repo, "search", "--at", "main@{2024-01-01}")
    assert (asked.code, "main@{2024-01-01}: the log for 'main' only goes back to" in asked.err) == (4, True), asked
    assert "a date alone" in asked.err
    assert cli(repo, "diff", "main@{2 years ago}...main").code == 4
    assert ok(repo, "search", "--at", "main@{0}")["count"] == 1
    assert ok(repo, "search", "--at", "main@{now}")["count"] == 1


def test_a_branch_of_its_own_beside_the_code_in_one_repository(tmp_path: Path) -> None:
    """Code and memory share commits and names there: HEAD means the code's, and every record is on one branch."""
    repo = make_repo(tmp_path / "repo", commit=False)
    write(repo / "code.py", "print(0)\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "code 0", **day(1))
    ok(repo, "init", "--own-branch")
    ok(repo, *DECISION, "Use Redis")
    write(repo / "code.py", "print(1)\n")
    at: dict[str, Any] = {"GIT_AUTHOR_DATE": "2031-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2031-01-01T00:00:00Z"}
    git(repo, "commit", "-q", "-a", "-m", "code 1", **at)
    assert titles(ok(repo, "search", "--at", "HEAD")) == ["Use Redis"]
    early = cli(repo, "search", "--at", "HEAD~1")
    assert (early.code, "nothing was committed by 2025-01-01" in early.err) == (4, True)
    assert titles(ok(repo, "search", "--at", "filemem")) == ["Use Redis"]
    git(repo, "switch", "-q", "-c", "feature")
    saved = ok(repo, *DECISION, "Use an LRU cache")
    (hit,) = ok(repo, "search", "LRU", "--live")["results"]
    assert (hit["by"]["branch"], hit["by"]["merged"], hit["by"]["commit"]) == ("filemem", True, saved["commit"])
    told = ok(repo, "diff", "filemem~1...filemem")
    assert told["counts"] == {"new": 1, "superseded": 1}
    assert ok(repo, "diff")["counts"] == {"new": 2}, "nothing is shared yet"


def test_who_was_first_is_told_as_a_checkout_tells_it(tmp_path: Path) -> None:
    """Two added one file, on branches beside each other, and the merge took the younger one's words."""
    repo = make_repo(tmp_path / "repo")
    git(repo, "branch", "side")
    git(repo, "branch", "older")
    for number, (branch, who) in enumerate((("main", "Ann"), ("side", "Bob")), 1):
        git(repo, "checkout", "-q", branch)
        write(repo / "memory/decisions/d.md", f"# Decide\n\nAs {who} says.\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", who, f"--author={who} <{who}@example.com>", **day(number))
    git(repo, "checkout", "-q", "older")
    write(repo / "other.txt", "x")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Other", **day(3))
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "-X", "theirs", "-m", "Merge", "side", **day(4))
    git(repo, "tag", "v1")
    git(repo, "merge", "-q", "-m", "Merge the older", "older", **day(5))
    put(repo, "d", "# Decide\n\nAs all say.\n", 6)
    (then,) = ok(repo, "get", "d.md", "--at", "v1")["results"]
    git(repo, "checkout", "-q", "v1")
    (there,) = ok(repo, "get", "d.md")["results"]
    assert (then["id"], then["by"]["author"], then["by"]["commit"]) == (
        there["id"],
        there["by"]["author"],
        there["by"]["commit"],
    )
    assert then["by"]["author"] == "Ann"
    assert then["by"].get("edited") == there["by"].get("edited")
