"""Queries, filters, scores, order, excerpts: the pure part of searching."""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem import query
from filemem.chain import Graph, Node, build_graph
from filemem.index.document import build_passages
from filemem.query import Candidate, Filter, Placement, ScoredCandidate, Terms
from filemem.query.score import Scores, Weights, compute_recency
from filemem.record import parse_time

DAY = 86_400_000
NOW = int(datetime(2025, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
SOFT = settings(deadline=None, derandomize=True, max_examples=80)


def at(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


# --- what was typed

WORDS = {
    "jwt refresh": ("jwt", "refresh"),
    "What is the cause?": ("What", "is", "the", "cause"),
    "std::vector<int> in C++, or C#?": ("std::vector<int>", "in", "C++", "or", "C#"),
    "src/auth/jwt.ts v1.2.3.": ("src/auth/jwt.ts", "v1.2.3"),
    "https://x.org/a?b=c&d=1#e": ("https://x.org/a?b=c&d=1#e",),
    "foo:bar Note: this": ("foo:bar", "Note", "this"),
    "type:string status:200 is:it outcome:good": (
        "type:string",
        "status:200",
        "is:it",
        "outcome:good",
    ),
    "since:never topic: -- - -1 --json": ("since:never", "topic", "-1", "--json"),
    ".env f() a&&b": (".env", "f()", "a&&b"),
    "twice twice": ("twice",),
    "数据库 缓存": ("数据库", "缓存"),
    "na\u0000ive \u001b[1m": ("naive", "[1m"),
    "(((( ]]]] :::: !!!! ++++": (),
    "": (),
}


@pytest.mark.parametrize("text", WORDS)
def test_words_survive_as_typed(text: str) -> None:
    terms, wanted = query.parse_query(text)
    assert terms.words == WORDS[text]
    assert (terms.phrases, terms.excluded) == ((), ())
    assert wanted == Filter()


def test_phrases_and_exclusions() -> None:
    terms, _ = query.parse_query(
        'cache "refresh token" -redis -"single node" “curly ones” "one" -C++ "open end'
    )
    assert terms.phrases == ("refresh token", "curly ones", "one")
    assert terms.excluded == ("redis", "single node", "C++")
    assert terms.words == ("cache", "open", "end")
    assert terms.text == "cache refresh token curly ones one open end"


def test_what_is_one_word() -> None:
    one = ("redis", '"redis"', "redis -cluster tag:a", "getUserById")
    assert [
        query.parse_query(text)[0].is_word
        for text in (*one, "redis cluster", '"two words"', "tag:a", "")
    ] == [
        *[True] * len(one),
        *[False] * 4,
    ]


def test_a_single_word_set_off_in_a_sentence_is_not_required() -> None:
    terms, _ = query.parse_query(
        'in a whole sentence we may set off the "word" that we like best, and "a phrase" is one'
    )
    assert terms.phrases == ("a phrase",)
    assert "word" in terms.words


def test_restrictions() -> None:
    terms, wanted = query.parse_query(
        "why topic:Auth-Strategy type:decision,checkpoint tag:Performance tag:db outcome:failed status:accepted "
        'agent:"Claude Code" is:live since:2025-01-01 until:2025-01-02 path:src/auth branch:feature/X'
    )
    assert terms == Terms(words=("why",), text="why")
    assert wanted == Filter(
        types=("decision", "checkpoint"),
        topics=("auth_strategy",),
        tags=("performance", "db"),
        outcomes=("failed",),
        statuses=("accepted",),
        agents=("claude code",),
        branches=("feature/X",),
        since=at(2025, 1, 1),
        until=at(2025, 1, 3) - 1,
        path="src/auth",
        live=True,
    )


def test_what_may_have_been_meant_otherwise_is_told() -> None:
    terms, wanted = query.parse_query("redis -topic:auth topic: ticket -1432")
    assert (terms.words, terms.excluded, wanted) == (
        ("redis", "topic", "ticket", "-1432"),
        ("topic:auth",),
        Filter(),
    )
    assert terms.unread_tokens == ("-topic:auth", "topic:")
    terms, _ = query.parse_query('ticket -#1432 -.env -"7"')
    assert (terms.words, terms.excluded, terms.unread_tokens) == (
        ("ticket",),
        ("#1432", ".env", "7"),
        (),
    )


def test_what_is_too_long_is_told() -> None:
    assert not query.parse_query("word " * 64)[0].is_cut
    assert query.parse_query("word " * 65)[0].is_cut
    assert query.parse_query("x" * 2049)[0].is_cut


def test_years_and_topics_between_commas() -> None:
    assert (
        query.parse_query("since:2020 until:2021")[1]
        == query.parse_query("since:2020-01-01 until:2021-12-31")[1]
    )
    assert query.parse_query("topic:auth,deploy")[1].topics == ("auth,deploy", "auth", "deploy")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12h", NOW - DAY // 2),
        ("3d", NOW - 3 * DAY),
        ("2w", NOW - 14 * DAY),
        ("6m", NOW - 180 * DAY),
        ("1y", NOW - 365 * DAY),
        ("2025-11-19", at(2025, 11, 19)),
        ("2025-11-19T00:00:01Z", at(2025, 11, 19) + 1000),
        ("soon", None),
    ],
)
def test_moments(text: str, expected: int | None) -> None:
    assert query.parse_moment(text, NOW) == expected
    assert query.parse_query(f"since:{text}", NOW)[1].since == expected
    assert query.parse_moment("3d", None) is None


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        (
            ("2025-02-11", "2025-2-11", "20250211", "2025-W07-2", "11 Feb 2025", "2025/02/11"),
            "2025-02-11",
            "2025-02-12",
        ),
        (("2025-02", "2025-2"), "2025-02-01", "2025-03-01"),
        (("2024-12",), "2024-12-01", "2025-01-01"),
        (("2025-W07", "2025W07"), "2025-02-10", "2025-02-17"),
    ],
)
def test_what_names_no_time_of_day_means_all_of_its_day_week_or_month(
    texts: tuple[str, ...], first: str, last: str
) -> None:
    for text in texts:
        assert query.parse_moment(text, None) == parse_time(first), text
        assert query.parse_moment(text, None, end=True) == (parse_time(last) or 0) - 1, text


