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
from filemem.hints import suggest
from filemem.index import Found, Known, ModelUnavailable, Node, said_instead
from filemem.memory import advice, fields
from filemem.memory.hits import Place, of_places, present
from filemem.memory.store import Store
from filemem.query import Candidate, Filter, Hit, Placed, Results, Scored, Terms, parse_moment
from filemem.query.filter import NAMED, READ, fold
from filemem.record import CHECKPOINT, DECISION

RANKED = 50  # candidates asked at least
CLOSE = 0.3  # score of the best hit below which neither its words nor its meaning are the query's
FAR = (
    "nothing is close to this: these are the nearest; "
    "ask again with the terms and names that an answer would use"
)
TOO_LONG = (
    f"the query is long: no more than {query.MAX_TERMS} words and {query.MAX_BYTES:,} bytes of it "
    "were searched"
)
NOISE = 0.1  # a cosine below this, without a single word in common, says nothing
MODES = ("hybrid", "keyword", "vector")
FILTERS = (*NAMED, "since", "until", "path", "live")


def filter_of(restrictions: Mapping[str, Any], now: int) -> Filter:
    """Read the filters of a search by the names that callers use; `now` is in epoch milliseconds.

    They are type, topic, tag, outcome, status, agent, branch, user, run, session, project (one or
    several words), since, until (a date or an age such as 2w), path, live. Raises BadInput: an
    unknown filter, or an invalid value.
    """
    values: dict[str, Any] = {}
    for argument, value in restrictions.items():
        name = "session" if argument == "memory_session_id" else argument
        if name not in FILTERS:
            raise BadInput(f"search has no filter {name!r}", suggest(name, FILTERS), field=name)
        if value is None:
            continue
        if name in NAMED:
            values[NAMED[name]] = _words(name, argument, value)
        elif name == "live":
            values[name] = fields.flag(name, value)
        elif name == "path":
            values[name] = fields.line(name, value)
        else:
            values[name] = _moment(name, value, now)
    return Filter(**values)


def _words(name: str, argument: str, value: object) -> tuple[str, ...]:
    """The words of a filter as the index has them; `type:all` restricts nothing."""
    read, allowed = READ.get(name, (fold, ()))
    check = fields.words if name == "tag" else fields.lines
    words = [word for word in check(argument, value) if (name, word) != ("type", "all")]
    terms = tuple(map(read, words))
    wrong = [term for term in terms if allowed and term not in allowed]
    if wrong:
        message = f"{name} must be one of {', '.join(allowed)}, not {wrong[0]!r}"
        raise BadInput(message, field=name)
    return terms


def _moment(name: str, value: object, now: int) -> int:
    """The time of `since` or `until`."""
    at = parse_moment(fields.line(name, value), now, end=name == "until")
    if at is None:
        hint = (
            "a date such as 2025-11-20, a month such as 2025-11, a time, "
            "or an age such as 3d, 2w, 6m"
        )
        raise BadInput(f"{name}: cannot read {value!r}", hint, field=name)
    return at


class How(NamedTuple):
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
    place: Place,
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
    terms, stated = query.parse(text, place.clock())
    wanted = query.merge(restrictions, stated)._replace(reader=place.reader)
    has_words = bool(terms.words or terms.phrases)
    how = How(limit, offset, mode, recency, detail)
    wanted = _within(place, wanted, has_words)
    if has_words or not isinstance(place, Store):
        answer = _nearest(place, terms, wanted, how)
    else:
        answer = _newest(place, terms, wanted, how)
        bare = wanted._replace(reader=None) == restrictions and not terms.excluded
        if bare and text.strip() and answer.hits:
            answer.note = "the query has no word in it: these are the newest"
    notes = [f"{word} is not a filter, so it was searched as text" for word in terms.odd]
    notes += [TOO_LONG] * terms.cut
    ending = place.incomplete() if answer.hits else _nothing(place, wanted, how, has_words)
    return answer.replace(note="; ".join(filter(None, (*notes, answer.note, ending))))


