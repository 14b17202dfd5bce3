"""Sharing a memory: bring here what others saved, put what was saved here on top of it, and hand that on.

Rule: only commits that touch nothing but the store are replayed and pushed; all others are the user's to push. Where
the user is in the middle of something it only fetches. What both sides changed is merged where that is plain (added
records, outcomes), and else refused with file and line, both sides left as they were.
"""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict, NotFound
from filemem.files import is_private
from filemem.memory import elsewhere, graph, home, phrases, refusing, settling, withdrawn
from filemem.memory.store import Store
from filemem.record import DECISION
from filemem.record.identity import PRIVATE
from filemem.repo import InTheWay, Raced, Remote, state

if TYPE_CHECKING:
    from filemem.repo.remote import Exchange, Tell
    from filemem.repo.replaying import Local
    from filemem.repo.sharing import Sharing

TRIES = 50  # of pushing; each loss means that somebody else has pushed
_OVER = "sync again when that is over"
_PAUSE = 0.3  # seconds between two tries, at most


class Synced(NamedTuple):
    """What a sync did.

    Args:
        remote: the branch on the other side, such as `origin/memory`.
        received: commits that came from there.
        sent: commits that went there.
        waiting: commits that are only here.
        merged: paths of records that both sides had changed.
        forgotten: paths of records that one side forgot while the other changed them.
        forked: topics on which several decisions hold at once, of those that it brought decisions on.
        left: why something is left to the user, or "".
        hint: what the user may do about it.
    """

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
        moves = [(self.received, "received"), (self.sent, "sent")]
        told = [f"{word} {count} commit{'s' if count > 1 else ''}" for count, word in moves if count]
        told += [f"merged {', '.join(self.merged)}"] if self.merged else []
        lost = "forgotten on one side, and what the other changed in it went with it"
        told += [f"{lost}: {', '.join(self.forgotten)}"] if self.forgotten else []
        told += [f"forked: {', '.join(self.forked)}"] if self.forked else []
        if self.left:
            told += [f"{self.waiting} not pushed"] if self.waiting else []
            return f"{self.remote}: {'; '.join([*told, self.left])}"
        return f"{self.remote}: {'; '.join(told) or 'nothing new on either side'}"


class _Here(NamedTuple):
    """The local half of one try.

    Args:
        push: what is to be pushed; "" for nothing.
        answer: the answer so far.
        again: whether HEAD moved meanwhile.
        forgotten: what one side forgot and the other changed, by path: how to see that, and to have it back.
    """

    push: str
    answer: Synced
    again: bool = False
    forgotten: Mapping[str, str] = MappingProxyType({})


def sync(store: Store, tell: Tell | None = None) -> Synced:
    """Fetch, replay on top what was saved here, push; again where somebody else was faster.

    Args:
        store: the parts.
        tell: told what Git says of its progress.

    Raises:
        NotFound: there is no other side, or the branch follows none there.
        Conflict: both sides changed the same lines (file:line); nothing is changed here or there.
        Locked: another sync does not end.
        BrokenStore: the other side cannot be reached, or refuses.
    """
    refusing.refuse_other(store)
    done = _synced(store, tell)
    branch = home.branch_of(store.code, store.config)
    if branch and branch == store.repo.branch():
        where = _where(store, store.repo.sharing)
        return done._replace(hint=done.hint or elsewhere.unnamed(store.code, where.name, branch))
    return done


def forks(store: Store, done: Synced, before: str | None) -> Synced:
    """Add to an answer which topics are forked now; the index knows already what came.

    Args:
        store: the parts.
        done: the answer.
        before: HEAD as it was.
    """
    head = store.repo.head()
    if not done.received or not before or not head:
        return done
    came = store.repo.sharing.changes(before, head, *_below(store))
    nodes = store.lookup("path", [store.files.inside(path) for path in came])
    resolved, _, _ = graph.neighbourhood(store, nodes)
    topics = {node.key: node.topic for node in nodes if node.type == DECISION and node.key}
    forked = tuple(sorted(topic for key, topic in topics.items() if resolved.chain(key).is_forked))
    hints = (done.hint, f"{forked[0]} is forked: {phrases.ending(forked[0])}" if forked else "")
    return done._replace(forked=forked, hint="; ".join(filter(None, hints)))


