"""Saving on a quiet repository: what a save writes, commits and leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from filemem.errors import BadInput, Conflict, Locked, NotFound
from filemem.memory.saving import Message, Saver
from filemem.record.model import Outcome
from filemem.repo import Repo
from tests.support import git, head_file, make_repo, make_saver, message, sound, write

RECORD = b"""---
id: decision_cache_1763650000123_k3f9w2ma
type: decision
topic: cache
outcome: pending  # for now
---
# Use a cache

Because.
"""
PATH = "decisions/cache/20251120-use-a-cache-k3f9w2ma.md"
OUTCOME = Outcome(1_763_660_000_000, "failed", "evicts too early")


def test_a_save_is_one_commit_of_one_file(repo: Path, saver: Saver) -> None:
    before = git(repo, "rev-parse", "HEAD")
    saved = saver.put(PATH, RECORD, message("decision(cache): Use a cache", Filemem_Id="decision_x", Agent="tester"))
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "rev-parse", "HEAD^") == before
    assert git(repo, "show", "--format=", "--name-status") == f"A\tmemory/{PATH}"
    assert saved.blob == git(repo, "rev-parse", f"HEAD:memory/{PATH}")
    assert (repo / "memory" / PATH).read_bytes() == RECORD
    assert git(repo, "status", "--porcelain") == ""
    shown = git(repo, "log", "-1", "--format=%an <%ae>|%cn|%ct|%B")
    assert shown == (
        "Ada <ada@example.com>|Ada|1763650000|decision(cache): Use a cache\n\nFilemem-Id: decision_x\nAgent: tester\n"
    )
    assert git(repo, "log", "-1", "--format=%(trailers:key=Agent,valueonly)").strip() == "tester"
    assert sound(repo)


def test_after_a_save_git_takes_nothing_for_changed(repo: Path, saver: Saver) -> None:
    def clean() -> bool:
        commands = (("diff-files", "--quiet"), ("diff-index", "--quiet", "HEAD"))
        return all(subprocess.run(["git", *each], cwd=repo, check=False).returncode == 0 for each in commands)

    git(repo, "status")
    saver.put(PATH, RECORD, message())
    assert clean()
    saver.amend(PATH, message(), outcome=OUTCOME)
    assert clean()
    saver.put("decisions/b.md", b"# b\n", message(), policy="batch")
    saver.flush()
    assert clean()
    saver.remove("decisions/b.md", message(), tombstone=".forgotten/b")
    assert clean()
    saver.put("decisions/b.md", b"# b\n", message(), tombstone=".forgotten/b")
    assert clean()


def test_an_edit_made_while_a_save_is_under_way_is_not_staged(repo: Path) -> None:
    lock = write(repo / ".git/index.lock", "")

    def edit(step: str) -> None:
        if step == "index-started":
            write(repo / "memory" / PATH, "edited\n")
            lock.unlink()

    saver = make_saver(repo, steps=edit)
    saved = saver.put(PATH, RECORD, message())
    saver.close()
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "status", "--porcelain") == f" M memory/{PATH}"
    assert git(repo, "rev-parse", f":memory/{PATH}") == saved.blob == git(repo, "rev-parse", f"HEAD:memory/{PATH}")


def test_what_the_user_staged_and_edited_stays_theirs(repo: Path, saver: Saver) -> None:
    write(repo / "staged.py", "staged\n")
    git(repo, "add", "staged.py")
    write(repo / "code.py", "edited\n")
    write(repo / "untracked.py", "untracked\n")
    write(repo / "intent.py", "later\n")
    git(repo, "add", "-N", "intent.py")
    before = git(repo, "status", "--porcelain"), git(repo, "diff"), git(repo, "diff", "--cached")
    saver.put(PATH, RECORD, message())
    saver.amend(PATH, message(), outcome=OUTCOME)
    saver.put("decisions/b.md", b"# b\n", message())
    saver.remove("decisions/b.md", message())
    assert (git(repo, "status", "--porcelain"), git(repo, "diff"), git(repo, "diff", "--cached")) == before
    git(repo, "commit", "-q", "-m", "mine")
    assert git(repo, "show", "--format=", "--name-only") == "staged.py"
    assert head_file(repo, f"memory/{PATH}") is not None


def test_an_amend_changes_only_its_lines(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    saver.amend(PATH, message("decision(cache): failed"), outcome=OUTCOME)
    diff = git(repo, "show", "--format=", "-U0")
    assert "+outcome: failed  # for now" in diff
    assert "evicts too early" in diff
    assert len([line for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")]) == 1
    assert git(repo, "status", "--porcelain") == ""


def test_an_amend_commits_its_lines_and_keeps_the_users_edits(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    file = repo / "memory" / PATH
    file.write_bytes(RECORD.replace(b"Because.", b"Because I say so."))
    saver.amend(PATH, message(), outcome=OUTCOME)
    committed = head_file(repo, f"memory/{PATH}") or ""
    assert "Because." in committed
    assert "evicts too early" in committed
    assert "Because I say so." in file.read_text()
    assert "evicts too early" in file.read_text()
    removed = [row for row in git(repo, "diff", "-U0").splitlines() if row.startswith("-") and row[1:2] != "-"]
    assert removed == ["-Because."]


def test_an_amend_keeps_a_staged_version_of_the_record_staged(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    file = repo / "memory" / PATH
    file.write_bytes(RECORD.replace(b"Because.", b"Because, staged."))
    git(repo, "add", f"memory/{PATH}")
    file.write_bytes(RECORD.replace(b"Because.", b"Because, unstaged."))
    saver.amend(PATH, message(), outcome=OUTCOME)
    assert "Because, staged." in git(repo, "show", f":memory/{PATH}")
    assert "evicts too early" in git(repo, "show", f":memory/{PATH}")
    assert "Because, unstaged." in file.read_text()
    assert "Because." in (head_file(repo, f"memory/{PATH}") or "")
    for diff in (git(repo, "diff", "-U0", "--cached"), git(repo, "diff", "-U0")):
        assert [row[1:8] for row in diff.splitlines() if row[:1] in "+-" and row[:3] not in ("+++", "---")] == [
            "Because",
            "Because",
        ]


def test_an_amend_that_fits_only_one_version_is_a_conflict(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    file = repo / "memory" / PATH
    git(repo, "commit", "-q", "--allow-empty", "-m", "x")
    broken = RECORD.replace(b"topic: cache\n", b"<<<<<<< a\ntopic: cache\n=======\ntopic: b\n>>>>>>> b\n")
    file.write_bytes(broken)
    git(repo, "commit", "-q", "-a", "-m", "conflict markers")
    file.write_bytes(RECORD)
    before = git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")
    with pytest.raises(Conflict):
        saver.amend(PATH, message(), outcome=OUTCOME)
    assert (git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain")) == before
    assert file.read_bytes() == RECORD
    assert saver.pending() == ()


def test_an_amend_of_a_file_that_is_not_committed_leaves_that_to_the_user(repo: Path, saver: Saver) -> None:
    write(repo / "memory" / PATH, RECORD)
    head = git(repo, "rev-parse", "HEAD")
    saved = saver.amend(PATH, message(), outcome=OUTCOME)
    assert saved.commit is None
    assert "not committed yet" in (saved.pending or "")
    assert git(repo, "rev-parse", "HEAD") == head
    assert b"evicts" in (repo / "memory" / PATH).read_bytes()


def test_a_staged_removal_stays_staged(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    git(repo, "rm", "-q", "--cached", f"memory/{PATH}")
    saver.amend(PATH, message(), outcome=OUTCOME)
    assert git(repo, "status", "--porcelain").splitlines()[0] == f"D  memory/{PATH}"
    assert "evicts" in (head_file(repo, f"memory/{PATH}") or "")


def test_line_endings_are_converted_as_git_would(repo: Path, saver: Saver) -> None:
    write(repo / ".gitattributes", "*.md text eol=crlf\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "attributes")
    crlf = RECORD.replace(b"\n", b"\r\n")
    saver.put(PATH, crlf, message())
    assert (head_file(repo, f"memory/{PATH}") or "").encode() == RECORD
    assert (repo / "memory" / PATH).read_bytes() == crlf
    saver.amend(PATH, message(), outcome=OUTCOME)
    assert "\r" not in (head_file(repo, f"memory/{PATH}") or "\r")
    assert b"\n" not in (repo / "memory" / PATH).read_bytes().replace(b"\r\n", b"")
    git(repo, "update-index", "--refresh")
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("setting", ["true", "input", "false"])
@pytest.mark.parametrize("data", [b"# a\r\nb\r\n", b"# a\r\nb\n", b"# a\rb\r\n", b"# a\0b\r\n", b"# a\nb\n"])
def test_autocrlf_gives_the_blob_that_git_gives(repo: Path, setting: str, data: bytes) -> None:
    git(repo, "config", "core.autocrlf", setting)
    saver = make_saver(repo)
    saver.put("decisions/x.md", data, message())
    saver.close()
    write(repo / "memory/decisions/y.md", data)
    git(repo, "add", "memory/decisions/y.md")
    assert git(repo, "rev-parse", "HEAD:memory/decisions/x.md") == git(repo, "rev-parse", ":memory/decisions/y.md")


@pytest.mark.parametrize("name", ["secret", "Secret"])
def test_a_path_under_a_filter_is_left_uncommitted_with_the_reason(repo: Path, tmp_path: Path, name: str) -> None:
    git(repo, "config", f"filter.{name}.clean", f"touch {tmp_path / 'canary'}")
    write(repo / ".gitattributes", f"*.md filter={name}\n")
    saver = make_saver(repo)
    saved = saver.put(PATH, RECORD, message())
    assert saved.commit is None
    assert f"filter {name!r}" in (saved.pending or "")
    assert (repo / "memory" / PATH).read_bytes() == RECORD
    assert saver.pending() == ()
    assert not (tmp_path / "canary").exists()
    saver.close()


def test_removing(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    saved = saver.remove(PATH, message("remove"))
    assert saved.commit == git(repo, "rev-parse", "HEAD")
    assert git(repo, "show", "--format=", "--name-status") == f"D\tmemory/{PATH}"
    assert git(repo, "status", "--porcelain") == ""
    assert not (repo / "memory/decisions").exists()
    with pytest.raises(NotFound):
        saver.remove(PATH, message())
    with pytest.raises(NotFound):
        saver.amend(PATH, message(), outcome=OUTCOME)


def test_removing_a_file_with_edits_needs_force(repo: Path, saver: Saver) -> None:
    saver.put(PATH, RECORD, message())
    (repo / "memory" / PATH).write_bytes(RECORD + b"more\n")
    with pytest.raises(Conflict):
        saver.remove(PATH, message())
    (repo / "memory" / PATH).write_bytes(RECORD)
    assert saver.remove(PATH, message()).commit


def test_a_file_in_the_way_is_not_overwritten(repo: Path, saver: Saver) -> None:
    write(repo / "memory" / PATH, "mine\n")
    with pytest.raises(Conflict):
        saver.put(PATH, RECORD, message())
    assert (repo / "memory" / PATH).read_text() == "mine\n"
    assert saver.put(PATH, RECORD, message(), replace=True).commit


def test_saving_the_same_again_makes_no_commit(repo: Path, saver: Saver) -> None:
    first = saver.put(PATH, RECORD, message())
    again = saver.put(PATH, RECORD, message())
    assert again.commit == first.commit


def test_private_records_enter_no_git_object(repo: Path, saver: Saver) -> None:
    head = git(repo, "rev-parse", "HEAD")
    path = "private/observations/2025/x.md"
    saved = saver.put(path, RECORD, message(), policy="commit")
    assert (saved.commit, saved.pending) == (None, None)
    saver.amend(path, message(), outcome=OUTCOME)
    git(repo, "add", ".")
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-parse", "HEAD") == head
    everything = git(repo, "cat-file", "--batch-check", "--batch-all-objects")
    assert git(repo, "hash-object", f"memory/{path}") not in everything
    assert saved.blob not in everything
    saver.remove(path, message())
    assert not (repo / "memory" / path).exists()
    ours = [p for p in (repo / ".git/filemem").rglob("*") if p.is_file() and b"Because" in p.read_bytes()]
    assert ours == []


def test_leave_writes_the_file_only(repo: Path, saver: Saver) -> None:
    head = git(repo, "rev-parse", "HEAD")
    saved = saver.put(PATH, RECORD, message(), policy="leave")
    assert (saved.commit, saved.pending) == (None, None)
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "status", "--porcelain") == "?? memory/"
    assert saver.pending() == ()


def test_a_batch_shares_one_commit(repo: Path, saver: Saver) -> None:
    head = git(repo, "rev-parse", "HEAD")
    for i in range(5):
        saved = saver.put(f"observations/{i}.md", b"# %d\n" % i, message(f"observation: {i}"), policy="batch")
        assert saved.commit is None
        assert "together" in (saved.pending or "")
    assert saver.due() == 2.0
    assert len(saver.pending()) == 5
    assert git(repo, "rev-parse", "HEAD") == head
    done = saver.flush()
    assert len(done.finished) == 5
    assert git(repo, "rev-parse", "HEAD^") == head
    assert len(git(repo, "show", "--format=", "--name-only").splitlines()) == 5
    assert git(repo, "log", "-1", "--format=%s") == "memory: 5 records"
    assert "- observation: 3" in git(repo, "log", "-1", "--format=%b")
    assert git(repo, "status", "--porcelain") == ""
    assert saver.pending() == ()
    assert saver.due() is None


def test_a_batch_is_amended_removed_and_closed(repo: Path, saver: Saver) -> None:
    saver.put("observations/a.md", RECORD, message("a"), policy="batch")
    saver.put("observations/b.md", RECORD, message("b"), policy="batch")
    saver.remove("observations/b.md", message())
    assert saver.amend("observations/a.md", message("outcome"), outcome=OUTCOME).commit
    assert git(repo, "log", "--format=%s", "-2") == "outcome\na"
    saver.put("observations/c.md", b"# c\n", message("c"), policy="batch")
    saver.close()
    assert git(repo, "log", "--format=%s", "-1") == "c"
    assert git(repo, "status", "--porcelain") == ""
    assert head_file(repo, "memory/observations/b.md") is None


def test_a_full_batch_is_committed_at_once(repo: Path, saver: Saver) -> None:
    for i in range(50):
        saver.put(f"observations/{i}.md", b"# %d\n" % i, message(f"observation: {i}"), policy="batch")
    assert saver.pending() == ()
    assert git(repo, "rev-list", "--count", "HEAD") == "2"


def test_without_a_name_nothing_is_written(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    git(repo, "config", "--unset", "user.name")
    git(repo, "config", "--unset", "user.email")
    saver = make_saver(repo)
    with pytest.raises(BadInput, match="who you are") as caught:
        saver.put(PATH, RECORD, message())
    assert "user.name" in caught.value.hint
    assert "user.email" in caught.value.hint
    assert not (repo / "memory").exists()
    assert saver.put("private/x.md", RECORD, message()).blob
    saver.close()


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", commit=False)
    write(repo / "staged.py", "x\n")
    git(repo, "add", ".")
    saver = make_saver(repo)
    assert saver.put(PATH, RECORD, message()).commit
    saver.close()
    assert git(repo, "ls-tree", "-r", "--name-only", "HEAD") == f"memory/{PATH}"
    assert git(repo, "status", "--porcelain") == "A  staged.py"


@pytest.mark.parametrize("kind", ["sha256", "shared", "worktree", "submodule", "packed"])
def test_other_kinds_of_repository(tmp_path: Path, kind: str) -> None:
    repo = make_repo(tmp_path / "repo", object_format="sha256" if kind == "sha256" else "sha1")
    top = repo
    if kind == "shared":
        git(repo, "config", "core.sharedRepository", "group")
    if kind == "packed":
        git(repo, "gc", "-q")
        git(repo, "pack-refs", "--all")
    if kind == "worktree":
        repo = tmp_path / "linked"
        git(top, "worktree", "add", "-q", "-b", "side", str(repo))
    if kind == "submodule":
        source = make_repo(tmp_path / "source")
        git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "sub")
        git(repo, "commit", "-q", "-m", "sub")
        repo = repo / "sub"
        git(repo, "config", "user.name", "Ada")
        git(repo, "config", "user.email", "ada@example.com")
    saver = make_saver(repo)
    assert saver.put(PATH, RECORD, message()).commit == git(repo, "rev-parse", "HEAD")
    assert saver.amend(PATH, message(), outcome=OUTCOME).commit == git(repo, "rev-parse", "HEAD")
    assert saver.replay().repaired == ()
    saver.close()
    assert git(repo, "status", "--porcelain") == ""
    assert sound(repo)
    if kind == "worktree":
        assert git(top, "log", "--format=%s", "main") == "Begin"


def test_a_subfolder_finds_its_repository(repo: Path) -> None:
    write(repo / "src/deep/x.py", "x")
    assert Repo.discover(repo / "src/deep").work_tree == repo.resolve()


def test_signing_is_asked_for_by_the_user_only_with_the_users_program(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = write(tmp_path / "gpg", f"#!/bin/sh\ntouch {tmp_path / 'canary'}\nexit 1\n")
    fake.chmod(0o755)
    git(repo, "config", "commit.gpgSign", "true")
    git(repo, "config", "gpg.program", str(fake))
    saver = make_saver(repo)
    assert saver.put("decisions/own.md", RECORD, message()).commit, "a repository cannot make saves wait for a key"
    saver.close()
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".gitconfig", "[commit]\n\tgpgSign = true\n")
    saver = make_saver(repo)
    saved = saver.put(PATH, RECORD, message())
    assert saved.commit is None
    assert "signed" in (saved.pending or "")  # by the user's own gpg, which has no key here
    assert not (tmp_path / "canary").exists()
    git(repo, "config", "commit.gpgSign", "false")
    saver.close()
    again = make_saver(repo)
    assert again.replay().finished == (PATH,)
    again.close()
    assert head_file(repo, f"memory/{PATH}") is not None


def test_hooks_run_only_where_the_user_says_so(repo: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for hook in ("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "reference-transaction"):
        write(repo / ".git/hooks" / hook, f"#!/bin/sh\necho {hook} >> {canary}\n").chmod(0o755)
    saver = make_saver(repo)
    assert saver.put("decisions/a.md", b"# a\n", message()).commit
    saver.close()
    assert not canary.exists()
    asked = Repo.discover(repo)
    asked.run_hooks = True
    willing = Saver(saver._files, asked, clock=lambda: 1_763_650_000_000)
    assert willing.put("decisions/b.md", b"# b\n", message()).commit
    assert canary.read_text().split() == ["pre-commit", "commit-msg", "post-commit"]
    write(repo / ".git/hooks/pre-commit", "#!/bin/sh\necho not today >&2\nexit 1\n").chmod(0o755)
    refused = willing.put("decisions/c.md", b"# c\n", message())
    assert refused.commit is None
    assert "not today" in (refused.pending or "")
    willing.close()


@pytest.mark.parametrize(
    "subject",
    ["a\nauthor Eve <e@x> 1 +0000\n\nb", "a\r\nb", "-rf", "", "x" * 1_000_000, "\0\x1b[2J", "\udc80", "# comment"],
)
def test_a_message_stays_one_header_block(repo: Path, saver: Saver, subject: str) -> None:
    trailers = (("Agent", f"a\n{subject}\n\nEvil: yes"), ("Evil\nKey", "x"), ("Empty", ""), ("--x", "y"))
    assert saver.put("decisions/x.md", b"# x\n", Message(subject, trailers)).commit
    raw = git(repo, "cat-file", "commit", "HEAD")
    header, _, text = raw.partition("\n\n")
    assert [line.split(" ")[0] for line in header.splitlines()] == ["tree", "parent", "author", "committer"]
    assert git(repo, "log", "-1", "--format=%an %ae") == "Ada ada@example.com"
    assert len(text.splitlines()[0]) <= 120
    assert "Evil: yes" not in text.splitlines()
    assert len(raw) < 2000
    assert sound(repo)


@pytest.mark.parametrize(
    "name", ["-rf.md", "--output=x.md", "@{-1}.md", "a b.md", "'$(touch x)'.md", "日本.md", "a*.md"]
)
def test_names_are_never_options_or_patterns(repo: Path, saver: Saver, name: str) -> None:
    other = "decisions/ab.md"
    saver.put(other, b"# other\n", message())
    path = f"decisions/{name}"
    assert saver.put(path, RECORD, message()).commit
    assert saver.amend(path, message(), outcome=OUTCOME).commit
    assert [r.path for r in saver._repo.history.log(f"memory/{path}")] == [f"memory/{path}"] * 2
    assert saver.remove(path, message()).commit
    assert git(repo, "status", "--porcelain") == ""
    assert head_file(repo, f"memory/{other}") == "# other\n"


def test_a_lock_that_is_held_names_its_holder(repo: Path, saver: Saver) -> None:
    hold = (
        "import sys, time; from filemem.repo import Repo\n"
        f"with Repo.discover({str(repo)!r}).lock.held(5): print('held', flush=True); time.sleep(20)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    hasty = make_saver(repo, patience=0.2)
    with pytest.raises(Locked, match=f"process {holder.pid}"):
        hasty.put(PATH, RECORD, message())
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert hasty.put(PATH, RECORD, message()).commit
    hasty.close()


def test_no_process_outlives_a_saver(repo: Path) -> None:
    saver = make_saver(repo)
    saver.put(PATH, RECORD, message())
    helpers = [saver._repo.objects._reader, saver._repo._refs._helper]
    saver.close()
    assert [h is not None and h.process.returncode == 0 for h in helpers] == [True, True]


def test_the_save_path_imports_neither_gitpython_nor_numpy(repo: Path) -> None:
    code = (
        "import sys; from tests.support import *; from pathlib import Path\n"
        f"s = make_saver(Path({str(repo)!r})); s.put('decisions/x.md', b'# x\\n', message()); s.close()\n"
        "print([m for m in ('git', 'numpy', 'usearch', 'mcp', 'asyncio') if m in sys.modules])"
    )
    top = Path(__file__).parents[2]
    assert subprocess.check_output([sys.executable, "-c", code], cwd=top, text=True) == "[]\n"
