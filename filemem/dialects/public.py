"""The memory as everybody may read it: without private records, and without a word about them.

Code that a caller sends does not name its reader, and a tool that a profile does not list was not chosen by the user:
both are shown nothing private, whoever wrote it.
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
    """Whether a record neither states that it is private nor lies in the folder of those that are."""
    return record.visibility != "private" and not is_private(record.path)


class PublicMemory:
    """What the reading tools ask of a memory. The memory as it was, `at`, needs no care: commits have nothing private.

    Of what is private every method raises NotFound, as of what is not there.
    """

    personal = workspace = None

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.agent = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def search(self, query: str = "", *, limit: int = 10, offset: int = 0, **how: Any) -> Results:
        """Find records."""
        found = page(search(self._memory, query, public, offset + limit, **how), offset, limit)
        return found.replace(hits=self._cleared(found.hits))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Whole records."""
        hits = self._cleared(self._memory.get(*ids))
        if len(hits) < len(ids):
            raise NotFound("not public")
        return hits

    def update(self, id: str, **given: Any) -> Saved:  # noqa: A002  the tools' word
        """Change a record."""
        self.get(id)
        return self._memory.update(id, **given)

    def delete(self, id: str, **given: Any) -> Saved:  # noqa: A002
        """Remove a record."""
        self.get(id)
        return self._memory.delete(id, **given)

    def timeline(self, **asked: Any) -> Results:
        """What was saved around a record, a time or the best hit of a query."""
        found = self._memory.timeline(**asked)
        hits = self._cleared(found.hits)
        if found.anchor and all(hit.id != found.anchor for hit in hits):
            raise NotFound("not public")
        return found.replace(hits=hits)

    def history(self, topic_or_id: str) -> History:
        """How a topic was decided."""
        told = self._memory.history(topic_or_id)
        chain = tuple(step for step in told.chain if public(step.record))
        if not chain:
            raise NotFound("not public")
        hidden = {step.record.id for step in told.chain} - {step.record.id for step in chain}
        return told._replace(chain=chain, heads=tuple(head for head in told.heads if head not in hidden))

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """The checkpoint to go on from."""
        found = self._memory.latest_checkpoint(branch=branch)
        return found if found and public(found[0].record) else None

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records."""
        known = self._memory.names(ids)
        return {hit.id: known[hit.id] for hit in self._memory.get(*known) if public(hit.record)} if known else {}

    def _cleared(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        """Those that are public, with the edges that lead to what is."""
        shown = [hit for hit in hits if public(hit.record)]
        named = self.names({edge.target for hit in shown for edge in hit.related})
        return tuple(hit._replace(related=tuple(edge for edge in hit.related if edge.target in named)) for hit in shown)
