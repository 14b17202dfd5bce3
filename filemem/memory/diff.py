"""What a branch changes in the memory: the records that it touched, and what follows for others.

Rule: two commits are compared, never the work tree. Records are paired by id, so that renames, rebases and squash
merges change nothing. Only records that differ are read, and the chains that they belong to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from filemem import query
from filemem.chain import DEMOTING
from filemem.chain.compare import consequences
from filemem.errors import BadInput, Conflict, NotFound
from filemem.index import Around, Node
from filemem.memory.fields import line
from filemem.memory.snapshot import Moment, PastStore, moment, moment_of, of_commit, of_merge
from filemem.memory.store import Store, mark_of
from filemem.record import DECISION, Parsed, Record, cut
from filemem.record.compare import changes, damage
from filemem.repo import Branch

HEAD = "HEAD"
# As shown, in this order.
KINDS = ("forked", "new", "accepted", "superseded", "outcome", "revised", "removed", "orphaned")
_REASON = 160  # characters of a reason that are quoted
_NOTHING = "nothing holds on this topic any more"
_EXAMPLE = "for example filemem diff v1.2...HEAD, or filemem diff 2w"


class Named(NamedTuple):
    """A record by id, with its title."""

    id: str
    title: str


class Effect(NamedTuple):
    """One change that a branch makes to the memory."""

    kind: str  # one of KINDS
    id: str  # the record; for a topic that is `forked` or left by all, only its name
    type: str
    topic: str
    title: str
    path: str
    details: tuple[str, ...] = ()  # phrases: what was revised, what is left hanging
    others: tuple[
        Named, ...
    ] = ()  # what it replaces, or what replaced it; of a topic what holds, or held


class Comparison(NamedTuple):
    """The changes that a branch makes to the memory."""

    base: Moment  # the two sides
    head: Moment
    parted: str  # the commit from which on the second is told
    effects: tuple[Effect, ...]  # in the order of KINDS


def compare(store: Store, text: str) -> Comparison:
    """Compare two sides: `BASE...HEAD` shows HEAD since it left BASE, `BASE..HEAD` the two as they are.

    Each side is a revision, a date or an age; the defaults are the default branch and what is checked out. If the
    memory has its own branch, `HEAD` on the right means that branch. Raises BadInput if there is no default branch;
    else as `check`.
    """
    base, head, parted = _range(store, line("range", text).strip())
    past = PastStore(store, of_commit(store, parted), Moment(parted, "", head.at))
    with (
        closing(past) as before,
        closing(PastStore(store, of_commit(store, head.id), head)) as after,
    ):
        change = Change(before, after)
        found = [*change.effects()]
        if base.id != parted:
            with closing(PastStore(store, of_merge(store, base.id, head.id), head)) as merged:
                found += _later_forks(change, merged)
        closed = {
            node.id: node.title
            for side in (store, before, after)
            for node in side.index.lookup("id", side.barred)
        }
    shown = (
        effect._replace(path=store.display_path(effect.path) if effect.path else "")
        for effect in _visible(found, closed)
    )
    return Comparison(
        base, head, parted, tuple(sorted(shown, key=lambda one: KINDS.index(one.kind)))
    )


def _visible(effects: Iterable[Effect], closed: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the effects that name no record of `closed`, the titles by id of what is not shown."""
    for effect in effects:
        if closed.keys().isdisjoint((effect.id, *(other.id for other in effect.others))):
            phrases = (words for words in effect.details if not _names(words, closed.values()))
            yield effect._replace(details=tuple(phrases))


def _names(phrase: str, titles: Iterable[str]) -> bool:
    """Whether a phrase about other records names one of these."""
    return phrase.startswith(("would supersede ", "refers to ")) and any(
        title in phrase for title in titles
    )


