"""Bringing the index in step with the files: scan, diff, apply. The one way, whatever changed them.

A changed record can change what others are: a new decision demotes the old one, a file that appears settles a link.
So a look has two halves: read what changed and work out which others must be told anew (`batch`), then hand all to the
index.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from filemem import changes
from filemem.documents import Birth, Node
from filemem.memory import claims, following, names, tombstones
from filemem.memory.batch import Batch
from filemem.memory.moves import carried
from filemem.memory.origins import Origins, origins, passed_on, were_there
from filemem.memory.store import Progress, Store

if TYPE_CHECKING:
    from filemem.repo.head import Writing

FEW = 50  # new files for which HEAD is asked one by one


class Look(NamedTuple):
    """What a look at the store did.

    Args:
        changed: files changed, or read where the index was built anew.
        busy: whether another process holds the index.
        embedded: records that had no vectors of the configured model and have them now.
        model: that model, where there are any.
    """

    changed: int = 0
    busy: bool = False
    embedded: int = 0
    model: str = ""


def catch_up(store: Store, *, full: bool, hints: Iterable[str] = (), progress: Progress | None = None) -> Look:
    """Bring the index in step with the files.

    Args:
        store: the parts.
        full: look at every file, not only at folders whose time changed.
        hints: absolute paths that a watcher named.
        progress: told how far the work is.
    """
    known = store.index.notes.folders
    times = store.files.folder_times(known)  # before the scan: what is written during it is looked at again next time
    written = {folder for folder in times.keys() | known.keys() if times.get(folder) != known.get(folder)}
    written |= {folder for folder, at in times.items() if at < 0}  # so lately that its time says nothing
    if not full and not hints and following.at_tip(store) and not written and not store.index.pending():
        return Look()
    if not store.index.writable:
        return Look(busy=True)
    saves = store.index.saves()  # what is saved while we look is news for the next one: we may see half of it
    waiting = [Node.loads(text).path for text in store.index.pending_nodes()]
    written_to, head = store.repo.writing(), store.repo.head() or ""
    before = store.index.manifest()
    moved = _moved(store, head) if before else ELSEWHERE  # an index built anew knows nothing of what came before
    news = origins(store, store.index.notes.head) if moved == ONWARD else None
    folders, began = None, time.time_ns()
    if moved == ELSEWHERE and before and store.index.turn_to(head):
        moved, before = STILL, store.index.manifest()
    elif known and not full and moved != ELSEWHERE:
        named = (*waiting, *(news.touched if news else ()))
        folders = written | _folders_of(store, hints) | {posixpath.dirname(path) for path in named}
    after, _ = store.files.scan(before, hash_name=store.repo.hash_name, folders=folders)
    looked = (began, time.time_ns() - began) if folders is None else None
    found = list(changes.diff(before, after))
    gone = [Node.loads(text).path for text in store.index.removed_nodes()]
    found += [changes.Change(changes.REMOVED, path, None) for path in gone if path not in after]
    births = _births(store, found, waiting, moved, news)
    elsewhere = moved == ELSEWHERE or (news and not after.keys() >= news.touched | news.removed)
    if elsewhere or any(change.path not in waiting for change in found):  # moved files: asked as a rebuild asks
        births |= carried(store, {path: one.blob for path, one in after.items()}, after)
    passed = passed_on(store, news) if moved != STILL and before else ()
    again = unsettled(store, found, waiting, births, after, passed, elsewhere=moved == ELSEWHERE)
    told = store.lookup("path", [change.path for change in again])
    births = {node.path: node.birth for node in told if node.birth != Birth()} | births
    found += again + _forgotten(store, found, after)
    if found and progress:
        progress(0, len(found))  # reading them takes a part of the time
    if found or not store.index.exists:
        batch = Batch(store, found, births)
        found = [change for path, change in batch.changes.items() if path in before or path not in batch.hidden]
        after = {path: entry for path, entry in after.items() if path not in batch.hidden}
        if found or not store.index.exists or store.index.pending():
            store.index.apply(found, batch.load, progress=progress, seen=after, known=saves)
    elif store.index.pending():
        store.index.fold(saves)
    if moved != STILL or full:
        store.standings.look()
    claims.every(store)  # so that a search can show them without asking Git
    seen = None if found else after
    store.index.note(head=_held(store, head, written_to), folders=times, seen=seen, looked=looked, known=saves)
    return Look(len(found))


def _held(store: Store, head: str, before: Writing) -> str:
    """The commit that HEAD named during a look; "" where births may be another branch's, since it was elsewhere too.

    A commit on top is news for the next look.

    Args:
        store: the parts.
        head: where it was when the look began.
        before: when that was written.
    """
    now, after = store.repo.head() or "", store.repo.writing()
    if head == now:
        return head if after == before else ""
    return head if head and after.name == before.name and store.history.is_ancestor(head) else ""


def _forgotten(store: Store, found: Collection[changes.Change], after: changes.Manifest) -> list[changes.Change]:
    """Records to hide whose files stand as they were: their tombstones came without a change of theirs."""
    known = store.tombstones
    if not known or not following.deepened(store):
        return []
    named = {change.path for change in found}
    hidden = (node.path for node in store.nodes() if tombstones.forgotten(node.id, known))
    return [
        changes.Change(changes.MODIFIED, path, after[path]) for path in hidden if path in after and path not in named
    ]


STILL, ONWARD, ELSEWHERE = "still", "onward", "elsewhere"  # where HEAD went since the last look


def _moved(store: Store, head: str) -> str:
    """Commits on top of what we knew change files in folders whose times tell; a checkout or reset may change any."""
    known = store.index.notes.head
    if head == known:
        return STILL
    # Where another line took in what we knew, what landed first is told otherwise, of records that were there too.
    onward = known and not store.index.keeps(head) and store.repo.history.on_line(known)
    return ONWARD if onward else ELSEWHERE


def rebuild(store: Store, *, progress: Progress | None = None) -> Look:
    """Build the index anew from all files, as if there had been none: what is damaged tells nothing.

    Raises:
        Locked: another process is the writer.
    """
    if not store.index.writable:
        return Look(busy=True)
    store.index.reset()
    return catch_up(store, full=True, progress=progress)


def renew(store: Store, *, progress: Progress | None) -> Look:
    """Build the index anew beside the old one, which answers until the switch.

    Raises:
        IndexDamaged: the old one cannot answer; see `rebuild`.
        Locked: another process is the writer.
    """
    if not store.index.writable:
        return Look(busy=True)
    written_to, head = store.repo.writing(), store.repo.head() or ""
    saves = store.index.saves()
    entries, _ = store.files.scan(store.index.manifest(), hash_name=store.repo.hash_name)
    found = [changes.Change(changes.ADDED, path, entry) for path, entry in entries.items()]
    past = origins(store)
    files = {path: entry.blob for path, entry in entries.items()}
    batch = Batch(store, found, past.births | carried(store, files, entries, known=past))
    listed = {path: change.entry for path, change in batch.changes.items() if change.entry is not None}
    store.index.rebuild(listed, batch.load, _held(store, head, written_to), progress, saves)
    store.standings.look()
    return Look(len(found))


def _births(
    store: Store, found: Collection[changes.Change], waiting: Collection[str], moved: str, past: Origins | None
) -> dict[str, Birth]:
    """First commits of what changed, and of everything whose first commit is news because HEAD moved.

    Args:
        past: what the commits brought by which HEAD moved onward, if it did.
    """
    if moved == ELSEWHERE:
        gone = {node.path: Birth() for node in store.nodes() if node.birth.commit}
        return gone | origins(store).births
    nodes = store.lookup("path", [*(change.path for change in found), *waiting])
    births = {node.path: node.birth for node in nodes if node.birth.commit}
    if past is not None:
        news = past.births
        known = {node.path: node.birth.commit for node in store.lookup("path", list(news))}
        # A rename, a merge or a return shows files as added that were born before: then only the whole walk tells.
        doubtful = any(
            b.path != path or known.get(path, "") not in ("", b.commit) for path, b in news.items()
        ) or were_there(store, past, [path for path in news if not known.get(path)])
        # Where one goes that others claim the id of, they have its past from now on; where a merge left the edits of
        # one side, those are none any more.
        orphaned = bool(past.removed) and bool(store.lookup("open", ["id"]))
        if doubtful or orphaned or past.given_up:
            births |= origins(store).births
        else:
            edited = store.lookup("path", list(past.edits))
            births |= news | past.known({node.path: node.birth for node in edited if node.birth.commit})
    else:
        news = {}
    for path in waiting:  # a commit of ours may have left HEAD before we looked
        birth = births.get(path)
        if birth and path not in news and not store.repo.history.is_ancestor(birth.commit):
            births[path] = Birth()
    new = [change.path for change in found if change.kind != changes.REMOVED and change.path not in births]
    if len(new) > FEW or any(store.repo.item(store.files.named(path)) for path in new):
        births = origins(store).births | births  # they were away for a look, and HEAD has held them all along
    return births


def unsettled(
    store: Store,
    found: Collection[changes.Change],
    waiting: Iterable[str],
    births: Mapping[str, Birth],
    after: changes.Manifest,
    passed: Collection[str],
    *,
    elsewhere: bool,
) -> list[changes.Change]:
    """Records to tell anew although their bytes are the same.

    Those saved and not yet folded in, whose successors and predecessors must learn of them; those committed only now;
    those that refer to one of the paths that were `passed` on; those that had to give up their id to another file, as
    which of them landed first may be told otherwise where HEAD went `elsewhere`.
    """
    already = {change.path for change in found}
    nodes = store.lookup("path", [path for path in births if path not in already])
    again = [node for node in nodes if node.birth != births[node.path]]
    again += store.lookup("refers", names.at(passed))
    again += store.lookup("open", ["id"] if found or again or elsewhere else [])
    paths = {*waiting, *(node.path for node in again)} - already
    return [changes.Change(changes.MODIFIED, path, after[path]) for path in sorted(paths) if path in after]


def _folders_of(store: Store, hints: Iterable[str]) -> set[str]:
    """The folders of the store that named files stand in."""
    folders = {posixpath.dirname(posixpath.relpath(hint, store.folder)) for hint in hints}
    return {folder for folder in folders if not folder.startswith("..")}


def nothing_new(store: Store, hints: Iterable[str]) -> bool:
    """Whether everything a watcher named is found already: saved by filemem, or seen by an earlier look.

    Saves are folded into the index some at a time: a generation for each would slow down the next save.
    """
    if store.index.crowded:
        return False
    saved = store.index.waiting()
    named = {posixpath.relpath(hint, store.folder) for hint in hints}
    news = {path for path in named if not _is_known(store, path, saved)}
    entries = {path: entry.blob for path, entry in store.index.manifest().items()} if news else {}
    return all(_is_known(store, path, entries) for path in news)


def _is_known(store: Store, path: str, known: Mapping[str, str | None]) -> bool:
    """Whether a path is a file as we know it, or a folder with one: what else comes into that is named itself."""
    if path in known:
        return known[path] == store.blob(path)
    return any(one.startswith(f"{path}/") for one in known) and store.files.exists(path)
