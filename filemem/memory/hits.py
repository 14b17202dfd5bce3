"""What a hit shows: the record, its place in its chain, and its provenance.

Rule: files and the commit table are read only for the hits that are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from filemem import query
from filemem.index import Known, Node, said_in
from filemem.memory.store import Store, listed
from filemem.query import Hit, Placed, Provenance, Snippet, Terms
from filemem.record import DECISION, Edge, Record
from filemem.repo import Branch

INVERSE = {"builds_on": "built_on_by", "debates": "debated_by", "synthesizes": "synthesized_by"}
INVERSE |= {"built_on_by": "builds_on"}  # as "Amended by" says it
EDITS_SHOWN = 5  # of a record, the newest


def present(
    store: Store, nodes: Iterable[Node], terms: Terms | None = None, *, detail: bool = True
) -> tuple[Hit, ...]:
    """Make hits of records, in the order given."""
    ids = [node.id for node in nodes]
    known = store.index.by_id(ids)
    places = [Placed(name, None) for name in ids if name in known]
    hits = of_places(store, known, places, terms, detail=detail)
    return tuple(one._replace(brought_in=False) for one in hits)  # nothing was searched for


def of_places(
    store: Store,
    known: Mapping[str, Known],
    places: Sequence[Placed],
    terms: Terms | None,
    *,
    detail: bool = True,
    said: Mapping[str, Provenance] | None = None,
) -> tuple[Hit, ...]:
    """Make hits of places in order; a record whose file no longer exists is left out.

    `known` are the records at the places; `detail` adds who wrote them, by path in `said` if that is known.
    """
    barred = store.barred
    places = [place for place in places if place.id not in barred]
    rows = [known[place.id] for place in places]
    nodes = [row.node for row in rows]
    alike = terms.alike if terms and detail else ()
    records = store.records([node.path for node in nodes])
    said = provenances(store, records, detail=detail) if said is None else said
    proposed = _proposed(store, rows)
    hits = []
    for row, node, place in zip(rows, nodes, places, strict=True):
        if (record := records.get(node.path)) is None:  # the next look takes it out
            continue
        who = said.get(node.path, Provenance())
        facts = row.facts
        superseded_by = without(barred, facts.superseded_by)
        if (
            superseded_by and record.superseded_by and record.status == "deprecated"
        ):  # it is only marked as superseded
            record = record._replace(status="accepted")
        about = f"{record.topic} {record.title}"
        hits.append(
            Hit(
                record=record,
                path=store.shown(node.path),
                created=record.created or node.created or who.date or 0,
                score=place.worth,
                scores=place.scored.scores if place.scored else None,
                superseded_by=superseded_by,
                heads=without(barred, facts.holds_for(node.id)),
                vacancy=vacancy(proposed[node.id]) if node.id in proposed else "",
                proposed=without(barred, facts.proposed),
                earlier=place.earlier,
                brought_in=place.scored is None,
                related=_related(row, barred),
                already_rejected=query.rejected_before(terms, record.rejected, about)
                if terms
                else (),
                provenance=who._replace(agent=record.agent or who.agent) if who.commit else who,
                instead=said_in(f"{about}\n{_body(record)}\n{' '.join(record.tags)}", alike)
                if alike
                else {},
                snippet=Snippet(*query.snippet(_body(record), terms)) if terms else Snippet(),
            )
        )
    return tuple(hits)


def without(barred: Collection[str], ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that are not barred."""
    return tuple(name for name in ids if name not in barred)


def _related(row: Known, barred: Collection[str]) -> tuple[Edge, ...]:
    """The edges from and to a record, those of others in its own words."""
    own = (Edge(*edge) for edge in row.node.edges)
    others = (Edge(INVERSE.get(kind, kind), *rest) for kind, *rest in row.facts.pointing)
    shown = (edge for edge in (*own, *others) if edge.target not in barred)
    return tuple({edge[:2]: edge for edge in shown}.values())


def _proposed(store: Store, rows: Iterable[Known]) -> dict[str, list[Node]]:
    """Of the decisions for which nothing holds: what is proposed on their topics instead."""
    vacant = {
        row.node.id: without((*store.barred, row.node.id), row.facts.waiting)
        for row in rows
        if row.node.type == DECISION and not row.facts.heads
    }
    nodes = store.index.by_id({name for names in vacant.values() for name in names})
    return {
        node: [nodes[name].node for name in names if name in nodes]
        for node, names in vacant.items()
    }


def vacancy(proposed: Collection[Node]) -> str:
    """Return a note that nothing holds, and what is proposed."""
    return "nothing holds" + (f"; proposed: {listed(proposed)}" if proposed else "")


def provenances(
    store: Store, paths: Iterable[str], *, detail: bool = True
) -> dict[str, Provenance]:
    """The provenance of records, by store path, from the commit table; uncommitted ones are left out."""
    named = {store.files.named(path): path for path in paths}
    if not named or not detail:
        found = store.history.committed(named, store.seen_from) if named else {}
        return {named[path]: Provenance(commit=one) for path, one in found.items()}
    here, boundary = store.branch, store.repo.boundary
    own = store.repo is not store.code and bool(
        here
    )  # a branch that is only a memory is its own default
    default = Branch(here, store.repo.head() or "") if own else store.repo.default_branch()
    landed = store.history.landed(named, default.tip) if default else {}
    elsewhere = default is not None and default.name != here
    said = {}
    for path, rows in store.history.touches(named, store.seen_from).items():
        first = rows[-1].commit if rows else None
        if first is None:
            continue
        if first.id in boundary:  # who brought it stands in a commit that a shallow clone lacks
            said[named[path]] = Provenance(commit=rows[0].commit.id)
            continue
        edits = [row.commit for row in rows if row.commit.id != first.id and row.old != row.new][
            :EDITS_SHOWN
        ]
        said[named[path]] = Provenance(
            author=first.author,
            agent=first.agent,
            commit=first.id,
            date=first.at,
            branch=here,
            default=default.name if default else "",
            merged=(not elsewhere or path in landed) if default else None,
            landed=landed[path].at if path in landed else None,
            reviewers=first.reviewers,
            co_authors=first.co_authors,
            edits=tuple(reversed(edits)),
        )
    return said


def _body(record: Record) -> str:
    """The text of a record without its heading."""
    return _quoted(record.title, record.decision, record.text, record.rejected)


@lru_cache(maxsize=512)  # a server shows the same records again and again
def _quoted(title: str, decision: str, text: str, rejected: tuple[str, ...]) -> str:
    refused = f"Rejected: {'; '.join(rejected)}" if rejected else ""
    said = [part for part in (decision, text) if part and part != title]
    first = query.beyond(title, said[0]) if said else ""
    ended = (
        "" if not said[1:] or first.rstrip().endswith((".", "!", "?", ":")) or not first else "."
    )
    return "\n".join(
        filter(None, (query.prose(first) + ended, *map(query.prose, said[1:]), refused))
    )
