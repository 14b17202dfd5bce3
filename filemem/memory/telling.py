"""Answers in the order of time: what was saved around a moment, where the work stood, what topics there are."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from filemem.chain import Graph
from filemem.documents import Node
from filemem.errors import BadInput
from filemem.files import is_listed
from filemem.memory import astray, finding, graph, home, obstacles, searching, uncommitted
from filemem.memory.hits import present
from filemem.memory.store import Store
from filemem.memory.values import Topic
from filemem.query import Filter, Hit, Results
from filemem.record import (
    CHECKPOINT,
    DECISION,
    TYPES,
    parse_time,
    topic_key,
)

_NUMBERED = re.compile(r"\W*(?:[A-Za-z]{2,8}[- ])?(\d{1,5})\b")  # as in a folder of numbered records
RECENT = 1_000  # decisions among which an id is looked for as it is typed
WORDS = {"put": "save", "amend": "update", "remove": "delete"}  # what users call an operation that waits


def timeline(
    store: Store, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
) -> Results:
    """Tell what was saved before and after a moment, oldest first.

    Args:
        store: the parts.
        anchor: a record's id or a time; empty for the best hit of `query`, or the newest record.
        query: what the moment is about, where no anchor is given.
        depth_before, depth_after: how many records on either side.

    Raises:
        BadInput: anchor and query both given.
        NotFound: no such record.
    """
    if anchor and query:
        raise BadInput("give anchor or query, not both", field="anchor")
    middle: Node | None = None
    if anchor and (at := parse_time(anchor)) is not None:
        moment, name = at, anchor
    else:
        middle = finding.find(store, anchor) if anchor else _best(store, query)
        if middle is None:
            return Results((), note="nothing found" if query else "nothing saved yet")
        moment, name = middle.created, middle.id
    skip = middle.id if middle else ""
    older = [n for n in _newest(store, Filter(until=moment), depth_before + 1) if n.id != skip][:depth_before]
    younger = [n for n in _oldest(store, moment, depth_after + 1) if n.id != skip][:depth_after]
    nodes = [*reversed(older), *([middle] if middle else []), *younger]
    return Results(present(store, nodes), anchor=name)


def latest_checkpoint(store: Store, branch: str = "") -> tuple[Hit, str] | None:
    """Return the checkpoint to go on from, and whose it is where it is not this branch's and this author's.

    Args:
        store: the parts.
        branch: the branch to go on with; empty for the one checked out.
    """
    here = branch or store.code.branch() or ""
    me = _author(store)
    recent = _newest(store, Filter(types=(CHECKPOINT,)), 200)
    if not recent:
        return None
    hits = present(store, recent)
    ranked = max(
        enumerate(hits),
        key=lambda item: (
            item[1].record.branch == here,
            item[1].provenance.author in ("", me),
            item[1].created,
            -item[0],
        ),
    )[1]
    notes = []
    if ranked.record.branch and ranked.record.branch != here:
        notes.append(f"from branch {ranked.record.branch}: there is none on {here or 'this branch'}")
    if ranked.provenance.author not in ("", me):
        notes.append(f"saved by {ranked.provenance.author}")
    return ranked, "; ".join(notes)


def topics(store: Store, prefix: str = "") -> tuple[Topic, ...]:
    """List the topics with a word in their name or in the title of what holds, each with that, in alphabetical order.

    Decisions that state no topic come last, by the numbers in front of their headings or file names, then by headings:
    one entry for all that their links join (`graph.family`), which goes by its file name too.
    """
    key = topic_key(prefix)
    by_topic: dict[str, list[Node]] = defaultdict(list)
    loose: list[Node] = []
    for node in store.nodes():
        if node.type == DECISION and not node.key:
            loose.append(node)
        elif node.type == DECISION:
            by_topic[node.key].append(node)
    resolved, around, _ = graph.neighbourhood(store, (*(n for nodes in by_topic.values() for n in nodes), *loose))
    found = [_topic(by_topic[name], resolved, around, name) for name in sorted(by_topic)]
    joined = [_topic(group, resolved, around) for group in _groups(resolved, loose)]
    joined = [one._replace(path=store.shown(one.path)) for one in joined]
    shown = (*found, *sorted(joined, key=_place))
    return tuple(one for one in shown if any(key in topic_key(name) for name in (one.topic, one.title, _file(one))))


def _place(topic: Topic) -> tuple[int, str]:
    """By the number in front of the title, or of the file name; those without one come after."""
    number = _NUMBERED.match(topic.title) or _NUMBERED.match(_file(topic))
    return int(number[1]) if number else 100_000, topic_key(topic.topic)


def _file(topic: Topic) -> str:
    return topic.path.rpartition("/")[2].removesuffix(".md")


def topic_keys(store: Store, part: str) -> tuple[str, ...]:
    """The topics that have these words in them: those that begin with them first, then by number of decisions."""
    wanted = topic_key(part)
    found = sorted(store.index.terms("topic"), key=lambda one: (not one[0].startswith(wanted), -one[1], one[0]))
    return tuple(key for key, _ in found if wanted in key)


def decision_ids(store: Store, part: str) -> tuple[str, ...]:
    """The ids of the RECENT newest decisions that have these characters in their id or title, the newest first."""
    wanted = part.strip().casefold()
    nodes = _newest(store, Filter(types=(DECISION,)), RECENT)
    return tuple(node.id for node in nodes if wanted in node.id or wanted in node.title.casefold())


def status(store: Store, *, behind: bool) -> dict[str, Any]:
    """How the memory stands: counts by type, topics, index, what waits for a commit, how many problems.

    Args:
        store: the parts.
        behind: whether the last look at the files failed.
    """
    counts = {kind: store.index.count(Filter(types=(kind,))) for kind in TYPES}
    topics = {node.key for node in store.nodes() if node.type == DECISION and node.key}
    resolved = graph.resolve(n for n in store.nodes() if n.type == DECISION)
    verified = store.index.verify()
    return {
        "store": store.name,
        "records": counts,
        "topics": len(topics),
        "forked": sum(resolved.chain(topic).is_forked for topic in topics),
        "index": {
            "state": "damaged: " + "; ".join(verified)
            if verified
            else store.index.stale or ("not in step" if behind else "in step"),
            "records": sum(counts.values()),
            "model": store.index.model,
            "folder": str(store.index.root),
        },
        "unshared": _unshared(store),
        **({"unresolved": unresolved} if (unresolved := _unresolved(store)) else {}),
        **({"gone": gone} if (gone := _gone(store)) else {}),
        **({"stray": stray._asdict()} if (stray := astray.of(store)) else {}),
        **({"ignored": ignored} if (ignored := obstacles.ignored(store.repo, store.files.store)) else {}),
        "pending": [
            {
                "kind": WORDS.get(op.kind, op.kind),
                "path": store.shown(op.path),
                "reason": op.reason,
                "age": _age(op.age_s),
            }
            for op in store.saver.pending()
        ],
    }


def _gone(store: Store) -> list[dict[str, str]]:
    """The records that HEAD has and the work tree lost, each with the command that brings it back."""
    lost = uncommitted.gone(store, store.index.manifest())
    return [{"path": store.shown(path), "restore": command} for path, command in lost.items()]


def _unresolved(store: Store) -> dict[str, Any]:
    """The records that a merge or the like has left for the user to resolve, and what is in progress, if anything."""
    paths = map(store.files.inside, store.repo.index.unmerged(store.files.store))
    named = [store.shown(path) for path in paths if is_listed(path)]
    return {"reason": store.repo.state(time.time()), "paths": named} if named else {}


def _unshared(store: Store) -> int:
    """How many commits of a branch that is only a memory are not on the other side yet, as far as is known here."""
    if store.files.store != home.TOP or (head := store.repo.head()) is None:
        return 0
    sharing, branch = store.repo.sharing, store.repo.branch() or home.branch_of(store.code, store.config)
    where = (sharing.upstream(branch) or sharing.usual(branch)) if branch else None
    return len(sharing.unpublished(head, sharing.tracked(where))) if where else 0


def _age(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{int(seconds)} s"


def _topic(nodes: Iterable[Node], resolved: Graph, around: dict[str, Node], key: str = "") -> Topic:
    members = sorted(nodes, key=lambda node: node.created)
    ids = [node.id for node in members]
    heads = resolved.holding(key) if key else graph.ends(resolved, ids)
    held = [around[head] for head in heads]
    forked = len(held) > 1 and all(key and node.key == key for node in held)
    newest = max(held, key=lambda node: node.created, default=None)
    last = members[-1]
    # A heading names what holds, a topic all of the chain, whatever that went on under.
    named = newest if newest and not key and not newest.stated else last
    contest = "" if forked else graph.contest(held, key)
    title = newest.title if newest else ""
    vacancy = "" if heads else graph.vacancy(resolved, around, ids)
    path = "" if key else named.path
    return Topic(named.topic, len(members), heads, title, last.created, last.stated, forked, contest, vacancy, path)


def _groups(resolved: Graph, loose: Iterable[Node]) -> Iterable[list[Node]]:
    """Decisions without a topic, those together that belong together."""
    left = {node.id: node for node in loose}
    while left:
        yield [left.pop(one) for one in graph.family(resolved, next(iter(left.values()))) if one in left]


def _author(store: Store) -> str:
    """The user's name as Git knows it; empty where it knows none."""
    try:
        return store.repo.identity()[0].name
    except BadInput:
        return ""


def _best(store: Store, query: str) -> Node | None:
    if not query:
        return next(iter(_newest(store, Filter(), 1)), None)
    found = searching.search(store, query, Filter(), limit=1).hits
    return finding.find(store, found[0].record.id) if found else None


def _newest(store: Store, wanted: Filter, limit: int) -> list[Node]:
    return [Node.loads(text) for text in store.index.newest(wanted, limit)]


def _oldest(store: Store, since: int, limit: int) -> list[Node]:
    """The first records from a moment on, oldest first: the end of the newest-first listing."""
    wanted = Filter(since=since)
    there = store.index.count(wanted)
    texts = store.index.newest(wanted, limit, max(0, there - limit))
    return [Node.loads(text) for text in reversed(texts)]
