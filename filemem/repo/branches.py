"""The default branch, and when each commit landed on it. Rule: where it stands is read from files, without a process.

A commit lands with the first one on the default branch's line of first parents that contains it: itself, or the merge
that brought it. Times on that line never fall, whatever the clocks said.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.repo import shallow
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.memo import Memo
from filemem.repo.stamps import millis

if TYPE_CHECKING:
    from filemem.repo.objects import Objects

REMOTE = "origin"  # whose word on the default branch counts first
USUAL = ("main", "master", "trunk")
FEW = 16  # commits that are read one by one
_OID = re.compile(r"[0-9a-f]{40,64}")


class Branch(NamedTuple):
    """A branch: its name without `refs/heads/` or the remote's, and its last commit."""

    name: str
    tip: str


def tip_of(common_dir: Path, ref: str) -> str:
    """The commit that a full reference name leads to, "" where files do not tell."""
    try:
        loose = common_dir / ref
        if loose.is_file():
            return found[0] if (found := _OID.match(loose.read_text().strip())) else ""
        packed = (common_dir / "packed-refs").read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    line = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(ref)}$", packed, re.MULTILINE)
    return line[1] if line else ""


def defaults(common_dir: Path, current: Branch) -> tuple[Branch, ...]:
    """The default branch, here and on the remote, as far as there are both; nothing where none can be told.

    It is what the remote says it is (`refs/remotes/origin/HEAD`), else the first of the usual names that there is, else
    the one branch that the remote has, or, where HEAD is on none, as in a submodule, the one branch that is here.

    Args:
        common_dir: the Git directory that holds the references.
        current: the branch that is checked out; where it is the default one it is all there is, and nothing is read.
    """
    remotes = sorted((common_dir / "refs" / "remotes").glob("*/HEAD"), key=lambda each: each.parent.name != REMOTE)
    for head in remotes:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            remote = head.parent.name
            target = head.read_text().strip().removeprefix("ref: ")
            name = target.removeprefix(f"refs/remotes/{remote}/")
            if name != target:
                return _there(common_dir, name, remote, current)
    usual = next(filter(None, (_there(common_dir, name, REMOTE, current) for name in USUAL)), ())
    if usual:
        return usual
    places = (f"refs/remotes/{REMOTE}/", *(() if current.name else ("refs/heads/",)))
    only = next((names.pop() for place in places if len(names := _names(common_dir, place)) == 1), "")
    return _there(common_dir, only, REMOTE, current) if only else ()


def _names(common_dir: Path, place: str) -> set[str]:
    """The branches below `refs/heads/` or those of a remote."""
    folder = common_dir / place
    loose = (one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())
    with contextlib.suppress(OSError, UnicodeDecodeError):
        packed = (common_dir / "packed-refs").read_text()
        return {*loose, *re.findall(rf"^[0-9a-f]{{40,64}} {re.escape(place)}(.+)$", packed, re.MULTILINE)} - {"HEAD"}
    return {*loose} - {"HEAD"}


def _there(common_dir: Path, name: str, remote: str, current: Branch) -> tuple[Branch, ...]:
    if name == current.name and current.tip:
        return (current,)
    tips = (tip_of(common_dir, f"refs/heads/{name}"), tip_of(common_dir, f"refs/remotes/{remote}/{name}"))
    return tuple(Branch(name, tip) for tip in dict.fromkeys(tips) if tip)


class Row(NamedTuple):
    """A commit with its parents; `at` in epoch seconds."""

    commit: str
    at: int
    parents: tuple[str, ...]


def landings(rows: Iterable[Row], tip: str, before: str, since: int) -> Mapping[str, int] | None:
    """When commits landed, in epoch seconds.

    Args:
        rows: those that `tip` contains and `before` does not, in any order.
        tip: the last commit of the branch.
        before: a former tip; "" for none.
        since: when that one landed.

    Returns:
        None where the branch did not go through `before`: it was rewritten.
    """
    known = {row.commit: row for row in rows}
    line: list[Row] = []
    at = tip
    while at in known:
        line.append(known[at])
        at = known[at].parents[0] if known[at].parents else ""
    if before and at != before:
        return None
    found: dict[str, int] = {}
    for row in reversed(line):
        since = max(since, row.at)
        waiting = [row.commit]
        while waiting:
            one = waiting.pop()
            if one in known and one not in found:
                found[one] = since
                waiting.extend(known[one].parents)
    return found


