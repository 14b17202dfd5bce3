"""Which paths the user has told Git to overlook. Git is asked only where some pattern could mean the path.

Rule: what the look at the patterns here passes over, Git would not ignore; what it does not, Git decides.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterator

from filemem.repo import rules
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.settings import Settings

_WILD = re.compile(r"[*?]")
_UNLIKE_OURS = re.compile(r"[\[\\].*")  # what Git reads otherwise than fnmatch, and all that comes after


def reason(git: Git, settings: Settings, path: str) -> str:
    """Which rule makes Git ignore a path that it does not track yet (`.gitignore:3: memory/`), or ""."""
    parts = frozenset(path.casefold().split("/"))
    if not any(_may_mean(pattern, parts) for pattern in _patterns(git, settings, path)):
        return ""
    try:
        # It takes paths alone, and refuses to be told so; `./`, because a colon at the beginning would be magic.
        named = b"./" + os.fsencode(path) + b"\0"
        answer = git.run("--no-literal-pathspecs", "check-ignore", "--verbose", "-z", "--stdin", input=named)
    except GitError as error:
        if error.code == 1:
            return ""
        raise
    source, line, pattern, *_ = answer.decode("utf-8", "surrogateescape").split("\0")
    return "" if pattern.startswith("!") else f"{source.removeprefix(f'{git.places.work_tree}/')}:{line}: {pattern}"


def untracked(git: Git, folder: str) -> tuple[str, ...]:
    """The files below a folder that are there, and that Git is told to overlook."""
    how = ("--others", "--ignored", "--exclude-standard", "-z")
    answer = git.run("ls-files", *how, "--", folder, limit=LONG)
    return tuple(answer.decode("utf-8", "surrogateescape").split("\0")[:-1])


def _patterns(git: Git, settings: Settings, path: str) -> Iterator[str]:
    for file in rules.ignoring(git, settings, path):
        try:
            text = file.read_text("utf-8", "surrogateescape")
        except OSError:
            continue
        yield from (line for row in text.splitlines() if (line := row.strip()) and line[0] not in "#!")


def _may_mean(pattern: str, parts: Collection[str]) -> bool:
    """Whether a pattern could match a path of these parts, or a folder that it lies in, by the pattern's last part."""
    last = _UNLIKE_OURS.sub("*", pattern.rstrip("/ ").rpartition("/")[2].casefold())
    return any(fnmatch.fnmatchcase(part, last) for part in parts) if _WILD.search(last) else last in parts
