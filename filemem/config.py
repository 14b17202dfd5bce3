"""Read the settings, and control who may set them. Only this module reads the environment.

A repository's `.filemem.toml` may be by a stranger: it may name the store folder inside the work
tree, a branch for the records, the commit policy per type and its words for a status, nothing else.
Only the user, in their own configuration file, the environment or flags, may set what runs code,
reaches outside or loads a model.

An unknown setting is ignored and noted (`Config.unknown_settings`), and so is a file that is not
TOML (`Config.read_error`). A known setting with a wrong value is an error: it may say where the
records are.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from filemem.errors import BadInput
from filemem.settings import DEFAULT_POLICY, SHARED_SETTINGS, USER_SETTINGS, Validators
from filemem.settings import HOOKS as HOOKS
from filemem.settings import validate_branch_name as validate_branch_name
from filemem.settings import validate_store_path as validate_store_path

REPOSITORY_FILE = ".filemem.toml"
_MAX_NAME_LENGTH = 200  # characters of the name of a user
_MAX_ENV_SIZE = 65_536  # bytes of a .env file
HITS = 10  # of an answer, if the caller does not say how many
_MAX_REPORTED = 10  # unknown settings that are named


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
    if environment is None:
        environment = os.environ
    user_file = get_user_folder("config", environment) / "config.toml"
    all_validators = {**SHARED_SETTINGS, **USER_SETTINGS}
    config = _apply_file(Config(), work_tree / REPOSITORY_FILE, REPOSITORY_FILE, SHARED_SETTINGS)
    # A repository cannot set hooks; it only allows what the user may set.
    config = config._replace(hooks=Config().hooks, allowed_hooks=config.hooks)
    config = _apply_file(config, user_file, str(user_file), all_validators)
    variables = {}
    for key in all_validators:
        name = f"FILEMEM_{key.upper()}"
        if name in environment:
            variables[key] = environment[name]
    return _apply_values(config, variables, "the environment (FILEMEM_...)", all_validators)


def get_user_folder(kind: str, environment: Mapping[str, str]) -> Path:
    """Return the user's `config`, `cache` or `data` folder for filemem, by XDG rules."""
    stated_folder = Path(environment.get(f"XDG_{kind.upper()}_HOME", ""))
    if stated_folder.is_absolute():
        return stated_folder / "filemem"
    name = ".local/share" if kind == "data" else f".{kind}"
    return Path.home() / name / "filemem"


def has_display() -> bool:
    """Return whether a browser can open a window for the user."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def get_personal_folder() -> Path:
    """Return the folder of the user's personal memory, which may not exist yet."""
    return get_user_folder("data", os.environ) / "personal"


def read_workspace() -> tuple[Path, ...]:
    """Read the repositories that the user registered for common searches.

    Settings of a repository cannot name another one.
    """
    try:
        data = _get_workspace_file().read_bytes()
    except OSError:
        return ()
    lines = os.fsdecode(data).split("\n")
    return tuple(Path(line) for line in lines if line.startswith("/"))


def _get_workspace_file() -> Path:
    return get_user_folder("config", os.environ) / "workspace"


def write_workspace(folders: Iterable[Path]) -> None:
    """Replace the registered repositories in the file `workspace`, one a line."""
    file = _get_workspace_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    new_file = file.with_name(f"workspace.{os.getpid()}.tmp")
    lines = [os.fsencode(folder) + b"\n" for folder in sorted(set(folders))]
    new_file.write_bytes(b"".join(lines))
    new_file.replace(file)


def read_repository_store(work_tree: Path) -> str:
    """Read the folder of records from a repository's settings; "" if they name none."""
    values = _read_table(work_tree / REPOSITORY_FILE)
    return _apply_values(Config(store=""), values, REPOSITORY_FILE, SHARED_SETTINGS).store


def parse_repository_settings(data: bytes) -> Config:
    """Parse store, branch and words for a status from a repository's settings.

    Invalid values are ignored.
    """
    config = Config(store="")
    try:
        values = _parse_toml(data, REPOSITORY_FILE)
    except BadInput:
        return config
    for key in ("store", "branch", "status"):
        if key in values:
            with suppress(BadInput):
                config = _apply_values(config, {key: values[key]}, "", SHARED_SETTINGS)
    return config


def _apply_file(config: Config, path: Path, name: str, validators: Validators) -> Config:
    """Return the settings with those of a file, or with a note why it cannot be read."""
    try:
        values = _read_table(path, name)
    except BadInput as error:
        read_error = error.one_line
        if config.read_error:
            read_error = f"{config.read_error}; {read_error}"
        return config._replace(read_error=read_error)
    return _apply_values(config, values, name, validators)


