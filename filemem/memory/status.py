"""The state of the memory, and the tasks that wait, each with its command.

It runs in shell prompts, so it asks the index and Git, and reads only files whose header may be
broken.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
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
    """How many decisions are live, on how many topics, and the topics with several."""

    live_count: int
    topic_count: int
    forked_topics: list[str]


class _UpstreamState(NamedTuple):
    """The upstream branch, and how many commits each side has that the other lacks."""

    label: str = ""
    ahead: int = 0
    behind: int = 0


class _WorkTreeChanges(NamedTuple):
    """How the records of the work tree differ from those of HEAD, as store paths."""

    broken_paths: list[str]  # their headers must be repaired before they are committed
    edited_paths: list[str]
    new_paths: list[str]
    deleted_paths: list[str]

    @property
    def ready_paths(self) -> list[str]:
        """The records that can be committed."""
        return sorted([*self.edited_paths, *self.new_paths])


def build_status(store: Store, *, is_behind: bool) -> dict[str, Any]:
    """Return the state of the memory as plain values.

    `is_behind`: the last update of the index failed. Tasks without a value are left out.
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
    tasks = {
        "forks": [_format_resolve_command(topic) for topic in counts.forked_topics],
        "broken": _list_display_paths(store, changes.broken_paths),
        "not_understood": _list_not_understood(store, decisions),
        "checkpoint": _find_latest_checkpoint(nodes),
        "upstream": upstream_state.label,
        "ahead": upstream_state.ahead,
        "behind": upstream_state.behind,
        "share": _format_share_command(upstream_state, on_branch=on_branch),
        "trouble": store.repo.trouble,
        "edited": _list_display_paths(store, changes.edited_paths),
        "new": _list_display_paths(store, changes.new_paths),
        "commit": _format_commit_command(store, changes),
        "gone": _list_restore_entries(store, changes.deleted_paths),
        "incomplete": store.repo.describe_missing_history(),
        "not_read": describe_unread_files(store.files.root),
        "pages": list_addresses(store.repo.private_folder),
        "recalls_given_up": store.code.abandoned_search_count,
        "left": store.get_leave_reason("decisions/a.md", DECISION),
        "settings": _format_settings_advice(store),
    }
    state.update({name: value for name, value in tasks.items() if value})
    return state


def _list_display_paths(store: Store, paths: Iterable[str]) -> list[str]:
    return [store.to_display_path(path) for path in paths]


def _count_decisions(store: Store, decisions: Sequence[Node]) -> _DecisionCounts:
    graph = store.index.read_chains(decisions).graph
    topics: dict[str, str] = {}
    live_count = 0
    topicless_count = 0
    for node in decisions:
        is_live = graph.is_head(node.id)
        live_count += is_live
        if node.key:
            topics[node.key] = node.topic
        else:
            topicless_count += is_live
    forked_topics: list[str] = []
    for key, topic in sorted(topics.items()):
        if graph.get_chain(key).is_forked:
            forked_topics.append(topic)
    return _DecisionCounts(
        live_count=live_count,
        topic_count=len(topics) + topicless_count,
        forked_topics=forked_topics,
    )


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
    """Return a save that is not committed yet, with the reason and its age."""
    path = store.files.to_store_path(save.path)
    seconds = (store.clock() - save.timestamp) // 1000
    return {
        "path": store.to_display_path(path),
        "reason": save.reason,
        "age": str(timedelta(seconds=seconds)),
    }


def _find_latest_checkpoint(nodes: Iterable[Node]) -> dict[str, str] | None:
    """Return the latest checkpoint; None if there is none."""
    checkpoints = [node for node in nodes if node.type == CHECKPOINT]
    if not checkpoints:
        return None
    latest = max(checkpoints, key=attrgetter("created"))
    return {"id": latest.id, "title": latest.title, "created": format_time(latest.created)}


def _format_settings_advice(store: Store) -> str:
    """Suggest better settings of Git and filemem; "" if there is nothing to change."""
    advice: list[str] = []
    entry_count = store.repo.index_entry_count
    if entry_count > LARGE_INDEX:
        advice.append(SPLIT_HINT.format(entry_count))
    advice += store.config.unknown_settings
    return "; ".join(advice)


# the work tree


