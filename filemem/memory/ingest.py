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
from filemem.memory.save import SPELT_OUT, worded
from filemem.memory.store import FORGOTTEN, Progress, Store, mark_of
from filemem.record import (
    DECISION,
    EDGE_KINDS,
    Record,
    made_id,
    parse,
    record_path,
    refuse_unreadable,
    render,
    topic_key,
    topic_of_heading,
)
from filemem.record.yaml import flow
from filemem.repo import commit
from filemem.repo.commit import Edit, Plan
from filemem.repo.journal import write as write_files

SAMPLES = 5
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_WORD = re.compile(r"[\w.:+@-]{1,200}")  # an id that a record may keep


class Item(NamedTuple):
    """One thing that a source holds."""

    id: str  # in the source
    type: str
    created: int | None  # epoch milliseconds; None where the source does not say
    values: Mapping[str, Any]  # fields as a save takes them; what is empty says nothing
    more: Mapping[str, Any] = {}  # further fields of the record; edges name items by their ids
    project: str = ""  # that it belongs to; "" where the source does not say
    counted: bool = False  # its id is a counter, which others have too
    kept: bool = False  # its id becomes the record's
    private: bool = False  # it is about a person


class Ingested(NamedTuple):
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
) -> Ingested:
    """Write the records of some items; `dry_run`: only say what that would do.

    Raises Conflict: the repository is busy, or a file was changed meanwhile; BrokenStore: what is
    there cannot be seen; errors of `repo.commit.save`. Nothing is written then.
    """
    run = _Run(store, system, items)
    for step, item in enumerate(items, 1):
        if progress is not None:
            progress(step, len(items))
        run.plan(item)
    done = run.result()
    if dry_run or not run.edits:
        return done
    _refuse(store, done)
    ours: list[Edit] = []
    others: list[Edit] = []
    for edit, kind in run.edits:
        named = edit._replace(path=store.files.named(edit.path))
        (others if store.left_to_user(edit.path, kind) else ours).append(named)
    with store.repo.saving():
        if done.counts["private"]:
            store.files.hide("private")
        if ours:
            done = _commit(store, system, ours, done)
        _write_others(store, others, done)
    store.repo.first(system)
    return done


def _refuse(store: Store, done: Ingested) -> None:
    """Refuse to write into a store that is busy, hidden or of another tool."""
    reason = store.repo.busy()
    if reason:
        raise Conflict(f"{reason}; nothing was imported", "import when that is over")
    obstacle = store.obstacle()
    if obstacle:
        raise BrokenStore(f"nothing was imported: {obstacle}")
    if store.files.newest_adr() and DECISION in done.records:
        message = f"{store.name} is a folder of numbered decision records; nothing was imported"
        raise Conflict(message, "`filemem --store memory import ...` begins a memory beside it")


def _commit(store: Store, system: str, edits: Sequence[Edit], done: Ingested) -> Ingested:
    counts = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in done.records.items())
    trailers = [("Imported-From", system)]
    if store.config.agent:
        trailers.append(("Agent", store.config.agent))
    message = commit.message(f"import({system}): {counts}", trailers)
    plan = Plan(tuple(edits), message, store.clock())
    made = commit.save(store.repo, store.files, lambda: plan)
    waits = f"not committed yet: {made.pending}" if made.pending else ""
    note = "; ".join(filter(None, (waits, made.left, made.trouble)))
    return done._replace(commit=made.commit, note=note)


def _write_others(store: Store, edits: Sequence[Edit], done: Ingested) -> None:
    """Write what is not committed. Raises BrokenStore, which says what is committed already."""
    try:
        write_files(store.files, edits)
    except BrokenStore as error:
        if not done.commit:
            raise
        left = f"{done.commit[:10]} has what is committed; the other {len(edits)} are not written"
        raise BrokenStore(f"{left}: {error.message}", f"{error.hint}, then import again") from None


def names(store: Store) -> frozenset[str]:
    """What other systems may call this project.

    That is its folder, by name and by path, and the repository that it is of.
    """
    url = store.code.settings.text("remote.origin.url").removesuffix("/").removesuffix(".git")
    parts = re.split(r"[/:]+", re.sub(r"\A\w+://(?:[^@/]*@)?|\A[^@/]*@", "", url))
    names = {"/".join(parts[start:]) for start in range(len(parts))}
    for tree in (store.code.work_tree, store.code.common_dir.parent):
        names |= {tree.name, str(tree), re.sub(r"[^A-Za-z0-9]", "-", str(tree))}
    return frozenset(map(str.casefold, filter(None, names)))


# what is to be written


