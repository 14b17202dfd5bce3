"""Run in a repository: warm searches with and without what Git tells of the hits, in turns; prints seconds as JSON.

Stands alone, so that it runs with the clean environment of the measurement.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from unittest.mock import patch

from filemem.memory import Memory
from filemem.memory.store import Store
from filemem.query import Provenance

ROUNDS = 60
WARM = 5


def main(questions: list[str]) -> None:
    """Ask each question both ways; the order changes from one to the next."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    with Memory.open(Path()) as memory:
        for number, question in enumerate(questions):
            for told in (True, False) if number % 2 else (False, True):
                with patch.object(
                    Store, "provenances", Store.read_provenances if told else _nothing
                ):
                    began = time.perf_counter()
                    found = memory.search(question, limit=10).hits
                    taken[told].append(time.perf_counter() - began)
                assert all(bool(hit.provenance.commit) == told for hit in found)
    print(json.dumps([statistics.median(taken[told][WARM:]) for told in (True, False)]))


def _nothing(_: object, paths: list[str], *, detail: bool = True) -> dict[str, Provenance]:  # noqa: ARG001
    return dict.fromkeys(paths, Provenance())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
