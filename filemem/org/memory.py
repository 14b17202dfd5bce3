"""What the service answers from: it stands for a `Memory` of all repositories that whoever asks may see.

Rule: each answer is read as the principal in `ASKING`, from one state, and by no other way. What is found is quoted;
counts and the parts of scores stay here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import Any

from filemem.errors import BadInput, NotFound
from filemem.index import Row
from filemem.memory import search
from filemem.memory.workspace import QUOTED
from filemem.org.engine import Reader
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation, bare
from filemem.query import Hit, Name, Placed, Results
from filemem.record import readings, topic_key

ASKING: ContextVar[str] = ContextVar("asking", default="")  # the principal of a request; "" sees nothing
MOST = 100  # records that one name may bring


class Everything:
    """Answers searches, and shows records and topics; of a `Memory` no more is there."""

    personal = workspace = None
    lacked = ""

    def __init__(self, engine: Postgres) -> None:
        self._engine, self.close = engine, engine.close

    def search(self, query: str = "", *, limit: int = 10, offset: int = 0, detail: bool = True, **how: Any) -> Results:
        """Find records, by words. Arguments as for `Memory.search`."""
        mode = how.pop("mode", "hybrid")
        with self._engine.reading(ASKING.get()) as reader:
            source = Organisation(reader, self._engine.model)
            given = search.filter_of(how, source.store.clock())
            found = search.search(source, query, given, limit=limit, offset=offset, mode=mode, detail=detail)
        hits = tuple(hit._replace(scores=None) for hit in found)
        return found.replace(hits=hits, note="; ".join(filter(None, (found.note, QUOTED if hits else ""))))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """The records with these ids, short ids, titles or file names, in every repository. Raises NotFound."""
        with self._engine.reading(ASKING.get()) as reader:
            found = {one: reader.named([*dict.fromkeys(readings(one))]) for one in ids}
            if lacking := [one for one, rows in found.items() if not rows]:
                raise NotFound(f"no record {lacking[0][:200]!r} in what you may see", "search lists what there is")
            return self._hits(reader, (row for rows in found.values() for row in rows))

    def topic(self, name: str) -> tuple[Hit, ...]:
        """The decisions on a topic, those of a repository together, oldest first; none where nobody decided it."""
        with self._engine.reading(ASKING.get()) as reader:
            rows = reader.rows("key", [f"{one.number} {topic_key(name)}" for one in reader.repositories()])
            return self._hits(reader, sorted(rows, key=lambda row: (row.node.id.partition(" ")[0], row.node.age)))

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records, by id."""
        with self._engine.reading(ASKING.get()) as reader:
            return {bare(row.node.id): Name(row.node.title, bare(row.node.path)) for row in reader.named(ids)}

    def edited(self, _: Hit) -> bool:
        """Whether a file has changes that are not committed: the index has only what is."""
        return False

    def __getattr__(self, name: str) -> Any:
        raise BadInput(f"{name} asks one repository", "the service of an organisation searches and shows records")

    def _hits(self, reader: Reader, rows: Iterable[Row]) -> tuple[Hit, ...]:
        nodes = {row.node.id: row.node for row in rows if row.shown}
        if len(nodes) > MOST:
            raise BadInput(f"{len(nodes)} records answer to this", "name one by its id", field="id")
        source = Organisation(reader, self._engine.model)
        around = source.store.index.around(nodes.values())
        around = around._replace(nodes=nodes | dict(around.nodes))
        hits = source.show([Placed(one, None) for one in nodes], around, None, detail=True)
        return tuple(hit._replace(brought_in=False) for hit in hits)
