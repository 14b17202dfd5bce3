"""What Git remembers of the records: who wrote them first and when, how they changed, what was removed.

One `git log` per question, without patches: nothing of the repository's runs, however hostile its configuration.
Commits count as they were made: replacement refs and grafts, which are one clone's own view, are passed over.

A shallow clone ends at commits whose parents it lacks. Git shows everything such a commit holds as added by it, but who
wrote that lies further back: its author is left empty, and nowhere else is one empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo import log
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.head import BRANCHES, branch
from filemem.repo.log import Commit, Row
from filemem.repo.stamps import millis

_REVISION = re.compile(r"[^\W_][\w./@{}^~+=-]*")
_RENAMES = 8  # names of one file that are followed back


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
    """One commit's version of a file: where it stood then, and its blob ("" where the commit removed it).

    `before` and `old` are path and blob of the version that the commit changed, of a merge its first parent's; both are
    empty where the commit added the file.
    """

    commit: Commit
    path: str
    blob: str
    before: str = ""
    old: str = ""


class Removed(NamedTuple):
    """The last version of a file that a commit removed: its blob, where it stood, and where it was first committed."""

    commit: Commit
    path: str
    blob: str
    first_path: str


class Edit(NamedTuple):
    """A commit that changed what a file says, with its blob before and after."""

    commit: Commit
    before: str
    after: str


class Walk(NamedTuple):
    """What a walk through history found.

    Args:
        births: of the files that stand at its end, by path.
        removed: the last version of each file that does not, by path.
        replaced: what was removed from paths at which another file was added later, oldest first.
        touched: every path that a commit brought or changed.
        head: the commit it ended with; "" in an empty repository.
        edits: of the files that stand at its end and were changed after their birth, by path, oldest first.
    """

    births: dict[str, Birth]
    removed: dict[str, Removed]
    touched: frozenset[str] = frozenset()
    head: str = ""
    edits: Mapping[str, Sequence[Edit]] = MappingProxyType({})
    replaced: Sequence[Removed] = ()


class History(NamedTuple):
    """The past of one repository, seen from one commit: HEAD, or the one that is asked about."""

    git: Git
    tip: str = "HEAD"

    def walk(self, folder: str, since: str = "", *, marks: str = "") -> Walk:
        """Follow every file below a folder from its first commit, through renames.

        A file that is brought back as it was, by a commit that takes a mark of its removal away, keeps its past.

        Args:
            folder: from the top of the work tree.
            since: only commits after this one (the `head` of an earlier walk); births are those of this stretch.
            marks: the folder of such marks, from the top of the work tree; "" where there are none.

        Raises:
            BadInput: `since` is not a revision.
        """
        births: dict[str, Birth] = {}
        removed: dict[str, Removed] = {}
        replaced: list[Removed] = []
        touched: set[str] = set()
        edits: dict[str, list[Edit]] = {}
        away: dict[str, tuple[Birth, list[Edit]]] = {}  # the past of what was removed
        differs: Counter[tuple[str, str]] = Counter()  # of a commit and a path: parents that have something else
        head, cut = "", self.boundary()
        for order, (made, rows) in enumerate(self._log(folder, since)):
            head = made.id
            commit = _nobodys(made) if made.id in cut else made
            restores = bool(marks) and any(row.status == "D" and row.path.startswith(f"{marks}/") for row in rows)
            for status, before, path, old, new in rows:
                touched.add(path)
                if status == "R" and before in edits:
                    edits[path] = edits.pop(before)
                differs[made.id, path] += 1
                if status in "MR" and old != new and differs[made.id, path] >= len(made.parents):
                    edits.setdefault(path, []).append(Edit(commit, old, new))  # not what a merge took from one side
                if status == "A" and path not in births:
                    births[path] = Birth(path, path, commit, order)
                    gone = removed.pop(path, None)
                    if restores and gone and gone.blob == new and path in away:
                        births[path], before_it = away.pop(path)
                        edits[path] = [*before_it, Edit(commit, old, new)]
                    elif gone:
                        replaced.append(gone)
                elif status == "D":
                    first = births[path].first_path if path in births else path
                    if path in births:
                        away[path] = births.pop(path), edits.pop(path, [])
                    removed[path] = Removed(commit, path, old, first)
                elif status == "R" and before in births:
                    born = births.pop(before)
                    births[path] = Birth(path, born.first_path, born.commit, born.order)
                elif status == "R":
                    births[path] = Birth(path, before, commit, order)
        return Walk(births, removed, frozenset(touched), head, edits, replaced)

    def rows(self, *arguments: str, limit: float = LONG) -> Iterator[tuple[Commit, list[Row]]]:
        """Each commit of a `git log` with the files it shows: status letter, path before and after, blob likewise.

        Args:
            arguments: what `git log` is asked besides the format.
            limit: seconds it may take.
        """
        return log.commits(self.git, *arguments, limit=limit)

    def differing(self, base: str, paths: Iterable[str] = ()) -> frozenset[str]:
        """The files that are not what they were in another commit.

        Args:
            base: the other commit.
            paths: files and folders; all where none is given.
        """
        how = ("-r", "-z", "--name-only", "--no-renames")
        answer = self.git.run("diff-tree", *how, revision(base), self.tip, "--", *paths)
        return frozenset(answer.decode("utf-8", "surrogateescape").split("\0")[:-1])

    def boundary(self) -> frozenset[str]:
        """The commits where a shallow clone ends; empty where history is whole."""
        try:
            return frozenset((self.git.places.common_dir / "shallow").read_text().split())
        except (OSError, UnicodeDecodeError):
            return frozenset()

    def last_change(self, path: str, since: str) -> int | None:
        """When the last commit after another that changed a path was begun, in seconds since the epoch."""
        answer = self.git.run("log", "-1", "--pretty=format:%ct", f"{since}..{self.tip}", "--", path)
        return millis(answer) // 1000 if answer.strip() else None

    def log(self, path: str) -> tuple[Revision, ...]:
        """The versions of one file, newest first, through renames; `path` from the top of the work tree."""
        return self.logs({path: ""})[path]

    def logs(self, births: Mapping[str, str], *, beyond: bool = False) -> dict[str, tuple[Revision, ...]]:
        """The versions of some files, each newest first and through renames, from one `git log` for all of them.

        Args:
            births: paths from the top of the work tree, each with its first path; "" where that is not known. A file
                whose oldest version stands elsewhere costs another log, since Git sees renames only between paths that
                it is asked about.
            beyond: where a commit brings a file back as it was when it was removed, go on before that.

        Returns:
            By path; nothing for one that has no commit.
        """
        names = {*births, *filter(None, births.values())}
        for _ in range(_RENAMES):
            rows = [(commit, row) for commit, rows in self._versions(names) for row in rows]
            found = {path: _traced(path, rows, beyond) for path in births}
            ends = {p: told[-1] for p, told in found.items() if told and (beyond or told[-1].path != births[p])}
            sources = self._sources(ends.values()) - names if ends else set()
            if not sources:
                break
            names |= sources
        cut = self.boundary()
        return {path: tuple(_known(one, cut) for one in told) for path, told in found.items()}

    def _versions(self, names: Iterable[str]) -> Iterator[tuple[Commit, list[Row]]]:
        # A merge counts where its version of a file is none of its parents': somebody decided it there.
        return self.rows("--topo-order", "--diff-merges=combined", "-M", self.tip, "--", *sorted(names))

    def _sources(self, ends: Iterable[Revision]) -> set[str]:
        """Where files came from that seem to begin in these commits."""
        wanted = {(end.commit.id, end.path) for end in ends}
        commits = sorted({commit for commit, _ in wanted})
        told = self.rows("--no-walk=unsorted", "-m", "-M", *commits, "--")
        return {
            before
            for commit, rows in told
            for status, before, path, _, _ in rows
            if status == "R" and (commit.id, path) in wanted
        }

    def between(self, one: str, other: str, *paths: str) -> tuple[Row, ...]:
        """How the regular files of some folders differ from one commit to another, renames as Git sees them.

        What is a link or a submodule in one of them counts as not being there.

        Raises:
            GitError: a commit is not there.
        """
        return log.differences(self.git, revision(one), revision(other), *paths)

    def listing(self, folder: str, rev: str = "") -> dict[str, str]:
        """Blob id by path of every regular file that a commit has below a folder.

        Raises:
            BadInput: `rev` is not a revision.
            GitError: there is no such commit.
        """
        answer = self.git.run("ls-tree", "-r", "-z", "--full-tree", revision(rev or self.tip), "--", f"{folder}/")
        rows = (row.partition("\t") for row in answer.decode("utf-8", "surrogateescape").split("\0") if row)
        return {path: head.split()[2] for head, _, path in rows if head.startswith("100")}

    def is_ancestor(self, commit: str, of: str = "") -> bool:
        """Whether `commit` is `of` (or the tip) or one of its ancestors; False where either is unknown."""
        try:
            self.git.run("merge-base", "--is-ancestor", revision(commit), revision(of or self.tip))
        except GitError:
            return False
        return True

    def first(self, paths: Iterable[str], *refs: str) -> str:
        """A commit that touches one of these files while none before it does; "" where there is none.

        Args:
            paths: from the top of the work tree.
            refs: where to look, as `git rev-list` takes it: `--remotes`, or the name of a branch.
        """
        asked = ("rev-list", "--topo-order", "--reverse", "--full-history", *refs, "--", *paths)
        return self.git.run(*asked, limit=LONG).decode().partition("\n")[0]

    def landed(self, commits: Collection[str]) -> tuple[str, ...]:
        """Those of some commits that are in this history, in the order they came to it, whatever dates they bear.

        A commit comes after its parents, and what a merge brought comes after what was on the branch before.
        """
        if not commits:
            return ()
        listed = self.git.run("rev-list", "--topo-order", "--reverse", self.tip, "--", limit=LONG).decode().split()
        return tuple(commit for commit in listed if commit in commits)

    def undone(self, commit: str) -> bool:
        """Whether the reflogs show that a command put HEAD back to what it had read before this commit was made.

        A reset "to HEAD" and the end of an aborted rebase never mean to drop a commit; both move without comparing.
        """
        places = self.git.places
        logs = (places.git_dir / "logs" / "HEAD", places.common_dir / "logs" / BRANCHES / branch(places.git_dir))
        lines = [line for log in logs if log.is_file() for line in log.read_text(errors="replace").splitlines()[-200:]]
        told = [(line.split(" ", 2)[:2], line.partition("\t")[2]) for line in lines]
        moves = [move for move, what in told if what == "reset: moving to HEAD" or what.startswith("rebase (abort)")]
        took_back = any(old != new and self.is_ancestor(commit, old) for old, new in moves if commit)
        return took_back and not self.is_ancestor(commit)

    def _log(self, folder: str, since: str) -> Iterator[tuple[Commit, list[Row]]]:
        span = f"{revision(since)}..{self.tip}" if since else self.tip
        # Merges are compared with each parent, so that a file resolved in a merge is seen; renames as Git sees them.
        return self.rows("--reverse", "--topo-order", "-m", "-M", span, "--", folder)


def revision(text: str) -> str:
    """A revision fit for Git's command line. Raises BadInput for anything that could be an option or a range."""
    if not _REVISION.fullmatch(text) or ".." in text or len(text) > 250:
        raise BadInput(f"{text[:80]!r} is not a revision", "give a commit id, a branch or a tag", field="rev")
    return text


def _traced(path: str, rows: Iterable[tuple[Commit, Row]], beyond: bool) -> list[Revision]:
    """The versions of the file that is at `path` after the newest of some rows, back to where it was added."""
    found: list[Revision] = []
    back = ""  # the blob that a commit brought back, as long as it is not known from where
    for commit, (status, before, after, old, new) in rows:
        if after != path or (back and (status, old) != ("D", back)):
            continue
        if status == "A":
            found.append(Revision(commit, after, new))
            if not beyond:
                break
            back = new
        else:
            found.append(Revision(commit, after, "" if status == "D" else new, before, old))
            path, back = before, ""
    return found


def _known(revision: Revision, cut: frozenset[str]) -> Revision:
    """The revision without an author where a shallow clone ends."""
    if revision.commit.id not in cut:
        return revision
    return revision._replace(commit=_nobodys(revision.commit))


def _nobodys(commit: Commit) -> Commit:
    return commit._replace(author="", email="", subject="", agent="", written=0, reviewers=(), co_authors=())
