"""Sharing a memory: fetch, merge by record, push. Rule: never rewrites, never forces, touches nothing of the user's.

Git moves the files and refuses if something is in the way; then only what was fetched has changed. Only commits that
touch nothing but the store are merged and pushed; the rest is left to the user. A record changed on both sides is
merged field by field, or refused with file and line.
"""

from __future__ import annotations

import random
import shlex
import time

from filemem.errors import Conflict, NotFound
from filemem.memory.store import FORGOTTEN, TOP, Store, mark_of
from filemem.record import merge, parse
from filemem.repo import commit, remote
from filemem.repo.remote import Clash, Raced, Remote, commit_files, merged_tree
from filemem.repo.run import LONG, GitError
from filemem.tuples import NamedTuple

TRIES = 20  # of pushing; each loss means that somebody else has pushed
_PAUSE = 0.3  # seconds between two tries, at most
_MOVE = (
    "merge",
    "--ff-only",
    "--no-overwrite-ignore",
    "--no-autostash",
    "--no-stat",
    "--no-verify-signatures",
)


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
        """The result in a sentence."""
        counts = {
            "received": self.received,
            "sent": self.sent,
            "not pushed:": self.waiting if self.left else 0,
        }
        names = {
            "merged": self.merged,
            "forgotten on one side": self.forgotten,
            "forked:": self.forked,
        }
        parts = [
            f"{word} {count} commit{'s' if count > 1 else ''}"
            for word, count in counts.items()
            if count
        ]
        parts += [f"{word} {', '.join(named)}" for word, named in names.items() if named]
        return f"{self.remote}: {'; '.join(filter(None, (*parts, self.left))) or 'nothing new on either side'}"


class _LeftError(Conflict):
    """Something is left to the user: the reason, and what to do."""


def sync(store: Store) -> Synced:
    """Fetch, merge, push; again if the remote changed meanwhile.

    Raises NotFound: the branch has no upstream; Conflict: both sides changed the same lines (file:line), and nothing is
    changed; Locked: another process keeps saving; BrokenStore: the remote refuses.
    """
    repo, where = store.repo, _where(store)
    done = Synced(where.label)
    for _ in range(TRIES):
        seen = repo.resolve(where.tracking)
        tip = remote.fetch(repo, where, [one for one in (repo.head(), seen) if one])
        try:
            _refuse_rewritten(store, where, seen, tip)
            if tip and tip != seen:
                repo.git.run("update-ref", where.tracking, tip)
            with repo.saving():
                commit.finish(repo, store.files)
                done = _bring(store, where, tip, done)
            if not done.waiting:
                return done
            remote.push(repo, where, head := repo.head() or "")
        except _LeftError as left:
            return done._replace(
                waiting=_ahead(store, where, tip), left=left.message, hint=left.hint
            )
        except Raced:
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads competitors, nothing secret
            continue
        if where.push_url == where.url:  # else the next fetch shows where it went
            repo.git.run("update-ref", where.tracking, head)
        if not remote.upstream(repo, store.branch):
            remote.follow(repo, store.branch, where)
        return done._replace(sent=done.waiting, waiting=0)
    raise Conflict(f"{where.label} keeps changing: others push all the time", "try again")


def forks(store: Store, done: Synced) -> Synced:
    """Add the topics that are forked now to an answer; the index already has what came."""
    forked = store.forked(store.index.nodes()) if done.received else ()
    ends = [
        f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ... ends the fork"
        for topic in forked
    ]
    return done._replace(forked=forked, hint="; ".join(filter(None, (done.hint, *ends[:1]))))


def _where(store: Store) -> Remote:
    """The upstream branch; a memory's own branch without upstream goes to the branch of the same name."""
    repo, branch, call = store.repo, store.branch, store.repo.git.places.by_hand
    if not branch:
        raise Conflict(
            "HEAD is detached, so there is no branch to share",
            f"{call} switch BRANCH, then try again",
        )
    where = remote.upstream(repo, branch) or (
        remote.usual(repo, branch) if store.files.store == TOP else None
    )
    if where is None:
        first = "" if repo.git.run("remote") else f"{call} remote add origin ADDRESS, then "
        raise NotFound(
            f"the branch {branch} has no upstream", f"{first}{call} push -u origin {branch}"
        )
    return where


def _refuse_rewritten(store: Store, where: Remote, seen: str | None, tip: str | None) -> None:
    """Stop if the remote branch was rewritten: a merge would bring removed commits back."""
    call = store.repo.git.places.by_hand
    if seen and not tip:
        anew = f"{call} push -u {where.name} HEAD:{where.branch} makes it anew"
        raise _LeftError(
            "left to you, because the branch no longer exists there: merged or deleted", anew
        )
    if seen and tip and not store.history.is_ancestor(seen, tip):
        hint = f"{call} fetch {where.name}, then look at both; {call} rebase --fork-point {where.label} goes along"
        raise _LeftError(
            "left to you, because the branch was rewritten there: a merge would undo that", hint
        )


