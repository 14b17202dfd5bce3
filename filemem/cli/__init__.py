"""The command line: answers go to stdout, notes and errors to stderr.

Every kind of failure has an exit status. Every command that prints data has `--json`, which prints
the object that MCP returns. Plain `search`, `status` and `topics` are parsed here, without click;
click parses all other commands, in the modules that COMMANDS names.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filemem import VERSION
from filemem.ask import BROKEN_PIPE
from filemem.errors import (
    BadInput,
    BrokenStore,
    Conflict,
    FilememError,
    Locked,
    NotFound,
    to_broken_store,
    write_crash_report,
)

EXIT_CODES: Mapping[type[FilememError], int] = {
    BadInput: 2,
    NotFound: 4,
    Conflict: 5,
    Locked: 6,
    BrokenStore: 7,
}
CRASH = 3
_GC_THRESHOLD = 100_000  # objects; with Python's 700 the collector would run during imports
_COMPLETE = "_FILEMEM_COMPLETE"  # set in the environment when the shell asks for completions
_HELP_OPTIONS = frozenset(("-h", "--help"))
_HELP_WORDS = ("-h", "--help", "help", "--version", "version")
_WITHOUT_CLICK = ("search", "status", "topics")


class _Option(NamedTuple):
    """An option of a search: its field, and the pattern of its value if it takes one."""

    field: str
    pattern: str = ""


_OPTIONS = {
    "--json": _Option("json"),
    "--live": _Option("live"),
    "--explain": _Option("explain"),
    "--oneline": _Option("oneline"),
    "-n": _Option("limit", "[1-9][0-9]{0,2}|1000"),
    "--limit": _Option("limit", "[1-9][0-9]{0,2}|1000"),
    "--mode": _Option("mode", "hybrid|keyword|vector"),
}
COMMANDS: Mapping[str, str] = {
    "save": "filemem.cli.records",
    "update": "filemem.cli.records",
    "edit": "filemem.cli.records",
    "link": "filemem.cli.records",
    "resolve": "filemem.cli.records",
    "forget": "filemem.cli.records",
    "restore": "filemem.cli.records",
    "undo": "filemem.cli.records",
    "adopt": "filemem.cli.records",
    "renumber": "filemem.cli.records",
    "get": "filemem.cli.records",
    "search": "filemem.cli.find",
    "history": "filemem.cli.find",
    "topics": "filemem.cli.find",
    "checkpoint": "filemem.cli.find",
    "why": "filemem.cli.find",
    "brief": "filemem.cli.find",
    "hook": "filemem.cli.find",
    "workspace": "filemem.cli.workspace",
    "diff": "filemem.cli.gate",
    "check": "filemem.cli.gate",
    "init": "filemem.cli.setup",
    "doctor": "filemem.cli.setup",
    "sync": "filemem.cli.care",
    "status": "filemem.cli.care",
    "index": "filemem.cli.care",
    "completion": "filemem.cli.care",
    "serve": "filemem.cli.serve",
    "web": "filemem.cli.web",
    "site": "filemem.cli.site",
    "import": "filemem.cli.ingest",
    "export": "filemem.cli.export",
    "org": "filemem.cli.org",
}
"""Command -> its module, which defines it under its name (`import_` for `import`)."""

HELP = """\
Usage: filemem [-C DIR] [--store DIR] [--personal] COMMAND [ARGS]...

  Remember what was decided and why, in the project's own Git repository.

  Decisions, checkpoints and observations are Markdown files under memory/; each save is a commit.

Examples:
  filemem save decision --topic caching --decision "Use an LRU cache" \
--reasoning "One process, no Redis to run"
  filemem search "how do we cache?"
  filemem history caching

Options:
  -C DIR        Work in this folder, as in git -C.
  --store DIR   Folder of records inside the work tree (default: memory, or as configured).
  --personal    Work on your personal memory, which belongs to no project.
  --version     Show the version.
  -h, --help    Show this help; filemem help COMMAND shows the help of a command.

Save and change:
  save        Save a decision, checkpoint or observation, and commit it
  update      Record how a decision turned out, or correct a record
  edit        Change a record in your editor
  link        Link a decision to another one
  resolve     End a fork with a decision that replaces all live ones
  forget      Remove a record with a commit
  restore     Bring back a forgotten record
  undo        Undo the last save
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

Set up and maintain:
  init        Set up a project
  import      Import memories from another system
  export      Write every record as JSON Lines, Markdown or CSV
  sync        Fetch, merge and push the memory
  status      Show the state of the memory, and what to do
  doctor      Check Git, the memory and each coding agent
  index       Update the search index, or rebuild it
  workspace   Register repositories to search together
  org         Keep one index of an organisation's repositories, in PostgreSQL
  serve       Serve MCP over stdio
  web         Serve a page for people, and the routes of other systems
  site        Write the page and all records as static files
  hook        Handle a hook event of a coding agent
  completion  Print the shell completion script

