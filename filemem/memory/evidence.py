"""What Git shows of a decision since it was made: drift of the code that it governs, and outcomes named in commits.

Rule: drift compares present blobs with those of the commit by which the decision landed, or of the last commit that
implements it (by a `Decision:` trailer); a renamed file counts as unchanged. Evidence is a revert or an `Outcome:`
trailer, unless the record has an outcome newer than that commit. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache

from filemem.index import Node
from filemem.memory.store import Store
from filemem.query import Drift, Evidence, Hit, affects_match, fixed, within
from filemem.query.hit import CHANGED, FRESH, MISSING, UNKNOWN
from filemem.record import DECISION, Record, parse_outcome
from filemem.repo import GitError

DAY = 86_400_000  # milliseconds


def statements(trailers: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return what trailers say: by decision, as called, the outcome that comes next and its reason, or "" twice."""
    found: dict[str, tuple[str, str]] = {}
    named: list[str] = []  # decisions since the last outcome
    for key, value in trailers:
        if key.lower() == "decision":
            named.append(value)
            found[value] = "", ""
        elif key.lower() == "outcome":
            word, _, reason = value.partition(":")
            found |= {name: (parse_outcome(word) or "", reason.strip()) for name in named}
            named = []
    return found


def last_outcome(record: Record) -> int:
    """The time of the last outcome in epoch milliseconds, the end of the day for a bare date; -1 for none."""
    return max(
        (entry.at if entry.at % DAY else entry.at + DAY - 1 for entry in record.outcomes),
        default=-1,
    )


