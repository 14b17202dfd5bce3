"""Render the answer of `status`: the state of the memory, and what the user must do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from filemem.cli.text import Answer, join_lines, style_text
from filemem.dialects.tool import format_count


class _Leftover(NamedTuple):
    """A field of the answer that lists records which need the user, and how to report them."""

    field: str
    noun: str
    state: str
    committed_by_hand: bool = False  # the command that commits them is printed too


_LEFTOVERS = (
    _Leftover(
        "forks",
        "topic",
        "forked, several decisions hold at once: end it with one that replaces them",
    ),
    _Leftover("broken", "record", "with a header that cannot be read: filemem check says why"),
    _Leftover(
        "not_understood",
        "decision",
        "with a status that is not understood: filemem check says more",
    ),
    _Leftover("edited", "record", "edited, not committed", committed_by_hand=True),
    _Leftover("new", "record", "not in Git yet", committed_by_hand=True),
    _Leftover("gone", "record", "missing, although no commit deleted it"),
)
_MAX_SHOWN = 3  # records of each kind that are listed
_REMARKS = ("note", "trouble", "incomplete", "not_read", "left", "settings", "degraded")


def render_status(answer: Answer, *, verbose: bool = False) -> str:
    """Render the state of the memory, and what to do."""
    rows = list(_iter_facts(answer))
    if verbose:
        rows += _iter_index_facts(answer)
    todo = list(_iter_leftovers(answer, verbose=verbose))
    todo += _iter_pending(answer)
    todo += _iter_unshared(answer)
    todo += _iter_remarks(answer)
    if not todo:
        todo = ["nothing to do"]
    return join_lines(rows + todo)


def _iter_leftovers(answer: Answer, *, verbose: bool) -> Iterator[str]:
    """Yield the records that need the user: a heading for each kind, some records below it."""
    for leftover in _LEFTOVERS:
        entries = answer.get(leftover.field, ())
        if not entries:
            continue
        heading = f"{format_count(len(entries), leftover.noun)} {leftover.state}"
        if leftover.committed_by_hand:
            heading += f": {answer.get('commit')}"
        yield style_text(heading, "yellow")
        shown_count = len(entries)
        if not verbose:
            shown_count = min(shown_count, _MAX_SHOWN)
        for entry in entries[:shown_count]:
            row = entry if isinstance(entry, str) else entry["restore"]
            yield f"    {row}"
        hidden_count = len(entries) - shown_count
        if hidden_count:
            yield f"    and {hidden_count} more: filemem status -v"


def _iter_pending(answer: Answer) -> Iterator[str]:
    """Yield the saves that could not be committed yet, each with the reason."""
    for save in answer["pending"]:
        yield f"waits: {save['path']}, saved {save['age']} ago: {save['reason']}"
    if answer["pending"]:
        yield "    when that is over, the next command or call commits it"


def _iter_unshared(answer: Answer) -> Iterator[str]:
    """Yield how far the branch and its upstream differ, if they do."""
    sides = ("ahead", "behind")
    counts = [f"{answer[side]} {side}" for side in sides if answer.get(side)]
    if counts:
        upstream = answer["upstream"]
        yield f"commits: {', '.join(counts)}, compared with {upstream}: {answer['share']}"


def _iter_remarks(answer: Answer) -> Iterator[str]:
    state = answer["index"]["state"]
    if state != "in step":
        yield style_text(f"the index is {state}: filemem index", "yellow")
    for name in _REMARKS:
        remark = answer.get(name)
        if remark:
            label = name.replace("_", " ")
            yield style_text(f"{label}: {remark}", "yellow")


def _iter_facts(answer: Answer) -> Iterator[str]:
    """Yield what the memory contains, and where it can be seen."""
    record_counts = answer["records"]
    counts = [format_count(count, kind) for kind, count in record_counts.items()]
    store = answer["store"]
    yield f"{store}: {', '.join(counts)}"
    if record_counts["decision"]:
        live_count = answer["holding"]
        decisions = format_count(live_count, "decision")
        verb = "holds" if live_count == 1 else "hold"
        yield f"{decisions} {verb}"
    checkpoint = answer.get("checkpoint")
    if checkpoint:
        day = checkpoint["created"][:10]
        yield f"last checkpoint: {day}  {checkpoint['title']}"
    pages = answer.get("pages", ())
    for page in pages:
        yield f"page: {page}"
    owners = answer.get("owners")
    if owners:
        yield f"memories that powermem's tools add are of {owners}"


def _iter_index_facts(answer: Answer) -> Iterator[str]:
    """Yield the size, model, state and folder of the index."""
    index = answer["index"]
    record_count = format_count(index["records"], "record")
    model = index["model"] or "words alone"
    yield f"index: {record_count}, {model}: {index['state']}"
    yield f"    {index['folder']}"
    lost_count = answer.get("recalls_given_up")
    if lost_count:
        yield f"recall: {format_count(lost_count, 'prompt')} given up, each took too long"
