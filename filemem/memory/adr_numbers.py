"""Find the highest number of the decision records (ADRs) of a folder."""

from __future__ import annotations

from collections.abc import Iterator

from filemem.memory.store import Store
from filemem.record import parse_adr_number


def find_highest_number(store: Store) -> int:
    """Find the highest number of a decision record here or on branches that may be merged; else 0.

    Two branches that use one number merge without a conflict, and then it means two records. So
    HEAD, the default branch here and on the remote, and other work trees are read too.
    """
    names = [store.files.find_newest_adr()]
    names += _iter_committed_names(store)
    names += _iter_work_tree_names(store)
    highest_number = 0
    for name in names:
        number = parse_adr_number(name)
        if number is not None:
            highest_number = max(highest_number, number)
    return highest_number


def _iter_committed_names(store: Store) -> Iterator[str]:
    """Yield names at the top of the store in HEAD and on the default branch, local and remote."""
    tips = [store.repo.read_head() or ""]
    tips += store.repo.list_default_tips()
    for tip in dict.fromkeys(tips):
        if not tip:
            continue
        for path in store.repo.list_files(tip, store.files.store):
            name = store.files.to_store_path(path)
            if "/" not in name:
                yield name


def _iter_work_tree_names(store: Store) -> Iterator[str]:
    """Yield names at the top of the store in other work trees, committed or not."""
    for top in store.repo.list_work_trees():
        folder = top / store.files.store
        if top == store.repo.work_tree or not folder.is_dir():
            continue
        for path in folder.iterdir():
            yield path.name
