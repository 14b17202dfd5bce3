"""Hooks of coding agents: `filemem hook` reads an event and prints the answer to it.

A hook must not get in the way: it always succeeds, within two seconds, and prints nothing if it is
not sure. Its answers inform; they neither block nor allow anything. If the memory cannot be read,
only the start of a session says so, in one line. If two files of clients run a hook for one event,
the first call is answered. A repository's settings may switch hooks off, the user's may add hooks.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filemem.agents.events import END, HOOKS, PROMPT, START, STOP, Event, parse_event
from filemem.agents.handlers import HANDLERS, SETTINGS_NOTE, Session
from filemem.ask import MAX_INPUT_SIZE, read_standard_input
from filemem.errors import FilememError, NotFound
from filemem.memory import Memory
from filemem.memory.store import Store
from filemem.repo import served
from filemem.repo.run import find_repository

LONGEST = 1.5  # seconds for the whole hook
QUICK = 1.0  # seconds of processor time for a search beside a prompt; a usual one takes .2
DEFAULT_HOOKS = ("start", "prompt-first", "edits", "failures")  # if the command names none
SAME_EVENT_SECONDS = 10  # equal events within this time are one
_UNREADABLE_NOTE = "filemem cannot read this project's memory: `filemem doctor` says why."
# Sources of a session's start after which its context has no earlier answers.
_FRESH_SOURCES = ("", "startup", "new", "clear", "compact")


class _Command(NamedTuple):
    """The hook and the client that a command line names, or ""."""

    hook: str
    client: str


def run(arguments: Sequence[str], current_folder: Path) -> None:
    """Answer the event on standard input.

    Args:
        arguments: The arguments of the command, [EVENT] [--client NAME].
        current_folder: The folder in which the command was started.
    """
    limit = TimeLimit()
    command = _parse_arguments(arguments)
    event = None
    try:
        event = _parse_event(read_standard_input(), command, current_folder)
        if event is None:
            return
        text = answer_event(event, command.hook, limit)
        if text:
            os.write(1, format_answer(event, text).encode())
    except NotFound:  # there is no repository
        return
    except (FilememError, OSError) as error:
        _report_failure(event, error)


def answer_from_memory(
    memory: Memory, data: bytes, arguments: Sequence[str], current_folder: Path
) -> str | None:
    """Return what `run` would print, by an open memory.

    Returns None if another process must answer: the event saves, or is of another work tree.
    Raises FilememError.
    """
    command = _parse_arguments(arguments)
    event = _parse_event(data, command, current_folder)
    if event is None:
        return ""
    if event.kind == END or find_repository(event.folder).work_tree != memory.work_tree:
        return None

    def answer(store: Store) -> str:
        return _answer_from_store(store, event, command.hook)

    text = memory.keeper.ask(answer)
    if not text:
        return ""
    return format_answer(event, text)


def _parse_arguments(arguments: Sequence[str]) -> _Command:
    words = list(arguments)
    client = ""
    if "--client" in words[:-1]:
        client = words.pop(words.index("--client") + 1)
    for word in words:
        if word and not word.startswith("-"):
            return _Command(word, client)
    return _Command("", client)


def _report_failure(event: Event | None, error: FilememError | OSError) -> None:
    """Print why there is no answer; at the start of a session also print a note as the answer."""
    reason = error.one_line if isinstance(error, FilememError) else error
    sys.stderr.write(f"filemem hook: {reason}\n")
    if event is None or event.kind != START:
        return
    with suppress(OSError):  # the output is closed
        os.write(1, format_answer(event, _UNREADABLE_NOTE).encode())


def _parse_event(data: bytes, command: _Command, current_folder: Path) -> Event | None:
    """Return the event in an input; None for any other input or an unknown hook."""
    if len(data) > MAX_INPUT_SIZE:
        return None
    if command.hook and command.hook not in HOOKS:
        return None
    return parse_event(data, command.hook, command.client, current_folder)


class TimeLimit:
    """Ends the process silently when it takes too long.

    A save is then finished or not started, as after a kill.
    """

    def __init__(self) -> None:
        self._private_folder: Path | None = None
        timer = threading.Timer(LONGEST, self._exit)
        timer.daemon = True
        timer.start()

    def start_recall(self, private_folder: Path) -> None:
        """Allow QUICK of processor time from now on; an abandoned search is counted."""
        self._private_folder = private_folder
        signal.signal(signal.SIGPROF, self._exit)
        signal.setitimer(signal.ITIMER_PROF, QUICK)

    def _exit(self, *_signal: object) -> None:
        if self._private_folder:
            served.add_abandoned_search(self._private_folder)
        os._exit(0)


# -- the text of an answer ------------------------------------------------------------------------


def format_answer(event: Event, text: str) -> str:
    """Return the answer in the client's format; clients silently ignore any other."""
    return json.dumps(_build_answer(event, text))


