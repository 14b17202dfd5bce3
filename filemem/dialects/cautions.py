"""What a reader must know before following a record: where it stands, and what Git cannot tell of it here.

Rule: everything that makes a record less than it seems is said in its note, in these words, whoever shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filemem.record import DECISION, format_time

if TYPE_CHECKING:
    from filemem.memory.values import Step
    from filemem.query import Hit, Provenance

_UNSURE = (
    "this partial clone lacks older versions, one of which may have an earlier author; "
    "git fetch --refetch --no-filter brings them"
)
_SHALLOW = "history is shallow: who wrote this, and when, is not known here; git fetch --unshallow brings it"
_ANEW = "its commit was made again later (a rebase, an amend or an import)"
_EDITED = "has uncommitted changes"
COPIED = "unknown: another commit brought it there, by a squash, a rebase or a copy"


def is_shallow(by: Provenance) -> bool:
    """Whether a record came before the commits that a shallow clone has: only then a commit lacks its author."""
    return bool(by.commit) and not by.author


def of_hit(value: Hit, edited: bool) -> str:
    """The note on what was found or read; `edited` says that its file has changes that are not committed."""
    record = value.record
    notes = {"proposed": "only proposed", "rejected": "rejected", "deprecated": "deprecated"}
    words = [notes[record.status]] if record.type == DECISION and record.status in notes else []
    words += [one for one in (value.contest, value.vacancy, value.claimed) if one]
    words += [f"conflict markers at line {value.conflict}: the first side is shown"] * bool(value.conflict)
    if value.brought_in:
        words.append("holds today for a decision that was found")
    if record.visibility == "private":
        words.append("private: never committed")
    elif not value.provenance.commit:
        words.append("not committed yet")
    elif value.provenance.unsure:
        words.append(_UNSURE)
    elif is_shallow(value.provenance):
        words.append(_SHALLOW)
    if edited:
        words.append(_EDITED)
    return "; ".join(words)


def of_step(step: Step) -> str:
    """The note on a decision in the history of its topic."""
    told = (
        step.contest,
        step.claimed,
        _UNSURE if step.unsure else _SHALLOW if step.shallow else "",
        f"written {format_time(step.written)[:10]}; {_ANEW}" if step.written else "",
        _EDITED if step.edited else "",
    )
    return "; ".join(filter(None, told))
