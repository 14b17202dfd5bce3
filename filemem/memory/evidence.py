"""What Git shows of a decision since it was made: drift of its code, and outcomes in commits.

Rule: drift compares present blobs with those of the commit by which the decision landed, or of the
last commit that implements it (by a `Decision:` trailer); a renamed file counts as unchanged.
Evidence is a revert or an `Outcome:` trailer, unless the record has an outcome newer than that
commit. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from filemem.index import Node
from filemem.memory.snapshot import Snapshot
from filemem.memory.store import NAMED, Store
from filemem.query import Drift, Evidence, Hit, affects_match, fixed, within
from filemem.query.hit import CHANGED, FRESH, MISSING, UNKNOWN
from filemem.record import DECISION, Problem, Record, parse_outcome, short_id
from filemem.repo import GitError
from filemem.repo.history import Commit

DAY = 86_400_000  # milliseconds


class Statement(NamedTuple):
    """What a commit says of a decision that it names; "" for what it does not say."""

    outcome: str = ""
    reason: str = ""


_SILENT = Statement()


def statements(trailers: Iterable[tuple[str, str]]) -> dict[str, Statement]:
    """Return what trailers say of each decision, as they call it: the outcome that comes next."""
    by_name: dict[str, Statement] = {}
    names: list[str] = []  # decisions since the last outcome
    for key, value in trailers:
        if key.lower() == "decision":
            names.append(value)
            by_name[value] = _SILENT
        elif key.lower() == "outcome":
            word, _, reason = value.partition(":")
            statement = Statement(parse_outcome(word) or "", reason.strip())
            by_name |= dict.fromkeys(names, statement)
            names = []
    return by_name


def last_outcome(record: Record) -> int:
    """The time of the last outcome in epoch milliseconds; -1 for none.

    A bare date counts as the end of its day.
    """
    times = (entry.at if entry.at % DAY else entry.at + DAY - 1 for entry in record.outcomes)
    return max(times, default=-1)


class Testimony:
    """What the commits of a branch say about decisions, read once for all of them.

    `resolve` returns the id of the record that a name means, or "".
    """

    def __init__(self, store: Store, resolve: Callable[[str], str] | None = None) -> None:
        self._store = store
        self._resolve = cache(resolve or self._by_index)
        tip = store.tip
        if tip == "HEAD" or store.repo is not store.code:
            tip = store.code.head() or ""
        self.tip = tip  # from where the code's history is seen
        self.commits = store.history.spoken(tip) if tip else ()
        self._statements = self._by_decision()
        self._reverts: dict[str, frozenset[str]] = {}  # what each commit reverts, if it still does
        self._reverted: set[str] = set()
        for commit in reversed(self.commits):
            ids = store.history.reverted(commit)
            if ids and commit.id not in self._reverted:
                self._reverts[commit.id] = ids
                self._reverted |= ids

    def _by_index(self, name: str) -> str:
        nodes = self._store.index.answering(name)
        ids = [node.id for node in nodes if node.type == DECISION]
        return ids[0] if len(ids) == 1 else ""

    def _by_decision(self) -> dict[str, dict[str, Statement]]:
        """What was said of each decision, by the commit that says it."""
        by_decision: dict[str, dict[str, Statement]] = {}
        for commit in self.commits:
            for name, statement in statements(commit.trailers).items():
                names = [name] if self._resolve(name) else name.split(",")
                for decision in self._meaning(map(str.strip, names)):
                    by_decision.setdefault(decision, {})[commit.id] = statement
        return by_decision

    def _meaning(self, names: Iterable[str]) -> list[str]:
        """The ids of what some names mean; a name that means nothing is left out."""
        return list(filter(None, map(self._resolve, names)))

    def carried_out(self, decision: str) -> frozenset[str]:
        """The commits that implement a decision: they name it, and no failure."""
        by_commit = self._statements.get(decision, {})
        return frozenset(id_ for id_, row in by_commit.items() if row.outcome != "failed")

    def named_by(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """The decisions that a commit names in its trailers, and those that further names mean."""
        decisions = [name for name, rows in self._statements.items() if commit in rows]
        return decisions + self._meaning(names)

    def of(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """Evidence for or against a decision that no newer outcome answers, oldest first."""
        rows = self._statements.get(node.id, {})
        commits = [
            commit
            for commit in self.commits
            if commit.id in self._reverts or rows.get(commit.id, _SILENT).outcome
        ]
        if not commits or record.type != DECISION:
            return ()
        path = self._store.files.named(node.path)
        touches = self._store.history.touches([path], self._store.tip)[path]
        removed = {touch.commit.id for touch in touches if touch.kind == "D"}  # it came back since
        carriers = {*self.carried_out(node.id), *(touch.commit.id for touch in touches[-1:])}
        carriers -= self._store.repo.boundary  # what these brought is not known
        void = self._reverted | removed
        claims = (
            self._claim(commit, rows.get(commit.id, _SILENT), carriers)
            for commit in commits
            if commit.id not in void and commit.at > last_outcome(record)
        )
        return tuple(claim for claim in claims if claim.outcome not in ("", record.outcome))

    def _claim(self, commit: Commit, statement: Statement, carriers: Collection[str]) -> Evidence:
        """What a commit says of a decision that some commits brought or implement."""
        short = commit.id[:10]
        reverted = self._reverts.get(commit.id, frozenset())
        if not statement.outcome and not reverted.isdisjoint(carriers):
            return Evidence("failed", commit.id, f"reverted in {short}")
        text = f"{short} says so: {statement.reason or commit.subject}"
        return Evidence(statement.outcome, commit.id, text)


def with_code(
    store: Store, hits: Sequence[Hit], testimony: Testimony | None = None
) -> tuple[Hit, ...]:
    """Return hits with the drift of the code that they govern, and with evidence from commits."""
    records = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    decisions = [(node, records[node.id]) for node in store.index.lookup("id", list(records))]
    testimony = testimony or Testimony(store)
    drift = drifts(store, decisions, testimony)
    evidence = {node.id: testimony.of(node, record) for node, record in decisions}
    return tuple(
        hit._replace(drift=drift.get(hit.id), evidence=evidence.get(hit.id, ())) for hit in hits
    )


def drifts(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony
) -> dict[str, Drift]:
    """Return the drift of the code that decisions govern, by id.

    Decisions that name no code are left out.
    """
    stated = {
        node: list(filter(_is_asked, record.affects))
        for node, record in decisions
        if record.type == DECISION and record.affects
    }
    try:
        bases = _bases(store, stated, testimony) if stated and testimony.tip else {}
        code = _Code(store, testimony.tip)
        code.look_up((base, stated[node]) for node, base in bases.items())
        return {node.id: code.drift(paths, bases.get(node, "")) for node, paths in stated.items()}
    except GitError:
        incomplete = store.repo.incomplete()
        if not incomplete:
            raise
        unknown = Drift(UNKNOWN, reason=incomplete)  # a partial clone lacks what it takes
        return {node.id: unknown for node in stated}


def _is_asked(path: str) -> bool:
    return within(path) and "\n" not in path


def _is_answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """True if an outcome is newer than the last change of the files."""
    if not record.outcomes:
        return False
    paths = (*drift.missing, *drift.changed)
    time = store.code.git.run("log", "-1", "--first-parent", "--format=%ct", tip, "--", *paths)
    return int(time or 0) * 1000 <= last_outcome(record)


def _bases(store: Store, nodes: Iterable[Node], testimony: Testimony) -> dict[Node, str]:
    """The commit that each decision is compared with; one that is not committed has none."""
    by_path = {store.files.named(node.path): node for node in nodes}
    bases = {}
    for path, landing in _landings(store, by_path, testimony.tip).items():
        node = by_path[path]
        carriers = testimony.carried_out(node.id)
        carried = ((row.at, row.id) for row in reversed(testimony.commits) if row.id in carriers)
        bases[node] = max((*carried, landing), key=lambda landing: landing[0])[1]
    return bases


def _landings(store: Store, paths: Collection[str], tip: str) -> dict[str, tuple[int, str]]:
    """When each record landed among the commits of the code, and by which."""
    if store.repo is store.code:
        landed = store.history.landed(paths, tip)
        whole = not store.repo.incomplete()
        return {path: (row.at, row.id) for path, row in landed.items() if row.parents or whole}
    dates = store.history.dates(paths, store.tip)
    return {path: (at, store.code.at_time(tip, at) or tip) for path, at in dates.items()}


class _Code:
    """The code at the tip of a branch, and at the commits that it is compared with."""

    def __init__(self, store: Store, tip: str) -> None:
        self._store = store
        self._tip = tip
        self._objects: dict[tuple[str, str], bytes] = {}  # by commit and path; b"" for none
        self._files = lru_cache(8)(lambda commit: store.code.listing(commit, "."))

    def look_up(self, stated: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Ask for the objects of all that is stated, by the commit that it is compared with."""
        places: dict[tuple[str, str], None] = {}
        for base, paths in stated:
            for start in map(fixed, paths):
                places |= {(base, start): None, (self._tip, start): None}
        if places:
            rows = "".join(f"{commit}:{path}\n" for commit, path in places)
            output = self._store.code.git.run(
                "cat-file",
                "--batch-check=%(objectname)",
                input=rows.encode("utf-8", "surrogateescape"),
            )
            for place, oid in zip(places, output.splitlines(), strict=True):
                self._objects[place] = b"" if oid.endswith(b" missing") else oid

    def drift(self, stated: Sequence[str], base: str) -> Drift:
        """The drift of the files that a decision states, compared with a commit."""
        if not stated:
            return Drift(UNKNOWN, reason="it names no path of this repository")
        if not base:
            reason = self._store.repo.incomplete() or "the decision is not committed yet"
            return Drift(UNKNOWN, reason=reason)
        starts = list(map(fixed, stated))
        before = [self._objects[base, start] for start in starts]
        now = [self._objects[self._tip, start] for start in starts]
        if not any((*before, *now)):
            return Drift(UNKNOWN, since=base, reason=f"{', '.join(stated[:3])}: not in Git")
        return Drift(FRESH, since=base) if before == now else self._compared(stated, base)

    def _compared(self, stated: Sequence[str], base: str) -> Drift:
        before = self._files(base)
        now = self._files(self._tip)
        old = _governed(before, stated)
        present = _governed(now, stated)
        changed = {path for path in old & present if before[path] != now[path]}
        gone = old - present
        if gone:  # what was renamed counts as unchanged
            added = {now[path] for path in now.keys() - before.keys()}
            gone = {path for path in gone if before[path] not in added}
        verdict = CHANGED if changed or gone else FRESH
        if any(_governed(gone, [path]) and not _governed(present, [path]) for path in stated):
            verdict = MISSING
        count = len(old | present)
        return Drift(verdict, tuple(sorted(changed)), tuple(sorted(gone)), count, since=base)


