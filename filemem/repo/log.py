"""A commit, as `git log` prints it and as the table keeps it.

Rule: it is read by count, so that no message, name or path can pass for the next commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.repo.run import GitError

if TYPE_CHECKING:
    from filemem.repo import Repo

LIMIT = 600.0  # seconds for the first look at a long history
REVERTS = "Reverts"  # the trailer that stands for "This reverts commit X." in a message
NAME, NAMES = 200, 20  # characters of a name, and names of one kind, that are read: a commit can state any number
_RECORD, _SPEAKING = "filemem-id", frozenset(("decision", "outcome"))
_REVERT = re.compile(
    r"(?m)^This reverts commit ([0-9a-f]{7,64})(?:,\s+reversing\s+changes\s+made\s+to\s+([0-9a-f]{7,64}))?"
)
_TRAILERS = "%(trailers:only,unfold,separator=%x1f,key_value_separator=%x1e)"
_FORMAT = f"--format=%x01%H%x00%P%x00%ct%x00%at%x00%an%x00%ae%x00%s%x00{_TRAILERS}%x00%b%x00"
_ALL = ("--full-history", "--sparse", "--topo-order", "--reverse", "--ignore-missing", "--encoding=UTF-8", "-z")
_QUIET = ("--no-color", "--no-show-signature", "--no-notes", "--no-ext-diff", "--no-textconv")
_ROWS = ("--raw", "--no-abbrev", "--root", "--ignore-submodules=none", "--diff-merges=combined", "--combined-all-paths")
_WAYS = (("-M", "-l1000", *_ROWS), ("-M100%", *_ROWS), ())  # a partial clone may lack old bytes, or old trees too
_Row = tuple[str, str, str, str, str]  # kind (A, M, D or R), path, path before, blob before and after ("" for none)


class Commit(NamedTuple):
    """A commit: `at` is when it was made, `written` when its author wrote it, in epoch milliseconds.

    `agent`, `reviewers` and `co_authors` come from its trailers; `trailers` holds all of them, and a pair
    (`REVERTS`, id) for each commit that it says it reverts.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    email: str
    at: int
    written: int
    subject: str
    agent: str = ""
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()


class Logged(NamedTuple):
    """A commit as Git prints it: its row in the table, what it did below the folder, and the records that it names."""

    row: tuple[Any, ...]
    parents: tuple[str, ...]
    touched: tuple[_Row, ...]
    records: tuple[str, ...]


def logged(repo: Repo, folder: str, commit: str, without: Sequence[str]) -> Iterator[Logged]:
    """The commits that one reaches and others do not, parents before children. Raises GitError."""
    spans = "".join(f"^{tip}\n" for tip in without).encode()
    for way in _WAYS:
        paths = ("--", folder) if folder != "." and way else ()
        asked = (*_ALL, *_QUIET, *way, _FORMAT, commit, "--stdin", *paths)
        try:
            printed = repo.git.run("log", *asked, input=spans, limit=LIMIT)
            break
        except GitError:
            if not way or not repo.incomplete():
                raise
    yield from _read(printed.decode("utf-8", "replace"))


def commit_of(row: Sequence[Any], parents: tuple[str, ...]) -> Commit:
    """A commit from its row of the table."""
    one, author, email, at, written, subject, raw = row
    trailers = tuple(_pairs(raw)) if raw else ()
    agents, reviewers, helpers = (
        tuple(_cut(value) for key, value in trailers if key.lower() == wanted)[:NAMES]
        for wanted in ("agent", "reviewed-by", "co-authored-by")
    )
    agent = _cut(" ".join(agents))
    return Commit(one, parents, _cut(author), email, at, written, subject, agent, reviewers, helpers, trailers)


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _pairs(trailers: str) -> list[tuple[str, str]]:
    """Keys and values of the trailers of an entry."""
    parts = (part.partition("\x1e") for part in trailers.split("\x1f"))
    return [(key.strip(), " ".join(value.split())) for key, _, value in parts if value.strip()]


def _read(printed: str) -> Iterator[Logged]:
    fields = iter(printed.split("\0"))
    header: list[str] = []
    rows: list[_Row] = []
    for field in fields:
        text = field.lstrip("\n")
        if text.startswith("\x01"):
            if header:
                yield _entry(header, rows)
            header, rows = [text[1:], *(next(fields, "") for _ in range(8))], []
        elif text.startswith(":") and (row := _row(text, fields)):
            rows.append(row)
    if header:
        yield _entry(header, rows)


def _entry(header: Sequence[str], rows: Sequence[_Row]) -> Logged:
    commit, parents, at, written, author, email, subject, trailers, body = header
    reverts = _REVERT.findall(body) if "This reverts commit" in body else ()
    for one, side in reverts:
        trailers = f"{trailers}\x1f{REVERTS}\x1e{one} {side}".strip("\x1f ")
    pairs = _pairs(trailers) if trailers else []
    speaks = any(key.lower() in _SPEAKING for key, _ in pairs)
    speaks = speaks or bool(reverts) or subject.startswith(('Revert "', 'Reapply "'))
    times = _millis(at), _millis(written) or _millis(at)
    row = commit, author or email or "unknown", email, *times, subject, trailers, speaks
    named = tuple(value for key, value in pairs if key.lower() == _RECORD)
    return Logged(row, tuple(parents.split()), tuple(rows), named)


def _millis(seconds: str) -> int:
    """Epoch milliseconds of what Git prints; no commit can name a time that no calendar has."""
    return min(int(seconds), 253_402_300_799) * 1000 if seconds.isdigit() else 0


def _row(text: str, fields: Iterator[str]) -> _Row | None:
    """One file of a commit; None where a merge took over what it found.

    Of a merge each parent has a blob and a path: with the path that it has now in none of them, it was renamed there.
    """
    sides = len(text) - len(text.lstrip(":"))
    words = text.lstrip(":").split(" ")
    olds, new, status = words[sides + 1 : 2 * sides + 1], words[2 * sides + 1], words[-1]
    many = sides > 1 or status[0] == "R"
    names = [next(fields, "") for _ in range(sides + 1 if many else 1)]
    path = names[-1]
    there = [name for name, old in zip(names, olds, strict=False) if old.strip("0")]
    before = next((name for name in there if name != path), "") if path not in there else ""
    old = next((one for one in olds if one.strip("0")), "")
    if sides > 1 and not before and new in olds:
        return None
    kind = "R" if before else "D" if not new.strip("0") else "M" if old else "A"
    return kind, path, before, old, new if new.strip("0") else ""
