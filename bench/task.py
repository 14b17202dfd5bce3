"""One piece of indexing work in a process of its own: prints the seconds that it took, without the start.

Usage: task.py parse | reindex | catch-up FOLDER, a folder of a repository that has the default store.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from frontmatter.default_handlers import YAMLHandler

from filemem.memory import Memory


def parse(folder: Path) -> float:
    """Read every record and parse its YAML with the C loader, and do nothing with it; listing them does not count."""
    paths, handler = list((folder / "memory").rglob("*.md")), YAMLHandler()
    began = time.perf_counter()
    for path in paths:
        header, _ = handler.split(path.read_text(encoding="utf-8"))
        handler.load(header, Loader=yaml.CSafeLoader)
    return time.perf_counter() - began


def reindex(folder: Path) -> float:
    """Build the index where there is none."""
    shutil.rmtree(folder / ".git" / "filemem" / "index")
    return catch_up(folder)


def catch_up(folder: Path) -> float:
    """Bring the index in step, as a server does when the files have changed under it."""
    with Memory.open(folder, serving=True) as memory:
        began = time.perf_counter()
        memory.refresh(full=True)
        return time.perf_counter() - began


TASKS: Mapping[str, Callable[[Path], float]] = {
    "parse": parse,
    "reindex": reindex,
    "catch-up": catch_up,
}

if __name__ == "__main__":
    print(TASKS[sys.argv[1]](Path(sys.argv[2])))
