"""Lines of the files for agents that read like decisions: a list to pick from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import documents

_FILES = ("CLAUDE.md", "AGENTS.md", "*/CLAUDE.md", "*/AGENTS.md")
_CURSOR = Path(".cursor/rules")
_CHOICE = re.compile(
    r"(?i)\b(?:use|prefer|choose|keep|write|store|run)\b"
    r".{1,200}?(?:,? not\b|\binstead of\b|\brather than\b|\bover\b)"
    r"|\b(?:never|do not|don't|avoid|always|must(?: not)?)\b"
    r".{0,200}\b(?:use|add|import|commit|call|write|store|run)\b"
)
_MARK = re.compile(r"[ \t>]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
# Around the block that `filemem init` writes.
_BEGIN = "<!-- filemem:begin"
_END = "<!-- filemem:end"


def read(work_tree: Path) -> Iterator[tuple[str, int, str]]:
    """The lines of a project's files for agents that read like decisions: file, number and text.

    None of code, and none of our own block.
    """
    for path, data in _files(work_tree):
        name = path.relative_to(work_tree).as_posix()
        for number, line in _prose(data.decode("utf-8-sig", "replace")):
            plain = _MARK.sub("", line).strip()
            if _CHOICE.search(plain):
                yield name, number, plain[:300]


def _files(work_tree: Path) -> Iterator[tuple[Path, bytes]]:
    """The files for agents of a project, each with its bytes."""
    for pattern in _FILES:
        yield from documents(work_tree, pattern)
    rules = work_tree / _CURSOR
    if rules.is_dir():
        yield from documents(rules, "**/*.mdc")
        yield from documents(rules, "**/*.md")


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text that are neither of code nor of our own block."""
    code = False
    ours = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith(("```", "~~~"))
        ours = line.startswith(_BEGIN) or (ours and not line.startswith(_END))
        if not (code or ours):
            yield number, line
