"""Has the code that a decision governs changed since the decision landed? Pure: arrivals in, a verdict out.

Rule: what is compared is what Git has, file by file, from the moment the decision came to this branch, or the file did
where that was later: nothing is stored and nothing is refreshed by looking. A change that was taken back is none, nor
is a file that came and went again as it came, unless the decision states its very path. A commit that names the
decision in a `Decision:` trailer carries it out: what it leaves is what the decision meant, as far as it found what the
decision meant.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from filemem.query.filter import affects_match, segments, within

FRESH, CHANGED, MISSING, UNKNOWN = "fresh", "changed", "missing", "unknown"
HALF = 0.5  # a file that keeps less than this of itself is another: the measure by which Git finds renames (diff -M)


class Row(NamedTuple):
    """A file that an arrival brought, changed or removed: its blobs before and after, "" for none."""

    path: str
    before: str
    after: str


class Arrival(NamedTuple):
    """What came to a branch at once: a commit, or a merge with all that it brought.

    Args:
        commit: its id.
        at: epoch milliseconds.
        decisions: what it carries out: what its `Decision:` trailers name, and those of the commits that it brought.
        rows: the files.
        not_so: what it carries out under no name: one says that this failed, or nothing clear of what came of it.
    """

    commit: str
    at: int
    decisions: tuple[str, ...]
    rows: tuple[Row, ...]
    not_so: tuple[str, ...] = ()

    def carries_out(self, names: frozenset[str]) -> bool:
        """Whether it carries out a decision that goes by some names."""
        return not names.isdisjoint(self.decisions) and names.isdisjoint(self.not_so)


class Names:
    """Paths that can be asked for by what a decision states: a path, a folder, a glob."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths)
        self._found: dict[str, frozenset[str]] = {}

    def matching(self, patterns: Iterable[str]) -> set[str]:
        """The paths that any of the patterns covers."""
        return {path for pattern in patterns if within(pattern) for path in self._matching(pattern)}

    def _matching(self, pattern: str) -> frozenset[str]:
        if pattern not in self._found:
            start = fixed(pattern)
            end = bisect_left(self._paths, f"{start}0") if start else len(self._paths)  # "0" comes after "/"
            near = self._paths[bisect_left(self._paths, start) : end]
            self._found[pattern] = frozenset(path for path in near if affects_match(pattern, path))
        return self._found[pattern]


class Line:
    """What came to a branch, oldest first, found by path."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self.arrivals = arrivals
        self._rows: dict[str, list[tuple[int, Row]]] = {}
        for number, arrival in enumerate(arrivals):
            for row in arrival.rows:
                self._rows.setdefault(row.path, []).append((number, row))
        self._names = Names(self._rows)
        self._places = {arrival.commit: number for number, arrival in enumerate(arrivals)}

    def of(self, commit: str) -> int | None:
        """The place of a commit; None where it is not on this line."""
        return self._places.get(commit)

    def by(self, when: int) -> int:
        """The place of the last arrival by a moment, in epoch milliseconds; -1 for before all."""
        return bisect_right([arrival.at for arrival in self.arrivals], when) - 1

    def first(self, paths: Iterable[str]) -> int | None:
        """The place of the first arrival that brought one of these files, which was not there; None where none did."""
        found = (n for path in paths for n, row in self._rows.get(path, ()) if row.after and not row.before)
        return min(found, default=None)

    def versions(self, paths: Iterable[str]) -> list[tuple[int, str]]:
        """What became of one file under several names: the places of the arrivals that left it something, its blobs."""
        return sorted((n, row.after) for path in paths for n, row in self._rows.get(path, ()) if row.after)

    def later(self, at: int, patterns: Iterable[str], more: Iterable[str]) -> list[Arrival]:
        """The arrivals after a place, each with those rows only that patterns cover or that are named besides."""
        rows: dict[int, list[Row]] = {}
        for path in self._names.matching(patterns) | set(more):
            for number, row in self._rows.get(path, ()):
                if number > at:
                    rows.setdefault(number, []).append(row)
        return [self.arrivals[number]._replace(rows=tuple(rows[number])) for number in sorted(rows)]


class Drift(NamedTuple):
    """How the governed files stand.

    Args:
        verdict: fresh, changed, missing or unknown.
        changed: files that are not what they were, under their names of today.
        missing: files that are gone.
        files: how many there are, or were.
        commits: arrivals that made the difference; 0 where history was too long to count them.
        since: the commit by which the decision landed.
        reason: why nothing is known.
        blobs: what each changed file was and is, in the order of `changed`.
    """

    verdict: str
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    files: int = 0
    commits: int = 0
    since: str = ""
    reason: str = ""
    blobs: tuple[tuple[str, str], ...] = ()

    @property
    def drifted(self) -> bool:
        """Whether anything is not what it was."""
        return self.verdict in (CHANGED, MISSING)

    def outgrown(self, rewritten: int) -> bool:
        """Whether code has left a decision behind: a path that it states is gone, or half of its files are.

        Args:
            rewritten: how many of the changed files are `rewritten`; they count as gone.
        """
        return self.verdict == MISSING or (self.drifted and rewritten + len(self.missing) >= HALF * self.files)

    def __str__(self) -> str:
        if self.verdict == UNKNOWN:
            return f"unknown: {self.reason}"
        if self.verdict == FRESH:
            return FRESH
        gone = self.verdict == MISSING
        touched = len(self.missing) if gone else len(self.changed) + len(self.missing)
        more = f", {len(self.changed)} changed" if gone and self.changed else ""
        commits = f", {_count(self.commits, 'commit')}" if self.commits else ""
        told = f"{self.verdict} ({touched} of {_count(self.files, 'file')}{more}{commits})"
        return f"{told}: {_listed(self.missing)} {_is(self.missing)} gone" if self.missing else told


def rewritten(before: bytes, after: bytes) -> bool:
    """Whether less than half of a file's lines are left, wherever in it; blank ones and indentation do not count."""
    was = _lines(before)
    return (was & _lines(after)).total() < HALF * was.total()


