"""What came to the branch of the project's code, in the order in which it came, and what its commits say.

The line of first parents is what a branch itself went through: a merge counts once, with all that it brought, and a
squash as the one commit it is. So it does not matter how a pull request was merged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from filemem.query.drift import Arrival, Row
from filemem.query.evidence import Claim, Said, aside, carried_out, reverted
from filemem.repo import log
from filemem.repo.git import LONG, PROMISED, GitError
from filemem.repo.history import History
from filemem.repo.log import SAID, Commit, said_in
from filemem.repo.stamps import millis

_LINES = 10.0  # seconds for the past of a few lines, which Git works out patch by patch
_CLAIM = f"format:%x01%H%x00%ct%x00%an%x00%s%x00{SAID}%x00%b%x00"
_TELLING = ("^This reverts commit [0-9a-f]{7,}", '^(Revert|Reapply) "', "^[[:blank:]]*(Decision|Outcome):")
BROUGHT = 1_000  # commits that a merge brought, of those that count as reverted with it
RENAMES = 4  # names of one file that are followed
MOST_TOUCHING = 200  # commits of a file that are looked at, the newest


def arrivals(
    history: History, paths: Iterable[str], said: Mapping[str, Said], *, after: str = "", limit: float = LONG
) -> tuple[Arrival, ...] | None:
    """What came to the branch for some files and folders, oldest first.

    Args:
        history: of the code.
        paths: from the top of the work tree; everything where none is given.
        said: what commits say of decisions, by commit: what one says that a merge brought, the merge carries out.
        after: only what came after this commit.
        limit: seconds it may take.

    Returns:
        The arrivals; None where there was not time enough.
    """
    span = (history.tip, f"^{after}") if after else (history.tip,)
    rows = history.rows("--first-parent", "-m", "--no-renames", *span, "--", *paths, limit=limit)
    try:
        brought = _brought(history, span, said, limit) if said else {}
        found = []
        for made, files in rows:
            came = (said[one] for one in brought.get(made.id, ()) if one != made.id)
            decisions, not_so = carried_out((made.said, *came))
            changed = tuple(Row(row.path, _blob(row.old), _blob(row.new)) for row in files)
            found.append(Arrival(made.id, made.at, decisions, changed, not_so))
    except GitError as error:
        if not error.unanswered:
            raise
        return None
    return tuple(reversed(found))


def _brought(history: History, span: Iterable[str], wanted: Collection[str], limit: float) -> dict[str, list[str]]:
    """Which of some commits came with which commit of the line: with itself, or with the merge that brought it."""
    told = history.git.run("rev-list", "--parents", *span, "--", limit=limit).decode().splitlines()
    parents = {commit: found for commit, *found in map(str.split, told)}
    line = list(parents)[:1]
    while line and (first := parents[line[-1]][:1]) and first[0] in parents:
        line += first
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for arrived in reversed(line):
        waiting = [arrived]
        while waiting:
            commit = waiting.pop()
            if commit in parents and commit not in seen:
                seen.add(commit)
                waiting += parents[commit]
                if commit in wanted:
                    found.setdefault(arrived, []).append(commit)
    return found


def begins_line(history: History, commit: str) -> bool:
    """Whether a commit is on the line of first parents, or the tip of what a commit of that line merged."""
    told = history.git.run("rev-list", "--first-parent", "--boundary", history.tip, f"^{commit}", "--", limit=LONG)
    return history.tip == commit or f"-{commit}" in told.decode().split()


def renamed(history: History, commit: str) -> dict[str, str]:
    """The files that a commit renamed against its first parent: old name -> new name."""
    rows = history.rows("--first-parent", "-m", "-M", "--diff-filter=R", "-1", commit, "--")
    return {row.before: row.path for _, files in rows for row in files}


def present(history: History, paths: Sequence[str]) -> frozenset[str]:
    """The files that the tip has among some and below some folders, links and submodules too; "" stands for all."""
    if not paths:
        return frozenset()
    where = () if "" in paths else ("--", *paths)
    answer = history.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", history.tip, *where)
    return frozenset(answer.decode("utf-8", "surrogateescape").split("\0")[:-1])


class Past(NamedTuple):
    """What made a file what it is.

    Args:
        commits: the newest first; without those at which a shallow clone ends, which seem to have brought all.
        names: those that the file had, as far as they were looked for.
        cut: whether there is more of it, which this clone lacks.
    """

    commits: tuple[Commit, ...]
    names: frozenset[str]
    cut: bool = False


def touching(history: History, path: str, lines: tuple[int, int] | None = None, *, limit: float = LONG) -> Past:
    """The commits that made a file, or some lines of it, what the tip has; newest first.

    Args:
        history: of the code.
        path: from the top of the work tree.
        lines: the numbers of the first and the last in the tip's version, from 1.
        limit: seconds that one look at a name may take.
    """
    try:
        if lines is None:
            commits, names = _of_file(history, path, limit)
        else:
            told = history.rows(f"-L{lines[0]},{lines[1]}:{path}", "-s", history.tip, limit=_LINES)
            commits, names = [made for made, _ in told], set()
    except GitError as error:
        if PROMISED not in error.stderr:
            raise
        return Past((), frozenset((path,) if lines is None else ()), cut=True)
    ends = history.boundary()
    known = tuple(made for made in commits if made.id not in ends)
    return Past(known, frozenset(names), cut=len(known) < len(commits))


def _of_file(history: History, path: str, limit: float) -> tuple[Sequence[Commit], set[str]]:
    """Not by --follow, which compares every commit with its parent even where a graph tells, and renames back once."""
    commits: list[Commit] = []
    names = {path: ""}  # each with the commit that renamed the file from it
    for at in range(RENAMES):
        if at == len(names):
            break
        name, until = list(names.items())[at]
        rows = list(history.rows("--no-renames", f"-{MOST_TOUCHING}", history.tip, "--", name, limit=limit))
        place = next((place for place, made in enumerate(commits, 1) if made.id == until), 0)
        commits[place:place] = [made for made, _ in rows]
        for commit, before in _sources(history, name, _beginnings(rows)):
            names.setdefault(before, commit)
    return tuple({made.id: made for made in commits}.values()), set(names)


def _beginnings(rows: Sequence[tuple[Commit, Sequence[log.Row]]]) -> list[str]:
    """The commits that seem to begin a file, of those that touched it: its oldest, and those over a removal."""
    kinds = [found[-1].status if found else "" for _, found in rows]  # Git lists merges without files
    oldest = len(rows) - 1 if len(rows) < MOST_TOUCHING else -1
    seeming = (at for at, kind in enumerate(kinds) if kind == "A" and (at == oldest or "D" in kinds[at:]))
    return [rows[at][0].id for at in seeming]


def _sources(history: History, name: str, commits: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Those of some commits that renamed a file to a name, each with the name that it had before."""
    how = ("--no-walk=unsorted", "--first-parent", "-m", "-M", "--diff-filter=R")
    for made, rows in history.rows(*how, *commits, "--") if commits else ():
        yield from ((made.id, row.before) for row in rows if row.path == name)


