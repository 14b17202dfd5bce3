"""What was probably meant where nothing goes by a name: a folder, a record, a record that was deleted."""

from __future__ import annotations

import posixpath
import shlex
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.documents import Node
from filemem.errors import BrokenStore
from filemem.files import is_listed
from filemem.memory import obstacles, phrases, tombstones
from filemem.memory.origins import all_ended
from filemem.memory.versions import Versions
from filemem.record import (
    DECISION,
    Record,
    answering,
    derived_id,
    format_time,
    namesake,
    parse,
    short_id,
    surrogate_id,
    topic_folders,
    topic_key,
)
from filemem.repo import REMOVE

if TYPE_CHECKING:
    from filemem.memory.store import Store
    from filemem.repo.lives import Removed, Walk

LIKE = 0.5  # how near a misspelling must be, on difflib's scale
SHORT = 8  # characters of a short id


def _near(wanted: str, names: Iterable[str], count: int) -> list[str]:
    """The names most like a word, the likest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    return get_close_matches(wanted, list(names), n=count, cutoff=LIKE)


def folder(work_tree: Path, opened: Path, wanted: str) -> str:
    """Return the folder that was meant by `wanted`, from the top of the work tree; "" where none is near.

    Args:
        work_tree: the top.
        opened: the current folder: the name may have been meant from there.
        wanted: the name that leads nowhere from the top.
    """
    here = opened / wanted
    if here.is_dir() and here.is_relative_to(work_tree):
        return here.relative_to(work_tree).as_posix()
    found = work_tree
    for part in wanted.split("/"):
        try:
            inside = [one.name for one in found.iterdir() if one.is_dir() and not one.name.startswith(".")]
        except OSError:
            return ""
        near = [part] if part in inside else _near(part, inside, 1)
        if not near:
            return ""
        found /= near[0]
    return found.relative_to(work_tree).as_posix()


def records(nodes: Iterable[Node], wanted: str) -> str:
    """Return the hint that names records with an id or a title like `wanted`, or on that topic; "" for none."""
    named: dict[str, Node] = {}
    on_topic: Node | None = None
    for node in nodes:
        named.update((name.casefold(), node) for name in (node.title, node.id) if name)
        if node.key and node.key == topic_key(wanted) and (on_topic is None or node.created > on_topic.created):
            on_topic = node
    if on_topic:
        return f"it is a topic; its last decision is {on_topic.title} ({on_topic.id})"
    near = _near(wanted.casefold(), named, 3) if wanted else []
    told = dict.fromkeys(f"{named[name].title} ({named[name].id})" for name in near)
    return f"did you mean {' or '.join(told)}?" if told else ""


def topics(nodes: Iterable[Node], wanted: str) -> str:
    """Return the hint that names topics like `wanted`, else records; "" for none."""
    known = list(nodes)
    names = {topic_key(node.topic): node.topic for node in known if node.type == DECISION}
    near = _near(topic_key(wanted), names, 3)
    return f"did you mean {' or '.join(names[key] for key in near)}?" if near else records(known, wanted)


def gone(store: Store, wanted: str) -> tuple[str, str] | None:
    """Say what became of a record that is no more, or is not read, and what to do; None where nothing is known of it.

    Args:
        store: the parts.
        wanted: its id, short id or path, as it was given; where only the work tree lost it, any name.
    """
    inside = store.asked(wanted)
    if unread := _unread(store, inside):
        return unread
    if store.repo.head() is None:
        return None
    lost = _lost_here(store)
    if known := answering(inside, lost):
        return _lost(store, store.files.named(next(one.path for one in lost if one.id == known[0])))
    if unheard(store, inside):
        return None
    versions = store.versions()
    try:
        walk = store.history.walk(store.files.store, same=versions)
    except BrokenStore:  # a hint is not worth another failure
        return None
    return _standing(store, walk, inside) or _removed(store, walk, versions, inside)


def ended(store: Store, topic: str) -> tuple[str, str] | None:
    """The same where it may be a topic that is meant, of the last decision that was saved on it.

    Args:
        store: the parts.
        topic: one on which no decision is any more; or a record, as for `gone`.
    """
    if record := gone(store, topic):
        return record
    if store.repo.head() is None or not topic_key(topic):
        return None
    key = topic_key(topic)
    members = [one for one in _lost_here(store) if one.topic_stated and topic_key(one.topic) == key]
    if members:
        newest = max(members, key=lambda one: (one.created or 0, one.path))
        told, hint = _lost(store, store.files.named(newest.path))
        return f"{phrases.called(newest.title, newest.id)} decided it, and {told}", hint
    folder = f"decisions/{topic_folders(topic)}"
    if (known := all_ended(store)) and folder not in map(posixpath.dirname, known.ended or ()):
        return None
    try:
        walk = store.history.walk(store.files.store, same=store.versions())
    except BrokenStore:  # a hint is not worth another failure
        return None
    for path, last in reversed(walk.removed.items()):
        if posixpath.dirname(store.files.inside(path)) == folder and _was_on(store, last, key):
            told, hint = _fate(store, last)
            return f"its last decision was {told}", hint
    return None


def _was_on(store: Store, last: Removed, key: str) -> bool:
    """Whether a removed decision was on a topic, as far as its text is here and says so."""
    text = store.repo.blob(last.blob)
    record = parse(text, store.files.inside(last.path)).record if text else None
    return record is None or not record.topic_stated or topic_key(record.topic) == key


def _lost_here(store: Store) -> list[Record]:
    """The records that HEAD has and the work tree alone has lost."""
    if store.tip != "HEAD":
        return []
    held = store.committed()
    found = {path: held[path] for path in obstacles.lost(store)}
    blobs = store.repo.revisions.blobs(found.values()) if found else {}
    read = (parse(blobs.get(blob, b""), path).record for path, blob in found.items())
    return [one for one in read if one is not None]


def unheard(store: Store, inside: str) -> bool:
    """Whether no file of HEAD that is not read, and none that was ever removed, can go by an id, short id or path, as
    far as what is remembered of history tells: all of it need not be asked then."""
    known = all_ended(store)
    if known is None or inside.startswith("file_"):  # which may be of a path that several files had
        return False
    read = {node.path for node in store.nodes()}
    if any(is_listed(path) and path not in read for path in store.listing(store.history)):
        return False
    ids = known.left.union(owner for takings in known.takings.values() for _, owner in takings)
    return not any(_states(one, inside) for one in ids) and not any(
        _goes_by(path, inside, path) for path in known.ended or ()
    )


def _standing(store: Store, walk: Walk, inside: str) -> tuple[str, str] | None:
    """Why a record that HEAD has is not read, by any of its names."""
    for path, birth in walk.births.items():
        here, name = store.files.inside(path), namesake(store.files.inside(birth.first_path), birth.nth)
        if is_listed(here) and (_states(walk.ids.get(path, ""), inside) or _goes_by(here, inside, name)):
            if hidden := _hidden(store, walk.ids.get(path) or derived_id(name), here):
                return hidden
            if not store.files.exists(here):
                return _lost(store, path)
            if unread := _unread(store, here):
                return unread
    return None


def _hidden(store: Store, one: str, path: str) -> tuple[str, str] | None:
    """That a record which HEAD has is forgotten, by its id; `path` in the store."""
    stands = "is there again, and hidden" if store.files.exists(path) else "is gone, which no commit says yet"
    if any(op.kind == REMOVE and op.path == path for op in store.saver.pending()):
        stands = "goes with a commit that still waits"
    elif not tombstones.forgotten(one, store.tombstones):
        return None
    back = f"`filemem restore {shlex.quote(one)}` brings it back"
    return f"it was forgotten: its file {store.shown(path)} {stands}", back


def _lost(store: Store, path: str) -> tuple[str, str]:
    """Why a file that HEAD has is not in the work tree; `path` from the top of its repository."""
    if path in store.repo.left_out(store.files.store):
        return f"its file {path} is outside the sparse checkout", f"`{obstacles.widening(store)}` brings it"
    return (
        f"its file {path} is gone, and no commit says so",
        f"`{obstacles.restoring(store, store.files.inside(path))}` brings it back",
    )


def _removed(store: Store, walk: Walk, versions: Versions, inside: str) -> tuple[str, str] | None:
    """What became of the record that commits removed last and that had a name: by the id that it states, wherever it
    stood; by any other where no other file stands now."""
    had: dict[object, set[str]] = defaultdict(set)  # the names of each record
    for path, takings in walk.taken.items():
        for one in takings:
            had[one.stated or one[2:]] |= {store.files.inside(path), posixpath.basename(path)}
    for last in reversed((*walk.replaced, *walk.removed.values())):
        stated = versions.stated(last.path, last.blob)
        if _states(stated, inside):
            return _fate(store, last)
        here, name = store.files.inside(last.path), namesake(store.files.inside(last.first_path), last.nth)
        known = stated or (last.first_path, last.first, last.nth)
        if last.path in walk.removed and (_goes_by(here, inside, name) or inside in had[known]):
            return _fate(store, last)
    return None


def _fate(store: Store, last: Removed) -> tuple[str, str]:
    """What became of a removed record, and what to do."""
    told = f"deleted in {last.commit.id[:10]} ({format_time(last.commit.at)[:10]}, {last.commit.subject})"
    named = f"{last.commit.id[:10]}^:{last.path}"
    before = store.repo.history.entries([last.path], f"{last.commit.id}^")
    # Where a merge brought what another branch had said since, no parent of the removal has that.
    text = named if last.blob in before.values() else last.blob
    reads = f"`{store.repo.places.by_hand} show {shlex.quote(text)}`"
    if (back := _back(store, last)) is None:
        fetches = "`git fetch --refetch --no-filter` all that it lacks"
        return told, f"{reads} fetches its text, which this partial clone lacks, {fetches}"
    return told, f"{reads} reads it, `filemem restore {back}` brings it back"


def _back(store: Store, last: Removed) -> str | None:
    """What `restore` knows a removed record by: its id, short where that says enough; None if it is lacking."""
    if (data := store.repo.blob(last.blob)) is None:
        return None
    name = namesake(store.files.inside(last.first_path), last.nth)
    record = parse(data, store.files.inside(last.path), name).record
    if record is None:
        return shlex.quote(last.path)
    short = short_id(record.id)
    return short if len(short) == SHORT else shlex.quote(record.id)


def _unread(store: Store, path: str) -> tuple[str, str] | None:
    """Why the file at a store path is not read as a record, and what to do; None where none stands there, or it is."""
    if not path.endswith(".md") or not store.files.exists(path) or (found := store.files.skipped(path)) is None:
        return None
    return f"{store.shown(path)} {found.message}", "filemem check tells of every file that is not read"


def _states(stated: str, wanted: str) -> bool:
    """Whether the id that a file states is the one that is asked for, whole or by its short form."""
    return bool(stated) and (wanted == stated or (len(wanted) == SHORT and wanted == short_id(stated)))


def _goes_by(path: str, wanted: str, name: str) -> bool:
    """Whether a file was the record of this id, short id or path: the short id is in the names that filemem gives.

    Args:
        path: where the file stood last.
        wanted: what is asked for.
        name: what the file was known by where it states no id.
    """
    short = posixpath.basename(path).removesuffix(".md").rpartition("-")[2]
    if wanted in (path, posixpath.basename(path)) or (len(short) == SHORT and short == short_id(wanted)):
        return True
    return any(_states(one, wanted) for one in (derived_id(name), surrogate_id(path)))
