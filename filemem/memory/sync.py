"""Sync a memory with its remote: fetch, merge by record, push.

Rule: it never rewrites, never forces, and touches nothing of the user's. Git moves the files and
refuses if something is in the way; then only what was fetched has changed. Only commits that touch
nothing but the store are merged and pushed; the rest is left to the user. A record that both sides
changed is merged field by field, or refused with file and line.
"""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from filemem.errors import Conflict, NotFound
from filemem.memory.store import FORGOTTEN, TOP, Store, compute_tombstone
from filemem.record import merge_versions, parse_record
from filemem.repo import commit, remote
from filemem.repo.remote import Clash, RaceConflict, Remote, commit_files, merge_commits
from filemem.repo.run import LONG_LIMIT, GitError

MAX_TRIES = 20  # of pushing; each loss means that another clone has pushed
_PAUSE = 0.3  # seconds between two tries, at most
_FAST_FORWARD = (
    "merge",
    "--quiet",
    "--ff-only",
    "--no-overwrite-ignore",
    "--no-autostash",
    "--no-stat",
    "--no-verify-signatures",
)
_LOG_COMMAND = (
    "log",
    "-z",
    "--name-only",
    "--no-renames",
    "--diff-merges=combined",
    "--format=%x01%H",
)


class SyncResult(NamedTuple):
    """What a sync did."""

    remote: str  # the branch there
    received: int = 0  # commits
    sent: int = 0  # commits
    waiting: int = 0  # commits that are only here
    merged: tuple[str, ...] = ()  # records
    forgotten: tuple[str, ...] = ()  # records that one side has forgotten
    forked: tuple[str, ...] = ()  # topics
    left: str = ""  # why something is left to the user
    hint: str = ""  # what the user can do about it

    @property
    def message(self) -> str:
        """The result in a sentence."""
        waiting = self.waiting if self.left else 0
        parts = [
            _format_count("received", self.received),
            _format_count("sent", self.sent),
            _format_count("not pushed:", waiting),
            _format_names("merged", self.merged),
            _format_names("forgotten on one side", self.forgotten),
            _format_names("forked:", self.forked),
            self.left,
        ]
        text = "; ".join(filter(None, parts))
        return f"{self.remote}: {text or 'nothing new on either side'}"


def _format_count(label: str, count: int) -> str:
    return f"{label} {count} commit{'s' * (count > 1)}" if count else ""


def _format_names(label: str, names: Iterable[str]) -> str:
    return f"{label} {', '.join(names)}" if names else ""


class _LeftToUserError(Conflict):
    """Something is left to the user: the reason, and what to do."""


def sync(store: Store) -> SyncResult:
    """Fetch, merge, push; again if the remote changed meanwhile.

    Raises NotFound: the branch has no upstream; Conflict: both sides changed the same lines
    (file:line), and nothing is changed; Locked: another process keeps saving; BrokenStore: the
    remote refuses.
    """
    repo = store.repo
    upstream = _require_upstream(store)
    result = SyncResult(upstream.label)
    for _ in range(MAX_TRIES):
        last_tip = repo.resolve_revision(upstream.tracking_ref)
        tip = remote.fetch_branch(repo, upstream, filter(None, (repo.read_head(), last_tip)))
        try:
            _refuse_rewritten(store, upstream, last_tip, tip)
            if tip and tip != last_tip:
                repo.git.run("update-ref", upstream.tracking_ref, tip)
            with repo.save_lock():
                commit.finish_saves(repo, store.files)
                result = _merge_fetched(store, upstream, tip, result)
            if result.waiting:
                _push_head(store, upstream)
            return result._replace(sent=result.waiting, waiting=0)
        except _LeftToUserError as error:
            waiting = _count_ahead(store, upstream, tip)
            return result._replace(waiting=waiting, left=error.message, hint=error.hint)
        except RaceConflict:
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads competitors, no secret
    raise Conflict(f"{upstream.label} keeps changing: others push all the time", "try again")


def _push_head(store: Store, upstream: Remote) -> None:
    """Push HEAD, and make the branch follow the upstream branch. Raises Raced."""
    repo = store.repo
    head = repo.read_head() or ""
    remote.push_commit(repo, upstream, head)
    if upstream.push_url == upstream.url:  # else the next fetch shows where it went
        repo.git.run("update-ref", upstream.tracking_ref, head)
    if not remote.find_upstream(repo, store.branch):
        remote.set_upstream(repo, store.branch, upstream)


def add_forks(store: Store, result: SyncResult) -> SyncResult:
    """Add the topics that are forked now to an answer; the index already has what came."""
    forked_topics = store.list_forked_topics(store.index.read_nodes()) if result.received else ()
    hints = [
        f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ... ends the fork"
        for topic in forked_topics
    ]
    return result._replace(
        forked=forked_topics, hint="; ".join(filter(None, (result.hint, *hints[:1])))
    )


