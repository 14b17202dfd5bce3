"""Where a command works, and how it asks and prints: what all commands share, without click."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filemem.cli import show
from filemem.errors import BadInput

if TYPE_CHECKING:
    from filemem.memory import Memory

Answer = Mapping[str, Any]
_MANY = 200  # records whose indexing shows a bar


class Project:
    """Where a command works: the folder of `-C` and the store of `--store`."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        self.store = store

    @classmethod
    def at(cls, folder: str, store: str | None = None) -> Project:
        """The project of a folder as it is given. Raises BadInput if there is no such folder."""
        try:
            whole = Path(folder).absolute()  # now: a server must not look elsewhere once this folder is gone
        except FileNotFoundError:
            raise BadInput("the current folder was removed", "go to one that is there") from None
        if not whole.is_dir():
            raise BadInput(f"-C {folder}: no such folder")
        return cls(whole, store)

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


class Bar:
    """A progress bar of indexing on stderr, drawn only on a terminal and only for many records."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show what is done of what there is in all."""
        if total < _MANY or not sys.stderr.isatty():
            return
        import click

        self._bar = self._bar or click.progressbar(length=total, label="indexing", file=sys.stderr)
        self._bar.update(done - self._bar.pos)
        if done >= total:
            self._bar.render_finish()
            self._bar = None


def progress(said: str) -> None:
    """Pass Git's progress on to stderr; if nobody looks, only what is waited for."""
    if sys.stderr.isatty() or said.startswith("waiting for "):
        sys.stderr.write(said)
        sys.stderr.flush()


def emit(answer: Answer, as_json: bool, shape: Callable[[Answer], str] = str) -> None:
    """Print an answer: as JSON, or as `shape` words it."""
    text = json.dumps(answer, ensure_ascii=False, indent=2) if as_json else shape(show.plain(answer))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_PATHS = {
    **dict.fromkeys(("affects", "open_files", "files_read", "files_modified"), "governed"),
    **dict.fromkeys(("id", "ids", "files", "was", "topic_or_id"), "reference"),
    "path": "from_top",
    "place": "code",
}
"""Options that name files or records, and the way of `Project` to name them as the memory does."""
_ARGUMENTS = {"place": "path", "topic_or_id": "topic"}  # options that tools call otherwise


def perform(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    shape: Callable[[Answer], str] | None = None,
    **more: Any,
) -> Answer:
    """Do what a command asks for by the native tool of that name, print its answer as `shape` words it, return it."""
    from filemem.dialects import native

    with project.memory() as memory:
        given = {
            _ARGUMENTS.get(name, name): _named(project, name, value, memory.work_tree)
            for name, value in stated(options).items()
        }
        answer: Answer = getattr(native, verb)(memory, given, **more)
        emit(answer, as_json, shape or getattr(show, verb))
    return answer


def _named(project: Project, option: str, value: Any, work_tree: Path) -> Any:
    """The value of an option; of one that names files or records, each as the memory names it."""
    if option not in _PATHS:
        return value
    way = getattr(project, _PATHS[option])
    return [way(one, work_tree) for one in value] if isinstance(value, list) else way(value, work_tree)


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as tools take them: without those that were left out, and switches that are off."""
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != ()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
