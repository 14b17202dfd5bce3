"""MAMA's database: decisions with their edges and outcomes, and checkpoints. Columns that a version lacks are empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filemem.importers.source import Row, database
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
    with database(source, "decisions", "checkpoints") as found:
        rows = {text(row["id"]): row for row in found.rows("decisions")}
        edges = _edges(rows, found.rows("decision_edges"))
        scopes = {
            row.get("id"): (text(row.get("kind")), text(row.get("external_id")))
            for row in found.rows("memory_scopes")
        }
        bound: dict[str, dict[str, str]] = defaultdict(dict)
        for row in found.rows("memory_scope_bindings"):
            kind, name = scopes.get(row.get("scope_id"), ("", ""))
            bound[text(row.get("memory_id"))][kind] = name
        for one, row in rows.items():
            given, more = _decision(row, edges[one])
            common: dict[str, Any] = {"project": bound[one].get("project", ""), "kept": True}
            if (kind := text(row.get("kind"))) in _NO_DECISIONS:
                private = kind == "preference" or "user" in bound[one]
                body = {
                    "title": line(given["topic"]),
                    "tags": (kind,),
                    "kind": "memory" if private else "discovery",
                }
                body["text"] = sections(("", given["decision"]), ("", given["reasoning"]))
                yield Item(
                    one, OBSERVATION, moment(row.get("created_at")), body, private=private, **common
                )
            else:
                yield Item(one, DECISION, moment(row.get("created_at")), given, more, **common)
        for row in found.rows("checkpoints"):
            given = {"summary": text(row.get("summary")), "next_steps": text(row.get("next_steps"))}
            given["open_files"] = items(row.get("open_files"))
            yield Item(
                f"checkpoint_{row['id']}",
                CHECKPOINT,
                moment(row.get("timestamp")),
                given,
                counted=True,
            )


def _edges(rows: Mapping[str, Row], stated: Iterator[Row]) -> _Edges:
    """The edges of each decision by kind: of its own row, of those that name it, and of the table of edges."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one, row in rows.items():
        edges[one]["supersedes"] += items(row.get("supersedes"))
        edges[one]["builds_on"] += items(row.get("refined_from"))
        edges[text(row.get("superseded_by"))]["supersedes"].append(one)
    for row in stated:
        if (kind := _EDGES.get(text(row.get("relationship")))) and row.get("approved_by_user") != 0:
            edges[text(row.get("from_id"))][kind].append(text(row.get("to_id")))
    return edges


def _decision(row: Row, edges: Mapping[str, list[str]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a decision, and those that a save does not take."""
    outcome, involved = (
        parse_outcome(text(row.get("outcome"))) or "pending",
        text(row.get("user_involvement")),
    )
    given = {
        "topic": line(row.get("topic")),
        "decision": text(row.get("decision")),
        "reasoning": sections(
            ("", row.get("reasoning")), *((name.capitalize(), row.get(name)) for name in _BESIDES)
        ),
        "confidence": row.get("confidence"),
        "outcome": outcome,
        "limitation": line(row.get("limitation")),
        "decided_by": "user" if involved in ("requested", "approved") else "",
        "status": "rejected"
        if involved == "rejected"
        else _STATUS.get(text(row.get("status")), ""),
        "rejected": items(row.get("alternatives")),
        "session": line(row.get("session_id")),
    }
    more: dict[str, Any] = {kind: tuple(dict.fromkeys(ids)) for kind, ids in edges.items() if ids}
    if outcome != "pending":
        at = moment(row.get("updated_at")) or moment(row.get("created_at")) or 0
        more["outcomes"] = (Outcome(at, outcome, line(row.get("failure_reason"))),)
    return given, more
