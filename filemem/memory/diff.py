"""What a branch does to the memory: the records that it touched, and what follows from them for all others.

Rule: two snapshots of commits are compared, never the work tree, and records are paired by id, so that renames, rebases
and squash merges change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from filemem.chain import DEMOTING
from filemem.chain.compare import Consequences, consequences
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.memory.fields import line
from filemem.memory.snapshot import Moment, Snapshot, committed, moment, of_commit, of_merge
from filemem.memory.store import Store
from filemem.record import DECISION, Record, cut, prose
from filemem.record.compare import changes, damage
from filemem.repo import branches

HEAD = "HEAD"
# As shown, in this order.
KINDS = ("forked", "new", "accepted", "superseded", "outcome", "revised", "removed", "revived", "joined", "orphaned")
_REASON = 160  # characters of a reason that are quoted
_OUTCOME, _STATUS = "outcome ", "status "  # how phrases on them begin
_NOTHING = "nothing holds on this topic any more"
_EXAMPLE = "for example filemem diff v1.2...HEAD, or filemem diff 2w"


class Named(NamedTuple):
    """A record by id, with its title."""

    id: str
    title: str


class Effect(NamedTuple):
    """One thing that a branch does to the memory."""

    kind: str  # one of KINDS
    id: str  # the record; for a topic that is `forked`, `joined` or left by all, only its name
    type: str
    topic: str
    title: str
    path: str
    details: tuple[str, ...] = ()  # phrases: what was revised, what is left hanging
    others: tuple[Named, ...] = ()  # what it replaces, or what replaced it; of a topic what holds, or held


class Comparison(NamedTuple):
    """What a branch does to the memory."""

    base: Moment  # the two sides
    head: Moment
    parted: str  # the commit from which on the second is told
    effects: tuple[Effect, ...]  # in the order of KINDS


def compare(store: Store, text: str) -> Comparison:
    """Say what one side of a range does to the memory.

    Args:
        store: the parts.
        text: `BASE...HEAD` for what HEAD did since the two parted, `BASE..HEAD` for the difference of the two, `BASE`
            for `BASE...HEAD`; each a revision, a date or an age, and left out the default branch, or what is checked
            out. Where the memory has a branch of its own, `HEAD` on the right means that branch.

    Raises:
        BadInput: there is no default branch to compare with.
        NotFound: an unknown revision; says what was probably meant.
        Conflict: the two have no history in common.
        BrokenStore: the repository lacks versions of records, or Git is too old to merge.
    """
    if why := store.unfilled:
        raise BrokenStore(why)
    base, head, parted = _range(store, line("range", text).strip())
    before = of_commit(store, parted)
    after = of_commit(store, head.id, beside=before)
    found = [*effects(before, after)]
    if base.id != parted and of_commit(store, base.id).files != before.files:
        found += _later_forks(before, after, of_merge(store, base.id, head.id, beside=after))
    shown = (one._replace(path=store.shown(one.path) if one.path else "") for one in found)
    return Comparison(base, head, parted, tuple(sorted(shown, key=lambda one: KINDS.index(one.kind))))


def effects(before: Snapshot, after: Snapshot) -> Iterator[Effect]:
    """Say what leads from one snapshot to the other."""
    follows = consequences(before.graph, after.graph)
    for one in after.by_id.values():
        if one.id not in before.by_id:
            yield _new(one, before, after)
        elif before.by_id[one.id] is not one:
            yield from _revised(before.by_id[one.id], one, before, after, one.id in follows.accepted)
    for one in before.by_id.values():
        if one.id not in after.by_id:
            yield _of(one, "removed")
    yield from _following(before, after, follows)
    yield from _hanging(before, after, follows)


def _range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which on the second is told; "" for the time before the first."""
    direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if direct else "...")
    tip = store.repo.head()
    if tip is None:
        raise NotFound("nothing is committed yet, so there is nothing to compare", "the first save makes a commit")
    here = Moment(tip, store.branch or HEAD, committed(store.repo, tip))
    head = here if right in ("", HEAD) else moment(store, right, "range")
    base = moment(store, left, "range", begins=True) if left else _default(store, head)
    if direct or not base.id:
        return base, head, base.id
    parted = branches.parted(store.repo, base.id, head.id)
    if not parted:
        told = f"{base.name} and {head.name} have no history in common, so there is no point at which they parted"
        hint = f"compare them as they are: filemem diff {base.name}..{head.name}"
        raise Conflict(told, "; or ".join(filter(None, (store.repo.incomplete(), hint))))
    return base, head, parted