def find_upstream(store: Store) -> Remote | None:
    """The branch that the store's branch follows.

    A memory's own branch follows the branch of the same name if it states no other.
    """
    branch = store.branch
    upstream = remote.find_upstream(store.repo, branch) if branch else None
    if branch and upstream is None and store.files.store == TOP:
        return remote.find_default_remote(store.repo, branch)
    return upstream


def _require_upstream(store: Store) -> Remote:
    """As `upstream_of`. Raises Conflict: HEAD is detached; NotFound: there is none."""
    git = store.repo.git.folders.command_prefix
    branch = store.branch
    if not branch:
        message = "HEAD is detached, so there is no branch to share"
        raise Conflict(message, f"{git} switch BRANCH, then try again")
    upstream = find_upstream(store)
    if upstream is None:
        remote_hint = (
            "" if store.repo.git.run("remote") else f"{git} remote add origin ADDRESS, then "
        )
        hint = f"{remote_hint}{git} push -u origin {branch}"
        raise NotFound(f"the branch {branch} has no upstream", hint)
    return upstream


def _refuse_rewritten(
    store: Store, upstream: Remote, last_tip: str | None, tip: str | None
) -> None:
    """Stop if the remote branch was rewritten: a merge would bring removed commits back."""
    git = store.repo.git.folders.command_prefix
    if not last_tip:
        return
    if not tip:
        raise _LeftToUserError(
            "left to you, because the branch no longer exists there: merged or deleted",
            f"{git} push -u {upstream.name} HEAD:{upstream.branch} makes it anew",
        )
    if not store.history.is_ancestor(last_tip, tip):
        raise _LeftToUserError(
            "left to you, because the branch was rewritten there: a merge would undo that",
            f"{git} fetch {upstream.name}, then look at both; "
            f"{git} rebase --fork-point {upstream.label} goes along",
        )


def _merge_fetched(
    store: Store, upstream: Remote, tip: str | None, result: SyncResult
) -> SyncResult:
    """Merge what was fetched into the branch; `waiting`: how many commits to push.

    Raises Conflict.
    """
    head = store.repo.read_head()
    if head is None:
        raise _LeftToUserError(
            "nothing is committed here yet", f"{store.repo.git.folders.command_prefix} pull"
        )
    is_behind = tip is not None and not store.history.is_ancestor(tip, head)
    is_ahead = tip is None or not store.history.is_ancestor(head, tip)
    if not is_behind and not is_ahead:
        return result._replace(waiting=0)
    _refuse_busy(store, is_behind=is_behind)
    if is_ahead:
        _refuse_foreign(store, upstream, head, tip, is_behind=is_behind)
    if tip and is_behind:
        received = store.repo.count_commits(tip, head)
        new_tip, result = (
            _commit_merge(store, upstream, head, tip, result) if is_ahead else (tip, result)
        )
        _fast_forward(store, new_tip)
        result = result._replace(received=result.received + received)
    return result._replace(waiting=_count_ahead(store, upstream, tip))


def _refuse_busy(store: Store, *, is_behind: bool) -> None:
    """Refuse to merge if the repository is busy, or if Git would run its programs."""
    repo = store.repo
    reason = repo.find_busy_reason()
    if reason:
        raise _LeftToUserError(f"only fetched, because {reason}", "sync again when that is over")
    programs = repo.settings.own_programs
    if is_behind and programs:
        raise _LeftToUserError(
            f"only fetched, because Git would run {programs[0]}, "
            "which only the repository's own configuration names",
            f"if you trust it: {repo.git.folders.command_prefix} pull",
        )


def _refuse_foreign(
    store: Store, upstream: Remote, head: str, tip: str | None, *, is_behind: bool
) -> None:
    """Refuse to push commits that are not of the memory alone."""
    reason = _find_foreign_reason(store, upstream, head, tip)
    if reason:
        git = store.repo.git.folders.command_prefix
        pull = f"{git} pull, then " if is_behind else ""
        raise _LeftToUserError(f"left to you, because {reason}", f"{pull}{git} push")


def _count_ahead(store: Store, upstream: Remote, tip: str | None) -> int:
    """How many commits the remote lacks."""
    if not store.repo.read_head():
        return 0
    return int(
        store.repo.git.run("rev-list", "--count", *_build_ahead_range(upstream, "HEAD", tip))
    )


def _build_ahead_range(upstream: Remote, head: str, tip: str | None) -> tuple[str, ...]:
    """The commits that the remote lacks, as Git's arguments."""
    return (head, "--not", tip or f"--remotes={upstream.name}")


