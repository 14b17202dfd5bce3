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
from filemem.memory.store import FORGOTTEN, TOP, Store, mark_of
from filemem.record import merge, parse
from filemem.repo import commit, remote
from filemem.repo.remote import Clash, Raced, Remote, commit_files, merged_tree
from filemem.repo.run import LONG, GitError

TRIES = 20  # of pushing; each loss means that another clone has pushed
_PAUSE = 0.3  # seconds between two tries, at most
_MOVE = (
    "merge",
    "--quiet",
    "--ff-only",
    "--no-overwrite-ignore",
    "--no-autostash",
    "--no-stat",
    "--no-verify-signatures",
)
_LOG = ("log", "-z", "--name-only", "--no-renames", "--diff-merges=combined", "--format=%x01%H")


class Synced(NamedTuple):
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
            _counted("received", self.received),
            _counted("sent", self.sent),
            _counted("not pushed:", waiting),
            _named("merged", self.merged),
            _named("forgotten on one side", self.forgotten),
            _named("forked:", self.forked),
            self.left,
        ]
        text = "; ".join(filter(None, parts))
        return f"{self.remote}: {text or 'nothing new on either side'}"


def _counted(verb: str, count: int) -> str:
    return f"{verb} {count} commit{'s' * (count > 1)}" if count else ""


def _named(verb: str, names: Iterable[str]) -> str:
    return f"{verb} {', '.join(names)}" if names else ""


class _LeftError(Conflict):
    """Something is left to the user: the reason, and what to do."""


def sync(store: Store) -> Synced:
    """Fetch, merge, push; again if the remote changed meanwhile.

    Raises NotFound: the branch has no upstream; Conflict: both sides changed the same lines
    (file:line), and nothing is changed; Locked: another process keeps saving; BrokenStore: the
    remote refuses.
    """
    repo = store.repo
    upstream = _upstream(store)
    done = Synced(upstream.label)
    for _ in range(TRIES):
        last_tip = repo.resolve(upstream.tracking)
        tip = remote.fetch(repo, upstream, filter(None, (repo.head(), last_tip)))
        try:
            _refuse_rewritten(store, upstream, last_tip, tip)
            if tip and tip != last_tip:
                repo.git.run("update-ref", upstream.tracking, tip)
            with repo.saving():
                commit.finish(repo, store.files)
                done = _bring(store, upstream, tip, done)
            if done.waiting:
                _push(store, upstream)
            return done._replace(sent=done.waiting, waiting=0)
        except _LeftError as error:
            waiting = _ahead(store, upstream, tip)
            return done._replace(waiting=waiting, left=error.message, hint=error.hint)
        except Raced:
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads competitors, no secret
    raise Conflict(f"{upstream.label} keeps changing: others push all the time", "try again")


def _push(store: Store, upstream: Remote) -> None:
    """Push HEAD, and make the branch follow the upstream branch. Raises Raced."""
    repo = store.repo
    head = repo.head() or ""
    remote.push(repo, upstream, head)
    if upstream.push_url == upstream.url:  # else the next fetch shows where it went
        repo.git.run("update-ref", upstream.tracking, head)
    if not remote.upstream(repo, store.branch):
        remote.follow(repo, store.branch, upstream)


def forks(store: Store, done: Synced) -> Synced:
    """Add the topics that are forked now to an answer; the index already has what came."""
    forked = store.forked(store.index.nodes()) if done.received else ()
    ends = [
        f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ... ends the fork"
        for topic in forked
    ]
    return done._replace(forked=forked, hint="; ".join(filter(None, (done.hint, *ends[:1]))))


def upstream_of(store: Store) -> Remote | None:
    """The branch that the store's branch follows.

    A memory's own branch follows the branch of the same name if it states no other.
    """
    branch = store.branch
    upstream = remote.upstream(store.repo, branch) if branch else None
    if branch and upstream is None and store.files.store == TOP:
        return remote.usual(store.repo, branch)
    return upstream