def test_words_for_days() -> None:
    now = parse_time("2025-02-11T14:00") or 0
    for word, end, expected in (
        ("now", True, "2025-02-11T14:00"),
        ("today", False, "2025-02-11"),
        ("yesterday", False, "2025-02-10"),
    ):
        assert query.parse_moment(word, now, end=end) == parse_time(expected)
    assert query.parse_moment("Yesterday", now, end=True) == (parse_time("2025-02-11") or 0) - 1
    assert query.parse_moment("now", None) is None


def test_a_long_run_without_spaces_is_a_sentence_and_not_one_word() -> None:
    told = {
        text: query.parse_query(text)[0].is_word
        for text in ("缓存", "캐시", "キャッシュ", "部署服务器的自动化计划")
    }
    assert list(told.values()) == [True, True, False, False]


@SOFT
@given(st.text(max_size=300) | st.text(alphabet='a"-: (tag', max_size=80))
def test_any_text_is_a_query(text: str) -> None:
    terms, wanted = query.parse_query(text)
    assert len(terms.words) + len(terms.phrases) + len(terms.excluded) <= 64
    assert all(
        char >= " "
        for word in (*terms.words, *terms.phrases, *terms.excluded, terms.text)
        for char in word
    )
    assert query.merge_filters(Filter(), wanted) == wanted


# --- names of code

SPELLINGS = [
    "getUserById",
    "get_user_by_id",
    "get-user-by-id",
    "GetUserByID",
    "GET_USER_BY_ID",
    "get.user.by.id",
]


@pytest.mark.parametrize("name", SPELLINGS)
def test_any_spelling_gives_the_same_words(name: str) -> None:
    assert set(query.split_identifiers(name).split()) >= {"get", "user", "by", "id"}
    assert "." in name or "getuserbyid" in query.split_identifiers(name).split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPServer2", "http server 2 httpserver2"),
        ("src/auth/jwt.ts", "src auth jwt ts"),
        ("v1.2.3", "v 1 v1 2 3"),
        ("base64", "base 64 base64"),
        ("std::unique_ptr", "std unique ptr"),
        ("plain words, nothing else", ""),
        ("commit 3f9a1c2d", ""),
        ("__init__", ""),
        ("éclairÀLaCarte", "éclair à la carte éclairàlacarte"),
        ("A" * 500, ""),
        ("", ""),
    ],
)
def test_identifiers(text: str, expected: str) -> None:
    assert query.split_identifiers(text) == expected


