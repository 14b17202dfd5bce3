"""Build search hits: the record, its place in its chain, and its provenance.

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
INVERSE["built_on_by"] = "builds_on"  # a record may state this edge itself, as "Amended by"


def build_hits(
    store: Store, nodes: Iterable[Node], terms: Terms | None = None, *, detail: bool = True
) -> tuple[Hit, ...]:
    """Build hits for records that were listed, not searched, in the order given."""
    ids = [node.id for node in nodes]
    rows = store.find_by_id(ids)
    placements = [Placement(id=record_id, scored=None) for record_id in ids if record_id in rows]
    hits = build_placed_hits(store, rows, placements, terms, detail=detail)
    # No search ran, so no hit was brought in by another one.
    return tuple(hit._replace(brought_in=False) for hit in hits)


class SearchSource(Protocol):
    """A store, several stores or the index of an organisation, as search reads it.

    Ids and paths are valid only within the source.
    """

    @property
    def clock(self) -> Callable[[], int]:
        """The time in epoch milliseconds."""

    @property
    def synonyms(self) -> str:
        """The text of the source's list of synonyms."""

    @property
    def reader(self) -> Reader:
        """The person who searches."""

    @property
    def barred_ids(self) -> Collection[str]:
        """The ids of the records that the reader may not see."""

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """Find the best `depth` records by words and by meaning; `counts` weigh the words."""

    def find_by_id(self, ids: Collection[str]) -> Mapping[str, KnownRecord]:
        """Return the known records with these ids."""

    def read_records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Read records from their files, by path; a missing file has no entry."""

    def read_provenances(self, paths: Iterable[str], *, detail: bool) -> Mapping[str, Provenance]:
        """Return who wrote records of the last `read_records`, by path."""

    def get_location(self, path: str) -> Mapping[str, Any]:
        """Return the fields of a hit that say where the record is."""

    def explain_incompleteness(self) -> str:
        """Return why answers may be incomplete, or ""."""


def build_placed_hits(
    source: SearchSource,
    rows: Mapping[str, KnownRecord],
    placements: Sequence[Placement],
    terms: Terms | None,
    *,
    detail: bool = True,
) -> tuple[Hit, ...]:
    """Build the hits at these placements, in order.

    Barred records and records without a file are left out.

    Args:
        rows: The known records by id, at least those placed.
        terms: The query; None if nothing was searched for.
        detail: Whether hits show who wrote them and which synonyms matched.
    """
    barred_ids = source.barred_ids
    visible = [placement for placement in placements if placement.id not in barred_ids]
    visible_rows = [rows[placement.id] for placement in visible]
    records = source.read_records([row.node.path for row in visible_rows])
    provenances = source.read_provenances(records, detail=detail)
    proposed_nodes = _find_proposed(source, visible_rows, barred_ids)
    hits = []
    for placement in visible:
        row = rows[placement.id]
        path = row.node.path
        record = records.get(path)
        if record is None:  # the file was deleted; the next update of the index removes the row
            continue
        hit = _build_hit(row, placement, record, source.get_location(path), barred_ids)
        hit = _add_provenance(hit, provenances.get(path, Provenance()))
        if placement.id in proposed_nodes:
            hit = hit._replace(vacancy=format_vacancy(proposed_nodes[placement.id]))
        if hit.repository:
            hit = hit.strip_store_keys()
        if terms:
            hit = _add_match(hit, terms, detail=detail)
        hits.append(hit)
    return tuple(hits)


def _build_hit(
    row: KnownRecord,
    placement: Placement,
    record: Record,
    location: Mapping[str, Any],
    barred_ids: Collection[str],
) -> Hit:
    """Build the hit of a record from its placement in an answer and its facts."""
    facts = row.facts
    superseded_by = exclude_barred(barred_ids, facts.superseded_by)
    if superseded_by and record.superseded_by and record.status == "deprecated":
        # "deprecated" here only repeats that the record was superseded.
        record = record._replace(status="accepted")
    scores = None
    if placement.scored:
        scores = placement.scored.scores
    heads = facts.list_holding(row.node.id)
    return Hit(
        **location,
        record=record,
        created=record.created or row.node.created,
        score=placement.chain_score,
        scores=scores,
        superseded_by=superseded_by,
        heads=exclude_barred(barred_ids, heads),
        proposed=exclude_barred(barred_ids, facts.proposed),
        earlier=placement.earlier,
        brought_in=placement.scored is None,
        related=_list_edges(row, barred_ids),
    )


def _add_provenance(hit: Hit, provenance: Provenance) -> Hit:
    """Return the hit with its provenance, and with the commit's date if it has no date."""
    created = hit.created or provenance.date or 0
    if provenance.commit:
        agent = hit.record.agent or provenance.agent
        provenance = provenance._replace(agent=agent)
    return hit._replace(created=created, provenance=provenance)