def _default(store: Store, head: Moment) -> Moment:
    """The default branch; where `head` is just that, what the remote has of it, which may be nothing yet."""
    own = store.repo is not store.code and bool(store.branch)
    found = branches.Branch(store.branch, head.id) if own else branches.default_branch(store.repo)
    if found is None:
        raise BadInput("there is no default branch to compare with: no origin/HEAD, main, master or trunk", _EXAMPLE)
    if (found.name, found.tip) != (head.name, head.id):  # a branch that has nothing yet of its own is another
        return Moment(found.tip, found.name, committed(store.repo, found.tip))
    there = branches.tip_of(store.repo, f"refs/remotes/{branches.ORIGIN}/{found.name}")
    if not there and own:
        return Moment("", f"nothing (never synced with {branches.ORIGIN})", 0)
    if not there or (there == head.id and not own):
        raise BadInput(f"{found.name} is the default branch itself: there is nothing to compare it with", _EXAMPLE)
    return Moment(there, f"{branches.ORIGIN}/{found.name}", committed(store.repo, there))


def _new(one: Record, before: Snapshot, after: Snapshot) -> Effect:
    """A record that was not there: its status, what it replaces, and the beginning of its reason."""
    replaced = _named(after.graph.predecessors(one.id), after, before)
    decision = one.type == DECISION
    details = [one.status] if decision and one.status != "accepted" else []
    if replaced and one.status not in DEMOTING:
        details.append(f"would supersede {'; '.join(old.title for old in replaced)}")
        replaced = ()
    reason = cut(" ".join(prose(one.text).split()), _REASON) if decision else ""
    lost = damage((), after.parsed[one.path].problems)
    return _of(one, "new", (*details, *([f"why: {reason}"] if reason else ()), *lost), replaced)


def _revised(was: Record, now: Record, before: Snapshot, after: Snapshot, accepted: bool) -> Iterator[Effect]:
    """What came of a record, and what else its file says otherwise; that it was accepted is another effect."""
    if (was.path, before.files[was.path]) == (now.path, after.files[now.path]):
        return
    broken = damage(before.parsed[was.path].problems, after.parsed[now.path].problems)
    phrases = [one for one in changes(was, now) if not (accepted and one.startswith(_STATUS))]
    outcomes = tuple(one for one in phrases if one.startswith(_OUTCOME))
    others = tuple(one for one in (*phrases, *broken) if one not in outcomes)
    if outcomes:
        yield _of(now, "outcome", outcomes)
    if others:
        yield _of(now, "revised", others)


def _following(before: Snapshot, after: Snapshot, follows: Consequences) -> Iterator[Effect]:
    """What follows for decisions, touched or not."""
    for one, successors in follows.superseded.items():
        yield _of(after.by_id[one], "superseded", (), _named(successors, after))
    for one in follows.accepted:
        yield _of(after.by_id[one], "accepted", (f"{_STATUS}{before.by_id[one].status} -> {after.by_id[one].status}",))
    for one in follows.revived:
        yield _of(after.by_id[one], "revived")
    for key, heads in follows.forked.items():
        yield _topic(after, "forked", heads, key)
    for key, heads in follows.joined.items():
        yield _topic(after, "joined", heads, key)
    for key in follows.headless:
        if not after.graph.holding(key):  # else it went on elsewhere, as what was superseded says
            yield _topic(before, "orphaned", before.graph.chain(key).heads, key, _NOTHING)


def _hanging(before: Snapshot, after: Snapshot, follows: Consequences) -> Iterator[Effect]:
    """Decisions that refer to what is not there any more."""
    for node in after.nodes.values():
        gone = [before.resolve(to) for to in node.references if to not in after.by_id]
        lost = _named([one for one in dict.fromkeys(gone) if one and one not in after.by_id], before)
        phrases = tuple(f"refers to {one.title}, which is removed" for one in lost)
        if phrases or node.id in follows.hanging:
            yield _of(after.by_id[node.id], "orphaned", phrases or ("refers to a decision that is not there",))


def _later_forks(before: Snapshot, after: Snapshot, merged: Snapshot) -> Iterator[Effect]:
    """Topics that both sides decided: they fork when the branch is merged."""
    ours = {one for one in after.nodes if after.graph.is_head(one) and not before.graph.is_head(one)}
    for key, heads in consequences(after.graph, merged.graph).forked.items():
        if not ours.isdisjoint(heads) and not after.graph.chain(key).is_forked:  # else it is shown already
            yield _topic(merged, "forked", heads, key, "when merged: the other side has decided it too")


def _named(ids: Iterable[str], *states: Snapshot) -> tuple[Named, ...]:
    """The titles of records by id, from the first state that has them."""
    return tuple(Named(one, next((at.by_id[one].title for at in states if one in at.by_id), one)) for one in ids)


def _of(one: Record, kind: str, details: tuple[str, ...] = (), others: tuple[Named, ...] = ()) -> Effect:
    topic = one.topic if one.type == DECISION and one.topic_stated else ""
    return Effect(kind, one.id, one.type, topic, one.title, one.path, details, others)


def _topic(state: Snapshot, kind: str, heads: Sequence[str], key: str, *details: str) -> Effect:
    topic = state.by_id[heads[-1]].topic or key
    return Effect(kind, "", DECISION, topic, topic, "", details, _named(heads, state))
