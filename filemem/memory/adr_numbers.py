"""The numbers of decision records: the highest one that a folder of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from filemem.memory.store import Store
from filemem.record import parse_adr_number


def find_highest_number(store: Store) -> int:
    """The highest number that a decision record has, here or on a branch that this one will meet.

    Two branches that take one number merge without a conflict, and then it means two records. So
    HEAD, the default branch here and on the other side, and other work trees are asked too.
    """
    names = [
        store.files.find_newest_adr(),
        *_iter_committed_names(store),
        *_iter_work_tree_names(store),
    ]
    numbers = map(parse_adr_number, names)
    return max((number for number in numbers if number is not None), default=0)


def _iter_committed_names(store: Store) -> Iterator[str]:
    """Names at the top of the store in HEAD and on the default branch, here and as last fetched."""
    tips = dict.fromkeys((store.repo.read_head() or "", *store.repo.list_default_tips()))
    for tip in filter(None, tips):
        yield from _iter_top_names(store, store.repo.list_files(tip, store.files.store))


def _iter_top_names(store: Store, paths: Iterable[str]) -> Iterator[str]:
    store_paths = (store.files.to_store_path(path) for path in paths)
    return (path for path in store_paths if "/" not in path)


def _iter_work_tree_names(store: Store) -> Iterator[str]:
    """Names at the top of the store in the other work trees of the repository, committed or not."""
    for top in store.repo.list_work_trees():
        folder = top / store.files.store
        if top != store.repo.work_tree and folder.is_dir():
            yield from (path.name for path in folder.iterdir())
