"""What Git's configuration says that matters to a save, and who says it.

A repository's own configuration may be a stranger's: it may name an author or do without a signature that the user
asks for elsewhere, but it cannot ask for one, which would start a program and leave saves waiting for a key that nobody
has; and programs are only ever taken from the user's and the system's configuration.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo.discovery import Places
from filemem.repo.git import Git

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
_CRUD = r"[\x00-\x1f\x7f<>]"


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
        rows = (name.removeprefix(f"{section}.") for name in self.values if name.startswith(f"{section}."))
        return tuple(row.removesuffix(f".{key}") for row in rows if row.endswith(f".{key}"))

    @property
    def own_programs(self) -> tuple[str, ...]:
        """The filters that the repository's own configuration names: checking files out would run them."""
        keys = (key for key, found in self.values.items() if any(scope not in _USER for scope, _ in found))
        return tuple(
            key for key in keys if key.startswith("filter.") and key.endswith((".smudge", ".process", ".clean"))
        )

    @property
    def unfiltered(self) -> tuple[str, ...] | None:
        """The settings under which no filter runs; None where one may have a name that cannot be told to Git.

        What a repository includes may be a file of its tree, in which a pull names another one.
        """
        names = {key.removeprefix("filter.").rpartition(".")[0] for key in self.values if key.startswith("filter.")}
        included = (scopes for key, scopes in self.values.items() if key.startswith(("include.", "includeif.")))
        if any(scope not in _USER for scopes in included for scope, _ in scopes):
            return None
        if any(not name or "=" in name or "\ufffd" in name for name in names):
            return None
        off = ("clean=", "process=", "required=false")
        return tuple(f"filter.{name}.{each}" for name in sorted(names) for each in off)

    def flag(self, key: str, *, user_only: bool = False) -> bool:
        """Whether a switch is on, in Git's spellings; `user_only` as for `text`."""
        return (self.text(key, user_only=user_only) or "").lower() in ("true", "yes", "on", "1")

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
        """Who Git would name as `role` ("author" or "committer").

        Raises:
            BadInput: name or address is not known.
        """
        name, email = (
            environment.get(f"GIT_{role.upper()}_{part.upper()}")
            or self.text(f"{role}.{part}")
            or self.text(f"user.{part}")
            or (environment.get("EMAIL") if part == "email" else None)
            for part in ("name", "email")
        )
        identity = Identity(_tidy(name), _tidy(email))
        if identity.name and identity.email:
            return identity
        raise BadInput(
            "Git does not know who you are, so nothing can be committed",
            'git config --global user.name "Your Name" && git config --global user.email you@example.com',
            field="identity",
        )


class Current:
    """The configuration as it is now; whether one of its files has changed is looked at once a second.

    Args:
        git: runs Git.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._read: tuple[object, Settings] | None = None
        self._due = 0.0
        self._mutex = threading.Lock()

    def settings(self) -> Settings:
        """The configuration."""
        with self._mutex:
            now = time.monotonic()
            if self._read is None or now > self._due:
                seen = _sources(self._git.places, self._git.environment)
                if self._read is None or self._read[0] != seen:
                    self._read = seen, _asked(self._git)
                self._due = now + _FRESH
            return self._read[1]

    def look_again(self) -> None:
        """Go by the files at the next question: they may have been changed just now."""
        self._due = 0.0


def user_folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The user's home, and the folder of their configuration files, as Git finds the two."""
    home = Path(environment.get("HOME") or "/nonexistent")
    return home, Path(environment.get("XDG_CONFIG_HOME") or home / ".config")


def _sources(places: Places, environment: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """Sizes and times of the configuration files: equal means that nothing was reconfigured."""
    home, xdg = user_folders(environment)
    files = (
        places.common_dir / "config",
        places.git_dir / "config.worktree",
        home / ".gitconfig",
        xdg / "git" / "config",
    )
    return tuple(_stamp(file) for file in files)


def _asked(git: Git) -> Settings:
    """Ask Git for its configuration."""
    fields = git.run("config", "--list", "-z", "--show-scope").decode("utf-8", "replace").split("\0")
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        key, equals, value = pair.partition("\n")
        if scope != "command":
            values[key] = (*values.get(key, ()), (scope, value if equals else "true"))
    return Settings(values)


def _tidy(text: str | None) -> str:
    return re.sub(_CRUD, "", text or "").strip(" .,:;\"'\\")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns
