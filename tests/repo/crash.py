"""One operation in a process of its own that dies at a named step, for the crash tests."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from filemem.memory.saving import Saved, Saver
from filemem.record.model import Outcome
from tests.support import make_saver, message

PATH = "decisions/cache/x.md"
RECORD = (
    b"---\nid: decision_cache_1763650000123_k3f9w2ma\ntype: decision\ntopic: cache\n---\n# Use a cache\n\nBecause.\n"
)
OUTCOME = Outcome(1_763_660_000_000, "failed", "evicts too early")
STEPS = (
    *("locked", "begin", "written", "synced", "journal", "blob", "record"),
    *("index-started", "objects", "index", "ref", "folders", "verified", "done"),
)
ACKNOWLEDGED = "acknowledged"
TOMBSTONE = ".forgotten/0000"


def run(repo: Path, operation: str, *, at: str = "", after: float = 0.0, everything: bool = False) -> list[str]:
    """Start an operation in a new process and kill it with -9.

    Args:
        repo: the repository.
        operation: `put`, `amend`, `remove`, `forget` or `restore` of PATH; the last two with TOMBSTONE.
        at: the step to die at; or
        after: seconds after the save has begun.
        everything: kill its Git processes too.

    Returns:
        The steps it reached, and `acknowledged` where it came so far.
    """
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        _operate(repo, operation, into, at, everything)
    os.close(into)
    said = b""
    if not at:
        said = os.read(out, 4096)
        time.sleep(after)
        kill(pid, everything)
    while chunk := os.read(out, 4096):
        said += chunk
    os.close(out)
    os.waitpid(pid, 0)
    return said.decode().split()


def _operate(repo: Path, operation: str, into: int, last: str, everything: bool) -> None:
    def step(name: str) -> None:
        os.write(into, f"{name}\n".encode())
        if name == last:
            kill(os.getpid(), everything)

    code = 1
    try:
        saver = make_saver(repo, steps=step)
        operate(saver, operation)
        step(ACKNOWLEDGED)
        saver.close()
        code = 0
    finally:
        os._exit(code)


def kill(pid: int, everything: bool) -> None:
    """Kill a process, and just before it those that it has started, which are out of reach of its group."""
    for each in (*(_children(pid) if everything else ()), pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(stat.parent.name))
    return found


def operate(saver: Saver, operation: str) -> Saved:
    """Do one operation of those that `run` knows."""
    if operation == "put":
        return saver.put(PATH, RECORD, message("decision(cache): Use a cache"))
    if operation == "amend":
        return saver.amend(PATH, message("decision(cache): failed"), outcome=OUTCOME)
    if operation == "restore":
        return saver.put(PATH, RECORD, message("decision(cache): restore"), tombstone=TOMBSTONE)
    mark = TOMBSTONE if operation == "forget" else ""
    return saver.remove(PATH, message("decision(cache): delete"), tombstone=mark)
