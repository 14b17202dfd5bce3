"""What a save leads to: the records that its fields and its text name, and the decisions that a new one replaces.

Rule: what a field names must be there, or nothing is saved; what the text names need not be, and is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import finding, graph
from filemem.memory.identities import refuse_unknown
from filemem.memory.store import Store
from filemem.memory.writing import article
from filemem.record import DECISION, Record, edges_in, topic_key


def ids_of(store: Store, field: str, references: Iterable[str]) -> tuple[str, ...]:
    """Turn the references of an edge into ids.

    Raises:
        NotFound: one that points to nothing; names the field.
        BadInput: one that leads to no decision.
        Conflict: one whose id is not known here.
    """
    ids = []
    for reference in references:
        try:
            node = finding.find(store, reference)
        except NotFound as error:
            raise NotFound(f"{field}: {error.message}", error.hint) from None
        if node.type != DECISION:
            raise BadInput(f"{field}: {node.id} is {article(node.type)}; edges lead to decisions", field=field)
        refuse_unknown(store, node)
        ids.append(node.id)
    return tuple(dict.fromkeys(ids))


def replaced(store: Store, given: Mapping[str, Any]) -> tuple[str, ...]:
    """What a new decision replaces: what it says, else the heads of its topic.

    Raises:
        BadInput: the topic is none.
        Conflict: the topic is forked, and nothing says which heads are meant; or the id of one is not known here.
    """
    if "supersedes" in given:
        return tuple(given["supersedes"])
    key = topic_key(given["topic"])
    if not key:
        raise BadInput("topic has no letters or digits", "name what the decision is about", field="topic")
    resolved, around, _ = graph.neighbourhood(store, store.lookup("topic", [key]))
    heads = resolved.next_supersedes(key)
    merged = set(given.get("synthesizes", ()))
    if len(heads) > 1 and not merged:
        raise Conflict(
            f"topic {given['topic']} is forked: {len(heads)} decisions hold at once",
            "read them, then save again with supersedes or synthesizes naming those that this one replaces",
            heads=heads,
        )
    meant = tuple(head for head in heads if not merged or len(heads) == 1 or head in merged)
    for head in meant:
        refuse_unknown(store, around[head])
    return meant


def dangling(store: Store, record: Record) -> str:
    """Say which records that the text names by an edge are not there, or ""."""
    said = f"{record.decision}\n{record.text}" if record.type == DECISION else ""
    targets = dict.fromkeys(edge.target for edge in edges_in(said))
    known = {node.id for node in store.lookup("id", targets)} if targets else set()
    missing = [target for target in targets if target not in known]
    return f"no record {' and none '.join(missing)}: what the text says of it leads nowhere" if missing else ""
