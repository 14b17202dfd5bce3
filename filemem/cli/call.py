"""Calls of native tools for commands: their arguments, and their answers on the screen.

Rule: no click here, since plain `search`, `status` and `topics` run without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from filemem import query
from filemem.cli import show
from filemem.cli.project import Project, emit
from filemem.cli.score import explained
from filemem.cli.state import state
from filemem.cli.text import Answer
from filemem.dialects import native
from filemem.errors import NotFound
from filemem.memory import Memory

_PATHS = frozenset(("affects", "files_modified", "files_read", "open_files", "path", "paths"))
_RECORDS = frozenset(("files", "id", "ids", "topic"))  # a value here may be the file of a record
_RECORD_FILES = (".md", ".adoc", ".rst")


def perform(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    shape: Callable[[Answer], str] | None = None,
) -> Answer:
    """Call the native tool of that name, print its answer by `shape`, and return it."""
    answer = _answer(verb, project, options)
    emit(answer, as_json, shape or show.RENDERERS[verb])
    return answer


def _answer(verb: str, project: Project, options: Mapping[str, Any]) -> Answer:
    """The answer of the memory at hand, and of an organisation's service where that is asked."""

    def local() -> Answer:
        with project.memory() as memory:
            return ask(verb, project, memory, options)

    if project.service is None:
        return _elsewhere(verb, project, options, local)
    if verb == "get":
        return project.service.ask(verb, _stated(options))
    from filemem.org import together

    return together.search(project.service, _stated(options), local)


def _elsewhere(
    verb: str, project: Project, options: Mapping[str, Any], local: Callable[[], Answer]
) -> Answer:
    """The answer of the memory at hand; a record that it lacks may be the organisation's."""
    try:
        return local()
    except NotFound:
        if verb != "get":
            raise
        from filemem.org import together

        answer = together.get(project.here, options)
        if answer is None:
            raise
        return answer


def ask(verb: str, project: Project, memory: Memory, options: Mapping[str, Any]) -> Answer:
    """Call the native tool of that name with the options that are set."""

    def from_top(name: str, value: Any) -> Any:
        """The value with its files as paths from the top of the work tree."""
        if isinstance(value, (list, tuple)):
            return [from_top(name, item) for item in value]
        if name in _PATHS or (name in _RECORDS and value.endswith(_RECORD_FILES)):
            return project.named(value, memory.work_tree)
        return value

    arguments = {name: from_top(name, value) for name, value in _stated(options).items()}
    answer: Answer = getattr(native, verb)(memory, arguments)
    return answer


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set: no missing value, no switch that is off, no empty list."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }


def search(project: Project, as_json: bool, options: Mapping[str, Any]) -> None:
    """Search; `explain` and `oneline`: how it is shown. With a limit weak hits are shown too."""
    arguments = {"detail": True, **options}
    oneline = arguments.pop("oneline", False)
    explain = arguments.pop("explain", False)
    share = query.WEAK if arguments.get("limit") is None else 0.0
    shape = show.one_line if oneline else partial(show.search, share=share)
    if explain and not oneline:
        reasons = partial(explained, mode=arguments.get("mode") or "hybrid")
        shape = partial(show.search, share=share, explain=reasons)
    perform("search", project, as_json, arguments, shape)


def status(project: Project, as_json: bool, *, verbose: bool = False) -> None:
    """Show the state of the memory; `verbose`: with the index, and each record that is left."""
    perform("status", project, as_json, {}, partial(state, verbose=verbose))


def plain(command: str, options: dict[str, Any]) -> bool:
    """Do a search, or a status or topics without options; False for any other."""
    as_json = options.pop("json", False)
    if command == "search":
        search(Project(""), as_json, options)
        return True
    if options.pop("query") or options:
        return False
    if command == "status":
        status(Project(""), as_json)
    else:
        perform("topics", Project(""), as_json, {})
    return True