def _add_match(hit: Hit, terms: Terms, *, detail: bool) -> Hit:
    """Return the hit with the parts that match a query.

    `detail` adds the synonyms that matched instead of a word.
    """
    record = hit.record
    body = _build_body(record)
    heading = f"{record.topic} {record.title}"
    synonyms: Mapping[str, tuple[str, ...]] = {}
    if detail and terms.alternatives:
        tags = " ".join(record.tags)
        synonyms = match_synonyms(f"{heading}\n{body}\n{tags}", terms.alternatives)
    snippet, ranges = query.build_snippet(body, terms)
    rejections = query.list_named_rejections(terms, record.rejected, heading)
    return hit._replace(
        already_rejected=rejections,
        instead=synonyms,
        snippet=Snippet(snippet, ranges),
    )


def exclude_barred(barred_ids: Collection[str], ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that are not barred, in order."""
    return tuple(record_id for record_id in ids if record_id not in barred_ids)


def _list_edges(row: KnownRecord, barred_ids: Collection[str]) -> tuple[Edge, ...]:
    """List the edges from and to a record, each as seen from this record."""
    edges = [Edge(*edge) for edge in row.node.edges]
    for edge in row.facts.incoming_edges:
        kind = INVERSE.get(edge.kind, edge.kind)
        edges.append(edge._replace(kind=kind))
    by_target: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        if edge.target not in barred_ids:
            by_target[edge.kind, edge.target] = edge
    return tuple(by_target.values())


def _find_proposed(
    source: SearchSource, rows: Iterable[KnownRecord], barred_ids: Collection[str]
) -> dict[str, list[Node]]:
    """Find proposals on the topics of decisions without a live decision, by the decision's id."""
    proposed_ids: dict[str, tuple[str, ...]] = {}
    for row in rows:
        node = row.node
        if node.type == DECISION and not row.facts.heads:
            other_ids = [other for other in row.facts.topic_proposals if other != node.id]
            proposed_ids[node.id] = exclude_barred(barred_ids, other_ids)
    wanted_ids: set[str] = set()
    for ids in proposed_ids.values():
        wanted_ids.update(ids)
    proposed_rows = source.find_by_id(wanted_ids)
    proposed_nodes: dict[str, list[Node]] = {}
    for decision_id, ids in proposed_ids.items():
        nodes = [proposed_rows[other].node for other in ids if other in proposed_rows]
        proposed_nodes[decision_id] = nodes
    return proposed_nodes


def format_vacancy(proposed_nodes: Collection[Node]) -> str:
    """Format the note for a decision without a live decision: what is proposed instead."""
    if not proposed_nodes:
        return "nothing holds"
    proposals = format_nodes(proposed_nodes)
    return f"nothing holds; proposed: {proposals}"


def _build_body(record: Record) -> str:
    """Render the text of a record without its heading."""
    return _render_body(record.title, record.decision, record.text, record.rejected)


@lru_cache(maxsize=512)  # a server shows the same records again and again
def _render_body(title: str, decision: str, text: str, rejected: tuple[str, ...]) -> str:
    parts = [part for part in (decision, text) if part and part != title]
    lines = []
    for position, part in enumerate(parts):
        if position > 0:
            lines.append(query.extract_prose(part))
            continue
        lead = query.strip_title(title, part)
        first_line = query.extract_prose(lead)
        if len(parts) > 1 and _needs_period(lead):
            first_line += "."
        lines.append(first_line)
    if rejected:
        alternatives = "; ".join(rejected)
        lines.append(f"Rejected: {alternatives}")
    return "\n".join(line for line in lines if line)


def _needs_period(text: str) -> bool:
    return text != "" and not text.rstrip().endswith((".", "!", "?", ":"))
