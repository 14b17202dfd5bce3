"""The shipped model is the one that its card describes, and means what it should mean."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from filemem.index import Model

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "filemem" / "model"
CARD = ROOT / "bench" / "model.md"

WORDS = {
    "bug": ("defect", ("wallet", "paragraph", "server", "holiday")),
    "remove": ("delete", ("insert", "measure", "invite", "colour")),
    "fast": ("quick", ("heavy", "empty", "public", "round")),
    "picture": ("image", ("lock", "string", "release", "password")),
    "authentication": ("login", ("compiler", "pixel", "invoice", "thread")),
    "database": ("sql", ("font", "browser", "sound", "keyboard")),
    "k8s": ("kubernetes", ("spreadsheet", "haskell", "photoshop", "excel")),
}
QUESTIONS = {
    "where do we keep cached values?": "Use Redis as a cache shared between workers",
    "how do users sign in?": "Authenticate with OAuth tokens instead of session cookies",
    "which database do we use": "Store all records in PostgreSQL",
    "how do we release a new version": "Publish a Docker image with every release",
    "why was the build slow": "Compile time doubled after the linker was upgraded in CI",
    "what happens when a request fails": "Retry failed HTTP calls three times with backoff",
    "who may change the settings": "Only administrators can edit the configuration",
    "how do we find memory leaks": "Profile heap allocations once a week",
}


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_the_card_names_the_files_that_ship(name: str) -> None:
    digest = hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest()
    assert digest in CARD.read_text(encoding="utf-8"), (
        f"bench/model.md does not describe this {name}"
    )


def test_the_sources_travel_with_the_files() -> None:
    told = (SHIPPED / "README.md").read_text(encoding="utf-8")
    sources = told[told.index("| source |") :]
    assert sources.strip() in CARD.read_text(encoding="utf-8"), (
        "attribution differs between the card and the package"
    )


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_nearest_to_what_means_the_same(model: Model, word: str) -> None:
    near, far = WORDS[word]
    cosines = model.encode([near, *far]) @ model.encode([word])[0]
    assert int(np.argmax(cosines)) == 0, dict(
        zip((near, *far), cosines.round(2).tolist(), strict=True)
    )


def test_a_question_finds_its_answer_among_the_others(model: Model) -> None:
    answers = list(QUESTIONS.values())
    cosines = model.encode(list(QUESTIONS)) @ model.encode(answers).T
    found = dict(zip(QUESTIONS, (answers[at] for at in cosines.argmax(axis=1)), strict=True))
    assert found == QUESTIONS


PIECES = [
    *"abcXYZ 019 ._-/:'()[]{}`\"",
    *"\t\n\r\x0b\x0c\x00\x1f\x7f\x85\u00a0\u2003\u200b\u0301\ufeff",
    *"äÉßẞİıﬁſ–—‘’“”…→•😀漢字かなカナ한국어Привет",
    *("[UNK]", "[PAD]", "[unk]", "PAD]", "getUserById", "HTTPServer2", "src/cache.py", "Müller"),
    *("retry", "naïve", "資料庫", "데이터베이스", "сервер", "x" * 99, "y" * 101, "0" * 40),
]


def test_the_tokens_of_any_text_are_those_of_the_tokenizer(model: Model) -> None:
    choice = random.Random(1)
    texts = ["".join(choice.choices(PIECES, k=choice.randrange(40))) for _ in range(2000)]
    files = [CARD, Path(__file__), *sorted((ROOT / "filemem" / "index").glob("*.py"))]
    texts += [part for file in files for part in file.read_text("utf-8").split("\n\n")]
    tokenizer = Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    wanted = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    _, tokens, counts = model.table.encode(texts)
    ends = np.cumsum(counts)
    own = [part.tolist() for part in np.split(tokens, ends[:-1])]
    assert own == wanted
