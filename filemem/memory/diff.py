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
from filemem.chain.compare import compute_consequences
from filemem.errors import BadInput, Conflict, NotFound
from filemem.index import ChainSet, Node
from filemem.memory.fields import validate_line
from filemem.memory.snapshot import (
    Moment,
    PastStore,
    read_commit,
    read_merge,
    read_moment,
    resolve_moment,
)
from filemem.memory.store import Store, compute_tombstone
from filemem.record import DECISION, ParsedRecord, Record, shorten_line
from filemem.record.compare import describe_changes, describe_damage
from filemem.repo import Branch

HEAD = "HEAD"
# As shown, in this order.
KINDS = ("forked", "new", "accepted", "superseded", "outcome", "revised", "removed", "orphaned")
_REASON = 160  # characters of a reason that are quoted
_NOTHING = "nothing holds on this topic any more"
_EXAMPLE = "for example filemem diff v1.2...HEAD, or filemem diff 2w"


class NamedRecord(NamedTuple):
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
        NamedRecord, ...
    ] = ()  # what it replaces or what replaced it; of a topic, what holds


class Comparison(NamedTuple):
    """The changes that a branch makes to the memory."""

    base: Moment  # the two sides
    head: Moment
    start: str  # the commit from which on the second is told
    effects: tuple[Effect, ...]  # in the order of KINDS


def compare_revisions(store: Store, text: str) -> Comparison:
    """Compare two sides of the memory's history.

    `BASE...HEAD` shows HEAD since it left BASE, `BASE..HEAD` the two as they are. Each side is a
    revision, a date or an age; the defaults are the default branch and what is checked out. If the
    memory has its own branch, `HEAD` on the right means that branch. Raises BadInput if there is no
    default branch; else as `check`.
    """
    base, head, start = _resolve_range(store, validate_line("range", text).strip())
    past = PastStore(store, read_commit(store, start), Moment(start, "", head.committed_at))
    with (
        closing(past) as before,
        closing(PastStore(store, read_commit(store, head.id), head)) as after,
    ):
        change = Change(before, after)
        effects = [*change.iter_effects()]
        if base.id != start:
            with closing(PastStore(store, read_merge(store, base.id, head.id), head)) as merged:
                effects += _iter_later_forks(change, merged)
        hidden: dict[str, str] = {}
        for side in (store, before, after):
            nodes = side.index.read_nodes_by_field("id", side.barred_ids)
            hidden |= {node.id: node.title for node in nodes}
    visible = sorted(_iter_visible(effects, hidden), key=lambda effect: KINDS.index(effect.kind))
    return Comparison(
        base, head, start, tuple(_add_display_path(store, effect) for effect in visible)
    )


def _add_display_path(store: Store, effect: Effect) -> Effect:
    """An effect with its path as people see it."""
    return effect._replace(path=store.to_display_path(effect.path)) if effect.path else effect


