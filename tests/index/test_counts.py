"""Counts that are added up: several indexes find what one index of everything finds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest

from bench.stores import decisions
from filemem import query
from filemem.changes import ADDED, Change, Entry, compute_blob_id
from filemem.index import Doc, Index, build_document, find_synonyms, open_model
from filemem.memory.workspace import StoreUnion

NOW = 1_760_000_000_000
STORES = 4


def built(folder: Path, docs: dict[str, Doc]) -> Index:
    index = Index(folder, open_model())
    index.apply_changes(
        [Change(ADDED, path, Entry(doc.blob, 1, 1)) for path, doc in docs.items()], docs.get
    )
    return index


class Shelf:
    """An index as `Together` asks a store of it."""

    clock = explain_incompleteness = None

    def __init__(self, index: Index) -> None:
        self.index = index

    def nominate(self, terms: Any, wanted: Any, depth: int, mode: str, counts: Any = None) -> Any:
        return self.index.search_candidates(terms, wanted, depth, mode=mode, counts=counts)


@pytest.mark.parametrize(
    ("records", "questions"), [(120, 20), pytest.param(240, 40, marks=pytest.mark.long)]
)
def test_several_indexes_find_what_one_index_of_all_finds(
    tmp_path: Path, records: int, questions: int
) -> None:
    docs: dict[str, Doc] = {}
    for at, (record, _, place) in enumerate(decisions(records)):
        text = record.text if place % 2 else record.text[:400]  # some write more than others
        path = f"{place % STORES}/{at}.md"
        docs[path] = build_document(
            record._replace(path=path, text=text), compute_blob_id(path.encode())
        )
    one = built(tmp_path / "one", docs)
    keys = [str(at) for at in range(STORES)]
    several = [
        built(tmp_path / key, {p: doc for p, doc in docs.items() if p[0] == key}) for key in keys
    ]
    members: Any = [
        SimpleNamespace(key=key, store=Shelf(index))
        for key, index in zip(keys, several, strict=True)
    ]
    together = StoreUnion(members)
    random, shares, same, widened = Random(5), [], [], 0
    for _ in range(questions):
        words = random.choice(list(docs.values())).title.split()
        terms, wanted = query.parse_query(" ".join(random.sample(words, min(4, len(words)))), NOW)
        terms = terms._replace(alternatives=find_synonyms(terms.words))
        widened += bool(terms.alternatives)
        best = [
            [
                hit.id.rpartition(" ")[2]
                for hit in query.score_candidates(
                    found.candidates, now=NOW, full_score=found.full_score
                )[:10]
            ]
            for found in (
                one.search_candidates(terms, wanted, 50),
                together.nominate(terms, wanted, 50, "hybrid"),
            )
        ]
        shares.append(len({*best[0]} & {*best[1]}) / len(best[0]))
        same.append(best[0][0] == best[1][0])
    assert widened > questions / 4
    assert mean(shares) >= 0.95
    assert mean(same) >= 0.95
