"""What a branch does to the memory: the records that it touches, and what follows from them for all others.

Rule: commits are compared, never the work tree, and by what their files say, so that rebases and squash merges change
nothing. The index only says which records belong together; where a commit differs from it, Git's objects are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from filemem import record
from filemem.chain import Graph
from filemem.chain.comparing import Consequences, consequences
from filemem.documents import Birth, Node, node_of
from filemem.errors import BadInput, Conflict
from filemem.files import is_record
from filemem.memory import graph, moments, syncing, writing
from filemem.memory.store import Store
from filemem.memory.values import KINDS, Comparison, Effect, Named
from filemem.record import DECISION, Record
from filemem.record.revising import revised
from filemem.repo.branches import defaults
from filemem.repo.history import Row
from filemem.repo.revisions import Moment

HEAD = "HEAD"
OUTCOME = "outcome "  # how phrases on outcomes begin


def compare(store: Store, text: str) -> Comparison:
    """Say what one side of a range does to the memory.

    Args:
        store: the parts.
        text: `BASE...HEAD` for what HEAD did since the two parted, `BASE..HEAD` for the difference of the two, `BASE` for
            `BASE...HEAD`; each a revision or a date, and left out the default branch, or what is checked out.

    Raises:
        BadInput: there is no default branch to compare with.
        NotFound: an unknown revision; says what was probably meant.
        Conflict: the two have no history in common.
    """
    base, head, parted = _range(store, writing.line("range", text).strip())
    rows = _rows(store, parted, head.commit)
    states = _States(store, parted, head, base, rows)
    before, after = states.before, states.after
    follows = consequences(before.graph, after.graph)
    effects = [*_touched(before, after, rows), *_follow(before, after, follows), *_hanging(before, after, follows)]
    effects += _later_forks(states, follows)
    told = (one._replace(path=store.shown(one.path) if one.path else "") for one in effects)
    return Comparison(base, head, parted, tuple(sorted(told, key=lambda one: KINDS.index(one.kind))))


def _range(store: Store, text: str) -> tuple[Moment, Moment, str]:
    """The two sides, and the commit from which on the second is told."""
    direct = ".." in text and "..." not in text
    left, _, right = text.partition(".." if direct else "...")
    head = moments.find(store, right or HEAD)
    if not right:
        head = head._replace(name=store.branch or HEAD)
    base = moments.find(store, left) if left else _default(store, head)
    if direct:
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
    """The default branch; where `head` is just that, what the remote has of it."""
    found = store.standings.default()
    example = "for example filemem diff v1.2...HEAD, or filemem diff 2w"
    if found is None:
        raise BadInput("there is no default branch to compare with: no origin/HEAD, main, master or trunk", example)
    if found.tip != head.commit:
        return Moment(found.name, found.tip, store.repo.time_of(found.tip))
    tips = [one.tip for one in defaults(store.repo.common_dir) if one.name == found.name and one.tip != head.commit]
    if not tips:
        raise BadInput(f"{found.name} is the default branch itself: there is nothing to compare it with", example)
    return Moment(f"origin/{found.name}", tips[0], store.repo.time_of(tips[0]))


def _rows(store: Store, one: str, other: str) -> tuple[Row, ...]:
    """How the record files of two commits differ, by store path."""
    inside = store.files.inside
    found = store.repo.history.between(one, other, store.files.store) if one != other else ()
    kept = (row for row in found if is_record(row.path.rpartition("/")[2]) or is_record(row.before.rpartition("/")[2]))
    return tuple(row._replace(before=inside(row.before), path=inside(row.path)) for row in kept)


class _File(NamedTuple):
    """A file that a commit has and the index has otherwise: its blob, and its path in the index, if it has one."""

    blob: str
    here: str


class _States:
    """The memory at the commit where a branch parted, at its end, and as it would be merged.

    Args:
        store: the parts.
        parted, head: the two commits.
        base: what the branch is compared with, for forks that appear only with the merge.
        rows: how `head` differs from `parted`.
    """

    def __init__(self, store: Store, parted: str, head: Moment, base: Moment, rows: Sequence[Row]) -> None:
        here = store.repo.head() or ""
        onwards = {row.path: _File(row.new, row.path) for row in rows if row.status != "D"}
        old = {
            row.before: _File(row.old, row.path if row.status == "R" else row.before)
            for row in rows
            if row.status != "A"
        }
        self.theirs = _rows(store, parted, base.commit) if base.commit != parted else ()
        if head.commit == here:
            ends, starts = onwards, old
            not_now = {row.path for row in rows if row.status != "D"}
            not_then = set(not_now)
        else:
            ends, not_now = _from(_rows(store, here, head.commit))
            starts, not_then = _from(_rows(store, here, parted))
            ends, starts = {**onwards, **ends}, {**old, **starts}
            not_now |= onwards.keys()
            not_then |= old.keys()
        touched = {path for row in rows for path in (row.before, row.path)}
        theirs = {r.path: _File(r.new, r.before) for r in self.theirs if r.status != "D" and r.before not in touched}
        wanted = {file.blob for files in (ends, starts, theirs) for file in files.values()}
        self._store, self._blobs = store, store.repo.revisions.blobs(wanted) if wanted else {}
        paths = {file.here for files in (ends, starts, theirs) for file in files.values()}
        self._births = {node.path: node.birth for node in store.lookup("path", list(paths)) if node.birth.commit}
        start = Moment("", parted, store.repo.time_of(parted))
        self.before = self._state(starts, not_then, start)
        self.after = self._state(ends, not_now, head)
        gone = {row.before for row in self.theirs if row.before not in touched}
        self.merged = self._state(theirs, gone, base, self.after) if self.theirs else None
        changed = [*self.before.files.values(), *self.after.files.values()]
        self.before.around(changed)
        self.after.around(changed)
        if self.merged:
            self.merged.around([*changed, *self.merged.files.values()])

    def _state(self, files: Mapping[str, _File], hidden: set[str], at: Moment, on: _State | None = None) -> _State:
        read: dict[str, Record] = {}
        births: dict[str, Birth] = {}
        for path, file in files.items():
            data = self._blobs.get(file.blob)
            births[path] = self._births.get(file.here) or Birth(at.commit, at=at.at, path=path)
            found = record.parse(data, path, births[path].path).record if data is not None else None
            if found is not None:
                read[path] = found
        hidden = {*hidden, *(on.hidden if on else ())}
        known = {**(on.records if on else {}), **read}
        references = syncing.References(self._store, {*hidden, *files}, births)
        references.add(known.values())
        nodes = {path: node_of(one, births[path], references.resolve) for path, one in read.items()}
        return _State(self._store, {**(on.files if on else {}), **nodes}, known, hidden | files.keys())


def _from(rows: Iterable[Row]) -> tuple[dict[str, _File], set[str]]:
    """What a commit has otherwise than the one that is checked out, and what of that one it hides."""
    listed = list(rows)
    files = {row.path: _File(row.new, row.before if row.status != "A" else "") for row in listed if row.status != "D"}
    return files, {row.before for row in listed if row.status != "A"}


class _State:
    """The memory at one commit, as far as a comparison needs it.

    Args:
        store: the parts.
        files: the nodes of files in which the commit differs from the index, by path.
        records: the same files, read.
        hidden: paths for which the index is not to be asked.
    """

    def __init__(
        self, store: Store, files: Mapping[str, Node], records: Mapping[str, Record], hidden: Iterable[str]
    ) -> None:
        self.files, self.records, self.hidden = files, records, frozenset(hidden)
        self._store = store
        self.nodes: dict[str, Node] = {}
        self.graph: Graph = graph.resolve(())

    def lookup(self, wanted: Mapping[str, Collection[str]]) -> list[Node]:
        """The nodes that the commit has with one of the exact terms."""
        known = self._store.lookup_any(wanted)
        kept = [node for node in known if node.path not in self.hidden and node.birth.commit]
        return [*kept, *(node for node in self.files.values() if node.has_any(wanted))]

    def around(self, changed: Iterable[Node]) -> None:
        """Work out the chains that some records, of this commit or of another, belong to."""
        nodes = [node for node in changed if node.type == DECISION]
        ids = {node.id for node in nodes}
        linked = {target for node in nodes for target in graph.supersession(node)}
        start = self.lookup({"topic": {n.key for n in nodes if n.key}, "id": ids | linked, "ref": ids})
        self.nodes = {node.id: node for node in self.files.values()}
        self.nodes |= graph.gather(self.lookup, start).nodes
        found = [node for node in self.nodes.values() if node.type == DECISION]
        self.graph = graph.resolve(found, unrelated=self._store.unrelated)

    def named(self, ids: Iterable[str]) -> tuple[Named, ...]:
        """Titles of records by id; one that is not here is named by its id."""
        return tuple(Named(one, self.nodes[one].title if one in self.nodes else one) for one in ids)


def _touched(before: _State, after: _State, rows: Iterable[Row]) -> Iterator[Effect]:
    """What a branch did to the records that it touched: new, revised, removed; by id, wherever their files went."""
    was = {one.id: one for row in rows if (one := before.records.get(row.before)) and row.status != "A"}
    now = {one.id: one for row in rows if (one := after.records.get(row.path)) and row.status != "D"}
    for one in now.values():
        if one.id in was:
            yield from _revisions(was[one.id], one)
        else:
            replaced = before.named(after.graph.predecessors(one.id))
            details = (one.status,) if one.type == DECISION and one.status != "accepted" else ()
            yield _effect("new", one, details, replaced)
    for one in was.values():
        if one.id not in now:
            yield _effect("removed", one)


def _revisions(was: Record, now: Record) -> Iterator[Effect]:
    phrases = revised(was, now)
    outcomes = tuple(one for one in phrases if one.startswith(OUTCOME))
    others = tuple(one for one in phrases if one not in outcomes)
    if outcomes:
        yield _effect("outcome", now, outcomes)
    if others:
        yield _effect("revised", now, others)


def _follow(before: _State, after: _State, follows: Consequences) -> Iterator[Effect]:
    """What follows for decisions, touched or not."""
    for one, successors in follows.superseded.items():
        yield _of(after.nodes[one], "superseded", (), after.named(successors))
    for one in follows.revived:
        yield _of(after.nodes[one], "revived")
    for key, heads in follows.forked.items():
        yield _on_topic(after, "forked", key, heads)
    for key, heads in follows.joined.items():
        yield _on_topic(after, "joined", key, heads)
    for key in follows.headless:
        last = after.graph.chain(key).order[-1]
        yield _of(after.nodes[last], "orphaned", ("nothing holds on this topic any more",))


def _later_forks(states: _States, follows: Consequences) -> list[Effect]:
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


def _ours(states: _States, heads: Iterable[str]) -> bool:
    """Whether the branch itself brought one of these heads; else the fork is the other side's alone."""
    known = states.before.graph.nodes
    return any(one not in known or not states.before.graph.is_head(one) for one in heads if one in states.after.nodes)


def _hanging(before: _State, after: _State, follows: Consequences) -> Iterator[Effect]:
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


def _on_topic(state: _State, kind: str, key: str, heads: Sequence[str], *details: str) -> Effect:
    last = state.nodes[heads[-1]]
    return Effect(kind, "", DECISION, last.topic, last.topic or key, "", details, state.named(heads))
