"""The SQLite database of powermem: each memory an observation. What names a user is about a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.importers.source import database
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
)
_NAMES = ("user_id", "agent_id", "run_id")


def read(source: Path) -> Iterator[Item]:
    """The memories of every collection of a database."""
    with database(source) as found:
        for table in found.tables():
            for row in found.rows(table):
                if not {"id", "payload"} <= row.keys():
                    break  # no collection
                payload = mapping(row["payload"])
                stated = mapping(payload.get("metadata"))
                given: dict[str, Any] = {name: line(payload.get(name)) for name in _NAMES}
                given |= {
                    "text": text(payload.get("data")) or text(row.get("fulltext_content")),
                    "kind": "memory",
                    "scope": line(stated.get("scope")),
                    "memory_type": line(payload.get("category") or stated.get("memory_type")),
                    "metadata": {
                        name: value for name, value in stated.items() if name not in _SCORES
                    },
                }
                created = moment(payload.get("created_at")) or moment(row.get("created_at"))
                yield Item(
                    text(row["id"]), OBSERVATION, created, given, private=bool(given["user_id"])
                )