def _upstream(store: Store) -> Remote:
    """As `upstream_of`. Raises Conflict: HEAD is detached; NotFound: there is none."""
    git = store.repo.git.places.by_hand
    branch = store.branch
    if not branch:
        message = "HEAD is detached, so there is no branch to share"
        raise Conflict(message, f"{git} switch BRANCH, then try again")
    upstream = upstream_of(store)
    if upstream is None:
        first = "" if store.repo.git.run("remote") else f"{git} remote add origin ADDRESS, then "
        hint = f"{first}{git} push -u origin {branch}"
        raise NotFound(f"the branch {branch} has no upstream", hint)
    return upstream


def _refuse_rewritten(
    store: Store, upstream: Remote, last_tip: str | None, tip: str | None
) -> None:
    """Stop if the remote branch was rewritten: a merge would bring removed commits back."""
    git = store.repo.git.places.by_hand
    if not last_tip:
        return
    if not tip:
        raise _LeftError(
            "left to you, because the branch no longer exists there: merged or deleted",
            f"{git} push -u {upstream.name} HEAD:{upstream.branch} makes it anew",
        )
    if not store.history.is_ancestor(last_tip, tip):
        raise _LeftError(
            "left to you, because the branch was rewritten there: a merge would undo that",
            f"{git} fetch {upstream.name}, then look at both; "
            f"{git} rebase --fork-point {upstream.label} goes along",
        )


def _bring(store: Store, upstream: Remote, tip: str | None, done: Synced) -> Synced:
    """Merge what was fetched into the branch; `waiting`: how many commits to push.

    Raises Conflict.
    """
    head = store.repo.head()
    if head is None:
        raise _LeftError("nothing is committed here yet", f"{store.repo.git.places.by_hand} pull")
    behind = tip is not None and not store.history.is_ancestor(tip, head)
    ahead = tip is None or not store.history.is_ancestor(head, tip)
    if not behind and not ahead:
        return done._replace(waiting=0)
    _refuse_busy(store, behind=behind)
    if ahead:
        _refuse_foreign(store, upstream, head, tip, behind=behind)
    if tip and behind:
        received = store.repo.between(tip, head)
        new, done = _merged(store, upstream, head, tip, done) if ahead else (tip, done)
        _move(store, new)
        done = done._replace(received=done.received + received)
    return done._replace(waiting=_ahead(store, upstream, tip))


def _refuse_busy(store: Store, *, behind: bool) -> None:
    """Refuse to merge if the repository is busy, or if Git would run its programs."""
    repo = store.repo
    reason = repo.busy()
    if reason:
        raise _LeftError(f"only fetched, because {reason}", "sync again when that is over")
    programs = repo.settings.own_programs
    if behind and programs:
        raise _LeftError(
            f"only fetched, because Git would run {programs[0]}, "
            "which only the repository's own configuration names",
            f"if you trust it: {repo.git.places.by_hand} pull",
        )


def _refuse_foreign(
    store: Store, upstream: Remote, head: str, tip: str | None, *, behind: bool
) -> None:
    """Refuse to push commits that are not of the memory alone."""
    reason = _foreign(store, upstream, head, tip)
    if reason:
        git = store.repo.git.places.by_hand
        pull = f"{git} pull, then " if behind else ""
        raise _LeftError(f"left to you, because {reason}", f"{pull}{git} push")


def _ahead(store: Store, upstream: Remote, tip: str | None) -> int:
    """How many commits the remote lacks."""
    if not store.repo.head():
        return 0
    return int(store.repo.git.run("rev-list", "--count", *_only_here(upstream, "HEAD", tip)))


def _only_here(upstream: Remote, head: str, tip: str | None) -> tuple[str, ...]:
    """The commits that the remote lacks, as Git's arguments."""
    return (head, "--not", tip or f"--remotes={upstream.name}")


def _foreign(store: Store, upstream: Remote, head: str, tip: str | None) -> str:
    """Why the commits ahead are not ours to push, or "".

    One touches more than the store, or Git would push to another branch.
    """
    if _goes_elsewhere(store, upstream):
        return f"{store.branch} follows {upstream.label}, and Git would push it elsewhere"
    if store.files.store == TOP:
        return ""
    commits = _only_here(upstream, head, tip)
    output = store.repo.git.run(*_LOG, "--reverse", *commits, limit=LONG)
    for entry in output.decode("utf-8", "surrogateescape").split("\x01")[1:]:
        oid, *paths = (part.lstrip("\n") for part in entry.split("\0"))
        foreign = [path for path in paths if path and not store.files.holds(path)]
        if foreign:
            return f"{oid[:10]} touches {foreign[0]}, which is not of the memory"
    return ""


