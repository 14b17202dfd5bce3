"""How things are measured: wall time, processor time of a child, resident memory, space on disk.

Rule: nothing here knows what is measured. Methods that are compared take turns within one run, because a shared
machine is twice as fast at one moment as at the next.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = 512  # bytes; the unit of st_blocks
KB = 1024


@dataclass(frozen=True, slots=True)
class Samples:
    """Times in seconds, of one method."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The value that one sample in twenty exceeds, interpolated."""
        if len(self.seconds) < 2:
            return self.p50
        return statistics.quantiles(self.seconds, n=20, method="inclusive")[18]

    def __str__(self) -> str:
        return f"{_ms(self.p50)} (p95 {_ms(self.p95)})"


def _ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def timed(action: Callable[[], object]) -> float:
    """Return how long a call took, in seconds of wall time."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def in_turns(methods: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Samples]:
    """Take one sample of every method, then the next of every method, and so on.

    Args:
        methods: by name; each returns its sample in seconds.
        rounds: samples of each.
    """
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            taken[name].append(method())
    return {name: Samples(tuple(values)) for name, values in taken.items()}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where child processes run: their folder and environment."""

    folder: Path
    environment: Mapping[str, str]

    def at(self, folder: Path) -> Surroundings:
        """The same environment in another folder."""
        return Surroundings(folder, self.environment)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(
                f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr.strip()[-2000:]}"
            )
        return done.stdout

    def cpu(self, *command: str, given: bytes = b"") -> float:
        """Run a command to its end, on an input; return the seconds of processor time that it and its children used."""
        child = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdin
        with child.stdin:
            child.stdin.write(given)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)} failed with {child.returncode}")
        return usage.ru_utime + usage.ru_stime


def clean_surroundings(folder: Path) -> Surroundings:
    """An environment that holds nothing of the user's: no settings of theirs, no `GIT_` variable.

    Args:
        folder: becomes the home folder; made if missing.
    """
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    beside = str(Path(sys.executable).parent)
    environment = {
        "HOME": str(home),
        "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return Surroundings(folder, environment)


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of a process and its children, in bytes: resident, its share of what is shared, and its own."""

    rss: int
    pss: int
    private: int

    def __str__(self) -> str:
        return (
            " / ".join(f"{value / 1e6:.0f}" for value in (self.rss, self.pss, self.private)) + " MB"
        )


def resident(pid: int) -> Resident:
    """Return what a process and its children hold in memory now."""
    total = [0, 0, 0]
    for one in (pid, *_children(pid)):
        fields = _fields(Path(f"/proc/{one}/smaps_rollup").read_text())
        total[0] += fields["Rss"]
        total[1] += fields["Pss"]
        total[2] += fields["Private_Clean"] + fields["Private_Dirty"]
    return Resident(*total)


def used(pid: int) -> float:
    """Return the seconds of processor time that a process has used so far, without its children."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _fields(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines()[1:])
    return {row[0].rstrip(":"): int(row[1]) * KB for row in rows}


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *_children(child)]
    return found


def allocated(folder: Path) -> int:
    """Return the bytes that the files in a folder take on disk, in whole blocks."""
    found = (os.lstat(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)  # noqa: PTH118
    return sum(file.st_blocks for file in found) * BLOCK
