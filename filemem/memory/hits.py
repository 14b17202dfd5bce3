"""What a hit shows: the record, its place in its chain, and its provenance.

Rule: files and the commit table are read only for the hits that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from filemem import query
from filemem.index import CandidateSet, KnownRecord, Node, TermCounts, match_synonyms
from filemem.memory.store import Store, format_nodes
from filemem.query import Filter, Hit, Placement, Provenance, Reader, Snippet, Terms
from filemem.record import DECISION, Edge, Record

INVERSE = {"builds_on": "built_on_by", "debates": "debated_by", "synthesizes": "synthesized_by"}
INVERSE |= {"built_on_by": "builds_on"}  # as "Amended by" says it


def build_hits(
    store: Store, nodes: Iterable[Node], terms: Terms | None = None, *, detail: bool = True
) -> tuple[Hit, ...]:
    """Make hits of records, in the order given."""
    ids = [node.id for node in nodes]
    rows = store.find_by_id(ids)
    places = [Placement(name, None) for name in ids if name in rows]
    hits = build_placed_hits(store, rows, places, terms, detail=detail)
    return tuple(hit._replace(brought_in=False) for hit in hits)  # nothing was searched for


class SearchSource(Protocol):
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
    def barred_ids(self) -> Collection[str]:
        """The ids of the records that the reader may not see."""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """The best `depth` records by words and by meaning; words are worth what `counts` say."""

    def find_by_id(self, ids: Collection[str]) -> Mapping[str, KnownRecord]:
        """Records with what follows for each from all others."""

    def read_records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Records as they are now, by path."""

    def read_provenances(self, paths: Iterable[str], *, detail: bool) -> Mapping[str, Provenance]:
        """Who wrote some of the records that were asked for last, by path."""

    def get_location(self, path: str) -> Mapping[str, Any]:
        """Where a record is, in the fields of a hit."""

    def explain_incompleteness(self) -> str:
        """Why answers lack what is there, or ""."""


def build_placed_hits(
    source: SearchSource,
    rows: Mapping[str, KnownRecord],
    placements: Sequence[Placement],
    terms: Terms | None,
    *,
    detail: bool = True,
) -> tuple[Hit, ...]:
    """Make hits in order; a record whose file no longer exists is left out.

    `rows` are the records that are placed; `detail` adds who wrote them.
    """
    barred_ids = source.barred_ids
    placements = [entry for entry in placements if entry.id not in barred_ids]
    visible_rows = [rows[entry.id] for entry in placements]
    records = source.read_records([row.node.path for row in visible_rows])
    provenances = source.read_provenances(records, detail=detail)
    proposed_nodes = _find_proposed(source, visible_rows)
    hits = []
    for row, entry in zip(visible_rows, placements, strict=True):
        record = records.get(row.node.path)
        if record is None:  # the next look takes it out
            continue
        hit = _build_hit(row, entry, record, source.get_location(row.node.path), barred_ids)
        hit = _add_provenance(hit, provenances.get(row.node.path, Provenance()))
        if row.node.id in proposed_nodes:
            hit = hit._replace(vacancy=format_vacancy(proposed_nodes[row.node.id]))
        hit = hit.strip_store_keys() if hit.repository else hit
        hits.append(_add_match(hit, terms, detail=detail) if terms else hit)
    return tuple(hits)


def _build_hit(
    row: KnownRecord,
    entry: Placement,
    record: Record,
    location: Mapping[str, Any],
    barred_ids: Collection[str],
) -> Hit:
    """A record at its place in an answer, with its place in its chain."""
    facts = row.facts
    superseded_by = exclude_barred(barred_ids, facts.superseded_by)
    if superseded_by and record.superseded_by and record.status == "deprecated":
        record = record._replace(status="accepted")  # it is only marked as superseded
    return Hit(
        **location,
        record=record,
        created=record.created or row.node.created,
        score=entry.chain_score,
        scores=entry.scored.scores if entry.scored else None,
        superseded_by=superseded_by,
        heads=exclude_barred(barred_ids, facts.list_holding(row.node.id)),
        proposed=exclude_barred(barred_ids, facts.proposed),
        earlier=entry.earlier,
        brought_in=entry.scored is None,
        related=_list_edges(row, barred_ids),
    )


def _add_provenance(hit: Hit, provenance: Provenance) -> Hit:
    """A hit with who wrote it, and when if the record does not say."""
    created = hit.created or provenance.date or 0
    if provenance.commit:
        provenance = provenance._replace(agent=hit.record.agent or provenance.agent)
    return hit._replace(created=created, provenance=provenance)


def _add_match(hit: Hit, terms: Terms, *, detail: bool) -> Hit:
    """A hit with what of it meets a query."""
    record = hit.record
    body = _build_body(record)
    about = f"{record.topic} {record.title}"
    alike = terms.alternatives if detail else ()
    text = f"{about}\n{body}\n{' '.join(record.tags)}"
    return hit._replace(
        already_rejected=query.list_named_rejections(terms, record.rejected, about),
        instead=match_synonyms(text, alike) if alike else {},
        snippet=Snippet(*query.build_snippet(body, terms)),
    )


def exclude_barred(barred_ids: Collection[str], ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that are not barred."""
    return tuple(name for name in ids if name not in barred_ids)


def _list_edges(row: KnownRecord, barred_ids: Collection[str]) -> tuple[Edge, ...]:
    """The edges from and to a record, those of others in its own words."""
    own_edges = (Edge(*edge) for edge in row.node.edges)
    other_edges = (Edge(INVERSE.get(kind, kind), *rest) for kind, *rest in row.facts.incoming_edges)
    visible = (edge for edge in (*own_edges, *other_edges) if edge.target not in barred_ids)
    return tuple({edge[:2]: edge for edge in visible}.values())


def _find_proposed(source: SearchSource, rows: Iterable[KnownRecord]) -> dict[str, list[Node]]:
    """Of the decisions for which nothing holds: what is proposed on their topics instead."""
    waiting_ids = {
        row.node.id: exclude_barred((*source.barred_ids, row.node.id), row.facts.topic_proposals)
        for row in rows
        if row.node.type == DECISION and not row.facts.heads
    }
    other_rows = source.find_by_id({name for names in waiting_ids.values() for name in names})
    proposed_nodes: dict[str, list[Node]] = {}
    for id_, names in waiting_ids.items():
        proposed_nodes[id_] = [other_rows[name].node for name in names if name in other_rows]
    return proposed_nodes


def format_vacancy(proposed_nodes: Collection[Node]) -> str:
    """Return a note that nothing holds, and what is proposed."""
    return "nothing holds" + (
        f"; proposed: {format_nodes(proposed_nodes)}" if proposed_nodes else ""
    )


def _build_body(record: Record) -> str:
    """The text of a record without its heading."""
    return _render_body(record.title, record.decision, record.text, record.rejected)


@lru_cache(maxsize=512)  # a server shows the same records again and again
def _render_body(title: str, decision: str, text: str, rejected: tuple[str, ...]) -> str:
    first_part, *other_parts = [part for part in (decision, text) if part and part != title] or [""]
    lead = query.strip_title(title, first_part)
    begin = query.extract_prose(lead)
    if other_parts and lead and not lead.rstrip().endswith((".", "!", "?", ":")):
        begin += "."
    rejection = f"Rejected: {'; '.join(rejected)}" if rejected else ""
    return "\n".join(filter(None, (begin, *map(query.extract_prose, other_parts), rejection)))
