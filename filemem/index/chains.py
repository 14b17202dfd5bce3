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
    build_reference_index,
    build_topic_key,
    iter_names,
    iter_readings,
    list_matching_ids,
    parse_adr_number,
    resolve_reference,
)

TOPIC_PREFIX = "topic:"  # before the topic of a record that states none, among its names
LINK_KINDS = (
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
    raw_node: Node  # its node, references as they are written
    is_live: bool = True
    is_visible: bool = True  # not, where an older record has its id
    meanings: Mapping[str, str] = {}  # the ids of those that are no ids
    topic_sort_key: str = ""  # of its topic in the list of all, if it is the last decision on it
    topic_search_text: str = ""  # what finds it there
    facts: Facts = NO_FACTS  # of a decision that is shown

    @property
    def node(self) -> Node:
        """Its node, references resolved."""
        return self.raw_node.resolve_references(self.meanings) if self.meanings else self.raw_node

    @property
    def targets(self) -> list[str]:
        """The ids of the records that it refers to."""
        return [self.meanings.get(name, name) for name in self.raw_node.references]

    def get_values(self, field: str) -> Iterable[str | int]:
        """Return what the record has in a field that `Chains.rows` takes."""
        if field == "target":
            return self.targets
        if field in LINK_KINDS:
            return (value for kind, value in list_links(self.raw_node) if kind == field)
        return (self.number if field == "number" else getattr(self.raw_node, field),)


def build_rows(docs: Mapping[int, Doc], dates: Dates) -> list[Row]:
    """Return the rows of documents by number; `dates` is asked for what states none."""
    undated_paths = [doc.path for doc in docs.values() if not doc.created]
    dates_by_path = dates(undated_paths) if undated_paths else {}
    return [
        Row(
            number,
            doc.blob,
            doc.node._replace(created=doc.created or dates_by_path.get(doc.path, 0)),
        )
        for number, doc in docs.items()
    ]


@lru_cache(maxsize=4096)
def list_links(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the names of a record, those it refers to, what it governs, branch and audience."""
    names = dict.fromkeys(name for _, name in iter_names(build_stub_record(node)))
    if not node.stated:
        names[TOPIC_PREFIX + build_topic_key(node.topic)] = None
    references = dict.fromkeys(
        name for reference in node.references for name in iter_readings(reference, node.folder)
    )
    single_links = (("branch", node.branch), ("audience", node.audience))
    return (
        *(("name", name) for name in names),
        *(("refers", name) for name in references),
        *(("affects", path) for path in dict.fromkeys(node.affects)),
        *(("guards", glob) for glob in node.guards),
        *((kind, value) for kind, value in single_links if value),
    )


def build_stub_record(node: Node) -> Record:
    """A record as far as it has names."""
    return Record(node.id, node.type, node.path, node.title, extra={"slug": node.slug})


def add_store_prefix(key: object, row: Any) -> Any:
    """Return a row or a candidate of one of several stores: addresses stand for ids and paths.

    An address is the key of its store, a space, and what the store itself has.
    """
    node = row.node.resolve_references({name: f"{key} {name}" for name in row.node.references})
    node = node._replace(id=f"{key} {node.id}", path=f"{key} {node.path}")
    changes = {"raw_node": node, "meanings": {}} if isinstance(row, Row) else {"node": node}
    return row._replace(facts=row.facts.add_store_key(key), **changes)


class ChainSet(NamedTuple):
    """The chains that some records belong to."""

    graph: chain.Graph  # who supersedes whom, and what holds
    nodes: Mapping[str, Node]  # the decisions in it by id
    referring_nodes: tuple[Node, ...]  # every record that refers to one of them, by whatever edge


class _ChainRows(NamedTuple):
    """Decisions whose places depend on each other, and what points to one of them, by id."""

    decisions: dict[str, Row]
    referring_rows: dict[str, Row]


class ChainIndex:
    """The records of a state, wherever they are, and the questions that need several of them."""

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field: see `Database.rows`."""
        raise NotImplementedError

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Write what follows from all files for some records."""
        raise NotImplementedError

    def read_rows_by_name(self, name: str) -> list[Row]:
        """Return the records that a name may mean, one where it is clear."""
        key = build_topic_key(name)
        rows = self.read_rows(
            "name", [*iter_readings(name), *([TOPIC_PREFIX + key] if key else [])]
        )
        by_id = {row.raw_node.id: row for row in rows if row.is_visible}
        ids = list_matching_ids(name, (build_stub_record(row.raw_node) for row in by_id.values()))
        rows = [by_id[id_] for id_ in ids]
        return rows or [row for row in by_id.values() if not row.raw_node.stated]

    def read_rows_by_id(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the records with some ids, with what follows for each from all others."""
        found = self.read_rows("id", ids) if ids else []
        return {row.raw_node.id: row for row in found if row.is_visible}

    def read_chains(self, nodes: Iterable[Node]) -> ChainSet:
        """Return the chains that some records belong to."""
        start = self.read_rows("id", [node.id for node in nodes if node.type == DECISION])
        gathered = self._gather_chains(row for row in start if row.is_visible)
        graph = chain.build_graph(row.node for row in gathered.decisions.values())
        referring_nodes = tuple(row.node for row in gathered.referring_rows.values())
        return ChainSet(graph, graph.nodes, referring_nodes)

    def _gather_chains(self, start: Iterable[Row]) -> _ChainRows:
        """Collect every decision on which the places of some depend, wave by wave."""
        gathered = _ChainRows({}, {})
        asked_values: dict[str, set[str]] = {"key": set(), "target": set(), "id": set()}
        wave = {row.raw_node.id: row for row in start if row.raw_node.type == DECISION}
        while wave:
            gathered.decisions.update(wave)
            nodes = [row.node for row in wave.values()]
            wanted_values = {
                "key": {node.key for node in nodes if node.key},
                "target": set(wave),
                "id": {target for node in nodes for target in node.replaced_references},
            }
            wanted_values["id"] -= gathered.decisions.keys()
            wave = {}
            for field, values in wanted_values.items():
                wave |= self._gather_wave(gathered, field, values - asked_values[field])
                asked_values[field] |= values
        return gathered

    def _gather_wave(self, gathered: _ChainRows, field: str, values: set[str]) -> dict[str, Row]:
        """The decisions of the next wave that have one of some values in a field."""
        rows = [row for row in self.read_rows(field, values) if row.is_visible]
        if field == "target":
            gathered.referring_rows.update((row.raw_node.id, row) for row in rows)
            rows = [row for row in rows if not values.isdisjoint(row.node.replaced_references)]
        return {
            row.raw_node.id: row
            for row in rows
            if row.raw_node.type == DECISION and row.raw_node.id not in gathered.decisions
        }

    def update_facts(self, removed: Iterable[Row], added: Iterable[Row]) -> None:
        """Work out what follows from records that went and came, for them and for all others."""
        removed = list(removed)
        rows = _index_by_path(added)
        names = _collect_names(removed) ^ _collect_names(rows.values())
        rows |= _index_by_path(self.read_rows("refers", {name for name, *_ in names}))
        resolved_rows = self._write_meanings(rows)
        affected_rows = [*removed, *rows.values(), *resolved_rows.values()]
        toggled_rows = self._update_visibility({row.raw_node.id for row in affected_rows})
        affected_rows += [
            *toggled_rows,
            *self.read_rows("target", {row.raw_node.id for row in toggled_rows}),
        ]
        ids = {row.raw_node.id for row in affected_rows}
        ids.update(target for row in affected_rows for target in row.targets)
        keys = {row.raw_node.key for row in affected_rows} - {""}
        self._update_decisions(
            _index_by_path([*self.read_rows("id", ids), *self.read_rows("key", keys)])
        )

    def _write_meanings(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Write what the references of some records mean; return the rows with it."""
        references = {name for row in rows.values() for name in row.raw_node.references}
        ids = {row.raw_node.id for row in self.read_rows("id", references)}
        resolved_rows = self._resolve_references(rows, ids)
        self.write_rows(
            row for path, row in resolved_rows.items() if row.meanings != rows[path].meanings
        )
        return resolved_rows

    def update_all_facts(self, all_rows: Iterable[Row]) -> None:
        """Work out the same for all records at once: these are their rows."""
        old_rows = _index_by_path(all_rows)
        ids = {row.raw_node.id for row in old_rows.values()}
        rows = _apply_visibility(self._resolve_references(old_rows, ids), ids)
        visible_rows = [row for row in rows.values() if row.is_visible]
        new_rows = _apply_chain_facts(rows, visible_rows, visible_rows)
        self.write_rows(row for path, row in new_rows.items() if row != old_rows[path])

    def _resolve_references(self, rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
        """Work out what the references of some records mean, of those that are none of the ids."""
        names = {path: _list_unresolved_references(row, ids) for path, row in rows.items()}
        spellings: set[str] = set()
        for path, row in rows.items():
            for name in names[path]:
                spellings.update(iter_readings(name, row.raw_node.folder))
        index = build_reference_index(
            build_stub_record(row.raw_node) for row in self.read_rows("name", spellings)
        )
        resolved_rows = {}
        for path, row in rows.items():
            folder = row.raw_node.folder
            targets = {name: resolve_reference(name, index, folder) for name in names[path]}
            meanings = {name: id_ for name, id_ in targets.items() if id_}
            is_unchanged = row.meanings == meanings
            resolved_rows[path] = row if is_unchanged else row._replace(meanings=meanings)
        return resolved_rows

    def _update_visibility(self, ids: set[str]) -> list[Row]:
        """Work out which of those with one of some ids are shown; return those that turned."""
        rows = _index_by_path(self.read_rows("id", ids))
        changed_rows = [
            row for path, row in _apply_visibility(rows, ids).items() if row != rows[path]
        ]
        self.write_rows(changed_rows)
        return changed_rows

    def _update_decisions(self, rows: Mapping[str, Row]) -> None:
        """Work out which decisions hold, of the chains of some, and what follows from that."""
        gathered = self._gather_chains(row for row in rows.values() if row.is_visible)
        all_rows = _index_by_path(gathered.decisions.values()) | dict(rows)
        new_rows = _apply_chain_facts(
            all_rows, gathered.decisions.values(), gathered.referring_rows.values()
        )
        self.write_rows(row for path, row in new_rows.items() if row != all_rows[path])


def _list_unresolved_references(row: Row, ids: Collection[str]) -> list[str]:
    """The references of a record that are none of some ids."""
    return [name for name in row.raw_node.references if name not in ids]


def _apply_visibility(rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
    """Rows of which, for each of some ids, the eldest is shown alone."""
    eldest: dict[str, Row] = {}
    for row in sorted(rows.values(), key=lambda row: row.raw_node.sort_key, reverse=True):
        eldest[row.raw_node.id] = row
    updated_rows = dict(rows)
    for path, row in rows.items():
        is_visible = row is eldest[row.raw_node.id]
        if row.is_visible != is_visible and row.raw_node.id in ids:
            updated_rows[path] = row._replace(is_visible=is_visible)
    return updated_rows


def _apply_chain_facts(
    rows: Mapping[str, Row], decisions: Iterable[Row], referring_rows: Iterable[Row]
) -> dict[str, Row]:
    """Rows with what follows from all that are of their chains, or point to one of these."""
    graph = chain.build_graph(row.node for row in decisions if row.raw_node.type == DECISION)
    facts = graph.build_facts(row.node for row in referring_rows)
    topic_entries = {
        group.members[-1]: _build_topic_entry(graph, group) for group in graph.list_families()
    }
    updated_rows = {}
    for path, row in rows.items():
        if not row.is_visible:
            updated_rows[path] = row._replace(
                is_live=False, topic_sort_key="", topic_search_text="", facts=NO_FACTS
            )
            continue
        name = row.raw_node.id
        is_live = row.raw_node.type != DECISION or graph.is_head(name)
        place, names = topic_entries.get(name, ("", ""))
        row_facts = facts.get(name, NO_FACTS)
        updated_rows[path] = row._replace(
            is_live=is_live, topic_sort_key=place, topic_search_text=names, facts=row_facts
        )
    return updated_rows


def _build_topic_entry(graph: chain.Graph, family: chain.Family) -> tuple[str, str]:
    """Where a topic stands in the list of all, by number or name, and what finds it there."""
    last_decision = graph.nodes[family.members[-1]]
    heads = (graph.nodes[head] for head in family.heads)
    newest = max(heads, key=lambda node: node.sort_key, default=None)
    title = newest.title if newest else ""
    chosen = newest or last_decision
    number = parse_adr_number(chosen.path, chosen.id) or 0
    file = "" if family.key else chosen.path.rpartition("/")[2]
    place = f"{number:09} {0 if family.key else 1} {family.key or last_decision.path}"
    return place, build_topic_key(f"{last_decision.topic} {title} {file}")


def _index_by_path(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.raw_node.path: row for row in rows}


def _collect_names(rows: Iterable[Row]) -> set[tuple[str, int, str, str]]:
    """Each name with its strength, whose it is, and of what type that is."""
    return {
        (name, strength, row.raw_node.id, row.raw_node.type)
        for row in rows
        for strength, name in iter_names(build_stub_record(row.raw_node))
    }
