"""Who reads, and which records they may see: the tools of other systems search on behalf of a reader."""

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
    """Who reads, as the caller states it: a courtesy, not access control. An empty project means any."""

    agent: str
    department: str = NOWHERE
    project: str = ""

    @classmethod
    def of(cls, memory: Memory, agent: str = "", department: str = "", project: str = "") -> Reader:
        """The reader that a call names, else the configured one."""
        return cls(agent or memory.agent or NOBODY, department or NOWHERE, project)

    def may_see(self, record: Record) -> bool:
        """Whether this reader may see a record: a private one only if it names this agent."""
        visibility = record.visibility if record.type == OBSERVATION else "public"
        if visibility == "private":
            return bool(record.agent) and fold(self.agent) == fold(record.agent)
        if visibility == "department" and fold(self.department) != fold(
            record.department or NOWHERE
        ):
            return False
        return (
            visibility == "public" or not self.project or fold(self.project) == fold(record.project)
        )


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

    Hidden records are not mentioned either: an answer without hits reads as if they did not exist. `passes`: a test
    that the index cannot make; `how`: further arguments of `Memory.search`.
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
                restricted = any(
                    value is not None
                    for name, value in how.items()
                    if name not in ("mode", "recency")
                )
                like = nothing_like(bool(query.strip()), restricted=restricted)
                note = "what was found does not pass the filters" if seen else like
            return Results(tuple(kept.values())[:wanted], found.degraded, note)
        size = min(size * 4, _MOST)


def page(found: Results, offset: int, limit: int) -> Results:
    """A page of what was found; if it lies past the last hit, the note says so."""
    hits = found.hits[offset : offset + limit]
    if hits or not found.hits:
        return found.replace(hits=hits)
    return found.replace(hits=(), note=passed_over(offset))


def find(memory: Memory, reference: object, field: str) -> Hit | None:
    """Find a record by number, number as text, or any name that `Memory.get` takes; None if there is none."""
    text = str(reference).strip()
    if isinstance(reference, bool) or not text:
        raise BadInput(f"{field} must be the id of a record", field=field)
    if text.isascii() and text.isdigit():
        wanted = int(text[:20])
        ids = memory.keeper.ask(
            lambda store: [one.id for one in store.index.nodes() if number(one.id) == wanted]
        )
        if isinstance(reference, int) and not ids:
            return None
        text = ids[0] if ids else text
    with suppress(NotFound):
        return memory.get(text)[0]
    return None


@contextmanager
def in_words(**names: str) -> Iterator[None]:
    """Make failures name the caller's arguments instead of our fields: `in_words(text="context_text")`."""
    try:
        yield
    except BadInput as error:
        ours = error.field.partition("[")[0]
        if ours not in names:
            raise
        raise BadInput(
            error.message.replace(ours, names[ours], 1), error.hint, names[ours]
        ) from None
