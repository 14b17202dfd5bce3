"""Find lines in the files for agents that read like decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import iter_documents

_FILE_PATTERNS = ("CLAUDE.md", "AGENTS.md", "*/CLAUDE.md", "*/AGENTS.md")
_CURSOR_FOLDER = Path(".cursor/rules")
_CHOICE = re.compile(
    r"(?i)\b(?:use|prefer|choose|keep|write|store|run)\b"
    r".{1,200}?(?:,? not\b|\binstead of\b|\brather than\b|\bover\b)"
    r"|\b(?:never|do not|don't|avoid|always|must(?: not)?)\b"
    r".{0,200}\b(?:use|add|import|commit|call|write|store|run)\b"
)
_LIST_MARKER = re.compile(r"[ \t>]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
# Around the block that `filemem init` writes.
_BEGIN_MARKER = "<!-- filemem:begin"
_END_MARKER = "<!-- filemem:end"


def read(work_tree: Path) -> Iterator[tuple[str, int, str]]:
    """Yield the lines that read like decisions: file, line number and text.

    Code and the block that filemem writes are left out.
    """
    for path, data in _iter_files(work_tree):
        name = path.relative_to(work_tree).as_posix()
        text = data.decode("utf-8-sig", "replace")
        for number, line in _iter_prose(text):
            plain_line = _LIST_MARKER.sub("", line).strip()
            if _CHOICE.search(plain_line):
                yield name, number, plain_line[:300]


def _iter_files(work_tree: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files for agents of a project, each with its bytes."""
    for pattern in _FILE_PATTERNS:
        yield from iter_documents(work_tree, pattern)
    rules = work_tree / _CURSOR_FOLDER
    if rules.is_dir():
        yield from iter_documents(rules, "**/*.mdc")
        yield from iter_documents(rules, "**/*.md")


def _iter_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text, with numbers, outside code and the block of filemem."""
    is_in_code = False
    is_in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            is_in_code = not is_in_code
        if line.startswith(_BEGIN_MARKER):
            is_in_block = True
        elif line.startswith(_END_MARKER):
            is_in_block = False
        if not is_in_code and not is_in_block:
            yield number, line
