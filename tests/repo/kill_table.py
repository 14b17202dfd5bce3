"""Ends of a process at random moments of its saves: what is lost, and what is left in the user's way.

`python -m tests.repo.kill_table [KILLS]` prints the table: for each way to end a process, how often, saves
acknowledged and lost, locks left, staged deletions, and commands of the user's that were refused.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.repo.saver import Saver
from tests.support import environment, git, make_repo, sound, write

WAYS: dict[str, tuple[int, bool]] = {  # the signal, and whether the whole group gets it
    "kill": (signal.SIGKILL, False),
    "kill the group": (signal.SIGKILL, True),
    "interrupt the group": (signal.SIGINT, True),
    "terminate the group": (signal.SIGTERM, True),
}
LETS_GO = 5.0  # seconds that Git's children have, on a busy machine, to see that we are gone


@dataclass(frozen=True)
class Row:
    """What became of one row of ends."""

    way: str
    ends: int
    acknowledged: int
    lost: tuple[str, ...]
    locks: int
    deletions: int
    refused: int
    whole: bool


def kill(way: str, ends: int, files: int = 400) -> Row:
    """End a process that saves without a pause, some times over, at random moments."""
    top = Path(tempfile.mkdtemp(prefix="kill-"))
    path = make_repo(top / "repo")
    for number in range(files):
        write(path / f"f{number}.txt", "x\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "start")
    number, group = WAYS[way]
    acknowledged: list[str] = []
    locks = deletions = refused = 0
    for turn in range(ends):
        command = [
            sys.executable,
            "-m",
            "tests.repo.saver",
            str(path),
            "1000",
            "0",
            str(turn * 1000),
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
            process_group=0,
        )
        with process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(random.uniform(0, 0.1))
            (os.killpg if group else os.kill)(process.pid, number)
            lines = [first, *process.stdout.read().splitlines()]
        acknowledged += [
            line.split()[1] for line in lines if line.startswith("ACK ") and len(line.split()) == 3
        ]
        locks += not lets_go(path)
        rows = git(path, "status", "--porcelain", "-uall").splitlines()
        deletions += any(row.startswith("D") for row in rows)
        write(path / "mine.txt", f"{turn}\n")
        try:
            git(path, "add", "mine.txt")
            git(path, "commit", "-q", "-m", "mine", "--", "mine.txt")
        except AssertionError:
            refused += 1
    saver = Saver(path)
    saver.finish()
    saver.close()
    held = set(git(path, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    lost = tuple(each for each in acknowledged if each not in held)
    row = Row(way, ends, len(acknowledged), lost, locks, deletions, refused, sound(path))
    shutil.rmtree(top, ignore_errors=True)
    return row


def lets_go(path: Path) -> bool:
    """Wait until no lock stands in a repository; False where one stays."""
    stop = time.monotonic() + LETS_GO
    while any((path / ".git").glob("*.lock")) or any((path / ".git/refs").rglob("*.lock")):
        if time.monotonic() > stop:
            return False
        time.sleep(0.01)
    return True


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where something was lost, or left in the way."""
    ends = int(arguments[0]) if arguments else 50
    print(
        f"{'way':22}{'ends':>6}{'acked':>7}{'lost':>6}{'locks':>7}{'staged deletes':>16}{'refused':>9}"
    )
    bad = 0
    for way in WAYS:
        row = kill(way, ends)
        figures = f"{row.ends:6}{row.acknowledged:7}{len(row.lost):6}{row.locks:7}{row.deletions:16}{row.refused:9}"
        print(f"{way:22}{figures}", flush=True)
        bad += bool(row.lost or row.locks or row.deletions or row.refused or not row.whole)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
