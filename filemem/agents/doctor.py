"""Check whether Git, the memory and each coding agent are ready, and say what to do if not.

Nothing is written. Of the commands in files of the project, only `filemem serve` as `init` writes
it is run.
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
    """A file in which a client notes the folders or servers that its user trusts."""

    path: str  # in the home or, without ~, in the project
    key: str = ""  # of the list of folders or servers; "" if the whole file is the list


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
    """The result of a check: its subject, the state, and what to do."""

    name: str
    state: str
    todo: str = ""


class _ServerEntry(NamedTuple):
    """The server in a client's file."""

    path: str
    content: Any
    command_words: tuple[str, ...]


def run_checks(folder: Path, store: str | None) -> list[Check]:
    """Check Git, the memory and each coding agent of a project.

    Args:
        folder: A folder of the project.
        store: The folder of the records; None for the one in the settings.
    """
    top, checks = _check_memory(folder, store)
    project_clients = clients.resolve_clients("auto", top)
    try_start = cache(_try_start)
    for name in clients.CLIENTS:
        check = _check_agent(name, top, try_start, is_used=name in project_clients)
        if check:
            checks.append(check)
    return checks


def list_todos(rows: Iterable[Check]) -> list[str]:
    """Return what is left to do after checks, a sentence each."""
    todos = [check.todo for check in rows if check.todo]
    return list(dict.fromkeys(todos))


def _check_memory(folder: Path, name: str | None) -> tuple[Path, list[Check]]:
    """Return the work tree, and the checks of Git, store, index, model and settings."""
    top = folder
    checks: list[Check] = []
    try:
        with closing(Store(folder, name)) as store:
            top = store.code.work_tree
            checks += _iter_store_checks(store)
            store.repo.require_identity()
    except FilememError as error:
        checks.append(Check("memory", "not ready", error.one_line))
    return top, checks


def _iter_store_checks(store: Store) -> Iterator[Check]:
    git_version = store.repo.git.run("version").decode().strip()
    yield Check("git", git_version)
    todo = ""
    if store.is_absent:
        todo = "there is no memory yet: run `filemem init`, or save something"
    yield Check("store", store.name, todo)
    yield Check("index", "built" if store.index.is_readable else "not built yet")
    yield _check_model(store)
    for sentence in (store.config.read_error, *store.config.unknown_settings):
        if sentence:
            yield Check("settings", "passed over", sentence)
    abandoned_count = store.code.abandoned_search_count
    if abandoned_count:
        prompts = format_count(abandoned_count, "prompt")
        yield Check("recall", f"given up for {prompts}")


def _check_model(store: Store) -> Check:
    model = store.index.model
    if model is None:
        return Check("model", "none")
    if model.trouble:
        return Check("model", model.name, f"model: {model.trouble}")
    return Check("model", model.name)


def _check_agent(name: str, top: Path, try_start: TryStart, *, is_used: bool) -> Check | None:
    """Return the state of a client in a work tree; None if it is not installed nor connected."""
    client = clients.CLIENTS[name]
    program = "code" if name == "vscode" else name
    is_installed = shutil.which(program) is not None
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
    todo = ""
    if is_used:
        todo = f"{client.title}: `filemem init --client {name}` connects it"
    return Check(client.title, "installed, not connected", todo)


def _read_entry(client: Client, top: Path) -> _ServerEntry | None:
    settings = _read_settings(top / client.path)
    server = clients.parse_server(client, settings)
    if not server.content:
        return None
    return _ServerEntry(client.path, server.content, tuple(server.command_words))


def _check_connection(
    name: str, top: Path, entry: _ServerEntry, install_state: str, try_start: TryStart
) -> Check:
    """Return the state of a client with a server in its file."""
    client = clients.CLIENTS[name]
    command = " ".join(entry.command_words)
    if not clients.USUAL_COMMAND.fullmatch(command):
        content = json.dumps(entry.content)
        state = f"{install_state}, another entry in {entry.path}, which is not run: {content}"
        return Check(client.title, state)
    is_trusted = _is_trusted(name, top)
    todo = try_start(entry.command_words)
    if not todo and is_trusted is False and install_state == "installed":
        todo = f"{client.title}: {client.todo}"
    trust_note = _TRUST_NOTES[is_trusted]
    state = f"{install_state}, connected by {entry.path}{trust_note}"
    return Check(client.title, state, todo)


def _try_start(command_words: tuple[str, ...]) -> str:
    """Start a server in an empty folder; return why it fails, or ""."""
    program = shutil.which(command_words[0])
    if not program or not Path(program).is_absolute():
        return (
            f"no command {command_words[0]} on the PATH: install it, or start it otherwise by"
            " `filemem init --command`"
        )
    words = [program, *command_words[1:]]
    with TemporaryDirectory(prefix="filemem-") as folder:
        environment = dict(os.environ, TMPDIR=folder, XDG_DATA_HOME=folder)
        try:
            process = start_process(words, Path(folder), environment)
            finish_process(process, program)
        except FilememError as error:
            reason = error.message.rpartition("failed: ")[2]
            return f"`{' '.join(command_words)}` does not start: {reason}"
    return ""


def _is_trusted(name: str, top: Path) -> bool | None:
    """Whether the user's own files let this client start our server; None if it is not known."""
    if name not in _TRUST_FILES:
        return None
    file = _TRUST_FILES[name]
    try:
        settings = _read_settings(top / Path(file.path).expanduser())
        entries = settings.get(file.key, {}) if file.key else settings
        if name == "claude":
            trusts_all = bool(settings.get("enableAllProjectMcpServers"))
            return trusts_all or "filemem" in entries
        return _is_folder_trusted(entries, top)
    except clients.READ_ERRORS:
        return None


def _is_folder_trusted(entries: Any, top: Path) -> bool:
    """Whether a list of trusted folders, or a table of their states, trusts this one.

    The entry of the nearest folder above counts.
    """
    for folder in (top, *top.parents):
        if str(folder) not in entries:
            continue
        if isinstance(entries, list):
            return True
        state = json.dumps(entries[str(folder)])
        return _TRUSTED_VALUE.search(state) is not None
    return False


def _read_settings(path: Path) -> Mapping[str, Any]:
    """Return the content of a settings file; {} if there is none."""
    if not path.is_file():
        return {}
    content: Mapping[str, Any] = clients.parse_settings(path.name, path.read_text("utf-8-sig"))
    return content
