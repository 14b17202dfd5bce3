"""Import MAMA's database: decisions with their edges and outcomes, and checkpoints.

A missing column, which an older version may lack, counts as empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filemem.importers.source import Database, Row, open_database
from filemem.importers.values import render_sections, to_items, to_line, to_milliseconds, to_text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, EDGE_KINDS, OBSERVATION, Outcome, parse_outcome

_OWN_EDGE_KINDS = {"refines": "builds_on", "contradicts": "debates"}  # MAMA's word -> ours
_OBSERVATION_KINDS = ("constraint", "lesson", "fact", "task", "schedule", "preference")
_STATUS_BY_STATE = {"stale": "deprecated", "contradicted": "deprecated"}
_EdgesById = Mapping[str, Mapping[str, list[str]]]


def read(source: Path) -> Iterator[Item]:
    """Read the decisions and checkpoints of a database."""
    with open_database(source, "decisions", "checkpoints") as database:
        rows = {to_text(row["id"]): row for row in database.iter_rows("decisions")}
        edges = _map_edges(rows, database.iter_rows("decision_edges"))
        scopes = _map_scopes(database)
        for decision_id, row in rows.items():
            own_scopes = scopes.get(decision_id, {})
            yield _build_item(decision_id, row, edges[decision_id], own_scopes)
        for row in database.iter_rows("checkpoints"):
            yield _build_checkpoint(row)


def _map_scopes(database: Database) -> Mapping[str, Mapping[str, str]]:
    """Map decisions to the names of their scopes by kind."""
    scopes = {}
    for row in database.iter_rows("memory_scopes"):
        kind = to_text(row.get("kind"))
        scopes[row.get("id")] = (kind, to_text(row.get("external_id")))
    scopes_by_decision: dict[str, dict[str, str]] = defaultdict(dict)
    for row in database.iter_rows("memory_scope_bindings"):
        kind, name = scopes.get(row.get("scope_id"), ("", ""))
        decision_id = to_text(row.get("memory_id"))
        scopes_by_decision[decision_id][kind] = name
    return scopes_by_decision


def _build_item(
    decision_id: str, row: Row, edges: Mapping[str, list[str]], scopes: Mapping[str, str]
) -> Item:
    """Build the item of a row of decisions, a table that has other kinds of memories too."""
    fields = _build_decision_fields(row)
    item = Item(
        id=decision_id,
        type=DECISION,
        created=to_milliseconds(row.get("created_at")),
        values=fields,
        extra_fields=_build_extra_fields(row, edges),
        keeps_id=True,
        project=scopes.get("project", ""),
    )
    kind = to_text(row.get("kind"))
    if kind not in _OBSERVATION_KINDS:
        return item
    is_personal = kind == "preference" or "user" in scopes
    observation = {
        "title": to_line(fields["topic"]),
        "tags": (kind,),
        "kind": "memory" if is_personal else "discovery",
        "text": render_sections(("", fields["decision"]), ("", fields["reasoning"])),
    }
    return item._replace(
        type=OBSERVATION, values=observation, extra_fields={}, is_personal=is_personal
    )


def _build_checkpoint(row: Row) -> Item:
    fields = {
        "summary": to_text(row.get("summary")),
        "next_steps": to_text(row.get("next_steps")),
        "open_files": to_items(row.get("open_files")),
    }
    return Item(
        id=f"checkpoint_{row['id']}",
        type=CHECKPOINT,
        created=to_milliseconds(row.get("timestamp")),
        values=fields,
        has_counter_id=True,
    )


def _map_edges(rows: Mapping[str, Row], edge_rows: Iterator[Row]) -> _EdgesById:
    """Map decisions to their edges by kind.

    Edges are in the row of a decision, in rows that refer to it, and in the table of edges.
    """
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for decision_id, row in rows.items():
        own_edges = edges[decision_id]
        own_edges["supersedes"] += to_items(row.get("supersedes"))
        own_edges["builds_on"] += to_items(row.get("refined_from"))
        successor = to_text(row.get("superseded_by"))
        edges[successor]["supersedes"].append(decision_id)
    for row in edge_rows:
        relationship = to_text(row.get("relationship"))
        kind = _OWN_EDGE_KINDS.get(relationship, relationship)
        if kind not in EDGE_KINDS or row.get("approved_by_user") == 0:
            continue
        start = to_text(row.get("from_id"))
        target = to_text(row.get("to_id"))
        edges[start][kind].append(target)
    return edges


def _build_decision_fields(row: Row) -> dict[str, Any]:
    """Build the fields of a decision that a save takes."""
    involvement = to_text(row.get("user_involvement"))
    status = _STATUS_BY_STATE.get(to_text(row.get("status")), "")
    if involvement == "rejected":
        status = "rejected"
    reasoning = render_sections(
        ("", row.get("reasoning")),
        ("Evidence", row.get("evidence")),
        ("Risks", row.get("risks")),
    )
    return {
        "topic": to_line(row.get("topic")),
        "decision": to_text(row.get("decision")),
        "reasoning": reasoning,
        "confidence": row.get("confidence"),
        "outcome": _get_outcome(row),
        "limitation": to_line(row.get("limitation")),
        "decided_by": "user" if involvement in ("requested", "approved") else "",
        "status": status,
        "rejected": to_items(row.get("alternatives")),
        "session": to_line(row.get("session_id")),
    }


def _build_extra_fields(row: Row, edges: Mapping[str, list[str]]) -> dict[str, Any]:
    """Build the fields of a decision that a save does not take: its edges and its outcome."""
    extra_fields: dict[str, Any] = {}
    for kind, ids in edges.items():
        if ids:
            extra_fields[kind] = tuple(dict.fromkeys(ids))
    outcome = _get_outcome(row)
    if outcome != "pending":
        updated = to_milliseconds(row.get("updated_at"))
        time = updated or to_milliseconds(row.get("created_at")) or 0
        reason = to_line(row.get("failure_reason"))
        extra_fields["outcomes"] = (Outcome(time, outcome, reason),)
    return extra_fields


def _get_outcome(row: Row) -> str:
    return parse_outcome(to_text(row.get("outcome"))) or "pending"
