"""Settings, and who may decide them. The only reader of the environment.

A repository's `.filemem.toml` is data from a stranger: it may name the store folder inside the work tree and the commit
policy per type, nothing else. What could run code, reach outside or load a model is the user's to decide, in the
user's own configuration file, the environment or flags.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from filemem.errors import BadInput

REPOSITORY_FILE = ".filemem.toml"
POLICIES = ("commit", "batch", "leave")
DEFAULT_POLICY: Mapping[str, str] = MappingProxyType(
    {"decision": "commit", "checkpoint": "commit", "observation": "batch"}
)
_BRANCH = re.compile(r"[^\W_][\w.+-]*(?:/[^\W_][\w.+-]*)*")
_LONGEST_USER = 200
_UNDERSTOOD = ("MAMA_AUTH_TOKEN", "MAMA_SERVER_PORT", "POWERMEM_DIR", "SLACK_BOT_TOKEN")
MAX_FILE = 64 * 1024  # bytes; a settings file larger than this is not one


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, with its default.

    Args:
        store: folder of records, relative to the work tree, with `/`; "." for the work tree itself. Repository or user.
        branch: the branch that holds the records where they have one of their own; the store is its work tree.
            Repository or user.
        policy: commit policy by record type: `commit` each save, `batch` saves close together, `leave` the file
            for the user to commit. Repository or user.
        model: folder or hub name of a model2vec embedding model; empty for the bundled one. User only.
        download: whether a hub name may be fetched from the network. User only.
        run_hooks: whether the repository's Git hooks run on our commits. User only.
        agent: name recorded for saves that do not say who makes them. User only.
        cache: where the index goes when the Git directory cannot be written. User only.
        token: what every request to `serve --http` must carry; required off loopback. User only.
    """

    store: str = "memory"
    branch: str = ""
    policy: Mapping[str, str] = field(default_factory=lambda: DEFAULT_POLICY)
    model: str = ""
    download: bool = False
    run_hooks: bool = False
    agent: str = ""
    cache: Path = field(default_factory=lambda: user_folder("cache", os.environ))
    token: str = field(default="", repr=False)


def load(work_tree: Path, environment: Mapping[str, str] | None = None, user_file: Path | None = None) -> Config:
    """Read the settings for a work tree: defaults, then the repository, then the user, then the environment.

    Args:
        work_tree: top folder of the work tree.
        environment: variables to read instead of the process's own.
        user_file: the user's settings file instead of the one in the user's configuration folder.

    Raises:
        BadInput: a settings file that is not TOML, or a value that its key does not take; names the file.
    """
    environment = os.environ if environment is None else environment
    user_file = user_file or user_folder("config", environment) / "config.toml"
    repository_file = work_tree / REPOSITORY_FILE
    config = _apply(Config(), _read(repository_file), REPOSITORY_FILE, _SHARED)
    config = _apply(config, _read(user_file), str(user_file), {**_SHARED, **_USER})
    variables = {
        key: environment[name] for key in (*_SHARED, *_USER) if (name := f"FILEMEM_{key.upper()}") in environment
    }
    return _apply(config, variables, "the environment (FILEMEM_...)", {**_SHARED, **_USER})


def user_folder(kind: str, environment: Mapping[str, str]) -> Path:
    """The user's folder for our files of a kind, `config` or `cache`.

    Where the XDG rule holds we follow it ourselves (a test compares): platformdirs costs half as much as a search.
    """
    if os.name == "nt" or sys.platform == "darwin":
        import platformdirs  # noqa: PLC0415

        return Path({"config": platformdirs.user_config_dir, "cache": platformdirs.user_cache_dir}[kind]("filemem"))
    stated = Path(environment.get(f"XDG_{kind.upper()}_HOME", ""))
    return (stated if stated.is_absolute() else Path.home() / f".{kind}") / "filemem"


def own_store(work_tree: Path, unstated: str = Config().store) -> str:
    """The folder of records that the settings of a repository name, whatever the user's say.

    Args:
        work_tree: top folder of its work tree.
        unstated: what it is where they name none.

    Raises:
        BadInput: as for `load`.
    """
    return _apply(Config(store=unstated), _read(work_tree / REPOSITORY_FILE), REPOSITORY_FILE, _SHARED).store


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


