"""What depends on several files: what a reference means, which decision holds, which of two with one id is shown.

Rule: such facts stand beside the documents, never in one. A change works them out anew for what it touches alone: the
records that refer to a name which came or went, and the decisions of the same chains.
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
    refers = dict.fromkeys(name for each in node.references for name in readings(each, node.folder))
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
    pointing: tuple[
        Node, ...
    ]  # every record that was met and refers to one of them, by whatever edge


class Chains:
    """The records of a state, wherever they are kept, and the questions that need several of them."""

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
        return [by_id[each] for each in ids] or [
            row for row in by_id.values() if not row.written.stated
        ]

    def by_id(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the records with some ids, with what follows for each from all others."""
        rows = self.rows("id", ids) if ids else []
        return {row.written.id: row for row in rows if row.visible}

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        start = self.rows("id", [node.id for node in nodes if node.type == DECISION])
        found, pointing = self._gather(row for row in start if row.visible)
        graph = chain.resolve(row.node for row in found.values())
        return Around(graph, graph.nodes, tuple(row.node for row in pointing.values()))

    def _gather(self, start: Iterable[Row]) -> tuple[dict[str, Row], dict[str, Row]]:
        """Collect every decision on which the places of some depend, and all that point to one of them, by id."""
        found: dict[str, Row] = {}
        pointing: dict[str, Row] = {}
        asked: dict[str, set[str]] = {"key": set(), "target": set(), "id": set()}
        wave = {row.written.id: row for row in start if row.written.type == DECISION}
        while wave:
            found.update(wave)
            nodes = [row.node for row in wave.values()]
            wants = {
                "key": {node.key for node in nodes if node.key} - asked["key"],
                "target": wave.keys() - asked["target"],
                "id": {target for node in nodes for target in node.replaces if target not in found}
                - asked["id"],
            }
            wave = {}
            for field, values in wants.items():
                asked[field] |= values
                for row in filter(lambda row: row.visible, self.rows(field, values)):
                    if field == "target":
                        pointing[row.written.id] = row
                    belongs = field != "target" or not values.isdisjoint(row.node.replaces)
                    if belongs and row.written.type == DECISION and row.written.id not in found:
                        wave[row.written.id] = row
        return found, pointing

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
        known = {row.written.id for row in self.rows("id", references)}
        turned = self._resolved(rows, known)
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
        names = {
            path: [name for name in row.written.references if name not in ids]
            for path, row in rows.items()
        }
        spellings = {
            spelling
            for path, own in names.items()
            for name in own
            for spelling in readings(name, rows[path].written.folder)
        }
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
        family, pointing = self._gather(row for row in rows.values() if row.visible)
        every = _by_path(family.values()) | dict(rows)
        after = _placed(every, family.values(), pointing.values())
        self.store(row for path, row in after.items() if row != every[path])


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
    listed = {each.members[-1]: _listing(graph, each) for each in graph.families()}
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
    """Where a topic stands in the list of all, by number or else by name, and what finds it there."""
    last = graph.nodes[family.members[-1]]
    newest = max(
        (graph.nodes[head] for head in family.heads), key=lambda node: node.age, default=None
    )
    title, path = newest.title if newest else "", (newest or last).path
    number = adr_number(path, (newest or last).id) or 0
    file = "" if family.key else path.rpartition("/")[2]
    return f"{number:09} {0 if family.key else 1} {family.key or last.path}", topic_key(
        f"{last.topic} {title} {file}"
    )


def _by_path(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.written.path: row for row in rows}


def _names(rows: Iterable[Row]) -> set[tuple[str, int, str, str]]:
    """Each name with its strength, whose it is, and of what type that is."""
    return {
        (name, strength, row.written.id, row.written.type)
        for row in rows
        for strength, name in names_of(bare(row.written))
    }
