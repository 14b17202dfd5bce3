"""How a topic was decided, and how records were revised: the chain as files state it, the rest from Git.

Rule: identity and order come from what the files say, so that squash merges, rebases and shallow clones break no chain;
what a commit adds (who, when, which edit) is told beside it, and where Git cannot know, that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from filemem import record
from filemem.chain import Graph
from filemem.documents import Node
from filemem.errors import BadInput
from filemem.memory import claims, departed, finding, graph, identities, meant, phrases, writing
from filemem.memory.moves import source
from filemem.memory.origins import brought
from filemem.memory.store import Store
from filemem.memory.values import History, Revision, Step
from filemem.memory.versions import Versions
from filemem.record import DECISION, Parsed, topic_key
from filemem.record.revising import damage, revised
from filemem.repo.beside import added_too
from filemem.repo.lives import Revision as Version

_GAPS = 8  # times that a record was away, followed back
NOTHING = Parsed(None)  # what a version that is not here is read as
ANEW = 60_000  # milliseconds between writing a commit and making it that show it was made again


def history(store: Store, topic_or_id: str) -> History:
    """Tell how a topic was decided.

    Args:
        store: the parts.
        topic_or_id: a topic, or a decision whose chain is meant: by id, path, title, number or file name.

    Raises:
        NotFound: neither a topic nor a decision; says what was probably meant.
    """
    key = topic_key(topic_or_id)
    start = [node for node in store.lookup("topic", [key]) if node.key] if key else []
    if not start:
        start = [_decision(store, topic_or_id)]
        key = start[0].key
    resolved, around, _ = graph.neighbourhood(store, start)
    members = graph.family(resolved, start[0])
    heads = resolved.holding(key) if key else graph.ends(resolved, members)
    beyond = graph.linked(resolved, members)
    told = [around[one] for one in sorted({*members, *beyond}, key=lambda one: resolved.nodes[one].age)]
    pasts = past_of(store, told)
    every = claims.every(store)
    claimed = identities.unsettled(store, told)
    steps = [
        step._replace(contest=_contest(resolved, around, node.id, key), claimed=claimed.get(node.path, ""))
        for node in told
        if (step := _step(store, node, resolved, key, pasts[node.path], every))
    ]
    topic = next((around[m].topic for m in reversed(members) if key and around[m].stated), start[0].topic)
    chain = tuple(steps)
    vacancy = "" if heads else graph.vacancy(resolved, around, members)
    called = phrases.called(start[0].title, start[0].id)
    alone = f"{called} states no topic: told are the decisions that links join to it"
    gone = departed.note(store, topic) if key else ""
    notes = (*([] if key or len(chain) < 2 else [alone]), *([gone] if gone else []), *_notes(store, chain))
    return History(topic, heads, chain, notes, resolved.chain(key).is_forked, vacancy)


def revisions(store: Store, references: Iterable[str]) -> dict[str, tuple[Revision, ...]]:
    """Tell how some records were edited in place, by id. Raises NotFound."""
    nodes = [finding.find(store, one) for one in references]
    pasts = past_of(store, nodes)
    return {node.id: pasts[node.path].revisions for node in nodes}


class Past(NamedTuple):
    """What became of one file: when its first commit was written, and its edits, oldest first."""

    written: int = 0
    revisions: tuple[Revision, ...] = ()


def past_of(store: Store, nodes: Iterable[Node]) -> dict[str, Past]:
    """Tell how the files of some records were revised, uncommitted edits included, by path.

    Args:
        store: the parts.
        nodes: the records.
    """
    listed = list(nodes)
    named = store.files.named
    held = {node.path: _held(store, node) for node in listed}
    firsts = {named(held[node.path]): node.birth.commit for node in listed if node.birth.commit}
    versions = store.versions()
    logs = store.history.logs(firsts, versions) if firsts else {}
    whole = {node.path: _whole(store, versions, node, logs.get(named(held[node.path]), ())) for node in listed}
    first = {node.path: named(node.birth.path or node.path) for node in listed if whole[node.path]}
    births = {first[node.path]: node.birth.commit for node in listed if node.path in first and node.birth.commit}
    too = added_too(store.history, births, versions)
    whole |= {node.path: _with(whole[node.path], too.get(first.get(node.path, ""), ()), node) for node in listed}
    return {
        node.path: _past(store, versions, node, whole[node.path], moved=held[node.path] != node.path) for node in listed
    }


def _held(store: Store, node: Node) -> str:
    """Where HEAD has a record: at another path, where its move is not committed."""
    live = bool(node.birth.commit) and store.tip == "HEAD"
    return (source(store, node.path) if live else "") or node.path


def _whole(store: Store, versions: Versions, node: Node, log: Sequence[Version]) -> Sequence[Version]:
    """A log that goes on to the first commit of a record that stood elsewhere before, and was away since."""
    found, named = list(log), store.files.named(node.birth.path or node.path)
    for _ in range(_GAPS):
        if not found or any(one.commit.id == node.birth.commit for one in found) or not found[-1].commit.parents:
            break
        seen = store.repo.history_at(found[-1].commit.parents[0])
        earlier = seen.logs({named: ""}, versions)[named]
        if earlier and earlier[0].blob and versions.stated(named, earlier[0].blob) != node.id:
            earlier = (earlier[-1]._replace(blob="", before="", old=""),)  # another record took its place
        if not earlier:
            break
        found += earlier
    return found if any(one.commit.id == node.birth.commit for one in found) else log


def _with(log: Sequence[Version], too: Sequence[Version], node: Node) -> Sequence[Version]:
    """A log, newest first, with what other branches began it with, above the first commit."""
    known = {one.commit.id for one in log}
    at = next((at for at, one in enumerate(log) if one.commit.id == node.birth.commit), len(log))
    return [*log[:at], *(one for one in too if one.commit.id not in known), *log[at:]]


def _past(store: Store, versions: Versions, node: Node, log: Sequence[Version], *, moved: bool) -> Past:
    begun = next((at for at, version in enumerate(log) if version.commit.id == node.birth.commit), len(log))
    told = [
        Revision(c.id, c.author, c.agent, c.at, c.subject, _told(store, version, before, node.birth.name))
        for version, before in reversed(list(zip(log[:begun], (*log[1:], None), strict=False)))
        if (c := version.commit) and not (version.sides and versions.joins(version.path, version.sides, version.blob))
    ]
    if node.birth.commit and (moved or store.edited(node.path)):
        now = store.read(node.path, node.birth.name)
        was = _read(store, log[0].blob, log[0].path, node.birth.name) if log else NOTHING
        told.append(Revision("", "", "", 0, "", _changes(was, now)))
    return Past(log[begun].commit.written if begun < len(log) else 0, tuple(told))


def _told(store: Store, version: Version, before: Version | None, first_path: str) -> tuple[str, ...]:
    """What a commit did to a file, and to what it was before."""
    if not version.blob:
        return ("removed",)
    now = _read(store, version.blob, version.path, first_path)
    if version.sides:
        sides = (_read(store, blob, version.path, first_path) for blob in version.sides)
        return min((_changes(side, now) for side in sides if side.record is not None), key=len, default=())
    if version.old:
        return _changes(_read(store, version.old, version.before, first_path), now)
    if before is None or before.blob:
        copied = before is not None and store.history.is_ancestor(before.commit.id, version.commit.id)
        return (
            f"copied to {store.shown(store.files.inside(version.path))}" if copied else "added on another branch too",
        )
    same_again = before.old in ("", version.blob)
    return ("brought back", *(() if same_again else _changes(_read(store, before.old, before.path, first_path), now)))


def _read(store: Store, blob: str, path: str, first_path: str) -> Parsed:
    data = store.repo.blob(blob)
    return NOTHING if data is None else record.parse(data, store.files.inside(path), first_path)


def _changes(before: Parsed, after: Parsed) -> tuple[str, ...]:
    if before.record is None or after.record is None:
        return ()
    return revised(before.record, after.record, damage(before.problems, after.problems))


def _decision(store: Store, reference: str) -> Node:
    node = finding.find(store, reference, DECISION, what="topic and no record", near=meant.topics, fate=meant.ended)
    if node.type != DECISION:
        raise BadInput(
            f"{node.id} is {writing.article(node.type)}; only decisions have a history of supersession", field="topic"
        )
    return node


def _contest(resolved: Graph, around: Mapping[str, Node], one: str, key: str) -> str:
    """That several decisions replaced this one and are not a fork of the topic that is told, or ""."""
    heads = [around[head] for head in resolved.heads_of(one)]
    parts_here = len(resolved.superseded_by(one)) > 1 and any(not key or head.key != key for head in heads)
    return graph.contest(heads, around[one].key) if parts_here else ""


def _step(store: Store, node: Node, resolved: Graph, key: str, past: Past, every: claims.Claims) -> Step | None:
    found = store.read(node.path, node.birth.name).record
    if found is None:
        return None
    birth = node.birth
    anew = past.written and birth.at - past.written > ANEW
    return Step(
        record=found._replace(id=node.id),
        path=store.shown(node.path),
        commit="" if birth.unseen else birth.commit,
        author=birth.author,
        agent=birth.agent,
        at=(found.created or 0) if birth.unseen else node.created or birth.at,
        committed=birth.at if birth.commit and not birth.unseen else 0,
        supersedes=resolved.predecessors(node.id),
        superseded_by=resolved.superseded_by(node.id),
        proposed=resolved.proposed_for(node.id),
        holds=resolved.is_head(node.id),
        implied=node.id in resolved.chain(node.key).implied,
        foreign=node.key != key,
        co_authors=birth.co_authors,
        reviewers=birth.reviewers,
        revisions=past.revisions,
        edited=any(not revision.commit for revision in past.revisions),
        shallow=birth.unseen,
        unsure=birth.unsure,
        written=past.written if anew and not birth.unseen else 0,
        evidence=claims.evidence_of(store, node, found, every),
    )


def _notes(store: Store, chain: Iterable[Step]) -> tuple[str, ...]:
    """What the history of a chain does not show, and why."""
    commits = dict.fromkeys(step.commit for step in chain if step.commit)
    counts = brought(store, commits)
    notes = [
        f"{commit[:10]} brought {counts[commit]} records at once (a squash merge or an import): "
        "who decided each, and when, is as far as known what its file states"
        for commit in commits
        if counts.get(commit, 0) > 1
    ]
    if store.repo.partial():
        notes.append(
            "this is a partial clone: where older versions are not here, names of files alone tell who was first"
        )
    if odd := store.repo.revisions.altered():
        notes.append(f"{odd}: they are passed over, commits are told as they were made")
    return tuple(notes)
