"""Commands that write records: save, update, forget, restore, adopt, resolve; and get, which shows whole ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from filemem.cli import InOrder, Project, as_json, as_of, many, pass_project, perform, stated, words
from filemem.errors import BadInput

Command = Callable[..., Any]

_agent = click.option("--agent", help="Who acts, if it is not you: the agent's name.")
_allow = click.option("--allow-secret", is_flag=True, help="Save although it looks like a secret; the record says so.")

_COMMON = (
    words("--tag", "tags", help="A tag."),
    _agent,
    click.option("--session", help="Name of the session this belongs to."),
    _allow,
)


def _common(command: Command) -> Command:
    for option in reversed(_COMMON):
        command = option(command)
    return command


def _save(project: Project, kind: str, json_wanted: bool, options: dict[str, Any]) -> None:
    from filemem.memory import fields

    given = stated(options)
    if lacking := fields.missing(kind, given):
        told = ", ".join(f"--{name.replace('_', '-')}" for name in lacking)
        raise BadInput(f"missing: {told}", f"filemem save {kind} --help shows what it takes", field=lacking[0])
    perform("save", project, json_wanted, {"type": kind, **given})


@click.group(cls=InOrder)
def save() -> None:
    """Save a decision, checkpoint or observation, and commit it.

    \b
    Example:
      filemem save decision --topic caching --decision "Use an LRU cache" --reasoning "One process, no Redis to run"
    """


@save.command()
@click.option("--topic", help="What it is about; a second decision on a topic supersedes the first.  [required]")
@click.option("--decision", help="What was decided, in one sentence if it can be.  [required]")
@click.option("--reasoning", help="Why.  [required]")
@many("--rejected", help='An alternative and why not: "Keep Redis: one more service to run".')
@click.option("--confidence", type=float, help="How sure, from 0 to 1.")
@click.option("--status", help="proposed, accepted (default), rejected or deprecated.")
@click.option("--outcome", help="pending (default), success, partial or failed.")
@click.option("--limitation", help="Where it does not hold.")
@click.option("--decided-by", help="user or assistant.")
@many("--affects", help="A path or glob of the code it governs, from the top of the work tree.")
@many("--supersedes", help="Id of a decision it replaces (default: the topic's current ones).")
@many("--builds-on", help="Id of a decision it extends.")
@many("--debates", help="Id of a decision it argues against.")
@many("--synthesizes", help="Id of a decision it merges; ends a fork.")
@_common
@as_json
@pass_project
def decision(project: Project, /, as_json: bool, **fields: Any) -> None:
    """Save what was decided and why.

    \b
    Example:
      filemem save decision --topic auth --decision "Use JWT" --reasoning "Stateless" --affects "src/auth/**"
    """
    _save(project, "decision", as_json, fields)


@save.command()
@click.option("--summary", help="Where the work stands: done, and not done.  [required]")
@click.option("--next-steps", help="What to do next.")
@many("--open-files", "--open-file", "open_files", help="A file in hand.")
@click.option("--branch", help="Branch it belongs to (default: the one checked out).")
@_common
@as_json
@pass_project
def checkpoint(project: Project, /, as_json: bool, **fields: Any) -> None:
    """Save where the work stands, for the next session.

    \b
    Example:
      filemem save checkpoint --summary "JWT done, refresh flow open" --next-steps "Rotate tokens"
    """
    _save(project, "checkpoint", as_json, fields)


@save.command()
@click.option("--title", help="One line (default: the first line of the text).")
@click.option("--text", help="What was observed.  [required]")
@click.option("--kind", help="discovery (default), bugfix, feature, refactor, change, decision, memory or context.")
@click.option("--project", "project_name", help="Name of the project it belongs to.")
@many("--fact", "--facts", "facts", help="One fact.")
@words("--concept", "--concepts", "concepts", help="One concept.")
@many("--files-read", help="A file that was read.")
@many("--files-modified", help="A file that was changed.")
@click.option("--visibility", help="private (never committed), department, project or public.")
@_common
@as_json
@pass_project
def observation(project: Project, /, as_json: bool, project_name: str | None, **fields: Any) -> None:
    """Save something learned.

    \b
    Example:
      filemem save observation --title "API limit" --text "The API allows 100 requests a minute" --concept limits
    """
    _save(project, "observation", as_json, {**fields, "project": project_name})


@click.command()
@click.argument("ids", nargs=-1, required=True)
@click.option("--history", is_flag=True, help="Also how each was edited: when, by whom, what changed.")
@as_of
@as_json
@pass_project
def get(project: Project, /, as_json: bool, ids: tuple[str, ...], history: bool, at: str | None) -> None:
    """Show whole records by id, short id, path, title, number or file name.

    \b
    Examples:
      filemem get k3f9w2ma
      filemem get "Use an LRU cache" --history
    """
    perform("get", project, as_json, {"ids": ids, "history": history, "at": at})


@click.command()
@click.argument("id")
@click.option("--outcome", help="What came of it: success, failed, partial or pending.")
@click.option("--reason", help="Why; earlier reasons are kept.")
@click.option("--status", help="proposed, accepted, rejected or deprecated.")
@click.option("--title", help="A new heading.")
@click.option("--text", help="New text below the heading; the old one stays in history.")
@words("--tag", "tags", help="A tag it has from now on; the others go.")
@_agent
@_allow
@as_json
@pass_project
def update(project: Project, /, as_json: bool, id: str, **fields: Any) -> None:  # noqa: A002
    """Record what came of a decision, or correct a record.

    \b
    Example:
      filemem update k3f9w2ma --outcome failed --reason "evicts too early under load"
    """
    perform("update", project, as_json, {"id": id, **fields})


def _forget(project: Project, /, as_json: bool, id: str, **fields: str | None) -> None:  # noqa: A002
    """Remove a record by a commit. Nothing brings it back but filemem restore.

    Neither a merge nor an import revives it: the commit leaves a tombstone, a file named by the hash of the id.
    Git's history keeps the record. For a secret that is not enough: the answer ends with the command that takes it out
    of history, which is yours to decide.

    \b
    Example:
      filemem forget k3f9w2ma --reason "saved twice"
    """
    perform("forget", project, as_json, {"id": id, **fields})


def _forget_command(name: str, *, hidden: bool = False) -> click.Command:
    command: Command = pass_project(_forget)
    command = click.option("--reason", help="Why; it goes into the commit message.")(_agent(as_json(command)))
    return click.command(name, hidden=hidden)(click.argument("id")(command))


forget = _forget_command("forget")
delete = _forget_command("delete", hidden=True)  # the tools' name for the same


@click.command()
@click.argument("id")
@_agent
@as_json
@pass_project
def restore(project: Project, /, as_json: bool, id: str, **fields: str | None) -> None:  # noqa: A002
    """Bring a forgotten or deleted record back. As it last was, by a commit.

    It goes by its id, its short id or the path that it had.

    \b
    Example:
      filemem restore k3f9w2ma
    """
    perform("restore", project, as_json, {"id": id, **fields})


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--was", metavar="OLD", help="The path or id that the file had before it was renamed.")
@as_json
@pass_project
def adopt(project: Project, /, as_json: bool, files: tuple[str, ...], was: str | None) -> None:
    """Write ids into files that have none, by a commit, so that they stay the same records when they are renamed.

    With --was, references to what the one file was known by before lead to it again.

    \b
    Examples:
      filemem adopt docs/adr/*.md
      filemem adopt docs/adr/0032-use-postgres.md --was docs/adr/0032-postgres.md
    """
    perform("adopt", project, as_json, {"files": files, "was": was})


@click.command()
@click.argument("topic")
@click.option("--decision", required=True, help="What holds from now on, in one sentence if it can be.")
@click.option("--reasoning", required=True, help="Why, and what becomes of each side.")
@many("--rejected", help="An alternative and why not.")
@click.option("--confidence", type=float, help="How sure, from 0 to 1.")
@many("--affects", help="A path or glob of the code it governs, from the top of the work tree.")
@words("--tag", "tags", help="A tag.")
@click.option("--agent", help="Who saves, if it is not you: the agent's name.")
@as_json
@pass_project
def resolve(project: Project, /, as_json: bool, topic: str, **fields: Any) -> None:
    """End a fork: save the decision that replaces all that hold on a topic.

    \b
    Example:
      filemem resolve caching --decision "LRU in the process, Redis where shared" --reasoning "Both were right"
    """
    perform("resolve", project, as_json, {"topic": topic, **fields})