def _iter_visible(effects: Iterable[Effect], hidden: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the effects that name no record of `hidden`, the titles by id of what is not shown."""
    for effect in effects:
        if hidden.keys().isdisjoint((effect.id, *(other.id for other in effect.others))):
            phrases = (words for words in effect.details if not _has_title(words, hidden.values()))
            yield effect._replace(details=tuple(phrases))


def _has_title(phrase: str, titles: Iterable[str]) -> bool:
    """True if a phrase about other records names one of these."""
    about_others = phrase.startswith(("would supersede ", "refers to "))
    return about_others and any(title in phrase for title in titles)


class Change:
    """The difference between two states of the memory."""

    def __init__(self, before: PastStore, after: PastStore) -> None:
        self.before = before
        self.after = after
        self.ids = _find_changed_ids(before, after)
        self.old_chains, self.new_chains = _find_chains(before, after, self.ids)
        self._old_records = _parse_records(before, self.ids)
        self._new_records = _parse_records(after, self.ids)
        self._consequences = compute_consequences(self.old_chains.graph, self.new_chains.graph)
        nodes = (*self.old_chains.nodes.values(), *self.new_chains.nodes.values())
        self._titles = {node.id: node.title for node in nodes}
        for parsed in (*self._old_records.values(), *self._new_records.values()):
            if parsed.record:
                self._titles[parsed.record.id] = parsed.record.title

    def iter_effects(self) -> Iterator[Effect]:
        """Yield the effects of the change, in no order."""
        yield from self._iter_record_effects()
        yield from self._iter_decision_effects()
        yield from self._iter_orphaned_effects()

    def _iter_record_effects(self) -> Iterator[Effect]:
        """What became of the records that were touched."""
        for id_, parsed in self._new_records.items():
            if id_ in self._old_records:
                accepted = id_ in self._consequences.accepted_ids
                yield from self._iter_revised_effects(self._old_records[id_], parsed, accepted)
            elif parsed.record:
                yield self._build_new_effect(parsed.record, parsed)
        for id_, parsed in self._old_records.items():
            if id_ not in self._new_records and parsed.record:
                yield _build_effect(parsed.record, "removed")

    def _iter_decision_effects(self) -> Iterator[Effect]:
        """What follows for decisions and topics, touched or not."""
        found_consequences = self._consequences
        old_nodes = self.old_chains.nodes
        new_nodes = self.new_chains.nodes
        for id_, successors in found_consequences.successors.items():
            yield _build_effect(new_nodes[id_], "superseded", (), self._list_named(successors))
        for id_ in found_consequences.accepted_ids:
            yield _build_effect(
                new_nodes[id_],
                "accepted",
                (f"status {old_nodes[id_].status} -> {new_nodes[id_].status}",),
            )
        for key, heads in found_consequences.forks.items():
            yield _build_topic_effect(self.new_chains, "forked", heads, key)
        for key in found_consequences.headless_topics:
            if not self.new_chains.graph.list_topic_heads(
                key
            ):  # else it went on, as what was superseded says
                heads = self.old_chains.graph.get_chain(key).heads
                yield _build_topic_effect(self.old_chains, "orphaned", heads, key, _NOTHING)

    def _build_new_effect(self, record: Record, parsed: ParsedRecord) -> Effect:
        replaced = self._list_named(self.new_chains.graph.list_predecessors(record.id))
        is_decision = record.type == DECISION
        details = [record.status] if is_decision and record.status != "accepted" else []
        if replaced and record.status not in DEMOTING:
            details.append(f"would supersede {'; '.join(old.title for old in replaced)}")
            replaced = ()
        if is_decision and record.text:
            details.append(
                f"why: {shorten_line(' '.join(query.extract_prose(record.text).split()), _REASON)}"
            )
        return _build_effect(
            record, "new", (*details, *describe_damage((), parsed.problems)), replaced
        )

    def _iter_revised_effects(
        self, before: ParsedRecord, after: ParsedRecord, is_accepted: bool
    ) -> Iterator[Effect]:
        old_record = before.record
        new_record = after.record
        if old_record is None or new_record is None:
            return
        phrases = describe_changes(old_record, new_record)
        if is_accepted:  # which is an effect of its own
            phrases = tuple(phrase for phrase in phrases if not phrase.startswith("status "))
        outcomes = [phrase for phrase in phrases if phrase.startswith("outcome ")]
        revised = [phrase for phrase in phrases if phrase not in outcomes]
        revised += describe_damage(before.problems, after.problems)
        if outcomes:
            yield _build_effect(new_record, "outcome", tuple(outcomes))
        if revised:
            yield _build_effect(new_record, "revised", tuple(revised))

    def _iter_orphaned_effects(self) -> Iterator[Effect]:
        """Decisions that refer to records that no longer exist."""
        removed_ids = self._old_records.keys() - self._new_records.keys()
        hanging_ids = set(self._consequences.dangling)
        referring_ids = {
            node.id for node in self.before.index.read_nodes_by_field("ref", removed_ids)
        }
        for node in self.after.index.read_nodes_by_field(
            "id", referring_ids | self.ids | hanging_ids
        ):
            if node.type != DECISION:
                continue
            removed = self._list_named(self._find_removed_targets(node, removed_ids))
            phrases = [f"refers to {record.title}, which is removed" for record in removed]
            if node.id in hanging_ids and not phrases:
                phrases = ["refers to a decision that is not there"]
            if phrases:
                yield _build_effect(node, "orphaned", tuple(phrases))

    def _find_removed_targets(self, node: Node, removed_ids: Collection[str]) -> Iterable[str]:
        """The ids of what a decision refers to, of those that are gone."""
        if not removed_ids:
            return ()
        answers = map(self.before.index.read_nodes_by_name, node.references)
        ids = (target.id for targets in answers for target in targets)
        return dict.fromkeys(id_ for id_ in ids if id_ in removed_ids)

    def _list_named(self, ids: Iterable[str]) -> tuple[NamedRecord, ...]:
        """The titles of records by id, the present one if the record still exists."""
        return tuple(NamedRecord(id_, self._titles.get(id_, id_)) for id_ in ids)


def _find_changed_ids(before: PastStore, after: PastStore) -> set[str]:
    """The ids of the records whose files differ."""
    differing = before.listing.items() ^ after.listing.items()
    paths = {path for path, _ in differing}
    changed_marks = before.past_tombstones ^ after.past_tombstones
    ids: set[str] = set()
    for side in (before, after):
        ids |= {node.id for node in side.index.read_nodes_by_field("path", paths)}
        if changed_marks:
            ids |= {
                node.id
                for node in side.index.read_nodes()
                if compute_tombstone(node.id) in changed_marks
            }
    return ids


def _parse_records(side: PastStore, ids: Collection[str]) -> Mapping[str, ParsedRecord]:
    """Records as parsed, by id."""
    by_path = {node.path: node.id for node in side.index.read_nodes_by_field("id", ids)}
    return {by_path[path]: parsed for path, parsed in side.parse_files(by_path).items()}


def _find_chains(
    before: PastStore, after: PastStore, ids: Collection[str]
) -> tuple[ChainSet, ChainSet]:
    """The chains of some records in both states, of the same decisions as far as they exist."""
    reached_ids = set(ids)
    while True:
        old, new = (
            side.index.read_chains(side.index.read_nodes_by_field("id", reached_ids))
            for side in (before, after)
        )
        if reached_ids.issuperset((*old.nodes, *new.nodes)):
            return old, new
        reached_ids.update(old.nodes, new.nodes)


def _resolve_range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which the second counts."""
    is_direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if is_direct else "...")
    tip = store.repo.read_head()
    if tip is None:
        message = "nothing is committed yet, so there is nothing to compare"
        raise NotFound(message, "the first save makes a commit")
    is_head = right in ("", HEAD)
    head = (
        read_moment(store, tip, store.branch or HEAD)
        if is_head
        else resolve_moment(store, right, "range")
    )
    base = resolve_moment(store, left, "range") if left else _resolve_default_branch(store, head)
    start = base.id if is_direct else store.repo.find_merge_base(base.id, head.id)
    if not start:
        hint = f"compare them as they are: filemem diff {base.name}..{head.name}"
        raise Conflict(
            f"{base.name} and {head.name} have no history in common, "
            "so there is no point at which they parted",
            "; or ".join(filter(None, (store.repo.describe_missing_history(), hint))),
        )
    return base, head, start


