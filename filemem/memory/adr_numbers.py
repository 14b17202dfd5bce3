"""The numbers of decision records: the highest one that a folder of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from filemem.memory.store import Store
from filemem.record import adr_number


def highest_number(store: Store) -> int:
    """The highest number that a decision record has, here or on a branch that this one will meet.

    Two branches that take one number merge without a conflict, and then it means two records. So
    HEAD, the default branch here and on the other side, and other work trees are asked too.
    """
    names = [store.files.newest_adr(), *_of_commits(store), *_of_work_trees(store)]
    numbers = map(adr_number, names)
    return max((number for number in numbers if number is not None), default=0)


def _of_commits(store: Store) -> Iterator[str]:
    """Names at the top of the store in HEAD and on the default branch, here and as last fetched."""
    tips = dict.fromkeys((store.repo.head() or "", *store.repo.default_tips()))
    for tip in filter(None, tips):
        yield from _at_top(store, store.repo.listing(tip, store.files.store))


def _at_top(store: Store, paths: Iterable[str]) -> Iterator[str]:
    inside = (store.files.inside(path) for path in paths)
    return (path for path in inside if "/" not in path)


def _of_work_trees(store: Store) -> Iterator[str]:
    """Names at the top of the store in the other work trees of the repository, committed or not."""
    for top in store.repo.work_trees():
        folder = top / store.files.store
        if top != store.repo.work_tree and folder.is_dir():
            yield from (path.name for path in folder.iterdir())
