"""Search a memory for the tools of other systems.

They search on behalf of a reader, and filter hits by tests that the index cannot make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
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

UNNAMED_AGENT = "legacy"  # the name of an agent that gives none
_EXTRA_HITS = 10  # how many more hits than wanted the first page has
_MAX_HITS = 1_000  # hits of one search


def restrict_to_caller(
    handler: Callable[[Memory, Any], _Answer], department: str = ""
) -> Callable[[Memory, Any], _Answer]:
    """Make a call see only what its caller may see.

    The caller is the agent and department that the arguments name, or the configured ones.

    Args:
        handler: the function of a tool.
        department: of a caller for whom neither names one.
    """

    @wraps(handler)
    def call(memory: Memory, arguments: Any) -> _Answer:
        agent = arguments.get("agent") or arguments.get("agent_id") or memory.agent
        caller = Reader(
            agent=agent or UNNAMED_AGENT,
            department=arguments.get("department") or memory.reader.department or department,
        )
        return handler(memory.seen_by(caller), arguments)

    return call


def search(
    memory: Memory, query: str, limit: int, is_match: Callable[[Hit], bool], **options: Any
) -> Results:
    """Return the first hits that pass a test, best first; without a query the newest first.

    Args:
        memory: to search.
        query: may be empty.
        limit: how many hits at most.
        is_match: a test that the index cannot make.
        options: further arguments of `Memory.search`.
    """
    hits_by_id: dict[str, Hit] = {}
    size = min(limit + _EXTRA_HITS, _MAX_HITS)
    first_page = memory.search(query, limit=size, **options)
    page = first_page
    offset = 0
    while True:
        for hit in page:
            if hit.id not in hits_by_id and is_match(hit):
                hits_by_id[hit.id] = hit
        if len(hits_by_id) >= limit or len(page) < size:
            break
        offset += size
        size = min(size * 4, _MAX_HITS)
        page = memory.search(query, limit=size, offset=offset, **options)
    note = first_page.note
    if first_page.hits and not hits_by_id:
        note = "what was found does not pass the filters"
    hits = tuple(hits_by_id.values())[:limit]
    return Results(hits, first_page.degraded, note, far=first_page.far)


def drop_empty(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that have a value; programs send empty ones for absent ones."""
    return {name: value for name, value in arguments.items() if value not in ("", None, [])}


def slice_page(results: Results, offset: int, limit: int) -> Results:
    """Return a page of results; the note says if it lies behind the last hit."""
    hits = results.hits[offset : offset + limit]
    if hits or not results.hits:
        return results.replace(hits=hits)
    return results.replace(hits=(), note=explain_offset(offset))


def find_hit(memory: Memory, reference: object, field: str) -> Hit | None:
    """Return the record with a number or a name that `Memory.get` takes; None if there is none."""
    name = str(reference).strip()
    if isinstance(reference, bool) or not name:
        raise BadInput(f"{field} must be the id of a record", field=field)
    if name.isascii() and name.isdigit():
        id_ = _find_id(memory, int(name[:20]))
        if id_ is None and isinstance(reference, int):
            return None
        name = id_ or name
    with suppress(NotFound):
        return memory.get(name)[0]
    return None


def _find_id(memory: Memory, number: int) -> str | None:
    """Return the id of the record with a number; None if there is none."""
    for node in memory.keeper.ask(lambda store: store.index.read_nodes()):
        if compute_number(node.id) == number:
            return node.id
    return None


@contextmanager
def translate_fields(**names: str) -> Iterator[None]:
    """Make failures name the caller's arguments: `translate_fields(text="context_text")`."""
    try:
        yield
    except BadInput as error:
        field = error.field.partition("[")[0]
        if field not in names:
            raise
        message = error.message.replace(field, names[field], 1)
        raise BadInput(message, error.hint, names[field]) from None
