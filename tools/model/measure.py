"""Stage 6: how good a model is, on sets that it has not seen.

Rule: it reads models with filemem's own loader and needs filemem's dependencies alone, so that what is measured is
what ships. Texts are found by their best passage: about 450 characters, with the title in front. The keyword half of
`hybrid` is a plain BM25 of stemmed words: a yardstick that no change of filemem moves.

    python -m tools.model.measure SETS MODEL [MODEL ...]

Each set is a folder with `corpus.jsonl[.gz]` {id, title, text}, `queries.jsonl` {id, text} and `qrels.tsv`. Figures
carry 95 % bootstrap intervals over the queries, and the paired difference to the first model named.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tantivy

from filemem.index.embed import Model

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Change = Callable[[str], str]

PASSAGE = 450  # characters
DEPTH = 10  # results that count
KEYWORDS = 0.4  # share of the keyword score in the hybrid one
_RESAMPLES = 2000
_K1, _B = 1.2, 0.75
_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_CAMEL = re.compile(r"\b\w*[a-z0-9][A-Z]\w*")


def split_identifiers(text: str) -> str:
    """Return a text with a space at each joint of a camelCase word."""
    return _JOINT.sub(" ", text)


def add_parts(text: str) -> str:
    """Return a text with the parts of each camelCase word after it."""
    return _CAMEL.sub(lambda found: f"{found[0]} {split_identifiers(found[0])}", text)


CHANGES: dict[str, Change] = {"plain": str, "split": split_identifiers, "parts": add_parts}


@dataclass(frozen=True, slots=True)
class Collection:
    """A set: documents, questions, and which documents answer them.

    Args:
        name: of its folder.
        ids: of the documents.
        titles: of the documents.
        texts: of the documents.
        queries: text by number of the question; those with an answer only.
        answers: grade by document, by number of the question.
    """

    name: str
    ids: list[str]
    titles: list[str]
    texts: list[str]
    queries: dict[str, str]
    answers: dict[str, dict[str, int]]

    @classmethod
    def read(cls, folder: Path) -> Collection:
        """Return the set in a folder."""
        docs = list(_lines(next(folder.glob("corpus.jsonl*"))))
        answers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        with (folder / "qrels.tsv").open(encoding="utf-8") as file:
            for query, doc, score in list(csv.reader(file, delimiter="\t"))[1:]:
                if int(score) > 0:
                    answers[query][doc] = int(score)
        queries = {
            row["id"]: row["text"]
            for row in _lines(folder / "queries.jsonl")
            if row["id"] in answers
        }
        ids, titles, texts = ([row[key] for row in docs] for key in ("id", "title", "text"))
        return cls(folder.name, ids, titles, texts, queries, dict(answers))


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        yield from map(json.loads, file)


def passages(title: str, text: str) -> list[str]:
    """Return a document as passages, cut between words, each with the title in front."""
    found, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) > PASSAGE:
            found.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return [f"{title}\n{one}" for one in [*found, line]]


def dense(folder: Path, data: Collection, change: Change = str) -> Floats:
    """Return the cosine of every question (rows) and the best passage of every document (columns).

    Args:
        folder: of a model.
        data: the set.
        change: what is done to every text first.
    """
    model = Model(folder, folder.name)
    cut = [passages(title, text) for title, text in zip(data.titles, data.texts, strict=True)]
    vectors = model.encode([change(one) for some in cut for one in some])
    starts = np.cumsum([0, *map(len, cut[:-1])])
    questions = model.encode([change(one) for one in data.queries.values()])
    best: Floats = np.maximum.reduceat(questions @ vectors.T, starts, axis=1)
    return best


def keyword(data: Collection) -> Floats:
    """Return the BM25 score of every question (rows) in every document (columns)."""
    analyzer = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stopword("english"))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )
    counts = [
        Counter(analyzer.analyze(f"{title} {text}"))
        for title, text in zip(data.titles, data.texts, strict=True)
    ]
    lengths = np.array([count.total() for count in counts], dtype=np.float32)
    norms = _K1 * (1 - _B + _B * lengths / lengths.mean())
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, count in enumerate(counts):
        for word, times in count.items():
            places[word].append((at, times))
    scores = np.zeros((len(data.queries), len(counts)), dtype=np.float32)
    for row, text in zip(scores, data.queries.values(), strict=True):
        for word in set(analyzer.analyze(text)) & places.keys():
            where, times = np.array(places[word]).T
            rare = np.log(1 + (len(counts) - len(where) + 0.5) / (len(where) + 0.5))
            row[where] += rare * times * (_K1 + 1) / (times + norms[where])
    return scores


def hybrid(words: Floats, cosines: Floats) -> Floats:
    """Return both scores as one: keywords as a share of the question's best, and the cosine as it is."""
    best = words.max(axis=1, keepdims=True)
    joined: Floats = KEYWORDS * words / np.where(best > 0, best, 1) + (1 - KEYWORDS) * cosines
    return joined


