"""Answers in time order: how a topic was decided, all topics, what was saved around a moment.

Identity and order come from the files, so that squash merges and rebases break no chain; commits
only add who, when and which edit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple

from filemem.chain import Family
from filemem.errors import BadInput
from filemem.index import ChainSet, Node
from filemem.memory import fields, search
from filemem.memory.evidence import Testimony
from filemem.memory.hits import build_hits, exclude_barred, format_vacancy
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Results
from filemem.record import (
    CHECKPOINT,
    DECISION,
    ParsedRecord,
    build_topic_key,
    parse_adr_number,
    parse_time,
    shorten_id,
)
from filemem.record.compare import FORM_CHANGED, describe_changes, describe_damage
from filemem.repo.history import Touch

MAX_CHECKPOINTS = 50  # checkpoints that are searched for one of this author


class Revision(NamedTuple):
    """One edit of a record, or its move to another path."""

    commit: str  # full id; empty for an edit that is not committed
    author: str  # as the commit says
    agent: str
    at: int  # epoch milliseconds
    subject: str
    changes: tuple[str, ...] = ()  # in phrases such as `status accepted -> deprecated`


class Step(NamedTuple):
    """One decision in the history of a topic."""

    hit: Hit  # the current file, with its successors and evidence of its outcome
    supersedes: tuple[str, ...] = ()  # ids, oldest first
    implied: bool = False  # its predecessor is not stated
    foreign: bool = False  # it belongs to another topic of the chain
    revisions: tuple[Revision, ...] = ()  # edits in place, oldest first, uncommitted ones last


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and its live decisions."""

    topic: str
    heads: tuple[str, ...]  # live decisions, of other topics if this one has none
    chain: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # what is missing from the history, and why
    forked: bool = False  # several decisions are live on the topic
    vacancy: str = ""  # why no decision is live


class Topics(NamedTuple):
    """A page of the list of topics."""

    topics: tuple[Topic, ...]
    total: int  # number of topics without a limit


class Topic(NamedTuple):
    """A topic with its live decisions."""

    topic: str  # its name, or a heading if no decision states one
    decisions: int  # number of decisions
    heads: tuple[str, ...]  # ids of live decisions, of other topics if this one has none
    title: str  # of the newest live decision
    latest: int  # when the last decision was made, epoch milliseconds
    stated: bool = True  # whether decisions name the topic; else only links join them
    forked: bool = False  # several decisions are live on the topic
    vacancy: str = ""  # why no decision is live
    number: int | None = None  # ADR number in the file name of the live decision
    path: str = ""  # of the file whose heading is the topic, if no decision states it


def build_history(store: Store, topic_or_id: str) -> History:
    """Return how a topic was decided, or the chain of a decision.

    Args:
        store: the memory.
        topic_or_id: a topic, or a decision by id, path, title, number or file name.

    Raises:
        NotFound: nothing has that name; the hint names similar ones.
        BadInput: the record is not a decision.
    """
    key = build_topic_key(topic_or_id)
    start_nodes = _list_topic_nodes(store, key)
    if not start_nodes:
        decision = _require_decision(store, topic_or_id)
        start_nodes = [decision]
        key = decision.key
    chain_set = store.index.read_chains(start_nodes)
    graph = chain_set.graph
    barred_ids = store.barred_ids
    members = graph.list_family(start_nodes[0].id)
    heads = graph.list_topic_heads(key) if key else graph.merge_heads(members)
    nodes = [chain_set.nodes[id_] for id_ in graph.list_linked(members)]
    last_node = chain_set.nodes[members[-1]]
    missing_history = store.repo.describe_missing_history()
    return History(
        topic=last_node.topic if key else start_nodes[0].topic,
        heads=exclude_barred(barred_ids, heads),
        chain=tuple(_list_steps(store, chain_set, nodes, key)),
        notes=(missing_history,) if missing_history else (),
        forked=graph.get_chain(key).is_forked,
        vacancy="" if heads else _explain_vacancy(chain_set, last_node, barred_ids),
    )


def _list_topic_nodes(store: Store, key: str) -> list[Node]:
    if not key:
        return []
    nodes = store.exclude_barred(store.index.read_nodes_by_field("topic", [key]))
    return [node for node in nodes if node.key]


def _require_decision(store: Store, reference: str) -> Node:
    node = store.require_node(reference)
    if node.type != DECISION:
        article = fields.add_article(node.type)
        message = f"{node.id} is {article}; only decisions have a history of supersession"
        raise BadInput(message, field="topic")
    return node


def _explain_vacancy(chain_set: ChainSet, last_node: Node, barred_ids: Collection[str]) -> str:
    """Say that no decision is live on a topic, and what is proposed."""
    hidden_ids = (*barred_ids, last_node.id)
    proposals = chain_set.graph.list_topic_proposals(last_node.key)
    shown_ids = exclude_barred(hidden_ids, proposals)
    nodes = [chain_set.nodes[id_] for id_ in shown_ids]
    return format_vacancy(nodes)


