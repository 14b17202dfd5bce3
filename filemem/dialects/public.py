"""The memory without private records: nothing shows that they exist.

Code sent by a caller does not say who reads, and a tool that the profile does not list was not chosen by the user:
neither sees private records, whoever wrote them.
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
    from filemem.memory.history import History
    from filemem.memory.save import Saved
    from filemem.query import Hit, Name
    from filemem.record import Record


def public(record: Record) -> bool:
    """Whether a record is neither marked as private nor in the private folder."""
    return record.visibility != "private" and not is_private(record.path)


def _absent(asked: str) -> NotFound:
    return NotFound(f"no record {asked!r}")


class PublicMemory:
    """A `Memory` without private records; for one, every method raises NotFound as if it did not exist.

    Its methods are those of `Memory`. A past state (`at`) needs no care: commits contain nothing private.
    """

    personal = workspace = None

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.agent = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def search(self, query: str = "", *, limit: int = 10, offset: int = 0, **how: Any) -> Results:
        found = page(search(self._memory, query, public, offset + limit, **how), offset, limit)
        return found.replace(hits=self._cleared(found.hits))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Whole records. The hint of a failure would name titles, private ones too, so there is none."""
        try:
            hits = self._memory.get(*ids)
        except NotFound as error:
            raise NotFound(error.message) from None
        for asked, hit in zip(ids, hits, strict=True):
            if not public(hit.record):
                raise _absent(asked)
        return self._cleared(hits)

    def update(self, id: str, **given: Any) -> Saved:  # noqa: A002  the tools' word
        self.get(id)
        return self._memory.update(id, **given)

    def delete(self, id: str, **given: Any) -> Saved:  # noqa: A002
        self.get(id)
        return self._memory.delete(id, **given)

    def delete_several(self, ids: Iterable[str], **given: Any) -> int:
        wanted = tuple(ids)
        if wanted:
            self.get(*wanted)
        return self._memory.delete_several(wanted, **given)

    def timeline(self, **asked: Any) -> Results:
        found = self._memory.timeline(**asked)
        hits = self._cleared(found.hits)
        if found.anchor and all(hit.id != found.anchor for hit in hits):
            raise _absent(str(asked.get("anchor") or asked.get("query")))
        return found.replace(hits=hits)

    def history(self, topic_or_id: str) -> History:
        told = self._memory.history(topic_or_id)
        chain = tuple(step for step in told.chain if public(step.hit.record))
        if not chain:
            raise _absent(topic_or_id)
        hidden = {step.hit.id for step in told.chain} - {step.hit.id for step in chain}
        return told._replace(
            chain=chain, heads=tuple(head for head in told.heads if head not in hidden)
        )

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        found = self._memory.latest_checkpoint(branch=branch)
        return found if found and public(found[0].record) else None

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        known = self._memory.names(ids)
        return (
            {hit.id: known[hit.id] for hit in self._memory.get(*known) if public(hit.record)}
            if known
            else {}
        )

    def _cleared(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        """Those that are public, with the edges that lead to what is."""
        shown = [hit for hit in hits if public(hit.record)]
        named = self.names({edge.target for hit in shown for edge in hit.related})
        return tuple(
            hit._replace(related=tuple(edge for edge in hit.related if edge.target in named))
            for hit in shown
        )
