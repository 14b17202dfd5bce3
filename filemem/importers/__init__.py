"""The memories of other systems, read from a source as items: one small module a format.

`memory.ingest` writes the items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from filemem.memory.ingest import Item


class Format(NamedTuple):
    """A format: the module and its function that reads it.

    `shared`: a source may hold the memories of several projects.
    """

    module: str
    function_name: str = "read"
    is_shared: bool = True


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
    """The items of a source in a format. Raises BadInput."""
    form = FORMATS[name]
    reader: Callable[[Path], Iterable[Item]] = getattr(
        import_module(f"{__name__}.{form.module}"), form.function_name
    )
    return list(reader(source))


def select_items(
    items: Iterable[Item], projects: Collection[str] | None, since: int | None, limit: int | None
) -> tuple[list[Item], list[Item]]:
    """The items that are asked for, oldest first, and those that belong to other projects.

    `projects`: the names of the wanted project; None for all. `since`: epoch milliseconds.
    `most`: so many, the newest.
    """
    selected: list[Item] = []
    other_items: list[Item] = []
    for item in items:
        if since is None or (item.created or 0) >= since:
            is_selected = projects is None or item.project.casefold() in projects
            (selected if is_selected else other_items).append(item)
    selected.sort(key=lambda item: item.created or 0)
    return selected[-limit:] if limit else selected, other_items
