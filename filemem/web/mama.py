"""MAMA's routes: functions (memory, arguments) -> answer. Times are epoch milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filemem.dialects import present
from filemem.dialects.export import document, table
from filemem.dialects.mama import checkpoint, decide, listed, result, waits
from filemem.dialects.present import asides
from filemem.dialects.reader import for_caller
from filemem.dialects.reader import search as find
from filemem.memory import fields
from filemem.record import CHECKPOINT, DECISION, format_time, number
from filemem.web.route import Answer, Arguments, Refused, Reply, Result

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

MILLISECONDS = "milliseconds"  # the unit of times here, as `present` names it
LIMIT = 10  # results of a search
MOST = 20
CONFIDENCE = 0.8  # of a decision that is saved over HTTP; over MCP it is 0.5
_COLUMNS = ("id", "topic", "decision", "reasoning", "outcome", "confidence", "status", "created_at")


def checkpoint_save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a checkpoint; its number is made from its id."""
    saved = memory.save(type=CHECKPOINT, **_only(arguments, "summary", "next_steps", "open_files"))
    message = "Checkpoint saved successfully" + waits(saved)
    return {"success": True, "id": number(saved.id), "message": message, "record": saved.id}


@for_caller
def checkpoint_load(memory: Memory, _: Arguments) -> Answer:
    """Return the latest checkpoint."""
    latest = memory.latest_checkpoint()
    if latest is None:
        raise Refused(404, "NO_CHECKPOINT", "No checkpoint found")
    hit, note = latest
    return {
        "success": True,
        "checkpoint": checkpoint(hit, MILLISECONDS),
        **present.filled({"note": note}),
        **present.lacking(memory),
    }


@for_caller
def search(memory: Memory, arguments: Arguments) -> Answer:
    """Find decisions by words and meaning."""
    query = arguments["q"]
    results = memory.search(query, limit=min(arguments.get("limit", LIMIT), MOST), type=DECISION)
    rows = listed(results.hits, MILLISECONDS, query)
    return {"query": query, "results": rows, "count": len(rows), **asides(results)}


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision; the same topic supersedes."""
    fields_ = _only(arguments, "topic", "decision", "reasoning", "confidence")
    saved, note = decide(memory, {"confidence": CONFIDENCE, **fields_})
    return {
        "success": True,
        "id": saved.id,
        "message": f"Decision saved successfully{note}{waits(saved)}",
    }


@for_caller
def update(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision."""
    outcome = fields.outcome("outcome", arguments["outcome"])
    saved = memory.update(arguments["id"], outcome=outcome, reason=arguments.get("reason") or None)
    message = waits(saved).removeprefix("; ")
    return {
        "success": True,
        "id": saved.id,
        "outcome": outcome.upper(),
        **present.filled({"message": message}),
    }


@for_caller
def export(memory: Memory, arguments: Arguments) -> Result:
    """Hand out every decision: as JSON, as a table, or as one text to read."""
    hits = every_decision(memory)
    at = format_time(memory.now())
    shape = arguments.get("format", "json")
    decisions = [result(hit, MILLISECONDS) for hit in hits] if shape != "markdown" else []
    if shape == "json":
        return {
            "decisions": decisions,
            "count": len(decisions),
            "exported_at": at,
            **present.lacking(memory),
        }
    headers = {
        "Content-Disposition": f'attachment; filename="decisions.{shape.replace("markdown", "md")}"'
    }
    if shape == "csv":
        stands = [
            {"status": "superseded" if hit.superseded_by else hit.record.status} for hit in hits
        ]
        rows = [{**row, **status} for row, status in zip(decisions, stands, strict=True)]
        return Reply(table(_COLUMNS, rows), media="text/csv; charset=utf-8", headers=headers)
    text = document(
        "Decisions", [hit.record._replace(created=hit.created) for hit in hits], memory.now()
    )
    return Reply(text, media="text/markdown; charset=utf-8", headers=headers)


def every_decision(memory: Memory) -> list[Hit]:
    """Decisions, the newest first."""
    return list(find(memory, "", 1_000_000, bool, type=DECISION).hits)


def _only(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name) not in (None, "", [])}
