"""How the memory stands: counts, index, what waits, what is left to the user, problems."""

from __future__ import annotations

import time
from typing import Any

from filemem.files import is_listed, is_private
from filemem.memory.save import left_to_user
from filemem.memory.store import TOP, Store
from filemem.query import Filter
from filemem.record import DECISION, TYPES
from filemem.repo import branches, remote
from filemem.repo.journal import pending


def status(store: Store, *, behind: bool) -> dict[str, Any]:
    """Return how the memory stands, as plain values.

    Args:
        store: the parts.
        behind: whether the last look at the files failed.
    """
    index = store.index
    counts = {kind: index.count(Filter(types=(kind,))) for kind in TYPES}
    decisions = [node for node in store.index.nodes() if node.type == DECISION]
    graph, topics = store.index.around(decisions).graph, {node.key for node in decisions if node.key}
    damaged = index.verify()
    state = f"damaged: {'; '.join(damaged)}" if damaged else "not in step" if behind else "in step"
    found: dict[str, Any] = {
        "store": store.name,
        "records": counts,
        "topics": len(topics),
        "forked": sum(graph.chain(topic).is_forked for topic in topics),
        "index": {
            "state": state,
            "records": sum(counts.values()),
            "model": index.model.name if index.model else "",
            "folder": str(index.root),
        },
        "unshared": _unshared(store),
        "pending": [
            {"path": store.shown(store.files.inside(one.path)), "reason": one.reason, "age": _age(store, one.at)}
            for one in pending(store.repo)
        ],
    }
    more = {
        "trouble": store.repo.trouble,
        "uncommitted": _uncommitted(store),
        "gone": _gone(store),
        "incomplete": store.repo.incomplete(),
        "left": left_to_user(store, "decisions/a.md", DECISION),
        "stray": _stray(store),
    }
    return {**found, **{name: value for name, value in more.items() if value}}


def _uncommitted(store: Store) -> int:
    """How many records of the work tree HEAD does not have as they stand, but those that wait for their commit."""
    head, waiting = store.repo.head(), {one.path for one in pending(store.repo)}
    held = store.repo.listing(head, store.files.store) if head else {}
    entries = {
        store.files.named(path): one.blob for path, one in store.index.manifest().items() if not is_private(path)
    }
    return sum(held.get(path) != blob for path, blob in entries.items() if path not in waiting)


def _gone(store: Store) -> list[dict[str, str]]:
    """The records that HEAD has and the work tree lost, each with the command that brings it back."""
    head = store.repo.head()
    held = map(store.files.inside, store.repo.listing(head, store.files.store) if head else ())
    lost = [path for path in held if is_listed(path) and not store.files.exists(path)]
    return [{"path": store.shown(path), "restore": f"filemem restore {store.shown(path)}"} for path in lost]


def _stray(store: Store) -> str:
    """That the code's branch has records too, where the memory is on a branch of its own; "" where it has none."""
    if store.repo is store.code or not (head := store.code.head()):
        return ""
    count = sum(is_listed(path) for path in store.code.listing(head, store.config.store))
    return f"{count} records on the code's branch are not read: the memory has a branch of its own" if count else ""


def _unshared(store: Store) -> int:
    """How many commits of a branch that is only a memory the other side lacks, as far as is known here."""
    head, branch = store.repo.head(), store.branch
    if store.files.store != TOP or not head or not branch:
        return 0
    where = remote.upstream(store.repo, branch) or remote.usual(store.repo, branch)
    there = store.repo.resolve(where.tracking) if where else None
    return branches.between(store.repo, head, there) if there else 0


def _age(store: Store, at: int) -> str:
    seconds = max(0, (store.clock() or time.time_ns() // 10**6) - at) // 1000
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} s"
