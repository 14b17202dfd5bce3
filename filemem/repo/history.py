"""What Git remembers of the records: who wrote them first and when, how they changed, what was removed.

One `git log` per question, without patches: nothing of the repository's runs, however hostile its configuration.
Commits count as they were made: replacement refs and grafts, which are one clone's own view, are passed over.

A shallow clone ends at commits whose parents it lacks. Git shows everything such a commit holds as added by it, but who
wrote that lies further back: its author is left empty, and nowhere else is one empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo import log, shallow, tracing, treeless
from filemem.repo.git import LONG, PROMISED, Git, GitError
from filemem.repo.lives import BY_PATH, Birth, Edit, Revision, Same, Walk
from filemem.repo.log import Commit, Row
from filemem.repo.walking import Found

_REVISION = r"[^\W_][\w./@{}^~+=-]*"
_EVERYWHERE = ("--branches", "--tags", "--remotes")
_CONTESTED = 50  # paths that several branches gave to different files, looked at one by one


class History(NamedTuple):
    """The past of one repository, seen from one commit: HEAD, or the one that is asked about."""

    git: Git
    tip: str = "HEAD"

    def walk(self, folder: str, since: str = "", same: Same = BY_PATH) -> Walk:
        """Find the first commit of every file below a folder, and what changed it since.

        Args:
            folder: from the top of the work tree.
            since: only commits after this one (the `head` of an earlier walk); births are those of this stretch.
            same: which versions of files are one and the same.

        Raises:
            BadInput: `since` is not a revision.
        """
        log = list(self._log(folder, since))
        same.know(blob for _, rows in log for row in rows for blob in (row.old, row.new))
        head, cut, found = "", self.boundary(), Found(same, self.landed)
        for order, (made, rows) in enumerate(log):
            head = made.id
            found.add(made.anonymous() if made.id in cut else made, rows, order)
        walk = found.walk(head)
        for path in sorted(found.contested & walk.births.keys() - walk.ids.keys())[:_CONTESTED]:
            if told := self.logs({path: ""}, same)[path]:
                walk.births[path] = Birth(path, told[-1].path, told[-1].commit, walk.births[path].order)
                walk.edits[path] = [
                    Edit(one.commit, one.old, one.blob, one.sides) for one in reversed(told[:-1]) if one.blob != one.old
                ]
        if since:
            walk = walk._replace(given_up=walk.given_up | found.beside | self._beside(walk, folder, since))
        else:
            self._keep_on_line(walk, sorted(found.beside & walk.births.keys())[:_CONTESTED], same)
        return walk.without_joins(same).numbered(self.landed)

    def _beside(self, walk: Walk, folder: str, since: str) -> frozenset[str]:
        """The files that were changed in a stretch of history from another version than the one it begins with."""
        first = {path: edits[0].before for path, edits in walk.edits.items() if edits}
        if not first:
            return frozenset()
        where = sorted(first) if len(first) <= _CONTESTED else [f"{folder}/"]
        had = {path: head.split()[2] for head, path in self._entries(where, since)}
        return frozenset(path for path, before in first.items() if had.get(path, before) != before)

    def _keep_on_line(self, walk: Walk, paths: Iterable[str], same: Same) -> None:
        """Keep the edits that Git follows back from what stands there, of files that branches changed side by side.

        A merge that took one side's version, the same bytes perhaps, is followed on that side alone.
        """
        for path, told in self.logs({path: walk.births[path].commit.id for path in paths}, same).items():
            first = walk.births[path].commit.id
            if told and (told[-1].commit.id == first or not self.is_ancestor(first, told[-1].commit.id)):
                seen = {one.commit.id for one in told}
                walk.edits[path] = [edit for edit in walk.edits.get(path, ()) if edit.commit.id in seen]

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
        how = ("-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none")
        answer = self.git.run("diff-tree", *how, revision(base), self.tip, "--", *paths)
        return frozenset(answer.decode("utf-8", "surrogateescape").split("\0")[:-1])

    def boundary(self) -> frozenset[str]:
        """The commits where a shallow clone ends; empty where history is whole."""
        return shallow.boundary(self.git.places.common_dir)

    def absent(self, folder: str) -> frozenset[str]:
        """The versions below a folder that a partial clone lacks, on any branch."""
        how = ("--objects", "--no-object-names", "--missing=print", "--full-history", "--all")
        told = self.git.run("rev-list", *how, self.tip, "--", folder, limit=LONG).decode().split()
        return frozenset(one[1:] for one in told if one.startswith("?"))

    def objects(self, folder: str) -> frozenset[str]:
        """The ids of all that this history has had in a folder, those included that a partial clone lacks."""
        how = ("--objects", "--no-object-names", "--missing=print", "--full-history")
        told = self.git.run("rev-list", *how, self.tip, "--", folder, limit=LONG)
        return frozenset(one.removeprefix("?") for one in told.decode().split())

    def log(self, path: str) -> tuple[Revision, ...]:
        """The versions of one file, newest first, through renames; `path` from the top of the work tree."""
        return self.logs({path: ""})[path]

    def logs(self, births: Mapping[str, str], same: Same = BY_PATH) -> dict[str, tuple[Revision, ...]]:
        """The versions of some files, each newest first: `tracing.logs`."""
        return tracing.logs(self, births, same)

    def between(self, one: str, other: str, *paths: str, links: bool = False) -> tuple[Row, ...]:
        """How the files of some folders differ from one commit to another: `log.differences`."""
        return log.differences(self.git, revision(one), revision(other), *paths, links=links)

    def listing(self, folder: str, rev: str = "") -> dict[str, str]:
        """Blob id by path of every regular file that a commit has below a folder.

        Raises:
            BadInput: `rev` is not a revision.
            GitError: there is no such commit.
        """
        return self.entries([f"{folder}/"], rev)

    def entries(self, paths: Iterable[str], rev: str = "") -> dict[str, str]:
        """The same of some files and folders; what is no regular file, or is not there, is left out."""
        return {path: head.split()[2] for head, path in self._entries(sorted(paths), rev) if head.startswith("100")}

    def repositories(self, folder: str) -> frozenset[str]:
        """The paths below a folder at which the tip has another repository: submodules."""
        return frozenset(path for head, path in self._entries([f"{folder}/"]) if head.startswith("160"))

    def _entries(self, paths: Iterable[str], rev: str = "") -> Iterator[tuple[str, str]]:
        answer = self.git.run("ls-tree", "-r", "-z", "--full-tree", revision(rev or self.tip), "--", *paths)
        for row in answer.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            head, _, path = row.partition("\t")
            yield head, path

    def messages(self, pattern: str) -> list[str]:
        """The messages of the commits of any branch or tag, here or fetched, that have a line which matches.

        Args:
            pattern: an extended regular expression; letters match in either case.
        """
        how = ("-z", "-i", "-E", f"--grep={pattern}", "--format=%B", "--no-show-signature", "--no-color")
        answer = self.git.run("log", *how, *_EVERYWHERE, self.tip, "--", limit=LONG)
        return answer.decode("utf-8", "replace").split("\0")

    def is_ancestor(self, commit: str, of: str = "") -> bool:
        """Whether `commit` is `of` (or the tip) or one of its ancestors; False where either is unknown."""
        try:
            self.git.run("merge-base", "--is-ancestor", revision(commit), revision(of or self.tip))
        except GitError:
            return False
        return True

    def on_line(self, commit: str) -> bool:
        """Whether a commit is on the line of first parents, and so all up to it landed in the order that it tells.

        False also of a branch that was merged into that line, and where the commit is unknown.
        """
        asked = ("--first-parent", "--parents", self.tip, f"^{revision(commit)}", "--")
        try:
            told = self.git.run("rev-list", *asked, limit=LONG).decode().splitlines()
        except GitError:
            return False
        return self.tip == commit or commit in (told[-1].split()[1:2] if told else ())

    def has_merges(self) -> bool:
        """Whether branches were merged in this history; without, the log of one file tells what a walk would."""
        return bool(self.git.run("rev-list", "--merges", "-1", self.tip, "--", limit=LONG))

    def first(self, paths: Iterable[str], *refs: str) -> str:
        """A commit that touches one of these files while none before it does; "" where there is none.

        Args:
            paths: from the top of the work tree.
            refs: where to look, as `git rev-list` takes it: `--remotes`, or the name of a branch.
        """
        asked = ("rev-list", "--topo-order", "--reverse", "--full-history", *refs, "--", *paths)
        return self.git.run(*asked, limit=LONG).decode().partition("\n")[0]

    def touching(self, paths: Iterable[str]) -> frozenset[str]:
        """The commits of any branch or tag, here or fetched, that touch one of these files."""
        asked = ("rev-list", "--full-history", *_EVERYWHERE, self.tip, "--", *paths)
        return frozenset(self.git.run(*asked, limit=LONG).decode().split())

    def everywhere(self, folder: str) -> Iterator[tuple[Commit, list[Row]]]:
        """What the commits of every branch and tag, changed below a folder; renames as Git sees them."""
        return self.rows("--full-history", "-m", "-M", *_EVERYWHERE, self.tip, "--", folder)

    def landed(self, commits: Collection[str]) -> tuple[str, ...]:
        """Those of some commits that are in this history, in the order they came to it, whatever dates they bear.

        A commit comes after its parents, and what a merge brought comes after what its first parent had.
        """
        if len(commits) < 2:
            return tuple(one for one in commits if self.is_ancestor(one))
        listed = self.git.run("rev-list", "--parents", self.tip, "--", limit=LONG).decode().splitlines()
        return tuple(commit for commit in landing(listed) if commit in commits)

    def stood(self, folder: str) -> dict[str, int]:
        """In which turn each file below a folder came to the branch, renamed since or not; earlier ones are less.

        What a merge brought came with the merge. Nothing is told where a partial clone lacks the trees.
        """
        how = ("--reverse", "--first-parent", "-m", "-M", "--diff-filter=ADR")
        came: dict[str, int] = {}
        try:
            arrived = list(self.rows(*how, self.tip, "--", folder))
        except GitError as error:
            if PROMISED not in error.stderr:
                raise
            return came
        for turn, (_, rows) in enumerate(arrived):
            gone = {row.before: came.pop(row.before, turn) for row in rows if row.status in "DR"}
            came |= {row.path: gone[row.before] if row.status == "R" else turn for row in rows if row.status in "AR"}
        return came

    def _log(self, folder: str, since: str) -> Iterator[tuple[Commit, list[Row]]]:
        span = f"{revision(since)}..{self.tip}" if since else self.tip
        # Merges are compared with each parent, so that a file resolved in a merge is seen; renames as Git sees them.
        # All sides of them: who brought an id may be on one of which a merge took nothing else.
        how = ("--reverse", "--topo-order", "--full-history", "-m", "-M", span)
        try:
            yield from self.rows(*how, "--", folder)
        except GitError as error:
            if since:
                raise
            first, rows = treeless.beginning(self.git, self.tip, [f"{folder}/"], error)
            yield first, rows
            yield from self.rows(*how, f"^{first.id}", "--", folder)


def landing(listed: Sequence[str]) -> Iterator[str]:
    """Commits as they landed: each after its parents, and what a merge brought after all that its first parent had.

    Args:
        listed: lines of a commit and its parents, the tip's first.
    """
    parents = {commit: found for commit, *found in map(str.split, listed)}
    waiting = [(commit, False) for commit in list(parents)[:1]]
    seen: set[str] = set()
    while waiting:
        commit, ready = waiting.pop()
        if ready:
            yield commit
        elif commit not in seen and commit in parents:
            seen.add(commit)
            waiting.append((commit, True))
            waiting += ((parent, False) for parent in reversed(parents[commit]))


def revision(text: str) -> str:
    """A revision fit for Git's command line. Raises BadInput for anything that could be an option or a range."""
    if not re.fullmatch(_REVISION, text) or ".." in text or len(text) > 250:
        raise BadInput(f"{text[:80]!r} is not a revision", "give a commit id, a branch or a tag", field="rev")
    return text
