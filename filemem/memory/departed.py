"""Decisions of a topic that were removed: its history is told without them, so it says that they were there.

Rule: a topic's folder tells which they are. What is remembered of earlier walks says whether any file ended there, so
that Git is asked only where one did.
"""

from __future__ import annotations

import posixpath

from filemem.memory import phrases, tombstones
from filemem.memory.origins import remembered
from filemem.memory.store import Store
from filemem.record import DECISION, Record, parse, short_id, topic_folders, topic_key


def note(store: Store, topic: str) -> str:
    """Name the decisions of a topic that stood in its folder and are no more; "" where there are none.

    Args:
        store: the parts.
        topic: as it is shown.
    """
    gone = _gone(store, topic)
    if not gone:
        return ""
    # The title of what was forgotten may be what was to be forgotten.
    hidden = {one.id for one in gone if tombstones.forgotten(one.id, store.tombstones)}
    names = [short_id(one.id) if one.id in hidden else phrases.called(one.title, one.id) for one in gone]
    more = f" and {len(names) - phrases.SHOWN} more" if len(names) > phrases.SHOWN else ""
    told = f"removed since: {', '.join(names[: phrases.SHOWN])}{more}"
    return f"{told} (filemem get {short_id(gone[-1].id)} says when, and what brings it back)"


def _gone(store: Store, topic: str) -> list[Record]:
    """The last versions of these decisions, in the order in which they were made."""
    folder = f"decisions/{topic_folders(topic)}"
    ended = (path for path in remembered(store).ended or () if posixpath.dirname(path) == folder)
    away = [store.files.named(path) for path in ended if not store.files.exists(path)]
    if not away:
        return []
    how = ("-m", "--full-history", "--no-renames", "--diff-filter=D")
    blobs: dict[str, str] = {}
    for _, rows in store.history.rows(*how, store.history.tip, "--", *sorted(away)):
        for row in rows:
            blobs.setdefault(row.path, row.old)
    texts = {path: store.repo.blob(blob) for path, blob in blobs.items()}
    read = (parse(text, store.files.inside(path)).record for path, text in texts.items() if text)
    found = {one.id: one for one in read if one is not None and one.type == DECISION and one.id_stated}
    standing = {node.id for node in store.lookup("id", found)}
    gone = (one for one in found.values() if one.id not in standing and topic_key(one.topic) == topic_key(topic))
    return sorted(gone, key=lambda one: (one.created or 0, one.id))
