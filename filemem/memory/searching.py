"""From a question to hits: ask the index, score, put in known order; `hits` then reads the files of what is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from filemem import query
from filemem.chain import DEMOTING, Graph
from filemem.documents import Node
from filemem.files import fits
from filemem.index import Found
from filemem.memory import graph
from filemem.memory.hits import of_places, present
from filemem.memory.store import Store
from filemem.query import Filter, Hit, Placed, Results, Scored, Terms
from filemem.record import CHECKPOINT

RANKED = 50  # candidates asked of words and of meaning, and of both those that are looked at closely
NEAR = 5  # records looked at for likeness
GIST = 900  # characters of a text that are compared by meaning
SPARE = 10  # candidates beyond what is shown whose chains are gathered at once, at most: as many as are shown
CLOSE = 0.3  # the best that was found shares neither words nor meaning with the query if its score is below this
TOO_LONG = f"the query is long: no more than {query.MAX_TERMS} words and {query.MAX_BYTES:,} bytes of it were searched"
NOISE = 0.1  # a cosine below this, without a single word in common, says nothing

NAMING = 5.0  # seconds that looking for the earlier names of a file may take


def search(
    store: Store, text: str, given: Filter, *, limit: int, offset: int = 0, mode: str = "hybrid", recency: bool = True
) -> Results:
    """Answer a query.

    Args:
        store: the parts.
        text: words, phrases, exclusions and restrictions as `filemem.query.parse` reads them; empty for the newest.
        given: restrictions besides those in the text.
        limit, offset: how many hits, and how many to pass over.
        mode: hybrid, keyword or vector.
        recency: whether age counts.
    """
    terms, stated = query.parse(text, store.clock())
    wanted = query.merge(given, stated)
    if wanted.path:
        wanted = wanted._replace(earlier=(*wanted.earlier, *_earlier(store, wanted.path)))
    demoted, revived = _demoted_by_pending(store), _revived_by_pending(store)
    if not (terms.words or terms.phrases):
        listed = store.index.newest(wanted, limit, offset, without=terms, dead=demoted, alive=revived)
        nodes = [Node.loads(one) for one in listed]
        wordless = bool(text.strip()) and wanted == given and not terms.excluded
        return _newest(store, nodes, terms, wanted, offset, wordless=wordless)
    looked_at = max(RANKED, 3 * (limit + offset))
    ask = partial(_found, store, wanted=wanted, depth=looked_at, mode=mode, dead=demoted, alive=revived)
    found, note = ask(terms), ""
    if terms.phrases and not found.candidates:
        note = f"no record holds {_quoted(terms.phrases)}; these are the nearest to its words"
        terms = query.loosened(terms)
        found = ask(terms)
    told = [f"no record holds {word!r}; searched for {' '.join(spellings)}" for word, spellings in found.instead]
    told += [*map(_oddity, terms.odd), *([TOO_LONG] if terms.cut else [])]
    weights = query.MEANING_ONLY if mode == "vector" else None
    checkpoints = {one.id for one in found.candidates if one.id.startswith(f"{CHECKPOINT}_")}
    lesser = checkpoints if wanted.types != (CHECKPOINT,) else ()
    rated = query.score(
        found.candidates, now=store.clock(), recency=recency, weights=weights, lesser=lesser, whole=found.whole
    )
    scored = [one for one in rated if one.scores.keyword or (one.scores.vector >= NOISE and not terms.phrases)]
    placed, resolved, nodes_by_id, pointing = _placed(
        store, scored, {one.id: one.node for one in found.candidates}, wanted, offset + limit
    )
    shown = of_places(store, resolved, nodes_by_id, placed[offset : offset + limit], pointing, terms)
    told += (
        ["nothing is close to this: these are the nearest"]
        if shown and mode == "hybrid" and scored[0].scores.final < CLOSE
        else []
    )
    told += _doubts(store, shown, terms, wanted, len(placed), offset, "keyword" if found.degraded else mode)
    return Results(shown, degraded=found.degraded or "", note="; ".join(([note] if note and shown else []) + told))


def _newest(
    store: Store, nodes: Sequence[Node], terms: Terms, wanted: Filter, offset: int, *, wordless: bool
) -> Results:
    """Answer a query without words with the newest; `wordless`, where something was typed that is no word."""
    shown = present(store, nodes, terms)
    matched = store.index.count(wanted) if offset and not shown else 0
    told = [*map(_oddity, terms.odd)] + ["the query has no word in it: these are the newest"] * bool(shown and wordless)
    return Results(shown, note="; ".join(told + _doubts(store, shown, terms, wanted, matched, offset, "")))


def _found(
    store: Store,
    asked: Terms,
    *,
    wanted: Filter,
    depth: int,
    mode: str,
    dead: Collection[str],
    alive: Collection[str],
) -> Found:
    """What may be shown, and where only what holds is asked for, what leads to it: known order brings its head in."""
    found = store.index.candidates(asked, wanted, depth, mode=mode, dead=dead, alive=alive, most=depth)
    if not wanted.live:
        return found
    leading = store.index.candidates(asked, wanted._replace(live=False), depth, mode=mode, most=depth)
    every = {one.path: one for one in (*leading.candidates, *found.candidates)}
    return found._replace(candidates=tuple(every.values()))


def _earlier(store: Store, path: str) -> tuple[str, ...]:
    """The names that a file had before, as far as history tells them soon; a folder or a glob has none."""
    history = store.history if store.repo is store.code else store.code.history
    if not fits(path) or not (store.code.work_tree / path).is_file() or store.code.head() is None:
        return ()
    from filemem.repo import GitError, arrivals  # noqa: PLC0415 - most searches are about no file

    try:
        names = arrivals.touching(history, path, limit=NAMING).names
    except GitError as error:
        if error.code != -1:
            raise
        return ()
    return tuple(sorted(names - {path}))


def _doubts(
    store: Store, shown: Sequence[Hit], terms: Terms, wanted: Filter, matched: int, offset: int, mode: str
) -> list[str]:
    """Why an answer is empty; arguments as for `doubts.why_empty`."""
    if shown:
        return []
    from filemem.memory import doubts  # noqa: PLC0415 - for an empty answer only

    why = doubts.why_empty(store, terms, wanted, matched, offset, mode)
    return [why] if why else []


def _placed(
    store: Store, scored: Sequence[Scored], texts: Mapping[str, str], wanted: Filter, limit: int
) -> tuple[tuple[Placed, ...], Graph, Mapping[str, Node], tuple[Node, ...]]:
    """Put what was found in known order; return `limit` places, and the neighbourhood that they are of.

    Chains are gathered for the best of them first; of the others only those matter that belong to these chains. Only
    where that leaves places empty, because many are of few chains, is everything gathered.
    """
    for count in (limit + min(SPARE, limit), len(scored)):
        nodes = {one.id: Node.loads(texts[one.id]) for one in scored[:count]}
        resolved, around, pointing = graph.neighbourhood(store, nodes.values())
        nodes = around | nodes
        among = [one for at, one in enumerate(scored) if at < count or one.id in around]
        passing = {node.id for node in around.values() if _passes(node, wanted)}
        lives = {one.id for one in among if not wanted.live or graph.is_live(resolved, nodes[one.id])}
        placed = query.arrange(
            among, resolved, may_bring=passing.__contains__, may_show=lives.__contains__, limit=limit
        )
        if len(placed) >= limit or count >= len(scored):
            break
    return placed, resolved, nodes, pointing


def similar(store: Store, text: str, kind: str, without: Collection[str] = ()) -> list[tuple[Node, float]]:
    """Return records of a kind that say nearly what a text says, each with its likeness (0..1), the likest first.

    Args:
        store: the parts.
        text: heading and text of a record; its beginning is compared by meaning, all of it word by word.
        kind: decision, checkpoint or observation.
        without: ids to leave out.

    Raises:
        BrokenStore: the index cannot be asked.
    """
    asked = Terms(text=text[:GIST])
    found = store.index.candidates(asked, Filter(types=(kind,)), NEAR + len(without)).candidates
    near = [one for one in found if one.id not in without and (one.cosine or 0.0) >= query.NEARLY]
    nodes = {one.id: Node.loads(one.node) for one in near}
    others = []
    for one in near:
        other = store.read(nodes[one.id].path, nodes[one.id].birth.name).record
        if other is not None:
            others.append((one.id, f"{other.title}\n{other.text}", one.cosine))
    return [(nodes[one.id], one.likeness) for one in query.similar(text, others)]


def _oddity(typed: str) -> str:
    """Say how something was read that may have been meant otherwise."""
    if not typed.startswith("-"):
        return f"{typed} is no restriction with this value, so it was searched as text"
    if ":" in typed:
        return f"{typed} was left out: a minus excludes words, not what a restriction finds"
    return f'{typed} was searched as text; -"{typed[1:]}" excludes it'


def _quoted(phrases: Iterable[str]) -> str:
    return " and ".join(f'"{phrase}"' for phrase in phrases)


def _passes(node: Node | None, wanted: Filter) -> bool:
    """Whether a head that was not found satisfies the restrictions, as far as its node tells."""
    if node is None:
        return False
    terms = {
        "type": (node.type,),
        "topic": (node.key,),
        "status": (node.status,),
        "outcome": (node.outcome,),
        "live": ("yes" if node.live else "no",),
    }
    asks_more = any(
        (wanted.tags, wanted.agents, wanted.path, wanted.branches, wanted.users, wanted.runs, wanted.metadata)
    )
    return not asks_more and query.matches(wanted, terms, node.created)


def _demoted_by_pending(store: Store) -> frozenset[str]:
    """Ids that records not yet folded into the index supersede: the index still says that they live."""
    pending = [Node.loads(text) for text in store.index.pending_nodes()]
    return frozenset(target for node in pending if node.status in DEMOTING for target in node.supersedes or ())


def _revived_by_pending(store: Store) -> frozenset[str]:
    """Ids that hold again because what superseded them was removed, which the index does not say yet."""
    removed = [Node.loads(text) for text in store.index.removed_nodes()]
    targets = {target for node in removed for target in node.supersedes or ()}
    if not targets:
        return frozenset()
    resolved, _, _ = graph.neighbourhood(store, store.lookup("id", targets))
    return frozenset(filter(resolved.is_head, targets))