# --- filters

NODE = Node(
    "decision_auth",
    "auth.md",
    "decision",
    "Sign in by tokens",
    created=100,
    topic="Auth",
    outcome="failed",
    affects=("src/auth/**", "README.md"),
    branch="main",
    tags=("db",),
    agent="claude-code",
)


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (Filter(), True),
        (Filter(types=("decision", "checkpoint")), True),
        (Filter(types=("checkpoint",)), False),
        (Filter(topics=("auth",)), True),
        (Filter(topics=("cache",)), False),
        (Filter(outcomes=("failed",), statuses=("accepted",)), True),
        (Filter(tags=("db",)), False),  # a node does not say all that the index has of these
        (Filter(agents=("claude-code",)), False),
        (Filter(branches=("main",)), False),
        (Filter(since=100, until=100), True),
        (Filter(since=101), False),
        (Filter(until=99), False),
        (Filter(live=True), True),
        (Filter(path="src/auth/jwt.ts"), True),
        (Filter(path="src"), True),
        (Filter(path="*.md"), True),
        (Filter(path="src/cache"), False),
        (Filter(types=("",)), False),
    ],
)
def test_a_record_passes_by_what_its_node_says(wanted: Filter, passes: bool) -> None:
    assert query.is_match(wanted, NODE, is_live=True) is passes
    assert query.is_match(wanted, NODE, is_live=False) is (passes and not wanted.live)


def test_merging_only_narrows() -> None:
    a = Filter(types=("decision", "checkpoint"), tags=("x",), since=5, until=9, path="a")
    b = Filter(types=("checkpoint", "observation"), since=3, until=7, live=True)
    assert query.merge_filters(a, b) == Filter(
        types=("checkpoint",), tags=("x",), since=5, until=7, path="a", live=True
    )
    nothing = query.merge_filters(Filter(types=("decision",)), Filter(types=("checkpoint",)))
    assert not query.is_match(nothing, NODE, is_live=True)
    assert query.merge_filters(a, Filter(path="b")).path == "b"


@pytest.mark.parametrize(
    ("pattern", "path", "covers"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/a.pyc", False),
        ("src", "src/a/b.py", True),
        ("src/", "src/a/b.py", True),
        ("./src/a", "src/a", True),
        ("sr", "src/a", False),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "src/x/a.py", True),
        ("**/*.py", "a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", True),
        ("src/**/test_*.py", "src/a/b/test_c.py", True),
        ("src/**/test_*.py", "src/test_c.py", True),
        ("src/**/test_*.py", "src/a/c.py", False),
        ("src/?.py", "src/a.py", True),
        ("src/?.py", "src/ab.py", False),
        ("src/*/c", "src/a/b/c", False),
        ("src/a*c*e", "src/abcde", True),
        ("src/[a].py", "src/[a].py", True),
        ("src\\win\\x", "src/win/x", True),
        ("src/../lib/./a.py", "lib/a.py", True),
        ("src/../../lib", "lib", False),
        ("", "src", False),
        ("src", "", False),
        ("**", "anything/at/all", True),
    ],
)
def test_affects(pattern: str, path: str, covers: bool) -> None:
    assert query.is_covered(pattern, path) is covers


@pytest.mark.parametrize(
    ("pattern", "inside", "start"),
    [
        ("src/*.py", True, "src"),
        ("src/**/x.py", True, "src"),
        ("**/x.py", True, ""),
        ("./src/a.py", True, "src/a.py"),
        ("src\\a.py", True, "src/a.py"),
        ("../a.py", False, "../a.py"),
        ("src/../a.py", True, "a.py"),
        ("src/x/../../lib/*.py", True, "lib"),
        ("src/../../a.py", False, "../a.py"),
        ("src/*/../a.py", False, "src"),
        ("/etc/passwd", False, "etc/passwd"),
        ("C:\\x", False, "C:/x"),
        ("https://example.org/x", False, "https:/example.org/x"),
        ("~/x", False, "~/x"),
    ],
)
def test_paths_that_can_be_of_this_repository(pattern: str, inside: bool, start: str) -> None:
    assert query.is_inside_repository(pattern) == inside
    assert query.get_literal_prefix(pattern) == start


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 500 + "b", "a" * 2000),
        ("/".join(["**", "*a*"] * 100) + "/b", "/".join(["a"] * 400)),
        ("**/" * 500 + "x", "y/" * 500),
    ],
)
def test_hostile_globs_take_no_time(pattern: str, path: str) -> None:
    started = time.process_time()
    assert not query.is_covered(pattern, path)
    assert time.process_time() - started < 2


