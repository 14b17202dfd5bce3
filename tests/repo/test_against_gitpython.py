"""Who first committed each record, when, and with whom: a second reader of Git's histories says the same."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import git as gitpython
import pytest

from filemem.repo import Repo
from filemem.repo.history import History
from tests.support import git, make_repo, write

PEOPLE = ("Ada", "Grace", "Mary Ann Évans", "李雷")
BY = "Co-authored-by: "
TRAILERS = ("", f"\n\n{BY}Mary <mary@example.com>", f"\n\n{BY}Alan <alan@x.org>\n{BY}Grace H. <grace@x.org>")


def grow(repo: Path, random: Random) -> None:
    """Thirty commits by several people on two branches that are merged: records written, edited, moved.

    A folder that a branch leaves empty counts as moved, so that merging moves what is new in it.
    """
    for at in range(30):
        side = "side" if 10 < at <= 20 else "main"
        records = sorted((repo / "memory").rglob(f"{side}-*.md"))
        name = f"memory/decisions/{random.choice('abc')}/{side}-{at}.md"
        deed = random.choice(("write", "write", "edit", "move")) if records else "write"
        if deed == "write":
            write(repo / name, f"# Decision {at}\n\n{' '.join(random.choices(PEOPLE, k=30))}\n")
        elif deed == "edit":
            chosen = random.choice(records)
            chosen.write_text(chosen.read_text() + f"Seen {at}.\n")
        else:
            (repo / name).parent.mkdir(parents=True, exist_ok=True)
            git(repo, "mv", str(random.choice(records)), name)
        git(repo, "add", ".")
        day = f"2025-01-{at + 1:02}T12:00:00Z"
        who: dict[str, Any] = {
            "GIT_AUTHOR_NAME": random.choice(PEOPLE),
            "GIT_AUTHOR_DATE": day,
            "GIT_COMMITTER_DATE": day,
        }
        git(repo, "commit", "-q", "-m", f"Step {at}{random.choice(TRAILERS)}", **who)
        if at == 10:
            git(repo, "checkout", "-q", "-b", "side")
        if at == 20:
            git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "Bring the side", "side")


@pytest.mark.parametrize("seed", [1, 2])
def test_first_commits_and_the_people_they_name(tmp_path: Path, seed: int) -> None:
    place = make_repo(tmp_path / "repo")
    grow(place, Random(seed))
    paths = git(place, "ls-files", "memory").splitlines()
    with closing(Repo.discover(place)) as found, closing(History(found, "memory")) as history:
        touches = history.touches(paths)
    assert len(paths) > 5
    with gitpython.Repo(place) as other:
        for path in paths:
            born = touches[path][-1]
            ours, first = born.commit, list(other.iter_commits(paths=born.path, full_history=True))[-1]
            assert (ours.id, ours.author, ours.at) == (first.hexsha, first.author.name, first.committed_date * 1000), (
                path
            )
            assert list(ours.co_authors) == [f"{one.name} <{one.email}>" for one in first.co_authors], path
