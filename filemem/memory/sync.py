"""Sharing a memory: fetch, merge by record, push. Rule: never rewrites, never forces, touches nothing of the user's.

Git moves the files, and refuses where something is in the way; then nothing is changed but what was fetched. Only what
touches the store alone is merged and pushed; all else is the user's to push. What both sides changed in a record is
merged where that is plain, and else refused with file and line.
"""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, NotFound
from filemem.memory.store import FORGOTTEN, TOP, Store, mark_of
from filemem.record import DECISION, merge, parse
from filemem.repo import branches, commit, remote
from filemem.repo.merge import Clash, merge_commit, merged_tree, settled_tree
from filemem.repo.remote import Raced, Remote, Tell
from filemem.repo.run import LONG, GitError

if TYPE_CHECKING:
    from filemem.repo import Repo

TRIES = 20  # of pushing; each loss means that somebody else has pushed
_PAUSE = 0.3  # seconds between two tries, at most
_MOVE = ("merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat", "--no-verify-signatures")


class Synced(NamedTuple):
    """What a sync did: commits `received` from the branch `remote`, `sent` to it, and `waiting` here; records `merged`,
    and those `forgotten` on one side; topics `forked` now; why something is `left` to the user, with a `hint`."""

    remote: str
    received: int = 0
    sent: int = 0
    waiting: int = 0
    merged: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    forked: tuple[str, ...] = ()
    left: str = ""
    hint: str = ""

    @property
    def message(self) -> str:
        """The same in a sentence."""
        counts = ((self.received, "received"), (self.sent, "sent"))
        parts = [f"{word} {count} commit{'s' if count > 1 else ''}" for count, word in counts if count]
        parts += [f"merged {', '.join(self.merged)}"] if self.merged else []
        lost = "forgotten on one side, so what the other changed in it is gone"
        parts += [f"{lost}: {', '.join(self.forgotten)}"] if self.forgotten else []
        parts += [f"forked: {', '.join(self.forked)}"] if self.forked else []
        parts += [f"{self.waiting} not pushed"] if self.left and self.waiting else []
        parts += [self.left] if self.left else []
        return f"{self.remote}: {'; '.join(parts) or 'nothing new on either side'}"


class _BlockedError(Exception):
    """Something is left to the user: why, what to do about it, and how many commits were received before."""

    def __init__(self, why: str, hint: str = "", received: int = 0) -> None:
        super().__init__(why)
        self.why, self.hint, self.received = why, hint, received


class _MovedError(Exception):
    """HEAD has moved meanwhile: try again."""


def sync(store: Store, tell: Tell | None = None) -> Synced:
    """Fetch, merge what came with what was saved here, push; again where somebody else was faster.

    Raises:
        NotFound: there is no other side, or the branch follows none there.
        Conflict: both sides changed the same lines (file:line); nothing is changed here or there.
        Locked: another process saves without end.
        BrokenStore: the other side cannot be reached, or refuses.
    """
    repo = store.repo
    where = _where(store)
    done = Synced(where.label)
    for _ in range(TRIES):
        seen, head = branches.tip_of(repo, where.tracking), repo.head()
        tip = remote.fetch(repo, where, [one for one in (head, seen) if one], tell)
        try:
            _refuse_rewritten(store, where, seen, tip)
            if tip and tip != seen:
                repo.git.run("update-ref", where.tracking, tip)
            with repo.saving():
                commit.finish(repo, store.files)
                done = _bring(store, where, tip, done)
            if not done.waiting:
                return done
            remote.push(repo, where, head := repo.head() or "", tell)
        except _BlockedError as blocked:
            received = max(done.received, blocked.received)
            waiting = _count(repo, where, tip)
            return done._replace(received=received, waiting=waiting, left=blocked.why, hint=blocked.hint)
        except (_MovedError, Raced):
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads competitors, nothing secret
            continue
        if where.push_url == where.url:  # else the next fetch shows where it went
            repo.git.run("update-ref", where.tracking, head)
        _follow(store, where)
        return done._replace(sent=done.waiting, waiting=0)
    raise Conflict(f"{where.label} moves faster than it can be followed", "others push without a pause; try again")


