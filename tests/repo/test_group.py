"""A repository that a group shares: what filemem makes in the Git directory has the modes that Git gives its own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from filemem.memory import Memory
from filemem.repo import disk, served
from tests.repo.saver import Saver
from tests.support import git, sound, write

NOBODY = 65534


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Work under a umask."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def made(folder: Path, shared: str) -> Path:
    git(folder, "init", "-q", "-b", "main", "--template=", f"--shared={shared}", "repo")
    repo = folder / "repo"
    git(repo, "config", "user.name", "Ada")
    git(repo, "config", "user.email", "ada@example.com")
    write(repo / "code.py", "x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Begin")
    return repo


@pytest.mark.parametrize("umask", [0o022, 0o077], indirect=True, ids=oct)
@pytest.mark.parametrize("shared", ["group", "all", "0660", "0640", "umask"])
def test_files_have_the_modes_that_git_gives_its_own(
    tmp_path: Path, shared: str, umask: None
) -> None:
    repo = made(tmp_path, shared)
    with Memory.open(repo) as memory:
        for number in range(18):  # the index folds them in
            memory.save(title=f"Tea {number}", text="Text")
        memory.search("tea")
        served.publish_address(repo / ".git/filemem", "http://secret").close()
        written = memory.save(title="Coffee", text="Text").commit
    ours = list((repo / ".git/filemem").rglob("*"))
    assert mode(next(path for path in ours if path.parent.name == "pages")) == "0o600"
    if shared == "umask":
        assert "0o600" in {mode(path) for path in ours if path.parent.name == "recent"}
        return
    theirs = [path for path in ours if "pages" not in path.parts]
    folders = {mode(path) for path in theirs if path.is_dir()}
    files = {mode(path) for path in theirs if path.is_file()} - {"0o440", "0o444"}
    assert folders == {mode(repo / ".git/refs/heads")}
    private = oct(disk.compute_mode(0o600, shared))  # what is the user's alone elsewhere
    assert files - {private} <= {mode(repo / ".git/index")}
    assert int(private, 8) & 0o070 == int(mode(repo / ".git/index"), 8) & 0o070
    begin = git(repo, "rev-list", "--max-parents=0", "HEAD")
    objects = [repo / ".git/objects" / name[:2] / name[2:] for name in (begin, written)]
    assert mode(objects[0]) == mode(objects[1])


def as_another(repo: Path, home: Path) -> NoReturn:
    """In a process of its own: save as another user, then end."""
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        for name in [name for name in os.environ if name.startswith("XDG_")] + ["HOME"]:
            os.environ[name] = str(home)
        saver = Saver(repo)
        done = saver.put("decisions/c.md", b"# c\n")
        assert done.commit
        assert not done.trouble, done.trouble
        assert not saver.pending()
        with Memory.open(repo) as memory:
            written = memory.save(title="Their tea", text="Text")
            assert (bool(written.commit), written.degraded) == (True, "")
            assert len(memory.search("tea").hits) == 2
    except BaseException:  # noqa: BLE001 - the parent tells it
        (home / "failure").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_saves_and_finishes_what_waits() -> None:
    top = Path(tempfile.mkdtemp(prefix="filemem-group-"))
    top.chmod(0o777)
    write(top / ".gitconfig", "[safe]\n\tdirectory = *\n")
    try:
        repo = made(top, "0666")
        subprocess.run(["chmod", "-R", "a+rwX", str(repo)], check=True)
        with Memory.open(repo) as memory:
            memory.save(title="Our tea", text="Text")
            memory.search("tea")
        saver = Saver(repo)
        marker = write(repo / ".git/MERGE_HEAD", git(repo, "rev-parse", "HEAD") + "\n")
        assert saver.put("decisions/b.md", b"# b\n").pending
        marker.unlink()
        saver.close()
        subprocess.run(["chmod", "-R", "a+rwX", str(repo / "memory")], check=True)
        child = os.fork()
        if not child:
            as_another(repo, top)
        assert os.waitpid(child, 0)[1] == 0, (top / "failure").read_text()
        listed = git(repo, "ls-tree", "-r", "--name-only", "HEAD", HOME=str(top)).splitlines()
        assert {"memory/decisions/b.md", "memory/decisions/c.md"} <= set(listed)
        assert sound(repo)
    finally:
        shutil.rmtree(top)
