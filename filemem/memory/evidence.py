"""Evidence: what commit messages say came of a decision, as far as no outcome has answered it.

Rule: it comes from commits alone (reverts, and the trailers `Decision:` and `Outcome:`), is worked out when it is asked
for, and changes nothing. An outcome that is newer than the commit answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from filemem.index import Node
from filemem.memory.store import Store
from filemem.query import Evidence
from filemem.record import DECISION, OUTCOMES, Problem, Record, parse_outcome, short_id

if TYPE_CHECKING:
    from filemem.memory.snapshot import Snapshot

DAY = 86_400_000  # milliseconds


class Statement(NamedTuple):
    """What the trailers of one commit say of one decision."""

    name: str  # the decision as it is written
    outcome: str = ""  # what came of it; "" where the commit carries it out and says no more
    reason: str = ""  # what stands behind the outcome
    unclear: str = ""  # why what came of it is not clear, else ""


def statements(trailers: Iterable[tuple[str, str]]) -> tuple[Statement, ...]:
    """Return what trailers say: of a decision the `Outcome:` that comes next, or the only one, if it stands first."""
    groups: list[tuple[list[str], list[str]]] = [([], [])]  # decisions, and the outcomes after them
    for key, value in trailers:
        if key.lower() == "outcome":
            groups[-1][1].append(value)
        elif key.lower() == "decision":
            if groups[-1][1]:
                groups.append(([], []))
            groups[-1][0].append(value)
    if not groups[0][0] and len(groups) == 2 and not groups[1][1]:
        groups = [(groups[1][0], groups[0][1])]
    return tuple(_statement(name, outcomes) for names, outcomes in groups for name in names)


def _statement(name: str, outcomes: Iterable[str]) -> Statement:
    parts = [one.partition(":") for one in outcomes]
    words = list(dict.fromkeys(parse_outcome(word) for word, _, _ in parts))
    if None in words:
        return Statement(name, unclear=f"an outcome is one of {', '.join(OUTCOMES)}")
    if len(words) > 1:
        return Statement(name, unclear=f"it says {' and '.join(map(str, words))}")
    return Statement(name, "".join(map(str, words)), "; ".join(said for _, _, why in parts if (said := why.strip())))


class Testimony:
    """What the commits of a branch say of decisions, read once for all that are asked about.

    Args:
        store: the parts.
        resolve: the id of the record that a name means, or ""; by the index where it is not given.
    """

    def __init__(self, store: Store, resolve: Callable[[str], str] | None = None) -> None:
        self._store, self._resolve = store, resolve or self._by_index
        self._called: dict[str, str] = {}
        self.tip = code_tip(store)
        self.commits = store.history.spoken(self.tip) if self.tip else ()
        self.said: dict[str, dict[str, Statement]] = {}  # by decision: what each commit says, by commit
        for commit in self.commits:
            for one in statements(commit.trailers):
                for decision in filter(None, map(self._meant, self._names(one.name))):
                    told = self.said.setdefault(decision, {})
                    differs = commit.id in told and told[commit.id].outcome != one.outcome
                    told[commit.id] = one._replace(unclear="it says two things") if differs else one
        self._places = {one.id: place for place, one in enumerate(self.commits)}
        self._reverts: dict[str, frozenset[str]] = {}  # by a commit that is not reverted itself: what it reverts
        self._fallen: set[str] = set()
        for commit in reversed(self.commits):
            if commit.id not in self._fallen and (taken := store.history.reverted(commit)):
                self._reverts[commit.id] = taken
                self._fallen |= taken

    def carried_out(self, decision: str) -> frozenset[str]:
        """The commits that carry a decision out: they name it, and no failure."""
        said = self.said.get(decision, {})
        return frozenset(one for one, told in said.items() if not told.unclear and told.outcome != "failed")

    def named_by(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """The decisions that a commit names in its trailers, and those that further names mean."""
        found = [decision for decision, said in self.said.items() if commit in said]
        return found + [one for one in map(self._meant, names) if one]

    def of(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """What speaks for or against a decision and is not answered, oldest first."""
        if not self.commits or record.type != DECISION:
            return ()
        # A bare date is all of its day.
        told = max((entry.at if entry.at % DAY else entry.at + DAY - 1 for entry in record.outcomes), default=-1)
        return tuple(one for one in self._spoken(node) if one.outcome != record.outcome and one.at > told)

    def _spoken(self, node: Node) -> Iterator[Evidence]:
        path, history = self._store.files.named(node.path), self._store.history
        said, carried = self.said.get(node.id, {}), self.carried_out(node.id)
        speaking = {self._places[one] for one in (*self._reverts, *(one for one in said if said[one].outcome))}
        touches = history.touches([path], self._store.tip).get(path, ()) if speaking else ()
        carriers = {*carried, *(one.commit.id for one in touches[-1:])}
        if speaking and self._store.repo is self._store.code:
            carriers |= {one.id for one in history.landed([path], self.tip).values()}
        removed = {one.commit.id for one in touches if one.kind == "D"}  # it was brought back since
        for commit in (self.commits[place] for place in sorted(speaking)):
            told = said.get(commit.id)
            if commit.id in self._fallen or commit.id in removed:
                continue
            if told and told.outcome and not told.unclear:
                text = f"{commit.id[:10]} says so: {told.reason or commit.subject}"
                yield Evidence(told.outcome, commit.id, commit.at, commit.author, text)
            elif not self._reverts.get(commit.id, frozenset()).isdisjoint(carriers):
                yield Evidence("failed", commit.id, commit.at, commit.author, f"reverted in {commit.id[:10]}")

    def _names(self, said: str) -> list[str]:
        """The names in a trailer: all of it where a decision is called so, else what is between commas, else words."""
        if self._meant(said):
            return [said]
        pieces = [piece.strip() for piece in said.split(",")]
        return [name for piece in pieces for name in ([piece] if self._meant(piece) else piece.split())]

    def _meant(self, name: str) -> str:
        if name not in self._called:
            self._called[name] = self._resolve(name)
        return self._called[name]

    def _by_index(self, name: str) -> str:
        found = [one.id for one in self._store.index.answering(name) if one.type == DECISION]
        return found[0] if len(found) == 1 else ""

    def unclear(self, known: Container[str] = ()) -> Iterator[Problem]:
        """Yield what commits say in vain, but for those that are known: of no decision, or of no known outcome."""
        for commit in (one for one in self.commits if one.id not in known):
            what = f"{commit.id[:10]} ({commit.subject})"
            for one in statements(commit.trailers):
                if lost := [name for name in self._names(one.name) if not self._meant(name)]:
                    text = f"{what} names the decision {', '.join(lost)}, which no decision is called, or several are"
                    yield Problem("", 1, "unknown-decision", "warning", text)
                elif one.unclear:
                    text = f"{what} does not say clearly what came of {one.name}: {one.unclear}"
                    yield Problem("", 1, "unclear-outcome", "warning", text)


def of_all(
    store: Store, decisions: Iterable[tuple[Node, Record]], testimony: Testimony | None = None
) -> dict[str, tuple[Evidence, ...]]:
    """Return what history says came of decisions, by id."""
    told = testimony or Testimony(store)
    return {node.id: told.of(node, record) for node, record in decisions}


def problems(snapshot: Snapshot, testimony: Testimony, known: Container[str] = ()) -> Iterator[Problem]:
    """Yield what `check` reports of live decisions that commits speak against.

    Args:
        snapshot: the records.
        testimony: what commits say.
        known: ids of commits that are passed over: what the other branch has already.
    """
    for node in snapshot.nodes.values():
        if snapshot.graph.is_head(node.id):
            for found in testimony.of(node, snapshot.by_id[node.id]):
                if found.commit not in known:
                    text = f"{found}; if so: filemem update {short_id(node.id)} --outcome {found.outcome} --reason ..."
                    yield Problem(node.path, 1, "evidence", "warning", text)


def code_tip(store: Store) -> str:
    """Return the commit from which the code's history is seen; "" where nothing is committed."""
    if store.repo is not store.code:
        return store.code.head() or ""
    return (store.repo.head() if store.tip == "HEAD" else store.repo.resolve(store.tip)) or ""
