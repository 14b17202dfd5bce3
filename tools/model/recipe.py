"""The numbers of the recipe, and the small things that every stage shares.

Rule: a number that changes the model stands here and nowhere else; a stage's output appears under its name only when
it is complete, so that a file that is there can be trusted.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 7


@dataclass(frozen=True, slots=True)
class Recipe:
    """All settings.

    Args:
        passage: characters of a passage.
        shortest: characters below which a text is left out.
        boilerplate: a heading or paragraph opening found in this many documents says nothing about any of them.
        headed: passages taken under one heading.
        titled: passages taken under the title of one document, in place of headings that say nothing.
        sentences: pairs of a sentence and the rest of its paragraph, of one document.
        of_a_repo: pairs of one repository.
        added: words added to the teacher's word pieces.
        seen: times that an added word occurs, at least, and in how many repositories.
        tokens: word pieces of a text that the teacher reads.
        dims: dimensions of the trained matrix; the loss is taken at each; the weights favour what ships.
        batch: pairs in a step.
        steps: of training; the first `warmup` of them rise to the full rate.
        rate: learning rate of the map and of the weights; `rate_own` of each token's own part.
        temperature: of all softmaxes.
        same: share of steps whose pairs all come from one repository, which makes them harder.
        match: weight of the loss that compares similarities with the teacher's; `direct`, of the one that compares
            vectors with the teacher's.
        sif: constant of the starting weights sif / (sif + frequency); `pull` holds them near.
    """

    passage: int = 400
    shortest: int = 60
    boilerplate: int = 5
    headed: int = 2
    titled: int = 3
    sentences: int = 16
    of_a_repo: int = 5_000
    added: int = 6_000
    seen: tuple[int, int] = (5, 2)
    tokens: int = 96
    dims: tuple[tuple[int, float], ...] = ((256, 0.5), (128, 1.0), (64, 0.25))
    batch: int = 512
    steps: int = 1_200
    warmup: int = 100
    rate: float = 1e-3
    rate_own: float = 3e-4
    temperature: float = 0.05
    same: float = 0.5
    match: float = 3.0
    direct: float = 1.0
    sif: float = 1e-3
    pull: float = 0.05


RECIPE = Recipe()


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Give a path to write to, and put it in place when all went well.

    Args:
        path: where the file or folder is to appear.
    """
    part = path.with_name(f"part-{path.name}")  # in front: numpy looks at the ending
    path.parent.mkdir(parents=True, exist_ok=True)
    yield part
    part.replace(path)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the values of a JSON Lines file, packed or not.

    Args:
        path: ends in `.jsonl` or `.jsonl.xz`.
    """
    with (
        lzma.open(path, "rt", encoding="utf-8")
        if path.suffix == ".xz"
        else path.open(encoding="utf-8") as file
    ):
        for line in file:
            yield json.loads(line)


def write_lines(path: Path, rows: Iterable[object]) -> None:
    """Write values as JSON Lines, one per line.

    Args:
        path: file to write.
        rows: JSON values.
    """
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def run_alone(run: Callable[[Path], None], about: str) -> None:
    """Run one stage from the command line: `python -m tools.model.STAGE WORK`.

    Args:
        run: the stage.
        about: what it does, for `--help`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("work", type=Path, help="folder of the stages' outputs")
    run(parser.parse_args().work)
