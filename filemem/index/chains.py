"""Facts that depend on several files: targets of references, current decisions, owners of ids.

They are stored beside the documents, never in them. A change recomputes them only for what it
touches: records that refer to a name that came or went, and decisions of the same chains.
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

# Among the names of a record that states no topic, its topic has this prefix.
TOPIC_PREFIX = "topic:"
# The kinds of links that a file states.
LINK_KINDS = ("name", "refers", "affects", "guards", "branch", "audience")

# Returns the dates of the first commits of paths, in epoch milliseconds.
Dates = Callable[[Collection[str]], Mapping[str, int]]


class Row(NamedTuple):
    """One record as the index knows it."""

    number: int
    blob: str
    raw_node: Node  # its node, references as they are written
    is_live: bool = True
    is_visible: bool = True  # False if an older record has the same id
    meanings: Mapping[str, str] = {}  # references that are not ids -> the ids that they mean
    topic_sort_key: str = ""  # its place in the list of topics; "" unless last on its topic
    topic_search_text: str = ""  # the words that find it in that list
    facts: Facts = NO_FACTS  # of a visible decision

    @property
    def node(self) -> Node:
        """Its node, references resolved."""
        if not self.meanings:
            return self.raw_node
        return self.raw_node.resolve_references(self.meanings)

    @property
    def targets(self) -> list[str]:
        """The ids that its references mean."""
        return [self.meanings.get(name, name) for name in self.raw_node.references]

    def get_values(self, field: str) -> Iterable[str | int]:
        """Return the values of a field that `ChainIndex.read_rows` takes."""
        if field == "target":
            return self.targets
        if field in LINK_KINDS:
            return [value for kind, value in list_links(self.raw_node) if kind == field]
        if field == "number":
            return [self.number]
        return [getattr(self.raw_node, field)]


def build_rows(docs: Mapping[int, Doc], dates: Dates) -> list[Row]:
    """Return the rows of documents by number; `dates` dates the documents that state no date."""
    undated_paths = [doc.path for doc in docs.values() if not doc.created]
    dates_by_path = dates(undated_paths) if undated_paths else {}
    rows = []
    for number, doc in docs.items():
        created = doc.created or dates_by_path.get(doc.path, 0)
        node = doc.node._replace(created=created)
        rows.append(Row(number, doc.blob, node))
    return rows


@lru_cache(maxsize=4096)
def list_links(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the links of a record as (kind, value); kinds are `LINK_KINDS`."""
    names = dict.fromkeys(name for _, name in iter_names(build_stub_record(node)))
    if not node.stated:
        names[TOPIC_PREFIX + build_topic_key(node.topic)] = None
    references: dict[str, None] = {}
    for reference in node.references:
        references.update(dict.fromkeys(iter_readings(reference, node.folder)))
    links = [("name", name) for name in names]
    links += [("refers", name) for name in references]
    links += [("affects", path) for path in dict.fromkeys(node.affects)]
    links += [("guards", glob) for glob in node.guards]
    if node.branch:
        links.append(("branch", node.branch))
    if node.audience:
        links.append(("audience", node.audience))
    return tuple(links)


def build_stub_record(node: Node) -> Record:
    """Return a record with only the fields that name it."""
    return Record(node.id, node.type, node.path, node.title, extra={"slug": node.slug})


def add_store_prefix(key: object, row: Any) -> Any:
    """Return a row or a candidate with addresses instead of ids and paths.

    An address is the key of the store, a space, and the id or path in that store.
    """
    addresses = {name: f"{key} {name}" for name in row.node.references}
    node = row.node.resolve_references(addresses)
    node = node._replace(id=f"{key} {node.id}", path=f"{key} {node.path}")
    facts = row.facts.add_store_key(key)
    if isinstance(row, Row):
        return row._replace(raw_node=node, meanings={}, facts=facts)
    return row._replace(node=node, facts=facts)


