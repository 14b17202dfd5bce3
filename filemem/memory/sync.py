"""Sync a memory with its remote: fetch, merge by record, push.

It never rewrites history, never forces a push, and leaves the user's own work alone. Git moves the
files and refuses if something is in the way. Only commits that change nothing but the store are
merged and pushed; others are left to the user. A record that both sides changed is merged field by
field, or refused with file and line.
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

MAX_TRIES = 20  # pushes; each failure means that another clone has pushed
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
        phrases = [
            _format_count("received", self.received),
            _format_count("sent", self.sent),
            _format_count("not pushed:", waiting),
            _format_names("merged", self.merged),
            _format_names("forgotten on one side", self.forgotten),
            _format_names("forked:", self.forked),
            self.left,
        ]
        text = "; ".join(phrase for phrase in phrases if phrase)
        return f"{self.remote}: {text or 'nothing new on either side'}"


def _format_count(label: str, count: int) -> str:
    if not count:
        return ""
    unit = "commit" if count == 1 else "commits"
    return f"{label} {count} {unit}"


def _format_names(label: str, names: Iterable[str]) -> str:
    return f"{label} {', '.join(names)}" if names else ""


class _LeftToUserError(Conflict):
    """A step that is left to the user: the reason, and what to do."""


def sync(store: Store) -> SyncResult:
    """Fetch, merge and push; again if the remote changes meanwhile.

    Raises:
        NotFound: the branch has no upstream.
        Conflict: both sides changed the same lines (file:line), and nothing is changed.
        Locked: another process keeps saving.
        BrokenStore: the remote refuses.
    """
    repo = store.repo
    upstream = _require_upstream(store)
    result = SyncResult(upstream.label)
    for _ in range(MAX_TRIES):
        last_tip = repo.resolve_revision(upstream.tracking_ref)
        known_tips = [commit_id for commit_id in (repo.read_head(), last_tip) if commit_id]
        tip = remote.fetch_branch(repo, upstream, known_tips)
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
    """Add the topics that are forked now to a result, once the index has the received records."""
    if not result.received:
        return result._replace(forked=())
    forked_topics = store.list_forked_topics(store.index.read_nodes())
    result = result._replace(forked=forked_topics)
    if not forked_topics:
        return result
    topic = shlex.quote(forked_topics[0])
    hint = f"filemem resolve {topic} --decision ... --reasoning ... ends the fork"
    return result._replace(hint=f"{result.hint}; {hint}" if result.hint else hint)


def find_upstream(store: Store) -> Remote | None:
    """Find the branch that the store's branch follows; None without one.

    A memory's own branch follows the branch of the same name if it states no other.
    """
    branch = store.branch
    if not branch:
        return None
    upstream = remote.find_upstream(store.repo, branch)
    if upstream is None and store.files.store == TOP:
        return remote.find_default_remote(store.repo, branch)
    return upstream


def _require_upstream(store: Store) -> Remote:
    """Find the upstream branch. Raises Conflict: HEAD is detached; NotFound: there is none."""
    git = store.repo.git.folders.command_prefix
    branch = store.branch
    if not branch:
        message = "HEAD is detached, so there is no branch to share"
        raise Conflict(message, f"{git} switch BRANCH, then try again")
    upstream = find_upstream(store)
    if upstream is None:
        hint = f"{git} push -u origin {branch}"
        if not store.repo.git.run("remote"):
            hint = f"{git} remote add origin ADDRESS, then {hint}"
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
    """Merge the fetched commits into the branch; `waiting` is the number of commits to push.

    Raises Conflict.
    """
    head = store.repo.read_head()
    if head is None:
        git = store.repo.git.folders.command_prefix
        raise _LeftToUserError("nothing is committed here yet", f"{git} pull")
    is_behind = tip is not None and not store.history.is_ancestor(tip, head)
    is_ahead = tip is None or not store.history.is_ancestor(head, tip)
    if not is_behind and not is_ahead:
        return result._replace(waiting=0)
    _refuse_busy(store, is_behind=is_behind)
    if is_ahead:
        _refuse_foreign(store, upstream, head, tip, is_behind=is_behind)
    if tip and is_behind:
        received = result.received + store.repo.count_commits(tip, head)
        new_tip = tip
        if is_ahead:
            new_tip, result = _commit_merge(store, upstream, head, tip, result)
        _fast_forward(store, new_tip)
        result = result._replace(received=received)
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
    """Refuse to push commits that change more than the memory."""
    reason = _find_foreign_reason(store, upstream, head, tip)
    if reason:
        git = store.repo.git.folders.command_prefix
        pull = f"{git} pull, then " if is_behind else ""
        raise _LeftToUserError(f"left to you, because {reason}", f"{pull}{git} push")


def _count_ahead(store: Store, upstream: Remote, tip: str | None) -> int:
    """Count the commits that the remote lacks."""
    if not store.repo.read_head():
        return 0
    commits = _build_ahead_range(upstream, "HEAD", tip)
    return int(store.repo.git.run("rev-list", "--count", *commits))


def _build_ahead_range(upstream: Remote, head: str, tip: str | None) -> tuple[str, ...]:
    """Return the commits that the remote lacks, as Git's arguments."""
    return (head, "--not", tip or f"--remotes={upstream.name}")


