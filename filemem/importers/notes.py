"""Import folders of Markdown: the auto memory of Claude Code and the notes of basic-memory.

The memory of Claude Code is about a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from filemem.errors import NotFound
from filemem.importers.source import iter_documents
from filemem.importers.values import render_sections, to_text
from filemem.index.document import to_plain
from filemem.memory.ingest import Item
from filemem.record import DECISION, KEYS, OBSERVATION, Record, parse_record
from filemem.repo import Repo
from filemem.repo.history import History

_DROPPED_FIELDS = (
    "id",
    "type",
    "path",
    "created",
    "source",
    "mentions",
    "id_stated",
    "superseded_by",
    "secrets_allowed",
)
_KNOWN_KEYS = (
    "date",
    "superseded_by",
    "superseded-by",
    "replaces",
    "title",
    "permalink",
    *(key.name for key in KEYS),
)


def read_claude_code(source: Path) -> Iterator[Item]:
    """Read the notes below `projects/`, with a folder for each project, or of one such folder.

    Notes of a single folder state no project, as the user names the folder. `MEMORY.md` only lists
    the others.
    """
    project_notes = list(iter_documents(source, "**/memory/*.md"))
    for path, data in project_notes or iter_documents(source, "*.md"):
        if path.name == "MEMORY.md":
            continue
        project = path.parent.parent.name
        record = parse_record(data, f"observations/{path.name}").record
        if record is None:
            record = Record("", OBSERVATION)
        yield Item(
            id=f"{project}/{path.name}",
            type=OBSERVATION,
            created=read_mtime(path),
            values=_build_note_fields(record),
            project=project if project_notes else "",
            is_personal=True,
        )


def _build_note_fields(record: Record) -> dict[str, str]:
    title = to_text(record.extra.get("name"))
    text = record.text
    if title and not text:
        text = record.title  # a single line without a heading
    description = record.extra.get("description")
    return {
        "title": title or record.title,
        "text": render_sections(("", description), ("", text)),
        "kind": "memory",
    }


def read_basic_memory(source: Path) -> Iterator[Item]:
    """Read the notes of a folder, each by its permalink; `type: decision` marks a decision.

    A note without a date has that of its first commit, else the time of its file.
    """
    notes = list(iter_documents(source))
    commit_dates = _read_first_commits(source, [path for path, _ in notes])
    for path, data in notes:
        record = parse_record(data, f"observations/{path.name}").record
        if record is None:
            continue
        created = record.created or commit_dates.get(path) or read_mtime(path)
        name = path.relative_to(source).as_posix()
        item_id = to_text(record.extra.get("permalink")) or name
        if record.type == DECISION:
            decision = record._replace(created=created)
            yield build_item(decision, item_id, extra_fields={})
        else:
            observation = record._replace(type=OBSERVATION, created=created)
            yield build_item(observation, item_id, extra_fields={"kind": "memory"})


def read_mtime(path: Path) -> int:
    """Return the time of a file in epoch milliseconds."""
    return int(path.stat().st_mtime * 1000)


def _read_first_commits(folder: Path, paths: Iterable[Path]) -> Mapping[Path, int]:
    """Read when files were first committed, in epoch milliseconds; none outside a repository."""
    try:
        repo = Repo.discover(folder)
    except NotFound:
        return {}
    with closing(repo):
        top = repo.work_tree.resolve()
        names = {path: path.resolve().relative_to(top).as_posix() for path in paths}
        folder_name = folder.resolve().relative_to(top).as_posix()
        with closing(History(repo, folder_name)) as history:
            dates = history.read_dates(names.values())
    return {path: dates[name] for path, name in names.items() if name in dates}


def build_item(
    record: Record, item_id: str, *, keeps_id: bool = False, extra_fields: dict[str, Any]
) -> Item:
    """Build the item of a record of another store; `extra_fields` replace fields of the record."""
    fields = to_plain(record)
    for name in _DROPPED_FIELDS:
        fields.pop(name, None)
    extra = {}
    is_personal = False
    for name, value in record.extra.items():
        if name.casefold() not in _KNOWN_KEYS:
            extra[name] = value
        if name.casefold() == "visibility":
            is_personal = True  # its meaning is unknown, so only the user may read the record
    fields["extra"] = extra
    fields.update(extra_fields)
    return Item(
        id=item_id,
        type=record.type,
        created=record.created,
        values={},
        extra_fields=fields,
        keeps_id=keeps_id,
        is_personal=is_personal,
    )
