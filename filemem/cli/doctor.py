"""`filemem doctor`: whether Git, the memory and each coding agent are ready, and the command for what is not.

Rule: it writes nothing, and runs nothing that a file of the project names but `filemem serve` as `init` writes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click

from filemem.cli import clients, show
from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Project, emit
from filemem.config import Config
from filemem.errors import FilememError

_TRUST = {  # a file in the home or, without ~, in the project; where it lists folders, or servers
    "claude": (".claude/settings.local.json", "enabledMcpjsonServers"),
    "codex": ("~/.codex/config.toml", "projects"),
    "gemini": ("~/.gemini/trustedFolders.json", ""),
    "copilot": ("~/.copilot/config.json", "trustedFolders"),
}
_YES = re.compile('"(trusted|TRUST_FOLDER|TRUST_PARENT)"')


class Check(NamedTuple):
    """What was checked, its state, and what to do."""

    name: str
    state: str
    todo: str = ""


@click.command()
@as_json
@pass_project
@click.pass_context
def doctor(context: click.Context, project: Project, /, as_json: bool) -> None:
    """Check Git, the memory and each coding agent, and show what to do. Writes nothing.

    For each agent: whether its program is on the PATH, whether its file starts filemem, and whether you trusted the
    folder or approved the server, if your own files show that. Only `filemem serve` is started, as a test; any other
    command is shown and not run.

    Exit status: 0 all is well, 1 there is something to do.

    \b
    Example:
      filemem doctor
    """
    checks = _checks(project)
    left = _left(checks)
    emit(
        {"success": True, "checks": [check._asdict() for check in checks], "todo": left},
        as_json,
        _shown,
    )
    context.exit(1 if left else 0)


def todo(project: Project) -> list[str]:
    """What `filemem doctor` would have done, a sentence each."""
    return _left(_checks(project))


def _left(checks: Iterable[Check]) -> list[str]:
    return [*dict.fromkeys(check.todo for check in checks if check.todo)]


def _checks(project: Project) -> list[Check]:
    top, checks = _memory(project)
    used = clients.chosen("auto", top)
    refusal = cache(_refusal)
    agents = (_agent(name, top, refusal, used=name in used) for name in clients.CLIENTS)
    return checks + [check for check in agents if check]


def _memory(project: Project) -> tuple[Path, list[Check]]:
    """The work tree; Git, store, index and model."""
    from filemem.memory.store import Store

    top, checks = project.here, list[Check]()
    try:
        with closing(Store(project.folder, project.store)) as store:
            top, model, git = store.code.work_tree, store.index.model, store.repo.git.run("version")
            absent = (
                "there is no memory yet: run `filemem init`, or save something"
                if store.absent
                else ""
            )
            trouble = f"model: {model.trouble}" if model and model.trouble else ""
            checks += [Check("git", git.decode().strip()), Check("store", store.name, absent)]
            checks += [Check("index", "built" if store.index.sound else "not built yet")]
            checks += [Check("model", model.name if model else "none", trouble)]
            checks += _settings(store.config)
            if lost := store.code.given_up:
                checks.append(Check("recall", f"given up for {show.counted(lost, 'prompt')}"))
            store.repo.identity()
    except FilememError as error:
        checks.append(Check("memory", "not ready", error.told))
    return top, checks


def _settings(config: Config) -> list[Check]:
    """The settings that are passed over."""
    sentences = filter(None, (config.unread, *config.unknown))
    return [Check("settings", "passed over", sentence) for sentence in sentences]


def _agent(
    name: str, top: Path, refusal: Callable[[tuple[str, ...]], str], *, used: bool
) -> Check | None:
    """The state of a client in a work tree; None if it is neither installed nor connected."""
    client, installed = (
        clients.CLIENTS[name],
        bool(shutil.which("code" if name == "vscode" else name)),
    )
    there, title, todo = "installed" if installed else "not on the PATH", client.title, ""
    for one in (client, clients.OTHERS.get(name, client)):
        try:
            entry, words = clients.started(one, _read(top / one.path))
        except clients.WRONG as error:
            return Check(
                title,
                f"{there}, {one.path} cannot be read",
                f"{title}: correct {one.path}: {error}",
            )
        if entry:
            break
    else:
        todo = f"{title}: `filemem init --client {name}` connects it" if used else ""
        return Check(title, "installed, not connected", todo) if installed else None
    if not clients.USUAL.fullmatch(" ".join(words)):
        return Check(
            title, f"{there}, another entry in {one.path}, which is not run: {json.dumps(entry)}"
        )
    trusted = _trusted(name, top)
    told = {True: ", trusted", False: ", not trusted yet", None: ""}[trusted]
    asked = f"{title}: {client.todo}" if installed and trusted is False else ""
    return Check(title, f"{there}, connected by {one.path}{told}", refusal(tuple(words)) or asked)


def _refusal(words: tuple[str, ...]) -> str:
    """Why a server with this command fails, or "". It runs in an empty folder and leaves nothing behind."""
    from filemem.repo.run import finish, start

    program = shutil.which(words[0])
    if not program or not Path(program).is_absolute():
        return f"no command {words[0]} on the PATH: install it, or start it otherwise by `filemem init --command`"
    with TemporaryDirectory(prefix="filemem-") as folder:
        try:
            environment = {**os.environ, **dict.fromkeys(("TMPDIR", "XDG_DATA_HOME"), folder)}
            finish(start([program, *words[1:]], Path(folder), environment), program)
        except FilememError as error:
            return f"`{' '.join(words)}` does not start: {error.message.rpartition('failed: ')[2]}"
    return ""


def _trusted(name: str, top: Path) -> bool | None:
    """Whether the user's own files let this client start our server here; None if they do not show it."""
    if name not in _TRUST:
        return None
    file, key = _TRUST[name]
    try:
        whole = _read(top / Path(file).expanduser())
        listed = whole.get(key, {}) if key else whole
        if name == "claude":
            return bool(whole.get("enableAllProjectMcpServers")) or "filemem" in listed
        nearest = next((str(one) for one in (top, *top.parents) if str(one) in listed), "")
        return bool(nearest) and (
            isinstance(listed, list) or bool(_YES.search(json.dumps(listed[nearest])))
        )
    except clients.WRONG:
        return None


def _read(path: Path) -> Any:
    """The content of a settings file; {} if there is none."""
    return clients.parsed(path.name, path.read_text("utf-8-sig")) if path.is_file() else {}


def _shown(answer: Mapping[str, Any]) -> str:
    """The result in words."""
    said = [f"{one['name']}: {one['state']}" for one in answer["checks"]]
    return show.rows_of(
        *said, *(show.styled(f"to do: {one}", "yellow") for one in answer["todo"] or ["nothing"])
    )
