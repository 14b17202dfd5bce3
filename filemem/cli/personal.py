"""The user's personal memory as a server opens it: a repository in the user's data folder, made at the first save.

Until then an empty memory in a temporary folder answers, so that reading creates nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from filemem import config
from filemem.cli.project import Project
from filemem.errors import BrokenStore, NotFound
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.memory import Memory


def opener(project: Project, usual: Callable[[], Memory], user: str) -> Callable[[], Memory]:
    """Return the function that opens the memory to serve.

    That is the project's, by `usual`, with the personal one beside it; or the personal one, if it is asked for or there
    is no repository. `user`: the user of calls that name none."""

    @cache
    def own() -> Memory:
        return cast("Memory", Personal())

    def opened() -> Memory:
        why = "."
        with suppress(BrokenStore):  # which the first call tells
            try:
                find(project.here)
            except NotFound:
                why = f": {project.here} is in no Git repository."
        if project.personal or (why != "." and not project.stated):
            memory: Any = own()
            memory.notice = f"This is the user's personal memory, {config.personal_folder()}{why}"
        else:
            memory = usual()
            memory.closing.append(lambda: own().close() if own.cache_info().currsize else None)
        memory.stated_user, memory.personal = user, own
        return cast("Memory", memory)

    return opened


class Personal:
    """Stands for the `Memory` that answers now: the empty one, or the user's."""

    def __init__(self) -> None:
        self.opened, self.saved, self._memory = ExitStack(), False, cast("Memory", None)

    def __getattr__(self, name: str) -> Any:
        from filemem.cli.setup import begin
        from filemem.memory import Memory

        folder = config.personal_folder()
        saved = name == "save" or (folder / ".git").exists()
        if self._memory is None or saved != self.saved:
            self.close()
            self.saved = saved
            if not saved:
                folder = Path(self.opened.enter_context(TemporaryDirectory(prefix="filemem-")))
            begin(folder)  # without a watcher: what other servers save is looked for
            self._memory = self.opened.enter_context(closing(Memory.open(folder, stays=True)))
        return getattr(self._memory, name)

    def close(self) -> None:
        """Close everything."""
        self.opened.close()
