"""What a hit shows: the record as its file is now, its place among other decisions, and who says so.

The file is read when it is shown; the index only says where to look. Provenance comes from Git.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from filemem import query
from filemem.chain import Graph
from filemem.documents import Node
from filemem.memory import graph, identities
from filemem.memory.standing import Standing
from filemem.memory.store import Store
from filemem.query import Hit, Placed, Provenance, Scored, Snippet, Terms
from filemem.record import CONFLICT, DECISION, Edge, Record, prose

INVERSE = {"builds_on": "built_on_by", "debates": "debated_by", "synthesizes": "synthesized_by"}


def present(store: Store, nodes: Iterable[Node], terms: Terms | None = None) -> tuple[Hit, ...]:
    """Make hits of nodes in the order given, with their place in their chains."""
    listed = list(nodes)
    resolved, around, pointing = graph.neighbourhood(store, listed)
    places = [
        Placed(
            id=node.id,
            scored=None,
            superseded_by=resolved.superseded_by(node.id),
            proposed=resolved.proposed_for(node.id),
            heads=query.contested(resolved, node.id) or resolved.heads_of(node.id),
            chain=query.summary(resolved, node.key) if node.key else "",
        )
        for node in listed
    ]
    return of_places(
        store, resolved, around | {node.id: node for node in listed}, places, pointing, terms, listing=True
    )


def of_places(
    store: Store,
    resolved: Graph,
    nodes: Mapping[str, Node],
    places: Sequence[Placed],
    pointing: Iterable[Node],
    terms: Terms | None,
    *,
    listing: bool = False,
) -> tuple[Hit, ...]:
    """Make hits of places in known order; a record whose file is gone is left out.

    Args:
        store: the parts.
        resolved: the chains that the places are of.
        nodes: the records in them, by id.
        places: what is shown.
        pointing: records with edges to some of these.
        terms: the query, if there was one.
        listing: nothing was searched for, so nothing is said to be brought in.
    """
    listed = [nodes[place.id] for place in places]
    branch = store.branch if any(node.birth.commit for node in listed) else ""
    standing = store.standing(listed)
    store.read_ahead([node.path for node in listed])
    claimed = identities.unsettled(store, listed)
    incoming = _incoming(pointing, {node.id for node in listed})
    hits = []
    for node, place in zip(listed, places, strict=True):
        found = store.read(node.path, node.birth.name)
        if found.record is None:  # the next look takes it out
            continue
        record = found.record._replace(id=node.id)
        scored: Scored | None = place.scored
        fragment, ranges = query.snippet(_body(record), terms) if terms else ("", ())
        hits.append(
            Hit(
                record=record,
                path=store.shown(node.path),
                created=node.created,
                score=place.worth,
                scores=scored.scores if scored else None,
                superseded_by=place.superseded_by,
                heads=place.heads,
                contest=graph.contest([nodes[head] for head in place.heads], node.key),
                vacancy=_vacancy(resolved, nodes, node, place),
                claimed=claimed.get(node.path, ""),
                proposed=place.proposed,
                chain=place.chain,
                more=place.more,
                brought_in=scored is None and not listing,
                related=(*_outgoing(node), *incoming.get(node.id, ())),
                already_rejected=_already_rejected(record, terms),
                provenance=_provenance(node, branch, standing.get(node.path)),
                snippet=Snippet(fragment, ranges),
                conflict=next((one.line for one in found.problems if one.code == CONFLICT), 0),
            )
        )
    return tuple(hits)


def _already_rejected(record: Record, terms: Terms | None) -> tuple[str, ...]:
    """What the query asks about and a decision turned down."""
    if not terms or not record.rejected:
        return ()
    return query.rejected_before(terms, record.rejected, f"{record.topic} {record.title}")


def _vacancy(resolved: Graph, nodes: Mapping[str, Node], node: Node, place: Placed) -> str:
    """That nothing holds for a decision or what it belongs to, and why; what the hit says of it itself is left out."""
    if node.type != DECISION or place.heads or node.id not in resolved.nodes:
        return ""
    return graph.vacancy(resolved, nodes, graph.family(resolved, node), (node.id, *place.proposed))


def _body(record: Record) -> str:
    """What a record says beyond its heading, which is shown beside it."""
    rejected = f"Rejected: {'; '.join(record.rejected)}" if record.rejected else ""
    said = [part for part in (record.decision, record.text) if part and part != record.title]
    first = query.beyond(record.title, said[0]) if said else ""
    ended = "" if not said[1:] or first.rstrip().endswith((".", "!", "?", ":")) or not first else "."
    return "\n".join(filter(None, (prose(first) + ended, *map(prose, said[1:]), rejected)))


def provenance(store: Store, node: Node) -> Provenance:
    """Who wrote a record first, from Git; empty while nothing is committed."""
    branch = store.branch if node.birth.commit else ""
    return _provenance(node, branch, store.standing([node]).get(node.path))


def _provenance(node: Node, branch: str, standing: Standing | None) -> Provenance:
    birth = node.birth
    if not birth.commit:
        return Provenance()
    return Provenance(
        birth.author,
        birth.agent,
        birth.commit,
        birth.at,
        branch,
        **(standing._asdict() if standing else {}),
        reviewers=birth.reviewers,
        co_authors=birth.co_authors,
        edits=birth.edits,
        unsure=birth.unsure,
    )


def _outgoing(node: Node) -> tuple[Edge, ...]:
    return tuple(Edge(kind, target, reason) for kind, target, reason in node.edges)


def _incoming(pointing: Iterable[Node], ids: Collection[str]) -> Mapping[str, list[Edge]]:
    """Edges of other records to these, in the words of the one pointed at."""
    edges: dict[str, list[Edge]] = {}
    for node in pointing:
        for kind, target, reason in node.edges:
            if target in ids:
                edges.setdefault(target, []).append(Edge(INVERSE.get(kind, kind), node.id, reason))
    return edges
