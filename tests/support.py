"""Real Git repositories for tests: fixed identity and time, nothing of the machine's own configuration."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from filemem.index import Index, Model
from filemem.repo import commit

TIME = "1763650000 +0000"
CLOCK = 1_763_650_000_123  # milliseconds
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of Git commands that tests run: no `GIT_*` from outside, a fixed identity and time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    dates = {"GIT_AUTHOR_DATE": TIME, "GIT_COMMITTER_DATE": TIME}
    return {**kept, **IDENTITY, **dates, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", **(extra or {})}


def git(path: Path, *arguments: str, input: bytes = b"", ok: bool = True, **extra: str) -> str:  # noqa: A002
    """Run Git in a folder as the user would; its output without the final newline."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=path,
        input=input,
        capture_output=True,
        env=environment(extra),
        check=False,
    )
    if ok and done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace").removesuffix("\n")


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def make_repo(path: Path, *, commit: bool = True, **options: str) -> Path:
    """Make a repository on branch `main` with a name and an address configured, and one commit of `code.py`.

    Args:
        path: the folder, made if needed.
        commit: whether to make that commit.
        options: further options of `git init` by name, for example object_format="sha256".
    """
    shutil.copytree(
        _template(commit, tuple(sorted(options.items()))), path, dirs_exist_ok=True, symlinks=True
    )
    return path


@functools.cache
def _template(commit: bool, options: tuple[tuple[str, str], ...]) -> Path:
    """A repository to copy: that is ten times as fast as to make one."""
    path = Path(tempfile.mkdtemp(prefix="filemem-template-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    git(
        path,
        "init",
        "-q",
        "-b",
        "main",
        "--template=",
        *(f"--{k.replace('_', '-')}={v}" for k, v in options),
    )
    (path / ".git/info").mkdir()
    git(path, "config", "user.name", "Ada")
    git(path, "config", "user.email", "ada@example.com")
    git(path, "config", "gc.auto", "0")
    if commit:
        write(path / "code.py", "print('hello')\n")
        git(path, "add", ".")
        git(path, "commit", "-q", "-m", "Begin")
    return path


def message(subject: str = "decision(topic): Use it", **trailers: str) -> str:
    """A commit message."""
    return commit.render_message(
        subject, tuple((key.replace("_", "-"), value) for key, value in trailers.items())
    )


def head_file(path: Path, name: str) -> str | None:
    """What HEAD holds for a file; None for nothing."""
    done = subprocess.run(
        ["git", "cat-file", "blob", f"HEAD:{name}"],
        cwd=path,
        capture_output=True,
        env=environment(),
        check=False,
    )
    return None if done.returncode else done.stdout.decode()


def index_folder(path: Path, store: str = "memory") -> Path:
    """The index of a store as this version makes it, of the first work tree of a repository."""
    return Index(path / ".git/filemem/index" / store, Model()).root


def sound(path: Path) -> bool:
    """Whether the repository has all its objects, whole."""
    done = subprocess.run(
        ["git", "fsck", "--full", "--strict", "--no-dangling"],
        cwd=path,
        capture_output=True,
        env=environment(),
        check=False,
    )
    return done.returncode == 0
