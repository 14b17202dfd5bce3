"""Import the database of claude-mem, or of its fork mem-claude: observations and summaries.

The summary of a session becomes a checkpoint. A model wrote them, so decisions are imported as
proposed. Prompts are skipped, as they were not meant to be kept.
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

# The columns of a summary, and their headings.
_SUMMARY = {
    "request": "",
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "notes": "Notes",
}


def read(source: Path) -> Iterator[Item]:
    """Read the observations and summaries of a database."""
    builders = {"observations": _build_observation, "session_summaries": _build_checkpoint}
    with open_database(source, *builders) as database:
        new_names = {}
        for row in database.iter_rows("project_aliases"):
            old_name = to_line(row.get("old_project"))
            new_names[old_name] = to_line(row.get("new_project"))
        for table, build_item in builders.items():
            for row in database.iter_rows(table):
                project = to_line(row.get("project"))
                created = row.get("created_at_epoch") or row.get("created_at")
                yield build_item(row)._replace(
                    id=f"{project}/{table}/{row['id']}",
                    created=to_milliseconds(created),
                    project=new_names.get(project, project),
                    has_counter_id=True,
                )


def _build_observation(row: Row) -> Item:
    """Build an observation without id, or a proposed decision."""
    kind = to_text(row.get("type"))
    visibility = to_text(row.get("visibility")).casefold()
    is_private = visibility == "private"
    if kind == DECISION and not is_private:
        values = _build_decision_fields(row)
        return Item(id="", type=DECISION, created=None, values=values)
    fields = _build_common_fields(row)
    fields["text"] = _render_text(row)
    for name in ("title", "project", "department"):
        fields[name] = to_line(row.get(name))
    fields["department"] = fields["department"].replace("default", "")
    for name in ("facts", "concepts", "files_read", "files_modified"):
        fields[name] = to_items(row.get(name))
    fields["kind"] = "discovery"
    if kind in KINDS:
        fields["kind"] = kind
    if visibility in VISIBILITIES:
        fields["visibility"] = visibility
    fields["metadata"] = to_mapping(row.get("metadata"))
    return Item(id="", type=OBSERVATION, created=None, values=fields, is_personal=is_private)


def _build_common_fields(row: Row) -> dict[str, Any]:
    return {
        "agent": to_line(row.get("agent")).replace("legacy", ""),
        "session": to_line(row.get("memory_session_id")),
    }


def _build_decision_fields(row: Row) -> dict[str, Any]:
    """Build the fields of a decision; without a title, the text is the decision."""
    decision = to_line(row.get("title"))
    reasoning = _render_text(row)
    if not decision:
        decision = reasoning
        reasoning = ""
    facts = list(to_items(row.get("facts")))
    modified_files = to_items(row.get("files_modified"))
    fields = _build_common_fields(row)
    fields["decision"] = decision
    fields["status"] = "proposed"
    fields["tags"] = to_items(row.get("concepts"))
    fields["reasoning"] = render_sections(("", reasoning), ("Known", facts))
    fields["affects"] = [path for path in modified_files if not path.startswith("/")]
    return fields


def _render_text(row: Row) -> str:
    return render_sections(
        ("", row.get("subtitle")),
        ("", row.get("narrative")),
        ("", row.get("text")),
    )


def _build_checkpoint(row: Row) -> Item:
    """Build a checkpoint without id."""
    sections = [(heading, row.get(column)) for column, heading in _SUMMARY.items()]
    fields = {
        "summary": render_sections(*sections),
        "next_steps": to_text(row.get("next_steps")),
        "open_files": to_items(row.get("files_edited")),
        "session": to_line(row.get("memory_session_id")),
    }
    return Item(id="", type=CHECKPOINT, created=None, values=fields)