def _apply_values(
    config: Config, values: Mapping[str, object], source: str, validators: Validators
) -> Config:
    """Return the settings with checked values; `source` names their origin in messages."""
    settings: dict[str, Any] = {}
    unknown_settings = list(config.unknown_settings)
    for name, value in values.items():
        key = "policy" if name == "commit" else name  # in files the table is written [commit]
        if key not in validators:
            unknown_settings.append(_format_unknown(name, source, validators))
            continue
        try:
            settings[key] = validators[key](value)
        except BadInput as error:
            raise BadInput(f"{source}: {name}: {error.message}", error.hint, field=name) from None
    settings["unknown_settings"] = tuple(unknown_settings[:_MAX_REPORTED])
    return config._replace(**settings)


def _format_unknown(name: str, source: str, validators: Validators) -> str:
    """Format the sentence for an ignored setting."""
    sentence = f"{source}: unknown setting {name[:_MAX_NAME_LENGTH]!r}"
    if name in USER_SETTINGS:
        sentence += " (only the user's own configuration may set it)"
    tables = {"policy": "[commit]", "status": "[status]", "hooks": "[hooks]"}
    known_names = [tables.get(key, key) for key in validators]
    return f"{sentence}, passed over; known here: {', '.join(known_names)}"


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


# settings of other systems

# Prefixes of variables of other systems that filemem does not need, as docs/http.md explains.
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
    """Find the memory of another system at its usual places; None if it is at none of them.

    Args:
        name: The format of an import.
        folder: The folder to which relative places belong.
    """
    for place in _SOURCES.get(name, ()):
        variable = place.partition("/")[0].removeprefix("$")
        if place.startswith("$") and not os.environ.get(variable):
            continue
        # The value of a variable may have variables and "~" too.
        expanded = os.path.expandvars(os.path.expandvars(place))
        path = folder / os.path.expanduser(expanded)  # noqa: PTH111
        if path.exists():
            return path
    return None


def read_web_settings(environment: Mapping[str, str] | None = None) -> WebSettings:
    """Read the environment's settings for HTTP. Raises BadInput: MAMA_SERVER_PORT is not a port."""
    if environment is None:
        environment = os.environ
    port = environment.get("MAMA_SERVER_PORT", "")
    if port and not _is_port(port):
        message = f"MAMA_SERVER_PORT is not a port: {port[:20]!r}"
        raise BadInput(message, "a number up to 65535", field="port")
    return WebSettings(
        token=environment.get("MAMA_AUTH_TOKEN", ""),
        port=int(port) if port else None,
        slack_token=environment.get("SLACK_BOT_TOKEN", ""),
        slack_url=environment.get("FILEMEM_SLACK_URL", ""),
        unneeded_note=_format_unneeded(environment),
    )


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text[:9]) <= 65535


def _format_unneeded(variables: Iterable[str]) -> str:
    """Format a sentence that names the unneeded variables, without their values; or ""."""
    unneeded_names = [name for name in variables if name.startswith(UNNEEDED_PREFIXES)]
    if not unneeded_names:
        return ""
    names = ", ".join(sorted(unneeded_names))
    return f"{names}: not needed, there is no database and no model server: docs/http.md"


def load_environment_file(path: Path) -> str:
    """Set environment variables for filemem from a file, unless they are set already.

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
    """Read the variables of a `.env` file. Raises OSError and UnicodeDecodeError."""
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
    """Read user, agent and run from the environment, or else from a `.env` file of the user.

    Other lines of the file are ignored. `path` is None to read the environment only.
    """
    variables: Mapping[str, str | None] = {}
    if path:
        with suppress(OSError, UnicodeDecodeError):  # a file that cannot be read sets nothing
            if _is_own_small_file(path):
                variables = _read_variables(path)
    names: dict[str, str] = {}
    for owner in OWNERS:
        variable = f"POWERMEM_{owner.upper()}"
        name = os.environ.get(variable) or variables.get(variable)
        if name and name.isprintable() and len(name) <= _MAX_NAME_LENGTH:
            names[owner] = name
    return names


def _is_own_small_file(path: Path) -> bool:
    """Return whether a path is a small regular file of the user, no link. Raises OSError."""
    status = path.lstat()
    is_own = status.st_uid == os.getuid()
    return stat.S_ISREG(status.st_mode) and is_own and status.st_size < _MAX_ENV_SIZE


def _get_powermem_path() -> Path:
    folder = os.environ.get("POWERMEM_DIR", "")
    if folder:
        return Path(folder) / "config.json"
    return Path.home() / ".powermem" / "config.json"


def create_powermem_settings() -> None:
    """Create powermem's settings file if there is none, without a user."""
    path = _get_powermem_path()
    with suppress(OSError):  # the file exists, or the home folder is read-only
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write('{"user_id": ""}\n')


def read_powermem_user() -> str:
    """Read the user that powermem's settings file names, or ""."""
    path = _get_powermem_path()
    if not path.exists():
        return ""
    return read_powermem_file(path)[0]
