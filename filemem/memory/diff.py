"""Compare the memory at two commits: the changed records, and the effects on other decisions.

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
    """One change to the memory."""

    kind: str  # one of KINDS
    id: str  # the record; "" for a topic that is `forked` or `orphaned`
    type: str
    topic: str
    title: str
    path: str
    details: tuple[str, ...] = ()  # phrases, such as what was revised
    others: tuple[NamedRecord, ...] = ()  # records replaced or replacing; heads of a topic


class Comparison(NamedTuple):
    """The changes from one commit to another."""

    base: Moment
    head: Moment
    start: str  # the commit that `head` is compared with
    effects: tuple[Effect, ...]  # in the order of KINDS


def compare_revisions(store: Store, text: str) -> Comparison:
    """Compare two commits of the memory.

    `BASE...HEAD` shows the changes of HEAD since it left BASE, `BASE..HEAD` all differences. Each
    side is a revision, a date or an age; the defaults are the default branch and what is checked
    out. If the memory has its own branch, `HEAD` on the right means that branch.

    Raises:
        BadInput: There is no default branch; or as `check_records`.
    """
    base, head, start = _resolve_range(store, validate_line("range", text).strip())
    start_moment = Moment(start, "", head.committed_at)
    with (
        closing(PastStore(store, read_commit(store, start), start_moment)) as before,
        closing(PastStore(store, read_commit(store, head.id), head)) as after,
    ):
        change = Change(before, after)
        effects = list(change.iter_effects())
        if base.id != start:
            with closing(PastStore(store, read_merge(store, base.id, head.id), head)) as merged:
                effects += _iter_later_forks(change, merged)
        hidden_titles = _read_hidden_titles((store, before, after))
    shown_effects = []
    for effect in _iter_visible(effects, hidden_titles):
        path = store.to_display_path(effect.path) if effect.path else ""
        shown_effects.append(effect._replace(path=path))
    shown_effects.sort(key=_get_kind_order)
    return Comparison(base=base, head=head, start=start, effects=tuple(shown_effects))


def _get_kind_order(effect: Effect) -> int:
    return KINDS.index(effect.kind)


def _read_hidden_titles(stores: Iterable[Store]) -> dict[str, str]:
    """Read the titles of the records that the reader may not see, by id."""
    titles = {}
    for store in stores:
        for node in store.index.read_nodes_by_field("id", store.barred_ids):
            titles[node.id] = node.title
    return titles


def _iter_visible(effects: Iterable[Effect], hidden_titles: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the effects that name no hidden record, without details that quote its title."""
    for effect in effects:
        ids = {other.id for other in effect.others}
        ids.add(effect.id)
        if not ids.isdisjoint(hidden_titles):
            continue
        titles = hidden_titles.values()
        details = [phrase for phrase in effect.details if not _has_title(phrase, titles)]
        yield effect._replace(details=tuple(details))


