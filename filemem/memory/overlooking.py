"""What is passed over: records that Git is told to ignore, so that no commit has them, and such as are read no longer.

Rule: whoever ignores records may mean it, so it is a hint; what a branch brings for everybody is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from filemem.config import REPOSITORY_FILE, Config, stated_store
from filemem.files import foreign, is_listed, is_private
from filemem.memory.merging import HEAD, Merge
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


def problems(store: Store, there: Collection[str], merge: Merge | None) -> Iterator[Problem]:
    """Say what Git is told to ignore.

    Args:
        store: the parts.
        there: the paths of all records.
        merge: tell only of rules that it brings; None for everything.
    """
    hiding = _hiding(store)
    for rule in hiding:
        if merge is None or _brought(store, rule, merge):
            inside = store.files.holds(rule.file) and not rule.file.startswith(_OUTSIDE)
            path = store.files.inside(rule.file) if inside else ""
            at = store.shown(path) if inside else rule.file
            text = (
                f"what is saved in {', '.join(rule.folders)} stays uncommitted: "
                f"it is ignored by {at}:{rule.line}: {rule.pattern}"
            )
            line = rule.line if inside else 1
            yield Problem(path, line, "ignored", "hint" if merge is None else "warning", text)
    if merge is None:
        covered = {folder for rule in hiding for folder in rule.folders}
        for path in map(store.files.inside, store.repo.overlooked(store.files.store)):
            if path in there and not is_private(path) and path.split("/", 1)[0] not in covered:
                text = "is ignored by Git, so no commit has it: git add -f it, or take the rule out"
                yield Problem(path, 1, "ignored", "hint", text)


def _hiding(store: Store) -> list[Hiding]:
    found: dict[str, list[str]] = {}
    for folder, path in _SAVED.items():
        if rule := store.repo.ignored(store.files.named(path)):
            found.setdefault(rule, []).append(folder)
    parts = ((_RULE.fullmatch(rule), folders) for rule, folders in found.items())
    return [Hiding(match[1], int(match[2]), match[3], tuple(folders)) for match, folders in parts if match]


def _brought(store: Store, rule: Hiding, merge: Merge) -> bool:
    """Whether a rule is one of the project's own that the base does not have, and will have with the merge."""
    if rule.file.rpartition("/")[2] != ".gitignore" or rule.file.startswith(_OUTSIDE):
        return False
    here, there, merged = (
        (repo.show(rule.file, commit) or b"").decode("utf-8", "surrogateescape").splitlines()
        for repo, commit in ((store.repo, HEAD), (store.repo, merge.base), (merge.store.repo, HEAD))
    )
    return rule.pattern not in there and (rule.pattern in merged or rule.pattern not in here)


def hidden(store: Store, merge: Merge) -> Iterator[Problem]:
    """Say which records of the base would be read no longer although they are there.

    Args:
        store: the parts.
        merge: of this branch.
    """
    inside, folder = store.files.inside, store.files.store
    past, history = (merge.store.repo.history_at(commit) for commit in (merge.base, HEAD))
    for row in past.between(merge.base, HEAD, folder):
        if row.status == "R" and is_listed(inside(row.before)) and not is_listed(inside(row.path)):
            was = store.shown(inside(row.before))
            text = f"was the record {was}, and under this name it is read no longer: move it back, or forget it"
            yield Problem(inside(row.path), 1, "hidden-record", "warning", text)
    brought = history.repositories(folder) - past.repositories(folder)
    yield from (foreign(inside(path)) for path in brought if store.files.holds(path))
    if lost := _left_behind(store, merge):
        yield Problem("", 1, "hidden-record", "warning", f"{lost}: move them, or leave the store as it was")


def _left_behind(store: Store, merge: Merge) -> str:
    """That the base has its records elsewhere, and some that are not in the store of this branch, or ""."""
    was, now = (
        stated_store(repo.show(REPOSITORY_FILE, commit) or b"") or Config().store
        for repo, commit in ((store.code, merge.code or HEAD), (merge.store.code, HEAD))
    )
    inside = store.repo is store.code
    if not merge.code or (inside and (was == now or now != store.files.store)):
        return ""
    known = merge.store.repo.history.listing(store.files.store)
    kept = {*known.values(), *map(store.files.inside, known)}  # as it was, or under the name that it had
    listing = {path.removeprefix(f"{was}/"): blob for path, blob in store.code.history.listing(was, merge.code).items()}
    lost = [path for path, blob in listing.items() if is_listed(path) and kept.isdisjoint((path, blob))]
    told = f"{len(lost)} of its records {'is' if len(lost) == 1 else 'are'} not in {store.name}"
    before = f"{REPOSITORY_FILE} named the store {was}" if inside else f"{was} was no repository of its own"
    return f"{before}, and {told}" if lost else ""
