"""Records that were removed: finding one again by its name, and bringing it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, NotFound
from filemem.files import is_listed
from filemem.memory import finding, meant, tombstones
from filemem.memory.saving import COMMIT, LEAVE, Saved
from filemem.record import Record, answering, is_id, namesake, parse, short_id, surrogate_id, topic_key
from filemem.repo import REMOVE, Message

if TYPE_CHECKING:
    from filemem.documents import Node
    from filemem.memory.store import Store
    from filemem.repo.lives import Birth as Life
    from filemem.repo.lives import Removed


class Gone(NamedTuple):
    """A record that was removed, or is hidden.

    Args:
        record: what it last said, by the id that it was known by.
        path: where it stood last.
        data: its bytes.
        name: what it is known by where it states no id, as `parse` takes it.
        first: the commit that brought it; "" where that is not known.
        own: the id that it had by itself: another, where that one belonged to another file.
    """

    record: Record
    path: str
    data: bytes
    name: str
    first: str
    own: str

    @property
    def key(self) -> str:
        """What tells it from others: the id that it is known by."""
        return self.record.id


def find(store: Store, wanted: str) -> Gone:
    """Find a record that was removed, by id, start of its short id, path, file name, number or title.

    Args:
        store: the parts.
        wanted: any of these.

    Raises:
        NotFound: none or several answer to it.
    """
    inside = store.asked(wanted)
    # By any other name a removed record may go too, such as its title, which is remembered nowhere.
    certain = is_id(inside) and meant.unheard(store, inside)
    every = [] if certain else list(_gone(store))
    found = {one.key: one for one in every if _goes_by(one, inside)}
    found = found or {one.key: one for one in every if _is_headed(one, wanted)}
    nodes = {node.id: node for node in store.lookup("id", [one.record.id for one in found.values()])}
    standing = [nodes[one.record.id] for one in found.values() if _stands(one, nodes)]
    gone = [one for one in found.values() if not _stands(one, nodes)]
    if len(gone) == 1:
        return gone[0]
    if gone:
        told = "; ".join(f"{one.record.title} ({short_id(one.record.id)})" for one in gone)
        raise NotFound(f"{len(gone)} removed records answer to {wanted!r}: {told}", "name one by its short id or path")
    if standing := standing or _found(store, wanted):
        node = standing[0]
        raise NotFound(f"{node.title!r} ({short_id(node.id)}) is not removed: it stands at {store.shown(node.path)}")
    if store.repo.partial():
        fate, brings = (
            meant.gone(store, wanted),
            "git fetch --refetch --no-filter brings what it lacks, then restore again",
        )
        told = f"{fate[0]}, and its text is not here" if fate else "unknown here"
        raise NotFound(f"{wanted!r}: {told}: this is a partial clone, which lacks older versions", brings)
    missing = " in the part of history that is here" if store.repo.history.boundary() else ""
    lists = f"{store.repo.places.by_hand} log --diff-filter=D --name-only lists what was"
    raise NotFound(f"no record {wanted!r} was removed{missing}", lists)


def _found(store: Store, wanted: str) -> list[Node]:
    """The record that stands and is called so, if any."""
    try:
        return [finding.find(store, wanted)]
    except NotFound:
        return []


def bring_back(store: Store, gone: Gone, message: Message) -> Saved:
    """Let a record stand again as it was, and take its tombstone away; the caller holds the save lock.

    Raises:
        Conflict: another file, or a folder, stands in its place, or Git is at work.
    """
    mark, named = tombstones.path_of(gone.record.id), store.files.named(gone.path)
    held = tombstones.held(store, gone.record.id, "HEAD")  # also where the work tree has lost it
    marked = mark if tombstones.forgotten(gone.record.id, store.tombstones) or held else ""
    if store.saver.withdraw(gone.path):
        return Saved(gone.path, "")
    here, item = _standing(store, gone), store.repo.item(named)
    if item is None and here is not None and store.repo.conversion(named).committed(here, None) != gone.data:
        what = f"{store.shown(gone.path)} stands there with other text than it had, in no commit"
        raise Conflict(f"nothing was restored: {what}", "commit it as it is, or move it away, then restore again")
    if marked and not held:
        store.repo.index.stage(store.files.named(mark), None)
        store.files.remove(mark)
        marked = ""
    if item is None:
        data = gone.data if here is None else here
        return store.saver.put(gone.path, data, message, policy=COMMIT, tombstone=marked)
    if not store.repo.index.entries([named]):  # a removal that is staged, which the user's next commit would carry out
        store.repo.index.stage(named, (item.mode.decode(), item.oid))
    if here is None:
        store.saver.put(gone.path, gone.data, message, policy=LEAVE)
    return store.saver.remove(mark, message) if marked else Saved(gone.path, "")


def _standing(store: Store, gone: Gone) -> bytes | None:
    """What stands in the place of a record that was removed: its own file, or none.

    Raises:
        Conflict: it is something else.
    """
    if not store.files.exists(gone.path):
        return None
    found = None if store.files.skipped(gone.path) else store.files.read(gone.path)
    record = None if found is None else parse(found, gone.path, gone.name).record
    if record is None or record.id != gone.own:
        what = f"what stands at {store.shown(gone.path)} now is not {gone.record.title!r}"
        raise Conflict(f"nothing was restored: {what}", "move that away (git mv), then restore again")
    return found


def _gone(store: Store) -> Iterator[Gone]:
    """Every record that is not there any more, the one that went last of its id at the end.

    History shows those that a commit removed; others stand but are hidden, or stand in HEAD alone: their removal waits
    for the repository, or for the user to commit it.
    """
    walk, known = store.history.walk(store.files.store, same=store.versions()), store.tombstones
    for last in (*walk.replaced, *walk.removed.values()):
        data = store.repo.blob(last.blob)
        if data is not None:
            yield from _read(store, last.path, last, last.first, data)
    left_out = {*store.repo.left_out(store.files.store)}
    waiting = {op.path for op in store.saver.pending() if op.kind == REMOVE}
    for path, birth in walk.births.items():
        inside = store.files.inside(path)
        if path in left_out or not is_listed(inside):
            continue
        if not store.files.exists(inside) or inside in waiting:
            yield from _read(store, path, birth, birth.commit.id, store.repo.show(path) or b"")
        elif known and store.files.skipped(inside) is None:
            here = _read(store, path, birth, birth.commit.id, store.files.read(inside))
            yield from (one for one in here if tombstones.forgotten(one.record.id, known))


def _read(store: Store, path: str, life: Life | Removed, first: str, data: bytes) -> Iterator[Gone]:
    inside, name = store.files.inside(path), namesake(store.files.inside(life.first_path), life.nth)
    record = parse(data, inside, name).record if is_listed(inside) else None
    if record is not None:
        surrogate = surrogate_id(inside)
        known = record._replace(id=surrogate) if tombstones.forgotten(surrogate, store.tombstones) else record
        yield Gone(known, inside, data, name, first, record.id)


def _stands(gone: Gone, nodes: Mapping[str, Node]) -> bool:
    """Whether a record stands all the same: one of its id that is not another's by birth; `nodes` by id."""
    node = nodes.get(gone.record.id)
    return node is not None and (gone.record.id_stated or gone.first in ("", node.birth.commit))


def _goes_by(gone: Gone, wanted: str) -> bool:
    named = wanted == surrogate_id(gone.path) or answering(wanted, [gone.record])
    return bool(named) or (len(wanted) >= 4 and short_id(gone.record.id).startswith(wanted))


def _is_headed(gone: Gone, wanted: str) -> bool:
    """Whether a record without a topic has a heading that says this behind its number."""
    key = topic_key(wanted)
    return bool(key) and not gone.record.topic_stated and topic_key(gone.record.topic) == key