# --- scores


def found(
    name: str,
    keyword: float = 0.0,
    cosine: float | None = None,
    created: int = NOW,
    kind: str = "observation",
    title_cosine: float | None = None,
) -> Candidate:
    node = Node(name, f"{name}.md", kind, name, created)
    return Candidate(node, "", keyword, cosine, title_cosine)


def order(scored: tuple[ScoredCandidate, ...]) -> str:
    return " ".join(each.id for each in scored)


def test_hybrid_score_is_the_weighted_mean_of_its_parts() -> None:
    (best, other) = query.score_candidates(
        [found("b", 2.0, 0.5, title_cosine=0.4), found("a", 4.0, 0.9)], now=NOW
    )
    assert (best.id, best.scores.keyword, best.scores.vector, best.scores.title) == (
        "a",
        1.0,
        0.9,
        0.9,
    )
    assert (
        other.scores.keyword,
        other.scores.vector,
        other.scores.title,
        other.scores.recency,
    ) == (0.5, 0.5, 0.4, 1.0)
    expected = (0.35 * 0.5 + 0.60 * 0.5 + 0.10 * 0.4 + 0.05 * 1.0) / (0.35 + 0.60 + 0.10 + 0.05)
    assert other.scores.final == pytest.approx(expected)


def test_without_vectors_final_is_keyword() -> None:
    scored = query.score_candidates([found("a", 3.0), found("b", 6.0), found("c")], now=NOW)
    assert order(scored) == "b a c"
    assert [each.scores.final for each in scored] == [1.0, 0.5, 0.0]


def test_recency_is_gentle_and_can_be_off() -> None:
    old, new = found("old", 1.0, 0.50, created=NOW - 3000 * DAY), found("new", 1.0, 0.48)
    assert order(query.score_candidates([old, new], now=NOW)) == "new old"
    assert order(query.score_candidates([old, new], now=NOW, recency=False)) == "old new"
    assert order(query.score_candidates([old._replace(cosine=0.60), new], now=NOW)) == "old new"
    assert compute_recency(NOW - 180 * DAY, NOW) == pytest.approx(0.5)
    assert compute_recency(NOW + DAY, NOW) == 1.0


def test_a_decision_does_not_age() -> None:
    old = found("old", 1.0, 0.5, created=NOW - 3000 * DAY, kind="decision")
    new = found("new", 1.0, 0.49, kind="decision")
    assert order(query.score_candidates([old, new], now=NOW)) == "old new"
    both = query.score_candidates([old, found("note", 1.0, 0.5, created=NOW - DAY)], now=NOW)
    assert order(both) == "old note", "of a note it is judged as if it were new"


def test_what_is_not_embedded_yet_does_not_sink() -> None:
    scored = query.score_candidates(
        [found("fresh", 9.0), found("a", 3.0, 0.7), found("b", 1.0, 0.3)], now=NOW
    )
    assert order(scored) == "fresh a b"


def test_the_few_that_hold_the_one_word_asked_for_are_first() -> None:
    near = [found(f"near{n}", 0.0, 0.9, title_cosine=0.9) for n in range(9)]
    for names in ("a", "a b", "a b c"):
        holders = [found(name, 2.0, 0.1) for name in names.split()]
        scored = query.score_candidates([*near, *holders], now=NOW, is_word=True)
        assert {each.id for each in scored[: len(holders)]} == set(names.split())
        assert scored[len(holders) - 1].scores.final >= 0.5 >= scored[len(holders)].scores.final
    many = [found(name, 2.0, 0.1) for name in "abcd"]
    assert query.score_candidates([*near, *many], now=NOW, is_word=True) == query.score_candidates(
        [*near, *many], now=NOW
    )
    meaning = query.score_candidates(
        [*near, *holders], now=NOW, is_word=True, weights=query.MEANING_ONLY
    )
    assert meaning[0].id.startswith("near")


