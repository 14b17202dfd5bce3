"""The SQLite database of powermem: each memory an observation.

A memory that names a user is about a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.errors import BadInput
from filemem.importers.source import Row, open_database
from filemem.importers.values import to_line, to_mapping, to_milliseconds, to_text
from filemem.memory.ingest import Item
from filemem.record import OBSERVATION

_SCORE_FIELDS = (
    "intelligence",
    "memory_management",
    "importance_score",
    "access_count",
    "scope",
    "memory_type",
    "processing_applied",
)
_OWNER_FIELDS = ("user_id", "agent_id", "run_id")


def read(source: Path) -> Iterator[Item]:
    """The memories of every collection of a database. Raises BadInput: it has none."""
    with open_database(source) as source_database:
        # The database also holds the full-text indexes of its collections, with other columns.
        collections = source_database.list_tables("id", "payload")
        if not collections:
            hint = "name the database that SQLITE_PATH names"
            raise BadInput(f"{source} has no memories of powermem", hint, field="source")
        for table in collections:
            yield from map(_build_item, source_database.iter_rows(table))


def _build_item(row: Row) -> Item:
    payload = to_mapping(row["payload"])
    metadata = to_mapping(payload.get("metadata"))
    fields: dict[str, Any] = {name: to_line(payload.get(name)) for name in _OWNER_FIELDS}
    fields |= {
        "text": to_text(payload.get("data")) or to_text(row.get("fulltext_content")),
        "kind": "memory",
        "scope": to_line(metadata.get("scope")),
        "memory_type": to_line(payload.get("category")),  # the other is a stage of its forgetting
        "metadata": {name: value for name, value in metadata.items() if name not in _SCORE_FIELDS},
    }
    created = to_milliseconds(payload.get("created_at")) or to_milliseconds(row.get("created_at"))
    return Item(
        to_text(row["id"]), OBSERVATION, created, fields, is_personal=bool(fields["user_id"])
    )
