"""What an engine of records must do for an organisation: keep them by repository, and nominate.

Rule: the engine nominates, filemem scores. It keeps what filemem made of each record and scores
nothing itself, so that a record has one score wherever it is searched. Where several repositories
meet, a value of one repository (an id, a topic's key, a path) becomes an *address*: the number of
the repository and a space come before it.

An `IndexReader` sees what one principal may see, and nothing else; a `Shelf` is one repository
while a worker changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from filemem.index import Doc, Row, TermCounts
from filemem.query import Filter, Provenance

if TYPE_CHECKING:
    from filemem.index.vectors import VectorSet

HEAD_MARK = "^"  # after a stem that is in title or topic
EVERYBODY = "*"  # the principal that stands for all who have access


class Principal(NamedTuple):
    """Who asks: a person or a program, with the groups that an identity provider names."""

    name: str  # "" for nobody
    groups: tuple[str, ...] = ()


NOBODY = Principal("")


class Repository(NamedTuple):
    """One repository, as the engine knows it."""

    number: int
    name: str  # as answers show it: host and path, or the path on this machine
    source: str  # where Git reads it: an address, or an absolute path
    store: str = ""  # its folder of records at `head`; "." for all of it
    head: str = ""  # the commit that the rows are of; "" before the first
    seen_at: int | None = None  # when it was last looked at with success, epoch milliseconds
    failure: str = ""  # why the last look failed, in a sentence; "" if it did not
    records: int = 0
    passages: int = 0
    words: str = ""  # a mark of its own words for a status, by which the rows were read
    failure_count: int = 0  # how often it failed since the last success
    left_out: str = ""  # which records are left out and why, in a sentence

    @property
    def host(self) -> str:
        """The machine that Git asks, "" for this one."""
        return "" if self.source.startswith("/") else self.name.partition("/")[0]


class Nominee(NamedTuple):
    """One record put forward, with all that scoring it needs."""

    row: Row  # its id, topic and references as addresses
    tokens: Mapping[str, Sequence[str]]  # of each text field, in order
    vectors: VectorSet  # of this one document


class Details(NamedTuple):
    """What a hit needs of a record."""

    card: str  # the whole record as JSON: `index.document.parse_card` reads it
    provenance: Provenance
    repository: Repository
    also_in: tuple[str, ...] = ()  # visible repositories that have the same file, by name


class IndexReader(Protocol):
    """What one principal may see, in one state."""

    def list_repositories(self) -> list[Repository]:
        """Return the repositories that may be seen, by name."""

    def count_terms(self, terms: Collection[tuple[str, str]], /) -> TermCounts:
        """Count the visible documents that have each (field, term) pair."""

    def nominate(
        self,
        words: Mapping[str, float],
        vector: Sequence[float] | None,
        wanted: Filter,
        depth: int,
        /,
    ) -> list[Nominee]:
        """Return about `depth` of the best records by words, and as many by meaning.

        Args:
            words: stems and their weights: the rarer the larger.
            vector: of length 1; None to search by words only.
            wanted: a filter, whose `path` is ignored.

        Of records with equal bytes one is returned.
        """

    def read_rows(self, field: str, values: Iterable[str | int], /) -> list[Row]:
        """Return the records with one of some addresses in a field; see `index.ChainIndex`.

        Fields: id, path, key, target, name, refers. Rows have addresses for ids, paths, topic
        keys and references.
        """

    def read_rows_by_name(self, names: Collection[str], /) -> list[Row]:
        """Return the records that have one of some names."""

    def read_details(self, paths: Collection[str], /) -> dict[str, Details]:
        """Return what hits need of records, by the addresses of their paths."""


class Shelf(Protocol):
    """One repository while its worker changes it: all changes are kept at the end, or none.

    Values are not addresses here.
    """

    repository: Repository

    def read_manifest(self) -> dict[str, tuple[str, str]]:
        """Return the records: path -> blob id and record id."""

    def put(
        self, changes: Mapping[str, Doc | None], first_authors: Mapping[str, Provenance], /
    ) -> None:
        """Put documents at their paths, None to remove one, and update what depends on them.

        `first_authors`: who first wrote new records, by path; they date records without a date. A
        known record, by its id, keeps its author even if its path has changed.
        """

    def note_state(self, head: str, store: str, words: str = "", left_out: str = "") -> None:
        """Note the commit of the rows, the folder of records, and the mark of status words.

        `left_out`: which records are left out, and why.
        """