class _Run:
    """What an import would do: each item is planned, and nothing is written."""

    def __init__(self, store: Store, system: str, items: Iterable[Item]) -> None:
        self.store = store
        self.system = system
        self.edits: list[tuple[Edit, str]] = []  # each with the type of its record
        own = {item.id: id_of(item, system) for item in items}
        self.old = {node.id: node for node in store.index.lookup("id", list(own.values()))}
        others = {name for item in items for name in _targets(item)} - own.keys()
        self.ids = {node.id: node.id for node in store.index.lookup("id", list(others))} | own
        hidden = store.folder / "private" / FORGOTTEN
        self.marks = store.tombstones | {mark.name for mark in hidden.glob("*")}
        self.taken: set[str] = set()  # ids and paths
        self.counts = Counter(dict.fromkeys(("new", "updated", "same"), 0))
        self.kinds = Counter[str]()
        self.samples: list[Record] = []
        self.edited: list[str] = []
        self.refused: list[tuple[str, str]] = []

    def plan(self, item: Item) -> None:
        """Compare an item with what is there, and note what is to be written."""
        if mark_of(self.ids[item.id]) in self.marks:
            self.counts["forgotten"] += 1
            return
        try:
            record, data = _composed(item, self.system, self.ids)
            self._refuse(record)
        except BadInput as error:
            self.refused.append((item.id, error.message))
            return
        self.taken |= {record.id, record.path}
        node = self.old.get(record.id)
        before = self.store.files.read(node.path) if node else None
        path = node.path if node else record.path
        state = "new" if before is None else _compared(before, path, data)
        if state == "edited":
            self.edited.append(self.store.display_path(path))
            return
        self.counts[state] += 1
        if state != "same":
            self._write(record, Edit(path, data, before), len(data))

    def _refuse(self, record: Record) -> None:
        """Refuse what cannot be written beside the other records. Raises BadInput."""
        if {record.id, record.path} & self.taken:
            raise BadInput("another item has its id, or its file")
        node = self.old.get(record.id)
        if node and is_private(record.path) and not is_private(node.path):
            path = self.store.display_path(node.path)
            raise BadInput(f"it is private there now, and committed here: {path}")

    def _write(self, record: Record, edit: Edit, size: int) -> None:
        self.edits.append((edit, record.type))
        self.counts.update(private=is_private(edit.path), bytes=size)
        self.kinds[record.type] += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(record)

    def result(self) -> Ingested:
        """What the run would do."""
        texts = (tuple(self.edited), tuple(self.refused), tuple(self.samples))
        return Ingested(self.counts, self.kinds, *texts)


def _targets(item: Item) -> Iterable[str]:
    """The ids that the edges of an item lead to."""
    return chain.from_iterable(item.more.get(kind) or () for kind in EDGE_KINDS)


def id_of(item: Item, system: str) -> str:
    """The id of the record that an item becomes: its own, or one that every clone makes alike."""
    if item.kept and _WORD.fullmatch(item.id):
        return item.id
    return made_id(item.type, system, item.id, *([str(item.created)] if item.counted else []))


def _composed(item: Item, system: str, ids: Mapping[str, str]) -> tuple[Record, bytes]:
    """The record of an item and its bytes.

    Raises BadInput: it is empty, too long, or looks like a secret.
    """
    values = _values(item, ids)
    source = {"system": system, "id": _cleaned(item.id)}
    record = Record(
        id=id_of(item, system), type=item.type, created=item.created, source=source, **values
    )
    record = record._replace(path=record_path(record))
    plain = render(record)
    row = f"\nsource: {flow({**source, 'hash': _digest(plain)})}\n"
    data = plain.replace(f"\nsource: {flow(source)}\n".encode(), row.encode(), 1)
    refuse_unreadable(data, record.path)
    hits = secrets.find(data.decode())
    if hits:
        raise BadInput(f"looks like a secret ({hits[0].kind}, line {hits[0].line} of the record)")
    return record, data


def _values(item: Item, ids: Mapping[str, str]) -> dict[str, Any]:
    """The values of a record, of the fields of an item; its edges lead to records by `ids`."""
    checked = _checked(item)
    values = {name: value for name, value in checked.items() if name not in SPELT_OUT}
    if checked:
        values["title"], values["text"] = worded(item.type, checked)
    values |= {name: _cleaned(value) for name, value in item.more.items()}
    for kind in filter(values.get, EDGE_KINDS):
        values[kind] = tuple(dict.fromkeys(ids[name] for name in values[kind] if name in ids))
    if not values.get("title"):
        raise BadInput("it has no text")
    if item.type == DECISION:
        values = _with_topic(values)
    visibility = str(values.get("visibility", "")).strip().casefold()
    if item.private or visibility == "private":
        values["visibility"] = "private"
    return values


def _checked(item: Item) -> dict[str, Any]:
    """The fields that an item states, cleaned and checked. Raises BadInput."""
    checks = {**fields.FIELDS[item.type], **fields.COMMON}
    stated = {name: value for name, value in item.values.items() if value or value == 0}
    return {name: checks[name](name, _cleaned(value)) for name, value in stated.items()}


def _with_topic(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a decision, with what every decision has."""
    title = values["title"]
    topic = values.get("topic") or topic_of_heading(title)
    usual = {"topic_stated": bool(topic_key(topic)), "supersedes": (), "decision": title}
    return {**usual, **values, "topic": topic}


def _cleaned(value: Any) -> Any:
    """A value without control characters, which no record may hold."""
    if isinstance(value, str):
        return _CONTROL.sub("", value) if not value.isprintable() else value
    return tuple(map(_cleaned, value)) if type(value) in (tuple, list) else value


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compared(before: bytes, path: str, data: bytes) -> str:
    """How a file stands to what the source says now: the same, updated, or edited here."""
    old = parse(before, path).record
    new = parse(data, path).record
    if old is None or new is None:
        return "edited"
    here = old.source
    there = new.source
    if here == there or old._replace(source=there, id_stated=True) == new:
        return "same"
    if not isinstance(here, Mapping) or not isinstance(there, Mapping):
        return "edited"
    row = f", hash: {flow(here.get('hash', ''))}}}\n".encode()
    plain = before.replace(b"\r\n", b"\n").replace(row, b"}\n", 1)
    untouched = here.get("system") == there["system"] and _digest(plain) == here.get("hash")
    return "updated" if untouched else "edited"
