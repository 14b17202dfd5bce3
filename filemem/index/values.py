"""What is asked of the index and what it answers. Pure."""

from typing import NamedTuple

from filemem.documents import Doc
from filemem.query import Filter, matches

NOT_BUILT = "the search index is not built yet"  # what an answer lacks then: everything but what was just saved


class Scope(NamedTuple):
    """What may be found.

    Args:
        filter: restrictions by field.
        exclude_paths: documents to leave out.
        dead, alive: ids whose liveness the caller knows better than the index; they matter where `filter.live`.
    """

    filter: Filter = Filter()
    exclude_paths: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    alive: frozenset[str] = frozenset()

    def admits(self, doc: Doc) -> bool:
        """Say whether a pending document may be found."""
        if doc.path in self.exclude_paths:
            return False
        if self.filter.live and (
            doc.id in self.dead or not (doc.id in self.alive or "yes" in doc.terms.get("live", ()))
        ):
            return False
        return matches(self.filter._replace(live=False), doc.terms, doc.created)


class Candidate(NamedTuple):
    """A document that retrieval puts forward.

    Args:
        keyword: raw BM25, 0 where no word matched.
        cosine: of its best passage and the query; None where there is no vector.
        title_cosine: of its title and the query.
        wording: how well the words of the query are met in its best passage; None where that was not looked at.
        node: the caller's JSON.
    """

    path: str
    id: str
    blob: str
    created: int
    node: str
    keyword: float = 0.0
    cosine: float | None = None
    title_cosine: float | None = None
    wording: float | None = None


class Found(NamedTuple):
    """Candidates in no particular order.

    Args:
        instead: words that nothing holds, and under which other spellings they were searched.
        degraded: why the answer is less than it could be, or None.
        whole: the BM25 of a text of usual length that has every word of the query once.
    """

    candidates: tuple[Candidate, ...]
    degraded: str | None
    instead: tuple[tuple[str, tuple[str, ...]], ...] = ()
    whole: float = 0.0
