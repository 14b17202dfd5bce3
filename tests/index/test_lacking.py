"""What lacks vectors is looked up, not counted among all records."""

from __future__ import annotations

from pathlib import Path

from filemem.changes import ADDED, Change, Entry
from filemem.index import Doc, Index, embedder
from filemem.index.database import LACKING
from tests.index import samples


def filled(index: Index, docs: list[Doc]) -> None:
    by_path = {doc.path: doc for doc in docs}
    changes = [Change(ADDED, path, Entry(doc.blob, 1, 1)) for path, doc in by_path.items()]
    index.apply(changes, by_path.get, meaning=False)


def test_to_know_what_lacks_vectors_reads_only_that(tmp_path: Path) -> None:
    index = Index(tmp_path, embedder())
    filled(index, [samples.doc(f"{at}.md", f"Title {at}") for at in range(3)])
    with index.facts() as facts:
        assert facts.lacking() == 3
        assert len(facts.without_vectors(2)) == 2
        plan = [row[-1] for row in facts._con.execute(f"EXPLAIN QUERY PLAN {LACKING}")]
    assert "meaning_lacking" in plan[0], plan
    assert not any("SCAN s" in step or "SCAN d" in step for step in plan)
    index.apply([], lambda _: None)
    with index.facts() as facts:
        assert facts.lacking() == 0
        assert len(facts.packs([1, 2, 3])) == 3
