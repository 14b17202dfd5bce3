"""Answers in time order: how a topic was decided, all topics, what was saved around a moment.

Rule: identity and order come from the files, so that squash merges and rebases break no chain;
commits only add who, when and which edit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

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

MAX_CHECKPOINTS = 50  # checkpoints among which this author's is looked for


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

    hit: Hit  # as its file is now, with what replaced it, and what commits say came of it
    supersedes: tuple[str, ...] = ()  # ids, oldest first
    implied: bool = False  # nobody stated what it supersedes
    foreign: bool = False  # it belongs to another topic that the chain leads to
    revisions: tuple[Revision, ...] = ()  # edits in place, oldest first, uncommitted ones last


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and its live decisions."""

    topic: str
    heads: tuple[str, ...]  # what holds; if nothing does, what replaced its decisions elsewhere
    chain: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # what Git's history does not show, and why
    forked: bool = False  # several decisions on the topic hold at once
    vacancy: str = ""  # in words, why nothing holds


class Topics(NamedTuple):
    """A page of the list of topics."""

    topics: tuple[Topic, ...]
    total: int  # in all, without a limit


class Topic(NamedTuple):
    """A topic with its live decisions."""

    topic: str  # its name; where no decision states one, the heading
    decisions: int  # how many there are
    heads: tuple[str, ...]  # ids of what holds, or of what replaced its decisions on other topics
    title: str  # the newest head's
    latest: int  # when the last one was made, epoch milliseconds
    stated: bool = True  # whether decisions name the topic; else they are joined by links alone
    forked: bool = False  # several decisions on the topic hold at once
    vacancy: str = ""  # in words, why nothing holds
    number: int | None = None  # in the file name of what holds, as ADRs have one
    path: str = ""  # of the file whose heading is the topic, if no decision states it


def build_history(store: Store, topic_or_id: str) -> History:
    """Return how a topic was decided, or the chain of a decision.

    That is found by id, path, title, number or file name. Raises NotFound, with what was probably
    meant; BadInput: the record is not a decision.
    """
    key = build_topic_key(topic_or_id)
    barred_ids = store.barred_ids
    start_nodes = store.index.read_nodes_by_field("topic", [key]) if key else []
    start_nodes = [node for node in start_nodes if node.key and node.id not in barred_ids]
    if not start_nodes:
        start_nodes = [store.require_node(topic_or_id)]
        key = start_nodes[0].key
        if start_nodes[0].type != DECISION:
            article = fields.add_article(start_nodes[0].type)
            message = (
                f"{start_nodes[0].id} is {article}; only decisions have a history of supersession"
            )
            raise BadInput(message, field="topic")
    chain_set = store.index.read_chains(start_nodes)
    graph = chain_set.graph
    members = graph.list_family(start_nodes[0].id)
    heads = graph.list_topic_heads(key) if key else graph.merge_heads(members)
    chain = _iter_steps(
        store, chain_set, [chain_set.nodes[name] for name in graph.list_linked(members)], key
    )
    last = chain_set.nodes[members[-1]]
    return History(
        topic=last.topic if key else start_nodes[0].topic,
        heads=exclude_barred(barred_ids, heads),
        chain=tuple(chain),
        notes=tuple(filter(None, [store.repo.describe_missing_history()])),
        forked=graph.get_chain(key).is_forked,
        vacancy="" if heads else _explain_vacancy(chain_set, last, barred_ids),
    )


def _explain_vacancy(chain_set: ChainSet, last_node: Node, barred_ids: Collection[str]) -> str:
    """That nothing holds on the topic of a decision, and what is proposed."""
    names = exclude_barred(
        (*barred_ids, last_node.id), chain_set.graph.list_topic_proposals(last_node.key)
    )
    return format_vacancy([chain_set.nodes[name] for name in names])


def read_revisions(store: Store, references: Iterable[str]) -> dict[str, tuple[Revision, ...]]:
    """Return the edits of some records, by id. Raises NotFound."""
    nodes = list(map(store.require_node, references))
    return {
        node.id: _read_revisions(store, node, touches)
        for node, touches in _read_touches(store, nodes)
    }


def _read_touches(store: Store, nodes: Sequence[Node]) -> list[tuple[Node, tuple[Touch, ...]]]:
    paths = [store.files.to_work_tree_path(node.path) for node in nodes]
    touches = store.history.read_touches(paths, store.tip)
    return [(node, touches[path]) for node, path in zip(nodes, paths, strict=True)]


def _iter_steps(
    store: Store, chain_set: ChainSet, nodes: Sequence[Node], key: str
) -> Iterable[Step]:
    graph = chain_set.graph
    testimony = Testimony(store)
    hits = {hit.record.id: hit for hit in build_hits(store, nodes)}
    for node, touches in _read_touches(store, [node for node in nodes if node.id in hits]):
        hit = hits[node.id]
        yield Step(
            hit=hit._replace(evidence=testimony.list_evidence(node, hit.record)),
            supersedes=exclude_barred(store.barred_ids, graph.list_predecessors(node.id)),
            implied=node.id in graph.get_chain(node.key).implied,
            foreign=node.key != key,
            revisions=_read_revisions(store, node, touches),
        )


def _read_revisions(store: Store, node: Node, touches: Sequence[Touch]) -> tuple[Revision, ...]:
    """The edits of a file after its first commit, oldest first, uncommitted changes included."""
    edits = []
    for _, touch in pairwise(reversed(touches)):
        commit = touch.commit
        revision = Revision(commit.id, commit.author, commit.agent, commit.at, commit.subject)
        edits.append(revision._replace(changes=_list_changes(store, touch)))
    if touches and store.tip == "HEAD" and store.is_edited(node.path):
        before = _read_version(store, touches[0].new_blob, touches[0].path)
        edits.append(Revision("", "", "", 0, "", _compare_versions(before, store.read(node.path))))
    return tuple(edits)


