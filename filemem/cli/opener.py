"""Open the memory of a server, with the user's personal memory beside it."""

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

INDEX_TIMEOUT = 1.0  # seconds that the first call waits for the first scan of the files


def open_memory(project: Project) -> Memory:
    """Open the memory of a project, with a watcher."""
    memory = Memory.open(project.folder, store=project.store, serving=True)
    watcher = Watcher(memory)
    watcher.start()
    watcher.first_look.wait(INDEX_TIMEOUT)  # after that, calls use the index as far as it is built
    memory.close_callbacks.append(watcher.stop)
    asked.start_listener(project, memory)
    if is_registered(project):
        join_workspace(memory)
    return memory


def open_with_personal(project: Project, user: str) -> Memory:
    """Open the memory of a project, with the user's personal memory beside it.

    If the project is the personal memory, or the folder is in no repository, the personal memory is
    all. `user` is the user of calls that name none.
    """
    personal = cast("Memory", PersonalMemory())
    is_outside = _is_outside_repository(project)
    memory: Any = personal
    if project.personal or (is_outside and not project.has_stated_folder):
        notice = f"This is the user's personal memory, {get_personal_folder()}"
        if is_outside:
            notice += f": {project.working_folder} is in no Git repository"
        memory.notice = f"{notice}."
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
    """Describe the work tree that a server is for; "" if the repository has no other one."""
    code = store.code
    if not (code.common_dir / "worktrees").is_dir():
        return ""
    if not _has_other_work_tree(store):
        return ""
    place = str(code.work_tree)
    branch = code.read_branch()
    if branch:
        place += f", on branch {branch}"
    return f"This server reads and saves in the work tree {place}; for another, start one there"


def _has_other_work_tree(store: Store) -> bool:
    """Return whether there is a work tree besides those of the code and of the memory."""
    own_work_trees = {store.code.work_tree, store.repo.work_tree}
    other_work_trees = set(store.code.list_work_trees()) - own_work_trees
    return any(tree.is_dir() for tree in other_work_trees)


class PersonalMemory:
    """A proxy for the user's own `Memory`, which the first save creates.

    Until then it uses an empty memory in a temporary folder, so that reading creates nothing.
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
            self._memory = self._open(folder)
        return getattr(self._memory, name)

    def _open(self, folder: Path) -> Memory:
        """Open the memory in this folder, or an empty one before the first save."""
        if not self._is_saved:
            temporary_folder = TemporaryDirectory(prefix="filemem-")
            folder = Path(self._exit_stack.enter_context(temporary_folder))
        create_repository(folder)
        # Without a watcher: each call looks for what other servers have saved.
        memory = Memory.open(folder, is_long_running=True)
        return self._exit_stack.enter_context(closing(memory))

    def close(self) -> None:
        """Close the memory; the next call opens it again."""
        self._exit_stack.close()
        self._memory = None
