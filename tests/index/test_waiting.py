"""A record that waits to be folded in scores as if it were: by words, by meaning, and it is found at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.index import Index
from filemem.query import Terms, parse_query
from tests.index.samples import Tree, doc, fold, make

QUERIES = (
    "redis cache",
    "payment webhook retry timeout",
    "login",
    '"session cookie"',
    "東京タワー",
    "why was the queue worker rejected",
)
CJK = ("東京タワーは高い", "キャッシュを東京に置く", "数据库迁移方案")


def scores(index: Index, query: str) -> dict[str, float]:
    answer = index.search_candidates(parse_query(query)[0], depth=2000, mode="keyword")
    return {one.path: one.keyword for one in answer.candidates}


def samples(count: int) -> Tree:
    docs = [make(number, words=20 + number % 90) for number in range(count)]
    docs += [doc(f"cjk/{at}.md", text, text * 3) for at, text in enumerate(CJK)]
    docs.append(
        doc("phrase.md", "Session cookie", "the session cookie and the Session-Cookie header")
    )
    return Tree(docs)


def test_waiting_and_folded_scores_nearly_agree(tmp_path: Path) -> None:
    """Nearly, because the generation's statistics decide, which know nothing of what waits, nor of its length."""
    waiting, tree = 10, samples(600)
    whole, split = Index(tmp_path / "whole"), Index(tmp_path / "split")
    tree.apply(whole)
    docs = sorted(tree.docs.values(), key=lambda each: each.blob)
    late = [each for each in docs if each.path.startswith(("cjk", "phrase"))][:2]
    late += [each for each in docs if each not in late][: waiting - len(late)]
    Tree(each for each in docs if each not in late).apply(split)
    for each in late:
        split.add_document(each)
    seen = 0
    for query in QUERIES:
        expected, found = scores(whole, query), scores(split, query)
        assert expected.keys() == found.keys()
        for path, score in expected.items():
            assert found[path] == pytest.approx(score, rel=0.4), (query, path)
        seen += len({each.path for each in late} & found.keys())
    assert seen > 5
    fold(split)
    for query in QUERIES:
        assert scores(split, query) == pytest.approx(scores(whole, query), rel=1e-4)


def test_vectors_of_records_that_come_and_go_while_they_wait_agree_with_folded_ones(
    index: Index,
) -> None:
    Tree(make(number) for number in range(10)).apply(index)
    terms = parse_query("caching with redis")[0]
    waiting = [make(number) for number in range(10, 16)]
    for each in waiting:
        index.add_document(each)
        assert each.path in vectors(index, terms)
    index.add_document(doc(waiting[2].path, "Use Redis as a cache", "It is fast. " * 60))
    index.remove_document(waiting[4].path)
    before = vectors(index, terms)
    assert waiting[4].path not in before
    fold(index)
    assert before == {
        path: pytest.approx(pair, abs=1e-6) for path, pair in vectors(index, terms).items()
    }


def vectors(index: Index, terms: Terms) -> dict[str, tuple[float | None, float | None]]:
    return {
        one.path: (one.cosine, one.title_cosine)
        for one in index.search_candidates(terms, mode="vector").candidates
    }
