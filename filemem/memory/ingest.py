"""Bringing in what other systems remember: each item becomes one record, and a run is one commit.

What is written is a function of the source alone, and `source.hash` in the header is its digest: so a second run knows
what is there, what has changed in the source and what was edited here, and two clones write the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
    given: Mapping[str, Any]  # fields as a save takes them; what is empty says nothing
    more: Mapping[
        str, Any
    ] = {}  # further fields of the record; edges name items by their ids in the source
    project: str = ""  # that it belongs to; "" where the source does not say
    counted: bool = False  # its id is a counter, which others have too
    kept: bool = False  # its id becomes the record's
    private: bool = False  # it is about a person


class Ingested(NamedTuple):
    """What a run did, or would do, and what is left to the user."""

    counts: Mapping[
        str, int
    ]  # new, updated, same, forgotten here; private and bytes, of those that are written
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

    Raises Conflict: the repository is busy, or a file was changed meanwhile; BrokenStore: what is there cannot be seen;
    errors of `repo.commit.save`. Nothing is written then.
    """
    done, edits = _planned(store, items, system, progress)
    if dry_run or not edits:
        return done
    if why := store.repo.busy():
        raise Conflict(f"{why}; nothing was imported", "import when that is over")
    if why := store.obstacle():
        raise BrokenStore(f"nothing was imported: {why}")
    if store.files.newest_adr() and DECISION in done.records:
        told = f"{store.name} is a folder of numbered decision records; nothing was imported"
        raise Conflict(told, "`filemem --store memory import ...` begins a memory beside it")
    counts = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in done.records.items())
    trailers = [
        ("Imported-From", system),
        *([("Agent", store.config.agent)] if store.config.agent else []),
    ]
    told = commit.message(f"import({system}): {counts}", trailers)
    ours, others = list[Edit](), list[Edit]()
    for edit, kind in edits:
        named = edit._replace(path=store.files.named(edit.path))
        (others if store.left_to_user(edit.path, kind) else ours).append(named)
    with store.repo.saving():
        if done.counts["private"]:
            store.files.hide("private")
        if ours:
            made = commit.save(
                store.repo, store.files, lambda: Plan(tuple(ours), told, store.clock())
            )
            waits = f"not committed yet: {made.pending}" if made.pending else ""
            done = done._replace(
                commit=made.commit, note="; ".join(filter(None, (waits, made.left, made.trouble)))
            )
        _write_others(store, others, done)
    store.repo.first(system)
    return done


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
    """What other systems may call this project: its folder, by name and by path, and the repository that it is of."""
    url = store.code.settings.text("remote.origin.url").removesuffix("/").removesuffix(".git")
    parts = re.split(r"[/:]+", re.sub(r"\A\w+://(?:[^@/]*@)?|\A[^@/]*@", "", url))
    found = {"/".join(parts[start:]) for start in range(len(parts))}
    for tree in (store.code.work_tree, store.code.common_dir.parent):
        found |= {tree.name, str(tree), re.sub(r"[^A-Za-z0-9]", "-", str(tree))}
    return frozenset(one.casefold() for one in found if one)


# what is to be written


