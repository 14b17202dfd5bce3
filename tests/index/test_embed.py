"""The bundled model gives what model2vec gives; a model that cannot be had is a reason, not a failure."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel

from filemem.index import Index, Model, ModelUnavailable, open_model
from filemem.index.embed import BUNDLED_NAME
from filemem.query import parse_query, score_candidates
from tests.index.samples import Tree, doc, make

SHIPPED = Path(__file__).parents[2] / "filemem" / "model"
TEXTS = [
    "Switch to a local LRU cache",
    "Redis added too much operational burden for one process. " * 20,
    "getUserById raises KeyError",
    "東京 ünïcode naïve zxqvzx",
    "☃",
    "",
    "a",
]


@pytest.mark.parametrize("kind", ["int8", "float16", "shared rows"])
def test_a_model_equals_model2vec(tmp_path: Path, kind: str) -> None:
    folder, reference = SHIPPED, StaticModel.from_pretrained(SHIPPED, force_download=False)
    if kind != "int8":
        folder, rng = tmp_path, np.random.default_rng(7)
        rows = rng.standard_normal((len(reference.tokens), 16)).astype(
            "float16" if kind == "float16" else "float32"
        )
        reference = StaticModel(rows, reference.tokenizer)
        if kind == "shared rows":
            mapping = rng.integers(0, 100, len(reference.tokens))
            reference = StaticModel(rows[:100], reference.tokenizer, token_mapping=mapping)
        reference.save_pretrained(str(folder))
    ours, theirs = open_model(str(folder)).encode(TEXTS), reference.encode(TEXTS)
    for text, mine, other in zip(TEXTS, ours, theirs, strict=True):
        if np.any(other):
            assert float(mine @ other) / float(np.linalg.norm(other)) > 0.999, text
            assert float(np.linalg.norm(mine)) == pytest.approx(1, abs=1e-5)
        else:
            assert not np.any(mine)


def test_the_name_of_the_bundled_model_changes_with_its_files() -> None:
    names = ("model.safetensors", "tokenizer.json")
    digest = hashlib.sha256(b"".join((SHIPPED / name).read_bytes() for name in names)).hexdigest()[
        :16
    ]
    told = "new files: give BUNDLED another name, or old vectors stay"
    assert (BUNDLED_NAME, digest) == ("static-128.4", "ca068a81967d24f2"), told


def test_a_model_that_is_not_here_degrades_and_is_not_fetched(root: Path) -> None:
    index = Index(root, open_model("nobody/no-such-model"))
    Tree([doc("a.md", "Use Redis")]).apply(index)
    for mode in ("hybrid", "vector"):
        answer = index.search_candidates(parse_query("redis")[0], mode=mode)
        assert [one.path for one in answer.candidates] == ["a.md"]
        assert answer.candidates[0].cosine is None
        assert "nobody/no-such-model" in (answer.degraded or "")
    assert index.search_candidates(parse_query("redis")[0], mode="keyword").degraded is None


@pytest.mark.parametrize("damage", ["empty", "garbage", "no tokenizer"])
def test_an_unreadable_model_is_a_reason(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (folder / name).write_bytes((SHIPPED / name).read_bytes())
    if damage == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "model.safetensors").write_bytes(b"" if damage == "empty" else b"\xff" * 500)
    for broken in (Model(folder), open_model(str(folder))):
        with pytest.raises(ModelUnavailable, match=r"cannot be read\n") as unavailable:
            broken.encode(["x"])
        assert "the one that comes with filemem" in unavailable.value.hint


def test_vectors_that_were_missing_are_made_by_the_next_change(root: Path, tmp_path: Path) -> None:
    tree = Tree(make(number) for number in range(8))
    tree.apply(Index(root, Model(tmp_path / "nothing here")))
    index = Index(root, Model())
    degraded = index.search_candidates(parse_query("cache")[0]).degraded or ""
    assert "8 records have no vectors; run `filemem index`" in degraded
    tree.apply(index)
    assert index.search_candidates(parse_query("cache")[0]).degraded is None


def test_each_model_has_an_index_of_its_own(root: Path, folder: Path) -> None:
    tree = Tree(make(number) for number in range(8))
    for model in (Model(), open_model(str(folder))):
        index = Index(root, model)
        assert not index.is_built
        tree.apply(index)
        assert index.search_candidates(parse_query("cache")[0]).candidates[0].cosine is not None
        index.close()


def test_words_that_everybody_uses_tell_less() -> None:
    telling = Model().table.compute_word_weights(("the", "use", "library", "redis", "☃", "東京"))
    assert (
        telling["the"] < 0.1 < telling["use"] < 0.5 < telling["library"] < telling["redis"] == 1.0
    )
    assert telling["☃"] == telling["東京"] == 1.0  # nothing is known of them


def test_a_common_word_alone_is_no_full_match(index: Index) -> None:
    docs = [
        doc("order.md", "Calls run in order", "All callers use one thread."),
        doc("graph.md", "Graph", "A graph."),
    ]
    docs += [doc(f"{n}.md", f"Note {n}", "Nothing of the kind.") for n in range(20)]
    Tree(docs).apply(index)
    found = index.search_candidates(parse_query("use approximate nearest neighbours")[0])
    best = max(one.keyword for one in found.candidates)
    assert 0 < best < 0.2 * found.full_score
    assert index.search_candidates(parse_query("graph")[0]).full_score > 0
    rated = score_candidates(found.candidates, now=0, full_score=found.full_score)
    assert max(one.scores.keyword for one in rated) < 0.4


LIGHT = """
import sys
from pathlib import Path
from filemem.index import Index, open_model
from filemem.query import parse_query
index = Index(Path(sys.argv[1]), open_model())
answer = index.search_candidates(parse_query("redis")[0], mode=sys.argv[2])
assert len(answer.candidates) >= 1
index.read_newest_nodes(); index.read_nodes_by_field("topic", ["x"]); index.count_terms("topic")
print(*sorted({"numpy", "usearch", "tokenizers", "model2vec", "filelock", "tantivy"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("mode", "loaded"),
    [("keyword", "tantivy"), ("hybrid", "numpy tantivy tokenizers")],
    ids=["keyword", "hybrid"],
)
def test_a_search_imports_only_what_it_needs(index: Index, mode: str, loaded: str) -> None:
    Tree(make(number) for number in range(40)).apply(index)
    found = subprocess.run(
        [sys.executable, "-c", LIGHT, str(index.root.parent), mode],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == loaded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of the user's: ours, elsewhere, with a README that is no model card."""
    copied = tmp_path / "mine" / "model"
    shutil.copytree(SHIPPED, copied)
    (copied / "README.md").write_text("# Mine\n")
    return copied


def test_a_folder_is_one_model_however_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    ways = (str(folder), "model", "./model", "../mine/model", "~/model", f"{folder}/")
    assert len({open_model(way).name for way in ways}) == 1


def test_a_folder_with_other_files_is_another_model(folder: Path) -> None:
    before = open_model(str(folder)).name
    assert before.startswith(f"{folder}@")
    os.utime(folder / "README.md", (1, 1))
    assert open_model(str(folder)).name == before
    os.utime(folder / "model.safetensors", (1, 1))
    assert open_model(str(folder)).name != before