def _lines(data: bytes) -> Counter[bytes]:
    return Counter(line for row in data.split(b"\n") if (line := row.strip()))


def fixed(pattern: str) -> str:
    """The part of a path or glob before its first wildcard: the file or folder that holds all it can match."""
    parts = segments(pattern)
    plain = next((at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts))
    return "/".join(parts[:plain])


def plain(pattern: str) -> str:
    """The path that a pattern is, where it has no wildcard; else ""."""
    path = fixed(pattern)
    return path if path == "/".join(segments(pattern)) else ""


def drift(
    patterns: Sequence[str],
    later: Iterable[Arrival],
    now: Collection[str],
    *,
    names: Collection[str] = (),
    since: str = "",
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Drift:
    """Compare the governed files with what they were.

    Args:
        patterns: paths and globs that the decision states.
        later: what came to the branch after the decision, oldest first; at least all that concerns these paths.
        now: the files that HEAD has, at least those that the patterns can match.
        names: ids by which a commit may name the decision.
        since: the commit by which it landed.
        renamed: file that went away -> the name it went on under.
    """
    stated = [pattern for pattern in patterns if within(pattern)]
    if not stated:
        return Drift(UNKNOWN, since=since, reason="it names no path of this repository")
    origin = {new: old for old, new in renamed.items()}

    def governed(path: str) -> bool:
        return path in origin or any(affects_match(pattern, path) for pattern in stated)

    rows: dict[str, list[tuple[Arrival, Row]]] = {}
    for arrival in later:
        for row in arrival.rows:
            if governed(row.path):
                rows.setdefault(row.path, []).append((arrival, row))
    exact = {path for one in stated if (path := plain(one))}
    told = {path: _story(found, frozenset(names), path in renamed, path in exact) for path, found in rows.items()}
    stories = {path: story for path, story in told.items() if story is not None}
    for new, old in origin.items():  # a file under a new name is compared with what it was under the old one
        if new in stories and old in stories:
            before, now_there = stories.pop(old), stories[new]
            stories[new] = _Story(before.first, now_there.last, before.commits | now_there.commits)
    changed = tuple(sorted(path for path, one in stories.items() if one.last and one.first != one.last))
    missing = tuple(sorted(path for path, one in stories.items() if one.first and not one.last))
    present = {path for path in now if governed(path)}
    commits = {commit for path in (*changed, *missing) for commit in stories[path].commits}
    files = len(present | set(missing))
    if not files:
        unseen = "" if told else f"{_listed(stated)} {_is(stated)} not in Git"
        return Drift(UNKNOWN if unseen else FRESH, since=since, reason=unseen)
    gone = any(not any(affects_match(p, path) for path in present) and _lost(p, missing) for p in stated)
    verdict = MISSING if gone else CHANGED if changed or missing else FRESH
    blobs = tuple((stories[path].first, stories[path].last) for path in changed)
    return Drift(verdict, changed, missing, files, len(commits), since, blobs=blobs)


class _Story(NamedTuple):
    """What became of one file: the blob that it is compared with, the one it has, the arrivals that changed it."""

    first: str
    last: str
    commits: frozenset[str]


def _story(rows: Sequence[tuple[Arrival, Row]], names: frozenset[str], moved: bool, exact: bool) -> _Story | None:
    """Follow one file through all that came after the decision; None where it came and went again as it came.

    Args:
        rows: what came, oldest first, each with what it did to the file; at least one.
        names: ids by which a commit may name the decision.
        moved: the file went on under another name in the last of them.
        exact: the decision states its very path, so that it is missed.
    """
    first, came, commits = None, None, frozenset[str]()
    went: _Story | None = None
    for arrival, row in rows:
        carries, goes_on = arrival.carries_out(names), moved and arrival is rows[-1][0]
        if first is None:
            first, came = row.before or row.after, None if row.before or carries else row.after
        if carries and first in (row.before, row.after):
            first, commits = row.after, frozenset()
        elif not (row.after or goes_on) and came == row.before:
            went = _Story(row.before, "", frozenset((arrival.commit,))) if exact else None
            first, came, commits = None, None, frozenset()
        elif row.before and not carries and (row.after or not goes_on):
            commits |= {arrival.commit}
    return went if first is None else _Story(first, rows[-1][1].after, commits)


def _lost(pattern: str, missing: Iterable[str]) -> bool:
    return any(affects_match(pattern, path) for path in missing)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