Other names: show for get, log for history, list for topics, delete for forget.
"""


def main() -> None:
    """Run the command line; map failures to exit codes by EXIT_CODES."""
    gc.set_threshold(_GC_THRESHOLD)
    # Otherwise Python collects garbage in all imports before it exits: 8 % of a search.
    atexit.register(gc.freeze)
    try:
        code = run_command(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        _silence_output()
        code = BROKEN_PIPE
    except OSError as error:
        failure = _probe_output(error) or to_broken_store(error)
        _report_error(failure, sys.argv)
        code = _normalize_exit_code(EXIT_CODES[BrokenStore])
    except Exception:  # noqa: BLE001  a defect becomes a report
        _report_crash()
        code = _normalize_exit_code(CRASH)
    sys.exit(code)


def _report_crash() -> None:
    """Write a report of the exception that is being handled, and name its file."""
    import traceback

    path = write_crash_report(traceback.format_exc(), sys.argv)
    message = "a defect in filemem, not in what you did; nothing more was written"
    _report_error(FilememError(message, f"report: {path}"), sys.argv)


def _normalize_exit_code(code: int) -> int:
    """Return 0 for a hook, whatever happened: an agent must not fail because filemem does."""
    if sys.argv[1:2] == ["hook"]:
        return 0
    return code


def run_command(words: Sequence[str]) -> int:
    """Run the command line, and report failures; return the exit status."""
    try:
        return _run(words)
    except FilememError as error:
        _report_error(error, words)
        return _find_exit_code(error)


def _find_exit_code(error: FilememError) -> int:
    """Return the exit status of the nearest class of an error."""
    for error_class in type(error).__mro__:
        if error_class in EXIT_CODES:
            return EXIT_CODES[error_class]
    return EXIT_CODES[BrokenStore]


def _silence_output() -> None:
    """Send standard output to the null device: nothing reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _probe_output(error: OSError) -> FilememError | None:
    """Return the failure of standard output; None if something else has failed.

    The command has done its work by then. Writes an empty line to find out.
    """
    if error.filename:
        return None
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        _silence_output()
        message = f"standard output: {error.strerror}: the work is done, but the answer is lost"
        return BrokenStore(
            message, "do not repeat a save: `filemem status` and `git log -1` show it"
        )
    return None


def _run(words: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    command = words[0] if words else "help"
    if command in _HELP_WORDS and _COMPLETE not in os.environ:
        return _print_help(words)
    wants_help = not _HELP_OPTIONS.isdisjoint(words)
    if command == "hook" and not wants_help:  # not by click: a wrong option must not make it fail
        from filemem.agents import hooks

        hooks.run(words[1:], Path())
        return 0
    if command in _WITHOUT_CLICK and _run_without_click(words):
        return 0
    from filemem.cli.group import run

    return run(words, COMMANDS, HELP)


def _print_help(words: Sequence[str]) -> int:
    """Print the help or the version; without any word that is an error, and goes to stderr."""
    if not words:
        sys.stderr.write(HELP)
        return EXIT_CODES[BadInput]
    if "version" in words[0]:
        sys.stdout.write(f"filemem {VERSION}\n")
    else:
        sys.stdout.write(HELP)
    return 0


def _run_without_click(words: Sequence[str]) -> bool:
    """Run a plain search, status or topics. False if click must parse it, which takes 60 ms."""
    options = _parse_plain_options(words[1:])
    if options is None:
        return False
    from filemem.cli import call

    return call.run_plain(words[0], options)


def _parse_plain_options(words: Sequence[str]) -> dict[str, Any] | None:
    """Parse the most frequent options of a search, and its query; None for any other option."""
    options: dict[str, Any] = {}
    query: list[str] = []
    remaining_words = list(words)
    while remaining_words:
        word = remaining_words.pop(0)
        option = _OPTIONS.get(word)
        if option is None and word.startswith("-"):
            return None
        if option is None:
            query.append(word)
        elif not option.pattern:
            options[option.field] = True
        elif remaining_words and re.fullmatch(option.pattern, remaining_words[0]):
            options[option.field] = remaining_words.pop(0)
        else:
            return None
    if "limit" in options:
        options["limit"] = int(options["limit"])
    options["query"] = " ".join(query)
    return options


def _report_error(error: FilememError, words: Sequence[str]) -> None:
    """Report an error on stderr; with --json also as MCP's object on stdout."""
    from filemem.cli.project import report_error

    report_error(error, as_json="--json" in words)
