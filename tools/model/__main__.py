"""All stages in order: `python -m tools.model FOLDER_OF_TEXT --out DIR`.

Rule: a stage whose output is in the work folder is skipped, so that a run that was cut short goes on; `--again STAGE`
runs that stage and all after it anew.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from tools.model import extract, measure, quantise, teacher, train, vocabulary


def main() -> None:
    """Make the model, and measure it where there are sets."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.model", description="Make the bundled embedding model."
    )
    parser.add_argument(
        "text", type=Path, help="folder of *.jsonl or *.jsonl.xz: documents and commits"
    )
    parser.add_argument("--out", type=Path, required=True, help="where the finished models go")
    parser.add_argument(
        "--work", type=Path, help="where the stages' outputs are kept (OUT/work unless said)"
    )
    parser.add_argument(
        "--sets", type=Path, help="evaluation sets: kept out of the training text, and measured"
    )
    parser.add_argument("--again", help="stage to run anew, with all after it")
    asked = parser.parse_args()
    work: Path = asked.work or asked.out / "work"
    stages: dict[str, tuple[Path, Callable[[], None]]] = {
        "extract": (work / extract.OUTPUT, lambda: extract.run(work, asked.text, asked.sets)),
        "vocabulary": (work / vocabulary.OUTPUT, lambda: vocabulary.run(work)),
        "teacher": (work / teacher.OUTPUT, lambda: teacher.run(work)),
        "train": (work / train.OUTPUT, lambda: train.run(work)),
        "quantise": (asked.out / quantise.OUTPUT, lambda: quantise.run(work, asked.out)),
    }
    if asked.again and asked.again not in stages:
        parser.error(f"no stage {asked.again!r}; there are {', '.join(stages)}")
    anew = False
    for name, (output, run) in stages.items():
        anew = anew or name == asked.again or not output.exists()
        if not anew:
            print(f"{name}: {output} is there")
            continue
        began = time.monotonic()
        run()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    if asked.sets:
        measure.compare(asked.sets, sorted(asked.out.glob("static-*")), str)


if __name__ == "__main__":
    main()