def forks(store: Store, done: Synced, before: str | None) -> Synced:
    """Add to an answer which topics are forked now; the index knows already what came."""
    head = store.repo.head()
    if not done.received or not before or not head:
        return done
    told = store.repo.git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, head)
    came = [path for path in told.decode("utf-8", "surrogateescape").split("\0") if path and store.files.holds(path)]
    nodes = store.lookup("path", [store.files.inside(path) for path in came])
    topics = {node.key: node.topic for node in nodes if node.type == DECISION and node.key}
    graph = store.index.around(nodes).graph
    forked = tuple(sorted(topic for key, topic in topics.items() if graph.chain(key).is_forked))
    ends = (
        f"{forked[0]} is forked: filemem resolve {shlex.quote(forked[0])} --decision ... --reasoning ... ends that"
        if forked
        else ""
    )
    return done._replace(forked=forked, hint="; ".join(filter(None, (done.hint, ends))))


# the other side


def _where(store: Store) -> Remote:
    """The branch on the other side; a branch that is only a memory goes where its name says, if it follows none."""
    repo, call = store.repo, store.repo.git.places.by_hand
    branch = repo.branch()
    if not branch:
        if reason := repo.busy():
            raise Conflict(f"nothing is shared now, because {reason}", "sync again when that is over")
        raise Conflict("HEAD is detached, so there is no branch to share", f"{call} switch BRANCH, then try again")
    where = remote.upstream(repo, branch) or (remote.usual(repo, branch) if store.files.store == TOP else None)
    if where is None:
        if not (known := remote.names(repo)):
            raise NotFound("this repository has no remote to share with", f"{call} remote add origin URL")
        told = f"the branch {branch} follows none on another side"
        raise NotFound(told, f"{call} push -u {known[0]} {branch}")
    return where


def _refuse_rewritten(store: Store, where: Remote, seen: str, tip: str | None) -> None:
    """Stop where the branch there does not go on from where it was: merging would bring back what was taken away."""
    call = store.repo.git.places.by_hand
    if seen and tip is None:
        anew = f"{call} push -u {where.name} HEAD:{where.branch} makes it anew"
        raise _BlockedError("left to you, because it is not there any more: merged, or removed", anew)
    if seen and tip and not store.history.is_ancestor(seen, tip):
        hint = f"{call} fetch {where.name}, then look at both; {call} rebase --fork-point {where.label} goes along"
        raise _BlockedError("left to you, because the branch was rewritten there: commits were taken back", hint)


def _follow(store: Store, where: Remote) -> None:
    """Make a branch that is only a memory follow the one it was pushed to, as `git push -u` does."""
    branch = store.repo.branch()
    if branch and store.files.store == TOP and remote.upstream(store.repo, branch) is None:
        remote.follow(store.repo, branch, where)


# here


def _bring(store: Store, where: Remote, tip: str | None, done: Synced) -> Synced:
    """Bring what was fetched into the branch, under the save lock; `waiting` counts the commits that are to be pushed.
    Raises Conflict.
    """
    repo, head = store.repo, store.repo.head()
    call = repo.git.places.by_hand
    if head is None:
        if tip:
            raise _BlockedError("nothing is committed here yet", f"{call} pull")
        return done
    behind = bool(tip) and not store.history.is_ancestor(tip or "", head)
    ahead = tip is None or not store.history.is_ancestor(head, tip)
    if not behind and not ahead:
        return done._replace(waiting=0)
    if reason := repo.busy():
        raise _BlockedError(f"only fetched, because {reason}", "sync again when that is over")
    if behind and (programs := repo.settings.own_programs):
        named = f"Git would run {programs[0]}, which only the repository's own configuration names"
        raise _BlockedError(f"only fetched, because {named}", f"if you trust it: {call} pull")
    outside = _outside(store, where, head, tip) if ahead else ""
    if tip and behind and not outside:
        new, done = _merged(store, where, head, tip, done) if ahead else (tip, done)
        _move(store, new)
        done = done._replace(received=done.received + branches.between(repo, tip, head))
    if outside:
        why = f"left to you, because {outside}"
        raise _BlockedError(why, f"{call} pull, then {call} push" if behind else f"{call} push")
    if ahead and (why := remote.elsewhere(repo, repo.branch() or "", where)):
        raise _BlockedError(f"left to you, because {why}", f"{call} push", done.received)
    return done._replace(waiting=_count(repo, where, tip) if ahead else 0)


def _count(repo: Repo, where: Remote, tip: str | None) -> int:
    """How many commits the other side lacks."""
    head = repo.head()
    return len(repo.git.run("rev-list", head, *_without(where, tip)).split()) if head else 0


def _without(where: Remote, tip: str | None) -> tuple[str, ...]:
    return ("--not", tip) if tip else ("--not", f"--remotes={where.name}")


