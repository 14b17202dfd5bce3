"""Git's verbs for people, through GitPython. Rule: its command layer alone, with pinned settings, none of its objects.

What reaches others or merges runs in a bare scratch repository that borrows our objects. So of the repository's own
configuration Git sees nothing there: no programs, refspecs, drivers, attributes or hooks. The user's own holds.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from filemem.repo.run import OFF, GitError

if TYPE_CHECKING:
    from git import Git as Verbs

    from filemem.repo import Repo

_PREFIX, _DEAD = "git-", 86_400.0  # seconds after which a scratch repository is not in use any more
_ELSEWHERE = ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_NAMESPACE", "GIT_PREFIX")


def _verbs(repo: Repo, settings: Sequence[str], where: dict[str, str], extra: dict[str, str]) -> Verbs:
    import git

    command = git.Git(where["git_dir"])  # not in the work tree: its attributes are a stranger's
    fixed = {"no_pager": True, "literal_pathspecs": True, "no_replace_objects": True}
    command.set_persistent_git_options(c=list(settings), **fixed, **where)
    # GitPython hands its own environment on: what would lead Git to another repository is set to what says nothing.
    neutral = {name: "" for name in _ELSEWHERE if name in os.environ}
    common = str(repo.git.places.common_dir)
    places = {"GIT_COMMON_DIR": common, "GIT_OBJECT_DIRECTORY": str(Path(common, "objects")), "GIT_CONFIG_COUNT": "0"}
    neutral |= {name: value for name, value in places.items() if name in os.environ}
    path = os.pathsep.join((str(Path(repo.git.program).parent), repo.git.environment["PATH"]))
    ours = {name: value for name, value in repo.git.environment.items() if name.startswith("GIT_")}
    command.update_environment(**{**neutral, **ours, "PATH": path, **extra})
    return command


@contextmanager
def scratch(repo: Repo, refs: Iterable[str] = (), *, settings: Sequence[str] = OFF) -> Iterator[tuple[Verbs, Path]]:
    """Have a bare repository with our objects and nothing else of ours; it is gone afterwards."""
    repo.shared.mkdir(parents=True, exist_ok=True)
    for old in repo.shared.glob(f"{_PREFIX}*"):  # of processes that were killed
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - _DEAD:
                shutil.rmtree(old)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=repo.shared))
    try:
        (folder / "refs").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        rows = ["[core]", "repositoryformatversion = 1", "bare = true"]
        rows += ["[extensions]", "objectformat = sha256"] if repo.hash_name == "sha256" else []
        (folder / "config").write_text("".join(f"{row}\n" for row in rows))
        (folder / "packed-refs").write_text("".join(f"{oid} refs/known/{n}\n" for n, oid in enumerate(refs)))
        objects, shallow = repo.common_dir / "objects", repo.common_dir / "shallow"
        if shallow.is_file():
            shutil.copyfile(shallow, folder / "shallow")
        there = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_INDEX_FILE": str(folder / "index")}
        yield _verbs(repo, settings, {"git_dir": str(folder)}, {**there, "GIT_COMMON_DIR": str(folder)}), folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ask(command: Verbs, verb: str, *arguments: str) -> str:
    """Run one verb to its end; its output without the final newline. Raises GitError."""
    import git

    try:
        return str(getattr(command, verb)(*arguments))
    except git.GitCommandError as error:
        code = error.status if isinstance(error.status, int) else -1
        text = str(error.stderr).strip().removeprefix("stderr: '").removesuffix("'")
        raise GitError(verb.replace("_", "-"), code, text) from None


def blame(repo: Repo, commit: str, path: str, first: int = 1, last: int = 0) -> tuple[str, ...]:
    """The commit that each line of a file comes from. Raises GitError."""
    span = f"-L{first},{last}" if last else f"-L{first},"
    with scratch(repo) as (there, _):  # a blame.ignoreRevsFile of the settings names a file that may be missing
        there.update_environment(GIT_CONFIG_GLOBAL=os.devnull)
        told = ask(there, "blame", "--no-textconv", "--porcelain", "-w", span, commit, "--", path)
    heads = (line.split(" ") for line in told.splitlines() if not line.startswith("\t"))
    return tuple(words[0] for words in heads if len(words[0]) >= 40 and len(words) >= 3 and words[1].isdigit())