def _has_title(phrase: str, titles: Iterable[str]) -> bool:
    """Return whether a phrase about other records has one of these titles."""
    if not phrase.startswith(("would supersede ", "refers to ")):
        return False
    return any(title in phrase for title in titles)


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
        self._titles: dict[str, str] = {}
        self._collect_titles()

    def _collect_titles(self) -> None:
        """Collect the titles of the records concerned; newer titles replace older ones."""
        for chains in (self.old_chains, self.new_chains):
            for node in chains.nodes.values():
                self._titles[node.id] = node.title
        for records in (self._old_records, self._new_records):
            for parsed in records.values():
                if parsed.record:
                    self._titles[parsed.record.id] = parsed.record.title

    def iter_effects(self) -> Iterator[Effect]:
        """Yield the effects of the change, in no order."""
        yield from self._iter_record_effects()
        yield from self._iter_decision_effects()
        yield from self._iter_orphaned_effects()

    def _iter_record_effects(self) -> Iterator[Effect]:
        """Yield new, revised and removed records."""
        for record_id, parsed in self._new_records.items():
            if record_id in self._old_records:
                is_accepted = record_id in self._consequences.accepted_ids
                old_parsed = self._old_records[record_id]
                yield from self._iter_revised_effects(old_parsed, parsed, is_accepted)
            elif parsed.record:
                yield self._build_new_effect(parsed.record, parsed)
        for record_id, parsed in self._old_records.items():
            if record_id not in self._new_records and parsed.record:
                yield _build_effect(parsed.record, "removed")

    def _iter_decision_effects(self) -> Iterator[Effect]:
        """Yield the consequences for decisions and topics, changed or not."""
        consequences = self._consequences
        old_nodes = self.old_chains.nodes
        new_nodes = self.new_chains.nodes
        for node_id, successors in consequences.successors.items():
            others = self._list_named(successors)
            yield _build_effect(new_nodes[node_id], "superseded", others=others)
        for node_id in consequences.accepted_ids:
            phrase = f"status {old_nodes[node_id].status} -> {new_nodes[node_id].status}"
            yield _build_effect(new_nodes[node_id], "accepted", (phrase,))
        for key, heads in consequences.forks.items():
            yield _build_topic_effect(self.new_chains, "forked", heads, key)
        for key in consequences.headless_topics:
            if self.new_chains.graph.list_topic_heads(key):
                continue  # another topic continues it, as a "superseded" effect shows
            heads = self.old_chains.graph.get_chain(key).heads
            yield _build_topic_effect(self.old_chains, "orphaned", heads, key, _NOTHING)

    def _build_new_effect(self, record: Record, parsed: ParsedRecord) -> Effect:
        predecessors = self.new_chains.graph.list_predecessors(record.id)
        replaced = self._list_named(predecessors)
        is_decision = record.type == DECISION
        details = []
        if is_decision and record.status != "accepted":
            details.append(record.status)
        if replaced and record.status not in DEMOTING:
            titles = "; ".join(old.title for old in replaced)
            details.append(f"would supersede {titles}")
            replaced = ()
        if is_decision and record.text:
            words = query.extract_prose(record.text).split()
            details.append(f"why: {shorten_line(' '.join(words), _REASON)}")
        details += describe_damage((), parsed.problems)
        return _build_effect(record, "new", tuple(details), replaced)

    def _iter_revised_effects(
        self, before: ParsedRecord, after: ParsedRecord, is_accepted: bool
    ) -> Iterator[Effect]:
        if before.record is None or after.record is None:
            return
        outcomes = []
        revisions = []
        for phrase in describe_changes(before.record, after.record):
            if phrase.startswith("outcome "):
                outcomes.append(phrase)
            elif is_accepted and phrase.startswith("status "):
                continue  # the "accepted" effect shows it
            else:
                revisions.append(phrase)
        revisions += describe_damage(before.problems, after.problems)
        if outcomes:
            yield _build_effect(after.record, "outcome", tuple(outcomes))
        if revisions:
            yield _build_effect(after.record, "revised", tuple(revisions))

    def _iter_orphaned_effects(self) -> Iterator[Effect]:
        """Yield decisions that refer to removed records."""
        removed_ids = self._old_records.keys() - self._new_records.keys()
        dangling_ids = set(self._consequences.dangling)
        candidate_ids = self.ids | dangling_ids
        for node in self.before.index.read_nodes_by_field("ref", removed_ids):
            candidate_ids.add(node.id)
        for node in self.after.index.read_nodes_by_field("id", candidate_ids):
            if node.type != DECISION:
                continue
            removed = self._list_named(self._find_removed_targets(node, removed_ids))
            phrases = [f"refers to {record.title}, which is removed" for record in removed]
            if node.id in dangling_ids and not phrases:
                phrases = ["refers to a decision that is not there"]
            if phrases:
                yield _build_effect(node, "orphaned", tuple(phrases))

    def _find_removed_targets(self, node: Node, removed_ids: Collection[str]) -> list[str]:
        """Find the removed records to which a decision refers, each once."""
        if not removed_ids:
            return []
        targets: dict[str, None] = {}
        for reference in node.references:
            for target in self.before.index.read_nodes_by_name(reference):
                if target.id in removed_ids:
                    targets[target.id] = None
        return list(targets)

    def _list_named(self, ids: Iterable[str]) -> tuple[NamedRecord, ...]:
        """Return records by id with their titles, the current title if the record exists."""
        named_records = []
        for record_id in ids:
            title = self._titles.get(record_id, record_id)
            named_records.append(NamedRecord(record_id, title))
        return tuple(named_records)


def _find_changed_ids(before: PastStore, after: PastStore) -> set[str]:
    """Find the ids of the records with files or tombstones that differ."""
    differing_files = before.listing.items() ^ after.listing.items()
    paths = {path for path, _ in differing_files}
    changed_tombstones = before.past_tombstones ^ after.past_tombstones
    ids: set[str] = set()
    for side in (before, after):
        ids.update(node.id for node in side.index.read_nodes_by_field("path", paths))
        if not changed_tombstones:
            continue
        for node in side.index.read_nodes():
            if compute_tombstone(node.id) in changed_tombstones:
                ids.add(node.id)
    return ids


def _parse_records(side: PastStore, ids: Collection[str]) -> Mapping[str, ParsedRecord]:
    """Parse the records with these ids, by id."""
    nodes = side.index.read_nodes_by_field("id", ids)
    by_path = {node.path: node.id for node in nodes}
    parsed_files = side.parse_files(by_path)
    return {by_path[path]: parsed for path, parsed in parsed_files.items()}


