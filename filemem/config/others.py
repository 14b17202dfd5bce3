"""What those who come from other systems have set, in the words of these: understood, or why it is not needed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from filemem.config import MAX_FILE
from filemem.errors import BadInput

_LONGEST_USER = 200
_UNDERSTOOD = ("MAMA_AUTH_TOKEN", "MAMA_SERVER_PORT", "POWERMEM_DIR", "SLACK_BOT_TOKEN")


class Web(NamedTuple):
    """What the environment says about serving HTTP, in the words of this program and of those that people come from.

    Args:
        token: MAMA_AUTH_TOKEN: what a request that writes must carry.
        port: MAMA_SERVER_PORT, or None.
        slack_token: SLACK_BOT_TOKEN, of a Slack app's bot.
        slack_url: FILEMEM_SLACK_URL, another address than Slack's own.
        unneeded: a sentence for each variable that is set and has no meaning here.
    """

    token: str = ""
    port: int | None = None
    slack_token: str = ""
    slack_url: str = ""
    unneeded: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Web(...)"  # it holds secrets


_FILES = "memories are files of the repository, in the store folder (--store)"
_MODEL = "the embedding model is part of filemem and runs in its process; no model server and no key is needed"
UNNEEDED: Mapping[str, str] = MappingProxyType(
    {
        "MAMA_DB_PATH": f"there is no database: {_FILES}",
        "MAMA_SERVER_TOKEN": "it is a token for development that guards nothing; MAMA_AUTH_TOKEN is understood",
        "MAMA_EMBEDDING_PORT": f"there is no embedding server: {_MODEL}",
        "MAMA_HTTP_PORT": "it names the port of an embedding server, and there is none; MAMA_SERVER_PORT is understood",
        "DATABASE_PROVIDER": f"there is no database: {_FILES}",
        "LLM_": "no language model is asked: what is saved is kept as it was given",
        "EMBEDDING_": _MODEL,
    }
)
"""Variables of other systems that are not needed here, and why; one that ends in `_` is the start of many."""


def web(environment: Mapping[str, str] | None = None) -> Web:
    """Read what the environment says about serving HTTP.

    Raises:
        BadInput: MAMA_SERVER_PORT is no port.
    """
    environment = os.environ if environment is None else environment
    port = environment.get("MAMA_SERVER_PORT", "")
    if port and not (port.isascii() and port.isdigit() and int(port[:9]) <= 65535):
        raise BadInput(f"MAMA_SERVER_PORT is no port: {port[:20]!r}", "a number up to 65535", field="port")
    return Web(
        environment.get("MAMA_AUTH_TOKEN", ""),
        int(port) if port else None,
        environment.get("SLACK_BOT_TOKEN", ""),
        environment.get("FILEMEM_SLACK_URL", ""),
        tuple(f"{name}: not needed, {why}" for name, why in _unneeded(environment)),
    )


def _unneeded(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, why in UNNEEDED.items():
        found = sorted(one for one in environment if one == name or (name.endswith("_") and one.startswith(name)))
        if found:
            yield ", ".join(found), why


def environment_file(path: Path) -> tuple[str, ...]:
    """Take the variables of a file that the user named, where the environment itself does not set them.

    Only those that mean something here are taken, so that the file of another program cannot change how this one runs.

    Returns:
        A sentence for each variable that is not needed.

    Raises:
        BadInput: it cannot be read.
    """
    from dotenv import dotenv_values  # noqa: PLC0415 - for who names such a file only

    try:
        with path.open(encoding="utf-8-sig") as file:
            found = dotenv_values(stream=file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}", "name a file of lines NAME=value", field="env") from None
    for name, value in found.items():
        if value is not None and (name.startswith("FILEMEM_") or name in _UNDERSTOOD):
            os.environ.setdefault(name, value)
    return tuple(f"{name}: not needed, {why}" for name, why in _unneeded({k: v or "" for k, v in found.items()}))


def powermem_file(path: Path) -> tuple[str, tuple[str, ...]]:
    """Read a settings file of powermem that the user named.

    Returns:
        The `user_id` that it states, or "", and its other keys, none of which is needed here.

    Raises:
        BadInput: it cannot be read, or is not such a file.
    """
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_FILE))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", "name powermem's settings file", field="config") from None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadInput(f"{path} is not a JSON object", "powermem's settings file is one", field="config")
    user = value.pop("user_id", None) or ""
    if not isinstance(user, str) or not user.isprintable() or len(user) > _LONGEST_USER:
        raise BadInput(f"{path}: user_id must be one line of text", field="config")
    return user, tuple(sorted(str(key) for key in value))


def powermem_user() -> tuple[str, str]:
    """The user that powermem's own settings file names, for those who come from it, and why the file is not used.

    Both are empty where there is no such file.
    """
    stated = os.environ.get("POWERMEM_DIR", "")
    path = (Path(stated) if stated else Path.home() / ".powermem") / "config.json"
    if not os.path.lexists(path):
        return "", ""
    try:
        return powermem_file(path)[0], ""
    except BadInput as error:
        return "", f"{error.message}; it is not used"
