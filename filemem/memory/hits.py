"""What a hit shows: the record, its place in its chain, and its provenance.

Rule: files and the commit table are read only for the hits that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from filemem import query
from filemem.index import Counts, Found, Known, Node, said_in
from filemem.memory.store import Store, listed
from filemem.query import Filter, Hit, Placed, Provenance, Reader, Snippet, Terms
from filemem.record import DECISION, Edge, Record

INVERSE = {"builds_on": "built_on_by", "debates": "debated_by", "synthesizes": "synthesized_by"}
INVERSE |= {"built_on_by": "builds_on"}  # as "Amended by" says it


def present(
    store: Store, nodes: Iterable[Node], terms: Terms | None = None, *, detail: bool = True
) -> tuple[Hit, ...]:
    """Make hits of records, in the order given."""
    ids = [node.id for node in nodes]
    rows = store.by_id(ids)
    places = [Placed(name, None) for name in ids if name in rows]
    hits = of_places(store, rows, places, terms, detail=detail)
    return tuple(hit._replace(brought_in=False) for hit in hits)  # nothing was searched for


class Place(Protocol):
    """What is searched: a store, several as one, or an organisation's index.

    Ids and paths are its own.
    """

    @property
    def clock(self) -> Callable[[], int]:
        """The time in epoch milliseconds."""

    @property
    def synonyms(self) -> str:
        """The list of synonyms of its own, as a text."""

    @property
    def reader(self) -> Reader:
        """Who asks."""

    @property
    def barred(self) -> Collection[str]:
        """The ids of the records that the reader may not see."""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """The best `depth` records by words and by meaning; words are worth what `counts` say."""

    def by_id(self, ids: Collection[str]) -> Mapping[str, Known]:
        """Records with what follows for each from all others."""

    def records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Records as they are now, by path."""

    def provenances(self, paths: Iterable[str], *, detail: bool) -> Mapping[str, Provenance]:
        """Who wrote some of the records that were asked for last, by path."""

    def home(self, path: str) -> Mapping[str, Any]:
        """Where a record is, in the fields of a hit."""

    def incomplete(self) -> str:
        """Why answers lack what is there, or ""."""


def of_places(
    place: Place,
    rows: Mapping[str, Known],
    placed: Sequence[Placed],
    terms: Terms | None,
    *,
    detail: bool = True,
) -> tuple[Hit, ...]:
    """Make hits in order; a record whose file no longer exists is left out.

    `rows` are the records that are placed; `detail` adds who wrote them.
    """
    barred = place.barred
    placed = [entry for entry in placed if entry.id not in barred]
    visible = [rows[entry.id] for entry in placed]
    records = place.records([row.node.path for row in visible])
    provenances = place.provenances(records, detail=detail)
    proposed = _proposed(place, visible)
    hits = []
    for row, entry in zip(visible, placed, strict=True):
        record = records.get(row.node.path)
        if record is None:  # the next look takes it out
            continue
        hit = _hit(row, entry, record, place.home(row.node.path), barred)
        hit = _written(hit, provenances.get(row.node.path, Provenance()))
        if row.node.id in proposed:
            hit = hit._replace(vacancy=vacancy(proposed[row.node.id]))
        hit = hit.without_keys() if hit.repository else hit
        hits.append(_matched(hit, terms, detail=detail) if terms else hit)
    return tuple(hits)


def _hit(
    row: Known, entry: Placed, record: Record, home: Mapping[str, Any], barred: Collection[str]
) -> Hit:
    """A record at its place in an answer, with its place in its chain."""
    facts = row.facts
    superseded_by = without(barred, facts.superseded_by)
    if superseded_by and record.superseded_by and record.status == "deprecated":
        record = record._replace(status="accepted")  # it is only marked as superseded
    return Hit(
        **home,
        record=record,
        created=record.created or row.node.created,
        score=entry.worth,
        scores=entry.scored.scores if entry.scored else None,
        superseded_by=superseded_by,
        heads=without(barred, facts.holds_for(row.node.id)),
        proposed=without(barred, facts.proposed),
        earlier=entry.earlier,
        brought_in=entry.scored is None,
        related=_related(row, barred),
    )


def _written(hit: Hit, provenance: Provenance) -> Hit:
    """A hit with who wrote it, and when if the record does not say."""
    created = hit.created or provenance.date or 0
    if provenance.commit:
        provenance = provenance._replace(agent=hit.record.agent or provenance.agent)
    return hit._replace(created=created, provenance=provenance)


def _matched(hit: Hit, terms: Terms, *, detail: bool) -> Hit:
    """A hit with what of it meets a query."""
    record = hit.record
    body = _body(record)
    about = f"{record.topic} {record.title}"
    alike = terms.alike if detail else ()
    text = f"{about}\n{body}\n{' '.join(record.tags)}"
    return hit._replace(
        already_rejected=query.rejected_before(terms, record.rejected, about),
        instead=said_in(text, alike) if alike else {},
        snippet=Snippet(*query.snippet(body, terms)),
    )


def without(barred: Collection[str], ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that are not barred."""
    return tuple(name for name in ids if name not in barred)


def _related(row: Known, barred: Collection[str]) -> tuple[Edge, ...]:
    """The edges from and to a record, those of others in its own words."""
    own = (Edge(*edge) for edge in row.node.edges)
    others = (Edge(INVERSE.get(kind, kind), *rest) for kind, *rest in row.facts.pointing)
    visible = (edge for edge in (*own, *others) if edge.target not in barred)
    return tuple({edge[:2]: edge for edge in visible}.values())


def _proposed(place: Place, rows: Iterable[Known]) -> dict[str, list[Node]]:
    """Of the decisions for which nothing holds: what is proposed on their topics instead."""
    waiting = {
        row.node.id: without((*place.barred, row.node.id), row.facts.waiting)
        for row in rows
        if row.node.type == DECISION and not row.facts.heads
    }
    others = place.by_id({name for names in waiting.values() for name in names})
    proposed: dict[str, list[Node]] = {}
    for id_, names in waiting.items():
        proposed[id_] = [others[name].node for name in names if name in others]
    return proposed


def vacancy(proposed: Collection[Node]) -> str:
    """Return a note that nothing holds, and what is proposed."""
    return "nothing holds" + (f"; proposed: {listed(proposed)}" if proposed else "")


def _body(record: Record) -> str:
    """The text of a record without its heading."""
    return _quoted(record.title, record.decision, record.text, record.rejected)


@lru_cache(maxsize=512)  # a server shows the same records again and again
def _quoted(title: str, decision: str, text: str, rejected: tuple[str, ...]) -> str:
    whole, *more = [part for part in (decision, text) if part and part != title] or [""]
    first = query.beyond(title, whole)
    begin = query.prose(first)
    if more and first and not first.rstrip().endswith((".", "!", "?", ":")):
        begin += "."
    refused = f"Rejected: {'; '.join(rejected)}" if rejected else ""
    return "\n".join(filter(None, (begin, *map(query.prose, more), refused)))
