"""The command line, and the place where everything is wired together.

Command bodies import what they use, so that `--help` and a keyword search pay for nothing else. Data goes to stdout,
everything for the eye to stderr; every command that prints data has `--json`, the same object that MCP answers, a
failure included.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem import VERSION
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory

COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("save", "get", "update", "forget", "delete", "restore", "adopt"), "filemem.cli.records"),
    **dict.fromkeys(("search", "why", "history", "topics", "checkpoint"), "filemem.cli.find"),
    "diff": "filemem.cli.gate",
    "resolve": "filemem.cli.records",
    "check": "filemem.cli.gate",
    **dict.fromkeys(("init", "sync", "index", "watch"), "filemem.cli.care"),
    "serve": "filemem.cli.web",
    "status": "filemem.cli.care",
    "web": "filemem.cli.web",
}
"""Command -> the module that has it under its name, in the order of use; only the one that is called is imported."""

EXIT_CODES: Mapping[type[FilememError], int] = {BadInput: 2, NotFound: 4, Conflict: 5, Locked: 6, BrokenStore: 7}
CRASH = 3
_MANY = 200  # records whose indexing shows a bar
_LIVE = 100_000  # objects made before the collector runs; after Python's 700 it runs over imports that stay for good


class Project:
    """Where a command works: the folder of `-C` and the store of `--store`."""

    def __init__(self, folder: Path, store: str | None) -> None:
        self.folder = folder
        self.store = store

    def from_top(self, path: str, work_tree: Path) -> str:
        """Name a file as records do, from the top of the work tree; `path` is relative to the folder, as with Git."""
        named = Path(os.path.normpath(self.folder.resolve() / path))
        if not named.is_relative_to(work_tree):  # by a link that leads to it, perhaps
            named = Path(os.path.realpath(named.parent), named.name)
        if not named.is_relative_to(work_tree):
            raise BadInput(f"{path} lies outside the work tree {work_tree}", "name a file of the project", field="path")
        return named.relative_to(work_tree).as_posix()

    def code(self, place: str, work_tree: Path) -> str:
        """Name a file of the code, or lines of it, as `from_top`; as it is given if it is only at the top."""
        file = place.partition("#")[0].partition(":")[0]
        return place if file and self._only_at(work_tree, self.folder, file) else self.from_top(place, work_tree)

    def governed(self, path: str, work_tree: Path) -> str:
        """Name a file or glob as records do, if it is only there from the current folder; else as it is given."""
        plain = re.split(r"[*?[]", path)[0]
        fixed = plain if plain == path else plain.rpartition("/")[0]
        return self.from_top(path, work_tree) if fixed and self._only_at(self.folder, work_tree, fixed) else path

    def reference(self, text: str, work_tree: Path) -> str:
        """What names a record: an id as it is, a file that exists here as records name it."""
        if not text.endswith(".md") or not os.path.lexists(self.folder / text):
            return text
        # Not `from_top`: a memory that is attached in another work tree of the project stands outside this one.
        return Path(os.path.relpath(self.folder.resolve() / text, work_tree)).as_posix()

    def _only_at(self, here: Path, there: Path, path: str) -> bool:
        return os.path.lexists(here / path) and not os.path.lexists(there / path)  # takes names of any length

    @contextmanager
    def memory(self, *, look: bool = True) -> Iterator[Memory]:
        """Open the memory of this project, and close it at the end; `look` as `Memory.open` takes it."""
        from filemem.memory import Memory

        with Memory.open(self.folder, store=self.store, progress=Bar(), look=look) as memory:
            yield memory


pass_project = click.make_pass_decorator(Project)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
as_of = click.option("--at", metavar="REV|DATE", help="As it was at this commit, tag, branch or date.")


def many(*names: str, help: str) -> Callable[[Any], Any]:  # noqa: A002  click's word
    """An option that may be given several times, and says so."""
    return click.option(*names, multiple=True, help=f"{help} May be repeated.")


def words(*names: str, help: str) -> Callable[[Any], Any]:  # noqa: A002  click's word
    """An option of words: several may stand in one, between commas."""
    joined = lambda _context, _option, given: ",".join(given) if given else None  # noqa: E731
    return click.option(*names, multiple=True, callback=joined, help=f"{help} Commas separate. May be repeated.")


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as tools take them: without those that were left out, and switches that are off."""
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != ()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


class Bar:
    """A progress bar of indexing on stderr, drawn only on a terminal and only for many records."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show what is done of what there is in all."""
        if total < _MANY or not sys.stderr.isatty():
            return
        self._bar = self._bar or click.progressbar(length=total, label="indexing", file=sys.stderr)
        self._bar.update(done - self._bar.pos)
        if done >= total:
            self._bar.render_finish()
            self._bar = None


def progress(said: str) -> None:
    """Pass Git's progress on to stderr; if nobody looks, only what is waited for."""
    if sys.stderr.isatty() or said.startswith("waiting for "):
        click.echo(said, err=True, nl=False)


def emit(payload: Mapping[str, Any], as_json: bool, show: Callable[[Mapping[str, Any]], str]) -> None:
    """Print an answer: as JSON, or as `show` words it."""
    import json

    from filemem.cli.show import plain

    click.echo(json.dumps(payload, ensure_ascii=False, indent=2) if as_json else show(plain(payload)))


