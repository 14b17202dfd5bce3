"""The commands that write records, such as save, update, forget and resolve; and get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import click

from filemem.cli import console
from filemem.cli.command import tool_command
from filemem.cli.draft import edit_draft, fill_fields
from filemem.cli.options import (
    Fields,
    Option,
    agent_option,
    as_of_option,
    file_option,
    org_option,
    repeatable_option,
    text_option,
    word_list_option,
)
from filemem.errors import BadInput, NotFound

_option = click.option
_tags_option = word_list_option("--tag", "tags", help="A tag.")
_allow_secret_option = click.option(
    "--allow-secret", is_flag=True, help="Save text that looks like a secret."
)
_common_options = (
    _tags_option,
    agent_option,
    _option("--session", help="Name of the session this belongs to."),
    _allow_secret_option,
)
_decision_options = (
    text_option("--decision", help="What was decided, in one sentence if possible."),
    text_option("--reasoning", help="Why."),
    file_option,
    repeatable_option(
        "--rejected", help='An alternative and why not: "Keep Redis: one more service to run".'
    ),
    click.option("--confidence", type=float, help="How sure, from 0 to 1."),
    repeatable_option(
        "--affects",
        help="A path or glob it governs (default: those of what it replaces; none: nothing).",
    ),
)


def _build_guard_options(help_suffix: str = "") -> tuple[Option, ...]:
    """Build the options of guards; `help_suffix` is added to the help of options that state one."""
    return (
        repeatable_option(
            "--forbid", help=f"A text that no line of the files in --in may contain{help_suffix}."
        ),
        repeatable_option(
            "--require", help=f"A text that each file in --in must contain{help_suffix}."
        ),
        word_list_option(
            "--in", "within", help="A path or glob for these texts; !GLOB excludes files."
        ),
        word_list_option(
            "--forbid-dependency", help=f"A package that no manifest may list{help_suffix}."
        ),
    )


def _merge_guards(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace the options of guards with the field `guards`. Raises BadInput."""
    globs = _split_words(fields.pop("within"))
    guards: list[dict[str, object]] = []
    for rule in ("forbid", "require"):
        texts = fields.pop(rule) or ()
        guards += [{rule: text, "in": globs} for text in texts]
    _refuse_unmatched_guards(globs, has_texts=bool(guards))
    packages = _split_words(fields.pop("forbid_dependency"))
    guards += [{"dependency": package} for package in packages]
    fields["guards"] = guards or None
    return fields


def _refuse_unmatched_guards(globs: list[str], *, has_texts: bool) -> None:
    """Raise BadInput for texts without files, and for files without texts."""
    if globs and not has_texts:
        message = "--in names files for --forbid or --require"
        raise BadInput(message, "give one of them", field="guards")
    names_files = any(not glob.startswith("!") for glob in globs)
    if has_texts and not names_files:
        message = "--forbid and --require need --in, which names the files"
        raise BadInput(message, "--in 'src/**'", field="guards")


def _split_words(text: str | None) -> list[str]:
    """Split the value of an option at commas; empty words are left out."""
    parts = (text or "").split(",")
    return [part.strip() for part in parts if part.strip()]


