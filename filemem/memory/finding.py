"""The one record that a reference means, wherever one is asked for: get, update, delete, history, edges of a save."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from filemem.documents import Node
from filemem.errors import NotFound
from filemem.memory import arguments, elsewhere, meant, names, phrases
from filemem.memory.store import Store
from filemem.record import answering, topic_key

Near = Callable[[Iterable[Node], str], str]
Fate = Callable[[Store, str], tuple[str, str] | None]


def find(
    store: Store,
    reference: str,
    kind: str = "",
    *,
    what: str = "record",
    near: Near = meant.records,
    fate: Fate = meant.gone,
) -> Node:
    """Find one record by id, unique start of an id or short id, path, file name, number or title.

    Args:
        store: the parts.
        reference: any of these, or one of them as other makers write links.
        kind: only records of this type go by file name, number or title.
        what: what is said not to exist.
        near: makes the hint of what was probably meant.
        fate: says what became of what is no more, and what to do.

    Raises:
        NotFound: nothing, or more than one record, answers to it; says which, or what became of it.
    """
    wanted = arguments.line("id", reference).strip()
    inside = store.asked(wanted)
    if exact := store.lookup("id", [wanted]) or store.lookup("path", [inside]):
        return exact[0]
    # A whole name goes before the beginning of another's: what is found may be deleted.
    found = store.lookup("short", [wanted.casefold()]) if wanted else []
    found = found or (
        _named(store, wanted, kind) or _beginning(store, wanted) or _once(store, inside) if wanted else []
    )
    if len(found) == 1:
        return found[0]
    if found:
        named = phrases.listed((node.title, node.id) for node in sorted(found, key=lambda node: node.path))
        raise NotFound(f"{len(found)} records answer to {wanted!r}: {named}", "name one by its short id or path")
    if told := fate(store, wanted):
        raise NotFound(f"no {what} {wanted!r}: {told[0]}", told[1])
    hint = elsewhere.unbegun(store)
    if not hint:
        known = near(store.nodes(), wanted) or "search lists what there is"
        hint = "; ".join(filter(None, (known, store.astray())))
    raise NotFound(f"no {what} {wanted!r}", hint)


def _beginning(store: Store, wanted: str) -> list[Node]:
    """The records whose id or short id begins so; a file without an id is shown by all of it behind `file_`."""
    text = wanted.casefold()
    ways = [("short", text), ("id", f"file_{text}"), *([("id", text)] if "_" in text else [])]
    found = [Node.loads(one) for field, start in ways for one in store.index.by_prefix(field, start)]
    return list({node.id: node for node in found}.values())


def _once(store: Store, wanted: str) -> list[Node]:
    """The records whose file had this path or name, where none has it today."""
    nodes = {node.id: node for node in store.nodes()}
    return [nodes[one] for one in names.once(store, nodes.values(), wanted) if one in nodes]


def _named(store: Store, wanted: str, kind: str) -> list[Node]:
    """The records that go by this file name, number or title, as records of other makers are named."""
    nodes = {node.id: node for node in store.nodes() if kind in ("", node.type)}
    if found := [nodes[one] for one in answering(wanted, map(names.bare, nodes.values()))]:
        return found
    key = topic_key(wanted)
    return [node for node in nodes.values() if key and not node.stated and topic_key(node.topic) == key]