_PATHS = {
    **dict.fromkeys(("affects", "open_files", "files_read", "files_modified"), "governed"),
    **dict.fromkeys(("id", "ids", "files", "was", "topic_or_id"), "reference"),
    "path": "from_top",
    "place": "code",
}
"""Options that name files or records, and the way of `Project` to name them as the memory does."""


def perform(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    shape: Callable[[Mapping[str, Any]], str] | None = None,
    **more: Any,
) -> Mapping[str, Any]:
    """Do what a command asks for by the native tool of that name, print its answer as `shape` words it, return it."""
    from filemem.cli import show
    from filemem.dialects import native

    with project.memory() as memory:
        given = stated(options)
        for name in _PATHS.keys() & given.keys():
            value, way = given.pop(name), getattr(project, _PATHS[name])
            several = isinstance(value, list)
            named = [way(one, memory.work_tree) for one in (value if several else [value])]
            given[{"place": "path", "topic_or_id": "topic"}.get(name, name)] = named if several else named[0]
        answer: Mapping[str, Any] = getattr(native, verb)(memory, given, **more)
        emit(answer, as_json, shape or getattr(show, verb))
    return answer


class InOrder(click.Group):
    """Lists commands in the order of use, not of the alphabet."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)


class Commands(click.Group):
    """All of COMMANDS, each imported when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        command: click.Command | None = getattr(import_module(COMMANDS[name]), name) if name in COMMANDS else None
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a command if there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"{ctx.command_path} --help lists them"
            raise BadInput(f"no command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="%(prog)s %(version)s")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path), default=Path(), help="Work in this folder, as in git -C."
)
@click.option("--store", help="Folder of records inside the work tree (default: memory, or as configured).")
@click.pass_context
def cli(ctx: click.Context, folder: Path, store: str | None) -> None:
    """Remember what was decided and why, in the project's own Git repository.

    Decisions, checkpoints and observations are Markdown files under memory/; each save is a commit.

    \b
    Examples:
      filemem save decision --topic caching --decision "Use an LRU cache" --reasoning "One process, no Redis to run"
      filemem search "how do we cache?"
      filemem history caching
    """
    try:
        whole = folder.absolute()  # now: a server must not look elsewhere once this folder is gone
    except FileNotFoundError:
        raise BadInput("the current folder was removed", "go to one that is there") from None
    if not whole.is_dir():
        raise BadInput(f"-C {folder}: no such folder")
    ctx.obj = Project(whole, store)


def main() -> None:
    """Run the command line; map failures to exit codes by EXIT_CODES."""
    gc.set_threshold(_LIVE)
    atexit.register(gc.freeze)  # else Python looks for garbage in all that was imported before it ends: 8 % of a search
    for name in ("SIGTERM", "SIGHUP"):
        with suppress(AttributeError, ValueError):  # not on Windows; not in this thread
            if signal.getsignal(number := getattr(signal, name)) is signal.SIG_DFL:
                signal.signal(number, _leave)
    try:
        code = cli.main(standalone_mode=False)
    except FilememError as error:
        _fail(error)
        code = next(EXIT_CODES[kind] for kind in (*type(error).__mro__, BrokenStore) if kind in EXIT_CODES)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.ClickException as error:
        _fail(_usage(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception:  # noqa: BLE001  the one place where a defect becomes a report instead of a traceback
        code = _crash()
    sys.exit(code if isinstance(code, int) else 0)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _usage(error: click.ClickException) -> BadInput:
    """What click refuses, with the command whose help to read, and the field at fault."""
    context = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else _named(sys.argv[1:])
    hint = f"{context} --help shows what it takes"
    if isinstance(error, click.NoSuchOption):
        if any(error.option_name in one.opts for one in cli.params):
            hint = f"it stands before the command: filemem {error.option_name} ... {context.rpartition(' ')[2]}"
        elif context.endswith(" search"):
            hint += "; put -- before a query that begins with a minus"
    field = (error.param.name or "") if isinstance(error, click.BadParameter) and error.param else ""
    return BadInput(error.format_message(), hint, field=field)


def _named(words: Sequence[str]) -> str:
    """The command that the words name: click does not report it if an option lacks its value."""
    return " ".join(("filemem", *[word for word in words if word in COMMANDS][:1]))


def _fail(error: FilememError) -> None:
    """Report what went wrong: for the eye on stderr; with --json as the object that MCP answers on stdout too."""
    from filemem.cli.show import plain

    if "--json" in sys.argv[1:]:
        import json

        from filemem.dialects.tool import envelope

        click.echo(json.dumps(envelope(error), ensure_ascii=False, indent=2))
    click.echo(click.style("error: ", fg="red", bold=True) + plain(error.message, "message"), err=True)
    if error.hint:
        click.echo(click.style("hint: ", fg="yellow") + plain(error.hint, "hint"), err=True)


def _crash() -> int:
    import traceback

    from filemem.errors import crash_report

    path = crash_report(traceback.format_exc(), sys.argv)
    _fail(FilememError("a defect in filemem, not in what you did; nothing more was written", f"the report: {path}"))
    return CRASH
