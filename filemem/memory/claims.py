"""What commits claim came of decisions: trailers and reverts, and which of them no outcome has answered yet.

Rule: history is read once: what its messages claim is kept (`claimed`). What is asked of the past is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import NamedTuple

from filemem.documents import Node
from filemem.memory import claimed
from filemem.memory.names import bare
from filemem.memory.store import Store
from filemem.query.evidence import Claim, Evidence, evidence, words
from filemem.record import (
    DECISION,
    Outcome,
    Record,
    ReferenceIndex,
    names_of,
    parse,
    readings,
    reference_index,
    resolve_reference,
    short_id,
)
from filemem.repo import arrivals

DAY = 86_400_000  # milliseconds


class Called:
    """Which decision the words of a trailer mean, by the names that all others go by (`record.references`).

    Args:
        nodes: every decision there is; asked for once, where words may be a name that several have.
        gone: paths of records that are no more.
    """

    def __init__(self, nodes: Callable[[], Iterable[Node]], gone: Iterable[str] = ()) -> None:
        self._nodes, self._gone = nodes, gone
        self._readings: dict[str, frozenset[str]] = {}  # of words that were asked about

    def of(self, node: Node, said: Collection[str]) -> frozenset[str]:
        """What of that which trailers say means this decision, perhaps among others."""
        own = {name for _, name in names_of(bare(node))} if said else set()
        ids = {node.id, short_id(node.id)}
        near = [one for one in said if any(not own.isdisjoint(self._read(name)) for name in _names_in(one))]
        return frozenset(one for one in near if not ids.isdisjoint(words(one)) or node.id in self.every(one))

    def every(self, said: str) -> tuple[str, ...]:
        """The ids of all that a trailer names, as `meant` tells each."""
        return tuple(one for name in self.names(said) if (one := self.meant(name)))

    def names(self, said: str) -> list[str]:
        """The names in a trailer: all of it, where something is called so, else what is between commas, else words."""
        if self.meant(said):
            return [said]
        pieces = [piece.strip() for piece in said.split(",")]
        return [name for piece in pieces for name in ([piece] if self.meant(piece) else piece.split())]

    def meant(self, said: str) -> str | None:
        """The id of what some words mean, the path of what is gone; None where they mean nothing, or several."""
        return resolve_reference(said, self._index)

    def _read(self, name: str) -> frozenset[str]:
        if name not in self._readings:
            self._readings[name] = frozenset(readings(name))
        return self._readings[name]

    @cached_property
    def _index(self) -> ReferenceIndex:
        gone = (Record(id=path, type=DECISION, path=path) for path in self._gone)
        return reference_index((bare(node) for node in self._nodes() if node.type == DECISION), gone)


def _names_in(said: str) -> set[str]:
    """What may be a name in a trailer: `Called.names`."""
    return {said, *(piece.strip() for piece in said.split(",")), *words(said)}


class Claims(NamedTuple):
    """The claims on a branch, each after all that it descends from, and which decisions they mean."""

    told: tuple[Claim, ...]
    called: Called

    @property
    def said(self) -> frozenset[str]:
        """What their trailers call decisions."""
        return frozenset(name for claim in self.told for name in claim.said.names)


def evidence_of(store: Store, node: Node, record: Record, every: Claims) -> tuple[Evidence, ...]:
    """What is claimed of one decision and not yet answered by an outcome that was committed after it.

    Args:
        store: the parts.
        node, record: the decision.
        every: the claims on this branch.
    """
    if not every.told or record.type != DECISION:
        return ()
    birth = node.birth
    carrier = "" if birth.unseen else birth.commit
    untold = any(claim.title and not claim.reverts for claim in every.told)
    carriers = {carrier: store.code.revisions.subject(carrier) if untold else ""} if carrier else {}
    found = evidence(every.called.of(node, every.said), carriers, every.told)
    told = (one for one in found if one.outcome != record.outcome and not _brought_back(store, node, one))
    return tuple(one for one in told if not _answered(store, node, record, one))


def _brought_back(store: Store, node: Node, found: Evidence) -> bool:
    """Whether the commit that speaks against a decision took its file away: it was brought back since."""
    if store.repo is not store.code:
        return False
    path = store.files.named(node.path)
    return store.repo.show(path, found.commit) is None and store.repo.show(path, f"{found.commit}^") is not None


def _answered(store: Store, node: Node, record: Record, found: Evidence) -> bool:
    """Whether an outcome was written down after what speaks against a decision: by its date, and by Git.

    No commit of a memory with a branch of its own descends from one of the code: there dates alone tell.
    """
    late = {entry for entry in record.outcomes if entry.at + DAY >= found.at}  # clocks differ, but not by more
    if not late:
        return False
    if store.repo is not store.code:
        told = any(entry.at >= found.at or not entry.at % DAY for entry in late)  # a date is the beginning of its day
        return told and any(edit.at >= found.at for edit in node.birth.edits)
    commits = [edit.commit for edit in node.birth.edits]
    after = {commit for commit in commits if store.history.is_ancestor(found.commit, commit)}
    before = (found.commit, *(commit for commit in commits if commit not in after))
    younger = {entry for entry in late if entry.at >= found.at}
    had = [_outcomes(store, node, commit, late - younger) for commit in before]
    said = [_outcomes(store, node, commit, younger) for commit in after]
    known = {entry[:2] for entries in had for entry in entries}  # a typo in the reason makes no other entry
    return any(entry in late and entry[:2] not in known for entries in said for entry in entries)


def _outcomes(store: Store, node: Node, commit: str, unknown: Collection[Outcome]) -> Collection[Outcome]:
    """The outcomes that a record has in a commit; `unknown` where it has neither its name of today nor its first."""
    texts = (store.repo.show(store.files.named(path), commit) for path in (node.path, node.birth.path) if path)
    text = next(filter(None, texts), None)
    found = parse(text, node.path).record if text else None
    return found.outcomes if found else unknown


def every(store: Store, called: Called | None = None) -> Claims:
    """Every claim on the branch that is checked out; only commits that came since the last time are read.

    Args:
        store: the parts.
        called: which decisions they mean; by the index where it is not given.
    """
    return Claims(_every(store), called or Called(store.nodes))


def _every(store: Store) -> tuple[Claim, ...]:
    if store.tip != "HEAD":  # asked of the past, which is not kept
        return arrivals.claims(store.history if store.repo is store.code else store.code.history)
    head = store.code.head() or ""
    known = claimed.remembered(store)
    if not head or known.head == head:
        return known.claims if head else ()
    past = store.code.history_at(head)  # not HEAD, which may be moved meanwhile
    onward = known.head and past.is_ancestor(known.head)
    found = arrivals.claims(past, known.head if onward else "")
    claims = (*known.claims, *found) if onward else found
    claimed.keep(store, head, claims)
    return claims
