"""One result, as every surface gets it: why it was found, where it stands, who wrote it; and an answer of several."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from filemem.query.evidence import Evidence
from filemem.query.excerpt import Ranges
from filemem.query.score import Scores
from filemem.record import Edge, Record

if TYPE_CHECKING:
    from filemem.query.drift import Drift


class Edit(Protocol):
    """A commit that changed a record; `filemem.documents.Edited` is one."""

    @property
    def commit(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def at(self) -> int: ...


class Provenance(NamedTuple):
    """Who wrote a record, from Git; `commit` is empty while nothing is committed.

    Args:
        author: name of the commit's author.
        agent: the program that wrote it, as the record or the commit says.
        commit: full id of the commit that brought it.
        date: of that commit, epoch milliseconds.
        branch: the branch that is checked out.
        default: the name of the default branch; empty where none can be told.
        merged: whether the default branch has the record; None where that is not known.
        differs: the default branch has another version of it.
        landed: since when the default branch has it, epoch milliseconds; None where that is not known.
        copied: it came there by another commit than its own, so that `landed` is not known: a squash, a rebase, a copy.
        reviewers, co_authors: whom the trailers of that commit name.
        edits: the newest of the commits that changed it since, oldest first.
        unsure: a partial clone lacks versions that may tell of an earlier author.
    """

    author: str = ""
    agent: str = ""
    commit: str = ""
    date: int | None = None
    branch: str = ""
    default: str = ""
    merged: bool | None = None
    differs: bool = False
    landed: int | None = None
    copied: bool = False
    reviewers: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    unsure: bool = False


class Snippet(NamedTuple):
    """A fragment of the text, and the ranges (start, end) in it to highlight."""

    text: str = ""
    ranges: Ranges = ()


class Hit(NamedTuple):
    """One result.

    Args:
        record: the record as its file says it now.
        path: of the file, from the top of the work tree.
        created: epoch milliseconds; from Git where the record states no date.
        score: of its place, 0..1: its own, but never less than that of what known order puts below it.
        scores: its own parts and their mean; None for a listing, or where it was brought in.
        superseded_by: direct successors; empty for what holds.
        heads: what holds today for it; two or more where its topic is forked, or decisions on several topics replaced
            it.
        contest: which of these two it is, in words; empty where no more than one holds.
        vacancy: in words, where nothing holds for it.
        claimed: in words, where another file claims its id too and nobody knows here who was first.
        proposed: what is only proposed in its place; empty where something has replaced it.
        chain: `5 decisions, 4 replaced`; empty for a chain of one.
        more: found records of the same chain that are left out.
        brought_in: not found by the query, but it holds today for a hit that was.
        related: edges from and to it, each with the reason it was stated for.
        already_rejected: alternatives that it rejected and the query names.
        provenance: who wrote it.
        snippet: why it was found.
        drift: how the code stands that it governs; None where nobody looked or it governs none.
        evidence: what history says came of it, as far as no outcome answers it.
        conflict: line of the first unresolved merge conflict in its file, of which the first side is shown; 0 for none.
    """

    record: Record
    path: str
    created: int
    score: float = 0.0
    scores: Scores | None = None
    superseded_by: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    contest: str = ""
    vacancy: str = ""
    claimed: str = ""
    proposed: tuple[str, ...] = ()
    chain: str = ""
    more: int = 0
    brought_in: bool = False
    related: tuple[Edge, ...] = ()
    already_rejected: tuple[str, ...] = ()
    provenance: Provenance = Provenance()
    snippet: Snippet = Snippet()
    drift: "Drift | None" = None
    evidence: tuple[Evidence, ...] = ()
    conflict: int = 0

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


@dataclass(frozen=True)
class Results:
    """An answer to a search: hits, best first.

    Args:
        hits: the hits.
        degraded: why the answer may be worse than it could be; empty where nothing is wrong.
        note: what else the reader should know, such as an index that is still catching up.
        anchor: for a timeline, the id it is about.
    """

    hits: tuple[Hit, ...]
    degraded: str = ""
    note: str = ""
    anchor: str = ""

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


class Name(NamedTuple):
    """What people know a record by."""

    title: str
    path: str
