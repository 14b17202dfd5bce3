"""Whether versions of a record say the same: yes or no, where `revising` says in words what changed.

Rule: what a record *says* is compared, line by line and field by field, never its bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_, or_

from filemem.record.foreign import Parted, parted
from filemem.record.model import DECISION, Record


def says_otherwise(before: Record, after: Record) -> bool:
    """Tell whether what was decided, or why, reads differently: outcomes, status, links and tags may still change."""
    return _decided(before) != _decided(after)


def merge_says_otherwise(parents: Iterable[Record], merged: Record, *, anything: bool = False) -> bool:
    """Tell whether a merge says by itself what was decided, or why: what no parent has, or not what all of them have.

    Args:
        parents: the versions that were merged.
        merged: what the merge made of them.
        anything: compare all that a record says.
    """
    compared = _everything if anything else _decided
    had = [_stated_lines(compared(parent)) for parent in parents]
    said = _stated_lines(compared(merged))
    return bool(said - reduce(or_, had, Counter()) or (had and reduce(and_, had) - said))


def says_already(record: Record, before: Record, after: Record) -> bool:
    """Tell whether a record says all that a change brought, and nothing that it took away; False where it did neither.

    Args:
        record: the one.
        before, after: what was changed, and what it was changed to.
    """
    said, was, now = (_stated_lines(_everything(one)) for one in (record, before, after))
    brought, taken = now - was, was - now
    return bool(brought or taken) and not (brought - said) and not (taken & said)


def apart(record: Record) -> Parted:
    """A text and, beside it, the lines of it that are read as status, date and links, as of a record without an id."""
    foreign = record.type == DECISION and not record.id_stated
    return parted(record.text) if foreign else Parted(record.text, "")


def lines_of(text: str) -> Counter[str]:
    """The lines of a text, blanks evened out; empty ones say nothing."""
    return Counter(" ".join(line.split()) for line in text.split("\n") if line.strip())


def _stated_lines(compared: Iterable[object]) -> Counter[tuple[int, str]]:
    """Each line that some fields say, with the number of its field."""
    told = ((at, _items(said)) for at, said in enumerate(compared))
    return Counter((at, line) for at, texts in told for text in texts for line in lines_of(text).elements())


def _items(said: object) -> list[str]:
    if isinstance(said, Mapping):
        return [f"{key}: {one}" for key, one in said.items()]
    return [str(one) for one in said] if isinstance(said, tuple) else [str(said)]


def _everything(record: Record) -> tuple[object, ...]:
    return tuple(record._replace(path=""))


def _decided(record: Record) -> tuple[object, ...]:
    if record.type != DECISION:
        return ()
    return record.topic, record.title, record.decision, apart(record).argument, record.rejected
