"""One state of the memory, whole: every record read afresh, each alone and then all together. The index is not asked.

Rule: a state is a value, and what is wrong with it follows from it alone, so that two states can be compared: what a
branch brings is what is wrong after it and was not before.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from filemem import secrets
from filemem.chain import Graph
from filemem.config import MAX_FILE, REPOSITORY_FILE, own_branch, stated_store
from filemem.documents import Birth, Node, node_of
from filemem.files import MAX_SIZE, is_listed, is_private, names
from filemem.lint import lint, lint_other
from filemem.memory import graph, home, phrases, tombstones
from filemem.memory.identities import WHOSE, Claim, Landing, known_as, owners
from filemem.memory.names import Names
from filemem.memory.origins import Origins
from filemem.memory.store import Store
from filemem.record import (
    DECISION,
    Parsed,
    Problem,
    Record,
    derived_id,
    format_time,
    namesake,
    short_id,
    topic_key,
)

DAY = 86_400_000  # milliseconds; clocks differ, but not by more
PRIVATE = "private"
# Of a header as a whole: the line that the parser names need not be the one that is wrong.
_UNREADABLE = frozenset(("yaml-syntax", "toml-syntax", "json-syntax", "header-unclosed", "header-not-mapping"))


class State(NamedTuple):
    """What a state of the memory is made of. Paths are relative to the store.

    Args:
        data: the bytes of every record.
        tracked: blob ids of all regular files that Git has, records and others.
        past: what Git says of the files.
        marks: what is forgotten.
        landing: tells what came first.
    """

    data: Mapping[str, bytes]
    tracked: Mapping[str, str]
    past: Origins
    marks: frozenset[str]
    landing: Landing


class Finding(NamedTuple):
    """A problem, and what makes it the same one in another state, wherever its file stands there by then.

    Args:
        problem: as it is shown.
        about: id of the record, or path of the file.
        what: what is wrong with it: a line's own words, or who else takes part.
    """

    problem: Problem
    about: str
    what: tuple[str, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same problem in two states."""
        return self.problem.code, self.problem.level, self.about, self.what


class Survey(NamedTuple):
    """A state as it was read.

    Args:
        records: by path, each under the id that is its own; without what is forgotten.
        nodes: decisions, by id.
        resolved: which of them hold.
        past: what Git says of the files.
        findings: what is wrong.
    """

    records: Mapping[str, Record]
    nodes: Mapping[str, Node]
    resolved: Graph
    past: Origins
    findings: Sequence[Finding]

    @property
    def by_id(self) -> Mapping[str, Record]:
        """The records by id."""
        return {record.id: record for record in self.records.values()}


