"""MAMA's database: decisions with their edges and outcomes, and checkpoints.

Columns that a version lacks count as empty.
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

_EDGE_KINDS = {
    **{kind: kind for kind in EDGE_KINDS},
    "refines": "builds_on",
    "contradicts": "debates",
}
_OBSERVATION_KINDS = ("constraint", "lesson", "fact", "task", "schedule", "preference")
_EXTRA_SECTIONS = ("evidence", "risks")
_STATUS_BY_STATE = {"stale": "deprecated", "contradicted": "deprecated"}
_EdgesById = Mapping[str, Mapping[str, list[str]]]


def read(source: Path) -> Iterator[Item]:
    """The decisions and checkpoints of a database."""
    with open_database(source, "decisions", "checkpoints") as source_database:
        rows = {to_text(row["id"]): row for row in source_database.iter_rows("decisions")}
        edges = _map_edges(rows, source_database.iter_rows("decision_edges"))
        scopes = _map_scopes(source_database)
        for id_, row in rows.items():
            yield _build_item(id_, row, edges[id_], scopes.get(id_, {}))
        yield from map(_build_checkpoint, source_database.iter_rows("checkpoints"))


def _map_scopes(source_database: Database) -> Mapping[str, Mapping[str, str]]:
    """The scopes that each decision is bound to: their names by kind."""
    scopes = {
        row.get("id"): (to_text(row.get("kind")), to_text(row.get("external_id")))
        for row in source_database.iter_rows("memory_scopes")
    }
    scopes_by_memory: dict[str, dict[str, str]] = defaultdict(dict)
    for row in source_database.iter_rows("memory_scope_bindings"):
        kind, name = scopes.get(row.get("scope_id"), ("", ""))
        scopes_by_memory[to_text(row.get("memory_id"))][kind] = name
    return scopes_by_memory


def _build_item(
    id_: str, row: Row, edges: Mapping[str, list[str]], scopes: Mapping[str, str]
) -> Item:
    """The item of a row of decisions, which holds other kinds of memories too."""
    fields, extra_fields = _build_decision_fields(row, edges)
    created = to_milliseconds(row.get("created_at"))
    item = Item(
        id_,
        DECISION,
        created,
        fields,
        extra_fields,
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
    created = to_milliseconds(row.get("timestamp"))
    return Item(f"checkpoint_{row['id']}", CHECKPOINT, created, fields, has_counter_id=True)


def _map_edges(rows: Mapping[str, Row], edge_rows: Iterator[Row]) -> _EdgesById:
    """The edges of each decision by kind.

    They are stated by its own row, by the rows that name it, and by the table of edges.
    """
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id_, row in rows.items():
        edges[id_]["supersedes"] += to_items(row.get("supersedes"))
        edges[id_]["builds_on"] += to_items(row.get("refined_from"))
        edges[to_text(row.get("superseded_by"))]["supersedes"].append(id_)
    for row in edge_rows:
        kind = _EDGE_KINDS.get(to_text(row.get("relationship")))
        if kind and row.get("approved_by_user") != 0:
            edges[to_text(row.get("from_id"))][kind].append(to_text(row.get("to_id")))
    return edges


def _build_decision_fields(
    row: Row, edges: Mapping[str, list[str]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a decision, and those that a save does not take."""
    outcome = parse_outcome(to_text(row.get("outcome"))) or "pending"
    involvement = to_text(row.get("user_involvement"))
    status = _STATUS_BY_STATE.get(to_text(row.get("status")), "")
    extra_sections = [(name.capitalize(), row.get(name)) for name in _EXTRA_SECTIONS]
    fields = {
        "topic": to_line(row.get("topic")),
        "decision": to_text(row.get("decision")),
        "reasoning": render_sections(("", row.get("reasoning")), *extra_sections),
        "confidence": row.get("confidence"),
        "outcome": outcome,
        "limitation": to_line(row.get("limitation")),
        "decided_by": "user" if involvement in ("requested", "approved") else "",
        "status": "rejected" if involvement == "rejected" else status,
        "rejected": to_items(row.get("alternatives")),
        "session": to_line(row.get("session_id")),
    }
    extra_fields: dict[str, Any] = {
        kind: tuple(dict.fromkeys(ids)) for kind, ids in edges.items() if ids
    }
    if outcome != "pending":
        time = to_milliseconds(row.get("updated_at")) or to_milliseconds(row.get("created_at")) or 0
        extra_fields["outcomes"] = (Outcome(time, outcome, to_line(row.get("failure_reason"))),)
    return fields, extra_fields
