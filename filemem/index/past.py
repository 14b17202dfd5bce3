"""Indexes of the memory as it was: one for each state of the store that was asked about, beside the one in use.

Rule: an index here is whole or not there. It is made aside, from hard links to the generation in use, so that what both
hold is neither read nor embedded again, and put in place by one rename. The last few that were asked are kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from filemem.index import generation, staging
from filemem.index.folder import unwritable
from filemem.index.generation import ENTRIES, VECTORS, WORDS, IndexDamaged

FOLDER = "past"
MOST = 4  # states of the store
_ASIDE = ".making-"
_DEAD = 3_600.0  # seconds after which what was begun is not being made any more


def place(root: Path, tree: str) -> Path:
    """Return the folder of the index of a state, whether it is there or not."""
    return root / FOLDER / tree


def begin(root: Path) -> Path:
    """Return a folder aside, holding the generation in use where that can be built upon; else an empty one.

    Args:
        root: the index folder.

    Raises:
        BrokenStore: the folder can not be written.
    """
    aside = root / FOLDER / f"{_ASIDE}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        aside.mkdir(parents=True)
        base = generation.load_seal(root)
        if base is None:
            return aside
        staged = staging.stage(aside, base, (WORDS, VECTORS))
        # A copy: the log is shared by generations that follow one another, and each appends to it.
        shutil.copyfile(base.folder / ENTRIES, staged / ENTRIES)
        staging.publish(aside, staged, base, base.seal._replace(files={ENTRIES: base.seal.files[ENTRIES]}))
    except IndexDamaged:
        _empty(aside)
    except FileNotFoundError:  # a writer has just replaced the generation
        _empty(aside)
    except OSError as error:
        raise unwritable(root, error) from error
    return aside


def finish(root: Path, aside: Path, tree: str) -> None:
    """Put what was made aside in place; where another process was faster, its index counts."""
    with contextlib.suppress(OSError):
        aside.rename(place(root, tree))
    _clear(root)


def discard(aside: Path) -> None:
    """Remove what was not put in place."""
    shutil.rmtree(aside, ignore_errors=True)


def used(root: Path, tree: str) -> None:
    """Note that an index was asked, so that it outlives others."""
    with contextlib.suppress(OSError):
        os.utime(place(root, tree))


def forget(root: Path, tree: str) -> None:
    """Remove the index of a state."""
    shutil.rmtree(place(root, tree), ignore_errors=True)


def forget_all(root: Path) -> None:
    """Remove the index of every state."""
    shutil.rmtree(root / FOLDER, ignore_errors=True)


def _clear(root: Path) -> None:
    """Remove all but the last few, and what was begun and never finished."""
    with contextlib.suppress(OSError):
        found = sorted((root / FOLDER).iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        ready = [folder for folder in found if not folder.name.startswith(_ASIDE)]
        dead = [f for f in found if f.name.startswith(_ASIDE) and f.stat().st_mtime < time.time() - _DEAD]
        for folder in (*ready[MOST:], *dead):
            shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
