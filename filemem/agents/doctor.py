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
from filemem.dialects.tool import counted
from filemem.errors import FilememError
from filemem.memory.store import Store
from filemem.repo.run import finish, start


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
_TRUSTED = re.compile('"(trusted|TRUST_FOLDER|TRUST_PARENT)"')
_TRUST_NOTES = {True: ", trusted", False: ", not trusted yet", None: ""}

Refusal = Callable[[tuple[str, ...]], str]


class Check(NamedTuple):
    """What was checked, its state, and what to do."""

    name: str
    state: str
    todo: str = ""


class _Entry(NamedTuple):
    """The server that a client's file starts."""

    path: str
    content: Any
    words: tuple[str, ...]


def checks(folder: Path, store: str | None) -> list[Check]:
    """Check Git, the memory and each coding agent of a project.

    Args:
        folder: a folder of the project.
        store: the folder of the records, where the settings do not name it.
    """
    top, rows = _memory(folder, store)
    connected = clients.chosen("auto", top)
    refusal = cache(_refusal)
    agents = (_agent(name, top, refusal, used=name in connected) for name in clients.CLIENTS)
    return rows + [check for check in agents if check]


def todo(rows: Iterable[Check]) -> list[str]:
    """What is left to do after checks, a sentence each."""
    return [*dict.fromkeys(check.todo for check in rows if check.todo)]


def _memory(folder: Path, name: str | None) -> tuple[Path, list[Check]]:
    """The work tree; Git, store, index, model and settings."""
    top = folder
    rows: list[Check] = []
    try:
        with closing(Store(folder, name)) as store:
            top = store.code.work_tree
            rows += _parts(store)
            store.repo.identity()
    except FilememError as error:
        rows.append(Check("memory", "not ready", error.one_line))
    return top, rows


def _parts(store: Store) -> Iterator[Check]:
    yield Check("git", store.repo.git.run("version").decode().strip())
    absent = "there is no memory yet: run `filemem init`, or save something"
    yield Check("store", store.name, absent if store.absent else "")
    yield Check("index", "built" if store.index.sound else "not built yet")
    model = store.index.model
    trouble = model.trouble if model else ""
    yield Check("model", model.name if model else "none", f"model: {trouble}" if trouble else "")
    for sentence in (store.config.unread, *store.config.unknown):
        if sentence:
            yield Check("settings", "passed over", sentence)
    if store.code.given_up:
        yield Check("recall", f"given up for {counted(store.code.given_up, 'prompt')}")


def _agent(name: str, top: Path, refusal: Refusal, *, used: bool) -> Check | None:
    """The state of a client in a work tree; None if it is neither installed nor connected."""
    client = clients.CLIENTS[name]
    installed = bool(shutil.which("code" if name == "vscode" else name))
    place = "installed" if installed else "not on the PATH"
    for candidate in (client, clients.OTHERS.get(name, client)):
        try:
            entry = _entry(candidate, top)
        except clients.WRONG as error:
            path = candidate.path
            todo = f"{client.title}: correct {path}: {error}"
            return Check(client.title, f"{place}, {path} cannot be read", todo)
        if entry:
            return _connected(name, top, entry, place, refusal)
    if not installed:
        return None
    todo = f"{client.title}: `filemem init --client {name}` connects it"
    return Check(client.title, "installed, not connected", todo if used else "")


def _entry(client: Client, top: Path) -> _Entry | None:
    content, words = clients.started(client, _read(top / client.path))
    return _Entry(client.path, content, tuple(words)) if content else None


def _connected(name: str, top: Path, entry: _Entry, place: str, refusal: Refusal) -> Check:
    """The state of a client whose file starts a server."""
    client = clients.CLIENTS[name]
    if not clients.USUAL.fullmatch(" ".join(entry.words)):
        content = json.dumps(entry.content)
        state = f"{place}, another entry in {entry.path}, which is not run: {content}"
        return Check(client.title, state)
    trusted = _trusted(name, top)
    todo = refusal(entry.words)
    if not todo and trusted is False and place == "installed":
        todo = f"{client.title}: {client.todo}"
    state = f"{place}, connected by {entry.path}{_TRUST_NOTES[trusted]}"
    return Check(client.title, state, todo)


def _refusal(words: tuple[str, ...]) -> str:
    """Why a server with this command fails, or ""; it runs in an empty folder."""
    program = shutil.which(words[0])
    if not program or not Path(program).is_absolute():
        return (
            f"no command {words[0]} on the PATH: install it, or start it otherwise by"
            " `filemem init --command`"
        )
    with TemporaryDirectory(prefix="filemem-") as folder:
        try:
            environment = {**os.environ, **dict.fromkeys(("TMPDIR", "XDG_DATA_HOME"), folder)}
            finish(start([program, *words[1:]], Path(folder), environment), program)
        except FilememError as error:
            return f"`{' '.join(words)}` does not start: {error.message.rpartition('failed: ')[2]}"
    return ""


def _trusted(name: str, top: Path) -> bool | None:
    """Whether the user's own files let this client start our server; None: they do not show it."""
    if name not in _TRUST_FILES:
        return None
    file = _TRUST_FILES[name]
    try:
        settings = _read(top / Path(file.path).expanduser())
        entries = settings.get(file.key, {}) if file.key else settings
        if name == "claude":
            return bool(settings.get("enableAllProjectMcpServers")) or "filemem" in entries
        return _is_folder_trusted(entries, top)
    except clients.WRONG:
        return None


def _is_folder_trusted(entries: Any, top: Path) -> bool:
    """Whether a list of folders, or a table of their states, trusts the nearest that it names."""
    folders = (str(folder) for folder in (top, *top.parents))
    nearest = next((folder for folder in folders if folder in entries), "")
    if not nearest or isinstance(entries, list):
        return bool(nearest)
    return bool(_TRUSTED.search(json.dumps(entries[nearest])))


def _read(path: Path) -> Mapping[str, Any]:
    """The content of a settings file; {} if there is none."""
    content: Mapping[str, Any] = {}
    if path.is_file():
        content = clients.parsed(path.name, path.read_text("utf-8-sig"))
    return content
