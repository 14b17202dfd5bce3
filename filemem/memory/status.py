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
from filemem.files import describe_unread_files, is_listed, is_private
from filemem.index import Node
from filemem.memory.store import TOP, Store
from filemem.memory.sync import find_upstream
from filemem.record import CHECKPOINT, DECISION, TYPES, UNKNOWN, format_time, parse_record
from filemem.repo.journal import PendingSave, list_pending_saves
from filemem.repo.served import list_addresses

LARGE_INDEX = 50_000  # entries of Git's index above which writing it is most of a save
SPLIT_HINT = (
    "Git writes {:,} entries at every save: "
    "`git update-index --split-index` ends that, --no-split-index undoes it"
)


class _DecisionCounts(NamedTuple):
    """How many decisions hold, on how many topics, and the topics on which several do."""

    live_count: int
    topic_count: int
    forked_topics: list[str]


class _UpstreamState(NamedTuple):
    """The upstream branch, and how many commits each side has that the other lacks."""

    label: str = ""
    ahead: int = 0
    behind: int = 0


class _WorkTreeChanges(NamedTuple):
    """How the records of the work tree differ from those of HEAD, as paths in the store."""

    broken_paths: list[
        str
    ]  # their headers cannot be read, so they are mended before they are committed
    edited_paths: list[str]
    new_paths: list[str]
    deleted_paths: list[str]

    @property
    def ready_paths(self) -> list[str]:
        """What can be committed."""
        return sorted([*self.edited_paths, *self.new_paths])


def build_status(store: Store, *, is_behind: bool) -> dict[str, Any]:
    """Return the state of the memory as plain values.

    `behind`: the last look at the files failed.
    """
    nodes = list(store.index.read_nodes())
    decisions = [node for node in nodes if node.type == DECISION]
    types = [node.type for node in nodes]
    counts = _count_decisions(store, decisions)
    pending_saves = list_pending_saves(store.repo)
    changes = _compare_work_tree(store, nodes, pending_saves)
    upstream_state = _read_upstream_state(store)
    on_branch = store.files.store == TOP
    state: dict[str, Any] = {
        "store": store.name,
        "records": {kind: types.count(kind) for kind in TYPES},
        "holding": counts.live_count,
        "topics": counts.topic_count,
        "forked": len(counts.forked_topics),
        "index": _build_index_state(store, len(nodes), is_behind=is_behind),
        "unshared": upstream_state.ahead if on_branch else 0,
        "pending": [_build_pending_save(store, save) for save in pending_saves],
    }
    to_do = {
        "forks": list(map(_format_resolve_command, counts.forked_topics)),
        "broken": list(map(store.to_display_path, changes.broken_paths)),
        "not_understood": _list_not_understood(store, decisions),
        "checkpoint": _find_latest_checkpoint(nodes),
        "upstream": upstream_state.label,
        "ahead": upstream_state.ahead,
        "behind": upstream_state.behind,
        "share": _format_share_command(upstream_state, on_branch=on_branch),
        "trouble": store.repo.trouble,
        "edited": list(map(store.to_display_path, changes.edited_paths)),
        "new": list(map(store.to_display_path, changes.new_paths)),
        "commit": _format_commit_command(store, changes),
        "gone": list(map(_build_restore_entry, map(store.to_display_path, changes.deleted_paths))),
        "incomplete": store.repo.describe_missing_history(),
        "not_read": describe_unread_files(store.files.root),
        "pages": list_addresses(store.repo.private_folder),
        "recalls_given_up": store.code.abandoned_search_count,
        "left": store.get_leave_reason("decisions/a.md", DECISION),
        "settings": _format_settings_advice(store),
    }
    return {**state, **{name: value for name, value in to_do.items() if value}}


def _count_decisions(store: Store, decisions: Sequence[Node]) -> _DecisionCounts:
    graph = store.index.read_chains(decisions).graph
    topics = {node.key: node.topic for node in decisions if node.key}
    forked = [topic for key, topic in sorted(topics.items()) if graph.get_chain(key).is_forked]
    live_nodes = [node for node in decisions if graph.is_head(node.id)]
    topicless_nodes = [node for node in live_nodes if not node.key]
    return _DecisionCounts(len(live_nodes), len(topics) + len(topicless_nodes), forked)


def _format_resolve_command(topic: str) -> str:
    return f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ..."


def _list_not_understood(store: Store, decisions: Iterable[Node]) -> list[str]:
    return [store.to_display_path(node.path) for node in decisions if node.status == UNKNOWN]


def _build_index_state(store: Store, count: int, *, is_behind: bool) -> dict[str, Any]:
    index = store.index
    damage = index.check_database()
    state = "not in step" if is_behind else "in step"
    if damage:
        state = f"damaged: {'; '.join(damage)}"
    return {
        "state": state,
        "records": count,
        "model": index.model.name if index.model else "",
        "folder": str(index.root),
    }