def _find_foreign_reason(store: Store, upstream: Remote, head: str, tip: str | None) -> str:
    """Why the commits ahead are not ours to push, or "".

    One touches more than the store, or Git would push to another branch.
    """
    if _is_pushed_elsewhere(store, upstream):
        return f"{store.branch} follows {upstream.label}, and Git would push it elsewhere"
    if store.files.store == TOP:
        return ""
    commits = _build_ahead_range(upstream, head, tip)
    output = store.repo.git.run(*_LOG_COMMAND, "--reverse", *commits, limit=LONG_LIMIT)
    for entry in output.decode("utf-8", "surrogateescape").split("\x01")[1:]:
        oid, *paths = (part.lstrip("\n") for part in entry.split("\0"))
        foreign_paths = [path for path in paths if path and not store.files.is_in_store(path)]
        if foreign_paths:
            return f"{oid[:10]} touches {foreign_paths[0]}, which is not of the memory"
    return ""


def _is_pushed_elsewhere(store: Store, upstream: Remote) -> bool:
    """True if Git would push the branch to another one than it follows."""
    settings = store.repo.settings
    remote_name = (
        settings.get_text(f"branch.{store.branch}.pushremote")
        or settings.get_text("remote.pushdefault")
        or upstream.name
    )
    return store.branch != upstream.branch or remote_name != upstream.name


def _fast_forward(store: Store, new_tip: str) -> None:
    """Let Git fast-forward branch, index and files to a commit; it does all of it or nothing."""
    try:
        store.repo.git.run(
            *_FAST_FORWARD, new_tip, limit=LONG_LIMIT, config=("submodule.recurse=false",)
        )
    except GitError as error:
        paths = [row.strip() for row in error.stderr.splitlines() if row.startswith("\t")]
        if not paths:
            raise
        raise _LeftToUserError(
            f"only fetched, because {_to_display_path(store, paths[0])} is in the way: "
            "not tracked, or not committed",
            "commit or move that, then sync again",
        ) from None


def _commit_merge(
    store: Store, upstream: Remote, head: str, tip: str, result: SyncResult
) -> tuple[str, SyncResult]:
    """Make a commit that merges the two sides, record by record."""
    repo = store.repo
    tree, clashes = merge_commits(repo, head, tip, allow_unrelated=store.files.store == TOP)
    tombstones = _read_tombstones(store, head) | _read_tombstones(store, tip)
    git = repo.git.folders.command_prefix
    hint = f"settle it with Git: {git} pull --no-rebase {upstream.name} {upstream.branch}"
    merged_files = {clash.path: _merge_clash(store, clash, tombstones, hint) for clash in clashes}
    message = f"memory: merge {upstream.label}\n"
    oid = commit_files(repo, tree, merged_files, (head, tip), message, store.clock())
    merged_paths = tuple(
        _to_display_path(store, path) for path, data in merged_files.items() if data is not None
    )
    forgotten_paths = tuple(
        _to_display_path(store, path) for path, data in merged_files.items() if data is None
    )
    result = result._replace(
        merged=result.merged + merged_paths, forgotten=result.forgotten + forgotten_paths
    )
    return oid, result


def _read_tombstones(store: Store, commit: str) -> set[str]:
    """The tombstones of a commit, see `mark_of`."""
    folder = store.files.to_work_tree_path(FORGOTTEN)
    return {path.removeprefix(f"{folder}/") for path in store.repo.list_files(commit, folder)}


def _merge_clash(
    store: Store, clash: Clash, tombstones: Collection[str], hint: str
) -> bytes | None:
    """The merged bytes of a file that both sides changed; None if it was forgotten.

    Raises Conflict.
    """
    path = _to_display_path(store, clash.path)
    if not store.files.is_in_store(clash.path):
        raise Conflict(f"{path}:1: both sides changed this file, which is not a record", hint)
    sides = (clash.base, clash.ours, clash.theirs)
    base, ours, theirs = (store.repo.read_blob(oid) if oid else None for oid in sides)
    store_path = store.files.to_store_path(clash.path)
    if ours is None or theirs is None:
        if _is_forgotten(store_path, filter(None, (base, ours, theirs)), tombstones):
            return None  # forgetting wins
        raise Conflict(f"{path}:1: deleted or renamed on one side, changed on the other", hint)
    if base is None:
        raise Conflict(f"{path}:1: both sides added this file, with different content", hint)
    try:
        return merge_versions(base, ours, theirs, store_path)
    except Conflict as error:
        raise Conflict(error.message.replace(store_path, path, 1), hint) from None


def _is_forgotten(path: str, versions: Iterable[bytes], tombstones: Collection[str]) -> bool:
    """True if a side has a tombstone of the record that one of these versions is."""
    records = (parse_record(data, path).record for data in versions)
    return any(record and compute_tombstone(record.id) in tombstones for record in records)


def _to_display_path(store: Store, path: str) -> str:
    """A path of the records' repository, as shown to people."""
    return (
        store.to_display_path(store.files.to_store_path(path))
        if store.files.is_in_store(path)
        else path
    )
