"""What Git's configuration, attributes and ignore rules say that matters to a save, and who says it.

A repository's own configuration may be a stranger's: it may name an author, or do without a signature, but it cannot
ask for one; programs are only ever the user's or the system's. A path under a program is not committed by us.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from filemem.errors import BadInput, Conflict
from filemem.repo.run import Git, GitError, read
from filemem.tuples import NamedTuple

if TYPE_CHECKING:
    from filemem.repo import Repo

_USER = frozenset({"system", "global"})
_CRUD = re.compile(r"[\x00-\x1f\x7f<>]")
_TRUE = ("true", "yes", "on", "1")
_BARRED = (
    "filter",
    "ident",
    "working-tree-encoding",
)  # attributes of paths that only Git itself can commit
_BARRING = re.compile(r"filter|ident|encoding|\[attr\]")
_WILD = re.compile(r"[][*?\\]")


class Settings(NamedTuple):
    """Git's configuration: (scope, value) pairs by key as Git prints it, last one wins."""

    values: Mapping[str, tuple[tuple[str, str], ...]]

    def text(self, key: str, *, user_only: bool = False) -> str:
        """The value in force, or ""; with `user_only` the repository's own configuration does not count."""
        found = (
            value
            for scope, value in reversed(self.values.get(key, ()))
            if not user_only or scope in _USER
        )
        return next(found, "")

    def flag(self, key: str, *, user_only: bool = False) -> bool:
        """Whether a switch is on, in Git's spellings; `user_only` as for `text`."""
        return self.text(key, user_only=user_only).lower() in _TRUE

    def own(self, start: str, *ends: str) -> tuple[str, ...]:
        """The keys that the repository's own configuration states, by how they begin and end."""
        keys = (
            key
            for key, found in self.values.items()
            if any(scope not in _USER for scope, _ in found)
        )
        return tuple(key for key in keys if key.startswith(start) and key.endswith(ends))

    @property
    def own_programs(self) -> tuple[str, ...]:
        """The filters that the repository's own configuration names: checking files out would run them."""
        return self.own("filter.", ".smudge", ".process", ".clean")

    @property
    def unfiltered(self) -> tuple[str, ...] | None:
        """The settings under which no filter runs; None where one may have a name that we cannot know or give."""
        names = {
            key.removeprefix("filter.").rpartition(".")[0]
            for key in self.values
            if key.startswith("filter.")
        }
        if self.own("include", ".path") or any(
            not name or "=" in name or "\ufffd" in name for name in names
        ):
            return None
        off = ("clean=", "process=", "required=false")
        return tuple(f"filter.{name}.{each}" for name in sorted(names) for each in off)

    @property
    def signed(self) -> bool:
        """Whether commits are signed. Raises Conflict where the repository's own configuration says by what."""
        if not (self.flag("commit.gpgsign", user_only=True) and self.flag("commit.gpgsign")):
            return False
        if own := self.own("gpg.", "program", "command"):
            told = f"commits are signed, and this repository itself names {own[0]}"
            raise Conflict(
                told, "programs are taken from your own configuration: git config --global"
            )
        return True

    def identity(self, role: str, environment: Mapping[str, str]) -> tuple[str, str]:
        """Name and address that Git has for `role` ("author" or "committer"). Raises BadInput where it has none."""
        name, email = (
            environment.get(f"GIT_{role.upper()}_{part.upper()}")
            or self.text(f"{role}.{part}")
            or self.text(f"user.{part}")
            or environment.get("EMAIL" if part == "email" else "")
            for part in ("name", "email")
        )
        name, email = (_CRUD.sub("", text or "").strip(" .,:;\"'\\") for text in (name, email))
        if name and email:
            return name, email
        raise BadInput(
            "Git does not know who you are, so nothing can be committed",
            'git config --global user.name "Your Name" && git config --global user.email you@example.com',
            field="identity",
        )


def files(git: Git) -> tuple[Path, ...]:
    """The files that Git's configuration is in, there or not."""
    home, xdg = _user_folders(git.environment)
    _, own, common = git.places
    return common / "config", own / "config.worktree", home / ".gitconfig", xdg / "git" / "config"


def asked(git: Git) -> Settings:
    """Ask Git for its configuration."""
    fields = (
        git.run("config", "--list", "-z", "--show-scope").decode("utf-8", "replace").split("\0")
    )
    values: dict[str, tuple[tuple[str, str], ...]] = {}
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        key, equals, value = pair.partition("\n")
        if scope != "command":
            values[key] = (*values.get(key, ()), (scope, value if equals else "true"))
    return Settings(values)


def obstacle(repo: Repo, *paths: str) -> str:
    """Why one of some paths cannot be committed by us, or ""; Git is asked only where an attribute file says such."""
    if not _BARRING.search(_rules(repo, paths, "attributes")):
        return ""
    named = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = repo.git.run("check-attr", "-z", "--stdin", *_BARRED, input=named)
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    for name, value in zip(fields[1::3], fields[2::3], strict=False):
        if name != "filter" and value not in ("unspecified", "unset"):
            return f"the path has the attribute {name!r}; commit it with Git"
        if any(
            repo.settings.text(f"filter.{value}.{key}") for key in ("clean", "process", "required")
        ):
            return f"the path is under the filter {value!r}; commit it with Git"
    return ""


def ignored(repo: Repo, *paths: str) -> str:
    """Which of some paths that Git does not track yet it ignores, by which rule (`a/b (.gitignore:3: a/)`), or ""."""
    # Git is asked only where what stands last in some pattern could be the end of a part of the path.
    lines = _rules(repo, paths, "ignore").splitlines()
    rows = (row for line in lines if (row := line.strip()) and row[0] not in "#!")
    ends = {_WILD.split(row.rstrip("/ ").rpartition("/")[2].casefold())[-1] for row in rows}
    if not any(part.endswith(tuple(ends)) for path in paths for part in path.casefold().split("/")):
        return ""
    try:
        # It takes paths alone, and refuses `--literal-pathspecs`; `./`: a colon at the beginning would be magic.
        named = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        answer = repo.git.run(
            "--no-literal-pathspecs", "check-ignore", "--verbose", "-z", "--stdin", input=named
        )
    except GitError as error:
        if error.code == 1:
            return ""
        raise
    fields = answer.decode("utf-8", "surrogateescape").split("\0")
    for source, line, pattern, path in zip(
        fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=False
    ):
        if not pattern.startswith("!"):
            return f"{path.removeprefix('./')} ({source.removeprefix(f'{repo.work_tree}/')}:{line}: {pattern})"
    return ""


def _rules(repo: Repo, paths: Iterable[str], kind: str) -> str:
    """What the files that may hold rules about some paths say; `kind` is "attributes" or "ignore"."""
    home, xdg = _user_folders(repo.git.environment)
    name, own = (
        ("attributesfile", "attributes") if kind == "attributes" else ("excludesfile", "exclude")
    )
    stated = repo.settings.text(f"core.{name}") or str(xdg / "git" / kind)
    places = [repo.common_dir / "info" / own, Path(f"/etc/git{kind}")]
    places.append(repo.work_tree / (f"{home}{stated[1:]}" if stated.startswith("~/") else stated))
    folders = {PurePosixPath(path).parent for path in paths}
    folders |= {above for folder in folders for above in folder.parents}
    places += [repo.work_tree / folder / f".git{kind}" for folder in folders]
    return "\n".join(map(read, places))


def _user_folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The user's home, and the folder of their configuration files, as Git finds the two."""
    home = Path(environment.get("HOME") or "/nonexistent")
    return home, Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
