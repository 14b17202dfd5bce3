"""A system call of a command fails, at call n: refused means not committed, acknowledged means committed."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import environment, git, make_repo, sound
from tests.system.tools import FILEMEM, ok

EACH = 50  # faults of each command
CALLS = "write,trunc,fsync,rename,link,unlink,mkdir,chmod,openw"
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EMFILE)
DECISION = ("save", "decision", "--topic", "caching", "--decision", "Use it", "--reasoning", "Why")
COMMANDS = {
    "save": ("save", "observation", "--text", "A giraffe"),
    "update": ("update", "ID", "--outcome", "failed", "--reason", "Slow"),
    "forget": ("forget", "ID"),
    "sync": ("sync",),
    "import": ("import", "server-memory", "../in.jsonl", "--yes", "--all-projects"),
    "index": ("index", "--rebuild"),
}


def shim(folder: Path) -> Path:
    """The library that makes calls fail."""
    if not (compiler := shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("there is no C compiler")
    made = folder / "shim.so"
    source = Path(__file__).with_name("faultshim.c")
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", made, source, "-ldl"],
        capture_output=True,
        check=False,
    )
    if built.returncode:
        pytest.skip("the shim cannot be compiled here")
    return made


def prepare(top: Path) -> str:
    """A repository with one decision, another side, and something to import; the decision's id."""
    repo = make_repo(top / "repo")
    saved = ok(repo, *DECISION)
    git(top, "init", "-q", "--bare", "other.git")
    git(repo, "remote", "add", "origin", "../other.git")
    git(repo, "push", "-q", "-u", "origin", "main")
    ok(repo, "save", "observation", "--text", "Here alone")
    row = {"type": "entity", "name": "okapi", "entityType": "x", "observations": ["An okapi"]}
    (top / "in.jsonl").write_text(json.dumps(row) + "\n")
    return str(saved["id"])


def broken_promises(repo: Path, before: str, code: int, said: str, name: str) -> list[str]:
    """Which promises a command with a fault broke."""
    moved = git(repo, "rev-parse", "main") != before
    locks = [str(lock) for lock in (repo / ".git").rglob("*.lock") if "filemem" not in lock.parts]
    broken = [f"left {lock}" for lock in locks]
    if code and moved:
        broken.append("refused, but committed")
    commits = name in ("save", "update", "forget", "import")
    if commits and not code and not moved and not re.search("not committed|pending", said):
        broken.append("acknowledged, but not committed")
    if code == 3 or "defect" in said or "Traceback" in said:
        broken.append("called a defect")
    if not sound(repo):
        broken.append("not sound")
    return broken


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", COMMANDS)
def test_refused_means_not_committed_and_acknowledged_means_committed(
    tmp_path: Path, name: str
) -> None:
    library = shim(tmp_path)
    template = tmp_path / "template"
    record = prepare(template)
    words = [record if word == "ID" else word for word in COMMANDS[name]]
    top = tmp_path / "work"
    counter = tmp_path / "counter"

    def run(call: int, number: int) -> tuple[int, str, int]:
        shutil.rmtree(top, ignore_errors=True)
        shutil.copytree(template, top, symlinks=True)
        counter.write_bytes(bytes(4096))
        fault = {"LD_PRELOAD": str(library), "FAULT_DIR": str(top), "FAULT_CTR": str(counter)}
        fault |= {"FAULT_N": str(call), "FAULT_ERRNO": str(number), "FAULT_OPS": CALLS}
        done = subprocess.run(
            [FILEMEM, *words],
            cwd=top / "repo",
            env=environment(fault),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        count = int.from_bytes(counter.read_bytes()[:8], "little")
        return done.returncode, done.stdout + done.stderr, count

    code, said, total = run(0, errno.EIO)
    assert code == 0, said
    before = git(template / "repo", "rev-parse", "main")
    faults = int(os.environ.get("FILEMEM_FAULTS", EACH))
    calls = sorted(random.Random(20251120).sample(range(1, total + 1), min(faults, total)))
    failures = []
    for call, number in zip(calls, itertools.cycle(ERRORS), strict=False):
        code, said, _ = run(call, number)
        broken = broken_promises(top / "repo", before, code, said, name)
        failures += [(call, os.strerror(number), broken, re.sub(r"\s+", " ", said)[-300:])] * bool(
            broken
        )
    assert not failures, failures
