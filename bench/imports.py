"""`python -m bench.imports [N]`: items per second of each format of `filemem import`, beside `filemem index --rebuild`
on as many files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import Surroundings, clean_surroundings, timed
from tests.support import git, make_repo, write
from tests.system import sources
from tests.system.sources import database, decided, entities, note, observed, remembered

WORDS = (
    "It was measured on real data for a week and the numbers were plain, so we went on with it. "
    * 3
)


def _notes(folder: Path, size: int, header: str) -> Path:
    for number in range(size):
        note(folder / f"n{number}.md", f"---\n{header.format(number)}\n---\n{WORDS}{number}\n")
    return folder


def _adrs(folder: Path, size: int) -> Path:
    make_repo(folder)
    for number in range(1, size + 1):
        head = f"# {number}. Use X{number}\n\nDate: 2021-03-04\n\n## Status\n\nAccepted\n\n## Decision\n\n"
        write(folder / f"docs/adr/{number:04}-use-x{number}.md", f"{head}{WORDS}{number}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Decide")
    return folder / "docs/adr"


def _entity(number: int) -> dict[str, object]:
    return {
        "type": "entity",
        "name": f"E {number}",
        "entityType": "module",
        "observations": [WORDS, str(number)],
    }


def _claude_mem(at: Path, size: int, more: str = "") -> Path:
    rows = (observed(n, narrative=f"{WORDS}{n}", facts='["a", "b"]') for n in range(size))
    return database(at / "c.db", sources.CLAUDE_MEM + more, rows)


MAKERS: dict[str, Callable[[Path, int], Path]] = {
    "mama": lambda at, size: database(
        at / "m.db", sources.MAMA, (decided(n, reasoning=WORDS) for n in range(size))
    ),
    "claude-mem": _claude_mem,
    "mem-claude": lambda at, size: _claude_mem(at, size, sources.MEM_CLAUDE),
    "powermem": lambda at, size: database(
        at / "p.db", sources.POWERMEM, (remembered(n, data=f"{n} {WORDS}") for n in range(size))
    ),
    "claude-code": lambda at, size: _notes(
        at / "projects/x/memory", size, "name: Note {0}\ndescription: d"
    ).parents[1],
    "basic-memory": lambda at, size: _notes(
        at / "notes", size, "title: Note {0}\ntype: note\npermalink: n/{0}"
    ),
    "server-memory": lambda at, size: entities(at / "m.jsonl", *map(_entity, range(size))),
    "adr": lambda at, size: _adrs(at / "adrs", size),
}


def measure(surroundings: Surroundings, at: Path, form: str, source: Path, size: int) -> None:
    """Import a source into a new repository, build its index, import again; print the three as items per second."""
    repo = make_repo(at / "repo")
    filemem = (sys.executable, "-m", "filemem", "-C", str(repo))
    call = (*filemem, "import", form, str(source), "--all-projects", "--yes")
    steps = (call, (*filemem, "index", "--rebuild"), call)
    took = [timed(partial(surroundings.run, *words)) for words in steps]
    came, anew, again = (size / each for each in took)
    print(f"| {form} | {came:,.0f} | {anew:,.0f} | {came / anew:.2f}x | {again:,.0f} |", flush=True)


def main() -> None:
    """Measure every format."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    folder = Path(tempfile.mkdtemp(prefix="filemem-bench-"))
    try:
        surroundings = clean_surroundings(folder)
        print("| format | import | index | import / index | again |\n|---|---|---|---|---|")
        for form, make in MAKERS.items():
            measure(surroundings, folder / form, form, make(folder / form / "source", size), size)
        surroundings.run(
            sys.executable,
            "-m",
            "filemem",
            "-C",
            str(folder / "mama/repo"),
            "export",
            "-o",
            str(folder / "x"),
        )
        measure(surroundings, folder / "filemem", "filemem", folder / "x", size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
