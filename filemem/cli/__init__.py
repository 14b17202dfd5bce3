"""The command line, and the place where everything is wired together.

Command bodies import what they use, so that `--help` and a keyword search pay for nothing else. Data goes to stdout,
everything for the eye to stderr; every command that prints data has `--json`, the same object that MCP answers, a
failure included.
"""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filemem import VERSION
from filemem.ending import unwinding
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory

COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("save", "get", "update", "forget", "delete", "restore"), "filemem.cli.records"),
    **dict.fromkeys(("search", "why", "history", "topics", "checkpoint"), "filemem.cli.find"),
    **dict.fromkeys(("diff", "resolve"), "filemem.cli.review"),
    "check": "filemem.cli.gate",
    **dict.fromkeys(("init", "sync", "index", "watch", "serve", "status", "textconv"), "filemem.cli.care"),
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
        """Name a file as records do, from the top of the work tree; `path` is relative to the folder, as with Git.

        Raises:
            BadInput: it lies outside the work tree.
        """
        named = Path(os.path.normpath(self.folder.resolve() / path))
        if not named.is_relative_to(work_tree):  # by a link that leads to it, perhaps
            named = Path(os.path.realpath(named.parent), named.name)
        if not named.is_relative_to(work_tree):
            raise BadInput(f"{path} lies outside the work tree {work_tree}", "name a file of the project", field="path")
        return named.relative_to(work_tree).as_posix()

    def code(self, place: str, work_tree: Path) -> str:
        """Name a file of the code, or lines of it, as `from_top`; as it is given where it is only at the top."""
        file = place.partition("#")[0].partition(":")[0]
        above = not os.path.lexists(self.folder / file) and os.path.lexists(work_tree / file)
        return place if file and above else self.from_top(place, work_tree)

    def governed(self, path: str, work_tree: Path) -> str:
        """Name a file or glob as records do, where it is only there from the current folder; else as it is given."""
        plain = path.split("*")[0].split("?")[0].split("[")[0]
        fixed = plain if plain == path else plain.rpartition("/")[0]
        there = os.path.lexists  # unlike `Path.exists` it takes names of any length: no file has them
        if not fixed or there(work_tree / fixed) or not there(self.folder / fixed):
            return path
        return self.from_top(path, work_tree)

    def reference(self, text: str, work_tree: Path) -> str:
        """What names a record: an id as it is, a file that exists here as records name it."""
        if not text.endswith(".md") or not os.path.lexists(self.folder / text):
            return text
        # Not `from_top`: a memory that is attached in another work tree of the project stands outside this one.
        return Path(os.path.relpath(self.folder.resolve() / text, work_tree)).as_posix()

    @contextmanager
    def memory(self, *, look: bool = True) -> Iterator[Memory]:
        """Open the memory of this project, and close it at the end; `look` as `Memory.open` takes it."""
        from filemem.memory import Memory

        memory = Memory.open(self.folder, store=self.store, progress=Bar(), look=look)
        try:
            yield memory
        finally:
            memory.close()


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
    """A progress bar of indexing on stderr, drawn only on a terminal and only for many records.

    Call it with what is done and what there is in all.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if total < _MANY or not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = click.progressbar(length=total, label="indexing", file=sys.stderr)
        self._bar.update(done - self._done)
        self._done = done
        if done >= total:
            self._bar.render_finish()
            self._bar, self._done = None, 0


def teller() -> Callable[[str], object]:
    """What passes Git's progress on to stderr; where nobody looks, only what is waited for."""
    seen = sys.stderr.isatty()

    def tell(words: str) -> None:
        if seen or words.startswith("waiting for "):
            click.echo(words, err=True, nl=False)

    return tell


def emit(payload: Mapping[str, Any], as_json: bool, show: Callable[[Mapping[str, Any]], str]) -> None:
    """Print an answer: as JSON, or as `show` words it."""
    import json

    from filemem.cli.plain import plain

    click.echo(json.dumps(payload, ensure_ascii=False, indent=2) if as_json else show(plain(payload)))


class InOrder(click.Group):
    """Lists commands in the order of use, not of the alphabet."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)


class Commands(click.Group):
    """All of COMMANDS, each imported when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[name]), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say which command was probably meant where there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            raise BadInput(
                f"no command {args[0]!r}",
                f"did you mean {near[0]!r}?" if near else f"{ctx.command_path} --help lists them",
            )
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
    try:
        with unwinding():
            code = cli.main(standalone_mode=False)
    except FilememError as error:
        _tell(error)
        code = next(EXIT_CODES[kind] for kind in (*type(error).__mro__, BrokenStore) if kind in EXIT_CODES)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.ClickException as error:
        usage = error if isinstance(error, click.UsageError) else None
        context = usage.ctx.command_path if usage and usage.ctx else _named(sys.argv[1:])
        asking = isinstance(error, click.NoSuchOption) and context.endswith(" search")
        minus = "; put -- before a query that begins with a minus" if asking else ""
        front = _in_front(error.option_name, sys.argv[1:]) if isinstance(error, click.NoSuchOption) else ""
        hint = f"it stands before the command: {front}" if front else f"{context} --help tells what it takes{minus}"
        field = (error.param.name or "") if isinstance(error, click.BadParameter) and error.param else ""
        _tell(BadInput(error.format_message(), hint, field=field))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception:  # noqa: BLE001  the one place where a defect becomes a report instead of a traceback
        code = _crash()
    sys.exit(code if isinstance(code, int) else 0)


def _named(words: Sequence[str]) -> str:
    """The command that the words name: click does not say where an option lacks its value."""
    return " ".join(("filemem", *[word for word in words if word in COMMANDS][:1]))


def _in_front(option: str, words: Sequence[str]) -> str:
    """The command as it was meant, where an option of all commands stands behind one; "" for any other option."""
    meant = next((one for one in cli.params if option in one.opts), None)
    at = next((at for at, word in enumerate(words) if word.startswith(option)), None)
    if at is None or not isinstance(meant, click.Option):
        return ""
    end = at + (1 if meant.is_flag or words[at] != option else 2)
    return shlex.join(["filemem", *words[at:end], *words[:at], *words[end:]])


def _tell(error: FilememError) -> None:
    """Say what went wrong: to the eye on stderr; where JSON was asked for, as the object that MCP answers on stdout."""
    from filemem.cli.plain import plain

    if "--json" in sys.argv[1:]:
        import json

        from filemem.dialects.profiles import envelope

        click.echo(json.dumps(envelope(error), ensure_ascii=False, indent=2))
    error.message, error.hint = plain(error.message, "message"), plain(error.hint, "hint")
    click.echo(click.style("error: ", fg="red", bold=True) + error.message, err=True)
    if error.hint:
        click.echo(click.style("hint: ", fg="yellow") + error.hint, err=True)


def _crash() -> int:
    import traceback

    from filemem.report import crash_report

    path = crash_report(traceback.format_exc(), sys.argv)
    _tell(FilememError("a defect in filemem, not in what you did; nothing more was written", f"the report: {path}"))
    return CRASH
