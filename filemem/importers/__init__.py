"""Read the memories of other systems as items: one small module for each format.

`memory.ingest` writes the items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from filemem.memory.ingest import Item


class Format(NamedTuple):
    """A format: the module and its function that reads it."""

    module: str
    function_name: str = "read"
    is_shared: bool = True  # whether a source may have the memories of several projects


FORMATS = {
    "mama": Format("mama"),
    "claude-mem": Format("claude_mem"),
    "mem-claude": Format("claude_mem"),
    "powermem": Format("powermem"),
    "claude-code": Format("notes", "read_claude_code"),
    "basic-memory": Format("notes", "read_basic_memory"),
    "server-memory": Format("server_memory"),
    "decision-log": Format("project_notes", "read_decision_log"),
    "memory-bank": Format("project_notes", "read_memory_bank"),
    "serena": Format("project_notes", "read_serena"),
    "beads": Format("project_notes", "read_beads"),
    "adr": Format("adr"),
    "filemem": Format("filemem", is_shared=False),
}


def read(name: str, source: Path) -> list[Item]:
    """Read the items of a source in a format. Raises BadInput."""
    source_format = FORMATS[name]
    module = import_module(f"{__name__}.{source_format.module}")
    reader: Callable[[Path], Iterable[Item]] = getattr(module, source_format.function_name)
    return list(reader(source))


def select_items(
    items: Iterable[Item], projects: Collection[str] | None, since: int | None, limit: int | None
) -> tuple[list[Item], list[Item]]:
    """Select items; return them, oldest first, and those that belong to other projects.

    Args:
        projects: The names of the wanted project, in lower case; None for all projects.
        since: Leave out older items; epoch milliseconds, or None for all.
        limit: Select at most this number, the newest; None for all.
    """
    selected: list[Item] = []
    other_items: list[Item] = []
    for item in items:
        if since is not None and _get_creation_time(item) < since:
            continue
        if projects is None or item.project.casefold() in projects:
            selected.append(item)
        else:
            other_items.append(item)
    selected.sort(key=_get_creation_time)
    if limit:
        selected = selected[-limit:]
    return selected, other_items


def _get_creation_time(item: Item) -> int:
    return item.created or 0
