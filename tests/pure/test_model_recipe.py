"""Stage 1 of the model's recipe: nothing that evaluation rests on, and nothing that may not be taken, gets in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tools.model import extract
from tools.model.recipe import read_lines

PROSE = "The cache keeps {0} entries of the {0} table in memory and evicts the oldest of {0} first when it is full."


def document(repo: str, name: str, *paragraphs: str, heading: str = "Why") -> dict[str, Any]:
    return {
        "repo": repo,
        "path": f"{name}.md",
        "title": f"About {name}",
        "secs": [[heading, list(paragraphs)]],
    }


def pairs(tmp_path: Path, rows: Iterable[dict[str, Any]], held: str = "") -> list[dict[str, str]]:
    text, sets, work = tmp_path / "text", tmp_path / "sets" / "one", tmp_path / "work"
    text.mkdir(exist_ok=True)
    sets.mkdir(parents=True, exist_ok=True)
    (text / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.open(sets / "corpus.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": "1", "text": held}) + "\n")
    extract.run(work, text, sets.parent)
    return list(read_lines(work / extract.OUTPUT))


@pytest.mark.parametrize("repo", sorted(extract.NEVER | extract.SHARE_ALIKE))
def test_what_may_not_be_taken_is_left_out(tmp_path: Path, repo: str) -> None:
    found = pairs(
        tmp_path,
        [
            document("a/b", "alpha", PROSE.format("alpha")),
            document(repo, "beta", PROSE.format("beta")),
        ],
    )
    assert {pair["repo"] for pair in found} == {"a/b"}


def test_a_document_that_asks_for_share_alike_is_left_out(tmp_path: Path) -> None:
    terms = "It is published under a Creative Commons licence with a share-alike clause, kept in every copy."
    rows = [
        document("a/b", "alpha", PROSE.format("alpha")),
        document("c/d", "beta", PROSE.format("beta"), terms),
    ]
    assert {pair["repo"] for pair in pairs(tmp_path, rows)} == {"a/b"}


def test_a_held_out_paragraph_never_gets_in(tmp_path: Path) -> None:
    secret = PROSE.format("omega")
    rows = [
        document("a/b", "alpha", PROSE.format("alpha"), secret),
        {"repo": "a/b", "s": "Explain omega", "b": secret},
    ]
    assert any("omega" in pair["p"] for pair in pairs(tmp_path, rows))
    assert not any(
        "omega" in pair["p"] for pair in pairs(tmp_path, rows, held=f"{secret.upper()} And more.")
    )
