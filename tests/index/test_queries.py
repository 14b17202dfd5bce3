"""What people and attackers type: every script, every spelling, no query that hurts."""

from __future__ import annotations

import random
import time

import pytest

from filemem.index import Index
from filemem.query import parse_query, split_identifiers
from tests.index.samples import Tree, doc, make

BOMBS = {
    "parentheses": "(" * 20_000,
    "long word": "a" * 100_000,
    "many words": " ".join(f"w{n}" for n in range(20_000)),
    "NUL": "redis\0cache",
    "fields": "title:redis AND body:[* TO *] OR path:/.*/ ^5 ~2 +x -y \\",
    "quotes": '"' * 5000,
    "regex": "/(a+)+$/" * 100,
    "minus": "-redis " * 500,
    "surrogate": "redis \ud800 cache",
    "unspaced": "東" * 50_000,
    "marks": "e" + "\u0301" * 5000,
    "phrases": '"a b" ' * 500,
}


def test_no_query_hurts(index: Index) -> None:
    Tree([*(make(number) for number in range(30)), doc("z.md", "東東東東 redis")]).apply(index)
    index.add_document(doc("p.md", "redis cache 東東東"))
    index.search_candidates(parse_query("warm up")[0])
    for name, raw in BOMBS.items():
        began = time.process_time()
        index.search_candidates(parse_query(raw)[0])
        assert time.process_time() - began < 2, (
            name
        )  # of work that has bounds, also where the machine is busy


TEXTS = {
    "zh.md": "我们决定使用本地缓存因为远程缓存增加了运维负担",
    "ja.md": "リモートキャッシュは運用が大変なのでローカルLRUキャッシュに切り替える",
    "ko.md": "원격캐시는운영부담이커서로컬캐시를사용하기로결정했다",
    "th.md": "เราตัดสินใจใช้แคชในเครื่อง",
    "en.md": "We use a local cache because a remote one is a burden",
}


@pytest.mark.parametrize("pending", [False, True], ids=["disk", "pending"])
def test_any_substring_of_unspaced_text_finds_it(words_only: Index, pending: bool) -> None:
    docs = [doc(path, text) for path, text in TEXTS.items()]
    if pending:
        for each in docs:
            words_only.add_document(each)
    else:
        Tree(docs).apply(words_only)
    rng = random.Random(1)
    for path, text in TEXTS.items():
        if path == "en.md":
            continue
        for length in (1, 2, 3, 5, 8):
            if path == "th.md" and length == 1:
                continue  # may be a mark without a letter
            at = rng.randrange(len(text) - length)
            answer = words_only.search_candidates(
                parse_query(text[at : at + length])[0], mode="keyword"
            ).candidates
            assert max(answer, key=lambda one: one.keyword).path == path, text[at : at + length]


def test_a_whole_run_beats_its_scattered_pairs(words_only: Index) -> None:
    Tree([doc("whole.md", "本地缓存方案"), doc("pairs.md", "缓存方案和本地地缓")]).apply(words_only)
    answer = words_only.search_candidates(parse_query("本地缓存")[0], mode="keyword").candidates
    assert [one.path for one in sorted(answer, key=lambda one: -one.keyword)] == [
        "whole.md",
        "pairs.md",
    ]


def test_runs_do_not_join_across_words(words_only: Index) -> None:
    Tree([doc("a.md", "东 and 京")]).apply(words_only)
    words_only.add_document(doc("b.md", "东 or 京"))
    assert words_only.search_candidates(parse_query("东京")[0], mode="keyword").candidates == ()


def test_unspaced_words_weigh_like_others_in_a_mixed_store(words_only: Index) -> None:
    Tree(
        [
            *(make(number) for number in range(50)),
            doc("zh.md", "使用本地缓存", "redis 远程缓存增加了负担"),
        ]
    ).apply(words_only)
    answer = words_only.search_candidates(parse_query("redis 缓存")[0], mode="keyword").candidates
    assert max(answer, key=lambda one: one.keyword).path == "zh.md"


