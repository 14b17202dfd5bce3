"""Asks this project's own memory the questions in `own.tsv`: `python -m bench.own`, in a clone with its records.

A question names the short ids of the records that answer it. The questions were written by who wrote the records, in
other words on purpose: they are there to be repeated, not to be proud of.
"""

from __future__ import annotations

from pathlib import Path

import filemem
from filemem.record import shorten_id

QUESTIONS = Path(__file__).with_suffix(".tsv")
DEPTH = 10


def main() -> None:
    """Print each question that does not find its record first, and how many do."""
    rows = [line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines()[1:]]
    places: list[int] = []
    with filemem.open() as memory:
        for question, records in rows:
            found = [shorten_id(hit.id) for hit in memory.search(question, limit=DEPTH).hits]
            places.append(
                next((at for at, one in enumerate(found, 1) if one in records.split()), 0)
            )
            if places[-1] != 1:
                print(f"{places[-1] or '-':>2}  {question}")
    among = sum(0 < place <= 3 for place in places)
    print(f"{places.count(1)} of {len(places)} find their record on top, {among} among three")


if __name__ == "__main__":
    main()
