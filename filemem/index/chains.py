"""What depends on several files: what a reference means, which decision holds, whose an id is.

Rule: such facts stand beside the documents, never in one. A change works them out anew for what it
touches alone: the records that refer to a name which came or went, and the decisions of the same
chains.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from filemem import chain
from filemem.chain import NO_FACTS, Facts, Node
from filemem.index.document import Doc
from filemem.record import (
    DECISION,
    Record,
    adr_number,
    answering,
    names_of,
    readings,
    reference_index,
    resolve_reference,
    topic_key,
)

UNSTATED = "topic:"  # before the topic of a record that states none, among its names
LINKED = (
    "name",
    "refers",
    "affects",
    "guards",
    "branch",
    "audience",
)  # kinds of links that a file states

# First-commit dates of paths, epoch milliseconds.
Dates = Callable[[Collection[str]], Mapping[str, int]]


class Row(NamedTuple):
    """One record as the index knows it."""

    number: int
    blob: str
    written: Node  # its node, references as they are written
    live: bool = True
    visible: bool = True  # not, where an older record has its id
    meanings: Mapping[str, str] = {}  # the ids of those that are no ids
    place: str = ""  # of its topic in the list of all, if it is the last decision on it
    names: str = ""  # what finds it there
    facts: Facts = NO_FACTS  # of a decision that is shown

    @property
    def node(self) -> Node:
        """Its node, references resolved."""
        return self.written.meaning(self.meanings) if self.meanings else self.written

    @property
    def targets(self) -> list[str]:
        """The ids of the records that it refers to."""
        return [self.meanings.get(name, name) for name in self.written.references]

    def values(self, field: str) -> Iterable[str | int]:
        """Return what the record has in a field that `Chains.rows` takes."""
        if field == "target":
            return self.targets
        if field in LINKED:
            return (value for kind, value in links_of(self.written) if kind == field)
        return (self.number if field == "number" else getattr(self.written, field),)


def rows_of(docs: Mapping[int, Doc], dates: Dates) -> list[Row]:
    """Return the rows of documents by number; `dates` is asked for what states none."""
    undated = [doc.path for doc in docs.values() if not doc.created]
    dated = dates(undated) if undated else {}
    return [
        Row(number, doc.blob, doc.node._replace(created=doc.created or dated.get(doc.path, 0)))
        for number, doc in docs.items()
    ]


@lru_cache(maxsize=4096)
def links_of(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the names of a record, those it refers to, what it governs, branch and audience."""
    names = dict.fromkeys(name for _, name in names_of(bare(node)))
    if not node.stated:
        names[UNSTATED + topic_key(node.topic)] = None
    refers = dict.fromkeys(
        name for reference in node.references for name in readings(reference, node.folder)
    )
    single = (("branch", node.branch), ("audience", node.audience))
    return (
        *(("name", name) for name in names),
        *(("refers", name) for name in refers),
        *(("affects", path) for path in dict.fromkeys(node.affects)),
        *(("guards", glob) for glob in node.guards),
        *((kind, value) for kind, value in single if value),
    )


def bare(node: Node) -> Record:
    """A record as far as it has names."""
    return Record(node.id, node.type, node.path, node.title, extra={"slug": node.slug})


def addressed(key: object, row: Any) -> Any:
    """Return a row or a candidate of one of several stores: addresses stand for ids and paths.

    An address is the key of its store, a space, and what the store itself has.
    """
    node = row.node.meaning({name: f"{key} {name}" for name in row.node.references})
    node = node._replace(id=f"{key} {node.id}", path=f"{key} {node.path}")
    same = {"written": node, "meanings": {}} if isinstance(row, Row) else {"node": node}
    return row._replace(facts=row.facts.addressed(key), **same)


class Around(NamedTuple):
    """The chains that some records belong to."""

    graph: chain.Graph  # who supersedes whom, and what holds
    nodes: Mapping[str, Node]  # the decisions in it by id
    pointing: tuple[Node, ...]  # every record that refers to one of them, by whatever edge


