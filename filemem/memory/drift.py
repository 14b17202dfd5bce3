"""Drift: have the files that a decision governs changed since the decision landed on this branch?

Rule: the blobs of now are compared with those of the commit by which the decision landed, or of the last one that
carried it out (it names the decision in a `Decision:` trailer), through one rename. Looking changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from filemem.index import Node
from filemem.memory import evidence
from filemem.memory.evidence import DAY, Testimony
from filemem.memory.store import Store
from filemem.query import Drift, Hit, affects_match, fixed, within
from filemem.record import DECISION, Problem, Record
from filemem.repo import GitError

if TYPE_CHECKING:
    from filemem.memory.snapshot import Snapshot

FRESH, CHANGED, MISSING, UNKNOWN = "fresh", "changed", "missing", "unknown"
MANY = 200  # paths that Git is asked for by name; for more, all files are read
NAMED = 5  # files that a message names
LIMIT = 120.0  # seconds for the comparison of large trees
_RAW = ("-z", "--raw", "--no-abbrev", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


class _Row(NamedTuple):
    """A file that is not what it was: its path then and now ("" where it is gone), and whether its content changed."""

    before: str
    now: str
    changed: bool


def of_all(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony | None = None
) -> dict[str, Drift]:
    """Return how the code stands that decisions govern, by id; those that name no code are left out."""
    wanted = {node: record.affects for node, record in decisions if record.type == DECISION and record.affects}
    if not wanted:
        return {}
    told, cut = testimony or Testimony(store), store.repo.incomplete()
    try:
        bases = _bases(store, wanted, told)
        rows = _rows(store, _moved(store, bases, wanted, told.tip), told.tip)
        there = _there(store, told.tip, wanted.values())
    except GitError:
        if not cut:
            raise
        bases, rows, there = {}, {}, []  # a partial clone lacks what it takes
    return {
        node.id: _drift([one for one in affects if within(one)], bases.get(node.path, ""), rows, there, cut)
        for node, affects in wanted.items()
    }


def counted(store: Store, drift: Drift, tip: str) -> Drift:
    """Add how many commits changed the files since the decision landed; merges do not count."""
    if not drift.drifted:
        return drift
    asked = ("rev-list", "--count", "--no-merges", f"{drift.since}..{tip}", "--", *drift.changed, *drift.missing)
    return drift._replace(commits=int(store.code.git.run(*asked)))


def problems(
    snapshot: Snapshot, testimony: Testimony, *, every: bool = False, files: Container[str] | None = None
) -> Iterator[Problem]:
    """Yield what `check` reports of live decisions that their code has left behind.

    Code has left a decision behind where a path that it names is gone, or half of its files are; an outcome that is
    newer answers that.

    Args:
        snapshot: the records.
        testimony: what commits say.
        every: report as hints also code that only changed.
        files: report only drift in these files of the code; None for all.
    """
    live = [(node, snapshot.by_id[node.id]) for node in snapshot.nodes.values() if snapshot.graph.is_head(node.id)]
    found = of_all(snapshot.store, live, testimony)
    for node, record in live:
        drift = found.get(node.id, Drift(FRESH))
        here = [one for one in (*drift.missing, *drift.changed) if files is None or one in files]
        left = drift.outgrown and here and not _answered(snapshot.store, record, drift, testimony.tip)
        if drift.drifted and here and (left or every):
            more = f" and {len(here) - NAMED} more" if len(here) > NAMED else ""
            text = f"the code that it governs is {drift}: {', '.join(here[:NAMED])}{more}"
            yield Problem(node.path, 1, "drift", "warning" if left else "hint", text)


def _answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """Whether an outcome is newer than the last change of the files; a bare date counts as all of its day."""
    last = max((entry.at if entry.at % DAY else entry.at + DAY for entry in record.outcomes), default=0)
    if not last:
        return False
    asked = ("log", "-1", "--first-parent", "--format=%ct", tip, "--", *drift.missing, *drift.changed)
    return int(store.code.git.run(*asked) or 0) * 1000 <= last


def _bases(store: Store, wanted: Iterable[Node], testimony: Testimony) -> dict[str, str]:
    """The commit that each decision is compared with, by store path."""
    paths = {store.files.named(node.path): node for node in wanted}
    cut, bases = store.repo.incomplete(), dict[str, tuple[int, str]]()
    if store.repo is store.code:
        landed = store.history.landed(paths, testimony.tip) if testimony.tip else {}
        bases = {path: (one.at, one.id) for path, one in landed.items() if one.parents or not cut}
    elif testimony.tip:
        for path, at in store.history.dates(paths, store.tip).items():
            asked = ("rev-list", "-1", "--first-parent", f"--before={at // 1000}", testimony.tip)
            bases[path] = at, store.code.git.run(*asked).decode().strip() or testimony.tip
    for path, base in bases.items():
        carried = testimony.carried_out(paths[path].id)
        ways = ((one.at, one.id) for one in reversed(testimony.commits) if one.id in carried)
        bases[path] = max((*ways, base), key=lambda one: one[0])
    return {paths[path].path: commit for path, (_, commit) in bases.items()}


def _moved(store: Store, bases: Mapping[str, str], wanted: Mapping[Node, Sequence[str]], tip: str) -> set[str]:
    """The commits since which something that a decision names is not what it was: only these are compared whole."""
    pairs = {
        (bases[node.path], fixed(one))
        for node, affects in wanted.items()
        for one in affects
        if node.path in bases and within(one)
    }
    plain = [pair for pair in pairs if "\n" not in pair[1]]
    names = dict.fromkeys((*plain, *((tip, start) for _, start in plain)))
    asked = "".join(f"{commit}:{start.rstrip('/')}\n" for commit, start in names)
    told = store.code.git.run("cat-file", "--batch-check=%(objectname)", input=asked.encode("utf-8", "surrogateescape"))
    ids = dict(zip(names, told.splitlines(), strict=True))
    found = {pair: b"" if one.endswith(b" missing") else one for pair, one in ids.items()}
    return {base for base, start in pairs if "\n" in start or found[base, start] != found[tip, start]}


def _rows(store: Store, bases: Iterable[str], tip: str) -> Mapping[str, Sequence[_Row]]:
    """What is not at `tip` what it was at each of some commits."""
    asked = ("diff-tree", "--stdin", "--always", "-r", *_RAW, "-M", "--diff-filter=MTDR")
    listed = list(bases)
    told = store.code.git.run(*asked, input="".join(f"{tip} {one}\n" for one in listed).encode(), limit=LIMIT)
    parts = iter(told.decode("utf-8", "surrogateescape").split("\0"))
    found: list[list[_Row]] = []
    for part in parts:
        if not part.startswith(":"):
            found += [[]] if part.strip() else []
            continue
        *_, old, new, how = part.split(" ")
        before = next(parts)
        now = next(parts) if how[0] == "R" else before if how[0] != "D" else ""
        found[-1].append(_Row(before, now, old != new))
    return dict(zip(listed, found, strict=True))


def _there(store: Store, tip: str, affects: Iterable[Sequence[str]]) -> list[str]:
    """The files of a commit that are below some patterns."""
    starts = {fixed(one) for each in affects for one in each if within(one)}
    if not starts or not tip:
        return []
    named = () if "" in starts or len(starts) > MANY else ("--", *sorted(starts))
    told = store.code.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tip, *named)
    return sorted(path for path in told.decode("utf-8", "surrogateescape").split("\0") if path)


def _below(paths: Sequence[str], start: str) -> Iterable[str]:
    """Of paths in order, the one that is called so and all that lie in a folder of that name."""
    if not start:
        return paths
    first, last = bisect_left(paths, f"{start}/"), bisect_left(paths, f"{start}0")  # the character after the slash
    at = bisect_left(paths, start)
    return (*paths[at : at + (paths[at : at + 1] == [start])], *paths[first:last])


def _drift(
    stated: Sequence[str], base: str, rows: Mapping[str, Sequence[_Row]], there: Sequence[str], cut: str
) -> Drift:
    """How the files stand that a decision states, given what differs from the commit that it is compared with."""
    if not stated:
        return Drift(UNKNOWN, reason="it names no path of this repository")
    if not base:
        return Drift(UNKNOWN, reason=cut or "the decision is not committed yet")

    def governed(path: str) -> bool:
        return any(affects_match(one, path) for one in stated)

    touched = [row for row in rows.get(base, ()) if governed(row.before)]
    gone = {row.before for row in touched if not row.now}
    changed = {row.now for row in touched if row.now and row.changed}
    present = {path for one in stated for path in _below(there, fixed(one)) if affects_match(one, path)}
    present |= {row.now for row in touched if row.now}
    if not present and not gone:
        return Drift(UNKNOWN, since=base, reason=f"{', '.join(stated[:3])}: not in Git")
    lost = any(
        any(affects_match(one, path) for path in gone) and not any(affects_match(one, path) for path in present)
        for one in stated
    )
    verdict = MISSING if lost else CHANGED if changed or gone else FRESH
    return Drift(verdict, tuple(sorted(changed)), tuple(sorted(gone)), len(present | gone), since=base)


def with_code(store: Store, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Return hits with how the code stands that they govern, and what commits say came of them."""
    wanted = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    decisions = [(node, wanted[node.id]) for node in store.lookup("id", list(wanted))]
    testimony = Testimony(store)
    stands, said = of_all(store, decisions, testimony), evidence.of_all(store, decisions, testimony)
    commits = {one: counted(store, how, testimony.tip) for one, how in stands.items()}
    return tuple(hit._replace(drift=commits.get(hit.id), evidence=said.get(hit.id, ())) for hit in hits)
