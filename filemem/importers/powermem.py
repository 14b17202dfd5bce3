"""The SQLite database of powermem: each memory an observation.

A memory that names a user is about a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.errors import BadInput
from filemem.importers.source import Row, database
from filemem.importers.values import line, mapping, moment, text
from filemem.memory.ingest import Item
from filemem.record import OBSERVATION

_SCORES = (
    "intelligence",
    "memory_management",
    "importance_score",
    "access_count",
    "scope",
    "memory_type",
    "processing_applied",
)
_NAMES = ("user_id", "agent_id", "run_id")


def read(source: Path) -> Iterator[Item]:
    """The memories of every collection of a database. Raises BadInput: it has none."""
    with database(source) as opened:
        # The database also holds the full-text indexes of its collections, with other columns.
        collections = opened.tables("id", "payload")
        if not collections:
            hint = "name the database that SQLITE_PATH names"
            raise BadInput(f"{source} has no memories of powermem", hint, field="source")
        for table in collections:
            yield from map(_item, opened.rows(table))


def _item(row: Row) -> Item:
    payload = mapping(row["payload"])
    stated = mapping(payload.get("metadata"))
    fields: dict[str, Any] = {name: line(payload.get(name)) for name in _NAMES}
    fields |= {
        "text": text(payload.get("data")) or text(row.get("fulltext_content")),
        "kind": "memory",
        "scope": line(stated.get("scope")),
        "memory_type": line(payload.get("category")),  # the other is a stage of its forgetting
        "metadata": {name: value for name, value in stated.items() if name not in _SCORES},
    }
    created = moment(payload.get("created_at")) or moment(row.get("created_at"))
    return Item(text(row["id"]), OBSERVATION, created, fields, private=bool(fields["user_id"]))
