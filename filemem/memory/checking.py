"""What is wrong with the records: every file read afresh, each alone and then all together. The index is not asked."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping

from filemem.chain import Graph
from filemem.documents import Birth, Node, node_of
from filemem.errors import NotFound
from filemem.lint import lint
from filemem.memory import graph, meant, obstacles, reviewing, tombstones
from filemem.memory.origins import origins
from filemem.memory.reviewing import Read
from filemem.memory.store import Store
from filemem.record import (
    DECISION,
    Problem,
    Record,
    derived_id,
    format_time,
    reference_index,
    resolve_reference,
    short_id,
)

DAY = 86_400_000  # milliseconds; clocks differ, but not by more


def check(
    store: Store, paths: Iterable[str], base: str = "", *, drift: bool = False
) -> tuple[int, tuple[Problem, ...]]:
    """Read every record and say what is wrong.

    Args:
        store: the parts.
        paths: report only these files or folders (store-relative or below the work tree); all where none is given.
        base: report only what changed since this branch left that revision; empty for everything.
        drift: tell also of governed code that changed but is not largely rewritten, as hints.

    Returns:
        How many files were read, and the problems by path and line.

    Raises:
        BadInput: this branch has no commit in common with `base`.
        NotFound: a path that holds no record, or no such revision.
    """
    manifest, problems = store.files.scan({}, hash_name=store.repo.hash_name)
    left = reviewing.since(store, base, manifest) if base else None
    records: dict[str, Record] = {}
    for path in manifest:
        parsed = lint(path, store.bytes_of(path))
        problems += parsed.problems
        if parsed.record is not None:
            records[path] = parsed.record
    known = store.tombstones
    hidden = [path for path, record in records.items() if tombstones.forgotten(record.id, known)]
    topics = {posixpath.dirname(path): record.topic for path, record in records.items() if record.topic_stated}
    problems = [_joining(problem, topics) for problem in problems]
    ours = left.records | {""} if left else frozenset()
    for path in hidden:
        if left and tombstones.forgotten(records[path].id, left.marks):
            ours |= {path}
        text = f"{records.pop(path).id} was forgotten, so it is hidden: remove the file, or filemem restore it"
        problems.append(Problem(path, 1, "forgotten", "warning", text))
    read, found = _together(store, records, ours)
    problems += [*found, *_ahead(store, records)]
    if unseen := obstacles.unseen(store):
        problems.append(Problem("", 1, "sparse-checkout", "hint", unseen))
    if left:
        problems = [problem for problem in problems if problem.path in ours]
    problems += reviewing.problems(store, read, left, drift)
    wanted = [_relative(store, path, manifest) for path in paths]
    shown = [p for p in problems if not wanted or any(p.path == w or p.path.startswith(f"{w}/") for w in wanted)]
    named = [problem._replace(path=store.shown(problem.path)) for problem in shown]
    return len(manifest), tuple(sorted(named, key=lambda p: (p.path, p.line, p.code, p.message)))


def _relative(store: Store, path: str, manifest: Iterable[str]) -> str:
    inside = store.asked(path.strip("/")) if path.strip("/") != store.name else ""
    if inside and not any(known == inside or known.startswith(f"{inside}/") for known in manifest):
        raise NotFound(f"{path}: no record there", f"name a file or folder below {store.name}/")
    return inside


def _ahead(store: Store, records: Mapping[str, Record]) -> Iterable[Problem]:
    """Outcomes that no later one can take the place of, since their dates are still to come."""
    for path, record in records.items():
        last = max((entry.at for entry in record.outcomes), default=0)
        if last > store.clock() + DAY:
            text = f"the outcome of {format_time(last)[:10]} lies ahead, and holds whatever follows: correct its date"
            yield Problem(path, 1, "future-outcome", "warning", text)


def _joining(problem: Problem, topics: Mapping[str, str]) -> Problem:
    """Name the topic that a decision without one would join, for its folder is that of a topic; `topics` by folder."""
    folder = posixpath.dirname(problem.path)
    if problem.code != "no-topic" or not folder.startswith("decisions/"):
        return problem
    topic = topics.get(folder) or folder.removeprefix("decisions/").replace("/", "_")
    return problem._replace(message=f"states no topic; add `topic: {topic}` to join the topic of its folder")


def _together(store: Store, records: Mapping[str, Record], ours: Collection[str]) -> tuple[Read, list[Problem]]:
    """What can be seen only across files: ids used twice, links to nothing, circles, forks.

    Args:
        store: the parts.
        records: by path.
        ours: paths that a fork is told at, where they take part in it.
    """
    past = origins(store)
    births = past.births
    owner, found = _owners(store, records, births)
    unique = {p: r if owner[r.id] == p else r._replace(id=derived_id(p)) for p, r in records.items()}
    index = reference_index(list(unique.values()))
    nodes = {
        p: node_of(r, births.get(p, Birth()), lambda ref: resolve_reference(ref, index)) for p, r in unique.items()
    }
    by_id = {node.id: node for node in nodes.values() if node.type == DECISION}
    gone = _gone(by_id, {node.id for node in nodes.values()})
    resolved = graph.resolve(by_id.values(), removed=_removed(gone, past.removed), unrelated=store.unrelated)
    found += [Problem(by_id[flaw.node].path, 1, flaw.code, flaw.level, flaw.message) for flaw in resolved.problems]
    found += [
        Problem(node.path, 1, "dangling-edge", "warning", f"{kind}: there is no record {target}")
        for node in by_id.values()
        for kind, target, _ in node.edges
        if target in gone and kind != "synthesizes"
    ]
    found += _forks(store, by_id, resolved, ours)
    return Read(records, by_id, resolved, past), found


def _owners(
    store: Store, records: Mapping[str, Record], births: Mapping[str, Birth]
) -> tuple[dict[str, str], list[Problem]]:
    """The file that each id belongs to, and the files that use the id of another."""
    owner: dict[str, str] = {}
    found = []
    for path, record in sorted(records.items(), key=lambda item: (_age(item[1], births), item[0])):
        first = owner.setdefault(record.id, path)
        if first != path:
            text = (
                f"the id {record.id} belongs to {store.shown(first)}; "
                f"this file is known as {derived_id(path)}: give it its own id"
            )
            found.append(Problem(path, 1, "duplicate-id", "error", text))
    return owner, found


def _forks(store: Store, by_id: Mapping[str, Node], resolved: Graph, ours: Collection[str]) -> Iterable[Problem]:
    topics: dict[str, Node] = {node.key: node for node in by_id.values() if node.key}
    for key, node in sorted(topics.items()):
        heads = resolved.chain(key).heads
        if len(heads) > 1:
            here = next((head for head in reversed(heads) if by_id[head].path in ours), heads[-1])
            others = ", ".join(store.shown(by_id[head].path) for head in heads if head != here)
            verb = "holds" if len(heads) == 2 else "hold"
            text = f"topic {node.topic} is forked: {others} also {verb}; {meant.ending(node.topic)}"
            yield Problem(by_id[here].path, 1, "forked-topic", "warning", text)


def _age(record: Record, births: Mapping[str, Birth]) -> tuple[bool, int]:
    """What is committed counts as older than what is not."""
    birth = births.get(record.path)
    return birth is None, birth.at if birth else record.created or 1 << 62


def _gone(nodes: Mapping[str, Node], known: set[str]) -> set[str]:
    targets = {t for node in nodes.values() for t in (*graph.supersession(node), *(edge[1] for edge in node.edges))}
    return targets - known


def _removed(references: Iterable[str], paths: Iterable[str]) -> frozenset[str]:
    """The references whose file Git's history shows to have been removed: by path, or by the id in its name."""
    names = {part for path in paths for part in (path, posixpath.basename(path)[:-3].rpartition("-")[2])}
    return frozenset(ref for ref in references if ref in names or short_id(ref) in names)
