"""The file of the MCP reference server `memory`: each entity an observation with its relations.

The file states no times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import Row, iter_json_lines
from filemem.importers.values import render_sections, to_line, to_text
from filemem.memory.ingest import Item
from filemem.record import OBSERVATION

_PEOPLE = ("person", "people", "user", "human")


def read(source: Path) -> Iterator[Item]:
    """The entities of a file of JSON Lines; of two of one name the first."""
    entities: dict[str, Row] = {}
    relations: dict[str, list[str]] = defaultdict(list)
    for row in iter_json_lines(source):
        if row.get("type") == "entity" and to_text(row.get("name")):
            entities.setdefault(to_text(row["name"]), row)
        elif row.get("type") == "relation":
            relations[to_text(row.get("from"))].append(
                f"{to_text(row.get('relationType'))} [[{to_text(row.get('to'))}]]"
            )
    for name, row in entities.items():
        kind = to_text(row.get("entityType"))
        stated_observations = row.get("observations")
        observations = stated_observations if isinstance(stated_observations, list) else []
        body = render_sections(("", kind), ("", observations), ("Related", relations[name]))
        fields = {
            "title": to_line(name),
            "text": body,
            "kind": "memory",
            "concepts": (kind,) if kind else (),
        }
        yield Item(name, OBSERVATION, None, fields, is_personal=kind.casefold() in _PEOPLE)
