"""Bringing an index to a past state of the memory, from the one that holds the present.

Rule: the same algorithm as for any checkout (`syncing`): what both states hold is neither read nor embedded again, and
a first commit is taken from what is known now wherever nothing that came since can have changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from filemem import changes
from filemem.documents import EDITS_KEPT, Birth
from filemem.index import IndexDamaged
from filemem.memory import syncing, tombstones
from filemem.memory.batch import Batch
from filemem.memory.origins import any_ended, born, edit_of, origins, passed_on
from filemem.memory.store import Store
from filemem.memory.versions import Versions
from filemem.repo import lives

if TYPE_CHECKING:
    from filemem.memory.asof import AsOf

MANY = 64  # files from which on they are read, or their first commits looked for, all at once


def bring(store: Store, past: AsOf) -> None:
    """Bring an index that holds the present, or nothing, to a past state."""
    base = past.index.notes.head
    try:
        before = past.index.manifest()
    except IndexDamaged:
        past.index.reset()
        before, base = {}, ""
    after = {path: changes.Entry(blob) for path, blob in past.blobs.items()}
    found = list(changes.diff(before, after))
    if marks := past.marks - store.tombstones:  # what a tombstone hides whose file stands as it does now
        hidden = {node.path for node in past.nodes() if tombstones.forgotten(node.id, marks)}
        hidden -= {change.path for change in found}
        found += [changes.Change(changes.MODIFIED, path, after[path]) for path in hidden if path in after]
    births = _births(store, past, found, base)
    passed = passed_on(past) if base and any_ended(store) else ()
    again = syncing.unsettled(past, found, (), births, after, passed, elsewhere=True)
    told = past.lookup("path", [change.path for change in again])
    births = {node.path: node.birth for node in told if node.birth.commit} | births
    past.read_ahead([change.path for change in (*found, *again)])
    batch = Batch(past, [*found, *again], births)
    past.index.apply(batch.changes.values(), batch.load, head=past.moment.commit)
    past.read_ahead(())


def _births(store: Store, past: AsOf, found: Iterable[changes.Change], base: str) -> dict[str, Birth]:
    """First commits of what changed, as that moment knew them, and of all that was committed anew since.

    Args:
        found: how the state differs from the one that `past.index` holds.
        base: the commit that this one was right for; "" where it holds nothing.
    """
    wanted = {change.path for change in found if change.entry is not None}
    branched = past.history.has_merges()  # where branches meet only the walk tells, as it does for a checkout
    if not base or branched or any_ended(store):
        return origins(past).births if wanted or base else {}
    since = store.repo.history_at(base).walk(store.files.store, past.moment.commit, Versions(past))
    inside = store.files.inside
    later = {inside(path): inside(birth.first_path) for path, birth in since.births.items()}
    moved = {first: path for path, first in later.items() if first != path}  # path then -> path now
    wanted |= past.blobs.keys() & {*later, *map(inside, since.edits)}
    nodes = {n.path: n for n in past.lookup("path", [*wanted, *(moved[p] for p in wanted & moved.keys())])}
    news = {birth.commit.id for birth in since.births.values()}
    news |= {edit.commit.id for edits in since.edits.values() for edit in edits}
    births: dict[str, Birth] = {}
    for path in wanted:
        node = nodes.get(moved.get(path, path)) if path not in later else None
        if node and (birth := _before(node.birth, news)):
            births[path] = birth
    return births | _first_commits(past, wanted - births.keys())


def _before(birth: Birth, news: Collection[str]) -> Birth | None:
    """What was known of a record before some commits; None where that cannot be told from what is known after them."""
    edits = tuple(edit for edit in birth.edits if edit.commit not in news)
    cut = len(birth.edits) == EDITS_KEPT and len(edits) < EDITS_KEPT
    return None if cut or not birth.commit or birth.commit in news else birth._replace(edits=edits)


def _first_commits(past: AsOf, paths: Collection[str]) -> dict[str, Birth]:
    """First commits of some files, from one log for few of them, from a walk for many."""
    if len(paths) > MANY:
        births = origins(past).births
        return {path: births[path] for path in paths if path in births}
    inside = past.files.inside
    logs = past.history.logs({past.files.named(path): "" for path in paths}, Versions(past)) if paths else {}
    return {inside(path): _birth(log, inside) for path, log in logs.items() if log}


def _birth(log: Sequence[lives.Revision], inside: Callable[[str], str]) -> Birth:
    """The first commit of a file and what changed it since, from all its versions, newest first."""
    first = log[-1]
    birth = born(lives.Birth(log[0].path, first.path, first.commit, 0), inside(first.path))
    edits = [lives.Edit(new.commit, old.blob, new.blob) for new, old in pairwise(log) if new.blob != old.blob]
    return birth.edited(map(edit_of, edits))
