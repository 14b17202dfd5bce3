"""The state of the memory, and each thing to do, with its command.

Rule: it runs in shell prompts, so it asks the index and Git, and reads only files whose header may
be broken.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from filemem.errors import BadInput, NotFound
from filemem.files import is_listed, is_private, not_read
from filemem.index import Node
from filemem.memory.store import TOP, Store
from filemem.memory.sync import upstream_of
from filemem.record import CHECKPOINT, DECISION, TYPES, UNKNOWN, format_time, parse
from filemem.repo.journal import Pending, pending
from filemem.repo.served import addresses

MANY = 50_000  # entries of Git's index above which writing it is most of a save
SPLIT = (
    "Git writes {:,} entries at every save: "
    "`git update-index --split-index` ends that, --no-split-index undoes it"
)


class _Decisions(NamedTuple):
    """How many decisions hold, on how many topics, and the topics on which several do."""

    holding: int
    topics: int
    forked: list[str]


class _OtherSide(NamedTuple):
    """The upstream branch, and how many commits each side has that the other lacks."""

    label: str = ""
    ahead: int = 0
    behind: int = 0


class _Changes(NamedTuple):
    """How the records of the work tree differ from those of HEAD, as paths in the store."""

    broken: list[str]  # their headers cannot be read, so they are mended before they are committed
    edited: list[str]
    new: list[str]
    deleted: list[str]

    @property
    def ready(self) -> list[str]:
        """What can be committed."""
        return sorted([*self.edited, *self.new])


def status(store: Store, *, behind: bool) -> dict[str, Any]:
    """Return the state of the memory as plain values.

    `behind`: the last look at the files failed.
    """
    nodes = list(store.index.nodes())
    decisions = [node for node in nodes if node.type == DECISION]
    types = [node.type for node in nodes]
    counts = _decisions(store, decisions)
    waiting = pending(store.repo)
    changes = _changes(store, nodes, waiting)
    other_side = _other_side(store)
    on_branch = store.files.store == TOP
    state: dict[str, Any] = {
        "store": store.name,
        "records": {kind: types.count(kind) for kind in TYPES},
        "holding": counts.holding,
        "topics": counts.topics,
        "forked": len(counts.forked),
        "index": _index(store, len(nodes), behind=behind),
        "unshared": other_side.ahead if on_branch else 0,
        "pending": [_waiting(store, save) for save in waiting],
    }
    to_do = {
        "forks": list(map(_resolve_command, counts.forked)),
        "broken": list(map(store.display_path, changes.broken)),
        "not_understood": _not_understood(store, decisions),
        "checkpoint": _checkpoint(nodes),
        "upstream": other_side.label,
        "ahead": other_side.ahead,
        "behind": other_side.behind,
        "share": _share_command(other_side, on_branch=on_branch),
        "trouble": store.repo.trouble,
        "edited": list(map(store.display_path, changes.edited)),
        "new": list(map(store.display_path, changes.new)),
        "commit": _commit_command(store, changes),
        "gone": list(map(_restore_command, map(store.display_path, changes.deleted))),
        "incomplete": store.repo.incomplete(),
        "not_read": not_read(store.files.root),
        "pages": addresses(store.repo.private),
        "recalls_given_up": store.code.given_up,
        "left": store.left_to_user("decisions/a.md", DECISION),
        "settings": _settings(store),
    }
    return {**state, **{name: value for name, value in to_do.items() if value}}


def _decisions(store: Store, decisions: Sequence[Node]) -> _Decisions:
    graph = store.index.around(decisions).graph
    topics = {node.key: node.topic for node in decisions if node.key}
    forked = [topic for key, topic in sorted(topics.items()) if graph.chain(key).is_forked]
    holding = [node for node in decisions if graph.is_head(node.id)]
    without_topic = [node for node in holding if not node.key]
    return _Decisions(len(holding), len(topics) + len(without_topic), forked)


def _resolve_command(topic: str) -> str:
    return f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ..."


def _not_understood(store: Store, decisions: Iterable[Node]) -> list[str]:
    return [store.display_path(node.path) for node in decisions if node.status == UNKNOWN]


def _index(store: Store, count: int, *, behind: bool) -> dict[str, Any]:
    index = store.index
    damage = index.verify()
    state = "not in step" if behind else "in step"
    if damage:
        state = f"damaged: {'; '.join(damage)}"
    return {
        "state": state,
        "records": count,
        "model": index.model.name if index.model else "",
        "folder": str(index.root),
    }


def _waiting(store: Store, save: Pending) -> dict[str, str]:
    """A save that is not committed yet, with the reason and its age."""
    seconds = (store.clock() - save.at) // 1000
    return {
        "path": store.display_path(store.files.inside(save.path)),
        "reason": save.reason,
        "age": str(timedelta(seconds=seconds)),
    }


def _checkpoint(nodes: Iterable[Node]) -> dict[str, str] | None:
    """The latest checkpoint."""
    checkpoints = [node for node in nodes if node.type == CHECKPOINT]
    if not checkpoints:
        return None
    latest = max(checkpoints, key=lambda node: node.created)
    return {"id": latest.id, "title": latest.title, "created": format_time(latest.created)}


def _settings(store: Store) -> str:
    """What could be better in the settings of Git and of filemem, or ""."""
    entries = store.repo.entries
    advice = [SPLIT.format(entries)] if entries > MANY else []
    return "; ".join([*advice, *store.config.unknown])


# the work tree


def _changes(store: Store, nodes: Iterable[Node], waiting: Iterable[Pending]) -> _Changes:
    """Compare the records of the work tree with HEAD; saves that wait are left out."""
    files = store.files
    head = store.repo.head()
    listing = store.repo.listing(head, files.store) if head else {}
    committed = {files.inside(path): blob for path, blob in listing.items()}
    deleted = [path for path in committed if is_listed(path) and not files.exists(path)]
    unsaved = {files.inside(save.path) for save in waiting}
    changed = _changed(store, committed, unsaved)
    broken = [node.path for node in nodes if _is_broken(store, node, changed)]
    ready = [path for path in changed if path not in broken]
    edited = [path for path in ready if path in committed]
    new = [path for path in ready if path not in committed]
    return _Changes(broken, edited, new, deleted)


def _changed(store: Store, committed: Mapping[str, str], unsaved: Collection[str]) -> list[str]:
    """The records that HEAD has otherwise or not at all, neither private nor unsaved."""
    manifest = store.index.manifest()
    differing = [path for path, entry in manifest.items() if committed.get(path) != entry.blob]
    return sorted(path for path in differing if not is_private(path) and path not in unsaved)


def _is_broken(store: Store, node: Node, changed: Collection[str]) -> bool:
    """True if the header of a record cannot be read.

    Only a record without id or topic, and one with edits, is read for that.
    """
    without_names = node.id.startswith("file_") or (node.type == DECISION and not node.stated)
    if not without_names and node.path not in changed:
        return False
    with suppress(NotFound, BadInput):  # deleted since
        data = store.files.read(node.path)
        if data.startswith((b"---", b"+++")):
            problems = parse(data, node.path).problems
            return any(problem.level == "error" for problem in problems)
    return False


def _commit_command(store: Store, changes: _Changes) -> str:
    """The command that commits what is ready, "" if nothing is."""
    if not changes.ready:
        return ""
    own_work_tree = store.repo is not store.code
    folder = shlex.quote(store.name)
    git = f"git -C {folder}" if own_work_tree else "git"
    paths = "." if own_work_tree else folder
    if changes.broken:
        ready = changes.ready if own_work_tree else map(store.files.named, changes.ready)
        paths = shlex.join(ready)
    return f"{git} add {paths} && {git} commit {paths}"


def _restore_command(path: str) -> dict[str, str]:
    return {"path": path, "restore": f"filemem restore {shlex.quote(path)}"}


# the other side


def _other_side(store: Store) -> _OtherSide:
    """The upstream branch as it was last fetched."""
    upstream = upstream_of(store)
    if upstream is None:
        return _OtherSide()
    repo = store.repo
    theirs = repo.resolve(upstream.tracking)
    ours = repo.head()
    if not (theirs and ours):
        return _OtherSide()
    ahead = repo.between(ours, theirs)
    behind = repo.between(theirs, ours)
    return _OtherSide(upstream.label, ahead, behind)


def _share_command(other_side: _OtherSide, *, on_branch: bool) -> str:
    """The command that brings both sides together, "" if they are."""
    if not (other_side.ahead or other_side.behind):
        return ""
    if on_branch:
        return "filemem sync"
    return "git pull && git push" if other_side.behind else "git push"
