"""Import the memories of other systems: each item becomes one record, and a run is one commit.

The files depend on the source alone, so two clones write the same ones. `source.hash` in the header
is a digest: a second run sees what exists, what changed in the source and what was edited here.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """One memory of a source."""

    id: str  # in the source
    type: str
    created: int | None  # epoch milliseconds; None if unknown
    values: Mapping[str, Any]  # fields as a save takes them; empty ones are ignored
    extra_fields: Mapping[str, Any] = {}  # further fields of the record; edges name items by id
    project: str = ""  # its project; "" if unknown
    has_counter_id: bool = False  # its id is a counter, not unique
    keeps_id: bool = False  # its id becomes the record's
    is_personal: bool = False  # it is about a person


class ImportResult(NamedTuple):
    """What a run did, or would do."""

    counts: Mapping[str, int]  # new, updated, same, forgotten; private and bytes of written ones
    records: Mapping[str, int]  # number of written records, by type
    edited: tuple[str, ...] = ()  # paths of records that changed here and in the source
    refused: tuple[tuple[str, str], ...] = ()  # ids in the source, and why each is not written
    samples: tuple[Record, ...] = ()
    commit: str = ""
    note: str = ""
    forked: tuple[str, ...] = ()  # topics on which several decisions are live now


def ingest(
    store: Store,
    items: Collection[Item],
    system: str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Write the records of some items; `dry_run`: only report what that would do.

    Raises Conflict: the repository is busy, or a file was changed meanwhile; BrokenStore: the store
    cannot be read; errors of `repo.commit.save_files`. Nothing is written then.
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
        full_path = store.files.to_work_tree_path(edit.path)
        is_left = store.get_leave_reason(edit.path, kind)
        edits = other_edits if is_left else committed_edits
        edits.append(edit._replace(path=full_path))
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
    counts: list[str] = []
    for kind, count in result.records.items():
        unit = f"{kind}s" if count > 1 else kind
        counts.append(f"{count} {unit}")
    trailers = [("Imported-From", system)]
    if store.config.agent:
        trailers.append(("Agent", store.config.agent))
    message = commit.render_message(f"import({system}): {', '.join(counts)}", trailers)
    plan = CommitPlan(tuple(edits), message, store.clock())

    def build_plan() -> CommitPlan:
        return plan

    save_result = commit.save_files(store.repo, store.files, build_plan)
    notes: list[str] = []
    if save_result.pending:
        notes.append(f"not committed yet: {save_result.pending}")
    if save_result.uncommitted_reason:
        notes.append(save_result.uncommitted_reason)
    if save_result.trouble:
        notes.append(save_result.trouble)
    return result._replace(commit=save_result.commit, note="; ".join(notes))


def _write_uncommitted(store: Store, edits: Sequence[Edit], result: ImportResult) -> None:
    """Write files that are not committed. Raises BrokenStore, with the commit of the others."""
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
    """List the names by which other systems may know this project.

    They are its folder, by name and by path, and the repository that it was cloned from.
    """
    url = store.code.settings.get_text("remote.origin.url")
    url = url.removesuffix("/").removesuffix(".git")
    location = re.sub(r"\A\w+://(?:[^@/]*@)?|\A[^@/]*@", "", url)
    parts = re.split(r"[/:]+", location)
    names = ["/".join(parts[start:]) for start in range(len(parts))]
    for tree in (store.code.work_tree, store.code.common_dir.parent):
        path = str(tree)
        names += [tree.name, path, re.sub(r"[^A-Za-z0-9]", "-", path)]
    return frozenset(name.casefold() for name in names if name)


# planning


class _ImportPlan:
    """A plan of an import; nothing is written."""

    def __init__(self, store: Store, system: str, items: Collection[Item]) -> None:
        self.store = store
        self.system = system
        self.edits: list[tuple[Edit, str]] = []  # each with the type of its record
        own_ids = {item.id: compute_record_id(item, system) for item in items}
        own_nodes = store.index.read_nodes_by_field("id", list(own_ids.values()))
        self.nodes_by_id = {node.id: node for node in own_nodes}
        self.ids = _find_target_ids(store, items, own_ids)
        self.tombstones = _read_tombstones(store)
        self.taken_names: set[str] = set()  # ids and paths
        self.counts = Counter({"new": 0, "updated": 0, "same": 0})
        self.type_counts = Counter[str]()
        self.samples: list[Record] = []
        self.edited_paths: list[str] = []
        self.refusals: list[tuple[str, str]] = []

    def plan_item(self, item: Item) -> None:
        """Compare an item with the existing records, and plan its write."""
        if compute_tombstone(self.ids[item.id]) in self.tombstones:
            self.counts["forgotten"] += 1
            return
        try:
            record, data = _build_record(item, self.system, self.ids)
            self._refuse_unwritable(record)
        except BadInput as error:
            self.refusals.append((item.id, error.message))
            return
        self.taken_names.update((record.id, record.path))
        path = record.path
        before = None
        state = "new"
        node = self.nodes_by_id.get(record.id)
        if node:
            path = node.path
            before = self.store.files.read(path)
            state = _compare_source(before, path, data)
        if state == "edited":
            self.edited_paths.append(self.store.to_display_path(path))
            return
        self.counts[state] += 1
        if state != "same":
            self._add_edit(record, Edit(path, data, before), len(data))

    def _refuse_unwritable(self, record: Record) -> None:
        """Refuse a record that would collide with another one. Raises BadInput."""
        if record.id in self.taken_names or record.path in self.taken_names:
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
        """Return what the run would do."""
        return ImportResult(
            counts=self.counts,
            records=self.type_counts,
            edited=tuple(self.edited_paths),
            refused=tuple(self.refusals),
            samples=tuple(self.samples),
        )


def _find_target_ids(
    store: Store, items: Iterable[Item], own_ids: Mapping[str, str]
) -> dict[str, str]:
    """Return the ids of all records that items may refer to, by the names that they use."""
    names = set[str]()
    for item in items:
        names.update(_list_targets(item))
    names -= own_ids.keys()
    nodes = store.index.read_nodes_by_field("id", list(names))
    ids = {node.id: node.id for node in nodes}
    ids.update(own_ids)
    return ids


def _read_tombstones(store: Store) -> frozenset[str]:
    """Read the tombstones of shared and private records."""
    folder = store.folder / "private" / FORGOTTEN
    private_names = [file.name for file in folder.glob("*")]
    return store.tombstones.union(private_names)


def _list_targets(item: Item) -> list[str]:
    """List the ids that the edges of an item lead to."""
    targets: list[str] = []
    for kind in EDGE_KINDS:
        targets += item.extra_fields.get(kind) or ()
    return targets


def compute_record_id(item: Item, system: str) -> str:
    """Return the id of an item's record: its own, or one that is the same in every clone."""
    if item.keeps_id and _WORD.fullmatch(item.id):
        return item.id
    if item.has_counter_id:
        return build_import_id(item.type, system, item.id, str(item.created))
    return build_import_id(item.type, system, item.id)


