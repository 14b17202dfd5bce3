"""What Git's configuration, attributes and ignore rules say that matters to a save, and who says it.

A repository's own configuration may be a stranger's: it may name an author or do without a signature that the user
asks for elsewhere, but it cannot ask for one; and programs are only ever taken from the user's and the system's
configuration. A path under a program of anybody's is not committed by us.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo.run import Git, GitError
from filemem.repo.state import stamp

_USER = frozenset({"system", "global"})
_PROGRAMS = {  # what signing may start, with Git's own default
    "gpg.format": "openpgp",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.ssh.defaultKeyCommand": "",
}
_KNOWN_EXTENSIONS = frozenset({"objectformat", "worktreeconfig", "noop", "preciousobjects"})
_FRESH = 1.0  # seconds
_CRUD = re.compile(r"[\x00-\x1f\x7f<>]")
_TRUE = ("true", "yes", "on", "1")
_BARRED = ("filter", "ident", "working-tree-encoding")  # attributes of paths that only Git itself can commit
_BARRING = re.compile(rb"filter|ident|encoding|\[attr\]")
_WILD = re.compile(r"[][*?\\]")


class Identity(NamedTuple):
    """Who makes a commit: a name and an address, free of what would break a commit header."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


class Settings(NamedTuple):
    """Git's configuration: (scope, value) pairs by lower-case key, last one wins."""

    values: Mapping[str, tuple[tuple[str, str], ...]]

    def text(self, key: str, *, user_only: bool = False) -> str | None:
        """The value in force, or None; with `user_only` the repository's own configuration does not count."""
        for scope, value in reversed(self.values.get(key.lower(), ())):
            if not user_only or scope in _USER:
                return value
        return None

    def text_of(self, section: str, name: str, key: str) -> str:
        """The value in force of a key below a named section, such as `remote.origin.url`, or ""."""
        found = self.values.get(f"{section}.{name}.{key}", ())
        return found[-1][1] if found else ""

    def names_of(self, section: str, key: str) -> tuple[str, ...]:
        """The names below a section that have a key, in the order of the configuration."""
        start, end = f"{section}.", f".{key}"
        return tuple(row[len(start) : -len(end)] for row in self.values if row.startswith(start) and row.endswith(end))

    def flag(self, key: str, *, user_only: bool = False) -> bool:
        """Whether a switch is on, in Git's spellings; `user_only` as for `text`."""
        return (self.text(key, user_only=user_only) or "").lower() in _TRUE

    @property
    def own_programs(self) -> tuple[str, ...]:
        """The filters that the repository's own configuration names: checking files out would run them."""
        keys = (key for key, found in self.values.items() if any(scope not in _USER for scope, _ in found))
        return tuple(k for k in keys if k.startswith("filter.") and k.endswith((".smudge", ".process", ".clean")))

    @property
    def unfiltered(self) -> tuple[str, ...] | None:
        """The settings under which no filter runs; None where one may have a name that cannot be given to Git.

        What a repository includes may be a file of its tree, in which a pull names another one.
        """
        names = {key.removeprefix("filter.").rpartition(".")[0] for key in self.values if key.startswith("filter.")}
        included = (scopes for key, scopes in self.values.items() if key.startswith(("include.", "includeif.")))
        if any(scope not in _USER for scopes in included for scope, _ in scopes):
            return None
        if any(not name or "=" in name or "\ufffd" in name for name in names):
            return None
        return tuple(
            f"filter.{name}.{off}" for name in sorted(names) for off in ("clean=", "process=", "required=false")
        )

    @property
    def hash_name(self) -> str:
        """The repository's object format."""
        return self.text("extensions.objectformat") or "sha1"

    @property
    def plain(self) -> bool:
        """Whether objects may be written as loose files by ourselves: no extension or sharing that we do not know."""
        names = (key.removeprefix("extensions.") for key in self.values if key.startswith("extensions."))
        shared = (self.text("core.sharedrepository") or "false").lower()
        return _KNOWN_EXTENSIONS.issuperset(names) and shared in ("false", "umask", "0", "no", "off", "")

    @property
    def signing(self) -> tuple[str, ...] | None:
        """The settings to sign with, programs being the user's; None where commits are not signed."""
        if not (self.flag("commit.gpgsign", user_only=True) and self.flag("commit.gpgsign")):
            return None
        found = {key: self.text(key, user_only=True) or default for key, default in _PROGRAMS.items()}
        # Two names of one setting: given both, Git heeds the last.
        stated = (self.text(key, user_only=True) for key in ("gpg.openpgp.program", "gpg.program"))
        found["gpg.program"] = found["gpg.openpgp.program"] = next(filter(None, stated), _PROGRAMS["gpg.program"])
        return tuple(f"{key}={value}" for key, value in found.items())

    def identity(self, role: str, environment: Mapping[str, str]) -> Identity:
        """Who Git would name as `role` ("author" or "committer"). Raises BadInput where it is not known."""
        name, email = (
            environment.get(f"GIT_{role.upper()}_{part.upper()}")
            or self.text(f"{role}.{part}")
            or self.text(f"user.{part}")
            or (environment.get("EMAIL") if part == "email" else None)
            for part in ("name", "email")
        )
        identity = Identity(*(_CRUD.sub("", text or "").strip(" .,:;\"'\\") for text in (name, email)))
        if identity.name and identity.email:
            return identity
        raise BadInput(
            "Git does not know who you are, so nothing can be committed",
            'git config --global user.name "Your Name" && git config --global user.email you@example.com',
            field="identity",
        )


