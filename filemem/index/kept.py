"""Generations kept for commits that HEAD has left: coming back to one costs a look at the files, not a new index.

Rule: kept or not changes no answer. What is kept may be gone or damaged at any time; then it is not taken up.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from filemem.index import generation, staging
from filemem.index.folder import unwritable
from filemem.index.generation import ENTRIES, VECTORS, WORDS, Generation, IndexDamaged

_FOLDER = "kept"
_MOST = 3  # commits; a generation shares its larger files with the ones before and after it


def place(root: Path, head: str) -> Path:
    """Return the folder of what is kept for a commit, whether it is there or not."""
    return root / _FOLDER / head


def keep(root: Path, current: Generation, head: str) -> None:
    """Keep the words and the manifest of the generation in use under the commit that it was right for.

    Raises:
        BrokenStore: the folder can not be written.
    """
    target = place(root, head)
    try:
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(exist_ok=True)
        staged = staging.stage(root, current, (WORDS,))
        # A copy: the log is shared by generations that follow one another, and each appends to it.
        shutil.copyfile(current.folder / ENTRIES, staged / ENTRIES)
        staging.seal(staged, current.seal)
        staged.rename(target)
        kept = sorted(target.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for old in kept[:-_MOST]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise unwritable(root, error) from error


def forget(root: Path) -> None:
    """Forget what is kept: it is right for its commits no longer."""
    shutil.rmtree(root / _FOLDER, ignore_errors=True)


def take_up(root: Path, current: Generation, head: str) -> bool:
    """Put the generation that is kept for a commit in use again; say whether there is one.

    Args:
        root: the index folder.
        current: the generation in use; its vectors stay, as they belong to content.
        head: the commit.

    Raises:
        BrokenStore: the folder can not be written.
        IndexDamaged: the vectors in use are.
    """
    folder = place(root, head)
    try:
        kept = generation.opened(folder)
        kept.check(WORDS)
        kept.check(ENTRIES)
    except IndexDamaged:
        return False
    if kept.seal.model != current.seal.model:
        return False
    current.check(VECTORS)
    try:
        staged = staging.stage(root, kept, (WORDS, ENTRIES))
        for name in current.seal.files:
            if name.startswith(VECTORS):
                staging.link(current.folder / name, staged / name)
        staging.publish(root, staged, kept, kept.seal._replace(files={ENTRIES: kept.seal.files[ENTRIES]}))
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise unwritable(root, error) from error
    return True
