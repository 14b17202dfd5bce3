"""Commands that find: search, why, history, topics, checkpoint, brief; and hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from filemem.cli import call
from filemem.cli.command import tool_command
from filemem.cli.options import (
    Fields,
    as_of_option,
    json_option,
    limit_option,
    oneline_option,
    org_option,
    pass_project,
    repeatable_option,
    word_list_option,
)
from filemem.cli.project import Project, print_text
from filemem.cli.show import render_oneline
from filemem.cli.workspace import join_workspace
from filemem.errors import BadInput

if TYPE_CHECKING:
    from filemem.memory import Memory

_topic_limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), help="Maximum number of topics (default: 50)."
)


@click.command()
@click.argument("query", nargs=-1)
@limit_option
@repeatable_option("--type", "type", help="decision, checkpoint or observation.")
@repeatable_option("--topic", help="Only decisions on this topic.")
@word_list_option("--tag", help="Only records with this tag.")
@repeatable_option("--outcome", help="Only decisions with this outcome.")
@repeatable_option("--status", help="Only decisions with this status.")
@repeatable_option("--agent", help="Only records of this agent.")
@repeatable_option("--session", help="Only what was saved in this session.")
@repeatable_option("--project", help="Only observations on this project.")
@click.option("--since", help="Only from this day on: 2025-11-20, or an age such as 2w.")
@click.option("--until", help="Only up to this day.")
@click.option(
    "--path",
    help="Only decisions that govern this file; relative to the current folder, as with Git.",
)
@oneline_option
@click.option("--live", is_flag=True, help="Only live decisions: accepted and not superseded.")
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "keyword", "vector"]),
    default="hybrid",
    show_default=True,
)
@as_of_option
@repeatable_option("--also", metavar="PATH", help="Ask the memory of the repository at PATH too.")
@click.option(
    "--workspace", is_flag=True, help="Ask all registered repositories too: filemem workspace."
)
@org_option
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@json_option
@pass_project
def search(project: Project, /, as_json: bool, query: tuple[str, ...], **options: Any) -> None:
    """Find records by meaning and by words. Without a query, the newest first.

    The query may hold "phrases", -words to leave out, and topic:caching tag:x type:decision
    outcome:failed agent:x session:x project:x status:proposed since:2w until:2025-11-20
    path:src/a.py is:live. Hits with less than half the score of the best are only counted, unless
    -n or --json is given.

    \b
    Examples:
      filemem search "how do we cache?"
      filemem search 'redis -cluster topic:caching is:live'
      filemem search --path src/auth/jwt.ts --live
      filemem search "how do we cache?" --at v1.2
      filemem search "how do we cache?" --also ../api
      filemem search "how do others cache?" --org
    """
    other_paths = [project.working_folder / path for path in options.pop("also")]
    include_registered = options.pop("workspace")
    if other_paths or include_registered:

        def join_repositories(memory: Memory) -> None:
            join_workspace(memory, other_paths=other_paths, include_registered=include_registered)

        project.on_open = join_repositories
        options["scope"] = "workspace"
    if options["explain"] and project.service:
        raise BadInput(
            "the organisation's service does not explain scores",
            "leave out --explain or --org",
            field="explain",
        )
    options["query"] = " ".join(query)
    call.run_search(project, as_json, options)


@tool_command(click.argument("path", metavar="PATH[:LINE[-LAST]]"), limit_option)
def why(**options: Any) -> Fields:
    """Show the decisions that govern a file or line, then related ones.

    With LINE, the decisions behind this line, or the lines from LINE to LAST. PATH is relative to
    the current folder, as with Git, or to the top of the project if it exists only there. A
    decision is marked if its code changed since it was made, or if history speaks against it.

    \b
    Examples:
      filemem why src/cache/lru.py
      filemem why src/cache/lru.py:40
      filemem why src/cache/lru.py:40-60
    """
    return options


@click.command()
@click.argument("topic", required=False, metavar="[TOPIC|ID]")
@as_of_option
@oneline_option
@json_option
@pass_project
def history(
    project: Project, as_json: bool, oneline: bool, topic: str | None, at: str | None
) -> None:
    """Show how a topic was decided, oldest first: who, when, why, and what came of it.

    Takes a topic, or a decision by id, short id, path, title, number or file name. Without one it
    lists the topics.

    \b
    Examples:
      filemem history
      filemem history caching
      filemem history "Use an LRU cache"
      filemem history caching --at 2025-11-20
    """
    tool = "topics" if topic is None else "history"
    renderer = render_oneline if oneline else None
    arguments = {"topic": topic, "at": at}
    call.run_tool(tool, project, as_json, arguments, renderer)


@tool_command(click.argument("word", default=""), _topic_limit_option, as_of_option, oneline_option)
def topics(word: str, **options: Any) -> Fields:
    """List the topics, each with its live decision. Decisions without a topic follow, by title.

    With WORD, only topics with it in their name or in the title of their live decision.

    \b
    Example:
      filemem topics auth
    """
    return {"prefix": word, **options}


@tool_command(
    click.option("--branch", help="Of this branch, not the one checked out."),
    as_of_option,
    verb="load_checkpoint",
)
def checkpoint(**options: Any) -> Fields:
    """Show the latest checkpoint, preferring this branch's and yours.

    \b
    Example:
      filemem checkpoint
    """
    return options


@click.command()
@click.option(
    "--budget",
    default=800,
    show_default=True,
    metavar="TOKENS",
    help="Maximum length: 100 to 2000.",
)
@repeatable_option(
    "--path", help="A file that the session will work on, besides those that the branch changed."
)
@json_option
@pass_project
def brief(project: Project, as_json: bool, budget: int, path: tuple[str, ...]) -> None:
    """Show what a session on this branch should know at its start.

    The last checkpoint, the decisions that govern the files that the branch touches, and what the
    default branch has decided on them since. Prints nothing if nothing was saved yet. A record that
    only this branch has is quoted only if it was saved in this clone.

    \b
    Examples:
      filemem brief
      filemem brief --budget 300 --path src/cache/lru.py
    """
    with project.memory(look=False) as memory:
        paths = [project.resolve_path(name, memory.work_tree) for name in path]
        digest = memory.brief(budget, paths=paths)
    if not as_json and not digest.lines:
        return
    lines = [line._asdict() for line in digest.lines]
    print_text({"lines": lines, "text": digest.text}, as_json, digest.text)


@click.command()
@click.argument("event", default="")
@click.option("--client", default="", help="The agent, if the input does not show it.")
@pass_project
def hook(project: Project, event: str, client: str) -> None:
    """Handle a hook event of a coding agent, read as JSON from standard input.

    EVENT is start, prompt-first, prompt, edits, failures, capture or remind; without it, any but
    prompt, capture and remind. The files that `filemem init` writes call this. It always succeeds,
    within two seconds.

    \b
    Example:
      filemem hook start < input.json
    """
    from filemem.agents import hooks

    hooks.run([event, "--client", client], project.folder)
