"""The file of the MCP reference server `memory`: each entity an observation, with what it is related to. No times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from filemem.importers.source import lines
from filemem.importers.values import line, sections, text
from filemem.memory.ingest import Item
from filemem.record import OBSERVATION

_PEOPLE = ("person", "people", "user", "human")


def read(source: Path) -> Iterator[Item]:
    """The entities of a file of JSON Lines; of two of one name the first."""
    entities, related = dict[str, dict[str, object]](), defaultdict[str, list[str]](list)
    for row in lines(source):
        if row.get("type") == "entity" and text(row.get("name")):
            entities.setdefault(text(row["name"]), dict(row))
        elif row.get("type") == "relation":
            related[text(row.get("from"))].append(
                f"{text(row.get('relationType'))} [[{text(row.get('to'))}]]"
            )
    for name, row in entities.items():
        kind, told = text(row.get("entityType")), row.get("observations")
        body = sections(
            ("", kind), ("", told if isinstance(told, list) else []), ("Related", related[name])
        )
        given = {
            "title": line(name),
            "text": body,
            "kind": "memory",
            "concepts": (kind,) if kind else (),
        }
        yield Item(name, OBSERVATION, None, given, private=kind.casefold() in _PEOPLE)
