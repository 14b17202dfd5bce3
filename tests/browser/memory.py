"""An invented memory of any size, the same bytes each time: 60 % of its dates lie in 20 % of its years.

`python -m tests.browser.memory FOLDER [COUNT]` makes it by hand.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

PEOPLE = ("Ada Moreau", "Tomas Lindqvist", "Priya Raman", "Jonas Weber", "Mei Tanaka")
FIRST, LAST = datetime(2019, 3, 4, 9, tzinfo=UTC), datetime(2026, 10, 30, 16, tzinfo=UTC)
BUSY = (0.64, 0.84)  # the part of the years with 60 % of the dates
SEED = 22


class Decision(NamedTuple):
    """One decision to write."""

    id: str
    topic: str
    governed: str
    title: str
    when: datetime
    who: str
    old: str  # the id that it replaces
    dropped: str  # an alternative
    status: str
    outcome: str


def decisions(count: int = 210) -> list[Decision]:
    """So many decisions, oldest first: whole chains in the order of `topics.txt`, round and round."""
    chance = random.Random(SEED)
    made: list[Decision] = []
    for topic, governed, titles in _topics():
        whens = sorted(_when(chance.random(), chance.random()) for _ in titles)
        old = before = ""
        for step, (text_, when) in enumerate(zip(titles, whens, strict=True)):
            title = text_.removeprefix("/ ")
            if title != text_:  # another answer to the same predecessor: a fork
                old = before
            if len(made) == count:
                return sorted(made, key=lambda one: (one.when, one.id))
            number = len(made)
            id_ = f"decision_{topic.replace(' ', '_').replace('-', '_')}_{int(when.timestamp() * 1000)}_{number:08d}"
            last, luck = step == len(titles) - 1, chance.random()
            status = (
                "proposed"
                if last and luck < 0.08
                else "rejected"
                if last and luck < 0.12
                else "accepted"
            )
            luck = chance.random() * (1 if last else 0.6)
            outcome = ("failed", "partial", "success", "pending")[
                sum(luck > edge for edge in (0.05, 0.16, 0.55))
            ]
            who = PEOPLE[int(chance.random() * len(PEOPLE))]
            dropped = (
                titles[(step + 1) % len(titles)] if len(titles) > 1 else "Leave it to each team"
            )
            made.append(
                Decision(
                    id_,
                    topic,
                    governed,
                    title,
                    when,
                    who,
                    old,
                    dropped.removeprefix("/ "),
                    status,
                    outcome,
                )
            )
            before, old = old, id_ if status == "accepted" else old
    raise AssertionError("the topics never end")


def _topics() -> Iterator[tuple[str, str, list[str]]]:
    listed = (Path(__file__).parent / "topics.txt").read_text(encoding="utf-8").splitlines()
    for turn in range(1_000):
        for line in listed[1:]:
            topic, governed, chain = (part.strip() for part in line.split("|"))
            more = f" ({turn + 1})" if turn else ""
            yield (
                topic + more,
                governed,
                [title.strip() + more for title in chain.replace(" / ", " > / ").split(" > ")],
            )


def _when(kind: float, place: float) -> datetime:
    low, high = BUSY
    rest = place * (1 - (high - low))
    share = low + place * (high - low) if kind < 0.63 else rest if rest < low else rest + high - low
    return FIRST + timedelta(seconds=int((LAST - FIRST).total_seconds() * share))


def path(one: Decision) -> str:
    """Where its file is."""
    return f"memory/decisions/{one.when:%Y/%m}/{one.topic.replace(' ', '-')}-{one.id[-8:]}.md"


def text(one: Decision) -> str:
    """The file of one decision."""
    head = [
        f"id: {one.id}",
        "type: decision",
        f"topic: {one.topic}",
        f'created: "{one.when:%Y-%m-%dT%H:%M:%S}.000Z"',
    ]
    head += [f"status: {one.status}"] * (one.status != "accepted")
    head += [f"outcome: {one.outcome}"] * (one.outcome != "pending")
    head += [
        f"supersedes: [{one.old}]" if one.old else "supersedes: []",
        f"affects: [{one.governed}/**]",
    ]
    why = (
        f"This settles {one.topic} for {one.governed.split('/')[-1]}. It was measured in a branch for a week, "
        "and costs less to run than what was there before; the team that answers for it agreed."
    )
    return "\n".join(
        (
            "---",
            *head,
            "---",
            f"# {one.title}",
            "",
            why,
            "",
            "## Rejected",
            "",
            f"- {one.dropped}",
            "",
        )
    )


def write(folder: Path, count: int = 210, *, one_commit: bool = False) -> list[Decision]:
    """Make a repository with these decisions, one commit each with its own date, or all in one."""
    made = decisions(count)
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    for key, value in (("name", PEOPLE[0]), ("email", "ada.moreau@example.org")):
        subprocess.run(["git", "-C", str(folder), "config", f"user.{key}", value], check=True)
    stream: list[str] = []
    for place, one in enumerate(made):
        if not one_commit or not place:
            at, name = (
                int((LAST if one_commit else one.when).timestamp()),
                one.who.lower().replace(" ", "."),
            )
            who, subject = (
                f"{one.who} <{name}@example.org> {at} +0000",
                f"decision({one.topic}): {one.title}",
            )
            stream.append(f"commit refs/heads/main\ncommitter {who}\n{_data(subject)}")
        stream.append(f"M 100644 inline {path(one)}\n{_data(text(one))}")
    subprocess.run(
        ["git", "-C", str(folder), "fast-import", "--quiet"],
        input="".join(stream).encode(),
        check=True,
    )
    subprocess.run(["git", "-C", str(folder), "reset", "-q", "--hard"], check=True)
    return made


def _data(text_: str) -> str:
    return f"data {len(text_.encode())}\n{text_}\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 210)
