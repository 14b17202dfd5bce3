"""What a branch does to the memory: the records that it touches, and what follows from them for all others.

Rule: commits are compared, never the work tree, and by what their files say, so that rebases and squash merges change
nothing. The index only says which records belong together; where a commit differs from it, Git's objects are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from filemem.chain import DEMOTING
from filemem.chain.comparing import Consequences, consequences
from filemem.documents import Node
from filemem.errors import BadInput, Conflict, NotFound
from filemem.memory import arguments, graph, moments, obstacles
from filemem.memory.differing import rows_of
from filemem.memory.states import State, States
from filemem.memory.store import Store
from filemem.memory.values import KINDS, Comparison, Effect, Named
from filemem.record import DECISION, Record, cut, prose
from filemem.record.revising import damage, revised
from filemem.repo.branches import REMOTE, tip_of
from filemem.repo.log import Row
from filemem.repo.revisions import Moment

HEAD = "HEAD"
_REASON = 160  # characters of a reason that are quoted
OUTCOME, STATUS = "outcome ", "status "  # how phrases on them begin


def compare(store: Store, text: str) -> Comparison:
    """Say what one side of a range does to the memory.

    Args:
        store: the parts.
        text: `BASE...HEAD` for what HEAD did since the two parted, `BASE..HEAD` for the difference of the two, `BASE`
            for `BASE...HEAD`; each a revision or a date, and left out the default branch, or what is checked out. Where
            the memory has a branch of its own, `HEAD` on the right means that, as it stands.

    Raises:
        BadInput: there is no default branch to compare with.
        NotFound: an unknown revision; says what was probably meant.
        Conflict: the two have no history in common.
        BrokenStore: the memory is a submodule that is not here.
    """
    obstacles.refuse_unfilled(obstacles.unfilled(store))
    base, head, parted = _range(store, arguments.line("range", text).strip())
    rows = rows_of(store, parted, head.commit)
    states = States(store, parted, head, base, rows)
    before, after = states.before, states.after
    follows = consequences(before.graph, after.graph)
    effects = [*_touched(before, after, rows), *_follow(before, after, follows), *_hanging(before, after, follows)]
    effects += _later_forks(states, follows)
    effects = _said_once(effects)
    told = (one._replace(path=store.shown(one.path) if one.path else "") for one in effects)
    return Comparison(base, head, parted, tuple(sorted(told, key=lambda one: KINDS.index(one.kind))))


def _said_once(effects: Sequence[Effect]) -> list[Effect]:
    """The same where a status that lets a decision hold is told as that, and not as a revision besides."""
    revised = {one.id: one.details for one in effects if one.kind == "revised"}
    accepted = {one.id for one in effects if one.kind == "accepted"}

    def told(one: Effect) -> Effect:
        if one.id not in accepted or one.kind not in ("accepted", "revised"):
            return one
        wanted = one.kind == "accepted"
        details = revised.get(one.id, ())
        return one._replace(details=tuple(each for each in details if each.startswith(STATUS) == wanted))

    return [one for one in map(told, effects) if one.kind != "revised" or one.details]


def _range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which on the second is told."""
    direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if direct else "...")
    if not store.repo.tip() and store.repo.head() is None:
        raise NotFound("nothing is committed yet, so there is nothing to compare", "the first save makes a commit")
    if right in ("", HEAD) and (tip := store.repo.tip() or store.repo.head()):
        head = Moment(store.branch or HEAD, tip, store.repo.revisions.time_of(tip))
    else:
        head = moments.find(store, right or HEAD, "range")
    base = moments.find(store, left, "range", begins=True) if left else _default(store, head)
    if direct or base.commit == store.repo.nothing:
        return base, head, base.commit
    parted = store.repo.revisions.base(base.commit, head.commit)
    if not parted:
        shallow = "history is shallow: git fetch --unshallow; or " if store.history.boundary() else ""
        raise Conflict(
            f"{base.name} and {head.name} have no history in common, so there is no point at which they parted",
            f"{shallow}compare them as they are: filemem diff {base.name}..{head.name}",
        )
    return base, head, parted


def _default(store: Store, head: Moment) -> Moment:
    """The default branch; where `head` names just that, what the remote has of it, which may be nothing yet."""
    found = store.standings.default()
    example = "for example filemem diff v1.2...HEAD, or filemem diff 2w"
    if found is None:
        raise BadInput("there is no default branch to compare with: no origin/HEAD, main, master or trunk", example)
    if (found.name, found.tip) != (head.name, head.commit):  # a branch that has nothing yet of its own is another
        return Moment(found.name, found.tip, store.repo.revisions.time_of(found.tip))
    there = tip_of(store.repo.common_dir, f"refs/remotes/{REMOTE}/{found.name}")
    own = store.repo is not store.code
    if not there and own:
        why = f"never synced with {REMOTE}" if REMOTE in store.repo.sharing.remotes else f"there is no {REMOTE} yet"
        return Moment(f"nothing ({why})", store.repo.nothing, 0)
    if not there or (there == head.commit and not own):
        raise BadInput(f"{found.name} is the default branch itself: there is nothing to compare it with", example)
    return Moment(f"{REMOTE}/{found.name}", there, store.repo.revisions.time_of(there))