class Landed:
    """When commits landed on one branch, remembered.

    The file is only ever appended to: a line `commit seconds` for each, and a line `= tip` after what one look added,
    in a shallow clone `= tip depth`: where that changed, all of it is found out anew.

    Args:
        git: runs Git.
        objects: opens what reads commits, at the first need for it: most questions are answered by the memo.
        memo: where it is remembered.
    """

    def __init__(self, git: Git, objects: Callable[[], Objects], memo: Memo) -> None:
        self._git, self._objects, self._memo = git, objects, memo
        self._data = b""
        self._kept = False  # whether the file holds what we know
        self._state = (-1, -1, -1)  # of the memo, when that was so
        self._tip = ""
        self._depth = ""  # of history, as `shallow.depth` has it

    def at(self, commit: str, tip: str) -> int | None:
        """When a commit landed, in epoch milliseconds; None where it did not, or where nobody looked yet."""
        if not self.current(tip):
            return None
        return self._found(commit)

    def look(self, tip: str) -> None:
        """Find out about every commit up to a tip, however many these are."""
        self.current(tip, grow=True)

    def current(self, tip: str, *, grow: bool = False) -> bool:
        """Bring what is known up to a tip, where that is little work or wanted at all costs; whether it is."""
        depth = shallow.depth(self._git.places.common_dir)
        if not tip or (self._tip, self._depth) == (tip, depth):
            return bool(tip)
        if (state := self._memo.state()) != self._state:  # it may be long, and mostly only we have added to it
            kept = self._memo.read()
            self._kept = kept.startswith(b"\n")  # else it begins with what was added to a file that is gone
            self._data = kept if self._kept else self._data
            self._state = state
        before, since = self._last()
        self._tip, self._depth = before if since == depth else "", depth
        if self._tip == tip:
            return True
        if self._tip and self._read(tip, self._tip):
            return True
        return bool(before or grow) and self._read(tip, "")  # anew where the branch was rewritten, or goes further back

    def _last(self) -> tuple[str, str]:
        """The tip that was looked at last, and how far history went back then."""
        mark = self._data[self._data.rfind(b"\n", 0, -1) + 1 :]
        if not mark.startswith(b"= ") or not mark.endswith(b"\n"):
            return "", ""
        tip, _, depth = mark[2:-1].decode("ascii", "replace").partition(" ")
        return tip, depth

    def _read(self, tip: str, before: str) -> bool:
        rows = self._few(tip, before) or self._all(tip, before)
        if rows is None:
            return False
        since = (self._found(before) or 0) // 1000 if before else 0
        found = landings(rows, tip, before, since)
        if found is None:
            return False
        lines = (
            "".join(f"{commit} {at}\n" for commit, at in found.items()).encode()
            + f"= {tip} {self._depth}".rstrip().encode()
            + b"\n"
        )
        self._data = self._data + lines if before else b"\n" + lines
        self._tip = tip
        if before and self._kept:
            file, size, _ = self._state
            added = self._memo.append(lines)
            state = self._memo.state()
            self._state = state if state[:2] == (file, size + added) else self._state  # else others wrote beside us
        else:
            self._memo.write(self._data)
        return True

    def _few(self, tip: str, before: str) -> list[Row]:
        """The commits of a short line between two tips, or nothing: a save adds one, and a process takes 2 ms."""
        rows: list[Row] = []
        while before and tip != before and len(rows) < FEW:
            found = self._objects().read(tip)
            if found is None or len(found.parents) != 1:
                return []
            rows.append(Row(tip, found.made // 1000, found.parents))
            tip = found.parents[0]
        return rows if tip == before else []

    def _all(self, tip: str, before: str) -> list[Row] | None:
        """The commits that one tip contains and the other does not; None where Git does not tell."""
        span = [tip, *([f"^{before}"] if before else [])]
        try:
            told = self._git.run("log", "--pretty=tformat:%H %ct %P", *span, "--", limit=LONG).decode()
        except GitError:
            return None
        cells = (line.split(" ") for line in told.splitlines())
        return [Row(commit, millis(at) // 1000, tuple(filter(None, parents))) for commit, at, *parents in cells]

    def _found(self, commit: str) -> int | None:
        at = self._data.find(f"\n{commit} ".encode()) if commit else -1
        if at < 0:
            return None
        end = self._data.index(b"\n", at + 1)
        return int(self._data[at + len(commit) + 2 : end]) * 1000
