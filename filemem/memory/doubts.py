"""Why an answer is empty: which restriction nothing passes, or that nothing is like what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from filemem.memory.elsewhere import NOTHING_YET, left
from filemem.memory.uncommitted import missed
from filemem.query import FIELDS, NOTHING, Filter, Terms
from filemem.record import format_time

if TYPE_CHECKING:
    from filemem.memory.store import Store

LIKENESS = {
    "hybrid": "shares a word with the query, or comes near to what it means",
    "keyword": "shares a word with the query",
    "vector": "comes near to what the query means",
}  # mode of a search -> what it looks for
_LIKE = 0.6  # how near a name must be that is offered for another, on difflib's scale


def why_empty(store: Store, terms: Terms, wanted: Filter, matched: int, offset: int, mode: str) -> str:
    """Say in one sentence why a search shows nothing.

    Args:
        store: the parts.
        terms: what was looked for; without words it was the newest.
        wanted: the restrictions.
        matched: how many records match all the same.
        offset: how many hits were passed over.
        mode: how it was searched: a key of LIKENESS.

    Returns:
        The sentence; "" where nothing was ever saved, or what was cannot be read, which is said elsewhere.
    """
    if matched:
        return passed_over(matched, offset)
    if store.index.empty:
        return "" if store.absent or store.obstacle() or not store.index.exists else (left(store) or NOTHING_YET)
    reasons = list(_unpassed(store, wanted))
    if not reasons and not store.index.count(wanted):
        reasons = ["no record passes all these restrictions at once"]
    if not reasons:
        reasons = [nothing_like(mode if terms.words or terms.phrases else "", restricted=wanted != Filter())]
    return "; ".join(filter(None, (*reasons, missed(store), store.astray())))


def passed_over(matched: int, offset: int) -> str:
    """Say that an offset lies past the last hit; `matched` is how many there are, at least one."""
    counted = "only 1 record matches" if matched == 1 else f"only {matched:,} records match"
    return f"{counted}, and offset {offset:,} passes over {'it' if matched == 1 else 'them all'}"


def nothing_like(mode: str, *, restricted: bool) -> str:
    """Say that nothing is like what was asked, or, where nothing was, that nothing is there to list.

    Args:
        mode: how it was searched: a key of LIKENESS; "" where nothing was asked.
        restricted: whether some records alone were looked at.
    """
    among = " among those that pass the restrictions" if restricted else ""
    if mode:
        return f"no record{among} {LIKENESS[mode]}"
    return "no record passes these restrictions" if restricted else NOTHING_YET


def _unpassed(store: Store, wanted: Filter) -> Iterator[str]:
    """The restrictions that no record passes, each by itself."""
    for field, name in FIELDS.items():
        values: tuple[str, ...] = getattr(wanted, field)
        if values == NOTHING:
            yield f"no record passes both restrictions of {name}"
        elif values and not store.index.count(Filter()._replace(**{field: values})):  # type: ignore[arg-type]
            yield from (_unknown(store, name, value) for value in values)
    for part, told in _others(wanted).items():
        if not store.index.count(part):
            yield told


def _unknown(store: Store, name: str, value: str) -> str:
    near = get_close_matches(value, [known for known, _ in store.index.terms(name)], n=2, cutoff=_LIKE)
    meant = f": did you mean {' or '.join(near)}?" if near else ""
    return f"no topic {value!r}{meant}" if name == "topic" else f"no record has {name} {value!r}{meant}"


def _others(wanted: Filter) -> Mapping[Filter, str]:
    """The restrictions that are no words, each by itself, and what is to be said where nothing passes one."""
    parts = {
        Filter(since=wanted.since): f"no record is from {format_time(wanted.since or 0)} or later",
        Filter(until=wanted.until): f"no record is from {format_time(wanted.until or 0)} or earlier",
        Filter(path=wanted.path): f"no decision governs {wanted.path!r}",
        Filter(live=wanted.live): "no decision holds today",
        Filter(metadata=wanted.metadata): "no record has this metadata",
    }
    return {part: told for part, told in parts.items() if part != Filter()}