def _governed(paths: Iterable[str], stated: Sequence[str]) -> set[str]:
    """Those of some files that a decision states, by paths or globs."""
    starts = tuple(map(fixed, stated))  # which are quick to compare
    near = (path for path in paths if path.startswith(starts))
    return {path for path in near if _matches(stated, path)}


def _matches(stated: Iterable[str], path: str) -> bool:
    return any(affects_match(glob, path) for glob in stated)


# what `check` says of it


def problems(snapshot: Snapshot, base: str) -> Iterator[Problem]:
    """Evidence against live decisions, and drift; with a base, only what came or changed since.

    Drift is reported if a path that a decision names, or half of its files, no longer exist and no
    outcome is newer.
    """
    store = snapshot.store
    if base and store.repo is not store.code:
        return  # the base is a commit of the memory, and says nothing of the code
    testimony = Testimony(store, snapshot.resolve)
    old_commits = store.history.ancestors(base) if base else ()
    nodes = [node for node in snapshot.nodes.values() if snapshot.graph.is_head(node.id)]
    live = [(node, snapshot.by_id[node.id]) for node in nodes]
    outgrown = dict(_outgrown(store, live, testimony, base))
    for node, record in live:
        if node.id in outgrown:
            text = f"the code that it governs is {outgrown[node.id]}"
            yield Problem(node.path, 1, "drift", "warning", text)
        for claim in testimony.of(node, record):
            if claim.commit not in old_commits:
                update = f"filemem update {short_id(node.id)} --outcome {claim.outcome}"
                text = f"{claim}; if so: {update} --reason ..."
                yield Problem(node.path, 1, "evidence", "warning", text)


def _outgrown(
    store: Store, live: Sequence[tuple[Node, Record]], testimony: Testimony, base: str
) -> Iterator[tuple[str, str]]:
    """The decisions that their code has left behind, by id, with what became of its files."""
    tip = testimony.tip
    before, after = _sides(store, base, tip) if base else ({}, {})
    records = {node.id: record for node, record in live}
    for name, drift in drifts(store, live, testimony).items():
        paths = (*drift.missing, *drift.changed) if drift.outgrown else ()
        files = [path for path in paths if not base or before.get(path) != after.get(path)]
        if files and not _is_answered(store, records[name], drift, tip):
            yield name, f"{drift}: {', '.join(files[:NAMED])}"


def _sides(store: Store, base: str, tip: str) -> tuple[dict[str, str], dict[str, str]]:
    """The files of the code where a branch left its base, and at its tip."""
    parted = store.code.parted(base, tip) or base
    return store.code.listing(parted, "."), store.code.listing(tip, ".")