def _build_record(item: Item, system: str, ids: Mapping[str, str]) -> tuple[Record, bytes]:
    """Build the record of an item and its bytes.

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
    data = _add_source_hash(render_record(record), source)
    refuse_unreadable(data, record.path)
    hits = secrets.find_secrets(data.decode())
    if hits:
        raise BadInput(f"looks like a secret ({hits[0].kind}, line {hits[0].line} of the record)")
    return record, data


def _add_source_hash(data: bytes, source: Mapping[str, str]) -> bytes:
    """Add the digest of a record to its source, to recognize later edits."""
    hashed_source = dict(source)
    hashed_source["hash"] = _compute_digest(data)
    row = f"\nsource: {format_flow(source)}\n"
    hashed_row = f"\nsource: {format_flow(hashed_source)}\n"
    return data.replace(row.encode(), hashed_row.encode(), 1)


def _build_values(item: Item, ids: Mapping[str, str]) -> dict[str, Any]:
    """Build the values of a record from an item; `ids`: record ids by the ids of items."""
    valid_fields = _validate_fields(item)
    values = {name: value for name, value in valid_fields.items() if name not in NON_RECORD_FIELDS}
    if valid_fields:
        values["title"], values["text"] = build_texts(item.type, valid_fields)
    for name, value in item.extra_fields.items():
        values[name] = _strip_control(value)
    _resolve_edges(values, ids)
    if not values.get("title"):
        raise BadInput("it has no text")
    if item.type == DECISION:
        values = _add_topic_defaults(values)
    visibility = str(values.get("visibility", ""))
    if item.is_personal or visibility.strip().casefold() == "private":
        values["visibility"] = "private"
    return values


def _resolve_edges(values: dict[str, Any], ids: Mapping[str, str]) -> None:
    """Replace the ids of items in the edges of a record by record ids."""
    for kind in EDGE_KINDS:
        if values.get(kind):
            targets = [ids[name] for name in values[kind] if name in ids]
            values[kind] = tuple(dict.fromkeys(targets))


def _validate_fields(item: Item) -> dict[str, Any]:
    """Clean and check the fields that an item states. Raises BadInput."""
    validators = fields.FIELDS[item.type] | fields.COMMON
    valid_fields: dict[str, Any] = {}
    for name, value in item.values.items():
        if value or value == 0:
            valid_fields[name] = validators[name](name, _strip_control(value))
    return valid_fields


def _add_topic_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """Add the values that every decision has."""
    title = values["title"]
    topic = values.get("topic") or parse_topic(title)
    defaults = {"topic_stated": bool(build_topic_key(topic)), "supersedes": (), "decision": title}
    return {**defaults, **values, "topic": topic}


def _strip_control(value: Any) -> Any:
    """Remove control characters, which no record may hold."""
    if isinstance(value, str):
        return value if value.isprintable() else _CONTROL.sub("", value)
    if type(value) in (tuple, list):
        return tuple(_strip_control(item) for item in value)
    return value


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compare_source(before: bytes, path: str, data: bytes) -> str:
    """Compare a file with its source: the same, updated in the source, or edited here."""
    old = parse_record(before, path).record
    new = parse_record(data, path).record
    if old is None or new is None:
        return "edited"
    old_source = old.source
    new_source = new.source
    if old_source == new_source:
        return "same"
    if old._replace(source=new_source, id_stated=True) == new:
        return "same"
    if not isinstance(old_source, Mapping) or not isinstance(new_source, Mapping):
        return "edited"
    row = f", hash: {format_flow(old_source.get('hash', ''))}}}\n".encode()
    plain = before.replace(b"\r\n", b"\n").replace(row, b"}\n", 1)
    if old_source.get("system") != new_source["system"]:
        return "edited"
    is_untouched = _compute_digest(plain) == old_source.get("hash")
    return "updated" if is_untouched else "edited"
