"""Whether Git, the memory and each coding agent are ready, and what to do where they are not.

Rule: it writes nothing, and of what a file of the project names it runs only `filemem serve` as
`init` writes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from filemem.agents import clients
from filemem.agents.clients import Client
from filemem.dialects.tool import format_count
from filemem.errors import FilememError
from filemem.memory.store import Store
from filemem.repo.run import finish_process, start_process


class TrustFile(NamedTuple):
    """Where a client notes which folders or servers its user trusts."""

    path: str  # in the home or, without ~, in the project
    key: str = ""  # of the list of folders or servers; the whole file is the list without it


_TRUST_FILES = {
    "claude": TrustFile(".claude/settings.local.json", "enabledMcpjsonServers"),
    "codex": TrustFile("~/.codex/config.toml", "projects"),
    "gemini": TrustFile("~/.gemini/trustedFolders.json"),
    "copilot": TrustFile("~/.copilot/config.json", "trustedFolders"),
}
_TRUSTED_VALUE = re.compile('"(trusted|TRUST_FOLDER|TRUST_PARENT)"')
_TRUST_NOTES = {True: ", trusted", False: ", not trusted yet", None: ""}

TryStart = Callable[[tuple[str, ...]], str]


class Check(NamedTuple):
    """What was checked, its state, and what to do."""

    name: str
    state: str
    todo: str = ""


class _ServerEntry(NamedTuple):
    """The server that a client's file starts."""

    path: str
    content: Any
    command_words: tuple[str, ...]


def run_checks(folder: Path, store: str | None) -> list[Check]:
    """Check Git, the memory and each coding agent of a project.

    Args:
        folder: a folder of the project.
        store: the folder of the records, where the settings do not name it.
    """
    top, rows = _check_memory(folder, store)
    project_clients = clients.resolve_clients("auto", top)
    try_start = cache(_try_start)
    agents = (
        _check_agent(name, top, try_start, is_used=name in project_clients)
        for name in clients.CLIENTS
    )
    return rows + [check for check in agents if check]


def list_todos(rows: Iterable[Check]) -> list[str]:
    """What is left to do after checks, a sentence each."""
    return [*dict.fromkeys(check.todo for check in rows if check.todo)]


def _check_memory(folder: Path, name: str | None) -> tuple[Path, list[Check]]:
    """The work tree; Git, store, index, model and settings."""
    top = folder
    rows: list[Check] = []
    try:
        with closing(Store(folder, name)) as store:
            top = store.code.work_tree
            rows += _iter_store_checks(store)
            store.repo.require_identity()
    except FilememError as error:
        rows.append(Check("memory", "not ready", error.one_line))
    return top, rows


def _iter_store_checks(store: Store) -> Iterator[Check]:
    yield Check("git", store.repo.git.run("version").decode().strip())
    absence_note = "there is no memory yet: run `filemem init`, or save something"
    yield Check("store", store.name, absence_note if store.is_absent else "")
    yield Check("index", "built" if store.index.is_readable else "not built yet")
    model = store.index.model
    trouble = model.trouble if model else ""
    yield Check("model", model.name if model else "none", f"model: {trouble}" if trouble else "")
    for sentence in (store.config.read_error, *store.config.unknown_settings):
        if sentence:
            yield Check("settings", "passed over", sentence)
    if store.code.abandoned_search_count:
        yield Check(
            "recall", f"given up for {format_count(store.code.abandoned_search_count, 'prompt')}"
        )


def _check_agent(name: str, top: Path, try_start: TryStart, *, is_used: bool) -> Check | None:
    """The state of a client in a work tree; None if it is neither installed nor connected."""
    client = clients.CLIENTS[name]
    is_installed = bool(shutil.which("code" if name == "vscode" else name))
    install_state = "installed" if is_installed else "not on the PATH"
    for candidate in (client, clients.ALTERNATIVE_CLIENTS.get(name, client)):
        try:
            entry = _read_entry(candidate, top)
        except clients.READ_ERRORS as error:
            path = candidate.path
            todo = f"{client.title}: correct {path}: {error}"
            return Check(client.title, f"{install_state}, {path} cannot be read", todo)
        if entry:
            return _check_connection(name, top, entry, install_state, try_start)
    if not is_installed:
        return None
    todo = f"{client.title}: `filemem init --client {name}` connects it"
    return Check(client.title, "installed, not connected", todo if is_used else "")


def _read_entry(client: Client, top: Path) -> _ServerEntry | None:
    content, command_words = clients.parse_server(client, _read_settings(top / client.path))
    return _ServerEntry(client.path, content, tuple(command_words)) if content else None


def _check_connection(
    name: str, top: Path, entry: _ServerEntry, install_state: str, try_start: TryStart
) -> Check:
    """The state of a client whose file starts a server."""
    client = clients.CLIENTS[name]
    if not clients.USUAL_COMMAND.fullmatch(" ".join(entry.command_words)):
        content = json.dumps(entry.content)
        state = f"{install_state}, another entry in {entry.path}, which is not run: {content}"
        return Check(client.title, state)
    is_trusted = _is_trusted(name, top)
    todo = try_start(entry.command_words)
    if not todo and is_trusted is False and install_state == "installed":
        todo = f"{client.title}: {client.todo}"
    state = f"{install_state}, connected by {entry.path}{_TRUST_NOTES[is_trusted]}"
    return Check(client.title, state, todo)


def _try_start(command_words: tuple[str, ...]) -> str:
    """Why a server with this command fails, or ""; it runs in an empty folder."""
    program = shutil.which(command_words[0])
    if not program or not Path(program).is_absolute():
        return (
            f"no command {command_words[0]} on the PATH: install it, or start it otherwise by"
            " `filemem init --command`"
        )
    with TemporaryDirectory(prefix="filemem-") as folder:
        try:
            environment = {**os.environ, **dict.fromkeys(("TMPDIR", "XDG_DATA_HOME"), folder)}
            finish_process(
                start_process([program, *command_words[1:]], Path(folder), environment), program
            )
        except FilememError as error:
            return f"`{' '.join(command_words)}` does not start: {error.message.rpartition('failed: ')[2]}"
    return ""


def _is_trusted(name: str, top: Path) -> bool | None:
    """Whether the user's own files let this client start our server; None: they do not show it."""
    if name not in _TRUST_FILES:
        return None
    file = _TRUST_FILES[name]
    try:
        settings = _read_settings(top / Path(file.path).expanduser())
        entries = settings.get(file.key, {}) if file.key else settings
        if name == "claude":
            return bool(settings.get("enableAllProjectMcpServers")) or "filemem" in entries
        return _is_folder_trusted(entries, top)
    except clients.READ_ERRORS:
        return None


def _is_folder_trusted(entries: Any, top: Path) -> bool:
    """Whether a list of folders, or a table of their states, trusts the nearest that it names."""
    folders = (str(folder) for folder in (top, *top.parents))
    nearest = next((folder for folder in folders if folder in entries), "")
    if not nearest or isinstance(entries, list):
        return bool(nearest)
    return bool(_TRUSTED_VALUE.search(json.dumps(entries[nearest])))


def _read_settings(path: Path) -> Mapping[str, Any]:
    """The content of a settings file; {} if there is none."""
    content: Mapping[str, Any] = {}
    if path.is_file():
        content = clients.parse_settings(path.name, path.read_text("utf-8-sig"))
    return content
