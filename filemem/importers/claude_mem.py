"""The database of claude-mem, and of mem-claude, its fork: observations, and summaries of sessions.

A summary becomes a checkpoint. A model wrote them, so decisions come in as proposed. Prompts are
skipped: they hold what nobody meant to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.importers.source import Row, open_database
from filemem.importers.values import (
    render_sections,
    to_items,
    to_line,
    to_mapping,
    to_milliseconds,
    to_text,
)
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, KINDS, OBSERVATION, VISIBILITIES

_SUMMARY = ("request", "investigated", "learned", "completed", "notes")


def read(source: Path) -> Iterator[Item]:
    """The observations and summaries of a database."""
    tables = {"observations": _build_observation, "session_summaries": _build_checkpoint}
    with open_database(source, *tables) as source_database:
        project_names = {
            to_line(row.get("old_project")): to_line(row.get("new_project"))
            for row in source_database.iter_rows("project_aliases")
        }
        for table, item in tables.items():
            for row in source_database.iter_rows(table):
                project = to_line(row.get("project"))
                created = row.get("created_at_epoch") or row.get("created_at")
                common_fields: dict[str, Any] = {
                    "created": to_milliseconds(created),
                    "project": project_names.get(project, project),
                    "has_counter_id": True,
                }
                yield item(row)._replace(id=f"{project}/{table}/{row['id']}", **common_fields)


def _build_observation(row: Row) -> Item:
    title = to_line(row.get("title"))
    kind = to_text(row.get("type"))
    visibility = to_text(row.get("visibility")).casefold()
    body = render_sections(*(("", row.get(name)) for name in ("subtitle", "narrative", "text")))
    facts, concepts, modified_files = (
        to_items(row.get(name)) for name in ("facts", "concepts", "files_modified")
    )
    fields: dict[str, Any] = {
        "agent": to_line(row.get("agent")).replace("legacy", ""),
        "session": to_line(row.get("memory_session_id")),
    }
    if kind == DECISION and visibility != "private":
        fields |= {"decision": title or body, "status": "proposed", "tags": concepts}
        fields["reasoning"] = render_sections(("", body if title else ""), ("Known", list(facts)))
        fields["affects"] = [path for path in modified_files if not path.startswith("/")]
        return Item("", DECISION, None, fields)
    fields |= {"title": title, "text": body, "facts": facts, "concepts": concepts}
    fields |= {"files_read": to_items(row.get("files_read")), "files_modified": modified_files}
    fields["kind"] = kind if kind in KINDS else "discovery"
    fields["visibility"] = visibility if visibility in VISIBILITIES else ""
    fields["project"] = to_line(row.get("project"))
    fields["department"] = to_line(row.get("department")).replace("default", "")
    fields["metadata"] = to_mapping(row.get("metadata"))
    return Item("", OBSERVATION, None, fields, is_personal=visibility == "private")


def _build_checkpoint(row: Row) -> Item:
    parts = {name: "" if name == "request" else name.capitalize() for name in _SUMMARY}
    fields = {
        "summary": render_sections(*((heading, row.get(name)) for name, heading in parts.items())),
        "next_steps": to_text(row.get("next_steps")),
        "open_files": to_items(row.get("files_edited")),
        "session": to_line(row.get("memory_session_id")),
    }
    return Item("", CHECKPOINT, None, fields)
