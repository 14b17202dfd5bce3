"""Settings, and who may decide them. The package is the only reader of the environment.

A repository's `.filemem.toml` is data from a stranger: it may name the store folder inside the work tree and the commit
policy per type, nothing else. What could run code, reach outside or load a model is the user's to decide, in the
user's own configuration file, the environment or flags.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from filemem.errors import BadInput

REPOSITORY_FILE = ".filemem.toml"
POLICIES = ("commit", "leave")
DEFAULT_POLICY: Mapping[str, str] = MappingProxyType(dict.fromkeys(("decision", "checkpoint", "observation"), "commit"))
_BRANCH = r"(?!HEAD$|refs/)[^\W_][\w.+-]*(?:/[^\W_][\w.+-]*)*"
_LONGEST_STORE = 255  # bytes
MAX_FILE = 64 * 1024  # bytes; a settings file larger than this is not one


class Config(NamedTuple):
    """Every setting, with its default.

    Args:
        store: folder of records, relative to the work tree, with `/`; "." for the work tree itself. Repository or user.
        branch: the branch that holds the records where they have one of their own; the store is its work tree.
            Repository or user.
        policy: commit policy by record type: `commit` each save, or `leave` the file for the user to commit.
            Repository or user.
        model: folder or hub name of a model2vec embedding model; empty for the bundled one. User only.
        download: whether a hub name may be fetched from the network. User only.
        run_hooks: whether the repository's Git hooks run on our commits. User only.
        agent: name recorded for saves that do not say who makes them. User only.
        cache: where the index goes when the Git directory cannot be written; None for the user's cache. User only.
        token: what every request to `serve --http` must carry; required off loopback. User only.
    """

    store: str = "memory"
    branch: str = ""
    policy: Mapping[str, str] = DEFAULT_POLICY
    model: str = ""
    download: bool = False
    run_hooks: bool = False
    agent: str = ""
    cache: Path | None = None
    token: str = ""

    def __repr__(self) -> str:
        """All but the token, which no report may show."""
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True) if name != "token")
        return f"Config({', '.join(shown)})"

    @property
    def index_cache(self) -> Path:
        """The folder of `cache`, or the user's."""
        return self.cache or user_folder("cache", os.environ)


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


def own_store(work_tree: Path, shown: str = REPOSITORY_FILE) -> str:
    """The folder of records that the settings of a repository name, whatever the user's say; "" where they name none.

    Args:
        work_tree: top folder of its work tree.
        shown: the settings file as people see it, for messages.

    Raises:
        BadInput: as for `load`.
    """
    return _apply(Config(store=""), _read(work_tree / REPOSITORY_FILE, shown), shown, _SHARED).store


def own_branch(data: bytes) -> str:
    """The branch that a repository's settings file names for its records; "" where it names none, or cannot be read."""
    return _stated(data, "branch", branch_name)


def stated_store(data: bytes) -> str:
    """The folder of records that a repository's settings file names; "" where it names none, or cannot be read."""
    return _stated(data, "store", store_path)


def _stated(data: bytes, name: str, checked: Callable[[object], str]) -> str:
    if not data:
        return ""
    import tomllib  # noqa: PLC0415 - as in `_read`

    try:
        return checked(tomllib.loads(data.decode()).get(name))
    except (ValueError, RecursionError, BadInput):
        return ""


def store_path(text: object) -> str:
    """Check the name of a store folder.

    Raises:
        BadInput: it is not a plain relative path inside the work tree.
    """
    if not isinstance(text, str):
        raise BadInput(f"the store must be the name of a folder, not {text!r}", field="store")
    text = text.removesuffix("/").removeprefix("./")  # as a shell completes the name of a folder
    if text == ".":
        return text
    path = PurePosixPath(text)
    bad = {"", ".", ".."} & set(text.split("/")) or any(p.lower().startswith(".git") for p in path.parts)
    bad = bad or len(text.encode("utf-8", "surrogateescape")) > _LONGEST_STORE
    if bad or path.is_absolute() or "\\" in text or not text.isprintable():
        raise BadInput(
            f"the store must be a folder inside the work tree, not {str(text)!r}",
            'write it as a relative path with "/", for example memory or docs/memory',
            field="store",
        )
    return str(path)


def branch_name(text: object) -> str:
    """Check the name of a branch; `refs/heads/x` is the whole name of `x`.

    Raises:
        BadInput: Git would not take it, or a command line could mistake it for something else.
    """
    text = text.removeprefix("refs/heads/") if isinstance(text, str) else text
    if not isinstance(text, str) or not re.fullmatch(_BRANCH, text) or ".." in text or text.endswith((".", ".lock")):
        raise BadInput(f"no name of a branch: {str(text)[:80]!r}", "for example filemem", field="branch")
    return text


def _policy(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value.keys() <= DEFAULT_POLICY.keys():
        raise BadInput("commit takes a table with the keys decision, checkpoint and observation")
    stated = {key: "commit" if policy == "batch" else policy for key, policy in value.items()}  # an earlier word
    if wrong := [str(policy) for policy in stated.values() if policy not in POLICIES]:
        raise BadInput(f"commit policy is one of {', '.join(POLICIES)}, not {wrong[0]!r}")
    return MappingProxyType({**DEFAULT_POLICY, **stated})


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
            config = config._replace(**{key: reader(value)})  # type: ignore[arg-type]
        except BadInput as error:
            raise BadInput(f"{where}: {name}: {error.message}", error.hint, field=name) from None
    return config


def _read(path: Path, shown: str = "") -> Mapping[str, object]:
    name = shown or path.name
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise BadInput(f"{name} is larger than {MAX_FILE} bytes", "is it a settings file?")
        import tomllib  # noqa: PLC0415 - 5 ms for a file that most users do not have

        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise BadInput(f"{name} is not TOML: {error}", "correct it, or remove it: no setting is required") from None
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None
