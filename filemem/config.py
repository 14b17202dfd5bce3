"""Settings, and who may set them. This module is the only reader of the environment.

A repository's `.filemem.toml` is data from a stranger: it may name the store folder inside the work
tree, a branch for the records, the commit policy per type and its words for a status, nothing else.
Only the user, in their own configuration file, the environment or flags, may decide what runs code,
reaches outside or loads a model.

Reading is lenient: a setting that a file has and this version does not know is passed over
(`Config.unknown`), and so is a file that is not TOML (`Config.unread`). A known setting with a
wrong value stops everything: it may say where the records are.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from filemem.errors import BadInput

REPOSITORY_FILE = ".filemem.toml"
POLICIES = ("commit", "leave")
DEFAULT_POLICY: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("decision", "checkpoint", "observation"), "commit")
)
STATUSES = ("proposed", "accepted", "rejected", "deprecated")
HOOKS = ("start", "prompt-first", "prompt", "edits", "failures", "capture", "remind")
_MAX_NAME_LENGTH = 200  # characters of the name of a user
_MAX_ENV_SIZE = 65_536  # bytes of a .env file
HITS = 10  # of an answer, if the caller does not say how many
_MAX_REPORTED = 10  # unknown settings that are named
_BRANCH_PATTERN = r"(?!HEAD$|refs/)[^\W_][\w.+-]*(?:/[^\W_][\w.+-]*)*"


class Config(NamedTuple):
    """Every setting, with its default.

    A repository may set the first four and `allowed`, the user all but that.
    """

    # Folder of records, relative to the work tree, with `/`; "." for the work tree itself.
    store: str = "memory"
    branch: str = ""  # that holds the records if they have their own; the store is its work tree
    # By record type: `commit` each save, or `leave` the file to the user.
    policy: Mapping[str, str] = DEFAULT_POLICY
    status: Mapping[str, str] = MappingProxyType({})  # a word of the team's for a status, and ours
    model: str = ""  # folder of a model2vec embedding model; empty for the bundled one
    agent: str = ""  # name recorded for saves that do not say who makes them
    department: str = ""  # whose records the user sees besides those for everybody
    # Where the index goes if the Git directory cannot be written; None: the user's cache.
    cache: Path | None = None
    token: str = ""  # what every request over HTTP must carry; required off loopback
    org_url: str = ""  # the service of an organisation that the user asks
    org_token: str = ""  # which says there who asks
    org_dsn: str = ""  # how the database of an organisation's index is reached
    org_read_dsn: str = ""  # a replica of it, for questions
    org_oidc_issuer: str = ""  # an OpenID Connect provider, by which people ask
    org_oidc_audience: str = ""  # what it calls the service
    org_oidc_name: str = ""  # the claim that names a person
    org_oidc_groups: str = ""  # the claim that names their groups
    org_hook_secret: str = ""  # what Git hosts sign their reports of pushes with
    # Events and budget that the user adds to what agents' files call.
    hooks: Mapping[str, Any] = MappingProxyType({})
    allowed_hooks: Mapping[str, Any] = MappingProxyType({})  # what the repository allows of that
    unknown_settings: tuple[str, ...] = ()  # sentences that name settings that were passed over
    # Why the settings in a file do not count, or "": reads go on, writes are refused.
    read_error: str = ""

    @property
    def index_cache(self) -> Path:
        """The folder of `cache`, or the user's."""
        return self.cache or get_user_folder("cache", os.environ)

    def refuse_unread(self) -> None:
        """Refuse to write or serve while a settings file does not count. Raises BadInput."""
        if self.read_error:
            raise BadInput(self.read_error)


class WebSettings(NamedTuple):
    """The settings of the HTTP server in the environment."""

    token: str = ""  # MAMA_AUTH_TOKEN: what every request must carry, where `token` is not set
    port: int | None = None  # MAMA_SERVER_PORT
    slack_token: str = ""  # SLACK_BOT_TOKEN, of a Slack app's bot
    slack_url: str = ""  # FILEMEM_SLACK_URL, another address than Slack's own
    unneeded_note: str = ""  # a sentence that names variables of other systems with no meaning here


