"""Commands that write records: save, update, forget, resolve ...; and get, which shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import click

from filemem.cli import console
from filemem.cli.command import tool
from filemem.cli.draft import drafted, filled
from filemem.cli.options import (
    Fields,
    Option,
    agent,
    as_of,
    file,
    many,
    org,
    text,
    words,
)
from filemem.errors import BadInput, NotFound

_text = click.option
_tags = words("--tag", "tags", help="A tag.")
_allow = click.option("--allow-secret", is_flag=True, help="Save text that looks like a secret.")
_common = (_tags, agent, _text("--session", help="Name of the session this belongs to."), _allow)
_about = (
    text("--decision", help="What was decided, in one sentence if possible."),
    text("--reasoning", help="Why."),
    file,
    many("--rejected", help='An alternative and why not: "Keep Redis: one more service to run".'),
    click.option("--confidence", type=float, help="How sure, from 0 to 1."),
    many(
        "--affects",
        help="A path or glob it governs (default: those of what it replaces; none: nothing).",
    ),
)


def _guards(more: str = "") -> tuple[Option, ...]:
    """The options of guards; `more`: what the help of those that state one says besides."""
    return (
        many("--forbid", help=f"A text that no line of the files in --in may contain{more}."),
        many("--require", help=f"A text that each file in --in must contain{more}."),
        words("--in", "within", help="A path or glob for these texts; !GLOB excludes files."),
        words("--forbid-dependency", help=f"A package that no manifest may list{more}."),
    )


def _guarded(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of guards with the field `guards`."""
    within = _parts(fields.pop("within"))
    guards: list[dict[str, object]] = [
        {rule: text, "in": within}
        for rule in ("forbid", "require")
        for text in fields.pop(rule) or ()
    ]
    _refuse_unmatched(within, texts=bool(guards))
    guards += [{"dependency": name} for name in _parts(fields.pop("forbid_dependency"))]
    return {**fields, "guards": guards or None}


def _refuse_unmatched(within: list[str], *, texts: bool) -> None:
    """Refuse texts without files, and files without texts. Raises BadInput."""
    if within and not texts:
        raise BadInput("--in names files for --forbid or --require", "give one of them", "guards")
    if texts and all(glob.startswith("!") for glob in within):
        raise BadInput(
            "--forbid and --require need --in, which names the files", "--in 'src/**'", "guards"
        )


def _parts(text: str | None) -> list[str]:
    """The words of an option that commas separate."""
    return [part for part in map(str.strip, (text or "").split(",")) if part]


class Kinds(click.Group):
    """The kinds of a record; options without one are of a decision."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        option = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["decision", *args] if option else args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of a decision too. See click."""
        self.commands["decision"].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=Kinds)
def save() -> None:
    """Save a decision, checkpoint or observation, and commit it. Without one of these words it is a
    decision.

    Without a text, your editor opens. -F FILE reads the text from a file; for a decision, the first
    line is what was decided and the rest is why.

    \b
    Example:
      filemem save decision --topic caching --decision "Use an LRU cache" --reasoning "One \
process, no Redis to run"
    """


@save.add_command
@tool(
    _text(
        "--topic", help="The one question that this answers; a second decision replaces the first."
    ),
    *_about,
    *_guards(),
    _text("--status", help="proposed, accepted (default), rejected or deprecated."),
    _text("--outcome", help="pending (default), success, partial or failed."),
    _text("--limitation", help="Where it does not hold."),
    _text("--decided-by", help="user or assistant."),
    many("--supersedes", help="Id of a decision it replaces (default: the topic's current ones)."),
    many("--builds-on", help="Id of a decision it extends."),
    many("--debates", help="Id of a decision it argues against."),
    many("--synthesizes", help="Id of a decision it merges; ends a fork."),
    *_common,
    verb="save",
)
def decision(**fields: Any) -> Fields:
    """Save what was decided and why.

    \b
    Example:
      filemem save decision --topic auth --decision "Use JWT" --reasoning "Stateless" --affects \
"src/auth/**"
      filemem save --topic api --decision "No ORM" --reasoning "Slow" --forbid "import orm" --in src
    """
    return {"type": "decision", **filled(_guarded(fields), "reasoning", "decision")}


@save.add_command
@tool(
    text("--summary", help="What is done, and what is not."),
    file,
    text("--next-steps", help="What to do next."),
    many("--open-files", "--open-file", "open_files", help="A file being worked on."),
    _text("--branch", help="Branch it belongs to (default: the one checked out)."),
    *_common,
    verb="save",
)
def checkpoint(**fields: Any) -> Fields:
    """Save where the work stands, for the next session.

    \b
    Example:
      filemem save checkpoint --summary "JWT done, refresh flow open" --next-steps "Rotate tokens"
    """
    return {"type": "checkpoint", **filled(fields, "summary")}


@save.add_command
@tool(
    text("--text", help="What was observed."),
    file,
    _text("--title", help="One line (default: the first line of the text)."),
    _text(
        "--kind",
        help="discovery (default), bugfix, feature, refactor, change, decision, memory or context.",
    ),
    _text("--project", help="Name of the project it belongs to."),
    many("--fact", "--facts", "facts", help="One fact."),
    words("--concept", "--concepts", "concepts", help="One concept."),
    many("--files-read", help="A file that was read."),
    many("--files-modified", help="A file that was changed."),
    _text("--visibility", help="private (never committed), department, project or public."),
    *_common,
    verb="save",
)
def observation(**fields: Any) -> Fields:
    """Save something learned.

    \b
    Example:
      filemem save observation --title "API limit" --text "The API allows 100 requests a minute" \
--concept limits
    """
    return {"type": "observation", **filled(fields, "text", "title")}