class Surveyor:
    """Reads states of one store; what two of them have in common is read once.

    Args:
        store: the parts.
        here: paths of the records that are checked out; a fork with others comes only with the merge.
        ours: paths that a fork is told at, where they take part in it.
    """

    def __init__(self, store: Store, here: Collection[str], ours: Collection[str] = ()) -> None:
        self._store, self._here, self._ours = store, here, ours
        self._parsed: dict[tuple[str, str, bytes], Parsed] = {}

    def survey(self, state: State) -> Survey:
        """Read a state and say what is wrong with it."""
        parsed = {path: self._read(path, data, state) for path, data in state.data.items()}
        records = {path: one.record for path, one in parsed.items() if one.record is not None}
        hidden = {path for path, record in records.items() if tombstones.forgotten(record.id, state.marks)}
        findings = [self._forgotten(records.pop(path)) for path in sorted(hidden)]
        read, together = self._together(records, state)
        topics: dict[str, dict[str, str]] = {}
        for path, record in records.items():
            if record.topic_stated:
                topics.setdefault(posixpath.dirname(path), {})[topic_key(record.topic)] = record.topic
        for path, one in parsed.items():
            rows = state.data[path].decode(errors="replace").splitlines() if one.problems else []
            about = read[path].id if path in read else path
            for problem in one.problems:
                line = rows[problem.line - 1].strip() if problem.line <= len(rows) else ""
                what = (problem.message, *([line] if problem.code not in _UNREADABLE else []))
                findings.append(Finding(_joining(problem, topics), about, what))
        findings += [finding for path, one in read.items() for finding in self._ahead(one, state.past.births.get(path))]
        findings += [*together.findings, *self._for_git(state, read), *self._secrets(state), *self._settings(state)]
        findings += self._names({*state.data, *state.tracked})
        return together._replace(findings=findings)

    def _read(self, path: str, data: bytes, state: State) -> Parsed:
        birth = state.past.births.get(path)
        asked = (path, birth.name if birth else "", data)
        if asked not in self._parsed:
            self._parsed[asked] = lint(path, data, asked[1])
        return self._parsed[asked]

    def _together(self, stated: Mapping[str, Record], state: State) -> tuple[Mapping[str, Record], Survey]:
        """What can be seen only across files: ids used twice, links to nothing, circles, forks."""
        births = state.past.births
        claims = [Claim.of(record, births.get(path, Birth())) for path, record in stated.items()]
        ids, owner = known_as(claims, state.landing), owners(claims, state.landing)
        records = {path: record._replace(id=ids[path]) for path, record in stated.items()}
        hidden = {path for path, one in ids.items() if tombstones.forgotten(one, state.marks)}
        found = [self._forgotten(records.pop(path)) for path in sorted(hidden)]
        found += [self._duplicate(stated[p], r, owner, births) for p, r in records.items() if r.id != stated[p].id]
        names = Names(self._store, records.values(), births)
        nodes = {
            path: node_of(one, births.get(path, Birth()), partial(names.resolve, path=path))
            for path, one in records.items()
        }
        by_id = {node.id: node for node in nodes.values() if node.type == DECISION}
        gone = _gone(by_id, {node.id for node in nodes.values()})
        removed = self._removed(gone, state)
        titles = {record.id: record.title for record in records.values()}
        asked = names.several(gone).items()
        several = {reference: phrases.listed((titles[one], one) for one in sorted(ids)) for reference, ids in asked}
        resolved = graph.resolve(by_id.values(), removed=removed, unrelated=self._store.unrelated, several=several)
        for flaw in resolved.problems:
            problem = Problem(by_id[flaw.node].path, 1, flaw.code, flaw.level, flaw.message)
            found.append(Finding(problem, flaw.node, (flaw.message,)))
        for node in by_id.values():
            for kind, target, _ in node.edges:
                if target in gone:
                    what = f"several have it: {several[target]}" if target in several else "there is no such record"
                    problem = Problem(node.path, 1, "dangling-edge", "warning", f"{kind} {target}: {what}")
                    found.append(Finding(problem, node.id, (kind, target)))
        found += self._forks(by_id, resolved)
        return records, Survey(records, by_id, resolved, state.past, found)

    def _removed(self, references: Collection[str], state: State) -> frozenset[str]:
        """The references to what was removed on purpose: by a tombstone, or where a commit removed the file."""
        forgotten = (one for one in references if tombstones.forgotten(one, state.marks))
        names = self._names_of_lost(references, state.past)
        return frozenset((*forgotten, *(one for one in references if one in names or short_id(one) in names)))

    def _names_of_lost(self, wanted: Collection[str], past: Origins) -> frozenset[str]:
        """The names of files that history shows to have been removed: path, id, and the short id in a file name."""
        if not wanted:
            return frozenset()
        inside, versions = self._store.files.inside, self._store.versions()
        gone = [one for one in past.lost if inside(one.path) in past.removed]
        versions.know(one.blob for one in gone)
        ids = {derived_id(namesake(inside(one.first_path), one.nth)) for one in past.lost}
        ids |= {versions.stated(one.path, one.blob) for one in gone}
        short = {posixpath.basename(path)[:-3].rpartition("-")[2] for path in past.removed}
        return frozenset({*past.removed, *ids, *short, *map(short_id, ids)} - {""})

    def _forgotten(self, record: Record) -> Finding:
        text = f"{record.id} was forgotten, so it is hidden: remove the file, or filemem restore it"
        return Finding(Problem(record.path, 1, "forgotten", "warning", text), record.id, ())

    def _duplicate(
        self, stated: Record, known: Record, owner: Mapping[str, str], births: Mapping[str, Birth]
    ) -> Finding:
        other = self._store.shown(owner[stated.id])
        whose = (
            f"the id {stated.id} belongs to {other}" if stated.id_stated else f"{other} is known by this file's name"
        )
        text = f"{whose}; this file is known as {known.id}: give it its own id, or git rm it if it is a copy"
        if all(births.get(path, Birth()).unseen for path in (owner[stated.id], known.path)):
            whose = f"{other} claims the id {stated.id} too, and {WHOSE}"
            text = f"{whose} but in a clone with all of history; until then this file is known as {known.id}"
        level = "error" if stated.id_stated else "hint"
        return Finding(Problem(known.path, 1, "duplicate-id", level, text), known.id, (stated.id,))

    def _forks(self, by_id: Mapping[str, Node], resolved: Graph) -> Iterator[Finding]:
        topics = {node.key: node for node in by_id.values() if node.key}
        for key, node in sorted(topics.items()):
            heads = resolved.chain(key).heads
            if len(heads) > 1:
                here = next((head for head in reversed(heads) if by_id[head].path in self._ours), heads[-1])
                others = ", ".join(self._store.shown(by_id[head].path) for head in heads if head != here)
                verb = "holds" if len(heads) == 2 else "hold"
                later = any(by_id[head].path not in self._here for head in heads)
                once, first = (
                    (" once this is merged", "merge the other side into this one, then ") if later else ("", "")
                )
                text = f"topic {node.topic} is forked{once}: {others} also {verb}; {first}{phrases.ending(node.topic)}"
                problem = Problem(by_id[here].path, 1, "forked-topic", "warning", text)
                yield Finding(problem, key, tuple(sorted(heads)))

    def _ahead(self, record: Record, birth: Birth | None) -> Iterator[Finding]:
        """What no later record or outcome can take the place of, since its date is still to come."""
        last = max((entry.at for entry in record.outcomes), default=0)
        made = birth.at if birth and record.created is None else 0
        for code, at, what in (
            ("future-outcome", last, "the outcome of {0} lies ahead, and holds whatever follows: correct its date"),
            ("future-created", record.created or 0, "it was created on {0}, which lies ahead: correct the date"),
            ("future-created", made, "it was committed on {0}, which lies ahead: state when it was made (`created`)"),
        ):
            if at > self._store.clock() + DAY:
                text = what.format(format_time(at)[:10])
                yield Finding(Problem(record.path, 1, code, "warning", text), record.id, (text,))

    def _for_git(self, state: State, records: Mapping[str, Record]) -> Iterator[Finding]:
        """Private files that Git has."""
        for path in state.tracked:
            record = records.get(path)
            stated = record is not None and record.visibility == PRIVATE
            if stated or (is_private(path) and not posixpath.basename(path).startswith(".")):
                text = "is private, and Git has it: git rm --cached it, and purge it from history if it was pushed"
                yield Finding(Problem(path, 1, "private-committed", "error", text), path, ())

    def _secrets(self, state: State) -> Iterator[Finding]:
        """Secrets where no record is: in the names of files, and in files that are no records."""
        paths = sorted({*state.data, *state.tracked})
        for found in secrets.find("\n".join(paths)):
            path = paths[found.line - 1]
            text = f"the name of a file in here looks like a secret ({found.kind}): rename it, and revoke it"
            yield Finding(Problem(posixpath.dirname(path), 1, "secret", "error", text), path, ())
        for path, blob in state.tracked.items():
            if not is_listed(path):
                yield from self._in_other(path, self._store.repo.blob(blob, MAX_SIZE) or b"")

    def _names(self, paths: Collection[str]) -> Iterator[Finding]:
        """Names of files and folders that mislead a reader, or that other systems cannot have."""
        entries = names.entries(paths)
        for path in sorted(entries):
            if problem := names.of(path):
                yield Finding(problem, path, (problem.code,))
        ours = names.entries(self._ours)
        for several in names.clashes(entries):
            at = next((path for path in reversed(several) if path in ours), several[-1])
            yield Finding(names.clash(several, at), several[0], several)

    def _settings(self, state: State) -> Iterator[Finding]:
        """Settings in a branch of its own that would make part of it the memory, wherever it is read by itself."""
        blob = state.tracked.get(REPOSITORY_FILE) if self._store.alone else None
        data = (self._store.repo.blob(blob, MAX_FILE) if blob else None) or b""
        if data and (stated_store(data) != home.TOP or own_branch(data)):
            text = f'passed over, for all of this branch is the memory: let it say `store = "{home.TOP}"` alone'
            yield Finding(Problem(REPOSITORY_FILE, 1, "own-settings", "warning", text), REPOSITORY_FILE, (text,))

    def _in_other(self, path: str, data: bytes) -> Iterator[Finding]:
        rows = data.decode(errors="replace").split("\n")
        for found in lint_other(path, data):
            yield Finding(found, path, (rows[found.line - 1].strip(),))


def _joining(problem: Problem, topics: Mapping[str, Mapping[str, str]]) -> Problem:
    """Name the topic that a decision without one would join, where its folder is that of one topic.

    Args:
        problem: any.
        topics: those that are stated, by folder and identity.
    """
    folder = posixpath.dirname(problem.path)
    there = topics.get(folder, {})
    if problem.code != "no-topic" or not folder.startswith("decisions/") or len(there) > 1:
        return problem
    topic = next(iter(there.values()), folder.removeprefix("decisions/").replace("/", "_"))
    return problem._replace(message=f"states no topic; add `topic: {topic}` to join the topic of its folder")


def _gone(nodes: Mapping[str, Node], known: set[str]) -> set[str]:
    targets = {t for node in nodes.values() for t in (*graph.supersession(node), *(edge[1] for edge in node.edges))}
    return targets - known