def _find_foreign_reason(store: Store, upstream: Remote, head: str, tip: str | None) -> str:
    """Explain why the commits ahead must not be pushed here; "" if they may.

    One changes more than the store, or Git would push to another branch.
    """
    if _is_pushed_elsewhere(store, upstream):
        return f"{store.branch} follows {upstream.label}, and Git would push it elsewhere"
    if store.files.store == TOP:
        return ""
    commits = _build_ahead_range(upstream, head, tip)
    output = store.repo.git.run(*_LOG_COMMAND, "--reverse", *commits, limit=LONG_LIMIT)
    entries = output.decode("utf-8", "surrogateescape").split("\x01")
    for entry in entries[1:]:
        parts = [part.lstrip("\n") for part in entry.split("\0")]
        commit_id = parts[0]
        for path in parts[1:]:
            if path and not store.files.is_in_store(path):
                return f"{commit_id[:10]} touches {path}, which is not of the memory"
    return ""


def _is_pushed_elsewhere(store: Store, upstream: Remote) -> bool:
    """Return whether Git would push the branch to another one than it follows."""
    settings = store.repo.settings
    remote_name = settings.get_text(f"branch.{store.branch}.pushremote")
    if not remote_name:
        remote_name = settings.get_text("remote.pushdefault") or upstream.name
    return store.branch != upstream.branch or remote_name != upstream.name


def _fast_forward(store: Store, new_tip: str) -> None:
    """Let Git fast-forward branch, index and files to a commit; it does all of it or nothing."""
    config = ("submodule.recurse=false",)
    try:
        store.repo.git.run(*_FAST_FORWARD, new_tip, limit=LONG_LIMIT, config=config)
    except GitError as error:
        paths = [row.strip() for row in error.stderr.splitlines() if row.startswith("\t")]
        if not paths:
            raise
        path = _to_display_path(store, paths[0])
        raise _LeftToUserError(
            f"only fetched, because {path} is in the way: not tracked, or not committed",
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
    files: dict[str, bytes | None] = {}
    merged_paths: list[str] = []
    forgotten_paths: list[str] = []
    for clash in clashes:
        data = _merge_clash(store, clash, tombstones, hint)
        files[clash.path] = data
        display_path = _to_display_path(store, clash.path)
        if data is None:
            forgotten_paths.append(display_path)
        else:
            merged_paths.append(display_path)
    message = f"memory: merge {upstream.label}\n"
    merge_id = commit_files(repo, tree, files, (head, tip), message, store.clock())
    result = result._replace(
        merged=(*result.merged, *merged_paths),
        forgotten=(*result.forgotten, *forgotten_paths),
    )
    return merge_id, result


def _read_tombstones(store: Store, commit: str) -> set[str]:
    """Read the tombstones of a commit, see `compute_tombstone`."""
    folder = store.files.to_work_tree_path(FORGOTTEN)
    paths = store.repo.list_files(commit, folder)
    return {path.removeprefix(f"{folder}/") for path in paths}


def _merge_clash(
    store: Store, clash: Clash, tombstones: Collection[str], hint: str
) -> bytes | None:
    """Merge a file that both sides changed; None if it was forgotten.

    Raises Conflict.
    """
    path = _to_display_path(store, clash.path)
    if not store.files.is_in_store(clash.path):
        raise Conflict(f"{path}:1: both sides changed this file, which is not a record", hint)
    base = _read_blob(store, clash.base)
    ours = _read_blob(store, clash.ours)
    theirs = _read_blob(store, clash.theirs)
    store_path = store.files.to_store_path(clash.path)
    if ours is None or theirs is None:
        versions = [data for data in (base, ours, theirs) if data]
        if _is_forgotten(store_path, versions, tombstones):
            return None
        raise Conflict(f"{path}:1: deleted or renamed on one side, changed on the other", hint)
    if base is None:
        raise Conflict(f"{path}:1: both sides added this file, with different content", hint)
    try:
        return merge_versions(base, ours, theirs, store_path)
    except Conflict as error:
        raise Conflict(error.message.replace(store_path, path, 1), hint) from None


def _read_blob(store: Store, blob_id: str) -> bytes | None:
    return store.repo.read_blob(blob_id) if blob_id else None


def _is_forgotten(path: str, versions: Iterable[bytes], tombstones: Collection[str]) -> bool:
    """Return whether there is a tombstone of the record that one of these versions is."""
    for data in versions:
        record = parse_record(data, path).record
        if record and compute_tombstone(record.id) in tombstones:
            return True
    return False


def _to_display_path(store: Store, path: str) -> str:
    """Return a path of the records' repository as users see it."""
    if not store.files.is_in_store(path):
        return path
    return store.to_display_path(store.files.to_store_path(path))
