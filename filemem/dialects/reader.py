"""Who reads, and what is meant for them: the tools of other systems search and find on behalf of a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BadInput, NotFound
from filemem.memory.advice import nothing_like, passed_over
from filemem.query import Results, fold
from filemem.record import OBSERVATION, Record, number

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit


NOBODY, NOWHERE = "legacy", "default"  # an agent and a department that do not say who they are
_SPARE, _MOST = 10, 1_000  # hits asked for beyond those wanted at first, and at most, in one search


class Reader(NamedTuple):
    """Who reads, as it says: no lock, it keeps things out of the way. A project that is empty means any."""

    agent: str
    department: str = NOWHERE
    project: str = ""

    @classmethod
    def of(cls, memory: Memory, agent: str = "", department: str = "", project: str = "") -> Reader:
        """The reader that a call names, else the one that the user has configured."""
        return cls(agent or memory.agent or NOBODY, department or NOWHERE, project)

    def may_see(self, record: Record) -> bool:
        """Whether a record is meant for this reader: private ones for the agent that they name."""
        visibility = record.visibility if record.type == OBSERVATION else "public"
        if visibility == "private":
            return bool(record.agent) and fold(self.agent) == fold(record.agent)
        if visibility == "department" and fold(self.department) != fold(record.department or NOWHERE):
            return False
        return visibility == "public" or not self.project or fold(self.project) == fold(record.project)


def search(
    memory: Memory,
    query: str,
    may_see: Callable[[Record], bool],
    wanted: int,
    *,
    passes: Callable[[Hit], bool] = lambda _: True,
    **how: Any,
) -> Results:
    """Find the `wanted` first hits that pass, best first; without a query the newest first.

    What the reader may not see is not spoken of either: an answer without hits says what it would without such records.
    `passes` is what else the index cannot tell, `how` further arguments of the facade's search.
    """
    kept: dict[str, Hit] = {}
    at, size, seen = 0, min(wanted + _SPARE, _MOST), False
    first: Results | None = None
    while True:
        found = memory.search(query, limit=size, offset=at, **how)
        first = first or found
        shown = [hit for hit in found.hits if may_see(hit.record)]
        seen = seen or bool(shown)
        kept |= {hit.id: hit for hit in shown if hit.id not in kept and passes(hit)}
        at += size
        if len(kept) >= wanted or len(found.hits) < size:
            note = first.note
            if first.hits and not kept:
                restricted = any(value is not None for name, value in how.items() if name not in ("mode", "recency"))
                like = nothing_like(bool(query.strip()), restricted=restricted)
                note = "what was found does not pass the filters" if seen else like
            return Results(tuple(kept.values())[:wanted], found.degraded, note)
        size = min(size * 4, _MOST)


def page(found: Results, offset: int, limit: int) -> Results:
    """A part of all that was found up to its end; where it lies past the last hit, the note says so."""
    hits = found.hits[offset : offset + limit]
    if hits or not found.hits:
        return found.replace(hits=hits)
    return found.replace(hits=(), note=passed_over(len(found.hits), offset))


def find(memory: Memory, reference: object, field: str) -> Hit | None:
    """Find a record by number, number as text, or id as the facade takes it; None where there is none."""
    text = str(reference).strip()
    if isinstance(reference, bool) or not text:
        raise BadInput(f"{field} must be the id of a record", field=field)
    if text.isascii() and text.isdigit():
        wanted = int(text[:20])
        ids = memory.keeper.ask(lambda store: [one.id for one in store.index.nodes() if number(one.id) == wanted])
        if isinstance(reference, int) and not ids:
            return None
        text = ids[0] if ids else text
    with suppress(NotFound):
        return memory.get(text)[0]
    return None


@contextmanager
def in_words(**names: str) -> Iterator[None]:
    """Let failures name the caller's arguments where they would name our fields: `in_words(text="context_text")`."""
    try:
        yield
    except BadInput as error:
        ours = error.field.partition("[")[0]
        if ours not in names:
            raise
        raise BadInput(error.message.replace(ours, names[ours], 1), error.hint, names[ours]) from None
