"""List the dependencies that a shell command adds to a project, such as `npm install redis`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
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
# A word in front of a program.
_LEADING_WORD = re.compile(r"sudo|env|time|python[0-9.]*|-\w+|[A-Za-z_]\w*=.*", re.DOTALL)
_SHELL = re.compile(r"(?:ba|z)?sh -[a-z]*c\Z")
# Text that is written to a command.
_HEREDOC = re.compile(
    r"(?<!<)<<-?[ ]*(['\"]?)(\w+)\1([^\n]*)\n(?:.*?^\t*\2$|.*)", re.DOTALL | re.MULTILINE
)
_NAME = re.compile(r"@?[A-Za-z][\w./\-]*")  # without a version or an extra behind it


class Addition(NamedTuple):
    """A dependency that a command adds, and the name of its manifest."""

    name: str
    manifest: str


def parse_additions(command: str) -> list[Addition]:
    """Return the dependencies that a command adds, by its words. Nothing is run or expanded."""
    if len(command) > _MAX_LENGTH:
        return []
    rows: list[list[str]] = []
    try:
        for row in _iter_commands(_HEREDOC.sub(r"\3", command)):
            rows += _iter_shell_commands(row)
    except ValueError:  # a quote that is not closed
        return []
    additions: list[Addition] = []
    for row in rows:
        additions += _iter_additions(row)
    return additions


def _iter_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if not word.strip(_SEPARATORS):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _iter_shell_commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands of `bash -lc '...'`, whose words some clients join; else the command."""
    program = " ".join(words[:2])
    if _SHELL.match(program):
        script = " ".join(words[2:])
        yield from _iter_commands(script)
    else:
        yield words


def _iter_additions(words: list[str]) -> Iterator[Addition]:
    """Yield what one command adds; `python -m pip` and `uv pip` are pip."""
    start = 0
    while start < len(words) and _LEADING_WORD.fullmatch(words[start]):
        start += 1
    if words[start : start + 2] == ["uv", "pip"]:
        start += 1
    command = words[start:]
    if len(command) < 2:
        return
    manifest, verbs = _ADD_COMMANDS.get(command[0], ("", ()))
    if command[1] not in verbs:
        return
    for word in command[2:]:
        name = _NAME.match(word)
        if name:
            yield Addition(name[0], manifest)
