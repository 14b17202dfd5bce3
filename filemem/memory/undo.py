"""Undo: a new commit puts back what the files of the last save held before it; history keeps both."""

from __future__ import annotations

from itertools import groupby

from filemem.errors import Conflict, NotFound
from filemem.files import is_listed
from filemem.memory.save import Saved, answer, show, write
from filemem.memory.store import FORGOTTEN, Store, mark_of
from filemem.record import parse, short_id
from filemem.repo.commit import Edit, message
from filemem.repo.history import Touch

_UNDOES = "Undoes"  # the trailer that names the commit which is undone


def undo(store: Store) -> Saved:
    """Take back the last save of whoever commits here: what was new is forgotten, what was changed is as it was.

    Called again it takes back the one before. Raises NotFound: there is none; Conflict: its files changed since, or as
    for `update`.
    """
    with store.repo.saving():
        touches = _last(store)
        done, edits = touches[0].commit, list[Edit]()
        for touch in touches:
            held, path = store.repo.item(touch.path), store.files.inside(touch.path)
            if (held.oid if held else "") != touch.new or touch.kind == "R":
                told = f"{store.shown(path)} was changed after the last save, {done.id[:10]}: {done.subject}"
                raise Conflict(told, f"git show {done.id[:10]} shows what that did")
            before = store.files.read(path) if touch.new and store.files.exists(path) else None
            edits.append(Edit(path, store.repo.blob(touch.old) if touch.old else None, before))
        main = next((one for one in edits if is_listed(one.path)), edits[0])
        if (record := parse(main.data or main.before or b"", main.path).record) is None:
            raise Conflict(f"{store.shown(main.path)} cannot be read", "filemem check says why")
        mark = f"{FORGOTTEN}/{mark_of(record.id)}"
        if main.data is None and not store.files.exists(mark) and mark not in {one.path for one in edits}:
            edits.append(Edit(mark, b"", None))  # as `forget` leaves it
        text = message(f"undo: {done.subject}", (("Filemem-Id", record.id), (_UNDOES, done.id)))
        made = write(store, main.path, record.type, lambda: (tuple(edits), text))
        troubles = {show(store, one.path, one.data, made) for one in edits if is_listed(one.path)}
    back = "" if main.data else f"filemem restore {short_id(record.id)} brings it back"
    return answer(store, record, made, f"Undid {done.id[:10]}: {done.subject}", "; ".join(sorted(troubles)), back)


def _last(store: Store) -> list[Touch]:
    """What the last save that is not undone did to its files. Raises NotFound."""
    undone = set[str]()
    touches = store.history.saves(store.repo.identity()[0][0], store.seen_from)
    for commit, found in groupby(touches, key=lambda touch: touch.commit):
        named = {value for key, value in commit.trailers if key == _UNDOES}
        if not named and commit.id not in undone:
            return list(found)
        undone |= named
    raise NotFound("nothing to undo: no save of yours is on this branch", "filemem forget ID removes a record")
