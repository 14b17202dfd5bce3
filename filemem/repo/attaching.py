"""A branch that holds records alone, and the linked work tree of its own that it is checked out in.

Git makes such a work tree in many steps and writes its index last. So one without an index was never whole: nothing of
the user's was committed from it, and where its making died it is ended, or begun anew.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore, Conflict, Locked, NotFound
from filemem.repo import moving, state, trees
from filemem.repo.discovery import Places, find
from filemem.repo.git import Git, GitError
from filemem.repo.message import Message, Stamp, commit_bytes
from filemem.repo.objects import Object, Objects
from filemem.repo.processes import git_at_work
from filemem.repo.refs import LET_GO, held
from filemem.repo.settings import Identity, Settings
from filemem.repo.unfinished import Unfinished

_BEGUN = "initializing"  # Git's own word in the `locked` file of a work tree that it is making


class Attaching(NamedTuple):
    """What `init` asks of a repository for such a branch.

    Args:
        git: runs Git.
        settings: its configuration.
        objects: its object database.
        who: author and committer.
    """

    git: Git
    settings: Settings
    objects: Objects
    who: Callable[[], tuple[Identity, Identity]]

    # the branch

    def tip(self, branch: str) -> str:
        """The tip of a branch of this repository; "" where there is none."""
        found = self.objects.read(f"refs/heads/{branch}")
        return found.oid if found else ""

    def begin(self, branch: str, files: Mapping[str, bytes], subject: str, at: int) -> None:
        """Make a branch that has nothing in common with others, holding a few files.

        Raises:
            Conflict: there is such a branch.
            BadInput: Git does not know who commits.
        """
        if self.tip(branch):
            raise Conflict(f"there is a branch {branch} already", "give another name")
        self.make_branch(branch, self._commit(None, files, subject, at))

    def complete(self, branch: str, files: Mapping[str, bytes], subject: str, at: int) -> tuple[str, ...]:
        """Commit to a branch that no work tree has checked out those of some files that it lacks; returns which.

        Raises:
            BadInput: Git does not know who commits.
        """
        tip, read = self.objects.read(f"refs/heads/{branch}"), self.objects.tree
        lacking = {path: data for path, data in files.items() if tip and not trees.find(read, tip.tree, path)}
        if tip and lacking:
            self.make_branch(branch, self._commit(tip, lacking, subject, at), tip.oid)
        return tuple(lacking)

    def make_branch(self, branch: str, commit: str, before: str = "") -> None:
        """Make a branch, or move one on from a commit."""
        expected = before or "0" * len(commit)
        self.git.run("update-ref", "-m", "filemem: init", f"refs/heads/{branch}", commit, expected)

    def _commit(self, parent: Object | None, files: Mapping[str, bytes], subject: str, at: int) -> str:
        author, committer = self.who()
        blobs: dict[str, str | None] = {path: self.objects.write("blob", data) for path, data in files.items()}
        root, parents = (parent.tree, (parent.oid,)) if parent else (None, ())
        tree, data = trees.splice(self.objects.tree, self.objects.keep_tree, root, blobs)
        for each in data:
            self.objects.write("tree", each)
        text = str(Message(subject))
        return self.objects.write("commit", commit_bytes(tree, parents, Stamp(author, committer, at), text))

    # the work tree

    def refuse(self, branch: str, place: Path) -> None:
        """Refuse what cannot be checked out, or not there, before anything is changed.

        Raises:
            Conflict: something stands in the way.
            BrokenStore: the repository names programs that a checkout would run.
        """
        if programs := self.settings.own_programs:
            raise BrokenStore(
                f"a checkout would run {programs[0]}, which only this repository's own configuration names",
                f"if you trust it: {self.git.places.by_hand} worktree add {shlex.quote(str(place))} {branch}",
            )
        if os.path.lexists(place / ".git"):
            return
        common = self.git.places.common_dir
        if any(state.rebased(each) == branch for each in (common, *(common / "worktrees").glob("*"))):
            raise Conflict(f"the branch {branch} is being rebased in another work tree", "end that, then init again")
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir() or any(place.iterdir())):
            raise Conflict(f"{place} is there already, and not empty", "move it away first")

    def attach(self, branch: str, place: Path) -> None:
        """Check a branch out into a work tree of its own, which all other branches overlook; end one that was begun.

        Ask only while alone, and under the save lock.

        Raises:
            Conflict: something stands in the way.
            Locked: a Git command is at work there, or died there just now.
            BrokenStore: Git refuses.
        """
        self._overlook(place.relative_to(self.git.places.work_tree).as_posix())
        self._clear(place)
        if begun(place):  # and is not whole: moved, or to be filled
            with suppress(GitError):
                self.repair(place)
        if not os.path.lexists(place / ".git"):
            try:
                # By force: a work tree that stood here once, and was removed by hand, is still known.
                self.git.run("worktree", "add", "--force", "--no-checkout", "--quiet", str(place), branch)
            except GitError as error:
                raise BrokenStore(f"git worktree add: {error.message}", error.hint) from None
        self._fill(find(place))

    def repair(self, place: Path) -> None:
        """Mend the link between a work tree and its repository after one of them was moved. Raises BrokenStore."""
        self.git.run("worktree", "repair", str(place))

    def _fill(self, places: Places) -> None:
        """Check out what HEAD names, where that has not been done."""
        if places.checked_out:
            return
        lock = places.git_dir / "index.lock"
        if lock.exists():
            raise Locked(held(lock), LET_GO)
        git, nothing = self.git._replace(places=places), self.objects.write("tree", b"")
        head = git.run("rev-parse", "--verify", "HEAD").decode().strip()
        moving.put_back(git, nothing, head)
        Unfinished(git).take_along(nothing, head)

    def _clear(self, place: Path) -> None:
        """Remove what Git had written of a work tree when it died making it; there is nothing else in that."""
        link, known = place / ".git", self.git.places.common_dir / "worktrees"
        for entry in sorted(known.iterdir()) if known.is_dir() else ():
            begun = not (entry / "commondir").is_file() or _text(entry / "locked") == _BEGUN
            ours = Path(entry, _text(entry / "gitdir") or "?").resolve() == link.resolve()
            if ours and begun and not (entry / "index").exists() and not git_at_work(self.git.places):
                shutil.rmtree(entry)
                link.unlink(missing_ok=True)

    def _overlook(self, folder: str) -> None:
        """Make every branch's `git status` overlook a folder: by a line that is this clone's own."""
        file = self.git.places.common_dir / "info" / "exclude"
        line = os.fsencode(f"/{folder}/")
        try:
            held = file.read_bytes() if file.is_file() else b""
            if line in held.splitlines():
                return
            file.parent.mkdir(exist_ok=True)
            # Added to, not written anew: a full disk must not cost the user what stands there.
            with file.open("ab") as end:
                end.write((b"" if not held or held.endswith(b"\n") else b"\n") + line + b"\n")
        except OSError as error:
            raise BrokenStore(f"{file}: {error.strerror}", "check space and permissions there") from None


def begun(place: Path) -> bool:
    """Whether a work tree stands there that was never checked out, or is no whole one."""
    try:
        return os.path.lexists(place / ".git") and not find(place).checked_out
    except (BrokenStore, NotFound):
        return True


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="surrogateescape").strip()
    return ""
