"""Import what other systems remember: each item becomes one record, and a run is one commit.

What is written is a function of the source alone, and `source.hash` in the header is its digest: so
a second run knows what is there, what has changed in the source and what was edited here, and two
clones write the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from filemem import secrets
from filemem.errors import BadInput, BrokenStore, Conflict
from filemem.files import is_private
from filemem.memory import fields
from filemem.memory.save import NON_RECORD_FIELDS, build_texts
from filemem.memory.store import FORGOTTEN, Progress, Store, compute_tombstone
from filemem.record import (
    DECISION,
    EDGE_KINDS,
    Record,
    build_import_id,
    build_record_path,
    build_topic_key,
    parse_record,
    parse_topic,
    refuse_unreadable,
    render_record,
)
from filemem.record.yaml import format_flow
from filemem.repo import commit
from filemem.repo.commit import CommitPlan, Edit
from filemem.repo.journal import write_files as write_files

MAX_SAMPLES = 5
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_WORD = re.compile(r"[\w.:+@-]{1,200}")  # an id that a record may keep


class Item(NamedTuple):
    """One thing that a source holds."""

    id: str  # in the source
    type: str
    created: int | None  # epoch milliseconds; None where the source does not say
    values: Mapping[str, Any]  # fields as a save takes them; what is empty says nothing
    extra_fields: Mapping[
        str, Any
    ] = {}  # further fields of the record; edges name items by their ids
    project: str = ""  # that it belongs to; "" where the source does not say
    has_counter_id: bool = False  # its id is a counter, which others have too
    keeps_id: bool = False  # its id becomes the record's
    is_personal: bool = False  # it is about a person


class ImportResult(NamedTuple):
    """What a run did, or would do, and what is left to the user."""

    counts: Mapping[str, int]  # new, updated, same, forgotten; of those written: private, bytes
    records: Mapping[str, int]  # those that are written, by type
    edited: tuple[str, ...] = ()  # paths of records that were changed here and in the source
    refused: tuple[tuple[str, str], ...] = ()  # ids in the source, and why each is not written
    samples: tuple[Record, ...] = ()
    commit: str = ""
    note: str = ""
    forked: tuple[str, ...] = ()  # topics on which several decisions hold now


def ingest(
    store: Store,
    items: Collection[Item],
    system: str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Write the records of some items; `dry_run`: only say what that would do.

    Raises Conflict: the repository is busy, or a file was changed meanwhile; BrokenStore: what is
    there cannot be seen; errors of `repo.commit.save`. Nothing is written then.
    """
    import_plan = _ImportPlan(store, system, items)
    for step, item in enumerate(items, 1):
        if progress is not None:
            progress(step, len(items))
        import_plan.plan_item(item)
    result = import_plan.build_result()
    if dry_run or not import_plan.edits:
        return result
    _refuse_import(store, result)
    committed_edits: list[Edit] = []
    other_edits: list[Edit] = []
    for edit, kind in import_plan.edits:
        named_edit = edit._replace(path=store.files.to_work_tree_path(edit.path))
        (other_edits if store.get_leave_reason(edit.path, kind) else committed_edits).append(
            named_edit
        )
    with store.repo.save_lock():
        if result.counts["private"]:
            store.files.hide_folder("private")
        if committed_edits:
            result = _commit_edits(store, system, committed_edits, result)
        _write_uncommitted(store, other_edits, result)
    store.repo.claim_notice(system)
    return result


def _refuse_import(store: Store, result: ImportResult) -> None:
    """Refuse to write into a store that is busy, hidden or of another tool."""
    reason = store.repo.find_busy_reason()
    if reason:
        raise Conflict(f"{reason}; nothing was imported", "import when that is over")
    obstacle = store.find_obstacle()
    if obstacle:
        raise BrokenStore(f"nothing was imported: {obstacle}")
    if store.files.find_newest_adr() and DECISION in result.records:
        message = f"{store.name} is a folder of numbered decision records; nothing was imported"
        raise Conflict(message, "`filemem --store memory import ...` begins a memory beside it")