def own_branch(data: bytes) -> str:
    """The branch that a repository's settings file names for its records; "" where it names none, or cannot be read."""
    import tomllib  # noqa: PLC0415 - as in `_read`

    try:
        return branch_name(tomllib.loads(data.decode()).get("branch"))
    except (ValueError, RecursionError, BadInput):
        return ""


def stated_store(data: bytes) -> str:
    """The folder of records that a repository's settings file names; "" where it names none, or cannot be read."""
    import tomllib  # noqa: PLC0415 - as in `_read`

    try:
        return store_path(tomllib.loads(data.decode()).get("store"))
    except (ValueError, RecursionError, BadInput):
        return ""


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


def store_path(text: object) -> str:
    """Check the name of a store folder.

    Raises:
        BadInput: it is not a plain relative path inside the work tree.
    """
    if not isinstance(text, str):
        raise BadInput(f"the store must be the name of a folder, not {text!r}", field="store")
    if text == ".":
        return text
    path = PurePosixPath(text)
    bad = {"", ".", ".."} & set(text.split("/")) or any(p.lower().startswith(".git") for p in path.parts)
    if bad or path.is_absolute() or "\\" in text or not text.isprintable():
        raise BadInput(
            f"the store must be a folder inside the work tree, not {str(text)!r}",
            'write it as a relative path with "/", for example memory or docs/memory',
            field="store",
        )
    return str(path)


def branch_name(text: object) -> str:
    """Check the name of a branch.

    Raises:
        BadInput: Git would not take it, or a command line could mistake it for something else.
    """
    if not isinstance(text, str) or not _BRANCH.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise BadInput(f"no name of a branch: {str(text)[:80]!r}", "for example filemem", field="branch")
    return text


def _policy(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value.keys() <= DEFAULT_POLICY.keys():
        raise BadInput("commit takes a table with the keys decision, checkpoint and observation")
    if wrong := [str(v) for v in value.values() if v not in POLICIES]:
        raise BadInput(f"commit policy is one of {', '.join(POLICIES)}, not {wrong[0]!r}")
    return MappingProxyType({**DEFAULT_POLICY, **value})


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise BadInput(f"takes one line of text, not {value!r}")
    return value


def _flag(value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise BadInput(f"is true or false, not {value!r}")
    return words[str(value).lower()]


_Readers = Mapping[str, Callable[[object], object]]
_SHARED: _Readers = {"store": store_path, "branch": branch_name, "policy": _policy}
_USER: _Readers = {
    "model": _text,
    "download": _flag,
    "run_hooks": _flag,
    "agent": _text,
    "cache": lambda value: Path(_text(value)).expanduser(),
    "token": _text,
}
_SPELLING = {"commit": "policy"}  # in files the table is written [commit]


def _named(allowed: _Readers) -> str:
    written = {key: name for name, key in _SPELLING.items()}
    return ", ".join(f"[{written[key]}]" if key in written else key for key in allowed)


def _apply(config: Config, values: Mapping[str, object], where: str, allowed: _Readers) -> Config:
    for name, value in values.items():
        key = _SPELLING.get(name, name)
        reader = allowed.get(key)
        if reader is None:
            user_only = " (only the user's own configuration may set it)" if key in _USER else ""
            raise BadInput(f"{where}: unknown setting {name!r}{user_only}", f"known here: {_named(allowed)}")
        try:
            config = replace(config, **{key: reader(value)})  # type: ignore[arg-type]
        except BadInput as error:
            raise BadInput(f"{where}: {name}: {error.message}", error.hint, field=name) from None
    return config


def _read(path: Path) -> Mapping[str, object]:
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise BadInput(f"{path.name} is larger than {MAX_FILE} bytes", "is it a settings file?")
        import tomllib  # noqa: PLC0415 - 5 ms for a file that most users do not have

        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise BadInput(
            f"{path.name} is not TOML: {error}", "correct it, or remove it: no setting is required"
        ) from None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None