def claims(history: History, since: str = "") -> tuple[Claim, ...]:
    """The commits whose messages say something of decisions or take other commits back, each after its ancestors.

    Args:
        history: of the code.
        since: only commits after this one.
    """
    span = f"{since}..{history.tip}" if since else history.tip
    wanted = (f"--grep={pattern}" for pattern in _TELLING)
    command = (
        "log",
        "--reverse",
        "--topo-order",
        "-i",  # keys of trailers are, to Git
        "-E",
        *wanted,
        f"--pretty={_CLAIM}",
        "--no-show-signature",
        "--no-color",
        span,
        "--",
    )
    try:
        answer = history.git.run(*command, limit=LONG).decode("utf-8", "replace")
    except GitError as error:
        if error.unborn:
            return ()
        raise
    found = list(_claims(iter(answer.split("\0"))))
    taken = _on_branch(history, {one for _, reverts in found for one, _ in reverts})
    return tuple(
        claim._replace(
            reverts=tuple(commit for one, kept in reverts for commit in _taken(history, taken.get(one), kept))
        )
        for claim, reverts in found
    )


def _on_branch(history: History, names: Collection[str]) -> dict[str, str]:
    """Full ids by what they were called, of commits that are on the branch; a rebase leaves the names of others."""
    if not names:
        return {}
    asked = "".join(f"{name}^{{commit}}\n" for name in sorted(names)).encode()
    rows = [row.split() for row in history.git.run("cat-file", "--batch-check", input=asked).decode().splitlines()]
    told = zip(sorted(names), rows, strict=True)
    found = {name: commit for name, (commit, kind, *_) in told if kind == "commit" and commit.startswith(name)}
    if not found:
        return {}
    others = "".join(f"{commit}\n" for commit in {*found.values(), f"^{history.tip}"}).encode()
    away = set(history.git.run("rev-list", "--stdin", input=others, limit=LONG).decode().split())
    return {name: commit for name, commit in found.items() if commit not in away}


def _taken(history: History, commit: str | None, kept: str) -> Iterator[str]:
    """What a revert takes back: a commit, or a merge with what it brought to the side that is kept."""
    if commit is None:
        return
    yield commit
    if kept:
        with contextlib.suppress(GitError):  # of a side that is not there
            told = history.git.run("rev-list", f"-{BROUGHT}", commit, f"^{kept}", "--", limit=LONG).decode().split()
            yield from (one for one in told if one != commit)


def _claims(fields: Iterator[str]) -> Iterator[tuple[Claim, tuple[tuple[str, str], ...]]]:
    for field in fields:
        if field.lstrip("\n").startswith("\x01"):
            commit = field.lstrip("\n")[1:]
            at, author, subject, trailers, body = (next(fields, "") for _ in range(5))
            said = said_in(trailers)
            yield Claim(commit, millis(at), author, subject, (), said, aside(body, said)), reverted(body)


def _blob(oid: str) -> str:
    return "" if set(oid) == {"0"} else oid
