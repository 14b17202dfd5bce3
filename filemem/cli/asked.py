"""Commands that a running server does for its own user, by the same code, on the open memory.

Rule: an answer is that of a process of its own, to the byte. Where it might not be, the client is
left to do the command.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filemem import VERSION, ask, config
from filemem.agents import hooks
from filemem.cli import run_command
from filemem.cli.console import CLIENT, Client, ClientStream
from filemem.errors import FilememError
from filemem.repo.run import find_repository
from filemem.server.local import Begin, Listener, Reply, Request

if TYPE_CHECKING:
    from filemem.cli.project import Project
    from filemem.memory import Memory
    from filemem.memory.store import Store

BUSY_TIMEOUT = 0.05  # seconds that a client waits for a call under way, or for a look at the files


def start_listener(project: Project, memory: Memory) -> None:
    """Do this user's commands in this work tree until the memory is closed.

    Not for a store by `--store`, or one on a branch of its own.
    """
    store = memory.keeper.store
    if project.store is None and store.repo is store.code:
        bare_memory = copy(
            memory
        )  # a command sees neither the personal memory nor other repositories
        bare_memory.personal = bare_memory.workspace = None
        listener = Listener(store.code.private_folder, partial(_answer_request, bare_memory))
        memory.close_callbacks.append(listener.close)


def _answer_request(memory: Memory, request: Request, begin: Begin) -> Reply | None:
    """Do a command; None: the client must do it."""
    keeper = memory.keeper
    with suppress(FilememError, OSError, UnicodeError):  # the client meets the same, and tells it
        if not (
            _is_same_state(keeper.store, request) and keeper.lock.acquire(timeout=BUSY_TIMEOUT)
        ):
            return None
        keeper.lock.release()
        begin()
        keeper.finish_saves()
        if keeper.ensure_current(BUSY_TIMEOUT, should_scan=True) and not keeper.trouble:
            return _run_request(memory, request)
    return None


def _is_same_state(store: Store, request: Request) -> bool:
    """Whether the client itself would see the same version, settings, work tree and commit."""
    git_dir = str(store.code.git_dir)
    return (
        request.version == VERSION
        and request.words[0] in ask.COMMANDS
        and request.settings == ask.list_settings()
        and request.head == ask.read_head(git_dir)
        and find_repository(Path(request.folder)) == store.code.folders
        and store.folder.is_dir()
        and config.load(store.code.work_tree) == store.config
    )


def _run_request(memory: Memory, request: Request) -> Reply | None:
    words = request.words
    folder = Path(request.folder)
    if words[0] == "hook":
        text = hooks.answer_from_memory(memory, request.data, words[1:], folder)
        return None if text is None else (0, text.encode(), b"")
    out, err = (ClientStream(is_terminal=tty) for tty in request.ttys)
    token = CLIENT.set(Client(out, err, request.columns, folder, memory))
    try:
        code = run_command(words)
    finally:
        CLIENT.reset(token)
    return code, out.getvalue().encode(), err.getvalue().encode()
