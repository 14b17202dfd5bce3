"""What becomes of a file that both sides changed, when what was saved here is put on top of what others saved."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from filemem.errors import Conflict
from filemem.memory import tombstones
from filemem.record import merge, parse

if TYPE_CHECKING:
    from filemem.memory.store import Store
    from filemem.repo.replaying import Merge


def of(store: Store, tip: str, head: str, forgotten: dict[str, str], hint: str) -> Merge:
    """What settles a file that both sides changed.

    Args:
        store: the parts.
        tip, head: the last commits there and here: their tombstones count.
        forgotten: told of records that one side forgot while the other changed them.
        hint: what the user may do about what cannot be settled.
    """

    def settle(path: str, base: bytes | None, theirs: bytes | None, ours: bytes | None) -> bytes | None:
        inside, shown = store.files.inside(path), seen(store, path)
        if theirs is None or ours is None:
            record = parse(base or b"", inside).record
            if record is not None and any(tombstones.held(store, record.id, one) for one in (tip, head)):
                changed = head if theirs is None else tip
                show = f"{store.repo.places.by_hand} show {shlex.quote(f'{changed[:10]}:{path}')}"
                forgotten[shown] = f"{show} tells what was changed, filemem restore {record.id} brings the record back"
                return None  # forgetting wins
            sides = "removed there and changed here" if theirs is None else "removed here and changed there"
            raise Conflict(f"{shown}:1: {sides} (there {tip[:10]}, here {head[:10]})", hint)
        if base is None and (one := _stated_id(theirs, inside)) and one == _stated_id(ours, inside):
            return theirs  # the same record, which went there in another commit (a squash) and has grown since
        try:
            return merge(base or b"", theirs, ours, inside)
        except Conflict as error:
            raise Conflict(error.message.replace(inside, shown, 1), hint) from None

    return settle


def _stated_id(data: bytes, path: str) -> str:
    record = parse(data, path).record
    return record.id if record is not None and record.id_stated else ""


def seen(store: Store, path: str) -> str:
    """A path from the top of the records' repository as people see it."""
    return store.shown(store.files.inside(path)) if store.files.holds(path) else path
