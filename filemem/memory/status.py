"""How the memory stands: counts, index, what waits, what is left to the user, problems."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from filemem.files import is_listed, is_private
from filemem.memory.save import left_to_user
from filemem.memory.store import TOP, Store
from filemem.query import Filter
from filemem.record import DECISION, TYPES
from filemem.repo import remote
from filemem.repo.journal import pending


def status(store: Store, *, behind: bool) -> dict[str, Any]:
    """Return how the memory stands, as plain values; `behind`: the last look at the files failed."""
    index = store.index
    counts = {kind: index.count(Filter(types=(kind,))) for kind in TYPES}
    decisions = [node for node in store.index.nodes() if node.type == DECISION]
    graph, topics = store.index.around(decisions).graph, {node.key for node in decisions if node.key}
    damaged = index.verify()
    state = f"damaged: {'; '.join(damaged)}" if damaged else "not in step" if behind else "in step"
    head, waiting = store.repo.head(), pending(store.repo)
    named = store.repo.listing(head, store.files.store) if head else {}
    held = {store.files.inside(path): blob for path, blob in named.items()}
    unsaved = {store.files.inside(one.path) for one in waiting}
    here = {path: one.blob for path, one in index.manifest().items() if not is_private(path) and path not in unsaved}
    lost = [store.shown(path) for path in held if is_listed(path) and not store.files.exists(path)]
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
            {"path": store.shown(store.files.inside(one.path)), "reason": one.reason, "age": str(timedelta(0, age))}
            for one in waiting
            for age in ((store.clock() - one.at) // 1000,)
        ],
    }
    more = {
        "trouble": store.repo.trouble,
        "uncommitted": sum(held.get(path) != blob for path, blob in here.items()),
        "gone": [{"path": path, "restore": f"filemem restore {path}"} for path in lost],
        "incomplete": store.repo.incomplete(),
        "left": left_to_user(store, "decisions/a.md", DECISION),
    }
    return {**found, **{name: value for name, value in more.items() if value}}


def _unshared(store: Store) -> int:
    """How many commits of a branch that is only a memory the other side lacks, as far as is known here."""
    head, branch = store.repo.head(), store.branch
    if store.files.store != TOP or not head or not branch:
        return 0
    where = remote.upstream(store.repo, branch) or remote.usual(store.repo, branch)
    there = store.repo.resolve(where.tracking) if where else None
    return store.repo.between(head, there) if there else 0