def _synced(store: Store, tell: Tell | None) -> Synced:
    saver, sharing = store.saver, store.repo.sharing
    with sharing.alone():
        with saver.exclusive():
            sharing.settle()
        saver.flush()
        saver.replay(thorough=False)
        where = _where(store, sharing)
        exchange = sharing.exchange(tell)
        received = 0
        merged: dict[str, None] = {}
        forgotten: dict[str, str] = {}
        for _ in range(TRIES):
            known, head = sharing.published(where), store.repo.head()
            tip = exchange.fetch(where, [one for one in (head, sharing.tracked(where)) if one])
            if tip:
                sharing.track(where, tip)
            with saver.exclusive():
                here = _bring(store, sharing, where, known, tip)
            received += here.answer.received
            merged |= dict.fromkeys(here.answer.merged)
            forgotten |= here.forgotten
            answer = here.answer._replace(received=received, merged=tuple(merged), forgotten=tuple(forgotten))
            answer = answer._replace(hint=answer.hint or "; ".join(forgotten.values()))
            if not here.again and not here.push:
                return answer
            if not here.again:
                try:
                    exchange.push(where, here.push)
                except Raced:
                    pass
                else:
                    answer = answer._replace(sent=answer.waiting, waiting=0)
                    if where.push_url != where.url and not _arrived(store, exchange, where, here.push):
                        left = f"not there for who fetches, because remote.{where.name}.pushurl leads elsewhere"
                        hint = f"{store.repo.places.by_hand} remote -v tells where; push to where it is fetched from"
                        return answer._replace(left=left, hint=hint)
                    sharing.track(where, here.push)
                    return answer
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - spreads competitors, nothing secret
    raise Conflict(f"{where.label} moves faster than it can be followed", "others push without a pause; try again")


def _arrived(store: Store, exchange: Exchange, where: Remote, commit: str) -> bool:
    """Whether the branch there has a commit that was pushed: two addresses may mean one repository, or two."""
    tip = exchange.fetch(where, (commit,))
    return tip is not None and store.repo.history.is_ancestor(commit, tip)


def _where(store: Store, sharing: Sharing) -> Remote:
    """The branch on the other side; a branch that is only a memory goes where its name says, where it follows none."""
    branch = store.repo.branch() or state.rebased(store.repo.git_dir)
    if not branch:
        switch = f"{store.repo.places.by_hand} switch {home.branch_of(store.code, store.config) or 'BRANCH'}"
        raise Conflict("HEAD is detached, so there is no branch to share", f"{switch}, then try again")
    where = sharing.upstream(branch)
    if where is None and store.files.store == home.TOP:
        where = sharing.usual(branch)
    if where is not None:
        return where
    call = store.repo.places.by_hand
    if not sharing.remotes:
        raise NotFound("this repository has no remote to share with", f"{call} remote add origin URL")
    name = "origin" if "origin" in sharing.remotes else sharing.remotes[0]
    raise NotFound(f"the branch {branch} follows none on another side", f"{call} push -u {name} {branch}")


def _bring(store: Store, sharing: Sharing, where: Remote, known: Sequence[str], tip: str | None) -> _Here:
    """Bring what was fetched into the branch, under the save lock; nothing is changed where something is in the way."""
    head, contains = store.repo.head(), store.repo.history.is_ancestor
    if head is None:
        left = "nothing is committed here yet" if tip else ""
        return _Here("", Synced(where.label, left=left, hint=f"{store.repo.places.by_hand} pull" if tip else ""))
    commits = sharing.unpublished(head, *known, tip or "")
    gone = _without(sharing.unpublished(head, tip), commits) if tip else ()
    behind, removed = tip is not None and (bool(gone) or not contains(tip, head)), tip is None and bool(known)
    answer = Synced(where.label, waiting=len(commits))
    reason = store.repo.state(time.time())
    if not reason and not behind and not commits and not removed:
        file = sharing.unsettled(store.files.store)
        left = f"{settling.seen(store, file)} has changes that are not committed, so nobody gets them" if file else ""
        return _Here("", answer._replace(left=left, hint="commit that, then sync again" if file else ""))
    lost, way = _rewritten(store, where, gone, commits, tip, head) if tip and behind else ("", "")
    reason, hint = (reason, _OVER) if reason else _in_the_way(store, sharing, way, _pull(store, where))
    if reason:
        left = "; ".join(filter(None, (f"only fetched, because {reason}", lost)))
        return _Here("", answer._replace(left=left, hint=hint))
    apart, push = sharing.pushed_elsewhere(store.repo.branch() or "", where) if commits else ("", "")
    if apart:
        hint = f"{store.repo.places.by_hand} {push}"
        return _Here("", answer._replace(left=f"left to you, because {apart}", hint=hint))
    if lost:
        return _Here("", answer._replace(left=f"left to you, because {lost}", hint=way))
    if told := _foreign(store, commits, replaying=behind and bool(commits)):
        pull = _pull(store, where) if behind else f"{store.repo.places.by_hand} push"
        return _Here("", answer._replace(left=f"left to you, because {told}", hint=pull))
    if removed:
        left = "left to you, because it is not there any more: merged, or removed"
        hint = f"{store.repo.places.by_hand} push -u {where.name} HEAD:{where.branch} makes it anew"
        return _Here("", answer._replace(left=left, hint=hint))
    if not behind or tip is None:
        return _Here(head, answer)
    forgotten: dict[str, str] = {}
    settle = settling.of(store, tip, head, forgotten, f"settle it with Git: {_pull(store, where)}")
    brought = sharing.replay(commits, tip, head, store.clock(), settle)
    _refuse_private(store, sharing.changes(head, brought.tip, *_below(store)))
    received = sharing.count(tip, head)
    try:
        if not sharing.advance(head, brought.tip):
            return _Here("", answer, again=True)
    except InTheWay as error:
        raise InTheWay(error.path, settling.seen(store, error.path)) from None
    waiting = sharing.count(brought.tip, tip)
    merged = tuple(store.shown(store.files.inside(path)) for path in brought.merged)
    answer = answer._replace(received=received, waiting=waiting, merged=merged)
    return _Here(brought.tip if waiting else "", answer, forgotten=forgotten)


