"""Folders of decision records in the words of other teams: `fixtures/teams` holds one file a team.

Lines that begin with `%%` say what is done, in order: `truth` (a table of what holds, what replaced
it, when and by whom), `commit DAY AUTHOR`, `file PATH`, `replace PATH` (text, `=>`, new text),
`move OLD NEW`.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.support import git, make_repo, write

TEAMS = Path(__file__).parents[1] / "fixtures/teams"


class Expected(NamedTuple):
    """What a record's own files say of it; `status` is "-" where only its successor says it."""

    path: str
    status: str  # one of our words, or "?" for a word that nobody knows
    holds: bool
    replaced_by: str  # the number of the successor, or ""
    date: str
    author: str


class Team(NamedTuple):
    """The folder of a team, and what is true there."""

    folder: Path
    store: str
    records: tuple[Expected, ...]


def make_team(name: str, folder: Path) -> Team:
    """Make the repository of a team, with its history."""
    make_repo(folder, commit=False)
    store = ""
    records: tuple[Expected, ...] = ()
    author, day = "", ""
    for step in re.split(r"^%% ", (TEAMS / f"{name}.txt").read_text(), flags=re.M)[1:]:
        first, _, text = step.partition("\n")
        verb, _, words = first.partition(" ")
        if verb == "truth":
            store = words
            records = tuple(_expected(line) for line in text.splitlines())
        elif verb == "commit":
            _commit(folder, day, author)
            day, _, author = words.partition(" ")
        else:
            _change(folder, verb, words, text)
    _commit(folder, day, author)
    return Team(folder, store, records)


def _expected(line: str) -> Expected:
    path, status, holds, replaced_by, date, author = line.split(" | ")
    return Expected(path, status, holds == "holds", replaced_by.strip("-"), date, author)


def _change(folder: Path, verb: str, words: str, text: str) -> None:
    if verb == "file":
        write(folder / words, text)
    elif verb == "replace":
        old, _, new = text.partition("=>\n")
        path = folder / words
        before = path.read_text()
        assert old in before, f"{words}: {old}"
        write(path, before.replace(old, new, 1))
    else:
        old, new = words.split()
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        git(folder, "mv", old, new)


def _commit(folder: Path, day: str, author: str) -> None:
    if not day:
        return
    time = f"{day}T12:00:00Z"
    mail = f"{author.split()[0]}@example.com"
    person = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", author), ("EMAIL", mail), ("DATE", time))
    }
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", f"Change of {day}", input=b"", ok=True, **person)
