"""Run commands of the user in a server that is already running, on its open memory.

Rule: the answer is byte for byte that of a separate process. If it might differ, the server
declines and the client runs the command itself.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
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

BUSY_TIMEOUT = 0.05  # seconds that a client waits for another call, or for a look at the files


def start_listener(project: Project, memory: Memory) -> None:
    """Listen for commands of this user in this work tree, until the memory is closed.

    Does nothing for a store by `--store`, or one on another branch.
    """
    store = memory.keeper.store
    if project.store is not None or store.repo is not store.code:
        return
    bare_memory = copy(memory)  # without what a command does not see
    bare_memory.personal = None
    bare_memory.workspace = None

    def answer_request(request: Request, begin: Begin) -> Reply | None:
        return _answer_request(bare_memory, request, begin)

    listener = Listener(store.code.private_folder, answer_request)
    memory.close_callbacks.append(listener.close)


def _answer_request(memory: Memory, request: Request, begin: Begin) -> Reply | None:
    """Run a command; None lets the client run it."""
    keeper = memory.keeper
    with suppress(FilememError, OSError, UnicodeError):  # the client gets and reports the same
        if not _is_same_state(keeper.store, request):
            return None
        if not keeper.lock.acquire(timeout=BUSY_TIMEOUT):
            return None
        keeper.lock.release()
        begin()
        keeper.finish_saves()
        is_current = keeper.ensure_current(BUSY_TIMEOUT, should_scan=True)
        if is_current and not keeper.trouble:
            return _run_request(memory, request)
    return None


def _is_same_state(store: Store, request: Request) -> bool:
    """Return whether the client would see the same version, settings, work tree and commit."""
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
    is_out_terminal, is_err_terminal = request.ttys
    client = Client(
        out=ClientStream(is_terminal=is_out_terminal),
        err=ClientStream(is_terminal=is_err_terminal),
        columns=request.columns,
        working_folder=folder,
        memory=memory,
    )
    token = CLIENT.set(client)
    try:
        code = run_command(words)
    finally:
        CLIENT.reset(token)
    return code, client.out.getvalue().encode(), client.err.getvalue().encode()