class Change:
    """The difference between two states of the memory."""

    def __init__(self, before: PastStore, after: PastStore) -> None:
        self.ids = _touched(before, after)
        self.was, self.now = _parsed(before, self.ids), _parsed(after, self.ids)
        self.old, self.new = _around(before, after, self.ids)
        self.before, self.after = before, after
        self._follows = consequences(self.old.graph, self.new.graph)
        nodes = (*self.old.nodes.values(), *self.new.nodes.values())
        read = [
            parsed.record for parsed in (*self.was.values(), *self.now.values()) if parsed.record
        ]
        self._titles = {one.id: one.title for one in nodes} | {one.id: one.title for one in read}

    def effects(self) -> Iterator[Effect]:  # noqa: C901
        """Yield the effects of the change, in no order."""
        for one, parsed in self.now.items():
            if one in self.was:
                yield from self._revised(self.was[one], parsed, one in self._follows.accepted)
            elif parsed.record:
                yield self._new(parsed.record, parsed)
        for one, parsed in self.was.items():
            if one not in self.now and parsed.record:
                yield _of(parsed.record, "removed")
        follows, was, now = (
            self._follows,
            self.old.nodes,
            self.new.nodes,
        )  # for decisions, touched or not
        for one, successors in follows.superseded.items():
            yield _of(now[one], "superseded", (), self._named(successors))
        for one in follows.accepted:
            yield _of(now[one], "accepted", (f"status {was[one].status} -> {now[one].status}",))
        for key, heads in follows.forked.items():
            yield _topic(self.new, "forked", heads, key)
        for key in follows.headless:
            if not self.new.graph.holding(
                key
            ):  # else it went on elsewhere, as what was superseded says
                yield _topic(self.old, "orphaned", self.old.graph.chain(key).heads, key, _NOTHING)
        yield from self._hanging()

    def _new(self, one: Record, parsed: Parsed) -> Effect:
        replaced = self._named(self.new.graph.predecessors(one.id))
        decision = one.type == DECISION
        details = [one.status] if decision and one.status != "accepted" else []
        if replaced and one.status not in DEMOTING:
            details.append(f"would supersede {'; '.join(old.title for old in replaced)}")
            replaced = ()
        if decision and one.text:
            details.append(f"why: {cut(' '.join(query.prose(one.text).split()), _REASON)}")
        return _of(one, "new", (*details, *damage((), parsed.problems)), replaced)

    def _revised(self, before: Parsed, after: Parsed, accepted: bool) -> Iterator[Effect]:
        was, now = before.record, after.record
        if was is None or now is None:
            return
        phrases = [one for one in changes(was, now) if not (accepted and one.startswith("status "))]
        outcomes = tuple(one for one in phrases if one.startswith("outcome "))
        others = (
            *(one for one in phrases if one not in outcomes),
            *damage(before.problems, after.problems),
        )
        yield from (
            _of(now, kind, told)
            for kind, told in (("outcome", outcomes), ("revised", others))
            if told
        )

    def _hanging(self) -> Iterator[Effect]:
        """Decisions that refer to records that no longer exist."""
        gone = self.was.keys() - self.now.keys()
        referring = (
            {node.id for node in self.before.index.lookup("ref", gone)}
            | self.ids
            | set(self._follows.hanging)
        )
        for node in self.after.index.lookup("id", referring):
            if node.type != DECISION:
                continue
            meant = (
                [one.id for to in node.references for one in self.before.index.answering(to)]
                if gone
                else []
            )
            lost = self._named([one for one in dict.fromkeys(meant) if one in gone])
            phrases = tuple(f"refers to {one.title}, which is removed" for one in lost)
            if phrases or node.id in self._follows.hanging:
                yield _of(node, "orphaned", phrases or ("refers to a decision that is not there",))

    def _named(self, ids: Iterable[str]) -> tuple[Named, ...]:
        """The titles of records by id, the present one if the record still exists."""
        return tuple(Named(one, self._titles.get(one, one)) for one in ids)


