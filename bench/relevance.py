"""How good answers are: measures of ranked lists with intervals, and the table of all dev sets.

`python -m bench.relevance DIR` (`make eval`) runs every set in a folder, hybrid and by words alone. Intervals are 95 %
bootstrap intervals over the questions, from a fixed seed; a difference is that of the same question in both modes.
"With one other wording" is nDCG@10 where each question is followed by a wording from the file of `--wordings`: question
-> wordings. Whoever wrote these knew the field, so it is an upper end.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from bench.retrieval import MODES, Set, load, store_of
from filemem.query.score import Weights

SEED = 20_251_120
DRAWS = 2_000
HEADER_LINES = 20
Grades = Mapping[str, int]  # document -> grade


class Interval(NamedTuple):
    """A mean and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def ndcg(ranked: Sequence[str], grades: Grades, depth: int = 10) -> float:
    """Return the discounted gain of the first `depth`, relative to the best order; the gain is the grade."""
    gain = sum(grades.get(one, 0) / math.log2(at + 2) for at, one in enumerate(ranked[:depth]))
    best = sum(
        grade / math.log2(at + 2)
        for at, grade in enumerate(sorted(grades.values(), reverse=True)[:depth])
    )
    return gain / best


def recall(ranked: Sequence[str], grades: Grades, depth: int) -> float:
    """Return the share of the relevant documents that stands among the first `depth`."""
    return sum(one in grades for one in ranked[:depth]) / len(grades)


def reciprocal_rank(ranked: Sequence[str], grades: Grades) -> float:
    """Return 1 / place of the first relevant document; 0 where there is none."""
    return next((1 / (at + 1) for at, one in enumerate(ranked) if one in grades), 0.0)


MEASURES: Mapping[str, Callable[[Sequence[str], Grades], float]] = {
    "nDCG@10": ndcg,
    "recall@5": lambda ranked, grades: recall(ranked, grades, 5),
    "recall@10": lambda ranked, grades: recall(ranked, grades, 10),
    "MRR": reciprocal_rank,
}


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of some values and its bootstrap interval."""
    random = Random(SEED)
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(DRAWS))
    return Interval(fmean(values), means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)])


class Order(NamedTuple):
    """How often the record that answers today stands above the older ones, of the questions where either is found.

    Args:
        above, of: of all such questions.
        stated, of_stated: of those where a header says that the one supersedes the other.
    """

    above: int = 0
    of: int = 0
    stated: int = 0
    of_stated: int = 0

    def __str__(self) -> str:
        if not self.of:
            return ""
        return (
            f"{self.above} of {self.of}; where a header states it {self.stated} of {self.of_stated}"
        )


def current_above(answers: Mapping[str, Sequence[str]], each: Set) -> Order:
    """Count the questions with both grades, and those whose best grade is found before every lower one."""
    order = Order()
    for qid, grades in each.grades.items():
        first = next((one for one in answers[qid] if one in grades), None)
        if first is None or len(set(grades.values())) < 2:
            continue
        best = max(grades.values())
        pairs = [
            (new, old) for new in grades for old in grades if grades[new] == best > grades[old]
        ]
        above, stated = (
            int(grades[first] == best),
            int(any(states(each, new, old) for new, old in pairs)),
        )
        order = Order(
            order.above + above,
            order.of + 1,
            order.stated + above * stated,
            order.of_stated + stated,
        )
    return order


def states(each: Set, new: str, old: str) -> bool:
    """Say whether a line at the beginning of either document says that the one supersedes the other."""
    return any(
        "supersede" in line.casefold()
        and "part" not in line.casefold()
        and f"{other.rpartition('/')[2]}.md" in line
        for one, other in ((new, old), (old, new))
        for line in each.documents[one][1].splitlines()[:HEADER_LINES]
    )


def answers_of(each: Set, modes: Sequence[str] = MODES) -> dict[str, dict[str, list[str]]]:
    """Return mode -> query -> ranked documents."""
    with store_of(each) as asked:
        return {
            mode: {one.id: asked.ranked(one.text, mode) for one in each.questions} for mode in modes
        }


def reworded(each: Set, wordings: Mapping[str, Sequence[str]]) -> Set | None:
    """Return a set with another wording behind each question; None unless there is one for every question."""
    if not all(wordings.get(one.id) for one in each.questions):
        return None
    said = tuple(one._replace(text=f"{one.text} {wordings[one.id][0]}") for one in each.questions)
    return each._replace(questions=said)


def rows(
    each: Set, modes: Sequence[str] = MODES, wordings: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return the lines of the table for one set; `wordings`: of questions, by their ids."""
    answers = answers_of(each, modes)
    other = reworded(each, wordings or {})
    more = answers_of(other, modes) if other else {}
    lines: list[str] = []
    judged = [one.id for one in each.questions if one.id in each.grades]
    values = {
        mode: {
            name: [measure(found[qid], each.grades[qid]) for qid in judged]
            for name, measure in MEASURES.items()
        }
        for mode, found in answers.items()
    }
    for mode, by_name in values.items():
        cells = [str(interval(by_name[name])) for name in MEASURES]
        said = (
            str(interval([ndcg(more[mode][qid], each.grades[qid]) for qid in judged]))
            if more
            else ""
        )
        lines.append(_row(each.name, mode, *cells, said, str(current_above(answers[mode], each))))
    if "hybrid" in values and "keyword" in values:
        pairs = [
            [a - b for a, b in zip(values["hybrid"][name], values["keyword"][name], strict=True)]
            for name in MEASURES
        ]
        lines.append(
            _row(each.name, "hybrid - keyword", *(f"{interval(pair)}" for pair in pairs), "", "")
        )
    return lines