def _build_answer(event: Event, text: str) -> dict[str, object]:
    if event.client == "cursor":
        key = "followup_message" if event.kind == STOP else "additional_context"
        return {key: text}
    if event.client == "copilot":
        return {"additionalContext": text}
    if event.kind == STOP and event.client != "claude":
        return {"systemMessage": text}  # for the user: the agent gets no context here
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def answer_event(event: Event, hook: str, limit: TimeLimit | None = None) -> str:
    """Return the text of the answer to an event, or "".

    Args:
        event: The event.
        hook: The hook that the command names, or "".
        limit: The limit for the processor time of a recall.

    Raises:
        NotFound: There is no repository.
    """
    store = Store(event.folder)
    if limit and event.kind == PROMPT:
        limit.start_recall(store.code.private_folder)
    try:
        return _answer_from_store(store, event, hook)
    finally:
        store.close()


def _answer_from_store(store: Store, event: Event, hook: str) -> str:
    """Return the text of the answer from an open store, or ""."""
    names = _list_hooks(store, event, hook)
    if not names:
        return ""
    if event.kind == START and event.source not in _FRESH_SOURCES:
        return ""
    if not store.folder.is_dir():
        has_failed = event.kind == START and store.config.read_error
        return SETTINGS_NOTE if has_failed else ""
    with _open_session(store.code.private_folder / "sessions", event.session) as session:
        if not _add_event(session, event):
            return ""
        answer = HANDLERS[event.kind]
        return answer(store, event, session, names[0])


def _add_event(session: Session, event: Event) -> bool:
    """Note an event in a session; return False if an equal one was noted just before."""
    new_texts = [edit.new for edit in event.edits]
    mark = _compute_mark(
        event.kind,
        event.source,
        event.prompt,
        event.command,
        event.error,
        *event.files,
        *new_texts,
    )
    now = time.time()
    seen = session.get("seen", {})
    recent = {key: at for key, at in seen.items() if abs(now - at) < SAME_EVENT_SECONDS}
    is_new = mark not in recent
    recent.setdefault(mark, now)
    session["seen"] = recent
    return is_new


def _list_hooks(store: Store, event: Event, hook: str) -> list[str]:
    """Return the hooks that answer an event, by the command and the settings."""
    requested_hooks = [hook] if hook else list(DEFAULT_HOOKS)
    requested_hooks += store.config.hooks.get("events", ())
    allowed_hooks = store.config.allowed_hooks.get("events", HOOKS)
    names = []
    for name, kind in HOOKS.items():
        if kind == event.kind and name in requested_hooks and name in allowed_hooks:
            names.append(name)
    return names


@contextmanager
def _open_session(folder: Path, name: str) -> Iterator[Session]:
    """Lend the state of a session, locked, and write it back at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _compute_mark(name)).open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        session: Session = {}
        with suppress(ValueError):  # it is new, or its writer was killed
            session = json.load(file)
        yield session
        file.seek(0)
        file.truncate()
        json.dump(session, file)


def _compute_mark(*texts: str) -> str:
    data = repr(texts).encode()
    return f"{zlib.crc32(data):08x}"
