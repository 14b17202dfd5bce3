"""Folders of Markdown: the auto memory of Claude Code, which is about a person, and the notes of basic-memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filemem.importers.source import documents
from filemem.importers.values import text
from filemem.index.document import to_plain
from filemem.memory.ingest import Item
from filemem.record import DECISION, KEYS, OBSERVATION, Record, parse

_MADE_ANEW = ("id", "type", "path", "created", "source", "mentions", "id_stated", "superseded_by")
_OURS = ("date", "superseded_by", "superseded-by", "replaces", "title", "permalink", *(key.name for key in KEYS))


def read_claude_code(source: Path) -> Iterator[Item]:
    """The notes below `projects/`: the folder of each project is named by its path. `MEMORY.md` only lists them."""
    for path, data in documents(source, "**/memory/*.md"):
        if path.name == "MEMORY.md":
            continue
        record = parse(data, f"observations/{path.name}").record
        project, extra = path.parent.parent.name, record.extra if record else {}
        title, about = text(extra.get("name")), text(extra.get("description"))
        heading, whole = (
            (record.title, record.text) if record else ("", "")
        )  # of a line without a heading it is the title
        body = "\n\n".join(part for part in (about, whole or heading * bool(title)) if part)
        given = {"title": title or heading, "text": body, "kind": "memory"}
        made = int(path.stat().st_mtime * 1000)
        yield Item(f"{project}/{path.name}", OBSERVATION, made, given, project=project, private=True)


def read_basic_memory(source: Path) -> Iterator[Item]:
    """The notes of a folder, each by its permalink; one that says `type: decision` is a decision."""
    for path, data in documents(source):
        name = path.relative_to(source).as_posix()
        if (record := parse(data, f"observations/{path.name}").record) is None:
            continue
        kind = record.type if record.type == DECISION else OBSERVATION
        one = text(record.extra.get("permalink")) or name
        yield item_of(record._replace(type=kind), one, more={"kind": "memory"} if kind == OBSERVATION else {})


def item_of(record: Record, one: str, *, kept: bool = False, more: dict[str, Any]) -> Item:
    """The item that a record of another store is."""
    stated = {name: value for name, value in to_plain(record).items() if name not in _MADE_ANEW}
    stated["extra"] = {name: value for name, value in record.extra.items() if name.casefold() not in _OURS}
    return Item(one, record.type, record.created, {}, {**stated, **more}, kept=kept)
