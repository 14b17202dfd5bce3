"""Search: ask the index for candidates, score them and put them in order.

A `SearchSource` is searched: the store at hand, several of them, or an organisation's index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from filemem.query.filter import FIELD_BY_TERM, TERM_FORMATS, TermFormat
from filemem.record import CHECKPOINT, DECISION

MIN_CANDIDATES = 50  # candidates that the index is asked for, at least
CLOSE_SCORE = 0.3  # a best hit below this score is not close to the query
FAR_NOTE = (
    "nothing is close to this: these are the nearest; "
    "ask again with the terms and names that an answer would use"
)
TOO_LONG_NOTE = (
    f"the query is long: no more than {query.MAX_TERMS} words and {query.MAX_BYTES:,} bytes of it "
    "were searched"
)
MIN_COSINE = 0.1  # a candidate below this cosine needs a word in common
MODES = ("hybrid", "keyword", "vector")
FILTERS = (*FIELD_BY_TERM, "since", "until", "path", "live")


def parse_filter(restrictions: Mapping[str, Any], now: int) -> Filter:
    """Read the filters of a search by the names that callers use.

    They are type, topic, tag, outcome, status, agent, branch, user, run, session, project (one or
    several words), since, until (a date or an age such as 2w), path, live.

    Args:
        restrictions: values by name; a value of None restricts nothing.
        now: the time from which ages count, in epoch milliseconds.

    Raises:
        BadInput: an unknown filter, or an invalid value.
    """
    values: dict[str, Any] = {}
    for argument, value in restrictions.items():
        name = "session" if argument == "memory_session_id" else argument
        if name not in FILTERS:
            hint = suggest_choice(name, FILTERS)
            raise BadInput(f"search has no filter {name!r}", hint, field=name)
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
    """Read the words of a filter as the index has them; `type:all` restricts nothing."""
    if name == "tag":
        words = fields.validate_words(argument, value)
    else:
        words = fields.validate_lines(argument, value)
    term_format = TERM_FORMATS.get(name, TermFormat())
    terms: list[str] = []
    for word in words:
        if name == "type" and word == "all":
            continue
        term = term_format.parser(word)
        if term_format.choices and term not in term_format.choices:
            choices = ", ".join(term_format.choices)
            raise BadInput(f"{name} must be one of {choices}, not {term!r}", field=name)
        terms.append(term)
    return tuple(terms)


def _parse_time(name: str, value: object, now: int) -> int:
    """Read the time of `since` or `until`."""
    text = fields.validate_line(name, value)
    time = parse_moment(text, now, end=name == "until")
    if time is None:
        hint = (
            "a date such as 2025-11-20, a month such as 2025-11, a time, "
            "or an age such as 3d, 2w, 6m"
        )
        raise BadInput(f"{name}: cannot read {value!r}", hint, field=name)
    return time


class SearchOptions(NamedTuple):
    """The page and the kind of an answer."""

    limit: int
    offset: int
    mode: str
    recency: bool
    detail: bool

    @property
    def end(self) -> int:
        """The number of hits up to the end of the page."""
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
    """Answer a query: words, "phrases", -exclusions, filters such as is:live.

    Args:
        source: where to search; anything but a single store is searched by words alone.
        text: the query; "" for the newest records.
        restrictions: filters besides those in the text.
        limit: the maximum number of hits.
        offset: the number of hits to skip.
        mode: one of MODES.
        recency: whether age counts.
        detail: whether to add who wrote each hit.
    """
    terms, stated_filter = query.parse_query(text, source.clock())
    criteria = query.merge_filters(restrictions, stated_filter)
    has_words = bool(terms.words or terms.phrases)
    criteria = criteria._replace(reader=source.reader)
    criteria = _resolve_filter_path(source, criteria, has_words)
    options = SearchOptions(limit, offset, mode, recency, detail)
    if has_words or not isinstance(source, Store):
        answer = _search_nearest(source, terms, criteria, options)
    else:
        answer = _search_newest(source, terms, criteria, options)
        is_bare = criteria._replace(reader=None) == restrictions and not terms.excluded
        if is_bare and text.strip() and answer.hits:
            answer.note = "the query has no word in it: these are the newest"
    notes = _list_query_notes(terms)
    notes.append(answer.note)
    if answer.hits:
        notes.append(source.explain_incompleteness())
    else:
        notes.append(_explain_nothing(source, criteria, options, has_words))
    return answer.replace(note=_join_notes(notes))


def _list_query_notes(terms: Terms) -> list[str]:
    """Say what of a query was not read as it was meant."""
    notes = [f"{word} is not a filter, so it was searched as text" for word in terms.unread_tokens]
    if terms.is_cut:
        notes.append(TOO_LONG_NOTE)
    return notes


def _join_notes(notes: Iterable[str]) -> str:
    return "; ".join(note for note in notes if note)


def _resolve_filter_path(source: SearchSource, criteria: Filter, has_words: bool) -> Filter:
    """Return a filter with its path from the top of the work tree. Raises BadInput."""
    if isinstance(source, Store):
        if not criteria.path:
            return criteria
        return criteria._replace(path=source.validate_code_path(criteria.path))
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
    """Explain why a search shows nothing."""
    if options.offset:
        return advice.explain_offset(options.offset)
    if isinstance(source, Store):
        return advice.explain_empty(source, criteria, has_words)
    return advice.explain_no_match(has_words, is_restricted=False)


def _search_nearest(
    source: SearchSource, terms: Terms, criteria: Filter, options: SearchOptions
) -> Results:
    """Search by words and meaning."""
    searched_terms, nominated = _nominate_candidates(source, terms, criteria, options)
    scored = _score_candidates(nominated, searched_terms, criteria, options, source.clock())
    candidates: dict[str, KnownRecord] = {row.id: row for row in nominated.candidates}
    placements, rows = _arrange_candidates(source, scored, candidates, criteria, options.end)
    shown_placements = placements[options.offset :]
    hits = build_placed_hits(source, rows, shown_placements, searched_terms, detail=options.detail)
    is_far = False
    if hits and options.mode == "hybrid":
        is_far = scored[0].scores.final < CLOSE_SCORE
    notes: list[str] = []
    if not criteria.live:
        notes.append(_format_left_behind(scored[: options.end], candidates, placements))
    if hits and terms.phrases and not searched_terms.phrases:
        notes.append("no record holds that phrase; these are the nearest to its words")
    if is_far:
        notes.append(FAR_NOTE)
    return Results(
        hits,
        degraded=nominated.degraded or "",
        note=_join_notes(notes),
        far=is_far,
    )


def _nominate_candidates(
    source: SearchSource, terms: Terms, criteria: Filter, options: SearchOptions
) -> tuple[Terms, CandidateSet]:
    """Return the candidates for a query, and the query that found them.

    If no record has its phrases, they are searched as plain words.
    """
    if options.mode != "vector":
        alternatives = find_synonyms(terms.words, source.synonyms)
        terms = terms._replace(alternatives=alternatives)
    depth = max(MIN_CANDIDATES, 3 * options.end)
    nominated = source.nominate(terms, criteria, depth, options.mode)
    if terms.phrases and not nominated.candidates:
        terms = query.loosen_phrases(terms)
        nominated = source.nominate(terms, criteria, depth, options.mode)
    return terms, nominated


def _arrange_candidates(
    source: SearchSource,
    scored: Sequence[ScoredCandidate],
    candidates: Mapping[str, KnownRecord],
    criteria: Filter,
    limit: int,
) -> tuple[Sequence[Placement], Mapping[str, KnownRecord]]:
    """Put the scored candidates in order; return also the rows of all placed records."""
    head_ids = set[str]()
    unclear_ids = set[str]()
    hidden_ids = set[str]()
    for id_, row in candidates.items():
        head_ids.update(row.facts.heads, row.facts.forked_heads)
        if query.is_unclear(row.node):
            unclear_ids.add(id_)
        if criteria.live and not _is_live(row):
            hidden_ids.add(id_)
    rows = dict(candidates)
    rows.update(source.find_by_id(head_ids - candidates.keys()))
    missing_heads = head_ids - {row.id for row in scored}
    matching_heads = _list_matching(
        [rows[head] for head in missing_heads if head in rows], criteria
    )
    placements = query.arrange_hits(
        scored,
        {id_: row.facts for id_, row in candidates.items()},
        unclear_ids=unclear_ids,
        hidden_ids=hidden_ids,
        unwanted_heads=missing_heads - matching_heads,
        limit=limit,
    )
    return placements, rows


def _format_left_behind(
    scored: Sequence[ScoredCandidate],
    candidates: Mapping[str, KnownRecord],
    placements: Sequence[Placement],
) -> str:
    """Name the best hits that are left out because their status is not understood."""
    placed_ids = {placement.id for placement in placements}
    titles: list[str] = []
    for row in scored:
        node = candidates[row.id].node
        if row.id not in placed_ids and query.is_unclear(node):
            titles.append(f'"{node.title}"')
    if not titles:
        return ""
    return f"further back, as the status is not understood: {', '.join(titles[:3])}"


def _search_newest(store: Store, terms: Terms, criteria: Filter, options: SearchOptions) -> Results:
    """List the newest records.

    With a path, the live decisions that govern it, or replace one that did, come first.
    """
    listed_live = criteria.live and not criteria.path
    nodes = store.index.read_newest_nodes(
        criteria._replace(live=listed_live),
        options.limit,
        options.offset,
        excluding_terms=terms,
    )
    if not criteria.path:
        return Results(build_hits(store, nodes, terms, detail=options.detail))
    governing_nodes = _list_governing(store, nodes, criteria)[: options.limit]
    hits: list[Hit] = []
    for hit in build_hits(store, governing_nodes, terms, detail=options.detail):
        is_governing = any(query.is_covered(glob, criteria.path) for glob in hit.record.affects)
        hits.append(hit._replace(brought_in=not is_governing))
    return Results(tuple(hits))


def _list_governing(store: Store, nodes: Iterable[Node], criteria: Filter) -> list[Node]:
    """List the live decisions for some records first, then the records that may be shown."""
    rows = store.find_by_id([node.id for node in nodes])
    heads: dict[str, None] = {}
    for row in rows.values():
        heads.update(dict.fromkeys(row.facts.heads))
    head_rows = store.find_by_id(heads)
    matching_ids = _list_matching(head_rows.values(), criteria)
    governing: dict[str, Node] = {}
    for head in heads:
        if head in matching_ids:
            governing[head] = head_rows[head].node
    for id_, row in rows.items():
        if _is_live(row) or not criteria.live:
            governing.setdefault(id_, row.node)
    return list(governing.values())


def _score_candidates(
    nominated: CandidateSet, terms: Terms, criteria: Filter, options: SearchOptions, now: int
) -> list[ScoredCandidate]:
    """Score candidates, best first; those with neither a word nor the meaning are left out."""
    checkpoint_ids = set[str]()
    if criteria.types != (CHECKPOINT,):
        nodes = [row.node for row in nominated.candidates]
        checkpoint_ids = {node.id for node in nodes if node.type == CHECKPOINT}
    scored = query.score_candidates(
        nominated.candidates,
        now=now,
        recency=options.recency,
        weights=query.MEANING_ONLY if options.mode == "vector" else None,
        lesser_ids=checkpoint_ids,
        full_score=nominated.full_score,
        is_word=terms.is_word,
    )
    kept: list[ScoredCandidate] = []
    for row in scored:
        is_near = not terms.phrases and row.scores.vector >= MIN_COSINE
        if row.scores.keyword or is_near:
            kept.append(row)
    return kept


def find_similar(store: Store, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
    """Find the `count` records of type `kind` nearest in meaning to a text, nearest first.

    Each comes with its relevance. No file is read.
    """
    terms = query.parse_query(text, store.clock()).terms
    criteria = Filter(reader=store.reader)
    nominated = store.index.search_candidates(terms, criteria, 4 * count, mode="vector")
    similar = _rank_by_meaning(store, nominated.candidates, kind, nominated.full_score)
    if len(similar) < count:
        # Slower: it compares every record of the type.
        criteria = criteria._replace(types=(kind,))
        nominated = store.index.search_candidates(terms, criteria, 4 * count, mode="vector")
        similar = _rank_by_meaning(store, nominated.candidates, kind, nominated.full_score)
    return similar[:count]


def find_all_similar(
    store: Store, texts: Sequence[str], kind: str, count: int
) -> list[list[tuple[Node, float]]]:
    """Answer `find_similar` for many texts in one pass over the vectors.

    Words are weighted by how telling they are in general, not by how rare they are in this store;
    so a relevance may differ by some hundredths.
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
    """Rank the candidates of one type by relevance, the nearest first."""
    scored = query.score_candidates(
        candidates,
        now=store.clock(),
        recency=False,
        weights=query.MEANING_ONLY,
        full_score=full_score,
    )
    nodes = {row.id: row.node for row in candidates}
    similar: list[tuple[Node, float]] = []
    for row in scored:
        node = nodes[row.id]
        if node.type == kind:
            similar.append((node, query.compute_relevance(row.scores)))
    return sorted(similar, key=_get_similarity_key)


def _get_similarity_key(pair: tuple[Node, float]) -> tuple[float, str]:
    node, relevance = pair
    return -relevance, node.id


def _is_live(row: KnownRecord) -> bool:
    return row.node.type != DECISION or row.node.id in row.facts.heads


def _list_matching(rows: Iterable[KnownRecord], criteria: Filter) -> set[str]:
    """Return the ids of the live decisions that may be brought in, by their nodes."""
    criteria = criteria._replace(path="")  # the decision that it replaced governs the path
    ids = set[str]()
    for row in rows:
        if query.is_match(criteria, row.node, is_live=_is_live(row)):
            ids.add(row.node.id)
    return ids
