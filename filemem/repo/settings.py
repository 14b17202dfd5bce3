"""What Git's configuration, attributes and ignore rules say that matters to a save.

A repository's own configuration may be a stranger's: it may name an author, or do without a
signature, but it cannot ask for one; programs are only ever the user's or the system's. A path
under a program is not committed by us.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BadInput, Conflict
from filemem.repo.run import Git, GitError, read_git_file

if TYPE_CHECKING:
    from filemem.repo import Repo

_USER_SCOPES = frozenset({"system", "global"})
_CRUD = re.compile(r"[\x00-\x1f\x7f<>]")
_TRUE_VALUES = ("true", "yes", "on", "1")
# Attributes of paths that only Git itself can commit.
_BLOCKING_ATTRIBUTES = ("filter", "ident", "working-tree-encoding")
_BLOCKING_PATTERN = re.compile(r"filter|ident|encoding|\[attr\]")
_WILDCARD = re.compile(r"[][*?\\]")


class GitSettings(NamedTuple):
    """Git's configuration: (scope, value) pairs by key as Git prints it, last one wins."""

    values: Mapping[str, tuple[tuple[str, str], ...]]

    def get_text(self, key: str, *, user_only: bool = False) -> str:
        """Return the value in force, or ""; `user_only`: that of the user and the system alone."""
        for scope, value in reversed(self.values.get(key, ())):
            if not user_only or scope in _USER_SCOPES:
                return value
        return ""

    def get_flag(self, key: str, *, user_only: bool = False) -> bool:
        """Whether a switch is on, in Git's spellings; `user_only` as for `get_text`."""
        return self.get_text(key, user_only=user_only).lower() in _TRUE_VALUES

    def list_own_keys(self, prefix: str, *suffixes: str) -> tuple[str, ...]:
        """List keys that the repository's own configuration sets, by how they begin and end."""
        keys = [key for key in self.values if key.startswith(prefix) and key.endswith(suffixes)]
        return tuple(key for key in keys if self._is_own_key(key))

    def _is_own_key(self, key: str) -> bool:
        return any(scope not in _USER_SCOPES for scope, _ in self.values[key])

    @property
    def own_programs(self) -> tuple[str, ...]:
        """The filters that the repository itself names: checking files out would run them."""
        return self.list_own_keys("filter.", ".smudge", ".process", ".clean")

    @property
    def no_filter_settings(self) -> tuple[str, ...] | None:
        """The settings under which no filter runs.

        None if a filter may have a name that we cannot know or pass on.
        """
        names = set()
        for key in self.values:
            if key.startswith("filter."):
                name, _, _ = key.removeprefix("filter.").rpartition(".")
                names.add(name)
        if self.list_own_keys("include", ".path"):
            return None
        settings: list[str] = []
        for name in sorted(names):
            if not name or "=" in name or "\ufffd" in name:
                return None
            prefix = f"filter.{name}"
            settings += (f"{prefix}.clean=", f"{prefix}.process=", f"{prefix}.required=false")
        return tuple(settings)

    @property
    def is_signing(self) -> bool:
        """Whether commits are signed.

        Raises Conflict if the repository's own configuration names the program.
        """
        key = "commit.gpgsign"
        if not self.get_flag(key) or not self.get_flag(key, user_only=True):
            return False
        own_programs = self.list_own_keys("gpg.", "program", "command")
        if own_programs:
            message = f"commits are signed, and this repository itself names {own_programs[0]}"
            hint = "programs are taken from your own configuration: git config --global"
            raise Conflict(message, hint)
        return True

    def require_identity(self, role: str, environment: Mapping[str, str]) -> tuple[str, str]:
        """Return name and address that Git has for `role`, "author" or "committer".

        Raises BadInput if it has none.
        """
        name = self._find_identity_part(role, "name", environment)
        email = self._find_identity_part(role, "email", environment) or environment.get("EMAIL", "")
        name = _remove_crud(name)
        email = _remove_crud(email)
        if name and email:
            return name, email
        raise BadInput(
            "Git does not know who you are, so nothing can be committed",
            'git config --global user.name "Your Name"'
            " && git config --global user.email you@example.com",
            field="identity",
        )

    def _find_identity_part(self, role: str, part: str, environment: Mapping[str, str]) -> str:
        return (
            environment.get(f"GIT_{role.upper()}_{part.upper()}")
            or self.get_text(f"{role}.{part}")
            or self.get_text(f"user.{part}")
        )


def _remove_crud(text: str) -> str:
    """Remove from a name or address what Git removes from it."""
    return _CRUD.sub("", text).strip(" .,:;\"'\\")


def list_config_files(git: Git) -> tuple[Path, ...]:
    """List the files of Git's configuration, whether they exist or not."""
    home, xdg = _get_user_folders(git.environment)
    return (
        git.folders.common_dir / "config",
        git.folders.git_dir / "config.worktree",
        home / ".gitconfig",
        xdg / "git" / "config",
    )