def read_revisions(store: Store, references: Iterable[str]) -> dict[str, tuple[Revision, ...]]:
    """Return the edits of some records, by id. Raises NotFound."""
    nodes = [store.require_node(reference) for reference in references]
    touches = _read_touches(store, nodes)
    revisions: dict[str, tuple[Revision, ...]] = {}
    for node in nodes:
        node_touches = touches[node.path]
        revisions[node.id] = _read_revisions(store, node, node_touches)
    return revisions


def _read_touches(store: Store, nodes: Sequence[Node]) -> dict[str, tuple[Touch, ...]]:
    """Read the commits that touched the files of some records, by store path."""
    to_full_path = store.files.to_work_tree_path
    full_paths = {node.path: to_full_path(node.path) for node in nodes}
    touches = store.history.read_touches(list(full_paths.values()), store.tip)
    touches_by_path: dict[str, tuple[Touch, ...]] = {}
    for path, full_path in full_paths.items():
        touches_by_path[path] = touches[full_path]
    return touches_by_path


def _list_steps(store: Store, chain_set: ChainSet, nodes: Sequence[Node], key: str) -> list[Step]:
    """Build the steps of a history from its decisions; those without a file are left out."""
    graph = chain_set.graph
    testimony = Testimony(store)
    hits = {hit.record.id: hit for hit in build_hits(store, nodes)}
    shown_nodes = [node for node in nodes if node.id in hits]
    touches = _read_touches(store, shown_nodes)
    steps: list[Step] = []
    for node in shown_nodes:
        hit = hits[node.id]
        evidence = testimony.list_evidence(node, hit.record)
        predecessors = graph.list_predecessors(node.id)
        step = Step(
            hit=hit._replace(evidence=evidence),
            supersedes=exclude_barred(store.barred_ids, predecessors),
            implied=node.id in graph.get_chain(node.key).implied,
            foreign=node.key != key,
            revisions=_read_revisions(store, node, touches[node.path]),
        )
        steps.append(step)
    return steps


def _read_revisions(store: Store, node: Node, touches: Sequence[Touch]) -> tuple[Revision, ...]:
    """Read the edits of a file after its first commit, oldest first, then the uncommitted one."""
    revisions: list[Revision] = []
    edits = touches[:-1]  # newest first; the last touch added the file
    for touch in reversed(edits):
        commit = touch.commit
        revision = Revision(
            commit=commit.id,
            author=commit.author,
            agent=commit.agent,
            at=commit.at,
            subject=commit.subject,
            changes=_list_changes(store, touch),
        )
        revisions.append(revision)
    if touches and store.tip == "HEAD" and store.is_edited(node.path):
        before = _read_version(store, touches[0].new_blob, touches[0].path)
        changes = _compare_versions(before, store.read(node.path))
        uncommitted = Revision(commit="", author="", agent="", at=0, subject="", changes=changes)
        revisions.append(uncommitted)
    return tuple(revisions)


def _list_changes(store: Store, touch: Touch) -> tuple[str, ...]:
    """Describe in phrases what a commit did to a file."""
    if touch.kind == "D":
        return ("removed",)
    if touch.kind == "A":
        return ("brought back",)
    before = _read_version(store, touch.old_blob, touch.old_path or touch.path)
    after = _read_version(store, touch.new_blob, touch.path)
    return _compare_versions(before, after)


def _read_version(store: Store, blob: str, path: str) -> ParsedRecord:
    data = store.repo.read_blob(blob) if blob else None
    if data is None:
        return ParsedRecord(None)
    return store.parse(data, store.files.to_store_path(path))


def _compare_versions(before: ParsedRecord, after: ParsedRecord) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    damages = describe_damage(before.problems, after.problems)
    phrases = list(describe_changes(before.record, after.record))
    if damages:
        phrases = [phrase for phrase in phrases if phrase != FORM_CHANGED]
    return (*phrases, *damages)


def build_timeline(
    store: Store, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
) -> Results:
    """Return the records saved before and after a moment, oldest first.

    `anchor` is a record's id or a time; the default is the best hit of `query`, or the newest
    record. Raises BadInput: both are given; NotFound.
    """
    if anchor and query:
        raise BadInput("give anchor or query, not both", field="anchor")
    moment = parse_time(anchor) if anchor else None
    anchor_node: Node | None = None
    if moment is None:
        name = anchor or _find_best(store, query)
        if not name:
            return Results((), note="nothing found" if query else "nothing saved yet")
        anchor_node = store.require_node(name)
        moment = anchor_node.created or store.clock()
        anchor = anchor_node.id
    nodes = _read_older(store, moment, depth_before, excluded=anchor_node)
    younger_nodes = _read_younger(store, moment, depth_after, excluded=anchor_node)
    if anchor_node:
        nodes.append(anchor_node)
    nodes += younger_nodes
    return Results(build_hits(store, nodes), anchor=anchor)


def _read_older(store: Store, moment: int, count: int, excluded: Node | None = None) -> list[Node]:
    """Read the last records up to a moment, oldest first."""
    criteria = Filter(until=moment, reader=store.reader)
    nodes = store.index.read_newest_nodes(criteria, count + 1, 0)
    older_nodes = _exclude_node(nodes, excluded)[:count]
    older_nodes.reverse()
    return older_nodes


