"""A reader without the right to write is answered from the index that is there; nothing is changed or told twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from filemem.memory import Memory

NOBODY = 65534
SETPRIV = shutil.which("setpriv")
CODE = """
import sys
from pathlib import Path
from filemem.memory import Memory
with Memory.open(Path(sys.argv[1])) as memory:
    found = memory.search("decide", mode="keyword", limit=9)
    print(len(found.hits), memory.check()[0], memory.keeper.degraded_reason, sep="|")
"""


@pytest.mark.skipif(
    not SETPRIV or os.geteuid() != 0, reason="it takes root and setpriv to become another user"
)
@pytest.mark.parametrize("logged", [False, True])
def test_another_user_reads_a_repository_that_nobody_may_write(
    repo: Path, tmp_path: Path, logged: bool
) -> None:
    with Memory.open(repo) as memory:
        for number in range(4):
            memory.save(topic=f"topic {number}", decision=f"Decide {number}", reasoning="Works")
        memory.refresh(full=True)
        if logged:  # what stands in the log alone is not missed
            memory.save(topic="late", decision="Decide late", reasoning="Works")
            answers = _as_nobody(repo, tmp_path)
        else:
            memory.close()
            answers = _as_nobody(repo, tmp_path)
    count = 5 if logged else 4
    assert answers.startswith(f"{count}|{count}|")


def _as_nobody(repo: Path, tmp_path: Path) -> str:
    home = tmp_path / "nobody"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    for folder in (repo, *repo.parents):
        if folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    subprocess.run(["chmod", "-R", "go+rX,go-w", str(repo)], check=True)
    safe = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    assert SETPRIV is not None
    user = [SETPRIV, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    done = subprocess.run(
        [*user, sys.executable, "-c", CODE, str(repo)],
        env={
            **os.environ,
            **safe,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "FILEMEM_CACHE": str(home / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