def load_settings(git: Git) -> GitSettings:
    """Ask Git for its configuration."""
    answer = git.run("config", "--list", "-z", "--show-scope")
    fields = iter(answer.decode("utf-8", "replace").split("\0")[:-1])
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    for scope in fields:
        key, equals, value = next(fields).partition("\n")
        if scope == "command":
            continue
        if not equals:  # a key alone
            value = "true"
        values[key] = (*values.get(key, ()), (scope, value))
    return GitSettings(values)


def has_filters(repo: Repo, paths: Iterable[str]) -> bool:
    """Whether Git may hold other bytes than the files of some paths, line ends left aside.

    A configured filter counts even if no attribute names it: one may have done so before. The
    pointers of Git LFS never have the length of their files.
    """
    for key in repo.settings.values:
        if key.startswith("filter.") and not key.startswith("filter.lfs."):
            return True
    return _has_blocking_rule(repo, paths)


def _has_blocking_rule(repo: Repo, paths: Iterable[str]) -> bool:
    """Whether an attribute file has a rule that may keep us from committing some paths."""
    rules = _read_rules(repo, paths, "attributes")
    return _BLOCKING_PATTERN.search(rules) is not None


def find_obstacle(repo: Repo, *paths: str) -> str:
    """Return why one of some paths cannot be committed by us, or ""."""
    if not _has_blocking_rule(repo, paths):  # most often: Git need not be asked
        return ""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = repo.git.run("check-attr", "-z", "--stdin", *_BLOCKING_ATTRIBUTES, input_data=names)
    fields = iter(answer.decode("utf-8", "surrogateescape").split("\0")[:-1])
    for _ in fields:  # the path
        name = next(fields)
        value = next(fields)
        if name != "filter" and value not in ("unspecified", "unset"):
            return f"the path has the attribute {name!r}; commit it with Git"
        for key in ("clean", "process", "required"):
            if repo.settings.get_text(f"filter.{value}.{key}"):
                return f"the path is under the filter {value!r}; commit it with Git"
    return ""


class _IgnoreRule(NamedTuple):
    """The rule that applies to a path, as `git check-ignore` prints it."""

    source: str
    line: str
    pattern: str
    path: str


def find_ignored(repo: Repo, *paths: str) -> str:
    """Return which of some untracked paths Git ignores, and by which rule, or "".

    For example `a/b (.gitignore:3: a/)`.
    """
    if not _can_be_ignored(repo, paths):  # most often: Git need not be asked
        return ""
    for rule in _read_ignore_rules(repo, paths):
        if not rule.pattern.startswith("!"):
            path = rule.path.removeprefix("./")
            source = rule.source.removeprefix(f"{repo.work_tree}/")
            return f"{path} ({source}:{rule.line}: {rule.pattern})"
    return ""


def _can_be_ignored(repo: Repo, paths: Iterable[str]) -> bool:
    """Whether a part of a path ends as the last part of some pattern, after its last wildcard."""
    suffixes = set()
    for line in _read_rules(repo, paths, "ignore").splitlines():
        pattern = line.strip()
        if pattern and pattern[0] not in "#!":
            _, _, last_part = pattern.rstrip("/ ").rpartition("/")
            suffixes.add(_WILDCARD.split(last_part.casefold())[-1])
    for path in paths:
        for part in path.casefold().split("/"):
            if part.endswith(tuple(suffixes)):
                return True
    return False


def _read_ignore_rules(repo: Repo, paths: Iterable[str]) -> list[_IgnoreRule]:
    """Ask Git for the rules that apply to some paths."""
    # `check-ignore` refuses `--literal-pathspecs`; `./` keeps a colon at the beginning from being
    # magic.
    names = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    command = ("--no-literal-pathspecs", "check-ignore", "--verbose", "-z", "--stdin")
    try:
        answer = repo.git.run(*command, input_data=names)
    except GitError as error:
        if error.code == 1:
            return []
        raise
    fields = answer.decode("utf-8", "surrogateescape").split("\0")[:-1]
    width = len(_IgnoreRule._fields)
    return [_IgnoreRule(*fields[i : i + width]) for i in range(0, len(fields), width)]


def _read_rules(repo: Repo, paths: Iterable[str], kind: str) -> str:
    """Read all files with rules about some paths; `kind` is "attributes" or "ignore"."""
    home, xdg = _get_user_folders(repo.git.environment)
    key = "core.excludesfile"
    info_name = "exclude"
    if kind == "attributes":
        key = "core.attributesfile"
        info_name = "attributes"
    user_file = repo.settings.get_text(key) or str(xdg / "git" / kind)
    if user_file.startswith("~/"):
        user_file = f"{home}{user_file[1:]}"
    folders: set[PurePosixPath] = set()
    for path in paths:
        folders.update(PurePosixPath(path).parents)
    files = [
        repo.common_dir / "info" / info_name,
        Path(f"/etc/git{kind}"),
        repo.work_tree / user_file,
    ]
    files += [repo.work_tree / folder / f".git{kind}" for folder in folders]
    return "\n".join(read_git_file(file) for file in files)


def _get_user_folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the user's home and the folder of their configuration, as Git finds them."""
    home = Path(environment.get("HOME") or "/nonexistent")
    return home, Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
