"""Bringing in what other systems remember: each item becomes one record, and a run is one commit.

What is written is a function of the source alone, and `source.hash` in the header is its digest: so a second run knows
what is there, what has changed in the source and what was edited here, and two clones write the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from filemem import secrets
from filemem.errors import BadInput, Conflict
from filemem.files import is_private
from filemem.memory import fields
from filemem.memory.save import SPELT_OUT, left_to_user, worded
from filemem.memory.snapshot import of_work_tree
from filemem.memory.store import FORGOTTEN, Progress, Store, mark_of
from filemem.record import (
    DECISION,
    EDGE_KINDS,
    TYPES,
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
    given: Mapping[str, Any]  # fields as a save takes them; what is empty says nothing
    more: Mapping[str, Any] = {}  # further fields of the record; edges name items by their ids in the source
    project: str = ""  # that it belongs to; "" where the source does not say
    counted: bool = False  # its id is a counter, which others have too
    kept: bool = False  # its id becomes the record's
    private: bool = False  # it is about a person


class Ingested(NamedTuple):
    """What a run did, or would do: counts, and what is left to the user."""

    new: int = 0
    updated: int = 0
    same: int = 0
    forgotten: int = 0  # left away, as they were forgotten here
    private: int = 0  # of those that are written
    size: int = 0  # bytes of those that are written
    records: Mapping[str, int] = {}  # those that are written, by type
    edited: tuple[str, ...] = ()  # paths of records that were changed here and in the source
    refused: tuple[tuple[str, str], ...] = ()  # ids in the source, and why each is not written
    samples: tuple[Record, ...] = ()
    commit: str = ""
    forked: tuple[str, ...] = ()  # topics on which several decisions hold now
    note: str = ""


def ingest(
    store: Store, items: Collection[Item], system: str, *, dry_run: bool = False, progress: Progress | None = None
) -> Ingested:
    """Write the records of some items; `dry_run`: only say what that would do.

    Raises Conflict: the repository is busy, or a file was changed meanwhile; errors of `repo.commit.save`. Nothing is
    written then.
    """
    if (why := store.repo.busy()) and not dry_run:
        raise Conflict(f"{why}; nothing was imported", "import when that is over")
    done, edits = _planned(store, items, system, progress)
    if dry_run or not edits:
        return done
    if store.files.newest_adr() and any(one.path.startswith("decisions/") for one in edits):
        told = f"{store.name} is a folder of numbered decision records; nothing was imported"
        raise Conflict(told, "`filemem --store memory import ...` begins a memory beside it")
    counts = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in done.records.items() if count)
    trailers = [("Imported-From", system), *([("Agent", store.config.agent)] if store.config.agent else [])]
    told, ours, others = commit.message(f"import({system}): {counts}", trailers), list[Edit](), list[Edit]()
    for edit in edits:
        kind = next((one for one in TYPES if edit.path.startswith(one)), DECISION)
        (others if left_to_user(store, edit.path, kind) else ours).append(edit)
    with store.repo.saving():
        if ours:
            named = tuple(edit._replace(path=store.files.named(edit.path)) for edit in ours)
            made = commit.save(store.repo, store.files, lambda: Plan(named, told, store.clock()))
            done = done._replace(commit=made.commit, note="; ".join(filter(None, (made.left, made.trouble))))
        if done.private:
            store.files.hide("private")
        write_files(store.files, [edit._replace(path=store.files.named(edit.path)) for edit in others])
    store.repo.first(system)
    return done


def everything(store: Store, *, private: bool) -> list[Record]:
    """The records of the work tree, oldest first, their paths as people see them; `private` ones if asked for."""
    found = of_work_tree(store)
    shown = [(found.dates[path], path, one) for path, one in found.records.items() if private or not is_private(path)]
    return [one._replace(path=store.shown(path)) for _, path, one in sorted(shown, key=lambda row: row[:2])]


def names(store: Store) -> frozenset[str]:
    """What other systems may call this project: its folder, by name and by path, and the repository that it is of."""
    trees = {store.code.work_tree, store.code.common_dir.parent}
    url = store.code.settings.text("remote.origin.url").removesuffix("/").removesuffix(".git")
    parts = re.split(r"[/:]+", re.sub(r"\A\w+://(?:[^@/]*@)?|\A[^@/]*@", "", url)) if url else []
    remote = {"/".join(parts[start:]) for start in range(len(parts))}
    found = {form for tree in trees for form in (tree.name, str(tree), re.sub(r"[^A-Za-z0-9]", "-", str(tree)))}
    return frozenset(one.casefold() for one in found | remote if one)


# what is to be written


def _planned(
    store: Store, items: Collection[Item], system: str, progress: Progress | None
) -> tuple[Ingested, list[Edit]]:
    ids = {item.id: id_of(item, system) for item in items}
    nodes = {node.id: node for node in store.index.lookup("id", list(ids.values()))}
    others = {one for item in items for kind in EDGE_KINDS for one in item.more.get(kind) or () if one not in ids}
    known = {**{node.id: node.id for node in store.index.lookup("id", list(others))}, **ids}
    marks = store.tombstones | _private_marks(store)
    counts, kinds, edits, samples = Counter[str](), Counter[str](), dict[str, Edit](), list[Record]()
    edited, refused = list[str](), list[tuple[str, str]]()
    for step, item in enumerate(items, 1):
        if progress is not None:
            progress(step, len(items))
        if mark_of(ids[item.id]) in marks:
            counts["forgotten"] += 1
            continue
        try:
            record = _record(item, system, known)
            data = _stamped(record)
            refuse_unreadable(data, record.path)
            if found := () if record.secrets_allowed else secrets.find(data.decode()):
                raise BadInput(f"looks like a secret ({found[0].kind}, line {found[0].line} of the record)")
            if record.path in edits:
                raise BadInput("another item would have its file")
        except BadInput as error:
            refused.append((item.id, error.message))
            continue
        edit = Edit(record.path, data, None)
        if node := nodes.get(record.id):
            before = store.files.read(node.path)
            state = _compared(before, node.path, data, record)
            if state != "updated":
                counts[state] += 1
                edited += [store.shown(node.path)] if state == "edited" else []
                continue
            edit = Edit(node.path, data, before)
        edits[edit.path] = edit
        counts["updated" if node else "new"] += 1
        counts["private"] += is_private(edit.path)
        counts["size"] += len(data)
        kinds[record.type] += 1
        samples += [record] if len(samples) < SAMPLES else []
    said: dict[str, Any] = {name: counts[name] for name in Ingested._fields[:6]}
    by_type = {kind: kinds[kind] for kind in TYPES}
    return Ingested(
        **said, records=by_type, edited=tuple(edited), refused=tuple(refused), samples=tuple(samples)
    ), list(edits.values())


def _private_marks(store: Store) -> frozenset[str]:
    folder = store.folder / "private" / FORGOTTEN
    return frozenset(one.name for one in folder.iterdir()) if folder.is_dir() else frozenset()


def id_of(item: Item, system: str) -> str:
    """The id of the record that an item becomes: its own, or made of what every clone sees alike."""
    if item.kept and _WORD.fullmatch(item.id):
        return item.id
    return made_id(item.type, system, item.id, *((item.project, str(item.created)) if item.counted else ()))


def _record(item: Item, system: str, ids: Mapping[str, str]) -> Record:
    """The record of an item. Raises BadInput: a field is too long, or there is nothing in it."""
    known: Mapping[str, Callable[[str, object], Any]] = {**fields.FIELDS[item.type], **fields.COMMON}
    given = {name: known[name](name, _cleaned(value)) for name, value in item.given.items() if value or value == 0}
    values = {name: value for name, value in given.items() if name not in SPELT_OUT}
    if given:
        values["title"], values["text"] = worded(item.type, given)
    values |= {name: _cleaned(value) for name, value in item.more.items()}
    for kind in EDGE_KINDS:
        if values.get(kind):
            values[kind] = tuple(dict.fromkeys(ids[one] for one in values[kind] if one in ids))
    if not values.get("title"):
        raise BadInput("it has no text")
    if item.type == DECISION:
        values["topic"] = values.get("topic") or topic_of_heading(values["title"])
        values.setdefault("topic_stated", bool(topic_key(values["topic"])))
        values.setdefault("supersedes", ())
        values.setdefault("decision", values["title"])
    if item.private:
        values["visibility"] = "private"
    source = {"system": system, "id": _cleaned(item.id)}
    record = Record(id=id_of(item, system), type=item.type, created=item.created, source=source, **values)
    return record._replace(path=record_path(record))


def _cleaned(value: Any) -> Any:
    """A value without control characters, which no record may hold."""
    if isinstance(value, str):
        return _CONTROL.sub("", value) if not value.isprintable() else value
    if type(value) in (tuple, list):
        return tuple(map(_cleaned, value))
    return value


# what was written before


def _stamped(record: Record) -> bytes:
    """The bytes of a record, with the digest of what they are without it."""
    data, said = render(record), flow(record.source)
    source: Any = record.source
    row = f"\nsource: {flow({**source, 'hash': _digest(data)})}\n"
    return data.replace(f"\nsource: {said}\n".encode(), row.encode(), 1)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compared(before: bytes, path: str, data: bytes, record: Record) -> str:
    """How a record that is there stands to what the source says now: the same, updated, or edited here."""
    found, written = parse(before, path).record, parse(data, path).record or record
    here, new = found.source if found else "", written.source
    if found is None or not isinstance(here, Mapping) or not isinstance(new, Mapping):
        return "same" if found and found._replace(source=new, id_stated=True) == written else "edited"
    if here == new:
        return "same"
    plain = before.replace(b"\r\n", b"\n").replace(f", hash: {flow(here.get('hash', ''))}}}\n".encode(), b"}\n", 1)
    untouched = here.get("system") == new["system"] and _digest(plain) == here.get("hash")
    return "updated" if untouched else "edited"
