"""What `git log` prints, read by count: no message, name or path can pass for the next commit.

Also how HEAD and branches moved in this clone, from their reflogs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from filemem.repo.run import Git, read_git_file
from filemem.repo.state import SAVE_REFLOG

if TYPE_CHECKING:
    from filemem.repo import Repo

LIMIT = 600.0  # seconds for the first look at a long history
_MAX_MOVES = 20  # from folder to folder through which a file is followed: each runs Git again
_TRAILERS = "%(trailers:only,unfold,separator=%x1f,key_value_separator=%x1e)"
ALL_COMMITS = ("--full-history", "--sparse", "--topo-order", "--reverse", "--ignore-missing")
_LOG_OPTIONS = (
    "--no-color",
    "--no-show-signature",
    "--no-notes",
    "--no-ext-diff",
    "--no-textconv",
    "--encoding=UTF-8",
    "-z",
    "--raw",
    "-l1000",
    "--no-abbrev",
    "--root",
    "--ignore-submodules=none",
    f"--format=%x01%H%x00%P%x00%ct%x00%an%x00%s%x00{_TRAILERS}%x00%b%x00",
    "--stdin",
)

_MOVE = re.compile(r"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?> (\d{1,12}) [-+]\d{4}\t(.*)")


class FileRow(NamedTuple):
    """What a commit did to a file; "" for what does not apply."""

    kind: str  # A, M, D or R
    path: str
    old_path: str  # before a rename
    old_blob: str
    new_blob: str


class CommitHeader(NamedTuple):
    """The fields of a commit, as Git prints them."""

    id: str
    parents: str  # ids with spaces between them
    seconds: str  # since 1970
    author: str
    subject: str
    trailers: str  # see `commits.parse_trailers`
    body: str


class LoggedCommit(NamedTuple):
    """A commit and its files."""

    header: CommitHeader
    rows: list[FileRow]


RowKey = tuple[str, str]  # the id of a commit, and a path


def read_commits(
    repo: Repo,
    revisions: Iterable[str],
    paths: Collection[str],
    options: Iterable[str],
    merges: str = "combined",
) -> list[LoggedCommit]:
    """Read commits, with their files at some paths, or all files for none. Raises GitError.

    `merges`: of a merge, the files that differ from all parents, or with "separate" from any.
    """
    lines = "".join(f"{revision}\n" for revision in revisions).encode()
    # A partial clone lacks old contents, so it finds only renames that change nothing.
    renames = "-M100%" if repo.is_partial else "-M"
    command = ["log", *options, *_LOG_OPTIONS, renames, f"--diff-merges={merges}"]
    if paths:
        command += ("--", *paths)
    output = repo.git.run(*command, input_data=lines, limit=LIMIT)
    return _parse_log(output.decode("utf-8", "replace"))


def _parse_log(text: str) -> list[LoggedCommit]:
    """Parse what `git log` printed."""
    fields = iter(text.split("\0"))
    commits: list[LoggedCommit] = []
    for field in fields:
        line = field.lstrip("\n")
        if line.startswith("\x01"):
            other_fields = [next(fields, "") for _ in range(6)]
            header = CommitHeader(line[1:], *other_fields)
            commits.append(LoggedCommit(header, []))
        elif line.startswith(":"):
            commits[-1].rows.append(_parse_row(line, fields))
    return commits


def read_earlier_rows(repo: Repo, tip: str, logged: list[LoggedCommit]) -> dict[RowKey, FileRow]:
    """Read the moves of files into the folder, and what happened to them before. Raises GitError.

    What `logged` says of the old names is removed from it.
    """
    rows: dict[RowKey, FileRow] = {}
    names: set[str] = set()
    for _ in range(_MAX_MOVES):
        moves = _read_moves(repo, _collect_additions(logged))
        rows |= moves
        _drop_old_names(logged, moves)
        sources = {row.old_path for row in moves.values()} - names
        if not sources:
            break
        logged, former_names = _read_file_rows(repo, tip, sources)
        names |= former_names
        for header, file_rows in logged:
            for row in file_rows:
                rows.setdefault((header.id, row.path), row)
    return rows


def _drop_old_names(logged: list[LoggedCommit], moves: dict[RowKey, FileRow]) -> None:
    """Remove the removals that are part of a move: Git reports them for a merge."""
    moved_sources = {(commit, row.old_path) for (commit, _), row in moves.items()}
    for header, rows in logged:
        for row in rows.copy():
            if row.kind == "D" and (header.id, row.path) in moved_sources:
                rows.remove(row)


def _collect_additions(logged: list[LoggedCommit]) -> set[RowKey]:
    """Collect the additions that may be moves: first commits and our saves move nothing."""
    additions: set[RowKey] = set()
    for header, rows in logged:
        if not header.parents or "Filemem-Id" in header.trailers:
            continue
        for row in rows:
            if row.kind == "A":
                additions.add((header.id, row.path))
    return additions


def _read_moves(repo: Repo, additions: set[RowKey]) -> dict[RowKey, FileRow]:
    """Find the added files that were moved, by reading their commits whole. Raises GitError."""
    moves: dict[RowKey, FileRow] = {}
    ids = {commit for commit, _ in additions}
    if not ids:
        return moves
    for header, rows in read_commits(repo, ids, (), ["--no-walk"], merges="separate"):
        for row in rows:
            key = (header.id, row.path)
            if row.kind == "R" and key in additions:
                moves[key] = row
    return moves


def _read_file_rows(repo: Repo, tip: str, names: set[str]) -> tuple[list[LoggedCommit], set[str]]:
    """Read all rows of some files up to a tip, and the names that they had in their folder."""
    folders = {name.rpartition("/")[0] or name for name in names}
    former_names = set(names)
    logged = read_commits(repo, [tip], folders, ("--full-history", "--topo-order"))
    for _, rows in logged:
        rows[:] = [row for row in rows if not former_names.isdisjoint((row.path, row.old_path))]
        for row in rows:
            if row.kind == "R":
                former_names.add(row.old_path)
    return logged, former_names


def _parse_row(text: str, fields: Iterator[str]) -> FileRow:
    """Parse one file of a commit; its paths are the next of the fields.

    Of a merge, the old blob is the first that a parent has.
    """
    row = text.lstrip(":")
    parent_count = len(text) - len(row)
    # One mode for each parent and the commit, one blob for each, and the status.
    words = row.split(" ")
    status = words[-1]
    new_blob = words[2 * parent_count + 1]
    if _is_null(new_blob):
        new_blob = ""
    old_blob = ""
    for blob in words[parent_count + 1 : 2 * parent_count + 1]:
        if not _is_null(blob):
            old_blob = blob
            break
    path = next(fields, "")
    if status.startswith("R") and parent_count == 1:
        new_path = next(fields, "")
        return FileRow("R", new_path, path, old_blob, new_blob)
    if not new_blob:
        kind = "D"
    elif not old_blob or "R" in status:
        kind = "A"
    else:
        kind = "M"
    return FileRow(kind, path, "", old_blob, new_blob)


def _is_null(blob: str) -> bool:
    """Whether an id stands for no object: zeros."""
    return not blob.strip("0")


class RefMove(NamedTuple):
    """How HEAD or a branch moved in this clone."""

    old_tip: str
    new_tip: str
    seconds: int  # since 1970
    is_save: bool  # by a save of ours
    is_commit: bool  # by a new commit of the user's, not an amended, picked or merged one


def read_moves(git: Git, ref: str) -> list[RefMove]:
    """Read the moves of HEAD, or of a branch by its full name, from its reflog, oldest first.

    No fetch writes into these reflogs.
    """
    folder = git.folders.git_dir if ref == "HEAD" else git.folders.common_dir
    moves = []
    for line in read_git_file(folder / "logs" / ref).splitlines():
        match = _MOVE.match(line)
        if match is None:
            continue
        message = match[4]
        move = RefMove(
            old_tip=match[1],
            new_tip=match[2],
            seconds=int(match[3]),
            is_save=message.startswith(SAVE_REFLOG),
            is_commit=message.startswith(("commit: ", "commit (initial): ")),
        )
        moves.append(move)
    return moves
