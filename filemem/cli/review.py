"""Commands for reviewing a branch: diff, which says what it does to the memory, and resolve, which ends a fork."""

from __future__ import annotations

from typing import Any

import click

from filemem.cli import Project, as_json, emit, many, pass_project, stated, words


@click.command()
@click.argument("range", default="", metavar="[BASE...HEAD]")
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
@as_json
@pass_project
def diff(project: Project, /, as_json: bool, range: str, form: str) -> None:  # noqa: A002
    """Tell what a branch does to the memory. New, accepted, superseded, outcomes, revised, removed, forked, orphaned.

    Without a range: what is checked out, since it parted from the default branch; where the memory has a branch of its
    own, what sync has not shared yet. BASE alone means BASE...HEAD. BASE..HEAD compares two states as they are; each
    side is a commit, tag, branch or date. What is not committed is not compared.

    \b
    Examples:
      filemem diff
      filemem diff v1.2...HEAD
      filemem diff --format markdown > comment.md
    """
    from filemem.cli import markdown
    from filemem.cli.show import past
    from filemem.dialects import native_calls

    with project.memory() as memory:
        emit(
            native_calls.diff(memory, {"range": range}),
            as_json,
            markdown.comparison if form == "markdown" else past.diff,
        )


@click.command()
@click.argument("topic")
@click.option("--decision", required=True, help="What holds from now on, in one sentence if it can be.")
@click.option("--reasoning", required=True, help="Why, and what becomes of each side.")
@many("--rejected", help="An alternative and why not.")
@click.option("--confidence", type=float, help="How sure, from 0 to 1.")
@many("--affects", help="A path or glob of the code it governs, from the top of the work tree.")
@words("--tag", "tags", help="A tag.")
@click.option("--agent", help="Who saves, where it is not you: the agent's name.")
@as_json
@pass_project
def resolve(project: Project, /, as_json: bool, topic: str, **fields: Any) -> None:
    """End a fork: save the decision that replaces all that hold on a topic.

    \b
    Example:
      filemem resolve caching --decision "LRU in the process, Redis where shared" --reasoning "Both were right"
    """
    from filemem.cli.show import actions
    from filemem.dialects import native_calls

    given = stated(fields)
    with project.memory() as memory:
        if "affects" in given:
            given["affects"] = [project.governed(path, memory.work_tree) for path in given["affects"]]
        emit(native_calls.resolve(memory, {"topic": topic, **given}), as_json, actions.saved)
