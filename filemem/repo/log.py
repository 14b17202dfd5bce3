"""What `git log` prints, read by count: no message, name or path can pass for the next commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.repo import Repo

LIMIT = 600.0  # seconds for the first look at a long history
_MAX_MOVES = (
    20  # from folder to folder that a file is followed through: each is a look at the history
)
_TRAILERS = "%(trailers:only,unfold,separator=%x1f,key_value_separator=%x1e)"
_FORMAT = f"--format=%x01%H%x00%P%x00%ct%x00%an%x00%s%x00{_TRAILERS}%x00%b%x00"
ALL_COMMITS = ("--full-history", "--sparse", "--topo-order", "--reverse", "--ignore-missing")
_QUIET_OPTIONS = (
    "--no-color",
    "--no-show-signature",
    "--no-notes",
    "--no-ext-diff",
    "--no-textconv",
)
_ROW_OPTIONS = (
    "--encoding=UTF-8",
    "-z",
    "--raw",
    "-l1000",
    "--no-abbrev",
    "--root",
    "--ignore-submodules=none",
)

FileRow = tuple[str, str, str, str, str]
"""Kind (A, M, D or R), path, path before, blob before and after ("" for none)."""
CommitLog = list[tuple[list[str], list[FileRow]]]
"""Headers and files of commits."""


def read_commits(
    repo: Repo,
    revisions: Iterable[str],
    paths: Collection[str],
    options: Iterable[str],
    merges: str = "combined",
) -> CommitLog:
    """What Git says of some commits and of the files at some paths, or of all. Raises GitError.

    Of `merges`: what differs from all parents; or, where they are `separate`, from each.
    """
    lines = "".join(f"{revision}\n" for revision in revisions).encode()
    renames = "-M100%" if repo.is_partial else "-M"  # a partial clone lacks old bytes
    diff_options = (renames, f"--diff-merges={merges}")
    arguments = ("log", *options, *_QUIET_OPTIONS, *_ROW_OPTIONS, *diff_options, _FORMAT, "--stdin")
    output = repo.git.run(
        *arguments, *(("--", *paths) if paths else ()), input_data=lines, limit=LIMIT
    )
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    logged: CommitLog = []
    for field in fields:
        text = field.lstrip("\n")
        if text.startswith("\x01"):
            logged.append(([text[1:], *(next(fields, "") for _ in range(6))], []))
        elif text.startswith(":"):
            logged[-1][1].append(_parse_row(text, fields))
    return logged


def read_earlier_rows(repo: Repo, tip: str, logged: CommitLog) -> dict[tuple[str, str], FileRow]:
    """Of files from outside: their moves and all before, by commit and path. Raises GitError."""
    rows: dict[tuple[str, str], FileRow] = {}
    names: set[str] = set()
    for _ in range(_MAX_MOVES):
        moves = _read_moves(repo, _collect_additions(logged))
        rows |= moves
        moved_sources = {(commit, row[2]) for (commit, _), row in moves.items()}
        for header, file_rows in logged:  # Git says of a merge that the old name was removed
            file_rows[:] = [
                row
                for row in file_rows
                if row[0] != "D" or (header[0], row[1]) not in moved_sources
            ]
        sources = {row[2] for row in moves.values()} - names
        if not sources:
            break
        logged = _read_file_rows(repo, tip, sources)
        names |= sources
        for header, file_rows in logged:
            for row in file_rows:
                rows.setdefault((header[0], row[1]), row)
    return rows


def _collect_additions(logged: CommitLog) -> set[tuple[str, str]]:
    """Commit and path of what may be moved: first commits and our saves move nothing."""
    additions: set[tuple[str, str]] = set()
    for header, rows in logged:
        if header[1] and "Filemem-Id" not in header[5]:
            additions.update((header[0], row[1]) for row in rows if row[0] == "A")
    return additions


def _read_moves(repo: Repo, additions: set[tuple[str, str]]) -> dict[tuple[str, str], FileRow]:
    """Those added files that were moved, by the whole of their commits. Raises GitError."""
    ids = {commit for commit, _ in additions}
    logged = read_commits(repo, ids, (), ("--no-walk",), "separate") if ids else []
    renames = {(header[0], row[1]): row for header, rows in logged for row in rows if row[0] == "R"}
    return {key: row for key, row in renames.items() if key in additions}


def _read_file_rows(repo: Repo, tip: str, names: set[str]) -> CommitLog:
    """All rows of some files up to a tip; the names that they had in their folder join `names`."""
    folders = {name.rpartition("/")[0] or name for name in names}
    logged = read_commits(repo, (tip,), folders, ("--full-history", "--topo-order"))
    for _, rows in logged:
        rows[:] = [row for row in rows if not names.isdisjoint(row[1:3])]
        names.update(row[2] for row in rows if row[0] == "R")
    return logged


def _parse_row(text: str, fields: Iterator[str]) -> FileRow:
    """One file of a commit; of a merge, the blob before is the first that a parent has."""
    parent_count = len(text) - len(text.lstrip(":"))
    words = text.lstrip(":").split(" ")
    old_blob = next(
        (blob for blob in words[parent_count + 1 : 2 * parent_count + 1] if blob.strip("0")), ""
    )
    new_blob = words[2 * parent_count + 1] if words[2 * parent_count + 1].strip("0") else ""
    path = next(fields, "")
    if parent_count == 1 and words[-1].startswith("R"):
        return "R", next(fields, ""), path, old_blob, new_blob
    is_new = not old_blob or "R" in words[-1]
    return "D" if not new_blob else "A" if is_new else "M", path, "", old_blob, new_blob


def parse_trailers(trailers: str) -> tuple[tuple[str, str], ...]:
    """The trailers of a commit, as its header has them: key and value."""
    parts = (part.partition("\x1e") for part in trailers.split("\x1f"))
    return tuple((key.strip(), " ".join(value.split())) for key, _, value in parts if value.strip())
