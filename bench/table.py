"""What counts as fast, and how what was measured is told: a table for people, an object for programs."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

NEAR = 1.25  # times the aim that still count as near it
STATED_FOR = 10_000  # records that the targets are stated for, where the size matters
OTHERS = {  # most memories are small, and an organisation's index is large
    "wall": 1_000,
    **dict.fromkeys(("org-rate", "org-bytes", "org-ask"), 100_000),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One row of what counts as fast.

    Args:
        what: is measured.
        against: what it is compared with.
        unit: of the value: "x" for a ratio, else added to it.
        hold: the value that must be kept.
        aim: the value that we would like, if any.
        more_is_better: whether the value must be above.
    """

    what: str
    against: str
    unit: str
    hold: float
    aim: float | None = None
    more_is_better: bool = False

    def verdict(self, value: float) -> str:
        """Say how a value stands: misses, holds, near aim, or aim."""
        sign = -1 if self.more_is_better else 1
        if value * sign > self.hold * sign:
            return "misses"
        if self.aim is None:
            return "holds"
        if value * sign <= self.aim * sign:
            return "aim"
        near = self.aim / NEAR if self.more_is_better else self.aim * NEAR
        return "near aim" if value * sign <= near * sign else "holds"

    def limit(self, value: float | None) -> str:
        """Word a limit."""
        if value is None:
            return ""
        return f"{'>=' if self.more_is_better else '<='} {self.show(value)}"

    def show(self, value: float) -> str:
        """Word a value."""
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
        number = f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
        return f"{number}{self.unit}" if self.unit == "x" else f"{number} {self.unit}"


