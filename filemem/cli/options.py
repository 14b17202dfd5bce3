"""Building blocks of commands: click's groups and options, and `tool`, for a command that is a native tool."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem import config
from filemem.cli import console
from filemem.cli.project import Answer, Project, one_line, perform
from filemem.errors import BadInput

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Fields = Mapping[str, Any]
Option = Callable[[Any], Any]
COMPLETE = "_FILEMEM_COMPLETE"  # how a shell asks for completions
ALIASES = {"show": "get", "log": "history", "list": "topics", "delete": "forget"}
_IDS = frozenset(("id", "ids", "other", "supersedes", "builds_on", "debates", "synthesizes"))
_FILES = frozenset(
    (
        "affects",
        "file",
        "files",
        "files_modified",
        "files_read",
        "open_files",
        "path",
        "paths",
        "was",
    )
)
_TOPICS = frozenset(("topic", "word"))
_PLAIN = r"(?!-)[\w./@+\-\u0300-\U0010ffff]+"  # what no shell takes for more than a word
_OURS = r"\d{8}-([^/]*)-([0-9a-z]{8})\.md$"  # how a file of ours ends: day, title, short id
_LONG = 20  # bytes from which on the topic in a file's name may be cut
_HEAD = 4096  # bytes of a file in which its topic stands
_MOST = 200  # words that are shown
_CUT = "------------------------ >8 ------------------------"  # Git's own line: what stands below is no text
_DRAFT = "filemem.draft"  # the key under which click keeps the file that was open in the editor

pass_project = click.make_pass_decorator(Project)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)
as_of = click.option(
    "--at", metavar="REV|DATE", help="As it was at this commit, tag, branch or date."
)
limit = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), help="Maximum number of results (default: 10)."
)
oneline = click.option(
    "--oneline", is_flag=True, help="One line each: short id, date, title, topic."
)
org = click.option(
    "--org",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, given: _ask_service(context.obj) if given else None,
    help="Ask your organisation's index instead: docs/organisation.md.",
)
agent = click.option("--agent", help="Who acts, if it is not you: the agent's name.")


def _ask_service(project: Project) -> None:
    from filemem.cli.organisation import service

    project.service = service(project)


def many(*names: str, help: str, **more: Any) -> Option:  # noqa: A002  click's word
    """An option that may be repeated; its help says so."""
    return click.option(*names, multiple=True, help=f"{help} May be repeated.", **more)


def words(*names: str, help: str) -> Option:  # noqa: A002  click's word
    """An option of words, which commas separate; it may be repeated."""
    joined = lambda _context, _option, given: ",".join(given) or None  # noqa: E731
    return click.option(
        *names, multiple=True, callback=joined, help=f"{help} Commas separate. May be repeated."
    )


def _content(ctx: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """The content of a file, or of standard input for "-". Raises BadInput."""
    if name is None:
        return None
    try:
        data = sys.stdin.buffer.read() if name == "-" else (ctx.obj.here / name).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{name} cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}"
        ) from None


def text(*names: str, help: str) -> Option:  # noqa: A002  click's word
    """An option for a long text; "-" reads it from standard input."""
    taken = lambda ctx, option, given: _content(ctx, option, given) if given == "-" else given  # noqa: E731
    return click.option(*names, callback=taken, help=f'{help} "-" reads standard input.')


file = click.option(
    "-F",
    "file",
    metavar="FILE",
    callback=_content,
    help='Take the text from a file; "-" is standard input.',
)


def drafted(text: bytes, field: str = "text") -> bytes:
    """Let the user edit a text in their editor; the draft is kept until the command has succeeded."""
    from filemem.repo import Repo

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            f"no {field} is given, and there is no terminal for an editor",
            "-F FILE gives it too",
            field,
        )
    context = click.get_current_context()
    with closing(
        Repo.discover(context.obj.folder)
    ) as repo:  # a repository alone cannot name the program
        editor = (
            repo.environment.get("GIT_EDITOR")
            or repo.settings.text("core.editor", user_only=True)
            or None
        )
    import tempfile  # no other command needs it

    repo.private.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".md", "draft-", repo.private)
    os.close(handle)
    draft = context.meta[_DRAFT] = Path(name)
    draft.write_bytes(text)
    sys.stderr.write(f"waiting for your editor; the text is in {draft}\n")
    click.edit(filename=str(draft), editor=editor)
    now: bytes = draft.read_bytes()
    if now == text or not now.partition(b"\n" + _CUT.encode())[0].strip():
        draft.unlink()
        sys.stderr.write("nothing was saved: the text is empty or unchanged\n")
        raise click.exceptions.Exit(1)
    return now


def filled(given: Mapping[str, Any], name: str, heading: str = "") -> Fields:
    """The fields of a save; a missing text comes from -F or from the editor, the heading in its first line."""
    fields = {**given}
    whole = fields.pop("file")
    if whole is None and fields[name] is not None:
        return fields
    if fields[name] is not None:
        raise BadInput(f"-F and --{name} both give the {name}", "use one of them", field=name)
    if whole is None:
        topic = "" if fields.get("topic", "") is not None else "Topic: \n"
        heads = heading and not fields[heading]
        told = (
            f"Write the {heading} in the first line, the {name} below it."
            if heads
            else f"Write the {name}."
        )
        template = f"{topic}\n\n{_CUT}\nEverything below this line is ignored. {told} An empty text saves nothing.\n"
        draft = drafted(template.encode(), heading if heads else name)
        whole = draft.decode(errors="replace").partition(f"\n{_CUT}")[0]
    body = whole.strip()
    if fields.get("topic", "") is None and (found := re.match(r"(?i)topic:[ \t]*(.*)", body)):
        fields["topic"], body = found[1], body[found.end() :].strip()
    marked, body = body.startswith("# "), body.removeprefix("# ")
    if heading and not fields[heading] and (marked or heading == "decision"):
        fields[heading], _, body = map(str.strip, body.partition("\n"))
    return {**fields, name: body}


def tool(
    *options: Option, verb: str = "", left: Callable[[Answer], object] | None = None
) -> Callable[[Callable[..., Fields]], click.Command]:
    """Make a command of a function that turns options into the arguments of the native tool of its name.

    `verb`: the tool's name, if it is not the function's; `left`: whether an answer leaves something to the user;
    then the exit status is 1.
    """

    def command(arguments: Callable[..., Fields]) -> click.Command:
        @click.pass_context
        def run(context: click.Context, /, as_json: bool, **given: Any) -> None:
            shape = one_line if given.pop("oneline", False) else None
            if verb == "save" and context.obj.personal:
                from filemem.agents.init import begin

                if begin(folder := config.personal_folder()):
                    sys.stderr.write(
                        f"filemem: your personal memory is {folder}, a Git repository\n"
                    )
            answer = perform(
                verb or arguments.__name__, context.obj, as_json, arguments(**given), shape
            )
            if _DRAFT in context.meta:
                context.meta[_DRAFT].unlink()
            context.exit(1 if left and left(answer) else 0)

        made: Any = run
        for option in reversed((*options, as_json)):
            made = option(made)
        return click.command(arguments.__name__, help=arguments.__doc__)(made)

    return command


class Commands(click.Group):
    """All commands, each imported from its module in `modules` at first use; `page` is their help."""

    def __init__(self, modules: Mapping[str, str], page: str) -> None:
        personal = click.Option(["--personal"], is_flag=True)
        options = [click.Option(["-C", "folder"], default=""), click.Option(["--store"]), personal]
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__("filemem", params=options, callback=_begin, context_settings=settings)
        self.modules, self.page = modules, page
        # The names that click suggests.
        self.commands = dict.fromkeys((*modules, *ALIASES, "help", "version"), click.Command(None))

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_help(self, _ctx: click.Context) -> str:
        return self.page.rstrip()

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        found: click.Command | None = (
            getattr(import_module(self.modules[name]), name) if name in self.modules else None
        )
        if found and COMPLETE in os.environ:
            for each in (found, *getattr(found, "commands", {}).values()):
                for one in each.params:
                    one.type = (
                        Value() if type(one.type) is click.types.StringParamType else one.type
                    )
        return found


@click.pass_context
def _begin(ctx: click.Context, folder: str, store: str | None, personal: bool) -> None:
    ctx.obj = Project(folder, store, personal=personal)


def run(words: Sequence[str], modules: Mapping[str, str], page: str) -> int:
    """Parse the command line with click and run the command; return the exit status."""
    try:
        code = Commands(modules, page).main(list(words), prog_name="filemem", standalone_mode=False)
    except click.Abort:  # what click makes of Ctrl-C
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        console.err().write(f"{error.format_message()}\n")
        return error.exit_code
    except click.ClickException as error:
        named = " ".join(
            ("filemem", *[word for word in words if word in modules][:1])
        )  # click names it not always
        field = (
            (error.param.name or "")
            if isinstance(error, click.BadParameter) and error.param
            else ""
        )
        raise BadInput(
            error.format_message(), f"{named} --help shows what it takes", field=field
        ) from None
    return code if isinstance(code, int) else 0


# what a shell completes besides commands and options; nobody waits, so topics and ids are those in the names of files


class Value(click.types.StringParamType):
    """What can be completed of a parameter by its name."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Files, which the shell knows itself; topics or ids, of the newest records first."""
        from click.shell_completion import CompletionItem

        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        words = _topics if param.name in _TOPICS else _ids if param.name in _IDS else None
        named = words(_store(ctx.find_root().params), incomplete) if words else ()
        found = (
            one
            for one in named
            if all(part.isprintable() and re.fullmatch(_PLAIN, part or "_") for part in one)
        )
        return [CompletionItem(word, help=title) for word, title in islice(found, _MOST)]


