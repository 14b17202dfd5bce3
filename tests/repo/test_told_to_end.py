"""SIGTERM, SIGHUP and Ctrl-C in a save: it is done and answered, or undone where it may last; the exit code tells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from filemem.ending import held, unwinding
from tests.repo.crash import ACKNOWLEDGED, PATH, operate
from tests.repo.test_crash import check, prepare
from tests.support import environment, git, head_file, make_repo, make_saver, write

OPERATIONS = ["put", "amend", "remove", "forget", "restore"]
EDITED = [" M code.py", "A  staged.py"]


def told(
    repo: Path, operation: str, at: str, number: int, *, fails: bool = False, group: bool = False
) -> tuple[int, str]:
    """Do an operation in a process of its own, under a command's handlers, that gets a signal at a step.

    Args:
        fails: whether the disk fails at the same step.
        group: whether its Git processes get the signal too, as those of a terminal do.

    Returns:
        The exit status, and what was said: the commit.
    """

    def step(name: str) -> None:
        if name == at:
            (os.killpg if group else os.kill)(os.getpid(), number)
            if fails:
                raise OSError(28, "No space left on device")

    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` has ignored
        code = 1
        try:
            with unwinding():
                saver = make_saver(repo, steps=step)
                os.write(into, (operate(saver, operation).commit or "").encode())
                saver.close()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    os.close(into)
    with os.fdopen(out, "rb") as said:
        answer = said.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), answer


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("step", ["begin", "journal", "index-started", "objects", "index", "ref", "done"])
def test_a_save_that_has_begun_is_done_and_answered(tmp_path: Path, operation: str, step: str) -> None:
    repo = prepare(tmp_path, operation)
    number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[len(operation + step) % 3]
    code, said = told(repo, operation, step, number)
    assert (code, said) == (128 + number, git(repo, "rev-parse", "HEAD"))
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == EDITED
    assert not list((repo / ".git/filemem/journal").iterdir())
    check(repo, operation, [ACKNOWLEDGED])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_save_that_fails_then_is_undone(tmp_path: Path, operation: str) -> None:
    repo = prepare(tmp_path, operation)
    before = git(repo, "rev-parse", "HEAD"), sorted((repo / "memory").rglob("*"))
    assert told(repo, operation, "index", signal.SIGTERM, fails=True) == (143, "")
    assert (git(repo, "rev-parse", "HEAD"), sorted((repo / "memory").rglob("*"))) == before
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == EDITED
    assert not list((repo / ".git/filemem/journal").iterdir())


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("step", ["index-started", "index", "folders"])
def test_a_key_that_a_terminal_tells_all_of_leaves_git_alone(tmp_path: Path, operation: str, step: str) -> None:
    repo = prepare(tmp_path, operation)
    code, said = told(repo, operation, step, signal.SIGINT, group=True)
    assert (code, said) == (130, git(repo, "rev-parse", "HEAD"))
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == EDITED
    check(repo, operation, [ACKNOWLEDGED])


def test_a_hook_that_lasts_is_ended_and_the_save_undone(tmp_path: Path) -> None:
    repo = prepare(tmp_path, "put")
    script = write(
        repo / ".git/hooks/pre-commit", "#!/bin/sh\n[ -e .git/pid ] && kill -TERM $(cat .git/pid) && sleep 60\n"
    )
    script.chmod(0o755)
    code = (
        "import os; from pathlib import Path; from filemem.ending import unwinding\n"
        "from tests.repo.crash import operate; from tests.support import make_saver\n"
        f"Path('{repo}/.git/pid').write_text(str(os.getpid()))\n"
        f"saver = make_saver(Path('{repo}')); saver._repo.run_hooks = True\n"
        "with unwinding():\n    operate(saver, 'put')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False, timeout=50)
    assert ended.returncode == 143
    assert not (repo / "memory" / PATH).exists()
    assert sorted(git(repo, "status", "--porcelain").splitlines()) == EDITED
    assert not list((repo / ".git/filemem/journal").iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("save", "decision", "--topic", "t", "--decision", "Two", "--reasoning", "r"),
        ("update", "One", "--outcome", "failed", "--reason", "slow"),
        ("forget", "One"),
    ],
)
def test_a_command_gives_its_answer_before_it_ends(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A `git` in front of the real one tells its parent to end as soon as the index is to be changed."""
    repo = make_repo(tmp_path / "repo")
    filemem = Path(sys.executable).with_name("filemem")
    first = (filemem, "save", "decision", "--topic", "t", "--decision", "One", "--reasoning", "r")
    subprocess.run(first, cwd=repo, env=environment(), check=True, capture_output=True)
    real = shutil.which("git")
    fake = write(
        tmp_path / "bin/git", f'#!/bin/sh\ncase "$*" in *update-index*) kill -TERM $PPID;; esac\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    path = {"PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        (filemem, *arguments, "--json"), cwd=repo, env=environment(path), check=False, capture_output=True, text=True
    )
    assert ended.returncode == 143, ended.stderr
    assert json.loads(ended.stdout)["commit"] == git(repo, "rev-parse", "HEAD")
    assert git(repo, "status", "--porcelain") == ""


def test_a_signal_that_waited_is_heard_before_the_next_save(tmp_path: Path) -> None:
    repo = prepare(tmp_path, "put")
    code = (
        "import os, signal; from pathlib import Path; from filemem.ending import unwinding\n"
        "from tests.repo.crash import operate; from tests.support import make_saver\n"
        "step = lambda name: name == 'index' and os.kill(os.getpid(), signal.SIGTERM)\n"
        "with unwinding():\n"
        f"    saver = make_saver(Path('{repo}'), steps=step)\n"
        "    operate(saver, 'put'); operate(saver, 'amend'); raise ValueError\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False, timeout=50)
    assert ended.returncode == 143
    assert "failed" not in (head_file(repo, f"memory/{PATH}") or "failed")


def test_what_stands_alone_is_ended_right_after() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt), held():  # noqa: PT012 - that it comes late is what is tested
            signal.raise_signal(signal.SIGINT)
            done = True
    finally:
        signal.signal(signal.SIGINT, before)
    assert done


def test_an_error_that_comes_of_a_signal_ends_the_process_as_told() -> None:
    """As Python 3.11 does where an import is cut off: a TypeError instead of what the handler raised."""
    with pytest.raises(SystemExit) as ended, unwinding():  # noqa: PT012 - the block is what is tested
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:
            raise TypeError from None
    assert ended.value.code == 143


@pytest.mark.parametrize("step", ["os.scandir", "os.remove", "os.rmdir"])
def test_a_scratch_repository_goes_though_told_to_end_while_it_goes(tmp_path: Path, step: str) -> None:
    repo, temp = make_repo(tmp_path / "repo"), tmp_path / "temp"
    temp.mkdir()
    code = (
        "import os, signal, sys\n"
        "from filemem.ending import unwinding; from filemem.repo import Repo\n"
        "told = []\n"
        "def hear(event, _):\n"
        f"    if event == {step!r} and not told:\n"
        "        told.append(event); os.kill(os.getpid(), signal.SIGTERM)\n"
        "repo = Repo.discover('.')\n"
        "with unwinding(), repo.merging(repo.head(), {}):\n    sys.addaudithook(hear)\n"
    )
    paths = {"TMPDIR": str(temp), "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run([sys.executable, "-c", code], cwd=repo, env=environment(paths), check=False, timeout=50)
    assert (ended.returncode, list(temp.iterdir())) == (143, [])
