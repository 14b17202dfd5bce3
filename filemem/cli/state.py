"""The state of the memory as text, and what is left to the user, for `status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from filemem.cli.text import Answer, join_lines, style_text
from filemem.dialects.tool import format_count


class _Leftover(NamedTuple):
    """Records that are left to the user: a field of the answer, and what is to be done."""

    field: str
    noun: str
    state: str
    committed_by_hand: bool = False  # the command that commits them stands behind


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
_MAX_SHOWN = 3  # of each
_REMARKS = ("note", "trouble", "incomplete", "not_read", "left", "settings", "degraded")


def render_status(answer: Answer, *, verbose: bool = False) -> str:
    """The state of the memory, and what to do."""
    todo = [
        *_iter_leftovers(answer, verbose=verbose),
        *_iter_pending(answer),
        *_iter_unshared(answer),
        *_iter_remarks(answer),
    ]
    facts = [*_iter_facts(answer), *(_iter_index_facts(answer) if verbose else ())]
    return join_lines(*facts, *(todo or ["nothing to do"]))


def _iter_leftovers(answer: Answer, *, verbose: bool) -> Iterator[str]:
    for leftover in _LEFTOVERS:
        entries = answer.get(leftover.field, ())
        if not entries:
            continue
        rows = [entry if isinstance(entry, str) else entry["restore"] for entry in entries]
        command = f": {answer.get('commit')}" if leftover.committed_by_hand else ""
        heading = f"{format_count(len(rows), leftover.noun)} {leftover.state}{command}"
        yield style_text(heading, "yellow")
        max_rows = len(rows) if verbose else _MAX_SHOWN
        yield from (f"    {row}" for row in rows[:max_rows])
        if len(rows) > max_rows:
            yield f"    and {len(rows) - max_rows} more: filemem status -v"


def _iter_pending(answer: Answer) -> Iterator[str]:
    for save in answer["pending"]:
        yield f"waits: {save['path']}, saved {save['age']} ago: {save['reason']}"
    if answer["pending"]:
        yield "    when that is over, the next command or call commits it"


def _iter_unshared(answer: Answer) -> Iterator[str]:
    sides = [f"{answer[side]} {side}" for side in ("ahead", "behind") if answer.get(side)]
    if sides:
        upstream = answer["upstream"]
        yield f"commits: {', '.join(sides)}, compared with {upstream}: {answer['share']}"


def _iter_remarks(answer: Answer) -> Iterator[str]:
    state = answer["index"]["state"]
    if state != "in step":
        yield style_text(f"the index is {state}: filemem index", "yellow")
    for name in _REMARKS:
        if answer.get(name):
            yield style_text(f"{name.replace('_', ' ')}: {answer[name]}", "yellow")


def _iter_facts(answer: Answer) -> Iterator[str]:
    counts = answer["records"]
    yield f"{answer['store']}: " + ", ".join(format_count(counts[kind], kind) for kind in counts)
    if counts["decision"]:
        holding = answer["holding"]
        yield f"{format_count(holding, 'decision')} {'holds' if holding == 1 else 'hold'}"
    checkpoint = answer.get("checkpoint")
    if checkpoint:
        yield f"last checkpoint: {checkpoint['created'][:10]}  {checkpoint['title']}"
    yield from (f"page: {page}" for page in answer.get("pages", ()))
    if answer.get("owners"):
        yield f"memories that powermem's tools add are of {answer['owners']}"


def _iter_index_facts(answer: Answer) -> Iterator[str]:
    index = answer["index"]
    records = format_count(index["records"], "record")
    yield f"index: {records}, {index['model'] or 'words alone'}: {index['state']}"
    yield f"    {index['folder']}"
    lost_count = answer.get("recalls_given_up")
    if lost_count:
        yield f"recall: {format_count(lost_count, 'prompt')} given up, each took too long"
