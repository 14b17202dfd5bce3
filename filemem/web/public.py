"""The memory as everybody may read it: without private records, and without a word about them.

Code that a caller sends does not name its reader, so it is shown nothing private, whoever wrote it: not as a result,
not as what an edge leads to, not in what a failure says. Only what stands here can be asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from filemem.dialects.reader import page, search
from filemem.errors import NotFound
from filemem.files import is_private
from filemem.query import Results

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.history import History, Revision
    from filemem.query import Hit, Name
    from filemem.record import Record


def public(record: Record) -> bool:
    """Whether a record neither states that it is private nor lies in the folder of those that are."""
    return record.visibility != "private" and not is_private(record.path)


class PublicMemory:
    """What reads, of a memory: its methods, with the same arguments and answers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.agent = ""
        self.moment = getattr(memory, "moment", None)

    @property
    def lacked(self) -> str:
        """Why the last answer may lack something, or ""."""
        return self._memory.lacked

    def at(self, when: str) -> PublicMemory:
        """The memory as it was at a commit."""
        return PublicMemory(self._memory.at(when))  # type: ignore[arg-type]

    def search(self, query: str = "", *, limit: int = 10, offset: int = 0, **how: Any) -> Results:
        """Find records."""
        found = page(search(self._memory, query, public, offset + limit, **how), offset, limit)
        return found.replace(hits=self._cleared(found.hits))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Whole records."""
        return self._cleared([self._one(one) for one in ids])

    def timeline(self, *, anchor: str = "", query: str = "", **depths: Any) -> Results:
        """What was saved around a record, a time or the best hit of a query."""
        if not anchor:
            if not (best := self.search(query, limit=1).hits):
                return Results((), note="nothing found")
            anchor = best[0].id
        try:
            found = self._memory.timeline(anchor=anchor, **depths)
        except NotFound:
            raise _unknown(anchor) from None
        if any(hit.id == found.anchor and not public(hit.record) for hit in found.hits):
            raise _unknown(anchor)
        return found.replace(hits=self._cleared(found.hits))

    def history(self, topic_or_id: str) -> History:
        """How a topic was decided."""
        try:
            told = self._memory.history(topic_or_id)
        except NotFound:
            raise _unknown(topic_or_id) from None
        chain = tuple(step for step in told.chain if public(step.record))
        if not chain:
            raise _unknown(topic_or_id)
        hidden = {step.record.id for step in told.chain if not public(step.record)}
        return told._replace(chain=chain, heads=tuple(head for head in told.heads if head not in hidden))

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """The checkpoint to go on from."""
        found = self._memory.latest_checkpoint(branch=branch)
        shown = self._cleared([found[0]]) if found else ()
        return (shown[0], found[1]) if found and shown else None

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records."""
        known = self._memory.names(ids)
        hidden = self._hidden(known)
        return {one: name for one, name in known.items() if one not in hidden}

    def edited(self, hit: Hit) -> bool:
        """Whether the file has changes that are not committed."""
        return self._memory.edited(hit)

    def revisions(self, *ids: str) -> dict[str, tuple[Revision, ...]]:
        """How records that were found were edited in place."""
        return self._memory.revisions(*ids)

    def _one(self, reference: str) -> Hit:
        try:
            [hit] = self._memory.get(reference)
        except NotFound:  # what it says may name records that are private
            raise _unknown(reference) from None
        if not public(hit.record):
            raise _unknown(reference)
        return hit

    def _cleared(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        """Those that are public, without the edges and reasons of those that are not."""
        shown = [hit for hit in hits if public(hit.record)]
        hidden = self._hidden({edge.target for hit in shown for edge in hit.related} - {hit.id for hit in shown})
        return tuple(
            hit._replace(related=tuple(edge for edge in hit.related if edge.target not in hidden)) for hit in shown
        )

    def _hidden(self, ids: Iterable[str]) -> set[str]:
        known = self._memory.names(set(ids))
        return {hit.id for hit in self._memory.get(*known) if not public(hit.record)} if known else set()


def _unknown(reference: str) -> NotFound:
    return NotFound(f"nothing public, or more than one thing, goes by {reference[:100]!r}")
