"""What Git remembers of the records: who wrote them first and when, how they changed, what was removed.

One `git log` per question, without patches: nothing of the repository's runs, however hostile its configuration.

A shallow clone ends at commits whose parents it lacks. Git shows everything such a commit holds as added by it, but who
wrote that lies further back: its author is left empty, and nowhere else is one empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo.git import Git, GitError

_LIMIT = 120.0  # seconds; a walk of 100,000 commits takes ten
_REVISION = re.compile(r"[^\W_][\w./@{}^~+=-]*")
_AGENT = "%(trailers:key=Agent,valueonly,unfold,separator=%x20)"
_FORMAT = f"format:%x01%H%x00%ct%x00%an%x00%ae%x00%s%x00{_AGENT}%x00"


class Commit(NamedTuple):
    """A commit as history shows it. `at` is epoch milliseconds; `agent` comes from its trailer, or is empty.

    An empty `author` says that history is shallow here: what the commit seems to add was there before it.
    """

    id: str
    at: int
    author: str
    email: str
    subject: str
    agent: str = ""


class Birth(NamedTuple):
    """How a file came to be.

    Args:
        path: where it is now (for a removed one: where it last was).
        first_path: where it was first committed; the same unless renamed.
        commit: the one that added it.
        order: its place in history, counted from the oldest commit of the walk.
    """

    path: str
    first_path: str
    commit: Commit
    order: int


class Revision(NamedTuple):
    """One commit's version of a file: where it stood then, and its blob ("" where the commit removed it)."""

    commit: Commit
    path: str
    blob: str


class Walk(NamedTuple):
    """What a walk through history found.

    Args:
        births: of the files that stand at its end, by path.
        removed: the last version of each file that does not, by path: the commit that removed it, and its blob.
        touched: every path that a commit brought or changed.
        head: the commit it ended with; "" in an empty repository.
    """

    births: dict[str, Birth]
    removed: dict[str, Revision]
    touched: frozenset[str] = frozenset()
    head: str = ""


class History(NamedTuple):
    """The past of one repository."""

    git: Git

    def walk(self, folder: str, since: str = "") -> Walk:
        """Follow every file below a folder from its first commit, through renames.

        Args:
            folder: from the top of the work tree.
            since: only commits after this one (the `head` of an earlier walk); births are those of this stretch.

        Raises:
            BadInput: `since` is not a revision.
        """
        births: dict[str, Birth] = {}
        removed: dict[str, Revision] = {}
        touched: set[str] = set()
        head, cut = "", self.boundary()
        for order, (made, rows) in enumerate(self._log(folder, since)):
            head = made.id
            commit = made._replace(author="", email="", subject="", agent="") if made.id in cut else made
            for status, before, path, old, _ in rows:
                touched.add(path)
                if status == "A" and path not in births:
                    births[path] = Birth(path, path, commit, order)
                    removed.pop(path, None)
                elif status == "D":
                    births.pop(path, None)
                    removed[path] = Revision(commit, path, old)
                elif status == "R" and before in births:
                    known = births.pop(before)
                    births[path] = Birth(path, known.first_path, known.commit, known.order)
                elif status == "R":
                    births[path] = Birth(path, before, commit, order)
        return Walk(births, removed, frozenset(touched), head)

    def boundary(self) -> frozenset[str]:
        """The commits where a shallow clone ends; empty where history is whole."""
        try:
            return frozenset((self.git.places.common_dir / "shallow").read_text().split())
        except (OSError, UnicodeDecodeError):
            return frozenset()

    def last_change(self, path: str, since: str) -> int | None:
        """When the last commit after another that changed a path was begun, in seconds since the epoch."""
        answer = self.git.run("log", "-1", "--pretty=format:%ct", f"{since}..HEAD", "--", path)
        return int(answer) if answer.strip() else None

    def log(self, path: str) -> tuple[Revision, ...]:
        """The versions of one file, newest first, through renames; `path` from the top of the work tree."""
        command = ("log", "--follow", *_RAW, f"--pretty={_FORMAT}", "HEAD", "--", path)
        return tuple(
            Revision(commit, now, "" if status == "D" else new)
            for commit, rows in self._run(command)
            for status, _, now, _, new in rows[:1]
        )

    def listing(self, folder: str, rev: str = "HEAD") -> dict[str, str]:
        """Blob id by path of every regular file that a commit has below a folder.

        Raises:
            BadInput: `rev` is not a revision.
            GitError: there is no such commit.
        """
        answer = self.git.run("ls-tree", "-r", "-z", "--full-tree", revision(rev), "--", f"{folder}/")
        rows = (row.partition("\t") for row in answer.decode("utf-8", "surrogateescape").split("\0") if row)
        return {path: head.split()[2] for head, _, path in rows if head.startswith("100")}

    def is_ancestor(self, commit: str, of: str = "HEAD") -> bool:
        """Whether `commit` is `of` or one of its ancestors; False where either is unknown."""
        try:
            self.git.run("merge-base", "--is-ancestor", revision(commit), revision(of))
        except GitError:
            return False
        return True

    def _log(self, folder: str, since: str) -> Iterator[tuple[Commit, list[_Row]]]:
        span = f"{revision(since)}..HEAD" if since else "HEAD"
        # Merges are compared with each parent, so that a file resolved in a merge is seen; renames as Git sees them.
        command = ("log", "--reverse", "--topo-order", "-m", "-M", *_RAW, f"--pretty={_FORMAT}", span, "--", folder)
        return self._run(command)

    def _run(self, command: tuple[str, ...]) -> Iterator[tuple[Commit, list[_Row]]]:
        try:
            answer = self.git.run(*command, limit=_LIMIT).decode("utf-8", "replace")
        except GitError as error:
            if "unknown revision" in error.stderr or "bad revision" in error.stderr:
                return  # no commit yet
            raise
        fields = iter(answer.split("\0"))
        commit: Commit | None = None
        rows: list[_Row] = []
        # Read strictly by count: whatever a message or a name holds, it cannot pass for the next commit.
        for field in fields:
            text = field.lstrip("\n")
            if text.startswith("\x01"):
                if commit is not None:
                    yield commit, rows
                at, author, email, subject, agent = (next(fields, "") for _ in range(5))
                who = author or email or "unknown"  # an empty one is kept for shallow history
                commit, rows = Commit(text[1:], int(at) * 1000, who, email, subject, agent.strip()), []
            elif text.startswith(":"):
                rows.append(_row(text, fields))
        if commit is not None:
            yield commit, rows


_RAW = ("--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature")
_Row = tuple[str, str, str, str, str]  # status letter, path before, path after, blob before, blob after


def revision(text: str) -> str:
    """A revision fit for Git's command line. Raises BadInput for anything that could be an option or a range."""
    if not _REVISION.fullmatch(text) or ".." in text or len(text) > 250:
        raise BadInput(f"{text[:80]!r} is not a revision", "give a commit id, a branch or a tag", field="rev")
    return text


def _row(text: str, fields: Iterator[str]) -> _Row:
    _, _, old, new, status = text.split(" ")
    path = next(fields, "")
    after = next(fields, "") if status[0] in "RC" else path
    return "A" if status[0] == "C" else status[0], path, after, old, new