def _read_younger(
    store: Store, moment: int, count: int, excluded: Node | None = None
) -> list[Node]:
    """Read the first records from a moment on, oldest first."""
    criteria = Filter(since=moment, reader=store.reader)
    total = store.index.count_records(criteria)
    offset = max(0, total - count - 1)  # the listing has the newest first
    nodes = store.index.read_newest_nodes(criteria, count + 1, offset)
    return _exclude_node(reversed(nodes), excluded)[:count]


def _find_best(store: Store, query: str) -> str:
    """Return the id of the best hit of a query, or of the newest record; "" if there is none."""
    hits = search.search(store, query, Filter(), limit=1).hits
    return hits[0].id if hits else ""


def _exclude_node(nodes: Iterable[Node], excluded: Node | None) -> list[Node]:
    if excluded is None:
        return list(nodes)
    return [node for node in nodes if node.id != excluded.id]


def find_latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Find the checkpoint to resume from, on `branch` or the current one.

    Returns:
        The checkpoint and a note if it is from another branch or author; None without checkpoints.
    """
    if not branch:
        branch = store.code.read_branch() or ""
    hits = build_hits(store, _read_checkpoints(store, branch))
    if not hits:
        return None
    newest = hits[0]
    own_names = ("", _read_author(store))
    own_hits = [hit for hit in hits if hit.provenance.author in own_names]
    hit = own_hits[0] if own_hits else newest
    hit_branch = hit.record.branch
    notes: list[str] = []
    if hit_branch not in ("", branch):
        label = branch or "this branch"
        notes.append(f"from branch {hit_branch}: there is none on {label}")
    if not own_hits:
        notes.append(f"saved by {hit.provenance.author}")
    if hit is not newest:
        notes.append(_format_newer_note(newest, hit_branch))
    return hit, "; ".join(notes)


def _read_checkpoints(store: Store, branch: str) -> Sequence[Node]:
    """Read the newest checkpoints of a branch, or of all if it has none."""
    criteria = Filter(types=(CHECKPOINT,), reader=store.reader)
    if branch:
        branch_criteria = criteria._replace(branches=(branch,))
        nodes = store.index.read_newest_nodes(branch_criteria, MAX_CHECKPOINTS, 0)
        if nodes:
            return nodes
    return store.index.read_newest_nodes(criteria, MAX_CHECKPOINTS, 0)


def _read_author(store: Store) -> str:
    """The user's name, "" if Git knows none."""
    with suppress(BadInput):
        return store.repo.require_identity()[0][0]
    return ""


def _format_newer_note(hit: Hit, branch: str) -> str:
    """Note that another author saved a newer checkpoint."""
    record = hit.record
    where = f" on branch {record.branch}" if record.branch != branch else ""
    author = hit.provenance.author
    return f"{author} saved a newer one{where}: {record.title} ({shorten_id(record.id)})"


def list_topics(store: Store, prefix: str = "", *, limit: int, offset: int = 0) -> Topics:
    """List topics with a word in their name or live decision.

    They are sorted by ADR number if files have one, else alphabetically. Decisions without a topic
    come last, by path: one entry for each group that links join. A group with a link to a stated
    topic counts there.
    """
    last_nodes, count = store.index.read_topics(build_topic_key(prefix), limit, offset)
    chain_set = store.index.read_chains(last_nodes)
    families = {family.members[-1]: family for family in chain_set.graph.list_families()}
    topics: list[Topic] = []
    for node in store.exclude_barred(last_nodes):
        family = families.get(node.id)
        if family:
            topics.append(_build_topic(store, chain_set, family))
    return Topics(tuple(topics), count)


def _build_topic(store: Store, chain_set: ChainSet, family: Family) -> Topic:
    key = family.key
    barred_ids = store.barred_ids
    heads = exclude_barred(barred_ids, family.heads)
    last_node = chain_set.nodes[family.members[-1]]
    live_nodes = [chain_set.nodes[head] for head in heads]
    newest_node = last_node
    vacancy = ""
    is_forked = False
    if live_nodes:
        newest_node = max(live_nodes, key=attrgetter("sort_key"))
        is_forked = _is_forked(key, live_nodes)
    else:
        vacancy = _explain_vacancy(chain_set, last_node, barred_ids)
    # A heading names the live decision, a topic the whole chain.
    named_node = newest_node
    if key or newest_node.stated:
        named_node = last_node
    return Topic(
        topic=named_node.topic,
        decisions=len(family.members),
        heads=heads,
        title=newest_node.title if live_nodes else "",
        latest=last_node.created,
        stated=last_node.stated,
        forked=is_forked,
        vacancy=vacancy,
        number=parse_adr_number(newest_node.path, newest_node.id),
        path="" if key else store.to_display_path(named_node.path),
    )


def _is_forked(key: str, live_nodes: Sequence[Node]) -> bool:
    """Return whether several decisions are live, all of them on the topic itself."""
    if not key or len(live_nodes) < 2:
        return False
    return all(node.key == key for node in live_nodes)
