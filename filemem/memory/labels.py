"""Names of records in messages: titles with short ids, and hints at what was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import NamedTuple, Protocol

from filemem.hints import NOTHING_YET, format_question, list_similar_names
from filemem.index import Index, Node
from filemem.record import build_topic_key

MIN_SHORT_ID_LENGTH = 4  # characters of a short id that name a record
MAX_NAMED = 5  # records in a message


def format_nodes(nodes: Collection[Node]) -> str:
    """Return the titles and short ids of the first few records, and how many more there are."""
    labels = [node.label for node in nodes]
    listing = "; ".join(labels[:MAX_NAMED])
    if len(labels) > MAX_NAMED:
        listing += f"; and {len(labels) - MAX_NAMED} more"
    return listing


class NamedRecord(NamedTuple):
    """A record that was named; `note` names it if a topic stands for it."""

    node: Node
    note: str = ""


class NodeSource(Protocol):
    """The lookups of a store that a hint needs."""

    @property
    def index(self) -> Index: ...
    @property
    def tombstones(self) -> frozenset[str]: ...
    def exclude_barred(self, nodes: Iterable[Node]) -> list[Node]: ...
    def list_live(self, key: str) -> list[Node]: ...


def format_hint(store: NodeSource, reference: str) -> str:
    """Suggest the record that a reference probably means."""
    key = build_topic_key(reference)
    nodes = store.index.read_nodes_by_field("topic", [key]) if key else []
    decisions = [node for node in store.exclude_barred(nodes) if node.key]
    live_nodes = store.list_live(key)
    if live_nodes:
        return f"{reference} is a topic, on which holds {format_nodes(live_nodes)}: name that"
    if decisions:
        last = max(decisions, key=attrgetter("created")).label
        return f"nothing holds on the topic {reference}; its last decision was {last}: name that"
    labels = _build_labels(store)
    if not labels and not store.tombstones:
        return NOTHING_YET
    similar_names = list_similar_names(reference.casefold(), labels, 3, 0.5)
    ways = "`filemem search` lists records; `filemem restore` brings back a deleted one"
    if len(reference) < MIN_SHORT_ID_LENGTH:
        ways = f"a short id takes {MIN_SHORT_ID_LENGTH} characters or more; {ways}"
    return format_question([labels[name] for name in similar_names], ways)


def _build_labels(store: NodeSource) -> dict[str, str]:
    """Return what to show for every title and stated topic, by its name in lower case."""
    nodes = store.exclude_barred(store.index.read_nodes())
    labels = {node.title.casefold(): node.label for node in nodes}
    topics = {node.topic for node in nodes if node.stated}
    for topic in topics:
        labels[topic.casefold()] = f"the topic {topic}"
    return labels
