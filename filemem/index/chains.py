"""What depends on several files: what a reference means, which decision holds, which of two with one id is shown.

Rule: such facts stand beside the documents, never in one. A change works them out anew for what it touches alone: the
records that refer to a name which came or went, and the decisions of the same chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from filemem import chain
from filemem.chain import Node
from filemem.index.generation import UNSTATED, Database, Row, bare
from filemem.record import (
    DECISION,
    adr_number,
    answering,
    names_of,
    readings,
    reference_index,
    resolve_reference,
    topic_key,
)


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

    def store(self, changes: Mapping[str, Row | None]) -> None:
        """Put rows in place of those of their paths."""
        raise NotImplementedError

    def answering(self, name: str) -> list[Row]:
        """Return the records that a name may mean, one where it is clear."""
        key = topic_key(name)
        rows = self.rows("name", [*readings(name), *([UNSTATED + key] if key else [])])
        by_id = {row.written.id: row for row in rows if row.shown}
        ids = answering(name, (bare(row.written) for row in by_id.values()))
        return [by_id[each] for each in ids] or [
            row for row in by_id.values() if not row.written.stated
        ]

    def around(self, nodes: Iterable[Node]) -> Around:
        """Return the chains that some records belong to."""
        start = self.rows("id", [node.id for node in nodes if node.type == DECISION])
        found, pointing = self._gather(row for row in start if row.shown)
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
        names = _names(old) ^ _names(rows.values())
        rows |= _by_path(self.rows("refers", {name for name, _, _ in names}))
        turned = self._resolved(rows)
        self.store({path: row for path, row in turned.items() if row.meant != rows[path].meant})
        touched = [*old, *rows.values(), *turned.values()]
        ids = {row.written.id for row in touched}
        ids.update(target for row in touched for target in row.node.replaces)
        keys = {row.written.key for row in touched} - {""}
        self._decide(_by_path([*self.rows("id", ids), *self.rows("key", keys)]), ids)

    def _resolved(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Work out what the references of some records mean, of those that are no ids."""
        referring = {path: row.written for path, row in rows.items() if row.written.references}
        references = {each for node in referring.values() for each in node.references}
        others = references - {row.written.id for row in self.rows("id", references)}
        names = {
            path: [each for each in node.references if each in others]
            for path, node in referring.items()
        }
        asked = {
            name
            for path, own in names.items()
            for each in own
            for name in readings(each, referring[path].folder)
        }
        known = reference_index(bare(row.written) for row in self.rows("name", asked))
        found = {}
        for path, row in rows.items():
            meant = {
                each: resolve_reference(each, known, row.written.folder)
                for each in names.get(path, ())
            }
            found[path] = row._replace(meant={each: one for each, one in meant.items() if one})
        return found

    def _decide(self, rows: dict[str, Row], ids: set[str]) -> None:
        """Work out which of the records with one of some ids are shown, and which decisions among them hold."""
        eldest: dict[str, Row] = {}
        for row in sorted(rows.values(), key=lambda row: row.written.age, reverse=True):
            eldest[row.written.id] = row
        shown = {
            path: row._replace(shown=row is eldest[row.written.id])
            for path, row in rows.items()
            if row.written.id in ids
        }
        self.store({path: row for path, row in shown.items() if row != rows[path]})
        rows = rows | shown
        found, _ = self._gather(row for row in rows.values() if row.shown)
        graph = chain.resolve(row.node for row in found.values())
        rows = _by_path(found.values()) | rows
        listed = {one.members[-1]: _listing(graph, one) for one in graph.families()}
        after = {}
        for path, row in rows.items():
            live = row.shown and (row.written.type != DECISION or graph.is_head(row.written.id))
            place, names = listed.get(row.written.id, ("", "")) if row.shown else ("", "")
            after[path] = row._replace(live=live, place=place, names=names)
        self.store({path: row for path, row in after.items() if row != rows[path]})


class Catalog(Database, Chains):
    """The same, in the database of an index."""


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


def _names(rows: Iterable[Row]) -> set[tuple[str, int, str]]:
    """Each name with its strength and whose it is."""
    return {
        (name, strength, row.written.id)
        for row in rows
        for strength, name in names_of(bare(row.written))
    }