def _list_changes(store: Store, touch: Touch) -> tuple[str, ...]:
    """What a commit did to a file, in phrases."""
    if touch.kind == "D":
        return ("removed",)
    if touch.kind == "A":
        return ("brought back",)
    before = _read_version(store, touch.old_blob, touch.old_path or touch.path)
    return _compare_versions(before, _read_version(store, touch.new_blob, touch.path))


def _read_version(store: Store, blob: str, path: str) -> ParsedRecord:
    data = store.repo.read_blob(blob) if blob else None
    return (
        ParsedRecord(None) if data is None else store.parse(data, store.files.to_store_path(path))
    )


def _compare_versions(before: ParsedRecord, after: ParsedRecord) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    damages = describe_damage(before.problems, after.problems)
    phrases = describe_changes(before.record, after.record)
    return (*(phrase for phrase in phrases if not damages or phrase != FORM_CHANGED), *damages)


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
    anchors: list[Node] = []
    if moment is None:
        name = anchor or _find_best(store, query)
        if not name:
            return Results((), note="nothing found" if query else "nothing saved yet")
        anchors = [store.require_node(name)]
        moment = anchors[0].created or store.clock()
    until = Filter(until=moment, reader=store.reader)
    since = Filter(since=moment, reader=store.reader)
    older_nodes = store.index.read_newest_nodes(until, depth_before + 1, 0)
    offset = max(0, store.index.count_records(since) - depth_after - 1)  # the end of the listing
    younger_nodes = store.index.read_newest_nodes(since, depth_after + 1, offset)
    nodes = [
        *reversed(_exclude_nodes(older_nodes, anchors)[:depth_before]),
        *anchors,
        *_exclude_nodes(reversed(younger_nodes), anchors)[:depth_after],
    ]
    return Results(build_hits(store, nodes), anchor=anchors[0].id if anchors else anchor)


def _find_best(store: Store, query: str) -> str:
    """The id of the best hit of a query, or of the newest record; "" if there is none."""
    hits = search.search(store, query, Filter(), limit=1).hits
    return hits[0].id if hits else ""


def _exclude_nodes(nodes: Iterable[Node], excluded: Collection[Node]) -> list[Node]:
    ids = {node.id for node in excluded}
    return [node for node in nodes if node.id not in ids]


def find_latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Return the checkpoint to resume from, of `branch` or the current one.

    With it comes a note if it is of another branch or author.
    """
    current_branch = branch or store.code.read_branch() or ""
    criteria = Filter(types=(CHECKPOINT,), reader=store.reader)
    recent_nodes: Sequence[Node] = ()
    if current_branch:
        recent_nodes = store.index.read_newest_nodes(
            criteria._replace(branches=(current_branch,)), MAX_CHECKPOINTS, 0
        )
    hits = build_hits(
        store, recent_nodes or store.index.read_newest_nodes(criteria, MAX_CHECKPOINTS, 0)
    )
    if not hits:
        return None
    own_names = ("", _read_author(store))
    hit = next((hit for hit in hits if hit.provenance.author in own_names), hits[0])
    notes = [_format_branch_note(hit, current_branch)]
    if hit.provenance.author not in own_names:
        notes.append(f"saved by {hit.provenance.author}")
    if hit is not hits[0]:
        notes.append(_format_newer_note(hits[0], hit.record.branch))
    return hit, "; ".join(filter(None, notes))


def _format_branch_note(hit: Hit, current_branch: str) -> str:
    """Note that a checkpoint is of another branch."""
    branch = hit.record.branch
    if branch in ("", current_branch):
        return ""
    return f"from branch {branch}: there is none on {current_branch or 'this branch'}"


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

    They stand by ADR number if files have one, else alphabetically. Decisions without a topic come
    last, by path: one entry for all that links join. If links lead to a stated topic, they are
    counted there.
    """
    last_nodes, count = store.index.read_topics(build_topic_key(prefix), limit, offset)
    chain_set = store.index.read_chains(last_nodes)
    families = {family.members[-1]: family for family in chain_set.graph.list_families()}
    barred_ids = store.barred_ids
    nodes = [node for node in last_nodes if node.id in families and node.id not in barred_ids]
    return Topics(
        tuple(_build_topic(store, chain_set, *families[node.id]) for node in nodes), count
    )


def _build_topic(
    store: Store, chain_set: ChainSet, key: str, members: Sequence[str], heads: tuple[str, ...]
) -> Topic:
    barred_ids = store.barred_ids
    heads = exclude_barred(barred_ids, heads)
    last_node = chain_set.nodes[members[-1]]
    live_nodes = [chain_set.nodes[head] for head in heads]
    newest_node = max(live_nodes, key=lambda node: node.sort_key, default=last_node)
    # A heading names what holds, a topic all of the chain, whatever that went on under.
    named_node = last_node if key or newest_node.stated else newest_node
    return Topic(
        topic=named_node.topic,
        decisions=len(members),
        heads=heads,
        title=newest_node.title if live_nodes else "",
        latest=last_node.created,
        stated=last_node.stated,
        forked=len(live_nodes) > 1 and bool(key) and {node.key for node in live_nodes} == {key},
        vacancy="" if live_nodes else _explain_vacancy(chain_set, last_node, barred_ids),
        number=parse_adr_number(newest_node.path, newest_node.id),
        path="" if key else store.to_display_path(named_node.path),
    )
