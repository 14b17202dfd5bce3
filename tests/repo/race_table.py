"""Saves beside loops of real Git commands: what is lost, and what blocks the user.

`python -m tests.repo.race_table [ROUNDS [INTERVAL_MS]]` prints the table: runs, saves acknowledged and lost, stuck runs
(one record file that refuses five further commands of the user's), and commands of the user's that met a lock.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import environment, git, make_repo, sound, write

LOCKS = (
    "index.lock",
    "Another git process",
    "cannot lock ref",
    "Unable to create",
    "but expected",
    "unable to update",
)
OURS = re.compile(r"memory/[\w/]+\.md")
STUCK = 5


@dataclass
class User:
    """A person who runs commands, and again where Git says that something else is at work."""

    path: Path
    commands: int = 0
    locked: int = 0
    count: int = 0
    blocked: Counter[str] = field(default_factory=Counter)

    def run(self, *command: str) -> bool:
        """Run a command until it works, or is refused for another reason than a lock."""
        for _ in range(40):
            self.commands += 1
            done = subprocess.run(
                ["git", *command],
                cwd=self.path,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return True
            said = done.stderr + done.stdout
            if said.strip() and not any(lock in said for lock in LOCKS):
                self.blocked.update(set(OURS.findall(said)))
                return False
            self.locked += 1
            time.sleep(0.03)
        return False

    def file(self) -> str:
        """Write a new file, and add it."""
        self.count += 1
        name = f"u{self.count}.txt"
        write(self.path / name, "u\n")
        self.run("add", name)
        return name

    def edit(self) -> None:
        """Change a file."""
        with (self.path / "code.py").open("a") as file:
            file.write("x\n")

    def tidy(self) -> None:
        """End what was left half done."""
        for operation in ("merge", "rebase"):
            if any((self.path / ".git" / name).exists() for name in ("MERGE_HEAD", "rebase-merge")):
                self.run(operation, "--abort")


def commit(user: User) -> None:
    user.file()
    user.run("commit", "-q", "-m", "user")


def commit_all(user: User) -> None:
    user.edit()
    user.run("commit", "-q", "-a", "-m", "user")


def amend(user: User) -> None:
    commit(user)
    user.run("commit", "-q", "--amend", "--no-edit")


def stash(user: User) -> None:
    user.edit()
    if user.run("stash"):
        user.run("stash", "pop")
    user.run("checkout", "-q", "--", "code.py")


def reset(user: User) -> None:
    user.edit()
    user.run("reset", "-q", "--hard")


def switch(user: User) -> None:
    if not user.count:
        user.run("branch", "other")
        user.count += 1
    for branch in ("other", "main"):
        user.run("checkout", "-q", branch)
        time.sleep(0.05)


def forward(user: User) -> None:
    side(user)
    if not user.run("merge", "-q", "--no-edit", f"s{user.count}"):
        user.tidy()


def merge(user: User) -> None:
    side(user)
    name = f"s{user.count}"
    commit(user)
    if not user.run("merge", "-q", "--no-edit", name):
        user.tidy()


def side(user: User) -> None:
    user.run("checkout", "-q", "-b", f"s{user.count + 1}")
    commit(user)
    user.run("checkout", "-q", "main")


def rebase(user: User) -> None:
    commit(user)
    if not user.run("rebase", "-q", "-f", "HEAD~3"):
        user.tidy()


SCENARIOS: dict[str, Callable[[User], None]] = {
    "switch": switch,
    "fast-forward": forward,
    "merge": merge,
    "stash": stash,
    "reset": reset,
    "rebase": rebase,
    "commit": commit,
    "commit -a": commit_all,
    "amend": amend,
}


@dataclass(frozen=True)
class Row:
    """What became of one run."""

    scenario: str
    acknowledged: int
    waited: int
    lost: tuple[str, ...]
    stuck: int
    commands: int
    locked: int
    rows: tuple[str, ...]
    whole: bool


def race(scenario: str, rounds: int, interval: float, files: int = 300) -> Row:
    """Run one scenario for some rounds beside a process that saves every `interval` milliseconds."""
    top = Path(tempfile.mkdtemp(prefix="race-"))
    path = make_repo(top / "repo")
    for number in range(files):
        write(path / f"src/d{number % 20}/f{number}.py", f"x = {number}\n" * 20)
    write(path / "memory/decisions/t0/first.md", "# first\n")
    write(path / ".git/info/exclude", "stop\n")
    git(path, "add", ".")
    for number in range(3):
        git(path, "commit", "-q", "--allow-empty", "-m", f"start {number}")
    command = [sys.executable, "-m", "tests.repo.saver", str(path), "100000", str(interval)]
    with (top / "errors").open("w") as errors:
        saver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
        )
    time.sleep(0.8)
    user = User(path)
    for _ in range(rounds):
        SCENARIOS[scenario](user)
        time.sleep(random.uniform(0, 0.01))
    (path / "stop").touch()
    user.tidy()
    said = [line.split() for line in saver.communicate(timeout=120)[0].splitlines()]
    acknowledged = {words[1] for words in said if words[0] in ("ACK", "PENDING")}
    rows = tuple(
        row for row in git(path, "status", "--porcelain", "-uall").splitlines() if "memory/" in row
    )
    commit(user)  # does a person's next commit drop what the index has lost?
    held = set[str]()
    for branch in git(path, "for-each-ref", "--format=%(refname)", "refs/heads").split():
        held |= set(git(path, "ls-tree", "-r", "--name-only", branch).splitlines())
    lost = tuple(sorted(acknowledged - held))
    stuck = sum(1 for times in user.blocked.values() if times >= STUCK)
    waited = sum(1 for words in said if words[0] == "PENDING")
    row = Row(
        scenario,
        len(acknowledged),
        waited,
        lost,
        stuck,
        user.commands,
        user.locked,
        rows,
        sound(path),
    )
    shutil.rmtree(top, ignore_errors=True)
    return row


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where something was lost, or stuck."""
    rounds, interval = (
        (*map(int, arguments), 30, 100)[:2] if len(arguments) != 1 else (int(arguments[0]), 100)
    )
    print(
        f"{'scenario':14}{'acked':>6}{'waited':>7}{'lost':>5}{'stuck':>6}{'commands':>9}{'locked':>7}  left over"
    )
    bad = 0
    for scenario in SCENARIOS:
        row = race(scenario, rounds, interval)
        figures = f"{row.acknowledged:6}{row.waited:7}{len(row.lost):5}{row.stuck:6}{row.commands:9}{row.locked:7}"
        print(f"{scenario:14}{figures}  {' '.join((*row.lost, *row.rows)) or '-'}", flush=True)
        bad += bool(row.lost or row.stuck or not row.whole)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