def _compare_work_tree(
    store: Store, nodes: Iterable[Node], pending_saves: Iterable[PendingSave]
) -> _WorkTreeChanges:
    """Compare the records of the work tree with HEAD; pending saves are left out."""
    files = store.files
    committed_blobs = _read_committed_blobs(store)
    pending_paths = {files.to_store_path(save.path) for save in pending_saves}
    changed_paths = _list_changed(store, committed_blobs, pending_paths)
    changes = _WorkTreeChanges([], [], [], [])
    for path in committed_blobs:
        if is_listed(path) and not files.exists(path):
            changes.deleted_paths.append(path)
    for node in nodes:
        if _is_broken(store, node, changed_paths):
            changes.broken_paths.append(node.path)
    for path in changed_paths:
        if path in changes.broken_paths:
            continue
        if path in committed_blobs:
            changes.edited_paths.append(path)
        else:
            changes.new_paths.append(path)
    return changes


def _read_committed_blobs(store: Store) -> dict[str, str]:
    """Return the files of the store in HEAD: blob id by store path."""
    head = store.repo.read_head()
    if not head:
        return {}
    listing = store.repo.list_files(head, store.files.store)
    return {store.files.to_store_path(path): blob for path, blob in listing.items()}


def _list_changed(
    store: Store, committed_blobs: Mapping[str, str], pending_paths: Collection[str]
) -> list[str]:
    """List the records that differ from HEAD, without private and pending ones."""
    changed_paths: list[str] = []
    for path, entry in store.index.read_manifest().items():
        if committed_blobs.get(path) == entry.blob:
            continue
        if not is_private(path) and path not in pending_paths:
            changed_paths.append(path)
    return sorted(changed_paths)


def _is_broken(store: Store, node: Node, changed_paths: Collection[str]) -> bool:
    """Return whether the header of a record cannot be read.

    Only a record that lacks an id or topic, or has uncommitted edits, is read for that.
    """
    lacks_names = node.id.startswith("file_") or (node.type == DECISION and not node.stated)
    if not lacks_names and node.path not in changed_paths:
        return False
    try:
        data = store.files.read(node.path)
    except (NotFound, BadInput):  # deleted since
        return False
    if not data.startswith((b"---", b"+++")):
        return False
    problems = parse_record(data, node.path).problems
    return any(problem.level == "error" for problem in problems)


def _format_commit_command(store: Store, changes: _WorkTreeChanges) -> str:
    """Return the command that commits what is ready, "" if nothing is."""
    ready_paths = changes.ready_paths
    if not ready_paths:
        return ""
    git = "git"
    paths = folder = shlex.quote(store.name)
    has_own_work_tree = store.repo is not store.code
    if has_own_work_tree:
        git = f"git -C {folder}"
        paths = "."
    if changes.broken_paths:
        if not has_own_work_tree:
            ready_paths = [store.files.to_work_tree_path(path) for path in ready_paths]
        paths = shlex.join(ready_paths)
    return f"{git} add {paths} && {git} commit {paths}"


def _list_restore_entries(store: Store, paths: Iterable[str]) -> list[dict[str, str]]:
    shown_paths = _list_display_paths(store, paths)
    return [
        {"path": path, "restore": f"filemem restore {shlex.quote(path)}"} for path in shown_paths
    ]


# the other side


def _read_upstream_state(store: Store) -> _UpstreamState:
    """Return the upstream branch as it was last fetched."""
    upstream = find_upstream(store)
    if upstream is None:
        return _UpstreamState()
    repo = store.repo
    remote_tip = repo.resolve_revision(upstream.tracking_ref)
    local_tip = repo.read_head()
    if not remote_tip or not local_tip:
        return _UpstreamState()
    ahead = repo.count_commits(local_tip, remote_tip)
    behind = repo.count_commits(remote_tip, local_tip)
    return _UpstreamState(upstream.label, ahead, behind)


def _format_share_command(upstream_state: _UpstreamState, *, on_branch: bool) -> str:
    """Return the command that brings both sides together, "" if they are equal."""
    if not upstream_state.ahead and not upstream_state.behind:
        return ""
    if on_branch:
        return "filemem sync"
    return "git pull && git push" if upstream_state.behind else "git push"
