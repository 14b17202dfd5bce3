"""Making a repository, for `filemem init` in a folder that has none."""

from __future__ import annotations

import os
from pathlib import Path

from filemem.repo.discovery import Places
from filemem.repo.git import Git, clean, locate


def create(folder: Path) -> None:
    """Run `git init` in a folder, with the user's own defaults and no template.

    Raises:
        BrokenStore: there is no Git, or it refuses.
    """
    program, environment = locate(os.environ, folder), clean(os.environ)
    Git(program, Places(folder, folder / ".git", folder / ".git"), environment).run("init", "--quiet", "--template=")
