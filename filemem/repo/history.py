"""What Git remembers of the records: who wrote them first and when, how they changed, what was removed.

One `git log` per question, without patches: nothing of the repository's runs, however hostile its configuration.
Commits count as they were made: replacement refs and grafts, which are one clone's own view, are passed over.

A shallow clone ends at commits whose parents it lacks. Git shows everything such a commit holds as added by it, but who
wrote that lies further back: its author is left empty, and nowhere else is one empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from filemem.errors import BadInput
from filemem.repo.git import Git, GitError
from filemem.repo.stamps import millis

_LIMIT = 120.0  # seconds; a walk of 100,000 commits takes ten
_REVISION = re.compile(r"[^\W_][\w./@{}^~+=-]*")
_NAMED = ("Agent", "Reviewed-by", "Co-authored-by", "Decision")
_TRAILERS = "%x00".join(f"%(trailers:key={key},valueonly,unfold,separator=%x1f)" for key in _NAMED)
_FORMAT = f"format:%x01%H%x00%P%x00%ct%x00%at%x00%an%x00%ae%x00%s%x00{_TRAILERS}%x00"
_RENAMES = 8  # names of one file that are followed back


class Commit(NamedTuple):
    """A commit as history shows it. Times are epoch milliseconds; names come from its trailers, or are empty.

    `at` is when it was made; `written` when its author wrote it, which a rebase, an amend or an import leaves alone.
    An empty `author` says that history is shallow here: what the commit seems to add was there before it.
    """

    id: str
    at: int
    author: str
    email: str
    subject: str
    agent: str = ""
    written: int = 0
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


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


class Edit(NamedTuple):
    """A commit that changed what a file says, with its blob before and after."""

    commit: Commit
    before: str
    after: str


class Walk(NamedTuple):
    """What a walk through history found.

    Args:
        births: of the files that stand at its end, by path.
        removed: the last version of each file that does not, by path: the commit that removed it, and its blob.
        touched: every path that a commit brought or changed.
        head: the commit it ended with; "" in an empty repository.
        edits: of the files that stand at its end and were changed after their birth, by path, oldest first.
    """

    births: dict[str, Birth]
    removed: dict[str, Revision]
    touched: frozenset[str] = frozenset()
    head: str = ""
    edits: Mapping[str, Sequence[Edit]] = MappingProxyType({})


class History(NamedTuple):
    """The past of one repository, seen from one commit: HEAD, or the one that is asked about."""

    git: Git
    tip: str = "HEAD"

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
        edits: dict[str, list[Edit]] = {}
        differs: Counter[tuple[str, str]] = Counter()  # of a commit and a path: parents that have something else
        head, cut = "", self.boundary()
        for order, (made, rows) in enumerate(self._log(folder, since)):
            head = made.id
            commit = _nobodys(made) if made.id in cut else made
            for status, before, path, old, new in rows:
                touched.add(path)
                if status == "R" and before in edits:
                    edits[path] = edits.pop(before)
                differs[made.id, path] += 1
                if status in "MR" and old != new and differs[made.id, path] >= len(made.parents):
                    edits.setdefault(path, []).append(Edit(commit, old, new))  # not what a merge took from one side
                if status == "A" and path not in births:
                    births[path] = Birth(path, path, commit, order)
                    removed.pop(path, None)
                elif status == "D":
                    births.pop(path, None)
                    edits.pop(path, None)
                    removed[path] = Revision(commit, path, old)
                elif status == "R" and before in births:
                    born = births.pop(before)
                    births[path] = Birth(path, born.first_path, born.commit, born.order)
                elif status == "R":
                    births[path] = Birth(path, before, commit, order)
        return Walk(births, removed, frozenset(touched), head, edits)

    def rows(self, *arguments: str, limit: float = _LIMIT) -> Iterator[tuple[Commit, list[Row]]]:
        """Each commit of a `git log` with the files it shows: status letter, path before and after, blob likewise.

        Args:
            arguments: what `git log` is asked besides the format.
            limit: seconds it may take.
        """
        return self._run(("log", *_RAW, f"--pretty={_FORMAT}", *arguments), limit)

    def differing(self, base: str, paths: Iterable[str] = (), *, kinds: str = "AMDT") -> frozenset[str]:
        """The files that are not what they were in another commit.

        Args:
            base: the other commit.
            paths: files and folders; all where none is given.
            kinds: what counts, of A(dded), D(eleted), M(odified), T (another kind).
        """
        how = ("-r", "-z", "--name-only", "--no-renames", f"--diff-filter={kinds}")
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
        how = ("--topo-order", "--diff-merges=combined", "-M", *_RAW, f"--pretty={_FORMAT}")
        return self._run(("log", *how, self.tip, "--", *sorted(names)))

    def _sources(self, ends: Iterable[Revision]) -> set[str]:
        """Where files came from that seem to begin in these commits."""
        wanted = {(end.commit.id, end.path) for end in ends}
        commits = sorted({commit for commit, _ in wanted})
        told = self._run(("log", "--no-walk=unsorted", "-m", "-M", *_RAW, f"--pretty={_FORMAT}", *commits, "--"))
        return {
            before
            for commit, rows in told
            for status, before, path, _, _ in rows
            if status == "R" and (commit.id, path) in wanted
        }

    def between(self, one: str, other: str, folder: str) -> tuple[Row, ...]:
        """How the regular files of a folder differ from one commit to another, renames as Git sees them.

        What is a link or a submodule in one of them counts as not being there.

        Raises:
            GitError: a commit is not there.
        """
        command = ("diff-tree", "-r", "-M", *_RAW[:-1], revision(one), revision(other), "--", folder)
        fields = iter(self.git.run(*command, limit=_LIMIT).decode("utf-8", "surrogateescape").split("\0"))
        told = (_regular(text, _row(text, fields)) for text in fields if text.startswith(":"))
        return tuple(row for row in told if row is not None)

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

    def _log(self, folder: str, since: str) -> Iterator[tuple[Commit, list[Row]]]:
        span = f"{revision(since)}..{self.tip}" if since else self.tip
        # Merges are compared with each parent, so that a file resolved in a merge is seen; renames as Git sees them.
        command = ("log", "--reverse", "--topo-order", "-m", "-M", *_RAW, f"--pretty={_FORMAT}", span, "--", folder)
        return self._run(command)

    def _run(self, command: tuple[str, ...], limit: float = _LIMIT) -> Iterator[tuple[Commit, list[Row]]]:
        try:
            answer = self.git.run(*command, limit=limit).decode("utf-8", "replace")
        except GitError as error:
            if "unknown revision" in error.stderr or "bad revision" in error.stderr:
                return  # no commit yet
            raise
        fields = iter(answer.split("\0"))
        commit: Commit | None = None
        rows: list[Row] = []
        # Read strictly by count: whatever a message or a name holds, it cannot pass for the next commit.
        for field in fields:
            text = field.lstrip("\n")
            if text.startswith("\x01"):
                if commit is not None:
                    yield commit, rows
                commit, rows = _commit(text[1:], fields), []
            elif text.startswith(":"):
                rows.append(_row(text, fields))
        if commit is not None:
            yield commit, rows


_RAW = ("--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature")


class Row(NamedTuple):
    """How one file differs between two commits.

    Args:
        status: A(dded), D(eleted), M(odified), R(enamed), or T where its kind changed.
        before, path: its path in the one and in the other; the same unless renamed.
        old, new: blob ids, all zeros where there is no file.
    """

    status: str
    before: str
    path: str
    old: str
    new: str

    def seen(self, before: bool, after: bool) -> Row | None:
        """The row as it is for somebody who does not see the file before, or after; None for neither."""
        if before and after:
            return self
        none = "0" * len(self.old)
        if before and self.status != "A":
            return Row("D", self.before, self.before, self.old, none)
        return Row("A", self.path, self.path, none, self.new) if after and self.status != "D" else None


def _commit(oid: str, fields: Iterator[str]) -> Commit:
    parents, at, written, author, email, subject = (next(fields, "") for _ in range(6))
    agents, reviewers, co_authors, decisions = (_names(next(fields, "")) for _ in _NAMED)
    return Commit(
        oid,
        millis(at),
        author or email or "unknown",  # an empty one is kept for shallow history
        email,
        subject,
        " ".join(agents),
        millis(written) or millis(at),
        reviewers,
        co_authors,
        tuple(parents.split()),
        tuple(name for part in decisions for name in part.replace(",", " ").split()),
    )


def _names(trailers: str) -> tuple[str, ...]:
    return tuple(name for part in trailers.split("\x1f") if (name := " ".join(part.split())))


def revision(text: str) -> str:
    """A revision fit for Git's command line. Raises BadInput for anything that could be an option or a range."""
    if not _REVISION.fullmatch(text) or ".." in text or len(text) > 250:
        raise BadInput(f"{text[:80]!r} is not a revision", "give a commit id, a branch or a tag", field="rev")
    return text


def _row(text: str, fields: Iterator[str]) -> Row:
    parents = len(text) - len(text.lstrip(":"))
    *_, status = words = text.lstrip(":").split(" ")
    old, new = words[parents + 1], words[2 * parents + 1]
    path = next(fields, "")
    if parents > 1:  # of a merge: one letter for each parent, and no path of old
        return Row("A" if set(status) == {"A"} else "D" if set(status) == {"D"} else "M", path, path, old, new)
    after = next(fields, "") if status[0] in "RC" else path
    return Row("A" if status[0] == "C" else status[0], path, after, old, new)


def _regular(text: str, row: Row) -> Row | None:
    """What a row says of regular files alone; `text` begins with the two modes."""
    there = [mode.startswith("100") for mode in text.lstrip(":").split(" ")[:2]]
    return row if row.status in "AD" and any(there) else row.seen(*there)


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