def ablation(each: Set) -> list[str]:
    """Return one line per part of the hybrid score: nDCG@10 without it, and the difference to all of them."""
    judged = [one for one in each.questions if one.id in each.grades]
    score: Any = import_module("filemem.query.score")  # `filemem.query` has a function of that name
    whole = score.HYBRID
    lines: list[str] = []
    with store_of(each) as asked:

        def values(weights: Weights) -> list[float]:
            score.HYBRID = weights
            return [ndcg(asked.ranked(one.text, "hybrid"), each.grades[one.id]) for one in judged]

        base = values(whole)
        for part in Weights._fields:
            without = values(whole._replace(**{part: 0.0}))
            difference = interval([b - a for a, b in zip(base, without, strict=True)])
            lines.append(
                _row(each.name, f"without {part}", f"{fmean(without):.3f}", str(difference))
            )
        score.HYBRID = whole
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder of sets, or one set")
    parser.add_argument(
        "--mode", choices=MODES, action="append", help="once or several times; all by default"
    )
    parser.add_argument(
        "--wordings",
        type=Path,
        metavar="FILE",
        help="JSON: question -> other wordings; may be missing",
    )
    parser.add_argument(
        "--ablation", action="store_true", help="leave out each part of the hybrid score in turn"
    )
    given = parser.parse_args()
    if not given.folder.is_dir():
        sys.exit(
            f"{given.folder} is not there: the retrieval sets are not part of the repository; say where they are"
        )
    sets = (
        [given.folder]
        if (given.folder / "queries.jsonl").exists()
        else sorted(given.folder.iterdir())
    )
    sets = [
        each for each in sets if (each / "queries.jsonl").exists() and (each / "qrels.tsv").exists()
    ]
    if not sets:
        sys.exit(
            f"{given.folder} holds no set: a folder with corpus.jsonl (or .gz), queries.jsonl and qrels.tsv"
        )
    if given.ablation:
        print(
            _row("set", "score", "nDCG@10", "difference to the whole score"),
            _row(*["---"] * 4),
            sep="\n",
        )
        for folder in sets:
            print("\n".join(ablation(load(folder))), flush=True)
        return
    there = given.wordings is not None and given.wordings.exists()
    wordings = json.loads(given.wordings.read_text(encoding="utf-8")) if there else {}
    print(_row("set", "mode", *MEASURES, "with one other wording", "current above older"))
    print(_row(*["---"] * (len(MEASURES) + 4)))
    for folder in sets:
        print("\n".join(rows(load(folder), given.mode or MODES, wordings)), flush=True)


if __name__ == "__main__":
    main()