def _within(place: Place, wanted: Filter, has_words: bool) -> Filter:
    """The filter with its path from the top of the work tree. Raises BadInput."""
    if isinstance(place, Store):
        return wanted._replace(path=place.of_code(wanted.path)) if wanted.path else wanted
    if has_words and not wanted.path:
        return wanted
    raise BadInput(
        "several repositories are searched by words alone",
        "`filemem -C DIR` asks one",
        field="path" if wanted.path else "query",
    )


def _nothing(place: Place, wanted: Filter, how: How, has_words: bool) -> str:
    """Why a search shows nothing."""
    if how.offset:
        return advice.passed_over(how.offset)
    if isinstance(place, Store):
        return advice.why_empty(place, wanted, has_words)
    return advice.nothing_like(has_words, restricted=False)


def _nearest(place: Place, terms: Terms, wanted: Filter, how: How) -> Results:
    """What is nominated for the words of a query, scored, in order."""
    searched, nominated = _nominated(place, terms, wanted, how)
    scored = _scored(nominated, searched, wanted, how, place.clock())
    candidates: dict[str, Known] = {row.id: row for row in nominated.candidates}
    placed, rows = _placed(place, scored, candidates, wanted, how.end)
    hits = of_places(place, rows, placed[how.offset :], searched, detail=how.detail)
    far = bool(hits) and how.mode == "hybrid" and scored[0].scores.final < CLOSE
    notes = [] if wanted.live else [_left_behind(scored[: how.end], candidates, placed)]
    if hits and terms.phrases and not searched.phrases:
        notes.append("no record holds that phrase; these are the nearest to its words")
    note = "; ".join(filter(None, (*notes, FAR if far else "")))
    return Results(hits, degraded=nominated.degraded or "", note=note, far=far)


def _nominated(place: Place, terms: Terms, wanted: Filter, how: How) -> tuple[Terms, Found]:
    """What is nominated for a query, and the query: without phrases if no record holds them."""
    if how.mode != "vector":
        terms = terms._replace(alike=said_instead(terms.words, place.synonyms))
    depth = max(RANKED, 3 * how.end)
    nominated = place.nominate(terms, wanted, depth, how.mode)
    if terms.phrases and not nominated.candidates:
        terms = query.loosened(terms)
        nominated = place.nominate(terms, wanted, depth, how.mode)
    return terms, nominated


def _placed(
    place: Place,
    scored: Sequence[Scored],
    candidates: Mapping[str, Known],
    wanted: Filter,
    limit: int,
) -> tuple[Sequence[Placed], Mapping[str, Known]]:
    """Put the scored candidates in order; return also the rows of all that has a place."""
    facts = {name: row.facts for name, row in candidates.items()}
    holding = {head for fact in facts.values() for head in (*fact.heads, *fact.forked)}
    rows = {**candidates, **place.by_id(holding - candidates.keys())}
    absent = holding - {hit.id for hit in scored}
    passing = _passing((rows[name] for name in absent if name in rows), wanted)
    visible = {name for name, row in candidates.items() if _holds(row) or not wanted.live}
    placed = query.arrange(
        scored,
        facts,
        unclear={name for name, row in candidates.items() if query.is_unclear(row.node)},
        may_bring=passing.__contains__,
        may_show=visible.__contains__,
        limit=limit,
    )
    return placed, rows


def _left_behind(
    scored: Sequence[Scored], candidates: Mapping[str, Known], placed: Sequence[Placed]
) -> str:
    """Name the best hits that the list has no room for, as their status is not understood."""
    places = {place.id for place in placed}
    nodes = [candidates[hit.id].node for hit in scored if hit.id not in places]
    left = [node for node in nodes if query.is_unclear(node)]
    titles = ", ".join(f'"{node.title}"' for node in left[:3])
    return f"further back, as the status is not understood: {titles}" if left else ""


