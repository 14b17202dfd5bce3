"""Of what governs a branch nearly all is in its brief, and little else.

`decisions.tsv`: the decisions that held in this repository on 2026-11-23. `branches.tsv`: 20 commits of its past, the
files that each changed, and the decisions that whoever made it should have known. They are marked by hand: also such
that state none of the files, and without such as state one of them and say nothing of what was done there.
"""

from __future__ import annotations

import csv
from pathlib import Path

from filemem.memory import Memory
from tests.support import git, make_repo, write

HERE = Path(__file__).parent


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_nine_of_ten_that_govern_are_told_and_one_of_five_at_most_is_about_others(
    tmp_path: Path,
) -> None:
    repo = make_repo(tmp_path / "repo")
    for at, row in enumerate(rows("decisions.tsv")):
        header = f"id: decision_x_{at}_{row['id']}\ntype: decision\ntopic: topic {at}\noutcome: {row['outcome']}"
        header += f"\naffects: [{', '.join(map(repr, row['affects'].split()))}]\ncreated: 2026-11-01T00:00:{at:02}Z"
        ruled = f"\n## Rejected\n- {row['ruled out']}\n" if row["ruled out"] else ""
        write(
            repo / f"memory/decisions/{row['id']}.md",
            f"---\n{header}\n---\n# {row['decision']}\n{ruled}",
        )
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Records")
    wanted = found = told = 0
    with Memory.open(repo) as memory:
        for row in rows("branches.tsv"):
            text = memory.brief(paths=row["files"].split()).text
            assert len(text) <= 3_200
            shown = {line[3:11] for line in text.splitlines() if line.startswith("- [")}
            marked = set(row["governing"].split())
            wanted, found, told = (
                wanted + len(marked),
                found + len(marked & shown),
                told + len(shown),
            )
    assert found >= 0.9 * wanted
    assert told - found <= 0.2 * told
