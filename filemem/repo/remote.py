"""The repository on the other side: fetching a branch from it, and pushing one to it. Never by force.

Of this repository's own configuration only the address counts: Git runs in a scratch repository. What the user's own
configuration and environment say (ssh, credentials, proxies) holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.run import ASKED, GitError
from filemem.repo.scratch import ask, scratch

if TYPE_CHECKING:
    from filemem.repo import Repo

_SETTINGS = (*ASKED, "http.lowSpeedLimit=1", "http.lowSpeedTime=60")
_FETCH = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
_PUSH = ("--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_RACED = ("fetch first", "non-fast-forward", "stale info", "cannot lock ref", "incorrect old value", "failed to update")


class Remote(NamedTuple):
    """A branch on the other side: what that is called here, the branch there, from where it is fetched, and to where
    it is pushed."""

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
    """Somebody was faster, here or there."""


def _named(repo: Repo, name: str, branch: str) -> Remote | None:
    url, push_url = (repo.settings.text(f"remote.{name}.{key}") for key in ("url", "pushurl"))
    return Remote(name, branch, url, push_url or url) if url else None


def usual(repo: Repo, branch: str) -> Remote | None:
    """A branch of the same name on `origin`, or on the only other side; None where that leaves it open."""
    found = repo.settings.names_of("remote", "url")
    return _named(repo, next(iter(found)) if len(found) == 1 else "origin", branch)


def upstream(repo: Repo, branch: str) -> Remote | None:
    """The branch that a branch follows; None where it follows none, or another one of this repository."""
    name, ref = (repo.settings.text(f"branch.{branch}.{key}") for key in ("remote", "merge"))
    return _named(repo, name, ref.removeprefix("refs/heads/")) if name and ref.startswith("refs/heads/") else None


def follow(repo: Repo, branch: str, where: Remote) -> None:
    """Make a branch follow one on the other side, as `git push -u` does."""
    repo.git.run("config", f"branch.{branch}.remote", where.name)
    repo.git.run("config", f"branch.{branch}.merge", f"refs/heads/{where.branch}")


def fetch(repo: Repo, remote: Remote, known: Iterable[str]) -> str | None:
    """Bring the objects of a branch here, and return its tip; None where the other side has no such branch.

    Args:
        repo: the repository.
        remote: the branch.
        known: commits that are here, so that only what is new is sent.

    Raises:
        BrokenStore: the other side cannot be reached, or refuses.
    """
    url, spec = _address(repo, remote.url), f"+refs/heads/{remote.branch}:refs/fetched"
    with scratch(repo, known, settings=_SETTINGS) as git:
        try:
            ask(git, "fetch", *_FETCH, "--", url, spec)
        except GitError as error:
            if "couldn't find remote ref" in error.stderr:
                return None
            raise _refused(repo, remote, error) from None
        return ask(git, "rev_parse", "--verify", "refs/fetched")


def push(repo: Repo, remote: Remote, commit: str) -> None:
    """Make a commit the tip of a branch on the other side, where it leads on from what is there.

    Raises:
        Raced: it does not: somebody else was faster.
        BrokenStore: the other side cannot be reached, or refuses.
    """
    url = _address(repo, remote.push_url)
    with scratch(repo, settings=_SETTINGS) as git:
        try:
            ask(git, "push", *_PUSH, "--", url, f"{commit}:refs/heads/{remote.branch}")
        except GitError as error:
            if any(word in error.stderr for word in _RACED):
                raise Raced(f"{remote.label} has moved on", "sync again") from None
            raise _refused(repo, remote, error) from None


def _address(repo: Repo, url: str) -> str:
    """The address as Git is given it; a relative path counts from the top of the work tree. Raises BrokenStore."""
    if not url.isprintable() or url.startswith("-"):
        raise BrokenStore(f"no address of a repository: {url[:200]!r}", "git remote set-url corrects it")
    local = url.removeprefix("file://")
    far = "://" in local or ":" in local.partition("/")[0]  # Git's own rule: `host:path` is another machine
    return url if far else str(Path(repo.work_tree, local).resolve())


def _refused(repo: Repo, remote: Remote, error: GitError) -> BrokenStore:
    """What the other side, or Git, said: without passwords, and without the hints that show how to force."""
    rows = dict.fromkeys(re.sub(r"^(remote|fatal|error): ", "", row.strip()) for row in error.stderr.splitlines())
    words = "; ".join([row for row in rows if row and not row.startswith(("hint:", "To ", "From "))][:4])
    told = f"{remote.name} ({remote.url}): {words or f'exit status {error.code}'}"
    hint = f"saves go on here, and the next `filemem sync` catches up; `{repo.git.places.by_hand} fetch` shows more"
    return BrokenStore(re.sub(r"(//[^/@:\s]*):[^/@\s]*@", r"\1:...@", told), hint)
