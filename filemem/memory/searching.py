"""From a question to hits: ask the index, score, put in known order, then read the files of what is shown.

What a hit shows comes from the file as it is now; the index only says where to look. Provenance comes from Git.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from filemem import query
from filemem.chain import Graph
from filemem.documents import Node
from filemem.errors import NotFound
from filemem.memory import graph, writing
from filemem.memory.store import Store
from filemem.memory.values import Results
from filemem.query import Filter, Hit, Placed, Provenance, Scored, Snippet, Terms
from filemem.record import DECISION, Edge

DEPTH = 100  # candidates asked of each index
RANKED = 50  # of them are put in order with their chains
NOISE = 0.1  # a cosine below this, without a single word in common, says nothing
INVERSE = {"builds_on": "built_on_by", "debates": "debated_by", "synthesizes": "synthesized_by"}


def search(
    store: Store, text: str, given: Filter, *, limit: int, offset: int = 0, mode: str = "hybrid", recency: bool = True
) -> Results:
    """Answer a query.

    Args:
        store: the parts.
        text: words, phrases, exclusions and restrictions as `filemem.query.parse` reads them; empty for the newest.
        given: restrictions besides those in the text.
        limit, offset: how many hits, and how many to pass over.
        mode: hybrid, keyword or vector.
        recency: whether age counts.
    """
    terms, stated = query.parse(text, store.clock())
    wanted = query.merge(given, stated)
    demoted = _demoted_by_pending(store)
    if not (terms.words or terms.phrases):
        nodes = [Node.loads(one) for one in store.index.newest(wanted, limit, offset, dead=demoted)]
        return Results(present(store, nodes, terms))
    depth = max(DEPTH, 3 * (limit + offset))
    found = store.index.candidates(terms, wanted, depth, mode=mode, dead=demoted)
    rated = query.score(found.candidates, now=store.clock(), recency=recency)
    scored = [one for one in rated if one.scores.keyword or (one.scores.vector >= NOISE and not terms.phrases)][
        : max(RANKED, 3 * (limit + offset))
    ]
    ranked = {one.id for one in scored}
    nodes_by_id = {one.id: Node.loads(one.node) for one in found.candidates if one.id in ranked}
    resolved, around = neighbourhood(store, nodes_by_id.values())
    placed = query.arrange(
        scored, resolved, may_bring=lambda node: _passes(around.get(node), wanted), limit=offset + limit
    )
    shown = placed[offset : offset + limit]
    nodes = [nodes_by_id.get(place.id) or around[place.id] for place in shown]
    return Results(_hits(store, nodes, shown, terms), degraded=found.degraded or "")


def find(store: Store, reference: str) -> Node:
    """Find one record by id, unique start of its short id, or path.

    Raises:
        NotFound: nothing, or more than one record, answers to it.
    """
    wanted = writing.line("id", reference).strip()
    inside = wanted.removeprefix(f"{store.files.store}/")
    found = store.lookup("id", [wanted]) or store.lookup("path", [inside])
    if not found and wanted:
        found = [Node.loads(text) for text in store.index.by_prefix("short", wanted.casefold())]
    exact = [node for node in found if node.id == wanted] or found
    if len({node.id for node in exact}) == 1:
        return exact[0]
    if exact:
        names = ", ".join(sorted(node.id for node in exact)[:5])
        raise NotFound(f"{len(exact)} records begin with {wanted!r}: {names}", "give more of the id")
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    near = get_close_matches(wanted, [node.id for node in store.nodes()], n=3, cutoff=0.5) if wanted else []
    raise NotFound(
        f"no record {wanted!r}", f"did you mean {' or '.join(near)}?" if near else "search lists what there is"
    )


def present(store: Store, nodes: Iterable[Node], terms: Terms | None = None) -> tuple[Hit, ...]:
    """Make hits of nodes in the order given, with their place in their chains."""
    listed = list(nodes)
    resolved, _ = neighbourhood(store, listed)
    places = [
        Placed(
            id=node.id,
            scored=None,
            superseded_by=resolved.superseded_by(node.id),
            heads=query.contested(resolved, node.id) or resolved.heads_of(node.id),
            chain=query.summary(resolved, node.key) if node.key else "",
        )
        for node in listed
    ]
    return _hits(store, listed, places, terms, listing=True)


def _worth(places: Sequence[Placed]) -> list[float]:
    """The score of each place: a record's own, but never less than that of what known order puts below it."""
    own = [place.scored.scores.final if place.scored else 0.0 for place in places]
    return list(accumulate(reversed(own), max))[::-1]


