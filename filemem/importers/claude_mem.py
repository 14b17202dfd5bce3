"""The database of claude-mem, and of mem-claude, its fork: observations, and summaries of sessions as checkpoints.

A model wrote them, so decisions come in as proposed. Prompts are skipped: they hold what nobody meant to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from filemem.importers.source import Row, database
from filemem.importers.values import items, moment, sections, text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, KINDS, OBSERVATION, VISIBILITIES


def read(source: Path) -> Iterator[Item]:
    """The observations and summaries of a database."""
    with database(source, "observations", "session_summaries") as found:
        renamed = {row.get("old_project"): row.get("new_project") for row in found.rows("project_aliases")}
        for row in found.rows("observations"):
            yield _observation(row, _project(row, renamed))
        for row in found.rows("session_summaries"):
            yield _summary(row, _project(row, renamed))


def _project(row: Row, renamed: dict[object, object]) -> str:
    return text(renamed.get(row.get("project"), row.get("project")))


def _created(row: Row) -> int | None:
    return moment(row.get("created_at_epoch")) or moment(row.get("created_at"))


def _observation(row: Row, project: str) -> Item:
    title, files = text(row.get("title")), {name: items(row.get(name)) for name in ("files_read", "files_modified")}
    body = sections(("", row.get("subtitle")), ("", row.get("narrative")), ("", row.get("text")))
    kind, visibility = text(row.get("type")), text(row.get("visibility"))
    common: dict[str, Any] = {
        "agent": text(row.get("agent")).replace("legacy", ""),
        "session": text(row.get("memory_session_id"))[:500],
    }
    private = visibility == "private"
    made = partial(Item, f"observation:{row['id']}", created=_created(row), project=project, counted=True)
    if kind == DECISION and not private:
        why = sections(("", body), ("Known", list(items(row.get("facts")))))
        words = {"decision": title or body, "reasoning": why if title else "", "tags": items(row.get("concepts"))}
        given = {**words, "affects": files["files_modified"], "status": "proposed", **common}
        return made(type=DECISION, given=given)
    given = {
        "title": title[:500],
        "text": body,
        "kind": kind if kind in KINDS else "discovery",
        "project": project[:500],
        "facts": items(row.get("facts")),
        "concepts": items(row.get("concepts")),
        "department": text(row.get("department")).replace("default", ""),
        "visibility": visibility if visibility in VISIBILITIES else "",
        **files,
        **common,
    }
    return made(type=OBSERVATION, given=given, private=private)


def _summary(row: Row, project: str) -> Item:
    summary = sections(
        ("", row.get("request")),
        ("Investigated", row.get("investigated")),
        ("Learned", row.get("learned")),
        ("Completed", row.get("completed")),
        ("Notes", row.get("notes")),
    )
    given = {
        "summary": summary,
        "next_steps": text(row.get("next_steps")),
        "open_files": items(row.get("files_edited")),
        "session": text(row.get("memory_session_id"))[:500],
    }
    one = f"summary:{row['id']}"
    return Item(one, CHECKPOINT, _created(row), given, project=project, counted=True)