class _Gathered(NamedTuple):
    """Decisions whose places depend on each other, and what points to one of them, by id."""

    family: dict[str, Row]
    pointing: dict[str, Row]


class Chains:
    """The records of a state, wherever they are, and the questions that need several of them."""

    def rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field: see `Database.rows`."""
        raise NotImplementedError

    def store(self, rows: Iterable[Row]) -> None:
        """Write what follows from all files for some records."""
        raise NotImplementedError

    def named(self, name: str) -> list[Row]:
        """Return the records that a name may mean, one where it is clear."""
        key = topic_key(name)
        rows = self.rows("name", [*readings(name), *([UNSTATED + key] if key else [])])
        by_id = {row.written.id: row for row in rows if row.visible}
        ids = answering(name, (bare(row.written) for row in by_id.values()))
        rows = [by_id[id_] for id_ in ids]
        return rows or [row for row in by_id.values() if not row.written.stated]

    def by_id(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the records with some ids, with what follows for each from all others."""
        rows = self.rows("id", ids) if ids else []
        return {row.written.id: row for row in rows if row.visible}

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        start = self.rows("id", [node.id for node in nodes if node.type == DECISION])
        gathered = self._gather(row for row in start if row.visible)
        graph = chain.resolve(row.node for row in gathered.family.values())
        pointing = tuple(row.node for row in gathered.pointing.values())
        return Around(graph, graph.nodes, pointing)

    def _gather(self, start: Iterable[Row]) -> _Gathered:
        """Collect every decision on which the places of some depend, wave by wave."""
        gathered = _Gathered({}, {})
        done: dict[str, set[str]] = {"key": set(), "target": set(), "id": set()}
        wave = {row.written.id: row for row in start if row.written.type == DECISION}
        while wave:
            gathered.family.update(wave)
            nodes = [row.node for row in wave.values()]
            wants = {
                "key": {node.key for node in nodes if node.key},
                "target": set(wave),
                "id": {target for node in nodes for target in node.replaces},
            }
            wants["id"] -= gathered.family.keys()
            wave = {}
            for field, values in wants.items():
                wave |= self._met(gathered, field, values - done[field])
                done[field] |= values
        return gathered

    def _met(self, gathered: _Gathered, field: str, values: set[str]) -> dict[str, Row]:
        """The decisions of the next wave that have one of some values in a field."""
        rows = [row for row in self.rows(field, values) if row.visible]
        if field == "target":
            gathered.pointing.update((row.written.id, row) for row in rows)
            rows = [row for row in rows if not values.isdisjoint(row.node.replaces)]
        return {
            row.written.id: row
            for row in rows
            if row.written.type == DECISION and row.written.id not in gathered.family
        }

    def settle(self, gone: Iterable[Row], came: Iterable[Row]) -> None:
        """Work out what follows from records that went and came, for them and for all others."""
        gone = list(gone)
        rows = _by_path(came)
        names = _names(gone) ^ _names(rows.values())
        rows |= _by_path(self.rows("refers", {name for name, *_ in names}))
        turned = self._store_meanings(rows)
        touched = [*gone, *rows.values(), *turned.values()]
        flipped = self._shown({row.written.id for row in touched})
        touched += [*flipped, *self.rows("target", {row.written.id for row in flipped})]
        ids = {row.written.id for row in touched}
        ids.update(target for row in touched for target in row.targets)
        keys = {row.written.key for row in touched} - {""}
        self._decide(_by_path([*self.rows("id", ids), *self.rows("key", keys)]))

    def _store_meanings(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Write what the references of some records mean; return the rows with it."""
        references = {name for row in rows.values() for name in row.written.references}
        ids = {row.written.id for row in self.rows("id", references)}
        turned = self._resolved(rows, ids)
        self.store(row for path, row in turned.items() if row.meanings != rows[path].meanings)
        return turned

    def settle_all(self, every: Iterable[Row]) -> None:
        """Work out the same for all records at once: these are their rows."""
        before = _by_path(every)
        ids = {row.written.id for row in before.values()}
        rows = _visible(self._resolved(before, ids), ids)
        visible = [row for row in rows.values() if row.visible]
        after = _placed(rows, visible, visible)
        self.store(row for path, row in after.items() if row != before[path])

    def _resolved(self, rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
        """Work out what the references of some records mean, of those that are none of the ids."""
        names = {path: _others(row, ids) for path, row in rows.items()}
        spellings: set[str] = set()
        for path, row in rows.items():
            for name in names[path]:
                spellings.update(readings(name, row.written.folder))
        index = reference_index(bare(row.written) for row in self.rows("name", spellings))
        resolved = {}
        for path, row in rows.items():
            folder = row.written.folder
            targets = {name: resolve_reference(name, index, folder) for name in names[path]}
            meanings = {name: id_ for name, id_ in targets.items() if id_}
            same = row.meanings == meanings
            resolved[path] = row if same else row._replace(meanings=meanings)
        return resolved

    def _shown(self, ids: set[str]) -> list[Row]:
        """Work out which of those with one of some ids are shown; return those that turned."""
        rows = _by_path(self.rows("id", ids))
        turned = [row for path, row in _visible(rows, ids).items() if row != rows[path]]
        self.store(turned)
        return turned

    def _decide(self, rows: Mapping[str, Row]) -> None:
        """Work out which decisions hold, of the chains of some, and what follows from that."""
        gathered = self._gather(row for row in rows.values() if row.visible)
        every = _by_path(gathered.family.values()) | dict(rows)
        after = _placed(every, gathered.family.values(), gathered.pointing.values())
        self.store(row for path, row in after.items() if row != every[path])


def _others(row: Row, ids: Collection[str]) -> list[str]:
    """The references of a record that are none of some ids."""
    return [name for name in row.written.references if name not in ids]


def _visible(rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
    """Rows of which, for each of some ids, the eldest is shown alone."""
    eldest: dict[str, Row] = {}
    for row in sorted(rows.values(), key=lambda row: row.written.age, reverse=True):
        eldest[row.written.id] = row
    turned = dict(rows)
    for path, row in rows.items():
        visible = row is eldest[row.written.id]
        if row.visible != visible and row.written.id in ids:
            turned[path] = row._replace(visible=visible)
    return turned


def _placed(
    rows: Mapping[str, Row], family: Iterable[Row], pointing: Iterable[Row]
) -> dict[str, Row]:
    """Rows with what follows from all that are of their chains, or point to one of these."""
    graph = chain.resolve(row.node for row in family if row.written.type == DECISION)
    facts = graph.facts(row.node for row in pointing)
    listed = {group.members[-1]: _listing(graph, group) for group in graph.families()}
    placed = {}
    for path, row in rows.items():
        if not row.visible:
            placed[path] = row._replace(live=False, place="", names="", facts=NO_FACTS)
            continue
        name = row.written.id
        live = row.written.type != DECISION or graph.is_head(name)
        place, names = listed.get(name, ("", ""))
        own = facts.get(name, NO_FACTS)
        placed[path] = row._replace(live=live, place=place, names=names, facts=own)
    return placed


def _listing(graph: chain.Graph, family: chain.Family) -> tuple[str, str]:
    """Where a topic stands in the list of all, by number or name, and what finds it there."""
    last = graph.nodes[family.members[-1]]
    heads = (graph.nodes[head] for head in family.heads)
    newest = max(heads, key=lambda node: node.age, default=None)
    title = newest.title if newest else ""
    chosen = newest or last
    number = adr_number(chosen.path, chosen.id) or 0
    file = "" if family.key else chosen.path.rpartition("/")[2]
    place = f"{number:09} {0 if family.key else 1} {family.key or last.path}"
    return place, topic_key(f"{last.topic} {title} {file}")


def _by_path(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.written.path: row for row in rows}


def _names(rows: Iterable[Row]) -> set[tuple[str, int, str, str]]:
    """Each name with its strength, whose it is, and of what type that is."""
    return {
        (name, strength, row.written.id, row.written.type)
        for row in rows
        for strength, name in names_of(bare(row.written))
    }
