"""The decisions against a new dependency: by a guard, as a rejected alternative, as replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from filemem import query
from filemem.errors import BadInput, NotFound
from filemem.files import Files
from filemem.index import Node
from filemem.memory.store import Store
from filemem.query import Filter
from filemem.record import DECISION, Record
from filemem.record.commands import Addition, parse_additions
from filemem.record.manifest import is_same_dependency, parse_dependencies
from filemem.record.mention import fold_words, is_alternative, is_chosen, is_mentioned

__all__ = ["Addition", "Ruling", "list_added", "list_rulings", "parse_additions"]

MAX_NAMES = 20  # dependencies that are looked up
_DEPTH = 30  # decisions that are read


class Ruling(NamedTuple):
    """A new dependency, and the live decision against it."""

    name: str
    id: str
    why: str  # the rejected alternative, the guard, or what replaced it
    source: str  # the decision that `why` quotes


def list_added(store: Store, path: str, change: Callable[[str], str]) -> list[Addition]:
    """Return the dependencies that a change of a file adds; `change` returns the new text."""
    data = b""
    with suppress(BadInput, NotFound):  # a new file, or one that must not be read
        data = Files(store.code.work_tree, ".").read(path)
    text = data.decode("utf-8", "replace")
    old_names = _list_dependencies(path, text)
    new_names = _list_dependencies(path, change(text))
    return [Addition(name, path) for name in new_names if name not in old_names]


def _list_dependencies(path: str, text: str) -> dict[str, None]:
    return dict.fromkeys(item.name for item in parse_dependencies(path, text))


def list_rulings(store: Store, incoming: Sequence[Addition]) -> list[Ruling]:
    """Return what live decisions say against some dependencies, one ruling for each at most."""
    if not store.index.is_readable or not incoming:
        return []
    incoming = incoming[:MAX_NAMES]
    rulings = list(_iter_guard_rulings(store, incoming))
    rulings += _iter_decision_rulings(store, incoming)
    first_rulings: dict[str, Ruling] = {}
    for ruling in rulings:
        first_rulings.setdefault(ruling.name, ruling)
    return list(first_rulings.values())


def _iter_guard_rulings(store: Store, incoming: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what guards forbid in the manifests at the top of the work tree."""
    for addition in incoming:
        nodes = store.list_guarding([addition.manifest])
        records = store.read_records([node.path for node in nodes])
        for record in records.values():
            for guard in record.guards:
                if guard.dependency and is_same_dependency(guard.dependency, addition.name):
                    yield Ruling(addition.name, record.id, str(guard), record.id)


def _iter_decision_rulings(store: Store, incoming: Iterable[Addition]) -> Iterator[Ruling]:
    """Yield what decisions that name a dependency say, the most likely first."""
    names = [addition.name for addition in incoming]
    pairs = _list_naming_decisions(store, names)
    for name in names:
        for record, head in pairs:
            yield from _iter_rulings_against(record, head, name)


def _list_naming_decisions(store: Store, names: Iterable[str]) -> list[tuple[Record, Record]]:
    """Return decisions with words of some names, each with the live decision that replaces it."""
    words = dict.fromkeys(fold_words(name) for name in names)
    terms = query.parse_query(" ".join(words), store.clock()).terms
    criteria = Filter(types=(DECISION,), reader=store.reader)
    nominated = store.index.search_candidates(terms, criteria, _DEPTH, mode="keyword")
    nodes = [candidate.node for candidate in nominated.candidates]
    first_heads = _find_first_heads(store, nodes)
    nodes += store.index.read_nodes_by_field("id", set(first_heads.values()))
    paths = [node.path for node in nodes]
    records = {record.id: record for record in store.read_records(paths).values()}
    pairs: list[tuple[Record, Record]] = []
    for id_, head_id in first_heads.items():
        record = records.get(id_)
        head = records.get(head_id)
        if record and head:
            pairs.append((record, head))
    return pairs


def _find_first_heads(store: Store, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the first live decision for each of some decisions, by id; "" if there is none."""
    graph = store.index.read_chains(nodes).graph
    first_heads: dict[str, str] = {}
    for node in nodes:
        heads = graph.list_heads(node.id)
        first_heads[node.id] = heads[0] if heads else ""
    return first_heads


def _iter_rulings_against(record: Record, head: Record, name: str) -> Iterator[Ruling]:
    """Yield what a decision, or the one that replaces it, says against a name."""
    if record.id == head.id:
        for rejected in record.rejected:
            if is_alternative(rejected, name) and not _is_qualified(record, rejected, name):
                yield Ruling(name, head.id, rejected, head.id)
        return
    was_chosen = is_chosen(_get_choice(record), name)
    if was_chosen and not is_mentioned(_get_choice(head), name):
        yield Ruling(name, head.id, f"it replaced {record.title}", record.id)


def _is_qualified(record: Record, rejected: str, name: str) -> bool:
    """Return whether only a use of a name is rejected: `Redis Streams` beside `Use Redis lists`."""
    alternative = rejected.partition(": ")[0]
    is_longer = len(fold_words(alternative)) > len(fold_words(name))
    return is_longer and is_chosen(_get_choice(record), name)


def _get_choice(record: Record) -> str:
    return record.decision or record.title
