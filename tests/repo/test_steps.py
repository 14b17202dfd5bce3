"""No record is lost and no command of the user's is blocked, whatever happens between two steps of a save.

A kill at any step is finished or undone by the next command; a command of the user's that runs between two steps, or
has begun before a save and ends after it, leaves the record on the branch that the answer names, no staged deletion,
and a repository in which the next command works.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.errors import FilememError, Locked
from filemem.repo.commit import Edit, SaveResult
from tests.repo.saver import Saver
from tests.repo.steps import STEPS
from tests.support import environment, git, head_file, make_repo, sound, write

NAME, PATH, MARK = "decisions/a/x.md", "memory/decisions/a/x.md", "memory/.forgotten/ab"
OLD, NEW = b"# x\n", b"# x\nmore\n"
EDITS = {
    "put": (Edit(PATH, NEW, None),),
    "change": (Edit(PATH, NEW, OLD),),
    "forget": (Edit(PATH, None, OLD), Edit(MARK, b"", None)),
}


def prepare(path: Path, operation: str) -> None:
    make_repo(path)
    if operation != "put":
        saver = Saver(path)
        saver.put(NAME, OLD)
        saver.close()
    write(path / "staged.py", "staged\n")
    git(path, "add", "staged.py")
    write(path / "code.py", "edited\n")


def killed_at(path: Path, operation: str, last: str, number: int = signal.SIGKILL) -> bool:
    """Do an operation in a process that is ended at a step; whether it was acknowledged."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def step(name: str) -> None:
            if name == last:
                os.kill(os.getpid(), number)

        try:
            os.write(into, Saver(path, step).edit(EDITS[operation]).commit.encode())
        finally:
            os._exit(1)
    os.close(into)
    said = os.read(out, 64)
    os.close(out)
    os.waitpid(pid, 0)
    stop = time.monotonic() + 10
    while any((path / ".git").rglob("*.lock")) and time.monotonic() < stop:
        time.sleep(0.01)  # Git's children let go when they see that we are gone
    return bool(said)


def memory_rows(path: Path) -> list[str]:
    rows = git(path, "status", "--porcelain", "--untracked-files=all").splitlines()
    return [row for row in rows if "memory/" in row]


@pytest.mark.parametrize(
    ("operation", "number", "steps"),
    [
        ("put", signal.SIGKILL, STEPS),
        ("change", signal.SIGKILL, STEPS[0::2]),
        ("forget", signal.SIGKILL, STEPS[1::2]),
        ("put", signal.SIGINT, STEPS[1::3]),
        *(
            pytest.param(name, signal.SIGKILL, STEPS, marks=pytest.mark.long)
            for name in ("change", "forget")
        ),
    ],
    ids=["put", "change", "forget", "put, interrupted", "change, at length", "forget, at length"],
)
def test_an_end_at_any_step_is_finished_or_undone(
    tmp_path: Path, operation: str, number: int, steps: tuple[str, ...]
) -> None:
    for at in steps:
        path = tmp_path / at
        prepare(path, operation)
        acknowledged = killed_at(path, operation, at, number)
        assert not list((path / ".git").rglob("*.lock")), at
        saver = Saver(path)
        saver.finish()
        done = head_file(path, PATH) == {"put": NEW.decode(), "change": NEW.decode()}.get(operation)
        assert done or not acknowledged, at
        if operation == "put" and number == signal.SIGKILL:
            assert done == (at != "planned"), at
        if not done:
            assert head_file(path, PATH) == (None if operation == "put" else OLD.decode()), at
            assert (path / PATH).exists() == (operation != "put"), at
        assert (head_file(path, MARK) is not None) == (done and operation == "forget"), at
        assert (memory_rows(path), saver.pending(), saver.repo.trouble) == ([], (), ""), at
        assert git(path, "status", "--porcelain").splitlines() == [" M code.py", "A  staged.py"], at
        count = git(path, "rev-list", "--count", "HEAD")
        saver.finish()
        assert git(path, "rev-list", "--count", "HEAD") == count, "nothing is committed twice"
        git(path, "commit", "-q", "-a", "-m", "the user's next")
        assert sound(path)
        saver.close()


