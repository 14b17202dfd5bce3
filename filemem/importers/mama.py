"""MAMA's database: decisions with their edges and outcomes, and checkpoints. Columns that a version lacks are empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filemem.importers.source import Row, database
from filemem.importers.values import items, moment, sections, text
from filemem.memory.ingest import Item
from filemem.record import CHECKPOINT, DECISION, OBSERVATION, Outcome, parse_outcome

_EDGES = {"refines": "builds_on", "contradicts": "debates"}
_EDGES |= {kind: kind for kind in ("supersedes", "builds_on", "debates", "synthesizes")}
_NO_DECISIONS = ("constraint", "lesson", "fact", "task", "schedule", "preference")
_STATUS = {"stale": "deprecated", "contradicted": "deprecated"}
_DECIDED = {"requested": "user", "approved": "user"}


def read(source: Path) -> Iterator[Item]:
    """The decisions and checkpoints of a database."""
    with database(source, "decisions", "checkpoints") as found:
        rows = {text(row["id"]): row for row in found.rows("decisions")}
        edges = _edges(rows, found.rows("decision_edges"))
        scopes = {row.get("id"): row for row in found.rows("memory_scopes")}
        bound: dict[str, dict[str, str]] = defaultdict(dict)
        for row in found.rows("memory_scope_bindings"):
            if scope := scopes.get(row.get("scope_id")):
                bound[text(row.get("memory_id"))][text(scope.get("kind"))] = text(scope.get("external_id"))
        for one, row in rows.items():
            yield _decision(row, edges[one], bound[one])
        for row in found.rows("checkpoints"):
            yield _checkpoint(row)


def _edges(rows: Mapping[str, Row], stated: Iterator[Row]) -> dict[str, dict[str, list[str]]]:
    """The edges of each decision by kind: of its own row, of those that name it, and of the table of edges."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one, row in rows.items():
        edges[one]["supersedes"] += [old for old in [text(row.get("supersedes"))] if old]
        edges[one]["builds_on"] += items(row.get("refined_from"))
        if successor := text(row.get("superseded_by")):
            edges[successor]["supersedes"].append(one)
    for row in stated:
        if (kind := _EDGES.get(text(row.get("relationship")))) and row.get("approved_by_user") != 0:
            edges[text(row.get("from_id"))][kind].append(text(row.get("to_id")))
    return edges


def _decision(row: Row, edges: Mapping[str, list[str]], scopes: Mapping[str, str]) -> Item:
    created, kind = moment(row.get("created_at")), text(row.get("kind"))
    reason = text(row.get("failure_reason"))
    why = sections(("", row.get("reasoning")), ("Evidence", row.get("evidence")), ("Risks", row.get("risks")))
    project = scopes.get("project", "")
    session = text(row.get("session_id"))[:500]
    if kind in _NO_DECISIONS:
        body = sections(("", row.get("decision")), ("", why))
        given: dict[str, Any] = {
            "title": text(row.get("topic"))[:500],
            "text": body,
            "tags": (kind,),
            "session": session,
        }
        about = kind == "preference" or "user" in scopes
        given["kind"] = "memory" if about else "discovery"
        return Item(text(row["id"]), OBSERVATION, created, given, project=project, kept=True, private=about)
    outcome = parse_outcome(text(row.get("outcome"))) or "pending"
    refused = row.get("user_involvement") == "rejected"
    given = {
        "topic": text(row.get("topic")),
        "decision": text(row.get("decision")),
        "reasoning": why,
        "confidence": row.get("confidence"),
        "outcome": outcome,
        "limitation": " ".join(text(row.get("limitation")).split()),
        "decided_by": _DECIDED.get(text(row.get("user_involvement")), ""),
        "status": "rejected" if refused else _STATUS.get(text(row.get("status")), ""),
        "rejected": items(row.get("alternatives")),
        "session": session,
    }
    more: dict[str, Any] = {kind: tuple(dict.fromkeys(ids)) for kind, ids in edges.items() if ids}
    more.setdefault("supersedes", ())
    if outcome != "pending":
        at = moment(row.get("updated_at")) or created or 0
        more["outcomes"] = (Outcome(at, outcome, " ".join(reason.split())),)
    return Item(text(row["id"]), DECISION, created, given, more, project=project, kept=True)


def _checkpoint(row: Row) -> Item:
    given = {
        "summary": text(row.get("summary")),
        "next_steps": text(row.get("next_steps")),
        "open_files": items(row.get("open_files")),
    }
    return Item(f"checkpoint_{row.get('id')}", CHECKPOINT, moment(row.get("timestamp")), given, counted=True)
