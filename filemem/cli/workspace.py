"""Repositories that are searched together: the command workspace, and who takes part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem import config
from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Project, emit
from filemem.errors import BadInput, FilememError, NotFound
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.memory import Memory


@click.command()
@click.argument("action", type=click.Choice(["add", "remove", "list"]))
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@as_json
@pass_project
def workspace(project: Project, action: str, paths: Sequence[str], as_json: bool) -> None:
    """Register repositories to search together; without PATH this one. `add` indexes their
    memories.

    The list is yours, in your own configuration: no repository can add itself or another one.
    `filemem search --workspace` asks all of them; so does an agent with `scope: workspace`, in a
    repository that is registered.

    \b
    Examples:
      filemem workspace add . ../api ../web
      filemem workspace list
      filemem workspace remove ../api
      filemem search --workspace "how do we cache?"
    """
    folders = [project.here / path for path in paths or (".",)]
    registered = {*config.workspace()}
    if action == "add":
        config.register(registered | {_indexed(folder) for folder in folders})
    elif action == "remove":
        removed = {_named(folder) for folder in folders}
        if removed - registered:
            raise NotFound(
                f"{min(removed - registered)} is not registered",
                "filemem workspace list shows what is",
            )
        config.register(registered - removed)
        # Earlier versions kept an index of them all.
        shutil.rmtree(config.load(project.here).index_cache / "workspace", ignore_errors=True)
    rows = list(map(str, config.workspace()))
    text = "\n".join(rows) or "no repository is registered: filemem workspace add"
    emit({"success": True, "count": len(rows), "repositories": rows}, as_json, lambda _: text)


def _indexed(folder: Path) -> Path:
    """Bring the index of a repository up to date; return its work tree."""
    with Project(str(folder)).memory() as memory:
        return memory.work_tree


def _named(folder: Path) -> Path:
    """The work tree that a folder belongs to; a folder that was deleted stands for itself."""
    with suppress(FilememError):
        return find(folder).work_tree
    return Path(os.path.abspath(folder))  # noqa: PTH100 - no link in it can be followed any more


def join(memory: Memory, also: Sequence[Path] = (), *, registered: bool = True) -> None:
    """Let a memory be searched together with others, which are opened at the first question.

    Raises BadInput if none is registered.
    """
    from filemem.memory.workspace import Workspace

    if registered and not config.workspace():
        raise BadInput(
            "no repository is registered", "filemem workspace add PATH... registers some"
        )
    together = Workspace(memory, also, registered=registered)
    memory.closing.append(together.close)
    memory.workspace = lambda: together


def takes_part(project: Project) -> bool:
    """Whether the repository at hand is registered; any work tree of it counts."""
    own: list[Path] = []
    for folder in (project.here, *config.workspace()):
        with suppress(FilememError):
            own.append(find(folder).common_dir)
    return bool(own) and own[0] in own[1:]
