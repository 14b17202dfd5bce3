"""The memory that a server opens at its first call, with the user's personal one beside it."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from filemem.agents.init import create_repository
from filemem.cli import asked
from filemem.cli.project import Project
from filemem.cli.workspace import is_registered, join_workspace
from filemem.config import get_personal_folder
from filemem.errors import BrokenStore, NotFound
from filemem.memory import Memory
from filemem.memory.store import Store
from filemem.repo.run import find_repository
from filemem.watch import Watcher

INDEX_TIMEOUT = 1.0  # seconds that the first call waits for the first look at the files


def open_memory(project: Project) -> Memory:
    """Open the memory of a project, with a watcher."""
    memory = Memory.open(project.folder, store=project.store, serving=True)
    watcher = Watcher(memory)
    watcher.start()
    watcher.first_look.wait(INDEX_TIMEOUT)  # a first index that takes longer is asked as it grows
    memory.close_callbacks.append(watcher.stop)
    asked.start_listener(project, memory)
    if is_registered(project):
        join_workspace(memory)
    return memory


def open_with_personal(project: Project, user: str) -> Memory:
    """Open the memory of a project with the user's personal one beside it, or that one alone.

    Alone, if the project is the personal memory, or the folder is in no repository. `user` is the
    user of calls that name none.
    """
    personal = cast("Memory", PersonalMemory())
    without_repository = _is_outside_repository(project)
    memory: Any = personal
    if project.personal or (without_repository and not project.has_stated_folder):
        location_note = (
            f": {project.working_folder} is in no Git repository." if without_repository else "."
        )
        memory.notice = (
            f"This is the user's personal memory, {get_personal_folder()}{location_note}"
        )
    else:
        memory = open_memory(project)
        memory.notice = memory.keeper.ask(_describe_work_tree)
        memory.close_callbacks.append(personal.close)
    memory.stated_user = user
    memory.personal = lambda: personal
    return cast("Memory", memory)


def _is_outside_repository(project: Project) -> bool:
    with suppress(BrokenStore):  # the first call reports it
        try:
            find_repository(project.working_folder)
        except NotFound:
            return True
    return False


def _describe_work_tree(store: Store) -> str:
    """Which work tree a server is for; "" if the repository has no other."""
    code = store.code
    if not (code.common_dir / "worktrees").is_dir():
        return ""
    own_work_trees = (
        code.work_tree,
        store.repo.work_tree,
    )  # the second: a memory on its own branch
    if not any(top not in own_work_trees and top.is_dir() for top in code.list_work_trees()):
        return ""
    branch = code.read_branch()
    place = f"{code.work_tree}, on branch {branch}" if branch else str(code.work_tree)
    return f"This server reads and saves in the work tree {place}; for another, start one there"


class PersonalMemory:
    """Stands for the user's own `Memory`, which begins with the first save.

    Until then an empty one in a temporary folder answers, so that reading creates nothing.
    """

    def __init__(self) -> None:
        self._exit_stack = ExitStack()
        self._is_saved = False
        self._memory: Memory | None = None

    def __getattr__(self, name: str) -> Any:
        folder = get_personal_folder()
        is_saved = name == "save" or (folder / ".git").exists()
        if self._memory is None or is_saved != self._is_saved:
            self.close()
            self._is_saved = is_saved
            if not is_saved:
                folder = Path(self._exit_stack.enter_context(TemporaryDirectory(prefix="filemem-")))
            create_repository(folder)  # without a watcher: what other servers save is looked for
            self._memory = self._exit_stack.enter_context(
                closing(Memory.open(folder, is_long_running=True))
            )
        return getattr(self._memory, name)

    def close(self) -> None:
        """Close everything; the next call opens it again."""
        self._exit_stack.close()
        self._memory = None
