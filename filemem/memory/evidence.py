"""Read from Git what happened to a decision: drift of its code, and outcomes in commits.

Rule: drift compares present blobs with those of the commit by which the decision landed, or of the
last commit that implements it (by a `Decision:` trailer); a renamed file counts as unchanged.
Evidence is a revert or an `Outcome:` trailer, unless the record has an outcome newer than that
commit. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from filemem.index import Node
from filemem.memory.snapshot import Snapshot
from filemem.memory.store import MAX_NAMED, Store
from filemem.query import Drift, Evidence, Hit, get_literal_prefix, is_covered, is_inside_repository
from filemem.query.hit import CHANGED, FRESH, MISSING, UNKNOWN
from filemem.record import DECISION, Problem, Record, parse_outcome, shorten_id
from filemem.repo import GitError
from filemem.repo.history import Commit, Touch

DAY = 86_400_000  # milliseconds


class Statement(NamedTuple):
    """What a commit states about a decision that it names; "" for what it does not state."""

    outcome: str = ""
    reason: str = ""


_NO_STATEMENT = Statement()


def parse_statements(trailers: Iterable[tuple[str, str]]) -> dict[str, Statement]:
    """Parse what trailers state about decisions, by the names that they use.

    An `Outcome:` trailer belongs to all `Decision:` trailers since the last `Outcome:`.
    """
    statements: dict[str, Statement] = {}
    open_names: list[str] = []  # decisions since the last outcome
    for key, value in trailers:
        if key.lower() == "decision":
            open_names.append(value)
            statements[value] = _NO_STATEMENT
        elif key.lower() == "outcome":
            word, _, reason = value.partition(":")
            outcome = parse_outcome(word) or ""
            statement = Statement(outcome, reason.strip())
            statements.update(dict.fromkeys(open_names, statement))
            open_names = []
    return statements


def find_last_outcome_time(record: Record) -> int:
    """Return the time of the last outcome in epoch milliseconds, or -1 if there is none.

    A date without a time counts as the end of its day.
    """
    last_time = -1
    for outcome in record.outcomes:
        time = outcome.at
        if time % DAY == 0:
            time += DAY - 1
        last_time = max(last_time, time)
    return last_time


class Testimony:
    """What the commits of a branch state about decisions, read once for all of them.

    Args:
        resolve: Returns the id of the record with this name, or ""; default: by the index.
    """

    def __init__(self, store: Store, resolve: Callable[[str], str] | None = None) -> None:
        self._store = store
        self._resolve_name = cache(resolve or self._resolve_by_index)
        self.tip = _find_code_tip(store)  # the history of the code is read from here; "" for none
        self.commits: Sequence[Commit] = ()
        if self.tip:
            self.commits = store.history.read_decision_commits(self.tip)
        self._statements = self._group_by_decision()
        self._reverts: dict[str, frozenset[str]] = {}  # commit -> commits that it reverts
        self._reverted_commits: set[str] = set()
        self._read_reverts()

    def _read_reverts(self) -> None:
        """Collect the reverts that were not reverted themselves."""
        for commit in reversed(self.commits):
            reverted_ids = self._store.history.read_reverted_ids(commit)
            if reverted_ids and commit.id not in self._reverted_commits:
                self._reverts[commit.id] = reverted_ids
                self._reverted_commits |= reverted_ids

    def _resolve_by_index(self, name: str) -> str:
        nodes = self._store.index.read_nodes_by_name(name)
        ids = [node.id for node in nodes if node.type == DECISION]
        if len(ids) != 1:
            return ""
        return ids[0]

    def _group_by_decision(self) -> dict[str, dict[str, Statement]]:
        """Group the statements of all commits by decision, then by commit."""
        by_decision: dict[str, dict[str, Statement]] = {}
        for commit in self.commits:
            for value, statement in parse_statements(commit.trailers).items():
                for decision in self._resolve_trailer(value):
                    by_commit = by_decision.setdefault(decision, {})
                    by_commit[commit.id] = statement
        return by_decision

    def _resolve_trailer(self, value: str) -> list[str]:
        """Return the decisions that a trailer names: one, or several with commas."""
        if self._resolve_name(value):
            return self._resolve_names([value.strip()])
        return self._resolve_names([name.strip() for name in value.split(",")])

    def _resolve_names(self, names: Iterable[str]) -> list[str]:
        """Return the ids of the records with these names; unknown names are left out."""
        ids = [self._resolve_name(name) for name in names]
        return [record_id for record_id in ids if record_id]

    def find_implementing_commits(self, decision: str) -> frozenset[str]:
        """Find the commits that name a decision without stating that it failed."""
        statements = self._statements.get(decision, {})
        return frozenset(
            commit for commit, statement in statements.items() if statement.outcome != "failed"
        )

    def list_named_decisions(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """List the decisions that the trailers of a commit name, then those with these names."""
        decisions = [
            decision for decision, by_commit in self._statements.items() if commit in by_commit
        ]
        return decisions + self._resolve_names(names)

    def list_evidence(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """List the evidence for or against a decision, oldest first.

        Only commits later than the last recorded outcome count.
        """
        statements = self._statements.get(node.id, {})
        commits = self._list_telling_commits(statements)
        if not commits or record.type != DECISION:
            return ()
        path = self._store.files.to_work_tree_path(node.path)
        touches = self._store.history.read_touches([path], self._store.tip)[path]
        # The record exists, so what removed it was undone.
        ignored_commits = {touch.commit.id for touch in touches if touch.kind == "D"}
        ignored_commits |= self._reverted_commits
        carriers = self._find_carriers(node.id, touches)
        last_outcome_time = find_last_outcome_time(record)
        evidence = []
        for commit in commits:
            if commit.id in ignored_commits or commit.at <= last_outcome_time:
                continue
            statement = statements.get(commit.id, _NO_STATEMENT)
            claim = self._build_claim(commit, statement, carriers)
            if claim.outcome not in ("", record.outcome):
                evidence.append(claim)
        return tuple(evidence)

    def _list_telling_commits(self, statements: Mapping[str, Statement]) -> list[Commit]:
        """List the commits that revert others or state an outcome."""
        telling_commits = []
        for commit in self.commits:
            statement = statements.get(commit.id, _NO_STATEMENT)
            if commit.id in self._reverts or statement.outcome:
                telling_commits.append(commit)
        return telling_commits

    def _find_carriers(self, decision: str, touches: Sequence[Touch]) -> set[str]:
        """Find the commits that added or implement a decision."""
        carriers = set(self.find_implementing_commits(decision))
        if touches:
            carriers.add(touches[-1].commit.id)
        # What a commit at the end of a shallow clone changed is unknown.
        carriers -= self._store.repo.shallow_boundary
        return carriers

    def _build_claim(
        self, commit: Commit, statement: Statement, carriers: Collection[str]
    ) -> Evidence:
        """Build the evidence of a commit; its outcome is "" if the commit states none.

        `carriers` are the commits that added or implement the decision.
        """
        short_commit = commit.id[:10]
        reverted_commits = self._reverts.get(commit.id, frozenset())
        if not statement.outcome and not reverted_commits.isdisjoint(carriers):
            text = f"reverted in {short_commit}"
            return Evidence(outcome="failed", commit=commit.id, text=text)
        reason = statement.reason or commit.subject
        text = f"{short_commit} says so: {reason}"
        return Evidence(outcome=statement.outcome, commit=commit.id, text=text)


def _find_code_tip(store: Store) -> str:
    """Return the commit from which the history of the code is read, or ""."""
    if store.tip == "HEAD" or store.repo is not store.code:
        return store.code.read_head() or ""
    return store.tip


def add_evidence(
    store: Store, hits: Sequence[Hit], testimony: Testimony | None = None
) -> tuple[Hit, ...]:
    """Return the hits with the drift of the code that they govern and evidence from commits.

    `testimony` is read from the store if None.
    """
    records = {hit.id: hit.record for hit in hits if hit.record.type == DECISION}
    nodes = store.index.read_nodes_by_field("id", list(records))
    decisions = [(node, records[node.id]) for node in nodes]
    if testimony is None:
        testimony = Testimony(store)
    drifts = compute_drifts(store, decisions, testimony)
    evidence = {}
    for node, record in decisions:
        evidence[node.id] = testimony.list_evidence(node, record)
    enriched_hits = []
    for hit in hits:
        drift = drifts.get(hit.id)
        enriched_hits.append(hit._replace(drift=drift, evidence=evidence.get(hit.id, ())))
    return tuple(enriched_hits)


def compute_drifts(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony
) -> dict[str, Drift]:
    """Compute the drift of the code that decisions govern, by id.

    Decisions that govern no code are left out.
    """
    patterns_by_node = {}
    for node, record in decisions:
        if record.type == DECISION and record.affects:
            patterns = [path for path in record.affects if _is_comparable(path)]
            patterns_by_node[node] = patterns
    try:
        return _compare_code(store, patterns_by_node, testimony)
    except GitError:
        reason = store.repo.describe_missing_history()
        if not reason:
            raise
        unknown = Drift(UNKNOWN, reason=reason)  # a partial clone lacks objects
        return {node.id: unknown for node in patterns_by_node}


def _compare_code(
    store: Store, patterns_by_node: Mapping[Node, Sequence[str]], testimony: Testimony
) -> dict[str, Drift]:
    bases: dict[Node, str] = {}
    if patterns_by_node and testimony.tip:
        bases = _find_bases(store, patterns_by_node, testimony)
    comparison = _CodeComparison(store, testimony.tip)
    comparison.load_objects((base, patterns_by_node[node]) for node, base in bases.items())
    drifts = {}
    for node, patterns in patterns_by_node.items():
        base = bases.get(node, "")
        drifts[node.id] = comparison.compute_drift(patterns, base)
    return drifts


def _is_comparable(path: str) -> bool:
    return is_inside_repository(path) and "\n" not in path


def _is_answered(store: Store, record: Record, drift: Drift, tip: str) -> bool:
    """Return whether an outcome is newer than the last change of the drifted files."""
    if not record.outcomes:
        return False
    paths = drift.missing + drift.changed
    options = ("-1", "--first-parent", "--format=%ct")
    seconds = store.code.git.run("log", *options, tip, "--", *paths)
    changed_at = int(seconds or 0) * 1000
    return changed_at <= find_last_outcome_time(record)


class _Landing(NamedTuple):
    """The commit of the code by which a record landed, and its time."""

    at: int
    commit: str


def _find_bases(store: Store, nodes: Iterable[Node], testimony: Testimony) -> dict[Node, str]:
    """Find the commit with which the code of each decision is compared.

    A decision that is not committed has none.
    """
    by_path = {store.files.to_work_tree_path(node.path): node for node in nodes}
    bases = {}
    for path, landing in _find_landings(store, by_path, testimony.tip).items():
        node = by_path[path]
        carriers = testimony.find_implementing_commits(node.id)
        base = landing
        for commit in testimony.commits:  # oldest first
            if commit.id in carriers and commit.at >= base.at:
                base = _Landing(commit.at, commit.id)
        bases[node] = base.commit
    return bases


def _find_landings(store: Store, paths: Collection[str], tip: str) -> dict[str, _Landing]:
    """Find the commits of the code by which records landed, by path of the record."""
    landings = {}
    if store.repo is not store.code:
        for path, at in store.history.read_dates(paths, store.tip).items():
            commit_id = store.code.find_commit_at(tip, at) or tip
            landings[path] = _Landing(at, commit_id)
        return landings
    commits = store.history.read_landings(paths, tip)
    is_complete = not store.repo.describe_missing_history()
    for path, commit in commits.items():
        # In a shallow clone, the first commit seems to add every file.
        if commit.parents or is_complete:
            landings[path] = _Landing(commit.at, commit.id)
    return landings


class _CodeComparison:
    """The code at the tip of a branch and at the commits with which it is compared."""

    def __init__(self, store: Store, tip: str) -> None:
        self._store = store
        self._tip = tip
        self._objects: dict[tuple[str, str], bytes] = {}  # by commit and path; b"" for none
        self._list_files = lru_cache(8)(self._read_files)

    def _read_files(self, commit: str) -> dict[str, str]:
        return self._store.code.list_files(commit, ".")

    def load_objects(self, patterns_by_base: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Load the objects at the start of all patterns, at their base and at the tip."""
        places: dict[tuple[str, str], None] = {}  # each commit and path once
        for base, patterns in patterns_by_base:
            for pattern in patterns:
                start = get_literal_prefix(pattern)
                places[base, start] = None
                places[self._tip, start] = None
        if not places:
            return
        lines = [f"{commit}:{path}\n" for commit, path in places]
        output = self._store.code.git.run(
            "cat-file",
            "--batch-check=%(objectname)",
            input_data="".join(lines).encode("utf-8", "surrogateescape"),
        )
        for place, oid in zip(places, output.splitlines(), strict=True):
            is_missing = oid.endswith(b" missing")
            self._objects[place] = b"" if is_missing else oid

    def compute_drift(self, patterns: Sequence[str], base: str) -> Drift:
        """Compute the drift of the files that match patterns, compared with a commit."""
        if not patterns:
            return Drift(UNKNOWN, reason="it names no path of this repository")
        if not base:
            missing_history = self._store.repo.describe_missing_history()
            return Drift(UNKNOWN, reason=missing_history or "the decision is not committed yet")
        starts = [get_literal_prefix(pattern) for pattern in patterns]
        before = [self._objects[base, start] for start in starts]
        after = [self._objects[self._tip, start] for start in starts]
        if not any(before) and not any(after):
            names = ", ".join(patterns[:3])
            return Drift(UNKNOWN, since=base, reason=f"{names}: not in Git")
        if before == after:
            return Drift(FRESH, since=base)
        return self._compare_files(patterns, base)

    def _compare_files(self, patterns: Sequence[str], base: str) -> Drift:
        before = self._list_files(base)
        after = self._list_files(self._tip)
        old_paths = _filter_governed(before, patterns)
        present_paths = _filter_governed(after, patterns)
        common_paths = old_paths & present_paths
        changed_paths = {path for path in common_paths if before[path] != after[path]}
        missing_paths = old_paths - present_paths
        if missing_paths:  # a renamed file counts as unchanged
            added_blobs = {after[path] for path in after.keys() - before.keys()}
            missing_paths = {path for path in missing_paths if before[path] not in added_blobs}
        verdict = FRESH
        if changed_paths or missing_paths:
            verdict = CHANGED
        if _has_vanished(patterns, missing_paths, present_paths):
            verdict = MISSING
        return Drift(
            verdict=verdict,
            changed=tuple(sorted(changed_paths)),
            missing=tuple(sorted(missing_paths)),
            files=len(old_paths | present_paths),
            since=base,
        )