def _touched(before: State, after: State, rows: Iterable[Row]) -> Iterator[Effect]:
    """What a branch did to the records that it touched: new, revised, removed; by id, wherever their files went."""
    was = {one.id: one for row in rows if (one := before.records.get(row.before)) and row.status != "A"}
    now = {one.id: one for row in rows if (one := after.records.get(row.path)) and row.status != "D"}
    for one in now.values():
        if one.id in was:
            yield from _revisions(was[one.id], one, before, after)
        else:
            replaced = after.named(after.graph.predecessors(one.id), before)
            details = [one.status] if one.type == DECISION and one.status != "accepted" else []
            if replaced and one.status not in DEMOTING:
                details += [f"would supersede {'; '.join(old.title for old in replaced)}"]
                replaced = ()
            lost = damage((), after.problems.get(one.path, ()))
            yield _effect("new", one, (*details, *_why(one), *_keeper(one, after), *lost), replaced)
    for one in was.values():
        if one.id not in now:
            yield _effect("removed", one)


def _revisions(was: Record, now: Record, before: State, after: State) -> Iterator[Effect]:
    problems = before.problems.get(was.path, ()), after.problems.get(now.path, ())
    phrases = revised(was, now, damage(*problems))
    outcomes = tuple(one for one in phrases if one.startswith(OUTCOME))
    others = tuple(one for one in phrases if one not in outcomes)
    if outcomes:
        yield _effect("outcome", now, outcomes)
    if others:
        yield _effect("revised", now, others)


def _why(one: Record) -> tuple[str, ...]:
    """The beginning of what a decision gives as its reason: a reviewer asks for it first."""
    reason = cut(" ".join(prose(one.text).split()), _REASON) if one.type == DECISION else ""
    return (f"why: {reason}",) if reason else ()


def _keeper(one: Record, after: State) -> tuple[str, ...]:
    """Whose id a file states that is not known by it."""
    stated = after.stated[one.path].id
    if stated == one.id or not one.id_stated:
        return ()
    keeper = next((node.title for node in after.lookup({"id": {stated}}) if node.id == stated), stated)
    return (f"states the id of {keeper}, which keeps it",)


def _follow(before: State, after: State, follows: Consequences) -> Iterator[Effect]:
    """What follows for decisions, touched or not."""
    for one, successors in follows.superseded.items():
        yield _of(after.nodes[one], "superseded", (), after.named(successors))
    for one in follows.accepted:
        yield _of(after.nodes[one], "accepted")
    for one in follows.revived:
        yield _of(after.nodes[one], "revived")
    for key, heads in follows.forked.items():
        yield _on_topic(after, "forked", key, heads)
    for key, heads in follows.narrowed.items():
        yield _on_topic(after, "narrowed", key, heads, f"{len(before.graph.chain(key).heads)} held at once before")
    for key, heads in follows.joined.items():
        yield _on_topic(after, "joined", key, heads)
    for key in follows.headless:
        if not after.graph.holding(key):  # else it went on elsewhere, as what was superseded says
            yield from _headless(before, after, key)


def _headless(before: State, after: State, key: str) -> Iterator[Effect]:
    """What held on a topic where nothing does any more; the topic itself where none of that is there on it now."""
    phrase = "nothing holds on this topic any more"
    held = before.graph.chain(key).heads
    there = [one for one in held if after.graph.topic_of(one) == key]
    for one in there:
        proposed = graph.only_proposed(after.graph, after.nodes, one)
        yield _of(after.nodes[one], "orphaned", (phrase, proposed) if proposed else (phrase,))
    if not there:
        yield _on_topic(before, "orphaned", key, held, phrase)


def _later_forks(states: States, follows: Consequences) -> list[Effect]:
    """Topics that both sides decided: they fork when the branch is merged."""
    if states.merged is None:
        return []
    found = consequences(states.after.graph, states.merged.graph).forked
    theirs = {node.key for node in states.merged.files.values()}
    return [
        _on_topic(states.merged, "forked", key, heads, "when merged: the other side has decided it too")
        for key, heads in found.items()
        if key in theirs and key not in follows.forked and _ours(states, heads)
    ]


def _ours(states: States, heads: Iterable[str]) -> bool:
    """Whether the branch itself brought one of these heads; else the fork is the other side's alone."""
    known = states.before.graph.nodes
    return any(one not in known or not states.before.graph.is_head(one) for one in heads if one in states.after.nodes)


def _hanging(before: State, after: State, follows: Consequences) -> Iterator[Effect]:
    """Decisions that refer to what is not there any more."""
    removed = {node.id: node for node in before.files.values()}
    removed = {one: node for one, node in removed.items() if one not in {n.id for n in after.files.values()}}
    told: dict[str, list[str]] = {one: ["refers to a decision that is not there"] for one in follows.hanging}
    for node in after.lookup({"ref": set(removed)}) if removed else ():
        links = [("supersedes", one) for one in node.supersedes or ()] + [(kind, to) for kind, to, _ in node.edges]
        phrases = [f"{kind} {removed[to].title}, which is removed" for kind, to in links if to in removed]
        if phrases:
            told[node.id] = phrases
            after.nodes.setdefault(node.id, node)
    for one, phrases in told.items():
        yield _of(after.nodes[one], "orphaned", tuple(phrases))


def _effect(kind: str, one: Record, details: tuple[str, ...] = (), others: tuple[Named, ...] = ()) -> Effect:
    topic = one.topic if one.type == DECISION and one.topic_stated else ""
    return Effect(kind, one.id, one.type, topic, one.title, one.path, details, others)


def _of(node: Node, kind: str, details: tuple[str, ...] = (), others: tuple[Named, ...] = ()) -> Effect:
    topic = node.topic if node.stated else ""
    return Effect(kind, node.id, node.type, topic, node.title, node.path, details, others)


def _on_topic(state: State, kind: str, key: str, heads: Sequence[str], *details: str) -> Effect:
    last = state.nodes[heads[-1]]
    return Effect(kind, "", DECISION, last.topic, last.topic or key, "", details, state.named(heads))