def _outside(store: Store, where: Remote, head: str, tip: str | None) -> str:
    """The first commit the other side lacks that touches more than the store, in words, or ""."""
    if store.files.store == TOP:
        return ""
    how = ("-z", "--name-only", "--no-renames", "--diff-merges=combined", "--format=%x01%H", "--reverse")
    told = store.repo.git.run("log", *how, head, *_without(where, tip), limit=LONG).decode("utf-8", "surrogateescape")
    for one in told.split("\x01")[1:]:
        oid, *paths = (part.lstrip("\n") for part in one.split("\0"))
        if foreign := next((path for path in paths if path and not store.files.holds(path)), ""):
            return f"{oid[:10]} touches {foreign}, which is not of the memory"
    return ""


def _move(store: Store, new: str) -> None:
    """Let Git bring branch, index and files to a commit that goes on from HEAD; it refuses as a whole."""
    try:
        store.repo.git.run(*_MOVE, "--quiet", new, limit=LONG, config=("submodule.recurse=false",))
    except GitError as error:
        files = [_seen(store, row.strip()) for row in error.stderr.splitlines() if row.startswith("\t")]
        if files:
            stranger = "untracked" in error.stderr
            why = "is in the way, not tracked here" if stranger else "has changes that are not committed"
            told = f"only fetched, because {files[0]} {why}"
            raise _BlockedError(told, "commit or move that, then sync again") from None
        if "fast-forward" in error.stderr:
            raise _MovedError from None
        raise


def _merged(store: Store, where: Remote, head: str, tip: str, done: Synced) -> tuple[str, Synced]:
    """Make a commit that merges the two, by record."""
    repo = store.repo
    tree, clashes = merged_tree(repo, head, tip, unrelated=store.files.store == TOP)
    marks = {*_marks(store, head), *_marks(store, tip)}
    hint = f"settle it with Git: {repo.git.places.by_hand} pull --no-rebase {where.name} {where.branch}"
    settled: dict[str, bytes | None] = {}
    for clash in clashes:
        settled[clash.path] = _settled(store, clash, marks, hint)
    if settled:
        tree = settled_tree(repo, tree, settled)
    made = merge_commit(repo, tree, (head, tip), f"memory: merge {where.label}\n", store.clock())
    merged = (_seen(store, path) for path, data in settled.items() if data is not None)
    gone = (_seen(store, path) for path, data in settled.items() if data is None)
    return made, done._replace(
        merged=tuple(dict.fromkeys((*done.merged, *merged))), forgotten=tuple(dict.fromkeys((*done.forgotten, *gone)))
    )


def _marks(store: Store, commit_id: str) -> Iterator[str]:
    """The tombstones of a commit."""
    folder = store.files.named(FORGOTTEN)
    return (path.removeprefix(f"{folder}/") for path in store.repo.listing(commit_id, folder))


def _settled(store: Store, clash: Clash, marks: set[str], hint: str) -> bytes | None:
    """What becomes of a file that both sides changed: its bytes, None where it was forgotten. Raises Conflict."""
    path = _seen(store, clash.path)
    base, ours, theirs = (store.repo.blob(oid) if oid else None for oid in (clash.base, clash.ours, clash.theirs))
    if not store.files.holds(clash.path):
        raise Conflict(f"{path}:1: both sides changed this, and it is no record", hint)
    inside = store.files.inside(clash.path)
    records = [parse(data, inside).record for data in (base, ours, theirs) if data is not None]
    if ours is None or theirs is None:
        if any(one and mark_of(one.id) in marks for one in records):
            return None  # forgetting wins
        sides = {(True, False): "removed here and changed there", (False, True): "removed there and changed here"}
        told = sides.get((ours is None, theirs is None), "renamed on both sides")
        raise Conflict(f"{path}:1: {told}", hint)
    if base is None:  # a squash brought the same record there, and it has grown since: what both share is the base
        if None in records or len({one.id for one in records if one}) != 1:
            raise Conflict(f"{path}:1: both sides added this, and they differ", hint)
        rows, others = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
        blocks = SequenceMatcher(None, rows, others, autojunk=False).get_matching_blocks()
        base = b"".join(row for block in blocks for row in rows[block.a : block.a + block.size])
    try:
        return merge(base, ours, theirs, inside)
    except Conflict as error:
        raise Conflict(error.message.replace(inside, path, 1), hint) from None


def _seen(store: Store, path: str) -> str:
    """A path from the top of the records' repository as people see it."""
    return store.shown(store.files.inside(path)) if store.files.holds(path) else path
