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
from filemem.record.commands import Addition, parse_additions
from filemem.record.manifest import is_same_dependency, parse_dependencies
from filemem.record.mention import fold_words, is_alternative, is_chosen, is_mentioned

__all__ = ["Addition", "Ruling", "list_added", "list_rulings", "parse_additions"]

MAX_NAMES = 20  # names that are looked up
_DEPTH = 30  # decisions that are read


class Ruling(NamedTuple):
    """A dependency that comes in, and the live decision against it."""

    name: str
    id: str
    why: str  # the alternative as it is rejected, else what happened
    source: str  # the decision that `why` quotes


def list_added(store: Store, path: str, change: Callable[[str], str]) -> list[Addition]:
    """Return the dependencies that a change of a file brings; `change` returns the new text."""
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that is never read
        data = Files(store.code.work_tree, ".").read(path)
    text = data.decode("utf-8", "replace")
    old_names = {item.name for item in parse_dependencies(path, text)}
    names = dict.fromkeys(item.name for item in parse_dependencies(path, change(text)))
    return [Addition(name, path) for name in names if name not in old_names]


def list_rulings(store: Store, incoming: Sequence[Addition]) -> list[Ruling]:
    """Return what live decisions say against some dependencies, one ruling for each at most."""
    if not store.index.is_readable or not incoming:
        return []
    incoming = incoming[:MAX_NAMES]
    rulings = [*_iter_guard_rulings(store, incoming), *_iter_decision_rulings(store, incoming)]
    return [*{ruling.name: ruling for ruling in reversed(rulings)}.values()][::-1]


def _iter_guard_rulings(store: Store, incoming: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what guards forbid in the manifests at the top of the work tree."""
    for addition in incoming:
        nodes = store.list_guarding([addition.manifest])
        for record in store.read_records([node.path for node in nodes]).values():
            for guard in record.guards:
                if guard.dependency and is_same_dependency(guard.dependency, addition.name):
                    yield Ruling(addition.name, record.id, str(guard), record.id)


def _iter_decision_rulings(store: Store, incoming: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what decisions that name a dependency say, the likeliest first."""
    names = [addition.name for addition in incoming]
    pairs = _list_naming_decisions(store, names)
    for name, (record, head) in product(names, pairs):
        yield from _iter_rulings_against(record, head, name)


def _list_naming_decisions(store: Store, names: Iterable[str]) -> list[tuple[Record, Record]]:
    """The decisions with words of some names, each with what holds in its place."""
    text = " ".join(dict.fromkeys(map(fold_words, names)))
    terms, _ = query.parse_query(text, store.clock())
    decisions = Filter(types=(DECISION,), reader=store.reader)
    candidates = store.index.search_candidates(terms, decisions, _DEPTH, mode="keyword").candidates
    nodes = [candidate.node for candidate in candidates]
    graph = store.index.read_chains(nodes).graph
    heads = {node.id: next(iter(graph.list_heads(node.id)), "") for node in nodes}
    all_nodes = [*nodes, *store.index.read_nodes_by_field("id", {*heads.values()})]
    records = store.read_records([node.path for node in all_nodes]).values()
    by_id = {record.id: record for record in records}
    return [
        (by_id[name], by_id[head]) for name, head in heads.items() if {name, head} <= by_id.keys()
    ]


def _iter_rulings_against(record: Record, head: Record, name: str) -> Iterator[Ruling]:
    """Yield what a decision, or what holds in its place, says against a name."""
    if record.id == head.id:
        for rejected in record.rejected:
            if is_alternative(rejected, name) and not _is_qualified(record, rejected, name):
                yield Ruling(name, head.id, rejected, head.id)
    elif is_chosen(_get_choice(record), name) and not is_mentioned(_get_choice(head), name):
        yield Ruling(name, head.id, f"it replaced {record.title}", record.id)


def _is_qualified(record: Record, rejected: str, name: str) -> bool:
    """Whether only a way to use the name is rejected: `Redis Streams` beside `Use Redis lists`."""
    is_longer = len(fold_words(rejected.partition(": ")[0])) > len(fold_words(name))
    return is_longer and is_chosen(_get_choice(record), name)


def _get_choice(record: Record) -> str:
    return record.decision or record.title
