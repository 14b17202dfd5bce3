"""Stage 1: text to pairs of a short text and a passage that belongs to it.

Rule: what evaluation rests on never gets in, and neither does what others may use only on terms that a model can not
keep. Repositories in `NEVER` are left out whole, the documents of those in `SHARE_ALIKE` too, and so is every paragraph
that opens like one in the held-out sets. What is taken follows from each text alone: to leave one out moves no other.
In: any number of `*.jsonl` or `*.jsonl.xz` of documents
`{repo, path, title, secs: [[heading, [paragraph, ...]], ...]}` or commits `{repo, s: subject, b: body}`.
Out: `pairs.jsonl`, `{repo, kind, q, p}`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.model.recipe import RECIPE, SEED, complete, read_lines, write_lines

OUTPUT = "pairs.jsonl"
NEVER = frozenset({"python/peps", "rust-lang/rfcs", "pypa/pip"})
SHARE_ALIKE = frozenset(
    {"celery/celery"}
)  # documents under CC BY-SA 4.0; its commits come with the code, under BSD
_TERMS = re.compile(r"share-?alike|non-?commercial", re.I)
_OPENING = 60  # characters that tell two paragraphs apart
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_WORDS = re.compile(r"[A-Za-z]+")
_LEAST_LETTERS = 0.6  # of a passage's characters; below it is a list of numbers, names or links


class Pair(NamedTuple):
    """A short text and a passage.

    Args:
        repo: where both come from.
        kind: `heading`, `title`, `commit` or `sentence`.
        q: the short text.
        p: the passage.
    """

    repo: str
    kind: str
    q: str
    p: str


def opening(text: str) -> str:
    """Return the beginning of a paragraph, without what differs between two copies of it."""
    return " ".join(_WORDS.findall(text[: 4 * _OPENING])).lower()[:_OPENING]


def held_out(folder: Path | None) -> set[str]:
    """Return how the paragraphs of the held-out sets begin.

    Args:
        folder: with a folder per set, each holding `corpus.jsonl` or `corpus.jsonl.gz` and `queries.jsonl`.
    """
    found: set[str] = set()
    for path in sorted(folder.glob("*/*.jsonl*")) if folder else ():
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            for line in file:
                found.update(opening(part) for part in json.loads(line)["text"].split("\n"))
    return {one for one in found if len(one) == _OPENING}


def useful(text: str) -> bool:
    """Return whether a paragraph is prose of some length."""
    return len(text) >= RECIPE.shortest and sum(map(str.isalpha, text)) >= _LEAST_LETTERS * len(
        text
    )


def passages(paragraphs: Iterable[str]) -> list[str]:
    """Return the useful paragraphs as passages, cut after a word; what is left over at the end is dropped."""
    text = " ".join(one for one in paragraphs if useful(one))
    found = []
    while len(text) >= RECIPE.shortest:
        cut = text if len(text) <= RECIPE.passage else text[: RECIPE.passage].rsplit(" ", 1)[0]
        found.append(cut)
        text = text[len(cut) :].lstrip()
    return found


def of_document(doc: dict[str, Any], dull: set[str]) -> Iterator[Pair]:
    """Yield the pairs of headings and what stands under them.

    Args:
        doc: a document.
        dull: headings that say nothing; the document's title stands in for them.
    """
    titled = 0
    for heading, paragraphs in doc["secs"]:
        bodies = passages(paragraphs)[: RECIPE.headed]
        if heading.strip().lower() not in dull and heading != doc["title"]:
            yield from (Pair(doc["repo"], "heading", heading.strip(), body) for body in bodies)
        else:
            bodies = bodies[: RECIPE.titled - titled]
            titled += len(bodies)
            yield from (Pair(doc["repo"], "title", doc["title"].strip(), body) for body in bodies)


def of_sentences(docs: list[dict[str, Any]]) -> list[Pair]:
    """Return pairs of one sentence and the rest of its paragraph, few from each document."""
    found = []
    for doc in docs:
        chance = random.Random(f"{SEED} {doc['repo']} {doc['path']}")
        paragraphs = [one for _, some in doc["secs"] for one in some if useful(one)]
        for text in chance.sample(paragraphs, min(RECIPE.sentences, len(paragraphs))):
            sentences = _SENTENCE.split(text)
            fit = [at for at, one in enumerate(sentences) if 30 <= len(one) <= 200]
            if len(sentences) < 2 or not fit:
                continue
            at = chance.choice(fit)
            rest = passages([" ".join(sentences[:at] + sentences[at + 1 :])])
            found += [Pair(doc["repo"], "sentence", sentences[at], one) for one in rest[:1]]
    return found


def clean(docs: list[dict[str, Any]], held: set[str]) -> None:
    """Take out of documents the paragraphs that are held out, or that many documents share.

    Args:
        docs: changed in place.
        held: openings that must not appear.
    """
    often = Counter(
        begin for doc in docs for begin in {opening(one) for _, some in doc["secs"] for one in some}
    )
    for doc in docs:
        doc["secs"] = [
            [
                heading,
                [
                    one
                    for one in some
                    if opening(one) not in held and often[opening(one)] < RECIPE.boilerplate
                ],
            ]
            for heading, some in doc["secs"]
        ]


def balanced(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs without the surplus of the largest repositories, in an order that says nothing."""
    by_repo: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lot):
        if len(by_repo[pair.repo]) < RECIPE.of_a_repo:
            by_repo[pair.repo].append(pair)
    return sorted((pair for some in by_repo.values() for pair in some), key=lot)


