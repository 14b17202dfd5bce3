"""The file of the MCP reference server `memory`: each entity an observation with its relations.

The file states no times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import Row, lines
from filemem.importers.values import line, sections, text
from filemem.memory.ingest import Item
from filemem.record import OBSERVATION

_PEOPLE = ("person", "people", "user", "human")


def read(source: Path) -> Iterator[Item]:
    """The entities of a file of JSON Lines; of two of one name the first."""
    entities: dict[str, Row] = {}
    related: dict[str, list[str]] = defaultdict(list)
    for row in lines(source):
        if row.get("type") == "entity" and text(row.get("name")):
            entities.setdefault(text(row["name"]), row)
        elif row.get("type") == "relation":
            related[text(row.get("from"))].append(
                f"{text(row.get('relationType'))} [[{text(row.get('to'))}]]"
            )
    for name, row in entities.items():
        kind = text(row.get("entityType"))
        stated = row.get("observations")
        observations = stated if isinstance(stated, list) else []
        body = sections(("", kind), ("", observations), ("Related", related[name]))
        fields = {
            "title": line(name),
            "text": body,
            "kind": "memory",
            "concepts": (kind,) if kind else (),
        }
        yield Item(name, OBSERVATION, None, fields, private=kind.casefold() in _PEOPLE)
