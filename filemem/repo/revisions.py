"""Which commit a name or a date means, and what stands between two commits. Rule: asks, never moves anything.

A date means the last commit that was on the branch by then: on the line of first parents, which is what the branch
itself went through. Clocks run backwards, so no commit counts as older than its parent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BadInput, Conflict, NotFound
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.stamps import millis

if TYPE_CHECKING:
    from filemem.repo.objects import Objects

_NAME = re.compile(r"[^\x00-\x20\x7f:.-][^\x00-\x1f\x7f:]{0,249}")
_EXPRESSION = re.compile(r"[^\x00-\x20\x7f:.-][^\x00-\x1f\x7f]{0,249}")  # also of what is no commit
_BACK = re.compile(r"(.+?)(?:~\d*|\^)+")  # along first parents
_WORDS = re.compile(r":/[^\x00-\x1f\x7f]{1,247}")
_REACHES = re.compile(r"^warning: (log for .* only goes back to .*)$", re.MULTILINE)


class Moment(NamedTuple):
    """A commit that stands for what was asked.

    Args:
        name: as it was asked for.
        commit: full id.
        at: when it was made, epoch milliseconds.
    """

    name: str
    commit: str
    at: int


class Line(NamedTuple):
    """The commits that a branch went through, oldest first, and since when it had each: `at` never falls."""

    commits: Sequence[str]
    at: Sequence[int]  # epoch milliseconds

    def by(self, when: int) -> Moment | None:
        """The last commit that was there by a moment; None where the first came later."""
        number = bisect_right(self.at, when) - 1
        return Moment("", self.commits[number], self.at[number]) if number >= 0 else None


@dataclass
class Revisions:
    """The commits of one repository, by what people call them; `objects` reads them without a process of its own."""

    git: Git
    objects: Objects
    _line: tuple[str, Line] = ("", Line((), ()))

    def named(self, name: str) -> Moment | None:
        """The commit that a branch, a tag, an id or an expression such as `HEAD~3` names; None where it names none.

        Raises:
            BadInput: several commits begin with it.
            NotFound: it names a moment of a reflog, which begins later.
        """
        if _WORDS.fullmatch(name):
            return self._saying(name)
        if not _NAME.fullmatch(name) or ".." in name:
            return None
        try:
            found = self.objects.read(f"{name}^{{commit}}")
        except GitError as error:
            if "@{" not in name or error.unanswered:
                raise
            return None  # Git dies of `@{u}` where there is no upstream
        if found is None or found.kind != "commit":
            self._refuse_ambiguous(name)
            return None
        if "@{" in name:
            self._refuse_before_reflog(name)
        return Moment(name, found.oid, found.made)

    def misnamed(self, name: str) -> str:
        """Why an expression that `named` does not know names no commit, where it names what is there; else ""."""
        if ".." in name or not _EXPRESSION.fullmatch(name):
            return ""
        try:
            kind = self.git.run("cat-file", "-t", name).decode().strip()
        except GitError as error:
            if error.unanswered:
                raise
            kind = ""
        if kind in ("tree", "blob"):
            return f"that is a {kind}"
        back = _BACK.fullmatch(name)
        start = self.named(back[1]) if back else None
        if back is None or start is None:
            return ""
        told = self.git.run("rev-list", "--count", "--first-parent", start.commit, "--", limit=LONG)
        before = int(told) - 1
        return f"{back[1]} has only {before} commit{'s' * (before != 1)} before it"

    def _saying(self, words: str) -> Moment | None:
        """The youngest commit whose message has some words, written as Git takes them: `:/words`."""
        try:
            told = self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", words)
        except GitError as error:
            if error.unanswered:
                raise
            return None
        found = self.named(told.decode().strip())
        return found and found._replace(name=words)

    def time_of(self, commit: str) -> int:
        """When a commit was made, in epoch milliseconds; 0 where there is no such commit."""
        found = self.objects.read(commit)
        return found.made if found else 0

    def subject(self, commit: str) -> str:
        """The first line of a commit's message; "" where there is no such commit."""
        found = self.objects.read(commit)
        message = found.data.partition(b"\n\n")[2] if found and found.kind == "commit" else b""
        return message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace").strip()

    def names(self) -> list[str]:
        """The branches and tags, as people write them."""
        told = self.git.run("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
        return told.decode("utf-8", "replace").split()

    def line(self, tip: str) -> Line:
        """The line of first parents up to a commit; the last one asked for is remembered."""
        if self._line[0] != tip:
            self._line = tip, self._read_line(tip)
        return self._line[1]

    def tree(self, commit: str, folder: str) -> str:
        """The id of the tree that a commit has for a folder; "" where it has none. "." is the top.

        Raises:
            GitError: it is not here, as in a partial clone.
        """
        found = self.objects.read(f"{commit}^{{tree}}" if folder == "." else f"{commit}:{folder}")
        if found is None:
            self.git.run("ls-tree", "-r", commit, "--", f"{folder}/")
        return found.oid if found and found.kind == "tree" else ""

    def base(self, one: str, other: str) -> str:
        """The commit at which two lines of history parted; "" where they have none in common.

        Raises:
            Conflict: each was merged into the other, so that they parted at several.
        """
        try:
            found = self.git.run("merge-base", "--all", one, other, "--").decode().split()
        except GitError as error:
            if error.code == 1:
                return ""
            raise
        if len(found) > 1:
            several = ", ".join(each[:10] for each in found)
            raise Conflict(
                f"the two parted at {len(found)} commits ({several}), so none of them tells what a merge brings",
                "merge the base into this branch first, or name the one commit to compare with",
            )
        return found[0]

    def blobs(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """The bytes of many blobs by id, read at once; those that are not there are left out."""
        ids = list(dict.fromkeys(wanted))
        asked = "".join(f"{oid}\n" for oid in ids).encode()
        answer = self.git.run("cat-file", "--batch", "--buffer", input=asked, limit=LONG)
        found: dict[str, bytes] = {}
        at = 0
        while at < len(answer):
            end = answer.index(b"\n", at)
            oid, kind, *size = answer[at:end].split()
            at = end + 1
            if size:
                if kind == b"blob":
                    found[oid.decode()] = answer[at : at + int(size[0])]
                at += int(size[0]) + 1
        return found

    def refuse_absent(self, wanted: Iterable[str]) -> None:
        """Go no further without some blobs: what is told without them would be wrong.

        Raises:
            GitError: one is not here, as in a partial clone.
        """
        asked = "".join(f"{oid}\n" for oid in dict.fromkeys(wanted)).encode()
        told = self.git.run("cat-file", "--batch-check", "--buffer", input=asked, limit=LONG)
        if absent := next((row for row in told.splitlines() if row.endswith(b" missing")), b""):
            raise GitError("cat-file", 0, absent.decode())

    def altered(self) -> str:
        """What of one clone's own making Git's history shows in place of commits, or "": replacements, grafts."""
        shared = self.git.places.common_dir
        loose, packed, grafts = shared / "refs" / "replace", shared / "packed-refs", shared / "info" / "grafts"
        replaced = loose.is_dir() and any(loose.iterdir())
        replaced = replaced or (packed.is_file() and b" refs/replace/" in packed.read_bytes())
        grafted = grafts.is_file() and bool(grafts.read_bytes().strip())
        kinds = ["replacement refs"] * replaced + ["grafts"] * grafted
        return f"this clone has {' and '.join(kinds)}" if kinds else ""

    def _refuse_ambiguous(self, name: str) -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{4,63}", name):
            return
        try:
            self.git.run("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        except GitError as error:
            if "ambiguous" in error.stderr:
                ids = re.findall(r"[0-9a-f]{4,64}(?= commit)", error.stderr)
                told = f": {', '.join(ids[:5])}" if ids else ""
                raise BadInput(f"several commits begin with {name}{told}", "give more of the id", "at") from None

    def _refuse_before_reflog(self, name: str) -> None:
        """Git itself answers with the oldest that the reflog has, and only warns."""
        if short := _REACHES.search(self.git.aside("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")):
            hint = "a reflog is this clone's own; a date alone, such as 2025-11-20, asks the history"
            raise NotFound(f"no commit {name}: the {short[1]}", hint)

    def _read_line(self, tip: str) -> Line:
        told = self.git.run("log", "--first-parent", "--pretty=tformat:%H %ct", tip, "--", limit=LONG).decode()
        commits: list[str] = []
        at: list[int] = []
        for row in reversed(told.splitlines()):
            commit, _, made = row.partition(" ")
            commits.append(commit)
            at.append(max(millis(made), at[-1] if at else 0))
        return Line(commits, at)
