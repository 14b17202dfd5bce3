"""Commands that find: search, history, topics."""

from __future__ import annotations

from typing import Any

import click

from filemem.cli import Project, as_json, as_of, many, pass_project, perform, words


@click.command()
@click.argument("query", nargs=-1)
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="At most so many.")
@many("--type", "type", help="decision, checkpoint or observation.")
@many("--topic", help="Only decisions on this topic.")
@words("--tag", help="Only records with this tag.")
@many("--outcome", help="Only decisions with this outcome.")
@many("--status", help="Only decisions with this status.")
@many("--agent", help="Only records of this agent.")
@click.option("--since", help="Only from this day on: 2025-11-20, or an age such as 2w.")
@click.option("--until", help="Only up to this day.")
@click.option("--path", help="Only decisions that govern this file; relative to the current folder, as with Git.")
@click.option("--live", is_flag=True, help="Only what holds today.")
@click.option("--mode", type=click.Choice(["hybrid", "keyword", "vector"]), default="hybrid", show_default=True)
@as_of
@as_json
@pass_project
def search(project: Project, /, as_json: bool, query: tuple[str, ...], **options: Any) -> None:
    """Find records by meaning and by words. Without a query, the newest first.

    The query may hold "phrases", -words to leave out, and topic:caching tag:x type:decision outcome:failed
    agent:x status:proposed since:2w until:2025-11-20 path:src/a.py is:live.

    \b
    Examples:
      filemem search "how do we cache?"
      filemem search 'redis -cluster topic:caching is:live'
      filemem search --path src/auth/jwt.ts --live
      filemem search "how do we cache?" --at v1.2
    """
    perform("search", project, as_json, {"query": " ".join(query), **options}, whole=True)


@click.command()
@click.argument("place", metavar="PATH[:LINE[-LAST]]")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="At most so many.")
@as_json
@pass_project
def why(project: Project, as_json: bool, place: str, limit: int) -> None:
    """List the decisions that code rests on. Those that govern the file, that came with it, the nearest in meaning.

    With LINE, what made this line, or those from LINE to LAST. PATH is relative to the current folder, as with Git, or
    to the top of the project if it is only there. A decision is marked if its code changed since it was made, or if
    history speaks against it.

    \b
    Examples:
      filemem why src/cache/lru.py
      filemem why src/cache/lru.py:40
      filemem why src/cache/lru.py:40-60
    """
    perform("why", project, as_json, {"place": place, "limit": limit})


@click.command()
@click.argument("topic_or_id", required=False)
@as_of
@as_json
@pass_project
def history(project: Project, as_json: bool, topic_or_id: str | None, at: str | None) -> None:
    """Show how a topic was decided, oldest first. Who, when, why, and what came of it.

    Takes a topic, or a decision by id, short id, path, title, number or file name. Without one it lists the topics.

    \b
    Examples:
      filemem history
      filemem history caching
      filemem history "Use an LRU cache"
      filemem history caching --at 2025-11-20
    """
    perform("topics" if topic_or_id is None else "history", project, as_json, {"topic_or_id": topic_or_id, "at": at})


@click.command()
@click.argument("word", default="")
@as_of
@as_json
@pass_project
def topics(project: Project, as_json: bool, word: str, at: str | None) -> None:
    """List the topics, each with what holds or why nothing does. Decisions that state no topic follow, by title.

    With WORD only those with it in their name, or in the title of what holds.

    \b
    Example:
      filemem topics auth
    """
    perform("topics", project, as_json, {"prefix": word, "at": at})


@click.command()
@click.option("--branch", help="Of this branch rather than the one checked out.")
@as_of
@as_json
@pass_project
def checkpoint(project: Project, as_json: bool, branch: str | None, at: str | None) -> None:
    """Show the checkpoint to go on from. This branch's and yours first.

    \b
    Example:
      filemem checkpoint
    """
    perform("load_checkpoint", project, as_json, {"branch": branch, "at": at})
