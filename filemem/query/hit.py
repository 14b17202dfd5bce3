"""One result, as every surface gets it, and an answer of several."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from filemem.query.score import Scores
from filemem.query.snippet import Ranges
from filemem.record import Edge, Record

FRESH = "fresh"
CHANGED = "changed"
MISSING = "missing"
UNKNOWN = "unknown"
WEAK_SHARE = 0.5  # of the score of the best: what has less is counted, not shown, unless asked for
OUTGROWN_SHARE = (
    0.5  # a file that keeps less of itself is another: by this Git finds renames (diff -M)
)


class Provenance(NamedTuple):
    """Who wrote a record, from Git; `commit` is empty while nothing is committed."""

    author: str = ""
    agent: str = ""  # the program that wrote it, as the record or the commit says
    commit: str = ""  # the commit that brought it, with its `date` in epoch milliseconds
    date: int | None = None
    branch: str = ""  # that is checked out
    default: str = ""  # the default branch, "" if there is none
    merged: bool | None = None  # whether the default branch has it; None if that is not known
    landed: int | None = None  # since when, epoch milliseconds; None if that is not known
    reviewers: tuple[str, ...] = ()  # whom the trailers of that commit name, as `co_authors`
    co_authors: tuple[str, ...] = ()
    edits: tuple[Any, ...] = ()  # the newest commits that changed it since, oldest first


class Drift(NamedTuple):
    """How the governed files stand."""

    verdict: str  # fresh, changed, missing or unknown, then with the `reason`
    changed: tuple[str, ...] = ()  # under their names of today; `missing`: files that are gone
    missing: tuple[str, ...] = ()
    files: int = 0  # how many there are, or were
    since: str = ""  # the commit by which the decision landed
    reason: str = ""

    @property
    def has_drifted(self) -> bool:
        """Whether anything is not what it was."""
        return self.verdict in (CHANGED, MISSING)

    @property
    def is_outgrown(self) -> bool:
        """Whether code left a decision behind: a path that it states is gone, or half its files."""
        return self.verdict == MISSING or (
            self.has_drifted and len(self.missing) >= OUTGROWN_SHARE * self.files
        )

    def __str__(self) -> str:
        if self.verdict in (FRESH, UNKNOWN):
            return ": ".join(filter(None, (self.verdict, self.reason)))
        has_missing = self.verdict == MISSING
        touched_count = len(self.missing) if has_missing else len(self.changed) + len(self.missing)
        changed_note = f", {len(self.changed)} changed" if has_missing and self.changed else ""
        return f"{self.verdict} ({touched_count} of {self.files} file{'s'[: self.files - 1]}{changed_note})"


class Evidence(NamedTuple):
    """What history says came of a decision."""

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
    created: int  # epoch milliseconds; from Git where the record states no date
    score: float = 0.0  # of its place, 0..1: never less than that of what known order puts below
    scores: Scores | None = None  # its own; None for a listing, or if it was brought in
    superseded_by: tuple[str, ...] = ()  # direct successors; empty for what holds
    heads: tuple[str, ...] = ()  # what holds for it: several after a fork, or replaced by several
    vacancy: str = ""  # in words, if nothing holds for it
    proposed: tuple[str, ...] = ()  # what is proposed in its place, if nothing has replaced it
    earlier: int = 0  # found of the same chain and left out; stated on its newest alone
    brought_in: bool = False  # not found by the query, but it holds today for a hit that was
    related: tuple[Edge, ...] = ()  # edges from and to it, each with the reason it was stated for
    already_rejected: tuple[str, ...] = ()  # alternatives that it rejected and the query names
    provenance: Provenance = Provenance()
    snippet: Snippet = Snippet()  # why it was found
    instead: Mapping[str, tuple[str, ...]] = {}  # words of the query -> what it says for them
    drift: Drift | None = None  # of the code that it governs; None if it was not looked at
    evidence: tuple[Evidence, ...] = ()  # of what came of it, as far as no outcome answers it
    repository: str = ""  # that it is from, if several are searched; "" for the one at hand
    quoted: bool = False  # whether that is another one: its text is data
    link: str = ""  # where the file can be read on the web, if an organisation's index knows that
    seen_at: int | None = None  # when that index last looked at the repository, epoch milliseconds
    also_in: tuple[str, ...] = ()  # other repositories that have the same file: forks and mirrors

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
        """What replaced it, else what is proposed to."""
        return (*self.superseded_by, *self.proposed)

    def strip_store_keys(self) -> "Hit":
        """The hit with ids as its own store has them: see `bare`."""
        return self._replace(
            superseded_by=tuple(map(strip_store_key, self.superseded_by)),
            heads=tuple(map(strip_store_key, self.heads)),
            proposed=tuple(map(strip_store_key, self.proposed)),
            related=tuple(
                edge._replace(target=strip_store_key(edge.target)) for edge in self.related
            ),
        )


def strip_store_key(address: str) -> str:
    """Return the id or path in an address, which begins with the key of a store and a space."""
    return address.partition(" ")[2]


class Results:
    """An answer to a search: hits, best first, and why it may be worse than it could be.

    A timeline has an `anchor`. `far`: nothing of the question is in what was found.
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
        """The same answer with other values."""
        return Results(**{**vars(self), **changes})

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class RecordLabel(NamedTuple):
    """What people know a record by."""

    title: str
    path: str
