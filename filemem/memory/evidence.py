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
from filemem.memory.store import MAX_NAMED, Store
from filemem.query import Drift, Evidence, Hit, get_literal_prefix, is_covered, is_inside_repository
from filemem.query.hit import CHANGED, FRESH, MISSING, UNKNOWN
from filemem.record import DECISION, Problem, Record, parse_outcome, shorten_id
from filemem.repo import GitError
from filemem.repo.history import Commit

DAY = 86_400_000  # milliseconds


class Statement(NamedTuple):
    """What a commit says of a decision that it names; "" for what it does not say."""

    outcome: str = ""
    reason: str = ""


_NO_STATEMENT = Statement()


def parse_statements(trailers: Iterable[tuple[str, str]]) -> dict[str, Statement]:
    """Return what trailers say of each decision, as they call it: the outcome that comes next."""
    by_name: dict[str, Statement] = {}
    names: list[str] = []  # decisions since the last outcome
    for key, value in trailers:
        if key.lower() == "decision":
            names.append(value)
            by_name[value] = _NO_STATEMENT
        elif key.lower() == "outcome":
            word, _, reason = value.partition(":")
            statement = Statement(parse_outcome(word) or "", reason.strip())
            by_name |= dict.fromkeys(names, statement)
            names = []
    return by_name