def _resolve_default_branch(store: Store, head: Moment) -> Moment:
    """The default branch; if `head` is that branch, the remote's version of it."""
    has_own_branch = store.repo is not store.code and bool(store.branch)
    branch = Branch(store.branch, head.id) if has_own_branch else store.repo.find_default_branch()
    if branch is None:
        raise BadInput(
            "there is no default branch to compare with: no origin/HEAD, main, master or trunk",
            _EXAMPLE,
        )
    if (branch.name, branch.tip) != (head.name, head.id):  # a branch without commits is another
        return read_moment(store, branch.tip, branch.name)
    remote_tip = store.repo.resolve_revision(f"refs/remotes/origin/{branch.name}")
    if not remote_tip:
        raise BadInput(f"{branch.name} is the default branch: nothing to compare", _EXAMPLE)
    return read_moment(store, remote_tip, f"origin/{branch.name}")


def _iter_later_forks(change: Change, merged_store: PastStore) -> Iterator[Effect]:
    """Topics that both sides decided: they fork when the branch is merged."""
    new = change.new_chains.graph
    old = change.old_chains.graph
    own_heads = {
        id_ for id_ in change.new_chains.nodes if new.is_head(id_) and not old.is_head(id_)
    }
    ids = change.ids | _find_changed_ids(change.after, merged_store)
    branch_chains, merged_chains = _find_chains(change.after, merged_store, ids)
    text = "when merged: the other side has decided it too"
    for key, heads in compute_consequences(branch_chains.graph, merged_chains.graph).forks.items():
        if branch_chains.graph.get_chain(key).is_forked:  # it is shown already
            continue
        if not own_heads.isdisjoint(heads):
            yield _build_topic_effect(merged_chains, "forked", heads, key, text)


def _build_effect(
    row: Record | Node,
    kind: str,
    details: tuple[str, ...] = (),
    others: tuple[NamedRecord, ...] = (),
) -> Effect:
    stated = row.stated if isinstance(row, Node) else row.topic_stated
    topic = row.topic if row.type == DECISION and stated else ""
    return Effect(kind, row.id, row.type, topic, row.title, row.path, details, others)


def _build_topic_effect(
    state: ChainSet, kind: str, heads: Sequence[str], key: str, *details: str
) -> Effect:
    named = tuple(NamedRecord(id_, state.nodes[id_].title) for id_ in heads)
    topic = state.nodes[heads[-1]].topic or key
    return Effect(kind, "", DECISION, topic, topic, "", details, named)
