"""Supersession: small stories with their answers, then what must hold for every store."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.chain import Chain, Flaw, Graph, Node, build_graph
from filemem.record import Edge

T = "auth"
LATER = 5_000


def node(name: str, created: int, supersedes: tuple[str, ...] | None = (), **more: object) -> Node:
    told: dict[str, object] = {"path": f"decisions/{name}.md", "topic": T, **more}
    made = Node(name, "", "decision", name, created, stated=True, supersedes=supersedes)
    return made._replace(**told)  # type: ignore[arg-type]


def merging(*others: str) -> tuple[Edge, ...]:
    return tuple(Edge("synthesizes", other) for other in others)


def hand(name: str, created: int, **more: object) -> Node:
    """A hand-written decision: no `supersedes` key."""
    return node(name, created, None, **more)


def heads(graph: Graph, topic: str = T) -> str:
    return " ".join(sorted(graph.get_chain(topic).heads))


# A story is its nodes and the ids that hold at its end.
STORIES: dict[str, tuple[list[Node], str]] = {
    "nothing": ([], ""),
    "one": ([node("a", 1)], "a"),
    "saved one after another": ([node("a", 1), node("b", 2, ("a",)), node("c", 3, ("b",))], "c"),
    "two branches": ([node("a", 1), node("b", 2, ("a",)), node("c", 3, ("a",))], "b c"),
    "two first decisions": ([node("a", 1), node("b", 2)], "a b"),
    "merged by supersedes": ([node("a", 1), node("b", 2), node("m", 3, ("a", "b"))], "m"),
    "merged by synthesizes": (
        [node("a", 1), node("b", 2), node("m", 3, (), edges=merging("a", "b"))],
        "m",
    ),
    "a synthesis of other topics takes nothing from them": (
        [
            node("a", 1),
            node("x", 1, topic="other"),
            node("m", 3, (), topic="third", edges=merging("a", "x")),
        ],
        "a",
    ),
    "hand-written in a row": ([hand("a", 1), hand("b", 2), hand("c", 3)], "c"),
    "hand-written on saved": ([node("a", 1), hand("b", 2)], "b"),
    "hand-written in the past forks": ([node("a", 1), node("c", 3, ("a",)), hand("b", 2)], "b c"),
    "an empty key is a statement": ([hand("a", 1), node("b", 2, ())], "a b"),
    "proposed demotes nobody": ([node("a", 1), node("b", 2, ("a",), status="proposed")], "a"),
    "rejected demotes nobody": ([node("a", 1), node("b", 2, ("a",), status="rejected")], "a"),
    "deprecated demotes": ([node("a", 1), node("b", 2, ("a",), status="deprecated")], ""),
    "implied order skips proposed": (
        [hand("a", 1), hand("p", 2, status="proposed"), hand("c", 3)],
        "c",
    ),
    "implied order skips rejected": (
        [hand("a", 1), hand("r", 2, status="rejected"), hand("c", 3)],
        "c",
    ),
    "a proposed one without the key implies nothing": (
        [hand("a", 1), hand("p", 2, status="proposed")],
        "a",
    ),
    "implied over a deprecated one": (
        [hand("a", 1), hand("d", 2, status="deprecated"), hand("c", 3)],
        "c",
    ),
    "no topic, no implied order": (
        [hand("a", 1, topic=""), hand("b", 2, topic=""), hand("c", 3)],
        "c",
    ),
    "superseded elsewhere": ([node("a", 1), node("b", 2, ("a",), topic="sessions")], ""),
    "stated on the old side": ([node("a", 1, superseded_by=("b",)), node("b", 2)], "b"),
    "stated on the old side by a proposal": (
        [node("a", 1, superseded_by=("b",)), node("b", 2, status="proposed")],
        "a",
    ),
    "by path": ([node("a", 1), node("b", 2, ("decisions/a.md",))], "b"),
    "gone in the middle": ([node("a", 1), node("c", 3, ("b",))], "c"),
    "gone at the beginning": ([node("b", 2, ("a",))], "b"),
    "gone elsewhere, nothing before it": ([node("a", 5), node("b", 2, ("x",))], "a b"),
    "itself": ([node("a", 1), node("b", 2, ("a", "b"))], "b"),
    "a circle of two": ([node("a", 1, ("b",)), node("b", 2, ("a",))], "a b"),
    "a circle with a tail": (
        [node("a", 1, ("b",)), node("b", 2, ("a",)), node("c", 3, ("b",))],
        "a c",
    ),
    "a circle on something": (
        [node("x", 0), node("a", 1, ("b", "x")), node("b", 2, ("a",))],
        "a b",
    ),
    "a circle through the old side": (
        [hand("a", 1, superseded_by=("b",)), hand("b", 2, superseded_by=("a",))],
        "a b",
    ),
    "no circle while one is only proposed": (
        [node("a", 1, ("p",)), node("p", 2, ("a",), status="proposed")],
        "a",
    ),
    "dated by the day, behind what it replaces": (
        [node("b", 10), node("a", 5, ("b",)), hand("c", 20)],
        "c",
    ),
    "same time, by path": ([hand("z", 1), hand("a", 1)], "z"),
    "nobody knows its date: the youngest": ([hand("a", 0), hand("z", 1)], "a"),
}


def test_stories() -> None:
    for story, (nodes, held) in STORIES.items():
        assert heads(build_graph(nodes)) == held, story


def test_chain_tells_order_heads_and_what_was_implied() -> None:
    nodes = [
        hand("c", 3),
        node("a", 1),
        hand("p", 2, status="proposed"),
        node("b", 2, ("a",), path="z.md"),
    ]
    assert build_graph(nodes).get_chain(T) == Chain(
        T, ("a", "p", "b", "c"), ("c",), frozenset({"c"})
    )
    assert build_graph(nodes).get_chain("unknown") == Chain("unknown")


def test_the_answers_about_one_decision() -> None:
    graph = build_graph(
        [
            node("a", 1),
            node("b", 2, ("a",)),
            node("c", 3, ("a",)),
            node("p", 4, ("b",), status="proposed"),
        ]
    )
    assert graph.list_successors("a") == ("b", "c")
    assert graph.list_predecessors("c") == ("a",)
    assert graph.list_heads("a") == ("b", "c")
    assert graph.list_heads("b") == ("b",)
    assert graph.list_predecessors("p") == ("b",)  # what it would replace
    assert graph.list_heads("p") == ("b", "c")  # what holds on its topic
    assert graph.get_chain(T).is_forked
    assert (graph.is_head("b"), graph.is_head("a"), graph.is_head("nobody")) == (True, False, False)
    assert (
        graph.list_heads("nobody")
        == graph.list_successors("nobody")
        == graph.list_predecessors("nobody")
        == ()
    )


def test_what_the_next_save_supersedes() -> None:
    a, b = node("a", 1), node("b", 2, ("a",))
    assert build_graph([]).list_next_superseded(T) == ()
    assert build_graph([a, b]).list_next_superseded(T) == ("b",)
    assert build_graph([a, node("c", 3)]).list_next_superseded(T) == ("a", "c")
    deprecated = [b._replace(status="deprecated"), node("c", 3, ("b",), status="deprecated")]
    assert build_graph([a, *deprecated]).list_next_superseded(T) == ("c",)
    assert build_graph([a._replace(status="rejected")]).list_next_superseded(T) == ()
    elsewhere = node("d", 4, ("c",), topic="objects")
    assert build_graph([a, *deprecated, elsewhere]).list_next_superseded(T) == (), (
        "it was replaced on another topic"
    )


def test_a_gone_reference_leads_to_what_was_before_it_and_not_to_what_came_after() -> None:
    gone = f"decision_auth_{1_700_000_000_500}_k3f9w2ma"
    old = node("a", 1_700_000_000_000)
    sibling = node("s", 1_700_000_000_700)
    new = node("c", 1_700_000_000_900, (gone,))
    graph = build_graph([old, sibling, new])
    assert heads(graph) == "c s"
    assert graph.list_predecessors("c") == ("a",)


def problems(graph: Graph) -> list[tuple[str, str, str]]:
    return [(flaw.node, flaw.code, flaw.level) for flaw in graph.problems]


def test_problems() -> None:
    lost = [node("a", 1), node("b", 2, ("x",))]
    assert problems(build_graph(lost)) == [("b", "supersedes-missing", "warning")]
    assert problems(build_graph(lost, known_removed={"x"})) == [("b", "supersedes-missing", "hint")]
    assert problems(build_graph([node("a", 1, superseded_by=("x",))])) == [
        ("a", "superseded-by-missing", "warning")
    ]
    assert problems(build_graph([node("a", 1, ("a",))])) == [("a", "supersedes-itself", "warning")]
    circle = build_graph([node("a", 1, ("b",)), node("b", 2, ("a",))])
    assert problems(circle) == [
        ("a", "supersedes-cycle", "error"),
        ("b", "supersedes-cycle", "error"),
    ]
    told = "supersedes x, which names no decision, or several"
    assert (
        build_graph(lost).problems[0].message
        == f"{told}; the one before it on the topic is taken instead"
    )
    assert build_graph([node("b", 2, ("x",), topic="")]).problems[0].message == told
    assert problems(build_graph([node("a", 1), node("b", 2, ("a",))])) == []
    assert isinstance(circle.problems[0], Flaw)


def test_of_two_with_one_id_the_older_counts() -> None:
    older, younger = node("a", 1, topic="one"), node("a", 2, topic="two")
    for nodes in ([older, younger], [younger, older]):
        assert build_graph(nodes).nodes["a"] == older


NAMES = [f"n{number}" for number in range(9)]


@st.composite
def stores(
    draw: st.DrawFn, statuses: tuple[str, ...] = ("accepted", "deprecated", "proposed", "rejected")
) -> list[Node]:
    """Any store: references to anything, to nothing, to themselves, in circles."""
    references = st.lists(st.sampled_from([*NAMES, "gone"]), max_size=3).map(tuple)
    return [
        Node(
            id=name,
            path=f"{name}.md",
            type="decision",
            title=name,
            stated=True,
            topic=draw(st.sampled_from(["", "x", "y"])),
            created=draw(st.integers(1, 5)),
            status=draw(st.sampled_from(statuses)),
            supersedes=draw(st.none() | references),
            superseded_by=draw(st.just(()) | references),
            edges=merging(*draw(st.just(()) | references)),
        )
        for name in NAMES[: draw(st.integers(0, len(NAMES)))]
    ]


def acyclic(nodes: list[Node]) -> list[Node]:
    """Keep only references to nodes earlier in the list, which is also made the order of time."""
    known: set[str] = set()
    kept = []
    for number, each in enumerate(nodes):
        supersedes = (
            None
            if each.supersedes is None
            else tuple(ref for ref in each.supersedes if ref in known)
        )
        merged = tuple(ref for ref in each.merged_references if ref in known)
        kept.append(
            each._replace(
                created=number + 1, supersedes=supersedes, edges=merging(*merged), superseded_by=()
            )
        )
        known.add(each.id)
    return kept


HARD = settings(deadline=None, derandomize=True, max_examples=60)


@HARD
@given(stores(), st.randoms(use_true_random=False))
def test_the_order_of_reading_changes_nothing(nodes: list[Node], rng: random.Random) -> None:
    shuffled = nodes.copy()
    rng.shuffle(shuffled)
    one, other = build_graph(nodes), build_graph(shuffled)
    assert one == other
    assert list(one.nodes) == list(other.nodes)


@HARD
@given(stores())
def test_whatever_is_written_the_graph_is_sound(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    order = {name: place for place, name in enumerate(graph.nodes)}
    assert set(order) == {each.id for each in nodes}
    for name in order:
        for above in graph.list_successors(name):
            assert order[above] > order[name]  # so there is no circle
            assert graph.nodes[above].status in ("accepted", "deprecated")
            assert name in graph.list_predecessors(above)
        assert all(graph.is_head(head) for head in graph.list_heads(name))
        assert graph.is_head(name) == (
            graph.nodes[name].status == "accepted" and not graph.list_successors(name)
        )
    told = {name for chain in graph.chains.values() for name in chain.order}
    assert told == {each.id for each in nodes if each.topic}


@HARD
@given(stores(statuses=("accepted", "proposed", "rejected")))
def test_where_anything_is_accepted_something_holds(nodes: list[Node]) -> None:
    graph = build_graph(acyclic(nodes))
    accepted = [each.id for each in nodes if each.status == "accepted"]
    assert all(graph.list_heads(name) for name in accepted)
    assert not [flaw for flaw in graph.problems if flaw.code == "supersedes-cycle"]


@HARD
@given(stores(), st.sampled_from(["supersedes", "synthesizes"]))
def test_a_merge_closes_a_fork(nodes: list[Node], key: str) -> None:
    held = build_graph(nodes).get_chain("x").heads
    stated, edges = (held, ()) if key == "supersedes" else ((), merging(*held))
    merged = node("merge", LATER, stated, topic="x", edges=edges)
    assert build_graph([*nodes, merged]).get_chain("x").heads == ("merge",)


@HARD
@given(stores())
def test_a_proposal_changes_nobodys_place(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    everything = tuple(graph.nodes)
    proposal = node("p", LATER, everything, topic="x", status="proposed")
    after = build_graph([*nodes, proposal])
    assert {name: after.list_successors(name) for name in everything} == {
        name: graph.list_successors(name) for name in everything
    }


@pytest.mark.parametrize("shape", ["long chain", "by hand", "one circle", "all forks"])
def test_thousands_of_decisions(shape: str) -> None:
    count = 5_000
    before = {
        "long chain": lambda n: (f"{n - 1}",),
        "one circle": lambda n: (f"{(n - 1) % count}",),
    }
    state = before.get(shape, lambda _: () if shape == "all forks" else None)
    nodes = [node(str(number), number + 1, state(number)) for number in range(count)]
    started = time.process_time()
    graph = build_graph(nodes)
    assert time.process_time() - started < 2.5
    expected = 1 if shape in ("long chain", "by hand") else count
    assert len(graph.get_chain(T).heads) == expected
    assert graph.list_heads("0")