def _touched(before: PastStore, after: PastStore) -> set[str]:
    """The ids of the records whose files differ."""
    was, now = before.listing, after.listing
    paths = [path for path in was.keys() | now.keys() if was.get(path) != now.get(path)]
    ids = {node.id for side in (before, after) for node in side.index.lookup("path", paths)}
    if turned := before.forgotten ^ after.forgotten:
        ids |= {
            node.id
            for side in (before, after)
            for node in side.index.nodes()
            if mark_of(node.id) in turned
        }
    return ids


def _parsed(side: PastStore, ids: Collection[str]) -> Mapping[str, Parsed]:
    """Records as parsed, by id."""
    paths = {node.path: node.id for node in side.index.lookup("id", ids)}
    return {paths[path]: one for path, one in side.parsed(paths).items()}


def _around(before: PastStore, after: PastStore, ids: Collection[str]) -> tuple[Around, Around]:
    """The chains of some records in both states, with the same decisions in both as far as they exist."""
    reached = set(ids)
    while True:
        old, new = (side.index.around(side.index.lookup("id", reached)) for side in (before, after))
        if (more := reached.union(old.nodes, new.nodes)) == reached:
            return old, new
        reached = more


def _range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which the second counts."""
    direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if direct else "...")
    if (tip := store.repo.head()) is None:
        raise NotFound(
            "nothing is committed yet, so there is nothing to compare",
            "the first save makes a commit",
        )
    here = right in ("", HEAD)
    head = moment_of(store, tip, store.branch or HEAD) if here else moment(store, right, "range")
    base = moment(store, left, "range") if left else _default(store, head)
    if direct:
        return base, head, base.id
    if parted := store.repo.parted(base.id, head.id):
        return base, head, parted
    told = f"{base.name} and {head.name} have no history in common, so there is no point at which they parted"
    hint = f"compare them as they are: filemem diff {base.name}..{head.name}"
    raise Conflict(told, "; or ".join(filter(None, (store.repo.incomplete(), hint))))


def _default(store: Store, head: Moment) -> Moment:
    """The default branch; if `head` is that branch, the remote's version of it."""
    own = store.repo is not store.code and bool(store.branch)
    found = Branch(store.branch, head.id) if own else store.repo.default_branch()
    if found is None:
        raise BadInput(
            "there is no default branch to compare with: no origin/HEAD, main, master or trunk",
            _EXAMPLE,
        )
    if (found.name, found.tip) != (
        head.name,
        head.id,
    ):  # a branch that has nothing yet of its own is another
        return moment_of(store, found.tip, found.name)
    if there := store.repo.resolve(f"refs/remotes/origin/{found.name}"):
        return moment_of(store, there, f"origin/{found.name}")
    raise BadInput(f"{found.name} is the default branch: nothing to compare", _EXAMPLE)


def _later_forks(change: Change, merged: PastStore) -> Iterator[Effect]:
    """Topics that both sides decided: they fork when the branch is merged."""
    new, graph = change.new, change.old.graph
    ours = {one for one in new.nodes if new.graph.is_head(one) and not graph.is_head(one)}
    here, there = _around(change.after, merged, change.ids | _touched(change.after, merged))
    for key, heads in consequences(here.graph, there.graph).forked.items():
        if (
            not ours.isdisjoint(heads) and not here.graph.chain(key).is_forked
        ):  # else it is shown already
            yield _topic(
                there, "forked", heads, key, "when merged: the other side has decided it too"
            )


def _of(
    one: Record | Node, kind: str, details: tuple[str, ...] = (), others: tuple[Named, ...] = ()
) -> Effect:
    stated = one.stated if isinstance(one, Node) else one.topic_stated
    topic = one.topic if one.type == DECISION and stated else ""
    return Effect(kind, one.id, one.type, topic, one.title, one.path, details, others)


def _topic(state: Around, kind: str, heads: Sequence[str], key: str, *details: str) -> Effect:
    named = tuple(Named(one, state.nodes[one].title) for one in heads)
    topic = state.nodes[heads[-1]].topic or key
    return Effect(kind, "", DECISION, topic, topic, "", details, named)
