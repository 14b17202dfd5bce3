"""One consistent state of the index: a generation and what is pending beside it. Answers every question about it.

Rule: restrictions hold inside retrieval, so an answer is short only where there is no more; and a pending record
takes the place of what the disk index knows of its path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from filemem.documents import Doc
from filemem.index import keyword
from filemem.index.counted import Counted
from filemem.index.embed import ModelUnavailable
from filemem.index.fresh import Item, latest
from filemem.index.generation import Generation
from filemem.index.keyword import Match, Restriction, Words, term_field
from filemem.index.meaning import REBUILD, Meaning, Nearness
from filemem.index.pending import Scorer, admits
from filemem.index.plan import Plan, plan
from filemem.index.spelling import respelt
from filemem.index.values import NOT_BUILT, Candidate, Found, Scope
from filemem.query import FIELDS, Filter, Terms, governs, promising

if TYPE_CHECKING:
    from filemem.index.vector import Ranking

FEW = 5_000  # documents a restriction lets through below which all their vectors are compared


_UNLIKE = (None, None)  # the likeness of what has no vectors


class View:
    """See the module.

    Args:
        generation: None where nothing was built yet.
        words: those of the generation.
        items: the fresh folder.
        meaning: the process's embedder.
    """

    def __init__(
        self, generation: Generation | None, words: Words | None, items: Sequence[Item], meaning: Meaning
    ) -> None:
        self.generation, self.items = generation, tuple(items)
        self._words, self._meaning = words, meaning
        last = latest(items)
        self.hidden = frozenset(last)
        self.pending = tuple(item.pending for item in last.values() if item.pending is not None)

    @cached_property
    def _counted(self) -> Counted:
        return Counted(self._words, self.hidden)

    @cached_property
    def _not_hidden(self) -> Restriction:
        """What pending records demand of every document on disk: another path than theirs."""
        return [keyword.must_not(self._words.one_of(keyword.PATH, self.hidden))] if self._words and self.hidden else []

    def beside(self, items: Sequence[Item]) -> View:
        """Return the same generation with other pending records."""
        return View(self.generation, self._words, items, self._meaning)

    # search

    def candidates(self, terms: Terms, scope: Scope, depth: int, mode: str, most: int | None) -> Found:
        """Return the best `depth` documents by words and the best `depth` by meaning, every part of a score exact.

        Args:
            mode: hybrid, keyword or vector.
            most: return only this many, the best by both.
        """
        near, degraded = self._near(terms, mode)
        asked = plan(terms, keyword.analyze, self._meaning.telling(terms.words) if near else None)
        by_words = mode != "vector" or near is None
        scorer = Scorer(self._counted, self.pending)
        asked, instead = respelt(asked, scorer, self._words) if by_words else (asked, ())
        found: list[Candidate] = []
        if self._words:
            found = self._on_disk(self._words, asked, scorer, scope, depth, by_words, near, most)
        found += self._waiting(asked, scorer, scope, depth, by_words, near)
        if near and asked.words:
            found = self._worded(found, asked, scorer, near, most or depth // 2)
        return Found(tuple(found), degraded or self._gap(mode), instead, scorer.whole(asked))

    def _near(self, terms: Terms, mode: str) -> tuple[Nearness | None, str | None]:
        if mode == "keyword" or not terms.text.strip():
            return None, None
        try:
            return self._meaning.rank(terms.text, self.generation, self.pending), None
        except ModelUnavailable as error:
            return None, f"{error.told}; only words were searched"

    def lacks_meaning(self) -> str:
        """Return why answers lack something of what meaning would find and what to do, or ""; asks the model."""
        return self._meaning.lacks(self.generation) or (self.generation and self._gap("vector")) or ""

    def _gap(self, mode: str) -> str | None:
        """Say what the generation in use lacks."""
        if self.generation is None:
            return NOT_BUILT
        if (missing := self.generation.seal.missing) and mode != "keyword":
            return f"{missing} record{' has' if missing == 1 else 's have'} no vectors yet; {REBUILD}"
        return None

    def _on_disk(
        self,
        words: Words,
        asked: Plan,
        scorer: Scorer,
        scope: Scope,
        depth: int,
        by_words: bool,
        near: Nearness | None,
        most: int | None,
    ) -> list[Candidate]:
        limits = [*self._restriction(words, scope), *words.restriction(asked)]
        query = words.word_query(asked, {clause: scorer.boost(clause) for clause in asked.scored})
        matches = words.search(keyword.both(query, limits), depth) if query is not None and by_words else []
        if near and near.disk:
            scoring = [keyword.should(query)] if query is not None else []
            matches += _nearest(words, near.disk, limits, depth, scoring)
        found = list({match.address: match for match in matches}.values())
        keys = words.keys(found)
        like = near.disk.likeness(keys) if near and near.disk else {}
        parts = [(match.score, *like.get(key, _UNLIKE)) for match, key in zip(found, keys, strict=True)]
        best = promising(parts, most) if most is not None and most < len(parts) else range(len(parts))
        stored = words.stored([found[at] for at in best])  # the most work, so only for what may be shown
        return [
            Candidate(
                path=one.path,
                id=one.id,
                blob=one.blob,
                created=one.created,
                node=one.node,
                keyword=parts[at][0],
                cosine=parts[at][1],
                title_cosine=parts[at][2],
            )
            for one, at in zip(stored, best, strict=True)
        ]

    def _waiting(
        self, asked: Plan, scorer: Scorer, scope: Scope, depth: int, by_words: bool, near: Nearness | None
    ) -> list[Candidate]:
        """Return the candidates among the pending records."""
        allowed = [one for one in self.pending if scope.admits(one.doc) and admits(asked, one)]
        scored = {one.doc.path: score for one, score in scorer.scores(asked, allowed)}
        like = near.pending.likeness(keyword.key(one.doc.blob) for one in allowed) if near and near.pending else {}
        nearest = sorted(like, key=lambda number: like[number].passage, reverse=True)[:depth]
        found = []
        for one in allowed:
            score = scored.get(one.doc.path, 0.0)
            number = keyword.key(one.doc.blob)
            if (score > 0 and by_words) or number in nearest:
                likeness = like.get(number)
                found.append(
                    Candidate(
                        path=one.doc.path,
                        id=one.doc.id,
                        blob=one.doc.blob,
                        created=one.doc.created,
                        node=one.doc.node,
                        keyword=score,
                        cosine=likeness.passage if likeness else None,
                        title_cosine=likeness.title if likeness else None,
                    )
                )
        return found

    def _worded(
        self, found: list[Candidate], asked: Plan, scorer: Scorer, near: Nearness, most: int
    ) -> list[Candidate]:
        """Say of the best candidates how well each word of the query is met, if only by a word of like meaning."""
        rarity = {typed: scorer.rarity(of) ** 0.5 for typed, of in asked.words}
        words = self._meaning.wording(rarity)
        if words is None:
            return found
        best = promising([(one.keyword, one.cosine, one.title_cosine) for one in found], most)
        keys = {found[at].path: keyword.key(found[at].blob) for at in best}
        met: dict[int, float] = {}
        for ranking in (near.disk, near.pending):
            met.update(ranking.wording(keys.values(), words) if ranking else {})
        return [
            one._replace(wording=met.get(keys[one.path])) if one.path in keys else one  # its file may be embedded later
            for one in found
        ]

    # listings and lookups

    def newest(self, scope: Scope, limit: int, offset: int = 0, without: Terms | None = None) -> list[str]:
        """Return the nodes of the documents created last, newest first."""
        asked = plan(without or Terms(), keyword.analyze)
        waiting = (one.doc for one in self.pending if scope.admits(one.doc) and admits(asked, one))
        rows = [(-doc.created, doc.path, doc.node) for doc in waiting]
        if self._words:
            limits = [*self._restriction(self._words, scope), *self._words.restriction(asked)]
            query = keyword.both(keyword.everything(), limits)
            stored = self._words.stored(self._words.newest(query, limit + offset))
            rows += [(-one.created, one.path, one.node) for one in stored]
        return [node for _, _, node in sorted(rows)[offset : offset + limit]]

    @property
    def empty(self) -> bool:
        """Whether there is no document."""
        sure = self.pending or (self.generation and self.generation.seal.docs > len(self.hidden))
        return not (sure or self.count(Scope(Filter())))

    def count(self, scope: Scope) -> int:
        """Return the number of documents."""
        waiting = sum(scope.admits(one.doc) for one in self.pending)
        if not self._words:
            return waiting
        return waiting + self._words.count(keyword.both(keyword.everything(), self._restriction(self._words, scope)))

    def by_terms(self, wanted: Mapping[str, Collection[str]]) -> list[str]:
        """Return the nodes of all documents with one of the values in any of some exact fields, or at a path."""
        asked = {name: set(values) for name, values in wanted.items() if values}
        nodes = [
            one.doc.node
            for one in self.pending
            if any(not values.isdisjoint(_exact(one.doc, name)) for name, values in asked.items())
        ]
        if self._words and asked:
            limits = self._restriction(self._words, Scope())
            terms = [self._words.one_of(_field(name), sorted(values)) for name, values in asked.items()]
            query = keyword.both(keyword.either(*terms), limits)
            nodes += [one.node for one in self._words.stored(self._words.search(query, self._words.total))]
        return nodes

    def sealed_blobs(self, paths: Iterable[str]) -> dict[str, str]:
        """Return what the disk index alone was made from: path -> blob id, for those of the paths that it has."""
        if self._words is None:
            return {}
        query = self._words.one_of(keyword.PATH, sorted(paths))
        return {one.path: one.blob for one in self._words.stored(self._words.search(query, self._words.total))}

    def removed_nodes(self) -> list[str]:
        """Return the nodes that the disk index still holds of records whose removal is pending."""
        return self._still_held([path for path, item in latest(self.items).items() if item.pending is None])

    def replaced_nodes(self) -> list[str]:
        """Return the nodes that the disk index still holds of records whose change or removal is pending."""
        return self._still_held([*latest(self.items)])

    def _still_held(self, paths: list[str]) -> list[str]:
        if self._words is None or not paths:
            return []
        query = self._words.one_of(keyword.PATH, paths)
        return [one.node for one in self._words.stored(self._words.search(query, self._words.total))]

    def by_prefix(self, name: str, prefix: str, limit: int) -> list[str]:
        """Return the nodes of documents that have a value with this beginning, at most `limit` values of them."""
        return self.by_terms({name: [value for value, _ in self.terms(name, prefix)[:limit]]})

    def terms(self, name: str, prefix: str = "") -> list[tuple[str, int]]:
        """Return (value, number of documents) of a field of exact terms, in order."""
        counts: dict[str, int] = {}
        if self._words:
            limits = self._restriction(self._words, Scope())
            query = keyword.both(keyword.everything(), limits)
            counts = {value: n for value, n in self._words.terms(_field(name), prefix, query) if n}
        for one in self.pending:
            for value in {value for value in _exact(one.doc, name) if value.startswith(prefix)}:
                counts[value] = counts.get(value, 0) + 1
        return sorted(counts.items())

    def nodes(self) -> list[str]:
        """Return the nodes of all documents."""
        return self.newest(Scope(), self.count(Scope()))

    def _restriction(self, words: Words, scope: Scope) -> Restriction:
        """Return what a scope, and the pending records, demand of every document on disk."""
        wanted = scope.filter
        limits = []
        for name, key in FIELDS.items():
            values: tuple[str, ...] = getattr(wanted, name)
            if values:
                limits.append(keyword.must(words.one_of(term_field(key), values)))
        limits += [keyword.must(words.one_of(term_field("metadata"), group)) for group in wanted.metadata]
        if wanted.since is not None or wanted.until is not None:
            limits.append(keyword.must(words.between(wanted.since, wanted.until)))
        if wanted.path:
            stated = (value for value, _ in words.terms(term_field("affects"), ""))
            touched = [value for value in stated if governs(value, wanted)]
            limits.append(keyword.must(words.one_of(term_field("affects"), touched)))
        if wanted.live:
            living = [words.one_of(term_field("live"), ("yes",)), words.one_of(term_field("id"), scope.alive)]
            limits.append(keyword.must(keyword.either(*living)))
            if scope.dead:
                limits.append(keyword.must_not(words.one_of(term_field("id"), scope.dead)))
        if scope.exclude_paths:
            limits.append(keyword.must_not(words.one_of(keyword.PATH, scope.exclude_paths)))
        limits += self._not_hidden
        return limits


def _nearest(words: Words, ranking: Ranking, limits: Restriction, depth: int, scoring: Restriction) -> list[Match]:
    """Return the documents nearest by meaning under a restriction, with what they score: `depth` of them, or all."""
    base = keyword.both(keyword.everything(), limits)
    allowed = words.count(base) if limits else words.total
    if limits and allowed <= FEW:
        found = words.search(keyword.both(base, scoring), allowed)
    else:
        found, ask = [], depth + depth // 4
        while True:
            keys, complete = ranking.first(ask)
            query = keyword.both(words.one_of(keyword.KEY, keys), [*limits, *scoring])
            found = words.search(query, ask + depth)
            if len(found) >= depth or complete:
                break
            ask *= 4
    by_key: dict[int, list[Match]] = {}
    for key, match in zip(words.keys(found), found, strict=True):
        by_key.setdefault(key, []).append(match)
    nearest = ranking.nearest_of(by_key, depth)
    return [match for key in nearest for match in by_key[key]][:depth]


def _field(name: str) -> str:
    return keyword.PATH if name == "path" else term_field(name)


def _exact(doc: Doc, name: str) -> tuple[str, ...]:
    return (doc.path,) if name == "path" else tuple(doc.terms.get(name, ()))
