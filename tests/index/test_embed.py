"""The bundled model gives what model2vec gives; a model that can not be had is a reason, not a failure."""

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

from filemem.index import Embedder, Index, ModelUnavailable, embedder
from filemem.index.embed import BUNDLED, BundledModel, ConfiguredModel
from filemem.query import parse, score
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


def test_the_bundled_model_equals_model2vec(model: Embedder) -> None:
    reference = StaticModel.from_pretrained(SHIPPED, force_download=False)
    ours, theirs = model.encode(TEXTS), reference.encode(TEXTS)
    for text, mine, other in zip(TEXTS, ours, theirs, strict=True):
        if np.any(other):
            assert float(mine @ other) > 0.9999, text
            assert float(np.linalg.norm(mine)) == pytest.approx(1, abs=1e-5)
        else:
            assert not np.any(mine)


def test_the_name_of_the_bundled_model_changes_with_its_files() -> None:
    names = ("model.safetensors", "tokenizer.json")
    digest = hashlib.sha256(b"".join((SHIPPED / name).read_bytes() for name in names)).hexdigest()[:16]
    told = "new files: give BUNDLED another name, or old vectors stay"
    assert (BUNDLED, digest) == ("static-128.4", "ca068a81967d24f2"), told


def test_a_folder_can_be_configured() -> None:
    ours = embedder(str(SHIPPED)).encode(["Switch to a local LRU cache"])
    assert ours.shape == (1, 128)
    assert float(np.linalg.norm(ours)) == pytest.approx(1, abs=1e-5)


def test_a_model_that_is_not_here_degrades_and_is_not_fetched(root: Path) -> None:
    index = Index(root, embedder("nobody/no-such-model"))
    Tree([doc("a.md", "Use Redis")]).apply(index)
    for mode in ("hybrid", "vector"):
        answer = index.candidates(parse("redis")[0], mode=mode)
        assert [one.path for one in answer.candidates] == ["a.md"]
        assert answer.candidates[0].cosine is None
        assert "nobody/no-such-model" in (answer.degraded or "")
    assert index.candidates(parse("redis")[0], mode="keyword").degraded is None


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
    for broken in (BundledModel(folder), ConfiguredModel(str(folder))):
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match=r"cannot be (read|loaded)\n") as unavailable:
                broken.encode(["x"])
            assert "the one that comes with filemem" in unavailable.value.hint


def test_changing_the_model_serves_the_old_until_the_rebuild(root: Path, model: Embedder) -> None:
    tree = Tree(make(number) for number in range(8))
    old = Index(root, model)
    tree.apply(old)
    new = Index(root, ConfiguredModel(str(SHIPPED)))
    assert new.stale == "made with another model than configured"
    answer = new.candidates(parse("cache")[0])
    assert "must be rebuilt" in (answer.degraded or "")
    new.push(doc("late.md", "Use Redis"))
    new.fold()
    assert old.candidates(parse("redis cache")[0]).candidates[0].cosine is not None
    tree.docs["late.md"] = doc("late.md", "Use Redis")
    new.rebuild(tree.entries(), tree.load)
    assert not new.stale
    assert new.candidates(parse("cache")[0]).degraded is None
    assert "must be rebuilt" in (old.candidates(parse("cache")[0]).degraded or "")


def test_vectors_that_were_missing_are_made_by_a_rebuild(root: Path, model: Embedder) -> None:
    tree = Tree(make(number) for number in range(8))
    tree.apply(Index(root))
    index = Index(root, model)
    assert index.stale == "8 records without vectors"
    assert "not made yet" in (index.candidates(parse("cache")[0]).degraded or "")
    index.rebuild(tree.entries(), tree.load)
    assert not index.stale
    assert index.candidates(parse("cache")[0]).degraded is None


def test_words_that_everybody_uses_tell_less() -> None:
    model = BundledModel()
    telling = model.telling({word: word for word in ("the", "use", "library", "redis", "☃", "東京")})
    assert telling["the"] < 0.1 < telling["use"] < 0.5 < telling["library"] < telling["redis"] == 1.0
    assert telling["☃"] == telling["東京"] == 1.0  # nothing is known of them


def test_a_common_word_alone_is_no_full_match(index: Index) -> None:
    docs = [doc("order.md", "Calls run in order", "All callers use one thread."), doc("graph.md", "Graph", "A graph.")]
    docs += [doc(f"{n}.md", f"Note {n}", "Nothing of the kind.") for n in range(20)]
    Tree(docs).apply(index)
    found = index.candidates(parse("use approximate nearest neighbours")[0])
    best = max(one.keyword for one in found.candidates)
    assert 0 < best < 0.2 * found.whole
    assert index.candidates(parse("graph")[0]).whole > 0
    rated = score(found.candidates, now=0, whole=found.whole)
    assert max(one.scores.keyword for one in rated) < 0.4


