"""The values a record is made of, in the words of docs/format.md. Nothing is read or written."""

from collections.abc import Mapping
from typing import NamedTuple

from filemem.record.guards import Guard

DECISION = "decision"
CHECKPOINT = "checkpoint"
OBSERVATION = "observation"
TYPES = (DECISION, CHECKPOINT, OBSERVATION)
STATUSES = ("proposed", "accepted", "rejected", "deprecated")
UNKNOWN = "unknown"  # a status that is stated and not understood; such a decision never holds
UNKNOWN_STATUS = "unknown-status"  # the problem that it is one
OUTCOMES = ("pending", "success", "partial", "failed")
DECIDERS = ("user", "assistant")
KINDS = ("decision", "bugfix", "feature", "refactor", "discovery", "change", "memory", "context")
VISIBILITIES = ("private", "department", "project", "public")
EDGE_KINDS = ("supersedes", "builds_on", "debates", "synthesizes")


_LEVELS = ("error", "warning", "hint")


class Problem(NamedTuple):
    """What is wrong with a file: shown by `check`, returned by reads, never raised."""

    path: str  # "" until the whole file is read
    line: int  # 1-based; 1 where the whole file is meant
    code: str  # stable, lower case with dashes: "yaml-syntax", "duplicate-key", ...
    level: str  # "error" (a value is lost), "warning" (a value is wrong), "hint" (could be better)
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.code} {self.message}"

    @property
    def sort_key(self) -> tuple[int, str, int, str, str]:
        """What problems are sorted by wherever they are shown: the worst first, then by place."""
        return _LEVELS.index(self.level), self.path, self.line, self.code, self.message


class Outcome(NamedTuple):
    """One line of the outcome log: when (epoch milliseconds, UTC), what came of it, and why."""

    at: int
    outcome: str
    reason: str = ""


IN_HEADER = "front matter"  # the reason of an edge that the header states


class Edge(NamedTuple):
    """A link from one decision to another. `reason` quotes where it is stated."""

    kind: str
    target: str
    reason: str = ""


class Record(NamedTuple):
    """One Markdown file: a decision, a checkpoint or an observation.

    docs/format.md has the meaning of each key. Times are epoch milliseconds, UTC. `path` is
    relative to the store, with `/`. `title` is the heading; `text` what stands below it outside the
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
    # Of an import: system, id, and hash, the digest of what was written.
    source: str | Mapping[str, str] = ""
    secrets_allowed: bool = False
    # decision
    topic: str = ""
    topic_stated: bool = False  # False: taken from the heading, never part of implied supersession
    decision: str = ""  # the whole decision: `## Decision` where it stands, else the heading
    status: str = "accepted"  # or `UNKNOWN`
    status_written: str = ""  # where it is unknown: as the file states it
    confidence: float | None = None
    outcome: str = "pending"
    outcomes: tuple[Outcome, ...] = ()  # oldest first
    limitation: str = ""
    decided_by: str = ""
    supersedes: tuple[str, ...] | None = None  # None: no such key, supersession may be implied
    builds_on: tuple[str, ...] = ()
    debates: tuple[str, ...] = ()
    synthesizes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()  # by records of other makers; we never write it
    mentions: tuple[Edge, ...] = ()  # edges stated in the reasoning: `builds_on: decision_x`
    affects: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()  # what its code must or must not hold
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
    extra: Mapping[str, object] = {}  # unknown keys, as found
    id_stated: bool = True  # False: derived from the path

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge this record states, front matter first, each target once per kind."""
        stated_edges = [
            Edge(kind, target, IN_HEADER)
            for kind in EDGE_KINDS
            for target in (getattr(self, kind) or ())
        ]
        stated_keys = {(edge.kind, edge.target) for edge in stated_edges}
        return (
            *stated_edges,
            *(edge for edge in self.mentions if (edge.kind, edge.target) not in stated_keys),
        )


class ParsedRecord(NamedTuple):
    """What a file says, and what is wrong with it; without a record if nothing can be read."""

    record: Record | None
    problems: tuple[Problem, ...] = ()
