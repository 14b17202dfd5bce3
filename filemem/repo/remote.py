"""The repository on the other side: fetching a branch from it, and pushing one to it. Never by force.

Of this repository's own configuration only the address counts: Git runs in a scratch repository. What the user's own
configuration and environment say (ssh, credentials, proxies) holds. Nobody is asked for a password, and nothing waits
for ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.porcelain import ask, scratch
from filemem.repo.run import ASKED, GitError

if TYPE_CHECKING:
    from git import Git as Verbs

    from filemem.repo import Repo

LIMIT = 600.0  # seconds for one fetch or push
Tell = Callable[[str], object]  # told what Git says of its progress
_PATIENT = ("http.lowSpeedLimit=1", "http.lowSpeedTime=60")
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=20"
_FETCH = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", "--progress")
_PUSH = ("--porcelain", "--progress", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_RACED = ("fetch first", "non-fast-forward", "stale info", "cannot lock ref", "incorrect old value", "failed to update")
_NO_BRANCH = "couldn't find remote ref"
_TO_UPSTREAM = ("upstream", "tracking")  # of `push.default`: to the branch that is followed, whatever its name
_PROGRESS = re.compile(r"(remote: )?\w[\w ]*: +\d+% ")


class Remote(NamedTuple):
    """A branch on the other side: what the other side is called here, the branch there, where it is fetched from, and
    where it is pushed to."""

    name: str
    branch: str
    url: str
    push_url: str

    @property
    def tracking(self) -> str:
        """The reference that remembers where the branch was."""
        return f"refs/remotes/{self.name}/{self.branch}"

    @property
    def label(self) -> str:
        """What to call the branch."""
        return f"{self.name}/{self.branch}"


class Raced(Conflict):
    """Somebody pushed since we fetched."""


def names(repo: Repo) -> tuple[str, ...]:
    """The names of the other sides, `origin` first."""
    return tuple(sorted(repo.settings.names_of("remote", "url"), key=lambda name: name != "origin"))


def _named(repo: Repo, name: str, branch: str) -> Remote | None:
    url, push_url = (repo.settings.text_of("remote", name, key) for key in ("url", "pushurl"))
    return Remote(name, branch, url, push_url or url) if url else None


def usual(repo: Repo, branch: str) -> Remote | None:
    """A branch of the same name on the only other side, or on `origin`; None where that leaves it open."""
    found = names(repo)
    return _named(repo, found[0], branch) if found and (len(found) == 1 or found[0] == "origin") else None


def upstream(repo: Repo, branch: str) -> Remote | None:
    """The branch that a branch follows; None where it follows none, or another one of this repository."""
    name, ref = (repo.settings.text_of("branch", branch, key) for key in ("remote", "merge"))
    return _named(repo, name, ref.removeprefix("refs/heads/")) if name and ref.startswith("refs/heads/") else None


def follow(repo: Repo, branch: str, where: Remote) -> None:
    """Make a branch follow one on the other side, as `git push -u` does."""
    repo.git.run("config", f"branch.{branch}.remote", where.name)
    repo.git.run("config", f"branch.{branch}.merge", f"refs/heads/{where.branch}")


def elsewhere(repo: Repo, branch: str, where: Remote) -> str:
    """Why `git push` itself would not push a branch to the one that it follows, or ""."""
    stated = repo.settings.text_of("branch", branch, "pushremote") or repo.settings.text("remote.pushdefault")
    if stated and stated != where.name:
        return f"this branch is pushed to {stated}"
    if branch != where.branch and (repo.settings.text("push.default") or "").lower() not in _TO_UPSTREAM:
        return f"this branch, {branch}, follows one of another name, {where.label}"
    return ""


def fetch(repo: Repo, remote: Remote, known: Iterable[str], tell: Tell | None = None) -> str | None:
    """Bring the objects of a branch here, and return its tip; None where the other side has no such branch. Raises
    BrokenStore.

    Args:
        repo: the repository.
        remote: the branch.
        known: commits that are here, so that only what is new is sent.
        tell: told what Git says of its progress.
    """
    url, spec = _address(repo, remote.url), f"+refs/heads/{remote.branch}:refs/fetched"
    with _network(repo, known) as git:
        try:
            _talk(git, "fetch", (*_FETCH, "--", url, spec), tell)
        except GitError as error:
            if _NO_BRANCH in error.stderr:
                return None
            raise _refused(repo, remote, error, f"fetch {remote.name}") from None
        return ask(git, "rev_parse", "--verify", "refs/fetched")


def push(repo: Repo, remote: Remote, commit: str, tell: Tell | None = None) -> None:
    """Make a commit the tip of a branch on the other side, where it leads on from what is there.

    Raises:
        Raced: it does not: somebody else was faster.
        BrokenStore: the other side cannot be reached, or refuses.
    """
    url, spec = _address(repo, remote.push_url), f"{commit}:refs/heads/{remote.branch}"
    with _network(repo, ()) as git:
        try:
            _talk(git, "push", (*_PUSH, "--", url, spec), tell)
        except GitError as error:
            if any(word in error.stderr for word in _RACED):
                raise Raced(f"{remote.label} has moved on", "sync again") from None
            raise _refused(repo, remote, error, f"push {remote.name} HEAD:{remote.branch}") from None


@contextmanager
def _network(repo: Repo, known: Iterable[str]) -> Iterator[Verbs]:
    with scratch(repo, known, settings=(*ASKED, *_PATIENT)) as (git, _):
        git.update_environment(GIT_NO_LAZY_FETCH="0")
        if not {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys():
            try:
                ask(git, "config", "--get", "core.sshCommand")  # the user's: it is all that counts here
            except GitError:
                git.update_environment(GIT_SSH_COMMAND=_SSH)
        yield git


def _talk(git: Verbs, verb: str, arguments: tuple[str, ...], tell: Tell | None) -> None:
    """Run a verb that reaches others, and pass on its progress. Raises GitError with all that it said."""
    from git import GitCommandError
    from git.cmd import handle_process_output

    said = list[str]()

    def hear(line: str) -> None:
        if not _PROGRESS.match(line):
            said.append(line.rstrip("\n"))
        elif tell:
            tell(line.rstrip() + ("\n" if line.rstrip().endswith("done.") else "\r"))

    process: Any = getattr(git, verb)(*arguments, as_process=True, universal_newlines=True)
    try:
        handle_process_output(process, said.append, hear, decode_streams=False, kill_after_timeout=LIMIT)
        process.wait()
    except GitCommandError as error:
        code = error.status if isinstance(error.status, int) else -1
        raise GitError(verb, code, "\n".join(said) or f"no answer in {LIMIT:g} seconds") from None
    except BaseException:
        if process.proc is not None:
            process.proc.terminate()
        raise


def _address(repo: Repo, url: str) -> str:
    """The address as Git is given it; a relative path counts from the top of the work tree, or of the main one. Raises
    BrokenStore.
    """
    if not url.isprintable() or url.startswith("-"):
        raise BrokenStore(f"no address of a repository: {url[:200]!r}", "git remote set-url corrects it")
    local = url.removeprefix("file://")
    if "://" in local or ":" in local.partition("/")[0]:  # Git's own rule: `host:path` is another machine
        return url
    tops = (repo.work_tree, *([repo.common_dir.parent] if repo.common_dir.name == ".git" else []))
    place = next((top for top in tops if Path(top, local).exists()), repo.work_tree).joinpath(local).resolve()
    if any(place.is_relative_to(folder) for folder in (*tops, repo.common_dir)):
        raise BrokenStore(f"the remote {url} is a folder of this repository itself", "git remote set-url corrects it")
    return str(place)


def _refused(repo: Repo, remote: Remote, error: GitError, command: str) -> BrokenStore:
    """What the other side, or Git, said: without the hints that show how to force."""
    rows = [re.sub(r"^(remote|fatal|error): ", "", row.strip()) for row in error.stderr.splitlines()]
    marks = ("hint:", "To ", "Done", "From ")
    words = "; ".join([row for row in dict.fromkeys(rows) if row and not row.startswith(marks)][:4])
    public = re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:...@", remote.url)
    hint = f"saves go on here, and the next `filemem sync` catches up; `{repo.git.places.by_hand} {command}` shows more"
    return BrokenStore(f"{remote.name} ({public}): {words or f'exit status {error.code}'}", hint)
