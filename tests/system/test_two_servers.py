"""Two servers and a user work on one work tree at the same time: nothing is lost, nothing of anybody's is mixed."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

from tests.support import environment, git, make_repo, sound, write
from tests.system.tools import Answer, Talk, ok, talking, until

SAVES = 6


class User(threading.Thread):
    """Stages and commits files of their own in a loop, as a person at a terminal would; retries what meets a lock."""

    def __init__(self, repo: Path) -> None:
        super().__init__()
        self.repo, self.ended = repo, threading.Event()
        self.files: list[str] = []
        self.lost: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set():
            name = f"src/file{len(self.files)}.py"
            write(self.repo / name, f"print({len(self.files)})\n")
            if self.git("add", name) and self.git("commit", "-q", "-m", f"Add {name}"):
                self.files.append(name)
            time.sleep(0.05)

    def git(self, *arguments: str) -> bool:
        """Run a command; one that meets a lock must succeed when it is tried again."""
        for _ in range(50):
            done = subprocess.run(
                ["git", *arguments],
                cwd=self.repo,
                capture_output=True,
                text=True,
                env=environment(),
                check=False,
            )
            if done.returncode == 0:
                return True
            time.sleep(0.05)
        self.lost.append(f"{arguments}: {done.stderr}{done.stdout}")
        return False


def records(server: int) -> list[Answer]:
    """Decisions, checkpoints and observations in turn."""
    made: list[Answer] = []
    for number in range(SAVES):
        name = f"server {server} number {number}"
        decision = {
            "topic": f"s{server}_n{number}",
            "decision": f"Decide {name}",
            "reasoning": "Parallel work",
        }
        made.append(
            [decision, {"summary": f"Stop {name}"}, {"title": f"Note {name}", "text": "Parallel"}][
                number % 3
            ]
        )
    return made


def acknowledged(server: Talk, fields: Answer) -> Answer:
    """Save a record; beside commits without a pause a save may have to be tried again, and says so."""
    while True:
        failed, answer = server.ask("save", fields)
        if not failed:
            return answer
        assert answer["error"]["kind"] == "locked", answer


def test_two_servers_and_a_user(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    user = User(repo)
    answers: dict[int, list[Answer]] = {}
    with talking(repo) as one, talking(repo) as two:
        servers = {1: one, 2: two}

        def work(number: int) -> None:
            answers[number] = [acknowledged(servers[number], fields) for fields in records(number)]

        workers = [threading.Thread(target=work, args=(number,)) for number in servers]
        for thread in (user, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        user.ended.set()
        user.join()
        assert user.lost == []
        assert len(user.files) > 2
        saved = [answer for each in answers.values() for answer in each]
        assert len({answer["id"] for answer in saved}) == 2 * SAVES
        write(repo / "src/staged.py", "staged = True\n")
        assert user.git("add", "src/staged.py")
        paths = {answer["path"] for answer in saved}
        until(lambda: not ok(repo, "status")["pending"], 30)
        for path in paths - at_head(
            repo
        ):  # Git reads the index before it locks it: a commit may take out a record
            assert path in ok(repo, "status")["trouble"], (
                "but it is told, with the command that helps"
            )
            assert user.git("add", path)
            assert user.git("commit", "-q", "-m", "Add src/ again", path)
        for server in servers.values():
            until(lambda server=server: found(server) == {answer["id"] for answer in saved}, 30)  # type: ignore[misc]
    assert ok(repo, "status")["pending"] == []
    assert paths | set(user.files) <= at_head(repo), (
        "every acknowledged record and every file of the user"
    )
    assert git(repo, "status", "--porcelain") == "A  src/staged.py", (
        "what was staged is staged, the rest is clean"
    )
    check_commits(repo, paths)
    assert sound(repo)


def at_head(repo: Path) -> set[str]:
    return set(git(repo, "ls-tree", "-r", "--name-only", "HEAD").splitlines())


def found(server: Talk) -> set[str]:
    return {
        hit["id"]
        for hit in server.call("search", query="server number", limit=100, mode="keyword")[
            "results"
        ]
    }


def check_commits(repo: Path, paths: set[str]) -> None:
    """Each commit of ours holds records and nothing else, one each unless it says how many it holds."""
    for commit in git(repo, "rev-list", "HEAD").splitlines():
        subject = git(repo, "log", "-1", "--format=%s", commit)
        changed = git(
            repo, "diff-tree", "--root", "-r", "--name-only", "--no-commit-id", commit
        ).splitlines()
        if subject.startswith(("Add src/", "Begin")):
            continue  # the user's, which may take along a record of ours
        assert set(changed) <= paths
        expected = int(subject.split()[1]) if subject.startswith("memory: ") else 1
        assert len(changed) == expected, subject


def test_a_server_says_once_which_of_several_work_trees_it_is_for(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    with talking(repo) as talk:
        assert "notice" not in talk.call("search", query="x"), "there is no other"
    git(repo, "worktree", "add", "-q", "-b", "task", str(tmp_path / "other"))
    for place, branch in ((repo, "main"), (tmp_path / "other", "task")):
        with talking(place) as talk:
            told = f"This server reads and saves in the work tree {place}, on branch {branch}; "
            assert talk.call("search", query="x")["notice"].startswith(told)
            assert "notice" not in talk.call("search", query="x")
    git(repo, "worktree", "remove", str(tmp_path / "other"))
    with talking(repo) as talk:
        assert "notice" not in talk.call("search", query="x"), "the other is gone"