class ChainSet(NamedTuple):
    """The chains that some records belong to."""

    graph: chain.Graph  # which decision supersedes which, and which are current
    nodes: Mapping[str, Node]  # the decisions of the graph by id
    referring_nodes: tuple[Node, ...]  # every record that refers to one of them in any way


class _ChainRows(NamedTuple):
    """The rows of chains, by id."""

    decisions: dict[str, Row]
    referring_rows: dict[str, Row]  # records that refer to one of the decisions in any way


class ChainIndex:
    """The records of a state, wherever they are, and the questions that need several of them."""

    def read_rows(self, field: str, values: Iterable[str | int]) -> list[Row]:
        """Return the records that have one of some values in a field; see `Database.read_rows`."""
        raise NotImplementedError

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Write what follows for some records from all records together."""
        raise NotImplementedError

    def read_rows_by_name(self, name: str) -> list[Row]:
        """Return the records that a name may mean; one if the name is unambiguous."""
        names = list(iter_readings(name))
        topic_key = build_topic_key(name)
        if topic_key:
            names.append(TOPIC_PREFIX + topic_key)
        candidates = _index_visible(self.read_rows("name", names))
        records = [build_stub_record(row.raw_node) for row in candidates.values()]
        ids = list_matching_ids(name, records)
        if ids:
            return [candidates[id_] for id_ in ids]
        return [row for row in candidates.values() if not row.raw_node.stated]

    def read_rows_by_id(self, ids: Collection[str]) -> dict[str, Row]:
        """Return the visible records with some ids, by id."""
        if not ids:
            return {}
        return _index_visible(self.read_rows("id", ids))

    def read_chains(self, nodes: Iterable[Node]) -> ChainSet:
        """Return the chains that some records belong to."""
        decision_ids = [node.id for node in nodes if node.type == DECISION]
        gathered = self._gather_chains(self.read_rows("id", decision_ids))
        decisions = [row.node for row in gathered.decisions.values()]
        referring_nodes = [row.node for row in gathered.referring_rows.values()]
        graph = chain.build_graph(decisions)
        return ChainSet(
            graph=graph,
            nodes=graph.nodes,
            referring_nodes=tuple(referring_nodes),
        )

    def _gather_chains(self, start: Iterable[Row]) -> _ChainRows:
        """Collect the decisions that share chains with some rows, wave by wave.

        A wave adds the decisions that have the same key as one of the wave before, replace it or
        are replaced by it. Hidden rows and other records are skipped.
        """
        gathered = _ChainRows({}, {})
        asked_values: dict[str, set[str]] = {"key": set(), "target": set(), "id": set()}
        wave = _index_visible(row for row in start if row.raw_node.type == DECISION)
        while wave:
            gathered.decisions.update(wave)
            wanted_values = _collect_chain_values(wave, gathered.decisions)
            wave = {}
            for field, values in wanted_values.items():
                new_values = values - asked_values[field]
                wave.update(self._gather_wave(gathered, field, new_values))
                asked_values[field] |= values
        return gathered

    def _gather_wave(self, gathered: _ChainRows, field: str, values: set[str]) -> dict[str, Row]:
        """Return the decisions that are new and have one of some values in a field.

        Asked for targets, it also adds all records that refer to them to `gathered`.
        """
        rows = _index_visible(self.read_rows(field, values))
        if field == "target":
            gathered.referring_rows.update(rows)
        wave = {}
        for id_, row in rows.items():
            if row.raw_node.type != DECISION or id_ in gathered.decisions:
                continue
            if field == "target" and values.isdisjoint(row.node.replaced_references):
                continue  # it refers to them, but does not replace them
            wave[id_] = row
        return wave

    def update_facts(self, removed: Iterable[Row], added: Iterable[Row]) -> None:
        """Recompute and write the facts of records that came, and of all that a change touches."""
        removed_rows = list(removed)
        changed_rows = _index_by_path(added)
        changed_names = _collect_names(removed_rows) ^ _collect_names(changed_rows.values())
        referring_rows = self.read_rows("refers", {name.name for name in changed_names})
        changed_rows.update(_index_by_path(referring_rows))
        resolved_rows = self._write_meanings(changed_rows)
        touched_rows = [*removed_rows, *changed_rows.values(), *resolved_rows.values()]
        toggled_rows = self._update_visibility(_collect_ids(touched_rows))
        touched_rows += toggled_rows
        touched_rows += self.read_rows("target", _collect_ids(toggled_rows))
        self._update_touched_decisions(touched_rows)

    def _update_touched_decisions(self, touched_rows: Collection[Row]) -> None:
        """Recompute the facts of records that share an id, a key or a reference with some rows."""
        ids = _collect_ids(touched_rows)
        keys = set()
        for row in touched_rows:
            ids.update(row.targets)
            if row.raw_node.key:
                keys.add(row.raw_node.key)
        rows = _index_by_path(self.read_rows("id", ids))
        rows.update(_index_by_path(self.read_rows("key", keys)))
        self._update_decisions(rows)

    def _write_meanings(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Resolve the references of some records, write the changes and return all rows."""
        references = {name for row in rows.values() for name in row.raw_node.references}
        ids = _collect_ids(self.read_rows("id", references))
        resolved_rows = self._resolve_references(rows, ids)
        self._write_changes(rows, resolved_rows)
        return resolved_rows

    def update_all_facts(self, all_rows: Iterable[Row]) -> None:
        """Recompute the facts of all records at once and write the changes."""
        old_rows = _index_by_path(all_rows)
        ids = _collect_ids(old_rows.values())
        resolved_rows = self._resolve_references(old_rows, ids)
        rows = _apply_visibility(resolved_rows, ids)
        visible_rows = [row for row in rows.values() if row.is_visible]
        new_rows = _apply_chain_facts(rows, decisions=visible_rows, referring_rows=visible_rows)
        self._write_changes(old_rows, new_rows)

    def _resolve_references(self, rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
        """Return rows with the meanings of their references that are not one of some ids."""
        names_by_path = {}
        spellings: set[str] = set()
        for path, row in rows.items():
            names = [name for name in row.raw_node.references if name not in ids]
            names_by_path[path] = names
            for name in names:
                spellings.update(iter_readings(name, row.raw_node.folder))
        named_rows = self.read_rows("name", spellings)
        index = build_reference_index(build_stub_record(row.raw_node) for row in named_rows)
        resolved_rows = {}
        for path, row in rows.items():
            meanings = {}
            for name in names_by_path[path]:
                target = resolve_reference(name, index, row.raw_node.folder)
                if target:
                    meanings[name] = target
            is_unchanged = row.meanings == meanings
            resolved_rows[path] = row if is_unchanged else row._replace(meanings=meanings)
        return resolved_rows

    def _update_visibility(self, ids: set[str]) -> list[Row]:
        """Recompute which records with some ids are visible; write and return the changes."""
        rows = _index_by_path(self.read_rows("id", ids))
        return self._write_changes(rows, _apply_visibility(rows, ids))

    def _update_decisions(self, rows: Mapping[str, Row]) -> None:
        """Recompute the facts of some records from the chains that they belong to."""
        gathered = self._gather_chains(rows.values())
        old_rows = _index_by_path(gathered.decisions.values())
        old_rows.update(rows)
        new_rows = _apply_chain_facts(
            old_rows,
            decisions=gathered.decisions.values(),
            referring_rows=gathered.referring_rows.values(),
        )
        self._write_changes(old_rows, new_rows)

    def _write_changes(self, old_rows: Mapping[str, Row], new_rows: Mapping[str, Row]) -> list[Row]:
        """Write the new rows that differ from the old one under their path; return these."""
        changed_rows = [row for path, row in new_rows.items() if row != old_rows[path]]
        self.write_rows(changed_rows)
        return changed_rows


def _collect_chain_values(
    wave: Mapping[str, Row], decisions: Mapping[str, Row]
) -> dict[str, set[str]]:
    """Return by field the values by which the decisions next to a wave are found."""
    values: dict[str, set[str]] = {"key": set(), "target": set(wave), "id": set()}
    for row in wave.values():
        node = row.node
        if node.key:
            values["key"].add(node.key)
        values["id"].update(node.replaced_references)
    values["id"].difference_update(decisions)
    return values


def _apply_visibility(rows: Mapping[str, Row], ids: Collection[str]) -> dict[str, Row]:
    """Return rows of which, for each of some ids, only the oldest is visible."""
    oldest: dict[str, Row] = {}
    for row in sorted(rows.values(), key=_get_sort_key, reverse=True):
        oldest[row.raw_node.id] = row
    updated_rows = dict(rows)
    for path, row in rows.items():
        id_ = row.raw_node.id
        is_visible = row is oldest[id_]
        if row.is_visible != is_visible and id_ in ids:
            updated_rows[path] = row._replace(is_visible=is_visible)
    return updated_rows


def _get_sort_key(row: Row) -> Any:
    return row.raw_node.sort_key


def _apply_chain_facts(
    rows: Mapping[str, Row], *, decisions: Iterable[Row], referring_rows: Iterable[Row]
) -> dict[str, Row]:
    """Return rows with the facts that follow from all chains they belong to.

    Args:
        rows: by path.
        decisions: all decisions of these chains.
        referring_rows: all records that refer to one of the decisions.
    """
    graph = chain.build_graph(row.node for row in decisions if row.raw_node.type == DECISION)
    facts = graph.build_facts(row.node for row in referring_rows)
    topic_entries = {}
    for family in graph.list_families():
        last_id = family.members[-1]
        topic_entries[last_id] = _build_topic_entry(graph, family)
    updated_rows = {}
    for path, row in rows.items():
        id_ = row.raw_node.id
        entry = _NO_TOPIC_ENTRY
        row_facts = NO_FACTS
        is_live = False
        if row.is_visible:
            entry = topic_entries.get(id_, _NO_TOPIC_ENTRY)
            row_facts = facts.get(id_, NO_FACTS)
            is_live = row.raw_node.type != DECISION or graph.is_head(id_)
        updated_rows[path] = row._replace(
            is_live=is_live,
            topic_sort_key=entry.sort_key,
            topic_search_text=entry.search_text,
            facts=row_facts,
        )
    return updated_rows


class _TopicEntry(NamedTuple):
    """A topic in the list of all topics."""

    sort_key: str
    search_text: str


_NO_TOPIC_ENTRY = _TopicEntry("", "")


def _build_topic_entry(graph: chain.Graph, family: chain.Family) -> _TopicEntry:
    """Return the entry of a topic: it sorts by ADR number, then by key or path."""
    last_decision = graph.nodes[family.members[-1]]
    newest = last_decision
    title = ""
    if family.heads:
        heads = [graph.nodes[head] for head in family.heads]
        newest = max(heads, key=lambda node: node.sort_key)
        title = newest.title
    number = parse_adr_number(newest.path, newest.id) or 0
    if family.key:
        sort_key = f"{number:09} 0 {family.key}"
        file_name = ""
    else:
        sort_key = f"{number:09} 1 {last_decision.path}"
        file_name = newest.path.rpartition("/")[2]
    search_text = build_topic_key(f"{last_decision.topic} {title} {file_name}")
    return _TopicEntry(sort_key, search_text)


def _index_by_path(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.raw_node.path: row for row in rows}


def _index_visible(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the visible ones of some rows by id."""
    return {row.raw_node.id: row for row in rows if row.is_visible}


def _collect_ids(rows: Iterable[Row]) -> set[str]:
    return {row.raw_node.id for row in rows}


class _OwnedName(NamedTuple):
    """A name of a record. Two records with one name may differ in how strongly they have it."""

    name: str
    strength: int
    id: str
    type: str


def _collect_names(rows: Iterable[Row]) -> set[_OwnedName]:
    names = set()
    for row in rows:
        node = row.raw_node
        for strength, name in iter_names(build_stub_record(node)):
            names.add(_OwnedName(name, strength, id=node.id, type=node.type))
    return names
