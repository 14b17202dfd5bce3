"""What the tools of other systems ask of a memory.

They ask on behalf of a reader, and with tests that the index cannot make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from filemem.errors import BadInput, NotFound
from filemem.memory.advice import passed_over
from filemem.query import Results
from filemem.record import number
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

_Answer = TypeVar("_Answer")

NOBODY = "legacy"  # an agent that does not say who it is
_SPARE = 10  # hits that the first search asks for beyond those wanted
_MOST = 1_000  # hits of one search


def for_caller(
    work: Callable[[Memory, Any], _Answer], department: str = ""
) -> Callable[[Memory, Any], _Answer]:
    """Let a call see what its caller may, by the agent and department that it names.

    Where it names none, the configured ones are meant.

    Args:
        work: the call.
        department: that of a caller for whom neither states any.
    """

    @wraps(work)
    def call(memory: Memory, arguments: Any) -> _Answer:
        agent = arguments.get("agent") or arguments.get("agent_id") or memory.agent or NOBODY
        stated = arguments.get("department") or memory.reader.department or department
        return work(memory.seen_by(Reader(agent=agent, department=stated)), arguments)

    return call


def search(
    memory: Memory, query: str, wanted: int, passes: Callable[[Hit], bool], **how: Any
) -> Results:
    """Find the `wanted` first hits that pass, best first; without a query the newest first.

    `passes`: a test that the index cannot make; `how`: further arguments of `Memory.search`.
    """
    kept: dict[str, Hit] = {}
    size = min(wanted + _SPARE, _MOST)
    ask = partial(memory.search, query, **how)
    first = results = ask(limit=size)
    at = size
    while True:
        kept |= {hit.id: hit for hit in results if hit.id not in kept and passes(hit)}
        if len(kept) >= wanted or len(results) < size:
            break
        size = min(size * 4, _MOST)
        results = ask(limit=size, offset=at)
        at += size
    lost = bool(first.hits) and not kept
    note = "what was found does not pass the filters" if lost else first.note
    return Results(tuple(kept.values())[:wanted], first.degraded, note, far=first.far)


def page(results: Results, offset: int, limit: int) -> Results:
    """A page of results; if it lies past the last hit, the note says so."""
    hits = results.hits[offset : offset + limit]
    if hits or not results.hits:
        return results.replace(hits=hits)
    return results.replace(hits=(), note=passed_over(offset))


def find(memory: Memory, reference: object, field: str) -> Hit | None:
    """Return the record with a number, or with a name that `Memory.get` takes; None for none."""
    text = str(reference).strip()
    if isinstance(reference, bool) or not text:
        raise BadInput(f"{field} must be the id of a record", field=field)
    if text.isascii() and text.isdigit():
        wanted = int(text[:20])
        ids = memory.keeper.ask(
            lambda store: [node.id for node in store.index.nodes() if number(node.id) == wanted]
        )
        if isinstance(reference, int) and not ids:
            return None
        text = ids[0] if ids else text
    with suppress(NotFound):
        return memory.get(text)[0]
    return None


@contextmanager
def in_words(**names: str) -> Iterator[None]:
    """Make failures name the caller's arguments: `in_words(text="context_text")`."""
    try:
        yield
    except BadInput as error:
        ours = error.field.partition("[")[0]
        if ours not in names:
            raise
        raise BadInput(
            error.message.replace(ours, names[ours], 1), error.hint, names[ours]
        ) from None