def _planned(
    store: Store, items: Collection[Item], system: str, progress: Progress | None
) -> tuple[Ingested, list[tuple[Edit, str]]]:
    """What a run would do, and the edits of it, each with the type of its record."""
    ids = {item.id: id_of(item, system) for item in items}
    there = {node.id: node for node in store.index.lookup("id", list(ids.values()))}
    others = {
        one
        for item in items
        for kind in EDGE_KINDS
        for one in item.more.get(kind) or ()
        if one not in ids
    }
    known = {**{node.id: node.id for node in store.index.lookup("id", list(others))}, **ids}
    hidden, taken = store.folder / "private" / FORGOTTEN, set[str]()
    marks = store.tombstones | {one.name for one in hidden.glob("*")}
    counts, kinds = Counter(dict.fromkeys(("new", "updated", "same"), 0)), Counter[str]()
    edits, samples, edited, refused = (
        list[tuple[Edit, str]](),
        list[Record](),
        list[str](),
        list[tuple[str, str]](),
    )
    for step, item in enumerate(items, 1):
        if progress is not None:
            progress(step, len(items))
        if mark_of(ids[item.id]) in marks:
            counts["forgotten"] += 1
            continue
        try:
            record, data = _composed(item, system, known)
            node = there.get(record.id)
            if {record.id, record.path} & taken:
                raise BadInput("another item has its id, or its file")
            if node and is_private(record.path) and not is_private(node.path):
                raise BadInput(
                    f"it is private there now, and committed here: {store.display_path(node.path)}"
                )
        except BadInput as error:
            refused.append((item.id, error.message))
            continue
        taken |= {record.id, record.path}
        before = store.files.read(node.path) if node else None
        path = node.path if node else record.path
        state = "new" if before is None else _compared(before, path, data)
        edited += [store.display_path(path)] if state == "edited" else []
        counts[state] += 1
        if state in ("new", "updated"):
            edits.append((Edit(path, data, before), record.type))
            counts.update(private=is_private(path), bytes=len(data))
            kinds[record.type] += 1
            samples += [record] if len(samples) < SAMPLES else []
    del counts["edited"]
    return Ingested(counts, kinds, tuple(edited), tuple(refused), tuple(samples)), edits


def id_of(item: Item, system: str) -> str:
    """The id of the record that an item becomes: its own, or made of what every clone sees alike."""
    if item.kept and _WORD.fullmatch(item.id):
        return item.id
    return made_id(item.type, system, item.id, *([str(item.created)] if item.counted else []))


def _composed(item: Item, system: str, ids: Mapping[str, str]) -> tuple[Record, bytes]:
    """The record of an item and its bytes. Raises BadInput: it is empty, too long, or looks like a secret."""
    known: Mapping[str, Callable[[str, object], Any]] = {
        **fields.FIELDS[item.type],
        **fields.COMMON,
    }
    given = {
        name: known[name](name, _cleaned(value))
        for name, value in item.given.items()
        if value or value == 0
    }
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
        usual = {
            "topic_stated": bool(topic_key(values["topic"])),
            "supersedes": (),
            "decision": values["title"],
        }
        values = {**usual, **values}
    if item.private or str(values.get("visibility", "")).strip().casefold() == "private":
        values["visibility"] = "private"
    source = {"system": system, "id": _cleaned(item.id)}
    record = Record(
        id=id_of(item, system), type=item.type, created=item.created, source=source, **values
    )
    record = record._replace(path=record_path(record))
    plain = render(record)
    row = f"\nsource: {flow({**source, 'hash': _digest(plain)})}\n"
    data = plain.replace(f"\nsource: {flow(source)}\n".encode(), row.encode(), 1)
    refuse_unreadable(data, record.path)
    if found := secrets.find(data.decode()):
        raise BadInput(f"looks like a secret ({found[0].kind}, line {found[0].line} of the record)")
    return record, data


def _cleaned(value: Any) -> Any:
    """A value without control characters, which no record may hold."""
    if isinstance(value, str):
        return _CONTROL.sub("", value) if not value.isprintable() else value
    return tuple(map(_cleaned, value)) if type(value) in (tuple, list) else value


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compared(before: bytes, path: str, data: bytes) -> str:
    """How the file that is there stands to what the source says now: the same, updated, or edited here."""
    found, new = parse(before, path).record, parse(data, path).record
    if found is None or new is None:
        return "edited"
    here, there = found.source, new.source
    if here == there or found._replace(source=there, id_stated=True) == new:
        return "same"
    if not isinstance(here, Mapping) or not isinstance(there, Mapping):
        return "edited"
    plain = before.replace(b"\r\n", b"\n").replace(
        f", hash: {flow(here.get('hash', ''))}}}\n".encode(), b"}\n", 1
    )
    untouched = here.get("system") == there["system"] and _digest(plain) == here.get("hash")
    return "updated" if untouched else "edited"
