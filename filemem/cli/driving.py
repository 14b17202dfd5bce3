"""`filemem init --diff-driver`: `git diff` and `git log -p` show a record as what it says, one statement a line."""

from __future__ import annotations

from pathlib import Path

from filemem.cli.plan import Step, read
from filemem.memory import home
from filemem.repo import Repo

NAME = "filemem"
LINE = f"*.md diff={NAME}"


def steps(work_tree: Path, store: str, *, dry_run: bool) -> list[Step]:
    """Name the driver in the store's attributes, for all clones, and the program in this clone's configuration."""
    path = f"{store}/.gitattributes" if store != home.TOP else ".gitattributes"
    old = read(work_tree, path) or ""
    kept = LINE in old.splitlines()
    content = None if kept else f"{old}{LINE}\n" if not old or old.endswith("\n") else f"{old}\n{LINE}\n"
    attributes = Step(path, "keep" if kept else "change" if old else "create", content, "names the diff driver")
    if not dry_run:
        repo = Repo.discover(work_tree)
        repo.sharing.configure(f"diff.{NAME}.textconv", "filemem textconv")
        repo.close()
    return [attributes, Step(".git/config", "change", None, f"diff.{NAME}.textconv = filemem textconv")]
