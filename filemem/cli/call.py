"""Call native tools for commands: build their arguments and print their answers.

Rule: no click here, since plain `search`, `status` and `topics` run without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filemem import query
from filemem.cli import show
from filemem.cli.project import Project, print_answer
from filemem.cli.state import render_status
from filemem.cli.text import Answer
from filemem.dialects import native
from filemem.errors import NotFound
from filemem.memory import Memory

_PATHS = frozenset(("affects", "files_modified", "files_read", "open_files", "path", "paths"))
_RECORDS = frozenset(("files", "id", "ids", "topic"))  # their values may be files of records
_RECORD_FILES = (".md", ".adoc", ".rst")


def run_tool(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    renderer: Callable[[Answer], str] | None = None,
) -> Answer:
    """Call the native tool `verb`, print its answer, and return it.

    Without `renderer`, the answer is printed as usual for the tool.
    """
    answer = _collect_answer(verb, project, options)
    print_answer(answer, as_json, renderer or show.RENDERERS[verb])
    return answer


def _collect_answer(verb: str, project: Project, options: Mapping[str, Any]) -> Answer:
    """Return the answer of this project's memory, or with `--org` that of the organisation too."""

    def call_local() -> Answer:
        with project.memory() as memory:
            return call_tool(verb, project, memory, options)

    if project.service is None:
        return _call_with_fallback(verb, project, options, call_local)
    arguments = _filter_options(options)
    if verb == "get":
        return project.service.ask(verb, arguments)
    from filemem.org import together

    return together.search(project.service, arguments, call_local)


def _call_with_fallback(
    verb: str, project: Project, options: Mapping[str, Any], call_local: Callable[[], Answer]
) -> Answer:
    """Return the answer of this project's memory; `get` falls back to the organisation's service.

    Raises NotFound if neither has the record.
    """
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
    """Call the native tool `verb` with the options that are set."""
    arguments = _filter_options(options)
    for name, value in arguments.items():
        arguments[name] = _resolve_paths(name, value, project, memory.work_tree)
    tool = getattr(native, verb)
    answer: Answer = tool(memory, arguments)
    return answer


def _resolve_paths(name: str, value: Any, project: Project, work_tree: Path) -> Any:
    """Return the value of an option with its files as paths from the top of the work tree."""
    if isinstance(value, (list, tuple)):
        return [_resolve_paths(name, item, project, work_tree) for item in value]
    is_record_file = name in _RECORDS and value.endswith(_RECORD_FILES)
    if name in _PATHS or is_record_file:
        return project.resolve_path(value, work_tree)
    return value


def _filter_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set: neither missing, nor a switch that is off, nor empty."""
    set_options: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value is False or value == ():
            continue
        set_options[name] = value
    return set_options


def run_search(project: Project, as_json: bool, options: Mapping[str, Any]) -> None:
    """Search, and print the results.

    `options` are the arguments of the tool, and `oneline` and `explain` for the output. Weak hits
    are only counted, unless a limit is set.
    """
    arguments: dict[str, Any] = {"detail": True}
    arguments.update(options)
    is_oneline = arguments.pop("oneline", False)
    is_explained = arguments.pop("explain", False)
    mode = arguments.get("mode") or "hybrid"
    min_share = query.WEAK_SHARE if arguments.get("limit") is None else 0.0

    def render_results(answer: Answer) -> str:
        if is_oneline:
            return show.render_oneline(answer)
        explained_mode = mode if is_explained else ""
        return show.render_search(answer, min_share=min_share, explained_mode=explained_mode)

    run_tool("search", project, as_json, arguments, render_results)


def run_status(project: Project, as_json: bool, *, verbose: bool = False) -> None:
    """Show the state of the memory; `verbose` adds the index and lists every record at fault."""

    def render_answer(answer: Answer) -> str:
        return render_status(answer, verbose=verbose)

    run_tool("status", project, as_json, {}, render_answer)


def run_plain(command: str, options: dict[str, Any]) -> bool:
    """Run a search, or status or topics without options. False for anything else: click runs it."""
    as_json = options.pop("json", False)
    if command == "search":
        run_search(Project(""), as_json, options)
        return True
    query_text = options.pop("query")
    if query_text or options:
        return False
    if command == "status":
        run_status(Project(""), as_json)
    else:
        run_tool("topics", Project(""), as_json, {})
    return True