def test_what_the_user_made_of_a_file_wins_over_an_interrupted_change(tmp_path: Path) -> None:
    prepare(tmp_path / "repo", "change")
    assert not killed_at(tmp_path / "repo", "change", "prepared")
    write(tmp_path / "repo" / PATH, "# mine\n")
    saver = Saver(tmp_path / "repo")
    saver.finish()
    assert (head_file(tmp_path / "repo", PATH), saver.pending()) == (OLD.decode(), ())
    assert (tmp_path / "repo" / PATH).read_text() == "# mine\n"
    saver.close()


# commands of the user's

COMMANDS: dict[str, tuple[str, ...]] = {
    "switch": ("switch", "-q", "other"),
    "switch -c": ("switch", "-q", "-C", "fresh"),
    "branch -m": ("branch", "-m", "main", "trunk"),
    "reset --soft": ("reset", "-q", "--soft", "HEAD~1"),
    "symbolic-ref": ("symbolic-ref", "HEAD", "refs/heads/twin"),
    "clean": ("clean", "-q", "-fd"),
    "stash -u": ("stash", "-q", "-u"),
    "merge": ("merge", "-q", "--no-edit", "side"),
    "failing merge": ("merge", "-q", "--no-edit", "clash"),
    "rebase": ("rebase", "-q", "--autostash", "side"),
    "commit -a": ("commit", "-q", "-a", "-m", "mine"),
    "amend": ("commit", "-q", "--amend", "-m", "mine"),
    "worktree add": ("worktree", "add", "-q", "../linked"),
}
_FAILS = ("failing merge",)
_BETWEEN = [
    step for step in STEPS if step != "checked"
]  # nothing happens between these and the next


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with branches to switch to, to merge and to clash with, and an edit that is not committed."""
    path = make_repo(tmp_path_factory.mktemp("scene") / "repo")
    git(path, "branch", "other")
    for branch, file in (("side", "side.py"), ("clash", "clash.py")):
        git(path, "switch", "-q", "-c", branch, "other")
        write(path / file, f"{branch}\n")
        git(path, "add", ".")
        git(path, "commit", "-q", "-m", branch)
    git(path, "switch", "-q", "main")
    write(path / "clash.py", "main\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "second")
    git(path, "branch", "twin")
    return path


def copy(scene: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", str(scene), str(to)], check=True)
    write(to / "code.py", "edited\n")
    write(to / "untracked.py", "mine\n")
    return to


def run(path: Path, command: tuple[str, ...]) -> str:
    """Run a command; what Git says where it is refused."""
    done = subprocess.run(
        ["git", *command], cwd=path, env=environment(), capture_output=True, text=True, check=False
    )
    return done.stderr + done.stdout if done.returncode else ""


def check(path: Path, saver: Saver, made: SaveResult, where: str) -> None:
    saver.finish()
    if (path / ".git/MERGE_HEAD").exists():
        git(path, "merge", "--abort")
    saver.finish()
    assert saver.pending() == (), where
    rows = memory_rows(path)
    assert not any(row[0] == "D" for row in rows), (where, rows)
    lost = "took" in made.trouble + saver.repo.trouble
    if not lost:
        branch = made.branch if git(path, "branch", "--list", made.branch) else "trunk"
        held = git(path, "cat-file", "blob", f"{branch}:{PATH}", ok=False)
        assert held == NEW.decode().rstrip("\n"), (
            where,
            made,
            git(path, "log", "--oneline", "--all", "--graph"),
        )
    else:
        assert where.startswith("reset --soft"), made
    assert not list((path / ".git").rglob("*.lock")), where
    git(path, "commit", "-q", "--allow-empty", "-m", "next")
    git(path, "stash", "-q", "-u")
    for branch in (
        "other",
        "side",
        made.branch if git(path, "branch", "--list", made.branch) else "trunk",
    ):
        git(path, "switch", "-q", branch)
    if not lost:
        assert (path / PATH).read_bytes() == NEW, where


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        # each command at every third step, the next one at the steps after those
        *(pytest.param(name, _BETWEEN[at % 3 :: 3], id=name) for at, name in enumerate(COMMANDS)),
        *(
            pytest.param(name, _BETWEEN, id=f"{name}, at length", marks=pytest.mark.long)
            for name in COMMANDS
        ),
    ],
)
def test_a_command_between_two_steps(
    scene: Path, tmp_path: Path, name: str, steps: list[str]
) -> None:
    for at in steps:
        path = copy(scene, tmp_path / at.replace(" ", "-"))
        (tmp_path / "linked").exists() and subprocess.run(
            ["rm", "-rf", str(tmp_path / "linked")], check=True
        )
        said: list[str] = []

        def step(reached: str, at: str = at, path: Path = path, said: list[str] = said) -> None:
            if reached == at and not said:
                said.append(run(path, COMMANDS[name]) or "fine")

        saver = Saver(path, step)
        made = saver.put(NAME, NEW)
        where = f"{name} at {at}: {said[0]}"
        if said[0] != "fine" and name not in _FAILS:
            assert any(
                text in said[0].lower() for text in ("lock", "unable", "cannot", "stash failed")
            ), where
            assert at in STEPS[2:8], where
            assert not (path / ".git/MERGE_HEAD").exists(), f"half done: {where}"
            if name != "reset --soft":  # which would undo the save
                assert not run(path, COMMANDS[name]), where  # afterwards it works
        check(path, saver, made, where)
        saver.close()


# commands that have begun before a save and end after it


def wait_for(test: Callable[[], bool]) -> None:
    stop = time.monotonic() + 20
    while not test():
        assert time.monotonic() < stop
        time.sleep(0.005)


@pytest.mark.parametrize(
    "how",
    [
        ("commit", "-q", "-a"),
        ("commit", "-q"),
        ("commit", "-q", "--amend"),
        ("commit", "-q", "code.py"),
    ],
)
def test_a_commit_whose_editor_is_open(scene: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    path = copy(scene, tmp_path / "repo")
    git(path, "add", "untracked.py")
    editor = write(
        tmp_path / "editor",
        '#!/bin/sh\ntouch "$0.open"\nwhile [ ! -e "$0.close" ]; do sleep 0.01; done\necho mine > "$1"\n',
    )
    editor.chmod(0o755)
    theirs = subprocess.Popen(["git", *how], cwd=path, env=environment({"GIT_EDITOR": str(editor)}))
    wait_for((tmp_path / "editor.open").exists)
    saver = Saver(path)
    made = saver.put(NAME, NEW)
    message = path / ".git/COMMIT_EDITMSG"
    assert made.pending == f"a commit message is being edited: {message}"
    assert saver.pending()[0].path == PATH
    (path / PATH).unlink()
    saver.finish()
    assert (path / PATH).read_bytes() == NEW, "what waits is written again"
    (tmp_path / "editor.close").touch()
    assert theirs.wait() == 0
    assert [each.branch for each in saver.finish()] == ["main"]
    check(path, saver, made, "editor")
    assert git(path, "log", "-2", "--format=%s", "HEAD").splitlines()[1].startswith("decision")
    saver.close()


def test_a_save_waits_for_a_command_that_has_just_begun(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have read HEAD and index, and write both: a merge notes that later."""
    path = copy(scene, tmp_path / "repo")
    saver = Saver(path)
    monkeypatch.setattr("filemem.repo.state._BEGINS", 3_600)
    monkeypatch.setattr("filemem.repo.commit._PATIENCE", 0.1)
    assert saver.put(NAME, NEW).commit, "our own do not count"
    theirs = subprocess.Popen(
        ["git", "hash-object", "--stdin"], cwd=path, env=environment(), stdin=subprocess.PIPE
    )
    made = saver.put("decisions/other.md", b"# other\n")
    assert made.pending == "another Git command runs here"
    with pytest.raises(Locked, match="another Git command runs here"):
        saver.change(NAME, OLD)
    monkeypatch.setattr("filemem.repo.state._BEGINS", 0)
    assert [made.branch for made in saver.finish()] == ["main"], "one that stays blocks nothing"
    assert saver.change(NAME, OLD).commit
    theirs.communicate()
    saver.close()


