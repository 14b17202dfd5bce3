"""MAMA's routes: functions (memory, arguments) -> answer. Times are epoch milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filemem.dialects import present
from filemem.dialects.export import render_document, render_table
from filemem.dialects.mama import (
    build_checkpoint,
    build_result,
    build_results,
    decide,
    format_write_notes,
)
from filemem.dialects.present import build_notes
from filemem.dialects.reader import restrict_to_caller
from filemem.dialects.reader import search as find
from filemem.memory import fields
from filemem.record import CHECKPOINT, DECISION, compute_number, format_time
from filemem.web.route import Answer, Arguments, Reply, Result, RouteFailure

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

MILLISECONDS = "milliseconds"  # the unit of times here, as `present` names it
LIMIT = 10  # results of a search
MAX_LIMIT = 20
CONFIDENCE = 0.8  # of a decision that is saved over HTTP; over MCP it is 0.5
_COLUMNS = ("id", "topic", "decision", "reasoning", "outcome", "confidence", "status", "created_at")


def save_checkpoint(memory: Memory, arguments: Arguments) -> Answer:
    """Save a checkpoint; its number is made from its id."""
    saved = memory.save(
        type=CHECKPOINT, **_pick_arguments(arguments, "summary", "next_steps", "open_files")
    )
    message = "Checkpoint saved successfully" + format_write_notes(saved)
    return {"success": True, "id": compute_number(saved.id), "message": message, "record": saved.id}


@restrict_to_caller
def load_latest_checkpoint(memory: Memory, _: Arguments) -> Answer:
    """Return the latest checkpoint."""
    latest = memory.latest_checkpoint()
    if latest is None:
        raise RouteFailure(404, "NO_CHECKPOINT", "No checkpoint found")
    hit, note = latest
    return {
        "success": True,
        "checkpoint": build_checkpoint(hit, MILLISECONDS),
        **present.strip_empty({"note": note}),
        **present.build_degraded_note(memory),
    }


@restrict_to_caller
def search_decisions(memory: Memory, arguments: Arguments) -> Answer:
    """Find decisions by words and meaning."""
    query = arguments["q"]
    results = memory.search(
        query, limit=min(arguments.get("limit", LIMIT), MAX_LIMIT), type=DECISION
    )
    rows = build_results(results.hits, MILLISECONDS, query)
    return {"query": query, "results": rows, "count": len(rows), **build_notes(results)}


def save_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision; the same topic supersedes."""
    values = _pick_arguments(arguments, "topic", "decision", "reasoning", "confidence")
    saved, note = decide(memory, {"confidence": CONFIDENCE, **values})
    return {
        "success": True,
        "id": saved.id,
        "message": f"Decision saved successfully{note}{format_write_notes(saved)}",
    }


@restrict_to_caller
def update_outcome(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision."""
    outcome = fields.validate_outcome("outcome", arguments["outcome"])
    saved = memory.update(arguments["id"], outcome=outcome, reason=arguments.get("reason") or None)
    message = format_write_notes(saved).removeprefix("; ")
    return {
        "success": True,
        "id": saved.id,
        "outcome": outcome.upper(),
        **present.strip_empty({"message": message}),
    }


@restrict_to_caller
def export_decisions(memory: Memory, arguments: Arguments) -> Result:
    """Hand out every decision: as JSON, as a table, or as one text to read."""
    hits = list_decisions(memory)
    exported_at = format_time(memory.get_time())
    format_name = arguments.get("format", "json")
    decisions = (
        [build_result(hit, MILLISECONDS) for hit in hits] if format_name != "markdown" else []
    )
    if format_name == "json":
        return {
            "decisions": decisions,
            "count": len(decisions),
            "exported_at": exported_at,
            **present.build_degraded_note(memory),
        }
    headers = {
        "Content-Disposition": f'attachment; filename="decisions.{format_name.replace("markdown", "md")}"'
    }
    if format_name == "csv":
        statuses = [
            {"status": "superseded" if hit.superseded_by else hit.record.status} for hit in hits
        ]
        rows = [{**row, **status} for row, status in zip(decisions, statuses, strict=True)]
        return Reply(
            render_table(_COLUMNS, rows), media_type="text/csv; charset=utf-8", headers=headers
        )
    text = render_document(
        "Decisions", [hit.record._replace(created=hit.created) for hit in hits], memory.get_time()
    )
    return Reply(text, media_type="text/markdown; charset=utf-8", headers=headers)


def list_decisions(memory: Memory) -> list[Hit]:
    """Decisions, the newest first."""
    return list(find(memory, "", 1_000_000, bool, type=DECISION).hits)


def _pick_arguments(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name) not in (None, "", [])}
