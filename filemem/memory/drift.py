"""Drift: have the files that a decision governs changed since the decision landed on this branch?

Rule: the blobs of now are compared with those of the commit by which the decision landed, or of the last one that
carried it out (it names the decision in a `Decision:` trailer). A file that was only renamed is the same. Looking
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from filemem.index import Node
from filemem.memory.evidence import Testimony, last_outcome
from filemem.memory.store import Store
from filemem.query import Drift, Hit, affects_match, fixed, within
from filemem.record import DECISION, Problem, Record
from filemem.repo import GitError, branches

if TYPE_CHECKING:
    from filemem.memory.snapshot import Snapshot

FRESH, CHANGED, MISSING, UNKNOWN = "fresh", "changed", "missing", "unknown"
NAMED = 5  # files that a message names


def with_code(store: Store, hits: Sequence[Hit], testimony: Testimony | None = None) -> tuple[Hit, ...]:
    """Return hits with how the code stands that they govern, and what commits say came of them."""
    wanted = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    decisions = [(node, wanted[node.id]) for node in store.lookup("id", list(wanted))]
    told = testimony or Testimony(store)
    drifts = of_all(store, decisions, told)
    said = {node.id: told.of(node, record) for node, record in decisions}
    return tuple(hit._replace(drift=drifts.get(hit.id), evidence=said.get(hit.id, ())) for hit in hits)


def of_all(store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony) -> dict[str, Drift]:
    """Return how the code stands that decisions govern, by id; those that name no code are left out."""
    wanted = {
        node: [one for one in record.affects if within(one) and "\n" not in one]
        for node, record in decisions
        if record.type == DECISION and record.affects
    }
    cut, tip = store.repo.incomplete(), testimony.tip
    try:
        bases = _bases(store, wanted, testimony) if wanted and tip else {}
        known = {node: bases[node.path] for node in wanted if node.path in bases}
        starts = [(base, fixed(one)) for node, base in known.items() for one in wanted[node]]
        ids = _ids(store, (*starts, *((tip, start) for _, start in starts)))
        files = lru_cache(8)(lambda commit: store.code.listing(commit, "."))
        return {node.id: _drift(stated, known.get(node, ""), tip, ids, files, cut) for node, stated in wanted.items()}
    except GitError:
        if not cut:
            raise
        return {node.id: Drift(UNKNOWN, reason=cut) for node in wanted}  # a partial clone lacks what it takes


def problems(snapshot: Snapshot, testimony: Testimony, files: Container[str] | None = None) -> Iterator[Problem]:
    """Yield what `check` reports of live decisions that their code has left behind.

    Code has left a decision behind where a path that it names is gone, or half of its files are; an outcome that is
    newer answers that.

    Args:
        snapshot: the records.
        testimony: what commits say.
        files: report only drift in these files of the code; None for all.
    """
    live = [(node, snapshot.by_id[node.id]) for node in snapshot.nodes.values() if snapshot.graph.is_head(node.id)]
    found = of_all(snapshot.store, live, testimony)
    for node, record in live:
        drift = found.get(node.id, Drift(FRESH))
        here = [one for one in (*drift.missing, *drift.changed) if files is None or one in files]
        if drift.outgrown and here and not _answered(snapshot.store, record, drift, testimony.tip):
            more = f" and {len(here) - NAMED} more" if len(here) > NAMED else ""
            text = f"the code that it governs is {drift}: {', '.join(here[:NAMED])}{more}"
            yield Problem(node.path, 1, "drift", "warning", text)


def _answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """Whether an outcome is newer than the last change of the files."""
    if not record.outcomes:
        return False
    asked = ("log", "-1", "--first-parent", "--format=%ct", tip, "--", *drift.missing, *drift.changed)
    return int(store.code.git.run(*asked) or 0) * 1000 <= last_outcome(record)


def _bases(store: Store, wanted: Iterable[Node], testimony: Testimony) -> dict[str, str]:
    """The commit that each decision is compared with, by store path."""
    paths = {store.files.named(node.path): node for node in wanted}
    if store.repo is store.code:
        landed, cut = store.history.landed(paths, testimony.tip), store.repo.incomplete()
        bases = {path: (one.at, one.id) for path, one in landed.items() if one.parents or not cut}
    else:
        bases = {}
        for path, at in store.history.dates(paths, store.tip).items():
            bases[path] = at, branches.at_time(store.code, testimony.tip, at) or testimony.tip
    for path, base in bases.items():
        carried = testimony.carried_out(paths[path].id)
        ways = ((one.at, one.id) for one in reversed(testimony.commits) if one.id in carried)
        bases[path] = max((*ways, base), key=lambda one: one[0])
    return {paths[path].path: commit for path, (_, commit) in bases.items()}


def _ids(store: Store, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
    """The object at a path of a commit, by both; b"" for none."""
    wanted = list(dict.fromkeys(places))
    asked = "".join(f"{commit}:{path}\n" for commit, path in wanted).encode("utf-8", "surrogateescape")
    told = store.code.git.run("cat-file", "--batch-check=%(objectname)", input=asked).splitlines() if wanted else ()
    return {one: b"" if oid.endswith(b" missing") else oid for one, oid in zip(wanted, told, strict=True)}


def _drift(
    stated: Sequence[str],
    base: str,
    tip: str,
    ids: Mapping[tuple[str, str], bytes],
    files: Callable[[str], Mapping[str, str]],
    cut: str,
) -> Drift:
    """How the files stand that a decision states, compared with a commit."""
    if not stated:
        return Drift(UNKNOWN, reason="it names no path of this repository")
    if not base:
        return Drift(UNKNOWN, reason=cut or "the decision is not committed yet")
    pairs = [(ids[base, fixed(one)], ids[tip, fixed(one)]) for one in stated]
    if not any(map(any, pairs)):
        return Drift(UNKNOWN, since=base, reason=f"{', '.join(stated[:3])}: not in Git")
    if all(before == now for before, now in pairs):
        return Drift(FRESH, since=base)
    starts = tuple(map(fixed, stated))
    before, now = [
        {
            path: blob
            for path, blob in files(commit).items()
            if path.startswith(starts) and any(affects_match(one, path) for one in stated)
        }
        for commit in (base, tip)
    ]
    changed = sorted(path for path in before.keys() & now.keys() if before[path] != now[path])
    gone = sorted(before.keys() - now.keys())
    if gone:
        new = {blob for path, blob in files(tip).items() if path not in files(base)}
        gone = [path for path in gone if before[path] not in new]  # else it was only renamed
    lost = any(
        any(affects_match(one, path) for path in gone) and not any(affects_match(one, path) for path in now)
        for one in stated
    )
    verdict = MISSING if lost else CHANGED if changed or gone else FRESH
    return Drift(verdict, tuple(changed), tuple(gone), len({*before, *now}), since=base)
