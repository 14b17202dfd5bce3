"""How many modules and functions one save, search, history or catch-up passes: `python -m tools.walk` prints them.

tests/system/test_walk.py holds the limits.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import filemem
from filemem.memory import Memory

PRODUCT = f"{Path(filemem.__file__).parent}/"


class Walk(NamedTuple):
    """What one call passed: modules as paths below the package, and functions as (module, name)."""

    modules: frozenset[str]
    functions: frozenset[tuple[str, str]]


def walked(call: Callable[[], object]) -> Walk:
    """Run something and note which functions of the product it enters, in every thread that it starts."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_flags & inspect.CO_OPTIMIZED  # a function, not a class that is imported
            and code.co_filename.startswith(PRODUCT)
            and not code.co_name.startswith("<")
        ):
            seen.add((code.co_filename.removeprefix(PRODUCT), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk(frozenset(module for module, _ in seen), frozenset(seen))


def journeys(folder: Path) -> dict[str, Walk]:
    """Walk what people do most, in a small repository that is made for it.

    Args:
        folder: an empty folder.
    """

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch", "main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    (folder / "lru.py").write_text("SIZE = 100\n", encoding="utf-8")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Begin")
    found: dict[str, Walk] = {}
    with Memory.open(folder) as memory:
        for number in range(8):
            memory.save(
                topic=f"topic {number % 4}",
                decision=f"Use thing {number}",
                reasoning="It is needed",
            )
        first = {
            "topic": "caching",
            "decision": "Use Redis",
            "reasoning": "Shared",
            "affects": ["lru.py"],
        }
        found["save"] = walked(lambda: memory.save(**first))
        second = {"topic": "caching", "decision": "Use an LRU cache", "reasoning": "One process"}
        found["save that replaces"] = walked(lambda: memory.save(**second))
        memory.search("warm up")
        found["search"] = walked(lambda: memory.search("where do we keep cached values"))
        found["history"] = walked(lambda: memory.history("caching"))
        head = memory.search("LRU cache").hits[0].id
        found["get"] = walked(lambda: memory.get(head))
        found["update"] = walked(lambda: memory.update(head, outcome="success", reason="Works"))
        found["why"] = walked(lambda: memory.why("lru.py"))
        memory.check()  # what is imported for other calls of its module is no part of this one
        found["check"] = walked(memory.check)
    git("switch", "--quiet", "--create", "other", "HEAD~3")
    with Memory.open(folder) as memory:
        git("switch", "--quiet", "main")
        found["catch-up"] = walked(lambda: memory.refresh(full=True))
        found["delete"] = walked(lambda: memory.delete(head))
    return found


def main() -> None:
    """Print a line for each journey."""
    with tempfile.TemporaryDirectory(prefix="filemem-walk-") as folder:
        for name, walk in journeys(Path(folder)).items():
            print(f"{name:<20} {len(walk.modules):>3} modules  {len(walk.functions):>4} functions")


if __name__ == "__main__":
    main()
