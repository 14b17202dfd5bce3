"""The command line: data goes to stdout, notes and errors to stderr, and every failure has its exit status.

Plain `search`, `status` and `topics` are parsed here, without click; every other command is click's, in the module that
COMMANDS names. Every command that prints data has `--json`, which prints the object that MCP returns.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filemem import VERSION
from filemem.cli import console
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound, refused

EXIT_CODES: Mapping[type[FilememError], int] = {
    BadInput: 2,
    NotFound: 4,
    Conflict: 5,
    Locked: 6,
    BrokenStore: 7,
}
CRASH = 3
_LIVE = 100_000  # objects made before the collector runs; after Python's 700 it runs over imports that stay for good
_COMPLETE = "_FILEMEM_COMPLETE"  # the shell asks click for completions
_LIMIT = ("limit", "[1-9][0-9]{0,2}|1000")
_OPTIONS = {  # of a search: the field, and the form of its value, if it takes one
    **{f"--{name}": (name, "") for name in ("json", "live", "explain", "oneline")},
    "-n": _LIMIT,
    "--limit": _LIMIT,
    "--mode": ("mode", "hybrid|keyword|vector"),
}
_MODULES = {
    "records": "save update edit link resolve forget restore undo adopt renumber get",
    "find": "search history topics checkpoint why brief hook workspace",
    "gate": "diff check",
    "care": "init doctor sync status index completion",
    "serve": "serve web site",
    "transfer": "import export",
    "org": "org",
}
COMMANDS = {
    name: f"filemem.cli.{module}" for module, names in _MODULES.items() for name in names.split()
}
"""Command -> the module that has it under its name; only the one that is called is imported."""

HELP = """\
Usage: filemem [-C DIR] [--store DIR] [--personal] COMMAND [ARGS]...

  Remember what was decided and why, in the project's own Git repository.

  Decisions, checkpoints and observations are Markdown files under memory/; each save is a commit.

Examples:
  filemem save decision --topic caching --decision "Use an LRU cache" --reasoning "One process, no Redis to run"
  filemem search "how do we cache?"
  filemem history caching

Options:
  -C DIR        Work in this folder, as in git -C.
  --store DIR   Folder of records inside the work tree (default: memory, or as configured).
  --personal    Work on your personal memory, which belongs to no project.
  --version     Show the version.
  -h, --help    Show this help; filemem help COMMAND shows that of a command.

Save and change:
  save        Save a decision, checkpoint or observation, and commit it
  update      Record how a decision turned out, or correct a record
  edit        Change a record in your editor
  link        Link a decision to another one
  resolve     End a fork with a decision that replaces all live ones
  forget      Remove a record by a commit
  restore     Bring back a forgotten record
  undo        Take back the last save
  adopt       Write ids into files that have none
  renumber    Give a decision record the next free number

Find:
  search      Find records by meaning and words
  get         Show whole records
  history     Show how a topic was decided
  topics      List the topics, each with its live decision
  checkpoint  Show the latest checkpoint
  why         Show the decisions that govern a file or line
  brief       Show what a session on this branch should know at its start

Review:
  diff        Show what a branch changes in the memory
  check       Report problems with the records

Set up and look after:
  init        Set up a project
  import      Bring in what another system remembers
  export      Write every record as JSON Lines, Markdown or CSV
  sync        Fetch, merge and push the memory
  status      Show how the memory stands, and what to do
  doctor      Check Git, the memory and each coding agent
  index       Update the search index, or rebuild it
  workspace   Register repositories that are asked together
  org         Keep one index of an organisation's repositories, in PostgreSQL
  serve       Serve MCP over stdio
  web         Serve a page for people, and the routes of other systems
  site        Write the page and all records as static files
  hook        Answer an event of a coding agent
  completion  Print the script that completes words in your shell