class Testimony:
    """What the commits of a branch say about decisions, read once for all of them.

    `resolve` returns the id of the record that a name means, or "".
    """

    def __init__(self, store: Store, resolve: Callable[[str], str] | None = None) -> None:
        self._store, self._meant = store, cache(resolve or self._by_index)
        now = store.tip == "HEAD" or store.repo is not store.code
        self.tip = (
            (store.code.head() or "") if now else store.tip
        )  # from where the code's history is seen
        self.commits = store.history.spoken(self.tip) if self.tip else ()
        self._said: dict[
            str, dict[str, tuple[str, str]]
        ] = {}  # by decision: outcome and reason by commit
        for commit in self.commits:
            for name, told in statements(commit.trailers).items():
                names = (name,) if self._meant(name) else map(str.strip, name.split(","))
                for decision in filter(None, map(self._meant, names)):
                    self._said.setdefault(decision, {})[commit.id] = told
        self._reverts: dict[
            str, frozenset[str]
        ] = {}  # by a commit that is not reverted itself: what it reverts
        self._fallen: set[str] = set()
        for commit in reversed(self.commits):
            if commit.id not in self._fallen and (taken := store.history.reverted(commit)):
                self._reverts[commit.id] = taken
                self._fallen |= taken

    def _by_index(self, name: str) -> str:
        found = [one.id for one in self._store.index.answering(name) if one.type == DECISION]
        return found[0] if len(found) == 1 else ""

    def carried_out(self, decision: str) -> frozenset[str]:
        """The commits that implement a decision: they name it, and no failure."""
        return frozenset(
            one for one, told in self._said.get(decision, {}).items() if told[0] != "failed"
        )

    def named_by(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """The decisions that a commit names in its trailers, and those that further names mean."""
        found = [decision for decision, said in self._said.items() if commit in said]
        return found + [one for one in map(self._meant, names) if one]

    def of(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """Evidence for or against a decision that no newer outcome answers, oldest first."""
        said = self._said.get(node.id, {})
        told = [
            one for one in self.commits if one.id in self._reverts or said.get(one.id, ("", ""))[0]
        ]
        if not told or record.type != DECISION:
            return ()
        path = self._store.files.named(node.path)
        touches = self._store.history.touches([path], self._store.tip)[path]
        removed = {one.commit.id for one in touches if one.kind == "D"}  # it was brought back since
        carriers = {*self.carried_out(node.id), *(one.commit.id for one in touches[-1:])}
        carriers -= self._store.repo.boundary  # what these brought is not known
        found = []
        for commit in told:
            if (
                commit.id in self._fallen
                or commit.id in removed
                or commit.at <= last_outcome(record)
            ):
                continue
            outcome, reason = said.get(commit.id, ("", ""))
            text = f"{commit.id[:10]} says so: {reason or commit.subject}"
            if not outcome and not carriers.isdisjoint(self._reverts.get(commit.id, ())):
                outcome, text = "failed", f"reverted in {commit.id[:10]}"
            if outcome and outcome != record.outcome:
                found.append(Evidence(outcome, commit.id, text))
        return tuple(found)


def with_code(
    store: Store, hits: Sequence[Hit], testimony: Testimony | None = None
) -> tuple[Hit, ...]:
    """Return hits with the drift of the code that they govern, and with evidence from commits."""
    wanted = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    decisions = [(node, wanted[node.id]) for node in store.index.lookup("id", list(wanted))]
    told = testimony or Testimony(store)
    stands = drifts(store, decisions, told)
    said = {node.id: told.of(node, record) for node, record in decisions}
    return tuple(
        hit._replace(drift=stands.get(hit.id), evidence=said.get(hit.id, ())) for hit in hits
    )


def drifts(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony
) -> dict[str, Drift]:
    """Return the drift of the code that decisions govern, by id; decisions that name no code are left out."""
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
        return {
            node.id: _drift(stated, known.get(node, ""), tip, ids, files, cut)
            for node, stated in wanted.items()
        }
    except GitError:
        if not cut:
            raise
        return {
            node.id: Drift(UNKNOWN, reason=cut) for node in wanted
        }  # a partial clone lacks what it takes


def answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """Whether an outcome is newer than the last change of the files."""
    if not record.outcomes:
        return False
    asked = (
        "log",
        "-1",
        "--first-parent",
        "--format=%ct",
        tip,
        "--",
        *drift.missing,
        *drift.changed,
    )
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
            bases[path] = at, store.code.at_time(testimony.tip, at) or testimony.tip
    for path, base in bases.items():
        carried = testimony.carried_out(paths[path].id)
        ways = ((one.at, one.id) for one in reversed(testimony.commits) if one.id in carried)
        bases[path] = max((*ways, base), key=lambda one: one[0])
    return {paths[path].path: commit for path, (_, commit) in bases.items()}


def _ids(store: Store, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
    """The object at a path of a commit, by both; b"" for none."""
    wanted = list(dict.fromkeys(places))
    asked = "".join(f"{commit}:{path}\n" for commit, path in wanted).encode(
        "utf-8", "surrogateescape"
    )
    told = (
        store.code.git.run("cat-file", "--batch-check=%(objectname)", input=asked).splitlines()
        if wanted
        else ()
    )
    return {
        one: b"" if oid.endswith(b" missing") else oid
        for one, oid in zip(wanted, told, strict=True)
    }


def _drift(
    stated: Sequence[str],
    base: str,
    tip: str,
    ids: Mapping[tuple[str, str], bytes],
    files: Callable[[str], Mapping[str, str]],
    cut: str,
) -> Drift:
    """The drift of the files that a decision names, compared with a commit."""
    if not stated:
        return Drift(UNKNOWN, reason="it names no path of this repository")
    if not base:
        return Drift(UNKNOWN, reason=cut or "the decision is not committed yet")
    pairs = [(ids[base, fixed(one)], ids[tip, fixed(one)]) for one in stated]
    if not any(map(any, pairs)):
        return Drift(UNKNOWN, since=base, reason=f"{', '.join(stated[:3])}: not in Git")
    if all(before == now for before, now in pairs):
        return Drift(FRESH, since=base)
    before, now = files(base), files(tip)
    old, here = _governed(before, stated), _governed(now, stated)
    changed = {path for path in old & here if before[path] != now[path]}
    moved = {now[path] for path in now.keys() - before.keys()} if old - here else set()
    gone = {path for path in old - here if before[path] not in moved}
    lost = any(_governed(gone, [one]) and not _governed(here, [one]) for one in stated)
    verdict = MISSING if lost else CHANGED if changed or gone else FRESH
    return Drift(verdict, tuple(sorted(changed)), tuple(sorted(gone)), len(old | here), since=base)


def _governed(paths: Iterable[str], stated: Sequence[str]) -> set[str]:
    """Those of some files that a decision names, by paths or globs."""
    starts = tuple(map(fixed, stated))  # which are quick to compare
    return {
        path
        for path in paths
        if path.startswith(starts) and any(affects_match(one, path) for one in stated)
    }
