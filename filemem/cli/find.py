"""Commands that find: search, why, history, topics, checkpoint."""

from __future__ import annotations

from typing import Any

import click

from filemem.cli.options import Fields, as_json, as_of, limit, many, oneline, pass_project, tool, words
from filemem.cli.project import Project, one_line, perform
from filemem.cli.project import search as found


@click.command()
@click.argument("query", nargs=-1)
@limit
@many("--type", "type", help="decision, checkpoint or observation.")
@many("--topic", help="Only decisions on this topic.")
@words("--tag", help="Only records with this tag.")
@many("--outcome", help="Only decisions with this outcome.")
@many("--status", help="Only decisions with this status.")
@many("--agent", help="Only records of this agent.")
@click.option("--since", help="Only from this day on: 2025-11-20, or an age such as 2w.")
@click.option("--until", help="Only up to this day.")
@click.option("--path", help="Only decisions that govern this file; relative to the current folder, as with Git.")
@oneline
@click.option("--live", is_flag=True, help="Only live decisions: accepted and not superseded.")
@click.option("--mode", type=click.Choice(["hybrid", "keyword", "vector"]), default="hybrid", show_default=True)
@as_of
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@as_json
@pass_project
def search(project: Project, /, as_json: bool, query: tuple[str, ...], **options: Any) -> None:
    """Find records by meaning and by words. Without a query, the newest first.

    The query may hold "phrases", -words to leave out, and topic:caching tag:x type:decision outcome:failed
    agent:x status:proposed since:2w until:2025-11-20 path:src/a.py is:live. Hits with less than half the score of the
    best are only counted, unless -n or --json is given.

    \b
    Examples:
      filemem search "how do we cache?"
      filemem search 'redis -cluster topic:caching is:live'
      filemem search --path src/auth/jwt.ts --live
      filemem search "how do we cache?" --at v1.2
    """
    how = {name: options.pop(name) for name in ("explain", "oneline")}
    found(project, as_json, {"query": " ".join(query), **options}, every=options["limit"] is not None, **how)


@tool(click.argument("path", metavar="PATH[:LINE[-LAST]]"), limit)
def why(**options: Any) -> Fields:
    """Show the decisions that govern a file or line, then related ones.

    With LINE, those behind this line, or the lines from LINE to LAST. PATH is relative to the current folder, as with
    Git, or to the top of the project if it is only there. A decision is marked if its code changed since it was made,
    or if history speaks against it.

    \b
    Examples:
      filemem why src/cache/lru.py
      filemem why src/cache/lru.py:40
      filemem why src/cache/lru.py:40-60
    """
    return options


@click.command()
@click.argument("topic", required=False, metavar="[TOPIC|ID]")
@as_of
@oneline
@as_json
@pass_project
def history(project: Project, as_json: bool, oneline: bool, topic: str | None, at: str | None) -> None:
    """Show how a topic was decided, oldest first: who, when, why, and what came of it.

    Takes a topic, or a decision by id, short id, path, title, number or file name. Without one it lists the topics.

    \b
    Examples:
      filemem history
      filemem history caching
      filemem history "Use an LRU cache"
      filemem history caching --at 2025-11-20
    """
    shape = one_line if oneline else None
    perform("topics" if topic is None else "history", project, as_json, {"topic": topic, "at": at}, shape)


@tool(click.argument("word", default=""), as_of, oneline)
def topics(word: str, **options: Any) -> Fields:
    """List the topics, each with its live decision. Decisions without a topic follow, by title.

    With WORD only those with it in their name, or in the title of the live decision.

    \b
    Example:
      filemem topics auth
    """
    return {"prefix": word, **options}


@tool(click.option("--branch", help="Of this branch, not the one checked out."), as_of, verb="load_checkpoint")
def checkpoint(**options: Any) -> Fields:
    """Show the latest checkpoint, of this branch and of you first.

    \b
    Example:
      filemem checkpoint
    """
    return options