def test_of_equal_scores_the_younger_is_first() -> None:
    scored = query.score_candidates(
        [found("a", 1, created=NOW - DAY), found("b", 1), found("c", 1)], now=NOW, recency=False
    )
    assert order(scored) == "b c a"
    assert query.score_candidates([], now=NOW) == ()


@SOFT
@given(
    st.lists(
        st.builds(
            found,
            name=st.sampled_from("abcdefgh"),
            created=st.integers(0, 2 * NOW),
            keyword=st.floats(0, 1e6),
            cosine=st.none() | st.floats(-1.001, 1.001),
            title_cosine=st.none() | st.floats(-1.001, 1.001),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_every_part_is_on_0_to_1(candidates: list[Candidate], recency: bool) -> None:
    for each in query.score_candidates(
        candidates, now=NOW, recency=recency, weights=Weights(1, 1, 1, 1)
    ):
        parts = each.scores
        assert all(
            0 <= part <= 1
            for part in (parts.keyword, parts.vector, parts.title, parts.recency, parts.final)
        )


# --- known order


def decision(
    name: str,
    created: int,
    supersedes: tuple[str, ...] = (),
    topic: str = "t",
    status: str = "accepted",
) -> Node:
    return Node(
        name, f"{name}.md", "decision", name, created, topic, True, status, supersedes=supersedes
    )


def scored(**finals: float) -> list[ScoredCandidate]:
    """With the dates that their last letters say: `a` is older than `b`."""
    return [
        ScoredCandidate(name, ord(name[-1]), Scores(final=final)) for name, final in finals.items()
    ]


def arranged(found: list[ScoredCandidate], graph: Graph, **how: Any) -> tuple[Placement, ...]:
    """Known order by the facts of a graph."""
    unclear = {name for name, node in graph.nodes.items() if query.is_unclear(node)}
    return query.arrange_hits(found, graph.build_facts(()), unclear_ids=unclear, **how)


def placed(graph: Graph, **finals: float) -> str:
    """Return ids in order; `+` marks what was brought in."""
    places = arranged(scored(**finals), graph)
    return " ".join(("" if place.scored else "+") + place.id for place in places)


CHAIN = [
    decision("a", 1),
    decision("b", 2, ("a",)),
    decision("c", 3, ("b",)),
    decision("d", 4, ("c",)),
]


def test_the_live_decision_takes_the_best_place_of_its_chain() -> None:
    graph = build_graph([*CHAIN, decision("x", 9, topic="other")])
    assert placed(graph, a=0.9, x=0.8, d=0.3) == "d a x"
    assert placed(graph, a=0.9, x=0.8) == "+d a x"
    assert placed(graph, x=0.9, d=0.3, checkpoint=0.8) == "x checkpoint d"


def test_at_most_three_of_a_chain_and_the_rest_counted() -> None:
    places = arranged(scored(a=0.9, b=0.8, c=0.7, d=0.6, other=0.5), build_graph(CHAIN))
    assert [place.id for place in places] == ["d", "c", "b", "other"]
    assert [place.earlier for place in places] == [1, 0, 0, 0]
    assert places[0] == Placement("d", places[0].scored, 1, 0.9)
    assert build_graph(CHAIN).list_holding("b") == ("d",)


def test_a_forked_topic_shows_all_that_hold() -> None:
    graph = build_graph([decision("a", 1), decision("b", 2, ("a",)), decision("c", 3, ("a",))])
    assert placed(graph, b=0.9, other=0.5) == "b +c other"
    assert placed(graph, a=0.9, c=0.2, other=0.5) == "c +b a other"


def test_a_filter_keeps_heads_out() -> None:
    places = arranged(scored(a=0.9), build_graph(CHAIN), unwanted_heads={"d"})
    assert [place.id for place in places] == ["a"]


def test_what_has_a_status_nobody_understands_stands_behind_the_whole_list() -> None:
    unclear = [
        decision("u", 5, topic="x", status="unknown"),
        decision("v", 6, topic="t", status="unknown"),
        decision("w", 7, topic="y", status="unknown"),
        decision("z", 8, ("w",), topic="z"),
    ]
    graph = build_graph([*CHAIN, *unclear])
    assert placed(graph, u=0.9, d=0.3, note=0.1) == "d note u"
    assert placed(graph, v=0.9, u=0.8, a=0.2) == "+d a v u"
    assert placed(graph, w=0.9, d=0.3) == "+z d w", "what replaced it keeps its place"
    assert arranged(scored(u=0.9), graph, hidden_ids={"u"}) == ()


def test_chains_are_followed_across_topics() -> None:
    graph = build_graph([decision("a", 1, topic="old"), decision("b", 2, ("a",), topic="new")])
    assert placed(graph, a=0.9, x=0.8) == "+b a x"
    assert placed(graph, a=0.9, x=0.8, b=0.1) == "b a x"


@st.composite
def histories(draw: st.DrawFn) -> list[Node]:
    names = "abcdefghij"
    return [
        decision(
            name,
            draw(st.integers(0, 9)),
            tuple(draw(st.sets(st.sampled_from(names), max_size=2))),
            topic=draw(st.sampled_from(["", "t", "u"])),
            status=draw(
                st.sampled_from(
                    ["accepted", "accepted", "deprecated", "proposed", "rejected", "unknown"]
                )
            ),
        )
        for name in names
    ]


@SOFT
@given(histories(), st.dictionaries(st.sampled_from("abcdefghijxyz"), st.floats(0, 1), max_size=13))
def test_no_superseded_decision_stands_above_what_holds_instead(
    nodes: list[Node], finals: dict[str, float]
) -> None:
    graph = build_graph(nodes)
    places = arranged(scored(**finals), graph)
    ids = [place.id for place in places]
    assert len(ids) == len(set(ids))
    worth = [place.chain_score for place in places]
    assert worth == sorted(worth, reverse=True)
    assert all(arranged(scored(**finals), graph, limit=count) == places[:count] for count in (1, 3))
    assert set(ids) >= {name for name in finals if graph.is_head(name) or name in "xyz"}
    for place, name in enumerate(ids):
        if graph.list_successors(name):
            assert not set(graph.list_heads(name)) & set(ids[place:])
            assert set(graph.list_heads(name)) & set(ids[:place]) or not graph.list_heads(name)


# --- excerpts


def marked(text: str, asked: str, width: int = 240) -> str:
    """Return the snippet with its highlights in brackets."""
    fragment, ranges = query.build_snippet(text, query.parse_query(asked)[0], width)
    for start, end in reversed(ranges):
        fragment = f"{fragment[:start]}[{fragment[start:end]}]{fragment[end:]}"
    return fragment


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("We cache tokens in Redis.", "token caching", "We [cache] [tokens] in Redis."),
        ("Call get_user_by_id first.", "getUserById", "Call [get_user_by_id] first."),
        ("the cause of it", "what is the cause", "the [cause] of it"),
        ("one\n\n  two\tthree", "two", "one [two] three"),
        ("我们使用数据库缓存。", "数据库", "我们使用[数据库]缓存。"),
        ("Nothing here.", "absent", "Nothing here."),
        ("", "anything", ""),
        ("A formal form", "form", "A [formal] [form]"),
        ("text test", "tests", "text [test]"),
        ("İZMİR CACHES _Caches c_ache", "cache", "İZMİR [CACHES] [_Caches] [c_ache]"),
        ("in großen Maßen", "masse", "in großen [Maßen]"),
        ("see src/auth/jwt.ts", "src/auth/jwt.ts", "see [src]/[auth]/[jwt].[ts]"),
    ],
)
def test_snippets(text: str, asked: str, expected: str) -> None:
    assert marked(text, asked) == expected


def test_the_snippet_is_taken_where_most_words_stand() -> None:
    text = "redis " + "filler words " * 60 + "redis evicts keys under load " + "more filler " * 60
    shown = marked(text, "redis evicts load", 80)
    assert "[redis] [evicts] keys under [load]" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 100


@SOFT
@given(st.text(max_size=400), st.text(max_size=40), st.integers(1, 60))
def test_ranges_lie_in_the_fragment(text: str, asked: str, width: int) -> None:
    fragment, ranges = query.build_snippet(text, query.parse_query(asked)[0], width)
    assert len(fragment) <= width + 2
    edges = [edge for pair in ranges for edge in pair]
    assert edges == sorted(edges)
    assert all(0 <= start < end <= len(fragment) for start, end in ranges)


@SOFT
@given(
    st.text(alphabet="xyzXY_. -\u0345", max_size=60),
    st.text(alphabet="xyzX_ß", min_size=1, max_size=7),
)
def test_every_spelling_of_a_word_is_pointed_at(text: str, word: str) -> None:
    """Wherever underscores stand in it, and however it is written."""
    name = word.replace("_", "").casefold()
    fragment, ranges = query.build_snippet(text, Terms(words=(word,)))
    spelt = [
        one
        for one in re.finditer(r"\w+", fragment)
        if name and one.group().replace("_", "").casefold() == name
    ]
    assert {one.span() for one in spelt} <= set(ranges)


def test_passages_have_the_title_in_front_and_end_at_sentences() -> None:
    text = "\n".join(
        f"Sentence number {number} says something of its own. And more." for number in range(60)
    )
    cut = build_passages("The  title", text)
    assert all(piece.startswith("The title\n") for piece in cut)
    assert all(len(piece) <= len("The title\n") + 450 and piece.endswith(".") for piece in cut)
    assert " ".join(piece.removeprefix("The title\n") for piece in cut) == " ".join(text.split())


def test_passages_are_capped_and_cut_what_has_no_gaps() -> None:
    assert len(build_passages("t", "word " * 100_000)) == 24
    assert all(len(piece) <= 452 for piece in build_passages("t", "x" * 3000))
    assert (
        "".join(piece.removeprefix("t\n") for piece in build_passages("t", "x" * 3000))
        == "x" * 3000
    )


def test_rejected_alternatives_that_the_query_names() -> None:
    rejected = (
        "Keep Redis: one more service to run",
        "Memcached: no persistence",
        "Do nothing: it grows",
    )
    assert (
        query.list_named_rejections(query.parse_query("use redis for caching")[0], rejected)
        == rejected[:1]
    )
    assert (
        query.list_named_rejections(
            query.parse_query("use redis for caching")[0], rejected, "Back to Redis"
        )
        == ()
    )
    assert (
        query.list_named_rejections(query.parse_query("one line")[0], ("Keep one big file: slow",))
        == ()
    )
    kept = query.parse_query("where do we keep cached values?")[0]
    assert query.list_named_rejections(kept, ("Keep Redis: a service for one process",)) == ()
    assert query.list_named_rejections(query.parse_query("service")[0], rejected) == ()
    assert query.list_named_rejections(Terms(), rejected) == ()


# --- time

HOSTILE: dict[str, Callable[[str], object]] = {
    "parse": query.parse_query,
    "split_identifiers": query.split_identifiers,
    "snippet": lambda text: query.build_snippet(
        text, query.parse_query("aaaa-b 数 " + string.ascii_lowercase)[0]
    ),
    "passages": lambda text: build_passages("t", text),
}
UNITS = [
    "a",
    "(",
    '"',
    "aA",
    "a-",
    "a_",
    "-",
    ". ",
    "\n",
    "数",
    "a:",
    "tag:",
    "…",
    "a1",
    "。",
    "/",
    "\u0301",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_long_text_takes_linear_time(name: str) -> None:
    rng = random.Random(1)
    texts = [(unit * 100_000)[:100_000] for unit in UNITS]
    texts.append("".join(rng.choice(UNITS) for _ in range(70_000)))
    for text in texts:
        started = time.process_time()
        HOSTILE[name](text)
        assert time.process_time() - started < 1, text[:10]


@pytest.mark.parametrize(
    ("title", "text", "told"),
    [
        ("Use Redis", "Use Redis", ""),
        ("Use Redis", "Use Redis\n\nand NATS", "and NATS"),
        ("Use Redis", "Use Redis clusters", "Use Redis clusters"),
        ("Use Redis", "It is enough.", "It is enough."),
        (
            "Use Redis for all that is sha…",
            "Use Redis for all that is shared by processes",
            "…shared by processes",
        ),
        ("Use Redis for all…", "Use Redis for all that is shared", "…that is shared"),
        ("Use Redis…", "It is enough.", "It is enough."),
    ],
)
def test_beyond_its_title_a_text_says_the_rest(title: str, text: str, told: str) -> None:
    assert query.strip_title(title, text) == told
