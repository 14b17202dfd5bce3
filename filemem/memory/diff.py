"""What a branch changes in the memory: the records that it touched, and what follows for others.

Rule: two commits are compared, never the work tree. Records are paired by id, so that renames,
rebases and squash merges change nothing. Only records that differ are read, and the chains that
they belong to.
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
    others: tuple[Named, ...] = ()  # what it replaces or what replaced it; of a topic, what holds


class Comparison(NamedTuple):
    """The changes that a branch makes to the memory."""

    base: Moment  # the two sides
    head: Moment
    parted: str  # the commit from which on the second is told
    effects: tuple[Effect, ...]  # in the order of KINDS


def compare(store: Store, text: str) -> Comparison:
    """Compare two sides of the memory's history.

    `BASE...HEAD` shows HEAD since it left BASE, `BASE..HEAD` the two as they are. Each side is a
    revision, a date or an age; the defaults are the default branch and what is checked out. If the
    memory has its own branch, `HEAD` on the right means that branch. Raises BadInput if there is no
    default branch; else as `check`.
    """
    base, head, parted = _range(store, line("range", text).strip())
    past = PastStore(store, of_commit(store, parted), Moment(parted, "", head.at))
    with (
        closing(past) as before,
        closing(PastStore(store, of_commit(store, head.id), head)) as after,
    ):
        change = Change(before, after)
        effects = [*change.effects()]
        if base.id != parted:
            with closing(PastStore(store, of_merge(store, base.id, head.id), head)) as merged:
                effects += _later_forks(change, merged)
        hidden: dict[str, str] = {}
        for side in (store, before, after):
            nodes = side.index.lookup("id", side.barred)
            hidden |= {node.id: node.title for node in nodes}
    visible = sorted(_visible(effects, hidden), key=lambda effect: KINDS.index(effect.kind))
    return Comparison(base, head, parted, tuple(_with_path(store, effect) for effect in visible))


def _with_path(store: Store, effect: Effect) -> Effect:
    """An effect with its path as people see it."""
    return effect._replace(path=store.display_path(effect.path)) if effect.path else effect


def _visible(effects: Iterable[Effect], hidden: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the effects that name no record of `hidden`, the titles by id of what is not shown."""
    for effect in effects:
        if hidden.keys().isdisjoint((effect.id, *(other.id for other in effect.others))):
            phrases = (words for words in effect.details if not _names(words, hidden.values()))
            yield effect._replace(details=tuple(phrases))


def _names(phrase: str, titles: Iterable[str]) -> bool:
    """True if a phrase about other records names one of these."""
    about_others = phrase.startswith(("would supersede ", "refers to "))
    return about_others and any(title in phrase for title in titles)


class Change:
    """The difference between two states of the memory."""

    def __init__(self, before: PastStore, after: PastStore) -> None:
        self.before = before
        self.after = after
        self.ids = _touched(before, after)
        self.old, self.new = _around(before, after, self.ids)
        self._was = _parsed(before, self.ids)
        self._now = _parsed(after, self.ids)
        self._follows = consequences(self.old.graph, self.new.graph)
        nodes = (*self.old.nodes.values(), *self.new.nodes.values())
        self._titles = {node.id: node.title for node in nodes}
        for parsed in (*self._was.values(), *self._now.values()):
            if parsed.record:
                self._titles[parsed.record.id] = parsed.record.title

    def effects(self) -> Iterator[Effect]:
        """Yield the effects of the change, in no order."""
        yield from self._of_records()
        yield from self._of_decisions()
        yield from self._hanging()

    def _of_records(self) -> Iterator[Effect]:
        """What became of the records that were touched."""
        for id_, parsed in self._now.items():
            if id_ in self._was:
                accepted = id_ in self._follows.accepted
                yield from self._revised(self._was[id_], parsed, accepted)
            elif parsed.record:
                yield self._new(parsed.record, parsed)
        for id_, parsed in self._was.items():
            if id_ not in self._now and parsed.record:
                yield _of(parsed.record, "removed")

    def _of_decisions(self) -> Iterator[Effect]:
        """What follows for decisions and topics, touched or not."""
        follows = self._follows
        was = self.old.nodes
        now = self.new.nodes
        for id_, successors in follows.superseded.items():
            yield _of(now[id_], "superseded", (), self._named(successors))
        for id_ in follows.accepted:
            yield _of(now[id_], "accepted", (f"status {was[id_].status} -> {now[id_].status}",))
        for key, heads in follows.forked.items():
            yield _topic(self.new, "forked", heads, key)
        for key in follows.headless:
            if not self.new.graph.holding(key):  # else it went on, as what was superseded says
                heads = self.old.graph.chain(key).heads
                yield _topic(self.old, "orphaned", heads, key, _NOTHING)

    def _new(self, record: Record, parsed: Parsed) -> Effect:
        replaced = self._named(self.new.graph.predecessors(record.id))
        decision = record.type == DECISION
        details = [record.status] if decision and record.status != "accepted" else []
        if replaced and record.status not in DEMOTING:
            details.append(f"would supersede {'; '.join(old.title for old in replaced)}")
            replaced = ()
        if decision and record.text:
            details.append(f"why: {cut(' '.join(query.prose(record.text).split()), _REASON)}")
        return _of(record, "new", (*details, *damage((), parsed.problems)), replaced)

    def _revised(self, before: Parsed, after: Parsed, accepted: bool) -> Iterator[Effect]:
        was = before.record
        now = after.record
        if was is None or now is None:
            return
        phrases = changes(was, now)
        if accepted:  # which is an effect of its own
            phrases = tuple(phrase for phrase in phrases if not phrase.startswith("status "))
        outcomes = [phrase for phrase in phrases if phrase.startswith("outcome ")]
        revised = [phrase for phrase in phrases if phrase not in outcomes]
        revised += damage(before.problems, after.problems)
        if outcomes:
            yield _of(now, "outcome", tuple(outcomes))
        if revised:
            yield _of(now, "revised", tuple(revised))

    def _hanging(self) -> Iterator[Effect]:
        """Decisions that refer to records that no longer exist."""
        gone = self._was.keys() - self._now.keys()
        hanging = set(self._follows.hanging)
        referring = {node.id for node in self.before.index.lookup("ref", gone)}
        for node in self.after.index.lookup("id", referring | self.ids | hanging):
            if node.type != DECISION:
                continue
            removed = self._named(self._removed_targets(node, gone))
            phrases = [f"refers to {record.title}, which is removed" for record in removed]
            if node.id in hanging and not phrases:
                phrases = ["refers to a decision that is not there"]
            if phrases:
                yield _of(node, "orphaned", tuple(phrases))

    def _removed_targets(self, node: Node, gone: Collection[str]) -> Iterable[str]:
        """The ids of what a decision refers to, of those that are gone."""
        if not gone:
            return ()
        answers = map(self.before.index.answering, node.references)
        ids = (target.id for targets in answers for target in targets)
        return dict.fromkeys(id_ for id_ in ids if id_ in gone)

    def _named(self, ids: Iterable[str]) -> tuple[Named, ...]:
        """The titles of records by id, the present one if the record still exists."""
        return tuple(Named(id_, self._titles.get(id_, id_)) for id_ in ids)


