"""The repository's commit hooks, run only where the user's own configuration asks for it.

They see a private index that holds HEAD and our change, as they would under `git commit --only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from filemem.ending import heard
from filemem.repo.git import Git, GitError, finish
from filemem.repo.refs import NotNow, index_rows
from filemem.repo.settings import Settings

if TYPE_CHECKING:
    from filemem.repo.commit import Change

_LIMIT = 120.0  # seconds for one hook
_AFTERWARDS = "satisfy the hook and save again, or `git add` the file and commit it yourself"


def before(git: Git, settings: Settings, folder: Path, changes: Sequence[Change], message: str) -> str:
    """Run `pre-commit` and `commit-msg`; returns the message as the hooks leave it.

    Raises:
        NotNow: a hook refuses, or takes too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index, text = folder / "hook-index", folder / "hook-message"
    extra = {"GIT_INDEX_FILE": str(index), "GIT_EDITOR": ":"}
    try:
        index.unlink(missing_ok=True)
        text.write_text(message)
        try:
            git.run("read-tree", "HEAD", extra=extra)
        except GitError:
            pass  # no commit yet: the index starts empty
        rows = index_rows({c.path: (c.mode, c.blob) if c.blob else None for c in changes}, settings.hash_name)
        git.run("update-index", "-z", "--index-info", input=rows, extra=extra)
        with heard():
            _run(git, settings, ("pre-commit",), extra)
            _run(git, settings, ("commit-msg", "--", str(text)), extra)
        return text.read_text(errors="replace")
    finally:
        index.unlink(missing_ok=True)
        text.unlink(missing_ok=True)


def after(git: Git, settings: Settings) -> None:
    """Run `post-commit`; its failure changes nothing any more."""
    try:
        _run(git, settings, ("post-commit",), {})
    except NotNow:
        pass


def _run(git: Git, settings: Settings, hook: tuple[str, ...], extra: dict[str, str]) -> None:
    folder = settings.text("core.hookspath") or str(git.places.common_dir / "hooks")
    asked, config = ("hook", "run", "--ignore-missing", *hook), (f"core.hooksPath={folder}",)
    with TemporaryFile() as told:
        try:
            process = git.start(*asked, config=config, extra=extra, apart=True, told=told)
            finish(process, "hook", limit=_LIMIT)
        except GitError as error:
            told.seek(0)
            said = " ".join(f"{told.read().decode('utf-8', 'replace')} {error.stderr}".split())[:200]
            raise NotNow(f"the {hook[0]} hook refused: {said}; {_AFTERWARDS}", refused=True) from None
