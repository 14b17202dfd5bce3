"""What a place of records must be able to do to be searched: one narrow interface, and several places as one.

A source is a store of this machine, an index of many stores, or an engine that an organisation runs. A question goes
through it in four steps: count, nominate, place, show; `memory.search` scores what was nominated, whoever did that.

An id names one record within its source. Ids and topics of two stores are two things, so `Together` puts the key of the
store before an id, with a space, and takes it off again before that store sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from filemem import query
from filemem.index import Counts, Found, Node, added
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Placed, Scored, Terms

Places = tuple[Sequence[Placed], Any]  # best first, and what is needed to show them


class Finder(Protocol):
    """What nominates."""

    def counts(self, terms: Terms, /) -> Counts:
        """Return how many documents there are, how many hold each form of the words, and how long their fields are.

        The counts of several sources are added up, so that scores compare as in one index of everything.
        """

    def nominate(self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None, /) -> Found:
        """Return the best `depth` records of so many by words and by meaning that satisfy a filter.

        `mode` is hybrid, keyword or vector. Scores by words are BM25 by `counts`, or by its own if None is given.
        """


class Source(Finder, Protocol):
    """What nominates, places and shows. `store` is the one at hand."""

    store: Store

    def place(self, scored: Sequence[Scored], known: Mapping[str, Node], wanted: Filter, limit: int, /) -> Places:
        """Put what was scored, of these nodes, in known order, with what holds in the place of what does not.

        What passes a filter for what holds only because it leads there is left out here.
        """

    def show(self, places: Sequence[Placed], known: Any, terms: Terms, /, *, detail: bool) -> tuple[Hit, ...]:
        """Return the hits of places, in their order; `known` came with them, `detail` adds who wrote them.

        What is gone, or must not be shown, is left out.
        """


class Together:
    """Several sources as one. `finders` nominate under ids that begin with the key of a member, which does the rest."""

    def __init__(self, members: Mapping[str, Source], finders: Sequence[Finder], store: Store) -> None:
        self._members, self._finders, self.store = members, finders, store

    def counts(self, terms: Terms) -> Counts:
        return added(one.counts(terms) for one in self._finders)

    def nominate(self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None) -> Found:
        """The best of the union stay, as one index of everything would have them."""
        counts = counts or self.counts(terms)
        found = [one.nominate(terms, wanted, depth, mode, counts) for one in self._finders]
        every = [one for each in found for one in each.candidates if one.id.partition(" ")[0] in self._members]
        by_words = sorted(every, key=lambda one: -one.keyword)[:depth]
        nearest = sorted(every, key=lambda one: -(one.cosine or 0.0))[:depth]
        first = list({one.id: one for one in (*by_words, *nearest)}.values())
        best = query.promising([(one.keyword, one.cosine, one.title_cosine) for one in first], depth)
        degraded = "; ".join(dict.fromkeys(one.degraded for one in found if one.degraded))
        return Found(tuple(first[at] for at in best), degraded or None, max(one.whole for one in found))

    def place(self, scored: Sequence[Scored], known: Mapping[str, Node], wanted: Filter, limit: int) -> Places:
        places, kept = list[Placed](), dict[str, Any]()
        for key, own in _by_key(scored).items():
            nodes = {one.id: known[f"{key} {one.id}"]._replace(id=one.id) for one in own}
            found, kept[key] = self._members[key].place(own, nodes, wanted, limit)
            places += [one._replace(id=f"{key} {one.id}") for one in found]
        places.sort(key=lambda one: -one.worth)  # what is of one chain has one worth, and stays together
        return places, kept

    def show(self, places: Sequence[Placed], known: Any, terms: Terms, *, detail: bool) -> tuple[Hit, ...]:
        hits: dict[str, Hit] = {}
        for key, own in _by_key(places).items():
            found = self._members[key].show(own, known[key], terms, detail=detail)
            hits |= {f"{key} {hit.id}": hit for hit in found}
        return tuple(hits[one.id] for one in places if one.id in hits)


def _by_key(items: Iterable[Any]) -> dict[str, list[Any]]:
    """Scored or placed records under their own ids, by the key before these."""
    found: dict[str, list[Any]] = defaultdict(list)
    for one in items:
        key, _, name = one.id.partition(" ")
        found[key].append(one._replace(id=name))
    return found
