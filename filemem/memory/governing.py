"""Decisions and code: has what a decision governs changed since?

Rule: all of it is worked out from Git's objects when it is asked for; looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from filemem.documents import Node
from filemem.memory import claims
from filemem.memory.claims import Called, Claims
from filemem.memory.store import Store
from filemem.query import Hit
from filemem.query.drift import CHANGED, FRESH, UNKNOWN, Arrival, Drift, Line, Names, drift, fixed, plain, rewritten
from filemem.query.evidence import Claim, Said
from filemem.query.filter import within
from filemem.record import DECISION, Outcome, Record, parse
from filemem.repo import arrivals

MANY = 200  # paths that Git is asked for by name; for more, all of its line is read once
RENAMES = 3  # names of one file that are followed
FEW = 20  # decisions whose files are compared one by one, before history is walked
SOON, LONG = 5.0, 120.0  # seconds that a walk may take: to answer a question, and to check everything
MOST = 1 << 20  # bytes of a file that is read to see what is left of it; data is larger, code is not
_UNSEEN = "history does not show when the decision came to this branch"


def added(store: Store, hits: Iterable[Hit], drifting: Collection[str] | None = None) -> tuple[Hit, ...]:
    """Hits with how the code stands that they govern, and with what history says came of them.

    Args:
        store: the parts.
        hits: the hits.
        drifting: ids of those whose code is looked at; None for all.
    """
    listed = list(hits)
    nodes = _nodes(store, listed)
    looked = [hit for hit in listed if hit.id in nodes and (drifting is None or hit.id in drifting)]
    drifts = drifted(store, [(nodes[hit.id], hit.record.affects) for hit in looked])
    return tuple(
        hit._replace(drift=drifts.get(hit.id)) for hit in _spoken_of(store, listed, nodes, claims.every(store))
    )


def hinted(store: Store, hits: Sequence[Hit], kept: tuple[Claim, ...]) -> tuple[Hit, ...]:
    """Hits with what history says came of them, as far as that is `kept`: Git is not asked."""
    return tuple(_spoken_of(store, hits, _nodes(store, hits), Claims(kept, Called(store.nodes))))


def _nodes(store: Store, hits: Iterable[Hit]) -> dict[str, Node]:
    return {node.id: node for node in store.lookup("id", [hit.id for hit in hits if hit.record.type == DECISION])}


def _spoken_of(store: Store, hits: Iterable[Hit], nodes: Mapping[str, Node], every: Claims) -> Iterable[Hit]:
    for hit in hits:
        found = claims.evidence_of(store, nodes[hit.id], hit.record, every) if hit.id in nodes else ()
        yield hit._replace(evidence=found)


def drifted(
    store: Store, decisions: Iterable[tuple[Node, Collection[str]]], called: Called | None = None
) -> dict[str, Drift]:
    """How the governed files of some decisions stand, by id; those that govern nothing are left out.

    Args:
        store: the parts.
        decisions: nodes, each with the paths and globs that it affects.
        called: which decisions trailers mean; by the index where it is not given.
    """
    wanted = {node: tuple(affects) for node, affects in decisions if node.type == DECISION and affects}
    if not wanted:
        return {}
    code = Code(store, wanted, called or Called(store.nodes))
    return {node.id: code.drift(node, affects) for node, affects in wanted.items()}


def since_outcome(store: Store, decisions: Iterable[tuple[Node, Record]], called: Called) -> dict[str, Drift]:
    """How the governed files of some decisions stand to what they were when the newest outcome was written down, by id.

    Whoever says what came of a decision has looked at it. Those without an outcome are left out.

    Args:
        store: the parts.
        decisions: nodes, and what their files say.
        called: which decisions trailers mean.
    """
    wanted = {node: record for node, record in decisions if record.outcomes and record.affects}
    code = Code(store, {node: record.affects for node, record in wanted.items()}, called) if wanted else None
    return {node.id: code.since_outcome(node, record) for node, record in wanted.items()} if code else {}


def outgrown(store: Store, found: Drift) -> bool:
    """Whether code has left a decision behind: `Drift.outgrown`. What cannot be read is not called rewritten."""
    if not found.drifted:
        return False
    read = ((store.code.blob(before, MOST), store.code.blob(after, MOST)) for before, after in found.blobs)
    count = sum(old is not None and new is not None and rewritten(old, new) for old, new in read)
    return found.outgrown(count)


class Code:
    """What came to the branch for the files that some decisions govern, read once for all of them.

    For a few decisions only their paths are asked for, and only what came after the oldest; for many, all is read.
    """

    def __init__(self, store: Store, wanted: Mapping[Node, Sequence[str]], called: Called) -> None:
        self._store, self._called = store, called
        self._together = store.repo is store.code  # else records are committed apart from the code
        self._history = store.history if self._together else store.code.history
        governed = {fixed(one) for affects in wanted.values() for one in affects if within(one)}
        records = {name for node in wanted for name in self._names(node)} if self._together else set()
        self._narrow = "" not in governed and len(governed) + len(records) <= MANY
        self._paths = governed | records if self._narrow else set()
        oldest = min((node.birth for node in wanted if node.birth.commit), key=lambda birth: birth.at, default=None)
        self._after = oldest.commit if oldest and self._narrow and self._together else ""
        self._cut = self._history.boundary()
        self._moved: dict[str, Mapping[str, str]] = {}
        self._few = self._narrow and self._together and len(wanted) <= FEW
        self._came: Line | None = None
        self._now = Names(())
        if governed and store.code.head() is not None:
            self._now = Names(arrivals.present(self._history, sorted(governed) if self._narrow else ("",)))

    def drift(self, node: Node, affects: Sequence[str]) -> Drift:
        """How the files that a decision governs stand."""
        if not any(map(within, affects)):
            return drift(affects, (), ())
        if not node.birth.commit:
            return Drift(UNKNOWN, reason="the decision is not committed yet")
        if not node.birth.author:
            return Drift(UNKNOWN, reason=_UNSEEN)
        if self._few and self._all_there(affects) and not self._differing(node, affects):
            return Drift(FRESH, files=len(self._now.matching(affects)), since=node.birth.commit)
        try:
            return self._walked(node, affects)
        except TimeoutError:
            return self._at_a_glance(node, affects)

    def since_outcome(self, node: Node, record: Record) -> Drift:
        """How they stand to what they were when the newest of the decision's outcomes came; it has one."""
        try:
            return self._walked(node, record.affects, self._answered(node, record))
        except TimeoutError:
            return self._at_a_glance(node, record.affects)

    def _answered(self, node: Node, record: Record) -> int | None:
        """The place of the arrival that brought the newest outcome; None where it came with the decision."""
        last = record.outcomes[-1]
        if not self._together:
            return self._line.by(last.at)
        versions = self._line.versions(self._names(node))
        texts = self._store.repo.revisions.blobs({blob for _, blob in versions})
        having = [at for at, blob in versions if _states(texts.get(blob, b""), node.path, last)]
        if having:
            return having[0]
        head = self._store.repo.show(self._store.files.named(node.path), self._history.tip) or b""
        return None if _states(head, node.path, last) else len(self._line.arrivals) - 1  # it is not committed yet

    def _walked(self, node: Node, affects: Sequence[str], at: int | None = None) -> Drift:
        """The same from all that came since the decision landed, or since a later place. Raises TimeoutError."""
        line, at = self._line, self._landed(node) if at is None else at
        if at is None or (at >= 0 and line.arrivals[at].commit in self._cut):
            return Drift(UNKNOWN, reason=_UNSEEN)
        since = line.arrivals[at].commit if at >= 0 else node.birth.commit
        moved: dict[str, str] = {}
        for _ in range(RENAMES):
            later = self._line.later(at, affects, moved.values())
            now = self._now.matching(affects) | set(moved.values())
            names = self._called.of(node, {name for one in later for name in (*one.decisions, *one.not_so)})
            found = drift(affects, later, now, names=names, since=since, renamed=moved)
            news = {old: new for old in found.missing if (new := self._renamed(old, later))}
            if not news:
                break
            moved |= news
            self._widen(news.values())
        return found

    @property
    def _line(self) -> Line:
        """What came, read at first need. Raises TimeoutError where history is too long to answer a question soon."""
        if self._came is None:
            limit = SOON if self._few else LONG
            found = arrivals.arrivals(self._history, sorted(self._paths), self._said, after=self._after, limit=limit)
            if found is None:
                raise TimeoutError
            self._came = Line(found)
        return self._came

    @cached_property
    def _said(self) -> Mapping[str, Said]:
        """What commits say of decisions, by commit."""
        return {claim.commit: claim.said for claim in claims.every(self._store).told if claim.said.names}

    def _all_there(self, affects: Sequence[str]) -> bool:
        """Whether HEAD has governed files, and every path that is stated: else one may have come and gone."""
        return bool(self._now.matching(affects)) and all(self._now.matching([one]) for one in affects if plain(one))

    def _differing(self, node: Node, affects: Sequence[str]) -> set[str]:
        """The governed files that are not what they were at the decision's first commit."""
        paths = sorted({fixed(one) for one in affects if within(one)})
        return Names(self._history.differing(node.birth.commit, paths)).matching(affects)

    def _at_a_glance(self, node: Node, affects: Sequence[str]) -> Drift:
        """The same without the commits: two states of the files compared."""
        paths = sorted({fixed(one) for one in affects if within(one)})
        rows = self._history.between(node.birth.commit, self._history.tip, *paths, links=True)
        was = Names(row.before for row in rows if row.status != "A").matching(affects)
        lost = tuple(sorted(row.before for row in rows if row.status == "D" and row.before in was))
        edited = sorted((row.path, row.old, row.new) for row in rows if row.status in "MRT" and row.before in was)
        changed = [each for each in edited if each[1] != each[2]]
        files = self._now.matching(affects) | {path for path, *_ in edited} | set(lost)
        verdict = CHANGED if changed or lost else FRESH
        blobs = tuple((old, new) for _, old, new in changed)
        return Drift(verdict, tuple(path for path, *_ in changed), lost, len(files), 0, node.birth.commit, blobs=blobs)

    def _landed(self, node: Node) -> int | None:
        """The last place in the line that a decision came with or after; -1 for before all; None if that is unknown."""
        if not self._together:
            return self._line.by(node.birth.at)
        at = self._line.of(node.birth.commit)
        if at is None and node.birth.commit == self._after and self._on_line:
            return -1
        found = self._line.first(self._names(node)) if at is None else at
        return -1 if found is None and self._after else found

    @cached_property
    def _on_line(self) -> bool:
        """Whether the commit after which the line is read is on it itself, or the last of a branch that was merged.

        Of a merge that is the same as the branch in these files Git shows nothing, so that it cannot be looked for.
        """
        return arrivals.begins_line(self._history, self._after)

    def _names(self, node: Node) -> frozenset[str]:
        return frozenset(self._store.files.named(path) for path in (node.path, node.birth.path) if path)

    def _renamed(self, path: str, later: Sequence[Arrival]) -> str:
        """The name under which a file went on, or ""."""
        last = next(a for a in reversed(later) if any(row.path == path for row in a.rows))
        if last.commit not in self._moved:
            self._moved[last.commit] = arrivals.renamed(self._history, last.commit)
        return self._moved[last.commit].get(path, "")

    def _widen(self, paths: Iterable[str]) -> None:
        if self._narrow and not self._paths.issuperset(paths):
            self._paths |= set(paths)
            self._came = None


def _states(data: bytes, path: str, outcome: Outcome) -> bool:
    """Whether a version of a record has this outcome."""
    record = parse(data, path).record
    return record is not None and outcome in record.outcomes
