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
        """The value in force, or ""; `user_only`: that of the user and the system alone."""
        values = (
            value
            for scope, value in reversed(self.values.get(key, ()))
            if not user_only or scope in _USER_SCOPES
        )
        return next(values, "")

    def get_flag(self, key: str, *, user_only: bool = False) -> bool:
        """Whether a switch is on, in Git's spellings; `user_only` as for `text`."""
        return self.get_text(key, user_only=user_only).lower() in _TRUE_VALUES

    def list_own_keys(self, prefix: str, *suffixes: str) -> tuple[str, ...]:
        """The keys that the repository's own configuration states, by how they begin and end."""
        keys = (key for key in self.values if key.startswith(prefix) and key.endswith(suffixes))
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
        names = {
            key.removeprefix("filter.").rpartition(".")[0]
            for key in self.values
            if key.startswith("filter.")
        }
        has_unusable_name = any(not name or "=" in name or "\ufffd" in name for name in names)
        if has_unusable_name or self.list_own_keys("include", ".path"):
            return None
        options = ("clean=", "process=", "required=false")
        return tuple(f"filter.{name}.{value}" for name in sorted(names) for value in options)

    @property
    def is_signing(self) -> bool:
        """Whether commits are signed.

        Raises Conflict if the repository's own configuration names the program.
        """
        if not (
            self.get_flag("commit.gpgsign", user_only=True) and self.get_flag("commit.gpgsign")
        ):
            return False
        own_programs = self.list_own_keys("gpg.", "program", "command")
        if own_programs:
            raise Conflict(
                f"commits are signed, and this repository itself names {own_programs[0]}",
                "programs are taken from your own configuration: git config --global",
            )
        return True

    def require_identity(self, role: str, environment: Mapping[str, str]) -> tuple[str, str]:
        """Name and address that Git has for `role`, "author" or "committer".

        Raises BadInput if it has none.
        """
        name = self._find_identity_part(role, "name", environment)
        email = self._find_identity_part(role, "email", environment) or environment.get("EMAIL", "")
        name, email = (_CRUD.sub("", text).strip(" .,:;\"'\\") for text in (name, email))
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


def list_config_files(git: Git) -> tuple[Path, ...]:
    """The files that Git's configuration is in, there or not."""
    home, xdg = _get_user_folders(git.environment)
    _, git_dir, common = git.folders
    return (
        common / "config",
        git_dir / "config.worktree",
        home / ".gitconfig",
        xdg / "git" / "config",
    )


def load_settings(git: Git) -> GitSettings:
    """Ask Git for its configuration."""
    fields = (
        git.run("config", "--list", "-z", "--show-scope").decode("utf-8", "replace").split("\0")
    )
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        key, equals, value = pair.partition("\n")
        if scope != "command":
            values[key] = (*values.get(key, ()), (scope, value if equals else "true"))
    return GitSettings(values)


def has_filters(repo: Repo, paths: Iterable[str]) -> bool:
    """Whether Git may hold other bytes than the files of some paths, line ends left aside.

    A filter that is configured counts even where no attribute names it: one may have. The pointers
    of Git LFS are never as long as their files.
    """
    has_filter_settings = any(
        key.startswith("filter.") and not key.startswith("filter.lfs.")
        for key in repo.settings.values
    )
    return has_filter_settings or bool(
        _BLOCKING_PATTERN.search(_read_rules(repo, paths, "attributes"))
    )


def find_obstacle(repo: Repo, *paths: str) -> str:
    """Why one of some paths cannot be committed by us, or "".

    Git is asked only if an attribute file has such a rule.
    """
    if not _BLOCKING_PATTERN.search(_read_rules(repo, paths, "attributes")):
        return ""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = repo.git.run("check-attr", "-z", "--stdin", *_BLOCKING_ATTRIBUTES, input_data=names)
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    for name, value in zip(fields[1::3], fields[2::3], strict=False):
        if name != "filter" and value not in ("unspecified", "unset"):
            return f"the path has the attribute {name!r}; commit it with Git"
        keys = (f"filter.{value}.{key}" for key in ("clean", "process", "required"))
        if any(repo.settings.get_text(key) for key in keys):
            return f"the path is under the filter {value!r}; commit it with Git"
    return ""


class _IgnoreRule(NamedTuple):
    """The rule that applies to a path, as `git check-ignore` prints it."""

    source: str
    line: str
    pattern: str
    path: str


def find_ignored(repo: Repo, *paths: str) -> str:
    """Which of some untracked paths Git ignores, and by which rule, or "".

    For example `a/b (.gitignore:3: a/)`. Git is asked only if a pattern could match.
    """
    if not _can_be_ignored(repo, paths):
        return ""
    for rule in _read_ignore_rules(repo, paths):
        if not rule.pattern.startswith("!"):
            source = rule.source.removeprefix(f"{repo.work_tree}/")
            return f"{rule.path.removeprefix('./')} ({source}:{rule.line}: {rule.pattern})"
    return ""


def _can_be_ignored(repo: Repo, paths: Iterable[str]) -> bool:
    """Whether the last part of some pattern could be the end of a part of a path."""
    lines = map(str.strip, _read_rules(repo, paths, "ignore").splitlines())
    rows = (line for line in lines if line and line[0] not in "#!")
    suffixes = {_WILDCARD.split(row.rstrip("/ ").rpartition("/")[2].casefold())[-1] for row in rows}
    parts = (part for path in paths for part in path.casefold().split("/"))
    return any(part.endswith(tuple(suffixes)) for part in parts)


def _read_ignore_rules(repo: Repo, paths: Iterable[str]) -> list[_IgnoreRule]:
    """The rules that apply to some paths."""
    # `check-ignore` takes paths alone, and refuses `--literal-pathspecs`; without `./` a colon at
    # the beginning would be magic.
    names = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    command = ("--no-literal-pathspecs", "check-ignore", "--verbose", "-z", "--stdin")
    try:
        answer = repo.git.run(*command, input_data=names)
    except GitError as error:
        if error.code == 1:
            return []
        raise
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    columns = (fields[start::4] for start in range(4))
    return [_IgnoreRule(*row) for row in zip(*columns, strict=False)]


def _read_rules(repo: Repo, paths: Iterable[str], kind: str) -> str:
    """The text of all files with rules about some paths; `kind` is "attributes" or "ignore"."""
    home, xdg = _get_user_folders(repo.git.environment)
    of_attributes = ("attributesfile", "attributes")
    name, info_name = of_attributes if kind == "attributes" else ("excludesfile", "exclude")
    user_file = repo.settings.get_text(f"core.{name}") or str(xdg / "git" / kind)
    if user_file.startswith("~/"):
        user_file = f"{home}{user_file[1:]}"
    folders = {PurePosixPath(path).parent for path in paths}
    folders |= {parent for folder in folders for parent in folder.parents}
    rule_files = [
        repo.common_dir / "info" / info_name,
        Path(f"/etc/git{kind}"),
        repo.work_tree / user_file,
        *(repo.work_tree / folder / f".git{kind}" for folder in folders),
    ]
    return "\n".join(map(read_git_file, rule_files))


def _get_user_folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The user's home, and the folder of their configuration files, as Git finds the two."""
    home = Path(environment.get("HOME") or "/nonexistent")
    return home, Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
