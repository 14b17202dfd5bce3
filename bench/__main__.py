"""`python -m bench`: measures what bench/figures.md tells of, each row with its comparison in the same run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from bench import (
    governing,
    huge,
    indexing,
    locks,
    organisation,
    past,
    pushing,
    saving,
    scale,
    searching,
    starting,
)
from bench.measure import Surroundings, clean_surroundings
from bench.stores import Stores
from bench.table import ONCE, TARGETS, Line, as_object, as_text, in_order

SIZES = (100, 1_000, 10_000)
HUGE = 100_000
HUGE_ORG = (100_000, 500_000)  # of an organisation
HUGE_ROWS = frozenset({"org-rate", "org-bytes", "org-near", "org-ask"})
LARGE = frozenset({"search-large", "build-large", "idle", "folders", "split"})
ENTRIES = (1_000, 10_000, 100_000)  # of the user's index


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that one measurement yields."""

    rows: frozenset[str]
    measure: Callable[[], Iterator[Line]]


def groups(
    surroundings: Surroundings, stores: Stores, sizes: list[int], more: list[int], org: list[int]
) -> list[Group]:
    """Say what is measured, in this order: first what leaves the stores as they are.

    `more`, `org`: further sizes, and those of an organisation's index.
    """
    largest = max(sizes)
    return [
        Group(frozenset({"help"}), partial(starting.measure_help, surroundings)),
        Group(frozenset({"spawn"}), partial(starting.measure_spawn, stores, min(sizes))),
        Group(
            frozenset({"search", "tail-search"}), partial(searching.measure, stores, sizes + more)
        ),
        Group(frozenset({"http"}), partial(searching.measure_http, stores, largest)),
        Group(frozenset({"keyword"}), partial(starting.measure_one_shot, stores, sizes, "keyword")),
        Group(frozenset({"hybrid"}), partial(starting.measure_one_shot, stores, sizes, "hybrid")),
        Group(
            frozenset({"asked-search", "asked-hook"}),
            partial(starting.measure_asked, stores, sizes),
        ),
        Group(frozenset({"completion"}), partial(starting.measure_completion, stores, sizes)),
        Group(frozenset({"brief", "hook"}), partial(starting.measure_brief, stores, sizes)),
        *(
            Group(frozenset({row}), partial(starting.measure_command, stores, min(sizes), row))
            for row in sorted(ONCE)
        ),
        Group(frozenset({"first"}), partial(starting.measure_first, stores, sizes)),
        Group(frozenset({"wall"}), partial(starting.measure_wall, stores, sizes)),
        Group(frozenset({"names", "topics"}), partial(searching.measure_growth, stores, sizes)),
        Group(frozenset({"lint"}), partial(governing.measure_lint, stores, largest)),
        Group(frozenset({"provenance"}), partial(governing.measure_provenance, stores, largest)),
        Group(frozenset({"memory"}), partial(starting.measure_memory, stores, largest)),
        Group(
            frozenset({"save", "save-json", "flat", "found", "found-other", "tail-save"}),
            partial(saving.measure, stores, sizes),
        ),
        Group(frozenset({"growth"}), partial(saving.measure_growth, stores, largest)),
        *(
            Group(frozenset({"held"}), partial(locks.measure_held, surroundings, size))
            for size in ENTRIES
        ),
        Group(frozenset({"table"}), partial(locks.measure_table, surroundings)),
        Group(
            frozenset({"history", "as-of", "as-of-again", "diff"}),
            partial(past.measure, surroundings, largest),
        ),
        Group(
            frozenset({"workspace", "workspace-cpu"}),
            partial(scale.measure_workspace, stores, largest),
        ),
        Group(
            frozenset({"org", "org-in", "org-push"}),
            partial(organisation.measure, stores, largest, 20),
        ),
        Group(frozenset({"org-hook"}), partial(pushing.measure, stores, min(sizes))),
        *(Group(HUGE_ROWS, partial(huge.measure, surroundings, size)) for size in org),
        *(
            Group(frozenset({"org-cpu"}), partial(organisation.measure, stores, size, 200))
            for size in more
        ),
        *(
            Group(LARGE, partial(scale.measure_large, stores, size // scale.TENTH, size))
            for size in more
        ),
        *(
            Group(frozenset({"reindex", "catch-up"}), partial(indexing.measure, stores, size))
            for size in [largest, *more]
        ),
    ]


def _sizes(_ctx: click.Context, _param: click.Parameter, value: str) -> list[int]:
    try:
        sizes = sorted({int(part) for part in value.split(",")})
    except ValueError:
        raise click.BadParameter(
            "takes numbers with commas between them, for example 100,1000"
        ) from None
    if sizes[0] < 10:
        raise click.BadParameter("a store of fewer than 10 records says nothing")
    return sizes


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--sizes",
    callback=_sizes,
    default=",".join(map(str, SIZES)),
    show_default=True,
    help="Records.",
)
@click.option(
    "--only",
    type=click.Choice(list(TARGETS)),
    multiple=True,
    help="Only this row; may be repeated.",
)
@click.option(
    "--org-sizes",
    callback=_sizes,
    default=",".join(map(str, HUGE_ORG)),
    show_default=True,
    help="With --huge: records of an organisation's index.",
)
@click.option("--huge", is_flag=True, help=f"At {HUGE:,} records too, where that matters.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write what was seen to this file too.",
)
def main(
    sizes: list[int],
    only: tuple[str, ...],
    huge: bool,
    org_sizes: list[int],
    json_file: Path | None,
) -> None:
    """Measure filemem beside what it is compared with, and print the table.

    \b
    Examples:
      python -m bench
      python -m bench --sizes 100,1000 --only save --only search
    """
    began = time.monotonic()
    wanted = frozenset(only or TARGETS)
    folder = Path(tempfile.mkdtemp(prefix="filemem-bench-"))
    lines: list[Line] = []
    try:
        surroundings = clean_surroundings(folder)
        more = ([HUGE], org_sizes) if huge else ([], [])
        for group in groups(surroundings, Stores(surroundings, _say), sizes, *more):
            if rows := group.rows & wanted:
                _say(
                    f"{time.monotonic() - began:.0f} s: measuring {', '.join(row for row in TARGETS if row in rows)}"
                )
                lines += [line for line in group.measure() if line.row in rows]
    finally:  # what was measured before a failure took minutes, too
        shutil.rmtree(folder, ignore_errors=True)
        lines = in_order(lines)
        click.echo(as_text(lines))
    load = os.getloadavg()[0]
    _say(
        f"{time.monotonic() - began:.0f} s; load of the last minute {load:.1f} on {os.cpu_count()} cores"
    )
    if json_file:
        about = {
            "python": sys.version.split()[0],
            "cores": os.cpu_count(),
            "load": load,
            "lines": as_object(lines),
        }
        json_file.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    click.echo(click.style(f"bench: {text}", dim=True), err=True)


if __name__ == "__main__":
    main()
