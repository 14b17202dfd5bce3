"""What the service answers from: it stands for a `Memory` of all that the asker may see.

Rule: each answer is read by the reader of the principal in `ASKING`, and by no other way. What it
holds is quoted; counts and the parts of scores stay here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.index import Row
from filemem.memory import search
from filemem.memory.hits import of_places
from filemem.memory.workspace import QUOTED
from filemem.org import audit
from filemem.org.engine import NOBODY, Principal, Reader
from filemem.org.log import log
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Hit, Name, Placed, Results, bare
from filemem.record import readings, topic_key

ASKING: ContextVar[Principal] = ContextVar("asking", default=NOBODY)  # who asks
MOST = 100  # records that one name shows


@contextmanager
def discreet() -> Iterator[None]:
    """Log what is wrong with the database, and raise Locked for the asker in its place."""
    try:
        yield
    except BrokenStore as error:
        log("error", "the database cannot be used", reason=error.one_line)
        raise Locked("the database of this service cannot be used now", "ask again later") from None


class Everything:
    """Stands for a `Memory` of all repositories that `ASKING` may see.

    `audit_days`: how long it is kept who was shown what; 0 notes nothing.
    """

    personal = None
    workspace = None
    lacked = ""
    edited = staticmethod(lambda _: False)  # only what is committed is here

    def __init__(self, engine: Postgres, audit_days: int = 0) -> None:
        self._engine = engine
        self._audit_days = audit_days
        self.close = engine.close

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        asker = ASKING.get()
        with discreet(), self._engine.reading(asker.name, asker.groups) as reader:
            yield reader

    def _note(self, verb: str, query: str, hits: Iterable[Hit]) -> None:
        """Note what is shown; what cannot be noted is not shown. Raises Locked."""
        if self._audit_days:
            records = [f"{hit.repository} {hit.id}" for hit in hits]
            with discreet(), self._engine.transaction() as con:
                audit.note(con, ASKING.get().name, verb, query, records, self._audit_days)

    def search(
        self,
        query: str = "",
        *,
        limit: int = search.HITS,
        offset: int = 0,
        detail: bool = True,
        **how: Any,
    ) -> Results:
        """Find records, by words. Arguments as for `Memory.search`."""
        mode = how.pop("mode", "hybrid")
        with self._reading() as reader:
            source = Organisation(reader, self._engine.model)
            wanted = search.filter_of(how, source.clock())
            results = search.search(
                source, query, wanted, limit=limit, offset=offset, mode=mode, detail=detail
            )
        hits = tuple(hit._replace(scores=None) for hit in results)
        self._note("search", query, hits)
        notes = (results.note, QUOTED if hits else "")
        return results.replace(hits=hits, note="; ".join(filter(None, notes)))

    def get(self, *names: str) -> tuple[Hit, ...]:
        """The records with these ids, short ids, titles or file names, or on these topics.

        Those of a repository are together, oldest first; of mirrors one is taken. Raises NotFound.
        """
        with self._reading() as reader:
            once = dict[str, Row]()
            for name in names:
                for row in _named(reader, name):
                    if len(once) < MOST:
                        once.setdefault(row.blob, row)
            rows = {row.written.id: row for row in once.values()}
            source = Organisation(reader, self._engine.model)
            hits = of_places(source, rows, [Placed(address, None) for address in rows], None)
        self._note("get", "; ".join(names), hits)
        return tuple(hit._replace(brought_in=False) for hit in hits)

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records, by id."""
        with self._reading() as reader:
            nodes = [row.node for row in reader.named(ids)]
        return {bare(node.id): Name(node.title, bare(node.path)) for node in nodes}

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            f"{name} asks one repository",
            "the service of an organisation searches and shows records",
        )


def _named(reader: Reader, name: str) -> Sequence[Row]:
    """The records of a name, or on a topic, by repository and age. Raises NotFound."""
    rows = reader.named(list(dict.fromkeys(readings(name))))
    key = topic_key(name)
    if not rows and key:
        numbers = [repository.number for repository in reader.repositories()]
        rows = reader.rows("key", [f"{number} {key}" for number in numbers])
    if not rows:
        message = f"no record {name[:200]!r} in what you may see"
        raise NotFound(message, "search lists what there is")
    visible = [row for row in rows if row.visible]
    return sorted(visible, key=lambda row: (row.node.id.partition(" ")[0], row.node.age))
