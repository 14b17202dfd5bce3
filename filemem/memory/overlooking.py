"""What no commit will have because Git is told to ignore it: rules that hide what is saved, and records that they hide.

Rule: whoever ignores records may mean it, so it is a hint; a rule that a branch brings for everybody is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from filemem.changes import Manifest
from filemem.files import is_private
from filemem.memory.reviewing import Since
from filemem.memory.store import Store
from filemem.record import Problem

_RULE = re.compile(r"(.*?):(\d+): (.*)", re.DOTALL)
_OUTSIDE = ("/", "~", ".git/")  # how the files of rules begin that no branch has
_SAVED = {
    "decisions": "decisions/topic/20250101-title-k3f9w2ma.md",
    "checkpoints": "checkpoints/2025/01/20250101-title-k3f9w2ma.md",
    "observations": "observations/2025/01/01/20250101-title-k3f9w2ma.md",
}  # folder -> what a file that is saved there is called


class Hiding(NamedTuple):
    """A rule of Git's: its file, line and pattern, and the folders that it hides new records of."""

    file: str
    line: int
    pattern: str
    folders: tuple[str, ...]


def problems(store: Store, manifest: Manifest, left: Since | None) -> Iterator[Problem]:
    """Say what Git is told to ignore.

    Args:
        store: the parts.
        manifest: the records that are there.
        left: tell only of rules that came since then; None for everything.
    """
    hiding = _hiding(store)
    for rule in hiding:
        if left is None or _brought(store, rule, left):
            inside = store.files.holds(rule.file) and not rule.file.startswith(_OUTSIDE)
            path = store.files.inside(rule.file) if inside else ""
            at = store.shown(path) if inside else rule.file
            text = (
                f"what is saved in {', '.join(rule.folders)} stays uncommitted: "
                f"it is ignored by {at}:{rule.line}: {rule.pattern}"
            )
            line = rule.line if inside else 1
            yield Problem(path, line, "ignored", "hint" if left is None else "warning", text)
    if left is None:
        covered = {folder for rule in hiding for folder in rule.folders}
        for path in map(store.files.inside, store.repo.overlooked(store.files.store)):
            if path in manifest and not is_private(path) and path.split("/", 1)[0] not in covered:
                text = "is ignored by Git, so no commit has it: git add -f it, or take the rule out"
                yield Problem(path, 1, "ignored", "hint", text)


def _hiding(store: Store) -> list[Hiding]:
    found: dict[str, list[str]] = {}
    for folder, path in _SAVED.items():
        if rule := store.repo.ignored(store.files.named(path)):
            found.setdefault(rule, []).append(folder)
    parts = ((_RULE.fullmatch(rule), folders) for rule, folders in found.items())
    return [Hiding(match[1], int(match[2]), match[3], tuple(folders)) for match, folders in parts if match]


def _brought(store: Store, rule: Hiding, left: Since) -> bool:
    """Whether a rule is one of the project's own, and new since a branch left its base."""
    if rule.file.rpartition("/")[2] != ".gitignore" or rule.file.startswith(_OUTSIDE):
        return False
    before = store.repo.show(rule.file, left.commit) or b""
    return rule.pattern not in before.decode("utf-8", "surrogateescape").splitlines()