class Current:
    """The configuration as it is now; whether one of its files has changed is looked at once a second."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._read: tuple[object, Settings] | None = None
        self._due = 0.0

    def settings(self, *, now: bool = False) -> Settings:
        """The configuration; with `now`, its files are looked at once more: they may have been changed just now."""
        known = self._read
        if known is None or now or time.monotonic() > self._due:
            seen = tuple(map(stamp, _config_files(self._git)))
            if known is None or known[0] != seen:
                known = self._read = seen, _asked(self._git)
            self._due = time.monotonic() + _FRESH
        return known[1]


def obstacle(git: Git, settings: Settings, path: str) -> str:
    """Why a path cannot be committed by us, or ""; Git is asked only where an attribute file says anything of such."""
    files = [*_rule_files(git, settings, path, "attributes"), Path("/etc/gitattributes")]
    if not any(_BARRING.search(_content(file)) for file in files):
        return ""
    answer = git.run("check-attr", "-z", "--stdin", *_BARRED, input=os.fsencode(path) + b"\0")
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    for name, value in zip(fields[1::3], fields[2::3], strict=False):
        if name != "filter" and value not in ("unspecified", "unset"):
            return f"the path has the attribute {name!r}; commit it with Git"
        if any(settings.text_of("filter", value, key) for key in ("clean", "process", "required")):
            return f"the path is under the filter {value!r}; commit it with Git"
    return ""


def ignored(git: Git, settings: Settings, path: str) -> str:
    """Which rule makes Git ignore a path that it does not track yet (`.gitignore:3: memory/`), or "".

    Git is asked only where what stands last in some pattern could be the end of a part of the path.
    """
    texts = (_content(file).decode("utf-8", "surrogateescape") for file in _rule_files(git, settings, path, "ignore"))
    rows = (line for text in texts for row in text.splitlines() if (line := row.strip()) and line[0] not in "#!")
    ends = {_WILD.split(row.rstrip("/ ").rpartition("/")[2].casefold())[-1] for row in rows}
    if not any(part.endswith(tuple(ends)) for part in path.casefold().split("/")):
        return ""
    try:
        # It takes paths alone, and refuses `--literal-pathspecs`; `./`: a colon at the beginning would be magic.
        named = b"./" + os.fsencode(path) + b"\0"
        answer = git.run("--no-literal-pathspecs", "check-ignore", "--verbose", "-z", "--stdin", input=named)
    except GitError as error:
        if error.code == 1:
            return ""
        raise
    source, line, pattern, *_ = answer.decode("utf-8", "surrogateescape").split("\0")
    return "" if pattern.startswith("!") else f"{source.removeprefix(f'{git.places.work_tree}/')}:{line}: {pattern}"


def _rule_files(git: Git, settings: Settings, path: str, kind: str) -> list[Path]:
    """The files that may hold rules about a path, there or not; `kind` is "attributes" or "ignore"."""
    home, xdg = _user_folders(git.environment)
    stated = settings.text("core.attributesfile" if kind == "attributes" else "core.excludesfile")
    top = git.places.work_tree
    own = top / (stated.replace("~", str(home), 1) if stated.startswith("~/") else stated) if stated else None
    of_clone = git.places.common_dir / "info" / ("attributes" if kind == "attributes" else "exclude")
    return [of_clone, own or xdg / "git" / kind, *(top / parent / f".git{kind}" for parent in Path(path).parents)]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _user_folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The user's home, and the folder of their configuration files, as Git finds the two."""
    home = Path(environment.get("HOME") or "/nonexistent")
    return home, Path(environment.get("XDG_CONFIG_HOME") or home / ".config")


def _config_files(git: Git) -> tuple[Path, ...]:
    home, xdg = _user_folders(git.environment)
    own = git.places.common_dir / "config", git.places.git_dir / "config.worktree"
    return (*own, home / ".gitconfig", xdg / "git" / "config")


def _asked(git: Git) -> Settings:
    """Ask Git for its configuration."""
    fields = git.run("config", "--list", "-z", "--show-scope").decode("utf-8", "replace").split("\0")
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        key, equals, value = pair.partition("\n")
        if scope != "command":
            values[key] = (*values.get(key, ()), (scope, value if equals else "true"))
    return Settings(values)
