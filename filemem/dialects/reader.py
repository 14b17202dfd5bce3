"""What the tools of other systems ask of a memory.

They ask on behalf of a reader, and with tests that the index cannot make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from filemem.errors import BadInput, NotFound
from filemem.memory.advice import explain_offset
from filemem.query import Results
from filemem.record import compute_number
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

_Answer = TypeVar("_Answer")

UNNAMED_AGENT = "legacy"  # an agent that does not say who it is
_EXTRA_HITS = 10  # hits that the first search asks for beyond those wanted
_MAX_HITS = 1_000  # hits of one search


def restrict_to_caller(
    handler: Callable[[Memory, Any], _Answer], department: str = ""
) -> Callable[[Memory, Any], _Answer]:
    """Let a call see what its caller may, by the agent and department that it names.

    Where it names none, the configured ones are meant.

    Args:
        work: the call.
        department: that of a caller for whom neither states any.
    """

    @wraps(handler)
    def call(memory: Memory, arguments: Any) -> _Answer:
        agent = arguments.get("agent") or arguments.get("agent_id") or memory.agent or UNNAMED_AGENT
        caller_department = arguments.get("department") or memory.reader.department or department
        return handler(memory.seen_by(Reader(agent=agent, department=caller_department)), arguments)

    return call


def search(
    memory: Memory, query: str, limit: int, is_match: Callable[[Hit], bool], **options: Any
) -> Results:
    """Find the `wanted` first hits that pass, best first; without a query the newest first.

    `passes`: a test that the index cannot make; `how`: further arguments of `Memory.search`.
    """
    hits_by_id: dict[str, Hit] = {}
    size = min(limit + _EXTRA_HITS, _MAX_HITS)
    search_page = partial(memory.search, query, **options)
    first_page = results = search_page(limit=size)
    offset = size
    while True:
        hits_by_id |= {hit.id: hit for hit in results if hit.id not in hits_by_id and is_match(hit)}
        if len(hits_by_id) >= limit or len(results) < size:
            break
        size = min(size * 4, _MAX_HITS)
        results = search_page(limit=size, offset=offset)
        offset += size
    is_all_filtered = bool(first_page.hits) and not hits_by_id
    note = "what was found does not pass the filters" if is_all_filtered else first_page.note
    return Results(
        tuple(hits_by_id.values())[:limit], first_page.degraded, note, far=first_page.far
    )


def slice_page(results: Results, offset: int, limit: int) -> Results:
    """A page of results; if it lies past the last hit, the note says so."""
    hits = results.hits[offset : offset + limit]
    if hits or not results.hits:
        return results.replace(hits=hits)
    return results.replace(hits=(), note=explain_offset(offset))


def find_hit(memory: Memory, reference: object, field: str) -> Hit | None:
    """Return the record with a number, or with a name that `Memory.get` takes; None for none."""
    text = str(reference).strip()
    if isinstance(reference, bool) or not text:
        raise BadInput(f"{field} must be the id of a record", field=field)
    if text.isascii() and text.isdigit():
        record_number = int(text[:20])
        ids = memory.keeper.ask(
            lambda store: [
                node.id
                for node in store.index.read_nodes()
                if compute_number(node.id) == record_number
            ]
        )
        if isinstance(reference, int) and not ids:
            return None
        text = ids[0] if ids else text
    with suppress(NotFound):
        return memory.get(text)[0]
    return None


@contextmanager
def translate_fields(**names: str) -> Iterator[None]:
    """Make failures name the caller's arguments: `in_words(text="context_text")`."""
    try:
        yield
    except BadInput as error:
        field = error.field.partition("[")[0]
        if field not in names:
            raise
        raise BadInput(
            error.message.replace(field, names[field], 1), error.hint, names[field]
        ) from None