def _newest(store: Store, terms: Terms, wanted: Filter, how: How) -> Results:
    """The newest records.

    With a path, the live decisions that govern it, or replace one that did, come first.
    """
    listed = wanted._replace(live=wanted.live and not wanted.path)
    nodes = store.index.newest(listed, how.limit, how.offset, without=terms)
    if wanted.path:
        nodes = _governing(store, nodes, wanted)[: how.limit]
    hits = present(store, nodes, terms, detail=how.detail)
    if wanted.path:
        hits = tuple(hit._replace(brought_in=not _governs(hit, wanted.path)) for hit in hits)
    return Results(hits)


def _governs(hit: Hit, path: str) -> bool:
    return any(query.affects_match(glob, path) for glob in hit.record.affects)


def _governing(store: Store, nodes: Iterable[Node], wanted: Filter) -> list[Node]:
    """What holds instead of some records first, then those of them that may be shown."""
    rows = store.by_id([node.id for node in nodes])
    order = [head for row in rows.values() for head in row.facts.heads]
    heads = store.by_id(set(order))
    passing = _passing(heads.values(), wanted)
    first = {head: heads[head].node for head in order if head in passing}
    others = (
        row.node
        for name, row in rows.items()
        if name not in first and (_holds(row) or not wanted.live)
    )
    return [*first.values(), *others]


def _scored(nominated: Found, terms: Terms, wanted: Filter, how: How, now: int) -> list[Scored]:
    nodes = [row.node for row in nominated.candidates]
    checkpoints = {node.id for node in nodes if node.type == CHECKPOINT}
    scored = query.score(
        nominated.candidates,
        now=now,
        recency=how.recency,
        weights=query.MEANING_ONLY if how.mode == "vector" else None,
        lesser=checkpoints if wanted.types != (CHECKPOINT,) else (),
        whole=nominated.whole,
        word=terms.is_word,
    )
    if terms.phrases:
        return [row for row in scored if row.scores.keyword]
    return [row for row in scored if row.scores.keyword or row.scores.vector >= NOISE]


def alike(store: Store, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
    """The `count` records of type `kind` nearest in meaning to a text, the likest first.

    Each has the relevance that a vector search gives it. No file is read.
    """
    terms, _ = query.parse(text, store.clock())
    ask = partial(store.index.candidates, terms, depth=4 * count, mode="vector")
    nearest = ask(Filter(reader=store.reader))
    if sum(row.node.type == kind for row in nearest.candidates) < count:
        # Slower: it compares every record of the type.
        nearest = ask(Filter(types=(kind,), reader=store.reader))
    return _by_meaning(store, nearest.candidates, kind, nearest.whole)[:count]


def all_alike(
    store: Store, texts: Sequence[str], kind: str, count: int
) -> list[list[tuple[Node, float]]]:
    """Answer `alike` for many texts in one pass over the vectors.

    Here each word of a text counts as much as it tells in general, and not also by how rare it is
    in this store; so a value may differ by some hundredths.
    """
    wanted = Filter(types=(kind,), reader=store.reader)
    try:
        near = store.index.neighbours(texts, wanted, 2 * count)
    except ModelUnavailable:
        return [alike(store, text, kind, count) for text in texts]
    return [_by_meaning(store, candidates, kind)[:count] for candidates in near]


def _by_meaning(
    store: Store, candidates: Sequence[Candidate], kind: str, whole: float = 0.0
) -> list[tuple[Node, float]]:
    """Those of one type, each with its relevance, the likest first."""
    rated = query.score(
        candidates,
        now=store.clock(),
        recency=False,
        weights=query.MEANING_ONLY,
        whole=whole,
    )
    nodes = {row.node.id: row.node for row in candidates if row.node.type == kind}
    pairs = [(nodes[row.id], query.relevance(row.scores)) for row in rated if row.id in nodes]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0].id))


def _holds(row: Known) -> bool:
    return row.node.type != DECISION or row.node.id in row.facts.heads


def _passing(rows: Iterable[Known], wanted: Filter) -> set[str]:
    """Return what may be brought in: what passes the filters, as far as its node says."""
    wanted = wanted._replace(path="")  # what it replaced governs that path
    return {row.node.id for row in rows if query.passes(wanted, row.node, holds=_holds(row))}