@dataclass(frozen=True, slots=True)
class Figures:
    """What each question scored.

    Args:
        ndcg: discounted gain in the first ten places, of the best possible.
        recall: share of the answers in the first ten places.
    """

    ndcg: Floats
    recall: Floats

    @classmethod
    def of(cls, scores: Floats, data: Collection) -> Figures:
        """Return the figures of a ranking by score."""
        discount = 1 / np.log2(np.arange(DEPTH) + 2)
        ndcg, recall = [], []
        for row, query in zip(scores, data.queries, strict=True):
            grades = data.answers[query]
            first = [data.ids[at] for at in np.argsort(-row, kind="stable")[:DEPTH]]
            ideal = sorted(grades.values(), reverse=True)[:DEPTH]
            gain = sum(
                grades.get(doc, 0) * share for doc, share in zip(first, discount, strict=False)
            )
            ndcg.append(
                gain / sum(grade * share for grade, share in zip(ideal, discount, strict=False))
            )
            recall.append(sum(doc in grades for doc in first) / len(grades))
        return cls(np.array(ndcg, dtype=np.float32), np.array(recall, dtype=np.float32))


def interval(values: Floats) -> str:
    """Return the mean and its 95 % bootstrap interval, in hundredths."""
    draws = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    return f"{100 * values.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def compare(sets: Path, folders: list[Path], change: Change) -> None:
    """Print the figures of models, a line per set, way of ranking and model.

    Args:
        sets: folder with a folder per set.
        folders: of models; the others are compared with the first.
        change: what is done to every text first.
    """
    print(
        f"{'set':20} {'ranking':8} {'model':28} {'nDCG@10':20} {'recall@10':20} difference in nDCG@10"
    )
    means: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for data in (Collection.read(path.parent) for path in sorted(sets.glob("*/qrels.tsv"))):
        words = keyword(data)
        lines = [("keyword", "-", Figures.of(words, data))]
        for folder in folders:
            cosines = dense(folder, data, change)
            lines.append(("dense", str(folder), Figures.of(cosines, data)))
            lines.append(("hybrid", str(folder), Figures.of(hybrid(words, cosines), data)))
        first = {ranking: figures for ranking, _, figures in reversed(lines)}
        for ranking, name, figures in sorted(lines, key=lambda line: line[0]):
            other = (
                "" if figures is first[ranking] else interval(figures.ndcg - first[ranking].ndcg)
            )
            means[ranking, name].append(float(figures.ndcg.mean()))
            print(
                f"{data.name:20} {ranking:8} {name[-28:]:28} {interval(figures.ndcg):20} "
                f"{interval(figures.recall):20} {other}",
                flush=True,
            )
    for (ranking, name), values in sorted(means.items()):
        print(f"{'mean of the sets':20} {ranking:8} {name[-28:]:28} {100 * np.mean(values):.1f}")


def speed(folder: Path) -> str:
    """Return the size of a model and how fast it is here.

    Args:
        folder: of a model.
    """
    size = sum((folder / name).stat().st_size for name in ("model.safetensors", "tokenizer.json"))
    text = (
        "Each worker keeps its values in a cache of its own, for one more service is one more thing to run. "
        * 4
    )
    began = time.perf_counter()
    model = Model(folder, folder.name)
    model.encode(["warm"])
    loaded = time.perf_counter()
    model.encode([text] * 2000)
    done = time.perf_counter()
    return f"{folder}: {size / 1e6:.1f} MB, loads in {loaded - began:.3f} s, {2000 / (done - loaded):.0f} passages/s"


def main() -> None:
    """Measure the models named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", type=Path, help="folder with a folder per set")
    parser.add_argument("models", type=Path, nargs="+", help="folders of models")
    parser.add_argument(
        "--text",
        choices=CHANGES,
        default="plain",
        help="what is done to texts before they are read",
    )
    asked = parser.parse_args()
    compare(asked.sets, asked.models, CHANGES[asked.text])
    for folder in asked.models:
        print(speed(folder))


if __name__ == "__main__":
    main()