def find_last_outcome_time(record: Record) -> int:
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
        self._resolve_name = cache(resolve or self._resolve_by_index)
        tip = store.tip
        if tip == "HEAD" or store.repo is not store.code:
            tip = store.code.read_head() or ""
        self.tip = tip  # from where the code's history is seen
        self.commits = store.history.read_decision_commits(tip) if tip else ()
        self._statements = self._group_by_decision()
        self._reverts: dict[str, frozenset[str]] = {}  # what each commit reverts, if it still does
        self._reverted_commits: set[str] = set()
        for commit in reversed(self.commits):
            ids = store.history.read_reverted_ids(commit)
            if ids and commit.id not in self._reverted_commits:
                self._reverts[commit.id] = ids
                self._reverted_commits |= ids

    def _resolve_by_index(self, name: str) -> str:
        nodes = self._store.index.read_nodes_by_name(name)
        ids = [node.id for node in nodes if node.type == DECISION]
        return ids[0] if len(ids) == 1 else ""

    def _group_by_decision(self) -> dict[str, dict[str, Statement]]:
        """What was said of each decision, by the commit that says it."""
        by_decision: dict[str, dict[str, Statement]] = {}
        for commit in self.commits:
            for name, statement in parse_statements(commit.trailers).items():
                names = [name] if self._resolve_name(name) else name.split(",")
                for decision in self._resolve_names(map(str.strip, names)):
                    by_decision.setdefault(decision, {})[commit.id] = statement
        return by_decision

    def _resolve_names(self, names: Iterable[str]) -> list[str]:
        """The ids of what some names mean; a name that means nothing is left out."""
        return list(filter(None, map(self._resolve_name, names)))

    def find_implementing_commits(self, decision: str) -> frozenset[str]:
        """The commits that implement a decision: they name it, and no failure."""
        by_commit = self._statements.get(decision, {})
        return frozenset(id_ for id_, row in by_commit.items() if row.outcome != "failed")

    def list_named_decisions(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """The decisions that a commit names in its trailers, and those that further names mean."""
        decisions = [name for name, rows in self._statements.items() if commit in rows]
        return decisions + self._resolve_names(names)

    def list_evidence(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """Evidence for or against a decision that no newer outcome answers, oldest first."""
        rows = self._statements.get(node.id, {})
        commits = [
            commit
            for commit in self.commits
            if commit.id in self._reverts or rows.get(commit.id, _NO_STATEMENT).outcome
        ]
        if not commits or record.type != DECISION:
            return ()
        path = self._store.files.to_work_tree_path(node.path)
        touches = self._store.history.read_touches([path], self._store.tip)[path]
        removing_commits = {
            touch.commit.id for touch in touches if touch.kind == "D"
        }  # it came back since
        carriers = {
            *self.find_implementing_commits(node.id),
            *(touch.commit.id for touch in touches[-1:]),
        }
        carriers -= self._store.repo.shallow_boundary  # what these brought is not known
        ignored_commits = self._reverted_commits | removing_commits
        claims = (
            self._build_claim(commit, rows.get(commit.id, _NO_STATEMENT), carriers)
            for commit in commits
            if commit.id not in ignored_commits and commit.at > find_last_outcome_time(record)
        )
        return tuple(claim for claim in claims if claim.outcome not in ("", record.outcome))

    def _build_claim(
        self, commit: Commit, statement: Statement, carriers: Collection[str]
    ) -> Evidence:
        """What a commit says of a decision that some commits brought or implement."""
        short_commit = commit.id[:10]
        reverted_commits = self._reverts.get(commit.id, frozenset())
        if not statement.outcome and not reverted_commits.isdisjoint(carriers):
            return Evidence("failed", commit.id, f"reverted in {short_commit}")
        text = f"{short_commit} says so: {statement.reason or commit.subject}"
        return Evidence(statement.outcome, commit.id, text)


def add_evidence(
    store: Store, hits: Sequence[Hit], testimony: Testimony | None = None
) -> tuple[Hit, ...]:
    """Return hits with the drift of the code that they govern, and with evidence from commits."""
    records = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    decisions = [
        (node, records[node.id]) for node in store.index.read_nodes_by_field("id", list(records))
    ]
    testimony = testimony or Testimony(store)
    drift = compute_drifts(store, decisions, testimony)
    evidence = {node.id: testimony.list_evidence(node, record) for node, record in decisions}
    return tuple(
        hit._replace(drift=drift.get(hit.id), evidence=evidence.get(hit.id, ())) for hit in hits
    )


def compute_drifts(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony
) -> dict[str, Drift]:
    """Return the drift of the code that decisions govern, by id.

    Decisions that name no code are left out.
    """
    patterns_by_node = {
        node: list(filter(_is_comparable, record.affects))
        for node, record in decisions
        if record.type == DECISION and record.affects
    }
    try:
        bases = (
            _find_bases(store, patterns_by_node, testimony)
            if patterns_by_node and testimony.tip
            else {}
        )
        code = _CodeComparison(store, testimony.tip)
        code.load_objects((base, patterns_by_node[node]) for node, base in bases.items())
        return {
            node.id: code.compute_drift(paths, bases.get(node, ""))
            for node, paths in patterns_by_node.items()
        }
    except GitError:
        reason = store.repo.describe_missing_history()
        if not reason:
            raise
        unknown = Drift(UNKNOWN, reason=reason)  # a partial clone lacks what it takes
        return {node.id: unknown for node in patterns_by_node}


def _is_comparable(path: str) -> bool:
    return is_inside_repository(path) and "\n" not in path


def _is_answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """True if an outcome is newer than the last change of the files."""
    if not record.outcomes:
        return False
    paths = (*drift.missing, *drift.changed)
    time = store.code.git.run("log", "-1", "--first-parent", "--format=%ct", tip, "--", *paths)
    return int(time or 0) * 1000 <= find_last_outcome_time(record)


def _find_bases(store: Store, nodes: Iterable[Node], testimony: Testimony) -> dict[Node, str]:
    """The commit that each decision is compared with; one that is not committed has none."""
    by_path = {store.files.to_work_tree_path(node.path): node for node in nodes}
    bases = {}
    for path, landing in _find_landings(store, by_path, testimony.tip).items():
        node = by_path[path]
        carriers = testimony.find_implementing_commits(node.id)
        implementing = (
            (row.at, row.id) for row in reversed(testimony.commits) if row.id in carriers
        )
        bases[node] = max((*implementing, landing), key=lambda landing: landing[0])[1]
    return bases


def _find_landings(store: Store, paths: Collection[str], tip: str) -> dict[str, tuple[int, str]]:
    """When each record landed among the commits of the code, and by which."""
    if store.repo is store.code:
        landed = store.history.read_landings(paths, tip)
        is_complete = not store.repo.describe_missing_history()
        return {
            path: (row.at, row.id) for path, row in landed.items() if row.parents or is_complete
        }
    dates = store.history.read_dates(paths, store.tip)
    return {path: (at, store.code.find_commit_at(tip, at) or tip) for path, at in dates.items()}


class _CodeComparison:
    """The code at the tip of a branch, and at the commits that it is compared with."""

    def __init__(self, store: Store, tip: str) -> None:
        self._store = store
        self._tip = tip
        self._objects: dict[tuple[str, str], bytes] = {}  # by commit and path; b"" for none
        self._files = lru_cache(8)(lambda commit: store.code.list_files(commit, "."))

    def load_objects(self, patterns_by_base: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Ask for the objects of all that is stated, by the commit that it is compared with."""
        places: dict[tuple[str, str], None] = {}
        for base, paths in patterns_by_base:
            for start in map(get_literal_prefix, paths):
                places |= {(base, start): None, (self._tip, start): None}
        if places:
            rows = "".join(f"{commit}:{path}\n" for commit, path in places)
            output = self._store.code.git.run(
                "cat-file",
                "--batch-check=%(objectname)",
                input_data=rows.encode("utf-8", "surrogateescape"),
            )
            for place, oid in zip(places, output.splitlines(), strict=True):
                self._objects[place] = b"" if oid.endswith(b" missing") else oid

    def compute_drift(self, patterns: Sequence[str], base: str) -> Drift:
        """The drift of the files that a decision states, compared with a commit."""
        if not patterns:
            return Drift(UNKNOWN, reason="it names no path of this repository")
        if not base:
            reason = (
                self._store.repo.describe_missing_history() or "the decision is not committed yet"
            )
            return Drift(UNKNOWN, reason=reason)
        starts = list(map(get_literal_prefix, patterns))
        before = [self._objects[base, start] for start in starts]
        after = [self._objects[self._tip, start] for start in starts]
        if not any((*before, *after)):
            return Drift(UNKNOWN, since=base, reason=f"{', '.join(patterns[:3])}: not in Git")
        return Drift(FRESH, since=base) if before == after else self._compare_files(patterns, base)

    def _compare_files(self, patterns: Sequence[str], base: str) -> Drift:
        before = self._files(base)
        after = self._files(self._tip)
        old = _filter_governed(before, patterns)
        present = _filter_governed(after, patterns)
        changed_paths = {path for path in old & present if before[path] != after[path]}
        missing_paths = old - present
        if missing_paths:  # what was renamed counts as unchanged
            added_blobs = {after[path] for path in after.keys() - before.keys()}
            missing_paths = {path for path in missing_paths if before[path] not in added_blobs}
        verdict = CHANGED if changed_paths or missing_paths else FRESH
        if any(
            _filter_governed(missing_paths, [path]) and not _filter_governed(present, [path])
            for path in patterns
        ):
            verdict = MISSING
        count = len(old | present)
        return Drift(
            verdict, tuple(sorted(changed_paths)), tuple(sorted(missing_paths)), count, since=base
        )


def _filter_governed(paths: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """Those of some files that a decision states, by paths or globs."""
    starts = tuple(map(get_literal_prefix, patterns))  # which are quick to compare
    near = (path for path in paths if path.startswith(starts))
    return {path for path in near if _is_match(patterns, path)}


def _is_match(patterns: Iterable[str], path: str) -> bool:
    return any(is_covered(glob, path) for glob in patterns)


# what `check` says of it


def iter_problems(snapshot: Snapshot, base: str) -> Iterator[Problem]:
    """Evidence against live decisions, and drift; with a base, only what came or changed since.

    Drift is reported if a path that a decision names, or half of its files, no longer exist and no
    outcome is newer.
    """
    store = snapshot.store
    if base and store.repo is not store.code:
        return  # the base is a commit of the memory, and says nothing of the code
    testimony = Testimony(store, snapshot.resolve_id)
    old_commits = store.history.read_ancestors(base) if base else ()
    nodes = [node for node in snapshot.nodes.values() if snapshot.graph.is_head(node.id)]
    live = [(node, snapshot.records_by_id[node.id]) for node in nodes]
    outgrown_decisions = dict(_iter_outgrown(store, live, testimony, base))
    for node, record in live:
        if node.id in outgrown_decisions:
            text = f"the code that it governs is {outgrown_decisions[node.id]}"
            yield Problem(node.path, 1, "drift", "warning", text)
        for claim in testimony.list_evidence(node, record):
            if claim.commit not in old_commits:
                update = f"filemem update {shorten_id(node.id)} --outcome {claim.outcome}"
                text = f"{claim}; if so: {update} --reason ..."
                yield Problem(node.path, 1, "evidence", "warning", text)


def _iter_outgrown(
    store: Store, live: Sequence[tuple[Node, Record]], testimony: Testimony, base: str
) -> Iterator[tuple[str, str]]:
    """The decisions that their code has left behind, by id, with what became of its files."""
    tip = testimony.tip
    before, after = _list_side_files(store, base, tip) if base else ({}, {})
    records = {node.id: record for node, record in live}
    for name, drift in compute_drifts(store, live, testimony).items():
        paths = (*drift.missing, *drift.changed) if drift.is_outgrown else ()
        files = [path for path in paths if not base or before.get(path) != after.get(path)]
        if files and not _is_answered(store, records[name], drift, tip):
            yield name, f"{drift}: {', '.join(files[:MAX_NAMED])}"


def _list_side_files(store: Store, base: str, tip: str) -> tuple[dict[str, str], dict[str, str]]:
    """The files of the code where a branch left its base, and at its tip."""
    merge_base = store.code.find_merge_base(base, tip) or base
    return store.code.list_files(merge_base, "."), store.code.list_files(tip, ".")