def _touched(before: PastStore, after: PastStore) -> set[str]:
    """The ids of the records whose files differ."""
    differing = before.listing.items() ^ after.listing.items()
    paths = {path for path, _ in differing}
    turned = before.forgotten ^ after.forgotten
    ids: set[str] = set()
    for side in (before, after):
        ids |= {node.id for node in side.index.lookup("path", paths)}
        if turned:
            ids |= {node.id for node in side.index.nodes() if mark_of(node.id) in turned}
    return ids


def _parsed(side: PastStore, ids: Collection[str]) -> Mapping[str, Parsed]:
    """Records as parsed, by id."""
    by_path = {node.path: node.id for node in side.index.lookup("id", ids)}
    return {by_path[path]: parsed for path, parsed in side.parsed(by_path).items()}


def _around(before: PastStore, after: PastStore, ids: Collection[str]) -> tuple[Around, Around]:
    """The chains of some records in both states, of the same decisions as far as they exist."""
    reached = set(ids)
    while True:
        old, new = (side.index.around(side.index.lookup("id", reached)) for side in (before, after))
        if reached.issuperset((*old.nodes, *new.nodes)):
            return old, new
        reached.update(old.nodes, new.nodes)


def _range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which the second counts."""
    direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if direct else "...")
    tip = store.repo.head()
    if tip is None:
        message = "nothing is committed yet, so there is nothing to compare"
        raise NotFound(message, "the first save makes a commit")
    here = right in ("", HEAD)
    head = moment_of(store, tip, store.branch or HEAD) if here else moment(store, right, "range")
    base = moment(store, left, "range") if left else _default(store, head)
    parted = base.id if direct else store.repo.parted(base.id, head.id)
    if not parted:
        hint = f"compare them as they are: filemem diff {base.name}..{head.name}"
        raise Conflict(
            f"{base.name} and {head.name} have no history in common, "
            "so there is no point at which they parted",
            "; or ".join(filter(None, (store.repo.incomplete(), hint))),
        )
    return base, head, parted


def _default(store: Store, head: Moment) -> Moment:
    """The default branch; if `head` is that branch, the remote's version of it."""
    own = store.repo is not store.code and bool(store.branch)
    branch = Branch(store.branch, head.id) if own else store.repo.default_branch()
    if branch is None:
        raise BadInput(
            "there is no default branch to compare with: no origin/HEAD, main, master or trunk",
            _EXAMPLE,
        )
    if (branch.name, branch.tip) != (head.name, head.id):  # a branch without commits is another
        return moment_of(store, branch.tip, branch.name)
    remote_tip = store.repo.resolve(f"refs/remotes/origin/{branch.name}")
    if not remote_tip:
        raise BadInput(f"{branch.name} is the default branch: nothing to compare", _EXAMPLE)
    return moment_of(store, remote_tip, f"origin/{branch.name}")


def _later_forks(change: Change, merged: PastStore) -> Iterator[Effect]:
    """Topics that both sides decided: they fork when the branch is merged."""
    new = change.new.graph
    old = change.old.graph
    ours = {id_ for id_ in change.new.nodes if new.is_head(id_) and not old.is_head(id_)}
    ids = change.ids | _touched(change.after, merged)
    here, there = _around(change.after, merged, ids)
    text = "when merged: the other side has decided it too"
    for key, heads in consequences(here.graph, there.graph).forked.items():
        if here.graph.chain(key).is_forked:  # it is shown already
            continue
        if not ours.isdisjoint(heads):
            yield _topic(there, "forked", heads, key, text)


def _of(
    row: Record | Node, kind: str, details: tuple[str, ...] = (), others: tuple[Named, ...] = ()
) -> Effect:
    stated = row.stated if isinstance(row, Node) else row.topic_stated
    topic = row.topic if row.type == DECISION and stated else ""
    return Effect(kind, row.id, row.type, topic, row.title, row.path, details, others)


def _topic(state: Around, kind: str, heads: Sequence[str], key: str, *details: str) -> Effect:
    named = tuple(Named(id_, state.nodes[id_].title) for id_ in heads)
    topic = state.nodes[heads[-1]].topic or key
    return Effect(kind, "", DECISION, topic, topic, "", details, named)
