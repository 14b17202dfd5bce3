"""The commands by name, and the help of all: nothing of them is imported here, so `--help` pays for no more."""

from __future__ import annotations

from collections.abc import Mapping

_GROUPS: Mapping[str, Mapping[str, str]] = {
    "Save and change:": {
        "save": "records   Save a decision, checkpoint or observation, and commit it",
        "update": "records   Record how a decision turned out, or correct a record",
        "resolve": "records   End a fork with a decision that replaces all live ones",
        "forget": "records   Remove a record by a commit",
        "restore": "records   Bring back a forgotten record",
        "adopt": "records   Write ids into files that have none",
    },
    "Find:": {
        "search": "find      Find records by meaning and words",
        "get": "records   Show whole records",
        "history": "find      Show how a topic was decided",
        "topics": "find      List the topics, each with its live decision",
        "checkpoint": "find      Show the latest checkpoint",
        "why": "find      Show the decisions that govern a file or line",
    },
    "Review:": {
        "diff": "gate      Show what a branch changes in the memory",
        "check": "gate      Report problems with the records",
    },
    "Set up and look after:": {
        "init": "care      Set up a project",
        "sync": "care      Fetch, merge and push the memory",
        "status": "care      Show counts, the index, and what is not committed",
        "index": "care      Update the search index, or rebuild it",
        "watch": "care      Keep the index up to date until interrupted",
        "serve": "web       Serve MCP over stdio or HTTP",
        "web": "web       Serve a page for people, and the routes of other systems",
    },
}
COMMANDS: Mapping[str, str] = {
    name: f"filemem.cli.{line.split()[0]}" for group in _GROUPS.values() for name, line in group.items()
}
"""Command -> the module that has it under its name, in the order of use; only the one that is called is imported."""

_LISTED = "\n\n".join(
    "\n".join((title, *(f"  {name:<12}{line[10:]}" for name, line in group.items())))
    for title, group in _GROUPS.items()
)
HELP = f"""\
Usage: filemem [-C DIR] [--store DIR] COMMAND [ARGS]...

  Remember what was decided and why, in the project's own Git repository.

  Decisions, checkpoints and observations are Markdown files under memory/; each save is a commit.

Examples:
  filemem save decision --topic caching --decision "Use an LRU cache" --reasoning "One process, no Redis to run"
  filemem search "how do we cache?"
  filemem history caching

Options:
  -C DIR        Work in this folder, as in git -C.
  --store DIR   Folder of records inside the work tree (default: memory, or as configured).
  --version     Show the version.
  -h, --help    Show this help; filemem COMMAND --help shows that of a command.

{_LISTED}
"""
