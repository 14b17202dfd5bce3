"""Making what was just done findable, by every process.

Rule: it comes after the commit, so it must not fail, or a caller would save again; what goes wrong is told.
"""

from __future__ import annotations

from collections.abc import Callable

from filemem.changes import blob_id
from filemem.documents import Birth, doc_of, node_of
from filemem.errors import BrokenStore
from filemem.memory import following, graph
from filemem.memory.identities import Claim, known_as, landing
from filemem.memory.origins import origins
from filemem.memory.removed import Gone
from filemem.memory.store import Store
from filemem.record import Record, parse


def saved(store: Store, path: str, data: bytes, commit: str | None, birth: Birth | None = None) -> str:
    """Show a record as it was saved; says what went wrong, or "".

    Args:
        store: the parts.
        path: of the record, in the store.
        data: what it holds.
        commit: the one that brought it, if any.
        birth: what is known of its first commit, where that is another.
    """
    record = parse(data, path, birth.name if birth else "").record
    if record is None:
        return ""
    if birth is None:
        author = store.repo.identity()[0].name if commit else ""
        birth = Birth(commit, author, record.agent, store.repo.revisions.time_of(commit), path) if commit else Birth()
        return _told(lambda: _push(store, record, data, birth))
    return _told(lambda: _push_again(store, record, data, birth))


def removed(store: Store, path: str, aware: bool) -> str:
    """Show a record no more; `aware` as for `noted`."""
    return _told(lambda: store.index.push_removed(path)) or noted(store, aware)


def restored(store: Store, found: Gone, aware: bool) -> str:
    """Show a record that came back, with the past that it had; `aware` as for `noted`."""
    return _told(lambda: _take_in(store, found)) or noted(store, aware)


def noted(store: Store, aware: bool) -> str:
    """Spare the next look what this call knows, which tombstone came or went; `aware`: of all others before it."""
    return _told(lambda: _note(store)) if aware and following.deepened(store) else ""


def _note(store: Store) -> None:
    store.index.note(head=store.index.notes.head, past=following.past_stamp(store))


def _take_in(store: Store, found: Gone) -> None:
    birth, data = origins(store).births.get(found.path, Birth()), store.bytes_of(found.path)
    _push_again(store, parse(data, found.path, birth.name).record or found.record, data, birth)


def _push_again(store: Store, record: Record, data: bytes, birth: Birth) -> None:
    """Push a record that was there before, whose id may be another's by now."""
    others = [Claim.by(node) for node in store.lookup("id", [record.id]) if node.path != record.path]
    known = known_as([Claim.of(record, birth), *others], landing(store, store.history))[record.path]
    # One that has its id again, as the other is gone, has that one's past too: the next look asks Git for it.
    was_open = any("id" in node.open for node in store.lookup("path", [record.path]))
    _push(store, record._replace(id=known), data, birth, ("id",) if was_open or known != record.id else ())


def _push(store: Store, record: Record, data: bytes, birth: Birth, still_open: tuple[str, ...] = ()) -> None:
    node = node_of(record, birth, lambda reference: _known(store, reference))
    node = node._replace(open=(*node.open, *still_open))
    around = graph.gather(store.lookup_any, [node], {record.path: node}).nodes
    resolved = graph.resolve((around | {node.id: node}).values(), unrelated=store.unrelated)
    node = node._replace(live=graph.is_live(resolved, node))
    store.index.push(doc_of(record, blob_id(data, store.repo.hash_name), node))


def _known(store: Store, reference: str) -> str | None:
    nodes = store.lookup("id", [reference]) or store.lookup("path", [reference])
    return nodes[0].id if nodes else None


def _told(write: Callable[[], None]) -> str:
    try:
        write()
    except BrokenStore as error:
        return f"saved, but not searchable yet: {error.told}"
    return ""
