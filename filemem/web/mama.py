"""The routes of MAMA, as functions of a memory and arguments. Times are epoch milliseconds."""

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
from filemem.dialects.reader import restrict_to_caller
from filemem.dialects.reader import search as find
from filemem.memory import fields
from filemem.record import CHECKPOINT, DECISION, compute_number, format_time
from filemem.web.route import Answer, Arguments, Reply, Result, RouteFailure

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

MILLISECONDS = "milliseconds"  # the unit of all times in these answers
LIMIT = 10  # default number of results of a search
MAX_LIMIT = 20
CONFIDENCE = 0.8  # default of a decision that is saved over HTTP; over MCP it is 0.5
_COLUMNS = ("id", "topic", "decision", "reasoning", "outcome", "confidence", "status", "created_at")


def save_checkpoint(memory: Memory, arguments: Arguments) -> Answer:
    """Save a checkpoint; its number is computed from its id."""
    values = _pick_arguments(arguments, "summary", "next_steps", "open_files")
    saved = memory.save(type=CHECKPOINT, **values)
    message = f"Checkpoint saved successfully{format_write_notes(saved)}"
    return {"success": True, "id": compute_number(saved.id), "message": message, "record": saved.id}


@restrict_to_caller
def load_latest_checkpoint(memory: Memory, _: Arguments) -> Answer:
    """Return the latest checkpoint."""
    latest = memory.latest_checkpoint()
    if latest is None:
        raise RouteFailure(404, "NO_CHECKPOINT", "No checkpoint found")
    hit, note = latest
    answer = {"success": True, "checkpoint": build_checkpoint(hit, MILLISECONDS)}
    if note:
        answer["note"] = note
    return answer | present.build_degraded_note(memory)


@restrict_to_caller
def search_decisions(memory: Memory, arguments: Arguments) -> Answer:
    """Find decisions by words and meaning."""
    query = arguments["q"]
    limit = min(arguments.get("limit", LIMIT), MAX_LIMIT)
    results = memory.search(query, limit=limit, type=DECISION)
    rows = build_results(results.hits, MILLISECONDS, query)
    answer = {"query": query, "results": rows, "count": len(rows)}
    return answer | present.build_notes(results)


def save_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision; it supersedes the current one on its topic."""
    values = _pick_arguments(arguments, "topic", "decision", "reasoning", "confidence")
    saved, note = decide(memory, {"confidence": CONFIDENCE} | values)
    message = f"Decision saved successfully{note}{format_write_notes(saved)}"
    return {"success": True, "id": saved.id, "message": message}


@restrict_to_caller
def update_outcome(memory: Memory, arguments: Arguments) -> Answer:
    """Record the outcome of a decision."""
    outcome = fields.validate_outcome("outcome", arguments["outcome"])
    reason = arguments.get("reason") or None
    saved = memory.update(arguments["id"], outcome=outcome, reason=reason)
    answer = {"success": True, "id": saved.id, "outcome": outcome.upper()}
    message = format_write_notes(saved).removeprefix("; ")
    if message:
        answer["message"] = message
    return answer


@restrict_to_caller
def export_decisions(memory: Memory, arguments: Arguments) -> Result:
    """Export all decisions: as JSON, as a CSV table, or as a Markdown document."""
    hits = list_decisions(memory)
    now = memory.get_time()
    format_name = arguments.get("format", "json")
    if format_name == "csv":
        rows = [_build_table_row(hit) for hit in hits]
        return _build_download(render_table(_COLUMNS, rows), "decisions.csv", "text/csv")
    if format_name == "markdown":
        records = [hit.record._replace(created=hit.created) for hit in hits]
        text = render_document("Decisions", records, now)
        return _build_download(text, "decisions.md", "text/markdown")
    decisions = [build_result(hit, MILLISECONDS) for hit in hits]
    answer = {
        "decisions": decisions,
        "count": len(decisions),
        "exported_at": format_time(now),
    }
    return answer | present.build_degraded_note(memory)


def _build_table_row(hit: Hit) -> Answer:
    row = build_result(hit, MILLISECONDS)
    row["status"] = "superseded" if hit.superseded_by else hit.record.status
    return row


def _build_download(text: str, file_name: str, media_type: str) -> Reply:
    headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
    return Reply(text, media_type=f"{media_type}; charset=utf-8", headers=headers)


def list_decisions(memory: Memory) -> list[Hit]:
    """List all decisions, newest first."""
    return list(find(memory, "", 1_000_000, bool, type=DECISION).hits)


def _pick_arguments(arguments: Arguments, *names: str) -> dict[str, Any]:
    """Return the named arguments that are not empty."""
    return {name: arguments[name] for name in names if arguments.get(name) not in (None, "", [])}
