"""From a question to hits: ask the index, score, put in order; `hits` then reads what is shown.

What is asked is a `Place`: the store at hand, several of them, or an organisation's index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from filemem import query
from filemem.config import HITS as HITS
from filemem.errors import BadInput
from filemem.hints import suggest_choice
from filemem.index import CandidateSet, KnownRecord, ModelUnavailable, Node, find_synonyms
from filemem.memory import advice, fields
from filemem.memory.hits import SearchSource, build_hits, build_placed_hits
from filemem.memory.store import Store
from filemem.query import (
    Candidate,
    Filter,
    Hit,
    Placement,
    Results,
    ScoredCandidate,
    Terms,
    parse_moment,
)
from filemem.query.filter import FIELD_BY_TERM, TERM_FORMATS, fold_value
from filemem.record import CHECKPOINT, DECISION

MIN_CANDIDATES = 50  # candidates asked at least
CLOSE_SCORE = (
    0.3  # score of the best hit below which neither its words nor its meaning are the query's
)
FAR_NOTE = (
    "nothing is close to this: these are the nearest; "
    "ask again with the terms and names that an answer would use"
)
TOO_LONG_NOTE = (
    f"the query is long: no more than {query.MAX_TERMS} words and {query.MAX_BYTES:,} bytes of it "
    "were searched"
)
MIN_COSINE = 0.1  # a cosine below this, without a single word in common, says nothing
MODES = ("hybrid", "keyword", "vector")
FILTERS = (*FIELD_BY_TERM, "since", "until", "path", "live")


def parse_filter(restrictions: Mapping[str, Any], now: int) -> Filter:
    """Read the filters of a search by the names that callers use; `now` is in epoch milliseconds.

    They are type, topic, tag, outcome, status, agent, branch, user, run, session, project (one or
    several words), since, until (a date or an age such as 2w), path, live. Raises BadInput: an
    unknown filter, or an invalid value.
    """
    values: dict[str, Any] = {}
    for argument, value in restrictions.items():
        name = "session" if argument == "memory_session_id" else argument
        if name not in FILTERS:
            raise BadInput(
                f"search has no filter {name!r}", suggest_choice(name, FILTERS), field=name
            )
        if value is None:
            continue
        if name in FIELD_BY_TERM:
            values[FIELD_BY_TERM[name]] = _parse_words(name, argument, value)
        elif name == "live":
            values[name] = fields.validate_flag(name, value)
        elif name == "path":
            values[name] = fields.validate_line(name, value)
        else:
            values[name] = _parse_time(name, value, now)
    return Filter(**values)


def _parse_words(name: str, argument: str, value: object) -> tuple[str, ...]:
    """The words of a filter as the index has them; `type:all` restricts nothing."""
    normalize, allowed = TERM_FORMATS.get(name, (fold_value, ()))
    check = fields.validate_words if name == "tag" else fields.validate_lines
    words = [word for word in check(argument, value) if (name, word) != ("type", "all")]
    terms = tuple(map(normalize, words))
    invalid_terms = [term for term in terms if allowed and term not in allowed]
    if invalid_terms:
        message = f"{name} must be one of {', '.join(allowed)}, not {invalid_terms[0]!r}"
        raise BadInput(message, field=name)
    return terms


def _parse_time(name: str, value: object, now: int) -> int:
    """The time of `since` or `until`."""
    time = parse_moment(fields.validate_line(name, value), now, end=name == "until")
    if time is None:
        hint = (
            "a date such as 2025-11-20, a month such as 2025-11, a time, "
            "or an age such as 3d, 2w, 6m"
        )
        raise BadInput(f"{name}: cannot read {value!r}", hint, field=name)
    return time


class SearchOptions(NamedTuple):
    """How an answer is made."""

    limit: int
    offset: int
    mode: str
    recency: bool
    detail: bool

    @property
    def end(self) -> int:
        """Where the page ends."""
        return self.offset + self.limit


def search(
    source: SearchSource,
    text: str,
    restrictions: Filter,
    *,
    limit: int,
    offset: int = 0,
    mode: str = "hybrid",
    recency: bool = True,
    detail: bool = True,
) -> Results:
    """Answer a query: words, "phrases", -exclusions, filters such as is:live; "" for the newest.

    `place`: a store, or several as one, which are searched by words alone; `restrictions`: filters
    besides those in the text; `offset`: hits to skip; `recency`: whether age counts; `detail`:
    whether to add who wrote each hit.
    """
    terms, stated_filter = query.parse_query(text, source.clock())
    criteria = query.merge_filters(restrictions, stated_filter)._replace(reader=source.reader)
    has_words = bool(terms.words or terms.phrases)
    options = SearchOptions(limit, offset, mode, recency, detail)
    criteria = _resolve_filter_path(source, criteria, has_words)
    if has_words or not isinstance(source, Store):
        answer = _search_nearest(source, terms, criteria, options)
    else:
        answer = _search_newest(source, terms, criteria, options)
        is_bare = criteria._replace(reader=None) == restrictions and not terms.excluded
        if is_bare and text.strip() and answer.hits:
            answer.note = "the query has no word in it: these are the newest"
    notes = [f"{word} is not a filter, so it was searched as text" for word in terms.unread_tokens]
    notes += [TOO_LONG_NOTE] * terms.is_cut
    ending_note = (
        source.explain_incompleteness()
        if answer.hits
        else _explain_nothing(source, criteria, options, has_words)
    )
    return answer.replace(note="; ".join(filter(None, (*notes, answer.note, ending_note))))


def _resolve_filter_path(source: SearchSource, criteria: Filter, has_words: bool) -> Filter:
    """The filter with its path from the top of the work tree. Raises BadInput."""
    if isinstance(source, Store):
        return (
            criteria._replace(path=source.validate_code_path(criteria.path))
            if criteria.path
            else criteria
        )
    if has_words and not criteria.path:
        return criteria
    raise BadInput(
        "several repositories are searched by words alone",
        "`filemem -C DIR` asks one",
        field="path" if criteria.path else "query",
    )


def _explain_nothing(
    source: SearchSource, criteria: Filter, options: SearchOptions, has_words: bool
) -> str:
    """Why a search shows nothing."""
    if options.offset:
        return advice.explain_offset(options.offset)
    if isinstance(source, Store):
        return advice.explain_empty(source, criteria, has_words)
    return advice.explain_no_match(has_words, is_restricted=False)


def _search_nearest(
    source: SearchSource, terms: Terms, criteria: Filter, options: SearchOptions
) -> Results:
    """What is nominated for the words of a query, scored, in order."""
    searched_terms, found = _nominate_candidates(source, terms, criteria, options)
    scored = _score_candidates(found, searched_terms, criteria, options, source.clock())
    candidates: dict[str, KnownRecord] = {row.id: row for row in found.candidates}
    placements, rows = _arrange_candidates(source, scored, candidates, criteria, options.end)
    hits = build_placed_hits(
        source, rows, placements[options.offset :], searched_terms, detail=options.detail
    )
    is_far = bool(hits) and options.mode == "hybrid" and scored[0].scores.final < CLOSE_SCORE
    notes = (
        []
        if criteria.live
        else [_format_left_behind(scored[: options.end], candidates, placements)]
    )
    if hits and terms.phrases and not searched_terms.phrases:
        notes.append("no record holds that phrase; these are the nearest to its words")
    note = "; ".join(filter(None, (*notes, FAR_NOTE if is_far else "")))
    return Results(hits, degraded=found.degraded or "", note=note, far=is_far)


def _nominate_candidates(
    source: SearchSource, terms: Terms, criteria: Filter, options: SearchOptions
) -> tuple[Terms, CandidateSet]:
    """What is nominated for a query, and the query: without phrases if no record holds them."""
    if options.mode != "vector":
        terms = terms._replace(alternatives=find_synonyms(terms.words, source.synonyms))
    depth = max(MIN_CANDIDATES, 3 * options.end)
    found = source.nominate(terms, criteria, depth, options.mode)
    if terms.phrases and not found.candidates:
        terms = query.loosen_phrases(terms)
        found = source.nominate(terms, criteria, depth, options.mode)
    return terms, found


def _arrange_candidates(
    source: SearchSource,
    scored: Sequence[ScoredCandidate],
    candidates: Mapping[str, KnownRecord],
    criteria: Filter,
    limit: int,
) -> tuple[Sequence[Placement], Mapping[str, KnownRecord]]:
    """Put the scored candidates in order; return also the rows of all that has a place."""
    facts = {name: row.facts for name, row in candidates.items()}
    head_ids = {head for fact in facts.values() for head in (*fact.heads, *fact.forked_heads)}
    rows = {**candidates, **source.find_by_id(head_ids - candidates.keys())}
    absent_ids = head_ids - {hit.id for hit in scored}
    passing_ids = _filter_passing((rows[name] for name in absent_ids if name in rows), criteria)
    hidden_ids = {
        name for name, row in candidates.items() if criteria.live and not _is_holding(row)
    }
    placements = query.arrange_hits(
        scored,
        facts,
        unclear_ids={name for name, row in candidates.items() if query.is_unclear(row.node)},
        hidden_ids=hidden_ids,
        unwanted_heads=absent_ids - passing_ids,
        limit=limit,
    )
    return placements, rows


def _format_left_behind(
    scored: Sequence[ScoredCandidate],
    candidates: Mapping[str, KnownRecord],
    placements: Sequence[Placement],
) -> str:
    """Name the best hits that the list has no room for, as their status is not understood."""
    places = {placement.id for placement in placements}
    nodes = [candidates[hit.id].node for hit in scored if hit.id not in places]
    unclear_nodes = [node for node in nodes if query.is_unclear(node)]
    titles = ", ".join(f'"{node.title}"' for node in unclear_nodes[:3])
    return f"further back, as the status is not understood: {titles}" if unclear_nodes else ""


def _search_newest(store: Store, terms: Terms, criteria: Filter, options: SearchOptions) -> Results:
    """The newest records.

    With a path, the live decisions that govern it, or replace one that did, come first.
    """
    listing_criteria = criteria._replace(live=criteria.live and not criteria.path)
    nodes = store.index.read_newest_nodes(
        listing_criteria, options.limit, options.offset, excluding_terms=terms
    )
    if criteria.path:
        nodes = _list_governing(store, nodes, criteria)[: options.limit]
    hits = build_hits(store, nodes, terms, detail=options.detail)
    if criteria.path:
        hits = tuple(hit._replace(brought_in=not _is_governing(hit, criteria.path)) for hit in hits)
    return Results(hits)


def _is_governing(hit: Hit, path: str) -> bool:
    return any(query.is_covered(glob, path) for glob in hit.record.affects)


def _list_governing(store: Store, nodes: Iterable[Node], criteria: Filter) -> list[Node]:
    """What holds instead of some records first, then those of them that may be shown."""
    rows = store.find_by_id([node.id for node in nodes])
    order = [head for row in rows.values() for head in row.facts.heads]
    heads = store.find_by_id(set(order))
    passing_ids = _filter_passing(heads.values(), criteria)
    head_nodes = {head: heads[head].node for head in order if head in passing_ids}
    other_nodes = (
        row.node
        for name, row in rows.items()
        if name not in head_nodes and (_is_holding(row) or not criteria.live)
    )
    return [*head_nodes.values(), *other_nodes]


def _score_candidates(
    found: CandidateSet, terms: Terms, criteria: Filter, options: SearchOptions, now: int
) -> list[ScoredCandidate]:
    nodes = [row.node for row in found.candidates]
    checkpoints = {node.id for node in nodes if node.type == CHECKPOINT}
    scored = query.score_candidates(
        found.candidates,
        now=now,
        recency=options.recency,
        weights=query.MEANING_ONLY if options.mode == "vector" else None,
        lesser_ids=checkpoints if criteria.types != (CHECKPOINT,) else (),
        full_score=found.full_score,
        is_word=terms.is_word,
    )
    if terms.phrases:
        return [row for row in scored if row.scores.keyword]
    return [row for row in scored if row.scores.keyword or row.scores.vector >= MIN_COSINE]


def find_similar(store: Store, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
    """The `count` records of type `kind` nearest in meaning to a text, the likest first.

    Each has the relevance that a vector search gives it. No file is read.
    """
    terms, _ = query.parse_query(text, store.clock())
    find_candidates = partial(store.index.search_candidates, terms, depth=4 * count, mode="vector")
    nearest = find_candidates(Filter(reader=store.reader))
    if sum(row.node.type == kind for row in nearest.candidates) < count:
        # Slower: it compares every record of the type.
        nearest = find_candidates(Filter(types=(kind,), reader=store.reader))
    return _rank_by_meaning(store, nearest.candidates, kind, nearest.full_score)[:count]


def find_all_similar(
    store: Store, texts: Sequence[str], kind: str, count: int
) -> list[list[tuple[Node, float]]]:
    """Answer `alike` for many texts in one pass over the vectors.

    Here each word of a text counts as much as it tells in general, and not also by how rare it is
    in this store; so a value may differ by some hundredths.
    """
    criteria = Filter(types=(kind,), reader=store.reader)
    try:
        neighbours = store.index.find_neighbours(texts, criteria, 2 * count)
    except ModelUnavailable:
        return [find_similar(store, text, kind, count) for text in texts]
    return [_rank_by_meaning(store, candidates, kind)[:count] for candidates in neighbours]


def _rank_by_meaning(
    store: Store, candidates: Sequence[Candidate], kind: str, full_score: float = 0.0
) -> list[tuple[Node, float]]:
    """Those of one type, each with its relevance, the likest first."""
    scored = query.score_candidates(
        candidates,
        now=store.clock(),
        recency=False,
        weights=query.MEANING_ONLY,
        full_score=full_score,
    )
    nodes = {row.node.id: row.node for row in candidates if row.node.type == kind}
    pairs = [
        (nodes[row.id], query.compute_relevance(row.scores)) for row in scored if row.id in nodes
    ]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0].id))


def _is_holding(row: KnownRecord) -> bool:
    return row.node.type != DECISION or row.node.id in row.facts.heads


def _filter_passing(rows: Iterable[KnownRecord], criteria: Filter) -> set[str]:
    """Return what may be brought in: what passes the filters, as far as its node says."""
    criteria = criteria._replace(path="")  # what it replaced governs that path
    return {
        row.node.id for row in rows if query.is_match(criteria, row.node, is_live=_is_holding(row))
    }
