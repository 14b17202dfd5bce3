"""MAMA's database: decisions with their edges and outcomes, and checkpoints.

Columns that a version lacks count as empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filemem.importers.source import Database, Row, database
from filemem.importers.values import items, line, moment, sections, text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, EDGE_KINDS, OBSERVATION, Outcome, parse_outcome

_EDGES = {**{kind: kind for kind in EDGE_KINDS}, "refines": "builds_on", "contradicts": "debates"}
_NO_DECISIONS = ("constraint", "lesson", "fact", "task", "schedule", "preference")
_BESIDES = ("evidence", "risks")
_STATUS = {"stale": "deprecated", "contradicted": "deprecated"}
_Edges = Mapping[str, Mapping[str, list[str]]]


def read(source: Path) -> Iterator[Item]:
    """The decisions and checkpoints of a database."""
    with database(source, "decisions", "checkpoints") as opened:
        rows = {text(row["id"]): row for row in opened.rows("decisions")}
        edges = _edges(rows, opened.rows("decision_edges"))
        scopes = _scopes(opened)
        for id_, row in rows.items():
            yield _item(id_, row, edges[id_], scopes.get(id_, {}))
        yield from map(_checkpoint, opened.rows("checkpoints"))


def _scopes(opened: Database) -> Mapping[str, Mapping[str, str]]:
    """The scopes that each decision is bound to: their names by kind."""
    scopes = {
        row.get("id"): (text(row.get("kind")), text(row.get("external_id")))
        for row in opened.rows("memory_scopes")
    }
    bound: dict[str, dict[str, str]] = defaultdict(dict)
    for row in opened.rows("memory_scope_bindings"):
        kind, name = scopes.get(row.get("scope_id"), ("", ""))
        bound[text(row.get("memory_id"))][kind] = name
    return bound


def _item(id_: str, row: Row, edges: Mapping[str, list[str]], scopes: Mapping[str, str]) -> Item:
    """The item of a row of decisions, which holds other kinds of memories too."""
    fields, more = _decision(row, edges)
    created = moment(row.get("created_at"))
    item = Item(id_, DECISION, created, fields, more, kept=True, project=scopes.get("project", ""))
    kind = text(row.get("kind"))
    if kind not in _NO_DECISIONS:
        return item
    private = kind == "preference" or "user" in scopes
    observation = {
        "title": line(fields["topic"]),
        "tags": (kind,),
        "kind": "memory" if private else "discovery",
        "text": sections(("", fields["decision"]), ("", fields["reasoning"])),
    }
    return item._replace(type=OBSERVATION, values=observation, more={}, private=private)


def _checkpoint(row: Row) -> Item:
    fields = {
        "summary": text(row.get("summary")),
        "next_steps": text(row.get("next_steps")),
        "open_files": items(row.get("open_files")),
    }
    created = moment(row.get("timestamp"))
    return Item(f"checkpoint_{row['id']}", CHECKPOINT, created, fields, counted=True)


def _edges(rows: Mapping[str, Row], stated: Iterator[Row]) -> _Edges:
    """The edges of each decision by kind.

    They are stated by its own row, by the rows that name it, and by the table of edges.
    """
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for id_, row in rows.items():
        edges[id_]["supersedes"] += items(row.get("supersedes"))
        edges[id_]["builds_on"] += items(row.get("refined_from"))
        edges[text(row.get("superseded_by"))]["supersedes"].append(id_)
    for row in stated:
        kind = _EDGES.get(text(row.get("relationship")))
        if kind and row.get("approved_by_user") != 0:
            edges[text(row.get("from_id"))][kind].append(text(row.get("to_id")))
    return edges


def _decision(row: Row, edges: Mapping[str, list[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a decision, and those that a save does not take."""
    outcome = parse_outcome(text(row.get("outcome"))) or "pending"
    involvement = text(row.get("user_involvement"))
    status = _STATUS.get(text(row.get("status")), "")
    besides = [(name.capitalize(), row.get(name)) for name in _BESIDES]
    fields = {
        "topic": line(row.get("topic")),
        "decision": text(row.get("decision")),
        "reasoning": sections(("", row.get("reasoning")), *besides),
        "confidence": row.get("confidence"),
        "outcome": outcome,
        "limitation": line(row.get("limitation")),
        "decided_by": "user" if involvement in ("requested", "approved") else "",
        "status": "rejected" if involvement == "rejected" else status,
        "rejected": items(row.get("alternatives")),
        "session": line(row.get("session_id")),
    }
    more: dict[str, Any] = {kind: tuple(dict.fromkeys(ids)) for kind, ids in edges.items() if ids}
    if outcome != "pending":
        at = moment(row.get("updated_at")) or moment(row.get("created_at")) or 0
        more["outcomes"] = (Outcome(at, outcome, line(row.get("failure_reason"))),)
    return fields, more
