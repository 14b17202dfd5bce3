"""The state of the memory, and each thing to do, with its command.

Rule: it runs in shell prompts, so it asks the index and Git, and reads only files whose header may be broken.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from filemem.errors import BadInput, NotFound
from filemem.files import is_listed, is_private, not_read
from filemem.index import Node
from filemem.memory.store import TOP, Store
from filemem.record import CHECKPOINT, DECISION, TYPES, UNKNOWN, format_time, parse
from filemem.repo import remote
from filemem.repo.journal import pending
from filemem.repo.served import addresses

MANY = 50_000  # entries of Git's index above which writing it is most of a save
SPLIT = "Git writes {:,} entries at every save: `git update-index --split-index` ends that, --no-split-index undoes it"


def status(store: Store, *, behind: bool) -> dict[str, Any]:
    """Return the state of the memory as plain values; `behind`: the last look at the files failed."""
    index, nodes = store.index, list(store.index.nodes())
    counts = {kind: sum(node.type == kind for node in nodes) for kind in TYPES}
    decisions = [node for node in nodes if node.type == DECISION]
    graph, topics = (
        index.around(decisions).graph,
        {node.key: node.topic for node in decisions if node.key},
    )
    forks = [topic for key, topic in sorted(topics.items()) if graph.chain(key).is_forked]
    state = (
        f"damaged: {'; '.join(damaged)}"
        if (damaged := index.verify())
        else "not in step"
        if behind
        else "in step"
    )
    head, waiting = store.repo.head(), pending(store.repo)
    named = store.repo.listing(head, store.files.store) if head else {}
    held = {store.files.inside(path): blob for path, blob in named.items()}
    unsaved = {store.files.inside(one.path) for one in waiting}
    here = {
        path: one.blob
        for path, one in index.manifest().items()
        if not is_private(path) and path not in unsaved
    }
    changed = sorted(path for path, blob in here.items() if held.get(path) != blob)
    lost = [store.shown(path) for path in held if is_listed(path) and not store.files.exists(path)]
    last = max(
        (node for node in nodes if node.type == CHECKPOINT),
        key=lambda node: node.created,
        default=None,
    )
    label, ahead, apart = _other_side(store)
    name, own = shlex.quote(store.name), store.repo is not store.code
    call, place = (f"git -C {name}", ".") if own else ("git", name)
    share = (
        "filemem sync"
        if store.files.store == TOP
        else "git pull && git push"
        if apart
        else "git push"
    )
    found: dict[str, Any] = {
        "store": store.name,
        "records": counts,
        "holding": sum(graph.is_head(node.id) for node in decisions),
        "topics": len(topics) + sum(not node.key and graph.is_head(node.id) for node in decisions),
        "forked": len(forks),
        "index": {
            "state": state,
            "records": sum(counts.values()),
            "model": index.model.name if index.model else "",
            "folder": str(index.root),
        },
        "unshared": ahead if store.files.store == TOP else 0,
        "pending": [
            {
                "path": store.shown(store.files.inside(one.path)),
                "reason": one.reason,
                "age": str(timedelta(0, age)),
            }
            for one in waiting
            for age in ((store.clock() - one.at) // 1000,)
        ],
    }
    broken = list(_broken(store, nodes, changed))
    ready = [path for path in changed if path not in broken]  # a broken one is mended first
    if broken and ready:
        place = shlex.join(path if own else store.files.named(path) for path in ready)
    more = {
        "forks": [
            f"filemem resolve {shlex.quote(one)} --decision ... --reasoning ..." for one in forks
        ],
        "broken": [store.shown(path) for path in broken],
        "not_understood": [store.shown(node.path) for node in decisions if node.status == UNKNOWN],
        "checkpoint": last
        and {"id": last.id, "title": last.title, "created": format_time(last.created)},
        "upstream": label,
        "ahead": ahead,
        "behind": apart,
        "share": (ahead or apart) and share,
        "trouble": store.repo.trouble,
        "edited": [store.shown(path) for path in ready if path in held],
        "new": [store.shown(path) for path in ready if path not in held],
        "commit": ready and f"{call} add {place} && {call} commit {place}",
        "gone": [
            {"path": path, "restore": f"filemem restore {shlex.quote(path)}"} for path in lost
        ],
        "incomplete": store.repo.incomplete(),
        "not_read": not_read(store.files.root),
        "pages": addresses(store.repo.private),
        "recalls_given_up": store.code.given_up,
        "left": store.left_to_user("decisions/a.md", DECISION),
        "settings": _settings(store),
    }
    return {**found, **{name: value for name, value in more.items() if value}}


def _settings(store: Store) -> str:
    """What could be better in the settings of Git and of filemem, or ""."""
    large = SPLIT.format(store.repo.entries) if store.repo.entries > MANY else ""
    return "; ".join(filter(None, (large, *store.config.unknown)))


def _broken(store: Store, nodes: Iterable[Node], changed: Collection[str]) -> Iterator[str]:
    """The records whose header cannot be read, among those without id or topic and those with edits."""
    for node in nodes:
        if (
            node.path in changed
            or node.id.startswith("file_")
            or (node.type == DECISION and not node.stated)
        ):
            with suppress(NotFound, BadInput):  # gone since
                data = store.files.read(node.path)
                problems = (
                    parse(data, node.path).problems if data.startswith((b"---", b"+++")) else ()
                )
                if any(one.level == "error" for one in problems):
                    yield node.path


def _other_side(store: Store) -> tuple[str, int, int]:
    """The upstream branch, and how many commits each side has that the other lacks, as last fetched."""
    branch = store.branch
    ways = (remote.upstream, remote.usual) if store.files.store == TOP else (remote.upstream,)
    where = next(filter(None, (way(store.repo, branch) for way in ways if branch)), None)
    here, there = (store.repo.resolve(where.tracking), store.repo.head()) if where else (None, None)
    if not (where and here and there):
        return "", 0, 0
    return where.label, store.repo.between(there, here), store.repo.between(here, there)
