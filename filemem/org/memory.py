"""What the service answers from: it stands for a `Memory` of all repositories that whoever asks may see.

Rule: each answer is read by the reader of the principal in `ASKING`, and by no other way. What is found is quoted;
counts and the parts of scores stay here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.index import Row
from filemem.memory import search
from filemem.memory.hits import of_places
from filemem.memory.workspace import QUOTED
from filemem.org.log import log
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Hit, Name, Placed, Results, bare
from filemem.record import readings, topic_key

ASKING: ContextVar[str] = ContextVar(
    "asking", default=""
)  # the principal of a request; "" sees nothing
MOST = 100  # records that one name shows


@contextmanager
def discreet() -> Iterator[None]:
    """Say what is wrong with the database to who runs the service, not to who asks. Raises Locked in its place."""
    try:
        yield
    except BrokenStore as error:
        log("error", "the database cannot be used", reason=error.told)
        raise Locked("the database of this service cannot be used now", "ask again later") from None


class Everything:
    """Stands for a `Memory` of all repositories that `ASKING` may see, each time by a reader of that principal."""

    personal = workspace = None
    lacked = ""
    edited = staticmethod(lambda _: False)  # only what is committed is here

    def __init__(self, engine: Postgres) -> None:
        self._engine, self.close = engine, engine.close

    def search(
        self, query: str = "", *, limit: int = 10, offset: int = 0, detail: bool = True, **how: Any
    ) -> Results:
        """Find records, by words. Arguments as for `Memory.search`."""
        mode = how.pop("mode", "hybrid")
        with discreet(), self._engine.reading(ASKING.get()) as reader:
            source = Organisation(reader, self._engine.model)
            given = search.filter_of(how, source.clock())
            found = search.search(
                source, query, given, limit=limit, offset=offset, mode=mode, detail=detail
            )
        hits = tuple(hit._replace(scores=None) for hit in found)
        return found.replace(
            hits=hits, note="; ".join(filter(None, (found.note, QUOTED if hits else "")))
        )

    def get(self, *names: str) -> tuple[Hit, ...]:
        """The records with these ids, short ids, titles or file names, or on these topics, in every repository.

        Those of a repository are together, oldest first; of mirrors one is taken. Raises NotFound.
        """
        with discreet(), self._engine.reading(ASKING.get()) as reader:
            once: dict[str, Row] = {}
            for name in names:
                rows = reader.named([*dict.fromkeys(readings(name))])
                if not rows and (key := topic_key(name)):
                    rows = reader.rows(
                        "key", [f"{one.number} {key}" for one in reader.repositories()]
                    )
                if not rows:
                    raise NotFound(
                        f"no record {name[:200]!r} in what you may see",
                        "search lists what there is",
                    )
                for row in sorted(
                    rows, key=lambda row: (row.node.id.partition(" ")[0], row.node.age)
                ):
                    if row.visible and len(once) < MOST:
                        once.setdefault(row.blob, row)
            known = {row.written.id: row for row in once.values()}
            source = Organisation(reader, self._engine.model)
            hits = of_places(source, known, [Placed(name, None) for name in known], None)
        return tuple(hit._replace(brought_in=False) for hit in hits)

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records, by id."""
        with discreet(), self._engine.reading(ASKING.get()) as reader:
            return {
                bare(row.node.id): Name(row.node.title, bare(row.node.path))
                for row in reader.named(ids)
            }

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            f"{name} asks one repository",
            "the service of an organisation searches and shows records",
        )