@tool(
    click.argument("ids", nargs=-1, required=True),
    click.option(
        "--history",
        is_flag=True,
        help="Show also how each was edited: when, by whom, what changed.",
    ),
    click.option("--web", is_flag=True, help="Print only the address of the record's page."),
    as_of,
    org,
)
def get(web: bool, **fields: Any) -> Fields:
    """Show whole records by id, short id, path, title, number or file name.

    \b
    Examples:
      filemem get k3f9w2ma
      filemem get "Use an LRU cache" --history
      filemem get k3f9w2ma --org
      filemem get --web k3f9w2ma
    """
    if web:
        _print_page(fields["ids"])
    return fields


def _print_page(names: Sequence[str]) -> NoReturn:
    """Print where the page shows a record, and end the command. Raises BadInput, NotFound."""
    if len(names) != 1:
        raise BadInput("the page shows one record", "give one ID", field="ids")
    context = click.get_current_context()
    _, pages = context.obj.page_of(names[0])
    if not pages:
        raise NotFound("no page of this memory is shown now", f"filemem web {names[0]}")
    console.out().write(f"{pages[0]}\n")
    context.exit()


@tool(
    click.argument("id"),
    _text("--outcome", help="How it turned out: success, failed, partial or pending."),
    text("--reason", help="Why; earlier reasons are kept."),
    _text("--status", help="proposed, accepted, rejected or deprecated."),
    _text("--title", help="A new heading."),
    text("--text", help="New text below the heading; the old one stays in history."),
    words("--tag", "tags", help="A tag; replaces those it has."),
    many("--affects", help="A path or glob it governs; replaces the others (none: nothing)."),
    *_guards("; replaces its other guards"),
    agent,
    _allow,
)
def update(**fields: Any) -> Fields:
    """Record how a decision turned out, or correct a record.

    \b
    Example:
      filemem update k3f9w2ma --outcome failed --reason "evicts too early under load"
    """
    return _guarded(fields)


@tool(click.argument("id"))
def edit(id: str) -> Fields:  # noqa: A002  the tools' word
    """Change the file of a record in your editor, the one that git commit opens, and commit it.

    \b
    Example:
      filemem edit k3f9w2ma
    """
    with click.get_current_context().obj.memory() as memory:
        before = (memory.work_tree / memory.get(memory.id_of(id))[0].path).read_bytes()
    return {"id": id, "data": drafted(before), "before": before}


@tool(
    click.argument("id"),
    click.argument("other"),
    click.option(
        "--as",
        "kind",
        type=click.Choice(["builds_on", "debates", "synthesizes"]),
        default="builds_on",
        show_default=True,
        help="Kind of the link.",
    ),
    agent,
    verb="update",
)
def link(kind: str, other: str, **fields: Any) -> Fields:
    """Link a decision to another one. (What a decision supersedes is stated when it is saved.)

    \b
    Example:
      filemem link k3f9w2ma 8m2c0q4t --as builds_on
    """
    return {kind: [other], **fields}


@tool()
def undo() -> Fields:
    """Undo your last save with a new commit; again, the save before it. Refused if the record was
    changed since.

    \b
    Example:
      filemem undo
    """
    return {}


@tool(
    click.argument("id"),
    _text("--reason", help="Why; it goes into the commit message."),
    click.option(
        "--purge-help",
        is_flag=True,
        help="Remove nothing; show how to take it out of Git's history.",
    ),
    agent,
    _allow,
)
def forget(**fields: Any) -> Fields:
    """Remove a record with a commit. Only filemem restore brings it back.

    The commit adds a tombstone, a file named by the hash of the id, so that no merge or import
    revives the record. Git's history keeps the record. For a secret that is not enough:
    --purge-help shows the command that removes it from history too; you run it yourself.

    \b
    Examples:
      filemem forget k3f9w2ma --reason "saved twice"
      filemem forget k3f9w2ma --purge-help
    """
    return fields


@tool(click.argument("id"), agent, _allow)
def restore(**fields: Any) -> Fields:
    """Bring back a forgotten or deleted record, as it last was.

    It takes the same names as forget.

    \b
    Example:
      filemem restore k3f9w2ma
    """
    return fields


@tool(
    click.argument("files", nargs=-1, required=True),
    click.option(
        "--was", metavar="OLD", help="The path or id that the file had before it was renamed."
    ),
)
def adopt(**fields: Any) -> Fields:
    """Write ids into files that have none, so that they stay the same records when they are
    renamed.

    With --was, references to the file's former id or path work again.

    \b
    Examples:
      filemem adopt docs/adr/*.md
      filemem adopt docs/adr/0032-use-postgres.md --was docs/adr/0032-postgres.md
    """
    return fields


@tool(click.argument("file"))
def renumber(**fields: Any) -> Fields:
    """Give a decision record the next free number, as after two branches took the same one.

    Renames the file, changes the number in its heading, and changes links to it in other
    records, by one commit. Other files that name it, such as README.md or records in AsciiDoc,
    are not changed; the answer lists them. FILE is a path, an id, or a number: of two files
    with that number the younger one is meant.

    \b
    Examples:
      filemem renumber 12
      filemem renumber docs/adr/0012-use-nats.md
    """
    return fields


@tool(click.argument("topic"), *_about, _tags, agent)
def resolve(**fields: Any) -> Fields:
    """End a fork: save the decision that replaces all live ones on a topic.

    \b
    Example:
      filemem resolve caching --decision "LRU in the process, Redis where shared" --reasoning \
"Both were right"
    """
    return filled({**fields}, "reasoning", "decision")
