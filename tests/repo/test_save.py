"""A save commits its record and nothing else, wherever HEAD and the index are, and touches nothing of the user's."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from filemem.errors import Conflict, Locked
from filemem.repo import Repo
from filemem.repo.commit import Edit, render_message
from filemem.repo.state import read_head_ref
from tests.repo.saver import Saver
from tests.support import environment, git, head_file, make_repo, sound, write

PATH, REST = "memory/decisions/a/x.md", "memory/decisions/a/y.md"
X, Y = "decisions/a/x.md", "decisions/a/y.md"


def status(repo: Path) -> list[str]:
    return git(repo, "status", "--porcelain", "--untracked-files=all").splitlines()


def test_one_save_is_one_commit_of_its_record_alone(repo: Path, saver: Saver) -> None:
    write(repo / "code.py", "edited\n")
    write(repo / "staged.py", "staged\n")
    write(repo / "new.py", "new\n")
    git(repo, "add", "staged.py")
    before = status(repo)
    said = render_message(
        "decision(a):  Use\n it\x1b", (("Filemem-Id", "decision_a_1"), ("Agent", ""))
    )
    made = saver.put(X, b"# x\n", said)
    assert made[:6] == (
        git(repo, "rev-parse", "HEAD"),
        "main",
        "",
        "",
        "",
        git(repo, "rev-parse", "HEAD~"),
    )
    assert git(repo, "show", "--format=", "--name-only", "HEAD") == PATH
    assert (
        git(repo, "log", "-1", "--format=%B") == "decision(a): Use it\n\nFilemem-Id: decision_a_1\n"
    )
    assert git(repo, "log", "-1", "--format=%at %an") == "1763650000 Ada"
    assert status(repo) == before
    assert head_file(repo, PATH) == "# x\n"
    assert sound(repo)
    made = saver.change(X, b"# x\nmore\n")
    assert saver.change(X, None).commit == git(repo, "rev-parse", "HEAD") != made.commit
    assert (head_file(repo, PATH), status(repo)) == (None, before)


def test_several_edits_are_one_commit(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    edits = (
        Edit(PATH, None, b"# x\n"),
        Edit("memory/.forgotten/ab", b"", None),
        Edit(REST, b"# y\n", None),
    )
    saver.edit(edits)
    shown = git(repo, "show", "--format=", "--name-status", "--no-renames", "HEAD").splitlines()
    assert shown == ["A\tmemory/.forgotten/ab", f"D\t{PATH}", f"A\t{REST}"]
    assert status(repo) == []


def test_git_finds_nothing_changed_after_a_save(repo: Path, saver: Saver) -> None:
    for path in filter(Path.is_file, repo.iterdir()):
        os.utime(
            path, (1, 1)
        )  # as old as no index: what is as young as its index Git looks at each time
    git(repo, "status")  # the repository is a copy, in which all files look changed to the index
    saver.put(X, b"# x\n")
    subprocess.run(
        ["git", "diff-index", "--quiet", "HEAD"], cwd=repo, env=environment(), check=True
    )


def test_a_file_with_uncommitted_edits_is_refused_by_name(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    write(repo / PATH, "# x\nmine\n")
    with pytest.raises(Conflict, match=PATH):
        saver.change(X, b"# x\nours\n")
    git(repo, "add", PATH)
    write(repo / PATH, "# x\n")
    with pytest.raises(Conflict, match=PATH):  # what is staged only
        saver.change(X, b"# x\nours\n")
    assert (repo / PATH).read_text() == "# x\n"
    assert status(repo) == [f"MM {PATH}"]


def test_a_file_that_stands_in_the_place_is_kept(repo: Path, saver: Saver) -> None:
    write(repo / PATH, "somebody's\n")
    with pytest.raises(Conflict, match="exists already"):
        saver.put(X, b"# x\n")
    assert (repo / PATH).read_text() == "somebody's\n"
    assert not saver.repo.has_unfinished_saves
    made = saver.change(X, b"somebody's\nmore\n")
    assert (made.commit, "never committed" in made.uncommitted_reason) == ("", True)
    with pytest.raises(Conflict, match="never committed"):
        saver.change(X, None)


def test_a_file_that_changes_while_the_save_goes_on_is_refused(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    head = git(repo, "rev-parse", "HEAD")
    saver.step = lambda name: write(repo / PATH, "# x\nmine\n") if name == "checked" else None
    with pytest.raises(Conflict, match="changed meanwhile"):
        saver.change(X, b"# x\nours\n")
    assert (git(repo, "rev-parse", "HEAD"), status(repo)) == (head, [f" M {PATH}"])
    assert not (repo / ".git/index.lock").exists()


@pytest.mark.parametrize("how", ["sha256", "unborn", "packed", "worktree", "submodule", "slash"])
def test_repositories_of_all_kinds(tmp_path: Path, how: str) -> None:
    path = make_repo(
        tmp_path / "one",
        commit=how != "unborn",
        **({"object_format": "sha256"} if how == "sha256" else {}),
    )
    branch = "main"
    if how == "packed":
        git(path, "pack-refs", "--all")
        git(path, "gc", "-q")
    elif how == "worktree":
        git(path, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        path, branch = tmp_path / "side", "side"
    elif how == "submodule":
        outer = make_repo(tmp_path / "outer")
        git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(path), "inner")
        path = outer / "inner"
        git(path, "config", "user.name", "Ada")
        git(path, "config", "user.email", "ada@example.com")
    elif how == "slash":
        branch = "feature/deep/one"
        git(path, "switch", "-q", "-c", branch)
    saver = Saver(path)
    assert saver.put(X, b"# x\n").branch == branch
    assert (
        saver.put(Y, b"# y\n").commit
        == git(path, "rev-parse", branch)
        == git(path, "rev-parse", "HEAD")
    )
    assert saver.change(X, b"# x2\n").commit
    assert (head_file(path, PATH), head_file(path, REST), status(path)) == ("# x2\n", "# y\n", [])
    assert sound(path)
    saver.close()


def test_a_detached_head_leaves_records_uncommitted(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    git(repo, "switch", "-q", "--detach")
    head = git(repo, "rev-parse", "HEAD")
    assert "detached" in saver.put(Y, b"# y\n").uncommitted_reason
    assert "detached" in saver.change(X, b"# x2\n").uncommitted_reason
    assert status(repo) == [f" M {PATH}", f"?? {REST}"]
    assert (git(repo, "rev-parse", "HEAD"), saver.pending()) == (head, ())


def test_what_git_ignores_or_filters_is_written_and_left(repo: Path, saver: Saver) -> None:
    write(repo / ".gitignore", "# c\nmem*/observations/\n")
    left = saver.put("observations/x.md", b"# x\n").uncommitted_reason
    assert ".gitignore:2: mem*/observations/" in left
    git(repo, "config", "filter.crypt.clean", "tr a b")
    write(repo / ".gitattributes", "*.md filter=crypt\n")
    assert "filter 'crypt'" in saver.put(X, b"# x\n").uncommitted_reason
    assert (repo / PATH).read_text() == "# x\n"
    assert git(repo, "rev-list", "--count", "HEAD") == "1"


@pytest.mark.parametrize(
    ("attributes", "autocrlf"),
    [
        ("* text=auto", ""),
        ("", "input"),
        ("*.md -text", "true"),
        ("*.md eol=crlf", ""),
    ],
)
def test_line_endings_are_committed_as_git_does_it(
    repo: Path, saver: Saver, attributes: str, autocrlf: str
) -> None:
    write(repo / ".gitattributes", attributes + "\n")
    if autocrlf:
        git(repo, "config", "core.autocrlf", autocrlf)
    data = b"# x\r\nline\r\n"
    assert saver.put(X, data).commit
    expected = git(repo, "hash-object", f"--path={PATH}", "--stdin", input=data)
    assert git(repo, "rev-parse", f"HEAD:{PATH}") == expected
    assert (repo / PATH).read_bytes() == data
    assert [row for row in status(repo) if PATH in row] == []
    assert not saver.repo.is_edited(PATH, data)
    assert saver.change(X, data + b"more\r\n").commit
    assert [row for row in status(repo) if PATH in row] == []


def test_a_branch_that_moves_is_followed(repo: Path, saver: Saver) -> None:
    moves = iter(range(2))

    def step(name: str) -> None:
        if name == "prepared" and next(moves, None) is not None:
            git(repo, "commit", "-q", "--allow-empty", "-m", "user")

    saver.step = step
    saver.put(X, b"# x\n")
    assert git(repo, "rev-list", "--count", "HEAD") == "4"
    saver.step = lambda name: (
        [None, git(repo, "commit", "-q", "--allow-empty", "-m", "u")][0]
        if name == "prepared"
        else None
    )
    with pytest.raises(Locked, match="keeps moving"):
        saver.change(X, b"# other\n")
    assert (head_file(repo, f"memory/{X}"), status(repo)) == ("# x\n", [])
    assert "keeps moving" in saver.put(Y, b"# y\n").pending, "a new record waits"


def test_a_lock_that_stays_makes_a_new_record_wait(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.repo.commit._PATIENCE", 0.1)
    saver.put(X, b"# x\n")
    lock = write(repo / ".git/index.lock", "")
    assert "index.lock" in saver.put(Y, b"# y\n").pending
    with pytest.raises(Locked, match=r"index\.lock"):
        saver.change(X, b"# x2\n")
    assert lock.exists(), "it is not ours to remove"
    lock.unlink()
    assert [made.branch for made in saver.finish()] == ["main"]
    assert (head_file(repo, REST), status(repo), saver.pending()) == ("# y\n", [], ())


def test_a_save_whose_branch_has_moved_is_acknowledged(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    log = repo / ".git/logs/HEAD"
    log.unlink()
    write(log / "in the way", "")
    made = saver.put(Y, b"# y\n")
    assert made.commit == git(repo, "rev-parse", "main")
    assert "committed, but" in made.trouble
    assert "logs/HEAD" in made.trouble
    assert (head_file(repo, REST), status(repo), saver.pending()) == ("# y\n", [], ())


def test_the_folders_of_objects_are_on_disk_before_the_branch_moves(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git(repo, "rev-parse", "main")
    synced = set[Path]()
    fsync = os.fsync
    monkeypatch.setattr("filemem.repo.disk._has_ordered_journal", lambda _: False)

    def watch(file: int) -> None:
        if (repo / ".git/refs/heads/main").read_text().strip() == before:
            synced.add(Path(f"/proc/self/fd/{file}").readlink())
        fsync(file)

    monkeypatch.setattr(os, "fsync", watch)
    commit = saver.put(X, b"# x\n").commit
    assert {repo / ".git/objects", repo / ".git/objects" / commit[:2]} <= synced


def test_where_changes_keep_their_order_a_save_waits_for_the_last_of_them_and_starts_no_thread(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git(repo, "rev-parse", "main")
    written, synced = list[Path](), list[tuple[Path, bool]]()
    fsync = os.fsync
    monkeypatch.setattr("filemem.repo.disk._has_ordered_journal", lambda _: True)
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))

    def named(file: int) -> Path:
        return Path(f"/proc/self/fd/{file}").readlink()

    def watch(file: int) -> None:
        moved = (repo / ".git/refs/heads/main").read_text().strip() != before
        synced.append((named(file).relative_to(repo), moved))
        fsync(file)

    monkeypatch.setattr(os, "fsync", watch)
    monkeypatch.setattr(
        "filemem.repo.disk._write_range", lambda file, _: written.append(named(file))
    )
    saver.put(X, b"# x\n")
    assert [folder for folder, moved in synced if not moved] == [Path(".git/filemem/journal")]
    assert {Path(".git/refs/heads"), Path(PATH).parent} <= {folder for folder, _ in synced[1:]}
    assert {path.parent.name for path in written} == {"journal", "objects", "spool"}


def test_a_rebase_that_ends_meanwhile_leaves_nothing_uncommitted(
    repo: Path, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "checkout", "-q", "--detach")
    busy = type(saver.repo).find_busy_reason

    def ends(this: Repo) -> str:
        if not read_head_ref(this.git):
            git(repo, "checkout", "-q", "main")
        return busy(this)

    monkeypatch.setattr(type(saver.repo), "find_busy_reason", ends)
    made = saver.put(X, b"# x\n")
    assert (made.uncommitted_reason, made.commit) == ("", git(repo, "rev-parse", "main"))


@pytest.mark.parametrize("feature", ["version", "split", "untracked", "skip", "assume", "sparse"])
def test_the_index_keeps_its_version_and_extensions(
    tmp_path: Path, feature: str, guarded_home: Path
) -> None:
    path = make_repo(tmp_path / "one")
    for number in range(30):
        write(path / f"src/d{number % 3}/f{number}.py", f"{number}\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "more")
    features: dict[str, list[tuple[str, ...]]] = {
        "version": [("update-index", "--index-version", "4")],
        "split": [
            ("config", "splitIndex.maxPercentChange", "100"),
            ("update-index", "--split-index"),
        ],
        "untracked": [
            ("config", "core.untrackedCache", "true"),
            ("update-index", "--untracked-cache"),
            ("status",),
        ],
        "skip": [("update-index", "--skip-worktree", "src/d0/f0.py")],
        "assume": [("update-index", "--assume-unchanged", "src/d0/f0.py")],
        "sparse": [("sparse-checkout", "set", "--cone", "--sparse-index", "src/d0", "memory")],
    }
    for command in features[feature]:
        git(path, *command)
    saver = Saver(path)
    saver.put("first.md", b"# 1\n")
    before = index_facts(path)
    saver.put(X, b"# x\n")
    assert saver.change(X, b"# x2\n").commit
    after = index_facts(path)
    saver.close()
    assert after == before
    assert [row for row in status(path) if "memory" in row] == []
    if feature == "version":
        assert before[0] == 4
    else:
        assert before[1] or feature in ("skip", "assume"), "the feature is on"


def index_facts(path: Path) -> tuple[int, frozenset[bytes], str]:
    """Version, extensions (but for the tree cache, which comes and goes) and flags of an index."""
    data = (path / ".git/index").read_bytes()
    names = (b"link", b"UNTR", b"FSMN", b"sdir", b"EOIE", b"IEOT")
    flags = git(path, "ls-files", "-v", "src").replace("H ", "")
    return (
        int.from_bytes(data[4:8], "big"),
        frozenset(name for name in names if name in data),
        flags,
    )


def test_commits_are_signed_where_the_user_asks_for_it(
    repo: Path, saver: Saver, guarded_home: Path
) -> None:
    config = guarded_home / ".gitconfig"
    program = write(
        guarded_home / "sign",
        '#!/bin/sh\ncat > /dev/null\necho "[GNUPG:] SIG_CREATED " >&2\necho SIGNED\n',
    )
    program.chmod(0o755)
    config.write_text(f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {program}\n")
    try:
        made = saver.put(X, b"# x\n")
        assert "SIGNED" in git(repo, "cat-file", "commit", made.commit)
        program.write_text("#!/bin/sh\nexit 1\n")
        with pytest.raises(Conflict, match="signed"):
            saver.put(Y, b"# y\n")
    finally:
        config.unlink()
        program.unlink()
    assert status(repo) == []


def test_reading_what_commits_hold(repo: Path, saver: Saver) -> None:
    saver.put(X, b"# x\n")
    head = saver.put(Y, b"# y\n").commit
    found = saver.repo.list_files(head, "memory")
    assert sorted(found) == [PATH, REST]
    assert sorted(saver.repo.list_files(head, ".")) == ["code.py", PATH, REST]
    assert dict(saver.repo.iter_blobs([*found.values(), "0" * 40])) == {
        found[PATH]: b"# x\n",
        found[REST]: b"# y\n",
        "0" * 40: None,
    }
    assert saver.repo.read_blob(found[PATH], 3) is None
    assert saver.repo.read_staged(["memory"]) == found
    assert saver.repo.resolve_revision("main~1") == git(repo, "rev-parse", "HEAD~1")
    assert [
        saver.repo.resolve_revision(rev)
        for rev in ("nope", "-x", "--output=x", "", "a\nb", f"HEAD:{PATH}")
    ] == [None] * 6
    assert saver.repo.describe_missing_history() == ""
