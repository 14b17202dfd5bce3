"""What Git prints of commits and of the files they touch, as values. Read strictly by count: whatever a message, a name
or a path holds, it cannot pass for the next commit.

Patches are never asked for, so nothing of the repository's runs, however hostile its configuration.
"""

from collections.abc import Iterator
from typing import NamedTuple

from filemem.query.evidence import Said, said
from filemem.repo.git import LONG, PROMISED, Git, GitError
from filemem.repo.stamps import millis

_NAMED = ("Agent", "Reviewed-by", "Co-authored-by")
NAME, NAMES = 200, 20  # characters of a name, and names of one kind, that are read: a commit can state any number
_EVERY = "--ignore-submodules=none"  # whatever the settings say
_RAW = ("--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color", _EVERY)

# What asks `git log` for the trailers that speak of decisions, in their order: one field, which `said_in` reads.
SAID = "%(trailers:key=Decision,key=Outcome,unfold,separator=%x1f,key_value_separator=%x1e)"
_TRAILERS = "%x00".join(f"%(trailers:key={key},valueonly,unfold,separator=%x1f)" for key in _NAMED)
_FORMAT = f"--pretty=format:%x01%H%x00%P%x00%ct%x00%at%x00%an%x00%ae%x00%s%x00{_TRAILERS}%x00{SAID}%x00"


class Commit(NamedTuple):
    """A commit as history shows it. Times are epoch milliseconds; names come from its trailers, or are empty.

    `at` is when it was made; `written` when its author wrote it, which a rebase, an amend or an import leaves alone.
    Names are cut at `NAME` characters, reviewers and co-authors after `NAMES` of them.
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
    said: Said = Said()

    def anonymous(self) -> "Commit":
        """The same without who made it and what they said: where a shallow clone ends, that is not known."""
        return self._replace(author="", email="", subject="", agent="", written=0, reviewers=(), co_authors=())


class Row(NamedTuple):
    """How one file differs between two commits.

    Args:
        status: A(dded), D(eleted), M(odified), R(enamed), or T where its kind changed.
        before, path: its path in the one and in the other; the same unless renamed.
        old, new: blob ids, all zeros where there is no file.
        sides: of a merge that is told against all of its parents: the blob of each that has the file.
    """

    status: str
    before: str
    path: str
    old: str
    new: str
    sides: tuple[str, ...] = ()

    def seen(self, before: bool, after: bool) -> "Row | None":
        """The row as it is for somebody who does not see the file before, or after; None for neither."""
        if before and after:
            return self
        none = "0" * len(self.old)
        if before and self.status != "A":
            return Row("D", self.before, self.before, self.old, none)
        return Row("A", self.path, self.path, none, self.new) if after and self.status != "D" else None


def commits(git: Git, *arguments: str, limit: float = LONG) -> Iterator[tuple[Commit, list[Row]]]:
    """Each commit of a `git log` with the files it shows; nothing where there is no commit yet.

    Args:
        git: runs Git.
        arguments: what `git log` is asked besides the format.
        limit: seconds it may take.
    """
    try:
        answer = _asked(git, "log", *_RAW, "--no-show-signature", _FORMAT, *arguments, limit=limit)
    except GitError as error:
        if error.unborn:
            return
        raise
    fields = iter(answer.decode("utf-8", "replace").split("\0"))
    commit: Commit | None = None
    rows: list[Row] = []
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


def differences(git: Git, one: str, other: str, *paths: str, links: bool = False) -> tuple[Row, ...]:
    """How the files of some folders differ from one commit to another, renames as Git sees them.

    Args:
        git: runs Git.
        one, other: the commits.
        paths: files and folders.
        links: count links and submodules as files; else what is one in one of the commits counts as not being there.

    Raises:
        GitError: a commit is not there.
    """
    answer = _asked(git, "diff-tree", "-r", "-M", *_RAW, one, other, "--", *paths, limit=LONG)
    fields = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
    told = ((text, _row(text, fields)) for text in fields if text.startswith(":"))
    seen = (row if links else _regular(text, row) for text, row in told)
    return tuple(row for row in seen if row is not None)


def _asked(git: Git, *arguments: str, limit: float) -> bytes:
    """What Git answers. Where a partial clone lacks what telling renames needs, files that changed too count as new."""
    try:
        return git.run(*arguments, limit=limit)
    except GitError as error:
        if PROMISED not in error.stderr or "-M" not in arguments:
            raise
    return git.run(*("-M100%" if one == "-M" else one for one in arguments), limit=limit)


def _commit(oid: str, fields: Iterator[str]) -> Commit:
    parents, at, written, author, email, subject = (next(fields, "") for _ in range(6))
    agents, reviewers, co_authors = (_names(next(fields, "")) for _ in _NAMED)
    return Commit(
        oid,
        millis(at),
        _cut(author or email or "unknown"),  # an empty one is kept for shallow history
        _cut(email),
        subject,
        _cut(" ".join(agents)),
        millis(written) or millis(at),
        tuple(map(_cut, reviewers[:NAMES])),
        tuple(map(_cut, co_authors[:NAMES])),
        tuple(parents.split()),
        said_in(next(fields, "")),
    )


def said_in(field: str) -> Said:
    """What the field of a commit says that `SAID` asks for."""
    pairs = (part.partition("\x1e") for part in field.split("\x1f") if part.strip())
    return said((key.strip(), " ".join(value.split())) for key, _, value in pairs)


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _names(trailers: str) -> tuple[str, ...]:
    return tuple(name for part in trailers.split("\x1f") if (name := " ".join(part.split())))


def _row(text: str, fields: Iterator[str]) -> Row:
    parents = len(text) - len(text.lstrip(":"))
    *_, status = words = text.lstrip(":").split(" ")
    *olds, new = words[parents + 1 : 2 * parents + 2]
    old = next((one for one in olds if one.strip("0")), olds[0])  # of a merge: on the first side that has the file
    path = next(fields, "")
    if parents > 1:  # of a merge: one letter for each parent, and no path of old
        kind = "A" if set(status) == {"A"} else "D" if set(status) == {"D"} else "M"
        return Row(kind, path, path, old, new, tuple(one for one in olds if one.strip("0")))
    after = next(fields, "") if status[0] in "RC" else path
    return Row("A" if status[0] == "C" else status[0], path, after, old, new)


def _regular(text: str, row: Row) -> Row | None:
    """What a row says of regular files alone; `text` begins with the two modes."""
    there = [mode.startswith("100") for mode in text.lstrip(":").split(" ")[:2]]
    return row if row.status in "AD" and any(there) else row.seen(*there)
