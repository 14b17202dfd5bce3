"""Import the file of the MCP reference server `memory`; each entity becomes an observation.

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
    """Read the entities of a file of JSON Lines; of two with one name, the first counts."""
    entities: dict[str, Row] = {}
    relations: dict[str, list[str]] = defaultdict(list)
    for row in iter_json_lines(source):
        if row.get("type") == "entity":
            name = to_text(row.get("name"))
            if name:
                entities.setdefault(name, row)
        elif row.get("type") == "relation":
            relation_type = to_text(row.get("relationType"))
            target = to_text(row.get("to"))
            start = to_text(row.get("from"))
            relations[start].append(f"{relation_type} [[{target}]]")
    for name, row in entities.items():
        yield _build_item(name, row, relations[name])


def _build_item(name: str, row: Row, relations: list[str]) -> Item:
    kind = to_text(row.get("entityType"))
    observations = row.get("observations")
    if not isinstance(observations, list):
        observations = []
    fields = {
        "title": to_line(name),
        "text": render_sections(("", kind), ("", observations), ("Related", relations)),
        "kind": "memory",
        "concepts": (kind,) if kind else (),
    }
    is_personal = kind.casefold() in _PEOPLE
    return Item(name, OBSERVATION, None, fields, is_personal=is_personal)