def _has_vanished(
    patterns: Iterable[str], missing_paths: Collection[str], present_paths: Collection[str]
) -> bool:
    """Return whether all files of one of the patterns are missing."""
    for pattern in patterns:
        is_missing = _filter_governed(missing_paths, [pattern])
        if is_missing and not _filter_governed(present_paths, [pattern]):
            return True
    return False


def _filter_governed(paths: Iterable[str], patterns: Sequence[str]) -> set[str]:
    """Return the paths that paths or globs of a decision cover."""
    starts = tuple(get_literal_prefix(pattern) for pattern in patterns)
    governed_paths = set()
    for path in paths:
        # Comparing the start first is quick.
        if path.startswith(starts) and _is_match(patterns, path):
            governed_paths.add(path)
    return governed_paths


def _is_match(patterns: Iterable[str], path: str) -> bool:
    return any(is_covered(glob, path) for glob in patterns)


# the problems that `check` reports


def iter_problems(snapshot: Snapshot, base: str) -> Iterator[Problem]:
    """Yield drift of live decisions and evidence against them.

    Drift is reported if a path that a decision names, or half of its files, no longer exist and no
    outcome is newer.

    Args:
        base: Report only what came or changed since this commit; "" for everything.
    """
    store = snapshot.store
    if base and store.repo is not store.code:
        return  # the base is a commit of the memory, not of the code
    testimony = Testimony(store, snapshot.resolve_id)
    old_commits: Collection[str] = ()
    if base:
        old_commits = store.history.read_ancestors(base)
    heads = [node for node in snapshot.nodes.values() if snapshot.graph.is_head(node.id)]
    live = [(node, snapshot.records_by_id[node.id]) for node in heads]
    outgrown_decisions = _find_outgrown(store, live, testimony, base)
    for node, record in live:
        if node.id in outgrown_decisions:
            text = f"the code that it governs is {outgrown_decisions[node.id]}"
            yield Problem(node.path, line=1, code="drift", level="warning", message=text)
        for claim in testimony.list_evidence(node, record):
            if claim.commit in old_commits:
                continue
            update = f"filemem update {shorten_id(node.id)} --outcome {claim.outcome}"
            text = f"{claim}; if so: {update} --reason ..."
            yield Problem(node.path, line=1, code="evidence", level="warning", message=text)


