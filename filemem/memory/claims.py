"""What commits claim came of decisions: trailers and reverts, and which of them no outcome has answered yet.

Rule: history is read once. What its messages claim is kept beside the index, so that a search shows it without asking
Git; what is asked of the past is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from filemem.documents import Node
from filemem.memory.store import Store
from filemem.query.evidence import Claim, Evidence, evidence
from filemem.record import DECISION, Record, short_id
from filemem.repo import arrivals

DAY = 86_400_000  # milliseconds
_CLAIMS, _LAYOUT = "claims", 2  # the memo, and its layout


def names(node: Node) -> frozenset[str]:
    """What a trailer may call a decision."""
    name = node.path.rpartition("/")[2]
    return frozenset((node.id, short_id(node.id), node.path, name, name.removesuffix(".md"))) - {""}


def evidence_of(store: Store, node: Node, record: Record, every: Sequence[Claim]) -> tuple[Evidence, ...]:
    """What is claimed of one decision and not yet answered by an outcome that was committed after it.

    Args:
        store: the parts.
        node, record: the decision.
        every: the claims on this branch.
    """
    if not every or record.type != DECISION:
        return ()
    birth = node.birth
    untold = any(claim.title and not claim.reverts for claim in every)
    carriers = {birth.commit: store.code.revisions.subject(birth.commit) if untold else ""} if birth.commit else {}
    found = evidence(names(node), carriers, every)
    return tuple(one for one in found if one.outcome != record.outcome and not _answered(store, node, record, one))


def _answered(store: Store, node: Node, record: Record, found: Evidence) -> bool:
    """Whether an outcome was written down after what speaks against a decision: by its date, and by Git."""
    if not record.outcomes or record.outcomes[-1].at + DAY < found.at:  # a bare date is the beginning of its day
        return False
    edits = [edit.commit for edit in node.birth.edits]
    if store.repo is not store.code:
        return any(edit.at >= found.at for edit in node.birth.edits)
    return any(store.history.is_ancestor(found.commit, edit) for edit in edits)


class _Remembered(NamedTuple):
    """Claims as they are kept: of all commits up to `head`."""

    head: str = ""
    claims: tuple[Claim, ...] = ()


def every(store: Store) -> tuple[Claim, ...]:
    """Every claim on the branch that is checked out; only commits that came since the last time are read."""
    if store.history.tip != "HEAD":  # asked of the past, which is not kept
        return arrivals.claims(store.history if store.repo is store.code else store.code.history)
    head = store.code.head() or ""
    known = _remembered(store)
    if not head or known.head == head:
        return known.claims if head else ()
    onward = known.head and store.code.history.is_ancestor(known.head)
    found = arrivals.claims(store.code.history, known.head if onward else "")
    known = _Remembered(head, (*known.claims, *found) if onward else found)
    store.memo(_CLAIMS).write(json.dumps([_LAYOUT, known], ensure_ascii=False).encode())
    return known.claims


def kept(store: Store) -> tuple[Claim, ...]:
    """The same as far as it is known without asking Git."""
    return _remembered(store).claims if store.history.tip == "HEAD" else ()


def _remembered(store: Store) -> _Remembered:
    """What was kept last; nothing where that cannot be read. It is derived: whatever is odd is worked out anew."""
    return _loaded(store.memo(_CLAIMS).read())


@lru_cache(maxsize=4)
def _loaded(text: bytes) -> _Remembered:
    try:
        layout, (head, rows) = json.loads(text or b"[0,[0,0]]")
        if layout != _LAYOUT:
            return _Remembered()
        found = map(Claim._make, rows)
        return _Remembered(
            head, tuple(one._replace(reverts=tuple(one.reverts), decisions=tuple(one.decisions)) for one in found)
        )
    except (ValueError, TypeError, IndexError, KeyError):
        return _Remembered()
