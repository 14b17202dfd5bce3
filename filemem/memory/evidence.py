"""Evidence: what commit messages say came of a decision, as far as no outcome has answered it.

Rule: it comes from commits alone (reverts, and the trailers `Decision:` and `Outcome:`), is worked out when it is asked
for, and changes nothing. An outcome that is newer than the commit answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from filemem.index import Node
from filemem.memory.store import Store
from filemem.query import Evidence
from filemem.record import DECISION, Problem, Record, parse_outcome, short_id

if TYPE_CHECKING:
    from filemem.memory.snapshot import Snapshot

DAY = 86_400_000  # milliseconds


def statements(trailers: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return what trailers say: the decisions as they are called, each with the outcome that comes next and its reason;
    both empty where none does."""
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
    """When the last outcome was told, in epoch milliseconds; a bare date is all of its day; -1 for none."""
    return max((entry.at if entry.at % DAY else entry.at + DAY - 1 for entry in record.outcomes), default=-1)


class Testimony:
    """What the commits of a branch say of decisions, read once for all that are asked about.

    Args:
        store: the parts.
        resolve: the id of the record that a name means, or ""; by the index where it is not given.
    """

    def __init__(self, store: Store, resolve: Callable[[str], str] | None = None) -> None:
        self._store, self._meant = store, cache(resolve or self._by_index)
        now = store.tip == "HEAD" or store.repo is not store.code
        self.tip = (store.code.head() or "") if now else store.tip  # from where the code's history is seen
        self.commits = store.history.spoken(self.tip) if self.tip else ()
        self._said: dict[str, dict[str, tuple[str, str]]] = {}  # by decision: outcome and reason by commit
        for commit in self.commits:
            for name, told in statements(commit.trailers).items():
                names = (name,) if self._meant(name) else map(str.strip, name.split(","))
                for decision in filter(None, map(self._meant, names)):
                    self._said.setdefault(decision, {})[commit.id] = told
        self._reverts: dict[str, frozenset[str]] = {}  # by a commit that is not reverted itself: what it reverts
        self._fallen: set[str] = set()
        for commit in reversed(self.commits):
            if commit.id not in self._fallen and (taken := store.history.reverted(commit)):
                self._reverts[commit.id] = taken
                self._fallen |= taken

    def _by_index(self, name: str) -> str:
        found = [one.id for one in self._store.index.answering(name) if one.type == DECISION]
        return found[0] if len(found) == 1 else ""

    def carried_out(self, decision: str) -> frozenset[str]:
        """The commits that carry a decision out: they name it, and no failure."""
        return frozenset(one for one, told in self._said.get(decision, {}).items() if told[0] != "failed")

    def named_by(self, commit: str, names: Iterable[str] = ()) -> list[str]:
        """The decisions that a commit names in its trailers, and those that further names mean."""
        found = [decision for decision, said in self._said.items() if commit in said]
        return found + [one for one in map(self._meant, names) if one]

    def of(self, node: Node, record: Record) -> tuple[Evidence, ...]:
        """What speaks for or against a decision and is not answered, oldest first."""
        said = self._said.get(node.id, {})
        told = [one for one in self.commits if one.id in self._reverts or said.get(one.id, ("", ""))[0]]
        if not told or record.type != DECISION:
            return ()
        path = self._store.files.named(node.path)
        touches = self._store.history.touches([path], self._store.tip)[path]
        removed = {one.commit.id for one in touches if one.kind == "D"}  # it was brought back since
        carriers = {*self.carried_out(node.id), *(one.commit.id for one in touches[-1:])}
        found = []
        for commit in told:
            if commit.id in self._fallen or commit.id in removed or commit.at <= last_outcome(record):
                continue
            outcome, reason = said.get(commit.id, ("", ""))
            text = f"{commit.id[:10]} says so: {reason or commit.subject}"
            if not outcome and not carriers.isdisjoint(self._reverts.get(commit.id, ())):
                outcome, text = "failed", f"reverted in {commit.id[:10]}"
            if outcome and outcome != record.outcome:
                found.append(Evidence(outcome, commit.id, commit.at, commit.author, text))
        return tuple(found)


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
