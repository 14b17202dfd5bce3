"""What `git log` prints, read by count: no message, name or path can pass for the next commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.repo import Repo

LIMIT = 600.0  # seconds for the first look at a long history
_MOVES = 20  # from folder to folder that a file is followed through: each is a look at the history
_TRAILERS = "%(trailers:only,unfold,separator=%x1f,key_value_separator=%x1e)"
_FORMAT = f"--format=%x01%H%x00%P%x00%ct%x00%an%x00%s%x00{_TRAILERS}%x00%b%x00"
EVERY = ("--full-history", "--sparse", "--topo-order", "--reverse", "--ignore-missing")
_QUIET = ("--no-color", "--no-show-signature", "--no-notes", "--no-ext-diff", "--no-textconv")
_ROWS = (
    "--encoding=UTF-8",
    "-z",
    "--raw",
    "-l1000",
    "--no-abbrev",
    "--root",
    "--ignore-submodules=none",
)

Row = tuple[str, str, str, str, str]
"""Kind (A, M, D or R), path, path before, blob before and after ("" for none)."""
Logged = list[tuple[list[str], list[Row]]]
"""Headers and files of commits."""


def commits(
    repo: Repo,
    revisions: Iterable[str],
    paths: Collection[str],
    options: Iterable[str],
    merges: str = "combined",
) -> Logged:
    """What Git says of some commits and of the files at some paths, or of all. Raises GitError.

    Of `merges`: what differs from all parents; or, where they are `separate`, from each.
    """
    lines = "".join(f"{revision}\n" for revision in revisions).encode()
    renames = "-M100%" if repo.partial else "-M"  # a partial clone lacks old bytes
    how = (renames, f"--diff-merges={merges}")
    words = ("log", *options, *_QUIET, *_ROWS, *how, _FORMAT, "--stdin")
    printed = repo.git.run(*words, *(("--", *paths) if paths else ()), input=lines, limit=LIMIT)
    fields = iter(printed.decode("utf-8", "replace").split("\0"))
    logged: Logged = []
    for field in fields:
        text = field.lstrip("\n")
        if text.startswith("\x01"):
            logged.append(([text[1:], *(next(fields, "") for _ in range(6))], []))
        elif text.startswith(":"):
            logged[-1][1].append(_row(text, fields))
    return logged


def earlier(repo: Repo, tip: str, logged: Logged) -> dict[tuple[str, str], Row]:
    """Of files from outside: their moves and all before, by commit and path. Raises GitError."""
    rows: dict[tuple[str, str], Row] = {}
    names: set[str] = set()
    for _ in range(_MOVES):
        moves = _moves(repo, _births(logged))
        rows |= moves
        left = {(commit, row[2]) for (commit, _), row in moves.items()}
        for header, touched in logged:  # Git says of a merge that the old name was removed
            touched[:] = [
                row for row in touched if row[0] != "D" or (header[0], row[1]) not in left
            ]
        sources = {row[2] for row in moves.values()} - names
        if not sources:
            break
        logged = _before(repo, tip, sources)
        names |= sources
        for header, touched in logged:
            for row in touched:
                rows.setdefault((header[0], row[1]), row)
    return rows


def _births(logged: Logged) -> set[tuple[str, str]]:
    """Commit and path of what may be moved: first commits and our saves move nothing."""
    births: set[tuple[str, str]] = set()
    for header, rows in logged:
        if header[1] and "Filemem-Id" not in header[5]:
            births.update((header[0], row[1]) for row in rows if row[0] == "A")
    return births


def _moves(repo: Repo, births: set[tuple[str, str]]) -> dict[tuple[str, str], Row]:
    """Those added files that were moved, by the whole of their commits. Raises GitError."""
    ids = {commit for commit, _ in births}
    logged = commits(repo, ids, (), ("--no-walk",), "separate") if ids else []
    renames = {(header[0], row[1]): row for header, rows in logged for row in rows if row[0] == "R"}
    return {key: row for key, row in renames.items() if key in births}


def _before(repo: Repo, tip: str, names: set[str]) -> Logged:
    """All rows of some files up to a tip; the names that they had in their folder join `names`."""
    folders = {name.rpartition("/")[0] or name for name in names}
    logged = commits(repo, (tip,), folders, ("--full-history", "--topo-order"))
    for _, rows in logged:
        rows[:] = [row for row in rows if not names.isdisjoint(row[1:3])]
        names.update(row[2] for row in rows if row[0] == "R")
    return logged


def _row(text: str, fields: Iterator[str]) -> Row:
    """One file of a commit; of a merge, the blob before is the first that a parent has."""
    sides = len(text) - len(text.lstrip(":"))
    words = text.lstrip(":").split(" ")
    old = next((blob for blob in words[sides + 1 : 2 * sides + 1] if blob.strip("0")), "")
    new = words[2 * sides + 1] if words[2 * sides + 1].strip("0") else ""
    path = next(fields, "")
    if sides == 1 and words[-1].startswith("R"):
        return "R", next(fields, ""), path, old, new
    is_new = not old or "R" in words[-1]
    return "D" if not new else "A" if is_new else "M", path, "", old, new


def pairs(trailers: str) -> tuple[tuple[str, str], ...]:
    """The trailers of a commit, as its header has them: key and value."""
    parts = (part.partition("\x1e") for part in trailers.split("\x1f"))
    return tuple((key.strip(), " ".join(value.split())) for key, _, value in parts if value.strip())
