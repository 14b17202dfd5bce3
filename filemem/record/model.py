"""The values of a record, in the words of docs/format.md."""

from collections.abc import Mapping
from typing import NamedTuple

from filemem.record.guards import Guard

DECISION = "decision"
CHECKPOINT = "checkpoint"
OBSERVATION = "observation"
TYPES = (DECISION, CHECKPOINT, OBSERVATION)
STATUSES = ("proposed", "accepted", "rejected", "deprecated")
UNKNOWN = "unknown"  # a status that is not understood; such a decision is never live
UNKNOWN_STATUS = "unknown-status"  # the code of its problem
OUTCOMES = ("pending", "success", "partial", "failed")
DECIDERS = ("user", "assistant")
KINDS = ("decision", "bugfix", "feature", "refactor", "discovery", "change", "memory", "context")
VISIBILITIES = ("private", "department", "project", "public")
EDGE_KINDS = ("supersedes", "builds_on", "debates", "synthesizes")


_LEVELS = ("error", "warning", "hint")


class Problem(NamedTuple):
    """A problem of a file: shown by `check`, returned by reads, never raised."""

    path: str  # "" until the whole file is read
    line: int  # 1-based; 1 for the whole file
    code: str  # stable, lower case with dashes: "yaml-syntax", "duplicate-key", ...
    level: str  # "error" (a value is lost), "warning" (a value is wrong), "hint" (could be better)
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.code} {self.message}"

    @property
    def sort_key(self) -> tuple[int, str, int, str, str]:
        """The order of problems wherever they are shown: the worst first, then by place."""
        return _LEVELS.index(self.level), self.path, self.line, self.code, self.message


class Outcome(NamedTuple):
    """One entry of the outcome log: its time (epoch milliseconds, UTC), the outcome and why."""

    at: int
    outcome: str
    reason: str = ""


IN_HEADER = "front matter"  # the reason of an edge in the header


class Edge(NamedTuple):
    """A link from one decision to another. `reason` quotes the text that states it."""

    kind: str
    target: str
    reason: str = ""


class Record(NamedTuple):
    """One Markdown file: a decision, a checkpoint or an observation.

    docs/format.md has the meaning of each key. Times are epoch milliseconds, UTC. `path` is
    relative to the store, with `/`. `title` is the heading; `text` is the text below it outside the
    known sections (a decision's reasoning, an observation's text).
    """

    id: str
    type: str
    path: str = ""
    title: str = ""
    text: str = ""
    created: int | None = None
    tags: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    # Of an import: system, id, and hash, the digest of the written bytes.
    source: str | Mapping[str, str] = ""
    secrets_allowed: bool = False
    # decision
    topic: str = ""
    topic_stated: bool = False  # False: taken from the heading, never part of implied supersession
    decision: str = ""  # the whole decision: `## Decision` if present, else the heading
    status: str = "accepted"  # or `UNKNOWN`
    status_written: str = ""  # an unknown status as the file states it
    confidence: float | None = None
    outcome: str = "pending"
    outcomes: tuple[Outcome, ...] = ()  # oldest first
    limitation: str = ""
    decided_by: str = ""
    supersedes: tuple[str, ...] | None = None  # None: no such key, supersession may be implied
    builds_on: tuple[str, ...] = ()
    debates: tuple[str, ...] = ()
    synthesizes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()  # in records of other tools; we never write it
    mentions: tuple[Edge, ...] = ()  # edges stated in the reasoning: `builds_on: decision_x`
    affects: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()  # what its code must or must not contain
    rejected: tuple[str, ...] = ()  # the items of `## Rejected`
    # checkpoint
    branch: str = ""
    open_files: tuple[str, ...] = ()
    next_steps: str = ""
    # observation
    kind: str = ""
    project: str = ""
    concepts: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    department: str = ""
    visibility: str = ""
    user_id: str = ""
    agent_id: str = ""
    run_id: str = ""
    scope: str = ""
    memory_type: str = ""
    metadata: Mapping[str, object] = {}
    extra: Mapping[str, object] = {}  # unknown keys, as read
    id_stated: bool = True  # False: derived from the path

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of this record, front matter first, each target once per kind."""
        edges: list[Edge] = []
        stated_links = set()
        for kind in EDGE_KINDS:
            for target in getattr(self, kind) or ():
                edges.append(Edge(kind, target, IN_HEADER))
                stated_links.add((kind, target))
        edges += [edge for edge in self.mentions if (edge.kind, edge.target) not in stated_links]
        return tuple(edges)


class ParsedRecord(NamedTuple):
    """The record in a file and its problems; no record if nothing can be read."""

    record: Record | None
    problems: tuple[Problem, ...] = ()
