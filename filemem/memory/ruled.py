"""The decisions against dependencies that come in: by a guard, as an alternative, as replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import NamedTuple

from filemem import query
from filemem.errors import BadInput, NotFound
from filemem.files import Files
from filemem.memory.store import Store
from filemem.query import Filter
from filemem.record import DECISION, Record
from filemem.record.commands import Addition, additions
from filemem.record.manifest import dependencies, same
from filemem.record.mention import alternative, chooses, mentions, plain

__all__ = ["Addition", "Ruling", "added", "additions", "ruled_out"]

MOST = 20  # names that are looked up
_DEPTH = 30  # decisions that are read


class Ruling(NamedTuple):
    """A dependency that comes in, and the live decision against it."""

    name: str
    id: str
    why: str  # the alternative as it is rejected, else what happened
    source: str  # the decision that `why` quotes


def added(store: Store, path: str, change: Callable[[str], str]) -> list[Addition]:
    """Return the dependencies that a change of a file brings; `change` returns the new text."""
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that is never read
        data = Files(store.code.work_tree, ".").read(path)
    text = data.decode("utf-8", "replace")
    before = {item.name for item in dependencies(path, text)}
    names = dict.fromkeys(item.name for item in dependencies(path, change(text)))
    return [Addition(name, path) for name in names if name not in before]


def ruled_out(store: Store, wanted: Sequence[Addition]) -> list[Ruling]:
    """Return what live decisions say against some dependencies, one ruling for each at most."""
    if not store.index.sound or not wanted:
        return []
    wanted = wanted[:MOST]
    rulings = [*_by_guards(store, wanted), *_by_decisions(store, wanted)]
    return [*{ruling.name: ruling for ruling in reversed(rulings)}.values()][::-1]


def _by_guards(store: Store, wanted: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what guards forbid in the manifests at the top of the work tree."""
    for addition in wanted:
        nodes = store.guarding([addition.manifest])
        for record in store.records([node.path for node in nodes]).values():
            for guard in record.guards:
                if guard.dependency and same(guard.dependency, addition.name):
                    yield Ruling(addition.name, record.id, str(guard), record.id)


def _by_decisions(store: Store, wanted: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what decisions that name a dependency say, the likeliest first."""
    names = [addition.name for addition in wanted]
    pairs = _naming(store, names)
    for name, (record, head) in product(names, pairs):
        yield from _against(record, head, name)


def _naming(store: Store, names: Iterable[str]) -> list[tuple[Record, Record]]:
    """The decisions with words of some names, each with what holds in its place."""
    text = " ".join(dict.fromkeys(map(plain, names)))
    terms, _ = query.parse(text, store.clock())
    decisions = Filter(types=(DECISION,), reader=store.reader)
    candidates = store.index.candidates(terms, decisions, _DEPTH, mode="keyword").candidates
    nodes = [candidate.node for candidate in candidates]
    graph = store.index.around(nodes).graph
    heads = {node.id: next(iter(graph.heads_of(node.id)), "") for node in nodes}
    every = [*nodes, *store.index.lookup("id", {*heads.values()})]
    records = store.records([node.path for node in every]).values()
    by_id = {record.id: record for record in records}
    return [
        (by_id[name], by_id[head]) for name, head in heads.items() if {name, head} <= by_id.keys()
    ]


def _against(record: Record, head: Record, name: str) -> Iterator[Ruling]:
    """Yield what a decision, or what holds in its place, says against a name."""
    if record.id == head.id:
        for rejected in record.rejected:
            if alternative(rejected, name) and not _qualified(record, rejected, name):
                yield Ruling(name, head.id, rejected, head.id)
    elif chooses(_choice(record), name) and not mentions(_choice(head), name):
        yield Ruling(name, head.id, f"it replaced {record.title}", record.id)


def _qualified(record: Record, rejected: str, name: str) -> bool:
    """Whether only a way to use the name is rejected: `Redis Streams` beside `Use Redis lists`."""
    longer = len(plain(rejected.partition(": ")[0])) > len(plain(name))
    return longer and chooses(_choice(record), name)


def _choice(record: Record) -> str:
    return record.decision or record.title
