"""Lines of the files that agents are given, which read like decisions: listed for somebody to pick from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import documents

_FILES = ("CLAUDE.md", "AGENTS.md", "*/CLAUDE.md", "*/AGENTS.md")
_CURSOR = Path(".cursor/rules")
_CHOICE = re.compile(
    r"(?i)\b(?:use|prefer|choose|keep|write|store|run)\b.{1,200}?(?:,? not\b|\binstead of\b|\brather than\b|\bover\b)"
    r"|\b(?:never|do not|don't|avoid|always|must(?: not)?)\b.{0,200}\b(?:use|add|import|commit|call|write|store|run)\b"
)
_MARK = re.compile(r"[ \t>]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
_BEGIN, _END = (
    "<!-- filemem:begin",
    "<!-- filemem:end",
)  # around the block that `filemem init` writes


def read(work_tree: Path) -> Iterator[tuple[str, int, str]]:
    """The lines of a project's files for agents that read like decisions: file, number and text of each.

    None of code, and none of our own block.
    """
    found = [one for pattern in _FILES for one in documents(work_tree, pattern)]
    if (work_tree / _CURSOR).is_dir():
        found += [
            one
            for pattern in ("**/*.mdc", "**/*.md")
            for one in documents(work_tree / _CURSOR, pattern)
        ]
    for path, data in found:
        code, ours = False, False
        for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
            code ^= line.lstrip().startswith(("```", "~~~"))
            ours = line.startswith(_BEGIN) or (ours and not line.startswith(_END))
            plain = _MARK.sub("", line).strip()
            if not (code or ours) and _CHOICE.search(plain):
                yield path.relative_to(work_tree).as_posix(), number, plain[:300]
