"""The dependencies that a shell command adds to a project, such as those of `npm install redis`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile
from typing import NamedTuple

# Program -> the manifest that it changes, and its verbs.
_ADD_COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "npm": ("package.json", ("install", "i", "add")),
    "pnpm": ("package.json", ("install", "i", "add")),
    "yarn": ("package.json", ("add",)),
    "bun": ("package.json", ("install", "i", "add")),
    "pip": ("requirements.txt", ("install",)),
    "pip3": ("requirements.txt", ("install",)),
    "pipenv": ("requirements.txt", ("install",)),  # no Pipfile is read
    "uv": ("pyproject.toml", ("add",)),
    "poetry": ("pyproject.toml", ("add",)),
    "pdm": ("pyproject.toml", ("add",)),
    "cargo": ("Cargo.toml", ("add",)),
    "go": ("go.mod", ("get",)),
    "gem": ("Gemfile", ("install",)),
    "bundle": ("Gemfile", ("add",)),
}
_MAX_LENGTH = 4_000  # characters of a command that is read
_SEPARATORS = ";&|()\n"
# What may stand in front of a program.
_LEADING_WORD = re.compile(r"sudo|env|time|python[0-9.]*|-\w+|[A-Za-z_]\w*=.*", re.DOTALL)
_SHELL = re.compile(r"(?:ba|z)?sh -[a-z]*c\Z")
# What is written to a command: no command of its own.
_HEREDOC = re.compile(
    r"(?<!<)<<-?[ ]*(['\"]?)(\w+)\1([^\n]*)\n(?:.*?^\t*\2$|.*)", re.DOTALL | re.MULTILINE
)
_NAME = re.compile(r"@?[A-Za-z][\w./\-]*")  # without a version or an extra behind it


class Addition(NamedTuple):
    """A dependency that comes in, and the name of its manifest."""

    name: str
    manifest: str


def parse_additions(command: str) -> list[Addition]:
    """Return what a command adds, as far as its words show it. Nothing is run or expanded."""
    if len(command) > _MAX_LENGTH:
        return []
    try:
        rows = [
            inner
            for row in _iter_commands(_HEREDOC.sub(r"\3", command))
            for inner in _iter_shell_commands(row)
        ]
    except ValueError:  # a quote that is not closed
        return []
    return [addition for row in rows for addition in _iter_additions(row)]


def _iter_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set(_SEPARATORS):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _iter_shell_commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands of `bash -lc '...'`, whose words some clients join; else the command."""
    if _SHELL.match(" ".join(words[:2])):
        yield from _iter_commands(" ".join(words[2:]))
    else:
        yield words


def _iter_additions(words: list[str]) -> Iterator[Addition]:
    """Yield what one command adds; `python -m pip` and `uv pip` are pip."""
    words = [*dropwhile(_LEADING_WORD.fullmatch, words)]
    if words[:2] == ["uv", "pip"]:
        words = words[1:]
    program, verb = (*words, "", "")[:2]
    manifest, verbs = _ADD_COMMANDS.get(program, ("", ()))
    if verb in verbs:
        for word in words[2:]:
            name = _NAME.match(word)
            if name:
                yield Addition(name[0], manifest)