def _goes_elsewhere(store: Store, upstream: Remote) -> bool:
    """True if Git would push the branch to another one than it follows."""
    settings = store.repo.settings
    remote_name = (
        settings.text(f"branch.{store.branch}.pushremote")
        or settings.text("remote.pushdefault")
        or upstream.name
    )
    return store.branch != upstream.branch or remote_name != upstream.name


def _move(store: Store, new: str) -> None:
    """Let Git fast-forward branch, index and files to a commit; it does all of it or nothing."""
    try:
        store.repo.git.run(*_MOVE, new, limit=LONG, config=("submodule.recurse=false",))
    except GitError as error:
        paths = [row.strip() for row in error.stderr.splitlines() if row.startswith("\t")]
        if not paths:
            raise
        raise _LeftError(
            f"only fetched, because {_shown(store, paths[0])} is in the way: "
            "not tracked, or not committed",
            "commit or move that, then sync again",
        ) from None


def _merged(
    store: Store, upstream: Remote, head: str, tip: str, done: Synced
) -> tuple[str, Synced]:
    """Make a commit that merges the two sides, record by record."""
    repo = store.repo
    tree, clashes = merged_tree(repo, head, tip, unrelated=store.files.store == TOP)
    marks = _tombstones(store, head) | _tombstones(store, tip)
    git = repo.git.places.by_hand
    hint = f"settle it with Git: {git} pull --no-rebase {upstream.name} {upstream.branch}"
    settled = {clash.path: _settled(store, clash, marks, hint) for clash in clashes}
    message = f"memory: merge {upstream.label}\n"
    oid = commit_files(repo, tree, settled, (head, tip), message, store.clock())
    merged = tuple(_shown(store, path) for path, data in settled.items() if data is not None)
    forgotten = tuple(_shown(store, path) for path, data in settled.items() if data is None)
    done = done._replace(merged=done.merged + merged, forgotten=done.forgotten + forgotten)
    return oid, done


def _tombstones(store: Store, commit: str) -> set[str]:
    """The tombstones of a commit, see `mark_of`."""
    folder = store.files.named(FORGOTTEN)
    return {path.removeprefix(f"{folder}/") for path in store.repo.listing(commit, folder)}


def _settled(store: Store, clash: Clash, marks: Collection[str], hint: str) -> bytes | None:
    """The merged bytes of a file that both sides changed; None if it was forgotten.

    Raises Conflict.
    """
    path = _shown(store, clash.path)
    if not store.files.holds(clash.path):
        raise Conflict(f"{path}:1: both sides changed this file, which is not a record", hint)
    sides = (clash.base, clash.ours, clash.theirs)
    base, ours, theirs = (store.repo.blob(oid) if oid else None for oid in sides)
    inside = store.files.inside(clash.path)
    if ours is None or theirs is None:
        if _is_forgotten(inside, filter(None, (base, ours, theirs)), marks):
            return None  # forgetting wins
        raise Conflict(f"{path}:1: deleted or renamed on one side, changed on the other", hint)
    if base is None:
        raise Conflict(f"{path}:1: both sides added this file, with different content", hint)
    try:
        return merge(base, ours, theirs, inside)
    except Conflict as error:
        raise Conflict(error.message.replace(inside, path, 1), hint) from None


def _is_forgotten(path: str, versions: Iterable[bytes], marks: Collection[str]) -> bool:
    """True if a side has a tombstone of the record that one of these versions is."""
    records = (parse(data, path).record for data in versions)
    return any(record and mark_of(record.id) in marks for record in records)


def _shown(store: Store, path: str) -> str:
    """A path of the records' repository, as shown to people."""
    return store.display_path(store.files.inside(path)) if store.files.holds(path) else path