Other names: show for get, log for history, list for topics, delete for forget.
"""


def main() -> None:
    """Run the command line; map failures to exit codes by EXIT_CODES."""
    gc.set_threshold(_LIVE)
    atexit.register(
        gc.freeze
    )  # else Python looks for garbage in all that was imported before it ends: 8 % of a search
    try:
        code = finished(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        _silence()
        code = 141
    except OSError as error:
        _fail(_unanswered(error) or refused(error), sys.argv)
        code = 0 if sys.argv[1:2] == ["hook"] else EXIT_CODES[BrokenStore]
    except Exception:  # noqa: BLE001  the one place where a defect becomes a report instead of a traceback
        import traceback

        from filemem.errors import crash_report

        path = crash_report(traceback.format_exc(), sys.argv)
        code = (
            0 if sys.argv[1:2] == ["hook"] else CRASH
        )  # an agent must not fail for a defect of ours
        _fail(
            FilememError(
                "a defect in filemem, not in what you did; nothing more was written",
                f"report: {path}",
            ),
            sys.argv,
        )
    sys.exit(code)


def finished(words: Sequence[str]) -> int:
    """Do what the command line asks for, and report failures; return the exit status."""
    try:
        return _run(words)
    except FilememError as error:
        _fail(error, words)
        kinds = (*type(error).__mro__, BrokenStore)
        return next(EXIT_CODES[kind] for kind in kinds if kind in EXIT_CODES)


def _silence() -> None:
    """Write no more to standard output: nobody takes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unanswered(error: OSError) -> FilememError | None:
    """The failure where standard output takes no more: what was asked for is done then."""
    if error.filename:
        return None
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        _silence()
        message = f"standard output: {error.strerror}: the work is done, but the answer is lost"
        return BrokenStore(
            message, "do not repeat a save: `filemem status` and `git log -1` show it"
        )
    return None


def _run(words: Sequence[str]) -> int:
    """Do what the command line asks for; return the exit status."""
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    first = words[0] if words else "-h"
    if first in ("-h", "--help", "help", "--version", "version") and _COMPLETE not in os.environ:
        text = f"filemem {VERSION}\n" if first in ("--version", "version") else HELP
        (sys.stdout if words else sys.stderr).write(text)
        return 0 if words else EXIT_CODES[BadInput]
    if first == "hook" and not {"-h", "--help"} & {
        *words
    }:  # it must not fail for a word that is wrong
        from filemem.agents import hooks

        hooks.run(words[1:], Path())
        return 0
    if first in ("status", "topics", "search") and (given := _plain(words)) is not None:
        from filemem.cli import project  # click takes two interpreters' time

        here, as_json = project.Project(""), given.pop("json", False)
        if first == "search":
            project.search(here, as_json, given)
            return 0
        if not given.pop("query") and not given:
            project.status(here, as_json) if first == "status" else project.perform(
                "topics", here, as_json, {}
            )
            return 0
    from filemem.cli.options import run

    return run(words, COMMANDS, HELP)


def _plain(words: Sequence[str]) -> dict[str, Any] | None:
    """The most frequent options of a search, and its query, as click would read them; None for all else."""
    given: dict[str, Any] = {}
    query, rest = [], iter(words[1:])
    for word in rest:
        name, form = _OPTIONS.get(word, ("", ""))
        if name and form:
            value = next(rest, "")
            if not re.fullmatch(form, value):
                return None
            given[name] = int(value) if name == "limit" else value
        elif name:
            given[name] = True
        elif word.startswith("-"):
            return None
        else:
            query.append(word)
    return {**given, "query": " ".join(query)}


def _fail(error: FilememError, words: Sequence[str]) -> None:
    """Report an error on stderr; with --json also as MCP's object on stdout."""
    from filemem.cli.show import plain, styled

    if "--json" in words:
        from filemem.cli.project import emit
        from filemem.dialects.tool import envelope

        emit(envelope(error), as_json=True)
    err = console.err()
    rows = [(styled("error: ", "bold red", err), plain(error.message, "message"))]
    rows += [(styled("hint: ", "yellow", err), plain(error.hint, "hint"))] if error.hint else []
    err.write("".join(f"{label}{text}\n" for label, text in rows))