def lot(pair: Pair) -> bytes:
    """Return where a pair stands in the draw."""
    return hashlib.sha256(f"{SEED} {pair}".encode()).digest()


def free(doc: dict[str, Any]) -> bool:
    """Return whether a document asks for nothing but its author's name."""
    return doc["repo"] not in SHARE_ALIKE and not any(
        _TERMS.search(one) for _, some in doc["secs"] for one in some
    )


def run(work: Path, folder: Path, hold_out: Path | None = None) -> None:
    """Write the pairs.

    Args:
        work: folder of the stages' outputs.
        folder: of the text.
        hold_out: folder of evaluation sets.
    """
    held = held_out(hold_out)
    rows = [
        row
        for path in sorted(folder.glob("*.jsonl*"))
        for row in read_lines(path)
        if row["repo"] not in NEVER
    ]
    docs = [row for row in rows if "secs" in row and free(row)]
    clean(docs, held)
    headings = Counter(
        one for doc in docs for one in {heading.strip().lower() for heading, _ in doc["secs"]}
    )
    dull = {one for one, times in headings.items() if times >= RECIPE.boilerplate} | {""}
    pairs = [pair for doc in docs for pair in of_document(doc, dull)]
    for row in rows:
        if "b" in row and opening(row["b"]) not in held:
            pairs += [
                Pair(row["repo"], "commit", row["s"], body) for body in passages([row["b"]])[:1]
            ]
    pairs += of_sentences(docs)
    chosen = balanced(
        dict.fromkeys(pair for pair in pairs if opening(pair.q) not in held and len(pair.q) > 2)
    )
    with complete(work / OUTPUT) as part:
        write_lines(part, (pair._asdict() for pair in chosen))
    print(
        "pairs:",
        len(chosen),
        dict(Counter(pair.kind for pair in chosen)),
        "held-out openings:",
        len(held),
    )


def main() -> None:
    """Run this stage alone: `python -m tools.model.extract TEXT WORK [SETS]`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, help="folder of the text")
    parser.add_argument("work", type=Path, help="folder of the stages' outputs")
    parser.add_argument("sets", type=Path, nargs="?", help="folder of evaluation sets to keep out")
    asked = parser.parse_args()
    run(asked.work, asked.text, asked.sets)


if __name__ == "__main__":
    main()
