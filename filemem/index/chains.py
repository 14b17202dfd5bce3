"""What depends on several files: what a reference means, which decision holds, which of two with one id is shown.

Rule: such facts stand beside the documents, never in one. A change works them out anew for what it touches alone: the
records that refer to a name which came or went, and the decisions of the same chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem import chain
from filemem.index.document import Node, chain_node
from filemem.index.generation import UNSTATED, Database, Row, bare
from filemem.record import DECISION, answering, names_of, readings, resolve_reference, topic_key

_MOST = 5_000  # decisions gathered for one question; a chain longer than this is shown in part


class Around(NamedTuple):
    """The chains that some records belong to.

    Args:
        graph: who supersedes whom, and what holds.
        nodes: the decisions in it by id, references resolved.
        pointing: every record that was met and refers to one of them, by whatever edge.
    """

    graph: chain.Graph
    nodes: dict[str, Node]
    pointing: tuple[Node, ...]


class Catalog(Database):
    """The records of a state, and the questions that need several of them."""

    def answering(self, name: str) -> list[Row]:
        """Return the records that a name may mean, one where it is clear."""
        key = topic_key(name)
        rows = self.rows("name", [*readings(name), *([UNSTATED + key] if key else [])])
        by_id = {row.written.id: row for row in rows if row.shown}
        ids = answering(name, (bare(row.written) for row in by_id.values()))
        return [by_id[each] for each in ids] or [row for row in by_id.values() if not row.written.stated]

    def around(self, nodes: Iterable[Node] | None) -> Around:
        """Return the chains that some records belong to, or all."""
        if nodes is None:  # read once, and not wave by wave
            rows = self.every()
            decisions = {row.written.id: row.node for row in rows if row.written.type == DECISION}
            met = tuple(row.node for row in rows if not decisions.keys().isdisjoint(row.node.references))
            return Around(_graph(row for row in rows if row.written.id in decisions), decisions, met)
        start = self.rows("id", [node.id for node in nodes if node.type == DECISION])
        found, pointing = self._gather((row for row in start if row.shown), _MOST)
        resolved = {row.written.id: row.node for row in found.values()}
        return Around(_graph(found.values()), resolved, tuple(row.node for row in pointing.values()))

    def _gather(self, start: Iterable[Row], most: int) -> tuple[dict[str, Row], dict[str, Row]]:
        """Collect every decision on which the places of some depend, and all that point to one of them, by id."""
        found: dict[str, Row] = {}
        pointing: dict[str, Row] = {}
        asked: dict[str, set[str]] = {"key": set(), "target": set(), "id": set()}
        wave = {row.written.id: row for row in start if row.written.type == DECISION}
        while wave and len(found) < most:
            found.update(wave)
            nodes = [row.node for row in wave.values()]
            wants = {
                "key": {node.key for node in nodes if node.key} - asked["key"],
                "target": wave.keys() - asked["target"],
                "id": {target for node in nodes for target in node.replaces if target not in found} - asked["id"],
            }
            wave = {}
            for field, values in wants.items():
                asked[field] |= values
                for row in filter(lambda row: row.shown, self.rows(field, values)):
                    if field == "target":
                        pointing[row.written.id] = row
                    belongs = field != "target" or not values.isdisjoint(row.node.replaces)
                    if belongs and row.written.type == DECISION and row.written.id not in found:
                        wave[row.written.id] = row
        return found, pointing

    def put(self, changes: Mapping[str, Row | None]) -> None:
        """Put records in place of those of their paths, None for those that are gone; then what follows from it."""
        old = self.rows("path", changes)
        self.store(changes)
        rows = {path: row for path, row in changes.items() if row is not None}
        every = not self.covers and self.total == len(rows)
        if not every:
            names = _names(old) ^ _names(rows.values())
            rows |= _by_path(self.rows("refers", {name for name, _, _ in names}))
        known = _Meanings(self)
        turned = {path: row._replace(meant=known.of(row.written)) for path, row in rows.items()}
        self.store({path: row for path, row in turned.items() if row.meant != rows[path].meant})
        if every:
            self._decide(turned, {row.written.id for row in turned.values()}, every=True)
            return
        touched = [*old, *rows.values(), *turned.values()]
        ids = {row.written.id for row in touched}
        ids.update(target for row in touched for target in row.node.replaces)
        keys = {row.written.key for row in touched} - {""}
        self._decide(_by_path([*self.rows("id", ids), *self.rows("key", keys)]), ids, every=False)

    def _decide(self, rows: dict[str, Row], ids: set[str], *, every: bool) -> None:
        """Work out which of the records with one of some ids are shown, and which decisions among them hold."""
        eldest: dict[str, Row] = {}
        for row in sorted(rows.values(), key=lambda row: row.age, reverse=True):
            eldest[row.written.id] = row
        shown = {
            path: row._replace(shown=row is eldest[row.written.id])
            for path, row in rows.items()
            if row.written.id in ids
        }
        self.note_facts(rows, shown)
        rows = rows | shown
        found = {row.written.id: row for row in rows.values() if row.shown and row.written.type == DECISION}
        if not every:
            found = self._gather(found.values(), 1 << 62)[0]
        graph = _graph(found.values())
        rows = _by_path(found.values()) | rows
        lives = {row.written.id: row.written.type != DECISION or graph.is_head(row.written.id) for row in rows.values()}
        self.note_facts(
            rows, {path: row._replace(live=row.shown and lives[row.written.id]) for path, row in rows.items()}
        )


class _Meanings(Mapping[str, "str | None"]):
    """How records may be called -> the id of the one that is meant, None where several are: looked up as asked."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, str | None] = {}

    def of(self, node: Node) -> dict[str, str]:
        """Return what the references of a node mean, of those that are no ids."""
        others = (each for each in node.references if not self._catalog.rows("id", [each]))
        found = {each: resolve_reference(each, self, node.folder) for each in others}
        return {each: meant for each, meant in found.items() if meant}

    def __getitem__(self, name: str) -> str | None:
        if name not in self._known:
            found: dict[int, set[str]] = {}
            for row in self._catalog.rows("name", [name]):
                for strength, each in names_of(bare(row.written)):
                    if each == name:
                        found.setdefault(strength, set()).add(row.written.id)
            ids = found[max(found)] if found else set()
            self._known[name] = ids.pop() if len(ids) == 1 else None
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _by_path(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.written.path: row for row in rows}


def _names(rows: Iterable[Row]) -> set[tuple[str, int, str]]:
    """Each name with its strength and whose it is."""
    return {(name, strength, row.written.id) for row in rows for strength, name in names_of(bare(row.written))}


def _graph(rows: Iterable[Row]) -> chain.Graph:
    return chain.resolve(chain_node(row.node)._replace(created=row.created) for row in rows)
