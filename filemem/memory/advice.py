"""Advice: why a search shows nothing, and what was probably meant."""

from __future__ import annotations

from filemem.memory.fields import meant
from filemem.memory.store import Store
from filemem.query import FIELDS, Filter

NOTHING_YET = "nothing is saved yet"
LIKENESS = {
    "hybrid": "shares a word with the query, or comes near to what it means",
    "keyword": "shares a word with the query",
    "vector": "comes near to what the query means",
}  # mode of a search -> what it looks for


def why_empty(store: Store, wanted: Filter, matched: int, offset: int, mode: str) -> str:
    """Say in one sentence why a search shows nothing.

    Args:
        store: the parts.
        wanted: the restrictions.
        matched: how many records match all the same.
        offset: how many hits were passed over.
        mode: how it was searched: a key of LIKENESS; "" where nothing was asked.
    """
    if matched:
        return passed_over(matched, offset)
    if not store.index.count():
        return "" if store.obstacle() or not store.index.exists else unbegun(store)
    for field, name in FIELDS.items():
        for value in getattr(wanted, field):
            known = [one for one, _ in store.index.terms(name)]
            if value and value not in known:
                near = meant(value, known)
                return f"no record has {name} {value!r}" + (f": {near}" if near else "")
    return nothing_like(mode if store.index.count(wanted) else "", restricted=wanted != Filter())


def unbegun(store: Store) -> str:
    """What to do where nothing is saved."""
    return "no memory here yet: filemem init, or just save" if store.absent else NOTHING_YET


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
