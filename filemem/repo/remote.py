"""The repository on the other side: fetching a branch from it, and pushing one to it. Never by force.

Network commands run in a bare scratch repository that borrows our objects. So of the repository's own configuration
they see the address and the format of objects, and nothing else: no programs, no refspecs, no hooks. What the user's
own configuration and environment say (ssh, credentials, proxies) holds. Nobody is asked for a password, and nothing
waits for longer than LIMIT, nor for one that says nothing: Git is always asked to tell of its progress.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.ending import unwinding
from filemem.errors import BrokenStore, Conflict
from filemem.repo.git import ASKED, Git, GitError
from filemem.repo.patience import Patience, listen
from filemem.repo.scratch import make_scratch, passing, quoted
from filemem.repo.settings import Settings

LIMIT = 600.0  # seconds for one fetch or push
SILENCE = 60.0  # seconds for which the other side may say nothing
HOOKS = 180.0  # the same for a push: what the other side runs then, such as checks, may be slow and silent
Tell = Callable[[str], object]  # told what Git says of its progress, and what is waited for

_USERS = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
_ALONE = ("--no-signed", "--recurse-submodules=no")  # what a push may hand on: commits, and nothing with them
_RACED = ("fetch first", "non-fast-forward", "stale info", "cannot lock ref", "incorrect old value", "failed to update")
_PROGRESS = re.compile(r"remote: ([A-Z][a-z]+ing [a-z ]+:|Total [0-9])")
_NO_BRANCH = "couldn't find remote ref"


class Remote(NamedTuple):
    """A branch on the other side.

    Args:
        name: what this repository calls the other one.
        branch: the branch there.
        url: where it is fetched from.
        push_url: where it is pushed to.
    """

    name: str
    branch: str
    url: str
    push_url: str

    @property
    def tracking(self) -> str:
        """The ref that remembers where the branch was."""
        return f"refs/remotes/{self.name}/{self.branch}"

    @property
    def label(self) -> str:
        """What to call the branch."""
        return f"{self.name}/{self.branch}"


class Raced(Conflict):
    """Somebody pushed since we fetched."""


def named(settings: Settings, name: str, branch: str) -> Remote | None:
    """The branch of a remote by its name; None where the remote has no address."""
    url = settings.text_of("remote", name, "url")
    push = settings.text_of("remote", name, "pushurl")
    return Remote(name, branch, url, push or url) if url else None


def upstream(settings: Settings, branch: str) -> Remote | None:
    """The branch that a branch follows; None where it follows none, or another one of this repository."""
    name, ref = settings.text_of("branch", branch, "remote"), settings.text_of("branch", branch, "merge")
    if not name or not ref or not ref.startswith("refs/heads/"):
        return None
    return named(settings, name, ref.removeprefix("refs/heads/"))


def usual(settings: Settings) -> str:
    """The remote that is meant where none is named: the only one, or `origin`; "" where that leaves it open."""
    names = settings.names_of("remote", "url")
    return names[0] if len(names) == 1 else "origin" if "origin" in names else ""


class Exchange(NamedTuple):
    """Talks to the other side.

    Args:
        git: of our repository.
        settings: its configuration.
        environment: the user's own, unlike what `git` sees.
        folder: for the scratch repository, and nobody else's.
        tell: told of progress, or None.
    """

    git: Git
    settings: Settings
    environment: Mapping[str, str]
    folder: Path
    tell: Tell | None = None

    def fetch(self, remote: Remote, known: Collection[str]) -> str | None:
        """Bring the objects of a branch here, and return its tip; None where the other side has no such branch.

        Args:
            remote: the branch.
            known: commits we have, so that only what is new is sent.

        Raises:
            BrokenStore: the other side cannot be reached, or refuses; says what Git said.
        """
        url = self._address(remote.url)
        spec = f"+refs/heads/{remote.branch}:refs/fetched"
        options = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=", "--progress")
        with self._scratch(remote, known) as scratch:
            try:
                self._run(scratch, self._patience(remote, SILENCE), "fetch", *options, "--", url, spec)
            except GitError as error:
                if _NO_BRANCH in error.stderr:
                    return None
                raise self._told(remote, error, f"fetch {remote.name}") from None
            return scratch.run("rev-parse", "--verify", "refs/fetched").decode().strip()

    def push(self, remote: Remote, commit: str) -> None:
        """Make a commit the tip of a branch on the other side, where it leads on from what is there.

        Raises:
            Raced: it does not: somebody else was faster.
            BrokenStore: the other side cannot be reached, or refuses.
        """
        url = self._address(remote.push_url)
        options = ("--porcelain", "--progress", "--no-verify", "--no-follow-tags", *_ALONE)
        spec = f"{commit}:refs/heads/{remote.branch}"
        with self._scratch(remote, ()) as scratch:
            try:
                self._run(scratch, self._patience(remote, HOOKS), "push", *options, "--", url, spec)
            except GitError as error:
                if any(word in error.stderr for word in _RACED):
                    raise Raced(f"{remote.label} has moved on") from None
                raise self._told(remote, error, f"push {remote.name} HEAD:{remote.branch}") from None

    def _patience(self, remote: Remote, silence: float) -> Patience:
        return Patience(f"{remote.name} ({_public(remote.url)})", LIMIT, silence, self.tell)

    def _address(self, url: str) -> str:
        """The address as Git is given it.

        A relative path counts from the top of this work tree, as for Git; where it leads nowhere, from that of the main
        one, for which it was written.

        Raises:
            BrokenStore: it is no plain address, or a folder that came with the repository: its hooks would run.
        """
        if not url.isprintable() or url.startswith("-"):
            raise BrokenStore(f"no address of a repository: {url[:200]!r}", "git remote set-url corrects it")
        local = url.removeprefix("file://")
        if "://" in local or ":" in local.partition("/")[0]:  # Git's own rule: `host:path` is another machine
            return url
        places = self.git.places
        tops = (places.work_tree, *([places.common_dir.parent] if places.common_dir.name == ".git" else []))
        top = next((top for top in tops if Path(top, local).exists()), places.work_tree)
        place = Path(top, local).resolve()
        if any(place.is_relative_to(folder) for folder in (*tops, places.common_dir)):
            raise BrokenStore(
                f"the remote {url} is a folder of this repository itself", "git remote set-url corrects it"
            )
        return url if top == places.work_tree else str(place)

    @contextlib.contextmanager
    def _scratch(self, remote: Remote, known: Collection[str]) -> Iterator[Git]:
        """A scratch repository, for one command; what it fetches comes to our objects."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with passing(self.folder) as folder:
            refs = {f"refs/known/{number}": oid for number, oid in enumerate(known)}
            rows = _config(remote, self.settings)
            make_scratch(folder, self.git.places, self.settings, refs, head="refs/heads/none", rows=rows)
            yield self.network(folder)

    def network(self, folder: Path) -> Git:
        """Git in the scratch repository, allowed to reach others."""
        users = {name: self.environment[name] for name in _USERS if name in self.environment}
        if not {"GIT_SSH", "GIT_SSH_COMMAND"} & users.keys() and not self.settings.text(
            "core.sshCommand", user_only=True
        ):
            users["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes"
        objects = {"GIT_OBJECT_DIRECTORY": str(self.git.places.common_dir / "objects")}
        environment = {**self.git.environment, **users, **objects, "GIT_NO_LAZY_FETCH": "0"}
        return self.git._replace(
            places=self.git.places._replace(git_dir=folder, common_dir=folder), environment=environment, switches=ASKED
        )

    def _run(self, scratch: Git, patience: Patience, *arguments: str) -> None:
        with unwinding():
            listen(scratch.start(*arguments, apart=True), arguments[0], patience)

    def _told(self, remote: Remote, error: GitError, command: str) -> BrokenStore:
        """What the other side, or Git, said: without the hints that tell how to force; `command` would tell more."""
        rows = [row.strip() for row in re.split(r"[\r\n]", error.stderr) if not _PROGRESS.match(row)]
        marks = ("remote: ", "fatal: ", "error: ", "!\t", "ssh: ", "Permission denied", "no answer")
        said = [re.sub(r"^(remote|fatal|error): ", "", row).replace("\t", " ") for row in rows if row.startswith(marks)]
        words = "; ".join(dict.fromkeys(said[:4])) or f"exit status {error.code}"
        more = f"{self.git.places.by_hand} {command}"
        hint = f"saves go on here, and the next `filemem sync` catches up; `{more}` tells more"
        return BrokenStore(f"{remote.name} ({_public(remote.url)}): {words}", hint)


def _config(remote: Remote, settings: Settings) -> list[str]:
    name, promising = quoted(remote.name), settings.text("extensions.partialclone")
    rows = [f"partialclone = {quoted(promising)}"] if promising else []
    rows += [f"[remote {name}]", f"url = {quoted(remote.url)}"]
    return [*rows, "promisor = true"] if promising == remote.name else rows


def _public(url: str) -> str:
    """An address without the password that may stand in it."""
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:...@", url)
