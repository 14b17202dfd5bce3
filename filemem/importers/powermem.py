"""Import the SQLite database of powermem; each memory becomes an observation.

A memory that names a user is about a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Read the memories of every collection of a database. Raises BadInput if it has none."""
    with open_database(source) as database:
        # The database also has the full-text indexes of its collections, with other columns.
        collections = database.list_tables("id", "payload")
        if not collections:
            hint = "name the database that SQLITE_PATH names"
            raise BadInput(f"{source} has no memories of powermem", hint, field="source")
        for table in collections:
            for row in database.iter_rows(table):
                yield _build_item(row)


def _build_item(row: Row) -> Item:
    payload = to_mapping(row["payload"])
    metadata = to_mapping(payload.get("metadata"))
    fields: dict[str, Any] = {name: to_line(payload.get(name)) for name in _OWNER_FIELDS}
    fields["text"] = to_text(payload.get("data")) or to_text(row.get("fulltext_content"))
    fields["kind"] = "memory"
    fields["scope"] = to_line(metadata.get("scope"))
    # `memory_type` of the metadata is a stage of powermem's forgetting.
    fields["memory_type"] = to_line(payload.get("category"))
    fields["metadata"] = _drop_scores(metadata)
    created = to_milliseconds(payload.get("created_at"))
    if not created:
        created = to_milliseconds(row.get("created_at"))
    return Item(
        id=to_text(row["id"]),
        type=OBSERVATION,
        created=created,
        values=fields,
        is_personal=bool(fields["user_id"]),
    )


def _drop_scores(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without fields that powermem computes."""
    return {name: value for name, value in metadata.items() if name not in _SCORE_FIELDS}