def _build_pending_save(store: Store, save: PendingSave) -> dict[str, str]:
    """A save that is not committed yet, with the reason and its age."""
    seconds = (store.clock() - save.timestamp) // 1000
    return {
        "path": store.to_display_path(store.files.to_store_path(save.path)),
        "reason": save.reason,
        "age": str(timedelta(seconds=seconds)),
    }


def _find_latest_checkpoint(nodes: Iterable[Node]) -> dict[str, str] | None:
    """The latest checkpoint."""
    checkpoints = [node for node in nodes if node.type == CHECKPOINT]
    if not checkpoints:
        return None
    latest = max(checkpoints, key=lambda node: node.created)
    return {"id": latest.id, "title": latest.title, "created": format_time(latest.created)}


def _format_settings_advice(store: Store) -> str:
    """What could be better in the settings of Git and of filemem, or ""."""
    entries = store.repo.index_entry_count
    advice = [SPLIT_HINT.format(entries)] if entries > LARGE_INDEX else []
    return "; ".join([*advice, *store.config.unknown_settings])


# the work tree


def _compare_work_tree(
    store: Store, nodes: Iterable[Node], pending_saves: Iterable[PendingSave]
) -> _WorkTreeChanges:
    """Compare the records of the work tree with HEAD; saves that wait are left out."""
    files = store.files
    head = store.repo.read_head()
    listing = store.repo.list_files(head, files.store) if head else {}
    committed_blobs = {files.to_store_path(path): blob for path, blob in listing.items()}
    deleted_paths = [path for path in committed_blobs if is_listed(path) and not files.exists(path)]
    pending_paths = {files.to_store_path(save.path) for save in pending_saves}
    changed_paths = _list_changed(store, committed_blobs, pending_paths)
    broken_paths = [node.path for node in nodes if _is_broken(store, node, changed_paths)]
    ready_paths = [path for path in changed_paths if path not in broken_paths]
    edited_paths = [path for path in ready_paths if path in committed_blobs]
    new_paths = [path for path in ready_paths if path not in committed_blobs]
    return _WorkTreeChanges(broken_paths, edited_paths, new_paths, deleted_paths)


def _list_changed(
    store: Store, committed_blobs: Mapping[str, str], pending_paths: Collection[str]
) -> list[str]:
    """The records that HEAD has otherwise or not at all, neither private nor unsaved."""
    manifest = store.index.read_manifest()
    differing_paths = [
        path for path, entry in manifest.items() if committed_blobs.get(path) != entry.blob
    ]
    return sorted(
        path for path in differing_paths if not is_private(path) and path not in pending_paths
    )


def _is_broken(store: Store, node: Node, changed_paths: Collection[str]) -> bool:
    """True if the header of a record cannot be read.

    Only a record without id or topic, and one with edits, is read for that.
    """
    lacks_names = node.id.startswith("file_") or (node.type == DECISION and not node.stated)
    if not lacks_names and node.path not in changed_paths:
        return False
    with suppress(NotFound, BadInput):  # deleted since
        data = store.files.read(node.path)
        if data.startswith((b"---", b"+++")):
            problems = parse_record(data, node.path).problems
            return any(problem.level == "error" for problem in problems)
    return False


def _format_commit_command(store: Store, changes: _WorkTreeChanges) -> str:
    """The command that commits what is ready, "" if nothing is."""
    if not changes.ready_paths:
        return ""
    own_work_tree = store.repo is not store.code
    folder = shlex.quote(store.name)
    git = f"git -C {folder}" if own_work_tree else "git"
    paths = "." if own_work_tree else folder
    if changes.broken_paths:
        ready_paths = (
            changes.ready_paths
            if own_work_tree
            else map(store.files.to_work_tree_path, changes.ready_paths)
        )
        paths = shlex.join(ready_paths)
    return f"{git} add {paths} && {git} commit {paths}"


def _build_restore_entry(path: str) -> dict[str, str]:
    return {"path": path, "restore": f"filemem restore {shlex.quote(path)}"}


# the other side


def _read_upstream_state(store: Store) -> _UpstreamState:
    """The upstream branch as it was last fetched."""
    upstream = find_upstream(store)
    if upstream is None:
        return _UpstreamState()
    repo = store.repo
    remote_tip = repo.resolve_revision(upstream.tracking_ref)
    local_tip = repo.read_head()
    if not (remote_tip and local_tip):
        return _UpstreamState()
    ahead = repo.count_commits(local_tip, remote_tip)
    behind = repo.count_commits(remote_tip, local_tip)
    return _UpstreamState(upstream.label, ahead, behind)


def _format_share_command(upstream_state: _UpstreamState, *, on_branch: bool) -> str:
    """The command that brings both sides together, "" if they are."""
    if not (upstream_state.ahead or upstream_state.behind):
        return ""
    if on_branch:
        return "filemem sync"
    return "git pull && git push" if upstream_state.behind else "git push"
