"""What the service answers from: it stands for a `Memory` of all that the asker may see.

Rule: each answer is read by the reader of `CURRENT_PRINCIPAL`, and by no other way. What it holds
is quoted; counts and the parts of scores stay here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.index import Row
from filemem.memory import search
from filemem.memory.hits import build_placed_hits
from filemem.memory.workspace import QUOTED_NOTE
from filemem.org import audit
from filemem.org.engine import NOBODY, IndexReader, Principal
from filemem.org.log import log
from filemem.org.postgres import Postgres
from filemem.org.source import Organisation
from filemem.query import Hit, Placement, RecordLabel, Results, strip_store_key
from filemem.record import build_topic_key, iter_readings

CURRENT_PRINCIPAL: ContextVar[Principal] = ContextVar("asking", default=NOBODY)  # who asks
MAX_RECORDS = 100  # records that one name shows


@contextmanager
def translate_database_errors() -> Iterator[None]:
    """Log what is wrong with the database, and raise Locked for the asker in its place."""
    try:
        yield
    except BrokenStore as error:
        log("error", "the database cannot be used", reason=error.one_line)
        raise Locked("the database of this service cannot be used now", "ask again later") from None


class OrgMemory:
    """Stands for a `Memory` of all repositories that `CURRENT_PRINCIPAL` may see.

    `audit_days`: how long it is kept who was shown what; 0 notes nothing.
    """

    personal = None
    workspace = None
    degraded_reason = ""
    is_edited = staticmethod(lambda _: False)  # only what is committed is here

    def __init__(self, engine: Postgres, audit_days: int = 0) -> None:
        self._engine = engine
        self._audit_days = audit_days
        self.close = engine.close

    @contextmanager
    def _open_reader(self) -> Iterator[IndexReader]:
        asker = CURRENT_PRINCIPAL.get()
        with (
            translate_database_errors(),
            self._engine.open_reader(asker.name, asker.groups) as reader,
        ):
            yield reader

    def _note_question(self, verb: str, query: str, hits: Iterable[Hit]) -> None:
        """Note what is shown; what cannot be noted is not shown. Raises Locked."""
        if not self._audit_days:
            return
        name = CURRENT_PRINCIPAL.get().name
        records = [f"{hit.repository} {hit.id}" for hit in hits]
        with translate_database_errors(), self._engine.transaction() as con:
            audit.note_question(con, name, verb, query, records, self._audit_days)

    def search(
        self,
        query: str = "",
        *,
        limit: int = search.HITS,
        offset: int = 0,
        detail: bool = True,
        **options: Any,
    ) -> Results:
        """Find records, by words. Arguments as for `Memory.search`."""
        mode = options.pop("mode", "hybrid")
        with self._open_reader() as reader:
            source = Organisation(reader, self._engine.model)
            criteria = search.parse_filter(options, source.clock())
            results = search.search(
                source, query, criteria, limit=limit, offset=offset, mode=mode, detail=detail
            )
        hits = tuple(hit._replace(scores=None) for hit in results)
        self._note_question("search", query, hits)
        note = results.note
        if hits:
            note = f"{note}; {QUOTED_NOTE}" if note else QUOTED_NOTE
        return results.replace(hits=hits, note=note)

    def get(self, *names: str) -> tuple[Hit, ...]:
        """Find the records with these ids, short ids, titles or file names, or on these topics.

        Those of a repository are together, oldest first; copies are shown once. Raises NotFound.
        """
        with self._open_reader() as reader:
            rows_by_blob: dict[str, Row] = {}
            for name in names:
                for row in _require_named(reader, name):
                    if len(rows_by_blob) < MAX_RECORDS:
                        rows_by_blob.setdefault(row.blob, row)
            rows = {row.raw_node.id: row for row in rows_by_blob.values()}
            source = Organisation(reader, self._engine.model)
            placements = [Placement(address, None) for address in rows]
            hits = build_placed_hits(source, rows, placements, None)
        self._note_question("get", "; ".join(names), hits)
        return tuple(hit._replace(brought_in=False) for hit in hits)

    def find_names(self, ids: Collection[str]) -> dict[str, RecordLabel]:
        """Find title and path of records, by id."""
        labels = {}
        with self._open_reader() as reader:
            for row in reader.read_rows_by_name(ids):
                label = RecordLabel(row.node.title, strip_store_key(row.node.path))
                labels[strip_store_key(row.node.id)] = label
        return labels

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            f"{name} asks one repository",
            "the service of an organisation searches and shows records",
        )


def _require_named(reader: IndexReader, name: str) -> Sequence[Row]:
    """Find the records of a name, or on a topic, by repository and age. Raises NotFound."""
    readings = dict.fromkeys(iter_readings(name))
    rows = reader.read_rows_by_name(list(readings))
    key = build_topic_key(name)
    if not rows and key:
        numbers = [repository.number for repository in reader.list_repositories()]
        rows = reader.read_rows("key", [f"{number} {key}" for number in numbers])
    if not rows:
        message = f"no record {name[:200]!r} in what you may see"
        raise NotFound(message, "search lists what there is")
    visible_rows = [row for row in rows if row.is_visible]
    return sorted(visible_rows, key=_get_sort_key)


def _get_sort_key(row: Row) -> tuple[str, Any]:
    repository, _, _ = row.node.id.partition(" ")
    return repository, row.node.sort_key