FLAT = 1.25  # what "flat" means

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "save": Target("save acknowledged, p50", "git add + git commit -- path", "x", 0.45, 0.3),
        "save-json": Target(
            "save acknowledged, p50", "one JSON file, written, synced, committed", "x", 0.05
        ),
        "flat": Target("save acknowledged, p50", "our own at 100 records", "x", 2, FLAT),
        "found": Target("saved -> found by the same server", "the save itself", "ms more", 8, 3),
        "found-other": Target(
            "saved -> found by another server", "the save itself", "ms more", 10, 3
        ),
        "held": Target("index.lock held by a save, p50", "", "ms", 25),
        "search": Target("warm hybrid search over MCP, p50", "", "x", 0.05, 0.02),
        "http": Target(
            "warm hybrid search over HTTP, p50",
            "the same over standard input and output",
            "x",
            2,
            1.25,
        ),
        "reindex": Target(
            "full reindex, records per second",
            "reading and parsing the YAML",
            "x",
            0.06,
            0.15,
            True,
        ),
        "catch-up": Target("catch-up after a checkout, all known", "full reindex", "x", 0.3, 0.1),
        "help": Target("--help, processor time", "bare interpreter", "x", 6, 4),
        "completion": Target("completion of a topic, processor time", "bare interpreter", "x", 8),
        "keyword": Target("one-shot keyword search, processor time", "bare interpreter", "x", 8, 6),
        "hybrid": Target("one-shot hybrid search, processor time", "bare interpreter", "x", 14, 10),
        "asked-search": Target(
            "the same, answered by a server that runs", "bare interpreter", "x", 1.5, 1
        ),
        "asked-hook": Target(
            "hook beside a prompt, answered by a server", "bare interpreter", "x", 1.5, 1
        ),
        "brief": Target("brief of a branch, processor time", "bare interpreter", "x", 20, 12),
        "hook": Target("start of a session on it, processor time", "bare interpreter", "x", 20, 12),
        **{
            f"once-{verb}": Target(
                f"one-shot {verb} at 100 records, processor time", "bare interpreter", "x", 8
            )
            for verb in ("status", "topics", "check", "save")
        },
        "lint": Target("check --lint of 5 files, processor time", "bare interpreter", "x", 10),
        "provenance": Target(
            "what Git tells of 10 hits, warm", "the same search without it", "ms more", 5
        ),
        "spawn": Target(
            "MCP spawn -> tools listed, p50", "one tool on the same SDK", "x", 1.2, 0.1
        ),
        "first": Target(
            "MCP spawn -> first search answered, p50",
            "first call of one tool, same SDK",
            "x",
            1.5,
            0.8,
        ),
        "wall": Target(
            "one-shot hybrid search, wall time", "git grep + 25 bare interpreters", "x", 1, 0.6
        ),
        "names": Target("get by file name, warm, p50", "the same at 1,000 records", "x", 2),
        "topics": Target("the list of topics, warm, p50", "the same at 1,000 records", "x", 2),
        "memory": Target(
            "resident memory of an idle server", "one tool on the same SDK", "MB more", 60, 40
        ),
        "growth": Target("growth of .git per 1,000 saves", "", "MB", 10, 4),
        "history": Target("history of a topic", "git log -- its files", "x", 2),
        "table": Target(
            "commit table of 20,000 commits, first load", "git log that prints as much", "x", 3
        ),
        "as-of": Target("first search at a commit", "cat-file --batch and parsing", "x", 5),
        "as-of-again": Target("search at the same commit again", "live search", "x", 1.2),
        "diff": Target("memory diff of a branch", "git diff --raw, reading and parsing", "x", 3),
        "workspace": Target(
            "top 10 of 20 stores asked as one",
            "one store of all, the share in common",
            "",
            0.95,
            0.98,
            True,
        ),
        "workspace-cpu": Target(
            "search of 20 stores, processor time", "one store of all", "x", 3, 1.5
        ),
        "org": Target(
            "top 10 of an organisation's index",
            "one store, the share in common",
            "",
            0.9,
            0.95,
            True,
        ),
        "org-cpu": Target(
            "search of an organisation's index, processor time", "one store of all", "x", 8, 3
        ),
        "org-in": Target(
            "records brought in, processor time", "a local reindex", "x", 0.5, 0.9, True
        ),
        "org-push": Target(
            "push of five -> found by another, processor time", "git push of the same", "x", 1, 0.3
        ),
        "org-hook": Target("git push -> hook -> found by another, p50", "", "s", 2, 1),
        "org-rate": Target("records brought in, wall time", "", "a second", 100, 400, True),
        "org-bytes": Target("bytes a record, with all indexes", "", "kB", 12, 8),
        "org-near": Target("ten nearest, nominated", "an exact search", "", 0.95, 0.98, True),
        "org-ask": Target("answer of the service, p95", "", "s", 2, 0.5),
        "idle": Target("idle server, share of a core", "", "%", 3, 1),
        "search-large": Target(
            "search, processor time, p50", "at a tenth of the records", "x", 2, FLAT
        ),
        "build-large": Target(
            "first build, processor time", "ten at a tenth of the records", "x", 1.5, 1
        ),
        "folders": Target(
            "folder times compared, files by month", "one folder a topic", "x", 0.02, 0.01
        ),
        "split": Target("one entry into a split Git index", "the same, not split", "x", 0.4),
        "tail-save": Target("save, p95", "its own p50", "x", 3, 2),
        "tail-search": Target("warm search, p95", "its own p50", "x", 3, 2),
    }
)
ONCE = frozenset(row for row in TARGETS if row.startswith("once-"))
SIZELESS = ONCE | {
    "help",
    "spawn",
    "flat",
    "org-hook",
    "org-near",
}  # the size is not part of the target


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured.

    Args:
        row: key of TARGETS.
        size: records in the store; 0 where it does not matter.
        value: in the unit of the target.
        ours: what was seen, in words.
        theirs: what it was compared with, in words.
        note: what else to know.
    """

    row: str
    size: int
    value: float
    ours: str
    theirs: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """How it stands; empty at sizes that the target is not stated for."""
        stated = OTHERS.get(self.row, STATED_FOR)
        if self.row not in SIZELESS and self.size != stated:
            return ""
        return TARGETS[self.row].verdict(self.value)


HEADINGS = ("row", "records", "what", "ratio", "hold", "aim", "verdict", "ours", "compared with")


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Order lines as the targets are listed, small stores first."""
    places = list(TARGETS)
    return sorted(lines, key=lambda line: (places.index(line.row), line.size))


def as_text(lines: Sequence[Line]) -> str:
    """Word the table in Markdown, columns aligned for a terminal, notes below."""
    rows = [HEADINGS, *map(_cells, lines)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    shown = ["| " + " | ".join(map(_padded, row, widths)) + " |" for row in rows]
    shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = [f"- {line.row}, {line.size:,}: {line.note}" if line.size else f"- {line.row}: {line.note}"
             for line in lines if line.note]  # fmt: skip
    return "\n".join([*shown, "", *notes]) if notes else "\n".join(shown)


def as_object(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Make plain values of lines, for JSON."""
    return [{**asdict(line), "unit": TARGETS[line.row].unit, "hold": TARGETS[line.row].hold,
             "aim": TARGETS[line.row].aim, "verdict": line.verdict} for line in lines]  # fmt: skip


def _cells(line: Line) -> tuple[str, ...]:
    target = TARGETS[line.row]
    against = (
        f"{target.against}: {line.theirs}"
        if target.against and line.theirs
        else target.against or line.theirs
    )
    size = f"{line.size:,}" if line.size else ""
    limits = (target.limit(target.hold), target.limit(target.aim))
    return (
        line.row,
        size,
        target.what,
        target.show(line.value),
        *limits,
        line.verdict,
        line.ours,
        against,
    )


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
