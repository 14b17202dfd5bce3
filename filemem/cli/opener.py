"""The memory that a server opens at its first call, with the user's personal one beside it."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from filemem.agents.init import begin
from filemem.cli import asked
from filemem.cli.project import Project
from filemem.cli.workspace import join, takes_part
from filemem.config import personal_folder
from filemem.errors import BrokenStore, NotFound
from filemem.memory import Memory
from filemem.memory.store import Store
from filemem.repo.run import find
from filemem.watch import Watcher

PATIENCE = 1.0  # seconds that the first call waits for the first look at the files


def open_memory(project: Project) -> Memory:
    """Open the memory of a project, with a watcher."""
    memory = Memory.open(project.folder, store=project.store, serving=True)
    watcher = Watcher(memory)
    watcher.start()
    watcher.looked.wait(PATIENCE)  # a first index that takes longer is asked as it grows
    memory.closing.append(watcher.stop)
    asked.listen(project, memory)
    if takes_part(project):
        join(memory)
    return memory


def open_with_personal(project: Project, user: str) -> Memory:
    """Open the memory of a project with the user's personal one beside it, or that one alone.

    Alone, if the project is the personal memory, or the folder is in no repository. `user` is the
    user of calls that name none.
    """
    personal = cast("Memory", Personal())
    without_repository = _in_no_repository(project)
    memory: Any = personal
    if project.personal or (without_repository and not project.stated):
        where = f": {project.here} is in no Git repository." if without_repository else "."
        memory.notice = f"This is the user's personal memory, {personal_folder()}{where}"
    else:
        memory = open_memory(project)
        memory.notice = memory.keeper.ask(_which_work_tree)
        memory.closing.append(personal.close)
    memory.stated_user = user
    memory.personal = lambda: personal
    return cast("Memory", memory)


def _in_no_repository(project: Project) -> bool:
    with suppress(BrokenStore):  # the first call reports it
        try:
            find(project.here)
        except NotFound:
            return True
    return False


def _which_work_tree(store: Store) -> str:
    """Which work tree a server is for; "" if the repository has no other."""
    code = store.code
    if not (code.common_dir / "worktrees").is_dir():
        return ""
    own = (code.work_tree, store.repo.work_tree)  # the second: a memory on its own branch
    if not any(top not in own and top.is_dir() for top in code.work_trees()):
        return ""
    branch = code.branch()
    place = f"{code.work_tree}, on branch {branch}" if branch else str(code.work_tree)
    return f"This server reads and saves in the work tree {place}; for another, start one there"


class Personal:
    """Stands for the user's own `Memory`, which begins with the first save.

    Until then an empty one in a temporary folder answers, so that reading creates nothing.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._saved = False
        self._memory: Memory | None = None

    def __getattr__(self, name: str) -> Any:
        folder = personal_folder()
        saved = name == "save" or (folder / ".git").exists()
        if self._memory is None or saved != self._saved:
            self.close()
            self._saved = saved
            if not saved:
                folder = Path(self._open.enter_context(TemporaryDirectory(prefix="filemem-")))
            begin(folder)  # without a watcher: what other servers save is looked for
            self._memory = self._open.enter_context(closing(Memory.open(folder, stays=True)))
        return getattr(self._memory, name)

    def close(self) -> None:
        """Close everything; the next call opens it again."""
        self._open.close()
        self._memory = None