SPELLINGS = [
    ("caching", "We cache it"),
    ("CACHE", "cached answers"),
    ("café", "the cafe"),
    ("cafe", "the Café"),
    ("ｃａｃｈｅ", "cache"),
    ("キャッシュ", "ｷｬｯｼｭ"),
    ("getUserById", "call get_user_by_id here"),
    ("get_user_by_id", "call getUserById here"),
    ("user's", "what the users want"),
    ("Straße", "strasse"),
    ("straSSE", "Straße"),
    ("naïve", "naive"),
]


@pytest.mark.parametrize(("query", "text"), SPELLINGS)
def test_spellings_meet(words_only: Index, query: str, text: str) -> None:
    Tree([doc("a.md", "x", text)]).apply(words_only)
    words_only.add_document(doc("b.md", "x", text))
    answer = words_only.search_candidates(parse_query(query)[0], mode="keyword").candidates
    assert {one.path for one in answer} == {"a.md", "b.md"}


def test_stop_words_count_only_alone(words_only: Index) -> None:
    Tree([doc("a.md", "What is this"), doc("b.md", "The cache")]).apply(words_only)
    found = words_only.search_candidates(
        parse_query("what is the cache")[0], mode="keyword"
    ).candidates
    assert [one.path for one in found] == ["b.md"]
    found = words_only.search_candidates(parse_query("what is this")[0], mode="keyword").candidates
    assert [one.path for one in found] == ["a.md"]


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "vector"])
def test_phrases_are_required_and_minus_excludes_in_every_mode(index: Index, mode: str) -> None:
    docs = [
        doc("a.md", "The session cookie", "signed"),
        doc("b.md", "A cookie for the session", "signed"),
        doc("c.md", "The session cookie", "plain"),
    ]
    Tree(docs).apply(index)
    for each in docs:
        index.add_document(doc(f"late-{each.path}", each.title, each.body.strip()))

    def paths(query: str) -> set[str]:
        return {
            one.path for one in index.search_candidates(parse_query(query)[0], mode=mode).candidates
        }

    assert paths('"session cookie" signed') == {"a.md", "c.md", "late-a.md", "late-c.md"}
    assert paths("session cookie -plain") == {"a.md", "b.md", "late-a.md", "late-b.md"}
    assert paths('session -"session cookie"') == {"b.md", "late-b.md"}
    assert paths('"no such words"') == set()


def test_a_word_of_removed_records_is_worth_no_less_than_nothing(index: Index) -> None:
    tree = Tree(doc(f"{n}.md", f"Note {n}", "cache") for n in range(3))
    tree.apply(index)
    tree.docs = {"0.md": doc("0.md", "Note 0", "cache anew")}
    tree.apply(index)
    assert [one.path for one in index.search_candidates(parse_query("cache")[0]).candidates] == [
        "0.md"
    ]


NUMBERED = [
    "0xdeadbe",
    "0x1f4a07",
    "0xc0ffee",
    "0x80070005",
    "e1042",
    "f3a9b2",
    "k8s9",
    "inv2023",
    "node17",
    "a1b2c3",
    "0b1011",
    "r2d2",
    "x86v3",
    "ticket4711",
    "0x6deceb",
]


@pytest.mark.parametrize("waits", [False, True], ids=["disk", "pending"])
def test_a_word_that_mixes_letters_and_digits_is_found_whole(
    words_only: Index, waits: bool
) -> None:
    filler = " ".join(f"word{number} alpha beta" for number in range(200))
    docs = [doc(f"{name}.md", "Note", f"{filler} {name} {filler}") for name in NUMBERED]
    parts = sorted({part for name in NUMBERED for part in split_identifiers(name).split()})
    docs += [
        doc(f"p{at}.md", one, f"{one} {one}") for at, one in enumerate(parts) if one not in NUMBERED
    ]
    docs += [doc(f"q{number}.md", "0 and x", f"0 0 0 x{number}") for number in range(30)]
    if waits:
        for each in docs:
            words_only.add_document(each)
    else:
        Tree(docs).apply(words_only)
    for name in NUMBERED:
        found = words_only.search_candidates(parse_query(name)[0], depth=100).candidates
        assert max(found, key=lambda one: one.keyword).path == f"{name}.md", name
    assert words_only.search_candidates(parse_query("inv99")[0]).candidates, (
        "its parts are still found"
    )
