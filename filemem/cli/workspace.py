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
from filemem.cli.options import json_option, pass_project
from filemem.cli.project import Project, print_answer
from filemem.errors import BadInput, FilememError, NotFound
from filemem.repo.run import find_repository

if TYPE_CHECKING:
    from filemem.memory import Memory


@click.command()
@click.argument("action", type=click.Choice(["add", "remove", "list"]))
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@json_option
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
    folders = [project.working_folder / path for path in paths or (".",)]
    registered = {*config.read_workspace()}
    if action == "add":
        config.write_workspace(registered | {_index_repository(folder) for folder in folders})
    elif action == "remove":
        removed_folders = {_find_work_tree(folder) for folder in folders}
        if removed_folders - registered:
            raise NotFound(
                f"{min(removed_folders - registered)} is not registered",
                "filemem workspace list shows what is",
            )
        config.write_workspace(registered - removed_folders)
        # Earlier versions kept an index of them all.
        shutil.rmtree(
            config.load(project.working_folder).index_cache / "workspace", ignore_errors=True
        )
    rows = list(map(str, config.read_workspace()))
    text = "\n".join(rows) or "no repository is registered: filemem workspace add"
    print_answer(
        {"success": True, "count": len(rows), "repositories": rows}, as_json, lambda _: text
    )


def _index_repository(folder: Path) -> Path:
    """Bring the index of a repository up to date; return its work tree."""
    with Project(str(folder)).memory() as memory:
        return memory.work_tree


def _find_work_tree(folder: Path) -> Path:
    """The work tree that a folder belongs to; a folder that was deleted stands for itself."""
    with suppress(FilememError):
        return find_repository(folder).work_tree
    return Path(os.path.abspath(folder))  # noqa: PTH100 - no link in it can be followed any more


def join_workspace(
    memory: Memory, other_paths: Sequence[Path] = (), *, include_registered: bool = True
) -> None:
    """Let a memory be searched together with others, which are opened at the first question.

    Raises BadInput if none is registered.
    """
    from filemem.memory.workspace import Workspace

    if include_registered and not config.read_workspace():
        raise BadInput(
            "no repository is registered", "filemem workspace add PATH... registers some"
        )
    joined_workspace = Workspace(memory, other_paths, use_registered=include_registered)
    memory.close_callbacks.append(joined_workspace.close)
    memory.workspace = lambda: joined_workspace


def is_registered(project: Project) -> bool:
    """Whether the repository at hand is registered; any work tree of it counts."""
    common_folders: list[Path] = []
    for folder in (project.working_folder, *config.read_workspace()):
        with suppress(FilememError):
            common_folders.append(find_repository(folder).common_dir)
    return bool(common_folders) and common_folders[0] in common_folders[1:]