def _commit_edits(
    store: Store, system: str, edits: Sequence[Edit], result: ImportResult
) -> ImportResult:
    counts = ", ".join(
        f"{count} {kind}{'s' * (count > 1)}" for kind, count in result.records.items()
    )
    trailers = [("Imported-From", system)]
    if store.config.agent:
        trailers.append(("Agent", store.config.agent))
    message = commit.render_message(f"import({system}): {counts}", trailers)
    plan = CommitPlan(tuple(edits), message, store.clock())
    save_result = commit.save_files(store.repo, store.files, lambda: plan)
    pending_note = f"not committed yet: {save_result.pending}" if save_result.pending else ""
    note = "; ".join(
        filter(None, (pending_note, save_result.uncommitted_reason, save_result.trouble))
    )
    return result._replace(commit=save_result.commit, note=note)


def _write_uncommitted(store: Store, edits: Sequence[Edit], result: ImportResult) -> None:
    """Write what is not committed. Raises BrokenStore, which says what is committed already."""
    try:
        write_files(store.files, edits)
    except BrokenStore as error:
        if not result.commit:
            raise
        message = (
            f"{result.commit[:10]} has what is committed; the other {len(edits)} are not written"
        )
        raise BrokenStore(
            f"{message}: {error.message}", f"{error.hint}, then import again"
        ) from None


def list_project_names(store: Store) -> frozenset[str]:
    """What other systems may call this project.

    That is its folder, by name and by path, and the repository that it is of.
    """
    url = store.code.settings.get_text("remote.origin.url").removesuffix("/").removesuffix(".git")
    parts = re.split(r"[/:]+", re.sub(r"\A\w+://(?:[^@/]*@)?|\A[^@/]*@", "", url))
    names = {"/".join(parts[index:]) for index in range(len(parts))}
    for tree in (store.code.work_tree, store.code.common_dir.parent):
        names |= {tree.name, str(tree), re.sub(r"[^A-Za-z0-9]", "-", str(tree))}
    return frozenset(map(str.casefold, filter(None, names)))


# what is to be written


class _ImportPlan:
    """What an import would do: each item is planned, and nothing is written."""

    def __init__(self, store: Store, system: str, items: Iterable[Item]) -> None:
        self.store = store
        self.system = system
        self.edits: list[tuple[Edit, str]] = []  # each with the type of its record
        own_ids = {item.id: compute_record_id(item, system) for item in items}
        self.nodes_by_id = {
            node.id: node for node in store.index.read_nodes_by_field("id", list(own_ids.values()))
        }
        other_names = {name for item in items for name in _list_targets(item)} - own_ids.keys()
        self.ids = {
            node.id: node.id for node in store.index.read_nodes_by_field("id", list(other_names))
        } | own_ids
        hidden = store.folder / "private" / FORGOTTEN
        self.tombstones = store.tombstones | {mark.name for mark in hidden.glob("*")}
        self.taken_names: set[str] = set()  # ids and paths
        self.counts = Counter(dict.fromkeys(("new", "updated", "same"), 0))
        self.type_counts = Counter[str]()
        self.samples: list[Record] = []
        self.edited_paths: list[str] = []
        self.refusals: list[tuple[str, str]] = []

    def plan_item(self, item: Item) -> None:
        """Compare an item with what is there, and note what is to be written."""
        if compute_tombstone(self.ids[item.id]) in self.tombstones:
            self.counts["forgotten"] += 1
            return
        try:
            record, data = _build_record(item, self.system, self.ids)
            self._refuse_unwritable(record)
        except BadInput as error:
            self.refusals.append((item.id, error.message))
            return
        self.taken_names |= {record.id, record.path}
        node = self.nodes_by_id.get(record.id)
        before = self.store.files.read(node.path) if node else None
        path = node.path if node else record.path
        state = "new" if before is None else _compare_source(before, path, data)
        if state == "edited":
            self.edited_paths.append(self.store.to_display_path(path))
            return
        self.counts[state] += 1
        if state != "same":
            self._add_edit(record, Edit(path, data, before), len(data))

    def _refuse_unwritable(self, record: Record) -> None:
        """Refuse what cannot be written beside the other records. Raises BadInput."""
        if {record.id, record.path} & self.taken_names:
            raise BadInput("another item has its id, or its file")
        node = self.nodes_by_id.get(record.id)
        if node and is_private(record.path) and not is_private(node.path):
            path = self.store.to_display_path(node.path)
            raise BadInput(f"it is private there now, and committed here: {path}")

    def _add_edit(self, record: Record, edit: Edit, size: int) -> None:
        self.edits.append((edit, record.type))
        self.counts.update(private=is_private(edit.path), bytes=size)
        self.type_counts[record.type] += 1
        if len(self.samples) < MAX_SAMPLES:
            self.samples.append(record)

    def build_result(self) -> ImportResult:
        """What the run would do."""
        texts = (tuple(self.edited_paths), tuple(self.refusals), tuple(self.samples))
        return ImportResult(self.counts, self.type_counts, *texts)