def _find_outgrown(
    store: Store, live: Sequence[tuple[Node, Record]], testimony: Testimony, base: str
) -> dict[str, str]:
    """Describe the drift of decisions that their code has outgrown, by id.

    With a base, only files that changed since the branch left it count.
    """
    changed_paths: Collection[str] = ()
    if base:
        changed_paths = _list_changed_paths(store, base, testimony.tip)
    records = {node.id: record for node, record in live}
    descriptions = {}
    for decision, drift in compute_drifts(store, live, testimony).items():
        if not drift.is_outgrown:
            continue
        paths = drift.missing + drift.changed
        if base:
            paths = tuple(path for path in paths if path in changed_paths)
        if paths and not _is_answered(store, records[decision], drift, testimony.tip):
            names = ", ".join(paths[:MAX_NAMED])
            descriptions[decision] = f"{drift}: {names}"
    return descriptions


def _list_changed_paths(store: Store, base: str, tip: str) -> set[str]:
    """List the files of the code that a branch changed, added or removed since its base."""
    merge_base = store.code.find_merge_base(base, tip) or base
    before = store.code.list_files(merge_base, ".")
    after = store.code.list_files(tip, ".")
    paths = before.keys() | after.keys()
    return {path for path in paths if before.get(path) != after.get(path)}