def neighbourhood(store: Store, nodes: Iterable[Node]) -> tuple[Graph, dict[str, Node]]:
    """The supersession graph around nodes, and the decisions in it by id."""
    around = graph.gather(store.lookup, nodes)
    return graph.resolve(around.values(), unrelated=store.unrelated), around


def _hits(
    store: Store,
    nodes: Iterable[Node],
    places: Iterable[Placed],
    terms: Terms | None,
    *,
    listing: bool = False,
) -> tuple[Hit, ...]:
    listed, placed = list(nodes), list(places)
    incoming = _incoming(store, [node.id for node in listed if node.type == DECISION])
    hits = []
    for node, place, worth in zip(listed, placed, _worth(placed), strict=True):
        record = store.read(node.path, node.birth.path).record
        if record is None:  # gone since it was indexed; the next look takes it out
            continue
        record = record._replace(id=node.id)
        scored: Scored | None = place.scored
        decision = record.decision if record.decision != record.title else ""
        rejected = f"Rejected: {'; '.join(record.rejected)}" if record.rejected else ""
        body = "\n".join(part for part in (decision, record.text, rejected) if part)
        fragment, ranges = query.snippet(body, terms) if terms else ("", ())
        hits.append(
            Hit(
                record=record,
                path=f"{store.files.store}/{node.path}",
                created=node.created,
                score=worth,
                scores=scored.scores if scored else None,
                superseded_by=place.superseded_by,
                heads=place.heads,
                chain=place.chain,
                more=place.more,
                brought_in=scored is None and not listing,
                related=(*_outgoing(node), *incoming.get(node.id, ())),
                already_rejected=query.rejected_before(terms, record.rejected) if terms else (),
                provenance=provenance(store, node),
                snippet=Snippet(fragment, ranges),
            )
        )
    return tuple(hits)


def provenance(store: Store, node: Node) -> Provenance:
    """Who wrote a record first, from Git; empty while nothing is committed."""
    birth = node.birth
    if not birth.commit:
        return Provenance()
    return Provenance(birth.author, birth.agent, birth.commit, birth.at, branch=store.repo.branch() or "")


def _outgoing(node: Node) -> tuple[Edge, ...]:
    return tuple(Edge(kind, target, reason) for kind, target, reason in node.edges)


def _incoming(store: Store, ids: list[str]) -> Mapping[str, list[Edge]]:
    """Edges of other records to these, in the words of the one pointed at."""
    edges: dict[str, list[Edge]] = {}
    for node in store.lookup("ref", ids):
        for kind, target, reason in node.edges:
            if target in ids:
                edges.setdefault(target, []).append(Edge(INVERSE.get(kind, kind), node.id, reason))
    return edges


def _passes(node: Node | None, wanted: Filter) -> bool:
    """Whether a head that was not found satisfies the restrictions, as far as its node tells."""
    if node is None:
        return False
    terms = {
        "type": (node.type,),
        "topic": (node.key,),
        "status": (node.status,),
        "outcome": (node.outcome,),
        "live": ("yes" if node.live else "no",),
    }
    asks_more = wanted.tags or wanted.agents or wanted.path or wanted.branches
    return not asks_more and query.matches(wanted, terms, node.created)


def _demoted_by_pending(store: Store) -> frozenset[str]:
    """Ids that records not yet folded into the index supersede: the index still says that they live."""
    pending = [Node.loads(text) for text in store.index.pending_nodes()]
    return frozenset(
        target
        for node in pending
        if node.status in ("accepted", "deprecated")
        for target in (*(node.supersedes or ()),)
    )
