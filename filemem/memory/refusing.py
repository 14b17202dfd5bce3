"""When nothing may be written: the records are not here, or another memory is the project's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filemem.errors import BrokenStore
from filemem.memory import astray, obstacles
from filemem.repo import discovery

if TYPE_CHECKING:
    from filemem.memory.store import Store


def refuse_other(store: Store) -> None:
    """Refuse to write where the memory of the project is another than the records that are here.

    Raises:
        BrokenStore: says which it is, and what brings it; or that the work tree is gone.
    """
    discovery.refuse_gone(store.repo.work_tree)
    if why := astray.unattached(store) or astray.left(store):
        told, _, brings = why.partition(": ")
        raise BrokenStore(f"nothing was changed: {told}", brings)


def refuse_blind(store: Store, *, replacing: bool) -> None:
    """Refuse a save where the store is not here, and one whose topic it could fork unseen.

    Args:
        store: the parts.
        replacing: whether it is a decision that must replace what holds, which may lie outside the sparse checkout.

    Raises:
        BrokenStore: says what brings the records, or that the work tree is gone.
    """
    refuse_other(store)
    obstacles.refuse_unfilled(obstacles.unfilled(store), "nothing was saved: ")
    if replacing and (why := obstacles.unseen(store) or obstacles.gone(store)):
        missing, _, brings = why.rpartition(": ")
        raise BrokenStore(
            f"nothing was saved: {missing}, so what this decision replaces cannot be told",
            f"{brings}   (or say what it supersedes)",
        )