def _find_chains(
    before: PastStore, after: PastStore, ids: Collection[str]
) -> tuple[ChainSet, ChainSet]:
    """Find the chains of some records in both states, each with the decisions of the other."""
    reached_ids = set(ids)
    while True:
        old = _read_chains(before, reached_ids)
        new = _read_chains(after, reached_ids)
        all_ids = reached_ids.union(old.nodes, new.nodes)
        if len(all_ids) == len(reached_ids):
            return old, new
        reached_ids = all_ids


def _read_chains(side: PastStore, ids: Collection[str]) -> ChainSet:
    nodes = side.index.read_nodes_by_field("id", ids)
    return side.index.read_chains(nodes)


class _Range(NamedTuple):
    """The two sides of a comparison, and the commit that `head` is compared with."""

    base: Moment
    head: Moment
    start: str


def _resolve_range(store: Store, text: str) -> _Range:
    """Resolve `BASE...HEAD` or `BASE..HEAD`.

    Raises:
        NotFound: Nothing is committed, or no such revision.
        Conflict: The sides have no common history.
    """
    is_direct = ".." in text and "..." not in text
    separator = ".." if is_direct else "..."
    left, _, right = text.partition(separator)
    tip = store.repo.read_head()
    if tip is None:
        message = "nothing is committed yet, so there is nothing to compare"
        raise NotFound(message, "the first save makes a commit")
    if right in ("", HEAD):
        head = read_moment(store, tip, store.branch or HEAD)
    else:
        head = resolve_moment(store, right, "range")
    base = resolve_moment(store, left, "range") if left else _resolve_default_branch(store, head)
    if is_direct:
        return _Range(base, head, start=base.id)
    merge_base = store.repo.find_merge_base(base.id, head.id)
    if not merge_base:
        raise _build_parted_error(store, base, head)
    return _Range(base, head, start=merge_base)


def _build_parted_error(store: Store, base: Moment, head: Moment) -> Conflict:
    message = (
        f"{base.name} and {head.name} have no history in common, "
        "so there is no point at which they parted"
    )
    hint = f"compare them as they are: filemem diff {base.name}..{head.name}"
    missing_history = store.repo.describe_missing_history()
    if missing_history:
        hint = f"{missing_history}; or {hint}"
    return Conflict(message, hint)


def _resolve_default_branch(store: Store, head: Moment) -> Moment:
    """Resolve the default branch; if `head` is that branch, the remote's version of it."""
    branch: Branch | None
    if store.repo is not store.code and store.branch:
        branch = Branch(store.branch, head.id)
    else:
        branch = store.repo.find_default_branch()
    if branch is None:
        raise BadInput(
            "there is no default branch to compare with: no origin/HEAD, main, master or trunk",
            _EXAMPLE,
        )
    # A new branch may point to the commit of the default branch, so the names count too.
    if (branch.name, branch.tip) != (head.name, head.id):
        return read_moment(store, branch.tip, branch.name)
    remote_tip = store.repo.resolve_revision(f"refs/remotes/origin/{branch.name}")
    if not remote_tip:
        raise BadInput(f"{branch.name} is the default branch: nothing to compare", _EXAMPLE)
    return read_moment(store, remote_tip, f"origin/{branch.name}")


def _iter_later_forks(change: Change, merged_store: PastStore) -> Iterator[Effect]:
    """Yield the topics that both sides decided, so that they fork when the branch is merged."""
    new_graph = change.new_chains.graph
    old_graph = change.old_chains.graph
    own_heads = set()
    for node_id in change.new_chains.nodes:
        if new_graph.is_head(node_id) and not old_graph.is_head(node_id):
            own_heads.add(node_id)
    ids = change.ids | _find_changed_ids(change.after, merged_store)
    branch_chains, merged_chains = _find_chains(change.after, merged_store, ids)
    consequences = compute_consequences(branch_chains.graph, merged_chains.graph)
    text = "when merged: the other side has decided it too"
    for key, heads in consequences.forks.items():
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
    states_topic = row.stated if isinstance(row, Node) else row.topic_stated
    topic = ""
    if row.type == DECISION and states_topic:
        topic = row.topic
    return Effect(
        kind=kind,
        id=row.id,
        type=row.type,
        topic=topic,
        title=row.title,
        path=row.path,
        details=details,
        others=others,
    )


def _build_topic_effect(
    chains: ChainSet, kind: str, heads: Sequence[str], key: str, detail: str = ""
) -> Effect:
    """Build the effect of a topic; `heads` are its live decisions, now or before."""
    others = []
    for node_id in heads:
        title = chains.nodes[node_id].title
        others.append(NamedRecord(node_id, title))
    topic = chains.nodes[heads[-1]].topic or key
    return Effect(
        kind=kind,
        id="",
        type=DECISION,
        topic=topic,
        title=topic,
        path="",
        details=(detail,) if detail else (),
        others=tuple(others),
    )
