"""Folders of Markdown: the auto memory of Claude Code and the notes of basic-memory.

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
    """The notes below `projects/`, each project's in a folder of its own, or of one such folder.

    The notes of one folder name no project: who names the folder means it. `MEMORY.md` only lists
    the others.
    """
    project_notes = list(iter_documents(source, "**/memory/*.md"))
    for path, data in project_notes or iter_documents(source, "*.md"):
        if path.name == "MEMORY.md":
            continue
        project = path.parent.parent.name
        record = parse_record(data, f"observations/{path.name}").record or Record("", OBSERVATION)
        title = to_text(record.extra.get("name"))
        # One line without a heading is the title of its record.
        note_text = record.text or (record.title if title else "")
        body = render_sections(("", record.extra.get("description")), ("", note_text))
        fields = {"title": title or record.title, "text": body, "kind": "memory"}
        yield Item(
            f"{project}/{path.name}",
            OBSERVATION,
            _read_mtime(path),
            fields,
            project=project if project_notes else "",
            is_personal=True,
        )


def read_basic_memory(source: Path) -> Iterator[Item]:
    """The notes of a folder, each by its permalink; one that says `type: decision` is a decision.

    A note states no time: its first commit counts, else when its file was written.
    """
    notes = list(iter_documents(source))
    commit_dates = _read_first_commits(source, [path for path, _ in notes])
    for path, data in notes:
        name = path.relative_to(source).as_posix()
        record = parse_record(data, f"observations/{path.name}").record
        if record is None:
            continue
        kind = record.type if record.type == DECISION else OBSERVATION
        created = record.created or commit_dates.get(path) or _read_mtime(path)
        id_ = to_text(record.extra.get("permalink")) or name
        extra_fields = {"kind": "memory"} if kind == OBSERVATION else {}
        yield build_item(
            record._replace(type=kind, created=created), id_, extra_fields=extra_fields
        )


def _read_mtime(path: Path) -> int:
    return int(path.stat().st_mtime * 1000)


def _read_first_commits(folder: Path, paths: Iterable[Path]) -> Mapping[Path, int]:
    """When each file was first committed, in epoch milliseconds; none outside a repository."""
    try:
        repo = Repo.discover(folder)
    except NotFound:
        return {}
    with closing(repo):
        top = repo.work_tree.resolve()
        names = {path: path.resolve().relative_to(top).as_posix() for path in paths}
        with closing(History(repo, folder.resolve().relative_to(top).as_posix())) as history:
            dates = history.read_dates(names.values())
    return {path: dates[name] for path, name in names.items() if name in dates}


def build_item(
    record: Record, id_: str, *, keeps_id: bool = False, extra_fields: dict[str, Any]
) -> Item:
    """The item that a record of another store is."""
    stated_fields = {
        name: value for name, value in to_plain(record).items() if name not in _DROPPED_FIELDS
    }
    stated_fields["extra"] = {
        name: value for name, value in record.extra.items() if name.casefold() not in _KNOWN_KEYS
    }
    # Who may read such a record is not known: nobody else.
    is_personal = any(name.casefold() == "visibility" for name in record.extra)
    stated_fields |= extra_fields
    return Item(
        id_,
        record.type,
        record.created,
        {},
        stated_fields,
        keeps_id=keeps_id,
        is_personal=is_personal,
    )
