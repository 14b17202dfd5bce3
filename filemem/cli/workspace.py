"""The command workspace: register repositories that are searched together."""

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
from filemem.cli.project import Project, print_text
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
    if action == "add":
        _add_repositories(folders)
    elif action == "remove":
        _remove_repositories(project, folders)
    rows = [str(work_tree) for work_tree in config.read_workspace()]
    text = "\n".join(rows) or "no repository is registered: filemem workspace add"
    answer = {"success": True, "count": len(rows), "repositories": rows}
    print_text(answer, as_json, text)


def _add_repositories(folders: Sequence[Path]) -> None:
    work_trees = set(config.read_workspace())
    for folder in folders:
        work_trees.add(_index_repository(folder))
    config.write_workspace(work_trees)


def _remove_repositories(project: Project, folders: Sequence[Path]) -> None:
    """Take repositories out of the list. Raises NotFound if one is not in it."""
    registered = set(config.read_workspace())
    removed = {_find_work_tree(folder) for folder in folders}
    unknown = removed - registered
    if unknown:
        raise NotFound(f"{min(unknown)} is not registered", "filemem workspace list shows what is")
    config.write_workspace(registered - removed)
    # Earlier versions kept one index of all registered repositories.
    index_cache = config.load(project.working_folder).index_cache
    shutil.rmtree(index_cache / "workspace", ignore_errors=True)


def _index_repository(folder: Path) -> Path:
    """Update the index of a repository; return its work tree."""
    with Project(str(folder)).memory() as memory:
        return memory.work_tree


def _find_work_tree(folder: Path) -> Path:
    """Return the work tree of a folder; the folder itself if it was deleted."""
    with suppress(FilememError):
        return find_repository(folder).work_tree
    return Path(os.path.abspath(folder))  # noqa: PTH100 - its links cannot be resolved any more


def join_workspace(
    memory: Memory, other_paths: Sequence[Path] = (), *, include_registered: bool = True
) -> None:
    """Search a memory together with other repositories, which the first search opens.

    Raises BadInput if registered repositories are wanted and there is none.
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
    """Return whether the repository of a project is registered, by any of its work trees."""
    registered = config.read_workspace()
    common_folder = _find_common_folder(project.working_folder)
    if common_folder is None:
        return False
    return any(_find_common_folder(work_tree) == common_folder for work_tree in registered)


def _find_common_folder(folder: Path) -> Path | None:
    """Return the Git folder that all work trees of a repository share; None outside one."""
    with suppress(FilememError):
        return find_repository(folder).common_dir
    return None
