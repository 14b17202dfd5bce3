"""What filemem's own tools do: functions (memory, arguments) -> plain dict, for MCP and for every `--json` alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from filemem.dialects import budget, present
from filemem.errors import Conflict
from filemem.memory import phrases

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit, Name

Arguments = Mapping[str, Any]
Answer = dict[str, Any]

BUDGET = 8_000  # characters of an answer at the default limit
LIMIT = 10


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision, checkpoint or observation."""
    try:
        return present.saved(memory.save(**arguments))
    except Conflict as error:
        raise _forked(memory, str(arguments.get("topic", "")), error) if error.heads else error from None


def resolve(memory: Memory, arguments: Arguments) -> Answer:
    """End a fork by a decision that merges all that hold on a topic."""
    given = dict(arguments)
    return present.saved(memory.resolve(given.pop("topic"), **given))


def _forked(memory: Memory, topic: str, error: Conflict) -> Conflict:
    """The refusal of a save on a forked topic, with the decisions that hold and what ends the fork."""
    names = memory.names(error.heads)
    told = "; ".join(phrases.called(names[one].title, one) for one in error.heads if one in names)
    return Conflict(f"{error.message}: {told}", phrases.ending(topic), error.heads)


def search(memory: Memory, arguments: Arguments, *, whole: bool = False) -> Answer:
    """Find records; without a query the newest.

    Args:
        memory: the memory.
        arguments: as the tool's input schema says.
        whole: return whole texts, whatever their length.
    """
    memory, given, when = _then(memory, arguments)
    text, limit, mode = given.pop("query", ""), given.pop("limit", LIMIT), given.pop("mode", "hybrid")
    found = memory.search(text, limit=limit, mode=mode, offset=given.pop("offset", 0), **given)
    note = ("" if found.hits else memory.unbegun) or found.note
    answer: Answer = {
        "success": True,
        **when,
        "count": len(found.hits),
        "results": _shown(memory, found.hits, found=True),
        **{name: value for name, value in (("degraded", found.degraded), ("note", note)) if value},
    }
    return answer if whole else budget.within(answer, BUDGET * max(limit, LIMIT) // LIMIT)


def get(memory: Memory, arguments: Arguments) -> Answer:
    """Return whole records."""
    memory, arguments, when = _then(memory, arguments)
    ids = [arguments["id"]] if "id" in arguments else []
    hits = memory.get(*ids, *arguments.get("ids", ()))
    lacking = present.lacking(memory)
    names = _names(memory, hits)
    results = [present.hit(hit, whole=True, edited=memory.edited(hit), names=names) for hit in hits]
    if arguments.get("history"):
        edits = memory.revisions(*(hit.id for hit in hits))
        for result in results:
            result["revisions"] = present.revisions(edits.get(result["id"], ()))
    return {"success": True, **when, "count": len(hits), "results": results, **lacking}


def _then(memory: Memory, arguments: Arguments) -> tuple[Memory, Answer, Answer]:
    """The memory that is asked (as it was, where `at` says when), the other arguments, and how the answer says so."""
    given = dict(arguments)
    at = given.pop("at", None)
    if at is None:
        return memory, given, {}
    past = memory.at(at)
    return past, given, {"at": present.moment(past.moment)}


def why(memory: Memory, arguments: Arguments) -> Answer:
    """Tell which decisions a file, or a line of it, rests on."""
    found = memory.why(arguments["path"], limit=arguments.get("limit", LIMIT))
    answer = present.why(found, _names(memory, [reason.hit for reason in found.reasons]))
    return {"success": True, **answer, **present.lacking(memory)}


def _shown(memory: Memory, hits: Sequence[Hit], *, found: bool = False) -> list[Answer]:
    """Results of a search; where one leads to records that are not among them, these are named."""
    names = _names(memory, hits)
    return [present.hit(hit, found=found, names=names) for hit in hits]


def _names(memory: Memory, hits: Sequence[Hit]) -> Mapping[str, Name]:
    """Titles of the records that hits lead to, unless they are shown themselves."""
    wanted = {one for hit in hits for one in (*hit.successors, *(edge.target for edge in hit.related))}
    return memory.names(wanted - {hit.record.id for hit in hits}) if wanted else {}


def timeline(memory: Memory, arguments: Arguments) -> Answer:
    """Return what was saved around a record, a time or the best hit of a query; or the history of a topic."""
    if "topic" in arguments:
        return history(memory, arguments)
    memory, arguments, when = _then(memory, arguments)
    found = memory.timeline(**arguments)
    answer: Answer = {
        "success": True,
        **when,
        "anchor": found.anchor,
        "count": len(found.hits),
        "results": _shown(memory, found.hits),
        **({"note": memory.unbegun} if memory.unbegun else {}),
        **present.lacking(memory),
    }
    return budget.within(answer, BUDGET)


def history(memory: Memory, arguments: Arguments) -> Answer:
    """Tell how a topic was decided, oldest first."""
    memory, arguments, when = _then(memory, arguments)
    told = present.history(memory.history(arguments["topic"]))
    return {"success": True, **when, **told, **present.lacking(memory)}


def diff(memory: Memory, arguments: Arguments) -> Answer:
    """Tell what a branch does to the memory."""
    return {"success": True, **present.comparison(memory.diff(arguments.get("range", "")))}


def topics(memory: Memory, arguments: Arguments) -> Answer:
    """List topics with what holds today."""
    memory, arguments, when = _then(memory, arguments)
    found = memory.topics(arguments.get("prefix", ""))
    shown = [present.topic(topic) for topic in found]
    note = "" if found else memory.unbegun
    told = {"count": len(found), "topics": shown, **({"note": note} if note else {})}
    return {"success": True, **when, **told, **present.lacking(memory)}


def update(memory: Memory, arguments: Arguments) -> Answer:
    """Record an outcome, or correct a record."""
    return present.saved(memory.update(**arguments))


def load_checkpoint(memory: Memory, arguments: Arguments) -> Answer:
    """Return the checkpoint to go on from."""
    memory, arguments, when = _then(memory, arguments)
    found = memory.latest_checkpoint(branch=arguments.get("branch", ""))
    lacking = present.lacking(memory)
    if found is None:
        message = "no checkpoint found" if lacking else "no checkpoint saved yet"
        return {"success": True, **when, "checkpoint": None, "message": message, **lacking}
    hit, note = found
    shown = present.hit(hit, whole=True, edited=memory.edited(hit))
    return {"success": True, **when, "checkpoint": shown, **({"note": note} if note else {}), **lacking}


def delete(memory: Memory, arguments: Arguments) -> Answer:
    """Remove a record by a commit."""
    return present.saved(memory.delete(**arguments))


def forget(memory: Memory, arguments: Arguments) -> Answer:
    """The same as `delete`, and how to take the record out of history too."""
    answer = delete(memory, arguments)
    if not answer.get("commit"):
        return answer
    purge = memory.purging(answer["path"], answer["id"])
    return answer | {"purge": list(purge.steps), "purge_warnings": list(purge.warnings)}


def restore(memory: Memory, arguments: Arguments) -> Answer:
    """Bring a deleted record back."""
    return present.saved(memory.restore(**arguments))


def check(memory: Memory, arguments: Arguments) -> Answer:
    """Report what is wrong with the records."""
    wanted = {"base": arguments.get("base", ""), "drift": arguments.get("drift", False)}
    checked, problems = memory.check(*arguments.get("paths", ()), **wanted)
    return {"success": True, "checked": checked, "problems": [problem._asdict() for problem in problems]}


def index(memory: Memory, arguments: Arguments) -> Answer:
    """Bring the index in step, or build it anew."""
    anew = bool(arguments.get("rebuild"))
    look = memory.rebuild() if anew else memory.refresh(full=True)
    if look.busy:
        message, lacks = "another process holds the index; it will catch up", ""
    else:
        state, did = ("rebuilt", "read") if anew else ("in step", "changed")
        embedded = f"; embedded {_counted(look.embedded, 'record')} with {look.model}" if look.embedded else ""
        message, lacks = f"index {state}: {_counted(look.changed, 'file')} {did}{embedded}", memory.lacks_meaning
    return {
        "success": True,
        "changed": look.changed,
        "busy": look.busy,
        "embedded": look.embedded,
        "message": message,
        **({"degraded": lacks} if lacks else {}),
    }


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def sync(memory: Memory, _: Arguments, tell: Callable[[str], object] | None = None) -> Answer:
    """Bring here what others saved, and hand on what was saved here."""
    done = memory.sync(tell)
    return {"success": True, "message": done.message, **done._asdict(), "merged": list(done.merged)}


def status(memory: Memory, _: Arguments) -> Answer:
    """Say how the memory stands."""
    told = memory.status()
    note = "" if "stray" in told else memory.unbegun
    return {"success": True, **told, **({"note": note} if note else {})}