def load(work_tree: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read the settings for a work tree: defaults, the repository's, the user's, the environment's.

    Raises BadInput: a known setting with a wrong value.
    """
    environment = os.environ if environment is None else environment
    user_file = get_user_folder("config", environment) / "config.toml"
    all_validators = {**_SHARED_SETTINGS, **_USER_SETTINGS}
    config = _apply_file(Config(), work_tree / REPOSITORY_FILE, REPOSITORY_FILE, _SHARED_SETTINGS)
    config = config._replace(hooks=Config().hooks, allowed_hooks=config.hooks)
    config = _apply_file(config, user_file, str(user_file), all_validators)
    variables = {
        key: environment[name]
        for key in all_validators
        if (name := f"FILEMEM_{key.upper()}") in environment
    }
    return _apply_values(config, variables, "the environment (FILEMEM_...)", all_validators)


def get_user_folder(kind: str, environment: Mapping[str, str]) -> Path:
    """The user's `config`, `cache` or `data` folder for filemem, by XDG rules on every system."""
    stated_folder = Path(environment.get(f"XDG_{kind.upper()}_HOME", ""))
    default_folder = ".local/share" if kind == "data" else f".{kind}"
    return (
        stated_folder if stated_folder.is_absolute() else Path.home() / default_folder
    ) / "filemem"


def has_display() -> bool:
    """Whether a browser can open a window for the user."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def get_personal_folder() -> Path:
    """Where the user's personal memory is, or will be."""
    return get_user_folder("data", os.environ) / "personal"


def read_workspace() -> tuple[Path, ...]:
    """The repositories that the user registered to be asked together.

    No repository's own settings name another one.
    """
    try:
        data = (get_user_folder("config", os.environ) / "workspace").read_bytes()
    except OSError:
        return ()
    return tuple(Path(line) for line in os.fsdecode(data).split("\n") if line.startswith("/"))


def write_workspace(folders: Iterable[Path]) -> None:
    """Let these be the registered repositories: the file `workspace` has one a line."""
    file = get_user_folder("config", os.environ) / "workspace"
    file.parent.mkdir(parents=True, exist_ok=True)
    new_file = file.with_name(f"workspace.{os.getpid()}.tmp")
    new_file.write_bytes(b"".join(os.fsencode(folder) + b"\n" for folder in sorted(set(folders))))
    new_file.replace(file)


def read_repository_store(work_tree: Path) -> str:
    """The folder of records in a repository's settings, not the user's; "" if they name none."""
    values = _read_table(work_tree / REPOSITORY_FILE)
    return _apply_values(Config(store=""), values, REPOSITORY_FILE, _SHARED_SETTINGS).store


def parse_repository_settings(data: bytes) -> Config:
    """The store, branch and words for a status in a repository's settings.

    What is invalid counts as not stated.
    """
    config = Config(store="")
    with suppress(BadInput):
        values = _parse_toml(data, REPOSITORY_FILE)
        for key in ("store", "branch", "status"):
            with suppress(BadInput):
                setting = {key: values[key]} if key in values else {}
                config = _apply_values(config, setting, "", _SHARED_SETTINGS)
    return config


# -- what a value may be


def validate_store_path(text: object) -> str:
    """Check the name of a store folder: a plain relative path inside the work tree.

    Raises BadInput: it is not.
    """
    if not isinstance(text, str):
        raise BadInput(f"the store must be the name of a folder, not {text!r}", field="store")
    text = text.removesuffix("/").removeprefix("./")  # as a shell completes the name of a folder
    if text == ".":
        return text
    path = PurePosixPath(text)
    is_git_path = any(part.lower().startswith(".git") for part in path.parts)
    dotted_parts = {"", ".", ".."} & set(text.split("/"))
    is_long = (
        len(text.encode("utf-8", "surrogateescape")) > 200
    )  # it names a folder of the index too
    is_plain = "\\" not in text and text.isprintable() and not path.is_absolute()
    if is_git_path or dotted_parts or is_long or not is_plain:
        raise BadInput(
            f"the store must be a folder inside the work tree, not {str(text)!r}",
            'write it as a relative path with "/", for example memory or docs/memory',
            field="store",
        )
    return str(path)


def validate_branch_name(text: object) -> str:
    """Check the name of a branch: valid for Git, and never mistaken for an option.

    `refs/heads/x` is `x`. Raises BadInput.
    """
    name = text.removeprefix("refs/heads/") if isinstance(text, str) else str(text)
    is_valid = isinstance(text, str) and re.fullmatch(_BRANCH_PATTERN, name)
    if not is_valid or ".." in name or name.endswith((".", ".lock")):
        raise BadInput(f"not a branch name: {name[:80]!r}", "for example filemem", field="branch")
    return name


def _validate_policy(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value.keys() <= DEFAULT_POLICY.keys():
        raise BadInput("commit takes a table with the keys decision, checkpoint and observation")
    if wrong_policies := [str(policy) for policy in value.values() if policy not in POLICIES]:
        raise BadInput(
            f"commit policy must be one of {', '.join(POLICIES)}, not {wrong_policies[0]!r}"
        )
    return MappingProxyType({**DEFAULT_POLICY, **value})


def _validate_statuses(value: object) -> Mapping[str, str]:
    pairs = value.items() if isinstance(value, Mapping) else [("", "")]
    words = {word: str(status).casefold() for word, status in pairs}
    if not set(words.values()) <= set(STATUSES):
        raise BadInput(f"takes words of your own, each with one of {', '.join(STATUSES)}")
    return MappingProxyType(words)


def _validate_hooks(value: object) -> Mapping[str, Any]:
    table = value if isinstance(value, Mapping) else {"": value}
    events = table.get("events", [])
    budget = table.get("budget", 100)
    is_valid = (
        table.keys() <= {"events", "budget"}
        and isinstance(events, list)
        and all(event in HOOKS for event in events)
        and isinstance(budget, int)
        and 100 <= budget <= 2_000
    )
    if not is_valid:
        raise BadInput(
            f"takes events, a list of any of {', '.join(HOOKS)}, and budget, 100 to 2000 tokens"
        )
    return MappingProxyType(table)


def _validate_service(value: object) -> str:
    """The address of a service: what is asked, and the token, must not be read on the way."""
    address = _validate_text(value).rstrip("/")
    if address and not re.fullmatch(
        r"https://[^/@?#\s]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", address
    ):
        raise BadInput(
            "must begin with https:// and name a host, or with http:// and name this machine"
        )
    return address


def _validate_issuer(value: object) -> str:
    """The address of an identity provider, as its tokens state it."""
    address = _validate_text(value)
    _validate_service("/".join(address.split("/")[:3]))
    return address


def _validate_text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise BadInput(f"must be one line of text, not {value!r}")
    return value


_Validators = Mapping[str, Callable[[object], object]]
_SHARED_SETTINGS: _Validators = {
    "store": validate_store_path,
    "branch": validate_branch_name,
    "policy": _validate_policy,
    "status": _validate_statuses,
    "hooks": _validate_hooks,
}
_USER_SETTINGS: _Validators = {
    "model": _validate_text,
    "agent": _validate_text,
    "department": _validate_text,
    "cache": lambda value: Path(_validate_text(value)).expanduser(),
    "token": _validate_text,
    "org_url": _validate_service,
    "org_token": _validate_text,
    "org_dsn": _validate_text,
    "org_read_dsn": _validate_text,
    "org_hook_secret": _validate_text,
    "org_oidc_issuer": _validate_issuer,
    "org_oidc_audience": _validate_text,
    "org_oidc_name": _validate_text,
    "org_oidc_groups": _validate_text,
}


def _apply_file(config: Config, path: Path, name: str, validators: _Validators) -> Config:
    try:
        values = _read_table(path, name)
    except BadInput as error:
        return config._replace(
            read_error="; ".join(filter(None, (config.read_error, error.one_line)))
        )
    return _apply_values(config, values, name, validators)


def _apply_values(
    config: Config, values: Mapping[str, object], source: str, validators: _Validators
) -> Config:
    for name, value in values.items():
        key = "policy" if name == "commit" else name  # in files the table is written [commit]
        if key not in validators:
            sentence = _format_unknown(name, source, validators)
            config = config._replace(
                unknown_settings=(*config.unknown_settings, sentence)[:_MAX_REPORTED]
            )
            continue
        try:
            config = config._replace(**{key: validators[key](value)})  # type: ignore[arg-type]
        except BadInput as error:
            raise BadInput(f"{source}: {name}: {error.message}", error.hint, field=name) from None
    return config


def _format_unknown(name: str, source: str, validators: _Validators) -> str:
    """The sentence that names a setting which is passed over."""
    user_only = " (only the user's own configuration may set it)" if name in _USER_SETTINGS else ""
    tables = {"policy": "[commit]", "status": "[status]", "hooks": "[hooks]"}
    names = ", ".join(tables.get(key, key) for key in validators)
    return f"{source}: unknown setting {name[:_MAX_NAME_LENGTH]!r}{user_only}, passed over; known here: {names}"


def _read_table(path: Path, name: str = REPOSITORY_FILE) -> Mapping[str, object]:
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        return _parse_toml(path.read_bytes(), name)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None


def _parse_toml(data: bytes, name: str) -> Mapping[str, object]:
    import tomllib  # noqa: PLC0415 - 5 ms for a file that most users do not have

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        hint = "correct it, or remove it: no setting is required"
        raise BadInput(f"{name} is not TOML: {error}", hint) from None


# -- what users of other systems have set

# How variables of other systems begin that are not needed here: docs/http.md says why.
_MAMA_VARIABLES = ("MAMA_DB_PATH", "MAMA_SERVER_TOKEN", "MAMA_EMBEDDING_PORT", "MAMA_HTTP_PORT")
UNNEEDED_PREFIXES = (*_MAMA_VARIABLES, "DATABASE_PROVIDER", "LLM_", "EMBEDDING_")
_KNOWN_PREFIXES = (
    "FILEMEM_",
    "MAMA_AUTH_TOKEN",
    "MAMA_SERVER_PORT",
    "POWERMEM_",
    "SLACK_BOT_TOKEN",
)
OWNERS = ("user_id", "agent_id", "run_id")  # each also named by a variable: POWERMEM_USER_ID ...


_CLAUDE_MEM_FILES = ("$CLAUDE_MEM_DATA_DIR/claude-mem.db", "~/.claude-mem/claude-mem.db")
_MAMA_FILES = ("~/.mama/memories.db", "~/.claude/mama-memory.db", "~/.spinelift/memories.db")
_SOURCES = {
    "mama": ("$MAMA_DB_PATH", "$MAMA_DATABASE_PATH", *_MAMA_FILES),
    "claude-mem": _CLAUDE_MEM_FILES,
    "mem-claude": _CLAUDE_MEM_FILES,
    "powermem": ("$SQLITE_PATH", "data/powermem_dev.db"),
    "claude-code": ("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects"),
    "server-memory": ("$MEMORY_FILE_PATH",),
    "decision-log": ("DECISIONS.md", "docs/DECISIONS.md"),
    "memory-bank": ("memory-bank",),
    "serena": (".serena/memories",),
    "beads": (".beads/issues.jsonl",),
}


def find_usual_source(name: str, folder: Path) -> Path | None:
    """Where another system keeps its memory, as seen from a folder; None for nowhere.

    `name`: the format of an import.
    """
    for place in _SOURCES.get(name, ()):
        if place[0] == "$" and not os.environ.get(place[1:].partition("/")[0]):
            continue
        expanded = os.path.expandvars(os.path.expandvars(place))
        path = folder / os.path.expanduser(expanded)  # noqa: PTH111 - "~" may be of a variable
        if path.exists():
            return path
    return None


def read_web_settings(environment: Mapping[str, str] | None = None) -> WebSettings:
    """Read the environment's settings for HTTP. Raises BadInput: MAMA_SERVER_PORT is not a port."""
    environment = os.environ if environment is None else environment
    port = environment.get("MAMA_SERVER_PORT", "")
    if port and not (port.isascii() and port.isdigit() and int(port[:9]) <= 65535):
        raise BadInput(
            f"MAMA_SERVER_PORT is not a port: {port[:20]!r}", "a number up to 65535", field="port"
        )
    slack = (environment.get("SLACK_BOT_TOKEN", ""), environment.get("FILEMEM_SLACK_URL", ""))
    return WebSettings(
        environment.get("MAMA_AUTH_TOKEN", ""),
        int(port) if port else None,
        *slack,
        _format_unneeded(environment),
    )


def _format_unneeded(names: Iterable[str]) -> str:
    """A sentence that names the variables that are not needed; never a value."""
    unneeded_names = ", ".join(sorted(name for name in names if name.startswith(UNNEEDED_PREFIXES)))
    if not unneeded_names:
        return ""
    return f"{unneeded_names}: not needed, there is no database and no model server: docs/http.md"


def load_environment_file(path: Path) -> str:
    """Read the variables of a file that filemem uses and the environment does not set.

    Return a sentence that names the unneeded ones, or "". Raises BadInput.
    """
    try:
        variables = _read_variables(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}", "name a file of lines NAME=value", field="env") from None
    for name, value in variables.items():
        if value is not None and name.startswith(_KNOWN_PREFIXES):
            os.environ.setdefault(name, value)
    return _format_unneeded(variables)


def _read_variables(path: Path) -> Mapping[str, str | None]:
    """The variables of a `.env` file. Raises OSError and UnicodeDecodeError."""
    from dotenv import dotenv_values  # noqa: PLC0415 - only for users who have such a file

    with path.open(encoding="utf-8-sig") as file:
        return dotenv_values(stream=file, interpolate=False)


def read_powermem_file(path: Path) -> tuple[str, str]:
    """Read powermem's settings file: its `user_id`, or "", and its other keys, which are unneeded.

    Raises BadInput.
    """
    import json  # noqa: PLC0415 - only for users of powermem

    try:
        value = json.loads(path.read_bytes())
        user = value.pop("user_id", "")
        if not isinstance(user, str) or not user.isprintable() or len(user) > _MAX_NAME_LENGTH:
            raise ValueError
    except OSError as error:
        hint = "name powermem's settings file"
        raise BadInput(f"{path}: {error.strerror}", hint, field="config") from None
    except (ValueError, RecursionError, AttributeError, TypeError):
        message = f"{path} is not a JSON object with a one-line user_id"
        raise BadInput(message, field="config") from None
    return user, ", ".join(sorted(value))


def read_powermem_names(path: Path | None) -> dict[str, str]:
    """User, agent and run that the environment names, or else a `.env` file of the user's own.

    No other line of the file counts.
    """
    variables: Mapping[str, str | None] = {}
    with suppress(OSError, UnicodeDecodeError):  # what cannot be read names nobody
        if path and _is_own_small_file(path):
            variables = _read_variables(path)
    names: dict[str, str] = {}
    for owner in OWNERS:
        variable = f"POWERMEM_{owner.upper()}"
        name = os.environ.get(variable) or variables.get(variable)
        if name and name.isprintable() and len(name) <= _MAX_NAME_LENGTH:
            names[owner] = name
    return names


def _is_own_small_file(path: Path) -> bool:
    """Whether a path is a small regular file, no link, of the user's own. Raises OSError."""
    status = path.lstat()
    is_own = status.st_uid == os.getuid()
    return stat.S_ISREG(status.st_mode) and is_own and status.st_size < _MAX_ENV_SIZE


def _get_powermem_path() -> Path:
    folder = os.environ.get("POWERMEM_DIR", "")
    return (Path(folder) if folder else Path.home() / ".powermem") / "config.json"


def create_powermem_settings() -> None:
    """Make powermem's settings file if there is none, as its users expect; it names nobody."""
    path = _get_powermem_path()
    with suppress(OSError):  # it is there, or the home folder is read-only
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write('{"user_id": ""}\n')


def read_powermem_user() -> str:
    """The user that powermem's own settings file names, or ""."""
    path = _get_powermem_path()
    return read_powermem_file(path)[0] if path.exists() else ""
