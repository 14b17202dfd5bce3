"""What lacks vectors is looked up, not counted among all records."""

from __future__ import annotations

from pathlib import Path

from filemem.changes import ADDED, Change, Entry
from filemem.index import Doc, Index, open_model
from filemem.index.database import COUNT_MISSING_VECTORS
from filemem.memory import Memory, brief
from filemem.memory.store import Store
from tests.index import samples
from tests.support import git, make_repo


def filled(index: Index, docs: list[Doc]) -> None:
    by_path = {doc.path: doc for doc in docs}
    changes = [Change(ADDED, path, Entry(doc.blob, 1, 1)) for path, doc in by_path.items()]
    index.apply_changes(changes, by_path.get, with_vectors=False)


def test_to_know_what_lacks_vectors_reads_only_that(tmp_path: Path) -> None:
    index = Index(tmp_path, open_model())
    filled(index, [samples.doc(f"{at}.md", f"Title {at}") for at in range(3)])
    with index.snapshot() as facts:
        assert facts.count_missing_vectors() == 3
        assert len(facts.read_cards_without_vectors(2)) == 2
        plan = [
            row[-1]
            for row in facts._connection.execute(f"EXPLAIN QUERY PLAN {COUNT_MISSING_VECTORS}")
        ]
    assert "meaning_lacking" in plan[0], plan
    assert not any("SCAN s" in step or "SCAN d" in step for step in plan)
    index.apply_changes([], lambda _: None)
    with index.snapshot() as facts:
        assert facts.count_missing_vectors() == 0
        assert len(facts.read_packs([1, 2, 3])) == 3


def test_a_search_after_a_brief_has_the_vectors_that_the_brief_did_not_make(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    with Memory.open(repo) as memory:
        memory.save(topic="cache", decision="Keep lookups in an LRU cache", reasoning="Fast.")
    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "clone"))
    store = Store(tmp_path / "clone")
    assert brief.build_brief(store, 800).lines
    assert store.index.lacks_meaning
    store.close()
    with Memory.open(tmp_path / "clone") as memory:
        assert not memory.search("fast lookups").degraded
