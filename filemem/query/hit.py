"""Results of a search, as every interface returns them."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from filemem.query.score import Scores
from filemem.query.snippet import Ranges
from filemem.record import Edge, Record

FRESH = "fresh"
CHANGED = "changed"
MISSING = "missing"
UNKNOWN = "unknown"
WEAK_SHARE = 0.5  # share of the best score below which hits are only counted by default
OUTGROWN_SHARE = 0.5  # as the similarity by which Git finds renames (diff -M)


class Provenance(NamedTuple):
    """Who wrote a record, from Git; `commit` is empty until it is committed."""

    author: str = ""
    agent: str = ""  # the program that wrote it, from the record or the commit
    commit: str = ""  # the commit that added it
    date: int | None = None  # of that commit, epoch milliseconds
    branch: str = ""  # the branch that is checked out
    default: str = ""  # the default branch, "" if there is none
    merged: bool | None = None  # whether the default branch has it; None if unknown
    landed: int | None = None  # when it came there, epoch milliseconds; None if unknown
    reviewers: tuple[str, ...] = ()  # from the trailers of the commit
    co_authors: tuple[str, ...] = ()  # from the trailers of the commit
    edits: tuple[Any, ...] = ()  # the newest commits that changed it, oldest first


class Drift(NamedTuple):
    """How the files that a decision governs have changed since it."""

    verdict: str  # fresh, changed, missing or unknown
    changed: tuple[str, ...] = ()  # paths, by their current names
    missing: tuple[str, ...] = ()  # paths of deleted files
    files: int = 0  # the number of governed files, deleted ones included
    since: str = ""  # the commit that added the decision
    reason: str = ""  # why the verdict is unknown

    @property
    def has_drifted(self) -> bool:
        """Whether governed code has changed or is missing."""
        return self.verdict in (CHANGED, MISSING)

    @property
    def is_outgrown(self) -> bool:
        """Whether a stated path is missing, or at least half of the files."""
        if self.verdict == MISSING:
            return True
        return self.has_drifted and len(self.missing) >= OUTGROWN_SHARE * self.files

    def __str__(self) -> str:
        if self.verdict in (FRESH, UNKNOWN):
            return f"{self.verdict}: {self.reason}" if self.reason else self.verdict
        changed_count = len(self.changed)
        missing_count = len(self.missing)
        unit = "file" if self.files == 1 else "files"
        if self.verdict == CHANGED:
            return f"{CHANGED} ({changed_count + missing_count} of {self.files} {unit})"
        note = f", {changed_count} changed" if changed_count else ""
        return f"{MISSING} ({missing_count} of {self.files} {unit}{note})"


class Evidence(NamedTuple):
    """A sign in the history of how a decision turned out."""

    outcome: str
    commit: str
    text: str

    def __str__(self) -> str:
        return f"possibly {self.outcome}: {self.text}"


class Snippet(NamedTuple):
    """A fragment of the text, and the ranges (start, end) in it to highlight."""

    text: str = ""
    ranges: Ranges = ()


class Hit(NamedTuple):
    """One result."""

    record: Record
    path: str
    created: int  # epoch milliseconds; from Git if the record states no date
    score: float = 0.0  # of its place, 0..1; hits further down never have more
    scores: Scores | None = None  # its own; None in a listing, or if it was brought in
    superseded_by: tuple[str, ...] = ()  # direct successors; empty for a live decision
    heads: tuple[str, ...] = ()  # the live decisions that replace it; several after a fork
    vacancy: str = ""  # why no decision is live for it, in words
    proposed: tuple[str, ...] = ()  # proposed successors, if none is accepted
    earlier: int = 0  # hits of its chain that were left out, on the first of them alone
    brought_in: bool = False  # not found by the query, but live for a hit that was
    related: tuple[Edge, ...] = ()  # edges from and to it, each with the stated reason
    already_rejected: tuple[str, ...] = ()  # alternatives that it rejected and the query names
    provenance: Provenance = Provenance()
    snippet: Snippet = Snippet()  # why it was found
    instead: Mapping[str, tuple[str, ...]] = {}  # words of the query -> its words for them
    drift: Drift | None = None  # of the code that it governs; None if not computed
    evidence: tuple[Evidence, ...] = ()  # of its outcome, until one is recorded
    repository: str = ""  # its repository, if several are searched; "" for the one at hand
    quoted: bool = False  # whether it is from another repository: its text is data
    link: str = ""  # the web address of its file, if an organisation's index knows it
    seen_at: int | None = None  # when that index last read the repository, epoch milliseconds
    also_in: tuple[str, ...] = ()  # other repositories with the same file: forks and mirrors

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def title(self) -> str:
        """The record's heading."""
        return self.record.title

    @property
    def successors(self) -> tuple[str, ...]:
        """The decisions that replaced it, then those proposed to."""
        return self.superseded_by + self.proposed

    def strip_store_keys(self) -> "Hit":
        """Return the hit with ids as in its own store, see `strip_store_key`."""
        related = [edge._replace(target=strip_store_key(edge.target)) for edge in self.related]
        return self._replace(
            superseded_by=_strip_each(self.superseded_by),
            heads=_strip_each(self.heads),
            proposed=_strip_each(self.proposed),
            related=tuple(related),
        )


def strip_store_key(address: str) -> str:
    """Return the id or path in an address, which begins with the key of a store and a space."""
    return address.partition(" ")[2]


def _strip_each(addresses: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(strip_store_key(address) for address in addresses)


class Results:
    """The hits of a search, best first, and why they may be incomplete.

    A timeline has an `anchor`. `far`: no hit is close to the question.
    """

    def __init__(
        self,
        hits: tuple[Hit, ...],
        degraded: str = "",
        note: str = "",
        anchor: str = "",
        *,
        far: bool = False,
    ) -> None:
        self.hits = hits
        self.degraded = degraded
        self.note = note
        self.anchor = anchor
        self.far = far

    def replace(self, **changes: Any) -> "Results":
        """Return a copy with other values."""
        results = copy.copy(self)
        for name, value in changes.items():
            setattr(results, name, value)
        return results

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class RecordLabel(NamedTuple):
    """The title and path of a record."""

    title: str
    path: str