def _below(store: Store) -> tuple[str, ...]:
    """The paths that the store is limited to: none where it is all of its work tree."""
    return () if store.files.store == home.TOP else (store.files.store,)


def _refuse_private(store: Store, paths: Sequence[str]) -> None:
    """Refuse what would be written where private records are, which stand nowhere else."""
    where = shlex.quote(f":/{store.files.named(PRIVATE)}")
    for path in paths:
        if is_private(store.files.inside(path)):
            raise Conflict(
                f"{settling.seen(store, path)} came from the other side, and lies where private records are",
                f"have it removed there, in a work tree of {store.branch}: git rm -r --cached {where}, commit and push",
            )


def _without(commits: Sequence[Local], others: Sequence[Local]) -> tuple[Local, ...]:
    known = {one.id for one in others}
    return tuple(commit for commit in commits if commit.id not in known)


def _rewritten(
    store: Store, where: Remote, gone: Sequence[Local], local: Sequence[Local], tip: str, head: str
) -> tuple[str, str]:
    """What would be lost by going along with what the branch on the other side has become, and what to do about it."""
    sharing = store.repo.sharing
    related = bool(sharing.fork_point(head, tip))
    here, there = store.repo.places.by_hand, f"{where.name} HEAD:{where.branch}"
    rebase, push = f"{here} rebase {where.label}", f"{here} push"
    back = f"{rebase} && {push} {there}" if related else f"{push} --force-with-lease {there}"
    hint = f"to put it back there: {back}; to go along with it here: {here} rebase --fork-point {where.label}"
    apart = "what is there has no history in common with this branch, and"
    if gone and (names := withdrawn.told(store, gone, local, sharing.unpublished(tip, head), tip)):
        return f"{'commits were taken back there, and with them' if related else f'{apart} is without'} {names}", hint
    if told := _foreign(store, gone, replaying=False):
        return f"commits were taken back there, and {told}", hint
    if not related and store.files.store == home.TOP and not home.is_memory(store.repo, tip):
        return f"{apart} is no memory", hint
    return "", ""


def _pull(store: Store, where: Remote) -> str:
    """The command that puts what is here on top of what is there, also where the branch follows none."""
    return f"{store.repo.places.by_hand} pull --rebase {where.name} {where.branch}"


def _in_the_way(store: Store, sharing: Sharing, way: str, pull: str) -> tuple[str, str]:
    """What keeps the work tree from being taken along, and what to do about it: a lock, programs, edits; or "".

    Args:
        store, sharing: the parts.
        way: what to do instead of a pull, which would drop records without a word.
        pull: the command for one.
    """
    if lock := store.repo.leftovers.in_the_way():
        return lock, "if no Git command is running there, one was interrupted: remove that file, then sync again"
    if programs := sharing.own_programs:
        return f"Git would run {programs[0]}, which only the repository's own configuration names", way or pull
    if file := sharing.unsettled():
        hint = f"commit or stash that, then sync again{'' if way else f'; or {pull} --autostash'}"
        return f"{settling.seen(store, file)} has changes that are not committed", hint
    return "", ""


def _foreign(store: Store, commits: Sequence[Local], *, replaying: bool) -> str:
    """The first commit that touches more than the store, in words, or ""."""
    for commit in commits:
        if commit.parents > 1 and (replaying or store.files.store != home.TOP):
            return f"{commit.id[:10]} is a merge"
        for row in commit.touched:
            outside = next((path for path in (row.before, row.path) if not store.files.holds(path)), "")
            if outside:
                return f"{commit.id[:10]} touches {outside}, which is not of the memory"
    return ""
