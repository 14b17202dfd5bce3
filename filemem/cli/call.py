"""Calls of native tools for commands: their arguments, and their answers on the screen.

Rule: no click here, since plain `search`, `status` and `topics` run without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from filemem import query
from filemem.cli import show
from filemem.cli.project import Project, print_answer
from filemem.cli.score import iter_score_lines
from filemem.cli.state import render_status
from filemem.cli.text import Answer
from filemem.dialects import native
from filemem.errors import NotFound
from filemem.memory import Memory

_PATHS = frozenset(("affects", "files_modified", "files_read", "open_files", "path", "paths"))
_RECORDS = frozenset(("files", "id", "ids", "topic"))  # a value here may be the file of a record
_RECORD_FILES = (".md", ".adoc", ".rst")


def run_tool(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    renderer: Callable[[Answer], str] | None = None,
) -> Answer:
    """Call the native tool of that name, print its answer by `shape`, and return it."""
    answer = _collect_answer(verb, project, options)
    print_answer(answer, as_json, renderer or show.RENDERERS[verb])
    return answer


def _collect_answer(verb: str, project: Project, options: Mapping[str, Any]) -> Answer:
    """The answer of the memory at hand, and of an organisation's service where that is asked."""

    def call_local() -> Answer:
        with project.memory() as memory:
            return call_tool(verb, project, memory, options)

    if project.service is None:
        return _call_with_fallback(verb, project, options, call_local)
    if verb == "get":
        return project.service.ask(verb, _filter_options(options))
    from filemem.org import together

    return together.search(project.service, _filter_options(options), call_local)


def _call_with_fallback(
    verb: str, project: Project, options: Mapping[str, Any], call_local: Callable[[], Answer]
) -> Answer:
    """The answer of the memory at hand; a record that it lacks may be the organisation's."""
    try:
        return call_local()
    except NotFound:
        if verb != "get":
            raise
        from filemem.org import together

        answer = together.get(project.working_folder, options)
        if answer is None:
            raise
        return answer


def call_tool(verb: str, project: Project, memory: Memory, options: Mapping[str, Any]) -> Answer:
    """Call the native tool of that name with the options that are set."""

    def resolve_paths(name: str, value: Any) -> Any:
        """The value with its files as paths from the top of the work tree."""
        if isinstance(value, (list, tuple)):
            return [resolve_paths(name, item) for item in value]
        if name in _PATHS or (name in _RECORDS and value.endswith(_RECORD_FILES)):
            return project.resolve_path(value, memory.work_tree)
        return value

    arguments = {
        name: resolve_paths(name, value) for name, value in _filter_options(options).items()
    }
    answer: Answer = getattr(native, verb)(memory, arguments)
    return answer


def _filter_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set: no missing value, no switch that is off, no empty list."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }


def run_search(project: Project, as_json: bool, options: Mapping[str, Any]) -> None:
    """Search; `explain` and `oneline`: how it is shown. With a limit weak hits are shown too."""
    arguments = {"detail": True, **options}
    oneline = arguments.pop("oneline", False)
    explain = arguments.pop("explain", False)
    min_share = query.WEAK_SHARE if arguments.get("limit") is None else 0.0
    renderer = show.render_oneline if oneline else partial(show.render_search, min_share=min_share)
    if explain and not oneline:
        explain_hit = partial(iter_score_lines, mode=arguments.get("mode") or "hybrid")
        renderer = partial(show.render_search, min_share=min_share, explain_hit=explain_hit)
    run_tool("search", project, as_json, arguments, renderer)


def run_status(project: Project, as_json: bool, *, verbose: bool = False) -> None:
    """Show the state of the memory; `verbose`: with the index, and each record that is left."""
    run_tool("status", project, as_json, {}, partial(render_status, verbose=verbose))


def run_plain(command: str, options: dict[str, Any]) -> bool:
    """Do a search, or a status or topics without options; False for any other."""
    as_json = options.pop("json", False)
    if command == "search":
        run_search(Project(""), as_json, options)
        return True
    if options.pop("query") or options:
        return False
    if command == "status":
        run_status(Project(""), as_json)
    else:
        run_tool("topics", Project(""), as_json, {})
    return True