def _store(given: Mapping[str, Any]) -> str:
    """The folder of records that a command line means, as far as names of folders show it."""
    here = (
        config.personal_folder() if given["personal"] else Path(given["folder"] or ".").absolute()
    )
    top = next((one for one in (here, *here.parents) if (one / ".git").exists()), here)
    return f"{top}/{given['store'] or config.load(top).store}"


def _records(store: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder below the store, and the records in it: the newest first, as folders and files are named by day."""
    for at, folders, names in os.walk(store):
        folders[:] = sorted((name for name in folders if name[0] != "."), reverse=True)
        yield (
            at[len(store) + 1 :],
            [name for name in names if name.endswith(".md") and name != "README.md"],
        )


def _ids(store: str, start: str) -> Iterator[tuple[str, str]]:
    """What names a record on the command line, its short id or else the name of its file; and its title."""
    for _, names in _records(store):
        for name in names:
            ours = re.search(_OURS, name)
            word = ours[2] if ours else name
            if word.startswith(start):
                yield word, ours[1] if ours else ""


def _topics(store: str, start: str) -> Iterator[tuple[str, str]]:
    """The topics of decisions, in the form in which no shell needs quotes; and the title of a decision."""
    told = set()
    for folder, names in _records(store):
        for name in names:
            topic = name.rpartition("--")[0]
            if (
                topic
                and topic not in told
                and topic.startswith(start)
                and (ours := re.search(_OURS, name))
            ):
                told.add(topic)
                yield _whole(f"{store}/{folder}/{name}", topic), ours[1]


def _whole(path: str, topic: str) -> str:
    """A topic as the file states it, if it may be cut in the name of the file."""
    if len(os.fsencode(topic)) < _LONG:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        stated = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", file.read(_HEAD))
    return (
        re.sub(r"[\s_\-/.:]+", "-", stated[1].decode(errors="replace").casefold()).strip("-")
        if stated
        else topic
    )
