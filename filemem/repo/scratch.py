"""What reaches others or merges, through GitPython's command layer, in a bare repository that borrows our objects.

Rule: so of the repository's own configuration Git sees nothing there: no programs, refspecs, drivers, attributes or
hooks. The user's own holds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from filemem.repo.run import OFF, GitError

if TYPE_CHECKING:
    from git import Git as Verbs

    from filemem.repo import Repo

LIMIT = 600.0  # seconds for one call
_ELSEWHERE = ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_NAMESPACE", "GIT_PREFIX")


@contextmanager
def scratch(repo: Repo, refs: Iterable[str] = (), *, settings: Sequence[str] = OFF) -> Iterator[Verbs]:
    """Have a bare repository with our objects and nothing else of ours; it is gone afterwards."""
    import git

    repo.shared.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="git-", dir=repo.shared) as name:
        folder = Path(name)
        (folder / "refs").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        rows = ["[core]", "repositoryformatversion = 1", "bare = true"]
        rows += ["[extensions]", "objectformat = sha256"] if repo.hash_name == "sha256" else []
        (folder / "config").write_text("".join(f"{row}\n" for row in rows))
        (folder / "packed-refs").write_text("".join(f"{oid} refs/known/{n}\n" for n, oid in enumerate(refs)))
        if (repo.common_dir / "shallow").is_file():
            shutil.copyfile(repo.common_dir / "shallow", folder / "shallow")
        command = git.Git(name)
        fixed = {"no_pager": True, "literal_pathspecs": True, "no_replace_objects": True}
        command.set_persistent_git_options(c=list(settings), git_dir=name, **fixed)
        # GitPython hands its own environment on: what would lead Git to another repository is set to what says nothing.
        neutral = {one: "" for one in _ELSEWHERE if one in os.environ}
        ours = {one: value for one, value in repo.git.environment.items() if one.startswith("GIT_")}
        path = os.pathsep.join((str(Path(repo.git.program).parent), repo.git.environment["PATH"]))
        places = {"GIT_OBJECT_DIRECTORY": str(repo.common_dir / "objects"), "GIT_COMMON_DIR": name}
        places |= {"GIT_INDEX_FILE": str(folder / "index"), "GIT_CONFIG_COUNT": "0", "PATH": path}
        command.update_environment(**neutral, **ours, **places)
        yield command


def ask(command: Verbs, verb: str, *arguments: str) -> str:
    """Run one verb to its end; its output without the final newline. Raises GitError."""
    import git

    limit = None if os.name == "nt" else LIMIT  # GitPython cannot end a process there
    try:
        return str(getattr(command, verb)(*arguments, kill_after_timeout=limit))
    except git.GitCommandError as error:
        code = error.status if isinstance(error.status, int) else -1
        raise GitError(verb, code, str(error.stderr).strip().removeprefix("stderr: '").removesuffix("'")) from None
