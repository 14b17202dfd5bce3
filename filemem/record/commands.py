"""The dependencies that a shell command adds to a project, such as those of `npm install redis`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ADDING = {  # program -> the manifest that it changes, and its verbs
    "npm": ("package.json", "install i add"),
    "pnpm": ("package.json", "install i add"),
    "yarn": ("package.json", "add"),
    "bun": ("package.json", "install i add"),
    "pip": ("requirements.txt", "install"),
    "pip3": ("requirements.txt", "install"),
    "uv": ("pyproject.toml", "add"),
    "poetry": ("pyproject.toml", "add"),
    "pdm": ("pyproject.toml", "add"),
    "cargo": ("Cargo.toml", "add"),
    "go": ("go.mod", "get"),
    "gem": ("Gemfile", "install"),
    "bundle": ("Gemfile", "add"),
}
_BETWEEN = re.compile(r"&&|\|\||[;|&\n]")
_NAME = re.compile(r"@?[A-Za-z][\w./\-]*")  # without a version or an extra behind it


class Addition(NamedTuple):
    """A dependency that comes in, and the name of its manifest."""

    name: str
    manifest: str


def additions(command: str) -> list[Addition]:
    """Return what a command adds, as far as its words show it. Nothing is run or expanded."""
    rows = _BETWEEN.split(command)
    return [addition for row in rows for addition in _of_one(re.sub(r"[\"']", "", row).split())]


def _of_one(words: list[str]) -> Iterator[Addition]:
    """Yield what one command adds; `python -m pip` and `uv pip` are pip."""
    programs = [place for place, word in enumerate(words[:5]) if word in _ADDING]
    if not programs:
        return
    at = programs[-1] if words[programs[-1]] in ("pip", "pip3") else programs[0]
    manifest, verbs = _ADDING[words[at]]
    if words[at + 1 : at + 2] and words[at + 1] in verbs.split():
        for word in words[at + 2 :]:
            name = _NAME.match(word)
            if name:
                yield Addition(name[0], manifest)
