"""The database of claude-mem, and of mem-claude, its fork: observations, and summaries of sessions.

A summary becomes a checkpoint. A model wrote them, so decisions come in as proposed. Prompts are
skipped: they hold what nobody meant to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.importers.source import Row, database
from filemem.importers.values import items, line, mapping, moment, sections, text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, KINDS, OBSERVATION, VISIBILITIES

_SUMMARY = ("request", "investigated", "learned", "completed", "notes")


def read(source: Path) -> Iterator[Item]:
    """The observations and summaries of a database."""
    tables = {"observations": _observation, "session_summaries": _summary}
    with database(source, *tables) as opened:
        renamed = {
            line(row.get("old_project")): line(row.get("new_project"))
            for row in opened.rows("project_aliases")
        }
        for table, item in tables.items():
            for row in opened.rows(table):
                project = line(row.get("project"))
                created = row.get("created_at_epoch") or row.get("created_at")
                of_all: dict[str, Any] = {
                    "created": moment(created),
                    "project": renamed.get(project, project),
                    "counted": True,
                }
                yield item(row)._replace(id=f"{project}/{table}/{row['id']}", **of_all)


def _observation(row: Row) -> Item:
    title = line(row.get("title"))
    kind = text(row.get("type"))
    visibility = text(row.get("visibility")).casefold()
    body = sections(*(("", row.get(name)) for name in ("subtitle", "narrative", "text")))
    facts, concepts, changed = (
        items(row.get(name)) for name in ("facts", "concepts", "files_modified")
    )
    fields: dict[str, Any] = {
        "agent": line(row.get("agent")).replace("legacy", ""),
        "session": line(row.get("memory_session_id")),
    }
    if kind == DECISION and visibility != "private":
        fields |= {"decision": title or body, "status": "proposed", "tags": concepts}
        fields["reasoning"] = sections(("", body if title else ""), ("Known", list(facts)))
        fields["affects"] = [path for path in changed if not path.startswith("/")]
        return Item("", DECISION, None, fields)
    fields |= {"title": title, "text": body, "facts": facts, "concepts": concepts}
    fields |= {"files_read": items(row.get("files_read")), "files_modified": changed}
    fields["kind"] = kind if kind in KINDS else "discovery"
    fields["visibility"] = visibility if visibility in VISIBILITIES else ""
    fields["project"] = line(row.get("project"))
    fields["department"] = line(row.get("department")).replace("default", "")
    fields["metadata"] = mapping(row.get("metadata"))
    return Item("", OBSERVATION, None, fields, private=visibility == "private")


def _summary(row: Row) -> Item:
    parts = {name: "" if name == "request" else name.capitalize() for name in _SUMMARY}
    fields = {
        "summary": sections(*((heading, row.get(name)) for name, heading in parts.items())),
        "next_steps": text(row.get("next_steps")),
        "open_files": items(row.get("files_edited")),
        "session": line(row.get("memory_session_id")),
    }
    return Item("", CHECKPOINT, None, fields)