class KindGroup(click.Group):
    """The kinds of records to save; without a kind it is a decision."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the kind before options that come without one. See click."""
        first_word = args[0] if args else ""
        if first_word.startswith("-") and first_word not in ctx.help_option_names:
            args = ["decision", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of a decision too. See click."""
        self.commands["decision"].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=KindGroup)
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
@tool_command(
    _option(
        "--topic", help="The one question that this answers; a second decision replaces the first."
    ),
    *_decision_options,
    *_build_guard_options(),
    _option("--status", help="proposed, accepted (default), rejected or deprecated."),
    _option("--outcome", help="pending (default), success, partial or failed."),
    _option("--limitation", help="Where it does not hold."),
    _option("--decided-by", help="user or assistant."),
    repeatable_option(
        "--supersedes", help="Id of a decision it replaces (default: the topic's current ones)."
    ),
    repeatable_option("--builds-on", help="Id of a decision it extends."),
    repeatable_option("--debates", help="Id of a decision it argues against."),
    repeatable_option("--synthesizes", help="Id of a decision it merges; ends a fork."),
    *_common_options,
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
    arguments = {"type": "decision"}
    arguments.update(fill_fields(_merge_guards(fields), "reasoning", "decision"))
    return arguments


@save.add_command
@tool_command(
    text_option("--summary", help="What is done, and what is not."),
    file_option,
    text_option("--next-steps", help="What to do next."),
    repeatable_option("--open-files", "--open-file", "open_files", help="A file being worked on."),
    _option("--branch", help="Branch it belongs to (default: the one checked out)."),
    *_common_options,
    verb="save",
)
def checkpoint(**fields: Any) -> Fields:
    """Save where the work stands, for the next session.

    \b
    Example:
      filemem save checkpoint --summary "JWT done, refresh flow open" --next-steps "Rotate tokens"
    """
    arguments = {"type": "checkpoint"}
    arguments.update(fill_fields(fields, "summary"))
    return arguments


@save.add_command
@tool_command(
    text_option("--text", help="What was observed."),
    file_option,
    _option("--title", help="One line (default: the first line of the text)."),
    _option(
        "--kind",
        help="discovery (default), bugfix, feature, refactor, change, decision, memory or context.",
    ),
    _option("--project", help="Name of the project it belongs to."),
    repeatable_option("--fact", "--facts", "facts", help="One fact."),
    word_list_option("--concept", "--concepts", "concepts", help="One concept."),
    repeatable_option("--files-read", help="A file that was read."),
    repeatable_option("--files-modified", help="A file that was changed."),
    _option("--visibility", help="private (never committed), department, project or public."),
    *_common_options,
    verb="save",
)
def observation(**fields: Any) -> Fields:
    """Save something learned.

    \b
    Example:
      filemem save observation --title "API limit" --text "The API allows 100 requests a minute" \
--concept limits
    """
    arguments = {"type": "observation"}
    arguments.update(fill_fields(fields, "text", "title"))
    return arguments


@tool_command(
    click.argument("ids", nargs=-1, required=True),
    click.option(
        "--history",
        is_flag=True,
        help="Show also how each was edited: when, by whom, what changed.",
    ),
    click.option("--web", is_flag=True, help="Print only the address of the record's page."),
    as_of_option,
    org_option,
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
    """Print the address of a record on the page, and exit. Raises BadInput, NotFound."""
    if len(names) != 1:
        raise BadInput("the page shows one record", "give one ID", field="ids")
    context = click.get_current_context()
    _, pages = context.obj.find_pages(names[0])
    if not pages:
        raise NotFound("no page of this memory is shown now", f"filemem web {names[0]}")
    console.get_output().write(f"{pages[0]}\n")
    context.exit()


@tool_command(
    click.argument("id"),
    _option("--outcome", help="How it turned out: success, failed, partial or pending."),
    text_option("--reason", help="Why; earlier reasons are kept."),
    _option("--status", help="proposed, accepted, rejected or deprecated."),
    _option("--title", help="A new heading."),
    text_option("--text", help="New text below the heading; the old one stays in history."),
    word_list_option("--tag", "tags", help="A tag; replaces those it has."),
    repeatable_option(
        "--affects", help="A path or glob it governs; replaces the others (none: nothing)."
    ),
    *_build_guard_options("; replaces its other guards"),
    agent_option,
    _allow_secret_option,
)
def update(**fields: Any) -> Fields:
    """Record how a decision turned out, or correct a record.

    \b
    Example:
      filemem update k3f9w2ma --outcome failed --reason "evicts too early under load"
    """
    return _merge_guards(fields)


@tool_command(click.argument("id"))
def edit(id: str) -> Fields:  # noqa: A002  the tools' word
    """Change the file of a record in your editor, the one that git commit opens, and commit it.

    \b
    Example:
      filemem edit k3f9w2ma
    """
    project = click.get_current_context().obj
    with project.memory() as memory:
        record_id = memory.resolve_id(id)
        hit = memory.get(record_id)[0]
        old_data = (memory.work_tree / hit.path).read_bytes()
    return {"id": id, "data": edit_draft(old_data), "before": old_data}


@tool_command(
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
    agent_option,
    verb="update",
)
def link(kind: str, other: str, **fields: Any) -> Fields:
    """Link a decision to another one. (What a decision supersedes is stated when it is saved.)

    \b
    Example:
      filemem link k3f9w2ma 8m2c0q4t --as builds_on
    """
    fields[kind] = [other]
    return fields


@tool_command()
def undo() -> Fields:
    """Undo your last save with a new commit; again, the save before it. Refused if the record was
    changed since.

    \b
    Example:
      filemem undo
    """
    return {}


@tool_command(
    click.argument("id"),
    _option("--reason", help="Why; it goes into the commit message."),
    click.option(
        "--purge-help",
        is_flag=True,
        help="Remove nothing; show how to take it out of Git's history.",
    ),
    agent_option,
    _allow_secret_option,
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


@tool_command(click.argument("id"), agent_option, _allow_secret_option)
def restore(**fields: Any) -> Fields:
    """Bring back a forgotten or deleted record, as it last was.

    It takes the same names as forget.

    \b
    Example:
      filemem restore k3f9w2ma
    """
    return fields


@tool_command(
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


@tool_command(click.argument("file"))
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


@tool_command(click.argument("topic"), *_decision_options, _tags_option, agent_option)
def resolve(**fields: Any) -> Fields:
    """End a fork: save the decision that replaces all live ones on a topic.

    \b
    Example:
      filemem resolve caching --decision "LRU in the process, Redis where shared" --reasoning \
"Both were right"
    """
    return fill_fields(fields, "reasoning", "decision")
