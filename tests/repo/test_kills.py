"""Killed at random moments, saves lose nothing and leave nothing in the user's way.

Each step of a save, with each command of the user's beside it, has a test of its own in test_steps.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.repo.saver import Saver
from tests.support import environment, git, sound, write

WAYS = {  # the signal, and whether the whole group gets it
    "kill": (signal.SIGKILL, False),
    "kill the group": (signal.SIGKILL, True),
    "interrupt the group": (signal.SIGINT, True),
    "terminate the group": (signal.SIGTERM, True),
}
ENDS = 50
LETS_GO = 5.0  # seconds that Git's children have, on a busy machine, to see that we are gone


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_an_end_at_a_random_moment(repo: Path, way: str) -> None:
    for number in range(400):
        write(repo / f"f{number}.txt", "x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "start")
    number, group = WAYS[way]
    acknowledged: list[str] = []
    for turn in range(ENDS):
        command = [sys.executable, "-m", "tests.repo.saver", str(repo), "1000", "0", str(turn * 1000)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(), process_group=0
        )
        with process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(random.uniform(0, 0.1))
            (os.killpg if group else os.kill)(process.pid, number)
            lines = [first, *process.stdout.read().splitlines()]
        acknowledged += [line.split()[1] for line in lines if line.startswith("ACK ") and len(line.split()) == 3]
        let_go(repo)
        rows = git(repo, "status", "--porcelain", "-uall").splitlines()
        assert not [row for row in rows if row.startswith("D")], turn
        write(repo / "mine.txt", f"{turn}\n")
        git(repo, "add", "mine.txt")
        git(repo, "commit", "-q", "-m", "mine", "--", "mine.txt")
    saver = Saver(repo)
    saver.finish()
    saver.close()
    assert len(acknowledged) >= ENDS
    assert {*acknowledged} <= set(git(repo, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert sound(repo)


def let_go(repo: Path) -> None:
    """Wait until no lock stands in a repository."""
    stop = time.monotonic() + LETS_GO
    while any((repo / ".git").glob("*.lock")) or any((repo / ".git/refs").rglob("*.lock")):
        assert time.monotonic() < stop, "a lock stays"
        time.sleep(0.01)