def _bring(store: Store, where: Remote, tip: str | None, done: Synced) -> Synced:
    """Merge what was fetched into the branch; `waiting`: the number of commits to push. Raises Conflict."""
    repo, call, head = store.repo, store.repo.git.places.by_hand, store.repo.head()
    if head is None:
        raise _LeftError("nothing is committed here yet", f"{call} pull")
    behind = bool(tip) and not store.history.is_ancestor(tip or "", head)
    ahead = not tip or not store.history.is_ancestor(head, tip)
    if not behind and not ahead:
        return done._replace(waiting=0)
    if reason := repo.busy():
        raise _LeftError(f"only fetched, because {reason}", "sync again when that is over")
    if behind and (programs := repo.settings.own_programs):
        named = f"Git would run {programs[0]}, which only the repository's own configuration names"
        raise _LeftError(f"only fetched, because {named}", f"if you trust it: {call} pull")
    if ahead and (why := _foreign(store, where, head, tip)):
        raise _LeftError(
            f"left to you, because {why}",
            f"{call} pull, then {call} push" if behind else f"{call} push",
        )
    if tip and behind:
        new, done = _merged(store, where, head, tip, done) if ahead else (tip, done)
        _move(store, new)
        done = done._replace(received=done.received + repo.between(tip, head))
    return done._replace(waiting=_ahead(store, where, tip) if ahead else 0)


def _ahead(store: Store, where: Remote, tip: str | None) -> int:
    """How many commits the remote lacks."""
    known = tip or f"--remotes={where.name}"
    return (
        int(store.repo.git.run("rev-list", "--count", "HEAD", "--not", known))
        if store.repo.head()
        else 0
    )


def _foreign(store: Store, where: Remote, head: str, tip: str | None) -> str:
    """Why the commits ahead are not ours to push, or "": one touches more than the store, or goes to another branch."""
    repo, branch = store.repo, store.branch
    elsewhere = repo.settings.text(f"branch.{branch}.pushremote") or repo.settings.text(
        "remote.pushdefault"
    )
    if branch != where.branch or (elsewhere and elsewhere != where.name):
        return f"{branch} follows {where.label}, and Git would push it elsewhere"
    if store.files.store == TOP:
        return ""
    how = (
        "-z",
        "--name-only",
        "--no-renames",
        "--diff-merges=combined",
        "--format=%x01%H",
        "--reverse",
    )
    known = tip or f"--remotes={where.name}"
    told = repo.git.run("log", *how, head, "--not", known, limit=LONG).decode(
        "utf-8", "surrogateescape"
    )
    for one in told.split("\x01")[1:]:
        oid, *paths = (part.lstrip("\n") for part in one.split("\0"))
        if foreign := next((path for path in paths if path and not store.files.holds(path)), ""):
            return f"{oid[:10]} touches {foreign}, which is not of the memory"
    return ""


def _move(store: Store, new: str) -> None:
    """Let Git fast-forward branch, index and files to a commit; it does all of it or nothing."""
    try:
        store.repo.git.run(*_MOVE, "--quiet", new, limit=LONG, config=("submodule.recurse=false",))
    except GitError as error:
        if files := [row.strip() for row in error.stderr.splitlines() if row.startswith("\t")]:
            told = f"only fetched, because {_seen(store, files[0])} is in the way: not tracked, or not committed"
            raise _LeftError(told, "commit or move that, then sync again") from None
        raise


def _merged(store: Store, where: Remote, head: str, tip: str, done: Synced) -> tuple[str, Synced]:
    """Make a commit that merges the two sides, record by record."""
    repo, folder = store.repo, store.files.named(FORGOTTEN)
    tree, clashes = merged_tree(repo, head, tip, unrelated=store.files.store == TOP)
    marks = {
        path.removeprefix(f"{folder}/") for one in (head, tip) for path in repo.listing(one, folder)
    }
    hint = f"settle it with Git: {repo.git.places.by_hand} pull --no-rebase {where.name} {where.branch}"
    settled = {clash.path: _settled(store, clash, marks, hint) for clash in clashes}
    made = commit_files(
        repo, tree, settled, (head, tip), f"memory: merge {where.label}\n", store.clock()
    )
    merged, gone = [
        tuple(_seen(store, path) for path, data in settled.items() if (data is None) == lost)
        for lost in (False, True)
    ]
    return made, done._replace(merged=done.merged + merged, forgotten=done.forgotten + gone)


def _settled(store: Store, clash: Clash, marks: set[str], hint: str) -> bytes | None:
    """The merged bytes of a file that both sides changed; None if it was forgotten. Raises Conflict."""
    path, inside = _seen(store, clash.path), store.files.inside(clash.path)
    base, ours, theirs = (
        store.repo.blob(oid) if oid else None for oid in (clash.base, clash.ours, clash.theirs)
    )
    ids = {
        one.id
        for data in (base, ours, theirs)
        if data is not None and (one := parse(data, inside).record)
    }
    if not store.files.holds(clash.path):
        raise Conflict(f"{path}:1: both sides changed this file, which is not a record", hint)
    if ours is None or theirs is None:
        if any(mark_of(one) in marks for one in ids):
            return None  # forgetting wins
        raise Conflict(f"{path}:1: deleted or renamed on one side, changed on the other", hint)
    if base is None:
        raise Conflict(f"{path}:1: both sides added this file, with different content", hint)
    try:
        return merge(base, ours, theirs, inside)
    except Conflict as error:
        raise Conflict(error.message.replace(inside, path, 1), hint) from None


def _seen(store: Store, path: str) -> str:
    """A path of the records' repository, as shown to people."""
    return store.shown(store.files.inside(path)) if store.files.holds(path) else path