@pytest.mark.parametrize("end", ["aborted", "refused"])
def test_a_commit_that_was_given_up_blocks_nothing(scene: Path, tmp_path: Path, end: str) -> None:
    path = copy(scene, tmp_path / "repo")
    git(path, "add", "untracked.py")
    saver = Saver(path)
    saver.put(NAME, NEW)
    editor = "true"
    if end == "refused":
        editor = "sh -c 'echo mine >> $0'"
        write(path / ".git/hooks/commit-msg", "#!/bin/sh\nexit 1\n").chmod(0o755)
    env = environment({"GIT_EDITOR": editor})
    theirs = subprocess.run(["git", "commit", "-q"], cwd=path, env=env, check=False)
    assert theirs.returncode == 1
    assert saver.change(NAME, NEW + b"more\n").commit
    later = time.time() + 3 * 86_400
    os.utime(path / ".git/COMMIT_EDITMSG", (later, later))
    assert saver.change(NAME, NEW + b"again\n").commit, "nor does a time in the future"
    saver.close()


def test_where_processes_cannot_be_seen_an_editor_counts_for_a_minute(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filemem.repo.state._PROCESSES", tmp_path / "none")
    path = copy(scene, tmp_path / "repo")
    message = write(path / ".git/COMMIT_EDITMSG", "\n# Please enter the commit message\n")
    saver = Saver(path)
    now = time.time()
    ahead = max(now, (path / ".git/logs/HEAD").stat().st_mtime) + 0.01
    os.utime(message, (ahead, ahead))
    monkeypatch.setattr("filemem.repo.state.time.time", lambda: ahead + 59)
    assert "COMMIT_EDITMSG" in saver.repo.find_busy_reason()
    monkeypatch.setattr("filemem.repo.state.time.time", lambda: ahead + 61)
    assert not saver.repo.find_busy_reason()
    monkeypatch.setattr("filemem.repo.state.time.time", lambda: ahead - 3600)
    assert not saver.repo.find_busy_reason()
    saver.close()


@pytest.mark.parametrize("state", ["rebase", "merge", "cherry-pick", "revert", "bisect"])
def test_a_busy_repository_makes_new_records_wait(scene: Path, tmp_path: Path, state: str) -> None:
    path = copy(scene, tmp_path / "repo")
    git(path, "stash", "-q", "-u")
    saver = Saver(path)
    commands = {
        "rebase": ("rebase", "clash"),
        "merge": ("merge", "clash"),
        "cherry-pick": ("cherry-pick", "clash"),
    }
    if state == "revert":
        write(path / "clash.py", "third\n")
        git(path, "commit", "-q", "-a", "-m", "third")
        run(path, ("revert", "--no-edit", "HEAD~1"))
    elif state == "bisect":
        git(path, "bisect", "start")
        git(path, "bisect", "bad", "HEAD")
        git(path, "bisect", "good", "HEAD~1")
    else:
        assert run(path, commands[state]), "it stops at a conflict"
    made = saver.put(NAME, NEW)
    assert state in made.pending
    assert made.branch == "main"
    assert (path / PATH).read_bytes() == NEW
    with pytest.raises(FilememError, match=state):
        saver.edit(EDITS["change"])
    git(path, *((state, "reset") if state == "bisect" else (state, "--abort")))
    assert [each.branch for each in saver.finish()] == ["main"]
    assert head_file(path, PATH) == NEW.decode()
    assert memory_rows(path) == []
    saver.close()


def test_what_waits_for_another_branch_waits_on(scene: Path, tmp_path: Path) -> None:
    path = copy(scene, tmp_path / "repo")
    git(path, "stash", "-q", "-u")
    saver = Saver(path)
    run(path, ("merge", "clash"))
    assert saver.put(NAME, NEW).pending
    git(path, "merge", "--abort")
    git(path, "switch", "-q", "other")
    assert saver.finish() == ()
    assert head_file(path, PATH) is None
    git(path, "switch", "-q", "main")
    assert saver.finish()[0].branch == "main"
    assert head_file(path, PATH) == NEW.decode()
    saver.close()
