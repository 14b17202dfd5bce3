"""From a question to hits: ask the index, score, put in known order; `hits` then reads the files of what is shown.

What is asked is the store at hand, `Here`, or another place that does the same: several of them, or an organisation's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from filemem import query
from filemem.errors import BadInput, suggest
from filemem.index import Counts, Found, Known, ModelUnavailable, Node, said_instead
from filemem.memory import advice, fields
from filemem.memory.hits import of_places, present
from filemem.memory.store import Store
from filemem.query import Candidate, Filter, Hit, Placed, Results, Scored, Terms, parse_moment
from filemem.query.filter import NAMED, READ, fold
from filemem.record import CHECKPOINT, DECISION

RANKED = 50  # candidates asked at least
CLOSE = 0.3  # the best that was found shares neither words nor meaning with the query if its score is below this
FAR = "nothing is close to this: these are the nearest; ask again with the terms and names that an answer would use"
TOO_LONG = f"the query is long: no more than {query.MAX_TERMS} words and {query.MAX_BYTES:,} bytes of it were searched"
NOISE = 0.1  # a cosine below this, without a single word in common, says nothing
MODES = ("hybrid", "keyword", "vector")


def filter_of(restrictions: Mapping[str, Any], now: int) -> Filter:
    """Read the filters of a search by the names that callers use; `now` is in epoch milliseconds.

    They are type, topic, tag, outcome, status, agent, branch, user, run, session, project (one or several words),
    since, until (a date or an age such as 2w), path, live. Raises BadInput: an unknown filter, or an invalid value.
    """
    values: dict[str, Any] = {}
    known = (*NAMED, "since", "until", "path", "live")
    for asked, value in restrictions.items():
        name = "session" if asked == "memory_session_id" else asked
        if name not in known:
            raise BadInput(f"search has no filter {name!r}", suggest(name, known), field=name)
        if value is None:
            continue
        if name in NAMED:
            read, allowed = READ.get(name, (fold, ()))
            listed = fields.words if name == "tag" else fields.lines
            given = [word for word in listed(asked, value) if (name, word) != ("type", "all")]
            values[NAMED[name]] = found = tuple(map(read, given))
            if wrong := [word for word in found if allowed and word not in allowed]:
                raise BadInput(
                    f"{name} must be one of {', '.join(allowed)}, not {wrong[0]!r}", field=name
                )
        elif name == "live":
            values[name] = fields.flag(name, value)
        else:
            values[name] = fields.line(name, value)
            if (
                name != "path"
                and (moment := parse_moment(values[name], now, end=name == "until")) is None
            ):
                hint = "a date such as 2025-11-20, a month such as 2025-11, a time, or an age such as 3d, 2w, 6m"
                raise BadInput(f"{name}: cannot read {value!r}", hint, field=name)
            values[name] = values[name] if name == "path" else moment
    return Filter(**values)


def search(  # noqa: C901
    asked: Store | Here,
    text: str,
    given: Filter,
    *,
    limit: int,
    offset: int = 0,
    mode: str = "hybrid",
    recency: bool = True,
    detail: bool = True,
) -> Results:
    """Answer a query: words, "phrases", -exclusions, filters such as topic:caching or is:live; "" for the newest.

    `asked`: a store, or several as one, which are searched by words alone; `given`: filters besides those in the text;
    `offset`: hits to skip; `recency`: whether age counts; `detail`: whether to add who wrote what is found.
    """
    store, source = (
        (asked, Here(asked)) if (alone := isinstance(asked, Store)) else (asked.store, asked)
    )
    terms, stated = query.parse(text, store.clock())
    wanted = query.merge(given, stated)._replace(reader=store.reader)
    has_words = bool(terms.words or terms.phrases)
    if not alone and (wanted.path or not has_words):
        field = "path" if wanted.path else "query"
        raise BadInput(
            "several repositories are searched by words alone",
            "`filemem -C DIR` asks one",
            field=field,
        )
    if wanted.path:
        wanted = wanted._replace(path=store.of_code(wanted.path))
    told, degraded = [f"{one} is not a filter, so it was searched as text" for one in terms.odd], ""
    told += [TOO_LONG] if terms.cut else []
    if not has_words:
        shown = present(store, _newest(store, terms, wanted, limit, offset), terms, detail=detail)
        if wanted.path:
            governs = (
                any(query.affects_match(one, wanted.path) for one in hit.record.affects)
                for hit in shown
            )
            shown = tuple(
                hit._replace(brought_in=not own) for hit, own in zip(shown, governs, strict=True)
            )
        if shown and text.strip() and wanted._replace(reader=None) == given and not terms.excluded:
            told.append("the query has no word in it: these are the newest")
    else:
        terms = terms._replace(
            alike=said_instead(terms.words, store.synonyms) if mode != "vector" else ()
        )
        looked_at = max(RANKED, 3 * (limit + offset))
        found = source.nominate(terms, wanted, looked_at, mode)
        if loose := bool(terms.phrases and not found.candidates):
            terms = query.loosened(terms)
            found = source.nominate(terms, wanted, looked_at, mode)
        scored = _scored(store, found, terms, wanted, mode=mode, recency=recency)
        candidates = {candidate.node.id: candidate for candidate in found.candidates}
        placed, known = source.place(scored, candidates, wanted, offset + limit)
        shown = source.show(placed[offset : offset + limit], known, terms, detail=detail)
        told.append(
            "" if wanted.live else _left_behind(scored[: offset + limit], candidates, placed)
        )
        if shown and loose:
            told.append("no record holds that phrase; these are the nearest to its words")
        if shown and mode == "hybrid" and scored[0].scores.final < CLOSE:
            told.append(FAR)
        degraded = found.degraded or ""
    if shown:
        told.append(store.repo.incomplete())
    elif offset:
        told.append(advice.passed_over(offset))
    else:
        like = advice.nothing_like(has_words, restricted=False)
        told.append(advice.why_empty(store, wanted, has_words) if alone else like)
    return Results(shown, degraded=degraded, note="; ".join(filter(None, told)))


def _left_behind(
    scored: Sequence[Scored], known: Mapping[str, Known], placed: Sequence[Placed]
) -> str:
    """Name the best found that the list has no room for, as their status is not understood."""
    places = {place.id for place in placed}
    nodes = [known[hit.id].node for hit in scored if hit.id not in places]
    left = [node for node in nodes if query.is_unclear(node)]
    titles = ", ".join(f'"{node.title}"' for node in left[:3])
    return f"further back, as the status is not understood: {titles}" if left else ""


def _newest(store: Store, terms: Terms, wanted: Filter, limit: int, offset: int) -> list[Node]:
    """The newest records; with a path, the live decisions that govern it, or replace one that did, come first."""
    nodes = store.index.newest(
        wanted._replace(live=wanted.live and not wanted.path), limit, offset, without=terms
    )
    return _governing(store, nodes, wanted)[:limit] if wanted.path else nodes


def _governing(store: Store, nodes: Iterable[Node], wanted: Filter) -> list[Node]:
    """What holds instead of some records first, then those of them that may be shown."""
    rows = store.index.by_id([node.id for node in nodes])
    heads = store.index.by_id({head for row in rows.values() for head in row.facts.heads})
    order = [head for row in rows.values() for head in row.facts.heads if head in heads]
    passing = _passing(heads.values(), wanted)
    first = {head: heads[head].node for head in order if head in passing}
    others = (
        row.node
        for name, row in rows.items()
        if name not in first and (_holds(row) or not wanted.live)
    )
    return [*first.values(), *others]


def _scored(
    store: Store, found: Found, terms: Terms, wanted: Filter, *, mode: str, recency: bool
) -> list[Scored]:
    checkpoints = {one.node.id for one in found.candidates if one.node.type == CHECKPOINT}
    lesser = checkpoints if wanted.types != (CHECKPOINT,) else ()
    rated = query.score(
        found.candidates,
        now=store.clock(),
        recency=recency,
        weights=query.MEANING_ONLY if mode == "vector" else None,
        lesser=lesser,
        whole=found.whole,
        word=terms.is_word,
    )
    return [
        one
        for one in rated
        if one.scores.keyword or (one.scores.vector >= NOISE and not terms.phrases)
    ]


def alike(store: Store, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
    """The `count` records of type `kind` nearest in meaning to a text, the likest first.

    Each has the relevance that a vector search gives it. No file is read.
    """
    terms, _ = query.parse(text, store.clock())
    ask = partial(store.index.candidates, terms, depth=4 * count, mode="vector")
    nearest = ask(Filter(reader=store.reader))
    if sum(row.node.type == kind for row in nearest.candidates) < count:
        nearest = ask(
            Filter(types=(kind,), reader=store.reader)
        )  # slower: it compares every record of the type
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


class Here:
    """The store at hand as a place that is searched: what it finds is scored by `search`, whoever nominated it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def counts(self, terms: Terms) -> Counts:
        """How many documents there are, how many hold each form of the words, and how long their fields are."""
        return self.store.index.counts(terms)

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """The best `depth` records by words and by meaning; scores by words are by `counts`, or else by its own.

        Where only what holds is asked for, also what leads to it: known order brings its head in.
        """
        ask = partial(self.store.index.candidates, terms, depth=depth, mode=mode, counts=counts)
        found = ask(wanted)
        if not wanted.live:
            return found
        every = {
            one.path: one
            for one in (*ask(wanted._replace(live=False)).candidates, *found.candidates)
        }
        return found._replace(candidates=tuple(every.values()))

    def place(
        self, scored: Sequence[Scored], known: Mapping[str, Known], wanted: Filter, limit: int
    ) -> tuple[Sequence[Placed], Any]:
        """Put what was scored, of the `known` records, in known order.

        Return `limit` places, and what `show` needs.
        """
        facts = {name: row.facts for name, row in known.items()}
        holding = {head for one in facts.values() for head in (*one.heads, *one.forked)}
        every = {**known, **self.store.index.by_id(holding - known.keys())}
        absent = holding - {hit.id for hit in scored}
        passing = _passing((every[name] for name in absent if name in every), wanted)
        shown = {name for name, row in known.items() if _holds(row)} if wanted.live else facts
        placed = query.arrange(
            scored,
            facts,
            unclear={name for name, row in known.items() if query.is_unclear(row.node)},
            may_bring=passing.__contains__,
            may_show=shown.__contains__,
            limit=limit,
        )
        return placed, every

    def show(
        self, places: Sequence[Placed], known: Any, terms: Terms, *, detail: bool
    ) -> tuple[Hit, ...]:
        """The hits of places, in order, without what is gone; `detail` adds who wrote them."""
        return of_places(self.store, known, places, terms, detail=detail)


def _holds(row: Known) -> bool:
    return row.node.type != DECISION or row.node.id in row.facts.heads


def _passing(rows: Iterable[Known], wanted: Filter) -> set[str]:
    """Return what may be brought in: what passes the filters, as far as its row shows."""
    reader = wanted.reader
    seen = {row.node.id: row for row in rows if not reader or reader.sees(row.node.audience)}
    wanted = wanted._replace(path="", reader=None)  # what it replaced governs that path
    if wanted == Filter():
        return set(seen)
    hidden = wanted._replace(types=(), topics=(), statuses=(), outcomes=())
    if hidden._replace(since=None, until=None, live=False) != Filter():
        return set()  # no node shows this
    return {
        name for name, row in seen.items() if query.matches(wanted, _exact(row), row.node.created)
    }


def _exact(row: Known) -> dict[str, tuple[str, ...]]:
    """Return the terms of a record, as a filter asks for them."""
    node = row.node
    return {
        "type": (node.type,),
        "topic": (node.key,),
        "status": (node.status,),
        "outcome": (node.outcome,),
        "live": ("yes" if _holds(row) else "no",),
    }