def test_words_without_a_vector_are_told(index: Index) -> None:
    Tree([doc("a.md", "東京タワー")]).apply(index)
    answer = index.candidates(parse("☃東京")[0])
    assert [one.path for one in answer.candidates] == ["a.md"]


LIGHT = """
import sys
from pathlib import Path
from filemem.index import Index, embedder
from filemem.query import parse
index = Index(Path(sys.argv[1]), embedder())
answer = index.candidates(parse("redis")[0], mode=sys.argv[2])
assert len(answer.candidates) >= 1
index.newest(); index.by_terms({"topic": ["x"]}); index.terms("topic")
print(*sorted({"numpy", "usearch", "tokenizers", "model2vec", "filelock", "tantivy"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("mode", "loaded"), [("keyword", "tantivy"), ("hybrid", "numpy tantivy tokenizers")], ids=["keyword", "hybrid"]
)
def test_a_search_imports_only_what_it_needs(index: Index, mode: str, loaded: str) -> None:
    Tree(make(number) for number in range(40)).apply(index)
    found = subprocess.run(
        [sys.executable, "-c", LIGHT, str(index.root.parent), mode], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == loaded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of the user's: ours, elsewhere, with a README that is no model card."""
    copied = tmp_path / "mine" / "model"
    shutil.copytree(SHIPPED, copied)
    (copied / "README.md").write_text("# Mine\n")
    return copied


def test_a_folder_is_one_model_however_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    ways = (str(folder), "model", "./model", "../mine/model", "~/model", f"{folder}/")
    assert len({embedder(way).name for way in ways}) == 1


def test_a_folder_with_other_files_is_another_model(folder: Path) -> None:
    before = embedder(str(folder)).name
    assert before.startswith(f"{folder}@")
    os.utime(folder / "README.md", (1, 1))
    assert embedder(str(folder)).name == before
    os.utime(folder / "model.safetensors", (1, 1))
    assert embedder(str(folder)).name != before


def test_a_folder_without_a_model_card_loads_without_a_word(folder: Path) -> None:
    script = "import sys; from filemem.index import embedder; print(embedder(sys.argv[1]).encode(['cache']).shape)"
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("(1, 128)\n", "")


@pytest.mark.parametrize("broken", [False, True], ids=["missing", "unreadable"])
def test_a_rebuild_for_a_model_that_cannot_be_had_keeps_the_vectors(
    root: Path, model: Embedder, folder: Path, broken: bool
) -> None:
    tree = Tree(make(number) for number in range(8))
    tree.apply(Index(root, model))
    if broken:
        (folder / "model.safetensors").write_bytes(b"no model")
    else:
        shutil.rmtree(folder)
    index = Index(root, embedder(str(folder)))
    tree.docs["late.md"] = doc("late.md", "Use Redis")
    index.rebuild(tree.entries(), tree.load)
    why = "cannot be loaded" if broken else "is not on this machine"
    for told in (index.lacks_meaning, index.candidates(parse("cache")[0]).degraded):
        assert f"the embedding model {folder} {why}; " in (told or "")
        assert "remove the setting" in (told or "")
    assert (index.model, index.outdated) == (model.name, False)
    again = Index(root, model)
    answer = again.candidates(parse("cache")[0])
    assert answer.degraded == again.lacks_meaning == "1 record has no vectors yet; run `filemem index`"
    assert sum(one.cosine is not None for one in answer.candidates) == 8
    assert again.unembedded == 1
    again.rebuild(tree.entries(), tree.load)
    assert again.lacks_meaning == ""


def test_vectors_of_a_model_stay_when_it_goes_and_a_new_record_lacks_one(root: Path, folder: Path) -> None:
    tree = Tree(make(number) for number in range(8))
    tree.apply(Index(root, embedder(str(folder))))
    name = Index(root, embedder(str(folder))).model
    hidden = folder.rename(folder.with_name("away"))
    gone = Index(root, embedder(str(folder)))
    tree.docs["late.md"] = doc("late.md", "Use Redis")
    gone.rebuild(tree.entries(), tree.load)
    hidden.rename(folder)
    back = Index(root, embedder(str(folder)))
    assert (back.model, back.unembedded) == (name, 1)
    assert any(one.cosine is not None for one in back.candidates(parse("cache")[0]).candidates)


def test_a_model_of_other_size_in_the_same_folder_is_another(root: Path, folder: Path) -> None:
    tree = Tree(make(number) for number in range(8))
    tree.apply(Index(root, embedder(str(folder))))
    rng = np.random.default_rng(7)
    kept = StaticModel.from_pretrained(folder, force_download=False)
    wide = rng.standard_normal((len(kept.tokens), 16), dtype=np.float32)
    StaticModel(wide, kept.tokenizer).save_pretrained(str(folder))
    index = Index(root, embedder(str(folder)))
    assert "must be rebuilt" in (index.candidates(parse("cache")[0]).degraded or "")
    index.rebuild(tree.entries(), tree.load)
    assert index.candidates(parse("cache")[0]).degraded is None