def _list_targets(item: Item) -> Iterable[str]:
    """The ids that the edges of an item lead to."""
    return chain.from_iterable(item.extra_fields.get(kind) or () for kind in EDGE_KINDS)


def compute_record_id(item: Item, system: str) -> str:
    """The id of the record that an item becomes: its own, or one that every clone makes alike."""
    if item.keeps_id and _WORD.fullmatch(item.id):
        return item.id
    return build_import_id(
        item.type, system, item.id, *([str(item.created)] if item.has_counter_id else [])
    )


def _build_record(item: Item, system: str, ids: Mapping[str, str]) -> tuple[Record, bytes]:
    """The record of an item and its bytes.

    Raises BadInput: it is empty, too long, or looks like a secret.
    """
    values = _build_values(item, ids)
    source = {"system": system, "id": _strip_control(item.id)}
    record = Record(
        id=compute_record_id(item, system),
        type=item.type,
        created=item.created,
        source=source,
        **values,
    )
    record = record._replace(path=build_record_path(record))
    plain = render_record(record)
    row = f"\nsource: {format_flow({**source, 'hash': _compute_digest(plain)})}\n"
    data = plain.replace(f"\nsource: {format_flow(source)}\n".encode(), row.encode(), 1)
    refuse_unreadable(data, record.path)
    hits = secrets.find_secrets(data.decode())
    if hits:
        raise BadInput(f"looks like a secret ({hits[0].kind}, line {hits[0].line} of the record)")
    return record, data


def _build_values(item: Item, ids: Mapping[str, str]) -> dict[str, Any]:
    """The values of a record, of the fields of an item; its edges lead to records by `ids`."""
    valid_fields = _validate_fields(item)
    values = {name: value for name, value in valid_fields.items() if name not in NON_RECORD_FIELDS}
    if valid_fields:
        values["title"], values["text"] = build_texts(item.type, valid_fields)
    values |= {name: _strip_control(value) for name, value in item.extra_fields.items()}
    for kind in filter(values.get, EDGE_KINDS):
        values[kind] = tuple(dict.fromkeys(ids[name] for name in values[kind] if name in ids))
    if not values.get("title"):
        raise BadInput("it has no text")
    if item.type == DECISION:
        values = _add_topic_defaults(values)
    visibility = str(values.get("visibility", "")).strip().casefold()
    if item.is_personal or visibility == "private":
        values["visibility"] = "private"
    return values


def _validate_fields(item: Item) -> dict[str, Any]:
    """The fields that an item states, cleaned and checked. Raises BadInput."""
    validators = {**fields.FIELDS[item.type], **fields.COMMON}
    stated_values = {name: value for name, value in item.values.items() if value or value == 0}
    return {
        name: validators[name](name, _strip_control(value)) for name, value in stated_values.items()
    }


def _add_topic_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a decision, with what every decision has."""
    title = values["title"]
    topic = values.get("topic") or parse_topic(title)
    defaults = {"topic_stated": bool(build_topic_key(topic)), "supersedes": (), "decision": title}
    return {**defaults, **values, "topic": topic}


def _strip_control(value: Any) -> Any:
    """A value without control characters, which no record may hold."""
    if isinstance(value, str):
        return _CONTROL.sub("", value) if not value.isprintable() else value
    return tuple(map(_strip_control, value)) if type(value) in (tuple, list) else value


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compare_source(before: bytes, path: str, data: bytes) -> str:
    """How a file stands to what the source says now: the same, updated, or edited here."""
    old = parse_record(before, path).record
    new = parse_record(data, path).record
    if old is None or new is None:
        return "edited"
    old_source = old.source
    new_source = new.source
    if old_source == new_source or old._replace(source=new_source, id_stated=True) == new:
        return "same"
    if not isinstance(old_source, Mapping) or not isinstance(new_source, Mapping):
        return "edited"
    row = f", hash: {format_flow(old_source.get('hash', ''))}}}\n".encode()
    plain = before.replace(b"\r\n", b"\n").replace(row, b"}\n", 1)
    is_untouched = old_source.get("system") == new_source["system"] and _compute_digest(
        plain
    ) == old_source.get("hash")
    return "updated" if is_untouched else "edited"
