"""What people type, and what they find: names of code in any spelling, filters, and what holds today."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from tests.support import make_repo, write
from tests.system.tools import cli, ok

DECIDE = ("save", "decision", "--topic")

TOPICS = {
    "users": (
        "Look users up by number",
        "Call getUserById, never the raw table; it raises KeyError for 0.",
    ),
    "tokens": (
        "Sign tokens with RS256",
        "The code is in src/auth/jwt.ts. See issue #123 and v2.13.0 of the library.",
    ),
    "network": (
        "Retry when the peer hangs up",
        'The log says "connection reset by peer" every night.',
    ),
    "cache": (
        "Keep answers in memory",
        "A cache of one process. Redis was one more service to run.",
    ),
    "release": (
        "Release from the main branch",
        "Tags are made by the pipeline. ECONNREFUSED means that it is down.",
    ),
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    repo = make_repo(tmp_path_factory.mktemp("search") / "repo")
    for topic, (title, text) in TOPICS.items():
        header = f"id: decision_{topic}\ntopic: {topic}\ntags: [tag-{topic}]\ncreated: 2025-11-20"
        write(repo / f"memory/decisions/{topic}.md", f"---\n{header}\n---\n# {title}\n\n{text}\n")
    write(
        repo / "memory/checkpoints/c.md",
        "---\nid: checkpoint_1\nsession: S-1\n---\n# Users and tokens are done\n",
    )
    text = "---\nid: observation_1\nproject: shop\ncreated: 2025-11-20\n---\n# Two users share one address\n"
    write(repo / "memory/observations/o.md", text)
    with Memory.open(repo) as opened:
        yield opened


def first(memory: Memory, query: str, **more: Any) -> str:
    hits = memory.search(query, **more).hits
    return hits[0].record.id.removeprefix("decision_") if hits else ""


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize(
    ("query", "topic"),
    [
        ("getUserById", "users"),
        ("get_user_by_id", "users"),
        ("get-user-by-id", "users"),
        ("get user by id", "users"),
        ("GetUserByID", "users"),
        ("src/auth/jwt.ts", "tokens"),
        ("jwt.ts", "tokens"),
        ("auth/jwt", "tokens"),
        ("#123", "tokens"),
        ("issue 123", "tokens"),
        ("v2.13.0", "tokens"),
        ("2.13.0", "tokens"),
        ('"connection reset by peer"', "network"),
        ("Error: connection reset by peer", "network"),
        ("ECONNREFUSED", "release"),
        ("KeyError", "users"),
    ],
)
def test_names_are_found_as_people_type_them(
    memory: Memory, query: str, topic: str, mode: str
) -> None:
    assert first(memory, query, mode=mode) == topic


def test_filters_in_the_query_are_those_of_the_parameters(memory: Memory) -> None:
    pairs: tuple[tuple[str, dict[str, Any]], ...] = (
        ("decision topic:cache", {"topic": "cache"}),
        ("decision tag:tag-cache", {"tag": "tag-cache"}),
        ("users type:checkpoint", {"type": "checkpoint"}),
        ("answers is:live", {"live": True}),
        ("users session:s-1", {"session": "S-1"}),
        ("users project:shop", {"project": "Shop"}),
    )
    for query, given in pairs:
        word = query.split()[0]
        assert [h.id for h in memory.search(query).hits] == [
            h.id for h in memory.search(word, **given).hits
        ], query
    for query, one in (
        ("type:checkpoint", "checkpoint_1"),
        ("session:s-1", "checkpoint_1"),
        ("project:shop", "observation_1"),
    ):
        assert [hit.id for hit in memory.search(f"users {query}").hits] == [one]


def test_a_leading_minus_excludes(memory: Memory) -> None:
    assert "decision_cache" in {hit.id for hit in memory.search("memory answers").hits}
    assert "decision_cache" not in {hit.id for hit in memory.search("memory answers -redis").hits}
    every, rest = (
        {hit.id for hit in memory.search(asked).hits}
        for asked in ("type:decision", "type:decision -redis")
    )
    assert "decision_cache" in every
    assert rest
    assert rest < every, "also where nothing is asked for besides"


def test_a_phrase_that_nothing_holds_gives_the_nearest_to_its_words_and_says_so(
    memory: Memory,
) -> None:
    exact = memory.search('"reset by peer"')
    assert ([hit.id for hit in exact.hits], exact.note) == (["decision_network"], "")
    loose = memory.search('"peer reset connection"')
    assert loose.hits[0].id == "decision_network"
    assert "no record holds that phrase" in loose.note


@pytest.fixture
def chains(repo: Path) -> Path:
    """Five decisions on one topic, each replacing the one before, and others around them."""
    words = ("redis", "memcached", "postgres", "sqlite", "files")
    for at, word in enumerate(words):
        before = f"supersedes: [decision_{at - 1}]" if at else "supersedes: []"
        header = f"id: decision_{at}\ntopic: storage\ncreated: 2025-11-{10 + at}\n{before}"
        write(
            repo / f"memory/decisions/storage/{at}.md",
            f"---\n{header}\n---\n# Store answers in {word}\n\nFast.\n",
        )
    for name, status in (("draft", "proposed"), ("no", "rejected"), ("gone", "deprecated")):
        text = f"---\nid: decision_{name}\ntopic: {name}\nstatus: {status}\n---\n# Store answers in a {name} cloud\n"
        write(repo / f"memory/decisions/{name}.md", text)
    failed = "---\nid: decision_failed\ntopic: shards\n---\n# Shard the answers\n\n## Outcomes\n"
    write(
        repo / "memory/decisions/failed.md", f"{failed}- 2025-11-25T09:14:03Z failed: hot spots\n"
    )
    return repo


def test_what_holds_stands_above_what_it_replaced_for_any_query(chains: Path) -> None:
    words = ("redis", "memcached", "postgres", "sqlite", "files", "answers", "store fast")
    with Memory.open(chains) as memory:
        for mode, size in itertools.product(("hybrid", "keyword", "vector"), (1, 2)):
            for query in map(" ".join, itertools.combinations(words, size)):
                hits = memory.search(query, mode=mode).hits
                chain = [hit for hit in hits if hit.record.topic == "storage"]
                assert chain[0].id == "decision_4", (query, mode)
                assert len(chain) <= 3
                places = [hit.id for hit in hits]
                assert places.index("decision_4") + len(chain) - 1 == places.index(
                    chain[-1].id
                )  # they stand together
                assert all(hit.superseded_by for hit in chain[1:])
                assert chain[0].superseded_by == ()
        broad = memory.search("store answers").hits
        assert broad[[hit.id for hit in broad].index("decision_4")].earlier == 2


def test_what_holds_is_found_by_the_words_of_what_it_replaced(repo: Path) -> None:
    ok(repo, *DECIDE, "caching", "--decision", "Use Redis", "--reasoning", "Shared between workers")
    ok(
        repo,
        *DECIDE,
        "caching",
        "--decision",
        "Keep values in the process",
        "--reasoning",
        "One process now",
    )
    ok(
        repo,
        *DECIDE,
        "deploy",
        "--decision",
        "Deploy by blue green switch",
        "--reasoning",
        "Asked for",
    )
    for words in (
        ("redis",),
        ("redis", "is:live"),
        ("redis", "--live"),
        ("redis", "--live", "--mode", "keyword"),
    ):
        hits = ok(repo, "search", *words)["results"]
        assert hits[0]["title"] == "Keep values in the process", words
        assert ("Use Redis" in [hit["title"] for hit in hits]) is (words == ("redis",))


def test_a_status_that_is_not_understood_stands_last_and_is_named_where_there_is_no_room(
    repo: Path,
) -> None:
    """The first has every word of the query, the others one each."""
    texts = ("Queue of mails in Redis", "Queue for pictures", "Mails from one service", "Redis")
    for number, title in enumerate(texts, 1):
        status = "On the shelf" if number == 1 else "Accepted"
        text = f"# {number}. {title}\n\n## Status\n\n{status}\n"
        write(repo / f"docs/adr/000{number}-{title.split()[0].lower()}-{number}.md", text)
    with Memory.open(repo, store="docs/adr") as memory:
        found = memory.search("queue of mails in redis", limit=4)
        assert found.hits[-1].title == "1. Queue of mails in Redis"
        assert len(found) == 4
        assert "not understood" not in found.note
        fewer = memory.search("queue of mails in redis", limit=2)
        assert [hit.title for hit in fewer] == [hit.title for hit in found][:2]
        named = 'further back, as the status is not understood: "1. Queue of mails in Redis"'
        assert named in fewer.note
        assert not memory.search("queue of mails in redis is:live", limit=2).note


def test_what_does_not_hold_says_so(chains: Path) -> None:
    with Memory.open(chains) as memory:
        found = {
            hit.id: hit for hit in memory.search("store answers in a cloud, or shard them").hits
        }
        assert [found[f"decision_{name}"].record.status for name in ("draft", "no", "gone")] == [
            "proposed",
            "rejected",
            "deprecated",
        ]
        failed = found["decision_failed"].record
        assert (failed.outcome, failed.outcomes[-1].reason) == ("failed", "hot spots")


def test_scores_and_doubts_do_not_hang_on_how_many_are_asked_for(repo: Path) -> None:
    with Memory.open(repo) as memory:
        for decision in (
            "Use Redis for answers",
            "Use Redis with a replica",
            "Keep them in the process",
        ):
            memory.save(topic="where", decision=decision, reasoning="It is enough.")
        all_of_them = memory.search("Redis replica")
        assert all_of_them.hits[0].record.title == "Keep them in the process"
        for limit in (1, 2):
            found = memory.search("Redis replica", limit=limit)
            assert found.note == all_of_them.note == ""
            assert [hit.score for hit in found.hits] == pytest.approx(
                [hit.score for hit in all_of_them.hits[:limit]]
            )
        assert memory.search("Redis replica", limit=2, offset=2).note == ""
        assert memory.search("waiting room").far
        assert "nothing is close" in memory.search("waiting room").note
        assert "nothing is close" in memory.search("waiting room", offset=1).note


LONG = (
    "Switch to a local cache; pages are rendered by one process since the move, "
    "and Redis had too much burden for what it gave"
)


def test_what_is_shown_beside_a_heading_goes_on_where_that_was_cut(repo: Path) -> None:
    with Memory.open(repo) as memory:
        memory.save(topic="cache", decision=LONG, reasoning="One process now.")
        (hit,) = memory.search("cache burden").hits
        assert hit.snippet.text.startswith("…")
        assert hit.snippet.text.endswith("burden for what it gave. One process now.")
        assert LONG.startswith(hit.record.title[:-1])
        assert len(hit.snippet.text) < 80
        assert [hit.snippet.text[start:end] for start, end in hit.snippet.ranges] == ["burden"]
    assert ok(repo, "history", "cache")["chain"][0]["decision"] == LONG
    assert "burden for what it gave" in cli(repo, "history", "cache").out


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("캐시 서버를 레디스로 교체", "서버 배포 자동화 일정"),
        ("使用本地缓存代替服务器", "部署服务器的自动化计划"),
        ("キャッシュをローカルにする", "デプロイの自動化とキャッシュ"),
    ],
)
def test_a_script_that_the_model_does_not_know_is_searched_by_words_and_one_shared_word_is_no_match(
    memory: Memory, kept: str, asked: str
) -> None:
    memory.save(topic="caching", decision=kept, reasoning="r")
    found = memory.search(asked)
    assert "only words were searched" in found.degraded
    assert all(hit.score < 0.95 for hit in found)


def test_the_command_line_shows_the_newest_of_a_chain_and_how_to_see_the_rest(repo: Path) -> None:
    for at in range(5):
        ok(
            repo,
            *DECIDE,
            "evolve",
            "--decision",
            f"Step {at} of the zebra plan",
            "--reasoning",
            "x",
        )
    told = cli(repo, "search", "zebra plan", "-n", "20").out
    assert [at for at in range(5) if f"Step {at} " in told] == [2, 3, 4]
    assert told.index("Step 4") < told.index("Step 3") < told.index("Step 2")
    assert "2 earlier on this topic: filemem history " in told
